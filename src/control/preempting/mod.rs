//! Preemption: which runs are stopped so that the head of the queue can start.
//!
//! Preemption runs before the pass looks at any replica. So nobody takes a place that one before it in the queue can
//! have by stopping others. Runs that may be stopped for the head are taken, the least worth keeping first, until the
//! head would fit. Then those that turn out not to be needed are spared, the last taken first. Each is told to stop,
//! and waits again from its last checkpoint, if its job has any. What is stopping already counts as gone, so nobody
//! is stopped for room that is on its way.
//!
//! The same holds for the claim that is kept of a run which took too long to stop: its nodes are asked about it
//! again. Otherwise the head would lose its promise when the deadline passes, and would stop the next attempt for the
//! same room, without end if each takes too long. A claim that was asked about for the last time counts as taken for
//! good.
//!
//! The room that is on its way is promised. A replica that fits once the stopping runs are gone has a place there.
//! Replicas after it in the queue are judged as if that place were taken, until it is placed, ends, or would go
//! elsewhere. Replicas before it may take the place (Kubernetes' nominated nodes work alike). Otherwise a victim that
//! stops at once could return to where it was while the head waits for a slow one, and be stopped again, without end.
//! So the order of the queue must put a victim behind the replica that it was stopped for, which [`Profile::faults`]
//! checks. Then the first of the queue is never put off by its own victims, and nothing can be stopped twice for it.
//!
//! Trials are made in a fleet that is kept beside the real one ([`shadow`]). A replica that could not start even if
//! all that it may stop were gone is not tried at all ([`freeable`]). The plain computation copies the fleet and
//! keeps nothing.
//!
//! [`Profile::faults`]: super::Profile::faults

mod freeable;
mod shadow;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::Control;
use super::store::ReplicaIndex;
use dryrack_event::{Event, Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::RunId;
use dryrack_scheduler::{Caching, Candidate, Decision, Grouping, Preempt, decide_for};
use dryrack_units::{SimDuration, SimTime};
use freeable::Freeable;
use shadow::Shadow;

/// Replicas that wait for room that is on its way, with the places where they would go.
pub(super) type Nominations = BTreeMap<ReplicaIndex, Placement>;

/// What is kept from pass to pass.
#[derive(Default)]
pub(super) struct Preempting {
    /// Replicas that have been told to stop and have not stopped yet.
    stopping: BTreeSet<ReplicaIndex>,
    /// Runs that have ended and keep a claim, and are no longer asked about.
    given_up: BTreeSet<RunId>,
    shadow: Option<Box<Shadow>>,
    freeable: Freeable,
}

impl Preempting {
    /// Drops what depends on the profile.
    pub(super) fn begin_anew(&mut self) {
        (self.shadow, self.freeable) = (None, Freeable::default());
    }
}

/// A sort key that puts first what is least worth keeping.
type Worth = (i64, Reverse<((SimTime, bool, i64), ReplicaIndex)>);

impl Control {
    /// Promises room, in the order of the queue, to each replica that fits once the stopping runs are gone, and stops
    /// more runs for that. Returns whether room that was promised before may go to others.
    pub(super) fn preempt(&mut self) -> bool {
        if self.profile.scheduler.preempt == Preempt::Nobody {
            return false;
        }
        let nominations = match self.may_use_shadow() {
            true => self.promise_in_shadow(),
            false => self.promise_plainly(),
        };
        let before = std::mem::replace(&mut self.nominations, nominations);
        let given_up = before.iter().any(|(head, place)| self.nominations.get(head) != Some(place));
        if given_up {
            self.fleet.ask_again();
        }
        given_up
    }

    fn may_use_shadow(&self) -> bool {
        let keeps = matches!((self.caching, self.grouping), (Caching::On | Caching::Paranoid, Grouping::Classes));
        keeps && self.fleet.is_of_nodes_alone()
    }

    /// The shadow, brought up to date with the real fleet. The caller puts it back.
    fn take_shadow(&mut self) -> Box<Shadow> {
        match self.preempting.shadow.take() {
            Some(mut shadow) => {
                shadow.follow(self);
                shadow
            }
            None => Box::new(Shadow::new(self)),
        }
    }

    fn promise_in_shadow(&mut self) -> Nominations {
        let mut shadow = self.take_shadow();
        for index in &self.preempting.stopping {
            shadow.release(self.placement_of(*index));
        }
        self.awaited_claims().for_each(|kept| shadow.release(kept));
        let mut freeable = std::mem::take(&mut self.preempting.freeable);
        let mut nominations = Nominations::new();
        let mut walk = self.queue.walk(self.now);
        while let Some((key, demand)) = walk.next(&self.queue) {
            let head = key.replica();
            let found = match freeable.would_fit(self, head, &shadow) {
                Some(false) => None,
                Some(true) | None => self.place_in_shadow(head, &mut shadow),
            };
            if self.caching == Caching::Paranoid {
                assert_eq!(found, self.place_plainly(head, &nominations), "{}", self.replicas[head as usize].run());
            }
            let Some((victims, place)) = found else {
                // Replicas of this demand later in the queue may stop no more than this one, and find no more room.
                walk.leave_out(demand);
                continue;
            };
            for victim in victims {
                self.preempt_one(victim, head);
                // Stopping runs for one replica may free more than it takes.
                walk.take_in_again(&self.queue);
            }
            shadow.fleet.take(&place);
            nominations.insert(head, place);
        }
        self.preempting.shadow = Some(shadow);
        self.preempting.freeable = freeable;
        nominations
    }

    /// The runs to stop for it, and where it goes then. Afterwards the shadow is without these runs.
    fn place_in_shadow(&self, head: ReplicaIndex, shadow: &mut Shadow) -> Option<(Vec<ReplicaIndex>, Placement)> {
        if let Some(Candidate { placement, .. }) = shadow.judge(self, head) {
            return Some((Vec::new(), placement));
        }
        let mut candidates: BinaryHeap<Reverse<Worth>> = BinaryHeap::from(self.candidates_for(head));
        let mut chosen: Vec<ReplicaIndex> = Vec::new();
        let mut place = None;
        while place.is_none() {
            let Some(Reverse((_, Reverse((_, next))))) = candidates.pop() else {
                chosen.iter().for_each(|index| shadow.fleet.take(self.placement_of(*index)));
                return None;
            };
            shadow.release(self.placement_of(next));
            chosen.push(next);
            place = shadow.judge(self, head);
        }
        for at in (0..chosen.len()).rev() {
            let spared = self.placement_of(chosen[at]);
            shadow.fleet.take(spared);
            match shadow.judge(self, head) {
                Some(without) => {
                    place = Some(without);
                    chosen.remove(at);
                }
                None => shadow.release(spared),
            }
        }
        place.map(|place| (chosen, place.placement))
    }

    /// All runs that may be stopped for it.
    fn candidates_for(&self, head: ReplicaIndex) -> Vec<Reverse<Worth>> {
        let mut candidates = Vec::new();
        let rank = self.rank_of(head);
        let may_stop = |index: ReplicaIndex| match rank {
            Some(rank) if self.those_who_join().is_empty() => self.ranks_behind(index, rank),
            Some(_) | None => self.may_stop(index, head),
        };
        for (node, record) in self.nodes.iter().enumerate() {
            // A run that holds several nodes is counted on the first of them.
            let is_first = |index: ReplicaIndex| self.placement_of(index).claims()[0].node.index() == node;
            let runs = record.runs.iter().copied().filter(|index| may_stop(*index) && is_first(*index));
            candidates.extend(runs.map(|index| Reverse(self.worth_of(index))));
        }
        candidates
    }

    fn worth_of(&self, index: ReplicaIndex) -> Worth {
        let worth = match self.profile.scheduler.preempt {
            Preempt::Nobody => 0,
            Preempt::LowerPriority => i64::from(self.priority_of(index)),
            Preempt::MoreAttained => -i64::from(self.level(index)),
            Preempt::LongerRemaining => -i64::try_from(self.remaining(index).as_nanos()).unwrap_or(i64::MAX),
        };
        // Of equal worth, the run that began last has least to lose.
        (worth, Reverse((self.runs_there_since(index), index)))
    }

    fn promise_plainly(&mut self) -> Nominations {
        let mut nominations = Nominations::new();
        let mut walk = self.queue.walk(self.now);
        while let Some((key, demand)) = walk.next(&self.queue) {
            let head = key.replica();
            let Some((victims, place)) = self.place_plainly(head, &nominations) else {
                // Replicas of this demand later in the queue may stop no more than this one, and find no more room.
                walk.leave_out(demand);
                continue;
            };
            for victim in victims {
                self.preempt_one(victim, head);
                // Stopping runs for one replica may free more than it takes.
                walk.take_in_again(&self.queue);
            }
            nominations.insert(head, place);
        }
        nominations
    }

    /// The runs to stop for it, and where it goes then, given what is promised to others.
    fn place_plainly(&self, head: ReplicaIndex, nominations: &Nominations) -> Option<(Vec<ReplicaIndex>, Placement)> {
        let holders = self.holders();
        let mut fleet = self.fleet_without_what_stops(&holders);
        nominations.values().for_each(|place| fleet.take(place));
        let victims = match self.judge_on(head, &fleet) {
            Some(_) => Vec::new(),
            None => self.victims_for(head, &fleet, &holders)?,
        };
        victims.iter().for_each(|victim| release(&mut fleet, self.placement_of(*victim)));
        let place = self.judge_on(head, &fleet).expect("the victims were enough").placement;
        Some((victims, place))
    }

    /// The decision about a replica that waits behind others to whom room is promised, as if that room were taken;
    /// `None` if nothing is promised. `keep` is how many candidates are wanted.
    pub(super) fn decide_beside_nominations(&mut self, index: ReplicaIndex, keep: usize) -> Option<Decision> {
        if self.nominations.is_empty() {
            return None;
        }
        let promised = self.promised_before(index);
        if promised.is_empty() {
            return None;
        }
        let decision = if self.may_use_shadow() && keep == 1 {
            let mut shadow = self.take_shadow();
            promised.iter().for_each(|place| shadow.fleet.promise(place));
            let decision = shadow.decide(self, index);
            self.preempting.shadow = Some(shadow);
            decision
        } else {
            let replica = &self.replicas[index as usize];
            let demand = &self.demands[replica.demand as usize].demand;
            let context = self.context(replica.run());
            decide_for(&self.profile.scheduler, demand, context, &self.beside(&promised), self.grouping, keep)
        };
        match decision {
            // What is promised to others is still free, so the replica waits for its turn and not for room.
            Decision::Refuse { refusal: Refusal::Unfit, .. } if self.would_fit_now(index) => {
                let reasons = Histogram::of(Reason::QueueOrder, self.fleet.len() as u32);
                Some(Decision::Refuse { refusal: Refusal::Unfit, reasons })
            }
            decision => Some(decision),
        }
    }

    /// Whether it would fit if nothing were promised to others.
    fn would_fit_now(&mut self, index: ReplicaIndex) -> bool {
        let replica = &self.replicas[index as usize];
        let demand = &self.demands[replica.demand as usize].demand;
        let (options, draw) = (&self.profile.scheduler, self.context(replica.run()).draw);
        let ranked = match self.may_use_shadow() {
            true => self.rankings.decide(options, (replica.demand, demand), &self.fleet, draw),
            false => None,
        };
        match ranked {
            Some(decision) => matches!(decision, Decision::Place(_)),
            None => self.judge_on(index, &self.fleet).is_some(),
        }
    }

    /// The fleet as a waiting replica finds it, if something is promised to others before it in the queue.
    pub(super) fn left_to(&self, index: ReplicaIndex) -> Option<Fleet> {
        let promised = self.promised_before(index);
        (!promised.is_empty()).then(|| self.beside(&promised))
    }

    /// The places promised to others before it in the queue.
    fn promised_before(&self, index: ReplicaIndex) -> Vec<Placement> {
        if self.nominations.is_empty() {
            return Vec::new();
        }
        let place_of = |index: ReplicaIndex| self.queue.place_of(self.replicas[index as usize].key, self.now);
        let own = place_of(index);
        let others = self.nominations.iter().filter(|(head, _)| place_of(**head) < own);
        others.map(|(_, place)| place.clone()).collect()
    }

    fn beside(&self, promised: &[Placement]) -> Fleet {
        let mut fleet = self.fleet.clone();
        promised.iter().for_each(|place| fleet.promise(place));
        fleet
    }

    /// Withdraws the promise to a replica that no longer waits for its place.
    pub(super) fn forget_promise(&mut self, index: ReplicaIndex) {
        if self.nominations.remove(&index).is_some() {
            self.fleet.ask_again();
        }
    }

    fn fleet_without_what_stops(&self, holders: &[ReplicaIndex]) -> Fleet {
        let stops = |index: &&ReplicaIndex| self.replicas[**index as usize].phase == Phase::Stopping;
        let mut fleet = self.fleet.clone();
        holders.iter().filter(stops).for_each(|held| release(&mut fleet, self.placement_of(*held)));
        self.awaited_claims().for_each(|kept| release(&mut fleet, kept));
        fleet
    }

    /// Claims kept of runs that have ended, which will be free once their nodes confirm it.
    fn awaited_claims(&self) -> impl Iterator<Item = &Placement> {
        self.kept_claims.iter().filter(|(run, _)| !self.preempting.given_up.contains(run)).map(|(_, kept)| kept)
    }

    /// Notes whether the nodes of a run that has ended are still asked about what is kept of it.
    pub(super) fn note_asking(&mut self, run: RunId, is_asked_about: bool) {
        let has_changed = match is_asked_about {
            true => self.preempting.given_up.remove(&run),
            false => self.preempting.given_up.insert(run),
        };
        if has_changed {
            self.fleet.ask_again();
        }
    }

    /// All replicas that hold a place, in order of their numbers.
    fn holders(&self) -> Vec<ReplicaIndex> {
        let mut holders: Vec<_> = self.nodes.iter().flat_map(|node| node.runs.iter().copied()).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    fn placement_of(&self, index: ReplicaIndex) -> &Placement {
        self.replicas[index as usize].placement.as_ref().expect("it holds a place")
    }

    /// The fewest victims that this rule finds; `None` if even stopping all that may be stopped is not enough.
    fn victims_for(&self, head: ReplicaIndex, fleet: &Fleet, holders: &[ReplicaIndex]) -> Option<Vec<ReplicaIndex>> {
        let may_stop = |index: &ReplicaIndex| self.may_stop(*index, head);
        let mut candidates: Vec<ReplicaIndex> = holders.iter().copied().filter(may_stop).collect();
        if candidates.is_empty() {
            return None;
        }
        candidates.sort_by_cached_key(|index| self.worth_of(*index));
        let mut trial = fleet.clone();
        let mut chosen: Vec<ReplicaIndex> = Vec::new();
        let mut candidates = candidates.into_iter();
        while self.judge_on(head, &trial).is_none() {
            let next = candidates.next()?;
            release(&mut trial, self.placement_of(next));
            chosen.push(next);
        }
        for place in (0..chosen.len()).rev() {
            let spared = self.placement_of(chosen[place]);
            trial.take(spared);
            match self.judge_on(head, &trial) {
                Some(_) => drop(chosen.remove(place)),
                None => release(&mut trial, spared),
            }
        }
        Some(chosen)
    }

    fn priority_of(&self, index: ReplicaIndex) -> i32 {
        self.jobs[self.replicas[index as usize].job.index()].spec.priority
    }

    fn may_be_stopped(&self, index: ReplicaIndex) -> bool {
        matches!(self.replicas[index as usize].phase, Phase::Scheduled | Phase::Preparing | Phase::Running)
    }

    fn may_stop(&self, index: ReplicaIndex, head: ReplicaIndex) -> bool {
        self.may_be_stopped(index)
            && match self.profile.scheduler.preempt {
                Preempt::Nobody => false,
                Preempt::LowerPriority => self.priority_of(index) < self.priority_of(head),
                Preempt::LongerRemaining => self.remaining(index) > self.remaining(head),
                Preempt::MoreAttained => {
                    let (level, of_head) = (self.level(index), self.level(head));
                    level > of_head || (level == of_head && self.joins_behind(index, head))
                }
            }
    }

    /// What is left of its estimate after the time it has run, without the work that was lost; endless without an
    /// estimate.
    fn remaining(&self, index: ReplicaIndex) -> SimDuration {
        let replica = &self.replicas[index as usize];
        let running = if replica.phase == Phase::Running { self.now.since(replica.since) } else { SimDuration::ZERO };
        match self.jobs[replica.job.index()].spec.estimate {
            None => SimDuration::MAX,
            Some(estimate) => estimate.saturating_sub(replica.ran).saturating_sub(running),
        }
    }

    fn preempt_one(&mut self, index: ReplicaIndex, head: ReplicaIndex) {
        let [run, by] = [index, head].map(|index| self.replicas[index as usize].run());
        self.emit(Event::Preempted { run, by });
        let replica = &mut self.replicas[index as usize];
        if replica.phase == Phase::Running && self.jobs[replica.job.index()].spec.checkpoints {
            replica.ran = replica.ran.saturating_add(self.now.since(replica.since));
        }
        self.leave_as_last(index);
        self.stop(index, Outcome::Lost, Reason::Preempted);
    }
}

fn release(fleet: &mut Fleet, placement: &Placement) {
    placement.claims().iter().for_each(|claim| fleet.release(claim));
}
