//! Objects of kinds that are not read, of which only the owners matter: a RayCluster stands between its pods and the
//! RayJob for which Kueue made a Workload.

use dryrack_yaml::{Node, Tree};
use serde_json::{Map, Value, json};

/// An object of a kind that is not read.
#[derive(Clone, Debug)]
pub struct Unread {
    pub namespace: String,
    kind: String,
    name: String,
    uid: String,
    pub owners: Vec<Map<String, Value>>,
}

impl Unread {
    /// The object of this tree, if it has an owner.
    pub fn of(tree: &Tree, kind: &str) -> Option<Unread> {
        let metadata = tree.get("metadata")?;
        let text = |of: &Tree, key: &str| of.get(key).and_then(Tree::scalar).unwrap_or_default().to_string();
        let Node::List(references) = &metadata.get("ownerReferences")?.node else { return None };
        let owner = |reference: &Tree| {
            let field = |key: &'static str| (key.to_string(), Value::from(text(reference, key)));
            let mut owner: Map<String, Value> = ["apiVersion", "kind", "name", "uid"].map(field).into_iter().collect();
            // It does not control the pods itself.
            owner.insert("controller".to_string(), json!(false));
            owner
        };
        let owners: Vec<_> = references.iter().map(owner).collect();
        let namespace = text(metadata, "namespace");
        let namespace = if namespace.is_empty() { "default".to_string() } else { namespace };
        let (kind, name, uid) = (kind.to_string(), text(metadata, "name"), text(metadata, "uid"));
        (!owners.is_empty()).then_some(Unread { namespace, kind, name, uid, owners })
    }

    pub fn is_named_by(&self, reference: &Value) -> bool {
        let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_same = text("uid").is_empty() || self.uid.is_empty() || text("uid") == self.uid;
        text("kind") == self.kind && text("name") == self.name && is_same
    }
}
