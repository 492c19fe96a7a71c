//! Puts a list of tasks in the place of the workload of a file.

use super::options::ListFile;
use dryrack_trace::Index;
use dryrack_yaml::{Entry, Node, Span, Tree};

/// Keys of a file that are about its own jobs.
const OF_JOBS: [&str; 7] = ["jobs", "expect", "reproduces", "changes", "faults", "load", "growth"];

/// Keys of `trace:` that say what the words of a list mean, or how long its tasks run.
const OF_ANY_LIST: [&str; 8] =
    ["gpu_names", "gpu_nodes", "gpu_shares", "run_on", "checkpoint", "speed", "durations", "estimates"];

/// Keys of `trace:` that say where its nodes are. They are read in the format of the list.
const OF_NODES: [&str; 4] = ["name", "nodes", "node_list", "node_file"];

/// Removes the jobs of the file, and lets its `trace:` read this list. What `trace:` says of nodes stays if its own list
/// has the same format.
pub(super) fn put(tree: &mut Tree, list: &ListFile) {
    let span = tree.span;
    let Node::Map(entries) = &mut tree.node else { return };
    let own = entries.iter().position(|entry| entry.key == "trace").map(|at| entries.remove(at).value);
    entries.retain(|entry| !OF_JOBS.contains(&entry.key.as_str()));
    let mut trace = match own {
        Some(Tree { node: Node::Map(entries), .. }) => entries,
        Some(name) => vec![text("name", name.scalar().unwrap_or_default(), name.span)],
        None => Vec::new(),
    };
    let has_own_nodes = format_of(&trace).as_deref() == Some(&list.format);
    trace.retain(|entry| {
        let key = entry.key.as_str();
        OF_ANY_LIST.contains(&key) || (has_own_nodes && OF_NODES.contains(&key))
    });
    trace.push(text("format", &list.format, span));
    trace.push(text("file", &list.file, span));
    let value = Tree { span, node: Node::Map(trace) };
    entries.push(Entry { key: "trace".to_string(), key_span: span, value });
}

/// The format that `trace:` states, or that of the known trace that it names.
fn format_of(trace: &[Entry]) -> Option<String> {
    let stated = |key: &str| trace.iter().find(|entry| entry.key == key).and_then(|entry| entry.value.scalar());
    if let Some(format) = stated("format") {
        return Some(format.to_string());
    }
    let name = stated("name")?;
    let index = Index::built_in();
    index.traces.iter().find(|known| known.name == name).map(|known| known.format.name().to_string())
}

fn text(key: &str, text: &str, span: Span) -> Entry {
    let node = Node::Scalar { text: text.to_string(), quoted: true };
    Entry { key: key.to_string(), key_span: span, value: Tree { span, node } }
}
