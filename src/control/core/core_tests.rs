//! Tests of the records of jobs, replicas and nodes in the core.

use std::sync::Arc;

use serde_json::json;

use super::Core;
use super::nodes::noticed;
use super::timer::Timer;
use crate::profile_tests::with;
use dryrack_event::{Event, Outcome, Output, Phase, Reason};
use dryrack_fleet::{NodeShape, NodeSpec, NodeState, Reliance};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_scheduler::Grouping;
use dryrack_units::{Bytes, MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Demand, JobSpec, Restart, TaskDemand};

const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

fn demand(cores: u64) -> Arc<Demand> {
    Arc::new(Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(cores))))
}

fn spec(replicas: u32) -> JobSpec {
    JobSpec { replicas, ..JobSpec::of("j".into(), demand(1)) }
}

fn core(changes: &[(&str, serde_json::Value)]) -> Core {
    Core::new(Arc::new(with(changes)), 1, Grouping::Classes)
}

/// Adds the next job with all its replicas.
fn submit(core: &mut Core, spec: JobSpec) -> JobId {
    let job = JobId::new(core.store.jobs.len());
    let replicas = spec.replicas;
    core.add_job(&Arc::new(spec), 0);
    for number in 0..replicas {
        core.add_replica(job, number);
    }
    job
}

fn attempt(job: JobId, replica: u32) -> AttemptId {
    AttemptId { job, replica, number: 1 }
}

#[test]
fn another_attempt_follows_by_the_outcome_and_by_what_the_job_asks_for() {
    use Outcome::{Cancelled, Completed, Expired, Failed, Lost, NeverFits, Refused};
    let mut core = core(&[]);
    let jobs = [Restart::Never, Restart::OnFailure, Restart::Always]
        .map(|restart| submit(&mut core, JobSpec { restart, ..spec(1) }));
    // For each outcome: whether jobs that restart never, on failure and always are tried again.
    for (outcome, because, again) in [
        (Completed, Reason::Completed, [false, false, true]),
        (Failed, Reason::Failed, [false, true, true]),
        (Failed, Reason::StartFailed, [true, true, true]),
        (Lost, Reason::NodeLost, [true, true, true]),
        (Cancelled, Reason::Completed, [false, false, false]),
        (Expired, Reason::TimeLimit, [false, false, false]),
        (Refused, Reason::PickRefused, [false, false, false]),
        (NeverFits, Reason::NoNodes, [false, false, false]),
    ] {
        let is_again = jobs.map(|job| core.store.is_tried_again(core.store[job].first, outcome, because));
        assert_eq!(is_again, again, "{outcome:?} because of {because:?}");
    }
    let lost = |core: &Core, job: JobId| core.store.is_tried_again(core.store[job].first, Lost, Reason::NodeLost);
    core.store[jobs[0]].cancelled = true;
    let dismissed = core.store[jobs[1]].first;
    core.store[dismissed].dismissed = true;
    assert_eq!(jobs.map(|job| lost(&core, job)), [false, false, true]);
}

#[test]
fn the_store_knows_replicas_by_their_attempts() {
    let mut core = core(&[]);
    let (first, second) = (submit(&mut core, spec(2)), submit(&mut core, spec(1)));
    let later = core.add_replica(first, 2);
    core.store[first].added.push(later);
    core.store[first].live += 1;
    let store = &mut core.store;
    assert_eq!(
        [(first, 0), (first, 1), (first, 2), (second, 0)].map(|(job, n)| store.replica_of(attempt(job, n))),
        [Some(0), Some(1), Some(3), Some(2)]
    );
    assert!(store.knows_replica(attempt(first, 2)) && !store.knows_replica(attempt(first, 3)));
    assert!(!store.knows_replica(attempt(JobId::new(9), 0)));
    assert_eq!((store.pending(), store.next_to_place(first), store.next_to_place(JobId::new(9))), (4, Some(0), None));
    // The first replica gets a place, the next is analysed, and then both others get places.
    assert_eq!(store.set_phase(0, Phase::Scheduled), Phase::Pending);
    store.set_phase(1, Phase::Analysing);
    store.assert_pending();
    assert_eq!((store.pending(), store.next_to_place(first)), (2, Some(1)));
    assert!(store.waits_for_room(1) && !store.waits_for_room(0) && !store.waits_for_room(9));
    store.set_phase(1, Phase::Scheduled);
    assert_eq!(store.next_to_place(first), Some(2));
    store.set_phase(3, Phase::Running);
    assert_eq!((store.next_to_place(first), store.pending()), (Some(0), 1));
    // Three replicas count, and are more than two. One that was dismissed or has ended counts no longer.
    assert_eq!((store.counted(first), store.is_surplus(0)), (vec![0, 1, 3], false));
    store[first].unmet = Some(2);
    assert!(store.is_surplus(0));
    store[1].dismissed = true;
    assert!(!store.is_surplus(0) && store.counted(first) == [0, 3]);
    assert!(store.is_of_version(0, 0) && !store.is_of_version(0, 1) && !store.is_of_version(9, 0));
}

#[test]
fn work_is_kept_only_by_jobs_with_checkpoints() {
    let mut core = core(&[]);
    let kept = submit(&mut core, JobSpec { checkpoints: true, ..spec(2) });
    let lost = submit(&mut core, spec(1));
    let replicas = [core.store[kept].first, core.store[kept].first + 1, core.store[lost].first];
    core.store.set_phase(replicas[0], Phase::Running);
    core.store.set_phase(replicas[2], Phase::Running);
    replicas.iter().for_each(|index| core.store[*index].since = at(10));
    replicas.iter().for_each(|index| core.store.keep_checkpointed_work(*index, at(25)));
    assert_eq!(replicas.map(|index| core.store[index].ran), [15, 0, 0].map(SimDuration::from_secs));
}

#[test]
fn records_of_ended_jobs_are_dropped_once_nothing_needs_them() {
    let mut core = core(&[]);
    core.store.job_is_over(JobId::new(0));
    assert!(!core.store.drops_ended());
    core.store.drop_from_now_on();
    let jobs = [2, 1, 1, 1].map(|replicas| submit(&mut core, spec(replicas)));
    let store = &mut core.store;
    for index in 0..5 {
        store.set_phase(index, Phase::Ended);
    }
    // The first can be dropped. The others have a live replica, are parked, or keep a claim.
    [jobs[0], jobs[2], jobs[3]].iter().for_each(|job| store[*job].live = 0);
    store[jobs[2]].parked = true;
    jobs.iter().for_each(|job| store.job_is_over(*job));
    store.drop_ended(|job| job == jobs[3]);
    let mut dropped = Vec::new();
    store.take_dropped(|job| dropped.push(job));
    assert_eq!(dropped, [jobs[0]]);
    assert!(store.replica_of(attempt(jobs[0], 0)).is_none() && store.replica_of(attempt(jobs[3], 0)).is_some());
    assert!(store.knows_replica(attempt(jobs[0], 1)) && !store.knows_replica(attempt(jobs[0], 2)));
    // It is dropped when the claim is freed, and each is told once.
    store.job_is_over(jobs[3]);
    store.drop_ended(|_| false);
    store.take_dropped(|job| dropped.push(job));
    store.take_dropped(|job| dropped.push(job));
    assert_eq!(dropped, [jobs[0], jobs[3]]);
}

#[test]
fn equal_demands_have_one_number() {
    let mut core = core(&[]);
    let numbers = [demand(1), demand(2), demand(1)].map(|demand| core.store.demands.number(&demand));
    assert_eq!((numbers, core.store.demands.len()), ([0, 1, 0], 2));
    let shared = demand(2);
    assert_eq!([&shared, &shared].map(|demand| core.store.demands.number(demand)), [1, 1]);
}

/// A core with one ready node.
fn with_node(changes: &[(&str, serde_json::Value)]) -> (Core, NodeId) {
    let mut core = core(changes);
    let node = NodeId::new(0);
    let shape = NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), Vec::new());
    core.declare_node(node, NodeState::Ready, &NodeSpec { name: "n".into(), shape: Arc::new(shape) });
    (core, node)
}

/// The changes of nodes that were emitted since the last call.
fn changes(core: &mut Core) -> Vec<(NodeState, NodeState, Reason)> {
    let of = |output: Output| match output {
        Output::Event(Event::NodeChanged { from, to, because, .. }) => Some((from, to, because)),
        _ => None,
    };
    std::mem::take(&mut core.outbox).into_iter().filter_map(of).collect()
}

#[test]
fn a_silent_node_is_lost_after_the_grace_period_and_back_with_a_heartbeat() {
    let scorers = ("scheduler/scorers", json!([{"stage": "readiness", "weight": 1.0}]));
    let (mut core, node) = with_node(std::slice::from_ref(&scorers));
    let reliance = |core: &Core| core.fleet.node(node).status.reliance;
    core.advance_to(at(20));
    core.heartbeat_missed(node, at(10));
    assert!(!core.has_heartbeats(node));
    assert_eq!(reliance(&core), Reliance { overdue: true, flaps: 0 });
    // A grace period of 40 s, and an eviction after 340 s, both from the last heartbeat.
    let (first, second) = (Timer::SilenceExpired { node, epoch: 1 }, Timer::Evict { node, epoch: 1 });
    let due = |core: &mut Core| core.timers.next(|_| true).map(|entry| (entry.0.0, entry.0.2));
    assert_eq!(due(&mut core), Some((at(50), first)));
    let later = core.timers.next(|timer| timer == second).map(|entry| entry.0.0);
    assert_eq!(later, Some(at(350)));
    // A second report about the same silence changes nothing.
    core.heartbeat_missed(node, at(19));
    assert_eq!(core.nodes[node.index()].silent_since, Some(at(10)));
    core.advance_to(at(50));
    core.silence_expired(node);
    assert_eq!(changes(&mut core), [(NodeState::Ready, NodeState::NotReady, Reason::HeartbeatLost)]);
    assert_eq!(reliance(&core), Reliance { overdue: true, flaps: 1 });
    core.advance_to(at(60));
    core.heartbeat_back(node);
    assert_eq!(changes(&mut core), [(NodeState::NotReady, NodeState::Ready, Reason::HeartbeatBack)]);
    core.heartbeat_back(node);
    assert!(changes(&mut core).is_empty() && core.has_heartbeats(node));
    // The loss counts for an hour.
    core.advance_to(at(50 + 3599));
    core.forget_flaps();
    assert_eq!(reliance(&core), Reliance { overdue: false, flaps: 1 });
    core.advance_to(at(50 + 3600));
    core.forget_flaps();
    assert_eq!(reliance(&core), Reliance::default());
    // Without a stage that reads it, the reliability is not kept.
    let (mut core, node) = with_node(&[]);
    core.heartbeat_missed(node, at(0));
    core.silence_expired(node);
    assert_eq!(core.fleet.node(node).status.reliance, Reliance::default());
}

#[test]
fn an_expired_period_is_noticed_at_the_next_check_after_it() {
    let every = |seconds| Some(SimDuration::from_secs(seconds));
    assert_eq!(noticed(at(40), None), at(40));
    assert_eq!([39, 40, 41].map(|end| noticed(at(end), every(20))), [at(40), at(60), at(60)]);
    let (mut core, node) =
        with_node(&[("heartbeat/checked_every", json!("30s")), ("heartbeat/becomes", json!("unreachable"))]);
    core.heartbeat_missed(node, at(0));
    assert_eq!(core.timers.next(|_| true).map(|entry| entry.0.0), Some(at(60)));
    core.silence_expired(node);
    assert_eq!(changes(&mut core), [(NodeState::Ready, NodeState::Unreachable, Reason::HeartbeatLost)]);
    // What the node reports meanwhile counts once it is heard again, unless it is gone.
    core.set_reported(node, NodeState::Maintenance, Reason::HeartbeatBack);
    assert!(changes(&mut core).is_empty());
    core.set_reported(node, NodeState::Gone, Reason::HeartbeatBack);
    assert_eq!(changes(&mut core), [(NodeState::Unreachable, NodeState::Gone, Reason::HeartbeatBack)]);
}
