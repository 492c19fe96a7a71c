//! Runs that go on for ever because the program that they model would.
//!
//! Kueue lets a workload preempt another one that is then admitted first again, and is preempted again, or that preempts the
//! first in its turn before it runs. There are four ways:
//!
//! - It admits a workload in part by taking the largest number of pods that would fit, also if others had to be preempted
//!   for them (`scenarios/kubernetes/kueue-two-workloads-preempt-each-other.yaml`).
//! - Under fair sharing, the share of a queue counts without workloads of the queue that are about to be preempted, also if
//!   these are spared in the end (`scenarios/kubernetes/kueue-fair-sharing-preempts-again-and-again.yaml`).
//! - Under fair sharing, a queue reclaims a resource of which it borrows nothing, whatever its share is, but the order of
//!   admission also counts what it borrows of other resources (`scenarios/kubernetes/kueue-reclaims-again-and-again.yaml`).
//! - Under fair sharing, a workload preempts others of its own queue, and a workload of another queue, whose share is smaller,
//!   is then admitted before it.
//!
//! And kube-scheduler tries the pods of a gang again and again which never find nodes together, each time until their time to
//! wait for each other is over.
//!
//! Such a run is judged up to a time at which this is plain.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use dryrack_event::{Event, FleetFact, Input, Phase, Reason, Record, RecordBody, Sink};
use dryrack_ids::{AttemptId, JobId};
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;

/// How often a workload is preempted by another one that never runs, until this is taken to be endless.
const MANY: u32 = 100;

/// How often the time of a pod is over in which it waits for the others of its gang, until this is taken to be endless.
const TIMEOUTS: u32 = 1000;

/// A sink that finds two workloads of Kueue, of which one preempts the other one again and again without ever running, in
/// one of these ways, or a gang that is tried again and again.
#[derive(Default)]
pub struct EndlessRun {
    /// The jobs of workloads that may be admitted in part.
    partial: BTreeSet<JobId>,
    has_fair_sharing: bool,
    /// For each workload that preempts and each one that is preempted: how often this happened since the first last ran.
    preempted: BTreeMap<(JobId, JobId), u32>,
    /// How often the time of each pod of a gang was over since one of the gang was last placed.
    timeouts: BTreeMap<AttemptId, u32>,
    endless_from: Option<SimTime>,
}

impl EndlessRun {
    pub fn of(log: &[Record]) -> EndlessRun {
        let mut found = EndlessRun::default();
        for record in log {
            match &record.said {
                RecordBody::Input(input) => found.input(record.step, record.at, input),
                RecordBody::Event(event) => found.event(record.step, record.at, event),
            }
        }
        found
    }

    /// The time from which on the run is endless; `None` if it is not endless for this reason.
    pub fn endless_from(&self) -> Option<SimTime> {
        self.endless_from
    }
}

/// Whether Kueue may admit the job's workload in part.
pub(crate) fn may_be_partial(spec: &JobSpec) -> bool {
    let pod_sets = spec.queued.iter().flat_map(|part| &part.workload.pod_sets);
    pod_sets.into_iter().any(|pod_set| pod_set.min_count.is_some())
}

/// Whether one of these objects is a configuration with fair sharing.
fn enables_fair_sharing(objects: &str) -> bool {
    let objects: Vec<Value> = serde_json::from_str(objects).unwrap_or_default();
    objects.iter().any(|object| object["fairSharing"]["enable"] == true)
}

impl Sink for EndlessRun {
    fn input(&mut self, _: u64, _: SimTime, input: &Input) {
        match input {
            Input::Submit { job, spec } if may_be_partial(spec) => {
                self.partial.insert(*job);
            }
            Input::Fleet(FleetFact::KueueApplied { objects }) => self.has_fair_sharing |= enables_fair_sharing(objects),
            _ => {}
        }
    }

    fn event(&mut self, _: u64, at: SimTime, event: &Event) {
        match event {
            Event::Moved { attempt, to: Phase::Running, .. } => self.preempted.retain(|(by, _), _| *by != attempt.job),
            Event::Evicted { job, by: Some(by), because, .. }
                if *because == Reason::InCohortFairSharing || self.has_fair_sharing || self.partial.contains(by) =>
            {
                let count = self.preempted.entry((*by, *job)).or_default();
                *count += 1;
                if *count == MANY {
                    self.endless_from.get_or_insert(at);
                }
            }
            Event::Held { attempt, reasons, .. } if reasons.contains(Reason::PermitTimeout) => {
                let count = self.timeouts.entry(*attempt).or_default();
                *count += 1;
                if *count == TIMEOUTS {
                    self.endless_from.get_or_insert(at);
                }
            }
            Event::Placed { attempt, .. } => self.timeouts.retain(|other, _| other.job != attempt.job),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use dryrack_event::{Histogram, Refusal};
    use dryrack_fleet::Placement;
    use dryrack_units::Score;

    fn is_endless(may_be_partial: bool, because: Reason, times: u32, runs: bool) -> bool {
        let [_, serve] = [0, 1].map(JobId::new);
        let partial = if may_be_partial { BTreeSet::from([serve]) } else { BTreeSet::new() };
        goes_on(EndlessRun { partial, ..EndlessRun::default() }, because, times, runs)
    }

    fn goes_on(mut found: EndlessRun, because: Reason, times: u32, runs: bool) -> bool {
        let [train, serve] = [0, 1].map(JobId::new);
        for time in 0..times {
            let at = SimTime::from_secs(u64::from(time));
            found.event(1, at, &Event::Evicted { job: train, because, by: Some(serve), text: Arc::from("") });
            if runs {
                let attempt = AttemptId { job: serve, replica: 0, number: 1 };
                let moved = Event::Moved { attempt, from: Phase::Scheduled, to: Phase::Running, because: None };
                found.event(1, at, &moved);
            }
        }
        found.endless_from().is_some()
    }

    #[test]
    fn a_gang_that_is_tried_again_and_again_goes_on_for_ever() {
        let attempt = |job| AttemptId { job: JobId::new(job), replica: 0, number: 1 };
        let tried = |times: u32, placed: usize| {
            let mut found = EndlessRun::default();
            for time in 0..times {
                let (at, reasons) = (SimTime::from_secs(u64::from(time)), Histogram::of(Reason::PermitTimeout, 1));
                if time == TIMEOUTS / 2 {
                    let (attempt, score) = (attempt(placed), Score::ZERO);
                    found.event(1, at, &Event::Placed { attempt, score, placement: Placement::default() });
                }
                found.event(1, at, &Event::Held { attempt: attempt(1), refusal: Refusal::Unfit, reasons });
            }
            found.endless_from()
        };
        assert_eq!(tried(TIMEOUTS, 2), Some(SimTime::from_secs(u64::from(TIMEOUTS) - 1)));
        assert_eq!((tried(TIMEOUTS - 1, 2), tried(TIMEOUTS, 1)), (None, None));
    }

    #[test]
    fn a_workload_that_preempts_and_never_runs_goes_on_for_ever() {
        let reclaims = Reason::InCohortReclamation;
        assert!(is_endless(true, reclaims, MANY, false));
        assert!(is_endless(false, Reason::InCohortFairSharing, MANY, false));
        assert!(!is_endless(true, reclaims, MANY - 1, false), "too few preemptions");
        assert!(!is_endless(false, reclaims, MANY, false), "it is admitted whole or not at all");
        assert!(!is_endless(true, reclaims, MANY, true), "it runs in between");
        for because in [reclaims, Reason::InClusterQueue] {
            let mut fair = EndlessRun::default();
            let objects = Arc::from(r#"[{"kind":"Configuration","fairSharing":{"enable":true}}]"#);
            fair.input(1, SimTime::ZERO, &Input::Fleet(FleetFact::KueueApplied { objects }));
            assert!(goes_on(fair, because, MANY, false), "{because}");
            assert!(!is_endless(false, because, MANY, false), "{because}, without fair sharing");
        }
    }
}
