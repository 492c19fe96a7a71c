//! Retries after failures: a growing pause between attempts, and a limit on their number.

use dryrack_planted::planted;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Backoff, RetryPolicy};

/// The number of consecutive failures of a replica. A long run without failure resets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryState {
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    After(SimDuration),
    GiveUp,
}

impl RetryState {
    /// Records that an attempt failed after it had run for `ran`. If it ran for at least the longest pause, the earlier
    /// failures are forgotten. Kubernetes does the same after ten minutes of running.
    pub fn failed(&mut self, policy: &RetryPolicy, ran: SimDuration) -> Next {
        if ran >= policy.backoff.max && !ran.is_zero() && !planted!(LongRunForgivesNothing) {
            self.failures = 0;
        }
        if policy.limit.is_some_and(|limit| self.failures >= limit + u32::from(planted!(OneRetryTooMany))) {
            return Next::GiveUp;
        }
        self.failures += 1;
        Next::After(pause(&policy.backoff, self.failures))
    }
}

/// The failures that several attempts share: those of the pods of a Job, as the controller of Jobs counts them
/// (`syncJob` in `pkg/controller/job/job_controller.go`, `backoff_utils.go` of Kubernetes 1.35).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedFailures {
    /// All failures. A success does not forgive them.
    all: u32,
    since_success: u32,
    /// Until then, no attempt begins.
    pause_end: SimTime,
}

impl SharedFailures {
    /// After so many failures, whose pauses are over.
    pub fn after(failures: u32) -> SharedFailures {
        let all = if planted!(EarlierFailuresAreForgotten) { 0 } else { failures };
        SharedFailures { all, ..SharedFailures::default() }
    }

    /// Records that an attempt failed. Returns when the next one may begin: the pause grows with the failures since the
    /// last success. `None` if there were more failures than the limit allows.
    pub fn failed(&mut self, policy: &RetryPolicy, now: SimTime) -> Option<SimTime> {
        self.all = self.all.saturating_add(1);
        if policy.limit.is_some_and(|limit| self.all > limit) {
            return None;
        }
        self.since_success = self.since_success.saturating_add(1);
        self.pause_end = now.saturating_add(pause(&policy.backoff, self.since_success));
        Some(self.pause_end)
    }

    /// Records that an attempt completed, which ends the pause. Returns whether there was one.
    pub fn completed(&mut self, now: SimTime) -> bool {
        self.since_success = 0;
        if planted!(SuccessForgivesFailures) {
            self.all = 0;
        }
        if planted!(SuccessKeepsThePause) {
            return false;
        }
        let paused = self.pause_end > now;
        self.pause_end = self.pause_end.min(now);
        paused
    }

    /// The end of the pause, if there is one.
    pub fn paused_until(&self, now: SimTime) -> Option<SimTime> {
        Some(self.pause_end).filter(|end| *end > now)
    }
}

/// The pause after the n-th consecutive failure: first * factor^(n-1), at most max, where n begins at 1. Each
/// multiplication is rounded down to a nanosecond.
fn pause(backoff: &Backoff, failures: u32) -> SimDuration {
    let max = u128::from(backoff.max.as_nanos());
    let mut pause = u128::from(backoff.first.as_nanos()).min(max);
    let failures = if planted!(PauseDoesNotGrow) { 1 } else { failures };
    for _ in 1..failures {
        if pause >= max || pause == 0 {
            break;
        }
        pause = (pause * u128::from(backoff.factor.get()) / 1000).min(max);
        // With a factor of one the pause never changes, so the loop can stop.
        if backoff.factor.get() <= 1000 {
            break;
        }
    }
    SimDuration::from_nanos(pause as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::Permille;

    fn policy(limit: Option<u32>) -> RetryPolicy {
        let secs = SimDuration::from_secs;
        RetryPolicy { limit, backoff: Backoff { first: secs(10), factor: Permille::new(2000), max: secs(300) } }
    }

    /// Kubernetes documents CrashLoopBackOff as 10 s, 20 s, 40 s, ..., capped at five minutes.
    #[test]
    fn the_pause_doubles_up_to_its_maximum() {
        let mut state = RetryState::default();
        let pauses = [10, 20, 40, 80, 160, 300, 300];
        for pause in pauses {
            assert_eq!(state.failed(&policy(None), SimDuration::ZERO), Next::After(SimDuration::from_secs(pause)));
        }
    }

    #[test]
    fn a_limit_of_two_allows_three_attempts() {
        let mut state = RetryState::default();
        let outcomes: Vec<bool> =
            (0..3).map(|_| state.failed(&policy(Some(2)), SimDuration::ZERO) == Next::GiveUp).collect();
        assert_eq!(outcomes, [false, false, true]);
    }

    /// `backoff_utils_test.go` and `job_controller_test.go` of Kubernetes: each failure of any pod counts against the
    /// limit, and only those since the last success make the pause longer.
    #[test]
    fn shared_failures_all_count_and_a_success_ends_the_pause() {
        let mut failures = SharedFailures::after(1);
        let at = SimTime::from_secs;
        let limit = policy(Some(4));
        let ends: Vec<_> = (0..2).map(|_| failures.failed(&limit, at(100))).collect();
        assert_eq!(ends, [Some(at(110)), Some(at(120))]);
        assert_eq!((failures.paused_until(at(119)), failures.paused_until(at(120))), (Some(at(120)), None));
        assert_eq!((failures.completed(at(115)), failures.completed(at(115))), (true, false));
        assert_eq!(failures.paused_until(at(115)), None);
        assert_eq!([failures.failed(&limit, at(200)), failures.failed(&limit, at(900))], [Some(at(210)), None]);
    }

    #[test]
    fn a_long_run_forgives_the_failures_before_it() {
        let mut state = RetryState::default();
        state.failed(&policy(Some(1)), SimDuration::ZERO);
        assert_eq!(
            state.failed(&policy(Some(1)), SimDuration::from_secs(300)),
            Next::After(SimDuration::from_secs(10))
        );
    }
}
