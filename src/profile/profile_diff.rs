//! Finds the options in which a profile differs from its base, and can reset one of them to the base.
//!
//! An option is a leaf of the data, named by the keys that lead to it: `commit.recheck`. A stage in a list is named by
//! its stage: `scheduler.filters.ready.unless`. Any other list is one option. If the stages of a list are in another
//! order than in the base, the order is one option too. In such a list, each stage that is an expression is also an option
//! of its own. A loop of a server is also one option, because its rounds, its batch and its intervals belong together:
//! `flow.polled.loops.polled.submitted`.

use dryrack_yaml::{Entry, Node, Tree};

/// Keys that identify a profile and do not affect decisions. `historic` only permits certain settings, which are
/// options themselves.
const NOT_OPTIONS: [&str; 3] = ["name", "title", "historic"];

/// The keys under which a stage has its name. A stage with an expression has it under the key for its kind.
pub(super) const NAME_KEYS: [&str; 4] = ["stage", "filter", "score", "order"];

/// Each key below this path is one option, for any kind of value.
const LOOPS: &str = "flow.polled.loops.polled";

/// The options in which `profile` differs from `base`: first in the order of the profile's data, then those that only
/// the base has.
pub(super) fn differences(profile: &Tree, base: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let (above, below) = (entries(profile), entries(base));
    for key in union(above.iter().map(|entry| entry.key.as_str()), below.iter().map(|entry| entry.key.as_str())) {
        if !NOT_OPTIONS.contains(&key) {
            differ(key, profile.get(key), base.get(key), &mut found);
        }
    }
    found
}

fn differ(path: &str, above: Option<&Tree>, below: Option<&Tree>, found: &mut Vec<String>) {
    let (Some(above), Some(below)) = (above, below) else {
        if above.is_some() || below.is_some() {
            found.push(path.to_string());
        }
        return;
    };
    if above.is_alike(below) {
        return;
    }
    let is_loop = path.rsplit_once('.').is_some_and(|(parent, _)| parent == LOOPS);
    if let (Node::Map(one), Node::Map(two), false) = (&above.node, &below.node, is_loop) {
        for key in union(one.iter().map(|entry| entry.key.as_str()), two.iter().map(|entry| entry.key.as_str())) {
            differ(&format!("{path}.{key}"), above.get(key), below.get(key), found);
        }
        return;
    }
    match (stages(above), stages(below)) {
        (Some(one), Some(two)) if have_one_order(&one, &two) => {
            for stage in union(one.iter().copied(), two.iter().copied()) {
                differ(&format!("{path}.{stage}"), item(above, stage), item(below, stage), found);
            }
        }
        _ => {
            let own =
                expressions(above).filter(|(name, stage)| item(below, name).is_none_or(|other| !stage.is_alike(other)));
            found.extend(own.map(|(name, _)| format!("{path}.{name}")));
            found.push(path.to_string());
        }
    }
}

/// The stages of a list that are expressions, with their names.
fn expressions(list: &Tree) -> impl Iterator<Item = (&str, &Tree)> {
    let items = match &list.node {
        Node::List(items) => items.as_slice(),
        Node::Map(_) | Node::Scalar { .. } => &[],
    };
    let is_own = |stage: &&Tree| stage.get("unless").or(stage.get("is")).is_some() && stage.get("stage").is_none();
    items.iter().filter(is_own).filter_map(|item| Some((stage(item)?, item)))
}

/// Replaces the option at `path` with the base's value, or removes it if the base has none.
pub(super) fn set_back(profile: &mut Tree, base: &Tree, path: &str) {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let below = child(base, step);
    match (rest, child_mut(profile, step), below) {
        (Some(rest), Some(above), Some(below)) => set_back(above, below, rest),
        (_, Some(above), Some(below)) => *above = below.clone(),
        (_, Some(_), None) => remove(profile, step),
        (_, None, Some(_)) => insert(profile, base, step),
        (_, None, None) => {}
    }
}

fn remove(tree: &mut Tree, step: &str) {
    match &mut tree.node {
        Node::Map(entries) => entries.retain(|entry| entry.key != step),
        Node::List(items) => items.retain(|item| stage(item) != Some(step)),
        Node::Scalar { .. } => {}
    }
}

/// Inserts the base's entry for `step`. A stage is inserted after the last stage that precedes it in the base.
fn insert(tree: &mut Tree, base: &Tree, step: &str) {
    match (&mut tree.node, &base.node) {
        (Node::Map(entries), Node::Map(below)) => {
            entries.extend(below.iter().filter(|entry| entry.key == step).cloned());
        }
        (Node::List(items), Node::List(below)) => {
            let Some(at) = below.iter().position(|item| stage(item) == Some(step)) else { return };
            let before = |item: &Tree| below[..at].iter().any(|known| stage(known) == stage(item));
            let place = items.iter().rposition(before).map_or(0, |last| last + 1);
            items.insert(place, below[at].clone());
        }
        _ => {}
    }
}

fn entries(tree: &Tree) -> &[Entry] {
    match &tree.node {
        Node::Map(entries) => entries,
        Node::List(_) | Node::Scalar { .. } => &[],
    }
}

fn child<'t>(tree: &'t Tree, step: &str) -> Option<&'t Tree> {
    match &tree.node {
        Node::Map(_) => tree.get(step),
        Node::List(_) => item(tree, step),
        Node::Scalar { .. } => None,
    }
}

fn child_mut<'t>(tree: &'t mut Tree, step: &str) -> Option<&'t mut Tree> {
    match &mut tree.node {
        Node::Map(entries) => entries.iter_mut().find(|entry| entry.key == step).map(|entry| &mut entry.value),
        Node::List(items) => items.iter_mut().find(|item| stage(item) == Some(step)),
        Node::Scalar { .. } => None,
    }
}

fn stage(item: &Tree) -> Option<&str> {
    name_of(item).and_then(Tree::scalar)
}

/// The name of a stage in a list.
pub(super) fn name_of(item: &Tree) -> Option<&Tree> {
    NAME_KEYS.iter().find_map(|key| item.get(key))
}

fn item<'t>(list: &'t Tree, wanted: &str) -> Option<&'t Tree> {
    match &list.node {
        Node::List(items) => items.iter().find(|item| stage(item) == Some(wanted)),
        Node::Map(_) | Node::Scalar { .. } => None,
    }
}

/// The names of the stages in a list of stages; `None` for any other value.
fn stages(tree: &Tree) -> Option<Vec<&str>> {
    match &tree.node {
        Node::List(items) => items.iter().map(stage).collect(),
        Node::Map(_) | Node::Scalar { .. } => None,
    }
}

/// Whether the stages that both lists contain are in the same order.
fn have_one_order(one: &[&str], two: &[&str]) -> bool {
    let shared = |of: &[&str], with: &[&str]| -> Vec<String> {
        of.iter().filter(|stage| with.contains(stage)).map(|stage| (*stage).to_string()).collect()
    };
    shared(one, two) == shared(two, one)
}

fn union<'n>(one: impl Iterator<Item = &'n str>, two: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut all: Vec<&str> = Vec::new();
    for name in one.chain(two) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_yaml::{Report, parse};

    fn tree(text: &str) -> Tree {
        let mut report = Report::default();
        let source = report.add_source("text", text);
        parse(text, source, &mut report).expect("it is YAML")
    }

    const BASE: &str = "{name: a, s: {f: [{stage: x}, {stage: y}, {stage: z}], order: [p, q]}, c: {r: true, n: 3}}";

    #[test]
    fn each_option_is_named_and_can_be_set_back() {
        let rows: [(&str, &str, &[&str]); 8] = [
            (
                "the name is no option",
                "{name: b, s: {f: [{stage: x}, {stage: y}, {stage: z}], order: [p, q]}, c: {r: true, n: 3}}",
                &[],
            ),
            ("a value", "{s: {f: [{stage: x}, {stage: y}, {stage: z}], order: [p, q]}, c: {r: false, n: 3}}", &["c.r"]),
            (
                "a value that is left out",
                "{s: {f: [{stage: x}, {stage: y}, {stage: z}], order: [p, q]}, c: {r: true}}",
                &["c.n"],
            ),
            (
                "an option of a stage",
                "{s: {f: [{stage: x}, {stage: y, unless: w}, {stage: z}], order: [p, q]}, c: {r: true, n: 3}}",
                &["s.f.y.unless"],
            ),
            (
                "a stage that is left out",
                "{s: {f: [{stage: x}, {stage: z}], order: [p, q]}, c: {r: true, n: 3}}",
                &["s.f.y"],
            ),
            (
                "a stage more",
                "{s: {f: [{stage: w}, {stage: x}, {stage: y}, {stage: z}], order: [p, q]}, c: {r: true, n: 3}}",
                &["s.f.w"],
            ),
            (
                "another order of stages",
                "{s: {f: [{stage: z}, {stage: x}, {stage: y}], order: [p, q]}, c: {r: true, n: 3}}",
                &["s.f"],
            ),
            (
                "another list, and something more",
                "{s: {f: [{stage: x}, {stage: y}, {stage: z}], order: [q]}, c: {r: true, n: 3}, d: 1}",
                &["s.order", "d"],
            ),
        ];
        let base = tree(BASE);
        for (sentence, text, expected) in rows {
            let mut profile = tree(text);
            assert_eq!(differences(&profile, &base), expected, "{sentence}");
            for path in expected {
                set_back(&mut profile, &base, path);
            }
            assert!(differences(&profile, &base).is_empty(), "{sentence}");
        }
    }
}
