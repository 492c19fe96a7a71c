//! Tests of the records of instances.

use super::instances::Instances;
use InstanceState::{Idle, Pending, Provisioning, Terminated, Terminating};
use dryrack_fleet::{InstanceState, NodeState};
use dryrack_ids::{FleetId, NodeId};
use dryrack_policy::InstancePurpose;
use dryrack_units::SimTime;

const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

fn node(number: usize) -> NodeId {
    NodeId::new(number)
}

#[test]
fn the_records_of_a_fleet_follow_its_instances() {
    let (cloud, hosts) = (FleetId::new(0), FleetId::new(1));
    let mut instances = Instances::default();
    instances.add_fleet(true);
    instances.add_fleet(false);
    assert_eq!((instances.fleet_count(), instances.cloud_of(hosts).is_none()), (2, true));
    assert!(instances.add(node(0), cloud, Terminated, at(0)) && instances.add(node(2), cloud, Idle, at(5)));
    assert!(!instances.add(node(1), hosts, Idle, at(0)) && instances.get(node(1)).is_none());
    assert_eq!(instances.of_fleet(cloud).collect::<Vec<_>>(), [node(0), node(2)]);
    assert_eq!((instances.of_fleet(hosts).count(), instances.leaving(hosts)), (0, 0));
    // A new instance: requested at 10 s, and up at 30 s.
    instances.request(node(0), InstancePurpose::Fleet, None, at(10));
    assert_eq!(instances.enter(node(0), Pending, at(10)), Terminated);
    assert!(instances.is_coming(node(0)) && !instances.is_up(node(0)) && instances.is_unchanged(node(0), 1));
    assert!(instances.is_coming_since(node(0), at(10)) && !instances.is_coming_since(node(0), at(11)));
    assert_eq!(instances.coming().collect::<Vec<_>>(), [node(0)]);
    instances.enter(node(0), Provisioning, at(12));
    assert!(instances.is_coming_since(node(0), at(10)) && !instances.is_unchanged(node(0), 1));
    let ignored = |instances: &Instances, number| {
        [NodeState::Gone, NodeState::Joining, NodeState::Ready, NodeState::NotReady, NodeState::Maintenance]
            .map(|state| instances.ignores_report(node(number), state))
    };
    assert_eq!(ignored(&instances, 0), [false, false, false, true, true]);
    assert_eq!((ignored(&instances, 2), ignored(&instances, 1)), ([false; 5], [false; 5]));
    instances.enter(node(0), Idle, at(30));
    assert!(instances.is_up(node(0)) && !instances.is_coming(node(0)) && !instances.is_coming_since(node(0), at(10)));
    assert_eq!(instances.of(node(0)).since, at(30));
    // Both are kept for the minimum; the one that has been idle for longer comes first, until it is terminated.
    assert_eq!((instances.keep(node(0)), instances.keep(node(2))), (cloud, cloud));
    assert_eq!(instances.first_kept(cloud), Some(node(2)));
    instances.enter(node(2), Terminating, at(40));
    assert_eq!((instances.first_kept(cloud), instances.leaving(cloud)), (Some(node(0)), 1));
    assert_eq!(ignored(&instances, 2), [false, true, true, true, true]);
    instances.enter(node(2), Terminated, at(50));
    assert_eq!((instances.leaving(cloud), instances.is_up(node(2)), instances.is_coming(node(2))), (0, false, false));
    instances.cloud(cloud).check_at = Some(at(60));
    assert!(instances.is_minimum_check_due(cloud, at(60)) && !instances.is_minimum_check_due(cloud, at(61)));
    assert!(!instances.is_minimum_check_due(hosts, at(60)));
}
