//! All objects, what the program did with them, and what it asked for in vain.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::fault::Fault;
use super::heard::{Heard, Unserved};
use super::key::ObjectKey;
use super::limits::Limits;
use super::resource::{Resource, builtin};
use super::table::{Stored, Table};

/// The most paths that are kept as asked for in vain.
const MOST_UNSERVED: usize = 1_000;

/// Why an object of the world cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ObjectError {
    #[error("an object states no `{0}`")]
    Missing(&'static str),
    #[error("objects of kind {kind} in version {version} are not served")]
    NotServed { kind: String, version: String },
    #[error("{kind} {name}: {why}")]
    Malformed { kind: String, name: String, why: String },
}

#[derive(Debug)]
pub(crate) struct Store {
    pub limits: Limits,
    pub tables: Vec<Table>,
    /// The version of the last change of any object.
    pub version: u64,
    /// The number of the last UID and of the last watch.
    pub numbers: u64,
    /// The time that new objects get.
    pub now: Timestamp,
    /// The version of Kubernetes that the server states.
    pub release: String,
    pub heard: Vec<Heard>,
    unserved: BTreeMap<(String, String), u64>,
    /// Refused requests, by HTTP status.
    pub refused: BTreeMap<u16, u64>,
}

impl Store {
    pub(crate) fn new(limits: Limits, release: &str) -> Store {
        Store {
            limits,
            tables: builtin().into_iter().map(Table::new).collect(),
            version: 1,
            numbers: 0,
            now: Timestamp::UNIX_EPOCH,
            release: release.to_owned(),
            heard: Vec::new(),
            unserved: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    pub(crate) fn serve(&mut self, resource: Resource) {
        self.tables.push(Table::new(resource));
    }

    /// The place of a table.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<usize> {
        self.tables.iter().position(|table| {
            let resource = &table.resource;
            *resource.group == *group
                && *resource.plural == *plural
                && resource.versions.iter().any(|served| **served == *version)
        })
    }

    pub(crate) fn table_of_kind(&self, kind: &str) -> usize {
        let found =
            self.tables.iter().position(|table| *table.resource.kind == *kind && table.resource.typed.is_some());
        found.unwrap_or_else(|| panic!("{kind} is one of the kinds that every server has"))
    }

    pub(crate) fn get(&self, table: usize, key: &ObjectKey) -> Result<&Arc<Stored>, Fault> {
        let table = &self.tables[table];
        table
            .objects
            .get(key)
            .ok_or_else(|| Fault::NotFound { resource: table.resource.full_name(), name: key.name.to_string() })
    }

    /// Checks that an object can be served. Returns the place of its table.
    pub(crate) fn check(&self, object: &Value) -> Result<usize, ObjectError> {
        let text = |field: &'static str| object[field].as_str().ok_or(ObjectError::Missing(field)).map(str::to_owned);
        let (kind, version) = (text("kind")?, text("apiVersion")?);
        let name = object["metadata"]["name"].as_str().ok_or(ObjectError::Missing("metadata.name"))?.to_owned();
        let has = |table: &Table| {
            let resource = &table.resource;
            *resource.kind == *kind && resource.versions.iter().any(|served| resource.api_version(served) == *version)
        };
        let Some(table) = self.tables.iter().position(has) else {
            return Err(ObjectError::NotServed { kind, version });
        };
        if let Some(typed) = &self.tables[table].resource.typed {
            (typed.check)(object).map_err(|error| ObjectError::Malformed { kind, name, why: error.to_string() })?;
        }
        Ok(table)
    }

    /// Creates or replaces an object of the world. Returns its kind and key.
    pub(crate) fn apply(&mut self, mut object: Value) -> Result<(Arc<str>, ObjectKey), ObjectError> {
        write_numbers_as_quantities(&mut object);
        let table = self.check(&object)?;
        let resource = Arc::clone(&self.tables[table].resource);
        if &*resource.kind == "Pod" && !object["spec"]["schedulerName"].is_string() {
            object["spec"]["schedulerName"] = Value::from("default-scheduler");
        }
        let key = key_of(&resource, &object, "default");
        self.put(table, key.clone(), object, false);
        Ok((Arc::clone(&resource.kind), key))
    }

    /// Removes an object. Returns whether it was there.
    pub(crate) fn remove(&mut self, table: usize, key: &ObjectKey) -> bool {
        if !self.tables[table].objects.contains_key(key) {
            return false;
        }
        self.version += 1;
        let kept = self.limits.versions;
        self.tables[table].change(key.clone(), self.version, None, kept);
        true
    }

    /// Stores an object that has been checked, with the next version. UID and creation time remain those of the object
    /// that it replaces.
    pub(crate) fn put(&mut self, table: usize, key: ObjectKey, mut object: Value, is_created: bool) -> Arc<Value> {
        self.version += 1;
        let resource = Arc::clone(&self.tables[table].resource);
        let old = self.tables[table].objects.get(&key).cloned();
        object["apiVersion"] = Value::from(resource.api_version(&resource.versions[0]));
        object["kind"] = Value::from(&*resource.kind);
        if !object["metadata"].is_object() {
            object["metadata"] = Value::Object(Map::new());
        }
        let metadata = &mut object["metadata"];
        metadata["name"] = Value::from(&*key.name);
        if resource.is_namespaced {
            metadata["namespace"] = Value::from(&*key.namespace);
        }
        metadata["resourceVersion"] = Value::from(self.version.to_string());
        for field in ["uid", "creationTimestamp"] {
            if let Some(old) = &old {
                metadata[field] = old.value["metadata"][field].clone();
            }
        }
        if !metadata["uid"].is_string() {
            self.numbers += 1;
            metadata["uid"] = Value::from(format!("00000000-0000-4000-8000-{:012x}", self.numbers));
        }
        if !metadata["creationTimestamp"].is_string() {
            metadata["creationTimestamp"] = Value::from(self.now.to_string());
        }
        let text = Arc::from(object.to_string());
        let value = Arc::new(object);
        let is_created = old.map_or(is_created, |old| old.is_created);
        let stored = Stored { value: Arc::clone(&value), text, version: self.version, is_created };
        let kept = self.limits.versions;
        self.tables[table].change(key, self.version, Some(stored), kept);
        value
    }

    pub(crate) fn watches(&self) -> usize {
        self.tables.iter().map(Table::watches).sum()
    }

    pub(crate) fn note_unserved(&mut self, method: &str, path: &str) {
        let asked = (method.to_owned(), path.to_owned());
        if self.unserved.len() < MOST_UNSERVED || self.unserved.contains_key(&asked) {
            *self.unserved.entry(asked).or_default() += 1;
        }
    }

    pub(crate) fn unserved(&self) -> Vec<Unserved> {
        let row = |((method, path), times): (&(String, String), &u64)| Unserved {
            method: method.clone(),
            path: path.clone(),
            times: *times,
        };
        self.unserved.iter().map(row).collect()
    }
}

/// The key of an object. Its namespace is `default` if it states none.
pub(crate) fn key_of(resource: &Resource, object: &Value, default: &str) -> ObjectKey {
    let metadata = &object["metadata"];
    let namespace = match resource.is_namespaced {
        true => metadata["namespace"].as_str().filter(|text| !text.is_empty()).unwrap_or(default),
        false => "",
    };
    ObjectKey::new(namespace, metadata["name"].as_str().unwrap_or_default())
}

pub(crate) fn key_of_pod(pod: &Value) -> ObjectKey {
    let metadata = &pod["metadata"];
    let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    ObjectKey::new(text("namespace").unwrap_or("default"), text("name").unwrap_or_default())
}

/// In manifests, quantities can be numbers. The types of `k8s-openapi` know them as texts.
fn write_numbers_as_quantities(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(write_numbers_as_quantities),
        Value::Object(fields) => {
            for (name, value) in fields {
                let holds_quantities = matches!(
                    &**name,
                    "requests" | "limits" | "overhead" | "allocatable" | "capacity" | "hard" | "used"
                );
                match value {
                    Value::Object(amounts) if holds_quantities => {
                        for amount in amounts.values_mut().filter(|amount| amount.is_number()) {
                            *amount = json!(amount.to_string());
                        }
                        amounts.values_mut().for_each(write_numbers_as_quantities);
                    }
                    other => write_numbers_as_quantities(other),
                }
            }
        }
        _ => {}
    }
}
