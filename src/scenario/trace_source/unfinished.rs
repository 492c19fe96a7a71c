//! Jobs whose length a trace does not know, because they had not ended when it was written, and other rows that the user
//! should know of before believing a result.
//!
//! A job that was still running ran at least as long as it is recorded. Slurm ends it at its time limit at the latest, so
//! its length lies between the two. The limit is taken by default: a fleet that is enough for it is enough for the truth.

use super::settings::TraceSettings;
use crate::world::World;
use dryrack_trace::{Oddity, RunBasis, Tally, TraceTask};
use dryrack_units::{SimDuration, counted};
use dryrack_yaml::Report;

/// The length of a job that was still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Running {
    /// Its time limit, or the time so far if it has none or is beyond it.
    Limit,
    /// The time so far.
    Elapsed,
}

pub(super) const RUNNING: [(&str, Running); 2] = [("limit", Running::Limit), ("elapsed", Running::Elapsed)];

impl Running {
    /// The length to replay.
    fn of(self, task: &TraceTask) -> SimDuration {
        match self {
            Running::Limit => task.longest_run(),
            Running::Elapsed => task.run,
        }
    }
}

/// Counts the chosen tasks that were still running.
#[derive(Default)]
pub(super) struct Unfinished {
    jobs: usize,
    limited: usize,
    /// The GPU hours so far, and those that are replayed.
    hours: [f64; 2],
}

impl Unfinished {
    /// Gives a chosen task the length to replay, and counts it.
    pub fn settle(&mut self, task: &mut TraceTask, running: Running) {
        if task.run_basis != RunBasis::SoFar {
            return;
        }
        let taken = running.of(task);
        self.jobs += 1;
        self.limited += usize::from(taken > task.run);
        for (sum, length) in self.hours.iter_mut().zip([task.run, taken]) {
            *sum += task.gpu_milli() as f64 / 1000.0 * length.as_secs_f64() / 3600.0;
        }
        task.run = taken;
    }

    /// Warns of these tasks, and of rows of the whole list that a result should not be believed without.
    pub fn note(&self, tally: &Tally, asked: &TraceSettings<'_>, world: &mut World, report: &mut Report) {
        let called = asked.called();
        let count = |oddity| usize::try_from(tally.count(oddity)).unwrap_or(usize::MAX);
        let pending = counted(usize::try_from(tally.tasks(Oddity::StillPending)).unwrap_or(usize::MAX), "pending job");
        if self.jobs > 0 {
            let taken = match self.jobs - self.limited {
                0 => "the time limit is taken".to_string(),
                rest if rest == self.jobs => "the time so far is taken, and the truth is longer".to_string(),
                rest => format!("the time limit is taken, and for {rest} without a longer limit the time so far"),
            };
            let hours = match self.hours {
                [0.0, 0.0] => String::new(),
                [so_far, replayed] => format!(" ({so_far:.0} GPU hours so far, {replayed:.0} as replayed)"),
            };
            let left_out = match count(Oddity::StillPending) {
                0 => String::new(),
                _ => format!("; {pending} left out"),
            };
            let message = format!(
                "the trace {called} was written while {} still ran, for a time that is not known: \
                 {taken}{hours}{left_out}",
                counted(self.jobs, "job")
            );
            let help = match asked.running {
                Running::Limit if self.limited == 0 => "write the list again when they have ended",
                Running::Limit => "compare with `running: elapsed` in `trace:`, which takes the time so far",
                Running::Elapsed => "leave `running: elapsed` out: the time limit is then taken, where one is stated",
            };
            world.assumed.insert(message.clone());
            report.warning(asked.span, message, help);
        } else if count(Oddity::StillPending) > 0 {
            let message =
                format!("the trace {called} was written with {pending}, left out because no run time is known");
            let help = "the load at the end of the list was larger; write the list again when they have ended";
            report.warning(asked.span, message, help);
        }
        let rows: [(Oddity, &str, &str, &str); 5] = [
            (
                Oddity::Repeated,
                "row",
                "of jobs that other rows state too; each job counts once",
                "nothing is lost: the file has lists that overlap",
            ),
            (
                Oddity::NoEnd,
                "job",
                "without an end or the time that they ran so far, which are left out",
                "a list of sacct needs the columns State and Elapsed (`sacct --format`)",
            ),
            (
                Oddity::SeveralModels,
                "job",
                "with GPUs of several models; each GPU may be of any of them",
                "a rehearsal cannot keep them apart; give such jobs models of their own if this matters",
            ),
            (
                Oddity::ComponentOfJob,
                "component",
                "of heterogeneous jobs; each is rehearsed as a job of its own, although Slurm starts all at once",
                "if this matters, write these jobs in `jobs:`, with a list `tasks:` of unequal tasks each",
            ),
            (
                Oddity::PartsOfGpus,
                "job",
                "with shards or MPS of GPUs (gres/shard, gres/mps), which are rehearsed without a GPU: the log does not \
                 say how many are one GPU",
                "write the list with `dryrack trace convert --to csv`, and give these jobs `gpus` and, as thousandths of \
                 each, `gpu_milli`",
            ),
        ];
        for (oddity, noun, what, help) in rows.into_iter().filter(|(oddity, ..)| count(*oddity) > 0) {
            let rows = counted(count(oddity), noun);
            report.warning(asked.span, format!("the trace {called} has {rows} {what}"), help);
        }
    }
}
