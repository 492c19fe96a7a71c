//! Collects statistics of a list of tasks in one pass: when tasks arrive, how long they run, how wide they are, and how
//! many of them state each optional field.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use serde::Serialize;

use dryrack_catalog as catalog;
use dryrack_units::{SimDuration, SimTime};

use super::row::{RunBasis, TraceTask};
use super::tally::{Oddity, Tally};

/// The statistics of the tasks seen so far.
#[derive(Clone, Debug, Default)]
pub struct Census {
    submits: Vec<u64>,
    /// Hashes of names. If two names have the same hash by chance, they count as the same name.
    names: Vec<u64>,
    runs: Vec<u64>,
    waits: Vec<u64>,
    /// When tasks start and end, with the thousandths of GPUs that are taken, or given back if negative.
    uses: Vec<(u64, i64)>,
    gpus: BTreeMap<u32, u64>,
    processors: BTreeMap<u32, u64>,
    clusters: BTreeMap<String, u64>,
    applications: BTreeMap<String, u64>,
    models: BTreeMap<String, u64>,
    gpu_time: u128,
    processor_time: u128,
    on_unstated_nodes: u64,
    to_limits: u64,
    said: BTreeMap<&'static str, u64>,
}

/// The statistics of one list. In JSON, times are in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    pub tasks: u64,
    #[serde(flatten)]
    pub tally: Tally,
    #[serde(rename = "first_submit_ns")]
    pub first_submit: Option<SimTime>,
    #[serde(rename = "last_submit_ns")]
    pub last_submit: Option<SimTime>,
    /// The number of instants at which several tasks arrive, and the largest number of tasks that arrive at one
    /// instant.
    pub shared_instants: u64,
    pub most_at_once: u64,
    /// The number of tasks that have the same name as an earlier task.
    pub repeated_names: u64,
    /// The longest time without any submission.
    #[serde(rename = "longest_gap_ns")]
    pub longest_gap: SimDuration,
    pub duration: Lengths,
    /// How long the tasks waited in the log, for those of which it is known.
    pub wait: Lengths,
    /// The largest number of GPUs in use at one instant, in thousandths of a GPU, and the first such instant. Only of
    /// tasks whose start and end are known.
    pub most_gpu_milli_in_use: u64,
    #[serde(rename = "most_in_use_at_ns")]
    pub most_in_use_at: Option<SimTime>,
    /// The number of tasks that were still running and count until their time limits, in the GPUs in use and in the GPU
    /// and processor time.
    pub counted_to_limits: u64,
    /// The number of tasks for each requested number of GPUs, if the list states GPUs.
    pub by_gpus: BTreeMap<u32, u64>,
    pub by_processors: BTreeMap<u32, u64>,
    /// The number of tasks of several GPUs whose nodes the list does not state.
    pub on_unstated_nodes: u64,
    /// The number of tasks for each set of accepted GPU models, if the list contains any.
    pub by_models: BTreeMap<String, u64>,
    pub by_virtual_cluster: BTreeMap<String, u64>,
    pub by_application: BTreeMap<String, u64>,
    /// The GPUs of each task, or its parts of GPUs, multiplied by its duration, summed over all tasks. A task that was
    /// still running counts until its time limit.
    pub gpu_seconds: u64,
    pub processor_seconds: u64,
    /// For each optional field, the number of tasks that state it.
    pub said_of: BTreeMap<&'static str, u64>,
}

/// Statistics of durations. The quantile p is the smallest value such that at least a fraction p of the durations is
/// not larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lengths {
    #[serde(rename = "mean_ns")]
    pub mean: SimDuration,
    #[serde(rename = "p50_ns")]
    pub p50: SimDuration,
    #[serde(rename = "p95_ns")]
    pub p95: SimDuration,
    #[serde(rename = "max_ns")]
    pub max: SimDuration,
}

impl Census {
    pub fn add(&mut self, task: &TraceTask) {
        self.submits.push(task.submit.as_nanos());
        self.names.push(FixedState::default().hash_one(&task.name));
        if task.run_basis != RunBasis::NotRecorded {
            self.runs.push(task.run.as_nanos());
        }
        // As in a rehearsal, a task that was still running goes on until its time limit.
        let longest_run = task.longest_run();
        self.to_limits += u64::from(longest_run > task.run);
        let run = u128::from(longest_run.as_nanos());
        self.on_unstated_nodes += u64::from(task.leaves_nodes_open());
        if let Some(gpus) = task.gpus {
            *self.gpus.entry(gpus).or_default() += 1;
            let milli = task.gpu_milli();
            self.gpu_time += u128::from(milli) * run;
            if let Some(wait) =
                task.recorded_wait.filter(|_| matches!(task.run_basis, RunBasis::Executed | RunBasis::SoFar) && run > 0)
            {
                let start = task.submit.as_nanos().saturating_add(wait.as_nanos());
                let taken = i64::try_from(milli).unwrap_or(i64::MAX);
                self.uses.extend([(start, taken), (start.saturating_add(longest_run.as_nanos()), -taken)]);
            }
        }
        if let Some(wait) = task.recorded_wait {
            self.waits.push(wait.as_nanos());
        }
        if let Some(processors) = task.processors {
            *self.processors.entry(processors).or_default() += 1;
            self.processor_time += u128::from(processors) * run;
        }
        if !task.gpu_models.is_empty() {
            *self.models.entry(task.gpu_models.join("|")).or_default() += 1;
        }
        if let Some(application) = &task.application {
            *self.applications.entry(application.clone()).or_default() += 1;
        }
        if let Some(cluster) = &task.virtual_cluster {
            *self.clusters.entry(cluster.clone()).or_default() += 1;
        }
        for (what, is_said) in [
            ("an executed run", task.run_basis == RunBasis::Executed),
            ("how long it ran or stayed", task.run_basis != RunBasis::NotRecorded),
            ("how long it waited", task.recorded_wait.is_some()),
            ("an estimate", task.estimate.is_some()),
            ("nodes", task.nodes.is_some()),
            ("processors", task.processors.is_some()),
            ("GPUs", task.gpus.is_some()),
            ("CPU", task.cpu.is_some()),
            ("RAM", task.ram.is_some()),
            ("how it ended", task.outcome.is_some()),
            ("a user", task.user.is_some()),
            ("a queue", task.queue.is_some()),
            ("an application", task.application.is_some()),
            (CLUSTER, task.virtual_cluster.is_some()),
        ] {
            *self.said.entry(what).or_default() += u64::from(is_said);
        }
    }

    /// The statistics of all tasks. `tally` must be the reader's tally at the end of the file.
    pub fn finish(mut self, tally: &Tally) -> Facts {
        self.submits.sort_unstable();
        self.names.sort_unstable();
        let gaps = self.submits.windows(2).map(|pair| pair[1] - pair[0]);
        let at_once: Vec<u64> = self.submits.chunk_by(|a, b| a == b).map(|same| same.len() as u64).collect();
        let time = |at: Option<&u64>| at.map(|at| SimTime::from_nanos(*at));
        let seconds = |sum: u128, of: u128| u64::try_from(sum / of).unwrap_or(u64::MAX);
        let (most_gpu_milli_in_use, most_in_use_at) = most_in_use(&mut self.uses);
        Facts {
            tasks: self.submits.len() as u64,
            tally: tally.clone(),
            first_submit: time(self.submits.first()),
            last_submit: time(self.submits.last()),
            shared_instants: at_once.iter().filter(|count| **count > 1).count() as u64,
            repeated_names: self.names.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64,
            most_at_once: at_once.iter().copied().max().unwrap_or(0),
            longest_gap: SimDuration::from_nanos(gaps.max().unwrap_or(0)),
            duration: lengths(&mut self.runs),
            wait: lengths(&mut self.waits),
            most_gpu_milli_in_use,
            most_in_use_at: most_in_use_at.map(SimTime::from_nanos),
            counted_to_limits: self.to_limits,
            by_gpus: self.gpus,
            by_processors: self.processors,
            on_unstated_nodes: self.on_unstated_nodes,
            by_models: self.models,
            by_virtual_cluster: self.clusters,
            by_application: self.applications,
            gpu_seconds: seconds(self.gpu_time, 1_000_000_000_000),
            processor_seconds: seconds(self.processor_time, 1_000_000_000),
            said_of: self.said,
        }
    }
}

/// The largest sum of what is in use at one instant, and the first such instant. What ends at an instant is given back
/// before other tasks start.
pub(super) fn most_in_use(uses: &mut [(u64, i64)]) -> (u64, Option<u64>) {
    uses.sort_unstable();
    let (mut now, mut most) = (0_i64, (0_i64, None));
    for (at, change) in uses.iter() {
        now += change;
        if now > most.0 {
            most = (now, Some(*at));
        }
    }
    (most.0.unsigned_abs(), most.1)
}

fn lengths(runs: &mut [u64]) -> Lengths {
    runs.sort_unstable();
    let Some(max) = runs.last().copied() else { return Lengths::default() };
    let sum: u128 = runs.iter().map(|run| u128::from(*run)).sum();
    let quantile = |percent: usize| runs[(runs.len() * percent).div_ceil(100).max(1) - 1];
    let [mean, p50, p95, max] = [(sum / runs.len() as u128) as u64, quantile(50), quantile(95), max];
    let [mean, p50, p95, max] = [mean, p50, p95, max].map(SimDuration::from_nanos);
    Lengths { mean, p50, p95, max }
}

impl Lengths {
    /// The statistics in words. The mean is rounded to a second.
    fn text(&self) -> String {
        let Lengths { mean, p50, p95, max } = self;
        let mean = SimDuration::from_secs((mean.as_nanos() + 500_000_000) / 1_000_000_000);
        format!("mean {mean}, half {p50} or less, 95 % {p95} or less, longest {max}")
    }
}

impl Facts {
    /// The statistics as text, one line each. What other lists call a virtual cluster is a partition of Slurm.
    pub fn lines(&self, is_of_slurm: bool) -> Vec<String> {
        let mut lines = vec![format!("{} tasks of {} rows", self.tasks, self.tally.rows())];
        lines.extend(self.tally.lines());
        if let (Some(first), Some(last)) = (self.first_submit, self.last_submit) {
            let (from, to) = match first >= SINCE_1970 {
                true => (dryrack_units::date::text(first), dryrack_units::date::text(last)),
                false => (first.to_string(), last.to_string()),
            };
            lines.push(format!(
                "submitted   from {from} to {to}, {} in all; {} instants with several tasks, at most {} at once; \
                 longest gap {}",
                last.since(first),
                self.shared_instants,
                self.most_at_once,
                self.longest_gap
            ));
        }
        if self.repeated_names > 0 {
            lines.push(format!(
                "names       {} repeat an earlier name; a run adds a number to them",
                self.repeated_names
            ));
        }
        match self.said_of.get("how long it ran or stayed") {
            Some(0) | None => lines.push("duration    unknown for all tasks".to_string()),
            Some(_) => lines.push(format!("duration    {}", self.duration.text())),
        }
        lines.extend(self.waited());
        if let Some(at) = self.most_in_use_at {
            let at = if at >= SINCE_1970 { dryrack_units::date::text(at) } else { at.to_string() };
            let gpus = self.most_gpu_milli_in_use as f64 / 1000.0;
            lines.push(format!("in use      at most {gpus} GPUs at once, first at {at}"));
        }
        if self.counted_to_limits > 0 {
            lines.push(format!(
                "running     {} of those that still ran count until their time limits, as in a rehearsal: in the GPUs in \
                 use, and in the GPU time",
                self.counted_to_limits
            ));
        }
        let counted = |title: &str, counts: Vec<(String, u64)>| {
            let parts: Vec<String> = counts.iter().map(|(what, count)| format!("{what}: {count}")).collect();
            (!parts.is_empty()).then(|| format!("{title:<11} {}", parts.join(", ")))
        };
        let words = |map: &BTreeMap<String, u64>| map.iter().map(|(key, count)| (key.clone(), *count)).collect();
        lines.extend(counted("GPUs", in_ranges(&self.by_gpus)));
        if self.on_unstated_nodes > 0 {
            lines.push(format!(
                "nodes       not stated for {} of several GPUs: in a scenario, each takes as few nodes as can hold its \
                 GPUs (`gpu_nodes` of `trace:`)",
                dryrack_units::counted(usize::try_from(self.on_unstated_nodes).unwrap_or(usize::MAX), "task")
            ));
        }
        lines.extend(counted("GPU models", words(&self.by_models)));
        lines.extend(self.mig_line());
        lines.extend(counted("processors", in_ranges(&self.by_processors)));
        lines.extend(counted(if is_of_slurm { "partitions" } else { "clusters" }, words(&self.by_virtual_cluster)));
        let several = self.by_application.len() <= MOST_APPLICATIONS;
        lines.extend(several.then(|| counted("runs", words(&self.by_application))).flatten());
        for (what, seconds) in [("GPU", self.gpu_seconds), ("processor", self.processor_seconds)] {
            if seconds > 0 {
                lines.push(format!("{what} time {}.{:02} hours", seconds / 3600, seconds % 3600 / 36));
            }
        }
        let said = self.said_of.iter().filter(|(_, count)| **count > 0);
        let called = |what: &'static str| if is_of_slurm && what == CLUSTER { "a partition" } else { what };
        let said: Vec<String> =
            said.map(|(what, count)| format!("{} {}", called(what), percent(*count, self.tasks))).collect();
        lines.push(format!("stated      {}", said.join(", ")));
        lines
    }

    /// How long the tasks waited in the log, if it states that of any.
    fn waited(&self) -> Option<String> {
        let known = self.said_of.get("how long it waited").copied().filter(|known| *known > 0)?;
        let of = if known == self.tasks { String::new() } else { format!(" ({known} tasks)") };
        let since = match self.tally.count(Oddity::EligibleUnknown) {
            0 => "",
            unknown if unknown >= known => ", all since their submission",
            _ => ", some since their submission",
        };
        Some(format!("waited      {}{of}{since}", self.wait.text()))
    }
}

impl Facts {
    /// A line if tasks ask for MIG instances by name. The list counts each as a GPU.
    fn mig_line(&self) -> Option<String> {
        let names: Vec<&str> = self
            .by_models
            .keys()
            .flat_map(|models| models.split('|'))
            .filter(|name| catalog::mig_part(name).is_some())
            .collect();
        let first = names.first()?;
        let memory = catalog::mig_part(first)?.split_once("g.")?.1.trim_end_matches("gb");
        Some(format!(
            "MIG         {} {} of GPUs, which count as whole GPUs here; a scenario needs nodes that have them as GPUs, such as \
             `gpus: [{{type: {first}, memory: {memory}GiB, count: 7}}]`",
            names.join(", "),
            if names.len() == 1 { "is a part" } else { "are parts" }
        ))
    }
}

/// The name of a field that Slurm calls otherwise.
const CLUSTER: &str = "a virtual cluster";

/// If the first submission is later than this, the list's times are assumed to count from 1970, because no log covers
/// 27 years.
pub const SINCE_1970: SimTime = SimTime::from_secs(27 * 365 * 86_400);

/// The largest number of applications in the text. The JSON lists all of them.
const MOST_APPLICATIONS: usize = 32;

/// If there are more different numbers than this, they are counted in ranges, each twice as wide as the previous one.
const MOST_NUMBERS: usize = 16;

fn in_ranges(counts: &BTreeMap<u32, u64>) -> Vec<(String, u64)> {
    if counts.len() <= MOST_NUMBERS {
        return counts.iter().map(|(number, count)| (number.to_string(), *count)).collect();
    }
    let mut ranges: BTreeMap<u32, u64> = BTreeMap::new();
    for (number, count) in counts {
        *ranges.entry(u32::BITS - number.saturating_sub(1).leading_zeros()).or_default() += count;
    }
    // The range of a number is the bit length of the number minus one: 1, 2, 3 to 4, 5 to 8, and so on.
    let text = |bits: u32| match (bits, 1_u64 << bits) {
        (0, _) => "up to 1".to_string(),
        (1, last) => last.to_string(),
        (_, last) => format!("{}-{last}", last / 2 + 1),
    };
    ranges.into_iter().map(|(bits, count)| (text(bits), count)).collect()
}

/// A percentage rounded down to tenths, so that 100 % is shown only if nothing is missing.
fn percent(part: u64, whole: u64) -> String {
    let permille = part * 1000 / whole.max(1);
    format!("{}.{} %", permille / 10, permille % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::GpuShare;

    #[test]
    fn many_numbers_are_counted_in_ranges() {
        let counts: BTreeMap<u32, u64> = (0..=20).map(|number| (number, 1)).collect();
        let described: Vec<String> =
            in_ranges(&counts).iter().map(|(range, count)| format!("{range}: {count}")).collect();
        assert_eq!(described, ["up to 1: 2", "2: 1", "3-4: 2", "5-8: 4", "9-16: 8", "17-32: 4"]);
    }

    /// Computed by hand: submissions at 0, 10, 10 and 40 s; run times of 1, 2, 3 and 10 s on 2 GPUs each.
    #[test]
    fn a_list_is_counted_as_on_paper() {
        let mut census = Census::default();
        for (at, run) in [(10, 2), (0, 1), (40, 10), (10, 3)] {
            let task = TraceTask::new("a".into(), 1, SimTime::from_secs(at), SimDuration::from_secs(run));
            census.add(&TraceTask { gpus: Some(2), ..task });
        }
        let facts = census.finish(&Tally::default());
        let instants = (facts.shared_instants, facts.most_at_once, facts.longest_gap);
        assert_eq!(instants, (1, 2, SimDuration::from_secs(30)));
        let seconds = [4, 2, 10, 10].map(SimDuration::from_secs);
        let Lengths { mean, p50, p95, max } = facts.duration;
        assert_eq!([mean, p50, p95, max], seconds);
        assert_eq!((facts.gpu_seconds, facts.by_gpus.get(&2)), (32, Some(&4)));
        assert_eq!((facts.said_of["GPUs"], facts.said_of["RAM"]), (4, 0));
        assert_eq!((facts.most_gpu_milli_in_use, facts.most_in_use_at), (0, None), "no start is known");
    }

    /// Computed by hand: A takes 2 GPUs from 10 to 20 s, B half a GPU from 15 to 25 s, and C 4 GPUs from 20 to 21 s, when
    /// those of A are free again.
    #[test]
    fn gpus_in_use_and_waits_are_those_of_the_log() {
        let mut census = Census::default();
        for (submit, wait, run, gpus, share) in [(10, 0, 10, 2, 1000), (5, 10, 10, 1, 500), (0, 20, 1, 4, 1000)] {
            let [wait, run] = [wait, run].map(SimDuration::from_secs);
            let task = TraceTask::new("a".into(), 1, SimTime::from_secs(submit), run);
            let gpu_share = Some(GpuShare::new(share));
            census.add(&TraceTask { gpus: Some(gpus), gpu_share, recorded_wait: Some(wait), ..task });
        }
        let facts = census.finish(&Tally::default());
        assert_eq!((facts.most_gpu_milli_in_use, facts.most_in_use_at), (4500, Some(SimTime::from_secs(20))));
        assert_eq!([facts.wait.mean, facts.wait.p50, facts.wait.max], [10, 10, 20].map(SimDuration::from_secs));
    }
}
