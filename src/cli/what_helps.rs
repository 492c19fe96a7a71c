//! `dryrack what-helps`: runs a scenario with single changes, and says how many waiting hours each saves.

use std::path::{Path, PathBuf};

use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::fault::fault_text;
use super::guard::guarded;
use super::output::{Format, WholeFile, print, print_json, warn};
use super::progress;
use super::run::Overrides;
use super::shell::quoted;
use super::swarm::seeds;
use dryrack_engine::Progress;
use dryrack_metrics::ResampledFrom;
use dryrack_plan::{Change, Estimate, Saving, changes, estimate, saved, sort_savings, waiting_hours};
use dryrack_rehearse::rehearse;
use dryrack_report::{HelpsReport, about, table};
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

/// The largest number of seeds of the file that are used without `--seeds`.
const SEEDS: usize = 20;

/// One run: its waiting hours, and the 95th percentile of its waits in seconds.
type Waited = (f64, Option<f64>);

pub fn what_helps(args: &WhatHelpsArgs, format: Format) -> ExitResult {
    let options = args.overrides.lower(&args.file);
    let loaded = load(&args.file, &options).map_err(|faults| Failure::Input(faults.to_string()))?;
    warn(&loaded.warnings.to_string());
    let seeds = args.seeds(&loaded, &options)?;
    let changes = changes(&loaded.rehearsal);
    let all: Vec<Option<&Change>> = std::iter::once(None).chain(changes.iter().map(Some)).collect();
    let cells: Vec<(usize, u64)> =
        (0..all.len()).flat_map(|change| seeds.iter().map(move |seed| (change, *seed))).collect();
    let pool = super::test::pool(args.threads)?;
    let runs: Result<Vec<Result<Waited, String>>, Failure> = progress::with_bar((cells.len() as u64, "runs"), |bar| {
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
    let resampled = loaded.trace.as_ref().and_then(|trace| trace.resampled_from());
    let mut by_change = runs.chunks(seeds.len());
    let base = by_change.next().unwrap_or_default();
    let base: Vec<Waited> = base.iter().map(|run| run.clone().map_err(Failure::Input)).collect::<Result<_, _>>()?;
    let mut savings: Vec<Saving> =
        changes.into_iter().zip(by_change).map(|(change, runs)| saving(change, (&base, runs), resampled)).collect();
    sort_savings(&mut savings);
    let found = Found { args, title: &loaded.rehearsal.title, base: &base, savings: &savings, seeds: &seeds };
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
        Err(fault) => return Saving { change, saved: None, p95: None, fault: Some(fault) },
    };
    let hours = |runs: &[Waited]| runs.iter().map(|(hours, _)| *hours).collect::<Vec<f64>>();
    Saving { change, saved: saved(&hours(base), &hours(&all), resampled), p95: mean_p95(&all), fault: None }
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
    fn run(&self, change: Option<&Change>, seed: u64) -> Result<Result<Waited, String>, Failure> {
        let overrides = self.changed(change).and_seed(seed);
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
        Ok(Ok((waiting_hours(run.run_metrics.accounts()), p95)))
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

/// The result, ready to be shown.
struct Found<'a> {
    args: &'a WhatHelpsArgs,
    title: &'a str,
    base: &'a [Waited],
    savings: &'a [Saving],
    seeds: &'a [u64],
}

impl Found<'_> {
    fn base_hours(&self) -> f64 {
        self.base.iter().map(|(hours, _)| hours).sum::<f64>() / self.base.len() as f64
    }

    /// The flags that make the change on the command line.
    fn flags(change: &Change) -> String {
        let set = change.set.iter().map(|set| format!("--set {}", quoted(set)));
        let profile = change.profile.iter().map(|profile| format!("--profile {}", quoted(profile)));
        set.chain(profile).collect::<Vec<_>>().join(" ")
    }

    fn sentence(&self) -> String {
        let hours = self.base_hours();
        let of = format!("All replicas together wait {hours:.1} h with {}", counted(self.seeds.len(), "seed"));
        let best =
            self.savings.first().and_then(|best| Some((best, best.saved?.mean))).filter(|(_, saved)| *saved > 0.0);
        match best {
            Some((best, saved)) if hours > 0.0 => {
                let share = saved / hours * 100.0;
                format!("{of}. Most would be saved by {}: {saved:.1} h, or {share:.0}%.", best.change.what)
            }
            _ => format!("{of}. No single change that was tried saves any of it."),
        }
    }

    /// The cells of each row: the change, the hours saved, their share, the 95th percentile, and the flags.
    fn rows(&self) -> Vec<Vec<String>> {
        let hours = self.base_hours();
        let row = |saving: &Saving| {
            let saved = saving.saved.map_or_else(|| "not run".to_string(), |saved| hours_text(&saved));
            let share = saving
                .saved
                .filter(|_| hours > 0.0)
                .map_or(String::new(), |saved| format!("{:.0}%", saved.mean / hours * 100.0));
            let p95 = saving.p95.map_or(String::new(), |p95| about(SimDuration::from_nanos((p95 * 1e9) as u64)));
            let flags = saving.fault.clone().unwrap_or_else(|| Found::flags(&saving.change));
            vec![saving.change.what.clone(), saved, share, p95, flags]
        };
        self.savings.iter().map(row).collect()
    }

    fn human(&self) -> String {
        let bold = anstyle::Style::new().bold();
        let header = ["change", "hours saved", "share", "wait p95", "flags for `dryrack run`"];
        format!("{bold}{}{bold:#}\n{}\n\n{}", self.title, self.sentence(), table(&header, &self.rows()))
    }

    fn json(&self) -> Value {
        let saving = |saving: &Saving| {
            let interval = saving.saved.and_then(|saved| saved.interval());
            json!({
                "change": saving.change.what, "set": saving.change.set, "profile": saving.change.profile,
                "hours_saved": saving.saved.map(|saved| saved.mean), "interval": interval,
                "queue_wait_p95_seconds": saving.p95, "not_run": saving.fault,
                "command": self.args.changed(Some(&saving.change)).repeat(&self.args.file, self.seeds[0]),
            })
        };
        json!({
            "scenario": self.title, "answer": self.sentence(), "seeds": self.seeds, "hours_waited": self.base_hours(),
            "changes": self.savings.iter().map(saving).collect::<Vec<_>>(),
        })
    }

    fn write(&self, dir: &Path) -> Result<(), Failure> {
        std::fs::create_dir_all(dir).map_err(|error| Failure::file(dir, format!("cannot be created: {error}")))?;
        let mut json = serde_json::to_string_pretty(&self.json()).expect("it has a JSON form");
        json.push('\n');
        WholeFile::write(&dir.join("what-helps.json"), json.as_bytes())?;
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(["change", "hours_saved", "low", "high", "queue_wait_p95_seconds", "flags"])
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
                Found::flags(&saving.change),
            ])
            .expect("written into memory");
        }
        WholeFile::write(&dir.join("what-helps.csv"), &csv.into_inner().expect("written into memory"))?;
        let name = self.args.file.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let report = HelpsReport {
            title: self.title.to_string(),
            answer: self.sentence(),
            rows: self.rows(),
            command: format!("dryrack what-helps {} --out DIR", quoted(&name)),
        };
        WholeFile::write(&dir.join("report.html"), report.html().as_bytes())
    }
}

/// Formats hours such as `12.3 ± 0.4` or `12.3 (8.1 to 20.4)`.
fn hours_text(saved: &Estimate) -> String {
    match (saved.range, saved.half_width) {
        (Some((low, high)), _) => format!("{:.1} ({low:.1} to {high:.1})", saved.mean),
        (None, Some(half)) => format!("{:.1} ± {half:.1}", saved.mean),
        (None, None) => format!("{:.1}", saved.mean),
    }
}
