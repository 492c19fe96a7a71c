//! The line of a scenario that declares a GPU type of its own, as messages about unknown types suggest it.

use dryrack_catalog as catalog;
use dryrack_yaml::scalar;

/// The line that declares this type. MEMORY is a placeholder, because a wrong size would give wrong results without a
/// further word. `count` is what the file says.
pub(super) fn own_gpu(name: &str, count: Option<u32>) -> String {
    let (typed, count) = (scalar(name, true), count.map(|count| format!(", count: {count}")).unwrap_or_default());
    match catalog::stated_memory(name) {
        Some(memory) => format!("`gpus: [{{type: {typed}, memory: {memory}GiB{count}}}]`"),
        None => {
            format!("`gpus: [{{type: {typed}, memory: MEMORY{count}}}]`, with a size such as 80GiB in place of MEMORY")
        }
    }
}
