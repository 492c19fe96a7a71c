//! Tests of what is read from files. The expected values follow from the reference of the Kubernetes API.

use std::sync::Arc;

use serde_json::Value;

use dryrack_yaml::Report;

use crate::api::{Node, Pod, PreemptionPolicy, Quantity};
use crate::{BackoffLimit, Cluster, Manifests};

/// Reads one text, and returns the objects with the rendered faults.
pub fn read(text: &str) -> (Manifests, Cluster, String) {
    let mut report = Report::default();
    let source = report.add_source("test.yaml", text);
    let mut manifests = Manifests::default();
    manifests.text(source, text, true, &mut report);
    let cluster = manifests.cluster(&mut report);
    (manifests, cluster, report.finish().to_string())
}

/// Reads a text without faults.
pub fn fine(text: &str) -> (Manifests, Cluster) {
    let (manifests, cluster, faults) = read(text);
    assert_eq!(faults, "", "{text}");
    (manifests, cluster)
}

/// Like [`fine`], for objects that name claims without having them.
pub fn without_errors(text: &str) -> (Manifests, Cluster) {
    let (manifests, cluster, faults) = read(text);
    assert!(!faults.contains("error: "), "{faults}");
    assert_eq!(faults.matches("warning: ").count(), faults.matches("warning: no ResourceClaim ").count(), "{faults}");
    (manifests, cluster)
}

fn request(pod: &Pod, resource: &str) -> Option<i64> {
    pod.spec.containers[0].resources.requests.get(resource).map(|amount| Quantity::milli_value(*amount))
}

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: team
  labels: {kueue.x-k8s.io/queue-name: gpus}
  annotations: {dryrack/duration: 30m, owner: someone}
spec:
  parallelism: 4
  completions: 10
  completionMode: Indexed
  template:
    metadata: {labels: {app: train}}
    spec:
      restartPolicy: Never
      nodeSelector: ~
      containers:
      - name: main
        image: registry.example/train:1
        env: [{name: A, value: b}]
        resources:
          requests: {cpu: 1500m}
          limits: {cpu: 2, memory: 2Gi, nvidia.com/gpu: 1}
";

#[test]
fn a_job_makes_its_pods() {
    let (manifests, cluster) = fine(JOB);
    let [job] = &cluster.controllers[..] else { panic!("{cluster:?}") };
    assert_eq!((job.key().as_str(), job.queue.as_deref()), ("team/train", Some("gpus")));
    assert_eq!(job.terms.duration.map(|duration| duration.to_string()), Some("30m".to_string()));
    let set = &job.sets[0];
    assert_eq!(set.of_job.as_ref().map(|job| (job.backoff_limit, job.failed)), Some((BackoffLimit::Together(6), 0)));
    assert_eq!((set.numbers.len(), set.parallelism), (10, Some(4)));
    let pod = set.pod(3);
    assert_eq!(&*pod.metadata.key(), "team/train-3");
    assert_eq!(request(&pod, "cpu"), Some(1500));
    assert_eq!(request(&pod, "memory"), Some(2_147_483_648_000));
    assert_eq!(request(&pod, "nvidia.com/gpu"), Some(1000));
    let label = |key: &str| pod.metadata.labels.get(key).map(|value| &**value);
    assert_eq!(label("batch.kubernetes.io/job-completion-index"), Some("3"));
    assert_eq!((label("job-name"), label("app")), (Some("train"), Some("train")));
    let notes = manifests.unused.notes();
    let [note] = &notes[..] else { panic!("{notes:?}") };
    let expected = "fields without meaning in a rehearsal: Job metadata.annotations (1), \
                    Job spec.template.spec.containers.env (1)";
    assert_eq!(note, expected);
}

/// An API server gives a pod without a class the default class. What annotations say to dryrack is no part of a pod.
#[test]
fn a_pod_keeps_its_annotations_and_its_class() {
    let text = "
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 10, globalDefault: true}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000, preemptionPolicy: Never}
---
apiVersion: v1
kind: Pod
metadata: {name: stated, annotations: {dryrack/duration: 5m, example.com/a: b}}
spec: {priorityClassName: high, containers: [{name: main}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {containers: [{name: main}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: older}, spec: {priority: 0, containers: [{name: main}]}}
";
    let (manifests, cluster) = fine(text);
    let pods: Vec<_> = cluster.pods.iter().map(|stated| &stated.pod).collect();
    let class = |pod: &Pod| (pod.spec.priority, pod.spec.priority_class_name.as_deref().map(str::to_string));
    let named = |priority, name: &str| (Some(priority), Some(name.to_string()));
    assert_eq!(
        [class(pods[0]), class(pods[1]), class(pods[2])],
        [named(1000, "high"), named(10, "usual"), (Some(0), None)]
    );
    assert_eq!(format!("{:?}", pods[0].metadata.annotations), r#"{"example.com/a": "b"}"#);
    let [usual, high] = &cluster.priority_classes[..] else { panic!("{cluster:?}") };
    assert_eq!((usual.value, usual.global_default), (10, true));
    assert_eq!((high.value, high.preemption_policy), (1000, PreemptionPolicy::Never));
    let imported = manifests.objects[2].without_foreign_annotations();
    assert_eq!(imported.value["metadata"]["annotations"], serde_json::json!({"dryrack/duration": "5m"}));
}

#[test]
fn every_kind_of_controller_makes_its_pods() {
    let template = "{spec: {containers: [{name: main}]}}";
    let ends = "{spec: {restartPolicy: Never, containers: [{name: main}]}}";
    let node = |name: &str, rest: &str| format!("{{apiVersion: v1, kind: Node, metadata: {{name: {name}, {rest}}}}}");
    let nodes = format!(
        "{}\n---\n{}\n---\n{{apiVersion: v1, kind: Node, metadata: {{name: c}}, spec: {{unschedulable: true, taints: \
         [{{key: gpu, effect: NoSchedule}}]}}}}",
        node("b", "labels: {disk: ssd}"),
        node("a", "labels: {disk: hdd}")
    );
    let rows = [
        ("apps/v1", "Deployment", format!("{{replicas: 2, template: {template}}}"), "x-0 x-1"),
        ("apps/v1", "ReplicaSet", format!("{{template: {template}}}"), "x-0"),
        (
            "v1",
            "ReplicationController",
            "{replicas: 2, selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: main}]}}}"
                .to_string(),
            "x-0 x-1",
        ),
        ("apps/v1", "StatefulSet", format!("{{replicas: 2, ordinals: {{start: 5}}, template: {template}}}"), "x-5 x-6"),
        ("batch/v1", "Job", format!("{{template: {ends}}}"), "x-0"),
        ("batch/v1", "Job", format!("{{parallelism: 0, template: {ends}}}"), ""),
        ("apps/v1", "DaemonSet", format!("{{template: {template}}}"), "x-a x-b"),
        (
            "apps/v1",
            "DaemonSet",
            "{template: {spec: {nodeSelector: {disk: ssd}, containers: [{name: main}]}}}".to_string(),
            "x-b",
        ),
        (
            "apps/v1",
            "DaemonSet",
            "{template: {spec: {tolerations: [{key: gpu, operator: Exists}], containers: [{name: main}]}}}".to_string(),
            "x-a x-b x-c",
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            format!(
                "{{replicatedJobs: [{{name: driver, template: {{spec: {{template: {template}}}}}}}, {{name: w, replicas: 2, \
                 template: {{spec: {{parallelism: 2, completions: 2, template: {template}}}}}}}]}}"
            ),
            "x-driver-0-0 x-w-0-0 x-w-0-1 x-w-1-0 x-w-1-1",
        ),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            format!("{{replicas: 2, leaderWorkerTemplate: {{size: 3, workerTemplate: {template}}}}}"),
            "x-0 x-1 x-0-1 x-0-2 x-1-1 x-1-2",
        ),
        (
            "kueue.x-k8s.io/v1beta1",
            "Workload",
            format!("{{queueName: q, podSets: [{{name: main, count: 2, template: {template}}}]}}"),
            "x-0 x-1",
        ),
    ];
    for (version, kind, spec, expected) in rows {
        let text = format!("{nodes}\n---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n");
        let (_, cluster) = fine(&text);
        let sets = cluster.controllers.iter().flat_map(|controller| &controller.sets);
        let names: Vec<String> =
            sets.flat_map(|set| set.numbers.iter().map(|number| set.pod(*number).metadata.name.to_string())).collect();
        assert_eq!(names.join(" "), expected, "{text}");
    }
}

/// `kubectl get -o json` lists a Deployment, its ReplicaSets and their pods. Each pod exists once.
#[test]
fn a_pod_that_exists_is_not_made_again() {
    let owned = |kind: &str, name: &str, of: &str, of_name: &str, rest: &str| {
        format!(
            r#"{{"apiVersion": "{}", "kind": "{kind}", "metadata": {{"name": "{name}", "namespace": "n", "ownerReferences": [
            {{"apiVersion": "{}", "kind": "{of}", "name": "{of_name}", "controller": true}}]}}, {rest}}}"#,
            if kind == "Pod" { "v1" } else { "apps/v1" },
            if of == "Job" { "batch/v1" } else { "apps/v1" },
        )
    };
    let spec = r#""spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "main"}]}}}"#;
    let pod = r#""spec": {"nodeName": "a", "containers": [{"name": "main"}]}, "status": {"phase": "Running", "startTime": "2026-01-01T00:00:10Z"}"#;
    let ended = r#""spec": {"nodeName": "a", "containers": [{"name": "main"}]}, "status": {"phase": "Failed"}"#;
    let job = r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n"},
        "spec": {"completions": 5, "parallelism": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}},
        "status": {"succeeded": 2}}"#;
    let items = [
        format!(r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "d", "namespace": "n"}}, {spec}}}"#),
        owned("ReplicaSet", "d-1", "Deployment", "d", spec),
        owned("Pod", "d-1-x", "ReplicaSet", "d-1", pod),
        owned("Pod", "d-1-y", "ReplicaSet", "d-1", ended),
        job.to_string(),
        owned("Pod", "j-x", "Job", "j", pod),
        r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "old"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}},
        "status": {"conditions": [{"type": "Complete", "status": "True"}]}}"#
            .to_string(),
    ];
    let (manifests, cluster) =
        fine(&format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{}]}}"#, items.join(",\n")));
    let pods: Vec<&str> = cluster.pods.iter().map(|stated| &*stated.pod.metadata.name).collect();
    assert_eq!(pods, ["d-1-x", "j-x"]);
    let made: Vec<(String, usize)> =
        cluster.controllers.iter().map(|made| (made.key(), made.sets[0].numbers.len())).collect();
    assert_eq!(made, [("n/d-1".to_string(), 2), ("n/j".to_string(), 2)]);
    let notes = manifests.unused.notes().join("\n");
    assert!(notes.contains("left out because a pod has ended (phase Succeeded or Failed): 1 object"), "{notes}");
    assert!(notes.contains("left out because the work is done: 1 object"), "{notes}");
}

#[test]
fn a_daemon_set_without_a_node_is_counted() {
    let node = |name: &str, disk: &str| {
        format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{disk: {disk}}}}}\n")
    };
    let daemons = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d, namespace: n}\n\
                   spec: {template: {spec: {nodeSelector: {disk: ssd}, containers: [{name: main}]}}}\n";
    for (disk, pods, noted) in [("ssd", 1, false), ("hdd", 0, true)] {
        let (manifests, cluster) = fine(&format!("{}---\n{daemons}", node("a", disk)));
        assert_eq!(cluster.controllers.iter().map(|made| made.sets.len()).sum::<usize>(), pods, "{disk}");
        let notes = manifests.unused.notes().join("\n");
        let note = "left out because no Node of the manifests takes a pod of the DaemonSet: 1 object";
        assert_eq!(notes.contains(note), noted, "{disk}: {notes}");
    }
}

#[test]
fn a_slip_has_its_place_and_the_nearest_name() {
    let pod = |spec: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers: [{{name: main}}]\n  {spec}\n")
    };
    let rows = [
        (pod("toleration: []"), "6:3", "unknown field `toleration` of the spec of a pod", "did you mean `tolerations`?"),
        (pod("nodeSelectr: {}"), "6:3", "unknown field `nodeSelectr`", "did you mean `nodeSelector`?"),
        (pod("nodeSelector: {gpu: true}"), "6:23", "found `true`, which YAML reads as true or false", "\"true\""),
        (pod("tolerations: [{key: a, operator: Exist}]"), "6:36", "`Exist` is not known as `operator`", "did you mean `Exists`?"),
        (pod("priority: high"), "6:13", "expected a whole number as `priority`, found `high`", "such as 1"),
        (pod("priorityClassName: hgh"), "6:22", "no PriorityClass is named `hgh`", "system-cluster-critical"),
        (pod("overhead: {cpu: 1 core}"), "6:19", "expected a quantity as `cpu`, found `1 core`", "500m"),
        (pod("affinity: []"), "6:13", "expected an affinity as `affinity`, found a list", "write `key: value`"),
        ("kind: Pod\nmetadata: {name: a}".to_string(), "1:1", "the object lacks `apiVersion`", "batch/v1"),
        ("apiVersion: apps/v1\nkind: Deploymnt\n".to_string(), "2:7", "`Deploymnt` is not a kind of `apps/v1`", "`Deployment`"),
        ("apiVersion: v1\nkind: Job\n".to_string(), "1:13", "`Job` is not a kind of `v1`", "write `batch/v1`"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {containers: [{name: m}]}".to_string(), "1:1", "lacks `metadata.name`", "add"),
        ("apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {}\n".to_string(), "4:7", "the spec of a job lacks `template`", "add"),
        ("apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {dryrack/duraton: 5m}}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: m}]}}}\n".to_string(), "3:35", "unknown annotation `dryrack/duraton`", "`dryrack/duration`"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n".to_string(), "4:9", "this is a template", "helm template"),
        (format!("{0}---\n{0}", pod("priority: 1")), "8:1", "Pod `a` is given twice", "test.yaml:1 already"),
    ];
    for (text, place, message, help) in rows {
        let (_, _, faults) = read(&text);
        for expected in [&format!("test.yaml:{place}\n"), message, help] {
            assert!(faults.contains(expected), "{text}\n{faults}\nlacks {expected}");
        }
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let (_, _, faults) = read(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{nam: a}], prioriti: 1, priority: x}\n---\nkind: Pod\n",
    );
    assert_eq!(faults.matches("error: ").count(), 4, "{faults}");
}

#[test]
fn an_unknown_field_of_a_later_release_is_a_warning() {
    let (manifests, _, faults) = read(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: m}], quantumEntanglement: 1}\n",
    );
    assert!(faults.starts_with("warning: unknown field `quantumEntanglement`"), "{faults}");
    assert!(manifests.unused.can_change_decisions());
}

#[test]
fn what_is_not_followed_is_told_once() {
    let (manifests, _) = fine(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: m}]\n  volumes: [{name: x, persistentVolumeClaim: \
         {claimName: data}}, {name: y, emptyDir: {}}]\n---\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: cert-manager.io/v1\nkind: Issuer\n",
    );
    let notes = manifests.unused.notes();
    assert_eq!(
        notes,
        [
            "not followed, so decisions can differ: Pod spec.volumes.persistentVolumeClaim (1)",
            "kinds without meaning in a rehearsal: ConfigMap (1), cert-manager.io Issuer (1)",
        ]
    );
}

#[test]
fn an_exclusive_topology_is_not_followed() {
    let set = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: a, annotations: {note: b, \
               leaderworkerset.sigs.k8s.io/exclusive-topology: rack}}\nspec: {leaderWorkerTemplate: {workerTemplate: \
               {spec: {containers: [{name: m}]}}}}\n";
    let notes = fine(set).0.unused.notes();
    let wanted = "LeaderWorkerSet metadata.annotations.leaderworkerset.sigs.k8s.io/exclusive-topology (1)";
    assert_eq!(notes[0], format!("not followed, so decisions can differ: {wanted}"));
    assert_eq!(notes[1], "fields without meaning in a rehearsal: LeaderWorkerSet metadata.annotations (1)");
}

/// A kind that nobody here knows may make pods, too.
#[test]
fn an_object_that_can_change_decisions_is_named_with_its_place() {
    let object = |version: &str, kind: &str, name: &str| {
        format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}\n---\n")
    };
    let (cron, volcano) =
        (object("batch/v1", "CronJob", "nightly"), object("batch.volcano.sh/v1alpha1", "Job", "train"));
    let told = |text: &str| fine(text).0.unused.unfollowed_objects().map(|(note, _)| note);
    assert_eq!(told(&object("v1", "ConfigMap", "c")), None);
    assert_eq!(
        told(&format!("{cron}{volcano}")).as_deref(),
        Some(
            "2 objects are not followed, so decisions can differ: CronJob nightly (test.yaml:1), batch.volcano.sh Job train \
             (test.yaml:5)"
        )
    );
    let later = object("scheduling.k8s.io/v1alpha2", "Workload", "w") + &object("jobset.x-k8s.io/v1", "JobSet", "s");
    assert_eq!(
        told(&later).as_deref(),
        Some(
            "2 objects are not followed, so decisions can differ: scheduling.k8s.io/v1alpha2 Workload w (test.yaml:1), \
             jobset.x-k8s.io/v1 JobSet s (test.yaml:5)"
        )
    );
    for (version, kind) in
        [("jobset.x-k8s.io/v1alpha1", "JobSet"), ("batch/v2", "Job"), ("kueue.x-k8s.io/v1beta", "Cohort")]
    {
        let (_, _, faults) = read(&object(version, kind, "a"));
        assert!(faults.contains(&format!("error: `{kind}` is not a kind of `{version}`")), "{faults}");
    }
    let many: String = (0..7).map(|number| object("kubeflow.org/v1", "PyTorchJob", &format!("p{number}"))).collect();
    let note = told(&many).unwrap();
    assert!(
        note.starts_with("7 objects are not followed, so decisions can differ: PyTorchJob p0 (test.yaml:1)"),
        "{note}"
    );
    assert!(note.ends_with("PyTorchJob p4 (test.yaml:17), and 2 more"), "{note}");
}

#[test]
fn classes_and_conditions_fill_in_what_the_cluster_would() {
    let (_, cluster) = fine(
        "
apiVersion: v1
kind: List
items:
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000, preemptionPolicy: Never}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 5, globalDefault: true}
- {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, overhead: {podFixed: {cpu: 250m}},
   scheduling: {nodeSelector: {kata: \"true\"}}}
- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {priorityClassName: high, runtimeClassName: kata, containers: [{name: m}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {hostNetwork: true, containers: [{name: m, ports: [{containerPort: 80}]}]}}
- {apiVersion: v1, kind: Node, metadata: {name: n}, status: {capacity: {cpu: 4}, conditions: [{type: Ready, status: \"False\"}]}}
",
    );
    let pods: Vec<&Pod> = cluster.pods.iter().map(|stated| &stated.pod).collect();
    assert_eq!(pods.iter().map(|pod| pod.spec.priority).collect::<Vec<_>>(), [Some(1000), Some(5)]);
    assert_eq!(pods[0].spec.overhead["cpu"].milli_value(), 250);
    assert_eq!(pods[0].spec.node_selector["kata"], Arc::from("true"));
    assert_eq!(pods[1].spec.containers[0].ports[0].host_port, 80);
    // The default tolerations of the admission plugin DefaultTolerationSeconds.
    assert_eq!(pods[1].spec.tolerations.len(), 2);
    let node = &cluster.nodes[0].0;
    assert_eq!(node.status.allocatable["cpu"].value(), 4);
    let taints: Vec<String> =
        node.spec.taints.iter().map(|taint| format!("{}:{:?}", taint.key, taint.effect)).collect();
    assert_eq!(taints, ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"]);
}

#[test]
fn a_claim_is_made_for_each_pod_that_names_a_template() {
    let (_, cluster) = fine(
        "
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: one, deviceClassName: gpu.example.com}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: m}], resourceClaims: [{name: g, resourceClaimTemplateName: gpu}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec: {parallelism: 2, template: {spec: {restartPolicy: Never, containers: [{name: m}],
  resourceClaims: [{name: g, resourceClaimTemplateName: gpu}]}}}
",
    );
    let claim = &cluster.claims[0];
    assert_eq!(&*claim.metadata.key(), "default/a-g");
    let exactly = claim.spec.devices.requests[0].exactly.as_ref().unwrap();
    assert_eq!(&*exactly.device_class_name, "gpu.example.com");
    let set = &cluster.controllers[0].sets[0];
    assert!(set.pods_differ());
    assert_eq!(set.pod(1).spec.resource_claims[0].resource_claim_name.as_deref(), Some("j-1-g"));
}

#[test]
fn what_is_written_is_read_as_the_same_data() {
    let (first, _) = fine(JOB);
    let mut report = Report::default();
    let text = crate::text(&first.objects);
    let source = report.add_source("again.yaml", text.as_str());
    let mut again = Manifests::default();
    again.text(source, &text, true, &mut report);
    assert_eq!(report.finish().to_string(), "", "{text}");
    assert_eq!(again.objects[0].value, first.objects[0].value, "{text}");
}

#[test]
fn files_folders_and_patterns_are_found_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let pod = |name: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: m}}]}}\n")
    };
    for (path, text) in [
        ("jobs/b.yaml", pod("b")),
        ("jobs/a.yml", pod("a")),
        ("jobs/deep/c.yaml", format!("{}---\n{}---\n", pod("c"), pod("d"))),
        ("jobs/.hidden.yaml", pod("hidden")),
        ("jobs/values.yaml", "replicas: 3\n".to_string()),
        (
            "one.json",
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j"}, "spec": {"containers": [{"name": "m"}]}}"#.to_string(),
        ),
    ] {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let read = |typed: &[&str]| {
        let (mut manifests, mut report) = (Manifests::default(), Report::default());
        typed.iter().for_each(|typed| manifests.read(typed, folder.path(), None, &mut report));
        let names: Vec<String> = manifests.objects.iter().map(|object| object.name().to_string()).collect();
        let faults = report.finish().to_string();
        (names.join(" "), faults.lines().next().unwrap_or_default().replace(folder.path().to_str().unwrap(), "."))
    };
    let rows: [(&[&str], &str, &str); 6] = [
        (&["jobs"], "a b c d", ""),
        (&["jobs/*.yaml"], "b", ""),
        (&["jobs/**/*.yaml", "one.json"], "b c d j", ""),
        (&["one.json", "."], "j a b c d", ""),
        (&["jbos/*.yaml"], "", "error: `jbos/*.yaml` matches no file"),
        (&["jobs/values.yaml"], "", "error: the object lacks `apiVersion`"),
    ];
    for (typed, names, fault) in rows {
        assert_eq!(read(typed), (names.to_string(), fault.to_string()), "{typed:?}");
    }
}

/// By the page "Specifying a Disruption Budget for your Application" of the documentation of Kubernetes: a percentage
/// of 7 pods is rounded up, so half of them are 4.
#[test]
fn a_budget_allows_what_its_limit_leaves() {
    let rows = [
        ("minAvailable: 5", 2),
        ("minAvailable: 50%", 3),
        ("maxUnavailable: 50%", 4),
        ("maxUnavailable: 1", 1),
        ("minAvailable: 9", 0),
    ];
    for (limit, allowed) in rows {
        let (_, cluster) = fine(&format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: b}}\nspec: {{selector: {{matchLabels: {{app: \
             a}}}}, {limit}}}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec: {{replicas: 7, \
             template: {{metadata: {{labels: {{app: a}}}}, spec: {{containers: [{{name: m}}]}}}}}}\n"
        ));
        assert_eq!(cluster.disruption_budgets()[0].status.disruptions_allowed, allowed, "{limit}");
    }
}

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/kubernetes");

/// The objects of recorded clusters, whose fields the recorder of kube-scheduler's decisions wrote.
pub fn recorded() -> Vec<String> {
    let file = std::fs::File::open(format!("{DATA}/kube-scheduler-1.35.4.jsonl.gz")).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    let kinds = [
        ("nodes", "v1", "Node"),
        ("boundPods", "v1", "Pod"),
        ("pods", "v1", "Pod"),
        ("namespaces", "v1", "Namespace"),
        ("services", "v1", "Service"),
        ("podDisruptionBudgets", "policy/v1", "PodDisruptionBudget"),
        ("deviceClasses", "resource.k8s.io/v1", "DeviceClass"),
        ("resourceSlices", "resource.k8s.io/v1", "ResourceSlice"),
        ("resourceClaims", "resource.k8s.io/v1", "ResourceClaim"),
        ("workloads", "scheduling.k8s.io/v1alpha1", "Workload"),
    ];
    let worlds = text.lines().map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        let of_kind = |(key, version, kind): &(&str, &str, &str)| {
            let items = record["world"][*key].as_array().cloned().unwrap_or_default();
            let lists = items.into_iter().map(|mut item| {
                item["apiVersion"] = Value::from(*version);
                item["kind"] = Value::from(*kind);
                item
            });
            lists.collect::<Vec<_>>()
        };
        let items: Vec<Value> = kinds.iter().flat_map(of_kind).collect();
        serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    });
    worlds.collect()
}

/// Each recorded object has the same meaning after it was read, cleaned, written as YAML, and read again.
#[test]
fn recorded_clusters_keep_their_meaning() {
    for world in recorded() {
        let (manifests, cluster) = without_errors(&world);
        let (again, same) = without_errors(&crate::text(&manifests.objects));
        assert_eq!(again.objects.len(), manifests.objects.len());
        for (one, two) in manifests.objects.iter().zip(&again.objects) {
            assert_eq!(one.value, two.value);
        }
        assert_eq!(format!("{:?}", same.claims), format!("{:?}", cluster.claims));
        // All objects of the record are read, with the types that the rules of kube-scheduler read.
        let record: Value = serde_json::from_str(&world).unwrap();
        let counted =
            |kind: &str| record["items"].as_array().unwrap().iter().filter(|item| item["kind"] == kind).count();
        assert_eq!(cluster.pods.len(), counted("Pod"));
        assert_eq!(cluster.nodes.len(), counted("Node"));
        for (stated, item) in
            cluster.pods.iter().zip(record["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "Pod"))
        {
            let mut direct: Pod = serde_json::from_value(item.clone()).unwrap();
            let own = direct.spec.tolerations.len();
            assert_eq!(format!("{:?}", &stated.pod.spec.tolerations[..own]), format!("{:?}", direct.spec.tolerations));
            direct.spec.tolerations = stated.pod.spec.tolerations.clone();
            assert_eq!(format!("{:?}", stated.pod), format!("{direct:?}"), "{item}");
        }
        for ((node, _), item) in
            cluster.nodes.iter().zip(record["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "Node"))
        {
            let mut direct: Node = serde_json::from_value(item.clone()).unwrap();
            direct.spec.taints = node.spec.taints.clone();
            assert_eq!(format!("{node:?}"), format!("{direct:?}"), "{item}");
        }
    }
}

/// Every field of a job that the JSON schema of Kubernetes 1.32 has is in the tables.
#[test]
fn every_field_of_the_schema_is_known() {
    let schema: Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{DATA}/job-v1.32.0.json")).unwrap()).unwrap();
    let mut faults = Vec::new();
    compare(&schema, &schema, &crate::shape::Shape::Fields(&crate::fields::JOB), "Job", &mut faults);
    assert_eq!(faults, Vec::<String>::new());
}

fn compare(schema: &Value, part: &Value, shape: &crate::shape::Shape, path: &str, faults: &mut Vec<String>) {
    use crate::shape::Shape;
    let part = match part["$ref"].as_str() {
        Some(reference) => schema.pointer(reference.trim_start_matches('#')).unwrap(),
        None => part,
    };
    match shape {
        Shape::Fields(fields) => {
            let Some(Value::Object(properties)) = part.get("properties") else { return };
            let names: Vec<&str> = fields.names().collect();
            for (name, property) in properties {
                let path = format!("{path}.{name}");
                match fields.shape_of(name) {
                    Some(shape) => compare(schema, property, shape, &path, faults),
                    None if names.contains(&name.as_str()) || path == "Job.apiVersion" || path == "Job.kind" => {}
                    None => faults.push(format!("unknown: {path}")),
                }
            }
            let required = part["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            // The names of containers do not matter. A requirement without a key is still refused.
            faults.extend(
                fields
                    .required
                    .iter()
                    .filter(|name| !properties.contains_key(**name))
                    .map(|name| format!("gone: {path}.{name}")),
            );
            for name in required.filter(|name| fields.shape_of(name).is_some()) {
                if !fields.required.contains(&name) && !TOLERANT.contains(&name) {
                    faults.push(format!("not required: {path}.{name}"));
                }
            }
        }
        Shape::List(item) => compare(schema, &part["items"], item, path, faults),
        Shape::Examined(inner) => compare(schema, part, inner, path, faults),
        _ => {}
    }
}

/// Fields that the API requires and that may be absent here, because nothing depends on them.
const TOLERANT: [&str; 7] = ["name", "containerPort", "nodeSelectorTerms", "uid", "apiVersion", "type", "status"];

/// No text makes the reader panic, however it is broken.
#[test]
fn no_input_panics() {
    let mut state: u64 = 0x2545_F491_4F6C_DD1D;
    let mut draw = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most.max(1) as u64) as usize
    };
    let worlds = recorded();
    let mut seeds: Vec<String> =
        worlds.iter().step_by(15).map(|world| crate::text(&without_errors(world).0.objects)).collect();
    seeds.push(JOB.to_string());
    let pieces = [
        "null",
        "~",
        "{}",
        "[]",
        "-1",
        "1e400",
        "99999999999999999999",
        "\"",
        "- ",
        ": ",
        "\n",
        "---\n",
        "true",
        "kind: ",
        "items: [{}]",
        "&a ",
        "*a",
        "\u{0}",
        "\u{e4}",
        "{{",
        "replicas: 2000000000",
        "<<: *a",
        "metadata: ~",
    ];
    for round in 0..2000 {
        let mut text = seeds[round % seeds.len()].clone();
        let start = text.floor_char_boundary(draw(text.len()));
        let end = text.floor_char_boundary((start + 1200).min(text.len()));
        if round % 3 != 0 {
            text = text[start..end].to_string();
        }
        for _ in 0..1 + draw(4) {
            let at = text.floor_char_boundary(draw(text.len() + 1));
            match draw(3) {
                0 => text.insert_str(at, pieces[draw(pieces.len())]),
                1 => {
                    let end = text.floor_char_boundary((at + draw(40)).min(text.len()));
                    text.replace_range(at..end.max(at), "");
                }
                _ => {
                    let end = text.floor_char_boundary((at + draw(20)).min(text.len()));
                    text.replace_range(at..end.max(at), pieces[draw(pieces.len())]);
                }
            }
        }
        let (_, cluster, _) = read(&text);
        // Nor do the pods of what was read.
        for set in cluster.controllers.iter().flat_map(|controller| &controller.sets) {
            set.numbers.iter().take(3).for_each(|number| drop(set.pod(*number)));
        }
    }
}
