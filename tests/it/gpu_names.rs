//! Names of GPUs in lists of tasks: those of Slurm, Kubernetes and drivers mean GPUs of the catalog, and any other name
//! is an error before the run.

use crate::cli::{empty, stderr, stdout};

trials! {
    Nothing: [
        a_family_means_each_of_its_gpus_and_the_run_says_so_once,
        an_unknown_name_is_an_error_with_the_line_that_mends_it,
        mig_instances_are_not_taken_for_whole_gpus,
        a_name_that_yaml_reads_as_something_else_is_mended_as_told,
        only_chosen_tasks_ask_for_gpus,
        a_scenario_is_checked_before_it_runs,
        a_list_is_judged_by_the_words_of_the_scenario,
        a_scenario_without_jobs_has_nothing_to_check,
        a_bad_answer_is_red,
    ]
}

const FLEET: &str = "\
scenario: A list of an operator
nodes:
  - {name: a, machine: a100-80g-x2}
  - {name: h, machine: h100-80g-x1}
";

const HEAD: &str = "job,submit_s,duration_s,gpus,nodes,gpu_models\n";

fn folder(rows: &str, trace: &str) -> tempfile::TempDir {
    let dir = empty();
    std::fs::write(dir.path().join("t.csv"), format!("{HEAD}{rows}")).expect("a folder of our own");
    let text = format!("{FLEET}trace: {{file: t.csv, format: csv{trace}}}\nexpect: [max(queue_wait) <= 1h]\n");
    std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
    dir
}

fn a_family_means_each_of_its_gpus_and_the_run_says_so_once() {
    let dir = folder("1,0,60,1,1,a100\n2,1,60,1,1,A100\n3,2,60,1,1,a100\n4,2,60,1,1,NVIDIA-H100-80GB-HBM3\n", "");
    let said = stdout(dir.path(), &["run", "s.yaml", "--report", "out"], 0);
    assert!(said.contains("jobs       4 = 4 completed"), "{said}");
    assert_eq!(said.matches("GPU `a100` means any of a100-40g, a100-80g").count(), 1, "{said}");
    assert!(said.contains("GPU `NVIDIA-H100-80GB-HBM3` means h100-80g"), "{said}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(page.contains("GPU <code>a100</code> means any of a100-40g, a100-80g."), "the assumptions have it");
}

/// Slurm names MIG instances in `gres/gpu:a100_3g.20gb=1`.
fn mig_instances_are_not_taken_for_whole_gpus() {
    let rows = "1,0,60,1,1,a100_3g.20gb\n2,1,60,2,1,a100\n";
    let gpus = "gpus: [{type: a100_3g.20gb, memory: 20GiB, count: 2}]";
    let dir = folder(rows, "");
    let said = stderr(dir.path(), &["run", "s.yaml"], 2);
    assert!(said.contains("`3g.20gb` is a MIG instance, a part of a GPU") && said.contains(gpus), "{said}");
    let said = stdout(dir.path(), &["trace", "info", "t.csv"], 0);
    assert!(said.contains("MIG         a100_3g.20gb is a part of GPUs, which count as whole GPUs here"), "{said}");
    // As told, with nodes that have such instances.
    let text = std::fs::read_to_string(dir.path().join("s.yaml")).expect("it was written");
    let with_nodes = text.replace("nodes:\n", &format!("nodes:\n  - {{name: m, cpus: 64, ram: 512GiB, {gpus}}}\n"));
    std::fs::write(dir.path().join("s.yaml"), with_nodes).expect("a folder of our own");
    assert!(stdout(dir.path(), &["run", "s.yaml"], 0).contains("jobs       2 = 2 completed"));
    // A whole GPU for each of them is said.
    let whole = folder(rows, ", gpu_names: {a100_3g.20gb: a100-80g}");
    let why = "that ask for the MIG instance `a100_3g.20gb` take whole GPUs here, because of `gpu_names`";
    assert!(stderr(whole.path(), &["run", "s.yaml"], 0).contains(why));
    assert!(stdout(whole.path(), &["run", "s.yaml"], 0).contains(why));
}

fn an_unknown_name_is_an_error_with_the_line_that_mends_it() {
    let rows = [
        ("h10O", "write `gpu_names: {h10O: h100-80g}` in `trace:`"),
        (
            "rtxpro6000",
            "the nearest names are rtx-3090, rtx-4080, rtx-4090; write `gpu_names: {rtxpro6000: GPU}` in `trace:`, where GPU is \
             one of a100-80g, h100-80g",
        ),
        ("h100_nvl", "write `gpu_names: {h100_nvl: h100-80g}` in `trace:`"),
        // The nodes have A100s of 80 GB only.
        ("a100_40", "write `gpu_names: {a100_40: a100-40g}` in `trace:`"),
        ("gtx-1080-ti", "write `gpu_names: {gtx-1080-ti: GPU}` in `trace:`, where GPU is one of a100-80g, h100-80g"),
        ("3g 20gb", "write `gpu_names: {3g 20gb: GPU}` in `trace:`"),
    ];
    for (name, mends) in rows {
        let list = format!("1,0,60,1,1,{name}\n2,1,60,1,1,{name}\n3,1,60,1,1,a100\n");
        let dir = folder(&list, "");
        for command in [&["run", "s.yaml"][..], &["run", "s.yaml", "--stream"], &["trace", "check", "s.yaml"]] {
            let said = stderr(dir.path(), command, 2);
            let message = format!("2 jobs of the trace t.csv ask for GPU `{name}`, which no node has");
            assert!(said.contains(&message) && said.contains(mends), "{command:?}\n{said}");
        }
    }
    let dir = folder("1,0,60,1,1,gtx\n", ", gpu_names: {gtx: [a100-80g, h100-80g]}");
    assert!(stdout(dir.path(), &["run", "s.yaml"], 0).contains("1 completed"));
    let dir = folder("1,0,60,1,1,gtx\n", ", gpu_names: {gtx: a100-81g, gty: l4}");
    let said = stderr(dir.path(), &["run", "s.yaml"], 2);
    assert!(said.contains("no GPU type is named `a100-81g`") && said.contains("has no GPU `gty`"), "{said}");
}

fn a_name_that_yaml_reads_as_something_else_is_mended_as_told() {
    for name in ["yes", "null", "1e3", "12345", "true", "3g 20gb", "a: b", "it's", "- x", "~", "#1", "a\\b"] {
        let list = format!("1,0,60,1,1,{name}\n");
        let said = stderr(folder(&list, "").path(), &["run", "s.yaml"], 2);
        let mends = said.split("write `").nth(1).and_then(|rest| rest.split("` in `trace:`").next()).expect("a line");
        let mends = mends.replace(": GPU}", ": a100-80g}");
        let dir = folder(&list, &format!(", {mends}"));
        assert!(stdout(dir.path(), &["run", "s.yaml"], 0).contains("1 completed"), "{name}: {mends}");
    }
}

/// The second task of the list asks for a GPU that nobody knows, and is not chosen.
fn only_chosen_tasks_ask_for_gpus() {
    let rows = "1,0,60,1,1,a100\n2,1,60,1,1,gtx\n3,2,60,1,1,rtx\n";
    let dir = folder(rows, ", limit: 1");
    let digest = |more: &[&str]| {
        let said = stdout(dir.path(), &[&["run", "s.yaml", "--format", "json"], more].concat(), 0);
        serde_json::from_str::<serde_json::Value>(&said).expect("JSON")["digest"].to_string()
    };
    assert_eq!(digest(&[]), digest(&["--stream"]));
    let dir = folder(rows, ", limit: 2, gpu_names: {rtx: l4}");
    for stream in [&[][..], &["--stream"]] {
        let said = stderr(dir.path(), &[&["run", "s.yaml"], stream].concat(), 2);
        assert!(said.contains("1 job of the trace t.csv asks for GPU `gtx`"), "{said}");
        assert!(!said.contains("`rtx`"), "{said}");
    }
}

/// What the scenario says of names, speeds and durations holds for the list; which tasks it chooses does not.
fn a_list_is_judged_by_the_words_of_the_scenario() {
    let trace = ", limit: 1, gpu_names: {gtx: a100-80g}, speed: {reference: a100-80g, factors: {h100-80g: 2}}";
    let dir = folder("1,0,60,1,1,gtx\n", &format!("{trace}}}\nload: {{a: 1"));
    let text = std::fs::read_to_string(dir.path().join("s.yaml")).expect("it was written");
    let text = text.replace("load: {a: 1}", "load: 300%");
    std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
    let list = |rows: &str| std::fs::write(dir.path().join("o.csv"), format!("{HEAD}{rows}")).expect("our own");
    list("1,0,60,1,1,gtx\n2,1,60,1,1,\n");
    let said = stdout(dir.path(), &["trace", "check", "o.csv", "--nodes", "s.yaml"], 0);
    assert!(said.contains("each job can run if they are empty"), "{said}");
    assert!(said.contains("h100-80g works 2 times as fast as a100-80g"), "{said}");
    list("1,0,60,1,1,gtx\n2,1,60,9,1,gtx\n");
    let said = stdout(dir.path(), &["trace", "check", "o.csv", "--nodes", "s.yaml"], 1);
    assert!(said.contains("1 of 2 jobs can never run: no node has 9 GPUs"), "{said}");
}

fn a_scenario_without_jobs_has_nothing_to_check() {
    let dir = empty();
    std::fs::write(dir.path().join("s.yaml"), format!("{FLEET}jobs: []\n")).expect("a folder of our own");
    let said = stdout(dir.path(), &["trace", "check", "s.yaml"], 4);
    assert!(said.contains("nothing is checked, because there are no jobs"), "{said}");
}

fn a_scenario_is_checked_before_it_runs() {
    let dir = folder("1,0,60,1,1,a100\n2,1,60,1,1,l4\n3,2,60,9,1,\n", "");
    let said = stdout(dir.path(), &["trace", "check", "s.yaml"], 1);
    let sentence = "2 of 3 jobs can never run: for 1, no node has 9 GPUs, which one task asks for (at most 2); \
                    for 1, no node has GPU `l4` (known are a100-80g, h100-80g)";
    assert!(said.contains(sentence), "{said}");
    assert!(said.contains("GPU `a100` means any of a100-40g, a100-80g"), "{said}");
    let json = stdout(dir.path(), &["trace", "check", "s.yaml", "--format", "json"], 1);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["jobs"], &json["never_run"]["jobs"]), (&3.into(), &2.into()), "{json}");
    let said = stderr(dir.path(), &["trace", "check", "s.yaml", "--gpus", "8"], 2);
    assert!(said.contains("a scenario has nodes of its own"), "{said}");
}

fn a_bad_answer_is_red() {
    for (rows, code, is_red) in [("1,0,60,1,1,a100\n", 0, false), ("1,0,60,1,1,l4\n", 1, true)] {
        let dir = folder(rows, "");
        stdout(dir.path(), &["run", "s.yaml", "--report", "out"], code);
        let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
        assert_eq!(page.contains(".answer { color: #b42318;"), is_red, "{rows}");
        assert_eq!(page.contains("1 of 1 job can never run"), is_red, "{rows}");
    }
}
