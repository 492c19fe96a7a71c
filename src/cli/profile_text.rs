//! A profile as readable text: its file merged with its bases, and a sentence after each stage.

use dryrack_scheduler::{OrderKey, ScorerName};
use serde_json::{Map, Value};

/// A list or map wider than this is written over several lines.
const WIDTH: usize = 100;
/// Keys whose lists hold stages. The stages run in the order of the list.
const STAGED: [&str; 6] = ["filters", "scorers", "generators", "stages", "order", "plan_order"];

/// Descriptions of stages other than scorers and the keys of the queue's order.
const STAGES: [(&str, &str); 34] = [
    ("picked", "only the nodes picked by hand, if any"),
    ("labels", "nodes with the required labels"),
    ("ready", "nodes that are ready"),
    ("ready_unless_picked_on_several", "nodes that are ready, or all nodes if GPUs of several nodes were picked"),
    ("compatible", "nodes and GPUs of the required kind; for a model, see `dryrack catalog compatibility`"),
    ("runner", "nodes with a kind of GPU that an image of the backend supports"),
    ("resources", "nodes with enough free resources"),
    ("picked_all", "all picked GPUs, whether they fit or not"),
    ("picked_some", "as many of the picked GPUs as a replica takes, whether they fit or not"),
    ("single_gpu", "one GPU"),
    ("largest_gpus", "GPUs of one node, most free first, until there are enough"),
    ("node_prefix", "all GPUs of one node after another, until there are enough"),
    ("similar_gpus", "GPUs of one node with similar free memory, until there are enough"),
    ("similar_nodes", "all GPUs of one node after another, if enough of them have similar free memory"),
    ("even_gpus", "the fewest GPUs of one node that each can hold an equal part"),
    ("even_nodes", "all GPUs of the fewest nodes that each can hold an equal part"),
    ("whole_on_gpu", "all layers on one GPU"),
    ("whole_on_gpus", "all layers on the fewest GPUs of one node"),
    ("part_on_gpus", "as many layers as fit on GPUs of one node, the rest in RAM"),
    ("in_ram", "all layers in RAM"),
    ("price", "cheaper first"),
    ("unsplit_first", "whole hosts before slices"),
    ("split_first", "slices before whole hosts"),
    ("in_use_first", "hosts in use first"),
    ("smallest_slice", "smaller slices first"),
    ("NodeUnschedulable", "nodes that are not cordoned"),
    ("NodeName", "the node that the pod names, if it names one"),
    ("TaintToleration", "nodes whose taints the pod tolerates"),
    ("NodeAffinity", "nodes that the pod's selector and affinity match"),
    ("NodePorts", "nodes on which the pod's host ports are free"),
    ("NodeResourcesFit", "nodes with enough free resources for the pod's requests"),
    ("PodTopologySpread", "nodes on which the pod's spread constraints hold"),
    ("InterPodAffinity", "nodes that suit the affinity of the pod and of other pods"),
    ("DynamicResources", "nodes with devices for the pod's claims"),
];

/// The profile in the form of a profile file. The text can be saved and used as a profile.
pub fn profile_text(profile: &Value) -> String {
    let mut text = String::new();
    if let Value::Object(map) = profile {
        write_map(&mut text, map, 0);
    }
    text
}

pub fn sentence(stage: &str) -> Option<&'static str> {
    let other = STAGES.iter().find(|(name, _)| *name == stage).map(|(_, said)| *said);
    let scorer = ScorerName::ALL.iter().find(|scorer| scorer.name() == stage).map(|scorer| scorer.describe());
    let key = OrderKey::ALL.iter().find(|key| key.name() == stage).map(|key| key.describe());
    other.or(scorer).or(key)
}

fn write_map(text: &mut String, map: &Map<String, Value>, depth: usize) {
    let indent = "  ".repeat(depth);
    for (key, value) in map {
        match value {
            Value::Array(stages) if STAGED.contains(&&**key) && !stages.is_empty() => {
                text.push_str(&format!("{indent}{key}:\n"));
                stages.iter().for_each(|stage| write_stage(text, stage, depth + 1));
            }
            Value::Object(inner) if !inner.is_empty() && (depth == 0 || !fits(depth, key, value)) => {
                text.push_str(&format!("{indent}{key}:\n"));
                write_map(text, inner, depth + 1);
            }
            Value::Array(items) if !fits(depth, key, value) => {
                text.push_str(&format!("{indent}{key}:\n"));
                items.iter().for_each(|item| text.push_str(&format!("{indent}  - {item}\n", item = flow(item))));
            }
            Value::String(long) if !fits(depth, key, value) => {
                text.push_str(&quoted(&format!("{indent}{key}: "), long))
            }
            _ => text.push_str(&format!("{indent}{key}: {}\n", flow(value))),
        }
    }
}

/// A long text in quotes, over several lines. YAML reads each line break within quotes as a space.
fn quoted(head: &str, text: &str) -> String {
    let quoted = Value::from(text).to_string();
    let indent = " ".repeat(head.len() - head.trim_start().len() + 2);
    let (mut lines, mut line) = (String::new(), head.to_string());
    for (number, word) in quoted.split(' ').enumerate() {
        // A break beside an empty word would lose a space.
        if number > 0 && !word.is_empty() && !line.ends_with(' ') && line.len() + 1 + word.len() > WIDTH {
            lines.push_str(&format!("{line}\n"));
            line = format!("{indent}{word}");
        } else {
            line.push_str(if number > 0 { " " } else { "" });
            line.push_str(word);
        }
    }
    format!("{lines}{line}\n")
}

fn fits(depth: usize, key: &str, value: &Value) -> bool {
    2 * depth + key.len() + 2 + flow(value).len() <= WIDTH
}

fn write_stage(text: &mut String, stage: &Value, depth: usize) {
    let name = match stage {
        Value::Object(map) => map.get("stage").or_else(|| map.get("name")).and_then(Value::as_str),
        other => other.as_str(),
    };
    let line = format!("{}- {}", "  ".repeat(depth), flow(stage));
    match name.and_then(sentence).map(|said| (said, format!("{line:<44}  # {said}"))) {
        None => text.push_str(&format!("{line}\n")),
        Some((_, whole)) if whole.chars().count() <= WIDTH => text.push_str(&format!("{whole}\n")),
        Some((said, _)) => text.push_str(&format!("{}# {said}\n{line}\n", "  ".repeat(depth))),
    }
}

/// A value on one line, as JSON without the quotes that YAML does not need. JSON is valid YAML.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let parts: Vec<String> = map.iter().map(|(key, value)| format!("{key}: {}", flow(value))).collect();
            format!("{{{}}}", parts.join(", "))
        }
        other => other.to_string(),
    }
}

/// Whether YAML reads the unquoted word as the same text.
fn is_plain(text: &str) -> bool {
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic());
    let holds = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter));
    let is_word = !["null", "true", "false", "yes", "no", "on", "off", "y", "n"].contains(&&*text.to_lowercase());
    begins && holds && is_word
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_profile::{load_profile, profile_names};
    use std::path::Path;

    fn stages(value: &Value, found: &mut Vec<String>) {
        let Value::Object(map) = value else { return };
        for (key, value) in map {
            if let (true, Value::Array(items)) = (STAGED.contains(&&**key), value) {
                let name = |item: &Value| item.as_str().or_else(|| item.get("stage")?.as_str()).map(str::to_string);
                found.extend(items.iter().filter_map(name));
            }
            stages(value, found);
        }
    }

    #[test]
    fn every_stage_of_every_profile_has_its_sentence_and_the_text_reads_back() {
        for name in profile_names() {
            let profile = load_profile(name, Path::new("")).expect("it comes with dryrack");
            let value = profile.to_data();
            let mut found = Vec::new();
            stages(&value, &mut found);
            assert!(!found.is_empty(), "{name}");
            found.iter().for_each(|stage| assert!(sentence(stage).is_some(), "{stage} of {name}"));
            let dir = tempfile::tempdir().expect("a folder");
            let path = dir.path().join("copy.profile.yaml");
            std::fs::write(&path, profile_text(&value)).expect("it can be written");
            let again = load_profile(&path.display().to_string(), Path::new(""));
            assert_eq!(again.unwrap_or_else(|faults| panic!("{name}: {faults}")), profile);
        }
    }
}
