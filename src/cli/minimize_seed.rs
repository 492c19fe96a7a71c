//! `dryrack minimize SEED`: the smallest world of a seed in which a program breaks a property.

use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::hunt::{kind_named, property_named, said};
use super::minimize::{MOST_RUNS_OUTSIDE, MinimizeArgs};
use super::output::{Format, WholeFile, print, print_json, warn};
use super::progress::with_line;
use super::seen_from::program_seen_from;
use dryrack_hunt::{ALL, Arena, Breach, Confirmation, DrawnWorld, Finding, Property, SeedResult, hunt_seed, smallest};
use dryrack_minimize::MinimizeProgress;
use dryrack_outside::{Command, quoted};
use dryrack_units::{counted, printable};

pub fn minimize_seed(args: &MinimizeArgs, seed: u64, format: Format) -> ExitResult {
    let Some(outside) = &args.outside else {
        let help = "name the program that decides in the world, as in `--outside gpustack==2.3.0`";
        let swarm = format!("`dryrack swarm --seeds {seed} --log FILE` writes the log of a world of `swarm`");
        let why = format!("there is no file {seed}, and a world of `hunt` needs a program");
        return Err(Failure::Input(format!("error: {why}\n  = help: {help}; {swarm}\n")));
    };
    let kind = kind_named(args.world.as_deref(), outside)?;
    let properties: Vec<&dyn Property> = match &args.property {
        Some(name) => vec![property_named(name)?],
        None => ALL.to_vec(),
    };
    let command = Command::read(outside);
    let command = command.map_err(|error| Failure::Input(format!("error: --outside: {error}\n")))?;
    let mut arena = Arena::new(command);
    let draw = || guarded(|| hunt_seed(kind, seed, &properties, &mut arena)).map_err(|message| fault(args, &message));
    let SeedResult { text, breaches, refusal, .. } = with_line(|| format!("running world {seed}"), draw)?;
    if let Some(why) = refusal {
        return Err(Failure::Input(format!("error: world {seed} could not be run: {why}\n")));
    }
    let Some(breach) = breaches.first() else {
        warn(&format!("world {seed} breaks no property; nothing was written\n"));
        return Ok(Exit::NothingSelected);
    };
    let property = properties.iter().find(|property| property.name() == breach.property);
    let property = *property.expect("a breach is of a property that was asked about");
    let mut out = WholeFile::create(&args.out)?;
    let watched = MinimizeProgress::default();
    let runs = args.max_runs.unwrap_or(MOST_RUNS_OUTSIDE);
    let in_file = program_seen_from(args.out.parent().unwrap_or(Path::new("")), outside);
    let world = DrawnWorld { outside, outside_in_file: &in_file, kind: kind.name, seed, text: &text };
    let search = || guarded(|| smallest((property, &breach.group()), world, runs, &mut arena, &watched));
    let found = with_line(|| watched.text(), search).map_err(|message| fault(args, &message))?;
    let Some(finding) = found.filter(|finding| finding.confirmed != Confirmation::No) else {
        warn(&format!("world {seed}: a new process does not repeat it; nothing was written\n"));
        return Ok(Exit::NothingSelected);
    };
    let written = out.write_all(finding.text.as_bytes());
    out.keep(written)?;
    tell(args, (&finding, &text), &breaches, format)?;
    Ok(Exit::Fine)
}

fn fault(args: &MinimizeArgs, message: &str) -> Failure {
    let (outside, seed) = (args.outside.as_deref().unwrap_or_default(), args.file.display());
    let world = args.world.as_ref().map_or(String::new(), |kind| format!(" --world {kind}"));
    let repeat = format!("dryrack hunt --outside {} --seeds {seed}{world}", quoted(outside));
    Failure::Ours(format!("internal error: {message}\n  repeat with: {repeat}\n"))
}

fn tell(
    args: &MinimizeArgs,
    (finding, drawn): (&Finding, &str),
    breaches: &[Breach],
    format: Format,
) -> Result<(), Failure> {
    let (before, after) = (drawn.lines().count(), finding.text.lines().count());
    let others: Vec<_> = breaches.iter().filter(|breach| breach.group() != finding.group).collect();
    let out = args.out.display();
    match format {
        Format::Json => print_json(&json!({
            "out": out.to_string(), "outside": args.outside, "seed": finding.seed,
            "property": finding.group.property, "rule": finding.rule, "manner": finding.group.manner,
            "account": finding.account, "confirmed": said(finding.confirmed),
            "lines": {"before": before, "after": after}, "runs": finding.runs,
            "also_broken": others.iter().map(|breach| breach.property).collect::<Vec<_>>(),
        }))?,
        Format::Human => {
            let bold = anstyle::Style::new().bold();
            print(&format!(
                "{bold}{} is still broken{bold:#}: {}\n  {}\n  {}\n{out}: lines {before} to {after}; {}\n",
                finding.group.property,
                printable(&finding.group.manner),
                printable(finding.account.trim()),
                said(finding.confirmed),
                counted(finding.runs as usize, "run"),
            ))?;
            if let Some(other) = others.first() {
                let what = format!("{} ({})", other.property, printable(&other.manner));
                let more = if others.len() > 1 { format!(" and {} more", others.len() - 1) } else { String::new() };
                print(&format!("the world also breaks {what}{more}; --property selects another one"))?;
            }
        }
    }
    Ok(())
}
