//! Names that are kept, and the form of new names.

use crate::shape::Named;

/// The domains of Kubernetes and its projects, of clouds, and of vendors of accelerators.
const DOMAINS: [&str; 29] = [
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "nvidia.com",
    "amd.com",
    "intel.com",
    "habana.ai",
    "huawei.com",
    "cambricon.com",
    "hygon.com",
    "enflame.com",
    "mthreads.com",
    "metax-tech.com",
    "iluvatar.com",
    "furiosa.ai",
    "rebellions.ai",
    "qualcomm.com",
    "aws",
    "amazonaws.com",
    "google.com",
    "azure.com",
    "karpenter.sh",
    "volcano.sh",
    "koordinator.sh",
    "kubeflow.org",
    "ray.io",
    "kubernetes.azure.com",
    "sigs.k8s.io",
    "dryrack",
];

/// Keys without a domain that Kubernetes itself uses.
const OWN_KEYS: [&str; 5] =
    ["job-name", "controller-uid", "pod-template-hash", "controller-revision-hash", "pod-template-generation"];

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const SCHEDULERS: [&str; 4] = ["default-scheduler", "kai-scheduler", "volcano", "kueue"];
const ADDRESSES: [&str; 4] = ["0.0.0.0", "127.0.0.1", "::", "::1"];

/// Keys whose values describe hardware or software, not the owner's own things.
const PLAIN_VALUES: [&str; 16] = [
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-accelerator-count",
    "cloud.google.com/gke-tpu-accelerator",
    "cloud.google.com/gke-tpu-topology",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "jobset.sigs.k8s.io/job-index",
];
/// Domains of keys whose values all describe hardware.
const PLAIN_DOMAINS: [&str; 7] = [
    "nvidia.com",
    "amd.com",
    "intel.com",
    "habana.ai",
    "huawei.com",
    "feature.node.kubernetes.io",
    "node-role.kubernetes.io",
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

fn has_domain(domain: &str, known: &[&str]) -> bool {
    known.iter().any(|own| domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', '-'])))
}

/// Whether a key or a resource belongs to a well-known domain.
fn is_of_known_domain(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| has_domain(domain, &DOMAINS))
}

/// Whether a name is kept.
pub fn is_kept(named: Named, name: &str) -> bool {
    match named {
        _ if name.is_empty() => true,
        Named::Namespace => NAMESPACES.contains(&name),
        Named::PriorityClass => name.starts_with("system-"),
        Named::LabelKey => OWN_KEYS.contains(&name) || is_of_known_domain(name),
        // The system sets these, and comparisons of numbers depend on them.
        Named::LabelValue => matches!(name, "true" | "false") || name.parse::<i64>().is_ok(),
        Named::Resource => !name.contains('/') || is_of_known_domain(name),
        Named::Gate => is_of_known_domain(name),
        Named::Driver => has_domain(name, &DOMAINS),
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
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    match NAMES.iter().find(|(known, _)| *known == key) {
        Some((_, named)) => Some(*named),
        None if PLAIN_VALUES.contains(&key) || has_domain(domain, &PLAIN_DOMAINS) => None,
        None => Some(Named::LabelValue),
    }
}

/// What is named, in words for the table of names. It is also the beginning of new names.
pub fn word(named: Named) -> &'static str {
    match named {
        Named::AdmissionCheck => "check",
        Named::Address => "address",
        Named::Attribute => "attribute",
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
        Named::Image => "image",
        Named::LabelKey => "label",
        Named::LabelValue => "value",
        Named::LocalQueue => "queue",
        Named::Namespace => "namespace",
        Named::Node => "node",
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

/// A new name with this number that is between two kept names.
pub fn form(named: Named, number: &str, before: Option<&str>, after: Option<&str>) -> String {
    let whole = |beginning: &str| match named {
        Named::Resource => format!("{beginning}.example/{number}"),
        Named::Image => format!("{beginning}-{number}:1"),
        Named::Driver => format!("{beginning}-{number}.example"),
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
