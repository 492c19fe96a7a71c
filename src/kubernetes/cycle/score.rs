//! Scores the feasible nodes.

use std::sync::Arc;

use super::decision::Scores;
use super::profile::Profile;
use super::state::CycleState;
use super::verdict::Plugin;
use crate::cluster::Cluster;
use crate::plugins::{
    balanced_allocation, dynamic_resources, image_locality, inter_pod_affinity, node_affinity, node_resources_fit,
    spread_score, taint_toleration,
};

/// # Errors
/// The text of the plugin that failed.
pub fn score(state: &CycleState, cluster: &Cluster, feasible: &[usize], profile: &Profile) -> Result<Scores, String> {
    let mut scores =
        Scores { totals: vec![0; feasible.len()], rows: vec![Vec::new(); feasible.len()], plugins: Vec::new() };
    for (plugin, weight) in &profile.scorers {
        let scored = score_by(*plugin, state, cluster, feasible, profile);
        let failed = |fault| format!("running Score plugins: plugin \"{}\" failed with: {fault}", plugin.name());
        let Some(column) = scored.map_err(failed)? else { continue };
        scores.plugins.push(*plugin);
        for (node, score) in column.into_iter().enumerate() {
            scores.rows[node].push(score * weight);
            scores.totals[node] += score * weight;
        }
    }
    Ok(scores)
}

/// The scores from 0 to 100. `None` if the plugin does not apply to the pod.
fn score_by(
    plugin: Plugin,
    state: &CycleState,
    cluster: &Cluster,
    feasible: &[usize],
    profile: &Profile,
) -> Result<Option<Vec<i64>>, String> {
    let pod = &state.pod;
    let column = match plugin {
        Plugin::TaintToleration => Some(taint_toleration::score(pod, cluster, feasible)),
        Plugin::NodeAffinity => node_affinity::score(pod, cluster, feasible),
        Plugin::NodeResourcesFit => Some(node_resources_fit::score(pod, cluster, feasible, &profile.fit)),
        Plugin::PodTopologySpread => spread_score::score(pod, cluster, feasible, profile),
        Plugin::InterPodAffinity => inter_pod_affinity::score(pod, cluster, feasible, profile),
        Plugin::DynamicResources => {
            let names = feasible.iter().map(|index| Arc::clone(cluster.node(*index).name()));
            Some(dynamic_resources::score(state.claims.as_ref(), names)?)
        }
        Plugin::NodeResourcesBalancedAllocation => balanced_allocation::score(pod, cluster, feasible, profile),
        Plugin::ImageLocality => Some(image_locality::score(pod, cluster, feasible)),
        Plugin::SchedulingGates
        | Plugin::NodeUnschedulable
        | Plugin::NodeName
        | Plugin::NodePorts
        | Plugin::DefaultPreemption
        | Plugin::GangScheduling => None,
    };
    Ok(column)
}
