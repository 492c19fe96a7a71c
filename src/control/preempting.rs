//! Preemption: who is stopped so that the head of the queue can start.
//!
//! Asked before anybody is looked at, so that nobody takes a place that one before it in the queue can have by stopping
//! others. Those who may be stopped for it are taken, the least worth keeping first, until it would fit; then whoever turns
//! out not to be needed is spared, the last taken first. Each is told to stop, and waits again from its last checkpoint, if
//! its job has any. What stops already is reckoned as gone, so that nobody is stopped for room that is on its way.
//!
//! The room that is on its way is promised: whoever fits once what stops is gone has a place there, and whoever comes
//! after it in the queue is judged as if that place were taken, until it is placed, ends or would go elsewhere. Whoever
//! comes before it may take the place (Kubernetes' nominated nodes work alike). Without that a victim that stops at once
//! could return to where it was while the head waits for one that takes its time, and be stopped again, without end. So
//! the order of the queue must put a victim behind whom it was stopped for, which [`Profile::faults`] holds: then the
//! first of the queue is never put off by whom it has stopped, and nobody can be stopped twice for it.
//!
//! [`Profile::faults`]: super::Profile::faults

use std::collections::BTreeMap;

use super::Control;
use super::store::ReplicaIndex;
use crate::event::{Outcome, Phase, Reason};
use crate::fleet::{Fleet, Placement};
use crate::scheduler::Preempt;
use crate::units::SimDuration;

/// Who waits for room that is on its way, and where it would go.
pub(super) type Promises = BTreeMap<ReplicaIndex, Placement>;

impl Control {
    /// In the order of the queue, promises room to whoever fits once what stops is gone, and stops whom it takes for that.
    /// Gives back whether somebody else may have now what was promised before.
    pub(super) fn preempt(&mut self) -> bool {
        if self.profile.scheduler.preempt == Preempt::Nobody {
            return false;
        }
        let holders = self.holders();
        // As it will be, where that is not as it is.
        let mut coming = self.fleet_without_what_stops(&holders);
        let mut promises = Promises::new();
        let mut walk = self.queue.walk(self.now);
        while let Some((key, demand)) = walk.next(&self.queue) {
            let head = key.replica();
            let fleet = coming.as_ref().unwrap_or(&self.fleet);
            let victims = match self.judge_on(head, fleet) {
                Some(_) => Vec::new(),
                None => match self.victims_for(head, fleet, &holders) {
                    Some(victims) => victims,
                    None => {
                        // Whoever comes later in the queue may stop no more than they may, and finds no more room.
                        walk.leave_out(demand);
                        continue;
                    }
                },
            };
            let mut fleet = coming.take().unwrap_or_else(|| self.fleet.clone());
            for victim in victims {
                release(&mut fleet, self.placement_of(victim));
                self.preempt_one(victim);
                // What is stopped for one may be more than it takes.
                walk.take_in_again(&self.queue);
            }
            let place = self.judge_on(head, &fleet).expect("the victims were enough").placement;
            fleet.take(&place);
            promises.insert(head, place);
            coming = Some(fleet);
        }
        let before = std::mem::replace(&mut self.promises, promises);
        let given_up = before.iter().any(|(head, place)| self.promises.get(head) != Some(place));
        if given_up {
            self.fleet.ask_again();
        }
        given_up
    }

    /// The fleet as whoever waits finds it, where something is promised to others before it in the queue.
    pub(super) fn left_to(&self, index: ReplicaIndex) -> Option<Fleet> {
        if self.promises.is_empty() {
            return None;
        }
        let place_of = |index: ReplicaIndex| self.queue.place_of(self.replicas[index as usize].key, self.now);
        let own = place_of(index);
        let mut others = self.promises.iter().filter(|(head, _)| place_of(**head) < own).map(|(_, place)| place);
        let first = others.next()?;
        let mut fleet = self.fleet.clone();
        fleet.promise(first);
        others.for_each(|place| fleet.promise(place));
        Some(fleet)
    }

    /// It does not wait for its place any more.
    pub(super) fn forget_promise(&mut self, index: ReplicaIndex) {
        if self.promises.remove(&index).is_some() {
            self.fleet.ask_again();
        }
    }

    /// `None` where nothing stops.
    fn fleet_without_what_stops(&self, holders: &[ReplicaIndex]) -> Option<Fleet> {
        let stops = |index: &&ReplicaIndex| self.replicas[**index as usize].phase == Phase::Stopping;
        let mut stopping = holders.iter().filter(stops).peekable();
        stopping.peek()?;
        let mut fleet = self.fleet.clone();
        stopping.for_each(|held| release(&mut fleet, self.placement_of(*held)));
        Some(fleet)
    }

    /// Whoever holds a place, in order of their numbers.
    fn holders(&self) -> Vec<ReplicaIndex> {
        let mut holders: Vec<_> = self.nodes.iter().flat_map(|node| node.runs.iter().copied()).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    fn placement_of(&self, index: ReplicaIndex) -> &Placement {
        self.replicas[index as usize].placement.as_ref().expect("it holds a place")
    }

    /// The fewest that this rule finds; `None` where even all that may be stopped are not enough.
    fn victims_for(&self, head: ReplicaIndex, fleet: &Fleet, holders: &[ReplicaIndex]) -> Option<Vec<ReplicaIndex>> {
        let may_stop = |index: &ReplicaIndex| self.may_stop(*index, head);
        let mut candidates: Vec<ReplicaIndex> = holders.iter().copied().filter(may_stop).collect();
        if candidates.is_empty() {
            return None;
        }
        candidates.sort_by_key(|index| {
            let replica = &self.replicas[*index as usize];
            let worth = match self.profile.scheduler.preempt {
                Preempt::Nobody => 0,
                Preempt::LowerPriority => i64::from(self.jobs[replica.job.index()].spec.priority),
                Preempt::MoreAttained => -i64::from(self.level(*index)),
                Preempt::LongerRemaining => -i64::try_from(self.remaining(*index).as_nanos()).unwrap_or(i64::MAX),
            };
            // Of equal worth, who began last has least to lose.
            (worth, std::cmp::Reverse((self.runs_there_since(*index), *index)))
        });
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

    fn may_stop(&self, index: ReplicaIndex, head: ReplicaIndex) -> bool {
        let priority = |index: ReplicaIndex| self.jobs[self.replicas[index as usize].job.index()].spec.priority;
        let holds = matches!(self.replicas[index as usize].phase, Phase::Scheduled | Phase::Preparing | Phase::Running);
        holds
            && match self.profile.scheduler.preempt {
                Preempt::Nobody => false,
                Preempt::LowerPriority => priority(index) < priority(head),
                Preempt::LongerRemaining => self.remaining(index) > self.remaining(head),
                Preempt::MoreAttained => {
                    let (level, of_head) = (self.level(index), self.level(head));
                    level > of_head || (level == of_head && self.joins_behind(index, head))
                }
            }
    }

    /// What is left of its estimate, given how long it has run with effect; without an estimate, without end.
    fn remaining(&self, index: ReplicaIndex) -> SimDuration {
        let replica = &self.replicas[index as usize];
        let running = if replica.phase == Phase::Running { self.now.since(replica.since) } else { SimDuration::ZERO };
        match self.jobs[replica.job.index()].spec.estimate {
            None => SimDuration::MAX,
            Some(estimate) => estimate.saturating_sub(replica.ran).saturating_sub(running),
        }
    }

    fn preempt_one(&mut self, index: ReplicaIndex) {
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
