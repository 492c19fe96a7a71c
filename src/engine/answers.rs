//! Checks queries against a run: what `explain`, `select`, `offers` and an evaluation say about a decision must agree
//! with the log.
//!
//! For every placement: the first candidate of the examination is the placement taken, with the score of the log (a
//! later candidate where earlier ones could not be committed); each of its nodes is judged fit; picking it by hand
//! would be allowed; the list of offers has it; an evaluation of the job at that moment says that it fits. For every
//! wait: the reasons and the refusal are those of an examination of the same demand, and of an evaluation.
//!
//! All decisions of a run are checked. Checks that replay the run again are sampled: three explanations of a job at a
//! moment in each run, and for every fourth seed the answer of `select` for one job. These checks take about a third
//! of the time of a random world.

use std::sync::Arc;

use super::explain::explain;
use super::rehearsal::Rehearsal;
use super::replay::Replay;
use super::selection::selection;
use dryrack_control::{Profile, Watch, Watched};
use dryrack_event::{Event, Histogram, Reason, Record, Refusal, Said};
use dryrack_fleet::{NodeClaim, Placement};
use dryrack_ids::{JobId, RunId};
use dryrack_rng::Stream;
use dryrack_scheduler::{Decision, Examination, Grouping, Seats, Selectable, Verdict, evaluate};
use dryrack_units::{Score, SimTime};
use dryrack_workload::{Demand, Pick};

/// The number of explanations that are requested for a run.
const EXPLAINED: u64 = 3;
/// One seed in this many is asked what could be selected.
const SELECTED: u64 = 4;

/// Panics where an answer contradicts the log of this rehearsal. Returns the number of placements and waits that were
/// checked.
pub fn hold_answers(rehearsal: &Rehearsal, records: &[Record]) -> u64 {
    let mut questions = Questions { rehearsal, last: Vec::new(), fallbacks: Vec::new(), placed: 0, held: 0 };
    let mut replay = Replay::new(Arc::clone(&rehearsal.profile), rehearsal.seed);
    replay.control.watch(Watch::Everybody);
    let mut step = 0;
    for (place, record) in records.iter().enumerate() {
        replay.take(record).expect("it has replayed before");
        if record.step != step {
            (step, questions.fallbacks) = (record.step, Vec::new());
            questions.forget_all_but_the_last();
        }
        questions.last.extend(replay.control.take_decisions());
        match &record.said {
            Said::Event(Event::Placed { run, score, placement }) => {
                let watched = replay.control.take_watched(*run).expect("what is placed is kept");
                let before = || place_before(&records[..place], *run);
                questions.placed(*run, (*score, placement), &watched, before);
            }
            Said::Event(Event::CommitRefused { run, fallback: true, .. }) => questions.fallbacks.push(*run),
            Said::Event(Event::Held { run, refusal, reasons }) if !is_of_pick(&records[place..], *run) => {
                questions.held(*run, (*refusal, reasons));
            }
            Said::Event(_) | Said::Input(_) => {}
        }
    }
    questions.sample(records);
    questions.placed + questions.held
}

/// Whether the run ends because its pick was refused: a hold before that is no decision.
fn is_of_pick(records: &[Record], run: RunId) -> bool {
    let ended = |record: &Record| match &record.said {
        Said::Event(Event::Ended { run: other, because, .. }) if *other == run => Some(*because),
        _ => None,
    };
    records.iter().find_map(ended) == Some(Reason::PickRefused)
}

/// The placement of the previous attempt.
fn place_before(records: &[Record], run: RunId) -> Option<&Placement> {
    records.iter().rev().find_map(|record| match &record.said {
        Said::Event(Event::Placed { run: other, placement, .. })
            if (other.job, other.replica) == (run.job, run.replica) =>
        {
            Some(placement)
        }
        _ => None,
    })
}

/// Whether all reasons come from a queue or a limit, and not from a decision.
fn is_of_flow(reasons: &Histogram) -> bool {
    let of_flow = [Reason::QueueOrder, Reason::BackingOff, Reason::QuotaExceeded, Reason::StaleRead];
    reasons.iter().all(|(reason, _)| of_flow.contains(&reason))
}

struct Questions<'a> {
    rehearsal: &'a Rehearsal,
    /// The decisions of this step, and the last earlier decision about each demand.
    last: Vec<Watched>,
    /// The runs of this step with a candidate that could not be committed; one entry for each such candidate.
    fallbacks: Vec<RunId>,
    placed: u64,
    held: u64,
}

impl Questions<'_> {
    fn profile(&self) -> &Profile {
        &self.rehearsal.profile
    }

    fn demand(&self, job: JobId) -> &Arc<Demand> {
        &self.rehearsal.arrivals[job.index()].spec.demand
    }

    /// Whether this decision also applies to the job.
    fn is_alike(&self, decided: &Watched, job: JobId) -> bool {
        // A historic release writes a decision about one row into another row that has taken over its id.
        let rows_change_hands = self.profile().historic && self.profile().flow.scanned().is_some();
        rows_change_hands || decided.run.job == job || *decided.sight.demand == **self.demand(job)
    }

    fn forget_all_but_the_last(&mut self) {
        let mut kept: Vec<Watched> = Vec::new();
        for watched in std::mem::take(&mut self.last).into_iter().rev() {
            let known =
                kept.iter().any(|later| later.run.job == watched.run.job && later.sight.demand == watched.sight.demand);
            if !known && matches!(watched.examination.decision, Decision::Refuse { .. }) {
                kept.push(watched);
            }
        }
        kept.reverse();
        self.last = kept;
    }

    fn placed<'r>(
        &mut self,
        run: RunId,
        (score, placement): (Score, &Placement),
        watched: &Watched,
        before: impl FnOnce() -> Option<&'r Placement>,
    ) {
        self.placed += 1;
        let restarts = self.profile().flow.scanned().is_some_and(|scan| scan.restarts_in_place.is_some());
        // A restart in place involves no decision.
        if restarts && run.attempt > 1 && score == Score::ZERO && before() == Some(placement) {
            return;
        }
        let (options, sight) = (&self.profile().scheduler, &watched.sight);
        let Decision::Place(candidates) = &watched.examination.decision else {
            panic!("{run} was placed on {placement:?}, but explained as refused: {:?}", watched.examination.decision);
        };
        let skipped = self.fallbacks.iter().filter(|refused| **refused == run).count();
        let Some(taken) = candidates.get(skipped) else { panic!("{run} took no candidate that is explained") };
        let of_run = self.profile().flow.polled().is_some() && sight.demand.nodes_apart() > 1;
        let is_it = match of_run && sight.seats == Seats::All {
            true => placement.claims().iter().all(|claim| taken.placement.claims().contains(claim)),
            false => taken.placement == *placement,
        };
        assert!(is_it, "{run} was placed on {placement:?}, but explained on {taken:?}");
        assert_eq!(score, taken.score, "{run} has another score in the log than in its explanation");
        for claim in placement.claims() {
            let verdict = watched.examination.nodes[claim.node.index()].verdict;
            assert!(verdict.is_fit(), "{run} was placed on {:?}, which is explained as {verdict:?}", claim.node);
        }
        if let Some(plan) = sight.plan(options).filter(|_| sight.demand.tasks == 1) {
            let is_offered = |node| plan.offers.iter().any(|offer| offer.node == node);
            assert!(placement.claims().iter().all(|claim| is_offered(claim.node)), "{run} took what is not offered");
        }
        if self.profile().historic {
            return;
        }
        // One placement in eight, because each check looks at every node and GPU.
        if self.placed.is_multiple_of(8) {
            let selectable = sight.select(options);
            for claim in placement.claims() {
                let verdict = selected(&sight.demand, &selectable[claim.node.index()], claim);
                assert!(verdict.is_fit(), "{run} was placed on {:?}, which is selectable as {verdict:?}", claim.node);
            }
            is_selectable_as_judged(&sight.demand, &selectable, &watched.examination);
        }
        if self.is_evaluated_alike(watched) {
            let (refusal, reasons) = evaluate(options, &sight.demand, &sight.fleet, Grouping::EachNode);
            assert!(refusal.is_none(), "{run} was placed, but evaluated as refused: {reasons}");
        }
    }

    /// An evaluation knows only the demand. The decision about a job of several replicas, or about a part of one,
    /// depends on more.
    fn is_evaluated_alike(&self, watched: &Watched) -> bool {
        let spec = &self.rehearsal.arrivals[watched.run.job.index()].spec;
        let is_whole = watched.sight.seats == Seats::All && watched.sight.demand == spec.demand;
        is_whole
            && watched.sight.context.replicas == 1
            && watched.sight.context.least <= 1
            && watched.sight.context.fleet.is_none()
            && !self.profile().historic
    }

    fn held(&mut self, run: RunId, (refusal, reasons): (Refusal, &Histogram)) {
        if is_of_flow(reasons) {
            return;
        }
        self.held += 1;
        let says_so = |watched: &&Watched| match &watched.examination.decision {
            Decision::Refuse { refusal: word, reasons: because } => *word == refusal && because == reasons,
            Decision::Place(_) => false,
        };
        let alike = || self.last.iter().filter(|watched| self.is_alike(watched, run.job));
        let Some(watched) = alike().find(says_so) else {
            let explained: Vec<_> = alike().map(|watched| (watched.at, &watched.examination.decision)).collect();
            panic!("{run} is held for {refusal:?} {reasons}, but explained by {explained:?}");
        };
        if self.is_evaluated_alike(watched) {
            let found =
                evaluate(&self.profile().scheduler, &watched.sight.demand, &watched.sight.fleet, Grouping::EachNode);
            assert_eq!(found, (Some(refusal), reasons.clone()), "{run} waits, and is evaluated otherwise");
        }
    }

    fn sample(&self, records: &[Record]) {
        if self.rehearsal.arrivals.is_empty() || records.is_empty() {
            return;
        }
        let seed = self.rehearsal.seed;
        let mut draws = Stream::new(seed, "swarm questions", 0);
        for _ in 0..EXPLAINED {
            let job = JobId::new(draws.index(self.rehearsal.arrivals.len()));
            let at = records[draws.index(records.len())].at;
            self.explained(job, at, records);
        }
        if seed.is_multiple_of(SELECTED) {
            let job = JobId::new(draws.index(self.rehearsal.arrivals.len()));
            let found = selection(self.rehearsal, job, None, None);
            if self.profile().historic {
                return;
            }
            let examination = found.sight.examine(&self.profile().scheduler);
            is_selectable_as_judged(&found.sight.demand, &found.nodes, &examination);
            // A job that its first decision places must be where `select` says it could be.
            if let Some((_, placement)) = first_placed(records, job).filter(|(at, _)| *at == found.at) {
                for claim in placement.claims() {
                    let verdict = selected(&found.sight.demand, &found.nodes[claim.node.index()], claim);
                    assert!(
                        verdict.is_fit(),
                        "{job:?} was placed on {:?}, which is selectable as {verdict:?}",
                        claim.node
                    );
                }
            }
        }
    }

    fn explained(&self, job: JobId, at: SimTime, records: &[Record]) {
        let profile = Arc::clone(&self.rehearsal.profile);
        let explained = explain(profile, self.rehearsal.seed, records, (job, None), Some(at));
        let explained = explained.expect("it has replayed before");
        let Some(standing) = explained.replicas.get(explained.replica as usize) else { return };
        let placed = standing.placed.as_ref().filter(|_| standing.is_placed()).map(|(_, placement)| placement);
        assert_eq!(explained.placed.as_ref().map(|here| &here.placement), placed, "explained elsewhere");
    }
}

/// The answer of `select` about what a claim takes of its node. A demand that names its GPUs may take fewer of a node
/// than an unconstrained one would, so only these GPUs are checked.
fn selected(demand: &Demand, known: &Selectable, claim: &NodeClaim) -> Verdict {
    match demand.pick {
        Some(Pick::AllGpus(_)) if demand.model().is_none() => {
            let verdicts = claim.gpus.iter().map(|part| known.gpus[usize::from(part.index)]);
            verdicts.clone().find(|verdict| !verdict.is_fit()).unwrap_or(Verdict::Fit)
        }
        Some(Pick::AllGpus(_) | Pick::Gpus(_) | Pick::Nodes(_)) | None => known.verdict,
    }
}

/// Asserts that exactly the nodes that the decision accepts can be picked by hand. Skips jobs that have a pick, and
/// models, of which a node may hold a part.
fn is_selectable_as_judged(demand: &Demand, selectable: &[Selectable], examination: &Examination) {
    if demand.pick.is_some() || demand.model().is_some() {
        return;
    }
    for (known, judged) in selectable.iter().zip(&examination.nodes) {
        assert_eq!(known.verdict, judged.verdict, "{:?} is selectable otherwise than it is judged", known.node);
    }
}

/// The time and place of the first placement of a replica of the job, if none had to wait before.
fn first_placed(records: &[Record], job: JobId) -> Option<(SimTime, &Placement)> {
    let first = records.iter().find_map(|record| match &record.said {
        Said::Event(Event::Placed { run, placement, .. }) if run.job == job => Some((record.at, Some(placement))),
        Said::Event(Event::Held { run, .. }) if run.job == job => Some((record.at, None)),
        Said::Event(_) | Said::Input(_) => None,
    });
    first.and_then(|(at, placement)| Some((at, placement?)))
}
