//! Passes only nodes with the requested labels. A missing key and a wrong value have different reasons, because they
//! are different mistakes. So has a node that is outside the job's partition.

use std::sync::Arc;

use super::Verdict;
use crate::slurm::{PARTITION, RESERVATION};
use dryrack_event::Reason;
use dryrack_fleet::Labels;
use dryrack_planted::planted;

pub fn judge<'a>(asked: impl IntoIterator<Item = (&'a Arc<str>, &'a Arc<str>)>, labels: &Labels) -> Verdict {
    let mut verdict = Verdict::Fit;
    for (key, value) in asked {
        match labels.get(key) {
            None if key.starts_with(PARTITION) => return Verdict::Never(Reason::PartitionMismatch),
            None if key.starts_with(RESERVATION) => return Verdict::Never(Reason::OutsideReservation),
            None => return Verdict::Never(Reason::LabelMissing),
            Some(found) if found != value && !planted!(LabelValueIsNotCompared) => {
                verdict = Verdict::Never(Reason::LabelMismatch)
            }
            Some(_) => {}
        }
    }
    verdict
}
