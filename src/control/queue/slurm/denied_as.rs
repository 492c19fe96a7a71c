//! Which jobs a QOS always denies together.

use std::sync::Arc;

use super::usage::account_of;
use dryrack_scheduler::slurm::{Qos, Requested};
use dryrack_units::SimDuration;
use dryrack_workload::JobSpec;

/// What decides, beside the running jobs, whether a QOS denies a job. Jobs for which this is equal get equal answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeniedAs {
    /// `None` if the QOS has no limits.
    qos: Option<Arc<str>>,
    /// `None` if no limit counts users.
    user: Option<Arc<str>>,
    /// `None` if no limit counts accounts.
    account: Option<Arc<str>>,
    /// What limits read of the request.
    requested: Requested,
    is_too_long: bool,
}

impl DeniedAs {
    pub fn of(qos: &Qos, spec: &JobSpec, requested: Requested, limit: SimDuration) -> DeniedAs {
        if !qos.has_limits() {
            return DeniedAs::default();
        }
        DeniedAs {
            qos: Some(Arc::clone(&qos.name)),
            user: spec.user.clone().filter(|_| qos.counts_users()),
            account: account_of(spec).clone().filter(|_| qos.counts_accounts()),
            requested: qos.read_of(requested),
            is_too_long: qos.is_too_long(limit),
        }
    }
}
