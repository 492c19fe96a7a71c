//! `dryrack compare --seeds`: how often profiles decide as a program does, in random worlds.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::compare::{CompareArgs, program_of};
use super::each_seed::each_seed;
use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::hunt::kind_named;
use super::output::{Format, print, print_json, warn};
use super::progress::with_bar;
use dryrack_control::Profile;
use dryrack_hunt::{Arena, Asked, Difference, How, compare_seed};
use dryrack_outside::Command;
use dryrack_profile::load_profile;
use dryrack_report::table;
use dryrack_units::counted;

/// The worlds of a seed range, by seed. `Err` says why the program cannot decide in a world.
type Worlds = Vec<(u64, Result<Vec<Asked>, String>)>;

pub fn compare_seeds(args: &CompareArgs, seeds: &RangeInclusive<u64>, format: Format) -> ExitResult {
    let (programs, profiles): (Vec<&String>, Vec<&String>) =
        args.with.iter().partition(|typed| program_of(typed).is_some());
    let (&[program], [_, ..]) = (programs.as_slice(), profiles.as_slice()) else {
        let help = "as in `--with gpustack-0.6.0 --with gpustack==0.6.0`";
        let why = "expected one program, which decides, and at least one profile, which is asked at each decision";
        return Err(Failure::Input(format!("error: --with: {why}\n  = help: {help}\n")));
    };
    let program = program_of(program).unwrap_or_default();
    let kind = kind_named(args.world.as_deref(), program)?;
    let command = Command::read(program);
    let command = command.map_err(|error| Failure::Input(format!("error: --with: {error}\n")))?;
    let load = |name: &&String| load_profile(name, Path::new(""));
    let loaded: Result<Vec<Arc<Profile>>, _> = profiles.iter().map(load).collect();
    let loaded = loaded.map_err(|faults| Failure::Input(faults.to_string()))?;
    let count = seeds.end() - seeds.start() + 1;
    let worlds: Worlds = with_bar((count, "worlds"), |bar| {
        let start = || Arena::new(command.clone());
        each_seed(seeds.clone(), args.threads, start, |arena, seed| {
            let asked = guarded(|| compare_seed(kind, seed, &loaded, arena));
            bar.inc(1);
            (seed, asked.unwrap_or_else(|message| Err(format!("internal error: {message}"))))
        })
    });
    if let Some((seed, why)) = worlds.iter().find_map(|(seed, asked)| Some((seed, asked.as_ref().err()?)))
        && worlds.iter().all(|(_, asked)| asked.is_err())
    {
        return Err(Failure::Input(format!("error: no world could be run; the first, with seed {seed}: {why}\n")));
    }
    let found: Vec<Fidelity<'_>> =
        profiles.iter().enumerate().map(|(index, name)| Fidelity::of(name, index, &worlds)).collect();
    match format {
        Format::Json => print_json(&json!({
            "program": program, "worlds": count,
            "not_run": not_run(&worlds).iter().map(|(why, seeds)| json!({"why": why, "seeds": seeds})).collect::<Vec<_>>(),
            "profiles": found.iter().map(Fidelity::json).collect::<Vec<_>>(),
        }))?,
        Format::Human => {
            let ran = worlds.iter().filter(|(_, asked)| asked.is_ok()).count();
            print(&format!("{program} decides in {}\n", counted(ran, "world")))?;
            for fidelity in &found {
                print(&fidelity.human())?;
            }
            for (why, seeds) in not_run(&worlds) {
                warn(&format!("{} not run, such as {}: {why}\n", counted(seeds.len(), "world"), seeds[0]));
            }
        }
    }
    let is_same = found.iter().all(|fidelity| fidelity.groups.is_empty());
    Ok(if is_same { Exit::Fine } else { Exit::Failed })
}

/// The seeds of the worlds in which the program cannot decide, for each reason. Names of jobs, in backquotes, do not
/// make another reason.
fn not_run(worlds: &Worlds) -> BTreeMap<String, Vec<u64>> {
    let mut reasons: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (seed, asked) in worlds {
        if let Err(why) = asked {
            let line = why.lines().next().unwrap_or_default();
            let without_names =
                line.split('`').enumerate().map(|(number, part)| if number % 2 == 1 { "..." } else { part });
            reasons.entry(without_names.collect()).or_default().push(*seed);
        }
    }
    reasons
}

/// How one profile compares with the program.
struct Fidelity<'w> {
    profile: &'w str,
    /// The decisions about each kind of job, and how many of them are identical.
    kinds: BTreeMap<&'w str, Count>,
    groups: BTreeMap<(How, &'w str), Vec<Other<'w>>>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    decisions: usize,
    same: usize,
}

/// A decision that differs.
struct Other<'w> {
    seed: u64,
    asked: &'w Asked,
    difference: &'w Difference,
}

impl<'w> Fidelity<'w> {
    fn of(profile: &'w str, index: usize, worlds: &'w Worlds) -> Fidelity<'w> {
        let mut fidelity = Fidelity { profile, kinds: BTreeMap::new(), groups: BTreeMap::new() };
        for (seed, asked) in worlds {
            for asked in asked.iter().flatten() {
                let count = fidelity.kinds.entry(asked.stage.as_str()).or_default();
                count.decisions += 1;
                match &asked.differences[index] {
                    None => count.same += 1,
                    Some(difference) => {
                        let group = (difference.how, asked.stage.as_str());
                        fidelity.groups.entry(group).or_default().push(Other { seed: *seed, asked, difference });
                    }
                }
            }
        }
        fidelity
    }

    fn total(&self) -> Count {
        let add = |sum: Count, count: &Count| Count {
            decisions: sum.decisions + count.decisions,
            same: sum.same + count.same,
        };
        self.kinds.values().fold(Count::default(), add)
    }

    fn human(&self) -> String {
        let Count { decisions, same } = self.total();
        // In hundredths of a percent, rounded down.
        let share = (same * 10_000).checked_div(decisions).unwrap_or(0);
        let (whole, part) = (share / 100, share % 100);
        let mut text =
            format!("{}: {same} of {decisions} decisions are identical ({whole}.{part:02} %)\n", self.profile);
        let kinds: Vec<Vec<String>> = (self.kinds.iter())
            .map(|(kind, count)| vec![(*kind).to_string(), count.decisions.to_string(), count.same.to_string()])
            .collect();
        text.push_str(&table(&["job", "decisions", "identical"], &kinds));
        let rows: Vec<Vec<String>> = self.groups.iter().map(|((how, kind), all)| row(*how, kind, all)).collect();
        if !rows.is_empty() {
            text.push('\n');
            text.push_str(&table(&["difference", "job", "decisions", "the first", "program", "profile"], &rows));
        }
        text
    }

    fn json(&self) -> Value {
        let one = |Other { seed, asked, difference }: &Other<'_>| {
            json!({
                "seed": seed, "job": &*asked.job, "at": asked.at.to_string(),
                "program": difference.program, "profile": difference.profile,
            })
        };
        let groups = self.groups.iter().map(|((how, kind), all)| {
            json!({
                "difference": how.text(), "job": kind, "decisions": all.len(),
                "each": all.iter().map(one).collect::<Vec<_>>(),
            })
        });
        let kinds = (self.kinds.iter())
            .map(|(kind, count)| json!({"job": kind, "decisions": count.decisions, "identical": count.same}));
        let Count { decisions, same } = self.total();
        json!({
            "profile": self.profile, "decisions": decisions, "identical": same,
            "jobs": kinds.collect::<Vec<_>>(), "differences": groups.collect::<Vec<_>>(),
        })
    }
}

fn row(how: How, kind: &str, all: &[Other<'_>]) -> Vec<String> {
    let Other { seed, asked, difference } = &all[0];
    vec![
        how.text().to_string(),
        kind.to_string(),
        all.len().to_string(),
        format!("seed {seed}, {} at {}", asked.job, asked.at),
        difference.program.clone(),
        difference.profile.clone(),
    ]
}
