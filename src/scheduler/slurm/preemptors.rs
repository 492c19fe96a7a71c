//! The order of jobs that may preempt others: they come before those, whatever their priorities are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Partition, PreemptType, SlurmOptions};

/// The rank of jobs by whom they may preempt. Jobs of a higher rank come first.
///
/// In Slurm, a job comes before another one that it may preempt (`sort_job_queue2` in `src/slurmctld/job_scheduler.c`). For
/// partitions, the rank is that of the tier. For QOS, it is the length of the longest chain of QOS of which each may preempt
/// the next. So a QOS that may preempt another one also comes before a third one to which it has no relation, but which has
/// a shorter chain. Slurm leaves the order of these two to their priorities, which need not fit together with the others.
#[derive(Clone, Debug, Default)]
pub struct Preemptors {
    tiers: BTreeMap<u16, u16>,
    qos: BTreeMap<Arc<str>, u16>,
}

impl Preemptors {
    pub fn of(options: &SlurmOptions) -> Preemptors {
        match options.preempt_type {
            None => Preemptors::default(),
            Some(PreemptType::PartitionPrio) => Preemptors { tiers: ranks_of_tiers(options), qos: BTreeMap::new() },
            Some(PreemptType::Qos) => Preemptors { tiers: BTreeMap::new(), qos: ranks_of_qos(options) },
        }
    }

    /// The rank of a job with this QOS in this partition. 0 if nobody is preempted, or if the job may preempt no other.
    pub fn rank(&self, partition: &Partition, qos: Option<&str>) -> u16 {
        let of_tier = self.tiers.get(&partition.priority_tier);
        of_tier.or_else(|| self.qos.get(qos?)).copied().unwrap_or(0)
    }
}

fn ranks_of_tiers(options: &SlurmOptions) -> BTreeMap<u16, u16> {
    let mut tiers: BTreeMap<u16, u16> =
        options.partitions.iter().map(|partition| (partition.priority_tier, 0)).collect();
    tiers.values_mut().zip(0..).for_each(|(rank, place)| *rank = place);
    tiers
}

/// The ranks of QOS. Those that preempt each other in a loop are refused before.
fn ranks_of_qos(options: &SlurmOptions) -> BTreeMap<Arc<str>, u16> {
    let mut ranks: BTreeMap<Arc<str>, u16> = options.qos.iter().map(|qos| (Arc::clone(&qos.name), 0)).collect();
    // The longest chain has each QOS once.
    for _ in &options.qos {
        let mut is_settled = true;
        for qos in &options.qos {
            let below = qos.preempt.iter().filter_map(|name| ranks.get(name));
            let rank = below.map(|rank| rank.saturating_add(1)).max().unwrap_or(0);
            is_settled &= ranks.insert(Arc::clone(&qos.name), rank) == Some(rank);
        }
        if is_settled {
            break;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> SlurmOptions {
        serde_json::from_str(text).expect("a configuration")
    }

    fn ranks(text: &str) -> Vec<(String, u16)> {
        let options = options(text);
        let preemptors = Preemptors::of(&options);
        let rank = |name: &str| preemptors.rank(&Partition::of_all_nodes(), Some(name));
        options.qos.iter().map(|qos| (qos.name.to_string(), rank(&qos.name))).collect()
    }

    #[test]
    fn a_qos_ranks_above_those_that_it_preempts() {
        let chain = r#"{"preempt_type": "qos", "qos": [{"name": "top", "preempt": ["mid", "low"]},
            {"name": "low"}, {"name": "mid", "preempt": ["low"]}, {"name": "apart"}]}"#;
        let expected = [("top", 2), ("low", 0), ("mid", 1), ("apart", 0)];
        assert_eq!(ranks(chain), expected.map(|(name, rank)| (name.to_string(), rank)));
    }

    #[test]
    fn without_preemption_all_are_equal() {
        let none = r#"{"partitions": [{"name": "a", "priority_tier": 7}], "qos": [{"name": "top", "preempt": ["low"]},
            {"name": "low"}]}"#;
        let options = options(none);
        assert_eq!(Preemptors::of(&options).rank(&options.partitions[0], Some("top")), 0);
    }

    #[test]
    fn partitions_rank_by_their_tiers() {
        let tiers = r#"{"preempt_type": "partition_prio", "partitions": [{"name": "a", "priority_tier": 700},
            {"name": "b", "priority_tier": 3}, {"name": "c", "priority_tier": 700}]}"#;
        let options = options(tiers);
        let preemptors = Preemptors::of(&options);
        assert_eq!([0, 1, 2].map(|place| preemptors.rank(&options.partitions[place], None)), [1, 0, 1]);
    }
}
