//! Tests that an attempt changes nothing, and that preemption evicts as few pods as possible. The expected victims come
//! from a search through all sets of pods.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Outcome, Profile, Start, bind, reserve, schedule};
use crate::cluster::{Cluster, PodInfo};
use crate::object::{Node, Pod, Seconds};
use crate::plugins::gang_scheduling::Permit;

/// A plain generator of numbers for small worlds.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn node(number: u64) -> Node {
    let name = format!("n{number}");
    let labels = json!({"kubernetes.io/hostname": name, "zone": format!("z{}", number % 2)});
    let allocatable = json!({"cpu": "8", "memory": "32Gi", "pods": "6"});
    serde_json::from_value(
        json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}),
    )
    .expect("a node")
}

/// A pod with one to four cores, a priority, and perhaps a port, a spread constraint or anti-affinity.
fn pod(draw: &mut Draw, name: &str, priority: i64) -> Arc<PodInfo> {
    let app = format!("a{}", draw.below(3));
    let same = json!({"matchLabels": {"app": format!("a{}", draw.below(3))}});
    let ports = match draw.below(4) {
        0 => json!([{"hostPort": 80 + draw.below(2)}]),
        _ => json!([]),
    };
    let mut spec = json!({
        "priority": priority,
        "containers": [{"name": "main", "ports": ports,
            "resources": {"requests": {"cpu": 1 + draw.below(4), "memory": "1Gi"}}}],
    });
    match draw.below(4) {
        0 => {
            spec["topologySpreadConstraints"] = json!([
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": same},
            ]);
        }
        1 => {
            let term = json!([{"topologyKey": "zone", "labelSelector": same}]);
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
        }
        _ => {}
    }
    let pod: Value = json!({"metadata": {"name": name, "labels": {"app": app}}, "spec": spec});
    Arc::new(PodInfo::new(serde_json::from_value::<Pod>(pod).expect("a pod")))
}

/// Two to four nodes, filled with pods of three priorities by the scheduler itself.
fn cluster(draw: &mut Draw) -> Cluster {
    let mut cluster = Cluster::new((0..2 + draw.below(3)).map(node).collect()).expect("all names differ");
    for number in 0..14 {
        let priority = draw.below(3) as i64;
        let pod = pod(draw, &format!("p{number:02}"), priority);
        let decision = schedule(&pod, &mut cluster, &Profile::v1_35(), Start::default());
        if let Outcome::Fits { best } = decision.outcome {
            let name = Arc::clone(cluster.node(best[0].0).name());
            assert_eq!(reserve(&pod, &name, &mut cluster), Permit::Allowed { released: Vec::new() });
            bind(&pod, &name, Seconds(number), None, &mut cluster);
        }
    }
    cluster
}

/// Whether the pod fits on a node once these pods are gone.
fn fits_without(pod: &Arc<PodInfo>, cluster: &mut Cluster, node: usize, gone: &[Arc<str>]) -> bool {
    let removed: Vec<_> = gone.iter().map(|key| cluster.remove(node, key).expect("it is there")).collect();
    let fits = schedule(pod, cluster, &Profile::v1_35(), Start::default()).feasible.contains(&node);
    let name = Arc::clone(cluster.node(node).name());
    for placed in removed {
        cluster.place(placed.pod, &name, placed.start).expect("the node is there");
    }
    fits
}

#[test]
fn an_attempt_changes_nothing_and_no_victim_can_be_spared() {
    let mut draw = Draw(0x2545_f491_4f6c_dd1d);
    let (mut candidates, mut helpless) = (0, 0);
    for world in 0..150 {
        let mut cluster = cluster(&mut draw);
        let incoming = pod(&mut draw, "incoming", 2);
        let before = format!("{:?}", cluster.nodes());
        let decision = schedule(&incoming, &mut cluster, &Profile::v1_35(), Start::default());
        assert_eq!(format!("{:?}", cluster.nodes()), before, "world {world}");
        let again = schedule(&incoming, &mut cluster, &Profile::v1_35(), Start::default());
        assert_eq!(format!("{decision:?}"), format!("{again:?}"), "world {world}");
        let Outcome::Unschedulable { post_filter, .. } = &decision.outcome else { continue };
        let Some(preemption) = &post_filter.preemption else { continue };
        for (node, victims) in &preemption.candidates {
            candidates += 1;
            let keys: Vec<Arc<str>> = victims.pods.iter().map(|placed| Arc::clone(&placed.pod.key)).collect();
            assert!(fits_without(&incoming, &mut cluster, *node, &keys), "world {world}: the victims do not suffice");
            for spared in 0..keys.len() {
                let mut fewer = keys.clone();
                fewer.remove(spared);
                let suffices = fits_without(&incoming, &mut cluster, *node, &fewer);
                assert!(!suffices, "world {world}: {} could be spared", keys[spared]);
            }
        }
        for (node, _) in &preemption.failed {
            helpless += 1;
            let placed = cluster.node(*node).pods.iter();
            let weaker = placed.filter(|placed| placed.pod.priority < incoming.priority);
            let keys: Vec<Arc<str>> = weaker.map(|placed| Arc::clone(&placed.pod.key)).collect();
            assert!(!fits_without(&incoming, &mut cluster, *node, &keys), "world {world}: preemption would help");
        }
    }
    assert!(candidates > 50 && helpless > 10, "{candidates} candidates, {helpless} nodes without help");
}

/// 250 nodes: 48 % of them, 120, are enough. Each attempt starts where the one before ended.
#[test]
fn attempts_take_turns_among_many_nodes() {
    let mut cluster = Cluster::new((0..250).map(node).collect()).expect("all names differ");
    let mut draw = Draw(0x2545_f491_4f6c_dd1d);
    let pod = pod(&mut draw, "incoming", 0);
    let mut start = Start::default();
    let mut examined = [0; 250];
    for attempt in 1..=25 {
        let decision = schedule(&pod, &mut cluster, &Profile::v1_35(), start);
        assert_eq!((decision.feasible.len(), decision.is_of_all_nodes), (120, false));
        decision.feasible.iter().for_each(|node| examined[*node] += 1);
        start.node = decision.next_node;
        assert_eq!(start.node, attempt * 120 % 250);
    }
    assert!(examined.iter().all(|times| *times == 12), "25 attempts with 120 of 250 nodes each");
    let all = Profile { percentage_of_nodes_to_score: 100, ..Profile::v1_35() };
    assert_eq!(schedule(&pod, &mut cluster, &all, start).feasible.len(), 250);
}
