//! Objects that the program creates, changes and deletes.

use std::sync::Arc;

use serde_json::Value;

use super::fault::Fault;
use super::heard::Heard;
use super::key::ObjectKey;
use super::resource::Resource;
use super::store::{Store, key_of};
use super::table::Stored;

/// How the body of a `PATCH` changes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 7386.
    Merge,
    /// Lists of items with a key are merged by it, such as conditions by their type.
    Strategic,
}

/// The part of an object that a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
}

/// The namespace of the pods by which the driver sees that the program is idle.
pub(crate) const MARKERS: &str = "dryrack-idle";

/// The kinds that the world alone creates and deletes, and whose `spec` it alone changes.
const OF_THE_WORLD: [&str; 2] = ["Pod", "Node"];

pub(crate) fn invalid(resource: &Resource, key: &ObjectKey, why: impl Into<String>) -> Fault {
    Fault::Invalid { resource: resource.full_name(), name: key.to_string(), why: why.into() }
}

pub(crate) fn conflict(resource: &Resource, key: &ObjectKey, why: impl Into<String>) -> Fault {
    Fault::Conflict { resource: resource.full_name(), name: key.name.to_string(), why: why.into() }
}

/// Checks that an object is of the kind that the path names.
fn check(resource: &Resource, object: &Value) -> Result<(), Fault> {
    if !object.is_object() {
        return Err(Fault::BadRequest("the body of the request is no object".to_owned()));
    }
    if let Some(kind) = object["kind"].as_str().filter(|kind| **kind != *resource.kind) {
        return Err(Fault::BadRequest(format!("the object has the kind {kind}; {} was expected", resource.kind)));
    }
    if let Some(version) = object["apiVersion"].as_str()
        && !resource.versions.iter().any(|served| resource.api_version(served) == version)
    {
        return Err(Fault::BadRequest(format!(
            "the API version in the data ({version}) is not served for {}",
            resource.kind
        )));
    }
    let Some(typed) = &resource.typed else { return Ok(()) };
    (typed.check)(object).map_err(|error| Fault::BadRequest(format!("{} cannot be read: {error}", resource.kind)))
}

pub(crate) fn create(
    store: &mut Store,
    table: usize,
    namespace: Option<&str>,
    mut object: Value,
) -> Result<Value, Fault> {
    let resource = Arc::clone(&store.tables[table].resource);
    // The version of the path may differ from that in which objects are kept.
    check(&resource, &object)?;
    if OF_THE_WORLD.contains(&&*resource.kind) {
        return Err(Fault::Forbidden(format!("a {} is created by the rehearsal alone", resource.kind)));
    }
    if object["metadata"]["name"].as_str().is_none_or(str::is_empty)
        && let Some(start) = object["metadata"]["generateName"].as_str()
    {
        let name = format!("{start}{:05}", store.version);
        object["metadata"]["name"] = Value::from(name);
    }
    let key = key_of(&resource, &object, namespace.unwrap_or("default"));
    if key.name.is_empty() {
        return Err(invalid(&resource, &key, "metadata.name: Required value: name or generateName is required"));
    }
    if resource.is_namespaced && namespace.is_some_and(|namespace| *namespace != *key.namespace) {
        return Err(Fault::BadRequest(
            "the namespace of the provided object does not match that of the request".to_owned(),
        ));
    }
    if store.tables[table].objects.contains_key(&key) {
        return Err(Fault::AlreadyExists { resource: resource.full_name(), name: key.name.to_string() });
    }
    if store.tables[table].created >= store.limits.created {
        make_room(store, table, &resource)?;
    }
    let value = store.put(table, key.clone(), object, true);
    note(store, &resource, key, &value);
    Ok((*value).clone())
}

/// Removes the oldest event. Other objects are not removed for new ones.
fn make_room(store: &mut Store, table: usize, resource: &Resource) -> Result<(), Fault> {
    let found = &store.tables[table];
    let of_client = found.objects.iter().filter(|(_, stored)| stored.is_created);
    let oldest = of_client.min_by_key(|(_, stored)| stored.version).map(|(key, _)| key.clone());
    match oldest {
        Some(key) if &*resource.kind == "Event" => {
            store.remove(table, &key);
            Ok(())
        }
        _ => Err(Fault::TooMany(format!("a client may create at most {} {}", store.limits.created, resource.plural))),
    }
}

/// Events and leases are no decisions.
fn note(store: &mut Store, resource: &Resource, key: ObjectKey, object: &Arc<Value>) {
    if !matches!(&*resource.kind, "Event" | "Lease") {
        store.heard.push(Heard::Wrote { kind: Arc::clone(&resource.kind), key, object: Arc::clone(object) });
    }
}

/// Checks that a request means this object at this version.
pub(crate) fn check_preconditions(
    resource: &Resource,
    key: &ObjectKey,
    old: &Stored,
    stated: &Value,
) -> Result<(), Fault> {
    let uid = old.value["metadata"]["uid"].as_str().unwrap_or_default();
    if let Some(asked) = stated["uid"].as_str().filter(|asked| !asked.is_empty() && *asked != uid) {
        let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {uid}");
        return Err(conflict(resource, key, why));
    }
    let version = old.version.to_string();
    if stated["resourceVersion"].as_str().is_some_and(|asked| !asked.is_empty() && asked != version) {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        return Err(conflict(resource, key, why));
    }
    Ok(())
}

pub(crate) fn update(
    store: &mut Store,
    table: usize,
    key: &ObjectKey,
    part: Part,
    object: Value,
) -> Result<Value, Fault> {
    let resource = Arc::clone(&store.tables[table].resource);
    check(&resource, &object)?;
    let stated = key_of(&resource, &object, &key.namespace);
    if stated != *key {
        let why = format!("the name of the object ({stated}) does not match the name on the URL ({key})");
        return Err(Fault::BadRequest(why));
    }
    let old = Arc::clone(store.get(table, key)?);
    check_preconditions(&resource, key, &old, &object["metadata"])?;
    let states_condition = super::pods::states_condition(&object);
    replace(store, table, key, part, &old, object, states_condition)
}

/// Stores the changed part of an object, and notes what it means.
fn replace(
    store: &mut Store,
    table: usize,
    key: &ObjectKey,
    part: Part,
    old: &Stored,
    mut object: Value,
    states_condition: bool,
) -> Result<Value, Fault> {
    let resource = Arc::clone(&store.tables[table].resource);
    let mut new = (*old.value).clone();
    match part {
        Part::Status => new["status"] = object["status"].take(),
        Part::Main => {
            let of_world = OF_THE_WORLD.contains(&&*resource.kind);
            if of_world && object["spec"] != old.value["spec"] {
                return Err(invalid(&resource, key, "spec: Forbidden: it is changed by the rehearsal alone"));
            }
            if of_world {
                for field in ["labels", "annotations", "finalizers"] {
                    new["metadata"][field] = object["metadata"][field].take();
                }
            } else {
                let deleted = old.value["metadata"]["deletionTimestamp"].clone();
                new = object;
                new["metadata"]["deletionTimestamp"] = deleted;
            }
        }
    }
    drop_nulls(&mut new);
    if &*resource.kind == "Pod" && part == Part::Status {
        super::pods::note_status(store, key, states_condition, &old.value, &mut new);
        if *key.namespace == *MARKERS {
            // Nobody learns of it, so that a marker is never tried again.
            return Ok(new);
        }
        return Ok((*store.put(table, key.clone(), new, false)).clone());
    }
    let value = store.put(table, key.clone(), new, false);
    note(store, &resource, key.clone(), &value);
    Ok((*value).clone())
}

/// An absent field and a null are the same.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

pub(crate) fn patch(
    store: &mut Store,
    table: usize,
    key: &ObjectKey,
    part: Part,
    kind: PatchKind,
    mut patch: Value,
) -> Result<Value, Fault> {
    let resource = Arc::clone(&store.tables[table].resource);
    if !patch.is_object() {
        return Err(Fault::BadRequest("the patch is no object".to_owned()));
    }
    let old = Arc::clone(store.get(table, key)?);
    check_preconditions(&resource, key, &old, &patch["metadata"])?;
    let states_condition = super::pods::states_condition(&patch);
    let mut object = (*old.value).clone();
    match kind {
        PatchKind::Merge => merge(&mut object, patch),
        PatchKind::Strategic => {
            let Some(typed) = &resource.typed else {
                let format = "strategic merge of a custom object".to_owned();
                return Err(Fault::UnsupportedMediaType(format, "application/merge-patch+json"));
            };
            prepare(&mut object, &mut patch).map_err(|why| invalid(&resource, key, why))?;
            let cannot = |error: serde_json::Error| Fault::BadRequest(format!("the patch cannot be read: {error}"));
            if part == Part::Main && OF_THE_WORLD.contains(&&*resource.kind) && patch.get("spec").is_none() {
                let spec = object["spec"].clone();
                object = (typed.merge)(object, patch).map_err(cannot)?;
                object["spec"] = spec;
            } else {
                object = (typed.merge)(object, patch).map_err(cannot)?;
            }
        }
    }
    check(&resource, &object)?;
    if key_of(&resource, &object, &key.namespace) != *key {
        return Err(invalid(&resource, key, "metadata.name: Invalid value: field is immutable"));
    }
    replace(store, table, key, part, &old, object, states_condition)
}

/// RFC 7386.
fn merge(base: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *base = patch;
        return;
    };
    if !base.is_object() {
        *base = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = base.as_object_mut() else { return };
    for (name, value) in patch {
        match value {
            Value::Null => {
                fields.remove(&name);
            }
            value => merge(fields.entry(name).or_insert(Value::Null), value),
        }
    }
}

/// Whether a patch means this item of a list: they have the same type, name or UID.
fn is_same_item(one: &Value, other: &Value) -> bool {
    ["type", "name", "uid"].iter().any(|key| one.get(key).is_some_and(|value| Some(value) == other.get(key)))
}

/// Removes from the base what the patch sets to null, and from the patch the directives about the order of lists.
fn prepare(base: &mut Value, patch: &mut Value) -> Result<(), String> {
    let Some(fields) = patch.as_object_mut() else { return Ok(()) };
    fields.retain(|name, _| !name.starts_with("$setElementOrder/") && name != "$retainKeys");
    if let Some(name) = fields.keys().find(|name| name.starts_with('$')) {
        return Err(format!("the directive {name} of a strategic merge is not served"));
    }
    let nulls: Vec<String> = fields.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name.clone()).collect();
    for name in nulls {
        fields.remove(&name);
        if let Some(base) = base.as_object_mut() {
            base.remove(&name);
        }
    }
    for (name, value) in fields {
        match value {
            Value::Array(items) => {
                let mut others = base.get_mut(name.as_str()).and_then(Value::as_array_mut);
                for item in items {
                    let is_same = |other: &&mut Value| is_same_item(other, item);
                    let same = others.as_mut().and_then(|others| others.iter_mut().find(is_same));
                    let Some(same) = same else {
                        prepare(&mut Value::Null, item)?;
                        continue;
                    };
                    prepare(same, item)?;
                    // The types take a missing field for an empty one, so each item is made whole.
                    let mut whole = same.clone();
                    merge(&mut whole, item.take());
                    *item = whole;
                }
            }
            value => match base.get_mut(name.as_str()) {
                Some(base) => prepare(base, value)?,
                None => prepare(&mut Value::Null, value)?,
            },
        }
    }
    Ok(())
}

pub(crate) fn delete(store: &mut Store, table: usize, key: &ObjectKey, options: &Value) -> Result<Value, Fault> {
    let resource = Arc::clone(&store.tables[table].resource);
    let old = Arc::clone(store.get(table, key)?);
    check_preconditions(&resource, key, &old, &options["preconditions"])?;
    if &*resource.kind == "Pod" {
        return Ok(super::pods::evict(store, table, key, &old, options));
    }
    if !old.is_created {
        let why = format!("{} {:?} is deleted by the rehearsal alone", resource.full_name(), &*key.name);
        return Err(Fault::Forbidden(why));
    }
    store.remove(table, key);
    Ok((*old.value).clone())
}
