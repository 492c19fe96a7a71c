//! The cluster log of HeliosArtifact (bdaae10, "framework/QSSF Service"), and its list of virtual clusters.
//!
//! The log has the columns user, vc, jobname, gpu_num, state, submit_time (a date) and duration (seconds), in any
//! order. Job names are not unique, so a task is named after its line. The list of virtual clusters has the columns vc
//! and `node num`. Each node has 8 GPUs.
//!
//! This module also reads the table of Microsoft's Philly trace from the Pollux artifact (petuum/adaptdl, c793c70). Its
//! columns are timestamp, duration, num_gpus, gpu_time and cluster. The reader checks that gpu_time is duration times
//! num_gpus.

use std::io::BufRead;
use std::path::Path;

use dryrack_planted::planted;
use dryrack_units::{Bytes, MilliCpu, SimDuration};

use super::decimal::NotDecimal;
use super::error::TraceError;
use super::row::{NodeTrace, Outcome, TaskTrace, TraceNode, TraceTask};
use super::rows::{RowResult, TableRows, collect};
use super::table::{Table, gather};
use super::text::{Lines, Span, open_lines};

const LOG_COLUMNS: [&str; 7] = ["user", "vc", "jobname", "gpu_num", "state", "submit_time", "duration"];
const CLUSTER_COLUMNS: [&str; 2] = ["vc", "node num"];
const PHILLY_COLUMNS: [&str; 5] = ["timestamp", "duration", "num_gpus", "gpu_time", "cluster"];

/// The number of GPUs in each node. The artifact's program uses this number for every node.
const GPUS_PER_NODE: u32 = 8;

/// Reads a whole cluster log, plain or gzip. Reports all faults together.
pub fn read_tasks(path: &Path) -> Result<TaskTrace, TraceError> {
    read_tasks_from(path, open_lines(path)?)
}

pub fn read_tasks_from(file: &Path, input: impl BufRead) -> Result<TaskTrace, TraceError> {
    collect(file, log_rows(file, input)?)
}

pub(super) fn log_rows<R: BufRead>(file: &Path, input: R) -> Result<TableRows<R, { LOG_COLUMNS.len() }>, TraceError> {
    TableRows::new(file, input, LOG_COLUMNS, log_row)
}

/// Reads a whole Philly table of the Pollux artifact, plain or gzip. Reports all faults together.
pub fn read_philly(path: &Path) -> Result<TaskTrace, TraceError> {
    read_philly_from(path, open_lines(path)?)
}

pub fn read_philly_from(file: &Path, input: impl BufRead) -> Result<TaskTrace, TraceError> {
    collect(file, philly_rows(file, input)?)
}

pub(super) fn philly_rows<R: BufRead>(
    file: &Path,
    input: R,
) -> Result<TableRows<R, { PHILLY_COLUMNS.len() }>, TraceError> {
    TableRows::new(file, input, PHILLY_COLUMNS, philly_row)
}

pub fn read_nodes_from(file: &Path, input: impl BufRead) -> Result<NodeTrace, TraceError> {
    let mut table = Table::new(file, input, CLUSTER_COLUMNS)?;
    let rows = std::iter::from_fn(|| match table.advance() {
        Ok(true) => Some(cluster(&table.lines, &table.fields)),
        Ok(false) => None,
        Err(fault) => Some(Err(fault)),
    });
    let nodes = gather(file, rows)?.into_iter().flatten().collect();
    Ok(NodeTrace { nodes })
}

/// The largest accepted number of nodes in a virtual cluster. Real clusters are smaller.
const MOST_NODES: u32 = 100_000;

fn cluster<R: BufRead>(lines: &Lines<R>, [vc, count]: &[Span; 2]) -> Result<Vec<TraceNode>, TraceError> {
    let vc = lines.text(vc, "the name of a virtual cluster")?;
    let expected = "a number of nodes up to 100,000";
    let number: u32 = lines.whole(count, expected)?;
    if number > MOST_NODES {
        return Err(lines.wrong(count, expected, NotDecimal::TooLarge));
    }
    let node = |index| TraceNode {
        name: format!("{vc}-{index}"),
        cpu: MilliCpu::ZERO,
        ram: Bytes::ZERO,
        gpus: GPUS_PER_NODE,
        gpu_model: None,
        virtual_cluster: Some(vc.to_string()),
        switch: None,
    };
    Ok((0..number).map(node).collect())
}

fn log_row<R: BufRead>(lines: &Lines<R>, fields: &[Span; 7]) -> Result<RowResult, TraceError> {
    let [_, vc, _, gpus, state, submit, duration] = fields;
    let outcome = match state.of(lines.bytes()) {
        b"Pass" => Outcome::Completed,
        b"Killed" if planted!(KilledIsCompleted) => Outcome::Completed,
        b"Killed" => Outcome::Cancelled,
        b"Failed" => Outcome::Failed,
        _ => return Err(lines.wrong(state, "Pass, Killed or Failed", NotDecimal::Malformed)),
    };
    let task = task(lines, [submit, duration, gpus, vc])?;
    Ok(Ok(TraceTask { outcome: Some(outcome), ..task }))
}

fn philly_row<R: BufRead>(lines: &Lines<R>, fields: &[Span; 5]) -> Result<RowResult, TraceError> {
    let [submit, duration, gpus, product, vc] = fields;
    let task = task(lines, [submit, duration, gpus, vc])?;
    let expected = "the duration times the number of GPUs";
    let found = lines.decimal(product, expected)?.as_billionths();
    let wanted = task.run.as_nanos().checked_mul(u64::from(task.gpus.unwrap_or(0)));
    if found.is_none() || found != wanted {
        return Err(lines.wrong(product, expected, NotDecimal::Malformed));
    }
    Ok(Ok(task))
}

fn task<R: BufRead>(lines: &Lines<R>, [submit, run, gpus, vc]: [&Span; 4]) -> Result<TraceTask, TraceError> {
    let expected = "a date such as 2017-10-09 07:01:55";
    let at = dryrack_units::date::parse(lines.text(submit, expected)?);
    let at = at.ok_or_else(|| lines.wrong(submit, expected, NotDecimal::Malformed))?;
    let expected = "a duration in seconds";
    let length = lines.decimal(run, expected)?.as_billionths();
    let length = length.ok_or_else(|| lines.wrong(run, expected, NotDecimal::Malformed))?;
    let number: u32 = lines.whole(gpus, "a number of GPUs")?;
    let task = TraceTask::new(called(lines.number()), lines.number(), at, SimDuration::from_nanos(length));
    let vc = lines.text(vc, "the name of a virtual cluster")?.to_string();
    Ok(TraceTask { gpus: Some(number), virtual_cluster: Some(vc), ..task })
}

/// The name of a task, such as `line-7`. It is built without `format!`, which would take ten times as long, because
/// there is one for each row.
fn called(line: u64) -> String {
    let (mut digits, mut first, mut left) = ([b'0'; 20], 19, line);
    while left >= 10 {
        digits[first] += (left % 10) as u8;
        (left, first) = (left / 10, first - 1);
    }
    digits[first] += left as u8;
    let digits = std::str::from_utf8(&digits[first..]).expect("digits are text");
    ["line-", digits].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Oddity;
    use dryrack_units::SimTime;

    #[test]
    fn a_line_of_the_log_is_a_task_of_its_virtual_cluster() {
        let text = "user,vc,jobname,gpu_num,state,submit_time,duration\n\
                    u,7f04ca,j,8,Pass,2017-10-01 00:00:45,100\n\
                    u,7f04ca,j,1,Killed,2017-10-01 00:00:00,2\n";
        let trace = read_tasks_from(Path::new("log.csv"), text.as_bytes()).unwrap();
        let seen: Vec<_> = trace.tasks.iter().map(|task| (task.name.as_str(), task.gpus, task.outcome)).collect();
        let wanted = [("line-3", Some(1), Some(Outcome::Cancelled)), ("line-2", Some(8), Some(Outcome::Completed))];
        assert_eq!(seen, wanted);
        assert_eq!(trace.tasks[1].submit, SimTime::from_secs(1_506_816_045));
        assert_eq!(trace.tasks[1].virtual_cluster.as_deref(), Some("7f04ca"));
        assert_eq!(trace.tally.count(Oddity::OutOfOrder), 1);
    }

    #[test]
    fn a_task_is_called_by_its_line() {
        for line in [0, 9, 10, 99, 100, 68_503, u64::MAX] {
            assert_eq!(called(line), format!("line-{line}"));
        }
    }

    #[test]
    fn what_is_wrong_in_a_line_is_pointed_at() {
        let rows = [
            (
                "u,v,j,8,Pass,2017-10-32 00:00:45,1",
                "log.csv:2:14: expected a date such as 2017-10-09 07:01:55, found `2017-10-32 00:00:45`",
            ),
            ("u,v,j,8,Lost,2017-10-02 00:00:45,1", "log.csv:2:9: expected Pass, Killed or Failed, found `Lost`"),
            ("u,v,j,8,Pass,2017-10-02 00:00:45,-1", "log.csv:2:34: expected a duration in seconds, found `-1`"),
        ];
        for (row, expected) in rows {
            let text = format!("user,vc,jobname,gpu_num,state,submit_time,duration\n{row}\n");
            let message = read_tasks_from(Path::new("log.csv"), text.as_bytes()).map_err(|fault| fault.to_string());
            assert_eq!(message.map(|_| ()), Err(expected.to_string()));
        }
        let text = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,2,66.0,11cb48\n";
        let message = read_philly_from(Path::new("p.csv"), text.as_bytes()).map_err(|fault| fault.to_string());
        let expected = "p.csv:2:28: expected the duration times the number of GPUs, found `66.0`";
        assert_eq!(message.map(|_| ()), Err(expected.to_string()));
    }

    #[test]
    fn a_virtual_cluster_is_so_many_nodes_of_eight() {
        let nodes = read_nodes_from(Path::new("vc.csv"), &b"vc,node num\na,2\nb,1\n"[..]).unwrap().nodes;
        let seen: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.gpus)).collect();
        assert_eq!(seen, [("a-0", 8), ("a-1", 8), ("b-0", 8)]);
    }
}
