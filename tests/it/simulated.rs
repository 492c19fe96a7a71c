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
        pods_that_fit_no_empty_node_never_run,
        pods_that_run_in_turn_are_not_said_to_run_together,
        pods_beyond_those_at_a_time_are_not_said_to_run,
        a_workload_that_is_preempted_again_and_again_is_named_once,
        changes_are_those_with_which_the_pods_run_earlier,
        a_change_that_helps_later_is_better_than_none,
        a_workload_behind_another_says_what_that_one_waits_for,
        a_workload_from_a_pipe_is_read_once,
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

/// What is said about one more workload at 10m, in these words of dryrack.
fn asked_of_scenario(scenario: &str, with: &str, code: i32) -> String {
    let dir = written(&[("s.yaml", scenario), ("with.yaml", with)]);
    stdout(dir.path(), &["simulate", "s.yaml", "--with", "with.yaml", "--at", "10m"], code)
}

/// The nodes have 8 GPUs each, and the quota is 16.
fn pods_that_fit_no_empty_node_never_run() {
    let scenario = "\
scenario: The quota is larger than a node
kueue: {cluster_queues: [{name: q, quota: {h100: {gpus: 16}}}]}
nodes: [{name: n, count: 2, machine: h100-80g-x8}]
until: 12h
jobs: [{name: x, queue: q, gpus: 1, duration: 1m}]
";
    let ask = |job: &str, code: i32| asked_of_scenario(scenario, &format!("{{name: new, {job}}}"), code);
    let said = ask("queue: q, gpus: 12", 1);
    assert!(said.contains("admitted   at once, by ClusterQueue q\n"), "{said}");
    assert!(said.contains("running    never, even if all nodes are empty: no node has 12 GPUs"), "{said}");
    assert!(!said.contains("quota of"), "{said}");
    // The queue refuses 20 GPUs, but more quota would not help.
    let said = ask("queue: q, gpus: 20", 1);
    assert!(said.contains("admitted   no, simulated until 12h"), "{said}");
    assert!(said.contains("running    never, even if all nodes are empty: no node has 20 GPUs"), "{said}");
    assert!(!said.contains("quota of"), "{said}");
    // Each node has room for one pod of 5 GPUs, which runs until after the end.
    let said = ask("queue: q, replicas: 3, gpus: 5, duration: 20h", 1);
    assert!(said.contains("running    never all at once: at most 2 of 3 pods if all nodes are empty"), "{said}");
    assert!(
        said.contains("  2 pods instead of 3\n    admitted at 10m, all pods run at 10m, preempts nobody\n"),
        "{said}"
    );
    assert!(!said.contains("quota of"), "{said}");
    let said = ask("gpus: 12", 1);
    assert!(said.contains("running    never, even if all nodes are empty: no node has 12 GPUs"), "{said}");
}

/// Two queues with 8 GPUs each in a cohort. `low` has 12 GPUs of them until 2h, `mid` 4 from 5m to 3h5m.
const COHORT: &str = "\
scenario: Two queues in a cohort
kueue:
  cluster_queues:
    - {name: research, cohort: co, quota: {h100: {gpus: 8}}, preemption: {within: LowerPriority}}
    - {name: product, cohort: co, quota: {h100: {gpus: 8}}, preemption: {reclaim: Any, within: LowerPriority}}
nodes: [{name: n, count: 2, machine: h100-80g-x8}]
jobs:
  - {name: low, queue: research, replicas: 12, gpus: 1, duration: 2h, priority: 0}
  - {name: mid, at: 5m, queue: product, replicas: 4, gpus: 1, duration: 3h, priority: 5}
until: 12h
";

/// Six pods with a GPU each.
fn six(annotations: &str) -> String {
    format!(
        "apiVersion: batch/v1\n\
         kind: Job\n\
         metadata: {{name: new, labels: {{kueue.x-k8s.io/queue-name: product}}, annotations: {{{annotations}}}}}\n\
         spec:\n  \
           parallelism: 6\n  \
           completions: 6\n  \
           template:\n    \
             metadata: {{annotations: {{dryrack/duration: 20m}}}}\n    \
             spec:\n      \
               restartPolicy: Never\n      \
               containers: [{{name: c, image: x, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]\n"
    )
}

/// Twelve pods of 20 minutes on eight GPUs.
fn pods_that_run_in_turn_are_not_said_to_run_together() {
    let in_no_queue = six("").replace("labels: {kueue.x-k8s.io/queue-name: product}, ", "").replace(": 6\n", ": 12\n");
    let said = asked(NODES, &in_no_queue, 0);
    assert!(said.contains("running    the last of 12 pods from 21m, at most 8 at a time\n"), "{said}");
}

/// Kueue admits four of the six pods, and one queue has room for four.
fn pods_beyond_those_at_a_time_are_not_said_to_run() {
    let queue = QUEUES.replace("nominalQuota: 8", "nominalQuota: 4");
    let some = six("kueue.x-k8s.io/job-min-parallelism: \"2\"").replace("queue-name: product", "queue-name: team");
    let some = some.replace("{name: new,", "{name: new, namespace: ml,");
    let said = asked(&[NODES, &queue].join("---\n"), &some, 0);
    assert!(said.contains("running    4 of 6 pods at a time, from 1m\n"), "{said}");
}

/// With fewer pods `new` may reclaim quota, and with all six it may not, so it preempts `low` in vain in each second
/// until `mid` ends.
fn a_workload_that_is_preempted_again_and_again_is_named_once() {
    let said = asked_of_scenario(COHORT, &six("kueue.x-k8s.io/job-min-parallelism: \"2\""), 0);
    assert!(said.contains("admitted   at 3h5m, after 2h55m"), "{said}");
    let line = "preempts   low, 10500 times from 10m to 3h4m59s (in_cohort_reclamation)\n";
    assert!(said.contains(line), "{said}");
    assert!(said.contains("again      low is admitted again after each preemption, before job-new\n"), "{said}");
}

/// `product` uses 4 of its 8 GPUs. So it may reclaim 4 for `new`, or 6 with a quota of 10. With a quota of 14, `new` would
/// be admitted without a preemption, and wait for GPUs until `low` ends.
fn changes_are_those_with_which_the_pods_run_earlier() {
    let said = asked_of_scenario(COHORT, &six(""), 0);
    assert!(said.contains("running    all pods at 2h\n"), "{said}");
    let with = "    admitted at 10m1s, all pods run at 10m1s, preempts low at 10m (in_cohort_reclamation)\n";
    for change in ["a quota of 10 nvidia.com/gpu of h100 in ClusterQueue product, instead of 8", "4 pods instead of 6"]
    {
        assert!(said.contains(&format!("  {change}\n{with}")), "{change}: {said}");
    }
    assert!(!said.contains("a quota of 14"), "{said}");
}

/// `large` has 4 free GPUs until `busy` ends after an hour.
fn a_change_that_helps_later_is_better_than_none() {
    let scenario = "\
scenario: Another queue helps after a while
kueue:
  cluster_queues:
    - {name: small, quota: {h100: {gpus: 4}}}
    - {name: large, quota: {h100: {gpus: 12}}}
nodes: [{name: n, count: 2, machine: h100-80g-x8}]
jobs: [{name: busy, queue: large, gpus: 8, duration: 1h}]
until: 12h
";
    let said = asked_of_scenario(scenario, "{name: new, queue: small, replicas: 8, gpus: 1, duration: 20m}", 1);
    let at_once = "    admitted at 10m, all pods run at 10m, preempts nobody\n";
    let wanted = [
        format!("  a quota of 8 nvidia.com/gpu of h100 in ClusterQueue small, instead of 4\n{at_once}"),
        format!("  4 pods instead of 8\n{at_once}"),
        "  LocalQueue large (ClusterQueue large)\n    admitted at 1h, all pods run at 1h, preempts nobody\n"
            .to_string(),
    ]
    .concat();
    assert!(said.ends_with(&wanted), "{said}");
}

/// `first` has the quota until 2h, and `second` waits for it since 5m.
const WAITING: &str = "\
scenario: A queue in which an equal job waits
kueue: {cluster_queues: [{name: q, STRATEGY, quota: {h100: {gpus: 8}}}]}
nodes: [{name: n, count: 4, machine: h100-80g-x8}]
jobs:
  - {name: first, queue: q, gpus: 8, duration: 2h}
  - {name: second, at: 5m, queue: q, gpus: 8, duration: 2h}
until: UNTIL
";

/// Kueue does not try a workload while one of the same shape does not fit, so it writes no message about it.
fn a_workload_behind_another_says_what_that_one_waits_for() {
    let quota = "waiting_for_quota: couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in \
                 flavor h100, 8 more needed";
    let equal = format!("it asks for the same as second, which waits ({quota}), so Kueue does not try it");
    let head = format!("second is ahead of it and waits ({quota})");
    let rows = [("strategy: BestEffortFIFO", equal), ("strategy: StrictFIFO", head)];
    for (strategy, why) in rows {
        for (until, code) in [("12h", 0), ("1h", 1)] {
            let text = WAITING.replace("STRATEGY", strategy).replace("UNTIL", until);
            let said = asked_of_scenario(&text, "{name: new, queue: q, gpus: 8, duration: 2h}", code);
            let key = if code == 0 { "at first   " } else { "because    " };
            assert!(said.contains(&format!("{key}pending_evaluation: {why}\n")), "{said}");
            // With 8 more, `second` comes first.
            let change = "  a quota of 24 nvidia.com/gpu of h100 in ClusterQueue q, instead of 8\n    admitted at 10m, all pods run at 10m, preempts nobody";
            assert!(said.contains(change), "{said}");
            let half = "  a quota of 16 nvidia.com/gpu of h100 in ClusterQueue q, instead of 8\n    admitted at 2h,";
            assert_eq!(said.contains(half), code == 0, "{said}");
        }
        // The explanation of a run says the same.
        let text = WAITING.replace("STRATEGY", strategy).replace("UNTIL", "12h");
        let new = "  - {name: new, at: 10m, queue: q, gpus: 8, duration: 2h}\nuntil";
        let dir = written(&[("s.yaml", &text.replace("until", new))]);
        stdout(dir.path(), &["run", "s.yaml", "--out", "out"], 0);
        let said = stdout(dir.path(), &["explain", "out/events.jsonl", "--job", "new", "--at", "20m"], 0);
        assert!(said.contains(&why), "{said}");
    }
}

/// `--with -` and `--with <(helm template ...)`: a pipe gives its text only once.
fn a_workload_from_a_pipe_is_read_once() {
    let dir = written(&[("cluster.yaml", &cluster(FILLER)), ("with.yaml", &queued())]);
    let of_file = stdout(dir.path(), &["simulate", "cluster.yaml", "--with", "with.yaml", "--at", "1m"], 0);
    for path in ["-", "/dev/fd/0"] {
        let (from, mut to) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut to, queued().as_bytes()).expect("it is short");
        drop(to);
        let args = ["simulate", "cluster.yaml", "--with", path, "--at", "1m"];
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dryrack"));
        let output = command.args(args).current_dir(dir.path()).stdin(from).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()),
            (Some(0), of_file.clone()),
            "{said}"
        );
    }
}
