//! Random queues: every order, backfill and every kind of preemption. Also draws the job properties that they use:
//! users, checkpoints, and estimates that are exact, too short or too long.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rehearsal::Rehearsal;
use dryrack_control::{PassOptions, PassTime, Profile, Trigger};
use dryrack_rng::Stream;
use dryrack_scheduler::{
    Backfill, Discipline, FairShare, Lines, NeverFits, OrderKey, Outlook, Preempt, Rounding, SchedulerOptions,
    SlotOptions,
};
use dryrack_units::SimDuration;
use dryrack_workload::{Arrival, Checkpoint, JobBehavior, JobSpec};

const BACKFILLS: [Backfill; 5] =
    [Backfill::None, Backfill::Easy, Backfill::Conservative, Backfill::Rlscheduler, Backfill::Slots];
const PREEMPTIONS: [Preempt; 4] =
    [Preempt::Nobody, Preempt::LowerPriority, Preempt::LongerRemaining, Preempt::MoreAttained];

/// Draws a queue and the job properties that queues use. Uses its own random stream, so other draws do not change.
pub(super) fn add_queues(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm queues", 0);
    let has_queue = world.profile.flow.passes_over_queue();
    if has_queue && draws.chance(500) {
        world.profile = draw_queue(&mut draws, &world.profile);
    }
    let estimates = draws.chance(800);
    let checkpoints = draws.chance(500);
    for arrival in &mut world.arrivals {
        let (mut spec, mut behavior) = (JobSpec::clone(&arrival.spec), JobBehavior::clone(&arrival.behavior));
        if estimates && draws.chance(800) {
            spec.estimate = Some(draw_estimate(&mut draws, &behavior));
        }
        spec.user = draws.pick(&[None, Some("ann"), Some("bob"), Some("eve")]).map(Arc::from);
        spec.queue = draws.pick(&[None, Some("short"), Some("long")]).map(Arc::from);
        spec.checkpoints = checkpoints && draws.chance(600);
        if spec.checkpoints {
            let (every, restart) = (*draws.pick(&[0, 60, 600]), *draws.pick(&[0, 5, 120]));
            let [every, restart] = [every, restart].map(SimDuration::from_secs);
            behavior.checkpoint = Some(Checkpoint { every, restart });
        }
        *arrival = Arrival { spec: Arc::new(spec), behavior: Arc::new(behavior), ..arrival.clone() };
    }
}

/// Draws an estimate of the run time, which is either exact or a random guess.
fn draw_estimate(draws: &mut Stream, behavior: &JobBehavior) -> SimDuration {
    let guess = SimDuration::from_secs(draws.between(0, 3600));
    behavior.run.filter(|_| draws.chance(500)).unwrap_or(guess)
}

/// Draws another queue for the profile. Returns the profile unchanged if none of 20 draws is a valid profile.
fn draw_queue(draws: &mut Stream, profile: &Arc<Profile>) -> Arc<Profile> {
    for _ in 0..20 {
        let mut drawn = Profile::clone(profile);
        draw_order(draws, &mut drawn.scheduler);
        // A drawn order has no `multifactor`.
        drawn.slurm = None;
        if draws.chance(500) {
            drawn.passes.backfill = draw_backfill_pass(draws);
        }
        if draws.chance(300) {
            draw_time_of_passes(draws, &mut drawn);
        }
        if drawn.faults().is_empty() {
            return Arc::new(drawn);
        }
    }
    Arc::clone(profile)
}

fn draw_order(draws: &mut Stream, scheduler: &mut SchedulerOptions) {
    // Slurm's key needs jobs in a Slurm cluster, and these worlds have none.
    let keys: Vec<OrderKey> = OrderKey::ALL.iter().copied().filter(|key| *key != OrderKey::Multifactor).collect();
    scheduler.order = (0..draws.between(1, 2)).map(|_| *draws.pick(&keys)).collect();
    scheduler.backfill = *draws.pick(&BACKFILLS);
    scheduler.preempt = *draws.pick(&PREEMPTIONS);
    // Each preemption rule requires its own order of the queue.
    match scheduler.preempt {
        Preempt::Nobody => {}
        Preempt::LowerPriority => scheduler.order.insert(0, OrderKey::Priority),
        Preempt::LongerRemaining => scheduler.order[0] = OrderKey::Remaining,
        Preempt::MoreAttained => scheduler.order = vec![OrderKey::Attained, OrderKey::Joined],
    }
    scheduler.discipline = *draws.pick(&[Discipline::Strict, Discipline::Committed, Discipline::Skipping]);
    scheduler.lines = *draws.pick(&[Lines::One, Lines::One, Lines::EachQueue]);
    scheduler.never_fits = *draws.pick(&[NeverFits::End, NeverFits::Wait]);
    scheduler.levels = vec![draws.between(1, 600), draws.between(601, 20_000)];
    let weights = [("ann", 0.5), ("bob", 4.0)].map(|(name, weight)| (name.to_string(), weight));
    scheduler.fair_share = FairShare {
        half_life: SimDuration::from_secs(*draws.pick(&[60, 3600, 86_400])),
        weights: if draws.chance(500) { BTreeMap::from(weights) } else { BTreeMap::new() },
    };
    scheduler.slots = SlotOptions {
        resolution: SimDuration::from_secs(*draws.pick(&[1, 60, 300])),
        window: SimDuration::from_secs(*draws.pick(&[600, 86_400])),
        depth: *draws.pick(&[1, 5, 500]),
        ..SlotOptions::default()
    };
    if scheduler.slots.depth == 5 {
        scheduler.slots.rounding = Rounding::Outwards;
        scheduler.slots.outlook = Outlook::FromStart;
    }
}

fn draw_backfill_pass(draws: &mut Stream) -> Option<PassOptions> {
    let period = SimDuration::from_secs(draws.between(1, 60));
    let trigger = *draws.pick(&[Trigger::Event, Trigger::Every(period)]);
    let offset =
        if trigger == Trigger::Event { SimDuration::ZERO } else { SimDuration::from_secs(draws.between(0, 5)) };
    Some(PassOptions { trigger, batch: None, jitter: SimDuration::ZERO, offset, takes: PassTime::NONE })
}

/// Makes both kinds of passes periodic, and gives each a duration.
fn draw_time_of_passes(draws: &mut Stream, profile: &mut Profile) {
    let millis = |draws: &mut Stream, most| SimDuration::from_nanos(draws.between(0, most) * 1_000_000);
    for pass in [Some(&mut profile.passes.place), profile.passes.backfill.as_mut()].into_iter().flatten() {
        pass.trigger = Trigger::Every(SimDuration::from_secs(draws.between(1, 60)));
        pass.jitter = SimDuration::ZERO;
        pass.takes = PassTime { least: millis(draws, 3000), each: millis(draws, 200) };
    }
}
