//! The clusters of `tests/slurm/*.conf` in the words of a scenario, and the words of the jobs that were recorded there.

use std::collections::BTreeMap;

const PARTITIONS: &str = "slurm:
  partitions:
    - {name: main, default: true}
    - {name: high, nodes: [n1, n2], priority_tier: 5}
    - {name: rest, nodes: [n3, n4]}
";

const PREEMPTING_PARTITIONS: &str = "slurm:
  preempt_type: partition_prio
  preempt_mode: cancel
  partitions:
    - {name: main, default: true, priority_tier: 1}
    - {name: high, nodes: [n1, n2], priority_tier: 5}
    - {name: rest, nodes: [n3, n4], priority_tier: 3}
";

const WEIGHTED_PARTITIONS: &str = "slurm:
  partitions:
    - {name: main, default: true, priority_job_factor: 10}
    - {name: high, nodes: [n1, n2], priority_job_factor: 20}
    - {name: rest, nodes: [n3, n4]}
";

const BY_AGE_AND_SIZE: &str = "  priority:
    weight_age: 1000
    weight_job_size: 500
    weight_partition: 300
    max_age: 5m
";

const BY_QOS: &str = "  qos:
    - {name: normal}
    - {name: urgent, priority: 100, max_jobs_per_user: 2}
    - {name: small, priority: 30, max_tres_per_user: {gres/gpu: 3}}
    - {name: group, priority: 10, grp_tres: {gres/gpu: 5}}
  priority:
    weight_qos: 1000
    weight_partition: 300
    weight_job_size: 200
    calc_period: 1m
";

const LIMITED_PARTITIONS: &str = "slurm:
  partitions:
    - {name: main, default: true, priority_job_factor: 10, qos: part}
    - {name: high, nodes: [n1, n2], priority_job_factor: 20}
    - {name: rest, nodes: [n3, n4], qos: few}
";

const QOS_OF_PARTITIONS: &str = "    - {name: part, max_tres_per_user: {gres/gpu: 4}}
    - {name: few, max_jobs_per_user: 1}
";

const BY_FAIR_SHARE: &str = "slurm:
  partitions:
    - {name: main, default: true, tres_billing_weights: {cpu: 1, gres/gpu: 1.5}}
  accounts:
    - {name: physics, fairshare: 30}
    - {name: biology, fairshare: 10, users: {man: 1, mail: 5}}
    - {name: lab, parent: physics, fairshare: 2, users: {bin: 3, daemon: 1}}
    - {name: lattice, parent: physics, fairshare: 1, users: {games: 1}}
  priority:
    weight_fairshare: 10000
    decay_half_life: 2m
    calc_period: 1m
";

/// The configuration of the cluster in which a recording of this name was made. `priorities` is when it first computed
/// priorities, and `reservations` is when its first reservation began, in milliseconds since a whole minute before the
/// first submission.
pub fn configuration(recording: &str, priorities: Option<i64>, reservations: Option<i64>) -> String {
    let calc_offset = || {
        // Slurm computes them with a whole second, first with the one after its controller has come up.
        let first = (priorities.expect("they were recorded") + 999).div_euclid(1000).rem_euclid(60) * 1000;
        format!("    calc_offset: {first}ms\n")
    };
    match recording.split('-').next() {
        Some("partitions" | "several") => PARTITIONS.to_string(),
        Some("preempting") => PREEMPTING_PARTITIONS.to_string(),
        Some("multifactor" | "ranked") => {
            let rest = "    weight_tres: {cpu: 300}\n    calc_period: 0s\n";
            [WEIGHTED_PARTITIONS, BY_AGE_AND_SIZE, rest].concat()
        }
        Some("aged") => {
            let rest = "    weight_tres: {cpu: 100, gres/gpu: 400}\n    calc_period: 1m\n";
            [WEIGHTED_PARTITIONS, BY_AGE_AND_SIZE, rest, &calc_offset()].concat()
        }
        Some("fairshare") => {
            let first = priorities.expect("they were recorded").rem_euclid(60_000);
            format!("{BY_FAIR_SHARE}    calc_offset: {first}ms\n")
        }
        Some("qos") => [WEIGHTED_PARTITIONS, BY_QOS, &calc_offset()].concat(),
        Some("limited") => {
            let qos = BY_QOS.replace("gres/gpu: 5}", "gres/gpu: 5}, over_part_qos: true");
            let (own, rest) = qos.split_once("  priority:\n").expect("they follow the QOS");
            [LIMITED_PARTITIONS, own, QOS_OF_PARTITIONS, "  priority:\n", rest, &calc_offset()].concat()
        }
        Some("reservations") => {
            let [first, second] = [0, 60_000].map(|later| reservations.expect("they were recorded") + later);
            format!(
                "slurm:\n  reservations:\n    \
                 - {{name: first, start: {first}ms, duration: 1m, nodes: [n1], users: [root]}}\n    \
                 - {{name: second, start: {second}ms, duration: 1m, nodes: [n3, n4], users: [root]}}\n"
            )
        }
        _ => String::new(),
    }
}

/// The words of a recorded job besides its resources.
pub fn words_of(row: &BTreeMap<String, String>) -> String {
    let stated = |name: &str| row.get(name).filter(|value| *value != "-");
    let word = |name: &str| stated(name).map(|value| format!(", {name}: {value}")).unwrap_or_default();
    // The partitions of a job are separated by `+`, because a comma ends a column.
    let partition = stated("partition").map(|names| format!(", partition: \"{}\"", names.replace('+', ",")));
    let user = if stated("reservation").is_some() { ", user: root".to_string() } else { word("user") };
    partition.unwrap_or_default() + &["qos", "reservation"].map(word).concat() + &user
}
