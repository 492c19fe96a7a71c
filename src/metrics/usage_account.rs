//! The real use of the GPUs that attempts held, and the GPU time that a policy saved by ending them.

use dryrack_event::{Outcome, Reason};
use dryrack_fleet::{Electricity, NodeClaim, NodeShape, Payment};
use dryrack_planted::planted;
use dryrack_units::{GpuShare, Permille, SimDuration, SimTime};
use dryrack_workload::{AtMinimum, JobBehavior, UtilizationPolicy};

/// GPU time in nanoseconds times thousandths of a GPU, for attempts whose GPU usage is stated. If several attempts
/// share a GPU at 50% utilization, each of them counts as using its own part at 50%.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageAccount {
    /// The GPU time that was held with known usage.
    pub known: u128,
    /// The used part of the known GPU time, multiplied by thousandths of utilization.
    pub used: u128,
    /// The part of the known GPU time at zero utilization. Includes the time before an attempt starts and after it has
    /// ended.
    pub idle: u128,
    /// The price of the idle time. For each node, this is its price per hour in millionths divided by its number of
    /// GPUs.
    idle_price: u128,
    has_price: bool,
    /// The energy that GPUs drew above the idle power of their nodes, for nodes with a stated power draw. The unit is
    /// milliwatts times nanoseconds times thousandths of a GPU times thousandths of utilization. A GPU with unknown
    /// usage counts as fully used.
    pub drawn: u128,
    /// The part of this energy that was drawn on nodes which were bought.
    pub drawn_bought: u128,
    /// The emissions of this energy: milliwatts times nanoseconds times milligrams per kWh.
    pub emitted: u128,
}

/// The GPU time that was saved because a utilization policy ended attempts. It is the time for which these attempts
/// would have held their GPUs until they ended by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedAccount {
    /// The number of attempts that were ended.
    pub ended: u64,
    /// The number of these attempts for which the saved time is unknown: they would not have ended by themselves, or
    /// their GPU usage is not stated.
    pub unknown: u64,
    /// The saved GPU time at levels that the policy counts as idle, in nanoseconds times thousandths of a GPU.
    pub idle: u128,
    /// The saved GPU time at all other levels.
    pub busy: u128,
}

/// A claim on one node, and the time for which it was held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'a> {
    pub claim: &'a NodeClaim,
    pub shape: &'a NodeShape,
    /// How many of the placement's GPUs are on earlier nodes.
    pub gpus_before: usize,
    pub from: SimTime,
    pub to: SimTime,
    /// When the attempt started and when it ended. `None` if it did not start.
    pub ran: Option<(SimTime, SimTime)>,
}

/// How many thousandths of each of its GPUs a claim takes: the larger of its share and its memory, as in the metric of
/// allocation.
pub fn gpu_parts(claim: &NodeClaim, shape: &NodeShape) -> impl Iterator<Item = u64> {
    claim.gpus.iter().map(|part| {
        let capacity = u128::from(shape.gpu_memory_capacity(usize::from(part.index)).get()).max(1);
        let by_memory = u64::try_from(u128::from(part.memory.get()) * 1000 / capacity).unwrap_or(u64::MAX);
        by_memory.max(u64::from(part.share.get())).min(u64::from(GpuShare::WHOLE.get()))
    })
}

impl UsageAccount {
    /// Adds a claim of an attempt with this behavior. If the attempt's GPU usage is not stated, adds only the energy.
    pub(super) fn add(&mut self, behavior: Option<&JobBehavior>, held: &Held<'_>, electricity: Option<&Electricity>) {
        if let (Some(electricity), Some(power)) = (electricity, held.shape.power) {
            let (more, gpus) = (u128::from((power.busy - power.idle).get()), held.shape.gpus.len().max(1) as u128);
            electricity.pieces(held.from, held.to, |from, to, milligrams| {
                let drawn = held.busy_between(behavior, from, to) * more / gpus / 1_000_000;
                self.emitted += drawn * u128::from(milligrams);
            });
        }
        let length = u128::from(held.to.since(held.from).as_nanos());
        let Some(usage) = behavior.and_then(|behavior| behavior.usage.as_ref()) else {
            let parts: u64 = gpu_parts(held.claim, held.shape).sum();
            return self.draw(held.shape, u128::from(parts) * length * 1000);
        };
        for (index, part) in gpu_parts(held.claim, held.shape).enumerate() {
            let part = u128::from(part);
            // A GPU that is held before the attempt starts or after the attempt has ended is known to be idle.
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
                let whole = (part * idle).saturating_mul(u128::from(price.get()));
                self.idle_price = self.idle_price.saturating_add(whole / held.shape.gpus.len().max(1) as u128);
                self.has_price = true;
            }
        }
    }

    fn draw(&mut self, shape: &NodeShape, busy: u128) {
        if let Some(power) = shape.power {
            let drawn = busy * u128::from((power.busy - power.idle).get()) / shape.gpus.len().max(1) as u128;
            self.drawn += drawn;
            self.drawn_bought += if shape.payment.is_some_and(Payment::is_purchase) { drawn } else { 0 };
        }
    }

    /// The price of the idle time in millionths times nanoseconds times thousandths. `None` if no node has a price.
    pub(super) fn idle_price(&self) -> Option<u128> {
        self.has_price.then_some(self.idle_price)
    }
}

impl Held<'_> {
    /// The use of the GPUs in a part of the held time, in nanoseconds times thousandths of a GPU times thousandths of
    /// utilization. A GPU with unknown usage counts as fully used while it is held, or while the attempt runs if the
    /// usage of other parts is known.
    fn busy_between(&self, behavior: Option<&JobBehavior>, from: SimTime, to: SimTime) -> u128 {
        let Some(usage) = behavior.and_then(|behavior| behavior.usage.as_ref()) else {
            let parts: u64 = gpu_parts(self.claim, self.shape).sum();
            return u128::from(parts) * u128::from(to.since(from).as_nanos()) * 1000;
        };
        let Some((started, _)) = self.ran else { return 0 };
        let part = Held { from, to, ..*self };
        let Some((from, to)) = part.ran_within() else { return 0 };
        let busy = |(index, part): (usize, u64)| {
            let spent = usage.between(self.gpus_before + index, from.since(started), to.since(started), |_| false);
            u128::from(part) * (spent.used + spent.unknown * 1000)
        };
        gpu_parts(self.claim, self.shape).enumerate().map(busy).sum()
    }

    /// The part of the held time in which the attempt was running.
    fn ran_within(&self) -> Option<(SimTime, SimTime)> {
        let (from, to) = self.ran?;
        let (from, to) = (from.max(self.from), to.min(self.to));
        (from < to).then_some((from, to))
    }
}

impl SavedAccount {
    /// Adds an attempt that was ended `after` its start, and that would have run for `whole`. `parts` are the thousandths of each GPU that it held.
    pub(super) fn add(
        &mut self,
        (behavior, whole): (&JobBehavior, Option<SimDuration>),
        policy: &UtilizationPolicy,
        parts: &[u64],
        after: SimDuration,
    ) {
        self.ended += 1;
        let (Some(usage), Some(whole)) = (&behavior.usage, whole) else {
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

/// Whether an attempt ended because something failed. A preemption is not a failure.
pub(super) fn is_failure(outcome: Outcome, because: Reason) -> bool {
    let is_preempted = because == Reason::Preempted && !planted!(PreemptionIsAFailure);
    matches!(outcome, Outcome::Failed | Outcome::Lost) && !is_preempted
}
