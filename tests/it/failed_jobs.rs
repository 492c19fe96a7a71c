//! Jobs of Kubernetes that fail while pods of them wait: whether they could have run, and how bounds count their waits.

use crate::cli::{empty, stdout};
use crate::never_runs::TWO_NODES;

trials! {
    Nothing: [
        pods_that_waited_until_their_job_failed_are_judged_too,
        a_job_that_ran_or_was_admitted_is_not_said_to_never_run,
        a_bound_of_waits_that_are_over_is_exact,
        a_gang_that_ends_at_its_deadline_lacks_what_it_lacked,
    ]
}

/// A Job of pods with so many GPUs that comes after a minute and runs for an hour. `more` states the rest of its `spec`. The Job
/// `lowered` waits in the queue of this name.
fn job_of_pods(name: &str, gpus: u32, more: &str, pod: &str) -> String {
    let labels = if name == "lowered" { "kueue.x-k8s.io/queue-name: lowered" } else { "" };
    format!(
        "  - apiVersion: batch/v1\n    kind: Job\n    metadata: {{name: {name}, annotations: {{dryrack/at: 1m, dryrack/duration: \
         1h}}, labels: {{{labels}}}}}\n    spec:\n      {more}\n      template: {{spec: {{{pod}restartPolicy: \
         Never, containers: [{{name: m, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]}}}}\n"
    )
}

/// The deadline of their Job hides that no node can take the pods of one, and that the nodes were in use for the other.
fn pods_that_waited_until_their_job_failed_are_judged_too() {
    let first = "profile: kubernetes-1.35\nuntil: 3h\nmanifests:\n";
    let deadline = "activeDeadlineSeconds: 600";
    let three = "completionMode: Indexed\n      completions: 3\n      parallelism: 3";
    let large = job_of_pods("large", 4, deadline, "");
    let crowded = job_of_pods("crowded", 2, &format!("{deadline}\n      {three}"), "");
    let of_others = job_of_pods("of-others", 1, deadline, "schedulerName: volcano, ");
    let bound = "expect: [{name: in_time, metric: max(queue_wait) < 100d}]\n";
    let infinite = "max(queue_wait) was infinite over 3 replicas: 1 of them waited for a place until their job failed";
    let alone = "max(queue_wait) was infinite over 1 replica: 1 of them waited for a place until their job failed";
    for (jobs, expect, told) in [
        (&format!("{large}{crowded}"), "", "FAIL  every job can run if all nodes are ready and empty"),
        (&large, "", "1 of 1 job can never run: no node has 4 GPUs, which one task asks for (at most 2)"),
        (&large, bound, "1 of 1 job can never run"),
        (&crowded, bound, infinite),
        (&crowded, bound, "; without replicas that were never placed"),
        (&of_others, bound, alone),
        (&format!("{large}{crowded}"), bound, "; max(queue_wait) of the others was infinite"),
    ] {
        let dir = empty();
        std::fs::write(dir.path().join("s.yaml"), format!("{TWO_NODES}{first}{jobs}{expect}"))
            .expect("a folder of our own");
        let said = stdout(dir.path(), &["run", "s.yaml"], 1);
        assert!(said.contains(told), "{told}\n{said}");
    }
}

/// Two of three pods ran until a node was lost, and Kueue admitted the other Job before its quota was lowered.
fn a_job_that_ran_or_was_admitted_is_not_said_to_never_run() {
    let lost = "profile: kubernetes-1.35\nuntil: 3h\nfaults:\n  - {at: 30m, node: a, becomes: gone}\n  \
                - {at: 30m, node: b, becomes: gone}\nmanifests:\n";
    let three = "backoffLimit: 0\n      completions: 3\n      parallelism: 3";
    let lost = format!("{lost}{}", job_of_pods("lost", 2, three, ""));
    let lowered = |more: &str| {
        let text = "profile: kubernetes-1.35\nuntil: 3h\nkueue:\n  cluster_queues: [{name: lowered, quota: {any: {gpus: 4}}}]\n\
                    changes:\n  - {at: 10m, cluster_queue: lowered, quota: {any: {gpus: 0}}}\njobs:\n  \
                    - {name: full, count: 2, gpus: 2, duration: 3h}\nmanifests:\n";
        format!("{text}{}", job_of_pods("lowered", 2, more, ""))
    };
    // Kueue admits two of the four pods. The others are not admitted, but their workload is.
    let in_part = lowered("completions: 4\n      parallelism: 4")
        .replace("dryrack/at", "kueue.x-k8s.io/job-min-parallelism: \"1\", dryrack/at");
    for text in [
        lost.clone(),
        lost.replace("backoffLimit: 0", "backoffLimit: 6"),
        lowered("activeDeadlineSeconds: 1800"),
        lowered("activeDeadlineSeconds: 18000"),
        in_part,
    ] {
        let dir = empty();
        std::fs::write(dir.path().join("s.yaml"), format!("{TWO_NODES}{text}")).expect("a folder of our own");
        let said = stdout(dir.path(), &["run", "s.yaml"], 0);
        assert!(said.contains("ok    every job can run if all") && !said.contains("never run:"), "{text}{said}");
    }
    // It has not come to its queue yet, so nothing was admitted.
    let behind = "kueue:\n  cluster_queues: [{name: q, quota: {any: {gpus: 1}}}]\nuntil: 1h\njobs:\n  \
                  - {name: long, gpus: 1, duration: 3h}\n  - {name: late, after: {ok: long}, queue: q, gpus: 2, duration: 5m}\n";
    let dir = empty();
    std::fs::write(dir.path().join("s.yaml"), format!("{TWO_NODES}{behind}")).expect("a folder of our own");
    let said = stdout(dir.path(), &["run", "s.yaml"], 1);
    assert!(said.contains("1 of 2 jobs can never run: ExceedsMaxQuota"), "{said}");
    // The pod that did not run has waited for half an hour.
    let dir = empty();
    let bound = "expect: [{name: in_time, metric: max(queue_wait) <= 1m}]\n";
    std::fs::write(dir.path().join("s.yaml"), format!("{TWO_NODES}{lost}{bound}")).expect("a folder of our own");
    let said = stdout(dir.path(), &["run", "s.yaml"], 1);
    assert!(said.contains("infinite over 3 replicas: 1 of them waited for a place until their job failed"), "{said}");
}

/// The waits are 0 s, an hour, and infinite. No bound goes on at the end of the run, so each is judged with all three.
fn a_bound_of_waits_that_are_over_is_exact() {
    let three = "activeDeadlineSeconds: 5400\n      completions: 3\n      parallelism: 3";
    let job = job_of_pods("pods", 2, three, "");
    let bounds = [
        ("p50(queue_wait) == 1h", Ok("")),
        ("max(queue_wait) > 100d", Ok("")),
        ("min(queue_wait) == 0s", Ok("")),
        (
            "p50(queue_wait) <= 30m",
            Err("p50(queue_wait) was 1h over 3 replicas: 1 of them waited for a place until their job failed"),
        ),
        ("mean(queue_wait) <= 100d", Err("mean(queue_wait) was infinite over 3 replicas")),
    ];
    for (bound, told) in bounds {
        let nodes = "scenario: One node\nprofile: kubernetes-1.35\nuntil: 3h\nnodes: [{name: a, machine: a100-80g-x2}]\nmanifests:\n";
        let dir = empty();
        std::fs::write(dir.path().join("s.yaml"), format!("{nodes}{job}expect:\n  - {bound}\n"))
            .expect("a folder of our own");
        let said = stdout(dir.path(), &["run", "s.yaml"], i32::from(told.is_err()));
        assert!(said.contains(told.unwrap_or_else(|told| told)), "{bound}\n{said}");
    }
}

/// The claim does not exist, with a deadline as without one.
fn a_gang_that_ends_at_its_deadline_lacks_what_it_lacked() {
    let gang = "profile: kubernetes-1.35-gang-scheduling\nuntil: 1h\nmanifests:\n  - apiVersion: scheduling.k8s.io/v1alpha1\n    \
                kind: Workload\n    metadata: {name: w}\n    spec: {podGroups: [{name: g, policy: {gang: {minCount: 2}}}]}\n";
    let pod = "workloadRef: {name: w, podGroup: g}, resourceClaims: [{name: c, resourceClaimName: missing}], ";
    for deadline in [600, 18000] {
        let more = format!("activeDeadlineSeconds: {deadline}\n      completions: 2\n      parallelism: 2");
        let dir = empty();
        let job = job_of_pods("late", 1, &more, pod);
        std::fs::write(dir.path().join("s.yaml"), format!("{TWO_NODES}{gang}{job}")).expect("a folder of our own");
        let said = stdout(dir.path(), &["run", "s.yaml"], 1);
        assert!(said.contains("1 of 1 job can never run: could not find a ResourceClaim of the pod"), "{said}");
    }
}
