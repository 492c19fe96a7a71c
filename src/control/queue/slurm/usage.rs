//! What the running jobs of each QOS hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_ids::NodeId;
use dryrack_scheduler::slurm::{Held, HeldOf, Qos, Requested};
use dryrack_workload::JobSpec;

/// What some of the running jobs of a QOS hold.
#[derive(Debug, Default)]
struct OfJobs {
    held: Held,
    /// Their nodes, if a limit counts them.
    nodes: BTreeSet<NodeId>,
}

impl OfJobs {
    fn add(&mut self, held: Requested, nodes: &[NodeId]) {
        self.held.add(held);
        self.nodes.extend(nodes);
        self.held.tres.nodes = self.nodes.len() as u64;
    }

    fn held(&self, counted: &NodesCounted<'_>) -> Held {
        let nodes = match counted {
            NodesCounted::None => 0,
            NodesCounted::All => self.held.tres.nodes,
            NodesCounted::ExceptOf(job) => self.nodes.iter().filter(|node| !job.contains(node)).count() as u64,
        };
        Held { tres: Requested { nodes, ..self.held.tres }, ..self.held }
    }
}

/// Which nodes of running jobs count for a job that is about to start.
pub enum NodesCounted<'n> {
    /// None, because it is not known yet which of them the job would share.
    None,
    All,
    /// All but these, on which the job would start. They count as its own.
    ExceptOf(&'n BTreeSet<NodeId>),
}

/// What the running jobs of a QOS hold: all of them, those of each user, and those of each account.
#[derive(Debug, Default)]
pub struct UsageOfQos {
    all: OfJobs,
    users: BTreeMap<Option<Arc<str>>, OfJobs>,
    accounts: BTreeMap<Option<Arc<str>>, OfJobs>,
}

/// What the running jobs of each QOS hold, by the name of the QOS.
pub type Usage = BTreeMap<Arc<str>, UsageOfQos>;

impl UsageOfQos {
    /// Adds a job on these nodes. Without nodes, none of them counts.
    pub fn add(&mut self, spec: &JobSpec, held: Requested, nodes: &[NodeId]) {
        self.all.add(held, nodes);
        self.users.entry(spec.user.clone()).or_default().add(held, nodes);
        self.accounts.entry(account_of(spec).clone()).or_default().add(held, nodes);
    }

    /// What counts for a job. Users and accounts are looked up if the QOS counts them.
    pub fn held_of(&self, spec: &JobSpec, qos: &Qos, counted: &NodesCounted<'_>) -> HeldOf {
        let held = |of: Option<&OfJobs>| of.map(|of| of.held(counted)).unwrap_or_default();
        HeldOf {
            all: self.all.held(counted),
            user: held(self.users.get(&spec.user).filter(|_| qos.counts_users())),
            account: held(self.accounts.get(account_of(spec)).filter(|_| qos.counts_accounts())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_scheduler::slurm::Tres;
    use dryrack_units::MilliCpu;
    use dryrack_workload::{Demand, SlurmTerms, TaskDemand};

    fn job_of(user: &str, account: &str) -> JobSpec {
        let demand = Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1)));
        let slurm =
            SlurmTerms { partition: None, account: Some(account.into()), qos: None, reservation: None, requeue: true };
        let (user, slurm) = (Some(user.into()), Some(slurm.into()));
        JobSpec { user, slurm, ..JobSpec::of("j".into(), demand) }
    }

    #[test]
    fn nodes_of_running_jobs_count_once_and_not_if_the_job_shares_them() {
        let node = NodeId::new;
        let mut usage = UsageOfQos::default();
        // On nodes 0 and 1, 1 and 2, and 3.
        usage.add(&job_of("ann", "physics"), Requested { nodes: 2, cpus: 8, gpus: 1 }, &[node(0), node(1)]);
        usage.add(&job_of("bob", "physics"), Requested { nodes: 2, cpus: 4, gpus: 2 }, &[node(1), node(2)]);
        usage.add(&job_of("ann", "biology"), Requested { nodes: 1, cpus: 1, gpus: 4 }, &[node(3)]);
        let limits = BTreeMap::from([(Tres::Node, 9)]);
        let qos = Qos { max_tres_per_user: limits.clone(), max_tres_per_account: limits, ..Qos::default() };
        let own = BTreeSet::from([node(1), node(3), node(4)]);
        let held = |jobs, nodes, cpus, gpus| Held { jobs, tres: Requested { nodes, cpus, gpus } };
        for (counted, [all, user, account]) in
            [(NodesCounted::None, [0, 0, 0]), (NodesCounted::All, [4, 3, 3]), (NodesCounted::ExceptOf(&own), [2, 1, 2])]
        {
            let of = usage.held_of(&job_of("ann", "physics"), &qos, &counted);
            assert_eq!(
                [of.all, of.user, of.account],
                [held(3, all, 13, 7), held(2, user, 9, 5), held(2, account, 12, 3)]
            );
        }
        // Nothing is looked up that no limit reads, and others hold nothing.
        let of = usage.held_of(&job_of("ann", "physics"), &Qos::default(), &NodesCounted::All);
        assert_eq!([of.all, of.user, of.account], [held(3, 4, 13, 7), Held::default(), Held::default()]);
        let of = usage.held_of(&job_of("eve", "law"), &qos, &NodesCounted::All);
        assert_eq!([of.all, of.user, of.account], [held(3, 4, 13, 7), Held::default(), Held::default()]);
    }
}
