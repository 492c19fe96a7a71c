//! `dryrack plan pair`: compares two alternatives of a plan job by job.

use std::path::PathBuf;

use clap::Args;

use super::exit::{ExitResult, Failure};
use super::futures::Futures;
use super::output::Format;
use super::planning::Planning;
use super::run::Overrides;
use dryrack_nearest::hint;
use dryrack_scenario::PlanFile;
use dryrack_units::SimTime;

#[derive(Debug, Args)]
pub struct PairArgs {
    /// Plan file
    file: PathBuf,
    /// First alternative, such as `workers=4,profile=fifo`; a factor with only one value may be left out
    first: String,
    /// Second alternative, in the same form
    second: String,
    /// Write pair.json and jobs.csv to DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

pub fn pair(args: &PairArgs, format: Format) -> ExitResult {
    let planning = Planning::read(&args.file)?;
    let plan = &planning.plan;
    let cells = [cell(plan, &args.first)?, cell(plan, &args.second)?];
    let load = |seed: u64| {
        let one = |cell: usize| {
            let loaded = plan.load(cell, Some(seed), &planning.base);
            loaded.map(|loaded| loaded.rehearsal).map_err(|faults| Failure::Input(faults.to_string()))
        };
        Ok([one(cells[0])?, one(cells[1])?])
    };
    let resampled = planning.resampled(cells[0])?;
    let futures = Futures {
        title: &plan.title,
        words: ["A", "B"],
        names: cells.map(|cell| plan.cell_name(cell)),
        from: SimTime::ZERO,
        seeds: &plan.seeds,
        resampled,
        load: &load,
        tells_by_exit: false,
        repeat: &|seed, side| Overrides::default().with_set(&plan.set(cells[side])).repeat(&plan.scenario, seed),
    };
    super::test::pool(args.threads)?.install(|| futures.compare(args.out.as_deref(), Vec::new(), format))
}

/// The index of the alternative that the user typed. Every factor with more than one value must be given.
fn cell(plan: &PlanFile, typed: &str) -> Result<usize, Failure> {
    let wrong = |why: String| Failure::Input(format!("error: `{typed}` is not an alternative of the plan: {why}\n"));
    let mut places: Vec<Option<usize>> =
        plan.factors.iter().map(|factor| (factor.values.len() == 1).then_some(0)).collect();
    let mut said = Vec::new();
    for part in typed.split(',') {
        let Some((name, value)) = part.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
            return Err(wrong(format!("`{part}` is not of the form `factor=value`")));
        };
        let Some(index) = plan.factors.iter().position(|factor| *factor.name == *name) else {
            let near = hint(name, plan.factors.iter().map(|factor| &*factor.name)).unwrap_or_default();
            return Err(wrong(format!("the plan has no factor `{name}`; {near}")));
        };
        let values = &plan.factors[index].values;
        let Some(place) = values.iter().position(|known| **known == *value) else {
            let near = hint(value, values.iter().map(|value| &**value)).unwrap_or_default();
            return Err(wrong(format!("`{name}` has no value `{value}`; {near}")));
        };
        if said.contains(&index) {
            return Err(wrong(format!("`{name}` is given twice")));
        }
        said.push(index);
        places[index] = Some(place);
    }
    let mut cell = 0;
    for (factor, place) in plan.factors.iter().zip(places) {
        let Some(place) = place else { return Err(wrong(format!("`{}` is missing", factor.name))) };
        cell = cell * factor.values.len() + place;
    }
    Ok(cell)
}
