//! What the audit knows of jobs that share their limit of retries.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_event::Reason;
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;

/// The attempts of each group that were followed by another one because they failed.
#[derive(Default)]
pub(super) struct Retries {
    failed: BTreeMap<Arc<str>, u32>,
}

impl Retries {
    /// Notes that another attempt follows. Asserts that the group may have so many failures, and that the shortest pause
    /// comes first.
    pub fn follows(&mut self, spec: &JobSpec, because: Reason, (now, due): (SimTime, SimTime)) {
        let (Some(shared), Some(policy)) = (&spec.shared_retry, &spec.retry) else { return };
        let is_failure = matches!(
            because,
            Reason::Failed
                | Reason::StartFailed
                | Reason::NodeLost
                | Reason::GpuLost
                | Reason::Preempted
                | Reason::TimeLimit
        );
        if !is_failure {
            return;
        }
        let failed = self.failed.entry(Arc::clone(&shared.group)).or_insert(shared.failed);
        *failed += 1;
        assert!(policy.limit.is_none_or(|limit| *failed <= limit), "{failed} attempts of {} failed", shared.group);
        let first = now.saturating_add(policy.backoff.first.min(policy.backoff.max));
        assert!(due >= first, "the next attempt of {} is due at {due}, before {first}", shared.group);
    }
}
