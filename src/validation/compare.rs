//! Compares two runs of the same scenario, attempt by attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::spread::Spread;
use dryrack_event::AttemptTimeline;
use dryrack_units::{SimDuration, SimTime};

/// One decision, as predicted and as it was in the real run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The attempt: `chat`, or `chat replica 1, attempt 2` if it is not the first replica or attempt.
    pub attempt: String,
    /// The kind of decision: `attempt`, `place`, `policy` or `end`.
    pub what: &'static str,
    pub predicted: String,
    pub real: String,
}

impl Decision {
    pub fn is_equal(&self) -> bool {
        self.predicted == self.real
    }
}

/// The difference between a real time and the predicted time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeError {
    pub attempt: String,
    /// How much later than predicted the event happened, in nanoseconds; negative if it happened earlier.
    pub by: i64,
    /// An additional allowed error: the sampling interval, if the event depends on samples.
    pub allowed: SimDuration,
}

/// The result of a comparison. `decisions` covers every attempt of either run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    pub decisions: Vec<Decision>,
    pub starts: Vec<TimeError>,
    pub ends: Vec<TimeError>,
    /// Errors of the time at which a utilization policy first fired.
    pub policies: Vec<TimeError>,
    /// The number of pairs of attempts that were predicted to be placed one after the other. `pairs_in_order` is the
    /// number of these pairs that were really placed in that order.
    pub pairs: u64,
    pub pairs_in_order: u64,
    /// Descriptions of what could not be compared, each with the reason.
    pub not_compared: Vec<String>,
}

/// Compares two runs. `interval` returns the sampling interval of a job's GPUs, or `None` if they are not sampled.
pub fn compare(
    predicted: &[AttemptTimeline],
    real: &[AttemptTimeline],
    interval: impl Fn(&str) -> Option<SimDuration>,
) -> Agreement {
    let key = |attempt: &AttemptTimeline| (Arc::clone(&attempt.job), attempt.replica, attempt.attempt);
    let by_key = |attempts: &[AttemptTimeline]| -> BTreeMap<_, AttemptTimeline> {
        attempts.iter().map(|attempt| (key(attempt), attempt.clone())).collect()
    };
    let (predicted_by, real_by) = (by_key(predicted), by_key(real));
    let mut agreement = Agreement::default();
    let mut names: Vec<_> = predicted.iter().chain(real).map(key).collect();
    names.sort();
    names.dedup();
    for name in names {
        match (predicted_by.get(&name), real_by.get(&name)) {
            (Some(one), Some(other)) => agreement.add(one, other, interval(&name.0)),
            (one, other) => {
                let word = |there: bool| if there { "is" } else { "is not" }.to_string();
                let (predicted, real) = (word(one.is_some()), word(other.is_some()));
                let attempt = title(one.or(other).expect("one of them has it"));
                agreement
                    .not_compared
                    .push(format!("the times of {attempt}: only one of the two runs has this attempt"));
                agreement.decisions.push(Decision { attempt, what: "attempt", predicted, real });
            }
        }
    }
    agreement.order(predicted, &real_by.into_values().collect::<Vec<_>>());
    agreement
}

fn title(attempt: &AttemptTimeline) -> String {
    match (attempt.replica, attempt.attempt) {
        (0, 1) => attempt.job.to_string(),
        (replica, number) => format!("{} replica {replica}, attempt {number}", attempt.job),
    }
}

impl Agreement {
    fn add(&mut self, predicted: &AttemptTimeline, real: &AttemptTimeline, interval: Option<SimDuration>) {
        let attempt = title(predicted);
        let place = |timeline: &AttemptTimeline| match timeline.placed {
            Some(_) => timeline.on.join(" "),
            None => "nowhere".to_string(),
        };
        let policy =
            |timeline: &AttemptTimeline| if timeline.fired.is_some() { "holds" } else { "does not hold" }.to_string();
        let end = |timeline: &AttemptTimeline| match (timeline.outcome, timeline.because) {
            (Some(outcome), Some(because)) => format!("{}: {because}", outcome.name()),
            (None, Some(because)) => format!("tried again: {because}"),
            _ => "goes on".to_string(),
        };
        for (what, of) in [("place", &place as &dyn Fn(&AttemptTimeline) -> String), ("policy", &policy), ("end", &end)]
        {
            self.decisions.push(Decision { attempt: attempt.clone(), what, predicted: of(predicted), real: of(real) });
        }
        let allowed = predicted.fired.or(real.fired).and(interval).unwrap_or_default();
        let none = SimDuration::ZERO;
        self.time(("start", &attempt), predicted.started, real.started, none, |it| &mut it.starts);
        self.time(("end", &attempt), predicted.ended, real.ended, allowed, |it| &mut it.ends);
        self.time(("moment its policy holds", &attempt), predicted.fired, real.fired, allowed, |it| &mut it.policies);
    }

    /// Adds a time error to the list that `of` selects. Does nothing unless both runs have the event.
    fn time(
        &mut self,
        (what, attempt): (&str, &str),
        predicted: Option<SimTime>,
        real: Option<SimTime>,
        allowed: SimDuration,
        of: impl Fn(&mut Agreement) -> &mut Vec<TimeError>,
    ) {
        match (predicted, real) {
            (Some(predicted), Some(real)) => {
                let by = i128::from(real.as_nanos()) - i128::from(predicted.as_nanos());
                let by = i64::try_from(by).unwrap_or(if by > 0 { i64::MAX } else { i64::MIN });
                of(self).push(TimeError { attempt: attempt.to_string(), by, allowed });
            }
            (None, None) => {}
            (predicted, _) => {
                let side = if predicted.is_some() { "only predicted" } else { "only in the real run" };
                self.not_compared.push(format!("the {what} of {attempt}: {side}"));
            }
        }
    }

    fn order(&mut self, predicted: &[AttemptTimeline], real: &[AttemptTimeline]) {
        let placed = |attempts: &[AttemptTimeline]| -> BTreeMap<String, SimTime> {
            attempts.iter().filter_map(|attempt| Some((title(attempt), attempt.placed?))).collect()
        };
        let (predicted, real) = (placed(predicted), placed(real));
        let both: Vec<(SimTime, SimTime)> =
            predicted.iter().filter_map(|(attempt, at)| Some((*at, *real.get(attempt)?))).collect();
        for (index, one) in both.iter().enumerate() {
            for other in &both[index + 1..] {
                if one.0 != other.0 {
                    self.pairs += 1;
                    self.pairs_in_order += u64::from((one.0 < other.0) == (one.1 < other.1) && one.1 != other.1);
                }
            }
        }
    }

    pub fn equal_decisions(&self) -> usize {
        self.decisions.iter().filter(|decision| decision.is_equal()).count()
    }

    /// The time errors that exceed the tolerance, each with its kind.
    pub fn beyond(&self, tolerance: SimDuration) -> Vec<(&'static str, &TimeError)> {
        let all = [("start", &self.starts), ("end", &self.ends), ("policy", &self.policies)];
        let is_beyond =
            |error: &&TimeError| error.by.unsigned_abs() > tolerance.saturating_add(error.allowed).as_nanos();
        all.into_iter()
            .flat_map(|(what, errors)| errors.iter().filter(is_beyond).map(move |error| (what, error)))
            .collect()
    }

    /// Whether all decisions are the same and all times are within the tolerance.
    pub fn holds(&self, tolerance: SimDuration) -> bool {
        self.equal_decisions() == self.decisions.len() && self.beyond(tolerance).is_empty()
    }

    pub fn spread_of(errors: &[TimeError]) -> Option<Spread> {
        Spread::of(errors.iter().map(|error| error.by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_event::{Outcome, Reason};

    fn timeline(job: &str, placed: u64, fired: Option<u64>, ended: u64) -> AttemptTimeline {
        AttemptTimeline {
            job: Arc::from(job),
            replica: 0,
            attempt: 1,
            on: vec!["here/0".to_string()],
            placed: Some(SimTime::from_secs(placed)),
            started: Some(SimTime::from_secs(placed)),
            fired: fired.map(SimTime::from_secs),
            stopping: None,
            ended: Some(SimTime::from_secs(ended)),
            outcome: Some(Outcome::Completed),
            because: Some(Reason::Completed),
        }
    }

    #[test]
    fn a_run_agrees_with_itself() {
        let attempts = [timeline("a", 0, None, 5), timeline("b", 5, Some(8), 9)];
        let found = compare(&attempts, &attempts, |_| None);
        assert!(found.holds(SimDuration::ZERO), "{found:?}");
        assert_eq!((found.decisions.len(), found.pairs, found.pairs_in_order), (6, 1, 1));
    }

    #[test]
    fn what_differs_is_found_and_named() {
        let predicted = [timeline("a", 0, None, 5), timeline("b", 5, Some(8), 9), timeline("c", 7, None, 8)];
        let mut real = vec![timeline("a", 6, None, 7), timeline("b", 5, Some(10), 10)];
        real[0].on = vec!["here/1".to_string()];
        let found = compare(&predicted, &real, |_| Some(SimDuration::from_secs(1)));
        let unequal: Vec<(&str, &str)> =
            found.decisions.iter().filter(|it| !it.is_equal()).map(|it| (it.attempt.as_str(), it.what)).collect();
        assert_eq!(unequal, [("a", "place"), ("c", "attempt")]);
        // Job a starts 6 s late and ends 2 s late. The policy of b fires 2 s late, and 1 s of this is the sampling
        // interval.
        let beyond = |secs| -> Vec<(&str, i64)> {
            let found = found.beyond(SimDuration::from_secs(secs));
            found.iter().map(|(what, error)| (*what, error.by / 1_000_000_000)).collect()
        };
        assert_eq!(beyond(2), [("start", 6)]);
        assert_eq!(beyond(1), [("start", 6), ("end", 2)]);
        assert_eq!(beyond(0), [("start", 6), ("end", 2), ("policy", 2)]);
        assert_eq!((found.pairs, found.pairs_in_order), (1, 0));
        assert_eq!(found.not_compared.len(), 1);
    }
}
