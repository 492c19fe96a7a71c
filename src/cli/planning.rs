//! A plan file, read for the commands that run plans.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::exit::Failure;
use super::fault::{fault_text, first_line, runaway_text};
use super::guard::{WorkFailure, guarded_run};
use super::output::warn;
use super::progress;
use super::roots::options;
use super::run::Overrides;
use dryrack_engine::Progress;
use dryrack_metrics::ResampledFrom;
use dryrack_plan::{BREAK_SEEDS, BreakResult, InputHash, PlanHeader, PlanRun, Row, breaks, run_changed};
use dryrack_scenario::{Options, PlanFile, load_plan};
use dryrack_units::counted;
use dryrack_yaml::Diagnostics;

/// A plan file that was read, with everything its runs need.
pub(super) struct Planning {
    pub plan: PlanFile,
    pub base: Options,
    pub header: PlanHeader,
    /// What the runs assume because the scenario leaves it open.
    pub assumed: Vec<String>,
}

impl Planning {
    pub fn read(file: &Path) -> Result<Planning, Failure> {
        let input = |faults: Diagnostics| Failure::Input(faults.to_string());
        let base = options(file);
        let (mut hash, mut seed, mut assumed) = (InputHash::default(), None, BTreeSet::new());
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
                read.fetch_add(1, Ordering::Relaxed);
            })
        });
        let (plan, warnings) = loaded.map_err(input)?;
        warn(&warnings.to_string());
        hash.text(&plan.text);
        let plan = match seed {
            Some(seed) if plan.seeds.is_empty() => PlanFile { seeds: vec![seed], ..plan },
            _ => plan,
        };
        let header =
            PlanHeader { dryrack: env!("CARGO_PKG_VERSION").to_string(), plan: plan.title.clone(), input: hash.hex() };
        Ok(Planning { plan, base, header, assumed: assumed.into_iter().collect() })
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
        let set = Overrides::default().with_set(&self.plan.set(cell)).with_set(changes);
        set.repeat(&self.plan.scenario, seed)
    }

    /// Runs an alternative with each change that could break it. A change that cannot be run is a result too, because
    /// the answer of the plan does not depend on it.
    pub fn breaks(&self, row: &Row) -> Result<Vec<BreakResult>, Failure> {
        let changes = breaks(&self.plan, row, &self.base).map_err(|faults| Failure::Input(faults.to_string()))?;
        let seeds: Vec<u64> =
            self.plan.seeds.iter().copied().take(if row.is_random { BREAK_SEEDS } else { 1 }).collect();
        progress::with_bar(((changes.len() * seeds.len()) as u64, "runs with less"), |bar| {
            changes
                .into_iter()
                .map(|change| {
                    let runs: Result<Vec<PlanRun>, Failure> = (seeds.par_iter())
                        .map(|seed| {
                            let run = self.run_changed((row.cell, *seed), &change.set);
                            bar.inc(1);
                            run
                        })
                        .collect();
                    match runs {
                        Ok(runs) => Ok(BreakResult::of(&self.plan.asked, change, &runs)),
                        Err(Failure::Input(fault)) => Ok(BreakResult::not_run(change, first_line(&fault))),
                        Err(other) => Err(other),
                    }
                })
                .collect()
        })
    }
}

/// All runs of a sweep, up to the limit on the number of runs.
pub(super) fn of_sweep(plan: &PlanFile) -> impl Iterator<Item = (usize, u64)> {
    let limit = plan.runs.map_or(usize::MAX, |runs| usize::try_from(runs).unwrap_or(usize::MAX));
    (0..plan.cells()).flat_map(|cell| plan.seeds.iter().map(move |seed| (cell, *seed))).take(limit)
}
