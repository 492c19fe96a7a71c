//! A run as a trace that <https://ui.perfetto.dev> opens.
//!
//! The format is the JSON object form of the Trace Event Format (Duca and Sinclair, *Trace Event Format*, Google, 2016;
//! Perfetto's page *Visualizing external trace formats*). A node is a process, each of its GPUs is a thread, and each
//! attempt on a GPU is a complete event (`X`) with its description. The queue and the allocation are counters (`C`).
//! Events of one thread must nest, so jobs that share a GPU are on separate threads.
//!
//! Times are whole microseconds, rounded down. With decimal fractions, a reader might truncate them when it converts to
//! nanoseconds, and then an event could begin inside the previous one. Thread numbers are unique across processes and
//! differ from process numbers, as in a kernel. The number 0 is not used, because it stands for an idle thread.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::spans::{Spans, attempt_name};
use dryrack_metrics::RunAccount;
use dryrack_units::SimTime;

/// The process number of the counters.
const CLUSTER: usize = 1;
/// The process number of the first node.
const FIRST: usize = 2;

/// Writes the trace of finished accounts.
pub fn write_perfetto(mut out: impl Write, accounts: &RunAccount, spans: &Spans) -> io::Result<()> {
    let mut first = true;
    let mut line = |out: &mut dyn Write, event: &Value| -> io::Result<()> {
        let comma = if std::mem::take(&mut first) { "" } else { ",\n" };
        write!(out, "{comma}{event}")
    };
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
    line(&mut out, &named("process_name", (CLUSTER, CLUSTER), "cluster"))?;
    for (index, node) in accounts.nodes.iter().enumerate() {
        let process = FIRST + index;
        line(&mut out, &named("process_name", (process, process), &node.spec.name))?;
    }
    let mut thread = FIRST + accounts.nodes.len();
    for lane in spans.lanes(accounts.now) {
        let process = FIRST + lane.node.index();
        let name = match lane.gpu {
            Some(gpu) => format!("GPU {gpu}"),
            None => "without a GPU".to_string(),
        };
        for row in 0..lane.rows {
            let name = if row == 0 { name.clone() } else { format!("{name}, {} at a time", row + 1) };
            line(&mut out, &named("thread_name", (process, thread + row), &name))?;
            let order = json!({"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread + row,
                               "args": {"sort_index": thread + row}});
            line(&mut out, &order)?;
        }
        for bar in &lane.bars {
            let span = &spans.spans[bar.span];
            let event = json!({
                "ph": "X", "name": attempt_name(span.attempt, accounts), "cat": "job", "pid": process, "tid": thread + bar.row,
                "ts": micros(bar.from), "dur": micros(bar.to) - micros(bar.from),
                "args": {"history": span.describe(accounts)},
            });
            line(&mut out, &event)?;
        }
        thread += lane.rows;
    }
    for sample in &accounts.samples {
        let counters = [
            ("queue", json!({"waiting": sample.waiting})),
            ("allocated GPUs", json!({"GPUs": sample.gpu_taken as f64 / 1000.0})),
            ("allocated cores", json!({"cores": sample.cpu_taken as f64 / 1000.0})),
        ];
        for (name, args) in counters {
            let event = json!({"ph": "C", "name": name, "pid": CLUSTER, "ts": micros(sample.at), "args": args});
            line(&mut out, &event)?;
        }
    }
    out.write_all(b"\n]}\n")?;
    out.flush()
}

fn named(what: &str, (process, thread): (usize, usize), name: &str) -> Value {
    json!({"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}})
}

fn micros(at: SimTime) -> u64 {
    at.as_nanos() / 1000
}
