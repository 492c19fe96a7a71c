//! The requests to services for language models, summed from their reports in the log.

use dryrack_event::{Durations, ServiceReport};
use dryrack_units::{SimDuration, SimTime};

/// The requests of one service, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Sums over all reports. `waiting` and `replicas` are those of the last report.
    pub total: ServiceReport,
    /// The sums in nanoseconds of the times to first tokens, of the times per token, and of the latencies.
    pub(super) sums: [u128; 3],
    /// Each report in short, with its time.
    pub intervals: Vec<ServiceInterval>,
}

/// One report in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceInterval {
    pub until: SimTime,
    pub arrived: u64,
    /// Requests that had no first token at the end of the interval.
    pub waiting: u64,
    pub replicas: u32,
    /// The median and the 99th percentile of the times to first tokens that came in the interval.
    pub ttft: Option<(SimDuration, SimDuration)>,
    pub tpot: Option<(SimDuration, SimDuration)>,
}

impl ServiceAccount {
    pub(super) fn add_report(&mut self, at: SimTime, report: &ServiceReport) {
        let ends = |durations: &Durations| {
            Some((durations.at_rank(rank(durations.count, 500))?, durations.at_rank(rank(durations.count, 990))?))
        };
        self.intervals.push(ServiceInterval {
            until: at,
            arrived: report.arrived,
            waiting: report.waiting,
            replicas: report.replicas,
            ttft: ends(&report.ttft),
            tpot: ends(&report.tpot),
        });
        self.sum(report, [report.ttft.sum_ns, report.tpot.sum_ns, report.latency.sum_ns].map(u128::from));
        (self.total.waiting, self.total.replicas) = (report.waiting, report.replicas);
    }

    /// Adds the sums of another service.
    pub fn merge(&mut self, other: &ServiceAccount) {
        self.sum(&other.total, other.sums);
        self.total.waiting += other.total.waiting;
        self.total.replicas += other.total.replicas;
    }

    fn sum(&mut self, report: &ServiceReport, sums: [u128; 3]) {
        let total = &mut self.total;
        total.arrived += report.arrived;
        total.without_replica += report.without_replica;
        total.too_large += report.too_large;
        total.input_tokens += report.input_tokens;
        total.output_tokens += report.output_tokens;
        total.repeated += report.repeated;
        total.ttft.merge(&report.ttft);
        total.tpot.merge(&report.tpot);
        total.latency.merge(&report.latency);
        self.sums.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
    }

    /// Requests that arrived and had not ended at the end of the run.
    pub fn unserved(&self) -> u64 {
        self.total.arrived - self.total.latency.count
    }
}

/// The nearest rank ⌈p·n⌉, counted from 1.
pub(super) fn rank(count: u64, permille: u16) -> u64 {
    let rank = (u128::from(count) * u128::from(permille)).div_ceil(1000).max(1);
    u64::try_from(rank).unwrap_or(u64::MAX)
}
