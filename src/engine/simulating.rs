//! One more workload: whether Kueue would admit it, when, whom it would preempt, and which single change would help.
//! Every answer comes from a rehearsal.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::records::Records;
use super::rehearsal::Rehearsal;
use super::replay::Replay;
use super::run::{RunOptions, run};
use dryrack_control::StandsBehind;
use dryrack_event::{AdmittedPodSet, Event, Histogram, Input, Outcome, Phase, Reason, Record, RecordBody};
use dryrack_ids::JobId;
use dryrack_objects::Quantity;
use dryrack_scheduler::lacks;
use dryrack_units::SimTime;
use dryrack_workload::{QueuedPart, QueuedWorkload, RunLimit};

/// What would happen to a workload.
pub struct Simulated {
    pub submitted: SimTime,
    pub until: Option<SimTime>,
    /// When it is first admitted, by which queue, and with which flavors.
    pub admitted: Option<(SimTime, Arc<str>, Vec<AdmittedPodSet>)>,
    /// Why it is not admitted at once: the last message at the instant of its submission.
    pub refused: Option<(Reason, Arc<str>)>,
    /// The last message, if it is never admitted.
    pub last: Option<(SimTime, Reason, Arc<str>)>,
    /// What it stands behind at the instant of its submission, and at the end, if Kueue does not try it then.
    pub behind: (Option<StandsBehind>, Option<StandsBehind>),
    /// How many of its pods should run at a time, and the largest number that does.
    pub pods: (u32, u32),
    /// How many pods it has.
    pub all_pods: u32,
    /// When as many as should run have begun, for the first time. Some may have completed by then.
    pub running: Option<SimTime>,
    /// Why the last of its pods that was refused a node waits.
    pub waits: Option<(SimTime, Histogram)>,
    /// Why its pods never all run, however few others there are.
    pub never: Option<Never>,
    /// What is preempted for it.
    pub victims: Vec<Victim>,
    /// When it is evicted itself for the first time.
    pub evicted: Option<(SimTime, Reason)>,
    /// The jobs for which it is preempted by Kueue, each as often as it is.
    pub evicted_for: Vec<JobId>,
    /// The single changes with which its pods all run earlier. The change with the earliest pods comes first.
    pub changes: Vec<Remedy>,
}

/// Why the pods never all run, even if no other workload exists.
pub struct Never {
    /// The largest number of pods that run at a time.
    pub most: u32,
    /// Why the last pod that was refused a node waits.
    pub reasons: Histogram,
    /// What no node has, each as a clause.
    pub lacks: Vec<String>,
}

/// A change that helps, and what happens to the workload with it.
pub struct Remedy {
    pub change: QueueChange,
    pub admitted: SimTime,
    pub running: SimTime,
    pub victims: Vec<Victim>,
}

/// What gives way to the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The first time, and the last.
    pub at: SimTime,
    pub last: SimTime,
    /// At how many times.
    pub times: u32,
    /// The first job of a workload that Kueue preempts, or a job of whose pods the scheduler preempts some.
    pub job: JobId,
    pub by: Preemptor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemptor {
    Kueue(Reason),
    Scheduler { pods: u32 },
}

/// A change of what Kueue decides by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// The smallest larger quota.
    Quota {
        queue: String,
        flavor: String,
        resource: String,
        from: String,
        to: String,
    },
    NoBorrowingLimit {
        queue: String,
        flavor: String,
        resource: String,
        from: String,
    },
    LocalQueue {
        name: String,
        cluster_queue: String,
    },
    /// The largest smaller number of pods.
    Pods {
        from: u32,
        to: u32,
    },
}

/// Rehearses a scenario in which these jobs are one more workload.
pub fn simulate(rehearsal: &Rehearsal, jobs: &[JobId]) -> Simulated {
    let first = jobs[0];
    let records = recorded(rehearsal);
    let mut found = Simulated::of(rehearsal, jobs, &records);
    if found.running.is_none() {
        found.never = never(rehearsal, jobs);
    }
    if rehearsal.arrivals[first.index()].spec.queued.is_none() {
        return found;
    }
    if found.admitted.as_ref().is_none_or(|(at, ..)| *at > found.submitted) {
        let until = records.partition_point(|record| record.at <= found.submitted);
        found.behind.0 = stands_behind(rehearsal, &records[..until], first);
    }
    if found.admitted.is_none() {
        found.behind.1 = stands_behind(rehearsal, &records, first);
    }
    if found.running.is_none_or(|at| at > found.submitted) {
        let waiting = waiting_before(rehearsal, jobs, &records, found.submitted);
        found.changes = Trials { rehearsal, jobs, found: &found, waiting }.changes();
    }
    found
}

impl Simulated {
    /// What the records say. Nothing else is rehearsed.
    fn of(rehearsal: &Rehearsal, jobs: &[JobId], records: &[Record]) -> Simulated {
        let mut found = Simulated {
            submitted: rehearsal.arrivals[jobs[0].index()].at,
            until: rehearsal.until,
            admitted: None,
            refused: None,
            last: None,
            behind: (None, None),
            pods: (0, 0),
            all_pods: jobs.iter().map(|job| rehearsal.arrivals[job.index()].spec.replicas).sum(),
            running: None,
            waits: None,
            never: None,
            victims: Vec::new(),
            evicted: None,
            evicted_for: Vec::new(),
            changes: Vec::new(),
        };
        read(records, jobs, rehearsal, &mut found);
        found
    }
}

/// Why the pods of these jobs do not all run without Kueue and without any other job. `None` if they do, or if the
/// reason may be the state of a node or the lack of another pod.
fn never(rehearsal: &Rehearsal, jobs: &[JobId]) -> Option<Never> {
    let arrival = |job: &JobId| {
        let mut arrival = rehearsal.arrivals[job.index()].clone();
        let spec = Arc::make_mut(&mut arrival.spec);
        (spec.queued, spec.after) = (None, Arc::default());
        arrival
    };
    let alone = Rehearsal {
        kueue: Vec::new(),
        arrivals: jobs.iter().map(arrival).collect(),
        cancellations: Vec::new(),
        scalings: Vec::new(),
        evaluations: Vec::new(),
        ..rehearsal.clone()
    };
    let own: Vec<JobId> = (0..jobs.len()).map(JobId::new).collect();
    let found = Simulated::of(&alone, &own, &recorded(&alone));
    let (_, reasons) = found.waits.filter(|_| found.running.is_none())?;
    if reasons.iter().any(|(reason, _)| reason.may_end_for_a_pod_alone()) {
        return None;
    }
    let shapes: Vec<_> = rehearsal.nodes.iter().map(|node| &*node.spec.shape).collect();
    let of_all = alone.arrivals.iter().flat_map(|arrival| lacks(&arrival.spec.demand, &shapes));
    let lacks: BTreeSet<String> = of_all.collect();
    Some(Never { most: found.pods.1, reasons, lacks: lacks.into_iter().collect() })
}

fn recorded(rehearsal: &Rehearsal) -> Vec<Record> {
    let mut records = Records::default();
    run(rehearsal, RunOptions::default(), &mut [&mut records]);
    records.0
}

/// The workload behind which that of this job stands after these records.
fn stands_behind(rehearsal: &Rehearsal, records: &[Record], job: JobId) -> Option<StandsBehind> {
    let mut replay = Replay::new(Arc::clone(&rehearsal.profile), rehearsal.seed);
    for record in records {
        replay.take(record).expect("what was just recorded replays");
    }
    replay.control.admission_of(job)?.state.behind().cloned()
}

/// The other workloads that wait for admission at this time.
fn waiting_before(rehearsal: &Rehearsal, jobs: &[JobId], records: &[Record], at: SimTime) -> Vec<Arc<QueuedWorkload>> {
    let mut waiting: BTreeMap<(Arc<str>, Arc<str>), Arc<QueuedWorkload>> = BTreeMap::new();
    let workload = |job: JobId| {
        let part = rehearsal.arrivals[job.index()].spec.queued.as_ref()?;
        let key = (Arc::clone(&part.workload.namespace), Arc::clone(&part.workload.name));
        Some((key, Arc::clone(&part.workload))).filter(|_| !jobs.contains(&job))
    };
    for record in records.iter().take_while(|record| record.at <= at) {
        match &record.said {
            RecordBody::Input(Input::Submit { job, .. }) | RecordBody::Event(Event::Evicted { job, .. }) => {
                waiting.extend(workload(*job));
            }
            RecordBody::Event(Event::Admitted { job, .. } | Event::JobEnded { job, .. }) => {
                workload(*job).map(|(key, _)| waiting.remove(&key));
            }
            _ => {}
        }
    }
    waiting.into_values().collect()
}

fn read(records: &[Record], jobs: &[JobId], rehearsal: &Rehearsal, found: &mut Simulated) {
    let first = jobs[0];
    found.pods.0 = pods_at_a_time(rehearsal, jobs);
    let (mut running, mut completed) = (BTreeSet::new(), BTreeSet::new());
    for Record { at, said, .. } in records {
        let RecordBody::Event(event) = said else { continue };
        match event {
            Event::Admitted { job, queue, pod_sets } if *job == first && found.admitted.is_none() => {
                found.pods.0 = pod_sets.iter().map(|set| set.count).sum();
                found.admitted = Some((*at, Arc::clone(queue), pod_sets.clone()));
            }
            Event::NotAdmitted { job, because, text } if *job == first => {
                if *at == found.submitted {
                    found.refused = Some((*because, Arc::clone(text)));
                }
                found.last = Some((*at, *because, Arc::clone(text)));
            }
            Event::Evicted { job, because, by: Some(by), .. } if *by == first => {
                found.victims.push(Victim::once(*at, *job, Preemptor::Kueue(*because)));
            }
            Event::Preempted { attempt, by } if jobs.contains(&by.job) => {
                found.victims.push(Victim::once(*at, attempt.job, Preemptor::Scheduler { pods: 1 }));
            }
            Event::Held { attempt, reasons, .. } if jobs.contains(&attempt.job) => {
                found.waits = Some((*at, reasons.clone()));
            }
            Event::Evicted { job, because, by, .. } if *job == first => {
                found.evicted_for.extend(by);
                found.evicted.get_or_insert((*at, *because));
            }
            Event::Moved { attempt, to, .. } if jobs.contains(&attempt.job) => {
                let pod = (attempt.job, attempt.replica);
                match to {
                    Phase::Running => running.insert(pod),
                    _ => running.remove(&pod),
                };
                found.pods.1 = found.pods.1.max(running.len() as u32);
                if (running.len() + completed.len()) as u32 >= found.pods.0 {
                    found.running.get_or_insert(*at);
                }
            }
            Event::Ended { attempt, outcome, .. } if jobs.contains(&attempt.job) => {
                let pod = (attempt.job, attempt.replica);
                if running.remove(&pod) && *outcome == Outcome::Completed {
                    completed.insert(pod);
                }
            }
            _ => {}
        }
    }
    forget_pods_of_evicted(rehearsal, &mut found.victims);
    merge(&mut found.victims);
}

/// Leaves out the pods of workloads that Kueue evicts, which stop with their workload.
fn forget_pods_of_evicted(rehearsal: &Rehearsal, victims: &mut Vec<Victim>) {
    let workload = |victim: &Victim| {
        let part = rehearsal.arrivals[victim.job.index()].spec.queued.as_ref()?;
        Some((victim.at, Arc::clone(&part.workload.namespace), Arc::clone(&part.workload.name)))
    };
    let is_of_kueue = |victim: &&Victim| matches!(victim.by, Preemptor::Kueue(_));
    let evicted: BTreeSet<_> = victims.iter().filter(is_of_kueue).filter_map(workload).collect();
    victims.retain(|victim| is_of_kueue(&victim) || workload(victim).is_none_or(|of_it| !evicted.contains(&of_it)));
}

impl Victim {
    fn once(at: SimTime, job: JobId, by: Preemptor) -> Victim {
        Victim { at, last: at, times: 1, job, by }
    }
}

/// Makes one victim of all preemptions of a job with the same cause. The first time decides about the order.
fn merge(victims: &mut Vec<Victim>) {
    let mut merged: Vec<Victim> = Vec::new();
    let mut numbers: BTreeMap<(JobId, Option<&str>), usize> = BTreeMap::new();
    for victim in victims.drain(..) {
        let because = match victim.by {
            Preemptor::Kueue(because) => Some(because.name()),
            Preemptor::Scheduler { .. } => None,
        };
        let Some(known) = numbers.get(&(victim.job, because)).map(|number| &mut merged[*number]) else {
            numbers.insert((victim.job, because), merged.len());
            merged.push(victim);
            continue;
        };
        known.times += u32::from(known.last < victim.at);
        known.last = victim.at;
        if let Preemptor::Scheduler { pods } = &mut known.by {
            *pods += 1;
        }
    }
    *victims = merged;
}

/// How many pods of these jobs run at a time, if nothing keeps them from it.
fn pods_at_a_time(rehearsal: &Rehearsal, jobs: &[JobId]) -> u32 {
    let mut arrays: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    let mut others = 0;
    for job in jobs {
        let spec = &rehearsal.arrivals[job.index()].spec;
        match spec.run_limit.as_deref() {
            Some(RunLimit::ArrayTasks { array, most }) => {
                let (pods, _) = arrays.entry(array).or_insert((0, *most));
                *pods += spec.replicas;
            }
            Some(_) | None => others += spec.replicas,
        }
    }
    others + arrays.values().map(|(pods, most)| pods.min(most)).sum::<u32>()
}

/// Tries single changes.
struct Trials<'a> {
    rehearsal: &'a Rehearsal,
    jobs: &'a [JobId],
    /// What happens without a change.
    found: &'a Simulated,
    /// The other workloads that wait when this one is submitted.
    waiting: Vec<Arc<QueuedWorkload>>,
}

/// What Kueue does at the instant of the submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AtOnce {
    Waits,
    Preempts,
    Admits,
}

impl Trials<'_> {
    fn changes(&self) -> Vec<Remedy> {
        let first = self.jobs[0];
        let Some(part) = self.rehearsal.arrivals[first.index()].spec.queued.clone() else { return Vec::new() };
        let mut changes = Vec::new();
        // Without room on empty nodes, only fewer pods help.
        if self.found.never.is_none() {
            if let Some(queue) = cluster_queue_of(self.rehearsal, &part.workload) {
                self.quotas(&part.workload, &queue, &mut changes);
            }
            self.other_queues(&part.workload, &mut changes);
        }
        if self.found.never.as_ref().is_none_or(|never| never.most > 0) {
            self.fewer_pods(&part.workload, &mut changes);
        }
        changes.sort_by_key(|remedy| (remedy.running, remedy.admitted));
        changes
    }

    fn at_once(&self, changed: &Rehearsal) -> AtOnce {
        let at = self.found.submitted;
        let part = Rehearsal { until: Some(at), evaluations: Vec::new(), ..changed.clone() };
        let found = Simulated::of(&part, self.jobs, &recorded(&part));
        match (found.admitted, found.victims.first()) {
            (Some(_), _) => AtOnce::Admits,
            (None, Some(_)) => AtOnce::Preempts,
            (None, None) => AtOnce::Waits,
        }
    }

    /// The change, if all pods run earlier with it.
    fn remedy(&self, changed: &Rehearsal, change: QueueChange) -> Option<Remedy> {
        let until = [changed.until, self.found.running].into_iter().flatten().min();
        let part = Rehearsal { until, ..changed.clone() };
        let found = Simulated::of(&part, self.jobs, &recorded(&part));
        let running = found.running.filter(|at| self.found.running.is_none_or(|without| *at < without))?;
        let (admitted, ..) = found.admitted?;
        Some(Remedy { change, admitted, running, victims: found.victims })
    }

    /// Of changes by `fewest` to `most` steps, the smallest with which Kueue preempts others at once, the smallest with which
    /// it admits the workload at once, and the smallest that helps at all. Those that do not help, and those that help
    /// no more than a smaller one, are left out.
    fn steps(
        &self,
        (fewest, most): (i64, i64),
        with: &dyn Fn(i64) -> (Rehearsal, QueueChange),
        changes: &mut Vec<Remedy>,
    ) {
        let remedy = |steps: i64| {
            let (changed, change) = with(steps);
            self.remedy(&changed, change)
        };
        // Both searches try many of the same steps.
        let known: RefCell<BTreeMap<i64, AtOnce>> = RefCell::default();
        let at_once = |steps: i64| *known.borrow_mut().entry(steps).or_insert_with(|| self.at_once(&with(steps).0));
        let reaches = |wanted: AtOnce| least(fewest, most, |steps| at_once(steps) >= wanted);
        let any = least(fewest, most, |steps| remedy(steps).is_some());
        let steps: BTreeSet<i64> =
            [any, reaches(AtOnce::Preempts), reaches(AtOnce::Admits)].into_iter().flatten().collect();
        let mut kept: Vec<Remedy> = Vec::new();
        for remedy in steps.into_iter().filter_map(remedy) {
            let is_better = |last: &Remedy| {
                remedy.running < last.running
                    || (remedy.running == last.running && remedy.victims.len() < last.victims.len())
            };
            if kept.last().is_none_or(is_better) {
                kept.push(remedy);
            }
        }
        changes.extend(kept);
    }

    fn quotas(&self, workload: &QueuedWorkload, queue: &str, changes: &mut Vec<Remedy>) {
        if self.found.admitted.as_ref().is_some_and(|(at, ..)| *at == self.found.submitted) {
            return;
        }
        let objects = objects(self.rehearsal);
        let Some(object) = objects.iter().rfind(|object| is_object(object, "ClusterQueue", queue)) else { return };
        let mut stated = Vec::new();
        each_quota(&mut object.clone(), &mut |flavor, quota| stated.push((flavor.to_string(), quota.clone())));
        for (flavor, quota) in stated {
            let resource = quota["name"].as_str().unwrap_or_default();
            let own = requested(workload, resource);
            // Those of its queue may come first.
            let others = self
                .waiting
                .iter()
                .filter(|other| cluster_queue_of(self.rehearsal, other).is_some_and(|of_it| *of_it == *queue));
            let most = if own > 0 { others.map(|other| requested(other, resource)).sum::<i64>() + own } else { 0 };
            let Some(from) = quantity(&quota["nominalQuota"]).filter(|_| most > 0) else { continue };
            let place = (queue, flavor.as_str(), resource);
            let with = |steps: i64| {
                let to = grown(resource, from, steps);
                let changed =
                    with_quota(self.rehearsal, place, &|quota| quota["nominalQuota"] = Value::from(to.as_str()));
                let change = QueueChange::Quota {
                    queue: queue.to_string(),
                    flavor: flavor.clone(),
                    resource: resource.to_string(),
                    from: shown(&quota["nominalQuota"]),
                    to,
                };
                (changed, change)
            };
            self.steps((1, most), &with, changes);
            if !quota["borrowingLimit"].is_null() {
                let changed = with_quota(self.rehearsal, place, &|quota| quota["borrowingLimit"] = Value::Null);
                let change = QueueChange::NoBorrowingLimit {
                    queue: queue.to_string(),
                    flavor: flavor.clone(),
                    resource: resource.to_string(),
                    from: shown(&quota["borrowingLimit"]),
                };
                changes.extend(self.remedy(&changed, change));
            }
        }
    }

    fn other_queues(&self, workload: &QueuedWorkload, changes: &mut Vec<Remedy>) {
        let mut seen = BTreeSet::new();
        for object in objects(self.rehearsal) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let is_other = object["kind"] == "LocalQueue"
                && object["metadata"]["namespace"] == *workload.namespace
                && *name != *workload.queue;
            if !is_other || !seen.insert(name.to_string()) {
                continue;
            }
            let other = QueuedWorkload { queue: Arc::from(name), held: None, ..workload.clone() };
            let change = QueueChange::LocalQueue {
                name: name.to_string(),
                cluster_queue: object["spec"]["clusterQueue"].as_str().unwrap_or_default().to_string(),
            };
            changes.extend(self.remedy(&with_workload(self.rehearsal, workload, &other), change));
        }
    }

    fn fewer_pods(&self, workload: &QueuedWorkload, changes: &mut Vec<Remedy>) {
        let [set] = &workload.pod_sets[..] else { return };
        let count = i64::from(set.count);
        let with = |fewer: i64| {
            let to = u32::try_from(count - fewer).unwrap_or(1);
            let mut other = workload.clone();
            (other.pod_sets[0].count, other.pod_sets[0].min_count) = (to, None);
            (with_workload(self.rehearsal, workload, &other), QueueChange::Pods { from: set.count, to })
        };
        // No more pods than those can all run, whatever Kueue admits.
        let fewest = self.found.never.as_ref().map_or(1, |never| (count - i64::from(never.most)).max(1));
        self.steps((fewest, count - 1), &with, changes);
    }
}

/// The objects of all lists, in order of time.
fn objects(rehearsal: &Rehearsal) -> Vec<Value> {
    let lists = rehearsal.kueue.iter().map(|(_, text)| serde_json::from_str::<Vec<Value>>(text).unwrap_or_default());
    lists.flatten().collect()
}

fn is_object(object: &Value, kind: &str, name: &str) -> bool {
    object["kind"] == kind && object["metadata"]["name"] == name
}

fn cluster_queue_of(rehearsal: &Rehearsal, workload: &QueuedWorkload) -> Option<String> {
    let is_own = |object: &Value| {
        is_object(object, "LocalQueue", &workload.queue) && object["metadata"]["namespace"] == *workload.namespace
    };
    let objects = objects(rehearsal);
    objects.iter().rfind(|object| is_own(object))?["spec"]["clusterQueue"].as_str().map(str::to_string)
}

/// The rehearsal with a change of the quota of one resource in one flavor of a queue.
fn with_quota(
    rehearsal: &Rehearsal,
    (queue, flavor, resource): (&str, &str, &str),
    change: &dyn Fn(&mut Value),
) -> Rehearsal {
    let mut changed = rehearsal.clone();
    for (_, text) in &mut changed.kueue {
        let mut list: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
        for object in list.iter_mut().filter(|object| is_object(object, "ClusterQueue", queue)) {
            each_quota(object, &mut |of_flavor, quota| {
                if of_flavor == flavor && quota["name"] == resource {
                    change(quota);
                }
            });
        }
        *text = Arc::from(Value::from(list).to_string());
    }
    changed
}

fn each_quota(queue: &mut Value, visit: &mut dyn FnMut(&str, &mut Value)) {
    let empty = || Vec::new();
    for group in queue["spec"]["resourceGroups"].as_array_mut().unwrap_or(&mut empty()) {
        for flavor in group["flavors"].as_array_mut().unwrap_or(&mut empty()) {
            let name = flavor["name"].as_str().unwrap_or_default().to_string();
            for quota in flavor["resources"].as_array_mut().unwrap_or(&mut empty()) {
                visit(&name, quota);
            }
        }
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// The steps in which a quota grows: a core, a GiB, or one of anything else. The text is the quota after some steps.
fn grown(resource: &str, from: Quantity, steps: i64) -> String {
    match resource {
        "cpu" => format!("{}m", from.milli_value().saturating_add(steps * 1000)),
        "memory" => format!("{}Mi", (from.value() >> 20).saturating_add(steps * 1024)),
        _ => from.value().saturating_add(steps).to_string(),
    }
}

/// The number of steps that the whole workload requests.
fn requested(workload: &QueuedWorkload, resource: &str) -> i64 {
    let of_set = |set: &dryrack_workload::QueuedPodSet| {
        let one = set.requests.get(resource).copied().unwrap_or_default();
        let one = match resource {
            "cpu" => one.milli_value().div_euclid(1000) + 1,
            "memory" => (one.value() >> 30) + 1,
            _ => one.value(),
        };
        if set.requests.contains_key(resource) { one.saturating_mul(i64::from(set.count)) } else { 0 }
    };
    workload.pod_sets.iter().map(of_set).sum()
}

/// The smallest number from `low` to `high` that helps, if `high` helps. More helps at least as much.
fn least(low: i64, high: i64, helps: impl Fn(i64) -> bool) -> Option<i64> {
    if high < low || !helps(high) {
        return None;
    }
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = low + (high - low) / 2;
        if helps(middle) { high = middle } else { low = middle + 1 }
    }
    Some(high)
}

/// The rehearsal with another workload in place of this one.
fn with_workload(rehearsal: &Rehearsal, old: &QueuedWorkload, new: &QueuedWorkload) -> Rehearsal {
    let mut changed = rehearsal.clone();
    let new = Arc::new(new.clone());
    for arrival in &mut changed.arrivals {
        if let Some(part) = arrival.spec.queued.clone().filter(|part| *part.workload == *old) {
            let part = QueuedPart { workload: Arc::clone(&new), pod_set: part.pod_set };
            Arc::make_mut(&mut arrival.spec).queued = Some(Arc::new(part));
        }
    }
    changed
}
