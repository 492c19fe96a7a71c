//! Draws lists of tasks that resemble a recorded list.
//!
//! The daily cycle is the share of submissions in each half hour of the day. Gaps are measured in the weight of this
//! cycle, so a gap counts twice in an hour with twice the mean number of submissions. Each new task is a copy of a
//! recorded task, and each new gap is a recorded gap. Tasks and gaps are drawn with replacement and independently of
//! each other (the bootstrap of Efron, *Bootstrap Methods: Another Look at the Jackknife*, Annals of Statistics 7,
//! 1979).
//!
//! So lengths stay with their widths, and widths with their users, and on average each hour keeps its load. The
//! correlation between one submission and the next is lost, and so is the weekly cycle. A list shorter than two days
//! shows no daily cycle, so every hour gets the same weight.

use dryrack_rng::Stream;
use dryrack_units::{SimDuration, SimTime};

use super::daily::{Clock, Daily, HALF_HOUR, HALF_HOURS};
use super::row::TraceTask;

/// The least length of a list. In a shorter list, no daily cycle can be found.
const TWO_DAYS: SimDuration = SimDuration::from_secs(2 * 86_400);

/// A recorded list, prepared for drawing new lists.
#[derive(Clone, Debug)]
pub struct Recorded {
    tasks: Vec<TraceTask>,
    daily: Daily,
    first: SimTime,
    /// Gaps between submissions, in the weight of the daily cycle.
    gaps: Vec<f64>,
}

impl Recorded {
    /// Prepares a list of tasks, which may be in any order. Returns `None` if the list is empty. Times are counted from
    /// the trace's own midnight.
    pub fn new(mut tasks: Vec<TraceTask>) -> Option<Recorded> {
        tasks.sort_by_key(|task| (task.submit, task.line));
        let (first, last) = (tasks.first()?.submit, tasks.last()?.submit);
        let daily = if last.since(first) < TWO_DAYS { Daily::even() } else { fitted(&tasks) };
        let worth: Vec<f64> = tasks.iter().map(|task| daily.worth_until(task.submit)).collect();
        let gaps = worth.windows(2).map(|pair| pair[1] - pair[0]).collect();
        Some(Recorded { tasks, daily, first, gaps })
    }

    /// Draws `count` tasks in order of submission. The first is submitted at the time of the first recorded task. Draws
    /// fewer if the time becomes too large to represent. The name of a task is its number, and its line is its
    /// position.
    pub fn draw(&self, count: u64, seed: u64) -> impl Iterator<Item = TraceTask> {
        let (mut bodies, mut gaps) = (Stream::new(seed, "resampled tasks", 0), Stream::new(seed, "resampled gaps", 0));
        let mut clock = Clock::new(self.daily.clone());
        (1..=count).map_while(move |number| {
            let gap = match number {
                1 => self.daily.worth_until(self.first),
                // A list of one task has no gaps, so all tasks arrive at once.
                _ if self.gaps.is_empty() => 0.0,
                _ => *gaps.pick(&self.gaps),
            };
            let submit = clock.forward(gap)?;
            let submit = if number == 1 { self.first } else { submit };
            let task = bodies.pick(&self.tasks).clone();
            Some(TraceTask { name: number.to_string(), line: number, submit, recorded_wait: None, ..task })
        })
    }
}

fn fitted(tasks: &[TraceTask]) -> Daily {
    let mut parts = [0.0; HALF_HOURS];
    for task in tasks {
        parts[(task.submit.as_nanos() / HALF_HOUR.as_nanos() % HALF_HOURS as u64) as usize] += 1.0;
    }
    Daily::of(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(line: u64, at: u64, run: u64) -> TraceTask {
        let task = TraceTask::new(format!("j{line}"), line, SimTime::from_secs(at), SimDuration::from_secs(run));
        TraceTask { processors: Some(run as u32), ..task }
    }

    #[test]
    fn of_equal_gaps_and_tasks_the_same_list_is_drawn() {
        let recorded = Recorded::new((0..10).map(|number| task(number, 100 + 60 * number, 5)).collect()).unwrap();
        let drawn: Vec<TraceTask> = recorded.draw(10, 3).collect();
        for (number, drawn) in (0..10).zip(&drawn) {
            // A gap is a difference of doubles, which is exact to within a microsecond.
            let expected = SimTime::from_secs(100 + 60 * number).as_nanos();
            assert!(drawn.submit.as_nanos().abs_diff(expected) < 1000, "{:?}", drawn.submit);
            assert_eq!((drawn.run, drawn.processors), (SimDuration::from_secs(5), Some(5)));
        }
        assert!(Recorded::new(Vec::new()).is_none());
    }

    /// A recorded list of three days. All tasks arrive between noon and one o'clock, one every half minute. In the
    /// drawn list, each width must still have its length, and each of the three widths must occur about equally often.
    /// All tasks must arrive between noon and one o'clock, 120 a day.
    #[test]
    fn hours_and_what_belongs_together_are_kept() {
        let at = |day: u64, number: u64| 86_400 * day + 43_200 + 30 * number;
        let list = (0..3)
            .flat_map(|day| (0..120).map(move |number| task(day * 120 + number, at(day, number), 1 + number % 3)));
        let recorded = Recorded::new(list.collect()).unwrap();
        let drawn: Vec<TraceTask> = recorded.draw(12_000, 9).collect();
        assert_eq!(drawn.len(), 12_000);
        let mut of_length = [0u32; 3];
        for task in &drawn {
            let hour = task.submit.as_nanos() / 3_600_000_000_000 % 24;
            assert_eq!(hour, 12, "{:?}", task.submit);
            let run = task.run.as_nanos() / 1_000_000_000;
            assert_eq!(task.processors, Some(run as u32));
            of_length[run as usize - 1] += 1;
        }
        // 4,000 tasks of each width are expected. The standard deviation is the square root of 12,000 * 1/3 * 2/3,
        // which is 52.
        assert!(of_length.iter().all(|count| count.abs_diff(4_000) < 208), "{of_length:?}");
        let days = drawn.last().unwrap().submit.as_secs_f64() / 86_400.0;
        assert!((98.0..=102.0).contains(&days), "{days}");
    }
}
