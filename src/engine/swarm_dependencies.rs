//! Random dependencies between jobs, and random limits on how many of them run at a time.

use std::sync::Arc;

use super::rehearsal::Rehearsal;
use dryrack_control::Profile;
use dryrack_ids::JobId;
use dryrack_rng::Stream;
use dryrack_workload::{Arrival, Condition, Dependency, JobSpec, RunLimit};

/// Makes some jobs depend on jobs that arrive before them. Uses its own random stream, so other draws do not change.
pub(super) fn add_dependencies(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm dependencies", 0);
    if !draws.chance(300) {
        return;
    }
    if draws.chance(500) {
        world.profile = Arc::new(Profile { kill_invalid_depend: true, ..Profile::clone(&world.profile) });
    }
    for (index, arrival) in world.arrivals.iter_mut().enumerate().skip(1) {
        if !draws.chance(400) {
            continue;
        }
        let mut after = Vec::new();
        for _ in 0..draws.between(1, 3) {
            let (_, when) = *draws.pick(&Condition::ALL);
            after.push(Dependency { job: JobId::new(draws.index(index)), when });
        }
        let spec = JobSpec { after: after.into(), ..JobSpec::clone(&arrival.spec) };
        *arrival = Arrival { spec: Arc::new(spec), ..arrival.clone() };
    }
}

/// Makes some jobs tasks of arrays with a limit, or singletons. Uses its own random stream, so other draws do not change.
pub(super) fn add_run_limits(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm run limits", 0);
    if !draws.chance(200) {
        return;
    }
    let groups = draws.between(1, 3);
    let limits: Vec<RunLimit> = (0..groups)
        .map(|group| match draws.chance(500) {
            true => RunLimit::ArrayTasks { array: format!("a{group}").into(), most: draws.between(1, 3) as u32 },
            false => RunLimit::Singleton { name: format!("s{group}").into() },
        })
        .collect();
    for arrival in &mut world.arrivals {
        if draws.chance(500) {
            let run_limit = Some(Box::new(draws.pick(&limits).clone()));
            let spec = JobSpec { run_limit, ..JobSpec::clone(&arrival.spec) };
            *arrival = Arrival { spec: Arc::new(spec), ..arrival.clone() };
        }
    }
}
