//! `dryrack what-if`: compares a run with the same run that continues under another fleet, profile or policy.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{ExitResult, Failure};
use super::fault::fault_text;
use super::futures::Futures;
use super::guard::guarded;
use super::output::{Format, NewFolders, WholeFile, warn};
use super::progress::with_share;
use super::run::Overrides;
use super::swarm::seeds;
use dryrack_engine::{Progress, Rehearsal, branch_with};
use dryrack_event::BranchOf;
use dryrack_rehearse::{header, rehearse};
use dryrack_report::LogWriter;
use dryrack_scenario::{Options, load};
use dryrack_scheduler::Caching;
use dryrack_units::SimTime;

#[derive(Debug, Args)]
pub struct WhatIfArgs {
    /// Scenario file; both runs start with it, and one of them continues with it
    file: PathBuf,
    /// Time from which the changes apply, such as 1h30m
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    at: SimTime,
    /// Profile to use from then on
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Override a field or a parameter from then on, as in params.workers=8; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Seeds to run with, both ends included, instead of the seed of the file: 1..20
    #[arg(long, value_name = "FROM..TO", value_parser = seeds)]
    seeds: Option<std::ops::RangeInclusive<u64>>,
    /// Simulated time at which to stop both runs, such as 2h; what happens at this time still counts
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    until: Option<String>,
    /// Folder for both logs of the first seed (base.jsonl and branch.jsonl), pair.json and jobs.csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Exit with 1 if a metric of the two runs differs, and with 0 if all are the same
    #[arg(long)]
    exit_code: bool,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

pub fn what_if(args: &WhatIfArgs, format: Format) -> ExitResult {
    if args.profile.is_none() && args.set.is_empty() {
        let why = "error: nothing would change: give --profile or --set, as in --set nodes.alpha.count=4\n";
        return Err(Failure::Input(why.to_string()));
    }
    let read = |options: Options| load(&args.file, &options).map_err(|faults| Failure::Input(faults.to_string()));
    let plain = read(args.options(None, false))?;
    if let Some(end) = plain.rehearsal.until.filter(|end| *end <= args.at) {
        let why = format!("error: the run stops at {end}, so nothing can change from {} on\n", args.at);
        return Err(Failure::Input(why));
    }
    warn(&plain.warnings.to_string());
    warn(&read(args.options(None, true))?.warnings.to_string());
    let seeds: Vec<u64> = args.seeds.clone().map_or_else(|| vec![plain.rehearsal.seed], Iterator::collect);
    let load = |seed: u64| {
        let base = read(args.options(Some(seed), false))?.rehearsal;
        let other = read(args.options(Some(seed), true))?;
        let branch = branch_with(&base, &other.rehearsal, args.at, &other.stated)
            .map_err(|error| Failure::file(&args.file, format!("cannot change from {} on: {error}", args.at)))?;
        Ok([base, branch])
    };
    let command = |seed: u64, side: usize| match side {
        0 => args.overrides(false).repeat(&args.file, seed),
        _ => format!("{} from {} on", args.overrides(true).repeat(&args.file, seed), args.at),
    };
    let changed: Vec<&str> = args.profile.iter().chain(&args.set).map(String::as_str).collect();
    let futures = Futures {
        title: &plain.rehearsal.title,
        words: ["base", "branch"],
        names: ["as in the file".to_string(), format!("{} from {} on", changed.join(", "), args.at)],
        from: args.at,
        seeds: &seeds,
        resampled: plain.trace.as_ref().and_then(|trace| trace.resampled_from()),
        load: &load,
        tells_by_exit: args.exit_code,
        repeat: &command,
    };
    // Dropped after the unfinished logs in it.
    let _made = args.out.as_deref().map(NewFolders::make).transpose()?;
    let logs = match &args.out {
        Some(dir) => args.logs(dir, load(seeds[0])?, &command)?,
        None => Vec::new(),
    };
    super::test::pool(args.threads)?.install(|| futures.compare(args.out.as_deref(), logs, format))
}

impl WhatIfArgs {
    fn overrides(&self, is_branch: bool) -> Overrides {
        match is_branch {
            true => Overrides::under(self.profile.clone()).with_set(&self.set),
            false => Overrides::default(),
        }
    }

    fn options(&self, seed: Option<u64>, is_branch: bool) -> Options {
        let overrides = self.overrides(is_branch).lower(&self.file);
        Options { seed: seed.map(|seed| seed.to_string()), until: self.until.clone(), ..overrides }
    }

    /// Writes the logs of both runs, and leaves it to the caller to put them in place. The log of the branch names its parent log, but each log can be replayed alone.
    fn logs(
        &self,
        dir: &Path,
        both: [Rehearsal; 2],
        command: &dyn Fn(u64, usize) -> String,
    ) -> Result<Vec<(WholeFile, io::Result<()>)>, Failure> {
        let mut files = Vec::new();
        let mut parent = None;
        for (side, (rehearsal, name)) in both.iter().zip(["base.jsonl", "branch.jsonl"]).enumerate() {
            let mut header = header(rehearsal);
            header.branch = match parent.take() {
                Some(parent) => {
                    let source = load(&self.file, &self.options(Some(rehearsal.seed), true));
                    let source = source.map_err(|faults| Failure::Input(faults.to_string()))?.rehearsal.source;
                    Some(BranchOf { parent, at: self.at, source })
                }
                None => None,
            };
            let mut log = LogWriter::new(WholeFile::create(&dir.join(name))?, &header)?;
            let progress = Progress::default();
            let work = || rehearse(rehearsal, Vec::new(), &progress, Caching::On, vec![&mut log]);
            let said = || format!("writing {name}");
            let rehearsed = with_share(said, || progress.share(), || guarded(work)).map_err(|message| {
                Failure::Ours(fault_text(&message, rehearsal.seed, &progress, &command(rehearsal.seed, side)))
            })?;
            files.push((log.finish(rehearsed.until)?, Ok(())));
            parent = Some(rehearsed.digest.to_string());
        }
        Ok(files)
    }
}
