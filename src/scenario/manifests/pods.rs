//! Pods and controllers as jobs: a controller is one job, and each of its pods a replica.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_kubernetes::cluster::{PodInfo, Resource};
use dryrack_manifest::{
    BackoffLimit, Cluster, Controller, JobTerms, Kind, LEFT, MadeClaim, Object, PodSet, StatedPod, Terms, grace_left,
};
use dryrack_objects::{Pod, ResourceClaim, Seconds};
use dryrack_units::{Bytes, MilliCpu, Permille, SimDuration, SimTime};
use dryrack_workload::{
    Arrival, Backoff, Demand, GpuDemand, GpuTake, JobBehavior, JobSpec, QueuedPart, Restart, Restarts, RetryPolicy,
    RunLimit, SharedDeadline, SharedRetry, TaskDemand,
};
use dryrack_yaml::{Report, Span};

use super::super::job_template::Draft;
use super::queued::{self, Managed};

/// A job before its name is final.
struct Named {
    namespace: Arc<str>,
    name: Arc<str>,
    created: Option<Seconds>,
    /// Whether the pod is being deleted.
    is_leaving: bool,
    /// Whether it is yet to be made by a controller whose other pods exist.
    is_missing: bool,
    draft: Draft,
}

/// The pause before a failed pod of a job is replaced, and the longest pause
/// (`pkg/controller/job/backoff_utils.go` of Kubernetes 1.35).
const JOB_BACKOFF: (SimDuration, SimDuration) = (SimDuration::from_secs(10), SimDuration::from_secs(600));
/// How often a failed pod of work that ends is replaced, if no Job says so.
const RETRIES: u32 = 6;
/// The pause before another controller replaces a pod.
const REPLACED_AFTER: SimDuration = SimDuration::from_secs(1);

/// The jobs of a cluster, and the claims that are made for the pods of controllers. The order decides which of the pods
/// that arrive at one instant is tried first: the objects with a time of creation by that time, then the others, on a tie
/// as `objects` has them, and at last the pods that controllers make beside those that exist.
pub(super) fn drafts(cluster: &Cluster, objects: &[Object], report: &mut Report) -> (Vec<Draft>, Vec<ResourceClaim>) {
    let (mut jobs, mut claims) = (Vec::new(), Vec::new());
    let managed: Vec<Managed> =
        cluster.controllers.iter().map(|controller| queued::of_controller(controller, cluster, report)).collect();
    let parts = parts(cluster, &managed);
    // How many pods of each Job run already.
    let mut running: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
    for stated in &cluster.pods {
        let key = (stated.pod.metadata.namespace(), Arc::clone(&stated.pod.metadata.name));
        let queued = match parts.get(&key) {
            Some((controller, managed, set)) => managed.part_of_stated(stated, controller, *set),
            None => {
                let workload = queued::of_pod(stated, cluster, report);
                workload.map(|workload| Arc::new(QueuedPart { workload, pod_set: Some(0) }))
            }
        };
        let mut job = stated_pod(stated, cluster, queued);
        // Kueue lets as many pods go as may run at a time.
        let at_a_time = stated.at_a_time.filter(|_| !job.is_leaving && job.draft.arrival.spec.queued.is_none());
        if let (Some(most), Some((_, owner))) = (at_a_time, &stated.owner) {
            let limit = RunLimit::ArrayTasks { array: Arc::clone(owner), most };
            let running = running.entry(owner).or_default();
            *running += u32::from(stated.pod.spec.node_name.is_some());
            // More pods than the Job wants now may run.
            if stated.pod.spec.node_name.is_none() || *running <= most {
                Arc::make_mut(&mut job.draft.arrival.spec).run_limit = Some(Box::new(limit));
            }
        }
        jobs.push(job);
    }
    let (mut suspended, mut deactivated) = (Vec::new(), Vec::new());
    for (controller, managed) in cluster.controllers.iter().zip(&managed) {
        if controller.is_deactivated {
            deactivated.push(controller);
            continue;
        }
        // Kueue itself suspends a job until its workload is admitted.
        if controller.is_suspended && managed.is_not() {
            suspended.push(controller);
            continue;
        }
        for (place, _) in controller.sets.iter().enumerate().filter(|(_, set)| !set.numbers.is_empty()) {
            made_pods((controller, place, managed), cluster, (&mut jobs, &mut claims), report);
        }
    }
    if let [first, ..] = &suspended[..] {
        let message = format!("{} suspended, so it makes no pods", described(&suspended));
        report.warning(first.span, message, "write `suspend: false` to rehearse it");
    }
    if let [first, ..] = &deactivated[..] {
        let message = format!("{} deactivated, so Kueue does not admit it", described(&deactivated));
        report.warning(first.span, message, "write `active: true` into its Workload to rehearse it");
    }
    let mut places: BTreeMap<Span, usize> = BTreeMap::new();
    for (place, object) in objects.iter().enumerate() {
        places.entry(object.span).or_insert(place);
    }
    jobs.sort_by_key(|job| (job.is_missing, job.created.is_none(), job.created, places.get(&job.draft.span).copied()));
    (named(jobs), claims)
}

/// The namespace and the name of a pod.
type PodKey = (Arc<str>, Arc<str>);

/// For each pod of the files that belongs to an object in a queue: the object, how Kueue manages it, and the place of the
/// pod's set.
fn parts<'c>(cluster: &'c Cluster, managed: &'c [Managed]) -> BTreeMap<PodKey, (&'c Controller, &'c Managed, usize)> {
    let of_controller = |(controller, managed): (&'c Controller, &'c Managed)| {
        let key = |pod: &Arc<str>| (Arc::clone(&controller.namespace), Arc::clone(pod));
        controller.pods.iter().map(move |(pod, set)| (key(pod), (controller, managed, *set)))
    };
    cluster.controllers.iter().zip(managed).flat_map(of_controller).collect()
}

fn described(suspended: &[&Controller]) -> String {
    match suspended {
        [only] => format!("{} `{}` is", only.kind.name(), only.key()),
        [first, rest @ ..] => format!("{} `{}` and {} more are each", first.kind.name(), first.key(), rest.len()),
        [] => String::new(),
    }
}

/// Gives each job the name of its pod or controller, with the namespace where the name alone would be ambiguous.
fn named(mut jobs: Vec<Named>) -> Vec<Draft> {
    let stay = jobs.iter().filter(|job| !job.is_leaving);
    let stay: BTreeSet<_> = stay.map(|job| (Arc::clone(&job.namespace), Arc::clone(&job.name))).collect();
    // The controller makes another pod of the name.
    for job in jobs.iter_mut().filter(|job| job.is_leaving) {
        if stay.contains(&(Arc::clone(&job.namespace), Arc::clone(&job.name))) {
            job.name = Arc::from(format!("{}-terminating", job.name));
        }
    }
    let mut uses: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    jobs.iter().for_each(|job| *uses.entry(Arc::clone(&job.name)).or_default() += 1);
    let full = |namespace: &Arc<str>, name: Arc<str>| match uses.get(&name) {
        Some(1) => name,
        _ => Arc::from(format!("{namespace}/{name}")),
    };
    let name = |job: Named| {
        let mut draft = job.draft;
        draft.after_start_of = draft.after_start_of.map(|name| full(&job.namespace, name));
        Arc::make_mut(&mut draft.arrival.spec).name = full(&job.namespace, job.name);
        draft
    };
    jobs.into_iter().map(name).collect()
}

fn stated_pod(stated: &StatedPod, cluster: &Cluster, queued: Option<Arc<QueuedPart>>) -> Named {
    let latest = cluster.latest;
    let mut pod = queued::admitted(stated.pod.clone(), queued.is_some(), cluster);
    let is_bound = pod.spec.node_name.is_some();
    // The run begins at the latest time that the objects state. A pod that runs began before.
    let age = match (pod.status.start_time, latest) {
        (Some(start), Some(latest)) if is_bound && stated.terms.at.is_none() => {
            pod.status.start_time = Some(Seconds(start.0 - latest.0));
            age(start, latest)
        }
        _ => SimDuration::ZERO,
    };
    let left = |time: SimDuration| time.saturating_sub(age).max(LEFT);
    let grace_left = stated.deleted.map(|deleted| grace_left(deleted, latest));
    pod.metadata.deletion_timestamp = grace_left.map(|left| Seconds((left.as_nanos() / 1_000_000_000) as i64));
    let owner = stated.owner.as_ref().filter(|_| stated.is_replaced);
    let is_replaced = owner.is_some_and(|(kind, _)| !matches!(kind, Kind::Job | Kind::JobSet | Kind::QueuedWorkload));
    let of_job = owner.and_then(|(_, job)| Some((job, stated.of_job.as_ref()?)));
    let retry = match (owner, is_replaced) {
        (None, _) => Some(0),
        (Some(_), true) => None,
        (Some(_), false) => Some(of_job.map_or(RETRIES, |(_, of_job)| of_job.backoff_limit.limit())),
    };
    let terms = Terms { duration: stated.terms.duration.map(left), ..stated.terms };
    let (namespace, name) = (pod.metadata.namespace(), Arc::clone(&pod.metadata.name));
    let spec = JobSpec {
        time_limit: stated.deadline.map(left),
        shared_deadline: stated.owner.as_ref().and_then(|(_, job)| shared(job, stated.of_job.as_ref()?, latest)),
        restarts_with: owner.and(stated.restarts_with.clone()),
        shared_retry: of_job.and_then(|(job, of_job)| shared_retry(job, of_job)),
        restart: if is_replaced { Restart::Always } else { Restart::Never },
        retry: Some(Box::new(retry_policy(retry, is_replaced))),
        queued,
        ..spec(pod)
    };
    let mut draft = draft(spec, terms, stated.span);
    if let Some(left) = grace_left {
        draft.cancel_at = draft.arrival.at.checked_add(left);
        Arc::make_mut(&mut draft.arrival.behavior).stop = SimDuration::ZERO;
    }
    Named { namespace, name, created: stated.created, is_leaving: grace_left.is_some(), is_missing: false, draft }
}

/// How long before `latest` something began.
fn age(began: Seconds, latest: Seconds) -> SimDuration {
    SimDuration::saturating_from_secs(u64::try_from(latest.0.saturating_sub(began.0)).unwrap_or(0))
}

/// The deadline of a Job, which all its pods share. `latest` is the time at which the run begins.
fn shared(job: &Arc<str>, of_job: &JobTerms, latest: Option<Seconds>) -> Option<Arc<SharedDeadline>> {
    let after = of_job.deadline?;
    let age = of_job.started.zip(latest).map_or(SimDuration::ZERO, |(started, latest)| age(started, latest));
    let left = after.saturating_sub(age).max(LEFT);
    let again = Some(after).filter(|after| *after != left);
    Some(Arc::new(SharedDeadline { group: Arc::clone(job), after: left, again }))
}

/// The retries of a Job, if all its pods share them.
fn shared_retry(job: &Arc<str>, of_job: &JobTerms) -> Option<Arc<SharedRetry>> {
    let is_shared = matches!(of_job.backoff_limit, BackoffLimit::Together(_));
    let restarts = Restarts { most: of_job.restarts, wait_for_all: of_job.waits_for_set };
    is_shared.then(|| {
        Arc::new(SharedRetry {
            group: Arc::clone(job),
            failed: of_job.failed,
            ends_with: of_job.set.clone(),
            restarts: Some(restarts).filter(|restarts| restarts.most > 0),
        })
    })
}

fn retry_policy(limit: Option<u32>, is_replaced: bool) -> RetryPolicy {
    let backoff = match is_replaced {
        true => Backoff { first: REPLACED_AFTER, factor: Permille::new(1000), max: REPLACED_AFTER },
        false => Backoff { first: JOB_BACKOFF.0, factor: Permille::new(2000), max: JOB_BACKOFF.1 },
    };
    RetryPolicy { limit, backoff }
}

/// A job of this pod, without a name.
fn spec(pod: Pod) -> JobSpec {
    let demand = demand(&pod);
    let priority = pod.spec.priority.unwrap_or(0);
    JobSpec { priority, pod: Some(Arc::new(pod)), ..JobSpec::of(Arc::from(""), demand) }
}

fn draft(spec: JobSpec, terms: Terms, span: Span) -> Draft {
    let at = SimTime::ZERO.checked_add(terms.at.unwrap_or_default()).unwrap_or(SimTime::MAX);
    // A pod that takes longer than its grace period is killed.
    let stop = match (terms.stop, spec.grace_period()) {
        (Some(stop), Some(grace)) => stop.min(grace),
        (stop, grace) => stop.or(grace).unwrap_or_default(),
    };
    let behavior = JobBehavior { run: terms.duration, stop, ..JobBehavior::default() };
    let arrival = Arrival { at, spec: Arc::new(spec), behavior: Arc::new(behavior), recorded_wait: None };
    Draft { arrival, cancel_at: None, after_start_of: None, span }
}

/// The resources of the pod that the ledger of the fleet holds: CPU, memory and whole GPUs.
fn demand(pod: &Pod) -> Demand {
    let info = PodInfo::new(pod.clone());
    let exact = &info.requests.exact;
    let count = |amount: i64| u64::try_from(amount).unwrap_or(0);
    let names =
        pod.spec.containers.iter().chain(&pod.spec.init_containers).flat_map(|one| one.resources.requests.keys());
    let mut gpu_names: Vec<&Arc<str>> = names
        .chain(pod.spec.resources.requests.keys())
        .chain(pod.spec.overhead.keys())
        .filter(|name| dryrack_control::is_gpu(name))
        .collect();
    gpu_names.sort_unstable();
    gpu_names.dedup();
    let gpus: u64 = gpu_names.into_iter().map(|name| count(exact.get(&Resource::of(name)))).sum();
    let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
    Demand::of(TaskDemand {
        cpu: MilliCpu::new(count(exact.milli_cpu)),
        ram: Bytes::new(count(exact.memory)),
        gpus: (gpus > 0).then(|| GpuDemand { count: gpus, take: GpuTake::Whole, models: Vec::new(), min_memory: None }),
        labels: pod.spec.node_selector.clone(),
        os: None,
        arch: None,
    })
}

/// The pods that a controller makes: one job, or a job for each pod if the pods differ or do not all run at a time.
fn made_pods(
    (controller, place, managed): (&Controller, usize, &Managed),
    cluster: &Cluster,
    (jobs, claims): (&mut Vec<Named>, &mut Vec<ResourceClaim>),
    report: &mut Report,
) {
    let set = &controller.sets[place];
    let is_job = matches!(controller.kind, Kind::Job | Kind::JobSet | Kind::QueuedWorkload);
    let job: Arc<str> = Arc::from(format!("{}/{}", controller.namespace, set.prefix()));
    let retries = set.of_job.as_ref().map_or(RETRIES, |of_job| of_job.backoff_limit.limit());
    let base = |pod: Pod, number: u32| JobSpec {
        time_limit: set.deadline,
        shared_deadline: set.of_job.as_ref().and_then(|of_job| {
            // Kueue starts the Job again when it admits it.
            shared(&job, of_job, cluster.latest.filter(|_| managed.is_not() || managed.holds_quota()))
        }),
        restarts_with: set.restarts_with(number).map(|group| Arc::from(format!("{}/{group}", controller.namespace))),
        shared_retry: set.of_job.as_ref().and_then(|of_job| shared_retry(&job, of_job)),
        restart: if is_job { Restart::Never } else { Restart::Always },
        retry: Some(Box::new(retry_policy(is_job.then_some(retries), !is_job))),
        queued: managed.part(controller, place, number),
        ..spec(queued::admitted(pod, !managed.is_not(), cluster))
    };
    let add = |(name, before): (Arc<str>, Option<Arc<str>>),
               (spec, after): (JobSpec, Option<SimDuration>),
               jobs: &mut Vec<Named>| {
        let mut draft = draft(spec, Terms { at: set.terms.at.max(after), ..set.terms }, controller.span);
        draft.after_start_of = before;
        let (namespace, created) = (Arc::clone(&controller.namespace), controller.created);
        jobs.push(Named { namespace, name, created, is_leaving: false, is_missing: controller.has_pods, draft });
    };
    let prefix = set.prefix();
    let count = set.numbers.len() as u32;
    let is_whole = set.numbers.iter().copied().eq(0..count);
    if set.terms.rendezvous && count > 1 {
        match alone(set, is_job, is_whole) {
            None => {
                // The index of each pod is left out, because all are replicas of one job.
                let spec = JobSpec { replicas: count, ..base(set.template.clone(), 0) };
                add((prefix, None), (spec, None), jobs);
                if let Some(job) = jobs.last_mut() {
                    Arc::make_mut(&mut job.draft.arrival.behavior).together = Some(count);
                }
            }
            Some(why) => {
                let message = format!("the pods of `{}` cannot wait for each other: {why}", controller.key());
                report.error_with_help(controller.span, message, "leave the annotation `dryrack/rendezvous` out");
            }
        }
        return;
    }
    let are_alike = !set.pods_differ() && !managed.is_apart();
    if are_alike && set.parallelism.is_none() && is_whole && count > 1 {
        let spec = JobSpec { replicas: count, ..base(set.template.clone(), 0) };
        return add((prefix, None), (spec, None), jobs);
    }
    // Kueue admits as many pods as may run at a time, and admission lets the others go in turn.
    let limit =
        set.parallelism.filter(|_| managed.is_not()).map(|most| RunLimit::ArrayTasks { array: Arc::clone(&job), most });
    // Kueue admits the pods of a StatefulSet together, so there they all exist.
    let is_ordered = set.is_ordered && managed.is_not();
    let (mut last, mut latest) = (None, None);
    for number in &set.numbers {
        let pod = set.pod(*number);
        let name = Arc::clone(&pod.metadata.name);
        claims.extend(claims_of(set, &name, &controller.namespace, cluster));
        // A controller with one pod is known by its own name.
        let name = if count == 1 && !is_numbered(controller.kind) { Arc::clone(&prefix) } else { name };
        let spec = JobSpec { run_limit: limit.clone().map(Box::new), ..base(pod, *number) };
        let after = set.after.get(number).copied();
        if is_ordered {
            // The pod before it may be in the files.
            let before = last.replace(*number).or(number.checked_sub(1)).map(|before| Arc::from(set.name_of(before)));
            latest = after.max(latest);
            add((name, before), (spec, latest), jobs);
        } else {
            add((name, None), (spec, after), jobs);
        }
    }
}

/// The claims that are made for the pod with this name.
fn claims_of(
    set: &PodSet,
    name: &Arc<str>,
    namespace: &Arc<str>,
    cluster: &Cluster,
) -> impl Iterator<Item = ResourceClaim> {
    set.claims.iter().filter_map(|(local, template)| {
        let made = MadeClaim { claim: dryrack_manifest::claim_name(name, local), template: Arc::clone(template) };
        cluster.claim_from(namespace, &made)
    })
}

/// Why the pods of a set cannot begin their work together. `None` if they can.
fn alone(set: &PodSet, is_job: bool, is_whole: bool) -> Option<&'static str> {
    match () {
        () if !is_job => Some("only those of a Job or a JobSet end"),
        () if set.parallelism.is_some() => Some("they do not all run at a time (`parallelism`)"),
        () if !set.claims.is_empty() => Some("each has a claim of its own"),
        () if !is_whole => Some("some of them exist already"),
        () => None,
    }
}

/// Whether each pod of such a controller has a name of its own that others depend on.
fn is_numbered(kind: Kind) -> bool {
    matches!(kind, Kind::StatefulSet | Kind::DaemonSet | Kind::LeaderWorkerSet)
}
