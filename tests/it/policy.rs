//! Compares the examples on the page about utilization policies with a plain evaluation of the written definition.

use assert_cmd::Command;

trials! {
    Nothing: [
        every_form_of_the_page_of_usage_and_policies_holds,
        a_policy_is_rehearsed_on_a_recording_alone,
        each_column_is_named_as_the_recording_names_it,
        a_sweep_tries_every_minimum_with_every_window,
        a_wrong_policy_or_recording_is_told_where,
    ]
}

/// One GPU is idle from minute 5 on and one is busy, with a row each minute.
fn recording() -> String {
    let row = |minute: u64| format!("{},{},90\n", minute * 60, if minute < 5 { 95 } else { 0 });
    format!("time,gpu0,gpu1\n{}", (0..20).map(row).collect::<String>())
}

fn policy(args: &[&str]) -> (i32, String, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = "utilization_policy: {min_gpu_utilization: 30%, time_window: 10m}\n";
    std::fs::write(dir.path().join("policy.yaml"), file).expect("written");
    let twice = file.replace("time_window: 10m", "time_window: 0s, mod: warn");
    std::fs::write(dir.path().join("wrong.yaml"), twice).expect("written");
    std::fs::write(dir.path().join("dense.yaml"), format!("{file}interval: 5s\n")).expect("written");
    std::fs::write(dir.path().join("gpus.csv"), recording()).expect("written");
    let turned = recording().replace("time,gpu0,gpu1", "time,node9/gpu3,node7/gpu0");
    let turned = turned.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let turned: String = turned.map(|cells| format!("{},{},{}\n", cells[0], cells[2], cells[1])).collect();
    std::fs::write(dir.path().join("busy-then-idle.csv"), turned).expect("written");
    std::fs::write(dir.path().join("empty.csv"), "time,gpu0\n").expect("written");
    let mut command = Command::cargo_bin("dryrack").expect("it is built");
    let run = command.current_dir(dir.path()).env_remove("DRYRACK_DATA").arg("policy").args(args);
    let run = run.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let mut said = text(run.stdout);
    if let Ok(svg) = std::fs::read_to_string(dir.path().join("sweep.svg")) {
        said.push_str(&svg);
    }
    (run.status.code().expect("it ends"), said, text(run.stderr))
}

fn a_policy_is_rehearsed_on_a_recording_alone() {
    let (code, said, _) = policy(&["policy.yaml", "--usage", "gpus.csv"]);
    // GPU 0 idles from 5m to 20m. Worked out by hand: the policy fires ten minutes in, and five of 15 minutes are saved.
    let expected = "gpus: fires at 15m: GPU 0 below 30% for 10m: 11 samples from 5m to 15m\n  \
                    0.08 idle GPU hours saved; was never busy again\n\
                    1 job: 1 would have been ended, 0 of them wrongly; 0.08 of 0.25 idle GPU hours saved, \
                    0.08 of 0.41 busy GPU hours lost\n";
    assert_eq!((code, said.as_str()), (0, expected));
    let (_, said, _) = policy(&["policy.yaml", "--usage", "gpus.csv", "--format", "json", "--each"]);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["ended"], &said["jobs"][0]["fires_at"]), (&1.into(), &"15m".into()));
    assert_eq!(said["jobs"][1]["fires_at"], serde_json::Value::Null);
}

/// With `--each`, the job of a column has the column's name, and its GPU keeps the number of the column: no text or
/// figure calls it the first.
fn each_column_is_named_as_the_recording_names_it() {
    let each = ["policy.yaml", "--usage", "busy-then-idle.csv", "--each"];
    let (code, said, _) = policy(&each);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("node7/gpu0: never fires\nnode9/gpu3: fires at 15m: below 30% for 10m: "), "{said}");
    assert!(!said.contains("GPU 0"), "{said}");
    let (_, said, _) = policy(&[&each[..], &["--format", "json"]].concat());
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["jobs"][1]["covered"]["gpus"], serde_json::json!([1]), "{said:#}");
}

fn a_sweep_tries_every_minimum_with_every_window() {
    let sweep = ["policy.yaml", "--usage", "gpus.csv", "--sweep", "--minimums", "10%,95%"];
    let (code, said, _) = policy(&[&sweep[..], &["--windows", "5m,12m,1h", "--out", "sweep.svg"]].concat());
    assert_eq!(code, 0);
    // 10 minutes of GPU 0 are saved from minute 10 on, and three from minute 17; with 95% GPU 1 is idle from the start.
    let row =
        |said: &str| said.lines().nth(1).map(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>());
    assert_eq!(row(&said), Some(["5m", "10%", "1", "0", "0.16", "0.25", "0.16"].map(String::from).to_vec()), "{said}");
    assert!(said.contains("<svg") && said.contains("idle GPU time saved"), "{said}");
    let (code, _, fault) = policy(&[&sweep[..], &["--windows", "soon"]].concat());
    assert!(code == 2 && fault.contains("soon"), "{fault}");
}

fn a_wrong_policy_or_recording_is_told_where() {
    let (code, _, fault) = policy(&["wrong.yaml", "--usage", "gpus.csv"]);
    assert!(
        code == 2 && fault.contains("did you mean `mode`?") && fault.contains("the duration must be above 0"),
        "{fault}"
    );
    let (code, _, fault) = policy(&["policy.yaml", "--usage", "gpu.csv"]);
    assert!(code == 2 && fault.contains("gpu.csv"), "{fault}");
    let (code, _, fault) = policy(&["policy.yaml", "--usage", "genai"]);
    assert!(code == 2 && fault.contains("did you mean `genai-2026`?"), "{fault}");
    let (code, _, fault) = policy(&["policy.yaml", "--usage", "empty.csv"]);
    assert!(code == 2 && fault.contains("empty.csv:2:1: expected a sample"), "{fault}");
    let (code, said, fault) = policy(&["dense.yaml", "--usage", "gpus.csv"]);
    assert!(code == 0 && said.contains("never fires"), "{said}");
    assert!(fault.contains("samples are 1m apart, which is more than the longest gap of 10s"), "{fault}");
    let (code, _, fault) = policy(&["policy.yaml", "--usage", "genai-2026"]);
    assert!(code == 2 && fault.contains("dryrack trace get genai-2026"), "{fault}");
}

const PAGE: &str = include_str!("../../docs/src/usage-and-policies.md");

fn every_form_of_the_page_of_usage_and_policies_holds() {
    let dir = tempfile::tempdir().expect("a folder");
    let block = PAGE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let path = dir.path().join("page.yaml");
    std::fs::write(&path, block).expect("written");
    let tested = Command::cargo_bin("dryrack").expect("it is built").arg("test").arg(&path).output().expect("it runs");
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success() && !said.contains("warning"), "{said}");
}
