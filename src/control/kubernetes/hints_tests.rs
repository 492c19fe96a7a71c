//! Tests of the queueing hints and of disruption budgets, on pods and nodes as manifests state them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::budgets::Budgets;
use super::hints::{Event, gpus_of, helps, most_gpus};
use super::plugins::Plugins;
use dryrack_kubernetes::cluster::{Cluster, PodInfo};
use dryrack_kubernetes::cycle::Plugin;
use dryrack_kubernetes::object::{DisruptionBudget, Node};
use dryrack_units::SimTime;

/// A pod with the label `app` that states this in its specification.
fn pod(name: &str, app: &str, spec: Value) -> Arc<PodInfo> {
    let manifest = json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": app}}, "spec": spec});
    Arc::new(PodInfo::new(serde_json::from_value(manifest).expect("a pod")))
}

/// A pod that requests this.
fn asking(name: &str, requests: Value) -> Arc<PodInfo> {
    pod(name, "a", json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}))
}

/// A node with 8 cores, 32 GiB and four GPUs, changed by this.
fn node(name: &str, change: impl FnOnce(&mut Value)) -> Node {
    let mut manifest = json!({
        "metadata": {"name": name, "labels": {"zone": "z"}},
        "spec": {},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "4"}},
    });
    change(&mut manifest);
    serde_json::from_value(manifest).expect("a node")
}

fn cluster(change: impl FnOnce(&mut Value)) -> Cluster {
    Cluster::new(vec![node("n0", change)]).expect("one node")
}

/// Whether the new node may help a pod that this plugin refused.
fn new_node_helps(plugin: Plugin, pod: &PodInfo, change: impl FnOnce(&mut Value)) -> bool {
    helps(pod, Plugins::of(&[plugin]), &Event::NodeAdded(0), &cluster(change))
}

#[test]
fn a_node_helps_a_pod_that_the_plugin_would_admit_to_it() {
    use Plugin::{
        InterPodAffinity, NodeAffinity, NodeName, NodePorts, NodeResourcesFit, NodeUnschedulable, TaintToleration,
    };
    let plain = asking("p", json!({"cpu": "1"}));
    let same = |_: &mut Value| ();
    let cordoned = |node: &mut Value| node["spec"]["unschedulable"] = json!(true);
    assert!(new_node_helps(NodeUnschedulable, &plain, same) && !new_node_helps(NodeUnschedulable, &plain, cordoned));
    let named = |name: &str| pod("p", "a", json!({"nodeName": name}));
    assert!(new_node_helps(NodeName, &plain, same) && new_node_helps(NodeName, &named("n0"), same));
    assert!(!new_node_helps(NodeName, &named("n1"), same));
    let tainted = |node: &mut Value| node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    let tolerant = pod("p", "a", json!({"tolerations": [{"key": "k", "operator": "Exists"}]}));
    assert!(!new_node_helps(TaintToleration, &plain, tainted) && new_node_helps(TaintToleration, &tolerant, tainted));
    let in_zone = |zone: &str| pod("p", "a", json!({"nodeSelector": {"zone": zone}}));
    assert!(new_node_helps(NodeAffinity, &in_zone("z"), same) && !new_node_helps(NodeAffinity, &in_zone("y"), same));
    assert!(new_node_helps(NodePorts, &plain, same) && new_node_helps(InterPodAffinity, &plain, same));
    for (requests, fits) in [
        (json!({"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"}), true),
        (json!({"cpu": "8001m"}), false),
        (json!({"memory": "33Gi"}), false),
        (json!({"ephemeral-storage": "1Gi"}), false),
        (json!({"nvidia.com/gpu": "5"}), false),
        (json!({"example.com/fpga": "1"}), false),
    ] {
        assert_eq!(new_node_helps(NodeResourcesFit, &asking("p", requests.clone()), same), fits, "{requests}");
    }
    for plugin in [Plugin::SchedulingGates, Plugin::DefaultPreemption, Plugin::GangScheduling, Plugin::ImageLocality] {
        assert!(!new_node_helps(plugin, &plain, same));
    }
}

#[test]
fn a_changed_node_helps_only_by_what_changed() {
    let plain = asking("p", json!({"cpu": "1"}));
    let spread = |key: &str| {
        let constraint = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}}});
        pod("p", "a", json!({"topologySpreadConstraints": [constraint]}))
    };
    let helped = |plugin, pod: &PodInfo, before: fn(&mut Value), now: fn(&mut Value)| {
        let before = cluster(before);
        helps(pod, Plugins::of(&[plugin]), &Event::NodeUpdated(0, &before.node(0).shape), &cluster(now))
    };
    fn same(_: &mut Value) {}
    fn fewer_cores(node: &mut Value) {
        node["status"]["allocatable"]["cpu"] = json!("7");
    }
    fn fewer_pods(node: &mut Value) {
        node["status"]["allocatable"]["pods"] = json!("9");
    }
    fn in_rack(node: &mut Value) {
        node["metadata"]["labels"]["rack"] = json!("r");
    }
    let fit = Plugin::NodeResourcesFit;
    assert!(!helped(fit, &plain, same, same) && !helped(fit, &plain, same, in_rack));
    assert!(helped(fit, &plain, fewer_cores, same) && helped(fit, &plain, fewer_pods, same));
    assert!(!helped(fit, &plain, same, fewer_pods));
    let affinity = Plugin::InterPodAffinity;
    assert!(helped(affinity, &plain, same, in_rack) && !helped(affinity, &plain, fewer_cores, same));
    // The node has the key of the constraint now, or had it before.
    let domains = Plugin::PodTopologySpread;
    assert!(helped(domains, &spread("zone"), same, same) && !helped(domains, &spread("rack"), same, same));
    assert!(helped(domains, &spread("rack"), same, in_rack) && helped(domains, &spread("rack"), in_rack, same));
    // A new or ended pod counts if the constraint selects it, in the same namespace.
    let nodes = cluster(same);
    let of_spread = Plugins::of(&[domains]);
    let counts = |other: &PodInfo| {
        let added = helps(&spread("zone"), of_spread, &Event::PodAdded(other), &nodes);
        assert_eq!(helps(&spread("zone"), of_spread, &Event::PodRemoved(Some(0), other), &nodes), added);
        added
    };
    assert!(counts(&pod("o", "a", json!({}))) && !counts(&pod("o", "b", json!({}))));
    let elsewhere = json!({"metadata": {"name": "o", "namespace": "other", "labels": {"app": "a"}}});
    assert!(!counts(&PodInfo::new(serde_json::from_value(elsewhere).expect("a pod"))));
}

#[test]
fn each_event_is_for_some_plugins() {
    let (plain, nodes) = (asking("p", json!({})), cluster(|_| ()));
    let helped_by = |event: &Event<'_>| -> Vec<Plugin> {
        Plugin::ALL.into_iter().filter(|plugin| helps(&plain, Plugins::of(&[*plugin]), event, &nodes)).collect()
    };
    assert_eq!(helped_by(&Event::NodeRemoved), [Plugin::PodTopologySpread]);
    assert_eq!(helped_by(&Event::ClaimChanged), [Plugin::DynamicResources]);
    assert_eq!(helped_by(&Event::NominationCleared), [Plugin::NodeResourcesFit]);
    // Of a gang, all pods; without one, the pods of no gang.
    assert_eq!(helped_by(&Event::PodCreated(&plain)), [Plugin::GangScheduling]);
    let gang = |group: &str| pod("g", "a", json!({"workloadRef": {"name": "w", "podGroup": group}}));
    let of_gang = |one: &PodInfo, other: &PodInfo| {
        helps(one, Plugins::of(&[Plugin::GangScheduling]), &Event::PodCreated(other), &nodes)
    };
    assert!(of_gang(&gang("x"), &gang("x")) && !of_gang(&gang("x"), &gang("y")) && !of_gang(&gang("x"), &plain));
    let removed: Vec<Plugin> = helped_by(&Event::PodRemoved(Some(0), &plain));
    assert!(removed.contains(&Plugin::DynamicResources) && removed.contains(&Plugin::DefaultPreemption));
    // A nomination holds ports too.
    let with_port = pod("p", "a", json!({"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}));
    assert!(helps(&with_port, Plugins::of(&[Plugin::NodePorts]), &Event::NominationCleared, &nodes));
    for event in [Event::NodeRemoved, Event::ClaimChanged, Event::PodCreated(&plain)] {
        assert_eq!(event.plugins().iter().collect::<Vec<_>>(), helped_by(&event));
    }
}

#[test]
fn a_pod_that_leaves_frees_its_ports_its_affinity_and_its_room() {
    let mut nodes = cluster(|_| ());
    let removed = |plugin, one: &PodInfo, other: &PodInfo, nodes: &Cluster| {
        helps(one, Plugins::of(&[plugin]), &Event::PodRemoved(Some(0), other), nodes)
    };
    let port = |port: u16| pod("p", "a", json!({"containers": [{"name": "c", "ports": [{"hostPort": port}]}]}));
    assert!(removed(Plugin::NodePorts, &port(80), &port(80), &nodes));
    assert!(!removed(Plugin::NodePorts, &port(80), &port(81), &nodes));
    let term = |app: &str| json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}]);
    let required = |kind: &str, own: &str, app: &str| {
        pod("p", own, json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": term(app)}}}))
    };
    let plain = |app: &str| pod("o", app, json!({}));
    let affinity = Plugin::InterPodAffinity;
    assert!(removed(affinity, &required("podAntiAffinity", "a", "b"), &plain("b"), &nodes));
    assert!(removed(affinity, &plain("b"), &required("podAntiAffinity", "a", "b"), &nodes));
    assert!(!removed(affinity, &required("podAntiAffinity", "a", "b"), &plain("c"), &nodes));
    let added = |one: &PodInfo, other: &PodInfo| helps(one, Plugins::of(&[affinity]), &Event::PodAdded(other), &nodes);
    assert!(added(&required("podAffinity", "a", "b"), &plain("b")));
    assert!(!added(&required("podAffinity", "a", "b"), &plain("c")));
    // 6 of 8 cores and 3 of 4 GPUs are held, by a pod of priority 0.
    let held = asking("h", json!({"cpu": "6", "memory": "8Gi", "nvidia.com/gpu": "3"}));
    nodes.place(held, "n0", None).expect("the node");
    let wants = |priority: i32, policy: &str, requests: Value| {
        let containers = json!([{"name": "c", "resources": {"requests": requests}}]);
        let one = pod("p", "a", json!({"priority": priority, "preemptionPolicy": policy, "containers": containers}));
        removed(Plugin::NodeResourcesFit, &one, &one, &nodes)
    };
    let lower = "PreemptLowerPriority";
    for (requests, has_room) in [
        (json!({"cpu": "2", "memory": "24Gi", "nvidia.com/gpu": "1"}), true),
        (json!({"cpu": "2001m"}), false),
        (json!({"memory": "25Gi"}), false),
        (json!({"nvidia.com/gpu": "2"}), false),
        (json!({"ephemeral-storage": "1"}), false),
    ] {
        assert_eq!(wants(0, lower, requests.clone()), has_room, "{requests}");
    }
    assert!(wants(1, lower, json!({"cpu": "8", "nvidia.com/gpu": "4"})) && !wants(1, "Never", json!({"cpu": "8"})));
    assert!(!wants(1, lower, json!({"cpu": "9"})));
    let one = asking("p", json!({"cpu": "1"}));
    let fit = Plugins::of(&[Plugin::NodeResourcesFit]);
    assert!(!helps(&one, fit, &Event::PodRemoved(None, &one), &nodes));
    nodes.nominations.nominate(&one, &"n0".into());
    assert!(helps(&one, fit, &Event::PodRemoved(None, &one), &nodes));
}

#[test]
fn a_pod_with_more_gpus_than_a_node_frees_is_not_tried() {
    let mut nodes = cluster(|node| node["status"]["allocatable"]["amd.com/gpu"] = json!("2"));
    let held = asking("h", json!({"nvidia.com/gpu": "3"}));
    nodes.place(Arc::clone(&held), "n0", None).expect("the node");
    assert_eq!((gpus_of(&held), gpus_of(&asking("p", json!({"cpu": "4"})))), (3, 0));
    assert_eq!(gpus_of(&asking("p", json!({"nvidia.com/gpu": "1", "amd.com/gpu": "2", "example.com/nic": "8"}))), 3);
    let most = |event: &Event<'_>, highest| most_gpus(event, highest, &nodes);
    let removed = Event::PodRemoved(Some(0), &held);
    // One of four and two of two are free. A pod of priority 1 may preempt the other.
    assert_eq!([None, Some(0), Some(1)].map(|highest| most(&removed, highest)), [3, 3, 6]);
    assert_eq!(most(&Event::PodRemoved(None, &held), Some(1)), 0);
    assert_eq!(most(&Event::ClaimChanged, Some(1)), u64::MAX);
}

#[test]
fn a_budget_follows_the_pods_from_one_instant_to_the_next() {
    let budget = |app: &str, limit: Value| -> DisruptionBudget {
        let mut spec = json!({"selector": {"matchLabels": {"app": app}}});
        spec.as_object_mut().expect("a map").extend(limit.as_object().expect("a map").clone());
        let manifest = json!({"metadata": {"name": app, "namespace": "default"}, "spec": spec,
            "status": {"disruptionsAllowed": 5}});
        serde_json::from_value(manifest).expect("a budget")
    };
    let stated =
        [budget("a", json!({"minAvailable": 2})), budget("b", json!({"maxUnavailable": 1})), budget("a", json!({}))];
    let mut nodes = cluster(|_| ());
    stated.iter().cloned().for_each(|budget| nodes.add_budget(budget));
    let mut budgets = Budgets::new(stated.into_iter().map(|budget| budget.spec));
    let at = |seconds: u64| SimTime::from_nanos(seconds * 1_000_000_000);
    let allowed = |nodes: &Cluster| nodes.budgets.iter().map(|budget| budget.disruptions_allowed).collect::<Vec<_>>();
    let pods: Vec<_> = [("a", 0), ("a", 1), ("a", 2), ("b", 3), ("b", 4), ("c", 5)]
        .map(|(app, number)| (number, pod(&format!("p{number}"), app, json!({}))))
        .into();
    for (replica, pod) in &pods {
        budgets.expect(*replica, pod, &nodes);
        budgets.count_as_healthy(*replica, pod);
    }
    // At the first instant, the numbers are those that were stated.
    assert_eq!((budgets.follow(at(0), &mut nodes), allowed(&nodes)), (0, vec![5, 5, 5]));
    // Three of the first with at least two, and two of the second with at least one.
    assert_eq!((budgets.follow(at(1), &mut nodes), allowed(&nodes)), (2, vec![1, 1, 5]));
    budgets.no_longer_healthy(&pods[0].1.key);
    budgets.no_longer_healthy(&pods[0].1.key);
    // Only once at each instant.
    assert_eq!((budgets.follow(at(1), &mut nodes), allowed(&nodes)), (0, vec![1, 1, 5]));
    assert_eq!((budgets.follow(at(2), &mut nodes), allowed(&nodes)), (1, vec![0, 1, 5]));
    // One pod of the second is expected no longer, but still runs; then it ends.
    budgets.no_longer_expect(3);
    budgets.no_longer_expect(3);
    assert_eq!((budgets.follow(at(3), &mut nodes), allowed(&nodes)), (1, vec![0, 2, 5]));
    budgets.no_longer_healthy(&pods[3].1.key);
    assert_eq!((budgets.follow(at(4), &mut nodes), allowed(&nodes)), (1, vec![0, 1, 5]));
    // A pod that is counted again is not counted twice, nor is one that nobody expects.
    budgets.expect(0, &pods[0].1, &nodes);
    budgets.count_as_healthy(0, &pods[0].1);
    budgets.count_as_healthy(0, &pods[0].1);
    budgets.count_as_healthy(9, &pods[3].1);
    assert_eq!((budgets.follow(at(5), &mut nodes), allowed(&nodes)), (1, vec![1, 1, 5]));
}
