//! Checkpoints: how much work of an interrupted attempt is kept, and what it costs to resume.

use std::collections::HashMap;

use super::rehearsal::InitialNode;
use dryrack_fleet::{NodeClaim, Placement};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_planted::planted;
use dryrack_units::SimDuration;
use dryrack_workload::{JobBehavior, JobSpec, Speed};

/// How fast an attempt works. A gang that started with fewer tasks than it asks for works more slowly, in proportion. If
/// the job has speeds, it works at the speed of its slowest GPU. Work is measured in time on the reference GPU with all
/// tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    placed: u32,
    asked: u32,
    speed: Speed,
}

impl Pace {
    /// The pace of an attempt on this placement. Only sets whose number of tasks may be smaller count.
    pub fn of(spec: &JobSpec, placement: Option<&Placement>, nodes: &[InitialNode]) -> Pace {
        let shape_of = |node: NodeId| &*nodes[node.index()].spec.shape;
        let speed = match (&spec.demand.speeds, placement) {
            (Some(speeds), Some(placement)) => speeds.slowest(placement.gpu_models(shape_of)),
            _ => Speed::ONE,
        };
        let (mut placed, mut asked) = (0, 0);
        for (place, set) in spec.demand.sets().iter().enumerate().filter(|(_, set)| set.min_tasks < set.tasks) {
            // A result that was written to another job may have fewer sets than this job (GPUStack 0.6.0).
            let of_set = |sets: &[u32]| sets.get(place).copied().unwrap_or(0);
            let on_node = |claim: &NodeClaim| claim.sets.as_deref().map_or(0, of_set);
            placed += placement.map_or(0, |placement| placement.claims().iter().map(on_node).sum());
            asked += set.tasks;
        }
        if placed == 0 { Pace { placed: 1, asked: 1, speed } } else { Pace { placed, asked, speed } }
    }

    /// The work that is done in a unit of time, as a numerator and a denominator.
    fn rate(self) -> (u128, u128) {
        let one = Speed::ONE.as_millionths();
        (u128::from(self.placed) * u128::from(self.speed.as_millionths()), u128::from(self.asked) * u128::from(one))
    }

    /// The time that this much work takes, rounded up to whole nanoseconds.
    fn time(self, work: SimDuration) -> SimDuration {
        let (done, per) = self.rate();
        // The division of such long numbers is slow, and most attempts work at full speed.
        if done == per {
            return work;
        }
        let nanos = (u128::from(work.as_nanos()) * per).div_ceil(done);
        SimDuration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The work that is done in this time, rounded down to whole nanoseconds.
    fn work(self, time: SimDuration) -> SimDuration {
        let (done, per) = self.rate();
        let nanos = u128::from(time.as_nanos()).saturating_mul(done) / per;
        SimDuration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The work of each replica that is saved in a checkpoint and need not be repeated.
#[derive(Default)]
pub struct Checkpoints {
    done: HashMap<(JobId, u32), SimDuration, foldhash::fast::FixedState>,
}

impl Checkpoints {
    /// How long this attempt runs if nothing interrupts it. `None` if the job does not end by itself.
    pub fn length(&self, attempt: AttemptId, behavior: &JobBehavior, pace: Pace) -> Option<SimDuration> {
        let done = self.done(attempt);
        let cost = self.cost(done, behavior);
        behavior.run.map(|whole| pace.time(whole.saturating_sub(done)).saturating_add(cost))
    }

    /// Records that an attempt was interrupted after it ran for `ran`. `in_good_order` is true if the attempt still had
    /// the chance to write a checkpoint.
    pub fn interrupt(
        &mut self,
        attempt: AttemptId,
        (behavior, pace): (&JobBehavior, Pace),
        ran: SimDuration,
        in_good_order: bool,
    ) {
        let Some(checkpoint) = behavior.checkpoint else { return };
        let done = self.done(attempt);
        let now = done.saturating_add(pace.work(ran.saturating_sub(self.cost(done, behavior))));
        let every = if planted!(EveryMomentIsACheckpoint) { 1 } else { checkpoint.every.as_nanos() };
        let written = match (every, in_good_order) {
            (0, true) => now,
            (0, false) => done,
            (every, _) => done.max(SimDuration::from_nanos(now.as_nanos() / every * every)),
        };
        self.done.insert((attempt.job, attempt.replica), written);
    }

    /// Forgets the checkpoint of an attempt that has finished. If the replica runs again, it starts from scratch.
    pub fn forget(&mut self, attempt: AttemptId) {
        if !self.done.is_empty() {
            self.done.remove(&(attempt.job, attempt.replica));
        }
    }

    fn done(&self, attempt: AttemptId) -> SimDuration {
        self.done.get(&(attempt.job, attempt.replica)).copied().unwrap_or_default()
    }

    fn cost(&self, done: SimDuration, behavior: &JobBehavior) -> SimDuration {
        match behavior.checkpoint {
            Some(checkpoint) if !done.is_zero() => checkpoint.restart,
            _ => SimDuration::ZERO,
        }
    }
}
