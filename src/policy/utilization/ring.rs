//! The samples of one run that a window may still need, in order of time. Their memory is allocated once.

use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::UtilizationPolicy;

/// One sample of all GPUs of a run.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'s> {
    /// When the sample was taken, by the sampler's clock.
    pub at: SimTime,
    /// The utilization of each GPU; `None` if it could not be read.
    pub utilization: &'s [Option<Permille>],
    /// Number of GPUs for which the sample has memory values.
    pub memory_entries: usize,
}

/// Stored in place of a missing reading.
const NONE: u16 = u16::MAX;

/// A ring of `ceil(window / interval) + 2` samples. This is enough for a window including both of its ends, and for the
/// sample before it.
pub(super) struct Ring {
    times: Box<[SimTime]>,
    /// For each sample, the number of GPUs and the number of memory entries.
    shapes: Box<[(u16, u16)]>,
    /// The readings of all samples in thousandths. Each sample has `width` readings.
    readings: Box<[u16]>,
    width: usize,
    head: usize,
    len: usize,
    /// Number of samples that were dropped from the front.
    dropped: u64,
}

/// Maximum number of samples that one window may need. A policy that needs more is refused when it is read.
pub const MOST_SAMPLES: u64 = 1_000_000;

/// The number of samples that a ring for this policy holds.
pub fn ring_samples(window: SimDuration, interval: SimDuration) -> u64 {
    window.as_nanos().div_ceil(interval.as_nanos().max(1)).saturating_add(2)
}

impl Ring {
    pub fn new(policy: &UtilizationPolicy, width: usize) -> Ring {
        let capacity = ring_samples(policy.time_window, policy.interval);
        assert!(capacity <= MOST_SAMPLES, "{capacity} samples for one window");
        let capacity = capacity as usize;
        Ring {
            times: vec![SimTime::ZERO; capacity].into(),
            shapes: vec![(0, 0); capacity].into(),
            readings: vec![NONE; capacity * width].into(),
            width,
            head: 0,
            len: 0,
            dropped: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_full(&self) -> bool {
        self.len == self.times.len()
    }

    fn slot(&self, index: usize) -> usize {
        debug_assert!(index < self.len);
        let slot = self.head + index;
        if slot >= self.times.len() { slot - self.times.len() } else { slot }
    }

    /// The time of the sample at `index`. The oldest sample has index 0.
    pub fn time(&self, index: usize) -> SimTime {
        self.times[self.slot(index)]
    }

    pub fn shape(&self, index: usize) -> (u16, u16) {
        self.shapes[self.slot(index)]
    }

    pub fn reading(&self, index: usize, gpu: usize) -> Option<Permille> {
        match self.readings[self.slot(index) * self.width + gpu] {
            NONE => None,
            reading => Some(Permille::new(u32::from(reading))),
        }
    }

    /// The number of the sample at `index`. It stays the same when older samples are dropped.
    pub fn number(&self, index: usize) -> u64 {
        self.dropped + index as u64
    }

    /// The index of the sample with this number. If that sample was dropped, the index of the oldest sample.
    pub fn index(&self, number: u64) -> usize {
        number.saturating_sub(self.dropped) as usize
    }

    pub fn drop_oldest(&mut self) {
        assert!(self.len > 0, "an empty ring has no oldest sample");
        self.head = if self.head + 1 == self.times.len() { 0 } else { self.head + 1 };
        self.len -= 1;
        self.dropped += 1;
    }

    /// The index for a sample with this time, after all samples with earlier times. The flag says whether a sample with
    /// this time already exists.
    pub fn place(&self, at: SimTime) -> (usize, bool) {
        let mut index = self.len;
        while index > 0 && self.time(index - 1) > at {
            index -= 1;
        }
        (index, index > 0 && self.time(index - 1) == at)
    }

    /// Inserts a sample at `index`. The ring must not be full.
    pub fn insert(&mut self, index: usize, sample: &Sample<'_>) {
        assert!(!self.is_full(), "a full ring takes no sample");
        self.len += 1;
        for later in (index + 1..self.len).rev() {
            let (from, to) = (self.slot(later - 1), self.slot(later));
            self.times[to] = self.times[from];
            self.shapes[to] = self.shapes[from];
            self.readings.copy_within(from * self.width..(from + 1) * self.width, to * self.width);
        }
        let slot = self.slot(index);
        self.times[slot] = sample.at;
        self.shapes[slot] = (sample.utilization.len() as u16, sample.memory_entries as u16);
        let row = &mut self.readings[slot * self.width..(slot + 1) * self.width];
        for (gpu, kept) in row.iter_mut().enumerate() {
            let reading = sample.utilization.get(gpu).copied().flatten();
            *kept = reading.map_or(NONE, |reading| reading.get().min(u32::from(NONE) - 1) as u16);
        }
    }
}
