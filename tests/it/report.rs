//! What a run amounted to, against arithmetic on paper.

use dryrack::engine::{Rehearsal, RunOptions, run};
use dryrack::report::{Heading, Metrics, RunAccount, Value, summary, write_jobs_csv, write_nodes_csv};
use dryrack::units::{SimDuration, SimTime};

use crate::small_world::{arrival, node, rehearsal};

fn accounts(rehearsal: &Rehearsal, end: Option<SimTime>) -> RunAccount {
    let mut accounts = RunAccount::default();
    let ended = run(rehearsal, RunOptions::default(), &mut [&mut accounts]);
    accounts.finish(end.unwrap_or(ended.at));
    accounts
}

fn text(rehearsal: &Rehearsal) -> String {
    let accounts = accounts(rehearsal, rehearsal.until);
    let heading = Heading {
        title: &rehearsal.title,
        profile: "first-fit",
        seed: 7,
        digest: "0123456789abcdef",
        trace: Vec::new(),
    };
    let text = summary(&heading, &accounts, &Metrics::of(&accounts), &[]);
    anstream::adapter::strip_str(&text).to_string()
}

/// chat: submitted at 10 s, runs at once until 70 s. late: submitted at 20 s, runs from 70 s to 130 s.
pub fn metrics_are_what_arithmetic_on_paper_gives() {
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
        // 60 s over 60 s, and 110 s over 60 s.
        ("bounded_slowdown_mean", Value::Ratio((1.0 + 110.0 / 60.0) / 2.0)),
        ("makespan_seconds", seconds(120)),
        // The GPU was taken from 10 s to 130 s; of 8 cores one.
        ("gpu_allocated", Value::Ratio(120.0 / 130.0)),
        ("cpu_allocated", Value::Ratio(120.0 / 1040.0)),
        ("retries", Value::Count(0)),
    ];
    for (name, value) in rows {
        assert_eq!(metrics.get(name), Some(value), "{name}");
    }
    assert_eq!(metrics.get("queue_wait"), None);
}

pub fn tables_are_what_arithmetic_on_paper_gives() {
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

pub fn a_summary_of_a_small_fleet_shows_each_gpu() {
    // Records: a declaration, two submissions, two times placed, started and running, a hold, an exit, two ends: 13.
    // Cut at 100 s: late has run for half of its time. 60 columns of 100 s: chat from column 6 up to 42, late from there.
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

pub fn a_summary_of_a_large_fleet_shows_how_full_it_was() {
    // Twenty nodes, a job for each of them for the first half of the time and for none in the second.
    let nodes = (0..20).map(|index| node(&format!("node-{index:02}"))).collect();
    let mut arrivals: Vec<_> = (0..20).map(|index| arrival(&format!("first-{index:02}"), 0, 60)).collect();
    arrivals.push(arrival("last", 0, 120));
    let said = text(&Rehearsal { nodes, arrivals, ..rehearsal(60) });
    let lines: Vec<&str> = said.lines().collect();
    let (gpus, waiting) = (lines[lines.len() - 3], lines[lines.len() - 2]);
    // Full for 60 of 180 seconds, that is for 20 of 60 columns; then one of twenty is 1/8 rounded up.
    assert_eq!(gpus, format!("GPUs              {}{}  peak 100%", "█".repeat(20), "▁".repeat(40)), "\n{said}");
    assert_eq!(waiting, format!("waiting           {}{}  peak 1", "█".repeat(20), " ".repeat(40)), "\n{said}");
}

pub fn a_run_of_nothing_has_metrics_too() {
    let rehearsal = Rehearsal { nodes: Vec::new(), arrivals: Vec::new(), ..rehearsal(60) };
    let metrics = Metrics::of(&accounts(&rehearsal, None));
    assert_eq!(metrics.get("jobs_submitted"), Some(Value::Count(0)));
    for undefined in ["queue_wait_mean_seconds", "bounded_slowdown_mean", "makespan_seconds", "gpu_allocated"] {
        assert_eq!(metrics.get(undefined), Some(Value::Undefined), "{undefined}");
    }
    assert!(text(&rehearsal).contains("jobs       none\n"));
}
