//! The results of a run, checked against arithmetic on paper.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use dryrack_control::Profile;
use dryrack_engine::{Rehearsal, RunOptions, draw_world, run};
use dryrack_expect::Verdict;
use dryrack_metrics::{METRICS, Metrics, RunAccount, Series, Value};
use dryrack_profile::{load_profile, profile_names};
use dryrack_report::{Heading, RunReport, Spans, summary, write_jobs_csv, write_nodes_csv, write_perfetto};
use dryrack_units::{GpuShare, Money, Permille, SimDuration, SimTime};
use dryrack_workload::{DemandKind, GpuTake, GpuUsage, Shape, Usage};
use serde_json::json;

use crate::small_world::{arrival, node, rehearsal};

trials! {
    Nothing: [
        metrics_are_what_arithmetic_on_paper_gives,
        what_gpus_really_did_is_what_arithmetic_on_paper_gives,
        fragmentation_is_what_arithmetic_on_paper_gives,
        what_was_before_the_warm_up_counts_nowhere,
        the_page_of_metrics_defines_each,
        a_timeline_is_a_trace_of_what_ran_where,
        a_timeline_is_what_readers_of_traces_ask,
        the_files_of_a_report_are_what_arithmetic_on_paper_gives_and_the_same_twice,
        a_report_begins_with_what_failed,
        tables_are_what_arithmetic_on_paper_gives,
        a_summary_of_a_small_fleet_shows_each_gpu,
        a_summary_of_a_large_fleet_shows_how_full_it_was,
        a_run_of_nothing_has_metrics_too,
    ]
}

fn accounts(rehearsal: &Rehearsal, end: Option<SimTime>) -> RunAccount {
    let mut accounts = RunAccount::of(rehearsal);
    let ended = run(rehearsal, RunOptions::default(), &mut [&mut accounts]);
    accounts.finish(end.unwrap_or(ended.at));
    accounts
}

fn text(rehearsal: &Rehearsal) -> String {
    let accounts = accounts(rehearsal, rehearsal.until);
    let heading = Heading {
        assumed: &[],
        title: &rehearsal.title,
        profile: "first-fit",
        seed: 7,
        digest: "0123456789abcdef",
        is_sample: false,
        trace: Vec::new(),
        recorded_waits: Vec::new(),
        since_submission: false,
    };
    let text = summary(&heading, &accounts, &Metrics::of(&accounts), &[]);
    anstream::adapter::strip_str(&text).to_string()
}

/// chat: submitted at 10 s, runs at once until 70 s. late: submitted at 20 s, runs from 70 s to 130 s.
fn metrics_are_what_arithmetic_on_paper_gives() {
    let metrics = Metrics::of(&accounts(&rehearsal(60), None));
    let seconds = |seconds| Value::Time(SimDuration::from_secs(seconds));
    let rows = [
        ("jobs_submitted", Value::Count(2)),
        ("jobs_completed", Value::Count(2)),
        ("jobs_running", Value::Count(0)),
        ("jobs_waiting", Value::Count(0)),
        // 0 s and 50 s.
        ("queue_wait_mean_seconds", seconds(25)),
        ("queue_wait_p50_seconds", seconds(0)),
        ("queue_wait_p95_seconds", seconds(50)),
        ("queue_wait_max_seconds", seconds(50)),
        ("placed", Value::Ratio(1.0)),
        // A turnaround of 60 s for 60 s of run time, and of 110 s for 60 s.
        ("bounded_slowdown_mean", Value::Ratio((1.0 + 110.0 / 60.0) / 2.0)),
        ("makespan_seconds", seconds(120)),
        // The GPU was taken from 10 s to 130 s; one of 8 cores was taken.
        ("gpu_allocated", Value::Ratio(120.0 / 130.0)),
        ("cpu_allocated", Value::Ratio(120.0 / 1040.0)),
        ("retries", Value::Count(0)),
    ];
    for (name, value) in rows {
        assert_eq!(metrics.get(name), Some(value), "{name}");
    }
    assert_eq!(metrics.get("queue_wait"), None);
}

fn held(metrics: &Metrics, rows: &[(&str, Value)]) {
    for (name, value) in rows {
        match (metrics.get(name), value) {
            (Some(Value::Ratio(found)), Value::Ratio(wanted)) => {
                assert!((found - wanted).abs() < 1e-12, "{name} is {found}, not {wanted}");
            }
            (found, value) => assert_eq!(found, Some(*value), "{name}"),
        }
    }
}

/// chat prepares from 10 s, runs from 20 s to 80 s and uses half of the GPU; late runs from 80 s to 140 s, and uses all
/// of it after 30 s. The GPU is held for 130 s, and used for 30 s by each; it is idle while chat prepares and while
/// late does nothing.
fn what_gpus_really_did_is_what_arithmetic_on_paper_gives() {
    let mut rehearsal = rehearsal(60);
    let shape = Arc::make_mut(&mut rehearsal.nodes[0].spec.shape);
    shape.price_per_hour = Some(Money::new(12_000_000));
    let usage = |shape| GpuUsage { shape, noise: Permille::ZERO, memory: None };
    let steps = vec![(SimDuration::from_secs(30), Permille::new(1000))];
    let shapes = [Shape::Constant(Permille::new(500)), Shape::Steps(steps)];
    for ((arrival, shape), prepare) in rehearsal.arrivals.iter_mut().zip(shapes).zip([10, 0]) {
        let behavior = Arc::make_mut(&mut arrival.behavior);
        behavior.usage = Some(Arc::new(Usage::new(vec![usage(shape)])));
        behavior.prepare = SimDuration::from_secs(prepare);
    }
    for (arrival, user) in rehearsal.arrivals.iter_mut().zip(["ann", "bob"]) {
        Arc::make_mut(&mut arrival.spec).user = Some(user.into());
    }
    let metrics = Metrics::of(&accounts(&rehearsal, None));
    let seconds = |seconds| Value::Time(SimDuration::from_secs(seconds));
    held(
        &metrics,
        &[
            ("gpu_hours", Value::Ratio(130.0 / 3600.0)),
            ("gpu_utilization", Value::Ratio(60.0 / 130.0)),
            ("gpu_idle_hours", Value::Ratio(40.0 / 3600.0)),
            // Twelve an hour for 40 s, rounded down to a millionth.
            ("gpu_idle_cost", Value::Money(Money::new(133_333))),
            // 70 s and 120 s.
            ("turnaround_mean_seconds", seconds(95)),
            ("turnaround_p95_seconds", seconds(120)),
            ("bounded_slowdown_p95", Value::Ratio(2.0)),
            // The means of the users are 7/6 and 2.
            ("fairness", Value::Ratio((19.0 / 6.0) * (19.0 / 6.0) / (2.0 * (49.0 / 36.0 + 4.0)))),
            // All demands are for whole GPUs, and all free GPUs are whole.
            ("fragmentation", Value::Ratio(0.0)),
        ],
    );
    // When cut at 100 s, late has done nothing for 20 s, and is still running.
    let cut = Rehearsal { until: Some(SimTime::from_secs(100)), ..rehearsal };
    let metrics = Metrics::of(&accounts(&cut, cut.until));
    held(&metrics, &[("gpu_utilization", Value::Ratio(30.0 / 90.0)), ("gpu_idle_hours", Value::Ratio(30.0 / 3600.0))]);
}

/// half takes half of the GPU for 100 s; chat and late, which want all of it, come after that. Two of the three tasks
/// cannot use the other half.
fn fragmentation_is_what_arithmetic_on_paper_gives() {
    let mut half = arrival("half", 0, 100);
    let demand = Arc::make_mut(&mut Arc::make_mut(&mut half.spec).demand);
    let DemandKind::Tasks(task) = &mut demand.kind else { panic!("it is of tasks") };
    task.gpus.as_mut().expect("it asks for one").take = GpuTake::Share(GpuShare::new(500));
    let arrivals = vec![half, arrival("chat", 100, 50), arrival("late", 150, 50)];
    let metrics = Metrics::of(&accounts(&Rehearsal { arrivals, ..rehearsal(60) }, None));
    // 50 GPU seconds were free; 2/3 of each millionth, rounded down, was useless.
    held(&metrics, &[("fragmentation", Value::Ratio(333_333.0 / 500_000.0)), ("gpu_allocated", Value::Ratio(0.75))]);
}

/// chat: 10 s to 70 s; late: submitted at 20 s, 70 s to 130 s.
fn what_was_before_the_warm_up_counts_nowhere() {
    let of = |warm_up| Rehearsal { warm_up: Some(SimTime::from_secs(warm_up)), ..rehearsal(60) };
    let after_chat_came = Metrics::of(&accounts(&of(15), None));
    held(
        &after_chat_came,
        &[
            ("jobs_submitted", Value::Count(1)),
            ("queue_wait_mean_seconds", Value::Time(SimDuration::from_secs(50))),
            ("makespan_seconds", Value::Time(SimDuration::from_secs(110))),
            ("gpu_allocated", Value::Ratio(1.0)),
            ("cpu_allocated", Value::Ratio(115.0 / 920.0)),
            ("gpu_hours", Value::Ratio(115.0 / 3600.0)),
        ],
    );
    // The summary adds up: chat, which arrived before, is not counted among the completed jobs.
    assert!(text(&of(15)).contains("jobs       1 of 2, after the warm-up of 15s: 1 completed\n"), "{}", text(&of(15)));
    let after_both_came = Metrics::of(&accounts(&of(100), None));
    held(
        &after_both_came,
        &[
            ("jobs_submitted", Value::Count(0)),
            ("queue_wait_mean_seconds", Value::Undefined),
            ("gpu_hours", Value::Ratio(30.0 / 3600.0)),
        ],
    );
    // At the very end there is nothing left to measure.
    let after_all = Metrics::of(&accounts(&of(130), None));
    held(&after_all, &[("jobs_submitted", Value::Count(0)), ("gpu_allocated", Value::Undefined)]);
}

fn the_page_of_metrics_defines_each() {
    const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/metrics.md"));
    let rows: String = (METRICS.iter())
        .map(|known| {
            let name = known.short_name();
            format!("| `{name}` | {} | {} | {} |\n", known.counts_in, known.meaning, known.source)
        })
        .collect();
    assert!(PAGE.contains(&rows), "the table of docs/src/metrics.md is to be:\n{rows}");
    for (_, name, meaning) in Series::ALL {
        assert!(PAGE.contains(&format!("| `{name}` | {meaning} |")), "{name}");
    }
}

/// The data that a report shows: the accounts, and the time and place of each placement.
fn shown(rehearsal: &Rehearsal) -> (RunAccount, Spans) {
    let (mut accounts, mut spans) = (RunAccount::of(rehearsal), Spans::default());
    let ended = run(rehearsal, RunOptions::default(), &mut [&mut accounts, &mut spans]);
    accounts.finish(ended.at);
    (accounts, spans)
}

/// Times in microseconds of chat and late, which follow each other on the one GPU: process 2, and its first thread
/// after it.
fn a_timeline_is_a_trace_of_what_ran_where() {
    let (accounts, spans) = shown(&rehearsal(60));
    let mut trace = Vec::new();
    write_perfetto(&mut trace, &accounts, &spans).expect("a Vec takes everything");
    let trace: serde_json::Value = serde_json::from_slice(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).cloned().collect::<Vec<_>>();
    let slices: Vec<_> = of("X")
        .iter()
        .map(|event| json!([event["name"], event["pid"], event["tid"], event["ts"], event["dur"]]))
        .collect();
    assert_eq!(slices, [json!(["chat", 2, 3, 10_000_000, 60_000_000]), json!(["late", 2, 3, 70_000_000, 60_000_000])]);
    let names: Vec<_> = of("M")
        .iter()
        .filter(|event| event["name"] != "thread_sort_index")
        .map(|event| json!([event["name"], event["pid"], event["tid"], event["args"]["name"]]))
        .collect();
    assert_eq!(
        names,
        [
            json!(["process_name", 1, 1, "cluster"]),
            json!(["process_name", 2, 2, "alpha"]),
            json!(["thread_name", 2, 3, "GPU 0"]),
        ]
    );
    let counted = |name: &str, what: &str| {
        of("C")
            .iter()
            .filter(|event| event["name"] == name)
            .map(|event| json!([event["ts"], event["args"][what]]))
            .collect::<Vec<_>>()
    };
    // late waits from 20 s to 70 s; the GPU is taken from 10 s to 130 s.
    let waiting = [
        json!([0, 0]),
        json!([10_000_000, 0]),
        json!([20_000_000, 1]),
        json!([70_000_000, 0]),
        json!([130_000_000, 0]),
    ];
    assert_eq!(counted("queue", "waiting"), waiting);
    let taken = [
        json!([0, 0.0]),
        json!([10_000_000, 1.0]),
        json!([20_000_000, 1.0]),
        json!([70_000_000, 1.0]),
        json!([130_000_000, 0.0]),
    ];
    assert_eq!(counted("allocated GPUs", "GPUs"), taken);
}

/// Properties that the Trace Event Format requires and readers rely on, in many random worlds: whole times, names for
/// all processes and threads, one process for each thread, and consecutive slices in a thread.
fn a_timeline_is_what_readers_of_traces_ask() {
    let load = |name| load_profile(name, Path::new("")).unwrap_or_else(|faults| panic!("{faults}"));
    let profiles: Vec<Arc<Profile>> = profile_names().map(load).collect();
    let (mut slices, mut beside) = (0, 0);
    for seed in 1..=40 {
        let (accounts, spans) = shown(&draw_world(seed, &profiles));
        let mut trace = Vec::new();
        write_perfetto(&mut trace, &accounts, &spans).expect("a Vec takes everything");
        let trace: serde_json::Value = serde_json::from_slice(&trace).expect("JSON");
        let (mut processes, mut threads, mut ends) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        for event in trace["traceEvents"].as_array().expect("a list") {
            let number = |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("seed {seed}: {key} of {event}"));
            let process = number("pid");
            assert!(process > 0, "seed {seed}: {event}");
            match (event["ph"].as_str(), event["name"].as_str()) {
                (Some("M"), Some("process_name")) => assert!(processes.insert(process), "seed {seed}: {event}"),
                (Some("M"), Some("thread_name")) => {
                    beside += u64::from(event["args"]["name"].as_str().is_some_and(|name| name.ends_with("at a time")));
                    assert_eq!(threads.insert(number("tid"), process), None, "seed {seed}: {event}");
                }
                (Some("M"), Some("thread_sort_index")) => assert!(number("tid") > 0),
                (Some("X"), Some(_)) => {
                    let thread = number("tid");
                    assert_eq!(threads.get(&thread), Some(&process), "seed {seed}: {event} on a thread without a name");
                    let from = number("ts");
                    let before = ends.insert(thread, from + number("dur")).unwrap_or(0);
                    assert!(before <= from, "seed {seed}: {event} begins before {before}, when another ends");
                    slices += 1;
                }
                (Some("C"), Some(_)) => {
                    number("ts");
                    let values = event["args"].as_object().expect("what is counted");
                    assert!(values.values().all(serde_json::Value::is_number), "seed {seed}: {event}");
                }
                _ => panic!("seed {seed}: {event}"),
            }
            assert!(processes.contains(&process), "seed {seed}: {event} of a process without a name");
        }
    }
    assert!(slices > 200 && beside > 0, "{slices} slices, {beside} threads beside others");
}

fn the_files_of_a_report_are_what_arithmetic_on_paper_gives_and_the_same_twice() {
    let rehearsal = rehearsal(60);
    let (accounts, spans) = shown(&rehearsal);
    let metrics = Metrics::of(&accounts);
    let trace = Vec::new();
    let report = RunReport {
        assumed: &[],
        starts_at: None,
        rehearsal: &rehearsal,
        accounts: &accounts,
        metrics: &metrics,
        spans: &spans,
        verdicts: &[],
        trace: &trace,
        digest: "0123",
        command: "dryrack run two.yaml",
    };
    assert_eq!(
        report.answer(),
        "2 of 2 jobs completed within 2m10s, 95% of the placed replicas waited 50s or less, 92.3% of the ready GPU \
         time was allocated; it had no expectations."
    );
    let files = report.files();
    assert_eq!(files, report.files());
    let text = |wanted: &str| {
        let (_, bytes) = files.iter().find(|(name, _)| *name == wanted).expect("it is there");
        String::from_utf8(bytes.clone()).expect("text")
    };
    assert_eq!(text("waits.csv"), "queue,wait,replicas,no_longer,of\ndefault,0,1,1,2\ndefault,50,1,2,2\n");
    // Pieces of 0.65 s: chat arrives in the sixteenth, at 10 s, 0.4 s before its end.
    let series = text("series.csv");
    let rows: Vec<&str> = series.lines().collect();
    assert_eq!(rows.len(), 201);
    assert_eq!(rows[16], "9.75,10.4,0,0,1,0.615,,0.615");
    assert_eq!(rows[200], "129.35,130,0,0,1,1,,1");
    let stays = "run,wanted,placed,started,freed,places,outcome,reason,history
chat,10,10,10,70,alpha/0,completed,completed,\"chat: asked for at 10s, placed at once; on alpha/0; ran from 10s for 1m00s; completed\"
late,20,70,70,130,alpha/0,completed,completed,\"late: asked for at 20s, waited 50s (1 insufficient_gpus); on alpha/0; ran from 1m10s for 1m00s; completed\"
";
    assert_eq!(text("spans.csv"), stays);
    let json: serde_json::Value = serde_json::from_str(&text("report.json")).expect("JSON");
    assert_eq!(json["wait_quantiles_seconds"]["default"]["p50"], json!(0.0));
    assert_eq!(json["wait_quantiles_seconds"]["default"]["p95"], json!(50.0));
    assert_eq!(json["waited_seconds_by_reason"], json!({"insufficient_gpus": 50.0}));
    let html = text("report.html");
    assert!(!html.replace("http://www.w3.org/2000/svg", "").contains("://"), "it names no address");
    for told in ["queue_wait_p95", "dryrack run two.yaml", "0123", "Assumptions", "Two jobs want one GPU"] {
        assert!(html.contains(told), "{told}");
    }
}

/// Cut at 100 s: chat has completed, and late still runs. The last event is at 70 s, and the GPU was taken for 60 s of that.
fn a_report_begins_with_what_failed() {
    let rehearsal = Rehearsal { until: Some(SimTime::from_secs(100)), ..rehearsal(60) };
    let (accounts, spans) = shown(&rehearsal);
    let metrics = Metrics::of(&accounts);
    let verdict = |(number, passed): (usize, bool)| Verdict {
        name: format!("e{number}").into(),
        passed,
        expected: "so".to_string(),
        happened: "otherwise".to_string(),
        turned_on: None,
    };
    let with = |passed: &[bool]| {
        let verdicts: Vec<Verdict> = passed.iter().copied().enumerate().map(verdict).collect();
        let report = RunReport {
            assumed: &[],
            starts_at: None,
            rehearsal: &rehearsal,
            accounts: &accounts,
            metrics: &metrics,
            spans: &spans,
            verdicts: &verdicts,
            trace: &[],
            digest: "0123",
            command: "dryrack run two.yaml",
        };
        let (_, page) = report.files().into_iter().find(|(name, _)| *name == "report.html").expect("it is there");
        (report.answer(), String::from_utf8(page).expect("text"))
    };
    let run = "1 of 2 jobs completed within 1m10s, 1 still runs, 95% of the placed replicas waited 50s or less, 85.7% of the ready \
               GPU time was allocated";
    assert_eq!(with(&[true, true]).0, format!("{run}; both expectations hold."));
    let (answer, page) = with(&[true, false, false, false, false]);
    assert_eq!(answer, format!("4 of 5 expectations failed: e1, e2, e3 and 1 more. {run}."));
    let (fails, holds) = (page.find("✗ fails").expect("a mark"), page.find("✓ holds").expect("a mark"));
    assert!(fails < holds && page.contains("4 failed, 1 holds"), "those that failed are at the top");
    // With many that hold, only those that failed are shown at once.
    let (_, page) = with(&[&[false][..], &[true; 20]].concat());
    assert!(page.contains("<summary>20 expectations hold</summary>"), "folded");
}

fn tables_are_what_arithmetic_on_paper_gives() {
    let accounts = accounts(&rehearsal(60), None);
    let mut jobs = Vec::new();
    write_jobs_csv(&mut jobs, &accounts, |_| Some(SimDuration::from_millis(1500))).expect("a Vec takes everything");
    let wanted = "job,task,submit,start,end,nodes,gpus,outcome,reason,attempt,queue,recorded_wait,placed
chat,0,10,10,70,alpha,alpha/0,completed,completed,1,default,1.5,10
late,0,20,70,130,alpha,alpha/0,completed,completed,1,default,1.5,70
";
    assert_eq!(String::from_utf8(jobs).expect("text"), wanted);
    let mut nodes = Vec::new();
    write_nodes_csv(&mut nodes, &accounts).expect("a Vec takes everything");
    let wanted = "node,machine,state,gpus,ready_seconds,gpu_seconds,cpu_seconds,runs
alpha,,ready,1,130,120,120,2
";
    assert_eq!(String::from_utf8(nodes).expect("text"), wanted);
}

fn a_summary_of_a_small_fleet_shows_each_gpu() {
    // Records: a declaration, two submissions, two times each placed, started and running, a hold, an exit, two ends:
    // 13.
    // Cut at 100 s: late has run for half of its time. 60 columns for 100 s: chat from column 6 up to 42, late from
    // there.
    let rehearsal = Rehearsal { until: Some(SimTime::from_secs(100)), ..rehearsal(60) };
    let wanted = "Two jobs want one GPU
profile first-fit, seed 7, 1m40s simulated, 13 records, digest 0123456789ab

jobs       2 = 1 completed + 1 still running
waited     25s on average, half 0s or less, 95% 50s or less, at most 50s
because    100% insufficient_gpus
allocated  of ready time: 90.0% of 1 GPU, 11.2% of 8 cores on 1 node, makespan 1m00s

alpha/0   ······chat━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━late━━━━━━━━━━━━━━
          0s                                                     1m40s
";
    let said = text(&rehearsal);
    assert_eq!(said, wanted, "\n{said}");
}

fn a_summary_of_a_large_fleet_shows_how_full_it_was() {
    // Twenty nodes, with a job for each of them in the first third of the time, and a single job after that.
    let nodes = (0..20).map(|index| node(&format!("node-{index:02}"))).collect();
    let mut arrivals: Vec<_> = (0..20).map(|index| arrival(&format!("first-{index:02}"), 0, 60)).collect();
    arrivals.push(arrival("last", 0, 120));
    let said = text(&Rehearsal { nodes, arrivals, ..rehearsal(60) });
    let lines: Vec<&str> = said.lines().collect();
    let (gpus, waiting) = (lines[lines.len() - 3], lines[lines.len() - 2]);
    // Full for 60 of 180 seconds, which is 20 of 60 columns; then one of twenty, which is 1/8 rounded up.
    assert_eq!(gpus, format!("GPUs              {}{}  peak 100%", "█".repeat(20), "▁".repeat(40)), "\n{said}");
    assert_eq!(waiting, format!("waiting           {}{}  peak 1", "█".repeat(20), " ".repeat(40)), "\n{said}");
    // Full for the first of 601 seconds, in which one replica waits. The peaks are those of an instant, and the bars are
    // means over ten seconds: of 2.9 GPUs, which is 2/8 rounded up, and of a tenth of a replica.
    let nodes = (0..20).map(|index| node(&format!("node-{index:02}"))).collect();
    let mut arrivals: Vec<_> = (0..20).map(|index| arrival(&format!("first-{index:02}"), 0, 1)).collect();
    arrivals.push(arrival("last", 0, 600));
    let said = text(&Rehearsal { nodes, arrivals, ..rehearsal(60) });
    assert!(said.contains(&format!("GPUs              ▂{}  peak 100%\n", "▁".repeat(59))), "{said}");
    assert!(said.contains(&format!("waiting           ▁{}  peak 1\n", " ".repeat(59))), "{said}");
}

fn a_run_of_nothing_has_metrics_too() {
    let rehearsal = Rehearsal { nodes: Vec::new(), arrivals: Vec::new(), ..rehearsal(60) };
    let metrics = Metrics::of(&accounts(&rehearsal, None));
    assert_eq!(metrics.get("jobs_submitted"), Some(Value::Count(0)));
    for undefined in ["queue_wait_mean_seconds", "bounded_slowdown_mean", "makespan_seconds", "gpu_allocated"] {
        assert_eq!(metrics.get(undefined), Some(Value::Undefined), "{undefined}");
    }
    assert!(text(&rehearsal).contains("jobs       none\n"));
}
