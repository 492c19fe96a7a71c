//! Random services that scale, and projects with quotas.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rehearsal::Rehearsal;
use dryrack_control::Profile;
use dryrack_policy::Quota;
use dryrack_rng::Stream;
use dryrack_units::{Money, RequestRate, SimDuration};
use dryrack_workload::{Arrival, IdleLimit, JobBehavior, JobSpec, Requests, Scaling};

/// Adds services and projects. Uses its own random stream, so other draws do not change.
pub(super) fn add_services(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm services", 0);
    // A Slurm cluster has its own limits for users and accounts.
    let may_have_quotas = world.profile.refuses_quotas().is_none() && world.profile.slurm.is_none();
    let has_quotas = may_have_quotas && draws.chance(500);
    let projects = ["a", "b"];
    if has_quotas {
        let mut profile = Profile::clone(&world.profile);
        let quota = |draws: &mut Stream| Quota {
            gpus: draws.chance(700).then(|| draws.between(0, 8) as u32),
            price_per_hour: draws.chance(300).then(|| Money::new(draws.between(0, 20_000_000))),
        };
        profile.policies.quotas =
            projects.iter().map(|name| ((*name).to_string(), quota(&mut draws))).collect::<BTreeMap<_, _>>();
        world.profile = Arc::new(profile);
    }
    let has_services = draws.chance(500);
    for arrival in &mut world.arrivals {
        let is_service = has_services && draws.chance(300);
        let project = (has_quotas && draws.chance(700)).then(|| *draws.pick(&projects));
        let mut spec = JobSpec { project: project.map(Arc::from), ..JobSpec::clone(&arrival.spec) };
        let limit = SimDuration::from_secs(draws.between(1, 1200));
        Arc::make_mut(&mut spec.terms).idle = *draws.pick(&[None, Some(IdleLimit::Off), Some(IdleLimit::After(limit))]);
        let mut behavior = JobBehavior::clone(&arrival.behavior);
        if is_service {
            let scaling = draw_scaling(&mut draws);
            (spec.replicas, spec.scaling) = (scaling.min, Some(Box::new(scaling)));
            // A service that ends is restarted at once. A minimum run time keeps the number of restarts low.
            behavior.run = behavior.run.map(|length| length.max(SimDuration::from_secs(60)));
            behavior.requests = Some(Arc::new(draw_requests(&mut draws)));
        }
        *arrival = Arrival { spec: Arc::new(spec), behavior: Arc::new(behavior), ..arrival.clone() };
    }
}

fn draw_scaling(draws: &mut Stream) -> Scaling {
    let min = draws.between(0, 2) as u32;
    Scaling {
        min,
        max: min + draws.between(1, 4) as u32,
        target: RequestRate::new(draws.between(1, 4000)),
        window: SimDuration::from_secs(*draws.pick(&[30, 60, 300])),
        scale_up_delay: SimDuration::from_secs(*draws.pick(&[0, 20, 300])),
        scale_down_delay: SimDuration::from_secs(*draws.pick(&[0, 30, 600])),
    }
}

fn draw_requests(draws: &mut Stream) -> Requests {
    let mut at = SimDuration::ZERO;
    let step = |_| {
        at = at.saturating_add(SimDuration::from_secs(draws.between(1, 900)));
        (at, RequestRate::new(draws.between(0, 10_000)))
    };
    Requests((0..6).map(step).collect())
}
