//! How GPU usage is sampled, and what can go wrong between a GPU and its observer.

use serde::Serialize;

use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration, SimTime};

/// The faults of sampling. There are none by default. The control plane sets the sampling interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sampling {
    /// The longest random delay with which a sample is taken.
    pub jitter: SimDuration,
    /// The time from taking a sample to its arrival.
    pub delay: SimDuration,
    pub lost: Permille,
    pub repeated: Permille,
    pub late: Permille,
    /// The additional delay of a late or repeated sample. If it exceeds the sampling interval, samples arrive out of
    /// order.
    pub late_by: SimDuration,
    /// The probability, for each reading, that the probe reports no value (`N/A`).
    pub not_available: Permille,
    /// The probability, for each reading, that the probe reports NaN.
    pub nan: Permille,
    /// Periods in which the exporter sends nothing. Each has its start, counted from the start of the run, and its
    /// length.
    pub silences: Vec<(SimDuration, SimDuration)>,
    /// Jumps of the exporter's clock. Each has its time, counted from the start of the run, and its size in
    /// nanoseconds.
    pub clock_steps: Vec<(SimDuration, i64)>,
}

/// What happens to one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleFate {
    Heard,
    Lost,
    /// The sample arrives this much later than usual.
    Late(SimDuration),
    /// The sample arrives, and arrives again after this time.
    Repeated(SimDuration),
}

/// The result of a probe of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeFate {
    Number,
    NotAvailable,
    NotANumber,
}

impl Sampling {
    /// Draws the delay with which a sample is taken.
    pub fn draw_jitter(&self, stream: &mut Stream) -> SimDuration {
        stream.duration(SimDuration::ZERO, self.jitter)
    }

    /// Draws what happens to a sample. It takes only one draw, so that enabling one fault changes the others as little
    /// as possible.
    pub fn draw_fate(&self, stream: &mut Stream) -> SampleFate {
        let drawn = stream.between(0, 999);
        let mut below = 0;
        let rows = [
            (self.lost, SampleFate::Lost),
            (self.late, SampleFate::Late(self.late_by)),
            (self.repeated, SampleFate::Repeated(self.late_by)),
        ];
        for (chance, fate) in rows {
            below += u64::from(chance.get());
            if drawn < below {
                return fate;
            }
        }
        SampleFate::Heard
    }

    pub fn draw_probe(&self, stream: &mut Stream) -> ProbeFate {
        let drawn = stream.between(0, 999);
        if drawn < u64::from(self.not_available.get()) {
            ProbeFate::NotAvailable
        } else if drawn < u64::from(self.not_available.get()) + u64::from(self.nan.get()) {
            ProbeFate::NotANumber
        } else {
            ProbeFate::Number
        }
    }

    pub fn is_silent(&self, since_start: SimDuration) -> bool {
        self.silences.iter().any(|(from, length)| since_start >= *from && since_start < from.saturating_add(*length))
    }

    /// The time that the exporter's clock shows at `now`, clamped to the range of [`SimTime`].
    pub fn clock(&self, started: SimTime, now: SimTime) -> SimTime {
        let since = now.since(started);
        let steps = self.clock_steps.iter().filter(|(at, _)| *at <= since).map(|(_, by)| i128::from(*by));
        let shown = i128::from(now.as_nanos()) + steps.sum::<i128>();
        SimTime::from_nanos(shown.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_steps_back_and_forth_and_stays_in_time() {
        let secs = SimDuration::from_secs;
        let hour = 3_600_000_000_000;
        let sampling = Sampling { clock_steps: vec![(secs(10), -hour), (secs(20), hour)], ..Sampling::default() };
        let at = |seconds| SimTime::ZERO + secs(seconds);
        let shown = [5, 7_205, 7_215].map(|now| sampling.clock(at(7_200 - 5), at(7_200).max(at(now))));
        // The run started at 7195 s. The clock is read 5 s, 10 s and 20 s after that.
        assert_eq!(shown, [at(7_200), at(7_205 - 3_600), at(7_215)]);
        let early = Sampling { clock_steps: vec![(SimDuration::ZERO, -hour)], ..Sampling::default() };
        assert_eq!(early.clock(SimTime::ZERO, at(5)), SimTime::ZERO);
    }
}
