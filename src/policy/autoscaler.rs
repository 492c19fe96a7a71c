//! The number of replicas that a service should have.

use dryrack_planted::planted;
use dryrack_units::SimDuration;
use dryrack_workload::Scaling;

/// The result of evaluating a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingDecision {
    /// The service should have this many replicas from now on. Often this is the number that the service already has.
    To(u32),
    /// The number should change, but may do so only this long after the last change.
    NotBefore(SimDuration),
}

/// Returns the number of replicas that the service should have. It is the smallest number within the limits that keeps
/// each replica at or below its target. The number increases only if `scale_up_delay` has passed since the last change,
/// and decreases only if `scale_down_delay` has passed. An increase from zero has no delay. Before the first count of
/// requests, the number does not change.
///
/// Source: dstack 0.18.44 to 0.22.5, its scaler by requests per second. dstack divides in floating point. Here the
/// division is exact.
pub fn autoscale(
    scaling: &Scaling,
    current: u32,
    requests: Option<u64>,
    since: Option<SimDuration>,
) -> ScalingDecision {
    let Some(requests) = requests else { return ScalingDecision::To(current) };
    let wanted = wanted(scaling, requests);
    let delay = match wanted.cmp(&current) {
        std::cmp::Ordering::Equal => return ScalingDecision::To(current),
        std::cmp::Ordering::Greater if current == 0 => return ScalingDecision::To(wanted),
        std::cmp::Ordering::Greater if planted!(ScalesUpAsSlowlyAsDown) => scaling.scale_down_delay,
        std::cmp::Ordering::Greater => scaling.scale_up_delay,
        std::cmp::Ordering::Less => scaling.scale_down_delay,
    };
    match since {
        Some(since) if since < delay => ScalingDecision::NotBefore(delay),
        Some(_) | None => ScalingDecision::To(wanted),
    }
}

/// The requests in the window divided by the target of one replica for the whole window, rounded up.
fn wanted(scaling: &Scaling, requests: u64) -> u32 {
    // Both numbers are in units of 10^-12 requests: thousandths multiplied by nanoseconds.
    let requests = u128::from(requests) * 1_000_000_000_000;
    let of_one = u128::from(scaling.target.get()) * u128::from(scaling.window.as_nanos());
    let wanted = match planted!(ReplicasRoundedDown) {
        true => requests / of_one.max(1),
        false => requests.div_ceil(of_one.max(1)),
    };
    u32::try_from(wanted).unwrap_or(u32::MAX).clamp(scaling.min, scaling.max.max(scaling.min))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::RequestRate;

    fn scaling(min: u32) -> Scaling {
        let secs = SimDuration::from_secs;
        Scaling {
            min,
            max: 4,
            target: RequestRate::new(2500),
            window: secs(60),
            scale_up_delay: secs(300),
            scale_down_delay: secs(600),
        }
    }

    /// The target of a replica is 150 requests per minute.
    #[test]
    fn each_replica_has_its_target_at_most() {
        let rows = [(0, 1), (1, 1), (150, 1), (151, 2), (450, 3), (451, 4), (100_000, 4)];
        for (requests, wanted) in rows {
            assert_eq!(
                autoscale(&scaling(1), 2, Some(requests), None),
                ScalingDecision::To(wanted),
                "{requests} requests"
            );
        }
    }

    #[test]
    fn more_come_after_one_delay_and_fewer_after_another() {
        let secs = |secs| Some(SimDuration::from_secs(secs));
        let rows = [
            ("too early for more", 2, 451, 299, None),
            ("time for more", 2, 451, 300, Some(4)),
            ("too early for fewer", 2, 0, 599, None),
            ("time for fewer", 2, 0, 600, Some(0)),
            ("nothing to do is no matter of time", 2, 300, 0, Some(2)),
            ("from none at once", 0, 151, 0, Some(2)),
        ];
        for (sentence, current, requests, since, wanted) in rows {
            let found = autoscale(&scaling(0), current, Some(requests), secs(since));
            match wanted {
                Some(wanted) => assert_eq!(found, ScalingDecision::To(wanted), "{sentence}"),
                None => assert!(matches!(found, ScalingDecision::NotBefore(_)), "{sentence}"),
            }
        }
    }

    #[test]
    fn who_was_never_counted_stays_as_it_is() {
        assert_eq!(autoscale(&scaling(1), 3, None, None), ScalingDecision::To(3));
    }
}
