//! `dryrack init`: what it writes can be run at once, and it changes no existing file.

use std::fs;

use tempfile::TempDir;

use crate::cli::{stderr, stdout};

trials! {
    Nothing: [
        a_first_scenario_holds_under_each_scheduler_that_is_offered,
        a_list_of_jobs_is_named_with_its_format,
        a_list_without_nodes_is_written_with_the_rule_for_them,
        an_existing_file_is_left_as_it_is,
        a_name_that_nobody_knows_is_refused_before_anything_is_written,
    ]
}

fn a_first_scenario_holds_under_each_scheduler_that_is_offered() {
    let dir = TempDir::new().expect("a folder of our own");
    for profile in ["easy", "slurm-22.05", "kubernetes-1.35", "gpustack", "dstack"] {
        let file = format!("{profile}.yaml");
        let said = stdout(dir.path(), &["init", &file, "--profile", profile, "--machine", "l4-x1"], 0);
        assert!(said.contains(&format!("dryrack test {file}")), "{said}");
        stdout(dir.path(), &["test", &file], 0);
    }
    // This machine may have no GPUs. The jobs ask for what it has.
    stdout(dir.path(), &["init", "here.yaml", "--from", "this-machine"], 0);
    assert!(fs::read_to_string(dir.path().join("here.yaml")).expect("written").contains("include: nodes.part.yaml"));
    stdout(dir.path(), &["test", "here.yaml"], 0);
}

fn a_list_of_jobs_is_named_with_its_format() {
    let dir = TempDir::new().expect("a folder of our own");
    let header = "JobID|Submit|Start|End|State|AllocTRES|ReqTRES|Timelimit";
    let tres = "billing=8,cpu=8,gres/gpu=1,mem=8G,node=1";
    let job = format!("1|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T01:00:10|COMPLETED|{tres}|{tres}|02:00:00");
    fs::write(dir.path().join("jobs.txt"), format!("{header}\n{job}\n")).expect("ours");
    stdout(dir.path(), &["init", "mine.yaml", "--trace", "jobs.txt"], 0);
    let text = fs::read_to_string(dir.path().join("mine.yaml")).expect("written");
    assert!(text.contains("trace: {format: sacct, file: \"jobs.txt\"}"), "{text}");
    stdout(dir.path(), &["test", "mine.yaml"], 0);
}

/// The list states GPUs and no nodes. Each command says on how many nodes its jobs are.
fn a_list_without_nodes_is_written_with_the_rule_for_them() {
    let dir = TempDir::new().expect("a folder of our own");
    fs::write(dir.path().join("jobs.csv"), "job,submit_s,duration_s,gpus\n1,0,60,6\n2,0,60,16\n3,0,60,1\n")
        .expect("ours");
    let said = stdout(dir.path(), &["trace", "info", "jobs.csv"], 0);
    assert!(said.contains("nodes       not stated for 2 tasks of several GPUs"), "{said}");
    stdout(dir.path(), &["init", "mine.yaml", "--trace", "jobs.csv"], 0);
    let text = fs::read_to_string(dir.path().join("mine.yaml")).expect("written");
    assert!(text.contains("trace: {format: csv, file: \"jobs.csv\", gpu_nodes: fewest}"), "{text}");
    let said = stdout(dir.path(), &["run", "mine.yaml"], 0);
    assert!(!said.contains("as few nodes as"), "it is stated, not assumed: {said}");
    fs::write(dir.path().join("mine.yaml"), text.replace(", gpu_nodes: fewest", "")).expect("ours");
    let assumed =
        "2 jobs of several GPUs take as few nodes as can hold the GPUs, because jobs.csv does not state nodes";
    let commands: [&[&str]; 2] = [&["run", "mine.yaml"], &["trace", "check", "mine.yaml"]];
    for args in commands {
        let said = stdout(dir.path(), args, 0);
        assert!(said.contains(assumed), "{said}");
    }
}

fn an_existing_file_is_left_as_it_is() {
    let dir = TempDir::new().expect("a folder of our own");
    fs::write(dir.path().join("mine.yaml"), "mine").expect("ours");
    let said = stderr(dir.path(), &["init", "mine.yaml"], 2);
    assert!(said.contains("exists already"), "{said}");
    fs::write(dir.path().join("nodes.part.yaml"), "mine").expect("ours");
    stderr(dir.path(), &["init", "new.yaml", "--from", "this-machine"], 2);
    for file in ["mine.yaml", "nodes.part.yaml"] {
        assert_eq!(fs::read_to_string(dir.path().join(file)).expect("there"), "mine");
    }
    assert!(!dir.path().join("new.yaml").exists());
}

fn a_name_that_nobody_knows_is_refused_before_anything_is_written() {
    let dir = TempDir::new().expect("a folder of our own");
    let said = stderr(dir.path(), &["init", "--machine", "a100-80-x8"], 2);
    assert!(said.contains("did you mean `a100-80g-x8`?"), "{said}");
    let said = stderr(dir.path(), &["init", "--profile", "slurm-22.5"], 2);
    assert!(said.contains("did you mean `slurm-22.05`?"), "{said}");
    stderr(dir.path(), &["init", "--trace", "nothing.txt"], 2);
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 0);
}
