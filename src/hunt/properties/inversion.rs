//! A job of lower priority must not be placed while a job of higher priority with the same demand waits.

use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, is_placed, stage};
use dryrack_units::SimDuration;

pub struct Priority;

/// How long the job of higher priority must have waited, so that a program that reads its queue every few seconds has
/// seen it.
const PATIENCE: SimDuration = SimDuration::from_secs(15);

impl Property for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn rule(&self) -> &'static str {
        "No job is placed while one of higher priority that asks for the same waits"
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let observed = &case.observed;
        let mut breaches = Vec::new();
        for placed in &observed.placements {
            let low = &observed.jobs[placed.job];
            for (index, high) in observed.jobs.iter().enumerate() {
                let is_alike = high.spec.demand == low.spec.demand;
                let is_higher = high.spec.priority > low.spec.priority;
                let has_waited = high.at + PATIENCE <= placed.at;
                let first = observed.of(index).map(|placed| placed.at).min();
                let waits = first.is_none_or(|at| at > placed.at) && high.ended.values().all(|end| *end > placed.at);
                if !(is_alike && is_higher && has_waited && waits) {
                    continue;
                }
                let (low_name, high_name) = (&low.spec.name, &high.spec.name);
                breaches.push(Breach {
                    property: self.name(),
                    manner: stage(observed, placed.job),
                    account: format!(
                        "`{low_name}` (priority {}) is placed at {} while `{high_name}` (priority {}) has waited since {} \
                         for the same.",
                        low.spec.priority, placed.at, high.spec.priority, high.at
                    ),
                    shown_in: None,
                    expects: vec![Expected::new(
                        "first",
                        format!("job: {high_name}, is: placed, before: {{job: {low_name}, is: placed}}"),
                    )],
                    witness: vec![
                        is_placed(observed, low_name),
                        format!("job: {high_name}, is: pending, at: {}", placed.at),
                    ],
                });
            }
        }
        breaches
    }
}
