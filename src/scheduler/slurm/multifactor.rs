//! priority/multifactor: the priority of a job as a weighted sum of factors from 0 to 1.
//!
//! The formula is that of the plugin in Slurm 22.05 as slurm.conf(5) and the page *Multifactor Priority Plugin* describe
//! it. What the two leave open (the two parts of the job's size, what resources are compared with, and where fractions
//! are cut off) was read from `sprio` and `squeue` of Slurm 22.05.8.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fairshare::ShareAlgorithm;
use super::no_time::is_no_time;
use dryrack_units::{SimDuration, SimTime, TextForm};

/// A trackable resource, by Slurm's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Tres {
    #[serde(rename = "cpu")]
    Cpu,
    #[serde(rename = "node")]
    Node,
    #[serde(rename = "gres/gpu")]
    Gpu,
}

/// The settings of priority/multifactor. Their names are those of slurm.conf without `Priority`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Multifactor {
    /// Weight of the time that a job has waited (`PriorityWeightAge`).
    #[serde(default)]
    pub weight_age: u32,
    /// Weight of fair share (`PriorityWeightFairshare`).
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub weight_fairshare: u32,
    /// Weight of the size of a job (`PriorityWeightJobSize`).
    #[serde(default)]
    pub weight_job_size: u32,
    /// Weight of the partition (`PriorityWeightPartition`).
    #[serde(default)]
    pub weight_partition: u32,
    /// Weight of the QOS (`PriorityWeightQOS`).
    #[serde(default)]
    pub weight_qos: u32,
    /// Weight of each resource that a job requests (`PriorityWeightTRES`).
    #[serde(default)]
    pub weight_tres: BTreeMap<Tres, f64>,
    /// The wait at which the factor of age is 1.
    #[serde(with = "TextForm", default = "week")]
    pub max_age: SimDuration,
    /// Whether smaller jobs get the larger factor of size.
    #[serde(default)]
    pub favor_small: bool,
    /// The time in which past usage loses half of its weight. Zero if it never does.
    #[serde(with = "TextForm", default = "week", skip_serializing_if = "is_week")]
    pub decay_half_life: SimDuration,
    /// Whether the factor of fair share is the classic one (`PriorityFlags=NO_FAIR_TREE`).
    #[serde(default, skip_serializing_if = "is_no")]
    pub no_fair_tree: bool,
    /// How often the priorities of waiting jobs are computed again. Zero if they never are, as without slurmdbd.
    #[serde(with = "TextForm", default = "five_minutes")]
    pub calc_period: SimDuration,
    /// When they are computed for the first time: when the controller started.
    #[serde(with = "TextForm", default, skip_serializing_if = "is_no_time")]
    pub calc_offset: SimDuration,
}

impl Multifactor {
    /// How the factors of fair share are computed.
    pub fn share_algorithm(&self) -> ShareAlgorithm {
        if self.no_fair_tree { ShareAlgorithm::Classic } else { ShareAlgorithm::FairTree }
    }

    /// How often priorities have been computed by this time.
    pub fn calculations(&self, now: SimTime) -> u64 {
        if self.calc_period.is_zero() {
            return 0;
        }
        let since = now.as_nanos().checked_sub(self.calc_offset.as_nanos());
        since.map_or(0, |since| since / self.calc_period.as_nanos() + 1)
    }

    /// When priorities are next computed after so many computations. `None` if they never are.
    pub fn calculated_after(&self, calculations: u64) -> Option<SimTime> {
        let period = Some(self.calc_period.as_nanos()).filter(|period| *period > 0)?;
        let later = calculations.checked_mul(period)?;
        Some(SimTime::from_nanos(self.calc_offset.as_nanos().checked_add(later)?))
    }
}

fn is_nothing(weight: &u32) -> bool {
    *weight == 0
}

fn is_no(value: &bool) -> bool {
    !value
}

fn is_week(duration: &SimDuration) -> bool {
    *duration == week()
}

fn week() -> SimDuration {
    SimDuration::from_secs(7 * 86_400)
}

fn five_minutes() -> SimDuration {
    SimDuration::from_secs(300)
}

/// Numbers of trackable resources: what a job asks for, or what a cluster or a partition has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requested {
    pub nodes: u64,
    pub cpus: u64,
    pub gpus: u64,
}

impl Requested {
    pub fn of(self, tres: Tres) -> u64 {
        match tres {
            Tres::Cpu => self.cpus,
            Tres::Node => self.nodes,
            Tres::Gpu => self.gpus,
        }
    }
}

/// The factors of a job that come from elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shares {
    pub waited: SimDuration,
    /// The factor of fair share.
    pub fairshare: f64,
    /// The partition's factor, relative to the largest of all partitions.
    pub partition: f64,
    /// The QOS' priority, relative to the largest of all QOS.
    pub qos: f64,
    /// What an administrator adds, minus the job's `--nice`.
    pub site: i64,
}

/// A job's priority.
pub fn multifactor(
    options: &Multifactor,
    job: Requested,
    shares: Shares,
    cluster: Requested,
    partition: Requested,
) -> u32 {
    let age = match options.max_age.is_zero() {
        true => 1.0,
        // Slurm counts whole seconds.
        false => (shares.waited.as_nanos() / 1_000_000_000) as f64 / options.max_age.as_secs_f64(),
    };
    let size = size(options, job, cluster);
    let tres: f64 = options
        .weight_tres
        .iter()
        .filter(|(tres, _)| partition.of(**tres) > 0)
        .map(|(tres, weight)| weight * (job.of(*tres) as f64 / partition.of(*tres) as f64))
        .sum();
    let sum = age.min(1.0) * f64::from(options.weight_age)
        + shares.fairshare * f64::from(options.weight_fairshare)
        + size * f64::from(options.weight_job_size)
        + shares.partition * f64::from(options.weight_partition)
        + shares.qos * f64::from(options.weight_qos)
        + tres
        + shares.site as f64;
    // Priority 0 means that a job is held.
    if sum < 1.0 { 1 } else { sum as u32 }
}

/// The factor of size: the mean of the shares of nodes and of cores.
fn size(options: &Multifactor, job: Requested, cluster: Requested) -> f64 {
    if cluster.nodes == 0 || cluster.cpus == 0 {
        return 0.0;
    }
    let share = |own: u64, all: u64| match options.favor_small {
        true => all.saturating_sub(own) as f64 / all as f64,
        false => own as f64 / all as f64,
    };
    let nodes = share(job.nodes, cluster.nodes);
    let size = if job.cpus > 0 { (nodes + share(job.cpus, cluster.cpus)) / 2.0 } else { nodes };
    size.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `sprio` of Slurm 22.05.8 said of four nodes of 8 cores and 2 GPUs each, and a partition of all of them and
    /// one of two.
    #[test]
    fn a_priority_is_the_one_that_slurm_computed() {
        let options = Multifactor {
            weight_age: 1000,
            weight_fairshare: 0,
            weight_job_size: 500,
            weight_partition: 2000,
            weight_qos: 3000,
            weight_tres: BTreeMap::from([(Tres::Cpu, 100.0), (Tres::Gpu, 400.0)]),
            max_age: SimDuration::from_secs(600),
            favor_small: false,
            decay_half_life: week(),
            no_fair_tree: false,
            calc_period: SimDuration::from_secs(60),
            calc_offset: SimDuration::ZERO,
        };
        let (cluster, two) = (Requested { nodes: 4, cpus: 32, gpus: 8 }, Requested { nodes: 2, cpus: 16, gpus: 4 });
        let rows = [
            ("one node with a GPU", Requested { nodes: 1, cpus: 1, gpus: 1 }, 0.5, cluster, 1123),
            ("two nodes of the better partition", Requested { nodes: 2, cpus: 2, gpus: 2 }, 1.0, two, 2353),
            ("one node of it", Requested { nodes: 1, cpus: 1, gpus: 1 }, 1.0, two, 2176),
            ("one node of the lesser partition", Requested { nodes: 1, cpus: 1, gpus: 1 }, 0.25, two, 676),
            ("four cores without a GPU", Requested { nodes: 1, cpus: 4, gpus: 0 }, 0.25, two, 618),
        ];
        for (name, job, factor, partition, expected) in rows {
            let shares = Shares { partition: factor, ..Shares::default() };
            assert_eq!(multifactor(&options, job, shares, cluster, partition), expected, "{name}");
        }
    }
}
