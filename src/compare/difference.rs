//! Two runs of one scenario, and the first decision in which they differ.

use super::decisions::{Decision, DecisionAbout, Decisions};
use dryrack_engine::{Progress, Rehearsal};
use dryrack_event::{Decider, Digest};
use dryrack_expect::{Expectation, Verdict};
use dryrack_ids::Names;
use dryrack_rehearse::{names, rehearse, rehearse_decided};
use dryrack_scheduler::Caching;
use dryrack_units::SimTime;
use serde::Serialize;
use serde_json::{Map, Value};

/// A run and its decisions.
pub struct RunDecisions {
    pub decisions: Vec<Decision>,
    pub verdicts: Vec<Verdict>,
    pub metrics: Map<String, Value>,
    pub digest: Digest,
    pub end: SimTime,
    names: Names,
}

/// What differs between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    Decision,
    /// All decisions are the same, but a job waits for other reasons.
    Reasons,
}

/// The first decision that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub of: DifferenceKind,
    #[serde(serialize_with = "as_text")]
    pub at: SimTime,
    pub job: String,
    pub sides: [SideDecision; 2],
}

/// The decisions of one side about the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SideDecision {
    /// The decisions at that time, with reasons and scores.
    pub decided: Vec<String>,
    /// The last decision before that time.
    pub before: Option<String>,
    /// The next decision after that time.
    pub after: Option<String>,
}

fn as_text<S: serde::Serializer>(at: &SimTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// Runs a scenario and collects its decisions. `decider` decides in place of the profile, if there is one. Panics like
/// every run if an invariant breaks or if the run does not end.
pub fn decide(
    rehearsal: &Rehearsal,
    expectations: Vec<Expectation>,
    progress: &Progress,
    decider: Option<&mut dyn Decider>,
) -> RunDecisions {
    let mut decisions = Decisions::new(names(rehearsal));
    let rehearsed = match decider {
        None => rehearse(rehearsal, expectations, progress, Caching::On, vec![&mut decisions]),
        Some(decider) => rehearse_decided(rehearsal, expectations, progress, vec![&mut decisions], decider),
    };
    let metrics = match serde_json::to_value(rehearsed.run_metrics.metrics()) {
        Ok(Value::Object(metrics)) => metrics,
        other => unreachable!("metrics are a map, not {other:?}"),
    };
    RunDecisions {
        decisions: decisions.all,
        verdicts: rehearsed.verdicts,
        metrics,
        digest: rehearsed.digest,
        end: rehearsed.end.at,
        names: names(rehearsal),
    }
}

/// The first decision in which two runs of one scenario differ or, if there is none, the first difference in reasons.
pub fn first_difference(one: &RunDecisions, other: &RunDecisions) -> Option<Difference> {
    first_different_decision([&one.decisions, &other.decisions], &one.names)
}

/// As [`first_difference`], for the decisions alone. `names` are those of the first side.
pub fn first_different_decision(decisions: [&[Decision]; 2], names: &Names) -> Option<Difference> {
    let ways: [(DifferenceKind, Listed); 2] = [
        (DifferenceKind::Decision, |decision| (!decision.goes_on).then_some(decision.bare.as_str())),
        (DifferenceKind::Reasons, |decision| Some(decision.line.split(", score ").next().unwrap_or(&decision.line))),
    ];
    ways.into_iter().find_map(|(of, listed)| {
        let first = first_other(decisions[0], decisions[1], listed)?;
        let side = |decisions: &[Decision]| {
            let about = || decisions.iter().filter(|one| one.about == first.about && !one.was_momentary);
            let line = |decision: &Decision| decision.line.clone();
            SideDecision {
                decided: about().filter(|decision| decision.at == first.at).map(line).collect(),
                before: about().rfind(|decision| decision.at < first.at).map(line),
                after: about().find(|decision| decision.at > first.at).map(line),
            }
        };
        let job = match &first.about {
            DecisionAbout::Question(name) => name.to_string(),
            DecisionAbout::Job(job) => names.job(*job).to_string(),
        };
        Some(Difference { of, at: first.at, job, sides: decisions.map(side) })
    })
}

impl RunDecisions {
    /// Whether a verdict on an expectation or the value of a metric differs.
    pub fn has_other_outcome(&self, other: &RunDecisions) -> bool {
        let passed = |ran: &RunDecisions| ran.verdicts.iter().map(|verdict| verdict.passed).collect::<Vec<_>>();
        passed(self) != passed(other) || self.metrics != other.metrics
    }
}

/// The part of a decision that is compared, or `None` to skip the decision.
type Listed = fn(&Decision) -> Option<&str>;

/// The first decision that differs; of the two sides, the one with the earlier time. The order of decisions about
/// different jobs within an instant does not matter.
fn first_other<'d>(one: &'d [Decision], other: &'d [Decision], listed: Listed) -> Option<&'d Decision> {
    let sorted = |decisions: &'d [Decision]| {
        let mut chosen: Vec<(&Decision, &str)> = decisions
            .iter()
            .filter(|one| !one.was_momentary)
            .filter_map(|decision| Some((decision, listed(decision)?)))
            .collect();
        chosen.sort_by_key(|(decision, _)| (decision.at, &decision.about));
        chosen
    };
    let (one, other) = (sorted(one), sorted(other));
    let is_same = |index: &usize| one.get(*index).map(|known| known.1) == other.get(*index).map(|known| known.1);
    let index = (0..one.len().max(other.len())).find(|index| !is_same(index))?;
    let pair = [one.get(index), other.get(index)].into_iter().flatten();
    pair.map(|(decision, _)| *decision).min_by_key(|decision| (decision.at, &decision.about))
}
