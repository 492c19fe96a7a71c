//! The fields of pods that the API server and its admission plugins fill in.
//!
//! The rules are those of `pkg/apis/core/v1/defaults.go` and of the admission plugins Priority, RuntimeClass and
//! DefaultTolerationSeconds of Kubernetes 1.35.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use dryrack_yaml::{Report, Span};

use crate::api::PriorityClass;
use crate::kinds::Kind;
use crate::read::{Manifests, Object};

/// The classes that pods name.
#[derive(Debug, Default)]
pub struct Classes {
    /// The value and the preemption policy of each priority class.
    priorities: BTreeMap<String, (i64, Option<String>)>,
    /// The priority class of pods that name none.
    default_priority: Option<String>,
    runtimes: BTreeMap<String, Map<String, Value>>,
}

/// Where a pod comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Someone wrote it, and the API server has not seen it.
    Written,
    /// A cluster has it, so its fields are filled in already.
    Cluster,
}

impl Origin {
    /// Only the API server writes a UID and the time of creation.
    pub fn of(metadata: Option<&Value>) -> Origin {
        let has = |key: &str| metadata.and_then(|metadata| metadata.get(key)).is_some();
        if has("uid") || has("creationTimestamp") { Origin::Cluster } else { Origin::Written }
    }
}

/// The pod tolerates these taints of its node for five minutes.
const TOLERATED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const TOLERATION_SECONDS: i64 = 300;

impl Classes {
    pub fn of(manifests: &Manifests) -> Classes {
        let system = PriorityClass::SYSTEM.iter().map(|(name, value)| (name.to_string(), (i64::from(*value), None)));
        let mut classes = Classes { priorities: system.collect(), ..Classes::default() };
        for object in &manifests.objects {
            let name = object.name().to_string();
            match object.kind {
                Kind::PriorityClass => {
                    let value = object.value.get("value").and_then(Value::as_i64).unwrap_or(0);
                    let policy = object.value.get("preemptionPolicy").and_then(Value::as_str).map(str::to_string);
                    classes.priorities.insert(name.clone(), (value, policy));
                    let is_default = object.value.get("globalDefault").and_then(Value::as_bool) == Some(true);
                    // Of several defaults, Kubernetes takes the one with the lowest value.
                    let known = classes.default_priority.as_ref().map(|known| classes.priorities[known].0);
                    if is_default && known.is_none_or(|known| value < known) {
                        classes.default_priority = Some(name);
                    }
                }
                Kind::RuntimeClass => {
                    classes.runtimes.insert(name, object.value.clone());
                }
                _ => {}
            }
        }
        classes
    }

    /// Reports runtime classes that do not exist. Pods of a cluster have the overhead and the node selector already; the
    /// template of a controller does not.
    pub fn check_runtimes(&self, manifests: &Manifests, report: &mut Report) {
        let mut told = BTreeSet::new();
        for object in &manifests.objects {
            let origin = Origin::of(object.value.get("metadata"));
            if (object.kind, origin) == (Kind::Pod, Origin::Cluster) {
                continue;
            }
            // People save parts of a cluster, and a class usually only selects a container runtime.
            let may_lack = self.runtimes.is_empty() || origin == Origin::Cluster;
            for (_, name, span) in object.places.iter().filter(|(key, ..)| *key == "runtimeClassName") {
                if self.runtimes.contains_key(name) || !told.insert((name.as_str(), may_lack)) {
                    continue;
                }
                if may_lack {
                    let message =
                        format!("the RuntimeClass `{name}` is not in the files, so its overhead and nodes are unknown");
                    let help = format!("add it, as `kubectl get runtimeclass {name} -o yaml` prints it");
                    report.warning(*span, message, help);
                } else {
                    let message = format!("no RuntimeClass is named `{name}`");
                    report.unknown(*span, message, name, self.runtimes.keys().map(String::as_str));
                }
            }
        }
    }

    /// Fills in the spec of a pod. `place` returns where the spec names another object under a key.
    pub fn fill(
        &self,
        spec: &mut Map<String, Value>,
        origin: Origin,
        place: &dyn Fn(&str, &str) -> Span,
        report: &mut Report,
    ) {
        requests(spec);
        host_ports(spec);
        if origin == Origin::Written {
            self.refuse_priority(spec, place, report);
        }
        self.runtime(spec);
        self.priority(spec, place, report);
        tolerations(spec);
    }

    /// The API server takes the priority from the class, and refuses another one.
    fn refuse_priority(&self, spec: &Map<String, Value>, place: &dyn Fn(&str, &str) -> Span, report: &mut Report) {
        let (Some(stated), Some(name)) = (spec.get("priority"), spec.get("priorityClassName").and_then(Value::as_str))
        else {
            return;
        };
        if let Some((value, _)) = self.priorities.get(name).filter(|(value, _)| stated.as_i64() != Some(*value)) {
            let message =
                format!("the PriorityClass `{name}` has the value {value}, but the pod's priority is {stated}");
            report.error_with_help(place("priorityClassName", name), message, "remove `priority`");
        }
    }

    fn priority(&self, spec: &mut Map<String, Value>, place: &dyn Fn(&str, &str) -> Span, report: &mut Report) {
        let named = spec.get("priorityClassName").and_then(Value::as_str).filter(|name| !name.is_empty());
        let is_resolved = spec.contains_key("priority");
        let class = match named {
            // The cluster has resolved the name already.
            Some(name) if is_resolved && !self.priorities.contains_key(name) => return,
            Some(name) => self.priorities.get(name).or_else(|| {
                let message = format!("no PriorityClass is named `{name}`");
                let known = dryrack_nearest::hint(name, self.priorities.keys().map(String::as_str));
                let add = format!("add it to the files, as `kubectl get priorityclass {name} -o yaml` prints it");
                let span = place("priorityClassName", name);
                report.error_with_help(span, message, format!("{add}; {}", known.unwrap_or_default()));
                None
            }),
            None => self.default_priority.as_ref().map(|name| &self.priorities[name]),
        };
        let Some((value, policy)) = class else { return };
        if let (false, false, Some(name)) = (named.is_some(), is_resolved, &self.default_priority) {
            spec.insert("priorityClassName".to_string(), Value::from(name.as_str()));
        }
        spec.entry("priority").or_insert_with(|| Value::from(*value));
        if let Some(policy) = policy {
            spec.entry("preemptionPolicy").or_insert_with(|| Value::from(policy.as_str()));
        }
    }

    fn runtime(&self, spec: &mut Map<String, Value>) {
        let name = spec.get("runtimeClassName").and_then(Value::as_str);
        let Some(class) = name.and_then(|name| self.runtimes.get(name)) else { return };
        if let Some(fixed) = class.get("overhead").and_then(|overhead| overhead.get("podFixed")) {
            spec.entry("overhead").or_insert_with(|| fixed.clone());
        }
        let Some(scheduling) = class.get("scheduling") else { return };
        if let Some(Value::Object(labels)) = scheduling.get("nodeSelector") {
            let own = spec.entry("nodeSelector").or_insert_with(|| json!({}));
            if let Value::Object(own) = own {
                labels.iter().for_each(|(key, value)| {
                    own.entry(key.as_str()).or_insert_with(|| value.clone());
                });
            }
        }
        if let Some(Value::Array(more)) = scheduling.get("tolerations")
            && let Value::Array(own) = spec.entry("tolerations").or_insert_with(|| json!([]))
        {
            let new: Vec<Value> = more.iter().filter(|one| !own.contains(one)).cloned().collect();
            own.extend(new);
        }
    }
}

fn containers(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let lists = spec.iter_mut().filter(|(key, _)| matches!(key.as_str(), "containers" | "initContainers"));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten().filter_map(Value::as_object_mut)
}

/// A limit without a request is also the request.
fn requests(spec: &mut Map<String, Value>) {
    for container in containers(spec) {
        if let Some(Value::Object(resources)) = container.get_mut("resources") {
            requests_from_limits(resources, |_| true);
        }
    }
    // For the pod as a whole, the limit counts only if no container requests the resource.
    let stated: Vec<String> = containers(spec)
        .filter_map(|container| container.get("resources")?.get("requests")?.as_object())
        .flat_map(|requests| requests.keys().cloned())
        .collect();
    if let Some(Value::Object(resources)) = spec.get_mut("resources") {
        requests_from_limits(resources, |name| !stated.iter().any(|known| known == name));
    }
}

fn requests_from_limits(resources: &mut Map<String, Value>, is_taken: impl Fn(&str) -> bool) {
    let Some(Value::Object(limits)) = resources.shift_remove("limits") else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Value::Object(requests) = requests {
        for (name, limit) in limits.into_iter().filter(|(name, _)| is_taken(name)) {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// On the network of the node, each port of a container is a port of the node.
fn host_ports(spec: &mut Map<String, Value>) {
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for container in containers(spec) {
        for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(port) = port.as_object_mut() else { continue };
            let is_unset = port.get("hostPort").and_then(Value::as_i64).unwrap_or(0) == 0;
            if let (true, Some(own)) = (is_unset, port.get("containerPort").cloned()) {
                port.insert("hostPort".to_string(), own);
            }
        }
    }
}

fn tolerations(spec: &mut Map<String, Value>) {
    let Value::Array(own) = spec.entry("tolerations").or_insert_with(|| json!([])) else { return };
    for taint in TOLERATED {
        let text =
            |toleration: &Value, key: &str| toleration.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
        let is_tolerated = own.iter().any(|toleration| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key.is_empty() || key == taint) && (effect.is_empty() || effect == "NoExecute")
        });
        if !is_tolerated {
            own.push(json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
}

/// The taints that the controllers of nodes add for conditions, and the default of `allocatable`.
pub fn node(object: &Object) -> Map<String, Value> {
    let mut node = object.value.clone();
    let status = node.get_mut("status").and_then(Value::as_object_mut);
    let conditions = status.map_or(Vec::new(), |status| {
        if !status.contains_key("allocatable") {
            let capacity = status.get("capacity").cloned();
            status.extend(capacity.map(|capacity| ("allocatable".to_string(), capacity)));
        }
        match status.shift_remove("conditions") {
            Some(Value::Array(conditions)) => conditions,
            _ => Vec::new(),
        }
    });
    let mut taints = Vec::new();
    for condition in &conditions {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, effects): (&str, &[&str]) = match (text("type"), text("status")) {
            ("Ready", "False") => ("not-ready", &["NoSchedule", "NoExecute"]),
            ("Ready", "Unknown") => ("unreachable", &["NoSchedule", "NoExecute"]),
            ("MemoryPressure", "True") => ("memory-pressure", &["NoSchedule"]),
            ("DiskPressure", "True") => ("disk-pressure", &["NoSchedule"]),
            ("PIDPressure", "True") => ("pid-pressure", &["NoSchedule"]),
            ("NetworkUnavailable", "True") => ("network-unavailable", &["NoSchedule"]),
            _ => continue,
        };
        taints.extend(effects.iter().map(|effect| (format!("node.kubernetes.io/{name}"), *effect)));
    }
    let spec = node.entry("spec").or_insert_with(|| json!({}));
    if spec.get("unschedulable") == Some(&Value::Bool(true)) {
        taints.push(("node.kubernetes.io/unschedulable".to_string(), "NoSchedule"));
    }
    if let (false, Some(spec)) = (taints.is_empty(), spec.as_object_mut())
        && let Value::Array(own) = spec.entry("taints").or_insert_with(|| json!([]))
    {
        for (key, effect) in taints {
            let is_known = own.iter().any(|taint| taint["key"] == key.as_str() && taint["effect"] == effect);
            if !is_known {
                own.push(json!({"key": key, "effect": effect}));
            }
        }
    }
    node
}
