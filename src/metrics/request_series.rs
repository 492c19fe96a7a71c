//! Aggregates over the requests to services for language models.

use super::series::{Function, Unit};
use super::service_account::{ServiceAccount, rank};
use super::value::Value;
use dryrack_event::Durations;
use dryrack_units::SimDuration;

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

    /// A percentile, or the maximum, of the requests that are left without the slowest so many. `None` for other aggregates.
    pub fn without_slowest(&self, count: u64, function: Function, series: RequestSeries) -> Option<OverRequests> {
        let left = self.count(series).saturating_sub(count);
        let rank = match function {
            Function::Quantile(permille) => rank(left, permille),
            Function::Max => left,
            Function::Mean | Function::Sum | Function::Min => return None,
        };
        Some(match left {
            0 => OverRequests::None,
            _ => self.durations(series).0.at_rank(rank).map_or(OverRequests::Infinite, OverRequests::Finite),
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_event::ServiceReport;
    use dryrack_units::SimTime;

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
