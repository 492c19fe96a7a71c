//! Tests of the records of jobs, replicas and nodes in the core.

use std::sync::Arc;

use serde_json::json;

use super::Core;
use super::nodes::noticed;
use super::store::DependencyState;
use super::timer::Timer;
use crate::profile_tests::with;
use dryrack_event::{Command, Event, Outcome, Output, Phase, Reason, Refusal};
use dryrack_fleet::{
    Blocks, Cloud, FleetKind, FleetNodes, FleetPlacement, FleetSpec, IdleDuration, Instance, NodeClaim, NodeShape,
    NodeSpec, NodeState, Placement, Reliance,
};
use dryrack_ids::{AttemptId, FleetId, JobId, NodeId};
use dryrack_scheduler::{Candidate, Grouping};
use dryrack_units::{Bytes, MilliCpu, Score, SimDuration, SimTime};
use dryrack_workload::{Condition, Demand, Dependency, JobSpec, Restart, TaskDemand};

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

fn claim(node: NodeId, cores: u64) -> NodeClaim {
    NodeClaim { tasks: 1, cpu: MilliCpu::from_cores(cores), ..NodeClaim::of_nothing(node) }
}

#[test]
fn a_candidate_may_be_committed_if_its_nodes_are_unchanged_or_it_still_fits() {
    let place = |claims: &[NodeClaim]| Candidate {
        placement: Placement::new(claims.iter().cloned().collect()),
        score: Score::ZERO,
    };
    for recheck in [true, false] {
        let (mut core, first) = with_node(&[("commit/recheck", json!(recheck))]);
        let second = NodeId::new(1);
        let spec = NodeSpec { name: "m".into(), shape: Arc::clone(&core.fleet.node(first).shape) };
        core.declare_node(second, NodeState::Ready, &spec);
        let job = submit(&mut core, JobSpec::of("j".into(), demand(8)));
        let index = core.store[job].first;
        let version = |core: &Core, node: NodeId| core.fleet.node(node).version;
        // A release may overcommit GPUs that a user picked. So a candidate may be one that would not fit again.
        let (small, large) = (place(&[claim(first, 8)]), place(&[claim(first, 17)]));
        let both = place(&[claim(second, 8), claim(first, 8)]);
        let read = core.versions_of(&[small.clone(), both.clone(), large.clone()]);
        assert_eq!(read, [(first, version(&core, first)), (second, version(&core, second))]);
        let may = |core: &Core| [&small, &large, &both].map(|candidate| core.may_commit(index, candidate, &read));
        assert_eq!(may(&core), [true; 3]);
        // Another job takes 4 of the 16 cores of the first node, and then 5 more.
        core.fleet.take(&place(&[claim(first, 4)]).placement);
        assert_eq!(may(&core), [true, !recheck, true]);
        core.fleet.take(&place(&[claim(first, 5)]).placement);
        assert_eq!(may(&core), [!recheck; 3]);
    }
}

/// A core with a fleet of these sizes in a cloud with room for this many instances, all of which are absent at first.
fn with_cloud(nodes: FleetNodes, capacity: u32) -> Core {
    let mut core = core(&[]);
    let fleet = FleetId::new(0);
    let spec = FleetSpec {
        name: "pool".into(),
        kind: FleetKind::Cloud,
        placement: FleetPlacement::Any,
        blocks: Blocks::Count(1),
        nodes: Some(nodes),
        cloud: Some(Cloud { capacity: vec![capacity], idle_duration: IdleDuration::Usual }),
    };
    core.declare_fleet(fleet, &Arc::new(spec));
    for number in 0..capacity as usize {
        let instance = Instance {
            fleet,
            blocks: Blocks::Count(1),
            total_blocks: Some(1),
            disk: Bytes::from_gib(100),
            backend: "aws".into(),
            region: "eu".into(),
            spot: false,
            offer: Some(0),
        };
        let shape = NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), Vec::new());
        let shape = Arc::new(NodeShape { instance: Some(Arc::new(instance)), ..shape });
        let spec = NodeSpec { name: format!("i{number}").into(), shape };
        core.declare_node(NodeId::new(number), NodeState::Gone, &spec);
    }
    core
}

#[test]
fn only_a_fleet_with_fewer_instances_than_its_minimum_is_checked_again() {
    let fleet = FleetId::new(0);
    let check_at = |core: &mut Core| core.clouds.instances.cloud(fleet).check_at;
    // The least number and the number at first, what the cloud has, and whether instances are missing.
    for (min, target, capacity, is_short) in [
        (0, 0, 2, false),
        (0, 2, 2, false),
        (1, 1, 2, false),
        (2, 2, 2, false),
        (2, 2, 1, true),
        (1, 2, 1, false),
        (1, 2, 2, false),
    ] {
        let mut core = with_cloud(FleetNodes { min, target, max: Some(4) }, capacity);
        core.advance_to(at(10));
        core.begin_fleets();
        let requested = core.clouds.staying(&core.fleet, fleet);
        assert_eq!(requested, target.min(capacity), "{min}..{target} of {capacity}");
        assert_eq!(check_at(&mut core).is_some(), is_short, "{min}..{target} of {capacity}");
        if is_short || min == 0 {
            continue;
        }
        // The loss of an instance leaves enough or too few. The first pause is a minute.
        core.advance_to(at(20));
        core.set_reported(NodeId::new(0), NodeState::Gone, Reason::Reported);
        core.instance_reported(NodeId::new(0), NodeState::Gone);
        assert_eq!(check_at(&mut core), (requested - 1 < min).then_some(at(80)), "{min}..{target} of {capacity}");
    }
}

#[test]
fn a_job_never_runs_once_a_dependency_can_never_be_met() {
    let mut core = core(&[]);
    let depend = |core: &mut Core, on: &[JobId], when| {
        let after: Vec<_> = on.iter().map(|job| Dependency { job: *job, when }).collect();
        let spec = JobSpec { after: after.into(), ..spec(1) };
        let job = submit(core, spec.clone());
        let is_never = core.store.add_dependencies(job, &spec);
        (job, is_never)
    };
    let (first, second) = (submit(&mut core, spec(1)), submit(&mut core, spec(1)));
    let (both, is_never) = depend(&mut core, &[first, second], Condition::Ok);
    let (any, is_any_never) = depend(&mut core, &[first], Condition::Any);
    assert_eq!((is_never, is_any_never, core.store.never_satisfied()), (false, false, vec![]));
    // The first job fails. The second one still runs.
    assert_eq!(core.store.job_has_ended(first, Outcome::Failed), [both, any]);
    assert_eq!(core.store.never_satisfied(), [both]);
    assert_eq!(
        [both, any].map(|job| core.store.judged(job)),
        [Some(DependencyState::Never), Some(DependencyState::Free)]
    );
    assert_eq!(core.store.refused_for_others(both), Some((Refusal::Never, Reason::DependencyNeverSatisfied)));
    let (late, is_never) = depend(&mut core, &[first], Condition::Ok);
    assert_eq!((is_never, core.store.never_satisfied()), (true, vec![both, late]));
}

/// The commands to stop that were sent since the last call.
fn stops(core: &mut Core) -> usize {
    let is_stop = |output: &Output| matches!(output, Output::Command(Command::Stop { .. }));
    std::mem::take(&mut core.outbox).iter().filter(|output| is_stop(output)).count()
}

#[test]
fn an_attempt_whose_node_does_not_answer_is_asked_for_the_last_time_and_then_given_up() {
    let (mut core, node) = with_node(&[]);
    let job = submit(&mut core, spec(1));
    let asked = attempt(job, 0);
    let place = Placement::new([claim(node, 1)].into());
    core.fleet.take(&place);
    core.kept.claims.insert(asked, place);
    core.outbox.clear();
    let due = |core: &mut Core, left: u8| core.timers.next(|timer| timer == Timer::StopAgain { attempt: asked, left });
    core.stop_again(asked, 2);
    assert_eq!((stops(&mut core), core.awaited_claims().count()), (1, 1));
    assert!(due(&mut core, 1).is_some());
    core.stop_again(asked, 1);
    assert_eq!((stops(&mut core), core.awaited_claims().count()), (1, 0));
    assert!(due(&mut core, 0).is_none());
    // A node that is not ready does not answer, so it is not asked.
    core.fleet.set_node_state(node, NodeState::NotReady);
    core.stop_again(asked, 2);
    assert_eq!(stops(&mut core), 0);
}
