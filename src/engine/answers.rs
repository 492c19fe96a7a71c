//! Compares the answers to queries with the log of a run. `explain`, `select`, `offers` and evaluations must say the
//! same about a decision as the log.
//!
//! For each placement, this module checks that:
//!
//! - the first candidate of the explanation is the logged placement, with the logged score (a later candidate, if the
//!   earlier candidates could not be committed);
//! - the explanation judges each node of the placement as fit;
//! - a hand pick of these nodes would be allowed;
//! - the list of offers contains these nodes;
//! - an evaluation of the job at that moment says that the job fits.
//!
//! For each wait, it checks that an explanation and an evaluation of the same demand give the refusal and the reasons
//! in the log.
//!
//! All decisions of a run are checked. Checks that replay the whole run are sampled: three explanations of a random job
//! at a random moment for each run, and one `select` query for every fourth seed. These checks take about a third of
//! the time of a random world.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::explain::explain;
use super::rehearsal::Rehearsal;
use super::replay::Replay;
use super::selection::selection;
use dryrack_control::{Profile, Watch, Watched};
use dryrack_event::{Event, Histogram, Reason, Record, RecordBody, Refusal};
use dryrack_fleet::{NodeClaim, Placement};
use dryrack_ids::{AttemptId, JobId};
use dryrack_rng::Stream;
use dryrack_scheduler::{
    Decision, Examination, GangPart, GpuOrder, Grouping, NodeFinding, Selectable, Ties, Verdict, evaluate,
};
use dryrack_units::{Score, SimTime};
use dryrack_workload::{Demand, DemandKind, Pick};

/// The number of explanations that are checked for each run.
const EXPLAINED: u64 = 3;
/// `select` is checked for one seed in this many.
const SELECTED: u64 = 4;

/// Panics if an answer contradicts the log of this rehearsal. Returns the number of placements and waits that were
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
            RecordBody::Event(Event::Placed { attempt, score, placement }) => {
                let watched = replay.control.take_watched(*attempt).expect("what is placed is kept");
                let before = || place_before(&records[..place], *attempt);
                questions.placed(*attempt, (*score, placement), &watched, before);
            }
            RecordBody::Event(Event::CommitRefused { attempt, fallback: true, .. }) => {
                questions.fallbacks.push(*attempt)
            }
            RecordBody::Event(Event::Held { attempt, refusal, reasons })
                if !is_of_pick(&records[place..], *attempt) =>
            {
                let own = replay.control.demand_of(attempt.job, attempt.replica);
                questions.held(*attempt, own, (*refusal, reasons));
            }
            RecordBody::Event(_) | RecordBody::Input(_) => {}
        }
    }
    questions.sample(records);
    questions.placed + questions.held
}

/// Whether the attempt ends because its hand pick was refused. A `Held` event just before such an end does not come
/// from a decision, so it is not checked.
fn is_of_pick(records: &[Record], attempt: AttemptId) -> bool {
    let ended = |record: &Record| match &record.said {
        RecordBody::Event(Event::Ended { attempt: other, because, .. }) if *other == attempt => Some(*because),
        _ => None,
    };
    records.iter().find_map(ended) == Some(Reason::PickRefused)
}

/// The latest placement of the replica in these records.
fn place_before(records: &[Record], attempt: AttemptId) -> Option<&Placement> {
    records.iter().rev().find_map(|record| match &record.said {
        RecordBody::Event(Event::Placed { attempt: other, placement, .. })
            if (other.job, other.replica) == (attempt.job, attempt.replica) =>
        {
            Some(placement)
        }
        _ => None,
    })
}

/// Reasons that only Slurm's flow gives: it checks limits before it asks the scheduler, and keeps nodes for other jobs.
const OF_SLURM: [Reason; 16] = [
    Reason::PartitionTimeLimit,
    Reason::PartitionNodeLimit,
    Reason::PartitionConfig,
    Reason::AccountNotAllowed,
    Reason::QosNotAllowed,
    Reason::HeldForPriority,
    Reason::InReservation,
    Reason::Reservation,
    Reason::QosGrpJobs,
    Reason::QosMaxJobsPerUser,
    Reason::QosMaxJobsPerAccount,
    Reason::QosMaxWall,
    Reason::QosMaxTresPerJob,
    Reason::QosGrpTres,
    Reason::QosMaxTresPerUser,
    Reason::QosMaxTresPerAccount,
];

/// Whether a replica that is held for these reasons was refused for the others. Each node counts once in both. Slurm's flow
/// may have another reason for a node than the scheduler.
fn agree(held: &Histogram, refused: &Histogram) -> bool {
    let is_of_slurm = |reason: Reason| OF_SLURM.contains(&reason) || reason == Reason::QueueOrder;
    if !held.iter().any(|(reason, _)| is_of_slurm(reason)) {
        return held == refused;
    }
    let count = |wanted: Reason| refused.iter().find(|(reason, _)| *reason == wanted).map_or(0, |(_, count)| count);
    let mut own = held.iter().filter(|(reason, _)| !is_of_slurm(*reason));
    own.all(|(reason, held)| held <= count(reason)) && held.total() == refused.total()
}

/// The refusal that explains a wait. Slurm's flow may hold a job that would be placed if no node were kept for others. Each
/// node then counts with what it lacks, or as one of too few if it has room.
fn refusal_in(examination: &Examination, held: &Histogram) -> Option<(Refusal, Histogram)> {
    match &examination.decision {
        Decision::Refuse { refusal, reasons } => Some((*refusal, reasons.clone())),
        Decision::Place(_) => {
            let of_node = |node: &NodeFinding| (node.verdict.reason().unwrap_or(Reason::GangIncomplete), 1);
            let is_kept = held.contains(Reason::InReservation) || held.contains(Reason::HeldForPriority);
            is_kept.then(|| (Refusal::Unfit, examination.nodes.iter().map(of_node).collect()))
        }
    }
}

/// Reasons that the Kubernetes flow gives without an attempt to schedule the pod, or after an attempt that failed.
const BEFORE_AN_ATTEMPT: [Reason; 7] = [
    Reason::SchedulingGated,
    Reason::OtherScheduler,
    Reason::ResourceClaimMissing,
    Reason::PodGroupMissing,
    Reason::GangPodsMissing,
    Reason::PluginFailed,
    Reason::NotAPod,
];

/// The reasons for which Kueue admits no workload or only a part of its pods, or has evicted it.
const OF_KUEUE: RangeInclusive<Reason> = Reason::LocalQueueMissing..=Reason::QueueStopped;

/// Whether all reasons come from the queue, from Kueue or from a limit. Then no decision was made, so there is nothing to compare.
fn is_of_flow(reasons: &Histogram) -> bool {
    let of_flow = [
        Reason::QueueOrder,
        Reason::BackingOff,
        Reason::PodTerminating,
        Reason::QuotaExceeded,
        Reason::StaleRead,
        Reason::Dependency,
        Reason::DependencyNeverSatisfied,
        Reason::ArrayTaskLimit,
    ];
    let is_of_flow = |reason: Reason| {
        let named = [&of_flow[..], &OF_SLURM, &BEFORE_AN_ATTEMPT];
        named.iter().any(|reasons| reasons.contains(&reason)) || OF_KUEUE.contains(&reason)
    };
    reasons.iter().all(|(reason, _)| is_of_flow(reason))
}

struct Questions<'a> {
    rehearsal: &'a Rehearsal,
    /// The decisions of this step, and for each replica and demand the last refusal of an earlier step.
    last: Vec<Watched>,
    /// Attempts of this step with a candidate that could not be committed. An attempt is listed once for each such
    /// candidate.
    fallbacks: Vec<AttemptId>,
    placed: u64,
    held: u64,
}

impl Questions<'_> {
    fn profile(&self) -> &Profile {
        &self.rehearsal.profile
    }

    fn demand(&self, job: JobId) -> Arc<Demand> {
        self.profile().scheduler.demand_of(&self.rehearsal.arrivals[job.index()].spec)
    }

    /// Whether this decision also explains a wait of `job` with this demand.
    fn is_alike(&self, decided: &Watched, job: JobId, demand: &Demand) -> bool {
        // In a historic scanning profile, a new row can get the id of a deleted row. Such a profile can write a
        // decision about one row into another row that now has the same id.
        let rows_change_hands = self.profile().historic && self.profile().flow.has_rows();
        rows_change_hands || decided.attempt.job == job || *decided.sight.demand == *demand
    }

    fn forget_all_but_the_last(&mut self) {
        let mut kept: Vec<Watched> = Vec::new();
        for watched in std::mem::take(&mut self.last).into_iter().rev() {
            // The pods of a job may differ in more than their demands, so each replica keeps its own refusal.
            let replica = |of: &Watched| (of.attempt.job, of.attempt.replica);
            let known = kept
                .iter()
                .any(|later| replica(later) == replica(&watched) && later.sight.demand == watched.sight.demand);
            if !known && matches!(watched.examination.decision, Decision::Refuse { .. }) {
                kept.push(watched);
            }
        }
        kept.reverse();
        self.last = kept;
    }

    fn placed<'r>(
        &mut self,
        attempt: AttemptId,
        (score, placement): (Score, &Placement),
        watched: &Watched,
        before: impl FnOnce() -> Option<&'r Placement>,
    ) {
        self.placed += 1;
        let restarts = self.profile().flow.restarts_in_place();
        // A replica that restarts in place keeps its placement without a new decision.
        if restarts && attempt.number > 1 && score == Score::ZERO && before() == Some(placement) {
            return;
        }
        let (options, sight) = (&self.profile().scheduler, &watched.sight);
        let Decision::Place(candidates) = &watched.examination.decision else {
            panic!(
                "{attempt} was placed on {placement:?}, but explained as refused: {:?}",
                watched.examination.decision
            );
        };
        let skipped = self.fallbacks.iter().filter(|refused| **refused == attempt).count();
        let Some(taken) = candidates.get(skipped) else { panic!("{attempt} took no candidate that is explained") };
        let of_run = self.profile().flow.places_runs() && sight.demand.nodes_apart() > 1;
        let is_it = match of_run && sight.gang_part == GangPart::Whole {
            true => placement.claims().iter().all(|claim| taken.placement.claims().contains(claim)),
            false => taken.placement == *placement,
        };
        assert!(is_it, "{attempt} was placed on {placement:?}, but explained on {taken:?}");
        assert_eq!(score, taken.score, "{attempt} has another score in the log than in its explanation");
        for claim in placement.claims() {
            let verdict = watched.examination.nodes[claim.node.index()].verdict;
            assert!(verdict.is_fit(), "{attempt} was placed on {:?}, which is explained as {verdict:?}", claim.node);
        }
        if let Some(plan) = sight.plan(options).filter(|_| sight.demand.tasks == 1) {
            let is_offered = |node| plan.offers.iter().any(|offer| offer.node == node);
            assert!(
                placement.claims().iter().all(|claim| is_offered(claim.node)),
                "{attempt} took what is not offered"
            );
        }
        if self.profile().historic || !self.profile().flow.decides_by_scheduler() {
            return;
        }
        // Check only one placement in eight, because each check examines every node and GPU. What is selectable is judged
        // as if it alone were picked, so a custom filter may read another number of tasks or GPUs.
        let has_own_filters = options.own_filters().next().is_some();
        if self.placed.is_multiple_of(8) && !has_own_filters {
            let selectable = sight.select(options);
            for claim in placement.claims() {
                let verdict = selected(&sight.demand, &selectable[claim.node.index()], claim);
                assert!(
                    verdict.is_fit(),
                    "{attempt} was placed on {:?}, which is selectable as {verdict:?}",
                    claim.node
                );
            }
            is_selectable_as_judged(&sight.demand, &selectable, &watched.examination);
        }
        if self.is_evaluated_alike(watched) {
            let (refusal, reasons) = evaluate(options, &sight.demand, &sight.fleet, Grouping::EachNode);
            assert!(refusal.is_none(), "{attempt} was placed, but evaluated as refused: {reasons}");
        }
    }

    /// Whether an evaluation must agree with this decision. An evaluation knows only the demand, and no promises. A decision
    /// about a job with several replicas, or about a part of a job, depends on more than the demand, so the two may differ.
    /// They also differ if the evaluation takes the category of a model from its architecture, which a decision does not.
    fn is_evaluated_alike(&self, watched: &Watched) -> bool {
        let demand = self.demand(watched.attempt.job);
        let is_whole = watched.sight.gang_part == GangPart::Whole && watched.sight.demand == demand;
        is_whole
            && !watched.is_by_promise
            && watched.sight.context.replicas == 1
            && watched.sight.context.least <= 1
            && watched.sight.context.fleet.is_none()
            && !self.profile().historic
            && self.profile().flow.decides_by_scheduler()
            && self
                .profile()
                .scheduler
                .deployments
                .evaluation
                .architectures
                .iter()
                .all(|known| known.category.is_none())
    }

    /// `own` is the demand that is decided about, or `None` if the replica has ended. With Kueue, it has the labels of
    /// flavors, which the demand of the job lacks. Replicas with equal demands share their refusals.
    fn held(&mut self, attempt: AttemptId, own: Option<&Arc<Demand>>, (refusal, reasons): (Refusal, &Histogram)) {
        if is_of_flow(reasons) {
            return;
        }
        self.held += 1;
        let says_so = |watched: &&Watched| {
            let found = refusal_in(&watched.examination, reasons);
            found.is_some_and(|(word, because)| word == refusal && agree(reasons, &because))
        };
        let own = own.cloned().unwrap_or_else(|| self.demand(attempt.job));
        let alike = || self.last.iter().filter(|watched| self.is_alike(watched, attempt.job, &own));
        let Some(watched) = alike().find(says_so) else {
            let explained: Vec<_> = alike().map(|watched| (watched.at, &watched.examination.decision)).collect();
            panic!("{attempt} is held for {refusal:?} {reasons}, but explained by {explained:?}");
        };
        if self.is_evaluated_alike(watched) {
            let (options, demand) = (&self.profile().scheduler, &watched.sight.demand);
            let (found, because) = evaluate(options, demand, &watched.sight.fleet, Grouping::EachNode);
            if matches!(watched.examination.decision, Decision::Place(_)) {
                return assert_eq!(found, None, "{attempt} would be placed on all nodes, and is evaluated otherwise");
            }
            assert_eq!(found, Some(refusal), "{attempt} waits, and is evaluated otherwise");
            // Where ties are drawn, the nodes that the first tasks of an unequal gang take, and with them the reasons
            // against the others, depend on the attempt.
            let is_drawn = options.ties == Ties::Random || options.gpus == GpuOrder::Random;
            if !is_drawn || !matches!(demand.kind, DemandKind::Sets(_)) {
                assert!(agree(reasons, &because), "{attempt} waits for {reasons}, and is evaluated for {because}");
            }
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
            if self.profile().historic || !self.profile().flow.decides_by_scheduler() {
                return;
            }
            let examination = found.sight.examine(&self.profile().scheduler);
            is_selectable_as_judged(&found.sight.demand, &found.nodes, &examination);
            let has_own_filters = self.profile().scheduler.own_filters().next().is_some();
            // If the job's first decision placed it, `select` must allow each node of that placement.
            if let Some((_, placement)) =
                first_placed(records, job).filter(|(at, _)| *at == found.at && !has_own_filters)
            {
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

/// The verdict of `select` on a node and the GPUs that a claim takes there. If the demand names its GPUs, checks only
/// these GPUs, because such a demand may take fewer GPUs of the node than a demand without names.
fn selected(demand: &Demand, known: &Selectable, claim: &NodeClaim) -> Verdict {
    match demand.pick {
        Some(Pick::AllGpus(_)) if demand.model().is_none() => {
            // One of several GPUs that are taken together has not the restricted cores of the others.
            let is_one_of_several =
                |verdict: &Verdict| claim.gpus.len() > 1 && verdict.reason() == Some(Reason::CoresRestricted);
            let verdicts = claim.gpus.iter().map(|part| known.gpus[usize::from(part.index)]);
            let verdicts = verdicts.filter(|verdict| !is_one_of_several(verdict));
            verdicts.clone().find(|verdict| !verdict.is_fit()).unwrap_or(Verdict::Fit)
        }
        Some(Pick::AllGpus(_) | Pick::Gpus(_) | Pick::Nodes(_)) | None => known.verdict,
    }
}

/// Asserts that a node can be picked by hand if and only if the decision judges it as fit. Skips jobs with a hand pick.
/// Skips models and unequal tasks too, because a node may hold only a part of them.
fn is_selectable_as_judged(demand: &Demand, selectable: &[Selectable], examination: &Examination) {
    if demand.pick.is_some() || demand.model().is_some() || !demand.sets().is_empty() {
        return;
    }
    for (known, judged) in selectable.iter().zip(&examination.nodes) {
        assert_eq!(known.verdict, judged.verdict, "{:?} is selectable otherwise than it is judged", known.node);
    }
}

/// The first placement of any replica of the job, and its time. `None` if a replica had to wait before that.
fn first_placed(records: &[Record], job: JobId) -> Option<(SimTime, &Placement)> {
    let first = records.iter().find_map(|record| match &record.said {
        RecordBody::Event(Event::Placed { attempt, placement, .. }) if attempt.job == job => {
            Some((record.at, Some(placement)))
        }
        RecordBody::Event(Event::Held { attempt, .. }) if attempt.job == job => Some((record.at, None)),
        RecordBody::Event(_) | RecordBody::Input(_) => None,
    });
    first.and_then(|(at, placement)| Some((at, placement?)))
}
