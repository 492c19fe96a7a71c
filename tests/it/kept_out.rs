//! Jobs that Kueue or a quota of dstack keeps out for good, and jobs of which this would be wrong to say.

use crate::cli::{dryrack, empty, stdout};

trials! {
    Nothing: [
        what_kueue_never_lets_run_is_found,
        what_may_run_in_a_later_state_of_kueue_is_not_said_to_never_run,
        gangs_and_affinity_that_nothing_can_meet_are_found,
        the_smallest_number_of_a_range_counts_for_a_quota,
        what_a_pod_cannot_request_is_named_before_and_after_a_run,
        what_no_instance_has_is_named_with_amounts,
        the_way_to_leave_such_jobs_out_is_named_once,
    ]
}

const NODES: &str = "\
scenario: Two pools
profile: PROFILE
nodes:
  - {name: a1, machine: h100-80g-x8, labels: {pool: a, rack: r1}}
  - {name: a2, machine: h100-80g-x8, labels: {pool: a, rack: r2}}
  - {name: b1, cpus: 64, ram: 512GiB, gpus: [{type: h100-80g, count: 4}], labels: {pool: b, rack: r1}}
  - {name: b2, cpus: 64, ram: 512GiB, gpus: [{type: h100-80g, count: 4}], labels: {pool: b, rack: r2}}
";

/// A queue with these flavors of 64 GPUs each, and a job.
fn kueue(flavors: &str, queue: &str, job: &str) -> String {
    format!(
        "kueue:\n  topologies: [{{name: racks, levels: [rack, kubernetes.io/hostname]}}]\n  flavors: [{flavors}]\n  \
         cluster_queues: [{{name: q, {queue}}}]\njobs: [{{name: x, at: 1m, queue: q, {job}}}]\n"
    )
}

const A: &str = "{name: a, labels: {pool: a}}";
const B: &str = "{name: b, labels: {pool: b}}";
const RACKS: &str = "{name: a, labels: {pool: a}, topology: racks}, {name: b, labels: {pool: b}, topology: racks}";

/// Each row under each profile: the objects, and why the job never runs; an empty text if it may.
fn check(rows: &[(String, &str)], profiles: &[&str]) {
    let dir = empty();
    for profile in profiles {
        for (text, because) in rows {
            let text = format!("{}{text}until: 12h\n", NODES.replace("PROFILE", profile));
            std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
            for command in [&["run", "s.yaml"][..], &["trace", "check", "s.yaml"]] {
                let said = stdout(dir.path(), command, i32::from(!because.is_empty()));
                assert_eq!(said.contains("can never run: "), !because.is_empty(), "{text}{said}");
                assert!(said.contains(because), "{because}: {text}{said}");
            }
            // One more job of this kind gets the same answer.
            let (before, job) = text.split_once("jobs: [").expect("all rows have one job");
            let (job, after) = job.split_once("]\n").expect("its list");
            std::fs::write(dir.path().join("base.yaml"), format!("{before}{after}")).expect("a folder of our own");
            std::fs::write(dir.path().join("job.yaml"), job).expect("a folder of our own");
            let asked =
                dryrack(dir.path(), &["simulate", "base.yaml", "--with", "job.yaml"]).output().expect("it runs");
            let said = String::from_utf8_lossy(&asked.stdout);
            assert_eq!(said.contains("never runs "), !because.is_empty(), "{text}{said}");
            assert!(said.contains(because), "{because}: {text}{said}");
        }
    }
}

fn what_kueue_never_lets_run_is_found() {
    let of_b = "quota: {b: {gpus: 64}}";
    let in_one_rack = "topology: {required: rack}, replicas: 2, gpus: 8, duration: 10m";
    let rows = [
        (kueue(RACKS, "quota: {a: {gpus: 64}, b: {gpus: 64}}", in_one_rack), "TopologyPlacementFailed"),
        (kueue(A, "stop: Hold, quota: {a: {gpus: 4}}", "gpus: 8, duration: 10m"), "ExceedsMaxQuota"),
    ];
    check(&rows, &["kubernetes-1.35", "best-fit"]);
    // Other profiles end such a job when Kueue admits it, with a reason of their own.
    let none = "{name: b, labels: {pool: none}}";
    let small = "quota: {a: {gpus: 4}, b: {gpus: 64}}";
    let rows = [
        (kueue(B, of_b, "gpus: 8, duration: 10m"), "no node that its flavors select has room for it"),
        (kueue(none, of_b, "gpus: 1, duration: 10m"), "no node that its flavors select"),
        // The quota of the other flavor is too small.
        (kueue(&format!("{A}, {B}"), small, "gpus: 8, duration: 10m"), "no node that its flavors select"),
    ];
    check(&rows, &["kubernetes-1.35"]);
}

fn what_may_run_in_a_later_state_of_kueue_is_not_said_to_never_run() {
    let both = "quota: {a: {gpus: 8}, b: {gpus: 64}}";
    // Kueue tries `b` first. It has no rack with 8 GPUs, and if others use its quota, the job gets `a`.
    let by_quota = "quota: {b: {gpus: 8}, a: {gpus: 64}}";
    let one = "topology: {required: rack}, gpus: 8, duration: 10m";
    let later = "changes: [{at: 14h, cluster_queue: q, quota: {b: {gpus: 64}, a: {gpus: 64}}}]\n";
    let rows = [
        (kueue(&format!("{A}, {B}"), both, "gpus: 8, duration: 10m"), ""),
        (kueue(RACKS, by_quota, one), ""),
        (kueue(A, "stop: Hold, quota: {a: {gpus: 8}}", "gpus: 8, duration: 10m"), ""),
        (kueue(&format!("{A}, {B}"), "quota: {b: {gpus: 64}}", "gpus: 8, duration: 10m") + later, ""),
        (
            // The drained queue starts again with enough quota.
            kueue(A, "stop: HoldAndDrain, quota: {a: {gpus: 4}}", "gpus: 8, duration: 10m")
                + "changes: [{at: 14h, cluster_queue: q, stop: None, quota: {a: {gpus: 8}}}]\n",
            "",
        ),
    ];
    check(&rows, &["kubernetes-1.35"]);
}

fn gangs_and_affinity_that_nothing_can_meet_are_found() {
    let gang = |job: &str| format!("jobs: [{{name: x, at: 1m, duration: 10m, {job}}}]\n");
    let no_room = |pods: u32| format!("the suitable nodes have no room for {pods} tasks at once, even when empty");
    let (seven, four) = (no_room(7), no_room(4));
    // There are 24 GPUs: on two nodes 8, and on two 4.
    let rows = [
        (gang("tasks: 6, gpus: 4"), ""),
        (gang("tasks: 7, gpus: 4"), &*seven),
        (gang("tasks: 2, gpus: 8"), ""),
        (gang("tasks: 4, gpus: 8"), &four),
        (gang("tasks: 2, gpus: 1, labels: {pool: none}"), "no node"),
    ];
    let dir = empty();
    for (text, because) in rows {
        let text = format!("{}{text}until: 12h\n", NODES.replace("PROFILE", "kubernetes-1.35-gang-scheduling"));
        std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
        for command in [&["run", "s.yaml"][..], &["trace", "check", "s.yaml"]] {
            let said = stdout(dir.path(), command, i32::from(!because.is_empty()));
            assert_eq!(said.contains("can never run: "), !because.is_empty(), "{text}{said}");
            assert!(said.contains(because), "{because}: {text}{said}");
        }
    }
    let web = [("zone", "app: web")];
    let web_a = [("zone", "app: web"), ("kubernetes.io/hostname", "tier: a")];
    for (text, is_met) in [
        (beside(&web, "{app: batch}", "{app: web}"), true),
        (beside(&web, "{app: web}", "{app: batch}"), true),
        (beside(&web, "{app: batch}", "{app: batch}"), false),
        (beside(&[("row", "app: web")], "{app: web}", "{app: web}"), false),
        (beside(&[("kubernetes.io/hostname", "app: web")], "{app: web}", "{app: web}"), true),
        // All terms must select the same pod, and all topology keys must be on the same node.
        (beside(&web_a, "{app: batch}", "{app: web, tier: a}"), true),
        (beside(&web_a, "{tier: a}", "{app: web}"), false),
        (beside(&[web_a[0], ("rack", "tier: a")], "{app: batch}", "{app: web, tier: a}"), false),
    ] {
        std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
        let said = stdout(dir.path(), &["run", "s.yaml"], i32::from(!is_met));
        assert_eq!(said.contains("can never run: "), !is_met, "{text}{said}");
        assert!(is_met || said.contains("there is no pod beside which it may run"), "{text}{said}");
    }
}

/// A pod whose required affinity has these terms, each a topology key and a label, and another pod.
fn beside(terms: &[(&str, &str)], labels: &str, others: &str) -> String {
    let term =
        |(key, label): &(&str, &str)| format!("{{topologyKey: {key}, labelSelector: {{matchLabels: {{{label}}}}}}}");
    let terms = terms.iter().map(term).collect::<Vec<_>>().join(", ");
    format!(
        "scenario: Beside others\nprofile: kubernetes-1.35\nuntil: 1h\nmanifests:\n\
         - {{apiVersion: v1, kind: Node, metadata: {{name: m, labels: {{rack: r}}}}, status: {{allocatable: {{cpu: 8, pods: 9}}}}}}\n\
         - {{apiVersion: v1, kind: Node, metadata: {{name: n, labels: {{zone: z}}}}, status: {{allocatable: {{cpu: 8, pods: 9}}}}}}\n\
         - {{apiVersion: v1, kind: Pod, metadata: {{name: other, labels: {others}, annotations: {{dryrack/at: 2m}}}}, \
         spec: {{nodeName: n, containers: [{{name: c}}]}}}}\n\
         - {{apiVersion: v1, kind: Pod, metadata: {{name: x, labels: {labels}}}, spec: {{containers: [{{name: c}}], affinity: \
         {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{terms}]}}}}}}}}\n"
    )
}

/// A range takes as many GPUs as it can get, and at least the first number.
fn the_smallest_number_of_a_range_counts_for_a_quota() {
    let dir = empty();
    for (gpus, is_over) in [("5..8", true), ("4..8", false), ("5", true), ("5..", true), ("..8", false)] {
        let text = format!(
            "scenario: A range of GPUs\nprofile: dstack\nuntil: 2h\npolicies: {{quotas: {{lab: {{gpus: 4}}}}}}\n\
             fleets: {{f: {{blocks: 8, disk: 500GiB, hosts: [{{name: h, machine: a100-80g-x8}}]}}}}\n\
             jobs: [{{name: x, project: lab, resources: {{gpu: {gpus}}}, retry: {{for: 6h}}}}]\n"
        );
        std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
        let said = stdout(dir.path(), &["run", "s.yaml"], i32::from(is_over));
        let because = "would exceed the quota of its project even if nothing else runs";
        assert_eq!(said.contains(because), is_over, "{text}{said}");
    }
}

/// Half a GPU, and two nodes at once: `trace check`, a run and its explanation agree, and the named keys mend it.
fn what_a_pod_cannot_request_is_named_before_and_after_a_run() {
    let dir = empty();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    write(
        "list.csv",
        "job,submit_s,duration_s,gpus,gpu_milli,cpu_milli,nodes\nwhole,0,60,1,,1000,1\nhalf,1,60,1,500,1000,1\n",
    );
    write("apart.csv", "job,submit_s,duration_s,gpus,nodes\none,0,60,1,1\ntwo,1,60,2,2\n");
    let scenario = |profile: &str, trace: &str| {
        format!(
            "scenario: A log under kube-scheduler\nprofile: {profile}\nnodes: [{{name: n, count: 2, machine: \
             h100-80g-x8}}]\ntrace: {{format: csv, {trace}}}\nexpect: [p95(queue_wait) <= 1h]\n"
        )
    };
    let half = "the job asks for a part of a GPU, and a pod requests whole GPUs (`gpu_shares: whole` in `trace:`";
    let apart = "the job takes several nodes or tasks at once, and a pod of Kubernetes is one task on one node";
    for profile in ["kubernetes-1.20", "kubernetes-1.35", "kubernetes-1.35-gang-scheduling"] {
        for (file, job, because) in [("list.csv", "half", half), ("apart.csv", "two", apart)] {
            write("s.yaml", &scenario(profile, &format!("file: {file}")));
            for command in [&["trace", "check", "s.yaml"][..], &["run", "s.yaml", "--out", "out"]] {
                let said = stdout(dir.path(), command, 1);
                assert!(said.contains(&format!("1 of 2 jobs can never run: {because}")), "{profile}: {said}");
            }
            let said = stdout(dir.path(), &["explain", "out/events.jsonl", "--job", job], 0);
            assert!(said.contains(because) && !said.contains("would fit"), "{profile}: {said}");
        }
    }
    for (profile, trace) in [("kubernetes-1.35", "file: list.csv, gpu_shares: whole"), ("easy", "file: apart.csv")] {
        write("s.yaml", &scenario(profile, trace));
        for command in [&["trace", "check", "s.yaml"][..], &["run", "s.yaml"]] {
            assert!(!stdout(dir.path(), command, 0).contains("can never run"), "{profile}");
        }
    }
}

/// A job of 16 GPUs and 128 cores on one node. Most instances are of the cloud and have 96 cores; hosts have 512, or 64.
fn what_no_instance_has_is_named_with_amounts() {
    let dir = empty();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    write("list.csv", "job,submit_s,duration_s,gpus,cpu_milli,nodes\na,0,60,8,8000,1\nb,1,60,16,128000,1\n");
    let host = |cpus: u32| {
        format!(
            "  own: {{blocks: 8, placement: cluster, hosts: [{{name: own, cpus: {cpus}, ram: 4TiB, gpus: [{{type: \
             a100-80g, count: 8}}]}}]}}\n"
        )
    };
    let cloud = "  cloud: {nodes: 0..12, blocks: 8, placement: cluster, offers: [{name: od, machine: a100-80g-x8}]}\n";
    let gpus = "no instance or host has 16 GPUs, which one node of the job asks for (at most 8)";
    let cores = ", and no instance or host has 128 cores, which one node of the job asks for (at most 64)";
    for (fleets, because) in
        [(host(512) + cloud, gpus.to_string()), (host(512), gpus.to_string()), (host(64), format!("{gpus}{cores}"))]
    {
        let text = format!(
            "scenario: Instances\nprofile: easy\nfleets:\n{fleets}trace: {{format: csv, file: list.csv, run_on: \
             instances}}\n"
        );
        write("s.yaml", &text);
        for command in [&["trace", "check", "s.yaml"][..], &["run", "s.yaml"]] {
            let said = stdout(dir.path(), command, 1);
            assert!(said.contains(&format!("1 of 2 jobs can never run: {because}\n")), "{said}");
        }
    }
}

/// Bounds on waiting fail because of a job that fits on no node, unless the scenario says otherwise.
fn the_way_to_leave_such_jobs_out_is_named_once() {
    let dir = empty();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    write(
        "p.yaml",
        "plan: How many?\nscenario: s.yaml\nfactors: {n: {set: nodes.n.count, values: [1, 2]}}\nminimize: gpus\nconstraints: \
         [p95(queue_wait) <= 1h, max(queue_wait) <= 2h]\n",
    );
    for (unplaced, code) in [("", 1), ("unplaced: ignore\n", 0)] {
        let text = format!(
            "scenario: Too large\nnodes: [{{name: n, count: 1, machine: a100-80g-x2}}]\n{unplaced}jobs: [{{name: small, \
             gpus: 1, duration: 1m}}, {{name: large, gpus: 3, duration: 1m}}]\nexpect: [p95(queue_wait) <= 1h, \
             max(queue_wait) <= 2h]\n"
        );
        write("s.yaml", &text);
        let commands = [&["run", "s.yaml"][..], &["test", "s.yaml"], &["plan", "p.yaml"]];
        for (command, code) in
            commands.into_iter().map(|command| (command, code)).chain([(&["trace", "check", "s.yaml"][..], 1)])
        {
            let said = stdout(dir.path(), command, code);
            let times = said.matches("write `unplaced: ignore` in the scenario").count();
            assert_eq!(times, usize::from(unplaced.is_empty()), "{command:?}: {said}");
        }
    }
}
