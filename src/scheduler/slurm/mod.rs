//! The configuration of a Slurm cluster: partitions, priority/multifactor, reservations and QOS, in the words of
//! slurm.conf(5), scontrol(1) and sacctmgr(1).
//!
//! This module owns the options and the arithmetic over them. It must not know which jobs wait or run. The rules are
//! those of Slurm 22.05, as far as docs/src/slurm.md says that they were compared with it.

mod fairshare;
mod limiting_qos;
mod multifactor;
mod no_time;
mod preempt;
mod preempt_mode;
mod preemptors;
mod qos;
mod reservation;

pub use fairshare::{Account, Associations, kept};
pub use limiting_qos::LimitingQos;
pub use multifactor::{Multifactor, Requested, Shares, Tres, multifactor};
pub use preempt::Ranked;
use preempt_mode::{ClusterPreemptMode, mode_of_cluster};
pub use preempt_mode::{PreemptMode, PreemptType};
pub use preemptors::Preemptors;
pub use qos::{DEFAULT_QOS, Held, HeldOf, Limits, Qos};
pub use reservation::Reservation;

use no_time::is_no_time;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use dryrack_units::{OptionalTextForm, SimDuration, TextForm};
use dryrack_workload::{Demand, DemandKind, SlurmTerms};

/// The configuration of the cluster. Without partitions, all nodes form one partition without limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlurmOptions {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qos: Vec<Qos>,
    /// Accounts with their users and shares. Without them, all jobs have the same fair share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<Account>,
    /// Advance reservations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<Reservation>,
    /// Set if `PriorityType` is `priority/multifactor`. Otherwise, the type is `priority/basic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Multifactor>,
    /// Nobody is preempted if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt_type: Option<PreemptType>,
    /// What becomes of preempted jobs, if neither their partition nor their QOS says it.
    #[serde(default = "requeue", deserialize_with = "mode_of_cluster", skip_serializing_if = "is_requeue")]
    #[schemars(with = "ClusterPreemptMode")]
    pub preempt_mode: PreemptMode,
    /// How long a job runs before it can be preempted, if its QOS does not say it.
    #[serde(default, with = "TextForm", skip_serializing_if = "is_no_time")]
    pub preempt_exempt_time: SimDuration,
    /// Whether a preempted job, or one that has lost a node, waits again if the job does not say it itself (`JobRequeue`).
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub job_requeue: bool,
    /// How long credentials are valid (`AuthInfo=cred_expire`). A requeued job waits for a second longer.
    #[serde(default = "two_minutes", with = "TextForm", skip_serializing_if = "is_two_minutes")]
    pub cred_expire: SimDuration,
}

impl Default for SlurmOptions {
    fn default() -> SlurmOptions {
        SlurmOptions {
            partitions: Vec::new(),
            qos: Vec::new(),
            accounts: Vec::new(),
            reservations: Vec::new(),
            priority: None,
            preempt_type: None,
            preempt_mode: requeue(),
            preempt_exempt_time: SimDuration::ZERO,
            job_requeue: yes(),
            cred_expire: two_minutes(),
        }
    }
}

fn requeue() -> PreemptMode {
    PreemptMode::Requeue
}

fn is_requeue(mode: &PreemptMode) -> bool {
    *mode == PreemptMode::Requeue
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

fn two_minutes() -> SimDuration {
    SimDuration::from_secs(120)
}

fn is_two_minutes(duration: &SimDuration) -> bool {
    *duration == two_minutes()
}

/// A partition (`PartitionName=` in slurm.conf).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// Name (`PartitionName`).
    pub name: Arc<str>,
    /// Names or patterns of its nodes. All nodes if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Whether jobs that name no partition are in this one.
    #[serde(default)]
    pub default: bool,
    /// Jobs of a partition with a higher tier come first, whatever their priority.
    #[serde(default = "one")]
    pub priority_tier: u16,
    /// What the partition adds to a job's priority, relative to the largest factor of all partitions.
    #[serde(default = "one")]
    pub priority_job_factor: u16,
    /// Longest time limit of a job (`MaxTime`); unlimited if absent.
    #[serde(default, with = "OptionalTextForm", skip_serializing_if = "Option::is_none")]
    pub max_time: Option<SimDuration>,
    /// The time limit of a job that states none. `max_wall` of the QOS if absent, or else `max_time`.
    #[serde(default, with = "OptionalTextForm", skip_serializing_if = "Option::is_none")]
    pub default_time: Option<SimDuration>,
    /// Most nodes of a job (`MaxNodes`); unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// Fewest nodes of a job (`MinNodes`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_nodes: Option<u32>,
    /// Only jobs of these accounts may run. All accounts if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_accounts: Vec<String>,
    /// How much each resource counts as usage (`TRESBillingWeights`). Each core counts 1 if empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tres_billing_weights: BTreeMap<Tres, f64>,
    /// Only jobs of these QOS may run. All QOS if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_qos: Vec<String>,
    /// The QOS whose limits apply to all jobs of the partition (`QOS`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<Arc<str>>,
    /// What becomes of preempted jobs of the partition. That of the cluster if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt_mode: Option<PreemptMode>,
    /// How long a job that is to be preempted may still run.
    #[serde(default, with = "TextForm", skip_serializing_if = "is_no_time")]
    pub grace_time: SimDuration,
}

fn one() -> u16 {
    1
}

impl Partition {
    /// The partition of a cluster that has none: all nodes, without limits.
    pub fn of_all_nodes() -> Partition {
        Partition {
            name: Arc::from(""),
            nodes: Vec::new(),
            default: true,
            priority_tier: 1,
            priority_job_factor: 1,
            max_time: None,
            default_time: None,
            max_nodes: None,
            min_nodes: None,
            allow_accounts: Vec::new(),
            tres_billing_weights: BTreeMap::new(),
            allow_qos: Vec::new(),
            qos: None,
            preempt_mode: None,
            grace_time: SimDuration::ZERO,
        }
    }

    /// What a job that holds this uses per second.
    pub fn billing(&self, held: Requested) -> f64 {
        match self.tres_billing_weights.is_empty() {
            true => held.cpus as f64,
            false => self.tres_billing_weights.iter().map(|(tres, weight)| weight * held.of(*tres) as f64).sum(),
        }
    }
}

impl SlurmOptions {
    /// All errors in the configuration, each as the end of a sentence about it.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (place, partition) in self.partitions.iter().enumerate() {
            let name = &partition.name;
            if self.partitions[..place].iter().any(|other| other.name == *name) {
                faults.push(format!("has two partitions named `{name}`"));
            }
            if name.is_empty() || name.contains([',', ' ', '*']) {
                faults.push(format!("names a partition `{name}`; write a word such as `gpu`"));
            }
            let is_longer = |most| partition.default_time.is_some_and(|default| default > most);
            if partition.max_time.is_some_and(is_longer) {
                faults.push(format!("has a partition `{name}` whose `default_time` exceeds its `max_time`"));
            }
            if let (Some(least), Some(most)) = (partition.min_nodes, partition.max_nodes)
                && least > most
            {
                faults.push(format!("has a partition `{name}` whose `min_nodes` exceeds its `max_nodes`"));
            }
        }
        if self.partitions.iter().filter(|partition| partition.default).count() > 1 {
            faults.push("has more than one default partition".to_string());
        }
        faults.extend(self.faulty_qos());
        faults.extend(self.faulty_reservations());
        faults.extend(self.faulty_preemption());
        faults.extend(fairshare::faulty(&self.accounts));
        let is_odd = |weight: &f64| !weight.is_finite() || *weight < 0.0;
        let billing = self.partitions.iter().flat_map(|partition| partition.tres_billing_weights.values());
        if billing.into_iter().any(is_odd) {
            faults.push("has a weight in `tres_billing_weights` that is not a positive number".to_string());
        }
        let wants_accounts = self.priority.as_ref().is_some_and(|priority| priority.weight_fairshare > 0);
        if wants_accounts && self.accounts.is_empty() {
            faults.push("has `weight_fairshare`, but no `accounts` with shares".to_string());
        }
        if self.priority.as_ref().is_some_and(|priority| priority.weight_tres.values().any(is_odd)) {
            faults.push("has a weight in `weight_tres` that is not a positive number".to_string());
        }
        faults
    }

    fn faulty_qos(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (place, qos) in self.qos.iter().enumerate() {
            if self.qos[..place].iter().any(|other| other.name == qos.name) {
                faults.push(format!("has two QOS named `{}`", qos.name));
            }
            if qos.name.is_empty() {
                faults.push("has a QOS without a name".to_string());
            }
        }
        faults
    }

    fn faulty_reservations(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (place, one) in self.reservations.iter().enumerate() {
            let name = &one.name;
            if self.reservations[..place].iter().any(|other| other.name == *name) {
                faults.push(format!("has two reservations named `{name}`"));
            }
            if one.duration.is_zero() {
                faults.push(format!("has a reservation `{name}` without a duration"));
            }
            if one.users.is_empty() && one.accounts.is_empty() {
                faults.push(format!("has a reservation `{name}` that no user may use; add `users` or `accounts`"));
            }
        }
        faults
    }

    /// The QOS with this name.
    pub fn qos(&self, name: &str) -> Option<&Qos> {
        self.qos.iter().find(|qos| &*qos.name == name)
    }

    /// The QOS that limit a job with this QOS in a partition.
    pub fn limiting_qos(&self, partition: &Partition, job: Option<&str>) -> LimitingQos<'_> {
        let find = |name: Option<&str>| name.and_then(|name| self.qos(name));
        LimitingQos::of(find(partition.qos.as_deref()), find(job))
    }

    /// The time limit of a job that states none. It is the `default_time` of the first partition that the job names, or else
    /// the shortest `max_wall` of the QOS that limit it in its partitions, or else the `max_time` of the first partition that
    /// is tried. A `max_wall` above the `max_time` applies too, so that such a job waits. Measured with Slurm 22.05.8.
    pub fn limit_if_unstated(&self, terms: &SlurmTerms) -> Option<SimDuration> {
        let all_nodes = Partition::of_all_nodes();
        let names = terms.partition.as_deref().into_iter().flat_map(|names| names.split(','));
        let mut partitions: Vec<&Partition> = names.filter_map(|name| self.partition(name)).collect();
        if partitions.is_empty() {
            partitions.push(&all_nodes);
        }
        let max_wall = |partition: &&Partition| self.limiting_qos(partition, terms.qos.as_deref()).max_wall();
        let tried_first = partitions.iter().min_by_key(|partition| Reverse(partition.priority_tier));
        let by_default = partitions.first().and_then(|partition| partition.default_time);
        let by_qos = || partitions.iter().filter_map(max_wall).min();
        by_default.or_else(by_qos).or_else(|| tried_first.and_then(|partition| partition.max_time))
    }

    /// Whether something limits the nodes of each job with this QOS in one of these partitions. Without partitions, the job
    /// may use all nodes.
    pub fn limits_nodes(&self, partitions: &[&Partition], qos: Option<&str>) -> bool {
        let of_partition = |partition: &&Partition| partition.max_nodes.is_some() || partition.min_nodes.is_some();
        partitions.iter().any(of_partition) || self.is_limited(partitions, qos, Qos::limits_nodes)
    }

    /// Whether something limits the GPUs of a job with this QOS in one of these partitions.
    pub fn limits_gpus(&self, partitions: &[&Partition], qos: Option<&str>) -> bool {
        self.is_limited(partitions, qos, Qos::limits_gpus)
    }

    fn is_limited(&self, partitions: &[&Partition], qos: Option<&str>, limits: fn(&Qos) -> bool) -> bool {
        let all_nodes = Partition::of_all_nodes();
        let partitions = if partitions.is_empty() { &[&all_nodes][..] } else { partitions };
        partitions.iter().any(|partition| self.limiting_qos(partition, qos).each().any(limits))
    }

    /// The advance reservation with this name.
    pub fn reservation(&self, name: &str) -> Option<&Reservation> {
        self.reservations.iter().find(|one| &*one.name == name)
    }

    /// The partition of jobs that name none: the one that is marked so. `None` if no partition is.
    pub fn default_partition(&self) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.default)
    }

    /// The partition with this name.
    pub fn partition(&self, name: &str) -> Option<&Partition> {
        self.partitions.iter().find(|partition| &*partition.name == name)
    }
}

/// The label that the nodes of a partition have, and that its jobs ask for.
pub fn partition_label(name: &str) -> Arc<str> {
    Arc::from(format!("{PARTITION}{name}"))
}

/// The label that the nodes of an advance reservation have, and that its jobs ask for.
pub fn reservation_label(name: &str) -> Arc<str> {
    Arc::from(format!("{RESERVATION}{name}"))
}

/// The partition or advance reservation whose nodes have this label, in words: `partition debug`. `None` for other labels.
pub fn group_of_label(label: &str) -> Option<String> {
    let partition = label.strip_prefix(PARTITION).map(|name| format!("partition {name}"));
    partition.or_else(|| label.strip_prefix(RESERVATION).map(|name| format!("reservation {name}")))
}

/// The demand of a job if it were in this partition only.
pub fn demand_in(demand: &Demand, partition: &str) -> Demand {
    let mut narrow = demand.clone();
    if let DemandKind::Tasks(task) = &mut narrow.kind {
        task.labels.retain(|label, _| !label.starts_with(PARTITION));
        task.labels.insert(partition_label(partition), Arc::from(MEMBER));
    }
    narrow
}

/// The beginning of the labels of advance reservations.
pub(super) const RESERVATION: &str = "slurm/reservation/";
/// The beginning of the labels of partitions.
pub(super) const PARTITION: &str = "slurm/partition/";
/// The value of a label of a partition or an advance reservation.
pub const MEMBER: &str = "yes";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A cluster whose controller was asked for the `TimeLimit` of jobs that state none, with `scontrol show job` of Slurm
    /// 22.05.8.
    const MEASURED: &str = r#"{
        "partitions": [
            {"name": "main", "default": true},
            {"name": "max", "max_time": "2h"},
            {"name": "short", "max_time": "5m"},
            {"name": "def", "max_time": "2h", "default_time": "30m"},
            {"name": "tiny", "max_time": "2h", "default_time": "3m"},
            {"name": "seven", "qos": "seven"},
            {"name": "five", "qos": "five"},
            {"name": "first", "max_time": "2h", "default_time": "20m", "priority_tier": 5},
            {"name": "seven-max", "max_time": "5m", "qos": "seven"},
            {"name": "seven-def", "max_time": "2h", "default_time": "20m", "qos": "seven"}
        ],
        "qos": [
            {"name": "normal"},
            {"name": "ten", "max_wall": "10m"},
            {"name": "over", "max_wall": "12m", "over_part_qos": true},
            {"name": "seven", "max_wall": "7m"},
            {"name": "five", "max_wall": "5m"}
        ]
    }"#;

    #[test]
    fn qos_that_preempt_each_other_are_refused() {
        let with = |a: &str, b: &str, c: &str| -> Vec<String> {
            let qos = json!([
                {"name": "a", "preempt": a.split_whitespace().collect::<Vec<_>>()},
                {"name": "b", "preempt": b.split_whitespace().collect::<Vec<_>>()},
                {"name": "c", "preempt": c.split_whitespace().collect::<Vec<_>>()},
            ]);
            let options: SlurmOptions =
                serde_json::from_value(json!({"preempt_type": "qos", "qos": qos})).expect("a configuration");
            options.faults()
        };
        for (a, b, c) in [("b c", "c", ""), ("", "", ""), ("b", "", "b"), ("", "a", "a b")] {
            assert_eq!(with(a, b, c), Vec::<String>::new(), "{a:?} {b:?} {c:?}");
        }
        for (a, b, c) in [("a", "", ""), ("b", "a", ""), ("b", "c", "a"), ("", "c", "b"), ("b", "b", "")] {
            let faults = with(a, b, c);
            assert!(faults.len() == 1 && faults[0].contains("preempts itself"), "{a:?} {b:?} {c:?}: {faults:?}");
        }
    }

    #[test]
    fn a_job_that_states_no_limit_gets_that_of_its_qos_as_in_slurm() {
        let options: SlurmOptions = serde_json::from_str(MEASURED).expect("a configuration");
        for (partition, qos, minutes) in [
            ("main", "normal", None),
            ("main", "ten", Some(10)),
            ("main", "over", Some(12)),
            ("max", "normal", Some(120)),
            ("max", "ten", Some(10)),
            ("short", "normal", Some(5)),
            ("short", "ten", Some(10)),
            ("def", "normal", Some(30)),
            ("def", "ten", Some(30)),
            ("tiny", "ten", Some(3)),
            ("seven", "normal", Some(7)),
            ("seven", "ten", Some(7)),
            ("seven", "over", Some(12)),
            ("seven-max", "normal", Some(7)),
            ("seven-def", "normal", Some(20)),
            ("main,short", "normal", None),
            ("short,main", "normal", Some(5)),
            ("max,short", "normal", Some(120)),
            ("main,short", "ten", Some(10)),
            ("main,seven", "normal", Some(7)),
            ("main,seven", "ten", Some(7)),
            ("seven,main", "over", Some(12)),
            ("seven,five", "normal", Some(5)),
            ("five,seven", "normal", Some(5)),
            ("five,seven", "over", Some(12)),
            ("main,def", "normal", None),
            ("def,main", "ten", Some(30)),
            ("main,def", "ten", Some(10)),
            ("def,seven", "normal", Some(30)),
            ("seven,def", "normal", Some(7)),
            ("main,first", "normal", Some(120)),
            ("def,first", "normal", Some(30)),
            ("first,def", "normal", Some(20)),
            ("seven,first", "normal", Some(7)),
        ] {
            let terms = SlurmTerms {
                partition: Some(Arc::from(partition)),
                account: None,
                qos: Some(Arc::from(qos)),
                reservation: None,
                requeue: true,
            };
            let limit = options.limit_if_unstated(&terms);
            assert_eq!(limit, minutes.map(|minutes| SimDuration::from_secs(minutes * 60)), "{partition}, QOS {qos}");
        }
    }

    fn options(json: serde_json::Value) -> SlurmOptions {
        serde_json::from_value(json).expect("a configuration")
    }

    #[test]
    fn reservations_need_names_of_their_own_and_a_duration_and_users() {
        let faults = |reservations| options(json!({"reservations": reservations})).faulty_reservations();
        let good = json!({"name": "a", "start": "1h", "duration": "1h", "users": ["ann"]});
        let of_account = json!({"name": "b", "start": "1h", "duration": "1h", "accounts": ["lab"]});
        assert_eq!(faults(json!([good, of_account])), Vec::<String>::new());
        assert_eq!(faults(json!([good, good])), ["has two reservations named `a`"]);
        let short = json!({"name": "c", "start": "1h", "duration": "0s", "users": ["ann"]});
        assert_eq!(faults(json!([good, short])), ["has a reservation `c` without a duration"]);
        let of_nobody = json!({"name": "d", "start": "1h", "duration": "1h"});
        let fault = "has a reservation `d` that no user may use; add `users` or `accounts`";
        assert_eq!(faults(json!([of_nobody])), [fault]);
        // They are among the faults of the whole configuration.
        assert!(options(json!({"reservations": [of_nobody]})).faults().iter().any(|found| found == fault));
    }

    #[test]
    fn gpus_of_a_job_are_limited_by_its_qos_and_by_those_of_its_partitions() {
        let options = options(json!({
            "partitions": [{"name": "plain"}, {"name": "narrow", "qos": "gpus"}],
            "qos": [{"name": "gpus", "grp_tres": {"gres/gpu": 4}}, {"name": "cores", "grp_tres": {"cpu": 4}}],
        }));
        let limits = |partition: usize, qos| options.limits_gpus(&[&options.partitions[partition]], qos);
        assert_eq!([None, Some("cores"), Some("gpus")].map(|qos| limits(0, qos)), [false, false, true]);
        assert_eq!([None, Some("cores"), Some("gpus")].map(|qos| limits(1, qos)), [true, true, true]);
    }

    #[test]
    fn durations_of_zero_are_not_written() {
        let written = |grace| {
            let options = options(json!({"qos": [{"name": "q", "grace_time": grace}]}));
            serde_json::to_value(&options.qos[0]).expect("a value")["grace_time"].clone()
        };
        assert_eq!([written("0s"), written("1m")], [json!(null), json!("1m")]);
    }

    /// A log states the options of its profile, so it must state all that are not the default.
    #[test]
    fn the_time_for_which_credentials_are_valid_is_written_unless_it_is_the_default() {
        let of = |seconds| SlurmOptions { cred_expire: SimDuration::from_secs(seconds), ..SlurmOptions::default() };
        for (seconds, is_written) in [(60, true), (120, false), (240, true)] {
            let written = serde_json::to_value(of(seconds)).expect("it is written");
            assert_eq!(written.get("cred_expire").is_some(), is_written, "{seconds} s");
            assert_eq!(serde_json::from_value::<SlurmOptions>(written).expect("it is read"), of(seconds));
        }
    }

    #[test]
    fn a_qos_is_written_with_all_that_is_not_the_default() {
        for over_part_qos in [true, false] {
            let stated = json!({"name": "over", "over_part_qos": over_part_qos});
            let qos: Qos = serde_json::from_value(stated).expect("it is read");
            let written = serde_json::to_value(&qos).expect("it is written");
            assert_eq!(written.get("over_part_qos"), over_part_qos.then_some(&json!(true)));
        }
    }
}
