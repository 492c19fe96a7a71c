//! Kueue in dryrack's short words: `kueue:` and the changes of queues become objects of Kueue's API.
//!
//! Each part keeps its place in the file, so the check of manifests marks faults in the short words too.

mod jobs;
mod quota;
mod words;

use std::collections::BTreeSet;

use dryrack_yaml::{Fields, Report, Span, Tree};

pub(super) use jobs::{least_of_pods, queued, renamed};
use quota::resource_groups;
use words::{Object, copied, flat, map, named_of, scalar};

pub(super) const FIELDS: [&str; 6] =
    ["fair_sharing", "flavors", "topologies", "cohorts", "cluster_queues", "local_queues"];
const FLAVOR: [&str; 5] = ["name", "labels", "taints", "tolerations", "topology"];
const TOPOLOGY: [&str; 2] = ["name", "levels"];
const COHORT: [&str; 4] = ["name", "parent", "weight", "quota"];
const CLUSTER_QUEUE: [&str; 8] = ["name", "cohort", "strategy", "stop", "weight", "quota", "preemption", "fungibility"];
const LOCAL_QUEUE: [&str; 4] = ["name", "namespace", "cluster_queue", "stop"];
/// The keys of a change of a queue, in addition to those of the queue.
pub(super) const CHANGED: [&str; 3] = ["cluster_queue", "cohort", "local_queue"];

/// The objects that the short words of a file mean, and how fair sharing is set.
#[derive(Default)]
pub(super) struct Lowered {
    pub objects: Vec<Tree>,
    pub fair_sharing: Option<serde_json::Value>,
}

/// Names that are already known, from manifests and from the short words.
struct Known {
    flavors: BTreeSet<String>,
    cluster_queues: BTreeSet<String>,
    /// Whether flavors are defined at all. Otherwise each flavor that a quota names exists without labels.
    states_flavors: bool,
}

/// Reads `kueue:`, and the entries of `changes:` that are about queues.
pub(super) fn read(file: &Fields<'_>, report: &mut Report) -> Lowered {
    let mut lowered = Lowered::default();
    // Faults in the form of the manifests are reported when they are read.
    let mut quiet = Report::default();
    let manifests: &[Tree] = if file.has("manifests") { file.list("manifests", &mut quiet) } else { &[] };
    let tree = file.get("kueue");
    let fields = tree.and_then(|tree| Fields::read(tree, "the section `kueue`", &FIELDS, report));
    let listed = |key: &str, report: &mut Report| -> &[Tree] {
        fields.as_ref().filter(|fields| fields.has(key)).map_or(&[], |fields| fields.list(key, report))
    };
    let (flavors, queues) = (listed("flavors", report), listed("cluster_queues", report));
    let mut known = Known {
        flavors: named_of(manifests, "ResourceFlavor").chain(flat(flavors)).collect(),
        cluster_queues: named_of(manifests, "ClusterQueue").chain(flat(queues)).collect(),
        states_flavors: false,
    };
    known.states_flavors = !known.flavors.is_empty();
    if let Some(fields) = &fields {
        lowered.fair_sharing = fair_sharing(fields, report);
    }
    for tree in listed("topologies", report) {
        lowered.objects.extend(topology(tree, report));
    }
    for tree in flavors {
        lowered.objects.extend(flavor(tree, report));
    }
    let cohorts = listed("cohorts", report);
    for tree in cohorts {
        let fields = Fields::read(tree, "a cohort", &COHORT, report);
        lowered.objects.extend(fields.and_then(|fields| cohort(&fields, &known, report)));
    }
    for tree in queues {
        let fields = Fields::read(tree, "a cluster queue in short words", &CLUSTER_QUEUE, report);
        lowered.objects.extend(fields.and_then(|fields| cluster_queue(&fields, &known, report)));
    }
    if !known.states_flavors {
        lowered.objects.extend(plain_flavors(cohorts.iter().chain(queues)));
    }
    let local = listed("local_queues", report);
    for tree in local {
        lowered.objects.extend(local_queue(tree, &known, report));
    }
    if local.is_empty() && named_of(manifests, "LocalQueue").next().is_none() {
        lowered.objects.extend(queues.iter().filter_map(own_local_queue));
    }
    for tree in file.list("changes", &mut quiet).iter().filter(|tree| is_of_queue(tree)) {
        lowered.objects.extend(change(tree, &known, (manifests, local), report));
    }
    lowered
}

/// Whether an entry of `changes:` is about a queue.
pub(super) fn is_of_queue(tree: &Tree) -> bool {
    tree.get("job").is_none() && CHANGED.iter().any(|key| tree.get(key).is_some())
}

fn fair_sharing(fields: &Fields<'_>, report: &mut Report) -> Option<serde_json::Value> {
    let tree = fields.get("fair_sharing")?;
    let strategies = [("LessThanOrEqualToFinalShare", ()), ("LessThanInitialShare", ())];
    let stated = match tree.scalar() {
        Some("true") => Vec::new(),
        Some("false") => return None,
        _ => {
            let items = fields.items("fair_sharing", "`true` or a list of preemption strategies", report);
            for (item, span) in &items {
                if !strategies.iter().any(|(name, ())| name == item) {
                    let message = format!("`{item}` is not a preemption strategy");
                    report.unknown(*span, message, item, strategies.iter().map(|(name, ())| *name));
                }
            }
            items.into_iter().map(|(item, _)| item.to_string()).collect()
        }
    };
    Some(serde_json::json!({"enable": true, "preemptionStrategies": stated}))
}

fn topology(tree: &Tree, report: &mut Report) -> Option<Tree> {
    let fields = Fields::read(tree, "a topology in short words", &TOPOLOGY, report)?;
    fields.require("name", "racks", report)?;
    fields.require("levels", "[rack, kubernetes.io/hostname]", report)?;
    let level = |(label, span): (&str, Span)| map(span, vec![("nodeLabel", scalar(label, span))]);
    let levels = fields.items("levels", "the key of a label", report).into_iter().map(level).collect();
    let mut object = Object::new("Topology", &fields);
    object.list("levels", fields.key_span("levels"), levels);
    Some(object.finish())
}

fn flavor(tree: &Tree, report: &mut Report) -> Option<Tree> {
    let fields = Fields::read(tree, "a flavor in short words", &FLAVOR, report)?;
    fields.require("name", "h100", report)?;
    let mut object = Object::new("ResourceFlavor", &fields);
    let keys = [
        ("labels", "nodeLabels"),
        ("taints", "nodeTaints"),
        ("tolerations", "tolerations"),
        ("topology", "topologyName"),
    ];
    keys.iter().for_each(|(word, key)| object.copy(&fields, word, key));
    Some(object.finish())
}

/// Each flavor that a quota names, without labels.
fn plain_flavors<'t>(holders: impl Iterator<Item = &'t Tree>) -> Vec<Tree> {
    let mut seen = BTreeSet::new();
    let mut objects = Vec::new();
    for quota in holders.filter_map(|holder| holder.get("quota")) {
        for entry in words::entries(quota) {
            if seen.insert(entry.key.clone()) {
                objects.push(Object::bare("ResourceFlavor", &entry.key, entry.key_span).finish());
            }
        }
    }
    objects
}

fn cohort(fields: &Fields<'_>, known: &Known, report: &mut Report) -> Option<Tree> {
    fields.require("name", "research", report)?;
    let mut object = Object::new("Cohort", fields);
    cohort_spec(&mut object, fields, known, report);
    Some(object.finish())
}

fn cohort_spec(object: &mut Object, fields: &Fields<'_>, known: &Known, report: &mut Report) {
    object.copy(fields, "parent", "parentName");
    weight(object, fields);
    quota_of(object, fields, known, report);
}

fn weight(object: &mut Object, fields: &Fields<'_>) {
    if let Some(tree) = fields.get("weight") {
        object.set("fairSharing", fields.key_span("weight"), map(tree.span, vec![("weight", copied(tree))]));
    }
}

fn quota_of(object: &mut Object, fields: &Fields<'_>, known: &Known, report: &mut Report) {
    if let Some(tree) = fields.get("quota") {
        if known.states_flavors {
            for entry in words::entries(tree).iter().filter(|entry| !known.flavors.contains(&entry.key)) {
                let message = format!("no flavor is named `{}`", entry.key);
                report.unknown(entry.key_span, message, &entry.key, known.flavors.iter().map(String::as_str));
            }
        }
        object.set("resourceGroups", fields.key_span("quota"), resource_groups(tree, report));
    }
}

fn cluster_queue(fields: &Fields<'_>, known: &Known, report: &mut Report) -> Option<Tree> {
    fields.require("name", "research", report)?;
    let mut object = Object::new("ClusterQueue", fields);
    // In short words, a queue is for every namespace.
    object.set("namespaceSelector", fields.place(), map(fields.place(), Vec::new()));
    cluster_queue_spec(&mut object, fields, known, report);
    Some(object.finish())
}

fn cluster_queue_spec(object: &mut Object, fields: &Fields<'_>, known: &Known, report: &mut Report) {
    // In a change, `cohort` names the cohort that changes.
    if fields.has("cluster_queue") || fields.has("name") {
        object.copy(fields, "cohort", "cohortName");
    }
    object.copy(fields, "strategy", "queueingStrategy");
    object.copy(fields, "stop", "stopPolicy");
    weight(object, fields);
    quota_of(object, fields, known, report);
    if let Some(tree) = fields.get("preemption") {
        let keys = ["within", "reclaim", "borrow"];
        let Some(own) = Fields::read(tree, "the preemption of a queue", &keys, report) else { return };
        let mut parts = Vec::new();
        parts.extend(own.get("within").map(|tree| ("withinClusterQueue", copied(tree))));
        parts.extend(own.get("reclaim").map(|tree| ("reclaimWithinCohort", copied(tree))));
        if let Some(tree) = own.get("borrow") {
            let Some(own) = Fields::read(tree, "the preemption while borrowing", &["policy", "max_priority"], report)
            else {
                return;
            };
            let mut borrow = Vec::new();
            borrow.extend(own.get("policy").map(|tree| ("policy", copied(tree))));
            borrow.extend(own.get("max_priority").map(|tree| ("maxPriorityThreshold", copied(tree))));
            parts.push(("borrowWithinCohort", map(tree.span, borrow)));
        }
        object.set("preemption", fields.key_span("preemption"), map(tree.span, parts));
    }
    if let Some(tree) = fields.get("fungibility") {
        let keys = ["borrow", "preempt", "preference"];
        let Some(own) = Fields::read(tree, "the fungibility of a queue", &keys, report) else { return };
        let mut parts = Vec::new();
        parts.extend(own.get("borrow").map(|tree| ("whenCanBorrow", copied(tree))));
        parts.extend(own.get("preempt").map(|tree| ("whenCanPreempt", copied(tree))));
        parts.extend(own.get("preference").map(|tree| ("preference", copied(tree))));
        object.set("flavorFungibility", fields.key_span("fungibility"), map(tree.span, parts));
    }
}

fn check_queue(fields: &Fields<'_>, known: &Known, report: &mut Report) {
    let Some(tree) = fields.get("cluster_queue") else { return };
    if let Some(typed) = tree.scalar().filter(|typed| !known.cluster_queues.contains(*typed)) {
        let message = format!("no cluster queue is named `{typed}`");
        report.unknown(tree.span, message, typed, known.cluster_queues.iter().map(String::as_str));
    }
}

fn local_queue(tree: &Tree, known: &Known, report: &mut Report) -> Option<Tree> {
    let fields = Fields::read(tree, "a local queue in short words", &LOCAL_QUEUE, report)?;
    fields.require("name", "team-a", report)?;
    fields.require("cluster_queue", "research", report)?;
    check_queue(&fields, known, report);
    let mut object = Object::new("LocalQueue", &fields);
    object.in_namespace(&fields);
    object.copy(&fields, "cluster_queue", "clusterQueue");
    object.copy(&fields, "stop", "stopPolicy");
    Some(object.finish())
}

/// The LocalQueue of a cluster queue, with its name. Jobs then name the cluster queue.
fn own_local_queue(queue: &Tree) -> Option<Tree> {
    let name = queue.get("name")?;
    let typed = name.scalar()?;
    let mut object = Object::bare("LocalQueue", typed, name.span);
    object.set("clusterQueue", name.span, scalar(typed, name.span));
    Some(object.finish())
}

/// Reads `{at: 30m, cluster_queue: research, stop: HoldAndDrain}`.
fn change(tree: &Tree, known: &Known, (manifests, local): (&[Tree], &[Tree]), report: &mut Report) -> Option<Tree> {
    let (what, kind, keys): (_, _, &[&str]) = match (tree.get("cluster_queue"), tree.get("local_queue")) {
        (Some(_), _) => ("a change of a cluster queue", "ClusterQueue", &CLUSTER_QUEUE),
        (None, Some(_)) => ("a change of a local queue", "LocalQueue", &["namespace", "stop"]),
        (None, None) => ("a change of a cohort", "Cohort", &COHORT),
    };
    let subject = match kind {
        "ClusterQueue" => "cluster_queue",
        "LocalQueue" => "local_queue",
        _ => "cohort",
    };
    let mut all = vec!["at", subject];
    all.extend(keys.iter().filter(|key| **key != "name"));
    let fields = Fields::read(tree, what, &all, report)?;
    let at = fields.require("at", "30m", report)?;
    let name = fields.get(subject)?;
    let typed = dryrack_yaml::text(name, "the name of a queue", report)?;
    let mut object = Object::bare(kind, typed, name.span);
    object.patches_at(at);
    match kind {
        "ClusterQueue" => {
            check_queue(&fields, known, report);
            cluster_queue_spec(&mut object, &fields, known, report);
        }
        "LocalQueue" => {
            object.in_namespace(&fields);
            object.copy(&fields, "stop", "stopPolicy");
            // The API requires the cluster queue in every LocalQueue.
            let own = local.iter().find(|tree| tree.get("name").and_then(Tree::scalar) == Some(typed));
            let target = own.and_then(|tree| tree.get("cluster_queue")).or_else(|| words::target_of(manifests, typed));
            let target = target.map_or_else(|| scalar(typed, name.span), copied);
            object.set("clusterQueue", name.span, target);
        }
        _ => cohort_spec(&mut object, &fields, known, report),
    }
    Some(object.finish())
}
