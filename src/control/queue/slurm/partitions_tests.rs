//! Tests of the order in which a pass visits the waiting jobs.

use std::sync::Arc;

use serde_json::json;

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::profile_tests::with;
use crate::queue::Queue;
use dryrack_ids::JobId;
use dryrack_scheduler::{Caching, Grouping};
use dryrack_units::{MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Demand, JobSpec, TaskDemand};

const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

/// Two jobs that wait in a cluster with this order of the queue: one of ten hours since 0 s, and one of a minute since
/// 60 s.
fn waiting(order: &str, caching: Caching) -> (Core, Queue) {
    let profile = with(&[("slurm", json!({})), ("scheduler/order", json!([order]))]);
    let mut core = Core::new(Arc::new(profile), 1, Grouping::Classes);
    core.deciding.caching = caching;
    let mut queue = Queue::new(&mut core);
    for (job, (seconds, estimate)) in [(0, 36_000), (60, 60)].into_iter().enumerate() {
        core.advance_to(at(seconds));
        let demand = Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1)));
        let estimate = Some(SimDuration::from_secs(estimate));
        core.add_job(&Arc::new(JobSpec { estimate, ..JobSpec::of(format!("j{job}").into(), demand) }), 0);
        let index = core.add_replica(JobId::new(job), 0);
        core.store[index].key = queue.key_of(&core, index);
        queue.enter_queue(&mut core, index);
    }
    (core, queue)
}

#[test]
fn jobs_are_visited_in_the_present_order_of_the_queue() {
    // By WFP3, the job of ten hours comes first until the other has waited for a part of its estimate that is larger.
    for (order, seconds, expected) in [
        ("submitted", 60, [0, 1]),
        ("submitted", 600, [0, 1]),
        ("estimate", 60, [1, 0]),
        ("wfp3", 60, [0, 1]),
        ("wfp3", 61, [1, 0]),
    ] {
        for caching in [Caching::On, Caching::Off, Caching::Paranoid] {
            let (mut core, queue) = waiting(order, caching);
            core.advance_to(at(seconds));
            let visited = queue.in_partitions(&core, usize::MAX);
            let visited: Vec<ReplicaIndex> = visited.into_iter().map(|visit| visit.replica).collect();
            assert_eq!(visited, expected, "{order} at {seconds} s, caching {caching:?}");
            // What is kept moves only when the queue changes, so it is not used if places change by themselves.
            let is_kept = caching != Caching::Off && order != "wfp3";
            assert_eq!(queue.kept_visits(&core).is_some(), is_kept, "{order}, caching {caching:?}");
        }
    }
}
