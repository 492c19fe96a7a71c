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
    held: VecDeque<Counted>,
}

/// A row, and the number of tasks that it states: one row states all tasks of a job array that wait.
pub(super) type Counted = (RowResult, u32);

/// The number of tasks that the number of a job states, such as ten of `51407_[7-16]` and four of `7_[1,3-7:2%2]`. The end of a
/// long list, which Slurm leaves out, is not counted.
fn tasks_of(job: &str) -> u32 {
    let Some((_, tasks)) = job.split_once("_[") else { return 1 };
    let tasks = tasks.trim_end_matches(']').split('%').next().unwrap_or("");
    let of_range = |range: &str| -> Option<u32> {
        let (range, step) = range.split_once(':').unwrap_or((range, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last, step) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?, step.parse::<u32>().ok()?);
        last.checked_sub(first)?.checked_div(step)?.checked_add(1)
    };
    tasks.split(',').filter_map(of_range).fold(0, u32::saturating_add).max(1)
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
    pub(super) fn next(&mut self, job: [&str; 3], [start, end]: [&str; 2], row: RowResult) -> Option<Counted> {
        let tasks = tasks_of(job[1]);
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
                self.held[place as usize] = (Err(Oddity::Repeated), 1);
            }
        }
        match (self.known.get(&id).copied(), now) {
            (None, None) => {
                self.known.insert(id, None);
                return Some((row, tasks));
            }
            (None, Some(_)) => {
                self.known.insert(id, Some(u32::try_from(self.held.len()).expect("fewer rows than 4 billion")));
                self.held.push_back((row, tasks));
                return None;
            }
            (Some(Some(place)), _) => {
                let held = &mut self.held[place as usize];
                if now >= progress(&held.0) {
                    *held = (row, tasks);
                }
            }
            (Some(None), _) => {}
        }
        Some((Err(Oddity::Repeated), 1))
    }

    /// The next row that was held back, at the end of the file.
    pub(super) fn rest(&mut self) -> Option<Counted> {
        self.held.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::tasks_of;

    /// The forms are those of `squeue` and `sacct`: `man sbatch`, `--array`.
    #[test]
    fn a_row_of_an_array_states_its_waiting_tasks() {
        let rows = [
            ("51407_[7-16]", 10),
            ("7_[1,3-5%2]", 4),
            ("7_[0-15:4]", 4),
            ("7_[3]", 1),
            ("7_3", 1),
            ("7", 1),
            ("7+1", 1),
            ("7_[1-4,9,...]", 5),
            ("7_[]", 1),
            ("7_[5-1]", 1),
            ("7_[1-9:0]", 1),
            ("7_[0-4294967295]", 1),
        ];
        for (job, tasks) in rows {
            assert_eq!(tasks_of(job), tasks, "{job}");
        }
    }
}
