//! Applies a policy to a recording: when the policy would have fired, and what the GPUs did after that.

use super::{Sample, UtilizationMonitor};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Coverage, SampleFault, UsageRow, UtilizationPolicy};

/// GPU time: one hour on two GPUs counts as two hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuTime {
    pub idle: SimDuration,
    pub busy: SimDuration,
    /// Time without a reading.
    pub unknown: SimDuration,
}

/// The effect that a policy would have had on one recorded job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgedJob {
    /// GPU time of the whole recording.
    pub all: GpuTime,
    /// When the policy first fires, and the readings that cover the window at that time.
    pub fired: Option<(SimTime, Coverage)>,
    /// GPU time after the policy fired. If the job had been ended, the idle part would have been saved, and the busy
    /// part would have been lost work.
    pub after: GpuTime,
    /// How long after firing a GPU that had been idle was busy again. Such a job was only waiting, for example for
    /// data, so ending it would have been wrong.
    pub busy_again_after: Option<SimDuration>,
    /// The number of samples with each fault, in the order of [`SampleFault::ALL`].
    pub odd: [u64; SampleFault::ALL.len()],
}

impl JudgedJob {
    /// Whether the policy would have ended a job that continued to work.
    pub fn is_false_end(&self) -> bool {
        self.busy_again_after.is_some()
    }
}

/// Gives the rows of a recording to a monitor, in the order of the recording. A row arrives at its own time. If an
/// earlier row has a later time, it arrives at that time. The run starts with the first row. A reading counts until the
/// next row, and the last reading counts for one interval.
pub fn judge_recording(policy: UtilizationPolicy, rows: &[UsageRow]) -> JudgedJob {
    let mut judged = JudgedJob::default();
    let Some(first) = rows.first() else { return judged };
    let since_start = |row: &UsageRow| SimTime::ZERO.saturating_add(row.at);
    let mut monitor = UtilizationMonitor::bind(policy, first.utilization.len() as u16, since_start(first));
    let mut now = since_start(first);
    for row in rows {
        let at = since_start(row);
        if judged.fired.is_none() {
            judged.fired = monitor.next(now).filter(|fires| *fires < at).and_then(|fires| fire(&mut monitor, fires));
        }
        now = now.max(at);
        let memory_entries = if row.memory.is_empty() { row.utilization.len() } else { row.memory.len() };
        let odd = monitor.observe(now, &Sample { at, utilization: &row.utilization, memory_entries });
        if let Some(fault) = odd {
            judged.odd[fault as usize] += 1;
        }
        if judged.fired.is_none() {
            judged.fired = fire(&mut monitor, now);
        }
    }
    let end = now.saturating_add(policy.interval);
    if judged.fired.is_none() {
        judged.fired = monitor.next(now).filter(|fires| *fires <= end).and_then(|fires| fire(&mut monitor, fires));
    }
    account(&mut judged, &policy, rows, end);
    judged
}

fn fire(monitor: &mut UtilizationMonitor, at: SimTime) -> Option<(SimTime, Coverage)> {
    monitor.fire(at).map(|coverage| (at, coverage))
}

/// Adds up the time of the GPUs, in total and after the policy fired.
fn account(judged: &mut JudgedJob, policy: &UtilizationPolicy, rows: &[UsageRow], end: SimTime) {
    let mut in_order: Vec<&UsageRow> = rows.iter().collect();
    in_order.sort_by_key(|row| row.at);
    in_order.dedup_by_key(|row| row.at);
    let fired = judged.fired.as_ref().map(|(at, coverage)| (*at, coverage.gpus.clone()));
    for (index, row) in in_order.iter().enumerate() {
        let from = SimTime::ZERO.saturating_add(row.at);
        let to = in_order.get(index + 1).map_or(end, |next| SimTime::ZERO.saturating_add(next.at)).max(from);
        // Nothing is known about a gap in a recording.
        let known = to.since(from).as_nanos().min(policy.longest_gap.max(policy.interval).as_nanos());
        let known_to = from.saturating_add(SimDuration::from_nanos(known));
        for (gpu, reading) in row.utilization.iter().enumerate() {
            let is_idle = reading.map(|reading| super::idle::is_idle(policy, reading));
            judged.all.add(is_idle, known_to.since(from), to.since(known_to));
            let Some((at, idle_gpus)) = &fired else { continue };
            let (left, unknown) = (known_to.max(*at).since(from.max(*at).min(known_to.max(*at))), to.max(*at));
            judged.after.add(is_idle, left, unknown.since(known_to.max(*at)));
            let is_again = is_idle == Some(false) && from >= *at && idle_gpus.contains(&(gpu as u16));
            if is_again && judged.busy_again_after.is_none() {
                judged.busy_again_after = Some(from.since(*at));
            }
        }
    }
}

impl GpuTime {
    fn add(&mut self, is_idle: Option<bool>, known: SimDuration, unknown: SimDuration) {
        let of = match is_idle {
            Some(true) => &mut self.idle,
            Some(false) => &mut self.busy,
            None => &mut self.unknown,
        };
        *of = of.saturating_add(known);
        self.unknown = self.unknown.saturating_add(unknown);
    }

    /// The sum of two GPU times, for several jobs.
    pub fn plus(self, other: GpuTime) -> GpuTime {
        GpuTime {
            idle: self.idle.saturating_add(other.idle),
            busy: self.busy.saturating_add(other.busy),
            unknown: self.unknown.saturating_add(other.unknown),
        }
    }

    pub fn sum(self) -> SimDuration {
        self.idle.saturating_add(self.busy).saturating_add(self.unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::Permille;
    use dryrack_workload::{AtMinimum, Gaps, IdleGpus, PolicyMode, UtilizationRule};

    const fn minutes(minutes: u64) -> SimDuration {
        SimDuration::from_secs(60 * minutes)
    }

    fn policy() -> UtilizationPolicy {
        UtilizationPolicy {
            rule: UtilizationRule::Covered,
            mode: PolicyMode::Enforce,
            min_gpu_utilization: Permille::new(300),
            time_window: minutes(10),
            gpus: IdleGpus::Any,
            at_minimum: AtMinimum::Busy,
            interval: minutes(1),
            longest_gap: minutes(2),
            gaps: Gaps::Void,
            grace: SimDuration::ZERO,
        }
    }

    /// One row per minute: GPU 0 as given, GPU 1 always busy.
    fn rows(levels: &[u32]) -> Vec<UsageRow> {
        let row = |(minute, level): (usize, &u32)| UsageRow {
            at: minutes(minute as u64),
            utilization: vec![Some(Permille::new(*level)), Some(Permille::new(900))],
            memory: Vec::new(),
        };
        levels.iter().enumerate().map(row).collect()
    }

    /// GPU 0 is idle from minute 5 on, so the policy fires at minute 15; 20 rows last 20 minutes. After firing, GPU 0
    /// is idle for five minutes and GPU 1 works for five.
    #[test]
    fn what_it_would_have_saved_and_cost_is_what_arithmetic_on_paper_gives() {
        let levels: Vec<u32> = (0..20).map(|minute| if minute < 5 { 950 } else { 0 }).collect();
        let judged = judge_recording(policy(), &rows(&levels));
        let (at, coverage) = judged.fired.clone().expect("ten minutes are idle");
        assert_eq!((at, coverage.samples), (SimTime::ZERO + minutes(15), 11));
        assert_eq!((coverage.first, coverage.last), (SimTime::ZERO + minutes(5), at));
        let zero = SimDuration::ZERO;
        assert_eq!(judged.all, GpuTime { idle: minutes(15), busy: minutes(25), unknown: zero });
        assert_eq!(judged.after, GpuTime { idle: minutes(5), busy: minutes(5), unknown: zero });
        assert!(!judged.is_false_end());
    }

    #[test]
    fn a_job_that_works_again_would_have_been_ended_falsely() {
        let mut levels = vec![0; 11];
        levels.extend([0, 0, 900, 0, 900]);
        let judged = judge_recording(policy(), &rows(&levels));
        assert_eq!(judged.fired.as_ref().map(|(at, _)| *at), Some(SimTime::ZERO + minutes(10)));
        assert_eq!(judged.busy_again_after, Some(minutes(3)));
        assert!(judged.is_false_end());
        // GPU 0 is idle in minutes 10, 11, 12 and 14, and busy in 13 and 15; GPU 1 is busy in all six.
        assert_eq!((judged.after.idle, judged.after.busy), (minutes(4), minutes(8)));
    }

    #[test]
    fn what_lies_in_a_gap_is_unknown() {
        let mut rows = rows(&[0, 0]);
        rows[1].at = minutes(30);
        let judged = judge_recording(policy(), &rows);
        assert_eq!(judged.fired, None);
        // Two minutes of each GPU before the gap, and a last minute of each.
        assert_eq!(judged.all, GpuTime { idle: minutes(3), busy: minutes(3), unknown: minutes(56) });
    }
}
