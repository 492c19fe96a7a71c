//! Compares two runs of a scenario seed by seed. `plan pair` and `what-if` print this comparison.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::explain::brief;
use super::fault::fault_text;
use super::guard::guarded;
use super::output::{Format, WholeFile, print, print_json};
use super::progress::{RunCount, with_runs};
use dryrack_engine::{Records, Rehearsal, RunOptions, explain, run};
use dryrack_ids::JobId;
use dryrack_metrics::{FEWEST_LISTS, Metrics, ResampledFrom, RunAccount, definitions, estimate_difference};
use dryrack_plan::{Difference, Estimate, PairedJob, PairedSeed, difference, estimate, most_changed, pair};
use dryrack_rehearse::{Rehearsed, names, rehearse};
use dryrack_report::table;
use dryrack_scheduler::Caching;
use dryrack_units::{SimDuration, SimTime, counted};

/// Two runs that are compared, with each of several seeds.
pub struct Futures<'a> {
    pub title: &'a str,
    /// A one-word name of each run, for tables. `names` has the full names.
    pub words: [&'a str; 2],
    pub names: [String; 2],
    /// Jobs placed before this time are left out of the comparison.
    pub from: SimTime,
    pub seeds: &'a [u64],
    /// How the lists of the seeds were resampled from one log, if they were.
    pub resampled: Option<ResampledFrom>,
    /// Loads both runs with a given seed.
    pub load: &'a (dyn Fn(u64) -> Result<[Rehearsal; 2], Failure> + Sync),
    /// Whether a difference is told by the exit code.
    pub tells_by_exit: bool,
    /// The command that repeats one of the two runs (0 or 1) with a given seed.
    pub repeat: &'a (dyn Fn(u64, usize) -> String + Sync),
}

/// Both runs with one seed.
struct SeedPair {
    paired: PairedSeed,
    metrics: [Map<String, Value>; 2],
    /// The times at which the runs end.
    ends: [SimTime; 2],
    digests: [String; 2],
    behavior: Vec<Moment>,
}

impl SeedPair {
    /// Whether all metrics of both runs are the same in the figures that are printed.
    fn is_same(&self) -> bool {
        let same = |one: &Value, other: &Value| match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => !differ_in_print([Some(one), Some(other)], other - one),
            _ => one == other,
        };
        let [one, other] = &self.metrics;
        one.len() == other.len()
            && one.iter().all(|(name, metric)| other.get(name).is_some_and(|found| same(metric, found)))
    }
}

/// The state of both runs at one moment: the number of waiting replicas, and the share of allocated GPUs in
/// thousandths.
struct Moment {
    at: SimTime,
    waiting: [u64; 2],
    gpus: [u64; 2],
}

/// The number of jobs that get an explanation.
const EXPLAINED: usize = 5;
/// The number of intervals between the moments at which the states of both runs are shown.
const MOMENTS: u64 = 8;

impl Futures<'_> {
    /// Runs both sides with every seed, then prints and writes the comparison. The results are in the order of the
    /// seeds, even if threads finish in a different order.
    /// The files are put in place together with the `logs` of the runs.
    pub fn compare(&self, out: Option<&Path>, logs: Vec<(WholeFile, io::Result<()>)>, format: Format) -> ExitResult {
        // If several seeds fail, the first in their order is reported, not the first in time.
        let ran: Vec<Result<SeedPair, Failure>> = with_runs(2 * self.seeds.len() as u64, |count| {
            self.seeds.par_iter().map(|seed| self.run(*seed, count)).collect()
        });
        let seeded = ran.into_iter().collect::<Result<Vec<SeedPair>, Failure>>()?;
        let paired: Vec<PairedSeed> = seeded.iter().map(|seed| seed.paired.clone()).collect();
        let found = difference(&paired, self.resampled);
        let changed = most_changed(&paired, EXPLAINED);
        let reasons = self.reasons(&changed)?;
        let metrics = differences(&seeded, self.resampled);
        let whole = self.json(&seeded, &found, &metrics, (&changed, &reasons));
        if let Some(dir) = out {
            let mut json = serde_json::to_string_pretty(&whole).expect("it has a JSON form");
            json.push('\n');
            std::fs::create_dir_all(dir).map_err(|error| Failure::uncreated(dir, &error))?;
            let files = [("pair.json", json.into_bytes()), ("jobs.csv", jobs_csv(&paired, self.words))];
            WholeFile::write_all_with(logs, files.map(|(name, bytes)| (dir.join(name), bytes)))?;
        }
        match format {
            Format::Human => print(&self.human(&seeded, &found, &metrics, (&changed, &reasons)))?,
            Format::Json => print_json(&whole)?,
        }
        let is_same = seeded.iter().all(SeedPair::is_same);
        Ok(if self.tells_by_exit && !is_same { Exit::Failed } else { Exit::Fine })
    }

    fn run(&self, seed: u64, count: &RunCount) -> Result<SeedPair, Failure> {
        let both = (self.load)(seed)?;
        let one = |side: usize| -> Result<(Rehearsed, Metrics), Failure> {
            let progress = count.begin();
            let mut later = RunAccount::of(&both[side]);
            later.warm_up = later.warm_up.max(self.from);
            let work = || rehearse(&both[side], Vec::new(), &progress, Caching::On, vec![&mut later]);
            let run = guarded(work)
                .map_err(|message| Failure::Ours(fault_text(&message, seed, &progress, &(self.repeat)(seed, side))))?;
            later.finish(run.until);
            count.end();
            Ok((run, Metrics::of(&later)))
        };
        let base = one(0)?;
        self.check_begun(seed, &base.0)?;
        let [(base, base_later), (other, other_later)] = [base, one(1)?];
        let (runs, later) = ([base, other], [base_later, other_later]);
        let accounts = [runs[0].run_metrics.accounts(), runs[1].run_metrics.accounts()];
        let metrics = [0, 1].map(|side: usize| {
            let mut metrics = map(runs[side].run_metrics.metrics());
            let later = map(&later[side]);
            let of_later = later.into_iter().filter(|(name, _)| is_of_later(name));
            metrics.extend(of_later);
            metrics
        });
        Ok(SeedPair {
            paired: pair(seed, accounts[0], accounts[1], self.from),
            metrics,
            ends: [runs[0].until, runs[1].until],
            digests: [runs[0].digest.to_string(), runs[1].digest.to_string()],
            behavior: behavior(accounts, self.from),
        })
    }

    /// Refuses a comparison from a time after the end of the first run. The second would last until this time although
    /// nothing happens in between, and each figure of a whole run would differ.
    fn check_begun(&self, seed: u64, base: &Rehearsed) -> Result<(), Failure> {
        if self.from <= base.until {
            return Ok(());
        }
        let with = if self.seeds.len() > 1 { format!("with seed {seed}, ") } else { String::new() };
        let left = match base.run_metrics.accounts().is_anything_left() {
            true => "; jobs are left then, and with a later `--until` they still wait or run until it",
            false => "",
        };
        let (end, from) = (base.until, self.from);
        Err(Failure::Input(format!("error: {with}the run ends at {end}, so nothing can change from {from} on{left}\n")))
    }

    /// For each of these jobs, explains why it waited longer in one run. The explanation is of that run, at the moment
    /// when the other run placed the job. The run is repeated with recording for this, because recording every run
    /// would cost more.
    fn reasons(&self, changed: &[&PairedJob]) -> Result<Vec<Vec<String>>, Failure> {
        let mut reasons = vec![Vec::new(); changed.len()];
        for seed in self.seeds {
            let of_seed = || changed.iter().enumerate().filter(|(_, job)| job.seed == *seed);
            if of_seed().next().is_none() {
                continue;
            }
            let both = (self.load)(*seed)?;
            for (side, rehearsal) in both.iter().enumerate() {
                let waits = |job: &PairedJob| usize::from(job.second.wait > job.first.wait) == side;
                let asked: Vec<(usize, &PairedJob)> =
                    of_seed().filter(|(_, job)| waits(job)).map(|(index, job)| (index, *job)).collect();
                if asked.is_empty() {
                    continue;
                }
                let mut records = Records::default();
                run(rehearsal, RunOptions::default(), &mut [&mut records]);
                let names = names(rehearsal);
                for (index, job) in asked {
                    let (longer, shorter) = if side == 0 { (job.first, job.second) } else { (job.second, job.first) };
                    let at = longer.submitted.saturating_add(shorter.wait);
                    let id = names.jobs.find(&job.name).map(JobId::new);
                    let known = id.and_then(|id| Some((id, &rehearsal.arrivals.get(id.index())?.spec.demand)));
                    let Some((id, demand)) = known else { continue };
                    let explained = explain(Arc::clone(&rehearsal.profile), *seed, &records.0, (id, None), Some(at));
                    let explained = explained.map_err(|error| Failure::Ours(format!("internal error: {error}\n")))?;
                    reasons[index] = brief(&explained, demand, Some(at), &names);
                }
            }
        }
        Ok(reasons)
    }

    fn human(
        &self,
        seeded: &[SeedPair],
        found: &Difference,
        metrics: &[MetricPair],
        (changed, reasons): (&[&PairedJob], &[Vec<String>]),
    ) -> String {
        let bold = anstyle::Style::new().bold();
        let [one, other] = self.words;
        let mut text = format!("{bold}{}{bold:#}\n", self.title);
        for (word, name) in self.words.iter().zip(&self.names) {
            text.push_str(&format!("  {word}: {name}\n"));
        }
        text.push_str(&format!("\n{}\n\n", self.sentence(found)));
        let rows: Vec<Vec<String>> = (metrics.iter())
            .filter(|metric| metric.differs())
            .map(|metric| {
                let cell = |found: Option<Estimate>| found.map_or("undefined".to_string(), |found| with(&found));
                let mut row = vec![self.called(metric.name)];
                row.extend(metric.sides.map(|mean| mean.map_or("undefined".to_string(), plain)));
                row.push(cell(metric.difference));
                row
            })
            .collect();
        match rows.is_empty() {
            true => text.push_str("No metric differs.\n"),
            false => text.push_str(&table(&["metrics that differ", one, other, "difference"], &rows)),
        }
        text.push_str(&self.ends(seeded, metrics));
        if let Some(first) = seeded.first().filter(|seed| !seed.behavior.is_empty()) {
            let rows: Vec<Vec<String>> = (first.behavior.iter())
                .map(|moment| {
                    let gpus = moment.gpus.map(|taken| plain(taken as f64 / 1000.0));
                    let [waits, others] = moment.waiting.map(|waiting| waiting.to_string());
                    let [taken, taken_by_other] = gpus;
                    vec![moment.at.to_string(), waits, others, taken, taken_by_other]
                })
                .collect();
            let header = ["waiting", "GPUs taken"].map(|what| self.words.map(|word| format!("{what}, {word}")));
            let header: Vec<&str> = header.iter().flatten().map(String::as_str).collect();
            text.push_str(&format!("\nwith seed {}\n", self.seeds[0]));
            text.push_str(&table(&[&["at"], header.as_slice()].concat(), &rows));
        }
        for (job, lines) in changed.iter().zip(reasons) {
            let waits = [job.first, job.second].map(|waited| describe_wait(waited.wait, waited.placed));
            text.push_str(&format!("\n{} (seed {}): {one} {}, {other} {}\n", job.name, job.seed, waits[0], waits[1]));
            let waiting = if job.second.wait > job.first.wait { other } else { one };
            lines.iter().for_each(|line| text.push_str(&format!("  {waiting}: {line}\n")));
        }
        text
    }

    /// The name of a metric in the table, such as `cost from 2h on`.
    fn called(&self, metric: &str) -> String {
        match self.from > SimTime::ZERO && is_of_later(metric) {
            true => format!("{metric} from {} on", self.from),
            false => metric.to_string(),
        }
    }

    /// A sentence if the runs end at different times, so that totals do not cover the same time.
    fn ends(&self, seeded: &[SeedPair], metrics: &[MetricPair]) -> String {
        let [one, other] = self.words;
        let is_shown = metrics.iter().any(|metric| TOTALS.contains(&metric.name) && metric.differs());
        match seeded.first().map(|seed| seed.ends) {
            Some([first, second]) if is_shown && first != second => {
                let with = if self.seeds.len() > 1 { format!(", with seed {}", self.seeds[0]) } else { String::new() };
                format!(
                    "Totals such as cost are up to the end of each run: {first} with {one}, {second} with {other}{with}.\n"
                )
            }
            _ => String::new(),
        }
    }

    /// A sentence that says how many jobs wait longer, how many wait less, and how certain the difference is.
    fn sentence(&self, found: &Difference) -> String {
        let [one, other] = self.words;
        let both = found.longer + found.less + found.same + found.below_a_second;
        let mut text = format!(
            "Of {} placed with both, {} longer with {other}, {} shorter, {} equally long",
            counted(both, "job"),
            waits(found.longer),
            found.less,
            found.same,
        );
        text.push_str(&match found.below_a_second {
            0 => ".".to_string(),
            1 => "; 1 wait differs by less than 1 s.".to_string(),
            more => format!("; {more} waits differ by less than 1 s."),
        });
        match found.mean {
            None => {}
            Some(Estimate { mean, range: Some((low, high)), runs, .. }) => text.push_str(&format!(
                " Mean wait with {other} minus {one}: {mean:.1} s, {low:.1} s to {high:.1} s (95 %, from {runs} lists \
                 resampled from one log); longer in {} of them, shorter in {}.",
                found.seeds_longer, found.seeds_less
            )),
            Some(Estimate { mean, half_width: Some(half_width), runs, .. }) => text.push_str(&format!(
                " Mean wait with {other} minus {one}: {mean:.1} ± {half_width:.1} s (95 %, Student's t over {runs} \
                 seeds); longer in {} of them, shorter in {}.",
                found.seeds_longer, found.seeds_less
            )),
            Some(Estimate { mean, half_width: None, runs, is_constant, .. }) => {
                let from = match (runs, is_constant) {
                    (1, _) => "from a single seed".to_string(),
                    (_, true) => format!("the same with each of {runs} seeds"),
                    (_, false) => format!(
                        "without an interval, which needs {FEWEST_LISTS} seeds and a log of {FEWEST_LISTS} blocks; longer in \
                         {} of {runs} lists resampled from one log, shorter in {}",
                        found.seeds_longer, found.seeds_less
                    ),
                };
                text.push_str(&format!(" Mean wait with {other} minus {one}: {mean:.1} s, {from}."));
            }
        }
        for (count, what) in [
            (found.placed_by_first, format!("placed only with {one}")),
            (found.placed_by_second, format!("placed only with {other}")),
            (found.placed_by_neither, "placed with neither".to_string()),
            (found.only_first, format!("submitted only with {one}")),
            (found.only_second, format!("submitted only with {other}")),
        ] {
            if count > 0 {
                text.push_str(&format!(" {} {what}.", counted(count, "job")));
            }
        }
        text
    }

    fn json(
        &self,
        seeded: &[SeedPair],
        found: &Difference,
        metrics: &[MetricPair],
        (changed, reasons): (&[&PairedJob], &[Vec<String>]),
    ) -> Value {
        let [one, other] = self.words;
        let both = |[first, second]: [Value; 2]| json!({one: first, other: second});
        let written = |found: &Estimate| json!({"mean": found.mean, "half_width": found.half_width, "interval": found.interval()});
        let metrics: Map<String, Value> = (metrics.iter())
            .map(|metric| {
                let mut sides = both(metric.sides.map(|mean| json!(mean)));
                sides["difference"] = json!(metric.difference.as_ref().map(written));
                if self.from > SimTime::ZERO && is_of_later(metric.name) {
                    sides["from_seconds"] = json!(self.from.as_secs_f64());
                }
                (metric.name.to_string(), sides)
            })
            .collect();
        let changed: Vec<Value> = (changed.iter().zip(reasons))
            .map(|(job, lines)| {
                let sides = [job.first, job.second]
                    .map(|waited| json!({"wait_seconds": waited.wait.as_secs_f64(), "placed": waited.placed}));
                let mut value = both(sides);
                (value["job"], value["seed"], value["because"]) = (json!(*job.name), json!(job.seed), json!(lines));
                value
            })
            .collect();
        let digests: Vec<Value> = (self.seeds.iter().zip(seeded))
            .map(|(seed, seeded)| {
                let mut value = both(seeded.digests.clone().map(Value::from));
                value["seed"] = json!(seed);
                value
            })
            .collect();
        json!({
            "title": self.title, "names": both(self.names.clone().map(Value::from)), "seeds": self.seeds,
            "from_seconds": self.from.as_secs_f64(), "answer": self.sentence(found),
            "queue_wait": {
                "longer": found.longer, "less": found.less, "same": found.same, "below_a_second": found.below_a_second,
                "placed": {one: found.placed_by_first, other: found.placed_by_second, "neither": found.placed_by_neither},
                "submitted": {one: found.only_first, other: found.only_second},
                "difference_seconds": found.mean.as_ref().map(written),
                "seeds_longer": found.seeds_longer, "seeds_less": found.seeds_less,
            },
            "metrics": metrics, "changed_most": changed, "digests": digests,
        })
    }
}

/// Totals, which are larger if a run lasts longer.
const TOTALS: [&str; 8] =
    ["cost", "energy", "carbon", "gpu_hours", "gpu_idle_hours", "gpu_idle_cost", "instance_hours", "output_tokens"];

/// Metrics of the machines, which are compared from the change on: before it, both runs are the same, and a rate such as the
/// cost of a month would be a mixture.
fn is_of_later(metric: &str) -> bool {
    const OTHERS: [&str; 4] = ["cost_per_month", "cost_per_million_tokens", "gpu_allocated", "cpu_allocated"];
    (TOTALS.contains(&metric) && metric != "output_tokens") || OTHERS.contains(&metric)
}

fn map(metrics: &Metrics) -> Map<String, Value> {
    match serde_json::to_value(metrics) {
        Ok(Value::Object(metrics)) => metrics,
        other => unreachable!("metrics are a map, not {other:?}"),
    }
}

/// A metric: its mean over all seeds in each run, and the mean of the differences per seed.
struct MetricPair {
    name: &'static str,
    sides: [Option<f64>; 2],
    difference: Option<Estimate>,
}

impl MetricPair {
    /// Whether the printed figures differ.
    fn differs(&self) -> bool {
        self.difference.is_some_and(|found| differ_in_print(self.sides, found.mean))
    }
}

/// Whether two figures and their difference show a difference once they are rounded.
fn differ_in_print(sides: [Option<f64>; 2], difference: f64) -> bool {
    let [one, other] = sides.map(|side| side.map(plain));
    one != other && plain(difference) != "0"
}

/// All metrics. A mean is `None` if the metric is undefined with some seed.
fn differences(seeded: &[SeedPair], resampled: Option<ResampledFrom>) -> Vec<MetricPair> {
    let of = |name: &str, side: usize| -> Option<Vec<f64>> {
        seeded.iter().map(|seed| seed.metrics[side].get(name).and_then(Value::as_f64)).collect()
    };
    (definitions().into_iter())
        .map(|definition| {
            let sides = [of(definition.name, 0), of(definition.name, 1)];
            let difference = match &sides {
                [Some(first), Some(second)] => {
                    let less: Vec<f64> = first.iter().zip(second).map(|(first, second)| second - first).collect();
                    estimate_difference(&less, resampled)
                }
                _ => None,
            };
            let mean = |values: &Option<Vec<f64>>| Some(estimate(values.as_ref()?)?.mean);
            MetricPair { name: definition.name, sides: [mean(&sides[0]), mean(&sides[1])], difference }
        })
        .collect()
}

/// The states of both runs at evenly spaced moments, from `from` to the end of the longer run. Empty if whole runs are
/// compared.
fn behavior(accounts: [&RunAccount; 2], from: SimTime) -> Vec<Moment> {
    let end = accounts[0].now.max(accounts[1].now);
    if from == SimTime::ZERO || end <= from {
        return Vec::new();
    }
    let part = end.since(from).as_nanos() / MOMENTS;
    // Round the interval down to whole seconds if it is longer than ten seconds.
    let part = if part > 10_000_000_000 { part / 1_000_000_000 * 1_000_000_000 } else { part };
    let at = |number: u64| from.saturating_add(SimDuration::from_nanos(part.saturating_mul(number)));
    let moment = |at: SimTime| {
        let standing = accounts.map(|account| {
            let after = account.samples.partition_point(|sample| sample.at <= at);
            after.checked_sub(1).map_or((0, 0), |last| (account.samples[last].waiting, account.samples[last].gpu_taken))
        });
        Moment { at, waiting: standing.map(|(waiting, _)| waiting), gpus: standing.map(|(_, taken)| taken) }
    };
    (0..=MOMENTS).map(at).map(moment).collect()
}

/// A CSV row for each job of each seed.
fn jobs_csv(seeds: &[PairedSeed], words: [&str; 2]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut header = vec!["seed".to_string(), "job".to_string()];
    for word in words {
        header.extend([format!("{word}_wait_seconds"), format!("{word}_placed")]);
    }
    header.push("difference_seconds".to_string());
    writer.write_record(&header).expect("written into memory");
    for job in seeds.iter().flat_map(|seed| &seed.jobs) {
        let mut cells = vec![job.seed.to_string(), job.name.to_string()];
        for waited in [job.first, job.second] {
            cells.extend([waited.wait.as_secs_f64().to_string(), waited.placed.to_string()]);
        }
        cells.push(job.seconds().to_string());
        writer.write_record(&cells).expect("written into memory");
    }
    writer.into_inner().expect("written into memory")
}

/// Formats a count of jobs, as in `1 waits` or `3 wait`.
fn waits(count: usize) -> String {
    if count == 1 { "1 waits".to_string() } else { format!("{count} wait") }
}

/// Text about the wait of a job. A wait of a second or more is rounded down to whole seconds.
fn describe_wait(wait: SimDuration, placed: bool) -> String {
    let seconds = wait.as_nanos() / 1_000_000_000;
    let wait = if seconds > 0 { SimDuration::from_secs(seconds) } else { wait };
    if placed { format!("waits {wait}") } else { format!("is not placed within {wait}") }
}

/// Formats the value with at most three decimals.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_string() } else { text.to_string() }
}

fn with(found: &Estimate) -> String {
    match (found.range, found.half_width) {
        (Some((low, high)), _) => format!("{} ({} to {})", plain(found.mean), plain(low), plain(high)),
        (None, Some(half_width)) => format!("{} ± {}", plain(found.mean), plain(half_width)),
        (None, None) => plain(found.mean),
    }
}
