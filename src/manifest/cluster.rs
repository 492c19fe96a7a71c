//! The objects of a cluster as values with types: nodes, pods, controllers, and what their placement depends on.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use dryrack_kueue::objects::{ClusterQueueSpec, CohortSpec, Named, ResourceFlavorSpec, TopologySpec};
use dryrack_units::SimDuration;
use dryrack_yaml::{Report, Span};

use super::ended::{deleted, deletion_began, has_ended, is_bound};
use super::typed::typed;
use crate::api::{
    DeviceClass, DisruptionBudget, Namespace, Node, Pod, PodController, PodSpec, PriorityClass, ReplicationController,
    ResourceClaim, ResourceSlice, Seconds, Service, Workload,
};
use crate::controllers::{Controller, GROUP, StatedPod, Terms};
use crate::defaults::{self, Classes, Origin};
use crate::expand::{self, job_terms, pods_left, restarts_as_a_group};
use crate::injected::{self, Given};
use crate::kinds::Kind;
use crate::listed::ListedWorkload;
use crate::managers::Managers;
use crate::namespaces;
use crate::owners::Owners;
use crate::read::{Manifests, Object};
use crate::selectors;
use crate::unused::Unused;

/// The objects of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub nodes: Vec<(Node, Span)>,
    /// The pods that are in the files and have not ended.
    pub pods: Vec<StatedPod>,
    /// The controllers that have pods to make.
    pub controllers: Vec<Controller>,
    pub namespaces: Vec<Namespace>,
    pub priority_classes: Vec<PriorityClass>,
    pub services: Vec<Service>,
    /// The controllers by whose selectors pods are spread, those that Deployments make included.
    pub replica_sets: Vec<PodController>,
    pub stateful_sets: Vec<PodController>,
    pub replication_controllers: Vec<ReplicationController>,
    pub budgets: Vec<Budget>,
    pub workloads: Vec<Workload>,
    pub device_classes: Vec<DeviceClass>,
    pub slices: Vec<ResourceSlice>,
    pub claims: Vec<ResourceClaim>,
    pub claim_templates: Vec<ClaimTemplate>,
    pub queues: Queues,
    /// The latest time that any object states. For a dump of a cluster, this is about when it was made.
    pub latest: Option<Seconds>,
    /// The earliest time at which a pod or a controller was created.
    pub earliest: Option<Seconds>,
}

/// A disruption budget.
#[derive(Clone, Debug)]
pub struct Budget {
    pub budget: DisruptionBudget,
    /// Whether the status states how many disruptions are allowed.
    pub has_status: bool,
}

/// A template of claims. A claim is made from it for each pod that names it.
#[derive(Clone, Debug)]
pub struct ClaimTemplate {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub claim: ResourceClaim,
}

/// The objects of Kueue.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    pub cluster_queues: Vec<Named<ClusterQueueSpec>>,
    pub cohorts: Vec<Named<CohortSpec>>,
    pub flavors: Vec<Named<ResourceFlavorSpec>>,
    pub topologies: Vec<Named<TopologySpec>>,
    pub local_queues: Vec<LocalQueue>,
    /// The value of each workload priority class.
    pub priorities: Vec<Named<i32>>,
    /// The configuration of Kueue's manager, if the files have it: the section about fair sharing, if that is on.
    pub configuration: Option<Option<Map<String, Value>>>,
    /// The objects that decide about quota, in the order of the files.
    pub stated: Vec<StatedQueue>,
}

impl Queues {
    /// What pods are given.
    pub fn given(&self) -> Given<'_> {
        (&self.flavors, &self.topologies)
    }
}

/// An object of Kueue that decides about quota, or a change of it.
#[derive(Clone, Debug)]
pub struct StatedQueue {
    /// From the annotation `dryrack/at`: when the object gets these settings. Absent means from the beginning.
    pub at: Option<SimDuration>,
    /// From the annotation `dryrack/patch`: whether only the stated fields change.
    pub is_patch: bool,
    pub kind: Kind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub spec: Map<String, Value>,
    pub span: Span,
}

/// The queue of a namespace, which leads to a cluster queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalQueue {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub cluster_queue: Arc<str>,
    pub span: Span,
}

impl Cluster {
    /// The pod of the files with this name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        let is_it = |pod: &&Pod| *pod.metadata.name == *name && *pod.metadata.namespace() == *namespace;
        self.pods.iter().map(|stated| &stated.pod).find(is_it)
    }
}

impl Manifests {
    /// The objects as values with types. Defaults are filled in, and controllers are expanded. What is left out is
    /// added to the counts.
    pub fn cluster(&mut self, report: &mut Report) -> Cluster {
        self.generate_names();
        self.follow_unread();
        let mut unused = std::mem::take(&mut self.unused);
        let mut cluster = Cluster::default();
        let classes = Classes::of(self);
        classes.check_runtimes(self, report);
        for object in &self.objects {
            plain(object, &mut cluster, report);
        }
        cluster.namespaces = namespaces::completed(self, cluster.namespaces);
        let owners = Owners::of(self);
        let managers = Managers::of(self, &owners);
        let (manifests, unused_here) = (&*self, &mut unused);
        let (classes, owners, managers) = (&classes, &owners, &managers);
        let mut builder = Builder { manifests, classes, owners, managers, report, unused: unused_here };
        let claims = builder.pods(&mut cluster);
        cluster.make_claims(&claims, builder.report);
        expand::controllers(&mut builder, &mut cluster);
        cluster.keep_named_controllers();
        cluster.check_claims(report);
        self.unused = unused;
        cluster
    }
}

/// What the expansion of controllers needs.
pub struct Builder<'m> {
    pub manifests: &'m Manifests,
    pub classes: &'m Classes,
    pub owners: &'m Owners,
    pub managers: &'m Managers,
    pub report: &'m mut Report,
    pub unused: &'m mut Unused,
}

/// An object that neither is a pod nor makes pods.
fn plain(object: &Object, cluster: &mut Cluster, report: &mut Report) {
    let named = |object: &Object| Arc::<str>::from(object.name());
    if object.kind.is_of_quota() {
        let stated = StatedQueue {
            at: terms(object.value.get("metadata")).at,
            is_patch: object.is_patch(),
            kind: object.kind,
            namespace: Arc::from(object.namespace()),
            name: named(object),
            spec: object.value.get("spec").and_then(Value::as_object).cloned().unwrap_or_default(),
            span: object.span,
        };
        let is_later = stated.at.is_some();
        cluster.queues.stated.push(stated);
        if is_later {
            return;
        }
    }
    match object.kind {
        Kind::Node => {
            let node = typed(Value::Object(defaults::node(object)), object.span, report);
            cluster.nodes.extend(node.map(|node| (node, object.span)));
        }
        Kind::Namespace => cluster.namespaces.extend(whole(object, report)),
        Kind::Service => cluster.services.extend(whole(object, report)),
        Kind::Budget => {
            let has_status =
                object.value.get("status").is_some_and(|status| status.get("disruptionsAllowed").is_some());
            let budget = whole(object, report);
            cluster.budgets.extend(budget.map(|budget| Budget { budget, has_status }));
        }
        Kind::Workload => cluster.workloads.extend(whole(object, report)),
        Kind::DeviceClass => cluster.device_classes.extend(whole(object, report)),
        Kind::Slice => cluster.slices.extend(whole(object, report)),
        Kind::Claim => cluster.claims.extend(whole(object, report)),
        Kind::ClaimTemplate => {
            let claim = typed(object.value.get("spec").cloned().unwrap_or_default(), object.span, report);
            let (namespace, name) = (Arc::from(object.namespace()), named(object));
            cluster.claim_templates.extend(claim.map(|claim| ClaimTemplate { namespace, name, claim }));
        }
        Kind::Topology => cluster.queues.topologies.extend(spec(object, report)),
        Kind::Flavor => cluster.queues.flavors.extend(spec(object, report)),
        Kind::Cohort => cluster.queues.cohorts.extend(spec(object, report)),
        Kind::ClusterQueue => cluster.queues.cluster_queues.extend(spec(object, report)),
        Kind::LocalQueue => {
            let target = object.value.get("spec").and_then(|spec| spec.get("clusterQueue")).and_then(Value::as_str);
            cluster.queues.local_queues.extend(target.map(|target| LocalQueue {
                namespace: Arc::from(object.namespace()),
                name: named(object),
                cluster_queue: Arc::from(target),
                span: object.span,
            }));
        }
        Kind::WorkloadPriorityClass => {
            let value = object.value.get("value").and_then(Value::as_i64).and_then(|value| i32::try_from(value).ok());
            cluster.queues.priorities.extend(value.map(|spec| Named { name: named(object), spec }));
        }
        Kind::PriorityClass => cluster.priority_classes.extend(whole(object, report)),
        Kind::Configuration => {
            let stated = object.value.get("fairSharing").and_then(Value::as_object);
            // Until `v1beta1`, fair sharing needs `enable: true`. Later, the section itself enables it.
            let is_later = object.api_version != "config.kueue.x-k8s.io/v1beta1";
            let enable =
                |stated: &Map<String, Value>| stated.get("enable").map_or(is_later, |on| on.as_bool() == Some(true));
            let sharing = stated.filter(|stated| enable(stated)).cloned();
            cluster.queues.configuration.get_or_insert(sharing);
        }
        // `Classes` holds these.
        Kind::RuntimeClass => {}
        Kind::ReplicaSet | Kind::ReplicationController | Kind::StatefulSet => add_controller(object, cluster, report),
        Kind::QueuedWorkload
        | Kind::DaemonSet
        | Kind::Deployment
        | Kind::LeaderWorkerSet
        | Kind::JobSet
        | Kind::Job
        | Kind::Pod => {}
    }
}

fn whole<T: DeserializeOwned>(object: &Object, report: &mut Report) -> Option<T> {
    typed(Value::Object(object.value.clone()), object.span, report)
}

/// The spec of an object of Kueue. An absent spec has all defaults.
fn spec<T: DeserializeOwned>(object: &Object, report: &mut Report) -> Option<Named<T>> {
    let spec = object.value.get("spec").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let spec = typed(spec, object.span, report)?;
    Some(Named { name: Arc::from(object.name()), spec })
}

/// The time at which an object was created.
pub fn created(object: &Object) -> Option<Seconds> {
    let text = object.value.get("metadata")?.get("creationTimestamp")?.as_str()?;
    Seconds::parse(text).ok()
}

/// The terms in the annotations of an object's metadata.
pub fn terms(metadata: Option<&Value>) -> Terms {
    let text = |key: &str| metadata?.get("annotations")?.get(key)?.as_str();
    let of = |key: &str| -> Option<SimDuration> { text(key)?.parse().ok() };
    let rendezvous = text("dryrack/rendezvous") == Some("true");
    Terms { at: of("dryrack/at"), duration: of("dryrack/duration"), stop: of("dryrack/stop"), rendezvous }
}

pub fn seconds(of: Option<&Value>) -> Option<SimDuration> {
    of.and_then(Value::as_u64).map(|seconds| SimDuration::from_secs(seconds.min(MAX_SECONDS)))
}

/// Longer than any run.
const MAX_SECONDS: u64 = 100 * 366 * 86_400;

impl Builder<'_> {
    /// The terms of an object, or else those of its owners.
    pub fn terms(&self, index: usize) -> Terms {
        let chain = self.owners.chain(index);
        let own = chain.iter().map(|index| {
            let object = &self.manifests.objects[*index];
            let template = object.value.get("spec").and_then(|spec| spec.get("template"));
            let template = template.and_then(|template| template.get("metadata"));
            terms(object.value.get("metadata")).or(terms(template))
        });
        own.fold(Terms::default(), Terms::or)
    }

    /// The group of a LeaderWorkerSet of the files with which a pod starts again.
    fn restarts_with(&self, index: usize) -> Option<Arc<str>> {
        let objects = &self.manifests.objects;
        let chain = self.owners.chain(index);
        let set = chain.iter().map(|owner| &objects[*owner]).find(|owner| owner.kind == Kind::LeaderWorkerSet)?;
        let labels = objects[index].value.get("metadata")?.get("labels")?;
        let group = labels.get(GROUP)?.as_str()?;
        let restarts = restarts_as_a_group(set.value.get("spec")?.as_object()?);
        restarts.then(|| Arc::from(format!("{}/{}-{group}", set.namespace(), set.name())))
    }

    /// Whether an object or one of its owners is being deleted.
    pub fn is_being_deleted(&self, index: usize) -> bool {
        self.owners.chain(index).iter().any(|index| deleted(&self.manifests.objects[*index]).is_some())
    }

    /// The Workload of Kueue with this index.
    pub fn listed(&mut self, index: usize) -> ListedWorkload {
        let object = &self.manifests.objects[index];
        ListedWorkload::of(object, created(object), &mut |template| self.pod(template, object.span))
    }

    /// The spec of a pod with all defaults.
    pub fn pod(&mut self, mut pod: Map<String, Value>, span: Span) -> Option<Pod> {
        let origin = Origin::of(pod.get("metadata"));
        if let Some(Value::Object(spec)) = pod.get_mut("spec") {
            let manifests = self.manifests;
            self.classes.fill(spec, origin, &|key, name| manifests.place_of(span, key, name), self.report);
        }
        let mut pod: Pod = typed(Value::Object(pod), span, self.report)?;
        // The API server writes the default name into each pod.
        if pod.spec.scheduler() == PodSpec::DEFAULT_SCHEDULER {
            pod.spec.scheduler_name = None;
        }
        Some(pod)
    }

    /// Adds the pods of the files. Returns the claims that are made for them, by namespace.
    fn pods(&mut self, cluster: &mut Cluster) -> Vec<(Arc<str>, MadeClaim, Span)> {
        let mut claims = Vec::new();
        let (mut ended, mut gone) = (0, 0);
        for (index, object) in self.manifests.objects.iter().enumerate() {
            let created = created(object);
            if object.kind == Kind::Pod || object.kind.is_controller() {
                cluster.earliest = cluster.earliest.into_iter().chain(created).min();
            }
            cluster.latest = cluster.latest.into_iter().chain(created).chain(deletion_began(object)).max();
            if object.kind != Kind::Pod {
                continue;
            }
            if has_ended(object) {
                ended += 1;
                continue;
            }
            if deleted(object).is_some() && !is_bound(object) {
                gone += 1;
                continue;
            }
            let mut value = object.value.clone();
            let namespace: Arc<str> = Arc::from(object.namespace());
            let made = name_claims(&mut value).into_iter();
            claims.extend(made.map(|claim| {
                let place = object.place_of("resourceClaimTemplateName", &claim.template);
                (Arc::clone(&namespace), claim, place)
            }));
            let owner = self.owners.owner(index).map(|owner| &self.manifests.objects[owner]);
            let owner_of_owner = self.owners.chain(index).get(2).map(|owner| &self.manifests.objects[*owner]);
            let job = owner.filter(|owner| owner.kind == Kind::Job);
            let set = owner_of_owner.filter(|set| set.kind == Kind::JobSet);
            let of_job = job.and_then(|job| Some(job_terms(job.value.get("spec")?.as_object()?, job, set)));
            let at_a_time = job.and_then(|job| pods_left(job.value.get("spec")?.as_object()?, Some(job)).1);
            let restarts_with = self.restarts_with(index);
            let owner = owner.map(|it| (it.kind, Arc::from(format!("{}/{}", it.namespace(), it.name()))));
            let deadline = seconds(object.value.get("spec").and_then(|spec| spec.get("activeDeadlineSeconds")));
            let Some(mut pod) = self.pod(value, object.span) else { continue };
            cluster.latest = cluster.latest.into_iter().chain(pod.status.start_time).max();
            let terms = self.terms(index);
            let workload = self.managers.workload(index).map(|workload| Box::new(self.listed(workload)));
            if let Some((listed, set)) = workload.as_ref().and_then(|listed| Some((listed, listed.pod_sets.first()?))) {
                injected::take_off(&mut pod, listed, set, cluster.queues.given());
            }
            let deleted = deleted(object);
            let is_replaced = !self.is_being_deleted(index);
            cluster.pods.push(StatedPod {
                pod,
                created,
                deleted,
                is_replaced,
                terms,
                deadline,
                of_job,
                at_a_time,
                restarts_with,
                owner,
                workload,
                span: object.span,
            });
        }
        self.unused.left_out("a pod on no node is being deleted", gone);
        self.unused.left_out("a pod has ended (phase Succeeded or Failed)", ended);
        claims
    }
}

/// A claim that was made from a template has its name in the status of the pod. A claim that is not made yet gets one.
fn name_claims(pod: &mut Map<String, Value>) -> Vec<MadeClaim> {
    let mut named = Vec::new();
    let pod_name = pod.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
    let pod_name = pod_name.unwrap_or_default().to_string();
    let statuses = pod.get("status").and_then(|status| status.get("resourceClaimStatuses")).cloned();
    let statuses = statuses.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let claims = pod.get_mut("spec").and_then(|spec| spec.get_mut("resourceClaims")).and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten().filter_map(Value::as_object_mut) {
        if claim.contains_key("resourceClaimName") || !claim.contains_key("resourceClaimTemplateName") {
            continue;
        }
        let local = claim.get("name").and_then(Value::as_str).unwrap_or_default().to_string();
        let made = statuses.iter().find(|status| status["name"] == local.as_str());
        let name = made.and_then(|made| made["resourceClaimName"].as_str()).map(str::to_string);
        let name = name.unwrap_or_else(|| crate::controllers::claim_name(&pod_name, &local).to_string());
        let template = claim.get("resourceClaimTemplateName").and_then(Value::as_str).unwrap_or_default();
        named.push(MadeClaim { claim: Arc::from(name.as_str()), template: Arc::from(template) });
        claim.insert("resourceClaimName".to_string(), Value::from(name));
    }
    named
}

/// What a pod names: the claim, and the template from which it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeClaim {
    pub claim: Arc<str>,
    pub template: Arc<str>,
}

/// Adds the controller of the files to the cluster, if kube-scheduler reads such controllers.
fn add_controller(object: &Object, cluster: &mut Cluster, report: &mut Report) {
    match object.kind {
        Kind::ReplicaSet => cluster.replica_sets.extend(selectors::pod_controller(object, report)),
        Kind::StatefulSet => cluster.stateful_sets.extend(selectors::pod_controller(object, report)),
        Kind::ReplicationController => {
            cluster.replication_controllers.extend(selectors::replication_controller(object, report));
        }
        _ => {}
    }
}
