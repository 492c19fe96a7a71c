//! Pods and nodes as the scheduler reads them, made of jobs and nodes.
//!
//! A job or node that states its own Kubernetes object keeps it. For any other job, the pod requests what the demand
//! asks for, with the labels of NVIDIA's GPU feature discovery for the model and memory of its GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_catalog::{CpuArch, Vendor};
use dryrack_fleet::{
    DeviceName, Fleet, GpuShape, GpuStatus, Node as FleetNode, NodeClaim, NodeShape, NodeState, Placement,
};
use dryrack_ids::{AttemptId, NodeId};
use dryrack_kubernetes::object::{
    Container, Effect, Labels, Node, NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
    Pod, Quantity, ResourceList, Taint,
};
use dryrack_kueue::objects as kueue;
use dryrack_scheduler::{is_large_enough, is_of_type};
use dryrack_units::{Bytes, GpuShare};
use dryrack_workload::{BeyondPods, Demand, DemandKind, GpuDemand, JobSpec, Pick, TaskDemand};
use smallvec::{SmallVec, smallvec};

const HOSTNAME: &str = "kubernetes.io/hostname";
const OS: &str = "kubernetes.io/os";
const ARCH: &str = "kubernetes.io/arch";
const GPU_PRODUCT: &str = "nvidia.com/gpu.product";
const GPU_MEMORY: &str = "nvidia.com/gpu.memory";
/// The default of the kubelet's `maxPods`.
const PODS: u32 = 110;

fn arch(arch: CpuArch) -> &'static str {
    match arch {
        CpuArch::X86_64 => "amd64",
        CpuArch::Aarch64 => "arm64",
    }
}

/// The resource by which pods request a GPU of this vendor.
fn resource_of(gpu: &GpuShape) -> &'static str {
    match gpu.vendor {
        Some(Vendor::Amd) => "amd.com/gpu",
        Some(Vendor::Intel) => "gpu.intel.com/xe",
        Some(Vendor::Apple) => "apple.com/gpu",
        Some(Vendor::Ascend) => "huawei.com/Ascend910",
        Some(Vendor::Nvidia | Vendor::Tenstorrent) | None => "nvidia.com/gpu",
    }
}

/// Whether a resource stands for whole GPUs, which the ledger holds one by one.
pub fn is_gpu(resource: &str) -> bool {
    matches!(
        resource,
        "nvidia.com/gpu"
            | "amd.com/gpu"
            | "gpu.intel.com/xe"
            | "gpu.intel.com/i915"
            | "apple.com/gpu"
            | "huawei.com/Ascend910"
    )
}

fn quantity(text: String) -> Quantity {
    text.parse().expect("a whole number with a known suffix")
}

/// The pod of an attempt. A later attempt is another pod with another name, as a controller creates it. `is_taken` says
/// whether a pod with this key (`namespace/name`) exists; names of jobs and numbers of replicas may give the same name
/// twice. `models` has the resource of each GPU model of the fleet. `None` if the demand asks for what a pod cannot
/// request.
pub fn pod_of_attempt(
    spec: &JobSpec,
    attempt: AttemptId,
    models: &BTreeMap<Arc<str>, &'static str>,
    fleet: &Fleet,
    is_taken: impl Fn(&Arc<str>) -> bool,
) -> Option<Pod> {
    let mut name = match (spec.replicas, attempt.replica) {
        (1, 0) => spec.name.to_string(),
        (_, number) => format!("{}-{number}", spec.name),
    };
    if attempt.number > 1 {
        name.push_str(&format!("-{}", attempt.number));
    }
    let mut pod = pod_of(spec, name, models)?;
    while is_taken(&pod.metadata.key()) {
        pod.metadata.name = Arc::from(format!("{}-{}", pod.metadata.name, attempt.job.index()));
        pod.metadata.uid = Arc::clone(&pod.metadata.name);
    }
    if attempt.number > 1 {
        pod.spec.node_name = None;
        pod.status.start_time = None;
        pod.metadata.deletion_timestamp = None;
    }
    // The stated claims that are made from templates belong to the first pod of the job alone.
    if (attempt.replica, attempt.number) != (0, 1) {
        let name = Arc::clone(&pod.metadata.name);
        for claim in pod.spec.resource_claims.iter_mut().filter(|claim| claim.resource_claim_template_name.is_some()) {
            claim.resource_claim_name = Some(Arc::from(format!("{name}-{}", claim.name)));
        }
    }
    if let Some(Pick::Nodes(nodes)) = &spec.demand.pick {
        let names = nodes.iter().map(|node| Arc::clone(&fleet.node(*node).name)).collect();
        restrict_to(&mut pod, names);
    }
    Some(pod)
}

/// The pod of one replica, with its name. `None` if the demand asks for what a pod cannot request.
pub fn pod_of(spec: &JobSpec, name: String, models: &BTreeMap<Arc<str>, &'static str>) -> Option<Pod> {
    if beyond_pods(spec).is_some() {
        return None;
    }
    let mut pod = match &spec.pod {
        Some(pod) if has_manifest(spec) => Pod::clone(pod),
        Some(_) | None => of_demand(&spec.demand, models)?,
    };
    // The pod of a job without a manifest states its gang, and how many pods of its application a node may have.
    if let Some(stated) = &spec.pod {
        pod.spec.workload_ref.clone_from(&stated.spec.workload_ref);
        pod.metadata.labels.clone_from(&stated.metadata.labels);
        pod.spec.topology_spread_constraints.clone_from(&stated.spec.topology_spread_constraints);
    }
    pod.metadata.uid = Arc::from(name.as_str());
    // A job has its namespace in its name if another namespace has a pod of the same name.
    let within = name.strip_prefix(&*pod.metadata.namespace()).and_then(|name| name.strip_prefix('/'));
    pod.metadata.name = Arc::from(within.unwrap_or(&name));
    pod.spec.priority.get_or_insert(spec.priority);
    Some(pod)
}

/// What a job asks for that a pod cannot request. A manifest requests what it states, for one task.
pub fn beyond_pods(spec: &JobSpec) -> Option<BeyondPods> {
    let is_of_one_task = spec.demand.task().is_some() && spec.demand.tasks == 1;
    spec.demand.beyond_pods().filter(|_| !(is_of_one_task && has_manifest(spec)))
}

/// Whether the job states its pod. A job without a manifest may state parts of one.
pub fn has_manifest(spec: &JobSpec) -> bool {
    spec.pod.as_ref().is_some_and(|pod| !pod.spec.containers.is_empty())
}

fn of_demand(demand: &Demand, models: &BTreeMap<Arc<str>, &'static str>) -> Option<Pod> {
    let DemandKind::Tasks(task) = &demand.kind else { return None };
    let mut requests = ResourceList::new();
    requests.insert(Arc::from("cpu"), quantity(format!("{}m", task.cpu.get())));
    requests.insert(Arc::from("memory"), quantity(task.ram.get().to_string()));
    let mut terms = NodeSelectorTerm::default();
    if let Some(gpus) = &task.gpus {
        let of_model = gpus.models.iter().find_map(|model| models.get(model).copied());
        let name = of_model.unwrap_or("nvidia.com/gpu");
        requests.insert(Arc::from(name), quantity(gpus.count.to_string()));
        require_gpus(gpus, &mut terms);
    }
    let mut pod = Pod::default();
    let mut container = Container::default();
    container.resources.requests = requests;
    pod.spec.containers = vec![container];
    pod.spec.node_selector = selector_of(task);
    if terms != NodeSelectorTerm::default() {
        pod.spec.affinity.node_affinity.required = Some(NodeSelector { node_selector_terms: vec![terms] });
    }
    Some(pod)
}

fn selector_of(task: &TaskDemand) -> Labels {
    let mut selector = task.labels.clone();
    selector.extend(task.os.map(|os| (Arc::from(OS), Arc::from(os.as_str()))));
    selector.extend(task.arch.map(|wanted| (Arc::from(ARCH), Arc::from(arch(wanted)))));
    selector
}

fn require_gpus(gpus: &GpuDemand, term: &mut NodeSelectorTerm) {
    if !gpus.models.is_empty() {
        term.match_expressions.push(NodeSelectorRequirement {
            key: Arc::from(GPU_PRODUCT),
            operator: NodeSelectorOperator::In,
            values: gpus.models.clone(),
        });
    }
    if let Some(least) = gpus.min_memory {
        let mib = least.get().div_ceil(1 << 20);
        term.match_expressions.push(NodeSelectorRequirement {
            key: Arc::from(GPU_MEMORY),
            operator: NodeSelectorOperator::Gt,
            values: vec![Arc::from((i128::from(mib) - 1).to_string())],
        });
    }
}

/// Restricts a pod to the nodes that were picked by hand.
pub fn restrict_to(pod: &mut Pod, nodes: Vec<Arc<str>>) {
    let field = NodeSelectorRequirement {
        key: Arc::from("metadata.name"),
        operator: NodeSelectorOperator::In,
        values: Vec::new(),
    };
    let required = pod.spec.affinity.node_affinity.required.take();
    let before = required.map_or_else(|| vec![NodeSelectorTerm::default()], |required| required.node_selector_terms);
    let each = |name: &Arc<str>| {
        let field = NodeSelectorRequirement { values: vec![Arc::clone(name)], ..field.clone() };
        before.iter().map(move |term| {
            let mut term = term.clone();
            term.match_fields.push(field.clone());
            term
        })
    };
    let node_selector_terms = nodes.iter().flat_map(each).collect();
    pod.spec.affinity.node_affinity.required = Some(NodeSelector { node_selector_terms });
}

/// Whether a node is a part of the cluster now. Instances of a fleet are not: they are for jobs with `resources`.
pub fn is_in_cluster(node: &FleetNode) -> bool {
    !matches!(node.status.state, NodeState::Joining | NodeState::Gone) && node.shape.instance.is_none()
}

/// What the object of a node depends on: its state, whether it is ready again, the number of its usable GPUs and the RAM
/// in use by others. `None` if the node is not a part of the cluster.
pub type Seen = Option<(NodeState, bool, usize, Bytes)>;

pub fn seen_of(node: &FleetNode) -> Seen {
    let status = &node.status;
    is_in_cluster(node).then(|| (status.state, status.is_ready_again, usable_gpus(node).count(), foreign_ram(node)))
}

/// The node of a cluster. `None` if the node is not a part of the cluster now. `usable` is the number of its GPUs that
/// the device plugin reports.
pub fn node_of(node: &FleetNode, usable: usize) -> Option<Node> {
    if !is_in_cluster(node) {
        return None;
    }
    let shape = &*node.shape;
    let mut object = Node::default();
    if let Some(stated) = &shape.kubernetes {
        object.spec = stated.spec.clone();
        object.status = stated.status.clone();
        object.metadata.annotations = stated.annotations.clone();
        withhold_restricted_cores(shape, &mut object.status.allocatable);
    } else {
        object.status.allocatable = allocatable(shape);
    }
    for (name, amount) in &mut object.status.allocatable {
        if is_gpu(name) {
            *amount = quantity((amount.value().min(usable as i64)).to_string());
        }
    }
    let foreign = foreign_ram(node);
    if let Some(memory) = object.status.allocatable.get_mut("memory").filter(|_| foreign > Bytes::ZERO) {
        *memory = quantity(memory.value().saturating_sub(foreign.get() as i64).max(0).to_string());
    }
    object.metadata.name = Arc::clone(&node.name);
    object.metadata.labels = labels(node);
    if node.status.is_ready_again {
        object.spec.taints.retain(|taint| !taint.is_of_readiness());
    }
    let taint = |key: &str, effect| Taint { key: Arc::from(key), value: Arc::from(""), effect };
    match node.status.state {
        NodeState::Ready | NodeState::Joining | NodeState::Gone => {}
        NodeState::Maintenance => object.spec.unschedulable = true,
        NodeState::NotReady | NodeState::Unreachable => {
            let key = if node.status.state == NodeState::NotReady { Taint::NOT_READY } else { Taint::UNREACHABLE };
            object.spec.taints.extend([Effect::NoSchedule, Effect::NoExecute].map(|effect| taint(key, effect)));
        }
    }
    Some(object)
}

/// The nodes as topology-aware placement sees them: with their allocatable resources, whatever runs on them.
pub(crate) fn kueue_nodes(fleet: &Fleet) -> Vec<kueue::TopologyNode> {
    let of_node = |node: &FleetNode| {
        let object = node_of(node, usable_gpus(node).count())?;
        Some(kueue::TopologyNode {
            name: object.metadata.name,
            labels: object.metadata.labels,
            taints: object.spec.taints,
            capacity: object.status.allocatable,
        })
    };
    fleet.iter().filter_map(|(_, node)| of_node(node)).collect()
}

/// Kubernetes cannot keep cores for the GPUs of a node, so pods do not get such cores at all, whatever the node states.
fn withhold_restricted_cores(shape: &NodeShape, allocatable: &mut ResourceList) {
    let rest = shape.cpu_unrestricted().get() as i64;
    if shape.restricted_cores_per_gpu() > 0
        && let Some(cpu) = allocatable.get_mut("cpu").filter(|cpu| cpu.milli_value() > rest)
    {
        *cpu = quantity(format!("{rest}m"));
    }
}

/// What a node without a manifest has for pods.
fn allocatable(shape: &NodeShape) -> ResourceList {
    let mut list = ResourceList::new();
    list.insert(Arc::from("cpu"), quantity(format!("{}m", shape.cpu_unrestricted().get())));
    let ram = shape.ram.get().saturating_sub(shape.reserved.ram.get());
    list.insert(Arc::from("memory"), quantity(ram.to_string()));
    list.insert(Arc::from("pods"), quantity(PODS.to_string()));
    if let Some(gpu) = reported(shape).first() {
        list.insert(Arc::from(resource_of(gpu)), quantity(reported(shape).len().to_string()));
    }
    list
}

/// The labels of a node, with those that the kubelet and NVIDIA's GPU feature discovery add.
pub(super) fn labels(node: &FleetNode) -> Labels {
    let shape = &*node.shape;
    let mut labels = shape.labels.clone();
    let mut add = |key: &str, value: Arc<str>| {
        labels.entry(Arc::from(key)).or_insert(value);
    };
    add(HOSTNAME, Arc::clone(&node.name));
    add(OS, Arc::from(shape.os.as_str()));
    add(ARCH, Arc::from(arch(shape.arch)));
    if let Some(gpu) = reported(shape).first() {
        add(GPU_PRODUCT, Arc::clone(&gpu.model));
        add(GPU_MEMORY, Arc::from((gpu.memory.get() >> 20).to_string()));
    }
    labels
}

/// The GPUs that pods request by a resource. Other GPUs are devices that pods claim by name.
fn reported(shape: &NodeShape) -> &[GpuShape] {
    &shape.gpus[..shape.gpus_without_devices()]
}

/// The resource of each GPU model of a node.
pub fn models_of(shape: &NodeShape) -> impl Iterator<Item = (Arc<str>, &'static str)> {
    reported(shape).iter().map(|gpu| (Arc::clone(&gpu.model), resource_of(gpu)))
}

/// The indices of the GPUs that the device plugin of a node reports: those in a usable state that nobody outside uses.
/// There is no device plugin for GPUs whose memory is part of the RAM.
pub fn usable_gpus(node: &FleetNode) -> impl Iterator<Item = u16> {
    let gpus = node.status.gpus.iter().zip(reported(&node.shape)).enumerate();
    let is_reported = |(_, (gpu, shape)): &(usize, (&GpuStatus, &GpuShape))| is_working(gpu) && !shape.unified;
    gpus.filter(is_reported).map(|(index, _)| index as u16)
}

fn is_working(gpu: &GpuStatus) -> bool {
    gpu.state.is_usable() && gpu.foreign.is_none()
}

/// The GPUs whose devices the driver does not publish now: those in an unusable state, or that somebody outside uses.
pub(super) fn withdrawn_gpus(node: &FleetNode) -> Vec<u16> {
    let gpus = node.status.gpus.iter().enumerate().skip(node.shape.gpus_without_devices());
    gpus.filter(|(_, gpu)| !is_working(gpu)).map(|(index, _)| index as u16).collect()
}

/// The RAM that programs outside use as the memory of GPUs.
pub fn foreign_ram(node: &FleetNode) -> Bytes {
    let gpus = node.status.gpus.iter().zip(&node.shape.gpus);
    gpus.filter(|(_, shape)| shape.unified).map(|(gpu, _)| gpu.foreign.memory).sum()
}

/// What a pod holds on a node: the GPUs of these devices, and as many others as it requests. The kubelet gives it the free
/// GPUs with the lowest numbers. `None` if the node lacks a GPU that the scheduler has counted.
pub(super) fn placement_on(
    id: NodeId,
    node: &FleetNode,
    task: &TaskDemand,
    devices: &[DeviceName],
) -> Option<Placement> {
    let wanted = task.gpus.as_ref().map_or(0, |gpus| gpus.count as usize);
    let is_free = |index: &u16| node.status.gpus[usize::from(*index)].holders == 0;
    // The labels of a node describe its first GPU. Others may be of another model.
    let suits = |index: &u16| {
        let gpu = &node.shape.gpus[usize::from(*index)];
        task.gpus.as_ref().is_none_or(|wanted| is_of_type(wanted, gpu) && is_large_enough(wanted, gpu))
    };
    let claim =
        |index: u16| dryrack_fleet::GpuClaim { index, share: GpuShare::WHOLE, memory: memory_of(&node.shape, index) };
    let mut gpus: SmallVec<[_; 2]> = usable_gpus(node).filter(is_free).filter(suits).take(wanted).map(claim).collect();
    (gpus.len() == wanted).then(|| {
        gpus.extend(node.shape.parts_of(devices));
        let claim = NodeClaim { tasks: 1, cpu: task.cpu, ram: task.ram, gpus, ..NodeClaim::of_nothing(id) };
        Placement::new(smallvec![claim])
    })
}

fn memory_of(shape: &NodeShape, index: u16) -> Bytes {
    shape.gpu_memory_capacity(usize::from(index))
}
