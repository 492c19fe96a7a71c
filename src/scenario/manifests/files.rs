//! Inserts the objects of `files:` into `manifests:`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::super::options::Options;
use super::added::absolute;
use super::tell_unused;
use dryrack_manifest::{Kind, Manifests, Object};
use dryrack_objects::Seconds;
use dryrack_units::SimDuration;
use dryrack_yaml::{Entry, Fields, Node, Report, Span, Tree, text};

const FIELDS: [&str; 3] = ["path", "at", "duration"];
/// The value of `at` that takes the times at which objects were created.
const CREATED: &str = "created";

/// What the scenario says about the objects of one entry of `files:`.
struct Listed {
    at: Option<Arrives>,
    duration: Option<SimDuration>,
    /// The objects of the entry.
    objects: std::ops::Range<usize>,
}

enum Arrives {
    At(SimDuration),
    AsCreated,
}

/// Replaces `files:` by the objects in the files. Returns whether the scenario has that key. `is_made` says that nobody
/// wrote the scenario: then what would be said at its key `files` is said at the first object.
pub(in super::super) fn expand(
    tree: &mut Tree,
    folder: &Path,
    options: &Options,
    is_made: bool,
    report: &mut Report,
) -> bool {
    let Node::Map(entries) = &mut tree.node else { return false };
    let Some(at) = entries.iter().position(|entry| entry.key == "files") else { return false };
    let mut files = entries.remove(at);
    let items = match &files.value.node {
        Node::List(items) => items.as_slice(),
        Node::Scalar { .. } | Node::Map(_) => std::slice::from_ref(&files.value),
    };
    let mut manifests = Manifests::default();
    if let Some(added) = &options.added {
        manifests.give(absolute(&added.path), &added.text);
    }
    let mut listed = Vec::new();
    for item in items {
        listed.extend(entry(item, folder, &mut manifests, report));
    }
    manifests.follow_unread();
    let earliest = manifests.objects.iter().filter(|object| makes_pods(object)).filter_map(created).min();
    for entry in &listed {
        for object in &mut manifests.objects[entry.objects.clone()] {
            annotate(object, entry, earliest);
        }
    }
    if let Some(first) = manifests.objects.first().filter(|_| is_made) {
        (files.key_span, files.value.span) = (first.span, first.span);
    }
    tell_unused(&manifests.unused, options.tells_unused, files.key_span, report);
    let objects = manifests.objects.iter().map(tree_of);
    match entries.iter_mut().find(|entry| entry.key == "manifests").map(|entry| &mut entry.value.node) {
        Some(Node::List(own)) => {
            let own_items = std::mem::take(own);
            own.extend(objects.chain(own_items));
        }
        // It is not a list, which is reported when it is read.
        Some(_) => {}
        None => {
            let value = Tree { span: files.value.span, node: Node::List(objects.collect()) };
            entries.push(Entry { key: "manifests".to_string(), key_span: files.key_span, value });
        }
    }
    true
}

/// Reads `jobs/*.yaml`, or `{path: jobs/*.yaml, at: created, duration: 30m}`.
fn entry(item: &Tree, folder: &Path, manifests: &mut Manifests, report: &mut Report) -> Option<Listed> {
    let (mut at, mut duration) = (None, None);
    let path = match &item.node {
        Node::Map(_) => {
            let fields = Fields::read(item, "a manifest file", &FIELDS, report)?;
            at = match fields.get("at") {
                Some(tree) if tree.scalar() == Some(CREATED) => Some(Arrives::AsCreated),
                _ => fields.value("at", report).map(Arrives::At),
            };
            duration = fields.value("duration", report);
            fields.require("path", "jobs/*.yaml", report)?
        }
        Node::Scalar { .. } | Node::List(_) => item,
    };
    let typed = text(path, "the path of a manifest", report)?;
    let first = manifests.objects.len();
    manifests.read(typed, folder, Some(path.span), report);
    Some(Listed { at, duration, objects: first..manifests.objects.len() })
}

fn makes_pods(object: &Object) -> bool {
    object.kind == Kind::Pod || object.kind == Kind::QueuedWorkload || object.kind.is_controller()
}

/// Whether the pods of such an object usually end by themselves.
fn ends(object: &Object) -> bool {
    matches!(object.kind, Kind::Pod | Kind::Job | Kind::JobSet | Kind::QueuedWorkload)
}

fn created(object: &Object) -> Option<Seconds> {
    let text = object.value.get("metadata")?.get("creationTimestamp")?.as_str()?;
    Seconds::parse(text).ok()
}

/// Adds the annotations that the entry means, unless the object has its own.
fn annotate(object: &mut Object, entry: &Listed, earliest: Option<Seconds>) {
    if !makes_pods(object) {
        return;
    }
    let at = match entry.at {
        None => None,
        Some(Arrives::At(at)) => Some(at),
        Some(Arrives::AsCreated) => created(object)
            .zip(earliest)
            .map(|(own, earliest)| SimDuration::saturating_from_secs(u64::try_from(own.0 - earliest.0).unwrap_or(0))),
    };
    let duration = entry.duration.filter(|_| ends(object));
    let values = [("dryrack/at", at), ("dryrack/duration", duration)];
    for (key, value) in values.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        let metadata = object.value.entry("metadata").or_insert_with(|| json!({}));
        let annotations = metadata.as_object_mut().map(|map| map.entry("annotations").or_insert_with(|| json!({})));
        if let Some(Value::Object(annotations)) = annotations {
            annotations.entry(key).or_insert_with(|| Value::from(value.to_string()));
        }
    }
}

/// The object as a tree. Each part has the place of the object, except for the names of other objects and
/// numbers of pods.
fn tree_of(object: &Object) -> Tree {
    let mut whole = Map::new();
    whole.insert("apiVersion".to_string(), Value::from(object.api_version.as_str()));
    whole.insert("kind".to_string(), Value::from(object.kind.name()));
    whole.extend(object.value.clone());
    part(&Value::Object(whole), object.span, object)
}

/// Whether the tree is one of `tree_of`, whose faults are reported already: all its keys have the same place.
pub(super) fn is_of_file(tree: &Tree) -> bool {
    let Node::Map(entries) = &tree.node else { return false };
    matches!(&entries[..], [one, other, ..] if one.key_span == other.key_span)
}

fn part(value: &Value, span: Span, object: &Object) -> Tree {
    let scalar = |text: String, quoted: bool| Node::Scalar { text, quoted };
    let node = match value {
        Value::Null => scalar(String::new(), false),
        Value::Bool(is) => scalar(is.to_string(), false),
        Value::Number(number) => scalar(number.to_string(), false),
        Value::String(text) => scalar(text.clone(), true),
        Value::Array(items) => Node::List(items.iter().map(|item| part(item, object.span, object)).collect()),
        Value::Object(fields) => {
            let entry = |(key, value): (&String, &Value)| {
                let own = match value {
                    Value::String(name) => object.place_of(key, name),
                    Value::Number(number) => object.place_of(key, &number.to_string()),
                    _ => object.span,
                };
                Entry { key: key.clone(), key_span: object.span, value: part(value, own, object) }
            };
            Node::Map(fields.iter().map(entry).collect())
        }
    };
    Tree { span, node }
}
