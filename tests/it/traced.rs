//! Scenarios on traces that are not in the repository: each needs the folder that `DRYRACK_DATA` names.

use std::path::Path;

use dryrack_scenario::{Loaded, Options, load_text};
use dryrack_trace::{Oddity, Roots};
use dryrack_workload::GpuTake;

fn openb(data: &Path, choice: &str) -> Loaded {
    let text = format!("scenario: openb\ntrace: {choice}\nexpect: [{{name: all, count: submitted, is: 8152}}]\n");
    let roots = Roots { data: Some(data.to_path_buf()), ..Roots::default() };
    let options = Options { roots, ..Options::default() };
    load_text("openb.yaml", &text, Path::new(""), &options).unwrap_or_else(|faults| panic!("{faults}"))
}

type Test = fn(&Path) -> Result<(), String>;

/// All tests on traced scenarios: names and functions.
pub const ALL: [(&str, Test); 1] =
    [("a_scenario_on_openb_has_its_pods_and_nodes", a_scenario_on_openb_has_its_pods_and_nodes)];

/// The counts are those of the trace's own README: 1,523 nodes of which 1,213 have GPUs, 6,212 GPUs, 8,152 tasks of
/// which 7,064 ask for GPUs.
fn a_scenario_on_openb_has_its_pods_and_nodes(data: &Path) -> Result<(), String> {
    let loaded = openb(data, "{name: openb, list: default}");
    let rehearsal = &loaded.rehearsal;
    assert_eq!((rehearsal.nodes.len(), rehearsal.arrivals.len()), (1_523, 8_152));
    let gpus: usize = rehearsal.nodes.iter().map(|node| node.spec.shape.gpus.len()).sum();
    assert_eq!(gpus, 6_212);
    let asking = rehearsal.arrivals.iter().filter_map(|arrival| arrival.spec.demand.gpus());
    assert_eq!(asking.clone().count(), 7_064);
    assert!(asking.clone().all(|gpus| gpus.count == 1 || gpus.take == GpuTake::Whole));
    let used = loaded.trace.as_ref().expect("it uses one");
    assert_eq!((used.nodes, used.tasks, used.tally.count(Oddity::NeverScheduled)), (1_523, 8_152, 897));
    let with_gpus = openb(data, "{name: openb, nodes: gpu}");
    assert_eq!(with_gpus.rehearsal.nodes.len(), 1_213);
    Ok(())
}
