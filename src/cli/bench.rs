//! `dryrack bench`: measures how long scenarios take to run, including the digest but not the reading of the file.
//!
//! The first round of each file is not measured. It is audited instead: every job must be accounted for. Every later
//! round must have the same digest. If the plain computation is measured too, its rounds alternate with the normal
//! ones, so that other load on the machine affects both alike. Both must give the same digest.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::fault::fault_text;
use super::guard::guarded;
use super::output::{Format, end_if_closed, print, print_json};
use super::run::Overrides;
use dryrack_engine::{Accounts, Audit, Progress, Rehearsal, RunOptions, run};
use dryrack_event::{Digest, Digester, Event, Input, Sink};
use dryrack_scenario::load;
use dryrack_scheduler::Caching;
use dryrack_units::{SimTime, counted};

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Scenario files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Number of measured rounds of each file
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Also measure the plain computation, which caches nothing between decisions
    #[arg(long)]
    against_plain: bool,
    #[command(flatten)]
    overrides: Overrides,
}

/// The measurements of one scenario.
struct Measured {
    title: String,
    profile: String,
    digest: Digest,
    records: u64,
    accounts: Accounts,
    walls: Vec<Duration>,
    plain: Vec<Duration>,
}

/// A sink that only counts records.
#[derive(Default)]
struct CountingSink(u64);

impl Sink for CountingSink {
    fn input(&mut self, _: u64, _: SimTime, _: &Input) {
        self.0 += 1;
    }

    fn event(&mut self, _: u64, _: SimTime, _: &Event) {
        self.0 += 1;
    }
}

pub fn bench(args: &BenchArgs, format: Format) -> ExitResult {
    let mut rows = Vec::new();
    for file in &args.files {
        let loaded = load(file, &args.overrides.lower(file));
        let loaded = loaded.map_err(|diagnostics| Failure::Input(diagnostics.to_string()))?;
        let rehearsal = loaded.rehearsal;
        let progress = Progress::default();
        let command = args.overrides.repeat(file, rehearsal.seed);
        let measured = guarded(|| measure(&rehearsal, args, &progress));
        let measured =
            measured.map_err(|fault| Failure::Ours(fault_text(&fault, rehearsal.seed, &progress, &command)))?;
        match format {
            Format::Human => print(&measured.describe())?,
            Format::Json => rows.push(measured.json()),
        }
        end_if_closed()?;
    }
    if format == Format::Json {
        print_json(&rows)?;
    }
    Ok(Exit::Fine)
}

/// Measures one scenario. Panics if a round has a different digest, because a cache must never change a decision.
fn measure(rehearsal: &Rehearsal, args: &BenchArgs, progress: &Progress) -> Measured {
    let (mut audit, mut count) = (Audit::new(&rehearsal.profile), CountingSink::default());
    let digest = round(rehearsal, Caching::On, progress, &mut [&mut audit, &mut count]).1;
    let mut measured = Measured {
        title: rehearsal.title.clone(),
        profile: rehearsal.profile.name.clone(),
        digest,
        records: count.0,
        accounts: audit.finish(),
        walls: Vec::new(),
        plain: Vec::new(),
    };
    for _ in 0..args.rounds {
        let (wall, again) = round(rehearsal, Caching::On, progress, &mut []);
        assert!(again == digest, "a second round has a different digest");
        measured.walls.push(wall);
        if args.against_plain {
            let (wall, plain) = round(rehearsal, Caching::Off, progress, &mut []);
            assert!(plain == digest, "the plain computation has a different digest");
            measured.plain.push(wall);
        }
    }
    measured.walls.sort_unstable();
    measured.plain.sort_unstable();
    measured
}

#[expect(clippy::disallowed_methods, reason = "how long it took is what is asked, and reaches no run")]
fn round(
    rehearsal: &Rehearsal,
    caching: Caching,
    progress: &Progress,
    more: &mut [&mut dyn Sink],
) -> (Duration, Digest) {
    let begun = Instant::now();
    let mut digester = Digester::default();
    let mut sinks: Vec<&mut dyn Sink> = vec![&mut digester];
    for sink in more {
        sinks.push(&mut **sink);
    }
    run(rehearsal, RunOptions { caching, progress: Some(progress), ..RunOptions::default() }, &mut sinks);
    let digest = digester.finish();
    (begun.elapsed(), digest)
}

fn median(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() / 2]
}

impl Measured {
    fn describe(&self) -> String {
        let spread = |walls: &[Duration]| {
            let seconds = |wall: Duration| format!("{:.4}", wall.as_secs_f64());
            let (least, most) = (seconds(walls[0]), seconds(walls[walls.len() - 1]));
            format!("{} s (of {least}..{most})", seconds(median(walls)))
        };
        let (jobs, wall) = (self.accounts.submitted, median(&self.walls));
        let mut text = format!(
            "{} [{}]\n  {}, {} records, digest {}\n  {}, {:.0} jobs a second\n",
            self.title,
            self.profile,
            counted(jobs as usize, "job"),
            self.records,
            &self.digest.to_string()[..16],
            spread(&self.walls),
            jobs as f64 / wall.as_secs_f64(),
        );
        if !self.plain.is_empty() {
            let ratio = median(&self.plain).as_secs_f64() / wall.as_secs_f64();
            text.push_str(&format!("  without caches {}, {ratio:.2} times as long\n", spread(&self.plain)));
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let nanos = |walls: &[Duration]| walls.iter().map(|wall| wall.as_nanos() as u64).collect::<Vec<_>>();
        json!({
            "scenario": self.title, "profile": self.profile, "digest": self.digest.to_string(),
            "records": self.records, "jobs_submitted": self.accounts.submitted,
            "jobs_running": self.accounts.running, "jobs_waiting": self.accounts.waiting,
            "wall_ns": nanos(&self.walls), "plain_wall_ns": nanos(&self.plain),
        })
    }
}
