//! Worlds drawn by chance, of what Kubernetes 1.20 has.

use serde_json::{Value, json};

/// A plain generator of numbers.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn of<'a>(&mut self, values: &[&'a str]) -> &'a str {
        values[self.below(values.len() as u64) as usize]
    }
}

/// What a world exercises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Resources,
    Affinity,
    Spread,
    Mixed,
    Preemption,
}

pub const THEMES: [Theme; 5] = [Theme::Resources, Theme::Affinity, Theme::Spread, Theme::Mixed, Theme::Preemption];

pub struct World {
    /// Nodes, services and disruption budgets.
    pub objects: Vec<Value>,
    /// In the order in which they are submitted.
    pub pods: Vec<Value>,
}

const APPS: [&str; 4] = ["web", "train", "cache", "batch"];

pub fn world(seed: u64, theme: Theme) -> World {
    let mut draw = Draw::new(seed);
    let is_preempting = theme == Theme::Preemption;
    let nodes = 2 + draw.below(if is_preempting { 8 } else { 19 });
    let mut objects: Vec<Value> = (0..nodes).map(|number| node(&mut draw, number, theme)).collect();
    if draw.one_in(3) {
        let app = draw.of(&APPS);
        objects.push(json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": app, "namespace": "default"}, "spec": {"selector": {"app": app}}}));
    }
    if is_preempting && draw.one_in(2) {
        let app = draw.of(&APPS);
        objects.push(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": draw.below(2), "currentHealthy": 1, "desiredHealthy": 1,
                "expectedPods": 1}}));
    }
    let pods = 10 + draw.below(51);
    let pods = (0..pods).map(|number| pod(&mut draw, number, theme)).collect();
    World { objects, pods }
}

fn node(draw: &mut Draw, number: u64, theme: Theme) -> Value {
    let name = format!("node-{number:02}");
    let mut labels = json!({
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": draw.of(&["a", "b", "c"]),
        "pool": draw.of(&["small", "large"]),
    });
    let gpus = draw.below(3) * 4;
    if gpus > 0 {
        labels["gpu"] = json!(draw.of(&["a100", "h100", "l4"]));
    }
    let allocatable = json!({
        "cpu": (4 + draw.below(29)).to_string(),
        "memory": format!("{}Gi", 8 + draw.below(120)),
        "pods": (6 + draw.below(20)).to_string(),
        "nvidia.com/gpu": gpus.to_string(),
    });
    let mut spec = json!({});
    if matches!(theme, Theme::Mixed | Theme::Resources) {
        let mut taints = Vec::new();
        if gpus > 0 && draw.one_in(3) {
            taints.push(json!({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}));
        }
        if draw.one_in(4) {
            taints.push(json!({"key": "spot", "value": "true", "effect": "PreferNoSchedule"}));
        }
        spec["taints"] = json!(taints);
        spec["unschedulable"] = json!(draw.one_in(12));
    }
    let mut images = Vec::new();
    if draw.one_in(2) {
        // An image has the same size everywhere. The program uses the size of the first node that it sees.
        images.push(json!({"names": ["registry.example/train:1"], "sizeBytes": 1_500u64 << 20}));
    }
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
        "status": {"allocatable": allocatable, "capacity": allocatable, "images": images}})
}

fn pod(draw: &mut Draw, number: u64, theme: Theme) -> Value {
    let app = draw.of(&APPS);
    let mut requests = json!({});
    if !draw.one_in(5) {
        requests["cpu"] = json!(format!("{}m", 100 + 100 * draw.below(60)));
    }
    if !draw.one_in(5) {
        requests["memory"] = json!(format!("{}Mi", 64 * (1 + draw.below(160))));
    }
    if draw.one_in(3) {
        requests["nvidia.com/gpu"] = json!((1 + draw.below(4)).to_string());
    }
    let mut container = json!({"name": "main", "image": draw.of(&["registry.example/train:1", "registry.example/web:2"]),
        "resources": {"requests": requests, "limits": {}}});
    let mut spec = json!({"terminationGracePeriodSeconds": 30});
    if matches!(theme, Theme::Mixed | Theme::Resources) {
        if draw.one_in(8) {
            container["ports"] = json!([{"containerPort": 80, "hostPort": 8000 + draw.below(3), "protocol": "TCP"}]);
        }
        if draw.one_in(2) {
            spec["tolerations"] = json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]);
        }
        if draw.one_in(6) {
            spec["nodeSelector"] = json!({"pool": draw.of(&["small", "large"])});
        }
    }
    let mut affinity = json!({});
    if matches!(theme, Theme::Mixed | Theme::Affinity) {
        node_affinity(draw, &mut affinity);
        pod_affinity(draw, &mut affinity);
    }
    spec["affinity"] = affinity;
    if matches!(theme, Theme::Mixed | Theme::Spread) && draw.one_in(2) {
        spec["topologySpreadConstraints"] = constraints(draw, app);
    }
    if theme == Theme::Preemption {
        spec["priority"] = json!(100 * draw.below(4));
        if draw.one_in(8) {
            spec["preemptionPolicy"] = json!("Never");
        }
    }
    spec["containers"] = json!([container]);
    let labels = json!({"app": app, "tier": draw.of(&["1", "2"])});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number:02}"), "namespace": "default", "labels": labels}, "spec": spec})
}

fn node_affinity(draw: &mut Draw, affinity: &mut Value) {
    let expression = |draw: &mut Draw| match draw.below(4) {
        0 => json!({"key": "gpu", "operator": "Exists"}),
        1 => json!({"key": "gpu", "operator": "In", "values": [draw.of(&["a100", "h100"]), "l4"]}),
        2 => json!({"key": "pool", "operator": "NotIn", "values": [draw.of(&["small", "large"])]}),
        _ => json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [draw.of(&["a", "b", "c"])]}),
    };
    if draw.one_in(5) {
        let terms = json!([{"matchExpressions": [expression(draw)]}]);
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
    }
    if draw.one_in(3) {
        let term = json!({"weight": 1 + draw.below(100), "preference": {"matchExpressions": [expression(draw)]}});
        affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([term]);
    }
}

fn pod_affinity(draw: &mut Draw, affinity: &mut Value) {
    let term = |draw: &mut Draw| {
        let key = draw.of(&["kubernetes.io/hostname", "topology.kubernetes.io/zone"]);
        json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": draw.of(&APPS)}}})
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        if draw.one_in(7) {
            affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term(draw)]);
        }
        if draw.one_in(4) {
            let weighted = json!({"weight": 1 + draw.below(100), "podAffinityTerm": term(draw)});
            affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([weighted]);
        }
    }
}

fn constraints(draw: &mut Draw, app: &str) -> Value {
    let mut constraint = |key: &str| {
        json!({"maxSkew": 1 + draw.below(3), "topologyKey": key,
            "whenUnsatisfiable": draw.of(&["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": app}}})
    };
    let both = [constraint("topology.kubernetes.io/zone"), constraint("kubernetes.io/hostname")];
    match draw.below(3) {
        0 => json!([both[0]]),
        1 => json!([both[1]]),
        _ => json!(both),
    }
}
