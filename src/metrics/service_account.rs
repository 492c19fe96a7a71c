//! The requests to services for language models, summed from their reports in the log.

use super::series::{Function, Unit};
use super::value::Value;
use dryrack_event::{Durations, ServiceReport};
use dryrack_units::{SimDuration, SimTime};

/// The requests of one service, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Sums over all reports. `waiting` and `replicas` are those of the last report.
    pub total: ServiceReport,
    /// The sums in nanoseconds of the times to first tokens, of the times per token, and of the latencies.
    sums: [u128; 3],
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

/// A value that each request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestSeries {
    Ttft,
    Tpot,
    Latency,
}

impl RequestSeries {
    /// All series of requests, each with its name and its meaning for one request.
    pub const ALL: [(RequestSeries, &'static str, &'static str); 3] = [
        (RequestSeries::Ttft, "ttft", "time to first token: from the arrival of a request to its first token"),
        (RequestSeries::Tpot, "tpot", "time per output token: (last token - first token) / (tokens - 1)"),
        (RequestSeries::Latency, "e2e_latency", "from the arrival of a request to its last token"),
    ];

    pub fn name(self) -> &'static str {
        RequestSeries::ALL.iter().find(|(series, ..)| *series == self).expect("every series has a row").1
    }

    pub fn unit(self) -> Unit {
        Unit::Time
    }

    /// A phrase that says why requests have no value.
    pub fn lack(self) -> &'static str {
        match self {
            RequestSeries::Ttft => "had no first token",
            RequestSeries::Tpot | RequestSeries::Latency => "were not served to the end",
        }
    }
}

/// An aggregate over requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverRequests {
    /// There were no requests.
    None,
    Finite(SimDuration),
    /// The aggregate includes requests that were never served.
    Infinite,
}

impl From<OverRequests> for Value {
    fn from(found: OverRequests) -> Value {
        match found {
            OverRequests::None | OverRequests::Infinite => Value::Undefined,
            OverRequests::Finite(time) => Value::Time(time),
        }
    }
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

    fn durations(&self, series: RequestSeries) -> (&Durations, u128) {
        match series {
            RequestSeries::Ttft => (&self.total.ttft, self.sums[0]),
            RequestSeries::Tpot => (&self.total.tpot, self.sums[1]),
            RequestSeries::Latency => (&self.total.latency, self.sums[2]),
        }
    }

    /// The number of requests without a value. Such a request counts as infinitely slow. An answer of one token has no
    /// time per token and does not count.
    pub fn without(&self, series: RequestSeries) -> u64 {
        match series {
            RequestSeries::Ttft => self.total.arrived - self.total.ttft.count,
            RequestSeries::Tpot | RequestSeries::Latency => self.unserved(),
        }
    }

    /// The number of requests over which the aggregates of a series go.
    pub fn count(&self, series: RequestSeries) -> u64 {
        self.durations(series).0.count + self.without(series)
    }

    /// An aggregate over all requests. Requests that were never served are infinitely slow: they are in each percentile,
    /// and with one of them, the mean, the sum and the maximum are infinite.
    pub fn of(&self, function: Function, series: RequestSeries) -> OverRequests {
        let ((durations, sum), without, count) = (self.durations(series), self.without(series), self.count(series));
        if count == 0 {
            return OverRequests::None;
        }
        let finite =
            |nanos: u128| OverRequests::Finite(SimDuration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
        let ranked = |rank: u64| durations.at_rank(rank).map_or(OverRequests::Infinite, OverRequests::Finite);
        match function {
            Function::Quantile(permille) => ranked(rank(count, permille)),
            Function::Min => ranked(1),
            Function::Mean | Function::Sum | Function::Max if without > 0 => OverRequests::Infinite,
            Function::Mean => finite(sum / u128::from(count)),
            Function::Sum => finite(sum),
            Function::Max => finite(u128::from(durations.max_ns)),
        }
    }
}

/// The nearest rank ⌈p·n⌉, counted from 1.
fn rank(count: u64, permille: u16) -> u64 {
    let rank = (u128::from(count) * u128::from(permille)).div_ceil(1000).max(1);
    u64::try_from(rank).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 100 requests, 98 have their first token after 1 to 98 ms, and two never.
    #[test]
    fn requests_that_are_never_served_are_infinitely_slow() {
        let mut report = ServiceReport { arrived: 100, ..ServiceReport::default() };
        (1..=98).for_each(|ms| report.ttft.add(SimDuration::from_nanos(ms * 1_000_000)));
        let mut account = ServiceAccount::default();
        account.add_report(SimTime::ZERO, &report);
        let of = |permille| account.of(Function::Quantile(permille), RequestSeries::Ttft);
        let OverRequests::Finite(p98) = of(980) else { panic!("98 are served") };
        assert_eq!(p98.as_nanos(), 98_000_000, "the largest is exact");
        assert_eq!([of(981), of(990), of(1000)], [OverRequests::Infinite; 3]);
        assert_eq!(account.of(Function::Mean, RequestSeries::Ttft), OverRequests::Infinite);
        assert_eq!(account.without(RequestSeries::Latency), 100);
        assert_eq!(ServiceAccount::default().of(Function::Max, RequestSeries::Ttft), OverRequests::None);
    }
}
