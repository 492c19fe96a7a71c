//! What the running jobs of each QOS hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_scheduler::slurm::Held;
use dryrack_workload::JobSpec;

/// A group of jobs whose running jobs are counted together: all, those of a user, or those of an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    All,
    User(Option<Arc<str>>),
    Account(Option<Arc<str>>),
}

/// What the running jobs of each QOS hold, by the name of the QOS.
pub type Usage = BTreeMap<(Arc<str>, Party), Held>;

/// The name of a job's QOS.
pub fn qos_of(spec: &JobSpec) -> Option<&Arc<str>> {
    spec.slurm.as_ref()?.qos.as_ref()
}

/// The groups in which a job is counted.
pub fn parties(spec: &JobSpec) -> [Party; 3] {
    let account = spec.slurm.as_ref().and_then(|terms| terms.account.clone());
    [Party::All, Party::User(spec.user.clone()), Party::Account(account)]
}
