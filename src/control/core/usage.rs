//! The utilization monitors of attempts. A monitor is bound when an attempt starts, receives samples, is asked whether
//! it fires, and is dropped when the attempt ends.

use super::Core;
use super::parts::watch::Watch;
use super::store::ReplicaIndex;
use dryrack_event::{Command, Event, Phase};
use dryrack_ids::AttemptId;
use dryrack_planted::planted;
use dryrack_policy::{Sample, UtilizationMonitor};
use dryrack_units::{Permille, SimTime};
use dryrack_workload::{PolicySource, UtilizationPolicy};

impl Core {
    /// The policy that applies to a replica, if any.
    fn effective_policy(&self, index: ReplicaIndex) -> Option<(PolicySource, UtilizationPolicy)> {
        let replica = &self.store[index];
        let over = &self.store[replica.job].spec.utilization;
        if self.store[index].gpus_held() == 0 {
            return None;
        }
        self.profile.policies.utilization.bind(over)
    }

    /// Binds a policy to an attempt that has started.
    pub(crate) fn bind_policy(&mut self, index: ReplicaIndex) {
        let Some((source, values)) = self.effective_policy(index) else { return };
        let gpus = self.store[index].gpus_held() as u16;
        let attempt = self.store[index].attempt_id();
        let monitor = UtilizationMonitor::bind(values, gpus, self.now);
        self.store[index].watch = Some(Box::new(Watch::new(monitor)));
        self.emit(Event::PolicyBound { attempt, source, values });
        self.command(Command::Sample { attempt, interval: values.interval });
    }

    /// Records a sample. A sample for an attempt that has ended changes nothing.
    pub(crate) fn usage_sample(
        &mut self,
        attempt: AttemptId,
        at: SimTime,
        utilization: &[Option<Permille>],
        memory: usize,
    ) {
        let Some(index) = self.store.replica_of(attempt) else { return };
        let replica = &mut self.store[index];
        if replica.attempt != attempt.number {
            return;
        }
        let Some(watch) = &mut replica.watch else { return };
        // A probe that does not measure memory sends no list of memory use, so there is no length to compare.
        let memory_entries = if memory == 0 { utilization.len() } else { memory };
        let odd = watch.monitor.observe(self.now, &Sample { at, utilization, memory_entries });
        self.usage.note_sample(index);
        let Some(fault) = odd else { return };
        if watch.is_first(fault) || planted!(EachOddSampleIsReported) {
            self.emit(Event::SampleOdd { attempt, at, fault });
        }
    }

    /// Asserts that every running replica with an effective policy has a monitor of that policy, and that no other
    /// replica has a monitor. Attempts that began under an earlier profile keep the policy of that profile.
    pub(super) fn assert_monitors(&self) {
        for (index, replica) in self.store.replicas.iter() {
            if replica.phase == Phase::Running && !self.usage.has_current_policies(replica.since) {
                continue;
            }
            let effective = self.effective_policy(index as ReplicaIndex).map(|(_, values)| values);
            let wanted = effective.filter(|_| replica.phase == Phase::Running);
            let bound = replica.watch.as_ref().map(|watch| *watch.monitor.policy());
            assert_eq!(bound, wanted, "{} is not watched as its policy says", replica.attempt_id());
        }
    }
}

/// Checks that the values of a sample are possible for an attempt.
pub(crate) fn check_sample(utilization: &[Option<Permille>], memory: usize) -> Result<(), &'static str> {
    if utilization.len().max(memory) > usize::from(u16::MAX) {
        return Err("a sample of more GPUs than any run has");
    }
    match utilization.iter().flatten().any(|reading| *reading > Permille::new(1000)) {
        true => Err("a utilization above 100%"),
        false => Ok(()),
    }
}
