//! The logs of the Helios clusters: `cluster_log.csv` as HeliosData publishes it (106713b, README.md), and as
//! HeliosArtifact uses it (bdaae10, "framework/QSSF Service"), with its list of virtual clusters.
//!
//! Both have the columns user, vc, gpu_num, state, submit_time (a date) and duration (seconds), in any order. The
//! artifact adds jobname; job names are not unique, so a task is named after its line. HeliosData adds job_id, cpu_num,
//! node_num, start_time, end_time and queue, which is how long the job waited, in seconds. It regards `TIMEOUT` and
//! `NODE_FAIL` as failures. The numbers of GPUs and CPUs are those of the whole job. The list of virtual clusters has the
//! columns vc and `node num`. Each node has 8 GPUs.
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
use super::slurm_resources::known;
use super::table::{Table, gather};
use super::tally::{Oddities, Oddity};
use super::text::{Lines, Span, open_lines};

/// The columns of both logs come first.
pub(super) const LOG_COLUMNS: [&str; 13] = [
    "user",
    "vc",
    "gpu_num",
    "state",
    "submit_time",
    "duration",
    "jobname",
    "job_id",
    "cpu_num",
    "node_num",
    "start_time",
    "end_time",
    "queue",
];
pub(super) const LOG_NEEDED: usize = 6;
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
    Ok(TableRows::of(Table::with_at_least(LOG_NEEDED, file, input, LOG_COLUMNS)?, log_row))
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

fn log_row<R: BufRead>(lines: &Lines<R>, fields: &[Span; LOG_COLUMNS.len()]) -> Result<RowResult, TraceError> {
    let [_, vc, gpus, state, submit, duration, _, id, cpus, nodes, start, _, queue] = fields;
    let outcome = match state.of(lines.bytes()) {
        b"Pass" | b"COMPLETED" => Some(Outcome::Completed),
        b"Killed" if planted!(KilledIsCompleted) => Some(Outcome::Completed),
        b"Killed" | b"CANCELLED" => Some(Outcome::Cancelled),
        b"Failed" | b"FAILED" | b"TIMEOUT" | b"NODE_FAIL" => Some(Outcome::Failed),
        // It occurs once, in Uranus.
        b"SUSPENDED" => None,
        _ => {
            let expected = "Pass, Killed or Failed, or COMPLETED, CANCELLED, FAILED, TIMEOUT or NODE_FAIL";
            return Err(lines.wrong(state, expected, NotDecimal::Malformed));
        }
    };
    if known(std::str::from_utf8(start.of(lines.bytes())).unwrap_or("")).is_none() && start.end > start.start {
        return Ok(Err(Oddity::NeverStarted));
    }
    let task = task(lines, [submit, duration, gpus, vc])?;
    let count = |field: &Span, expected| match field.of(lines.bytes()) {
        b"" => Ok(None),
        _ => lines.whole::<u32>(field, expected).map(Some),
    };
    let (nodes, cpus) = (count(nodes, "a number of nodes")?, count(cpus, "a number of CPUs")?);
    let name = if id.of(lines.bytes()).is_empty() { task.name } else { lines.text(id, "the id of a job")?.to_string() };
    let (recorded_wait, began_before) = match queue.of(lines.bytes()) {
        b"" => (None, false),
        _ => {
            let (expected, wait) = ("a time in seconds", lines.decimal(queue, "a time in seconds")?);
            let nanos = if wait.negative { None } else { wait.as_billionths() };
            if nanos.is_none() && !wait.negative {
                return Err(lines.wrong(queue, expected, NotDecimal::TooLarge));
            }
            (nanos.map(SimDuration::from_nanos), wait.negative)
        }
    };
    let odd = Oddities::default()
        .with(Oddity::StartedBeforeSubmit, began_before)
        .with(Oddity::UndefinedStatus, outcome.is_none());
    let nodes = nodes.filter(|nodes| *nodes > 0);
    let cpu = cpus.map(|cpus| MilliCpu::from_cores(cpus.into()));
    Ok(Ok(TraceTask { name, outcome, nodes, cpu, recorded_wait, odd, ..task }))
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

    /// The header and the first two rows of the example in HeliosData's README, then one row for each other state that it
    /// names.
    #[test]
    fn the_published_log_has_more_columns() {
        let text = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
             1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n\
             1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n\
             3,u,vc,16,64,2,CANCELLED,2020-06-09 18:42:00,2020-06-09 18:42:30,2020-06-09 18:42:31,1,30\n\
             4,u,vc,0,8,1,TIMEOUT,2020-06-09 18:43:00,2020-06-09 18:43:00,2020-06-09 18:43:01,1,0\n\
             5,u,vc,1,8,1,NODE_FAIL,2020-06-09 18:44:00,2020-06-09 18:43:59,2020-06-09 18:44:01,2,-1\n\
             6,u,vc,1,8,1,CANCELLED,2020-06-09 18:45:00,None,2020-06-09 18:45:01,0,0\n";
        let trace = read_tasks_from(Path::new("log.csv"), text.as_bytes()).unwrap();
        let seen: Vec<_> = (trace.tasks.iter())
            .map(|task| (&*task.name, task.nodes, task.gpus, task.cpu.map(|cpu| cpu.get() / 1000), task.outcome))
            .collect();
        use Outcome::{Cancelled, Completed, Failed};
        let wanted = [
            ("1425511", Some(1), Some(1), Some(1), Some(Completed)),
            ("1425512", Some(1), Some(4), Some(16), Some(Failed)),
            ("3", Some(2), Some(16), Some(64), Some(Cancelled)),
            ("4", Some(1), Some(0), Some(8), Some(Failed)),
            ("5", Some(1), Some(1), Some(8), Some(Failed)),
        ];
        assert_eq!(seen, wanted);
        let waits: Vec<_> = trace.tasks.iter().map(|task| task.recorded_wait.map(SimDuration::as_nanos)).collect();
        assert_eq!(waits, [Some(0), Some(0), Some(30_000_000_000), Some(0), None]);
        assert_eq!(trace.tasks[0].run, SimDuration::from_secs(36_848));
        let odd = [Oddity::StartedBeforeSubmit, Oddity::NeverStarted].map(|oddity| trace.tally.count(oddity));
        assert_eq!(odd, [1, 1]);
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
                "log.csv:2:14: expected a date such as 2017-10-09 07:01:55 in column `submit_time`, found `2017-10-32 00:00:45`",
            ),
            (
                "u,v,j,8,Lost,2017-10-02 00:00:45,1",
                "log.csv:2:9: expected Pass, Killed or Failed, or COMPLETED, CANCELLED, FAILED, TIMEOUT or NODE_FAIL in column \
                 `state`, found `Lost`",
            ),
            (
                "u,v,j,8,Pass,2017-10-02 00:00:45,-1",
                "log.csv:2:34: expected a duration in seconds in column `duration`, found `-1`",
            ),
        ];
        for (row, expected) in rows {
            let text = format!("user,vc,jobname,gpu_num,state,submit_time,duration\n{row}\n");
            let message = read_tasks_from(Path::new("log.csv"), text.as_bytes()).map_err(|fault| fault.to_string());
            assert_eq!(message.map(|_| ()), Err(expected.to_string()));
        }
        let text = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,2,66.0,11cb48\n";
        let message = read_philly_from(Path::new("p.csv"), text.as_bytes()).map_err(|fault| fault.to_string());
        let expected = "p.csv:2:28: expected the duration times the number of GPUs in column `gpu_time`, found `66.0`";
        assert_eq!(message.map(|_| ()), Err(expected.to_string()));
    }

    #[test]
    fn a_virtual_cluster_is_so_many_nodes_of_eight() {
        let nodes = read_nodes_from(Path::new("vc.csv"), &b"vc,node num\na,2\nb,1\n"[..]).unwrap().nodes;
        let seen: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.gpus)).collect();
        assert_eq!(seen, [("a-0", 8), ("a-1", 8), ("b-0", 8)]);
    }
}
