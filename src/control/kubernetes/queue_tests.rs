//! Tests of the queue of pods, and of the sets that go with it.

use super::hints::Event;
use super::options::QueueOptions;
use super::permits::{Permits, Reserved};
use super::plugins::Plugins;
use super::queue::{GroupId, Queue, Refusal};
use crate::core::store::ReplicaIndex;
use dryrack_event::{Histogram, Refusal as Refused};
use dryrack_kubernetes::cycle::Plugin;
use dryrack_units::{SimDuration, SimTime};

const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

/// The defaults of kube-scheduler 1.35.
const OPTIONS: QueueOptions = QueueOptions {
    initial_backoff: SimDuration::from_secs(1),
    max_backoff: SimDuration::from_secs(10),
    pop_from_backoff: false,
    hints: true,
    max_unschedulable: SimDuration::from_secs(300),
};

const FIT: Plugin = Plugin::NodeResourcesFit;
const DEVICES: Plugin = Plugin::DynamicResources;

/// The first pod to try, and its group.
fn next(queue: &Queue) -> Option<(ReplicaIndex, GroupId)> {
    queue.check();
    queue.next()
}

fn refuse(queue: &mut Queue, group: GroupId, (seconds, version): (u64, u64), plugins: &[Plugin]) {
    let (since, held) = (at(seconds), (Refused::Unfit, Histogram::default()));
    queue.refuse(group, Refusal { plugins: Plugins::of(plugins), since, version, held, by_node: None });
    queue.check();
}

fn happens(queue: &mut Queue, event: &Event<'_>, seconds: u64, options: QueueOptions) {
    queue.happened(event, (at(seconds), u64::MAX), options, |_, _, _| true);
    queue.check();
}

#[test]
fn pods_are_tried_by_priority_then_by_refusal_then_by_arrival() {
    let mut queue = Queue::default();
    for (pod, group, priority) in [(1, 10, 0), (2, 20, 5), (3, 10, 0), (4, 30, 0)] {
        queue.add(pod, group, (priority, 1));
    }
    assert_eq!((queue.len(), queue.highest_priority(), queue.changes), (4, Some(5), 4));
    assert_eq!(queue.in_order(), [2, 1, 3, 4]);
    assert_eq!(next(&queue), Some((2, 20)));
    queue.remove(2);
    assert_eq!((queue.highest_priority(), next(&queue)), (Some(0), Some((1, 10))));
    assert_eq!(queue.pods_of(10), [1, 3]);
    // The whole group is refused, and comes back behind the other group.
    refuse(&mut queue, 10, (5, 1), &[FIT]);
    assert_eq!(next(&queue), Some((4, 30)));
    assert_eq!(queue.refusal(10).map(|refusal| (refusal.since, refusal.version)), Some((at(5), 1)));
    happens(&mut queue, &Event::NominationCleared, 100, OPTIONS);
    assert_eq!((next(&queue), queue.in_order()), (Some((4, 30)), vec![4, 1, 3]));
    queue.remove(4);
    assert_eq!(next(&queue), Some((1, 10)));
    // A pod that is not there is removed without effect.
    let changes = queue.changes;
    queue.remove(4);
    assert_eq!((queue.changes, queue.len()), (changes, 2));
    // A new pod makes its group active, and is told of the refusal later.
    refuse(&mut queue, 10, (101, 1), &[FIT]);
    assert_eq!(next(&queue), None);
    assert_eq!(queue.take_untold(10), [1, 3]);
    queue.add(7, 10, (0, 1));
    assert_eq!((next(&queue), queue.take_untold(10)), (Some((1, 10)), vec![7]));
    // A pod of its own group.
    let held = (Refused::Unfit, Histogram::default());
    let refusal = Refusal { plugins: Plugins::of(&[FIT]), since: at(102), version: 1, held, by_node: None };
    queue.set_apart(1, 40, 0, refusal);
    assert_eq!((queue.pods_of(40), queue.pods_of(10), queue.take_untold(40)), (vec![1], vec![3, 7], vec![]));
}

#[test]
fn a_refused_group_returns_by_an_event_that_may_help_it() {
    let fresh = |plugins: &[Plugin], gpus| {
        let mut queue = Queue::default();
        queue.add(1, 10, (0, gpus));
        refuse(&mut queue, 10, (5, 1), plugins);
        queue
    };
    // Which of these events return a group that this plugin refused.
    for (plugin, returns) in [
        (FIT, [false, false, true]),
        (DEVICES, [true, false, false]),
        (Plugin::PodTopologySpread, [false, true, false]),
    ] {
        for (event, returns) in [Event::ClaimChanged, Event::NodeRemoved, Event::NominationCleared].iter().zip(returns)
        {
            let mut queue = fresh(&[plugin], 1);
            happens(&mut queue, event, 100, OPTIONS);
            assert_eq!(next(&queue).is_some(), returns, "{plugin:?}");
        }
    }
    // Without hints, each event but the removal of a node returns all.
    let without = QueueOptions { hints: false, ..OPTIONS };
    for (event, returns) in [(Event::ClaimChanged, true), (Event::NodeRemoved, false), (Event::NominationCleared, true)]
    {
        let mut queue = fresh(&[FIT], 1);
        queue.happened(&event, (at(100), 0), without, |_, _, _| false);
        assert_eq!(next(&queue).is_some(), returns);
    }
    // A group that asks for more GPUs than may be free does not return for room alone.
    let with_gpus = |plugins: &[Plugin], gpus, event: Event<'_>| {
        let mut queue = fresh(plugins, gpus);
        queue.happened(&event, (at(100), 4), OPTIONS, |_, _, _| true);
        next(&queue).is_some()
    };
    assert!(with_gpus(&[FIT], 4, Event::NominationCleared) && !with_gpus(&[FIT], 5, Event::NominationCleared));
    assert!(with_gpus(&[DEVICES], 5, Event::ClaimChanged) && with_gpus(&[FIT, DEVICES], 5, Event::ClaimChanged));
    // The plugins are asked.
    let mut queue = fresh(&[FIT], 1);
    queue.happened(&Event::NominationCleared, (at(100), 9), OPTIONS, |pod, plugins, _| {
        assert_eq!((pod, plugins), (1, Plugins::of(&[FIT])));
        false
    });
    assert_eq!(next(&queue), None);
}

#[test]
fn each_further_attempt_waits_twice_as_long() {
    let mut queue = Queue::default();
    queue.add(1, 10, (0, 0));
    for (attempt, pause) in [1, 2, 4, 8, 10, 10].into_iter().enumerate() {
        let begun = 100 * (attempt as u64 + 1);
        refuse(&mut queue, 10, (begun, 1), &[FIT]);
        happens(&mut queue, &Event::NominationCleared, begun, OPTIONS);
        assert_eq!((next(&queue), queue.due(OPTIONS, 1)), (None, Some(at(begun + pause))));
        queue.advance(at(begun + pause - 1), OPTIONS, 1);
        assert_eq!(next(&queue), None);
        queue.advance(at(begun + pause), OPTIONS, 1);
        assert_eq!((next(&queue), queue.due(OPTIONS, 1)), (Some((1, 10)), None));
    }
    // A bound pod of the group ends the series, and an error counts as an attempt.
    queue.succeeded(10);
    queue.fail(10, at(1000), OPTIONS);
    assert_eq!(queue.due(OPTIONS, 1), Some(at(1001)));
    queue.advance(at(1001), OPTIONS, 1);
    queue.fail(10, at(1001), OPTIONS);
    assert_eq!(queue.due(OPTIONS, 1), Some(at(1003)));
    // An event long after the refusal finds the back-off over.
    queue.advance(at(1003), OPTIONS, 1);
    refuse(&mut queue, 10, (1003, 1), &[FIT]);
    happens(&mut queue, &Event::NominationCleared, 1007, OPTIONS);
    assert_eq!(next(&queue), Some((1, 10)));
}

#[test]
fn an_empty_queue_takes_pods_from_their_back_off() {
    let early = QueueOptions { pop_from_backoff: true, ..OPTIONS };
    let mut queue = Queue::default();
    queue.add(1, 10, (0, 0));
    // Ten attempts at one instant, and then the pod waits: its back-off is 10 s by now.
    for _ in 0..9 {
        refuse(&mut queue, 10, (5, 1), &[FIT]);
        happens(&mut queue, &Event::NominationCleared, 5, early);
        assert_eq!(next(&queue), Some((1, 10)));
    }
    refuse(&mut queue, 10, (5, 1), &[FIT]);
    happens(&mut queue, &Event::NominationCleared, 5, early);
    assert_eq!((next(&queue), queue.due(early, 1)), (None, Some(at(15))));
    queue.advance(at(15), early, 1);
    // At a later instant, the pod is tried at once.
    refuse(&mut queue, 10, (15, 1), &[FIT]);
    happens(&mut queue, &Event::NominationCleared, 16, early);
    assert_eq!(next(&queue), Some((1, 10)));
}

#[test]
fn a_group_becomes_active_without_its_back_off_but_only_some_times_at_one_instant() {
    let mut queue = Queue::default();
    queue.add(1, 10, (0, 1));
    // It waits for an event, and then for its back-off.
    refuse(&mut queue, 10, (5, 1), &[FIT]);
    assert_eq!(next(&queue), None);
    queue.activate(1, at(6));
    assert_eq!(next(&queue), Some((1, 10)));
    queue.fail(10, at(6), OPTIONS);
    assert_eq!(next(&queue), None);
    queue.activate(1, at(6));
    assert_eq!(next(&queue), Some((1, 10)));
    let tried = (0..20).filter(|_| {
        refuse(&mut queue, 10, (7, 2), &[FIT]);
        queue.activate(1, at(7));
        next(&queue).is_some()
    });
    // After ten attempts at one instant, it waits.
    assert_eq!(tried.count(), 9);
    queue.activate(1, at(8));
    assert_eq!(next(&queue), Some((1, 10)));
    // A pod that does not wait.
    queue.activate(2, at(8));
}

#[test]
fn a_group_that_was_refused_long_ago_is_tried_again_if_something_changed() {
    let mut queue = Queue::default();
    queue.add(1, 10, (0, 0));
    refuse(&mut queue, 10, (5, 7), &[FIT]);
    // Upstream looks every 30 s for pods that have waited for more than 300 s.
    assert_eq!((queue.due(OPTIONS, 7), queue.due(OPTIONS, 8)), (None, Some(at(330))));
    queue.advance(at(400), OPTIONS, 7);
    assert_eq!(next(&queue), None);
    queue.advance(at(329), OPTIONS, 8);
    assert_eq!(next(&queue), None);
    queue.advance(at(330), OPTIONS, 8);
    assert_eq!(next(&queue), Some((1, 10)));
}

#[test]
fn sets_of_plugins_meet_in_the_plugins_that_both_have() {
    let both = Plugins::of(&[FIT, DEVICES]);
    assert_eq!(both.iter().collect::<Plugins>(), both);
    assert_eq!(both.iter().count(), 2);
    let fit = Plugins::of(&[FIT]);
    assert!(both.meets(fit) && !fit.meets(Plugins::of(&[DEVICES])) && !Plugins::default().meets(both));
    assert!(both.meets_only(fit, FIT) && !both.meets_only(both, FIT) && !both.meets_only(fit, DEVICES));
    assert!(!fit.meets_only(Plugins::of(&[DEVICES]), FIT));
    for plugin in Plugin::ALL {
        assert_eq!(Plugins::of(&[plugin]).iter().collect::<Vec<_>>(), [plugin]);
    }
}

#[test]
fn pods_of_a_gang_wait_until_their_time_is_over() {
    let mut permits = Permits::default();
    for (pod, key, until) in [(3, "b", 20), (1, "a", 30)] {
        permits.add(pod, &key.into(), Reserved { node: format!("n{pod}").into(), total: i64::from(pod) }, at(until));
    }
    assert_eq!((permits.len(), permits.all(), permits.next(), permits.changes), (2, vec![1, 3], Some(at(20)), 2));
    assert!(permits.holds(1) && !permits.holds(2) && permits.is_of("a") && !permits.is_of("c"));
    assert_eq!((permits.replica_of("b"), permits.replica_of("c"), &**permits.node_of(3)), (Some(3), None, "n3"));
    assert_eq!((permits.first_over(at(19)), permits.first_over(at(20))), (None, Some(3)));
    let taken = permits.take("b").map(|(pod, reserved)| (pod, reserved.node.to_string(), reserved.total));
    assert_eq!(taken, Some((3, "n3".to_string(), 3)));
    assert!(permits.take("b").is_none() && !permits.holds(3) && !permits.is_of("b"));
    assert_eq!((permits.len(), permits.next(), permits.changes), (1, Some(at(30)), 3));
}
