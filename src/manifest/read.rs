//! Reads objects from files: YAML with several documents, JSON, and lists of objects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use dryrack_yaml::{Node, Report, SourceId, Span, Tree, parse_documents, read_foreign_text};

use crate::clean::{Writer, clean};
use crate::fields::ANNOTATIONS;
use crate::files::{Found, find};
use crate::kinds::{KINDS, Kind, Known, group_of, is_group, is_unfollowed, is_without_meaning, known};
use crate::refused;
use crate::unread::Unread;
use crate::unused::Unused;
use crate::versions;

/// An object with only the data that matters to a rehearsal.
#[derive(Clone, Debug)]
pub struct Object {
    pub kind: Kind,
    pub api_version: String,
    /// The object in its JSON form, without `apiVersion` and `kind`.
    pub value: Map<String, Value>,
    /// The place of its first key.
    pub span: Span,
    /// The places of names of other objects and of numbers of pods, with the key and the value.
    pub places: Vec<(&'static str, String, Span)>,
}

/// The keys whose values name other objects that may be missing.
const NAMING: [&str; 3] = ["priorityClassName", "runtimeClassName", "resourceClaimTemplateName"];

/// The key of a ConfigMap with the configuration of Kueue's manager.
const CONFIGURATION: &str = "controller_manager_config.yaml";

/// The keys whose values say how many pods a controller makes.
const COUNTS: [&str; 5] = ["completions", "count", "parallelism", "replicas", "size"];

impl Object {
    /// The place where the object names another one under this key, or else the place of the object.
    pub fn place_of(&self, key: &str, name: &str) -> Span {
        let is_it = |place: &&(&str, String, Span)| place.0 == key && place.1 == name;
        self.places.iter().find(is_it).map_or(self.span, |(.., span)| *span)
    }

    /// The place of the largest number of pods that the object states, or else the place of the object.
    pub(crate) fn place_of_most(&self) -> Span {
        let counts = self.places.iter().filter(|(key, ..)| COUNTS.contains(key));
        let count = |(_, number, _): &&(&str, String, Span)| number.parse::<u64>().unwrap_or(0);
        counts.max_by_key(count).map_or(self.span, |(.., span)| *span)
    }

    pub(crate) fn metadata(&self, key: &str) -> &str {
        self.value.get("metadata").and_then(|metadata| metadata.get(key)).and_then(Value::as_str).unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> &str {
        let annotations = self.value.get("metadata").and_then(|metadata| metadata.get("annotations"));
        annotations.and_then(|all| all.get(key)).and_then(Value::as_str).unwrap_or_default()
    }

    /// The object with only those annotations that dryrack reads. Those of a running cluster can tell secrets.
    pub fn without_foreign_annotations(&self) -> Object {
        let mut value = Value::Object(self.value.clone());
        keep_own_annotations(&mut value);
        match value {
            Value::Object(value) => Object { value, ..self.clone() },
            _ => self.clone(),
        }
    }

    /// Whether the object states only what changes of an earlier one.
    pub(crate) fn is_patch(&self) -> bool {
        self.annotation("dryrack/patch") == "true"
    }

    pub fn name(&self) -> &str {
        self.metadata("name")
    }

    /// The namespace, which is `default` if none is stated. Empty for an object without a namespace.
    pub fn namespace(&self) -> &str {
        match (self.metadata("namespace"), self.kind.known().is_namespaced) {
            ("", true) => "default",
            (stated, true) => stated,
            (_, false) => "",
        }
    }
}

/// The objects of files, in the order of the files.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    pub objects: Vec<Object>,
    pub unused: Unused,
    /// The place of each object, so that none is given twice.
    known: BTreeMap<(Kind, String, String), Span>,
    files: BTreeSet<PathBuf>,
    /// The texts of files that were read before.
    given: BTreeMap<PathBuf, Arc<str>>,
    writer: Writer,
    /// The objects of kinds that are not read and that have owners.
    pub(crate) unread: Vec<Unread>,
}

impl Manifests {
    /// Reads the files that a path, a pattern or a folder names, relative to `folder`. A file that was read before is
    /// not read again. All faults are reported.
    pub fn read(&mut self, typed: &str, folder: &Path, asked: Option<Span>, report: &mut Report) {
        for found in find(typed, folder, asked, report) {
            let own = std::fs::canonicalize(&found.path).unwrap_or_else(|_| found.path.clone());
            if self.files.insert(own) {
                self.file(&found, asked, report);
            }
        }
    }

    /// Gives the text of a file, which is then not read.
    pub fn give(&mut self, path: PathBuf, text: &Arc<str>) {
        self.given.insert(path, Arc::clone(text));
    }

    fn file(&mut self, found: &Found, asked: Option<Span>, report: &mut Report) {
        let read = match self.given.get(&found.path) {
            Some(text) => {
                Some((report.add_source(found.path.display().to_string(), Arc::clone(text)), Arc::clone(text)))
            }
            None => read_foreign_text(&found.path, asked, report),
        };
        let Some((source, text)) = read else { return };
        self.text(source, &text, found.is_named, report);
    }

    /// Reads a text. If `must_be_manifest`, a document that is not an object of the API is a fault.
    pub fn text(&mut self, source: SourceId, text: &str, must_be_manifest: bool, report: &mut Report) {
        let Some(documents) = parse_documents(text, source, report) else {
            if let Some(at) = text.find("{{") {
                let help = "render it first, for example with `helm template`";
                report.error_with_help(source.span(at, at + 2), "this is a template, not a manifest", help);
            }
            return;
        };
        if documents.is_empty() && must_be_manifest {
            report.warning(source.start(), "the file has no object", "remove it, or write a manifest into it");
        }
        for document in &documents {
            let is_object = document.get("kind").is_some() || document.get("apiVersion").is_some();
            match (is_object && !is_of_packager(document)) || must_be_manifest {
                true => self.tree(document, report),
                false => self.unused.kind("files that are not manifests"),
            }
        }
    }

    /// Reads one object that was read from a file before, and whose faults are reported.
    pub fn tree_again(&mut self, tree: &Tree, report: &mut Report) {
        self.tree_of(Writer::Again, tree, report);
    }

    /// Reads one object that is made of dryrack's own words.
    pub fn words(&mut self, tree: &Tree, report: &mut Report) {
        self.tree_of(Writer::Words, tree, report);
    }

    fn tree_of(&mut self, writer: Writer, tree: &Tree, report: &mut Report) {
        self.writer = writer;
        self.tree(tree, report);
        self.writer = Writer::Person;
    }

    /// The place where the object at `span` names another one under this key.
    pub fn place_of(&self, span: Span, key: &str, name: &str) -> Span {
        self.objects.iter().find(|object| object.span == span).map_or(span, |object| object.place_of(key, name))
    }

    /// Reads one object, or a list of objects.
    pub fn tree(&mut self, tree: &Tree, report: &mut Report) {
        self.item(tree, ("", ""), report);
    }

    fn item(&mut self, tree: &Tree, listed: (&str, &str), report: &mut Report) {
        let Node::Map(entries) = &tree.node else {
            let message = format!("expected an object of the Kubernetes API, found {}", tree.kind());
            report.error_with_help(tree.span.start(), message, "write `apiVersion:` and `kind:`");
            return;
        };
        let place = entries.first().map_or(tree.span.start(), |entry| entry.key_span);
        let field =
            |key: &str, listed: &str| tree.get(key).and_then(Tree::scalar).map_or(listed.to_string(), str::to_string);
        let (version, kind) = (field("apiVersion", listed.0), field("kind", listed.1));
        if let Some(of) = kind.strip_suffix("List").filter(|of| of.is_empty() || tree.get("items").is_some()) {
            let listed = if of.is_empty() { ("", "") } else { (version.as_str(), of) };
            self.items(tree, listed, place, report);
            return;
        }
        for (key, found, example) in [("apiVersion", &version, "batch/v1"), ("kind", &kind, "Job")] {
            if found.is_empty() {
                let message = format!("the object lacks `{key}`");
                report.error_with_help(place, message, format!("add a line such as `{key}: {example}`"));
            }
        }
        if version.is_empty() || kind.is_empty() {
            return;
        }
        match known(group_of(&version), &kind) {
            Some(known) if is_newer(known, &version) => {
                self.not_followed(&format!("{version} {kind}"), tree, place, report);
            }
            Some(known) if !has_version(known, &version) => {
                let message = format!("`{kind}` is not a kind of `{version}`");
                let span = tree.get("apiVersion").map_or(place, |value| value.span);
                report.error_with_help(span, message, format!("write `{}`", usual_version(known)));
            }
            Some(known) => self.object(tree, known, version, place, report),
            None => self.other(tree, &version, &kind, place, report),
        }
    }

    /// The objects of a list.
    fn items(&mut self, tree: &Tree, listed: (&str, &str), place: Span, report: &mut Report) {
        let help = "write each object behind `- `, as `kubectl get -o yaml` does";
        match tree.get("items") {
            Some(Tree { node: Node::List(items), .. }) => items.iter().for_each(|item| self.item(item, listed, report)),
            Some(items) if !items.is_nothing() => {
                let message = format!("expected a list of objects as `items`, found {}", items.kind());
                report.error_with_help(items.span, message, help);
            }
            Some(_) => {}
            None => report.error_with_help(place, "the list lacks `items`", help),
        }
    }

    /// An object of a kind that is not read is counted or named, unless the kind is misspelt.
    fn other(&mut self, tree: &Tree, version: &str, kind: &str, place: Span, report: &mut Report) {
        let group = group_of(version);
        let is_meaningless = is_without_meaning(group, kind);
        let is_other = is_meaningless || is_unfollowed(kind);
        let span = |key: &str| tree.get(key).map_or(tree.span.start(), |value| value.span);
        if !is_other && is_group(group) {
            let of_group = KINDS.iter().filter(|known| known.group == group).map(|known| known.name);
            if let Some(near) = dryrack_nearest::nearest(kind, of_group) {
                let message = format!("`{kind}` is not a kind of `{version}`");
                report.error_with_help(span("kind"), message, format!("did you mean `{near}`?"));
                return;
            }
        }
        // The right kind with the group of another one.
        let right = KINDS.iter().find(|known| known.name == kind && known.group != group);
        if let Some(right) = right.filter(|_| !is_other && is_likely_slip(group)) {
            let message = format!("`{kind}` is not a kind of `{version}`");
            report.error_with_help(span("apiVersion"), message, format!("write `{}`", usual_version(right)));
            return;
        }
        if kind == "ConfigMap" && self.configuration(tree, place, report) {
            return;
        }
        if is_meaningless {
            self.unused.kind(&if group.is_empty() { kind.to_string() } else { format!("{group} {kind}") });
            return;
        }
        // A kind of another group can have the name of one that is followed, such as Volcano's Job.
        let group = right.map_or(String::new(), |_| format!("{group} "));
        self.unread.extend(Unread::of(tree, kind));
        self.not_followed(&format!("{group}{kind}"), tree, place, report);
    }

    /// Reads the configuration of Kueue's manager in a ConfigMap. Returns whether the ConfigMap has one.
    fn configuration(&mut self, tree: &Tree, place: Span, report: &mut Report) -> bool {
        let data = tree.get("data").and_then(|data| data.get(CONFIGURATION));
        let Some(text) = data.and_then(Tree::scalar) else { return false };
        let name = format!("{} ({CONFIGURATION})", report.place(place).0);
        let source = report.add_source(name, text);
        self.text(source, text, true, report);
        true
    }

    /// Names an object that dryrack does not follow.
    fn not_followed(&mut self, kind: &str, tree: &Tree, place: Span, report: &Report) {
        let name = tree.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Tree::scalar);
        let name = name.map_or(String::new(), |name| format!(" {name}"));
        let (file, line, _) = report.place(place);
        self.unused.object(format!("{kind}{name} ({file}:{line})"), place);
    }

    fn object(&mut self, tree: &Tree, known: &'static Known, api_version: String, span: Span, report: &mut Report) {
        // The API server does not look into the pods of Kueue's workloads.
        let writer = match (self.writer, known.kind) {
            (Writer::Person, Kind::QueuedWorkload) => Writer::Words,
            (writer, _) => writer,
        };
        let cleaned = clean(tree, known.name, known.fields, writer, report, &mut self.unused);
        let Some(value) = cleaned else { return };
        if let (Some(metadata), Writer::Person) = (tree.get("metadata"), self.writer) {
            let is_label = matches!(known.kind, Kind::Namespace | Kind::Service | Kind::LeaderWorkerSet);
            refused::name(metadata, is_label, report);
        }
        if self.writer == Writer::Person {
            versions::check(known.kind, &api_version, tree, report);
        }
        let mut places = Vec::new();
        find_places(tree, &mut places);
        let mut object = Object { kind: known.kind, api_version, value, span, places };
        versions::to_current(&mut object);
        let name = object.name().to_string();
        if name.is_empty() {
            let is_generated = !object.metadata("generateName").is_empty();
            let is_told = tree.get("metadata").is_some_and(|metadata| metadata.get("name").is_some());
            if !is_generated && !is_told && object.kind != Kind::Configuration {
                let message = format!("{} lacks `metadata.name`", known.fields.what);
                report.error_with_help(span, message, "add `metadata: {name: …}`");
                return;
            }
        } else {
            // An object of Kueue may change at a later time.
            let at = if object.kind.is_of_quota() { object.annotation("dryrack/at") } else { "" };
            let within =
                if at.is_empty() { object.namespace().to_string() } else { format!("{} {at}", object.namespace()) };
            let key = (object.kind, within, name);
            if let Some(first) = self.known.get(&key) {
                let (file, line, _) = report.place(*first);
                let message = format!("{} `{}` is given twice", known.name, key.2);
                report.error_with_help(span, message, format!("it is given at {file}:{line} already"));
                return;
            }
            self.known.insert(key, span);
        }
        self.objects.push(object);
    }
}

/// Whether a document of a folder is for Helm or kustomize: the `Chart.yaml` of a chart, or a `kustomization.yaml`.
fn is_of_packager(document: &Tree) -> bool {
    let text = |key: &str| document.get(key).and_then(Tree::scalar).unwrap_or_default();
    let is_chart = matches!(text("apiVersion"), "v1" | "v2") && document.get("kind").is_none();
    let is_of_kustomize = matches!(text("kind"), "Kustomization" | "Component")
        && (document.get("apiVersion").is_none() || group_of(text("apiVersion")) == "kustomize.config.k8s.io");
    (is_chart && document.get("name").is_some() && document.get("version").is_some()) || is_of_kustomize
}

/// Keeps the annotations that dryrack reads, in the metadata of an object and of the templates in it.
fn keep_own_annotations(value: &mut Value) {
    if let Some(Value::Object(annotations)) = value.pointer_mut("/metadata/annotations") {
        annotations.retain(|key, _| ANNOTATIONS.contains(&key.as_str()));
    }
    match value {
        Value::Object(map) => map.values_mut().for_each(keep_own_annotations),
        Value::Array(items) => items.iter_mut().for_each(keep_own_annotations),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Finds the names of other objects, and numbers of pods.
fn find_places(tree: &Tree, places: &mut Vec<(&'static str, String, Span)>) {
    match &tree.node {
        Node::Map(entries) => {
            for entry in entries {
                let key = NAMING.iter().chain(&COUNTS).find(|key| **key == entry.key);
                match (key, entry.value.scalar()) {
                    (Some(key), Some(name)) => places.push((key, name.to_string(), entry.value.span)),
                    _ => find_places(&entry.value, places),
                }
            }
        }
        Node::List(items) => items.iter().for_each(|item| find_places(item, places)),
        Node::Scalar { .. } => {}
    }
}

/// Whether the group is one of the API's own, so that another kind of it cannot exist.
fn is_likely_slip(group: &str) -> bool {
    is_group(group) || matches!(group, "extensions" | "core" | "autoscaling" | "networking.k8s.io")
}

fn has_version(known: &Known, api_version: &str) -> bool {
    let version = api_version.rsplit('/').next();
    known.versions.split(' ').any(|served| Some(served) == version)
}

/// Whether a later release of the API has this version of a kind that is not stable yet.
fn is_newer(known: &Known, api_version: &str) -> bool {
    let usual = stability(known.versions.split(' ').next().unwrap_or_default());
    let typed = stability(api_version.rsplit('/').next().unwrap_or_default());
    usual < typed && usual.is_some_and(|(is_stable, ..)| !is_stable)
}

/// The order of a version such as `v1beta2`: whether it is stable, whether it is beta, and its two numbers.
fn stability(version: &str) -> Option<(bool, bool, u32, u32)> {
    let version = version.strip_prefix('v')?;
    let split = version.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(version.len());
    let (major, stage) = (version[..split].parse().ok()?, &version[split..]);
    match (stage.strip_prefix("alpha"), stage.strip_prefix("beta")) {
        (Some(minor), _) => Some((false, false, major, minor.parse().ok()?)),
        (_, Some(minor)) => Some((false, true, major, minor.parse().ok()?)),
        _ => stage.is_empty().then_some((true, false, major, 0)),
    }
}

fn usual_version(known: &Known) -> String {
    let usual = known.versions.split(' ').next().unwrap_or_default();
    if known.group.is_empty() { usual.to_string() } else { format!("{}/{usual}", known.group) }
}
