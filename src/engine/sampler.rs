//! Samples the GPUs of an attempt: when each sample is taken, what it reads, and whether and when it arrives.

use std::sync::Arc;

use smallvec::SmallVec;

use dryrack_event::{Input, UsageFact};
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, NodeId};
use dryrack_rng::{Stream, entity};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{ProbeFate, Reading, SampleFate, Sampling, Usage, utilization_of_percent};

/// The sampler of one attempt, which begins at the attempt's start. Each purpose has its own random stream, and each
/// sample takes the same number of draws from each stream. So a fault of one sample does not change any other sample.
pub(super) struct Sampler {
    usage: Arc<Usage>,
    sampling: Arc<Sampling>,
    interval: SimDuration,
    started: SimTime,
    /// The number of samples so far, including those that did not arrive.
    taken: u64,
    noise: Stream,
    jitter: Stream,
    fates: Stream,
    probes: Stream,
}

impl Sampler {
    pub fn new(
        (seed, job, attempt): (u64, &str, AttemptId),
        usage: &Arc<Usage>,
        sampling: &Arc<Sampling>,
        interval: SimDuration,
        started: SimTime,
    ) -> Sampler {
        let parts = [attempt.replica, attempt.number].map(|part| part.to_string());
        let stream = |purpose| Stream::new(seed, purpose, entity(&[job, &parts[0], &parts[1]]));
        Sampler {
            usage: Arc::clone(usage),
            sampling: Arc::clone(sampling),
            interval,
            started,
            taken: 0,
            noise: stream("usage noise"),
            jitter: stream("sample jitter"),
            fates: stream("sample fates"),
            probes: stream("sample probes"),
        }
    }

    /// The time of the next sample. Sample n is due n intervals plus its jitter after the start, but never before
    /// `now`.
    pub fn next(&mut self, now: SimTime) -> Option<SimTime> {
        self.taken += 1;
        let jitter = self.sampling.draw_jitter(&mut self.jitter);
        let nanos = self.interval.as_nanos().checked_mul(self.taken)?;
        let at = self.started.checked_add(SimDuration::from_nanos(nanos))?.checked_add(jitter)?;
        Some(at.max(now))
    }

    /// Takes a sample. Returns the inputs that will arrive, each with its delay. A lost sample gives no input. `added`
    /// is what other attempts use of GPUs, by their positions in the placement. A recording already includes it.
    pub fn take(
        &mut self,
        now: SimTime,
        attempt: AttemptId,
        placement: &Placement,
        added: &[(usize, Reading)],
        is_heard: impl Fn(NodeId) -> bool,
    ) -> SmallVec<[(SimDuration, Input); 2]> {
        let since = now.since(self.started);
        let (mut utilization, mut memory) = (SmallVec::new(), SmallVec::new());
        let gpus = placement.claims().iter().flat_map(|claim| claim.gpus.iter().map(|_| claim.node));
        let mut hears_any = false;
        for (gpu, node) in gpus.enumerate() {
            let own = self.usage.read(gpu, since, &mut self.noise);
            let others = added.iter().find(|(position, _)| *position == gpu && !self.usage.is_recorded(gpu));
            let reading = others.map_or(own, |(_, others)| own.with_others(*others));
            let reading = match (self.sampling.draw_probe(&mut self.probes), is_heard(node)) {
                (_, false) | (ProbeFate::NotAvailable, _) => Reading::default(),
                // The conversion to a unit refuses NaN, as it does for a real probe.
                (ProbeFate::NotANumber, _) => {
                    Reading { utilization: utilization_of_percent(f64::NAN).ok(), memory: reading.memory }
                }
                (ProbeFate::Number, true) => reading,
            };
            hears_any |= is_heard(node);
            utilization.push(reading.utilization);
            memory.push(reading.memory);
        }
        let fate = self.sampling.draw_fate(&mut self.fates);
        if !hears_any || self.sampling.is_silent(since) {
            return SmallVec::new();
        }
        if memory.iter().all(Option::is_none) {
            memory.clear();
        }
        let at = self.sampling.clock(self.started, now);
        let sample = Input::Usage(UsageFact::Sample { attempt, at, utilization, memory });
        let delay = self.sampling.delay;
        match fate {
            SampleFate::Heard => SmallVec::from_iter([(delay, sample)]),
            SampleFate::Lost => SmallVec::new(),
            SampleFate::Late(by) => SmallVec::from_iter([(delay.saturating_add(by), sample)]),
            SampleFate::Repeated(by) => {
                SmallVec::from_iter([(delay, sample.clone()), (delay.saturating_add(by), sample)])
            }
        }
    }
}
