//! `dryrack hunt`: random scenarios in which a program in another process breaks a property.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use serde_json::{Value, json};

use super::each_seed::each_seed;
use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::output::{Format, WholeFile, end_if_closed, print, print_json, warn};
use super::progress::with_line;
use super::seen_from::program_seen_from;
use super::swarm::seeds;
use dryrack_hunt::{
    ALL, Arena, Confirmation, DrawnWorld, Finding, Group, KINDS, Kind, Property, SeedResult, hunt_seed, kind_of,
    smallest,
};
use dryrack_minimize::MinimizeProgress;
use dryrack_outside::Command;
use dryrack_report::table;
use dryrack_units::{counted, printable};

#[derive(Debug, Args)]
pub struct HuntArgs {
    /// Program that decides: a released one such as `gpustack==2.3.0`, or a command line
    #[arg(long, value_name = "CMD")]
    outside: String,
    /// Seeds from A to B, both included: `1..2000`; or a single seed
    #[arg(long, allow_hyphen_values = true, value_name = "A..B", value_parser = seeds)]
    seeds: RangeInclusive<u64>,
    /// Write each finding to a scenario file in DIR
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Check only this property; may be repeated [default: all properties]
    #[arg(long, value_name = "NAME")]
    property: Vec<String>,
    /// Kind of world: models, sglang, fleets, long-runs or tasks [default: the kind that suits the program]
    #[arg(long, value_name = "KIND")]
    world: Option<String>,
    /// Number of processes that run at the same time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Try at most this many candidates to make a finding smaller
    #[arg(long, value_name = "N", default_value_t = 300)]
    max_runs: u64,
    /// Print the worlds of the seeds without running them
    #[arg(long)]
    draw: bool,
}

/// A finding before it is minimized: the seeds that show it, and the smallest of their worlds.
struct UnminimizedFinding {
    seeds: Vec<u64>,
    text: String,
    seed: u64,
}

pub fn hunt(args: &HuntArgs, format: Format) -> ExitResult {
    let (kind, properties) = (kind_named(args.world.as_deref(), &args.outside)?, args.properties()?);
    if args.draw {
        for seed in args.seeds.clone() {
            print(&kind.draw(seed))?;
            end_if_closed()?;
        }
        return Ok(Exit::Fine);
    }
    let command = Command::read(&args.outside);
    let command = command.map_err(|error| Failure::Input(format!("error: --outside: {error}\n")))?;
    if let Some(dir) = &args.out {
        std::fs::create_dir_all(dir).map_err(|error| Failure::uncreated(dir, &error))?;
    }
    let hunted = args.search(kind, &properties, &command);
    let refused: Vec<&SeedResult> = hunted.iter().filter(|hunted| hunted.refusal.is_some()).collect();
    if let Some(first) = refused.first().filter(|_| refused.len() == hunted.len()) {
        let why = first.refusal.as_deref().unwrap_or_default();
        return Err(Failure::Input(format!("error: no world could be run; the first: {why}\n")));
    }
    let groups = grouped(&hunted);
    let findings = args.minimize(kind, &groups, &properties, &command);
    let files = args.write(&findings)?;
    args.print_findings((&hunted, &groups), (&findings, &files), format)?;
    Ok(if findings.iter().any(|finding| finding.confirmed != Confirmation::No) { Exit::Failed } else { Exit::Fine })
}

impl HuntArgs {
    fn properties(&self) -> Result<Vec<&'static dyn Property>, Failure> {
        if self.property.is_empty() {
            return Ok(ALL.to_vec());
        }
        self.property.iter().map(|typed| property_named(typed)).collect()
    }

    /// Runs all seeds. The result does not depend on the number of processes.
    fn search(&self, kind: &Kind, properties: &[&dyn Property], command: &Command) -> Vec<SeedResult> {
        let (done, broken) = (AtomicU64::new(0), AtomicU64::new(0));
        let said = || {
            let (done, broken) = (done.load(Ordering::Relaxed), broken.load(Ordering::Relaxed));
            format!("{done} of {} worlds, {broken} break a property", self.seeds.end() - self.seeds.start() + 1)
        };
        let work = |arena: &mut Arena, seed| {
            let hunted = guarded(|| hunt_seed(kind, seed, properties, arena)).unwrap_or_else(|message| {
                *arena = Arena::new(command.clone());
                let refusal = Some(format!("internal error: {message}"));
                SeedResult { seed, text: kind.draw(seed), breaches: Vec::new(), refusal }
            });
            broken.fetch_add(u64::from(!hunted.breaches.is_empty()), Ordering::Relaxed);
            done.fetch_add(1, Ordering::Relaxed);
            hunted
        };
        with_line(said, || each_seed(self.seeds.clone(), self.jobs, || Arena::new(command.clone()), work))
    }

    /// The smallest scenario of each group, in the order of the groups.
    fn minimize(
        &self,
        kind: &Kind,
        groups: &BTreeMap<Group, UnminimizedFinding>,
        properties: &[&dyn Property],
        command: &Command,
    ) -> Vec<Finding> {
        let todo: Vec<(&Group, &UnminimizedFinding)> = groups.iter().collect();
        if todo.is_empty() {
            return Vec::new();
        }
        let in_file = program_seen_from(self.out.as_deref().unwrap_or(Path::new("")), &self.outside);
        let (begun, watched) = (AtomicU64::new(0), MinimizeProgress::default());
        let said = || format!("finding {} of {}: {}", begun.load(Ordering::Relaxed), todo.len(), watched.text());
        let work = |arena: &mut Arena, number: u64| {
            begun.fetch_add(1, Ordering::Relaxed);
            let (group, found) = todo[number as usize];
            let property = properties.iter().find(|property| property.name() == group.property)?;
            let (outside, outside_in_file) = (self.outside.as_str(), in_file.as_str());
            let world = DrawnWorld { outside, outside_in_file, kind: kind.name, seed: found.seed, text: &found.text };
            guarded(|| smallest((*property, group), world, self.max_runs, arena, &watched)).ok().flatten()
        };
        let numbers = 0..=todo.len() as u64 - 1;
        let found = with_line(said, || each_seed(numbers, self.jobs, || Arena::new(command.clone()), work));
        found.into_iter().flatten().collect()
    }

    /// Writes the findings that were confirmed. Returns the file of each.
    fn write(&self, findings: &[Finding]) -> Result<Vec<Option<PathBuf>>, Failure> {
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut files = Vec::new();
        for finding in findings {
            let (Some(dir), true) = (&self.out, finding.confirmed != Confirmation::No) else {
                files.push(None);
                continue;
            };
            let number = numbers.entry(finding.group.property).or_default();
            *number += 1;
            let path = dir.join(format!("{}-{number}.yaml", finding.group.property));
            let mut file = WholeFile::create(&path)?;
            let written = std::io::Write::write_all(&mut file, finding.text.as_bytes());
            file.keep(written)?;
            files.push(Some(path));
        }
        Ok(files)
    }

    fn print_findings(
        &self,
        (hunted, groups): (&[SeedResult], &BTreeMap<Group, UnminimizedFinding>),
        (findings, files): (&[Finding], &[Option<PathBuf>]),
        format: Format,
    ) -> Result<(), Failure> {
        let refused = hunted.iter().filter(|hunted| hunted.refusal.is_some()).count();
        let seeds = |finding: &Finding| groups.get(&finding.group).map_or(&[][..], |found| &found.seeds);
        let shown =
            |file: &Option<PathBuf>| file.as_deref().map_or(String::new(), |file: &Path| file.display().to_string());
        match format {
            Format::Json => {
                let of = |(finding, file): (&Finding, &Option<PathBuf>)| -> Value {
                    json!({
                        "property": finding.group.property, "rule": finding.rule, "manner": finding.group.manner,
                        "account": finding.account, "worlds": seeds(finding).len(), "seeds": seeds(finding),
                        "smallest_of_seed": finding.seed, "runs": finding.runs, "confirmed": said(finding.confirmed),
                        "file": file.as_ref().map(|file| file.display().to_string()), "scenario": finding.text,
                    })
                };
                let findings: Vec<Value> = findings.iter().zip(files).map(of).collect();
                let invalid: Vec<Value> = (hunted.iter())
                    .filter_map(|hunted| Some(json!({"seed": hunted.seed, "why": hunted.refusal.as_ref()?})))
                    .collect();
                print_json(&json!({
                    "outside": self.outside, "worlds": hunted.len(), "not_run": invalid, "findings": findings,
                }))
            }
            Format::Human => {
                let rows: Vec<Vec<String>> = (findings.iter().zip(files))
                    .map(|(finding, file)| {
                        vec![
                            finding.group.property.to_string(),
                            printable(&finding.group.manner).into_owned(),
                            seeds(finding).len().to_string(),
                            said(finding.confirmed).to_string(),
                            shown(file),
                        ]
                    })
                    .collect();
                if !rows.is_empty() {
                    print(&table(&["property", "how it was broken", "worlds", "", "file"], &rows))?;
                    print("\n")?;
                }
                let found = findings.iter().filter(|finding| finding.confirmed != Confirmation::No).count();
                print(&format!("{}: {}\n", counted(hunted.len(), "world"), counted(found, "finding")))?;
                if refused > 0 {
                    let first = hunted.iter().find_map(|hunted| Some((hunted.seed, hunted.refusal.as_deref()?)));
                    let first =
                        first.map_or(String::new(), |(seed, why)| format!("; the first, with seed {seed}: {why}"));
                    warn(&format!("{} could not be run{first}\n", counted(refused, "world")));
                }
                Ok(())
            }
        }
        .map_err(Failure::from)
    }
}

/// The seeds of each group, and the smallest world among theirs.
fn grouped(hunted: &[SeedResult]) -> BTreeMap<Group, UnminimizedFinding> {
    let mut groups: BTreeMap<Group, UnminimizedFinding> = BTreeMap::new();
    for SeedResult { seed, text, breaches, .. } in hunted {
        for breach in breaches {
            let found = groups.entry(breach.group()).or_insert_with(|| UnminimizedFinding {
                seeds: Vec::new(),
                text: text.clone(),
                seed: *seed,
            });
            if found.seeds.last() != Some(seed) {
                found.seeds.push(*seed);
            }
            if (text.len(), seed) < (found.text.len(), &found.seed) {
                (found.text, found.seed) = (text.clone(), *seed);
            }
        }
    }
    groups
}

/// The kind of world that was typed, or else the one for the program.
pub(super) fn kind_named(typed: Option<&str>, outside: &str) -> Result<&'static Kind, Failure> {
    let Some(typed) = typed else { return Ok(kind_of(outside)) };
    let names = || KINDS.iter().map(|kind| kind.name);
    KINDS.iter().find(|kind| kind.name == typed).ok_or_else(|| unknown("--world", typed, names()))
}

pub(super) fn property_named(typed: &str) -> Result<&'static dyn Property, Failure> {
    let names = || ALL.iter().map(|property| property.name());
    let found = ALL.iter().find(|property| property.name() == typed);
    found.copied().ok_or_else(|| unknown("--property", typed, names()))
}

/// Whether a finding was seen again, in words.
pub(super) fn said(confirmed: Confirmation) -> &'static str {
    match confirmed {
        Confirmation::WithProfile => "confirmed",
        Confirmation::Alone => "confirmed; dryrack's profile does the same",
        Confirmation::No => "not repeated by a new process",
    }
}

fn unknown<'n>(flag: &str, typed: &str, names: impl Iterator<Item = &'n str>) -> Failure {
    let names: Vec<&str> = names.collect();
    let help = match dryrack_nearest::nearest(typed, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", names.join(", ")),
    };
    Failure::Input(format!("error: {flag}: nothing is named `{typed}`; {help}\n"))
}
