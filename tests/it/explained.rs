//! What `explain` and a failed expectation say about a job that passed the head of the queue.

use std::path::Path;

use crate::cli::{empty, stdout};

trials! {
    Nothing: [
        what_passed_the_head_is_explained,
        who_holds_the_turns_of_an_array_is_named,
    ]
}

/// Both nodes have one GPU. `wide` needs both, so it waits until `a` ends after a minute. `small` ends before that, so
/// it starts on the other node at once, or when backfilling runs next.
fn backfilled(profile: &str) -> String {
    format!(
        "scenario: One that passes the head of the queue\n\
         profile: {profile}\n\
         nodes: [{{name: n, count: 2, gpus: 1, gpu: l4}}]\n\
         jobs:\n  \
         - {{name: a, gpus: 1, duration: 1m, estimate: 1m}}\n  \
         - {{name: wide, tasks: 2, gpus: 1, duration: 1m, estimate: 1m}}\n  \
         - {{name: small, gpus: 1, duration: 10s, estimate: 10s}}\n\
         expect: [{{job: small, never: placed}}]\n"
    )
}

fn write(dir: &Path, profile: &str) {
    std::fs::write(dir.join("backfilled.yaml"), backfilled(profile)).expect("a folder of our own");
}

const PROFILES: [&str; 4] = ["easy", "conservative", "slurm-22.05", "rlscheduler-fcfs-backfill"];

fn what_passed_the_head_is_explained() {
    for profile in PROFILES {
        let dir = empty();
        write(dir.path(), profile);
        stdout(dir.path(), &["run", "backfilled.yaml", "--out", "."], 1);
        let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "small", "--at", "5s"], 0);
        assert!(said.contains("why here: placed on n-1/0 at "), "{profile}: {said}");
        let said = stdout(dir.path(), &["test", "backfilled.yaml"], 1);
        assert!(said.contains("1 failed") && !said.contains("internal error"), "{profile}: {said}");
    }
}

fn who_holds_the_turns_of_an_array_is_named() {
    let dir = empty();
    let scenario = "scenario: An array with a limit\n\
         nodes: [{name: n, cpus: 8}]\n\
         jobs: [{name: sweep, array: \"1-5%2\", cpus: 1, duration: 5m}]\n\
         expect: [{job: sweep_4, is: pending, because: job_array_task_limit, at: 1m}]\n";
    std::fs::write(dir.path().join("array.yaml"), scenario).expect("a folder of our own");
    stdout(dir.path(), &["run", "array.yaml", "--out", "."], 0);
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "sweep_4", "--at", "1m"], 0);
    assert!(said.contains("waits for a turn, which sweep_1, sweep_2 hold\n"), "{said}");
}
