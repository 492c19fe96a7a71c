//! Random dependencies between jobs.

use std::sync::Arc;

use super::rehearsal::Rehearsal;
use dryrack_control::Profile;
use dryrack_ids::JobId;
use dryrack_rng::Stream;
use dryrack_workload::{Arrival, Condition, Dependency, JobSpec};

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
