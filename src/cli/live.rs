//! `dryrack live`: runs a scenario's jobs as real processes on this machine. The forecast is made before they start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::fault::fault_text;
use super::guard::guarded;
use super::output::{Format, WholeFile, print, print_json, warn};
use super::run::Overrides;
use super::validate::{SHOWN, agreement_json, agreement_text, interval_of};
use dryrack_engine::{Progress, Rehearsal};
use dryrack_event::{FleetFact, Input, LiveHeader, LogHeader, Prediction, Sink};
use dryrack_expect::{Expectation, Horizon, Judge, Verdict};
use dryrack_live::clock::Clock;
use dryrack_live::probe::{GpuSource, Guarded, Roots, ThisMachine};
use dryrack_live::{Cluster, LiveEnd, PendingRun, Shares};
use dryrack_metrics::{RunAccount, RunMetrics};
use dryrack_rehearse::{header, names, rehearse};
use dryrack_report::LogWriter;
use dryrack_scenario::load;
use dryrack_scheduler::Caching;
use dryrack_units::SimDuration;
use dryrack_validation::{Timelines, compare};

#[derive(Debug, Args)]
pub struct LiveArgs {
    /// Scenario file whose jobs have commands
    file: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// File for the event log [default: the name of the scenario file with `.live.jsonl`, in the current folder]
    #[arg(long, value_name = "LOG")]
    log: Option<PathBuf>,
    /// Keep the output of each task in a separate file in DIR
    #[arg(long, value_name = "DIR")]
    outputs: Option<PathBuf>,
    /// System that runs the jobs and decides where and when [default: this machine, under the profile of the file]
    #[arg(long, value_name = "SYSTEM")]
    on: Option<System>,
    /// Interval at which to ask Slurm for the states of its jobs
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "on")]
    every: SimDuration,
    /// End the run if Slurm gives no answer for this long
    #[arg(long, value_name = "TIME", default_value = "30s", requires = "on")]
    patience: SimDuration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum System {
    Slurm,
}

impl LiveArgs {
    /// The Slurm cluster, if `--on slurm` is given. Its decisions then enter the control plane as inputs.
    fn cluster(&self, work: &mut PendingRun) -> Result<Option<Cluster>, Failure> {
        let Some(System::Slurm) = self.on else { return Ok(None) };
        if self.every.is_zero() {
            return Err(Failure::Input("error: `--every 0s` leaves no time between two polls; write 1s".to_string()));
        }
        let refused = |faults: Vec<String>| {
            let lines: Vec<String> = faults.iter().map(|fault| format!("error: {fault}")).collect();
            Failure::Input(lines.join("\n"))
        };
        let cluster = Cluster::find(work, self.every, self.patience).map_err(refused)?;
        let profile = work.profile.decided_outside().to_data().to_string();
        work.declarations.push(Input::Fleet(FleetFact::Reconfigure { profile: Arc::from(profile) }));
        Ok(Some(cluster))
    }
}

pub fn live(args: &LiveArgs, format: Format) -> ExitResult {
    let loaded = load(&args.file, &args.overrides.lower(&args.file));
    let loaded = loaded.map_err(|diagnostics| Failure::Input(diagnostics.to_string()))?;
    warn(&loaded.warnings.to_string());
    let (rehearsal, expectations) = (loaded.rehearsal, loaded.expectations);
    let cores = dryrack_live::cores()?;
    let mut work = work(&rehearsal, loaded.shares_of_cpu, args.outputs.as_deref());
    refuse(&args.file, &rehearsal, &work, args.on.is_none().then_some(cores))?;
    let cluster = args.cluster(&mut work)?;
    if let Some(folder) = &args.outputs {
        std::fs::create_dir_all(folder).map_err(|error| Failure::uncreated(folder, &error))?;
    }
    let progress = Progress::default();
    let command = args.overrides.repeat(&args.file, rehearsal.seed);
    let fault = |message: String| Failure::Ours(fault_text(&message, rehearsal.seed, &progress, &command));
    let predicted = guarded(|| predict(&rehearsal, &progress)).map_err(fault)?;
    let shown = predicted.digest.get(..SHOWN).unwrap_or_default().to_string();
    let began = Clock::start().wall_at_start().to_string();
    let on = cluster.as_ref().map(|cluster| format!("slurm {}", cluster.release));
    let every = on.is_some().then_some(args.every);
    let live = LiveHeader { began, cores: cores as u32, on, every, predicted };
    let header = LogHeader { live: Some(live), ..header(&rehearsal) };
    let path = args.log.clone().unwrap_or_else(|| default_log(&args.file));
    let mut log = LogWriter::new(WholeFile::create(&path)?, &header)?;
    // Write the header to the file before any job starts, because it holds the forecast.
    log.keep()?;
    warn(&format!(
        "predicted, before the start: digest {shown}; store it elsewhere to prove later that the prediction came \
         first\n"
    ));
    let mut results = LiveResults::new(expectations, &rehearsal);
    let gpus = (cluster.is_none() && work.has_real_gpus()).then(gpus);
    let run = || {
        let mut sinks: Vec<&mut dyn Sink> =
            vec![&mut log, &mut results.behaviors, &mut results.judge, &mut results.accounts];
        match cluster {
            None => dryrack_live::run(&work, gpus, &mut sinks),
            Some(cluster) => dryrack_live::run_on_slurm(&work, cluster, &mut sinks),
        }
    };
    let end = match guarded(run).map_err(fault)? {
        Ok(end) => end,
        Err(error) => {
            let partial = log.unfinished().0.leave();
            let part = format!("the run was ended; its log up to then is {}", partial.display());
            return Err(Failure::Input(format!("error: {error}; {part}\n")));
        }
    };
    let stored = log.finish(end.at).map_err(Failure::from).and_then(|log| log.keep(Ok(())));
    // Print the result even if its log cannot be stored: the run cannot be repeated.
    let exit = print_result(&path, &rehearsal, &header, results, end, format)?;
    stored.map(|()| exit)
}

/// The source of readings of this machine's GPUs.
fn gpus() -> Guarded {
    Guarded::new(Box::new(ThisMachine::new(Roots::default(), GpuSource::Any)), Arc::new(Clock::start()))
}

/// The results collected during the run, besides the log.
struct LiveResults {
    behaviors: Timelines,
    judge: Judge,
    accounts: RunAccount,
}

impl LiveResults {
    fn new(expectations: Vec<Expectation>, rehearsal: &Rehearsal) -> LiveResults {
        let judge = Judge::new(expectations, names(rehearsal));
        LiveResults { behaviors: Timelines::new(names(rehearsal)), judge, accounts: RunAccount::default() }
    }
}

fn work(rehearsal: &Rehearsal, shares: Shares, outputs: Option<&Path>) -> PendingRun {
    PendingRun {
        seed: rehearsal.seed,
        profile: rehearsal.profile.clone(),
        declarations: rehearsal.declarations(),
        nodes: rehearsal.nodes.iter().map(|node| node.spec.clone()).collect(),
        arrivals: rehearsal.arrivals.clone(),
        cancellations: rehearsal.cancellations.clone(),
        scalings: rehearsal.scalings.clone(),
        evaluations: rehearsal.evaluations.clone(),
        until: rehearsal.until,
        shares,
        outputs: outputs.map(Path::to_path_buf),
    }
}

/// Refuses the whole file if this machine cannot run some part of it.
fn refuse(file: &Path, rehearsal: &Rehearsal, work: &PendingRun, cores: Option<usize>) -> Result<(), Failure> {
    let mut faults = work.faults(cores);
    if !rehearsal.faults.is_empty() {
        faults.push("`faults` and `failures` have no effect in a live run: only real faults happen".to_string());
    }
    let lines: Vec<String> = faults.iter().map(|fault| format!("error: {}: {fault}", file.display())).collect();
    if lines.is_empty() { Ok(()) } else { Err(Failure::Input(lines.join("\n"))) }
}

fn predict(rehearsal: &Rehearsal, progress: &Progress) -> Prediction {
    let mut behaviors = Timelines::new(names(rehearsal));
    let rehearsed = rehearse(rehearsal, Vec::new(), progress, Caching::On, vec![&mut behaviors]);
    Prediction {
        digest: rehearsed.digest.to_string(),
        records: rehearsed.run_metrics.accounts().records,
        end: rehearsed.until,
        attempts: behaviors.finish(),
    }
}

fn default_log(file: &Path) -> PathBuf {
    let stem = file.file_stem().map_or("scenario".into(), |stem| stem.to_string_lossy().into_owned());
    PathBuf::from(format!("{stem}.live.jsonl"))
}

fn print_result(
    path: &Path,
    rehearsal: &Rehearsal,
    header: &LogHeader,
    mut results: LiveResults,
    end: LiveEnd,
    format: Format,
) -> ExitResult {
    results.accounts.finish(end.at);
    let run_metrics = RunMetrics::of(results.accounts);
    let whole = !end.interrupted && !end.cut_short && end.broken.is_none();
    let verdicts = if whole { results.judge.finish(Horizon::Everything, &run_metrics) } else { Vec::new() };
    let predicted = &header.live.as_ref().expect("written above").predicted;
    let blind = compare(&predicted.attempts, &results.behaviors.finish(), |job| interval_of(rehearsal, job));
    match format {
        Format::Human => {
            let mut text = format!("{}\n  log  {}\n", rehearsal.title, path.display());
            if end.interrupted {
                text.push_str("  interrupted: the remaining jobs were cancelled\n");
            }
            text.extend(end.broken.iter().map(|why| format!("  ended: {why}\n")));
            text.extend(end.notes.iter().map(|note| format!("  note: {note}\n")));
            text.push_str(&agreement_text("blind", &blind, None));
            text.extend(verdicts.iter().map(verdict_line));
            print(&text)?;
        }
        Format::Json => {
            let expectations: Vec<_> = (verdicts.iter())
                .map(|verdict| json!({"name": verdict.name, "passed": verdict.passed, "why": verdict.why()}))
                .collect();
            print_json(&json!({
                "scenario": rehearsal.title,
                "log": path.display().to_string(),
                "interrupted": end.interrupted,
                "cut_short": end.cut_short,
                "broken": end.broken,
                "notes": end.notes,
                "seconds": end.at.as_secs_f64(),
                "steps": end.steps,
                "blind": agreement_json(&blind),
                "expectations": expectations,
            }))?;
        }
    }
    let is_ended = end.interrupted || end.broken.is_some();
    Ok(if is_ended || verdicts.iter().any(|verdict| !verdict.passed) { Exit::Failed } else { Exit::Fine })
}

fn verdict_line(verdict: &Verdict) -> String {
    match verdict.passed {
        true => format!("  passed  {}\n", verdict.name),
        false => format!("  FAILED  {}: {}\n", verdict.name, verdict.why()),
    }
}
