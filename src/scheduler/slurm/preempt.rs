//! Preemption: whose running jobs may be stopped for which waiting job (`PreemptType` of slurm.conf).

use std::collections::BTreeSet;

use super::preempt_mode::{PreemptMode, PreemptType};
use super::qos::Qos;
use super::{Partition, SlurmOptions};
use dryrack_planted::planted;
use dryrack_units::SimDuration;

/// What preemption reads of a job: its partition and its QOS.
#[derive(Clone, Copy)]
pub struct Ranked<'s> {
    pub partition: &'s Partition,
    pub qos: Option<&'s Qos>,
}

impl SlurmOptions {
    /// What becomes of a running job if `head` needs its place. `None` if the job may not be preempted for `head`.
    pub fn preempts(&self, head: Ranked<'_>, running: Ranked<'_>, ran: SimDuration) -> Option<PreemptMode> {
        let own_exempt = running.qos.and_then(|qos| qos.preempt_exempt_time);
        if ran < own_exempt.unwrap_or(self.preempt_exempt_time) && !planted!(ExemptTimeIsIgnored) {
            return None;
        }
        let mode = match self.preempt_type? {
            PreemptType::PartitionPrio => {
                let is_lower = running.partition.priority_tier < head.partition.priority_tier;
                is_lower.then_some(running.partition.preempt_mode)?
            }
            PreemptType::Qos => {
                let (of_head, own) = (head.qos?, running.qos?);
                of_head.preempt.iter().any(|name| **name == *own.name).then_some(own.preempt_mode)?
            }
        };
        Some(mode.unwrap_or(self.preempt_mode)).filter(|mode| *mode != PreemptMode::Off)
    }

    /// How long a job that is to be preempted may still run.
    pub fn grace_of(&self, running: Ranked<'_>) -> SimDuration {
        match self.preempt_type {
            Some(PreemptType::Qos) => running.qos.map_or(SimDuration::ZERO, |qos| qos.grace_time),
            Some(PreemptType::PartitionPrio) | None => running.partition.grace_time,
        }
    }

    /// How valuable a running job is. The least valuable jobs are preempted first.
    pub fn worth(&self, running: Ranked<'_>, nodes: u64) -> (u32, u64) {
        let rank = match self.preempt_type {
            Some(PreemptType::Qos) => running.qos.map_or(0, |qos| qos.priority),
            Some(PreemptType::PartitionPrio) | None => u32::from(running.partition.priority_tier),
        };
        (rank, nodes)
    }

    /// How long running jobs are exempt from preemption, for each time that the configuration states.
    pub fn exempts(&self) -> bool {
        !self.preempt_exempt_time.is_zero() || self.qos.iter().any(|qos| qos.preempt_exempt_time.is_some())
    }

    pub(super) fn faulty_preemption(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let of_qos = self.qos.iter().any(|qos| !qos.preempt.is_empty() || qos.preempt_mode.is_some());
        if of_qos && self.preempt_type != Some(PreemptType::Qos) {
            faults.push("has QOS that preempt others, but no `preempt_type: qos`".to_string());
        }
        let of_partitions = self.partitions.iter().any(|partition| partition.preempt_mode.is_some());
        if of_partitions && self.preempt_type != Some(PreemptType::PartitionPrio) {
            let message = "has partitions with a `preempt_mode`, but no `preempt_type: partition_prio`";
            faults.push(message.to_string());
        }
        for qos in &self.qos {
            for name in qos.preempt.iter().filter(|name| self.qos(name).is_none()) {
                faults.push(format!("has a QOS `{}` that preempts `{name}`, which does not exist", qos.name));
            }
        }
        // slurmdbd refuses it: "QOS Preemption loop detected" (`_preemption_loop` in as_mysql_qos.c).
        if let Some(qos) = self.qos.iter().find(|qos| self.preempts_itself(qos)) {
            let name = &qos.name;
            let how = "directly or by way of others, which slurmdbd refuses as a loop";
            faults.push(format!("has a QOS `{name}` that preempts itself, {how}"));
        }
        for partition in &self.partitions {
            if let Some(name) = partition.qos.as_ref().filter(|name| self.qos(name).is_none()) {
                faults
                    .push(format!("has a partition `{}` with the QOS `{name}`, which does not exist", partition.name));
            }
            for name in partition.allow_qos.iter().filter(|name| self.qos(name).is_none()) {
                faults.push(format!(
                    "has a partition `{}` that allows a QOS `{name}`, which does not exist",
                    partition.name
                ));
            }
        }
        faults
    }

    /// Whether the QOS preempts itself, by way of others or at once.
    fn preempts_itself(&self, of: &Qos) -> bool {
        let (mut open, mut seen) = (vec![of], BTreeSet::new());
        while let Some(qos) = open.pop() {
            if qos.preempt.contains(&of.name) {
                return true;
            }
            open.extend(qos.preempt.iter().filter_map(|name| self.qos(name)).filter(|qos| seen.insert(&qos.name)));
        }
        false
    }
}
