//! Services: how many replicas they may have, and the requests that they receive.

use serde::{Deserialize, Serialize};

use dryrack_units::{RequestRate, SimDuration, SimTime, text_form};

/// Scaling of a service: it has more replicas while it receives more requests, and fewer while it receives fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    pub min: u32,
    pub max: u32,
    /// The target number of requests per second for each replica.
    #[serde(with = "text_form")]
    pub target: RequestRate,
    /// The window over which requests are counted.
    #[serde(with = "text_form")]
    pub window: SimDuration,
    /// The time from one change of the number of replicas until it may increase.
    #[serde(with = "text_form")]
    pub scale_up_delay: SimDuration,
    /// The time from one change until it may decrease.
    #[serde(with = "text_form")]
    pub scale_down_delay: SimDuration,
}

/// The requests that a service receives: a rate per second from each of these times on, counted from the service's
/// submission; none before the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests(pub Vec<(SimDuration, RequestRate)>);

impl Requests {
    /// The number of requests in the window that ends this long after the submission, rounded down.
    pub fn count(&self, until: SimDuration, window: SimDuration) -> u64 {
        let from = until.saturating_sub(window);
        let mut sum: u128 = 0;
        for (index, (at, rate)) in self.0.iter().enumerate() {
            let end = self.0.get(index + 1).map_or(until, |(next, _)| (*next).min(until));
            let length = end.saturating_sub((*at).max(from));
            sum += u128::from(length.as_nanos()) * u128::from(rate.get());
        }
        // The sum is in units of 10^-12 requests: thousandths times nanoseconds.
        u64::try_from(sum / 1_000_000_000_000).unwrap_or(u64::MAX)
    }

    /// The time after which every window counts the same.
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

/// When requests are counted next, for a service submitted at `submitted` whose requests were counted `counts` times.
pub fn next_count(submitted: SimTime, counts: u64) -> SimTime {
    submitted.saturating_add(COUNTED_EVERY.saturating_mul(counts + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_what_came_in_it() {
        let secs = SimDuration::from_secs;
        // Two per second from 10 s on, a half from 40 s, none from 60 s.
        let requests = [(10, 2000), (40, 500), (60, 0)].map(|(at, rate)| (secs(at), RequestRate::new(rate)));
        let requests = Requests(requests.to_vec());
        let counts = [(10, 60), (11, 60), (40, 60), (41, 60), (42, 60), (70, 60), (80, 30), (90, 30), (120, 60)];
        let found = counts.map(|(until, window)| requests.count(secs(until), secs(window)));
        // 0; 2; 60; 60.5; 61; 60 + 10; 5 of the last 10 s at a half; none; none.
        assert_eq!(found, [0, 2, 60, 60, 61, 70, 5, 0, 0]);
        assert_eq!(requests.settled(secs(60)), secs(120));
    }
}
