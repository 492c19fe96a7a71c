//! Compares readings of GPU usage: the predicted and the real value of each sample.

use std::collections::BTreeMap;

use dryrack_event::{Event, Input, Phase, Record, RecordBody, UsageFact};
use dryrack_ids::AttemptId;
use dryrack_units::{Permille, SimDuration, SimTime};

/// A GPU counts as idle if its reading is at most `IDLE`, and as busy if its reading is at least `BUSY`.
const IDLE: Permille = Permille::new(50);
const BUSY: Permille = Permille::new(200);

/// How many samples agree with the prediction. Covers only samples that were predicted as idle or as busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    pub idle: u64,
    /// The number of samples that were predicted as idle and whose real reading is at most 5 %.
    pub idle_as_predicted: u64,
    /// The largest real reading of the samples that were predicted as idle.
    pub worst_idle: Permille,
    pub busy: u64,
    /// The number of samples that were predicted as busy and whose real reading is at least 20 %.
    pub busy_as_predicted: u64,
    /// The smallest real reading of the samples that were predicted as busy. `None` if there are none.
    pub worst_busy: Option<Permille>,
    /// Samples that only one of the two runs has, and samples that were predicted as neither idle nor busy.
    pub not_compared: u64,
}

/// Samples by attempt, number and GPU. The number of a sample is its time in intervals.
type Samples = BTreeMap<(AttemptId, u64, usize), Option<Permille>>;

/// Compares the readings of two runs. `interval` returns the sampling interval of a run.
pub fn readings(
    predicted: &[Record],
    real: &[Record],
    interval: impl Fn(AttemptId) -> Option<SimDuration>,
) -> Readings {
    let (predicted, mut real) = (samples(predicted, &interval), samples(real, &interval));
    let mut found = Readings::default();
    for (key, level) in predicted {
        match (level, real.remove(&key).flatten()) {
            (Some(level), Some(read)) if level <= IDLE => {
                found.idle += 1;
                found.idle_as_predicted += u64::from(read <= IDLE);
                found.worst_idle = found.worst_idle.max(read);
            }
            (Some(level), Some(read)) if level >= BUSY => {
                found.busy += 1;
                found.busy_as_predicted += u64::from(read >= BUSY);
                found.worst_busy = Some(found.worst_busy.map_or(read, |worst| worst.min(read)));
            }
            _ => found.not_compared += 1,
        }
    }
    found.not_compared += real.len() as u64;
    found
}

fn samples(records: &[Record], interval: &impl Fn(AttemptId) -> Option<SimDuration>) -> Samples {
    let mut started: BTreeMap<AttemptId, SimTime> = BTreeMap::new();
    let mut samples = Samples::new();
    for record in records {
        match &record.said {
            RecordBody::Event(Event::Moved { attempt, to: Phase::Running, .. }) => {
                started.insert(*attempt, record.at);
            }
            RecordBody::Input(Input::Usage(UsageFact::Sample { attempt, at, utilization, .. })) => {
                let since = started.get(attempt).and_then(|started| at.checked_since(*started));
                let Some((since, interval)) = since.zip(interval(*attempt)) else { continue };
                let number = (since.as_nanos() + interval.as_nanos() / 2) / interval.as_nanos();
                for (gpu, level) in utilization.iter().enumerate() {
                    samples.insert((*attempt, number, gpu), *level);
                }
            }
            _ => {}
        }
    }
    samples
}

impl Readings {
    pub fn add(&mut self, other: &Readings) {
        self.idle += other.idle;
        self.idle_as_predicted += other.idle_as_predicted;
        self.worst_idle = self.worst_idle.max(other.worst_idle);
        self.busy += other.busy;
        self.busy_as_predicted += other.busy_as_predicted;
        self.worst_busy = [self.worst_busy, other.worst_busy].into_iter().flatten().min();
        self.not_compared += other.not_compared;
    }
}
