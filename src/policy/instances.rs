//! Instances of a fleet: when an idle instance is terminated, and when missing instances are requested.

use dryrack_fleet::{FleetNodes, IdleDuration};
use dryrack_units::SimDuration;
use dryrack_workload::IdleLimit;

/// Whether an instance was made for a run or for its fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstancePurpose {
    Run,
    Fleet,
}

/// The longest time for which an instance may be idle; `None` means forever.
///
/// Source of the default times: dstack 0.22.5, defaults of runs and of fleets.
pub fn longest_idle(rule: IdleDuration, made_for: InstancePurpose) -> Option<SimDuration> {
    match (rule, made_for) {
        (IdleDuration::Off, _) => None,
        (IdleDuration::After(length), _) => Some(length),
        (IdleDuration::Usual, InstancePurpose::Run) => Some(SimDuration::from_secs(5 * 60)),
        (IdleDuration::Usual, InstancePurpose::Fleet) => Some(SimDuration::from_secs(72 * 3600)),
    }
}

/// The idle duration of an instance that was made for a run, from the settings of its fleet and of the run. It is the
/// shorter of the two, where [`IdleDuration::Off`] counts as the longest. If the fleet has its usual duration, the
/// run's setting applies.
///
/// Source: dstack 0.22.5, how the profiles of fleets and runs are combined.
pub fn idle_rule(of_fleet: IdleDuration, of_run: Option<IdleLimit>) -> IdleDuration {
    match (of_fleet, of_run) {
        (of_fleet, None) => of_fleet,
        (IdleDuration::After(one), Some(IdleLimit::After(other))) => IdleDuration::After(one.min(other)),
        (IdleDuration::Usual | IdleDuration::Off, Some(IdleLimit::After(other))) => IdleDuration::After(other),
        (IdleDuration::Usual, Some(IdleLimit::Off)) => IdleDuration::Off,
        (IdleDuration::After(_) | IdleDuration::Off, Some(IdleLimit::Off)) => of_fleet,
    }
}

/// Whether a fleet with this many instances may terminate one. Instances that are still being created also count.
pub fn may_give_back(nodes: Option<FleetNodes>, instances: u32) -> bool {
    instances > nodes.map_or(0, |nodes| nodes.min)
}

/// Pauses between two checks of a fleet that lacks instances. The last pause repeats.
///
/// Source: dstack 0.22.5, delays of the consolidation of fleets.
const PAUSES_MINUTES: [u64; 5] = [1, 2, 5, 10, 30];

/// After this many consecutive checks with missing instances, the fleet is not checked any more.
///
/// Source: dstack 0.22.5, attempts of the consolidation of fleets.
const MOST_ATTEMPTS: u32 = 15;

/// Keeps a fleet at its minimum by repeated checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consolidation {
    attempts: u32,
}

impl Consolidation {
    /// Time from the last check to the next one.
    pub fn pause(self) -> SimDuration {
        let index = (self.attempts as usize).min(PAUSES_MINUTES.len() - 1);
        SimDuration::from_secs(60 * PAUSES_MINUTES[index])
    }

    /// Records that a check found instances missing. Returns whether another check follows.
    pub fn found_missing(&mut self) -> bool {
        self.attempts += 1;
        self.attempts < MOST_ATTEMPTS
    }

    /// Records that a check found no missing instance.
    pub fn found_whole(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_that_stays_short_is_looked_at_less_and_less_often_and_then_no_more() {
        let mut consolidation = Consolidation::default();
        let mut minutes = Vec::new();
        loop {
            minutes.push(consolidation.pause().as_nanos() / 60_000_000_000);
            if !consolidation.found_missing() {
                break;
            }
        }
        assert_eq!(minutes, [1, 2, 5, 10, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30]);
        consolidation.found_whole();
        assert_eq!(consolidation.pause(), SimDuration::from_secs(60));
    }

    #[test]
    fn of_two_idle_durations_the_shorter_holds_and_off_is_the_longest() {
        let (short, long) = (SimDuration::from_secs(60), SimDuration::from_secs(600));
        let rows = [
            (IdleDuration::Usual, None, IdleDuration::Usual),
            (IdleDuration::Usual, Some(IdleLimit::Off), IdleDuration::Off),
            (IdleDuration::Usual, Some(IdleLimit::After(long)), IdleDuration::After(long)),
            (IdleDuration::After(short), None, IdleDuration::After(short)),
            (IdleDuration::After(short), Some(IdleLimit::After(long)), IdleDuration::After(short)),
            (IdleDuration::After(long), Some(IdleLimit::After(short)), IdleDuration::After(short)),
            (IdleDuration::After(long), Some(IdleLimit::Off), IdleDuration::After(long)),
            (IdleDuration::Off, Some(IdleLimit::After(long)), IdleDuration::After(long)),
            (IdleDuration::Off, Some(IdleLimit::Off), IdleDuration::Off),
        ];
        for (of_fleet, of_run, wanted) in rows {
            assert_eq!(idle_rule(of_fleet, of_run), wanted, "{of_fleet:?} and {of_run:?}");
        }
    }

    #[test]
    fn no_instance_is_given_back_below_the_minimum() {
        let nodes = Some(FleetNodes { min: 2, target: 3, max: None });
        assert!(may_give_back(nodes, 3));
        assert!(!may_give_back(nodes, 2));
        assert!(may_give_back(None, 1));
    }
}
