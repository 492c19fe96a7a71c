//! Tests of what backfilling knows of the future: the ends of attempts, the room after them, and reservations.

use std::sync::Arc;

use super::bookings::{Bookings, end};
use super::calendar::{Calendar, NodeEnd, Part};
use super::ends::MOMENT;
use super::outlook::Outlook;
use dryrack_fleet::{Fleet, GpuClaim, GpuShape, NodeClaim, NodeShape, NodeSpec, NodeState, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::SchedulerOptions;
use dryrack_units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Demand, GpuDemand, GpuTake, TaskDemand};

const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

const fn seconds(seconds: u64) -> SimDuration {
    SimDuration::from_secs(seconds)
}

/// Nodes with these numbers of GPUs.
fn fleet(nodes: &[usize]) -> Fleet {
    let mut fleet = Fleet::default();
    fleet.keep_node_changes();
    for (number, gpus) in nodes.iter().enumerate() {
        let gpus = vec![GpuShape::of("a", Bytes::from_gib(80)); *gpus];
        let shape = NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), gpus);
        fleet.declare(&NodeSpec { name: format!("n{number}").into(), shape: Arc::new(shape) }, NodeState::Ready);
    }
    fleet
}

/// A claim of these whole GPUs.
fn claim(node: usize, gpus: &[u16]) -> NodeClaim {
    let whole = |index: &u16| GpuClaim { index: *index, share: GpuShare::WHOLE, memory: Bytes::from_gib(80) };
    NodeClaim { tasks: 1, gpus: gpus.iter().map(whole).collect(), ..NodeClaim::of_nothing(NodeId::new(node)) }
}

fn placement(claims: &[NodeClaim]) -> Placement {
    Placement::new(claims.iter().cloned().collect())
}

/// Lets attempts hold these GPUs of a node until these times.
fn hold(fleet: &mut Fleet, calendar: &mut Calendar, node: usize, held: &[(&[u16], SimTime)]) {
    let ends = held.iter().map(|(gpus, until)| {
        let placement = placement(&[claim(node, gpus)]);
        fleet.take(&placement);
        NodeEnd { until: *until, part: Part::on(&placement, NodeId::new(node)).expect("it is there") }
    });
    let ends = ends.collect();
    calendar.replace(fleet, NodeId::new(node), ends, false);
}

fn gangs(tasks: u32) -> Demand {
    let gpus = GpuDemand { count: 1, take: GpuTake::Whole, models: Vec::new(), min_memory: None };
    let task = TaskDemand { gpus: Some(gpus), ..TaskDemand::cpu_only(MilliCpu::ZERO) };
    Demand { tasks, ..Demand::of(task) }
}

fn options() -> SchedulerOptions {
    serde_json::from_str(include_str!("../../../scheduler/test_options.json")).expect("options")
}

#[test]
fn a_calendar_has_the_ends_of_attempts_by_node() {
    let (mut fleet, mut calendar) = (fleet(&[4, 4]), Calendar::default());
    hold(&mut fleet, &mut calendar, 0, &[(&[2], at(200)), (&[0, 1], at(100)), (&[3], SimTime::MAX)]);
    hold(&mut fleet, &mut calendar, 1, &[(&[0], at(150))]);
    let (first, second) = (NodeId::new(0), NodeId::new(1));
    assert_eq!(calendar.held_on(first).map(|held| held.until).collect::<Vec<_>>(), [at(100), at(200), SimTime::MAX]);
    assert_eq!(calendar.first_end(), Some(at(100)));
    assert_eq!(calendar.ends_from(at(101)).collect::<Vec<_>>(), [(at(150), second), (at(200), first)]);
    assert_eq!(calendar.ends_from(at(200)).count(), 1);
    assert_eq!([99, 100, 150].map(|now| calendar.overdue(at(now)).count()), [0, 1, 2]);
    assert!(calendar.empty(first).is_unused() && calendar.floating.is_empty());
    // Whole GPUs as bits, and the ends of a node that is replaced.
    let bits: Vec<u64> = calendar.held_on(first).map(|held| held.part.gpus).collect();
    assert_eq!(bits, [0b11, 0b100, 0b1000]);
    calendar.replace(&fleet, first, Vec::new(), true);
    assert_eq!((calendar.first_end(), calendar.floating.len()), (Some(at(150)), 1));
    calendar.replace(&fleet, first, Vec::new(), false);
    assert!(calendar.floating.is_empty());
    let mut shared = claim(0, &[1, 2]);
    shared.gpus[1].share = GpuShare::new(500);
    assert_eq!(Part::on(&placement(&[shared, claim(1, &[0])]), first).map(|part| part.gpus), Some(0b10));
    assert!(Part::on(&placement(&[claim(1, &[0])]), first).is_none());
    let parts = placement(&[claim(0, &[3]), claim(1, &[0])]);
    assert_eq!(
        Part::all(&parts).map(|part| (part.claim().node, part.gpus)).collect::<Vec<_>>(),
        [(first, 8), (second, 1)]
    );
}

#[test]
fn an_outlook_counts_the_tasks_that_fit_now_and_after_each_end() {
    let (mut fleet, mut calendar) = (fleet(&[4, 4, 0]), Calendar::default());
    hold(&mut fleet, &mut calendar, 0, &[(&[0, 1], at(100)), (&[2], at(200))]);
    hold(&mut fleet, &mut calendar, 1, &[]);
    let (options, demand) = (options(), gangs(9));
    let mut outlook = Outlook::default();
    outlook.update(&options, &demand, &fleet, &calendar);
    // 1 and 4 now, 3 and 4 from 100 s on, 4 and 4 from 200 s on. The last node has no GPUs.
    assert_eq!([0, 1].map(|node| outlook.room_now(NodeId::new(node))), [1, 4]);
    assert_eq!(outlook.open.iter().map(|node| node.index()).collect::<Vec<_>>(), [0, 1]);
    assert!(outlook.fits_now(5) && !outlook.fits_now(6));
    assert_eq!(
        [1, 7, 8, 9].map(|tasks| outlook.fits_at(tasks, &calendar)),
        [Some(at(100)), Some(at(100)), Some(at(200)), None]
    );
    // Beside a claim of two GPUs on the first node: at 100 s, one GPU is free there, and four on the second.
    let beside = |tasks, seconds, claims: &[NodeClaim]| {
        outlook.fits_beside((&options, &gangs(tasks)), (&fleet, &calendar), at(seconds), claims)
    };
    assert!(beside(5, 100, &[claim(0, &[0, 3])]) && !beside(6, 100, &[claim(0, &[0, 3])]));
    assert!(beside(6, 200, &[claim(0, &[0, 3])]) && !beside(7, 200, &[claim(0, &[0, 3])]));
    assert!(beside(4, 99, &[claim(0, &[3])]) && !beside(5, 99, &[claim(0, &[3])]));
    assert!(beside(7, 100, &[]) && !beside(8, 100, &[]));
    // The second node is filled, and the first attempt of the first one ends.
    hold(&mut fleet, &mut calendar, 1, &[(&[0, 1, 2, 3], at(300))]);
    fleet.release(&claim(0, &[0, 1]));
    let left = Part::on(&placement(&[claim(0, &[2])]), NodeId::new(0)).expect("it is there");
    calendar.replace(&fleet, NodeId::new(0), vec![NodeEnd { until: at(200), part: left }], false);
    outlook.update(&options, &demand, &fleet, &calendar);
    assert!(outlook.fits_now(3) && !outlook.fits_now(4));
    assert_eq!(outlook.open.iter().map(|node| node.index()).collect::<Vec<_>>(), [0]);
    assert_eq!([4, 5, 8].map(|tasks| outlook.fits_at(tasks, &calendar)), [Some(at(200)), Some(at(300)), Some(at(300))]);
}

#[test]
fn reservations_teach_when_no_replica_starts() {
    let mut bookings = Bookings::default();
    bookings.begin(2);
    bookings.book(at(10), at(20), &placement(&[claim(0, &[0]), claim(1, &[1])]));
    bookings.book(at(15), SimTime::MAX, &placement(&[claim(1, &[0])]));
    let on = |bookings: &Bookings, node| {
        bookings.on(NodeId::new(node)).iter().map(|one| (one.from, one.until, one.part.gpus)).collect::<Vec<_>>()
    };
    assert_eq!(on(&bookings, 0), [(at(10), at(20), 1)]);
    assert_eq!(on(&bookings, 1), [(at(10), at(20), 2), (at(15), SimTime::MAX, 1)]);
    // An end that never comes is none.
    assert_eq!(
        bookings.ends.iter().map(|(at, node)| (*at, node.index())).collect::<Vec<_>>(),
        [(at(20), 0), (at(20), 1)]
    );
    // Demand 1 asks for at most as much as demand 2.
    bookings.no_more = [(1, vec![1]), (2, vec![1, 2])].into();
    bookings.learn(1, seconds(60), at(100));
    let earliest = |bookings: &Bookings, demand| {
        [59, 60, 120, 600].map(|length| bookings.earliest(demand, seconds(length)).as_nanos() / 1_000_000_000)
    };
    assert_eq!((earliest(&bookings, 1), earliest(&bookings, 2)), ([0, 100, 100, 100], [0, 100, 100, 100]));
    bookings.learn(2, seconds(120), at(300));
    assert_eq!((earliest(&bookings, 1), earliest(&bookings, 2)), ([0, 100, 100, 100], [0, 100, 300, 300]));
    // What a shorter replica teaches replaces what longer ones said, unless that is later.
    bookings.learn(1, seconds(600), at(400));
    bookings.learn(1, seconds(59), at(200));
    assert_eq!(earliest(&bookings, 1), [200, 200, 200, 400]);
    assert_eq!(bookings.earliest[&1].len(), 2);
    bookings.begin(2);
    assert!(on(&bookings, 0).is_empty() && on(&bookings, 1).is_empty() && bookings.ends.is_empty());
    assert_eq!(bookings.earliest(1, seconds(600)), SimTime::ZERO);
    assert_eq!((end(at(5), seconds(7)), end(at(5), SimDuration::ZERO)), (at(12), at(5).saturating_add(MOMENT)));
}
