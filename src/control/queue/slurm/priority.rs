//! The priorities of waiting jobs by priority/multifactor. A job gets its priority when it is submitted. The priorities
//! of all waiting jobs are computed again every `PriorityCalcPeriod`, counted from the beginning of the run.

use super::cluster::{Slurm, requested, weights};
use super::section::Section;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use dryrack_scheduler::slurm::{Shares, multifactor};
use dryrack_workload::JobSpec;

/// The priority of a job's QOS, relative to the largest of all QOS.
fn qos_factor(core: &Core, spec: &JobSpec) -> f64 {
    let Some(slurm) = &core.profile.slurm else { return 0.0 };
    let name = spec.slurm.as_ref().and_then(|terms| terms.qos.as_deref());
    let own = name.and_then(|name| slurm.qos(name)).map_or(0, |qos| qos.priority);
    let most = slurm.qos.iter().map(|qos| qos.priority).max().unwrap_or(0);
    if most == 0 { 0.0 } else { f64::from(own) / f64::from(most) }
}

impl Slurm {
    pub(super) fn priority_of(&self, core: &Core, index: ReplicaIndex, section: &Section) -> u32 {
        let Some(options) = weights(core) else { return 0 };
        let replica = &core.store[index];
        let spec = &core.store[replica.job].spec;
        let shares = Shares {
            fairshare: self.fair.as_ref().map_or(0.0, |fair| fair.factor_of(spec)),
            waited: self.calculated.checked_since(replica.wanted).unwrap_or_default(),
            partition: section.factor,
            qos: qos_factor(core, spec),
            site: i64::from(spec.priority),
        };
        multifactor(options, requested(spec), shares, self.cluster, section.has)
    }
}

impl Queue {
    /// Computes the priorities of all waiting jobs again, if that is due since the last time.
    pub(in crate::queue) fn calculate_priorities(&mut self, core: &mut Core) {
        if let (Some(weights), Some(fair)) = (weights(core), self.fair_shares()) {
            fair.catch_up(weights, core.now);
        }
        let Some(weights) = weights(core) else { return };
        let last = weights.calculations(core.now).checked_sub(1).and_then(|before| weights.calculated_after(before));
        let Some(last) = last else { return };
        let Some(slurm) = self.slurm.as_mut().filter(|slurm| slurm.calculated < last) else { return };
        slurm.calculated = last;
        let waiting: Vec<ReplicaIndex> = self.queue.iter(core.now).map(|key| key.replica()).collect();
        self.move_visits(core, &waiting);
        for index in waiting {
            let key = self.key_of(core, index);
            let (before, demand) = (core.store[index].key, core.store[index].demand);
            if key != before {
                self.queue.remove(before, demand);
                core.store[index].key = key;
                self.queue.insert_entry(key, demand, self.entry(core, index));
            }
        }
    }
}
