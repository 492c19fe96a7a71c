//! What the API server, its admission plugins and Kueue's webhook refuse, although each field has the right shape.
//!
//! The tables of fields name a rule for a part of an object. A rule is a table of refusals: whether it applies, the
//! field at fault, what is wrong, and what to write. A part that the check of its fields refused already can lack anything, so
//! a rule passes over what it cannot read. The rules are those of `pkg/apis/*/validation` of Kubernetes 1.35 and of
//! `pkg/webhooks` of Kueue. An object of a running cluster of that release breaks none of them.

mod amounts;
mod names;
mod objects;
mod pods;
mod queues;

pub use amounts::{node, resources};
pub use names::{container, name};
pub use objects::{
    budget, controller, device_constraint, failure_policy, job, priority_class, replicated_job, replication_controller,
    success_policy,
};
pub use pods::{
    affinity_term, node_field_requirement, node_requirement, node_selector, pod, requirement, spread, toleration,
};
pub use queues::{cluster_queue, cohort, resource_flavor, topology};

use dryrack_yaml::{Node, Report, Span, Tree};

/// Reports what is refused in a part of an object.
pub type Rule = fn(&Tree, &mut Report);

/// One refusal: whether it applies, the field at fault, what is wrong, and what to write instead.
type Refusal<'a> = (bool, &'a str, &'a str, &'a str);

/// Reports the refusals that apply.
fn refuse(tree: &Tree, refusals: &[Refusal<'_>], report: &mut Report) {
    for (_, key, message, help) in refusals.iter().filter(|(applies, ..)| *applies) {
        report.error_with_help(place(tree, key), *message, *help);
    }
}

/// The place of a field, or of the first field if there is no such field.
fn place(tree: &Tree, key: &str) -> Span {
    match (tree.get(key), &tree.node) {
        (Some(field), _) if matches!(field.node, Node::Scalar { .. }) => field.span,
        (_, Node::Map(entries)) => {
            let entry = entries.iter().find(|entry| entry.key == key).or(entries.first());
            entry.map_or(tree.span.start(), |entry| entry.key_span)
        }
        _ => tree.span.start(),
    }
}

/// A text of the part, which is empty if it is absent.
fn text<'t>(tree: &'t Tree, key: &str) -> &'t str {
    tree.get(key).and_then(Tree::scalar).unwrap_or_default()
}

/// The entries of a list of the part.
fn list<'t>(tree: &'t Tree, key: &str) -> &'t [Tree] {
    match tree.get(key).map(|list| &list.node) {
        Some(Node::List(items)) => items,
        _ => &[],
    }
}

/// The keys of a map of the part, with their places and values.
fn map<'t>(tree: &'t Tree, key: &str) -> impl Iterator<Item = (&'t str, Span, &'t Tree)> + Clone {
    let entries: &[_] = match tree.get(key).map(|map| &map.node) {
        Some(Node::Map(entries)) => entries,
        _ => &[],
    };
    entries.iter().map(|entry| (entry.key.as_str(), entry.key_span, &entry.value))
}

/// Whether the field is stated.
fn has(tree: &Tree, key: &str) -> bool {
    tree.get(key).is_some_and(|value| !value.is_nothing())
}

#[cfg(test)]
mod tests;
