//! Label and field selectors of lists and watches.

use serde_json::Value;

use super::fault::Fault;

/// The conditions that an object must meet to be listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Condition>,
    fields: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    key: String,
    is: Is,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Is {
    In(Vec<String>),
    NotIn(Vec<String>),
    Present,
    Absent,
}

/// The fields by which objects of a kind can be selected, besides name and namespace.
fn fields(kind: &str) -> &'static [&'static str] {
    match kind {
        "Pod" => &[
            "spec.nodeName",
            "spec.schedulerName",
            "spec.restartPolicy",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "Node" => &["spec.unschedulable"],
        "Namespace" => &["status.phase"],
        "ResourceSlice" => &["spec.nodeName", "spec.driver"],
        "Event" => &["type", "reason", "involvedObject.kind", "involvedObject.name", "involvedObject.uid"],
        _ => &[],
    }
}

impl Selector {
    pub(crate) fn parse(kind: &str, labels: Option<&str>, fields: Option<&str>) -> Result<Selector, Fault> {
        let labels = labels.map_or(Ok(Vec::new()), parse_labels)?;
        let fields = fields.map_or(Ok(Vec::new()), |text| parse_fields(kind, text))?;
        Ok(Selector { labels, fields })
    }

    /// The label selector of an object, such as that of a disruption budget. `None` if it cannot be read.
    pub(crate) fn of_object(selector: &Value) -> Option<Selector> {
        let mut labels = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            labels.push(Condition { key: key.clone(), is: Is::In(vec![value.as_str()?.to_owned()]) });
        }
        for requirement in selector["matchExpressions"].as_array().into_iter().flatten() {
            let values = requirement["values"].as_array().into_iter().flatten();
            let values: Vec<String> = values.map(|value| value.as_str().map(str::to_owned)).collect::<Option<_>>()?;
            let is = match requirement["operator"].as_str()? {
                "In" => Is::In(values),
                "NotIn" => Is::NotIn(values),
                "Exists" => Is::Present,
                "DoesNotExist" => Is::Absent,
                _ => return None,
            };
            labels.push(Condition { key: requirement["key"].as_str()?.to_owned(), is });
        }
        Some(Selector { labels, fields: Vec::new() })
    }

    pub(crate) fn selects(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
        self.labels.iter().all(|condition| condition.holds(label(&condition.key)))
            && self.fields.iter().all(|condition| condition.holds(Some(&field(object, &condition.key))))
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        let is_one_of = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        match &self.is {
            Is::In(values) => is_one_of(values),
            Is::NotIn(values) => !is_one_of(values),
            Is::Present => value.is_some(),
            Is::Absent => value.is_none(),
        }
    }
}

/// The text of a field. An absent field is empty, or `false`.
fn field(object: &Value, path: &str) -> String {
    let found = path.split('.').fold(object, |value, step| &value[step]);
    match found {
        Value::String(text) => text.clone(),
        Value::Bool(is) => is.to_string(),
        Value::Null if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn parse_fields(kind: &str, text: &str) -> Result<Vec<Condition>, Fault> {
    let known = |key: &str| matches!(key, "metadata.name" | "metadata.namespace") || fields(kind).contains(&key);
    let parse = |part: &str| {
        let condition = equality(part)
            .ok_or_else(|| Fault::BadRequest(format!("invalid field selector {text:?}: {part:?} is no comparison")))?;
        match known(&condition.key) {
            true => Ok(condition),
            false => Err(Fault::BadRequest(format!("field label not supported: {} of {kind}", condition.key))),
        }
    };
    text.split(',').filter(|part| !part.is_empty()).map(parse).collect()
}

/// `key=value`, `key==value` or `key!=value`.
fn equality(part: &str) -> Option<Condition> {
    let condition = |key: &str, is| Some(Condition { key: key.trim().to_owned(), is });
    if let Some((key, value)) = part.split_once("!=") {
        return condition(key, Is::NotIn(vec![value.trim().to_owned()]));
    }
    let (key, value) = part.split_once("==").or_else(|| part.split_once('='))?;
    condition(key, Is::In(vec![value.trim().to_owned()]))
}

fn parse_labels(text: &str) -> Result<Vec<Condition>, Fault> {
    let parts = split_outside_parentheses(text);
    let parse = |part: &&str| {
        parse_label(part.trim()).ok_or_else(|| {
            Fault::BadRequest(format!("unable to parse requirement {part:?} of label selector {text:?}"))
        })
    };
    parts.iter().filter(|part| !part.trim().is_empty()).map(parse).collect()
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0i32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_label(part: &str) -> Option<Condition> {
    if let Some(set) = part.strip_suffix(')') {
        let (head, values) = set.split_once('(')?;
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let words: Vec<&str> = head.split_whitespace().collect();
        return match words[..] {
            [key, "in"] => Some(Condition { key: key.to_owned(), is: Is::In(values) }),
            [key, "notin"] => Some(Condition { key: key.to_owned(), is: Is::NotIn(values) }),
            _ => None,
        };
    }
    if let Some(condition) = equality(part) {
        return Some(condition);
    }
    let (key, is) = match part.strip_prefix('!') {
        Some(key) => (key.trim(), Is::Absent),
        None => (part, Is::Present),
    };
    let is_key = !key.is_empty() && !key.contains(|letter: char| letter.is_whitespace() || "()<>".contains(letter));
    is_key.then(|| Condition { key: key.to_owned(), is })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Selector;

    fn selects(labels: &str, fields: &str) -> bool {
        let pod = json!({
            "metadata": {"name": "a", "labels": {"app": "web", "tier": "1"}},
            "spec": {"schedulerName": "default-scheduler"},
            "status": {"phase": "Pending"},
        });
        Selector::parse("Pod", Some(labels), Some(fields)).unwrap().selects(&pod)
    }

    #[test]
    fn labels_are_selected_as_in_kubernetes() {
        for (labels, expected) in [
            ("app=web", true),
            ("app==web,tier!=2", true),
            ("app in (api, web),tier", true),
            ("app notin (web)", false),
            ("other notin (web)", true),
            ("!other", true),
            ("!app", false),
            ("other", false),
            ("", true),
        ] {
            assert_eq!(selects(labels, ""), expected, "{labels}");
        }
    }

    #[test]
    fn fields_are_selected_as_in_kubernetes() {
        for (fields, expected) in [
            ("status.phase!=Succeeded,status.phase!=Failed", true),
            ("spec.nodeName=", true),
            ("spec.nodeName!=", false),
            ("metadata.name=a", true),
            ("metadata.name=b", false),
        ] {
            assert_eq!(selects("", fields), expected, "{fields}");
        }
    }

    #[test]
    fn selectors_that_cannot_be_read_are_faults() {
        for (labels, fields) in [("app in web", ""), ("a b", ""), ("", "spec.colour=red"), ("", "spec.nodeName")] {
            assert!(Selector::parse("Pod", Some(labels), Some(fields)).is_err(), "{labels} {fields}");
        }
    }
}
