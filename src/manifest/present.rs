//! Pods of controllers that are in the files already.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::api::{Pod, Seconds};
use crate::controllers::{Controller, Naming, PodSet, StatedPod};
use crate::ended::{deleted, grace_left, has_ended};
use crate::injected::{self, Given};
use crate::kinds::Kind;
use crate::read::Object;

/// The labels by which controllers say to which part of them a pod belongs.
const PARTS: [&str; 6] = [
    "kueue.x-k8s.io/podset",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "ray.io/group",
    "ray.io/node-type",
];
const JOB_NAME: &str = "job-name";

fn at<'v>(value: &'v Map<String, Value>, path: &[&str]) -> Option<&'v Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(value.get(*first)?, |value, key| value.get(*key))
}

fn node_of(pod: &Object) -> Option<&str> {
    at(&pod.value, &["spec", "nodeName"])?.as_str()
}

/// What is known of the pods of a controller.
pub struct Present<'p> {
    /// The objects that belong to it.
    pub own: Vec<&'p Object>,
    /// Whether Kueue manages it.
    pub is_managed: bool,
    /// All pods of the files.
    pub stated: &'p [StatedPod],
    /// The beginning of the run.
    pub latest: Option<Seconds>,
}

/// Leaves out the numbers of pods that are in the files already. Notes the pods of an object that Kueue manages.
pub fn leave_out(object: &Object, controller: &mut Controller, present: &Present<'_>) {
    let Present { own, is_managed, stated, latest } = present;
    // An object without a template is refused. Its pods are in no set.
    if controller.sets.is_empty() {
        return;
    }
    let pods = own.iter().copied().filter(|child| child.kind == Kind::Pod && !has_ended(child));
    let (leaving, alive): (Vec<&Object>, Vec<&Object>) = pods.partition(|pod| deleted(pod).is_some());
    wait_for(&leaving, controller, *latest);
    controller.has_pods = !alive.is_empty();
    let places = if *is_managed { places(controller, &alive, stated) } else { Vec::new() };
    if *is_managed {
        let is_started = at(&object.value, &["status", "startTime"]).is_some();
        controller.has_started =
            !controller.is_suspended && (is_started || alive.iter().any(|pod| node_of(pod).is_some()));
        controller.pods = alive.iter().map(|pod| Arc::from(pod.name())).zip(places.iter().copied()).collect();
    }
    let has_parts = *is_managed && controller.sets.len() > 1;
    for (place, set) in controller.sets.iter_mut().enumerate() {
        let is_own = |other: usize| !has_parts || matches!(set.naming, Naming::Groups { .. }) || places[other] == place;
        let own: Vec<&Object> = (0..alive.len()).filter(|other| is_own(*other)).map(|other| alive[other]).collect();
        if !own.is_empty() {
            leave_out_of(set, &own);
        }
    }
}

/// Lets pods wait for those that are being deleted, if they get the same name or the same node.
fn wait_for(leaving: &[&Object], controller: &mut Controller, latest: Option<Seconds>) {
    let keeps_names = matches!(controller.kind, Kind::StatefulSet | Kind::DaemonSet | Kind::LeaderWorkerSet);
    for (pod, end) in leaving.iter().filter(|_| keeps_names).filter_map(|pod| Some((*pod, deleted(pod)?))) {
        let on = node_of(pod);
        for set in &mut controller.sets {
            let is_it = |number: &&u32| match &set.naming {
                Naming::Nodes { nodes, .. } => on == Some(&*nodes[**number as usize]),
                Naming::Numbered { .. } | Naming::Groups { .. } => set.name_of(**number) == pod.name(),
            };
            if let Some(number) = set.numbers.iter().find(is_it) {
                set.after.insert(*number, grace_left(end, latest));
            }
        }
    }
}

/// Leaves out the numbers of these pods of a set.
fn leave_out_of(set: &mut PodSet, alive: &[&Object]) {
    let names: BTreeSet<&str> = alive.iter().map(|pod| pod.name()).collect();
    if let Naming::Nodes { nodes, .. } = &set.naming {
        let on: BTreeSet<&str> = alive.iter().filter_map(|pod| node_of(pod)).collect();
        set.numbers.retain(|number| !on.contains(&*nodes[*number as usize]));
        return;
    }
    let labelled: BTreeSet<u64> = match &set.naming {
        Naming::Numbered { labels, .. } => alive
            .iter()
            .filter_map(|pod| {
                let of_pod = at(&pod.value, &["metadata", "labels"])?;
                labels.iter().find_map(|key| of_pod.get(&**key)?.as_str()?.parse().ok())
            })
            .collect(),
        Naming::Nodes { .. } | Naming::Groups { .. } => BTreeSet::new(),
    };
    let wanted = set.numbers.len();
    let is_taken = |number: u32| labelled.contains(&u64::from(number)) || names.contains(set.name_of(number).as_str());
    let taken: BTreeSet<u32> = set.numbers.iter().copied().filter(|number| is_taken(*number)).collect();
    let left = match set.naming {
        // Of equal sets, it is not known to which one a pod belongs.
        Naming::Groups { .. } => wanted - taken.len(),
        _ => wanted.saturating_sub(alive.len()),
    };
    set.numbers.retain(|number| !taken.contains(number));
    set.numbers.truncate(left);
}

/// The place of the set of each pod: the part that a label names, or else the first set with such requests or any requests
/// that lacks a pod.
fn places(controller: &Controller, pods: &[&Object], stated: &[StatedPod]) -> Vec<usize> {
    let sets = &controller.sets;
    if sets.len() < 2 {
        return vec![0; pods.len()];
    }
    let mut room: Vec<u32> = sets.iter().map(|set| set.wanted).collect();
    let mut places = Vec::new();
    for pod in pods {
        let is_it =
            |known: &&Pod| *known.metadata.name == *pod.name() && known.metadata.namespace() == controller.namespace;
        let stated = stated.iter().map(|stated| &stated.pod).find(is_it);
        let found = named_place(sets, pod).unwrap_or_else(|| {
            let is_alike = |set: &PodSet| stated.is_some_and(|stated| requests(stated).eq(requests(&set.template)));
            let has_room = |place: &usize| room[*place] > 0;
            let alike = (0..sets.len()).filter(|place| is_alike(&sets[*place]));
            alike
                .clone()
                .find(has_room)
                .or_else(|| (0..sets.len()).find(has_room))
                .or(alike.clone().next())
                .unwrap_or(0)
        });
        room[found] = room[found].saturating_sub(1);
        places.push(found);
    }
    places
}

fn requests(pod: &Pod) -> impl Iterator<Item = &crate::api::ResourceList> {
    pod.spec.containers.iter().map(|container| &container.resources.requests)
}

/// The place of the set that the labels of a pod name.
fn named_place(sets: &[PodSet], pod: &Object) -> Option<usize> {
    let labels = at(&pod.value, &["metadata", "labels"])?;
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let job = label(JOB_NAME).and_then(|job| sets.iter().position(|set| *set.prefix() == *job));
    let is_part = |set: &PodSet, part: &str| !set.name.is_empty() && set.name.eq_ignore_ascii_case(part);
    job.or_else(|| {
        PARTS.iter().filter_map(|key| label(key)).find_map(|part| sets.iter().position(|set| is_part(set, part)))
    })
}

/// Takes what Kueue has added from the pods of an admitted object, and from those that it makes.
pub fn take_off(controller: &mut Controller, pods: &mut [StatedPod], given: Given<'_>) {
    let Some(listed) = controller.workload.as_ref().filter(|listed| listed.admission.is_some()) else { return };
    for (place, set) in controller.sets.iter_mut().enumerate() {
        let Some(of_set) = listed.set_of(&set.name) else { continue };
        injected::take_off(&mut set.template, listed, of_set, given);
        for (name, _) in controller.pods.iter().filter(|(_, own)| *own == place) {
            let is_it = |pod: &Pod| pod.metadata.name == *name && pod.metadata.namespace() == controller.namespace;
            if let Some(stated) = pods.iter_mut().find(|stated| is_it(&stated.pod)) {
                injected::take_off(&mut stated.pod, listed, of_set, given);
            }
        }
    }
}
