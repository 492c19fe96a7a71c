//! The samples of one run that a window may still need, in order of their times, in memory that is taken once.

use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::UtilizationPolicy;

/// One sample of all GPUs of a run.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'s> {
    /// When it was taken, by the clock of who took it.
    pub at: SimTime,
    /// Of each GPU, where it could be read.
    pub utilization: &'s [Option<Permille>],
    /// Of how many GPUs it has the memory.
    pub memory_entries: usize,
}

/// What is kept in the place of a reading that there is none of.
const NONE: u16 = u16::MAX;

/// A ring of `ceil(window / interval) + 2` samples: as many as a window can hold, its two ends, and the one before it.
pub(super) struct Ring {
    times: Box<[SimTime]>,
    /// Of how many GPUs each speaks, and of how many it has the memory.
    shapes: Box<[(u16, u16)]>,
    /// `width` readings in thousandths for each sample.
    readings: Box<[u16]>,
    width: usize,
    head: usize,
    len: usize,
    /// Samples that were dropped from the front so far.
    dropped: u64,
}

/// More samples than this for one window are refused at the door.
pub const MOST_SAMPLES: u64 = 1_000_000;

/// How many samples a ring for this policy holds.
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

    /// The oldest is number 0.
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

    pub fn newest(&self) -> Option<SimTime> {
        (self.len > 0).then(|| self.time(self.len - 1))
    }

    /// A number of the sample at `index` that stays the same while older ones are dropped.
    pub fn number(&self, index: usize) -> u64 {
        self.dropped + index as u64
    }

    /// The place of the sample with that number; the front, if it was dropped.
    pub fn index(&self, number: u64) -> usize {
        number.saturating_sub(self.dropped) as usize
    }

    pub fn drop_oldest(&mut self) {
        assert!(self.len > 0, "an empty ring has no oldest sample");
        self.head = if self.head + 1 == self.times.len() { 0 } else { self.head + 1 };
        self.len -= 1;
        self.dropped += 1;
    }

    /// Where a sample of this time belongs: behind all that are older. The second part: there is one of this time.
    pub fn place(&self, at: SimTime) -> (usize, bool) {
        let mut index = self.len;
        while index > 0 && self.time(index - 1) > at {
            index -= 1;
        }
        (index, index > 0 && self.time(index - 1) == at)
    }

    /// Puts a sample in its place; there must be room.
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
