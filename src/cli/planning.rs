//! A plan file, read for the commands that run plans.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::exit::Failure;
use super::fault::{fault_text, first_line, runaway_text};
use super::guard::{WorkFailure, guarded_run};
use super::output::warn;
use super::progress;
use super::roots::options;
use super::run::Overrides;
use dryrack_engine::{Progress, Rehearsal};
use dryrack_metrics::ResampledFrom;
use dryrack_outside::quoted;
use dryrack_plan::{
    Answer, BREAK_SEEDS, Break, BreakResult, Comparison, EqualSpeeds, InputHash, Lasting, LastingUntil, PlanHeader,
    PlanRun, Row, Runs, breaks, compare, ends_of_answer, first_month, fleet_size, fleet_words, kinds, of_month,
    range_ends, run_changed,
};
use dryrack_report::about;
use dryrack_scenario::{Horizon, Objective, Options, PlanFile, TraceUse, load_plan};
use dryrack_units::{SimDuration, SimTime, counted};
use dryrack_yaml::Diagnostics;

/// A plan file that was read, with everything its runs need.
pub(super) struct Planning {
    pub plan: PlanFile,
    pub base: Options,
    pub header: PlanHeader,
    /// What the runs assume because the scenario leaves it open.
    pub assumed: Vec<String>,
    /// The flags `--set` and `--seeds` with which the plan was read, each after a space.
    pub flags: String,
    /// Which jobs and requests of the first alternative are not in its run, because they come after `until`.
    cut_off: Vec<String>,
    /// The names of GPUs because of which some tasks of the trace can never run with some alternative.
    pub absent_gpus: BTreeSet<String>,
    /// The GPUs on which jobs without speeds may run.
    equal_speeds: EqualSpeeds,
}

impl Planning {
    pub fn read(file: &Path) -> Result<Planning, Failure> {
        Planning::read_with(file, &[], None)
    }

    /// Reads a plan with overrides in the form of `--set`, which hold for every alternative, and with other seeds than
    /// those of the file.
    pub fn read_with(file: &Path, set: &[String], seeds: Option<RangeInclusive<u64>>) -> Result<Planning, Failure> {
        let input = |faults: Diagnostics| Failure::Input(faults.to_string());
        let base = Options { set: set.to_vec(), ..options(file) };
        let (mut hash, mut seed) = (InputHash::default(), None);
        let (mut assumed, mut absent_gpus) = (BTreeSet::new(), BTreeSet::new());
        let mut first_cut_off = None;
        let mut equal_speeds = EqualSpeeds::default();
        let read = AtomicUsize::new(0);
        let said = || {
            let read = counted(read.load(Ordering::Relaxed), "alternative");
            format!("reading {}: {read} so far", file.display())
        };
        let loaded = progress::with_line(said, || {
            load_plan(file, &base, |loaded| {
                hash.rehearsal(&loaded.rehearsal);
                seed.get_or_insert(loaded.rehearsal.seed);
                assumed.extend(loaded.assumed.iter().cloned());
                let cut_off = loaded.cut_off();
                assumed.extend(cut_off.iter().cloned());
                if first_cut_off.is_none() {
                    // Other alternatives and seeds may have other jobs.
                    assumed.extend(loaded.in_warm_up().map(|line| format!("{line}, in the first run")));
                    first_cut_off = Some(cut_off);
                }
                assumed.extend(loaded.trace.as_ref().and_then(TraceUse::dates_line));
                absent_gpus.extend(loaded.trace.iter().flat_map(|used| used.gpu_names.absent.iter().cloned()));
                equal_speeds.add(&loaded.rehearsal);
                read.fetch_add(1, Ordering::Relaxed);
            })
        });
        let (plan, warnings) = loaded.map_err(input)?;
        warn(&warnings.to_string());
        hash.text(&plan.text);
        set.iter().for_each(|set| hash.text(set));
        let mut flags: String = set.iter().map(|set| format!(" --set {}", quoted(set))).collect();
        flags.extend(seeds.as_ref().map(|seeds| format!(" --seeds {}..{}", seeds.start(), seeds.end())));
        let plan = match seeds {
            Some(seeds) => PlanFile { seeds: seeds.collect(), ..plan },
            None => plan,
        };
        let plan = match seed {
            Some(seed) if plan.seeds.is_empty() => PlanFile { seeds: vec![seed], ..plan },
            _ => plan,
        };
        let header =
            PlanHeader { dryrack: env!("CARGO_PKG_VERSION").to_string(), plan: plan.title.clone(), input: hash.hex() };
        let (assumed, cut_off) = (assumed.into_iter().collect(), first_cut_off.unwrap_or_default());
        Ok(Planning { plan, base, header, assumed, flags, cut_off, absent_gpus, equal_speeds })
    }

    /// A sentence that names the nodes which an alternative has from the start, such as ` The fleet: 4 nodes with 8
    /// a100-80g.`, and one on what the cost of a month assumes.
    pub fn fleet(&self, row: &Row) -> Result<(String, String), Failure> {
        let loaded = self.plan.load(row.cell, self.plan.seeds.first().copied(), &self.base);
        let loaded = loaded.map_err(|faults| Failure::Input(faults.to_string()))?;
        let kinds = kinds(&loaded.rehearsal);
        let parts: Vec<String> =
            kinds.iter().map(|kind| format!("{} with {}", counted(kind.count, "node"), kind.called)).collect();
        let named: usize = kinds.iter().map(|kind| kind.count).sum();
        let rest = match (row.fleet.nodes as usize).saturating_sub(named) {
            0 => String::new(),
            rest => format!(" and {}", counted(rest, "other node")),
        };
        let fleet = match (parts.is_empty(), &row.rented) {
            (true, None) => String::new(),
            (false, None) => format!(" The fleet: {}{rest}.", parts.join(", ")),
            (true, Some(rented)) => format!(" The fleet: no node of its own and {}.", rented.text()),
            (false, Some(rented)) => {
                format!(" The fleet: {}{rest} of its own, and {}.", parts.join(", "), rented.text())
            }
        };
        Ok((fleet, self.month(row, &loaded.rehearsal)))
    }

    /// The machines of an alternative in words, such as `2 x a100-80g-x8, 16 GPUs`.
    pub fn fleet_words(&self, row: &Row) -> Result<String, Failure> {
        let loaded = self.plan.load(row.cell, self.plan.seeds.first().copied(), &self.base);
        let loaded = loaded.map_err(|faults| Failure::Input(faults.to_string()))?;
        Ok(fleet_words(&loaded.rehearsal, row, self.plan.minimize))
    }

    /// A sentence about what the cost of a month assumes; empty if it is not minimized.
    fn month(&self, row: &Row, rehearsal: &Rehearsal) -> String {
        let is_asked = self.plan.minimize == Some(Objective::CostPerMonth);
        let Some(seconds) = row.seconds_paid().filter(|_| is_asked) else { return String::new() };
        let length = |seconds: f64| about(SimDuration::from_nanos((seconds * 1e9) as u64));
        let seconds_of = |at: Option<SimTime>| at.map(|at| at.since(SimTime::ZERO).as_secs_f64());
        let until = seconds_of(rehearsal.until).map(|until| until - seconds_of(rehearsal.warm_up).unwrap_or_default());
        let early = match until.filter(|until| *until > seconds * 1.01) {
            Some(until) => format!(" of {} up to `until`; the time after the last job is not in it", length(until)),
            None => String::new(),
        };
        format!(" A month is 730 hours at the rate of the run, which lasts {}{early}.", length(seconds))
    }

    /// The answer, with what depends on the types of GPUs: the names in the trace, and their speeds.
    pub fn with_gpu_names(
        &self,
        mut answer: Answer,
        comparison: &Comparison,
        best: Option<&Row>,
    ) -> Result<Answer, Failure> {
        answer.with_absent_gpus(&self.absent_gpus, comparison);
        if let Some(row) = best {
            let loaded = self.plan.load(row.cell, self.plan.seeds.first().copied(), &self.base);
            let loaded = loaded.map_err(|faults| Failure::Input(faults.to_string()))?;
            loaded.trace.iter().for_each(|used| answer.with_substitutes(&used.gpu_names.substitutes));
        }
        answer.with_equal_speeds(&self.equal_speeds);
        answer.with_cut_off(&self.cut_off);
        // How long these jobs would have run is not known, and may be a large part of the load.
        let running: Vec<String> = self
            .assumed
            .iter()
            .filter(|line| line.contains(" still ran, for a time "))
            .map(|line| capital(line))
            .collect();
        answer.with_cut_off(&running);
        Ok(answer)
    }

    /// Sentences about alternatives beyond the ranges of the factors, of which the runs show nothing.
    pub fn range_ends(&self, best: &Row, comparison: &Comparison, of: (&[usize], bool)) -> String {
        let Some(objective) = self.plan.minimize else { return String::new() };
        range_ends(&self.plan, (comparison, best), objective, of, |cell| self.cost(cell))
    }

    /// Sentences about values at the end of what was tried, beyond which another one may cost less than the answer.
    pub fn ends_of_answer(
        &self,
        best: Option<&Row>,
        comparison: &Comparison,
        breaks: &[BreakResult],
    ) -> Result<String, Failure> {
        let Some(best) = best else { return Ok(String::new()) };
        let loaded = |cell: usize| {
            let loaded = self.plan.load(cell, self.plan.seeds.first().copied(), &self.base);
            loaded.map(|loaded| kinds(&loaded.rehearsal)).map_err(|faults| Failure::Input(faults.to_string()))
        };
        let mut text = String::new();
        for end in ends_of_answer(&self.plan, comparison, best, |cell| self.cost(cell)) {
            text.push_str(&end.sentence(&loaded(best.cell)?, &loaded(end.inside)?, breaks));
        }
        Ok(text)
    }

    /// What the plan minimizes, of an alternative that was not run.
    fn cost(&self, cell: usize) -> Option<f64> {
        let objective = self.plan.minimize?;
        let cost = fleet_size(&self.plan, cell, &self.base).ok()?.of(objective)? as f64;
        Some(if objective == Objective::PricePerHour { cost / 1e6 } else { cost })
    }

    /// How the trace of an alternative is resampled with each seed, if it is.
    pub fn resampled(&self, cell: usize) -> Result<Option<ResampledFrom>, Failure> {
        let loaded = self.plan.load(cell, self.plan.seeds.first().copied(), &self.base);
        let loaded = loaded.map_err(|faults| Failure::Input(faults.to_string()))?;
        Ok(loaded.trace.and_then(|trace| trace.resampled_from()))
    }

    /// Runs one alternative with one seed. Fails if an invariant breaks.
    pub fn run(&self, cell: usize, seed: u64) -> Result<PlanRun, Failure> {
        self.run_changed((cell, seed), &[])
    }

    /// Runs one alternative with one seed and further changes. Fails if an invariant breaks.
    pub fn run_changed(&self, (cell, seed): (usize, u64), changes: &[String]) -> Result<PlanRun, Failure> {
        let progress = Progress::default();
        let command = self.command(cell, seed, changes);
        match guarded_run(|| run_changed(&self.plan, (cell, seed), changes, &self.base, &progress)) {
            Ok(run) => run.map_err(|faults| Failure::Input(faults.to_string())),
            Err(WorkFailure::Runaway(runaway)) => {
                Err(Failure::Input(format!("{}  repeat with: {command}\n", runaway_text(&runaway))))
            }
            Err(WorkFailure::Invariant(message)) => Err(Failure::Ours(fault_text(&message, seed, &progress, &command))),
        }
    }
}

impl Planning {
    /// The command that repeats one run.
    pub fn command(&self, cell: usize, seed: u64, changes: &[String]) -> String {
        let set = Overrides::default().with_set(&self.base.set).with_set(&self.plan.set(cell)).with_set(changes);
        set.repeat(&self.plan.scenario, seed)
    }

    /// The names of the expectations of the scenario of an alternative.
    pub fn expected(&self, row: &Row) -> Result<BTreeSet<Arc<str>>, Failure> {
        let loaded = self.plan.load(row.cell, self.plan.seeds.first().copied(), &self.base);
        let loaded = loaded.map_err(|faults| Failure::Input(faults.to_string()))?;
        Ok(loaded.expectations.into_iter().map(|expectation| expectation.entry).collect())
    }

    /// Runs an alternative with each change that could break it. A change that cannot be run is a result too, because
    /// the answer of the plan does not depend on it.
    pub fn breaks(&self, row: &Row) -> Result<Vec<BreakResult>, Failure> {
        let changes = breaks(&self.plan, row, &self.base).map_err(|faults| Failure::Input(faults.to_string()))?;
        let seeds: Vec<u64> =
            self.plan.seeds.iter().copied().take(if row.is_random { BREAK_SEEDS } else { 1 }).collect();
        let of = if row.is_random { self.plan.seeds.len() } else { 1 };
        progress::with_bar(((changes.len() * seeds.len()) as u64, "runs with less"), |bar| {
            changes
                .into_iter()
                .map(|change| {
                    if change.is_idle {
                        return Ok(BreakResult::idle(change));
                    }
                    let runs: Result<Vec<PlanRun>, Failure> = (seeds.par_iter())
                        .map(|seed| {
                            let run = self.run_changed((row.cell, *seed), &change.set);
                            bar.inc(1);
                            run
                        })
                        .collect();
                    match runs {
                        Ok(runs) => Ok(BreakResult::of(&self.plan.asked, change, &runs, of)),
                        Err(Failure::Input(fault)) => Ok(BreakResult::not_run(change, first_line(&fault))),
                        Err(other) => Err(other),
                    }
                })
                .collect()
        })
    }
}

impl Planning {
    /// How long each alternative meets all constraints while the load grows. Each alternative is run month by month
    /// until the first one that fails.
    pub fn horizon(&self, rows: &[Row]) -> Result<Vec<Lasting>, Failure> {
        let Some(horizon) = &self.plan.horizon else { return Ok(Vec::new()) };
        progress::with_bar((rows.len() as u64 * u64::from(horizon.months), "months of alternatives"), |bar| {
            let all = rows.par_iter().map(|row| {
                let (until, mut months) = match first_month(row) {
                    Some(until) => (until, Vec::new()),
                    None => self.months(row, horizon, || bar.inc(1))?,
                };
                months.insert(0, row.clone());
                Ok(Lasting { cell: row.cell, until, months })
            });
            all.collect()
        })
    }

    /// The first month, after month 0, in which an alternative does not meet all constraints, and the months up to it.
    fn months(&self, row: &Row, horizon: &Horizon, tick: impl Fn()) -> Result<(LastingUntil, Vec<Row>), Failure> {
        let input = |faults: Diagnostics| Failure::Input(faults.to_string());
        let seeds = if row.is_random { self.plan.seeds.as_slice() } else { &self.plan.seeds[..1] };
        let load = self.plan.load(row.cell, seeds.first().copied(), &self.base).map_err(input)?.load;
        let mut months = Vec::new();
        for month in 1..=horizon.months {
            let change =
                Break { what: horizon.name(month), set: vec![horizon.set(month, load)], is_idle: false, without: None };
            let runs: Result<Vec<PlanRun>, Failure> =
                seeds.par_iter().map(|seed| self.run_changed((row.cell, *seed), &change.set)).collect();
            tick();
            let result = match runs {
                Ok(runs) => {
                    let result = BreakResult::of(&self.plan.asked, change, &runs, seeds.len());
                    let runs: Runs = runs.into_iter().map(|run| ((run.cell, run.seed), run)).collect();
                    months.extend(compare(&self.plan, &runs).rows);
                    result
                }
                Err(Failure::Input(fault)) => BreakResult::not_run(change, first_line(&fault)),
                Err(other) => return Err(other),
            };
            if let Some(until) = of_month(month, &result) {
                return Ok((until, months));
            }
        }
        Ok((LastingUntil::End, months))
    }
}

/// The sentence with a capital letter.
fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// All runs of a sweep, up to the limit on the number of runs.
pub(super) fn of_sweep(plan: &PlanFile) -> impl Iterator<Item = (usize, u64)> {
    let limit = plan.runs.map_or(usize::MAX, |runs| usize::try_from(runs).unwrap_or(usize::MAX));
    (0..plan.cells()).flat_map(|cell| plan.seeds.iter().map(move |seed| (cell, *seed))).take(limit)
}
