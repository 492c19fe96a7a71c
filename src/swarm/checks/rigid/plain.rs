//! Plain implementations of queues over a number of equal GPUs, written from the definitions of their rules. They use
//! nothing of the scheduler. Times are whole seconds.

/// A job that needs this many GPUs at once for all of its run.
#[derive(Clone, Debug)]
pub struct Job {
    pub at: u64,
    pub gpus: u64,
    pub run: u64,
    /// At least as long as the run.
    pub estimate: u64,
    pub priority: i64,
    pub user: usize,
}

/// Which jobs may start before the first job that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Strict,
    /// Every job that fits.
    Skipping,
    /// Jobs that do not delay the first one, by the estimates (Lifka, JSSPP 1995).
    Easy,
    /// Jobs that delay none of the jobs ahead of them, by the estimates (Mu'alem and Feitelson, TPDS 2001).
    Conservative,
}

/// The state of a plain queue.
pub struct Queue<'j> {
    pub jobs: &'j [Job],
    pub gpus: u64,
    pub now: u64,
    /// The times at which each job has started.
    pub starts: Vec<Vec<u64>>,
    /// The jobs that run.
    pub running: Vec<usize>,
    pub waiting: Vec<usize>,
    /// The jobs that were stopped at this instant, and whether GPUs were free when the first of them was stopped.
    stopped: Vec<usize>,
    had_room: bool,
    /// Whether the rule left open at some instant which job starts.
    is_open: bool,
}

/// The rank of a waiting job, lowest first. Jobs of equal rank start in the order of submission.
pub type Rank<'r> = &'r dyn Fn(&Queue<'_>, usize) -> f64;

/// The times at which each job starts. All jobs must fit.
pub fn starts(jobs: &[Job], gpus: u64, rule: Rule, rank: Rank<'_>) -> Vec<Vec<u64>> {
    run(jobs, gpus, |queue| queue.start(rule, rank)).starts
}

/// The same if a job may take the GPUs of jobs of lower priority, which then wait again and begin anew. `None` if the rule
/// leaves open what happens: if jobs are stopped for several others at one instant, a GPU that was free before may be left
/// over. A stopped job may get it, or one behind it, because the stopped job waits again only once it has stopped.
pub fn starts_with_preemption(jobs: &[Job], gpus: u64, rank: Rank<'_>) -> Option<Vec<Vec<u64>>> {
    let queue = run(jobs, gpus, |queue| while queue.start_by_preemption(rank) {});
    (!queue.is_open).then_some(queue.starts)
}

/// Runs all jobs. `start` starts jobs at each instant at which one arrives or ends.
fn run<'j>(jobs: &'j [Job], gpus: u64, start: impl Fn(&mut Queue<'_>)) -> Queue<'j> {
    let (starts, running, waiting, stopped) = (vec![Vec::new(); jobs.len()], Vec::new(), Vec::new(), Vec::new());
    let mut queue = Queue { jobs, gpus, now: 0, starts, running, waiting, stopped, had_room: false, is_open: false };
    let mut arrived = 0;
    loop {
        let arrival = jobs.get(arrived).map(|job| job.at);
        let end = queue.running.iter().map(|job| queue.end_of(*job)).min();
        let Some(now) = [arrival, end].into_iter().flatten().min() else { return queue };
        queue.now = now;
        queue.stopped.clear();
        queue.running = queue.running.iter().copied().filter(|job| queue.end_of(*job) > now).collect();
        while jobs.get(arrived).is_some_and(|job| job.at == now) {
            queue.waiting.push(arrived);
            arrived += 1;
        }
        start(&mut queue);
    }
}

impl Queue<'_> {
    fn end_of(&self, job: usize) -> u64 {
        self.starts[job].last().expect("it runs") + self.jobs[job].run
    }

    fn free(&self) -> u64 {
        self.gpus - self.running.iter().map(|job| self.jobs[*job].gpus).sum::<u64>()
    }

    fn in_order(&self, rank: Rank<'_>) -> Vec<usize> {
        let mut order = self.waiting.clone();
        order.sort_by(|one, other| rank(self, *one).total_cmp(&rank(self, *other)).then(one.cmp(other)));
        order
    }

    fn begin(&mut self, job: usize) {
        self.starts[job].push(self.now);
        self.running.push(job);
        self.waiting.retain(|waiting| *waiting != job);
    }

    fn start(&mut self, rule: Rule, rank: Rank<'_>) {
        let order = self.in_order(rank);
        if rule == Rule::Conservative {
            return self.start_reserved(&order);
        }
        let mut order = order.into_iter();
        let first_unfit = order.find(|job| {
            let fits = self.jobs[*job].gpus <= self.free();
            if fits {
                self.begin(*job);
            }
            !fits
        });
        let Some(first) = first_unfit else { return };
        let (shadow, mut beside) = self.reservation_of(first);
        for job in order {
            let Job { gpus, estimate, .. } = self.jobs[job];
            let is_over_by_then = self.now + estimate <= shadow;
            let may_start = match rule {
                Rule::Strict | Rule::Conservative => false,
                Rule::Skipping => true,
                Rule::Easy => is_over_by_then || gpus <= beside,
            };
            if may_start && gpus <= self.free() {
                self.begin(job);
                if rule == Rule::Easy && !is_over_by_then {
                    beside -= gpus;
                }
            }
        }
    }

    /// When the job would start if every run ended at its estimate, and how many GPUs are then free beside it.
    fn reservation_of(&self, job: usize) -> (u64, u64) {
        let mut ends: Vec<(u64, u64)> = self.running.iter().map(|job| self.estimated_end(*job)).collect();
        ends.sort_unstable();
        let mut free = self.free();
        let mut place = 0;
        while free < self.jobs[job].gpus {
            let at = ends[place].0;
            while ends.get(place).is_some_and(|(end, _)| *end == at) {
                free += ends[place].1;
                place += 1;
            }
            if free >= self.jobs[job].gpus {
                return (at, free - self.jobs[job].gpus);
            }
        }
        (self.now, free - self.jobs[job].gpus)
    }

    /// The estimated end of a running job, and its GPUs.
    fn estimated_end(&self, job: usize) -> (u64, u64) {
        (self.starts[job].last().expect("it runs") + self.jobs[job].estimate, self.jobs[job].gpus)
    }

    /// Gives each job, in order, the earliest time at which it fits beside all that is reserved. Starts those whose
    /// time is now.
    fn start_reserved(&mut self, order: &[usize]) {
        let mut reserved: Vec<(u64, u64, u64)> =
            self.running.iter().map(|job| self.estimated_end(*job)).map(|(end, gpus)| (self.now, end, gpus)).collect();
        for job in order {
            let Job { gpus, estimate, .. } = self.jobs[*job];
            let mut times: Vec<u64> = reserved.iter().map(|(_, end, _)| *end).chain([self.now]).collect();
            times.sort_unstable();
            let taken_at =
                |at: u64| reserved.iter().filter(|(from, to, _)| *from <= at && at < *to).map(|(.., gpus)| gpus).sum();
            let fits = |from: &u64| {
                let within = reserved.iter().map(|(begin, ..)| *begin).filter(|at| from < at && *at < from + estimate);
                within.chain([*from]).all(|at| {
                    let taken: u64 = taken_at(at);
                    taken + gpus <= self.gpus
                })
            };
            let from = times.into_iter().find(fits).expect("it fits once all others are over");
            reserved.push((from, from + estimate, gpus));
            if from == self.now {
                self.begin(*job);
            }
        }
    }

    /// One pass in which each job that does not fit may stop jobs of lower priority: the lowest first, then the last to
    /// start. Those that are not needed after all are spared, the last chosen first. The pass ends once jobs were stopped,
    /// because these now wait in the order too, and may be ahead of others. Returns whether any was stopped.
    fn start_by_preemption(&mut self, rank: Rank<'_>) -> bool {
        for job in self.in_order(rank) {
            let needed = self.jobs[job].gpus;
            let mut victims: Vec<usize> = self
                .running
                .iter()
                .copied()
                .filter(|other| self.jobs[*other].priority < self.jobs[job].priority)
                .collect();
            let key =
                |job: &usize| (self.jobs[*job].priority, std::cmp::Reverse((self.starts[*job].last().copied(), *job)));
            victims.sort_by_key(key);
            let room = |stopped: &[usize]| self.free() + stopped.iter().map(|job| self.jobs[*job].gpus).sum::<u64>();
            let Some(count) = (0..=victims.len()).find(|count| room(&victims[..*count]) >= needed) else { continue };
            victims.truncate(count);
            for place in (0..victims.len()).rev() {
                let mut fewer = victims.clone();
                fewer.remove(place);
                if room(&fewer) >= needed {
                    victims = fewer;
                }
            }
            self.had_room = if self.stopped.is_empty() { self.free() > 0 } else { self.had_room };
            self.running.retain(|running| !victims.contains(running));
            self.waiting.extend(&victims);
            self.begin(job);
            if !victims.is_empty() {
                self.stopped.extend(&victims);
                let fits = |job: &usize| self.waiting.contains(job) && self.jobs[*job].gpus <= self.free();
                self.is_open |= self.had_room && self.stopped.iter().any(fits);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(at: u64, gpus: u64, run: u64) -> Job {
        Job { at, gpus, run, estimate: run, priority: 0, user: 0 }
    }

    /// Four GPUs. The second job waits for the first; of those behind it, one is over in time, one fits beside it.
    #[test]
    fn each_rule_starts_jobs_as_its_paper_says() {
        let jobs = [job(0, 3, 100), job(10, 3, 100), job(20, 1, 80), job(30, 1, 500), job(40, 1, 100)];
        let of = |rule| starts(&jobs, 4, rule, &|_, _| 0.0).concat();
        assert_eq!(of(Rule::Strict), [0, 100, 100, 180, 200]);
        assert_eq!(of(Rule::Skipping), [0, 100, 20, 100, 200]);
        // The third is over at 100. The fourth fits beside the second, for which three of four GPUs are reserved.
        assert_eq!(of(Rule::Easy), [0, 100, 20, 100, 200]);
        assert_eq!(of(Rule::Conservative), [0, 100, 20, 100, 200]);
    }

    #[test]
    fn easy_delays_the_second_in_line_and_conservative_does_not() {
        // Two GPUs. The first takes one. The second needs both, and so does the third. The fourth is as long as the wait.
        let jobs = [job(0, 1, 10), job(1, 2, 10), job(2, 2, 10), job(3, 1, 7), job(3, 1, 8)];
        let of = |rule| starts(&jobs, 2, rule, &|_, _| 0.0).concat();
        assert_eq!(of(Rule::Easy), [0, 10, 20, 3, 30]);
        assert_eq!(of(Rule::Conservative), [0, 10, 20, 3, 30]);
    }

    #[test]
    fn a_job_takes_the_gpus_of_the_last_job_of_the_lowest_priority_and_no_more_than_it_needs() {
        let of = |at, gpus, priority| Job { priority, ..job(at, gpus, 100) };
        let jobs = [of(0, 1, 0), of(1, 1, 0), of(2, 2, 1), of(3, 2, 2)];
        let found = starts_with_preemption(&jobs, 4, &|queue, job| -queue.jobs[job].priority as f64);
        assert_eq!(found.expect("a rule"), [vec![0, 102], vec![1, 102], vec![2], vec![3]]);
        // One GPU is enough, so only the last is stopped.
        let jobs = [of(0, 1, 0), of(1, 1, 0), of(3, 1, 2)];
        let found = starts_with_preemption(&jobs, 2, &|queue, job| -queue.jobs[job].priority as f64);
        assert_eq!(found.expect("a rule"), [vec![0], vec![1, 100], vec![3]]);
    }

    #[test]
    fn a_stopped_job_keeps_its_place_in_the_order() {
        let of = |at, gpus, priority| Job { priority, ..job(at, gpus, 100) };
        // Three GPUs. The fourth job stops the second, and the fifth stops the first. The GPU that is left over goes to the
        // second, which is ahead of the third.
        let jobs = [of(0, 2, 1), of(1, 1, 1), of(2, 1, 1), of(3, 1, 2), of(3, 1, 2)];
        let found = starts_with_preemption(&jobs, 3, &|queue, job| -queue.jobs[job].priority as f64);
        assert_eq!(found.expect("a rule"), [vec![0, 103], vec![1, 3], vec![103], vec![3], vec![3]]);
    }

    /// Four GPUs, one of which is free at 2 s. The third job stops the second, and the fourth stops the first. One GPU is
    /// left over, which the second could have.
    #[test]
    fn who_gets_a_free_gpu_is_open_if_jobs_are_stopped_for_several() {
        let of = |at, gpus, priority| Job { priority, ..job(at, gpus, 100) };
        let jobs = [of(0, 2, 1), of(1, 1, 0), of(2, 2, 2), of(2, 1, 2)];
        let found = starts_with_preemption(&jobs, 4, &|queue, job| -queue.jobs[job].priority as f64);
        assert_eq!(found, None);
    }
}
