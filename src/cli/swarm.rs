//! `dryrack swarm`: random worlds, every check on.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde_json::json;

use super::exit::{Done, Exit, Failure};
use super::fault::fault_text;
use super::guard::guarded;
use super::output::{Format, say, say_json, warn};
use super::test::pool;
use crate::control::Profile;
use crate::engine::{Progress, WorldResult, run_world};
use crate::event::Outcome;
use crate::report::some;
use crate::scenario::{load_profile, profile_names};

#[derive(Debug, Args)]
pub struct SwarmArgs {
    /// Seeds from A to B, both included as in `seeds:` of a scenario: `1..2000`; or one of them
    #[arg(long, allow_hyphen_values = true, value_name = "A..B", value_parser = seeds)]
    seeds: RangeInclusive<u64>,
    /// Threads to run on; as many as there are cores if not given
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

/// Seeds of one swarm, so that they can be counted.
const MAX_SEEDS: u64 = 1_000_000_000;

pub fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let expected = "expected two numbers such as 1..2000, the first not the larger, or one";
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let number = |part: &str| part.trim().parse::<u64>().map_err(|_| expected.to_string());
    let (from, to) = (number(from)?, number(to)?);
    match to.checked_sub(from) {
        Some(more) if more < MAX_SEEDS => Ok(from..=to),
        Some(_) => Err(format!("more than {MAX_SEEDS} seeds")),
        None => Err(expected.to_string()),
    }
}

pub fn swarm(args: &SwarmArgs, format: Format) -> Done {
    let load = |name| load_profile(name, Path::new(""));
    let profiles: Vec<Arc<Profile>> = profile_names()
        .map(load)
        .collect::<Result<_, _>>()
        .map_err(|diagnostics| Failure::Ours(diagnostics.to_string()))?;
    let bar = ProgressBar::new(args.seeds.end() - args.seeds.start() + 1);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} worlds").expect("a valid template");
    bar.set_style(style);
    let results: Vec<Result<WorldResult, String>> = pool(args.threads)?.install(|| {
        let worlds = args.seeds.clone().into_par_iter().map(|seed| {
            let progress = Progress::default();
            let result = guarded(|| run_world(seed, &profiles, &progress));
            bar.inc(1);
            let command = format!("dryrack swarm --seeds {seed}");
            result.map_err(|message| fault_text(&message, seed, &progress, &command))
        });
        worlds.collect()
    });
    bar.finish_and_clear();
    let faults: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    faults.iter().for_each(|fault| warn(fault));
    tell(&results, faults.len(), format)?;
    Ok(if faults.is_empty() { Exit::Fine } else { Exit::OurFault })
}

fn tell(results: &[Result<WorldResult, String>], faults: usize, format: Format) -> Result<(), Failure> {
    let sum = |part: fn(&WorldResult) -> u64| results.iter().flatten().map(part).sum::<u64>();
    let (records, jobs) = (sum(|world| world.records), sum(|world| world.accounts.submitted));
    match format {
        Format::Json => {
            let mut said = json!({
                "worlds": results.len(), "broken": faults, "records": records, "jobs_submitted": jobs,
                "jobs_running": sum(|world| world.accounts.running),
                "jobs_waiting": sum(|world| world.accounts.waiting),
            });
            for outcome in Outcome::ALL {
                let count: u64 = results.iter().flatten().map(|world| world.accounts.count(outcome)).sum();
                said[format!("jobs_{}", outcome.name())] = count.into();
            }
            say_json(&said)?;
        }
        Format::Human => {
            let worlds = some(results.len(), "world");
            say(&format!("{worlds}, {records} records, {jobs} jobs: {faults} broke an invariant\n"))?;
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
}
