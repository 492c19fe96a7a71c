//! The action for changes: its script, run on two commits of a repository made for the test, with the example project
//! of a stranger.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::cli::empty;

trials! {
    Python: [
        a_change_of_a_scorer_is_told_with_the_decision_and_the_reason,
        a_change_that_decides_nothing_otherwise_is_told_so,
        a_base_without_scenarios_is_no_failure,
    ]
}

fn ours(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn git(dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]);
    let output = command.args(args).current_dir(dir).output().expect("git is here");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The example project as the only commit of a repository.
fn project() -> TempDir {
    let dir = empty();
    for file in [
        "scheduler.py",
        "scenarios/whole-nodes-stay-free.dryrack.yaml",
        "scenarios/large-job-waits-its-turn.dryrack.yaml",
        ".github/workflows/scenarios.yml",
    ] {
        let to = dir.path().join(file);
        std::fs::create_dir_all(to.parent().expect("in a folder")).expect("a folder of our own");
        std::fs::copy(ours("examples/ci").join(file), to).expect("it is in the example");
    }
    git(dir.path(), &["init", "--quiet", "--initial-branch=main"]);
    commit(dir.path());
    dir
}

fn commit(dir: &Path) {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "--message=A change"]);
}

/// Runs the script of the action. Returns what it printed, and its comment.
fn compare(dir: &Path, base: &str, more: &[&str]) -> (Output, String) {
    let out = empty();
    let mut command = Command::new("python3");
    command.arg(ours("action/compare.py")).args(["--dryrack", env!("CARGO_BIN_EXE_dryrack"), "--base", base]);
    command.arg("--out").arg(out.path()).args(more).arg("scenarios").current_dir(dir);
    command.env("PYTHONPATH", ours("src/outside")).env("NO_COLOR", "1").env_remove("DRYRACK_DATA");
    command.env("GITHUB_OUTPUT", out.path().join("output")).env_remove("GITHUB_STEP_SUMMARY");
    let output = command.output().expect("python is here");
    let comment = std::fs::read_to_string(out.path().join("comment.md"))
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let outputs = std::fs::read_to_string(out.path().join("output")).expect("it was written");
    (output, format!("{outputs}{comment}"))
}

fn a_change_of_a_scorer_is_told_with_the_decision_and_the_reason() {
    let dir = project();
    let file = dir.path().join("scheduler.py");
    let text = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, text.replace("return -free", "return free")).expect("a folder of our own");
    commit(dir.path());
    let (output, comment) = compare(dir.path(), "HEAD~1", &[]);
    for part in [
        "changed=1\nfailed=1\n",
        "### dryrack: 1 of 2 runs decides otherwise than before; 1 fails\n",
        "| `scenarios/whole-nodes-stay-free.dryrack.yaml` | 1m second placed on alpha/1, score 0.000 \
         | 1m second placed on beta/0, score 0.000 |\n",
        "decision 4, line 8 of the file\nwhy here  placed on beta/0 at 1m; ",
        "\nand 1 later decision differs\n",
        "**`scenarios/whole-nodes-stay-free.dryrack.yaml`** Small jobs share a node, so that a large job finds a whole one\n",
        "scenarios/whole-nodes-stay-free.dryrack.yaml:11  large_starts\n",
    ] {
        assert!(comment.contains(part), "{part:?} in\n{comment}");
    }
    assert!(!comment.contains("the scenario itself has changed"), "{comment}");
    // The README of the example shows the table and the failure.
    let readme = std::fs::read_to_string(ours("examples/ci/README.md")).expect("it is in the example");
    let shown = readme.lines().skip_while(|line| !line.starts_with("| scenario")).filter(|line| line.starts_with('|'));
    let block = readme.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of text");
    for part in shown.chain(block.lines()) {
        assert!(comment.lines().any(|line| line == part), "{part:?} in\n{comment}");
    }
    assert_eq!(output.status.code(), Some(1), "an expectation fails");
    // The lines that GitHub shows beside the scenario.
    let said = String::from_utf8(output.stdout).expect("text");
    for part in [
        "::error file=scenarios/whole-nodes-stay-free.dryrack.yaml,line=11,col=6,title=large_starts::",
        "::warning file=scenarios/whole-nodes-stay-free.dryrack.yaml,line=8,col=1,",
    ] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
    // Nothing is left behind in the repository.
    let left =
        Command::new("git").args(["status", "--porcelain"]).current_dir(dir.path()).output().expect("git is here");
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

fn a_change_that_decides_nothing_otherwise_is_told_so() {
    let dir = project();
    let file = dir.path().join("scheduler.py");
    let text = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, text + "\n# A remark.\n").expect("a folder of our own");
    commit(dir.path());
    let (output, comment) = compare(dir.path(), "HEAD~1", &["--fail-on-change", "true"]);
    assert!(comment.ends_with("<!-- dryrack -->\n### dryrack: all 2 runs decide as before\n"), "{comment}");
    assert_eq!(output.status.code(), Some(0));
}

fn a_base_without_scenarios_is_no_failure() {
    let dir = project();
    git(dir.path(), &["checkout", "--quiet", "--orphan", "empty"]);
    git(dir.path(), &["rm", "-r", "--quiet", "--cached", "scenarios"]);
    git(dir.path(), &["commit", "--quiet", "--message=Without scenarios"]);
    git(dir.path(), &["checkout", "--quiet", "--force", "main"]);
    let (output, comment) = compare(dir.path(), "empty", &[]);
    assert!(
        comment.contains("### dryrack: 2 runs, compared with nothing\n\nThe base has no scenarios.\n"),
        "{comment}"
    );
    assert_eq!(output.status.code(), Some(0));
}
