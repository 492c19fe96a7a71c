//! Which objects of the files are owned by others, so that no pod is made twice.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value;

use crate::ended::{deleted, has_ended, is_bound, is_done};
use crate::kinds::{Kind, known};
use crate::read::{Manifests, Object};

/// The index of an object in [`Manifests::objects`].
pub type Index = usize;

/// An object that is not read: its namespace, kind and name.
type Unread<'o> = (&'o str, &'o str, &'o str);

/// The owners and the children of the objects.
#[derive(Debug, Default)]
pub struct Owners {
    owner: BTreeMap<Index, Index>,
    children: BTreeMap<Index, Vec<Index>>,
}

impl Owners {
    pub fn of(manifests: &Manifests) -> Owners {
        let objects = &manifests.objects;
        let key = |object: &Object| (object.kind, object.namespace().to_string(), object.name().to_string());
        let of_name: BTreeMap<_, Index> =
            objects.iter().enumerate().map(|(index, object)| (key(object), index)).collect();
        let mut owners = Owners::default();
        let find = |index: Index, (kind, name, uid): (Kind, &str, &str)| {
            let owner = *of_name.get(&(kind, objects[index].namespace().to_string(), name.to_string()))?;
            // An object of the same name that was made later is not the owner.
            (owner != index && is_same(uid, uid_of(&objects[owner]))).then_some(owner)
        };
        for (index, object) in objects.iter().enumerate() {
            let mut found = references(object).filter_map(|reference| find(index, reference));
            match object.kind {
                // Kueue makes one workload for all pods of a group.
                Kind::QueuedWorkload => {
                    let all: Vec<Index> = found.collect();
                    let is_of_pods = all.iter().all(|owner| objects[*owner].kind == Kind::Pod);
                    match &all[..] {
                        [first, ..] if !is_of_pods || !is_in_group(&objects[*first]) => owners.own(*first, index),
                        pods => pods.iter().for_each(|pod| owners.own(index, *pod)),
                    }
                }
                _ => {
                    if let Some(owner) = found.next() {
                        owners.own(owner, index);
                    }
                }
            }
        }
        owners.share(objects);
        owners
    }

    fn own(&mut self, owner: Index, child: Index) {
        if let Entry::Vacant(free) = self.owner.entry(child) {
            free.insert(owner);
            self.children.entry(owner).or_default().push(child);
        }
    }

    /// Makes a workload of Kueue the owner of the objects with which it shares an owner that is not read, such as the
    /// pods of a PyTorchJob.
    fn share(&mut self, objects: &[Object]) {
        let is_free = |owners: &Owners, index: &Index| owners.owner(*index).is_none();
        let mut workloads: BTreeMap<Unread<'_>, Vec<(&str, Index)>> = BTreeMap::new();
        for (index, object) in objects.iter().enumerate().filter(|(_, object)| object.kind == Kind::QueuedWorkload) {
            if is_free(self, &index) && self.children(index).is_empty() {
                for (kind, name, uid) in all_references(object) {
                    workloads.entry((object.namespace(), kind, name)).or_default().push((uid, index));
                }
            }
        }
        for (index, object) in objects.iter().enumerate() {
            let is_part = object.kind == Kind::Pod || object.kind.is_controller();
            if !is_part || !is_free(self, &index) {
                continue;
            }
            let shared = all_references(object).find_map(|(kind, name, uid)| {
                let known = workloads.get(&(object.namespace(), kind, name))?;
                known.iter().find(|(own, _)| is_same(own, uid)).map(|(_, workload)| *workload)
            });
            if let Some(workload) = shared {
                self.own(workload, index);
            }
        }
    }

    pub fn owner(&self, index: Index) -> Option<Index> {
        self.owner.get(&index).copied()
    }

    pub fn children(&self, index: Index) -> &[Index] {
        self.children.get(&index).map_or(&[], Vec::as_slice)
    }

    /// The object, its owner, the owner of that, and so on. Objects that own each other are left out.
    pub fn chain(&self, index: Index) -> Vec<Index> {
        let mut chain = vec![index];
        while let Some(owner) = chain.last().and_then(|last| self.owner(*last)) {
            if chain.contains(&owner) {
                break;
            }
            chain.push(owner);
        }
        chain
    }
}

impl Manifests {
    /// The objects that still matter: without pods that have ended, and controllers whose work is done or that want no
    /// pod.
    pub fn current(&self) -> impl Iterator<Item = &Object> {
        let owners = Owners::of(self);
        let is_idle = move |index: Index, object: &Object| match object.kind {
            Kind::Pod => has_ended(object) || (deleted(object).is_some() && !is_bound(object)),
            Kind::QueuedWorkload => is_done(object),
            // Old revisions of a deployment are replica sets of no pods.
            Kind::ReplicaSet => {
                let wanted = object.value.get("spec").and_then(|spec| spec.get("replicas")).and_then(Value::as_u64);
                wanted == Some(0) && owners.children(index).is_empty()
            }
            kind => kind.is_controller() && is_done(object),
        };
        let objects = self.objects.iter().enumerate();
        objects.filter(move |(index, object)| !is_idle(*index, object)).map(|(_, object)| object)
    }
}

/// More owners than objects have above each other.
const MOST_OWNERS: usize = 16;

impl Manifests {
    /// Adds the owners of unread objects to the objects that such objects own.
    pub fn follow_unread(&mut self) {
        if self.unread.is_empty() {
            return;
        }
        let unread = std::mem::take(&mut self.unread);
        let is_part = |object: &&mut Object| object.kind == Kind::Pod || object.kind.is_controller();
        for object in self.objects.iter_mut().filter(is_part) {
            let namespace = object.namespace().to_string();
            let references = object.value.get_mut("metadata").and_then(|metadata| metadata.get_mut("ownerReferences"));
            let Some(Value::Array(references)) = references else { continue };
            let mut next = 0;
            while let Some(reference) = references.get(next).filter(|_| next < MOST_OWNERS) {
                let between = unread.iter().find(|one| one.namespace == namespace && one.is_named_by(reference));
                for owner in between.into_iter().flat_map(|one| &one.owners) {
                    let owner = Value::Object(owner.clone());
                    if !references.contains(&owner) {
                        references.push(owner);
                    }
                }
                next += 1;
            }
        }
        self.unread = unread;
    }
}

fn uid_of(object: &Object) -> &str {
    object.value.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(Value::as_str).unwrap_or_default()
}

/// Whether two UIDs can be those of one object. An empty one is not known.
fn is_same(one: &str, other: &str) -> bool {
    one.is_empty() || other.is_empty() || one == other
}

/// Whether a pod is one of a group, which Kueue admits as a whole.
fn is_in_group(pod: &Object) -> bool {
    let labels = pod.value.get("metadata").and_then(|metadata| metadata.get("labels"));
    labels.is_some_and(|labels| labels.get("kueue.x-k8s.io/pod-group-name").is_some())
}

/// All owners that the object names: kind, name and UID.
fn all_references(object: &Object) -> impl Iterator<Item = (&str, &str, &str)> {
    let list = object.value.get("metadata").and_then(|metadata| metadata.get("ownerReferences"));
    let list = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().map(|reference| {
        let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default();
        (text("kind"), text("name"), text("uid"))
    })
}

/// The controllers that the object names as owners: kind, name and UID.
fn references(object: &Object) -> impl Iterator<Item = (Kind, &str, &str)> {
    let list = object.value.get("metadata").and_then(|metadata| metadata.get("ownerReferences"));
    let list = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(|reference| {
        let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_controller = reference.get("controller").and_then(Value::as_bool) != Some(false);
        let group = crate::kinds::group_of(text("apiVersion"));
        let known = known(group, text("kind")).or_else(|| {
            crate::kinds::KINDS.iter().find(|known| known.name == text("kind") && known.kind.is_controller())
        });
        known.filter(|_| is_controller).map(|known| (known.kind, text("name"), text("uid")))
    })
}
