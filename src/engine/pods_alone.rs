//! Which pods no node takes even if nothing else runs: a rehearsal in which each pod comes alone.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::records::Records;
use super::rehearsal::{InitialNode, Rehearsal};
use super::run::{RunOptions, run};
use dryrack_event::{Event, Histogram, Reason, RecordBody};
use dryrack_fleet::NodeState;
use dryrack_ids::JobId;
use dryrack_objects::Pod;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Arrival, JobBehavior, JobSpec, Restart};

/// For each of these jobs, why its pods find no node although all nodes are ready and empty. `None` if they find one, if
/// the job states no pod, if its pods are scheduled as a gang, or if the reason may end: another pod that must come
/// first, a node that is cordoned, or devices that are allocated.
pub fn refused_alone(rehearsal: &Rehearsal, jobs: &[&JobSpec]) -> Vec<Option<Histogram>> {
    // Equal pods are tried once.
    let mut numbers: HashMap<Pod, usize, FixedState> = HashMap::default();
    let mut different: Vec<&JobSpec> = Vec::new();
    let mut places = Vec::with_capacity(jobs.len());
    for job in jobs {
        let alone = job.pod.as_ref().filter(|pod| pod.spec.workload_ref.is_none());
        places.push(alone.map(|pod| {
            let mut pod = Pod::clone(pod);
            (pod.metadata.name, pod.metadata.uid) = (Arc::default(), Arc::default());
            *numbers.entry(pod).or_insert_with(|| {
                different.push(job);
                different.len() - 1
            })
        }));
    }
    let refused = tried(rehearsal, &different);
    places.into_iter().map(|place| place.and_then(|place| refused[place].clone())).collect()
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
            replicas: 1,
            restart: Restart::Never,
            retry: None,
            time_limit: None,
            after: Arc::default(),
            run_limit: None,
            queued: None,
            shared_deadline: None,
            shared_retry: None,
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
    for record in &records.0 {
        match &record.said {
            RecordBody::Event(Event::Held { attempt, reasons, .. }) => {
                refused[attempt.job.index()] = Some(reasons.clone());
            }
            RecordBody::Event(Event::Placed { attempt, .. }) => refused[attempt.job.index()] = None,
            _ => {}
        }
    }
    let claims = rehearsal.objects.iter().flat_map(|objects| &objects.resource_claims);
    let is_allocated = claims.into_iter().any(|claim| claim.status.allocation.is_some());
    let may_end =
        |reason: Reason| reason.may_end_for_a_pod_alone() || (reason == Reason::ClaimsUnallocatable && is_allocated);
    let lasts = |reasons: &Histogram| !reasons.iter().any(|(reason, _)| may_end(reason));
    refused.into_iter().map(|reasons| reasons.filter(lasts)).collect()
}
