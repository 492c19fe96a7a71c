//! `dryrack swarm`: runs random worlds with every check enabled.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::fault::fault_text;
use super::guard::{WorkFailure, guarded_run};
use super::marks::ReachedMarks;
use super::output::{Format, WholeFile, print, print_json, warn};
use super::swarm_watch::Watch;
use super::test::pool;
use dryrack_control::Profile;
use dryrack_engine::{
    Bound, MOST_RECORDS_OF_A_WORLD, Progress, Rehearsal, RunOptions, Runaway, WorldResult, draw_pod_world,
    draw_profiles_world, draw_slurm_world, draw_stages_world, draw_world, run, run_world, run_world_once,
};
use dryrack_event::Outcome;
use dryrack_profile::{load_profile, profile_names};
use dryrack_rehearse::header;
use dryrack_report::LogWriter;
use dryrack_swarm::{CHECKS, Case, Check, EndlessRun, Judged, checks_of};
use dryrack_units::{SimTime, counted, grouped};

#[derive(Debug, Args)]
pub struct SwarmArgs {
    /// Seeds from A to B inclusive, as in `seeds:` of a scenario: `1..2000`; or a single seed
    #[arg(long, allow_hyphen_values = true, value_name = "A..B", value_parser = seeds)]
    seeds: RangeInclusive<u64>,
    /// Kind of the worlds
    #[arg(long, value_enum, default_value_t = WorldKind::Any, value_name = "KIND")]
    world: WorldKind,
    /// Number of threads [default: the number of cores]
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Write the log of the world with the first seed to FILE, up to the point where it breaks
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Make only this check of each world, besides those that each run has; may be repeated; `all` makes all of them;
    /// `none` runs each world once, without comparing runs [default: two checks, chosen by the seed]
    #[arg(long, value_name = "NAME", value_parser = check_names())]
    check: Vec<String>,
    /// Write to FILE how many worlds reached each reason, kind of event, lifecycle edge and profile option
    #[arg(long, value_name = "FILE")]
    marks: Option<PathBuf>,
    /// Write the digest of the log of each world to FILE, in the order of the seeds
    #[arg(long, value_name = "FILE")]
    digests: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorldKind {
    /// Every flow and queue; the other kinds draw more of some of them
    Any,
    /// Pods with taints, affinity, spreading and gangs under the Kubernetes profiles, and queues of Kueue
    Pods,
    /// Partitions, jobs in several of them, QOS, preemption and reservations under the profiles of Slurm
    Slurm,
    /// Every flow and queue, with filters, scorers and orders that are expressions
    Stages,
    /// Every queue, under profiles that combine options as no built-in profile does
    Profiles,
}

impl WorldKind {
    fn draw(self, seed: u64, profiles: &[Arc<Profile>]) -> Rehearsal {
        match self {
            WorldKind::Any => draw_world(seed, profiles),
            WorldKind::Pods => draw_pod_world(seed, profiles),
            WorldKind::Slurm => draw_slurm_world(seed, profiles),
            WorldKind::Stages => draw_stages_world(seed, profiles),
            WorldKind::Profiles => draw_profiles_world(seed, profiles),
        }
    }
}

/// The names that `--check` takes.
fn check_names() -> PossibleValuesParser {
    let all = PossibleValue::new(ALL_CHECKS).help("Every check of this list");
    let names = CHECKS.iter().map(|check| PossibleValue::new(check.name).help(check.rule));
    let none = PossibleValue::new(NO_CHECK).help("One run of each world, whose log is audited; not with other checks");
    PossibleValuesParser::new(names.chain([all, none]))
}

/// The error for `--max-records`, because each world has a limit of its own.
pub fn limits_records_itself() -> Failure {
    let most = grouped(&MOST_RECORDS_OF_A_WORLD.to_string());
    Failure::Input(format!("error: `dryrack swarm` stops each world after {most} records; leave out `--max-records`"))
}

const ALL_CHECKS: &str = "all";
const NO_CHECK: &str = "none";

/// The number of checks of each world, if none are named. The worlds of a CI run then take half as long again.
const CHECKS_OF_A_WORLD: usize = 2;

/// How often the running worlds are checked.
const TICK: Duration = Duration::from_millis(200);

/// The largest number of seeds in one swarm, so that counting them cannot overflow.
const MAX_SEEDS: u64 = 1_000_000_000;

pub fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let expected = "expected two numbers such as 1..2000 with the smaller one first, or one number";
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let number = |part: &str| part.trim().parse::<u64>().map_err(|_| expected.to_string());
    let (from, to) = (number(from)?, number(to)?);
    match to.checked_sub(from) {
        Some(more) if more < MAX_SEEDS => Ok(from..=to),
        Some(_) => Err(format!("more than {MAX_SEEDS} seeds")),
        None => Err(expected.to_string()),
    }
}

pub fn swarm(args: &SwarmArgs, format: Format) -> ExitResult {
    if args.check.len() > 1 && args.check.iter().any(|name| name == NO_CHECK) {
        return Err(Failure::Input("error: --check: `none` cannot be combined with other checks\n".into()));
    }
    let load = |name| load_profile(name, Path::new(""));
    let profiles: Vec<Arc<Profile>> = profile_names()
        .map(load)
        .collect::<Result<_, _>>()
        .map_err(|diagnostics| Failure::Ours(diagnostics.to_string()))?;
    if let Some(file) = &args.log {
        write_log(file, args.world.draw(*args.seeds.start(), &profiles))?;
    }
    let bar = ProgressBar::new(args.seeds.end() - args.seeds.start() + 1);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} worlds").expect("a valid template");
    bar.set_style(style);
    let pool = pool(args.threads)?;
    let watch = Watch::default();
    let marks = args.marks.as_ref().map(|_| ReachedMarks::new()).transpose()?;
    let (tell_of, told) = mpsc::channel();
    let results = std::thread::scope(|scope| {
        scope.spawn(|| {
            pool.install(|| {
                args.seeds.clone().into_par_iter().for_each_with(tell_of, |tell_of, seed| {
                    let world = World { kind: args.world, seed, profiles: &profiles };
                    let run = |progress: &Progress| world.judged(&args.check, progress, marks.as_ref());
                    let result = watch.during(seed, repeat(args.world, seed), run);
                    bar.inc(1);
                    tell_of.send((seed, result)).expect("results are waited for to the last");
                });
            });
        });
        let mut results = BTreeMap::new();
        loop {
            match told.recv_timeout(TICK) {
                Ok((seed, result)) => drop(results.insert(seed, result)),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return results,
            }
            if let Some(stuck) = watch.poll() {
                // A thread cannot be ended from outside. So print the results so far, and end the whole process.
                results.extend(stuck.into_iter().map(|(seed, why)| (seed, Err(why))));
                bar.finish_and_clear();
                let told = finish(&results.into_values().collect::<Vec<_>>(), format, !args.check.is_empty());
                #[expect(clippy::exit, reason = "a thread that does not return cannot be ended otherwise")]
                std::process::exit(told.unwrap_or(Exit::OurFault) as i32);
            }
        }
    });
    bar.finish_and_clear();
    if let (Some(marks), Some(file)) = (marks, &args.marks) {
        marks.write(file)?;
    }
    if let Some(file) = &args.digests {
        let line = |(seed, world): (&u64, &JudgedWorld)| format!("{seed}\t{}\n", world.result.digest);
        let worlds = results.iter().filter_map(|(seed, result)| Some((seed, result.as_ref().ok()?)));
        WholeFile::write(file, worlds.map(line).collect::<String>().as_bytes())?;
    }
    finish(&results.into_values().collect::<Vec<_>>(), format, !args.check.is_empty())
}

/// Writes the log of one world. If this world breaks here, the error is ignored, because the later run reports it.
fn write_log(file: &Path, rehearsal: Rehearsal) -> Result<(), Failure> {
    let mut log = LogWriter::new(WholeFile::create(file)?, &header(&rehearsal))?;
    let options = RunOptions { most_records: MOST_RECORDS_OF_A_WORLD, ..RunOptions::default() };
    let (out, written) = match guarded_run(|| run(&rehearsal, options, &mut [&mut log])) {
        Ok(end) => (log.finish(end.at)?, Ok(())),
        Err(_) => log.unfinished(),
    };
    out.keep(written)
}

/// One world of the swarm.
struct World<'a> {
    kind: WorldKind,
    seed: u64,
    profiles: &'a [Arc<Profile>],
}

/// What became of a world.
struct JudgedWorld {
    result: WorldResult,
    /// The names of the checks that applied to it.
    checks: Vec<&'static str>,
}

impl World<'_> {
    /// The result of the world, or a message if an invariant or a check breaks or the world does not end.
    fn judged(
        &self,
        named: &[String],
        progress: &Progress,
        marks: Option<&ReachedMarks>,
    ) -> Result<JudgedWorld, String> {
        let drawn = guarded_run(|| self.kind.draw(self.seed, self.profiles));
        let mut rehearsal = drawn.map_err(|broken| self.fault(broken, None, progress))?;
        let is_unchecked = named.iter().any(|name| name == NO_CHECK);
        let run_world = if is_unchecked { run_world_once } else { run_world };
        let mut ran = guarded_run(|| run_world(&rehearsal, progress));
        let endless_from = match ran {
            Err(WorkFailure::Runaway(Runaway { bound: Bound::Records, .. })) => endless_from(&rehearsal, progress),
            _ => None,
        };
        if endless_from.is_some() {
            rehearsal.until = endless_from;
            ran = guarded_run(|| run_world(&rehearsal, progress));
        }
        let (result, log) = ran.map_err(|broken| self.fault(broken, None, progress))?;
        marks.iter().for_each(|marks| marks.add_log(&log, &rehearsal.profile));
        let case = Case { world: &rehearsal, log: &log };
        let mut checks = Vec::new();
        // With a change that a check makes, an endless world would be endless again.
        let may_check = endless_from.is_none() && !is_unchecked;
        for check in checks_of(self.seed).filter(|_| may_check) {
            let is_named = named.iter().any(|name| name == check.name || name == ALL_CHECKS);
            if !is_named && (!named.is_empty() || checks.len() >= CHECKS_OF_A_WORLD) {
                continue;
            }
            match guarded_run(|| check.judge(&case)) {
                Ok(Ok(Judged::Holds)) => checks.push(check.name),
                Ok(Ok(Judged::DoesNotApply)) => {}
                Ok(Err(why)) => return Err(self.fault(WorkFailure::Invariant(why), Some(check), progress)),
                Err(broken) => return Err(self.fault(broken, Some(check), progress)),
            }
        }
        Ok(JudgedWorld { result, checks })
    }

    fn fault(&self, broken: WorkFailure, check: Option<&Check>, progress: &Progress) -> String {
        let message = match broken {
            WorkFailure::Invariant(message) => message,
            WorkFailure::Runaway(runaway) => runaway.to_string(),
        };
        let mut command = repeat(self.kind, self.seed);
        let Some(check) = check else { return fault_text(&message, self.seed, progress, &command) };
        command.push_str(&format!(" --check {}", check.name));
        let message = format!("the check `{}` fails: {}\n{message}", check.name, check.rule);
        fault_text(&message, self.seed, progress, &command)
    }
}

/// The time from which on an endless world is endless because the program that it models would be; `None` if it is endless
/// for another reason.
fn endless_from(rehearsal: &Rehearsal, progress: &Progress) -> Option<SimTime> {
    let mut found = EndlessRun::default();
    let most_records = MOST_RECORDS_OF_A_WORLD;
    let options = RunOptions { progress: Some(progress), most_records, ..RunOptions::default() };
    // It ends in the same failure again.
    drop(guarded_run(|| run(rehearsal, options, &mut [&mut found])));
    found.endless_from()
}

fn repeat(kind: WorldKind, seed: u64) -> String {
    match kind {
        WorldKind::Any => format!("dryrack swarm --seeds {seed}"),
        WorldKind::Pods => format!("dryrack swarm --seeds {seed} --world pods"),
        WorldKind::Slurm => format!("dryrack swarm --seeds {seed} --world slurm"),
        WorldKind::Stages => format!("dryrack swarm --seeds {seed} --world stages"),
        WorldKind::Profiles => format!("dryrack swarm --seeds {seed} --world profiles"),
    }
}

fn finish(results: &[Result<JudgedWorld, String>], format: Format, is_verbose: bool) -> ExitResult {
    let faults: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    faults.iter().for_each(|fault| warn(fault));
    print_results(results, faults.len(), format, is_verbose)?;
    Ok(if faults.is_empty() { Exit::Fine } else { Exit::OurFault })
}

fn print_results(
    results: &[Result<JudgedWorld, String>],
    faults: usize,
    format: Format,
    is_verbose: bool,
) -> Result<(), Failure> {
    let sum = |part: fn(&WorldResult) -> u64| results.iter().flatten().map(|world| part(&world.result)).sum::<u64>();
    let mut checks: BTreeMap<&str, u64> = CHECKS.iter().map(|check| (check.name, 0)).collect();
    for name in results.iter().flatten().flat_map(|world| &world.checks) {
        *checks.entry(name).or_default() += 1;
    }
    let (records, jobs) = (sum(|world| world.records), sum(|world| world.accounts.submitted));
    match format {
        Format::Json => {
            let mut said = json!({
                "worlds": results.len(), "broken": faults, "records": records, "jobs_submitted": jobs,
                "jobs_running": sum(|world| world.accounts.running),
                "jobs_waiting": sum(|world| world.accounts.waiting),
                "checks": checks,
            });
            for outcome in Outcome::ALL {
                let count: u64 = results.iter().flatten().map(|world| world.result.accounts.count(outcome)).sum();
                said[format!("jobs_{}", outcome.name())] = count.into();
            }
            print_json(&said)?;
        }
        Format::Human => {
            let worlds = counted(results.len(), "world");
            print(&format!("{worlds}, {records} records, {jobs} jobs: {faults} broke an invariant\n"))?;
            if is_verbose {
                let made = checks.iter().filter(|(_, count)| **count > 0);
                let mut made: Vec<String> = made.map(|(name, count)| format!("{name} {count}")).collect();
                if made.is_empty() {
                    made.push(NO_CHECK.into());
                }
                print(&format!("checks: {}\n", made.join(", ")))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_that_holds_both_its_ends() {
        assert_eq!(seeds("3..5"), Ok(3..=5));
        assert_eq!((seeds("5"), seeds("5..5")), (Ok(5..=5), Ok(5..=5)));
        for wrong in ["", "6..5", "a..b", "-1..4", "0..18446744073709551615"] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_world_that_takes_too_long_is_stopped_and_named() {
        let profiles = [load_profile("first-fit", Path::new("")).expect("it is built in")];
        let watch = Watch::default();
        let slow = watch.during(7, String::new(), |progress| {
            progress.stop();
            World { kind: WorldKind::Any, seed: 7, profiles: &profiles }.judged(&[], progress, None)
        });
        let said = slow.err().expect("it was told to stop");
        assert!(said.starts_with("internal error: the run was stopped because it takes too long: "), "{said}");
        assert!(said.ends_with("repeat with: dryrack swarm --seeds 7\n"), "{said}");
        // The other world is not stopped and continues.
        let other = World { kind: WorldKind::Any, seed: 8, profiles: &profiles };
        assert!(watch.during(8, String::new(), |progress| other.judged(&[], progress, None)).is_ok());
    }
}
