//! Explains why a replica waits or why it was placed where it is. Replays the log up to the requested moment and
//! repeats the decision with the plain pipeline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::replay::{Difference, Replay};
use dryrack_control::{AdmissionView, AnalysesAhead, Profile, Watch};
use dryrack_event::{Dependence, Event, Histogram, Input, Outcome, Phase, Reason, Record, RecordBody, Refusal};
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::{AttemptId, JobId};
use dryrack_scheduler::Examination;
use dryrack_units::SimTime;
use dryrack_workload::{Condition, Dependency, JobSpec, RunLimit, Speeds};

/// The state of a replica at a given moment, with the decisions that led to it.
pub struct Explanation {
    /// The time of the last record at or before the requested moment.
    pub at: SimTime,
    /// The fleet at that moment.
    pub fleet: Fleet,
    /// All replicas of the job. Empty if the job was not submitted yet.
    pub replicas: Vec<ReplicaStanding>,
    /// The index of the explained replica in `replicas`.
    pub replica: u32,
    /// What the scheduler would decide about the replica at that moment. `None` if the job was not submitted yet.
    pub now: Option<Examination>,
    /// The last refusal of the replica since it began to wait.
    pub refused: Option<(SimTime, Examination)>,
    /// The decision that placed the replica. `None` if the replica has no placement now.
    pub placed: Option<PlacementReasons>,
    /// The job's speeds on each type of GPU, if it has any.
    pub speeds: Option<Arc<Speeds>>,
    /// The jobs that will be analysed before this job, if this job waits for its analysis.
    pub analysed_before: Option<AnalysesAhead>,
    /// The jobs ahead of it in the queue that do not fit, if the replica is held because it is behind another job.
    pub ahead: Vec<HeldAhead>,
    /// The jobs on which this job still depends, including those that can no longer meet the dependency.
    pub awaits: Vec<UnmetDependency>,
    /// The jobs that hold the turns for which the job waits, such as the running tasks of its array.
    pub turns: Vec<JobId>,
    /// How the workload of the job stands with Kueue, if Kueue manages the job.
    pub admission: Option<AdmissionView>,
    /// The last decisions of Kueue about the workload, each with its time.
    pub decisions: Vec<(SimTime, Event)>,
    /// How and when the job ended, if it has.
    pub ended: Option<(SimTime, Outcome, Reason)>,
    /// The last event about the replica. If the whole job has ended, the end of the job.
    pub last: Option<(SimTime, Event)>,
}

/// A job that does not fit, and for which others wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAhead {
    pub job: JobId,
    /// Since when it is held for these reasons.
    pub since: SimTime,
    pub reasons: Histogram,
}

/// A dependency that is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnmetDependency {
    pub on: Dependency,
    /// When and how the other job ended. If it has ended, the dependency can never be met.
    pub ended: Option<(SimTime, Outcome)>,
}

pub struct PlacementReasons {
    pub at: SimTime,
    pub placement: Placement,
    /// The verdict on every node at the time of the decision.
    pub examination: Examination,
}

/// The facts in the log about one replica.
#[derive(Clone, Debug)]
pub struct ReplicaStanding {
    pub attempt: AttemptId,
    pub phase: Phase,
    /// Its current placement, or its last one, and the time at which it was placed.
    pub placed: Option<(SimTime, Placement)>,
    /// The latest refusal since it began to wait, with its time and its reasons.
    pub held: Option<(SimTime, Refusal, Histogram)>,
    /// How its last attempt ended.
    pub ended: Option<(SimTime, Outcome, Reason)>,
    /// The attempt that last preempted this replica, and when.
    pub gave_way: Option<(SimTime, AttemptId)>,
    pub last: Option<(SimTime, Event)>,
}

impl ReplicaStanding {
    fn new(attempt: AttemptId) -> ReplicaStanding {
        let (placed, held, ended, gave_way, last) = (None, None, None, None, None);
        ReplicaStanding { attempt, phase: Phase::Pending, placed, held, ended, gave_way, last }
    }

    /// Whether the replica waits to be placed.
    pub fn waits(&self) -> bool {
        matches!(self.phase, Phase::Pending | Phase::Analysing)
    }

    pub fn is_placed(&self) -> bool {
        self.phase.holds_claim()
    }

    /// Whether the last attempt ended without completing.
    fn has_failed(&self) -> bool {
        self.phase == Phase::Ended && self.ended.is_some_and(|(_, outcome, _)| outcome != Outcome::Completed)
    }

    fn event(&mut self, at: SimTime, event: &Event) {
        match event {
            Event::Placed { attempt, placement, .. } => {
                (self.attempt, self.phase) = (*attempt, Phase::Scheduled);
                (self.placed, self.held) = (Some((at, placement.clone())), None);
            }
            Event::Held { refusal, reasons, .. } => self.held = Some((at, *refusal, reasons.clone())),
            Event::Moved { to, .. } => self.phase = *to,
            Event::Ended { outcome, because, .. } => {
                (self.phase, self.ended) = (Phase::Ended, Some((at, *outcome, *because)));
            }
            Event::Retry { attempt, .. } => (self.attempt, self.phase, self.held) = (*attempt, Phase::Pending, None),
            Event::Preempted { by, .. } => self.gave_way = Some((at, *by)),
            _ => {}
        }
        self.last = Some((at, event.clone()));
    }
}

/// Explains one replica at the time `at`, or at the end of the log if `at` is `None`.
///
/// If `number` is `None`, explains the first replica that waits. If none waits, explains the first replica that failed,
/// or else the first that is placed.
pub fn explain(
    profile: Arc<Profile>,
    seed: u64,
    records: &[Record],
    asked: (JobId, Option<u32>),
    at: Option<SimTime>,
) -> Result<Explanation, Difference> {
    let explained = explain_unless(profile, seed, records, asked, at, &AtomicBool::new(false))?;
    Ok(explained.expect("nothing stops it"))
}

/// As [`explain`]. Returns `None` if `stop` is set before the end: the replay of a long log takes seconds, and whoever
/// asked may no longer want the answer.
pub fn explain_unless(
    profile: Arc<Profile>,
    seed: u64,
    records: &[Record],
    (job, number): (JobId, Option<u32>),
    at: Option<SimTime>,
    stop: &AtomicBool,
) -> Result<Option<Explanation>, Difference> {
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
    let mut placed: Option<PlacementReasons> = None;
    let mut refused = None;
    for record in records {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        replay.take(record)?;
        // Keep only decisions about the explained replica.
        let decisions = replay.control.take_decisions().into_iter();
        if let Some(last) = decisions.filter(|decision| decision.attempt.replica == replica).last() {
            refused = Some((last.at, last.examination));
        }
        match &record.said {
            RecordBody::Event(Event::Placed { attempt, placement, .. }) if attempt.job == job => {
                let watched = replay.control.take_watched(*attempt).expect("what is placed is kept");
                if attempt.replica == replica {
                    let (at, placement) = (watched.at, placement.clone());
                    placed = Some(PlacementReasons { at, placement, examination: watched.into_shown() });
                    refused = None;
                }
            }
            RecordBody::Event(Event::Ended { attempt, .. }) if attempt.job == job && attempt.replica == replica => {
                placed = None
            }
            RecordBody::Event(_) | RecordBody::Input(_) => {}
        }
    }
    let now = replay.control.examine(job, replica);
    let control = &replay.control;
    let last = match (ended, replicas.get(replica as usize)) {
        (Some((at, outcome, because)), _) => Some((at, Event::JobEnded { job, outcome, because })),
        (None, standing) => standing.and_then(|standing| standing.last.clone()),
    };
    Ok(Some(Explanation {
        at: records.last().map_or(SimTime::ZERO, |record| record.at),
        fleet: control.fleet().clone(),
        now,
        refused: refused.filter(|_| replicas.get(replica as usize).is_some_and(ReplicaStanding::waits)),
        placed,
        speeds: speeds_of(records, job),
        analysed_before: control.analyses_ahead(job, replica),
        ahead: ahead(records, job, replicas.get(replica as usize)),
        awaits: awaits(records, job),
        turns: control.holders_of_turns(job),
        admission: control.admission_of(job),
        decisions: decisions_of_kueue(records, control.first_of_workload(job)),
        ended,
        last,
        replicas,
        replica,
    }))
}

/// The speeds with which the job was submitted.
fn speeds_of(records: &[Record], job: JobId) -> Option<Arc<Speeds>> {
    let speeds = |record: &Record| match &record.said {
        RecordBody::Input(Input::Submit { job: other, spec }) if *other == job => Some(spec.demand.speeds.clone()),
        RecordBody::Input(_) | RecordBody::Event(_) => None,
    };
    records.iter().find_map(speeds).flatten()
}

/// The last admission of a workload and the decisions since, or else the last decision about it.
fn decisions_of_kueue(records: &[Record], first: Option<JobId>) -> Vec<(SimTime, Event)> {
    let mut last: Vec<(SimTime, Event)> = Vec::new();
    for record in records {
        let RecordBody::Event(event) = &record.said else { continue };
        match event {
            Event::Admitted { job, .. } if Some(*job) == first => last = vec![(record.at, event.clone())],
            Event::NotAdmitted { job, .. } if Some(*job) == first => {
                last.retain(|(_, event)| !matches!(event, Event::NotAdmitted { .. }));
                last.push((record.at, event.clone()));
            }
            Event::Evicted { job, .. } if Some(*job) == first => last.push((record.at, event.clone())),
            _ => {}
        }
    }
    last
}

/// The jobs that are held because of the nodes after these records, if the replica waits behind another job. Under Slurm,
/// those that share a partition with it.
fn ahead(records: &[Record], own: JobId, standing: Option<&ReplicaStanding>) -> Vec<HeldAhead> {
    let held = standing.filter(|standing| standing.waits()).and_then(|standing| standing.held.as_ref());
    if !held.is_some_and(|(_, _, reasons)| reasons.contains(Reason::QueueOrder)) {
        return Vec::new();
    }
    let mut partitions: BTreeMap<JobId, Option<Arc<str>>> = BTreeMap::new();
    let mut waiting: BTreeMap<JobId, HeldAhead> = BTreeMap::new();
    for record in records {
        match &record.said {
            RecordBody::Input(Input::Submit { job, spec }) => {
                partitions.insert(*job, spec.slurm.as_ref().and_then(|terms| terms.partition.clone()));
            }
            RecordBody::Event(Event::Held { attempt, reasons, .. }) => {
                let (job, reasons) = (attempt.job, reasons.clone());
                waiting.insert(job, HeldAhead { job, since: record.at, reasons });
            }
            RecordBody::Event(Event::Placed { attempt, .. } | Event::Ended { attempt, .. }) => {
                waiting.remove(&attempt.job);
            }
            RecordBody::Event(_) | RecordBody::Input(_) => {}
        }
    }
    let share_a_partition = |one: JobId, other: JobId| match (&partitions[&one], &partitions[&other]) {
        (Some(one), Some(other)) => one.split(',').any(|name| other.split(',').any(|known| known == name)),
        _ => true,
    };
    let is_of_nodes = |held: &HeldAhead| held.reasons.iter().any(|(reason, _)| !reason.lies_not_in_nodes());
    let is_ahead = |held: &HeldAhead| held.job != own && is_of_nodes(held) && share_a_partition(held.job, own);
    waiting.into_values().filter(is_ahead).collect()
}

/// The dependencies of a job that are not met after these records.
fn awaits(records: &[Record], job: JobId) -> Vec<UnmetDependency> {
    let after = records.iter().find_map(|record| match &record.said {
        RecordBody::Input(Input::Submit { job: submitted, spec }) if *submitted == job => Some(Arc::clone(&spec.after)),
        _ => None,
    });
    let mut after: Vec<Dependency> = after.unwrap_or_default().to_vec();
    after.extend(earlier_singletons(records, job));
    let mut others: BTreeMap<JobId, (bool, Option<(SimTime, Outcome)>)> = BTreeMap::new();
    if !after.is_empty() {
        for record in records {
            match &record.said {
                RecordBody::Event(Event::JobEnded { job, outcome, .. }) => {
                    others.entry(*job).or_default().1 = Some((record.at, *outcome));
                }
                RecordBody::Event(Event::Moved { attempt, to: Phase::Running, .. }) => {
                    others.entry(attempt.job).or_default().0 = true
                }
                RecordBody::Event(_) | RecordBody::Input(_) => {}
            }
        }
    }
    let awaited = |on: &Dependency| {
        let (has_started, ended) = others.get(&on.job).copied().unwrap_or_default();
        let dependence = Dependence::of(on.when, has_started, ended.map(|(_, outcome)| outcome));
        (dependence != Dependence::Met).then_some(UnmetDependency { on: *on, ended })
    };
    after.iter().filter_map(awaited).collect()
}

/// The jobs that a singleton waits for, as dependencies on their ends.
fn earlier_singletons(records: &[Record], job: JobId) -> Vec<Dependency> {
    let submitted = || {
        records.iter().filter_map(|record| match &record.said {
            RecordBody::Input(Input::Submit { job, spec }) => Some((*job, spec)),
            RecordBody::Input(_) | RecordBody::Event(_) => None,
        })
    };
    let own = submitted().find(|(submitted, _)| *submitted == job);
    let Some((_, own)) = own.filter(|(_, own)| matches!(own.run_limit.as_deref(), Some(RunLimit::Singleton { .. })))
    else {
        return Vec::new();
    };
    let is_of_group = |spec: &JobSpec| spec.run_limit == own.run_limit && spec.user == own.user;
    let earlier = submitted().filter(|(other, spec)| *other < job && is_of_group(spec));
    earlier.map(|(job, _)| Dependency { job, when: Condition::Any }).collect()
}

/// The facts in the log about each replica of a job, and how the job ended.
fn standings(records: &[Record], job: JobId) -> (Vec<ReplicaStanding>, Option<(SimTime, Outcome, Reason)>) {
    let mut replicas: Vec<ReplicaStanding> = Vec::new();
    let mut ended = None;
    let attempt = |replica: u32| AttemptId { job, replica, number: 1 };
    for record in records {
        let event = match &record.said {
            RecordBody::Input(Input::Submit { job: submitted, spec }) if *submitted == job => {
                replicas = (0..spec.replicas).map(|number| ReplicaStanding::new(attempt(number))).collect();
                continue;
            }
            RecordBody::Input(_) => continue,
            RecordBody::Event(event) => event,
        };
        match event {
            Event::JobEnded { job: over, outcome, because } if *over == job => {
                ended = Some((record.at, *outcome, *because));
            }
            Event::ReplicaAdded { attempt } if attempt.job == job => replicas.push(ReplicaStanding::new(*attempt)),
            _ => {
                let of_it = event.attempt().filter(|attempt| attempt.job == job);
                if let Some(standing) = of_it.and_then(|attempt| replicas.get_mut(attempt.replica as usize)) {
                    standing.event(record.at, event);
                }
            }
        }
    }
    (replicas, ended)
}
