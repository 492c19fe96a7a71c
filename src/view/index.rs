//! Finds the state at any instant of a log. Copies of the state are kept along the log, so going to an instant folds
//! only the records since the last copy before it.

use super::state::State;
use dryrack_event::{Input, Record, RecordBody};
use dryrack_units::SimTime;

/// The number of columns for which the use of the GPUs is kept.
pub const COLUMNS: usize = 1000;
/// The smallest number of records between two copies.
const LEAST_APART: usize = 1000;

pub struct Index {
    /// For each instant to stop at: the number of records up to its end.
    pub stops: Vec<u32>,
    /// Copies of the state after this many records, the first of them before all records.
    copies: Vec<(usize, State)>,
    /// The mean number of GPUs in use in each column of the run, in thousandths.
    pub gpus: Vec<u64>,
    /// The largest number of GPUs that existed at any instant.
    pub most_gpus: usize,
}

impl Index {
    pub fn of(records: &[Record], end: SimTime) -> Index {
        Index::with_copies(records, end, LEAST_APART)
    }

    /// An index whose copies are at least this many records apart.
    pub(super) fn with_copies(records: &[Record], end: SimTime, apart: usize) -> Index {
        let mut state = State::default();
        let mut copies = vec![(0, State::default())];
        let mut stops = Vec::new();
        let (mut sums, mut most_gpus) = (vec![0u128; COLUMNS], 0);
        let mut since_copy = 0;
        let mut is_stop = false;
        for number in 0..records.len() {
            let before = (state.gpus_taken, state.nodes.len());
            state.take(records, number);
            if state.nodes.len() != before.1 {
                most_gpus = most_gpus.max(state.gpus());
            }
            since_copy += 1;
            is_stop |= is_shown(&records[number]);
            let next = records.get(number + 1).map_or(end, |next| next.at);
            if number + 1 < records.len() && next == records[number].at {
                continue;
            }
            add(&mut sums, (records[number].at, next), end, state.gpus_taken);
            if is_stop {
                stops.push(number as u32 + 1);
                is_stop = false;
            }
            // All copies together hold no more entries than the log has records.
            if since_copy >= apart.max(state.size()) {
                copies.push((number + 1, state.clone()));
                since_copy = 0;
            }
        }
        let width = u128::from(end.as_nanos()).div_ceil(COLUMNS as u128).max(1);
        let gpus = sums.into_iter().map(|sum| u64::try_from(sum.div_ceil(width)).unwrap_or(u64::MAX)).collect();
        Index { stops, copies, gpus, most_gpus }
    }

    /// The state after the first `count` records.
    pub fn state(&self, records: &[Record], count: usize) -> State {
        let after = self.copies.partition_point(|(taken, _)| *taken <= count);
        let (taken, copy) = &self.copies[after - 1];
        let mut state = copy.clone();
        (*taken..count).for_each(|number| state.take(records, number));
        state
    }

    /// The number of records to fold for the state after the first `count`.
    #[cfg(test)]
    pub(super) fn distance(&self, count: usize) -> usize {
        let after = self.copies.partition_point(|(taken, _)| *taken <= count);
        count - self.copies[after - 1].0
    }

    /// The last stop at or before `at`; the first stop if there is none.
    pub fn stop_at(&self, records: &[Record], at: SimTime) -> usize {
        let is_before = |stop: &u32| records[*stop as usize - 1].at <= at;
        self.stops.partition_point(is_before).saturating_sub(1)
    }

    /// The stop whose instant includes this record, or the next one.
    pub fn stop_of_record(&self, number: usize) -> usize {
        let stop = self.stops.partition_point(|stop| *stop as usize <= number);
        stop.min(self.stops.len().saturating_sub(1))
    }
}

/// Whether an instant with this record is one to stop at. Samples, wake-ups and reports of runs are not: what follows
/// from them is an event.
fn is_shown(record: &Record) -> bool {
    match &record.said {
        RecordBody::Event(_) => true,
        RecordBody::Input(input) => matches!(input, Input::Submit { .. } | Input::User(_) | Input::External(_)),
    }
}

/// Adds a value that holds from one time to another to the columns that it overlaps.
fn add(sums: &mut [u128], (from, to): (SimTime, SimTime), end: SimTime, value: u64) {
    let width = u128::from(end.as_nanos()).div_ceil(sums.len() as u128).max(1);
    let (mut from, to) = (u128::from(from.as_nanos()), u128::from(to.as_nanos()));
    while from < to && value > 0 {
        let column = (from / width) as usize;
        let next = to.min((column as u128 + 1) * width);
        if let Some(sum) = sums.get_mut(column) {
            *sum += (next - from) * u128::from(value);
        }
        from = next;
    }
}
