//! Passes only nodes with the requested labels. A missing key and a wrong value have different reasons, because they
//! are different mistakes.

use std::sync::Arc;

use super::Verdict;
use dryrack_event::Reason;
use dryrack_fleet::Labels;

pub fn judge<'a>(asked: impl IntoIterator<Item = (&'a Arc<str>, &'a Arc<str>)>, labels: &Labels) -> Verdict {
    let mut verdict = Verdict::Fit;
    for (key, value) in asked {
        match labels.get(key) {
            None => return Verdict::Never(Reason::LabelMissing),
            Some(found) if found != value => verdict = Verdict::Never(Reason::LabelMismatch),
            Some(_) => {}
        }
    }
    verdict
}
