//! `dryrack view`: shows a run in the terminal.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::exit::{Exit, ExitResult, Failure};
use super::explain::{human, tasks};
use super::guard::{guarded, guarded_run};
use super::logs::{WholeLog, read_whole};
use super::output::{Color, Format, print};
use super::replay::profile_of;
use super::roots::options;
use dryrack_control::Profile;
use dryrack_engine::{Progress, explain_unless};
use dryrack_event::LogHeader;
use dryrack_rehearse::rehearse;
use dryrack_report::Footer;
use dryrack_scenario::{Options, load_text};
use dryrack_scheduler::Caching;
use dryrack_units::SimTime;
use dryrack_view::{Explain, FailedExpectation, JudgeRun, Start, ViewedRun, picture, show};

#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Log that `run --out` wrote
    log: PathBuf,
    /// Time to show first, such as 1h30m [default: the start of the run]
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    at: Option<SimTime>,
    /// Job to select first [default: the first in the list]
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Print one picture of this width and height as text, such as 80x24, without a terminal
    #[arg(long, value_name = "WIDTHxHEIGHT", value_parser = size)]
    print: Option<(u16, u16)>,
}

/// The largest picture, in columns and in rows.
const MOST: u16 = 1000;

fn size(text: &str) -> Result<(u16, u16), String> {
    let parts = text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    let fits = |side: u16| (1..=MOST).contains(&side);
    let fit = parts.filter(|(width, height)| fits(*width) && fits(*height));
    fit.ok_or_else(|| format!("expected a width and a height from 1 to {MOST}, such as 80x24"))
}

pub fn view(args: &ViewArgs, color: Color, format: Format) -> ExitResult {
    if format == Format::Json {
        let why = "error: `view` is for people; `dryrack log --format json` has the same events as JSON\n";
        return Err(Failure::Input(why.to_string()));
    }
    let log = read_whole(&args.log)?;
    if args.print.is_none() && !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
        let why = "error: `view` needs a terminal; `--print 80x24` prints one picture as text, and `dryrack log` prints \
                   the events\n";
        return Err(Failure::Input(why.to_string()));
    }
    let job = args.job.as_deref().map(|name| log.job(name)).transpose()?;
    let profile = profile_of(&args.log, &log.header)?;
    let WholeLog { header, records, names, footer } = log;
    let (records, names) = (Arc::new(records), Arc::new(names));
    let run = ViewedRun {
        title: header.scenario.clone(),
        profile: header.profile.clone(),
        seed: header.seed,
        records: Arc::clone(&records),
        names: Arc::clone(&names),
        end: footer.end_ns,
    };
    let start = Start { at: args.at, job, has_colours: color.is_wanted() };
    let (seed, of_run) = (header.seed, Arc::clone(&profile));
    let explain: Explain = Arc::new(move |job, at, stop| {
        let profile = Arc::clone(&of_run);
        match guarded(|| explain_unless(profile, seed, &records, (job, None), Some(at), stop)) {
            Ok(Ok(None)) => None,
            Ok(Ok(Some(explained))) => Some(human(&explained, Some(at), (job, tasks(&records, job)), &names)),
            Ok(Err(error)) => Some(format!("\nthe log does not replay: {error}; see `dryrack replay`\n")),
            Err(message) => Some(format!("\ninternal error: {message}\n")),
        }
    });
    let folder = args.log.clone();
    let judge: JudgeRun = Arc::new(move || judged(&header, &footer, &profile, &options(&folder)));
    match args.print {
        Some(size) => print(&picture(run, &start, size, &explain, &judge))?,
        None => show(run, &start, explain, judge)?,
    }
    Ok(Exit::Fine)
}

/// The expectations that fail in this run, in order of time. The scenario in the header is run again, because a log does
/// not hold its verdicts; they are those of the log only if the digests are equal.
fn judged(
    header: &LogHeader,
    footer: &Footer,
    profile: &Arc<Profile>,
    options: &Options,
) -> Result<Vec<FailedExpectation>, String> {
    if header.live.is_some() {
        return Err("the run was on a real machine".to_string());
    }
    if header.branch.is_some() {
        return Err("the run is a branch of another run".to_string());
    }
    let options = Options { seed: Some(header.seed.to_string()), ..options.clone() };
    let loaded = load_text("the scenario in the log", &header.source, Path::new(""), &options);
    let mut loaded = loaded.map_err(|faults| {
        let first = faults.iter().next().map_or(String::new(), |fault| fault.message.to_string());
        format!("the scenario cannot be read without its files: {first}")
    })?;
    if loaded.outside.is_some() {
        return Err("a scheduler in another process decided".to_string());
    }
    loaded.rehearsal.profile = Arc::clone(profile);
    let work =
        || rehearse(&loaded.rehearsal, loaded.expectations.clone(), &Progress::default(), Caching::On, Vec::new());
    let rehearsed = guarded_run(work).map_err(|_| "the scenario cannot be run again".to_string())?;
    if rehearsed.digest.to_string() != footer.digest {
        return Err("this dryrack runs the scenario in another way than the log".to_string());
    }
    let failed = rehearsed.verdicts.into_iter().filter(|verdict| !verdict.passed).map(|verdict| FailedExpectation {
        name: verdict.name.to_string(),
        job: verdict.turned_on.map(|turned| turned.job),
        at: verdict.turned_on.and_then(|turned| turned.at).unwrap_or(footer.end_ns),
        text: verdict.why(),
    });
    let mut failed: Vec<FailedExpectation> = failed.collect();
    failed.sort_by_key(|failed| failed.at);
    Ok(failed)
}
