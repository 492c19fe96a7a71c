//! QOS: what the jobs of a quality of service may hold, and how urgent they are (sacctmgr(1)).

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::multifactor::{Requested, Tres};
use super::no_time::is_no_time;
use super::preempt_mode::PreemptMode;
use dryrack_event::Reason;
use dryrack_units::{OptionalTextForm, SimDuration, TextForm};

/// The QOS of jobs that name none, if there is one with this name.
pub const DEFAULT_QOS: &str = "normal";

/// Limits on trackable resources.
pub type Limits = BTreeMap<Tres, u64>;

/// A QOS with its limits. `max_jobs_per_user`, for example, is sacctmgr's `MaxJobsPerUser`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Qos {
    /// Name.
    pub name: Arc<str>,
    /// What the QOS adds to a job's priority, relative to the largest priority of all QOS.
    #[serde(default)]
    pub priority: u32,
    /// Longest time limit of a job (`MaxWall`).
    #[serde(default, with = "OptionalTextForm", skip_serializing_if = "Option::is_none")]
    pub max_wall: Option<SimDuration>,
    /// Jobs of one user that run at a time (`MaxJobsPerUser`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_jobs_per_user: Option<u64>,
    /// Jobs of one account that run at a time (`MaxJobsPerAccount`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_jobs_per_account: Option<u64>,
    /// The number of jobs of the QOS that run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grp_jobs: Option<u64>,
    /// What one job can have at most (`MaxTRESPerJob`).
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub max_tres_per_job: Limits,
    /// What the running jobs of one user can hold at most (`MaxTRESPerUser`).
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub max_tres_per_user: Limits,
    /// What the running jobs of one account can hold at most (`MaxTRESPerAccount`).
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub max_tres_per_account: Limits,
    /// What all running jobs of the QOS hold together at most.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub grp_tres: Limits,
    /// Whether its limits come before those of the partition's QOS (`Flags=OverPartQOS`).
    #[serde(default, skip_serializing_if = "is_no")]
    pub over_part_qos: bool,
    /// The QOS whose jobs the jobs of this one preempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempt: Vec<Arc<str>>,
    /// What becomes of preempted jobs of the QOS. That of the cluster if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt_mode: Option<PreemptMode>,
    /// How long a job that is to be preempted may still run.
    #[serde(default, with = "TextForm", skip_serializing_if = "is_no_time")]
    pub grace_time: SimDuration,
    /// How long a job runs before it can be preempted. That of the cluster if absent.
    #[serde(default, with = "OptionalTextForm", skip_serializing_if = "Option::is_none")]
    pub preempt_exempt_time: Option<SimDuration>,
}

fn is_no(flag: &bool) -> bool {
    !*flag
}

/// What running jobs hold, and how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub jobs: u64,
    pub tres: Requested,
}

impl Held {
    pub fn add(&mut self, more: Requested) {
        self.jobs += 1;
        self.tres.nodes += more.nodes;
        self.tres.cpus += more.cpus;
        self.tres.gpus += more.gpus;
    }
}

/// What the running jobs of a QOS hold: all of them, those of one user, and those of one account.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeldOf {
    pub all: Held,
    pub user: Held,
    pub account: Held,
}

impl Qos {
    /// Whether it can deny a job.
    pub fn has_limits(&self) -> bool {
        let counts = [self.grp_jobs, self.max_jobs_per_user, self.max_jobs_per_account];
        let tres = [&self.max_tres_per_job, &self.grp_tres, &self.max_tres_per_user, &self.max_tres_per_account];
        self.max_wall.is_some() || counts.iter().any(Option::is_some) || tres.iter().any(|limits| !limits.is_empty())
    }

    /// Whether a limit counts the running jobs of each user.
    pub fn counts_users(&self) -> bool {
        self.max_jobs_per_user.is_some() || !self.max_tres_per_user.is_empty()
    }

    /// Whether a limit counts the running jobs of each account.
    pub fn counts_accounts(&self) -> bool {
        self.max_jobs_per_account.is_some() || !self.max_tres_per_account.is_empty()
    }

    /// Whether a limit counts the nodes of each job.
    pub fn limits_nodes(&self) -> bool {
        self.max_tres_per_job.contains_key(&Tres::Node)
    }

    /// Whether a limit counts the nodes that jobs hold together. Each node counts once.
    pub fn counts_nodes(&self) -> bool {
        let limits = [&self.grp_tres, &self.max_tres_per_user, &self.max_tres_per_account];
        limits.iter().any(|limits| limits.contains_key(&Tres::Node))
    }

    /// Whether a limit counts GPUs.
    pub fn limits_gpus(&self) -> bool {
        self.limits(Tres::Gpu)
    }

    fn limits(&self, tres: Tres) -> bool {
        let limits = [&self.max_tres_per_job, &self.grp_tres, &self.max_tres_per_user, &self.max_tres_per_account];
        limits.iter().any(|limits| limits.contains_key(&tres))
    }

    /// The part of a request that limits read. What no limit reads is zero.
    pub fn read_of(&self, job: Requested) -> Requested {
        let read = |tres: Tres| if self.limits(tres) { job.of(tres) } else { 0 };
        Requested { nodes: read(Tres::Node), cpus: read(Tres::Cpu), gpus: read(Tres::Gpu) }
    }

    /// Why the numbers of running jobs, or its time limit, do not let a job start now. `None` if they do. What `over` limits,
    /// this QOS does not.
    pub(super) fn denies_by_count(&self, over: Option<&Qos>, limit: SimDuration, held: HeldOf) -> Option<Reason> {
        type Count = fn(&Qos) -> Option<u64>;
        let is_full =
            |most: Count, held: Held| over.and_then(most).is_none() && most(self).is_some_and(|most| held.jobs >= most);
        let counts = [
            ((|qos: &Qos| qos.grp_jobs) as Count, held.all, Reason::QosGrpJobs),
            (|qos| qos.max_jobs_per_user, held.user, Reason::QosMaxJobsPerUser),
            (|qos| qos.max_jobs_per_account, held.account, Reason::QosMaxJobsPerAccount),
        ];
        let full = counts.into_iter().find(|(most, held, _)| is_full(*most, *held)).map(|(_, _, reason)| reason);
        let is_too_long =
            || over.and_then(|over| over.max_wall).is_none() && self.max_wall.is_some_and(|most| limit > most);
        full.or_else(|| is_too_long().then_some(Reason::QosMaxWall))
    }

    /// Why limits on resources do not let a job start now. `None` if they do. What `over` limits, this QOS does not.
    pub(super) fn denies_by_tres(&self, over: Option<&Qos>, job: Requested, held: HeldOf) -> Option<Reason> {
        type Of = fn(&Qos) -> &Limits;
        let limits = [
            ((|qos: &Qos| &qos.max_tres_per_job) as Of, Held::default(), Reason::QosMaxTresPerJob),
            (|qos| &qos.grp_tres, held.all, Reason::QosGrpTres),
            (|qos| &qos.max_tres_per_user, held.user, Reason::QosMaxTresPerUser),
            (|qos| &qos.max_tres_per_account, held.account, Reason::QosMaxTresPerAccount),
        ];
        let is_over = |of: Of, held: Held| {
            let own = of(self).iter().filter(|(tres, _)| over.is_none_or(|over| !of(over).contains_key(tres)));
            own.into_iter().any(|(tres, most)| held.tres.of(*tres).saturating_add(job.of(*tres)) > *most)
        };
        limits.into_iter().find(|(of, held, _)| is_over(*of, *held)).map(|(_, _, reason)| reason)
    }
}
