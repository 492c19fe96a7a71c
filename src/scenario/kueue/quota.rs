//! Quotas in short words: `{h100: {gpus: 8, cpus: {nominal: 64, borrow: 16, lend: 0}}}`.

use dryrack_yaml::{Entry, Fields, Node, Report, Tree};

use super::words::{copied, entries, map, scalar};

/// dryrack's words for resources.
const RESOURCES: [(&str, &str); 3] = [("gpus", "nvidia.com/gpu"), ("cpus", "cpu"), ("ram", "memory")];
const QUOTA: [&str; 3] = ["nominal", "borrow", "lend"];

/// The resource groups of a quota. Flavors with the same resources are one group, in their order.
pub(super) fn resource_groups(tree: &Tree, report: &mut Report) -> Tree {
    let mut groups: Vec<(Vec<String>, Vec<Tree>)> = Vec::new();
    if !matches!(tree.node, Node::Map(_)) {
        let help = "write the quotas of each flavor, such as `{h100: {gpus: 8}}`";
        report.error_with_help(tree.span, format!("expected a map of flavors, found {}", tree.kind()), help);
    }
    for flavor in entries(tree) {
        let mut resources = Vec::new();
        if !matches!(flavor.value.node, Node::Map(_)) {
            let message = format!("expected the quotas of the flavor `{}`, found {}", flavor.key, flavor.value.kind());
            report.error_with_help(flavor.value.span, message, "write `{gpus: 8}`");
        }
        for entry in entries(&flavor.value) {
            resources.push(resource(entry, report));
        }
        let names: Vec<String> = resources.iter().map(|(name, _)| name.clone()).collect();
        let list =
            Tree { span: flavor.value.span, node: Node::List(resources.into_iter().map(|(_, tree)| tree).collect()) };
        let name = scalar(&flavor.key, flavor.key_span);
        let quotas = map(flavor.key_span, vec![("name", name), ("resources", list)]);
        match groups.iter_mut().find(|(known, _)| *known == names) {
            Some((_, flavors)) => flavors.push(quotas),
            None => groups.push((names, vec![quotas])),
        }
    }
    let group = |(names, flavors): (Vec<String>, Vec<Tree>)| {
        let list = |items| Tree { span: tree.span, node: Node::List(items) };
        let covered = names.iter().map(|name| scalar(name, tree.span)).collect();
        map(tree.span, vec![("coveredResources", list(covered)), ("flavors", list(flavors))])
    };
    Tree { span: tree.span, node: Node::List(groups.into_iter().map(group).collect()) }
}

/// The name of a resource and its quota.
fn resource(entry: &Entry, report: &mut Report) -> (String, Tree) {
    let name = RESOURCES.iter().find(|(word, _)| *word == entry.key).map_or(entry.key.as_str(), |(_, name)| name);
    let is_memory = name == "memory";
    let mut parts = vec![("name", scalar(name, entry.key_span))];
    match &entry.value.node {
        Node::Map(_) => {
            if let Some(fields) = Fields::read(&entry.value, "a quota in short words", &QUOTA, report) {
                fields.require("nominal", "8", report);
                for (word, key) in [("nominal", "nominalQuota"), ("borrow", "borrowingLimit"), ("lend", "lendingLimit")]
                {
                    parts.extend(fields.get(word).map(|tree| (key, amount(tree, is_memory))));
                }
            }
        }
        Node::Scalar { .. } | Node::List(_) => parts.push(("nominalQuota", amount(&entry.value, is_memory))),
    }
    (name.to_string(), map(entry.key_span, parts))
}

/// An amount. dryrack writes memory as `80GiB`, the API as `80Gi`.
fn amount(tree: &Tree, is_memory: bool) -> Tree {
    let short = tree.scalar().filter(|_| is_memory).and_then(|text| text.strip_suffix('B'));
    match short {
        Some(short) => scalar(short, tree.span),
        None => copied(tree),
    }
}
