//! What runs did with the GPUs that they held, and what a policy that ended them saved.

use dryrack_event::{Outcome, Reason};
use dryrack_fleet::{NodeClaim, NodeShape};
use dryrack_units::{GpuShare, Permille, SimDuration, SimTime};
use dryrack_workload::{AtMinimum, JobBehavior, UtilizationPolicy};

/// GPU time in nanoseconds times thousandths of a GPU, of runs of which it is stated what their GPUs do. Of a shared GPU
/// that is used by half, each run on it uses its part by half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageAccount {
    /// Held, and it is known what was done with it.
    pub known: u128,
    /// Of that, really used: times thousandths once more.
    pub used: u128,
    /// Of that, at no utilization at all; before the run started and while it stopped, too.
    pub idle: u128,
    /// The price of what was idle: of each node its price per hour in millionths, divided by its GPUs.
    idle_price: u128,
    has_price: bool,
    /// What nodes that state their power drew for GPUs in use, above what they draw at rest: milliwatts times nanoseconds,
    /// times thousandths of a GPU, times thousandths of it used. GPUs of which it is not known what they did were at work.
    pub drawn: u128,
}

/// GPU time that runs which a utilization policy ended would have held until they had ended by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedAccount {
    /// Runs that were ended.
    pub ended: u64,
    /// Of those, the ones that would have run for ever, or of whose GPUs nothing is stated.
    pub unknown: u64,
    /// Of the others, in nanoseconds times thousandths of a GPU: at levels that the policy takes as idle.
    pub idle: u128,
    /// And at all others.
    pub busy: u128,
}

/// A claim, and from when to when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'a> {
    pub claim: &'a NodeClaim,
    pub shape: &'a NodeShape,
    /// GPUs of the placement on nodes before this one.
    pub gpus_before: usize,
    pub from: SimTime,
    pub to: SimTime,
    /// When the run started and when it ended.
    pub ran: Option<(SimTime, SimTime)>,
}

/// The thousandths of a GPU that a claim takes: the larger of share and memory, as an allocation is counted.
pub fn gpu_parts(claim: &NodeClaim, shape: &NodeShape) -> impl Iterator<Item = u64> {
    claim.gpus.iter().map(|part| {
        let capacity = u128::from(shape.gpu_memory_capacity(usize::from(part.index)).get()).max(1);
        let by_memory = u64::try_from(u128::from(part.memory.get()) * 1000 / capacity).unwrap_or(u64::MAX);
        by_memory.max(u64::from(part.share.get())).min(u64::from(GpuShare::WHOLE.get()))
    })
}

impl UsageAccount {
    /// Adds a claim of a run with this course; where nothing is stated of its GPUs, only what they drew.
    pub(super) fn add(&mut self, behavior: Option<&JobBehavior>, held: &Held<'_>) {
        let length = u128::from(held.to.since(held.from).as_nanos());
        let Some(usage) = behavior.and_then(|behavior| behavior.usage.as_ref()) else {
            let parts: u64 = gpu_parts(held.claim, held.shape).sum();
            return self.draw(held.shape, u128::from(parts) * length * 1000);
        };
        for (index, part) in gpu_parts(held.claim, held.shape).enumerate() {
            let part = u128::from(part);
            // What held before it ran or after it is there, and idle.
            let (mut idle, mut known, mut busy) = (length, length, 0);
            if let Some((from, to)) = held.ran_within() {
                let (started, _) = held.ran.expect("it ran");
                let spent = usage.between(held.gpus_before + index, from.since(started), to.since(started), |now| {
                    now == Permille::ZERO
                });
                idle = length - u128::from(to.since(from).as_nanos()) + spent.idle;
                known = length - spent.unknown;
                self.used += part * spent.used;
                busy = spent.used + spent.unknown * 1000;
            }
            self.draw(held.shape, part * busy);
            self.known += part * known;
            self.idle += part * idle;
            if let Some(price) = held.shape.price_per_hour {
                self.idle_price += part * idle * u128::from(price.get()) / held.shape.gpus.len().max(1) as u128;
                self.has_price = true;
            }
        }
    }

    fn draw(&mut self, shape: &NodeShape, busy: u128) {
        if let Some(power) = shape.power {
            self.drawn += busy * u128::from((power.busy - power.idle).get()) / shape.gpus.len().max(1) as u128;
        }
    }

    /// In millionths times nanoseconds times thousandths, if any of it has a price.
    pub(super) fn idle_price(&self) -> Option<u128> {
        self.has_price.then_some(self.idle_price)
    }
}

impl Held<'_> {
    /// The part of it in which the run ran.
    fn ran_within(&self) -> Option<(SimTime, SimTime)> {
        let (from, to) = self.ran?;
        let (from, to) = (from.max(self.from), to.min(self.to));
        (from < to).then_some((from, to))
    }
}

impl SavedAccount {
    /// A run that held these parts of GPUs was ended so long after it had started.
    pub(super) fn add(
        &mut self,
        behavior: &JobBehavior,
        policy: &UtilizationPolicy,
        parts: &[u64],
        after: SimDuration,
    ) {
        self.ended += 1;
        let (Some(usage), Some(whole)) = (&behavior.usage, behavior.run) else {
            self.unknown += 1;
            return;
        };
        let is_idle = |level: Permille| match policy.at_minimum {
            AtMinimum::Busy => level < policy.min_gpu_utilization,
            AtMinimum::Idle => level <= policy.min_gpu_utilization,
        };
        let left = u128::from(whole.saturating_sub(after).as_nanos());
        for (gpu, part) in parts.iter().enumerate() {
            let spent = usage.between(gpu, after, whole, is_idle);
            self.idle += u128::from(*part) * spent.idle;
            self.busy += u128::from(*part) * (left - spent.idle - spent.unknown);
        }
    }
}

/// Whether an attempt ended because something broke, and not because its place was wanted for another.
pub(super) fn is_failure(outcome: Outcome, because: Reason) -> bool {
    matches!(outcome, Outcome::Failed | Outcome::Lost) && because != Reason::Preempted
}
