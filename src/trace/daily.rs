//! The daily cycle of submissions: a weight for each half hour of the day, and a clock that advances by weight.

use dryrack_units::{SimDuration, SimTime};

pub(super) const HALF_HOURS: usize = 48;
pub(super) const HALF_HOUR: SimDuration = SimDuration::from_secs(1800);

/// The weight of each half hour, beginning at midnight. The mean weight is 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Daily([f64; HALF_HOURS]);

impl Daily {
    /// The same weight for all half hours.
    pub fn even() -> Daily {
        Daily([1.0; HALF_HOURS])
    }

    /// Weights in proportion to `parts`. The parts must not be negative, and at least one must be greater than zero.
    pub fn of(parts: [f64; HALF_HOURS]) -> Daily {
        let mean = parts.iter().sum::<f64>() / HALF_HOURS as f64;
        Daily(parts.map(|part| part / mean))
    }

    #[cfg(test)]
    pub fn worth(&self) -> &[f64; HALF_HOURS] {
        &self.0
    }

    /// The total weight of the time from the first midnight to `at`.
    pub fn worth_until(&self, at: SimTime) -> f64 {
        let (whole, rest) = (at.as_nanos() / HALF_HOUR.as_nanos(), at.as_nanos() % HALF_HOUR.as_nanos());
        let (days, half_hour) = (whole / HALF_HOURS as u64, (whole % HALF_HOURS as u64) as usize);
        let of_day: f64 = self.0[..half_hour].iter().sum();
        let of_half_hour = self.0[half_hour] * (rest as f64 / HALF_HOUR.as_nanos() as f64);
        days as f64 * HALF_HOURS as f64 + of_day + of_half_hour
    }
}

/// A clock that advances by weight instead of time.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    daily: Daily,
    /// The number of half hours that have passed, and how much of the weight of the current one has passed.
    half_hours: u64,
    used: f64,
}

impl Clock {
    /// A clock at the first midnight.
    pub fn new(daily: Daily) -> Clock {
        Clock { daily, half_hours: 0, used: 0.0 }
    }

    /// Advances the clock by this weight and returns the new time. `None` if the new time is too large to represent.
    /// The clock never stops in a half hour of weight zero.
    pub fn forward(&mut self, worth: f64) -> Option<SimTime> {
        let whole_days = libm::floor(worth / HALF_HOURS as f64);
        self.half_hours = self.half_hours.checked_add((whole_days as u64).checked_mul(HALF_HOURS as u64)?)?;
        self.used += worth - whole_days * HALF_HOURS as f64;
        let worth_of = |half_hours: u64| self.daily.0[(half_hours % HALF_HOURS as u64) as usize];
        while self.used >= worth_of(self.half_hours) {
            self.used -= worth_of(self.half_hours);
            self.half_hours += 1;
        }
        let part = self.used / worth_of(self.half_hours) * HALF_HOUR.as_nanos() as f64;
        self.half_hours.checked_mul(HALF_HOUR.as_nanos())?.checked_add(part as u64).map(SimTime::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_by_as_the_day_says() {
        // The weight is zero before noon and two in each half hour after noon.
        let parts = std::array::from_fn(|half_hour| if half_hour < 24 { 0.0 } else { 3.0 });
        let daily = Daily::of(parts);
        let hours = |hours: u64| SimTime::from_secs(hours * 3600);
        let hundredths = |at: u64| (daily.worth_until(hours(at)) * 100.0 + 0.5) as u64;
        assert_eq!([0, 12, 13, 24, 37].map(hundredths), [0, 0, 400, 4800, 5200]);
        let mut clock = Clock::new(daily);
        let minutes =
            [1.0, 3.0, 44.0, 48.0, 1.0].map(|worth| clock.forward(worth).unwrap().as_nanos() / 60_000_000_000);
        // 12:15, 13:00, noon of the next day, noon of the day after, and 12:15 of that day.
        assert_eq!(minutes, [735, 780, 36 * 60, 60 * 60, 60 * 60 + 15]);
        assert_eq!(clock.forward(1e30), None);
    }
}
