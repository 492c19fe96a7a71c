//! `simulate` with manifests: what Kueue and the scheduler do with one more workload.

use crate::cli::{stderr, stdout, written};

trials! {
    Nothing: [
        pods_that_the_scheduler_preempts_are_simulated,
        a_job_set_that_kueue_preempts_is_simulated_by_its_own_name,
        a_job_in_short_words_is_simulated_in_a_local_queue_of_a_manifest,
        a_job_without_a_queue_is_simulated_by_the_scheduler_alone,
        a_time_after_the_end_is_not_simulated,
        pods_that_arrive_at_once_are_tried_by_creation_then_as_listed,
        a_remedy_names_all_that_is_in_the_way,
    ]
}

const NODES: &str = "\
{apiVersion: v1, kind: Node, metadata: {name: cpu-a}, status: {allocatable: {cpu: 16, memory: 64Gi, pods: 110}}}
---
apiVersion: v1
kind: Node
metadata: {name: gpu-a, labels: {pool: gpu}}
status: {allocatable: {cpu: 16, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
";

const QUEUES: &str = "\
{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: h100}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: team, namespace: ml}
spec: {clusterQueue: cq}
";

/// Six pods with a GPU each, which are not in a queue.
const FILLER: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: filler}
spec:
  replicas: 6
  selector: {matchLabels: {app: filler}}
  template:
    metadata: {labels: {app: filler}}
    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
";

/// A JobSet of two parts with two GPUs each.
const JOB_SET: &str = "\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: mine, namespace: ml, labels: {kueue.x-k8s.io/queue-name: team}}
spec:
  replicatedJobs:
    - name: leader
      replicas: 1
      template: &part
        spec:
          template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 2}}}]}}
    - {name: worker, replicas: 1, template: *part}
";

/// A Job of two pods with three GPUs each.
fn job(name: &str, metadata: &str, spec: &str) -> String {
    format!(
        "apiVersion: batch/v1\n\
         kind: Job\n\
         metadata: {{name: {name}, namespace: ml{metadata}}}\n\
         spec:\n  \
           parallelism: 2\n  \
           completions: 2\n  \
           template:\n    \
             spec:\n      \
               restartPolicy: Never{spec}\n      \
               nodeSelector: {{pool: gpu}}\n      \
               containers: [{{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: 3}}}}}}]\n"
    )
}

fn queued() -> String {
    job("train", ", labels: {kueue.x-k8s.io/queue-name: team}", "\n      priorityClassName: high")
}

fn cluster(workload: &str) -> String {
    [NODES, QUEUES, workload].join("---\n")
}

/// What is said about one more workload in this cluster.
fn asked(cluster: &str, with: &str, code: i32) -> String {
    let dir = written(&[("cluster.yaml", cluster), ("with.yaml", with)]);
    stdout(dir.path(), &["simulate", "cluster.yaml", "--with", "with.yaml", "--at", "1m"], code)
}

/// Two of eight GPUs are free. The first pod takes them and one of a victim, the second those of three.
fn pods_that_the_scheduler_preempts_are_simulated() {
    let said = asked(&cluster(FILLER), &queued(), 0);
    assert!(said.contains("admitted   at once, by ClusterQueue cq"), "{said}");
    assert!(said.contains("preempts   filler at 1m (4 pods, by the scheduler)"), "{said}");
}

fn a_job_set_that_kueue_preempts_is_simulated_by_its_own_name() {
    let said = asked(&cluster(JOB_SET), &queued(), 0);
    assert!(said.contains("preempts   jobset-mine at 1m (in_cluster_queue)\n"), "{said}");
}

fn a_job_in_short_words_is_simulated_in_a_local_queue_of_a_manifest() {
    for queue in ["team", "ml/team"] {
        let said = asked(&cluster(FILLER), &format!("{{name: own, queue: {queue}, gpus: 1, duration: 5m}}"), 0);
        assert!(said.contains("own in LocalQueue team") && said.contains("at once, by ClusterQueue cq"), "{said}");
    }
    let two =
        QUEUES.to_string() + "---\n" + &QUEUES[QUEUES.rfind("---\n").expect("the queue") + 4..].replace("ml", "art");
    let dir =
        written(&[("cluster.yaml", &[NODES, &two].join("---\n")), ("with.yaml", "{name: own, queue: team, gpus: 1}")]);
    let said = stderr(dir.path(), &["simulate", "cluster.yaml", "--with", "with.yaml"], 2);
    assert!(said.contains("several local queues are named `team`, in the namespaces art, ml"), "{said}");
    assert!(said.contains("write `queue: art/team`"), "{said}");
}

fn a_job_without_a_queue_is_simulated_by_the_scheduler_alone() {
    let said = asked(&cluster(FILLER), &job("plain", "", ""), 1);
    for line in [
        "plain in no queue, submitted at 1m",
        "admitted   without Kueue: it names no queue",
        "manageJobsWithoutQueueName",
        "running    at most 0 of 2 pods at a time, simulated until 1d\n",
        "pods wait  at 1m: 1 insufficient_gpus, 1 node_affinity_mismatch",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let said = asked(NODES, &queued(), 0);
    assert!(said.contains("admitted   without Kueue: there is no object of Kueue"), "{said}");
    assert!(said.contains("running    all pods at 1m\n"), "{said}");
}

fn a_time_after_the_end_is_not_simulated() {
    let dir = written(&[("cluster.yaml", &cluster(FILLER)), ("with.yaml", &queued())]);
    let said = stderr(dir.path(), &["simulate", "cluster.yaml", "--with", "with.yaml", "--at", "25h"], 2);
    assert!(said.contains("error: with.yaml: is submitted at 1d1h, and the rehearsal ends at 1d"), "{said}");
}

fn pods_that_arrive_at_once_are_tried_by_creation_then_as_listed() {
    let pod = |name: &str, created: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}{created}}}\n\
             spec: {{containers: [{{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: 5}}}}}}]}}\n"
        )
    };
    let later = ", creationTimestamp: \"2026-01-01T00:00:02Z\"";
    let earlier = ", creationTimestamp: \"2026-01-01T00:00:01Z\"";
    let job = pod("b", "").replace("v1\nkind: Pod", "batch/v1\nkind: Job");
    let job = job.replace("spec: {", "spec: {template: {spec: {restartPolicy: Never, ");
    let job = job.trim_end().to_string() + "}}\n";
    let dir = written(&[
        ("nodes.yaml", NODES),
        ("a.yaml", &pod("a", "")),
        ("a-later.yaml", &pod("a", later)),
        ("b.yaml", &pod("b", "")),
        ("b-earlier.yaml", &pod("b", earlier)),
        ("job.yaml", &job),
    ]);
    let runs = |files: &str, gets: bool| {
        let scenario = format!(
            "scenario: Room for one\nfiles: [nodes.yaml, {files}]\nuntil: 1m\nexpect: [{{job: b, is: running, by: 1s}}]\n"
        );
        std::fs::write(dir.path().join("one.yaml"), scenario).expect("a folder of our own");
        let said = stdout(dir.path(), &["test", "one.yaml"], i32::from(!gets));
        assert!(said.contains(if gets { "1 passed" } else { "1 failed" }), "{files}: {said}");
    };
    runs("a.yaml, b.yaml", false);
    runs("b.yaml, a.yaml", true);
    runs("'[ab].yaml'", false);
    // A controller is as good as a pod.
    runs("job.yaml, a.yaml", true);
    // What exists already was created before.
    runs("a.yaml, b-earlier.yaml", true);
    runs("a-later.yaml, b-earlier.yaml", true);
    runs("b.yaml, a-later.yaml", false);
}

/// `cpu-a` is refused for its labels, and has no GPU either.
fn a_remedy_names_all_that_is_in_the_way() {
    let scenario =
        "scenario: Too few GPUs\nfiles: [cluster.yaml, job.yaml]\nuntil: 1m\nexpect: [{job: plain, is: running}]\n";
    let files = |nodes: &str| {
        written(&[
            ("cluster.yaml", &[nodes, FILLER].join("---\n")),
            ("job.yaml", &job("plain", "", "")),
            ("s.yaml", scenario),
        ])
    };
    let said = stdout(files(NODES).path(), &["test", "s.yaml"], 1);
    assert!(said.contains("change    gpu-a would fit with 3 GPUs free instead of 2\n"), "{said}");
    let without = NODES.replace("pool: gpu", "pool: other").replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 0");
    let dir = files(&without);
    let said = stdout(dir.path(), &["test", "s.yaml"], 1);
    let wanted = "change    cpu-a would fit without node_affinity_mismatch and with 3 GPUs free instead of 0\n";
    assert!(said.contains(wanted), "{said}");
}
