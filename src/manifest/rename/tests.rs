//! Renaming changes no decision, and leaves no name behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_kubernetes::cluster::{Cluster as Rules, PodInfo};
use dryrack_kubernetes::cycle::{self, Outcome, Profile, Start};
use dryrack_kubernetes::devices::Devices;
use dryrack_kubernetes::plugins::gang_scheduling::Permit;

use super::NewNames;
use crate::api::Seconds;
use crate::shape::Named;
use crate::tests::{recorded, without_errors};
use crate::{Cluster, Manifests, Object};

/// What is decided about a pod: its key, the best nodes, the number of refusing nodes, and a fault.
type Decided = (Arc<str>, Vec<Arc<str>>, usize, String);

/// The decisions of the rules of kube-scheduler about all pods, one after the other.
fn decisions(cluster: Cluster) -> Vec<Decided> {
    let nodes = cluster.nodes.into_iter().map(|(node, _)| node).collect();
    let mut rules = Rules::new(nodes).expect("all names differ");
    rules.devices = Devices::new(cluster.device_classes, cluster.slices, cluster.claims);
    rules.gangs.is_enabled = true;
    cluster.namespaces.into_iter().for_each(|namespace| rules.add_namespace(namespace));
    cluster.services.into_iter().for_each(|service| rules.owners.add_service(service));
    cluster.budgets.into_iter().for_each(|budget| rules.add_budget(budget.budget));
    cluster.workloads.into_iter().for_each(|workload| rules.gangs.add_workload(workload));
    let (bound, mut waiting): (Vec<_>, Vec<_>) =
        cluster.pods.into_iter().map(|stated| stated.pod).partition(|pod| pod.spec.node_name.is_some());
    for pod in bound {
        let (node, start) = (pod.spec.node_name.clone().expect("it is bound"), pod.status.start_time);
        rules.place(Arc::new(PodInfo::new(pod)), &node, start).expect("a node of the cluster");
    }
    waiting.sort_by_key(|pod| pod.metadata.key());
    let pods: Vec<Arc<PodInfo>> = waiting.into_iter().map(|pod| Arc::new(PodInfo::new(pod))).collect();
    pods.iter().for_each(|pod| rules.gangs.know(pod));
    let mut found = Vec::new();
    for (number, pod) in pods.iter().enumerate() {
        if let Err(refusal) = cycle::pre_enqueue(pod, &rules, &Profile::v1_35()) {
            found.push((Arc::clone(&pod.key), Vec::new(), 0, format!("{:?}", refusal.code)));
            continue;
        }
        let decision = cycle::schedule(pod, &mut rules, &Profile::v1_35(), Start::default());
        let rejected = decision.rejected.len();
        match decision.outcome {
            Outcome::Fits { best } => {
                let mut names: Vec<Arc<str>> =
                    best.iter().map(|(index, _)| Arc::clone(rules.node(*index).name())).collect();
                names.sort();
                let name = Arc::clone(&names[0]);
                let index = rules.find(&name).expect("a node");
                let devices = best.into_iter().find(|(known, _)| *known == index).and_then(|(_, devices)| devices);
                if let Permit::Allowed { .. } = cycle::reserve(pod, &name, &mut rules) {
                    cycle::bind(pod, &name, Seconds(number as i64), devices, &mut rules);
                }
                found.push((Arc::clone(&pod.key), names, rejected, String::new()));
            }
            Outcome::Unschedulable { .. } => found.push((Arc::clone(&pod.key), Vec::new(), rejected, String::new())),
            Outcome::Failed { .. } => found.push((Arc::clone(&pod.key), Vec::new(), rejected, "failed".to_string())),
        }
    }
    found
}

fn renamed(manifests: &Manifests) -> (NewNames, String) {
    let names = NewNames::of(&manifests.objects);
    let objects: Vec<Object> = manifests.objects.iter().map(|object| names.apply(object)).collect();
    (names, crate::text(&objects))
}

/// A third of the recorded clusters of kube-scheduler, of all classes: taints, affinity, spreading, ports, images, preemption, devices and gangs.
#[test]
fn decisions_are_the_same_under_other_names() {
    let mut decided = 0;
    for world in recorded().into_iter().step_by(3) {
        let (manifests, cluster) = without_errors(&world);
        let (names, written) = renamed(&manifests);
        let (_, other) = without_errors(&written);
        let before = decisions(cluster);
        let after = decisions(other);
        let node = |name: &Arc<str>| names.new_name(Named::Node, name).map_or(Arc::clone(name), Arc::from);
        let pod = |key: &Arc<str>| {
            let (namespace, name) = key.split_once('/').expect("a key");
            let part = |named, text: &str| names.new_name(named, text).unwrap_or(text).to_string();
            Arc::<str>::from(format!("{}/{}", part(Named::Namespace, namespace), part(Named::Workload, name)))
        };
        let translated: Vec<_> = before
            .iter()
            .map(|(key, nodes, rejected, fault)| {
                (pod(key), nodes.iter().map(node).collect::<Vec<_>>(), *rejected, fault.clone())
            })
            .collect();
        assert_eq!(translated, after, "{world}");
        decided += after.len();
    }
    assert!(decided > 200, "{decided}");
}

/// Words that someone chose are in no written file.
#[test]
fn no_name_is_left_behind() {
    let text = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: zeus-01, labels: {kubernetes.io/hostname: zeus-01, zeus.corp/rack: r7,
   nvidia.com/gpu.product: NVIDIA-A100, topology.kubernetes.io/zone: berlin}},
   spec: {taints: [{key: zeus.corp/team, value: vision, effect: NoSchedule}]},
   status: {allocatable: {cpu: 8, zeus.corp/fpga: 2, nvidia.com/gpu: 8}, images: [{names: [zeus.corp/train], sizeBytes: 9}]}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: chatbot, namespace: vision, labels: {owner: alice}, annotations: {dryrack/duration: 5m}}
  spec:
    replicas: 2
    selector: {matchLabels: {app: chatbot}}
    template:
      metadata: {labels: {app: chatbot}}
      spec:
        priorityClassName: urgent
        schedulerName: zeus-scheduler
        nodeSelector: {zeus.corp/rack: r7}
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - {matchFields: [{key: metadata.name, operator: In, values: [zeus-01]}]}
              - {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [zeus-01]}]}
          podAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: zeus.corp/rack, namespaces: [vision], labelSelector: {matchExpressions: [
               {key: app, operator: In, values: [chatbot]}]}}
        resourceClaims: [{name: alicegpu, resourceClaimName: aliceclaim}]
        containers:
        - {name: chatbot, image: 'zeus.corp/train:latest', ports: [{hostPort: 80, hostIP: 10.9.8.7}],
           resources: {limits: {zeus.corp/fpga: 1, nvidia.com/gpu: 1}}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: urgent}, value: 10}
- {apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: aliceclaim, namespace: vision}, spec: {devices: {
   requests: [{name: alicereq, exactly: {deviceClassName: aliceclass}}],
   constraints: [{requests: [alicereq], matchAttribute: gpu.zeus.corp/numa}]}}}
- {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: aliceclass}, spec: {selectors: [{cel: {expression:
   'device.driver == \"gpu.zeus.corp\" && device.attributes[\"gpu.zeus.corp\"].uuid == \"GPU-alice\"'}}]}}
- {apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: zeus-slice}, spec: {driver: gpu.zeus.corp,
   nodeName: zeus-01, pool: {name: zeus-01, resourceSliceCount: 1}, devices: [{name: zeusdev, attributes: {
   uuid: {string: GPU-alice}, gpu.zeus.corp/numa: {int: 0}}}]}}
";
    let (manifests, _) = without_errors(text);
    let (names, written) = renamed(&manifests);
    for word in ["zeus", "alice", "chatbot", "vision", "berlin", "urgent", "r7", "10.9.8.7", "corp"] {
        assert!(!written.contains(word), "{word} is left:\n{written}");
    }
    for kept in ["nvidia.com/gpu: \"8\"", "NVIDIA-A100", "kubernetes.io/hostname: node-1", "dryrack/duration", "uuid"] {
        assert!(written.contains(kept), "{kept} is gone:\n{written}");
    }
    // The owner can translate every new name back.
    let table: BTreeMap<(&str, &str), &str> = names.table().map(|(what, old, new)| ((what, new), old)).collect();
    assert_eq!(table.len(), names.table().count());
    assert_eq!(table[&("node", "node-1")], "zeus-01");
    assert_eq!(table[&("image", "image-1:1")], "zeus.corp/train:latest");
}

/// A cluster whose names look like those of Kubernetes and of vendors.
const LIKE_WELL_KNOWN: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {nvidia.com/mig.config: acme-layout,
   nvidia.com/device-plugin.config: acme-plugin, amd.com/gpu.family: acmefam, node.kubernetes.io/instance-type: acme-metal,
   node-role.kubernetes.io/acme-team: '', kubernetes.io/acme: acmex, nvidia.com/gpu.product: NVIDIA-A100,
   node-role.kubernetes.io/control-plane: ''}},
   spec: {taints: [{key: nvidia.com/gpu, value: acme-reserved, effect: NoSchedule},
   {key: node.kubernetes.io/acmeteam, effect: NoSchedule}, {key: node.kubernetes.io/not-ready, effect: NoSchedule}]},
   status: {allocatable: {cpu: 8, nvidia.com/acme-gpu: 2, nvidia.com/mig-1g.10gb: 3}}}
- {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default, ownerReferences: [
   {apiVersion: acme.corp/v1, kind: AcmeKind, name: r, uid: u, controller: true}]},
   spec: {runtimeClassName: rc, containers: [{name: c, image: i, resources: {limits: {nvidia.com/acme-gpu: 1}}}]}}
- {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: rc}, handler: acmehandler}
- apiVersion: resource.k8s.io/v1
  kind: DeviceClass
  metadata: {name: c}
  spec:
    selectors:
    - cel:
        expression: |-
          EXPRESSION
- {apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: gpu.acme.com,
   nodeName: n1, pool: {name: p, resourceSliceCount: 1}, devices: [{name: d, attributes: {
   model: {string: acmemodel}, productName: {string: NVIDIA A100-SXM4-80GB}}}]}}
";

/// The cluster with this expression.
fn with_expression(expression: &str) -> Manifests {
    crate::tests::read(&LIKE_WELL_KNOWN.replace("EXPRESSION", expression)).0
}

#[test]
fn names_that_look_well_known_are_replaced() {
    let manifests = with_expression(
        "device.driver == 'gpu.acme.com' && device.attributes['gpu.acme.com'].model in ['acmemodel', 'acmeother'] && \
         device.attributes['gpu.acme.com'].productName.startsWith('NVIDIA') // acme's",
    );
    let (names, written) = renamed(&manifests);
    assert!(!written.to_lowercase().contains("acme"), "{written}");
    let kept = [
        "NVIDIA-A100",
        "node-role.kubernetes.io/control-plane",
        "nvidia.com/mig-1g.10gb",
        "node.kubernetes.io/not-ready",
        "key: nvidia.com/gpu",
        "NVIDIA A100-SXM4-80GB",
        // A device of such a driver counts as a GPU.
        "driver: gpu.driver-1.example",
    ];
    for kept in kept {
        assert!(written.contains(kept), "{kept} is gone:\n{written}");
    }
    assert!(names.untranslatable(&manifests.objects).is_empty());
    // The expression and the device have the same new name.
    let model = names.new_name(Named::AttributeText, "acmemodel").expect("it is replaced");
    assert_eq!(written.matches(model).count(), 2, "{written}");
}

#[test]
fn expressions_that_cannot_be_translated_are_told() {
    let told = |expression: &str| {
        let manifests = with_expression(expression);
        let found = NewNames::of(&manifests.objects).untranslatable(&manifests.objects);
        found.into_iter().map(|(_, message)| message).collect::<Vec<_>>()
    };
    for expression in [
        "device.driver.endsWith('acme.com')",
        "device.attributes['gpu.acme.com'].model.startsWith('acmem')",
        "device.attributes['gpu.acme.com'].model.matches(r'acme.*')",
        "device.attributes['gpu.acme.com'].model.lowerAscii().contains('odel')",
        "device.attributes['gpu.acme.com'].model == 'acme' + 'model'",
        r"device.attributes['gpu.acme.com'].model == 'acm\x65model'",
        "'acmemodel and more'.startsWith(device.attributes['gpu.acme.com'].model)",
        // Holds only for the old name.
        "device.driver.endsWith('.com')",
    ] {
        let found = told(expression);
        assert_eq!(found.len(), 1, "{expression}: {found:?}");
        assert!(found[0].contains(expression) && found[0].contains("DeviceClass c"), "{found:?}");
    }
    for expression in [
        "device.driver == 'gpu.acme.com' // it's ours",
        "device.driver.startsWith('gpu.')",
        "device.attributes['gpu.acme.com'].productName.contains('A100')",
        "device.capacity['gpu.acme.com'].memory.isGreaterThan(quantity('40Gi'))",
        "['acmemodel', '''acmeother'''].exists(each, each == device.attributes['gpu.acme.com'].model)",
    ] {
        assert_eq!(told(expression), Vec::<String>::new(), "{expression}");
    }
}

#[test]
fn new_names_are_in_the_order_of_the_old_ones() {
    let rows: [(Named, &[&str]); 4] = [
        (Named::Node, &["b", "a", "a-1", "a1", "B", "z9", "z10"]),
        (Named::Namespace, &["alpha", "default", "dev", "kube-router", "kube-system", "zeta", "a", "a-b"]),
        (Named::Workload, &["train", "train-0", "train10", "x"]),
        (Named::Image, &["a:1", "b/c:2", "a-b:1"]),
    ];
    for (named, names) in rows {
        let is_kept = |name: &&&str| super::well_known::is_kept(named, name);
        let kept: Vec<String> = names.iter().filter(is_kept).map(ToString::to_string).collect();
        let changed = names.iter().filter(|name| !is_kept(name)).map(ToString::to_string).collect();
        let given = super::numbered(named, changed, &kept);
        let mut old: Vec<&str> = names.to_vec();
        let key = |name: &str| if named == Named::Namespace { format!("{name}/") } else { name.to_string() };
        old.sort_by_key(|name| key(name));
        let new: Vec<&str> = old.iter().map(|name| given.get(*name).map_or(*name, String::as_str)).collect();
        let mut sorted = new.clone();
        sorted.sort_by_key(|name| key(name));
        assert_eq!(new, sorted, "{old:?}");
        assert_eq!(new.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
    }
}
