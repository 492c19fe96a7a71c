//! Kubernetes clusters: dumps of `kubectl get -o json`, or the answers of a running cluster.
//!
//! The import keeps the objects that matter to a rehearsal, with only the fields that matter, and leaves out what has
//! ended. Pods keep their nodes, ages and owners.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dryrack_manifest::{Controller, Kind, Manifests, NewNames, Object, text};
use dryrack_scenario::{Options, check};
use dryrack_units::counted;
use dryrack_yaml::{Diagnostics, Report, scalar};

use super::imported::{Names, SCENARIO};

/// The files to write. The scenario comes last, so that all files that it names exist when it does.
#[derive(Debug)]
pub struct ImportedCluster {
    pub files: Vec<(String, String)>,
    /// The table of names, if the names were replaced.
    pub names: Option<Vec<[String; 3]>>,
    /// What was left out, and warnings.
    pub notes: Vec<String>,
    /// The contents of the scenario, such as `2 nodes`.
    pub holds: Vec<String>,
}

/// Where the objects come from.
#[derive(Debug)]
pub enum ClusterSource<'s> {
    /// Files, folders and patterns.
    Paths(&'s [PathBuf]),
    /// Texts, each with a name for messages.
    Texts(&'s [(String, String)]),
}

/// How long the rehearsal of an imported cluster is, unless the owner changes it.
const UNTIL: &str = "1h";

/// Reads the objects of a cluster. The error contains every fault.
pub fn import_kubernetes(source: &ClusterSource<'_>, names: Names) -> Result<ImportedCluster, Diagnostics> {
    let (mut manifests, mut report) = (Manifests::default(), Report::default());
    match source {
        ClusterSource::Paths(paths) => {
            paths.iter().for_each(|path| manifests.read(&path.to_string_lossy(), Path::new(""), None, &mut report));
        }
        ClusterSource::Texts(texts) => {
            for (name, text) in *texts {
                let source = report.add_source(name.as_str(), text.as_str());
                manifests.text(source, text, true, &mut report);
            }
        }
    }
    let cluster = manifests.cluster(&mut report);
    if manifests.objects.is_empty() && !report.has_errors() {
        let place = report.add_source("input", "").start();
        let help = "write `kubectl get nodes,pods -A -o json` to a file, and name it";
        report.error_with_help(place, "these files have no nodes, pods or other objects that a rehearsal uses", help);
    }
    let current: Vec<Object> = manifests.current().map(Object::without_foreign_annotations).collect();
    let new = (names == Names::Numbered).then(|| NewNames::of(&current));
    let help = "compare the whole value instead, or leave the object out: a part of a replaced name would show the name, \
                and would not fit the new one";
    for (place, message) in new.iter().flat_map(|new| new.untranslatable(&current)) {
        report.error_with_help(place, message, help);
    }
    let has_errors = report.has_errors();
    let diagnostics = report.finish();
    if has_errors {
        return Err(diagnostics);
    }
    let bound = cluster.pods.iter().filter(|stated| stated.pod.spec.node_name.is_some()).count();
    let makes_pods =
        |controller: &&Controller| controller.is_suspended || controller.sets.iter().any(|set| !set.numbers.is_empty());
    let with_pods = cluster.controllers.iter().filter(makes_pods).count();
    let holds = vec![
        counted(cluster.nodes.len(), "node"),
        format!("{} ({bound} on nodes)", counted(cluster.pods.len(), "pod")),
        format!("{} with pods to make", counted(with_pods, "controller")),
    ];
    let row = |(what, old, name): (&str, &str, &str)| [what, old, name].map(str::to_string);
    let table = new.as_ref().map(|new| new.table().map(row).collect());
    let objects = match &new {
        Some(new) => current.iter().map(|object| new.apply(object)).collect(),
        None => current,
    };
    let mut files = grouped(&objects);
    files.push((SCENARIO.to_string(), scenario(&files, &holds)));
    let mut notes: Vec<String> = diagnostics.iter().map(|warning| warning.message.clone()).collect();
    notes.extend(manifests.unused.unfollowed_objects().map(|(note, _)| note));
    notes.extend(manifests.unused.notes());
    let imported = ImportedCluster { files, names: table, notes, holds };
    imported.checked()
}

/// The file for objects of a kind.
fn file_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Node => "nodes.yaml",
        Kind::Pod => "pods.yaml",
        Kind::DeviceClass | Kind::Slice | Kind::Claim | Kind::ClaimTemplate => "devices.yaml",
        Kind::Topology
        | Kind::Flavor
        | Kind::Cohort
        | Kind::ClusterQueue
        | Kind::LocalQueue
        | Kind::WorkloadPriorityClass
        | Kind::Configuration => "queues.yaml",
        Kind::Workload | Kind::QueuedWorkload => "workloads.yaml",
        _ if kind.is_controller() => "workloads.yaml",
        _ => "cluster.yaml",
    }
}

/// The files with the objects, in the order of kinds and, within a kind, of the input.
fn grouped(objects: &[Object]) -> Vec<(String, String)> {
    let mut groups: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
    objects.iter().for_each(|object| groups.entry(file_of(object.kind)).or_default().push(object));
    let file = |(name, mut objects): (&str, Vec<&Object>)| {
        objects.sort_by_key(|object| object.kind);
        (name.to_string(), text(objects))
    };
    groups.into_iter().map(file).collect()
}

fn scenario(files: &[(String, String)], holds: &[String]) -> String {
    let names: Vec<String> = files.iter().map(|(name, _)| scalar(name, true)).collect();
    format!(
        "# Written by `dryrack import kubernetes`. A pod without the annotation dryrack/duration runs until the end.\n\
         scenario: A cluster of {}\n\
         profile: kubernetes-1.35\n\
         files: [{}]\n\
         until: {UNTIL}\n",
        holds.join(", "),
        names.join(", ")
    )
}

impl ImportedCluster {
    /// Returns this import if `check` accepts its scenario.
    fn checked(self) -> Result<ImportedCluster, Diagnostics> {
        let written = tempfile::tempdir().and_then(|folder| {
            self.files.iter().try_for_each(|(name, text)| std::fs::write(folder.path().join(name), text))?;
            Ok(folder)
        });
        let folder = match written {
            Ok(folder) => folder,
            Err(fault) => {
                let mut report = Report::default();
                let place = report.add_source(SCENARIO, "").start();
                report.error_with_help(
                    place,
                    format!("what would be written cannot be checked: {fault}"),
                    "free space",
                );
                return Err(report.finish());
            }
        };
        let found = check(&folder.path().join(SCENARIO), &Options::default());
        if found.has_errors() { Err(found) } else { Ok(self) }
    }
}
