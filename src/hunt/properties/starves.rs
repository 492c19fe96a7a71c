//! A job must not wait although there are idle nodes on which the program itself would place it.

use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, is_placed, stage};
use crate::observed::Observed;
use dryrack_units::{SimDuration, SimTime};

pub struct Starves;

impl Property for Starves {
    fn name(&self) -> &'static str {
        "starves"
    }

    fn rule(&self) -> &'static str {
        "No job waits, or is refused, beside idle nodes on which the program places it if they are all there is"
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let observed = case.observed.clone();
        let mut breaches = Vec::new();
        for job in
            (0..observed.jobs.len()).filter(|job| observed.is_never_placed(*job) && !observed.jobs[*job].is_cancelled)
        {
            let name = observed.name(job);
            let idle = idle(&observed, job);
            let is_less = observed.jobs.len() > 1 || idle.len() < observed.nodes.len();
            if idle.is_empty() || !is_less {
                continue;
            }
            let is_idle = |node: &str| idle.iter().any(|idle| &*observed.nodes[*idle].name == node);
            let alone = case.world.with_jobs(|other| other == name).with_nodes(is_idle).without_faults();
            let Some(other) = case.observe(&alone) else { continue };
            let Some(same) = other.find(name).filter(|same| other.is_placed(*same) && other.is_safe(*same)) else {
                continue;
            };
            let Some(there) = other.of(same).next() else { continue };
            let text =
                observed.jobs[job].texts.last().map_or(String::new(), |text| format!(" It says: \"{}\"", text.trim()));
            let over = if observed.jobs[job].ended.is_empty() { "waits to the end" } else { "is refused" };
            breaches.push(Breach {
                property: self.name(),
                manner: format!("{} {over}", stage(&observed, job)),
                account: format!(
                    "`{name}` {over}, although the program places it on {} if only the nodes that are idle are there.{text}",
                    there.text()
                ),
                shown_in: None,
                expects: vec![Expected::new("placed", is_placed(&observed, name))],
                witness: vec![format!("job: {name}, never: placed")],
            });
        }
        breaches
    }
}

/// The nodes that are ready and idle while the job waits. A program may double its pauses between retries, so for a job
/// that waits to the end, only the last two thirds of its wait count.
fn idle(observed: &Observed, job: usize) -> Vec<usize> {
    let at = observed.jobs[job].at;
    let to = observed.jobs[job].ended.values().min().copied().unwrap_or(observed.until);
    let waited = to.checked_since(at).unwrap_or(SimDuration::ZERO);
    let from = match observed.jobs[job].ended.is_empty() {
        true => at + SimDuration::from_nanos(waited.as_nanos() / 3),
        false => at,
    };
    let holds = |node: usize, from: SimTime, to: SimTime| {
        observed.placements.iter().any(|placed| {
            let overlaps = placed.at <= to && placed.ended.is_none_or(|end| end > from);
            overlaps && placed.parts.iter().any(|part| part.node == node)
        })
    };
    let is_idle = |(index, node): (usize, &crate::observed::ObservedNode)| {
        let is_free = node.is_ready && node.is_steady && !node.has_foreign_use && !holds(index, from, to);
        is_free.then_some(index)
    };
    observed.nodes.iter().enumerate().filter_map(is_idle).collect()
}
