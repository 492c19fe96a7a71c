//! Preemption: which attempts are stopped so that the head of the queue can start.
//!
//! Preemption runs before the pass judges any replica. So no replica takes a place that an earlier replica in the queue
//! can get by preemption. Attempts that may be stopped for the head are chosen one by one, the least valuable first,
//! until the head would fit. Then every chosen attempt that is not needed is spared, the last chosen first. Each
//! remaining victim is told to stop. It waits again, and continues from its last checkpoint if its job has checkpoints.
//! An attempt that is already stopping counts as gone. So no attempt is stopped for room that is about to become free.
//!
//! An attempt that takes too long to stop keeps its claim after its deadline. This claim also counts as gone, because
//! its nodes are still asked whether the attempt has stopped. Otherwise the head would lose its promised room at the
//! deadline, and would stop the next attempt for the same room. This would repeat without end if every attempt takes
//! too long to stop. After the last request, the claim counts as taken for good.
//!
//! Room that is about to become free is promised. A replica that fits once the stopping attempts are gone gets a
//! promised place, called its nomination. Replicas behind it in the queue are judged as if that place were taken. The
//! promise lasts until the replica is placed, ends, or no longer fits. Replicas ahead of it in the queue may take the
//! place, as with Kubernetes' nominated nodes.
//!
//! A promise keeps its place as long as the replica fits there, even if another place would now be better. Otherwise a
//! replica ahead could be promised the room of an attempt that was stopped for a replica behind it, and leave that room
//! again once the attempt is back. The attempt would be stopped again, without end. Some rules for gangs do not find every
//! place. So a promised place counts even if the rule would not find it now: the promise stays, and the replica takes the
//! place as soon as it is free. A promise also covers the room that its fleet must have ([`spare_room`]).
//!
//! Without promises, a victim that stops quickly could return to its old place while the head waits for a slower
//! victim. It would then be stopped again, without end. So the queue order must put a victim behind the replica for
//! which it was stopped, which [`Profile::faults`] checks. Then a victim never delays the first replica in the queue,
//! and no attempt is stopped for that replica twice.
//!
//! A custom filter may refuse a node because it is too empty. Then a replica may lose its promise when the room is free, and
//! the victims come back. So beside filters that read the state of nodes, no attempt of a replica is stopped twice for the
//! same waiting one, unless a replica ahead of the waiting one has been placed or has ended in the meantime. As victims are
//! behind those for which they are stopped, this does not go on without end either.
//!
//! Preemption tries placements on a second fleet that is kept beside the real one ([`shadow`]). A replica is not tried
//! at all if it could not start even without all attempts that it may stop ([`freeable`]). The plain computation copies
//! the fleet and keeps no results.
//!
//! [`Profile::faults`]: crate::Profile::faults

pub(super) mod freeable;
mod memory;
mod shadow;
mod spare_room;

pub(super) use memory::{Nominations, Preempting};

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::flow::Flow;
use crate::queue::Queue;
use crate::queue::attained::level;
use crate::queue::backfill::plain::judge_on;
use crate::queue::preempting::freeable::{note_changes_of, rank_of, ranks_behind};
use dryrack_event::{Event, Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::{Fleet, GpuClaim, NodeClaim, Placement};
use dryrack_planted::planted;
use dryrack_scheduler::{Caching, Candidate, Decision, Grouping, Preempt, decide_for};
use dryrack_units::{Bytes, GpuShare, MilliCpu, Score, SimDuration, SimTime};
use shadow::Shadow;
use spare_room::{Promises, breaks_by_filters, close_needed_room};

/// A sort key that puts the least valuable attempt first.
type VictimKey = (i64, Reverse<((SimTime, bool, i64), ReplicaIndex)>);

impl Queue {
    /// Notes that a replica begins to stop, or that it no longer stops.
    pub(in crate::queue) fn note_stopping(&mut self, core: &mut Core, index: ReplicaIndex, phase: Phase) {
        match phase {
            Phase::Stopping => self.preempting.stopping.insert(index),
            Phase::Pending | Phase::Analysing | Phase::Scheduled | Phase::Preparing | Phase::Running | Phase::Ended => {
                self.preempting.stopping.remove(&index)
            }
        };
        note_changes_of(core, index);
    }

    /// Promises room, in queue order, to each replica that fits once the stopping attempts are gone. Stops more
    /// attempts if that makes a replica fit. Returns whether a promise was withdrawn, so that other replicas may use
    /// the promised room.
    pub(in crate::queue) fn preempt(&mut self, core: &mut Core) -> bool {
        if core.profile.scheduler.preempt == Preempt::Nobody {
            return false;
        }
        let nominations = match may_use_shadow(core) {
            true => self.nominate_in_shadow(core),
            false => self.nominate_plainly(core),
        };
        let before = std::mem::replace(&mut self.nominations, nominations);
        let given_up = before.iter().any(|(head, place)| self.nominations.get(head) != Some(place));
        if given_up {
            core.fleet.ask_again();
        }
        given_up
    }

    /// The shadow fleet, updated to the real fleet. The caller must put the shadow back.
    fn take_shadow(&mut self, core: &mut Core) -> Box<Shadow> {
        match self.preempting.shadow.take() {
            Some(mut shadow) => {
                shadow.follow(core);
                shadow
            }
            None => Box::new(Shadow::new(core)),
        }
    }

    fn nominate_in_shadow(&mut self, core: &mut Core) -> Nominations {
        let mut shadow = self.take_shadow(core);
        for index in &self.preempting.stopping {
            shadow.release(core.store.placement_of(*index));
        }
        core.awaited_claims().for_each(|kept| shadow.release(kept));
        let mut freeable = std::mem::take(&mut self.preempting.freeable);
        let mut nominations = Nominations::new();
        let mut walk = self.queue.walk(core.now);
        while let Some((key, demand)) = walk.next(&self.queue) {
            let head = key.replica();
            let found = match freeable.would_fit(
                core,
                head,
                &shadow,
                (self.turns.joined_at(core.now), |index| self.may_stop(core, index, head)),
            ) {
                Some(false) => None,
                Some(true) | None => self.place_in_shadow(core, head, &mut shadow),
            };
            if core.deciding.caching == Caching::Paranoid {
                assert_eq!(found, self.place_plainly(core, head, &nominations), "{}", core.store[head].attempt_id());
            }
            let Some((victims, place)) = found else {
                // Replicas of this demand later in the queue may stop at most the same attempts, and find at most the
                // same room.
                if !self.preempting.has_stopped_some(head) {
                    walk.leave_out(demand);
                }
                continue;
            };
            for victim in victims {
                self.preempt_one(core, victim, head);
                // Stopping attempts for one replica may free more room than that replica takes.
                walk.take_in_again(&self.queue);
            }
            shadow.fleet.take(&place);
            nominations.insert(head, place);
        }
        self.preempting.shadow = Some(shadow);
        self.preempting.freeable = freeable;
        nominations
    }

    /// The attempts to stop for a replica, and the place that it then gets. On return, these attempts are removed from
    /// the shadow.
    fn place_in_shadow(
        &self,
        core: &Core,
        head: ReplicaIndex,
        shadow: &mut Shadow,
    ) -> Option<(Vec<ReplicaIndex>, Placement)> {
        if let Some(place) = self.promised_place(core, head, &shadow.fleet) {
            return Some((Vec::new(), place));
        }
        if let Some(Candidate { placement, .. }) = shadow.judge(core, head) {
            return Some((Vec::new(), placement));
        }
        let mut candidates: BinaryHeap<Reverse<VictimKey>> = BinaryHeap::from(self.candidates_for(core, head));
        let mut chosen: Vec<ReplicaIndex> = Vec::new();
        let mut place = None;
        while place.is_none() {
            let Some(Reverse((_, Reverse((_, next))))) = candidates.pop() else {
                chosen.iter().for_each(|index| shadow.fleet.take(core.store.placement_of(*index)));
                return None;
            };
            shadow.release(core.store.placement_of(next));
            chosen.push(next);
            place = shadow.judge(core, head);
        }
        for at in (0..chosen.len()).rev() {
            let spared = core.store.placement_of(chosen[at]);
            shadow.fleet.take(spared);
            match shadow.judge(core, head) {
                Some(without) => {
                    place = Some(without);
                    chosen.remove(at);
                }
                None => shadow.release(spared),
            }
        }
        place.map(|place| (chosen, place.placement))
    }

    /// All attempts that may be stopped for a replica.
    fn candidates_for(&self, core: &Core, head: ReplicaIndex) -> Vec<Reverse<VictimKey>> {
        let mut candidates = Vec::new();
        let rank = rank_of(core, head);
        let may_stop = |index: ReplicaIndex| match rank {
            Some(rank) if self.turns.joined_at(core.now).is_empty() => {
                ranks_behind(core, index, rank) && !self.preempting.stopped_for.contains(&(head, index))
            }
            Some(_) | None => self.may_stop(core, index, head),
        };
        for (node, record) in core.nodes.iter().enumerate() {
            // An attempt that holds several nodes is counted only on the first of them.
            let is_first = |index: ReplicaIndex| core.store.placement_of(index).claims()[0].node.index() == node;
            let replicas = record.replicas.iter().copied().filter(|index| may_stop(*index) && is_first(*index));
            candidates.extend(replicas.map(|index| Reverse(self.victim_key(core, index))));
        }
        candidates
    }

    fn victim_key(&self, core: &Core, index: ReplicaIndex) -> VictimKey {
        let worth = match core.profile.scheduler.preempt {
            Preempt::Nobody => 0,
            Preempt::LowerPriority => i64::from(core.store.job_of(index).spec.priority),
            Preempt::MoreAttained => -i64::from(level(core, index)),
            Preempt::LongerRemaining => -i64::try_from(remaining(core, index).as_nanos()).unwrap_or(i64::MAX),
        };
        let worth = if planted!(MostValuableVictim) { -worth } else { worth };
        // Among attempts of equal worth, the one that began last loses the least work.
        (worth, Reverse((self.running_key(core, index), index)))
    }

    fn nominate_plainly(&mut self, core: &mut Core) -> Nominations {
        let mut nominations = Nominations::new();
        let mut walk = self.queue.walk(core.now);
        while let Some((key, demand)) = walk.next(&self.queue) {
            let head = key.replica();
            let Some((victims, place)) = self.place_plainly(core, head, &nominations) else {
                // Replicas of this demand later in the queue may stop at most the same attempts, and find at most the
                // same room.
                if !self.preempting.has_stopped_some(head) {
                    walk.leave_out(demand);
                }
                continue;
            };
            for victim in victims {
                self.preempt_one(core, victim, head);
                // Stopping attempts for one replica may free more room than that replica takes.
                walk.take_in_again(&self.queue);
            }
            nominations.insert(head, place);
        }
        nominations
    }

    /// The attempts to stop for a replica, and the place that it gets when they have stopped. Places that are promised
    /// to other replicas count as taken.
    fn place_plainly(
        &self,
        core: &Core,
        head: ReplicaIndex,
        nominations: &Nominations,
    ) -> Option<(Vec<ReplicaIndex>, Placement)> {
        let holders = core.holders();
        let mut fleet = fleet_without_what_stops(core, &holders);
        nominations.values().for_each(|place| fleet.take(place));
        if let Some(place) = self.promised_place(core, head, &fleet) {
            return Some((Vec::new(), place));
        }
        if let Some(Candidate { placement, .. }) = judge_on(core, head, &fleet) {
            return Some((Vec::new(), placement));
        }
        let victims = self.victims_for(core, head, &fleet, &holders)?;
        victims.iter().for_each(|victim| release(&mut fleet, core.store.placement_of(*victim)));
        let place = judge_on(core, head, &fleet).expect("the victims were enough").placement;
        Some((victims, place))
    }

    /// The place that was promised to a replica in the last pass, if the replica still fits there on this fleet.
    fn promised_place(&self, core: &Core, head: ReplicaIndex, fleet: &Fleet) -> Option<Placement> {
        let place = self.nominations.get(&head)?;
        core.still_fits(head, core.store.demand_of(head), fleet, place).then(|| place.clone())
    }

    /// The candidate at the place that is promised to a replica, if the place is free now.
    pub(in crate::queue) fn promised_candidate(&self, core: &Core, index: ReplicaIndex) -> Option<Candidate> {
        // Mostly the place is not free yet, so the fleet need not be copied.
        self.promised_place(core, index, &core.fleet)?;
        let left = self.left_beside_nominations(core, index);
        let placement = self.promised_place(core, index, left.as_ref().unwrap_or(&core.fleet))?;
        Some(Candidate { placement, score: Score::ZERO })
    }

    /// Keeps a promised place as the decision about a replica, although the decision that was examined may not find it.
    pub(in crate::queue) fn examine_promise_if_watched(
        &self,
        core: &mut Core,
        index: ReplicaIndex,
        candidate: &Candidate,
    ) {
        if core.is_watched(index) && self.nominations.get(&index) == Some(&candidate.placement) {
            core.take_promise(index, candidate);
        }
    }

    /// The decision about a waiting replica, with the room promised to replicas ahead of it counted as taken. `None` if
    /// no room is promised. `keep` is how many candidates are wanted.
    pub(in crate::queue) fn decide_beside_nominations(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        keep: usize,
    ) -> Option<Decision> {
        if self.nominations.is_empty() {
            return None;
        }
        let promised = self.nominated_before(core, index);
        if promised.is_empty() {
            return None;
        }
        let by_shadow = (may_use_shadow(core) && keep == 1).then(|| {
            let mut shadow = self.take_shadow(core);
            promised.iter().for_each(|(_, place)| take_promised(&mut shadow.fleet, place));
            let decision = shadow.decide(core, index);
            self.preempting.shadow = Some(shadow);
            decision
        });
        let decision = match by_shadow {
            Some(decision) if !breaks_by_filters(core, &promised, &decision) => decision,
            _ => {
                let replica = &core.store[index];
                let demand = core.store.demand(replica.demand);
                let context = core.context(replica.attempt_id());
                let left = beside(core, index, &promised);
                decide_for(&core.profile.scheduler, demand, context, &left, core.deciding.grouping, keep)
            }
        };
        match decision {
            // The promised room is still free. So the replica waits for its turn and not for room.
            Decision::Refuse { refusal: Refusal::Unfit, .. } if would_fit_now(core, index) => {
                let reasons = Histogram::of(Reason::QueueOrder, core.fleet.len() as u32);
                Some(Decision::Refuse { refusal: Refusal::Unfit, reasons })
            }
            decision => Some(decision),
        }
    }

    /// The fleet as a waiting replica sees it, without the room promised to replicas ahead of it. `None` if no such
    /// room is promised.
    pub(in crate::queue) fn left_beside_nominations(&self, core: &Core, index: ReplicaIndex) -> Option<Fleet> {
        let promised = self.nominated_before(core, index);
        (!promised.is_empty()).then(|| beside(core, index, &promised))
    }

    /// The replicas ahead of this one in the queue with the places promised to them, in the order of the queue.
    fn nominated_before(&self, core: &Core, index: ReplicaIndex) -> Vec<(ReplicaIndex, Placement)> {
        if self.nominations.is_empty() {
            return Vec::new();
        }
        let place_of = |index: ReplicaIndex| self.queue.place_of(core.store[index].key, core.now);
        let own = place_of(index);
        let others = self.nominations.iter().filter(|(head, _)| place_of(**head) < own);
        let mut before: Vec<_> = others.map(|(head, place)| (*head, place.clone())).collect();
        before.sort_by_cached_key(|(head, _)| place_of(*head));
        before
    }

    /// Withdraws the promise to a replica that no longer waits for its place.
    pub(in crate::queue) fn forget_nomination(&mut self, core: &mut Core, index: ReplicaIndex) {
        if !self.preempting.stopped_for.is_empty() {
            let place_of = |index: ReplicaIndex| self.queue.place_of(core.store[index].key, core.now);
            let own = place_of(index);
            self.preempting.stopped_for.retain(|(head, _)| place_of(*head) < own);
        }
        if self.nominations.remove(&index).is_some() {
            core.fleet.ask_again();
        }
    }

    /// The victims to stop for a replica: the least valuable attempts first, without those that are not needed. `None`
    /// if stopping all attempts that may be stopped is not enough.
    fn victims_for(
        &self,
        core: &Core,
        head: ReplicaIndex,
        fleet: &Fleet,
        holders: &[ReplicaIndex],
    ) -> Option<Vec<ReplicaIndex>> {
        let may_stop = |index: &ReplicaIndex| self.may_stop(core, *index, head);
        let mut candidates: Vec<ReplicaIndex> = holders.iter().copied().filter(may_stop).collect();
        if candidates.is_empty() {
            return None;
        }
        candidates.sort_by_cached_key(|index| self.victim_key(core, *index));
        let mut trial = fleet.clone();
        let mut chosen: Vec<ReplicaIndex> = Vec::new();
        let mut candidates = candidates.into_iter();
        while judge_on(core, head, &trial).is_none() {
            let next = candidates.next()?;
            release(&mut trial, core.store.placement_of(next));
            chosen.push(next);
        }
        for place in (0..chosen.len()).rev() {
            let spared = core.store.placement_of(chosen[place]);
            trial.take(spared);
            match judge_on(core, head, &trial) {
                Some(_) => drop(chosen.remove(place)),
                None => release(&mut trial, spared),
            }
        }
        Some(chosen)
    }

    fn may_stop(&self, core: &Core, index: ReplicaIndex, head: ReplicaIndex) -> bool {
        core.store[index].may_be_stopped()
            && !self.preempting.stopped_for.contains(&(head, index))
            && match core.profile.scheduler.preempt {
                Preempt::Nobody => false,
                Preempt::LowerPriority => {
                    core.store.job_of(index).spec.priority < core.store.job_of(head).spec.priority
                }
                Preempt::LongerRemaining => remaining(core, index) > remaining(core, head),
                Preempt::MoreAttained => {
                    let (level, of_head) = (level(core, index), level(core, head));
                    level > of_head || (level == of_head && self.joins_behind(core, index, head))
                }
            }
    }

    fn preempt_one(&mut self, core: &mut Core, index: ReplicaIndex, head: ReplicaIndex) {
        let [attempt, by] = [index, head].map(|index| core.store[index].attempt_id());
        core.emit(Event::Preempted { attempt, by });
        if core.profile.scheduler.may_placing_make_room() {
            self.preempting.stopped_for.insert((head, index));
        }
        core.store.keep_checkpointed_work(index, core.now);
        self.leave_as_last(core, index);
        self.stop(core, index, Outcome::Lost, Reason::Preempted);
    }
}

/// The estimate of a replica minus the time that it has run. Lost work does not count as run time. Without an
/// estimate, the result is the longest duration.
fn remaining(core: &Core, index: ReplicaIndex) -> SimDuration {
    let replica = &core.store[index];
    let running = if replica.phase == Phase::Running { core.now.since(replica.since) } else { SimDuration::ZERO };
    match core.store[replica.job].spec.estimate {
        None => SimDuration::MAX,
        Some(estimate) => estimate.saturating_sub(replica.ran).saturating_sub(running),
    }
}

fn release(fleet: &mut Fleet, placement: &Placement) {
    placement.claims().iter().for_each(|claim| fleet.release(claim));
}

fn may_use_shadow(core: &Core) -> bool {
    let keeps =
        matches!((core.deciding.caching, core.deciding.grouping), (Caching::On | Caching::Paranoid, Grouping::Classes));
    keeps && core.fleet.is_of_nodes_alone()
}

/// Whether a replica would fit now if no room were promised to other replicas.
fn would_fit_now(core: &mut Core, index: ReplicaIndex) -> bool {
    let replica = &core.store[index];
    let demand = core.store.demand(replica.demand);
    let (options, draw) = (&core.profile.scheduler, core.context(replica.attempt_id()).draw);
    let ranked = match may_use_shadow(core) {
        true => core.deciding.rankings.decide(options, (replica.demand, demand), &core.fleet, draw),
        false => None,
    };
    match ranked {
        Some(decision) => matches!(decision, Decision::Place(_)),
        None => judge_on(core, index, &core.fleet).is_some(),
    }
}

/// Takes a promised place in a copy of the fleet.
///
/// A task that asks for memory of a GPU takes no share of it, but needs a GPU that is not held as a whole. So its promise keeps
/// a thousandth of the GPU. A task without GPUs of a gang of unequal tasks needs cores that are not restricted to GPUs, although
/// the gang holds GPUs of the node too. So the promise keeps no restricted cores for such a gang.
fn take_promised(fleet: &mut Fleet, place: &Placement) {
    let is_memory_alone = |gpu: &GpuClaim| gpu.share == GpuShare::ZERO && gpu.memory > Bytes::ZERO;
    let needs_more = |claim: &NodeClaim| claim.sets.is_some() || claim.gpus.iter().any(is_memory_alone);
    if !place.claims().iter().any(needs_more) {
        return fleet.take_in_advance(place);
    }
    for claim in place.claims() {
        let mut kept = claim.clone();
        kept.gpus.iter_mut().filter(|gpu| is_memory_alone(gpu)).for_each(|gpu| gpu.share = GpuShare::new(1));
        let cores = if kept.sets.is_some() { std::mem::replace(&mut kept.cpu, MilliCpu::ZERO) } else { MilliCpu::ZERO };
        fleet.take_in_advance(&Placement::new([kept].into()));
        if cores > MilliCpu::ZERO {
            let cores = NodeClaim { cpu: cores, ..NodeClaim::of_nothing(claim.node) };
            fleet.take_in_advance(&Placement::new([cores].into()));
        }
    }
}

/// The fleet as a waiting replica sees it beside these promises.
fn beside(core: &Core, index: ReplicaIndex, promised: Promises<'_>) -> Fleet {
    let mut fleet = core.fleet.clone();
    promised.iter().for_each(|(_, place)| take_promised(&mut fleet, place));
    close_needed_room(core, index, promised, &mut fleet);
    fleet
}

fn fleet_without_what_stops(core: &Core, holders: &[ReplicaIndex]) -> Fleet {
    let stops = |index: &&ReplicaIndex| core.store[**index].phase == Phase::Stopping;
    let mut fleet = core.fleet.clone();
    holders.iter().filter(stops).for_each(|held| release(&mut fleet, core.store.placement_of(*held)));
    core.awaited_claims().for_each(|kept| release(&mut fleet, kept));
    fleet
}
