//! Which pods no node takes even if nothing else runs: a rehearsal in which each pod comes alone.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::fitting::declared_fleet;
use super::records::Records;
use super::rehearsal::{InitialNode, Rehearsal};
use super::run::{RunOptions, run};
use dryrack_control::Neighbors;
use dryrack_event::{Event, Histogram, Reason, RecordBody};
use dryrack_fleet::NodeState;
use dryrack_ids::JobId;
use dryrack_objects::{Pod, WorkloadReference};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Arrival, JobBehavior, JobSpec, Restart};

/// For each of these jobs, why its pods find no node although all nodes are ready and empty. `None` if they find one, if
/// the job states no pod, or if the reason may end: another pod that must come first, a node that is cordoned, or devices
/// that are allocated. Of a gang, all pods come together. `None` too if other jobs belong to the gang, or if its pods have
/// rules about each other, so that they might find nodes in another order.
pub fn refused_alone(rehearsal: &Rehearsal, jobs: &[&JobSpec]) -> Vec<Option<Histogram>> {
    // Equal pods are tried once.
    let mut numbers: HashMap<(Pod, u32), usize, FixedState> = HashMap::default();
    let mut different: Vec<&JobSpec> = Vec::new();
    let mut places = Vec::with_capacity(jobs.len());
    let gangs = SingleGangs::of(rehearsal);
    for job in jobs {
        let alone = job.pod.as_ref().filter(|pod| pod.spec.workload_ref.is_none() || gangs.holds_only(job));
        places.push(alone.map(|pod| {
            let mut pod = Pod::clone(pod);
            (pod.metadata.name, pod.metadata.uid) = (Arc::default(), Arc::default());
            *numbers.entry((pod, tried_together(job))).or_insert_with(|| {
                different.push(job);
                different.len() - 1
            })
        }));
    }
    let refused = tried(rehearsal, &different);
    places.into_iter().map(|place| place.and_then(|place| refused[place].clone())).collect()
}

/// How many pods of a job are tried at once.
fn tried_together(job: &JobSpec) -> u32 {
    let is_gang = job.pod.as_ref().is_some_and(|pod| pod.spec.workload_ref.is_some());
    if is_gang { job.replicas } else { 1 }
}

/// The number of jobs of each gang, by its namespace and its reference.
struct SingleGangs(HashMap<(Arc<str>, WorkloadReference), u32, FixedState>);

impl SingleGangs {
    fn of(rehearsal: &Rehearsal) -> SingleGangs {
        let mut of_gang: HashMap<_, u32, FixedState> = HashMap::default();
        for arrival in &rehearsal.arrivals {
            if let Some(gang) = SingleGangs::key(&arrival.spec) {
                *of_gang.entry(gang).or_default() += 1;
            }
        }
        SingleGangs(of_gang)
    }

    fn key(job: &JobSpec) -> Option<(Arc<str>, WorkloadReference)> {
        let pod = job.pod.as_ref()?;
        Some((pod.metadata.namespace(), pod.spec.workload_ref.clone()?))
    }

    /// Whether all pods of the gang are of this job, and have no rules about each other.
    fn holds_only(&self, job: &JobSpec) -> bool {
        let Some(spec) = job.pod.as_ref().map(|pod| &pod.spec) else { return false };
        let affinity = &spec.affinity;
        let has_rules = !affinity.pod_affinity.required.is_empty()
            || !affinity.pod_anti_affinity.required.is_empty()
            || !spec.topology_spread_constraints.is_empty()
            || !spec.resource_claims.is_empty();
        !has_rules && SingleGangs::key(job).and_then(|key| self.0.get(&key)) == Some(&1)
    }
}

/// How long each pod may wait. Nothing else happens in this time.
const WAIT: SimDuration = SimDuration::from_secs(30);

fn tried(rehearsal: &Rehearsal, jobs: &[&JobSpec]) -> Vec<Option<Histogram>> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let begins = |job: usize| SimTime::from_nanos(WAIT.as_nanos() * (2 * job as u64 + 1));
    let behavior = Arc::new(JobBehavior::default());
    let arrival = |(number, job): (usize, &&JobSpec)| {
        let spec = JobSpec {
            replicas: tried_together(job),
            restart: Restart::Never,
            retry: None,
            time_limit: None,
            after: Arc::default(),
            run_limit: None,
            queued: None,
            shared_deadline: None,
            shared_retry: None,
            restarts_with: None,
            ..JobSpec::clone(job)
        };
        let behavior = Arc::clone(&behavior);
        Arrival { at: begins(number), spec: Arc::new(spec), behavior, recorded_wait: None }
    };
    let ready = |node: &InitialNode| InitialNode { state: NodeState::Ready, gpus: Vec::new(), ..node.clone() };
    let alone = Rehearsal {
        kueue: Vec::new(),
        nodes: rehearsal.nodes.iter().map(ready).collect(),
        arrivals: jobs.iter().enumerate().map(arrival).collect(),
        cancellations: (0..jobs.len()).map(|job| (begins(job) + WAIT, JobId::new(job))).collect(),
        scalings: Vec::new(),
        faults: Vec::new(),
        evaluations: Vec::new(),
        until: Some(begins(jobs.len())),
        branch: None,
        warm_up: None,
        ..rehearsal.clone()
    };
    let mut records = Records::default();
    run(&alone, RunOptions::default(), &mut [&mut records]);
    let mut refused: Vec<Option<Histogram>> = vec![None; jobs.len()];
    let mut placed = vec![false; jobs.len()];
    for record in &records.0 {
        match &record.said {
            // Pods of a gang that have a node wait for the one that has none.
            RecordBody::Event(Event::Held { attempt, reasons, .. }) if !reasons.contains(Reason::WaitsOnPermit) => {
                refused[attempt.job.index()] = Some(reasons.clone());
            }
            RecordBody::Event(Event::Placed { attempt, .. }) => placed[attempt.job.index()] = true,
            _ => {}
        }
    }
    let claims = rehearsal.objects.iter().flat_map(|objects| &objects.resource_claims);
    let is_allocated = claims.into_iter().any(|claim| claim.status.allocation.is_some());
    let may_end =
        |reason: Reason| reason.may_end_for_a_pod_alone() || (reason == Reason::ClaimsUnallocatable && is_allocated);
    let lasts = |reasons: &Histogram| !reasons.iter().any(|(reason, _)| may_end(reason));
    let mut neighbors = None;
    let mut lacks_affinity = |job: usize| {
        let pods = || rehearsal.arrivals.iter().map(|arrival| arrival.spec.pod.as_deref());
        let neighbors = neighbors.get_or_insert_with(|| Neighbors::new(&declared_fleet(rehearsal), pods()));
        jobs[job].pod.as_ref().is_some_and(|pod| neighbors.lack(pod))
    };
    let mut never = |job: usize, reasons: &Histogram| {
        !placed[job] && (lasts(reasons) || reasons.contains(Reason::PodAffinityUnmet) && lacks_affinity(job))
    };
    refused.into_iter().enumerate().map(|(job, reasons)| reasons.filter(|reasons| never(job, reasons))).collect()
}
