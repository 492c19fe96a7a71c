//! Named fleets: `fleets: {lab: [nodes…]}`, with `{fleet: lab}` in place of nodes.

use dryrack_yaml::{Entry, Fields, Node, Report, Tree, text};

/// The largest number of entries in `nodes:` after fleets are expanded.
const MAX_ENTRIES: usize = 100_000;

pub(super) const FLEET_FIELDS: [&str; 1] = ["fleet"];

/// Removes the fleets that are lists of nodes from `fleets:`, and returns them. Fleets of instances stay.
pub(super) fn take_lists(entries: &mut Vec<Entry>) -> Option<Tree> {
    let at = entries.iter().position(|entry| entry.key == "fleets")?;
    let mut whole = entries.remove(at);
    let Node::Map(fleets) = &mut whole.value.node else { return Some(whole.value) };
    let (instances, lists): (Vec<Entry>, Vec<Entry>) =
        std::mem::take(fleets).into_iter().partition(|entry| matches!(entry.value.node, Node::Map(_)));
    let lists_tree = Tree { span: whole.value.span, node: Node::Map(lists) };
    if !instances.is_empty() {
        whole.value.node = Node::Map(instances);
        entries.insert(at, whole);
    }
    Some(lists_tree)
}

/// Whether the entry is a `fleets:` of the kind that [`take_lists`] leaves, with fleets of instances.
pub(super) fn are_of_instances(entry: &Entry) -> bool {
    let is_fleet = |fleet: &Entry| matches!(fleet.value.node, Node::Map(_));
    entry.key == "fleets" && matches!(&entry.value.node, Node::Map(fleets) if fleets.iter().all(is_fleet))
}

/// Replaces the names of fleets with their nodes. Returns whether any name was replaced.
pub(super) fn expand(nodes: &mut Tree, fleets: Option<&Tree>, report: &mut Report) -> bool {
    let known = known(fleets, report);
    let Node::List(items) = &mut nodes.node else { return false };
    if items.iter().all(|item| item.get("fleet").is_none()) {
        return false;
    }
    let mut expanded = Vec::new();
    put(items, known, &mut Vec::new(), &mut expanded, report);
    *items = expanded;
    true
}

/// The fleets, each of which is a list of nodes.
fn known<'t>(fleets: Option<&'t Tree>, report: &mut Report) -> &'t [Entry] {
    let Some(tree) = fleets else { return &[] };
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected a map from fleet names to nodes, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `{lab: [{name: alpha, machine: a100-80g-x8}]}`");
        return &[];
    };
    for entry in entries.iter().filter(|entry| !matches!(entry.value.node, Node::List(_))) {
        let message = format!("expected a list of nodes for the fleet `{}`, found {}", entry.key, entry.value.kind());
        report.error_with_help(entry.value.span, message, "write each node after `- `");
    }
    entries
}

/// Appends the items to `out`, with fleets expanded. `open` lists the fleets being expanded, outermost first.
fn put<'t>(items: &'t [Tree], known: &'t [Entry], open: &mut Vec<&'t str>, out: &mut Vec<Tree>, report: &mut Report) {
    for item in items {
        if item.get("fleet").is_none() {
            out.push(item.clone());
        } else {
            named(item, known, open, out, report);
        }
        if out.len() > MAX_ENTRIES {
            return;
        }
    }
}

fn named<'t>(item: &'t Tree, known: &'t [Entry], open: &mut Vec<&'t str>, out: &mut Vec<Tree>, report: &mut Report) {
    let Some(fields) = Fields::read(item, "a fleet by name", &FLEET_FIELDS, report) else { return };
    let Some(tree) = fields.get("fleet") else { return };
    let names = match &tree.node {
        Node::List(names) => names.as_slice(),
        _ => std::slice::from_ref(tree),
    };
    for name in names {
        let Some(typed) = text(name, "the name of a fleet", report) else { continue };
        let Some(fleet) = known.iter().find(|fleet| fleet.key == typed) else {
            let message = format!("no fleet is named `{typed}`");
            match known.is_empty() {
                true => report.error_with_help(name.span, message, format!("add `fleets: {{{typed}: [nodes…]}}`")),
                false => report.unknown(name.span, message, typed, known.iter().map(|fleet| fleet.key.as_str())),
            }
            continue;
        };
        if open.contains(&fleet.key.as_str()) {
            let message = format!("the fleet `{typed}` contains itself");
            report.error_with_help(name.span, message, "write out its nodes");
            continue;
        }
        let Node::List(nodes) = &fleet.value.node else { continue };
        open.push(&fleet.key);
        put(nodes, known, open, out, report);
        open.pop();
        if out.len() > MAX_ENTRIES {
            let message = format!("the fleets add up to more than {MAX_ENTRIES} entries");
            if !report.has_errors() {
                report.error_with_help(name.span, message, "use `count:` for identical nodes");
            }
            return;
        }
    }
}
