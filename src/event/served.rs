//! Reports about the requests of a service for language models, summed over an interval.
//!
//! A log has one report for each interval in which something happened, not one record for each request. Times are
//! counted in buckets of a relative width of at most 1/256 (0.4 %), each interval with its exact sum, minimum and maximum. So
//! whatever is computed from a log, a percentile is at most 0.4 % above the true one, never below it, and a mean is
//! exact.

use serde::{Deserialize, Serialize};

use dryrack_units::SimDuration;

/// What happened to the requests of one service since its last report. Requests that arrived before the end of the
/// warm-up are left out of everything except `replicas`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceReport {
    /// Requests that arrived.
    pub arrived: u64,
    /// Of these, the requests that arrived while no replica could take them.
    pub without_replica: u64,
    /// Of these, the requests that are larger than the KV cache of a replica, so that they are never served.
    pub too_large: u64,
    /// From the arrival of a request to its first token, for requests whose first token came.
    pub ttft: Durations,
    /// The mean time from one token to the next, after the first one, for requests that ended and had at least two.
    pub tpot: Durations,
    /// From the arrival of a request to its last token, for requests that ended.
    pub latency: Durations,
    /// The tokens of the prompts and of the answers of requests that ended.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Requests that had to begin again because their replica was lost.
    pub repeated: u64,
    /// Requests at the end of the interval that have arrived and had no first token yet.
    pub waiting: u64,
    /// Replicas that take requests at the end of the interval.
    pub replicas: u32,
}

impl ServiceReport {
    /// Whether nothing happened in the interval.
    pub fn is_empty(&self) -> bool {
        self.arrived == 0 && self.ttft.count == 0 && self.latency.count == 0 && self.repeated == 0
    }
}

/// A set of durations, counted in buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Durations {
    pub count: u64,
    /// The exact sum in nanoseconds, or the largest number if it is larger.
    pub sum_ns: u64,
    /// The shortest duration, or 0 if there are none.
    pub min_ns: u64,
    /// The longest duration.
    pub max_ns: u64,
    /// The number of durations in each bucket that has some, in order of the buckets.
    pub buckets: Vec<(u16, u32)>,
}

/// Buckets for each power of two.
const PARTS: u64 = 256;
const PARTS_BITS: u32 = PARTS.trailing_zeros();

impl Durations {
    pub fn add(&mut self, duration: SimDuration) {
        let nanos = duration.as_nanos();
        self.min_ns = if self.count == 0 { nanos } else { self.min_ns.min(nanos) };
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(nanos);
        self.max_ns = self.max_ns.max(nanos);
        let bucket = bucket_of(nanos);
        match self.buckets.binary_search_by_key(&bucket, |(known, _)| *known) {
            Ok(place) => self.buckets[place].1 += 1,
            Err(place) => self.buckets.insert(place, (bucket, 1)),
        }
    }

    /// Adds all durations of another set.
    pub fn merge(&mut self, other: &Durations) {
        if other.count > 0 {
            self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (bucket, count) in &other.buckets {
            match self.buckets.binary_search_by_key(bucket, |(known, _)| *known) {
                Ok(place) => self.buckets[place].1 = self.buckets[place].1.saturating_add(*count),
                Err(place) => self.buckets.insert(place, (*bucket, *count)),
            }
        }
    }

    /// The duration at a rank, counted from 1 in ascending order: the upper end of its bucket, at most the longest
    /// duration. The first and the last are exact. `None` if there are not that many.
    pub fn at_rank(&self, rank: u64) -> Option<SimDuration> {
        if rank <= 1 && self.count > 0 {
            return Some(SimDuration::from_nanos(self.min_ns));
        }
        let mut before = 0;
        for (bucket, count) in &self.buckets {
            before += u64::from(*count);
            if before >= rank {
                return Some(SimDuration::from_nanos(upper_end(*bucket).min(self.max_ns)));
            }
        }
        None
    }

    /// The mean, rounded down. `None` if there are none.
    pub fn mean(&self) -> Option<SimDuration> {
        self.sum_ns.checked_div(self.count).map(SimDuration::from_nanos)
    }
}

/// The bucket of a duration. Durations below 512 ns have a bucket each.
fn bucket_of(nanos: u64) -> u16 {
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(PARTS_BITS + 1);
    let bucket = u64::from(shift) * PARTS + (nanos >> shift);
    u16::try_from(bucket).expect("at most 56 * 256 + 511")
}

/// The largest duration in a bucket. A log from elsewhere may have buckets that no duration is in.
fn upper_end(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let shift = (bucket / PARTS).saturating_sub(1);
    let part = u128::from(bucket - shift * PARTS + 1);
    u64::try_from((part << shift.min(64)) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_at_most_a_256th_above_what_is_in_it() {
        let around = |power: u32| [1u64 << power, (1 << power) + 1, (1 << power) - 1, 3 << power.saturating_sub(1)];
        for nanos in (0..62).flat_map(around).chain(0..5000).chain([u64::MAX]) {
            let end = upper_end(bucket_of(nanos));
            assert!(end >= nanos && u128::from(end - nanos) * 256 <= u128::from(nanos), "{nanos} ends at {end}");
            assert!(end == u64::MAX || bucket_of(end + 1) == bucket_of(end) + 1, "{nanos} ends at {end}");
        }
    }

    #[test]
    fn ranks_means_and_sums_are_those_of_the_durations() {
        let (mut one, mut other) = (Durations::default(), Durations::default());
        [400, 20].into_iter().for_each(|nanos| one.add(SimDuration::from_nanos(nanos)));
        [20, 1_000_000].into_iter().for_each(|nanos| other.add(SimDuration::from_nanos(nanos)));
        one.merge(&other);
        let at = |rank| one.at_rank(rank).map(SimDuration::as_nanos);
        assert_eq!([1, 2, 3, 4, 5].map(at), [Some(20), Some(20), Some(400), Some(1_000_000), None]);
        assert_eq!(one.mean().map(SimDuration::as_nanos), Some(250_110));
    }
}
