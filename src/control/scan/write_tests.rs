//! Tests of what a placement that was computed from an old row writes into the row as it is now.

use std::sync::Arc;

use super::Scanned;
use super::entries::RowRead;
use crate::control_tests::{at, commands, first, tell, wait};
use crate::core::Core;
use crate::core::store::Wait;
use crate::flow::Flow;
use crate::profile_tests::{scanned, with};
use crate::{AnyFlow, Control};
use dryrack_event::{Command, FleetFact, Histogram, Input, Lifecycle, Phase, Reason, Refusal};
use dryrack_fleet::{NodeClaim, NodeShape, NodeSpec, NodeState, Placement};
use dryrack_ids::{JobId, NodeId};
use dryrack_scheduler::Candidate;
use dryrack_units::{Bytes, MilliCpu, Score, SimTime};
use dryrack_workload::{Demand, JobSpec, TaskDemand};

fn placement(node: usize) -> Placement {
    let cpu = MilliCpu::from_cores(8);
    Placement::new([NodeClaim { tasks: 1, cpu, ..NodeClaim::of_nothing(NodeId::new(node)) }].into())
}

/// Two nodes, and a job that has come as far as this phase. Beyond waiting, it is on the first node.
fn reached(phase: Phase) -> Control {
    let mut control = Control::new(Arc::new(with(&[("flow", scanned())])), 1);
    let state = if phase == Phase::Pending { NodeState::NotReady } else { NodeState::Ready };
    for number in 0..2 {
        let shape = NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), Vec::new());
        let spec = NodeSpec { name: format!("n{number}").into(), shape: Arc::new(shape) };
        tell(&mut control, 0, &Input::Fleet(FleetFact::NodeDeclared { node: NodeId::new(number), state, spec }));
    }
    let spec = JobSpec::of("j".into(), Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(8))));
    tell(&mut control, 0, &Input::Submit { job: JobId::new(0), spec: Arc::new(spec) });
    wait(&mut control, 1);
    for (least, fact) in [(Phase::Preparing, Lifecycle::Preparing), (Phase::Running, Lifecycle::Started)] {
        if phase >= least && phase != Phase::Pending {
            tell(&mut control, 2, &Input::Attempt { attempt: first(), fact });
        }
    }
    control.core.advance_to(at(3));
    (0..2).for_each(|node| control.core.fleet.set_node_state(NodeId::new(node), NodeState::Ready));
    assert_eq!(control.core.store[0].phase, phase);
    control
}

fn parts(control: &mut Control) -> (&mut Core, &mut Scanned) {
    let AnyFlow::Scanned(scanned) = &mut control.flow else { panic!("rows are scanned") };
    (&mut control.core, scanned)
}

/// Writes a placement on a node into a row that was read with this phase and place. Returns the stops and starts: the
/// number of the attempt, and the node of a start.
fn write(control: &mut Control, read: (Phase, Option<usize>), node: usize) -> Vec<(u32, Option<usize>)> {
    let (core, flow) = parts(control);
    let read = RowRead { serial: 0, version: 0, phase: read.0, placement: read.1.map(placement) };
    flow.write_placement(core, 0, &read, Candidate { placement: placement(node), score: Score::ZERO });
    let told = commands(control).into_iter().map(|command| match command {
        Command::Stop { attempt } => (attempt.number, None),
        Command::Start { attempt, placement } => (attempt.number, Some(placement.claims()[0].node.index())),
        other => panic!("{other:?} is not expected"),
    });
    told.collect()
}

#[test]
fn a_placement_is_written_over_another_place_and_over_a_state_that_was_read_otherwise() {
    use Phase::{Analysing, Pending, Preparing, Running, Scheduled};
    let over = |node| vec![(1, None), (2, Some(node))];
    for (phase, read, node, told, then) in [
        // The same place, and the state is not written, because the row was read as scheduled.
        (Scheduled, (Scheduled, Some(0)), 0, vec![], Scheduled),
        (Preparing, (Scheduled, Some(0)), 0, vec![], Preparing),
        (Running, (Scheduled, Some(0)), 0, vec![], Running),
        // The state is written, and is the same.
        (Scheduled, (Analysing, Some(0)), 0, vec![], Scheduled),
        // Another place, in the state that the row has reached since it was read.
        (Scheduled, (Scheduled, Some(0)), 1, over(1), Scheduled),
        (Preparing, (Scheduled, Some(0)), 1, over(1), Preparing),
        (Running, (Scheduled, Some(0)), 1, over(1), Running),
        // The row was read before it had a place, so the place and the state are written.
        (Running, (Analysing, None), 0, over(0), Scheduled),
        (Running, (Analysing, Some(0)), 0, over(0), Scheduled),
        (Preparing, (Analysing, Some(0)), 0, over(0), Scheduled),
        // What waits has no place.
        (Pending, (Analysing, None), 1, vec![(1, Some(1))], Scheduled),
        (Pending, (Scheduled, Some(0)), 0, vec![(1, Some(0))], Scheduled),
    ] {
        let mut control = reached(phase);
        let version = |control: &mut Control| parts(control).1.rows.values().map(|row| row.version).sum::<u64>();
        let before = version(&mut control);
        let case = format!("{phase:?}, read as {read:?}, placed on {node}");
        assert_eq!(write(&mut control, read, node), told, "{case}");
        let replica = &control.core.store[0];
        assert_eq!(replica.phase, then, "{case}");
        assert_eq!(replica.placement, Some(placement(node)), "{case}");
        // A row that is not written stays as old as it is.
        assert_eq!(version(&mut control) > before, !told.is_empty(), "{case}");
    }
}

#[test]
fn a_pause_before_the_next_attempt_ends_when_a_placement_or_a_refusal_is_written() {
    let refuse = |control: &mut Control| {
        let (core, flow) = parts(control);
        let read = RowRead { serial: 0, version: 0, phase: Phase::Analysing, placement: None };
        flow.write_refusal(core, 0, &read, (Refusal::Unfit, Histogram::of(Reason::InsufficientCpu, 2)));
        assert_eq!(core.store[0].wait, Wait::Scan);
    };
    let place = |control: &mut Control| drop(write(control, (Phase::Analysing, None), 0));
    for is_placed in [true, false] {
        let versions = [Wait::Scan, Wait::BackOff].map(|waits| {
            let mut control = reached(Phase::Pending);
            control.core.store[0].wait = waits;
            let before = control.core.store[0].version;
            if is_placed {
                place(&mut control)
            } else {
                refuse(&mut control)
            }
            control.core.store[0].version - before
        });
        // The timer of the pause is void.
        assert_eq!(versions[1], versions[0] + 1, "placed: {is_placed}");
    }
}

#[test]
fn each_change_of_a_phase_counts() {
    let mut control = reached(Phase::Running);
    let (core, flow) = parts(&mut control);
    let (before, _) = flow.waiting_changes(core);
    flow.phase_changed(core, 0, (Phase::Preparing, SimTime::ZERO));
    assert_eq!(flow.waiting_changes(core), (before + 1, SimTime::ZERO));
}
