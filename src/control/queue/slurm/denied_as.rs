//! Which jobs a QOS always denies together.

use std::sync::Arc;

use super::usage::{account_of, qos_of};
use dryrack_scheduler::slurm::{LimitingQos, Qos, Requested};
use dryrack_units::SimDuration;
use dryrack_workload::JobSpec;

/// What decides, beside the running jobs, whether QOS deny a job in a partition. Jobs for which this is equal get equal
/// answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeniedAs {
    /// The job's own QOS. `None` if no QOS has limits.
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
    pub fn of(limiting: LimitingQos<'_>, spec: &JobSpec, requested: Requested, limit: SimDuration) -> DeniedAs {
        if !limiting.has_limits() {
            return DeniedAs::default();
        }
        let read = limiting.each().map(|qos| qos.read_of(requested));
        let widest = |one: Requested, other: Requested| Requested {
            nodes: one.nodes.max(other.nodes),
            cpus: one.cpus.max(other.cpus),
            gpus: one.gpus.max(other.gpus),
        };
        DeniedAs {
            qos: qos_of(spec).cloned(),
            user: spec.user.clone().filter(|_| limiting.each().any(Qos::counts_users)),
            account: account_of(spec).clone().filter(|_| limiting.each().any(Qos::counts_accounts)),
            requested: read.fold(Requested::default(), widest),
            is_too_long: limiting.is_too_long(limit),
        }
    }
}
