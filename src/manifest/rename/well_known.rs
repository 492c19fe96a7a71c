//! Names that are kept, and the form of new names.

use crate::kinds::KINDS;
use crate::shape::Named;

/// Keys of labels and taints that Kubernetes, its projects, clouds and vendors of accelerators chose, besides those
/// whose values are kept or name objects.
const KEYS: &[&str] = &[
    "amd.com/gpu.family",
    "app.kubernetes.io/component",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    "beta.kubernetes.io/instance-type",
    "cloud.google.com/gke-nodepool",
    "cloud.google.com/gke-spot",
    "controller-revision-hash",
    "eks.amazonaws.com/nodegroup",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "google.com/tpu",
    "jobset.sigs.k8s.io/job-key",
    "jobset.sigs.k8s.io/replicatedjob-replicas",
    "jobset.sigs.k8s.io/restart-attempt",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "kubernetes.azure.com/scalesetpriority",
    "kueue.x-k8s.io/managed",
    "leaderworkerset.sigs.k8s.io/group-key",
    "leaderworkerset.sigs.k8s.io/size",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/worker",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/out-of-service",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "nvidia.com/device-plugin.config",
    "nvidia.com/gpu.family",
    "nvidia.com/mig.config",
    "nvidia.com/mig.config.state",
    "pod-template-generation",
    "pod-template-hash",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "training.kubeflow.org/job-name",
    "training.kubeflow.org/job-role",
    "training.kubeflow.org/replica-index",
    "training.kubeflow.org/replica-type",
];

/// Resources of vendors of accelerators. MIG devices are not among them.
const RESOURCES: &[&str] = &[
    "amd.com/gpu",
    "apple.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "cambricon.com/mlu",
    "google.com/tpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "huawei.com/Ascend310",
    "huawei.com/Ascend310P",
    "huawei.com/Ascend910",
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "rdma/hca",
    "vpc.amazonaws.com/efa",
];

/// Drivers of devices.
const DRIVERS: &[&str] = &[
    "compute-domain.nvidia.com",
    "dra.net",
    "gaudi.intel.com",
    "gpu.amd.com",
    "gpu.intel.com",
    "gpu.nvidia.com",
    "qat.intel.com",
    "resource.kubernetes.io",
    "tpu.google.com",
];

const GATES: &[&str] = &["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"];

/// The groups of owners of pods.
const GROUPS: &[&str] = &[
    "",
    "apps",
    "batch",
    "jobset.x-k8s.io",
    "kubeflow.org",
    "kueue.x-k8s.io",
    "leaderworkerset.x-k8s.io",
    "ray.io",
    "scheduling.k8s.io",
    "trainer.kubeflow.org",
];

/// The kinds of owners of pods, besides those that are read.
const OWNER_KINDS: &[&str] = &[
    "CronJob",
    "MPIJob",
    "Node",
    "PyTorchJob",
    "RayCluster",
    "RayJob",
    "RayService",
    "ReplicationController",
    "TFJob",
    "TrainJob",
    "XGBoostJob",
];

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const SCHEDULERS: [&str; 4] = ["default-scheduler", "kai-scheduler", "volcano", "kueue"];
const ADDRESSES: [&str; 4] = ["0.0.0.0", "127.0.0.1", "::", "::1"];

/// Keys whose values the system writes, about hardware or software.
const PLAIN_VALUES: &[&str] = &[
    "amd.com/gpu.product-name",
    "amd.com/gpu.vram",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-accelerator-count",
    "cloud.google.com/gke-tpu-accelerator",
    "cloud.google.com/gke-tpu-topology",
    "eks.amazonaws.com/capacityType",
    "gpu.intel.com/product",
    "jobset.sigs.k8s.io/job-index",
    "karpenter.sh/capacity-type",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "leaderworkerset.sigs.k8s.io/group-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "node.kubernetes.io/windows-build",
    "nvidia.com/cuda.driver.major",
    "nvidia.com/cuda.driver.minor",
    "nvidia.com/cuda.runtime.major",
    "nvidia.com/cuda.runtime.minor",
    "nvidia.com/gpu.compute.major",
    "nvidia.com/gpu.compute.minor",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas",
    "nvidia.com/mig.capable",
    "nvidia.com/mig.strategy",
];

/// Words in the names of accelerators.
const HARDWARE: &[&str] = &[
    "AMD",
    "Ada",
    "Ampere",
    "Arc",
    "Ascend",
    "Blackwell",
    "Center",
    "Data",
    "Edition",
    "Flex",
    "GPU",
    "Gaudi",
    "GeForce",
    "Generation",
    "Grace",
    "HBM",
    "Hopper",
    "Instinct",
    "Intel",
    "Lovelace",
    "MIG",
    "Max",
    "NVIDIA",
    "NVL",
    "Nvidia",
    "OAM",
    "PCIe",
    "PRO",
    "Pascal",
    "Quadro",
    "RTX",
    "Radeon",
    "SXM",
    "Series",
    "Server",
    "Super",
    "Tesla",
    "Ti",
    "Turing",
    "Volta",
    "Workstation",
    "XL",
    "gpu",
    "mig",
    "vfio",
];

/// Keys whose values are names of objects.
const NAMES: [(&str, Named); 17] = [
    ("kubernetes.io/hostname", Named::Node),
    ("kubernetes.io/metadata.name", Named::Namespace),
    ("job-name", Named::Workload),
    ("batch.kubernetes.io/job-name", Named::Workload),
    ("controller-uid", Named::Uid),
    ("batch.kubernetes.io/controller-uid", Named::Uid),
    ("statefulset.kubernetes.io/pod-name", Named::Workload),
    ("jobset.sigs.k8s.io/jobset-name", Named::Workload),
    ("jobset.sigs.k8s.io/jobset-uid", Named::Uid),
    ("jobset.sigs.k8s.io/replicatedjob-name", Named::Part),
    ("leaderworkerset.sigs.k8s.io/name", Named::Workload),
    ("kueue.x-k8s.io/queue-name", Named::LocalQueue),
    ("kueue.x-k8s.io/priority-class", Named::WorkloadPriority),
    ("kueue.x-k8s.io/pod-group-name", Named::Workload),
    ("kueue.x-k8s.io/podset", Named::Part),
    ("kueue.x-k8s.io/podset-required-topology", Named::LabelKey),
    ("kueue.x-k8s.io/podset-preferred-topology", Named::LabelKey),
];

/// Whether a text only describes hardware: a profile of MIG, or the name of an accelerator, of its architecture or
/// vendor.
fn is_hardware(text: &str) -> bool {
    let is_model = |word: &str| {
        let letters = word.chars().filter(char::is_ascii_alphabetic).count();
        letters <= 3 && letters < word.len() && word.chars().all(|each| each.is_ascii_alphanumeric())
    };
    let mut words = text.split([' ', '-']).flat_map(|word| if is_mig(word) { "MIG" } else { word }.split('/'));
    words.all(|word| HARDWARE.contains(&word) || is_model(word))
}

/// Whether a text is an amount or the number of a version, without a word.
pub fn is_amount(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().filter(char::is_ascii_alphabetic).count() <= 2
}

/// Whether a text is a part of a well-known name, so that it shows nothing of others.
pub fn is_part_of_kept(text: &str) -> bool {
    is_kept(Named::AttributeText, text) || DRIVERS.iter().any(|driver| driver.contains(text))
}

/// Whether a text is a profile of MIG, such as `1g.10gb` or `1g.10gb.me`.
fn is_mig(text: &str) -> bool {
    let is_number = |text: Option<&str>| text.is_some_and(|text| text.parse::<u8>().is_ok());
    let mut parts = text.trim_end_matches(".shared").split('.');
    is_number(parts.next().and_then(|slices| slices.strip_suffix('g')))
        && is_number(parts.next().and_then(|memory| memory.strip_suffix("gb")))
        && parts.all(|rest| matches!(rest, "me" | "me+all" | "gfx" | "-me"))
}

fn is_resource(name: &str) -> bool {
    !name.contains('/') || RESOURCES.contains(&name) || name.strip_prefix("nvidia.com/mig-").is_some_and(is_mig)
}

fn is_key(key: &str) -> bool {
    let is_of_objects = NAMES.iter().any(|(known, _)| *known == key);
    // The taints of nodes with accelerators have the names of the resources.
    is_of_objects || KEYS.contains(&key) || PLAIN_VALUES.contains(&key) || RESOURCES.contains(&key)
}

/// Whether a name is kept.
pub fn is_kept(named: Named, name: &str) -> bool {
    match named {
        _ if name.is_empty() => true,
        Named::Namespace => NAMESPACES.contains(&name),
        Named::PriorityClass => name.starts_with("system-"),
        Named::LabelKey => is_key(name),
        // The system sets these, and comparisons of numbers depend on them.
        Named::LabelValue => matches!(name, "true" | "false") || name.parse::<i64>().is_ok(),
        Named::AttributeText => {
            let is_plain = matches!(name, "true" | "false") || name.parse::<i64>().is_ok();
            is_plain || is_hardware(name) || DRIVERS.contains(&name)
        }
        Named::Resource => is_resource(name),
        Named::Gate => GATES.contains(&name),
        Named::Driver => DRIVERS.contains(&name),
        Named::Group => GROUPS.contains(&name),
        Named::OwnerKind => OWNER_KINDS.contains(&name) || KINDS.iter().any(|known| known.name == name),
        Named::Scheduler => SCHEDULERS.contains(&name),
        Named::Address => ADDRESSES.contains(&name),
        Named::AdmissionCheck
        | Named::Attribute
        | Named::Budget
        | Named::Claim
        | Named::ClaimTemplate
        | Named::ClusterQueue
        | Named::Cohort
        | Named::Device
        | Named::DeviceClass
        | Named::Flavor
        | Named::Image
        | Named::LocalQueue
        | Named::Node
        | Named::Part
        | Named::Pool
        | Named::RuntimeClass
        | Named::Serial
        | Named::Service
        | Named::Topology
        | Named::Uid
        | Named::Workload
        | Named::WorkloadPriority => false,
    }
}

/// What the value of a label with this key names. `None` if the value is kept.
pub fn value_of(key: &str) -> Option<Named> {
    match NAMES.iter().find(|(known, _)| *known == key) {
        Some((_, named)) => Some(*named),
        None if PLAIN_VALUES.contains(&key) => None,
        None => Some(Named::LabelValue),
    }
}

/// What is named, in words for the table of names. It is also the beginning of new names.
pub fn word(named: Named) -> &'static str {
    match named {
        Named::AdmissionCheck => "check",
        Named::Address => "address",
        Named::Attribute => "attribute",
        Named::AttributeText => "text",
        Named::Budget => "budget",
        Named::Claim => "claim",
        Named::ClaimTemplate => "claim-template",
        Named::ClusterQueue => "cluster-queue",
        Named::Cohort => "cohort",
        Named::Device => "device",
        Named::DeviceClass => "device-class",
        Named::Driver => "driver",
        Named::Flavor => "flavor",
        Named::Gate => "gate",
        Named::Group => "group",
        Named::Image => "image",
        Named::LabelKey => "label",
        Named::LabelValue => "value",
        Named::LocalQueue => "queue",
        Named::Namespace => "namespace",
        Named::Node => "node",
        Named::OwnerKind => "kind",
        Named::Part => "part",
        Named::Pool => "pool",
        Named::PriorityClass => "priority",
        Named::Resource => "resource",
        Named::RuntimeClass => "runtime",
        Named::Scheduler => "scheduler",
        Named::Serial => "serial",
        Named::Service => "service",
        Named::Topology => "topology",
        Named::Uid => "uid",
        Named::Workload => "workload",
        Named::WorkloadPriority => "workload-priority",
    }
}

/// A new name with this number, for this old one, that is between two kept names.
pub fn form(named: Named, number: &str, old: &str, before: Option<&str>, after: Option<&str>) -> String {
    let whole = |beginning: &str| match named {
        Named::Resource => format!("{beginning}.example/{number}"),
        Named::Image => format!("{beginning}-{number}:1"),
        Named::Driver => format!("{}{beginning}-{number}.example", kind_of_driver(old)),
        Named::Group => format!("{beginning}-{number}.example"),
        Named::Address => {
            let number: u32 = number.parse().unwrap_or(0);
            format!("198.18.{}.{}", number / 256, number % 256)
        }
        _ => format!("{beginning}-{number}"),
    };
    let fits =
        |name: &String| before.is_none_or(|before| *before < **name) && after.is_none_or(|after| **name < *after);
    let word = word(named);
    let own = [word.to_string(), format!("a-{word}"), format!("g-{word}"), format!("z-{word}")];
    let found = own.iter().map(|beginning| whole(beginning)).find(fits);
    // The kept name before it, continued, is the closest possible.
    found.unwrap_or_else(|| whole(&format!("{}-{word}", before.unwrap_or("0"))))
}

/// The beginning of a new driver. Drivers that begin with `gpu.` or `npu.` publish GPUs, and their new names begin in
/// the same way, and those of the others so that the order stays.
fn kind_of_driver(old: &str) -> &'static str {
    match old {
        _ if old.starts_with("gpu.") => "gpu.",
        _ if old.starts_with("npu.") => "npu.",
        _ if old < "gpu." => "",
        _ if old < "npu." => "h-",
        _ => "z-",
    }
}
