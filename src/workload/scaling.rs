//! Services: how many replicas they may have, and the requests that they receive.

use serde::{Deserialize, Serialize};

use dryrack_units::{RequestRate, SimDuration, SimTime, TextForm};

/// How a service scales: it gets more replicas when it receives more requests, and fewer when it receives fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    pub min: u32,
    pub max: u32,
    /// The target number of requests per second for each replica.
    #[serde(with = "TextForm")]
    pub target: RequestRate,
    /// The length of the time window in which requests are counted.
    #[serde(with = "TextForm")]
    pub window: SimDuration,
    /// The minimum time between a change of the number of replicas and the next increase.
    #[serde(with = "TextForm")]
    pub scale_up_delay: SimDuration,
    /// The minimum time between a change of the number of replicas and the next decrease.
    #[serde(with = "TextForm")]
    pub scale_down_delay: SimDuration,
}

/// The requests that a service receives. Each entry is a time, counted from the service's submission, and the rate per
/// second from then on. There are no requests before the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests(pub Vec<(SimDuration, RequestRate)>);

impl Requests {
    /// The number of requests in the window that ends `until` after the submission, rounded down.
    pub fn count(&self, until: SimDuration, window: SimDuration) -> u64 {
        let from = until.saturating_sub(window);
        let mut sum: u128 = 0;
        for (index, (at, rate)) in self.0.iter().enumerate() {
            let end = self.0.get(index + 1).map_or(until, |(next, _)| (*next).min(until));
            let length = end.saturating_sub((*at).max(from));
            sum += u128::from(length.as_nanos()) * u128::from(rate.get());
        }
        // The sum is in thousandths of a request per second times nanoseconds, so in units of 10^-12 requests.
        u64::try_from(sum / 1_000_000_000_000).unwrap_or(u64::MAX)
    }

    /// The time after which the count no longer changes, because the rate stays the same.
    pub fn settled(&self, window: SimDuration) -> SimDuration {
        self.0.last().map_or(SimDuration::ZERO, |(at, _)| at.saturating_add(window))
    }

    /// Whether the times strictly increase.
    pub fn is_in_order(&self) -> bool {
        self.0.windows(2).all(|pair| pair[0].0 < pair[1].0)
    }
}

/// The interval between two counts of requests.
///
/// Source: dstack 0.22.5, the interval at which its server asks gateways for their counts.
pub const COUNTED_EVERY: SimDuration = SimDuration::from_secs(15);

/// The time of the next count of requests, for a service that was submitted at `submitted` and counted `counts` times
/// so far.
pub fn next_count(submitted: SimTime, counts: u64) -> SimTime {
    submitted.saturating_add(COUNTED_EVERY.saturating_mul(counts + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_what_came_in_it() {
        let secs = SimDuration::from_secs;
        // Two per second from 10 s on, half a request per second from 40 s on, none from 60 s on.
        let requests = [(10, 2000), (40, 500), (60, 0)].map(|(at, rate)| (secs(at), RequestRate::new(rate)));
        let requests = Requests(requests.to_vec());
        let counts = [(10, 60), (11, 60), (40, 60), (41, 60), (42, 60), (70, 60), (80, 30), (90, 30), (120, 60)];
        let found = counts.map(|(until, window)| requests.count(secs(until), secs(window)));
        // Expected: 0; 2; 60; 60.5; 61; 60 + 10; half a request per second for 10 s; none; none.
        assert_eq!(found, [0, 2, 60, 60, 61, 70, 5, 0, 0]);
        assert_eq!(requests.settled(secs(60)), secs(120));
    }
}
