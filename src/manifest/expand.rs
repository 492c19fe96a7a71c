//! The pods that each controller makes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::ended::is_done;
use crate::api::{Labels, Seconds};
use crate::cluster::{Builder, ClaimTemplate, Cluster, created, seconds, terms};
use crate::controllers::{BackoffLimit, Controller, JobTerms, Naming, PodSet, QueuePriority, Terms};
use crate::daemons;
use crate::kinds::Kind;
use crate::listed::topology;
use crate::managers::queue_of;
use crate::present::{self, Present};
use crate::read::Object;
use crate::selectors;

/// The largest number of pods that one controller may make.
const MAX_PODS: u64 = 1_000_000;
/// How often a job replaces failed pods, unless it says otherwise.
const BACKOFF_LIMIT: u32 = 6;

const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";

/// Adds the controllers of the files that have pods to make.
pub fn controllers(builder: &mut Builder<'_>, cluster: &mut Cluster) {
    let (mut done, mut leaving, mut paused, mut idle, mut nowhere) = (0, 0, 0, 0, 0);
    for (index, object) in builder.manifests.objects.iter().enumerate() {
        let is_queued = object.kind == Kind::QueuedWorkload;
        if !object.kind.is_controller() && !is_queued {
            continue;
        }
        if is_done(object) {
            done += 1;
            continue;
        }
        if builder.is_being_deleted(index) {
            leaving += 1;
            continue;
        }
        // Its owner makes the pods.
        let manager = builder.managers.manager(index);
        if is_queued && builder.owners.owner(index).is_some() || manager.is_some_and(|manager| manager != index) {
            continue;
        }
        // The pods of a Deployment are made by its ReplicaSets, if these are in the files too.
        let children = builder.owners.children(index);
        let has_controllers = children.iter().any(|child| builder.manifests.objects[*child].kind.is_controller());
        if has_controllers && manager.is_none() {
            continue;
        }
        let has_pods = !children.is_empty();
        if !has_pods && at(&object.value, &["spec", "paused"]) == Some(&Value::Bool(true)) {
            paused += 1;
            continue;
        }
        let parallelism = at(&object.value, &["spec", "parallelism"]);
        if !has_pods && object.kind == Kind::Job && count(parallelism, 1) == 0 {
            idle += 1;
            continue;
        }
        let Some(mut controller) = controller(builder, index, object, cluster) else { continue };
        present::take_off(&mut controller, &mut cluster.pods, cluster.queues.given());
        if !controller.pods.is_empty()
            || controller.sets.iter().any(|set| !set.numbers.is_empty())
            || controller.is_suspended
        {
            for template in controller.sets.iter().flat_map(|set| &set.claims).map(|(_, template)| template) {
                let is_it = |known: &&ClaimTemplate| known.name == *template && known.namespace == controller.namespace;
                if cluster.claim_templates.iter().find(is_it).is_none() {
                    let place = object.place_of("resourceClaimTemplateName", template);
                    cluster.missing_template(&controller.namespace, template, place, builder.report);
                }
            }
            if object.kind == Kind::Deployment {
                cluster.replica_sets.extend(selectors::replica_set(object, &controller, builder.report));
            }
            if object.kind == Kind::LeaderWorkerSet {
                cluster.stateful_sets.extend(selectors::of_groups(&controller));
            }
            cluster.controllers.push(controller);
        } else if object.kind == Kind::DaemonSet && !has_pods {
            nowhere += 1;
        }
    }
    builder.unused.left_out("no Node of the manifests takes a pod of the DaemonSet", nowhere);
    builder.unused.left_out("the work is done", done);
    builder.unused.left_out("it is being deleted, so it makes no pods", leaving);
    builder.unused.left_out("the Deployment is paused and has no ReplicaSet", paused);
    builder.unused.left_out("the `parallelism` of the Job is 0, so it makes no pods", idle);
}

fn at<'v>(value: &'v Map<String, Value>, path: &[&str]) -> Option<&'v Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(value.get(*first)?, |value, key| value.get(*key))
}

fn count(value: Option<&Value>, otherwise: u32) -> u32 {
    value.and_then(Value::as_u64).map_or(otherwise, |count| u32::try_from(count).unwrap_or(u32::MAX))
}

fn controller(builder: &mut Builder<'_>, index: usize, object: &Object, cluster: &Cluster) -> Option<Controller> {
    let metadata = |key: &str| at(&object.value, &["metadata", key]);
    let text = |value: Option<&Value>| Arc::<str>::from(value.and_then(Value::as_str).unwrap_or_default());
    let labels: Labels = match metadata("labels") {
        Some(Value::Object(labels)) => {
            labels.iter().map(|(key, value)| (Arc::from(key.as_str()), text(Some(value)))).collect()
        }
        _ => Labels::new(),
    };
    let spec = match object.value.get("spec") {
        Some(Value::Object(spec)) => spec.clone(),
        _ => return None,
    };
    let workload = match object.kind {
        Kind::QueuedWorkload => Some(index).filter(|_| builder.managers.manager(index).is_some()),
        _ => builder.managers.workload(index),
    };
    let workload = workload.map(|workload| Box::new(builder.listed(workload)));
    let class = match object.kind {
        Kind::QueuedWorkload => spec.get("priorityClassName").and_then(Value::as_str).map(Arc::from),
        _ => labels.get(PRIORITY_CLASS).cloned(),
    };
    let value = spec.get("priority").and_then(Value::as_i64).filter(|_| object.kind == Kind::QueuedWorkload);
    let value = value.and_then(|value| i32::try_from(value).ok()).map(QueuePriority::Value);
    let queue_priority = value.or(class.map(QueuePriority::Class));
    let mut controller = Controller {
        kind: object.kind,
        namespace: Arc::from(object.namespace()),
        name: Arc::from(object.name()),
        uid: text(metadata("uid")),
        labels,
        created: created(object),
        terms: builder.terms(index),
        sets: Vec::new(),
        has_pods: false,
        is_suspended: spec.get("suspend").and_then(Value::as_bool) == Some(true),
        is_deactivated: spec.get("active").and_then(Value::as_bool) == Some(false)
            || workload.as_ref().is_some_and(|workload| !workload.is_active),
        has_started: false,
        pods: Vec::new(),
        workload,
        queue: queue_of(object),
        queue_priority,
        span: object.span,
    };
    let sets = sets(builder, (index, object), &controller, &spec, cluster);
    let wanted: u64 = sets.iter().map(|set| set.numbers.len() as u64).sum();
    if wanted > MAX_PODS {
        builder.refuse_pods(object);
        return None;
    }
    controller.sets = sets;
    let is_managed = builder.managers.manager(index) == Some(index);
    let own = if is_managed { builder.managers.pods(index) } else { builder.owners.children(index) };
    let own = own.iter().map(|child| &builder.manifests.objects[*child]).collect();
    let present = Present { own, is_managed, stated: &cluster.pods, latest: cluster.latest };
    present::leave_out(object, &mut controller, &present);
    Some(controller)
}

impl Builder<'_> {
    /// Refuses an object that makes too many pods.
    fn refuse_pods(&mut self, object: &Object) {
        let message = format!("{} `{}` makes more than {MAX_PODS} pods", object.kind.name(), object.name());
        let help = format!("the limit of one object is {MAX_PODS} pods; write a smaller number");
        self.report.error_with_help(object.place_of_most(), message, help);
    }
}

fn sets(
    builder: &mut Builder<'_>,
    (index, object): (usize, &Object),
    controller: &Controller,
    spec: &Map<String, Value>,
    cluster: &Cluster,
) -> Vec<PodSet> {
    let template = |key: &str| spec.get(key).and_then(Value::as_object).cloned();
    let replicas = count(spec.get("replicas"), 1);
    let prefix = Arc::clone(&controller.name);
    let numbered = |labels: &[&str]| Naming::Numbered {
        prefix: Arc::clone(&prefix),
        labels: labels.iter().map(|label| Arc::from(*label)).collect(),
    };
    let mut maker = Maker { builder, index, controller };
    let set = match object.kind {
        Kind::Job => return maker.job(spec, object, None).into_iter().collect(),
        Kind::JobSet => return maker.job_set(spec, object),
        Kind::LeaderWorkerSet => return maker.leader_worker_set(spec, replicas),
        Kind::QueuedWorkload => return maker.queued_workload(spec),
        Kind::DaemonSet => maker.daemon_set(template("template"), cluster),
        Kind::StatefulSet => {
            let first = count(spec.get("ordinals").and_then(|ordinals| ordinals.get("start")), 0);
            let mut set = maker.set(template("template"), &[], replicas, numbered(&["apps.kubernetes.io/pod-index"]));
            if let Some(set) = &mut set {
                set.numbers.iter_mut().for_each(|number| *number = number.saturating_add(first));
                set.is_ordered = spec.get("podManagementPolicy").and_then(Value::as_str) != Some("Parallel");
            }
            set
        }
        Kind::Deployment => {
            let hash = [(selectors::HASH, controller.pod_template_hash())];
            maker.set(template("template"), &hash, replicas, numbered(&[]))
        }
        _ => maker.set(template("template"), &[], replicas, numbered(&[])),
    };
    set.into_iter().collect()
}

struct Maker<'b, 'm> {
    builder: &'b mut Builder<'m>,
    /// The index of the object.
    index: usize,
    controller: &'b Controller,
}

impl<'m> Maker<'_, 'm> {
    /// A set of pods of this template, with the labels that the controller adds.
    fn set(
        &mut self,
        template: Option<Map<String, Value>>,
        labels: &[(&str, &str)],
        wanted: u32,
        naming: Naming,
    ) -> Option<PodSet> {
        let template = template?;
        let topology = topology(template.get("metadata").and_then(|metadata| metadata.get("annotations")));
        let claims = claims(&template);
        let terms = match self.controller.kind {
            // Each has several templates, which may differ.
            Kind::JobSet | Kind::LeaderWorkerSet | Kind::QueuedWorkload => terms(template.get("metadata")),
            _ => Terms::default(),
        };
        let terms = terms.or(self.controller.terms);
        let deadline = seconds(at(&template, &["spec", "activeDeadlineSeconds"]));
        let mut pod = self.builder.pod(template, self.controller.span)?;
        pod.metadata.namespace = Arc::clone(&self.controller.namespace);
        pod.metadata.name = Arc::from("");
        pod.metadata.uid = Arc::from("");
        pod.metadata.owner_references = vec![self.controller.owner_reference()];
        for (key, value) in labels {
            pod.metadata.labels.entry(Arc::from(*key)).or_insert_with(|| Arc::from(*value));
        }
        // Create at most one pod more than the limit. The check of the total number then refuses the set.
        let numbers = (0..wanted.min(MAX_PODS as u32 + 1)).collect();
        Some(PodSet {
            name: Arc::from(""),
            wanted: wanted.min(MAX_PODS as u32 + 1),
            numbers,
            after: BTreeMap::new(),
            is_ordered: false,
            restarts_as_a_group: false,
            parallelism: None,
            min_count: None,
            has_completions: false,
            template: pod,
            claims,
            naming,
            topology,
            terms,
            deadline,
            of_job: None,
        })
    }

    /// The pods of a job, or of one of the jobs of a job set, which then has this name.
    fn job(
        &mut self,
        spec: &Map<String, Value>,
        object: &Object,
        of_set: Option<(&str, &[(&str, &str)])>,
    ) -> Option<PodSet> {
        let name = of_set.map_or(&*self.controller.name, |(name, _)| name).to_string();
        let (left, at_a_time) = pods_left(spec, Some(object));
        let uid = self.controller.uid.to_string();
        let mut labels = vec![("job-name", name.as_str()), ("batch.kubernetes.io/job-name", name.as_str())];
        if !uid.is_empty() && of_set.is_none() {
            labels.extend([("controller-uid", uid.as_str()), ("batch.kubernetes.io/controller-uid", uid.as_str())]);
        }
        labels.extend(of_set.map_or(&[][..], |(_, more)| more));
        let is_indexed = spec.get("completionMode").and_then(Value::as_str) == Some("Indexed");
        let index: &[&str] = if is_indexed { &["batch.kubernetes.io/job-completion-index"] } else { &[] };
        let naming = Naming::Numbered {
            prefix: Arc::from(name.as_str()),
            labels: index.iter().map(|label| Arc::from(*label)).collect(),
        };
        let template = spec.get("template").and_then(Value::as_object).cloned();
        let mut set = self.set(template, &labels, left, naming)?;
        set.has_completions = spec.contains_key("completions");
        set.parallelism = at_a_time;
        if is_indexed {
            set.numbers = open_indexes(spec, object, set.numbers.len());
        }
        let minimum = at(&object.value, &["metadata", "annotations"]);
        let minimum = minimum.and_then(|known| known.get("kueue.x-k8s.io/job-min-parallelism")?.as_str()?.parse().ok());
        set.min_count = minimum;
        let index = if of_set.is_some() { Some(self.index) } else { self.builder.owners.owner(self.index) };
        let of_set = index.map(|index| &self.builder.manifests.objects[index]).filter(|set| set.kind == Kind::JobSet);
        set.of_job = Some(job_terms(spec, object, of_set));
        Some(set)
    }

    /// The Job of this name that the job set has made, if it is in the files.
    fn child(&self, name: &str) -> Option<&'m Object> {
        let objects = &self.builder.manifests.objects;
        let own = self.builder.owners.children(self.index).iter().map(|child| &objects[*child]);
        own.into_iter().find(|child| child.kind == Kind::Job && child.name() == name)
    }

    fn job_set(&mut self, spec: &Map<String, Value>, object: &Object) -> Vec<PodSet> {
        let own = self.controller.name.to_string();
        let mut sets = Vec::new();
        let jobs = spec.get("replicatedJobs").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut total: u64 = 0;
        for job in &jobs {
            let name = job["name"].as_str().unwrap_or_default();
            let replicas = count(job.get("replicas"), 1);
            let Some(inner) = job.get("template").and_then(|template| template.get("spec")?.as_object()).cloned()
            else {
                continue;
            };
            let of_job = terms(job.get("template").and_then(|template| template.get("metadata")));
            let of_pod = terms(at(&inner, &["template", "metadata"]));
            let terms = of_pod.or(of_job).or(self.controller.terms);
            let pods = u64::from(count(inner.get("parallelism"), 1).max(count(inner.get("completions"), 1)));
            total = total.saturating_add(u64::from(replicas).saturating_mul(pods.max(1)));
            if total > MAX_PODS {
                self.builder.refuse_pods(object);
                return Vec::new();
            }
            for replica in 0..replicas {
                let (index, all) = (replica.to_string(), replicas.to_string());
                let labels = [
                    ("jobset.sigs.k8s.io/jobset-name", own.as_str()),
                    ("jobset.sigs.k8s.io/replicatedjob-name", name),
                    ("jobset.sigs.k8s.io/replicatedjob-replicas", all.as_str()),
                    ("jobset.sigs.k8s.io/job-index", index.as_str()),
                    ("jobset.sigs.k8s.io/restart-attempt", "0"),
                ];
                let of_job = format!("{own}-{name}-{replica}");
                // Annotations of the job set are not those of its jobs.
                let bare = Object {
                    kind: Kind::Job,
                    api_version: String::new(),
                    value: Map::new(),
                    span: self.controller.span,
                    places: Vec::new(),
                };
                let real = self.child(&of_job);
                let mut set = self.job(&inner, real.unwrap_or(&bare), Some((&of_job, &labels)));
                if let Some(set) = set.as_mut().filter(|_| real.is_some_and(is_done)) {
                    (set.numbers, set.wanted) = (Vec::new(), 0);
                }
                sets.extend(set.map(|set| PodSet { name: Arc::from(name), terms, ..set }));
            }
        }
        sets
    }

    fn leader_worker_set(&mut self, spec: &Map<String, Value>, replicas: u32) -> Vec<PodSet> {
        let Some(Value::Object(template)) = spec.get("leaderWorkerTemplate") else { return Vec::new() };
        let size = count(template.get("size"), 1).max(1);
        let worker = template.get("workerTemplate").and_then(Value::as_object).cloned();
        let leader = template.get("leaderTemplate").and_then(Value::as_object).cloned().or_else(|| worker.clone());
        let own = self.controller.name.to_string();
        let labels = [(crate::controllers::SET, own.as_str())];
        let naming = |is_leader| Naming::Groups { prefix: Arc::from(own.as_str()), size, is_leader };
        let leaders = self.set(leader, &labels, replicas, naming(true));
        let workers = match replicas.saturating_mul(size - 1) {
            0 => None,
            wanted => self.set(worker, &labels, wanted, naming(false)),
        };
        let restarts_as_a_group = restarts_as_a_group(spec);
        let named = |set: PodSet, name: &str| PodSet { name: Arc::from(name), restarts_as_a_group, ..set };
        leaders.map(|set| named(set, "leader")).into_iter().chain(workers.map(|set| named(set, "worker"))).collect()
    }

    fn queued_workload(&mut self, spec: &Map<String, Value>) -> Vec<PodSet> {
        let sets = spec.get("podSets").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_one = sets.len() == 1;
        let made = sets.iter().filter_map(|stated| {
            let name = stated["name"].as_str().unwrap_or("main");
            let prefix = match is_one {
                true => self.controller.name.to_string(),
                false => format!("{}-{name}", self.controller.name),
            };
            let naming = Naming::Numbered { prefix: Arc::from(prefix), labels: Vec::new() };
            let template = stated.get("template").and_then(Value::as_object).cloned();
            let set = self.set(template, &[], count(stated.get("count"), 1), naming)?;
            let min_count = stated.get("minCount").map(|value| count(Some(value), 1));
            let request = stated.get("topologyRequest").and_then(Value::as_object);
            let stated = request.and_then(|request| {
                let (kind, key) = request.iter().next()?;
                Some((Arc::from(kind.as_str()), Arc::from(key.as_str().unwrap_or_default())))
            });
            let topology = stated.or_else(|| set.topology.clone());
            let name = if is_one { Arc::from("") } else { Arc::from(name) };
            Some(PodSet { name, min_count, topology, ..set })
        });
        made.collect()
    }

    fn daemon_set(&mut self, template: Option<Map<String, Value>>, cluster: &Cluster) -> Option<PodSet> {
        let is_on_host_network =
            template.as_ref().and_then(|pod| pod.get("spec")?.get("hostNetwork")?.as_bool()) == Some(true);
        let prefix = Arc::clone(&self.controller.name);
        let mut set = self.set(template, &[], 0, Naming::Nodes { prefix: Arc::clone(&prefix), nodes: Vec::new() })?;
        daemons::tolerate(&mut set.template, is_on_host_network);
        let fitting = cluster.nodes.iter().filter(|(node, _)| daemons::runs_on(&set.template, node));
        let mut nodes: Vec<Arc<str>> = fitting.map(|(node, _)| Arc::clone(&node.metadata.name)).collect();
        nodes.sort_unstable();
        set.numbers = (0..nodes.len() as u32).collect();
        set.wanted = nodes.len() as u32;
        set.naming = Naming::Nodes { prefix, nodes };
        Some(set)
    }
}

/// The number of pods of a Job that must still succeed, and how many of them may run at a time, if not all. A Job with a
/// `parallelism` of 0 makes none for now. `object` has the status of the Job.
pub fn pods_left(spec: &Map<String, Value>, object: Option<&Object>) -> (u32, Option<u32>) {
    let parallelism = count(spec.get("parallelism"), 1);
    if parallelism == 0 {
        return (0, None);
    }
    let completions = spec.get("completions").map(|value| count(Some(value), 1));
    let succeeded = object.map_or(0, succeeded);
    // Without `completions`, the job has as many pods as may run at a time, until one of them has succeeded.
    let left = match completions {
        Some(all) => all.saturating_sub(succeeded),
        None if succeeded > 0 => 0,
        None => parallelism,
    };
    (left, (parallelism < left).then_some(parallelism))
}

/// The first `left` indexes of a Job that have neither completed nor failed for good. Without `completedIndexes`, the first
/// ones have completed.
fn open_indexes(spec: &Map<String, Value>, object: &Object, left: usize) -> Vec<u32> {
    let of_status = |key: &str| at(&object.value, &["status", key]).and_then(Value::as_str);
    let completed = of_status("completedIndexes");
    let first = if completed.is_some() { 0 } else { succeeded(object) };
    // Such as `0-3,5`.
    let mut ranges: Vec<(u32, u32)> = completed
        .into_iter()
        .chain(of_status("failedIndexes"))
        .flat_map(|text| text.split(','))
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
        })
        .collect();
    ranges.sort_unstable();
    let (mut open, mut next) = (Vec::new(), first);
    for (first, last) in ranges.into_iter().chain([(count(spec.get("completions"), u32::MAX), u32::MAX)]) {
        open.extend((next..first).take(left - open.len()));
        next = next.max(last.saturating_add(1));
    }
    open
}

/// The number of pods of a job that have succeeded.
fn succeeded(object: &Object) -> u32 {
    count(at(&object.value, &["status", "succeeded"]), 0)
}

/// Whether all pods of a group of a LeaderWorkerSet with this spec start again with each of them.
pub fn restarts_as_a_group(spec: &Map<String, Value>) -> bool {
    let policy = at(spec, &["leaderWorkerTemplate", "restartPolicy"]).and_then(Value::as_str);
    !matches!(policy, Some("None" | "Default"))
}

/// What a Job with this spec says about its end. `set` is the JobSet that it is part of.
pub fn job_terms(spec: &Map<String, Value>, object: &Object, set: Option<&Object>) -> JobTerms {
    let started = at(&object.value, &["status", "startTime"]).and_then(Value::as_str);
    let of_set = |path: [&str; 3]| at(&set?.value, &path);
    let policy = |key: &str| of_set(["spec", "failurePolicy", key]);
    // A restart that a rule of the failure policy asks for need not count.
    let restarted = |key: &str| at(&set?.value, &["status", key]);
    let restarted = restarted("restartsCountTowardsMax").or_else(|| restarted("restarts"));
    JobTerms {
        deadline: seconds(spec.get("activeDeadlineSeconds")),
        started: started.and_then(|text| Seconds::parse(text).ok()),
        backoff_limit: match spec.get("backoffLimitPerIndex") {
            Some(limit) => BackoffLimit::PerIndex(count(Some(limit), 0)),
            None => BackoffLimit::Together(count(spec.get("backoffLimit"), BACKOFF_LIMIT)),
        },
        failed: count(at(&object.value, &["status", "failed"]), 0),
        set: set.map(|set| Arc::from(format!("{}/{}", set.namespace(), set.name()))),
        restarts: count(policy("maxRestarts"), 0).saturating_sub(count(restarted, 0)),
        waits_for_set: policy("restartStrategy").and_then(Value::as_str) == Some("BlockingRecreate"),
    }
}

/// The claims of a template that are made for each pod: the name in the pod, and the template of the claim.
fn claims(template: &Map<String, Value>) -> Vec<(Arc<str>, Arc<str>)> {
    let claims = at(template, &["spec", "resourceClaims"]).and_then(Value::as_array);
    let made = claims.into_iter().flatten().filter_map(|claim| {
        let text = |key: &str| claim.get(key).and_then(Value::as_str).map(Arc::from);
        Some((text("name")?, text("resourceClaimTemplateName")?))
    });
    made.collect()
}
