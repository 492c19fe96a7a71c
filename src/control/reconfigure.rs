//! A change of the profile in the midst of a run.
//!
//! Replicas that wait are put in the order of the new profile and judged anew. What began under the old profile goes
//! on as it began: a decision that is being made, a deadline or a pause, a policy that was bound to a run.

use super::core::Core;
use super::profile::Profile;
use dryrack_workload::JobSpec;

/// Checks whether a run can go on under another profile, and says why if it cannot.
pub fn can_become(from: &Profile, to: &Profile) -> Result<(), &'static str> {
    if from.flow != to.flow {
        return Err("its loops differ, and it could not continue with the rows that the other has begun");
    }
    if to.scheduler.needs_kinds() && !from.scheduler.needs_kinds() {
        return Err("it tells kinds of tasks apart, and the kinds of running tasks were not recorded");
    }
    Ok(())
}

impl Core {
    /// Reads the profile of an input that changes it, and checks that the control plane can go on with it.
    pub(crate) fn read_profile(&self, text: &str) -> Result<Profile, &'static str> {
        let profile: Profile =
            serde_json::from_str(text).and_then(Profile::from_data).map_err(|_| "a profile that cannot be read")?;
        if !profile.faults().is_empty() {
            return Err("a profile that cannot be run");
        }
        let binds = |spec: &JobSpec| profile.policies.utilization.can_bind(&spec.utilization);
        if self.jobs.values().any(|job| job.live > 0 && !binds(&job.spec)) {
            return Err("a profile with a utilization policy of no time, or of more samples than are kept");
        }
        can_become(&self.profile, &profile).map(|()| profile)
    }
}
