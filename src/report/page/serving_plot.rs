//! The plots of services for language models: the time to first token, the requests that wait for one,
//! and the replicas.

use super::super::served::shown;
use super::axes::{of_counts, of_numbers, of_run};
use super::chart::{Chart, Kind, Line};
use dryrack_ids::JobId;
use dryrack_metrics::{RunAccount, ServiceAccount, ServiceInterval};
use dryrack_units::{SimDuration, SimTime};

/// The largest number of services with lines of their own.
const SERVICES: usize = 3;

/// The plots. Empty if no service received requests.
pub(super) fn plots(accounts: &RunAccount, starts_at: Option<SimTime>) -> Vec<Chart> {
    let services: Vec<(&JobId, &ServiceAccount)> =
        accounts.services.iter().filter(|(_, service)| service.total.arrived > 0).take(SERVICES).collect();
    if services.is_empty() {
        return Vec::new();
    }
    let name = |job: &JobId, what: &str| match services.len() {
        1 => what.to_string(),
        _ => format!("{what} of {}", accounts.names.job(*job)),
    };
    let end = accounts.now.since(SimTime::ZERO).as_nanos().max(1) as f64;
    let place = |interval: &ServiceInterval| interval.until.as_nanos() as f64 / end;
    let all = || services.iter().flat_map(|(_, service)| &service.intervals);
    let slowest = all().filter_map(|interval| interval.ttft).map(|(_, p99)| p99).max().unwrap_or_default();
    let (y, top) = of_numbers("seconds", slowest.as_secs_f64().max(0.001));
    let mut lines = Vec::new();
    for (index, (job, service)) in services.iter().enumerate() {
        let line = |pick: fn((SimDuration, SimDuration)) -> SimDuration| -> Vec<(f64, f64)> {
            let known = service.intervals.iter().filter_map(|interval| Some((place(interval), interval.ttft?)));
            known.map(|(at, ttft)| (at, pick(ttft).as_secs_f64() / top)).collect()
        };
        let of = [("99th percentile", line(|ttft| ttft.1)), ("median", line(|ttft| ttft.0))];
        for (part, (what, points)) in of.into_iter().enumerate() {
            lines.push(Line { name: name(job, what), points, kind: Kind::Line, look: 2 * index + part });
        }
    }
    let x = || of_run(accounts.now.since(SimTime::ZERO), starts_at);
    let ttft = Chart {
        title: "Time to first token".into(),
        description: format!(
            "Of the requests whose first token came in each interval; the slowest 99th percentile is {}. Requests \
             without a first token are not in it. Under load, a real server may be slower: in a benchmark, it took up to \
             1.7 times as long (see the page on serving). Measure a point near the bound that you need.",
            shown(slowest)
        ),
        x: x(),
        y,
        lines,
    };
    let counts = |[title, unit, what]: [&str; 3], description: &str, count: fn(&ServiceInterval) -> u64| {
        let (y, top) = of_counts(unit, all().map(count).max().unwrap_or(0));
        let line = |(index, (job, service)): (usize, &(&JobId, &ServiceAccount))| Line {
            name: name(job, what),
            points: service.intervals.iter().map(|interval| (place(interval), count(interval) as f64 / top)).collect(),
            kind: Kind::Steps,
            look: 2 * index,
        };
        let lines = services.iter().enumerate().map(line).collect();
        Chart { title: title.into(), description: description.into(), x: x(), y, lines }
    };
    let waiting = counts(
        ["Requests that wait", "requests", "without a first token"],
        "Requests without a first token at the end of each interval.",
        |interval| interval.waiting,
    );
    let replicas = counts(
        ["Replicas", "replicas", "take requests"],
        "Replicas that take requests at the end of each interval.",
        |interval| u64::from(interval.replicas),
    );
    vec![ttft, waiting, replicas]
}
