//! How Slurm's backfilling counts time.

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_event::Phase;
use dryrack_units::{SimDuration, SimTime};

/// Ends of attempts that are close together count as one end, at the last of them. They are close if they are within
/// this distance after a reference time: the first multiple of the distance after the first end. With each further
/// search, the distance doubles until it reaches the next end.
pub const CLOSE: SimDuration = SimDuration::from_secs(30);

/// The limit of a job that states no limit.
pub const YEAR: SimDuration = SimDuration::from_secs(365 * 86_400);
pub const SECOND: SimDuration = SimDuration::from_secs(1);

/// This time, rounded down to a multiple of the unit.
pub fn down_to(at: SimTime, unit: SimDuration) -> SimTime {
    SimTime::from_nanos(at.as_nanos() / unit.as_nanos() * unit.as_nanos())
}

/// Whether a replica is being stopped. Its job is completing then, in Slurm's words.
pub fn is_stopping(core: &Core, index: ReplicaIndex) -> bool {
    core.store[index].phase == Phase::Stopping
}

/// The time limit of a replica.
pub fn limit_of(core: &Core, index: ReplicaIndex) -> SimDuration {
    let job = core.store[index].job;
    core.store[job].spec.estimate.unwrap_or(YEAR)
}

/// The earlier of two optional times.
pub fn earlier(one: Option<SimTime>, other: Option<SimTime>) -> Option<SimTime> {
    one.into_iter().chain(other).min()
}
