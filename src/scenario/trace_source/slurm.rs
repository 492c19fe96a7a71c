//! The partition, QOS and account of each job of a trace, in a cluster of Slurm.
//!
//! The partition of a job is its queue in the trace, which is the column `Partition` in a log of Slurm. A name that `slurm:`
//! does not have is an error, because the job would otherwise run on nodes, or under limits, that it never had.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::settings::{RunOn, TraceSettings};
use crate::job_template::Draft;
use crate::slurm::{has_parts_of_gpus, has_unknown_nodes};
use dryrack_scheduler::slurm::{Associations, DEFAULT_QOS, MEMBER, Partition, Qos, SlurmOptions, partition_label};
use dryrack_trace::TraceTask;
use dryrack_units::{SimDuration, counted};
use dryrack_workload::{Demand, DemandKind, SlurmTerms};
use dryrack_yaml::Report;

/// A cluster of Slurm, as far as jobs of a trace need it.
#[derive(Clone, Debug)]
pub(super) struct TraceSlurm {
    options: SlurmOptions,
    accounts: Associations,
}

impl TraceSlurm {
    pub fn of(options: &SlurmOptions) -> TraceSlurm {
        TraceSlurm { options: options.clone(), accounts: Associations::of(&options.accounts) }
    }

    /// The terms of a job. A name that the cluster does not have is left out; [`Survey::report`] has refused it.
    pub fn terms(&self, task: &TraceTask, queue: Option<&str>) -> SlurmTerms {
        SlurmTerms {
            partition: self.partition(queue),
            account: self.account(task).ok(),
            qos: self.qos(task).map(|qos| Arc::clone(&qos.name)),
            reservation: None,
            requeue: self.options.job_requeue,
        }
    }

    /// The time limit of a job whose own limit is not known.
    pub fn default_limit(&self, terms: &SlurmTerms) -> Option<SimDuration> {
        self.options.limit_if_unstated(terms)
    }

    /// The partition of a queue, or several that are separated by commas, each once.
    fn partition(&self, queue: Option<&str>) -> Option<Arc<str>> {
        let Some(queue) = queue else { return self.options.default_partition().map(|found| Arc::clone(&found.name)) };
        let mut found: Vec<&str> = Vec::new();
        for name in queue.split(',') {
            let name = &*self.options.partition(name)?.name;
            if !found.contains(&name) {
                found.push(name);
            }
        }
        Some(Arc::from(found.join(",")))
    }

    fn qos(&self, task: &TraceTask) -> Option<&Qos> {
        self.options.qos(task.qos.as_deref().unwrap_or(DEFAULT_QOS))
    }

    /// The account of a job, or its user and the account that does not have this user. Without accounts, the one that
    /// the trace states.
    fn account(&self, task: &TraceTask) -> Result<Arc<str>, (String, Option<String>)> {
        let user = user_of(task).unwrap_or_default();
        let unknown = || (user.clone(), task.account.clone());
        match task.account.as_deref() {
            stated if self.options.accounts.is_empty() => stated.map(Arc::from).ok_or_else(unknown),
            Some(account) if self.accounts.find(&user, account).is_some() => Ok(Arc::from(account)),
            Some(_) => Err(unknown()),
            None => self.accounts.default_account(&user).cloned().ok_or_else(unknown),
        }
    }
}

/// The user of a task: the name if the trace states it, or else the number.
pub(super) fn user_of(task: &TraceTask) -> Option<String> {
    task.user_name.clone().or_else(|| task.user.map(|user| user.to_string()))
}

/// The demand, for nodes of this partition.
pub(super) fn in_partition(demand: &Demand, partition: &str) -> Demand {
    let mut demand = demand.clone();
    if let DemandKind::Tasks(task) = &mut demand.kind {
        task.labels.insert(partition_label(partition), Arc::from(MEMBER));
    }
    demand
}

/// What the chosen jobs of a trace say to Slurm that the cluster does not have.
pub(super) struct Survey<'s> {
    slurm: &'s TraceSlurm,
    jobs: usize,
    without_partition: usize,
    without_qos: usize,
    without_user: usize,
    without_account: usize,
    /// The lists of several partitions that jobs name.
    pub lists: BTreeSet<Arc<str>>,
    partitions: BTreeMap<String, usize>,
    qos: BTreeMap<String, usize>,
    /// By user and account.
    accounts: BTreeMap<(String, Option<String>), usize>,
}

impl<'s> Survey<'s> {
    pub fn of(slurm: &'s TraceSlurm) -> Survey<'s> {
        Survey {
            slurm,
            jobs: 0,
            without_partition: 0,
            without_qos: 0,
            without_user: 0,
            without_account: 0,
            lists: BTreeSet::new(),
            partitions: BTreeMap::new(),
            qos: BTreeMap::new(),
            accounts: BTreeMap::new(),
        }
    }

    /// Counts a chosen task with its queue.
    pub fn add(&mut self, task: &TraceTask, queue: Option<&str>) {
        self.jobs += 1;
        let options = &self.slurm.options;
        match queue {
            None => self.without_partition += 1,
            Some(_) if options.partitions.is_empty() => {}
            Some(queue) => {
                for name in queue.split(',').filter(|name| options.partition(name).is_none()) {
                    *self.partitions.entry(name.to_string()).or_default() += 1;
                }
                self.lists.extend(self.slurm.partition(Some(queue)).filter(|list| list.contains(',')));
            }
        }
        match task.qos.as_deref() {
            None => self.without_qos += 1,
            // Slurm gives this QOS to jobs that name none. It limits nothing unless the file says so.
            Some(DEFAULT_QOS) => {}
            Some(qos) if !options.qos.is_empty() && options.qos(qos).is_none() => {
                *self.qos.entry(qos.to_string()).or_default() += 1;
            }
            Some(_) => {}
        }
        let has_user = user_of(task).is_some();
        self.without_user += usize::from(!has_user);
        self.without_account += usize::from(task.account.is_none());
        if has_user
            && !options.accounts.is_empty()
            && let Err(unknown) = self.slurm.account(task)
        {
            *self.accounts.entry(unknown).or_default() += 1;
        }
    }

    /// Refuses names that the cluster does not have. Warns of what the trace does not state.
    pub fn report(self, asked: &TraceSettings<'_>, report: &mut Report) {
        if asked.run_on.0 == RunOn::Instances {
            let help = "leave `run_on: instances` out, or leave `slurm:` out";
            report.error_with_help(asked.run_on.1, "`slurm:` cannot place jobs on instances of fleets", help);
        }
        self.report_partitions(asked, report);
        self.report_qos(asked, report);
        self.report_accounts(asked, report);
    }

    fn report_partitions(&self, asked: &TraceSettings<'_>, report: &mut Report) {
        let (options, called) = (&self.slurm.options, asked.called());
        if let Some((first, _)) = self.partitions.iter().next() {
            let message = format!("`slurm.partitions` lacks partitions of {called}: {}", listed(&self.partitions));
            let help = format!(
                "add them, such as `{{name: {first}}}`, or choose other jobs with `queue: {}` in `trace:`",
                options.partitions[0].name
            );
            report.error_with_help(asked.span, message, help);
        }
        if self.without_partition == 0 || options.partitions.is_empty() {
            return;
        }
        let jobs = format!("{} of {called}", counted(self.without_partition, "job"));
        match options.default_partition() {
            Some(default) => {
                let message = format!("{jobs} without a partition: submitted to the default `{}`", default.name);
                let help = "add the column `Partition` to `sacct --format`, or `virtual_cluster` to a list of your own";
                report.warning(asked.span, message, help);
            }
            None => {
                let help = format!("mark a partition as `default: true`, such as `{}`", options.partitions[0].name);
                let message = format!("{jobs} without a partition, and no partition is the default");
                report.error_with_help(asked.span, message, help);
            }
        }
    }

    fn report_qos(&self, asked: &TraceSettings<'_>, report: &mut Report) {
        let (options, called) = (&self.slurm.options, asked.called());
        if let Some((first, _)) = self.qos.iter().next() {
            let message = format!("`slurm.qos` lacks QOS of {called}: {}", listed(&self.qos));
            let help = format!("add them, such as `{{name: {first}}}`, which limits nothing");
            report.error_with_help(asked.span, message, help);
        }
        if self.without_qos > 0 && !options.qos.is_empty() {
            let jobs = counted(self.without_qos, "job");
            let they_have = options.qos(DEFAULT_QOS).map_or("they have none", |_| "they have `normal`");
            let state = if self.without_qos == 1 { "states" } else { "state" };
            let help = "add the column `QOS` to `sacct --format`, or `qos` to a list of your own";
            report.warning(asked.span, format!("{jobs} of {called} {state} no QOS: {they_have}"), help);
        }
    }

    fn report_accounts(&self, asked: &TraceSettings<'_>, report: &mut Report) {
        let called = asked.called();
        if let Some(((user, account), _)) = self.accounts.iter().next() {
            let each: BTreeMap<String, usize> =
                self.accounts.iter().map(|(of, jobs)| (called_user(of), *jobs)).collect();
            let message = format!("`slurm.accounts` lacks users of {called}: {}", listed(&each));
            let users = account.as_ref().map_or("an account".to_string(), |account| format!("`{account}`"));
            let help = format!("add them, such as `{user}: 1` to the `users` of {users}");
            report.error_with_help(asked.span, message, help);
        }
        let options = &self.slurm.options;
        let (has_accounts, mut qos) = (!options.accounts.is_empty(), options.qos.iter());
        let (users, accounts) = (qos.clone().any(Qos::counts_users), qos.any(Qos::counts_accounts) && !has_accounts);
        let rows = [
            (self.without_user, has_accounts, "user", "no account is charged for them"),
            (self.without_user, users && !has_accounts, "user", "for limits on each user, all of them are of one"),
            (self.without_account, accounts, "account", "for limits on each account, all of them are of one"),
        ];
        for (jobs, _, what, so) in rows.into_iter().filter(|(jobs, matters, ..)| *jobs > 0 && *matters) {
            let state = if jobs == 1 { "states" } else { "state" };
            let message = format!("{} of {called} {state} no {what}: {so}", counted(jobs, "job"));
            let help = match what {
                "user" => "add the column `User` to `sacct --format`, or `user_name` to a list of your own",
                _ => "add the column `Account` to `sacct --format`, or `account` to a list of your own",
            };
            report.warning(asked.span, message, help);
        }
    }
}

/// Warns of jobs that limits count as something else: as one node, if the number of their nodes is not known before they are
/// placed, or as whole GPUs.
pub(super) fn warn_of_limits(
    drafts: &[Draft],
    slurm: Option<&TraceSlurm>,
    asked: &TraceSettings<'_>,
    report: &mut Report,
) {
    let Some(TraceSlurm { options, .. }) = slurm else { return };
    let (mut of_nodes, mut of_gpus) = (0, 0);
    for spec in drafts.iter().map(|draft| &draft.arrival.spec) {
        let Some(terms) = &spec.slurm else { continue };
        let named = terms.partition.as_deref().into_iter().flat_map(|names| names.split(','));
        let partitions: Vec<&Partition> = named.filter_map(|name| options.partition(name)).collect();
        let (demand, qos) = (&*spec.demand, terms.qos.as_deref());
        of_nodes += usize::from(has_unknown_nodes(demand) && options.limits_nodes(&partitions, qos));
        of_gpus += usize::from(has_parts_of_gpus(demand) && options.limits_gpus(&partitions, qos));
    }
    let called = asked.called();
    if of_nodes > 0 {
        let jobs = counted(of_nodes, "job");
        let message = format!("{jobs} of {called} may get several nodes, but count as one node for limits on nodes");
        report.warning(asked.span, message, "the list does not say on how many nodes these jobs ran");
    }
    if of_gpus > 0 {
        let jobs = counted(of_gpus, "job");
        let message =
            format!("{jobs} of {called} ask for a part of a GPU, which counts as one GPU for limits on gres/gpu");
        let help = "Slurm would count it as gres/shard or gres/mps, of which no limits are modelled";
        report.warning(asked.span, message, help);
    }
}

fn called_user((user, account): &(String, Option<String>)) -> String {
    match account {
        Some(account) => format!("{user} of {account}"),
        None => user.clone(),
    }
}

/// The names with the most jobs: `debug (90 jobs), long (1 job) and 3 more`.
fn listed(names: &BTreeMap<String, usize>) -> String {
    const MOST: usize = 5;
    let mut by_jobs: Vec<(&String, &usize)> = names.iter().collect();
    by_jobs.sort_by_key(|(name, jobs)| (std::cmp::Reverse(**jobs), *name));
    let each: Vec<String> =
        by_jobs.iter().take(MOST).map(|(name, jobs)| format!("`{name}` ({})", counted(**jobs, "job"))).collect();
    match by_jobs.len().saturating_sub(MOST) {
        0 => each.join(", "),
        rest => format!("{} and {rest} more", each.join(", ")),
    }
}
