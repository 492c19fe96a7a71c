//! Alibaba's disaggregated recommendation services (cluster-trace-gpu-v2025): instances of services as CSV with a
//! header line.
//!
//! Source: the repository alibaba/clusterdata, folder `cluster-trace-gpu-v2025`. Times are in seconds since the
//! beginning of the trace. An instance without a creation time existed before the trace began. An instance without a
//! deletion time still existed at its end. The run time of such instances is not recorded, so they are left out. CPU is
//! in cores and memory in GiB. `max_instance_per_node` is the most instances of a service on one node, or -1.

use std::io::BufRead;
use std::path::Path;

use dryrack_units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime};

use super::decimal::NotDecimal;
use super::error::TraceError;
use super::row::{RunBasis, TraceTask};
use super::rows::{RowResult, TableRows};
use super::tally::Oddity;
use super::text::{Lines, Span};

const COLUMNS: [&str; 17] = [
    "instance_sn",
    "role",
    "app_name",
    "cpu_request",
    "cpu_limit",
    "gpu_request",
    "gpu_limit",
    "rdma_request",
    "rdma_limit",
    "memory_request",
    "memory_limit",
    "disk_request",
    "disk_limit",
    "max_instance_per_node",
    "creation_time",
    "scheduled_time",
    "deletion_time",
];
const NO_LIMIT: &[u8] = b"-1";
const GIB: u64 = 1 << 30;
const MILLI: u64 = 1000;

pub(super) fn instance_rows<R: BufRead>(file: &Path, input: R) -> Result<TableRows<R, { COLUMNS.len() }>, TraceError> {
    TableRows::new(file, input, COLUMNS, instance)
}

fn instance<R: BufRead>(lines: &Lines<R>, fields: &[Span; COLUMNS.len()]) -> Result<RowResult, TraceError> {
    let [name, _, application, cpu, _, gpus, .., most_per_node, created, scheduled, deleted] = fields;
    let memory = &fields[9];
    let name = lines.text(name, "the name of an instance")?.to_string();
    let expected = "a number of cores";
    let cpu =
        lines.decimal(cpu, expected)?.scaled(MILLI).ok_or_else(|| lines.wrong(cpu, expected, NotDecimal::TooLarge))?;
    let gpus: u32 = lines.whole(gpus, "a number of GPUs")?;
    let application = lines.text(application, "the name of a service")?.to_string();
    let most_per_node = match most_per_node.of(lines.bytes()) {
        NO_LIMIT => None,
        _ => Some(lines.whole(most_per_node, "a number of instances, or -1")?),
    };
    let expected = "memory in GiB";
    let wrong = || lines.wrong(memory, expected, NotDecimal::TooLarge);
    let ram = lines.decimal(memory, expected)?.scaled(GIB).ok_or_else(wrong)?;
    let [created, scheduled, deleted] = [time(lines, created)?, time(lines, scheduled)?, time(lines, deleted)?];
    let (submit, end) = match (created, deleted) {
        (None, _) => return Ok(Err(Oddity::NoSubmitTime)),
        (_, None) => return Ok(Err(Oddity::NoEnd)),
        (Some(submit), Some(end)) => (submit, end),
    };
    let Some(run) = end.checked_since(scheduled.unwrap_or(submit)) else { return Ok(Err(Oddity::NegativeRun)) };
    let task = TraceTask::new(name, lines.number(), submit, run);
    Ok(Ok(TraceTask {
        run_basis: if scheduled.is_some() { RunBasis::Executed } else { RunBasis::WholeStay },
        recorded_wait: scheduled.and_then(|scheduled| scheduled.checked_since(submit)),
        cpu: Some(MilliCpu::new(cpu)),
        ram: Some(Bytes::new(ram)),
        gpus: Some(gpus),
        application: Some(application),
        most_per_node,
        gpu_share: (gpus > 0).then_some(GpuShare::WHOLE),
        ..task
    }))
}

fn time<R: BufRead>(lines: &Lines<R>, field: &Span) -> Result<Option<SimTime>, TraceError> {
    if field.of(lines.bytes()).is_empty() {
        return Ok(None);
    }
    let expected = "a time in seconds";
    let nanos = lines.decimal(field, expected)?.as_billionths();
    let nanos = nanos.ok_or_else(|| lines.wrong(field, expected, NotDecimal::Malformed))?;
    Ok(Some(SimTime::ZERO + SimDuration::from_nanos(nanos)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::rows::collect;

    /// The rows come from the trace, except that the deletion time of the second row was removed.
    #[test]
    fn an_instance_is_a_task_where_its_stay_is_known() {
        let text = format!(
            "{}\n\
             instance_7281,CN,app_88,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,610.0,683.0,91730.0\n\
             instance_7280,CN,app_22,64,64,1,1,1,1,320.5,320.0,544.0,640.0,-1,475.00000000000006,623.0,\n\
             instance_0,HN,app_0,12,12,1,1,25,25,120.0,120.0,640.0,800.0,8,,,\n",
            COLUMNS.join(",")
        );
        let trace = collect(Path::new("d.csv"), instance_rows(Path::new("d.csv"), text.as_bytes()).unwrap()).unwrap();
        let [task] = &trace.tasks[..] else { panic!("{:?}", trace.tasks) };
        assert_eq!((task.submit, task.run), (SimTime::from_secs(610), SimDuration::from_secs(91_730 - 683)));
        assert_eq!((task.recorded_wait, task.gpus), (Some(SimDuration::from_secs(73)), Some(0)));
        assert_eq!((task.cpu, task.ram), (Some(MilliCpu::new(64_000)), Some(Bytes::new(320 * GIB))));
        assert_eq!((task.application.as_deref(), task.most_per_node), (Some("app_88"), None));
        let odd = [Oddity::NoEnd, Oddity::NoSubmitTime].map(|oddity| trace.tally.count(oddity));
        assert_eq!((odd, trace.tally.rows()), ([1, 1], 3));
    }
}
