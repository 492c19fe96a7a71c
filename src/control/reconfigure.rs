//! A change of the profile during a run.
//!
//! Waiting replicas are sorted into the order of the new profile and judged again. Everything that began under the old
//! profile continues unchanged: a decision in progress, a deadline, a pause, or a policy that was bound to a run.

use super::core::Core;
use super::profile::Profile;
use dryrack_workload::JobSpec;

/// Checks whether a run can continue under another profile, and says why if it cannot.
pub fn can_become(from: &Profile, to: &Profile) -> Result<(), &'static str> {
    if from.flow != to.flow {
        return Err("its loops differ from those of the running profile, so it cannot continue with their rows");
    }
    if to.scheduler.needs_kinds() && !from.scheduler.needs_kinds() {
        return Err("it distinguishes kinds of tasks, but the kinds of the running tasks were not recorded");
    }
    Ok(())
}

/// Reads the profile of an input that changes the profile, and checks that the control plane can continue with it.
pub(crate) fn read_profile(core: &Core, text: &str) -> Result<Profile, &'static str> {
    let profile: Profile =
        serde_json::from_str(text).and_then(Profile::from_data).map_err(|_| "a profile that cannot be read")?;
    if !profile.faults().is_empty() {
        return Err("a profile that cannot be run");
    }
    let binds = |spec: &JobSpec| profile.policies.utilization.can_bind(&spec.utilization);
    if core.store.jobs.values().any(|job| job.live > 0 && !binds(&job.spec)) {
        return Err("a profile with a utilization policy without a time window, or with too many samples in it");
    }
    can_become(&core.profile, &profile).map(|()| profile)
}
