//! Explains why a replica waits or why it is where it is, by replaying the log to that moment through the plain
//! pipeline.

use std::sync::Arc;

use super::replay::{Difference, Replay};
use dryrack_control::{AnalysedBefore, Profile, Watch};
use dryrack_event::{Event, Histogram, Input, Outcome, Phase, Reason, Record, Refusal, Said};
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::{JobId, RunId};
use dryrack_scheduler::Examination;
use dryrack_units::SimTime;

/// A replica of a job at a given moment.
pub struct Explanation {
    /// The last instant of the log that is not after the requested moment.
    pub at: SimTime,
    /// The fleet at that moment.
    pub fleet: Fleet,
    /// All replicas of the job; empty if it was not submitted yet.
    pub replicas: Vec<ReplicaStanding>,
    /// The index of the explained replica in `replicas`.
    pub replica: u32,
    /// What would be decided about it at that moment; `None` if the job was not submitted yet.
    pub now: Option<Examination>,
    /// The last decision that refused it since it began to wait.
    pub refused: Option<(SimTime, Examination)>,
    /// The decision that placed it, if it was placed and still has that placement.
    pub placed: Option<WhyHere>,
    /// The jobs before it, if it waits to be analysed.
    pub analysed_before: Option<AnalysedBefore>,
    /// How and when the job ended, if it has.
    pub ended: Option<(SimTime, Outcome, Reason)>,
    /// The last event about the replica, or about the whole job.
    pub last: Option<(SimTime, Event)>,
}

pub struct WhyHere {
    pub at: SimTime,
    pub placement: Placement,
    /// The answer of every node at the time of the decision.
    pub examination: Examination,
}

/// What the log says of one replica.
#[derive(Clone, Debug)]
pub struct ReplicaStanding {
    pub run: RunId,
    pub phase: Phase,
    /// Its current or last placement, and since when.
    pub placed: Option<(SimTime, Placement)>,
    /// The last reasons for its wait, since it began to wait.
    pub held: Option<(SimTime, Refusal, Histogram)>,
    /// How its last attempt ended.
    pub ended: Option<(SimTime, Outcome, Reason)>,
    /// The run that took its last place, and when.
    pub gave_way: Option<(SimTime, RunId)>,
    pub last: Option<(SimTime, Event)>,
}

impl ReplicaStanding {
    fn new(run: RunId) -> ReplicaStanding {
        let (placed, held, ended, gave_way, last) = (None, None, None, None, None);
        ReplicaStanding { run, phase: Phase::Pending, placed, held, ended, gave_way, last }
    }

    /// Whether it is neither placed nor over.
    pub fn waits(&self) -> bool {
        matches!(self.phase, Phase::Pending | Phase::Analysing)
    }

    pub fn is_placed(&self) -> bool {
        self.phase.holds_claim()
    }

    /// Whether its last attempt ended without completing.
    fn has_failed(&self) -> bool {
        self.phase == Phase::Ended && self.ended.is_some_and(|(_, outcome, _)| outcome != Outcome::Completed)
    }

    fn event(&mut self, at: SimTime, event: &Event) {
        match event {
            Event::Placed { run, placement, .. } => {
                (self.run, self.phase) = (*run, Phase::Scheduled);
                (self.placed, self.held) = (Some((at, placement.clone())), None);
            }
            Event::Held { refusal, reasons, .. } => self.held = Some((at, *refusal, reasons.clone())),
            Event::Moved { to, .. } => self.phase = *to,
            Event::Ended { outcome, because, .. } => {
                (self.phase, self.ended) = (Phase::Ended, Some((at, *outcome, *because)));
            }
            Event::Retry { run, .. } => (self.run, self.phase, self.held) = (*run, Phase::Pending, None),
            Event::Preempted { by, .. } => self.gave_way = Some((at, *by)),
            _ => {}
        }
        self.last = Some((at, event.clone()));
    }
}

/// Explains one replica at `at`, or at the end of the log if `None`. Without a number, explains the first replica
/// that waits; if none does, the first that failed, else the first that is placed.
pub fn explain(
    profile: Arc<Profile>,
    seed: u64,
    records: &[Record],
    (job, number): (JobId, Option<u32>),
    at: Option<SimTime>,
) -> Result<Explanation, Difference> {
    let end = records.partition_point(|record| at.is_none_or(|at| record.at <= at));
    let records = &records[..end];
    let (replicas, ended) = standings(records, job);
    let first = |is_it: fn(&ReplicaStanding) -> bool| replicas.iter().position(is_it);
    let chosen = || {
        first(ReplicaStanding::waits)
            .or_else(|| first(ReplicaStanding::has_failed))
            .or(first(ReplicaStanding::is_placed))
    };
    let replica = number.unwrap_or_else(|| chosen().unwrap_or(0) as u32);
    let mut replay = Replay::new(profile, seed);
    replay.control.watch(Watch::Job(job));
    let mut placed: Option<WhyHere> = None;
    let mut refused = None;
    for record in records {
        replay.take(record)?;
        // Decisions about other replicas are dropped.
        let decisions = replay.control.take_decisions().into_iter();
        if let Some(last) = decisions.filter(|decision| decision.run.replica == replica).last() {
            refused = Some((last.at, last.examination));
        }
        match &record.said {
            Said::Event(Event::Placed { run, placement, .. }) if run.job == job => {
                let watched = replay.control.take_watched(*run).expect("what is placed is kept");
                if run.replica == replica {
                    let placement = placement.clone();
                    placed = Some(WhyHere { at: watched.at, placement, examination: watched.examination });
                    refused = None;
                }
            }
            Said::Event(Event::Ended { run, .. }) if run.job == job && run.replica == replica => placed = None,
            Said::Event(_) | Said::Input(_) => {}
        }
    }
    let control = &replay.control;
    let now = control.sight_of(job, replica).map(|sight| sight.examine(&control.profile().scheduler));
    let last = match (ended, replicas.get(replica as usize)) {
        (Some((at, outcome, because)), _) => Some((at, Event::JobEnded { job, outcome, because })),
        (None, standing) => standing.and_then(|standing| standing.last.clone()),
    };
    Ok(Explanation {
        at: records.last().map_or(SimTime::ZERO, |record| record.at),
        fleet: control.fleet().clone(),
        now,
        refused: refused.filter(|_| replicas.get(replica as usize).is_some_and(ReplicaStanding::waits)),
        placed,
        analysed_before: control.analysed_before(job, replica),
        ended,
        last,
        replicas,
        replica,
    })
}

/// What the log says of each replica of a job, and of the job as a whole.
fn standings(records: &[Record], job: JobId) -> (Vec<ReplicaStanding>, Option<(SimTime, Outcome, Reason)>) {
    let mut replicas: Vec<ReplicaStanding> = Vec::new();
    let mut ended = None;
    let run = |replica: u32| RunId { job, replica, attempt: 1 };
    for record in records {
        let event = match &record.said {
            Said::Input(Input::Submit { job: submitted, spec }) if *submitted == job => {
                replicas = (0..spec.replicas).map(|number| ReplicaStanding::new(run(number))).collect();
                continue;
            }
            Said::Input(_) => continue,
            Said::Event(event) => event,
        };
        match event {
            Event::JobEnded { job: over, outcome, because } if *over == job => {
                ended = Some((record.at, *outcome, *because));
            }
            Event::ReplicaAdded { run } if run.job == job => replicas.push(ReplicaStanding::new(*run)),
            _ => {
                let of_it = event.run().filter(|run| run.job == job);
                if let Some(standing) = of_it.and_then(|run| replicas.get_mut(run.replica as usize)) {
                    standing.event(record.at, event);
                }
            }
        }
    }
    (replicas, ended)
}
