//! What the commands say of profiles with stages of their own: filters, scorers and keys of the order that are
//! expressions.

use crate::cli::{stderr, stdout, written};

trials! {
    Nothing: [
        a_gang_that_a_filter_refuses_is_told_the_filter,
        stages_that_are_expressions_are_compared,
        no_profile_without_a_filter_of_the_file_is_recommended,
        errors_of_a_whole_profile_point_at_the_option,
        a_profile_that_contradicts_itself_is_shown_too,
    ]
}

const BUILT_IN: &str = "    - {stage: picked}\n    - {stage: labels}\n    - {stage: ready}\n    - {stage: compatible}\n    - {stage: resources}\n";

/// A profile with more filters, and more keys at the end.
fn profile(base: &str, filters: &str, rest: &str) -> String {
    format!("base: {base}\nname: mine\ntitle: Mine\nscheduler:\n  filters:\n{BUILT_IN}{filters}{rest}")
}

const NO_GANGS: &str = "    - {filter: no_gangs, unless: job.tasks > 1, because: gangs_elsewhere}\n";

const GANG: &str = "\
scenario: A gang beside a small job
profile: mine.profile.yaml
nodes:
  - {name: n-0, gpu: l4, gpus: 4, cpus: 16, ram: 64GiB, labels: {pool: a}}
  - {name: n-1, gpu: l4, gpus: 4, cpus: 16, ram: 64GiB, labels: {pool: b}}
jobs:
  - {name: gang, tasks: 2, gpus: 1, duration: 1h}
  - {name: small, count: 24, gpus: 1, duration: 1h}
";

fn a_gang_that_a_filter_refuses_is_told_the_filter() {
    let dir = written(&[("mine.profile.yaml", &profile("fifo-skipping", NO_GANGS, "")), ("one.yaml", GANG)]);
    let sentence = "1 of 25 jobs can never run: no node has everything that the job asks for (most often: refused as \
                    gangs_elsewhere by an expression filter of the profile)";
    let said = stdout(dir.path(), &["run", "one.yaml"], 1);
    assert!(said.contains(&format!("\n{sentence}\n")), "{said}");
    let checked = stdout(dir.path(), &["trace", "check", "one.yaml"], 1);
    assert!(checked.contains(sentence), "{checked}");
    // A gang of more tasks than its nodes hold is told both.
    let filter = NO_GANGS.replace("job.tasks > 1", "job.tasks > 1 && node.labels.pool == 'a'");
    let many = GANG.replace("tasks: 2, gpus: 1", "tasks: 2, gpus: 4");
    let dir = written(&[("mine.profile.yaml", &profile("fifo-skipping", &filter, "")), ("one.yaml", &many)]);
    let said = stdout(dir.path(), &["run", "one.yaml"], 1);
    let sentence = "the suitable nodes have no room for 2 tasks at once, even when empty (other nodes are not suitable, most \
                    often: refused as gangs_elsewhere by an expression filter of the profile)";
    assert!(said.contains(sentence), "{said}");
}

fn stages_that_are_expressions_are_compared() {
    let other = profile("fifo", &NO_GANGS.replace("> 1", "> 2"), "  scorers: [{score: a.b, is: gpus.free}]\n");
    let none = profile("fifo", "", "");
    let dir = written(&[("a.yaml", &profile("fifo", NO_GANGS, "")), ("b.yaml", &other), ("none.yaml", &none)]);
    let said = stdout(dir.path(), &["profile", "diff", "a.yaml", "b.yaml"], 1);
    let line = |named: &str| said.lines().find(|line| line.starts_with(named)).unwrap_or_else(|| panic!("{said}"));
    let unless = line("scheduler.filters.no_gangs.unless ");
    assert!(unless.contains("job.tasks > 1 ") && unless.ends_with("job.tasks > 2"), "{said}");
    let score = line("scheduler.scorers.a.b ");
    assert!(score.contains("(absent)") && score.contains("\"is\":\"gpus.free\""), "{said}");
    let said = stdout(dir.path(), &["profile", "diff", "none.yaml", "a.yaml"], 1);
    assert!(said.contains("\"unless\":\"job.tasks > 1\""), "{said}");
}

/// The filter lets jobs start on one of two nodes only. Every profile without it would end most of the waiting.
fn no_profile_without_a_filter_of_the_file_is_recommended() {
    let filter = "    - {filter: one_node, unless: node.labels.pool == 'b', because: other_node}\n";
    let jobs = GANG.replace("  - {name: gang, tasks: 2, gpus: 1, duration: 1h}\n", "");
    let dir = written(&[("mine.profile.yaml", &profile("fifo-skipping", filter, "")), ("one.yaml", &jobs)]);
    let said = stdout(dir.path(), &["what-helps", "one.yaml"], 0);
    assert!(!said.contains("the profile ") && !said.contains("--profile"), "{said}");
    assert!(said.contains("No other profile was tried, because none has the filter `one_node` of mine."), "{said}");
    // Without a scorer, a profile breaks no rule of the user, but the line says what it lacks.
    let scorer = profile("fifo-skipping", "", "  scorers: [{score: sun, is: gpus.free}]\n");
    let dir = written(&[("mine.profile.yaml", &scorer), ("one.yaml", &jobs)]);
    let said = stdout(dir.path(), &["what-helps", "one.yaml"], 0);
    assert!(said.contains("the profile fifo (without `sun`)"), "{said}");
}

fn errors_of_a_whole_profile_point_at_the_option() {
    let by_queue = "    - {filter: by_queue, unless: queue.pending > 9, because: too_long}\n";
    // The lines of `filters:` are 6 to 10, so the one that is added is 11.
    let rows = [
        (profile("priority-preemption", by_queue, ""), "11:16", "the filter `by_queue` reads `queue.pending`"),
        (profile("fifo", "", "  preempt: lower_priority\n"), "11:12", "`scheduler.order` must begin with `priority`"),
        (profile("fifo", "    - {stage: ready}\n", ""), "11:15", "names the `ready` filter twice"),
        (profile("fifo", "", "retry: {factor: 50%}\n"), "11:17", "back-off factor below 100%"),
    ];
    for (text, place, why) in rows {
        let dir = written(&[("mine.profile.yaml", &text), ("one.yaml", GANG)]);
        let said = stderr(dir.path(), &["check", "mine.profile.yaml"], 2);
        assert!(said.contains(why) && said.contains(&format!(" --> mine.profile.yaml:{place}\n")), "{place}: {said}");
    }
}

/// The help of an error names a command that works, from the folder in which the command was typed.
fn a_profile_that_contradicts_itself_is_shown_too() {
    let text = profile("fifo", "", "  preempt: lower_priority\n");
    let dir = written(&[("mine.profile.yaml", &text), ("one.yaml", GANG)]);
    std::fs::create_dir(dir.path().join("below")).expect("a folder of our own");
    let said = stderr(&dir.path().join("below"), &["run", "../one.yaml"], 2);
    let help = "`dryrack profile show ../mine.profile.yaml` shows what is set";
    assert!(said.contains(help), "{said}");
    let args = ["profile", "show", "../mine.profile.yaml"];
    let shown = stdout(&dir.path().join("below"), &args, 2);
    assert!(shown.contains("preempt: lower_priority"), "{shown}");
    let faults = stderr(&dir.path().join("below"), &args, 2);
    assert!(faults.contains("must begin with `priority`"), "{faults}");
    // A file whose name is not that of a profile's file is found by its path.
    std::fs::copy(dir.path().join("mine.profile.yaml"), dir.path().join("mine")).expect("a folder of our own");
    let said = stderr(dir.path(), &["profile", "show", "mine"], 2);
    assert!(said.contains("for the file of this name, write `./mine`"), "{said}");
    assert!(stdout(dir.path(), &["profile", "show", "./mine"], 2).contains("preempt: lower_priority"));
}
