//! Controllers and the pods that they make.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Kind;
use crate::api::{Labels, OwnerReference, Pod, Seconds};
use crate::listed::ListedWorkload;
use dryrack_units::SimDuration;
use dryrack_yaml::Span;

/// What annotations say about when a pod arrives and how long it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// From `dryrack/at`: the time of arrival.
    pub at: Option<SimDuration>,
    /// From `dryrack/duration`: the time that the pod runs. Without it, the pod runs until it is stopped.
    pub duration: Option<SimDuration>,
    /// From `dryrack/stop`: the time that the pod takes to stop. Without it, the pod takes the whole grace period that it
    /// states.
    pub stop: Option<SimDuration>,
    /// From `dryrack/rendezvous`: whether the pods begin their work when all of them run.
    pub rendezvous: bool,
}

impl Terms {
    /// These terms, and those of `owner` where these say nothing.
    pub fn or(self, owner: Terms) -> Terms {
        Terms {
            at: self.at.or(owner.at),
            duration: self.duration.or(owner.duration),
            stop: self.stop.or(owner.stop),
            rendezvous: self.rendezvous || owner.rendezvous,
        }
    }
}

/// A pod that is in the files itself.
#[derive(Clone, Debug)]
pub struct StatedPod {
    pub pod: Pod,
    pub created: Option<Seconds>,
    /// When the grace period of a pod that is being deleted ends.
    pub deleted: Option<Seconds>,
    /// Whether its controller makes another pod when this one is gone.
    pub is_replaced: bool,
    pub terms: Terms,
    /// The time after which Kubernetes ends the pod, from the start of the pod.
    pub deadline: Option<SimDuration>,
    /// What the Job says that made the pod.
    pub of_job: Option<JobTerms>,
    /// How many pods of its Job may run at a time, if that does not want all of them at a time.
    pub at_a_time: Option<u32>,
    /// The group of a LeaderWorkerSet with which the pod starts again, as `namespace/name-number`.
    pub restarts_with: Option<Arc<str>>,
    /// The controller that made the pod, as `namespace/name`.
    pub owner: Option<(Kind, Arc<str>)>,
    /// The Workload that Kueue made for the pod alone.
    pub workload: Option<Box<ListedWorkload>>,
    pub span: Span,
}

/// An object that makes pods.
#[derive(Clone, Debug)]
pub struct Controller {
    pub kind: Kind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub labels: Labels,
    pub created: Option<Seconds>,
    pub terms: Terms,
    pub sets: Vec<PodSet>,
    /// Whether some of its pods are in the files.
    pub has_pods: bool,
    /// Whether it makes no pods for now.
    pub is_suspended: bool,
    /// Whether Kueue must not admit it (`active: false` of its Workload).
    pub is_deactivated: bool,
    /// Whether its pods run already, or are about to.
    pub has_started: bool,
    /// The names of its pods that are in the files and have not ended, each with the place of its set. Only of an object
    /// in a queue of Kueue.
    pub pods: Vec<(Arc<str>, usize)>,
    /// The Workload that Kueue made for it, or that it is.
    pub workload: Option<Box<ListedWorkload>>,
    /// The LocalQueue of Kueue that the controller names.
    pub queue: Option<Arc<str>>,
    /// The priority of its workload in Kueue: a number, or the name of a WorkloadPriorityClass.
    pub queue_priority: Option<QueuePriority>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuePriority {
    Value(i32),
    Class(Arc<str>),
}

/// Equal pods of a controller.
#[derive(Clone, Debug)]
pub struct PodSet {
    /// The part of the controller, such as the name of a replicated job. Empty if there is only one part. Sets that
    /// follow each other and have one name are one pod set of Kueue.
    pub name: Arc<str>,
    /// The pods to make, by their numbers. Pods of these files that exist already are left out.
    pub numbers: Vec<u32>,
    /// When a pod is made that has the name or the node of one that is being deleted, from the beginning of the run.
    pub after: BTreeMap<u32, SimDuration>,
    /// The number of its pods with those that exist already.
    pub wanted: u32,
    /// Whether all pods of a group of a LeaderWorkerSet start again with each of them.
    pub restarts_as_a_group: bool,
    /// Whether each pod is made when the one before it runs (`OrderedReady` of a StatefulSet).
    pub is_ordered: bool,
    /// How many of the pods may run at a time, if not all of them.
    pub parallelism: Option<u32>,
    /// The smallest number of pods with which Kueue may admit the controller.
    pub min_count: Option<u32>,
    /// Whether the controller states how many pods must complete, so that fewer at a time take longer.
    pub has_completions: bool,
    /// The pod, without the parts that differ from pod to pod.
    pub template: Pod,
    /// The claim templates of the pod: the name of the claim in the pod, and the name of the template.
    pub claims: Vec<(Arc<str>, Arc<str>)>,
    pub naming: Naming,
    /// The topology that Kueue must or should observe: the kind of request, and the key of a label.
    pub topology: Option<(Arc<str>, Arc<str>)>,
    /// The terms of its pods: those of the template, and where it says nothing, those of the controller.
    pub terms: Terms,
    /// The time after which Kubernetes ends a pod, from the start of the pod.
    pub deadline: Option<SimDuration>,
    /// What the Job says that makes the pods.
    pub of_job: Option<JobTerms>,
}

/// How many pods of a Job may fail before Kubernetes ends it, or one of its indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackoffLimit {
    Together(u32),
    /// `backoffLimitPerIndex`: each index has retries of its own.
    PerIndex(u32),
}

impl BackoffLimit {
    pub fn limit(self) -> u32 {
        match self {
            BackoffLimit::Together(limit) | BackoffLimit::PerIndex(limit) => limit,
        }
    }
}

/// When Kubernetes ends a Job with all of its pods before they complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTerms {
    /// The time after which the Job ends, from its start.
    pub deadline: Option<SimDuration>,
    /// When the Job was started, if its status says so.
    pub started: Option<Seconds>,
    /// How many of its pods may fail, together or of each index.
    pub backoff_limit: BackoffLimit,
    /// How many pods have failed, as its status says.
    pub failed: u32,
    /// The JobSet that fails or starts again with the Job, as `namespace/name`.
    pub set: Option<Arc<str>>,
    /// How many times the JobSet still starts again instead of failing.
    pub restarts: u32,
    /// Whether its Jobs wait for the last pods of all of them then, and not only for their own.
    pub waits_for_set: bool,
}

/// How the pods of a set are named and labelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `prefix-number`, with the number as the value of these labels.
    Numbered { prefix: Arc<str>, labels: Vec<Arc<str>> },
    /// One pod for each of these nodes, as `prefix-node`.
    Nodes { prefix: Arc<str>, nodes: Vec<Arc<str>> },
    /// The leader and the workers of groups: `prefix-group` and `prefix-group-number`. Each group has this many pods.
    Groups { prefix: Arc<str>, size: u32, is_leader: bool },
}

impl PodSet {
    /// The name of the pod with this number.
    pub fn name_of(&self, number: u32) -> String {
        match &self.naming {
            Naming::Numbered { prefix, .. } => format!("{prefix}-{number}"),
            Naming::Nodes { prefix, nodes } => {
                format!("{prefix}-{}", nodes.get(number as usize).map_or("", |node| &**node))
            }
            Naming::Groups { prefix, is_leader: true, .. } => format!("{prefix}-{number}"),
            Naming::Groups { prefix, size, is_leader: false } => {
                let workers = pods_in_a_group(*size, false);
                format!("{prefix}-{}-{}", number / workers, number % workers + 1)
            }
        }
    }

    /// The beginning of the names of its pods.
    pub fn prefix(&self) -> Arc<str> {
        match &self.naming {
            Naming::Numbered { prefix, .. } | Naming::Nodes { prefix, .. } | Naming::Groups { prefix, .. } => {
                Arc::clone(prefix)
            }
        }
    }

    /// The labels of the pod with this number that the other pods do not have.
    pub fn labels_of(&self, number: u32) -> Vec<(Arc<str>, Arc<str>)> {
        match &self.naming {
            Naming::Numbered { labels, .. } => {
                labels.iter().map(|key| (Arc::clone(key), Arc::from(number.to_string()))).collect()
            }
            Naming::Nodes { .. } => Vec::new(),
            Naming::Groups { size, is_leader, .. } => {
                let pods = pods_in_a_group(*size, *is_leader);
                let (group, worker) = (number / pods, if *is_leader { 0 } else { number % pods + 1 });
                let label = |key: &str, value: u32| (Arc::from(key), Arc::from(value.to_string()));
                vec![label(GROUP, group), label(WORKER, worker)]
            }
        }
    }

    /// Whether the pods differ in more than their names, so that one template is not enough.
    pub fn pods_differ(&self) -> bool {
        !self.claims.is_empty()
            || match &self.naming {
                Naming::Numbered { labels, .. } => !labels.is_empty(),
                Naming::Nodes { .. } | Naming::Groups { .. } => true,
            }
    }

    /// The controller of the pod with this number, if it is not that of the template.
    pub fn owner_of(&self, number: u32) -> Option<OwnerReference> {
        let Naming::Groups { prefix, size, is_leader } = &self.naming else { return None };
        Some(stateful_set(match is_leader {
            true => Arc::clone(prefix),
            false => of_workers(prefix, number / pods_in_a_group(*size, false)),
        }))
    }

    /// The name of the group with which the pod with this number starts again.
    pub fn restarts_with(&self, number: u32) -> Option<String> {
        match &self.naming {
            Naming::Groups { prefix, size, is_leader } if self.restarts_as_a_group => {
                Some(format!("{prefix}-{}", number / pods_in_a_group(*size, *is_leader)))
            }
            _ => None,
        }
    }

    /// The pod with this number.
    pub fn pod(&self, number: u32) -> Pod {
        let mut pod = self.template.clone();
        let name: Arc<str> = Arc::from(self.name_of(number));
        pod.metadata.labels.extend(self.labels_of(number));
        for (local, _) in &self.claims {
            let of_pod = pod.spec.resource_claims.iter_mut().find(|claim| claim.name == *local);
            if let Some(claim) = of_pod {
                claim.resource_claim_name = Some(claim_name(&name, local));
            }
        }
        if let Some(owner) = self.owner_of(number) {
            pod.metadata.owner_references = vec![owner];
        }
        if let Naming::Nodes { nodes, .. } = &self.naming
            && let Some(node) = nodes.get(number as usize)
        {
            super::daemons::bind(&mut pod, node);
        }
        // `updateIdentity` in pkg/controller/statefulset/stateful_set_utils.go.
        if pod.is_of_stateful_set() {
            pod.metadata.labels.insert(Arc::from(POD_NAME), Arc::clone(&name));
        }
        pod.metadata.name = name;
        pod
    }
}

/// How many pods of a set each group of a LeaderWorkerSet has: its leader, or its workers.
fn pods_in_a_group(size: u32, is_leader: bool) -> u32 {
    if is_leader { 1 } else { size.saturating_sub(1).max(1) }
}

/// Labels of the pods of a LeaderWorkerSet: its name, the number of the group, and the number of the pod in the group.
pub const SET: &str = "leaderworkerset.sigs.k8s.io/name";
pub const GROUP: &str = "leaderworkerset.sigs.k8s.io/group-index";
pub const WORKER: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// The label of a pod of a StatefulSet with its name.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// The name of the StatefulSet of the workers of a group.
pub fn of_workers(set: &str, group: u32) -> Arc<str> {
    Arc::from(format!("{set}-{group}"))
}

/// A reference to the StatefulSet that controls a pod.
fn stateful_set(name: Arc<str>) -> OwnerReference {
    let kind = Arc::from(Kind::StatefulSet.name());
    OwnerReference { api_version: Arc::from("apps/v1"), kind, name, controller: true }
}

/// The claim that is made for a pod from a template.
pub fn claim_name(pod: &str, local: &str) -> Arc<str> {
    Arc::from(format!("{pod}-{local}"))
}

impl Controller {
    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The controller of its pods: the object itself, or the ReplicaSet that a Deployment makes. No rule reads the
    /// version of other kinds.
    pub fn owner_reference(&self) -> OwnerReference {
        let (version, kind) = match self.kind {
            Kind::Deployment => ("apps/v1", Kind::ReplicaSet),
            Kind::ReplicaSet | Kind::StatefulSet => ("apps/v1", self.kind),
            Kind::ReplicationController => ("v1", self.kind),
            kind => ("", kind),
        };
        let name = match self.kind {
            Kind::Deployment => Arc::from(format!("{}-{}", self.name, self.pod_template_hash())),
            _ => Arc::clone(&self.name),
        };
        OwnerReference { api_version: Arc::from(version), kind: Arc::from(kind.name()), name, controller: true }
    }

    /// Kubernetes computes a hash of the template. Here, only one ReplicaSet of a Deployment exists.
    pub fn pod_template_hash(&self) -> &str {
        &self.name
    }
}
