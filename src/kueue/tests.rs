//! Small worlds whose outcome follows from the rules by arithmetic.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::objects::{
    ClusterQueueSpec, CohortSpec, FlavorQuotas, FungibilityPreference, Named, PodSetSpec, PreemptionSpec,
    QueueingStrategy, ReclaimWithinCohort, ResourceFlavorSpec, ResourceGroup, ResourceQuota, StopPolicy,
    WithinClusterQueue, WorkloadSpec,
};
use super::{Cycle, FairStrategy, Kueue, Mode, PreemptionReason, Quantity, Setup, Verdict, WorkloadId};

const CPU: &str = "cpu";
const GPU: &str = "nvidia.com/gpu";

fn quantity(number: u32) -> Quantity {
    number.to_string().parse().unwrap()
}

fn group(amounts: &[(&str, u32)]) -> Vec<ResourceGroup> {
    let quota = |(name, amount): &(&str, u32)| ResourceQuota {
        name: Arc::from(*name),
        nominal_quota: quantity(*amount),
        borrowing_limit: None,
        lending_limit: None,
    };
    let covered_resources = amounts.iter().map(|(name, _)| Arc::from(*name)).collect();
    let flavors = vec![FlavorQuotas { name: Arc::from("h100"), resources: amounts.iter().map(quota).collect() }];
    vec![ResourceGroup { covered_resources, flavors }]
}

fn queue(amounts: &[(&str, u32)]) -> ClusterQueueSpec {
    ClusterQueueSpec { cohort: Some(Arc::from("team")), resource_groups: group(amounts), ..ClusterQueueSpec::default() }
}

struct World {
    kueue: Kueue,
    now: i64,
    submitted: u32,
}

impl World {
    fn new(fair_sharing: Option<Vec<FairStrategy>>) -> World {
        let flavors = vec![Named { name: Arc::from("h100"), spec: ResourceFlavorSpec::default() }];
        World { kueue: Kueue::new(Setup { fair_sharing, flavors, ..Setup::default() }), now: 0, submitted: 0 }
    }

    fn submit(&mut self, queue: &str, priority: i32, amounts: &[(&str, u32)]) -> WorkloadId {
        self.submitted += 1;
        let requests: BTreeMap<_, _> =
            amounts.iter().map(|(name, amount)| (Arc::from(*name), quantity(*amount))).collect();
        let pod_set = PodSetSpec {
            name: Arc::from("main"),
            count: 1,
            min_count: None,
            requests,
            node_selector: BTreeMap::new(),
            affinity: Vec::new(),
            tolerations: Vec::new(),
            topology: None,
        };
        let name: Arc<str> = Arc::from(format!("w{:02}", self.submitted));
        let spec = WorkloadSpec {
            uid: Arc::clone(&name),
            name,
            queue: Arc::from(queue),
            priority,
            created: i64::from(self.submitted),
            pod_sets: vec![pod_set],
        };
        self.kueue.submit(&spec).unwrap()
    }

    /// Runs a cycle and releases whoever was evicted.
    fn cycle(&mut self) -> Cycle {
        self.now += 1;
        let cycle = self.kueue.cycle(self.now);
        cycle.evicted.iter().for_each(|target| self.kueue.release(target.workload));
        cycle
    }

    fn verdicts(&mut self) -> Vec<(WorkloadId, Verdict)> {
        self.cycle().heads.iter().map(|head| (head.workload, head.verdict)).collect()
    }
}

#[test]
fn a_head_that_does_not_fit_blocks_only_a_strict_queue() {
    for (strategy, passes) in [(QueueingStrategy::StrictFIFO, false), (QueueingStrategy::BestEffortFIFO, true)] {
        let mut world = World::new(None);
        world.kueue.set_queue("a", &ClusterQueueSpec { queueing_strategy: strategy, ..queue(&[(GPU, 4)]) });
        let large = world.submit("a", 0, &[(GPU, 5)]);
        let small = world.submit("a", 0, &[(GPU, 1)]);
        assert_eq!(world.verdicts(), [(large, Verdict::NoFit)]);
        world.verdicts();
        assert_eq!(world.kueue.holds_quota(small), passes, "{strategy:?}");
    }
}

#[test]
fn borrowed_quota_is_reclaimed_by_its_owner() {
    let mut world = World::new(None);
    let preemption = PreemptionSpec { reclaim_within_cohort: ReclaimWithinCohort::Any, ..PreemptionSpec::default() };
    world.kueue.set_queue("owner", &ClusterQueueSpec { preemption, ..queue(&[(GPU, 4)]) });
    world.kueue.set_queue("borrower", &queue(&[(GPU, 2)]));
    let first = world.submit("borrower", 100, &[(GPU, 2)]);
    let second = world.submit("borrower", 0, &[(GPU, 4)]);
    world.cycle();
    world.cycle();
    assert!(world.kueue.holds_quota(first) && world.kueue.holds_quota(second), "6 of 6 GPUs are in use");
    let own = world.submit("owner", -5, &[(GPU, 3)]);
    let cycle = world.cycle();
    let head = &cycle.heads[0];
    assert_eq!((head.workload, head.verdict), (own, Verdict::Preempting));
    assert_eq!(head.targets.len(), 1);
    assert_eq!(head.targets[0].workload, second, "the lower priority");
    assert_eq!(head.targets[0].reason, PreemptionReason::InCohortReclamation);
    assert_eq!(world.verdicts(), [(own, Verdict::Admitted), (second, Verdict::Skipped)]);
}

/// Each cycle takes one head from each queue. Of the last GPU, the queue with the greater weight gets more: with two of
/// three GPUs its share is 2/3 / 2, and that of the other queue would be 2/3 / 1.
#[test]
fn quota_of_a_cohort_is_shared_by_weight() {
    let mut world = World::new(Some(vec![FairStrategy::LessThanOrEqualToFinalShare]));
    let cohort = CohortSpec { resource_groups: group(&[(GPU, 3)]), ..CohortSpec::default() };
    world.kueue.set_cohort("team", &cohort).unwrap();
    for (name, weight) in [("one", 1), ("two", 2)] {
        let mut spec = queue(&[(GPU, 0)]);
        spec.fair_sharing.weight = Some(quantity(weight));
        world.kueue.set_queue(name, &spec);
    }
    let ones: Vec<WorkloadId> = (0..3).map(|_| world.submit("one", 0, &[(GPU, 1)])).collect();
    let twos: Vec<WorkloadId> = (0..3).map(|_| world.submit("two", 0, &[(GPU, 1)])).collect();
    assert_eq!(world.verdicts(), [(twos[0], Verdict::Admitted), (ones[0], Verdict::Admitted)]);
    assert_eq!(world.verdicts(), [(twos[1], Verdict::Admitted), (ones[1], Verdict::Skipped)]);
}

/// One resource fits by borrowing, the other needs preemption without borrowing. With `PreemptionOverBorrowing` the
/// flavor is rated as fit, so nobody is preempted and the head is skipped, cycle after cycle.
#[test]
fn a_flavor_that_is_rated_fit_though_a_resource_lacks_quota_passes_its_head_over() {
    for (preference, verdict) in [
        (FungibilityPreference::PreemptionOverBorrowing, Verdict::Skipped),
        (FungibilityPreference::BorrowingOverPreemption, Verdict::Preempting),
    ] {
        let mut world = World::new(None);
        let mut spec = queue(&[(CPU, 0), (GPU, 2)]);
        spec.preemption.within_cluster_queue = WithinClusterQueue::LowerPriority;
        spec.flavor_fungibility.preference = preference;
        world.kueue.set_queue("a", &spec);
        world.kueue.set_queue("b", &queue(&[(CPU, 4), (GPU, 0)]));
        world.submit("a", 0, &[(GPU, 2)]);
        world.cycle();
        let high = world.submit("a", 100, &[(CPU, 1), (GPU, 1)]);
        for _ in 0..5 {
            let cycle = world.cycle();
            let head = &cycle.heads[0];
            assert_eq!((head.workload, head.verdict), (high, verdict), "{preference:?}");
            if verdict != Verdict::Skipped {
                break;
            }
            assert_eq!(head.assignment.mode(), Mode::Fit);
        }
    }
}

#[test]
fn a_drained_queue_gives_its_quota_back_and_takes_it_again_when_it_runs() {
    let mut world = World::new(None);
    world.kueue.set_queue("a", &queue(&[(GPU, 2)]));
    let id = world.submit("a", 0, &[(GPU, 2)]);
    world.cycle();
    let drain = ClusterQueueSpec { stop_policy: StopPolicy::HoldAndDrain, ..queue(&[(GPU, 2)]) };
    assert_eq!(world.kueue.set_queue("a", &drain), [id]);
    world.kueue.release(id);
    assert!(!world.kueue.has_heads() && world.kueue.is_pending(id));
    assert_eq!(world.kueue.condition(id).unwrap().message, "The ClusterQueue is stopped");
    world.kueue.set_queue("a", &queue(&[(GPU, 2)]));
    assert_eq!(world.verdicts(), [(id, Verdict::Admitted)]);
}

#[test]
fn a_cohort_below_itself_is_refused() {
    let mut world = World::new(None);
    let below = |name: &str| CohortSpec { parent: Some(Arc::from(name)), ..CohortSpec::default() };
    world.kueue.set_cohort("a", &below("b")).unwrap();
    let fault = world.kueue.set_cohort("b", &below("a")).unwrap_err();
    assert_eq!(fault.to_string(), "cohort `b` would be below itself");
}

/// The fields are those of a manifest of `kueue.x-k8s.io/v1beta2`, and the defaults those of the API.
#[test]
fn a_cluster_queue_is_read_as_people_write_it() {
    let text = r#"{
        "cohortName": "team", "queueingStrategy": "StrictFIFO", "fairSharing": {"weight": "500m"},
        "preemption": {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
            {"name": "h100", "resources": [{"name": "cpu", "nominalQuota": 9, "lendingLimit": "500m"}]}]}]
    }"#;
    let spec: ClusterQueueSpec = serde_json::from_str(text).unwrap();
    assert_eq!(spec.cohort.as_deref(), Some("team"));
    assert_eq!(spec.fair_sharing.weight.unwrap().as_f64().to_bits(), 0.5f64.to_bits());
    assert_eq!((spec.queueing_strategy, spec.stop_policy), (QueueingStrategy::StrictFIFO, StopPolicy::None));
    assert_eq!(spec.preemption.within_cluster_queue, WithinClusterQueue::Never);
    let quota = &spec.resource_groups[0].flavors[0].resources[0];
    assert_eq!((quota.nominal_quota.value(), quota.lending_limit.unwrap().milli_value()), (9, 500));
    assert_eq!(quota.borrowing_limit, None);
}
