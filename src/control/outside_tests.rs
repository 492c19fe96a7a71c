//! Tests of what a scheduler in another process may do.

use std::sync::Arc;

use serde_json::json;

use super::core::Core;
use super::core::store::Wait;
use super::outside::{holding, outcome_of, refused, waiting};
use super::profile_tests::{polled, with};
use super::{FlowOptions, Program, Trigger, Unsafe};
use dryrack_event::{Outcome, Phase, Reason};
use dryrack_fleet::{
    Blocks, Cloud, FleetKind, FleetNodes, FleetPlacement, FleetSpec, IdleDuration, Instance, NodeClaim, NodeShape,
    NodeSpec, NodeState, Placement,
};
use dryrack_ids::{AttemptId, FleetId, JobId, NodeId};
use dryrack_scheduler::Grouping;
use dryrack_scheduler::Preempt;
use dryrack_scheduler::offers::NewInstances;
use dryrack_units::{Bytes, MilliCpu};
use dryrack_workload::{Demand, JobSpec, Requirements, TaskDemand};

const REFUSING: Program = Program { when_unsafe: Unsafe::Refused };
const ALLOWING: Program = Program { when_unsafe: Unsafe::Allowed };

fn shape() -> NodeShape {
    NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), Vec::new())
}

/// A core with one job of this demand, and with these nodes.
fn core(demand: Demand, nodes: &[(NodeShape, NodeState)]) -> Core {
    let mut core = Core::new(Arc::new(with(&[])), 1, Grouping::Classes);
    core.fleet.declare_fleet(Arc::new(FleetSpec {
        name: "pool".into(),
        kind: FleetKind::Cloud,
        placement: FleetPlacement::Any,
        blocks: Blocks::Count(1),
        nodes: Some(FleetNodes { min: 0, target: 0, max: Some(4) }),
        cloud: Some(Cloud { capacity: vec![2, 2], idle_duration: IdleDuration::Usual }),
    }));
    for (number, (shape, state)) in nodes.iter().enumerate() {
        core.fleet.declare(&NodeSpec { name: format!("n{number}").into(), shape: Arc::new(shape.clone()) }, *state);
    }
    core.add_job(&Arc::new(JobSpec::of("j".into(), demand)), 0);
    core.add_replica(JobId::new(0), 0);
    core
}

fn claim(node: usize, cores: u64) -> NodeClaim {
    NodeClaim { tasks: 1, cpu: MilliCpu::from_cores(cores), ..NodeClaim::of_nothing(NodeId::new(node)) }
}

fn placement(claims: Vec<NodeClaim>) -> Placement {
    Placement::new(claims.into_iter().collect())
}

/// Two tasks of four cores.
fn pair() -> Demand {
    Demand { tasks: 2, ..Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(4))) }
}

#[test]
fn a_placement_of_a_program_is_refused_if_it_would_break_safety() {
    let nodes = [(shape(), NodeState::Ready), (shape(), NodeState::NotReady), (shape(), NodeState::Ready)];
    let mut core = core(pair(), &nodes);
    core.fleet.take(&placement(vec![claim(2, 13)]));
    let of = |program, claims: &[NodeClaim]| refused(&core, 0, &placement(claims.to_vec()), program);
    let both = NodeClaim { tasks: 2, ..claim(0, 8) };
    for (claims, because) in [
        (vec![both.clone()], None),
        (vec![claim(0, 4), claim(1, 4)], Some(Reason::PlaceNotReady)),
        (vec![claim(0, 4), claim(2, 4)], Some(Reason::DoesNotFit)),
        (vec![claim(0, 4)], Some(Reason::GangTorn)),
        (vec![NodeClaim { tasks: 2, ..claim(0, 9) }], Some(Reason::Unmet)),
    ] {
        assert_eq!(of(REFUSING, &claims), because, "{claims:?}");
        assert_eq!(of(ALLOWING, &claims), None, "{claims:?}");
    }
}

#[test]
fn the_ledger_and_the_clouds_must_be_able_to_carry_out_any_placement() {
    let instance = |offer| NodeShape {
        instance: Some(Arc::new(Instance {
            fleet: FleetId::new(0),
            blocks: Blocks::Count(1),
            total_blocks: Some(1),
            disk: Bytes::from_gib(100),
            backend: "aws".into(),
            region: "eu".into(),
            spot: false,
            offer,
        })),
        ..shape()
    };
    // Three places of the first offer and two of the second. Two of each can be made, and three in all beside the instance
    // that is there. Another instance is gone for good.
    let (first, second) = (instance(Some(0)), instance(Some(1)));
    let gone = NodeState::Gone;
    let places = [(&first, gone), (&first, gone), (&first, gone), (&second, gone), (&second, gone)];
    let others = [(instance(None), NodeState::Ready), (instance(None), gone)];
    let mut nodes: Vec<_> = places.iter().map(|(shape, state)| ((*shape).clone(), *state)).collect();
    nodes.extend(others);
    let demand = |tasks| Demand { tasks, ..Demand::of(Arc::new(Requirements::default())) };
    let whole = |node: usize| NodeClaim {
        tasks: 1,
        cpu: MilliCpu::from_cores(16),
        ram: Bytes::from_gib(64),
        blocks: [0].into_iter().collect(),
        ..NodeClaim::of_nothing(NodeId::new(node))
    };
    let of = |core: &Core, program, nodes: &[usize]| {
        refused(core, 0, &placement(nodes.iter().map(|node| whole(*node)).collect()), program)
    };
    for (places, because) in [
        (&[0][..], None),
        (&[0, 1], None),
        (&[0, 3, 4], None),
        (&[5], None),
        (&[0, 1, 2], Some(Reason::DoesNotFit)),
        (&[0, 1, 3, 4], Some(Reason::DoesNotFit)),
    ] {
        let core = core(demand(places.len() as u32), &nodes);
        assert_eq!((of(&core, REFUSING, places), of(&core, ALLOWING, places)), (because, because), "{places:?}");
    }
    // A node that is gone and that no cloud makes is not ready.
    let mut core = core(demand(1), &nodes);
    assert_eq!((of(&core, REFUSING, &[6]), of(&core, ALLOWING, &[6])), (Some(Reason::PlaceNotReady), None));
    core.fleet.set_node_state(NodeId::new(0), NodeState::Joining);
    assert_eq!([REFUSING, ALLOWING].map(|program| of(&core, program, &[0])), [Some(Reason::PlaceNotReady); 2]);
    // A block that is held is refused in any case.
    core.fleet.take(&placement(vec![whole(5)]));
    assert_eq!([REFUSING, ALLOWING].map(|program| of(&core, program, &[5])), [Some(Reason::DoesNotFit); 2]);
}

#[test]
fn a_program_speaks_of_attempts_that_wait_or_hold_a_place() {
    let mut core = core(pair(), &[]);
    let attempt = |number| AttemptId { job: JobId::new(0), replica: 0, number };
    let of = |core: &Core, number| (waiting(core, attempt(number)).is_some(), holding(core, attempt(number)).is_some());
    assert_eq!(of(&core, 1), (false, false));
    core.store[0].wait = Wait::Queue;
    assert_eq!((of(&core, 1), of(&core, 2)), ((true, false), (false, false)));
    core.store[0].wait = Wait::Nothing;
    for (phase, holds) in [
        (Phase::Analysing, false),
        (Phase::Scheduled, true),
        (Phase::Preparing, true),
        (Phase::Running, true),
        (Phase::Stopping, false),
        (Phase::Ended, false),
    ] {
        core.store.set_phase(0, phase);
        assert_eq!((of(&core, 1), of(&core, 2)), ((false, holds), (false, false)), "{phase:?}");
    }
    let outcomes =
        [Reason::TimeLimit, Reason::RetryLimit, Reason::UtilizationPolicy, Reason::Cancelled].map(outcome_of);
    assert_eq!(outcomes, [Outcome::Expired, Outcome::Expired, Outcome::Expired, Outcome::Cancelled]);
}

#[test]
fn a_profile_that_a_program_decides_keeps_all_but_its_decisions() {
    let changes = [
        ("flow", polled()),
        ("scheduler/preempt", json!("lower_priority")),
        ("scheduler/backfill", json!("easy")),
        ("scheduler/offers/new_instances", json!("as_fleet")),
        ("passes/backfill", json!({"trigger": "event", "jitter": "0s"})),
        ("passes/place", json!({"trigger": {"every": "5s"}, "batch": 3, "jitter": "1s", "offset": "1s"})),
        ("ticks", json!({"place": ["1s"]})),
    ];
    let before = with(&changes);
    let outside = before.decided_outside();
    assert_eq!((&*outside.name, outside.ticks.is_none()), ("test, decided outside", true));
    let place = outside.passes.place;
    assert_eq!(
        (place.trigger, place.batch, place.jitter.is_zero(), place.offset.is_zero()),
        (Trigger::Outside, None, true, true)
    );
    assert_eq!((outside.passes.backfill, outside.passes.analyse), (None, before.passes.analyse));
    assert_eq!((&outside.flow, outside.scheduler.preempt), (&before.flow, Preempt::LowerPriority));
    let by_program = before.decided_by(REFUSING);
    assert_eq!((by_program.flow, by_program.program), (FlowOptions::Queue, Some(REFUSING)));
    assert_eq!(by_program.scheduler.preempt, Preempt::Nobody);
    assert_eq!(by_program.scheduler.offers.new_instances, NewInstances::Never);
    let by_kubernetes = before.decided_by_kube_scheduler(ALLOWING);
    assert_eq!((by_kubernetes.flow, by_kubernetes.program), (before.flow, Some(ALLOWING)));
}
