//! Lists that were written one after the other and have some jobs in common.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::row::RunBasis;
use super::rows::RowResult;
use super::tally::Oddity;

/// The jobs of the rows seen so far. A row of a job that had not ended is held back until the end of the file, because a
/// later row may know more of the job.
#[derive(Default)]
pub(super) struct Overlap {
    /// For each job, each of its starts and each of its ends, by a hash: the place of its row in `held`, or `None` if
    /// nothing is held back.
    known: HashMap<u64, Option<u32>, FixedState>,
    held: VecDeque<RowResult>,
}

/// What is known of a job: 0 if it waits, the time that it ran so far, or `None` if it has ended.
fn progress(row: &RowResult) -> Option<u64> {
    match row {
        Err(Oddity::StillPending) => Some(0),
        Ok(task) if task.run_basis == RunBasis::SoFar => Some(task.run.as_nanos() + 1),
        Ok(_) | Err(_) => None,
    }
}

impl Overlap {
    /// Returns a row, or [`Oddity::Repeated`] if another row states the same. Returns `None` if the row is held back. `job`
    /// is what identifies the job, and `[start, end]` a run: a requeued job may have several.
    pub(super) fn next(&mut self, job: [&str; 3], [start, end]: [&str; 2], row: RowResult) -> Option<RowResult> {
        let hash = |parts: &[&str]| FixedState::default().hash_one((job, parts));
        let (waits, runs, ended) = (hash(&[]), hash(&[start]), hash(&[start, end]));
        let now = progress(&row);
        let id = match now {
            Some(0) => waits,
            Some(_) => runs,
            None => ended,
        };
        // A row says more than those that know less of the same run.
        for less in [waits, runs].into_iter().take_while(|less| *less != id) {
            if let Some(place) = self.known.insert(less, None).flatten() {
                self.held[place as usize] = Err(Oddity::Repeated);
            }
        }
        match (self.known.get(&id).copied(), now) {
            (None, None) => {
                self.known.insert(id, None);
                return Some(row);
            }
            (None, Some(_)) => {
                self.known.insert(id, Some(u32::try_from(self.held.len()).expect("fewer rows than 4 billion")));
                self.held.push_back(row);
                return None;
            }
            (Some(Some(place)), _) => {
                let held = &mut self.held[place as usize];
                if now >= progress(held) {
                    *held = row;
                }
            }
            (Some(None), _) => {}
        }
        Some(Err(Oddity::Repeated))
    }

    /// The next row that was held back, at the end of the file.
    pub(super) fn rest(&mut self) -> Option<RowResult> {
        self.held.pop_front()
    }
}
