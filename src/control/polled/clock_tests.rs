//! Tests of the clocks of the loops, and of what one decision covers.

use std::sync::Arc;

use serde_json::json;

use super::Polled;
use super::clock::{Clock, LoopKind};
use super::options::{GangRule, Loops, RunsOptions};
use crate::flow::Flow;
use crate::profile_tests::polled;
use dryrack_scheduler::GangPart;
use dryrack_units::{MilliCpu, SimTime};
use dryrack_workload::{Demand, Requirements, TaskDemand};

const fn at(milliseconds: u64) -> SimTime {
    SimTime::from_nanos(milliseconds * 1_000_000)
}

/// Loops with a round every second, of which the loop of running nodes polls at most five records.
fn options() -> RunsOptions {
    let mut data = polled();
    data["polled"]["loops"]["polled"]["running"]["rounds"]["batch"] = json!(5);
    data["polled"]["loops"]["polled"]["runs"]["rounds"]["every"] = json!("3s");
    serde_json::from_value(data["polled"].clone()).expect("options")
}

#[test]
fn a_loop_with_rounds_runs_in_each_of_them() {
    let mut clock = Clock::new(&options(), LoopKind::Submitted, 1);
    assert_eq!((clock.next(at(0)), clock.batch()), (None, usize::MAX));
    assert!(clock.runs_at(at(1000), false) && !clock.runs_at(at(1500), false));
    clock.enter((at(1200), 7), false);
    clock.enter((at(0), 8), true);
    // A flagged record is polled in the next round, and the other once it is due.
    assert_eq!(clock.next(at(500)), Some(at(1000)));
    assert_eq!(clock.poll(at(1000)), [8]);
    assert!(!clock.runs_at(at(1000), false));
    clock.leave((at(0), 8), true);
    assert_eq!((clock.lively, clock.next(at(1000))), (0, Some(at(2000))));
    assert_eq!(clock.poll(at(2000)), [7]);
    let mut runs = Clock::new(&options(), LoopKind::Runs, 1);
    runs.enter((at(0), 1), true);
    assert_eq!(runs.next(at(500)), Some(at(3000)));
    let kinds = LoopKind::ALL.map(|kind| kind.reason());
    assert_eq!(
        kinds,
        ["a poll of submitted nodes", "a poll of running nodes", "a poll of terminating nodes", "a poll of runs"]
    );
}

#[test]
fn a_loop_with_a_batch_skips_rounds_that_change_nothing() {
    let mut clock = Clock::new(&options(), LoopKind::Running, 1);
    assert_eq!(clock.batch(), 5);
    clock.enter((at(0), 3), false);
    assert_eq!(clock.next(at(500)), None);
    assert!(!clock.runs_at(at(1000), false) && clock.runs_at(at(1000), true) && !clock.runs_at(at(1500), true));
    clock.enter((at(0), 4), true);
    assert_eq!((clock.next(at(500)), clock.runs_at(at(1000), false)), (Some(at(1000)), true));
    assert_eq!(clock.poll(at(1000)), [3, 4]);
}

#[test]
fn ideal_loops_poll_at_once() {
    let ideal = RunsOptions { loops: Loops::Ideal, ..options() };
    let mut clock = Clock::new(&ideal, LoopKind::Terminating, 1);
    assert!(!clock.runs_at(at(0), true));
    clock.enter((at(1200), 7), true);
    assert_eq!([500, 1500].map(|now| clock.next(at(now))), [Some(at(1200)), Some(at(1500))]);
    assert_eq!([1199, 1200].map(|now| clock.runs_at(at(now), false)), [false, true]);
    assert_eq!((clock.poll(at(1199)), clock.poll(at(1200))), (vec![], vec![7]));
}

#[test]
fn the_first_decision_covers_one_node_only_if_nodes_of_offers_are_placed_one_by_one() {
    let tasks = Demand { tasks: 2, ..Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1))) };
    let offers = Demand { tasks: 2, ..Demand::of(Arc::new(Requirements::default())) };
    let (whole, first_node) = (GangPart::Whole, GangPart::Node { master: None });
    for (gang, of_tasks, of_offers) in [(GangRule::Whole, whole, whole), (GangRule::OneByOne, whole, first_node)] {
        let polled = Polled::new(&RunsOptions { gang, ..options() }, 1);
        assert_eq!([&tasks, &offers].map(|demand| polled.first_gang_part(demand)), [of_tasks, of_offers], "{gang:?}");
    }
}
