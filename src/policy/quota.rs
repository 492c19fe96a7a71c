//! Quotas of projects: the resources that all runs of one project together may hold.
//!
//! A placement is found first, and then compared with the remaining quota of the run's project. A run that would exceed
//! the quota is not placed. It keeps its position in the queue until resources are released, and does not block other
//! runs.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use dryrack_fleet::{Node, NodeClaim};
use dryrack_units::{GpuShare, Money, OptionalTextForm};
use dryrack_workload::{Demand, DemandKind, GpuTake, TaskDemand};

/// What one project may hold at a time. An absent field means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Number of GPUs. A shared GPU counts with the share that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Price per hour of the parts of hosts that are taken.
    #[serde(default, with = "OptionalTextForm", skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<Money>,
}

/// Resources taken from nodes, as quotas count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Thousandths of GPUs.
    gpus: u64,
    /// Price in millionths, as in [`Money`].
    price_per_hour: u64,
}

impl Holding {
    /// The resources that a claim takes of its node. The price is the node's price multiplied by the claimed fraction,
    /// rounded down to a millionth. For an instance with blocks, this is the fraction of its blocks. For other nodes,
    /// it is the fraction of the GPUs, or of the CPUs if the node has no GPUs.
    pub fn of(node: &Node, claim: &NodeClaim) -> Holding {
        let gpus: u64 = claim.gpus.iter().map(|part| u64::from(part.share.get())).sum();
        let shape = &node.shape;
        let total_blocks = shape.instance.as_ref().and_then(|instance| instance.total_blocks);
        let all_gpus = shape.gpus.len() as u64 * u64::from(GpuShare::WHOLE.get());
        let (part, whole) = match total_blocks {
            Some(total) => (claim.blocks.len() as u64, u64::from(total)),
            None if all_gpus > 0 => (gpus, all_gpus),
            None => (claim.cpu.get(), shape.cpu.get()),
        };
        let price = shape.price_per_hour.unwrap_or(Money::ZERO).get();
        let price = u128::from(price) * u128::from(part) / u128::from(whole.max(1));
        Holding { gpus, price_per_hour: u64::try_from(price).expect("a part is not more than the whole") }
    }

    /// The least that a demand takes on any node: the GPUs that it asks for, whole or by share. The price depends on
    /// the node, so it is not included.
    pub fn least_of(demand: &Demand) -> Holding {
        let of_task = |task: &TaskDemand| {
            task.gpus.as_ref().map_or(0, |gpus| {
                let share = match gpus.take {
                    GpuTake::Whole => GpuShare::WHOLE,
                    GpuTake::Share(share) => share,
                    GpuTake::Memory(_) => GpuShare::ZERO,
                };
                u64::from(gpus.count) * u64::from(share.get())
            })
        };
        let of_sets = demand.sets().iter().map(|set| of_task(&set.task) * u64::from(set.min_tasks)).sum::<u64>();
        let of_range = match &demand.kind {
            DemandKind::Requirements(wanted) => {
                let least = wanted.gpu.as_ref().and_then(|gpus| gpus.count.min).unwrap_or(0);
                u64::from(least) * u64::from(GpuShare::WHOLE.get()) * u64::from(demand.tasks)
            }
            _ => of_sets,
        };
        let gpus = demand.task().map_or(of_range, |task| of_task(task) * u64::from(demand.tasks));
        Holding { gpus, price_per_hour: 0 }
    }

    /// This holding multiplied by `count`; `None` if the result is more than any fleet has.
    fn times(self, count: u64) -> Option<Holding> {
        let (gpus, price_per_hour) = (self.gpus.checked_mul(count)?, self.price_per_hour.checked_mul(count)?);
        Some(Holding { gpus, price_per_hour })
    }

    pub fn and(self, other: Holding) -> Holding {
        self.checked_and(other).expect("a fleet costs less than 18 trillion an hour")
    }

    /// The sum; `None` if it is more than any fleet has.
    fn checked_and(self, other: Holding) -> Option<Holding> {
        let gpus = self.gpus.checked_add(other.gpus)?;
        Some(Holding { gpus, price_per_hour: self.price_per_hour.checked_add(other.price_per_hour)? })
    }

    fn without(self, other: Holding) -> Holding {
        let rest = |one: u64, other: u64| one.checked_sub(other).expect("what is given back was taken");
        Holding { gpus: rest(self.gpus, other.gpus), price_per_hour: rest(self.price_per_hour, other.price_per_hour) }
    }
}

impl Quota {
    fn admits(self, holding: Holding) -> bool {
        let most_gpus = self.gpus.map(|gpus| u64::from(gpus) * u64::from(GpuShare::WHOLE.get()));
        most_gpus.is_none_or(|most| holding.gpus <= most)
            && self.price_per_hour.is_none_or(|most| holding.price_per_hour <= most.get())
    }
}

/// The quotas of all projects, and what each project holds.
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    projects: BTreeMap<String, (Quota, Holding)>,
    /// Projects that have given something back since the last `take_freed`.
    freed: BTreeSet<String>,
}

impl Quotas {
    pub fn new(quotas: &BTreeMap<String, Quota>) -> Quotas {
        let unused = |(name, quota): (&String, &Quota)| (name.clone(), (*quota, Holding::default()));
        Quotas { projects: quotas.iter().map(unused).collect(), freed: BTreeSet::new() }
    }

    /// Whether the quota of a project allows this additional amount. Without a quota, everything is allowed.
    pub fn admits(&self, project: Option<&str>, more: Holding) -> bool {
        let known = project.and_then(|project| self.projects.get(project));
        known.is_none_or(|(quota, held)| held.checked_and(more).is_some_and(|sum| quota.admits(sum)))
    }

    /// Whether this project has a quota, so that its holdings are counted.
    pub fn counts(&self, project: Option<&str>) -> bool {
        project.is_some_and(|project| self.projects.contains_key(project))
    }

    pub fn take(&mut self, project: Option<&str>, more: Holding) {
        if let Some((_, held)) = project.and_then(|project| self.projects.get_mut(project)) {
            *held = held.and(more);
        }
    }

    pub fn give_back(&mut self, project: Option<&str>, less: Holding) {
        if let Some((_, held)) = project.and_then(|project| self.projects.get_mut(project)) {
            *held = held.without(less);
            self.freed.extend(project.map(str::to_string));
        }
    }

    /// How many times the quota of a project allows this additional amount, up to `most`.
    pub fn admits_times(&self, project: Option<&str>, each: Holding, most: u64) -> u64 {
        let (mut admitted, mut beyond) = (0, most + 1);
        while beyond - admitted > 1 {
            let middle = admitted + (beyond - admitted) / 2;
            match each.times(middle).is_some_and(|more| self.admits(project, more)) {
                true => admitted = middle,
                false => beyond = middle,
            }
        }
        admitted
    }

    /// Returns the projects that have given something back since the last call.
    pub fn take_freed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.freed)
    }

    /// Marks a project to be checked again, as if it had given something back.
    pub fn recheck(&mut self, project: &str) {
        self.freed.insert(project.to_string());
    }

    /// Whether a project has given something back since the last call of `take_freed`.
    pub fn has_freed(&self, project: &str) -> bool {
        self.freed.contains(project)
    }

    /// Whether there is any quota.
    pub fn is_empty(&self) -> bool {
        self.projects.is_empty()
    }

    /// The amounts that each project with a quota holds.
    pub fn held(&self) -> impl Iterator<Item = (&str, Holding)> {
        self.projects.iter().map(|(name, (_, held))| (name.as_str(), *held))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use dryrack_fleet::{Blocks, GpuClaim, GpuShape, Instance, NodeShape, NodeState, NodeStatus};
    use dryrack_ids::{FleetId, NodeId};
    use dryrack_units::{Bytes, MilliCpu};
    use dryrack_workload::{Gang, GpuDemand, TaskSet};

    fn quotas(gpus: Option<u32>, price: Option<u64>) -> Quotas {
        let quota = Quota { gpus, price_per_hour: price.map(Money::new) };
        Quotas::new(&BTreeMap::from([("lab".to_string(), quota)]))
    }

    fn holding(gpus: u64, price_per_hour: u64) -> Holding {
        Holding { gpus, price_per_hour }
    }

    #[test]
    fn a_project_takes_up_to_its_quota_and_no_further() {
        let mut quotas = quotas(Some(2), None);
        quotas.take(Some("lab"), holding(1500, 9));
        assert!(quotas.admits(Some("lab"), holding(500, 9)));
        assert!(!quotas.admits(Some("lab"), holding(501, 0)));
        quotas.give_back(Some("lab"), holding(1500, 9));
        assert!(quotas.admits(Some("lab"), holding(2000, 0)));
    }

    #[test]
    fn a_project_may_take_as_many_times_as_its_quota_has_room_for() {
        let mut quotas = quotas(Some(4), None);
        quotas.take(Some("lab"), holding(1500, 9));
        // 2,500 thousandths of a GPU are left.
        assert_eq!(quotas.admits_times(Some("lab"), holding(1000, 0), 9), 2);
        assert_eq!(quotas.admits_times(Some("lab"), holding(500, 0), 9), 5);
        assert_eq!(quotas.admits_times(Some("lab"), holding(500, 0), 3), 3);
        assert_eq!(quotas.admits_times(Some("lab"), holding(2501, 0), 9), 0);
        assert_eq!(quotas.admits_times(Some("lab"), holding(u64::MAX, 0), 9), 0);
        assert_eq!(quotas.admits_times(None, holding(1000, 0), 9), 9);
        assert!(quotas.take_freed().is_empty());
        quotas.give_back(Some("lab"), holding(500, 9));
        assert_eq!(quotas.take_freed().into_iter().collect::<Vec<_>>(), ["lab"]);
    }

    #[test]
    fn a_quota_of_price_counts_no_gpus() {
        let mut quotas = quotas(None, Some(1_000_000));
        quotas.take(Some("lab"), holding(64_000, 999_999));
        assert!(quotas.admits(Some("lab"), holding(64_000, 1)));
        assert!(!quotas.admits(Some("lab"), holding(0, 2)));
    }

    #[test]
    fn who_is_of_no_project_or_of_one_without_a_quota_takes_anything() {
        let quotas = quotas(Some(0), None);
        assert!(quotas.admits(None, holding(8000, 0)));
        assert!(quotas.admits(Some("other"), holding(8000, 0)));
        assert!(!quotas.admits(Some("lab"), holding(1, 0)));
    }

    /// A node that costs 12 an hour, with 16 cores.
    fn node(gpus: usize, blocks: Option<u32>) -> Node {
        let gpu = GpuShape::of("a", Bytes::from_gib(80));
        let mut shape = NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), vec![gpu; gpus]);
        shape.price_per_hour = Some(Money::new(12_000_000));
        if let Some(blocks) = blocks {
            shape = shape.into_instance(Instance {
                fleet: FleetId::new(0),
                blocks: Blocks::Count(blocks),
                total_blocks: None,
                disk: Bytes::ZERO,
                backend: "remote".into(),
                region: "remote".into(),
                spot: false,
                offer: None,
            });
        }
        let status = NodeStatus::idle(NodeState::Ready, &shape);
        Node { name: "n".into(), shape: shape.into(), status, version: 0 }
    }

    #[test]
    fn a_claim_costs_its_part_of_the_node() {
        let claim = |gpus: &[u32], blocks: &[u16]| {
            let part = |(index, share): (usize, &u32)| GpuClaim {
                index: index as u16,
                share: GpuShare::new(*share),
                memory: Bytes::ZERO,
            };
            NodeClaim {
                cpu: MilliCpu::from_cores(4),
                gpus: gpus.iter().enumerate().map(part).collect(),
                blocks: blocks.iter().copied().collect(),
                ..NodeClaim::of_nothing(NodeId::new(0))
            }
        };
        // One and a half of four GPUs, 4 of 16 cores, and one of two blocks.
        assert_eq!(Holding::of(&node(4, None), &claim(&[1000, 500], &[])), holding(1500, 4_500_000));
        assert_eq!(Holding::of(&node(0, None), &claim(&[], &[])), holding(0, 3_000_000));
        assert_eq!(Holding::of(&node(4, Some(2)), &claim(&[1000, 1000], &[1])), holding(2000, 6_000_000));
        // A third of 10 is rounded down to a millionth.
        let mut third = node(3, None);
        Arc::make_mut(&mut third.shape).price_per_hour = Some(Money::new(10_000_000));
        assert_eq!(Holding::of(&third, &claim(&[1000], &[])), holding(1000, 3_333_333));
    }

    #[test]
    fn the_least_that_a_demand_takes_is_its_gpus() {
        let task = |count, take| TaskDemand {
            cpu: MilliCpu::ZERO,
            ram: Bytes::ZERO,
            gpus: Some(GpuDemand { count, take, models: Vec::new(), min_memory: None }),
            labels: BTreeMap::new(),
            os: None,
            arch: None,
        };
        let demand = |tasks, kind| Demand { tasks, kind, gang: Gang::Anywhere, pick: None, speeds: None, fields: None };
        let of = |tasks, count, take| Holding::least_of(&demand(tasks, DemandKind::Tasks(task(count, take))));
        assert_eq!(of(3, 2, GpuTake::Whole), holding(6000, 0));
        assert_eq!(of(3, 1, GpuTake::Share(GpuShare::new(250))), holding(750, 0));
        assert_eq!(of(3, 2, GpuTake::Memory(Bytes::from_gib(8))), holding(0, 0));
        let set = |tasks, min_tasks, count| TaskSet {
            name: "set".into(),
            tasks,
            min_tasks,
            task: task(count, GpuTake::Whole),
        };
        // At least three tasks with two GPUs and two tasks with five.
        let sets = DemandKind::Sets([set(4, 3, 2), set(2, 2, 5)].into());
        assert_eq!(Holding::least_of(&demand(6, sets)), holding(16_000, 0));
    }

    #[test]
    fn only_projects_with_a_quota_are_counted_and_only_once_when_they_give_back() {
        let mut quotas = quotas(Some(2), None);
        assert!(quotas.counts(Some("lab")) && !quotas.counts(Some("other")) && !quotas.counts(None));
        assert!(!quotas.is_empty() && Quotas::default().is_empty());
        assert!(!quotas.has_freed("lab"));
        quotas.recheck("lab");
        assert!(quotas.has_freed("lab") && !quotas.has_freed("other"));
        quotas.take(Some("lab"), holding(500, 7));
        quotas.take(Some("other"), holding(500, 7));
        assert!(quotas.held().eq([("lab", holding(500, 7))]));
        assert_eq!(quotas.take_freed().len(), 1);
        assert!(!quotas.has_freed("lab"));
    }
}
