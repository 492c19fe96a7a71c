//! Includes other files: `include: [fleet.part.yaml]`.
//!
//! The contents of included files come before those of the file itself, in the order in which the files are named.
//! Lists are concatenated and maps are merged. Two machines or fleets with the same name are an error. For parameters,
//! the value in the file itself overrides that of an included file. A file that is included in several ways is read
//! only once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dryrack_yaml::{Entry, Fields, Node, Report, Span, Tree, list, parse, read_text, text};

/// Top-level keys that an included file may have.
pub(super) const INCLUDED_FIELDS: [&str; 9] =
    ["include", "params", "fleets", "machines", "nodes", "jobs", "changes", "faults", "failures"];
/// The keys of [`INCLUDED_FIELDS`] that hold lists.
const LISTS: [&str; 5] = ["nodes", "jobs", "changes", "faults", "failures"];

/// The largest number of files of one scenario, including the scenario itself.
const MAX_FILES: usize = 64;

/// The state of reading included files.
struct IncludeState {
    open: Vec<(PathBuf, String)>,
    read: BTreeSet<PathBuf>,
    /// Whether a file could not be read.
    lacks: bool,
}

/// The result of `include:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Included {
    Nothing,
    All,
    /// An included file could not be read. A missing name may have been defined there.
    Lacking,
}

/// Inserts the files in `include:` into the tree of a scenario, and removes `include:`. `path` is the file that the
/// tree was read from, if any.
pub(super) fn include(tree: &mut Tree, path: Option<&Path>, folder: &Path, report: &mut Report) -> Included {
    let mut ways = IncludeState { open: Vec::new(), read: BTreeSet::new(), lacks: false };
    if let Some(path) = path {
        ways.read.insert(identity(path));
        ways.open.push((identity(path), path.display().to_string()));
    }
    match (bring(tree, folder, &mut ways, report), ways.lacks) {
        (_, true) => Included::Lacking,
        (true, false) => Included::All,
        (false, false) => Included::Nothing,
    }
}

/// The canonical path, which is the same for every way to write the path of a file.
fn identity(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

fn bring(tree: &mut Tree, folder: &Path, ways: &mut IncludeState, report: &mut Report) -> bool {
    let Node::Map(entries) = &mut tree.node else { return false };
    let Some(at) = entries.iter().position(|entry| entry.key == "include") else { return false };
    let named = entries.remove(at).value;
    let items = match named.node {
        Node::List(items) => items,
        _ => vec![named],
    };
    let mut brought: Vec<Entry> = Vec::new();
    for item in &items {
        let Some(typed) = text(item, "the path of a file", report) else { continue };
        if let Some(more) = file(typed, item.span, folder, ways, report) {
            more.into_iter().for_each(|entry| add(&mut brought, entry, report));
        }
    }
    for entry in brought {
        lay_under(entries, entry, report);
    }
    true
}

/// The entries of one file, including the entries of the files that it includes.
fn file(typed: &str, span: Span, folder: &Path, ways: &mut IncludeState, report: &mut Report) -> Option<Vec<Entry>> {
    let path = folder.join(typed);
    let own = identity(&path);
    if let Some(at) = ways.open.iter().position(|(open, _)| *open == own) {
        let by: Vec<&str> = ways.open[at + 1..].iter().map(|(_, name)| name.as_str()).collect();
        let way = if by.is_empty() { String::new() } else { format!(" through {}", list(by.into_iter())) };
        let message = format!("`{typed}` includes itself{way}");
        let help = "move the shared entries into a third file, and include that";
        report.error_with_help(span, message, help);
        return None;
    }
    if !ways.read.insert(own.clone()) {
        return None;
    }
    if ways.read.len() > MAX_FILES {
        let message = format!("more than {MAX_FILES} files are included");
        report.error_with_help(span, message, "merge some of them");
        return None;
    }
    let read = read_text(&path, Some(span), report).and_then(|(source, text)| parse(&text, source, report));
    ways.lacks |= read.is_none();
    let mut tree = read?;
    ways.open.push((own, path.display().to_string()));
    bring(&mut tree, path.parent().unwrap_or(folder), ways, report);
    ways.open.pop();
    let fields = Fields::read(&tree, "an included file", &INCLUDED_FIELDS, report)?;
    for key in LISTS {
        if !is_fleet(key, fields.get(key)) {
            fields.list(key, report);
        }
    }
    let Node::Map(entries) = tree.node else { return None };
    Some(entries.into_iter().filter(|entry| INCLUDED_FIELDS.contains(&entry.key.as_str())).map(listed).collect())
}

/// Whether the entry is `nodes: {fleet: lab}`, which counts as a list with one item.
fn is_fleet(key: &str, tree: Option<&Tree>) -> bool {
    key == "nodes" && tree.is_some_and(|tree| tree.get("fleet").is_some())
}

/// The entry, with `nodes: {fleet: lab}` turned into a list.
pub(super) fn listed(mut entry: Entry) -> Entry {
    if is_fleet(&entry.key, Some(&entry.value)) {
        let span = entry.value.span;
        entry.value = Tree { span, node: Node::List(vec![entry.value]) };
    }
    entry
}

/// Adds an entry of a later file to those of earlier files.
fn add(brought: &mut Vec<Entry>, entry: Entry, report: &mut Report) {
    let Some(known) = brought.iter_mut().find(|known| known.key == entry.key) else {
        brought.push(entry);
        return;
    };
    match (&mut known.value.node, entry.value.node) {
        (Node::List(items), Node::List(more)) => items.extend(more),
        (Node::Map(entries), Node::Map(more)) => {
            let kept = std::mem::take(entries);
            *entries = joined(&entry.key, kept, more, report);
        }
        // One of the two values has the wrong type, which has been reported already.
        (_, _) => {}
    }
}

/// Adds an entry of an included file to the file's own entries, which take precedence.
fn lay_under(own: &mut Vec<Entry>, entry: Entry, report: &mut Report) {
    let Some(at) = own.iter().position(|known| known.key == entry.key) else {
        own.push(entry);
        return;
    };
    let known = &mut own[at];
    if is_fleet(&known.key, Some(&known.value)) {
        let listed_own = listed(Entry { value: known.value.clone(), key: known.key.clone(), key_span: known.key_span });
        known.value = listed_own.value;
    }
    // The file's own `nodes:` is empty, so the included nodes apply.
    if known.value.is_nothing() {
        known.value = entry.value;
        return;
    }
    match (&mut known.value.node, entry.value.node) {
        (Node::List(items), Node::List(mut first)) => {
            first.append(items);
            *items = first;
        }
        (Node::Map(entries), Node::Map(first)) => {
            let kept = std::mem::take(entries);
            *entries = joined(&entry.key, first, kept, report);
        }
        // The file's value has the wrong type, which is reported when it is read.
        (_, _) => {}
    }
}

/// Merges two maps. For parameters the later value wins; any other name may be defined only once.
fn joined(what: &str, mut first: Vec<Entry>, later: Vec<Entry>, report: &mut Report) -> Vec<Entry> {
    for entry in later {
        match first.iter_mut().find(|known| known.key == entry.key) {
            None => first.push(entry),
            Some(known) if what == "params" => *known = entry,
            Some(known) => {
                let (file, line, _) = report.place(known.key_span);
                let message = format!("`{}` is given twice in `{what}`", entry.key);
                report.error_with_help(entry.key_span, message, format!("it is already given at {file}:{line}"));
            }
        }
    }
    first
}
