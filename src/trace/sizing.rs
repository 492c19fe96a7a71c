//! The size of the cluster that a list of tasks ran on, as far as the list shows it.

use dryrack_units::{SimDuration, SimTime};

use super::census::most_in_use;
use super::outliers::Outliers;
use super::row::{RunBasis, TraceTask};

/// What was in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    Gpus,
    Cores,
}

/// How much of it was in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub of: InUse,
    /// The most at once, rounded up.
    pub most: u64,
    /// The unit seconds of all tasks.
    pub seconds: u64,
    /// Whether the list states when tasks started. If not, each is taken to have started when it was submitted.
    pub has_starts: bool,
}

#[derive(Clone, Copy, Debug)]
struct Brief {
    submit: SimTime,
    wait: Option<SimDuration>,
    /// Zero if it is not recorded.
    run: SimDuration,
    /// The longest run that the record allows.
    longest_run: SimDuration,
    /// In thousandths.
    gpus: u64,
    cores: u64,
}

/// What the tasks seen so far used, and when.
#[derive(Debug, Default)]
pub struct Sizing(Vec<Brief>);

impl Sizing {
    pub fn add(&mut self, task: &TraceTask) {
        let cores = task.cpu.map_or(0, |cpu| cpu.get());
        self.0.push(Brief {
            submit: task.submit,
            wait: task.recorded_wait.filter(|_| task.run_basis != RunBasis::WholeStay),
            run: task.run,
            longest_run: task.longest_run(),
            gpus: task.gpu_milli(),
            cores: task.processors.map_or(cores, |processors| u64::from(processors) * 1000),
        });
    }

    /// Leaves out tasks that were submitted long before or after all others, and returns what they were.
    pub fn without_outliers(&mut self) -> Option<Outliers> {
        self.0.sort_by_key(|task| task.submit);
        let submits: Vec<SimTime> = self.0.iter().map(|task| task.submit).collect();
        let outliers = Outliers::among(&submits)?;
        self.0.retain(|task| (outliers.first..=outliers.last).contains(&task.submit));
        Some(outliers)
    }

    /// The time from the first submission to the last.
    pub fn length(&self) -> SimDuration {
        let submits = self.0.iter().map(|task| task.submit);
        submits.clone().min().zip(submits.max()).map_or(SimDuration::ZERO, |(first, last)| last.since(first))
    }

    /// The GPUs in use, or the cores if no task had GPUs. `None` if the list shows neither.
    pub fn size(&self) -> Option<Size> {
        self.size_with(|task| task.run)
    }

    /// The size if each task that was still running goes on until its time limit.
    pub fn size_at_limits(&self) -> Option<Size> {
        self.size_with(|task| task.longest_run)
    }

    fn size_with(&self, run: fn(&Brief) -> SimDuration) -> Option<Size> {
        let has_starts = self.0.iter().any(|task| task.wait.is_some());
        let size = |of: InUse| {
            let amount = |task: &Brief| if of == InUse::Gpus { task.gpus } else { task.cores };
            let (mut uses, mut time) = (Vec::new(), 0);
            for task in self.0.iter().filter(|task| !run(task).is_zero() && amount(task) > 0) {
                time += u128::from(amount(task)) * u128::from(run(task).as_nanos());
                if task.wait.is_some() || !has_starts {
                    let start = task.submit.saturating_add(task.wait.unwrap_or(SimDuration::ZERO));
                    let taken = i64::try_from(amount(task)).unwrap_or(i64::MAX);
                    uses.push((start.as_nanos(), taken));
                    uses.push((start.saturating_add(run(task)).as_nanos(), -taken));
                }
            }
            let most = most_in_use(&mut uses).0.div_ceil(1000);
            let seconds = u64::try_from(time / 1_000_000_000_000).unwrap_or(u64::MAX);
            (most > 0).then_some(Size { of, most, seconds, has_starts })
        };
        size(InUse::Gpus).or_else(|| size(InUse::Cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On paper: 4 cores from 0 to 10 s, and 2 cores from 5 s. With a wait of 10 s, the second begins when the first ends.
    #[test]
    fn cores_count_where_there_are_no_gpus_and_starts_are_submissions_where_none_is_stated() {
        let task = |submit, run, cores| {
            let task = TraceTask::new("a".into(), 1, SimTime::from_secs(submit), SimDuration::from_secs(run));
            TraceTask { processors: Some(cores), ..task }
        };
        let mut sizing = Sizing::default();
        sizing.add(&task(0, 10, 4));
        sizing.add(&task(5, 10, 2));
        assert_eq!(sizing.size(), Some(Size { of: InUse::Cores, most: 6, seconds: 60, has_starts: false }));
        let mut sizing = Sizing::default();
        for (task, wait) in [(task(0, 10, 4), 0), (task(5, 10, 2), 5)] {
            sizing.add(&TraceTask { recorded_wait: Some(SimDuration::from_secs(wait)), ..task });
        }
        assert_eq!(sizing.size(), Some(Size { of: InUse::Cores, most: 4, seconds: 60, has_starts: true }));
        let mut sizing = Sizing::default();
        sizing.add(&TraceTask { gpus: Some(3), ..task(0, 10, 100) });
        assert_eq!(sizing.size().map(|size| (size.of, size.most)), Some((InUse::Gpus, 3)));
        assert_eq!(Sizing::default().size(), None);
    }

    /// On paper: 3 GPUs from 0 to 10 s; 4 GPUs from then on, so far for 5 of at most 60 s; and 2 GPUs from 30 to 40 s.
    #[test]
    fn at_its_limits_a_list_needs_more() {
        let task = |submit, run, gpus| {
            let task = TraceTask::new("a".into(), 1, SimTime::from_secs(submit), SimDuration::from_secs(run));
            TraceTask { gpus: Some(gpus), recorded_wait: Some(SimDuration::ZERO), ..task }
        };
        let limit = Some(SimDuration::from_secs(60));
        let mut sizing = Sizing::default();
        sizing.add(&TraceTask { estimate: limit, ..task(0, 10, 3) });
        sizing.add(&TraceTask { estimate: limit, run_basis: RunBasis::SoFar, ..task(10, 5, 4) });
        sizing.add(&task(30, 10, 2));
        let size = |size: Option<Size>| size.map(|size| (size.most, size.seconds));
        assert_eq!(size(sizing.size()), Some((4, 30 + 20 + 20)));
        assert_eq!(size(sizing.size_at_limits()), Some((6, 30 + 240 + 20)));
    }
}
