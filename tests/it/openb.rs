//! The openb lists as a whole. They are not in the repository, but in the folder `data`, which contains `traces/openb`.
//!
//! Expected values were counted in the published CSV files with other tools.

use std::path::Path;

use dryrack_trace::{Index, Oddity, Outcome, Roots, RunBasis, load_nodes, load_tasks, verify};
use dryrack_units::{GpuShare, MilliCpu, SimDuration, SimTime};

fn roots(data: &Path) -> Roots {
    Roots { data: Some(data.to_path_buf()), ..Roots::default() }
}

/// A test on the folder of data; `Err` describes the fault.
pub type Test = fn(&Path) -> Result<(), String>;

/// All openb tests: names and functions.
pub const ALL: [(&str, Test); 5] = [
    ("openb_files_are_those_of_the_index", openb_files_are_those_of_the_index),
    ("openb_default_list_has_its_published_counts", openb_default_list_has_its_published_counts),
    ("openb_nodes_have_their_published_counts", openb_nodes_have_their_published_counts),
    ("openb_lists_have_their_lengths_and_oddities", openb_lists_have_their_lengths_and_oddities),
    ("openb_rows_read_as_written", openb_rows_read_as_written),
];

pub fn openb_files_are_those_of_the_index(data: &Path) -> Result<(), String> {
    let checked = verify(&Index::built_in(), &roots(data), "openb").map_err(|fault| fault.to_string())?;
    if checked.all_right() { Ok(()) } else { Err(checked.to_string()) }
}

pub fn openb_default_list_has_its_published_counts(data: &Path) -> Result<(), String> {
    let trace = load_tasks(&Index::built_in(), &roots(data), "openb", None).map_err(|fault| fault.to_string())?;
    let count = |holds: &dyn Fn(&dryrack_trace::TraceTask) -> bool| trace.tasks.iter().filter(|t| holds(t)).count();
    same("tasks", trace.tasks.len(), 8_152)?;
    same("tasks with GPUs", count(&|task| task.gpus.is_some_and(|gpus| gpus > 0)), 7_064)?;
    same("tasks with 8 GPUs", count(&|task| task.gpus == Some(8)), 44)?;
    let shared = |share: GpuShare| share < GpuShare::WHOLE;
    same(
        "tasks with a part of a GPU",
        count(&|task| task.gpu_share.is_some_and(shared)),
        7_064 - 3_911 - 44 - 16 - 15,
    )?;
    same("tasks never scheduled", count(&|task| task.run_basis == RunBasis::WholeStay), 897)?;
    same("pending tasks", count(&|task| task.outcome == Some(Outcome::Pending)), 897)?;
    // One task that was never scheduled was deleted in the second of its creation.
    let odd = vec![(Oddity::ZeroRun, 1), (Oddity::NeverScheduled, 897)];
    same("oddities", trace.tally.iter().collect::<Vec<_>>(), odd)
}

pub fn openb_nodes_have_their_published_counts(data: &Path) -> Result<(), String> {
    let index = Index::built_in();
    for (list, nodes, cpu) in [("all_node", 1_523, 125_514_000), ("gpu_node", 1_213, 107_018_000)] {
        let trace = load_nodes(&index, &roots(data), "openb", Some(list)).map_err(|fault| fault.to_string())?;
        same(list, trace.nodes.len(), nodes)?;
        same("GPU nodes", trace.nodes.iter().filter(|node| node.gpus > 0).count(), 1_213)?;
        same("GPUs", trace.nodes.iter().map(|node| node.gpus).sum::<u32>(), 6_212)?;
        same("CPU", trace.nodes.iter().map(|node| node.cpu).sum::<MilliCpu>(), MilliCpu::new(cpu))?;
        let named = |model| trace.nodes.iter().filter(|node| node.gpu_model.as_deref() == model).count();
        same("G2 nodes", named(Some("G2")), 549)?;
        same("nodes of no model", named(None), nodes - 1_213)?;
    }
    Ok(())
}

pub fn openb_lists_have_their_lengths_and_oddities(data: &Path) -> Result<(), String> {
    let rows = [
        ("cpu037", 7_336, 870, 143),
        ("cpu050", 7_439, 878, 191),
        ("cpu072", 7_608, 884, 275),
        ("cpu100", 7_853, 883, 406),
        ("cpu200", 8_832, 927, 868),
        ("cpu235", 9_240, 933, 2),
        ("cpu250", 9_420, 934, 1_169),
        ("cpu300", 10_094, 955, 1_516),
    ];
    for (list, tasks, unscheduled, out_of_order) in rows {
        let trace = load_tasks(&Index::built_in(), &roots(data), "openb", Some(list)).map_err(|f| f.to_string())?;
        let odd: Vec<(Oddity, u64)> = trace.tally.iter().collect();
        same(list, trace.tasks.len(), tasks)?;
        same(
            list,
            odd,
            vec![(Oddity::ZeroRun, 1), (Oddity::OutOfOrder, out_of_order), (Oddity::NeverScheduled, unscheduled)],
        )?;
        same(list, trace.tasks.is_sorted_by_key(|task| task.submit), true)?;
    }
    Ok(())
}

/// Checks `openb-pod-0001,6000,12288,1,460,,LS,Running,427061,12902960,427061`.
pub fn openb_rows_read_as_written(data: &Path) -> Result<(), String> {
    let trace = load_tasks(&Index::built_in(), &roots(data), "openb", None).map_err(|fault| fault.to_string())?;
    let task = trace.tasks.iter().find(|task| task.name == "openb-pod-0001").ok_or("no openb-pod-0001")?;
    same("submit", task.submit, SimTime::from_secs(427_061))?;
    same("run", task.run, SimDuration::from_secs(12_902_960 - 427_061))?;
    same("share", task.gpu_share, Some(GpuShare::new(460)))?;
    same("wait", task.recorded_wait, Some(SimDuration::ZERO))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}")) }
}
