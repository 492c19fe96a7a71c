//! The job lists and cluster descriptions of the Tiresias simulator (SymbioticLab/Tiresias, 959f9b0).
//!
//! A job has job_id, num_gpu, submit_time and duration (seconds). It also has iterations, model_name and interval,
//! which describe the training and are not used here. A cluster is one line with num_switch, num_node_p_switch,
//! num_gpu_p_node, num_cpu_p_node and mem_p_node (GB, read as GiB).

use std::io::BufRead;
use std::path::Path;

use dryrack_units::{Bytes, MilliCpu, SimDuration, SimTime};

use super::decimal::NotDecimal;
use super::error::TraceError;
use super::row::{NodeTrace, TaskTrace, TraceNode, TraceTask};
use super::rows::{RowResult, TableRows, collect};
use super::table::Table;
use super::text::{Lines, Span, open_lines};

const JOB_COLUMNS: [&str; 7] = ["job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval"];
const CLUSTER_COLUMNS: [&str; 5] =
    ["num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node"];

/// The largest accepted number of nodes. Real clusters are smaller.
const MOST_NODES: u64 = 1_000_000;

/// Reads a whole list of jobs, plain or gzip. Reports all faults together.
pub fn read_tasks(path: &Path) -> Result<TaskTrace, TraceError> {
    read_tasks_from(path, open_lines(path)?)
}

pub fn read_tasks_from(file: &Path, input: impl BufRead) -> Result<TaskTrace, TraceError> {
    collect(file, job_rows(file, input)?)
}

pub(super) fn job_rows<R: BufRead>(file: &Path, input: R) -> Result<TableRows<R, { JOB_COLUMNS.len() }>, TraceError> {
    TableRows::new(file, input, JOB_COLUMNS, job)
}

fn job<R: BufRead>(lines: &Lines<R>, fields: &[Span; 7]) -> Result<RowResult, TraceError> {
    let [id, gpus, submit, _, _, duration, _] = fields;
    let id: u64 = lines.whole(id, "the number of a job")?;
    let gpus: u32 = lines.whole(gpus, "a number of GPUs")?;
    let submit: u32 = lines.whole(submit, "a time in seconds")?;
    let run: u32 = lines.whole(duration, "a duration in seconds")?;
    let (at, run) = (SimTime::from_secs(u64::from(submit)), SimDuration::from_secs(u64::from(run)));
    Ok(Ok(TraceTask { gpus: Some(gpus), ..TraceTask::new(id.to_string(), lines.number(), at, run) }))
}

pub fn read_nodes_from(file: &Path, input: impl BufRead) -> Result<NodeTrace, TraceError> {
    let mut table = Table::new(file, input, CLUSTER_COLUMNS)?;
    let mut nodes = Vec::new();
    while table.advance()? {
        if !nodes.is_empty() {
            return Err(table.lines.malformed(0, "one line for the whole cluster", "another"));
        }
        nodes = cluster(&table.lines, &table.fields)?;
    }
    Ok(NodeTrace { nodes })
}

fn cluster<R: BufRead>(lines: &Lines<R>, fields: &[Span; 5]) -> Result<Vec<TraceNode>, TraceError> {
    let [switches, per_switch, gpus, cpus, ram] = fields;
    let expected = "a number of nodes up to a million in all";
    let (number, each): (u32, u32) =
        (lines.whole(switches, "a number of switches")?, lines.whole(per_switch, expected)?);
    if u64::from(number) * u64::from(each) > MOST_NODES {
        return Err(lines.wrong(per_switch, expected, NotDecimal::TooLarge));
    }
    let (gpus, cores): (u32, u32) = (lines.whole(gpus, "a number of GPUs")?, lines.whole(cpus, "a number of CPUs")?);
    let gib: u32 = lines.whole(ram, "memory in GB")?;
    let node = |switch: u32, index: u32| TraceNode {
        name: format!("switch-{switch}-node-{index}"),
        cpu: MilliCpu::from_cores(u64::from(cores)),
        ram: Bytes::new(u64::from(gib) << 30),
        gpus,
        gpu_model: None,
        virtual_cluster: None,
        switch: Some(format!("switch-{switch}")),
    };
    Ok((0..number).flat_map(|switch| (0..each).map(move |index| node(switch, index))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_clusters_are_read_as_written() {
        let text = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n1,8,30,133,vgg11,147,23\n";
        let trace = read_tasks_from(Path::new("jobs.csv"), text.as_bytes()).unwrap();
        let task = &trace.tasks[0];
        assert_eq!((task.name.as_str(), task.gpus, task.submit), ("1", Some(8), SimTime::from_secs(30)));
        assert_eq!(task.run, SimDuration::from_secs(147));
        let text = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,2,4,64,256\n";
        let nodes = read_nodes_from(Path::new("n4g4.csv"), text.as_bytes()).unwrap().nodes;
        assert_eq!(nodes.len(), 4);
        assert_eq!((nodes[3].name.as_str(), nodes[3].switch.as_deref()), ("switch-1-node-1", Some("switch-1")));
        let message = read_nodes_from(Path::new("n.csv"), format!("{text}1,1,1,1,1\n").as_bytes()).unwrap_err();
        assert_eq!(message.to_string(), "n.csv:3:1: expected one line for the whole cluster, found another");
    }
}
