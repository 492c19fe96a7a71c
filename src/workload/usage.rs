//! The real GPU usage of a running job. Only the world knows it. Samplers read it.

use std::sync::Arc;

use serde::Serialize;

use dryrack_rng::Stream;
use dryrack_units::{Bytes, Permille, SimDuration, UnitError, finite};

/// The usage of each GPU of a run, in the order of the run's placement. If the run has more GPUs than there are
/// entries, the last entry applies to all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    gpus: Vec<GpuUsage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuUsage {
    pub shape: Shape,
    /// The largest deviation of a reading in either direction. The deviation is random, and the result is clamped to 0
    /// to 100%.
    pub noise: Permille,
    /// The GPU memory in use. A recording has its own memory readings.
    pub memory: Option<Bytes>,
}

/// Utilization over the time since the run started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Shape {
    Constant(Permille),
    /// Levels, each with the time from which it holds, in order of time. The level is zero before the first time.
    Steps(Vec<(SimDuration, Permille)>),
    Phases(Phases),
    /// `high` for the first part of each period, `low` for the rest.
    Periodic {
        period: SimDuration,
        high_for: SimDuration,
        high: Permille,
        low: Permille,
    },
    Recorded {
        series: Arc<Series>,
        /// The position in the recording that corresponds to the start of the run.
        from: SimDuration,
    },
}

/// A sequence of phases of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phases {
    /// The kind, the length and the GPU level of each phase. Each length must be greater than zero.
    pub phases: Vec<(Phase, SimDuration, Permille)>,
    /// Whether the phases start again after the last one. Otherwise the last phase continues.
    pub repeat: bool,
}

/// The kind of work in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Phase {
    /// The job reads data or weights while its GPUs wait.
    Load,
    Train,
    Evaluate,
    /// The job does nothing.
    Idle,
}

impl Phase {
    pub const ALL: [(&'static str, Phase); 4] =
        [("load", Phase::Load), ("train", Phase::Train), ("evaluate", Phase::Evaluate), ("idle", Phase::Idle)];

    /// The default GPU level of the phase. A scenario can state another level.
    pub fn level(self) -> Permille {
        match self {
            Phase::Load | Phase::Idle => Permille::ZERO,
            Phase::Train => Permille::new(950),
            Phase::Evaluate => Permille::new(500),
        }
    }
}

/// A recording of one GPU: its readings in order of time. Each reading holds until the next one. The last reading holds
/// for as long as the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Series {
    pub times: Vec<SimDuration>,
    pub utilization: Vec<Option<Permille>>,
    /// One entry for each time, or empty.
    pub memory: Vec<Option<Bytes>>,
}

/// One row of a recording: all GPUs of a job at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    pub at: SimDuration,
    /// The utilization of each GPU.
    pub utilization: Vec<Option<Permille>>,
    /// The memory of each GPU, or empty.
    pub memory: Vec<Option<Bytes>>,
}

/// The usage of a GPU at one moment. Unknown values are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub utilization: Option<Permille>,
    pub memory: Option<Bytes>,
}

impl Reading {
    /// This reading of a GPU that others use as well. An unknown value stays unknown.
    pub fn with_others(self, others: Reading) -> Reading {
        let level = |own: Permille| Permille::new((own.get() + others.utilization.unwrap_or_default().get()).min(1000));
        let memory = |own: Bytes| Bytes::new(own.get().saturating_add(others.memory.unwrap_or_default().get()));
        Reading { utilization: self.utilization.map(level), memory: self.memory.map(memory) }
    }
}

/// Converts a percentage of a GPU from a probe or a recording. Rounds to a thousandth of the GPU. Returns a named error
/// for NaN, infinity and numbers outside 0 to 100.
pub fn utilization_of_percent(percent: f64) -> Result<Permille, UnitError> {
    let percent = finite("GPU utilization in percent", percent, 0.0, 100.0)?;
    Ok(Permille::new((percent * 10.0).round() as u32))
}

/// How much a GPU was used over a time span. All times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The time multiplied by the thousandths of the GPU that were in use.
    pub used: u128,
    pub idle: u128,
    /// The time for which the GPU's usage is unknown.
    pub unknown: u128,
}

impl Usage {
    /// The usage in which every GPU repeats the recording of one GPU from its beginning.
    pub fn of_one(series: &Series) -> Usage {
        let shape = Shape::Recorded { series: Arc::new(series.clone()), from: SimDuration::ZERO };
        Usage { gpus: vec![GpuUsage { shape, noise: Permille::ZERO, memory: None }] }
    }

    /// The usage of these GPUs. Panics if there are none.
    pub fn new(gpus: Vec<GpuUsage>) -> Usage {
        assert!(!gpus.is_empty(), "usage of no GPU");
        Usage { gpus }
    }

    /// Whether the usage of the n-th GPU is a recording, which is the reading of a whole GPU.
    pub fn is_recorded(&self, gpu: usize) -> bool {
        matches!(self.of(gpu).shape, Shape::Recorded { .. })
    }

    /// The usage of the n-th GPU of a run, `since` after the start of the run, without noise.
    pub fn level(&self, gpu: usize, since: SimDuration) -> Reading {
        let usage = self.of(gpu);
        let Reading { utilization, memory } = usage.shape.at(since);
        Reading { utilization, memory: memory.or(usage.memory) }
    }

    fn of(&self, gpu: usize) -> &GpuUsage {
        &self.gpus[gpu.min(self.gpus.len() - 1)]
    }

    /// The reading of the n-th GPU of a run, `since` after the start of the run. Each call takes exactly one random
    /// draw.
    pub fn read(&self, gpu: usize, since: SimDuration, noise: &mut Stream) -> Reading {
        let Reading { utilization, memory } = self.level(gpu, since);
        let spread = u64::from(self.of(gpu).noise.get());
        let off = noise.between(0, 2 * spread);
        let noisy = |level: Permille| {
            let level = (u64::from(level.get()) + off).saturating_sub(spread);
            Permille::new(level.min(1000) as u32)
        };
        Reading { utilization: utilization.map(noisy), memory }
    }

    /// The usage of the n-th GPU of a run between two times, counted from the start of the run. Ignores noise, because
    /// noise is an error of the observer.
    pub fn between(&self, gpu: usize, from: SimDuration, to: SimDuration, is_idle: impl Fn(Permille) -> bool) -> Spent {
        let mut spent = Spent::default();
        self.of(gpu).shape.pieces(from, to, &mut |length, level| match level {
            None => spent.unknown += length,
            Some(level) => {
                spent.used += length * u128::from(level.get());
                spent.idle += if is_idle(level) { length } else { 0 };
            }
        });
        spent
    }

    /// The GPUs with usage of their own.
    pub fn gpus(&self) -> &[GpuUsage] {
        &self.gpus
    }
}

impl Shape {
    fn at(&self, since: SimDuration) -> Reading {
        let utilization = match self {
            Shape::Constant(level) => Some(*level),
            Shape::Steps(steps) => {
                let next = steps.partition_point(|(at, _)| *at <= since);
                Some(next.checked_sub(1).map_or(Permille::ZERO, |last| steps[last].1))
            }
            Shape::Phases(phases) => Some(phases.at(since).1),
            Shape::Periodic { period, high_for, high, low } => {
                let into = SimDuration::from_nanos(since.as_nanos() % period.as_nanos());
                Some(if into < *high_for { *high } else { *low })
            }
            Shape::Recorded { series, from } => return series.at(from.saturating_add(since)),
        };
        Reading { utilization, memory: None }
    }

    /// Calls `tell` with each level between two times, and with how long that level lasts, in nanoseconds. May call it
    /// several times for the same level.
    fn pieces(&self, from: SimDuration, to: SimDuration, tell: &mut impl FnMut(u128, Option<Permille>)) {
        let nanos = |time: SimDuration| u128::from(time.as_nanos());
        match self {
            _ if to <= from => {}
            Shape::Constant(level) => tell(nanos(to - from), Some(*level)),
            Shape::Steps(steps) => {
                let known = steps.iter().map(|(at, level)| (*at, Some(*level)));
                let all = std::iter::once((SimDuration::ZERO, Some(Permille::ZERO))).chain(known);
                told_in_turn(all, (from, to), tell);
            }
            Shape::Phases(Phases { phases, repeat: false }) => {
                let mut begins = SimDuration::ZERO;
                let each = phases.iter().map(|(_, length, level)| {
                    let at = begins;
                    begins = begins.saturating_add(*length);
                    (at, Some(*level))
                });
                told_in_turn(each.collect::<Vec<_>>().into_iter(), (from, to), tell);
            }
            Shape::Phases(Phases { phases, repeat: true }) => {
                let parts: Vec<(u64, Permille)> =
                    phases.iter().map(|(_, length, level)| (length.as_nanos(), *level)).collect();
                told_again_and_again(&parts, (from, to), tell);
            }
            Shape::Periodic { period, high_for, high, low } => {
                let high_for = (*high_for).min(*period);
                let parts = [(high_for.as_nanos(), *high), ((*period - high_for).as_nanos(), *low)];
                told_again_and_again(&parts, (from, to), tell);
            }
            Shape::Recorded { series, from: begins } => {
                let (from, to) = (begins.saturating_add(from), begins.saturating_add(to));
                let end = if series.times.len() > 1 { series.length() } else { SimDuration::MAX };
                let known = series.times.iter().copied().zip(series.utilization.iter().copied());
                let all = std::iter::once((SimDuration::ZERO, None)).chain(known).chain([(end, None)]);
                told_in_turn(all, (from, to), tell);
            }
        }
    }
}

/// Calls `tell` with levels that each hold from a given time on. The times must be in ascending order.
fn told_in_turn(
    levels: impl Iterator<Item = (SimDuration, Option<Permille>)>,
    (from, to): (SimDuration, SimDuration),
    tell: &mut impl FnMut(u128, Option<Permille>),
) {
    let mut levels = levels.peekable();
    while let Some((at, level)) = levels.next() {
        let ends = levels.peek().map_or(to, |(next, _)| (*next).min(to));
        let begins = at.max(from);
        if begins < ends {
            tell(u128::from((ends - begins).as_nanos()), level);
        }
        if ends == to {
            return;
        }
    }
}

/// Calls `tell` with the levels of a sequence that repeats forever.
fn told_again_and_again(
    parts: &[(u64, Permille)],
    (from, to): (SimDuration, SimDuration),
    tell: &mut impl FnMut(u128, Option<Permille>),
) {
    let whole: u64 = parts.iter().map(|(length, _)| *length).fold(0, u64::saturating_add);
    let mut before = 0;
    for (length, level) in parts {
        // The time that this part takes until `time`: its whole length in each complete round, and its share of the
        // last round.
        let up_to = |time: SimDuration| {
            let (rounds, into) = (time.as_nanos() / whole, time.as_nanos() % whole);
            u128::from(rounds) * u128::from(*length) + u128::from(into.saturating_sub(before).min(*length))
        };
        let covered = up_to(to) - up_to(from);
        if covered > 0 {
            tell(covered, Some(*level));
        }
        before = u64::saturating_add(before, *length);
    }
}

impl Phases {
    /// The phase at the time `since` after the start, and its level.
    pub fn at(&self, since: SimDuration) -> (Phase, Permille) {
        let whole: u64 = self.phases.iter().map(|(_, length, _)| length.as_nanos()).fold(0, u64::saturating_add);
        let mut into = if self.repeat { since.as_nanos() % whole } else { since.as_nanos() };
        for (phase, length, level) in &self.phases {
            if into < length.as_nanos() {
                return (*phase, *level);
            }
            into -= length.as_nanos();
        }
        let (phase, _, level) = self.phases.last().expect("at least one phase");
        (*phase, *level)
    }
}

impl Series {
    /// The recording as rows of a job with only this GPU.
    pub fn rows(&self) -> Vec<UsageRow> {
        let row = |index: usize| UsageRow {
            at: self.times[index],
            utilization: vec![self.utilization[index]],
            memory: self.memory.get(index).map(|memory| vec![*memory]).unwrap_or_default(),
        };
        (0..self.times.len()).map(row).collect()
    }

    /// The length of the recording, including the time for which the last reading holds.
    pub fn length(&self) -> SimDuration {
        match self.times.as_slice() {
            [] => SimDuration::ZERO,
            [one] => *one,
            [.., before, last] => last.saturating_add(*last - *before),
        }
    }

    pub fn at(&self, at: SimDuration) -> Reading {
        let next = self.times.partition_point(|time| *time <= at);
        let over = at >= self.length() && self.times.len() > 1;
        match next.checked_sub(1) {
            Some(last) if !over => {
                Reading { utilization: self.utilization[last], memory: self.memory.get(last).copied().flatten() }
            }
            _ => Reading::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn minutes(minutes: u64) -> SimDuration {
        SimDuration::from_secs(60 * minutes)
    }

    #[test]
    fn each_shape_is_what_it_says_at_its_edges() {
        let full = Permille::new(1000);
        let phases = |repeat| {
            let phases = vec![(Phase::Load, minutes(5), Permille::ZERO), (Phase::Train, minutes(10), full)];
            Shape::Phases(Phases { phases, repeat })
        };
        let periodic = Shape::Periodic { period: minutes(10), high_for: minutes(3), high: full, low: Permille::ZERO };
        let rows = [
            ("before the first step", Shape::Steps(vec![(minutes(1), full)]), 0, 0),
            ("at a step", Shape::Steps(vec![(minutes(1), full)]), 1, 1000),
            ("at the end of a phase the next begins", phases(false), 5, 1000),
            ("the last phase goes on", phases(false), 100, 1000),
            ("or all begin again", phases(true), 15, 0),
            ("high first", periodic.clone(), 2, 1000),
            ("then low", periodic.clone(), 3, 0),
            ("and high again", periodic, 12, 1000),
        ];
        for (sentence, shape, at, wanted) in rows {
            assert_eq!(shape.at(minutes(at)).utilization, Some(Permille::new(wanted)), "{sentence}");
        }
    }

    #[test]
    fn a_recording_holds_each_reading_until_the_next_and_then_knows_nothing() {
        let series = Series {
            times: vec![minutes(1), minutes(2), minutes(4)],
            utilization: vec![Some(Permille::new(10)), None, Some(Permille::new(30))],
            memory: Vec::new(),
        };
        let found: Vec<Option<u32>> =
            [0, 1, 2, 3, 4, 5, 6].map(|at| series.at(minutes(at)).utilization.map(Permille::get)).into();
        assert_eq!(found, [None, Some(10), None, None, Some(30), Some(30), None]);
    }

    /// The totals over a time span must equal the sum of the readings minute by minute.
    #[test]
    fn what_is_spent_is_the_sum_of_what_is_read() {
        let level = Permille::new;
        let series = Series {
            times: vec![minutes(1), minutes(2), minutes(4)],
            utilization: vec![Some(level(10)), None, Some(level(0))],
            memory: Vec::new(),
        };
        let phases = |repeat| {
            let phases = vec![(Phase::Load, minutes(2), level(0)), (Phase::Train, minutes(3), level(900))];
            Shape::Phases(Phases { phases, repeat })
        };
        let shapes = [
            Shape::Constant(level(400)),
            Shape::Steps(vec![(minutes(1), level(300)), (minutes(3), level(0)), (minutes(7), level(1000))]),
            phases(false),
            phases(true),
            Shape::Periodic { period: minutes(7), high_for: minutes(3), high: level(800), low: level(0) },
            Shape::Recorded { series: Arc::new(series), from: minutes(1) },
        ];
        for shape in shapes {
            for (from, to) in [(0, 1), (0, 30), (2, 2), (3, 17), (4, 6), (29, 30)] {
                let mut read = Spent::default();
                for minute in from..to {
                    match shape.at(minutes(minute)).utilization {
                        None => read.unknown += u128::from(minutes(1).as_nanos()),
                        Some(now) => {
                            read.used += u128::from(minutes(1).as_nanos()) * u128::from(now.get());
                            read.idle += if now == level(0) { u128::from(minutes(1).as_nanos()) } else { 0 };
                        }
                    }
                }
                let gpu = GpuUsage { shape: shape.clone(), noise: Permille::ZERO, memory: None };
                let covered = Usage::new(vec![gpu]).between(0, minutes(from), minutes(to), |now| now == level(0));
                assert_eq!(covered, read, "{shape:?} from {from} to {to}");
            }
        }
    }

    #[test]
    fn noise_stays_in_its_bounds_and_moves_no_other_draw() {
        let noisy = GpuUsage { shape: Shape::Constant(Permille::new(980)), noise: Permille::new(50), memory: None };
        let usage = Usage::new(vec![noisy]);
        let mut stream = Stream::new(1, "usage noise", 0);
        let levels: Vec<u32> = (0..1000)
            .map(|_| usage.read(3, SimDuration::ZERO, &mut stream).utilization.expect("it is known").get())
            .collect();
        assert_eq!((levels.iter().min(), levels.iter().max()), (Some(&930), Some(&1000)));
    }

    #[test]
    fn what_a_probe_says_is_a_thousandth_or_refused_by_name() {
        assert_eq!(utilization_of_percent(99.67), Ok(Permille::new(997)));
        let refusals = [f64::NAN, f64::INFINITY, -0.1, 100.1].map(|percent| match utilization_of_percent(percent) {
            Err(UnitError::NotANumber { .. }) => "NaN",
            Err(UnitError::Infinite { .. }) => "infinite",
            Err(UnitError::OutOfRange { .. }) => "out of range",
            other => panic!("{other:?}"),
        });
        assert_eq!(refusals, ["NaN", "infinite", "out of range", "out of range"]);
    }
}
