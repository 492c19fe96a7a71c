//! Small files that an earlier build handled wrongly: `tests/data/reported/README.md` describes each.

use std::path::PathBuf;

use crate::cli::{dryrack, empty, stdout};

trials! {
    Nothing: [
        each_small_file_is_answered_rightly,
        a_plan_in_which_nothing_is_random_claims_nothing_of_other_seeds,
        what_was_backfilled_and_each_replica_is_explained,
    ]
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/reported"))
}

/// Returns the exit code, and stdout and stderr together.
fn answer(args: &[&str]) -> (i32, String) {
    let output = dryrack(&folder(), args).output().expect("it was built");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("it exits"), String::from_utf8(text).expect("text"))
}

/// Each command with its exit code, a text that its output must contain, and one that it must not.
fn each_small_file_is_answered_rightly() {
    let rows: [(&[&str], i32, &str, &str); 15] = [
        (&["test", "explain-fault-easy.yaml"], 0, "1 passed", "internal error"),
        (
            &["test", "explain-fault-conservative.yaml", "--profile", "conservative"],
            1,
            "small was placed at 0s",
            "internal error",
        ),
        (
            &["test", "explain-fault-conservative.yaml", "--profile", "slurm-22.05"],
            1,
            "small was placed",
            "internal error",
        ),
        (&["run", "gpustack-analysis-fails-without-end.yaml"], 0, "failed", "internal error"),
        (&["run", "analysis-hangs.yaml", "--profile", "gpustack"], 1, "6 = 4 completed + 2 failed", "internal error"),
        (
            &["run", "analysis-hangs.yaml", "--profile", "gpustack-0.6.0"],
            1,
            "6 = 4 completed + 2 failed",
            "internal error",
        ),
        (
            &["run", "analysis-hangs.yaml", "--profile", "gpustack-0.6.1"],
            1,
            "6 = 4 completed + 2 failed",
            "internal error",
        ),
        (&["test", "service-over-two-fleets.yaml"], 0, "1 passed", "FAIL"),
        (
            &["select", "mac-picked-by-hand.yaml", "--job", "by-hand", "--profile", "gpustack-0.6.0"],
            0,
            "studio/0  never",
            "",
        ),
        (&["run", "sacct.yaml"], 1, "jobs       309 = 309 completed", "ok    p95"),
        // The jobs that still ran hold their GPUs until the last date of the log, so the bound on waiting does not hold.
        (&["run", "sacct-a100.yaml"], 1, "insufficient_gpus+insufficient_cpu", "% insufficient_cpu,"),
        (&["run", "sacct-a100-ten-times-the-cpus.yaml"], 1, "because    100% insufficient_gpus", "insufficient_cpu"),
        (&["run", "autoscaling.yaml"], 1, "95% 4m07s or less", ""),
        (
            &["import", "gpustack-db", "gpustack-bad-column.sqlite", "--out", "never-written"],
            2,
            "error: ",
            "internal error",
        ),
        (
            &["offers", "service-over-two-fleets.yaml", "--job", "task", "--profile", "dstack-0.22.5"],
            0,
            "it would take: pair-0",
            "1  single",
        ),
    ];
    for (args, code, wanted, unwanted) in rows {
        let (found, text) = answer(args);
        assert_eq!(found, code, "{args:?}\n{text}");
        assert!(text.contains(wanted), "{args:?} says `{wanted}`\n{text}");
        assert!(unwanted.is_empty() || !text.contains(unwanted), "{args:?} does not say `{unwanted}`\n{text}");
    }
}

fn a_plan_in_which_nothing_is_random_claims_nothing_of_other_seeds() {
    let out = empty();
    let dir = out.path().to_str().expect("text");
    let (code, text) = answer(&["plan", "plan-with-seeds-over-a-trace.yaml", "--out", dir]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("which all give the same run, because nothing in it is random"), "{text}");
    assert!(!text.contains('±') && !text.contains("of all seeds"), "{text}");
    let page = std::fs::read_to_string(out.path().join("report.html")).expect("a plan writes its report");
    assert!(!page.contains("of all seeds"), "nor does the page");
}

fn what_was_backfilled_and_each_replica_is_explained() {
    for (file, job, wanted) in [
        ("explain-of-a-backfilled-job.yaml", "small", "it was on n-1/0 from 0s"),
        ("three-replicas.yaml", "j[1]", "placed on b/0 at 0s"),
    ] {
        let out = empty();
        let dir = out.path().to_str().expect("text");
        assert_eq!(answer(&["run", file, "--out", dir]).0, 0, "{file}");
        let said = stdout(out.path(), &["explain", "events.jsonl", "--job", job], 0);
        assert!(said.contains(wanted), "{file}: {said}");
    }
}
