//! Accounting logs as they are found on clusters: with jobs that still run, of older releases, overlapping, with gaps.

use std::path::Path;

use serde_json::Value;

use crate::cli::{dryrack, written};

trials! {
    Nothing: [
        a_job_that_still_runs_is_replayed_with_its_limit_and_each_command_says_so,
        the_plan_of_a_list_with_running_jobs_goes_up_to_their_limits,
        a_list_with_running_jobs_and_outliers_is_streamed_as_it_is_read,
        lists_that_overlap_have_each_job_once,
        a_job_long_before_all_others_is_left_out_by_a_key,
        a_list_without_starts_or_gpus_gets_the_nodes_that_it_would_use,
        virtual_clusters_share_nodes_that_have_no_label,
        a_gpu_that_only_the_trace_names_is_told_with_the_line_that_allows_others,
        a_job_that_had_gpus_of_two_models_runs_on_either,
        a_range_that_misses_its_end_is_refused_and_a_load_may_stay_the_same,
        limits_of_slurm_hold_for_a_list,
        init_names_the_partitions_of_a_log,
        a_log_of_slurm_is_read_as_its_releases_wrote_it,
        what_a_log_does_not_say_to_slurm_is_told,
        users_stay_apart_when_a_list_is_converted,
    ]
}

const HEADER: &str = "JobID|State|Submit|Start|End|ElapsedRaw|Timelimit|NNodes|AllocTRES";

/// Runs a command. Returns its exit code, and stdout and stderr together.
fn said(dir: &Path, args: &[&str]) -> (i32, String) {
    let output = dryrack(dir, args).output().expect("it was built");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("it exits"), String::from_utf8(text).expect("text"))
}

/// A row of a job that starts when it is submitted.
fn row(name: u32, state: &str, day: u32, end: &str, hours: u32) -> String {
    let at = format!("2026-10-{day:02}T00:00:00");
    let start = if state == "PENDING" { "Unknown" } else { &at };
    format!("{name}|{state}|{at}|{start}|{end}|{}|02:00:00|1|cpu=8,gres/gpu=8\n", hours * 3600)
}

/// On paper: of the jobs on 8 GPUs each, the first ran 1 of 2 hours, the second 3 hours, which is beyond its limit. That
/// is 8 + 24 GPU hours so far, and 16 + 24 as replayed.
fn a_job_that_still_runs_is_replayed_with_its_limit_and_each_command_says_so() {
    let rows = [row(1, "RUNNING", 5, "Unknown", 1), row(2, "RUNNING", 6, "Unknown", 3)].concat();
    let rows = rows + &row(3, "PENDING", 6, "Unknown", 0) + &row(4, "COMPLETED", 7, "2026-10-07T01:00:00", 1);
    let dir = written(&[("jobs.txt", &format!("{HEADER}\n{rows}"))]);
    let (_, text) = said(dir.path(), &["init", "s.yaml", "--trace", "jobs.txt"]);
    let warnings = [
        "the trace jobs.txt was written while 2 jobs still ran, for a time that is not known",
        "the time limit is taken, and for 1 without a longer limit the time so far (32 GPU hours so far, 40 as replayed); 1 pending job left out",
    ];
    warnings.iter().for_each(|warning| assert!(text.contains(warning), "{warning}\n{text}"));
    let plan = "plan: How few?\nscenario: s.yaml\nfactors: {nodes: {set: nodes.node.count, values: 1..2}}\n\
                minimize: gpus\nconstraints: [p95(queue_wait) <= 2h]\n";
    std::fs::write(dir.path().join("p.yaml"), plan).expect("a folder of our own");
    for command in
        [&["trace", "check", "s.yaml"][..], &["run", "s.yaml"], &["what-helps", "s.yaml"], &["plan", "p.yaml"]]
    {
        let (code, text) = said(dir.path(), command);
        assert_eq!(code, 0, "{text}");
        warnings.iter().for_each(|warning| assert!(text.contains(warning), "{command:?}: {warning}\n{text}"));
    }
    let (_, text) = said(dir.path(), &["run", "s.yaml", "--set", "trace.running=elapsed"]);
    assert!(text.contains("(32 GPU hours so far, 32 as replayed)"), "{text}");
}

/// On paper: 12 jobs on a node each, one an hour, that ran 1 of 48 hours so far. One node was in use at once, and 12 are
/// if all go on. The plan goes half as far again, plus two: 20.
fn the_plan_of_a_list_with_running_jobs_goes_up_to_their_limits() {
    let job = |hour| {
        let at = format!("2026-10-05T{hour:02}:00:00");
        format!("{hour}|RUNNING|{at}|{at}|Unknown|3600|2-00:00:00|1|cpu=8,gres/gpu=8\n")
    };
    let list = format!("{HEADER}\n{}", (0..12).map(job).collect::<String>());
    let dir = written(&[("jobs.txt", &list)]);
    let (_, text) = said(dir.path(), &["init", "s.yaml", "--trace", "jobs.txt"]);
    let note = "at most 8 GPUs were in use at once in the log, and 96 if the jobs that still ran take their whole time \
                limits, so there are 12 nodes;";
    assert!(text.contains(note), "{text}");
    let plan = std::fs::read_to_string(dir.path().join("s.plan.yaml")).expect("written");
    assert!(plan.contains("values: 1..20}") && plan.contains("took their whole time limits"), "{plan}");
    let (code, text) = said(dir.path(), &["plan", "s.plan.yaml", "--seeds", "1..3"]);
    assert!(code == 0 && text.contains("is enough"), "{text}");
}

/// The reader keeps the rows of jobs that still run until the end of the file. A streamed run submits them in their order
/// all the same. The first job was submitted long before all others.
fn a_list_with_running_jobs_and_outliers_is_streamed_as_it_is_read() {
    let rows = [row(2, "RUNNING", 5, "Unknown", 1), row(3, "COMPLETED", 6, "2026-10-06T01:00:00", 1)].concat();
    let rows = rows + &row(4, "RUNNING", 6, "Unknown", 1) + &row(5, "PENDING", 7, "Unknown", 0);
    let hours: String = (0..40)
        .map(|hour| {
            let at = format!("2026-10-{:02}T{:02}:00:00", 7 + hour / 24, hour % 24);
            format!("{}|COMPLETED|{at}|{at}|{at}|600|02:00:00|1|cpu=8,gres/gpu=8\n", hour + 10)
        })
        .collect();
    let first =
        "1|COMPLETED|2026-08-01T00:00:00|2026-08-01T00:00:00|2026-08-01T01:00:00|3600|02:00:00|1|cpu=8,gres/gpu=8\n";
    let scenario = |more| {
        format!(
            "scenario: s\nnodes: [{{name: n, machine: a100-80g-x8}}]\n\
             trace: {{format: sacct, file: jobs.txt{more}}}\n"
        )
    };
    let list = format!("{HEADER}\n{first}{rows}{hours}");
    let cut = [("limit.yaml", scenario(", limit: 1")), ("skip.yaml", scenario(", skip: 1"))];
    let dir = written(&[("jobs.txt", &list), ("s.yaml", &scenario("")), (cut[0].0, &cut[0].1), (cut[1].0, &cut[1].1)]);
    let result = |args: &[&str]| {
        let output =
            dryrack(dir.path(), &[&["run", "--format", "json", "s.yaml"], args].concat()).output().expect("built");
        let told = String::from_utf8(output.stderr).expect("text");
        let mut whole: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        whole["wall_seconds"] = Value::Null;
        // This needs the shapes of all jobs before the run.
        whole["metrics"]["fragmentation"] = Value::Null;
        (whole, told)
    };
    let (made, told) = result(&[]);
    assert!(
        told.contains("1 of 44 jobs was submitted long before") && told.contains("while 2 jobs still ran"),
        "{told}"
    );
    assert_eq!(made["trace"]["dates"]["first"], "2026-08-01 00:00:00");
    assert_eq!((made, told), result(&["--stream"]));
    for (file, _) in cut {
        let (code, text) = said(dir.path(), &["run", file, "--stream"]);
        assert_eq!(code, 2, "{text}");
        let expected = "line 3: `2` was still running, and `skip` and `limit` cannot count such a task";
        assert!(text.contains(expected), "{text}");
    }
    let (_, text) = said(dir.path(), &["run", "s.yaml", "--stream"]);
    assert!(text.contains("waited") && !text.contains("peak"), "a streamed run does not know what was in use: {text}");
}

fn lists_that_overlap_have_each_job_once() {
    let rows = row(1, "COMPLETED", 5, "2026-10-05T01:00:00", 1) + &row(2, "RUNNING", 6, "Unknown", 1);
    let dir = written(&[("jobs.txt", &format!("{HEADER}\n{rows}{HEADER}\n{rows}"))]);
    let (code, text) = said(dir.path(), &["trace", "info", "jobs.txt"]);
    assert!(code == 0 && text.contains("2 tasks of 4 rows\nleft out: 2 a job that another row states too"), "{text}");
    let (_, text) = said(dir.path(), &["init", "s.yaml", "--trace", "jobs.txt"]);
    assert!(text.contains("the trace jobs.txt has 2 rows of jobs that other rows state too"), "{text}");
    assert!(text.contains("at most 8 GPUs were in use at once"), "{text}");
}

/// The first of 41 jobs was submitted 30 days before the others, which come every hour.
fn a_job_long_before_all_others_is_left_out_by_a_key() {
    let mut list = "job,submit_s,duration_s,gpus,wait_s\n".to_string();
    let start = 1_790_000_000;
    for (job, at) in std::iter::once(0).chain((0..40).map(|hour| 30 * 86_400 + hour * 3600)).enumerate() {
        list.push_str(&format!("{job},{},3600,1,0\n", start + at));
    }
    let dir = written(&[("jobs.csv", &list)]);
    let (_, text) = said(dir.path(), &["init", "s.yaml", "--trace", "jobs.csv"]);
    let note = "note: 1 of 41 jobs was submitted long before the others: 30d pass without a submission; \
                `from: 2026-10-21` in the scenario leaves out what lies beyond";
    assert!(text.contains(note), "{text}");
    let plan = std::fs::read_to_string(dir.path().join("s.plan.yaml")).expect("written");
    assert!(plan.contains("block: 1h, cycle: 1h}}") && plan.contains("values: 1..3"), "{plan}");
    let (code, text) = said(dir.path(), &["trace", "check", "s.yaml"]);
    assert!(code == 0 && !text.contains("submitted long before"), "{text}");
    let scenario = std::fs::read_to_string(dir.path().join("s.yaml")).expect("written");
    std::fs::write(dir.path().join("all.yaml"), scenario.replace(", from: 2026-10-21", "")).expect("ours");
    let (_, text) = said(dir.path(), &["trace", "check", "all.yaml"]);
    assert!(text.contains("warning: of the trace jobs.csv, 1 of 41 jobs was submitted long before"), "{text}");
    assert!(text.contains("write `from: 2026-10-21` in `trace:`"), "{text}");
}

/// Jobs of 60 seconds that were submitted at once: 3 of 16 GPUs, or of 64 cores. A machine has 8 GPUs and 96 cores.
fn a_list_without_starts_or_gpus_gets_the_nodes_that_it_would_use() {
    let rows = [
        ("gpus", "16", "at most 48 GPUs would have been in use if no job had waited, so there are 6 nodes"),
        ("processors", "64", "at most 192 cores would have been in use if no job had waited, so there are 2 nodes"),
        ("user", "1", "the log does not show how many GPUs or cores were in use, so there are 2 nodes, as a guess"),
    ];
    for (column, value, note) in rows {
        let jobs: String = (1..=3).map(|job| format!("{job},0,60,{value}\n")).collect();
        let jobs = format!("job,submit_s,duration_s,{column}\n{jobs}4,90000,60,{value}\n");
        let dir = written(&[("jobs.csv", &jobs)]);
        let (_, text) = said(dir.path(), &["init", "s.yaml", "--trace", "jobs.csv"]);
        assert!(text.contains(note), "{text}");
        assert_eq!(dir.path().join("s.plan.yaml").exists(), column != "user", "{column}");
        assert_eq!(said(dir.path(), &["run", "s.yaml"]).0, 0, "{column}");
    }
}

fn virtual_clusters_share_nodes_that_have_no_label() {
    let jobs = "job,submit_s,duration_s,gpus,virtual_cluster\n1,0,60,8,a\n2,0,60,8,b\n";
    let one = "scenario: One node\nnodes: [{name: n, machine: a100-80g-x8}]\ntrace: {format: csv, file: jobs.csv}\n";
    let two = one.replace("x8}]", "x8, labels: {vc: a}}]");
    let dir = written(&[("jobs.csv", jobs), ("one.yaml", one), ("two.yaml", &two)]);
    let (code, text) = said(dir.path(), &["trace", "check", "one.yaml"]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("jobs of 2 virtual clusters of jobs.csv share all nodes, because no node has the label `vc`")
    );
    let (code, text) = said(dir.path(), &["trace", "check", "two.yaml"]);
    assert!(code == 1 && text.contains("1 of 2 jobs can never run: no node has the label `vc: b`"), "{text}");
}

fn a_gpu_that_only_the_trace_names_is_told_with_the_line_that_allows_others() {
    let jobs = "job,submit_s,duration_s,gpus,gpu_models\n1,0,60,8,a100\n2,0,60,8,a100\n";
    let scenario =
        "scenario: s\nnodes: [{name: n, machine: a100-80g-x8}]\ntrace: {format: csv, file: jobs.csv}\nexpect: []\n";
    let plan = "plan: A100 or H100?\nscenario: s.yaml\nfactors: {gpu: {set: nodes.n.machine, values: [a100-80g-x8, \
                h100-80g-x8]}}\nminimize: gpus\nconstraints: [jobs_completed == 2]\n";
    let dir = written(&[("jobs.csv", jobs), ("s.yaml", scenario), ("p.yaml", plan)]);
    let warning = "2 jobs of the trace jobs.csv cannot run on these nodes, because the trace names GPU `a100` for them and \
                   the nodes have h100-80g";
    let help = "write `gpu_names: {a100: [a100-40g, a100-80g, h100-80g]}` in `trace:`";
    let (_, text) = said(dir.path(), &["plan", "p.yaml"]);
    assert!(text.contains(warning) && text.contains(help), "{text}");
    assert!(text.contains("The trace asks for GPU `a100`, which some alternatives do not have."), "{text}");
    let (_, text) = said(dir.path(), &["run", "s.yaml", "--set", "nodes.n.machine=h100-80g-x8"]);
    assert!(text.contains(warning) && text.contains(help), "{text}");
    let mended = scenario.replace("jobs.csv}", "jobs.csv, gpu_names: {a100: [a100-80g, h100-80g]}}");
    std::fs::write(dir.path().join("s.yaml"), mended).expect("a folder of our own");
    let (code, text) = said(dir.path(), &["plan", "p.yaml"]);
    let slow = "jobs of the trace jobs.csv that ask for `a100` take as long on h100-80g as they took, because the file states no";
    assert!(code == 0 && text.contains(slow) && text.contains("h100-80g-x8     8      1     1  yes"), "{text}");
    let equal = "The plan counts a100-80g and h100-80g as equally fast, because the scenario states no `speed`.";
    assert!(text.contains(equal), "{text}");
    // The answer has the GPU that the trace names.
    assert!(text.contains("gpu=a100-80g-x8 (1 x a100-80g-x8) is enough") && !text.contains("`gpu_names`"), "{text}");
    std::fs::write(dir.path().join("p.yaml"), plan.replace("a100-80g-x8, ", "")).expect("a folder of our own");
    let (_, text) = said(dir.path(), &["plan", "p.yaml"]);
    let assumed = "It assumes what `gpu_names` states: jobs that ask for GPU `a100` can run on h100-80g.";
    assert!(text.contains("gpu=h100-80g-x8 (1 x h100-80g-x8) is enough") && text.contains(assumed), "{text}");
    assert!(!text.contains("equally fast"), "there is one type of GPU: {text}");
}

fn a_job_that_had_gpus_of_two_models_runs_on_either() {
    let list = "job,submit_s,duration_s,gpus,gpu_models\n1,0,60,8,a100|h100\n2,0,60,8,h100\n";
    let scenario =
        "scenario: s\nnodes: [{name: n, machine: a100-80g-x8}]\ntrace: {format: csv, file: jobs.csv}\nexpect: []\n";
    let dir = written(&[("jobs.csv", list), ("s.yaml", scenario)]);
    let (_, text) = said(dir.path(), &["trace", "check", "s.yaml"]);
    assert!(text.contains("1 of 2 jobs can never run"), "{text}");
    assert!(text.contains("warning: 1 job of the trace jobs.csv cannot run on these nodes"), "{text}");
}

fn a_range_that_misses_its_end_is_refused_and_a_load_may_stay_the_same() {
    let scenario = "scenario: s\nuntil: 1d\nparams: {workers: 2}\n\
                    nodes: [{name: w, machine: l4-x1, count: \"${workers}\"}]\n\
                    jobs: [{name: j, gpus: 1, duration: 1h, arrivals: {every: 1h}}]\n";
    let plan = |factor: &str, rest: &str| {
        format!(
            "plan: p\nscenario: s.yaml\nfactors: {{workers: {factor}}}\nminimize: gpus\n\
                 constraints: [p95(queue_wait) <= 30m]\n{rest}"
        )
    };
    let grow = "horizon: {months: 3, growth: 0%/month}\n";
    let files = [("s.yaml", scenario), ("r.yaml", &plan("2..9 by 3", "")), ("g.yaml", &plan("[2, 3]", grow))];
    let dir = written(&files);
    let (code, text) = said(dir.path(), &["plan", "r.yaml"]);
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("`2..9 by 3` does not reach 9") && text.contains("write `2..8 by 3` or `2..11 by 3`"),
        "{text}"
    );
    let (code, text) = said(dir.path(), &["plan", "g.yaml"]);
    assert!(code == 0 && text.contains("workers=2"), "{text}");
}

/// The partitions are comments, because a log does not say which nodes they have. Without the `#`, they are valid.
fn init_names_the_partitions_of_a_log() {
    let log = std::fs::read_to_string("scenarios/slurm/a-log-with-partitions.txt").expect("the log");
    let dir = written(&[("jobs.txt", &log)]);
    let (code, text) = said(dir.path(), &["init", "s.yaml", "--trace", "jobs.txt"]);
    assert!(code == 0 && text.contains("the log has 2 partitions, which share all nodes"), "{text}");
    let file = dir.path().join("s.yaml");
    let written = std::fs::read_to_string(&file).expect("the scenario");
    assert!(written.contains("{name: \"debug\", nodes: [\"*\"]}  # 3 jobs"), "{written}");
    let (before, comment) = written.split_once("# slurm:\n").expect("the configuration as a comment");
    let (partitions, after): (Vec<&str>, Vec<&str>) = comment.lines().partition(|line| line.starts_with("#   "));
    let partitions: Vec<&str> = partitions.iter().map(|line| &line[2..]).collect();
    let mended = format!("{before}slurm:\n{}\n{}\n", partitions.join("\n"), after.join("\n"));
    std::fs::write(&file, mended).expect("a file");
    let (code, text) = said(dir.path(), &["check", "s.yaml"]);
    assert!(code == 0 && !text.contains("error"), "{text}");
}

/// Two jobs of one user, of which a QOS allows one at a time. The list states neither QOS nor partition.
fn limits_of_slurm_hold_for_a_list() {
    let list = format!(
        "{HEADER}\n{}{}",
        row(1, "COMPLETED", 1, "2026-10-01T04:00:00", 4),
        row(2, "COMPLETED", 1, "2026-10-01T04:00:00", 4)
    );
    let scenario = |slurm: &str| {
        format!(
            "scenario: A list\nprofile: slurm-22.05\n{slurm}nodes: [{{name: n, cpus: 64, gpu: a100-80g, gpus: 16}}]\n\
             trace: {{file: list.txt, format: sacct}}\nexpect: [{{name: both, metric: max(queue_wait) <= 1m}}]\n"
        )
    };
    let limits = "slurm: {qos: [{name: normal, max_jobs_per_user: 1}], preempt_type: qos}\n";
    for (slurm, is_limited) in [(limits, true), ("slurm: {preempt_type: qos}\n", false), ("", false)] {
        let dir = written(&[("list.txt", &list), ("a.yaml", &scenario(slurm))]);
        let (code, text) = said(dir.path(), &["test", "a.yaml"]);
        assert_eq!(code, i32::from(is_limited), "{text}");
        assert_eq!(text.contains("2 jobs of list.txt state no QOS: they have `normal`"), is_limited, "{text}");
    }
}

/// A job that was cancelled while it waited, as releases before 20.11 write it, and a heterogeneous job in a jobcomp file.
fn a_log_of_slurm_is_read_as_its_releases_wrote_it() {
    let cancelled = "JobID|State|Submit|Start|End|Elapsed|AllocCPUS|ReqCPUS|NNodes\n\
        1|CANCELLED by 7|2026-10-05T00:00:00|2026-10-05T02:00:00|2026-10-05T02:00:00|00:00:00|0|4|1\n\
        2|COMPLETED|2026-10-05T00:00:00|2026-10-05T00:00:00|2026-10-05T01:00:00|01:00:00|4|4|1\n";
    let component = |offset: u32| {
        format!(
            "JobId={} UserId=ann(7) Name=n JobState=COMPLETED Partition=gpu TimeLimit=60 StartTime=2026-10-05T00:10:00 \
             EndTime=2026-10-05T00:40:00 NodeList=g NodeCnt=1 ProcCnt=2 Tres=cpu=2,mem=1P Account=ml QOS=high \
             SubmitTime=2026-10-05T00:00:00 EligibleTime=2026-10-05T00:00:00 HetJobId=4 HetJobOffset={offset} ExitCode=0:0 \n",
            4 + offset
        )
    };
    let dir = written(&[("jobs.txt", cancelled), ("jobs.log", &(component(0) + &component(1)))]);
    let (_, text) = said(dir.path(), &["trace", "info", "jobs.txt"]);
    assert!(text.contains("1 tasks of 2 rows") && text.contains("1 never started"), "{text}");
    let (_, text) = said(dir.path(), &["trace", "info", "jobs.log"]);
    assert!(text.contains("2 component of a heterogeneous job"), "{text}");
    let (_, text) = said(dir.path(), &["trace", "convert", "jobs.log", "--to", "csv"]);
    assert!(text.contains("\n4+1,") && text.contains(",high,,ml,\n"), "{text}");
}

/// Limits on each user need users, a list of partitions is as in `jobs:`, and without partitions all nodes are shared.
fn what_a_log_does_not_say_to_slurm_is_told() {
    let list = "job,submit_s,duration_s,nodes,virtual_cluster,user_name\n\
        a,0,60,1,\"left,right\",ann\nb,0,60,1,right,bob\nc,0,60,1,left,ann\n";
    let nameless: String =
        list.lines().map(|line| format!("{}\n", line.rsplit_once(',').expect("columns").0)).collect();
    let scenario = |file: &str, slurm: &str| {
        format!(
            "scenario: A list\nprofile: slurm-22.05\n{slurm}nodes: [{{name: l, cpus: 1}}, {{name: r, cpus: 1}}]\n\
             trace: {{file: {file}, format: csv}}\n"
        )
    };
    let both = "slurm: {partitions: [{name: left, nodes: [l]}, {name: right, nodes: [r]}], qos: [{name: normal, \
        max_jobs_per_user: 1}]}\n";
    let limited = "slurm: {qos: [{name: normal, max_tres_per_job: {gres/gpu: 1}}]}\n";
    let dated = list.replace(",0,60", ",1790000000,60");
    let dir = written(&[
        ("list.csv", list),
        ("nameless.csv", &nameless),
        ("dated.csv", &dated),
        ("named.yaml", &scenario("list.csv", both)),
        ("nameless.yaml", &scenario("nameless.csv", both)),
        ("shared.yaml", &scenario("jobs.txt, queue: [gpu, debug]", "").replace("format: csv", "format: sacct")),
        ("dated.yaml", &scenario("dated.csv, offset: 1h", both)),
        (
            "parts.csv",
            "job,submit_s,duration_s,nodes,gpus,gpu_milli\na,0,60,1,1,500\nb,0,60,1,1,500\nc,0,60,1,1,1000\n",
        ),
        ("parts.yaml", &scenario("parts.csv", limited).replace("cpus: 1}]", "cpus: 1, gpus: [l4]}]")),
        ("jobs.txt", &std::fs::read_to_string("scenarios/slurm/a-log-with-partitions.txt").expect("the log")),
    ]);
    let (code, text) = said(dir.path(), &["run", "named.yaml"]);
    assert!(code == 0 && !text.contains("no user") && text.contains("3 completed"), "{text}");
    let (_, streamed) = said(dir.path(), &["run", "named.yaml", "--stream"]);
    assert!(streamed.contains("3 completed"), "{streamed}");
    let (_, text) = said(dir.path(), &["check", "nameless.yaml"]);
    assert!(text.contains("3 jobs of nameless.csv state no user: for limits on each user"), "{text}");
    let (_, text) = said(dir.path(), &["check", "parts.yaml"]);
    assert!(
        text.contains("2 jobs of parts.csv ask for a part of a GPU, which counts as one GPU for limits on gres/gpu"),
        "{text}"
    );
    let (_, text) = said(dir.path(), &["trace", "check", "shared.yaml"]);
    assert!(text.contains("jobs of 2 partitions of jobs.txt share all nodes"), "{text}");
    let (code, text) = said(dir.path(), &["check", "dated.yaml"]);
    assert!(code == 2 && text.contains("write `from: 2026-09-21"), "{text}");
    let (_, text) = said(dir.path(), &["trace", "convert", "list.csv", "--to", "csv"]);
    assert!(!text.contains("ann") && text.contains("not written of 3 tasks: the name of the user"), "{text}");
}

/// A list that states the numbers of some users and only the names of others. A converted list has numbers alone.
fn users_stay_apart_when_a_list_is_converted() {
    let list = "job,submit_s,duration_s,user,user_name\na,0,60,1,\nb,0,60,,ann\nc,0,60,,bob\nd,0,60,,ann\n";
    let dir = written(&[("list.csv", list), ("late.csv", &(list.to_string() + "e,0,60,3,\n"))]);
    let converted = |name: &str| said(dir.path(), &["trace", "convert", name, "--to", "csv"]);
    let (code, text) = converted("list.csv");
    assert_eq!(code, 0, "{text}");
    let mut rows = text.lines().filter(|line| line.contains("user") || line.starts_with(['a', 'b', 'c', 'd']));
    let place = rows.next().and_then(|header| header.split(',').position(|column| column == "user")).expect("a column");
    let users: Vec<&str> = rows.filter(|row| row.contains(',')).filter_map(|row| row.split(',').nth(place)).collect();
    assert_eq!(users, ["1", "2", "3", "2"], "{text}");
    let (code, text) = converted("late.csv");
    assert!(code == 2 && text.contains("line 6: the user 3 is not the user `bob` of a line before"), "{text}");
}
