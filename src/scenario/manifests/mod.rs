//! Kubernetes manifests: `files: [cluster.yaml, jobs/*.yaml]`, and objects within the scenario as `manifests:`.
//!
//! The objects of the files are inserted into `manifests:` of the scenario, so that the text in a log needs no other
//! file. Then they are lowered: nodes to nodes, pods and controllers to jobs, and the rest to the objects of the
//! cluster. Each part remembers its place in its own file.

mod added;
mod devices;
mod files;
mod held;
mod nodes;
mod pods;
mod queued;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_control::Profile;
use dryrack_event::Reason;
use dryrack_fleet::NodeShape;
use dryrack_manifest::{Cluster, Manifests, Unused};
use dryrack_objects::{ClusterObjects, Pod};
use dryrack_units::counted;
use dryrack_yaml::{Fields, Node, Report, Span, Tree};

use super::job_template::Draft;
use super::kueue;
use super::options::{Options, Outside};
use super::world::World;

pub(super) use added::add;
pub(super) use files::expand;

/// What manifests contribute besides nodes, which are in the world.
#[derive(Default)]
pub(super) struct Lowered {
    pub objects: Option<Arc<ClusterObjects>>,
    pub drafts: Vec<Draft>,
    /// The objects of Kueue, and when they are created or changed.
    pub kueue: queued::Applied,
}

const HOSTNAME: &str = "kubernetes.io/hostname";
const PAGE: &str = "docs/src/kubernetes.md says what is read";

/// Reads `manifests:`. Adds the nodes to the world.
pub(super) fn read(
    file: &Fields<'_>,
    (profile, options): (&Profile, &Options),
    world: &mut World,
    report: &mut Report,
) -> Lowered {
    let had_errors = report.has_errors();
    let short = kueue::read(file, report);
    if !file.has("manifests") && short.objects.is_empty() {
        return Lowered::default();
    }
    let mut manifests = Manifests::default();
    let stated: &[Tree] = if file.has("manifests") { file.list("manifests", report) } else { &[] };
    for tree in stated {
        match files::is_of_file(tree) {
            true => manifests.tree_again(tree, report),
            false => manifests.tree(tree, report),
        }
    }
    short.objects.iter().for_each(|tree| manifests.words(tree, report));
    // Without the faulty parts, more would seem wrong.
    if report.has_errors() && !had_errors {
        world.has_refused_manifests = file.has("manifests");
        return Lowered::default();
    }
    let cluster = manifests.cluster(report);
    let key = file.key_span(if file.has("manifests") { "manifests" } else { "kueue" });
    let kueue = queued::applied(&cluster, short.fair_sharing, report);
    world.local_queues = queued::local_queues(&cluster);
    if !kueue.is_empty() {
        let first = cluster.queues.stated.first().map_or(key, |object| object.span);
        refuse_unmanaged(file, (profile, options), first, report);
        name_hosts(&cluster, profile, world);
    }
    tell_unused(&manifests.unused, options.tells_unused, key, report);
    nodes::tell_shared(&cluster.nodes, report);
    for (node, span) in &cluster.nodes {
        nodes::declare(node, *span, world, report);
    }
    if profile.flow.places_pods() {
        devices::declare(&cluster.slices, key, world, report);
    }
    let (drafts, claims) = pods::drafts(&cluster, &manifests.objects, report);
    if options.streamed && !drafts.is_empty() {
        let message = "pods of manifests are not created during the run, as `--stream` asks";
        report.error_with_help(key, message, "leave `--stream` out");
    }
    if !expects(file, Reason::OtherScheduler) {
        tell_other_schedulers(&drafts, profile, report);
    }
    tell_gangs(&cluster, &drafts, profile, report);
    let mut objects = ClusterObjects {
        namespaces: cluster.namespaces.clone(),
        priority_classes: cluster.priority_classes.clone(),
        services: cluster.services.clone(),
        replica_sets: cluster.replica_sets.clone(),
        stateful_sets: cluster.stateful_sets.clone(),
        replication_controllers: cluster.replication_controllers.clone(),
        pod_disruption_budgets: cluster.disruption_budgets(),
        workloads: cluster.workloads.clone(),
        device_classes: cluster.device_classes.clone(),
        resource_slices: cluster.slices.clone(),
        resource_claims: cluster.claims.clone(),
    };
    objects.resource_claims.extend(claims);
    if !profile.flow.places_pods() && !stated.is_empty() {
        let message = format!(
            "under the profile `{}`, pods get nodes by their requests and node selectors alone, without taints and \
             affinity",
            profile.name
        );
        report.warning(key, message, "write `profile: kubernetes-1.35`");
    }
    let objects = (!stated.is_empty()).then(|| Arc::new(objects));
    Lowered { objects, drafts, kueue }
}

/// Whether an expectation of the file names the reason, so that it is meant.
fn expects(file: &Fields<'_>, reason: Reason) -> bool {
    let Some(Node::List(expected)) = file.get("expect").map(|tree| &tree.node) else { return false };
    let mut because = expected.iter().filter_map(|one| one.get("because"));
    because.any(|tree| matches!(&tree.node, Node::Scalar { text, .. } if text == reason.name()))
}

/// Says once which pods the profile does not schedule, because they name another scheduler.
fn tell_other_schedulers(drafts: &[Draft], profile: &Profile, report: &mut Report) {
    let Some(options) = profile.flow.kubernetes() else { return };
    let mut pods: BTreeMap<&str, (usize, Span)> = BTreeMap::new();
    for draft in drafts {
        let spec = &draft.arrival.spec;
        let Some(pod) = spec.pod.as_ref().filter(|pod| pod.spec.node_name.is_none()) else { continue };
        if pod.spec.scheduler() != options.scheduler_name {
            let of_scheduler = pods.entry(pod.spec.scheduler()).or_insert((0, draft.span));
            of_scheduler.0 += spec.replicas as usize;
        }
    }
    for (name, (count, span)) in pods {
        let message = format!(
            "the profile `{}` does not schedule {} of the scheduler `{name}`; they wait forever",
            profile.name,
            counted(count, "pod"),
        );
        let help = format!(
            "leave `schedulerName` out, or use a profile with `flow: {{kubernetes: {{scheduler_name: {name}}}}}`"
        );
        report.warning(span, message, help);
    }
}

/// Says once that the profile schedules the pods of gangs one by one.
fn tell_gangs(cluster: &Cluster, drafts: &[Draft], profile: &Profile, report: &mut Report) {
    let is_plain = profile.flow.kubernetes().is_some_and(|options| options.gang_scheduling.is_none());
    let gang_of = |pod: &Pod| {
        let stated = pod.spec.workload_ref.as_ref()?;
        let workload = cluster.workloads.iter().find(|workload| {
            let metadata = &workload.metadata;
            metadata.name == stated.name && metadata.namespace() == pod.metadata.namespace()
        })?;
        let group = workload.spec.pod_groups.iter().find(|group| group.name == stated.pod_group)?;
        group.policy.gang.as_ref().map(|_| Arc::clone(&workload.metadata.name))
    };
    let mut found = drafts.iter().filter(|_| is_plain).filter_map(|draft| {
        let spec = &draft.arrival.spec;
        Some((spec.name.clone(), gang_of(spec.pod.as_ref()?)?, draft.span))
    });
    if let Some((job, workload, span)) = found.next() {
        let message = format!(
            "the pods of `{job}` are a gang by Workload `{workload}`, but the profile `{}` schedules them one by one",
            profile.name
        );
        report.warning(span, message, "write `profile: kubernetes-1.35-gang-scheduling`");
    }
}

/// Refuses what cannot let jobs wait for Kueue.
fn refuse_unmanaged(file: &Fields<'_>, (profile, options): (&Profile, &Options), key: Span, report: &mut Report) {
    if !profile.waits_for_admission() {
        let message = format!("under the profile `{}`, jobs cannot wait for Kueue", profile.name);
        report.error_with_help(
            key,
            message,
            "write `profile: kubernetes-1.35`, or a profile with a plain queue such as `easy`",
        );
    }
    for (key, what) in [("outside", "a scheduler in another process"), ("live", "a run on real machines")] {
        if file.has(key) {
            let message = format!("{what} does not let jobs wait for Kueue");
            report.error_with_help(file.key_span(key), message, "leave the objects of Kueue out, or this key");
        }
    }
    if options.streamed || matches!(options.outside, Outside::Command(..)) {
        let what = if options.streamed { "with `--stream`" } else { "under a scheduler in another process" };
        let message = format!("{what}, jobs cannot wait for Kueue");
        report.error_with_help(key, message, "leave the option out");
    }
}

/// Labels each node with its name if a topology has a level of nodes. A profile of kube-scheduler does so by itself.
fn name_hosts(cluster: &Cluster, profile: &Profile, world: &mut World) {
    let has_hosts = cluster
        .queues
        .topologies
        .iter()
        .any(|topology| topology.spec.levels.iter().any(|level| &*level.node_label == HOSTNAME));
    if !has_hosts || profile.flow.places_pods() {
        return;
    }
    for index in 0..world.nodes.len() {
        let spec = &world.nodes[index].spec;
        let mut shape = NodeShape::clone(&spec.shape);
        shape.labels.entry(Arc::from(HOSTNAME)).or_insert_with(|| Arc::clone(&spec.name));
        world.nodes[index].spec.shape = world.shared_shape(shape);
    }
}

/// Says once what the objects have and a rehearsal does not use. `is_whole` also says what has no meaning here.
fn tell_unused(unused: &Unused, is_whole: bool, span: Span, report: &mut Report) {
    let notes = if is_whole { unused.notes() } else { unused.important_notes() };
    if let Some((note, span)) = unused.unfollowed_objects() {
        report.warning(span, note, PAGE);
    }
    notes.into_iter().for_each(|note| report.warning(span, note, PAGE));
}
