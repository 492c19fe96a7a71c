//! Compares two complete profiles. Lists each option that differs, with both values.
//!
//! It compares the meaning of the files after they are merged with their bases, so `60s` and `1m` are equal.

use serde::Serialize;
use serde_json::Value;

use super::profile_diff::{NAME_KEYS, differences};
use dryrack_control::Profile;
use dryrack_yaml::{Entry, Node, Report, Span, Tree};

/// An option in which two profiles differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptionDifference {
    /// The keys that lead to the option, with stages by their names: `scheduler.filters.ready.unless`.
    pub option: String,
    /// The value in the first profile; `None` if this profile does not have the option.
    pub left: Option<Value>,
    /// The value in the second profile.
    pub right: Option<Value>,
}

/// The options in which two profiles differ, in the order of the first profile's data. Options that only the second
/// profile has come last. Name, title and `historic` are not compared, because they do not affect decisions.
pub fn compare_profiles(left: &Profile, right: &Profile) -> Vec<OptionDifference> {
    let value = |profile: &Profile| profile.to_data();
    let (left, right) = (value(left), value(right));
    let nowhere = Report::default().add_source("", "").start();
    let paths = differences(&tree(&left, nowhere), &tree(&right, nowhere));
    let side = |of: &Value, path: &str| at(of, path).cloned();
    paths
        .into_iter()
        .map(|option| OptionDifference { left: side(&left, &option), right: side(&right, &option), option })
        .collect()
}

fn tree(value: &Value, span: Span) -> Tree {
    let scalar = |text: String, quoted: bool| Node::Scalar { text, quoted };
    let node = match value {
        Value::Null => scalar("null".to_string(), false),
        Value::Bool(_) | Value::Number(_) => scalar(value.to_string(), false),
        Value::String(text) => scalar(text.clone(), true),
        Value::Array(items) => Node::List(items.iter().map(|item| tree(item, span)).collect()),
        Value::Object(entries) => {
            let entry =
                |(key, value): (&String, &Value)| Entry { key: key.clone(), key_span: span, value: tree(value, span) };
            Node::Map(entries.iter().map(entry).collect())
        }
    };
    Tree { span, node }
}

/// The value at a path. The name of a stage or of a project may have a dot, so each dot may or may not end a step.
fn at<'v>(of: &'v Value, path: &str) -> Option<&'v Value> {
    let below = |(dot, _)| at(child(of, &path[..dot])?, &path[dot + 1..]);
    child(of, path).or_else(|| path.match_indices('.').find_map(below))
}

fn child<'v>(of: &'v Value, step: &str) -> Option<&'v Value> {
    let is_named = |item: &&Value| NAME_KEYS.iter().find_map(|key| item.get(key)).is_some_and(|name| name == step);
    match of {
        Value::Array(items) => items.iter().find(is_named),
        other => other.get(step),
    }
}
