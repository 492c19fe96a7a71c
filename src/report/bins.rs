//! A run divided into intervals of equal length.

use super::spans::Spans;
use dryrack_engine::Rehearsal;
use dryrack_metrics::{RunAccount, Sample};
use dryrack_units::{SimDuration, SimTime};

/// The number of intervals in a plot. Each covers two or three pixels.
pub const BINS: usize = 200;

/// The mean values in each interval. GPUs and cores are in thousandths, rounded down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins {
    /// The starts of the intervals, followed by the end of the last one.
    pub edges: Vec<SimTime>,
    pub waiting: Vec<u64>,
    pub waiting_max: Vec<u64>,
    pub gpu_ready: Vec<u64>,
    pub gpu_taken: Vec<u64>,
    /// The GPUs in real use. `None` unless the usage of every run on a GPU is stated.
    pub gpu_used: Option<Vec<u64>>,
    pub cpu_taken: Vec<u64>,
    pub end: SimTime,
}

impl Bins {
    pub fn of(accounts: &RunAccount, spans: &Spans, rehearsal: &Rehearsal) -> Bins {
        let edges = edges(accounts.now, BINS);
        let mean = |of: fn(&Sample) -> u64| means(&accounts.samples, &edges, of);
        Bins {
            waiting: mean(|sample| sample.waiting * 1000),
            waiting_max: maxima(&accounts.samples, &edges, |sample| sample.waiting),
            gpu_ready: mean(|sample| sample.gpu_ready),
            gpu_taken: mean(|sample| sample.gpu_taken),
            gpu_used: used(accounts, spans, rehearsal, &edges),
            cpu_taken: mean(|sample| sample.cpu_taken),
            end: accounts.now,
            edges,
        }
    }
}

/// The edges of `count` equal intervals from zero to `end`.
pub fn edges(end: SimTime, count: usize) -> Vec<SimTime> {
    let place = |index: usize| u128::from(end.as_nanos()) * index as u128 / count as u128;
    (0..=count).map(|index| SimTime::ZERO.saturating_add(SimDuration::from_nanos(place(index) as u64))).collect()
}

/// Calls `tell` with each interval that overlaps the time from `from` to `to`, and with the overlap.
pub fn overlaps(edges: &[SimTime], from: SimTime, to: SimTime, mut tell: impl FnMut(usize, SimTime, SimTime)) {
    let first = edges.partition_point(|edge| *edge <= from).saturating_sub(1);
    for (index, piece) in edges.windows(2).enumerate().skip(first) {
        if piece[0] >= to {
            return;
        }
        let (from, to) = (piece[0].max(from), piece[1].min(to));
        if from < to {
            tell(index, from, to);
        }
    }
}

fn means(samples: &[Sample], edges: &[SimTime], of: fn(&Sample) -> u64) -> Vec<u64> {
    let mut sums = vec![0u128; edges.len() - 1];
    each(samples, edges, |sample, from, to| {
        overlaps(edges, from, to, |index, from, to| {
            sums[index] += u128::from(to.since(from).as_nanos()) * u128::from(of(sample));
        });
    });
    per_piece(&sums, edges)
}

fn maxima(samples: &[Sample], edges: &[SimTime], of: fn(&Sample) -> u64) -> Vec<u64> {
    let mut most = vec![0; edges.len() - 1];
    each(samples, edges, |sample, from, to| {
        overlaps(edges, from, to, |index, _, _| most[index] = most[index].max(of(sample)));
    });
    most
}

/// Calls `tell` with each sample and the time for which it is valid.
fn each<'a>(samples: &'a [Sample], edges: &[SimTime], mut tell: impl FnMut(&'a Sample, SimTime, SimTime)) {
    let end = edges.last().copied().unwrap_or(SimTime::ZERO);
    for (index, sample) in samples.iter().enumerate() {
        tell(sample, sample.at, samples.get(index + 1).map_or(end, |next| next.at));
    }
}

fn per_piece(sums: &[u128], edges: &[SimTime]) -> Vec<u64> {
    let length = |index: usize| u128::from(edges[index + 1].since(edges[index]).as_nanos()).max(1);
    sums.iter().enumerate().map(|(index, sum)| (sum / length(index)) as u64).collect()
}

fn used(accounts: &RunAccount, spans: &Spans, rehearsal: &Rehearsal, edges: &[SimTime]) -> Option<Vec<u64>> {
    let mut sums = vec![0u128; edges.len() - 1];
    let mut any = false;
    for span in &spans.spans {
        let claims = span.placement.claims();
        if claims.iter().all(|claim| claim.gpus.is_empty()) {
            continue;
        }
        let usage = rehearsal.arrivals.get(span.attempt.job.index())?.behavior.usage.as_ref()?;
        any = true;
        let Some(started) = span.started else { continue };
        let ended = span.freed.unwrap_or(accounts.now);
        let parts = claims.iter().flat_map(|claim| {
            dryrack_metrics::gpu_parts(claim, &accounts.nodes[claim.node.index()].spec.shape).collect::<Vec<_>>()
        });
        for (gpu, part) in parts.enumerate() {
            overlaps(edges, started, ended, |index, from, to| {
                let spent = usage.between(gpu, from.since(started), to.since(started), |_| false);
                sums[index] += u128::from(part) * spent.used / 1000;
            });
        }
    }
    any.then(|| per_piece(&sums, edges))
}

/// How full each node is in each of `count` intervals, in thousandths: of its GPUs, or of its cores if it has no GPUs.
/// `None` if the node was not ready for most of the interval.
pub fn heat(accounts: &RunAccount, spans: &Spans, count: usize) -> Vec<Vec<Option<u64>>> {
    let edges = edges(accounts.now, count);
    let mut taken = vec![vec![0u128; count]; accounts.nodes.len()];
    for span in &spans.spans {
        for claim in span.placement.claims() {
            let shape = &accounts.nodes[claim.node.index()].spec.shape;
            let (part, whole) = match shape.gpus.len() {
                0 => (claim.cpu.get(), shape.cpu_capacity().get()),
                gpus => (dryrack_metrics::gpu_parts(claim, shape).sum(), 1000 * gpus as u64),
            };
            let freed = span.freed_on(claim.node).unwrap_or(accounts.now);
            overlaps(&edges, span.placed, freed, |index, from, to| {
                let length = u128::from(to.since(from).as_nanos());
                taken[claim.node.index()][index] += length * u128::from(part) * 1000 / u128::from(whole.max(1));
            });
        }
    }
    let mut rows = Vec::new();
    for (node, sums) in taken.iter().enumerate() {
        let mut down = vec![0u128; count];
        for (from, to) in &spans.down[node] {
            overlaps(&edges, *from, to.unwrap_or(accounts.now), |index, from, to| {
                down[index] += u128::from(to.since(from).as_nanos());
            });
        }
        let means = per_piece(sums, &edges);
        let length = |index: usize| u128::from(edges[index + 1].since(edges[index]).as_nanos());
        let is_down = |index: usize| down[index] * 2 > length(index);
        rows.push(means.iter().enumerate().map(|(at, mean)| (!is_down(at)).then_some((*mean).min(1000))).collect());
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_over_the_time_of_its_piece() {
        let sample =
            |at, waiting| Sample { at: SimTime::from_secs(at), waiting, gpu_taken: 0, cpu_taken: 0, gpu_ready: 0 };
        // 20 seconds in two intervals: the value is 1 for 5 s, then 3 for 10 s, then 0 for 5 s.
        let samples = [sample(0, 1), sample(5, 3), sample(15, 0)];
        let edges = edges(SimTime::from_secs(20), 2);
        assert_eq!(means(&samples, &edges, |sample| sample.waiting * 10), [20, 15]);
        assert_eq!(maxima(&samples, &edges, |sample| sample.waiting), [3, 3]);
    }
}
