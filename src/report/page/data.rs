//! The contents of a page in machine-readable form.

use serde_json::{Value as Json, json};

use super::super::bins::Bins;
use super::super::spans::{Spans, attempt_name};
use dryrack_metrics::{Metrics, RunAccount, Value};
use dryrack_units::{SimDuration, SimTime};

fn csv_of(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header).expect("written into memory");
    rows.for_each(|row| writer.write_record(row).expect("written into memory"));
    writer.into_inner().expect("written into memory")
}

/// The name, value, unit, meaning and source of each metric. The value of an undefined metric is empty.
pub(super) fn metrics_csv(metrics: &Metrics) -> Vec<u8> {
    let value = |value: Value| match value {
        Value::Undefined => String::new(),
        value => serde_json::to_string(&value).expect("a number has a JSON form"),
    };
    let rows = metrics.iter().map(|(definition, found)| {
        let texts = [definition.counts_in, definition.meaning, definition.source].map(str::to_string);
        [vec![definition.name.to_string(), value(found)], texts.to_vec()].concat()
    });
    csv_of(&["metric", "value", "unit", "meaning", "source"], rows)
}

/// A row for each interval of time.
pub(super) fn series_csv(bins: &Bins) -> Vec<u8> {
    let header = ["from", "to", "waiting_mean", "waiting_max", "gpus_ready", "gpus_taken", "gpus_used", "cores_taken"];
    let rows = (0..bins.waiting.len()).map(|at| {
        let used = bins.gpu_used.as_ref().map_or(String::new(), |used| thousandths(used[at]));
        vec![
            seconds(bins.edges[at]),
            seconds(bins.edges[at + 1]),
            thousandths(bins.waiting[at]),
            bins.waiting_max[at].to_string(),
            thousandths(bins.gpu_ready[at]),
            thousandths(bins.gpu_taken[at]),
            used,
            thousandths(bins.cpu_taken[at]),
        ]
    });
    csv_of(&header, rows)
}

pub(super) fn series_json(bins: &Bins) -> Json {
    let wholes = |values: &[u64]| values.iter().map(|value| *value as f64 / 1000.0).collect::<Vec<f64>>();
    let edges: Vec<f64> = bins.edges.iter().map(|edge| edge.as_secs_f64()).collect();
    json!({
        "edges_seconds": edges, "waiting_mean": wholes(&bins.waiting), "waiting_max": bins.waiting_max,
        "gpus_ready": wholes(&bins.gpu_ready), "gpus_taken": wholes(&bins.gpu_taken),
        "gpus_used": bins.gpu_used.as_deref().map(wholes), "cores_taken": wholes(&bins.cpu_taken),
    })
}

/// A row for each distinct wait in a queue. It has the number of replicas that waited this long, and the number of
/// replicas that waited at most this long.
pub(super) fn waits_csv(queues: &[(String, Vec<SimDuration>, usize)]) -> Vec<u8> {
    let rows = queues.iter().flat_map(|(queue, waits, never)| {
        let all = waits.len() + never;
        let mut up_to = 0;
        waits.chunk_by(|one, other| one == other).map(move |equal| {
            up_to += equal.len();
            let counts = [equal.len(), up_to, all].map(|count| count.to_string());
            [vec![queue.clone(), equal[0].to_decimal_seconds()], counts.to_vec()].concat()
        })
    });
    csv_of(&["queue", "wait", "replicas", "no_longer", "of"], rows)
}

/// A row for each row of the heat map. A cell is empty if the node was not ready.
pub(super) fn heat_csv(rows: &[(String, Vec<Option<u64>>)]) -> Vec<u8> {
    let columns = rows.first().map_or(0, |(_, cells)| cells.len());
    let header: Vec<String> =
        std::iter::once("node".to_string()).chain((0..columns).map(|at| at.to_string())).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let cell = |value: &Option<u64>| value.map_or(String::new(), thousandths);
    let rows = rows.iter().map(|(name, cells)| std::iter::once(name.clone()).chain(cells.iter().map(cell)).collect());
    csv_of(&header, rows)
}

/// A row for each placed attempt, with its description.
pub(super) fn spans_csv(accounts: &RunAccount, spans: &Spans) -> Vec<u8> {
    let header = ["run", "wanted", "placed", "started", "freed", "places", "outcome", "reason", "history"];
    let rows = spans.spans.iter().map(|span| {
        vec![
            attempt_name(span.attempt, accounts),
            seconds(span.wanted),
            seconds(span.placed),
            span.started.map_or(String::new(), seconds),
            span.freed.map_or(String::new(), seconds),
            span.places(accounts),
            span.ended.map_or(String::new(), |(outcome, _)| outcome.name().to_string()),
            span.ended.map_or(String::new(), |(_, reason)| reason.name().to_string()),
            span.describe(accounts),
        ]
    });
    csv_of(&header, rows)
}

fn seconds(at: SimTime) -> String {
    at.since(SimTime::ZERO).to_decimal_seconds()
}

/// Formats thousandths as a decimal number, such as `0.5`.
fn thousandths(value: u64) -> String {
    let (whole, rest) = (value / 1000, value % 1000);
    match rest {
        0 => whole.to_string(),
        rest => format!("{whole}.{rest:03}").trim_end_matches('0').to_string(),
    }
}
