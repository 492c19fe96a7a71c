//! Why a job waits, or why it is where it is: a replay to the moment, through the plain pipeline.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::replay::{Difference, Replay};
use crate::control::{Profile, Watch, Watched};
use crate::event::{Event, Input, Record, Said};
use crate::fleet::{Fleet, Placement};
use crate::ids::JobId;
use crate::scheduler::Examination;
use crate::units::SimTime;

/// A job as it stands at a moment.
pub struct Explanation {
    /// The last instant of the log that is not after the moment asked for.
    pub at: SimTime,
    /// The fleet at that moment.
    pub fleet: Fleet,
    /// Every node's answer at that moment; `None` if the job was not submitted yet.
    pub now: Option<Examination>,
    /// The decision that placed it, if it was placed and has not been given up.
    pub placed: Option<WhyHere>,
    /// The last event about it.
    pub last: Option<(SimTime, Event)>,
    /// Replicas that wait for a place, and all that there were.
    pub without_place: (usize, usize),
}

pub struct WhyHere {
    pub at: SimTime,
    pub placement: Placement,
    /// Every node's answer when it was decided.
    pub examination: Examination,
}

/// Replays the log up to and including `at` (to its end if `None`) with an eye on one job.
pub fn explain(
    profile: Arc<Profile>,
    seed: u64,
    records: impl IntoIterator<Item = Record>,
    job: JobId,
    at: Option<SimTime>,
) -> Result<Explanation, Difference> {
    let mut replay = Replay::new(profile, seed);
    replay.control.watch(Watch::Job(job));
    let mut end = SimTime::ZERO;
    let mut last = None;
    let mut placed: Option<WhyHere> = None;
    let (mut replicas, mut at_work, mut over) = (0, BTreeSet::new(), BTreeSet::new());
    for record in records {
        if at.is_some_and(|at| record.at > at) {
            break;
        }
        replay.take(&record)?;
        end = record.at;
        let event = match record.said {
            Said::Input(Input::Submit { job: submitted, spec }) if submitted == job => {
                replicas = spec.replicas as usize;
                continue;
            }
            Said::Input(_) => continue,
            Said::Event(event) => event,
        };
        if event.job() != Some(job) {
            continue;
        }
        if let Event::Placed { run, placement, .. } = &event {
            let Watched { at, examination, .. } = replay.control.take_watched(*run).expect("what is placed is kept");
            placed = Some(WhyHere { at, placement: placement.clone(), examination });
        }
        match &event {
            Event::Placed { run, .. } => drop(at_work.insert(run.replica)),
            Event::ReplicaAdded { .. } => replicas += 1,
            Event::Ended { run, .. } => {
                at_work.remove(&run.replica);
                over.insert(run.replica);
                placed = placed.filter(|_| !at_work.is_empty());
            }
            Event::Retry { run, .. } => drop(over.remove(&run.replica)),
            _ => {}
        }
        last = Some((record.at, event));
    }
    let fleet = replay.control.fleet().clone();
    let without_place = (replicas.saturating_sub(at_work.len() + over.len()), replicas);
    Ok(Explanation { at: end, now: replay.control.examine(job), fleet, placed, last, without_place })
}
