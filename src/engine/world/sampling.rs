//! How the world samples the GPUs of an attempt, and what others add to the readings.

use std::sync::Arc;

use smallvec::SmallVec;

use super::super::due::Due;
use super::super::sampler::Sampler;
use super::super::shared_gpus::shared;
use super::{World, WorldAttempt};
use dryrack_event::Input;
use dryrack_ids::{AttemptId, NodeId};
use dryrack_units::{Bytes, Permille, SimDuration, SimTime};
use dryrack_workload::Reading;

impl World<'_> {
    /// Starts sampling an attempt. Does nothing if the attempt is over or has no usage model.
    pub(super) fn sample_from_now_on(&mut self, now: SimTime, attempt: AttemptId, interval: SimDuration) {
        let Some(known) = self.attempts.get_mut(&attempt).filter(|known| known.alive) else { return };
        known.sampled_every = Some(interval);
        let (Some(usage), Some(started)) = (&known.behavior.usage, known.started) else { return };
        let spec = Arc::clone(&known.spec);
        let who = (self.rehearsal.seed, &*spec.name, attempt);
        let mut sampler = Sampler::new(who, usage, &known.behavior.sampling, interval, started);
        // Skip the samples that were due before the request.
        let missed = now.since(started).as_nanos() / interval.as_nanos();
        let mut next = None;
        for _ in 0..=missed {
            next = sampler.next(now);
        }
        known.sampler = Some(Box::new(sampler));
        let epoch = known.epoch;
        if let Some(at) = next {
            self.queue.push(at, Due::Sample { attempt, epoch });
        }
    }

    /// The load and the memory that other attempts put on the GPUs that this one shares, each with the position of the
    /// GPU in the placement.
    fn load_of_others(&self, now: SimTime, attempt: AttemptId) -> SmallVec<[(usize, Reading); 2]> {
        let placement = self.attempts.get(&attempt).and_then(|known| known.placement.as_ref());
        let reading = |(other, position)| {
            let known = self.attempts.get(&other).filter(|known| known.alive)?;
            Some(known.behavior.usage.as_ref()?.level(position, now.since(known.started?)))
        };
        let none = Reading { utilization: Some(Permille::ZERO), memory: Some(Bytes::ZERO) };
        let of_gpu = |gpu| self.shared_gpus.others(gpu, attempt).filter_map(reading).fold(none, Reading::with_others);
        placement.into_iter().flat_map(shared).map(|(position, gpu)| (position, of_gpu(gpu))).collect()
    }

    pub(super) fn sample(&mut self, now: SimTime, attempt: AttemptId, epoch: u32, inputs: &mut Vec<Input>) {
        let added = self.load_of_others(now, attempt);
        let known = self.attempts.get_mut(&attempt).filter(|known| known.epoch == epoch && known.alive);
        let Some(WorldAttempt { sampler: Some(sampler), placement: Some(placement), .. }) = known else { return };
        let is_heard = |node: NodeId| !self.nodes[node.index()].is_out_of_reach();
        let heard = sampler.take(now, attempt, placement, &added, is_heard);
        if let Some(at) = sampler.next(now) {
            self.queue.push(at, Due::Sample { attempt, epoch });
        }
        for (later, sample) in heard {
            if later.is_zero() {
                inputs.push(sample);
                continue;
            }
            let place = self.free_samples.pop().unwrap_or(self.samples.len() as u32);
            match self.samples.get_mut(place as usize) {
                Some(free) => *free = Some(sample),
                None => self.samples.push(Some(sample)),
            }
            self.queue.push_after(now, later, Due::SampleHeard(place));
        }
    }
}
