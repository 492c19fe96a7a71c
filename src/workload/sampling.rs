//! How GPU usage is sampled, and what goes wrong between a GPU and its observer.

use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration, SimTime};

/// Sampling faults; none by default. The control plane determines how often samples are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Each sample is taken late by a random time up to this.
    pub jitter: SimDuration,
    /// Each sample arrives this long after it was taken.
    pub delay: SimDuration,
    pub lost: Permille,
    pub repeated: Permille,
    pub late: Permille,
    /// How much later the late samples and the repetitions arrive. If it exceeds the interval, samples arrive out of
    /// order.
    pub late_by: SimDuration,
    /// The probability, for each reading, that the probe reports none (`N/A`).
    pub not_available: Permille,
    /// The probability, for each reading, that the probe reports NaN.
    pub nan: Permille,
    /// Periods in which the exporter is silent: start, counted from the start of the run, and length.
    pub silences: Vec<(SimDuration, SimDuration)>,
    /// Steps of its clock: when, counted from the start of the run, and by how many nanoseconds it jumps.
    pub clock_steps: Vec<(SimDuration, i64)>,
}

/// What happens to one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleFate {
    Heard,
    Lost,
    /// Arrives this much later than it otherwise would.
    Late(SimDuration),
    /// Arrives, and arrives again this much later.
    Repeated(SimDuration),
}

/// What a probe reports for one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeFate {
    Number,
    NotAvailable,
    NotANumber,
}

impl Sampling {
    /// How long after its time a sample is taken.
    pub fn draw_jitter(&self, stream: &mut Stream) -> SimDuration {
        stream.duration(SimDuration::ZERO, self.jitter)
    }

    /// A single draw decides, so that enabling one fault disturbs the others as little as possible.
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

    /// What the exporter's clock shows at `now`, clamped to the range of [`SimTime`].
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
        // The run started at 7195 s; these are 5 s, 10 s and 20 s into it.
        assert_eq!(shown, [at(7_200), at(7_205 - 3_600), at(7_215)]);
        let early = Sampling { clock_steps: vec![(SimDuration::ZERO, -hour)], ..Sampling::default() };
        assert_eq!(early.clock(SimTime::ZERO, at(5)), SimTime::ZERO);
    }
}
