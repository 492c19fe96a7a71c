//! Random GPU usage, faulty samples of that usage, and policies that act on the samples.

use std::sync::Arc;

use dryrack_control::UtilizationOptions;
use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration};
use dryrack_workload::{
    AtMinimum, Gaps, GpuUsage, IdleGpus, JobBehavior, Phases, PolicyMode, Sampling, Shape, Usage, UsagePhase,
    UtilizationOverrides, UtilizationRule,
};

/// Draws the utilization policy of the profile. It binds every job that has GPUs.
pub(super) fn draw_options(draws: &mut Stream, options: &mut UtilizationOptions) {
    options.min_time_window = SimDuration::ZERO;
    options.min_gpu_utilization = Some(Permille::new(draws.between(0, 900) as u32));
    options.time_window = Some(SimDuration::from_secs(draws.between(1, 300)));
    options.interval = SimDuration::from_secs(draws.between(5, 60));
    options.gpus = *draws.pick(&[IdleGpus::Any, IdleGpus::All]);
    options.at_minimum = *draws.pick(&[AtMinimum::Busy, AtMinimum::Idle]);
    options.gaps = *draws.pick(&[Gaps::Void, Gaps::Bridge]);
    options.mode = *draws.pick(&[PolicyMode::Observe, PolicyMode::Warn, PolicyMode::Enforce]);
    options.longest_gap = draws.chance(300).then(|| SimDuration::from_secs(draws.between(1, 120)));
    if draws.chance(300) {
        options.rule = UtilizationRule::Dstack {
            looks_every: SimDuration::from_secs(draws.between(1, 20)),
            first_within: SimDuration::from_secs(draws.between(0, 90)),
        };
    }
}

/// Draws a job's overrides of the policy.
pub(super) fn draw_overrides(draws: &mut Stream) -> UtilizationOverrides {
    UtilizationOverrides {
        mode: draws.chance(300).then_some(PolicyMode::Enforce),
        time_window: draws.chance(300).then(|| SimDuration::from_secs(draws.between(1, 900))),
        grace: draws.chance(200).then(|| SimDuration::from_secs(draws.between(1, 300))),
        ..UtilizationOverrides::default()
    }
}

/// Draws GPU usage. Skips runs that do not end by themselves, because they would be sampled forever.
pub(super) fn draw_usage(draws: &mut Stream, behavior: &mut JobBehavior) {
    if behavior.run.is_none() {
        return;
    }
    let level = |draws: &mut Stream| Permille::new(draws.between(0, 1000) as u32);
    let time = |draws: &mut Stream| SimDuration::from_secs(draws.between(1, 600));
    let shape = match draws.between(0, 2) {
        0 => Shape::Constant(level(draws)),
        1 => {
            let phases = [UsagePhase::Load, UsagePhase::Train, UsagePhase::Idle];
            let phases = phases.map(|phase| (phase, time(draws), phase.level())).to_vec();
            Shape::Phases(Phases { phases, repeat: draws.chance(500) })
        }
        _ => {
            let (high_for, rest) = (time(draws), time(draws));
            Shape::Periodic { period: high_for.saturating_add(rest), high_for, high: level(draws), low: Permille::ZERO }
        }
    };
    let noise = Permille::new(draws.between(0, 200) as u32);
    behavior.usage = Some(Arc::new(Usage::new(vec![GpuUsage { shape, noise, memory: None }])));
    let chance = |draws: &mut Stream| Permille::new(*draws.pick(&[0, 0, 50, 200]));
    let sometimes = |draws: &mut Stream| SimDuration::from_secs(*draws.pick(&[0, 0, 3, 90]));
    behavior.sampling = Arc::new(Sampling {
        jitter: sometimes(draws),
        delay: sometimes(draws),
        lost: chance(draws),
        repeated: chance(draws),
        late: chance(draws),
        late_by: SimDuration::from_secs(draws.between(1, 200)),
        not_available: chance(draws),
        nan: chance(draws),
        silences: vec![(time(draws), time(draws))],
        clock_steps: vec![(time(draws), 60_000_000_000 * (draws.between(0, 20) as i64 - 10))],
    });
}
