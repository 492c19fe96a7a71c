//! Recorded decisions of released programs, compared from the command line.

use assert_cmd::Command;

trials! {
    Nothing: [
        each_recorded_firing_time_is_met_to_the_second,
        each_recorded_state_of_a_run_is_met_through_the_control_plane,
        each_recorded_placement_of_a_model_is_met,
        a_listed_defect_is_mended_in_the_default_profile,
        each_recorded_match_and_each_region_is_met,
        each_recorded_attempt_of_kube_scheduler_is_met,
        a_wrong_world_of_kubernetes_is_told,
        answers_are_held_against_the_profile_of_one_version_or_against_any,
        a_recorded_decision_tells_an_option_apart,
        a_wrong_record_is_told_with_its_line_and_nothing_is_counted,
        each_recorded_cycle_of_kueue_is_met,
        a_changed_quota_shows_in_the_cycles_of_kueue,
    ]
    Data: [
        every_public_attempt_of_kube_scheduler_is_met,
    ]
}

const RECORDS: &str = "tests/data/dstack/utilization.jsonl.gz";
const RUN_STATES: &str = "tests/data/dstack/sequences.jsonl.gz";
const KUBERNETES: &str = "tests/data/kubernetes/kube-scheduler-1.35.4.jsonl.gz";
const SERVICES: &str = "tests/data/dstack/services.jsonl.gz";

fn conform(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("dryrack").expect("it is built");
    let run = command.current_dir(env!("CARGO_MANIFEST_DIR")).arg("conform").args(args).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (run.status.code().expect("it ends"), text(run.stdout), text(run.stderr))
}

fn each_recorded_firing_time_is_met_to_the_second() {
    let (code, said, _) = conform(&[RECORDS, "--format", "json"]);
    assert_eq!(code, 0, "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    // 200 cases, two released versions.
    assert_eq!((&said["records"], &said["asked"], &said["identical"]), (&200.into(), &400.into(), &400.into()));
    assert_eq!(said["classes"].as_array().map(Vec::len), Some(26), "13 kinds of two versions");
}

/// 20 sequences with 500 decisions about nodes, 1336 changes of runs, and the final state.
fn each_recorded_state_of_a_run_is_met_through_the_control_plane() {
    let (code, said, _) = conform(&[RUN_STATES, "--format", "json"]);
    assert_eq!(code, 0, "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["records"], &said["asked"], &said["identical"]), (&20.into(), &20.into(), &20.into()));
    let (code, said, _) = conform(&[RUN_STATES, "--profile", "dstack"]);
    assert!(code == 1 && said.contains("decision"), "what is mended decides otherwise: {said}");
    let (code, said, _) = conform(&[RUN_STATES, "--profile", "first-fit"]);
    assert!(code == 1 && said.contains("no runs"), "{said}");
}

/// The counts are those of the files' source, see `tests/data/gpustack/SOURCE.md`.
fn each_recorded_placement_of_a_model_is_met() {
    let files: Vec<String> = [
        "gpustack-0.6.0.jsonl.gz",
        "gpustack-0.6.1.jsonl.gz",
        "gpustack-0.7.1.jsonl.gz",
        "gpustack-2.3.0.jsonl.gz",
        "gpustack-evaluate-0.6.0.jsonl.gz",
        "gpustack-evaluate-0.6.1.jsonl.gz",
        "gpustack-evaluate-0.7.1.jsonl.gz",
        "gpustack-evaluate-drawn-0.6.0.jsonl",
        "gpustack-evaluate-drawn-0.7.1.jsonl",
        "defects-2.3.0.jsonl",
    ]
    .iter()
    .map(|name| format!("tests/data/gpustack/{name}"))
    .collect();
    let mut args: Vec<&str> = files.iter().map(String::as_str).collect();
    args.extend(["--format", "json", "--verbose"]);
    let (code, said, _) = conform(&args);
    assert_eq!(code, 0, "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["asked"], &said["identical"]), (&3319.into(), &3319.into()));
}

/// Defect 1a: 2.3.0 places an embedding model of 72 GB on a GPU of 24 GB that was picked; the fixed rules do not.
fn a_listed_defect_is_mended_in_the_default_profile() {
    let (code, said, _) = conform(&["tests/data/gpustack/defects-2.3.0.jsonl", "--profile", "gpustack", "--verbose"]);
    assert_eq!(code, 1, "{said}");
    let line = said.lines().rfind(|line| line.trim_start().starts_with("1a ")).expect("it is told");
    assert!(line.contains("refuses and should not"), "{line}");
}

fn each_recorded_match_and_each_region_is_met() {
    let records = ["tests/data/dstack/matching.jsonl.gz", "tests/data/dstack/regions.jsonl.gz"];
    let (code, said, _) = conform(&[records[0], records[1], "--format", "json"]);
    assert_eq!(code, 0, "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    // 150 cases of three released versions, and 40 of one.
    assert_eq!((&said["records"], &said["asked"], &said["identical"]), (&190.into(), &490.into(), &490.into()));
    // The fix of dstack issue 2650 shows: 53 of the cases have several nodes.
    let (code, said, _) = conform(&[records[0], "--profile", "dstack-0.22.5", "--at-least", "100%"]);
    assert_eq!(code, 0, "{said}");
    let (code, ..) = conform(&[records[0], "--profile", "dstack", "--at-least", "100%"]);
    assert_eq!(code, 1, "the defects that are mended are recorded");
}

/// The counts are those of `tests/data/kubernetes/SOURCE.md`.
fn each_recorded_attempt_of_kube_scheduler_is_met() {
    let (code, said, _) = conform(&[KUBERNETES, "--format", "json"]);
    assert_eq!(code, 0, "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["records"], &said["asked"], &said["identical"]), (&152.into(), &1802.into(), &1802.into()));
    assert_eq!(said["classes"].as_array().map(Vec::len), Some(27));
    let (code, said, _) = conform(&[KUBERNETES, "--profile", "first-fit"]);
    assert!(code == 4 && said.contains("skipped: 1802 answers"), "another profile does not answer: {said}");
}

/// The counts are those of the records' own `SUMMARY.md`, and 25 steps in which gangs lost their nodes.
fn every_public_attempt_of_kube_scheduler_is_met() {
    let folder = super::data().expect("it is here").join("groundtruth/kubernetes/public");
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let mut files: Vec<String> = files.map(|path| path.to_str().expect("text").to_string()).collect();
    files.sort();
    let mut args: Vec<&str> = files.iter().map(String::as_str).collect();
    args.extend(["--format", "json"]);
    let (code, said, _) = conform(&args);
    assert_eq!(code, 0, "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["records"], &said["asked"], &said["identical"]), (&4500.into(), &51_045.into(), &51_045.into()));
}

fn a_wrong_world_of_kubernetes_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("records.jsonl");
    let record = |more: &str, pod: &str| {
        format!(
            r#"{{"id":"a","class":"c","world":{{"id":"a","class":"c","profiles":[],"retry":"end",{more}}},"expect":{{"default":[{{"pod":"{pod}","attempt":1,"outcome":"unschedulable"}}]}}}}"#
        )
    };
    let node = |memory: &str| {
        format!(r#""nodes":[{{"metadata":{{"name":"n"}},"status":{{"allocatable":{{"memory":"{memory}"}}}}}}]"#)
    };
    let on = |node: &str| format!(r#""boundPods":[{{"metadata":{{"name":"b"}},"spec":{{"nodeName":"{node}"}}}}]"#);
    let rows = [
        (record(&node("1KiB"), "default/p"), "`1KiB` is not a quantity; expected a number with an optional suffix"),
        (record(&on("m"), "default/p"), "pod `default/b` is on `m`, but there is no such node"),
        (record(&node("1Ki"), "default/p"), "a step of `default/p`, which is no pod of this world"),
        (record(r#""nods":[]"#, "default/p"), "unknown field `nods`"),
    ];
    for (record, wanted) in rows {
        std::fs::write(&path, record).expect("written");
        let (code, said, fault) = conform(&[path.to_str().expect("text")]);
        assert!(code == 2 && said.is_empty() && fault.contains(wanted), "{wanted}: {fault}");
    }
}

fn answers_are_held_against_the_profile_of_one_version_or_against_any() {
    let (code, said, _) = conform(&[RECORDS, "--profile", "dstack-0.19.10"]);
    assert!(code == 0 && said.contains("all                                       200        200   100%"), "{said}");
    let (code, said, _) = conform(&[RECORDS, "--profile", "first-fit", "--verbose"]);
    assert_eq!(code, 1, "the default rule is another");
    assert!(said.contains("never fires and should") && said.contains("u1-0000"), "{said}");
    let (code, ..) = conform(&[RECORDS, "--profile", "first-fit", "--at-least", "20%"]);
    assert_eq!(code, 0);
}

fn a_recorded_decision_tells_an_option_apart() {
    let test = |records: &[&str]| {
        let mut command = Command::cargo_bin("dryrack").expect("it is built");
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let args = ["test", "scenarios/basics/not-ready-is-never-chosen.yaml", "--options"];
        let said = command.args(args).args(records).output().expect("it runs");
        String::from_utf8(said.stdout).expect("text")
    };
    let untold = "no scenario and no record distinguishes policies.utilization.rule of dstack-0.22.5 from its base";
    assert!(test(&[]).contains(untold));
    assert!(!test(&["--records", RECORDS]).contains(untold));
    let is_of_runs =
        |line: &&str| line.contains("distinguishes flow.polled.") && line.contains(" of dstack-0.22.5 from its base");
    // In the records every node is prepared by the next check, so only a scenario shows when nodes begin. Services have
    // separate records.
    let of_runs = |said: &str| said.lines().filter(is_of_runs).count();
    let untold = |records: &[&str]| of_runs(&test(records));
    assert_eq!((untold(&[]), untold(&["--records", RUN_STATES])), (5, 3));
    assert_eq!(untold(&["--records", RUN_STATES, "--records", SERVICES]), 1);
}

fn a_wrong_record_is_told_with_its_line_and_nothing_is_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("records.jsonl");
    let good = r#"{"id":"a","kind":"k","min_gpu_utilization":10,"time_window_s":300,"horizon_s":4,"eval_every_s":4,"samples_ms":[],"answer":{"0.1":{"fire_s":null}}}"#;
    let unordered = good.replace("\"samples_ms\":[]", "\"samples_ms\":[[5,[0]],[5,[0]]]");
    std::fs::write(&path, format!("{good}\n{unordered}\n{{}}\n")).expect("written");
    let path = path.to_str().expect("text");
    let (code, said, fault) = conform(&[path]);
    assert_eq!((code, said.as_str()), (2, ""));
    assert!(fault.contains("line 2: samples_ms must ascend, and 5 does not"), "{fault}");
    assert!(fault.contains("line 3: of no known kind; `utilization` has samples_ms"), "{fault}");
    std::fs::write(path, good).expect("written");
    let (code, said, _) = conform(&[path]);
    assert_eq!(code, 4, "a version without a profile is not asked: {said}");
    assert!(said.contains("skipped: 1 answer, because there is no profile dstack-0.1"), "{said}");
    let (code, _, fault) = conform(&[RECORDS, "--profile", "dstak"]);
    assert!(code == 2 && fault.contains("dstack"), "{fault}");
}

/// The counts are those of the file's source, see `tests/data/kueue/SOURCE.md`.
fn each_recorded_cycle_of_kueue_is_met() {
    let (code, said, _) = conform(&["tests/data/kueue/cycles.jsonl.gz", "--format", "json"]);
    assert_eq!(code, 0, "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["records"], &said["asked"]), (&80.into(), &(1561 + 477).into()));
    assert_eq!(said["identical"], said["asked"]);
    assert_eq!(said["classes"].as_array().map(Vec::len), Some(16));
}

/// If the quota of a record is changed, the record is no longer matched, and the kind of the difference is reported.
fn a_changed_quota_shows_in_the_cycles_of_kueue() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("changed.jsonl");
    let bytes = std::fs::read("tests/data/kueue/cycles.jsonl.gz").expect("it is there");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(&bytes[..]), &mut text).expect("text");
    let line = text.lines().find(|line| line.contains("\"kp-queueing-0000\"")).expect("it is recorded");
    let changed = line.replacen("\"nominal\":\"3\"", "\"nominal\":\"4\"", 1);
    assert_ne!(line, changed);
    std::fs::write(&path, changed).expect("written");
    let (code, said, _) = conform(&[path.to_str().expect("text"), "--verbose"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("kp-queueing-0000 cycle 1") && said.contains("maximum capacity (4)"), "{said}");
}

type Test = fn(&std::path::Path) -> Result<(), String>;

pub const KUEUE: [(&str, Test); 1] =
    [("conform::every_recorded_cycle_of_kueue_is_met", every_recorded_cycle_of_kueue_is_met)];

/// 3,182 worlds: 58,916 cycles and 19,092 steps.
fn every_recorded_cycle_of_kueue_is_met(data: &std::path::Path) -> Result<(), String> {
    let folder = data.join("groundtruth/kueue/public");
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .map_err(|fault| format!("{}: {fault}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path().display().to_string()).map_err(|fault| fault.to_string()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut args: Vec<&str> = files.iter().map(String::as_str).collect();
    args.extend(["--format", "json"]);
    let (code, said, fault) = conform(&args);
    let read: serde_json::Value = serde_json::from_str(&said).map_err(|error| format!("{error}: {fault}"))?;
    let counts = (&read["records"], &read["asked"], &read["identical"]);
    let expected = (&3182.into(), &(58_916 + 19_092).into(), &(58_916 + 19_092).into());
    if code == 0 && counts == expected { Ok(()) } else { Err(format!("{counts:?}: {}", read["differences"])) }
}
