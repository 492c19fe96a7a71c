//! The rule of dstack 0.18.44 to 0.22.5. It was measured on 0.19.10 and 0.22.5.
//!
//! The rule is evaluated at fixed instants t. The samples from t - window on, including that instant, are *in the
//! window*. The oldest of them is skipped, and all others count. The rule fires if all of these conditions are met:
//!
//! - At least one sample counts.
//! - The first sample that counts is at most `first_within` later than t - window.
//! - All samples that count have the same number of GPUs, and as many memory entries.
//! - Some GPU is strictly below the minimum in every sample that counts.
//!
//! What happens between samples does not matter. So the rule can fire before a whole window has passed since the start.
//! It never fires if samples are rarer than about `first_within`. A sample that lacks a reading is treated like a
//! sample with lists of unequal length.

use smallvec::SmallVec;

use super::ring::Ring;
use super::rule::Rule;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Coverage, IdleGpus, UtilizationPolicy};

/// The data about all samples that the rule keeps, so that an evaluation need not read them again. Sample numbers are
/// those of the ring plus one. The number 0 means no sample.
pub(super) struct Dstack {
    looks_every: SimDuration,
    first_within: SimDuration,
    /// The last sample in which each GPU was not idle.
    last_busy: Box<[u64]>,
    /// The last sample that is malformed, or after which the shape of the samples changes.
    last_misfit: u64,
    /// The newest sample when the rule last fired. The rule fires again only if the skipped sample is not older than
    /// this one.
    fired: u64,
}

impl Dstack {
    pub fn new(looks_every: SimDuration, first_within: SimDuration, width: usize) -> Dstack {
        Dstack { looks_every, first_within, last_busy: vec![0; width].into(), last_misfit: 0, fired: 0 }
    }

    fn read(&mut self, policy: &UtilizationPolicy, ring: &Ring, index: usize) {
        let number = ring.number(index) + 1;
        let (gpus, memory) = ring.shape(index);
        let gpus = usize::from(gpus);
        let lacks = (0..gpus).any(|gpu| ring.reading(index, gpu).is_none());
        if gpus != usize::from(memory) || lacks {
            self.last_misfit = number;
        } else if index > 0 && ring.shape(index - 1) != ring.shape(index) {
            self.last_misfit = number - 1;
        }
        for (gpu, last_busy) in self.last_busy.iter_mut().enumerate() {
            let idle = ring.reading(index, gpu).is_some_and(|reading| super::idle::is_idle(policy, reading));
            if !idle || gpu >= gpus {
                *last_busy = number;
            }
        }
    }

    fn check_time(&self, bound_at: SimTime, from: SimTime) -> SimTime {
        let every = self.looks_every.as_nanos();
        let looks = from.since(bound_at).as_nanos().div_ceil(every);
        bound_at.saturating_add(self.looks_every.saturating_mul(looks))
    }

    fn coverage(&self, ring: &Ring, first: usize, gpus: IdleGpus) -> Coverage {
        let number = ring.number(first) + 1;
        let is_idle = |gpu: &u16| gpus == IdleGpus::All || self.last_busy[usize::from(*gpu)] < number;
        let idle: SmallVec<[u16; 8]> = (0..self.last_busy.len() as u16).filter(is_idle).collect();
        let last = ring.len() - 1;
        Coverage { gpus: idle, first: ring.time(first), last: ring.time(last), samples: (last - first) as u32 + 1 }
    }
}

impl Rule for Dstack {
    fn takes(&self, gpus: usize, width: usize) -> bool {
        gpus <= width
    }

    fn added(&mut self, policy: &UtilizationPolicy, ring: &Ring) {
        self.read(policy, ring, ring.len() - 1);
    }

    fn inserted(&mut self, policy: &UtilizationPolicy, ring: &Ring, place: usize) {
        self.fired += u64::from(ring.number(place) < self.fired);
        // Samples that have left the ring are older than any window, or a fault has reported that they were dropped.
        self.last_misfit = 0;
        self.last_busy.fill(0);
        for index in 0..ring.len() {
            self.read(policy, ring, index);
        }
    }

    /// The first evaluation at or after `now` that fires if no further sample arrives, and the readings that then cover
    /// the window.
    fn next(
        &self,
        policy: &UtilizationPolicy,
        ring: &Ring,
        bound_at: SimTime,
        now: SimTime,
    ) -> Option<(SimTime, Coverage)> {
        let busy = match policy.gpus {
            IdleGpus::Any => *self.last_busy.iter().min()?,
            IdleGpus::All => *self.last_busy.iter().max()?,
        };
        // The skipped sample may be the last one that prevents the rule from firing.
        let passed_over = busy.max(self.last_misfit).max(self.fired).saturating_sub(1);
        let mut oldest = ring.index(passed_over);
        while oldest + 1 < ring.len() {
            // This sample is the oldest one in the window from the moment at which its predecessor leaves the window
            // until it leaves the window itself.
            let window = policy.time_window;
            let leaves = ring.time(oldest).saturating_add(window);
            let alone = match oldest {
                0 => SimTime::ZERO,
                _ => ring.time(oldest - 1).saturating_add(window).saturating_add(SimDuration::from_nanos(1)),
            };
            let reaches = ring.time(oldest + 1).saturating_add(window).as_nanos();
            let reaches = SimTime::from_nanos(reaches.saturating_sub(self.first_within.as_nanos()));
            let look = self.check_time(bound_at, now.max(alone).max(reaches));
            if look <= leaves {
                return Some((look, self.coverage(ring, oldest + 1, policy.gpus)));
            }
            oldest += 1;
        }
        None
    }

    fn fired(&mut self, ring: &Ring, _coverage: &Coverage) {
        self.fired = ring.number(ring.len() - 1) + 1;
    }
}
