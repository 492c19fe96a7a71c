//! `dryrack compare`: runs scenarios under several profiles or programs and finds the first decision that differs.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::compare_seeds::compare_seeds;
use super::decider::{OutsideChoice, failure_text, start};
use super::exit::{Exit, ExitResult, Failure};
use super::fault::{fault_text, runaway_text};
use super::guard::{WorkFailure, guarded_run};
use super::output::{Format, print, print_json, warn};
use super::progress::with_bar;
use super::run::Overrides;
use super::select::{refuse_others, scenario_files};
use super::swarm::seeds;
use dryrack_compare::{Difference, DifferenceKind, RunDecisions, SideDecision, decide, first_difference};
use dryrack_engine::Progress;
use dryrack_profile::load_profile;
use dryrack_report::table;
use dryrack_scenario::{Cell, Loaded, load, outline};
use dryrack_units::counted;

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Scenario files, or folders of them
    #[arg(required_unless_present = "seeds", conflicts_with = "seeds", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Seeds A to B (both included) of random worlds of `hunt`, instead of files; one program decides, and the profiles
    /// are asked at each decision
    #[arg(long, allow_hyphen_values = true, value_name = "A..B", value_parser = seeds, conflicts_with_all = ["seed", "set"])]
    pub(super) seeds: Option<RangeInclusive<u64>>,
    /// Kind of random worlds: models, sglang, fleets, long-runs or tasks [default: the kind that suits the program]
    #[arg(long, value_name = "KIND", requires = "seeds")]
    pub(super) world: Option<String>,
    /// Profile, release such as gpustack==0.6.0, kube-scheduler=PATH, or outside:COMMAND; give at least two, and each
    /// is compared with the first
    #[arg(long, required = true, value_name = "SCHEDULER")]
    pub(super) with: Vec<String>,
    /// Seed of all random draws [default: the seed of the file]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Override a field or a parameter, as in params.gpus=8; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) threads: Option<u16>,
}

/// The profile or program that decides on one side of the comparison.
struct CompareSide {
    /// `None` if the file's own profile applies.
    profile: Option<String>,
    outside: OutsideChoice,
}

impl CompareSide {
    /// Reads the argument of `--with`. A profile must exist, and a program must be one that can be started.
    fn of(typed: &str) -> Result<CompareSide, Failure> {
        let Some(program) = program_of(typed) else {
            load_profile(typed, Path::new("")).map_err(|faults| Failure::Input(faults.to_string()))?;
            return Ok(CompareSide { profile: Some(typed.to_string()), outside: OutsideChoice::default() });
        };
        Ok(CompareSide { profile: None, outside: OutsideChoice::of(Some(program))? })
    }
}

fn is_program(typed: &str) -> bool {
    typed.contains("==") || typed.starts_with(dryrack_outside::KUBE_SCHEDULER)
}

/// The program that an argument of `--with` names; `None` if it names a profile.
pub(super) fn program_of(typed: &str) -> Option<&str> {
    typed.strip_prefix("outside:").or_else(|| is_program(typed).then_some(typed))
}

/// One run of a file, by each side. A side that cannot run it says why.
struct Compared {
    /// The file and the cell of its matrix, such as `file.yaml [gpus=2]`.
    name: String,
    sides: Vec<Result<RunDecisions, Failure>>,
    /// The first difference between the first side and each other side; `None` if there is none or if a side did not
    /// run.
    differences: Vec<Option<Difference>>,
}

impl Compared {
    /// Whether this side differs from the first side, either in a decision or only in an expectation or a metric.
    fn differs(&self, side: usize) -> bool {
        let outcome = match (&self.sides[0], &self.sides[side]) {
            (Ok(one), Ok(other)) => one.has_other_outcome(other),
            (Err(_), _) | (_, Err(_)) => false,
        };
        outcome || self.differences[side - 1].is_some()
    }

    fn differs_at_all(&self) -> bool {
        (1..self.sides.len()).any(|side| self.differs(side))
    }
}

pub fn compare(args: &CompareArgs, format: Format) -> ExitResult {
    let [_, _, ..] = args.with.as_slice() else {
        let why = "error: --with: expected at least two, as in `--with fifo --with easy`\n";
        return Err(Failure::Input(why.to_string()));
    };
    if let Some(seeds) = &args.seeds {
        return compare_seeds(args, seeds, format);
    }
    let sides = args.with.iter().map(|typed| CompareSide::of(typed)).collect::<Result<Vec<CompareSide>, Failure>>()?;
    let files = scenario_files(&args.paths)?;
    refuse_others(&files)?;
    let runs: Vec<(&Path, Cell)> = files.iter().flat_map(|file| args.cells(&sides[0], file)).collect();
    if runs.is_empty() {
        warn("no scenario files found; in folders, *.yaml files are used\n");
        return Ok(Exit::NothingSelected);
    }
    let work = |bar: &indicatif::ProgressBar| {
        let one = |(file, cell): &(&Path, Cell)| {
            let compared = args.run(&sides, file, cell);
            bar.inc(1);
            compared
        };
        runs.par_iter().map(one).collect::<Vec<Compared>>()
    };
    let pool = super::test::pool(args.threads)?;
    let mut all = with_bar((runs.len() as u64, "scenarios"), |bar| pool.install(|| work(bar)));
    // A broken invariant ends the command. If there is only one scenario to run, any other failure ends it too.
    for compared in &mut all {
        let is_last_word = |side: &Result<RunDecisions, Failure>| match side {
            Ok(_) => false,
            Err(failure) => runs.len() == 1 || failure.exit() == Exit::OurFault,
        };
        if let Some(at) = compared.sides.iter().position(is_last_word) {
            return compared.sides.swap_remove(at).map(|_| Exit::Fine);
        }
    }
    match format {
        Format::Json => print_json(&args.json(&all))?,
        Format::Human => print(&args.human(&all))?,
    }
    let differs = all.iter().any(Compared::differs_at_all);
    Ok(if differs { Exit::Failed } else { Exit::Fine })
}

impl CompareArgs {
    fn overrides(&self, side: &CompareSide, cell: &Cell) -> Overrides {
        let overrides = Overrides::under(side.profile.clone()).with_set(&self.set).with_set(&cell.set);
        let overrides = overrides.and_outside(side.outside.clone());
        self.seed.map_or(overrides.clone(), |seed| overrides.and_seed(seed))
    }

    /// The cells of a file. If the file cannot be read, its errors are reported where it is loaded.
    fn cells<'f>(&self, side: &CompareSide, file: &'f Path) -> Vec<(&'f Path, Cell)> {
        let overrides = self.overrides(side, &Cell::whole());
        let cells = outline(file, &overrides.lower(file)).map_or_else(|_| vec![Cell::whole()], |known| known.cells);
        cells.into_iter().map(|cell| (file, cell)).collect()
    }

    fn run(&self, sides: &[CompareSide], file: &Path, cell: &Cell) -> Compared {
        let sides: Vec<Result<RunDecisions, Failure>> = sides.iter().map(|side| self.side(file, cell, side)).collect();
        let difference = |side: &Result<RunDecisions, Failure>| match (&sides[0], side) {
            (Ok(one), Ok(other)) => first_difference(one, other),
            (Err(_), _) | (_, Err(_)) => None,
        };
        let differences = sides[1..].iter().map(difference).collect();
        let name = match cell.name.as_str() {
            "" => file.display().to_string(),
            cell => format!("{} [{cell}]", file.display()),
        };
        Compared { name, sides, differences }
    }

    /// Runs the file on one side. If a program fails before the end, the file counts as not run.
    fn side(&self, file: &Path, cell: &Cell, side: &CompareSide) -> Result<RunDecisions, Failure> {
        let overrides = one_cell(self.overrides(side, cell), side, file);
        let Loaded { rehearsal, expectations, outside, .. } =
            load(file, &overrides.lower(file)).map_err(|faults| Failure::Input(faults.to_string()))?;
        let mut session = outside.map(|setup| start(setup, &rehearsal)).transpose()?;
        let (progress, seed) = (Progress::default(), rehearsal.seed);
        let decider = session.as_mut().map(|session| session.as_decider());
        let ran =
            guarded_run(|| decide(&rehearsal, expectations, &progress, decider)).map_err(|broken| match broken {
                WorkFailure::Runaway(runaway) => Failure::Input(runaway_text(&runaway)),
                WorkFailure::Invariant(message) => {
                    Failure::Ours(fault_text(&message, seed, &progress, &overrides.repeat(file, seed)))
                }
            })?;
        let Some(session) = &mut session else { return Ok(ran) };
        session.end();
        match session.failure() {
            None => Ok(ran),
            Some(failure) => Err(Failure::Input(failure_text(failure, ran.end))),
        }
    }

    fn json(&self, all: &[Compared]) -> Value {
        let side = |(name, side): (&String, &Result<RunDecisions, Failure>)| match side {
            Err(failure) => json!({"with": name, "not_run": describe(failure)}),
            Ok(ran) => {
                let verdict = |verdict: &dryrack_expect::Verdict| json!({"name": verdict.name, "passed": verdict.passed, "why": verdict.why()});
                json!({
                    "with": name,
                    "digest": ran.digest.to_string(),
                    "expectations": ran.verdicts.iter().map(verdict).collect::<Vec<_>>(),
                    "metrics": ran.metrics,
                })
            }
        };
        let one = |compared: &Compared| {
            let differences: Vec<Value> = (self.with[1..].iter().zip(&compared.differences).enumerate())
                .map(|(index, (with, first))| json!({"with": with, "differs": compared.differs(index + 1), "first": first}))
                .collect();
            let sides: Vec<Value> = self.with.iter().zip(&compared.sides).map(side).collect();
            json!({"scenario": compared.name, "differences": differences, "sides": sides})
        };
        json!(all.iter().map(one).collect::<Vec<_>>())
    }

    fn human(&self, all: &[Compared]) -> String {
        let bold = anstyle::Style::new().bold();
        let mut text = String::new();
        for compared in all {
            let described: String = (self.with[1..].iter().zip(&compared.differences))
                .filter_map(|(with, difference)| Some(self.describe(with, difference.as_ref()?)))
                .collect();
            if !described.is_empty() {
                text.push_str(&format!("{bold}{}{bold:#}\n{described}\n", compared.name));
            }
        }
        match all {
            [only] => text.push_str(&self.outcome(only)),
            _ => text.push_str(&self.summary(all)),
        }
        text
    }

    /// Text about the first difference between the first side and another side.
    fn describe(&self, with: &str, difference: &Difference) -> String {
        let Difference { of, at, job, sides } = difference;
        let what = match of {
            DifferenceKind::Decision => "the first decision that differs",
            DifferenceKind::Reasons => "every decision is the same; the first with different reasons",
        };
        let mut text = format!("  {what}: {job} at {at}\n");
        for (name, side) in [&self.with[0], with].into_iter().zip(sides) {
            text.push_str(&format!("    {name}\n"));
            let SideDecision { decided, before, after } = side;
            for line in decided {
                text.push_str(&format!("      {line}\n"));
            }
            if decided.is_empty() {
                text.push_str(&format!("      nothing at {at}\n"));
                text.extend(before.as_ref().map(|line| format!("      before: {line}\n")));
                text.extend(after.as_ref().map(|line| format!("      after: {line}\n")));
            }
        }
        text
    }

    /// The result of a single scenario: the verdict on each expectation, and each metric that differs.
    fn outcome(&self, compared: &Compared) -> String {
        let ran: Vec<&RunDecisions> = compared.sides.iter().filter_map(|side| side.as_ref().ok()).collect();
        let names: Vec<&str> = self.with.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> = (0..ran[0].verdicts.len())
            .map(|index| {
                let word =
                    |ran: &&RunDecisions| ran.verdicts.get(index).map_or("", |found| passed(found.passed)).to_string();
                std::iter::once(ran[0].verdicts[index].name.to_string()).chain(ran.iter().map(word)).collect()
            })
            .collect();
        let mut text = match rows.is_empty() {
            true => String::new(),
            false => table(&[&["expectation"], names.as_slice()].concat(), &rows) + "\n",
        };
        let rows: Vec<Vec<String>> = (ran[0].metrics.iter())
            .filter(|(name, value)| ran.iter().any(|other| other.metrics.get(*name) != Some(value)))
            .map(|(name, _)| {
                let value = |ran: &&RunDecisions| shown(ran.metrics.get(name));
                std::iter::once(name.clone()).chain(ran.iter().map(value)).collect()
            })
            .collect();
        match rows.is_empty() {
            true => text.push_str("No metric differs.\n"),
            false => text.push_str(&table(&[&["metrics that differ"], names.as_slice()].concat(), &rows)),
        }
        if ran.iter().any(|other| other.end != ran[0].end) && !rows.is_empty() {
            let ends: Vec<String> = ran.iter().map(|ran| ran.end.to_string()).collect();
            text.push_str(&format!(
                "The runs end at {}, so their sums and shares of time do not cover the same span.\n",
                ends.join(", ")
            ));
        }
        text
    }

    /// The results of many scenarios, one line for each.
    fn summary(&self, all: &[Compared]) -> String {
        let rows: Vec<Vec<String>> = all.iter().map(|compared| self.row(compared)).collect();
        let firsts: Vec<String> = self.with[1..].iter().map(|with| format!("first difference of {with}")).collect();
        let names = self.with.iter().map(String::as_str);
        let header: Vec<&str> =
            std::iter::once("scenario").chain(names).chain(firsts.iter().map(String::as_str)).collect();
        let differ = all.iter().filter(|compared| compared.differs_at_all()).count();
        let unrun = all.iter().filter(|compared| compared.sides.iter().any(Result::is_err)).count();
        let lack = if unrun > 0 { format!("; {unrun} cannot run under each of them") } else { String::new() };
        format!("{}\n{differ} of {} differ{lack}\n", table(&header, &rows), counted(all.len(), "scenario"))
    }

    fn row(&self, compared: &Compared) -> Vec<String> {
        let outcome = |side: &Result<RunDecisions, Failure>| match side {
            Err(_) => "not run".to_string(),
            Ok(ran) => {
                let held = ran.verdicts.iter().filter(|verdict| verdict.passed).count();
                format!("{held} of {} hold", ran.verdicts.len())
            }
        };
        let first = |(index, difference): (usize, &Option<Difference>)| match difference {
            None if compared.differs(index + 1) => "only the outcome".to_string(),
            None => String::new(),
            Some(Difference { of: DifferenceKind::Decision, at, job, .. }) => format!("{job} at {at}"),
            Some(Difference { of: DifferenceKind::Reasons, at, job, .. }) => format!("reasons of {job} at {at}"),
        };
        let sides = compared.sides.iter().map(outcome);
        let firsts = compared.differences.iter().enumerate().map(first);
        std::iter::once(compared.name.clone()).chain(sides).chain(firsts).collect()
    }
}

/// A program decides in place of profiles. So of the cells that differ only in the profile, only the first is run.
fn one_cell(overrides: Overrides, side: &CompareSide, file: &Path) -> Overrides {
    if side.profile.is_some() {
        return overrides;
    }
    let cells = outline(file, &overrides.lower(file)).map_or_else(|_| Vec::new(), |known| known.cells);
    cells.first().map_or(overrides.clone(), |first| overrides.with_set(&first.set))
}

fn passed(passed: bool) -> &'static str {
    if passed { "holds" } else { "fails" }
}

/// Formats a metric for people.
fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "undefined".to_string(),
        Some(Value::Number(number)) if number.is_f64() => {
            let text = format!("{:.3}", number.as_f64().unwrap_or_default());
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Input(message) | Failure::Ours(message) | Failure::Killed(message) => message.clone(),
        Failure::BrokenPipe => String::new(),
    }
}
