//! The jobs for which a job waits in the queue.

use serde_json::{Value, json};

use dryrack_engine::HeldAhead;
use dryrack_ids::Names;

/// The number of jobs that are listed.
const SHOWN: usize = 5;

/// A line such as `  waits behind train, which is held since 10m: 2 insufficient_gpus` for each job ahead that does not fit, up
/// to [`SHOWN`] lines.
pub(super) fn lines(ahead: &[HeldAhead], names: &Names) -> String {
    let line = |held: &HeldAhead| {
        let name = names.job(held.job);
        format!("  waits behind {name}, which is held since {}: {}\n", held.since, held.reasons)
    };
    let mut text: String = ahead.iter().take(SHOWN).map(line).collect();
    if let Some(more @ 1..) = ahead.len().checked_sub(SHOWN) {
        text.push_str(&format!("  and {more} more\n"));
    }
    text
}

pub(super) fn as_json(ahead: &[HeldAhead], names: &Names) -> Value {
    let one = |held: &HeldAhead| json!({"job": names.job(held.job), "since_ns": held.since.as_nanos(), "reasons": held.reasons});
    ahead.iter().map(one).collect()
}
