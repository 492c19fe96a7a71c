//! What the running jobs of each QOS hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_scheduler::slurm::{Held, HeldOf, Qos, Requested};
use dryrack_workload::JobSpec;

/// What the running jobs of a QOS hold: all of them, those of each user, and those of each account.
#[derive(Debug, Default)]
pub struct UsageOfQos {
    all: Held,
    users: BTreeMap<Option<Arc<str>>, Held>,
    accounts: BTreeMap<Option<Arc<str>>, Held>,
}

/// What the running jobs of each QOS hold, by the name of the QOS.
pub type Usage = BTreeMap<Arc<str>, UsageOfQos>;

impl UsageOfQos {
    pub fn add(&mut self, spec: &JobSpec, held: Requested) {
        self.all.add(held);
        self.users.entry(spec.user.clone()).or_default().add(held);
        self.accounts.entry(account_of(spec).clone()).or_default().add(held);
    }

    /// What counts for a job. Users and accounts are looked up if the QOS counts them.
    pub fn held_of(&self, spec: &JobSpec, qos: &Qos) -> HeldOf {
        let user = || self.users.get(&spec.user).copied().unwrap_or_default();
        let account = || self.accounts.get(account_of(spec)).copied().unwrap_or_default();
        let none = Held::default();
        HeldOf {
            all: self.all,
            user: if qos.counts_users() { user() } else { none },
            account: if qos.counts_accounts() { account() } else { none },
        }
    }
}

/// The name of a job's QOS.
pub fn qos_of(spec: &JobSpec) -> Option<&Arc<str>> {
    spec.slurm.as_ref()?.qos.as_ref()
}

pub fn account_of(spec: &JobSpec) -> &Option<Arc<str>> {
    spec.slurm.as_ref().map_or(&None, |terms| &terms.account)
}
