//! The reasons that the program states for a wait.

use std::collections::BTreeMap;

use super::message::{LineFault, cut};
use dryrack_event::{External, Histogram, Input, Outside, OutsideFault, Reason};
use dryrack_ids::AttemptId;

/// The input that says that a run waits, and why.
pub fn waits(attempt: AttemptId, reasons: &BTreeMap<String, u32>, text: Option<String>) -> Result<Input, LineFault> {
    let reasons = histogram(reasons)?;
    Ok(Input::External(External::Said(Outside::Waits { attempt, reasons, text: cut(text) })))
}

/// The reasons by name; an error if a name is unknown.
pub fn histogram(reasons: &BTreeMap<String, u32>) -> Result<Histogram, LineFault> {
    let mut histogram = Histogram::default();
    for (name, count) in reasons {
        let Some(reason) = Reason::ALL.iter().find(|reason| reason.name() == name) else {
            return Err(LineFault::new(OutsideFault::UnknownReason, format!("no reason is named `{name}`")));
        };
        // Limit the count, because counts over all nodes are added up.
        histogram.add(*reason, (*count).min(1 << 20));
    }
    Ok(histogram)
}
