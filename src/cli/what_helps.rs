//! `dryrack what-helps`: runs a scenario with single changes, and says how many waiting hours each saves.

use std::path::{Path, PathBuf};

use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::fault::{fault_text, first_line};
use super::guard::guarded;
use super::output::{Format, WholeFile, print, print_json, warn};
use super::progress;
use super::run::Overrides;
use super::swarm::seeds;
use dryrack_engine::Progress;
use dryrack_metrics::ResampledFrom;
use dryrack_outside::quoted;
use dryrack_plan::{Change, Changes, Estimate, Saving, WaitTotal, changes, estimate, saved, sort_savings};
use dryrack_rehearse::rehearse;
use dryrack_report::{HelpsReport, about, table};
use dryrack_rng::draws;
use dryrack_scenario::{Loaded, Options, load, outline};
use dryrack_scheduler::Caching;
use dryrack_units::{SimDuration, counted};

#[derive(Debug, Args)]
pub struct WhatHelpsArgs {
    /// Scenario file
    file: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// Seeds to run with, both ends included, such as 1..20 [default: the first 20 seeds of the file]
    #[arg(long, value_name = "FROM..TO", value_parser = seeds)]
    seeds: Option<std::ops::RangeInclusive<u64>>,
    /// Write report.html, what-helps.csv and what-helps.json to DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

/// The name of the scenario without a change.
const UNCHANGED: &str = "unchanged";

/// The fewest waiting hours of which a part is worth saving. Fewer hours are written as 0.0.
const LEAST_HOURS: f64 = 0.05;

/// The largest number of seeds of the file that are used without `--seeds`.
const SEEDS: usize = 20;

/// One run: its waits, and the 95th percentile of its waits in seconds.
type Waited = (WaitTotal, Option<f64>);

/// A run, and whether it drew a random number.
type Drawn = (Waited, bool);

pub fn what_helps(args: &WhatHelpsArgs, format: Format) -> ExitResult {
    let options = args.overrides.lower(&args.file);
    let loaded = load(&args.file, &options).map_err(|faults| Failure::Input(faults.to_string()))?;
    warn(&loaded.warnings.to_string());
    let seeds = args.seeds(&loaded, &options)?;
    let Changes { changes, kinds_left_out, filters } = changes(&loaded.rehearsal);
    let all: Vec<Option<&Change>> = std::iter::once(None).chain(changes.iter().map(Some)).collect();
    let cells: Vec<(usize, u64)> =
        (0..all.len()).flat_map(|change| seeds.iter().map(move |seed| (change, *seed))).collect();
    let pool = super::test::pool(args.threads)?;
    let runs: Result<Vec<Result<Drawn, String>>, Failure> = progress::with_bar((cells.len() as u64, "runs"), |bar| {
        pool.install(|| {
            let run = |(change, seed): &(usize, u64)| {
                let run = args.run(all[*change], *seed);
                bar.inc(1);
                run
            };
            cells.par_iter().map(run).collect()
        })
    });
    let runs = runs?;
    let is_random = runs.iter().flatten().any(|(_, is_random)| *is_random);
    let runs: Vec<Result<Waited, String>> = runs.into_iter().map(|run| run.map(|(waited, _)| waited)).collect();
    let resampled = loaded.trace.as_ref().and_then(|trace| trace.resampled_from());
    let mut by_change = runs.chunks(seeds.len());
    let base = by_change.next().unwrap_or_default();
    let base: Vec<Waited> = base.iter().map(|run| run.clone().map_err(Failure::Input)).collect::<Result<_, _>>()?;
    let mut savings: Vec<Saving> =
        changes.into_iter().zip(by_change).map(|(change, runs)| saving(change, (&base, runs), resampled)).collect();
    sort_savings(&mut savings);
    let title = &loaded.rehearsal.title;
    let profile = &loaded.rehearsal.profile.name;
    let untried = (!filters.is_empty()).then(|| untried_profiles(profile, &filters));
    // With other seeds, other jobs may be in it.
    let which = if seeds.len() > 1 && is_random { ", in the first run" } else { "" };
    let in_warm_up = loaded.in_warm_up().map(|line| format!(" {line}{which}."));
    let (base, savings, seeds) = (&base[..], &savings[..], &seeds[..]);
    let found = Found { args, title, base, savings, seeds, is_random, kinds_left_out, untried, in_warm_up };
    if let Some(dir) = &args.out {
        found.write(dir)?;
    }
    match format {
        Format::Human => print(&found.human())?,
        Format::Json => print_json(&found.json())?,
    }
    Ok(Exit::Fine)
}

fn saving(
    change: Change,
    (base, runs): (&[Waited], &[Result<Waited, String>]),
    resampled: Option<ResampledFrom>,
) -> Saving {
    let all: Result<Vec<Waited>, String> = runs.iter().cloned().collect();
    let all = match all {
        Ok(all) => all,
        Err(fault) => {
            return Saving { change, saved: None, p95: None, never: None, ended_early: None, fault: Some(fault) };
        }
    };
    let waits = |runs: &[Waited]| runs.iter().map(|(waits, _)| *waits).collect::<Vec<WaitTotal>>();
    let saved = saved(&waits(base), &waits(&all), resampled);
    let more = |(before, after): (&Waited, &Waited)| after.0.ended_early.saturating_sub(before.0.ended_early);
    let ended_early = base.iter().zip(&all).map(more).max();
    Saving { change, saved, p95: mean_p95(&all), never: most_never(&all), ended_early, fault: None }
}

/// The largest number of replicas of a run that can never run.
fn most_never(runs: &[Waited]) -> Option<u64> {
    runs.iter().map(|(waits, _)| waits.never).max()
}

fn mean_p95(runs: &[Waited]) -> Option<f64> {
    let known: Option<Vec<f64>> = runs.iter().map(|(_, p95)| *p95).collect();
    estimate(&known?).map(|found| found.mean)
}

impl WhatHelpsArgs {
    fn seeds(&self, loaded: &Loaded, options: &Options) -> Result<Vec<u64>, Failure> {
        if let Some(seeds) = &self.seeds {
            return Ok(seeds.clone().collect());
        }
        let outline = outline(&self.file, options).map_err(|faults| Failure::Input(faults.to_string()))?;
        let own: Vec<u64> = outline.seeds.into_iter().take(SEEDS).collect();
        Ok(if own.is_empty() || self.overrides.names_seed() { vec![loaded.rehearsal.seed] } else { own })
    }

    fn changed(&self, change: Option<&Change>) -> Overrides {
        let Some(change) = change else { return self.overrides.clone() };
        let overrides = self.overrides.clone().with_set(&change.set);
        match &change.profile {
            Some(profile) => overrides.and_profile(profile),
            None => overrides,
        }
    }

    /// Runs the file with a change. The inner error is the first fault of the changed file.
    fn run(&self, change: Option<&Change>, seed: u64) -> Result<Result<Drawn, String>, Failure> {
        let overrides = self.changed(change).and_seed(seed);
        let drawn = draws();
        let loaded = match load(&self.file, &overrides.lower(&self.file)) {
            Ok(loaded) => loaded,
            Err(faults) => return Ok(Err(first_line(&faults.to_string()))),
        };
        let progress = Progress::default();
        let work = || rehearse(&loaded.rehearsal, Vec::new(), &progress, Caching::On, Vec::new());
        let command = overrides.repeat(&self.file, seed);
        let run = guarded(work).map_err(|message| Failure::Ours(fault_text(&message, seed, &progress, &command)))?;
        let p95 = match run.run_metrics.metrics().get("queue_wait_p95_seconds") {
            Some(dryrack_metrics::Value::Time(wait)) => Some(wait.as_secs_f64()),
            _ => None,
        };
        Ok(Ok(((WaitTotal::of(run.run_metrics.accounts()), p95), draws() != drawn)))
    }
}

/// The result, ready to be shown.
struct Found<'a> {
    args: &'a WhatHelpsArgs,
    title: &'a str,
    base: &'a [Waited],
    savings: &'a [Saving],
    seeds: &'a [u64],
    /// Whether some run drew a random number, so that seeds can make a difference.
    is_random: bool,
    kinds_left_out: usize,
    /// Why no other profile was tried.
    untried: Option<String>,
    /// What the hours leave out because of a warm-up.
    in_warm_up: Option<String>,
}

impl Found<'_> {
    fn base_hours(&self) -> f64 {
        self.base.iter().map(|(waits, _)| waits.hours()).sum::<f64>() / self.base.len() as f64
    }

    /// The flags with which `dryrack run` makes the change: those of the user, and those of the change.
    fn flags(&self, change: &Change) -> String {
        let overrides = self.args.changed(Some(change));
        (overrides.seed_flag() + &overrides.flags()).trim_start().to_string()
    }

    /// The command that prints this result again.
    fn command(&self) -> String {
        let overrides = &self.args.overrides;
        let file = quoted(&self.args.file.display().to_string());
        let seeds = self.args.seeds.as_ref();
        let seeds = seeds.map_or(String::new(), |seeds| format!(" --seeds {}..{}", seeds.start(), seeds.end()));
        format!("dryrack what-helps {file}{}{}{seeds} --out DIR", overrides.seed_flag(), overrides.flags())
    }

    /// Whether any run has a replica that can never run.
    fn has_never(&self) -> bool {
        most_never(self.base) > Some(0) || self.savings.iter().any(|saving| saving.never > Some(0))
    }

    /// Whether more jobs than without a change end early with one.
    fn has_early(&self) -> bool {
        self.savings.iter().any(|saving| saving.ended_early > Some(0))
    }

    fn header(&self) -> Vec<&'static str> {
        let never = self.has_never().then_some("never run");
        let start = ["change", "hours saved", "share", "wait p95"];
        let early = self.has_early().then_some("jobs ended early");
        start.into_iter().chain(never).chain(early).chain(["flags for `dryrack run`"]).collect()
    }

    fn sentence(&self) -> String {
        let hours = self.base_hours();
        let seeds = match (self.seeds.len(), self.is_random) {
            (1, _) => "with 1 seed".to_string(),
            (several, true) => format!("on average, with {several} seeds"),
            (several, false) => format!("with each of {several} seeds, because nothing is random"),
        };
        let of = match () {
            () if hours >= LEAST_HOURS => format!("All replicas together wait {hours:.1} h {seeds}."),
            () if hours > 0.0 => format!("All replicas together wait {} {seeds}.", about_hours(hours)),
            () => format!("No replica waits with {}.", counted(self.seeds.len(), "seed")),
        };
        let never = match most_never(self.base) {
            None | Some(0) => String::new(),
            Some(never) => {
                let are = if never == 1 { "is" } else { "are" };
                let stuck = counted(never as usize, "replica");
                format!(" {stuck} can never run, and {are} not counted. {}", never_text(self.savings, never))
            }
        };
        // Without waits, whoever can never run is what there is to mend.
        let best = match never.is_empty() || hours >= LEAST_HOURS {
            true => format!(" {}", best_text(self.savings, hours)),
            false => String::new(),
        };
        let left_out = match self.kinds_left_out {
            0 => String::new(),
            kinds => format!(" One more node was not tried for {} of nodes.", counted(kinds, "further kind")),
        };
        let early = early_text(self.savings);
        let [untried, in_warm_up] = [&self.untried, &self.in_warm_up].map(|text| text.as_deref().unwrap_or_default());
        format!("{of}{never}{best}{early}{left_out}{untried}{in_warm_up}")
    }

    /// The cells of each row: the change, the hours saved, their share, the 95th percentile, and the flags. The first row is
    /// the scenario without a change.
    fn rows(&self) -> Vec<Vec<String>> {
        let hours = self.base_hours();
        let row = |saving: &Saving| {
            let saved = saving.saved.map_or_else(|| "not run".to_string(), |saved| hours_text(&saved));
            let share = saving.saved.map_or(String::new(), |saved| share_text(saved.mean, hours));
            let flags = saving.fault.clone().unwrap_or_else(|| self.flags(&saving.change));
            let numbers = (saving.never, saving.ended_early);
            self.cells([saving.change.what.clone(), saved, share], saving.p95, numbers, flags)
        };
        let none = [UNCHANGED, "", ""].map(str::to_string);
        let unchanged =
            self.cells(none, mean_p95(self.base), (most_never(self.base), None), self.flags(&Change::default()));
        std::iter::once(unchanged).chain(self.savings.iter().map(row)).collect()
    }

    fn cells(
        &self,
        start: [String; 3],
        p95: Option<f64>,
        (never, early): (Option<u64>, Option<u64>),
        flags: String,
    ) -> Vec<String> {
        let p95 = p95.map_or(String::new(), |p95| about(SimDuration::from_nanos((p95 * 1e9) as u64)));
        let never = self.has_never().then(|| never.map_or(String::new(), |never| never.to_string()));
        let early = self.has_early().then(|| early.map_or(String::new(), |early| format!("{early} more")));
        start.into_iter().chain([p95]).chain(never).chain(early).chain([flags]).collect()
    }

    fn human(&self) -> String {
        let bold = anstyle::Style::new().bold();
        format!("{bold}{}{bold:#}\n{}\n\n{}", self.title, self.sentence(), table(&self.header(), &self.rows()))
    }

    fn json(&self) -> Value {
        let saving = |saving: &Saving| {
            let interval = saving.saved.and_then(|saved| saved.interval());
            json!({
                "change": saving.change.what, "set": saving.change.set, "profile": saving.change.profile,
                "hours_saved": saving.saved.map(|saved| saved.mean), "interval": interval,
                "queue_wait_p95_seconds": saving.p95, "never_run": saving.never,
                "jobs_ended_early": saving.ended_early, "not_run": saving.fault,
                "command": self.args.changed(Some(&saving.change)).repeat(&self.args.file, self.seeds[0]),
            })
        };
        json!({
            "scenario": self.title, "answer": self.sentence(), "seeds": self.seeds, "hours_waited": self.base_hours(),
            "never_run": most_never(self.base), "queue_wait_p95_seconds": mean_p95(self.base),
            "changes": self.savings.iter().map(saving).collect::<Vec<_>>(),
        })
    }

    fn write(&self, dir: &Path) -> Result<(), Failure> {
        std::fs::create_dir_all(dir).map_err(|error| Failure::uncreated(dir, &error))?;
        let mut json = serde_json::to_string_pretty(&self.json()).expect("it has a JSON form");
        json.push('\n');
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(["change", "hours_saved", "low", "high", "queue_wait_p95_seconds", "never_run", "flags"])
            .expect("written into memory");
        for saving in self.savings {
            let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            let interval = saving.saved.and_then(|saved| saved.interval());
            csv.write_record([
                saving.change.what.clone(),
                number(saving.saved.map(|saved| saved.mean)),
                number(interval.map(|(low, _)| low)),
                number(interval.map(|(_, high)| high)),
                number(saving.p95),
                saving.never.map_or(String::new(), |never| never.to_string()),
                self.flags(&saving.change),
            ])
            .expect("written into memory");
        }
        let report = HelpsReport {
            title: self.title.to_string(),
            answer: self.sentence(),
            header: self.header(),
            rows: self.rows(),
            command: self.command(),
        };
        WholeFile::write_all([
            (dir.join("what-helps.json"), json.into_bytes()),
            (dir.join("what-helps.csv"), csv.into_inner().expect("written into memory")),
            (dir.join("report.html"), report.html().into_bytes()),
        ])
    }
}

/// Why no other profile was tried, as a sentence.
fn untried_profiles(profile: &str, filters: &[&str]) -> String {
    let filters: Vec<String> = filters.iter().map(|filter| format!("`{filter}`")).collect();
    let word = if filters.len() == 1 { "filter" } else { "filters" };
    format!(" No other profile was tried, because none has the {word} {} of {profile}.", filters.join(" and "))
}

/// The change with which most of the replicas can run that can never run now, as a sentence.
fn never_text(savings: &[Saving], never: u64) -> String {
    let same_jobs = savings.iter().filter(|saving| saving.change.keeps_jobs());
    let with = same_jobs.filter_map(|saving| Some((saving.never?, &saving.change.what)));
    match with.min_by_key(|(left, _)| *left).filter(|(left, _)| *left < never) {
        Some((0, what)) => format!("With {what}, all of them can run."),
        Some((left, what)) => format!("With {what}, all but {left} of them can run."),
        None => "No single change that was tried lets one of them run.".to_string(),
    }
}

/// A sentence about changes that save waiting hours while more jobs fail, are lost, or reach a time limit. `savings` are
/// sorted.
fn early_text(savings: &[Saving]) -> String {
    let saves = savings.iter().filter(|saving| saving.saved.is_some_and(|saved| saved.mean > 0.0));
    let early = saves.filter_map(|saving| Some((&saving.change.what, saving.ended_early.filter(|early| *early > 0)?)));
    let each: Vec<String> = early.take(3).map(|(what, early)| format!("{early} with {what}")).collect();
    match each.is_empty() {
        true => String::new(),
        false => format!(" But more jobs fail, are lost, or reach a time limit: {}.", each.join(", ")),
    }
}

/// The change that saves most, as a sentence. A change clearly saves hours if its whole interval is above 0, or if it
/// saves the same with each seed. `savings` are sorted.
fn best_text(savings: &[Saving], hours: f64) -> String {
    if hours < LEAST_HOURS {
        return "There is next to nothing to save.".to_string();
    }
    let known = savings.iter().filter_map(|saving| Some((saving, saving.saved?)));
    let saves: Vec<(&Saving, Estimate)> = known.filter(|(_, saved)| saved.mean > 0.0).collect();
    let Some((best, most)) = saves.first() else {
        return "No single change that was tried saves any of it.".to_string();
    };
    let is_clear = |saved: &Estimate| saved.interval().map_or(saved.is_constant, |(low, _)| low > 0.0);
    let amount = |saved: f64| format!("{} h, or {}%", rounded::<1>(saved), rounded::<0>(saved / hours * 100.0));
    let on_average = format!("{}: {} h", best.change.what, hours_text(most));
    match saves.iter().find(|(_, saved)| is_clear(saved)) {
        None => format!("No change clearly saves any; the most on average is {on_average}."),
        Some((clear, saved)) if clear.change == best.change => {
            format!("Most would be saved by {}: {}.", best.change.what, amount(saved.mean))
        }
        Some((clear, saved)) => format!(
            "Most is clearly saved by {}: {}. More on average, but not clearly, is {on_average}.",
            clear.change.what,
            amount(saved.mean)
        ),
    }
}

/// The saved part of all waiting hours. Empty if there are too few of them. A loss of many times as many has no number, which
/// would mostly say how few they are.
fn share_text(saved: f64, hours: f64) -> String {
    match saved / hours * 100.0 {
        _ if hours < LEAST_HOURS => String::new(),
        share if share < -999.0 => "<-999%".to_string(),
        share => format!("{}%", rounded::<0>(share)),
    }
}

fn about_hours(hours: f64) -> String {
    about(SimDuration::from_nanos((hours * 3.6e12) as u64))
}

/// A number with this many decimals; 0 never has a minus sign.
fn rounded<const DECIMALS: usize>(number: f64) -> String {
    let text = format!("{number:.DECIMALS$}");
    let is_zero = !text.contains(|letter: char| ('1'..='9').contains(&letter));
    if is_zero { text.trim_start_matches('-').to_string() } else { text }
}

/// Formats hours such as `12.3 ± 0.4` or `12.3 (8.1 to 20.4)`.
fn hours_text(saved: &Estimate) -> String {
    let mean = rounded::<1>(saved.mean);
    match (saved.range, saved.half_width) {
        (Some((low, high)), _) => format!("{mean} ({} to {})", rounded::<1>(low), rounded::<1>(high)),
        (None, Some(half)) => format!("{mean} ± {half:.1}"),
        (None, None) => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change with its mean and half the width of its interval.
    fn saving(what: &str, mean: f64, half_width: Option<f64>) -> Saving {
        Saving {
            change: Change { what: what.to_string(), ..Change::default() },
            saved: Some(Estimate { mean, half_width, range: None, runs: 5, is_constant: half_width.is_none() }),
            p95: None,
            never: Some(0),
            ended_early: Some(0),
            fault: None,
        }
    }

    /// With 10% less load, 51 of 486 jobs that can never run are not there.
    #[test]
    fn fewer_jobs_let_none_run() {
        let with = |what: &str, set: &str, never: u64| {
            let mut saving = saving(what, 1.0, None);
            (saving.change.set, saving.never) = (vec![set.to_string()], Some(never));
            saving
        };
        let less = || with("10% less load", "load=90%", 435);
        assert_eq!(never_text(&[less()], 486), "No single change that was tried lets one of them run.");
        let more = with("twice the RAM in each node", "nodes.n.ram=4TiB", 440);
        assert_eq!(never_text(&[less(), more], 486), "With twice the RAM in each node, all but 440 of them can run.");
    }

    #[test]
    fn what_is_not_clear_is_not_said_to_save() {
        let rows = [
            (vec![saving("A", 5.0, None)], "Most would be saved by A: 5.0 h, or 25%."),
            (vec![saving("A", 5.0, Some(4.9))], "Most would be saved by A: 5.0 h, or 25%."),
            (
                vec![saving("A", 5.0, Some(5.1)), saving("B", 0.0, None)],
                "No change clearly saves any; the most on average is A: 5.0 ± 5.1 h.",
            ),
            (
                vec![saving("A", 5.0, Some(5.1)), saving("B", 2.0, Some(0.5))],
                "Most is clearly saved by B: 2.0 h, or 10%. More on average, but not clearly, is A: 5.0 ± 5.1 h.",
            ),
            (vec![saving("A", -1.0, Some(0.5))], "No single change that was tried saves any of it."),
        ];
        for (savings, expected) in rows {
            assert_eq!(best_text(&savings, 20.0), expected);
        }
        let mut few = saving("A", 5.0, None);
        few.saved.as_mut().expect("it has one").is_constant = false;
        assert_eq!(best_text(&[few], 20.0), "No change clearly saves any; the most on average is A: 5.0 h.");
    }

    #[test]
    fn where_almost_nothing_waits_no_part_of_it_is_said_to_be_saved() {
        assert_eq!(best_text(&[saving("A", 0.04, None)], 0.04), "There is next to nothing to save.");
        assert_eq!((share_text(-14.1, 0.045), share_text(0.0, 0.0)), (String::new(), String::new()));
        assert_eq!((share_text(-14.1, 0.1), share_text(-7.0, 3.5)), ("<-999%".into(), "-200%".into()));
    }

    #[test]
    fn zero_has_no_sign() {
        let of = |mean, range| hours_text(&Estimate { mean, half_width: None, range, runs: 2, is_constant: false });
        assert_eq!(of(-0.04, None), "0.0");
        assert_eq!(of(-0.06, Some((-0.3, 0.01))), "-0.1 (-0.3 to 0.0)");
        assert_eq!(rounded::<0>(-0.4), "0");
        assert_eq!(rounded::<0>(-10.0), "-10");
    }
}
