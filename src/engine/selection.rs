//! Answers what a user could pick for a job at a moment. Simulates the run up to that moment and passes the job's
//! demand through the filters.

use std::sync::Arc;

use super::records::Records;
use super::rehearsal::Rehearsal;
use super::replay::Replay;
use super::run::{RunOptions, run};
use dryrack_control::{Watch, Watched};
use dryrack_event::{Event, Input, Record, RecordBody};
use dryrack_fleet::{Node, NodeState};
use dryrack_ids::{JobId, NodeId};
use dryrack_scheduler::{SchedulerView, Selectable};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Arrival, JobSpec};

/// The data of a decision at a moment, and the nodes and GPUs that can be picked by hand.
pub struct Selection {
    pub at: SimTime,
    pub sight: SchedulerView,
    /// One entry for each node, in order of node ids.
    pub nodes: Vec<Selectable>,
}

/// How far after the submission the search for the first decision simulates the run. If there is no decision by then,
/// this time is multiplied by ten.
const REACH: SimDuration = SimDuration::from_secs(60);
/// The number of attempts before the search gives up.
const REACHES: u32 = 8;

/// Finds what can be picked by hand for a job, or for one of its replicas.
///
/// If `at` is `None`, uses what the first decision about the job sees. If there is no decision about the job, uses the
/// moment of its submission.
///
/// If `at` is given, uses what the next decision would see after all events of that instant. That decision is about the
/// first replica without a placement, or about an additional replica if all are placed. Capacity that the job holds by
/// then counts as taken.
pub fn selection(rehearsal: &Rehearsal, job: JobId, replica: Option<u32>, at: Option<SimTime>) -> Selection {
    let spec = &rehearsal.arrivals[job.index()].spec;
    let (at, sight) = match at {
        Some(at) => (at, stands(rehearsal, (job, replica), at)),
        None => match first_decision(rehearsal, job, replica) {
            // A decision may be about one of several partitions, but the user can pick from all of them.
            Some(mut first) if is_in_several_partitions(spec) => {
                first.sight.demand = rehearsal.profile.scheduler.demand_of(spec);
                (first.at, first.sight)
            }
            Some(first) => (first.at, first.sight),
            None => {
                let at = rehearsal.arrivals[job.index()].at;
                (at, before(rehearsal, job, at))
            }
        },
    };
    let nodes = sight.select(&rehearsal.profile.scheduler);
    Selection { at, sight, nodes }
}

fn replay_of(rehearsal: &Rehearsal) -> Replay {
    Replay::new(Arc::clone(&rehearsal.profile), rehearsal.seed)
}

/// The records up to a moment, and whether the run would continue after it.
fn run_until(rehearsal: &Rehearsal, until: SimTime) -> (Vec<Record>, bool) {
    let is_all = rehearsal.until.is_some_and(|end| end <= until);
    let until = if is_all { rehearsal.until } else { Some(until) };
    let part = Rehearsal { until, ..rehearsal.clone() };
    let mut records = Records::default();
    let end = run(&part, RunOptions::default(), &mut [&mut records]);
    (records.0, end.cut_short && !is_all)
}

fn first_decision(rehearsal: &Rehearsal, job: JobId, replica: Option<u32>) -> Option<Watched> {
    let Arrival { at: submitted, spec, .. } = &rehearsal.arrivals[job.index()];
    let mut reach = SimDuration::ZERO;
    for _ in 0..REACHES {
        let (records, is_cut) = run_until(rehearsal, submitted.saturating_add(reach));
        let mut replay = replay_of(rehearsal);
        replay.control.watch(Watch::Job(job));
        for record in &records {
            replay.take(record).expect("what was just recorded replays");
            if let Some(first) = first_of(replay.control.take_decisions(), (spec, replica)) {
                return Some(first);
            }
            if matches!(&record.said, RecordBody::Event(Event::JobEnded { job: over, .. }) if *over == job) {
                return None;
            }
        }
        replay.finish().expect("what was just recorded replays");
        if let Some(first) = first_of(replay.control.take_decisions(), (spec, replica)) {
            return Some(first);
        }
        if !is_cut {
            return None;
        }
        reach = if reach.is_zero() { REACH } else { reach.saturating_mul(10) };
    }
    None
}

/// The first of these decisions. If the job is in several partitions, each decision of an instant saw only the nodes of one
/// of them as ready. Then the nodes are ready that one of these decisions saw as ready, because the user can pick from all.
fn first_of(decisions: Vec<Watched>, (job, replica): (&JobSpec, Option<u32>)) -> Option<Watched> {
    let is_of_it = |watched: &Watched| replica.is_none_or(|replica| watched.attempt.replica == replica);
    let mut of_it = decisions.into_iter().filter(is_of_it);
    let mut first = of_it.next()?;
    if is_in_several_partitions(job) {
        for other in of_it.filter(|other| other.attempt == first.attempt) {
            let is_ready = |(_, node): &(NodeId, &Node)| node.status.state == NodeState::Ready;
            for (node, _) in other.sight.fleet.iter().filter(is_ready) {
                first.sight.fleet.set_node_state(node, NodeState::Ready);
            }
        }
    }
    Some(first)
}

fn is_in_several_partitions(job: &JobSpec) -> bool {
    job.slurm.as_ref().is_some_and(|terms| terms.has_several_partitions())
}

/// The data of a decision about the job, just before the job is submitted.
fn before(rehearsal: &Rehearsal, job: JobId, at: SimTime) -> SchedulerView {
    let is_its_own =
        |record: &Record| matches!(&record.said, RecordBody::Input(Input::Submit { job: one, .. }) if *one == job);
    let (records, _) = run_until(rehearsal, at);
    let mut replay = replay_of(rehearsal);
    for record in records.iter().take_while(|record| !is_its_own(record)) {
        replay.take(record).expect("what was just recorded replays");
    }
    replay.control.sight_before(job, &rehearsal.arrivals[job.index()].spec)
}

/// The data of a decision about the job, after all events of the instant.
fn stands(rehearsal: &Rehearsal, (job, replica): (JobId, Option<u32>), at: SimTime) -> SchedulerView {
    let (records, _) = run_until(rehearsal, at);
    let mut replay = replay_of(rehearsal);
    for record in &records {
        replay.take(record).expect("what was just recorded replays");
    }
    let control = &replay.control;
    let replica = replica.or_else(|| control.next_to_place(job));
    let known = replica.and_then(|replica| control.sight_of(job, replica));
    known.unwrap_or_else(|| control.sight_before(job, &rehearsal.arrivals[job.index()].spec))
}
