//! Liveness: from some time on, everything is healthy and nothing more is asked. Then each job must end, unless it does
//! not fit the empty fleet or a rule holds it back. A job that still waits must say what really holds it back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;

use super::case::{Case, CheckResult, Judged, log_of, log_up_to_limit};
use crate::endless::{EndlessRun, may_be_partial};
use dryrack_control::Profile;
use dryrack_engine::{CloudModels, Fault, InitialNode, NodeTurn, OfferModel, Rehearsal};
use dryrack_event::{AdmittedPodSet, Event, Histogram, Input, Reason, Record, RecordBody, Refusal};
use dryrack_fleet::{FleetPlacement, FleetSpec, Foreign, GpuState, NodeState};
use dryrack_ids::{FleetId, GpuId, JobId, NodeId};
use dryrack_scheduler::offers::NewInstances;
use dryrack_scheduler::{Backfill, Discipline};
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{Arrival, JobBehavior, JobSpec, Restart, RunTerms};
use serde_json::Value;

/// The number of events that may follow for each replica and node once all is well. A replica makes at most seven
/// attempts, with at most ten events each.
const MOST_EVENTS_EACH: usize = 100;

/// The longest time that a flow which polls is given. It retries every few seconds, so a longer run has too many records.
const MOST_TIME: SimDuration = SimDuration::from_secs(10 * 86_400);

/// More instances than a fleet may have.
const ALL_INSTANCES: u32 = 100;

/// The replicas that have not ended, each with the last reasons for which it waits.
type Waiting = BTreeMap<(JobId, u32), Histogram>;

/// Whether the check says something about worlds like this one. `goes_on` says that the world may never stop by itself.
fn applies_to(world: &Rehearsal, goes_on: bool) -> bool {
    // GPUStack as it was released may forget a row for ever.
    let may_forget = world.profile.historic && world.profile.flow.has_rows();
    // Custom filters may refuse a job's nodes for good because of the time, or of others that wait.
    let read = world.profile.scheduler.read_by_filters();
    let may_hold_back = read.time || read.queue;
    // A flow that polls may also retry for ever.
    let takes_too_long = goes_on && time_for_all(&world.arrivals) > MOST_TIME;
    !(may_forget || may_hold_back || takes_too_long)
}

pub fn judge(case: &Case<'_>) -> CheckResult {
    let world = case.world;
    let polls = world.profile.flow.may_go_on_forever();
    // Fleets may also end idle instances, and make others in their place, for ever.
    let goes_on = polls || makes_instances(world);
    if !applies_to(world, goes_on) {
        return Ok(Judged::DoesNotApply);
    }
    let (well, from) = made_well(world, goes_on);
    let (log, stopped) = log_up_to_limit(&well);
    if EndlessRun::of(&log).endless_from().is_some() {
        return Ok(Judged::DoesNotApply);
    }
    if let Some(stopped) = stopped {
        // The pods of a gang that never fits are tried again each time one of them has a node.
        match polls && is_held_by_flow(&log, &waiting_at_end(&log), from) {
            true => return Ok(Judged::DoesNotApply),
            false => resume_unwind(stopped),
        }
    }
    let after = log.iter().filter(|record| record.at > from && matches!(record.said, RecordBody::Event(_))).count();
    let replicas: usize = world.arrivals.iter().map(|arrival| arrival.spec.replicas as usize).sum();
    let added =
        log.iter().filter(|record| matches!(record.said, RecordBody::Event(Event::ReplicaAdded { .. }))).count();
    let most = MOST_EVENTS_EACH * (replicas + added + world.nodes.len());
    if after > most && !goes_on {
        return Err(format!("all is well from {from} on, and {after} events follow, more than {most}"));
    }
    let waiting = waiting_at_end(&log);
    if polls && is_held_by_flow(&log, &waiting, from) {
        return Ok(Judged::DoesNotApply);
    }
    // A flow that polls stops looking once it knows that nothing waiting ever fits, so their reasons may be old.
    let never = if polls { never_fit(&log) } else { BTreeSet::new() };
    let clouds = clouds_in(&well, &log, &waiting);
    let held = if polls { held_together(&well, &waiting) } else { BTreeSet::new() };
    for ((job, replica), reasons) in &waiting {
        let spec = &well.arrivals[job.index()].spec;
        // A job holds its room for ever if its replicas work together and some of them wait.
        let holds = reasons.is_empty() && held.contains(job);
        if polls && reasons.contains(Reason::BackingOff) && ran_out_of_time(&log, (*job, *replica)) {
            continue;
        }
        if holds || held.iter().any(|other| other != job) || (!reasons.is_empty() && states_node(spec)) {
            continue;
        }
        // A fleet is too small for a job if it lacks room for all its replicas.
        let replicas = if reasons.contains(Reason::FleetTooSmall) { spec.replicas } else { 1 };
        // Where there is room for the other replicas of such a job depends on the places of the first ones.
        let is_alone_placed = || !held.contains(job) && fits_alone(&well, (*job, replicas), last_admission(&log, *job));
        let is_behind = || is_behind_in_kueue(&well, &log, *job, &waiting);
        if (lacked_quota(reasons) || is_untried_in_kueue(reasons)) && is_behind() {
            continue;
        }
        if waits_for_quota(spec, reasons) && is_quota_held(&log, *job, &waiting) {
            continue;
        }
        let judged = match reasons.contains(Reason::PartiallyAdmitted) {
            true => judge_surplus(&well, *job, &waiting),
            false => {
                let is_known = never.contains(&(*job, *replica));
                // The quota of its project may allow less than the smallest instance.
                let has_quota =
                    spec.project.as_ref().is_some_and(|of| world.profile.policies.quotas.contains_key(&**of));
                let clouds = if clouds == Clouds::Make && has_quota { Clouds::MakeNoMore } else { clouds };
                let how = (is_in_several(spec), polls, clouds, is_known);
                judge_waiting((*job, *replica), how, reasons, &waiting, is_alone_placed)
            }
        };
        judged.map_err(|why| {
            let name = &world.arrivals[job.index()].spec.name;
            format!("all is well from {from} on, and `{name}[{replica}]` does not end ({reasons}): {why}")
        })?;
    }
    Ok(Judged::Holds)
}

/// Whether a job that waits in the end can expect an instance from a cloud.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clouds {
    /// There are no clouds.
    None,
    Make,
    /// The rules of some fleet, of the queue or of a quota may forbid another instance.
    MakeNoMore,
}

fn clouds_in(well: &Rehearsal, log: &[Record], waiting: &Waiting) -> Clouds {
    // Instances are made for the heads of strict lines only.
    let options = &well.profile.scheduler;
    let is_strict = options.discipline != Discipline::Skipping && options.backfill == Backfill::None;
    let may_be_behind = is_strict && waiting.len() > 1;
    match makes_instances(well) {
        true if makes_none_for_jobs(well) || may_be_behind || has_full_fleet(well, log) => Clouds::MakeNoMore,
        true => Clouds::Make,
        false => Clouds::None,
    }
}

fn makes_instances(world: &Rehearsal) -> bool {
    world.clouds.offers.iter().any(|offers| !offers.is_empty())
}

/// Whether fleets make instances for their own numbers only.
fn makes_none_for_jobs(world: &Rehearsal) -> bool {
    world.profile.flow.requests_instances() && world.profile.scheduler.offers.new_instances == NewInstances::Never
}

/// Whether a fleet has its maximum of instances in the end, has instances next to which others must be, or lacks one that no
/// offer makes again.
fn has_full_fleet(well: &Rehearsal, log: &[Record]) -> bool {
    let mut is_there: Vec<bool> = well.nodes.iter().map(|node| node.state != NodeState::Gone).collect();
    for record in log {
        if let RecordBody::Event(Event::NodeChanged { node, to, .. }) = &record.said {
            is_there[node.index()] = *to != NodeState::Gone;
        }
    }
    if well.nodes.iter().zip(&is_there).any(|(node, is_there)| !is_there && !is_made(node)) {
        return true;
    }
    let mut number: BTreeMap<FleetId, u32> = BTreeMap::new();
    for (node, _) in well.nodes.iter().zip(is_there).filter(|(_, is_there)| *is_there) {
        if let Some(instance) = &node.spec.shape.instance {
            *number.entry(instance.fleet).or_default() += 1;
        }
    }
    number.into_iter().any(|(fleet, number)| {
        let fleet = &well.fleets[fleet.index()];
        let most = fleet.nodes.and_then(|nodes| nodes.max);
        fleet.cloud.is_some() && (fleet.placement == FleetPlacement::Cluster || most.is_some_and(|most| number >= most))
    })
}

/// The world in which every node and GPU becomes ready after the last thing that happens, and that time. No job of it
/// runs forever, because such a job holds its room forever. So does a job whose end is never reported.
fn made_well(world: &Rehearsal, goes_on: bool) -> (Rehearsal, SimTime) {
    let mut world = world.clone();
    let times = (world.arrivals.iter().map(|arrival| arrival.at))
        .chain(world.cancellations.iter().map(|(at, _)| *at))
        .chain(world.scalings.iter().map(|(at, ..)| *at))
        .chain(world.faults.iter().map(|(at, _)| *at))
        .chain(world.kueue.iter().map(|(at, _)| *at));
    let from = times.max().unwrap_or(SimTime::ZERO).saturating_add(SimDuration::from_secs(1));
    heal_clouds(&mut world, from);
    for (index, node) in world.nodes.iter().enumerate() {
        let node_id = NodeId::new(index);
        world.faults.push((from, Fault::Node { node: node_id, becomes: NodeTurn::Ready }));
        for index in 0..node.spec.shape.gpus.len() as u16 {
            let gpu = GpuId { node: node_id, index };
            world.faults.push((from, Fault::Gpu { gpu, becomes: GpuState::Ready }));
            world.faults.push((from, Fault::Foreign { gpu, foreign: Foreign::NONE }));
        }
    }
    for arrival in &mut world.arrivals {
        let (mut spec, mut behavior) = (JobSpec::clone(&arrival.spec), JobBehavior::clone(&arrival.behavior));
        if let Some(faults) = &mut behavior.random_faults {
            faults.acks.lost = Permille::ZERO;
        }
        (spec.restart, behavior.run) = (Restart::Never, behavior.run.or(Some(SimDuration::from_secs(60))));
        // Over days, samples would be more records than a world may have.
        behavior.usage = behavior.usage.filter(|_| !goes_on);
        // A service starts replicas again and again, and so does a run of dstack that is retried.
        if goes_on {
            (spec.scaling, spec.replicas) = (None, spec.replicas.max(1));
            spec.terms = Arc::new(RunTerms { retry: None, ..RunTerms::clone(&spec.terms) });
        }
        *arrival = Arrival { spec: Arc::new(spec), behavior: Arc::new(behavior), ..arrival.clone() };
    }
    let until = goes_on.then(|| from.saturating_add(time_for_all(&world.arrivals)));
    (world.until, world.evaluations) = (until, Vec::new());
    (world, from)
}

/// Whether a cloud makes this node when it is needed.
fn is_made(node: &InitialNode) -> bool {
    node.spec.shape.instance.as_ref().is_some_and(|instance| instance.offer.is_some())
}

/// Clouds take nothing away, and have all instances of each offer from this time on. Their fleets may have so many instances
/// that all nodes can come back.
fn heal_clouds(world: &mut Rehearsal, from: SimTime) {
    for (fleet, offers) in world.clouds.offers.iter_mut().enumerate() {
        let is_of_fleet = |node: &&InitialNode| {
            let instance = node.spec.shape.instance.as_ref();
            instance.is_some_and(|instance| instance.fleet.index() == fleet)
        };
        let mut spec = FleetSpec::clone(&world.fleets[fleet]);
        if let Some(most) = spec.nodes.as_mut().and_then(|nodes| nodes.max.as_mut()) {
            *most += world.nodes.iter().filter(is_of_fleet).filter(|node| !is_made(node)).count() as u32;
        }
        world.fleets[fleet] = Arc::new(spec);
        // A cloud that refuses some requests accepts one in the end.
        offers.iter_mut().for_each(|model| model.interrupted = None);
    }
    world.clouds.capacity.extend(all_capacity(&world.clouds, from));
}

/// Every offer has all its instances from this time on.
fn all_capacity(clouds: &CloudModels, from: SimTime) -> Vec<(SimTime, FleetId, u32, u32)> {
    let of_fleet = |(fleet, offers): (usize, &Vec<OfferModel>)| {
        (0..offers.len() as u32).map(move |offer| (from, FleetId::new(fleet), offer, ALL_INSTANCES)).collect::<Vec<_>>()
    };
    clouds.offers.iter().enumerate().flat_map(of_fleet).collect()
}

/// A time in which all jobs end, one after the other.
fn time_for_all(arrivals: &[Arrival]) -> SimDuration {
    let of_one = |arrival: &Arrival| {
        let behavior = &arrival.behavior;
        let times = [behavior.run, behavior.master_run, behavior.analysis, Some(behavior.prepare), Some(behavior.stop)];
        let seconds: f64 = times.into_iter().flatten().map(SimDuration::as_secs_f64).sum();
        (seconds + 1200.0) * f64::from(arrival.spec.replicas)
    };
    SimDuration::from_secs(arrivals.iter().map(of_one).sum::<f64>().ceil() as u64 + 3600)
}

/// The replicas that have not ended, each with the last reasons for which it waits. A replica without reasons does not
/// wait, or never said why.
fn waiting_at_end(log: &[Record]) -> Waiting {
    let mut held: Waiting = BTreeMap::new();
    for record in log {
        match &record.said {
            RecordBody::Input(Input::Submit { job, spec }) => {
                held.extend((0..spec.replicas).map(|replica| ((*job, replica), Histogram::default())));
            }
            RecordBody::Event(Event::ReplicaAdded { attempt } | Event::Placed { attempt, .. }) => {
                held.insert((attempt.job, attempt.replica), Histogram::default());
            }
            RecordBody::Event(Event::Held { attempt, reasons, .. }) => {
                held.insert((attempt.job, attempt.replica), reasons.clone());
            }
            RecordBody::Event(Event::Ended { attempt, .. }) => drop(held.remove(&(attempt.job, attempt.replica))),
            RecordBody::Event(Event::Retry { attempt, .. }) => {
                held.insert((attempt.job, attempt.replica), Histogram::default());
            }
            RecordBody::Input(_) | RecordBody::Event(_) => {}
        }
    }
    held
}

/// Whether the last attempt of a replica ended at a deadline. Analyses that take longer together than the deadline for one of
/// them keep a job trying for longer than this check waits.
fn ran_out_of_time(log: &[Record], replica: (JobId, u32)) -> bool {
    let ended = |record: &Record| match record.said {
        RecordBody::Event(Event::Ended { attempt, because, .. }) if (attempt.job, attempt.replica) == replica => {
            Some(because == Reason::DeadlineExpired)
        }
        RecordBody::Event(_) | RecordBody::Input(_) => None,
    };
    log.iter().rev().find_map(ended).unwrap_or(false)
}

/// The replicas that were last refused because they never fit.
fn never_fit(log: &[Record]) -> BTreeSet<(JobId, u32)> {
    let mut never = BTreeSet::new();
    for record in log {
        if let RecordBody::Event(Event::Held { attempt, refusal, .. }) = &record.said {
            let replica = (attempt.job, attempt.replica);
            if *refusal == Refusal::Never {
                never.insert(replica)
            } else {
                never.remove(&replica)
            };
        }
    }
    never
}

/// The jobs that hold their room for ever: their replicas make progress only together, and some of these are placed while
/// others wait or have failed.
fn held_together(well: &Rehearsal, waiting: &Waiting) -> BTreeSet<JobId> {
    let mut placed: BTreeMap<JobId, u32> = BTreeMap::new();
    for ((job, _), _) in waiting.iter().filter(|(_, reasons)| reasons.is_empty()) {
        *placed.entry(*job).or_default() += 1;
    }
    let lacks_others = |(job, placed): (JobId, u32)| {
        let together = well.arrivals[job.index()].behavior.together;
        together.is_some_and(|together| placed < together).then_some(job)
    };
    placed.into_iter().filter_map(lacks_others).collect()
}

/// Whether a rule of a flow that polls holds room for ever, so that also others wait.
fn is_held_by_flow(log: &[Record], waiting: &Waiting, from: SimTime) -> bool {
    let evicted = evicted_again(log, from);
    waiting.values().any(waits_on_permit)
        || waiting.keys().any(|replica| evicted.contains(replica))
        || holds_nomination(log, waiting)
}

/// Whether a pod waits for others of its gang. An incomplete gang of kube-scheduler keeps nodes until a timeout, and soon
/// takes them again.
fn waits_on_permit(reasons: &Histogram) -> bool {
    reasons.contains(Reason::WaitsOnPermit) || reasons.contains(Reason::PermitTimeout)
}

/// Whether a pod that waits for ever keeps the node that was nominated to it, so that others wait too. Two such pods of one
/// topology may keep each other out in Kubernetes 1.20, and a node with GPUs of several models may lack those of the pod.
fn holds_nomination(log: &[Record], waiting: &Waiting) -> bool {
    let preempts = |record: &Record| match record.said {
        RecordBody::Event(Event::Preempted { by, .. }) => {
            waiting.get(&(by.job, by.replica)).is_some_and(|reasons| reasons.contains(Reason::TopologySpread))
        }
        RecordBody::Event(_) | RecordBody::Input(_) => false,
    };
    waiting.values().any(|reasons| reasons.contains(Reason::PluginFailed)) || log.iter().any(preempts)
}

/// The replicas that are evicted and replaced again and again, although all nodes are ready: their pods tolerate a taint of
/// their node for a limited time.
fn evicted_again(log: &[Record], from: SimTime) -> BTreeSet<(JobId, u32)> {
    let late = from.saturating_add(SimDuration::from_secs(600));
    let evicted = |record: &Record| match record.said {
        RecordBody::Event(Event::Retry { attempt, because: Reason::NodeLost, .. }) if record.at > late => {
            Some((attempt.job, attempt.replica))
        }
        RecordBody::Event(_) | RecordBody::Input(_) => None,
    };
    log.iter().filter_map(evicted).collect()
}

/// Whether the job's pod states its node. Only when it is created, it is bound without the plugins of the scheduler.
fn states_node(spec: &JobSpec) -> bool {
    spec.pod.as_ref().is_some_and(|pod| pod.spec.node_name.is_some())
}

fn judge_waiting(
    own: (JobId, u32),
    (is_in_several, polls, clouds, never_fits): (bool, bool, Clouds, bool),
    reasons: &Histogram,
    waiting: &Waiting,
    is_alone_placed: impl FnOnce() -> bool,
) -> Result<(), String> {
    let over = [
        Reason::NodeJoining,
        Reason::NodeNotReady,
        Reason::NodeUnreachable,
        Reason::NodeMaintenance,
        Reason::NodeGone,
        Reason::GpuNotUsable,
        Reason::GpuBusyElsewhere,
        Reason::BackingOff,
        Reason::PodTerminating,
    ];
    if reasons.is_empty() {
        return Err("it never said why".to_string());
    }
    let stays = |reason: &Reason| match reason {
        Reason::BackingOff => polls,
        // An instance that no cloud has made is gone too.
        Reason::NodeGone => clouds != Clouds::None,
        _ => false,
    };
    let is_over = |reason: &Reason| reasons.contains(*reason) && !stays(reason);
    if let Some(reason) = over.into_iter().find(is_over).filter(|_| !never_fits) {
        return Err(format!("{reason} is over"));
    }
    let rules = [
        Reason::QuotaExceeded,
        Reason::Dependency,
        Reason::DependencyNeverSatisfied,
        Reason::ArrayTaskLimit,
        // The advance reservation of the job is over.
        Reason::Reservation,
    ];
    // Which instances a fleet has, and keeps although they are idle, depends on what its clouds had before.
    let of_fleets = [Reason::NodeGone, Reason::FleetFull];
    let is_held_by_rule = rules.into_iter().any(|rule| reasons.contains(rule))
        || (clouds == Clouds::MakeNoMore && of_fleets.into_iter().any(|rule| reasons.contains(rule)));
    let behind = [Reason::QueueOrder, Reason::HeldForPriority];
    let is_behind = behind.into_iter().any(|reason| reasons.contains(reason));
    let is_head = |reasons: &Histogram| reasons.iter().any(|(reason, _)| !behind.contains(&reason));
    let has_head = waiting.iter().any(|(other, reasons)| *other != own && is_head(reasons));
    if is_behind && !has_head {
        return Err("nothing else is ahead of it".to_string());
    }
    // The QOS of one of its partitions denies it, and in another one it is behind a job.
    let is_of_qos = |reason: Reason| (Reason::QosGrpJobs..=Reason::QosMaxTresPerAccount).contains(&reason);
    let is_denied_in_one = is_in_several && has_head && reasons.iter().any(|(reason, _)| is_of_qos(reason));
    if !is_held_by_rule && !is_behind && !is_denied_in_one && is_alone_placed() {
        return Err("alone it is placed".to_string());
    }
    Ok(())
}

/// Whether a job of Slurm is in several partitions.
fn is_in_several(spec: &JobSpec) -> bool {
    spec.slurm.as_ref().and_then(|terms| terms.partition.as_ref()).is_some_and(|names| names.contains(','))
}

/// Judges a pod beyond the number with which Kueue admitted its workload. It ends with the last admitted pod, so one of
/// these has not ended. That pod is judged by itself.
fn judge_surplus(world: &Rehearsal, job: JobId, waiting: &Waiting) -> Result<(), String> {
    let workload = |job: JobId| {
        let part = world.arrivals[job.index()].spec.queued.as_ref()?;
        Some((&part.workload.namespace, &part.workload.name))
    };
    let own = workload(job);
    let is_admitted = |((other, _), reasons): (&(JobId, u32), &Histogram)| {
        workload(*other) == own && !reasons.contains(Reason::PartiallyAdmitted)
    };
    match waiting.iter().any(is_admitted) {
        true => Ok(()),
        false => Err("all admitted pods of its workload have ended".to_string()),
    }
}

/// Whether another workload that Kueue admitted still waits, such as for the quota of its project. It keeps its quota of
/// Kueue, and is judged by itself.
fn is_quota_held(log: &[Record], own: JobId, waiting: &Waiting) -> bool {
    waiting.keys().any(|(other, _)| *other != own && last_admission(log, *other).is_some())
}

/// Whether the job's workload lacked quota when Kueue last tried it. Kueue writes the condition of a workload only when it
/// tries it, so the condition stays when another workload becomes the head of the queue, also if the quota is raised then.
fn lacked_quota(reasons: &Histogram) -> bool {
    reasons.contains(Reason::WaitingForQuota) || reasons.contains(Reason::ExceedsMaxQuota)
}

/// Whether the job's workload waits for quota that others have. The condition is about all pods of the workload, also if
/// fewer pods would be admitted.
fn waits_for_quota(spec: &JobSpec, reasons: &Histogram) -> bool {
    reasons.contains(Reason::WaitingForQuota) || (reasons.contains(Reason::ExceedsMaxQuota) && may_be_partial(spec))
}

/// Whether Kueue has not tried the job's workload since it was queued, or since other workloads were told to stop for it.
fn is_untried_in_kueue(reasons: &Histogram) -> bool {
    reasons.contains(Reason::PendingEvaluation) || reasons.contains(Reason::WaitingForPreemptedWorkloads)
}

/// Whether the job waits in a StrictFIFO queue of Kueue behind a workload that was tried. Such a queue tries only its
/// head.
fn is_behind_in_kueue(world: &Rehearsal, log: &[Record], job: JobId, waiting: &Waiting) -> bool {
    let place = |job: JobId| {
        let workload = &world.arrivals[job.index()].spec.queued.as_ref()?.workload;
        Some((Arc::clone(&workload.queue), Reverse(workload.priority), came_to_kueue(log, job)))
    };
    let Some((queue, rank, at)) = place(job) else { return false };
    let is_ahead = |(other, reasons): (&(JobId, u32), &Histogram)| {
        let is_before = place(other.0).is_some_and(|(of, its, came)| of == queue && (its, came) < (rank, at));
        is_before && !reasons.is_empty() && !reasons.contains(Reason::PendingEvaluation)
    };
    is_strict(world, &queue) && waiting.iter().any(is_ahead)
}

/// When the job's workload was created. The pods of a job with dependencies are created when these are satisfied, and
/// those of a job of an array when its turn has come.
fn came_to_kueue(log: &[Record], job: JobId) -> Option<SimTime> {
    let is_there = |record: &&Record| match &record.said {
        RecordBody::Event(Event::Held { attempt, reasons, .. }) => {
            let is_early = reasons.contains(Reason::Dependency) || reasons.contains(Reason::ArrayTaskLimit);
            attempt.job == job && !is_early
        }
        RecordBody::Event(Event::Admitted { job: of, .. } | Event::NotAdmitted { job: of, .. }) => *of == job,
        RecordBody::Event(_) | RecordBody::Input(_) => false,
    };
    log.iter().find(is_there).map(|record| record.at)
}

/// Whether the queue of this name is StrictFIFO after the last change. In these worlds, a LocalQueue has the name of its
/// ClusterQueue.
fn is_strict(world: &Rehearsal, queue: &str) -> bool {
    let lists =
        world.kueue.iter().map(|(_, text)| serde_json::from_str::<Vec<Value>>(text).expect("a list of objects"));
    let is_it = |object: &Value| object["kind"] == "ClusterQueue" && object["metadata"]["name"] == queue;
    let last = lists.flatten().rfind(is_it);
    last.is_some_and(|object| object["spec"]["queueingStrategy"] == "StrictFIFO")
}

/// When Kueue admitted the job's workload, and the flavors of each pod set. `None` if it is not admitted in the end.
fn last_admission(log: &[Record], job: JobId) -> Option<(SimTime, Flavors)> {
    let mut last = None;
    for record in log {
        match &record.said {
            RecordBody::Event(Event::Admitted { job: of, pod_sets, .. }) if *of == job => {
                last = Some((record.at, flavors(pod_sets)));
            }
            RecordBody::Event(Event::NotAdmitted { job: of, .. } | Event::Evicted { job: of, .. }) if *of == job => {
                last = None;
            }
            RecordBody::Input(_) | RecordBody::Event(_) => {}
        }
    }
    last
}

/// The flavor of each resource, for each pod set.
type Flavors = Vec<BTreeMap<Arc<str>, Arc<str>>>;

fn flavors(pod_sets: &[AdmittedPodSet]) -> Flavors {
    pod_sets.iter().map(|pod_set| pod_set.flavors.clone()).collect()
}

/// Whether the job is placed if it is the only one, with this many replicas, on a fleet that is healthy from the beginning. Kueue's queues are
/// those that admitted the job. Without admission they are those that remain, so a queue that is stopped for good admits
/// nothing. A job keeps the flavors with which it was admitted, and these may depend on the other jobs of that time.
/// With other flavors its place says nothing.
fn fits_alone(world: &Rehearsal, (job, replicas): (JobId, u32), admission: Option<(SimTime, Flavors)>) -> bool {
    let mut alone = world.clone();
    let arrival = &world.arrivals[job.index()];
    let spec = JobSpec {
        after: Arc::from([]),
        run_limit: None,
        shared_deadline: None,
        shared_retry: None,
        restarts_with: None,
        replicas,
        ..JobSpec::clone(&arrival.spec)
    };
    alone.arrivals = vec![Arrival { at: SimTime::ZERO, spec: Arc::new(spec), ..arrival.clone() }];
    alone.clouds.capacity = all_capacity(&alone.clouds, SimTime::ZERO);
    for node in alone.nodes.iter_mut().filter(|node| !is_made(node)) {
        node.state = NodeState::Ready;
        node.gpus.clear();
    }
    let mut profile = Profile::clone(&world.profile);
    profile.policies.quotas.clear();
    alone.profile = Arc::new(profile);
    let last = admission.as_ref().map_or(SimTime::MAX, |(at, _)| *at);
    alone.kueue.retain(|(at, _)| *at <= last);
    alone.kueue.iter_mut().for_each(|(at, _)| *at = SimTime::ZERO);
    alone.until = alone.until.map(|at| at.min(SimTime::ZERO.saturating_add(time_for_all(&alone.arrivals))));
    (alone.faults, alone.cancellations, alone.scalings) = (Vec::new(), Vec::new(), Vec::new());
    let is_placed = |record: &Record| matches!(record.said, RecordBody::Event(Event::Placed { .. }));
    let log = log_of(&alone);
    let is_admitted_alike =
        admission.is_none_or(|(_, own)| last_admission(&log, JobId::new(0)).is_some_and(|(_, alone)| alone == own));
    is_admitted_alike && log.iter().any(is_placed)
}
