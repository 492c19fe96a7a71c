//! Nodes and pods of a Kubernetes cluster, from `kubectl get nodes,pods -o json`. This needs no client library, and
//! works for every cluster for which kubectl is configured.
//!
//! The resources of a node are its `capacity`. The part of it that is not `allocatable` belongs to the system; it
//! counts as used, so that it stays visible. The requests of the pods on the node, except finished pods, count as used
//! too. A pod's request is computed as in Kubernetes' scheduler: the larger of the sum over its containers and the
//! largest of its init containers.
//!
//! GPUs are resources such as `nvidia.com/gpu`. The answer does not say which GPUs a pod has, so the first free ones of
//! the node are marked. Labels of NVIDIA's GPU feature discovery (`nvidia.com/gpu.product`, `.memory` in MiB) state the
//! type of the GPUs.

use std::ffi::OsString;

use serde_json::Value;

use super::command::{Command, Limits};
use super::gpustack::arch_of;
use super::missing::{Missing, shown};
use super::snapshot::{GpuSnapshot, NodeSnapshot, Reading, Snapshot};
use super::{Probe, json, number};
use crate::clock::{Clock, Deadline, Stamp};
use dryrack_catalog::{Os, Vendor};
use dryrack_fleet::NodeState;
use dryrack_units::{Bytes, GpuShare, MilliCpu};

/// Resources that count whole GPUs, with their vendors.
const GPUS: [(&str, Vendor); 3] =
    [("nvidia.com/gpu", Vendor::Nvidia), ("amd.com/gpu", Vendor::Amd), ("habana.ai/gaudi", Vendor::Intel)];

pub struct Kubernetes {
    kubectl: OsString,
    /// The arguments that choose a cluster.
    cluster: Vec<OsString>,
}

/// The kinds of objects of a whole cluster, in the words of `kubectl api-resources`. Without the first two, there is no
/// cluster to rehearse.
const OBJECTS: [&str; 26] = [
    "nodes",
    "pods",
    "namespaces",
    "services",
    "priorityclasses.scheduling.k8s.io",
    "runtimeclasses.node.k8s.io",
    "poddisruptionbudgets.policy",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "jobsets.jobset.x-k8s.io",
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "deviceclasses.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "workloads.scheduling.k8s.io",
    "clusterqueues.kueue.x-k8s.io",
    "localqueues.kueue.x-k8s.io",
    "cohorts.kueue.x-k8s.io",
    "resourceflavors.kueue.x-k8s.io",
    "topologies.kueue.x-k8s.io",
    "workloadpriorityclasses.kueue.x-k8s.io",
    "workloads.kueue.x-k8s.io",
];
const NEEDED: usize = 2;
/// The largest answer about one kind of objects in bytes.
const MOST_OBJECTS: usize = 512 << 20;

/// The objects of a cluster.
#[derive(Debug, Default)]
pub struct FoundObjects {
    /// The answer of kubectl for each kind, with the command.
    pub texts: Vec<(String, String)>,
    /// Kinds that kubectl could not list, and why.
    pub notes: Vec<String>,
}

impl Default for Kubernetes {
    fn default() -> Kubernetes {
        Kubernetes::at("kubectl")
    }
}

impl Kubernetes {
    /// A probe that runs this kubectl.
    pub fn at(kubectl: impl Into<OsString>) -> Kubernetes {
        Kubernetes { kubectl: kubectl.into(), cluster: Vec::new() }
    }

    /// A probe of the cluster that the options choose.
    pub fn of(options: &super::SourceOptions) -> Kubernetes {
        let mut probe = Kubernetes::default();
        if let Some(context) = &options.context {
            probe.cluster.extend([OsString::from("--context"), OsString::from(context)]);
        }
        if let Some(path) = &options.kubeconfig {
            probe.cluster.extend([OsString::from("--kubeconfig"), path.clone().into_os_string()]);
        }
        probe
    }

    fn ask(&self, words: &[&str], limits: Limits) -> Result<String, Missing> {
        Command::new(&self.kubectl).args(self.cluster.iter().cloned()).args(words.iter().copied()).output(limits)
    }

    /// All objects of the cluster that matter to a rehearsal. Kinds that the cluster does not have are left out.
    ///
    /// # Errors
    /// If kubectl cannot list nodes and pods.
    pub fn objects(&self, deadline: Deadline) -> Result<FoundObjects, Missing> {
        let limits = Limits { deadline, most_bytes: MOST_OBJECTS };
        let known = self.ask(&["api-resources", "--verbs=list", "-o", "name"], limits);
        // No time is left for the rest.
        if let Err(missing @ Missing::TimedOut { .. }) = known {
            return Err(missing);
        }
        let is_known = |kind: &str| known.as_ref().is_ok_and(|known| known.lines().any(|line| line.trim() == kind));
        let mut found = FoundObjects::default();
        for (index, kind) in OBJECTS.iter().enumerate() {
            let is_needed = index < NEEDED;
            if !is_needed && !is_known(kind) {
                continue;
            }
            let answer = self.ask(&["get", kind, "--all-namespaces", "-o", "json"], limits);
            match answer {
                Ok(text) => found.texts.push((format!("kubectl get {kind}"), text)),
                Err(missing) if is_needed => return Err(missing),
                Err(missing) => found.notes.push(format!("left out: {kind}: {missing}")),
            }
        }
        if let Err(missing) = known {
            found.notes.push(format!("left out: all kinds but nodes and pods: {missing}"));
        }
        Ok(found)
    }
}

impl Probe for Kubernetes {
    fn source(&self) -> String {
        "kubectl".to_string()
    }

    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Missing> {
        let limits = Limits { deadline, most_bytes: 64 << 20 };
        let ask = |kind: &[&str]| {
            let text = self.ask(&[&["get"], kind, &["-o", "json"]].concat(), limits);
            json::parse(&text?, &format!("kubectl get {}", kind[0]))
        };
        let nodes = ask(&["nodes"])?;
        let pods = ask(&["pods", "--all-namespaces"])?;
        read(&nodes, &pods, clock.now())
    }
}

pub fn read(nodes: &Value, pods: &Value, at: Stamp) -> Result<Snapshot, Missing> {
    let nodes = json::list(nodes, "items", "kubectl get nodes")?;
    let pods = json::list(pods, "items", "kubectl get pods")?;
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for node in nodes {
        let mut node = self::node(node, at)?;
        for pod in pods.iter().filter(|pod| is_running(pod)) {
            if json::text(&pod["spec"], "nodeName") == Some(&node.name) {
                hold(pod, &mut node, &mut notes);
            }
        }
        found.push(node);
    }
    Ok(Snapshot { nodes: found, notes })
}

fn is_running(pod: &Value) -> bool {
    !matches!(json::text(&pod["status"], "phase"), Some("Succeeded" | "Failed"))
}

fn node(value: &Value, at: Stamp) -> Result<NodeSnapshot, Missing> {
    let what = "kubectl get nodes";
    let name = json::text(&value["metadata"], "name")
        .ok_or_else(|| Missing::malformed(what, 1, "a node with a name", &value.to_string()))?;
    let mut node = NodeSnapshot::named(name, at, what);
    let labels = &value["metadata"]["labels"];
    let (all, ours) = (&value["status"]["capacity"], &value["status"]["allocatable"]);
    node.state = state(value);
    node.os = json::text(labels, "kubernetes.io/os").and_then(|os| os.parse::<Os>().ok());
    node.arch = json::text(labels, "kubernetes.io/arch").and_then(arch_of);
    node.driver = json::text(labels, "nvidia.com/cuda.driver-version.full").map(str::to_string);
    for key in ["topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"] {
        node.labels.extend(json::text(labels, key).map(|value| (key.to_string(), value.to_string())));
    }
    node.cpu = quantity(all, "cpu", what).map(milli);
    node.cpu_used = difference(all, ours, "cpu", what).map(milli);
    node.ram = quantity(all, "memory", what).and_then(|bytes| number::memory(bytes, 1));
    node.ram_used = difference(all, ours, "memory", what).and_then(|bytes| number::memory(bytes, 1));
    for (resource, vendor) in GPUS {
        // `allocatable` leaves out unhealthy GPUs.
        let Ok(count) = quantity(ours, resource, what) else { continue };
        let first = node.gpus.len() as u32;
        for index in 0..(count.clamp(0.0, 1024.0) as u32) {
            let mut gpu = GpuSnapshot::numbered(first + index, at, what);
            gpu.vendor = Some(vendor);
            if vendor == Vendor::Nvidia {
                let product = json::text(labels, "nvidia.com/gpu.product").map(str::to_string);
                gpu.name = product.ok_or_else(|| Missing::unsaid(what));
                gpu.memory =
                    json::figure(labels, "nvidia.com/gpu.memory", what).and_then(|mib| number::memory(mib, 1 << 20));
                let part = |part: &str| json::text(labels, &format!("nvidia.com/gpu.compute.{part}"));
                gpu.compute_capability =
                    part("major").zip(part("minor")).and_then(|(a, b)| format!("{a}.{b}").parse().ok());
            }
            node.gpus.push(gpu);
        }
    }
    Ok(node)
}

fn state(node: &Value) -> NodeState {
    if node["spec"]["unschedulable"] == Value::Bool(true) {
        return NodeState::Maintenance;
    }
    let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    match conditions.iter().find(|condition| condition["type"] == "Ready").and_then(|ready| json::text(ready, "status"))
    {
        Some("True") => NodeState::Ready,
        // The cluster has not heard from the node's kubelet for a while.
        Some("Unknown") => NodeState::Unreachable,
        Some(_) => NodeState::NotReady,
        None => NodeState::Joining,
    }
}

/// Marks the resources that a pod requests as used on its node.
fn hold(pod: &Value, node: &mut NodeSnapshot, notes: &mut Vec<String>) {
    let name = |key: &str| json::text(&pod["metadata"], key).unwrap_or("?");
    let holder = format!("{}/{}", name("namespace"), name("name"));
    let cpu = request(pod, "cpu");
    let ram = request(pod, "memory");
    node.cpu_used = node.cpu_used.clone().map(|used| MilliCpu::new(used.get().saturating_add(milli(cpu).get())));
    node.ram_used = node.ram_used.clone().map(|used| Bytes::new(used.get().saturating_add(ram as u64)));
    for (resource, vendor) in GPUS {
        let mut wanted = request(pod, resource) as u64;
        for gpu in node.gpus.iter_mut().filter(|gpu| gpu.vendor == Some(vendor) && gpu.held == GpuShare::ZERO) {
            if wanted > 0 {
                (gpu.held, gpu.holder) = (GpuShare::WHOLE, Some(holder.clone()));
                wanted -= 1;
            }
        }
        if wanted > 0 {
            notes.push(format!("{holder} holds {wanted} more of {resource} than {} has", node.name));
        }
    }
}

/// The amount of a resource that Kubernetes' scheduler counts for a pod.
fn request(pod: &Value, resource: &str) -> f64 {
    let of = |container: &Value| {
        let what = "kubectl get pods";
        let resources = &container["resources"];
        let asked = quantity(&resources["requests"], resource, what);
        // A limit without a request also acts as the request.
        asked.or_else(|_| quantity(&resources["limits"], resource, what)).unwrap_or(0.0).max(0.0)
    };
    let all = |key: &str| pod["spec"][key].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(of);
    let together: f64 = all("containers").sum();
    all("initContainers").fold(together, f64::max)
}

fn milli(cores: f64) -> MilliCpu {
    MilliCpu::new((cores.clamp(0.0, 1e9) * 1000.0).round() as u64)
}

fn difference(all: &Value, ours: &Value, key: &str, what: &str) -> Reading<f64> {
    Ok((quantity(all, key, what)? - quantity(ours, key, what)?).max(0.0))
}

/// Reads a quantity in the form of Kubernetes' API (`2`, `500m`, `16367668Ki`, `1e3`), in its base unit.
pub fn quantity(of: &Value, key: &str, what: &str) -> Reading<f64> {
    let value = of.get(key).filter(|value| !value.is_null()).ok_or_else(|| Missing::unsaid(what))?;
    if let Some(number) = value.as_f64() {
        return number::finite(number);
    }
    const UNITS: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", (1_u64 << 60) as f64),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let text = value.as_str().unwrap_or_default();
    let malformed = || Missing::malformed(what, 1, "a quantity such as 500m or 16Gi", &shown(&value.to_string()));
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, factor) = unit.map_or((text, 1.0), |(unit, factor)| (&text[..text.len() - unit.len()], *factor));
    if !digits.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return Err(malformed());
    }
    number::finite(digits.parse::<f64>().map_err(|_| malformed())? * factor)
}
