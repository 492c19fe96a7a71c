//! `ImageLocality`: prefers nodes that have the pod's images.

use crate::cluster::{Cluster, PodInfo};
use crate::cycle::MAX_NODE_SCORE;

const MIB: i64 = 1 << 20;
/// Sums of image sizes up to `LEAST` get no score. Sums from `MOST_OF_CONTAINER` for each container on get the full
/// score (`pkg/scheduler/framework/plugins/imagelocality` of Kubernetes 1.35).
const LEAST: i64 = 23 * MIB;
const MOST_OF_CONTAINER: i64 = 1000 * MIB;

pub fn score(pod: &PodInfo, cluster: &Cluster, feasible: &[usize]) -> Vec<i64> {
    let spec = &pod.pod.spec;
    let images: Vec<_> = (spec.init_containers.iter().chain(&spec.containers))
        .map(|container| cluster.images.find(&container.image))
        .collect();
    let most = MOST_OF_CONTAINER * images.len() as i64;
    let all_nodes = cluster.nodes().len() as f64;
    let score = |node: &usize| {
        let here = images.iter().flatten().filter(|image| image.is_on(*node));
        // An image that few nodes hold counts for less, so that its pods do not all go to these nodes.
        let scaled = here.map(|image| (image.size as f64 * (image.node_count() as f64 / all_nodes)) as i64);
        let sum = scaled.sum::<i64>().clamp(LEAST, most.max(LEAST));
        if most <= LEAST { 0 } else { MAX_NODE_SCORE * (sum - LEAST) / (most - LEAST) }
    };
    feasible.iter().map(score).collect()
}
