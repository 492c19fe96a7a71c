//! Which objects of the files are owned by others, so that no pod is made twice.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::ended::{deleted, has_ended, is_bound, is_done};
use crate::kinds::{Kind, known};
use crate::read::{Manifests, Object};

/// The index of an object in [`Manifests::objects`].
pub type Index = usize;

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
        for (index, object) in objects.iter().enumerate() {
            let owner = references(object).find_map(|(kind, name, uid)| {
                let owner = *of_name.get(&(kind, object.namespace().to_string(), name.to_string()))?;
                // An object of the same name that was made later is not the owner.
                let own = uid_of(&objects[owner]);
                (owner != index && (uid.is_empty() || own.is_empty() || own == uid)).then_some(owner)
            });
            if let Some(owner) = owner {
                owners.owner.insert(index, owner);
                owners.children.entry(owner).or_default().push(index);
            }
        }
        owners
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
    /// The objects that still matter: without pods that have ended, controllers whose work is done or that want no
    /// pod, and workloads that Kueue made for other objects.
    pub fn current(&self) -> impl Iterator<Item = &Object> {
        let owners = Owners::of(self);
        let is_idle = move |index: Index, object: &Object| match object.kind {
            Kind::Pod => has_ended(object) || (deleted(object).is_some() && !is_bound(object)),
            Kind::QueuedWorkload => is_done(object) || owners.owner(index).is_some(),
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

fn uid_of(object: &Object) -> &str {
    object.value.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(Value::as_str).unwrap_or_default()
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
