//! Measures a scheduling cycle of the room `kueue`: the CPU time of one cycle in which the head of every queue is judged.
//!
//! `cargo bench --bench kueue` prints the table of `benches/README.md`: 10 to 1,000 queues, 100 to 10,000 workloads that
//! wait. Every ten queues share a cohort, and all cohorts are below one root. A queue has 8 GPUs of each of two flavors.
//! The first workload of each queue takes 16 GPUs of one flavor, so it borrows 8, until all GPUs are in use. Every queue
//! may reclaim from the whole tree, so each head has those who borrow as candidates, sorts them, and simulates their
//! removal. Nobody gives quota back. All queues are in strict order, so each cycle judges the head of every queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dryrack_kueue::objects::{
    ClusterQueueSpec, CohortSpec, FlavorQuotas, Named, PodSetSpec, PreemptionSpec, QueueingStrategy,
    ReclaimWithinCohort, ResourceFlavorSpec, ResourceGroup, ResourceQuota, WithinClusterQueue, WorkloadSpec,
};
use dryrack_kueue::{FairStrategy, Kueue, Quantity, Setup};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const QUEUES: [u32; 3] = [10, 100, 1000];
const PENDING: [u32; 3] = [100, 1000, 10_000];
const GPU: &str = "nvidia.com/gpu";

fn main() {
    println!("{:<12} {:>6} {:>8} {:>6} {:>12} {:>10}", "preemption", "queues", "pending", "heads", "cycle", "a head");
    for (name, fair) in [("classical", None), ("fair", Some(vec![FairStrategy::LessThanOrEqualToFinalShare]))] {
        for queues in QUEUES {
            for pending in PENDING {
                let (heads, time) = measure(fair.clone(), queues, pending);
                let each = time / heads.max(1);
                println!("{name:<12} {queues:>6} {pending:>8} {heads:>6} {time:>12.1?} {each:>10.1?}");
            }
        }
    }
}

/// The CPU time of this thread. The cycles run on this thread alone.
fn cpu_time() -> Duration {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = said.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("Linux tells the time of a thread"))
}

/// The number of heads of a cycle, and the mean CPU time of cycles of at least 0.1 s in all.
fn measure(fair: Option<Vec<FairStrategy>>, queues: u32, pending: u32) -> (u32, Duration) {
    let mut kueue = world(fair, queues);
    let mut submit = |index: u32, queue: u32, priority: i32, pods: u32| {
        kueue.submit(&workload(index, queue, priority, pods)).expect("the queue is there");
    };
    (0..queues).for_each(|queue| submit(queue, queue, 0, 16));
    (0..pending).for_each(|index| submit(queues + index, index % queues, -1, 4));
    // The first cycle admits; the second meets full queues.
    (1..=2).for_each(|now| drop(kueue.cycle(now)));
    let (before, mut heads, mut cycles) = (cpu_time(), 0, 0);
    while cycles < 3 || (cpu_time() - before < Duration::from_millis(100) && cycles < 1000) {
        cycles += 1;
        heads = kueue.cycle(2 + i64::from(cycles)).heads.len() as u32;
    }
    (heads, (cpu_time() - before) / cycles)
}

fn world(fair: Option<Vec<FairStrategy>>, queues: u32) -> Kueue {
    let flavor = |name: &str| Named { name: Arc::from(name), spec: ResourceFlavorSpec::default() };
    let flavors = vec![flavor("a100"), flavor("h100")];
    let mut kueue = Kueue::new(Setup { fair_sharing: fair, flavors, ..Setup::default() });
    for cohort in 0..queues.div_ceil(10) {
        let spec = CohortSpec { parent: Some(Arc::from("root")), ..CohortSpec::default() };
        kueue.set_cohort(&format!("team-{cohort}"), &spec).expect("a tree");
    }
    let quota: Quantity = "8".parse().expect("a quantity");
    let quotas = |name: &str| FlavorQuotas {
        name: Arc::from(name),
        resources: vec![ResourceQuota {
            name: Arc::from(GPU),
            nominal_quota: quota,
            borrowing_limit: None,
            lending_limit: None,
        }],
    };
    for queue in 0..queues {
        let spec = ClusterQueueSpec {
            cohort: Some(Arc::from(format!("team-{}", queue / 10))),
            queueing_strategy: QueueingStrategy::StrictFIFO,
            preemption: PreemptionSpec {
                within_cluster_queue: WithinClusterQueue::LowerPriority,
                reclaim_within_cohort: ReclaimWithinCohort::Any,
                borrow_within_cohort: None,
            },
            resource_groups: vec![ResourceGroup {
                covered_resources: vec![Arc::from(GPU)],
                flavors: vec![quotas("a100"), quotas("h100")],
            }],
            ..ClusterQueueSpec::default()
        };
        kueue.set_queue(&format!("queue-{queue:04}"), &spec);
    }
    kueue
}

fn workload(index: u32, queue: u32, priority: i32, pods: u32) -> WorkloadSpec {
    let pod_set = |name: &str, count: u32| PodSetSpec {
        name: Arc::from(name),
        count,
        min_count: None,
        requests: BTreeMap::from([(Arc::from(GPU), "1".parse().expect("a quantity"))]),
        node_selector: BTreeMap::new(),
        affinity: Vec::new(),
        tolerations: Vec::new(),
        topology: None,
    };
    WorkloadSpec {
        name: Arc::from(format!("workload-{index}")),
        uid: Arc::from(format!("{index:08}")),
        queue: Arc::from(format!("queue-{queue:04}")),
        priority,
        created: i64::from(index),
        pod_sets: vec![pod_set("main", pods)],
    }
}
