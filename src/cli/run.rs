//! `dryrack run`: runs one scenario and reports the result.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::decider::{OutsideArgs, OutsideChoice, Started, decider, farewell, named_after, with_decider};
use super::exit::{Exit, ExitResult, Failure};
use super::fault::fault_text;
use super::guard::guarded;
use super::output::{Format, WholeFile, print, print_json, warn};
use super::picture::{Picture, PictureFile, picture_file};
use super::progress::{with_line, with_share};
use super::roots::options;
use dryrack_engine::{Progress, Rehearsal};
use dryrack_event::Sink;
use dryrack_expect::Reproduction;
use dryrack_metrics::{Metrics, wait_sections};
use dryrack_outside::{ProgramName, Setup, quoted};
use dryrack_profile::ComparedBase;
use dryrack_rehearse::{Rehearsed, header, rehearse_streamed};
use dryrack_report::{Heading, LogWriter, RunReport, Spans, summary, write_jobs_csv, write_nodes_csv, write_perfetto};
use dryrack_rng::draws;
use dryrack_scenario::{Loaded, Options, TraceUse, load};
use dryrack_scheduler::Caching;
use dryrack_trace::{Oddity, TraceError};
use dryrack_units::{SimDuration, SimTime};

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Scenario file
    file: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    outside: OutsideArgs,
    /// Write events.jsonl, jobs.csv, nodes.csv and metrics.json to DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write report.html to DIR, and all the data in it as CSV and JSON
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Draw the first page of the report, with an installed browser
    #[arg(long, value_name = "FILE.png|.pdf", value_parser = picture_file, requires = "report")]
    picture: Option<PictureFile>,
    /// Write a trace for ui.perfetto.dev, with placements, the queue and allocated resources
    #[arg(long, value_name = "FILE.json")]
    timeline: Option<PathBuf>,
    /// Create or read jobs during the run, and keep only the data of finished jobs that metrics need; for millions of
    /// jobs
    #[arg(long, conflicts_with_all = ["out", "report", "timeline"])]
    stream: bool,
    /// Compute each decision again from scratch and compare the two results (slow)
    #[arg(long, conflicts_with = "plain")]
    paranoid: bool,
    /// Cache nothing between decisions; every output stays the same
    #[arg(long)]
    plain: bool,
}

impl RunArgs {
    fn decider(&self, setup: Setup, rehearsal: &Rehearsal) -> Result<Started, Failure> {
        let flags = [("stream", self.stream), ("paranoid", self.paranoid), ("plain", self.plain)];
        decider(&self.outside, setup, rehearsal, &flags)
    }

    fn caching(&self) -> Caching {
        match (self.paranoid, self.plain) {
            (true, _) => Caching::Paranoid,
            (false, true) => Caching::Off,
            (false, false) => Caching::On,
        }
    }
}

/// Values from the command line that replace values of the file. They are validated like the file.
#[derive(Clone, Debug, Default, Args)]
pub struct Overrides {
    /// Seed of all random draws [default: the seed of the file, or 1]
    #[arg(long, allow_hyphen_values = true, value_name = "N")]
    seed: Option<String>,
    /// Profile to run under [default: the profile of the file]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Reset one option of the profile to its value in the nearest non-historic base, such as
    /// scheduler.filters.ready.unless
    #[arg(long, value_name = "OPTION")]
    as_in_base: Option<String>,
    /// The base of `as_in_base`, other than the nearest non-historic one only in a search for causes
    #[arg(skip)]
    against: ComparedBase,
    /// Simulated time at which to stop, such as 2h; what happens at this time still counts [default: the `until` of the
    /// file, or the end of all jobs]
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    until: Option<String>,
    /// Override a field, as in nodes.alpha.state=not_ready; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    #[arg(skip)]
    outside: OutsideChoice,
}

impl Overrides {
    /// The same overrides, and in addition one option of the profile reset to a base.
    pub fn as_in_base(&self, option: &str, against: ComparedBase) -> Overrides {
        Overrides { as_in_base: Some(option.to_string()), against, ..self.clone() }
    }

    /// Overrides that set only the profile.
    pub fn under(profile: Option<String>) -> Overrides {
        Overrides { profile, ..Overrides::default() }
    }

    /// These overrides, followed by further `--set` values.
    pub fn with_set(&self, set: &[String]) -> Overrides {
        let set = self.set.iter().chain(set).cloned().collect();
        Overrides { set, ..self.clone() }
    }

    /// Whether these overrides name a profile.
    pub fn names_profile(&self) -> bool {
        self.profile.is_some()
    }

    pub fn names_seed(&self) -> bool {
        self.seed.is_some()
    }

    pub fn and_profile(self, profile: &str) -> Overrides {
        Overrides { profile: Some(profile.to_string()), ..self }
    }

    /// These overrides with a choice of a scheduler in another process.
    pub fn and_outside(self, outside: OutsideChoice) -> Overrides {
        Overrides { outside, ..self }
    }

    /// Whether the user named a scheduler in another process.
    pub fn names_outside(&self) -> bool {
        self.outside.is_typed()
    }

    pub fn and_seed(self, seed: u64) -> Overrides {
        Overrides { seed: Some(seed.to_string()), ..self }
    }

    /// The flag of the seed after a space, if these overrides name one.
    pub fn seed_flag(&self) -> String {
        self.seed.as_ref().map_or(String::new(), |seed| format!(" --seed {}", quoted(seed)))
    }

    /// The options for loading `file` with these overrides.
    pub fn lower(&self, file: &Path) -> Options {
        Options {
            seed: self.seed.clone(),
            profile: self.profile.clone(),
            until: self.until.clone(),
            as_in_base: self.as_in_base.clone().map(|option| (option, self.against)),
            set: self.set.clone(),
            outside: self.outside.lower(),
            ..options(file)
        }
    }

    /// The command that repeats this run, with the seed that was used.
    pub fn repeat(&self, file: &Path, seed: u64) -> String {
        format!("dryrack run {} --seed {seed}{}", quoted(&file.display().to_string()), self.flags())
    }

    /// The flags of these overrides other than `--seed`, each after a space.
    pub fn flags(&self) -> String {
        let mut command = String::new();
        for (flag, value) in [("profile", &self.profile), ("as-in-base", &self.as_in_base), ("until", &self.until)] {
            if let Some(value) = value {
                command.push_str(&format!(" --{flag} {}", quoted(value)));
            }
        }
        command.push_str(&self.outside.flag());
        command.push_str(&set_flags(&self.set));
        command
    }
}

/// The flags for these values of `--set`, each after a space. A value that comes again later is left out.
pub fn set_flags(set: &[String]) -> String {
    let comes_again = |(at, value): &(usize, &String)| set[at + 1..].contains(value);
    let last = set.iter().enumerate().filter(|value| !comes_again(value));
    last.map(|(_, value)| format!(" --set {}", quoted(value))).collect()
}

impl Overrides {
    /// The command that tests the file again.
    pub fn repeat_test(&self, file: &Path) -> String {
        format!("dryrack test {}{}{}", quoted(&file.display().to_string()), self.outside.flag(), set_flags(&self.set))
    }
}

pub fn run(args: &RunArgs, format: Format) -> ExitResult {
    let picture = Picture::of(args.picture.as_ref())?;
    let choice = OutsideChoice::of(args.outside.outside.as_deref())?;
    let overrides = args.overrides.clone().and_outside(choice);
    let options = Options { streamed: args.stream, ..overrides.lower(&args.file) };
    let drawn = draws();
    let loaded = with_line(|| format!("reading {}", args.file.display()), || load(&args.file, &options));
    let loaded = loaded.map_err(|diagnostics| Failure::Input(diagnostics.to_string()))?;
    warn(&loaded.warnings.to_string());
    let assumed = loaded.assumed_and_cut_off();
    let Loaded { rehearsal, expectations, trace, streamed, outside, reproductions, .. } = loaded;
    let mut session = outside.map(|setup| args.decider(setup, &rehearsal)).transpose()?;
    args.outside.check(session.as_ref())?;
    let progress = Progress::default();
    let command = overrides.repeat(&args.file, rehearsal.seed);
    let fault = |message: String| Failure::Ours(fault_text(&message, rehearsal.seed, &progress, &command));
    let mut log_file = None;
    #[expect(clippy::disallowed_methods, reason = "how long it took is said, and reaches no run")]
    let begun = std::time::Instant::now();
    let mut spans = Spans::default();
    let mut sinks: Vec<&mut dyn Sink> = Vec::new();
    if args.report.is_some() || args.timeline.is_some() {
        sinks.push(&mut spans);
    }
    let rehearsed = match (&args.out, &streamed) {
        (_, Some(streamed)) => {
            let mut arrivals = streamed.arrivals().map_err(|error| unreadable(&error))?;
            let work = || rehearse_streamed(&rehearsal, &mut arrivals, expectations, &progress, args.caching());
            let rehearsed = with_progress(&progress, work).map_err(fault)?;
            arrivals.fault().map_or(Ok(rehearsed), |error| Err(unreadable(error)))?
        }
        (None, None) => {
            let work = || with_decider(&mut session, &rehearsal, expectations, &progress, args.caching(), sinks);
            with_progress(&progress, work).map_err(fault)?
        }
        (Some(dir), None) => {
            std::fs::create_dir_all(dir).map_err(|error| Failure::uncreated(dir, &error))?;
            let mut log = LogWriter::new(WholeFile::create(&dir.join("events.jsonl"))?, &header(&rehearsal))?;
            let work = || {
                sinks.push(&mut log);
                with_decider(&mut session, &rehearsal, expectations, &progress, args.caching(), sinks)
            };
            let rehearsed = with_progress(&progress, work).map_err(fault)?;
            log_file = Some(log.finish(rehearsed.until)?);
            rehearsed
        }
    };
    let wall = begun.elapsed();
    let metrics = guarded(|| rehearsed.run_metrics.metrics()).map_err(fault)?;
    if let (Some(dir), Some(log)) = (&args.out, log_file) {
        let mut files = vec![(log, Ok(()))];
        files.extend(tables(dir, &rehearsal, &rehearsed, metrics)?);
        WholeFile::keep_all(files)?;
    }
    let who = session.as_ref().and_then(|session| session.who());
    let named = who.as_ref().map(|who| named_after(&rehearsal, who));
    let of = named.as_ref().unwrap_or(&rehearsal);
    let shown = Shown {
        rehearsal: of,
        rehearsed: &rehearsed,
        metrics,
        trace: trace.as_ref(),
        assumed: &assumed,
        is_sample: trace.is_some() || draws() != drawn,
        who: who.as_ref(),
    };
    if let Some(dir) = &args.report {
        guarded(|| shown.write_report(dir, (&spans, &command), picture.as_ref())).map_err(fault)??;
    }
    if let Some(file) = &args.timeline {
        let mut out = WholeFile::create(file)?;
        let written = write_perfetto(&mut out, rehearsed.run_metrics.accounts(), &spans);
        out.keep(written)?;
    }
    report(&shown, wall, format)?;
    left_to_test(&args.file, &args.overrides.set, &reproductions, format)?;
    let has_failed = farewell(session.as_mut(), &args.outside, rehearsed.end.at);
    let failed = has_failed || rehearsed.verdicts.iter().any(|verdict| !verdict.passed);
    Ok(if failed { Exit::Failed } else { Exit::Fine })
}

/// Names the command that also runs the reproductions, if there are any.
fn left_to_test(file: &Path, set: &[String], reproductions: &[Reproduction], format: Format) -> Result<(), Failure> {
    if !reproductions.is_empty() && format == Format::Human {
        let file = quoted(&file.display().to_string());
        // Of the cells of a matrix, `test` chooses the one that shows what is reproduced.
        let set: Vec<String> = set.iter().filter(|set| !set.starts_with("matrix.")).cloned().collect();
        let set = set_flags(&set);
        print(&format!("\n`dryrack test {file}{set}` also runs what is under `reproduces`.\n"))?;
    }
    Ok(())
}

fn unreadable(error: &TraceError) -> Failure {
    Failure::Input(format!("{error}\n"))
}

/// Does the work and shows its progress.
fn with_progress<T>(progress: &Progress, work: impl FnOnce() -> T) -> Result<T, String> {
    let said = || progress_text(progress.step(), progress.at(), progress.share());
    with_share(said, || progress.share(), || guarded(work))
}

/// Simulated time is given in whole seconds, because shorter parts of it change too fast to be read.
fn progress_text(steps: u64, at: SimTime, share: f64) -> String {
    match steps {
        0 => "beginning".to_string(),
        _ => {
            let second = SimTime::from_secs(at.as_nanos() / 1_000_000_000);
            format!("at {second} of the run{}, {steps} steps", percent(share))
        }
    }
}

/// Such as `, 41% done`; empty if it is not known.
fn percent(share: f64) -> String {
    if share > 0.0 { format!(", {:.0}% done", (share * 100.0).floor()) } else { String::new() }
}

/// Writes the CSV and JSON files to partial files. The caller later puts them in place together with the log.
fn tables(
    dir: &Path,
    rehearsal: &Rehearsal,
    rehearsed: &Rehearsed,
    metrics: &Metrics,
) -> Result<Vec<(WholeFile, std::io::Result<()>)>, Failure> {
    let recorded = |job: usize| rehearsal.arrivals.get(job).and_then(|arrival| arrival.recorded_wait);
    let mut jobs = WholeFile::create(&dir.join("jobs.csv"))?;
    let jobs_written =
        write_jobs_csv(&mut jobs, rehearsed.run_metrics.accounts(), recorded).map_err(std::io::Error::other);
    let mut nodes = WholeFile::create(&dir.join("nodes.csv"))?;
    let nodes_written = write_nodes_csv(&mut nodes, rehearsed.run_metrics.accounts()).map_err(std::io::Error::other);
    let mut json = serde_json::to_string_pretty(metrics).expect("metrics have a JSON form");
    json.push('\n');
    let mut figures = WholeFile::create(&dir.join("metrics.json"))?;
    let figures_written = std::io::Write::write_all(&mut figures, json.as_bytes());
    Ok(vec![(jobs, jobs_written), (nodes, nodes_written), (figures, figures_written)])
}

/// The data of a finished run that the report uses.
struct Shown<'a> {
    rehearsal: &'a Rehearsal,
    rehearsed: &'a Rehearsed,
    metrics: &'a Metrics,
    trace: Option<&'a TraceUse>,
    assumed: &'a [String],
    /// Whether the run is one sample of what may happen: it has a trace, or drew random numbers.
    is_sample: bool,
    /// The scheduler in another process, if one decided.
    who: Option<&'a ProgramName>,
}

impl Shown<'_> {
    /// Writes all files of the report, and puts them in place together. Then draws its picture.
    fn write_report(
        &self,
        dir: &Path,
        (spans, command): (&Spans, &str),
        picture: Option<&Picture<'_>>,
    ) -> Result<(), Failure> {
        std::fs::create_dir_all(dir).map_err(|error| Failure::uncreated(dir, &error))?;
        let report = RunReport {
            rehearsal: self.rehearsal,
            accounts: self.rehearsed.run_metrics.accounts(),
            metrics: self.metrics,
            spans,
            verdicts: &self.rehearsed.verdicts,
            trace: &self.trace.map_or(Vec::new(), TraceUse::lines),
            assumed: self.assumed,
            starts_at: self.trace.and_then(TraceUse::starts_at),
            digest: &self.rehearsed.digest.to_string(),
            // The report must not depend on the folder that the user chose, so the command contains DIR.
            command: &format!("{command} --report DIR"),
        };
        WholeFile::write_all(report.files().into_iter().map(|(name, bytes)| (dir.join(name), bytes)))?;
        picture.map_or(Ok(()), |picture| picture.draw(&dir.join("report.html")))
    }
}

fn report(shown: &Shown<'_>, wall: std::time::Duration, format: Format) -> Result<(), Failure> {
    let Shown { rehearsal, rehearsed, metrics, trace, assumed, is_sample, who } = *shown;
    let digest = rehearsed.digest.to_string();
    match format {
        Format::Human => {
            let heading = Heading {
                title: &rehearsal.title,
                profile: &rehearsal.profile.name,
                seed: rehearsal.seed,
                digest: &digest,
                is_sample,
                trace: trace.map_or(Vec::new(), TraceUse::lines),
                assumed,
                recorded_waits: recorded_waits(rehearsal),
                since_submission: trace.is_some_and(|used| used.tally.count(Oddity::EligibleUnknown) > 0),
            };
            print(&summary(&heading, rehearsed.run_metrics.accounts(), metrics, &rehearsed.verdicts))?;
        }
        Format::Json => {
            let expectations: Vec<_> = (rehearsed.verdicts.iter())
                .map(|verdict| json!({"name": verdict.name, "passed": verdict.passed, "why": verdict.why()}))
                .collect();
            let mut value = json!({
                "scenario": rehearsal.title,
                "seed": rehearsal.seed,
                "profile": rehearsal.profile.name,
                "digest": digest,
                "events": rehearsed.run_metrics.accounts().events,
                "records": rehearsed.run_metrics.accounts().records,
                "steps": rehearsed.end.steps,
                "sim_seconds": rehearsed.until.as_secs_f64(),
                "wall_seconds": wall.as_secs_f64(),
                "trace": trace,
                "never_run": rehearsed.run_metrics.accounts().unplaceable.json(),
                "expectations": expectations,
                "metrics": metrics,
            });
            if !assumed.is_empty() {
                value["assumed"] = json!(assumed);
            }
            if is_sample {
                value["wait_interval"] = json!(wait_sections(rehearsed.run_metrics.accounts()));
            }
            if let Some(who) = who {
                value["decided_by"] = json!({"name": who.name, "version": who.version});
            }
            print_json(&value)?;
        }
    }
    Ok(())
}

/// How long the jobs of the trace waited in the recorded cluster: those that the metrics of the run count.
fn recorded_waits(rehearsal: &Rehearsal) -> Vec<SimDuration> {
    let from = rehearsal.warm_up.unwrap_or(SimTime::ZERO);
    let is_counted = |at: SimTime| at >= from && rehearsal.until.is_none_or(|until| at <= until);
    let counted = rehearsal.arrivals.iter().filter(|arrival| is_counted(arrival.at));
    counted.filter_map(|arrival| arrival.recorded_wait).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_repeats_a_run_can_be_pasted() {
        let overrides = Overrides {
            seed: Some("3".into()),
            profile: Some("pack".into()),
            set: vec!["scenario=it's so".into()],
            ..Overrides::default()
        };
        let command = overrides.repeat(Path::new("a b.yaml"), 3);
        assert_eq!(command, "dryrack run 'a b.yaml' --seed 3 --profile pack --set 'scenario=it'\\''s so'");
    }

    #[test]
    fn the_progress_of_a_run_is_in_whole_seconds() {
        let at = SimTime::from_nanos(3_605_718_297_600);
        assert_eq!(progress_text(7, at, 0.419), "at 1h5s of the run, 41% done, 7 steps");
        assert_eq!(progress_text(0, SimTime::ZERO, 0.0), "beginning");
    }
}
