//! Kubernetes manifests: `files: [cluster.yaml, jobs/*.yaml]`, and objects within the scenario as `manifests:`.
//!
//! The objects of the files are inserted into `manifests:` of the scenario, so that the text in a log needs no other
//! file. Then they are lowered: nodes to nodes, pods and controllers to jobs, and the rest to the objects of the
//! cluster. Each part remembers its place in its own file.

mod files;
mod nodes;
mod pods;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use dryrack_control::Profile;
use dryrack_manifest::{Manifests, Unused};
use dryrack_objects::ClusterObjects;
use dryrack_yaml::{Fields, Report, Span};

use super::jobs::Draft;
use super::load::Options;
use super::world::World;

pub(super) use files::expand;

/// What manifests contribute besides nodes, which are in the world.
#[derive(Default)]
pub(super) struct Lowered {
    pub objects: Option<Arc<ClusterObjects>>,
    pub drafts: Vec<Draft>,
}

const PAGE: &str = "scenarios/KUBERNETES.md says what is read";

/// Reads `manifests:`. Adds the nodes to the world.
pub(super) fn read(
    file: &Fields<'_>,
    (profile, options): (&Profile, &Options),
    world: &mut World,
    report: &mut Report,
) -> Lowered {
    if !file.has("manifests") {
        return Lowered::default();
    }
    let mut manifests = Manifests::default();
    let had_errors = report.has_errors();
    for tree in file.list("manifests", report) {
        manifests.tree(tree, report);
    }
    // Without the faulty parts, more would seem wrong.
    if report.has_errors() && !had_errors {
        return Lowered::default();
    }
    let cluster = manifests.cluster(report);
    let key = file.key_span("manifests");
    tell_unused(&manifests.unused, options.tells_unused, key, report);
    for (node, span) in &cluster.nodes {
        nodes::declare(node, *span, world, report);
    }
    let (drafts, claims) = pods::drafts(&cluster, report);
    if options.streamed && !drafts.is_empty() {
        let message = "pods of manifests are not created during the run, as `--stream` asks";
        report.error_with_help(key, message, "leave `--stream` out");
    }
    let mut objects = ClusterObjects {
        namespaces: cluster.namespaces.clone(),
        services: cluster.services.clone(),
        pod_disruption_budgets: cluster.disruption_budgets(),
        workloads: cluster.workloads.clone(),
        device_classes: cluster.device_classes.clone(),
        resource_slices: cluster.slices.clone(),
        resource_claims: cluster.claims.clone(),
    };
    objects.resource_claims.extend(claims);
    if profile.flow.kubernetes().is_none() {
        let message = format!(
            "under the profile `{}`, pods get nodes by their requests and node selectors alone, without taints and \
             affinity",
            profile.name
        );
        report.warning(key, message, "write `profile: kubernetes-1.35`");
    }
    Lowered { objects: Some(Arc::new(objects)), drafts }
}

/// Says once what the objects have and a rehearsal does not use. `is_whole` also says what has no meaning here.
fn tell_unused(unused: &Unused, is_whole: bool, span: Span, report: &mut Report) {
    let notes = if is_whole { unused.notes() } else { unused.important_notes() };
    notes.into_iter().for_each(|note| report.warning(span, note, PAGE));
}
