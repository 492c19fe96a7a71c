//! A run as a trace that <https://ui.perfetto.dev> opens.
//!
//! The JSON object form of the Trace Event Format (Duca and Sinclair, *Trace Event Format*, Google, 2016; Perfetto's
//! page *Visualizing external trace formats*): a node is a process, a GPU of it a thread, and each attempt on it a
//! complete event (`X`) with its story; the queue and what is allocated are counters (`C`). Times are microseconds, with
//! three decimals: exact. Events of a thread must nest, so jobs that share a GPU are on threads of their own beside it.
//! Numbers of threads differ between processes, and from those of processes, as a kernel's would.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::account::RunAccount;
use super::spans::{Spans, run_name};
use crate::units::SimTime;

/// The process of the counters.
const CLUSTER: usize = 0;

/// Writes the trace of books that are finished.
pub fn write_perfetto(mut out: impl Write, accounts: &RunAccount, spans: &Spans) -> io::Result<()> {
    let mut first = true;
    let mut line = |out: &mut dyn Write, event: &Value| -> io::Result<()> {
        let comma = if std::mem::take(&mut first) { "" } else { ",\n" };
        write!(out, "{comma}{event}")
    };
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
    line(&mut out, &named("process_name", (CLUSTER, CLUSTER), "cluster"))?;
    for (index, node) in accounts.nodes.iter().enumerate() {
        line(&mut out, &named("process_name", (index + 1, 0), &node.spec.name))?;
    }
    let mut thread = accounts.nodes.len() + 1;
    for lane in spans.lanes(accounts.now) {
        let process = lane.node.index() + 1;
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
                "ph": "X", "name": run_name(span.run, accounts), "cat": "job", "pid": process, "tid": thread + bar.row,
                "ts": micros(bar.from), "dur": micros_of(bar.to.since(bar.from).as_nanos()),
                "args": {"story": span.story(accounts)},
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

fn micros(at: SimTime) -> Value {
    micros_of(at.as_nanos())
}

/// A double holds microseconds to the nanosecond for a hundred days; it is the format's own unit.
fn micros_of(nanos: u64) -> Value {
    match nanos.is_multiple_of(1000) {
        true => json!(nanos / 1000),
        false => json!(nanos as f64 / 1000.0),
    }
}
