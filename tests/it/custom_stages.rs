//! What the commands say of profiles with stages of their own: filters, scorers and keys of the order that are
//! expressions.

use crate::cli::{stderr, stdout, written};

trials! {
    Nothing: [
        a_gang_that_a_filter_refuses_is_told_the_filter,
        a_filter_is_told_beside_a_more_frequent_reason,
        stages_that_are_expressions_are_compared,
        no_profile_without_a_filter_of_the_file_is_recommended,
        errors_of_a_whole_profile_point_at_the_option,
        a_profile_that_contradicts_itself_is_shown_too,
        a_profile_that_reads_more_of_jobs_takes_over_a_run,
        an_expression_that_reads_a_job_wrongly_is_pointed_at,
        a_filter_that_judges_no_job_of_the_file_is_told_its_list,
        a_project_that_a_stage_reads_has_an_effect,
        an_order_that_reads_a_task_is_told_the_whole,
        an_expression_is_named_as_the_cause_of_what_it_reproduces,
        names_that_other_alternatives_and_jobs_may_have_are_no_mistake,
        what_follows_is_said_of_the_name_that_it_follows_from,
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

/// Two small nodes have too few cores, and the filter refuses the large one. Without the filter, the job runs.
fn a_filter_is_told_beside_a_more_frequent_reason() {
    let filter = "    - {filter: mine, unless: \"node.labels.pool == 'big'\", because: no_big}\n";
    let text = "scenario: A large node that a filter refuses\nprofile: mine.profile.yaml\nnodes:\n  \
                - {name: small, count: 2, cpus: 4}\n  - {name: big, cpus: 64, labels: {pool: big}}\njobs:\n  \
                - {name: wide, cpus: 8, duration: 1h}\n";
    let no_big = "refused as no_big by an expression filter of the profile";
    let dir = written(&[("mine.profile.yaml", &profile("fifo-skipping", filter, "")), ("one.yaml", text)]);
    for args in [&["run", "one.yaml"][..], &["trace", "check", "one.yaml"]] {
        let said = stdout(dir.path(), args, 1);
        assert!(said.contains(&format!("(most often: too little CPU is free; also: {no_big})")), "{said}");
    }
    // Nodes outside the partition of the job do not count.
    let slurm =
        "slurm:\n  partitions: [{name: p, default: true, nodes: [big]}, {name: q, nodes: [small-0, small-1]}]\n";
    let text = format!("{text}{slurm}");
    let dir = written(&[("mine.profile.yaml", &profile("slurm-22.05", filter, "")), ("one.yaml", &text)]);
    for args in [&["run", "one.yaml"][..], &["trace", "check", "one.yaml"]] {
        let said = stdout(dir.path(), args, 1);
        assert!(said.contains(&format!("(most often: {no_big})")), "{said}");
    }
    // As `sbatch` refuses a job whose `--constraint` no node of its partition meets.
    let said = stdout(dir.path(), &["run", "one.yaml"], 1);
    assert!(said.contains("jobs       1 = 1 never fits"), "{said}");
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

const URGENT: &str = "\
scenario: Jobs that ask for the same, with different priorities
profile: fifo-skipping
nodes:
  - {name: prod, gpu: l4, gpus: 4, cpus: 16, ram: 64GiB, labels: {pool: prod}}
  - {name: other, gpu: l4, gpus: 4, cpus: 16, ram: 64GiB}
jobs:
  - {name: holder, count: 2, gpus: 4, duration: 1h}
  - {name: usual, count: 2, at: 1m, gpus: 4, duration: 10m}
  - {name: urgent, at: 2m, gpus: 4, duration: 20m, priority: 100}
expect:
  - {evaluate: urgent, is: unfit, because: insufficient_gpus, at: 90m}
";

const SERVED: &str = "\
scenario: Models that ask for the same, with different priorities
profile: gpustack
until: 3h
nodes:
  - {name: prod, machine: a100-80g-x2, labels: {pool: prod}}
  - {name: other, machine: a100-80g-x2}
jobs:
  - {name: holder, model: Qwen/Qwen3-8B, replicas: 4, cancel_at: 1h, analysis: 1m}
  - {name: usual, at: 1m, model: Qwen/Qwen3-8B, replicas: 3, cancel_at: 2h, analysis: 1m}
  - {name: urgent, at: 2m, model: Qwen/Qwen3-8B, cancel_at: 2h, analysis: 1m, priority: 100}
";

const RESERVED: &str =
    "{filter: reserve_prod, unless: \"node.labels.pool == 'prod' && job.priority < 100\", because: low_priority}";

/// From the change on, jobs that ask for the same are judged apart, also those that already wait.
fn a_profile_that_reads_more_of_jobs_takes_over_a_run() {
    let of_queue = profile("fifo-skipping", &format!("    - {RESERVED}\n"), "");
    let of_models = format!(
        "base: gpustack\nname: mine\ntitle: Mine\nscheduler:\n  deployments:\n    filters: [picked, labels, ready, runner, compatible, {RESERVED}]\n"
    );
    for (scenario, profile, usual, at) in [(URGENT, of_queue, "usual-0", "1h5m"), (SERVED, of_models, "usual", "1h30m")]
    {
        let dir = written(&[("mine.profile.yaml", &profile), ("one.yaml", scenario)]);
        let args = ["what-if", "one.yaml", "--at", "90s", "--profile", "mine.profile.yaml", "--out", "out"];
        stdout(dir.path(), &args, 0);
        stdout(dir.path(), &["replay", "out/branch.jsonl"], 0);
        let usual = stdout(dir.path(), &["explain", "out/branch.jsonl", "--job", usual, "--at", at], 0);
        assert!(usual.contains("low_priority"), "{usual}");
        let urgent = stdout(dir.path(), &["explain", "out/branch.jsonl", "--job", "urgent", "--at", at], 0);
        assert!(urgent.contains("placed on prod/") && !urgent.contains("low_priority"), "{urgent}");
    }
}

fn an_expression_that_reads_a_job_wrongly_is_pointed_at() {
    let rows = [
        ("job.user > 1", "11:40", "`>` compares two numbers or two texts"),
        ("job.name == 'a'", "11:31", "read `job.user`, `job.project` or `job.queue`"),
        ("node.spot && job.waited > 60", "11:44", "only an `order` can read it"),
        ("job.priorty < 5", "11:31", "did you mean `job.priority`?"),
    ];
    for (unless, place, why) in rows {
        let filter = format!("    - {{filter: mine, unless: \"{unless}\", because: mine}}\n");
        let text = profile("fifo-skipping", &filter, "");
        let dir = written(&[("mine.profile.yaml", &text), ("one.yaml", GANG)]);
        let said = stderr(dir.path(), &["check", "mine.profile.yaml"], 2);
        assert!(said.contains(why) && said.contains(&format!(" --> mine.profile.yaml:{place}\n")), "{place}: {said}");
    }
}

/// Models are judged by `deployments.filters`, jobs with `resources` by `offers.filters`, all others by `filters`.
fn a_filter_that_judges_no_job_of_the_file_is_told_its_list() {
    const OWN: &str = "{filter: no_pool, unless: \"node.labels.pool == 'a'\", because: pool_a}";
    let tasks = format!("  filters:\n{BUILT_IN}    - {OWN}\n");
    let models = format!("  deployments:\n    filters: [picked, labels, ready, runner, compatible, {OWN}]\n");
    let offers = format!("  offers:\n    filters: [{OWN}]\n");
    let job = "{name: train, gpus: 1, duration: 1h}";
    let model = "{name: chat, model: Qwen/Qwen3-8B, cancel_at: 1h}";
    let run = "{name: run, resources: {gpu: 1}, duration: 1h}";
    let gang = "{name: gang, tasks: [{name: a, cpus: 1}, {name: b, gpus: 1}], duration: 1h}";
    let none = "";
    let for_tasks = "write it in `scheduler.filters` for jobs without `model` and `resources`";
    for (base, filters, jobs, place, help) in [
        ("gpustack", &tasks, model, "11:16", "write it in `scheduler.deployments.filters` for jobs with `model`"),
        ("dstack", &tasks, run, "11:16", "write it in `scheduler.offers.filters` for jobs with `resources`"),
        ("dstack", &offers, job, "6:24", for_tasks),
        ("dstack", &offers, gang, "6:24", for_tasks),
        ("gpustack", &models, job, "6:67", for_tasks),
        ("gpustack", &models, model, none, none),
        ("dstack", &offers, run, none, none),
        ("first-fit", &tasks, gang, none, none),
        // A profile for all kinds of jobs.
        ("first-fit", &format!("{tasks}{offers}"), job, none, none),
    ] {
        let profile = format!("base: {base}\nname: mine\ntitle: Mine\nscheduler:\n{filters}");
        let fleets = if jobs == run { "fleets: {lab: {hosts: [{name: h0, machine: a100-80g-x2}]}}\n" } else { "" };
        let scenario = format!(
            "scenario: A filter\nprofile: mine.profile.yaml\n{fleets}nodes:\n  - {{name: alpha, machine: a100-80g-x2}}\n\
             jobs:\n  - {jobs}\nexpect: [jobs_submitted >= 1]\n"
        );
        let dir = written(&[("mine.profile.yaml", &profile), ("one.yaml", &scenario)]);
        let said = stderr(dir.path(), &["check", "one.yaml"], 0);
        let is_told = said.contains("the filter `no_pool` judges no job");
        assert_eq!(is_told, !place.is_empty(), "{base}, {jobs}: {said}");
        assert!(said.contains(place) && said.contains(help), "{base}, {jobs}: {said}");
    }
}

fn a_project_that_a_stage_reads_has_an_effect() {
    let filter = "    - {filter: mine, unless: \"job.project == 'red'\", because: mine}\n";
    let score = "  scorers: [{score: mine, is: \"job.project == 'red' ? 1 : 0\"}]\n";
    let order = "  order: [{order: mine, is: \"job.project == 'red' ? 0 : 1\"}]\n";
    let scenario = GANG.replace("count: 24,", "count: 24, project: red,");
    for (filters, rest, is_unread) in [(filter, "", false), ("", score, false), ("", order, false), ("", "", true)] {
        let dir = written(&[("mine.profile.yaml", &profile("fifo-skipping", filters, rest)), ("one.yaml", &scenario)]);
        let said = stderr(dir.path(), &["check", "one.yaml"], 0);
        assert_eq!(said.contains("`project` has no effect"), is_unread, "{said}");
    }
}

fn an_order_that_reads_a_task_is_told_the_whole() {
    for (order, help) in [
        ("job.gpus", "read `job.total_gpus`"),
        ("1 + job.ram", "read `job.total_ram`"),
        ("gpus.free", "only filters and scorers can read it"),
        ("job.total_gpu", "did you mean `job.total_gpus`?"),
    ] {
        let text = profile("fifo-skipping", "", &format!("  order: [{{order: mine, is: {order}}}]\n"));
        let dir = written(&[("mine.profile.yaml", &text)]);
        let said = stderr(dir.path(), &["check", "mine.profile.yaml"], 2);
        assert!(said.contains(help), "{order}: {said}");
    }
    let filter = "    - {filter: mine, unless: job.total_cpus > 4, because: mine}\n";
    let dir = written(&[("mine.profile.yaml", &profile("fifo-skipping", filter, ""))]);
    let said = stderr(dir.path(), &["check", "mine.profile.yaml"], 2);
    assert!(said.contains("read `job.cpus * job.tasks`"), "{said}");
}

/// The job that is submitted last is the shortest. Qwen3 runs on the only node.
fn an_expression_is_named_as_the_cause_of_what_it_reproduces() {
    let queue = "nodes: [{name: alpha, machine: l4-x1}]\njobs:\n  - {name: first, gpus: 1, duration: 1h}\n  \
                 - {name: second, at: 1m, gpus: 1, duration: 1h, estimate: 1h}\n  \
                 - {name: third, at: 2m, gpus: 1, duration: 10m, estimate: 10m}\n";
    let model =
        "nodes: [{name: alpha, machine: a100-80g-x1}]\njobs: [{name: second, model: Qwen/Qwen3-8B}]\nuntil: 2h\n";
    let qwen = "{filter: no_qwen, unless: job.model.startsWith(\"Qwen\"), because: is_qwen}";
    for (base, stages, world, cause) in [
        ("fifo-skipping", "{order: [{order: shortest, is: job.estimate}]}", queue, "scheduler.order.shortest"),
        (
            "gpustack",
            &format!("{{deployments: {{filters: [picked, labels, ready, runner, compatible, {qwen}]}}}}"),
            model,
            "scheduler.deployments.filters.no_qwen",
        ),
    ] {
        let profile = format!("base: {base}\nname: mine\ntitle: Mine\nscheduler: {stages}\n");
        let scenario = format!(
            "scenario: A fault as an expression\nprofile: {base}\n{world}expect:\n  \
             - {{name: runs, job: second, is: running, by: 61m}}\nreproduces:\n  \
             - {{profile: mine.profile.yaml, fails: [runs], and: [{{job: second, is: pending, at: 62m}}]}}\n"
        );
        let dir = written(&[("mine.profile.yaml", &profile), ("one.yaml", &scenario)]);
        let said = stdout(dir.path(), &["test", "one.yaml", "--verbose"], 0);
        let expected = format!("reproduced under mine.profile.yaml, because of {cause}\n");
        assert!(said.contains(&expected), "{said}");
        let said = stdout(dir.path(), &["run", "one.yaml", "--set", "until=90m"], 0);
        assert!(said.contains("`dryrack test one.yaml --set until=90m` also runs what is under"), "{said}");
    }
}

/// The pool `prod` is that of one alternative. A profile that reads users may be for other jobs, if no job has a user.
fn names_that_other_alternatives_and_jobs_may_have_are_no_mistake() {
    let filter = "    - {filter: mine, unless: \"node.labels.pool == 'prod' && job.user == 'ann'\", because: mine}\n";
    let scenario = "\
scenario: A pool
profile: mine.profile.yaml
nodes:
  - {name: alpha, gpu: l4, gpus: 4, cpus: 16, ram: 64GiB, labels: {pool: dev}}
jobs:
  - {name: first, gpus: 1, user: bob, duration: 1h}
expect: [jobs_submitted >= 1]
";
    let plan = "\
plan: Which pool
scenario: one.yaml
factors:
  pool: {set: nodes.alpha.labels.pool, values: [dev, prod]}
minimize: gpus
constraints: [makespan <= 2h]
";
    let profile = profile("fifo-skipping", filter, "");
    let dir = written(&[("mine.profile.yaml", &profile), ("one.yaml", scenario), ("plan.yaml", plan)]);
    let said = stderr(dir.path(), &["check", "one.yaml"], 0);
    assert!(said.contains("the label `pool` with the value `prod`, so the filter `mine` refuses no node"), "{said}");
    assert!(said.contains("no job of this scenario has the user `ann`"), "{said}");
    let said = stderr(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(!said.contains("with the value `prod`"), "{said}");
    assert!(said.contains("no job of this scenario has the user `ann`"), "{said}");
    std::fs::write(dir.path().join("one.yaml"), scenario.replace(" user: bob,", "")).expect("a folder of our own");
    let said = stderr(dir.path(), &["check", "one.yaml"], 0);
    assert!(!said.contains("has the user"), "{said}");
}

/// Every node is outside the switch `s1`, so the filter refuses all of them, whatever their racks are.
fn what_follows_is_said_of_the_name_that_it_follows_from() {
    let filter = "    - {filter: mine, unless: \"node.rack == 'r9' || node.switch != 's1'\", because: mine}\n";
    let scenario = "\
scenario: Racks and switches
profile: mine.profile.yaml
nodes: [{name: alpha, gpu: l4, gpus: 4, cpus: 16, ram: 64GiB, rack: r1, switch: s2}]
jobs: [{name: first, gpus: 1, duration: 1h}]
expect: [jobs_submitted >= 1]
";
    let profile = profile("fifo-skipping", filter, "");
    let dir = written(&[("mine.profile.yaml", &profile), ("one.yaml", scenario)]);
    let said = stderr(dir.path(), &["check", "one.yaml"], 0);
    assert!(said.contains("`r9`, so this comparison is never true"), "{said}");
    assert!(said.contains("`s1`, so the filter `mine` refuses every node"), "{said}");
}
