//! One more workload from a file of its own: a manifest goes to `files:`, and a job to `jobs:`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::options::AddedWorkload;
use dryrack_yaml::{Entry, Node, Report, Span, Tree, parse_documents};

/// Adds the workload to the tree of a scenario. Returns whether the tree has changed.
pub(in super::super) fn add(tree: &mut Tree, added: &AddedWorkload, report: &mut Report) -> bool {
    let source = report.add_source(added.path.display().to_string(), Arc::clone(&added.text));
    let Some(documents) = parse_documents(&added.text, source, report) else { return false };
    let is_manifest = |tree: &Tree| tree.get("apiVersion").is_some() || tree.get("kind").is_some();
    let span = source.start();
    let at = added.at.map(|at| ("at", scalar(&at.to_string(), span)));
    if documents.iter().any(is_manifest) {
        let path = absolute(&added.path).display().to_string();
        let parts = std::iter::once(("path", scalar(&path, span))).chain(at);
        push(tree, "files", map(span, parts.collect()), span);
        return true;
    }
    let [job] = &documents[..] else {
        let message = "expected one workload: a manifest, or a job such as `{name: train, queue: team-a, gpus: 8}`";
        report.error_with_help(span, message, "write one object into the file");
        return false;
    };
    let mut job = job.clone();
    if let (Node::Map(entries), Some((_, value))) = (&mut job.node, at)
        && !entries.iter().any(|entry| entry.key == "at")
    {
        entries.push(Entry { key: "at".to_string(), key_span: span, value });
    }
    push(tree, "jobs", job, span);
    true
}

/// The path by which `files:` names the file of the workload.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

fn scalar(text: &str, span: Span) -> Tree {
    Tree { span, node: Node::Scalar { text: text.to_string(), quoted: true } }
}

fn map(span: Span, parts: Vec<(&str, Tree)>) -> Tree {
    let entry = |(key, value): (&str, Tree)| Entry { key: key.to_string(), key_span: span, value };
    Tree { span, node: Node::Map(parts.into_iter().map(entry).collect()) }
}

/// Adds an item to a list of the scenario. A single value becomes a list.
fn push(tree: &mut Tree, key: &str, item: Tree, span: Span) {
    let Node::Map(entries) = &mut tree.node else { return };
    let Some(entry) = entries.iter_mut().find(|entry| entry.key == key) else {
        let value = Tree { span, node: Node::List(vec![item]) };
        return entries.push(Entry { key: key.to_string(), key_span: span, value });
    };
    match &mut entry.value.node {
        Node::List(items) => items.push(item),
        Node::Scalar { .. } | Node::Map(_) => {
            let first = entry.value.clone();
            entry.value.node = Node::List(vec![first, item]);
        }
    }
}
