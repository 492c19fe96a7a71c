//! The times at which synthetic jobs arrive.

use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration, SimTime};

/// The process by which jobs arrive. A rate is given as the mean time between two arrivals (`gap`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Arrivals at this fixed interval. The first job arrives at once.
    Every(SimDuration),
    Poisson {
        gap: SimDuration,
    },
    /// A Poisson process that switches between two states with different rates. Each state lasts for an exponentially
    /// distributed time. This is a Markov-modulated Poisson process (Fischer and Meier-Hellstern, *The Markov-modulated
    /// Poisson process (MMPP) cookbook*, Performance Evaluation 18, 1993). It begins in the quiet state.
    Bursty {
        quiet: Spell,
        busy: Spell,
    },
    /// A Poisson process whose rate oscillates once a day around its mean. It is drawn by thinning (Lewis and Shedler,
    /// *Simulation of Nonhomogeneous Poisson Processes by Thinning*, Naval Research Logistics 26, 1979).
    Daily {
        gap: SimDuration,
        /// The time of the peak after midnight. The simulation begins at midnight.
        peak: SimDuration,
        /// The amplitude of the rate as a proportion of the mean, at most 100 %.
        swing: Permille,
    },
    /// A Poisson process whose rate has one weight for each of the 24 hours of a day or the 168 hours of a week. It is
    /// drawn by thinning. The simulation begins at midnight, in the first hour.
    Hourly {
        /// The mean gap over the whole day or week.
        gap: SimDuration,
        /// The rate of each hour in proportion to the others. At least one weight must be greater than zero.
        weights: Vec<u64>,
    },
}

/// One of the two states of bursty arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spell {
    pub gap: SimDuration,
    /// The mean time for which the state lasts.
    pub lasts: SimDuration,
}

const HOUR: SimDuration = SimDuration::from_secs(3_600);
const DAY: SimDuration = SimDuration::from_secs(86_400);

impl Arrivals {
    /// The same process with its rate multiplied by `factor`. The lengths of quiet and busy spells stay, and so do equal
    /// intervals. Panics if the factor is not above 0.
    pub fn at_load(self, factor: f64) -> Arrivals {
        assert!(factor > 0.0, "a load of {factor}");
        let shorter = |gap: SimDuration| SimDuration::from_nanos((gap.as_nanos() as f64 / factor).max(1.0) as u64);
        let of = |spell: Spell| Spell { gap: shorter(spell.gap), ..spell };
        match self {
            Arrivals::Every(gap) => Arrivals::Every(gap),
            Arrivals::Poisson { gap } => Arrivals::Poisson { gap: shorter(gap) },
            Arrivals::Bursty { quiet, busy } => Arrivals::Bursty { quiet: of(quiet), busy: of(busy) },
            Arrivals::Daily { gap, peak, swing } => Arrivals::Daily { gap: shorter(gap), peak, swing },
            Arrivals::Hourly { gap, weights } => Arrivals::Hourly { gap: shorter(gap), weights },
        }
    }

    /// The arrival times from `from` until before `until`. Each is drawn when it is asked for.
    pub fn times(&self, stream: &mut Stream, from: SimTime, until: SimTime) -> impl Iterator<Item = SimTime> {
        let mut process = Process { arrivals: self, at: from, busy: false, switch: None, is_first: true };
        let next = move || Some(process.next(stream)).filter(|at| *at < until && *at != SimTime::MAX);
        std::iter::from_fn(next).fuse()
    }
}

struct Process<'a> {
    arrivals: &'a Arrivals,
    at: SimTime,
    busy: bool,
    /// The time at which the current state ends.
    switch: Option<SimTime>,
    is_first: bool,
}

impl Process<'_> {
    fn next(&mut self, stream: &mut Stream) -> SimTime {
        match *self.arrivals {
            Arrivals::Every(gap) => {
                let later = if std::mem::take(&mut self.is_first) { SimDuration::ZERO } else { gap };
                self.at = self.at.saturating_add(later);
            }
            Arrivals::Poisson { gap } => self.at = self.at.saturating_add(stream.exponential(gap)),
            Arrivals::Bursty { quiet, busy } => self.next_of_spells(stream, quiet, busy),
            Arrivals::Daily { gap, peak, swing } => self.next_of_day(stream, gap, peak, swing),
            Arrivals::Hourly { gap, ref weights } => self.next_of_hours(stream, gap, weights),
        }
        self.at
    }

    fn next_of_spells(&mut self, stream: &mut Stream, quiet: Spell, busy: Spell) {
        loop {
            let spell = if self.busy { busy } else { quiet };
            let switch = match self.switch {
                Some(switch) => switch,
                None => *self.switch.insert(self.at.saturating_add(stream.exponential(spell.lasts))),
            };
            let at = self.at.saturating_add(stream.exponential(spell.gap));
            if at < switch || switch == SimTime::MAX {
                self.at = at;
                return;
            }
            // The next arrival would be after the end of this state. Discard it and draw again from the next state.
            // This is valid because the exponential distribution has no memory.
            (self.at, self.busy, self.switch) = (switch, !self.busy, None);
        }
    }

    fn next_of_hours(&mut self, stream: &mut Stream, gap: SimDuration, weights: &[u64]) {
        let (sum, most) = (weights.iter().sum::<u64>() as f64, weights.iter().copied().max().unwrap_or(0));
        assert!(most > 0, "something comes in some hour");
        // Thinning draws at the highest rate, so the shortest gap is the mean gap times the mean weight divided by the
        // largest weight.
        let shortest = gap.as_nanos() as f64 * (sum / weights.len() as f64 / most as f64);
        loop {
            self.at = self.at.saturating_add(stream.exponential(SimDuration::from_nanos(shortest as u64)));
            let hour = self.at.as_nanos() / HOUR.as_nanos();
            let weight = weights[(hour % weights.len() as u64) as usize];
            if self.at == SimTime::MAX || stream.between(0, most - 1) < weight {
                return;
            }
            if weight == 0 {
                // Nothing comes in this hour, so the rest of it is left out.
                self.at = SimTime::from_nanos((hour + 1).saturating_mul(HOUR.as_nanos()));
            }
        }
    }

    fn next_of_day(&mut self, stream: &mut Stream, gap: SimDuration, peak: SimDuration, swing: Permille) {
        let swing = f64::from(swing.get()) / 1000.0;
        let most = SimDuration::from_nanos((gap.as_nanos() as f64 / (1.0 + swing)) as u64);
        loop {
            self.at = self.at.saturating_add(stream.exponential(most));
            let since_peak = (self.at.as_nanos() % DAY.as_nanos()) as f64 - peak.as_nanos() as f64;
            let turn = std::f64::consts::TAU * since_peak / DAY.as_nanos() as f64;
            let rate = 1.0 + swing * libm::cos(turn);
            if stream.unit() * (1.0 + swing) < rate || self.at == SimTime::MAX {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, days: u64) -> Vec<SimTime> {
        let mut stream = Stream::new(1, "test", 0);
        arrivals.times(&mut stream, SimTime::ZERO, SimTime::from_secs(86_400 * days)).collect()
    }

    #[test]
    fn a_fixed_gap_begins_at_once_and_ends_before_the_end() {
        let found = times(Arrivals::Every(HOUR.saturating_mul(6)), 1);
        assert_eq!(found, [0, 6, 12, 18].map(|hour| SimTime::from_secs(3600 * hour)));
    }

    /// 10 arrivals per hour give 96,000 arrivals in 400 days. The tolerance is three times the square root of this
    /// number.
    #[test]
    fn a_poisson_process_keeps_its_rate() {
        let found = times(Arrivals::Poisson { gap: SimDuration::from_secs(360) }, 400).len() as f64;
        assert!((found - 96_000.0).abs() < 3.0 * 96_000f64.sqrt(), "{found}");
    }

    /// The rate at the peak is 1.8 times the mean, and twelve hours later 0.2 times the mean. Over the six hours around
    /// the peak, the mean of 1 + 0.8 cos is 1 + 0.8 sin(pi/4) / (pi/4) = 1.72025. So these hours get 6/24 * 1.72025 =
    /// 0.43006 of a day's arrivals.
    #[test]
    fn a_day_has_its_peak_where_it_is_said_to_be() {
        let gap = SimDuration::from_secs(360);
        let found = times(Arrivals::Daily { gap, peak: HOUR.saturating_mul(14), swing: Permille::new(800) }, 400);
        let total = found.len() as f64;
        assert!((total - 96_000.0).abs() < 3.0 * 96_000f64.sqrt(), "{total}");
        let around = |at: &&SimTime| (11..17).contains(&(at.as_nanos() / HOUR.as_nanos() % 24));
        let part = found.iter().filter(around).count() as f64 / total;
        let error = (0.43006 * 0.56994 / total).sqrt();
        assert!((part - 0.43006).abs() < 3.0 * error, "{part}");
    }

    /// The weights are 3 from 9 to 12, 1 from 12 to 17 and 0 otherwise, which is 14 in total. So 9/14 of a day's jobs
    /// arrive from 9 to 12.
    #[test]
    fn an_hour_has_the_part_of_its_weight() {
        let weights = (0..24).map(|hour| if (9..12).contains(&hour) { 3 } else { u64::from((12..17).contains(&hour)) });
        let gap = SimDuration::from_secs(360);
        let found = times(Arrivals::Hourly { gap, weights: weights.collect() }, 400);
        let total = found.len() as f64;
        assert!((total - 96_000.0).abs() < 3.0 * 96_000f64.sqrt(), "{total}");
        let hour = |at: &SimTime| at.as_nanos() / HOUR.as_nanos() % 24;
        assert!(found.iter().all(|at| (9..17).contains(&hour(at))));
        let part = found.iter().filter(|at| hour(at) < 12).count() as f64 / total;
        assert!((part - 9.0 / 14.0).abs() < 3.0 * (45.0 / 196.0 / total).sqrt(), "{part}");
    }

    /// Only the hour in which time ends has no weight. The second arrival would be after the end of time.
    #[test]
    fn an_hour_without_weight_at_the_end_of_time_ends_the_list() {
        let last = (u64::MAX / HOUR.as_nanos() % 24) as usize;
        let mut weights = vec![1; 24];
        weights[last] = 0;
        let arrivals = Arrivals::Hourly { gap: SimDuration::MAX, weights };
        let found = arrivals.times(&mut Stream::new(7, "test", 0), SimTime::ZERO, SimTime::MAX).count();
        assert!(found < 10, "{found}");
    }

    /// A cycle has 2 hours with 2 arrivals per hour and 20 minutes with 40 per hour, which is 7.4286 per hour on
    /// average. The number of arrivals in one cycle of 2.3333 h has the mean 17.33. With exponential states, its
    /// variance is 17.33 + 4^2 + 13.33^2 = 211.1. 400 days have 4114.3 cycles.
    #[test]
    fn bursts_come_in_their_proportion() {
        let quiet = Spell { gap: SimDuration::from_secs(1800), lasts: HOUR.saturating_mul(2) };
        let busy = Spell { gap: SimDuration::from_secs(90), lasts: SimDuration::from_secs(1200) };
        let found = times(Arrivals::Bursty { quiet, busy }, 400).len() as f64;
        let (mean, error) = (9600.0 * 52.0 / 7.0, (4114.3 * 211.1f64).sqrt());
        assert!((found - mean).abs() < 3.0 * error, "{found}, expected {mean}");
    }
}
