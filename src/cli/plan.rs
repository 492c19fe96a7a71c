//! `dryrack plan`: runs, compares and searches many alternatives of a scenario.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use rayon::prelude::*;
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, WholeFile, print, print_json, warn};
use super::picture::{Picture, PictureFile, picture_file};
use super::plan_growing::Growing;
use super::plan_pair::{PairArgs, pair};
use super::plan_submit::{SubmitArgs, submit};
use super::plan_text::plan_text;
use super::planning::{Planning, of_sweep};
use super::progress;
use super::swarm::seeds;
use dryrack_plan::{
    BreakResult, Comparison, FleetSize, Journal, JournalError, PlanPage, PlanRun, Row, Runs, Search, SearchResult,
    answer, by_choice, case_of_answer, compare, constraint_names, failing, fleet_size, idle_factors, idle_sentence,
    named_choices, page, plans_of_cases, start_wait_note, still_open,
};
use dryrack_scenario::{Method, Objective};
use dryrack_units::counted;
use dryrack_yaml::Diagnostics;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct PlanArgs {
    #[command(subcommand)]
    command: Option<PlanCommand>,
    /// Plan file
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Write report.html, plan.json, alternatives.csv and runs.jsonl to DIR; each run is saved as soon as it is done
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Draw the first page of the report, with an installed browser
    #[arg(long, value_name = "FILE.png|.pdf", value_parser = picture_file, requires = "out", conflicts_with = "shard")]
    picture: Option<PictureFile>,
    /// Earlier result, such as out/plan.json; exit with 1 and show both answers if the answer has changed
    #[arg(long, value_name = "FILE", conflicts_with = "shard")]
    against: Option<PathBuf>,
    /// Override a field of the scenario in every alternative, as in load=110%; may be repeated
    #[arg(long, value_name = "PATH=VALUE", conflicts_with = "shard")]
    set: Vec<String>,
    /// Seeds instead of those of the plan, both ends included, such as 1..60
    #[arg(long, value_name = "FROM..TO", value_parser = seeds, conflicts_with = "shard")]
    seeds: Option<RangeInclusive<u64>>,
    /// Continue where an earlier process stopped; finished runs are not repeated
    #[arg(long, requires = "out")]
    resume: bool,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Run only one part of a sweep: every n-th run, starting at the i-th, counted from 0; `plan merge` joins the parts
    #[arg(long, value_name = "I/N", value_parser = shard, requires = "out")]
    shard: Option<Shard>,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    /// Merge the parts that --shard has run into the result of the whole sweep
    Merge(MergeArgs),
    /// Compare two alternatives job by job
    Pair(PairArgs),
    /// Submit a sweep to a cluster in parts, as a Slurm job array or a Kubernetes Indexed Job
    Submit(SubmitArgs),
}

#[derive(Debug, Args)]
struct MergeArgs {
    /// Plan file
    file: PathBuf,
    /// Folders with the results of the parts
    #[arg(required = true, value_name = "DIR")]
    parts: Vec<PathBuf>,
    /// Folder for the joined result
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug)]
struct Shard {
    index: usize,
    of: usize,
}

fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((index, of)) if index < of => Ok(Shard { index, of }),
        _ => Err("expected a part such as 0/4, counted from 0".to_string()),
    }
}

pub fn plan(args: &PlanArgs, format: Format) -> ExitResult {
    match (&args.command, &args.file) {
        (Some(PlanCommand::Merge(merge)), _) => merged(merge, format),
        (Some(PlanCommand::Pair(args)), _) => pair(args, format),
        (Some(PlanCommand::Submit(args)), _) => submit(args, format),
        (None, Some(file)) => planned(args, file, format),
        (None, None) => unreachable!("clap requires a file"),
    }
}

fn planned(args: &PlanArgs, file: &Path, format: Format) -> ExitResult {
    let before = args.against.as_deref().map(answer_in).transpose()?;
    let picture = Picture::of(args.picture.as_ref())?;
    let planning = Planning::read_with(file, &args.set, args.seeds.clone())?;
    if planning.plan.method == Method::Search && args.shard.is_some() {
        return Err(Failure::Input(
            "error: --shard works only for a sweep; a search decides after each run what to run next\n".to_string(),
        ));
    }
    let kept = FinishedRuns::open(args, &planning)?;
    let pool = super::test::pool(args.threads)?;
    let (found, wanted) = match planning.plan.method {
        Method::Sweep => (None, pool.install(|| sweep(&planning, args.shard, &kept))?),
        Method::Search => {
            let (found, wanted) = pool.install(|| search(&planning, &kept))?;
            (Some(found), wanted)
        }
    };
    let all = kept.runs.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let (Some(shard), Some(dir)) = (args.shard, &args.out) {
        return part_done(&planning, &all, shard, dir, format);
    }
    // A resumed plan may have runs that this one does not ask for. They are kept, but the answer is that of a fresh plan.
    let runs: Runs = wanted.into_iter().filter_map(|key| Some((key, all.get(&key)?.clone()))).collect();
    let exit = finish(&planning, (&runs, &all), found.as_ref(), (args.out.as_deref(), before), format)?;
    if let (Some(picture), Some(dir)) = (picture, &args.out) {
        picture.draw(&dir.join("report.html"))?;
    }
    Ok(exit)
}

/// The finished runs, in memory and, with `--out`, in a file.
struct FinishedRuns {
    /// When the time budget ends. No run begins after this time.
    until: Option<Instant>,
    journal: Option<Journal>,
    runs: Mutex<Runs>,
}

impl FinishedRuns {
    fn open(args: &PlanArgs, planning: &Planning) -> Result<FinishedRuns, Failure> {
        let until = planning.plan.time.and_then(|time| now().checked_add(Duration::from_nanos(time.as_nanos())));
        let Some(dir) = &args.out else { return Ok(FinishedRuns { until, journal: None, runs: Mutex::default() }) };
        std::fs::create_dir_all(dir).map_err(|error| Failure::uncreated(dir, &error))?;
        let path = dir.join("runs.jsonl");
        if path.exists() && !args.resume {
            let why = "already exists; continue with --resume, or name another folder";
            return Err(Failure::file(&path, why));
        }
        let (journal, runs) =
            Journal::open(&path, &planning.header, &planning.plan).map_err(|error| into_failure(&error))?;
        Ok(FinishedRuns { until, journal: Some(journal), runs: Mutex::new(runs) })
    }

    /// Whether the time budget is used up.
    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| now() >= until)
    }

    fn has(&self, key: (usize, u64)) -> Option<PlanRun> {
        self.runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(&key).cloned()
    }

    /// The result of a run. It is run only if it has not been run before.
    fn get(&self, planning: &Planning, key: (usize, u64)) -> Result<PlanRun, Failure> {
        if let Some(known) = self.has(key) {
            return Ok(known);
        }
        let run = planning.run(key.0, key.1)?;
        if let Some(journal) = &self.journal {
            journal.add(&run).map_err(|error| into_failure(&error))?;
        }
        self.runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(key, run.clone());
        Ok(run)
    }
}

#[expect(clippy::disallowed_methods, reason = "a budget of time is that of whoever waits")]
fn now() -> Instant {
    Instant::now()
}

fn into_failure(error: &JournalError) -> Failure {
    Failure::Input(format!("error: {error}\n"))
}

/// Finishes one part of a sweep. A part writes only its runs, without a result; `plan merge` makes the result of all
/// parts.
fn part_done(planning: &Planning, runs: &Runs, shard: Shard, dir: &Path, format: Format) -> ExitResult {
    WholeFile::write(&dir.join("runs.jsonl"), &Journal::sorted(&planning.header, runs))?;
    match format {
        Format::Human => print(&format!("part {}/{}: {}\n", shard.index, shard.of, counted(runs.len(), "run")))?,
        Format::Json => print_json(&json!({"part": shard.index, "of": shard.of, "runs": runs.len()}))?,
    }
    Ok(Exit::Fine)
}

/// Runs every alternative with every seed, or only the runs of one part. Returns all of them.
fn sweep(planning: &Planning, shard: Option<Shard>, kept: &FinishedRuns) -> Result<Vec<(usize, u64)>, Failure> {
    let plan = &planning.plan;
    let is_ours = |index: usize| shard.is_none_or(|shard| index % shard.of == shard.index);
    let wanted: Vec<(usize, u64)> =
        of_sweep(plan).enumerate().filter(|(index, _)| is_ours(*index)).map(|(_, key)| key).collect();
    let held = wanted.iter().filter(|key| kept.has(**key).is_some()).count();
    progress::with_bar((wanted.len() as u64, "runs"), |bar| {
        progress::begin_at(bar, held as u64);
        wanted.par_iter().try_for_each(|key| {
            if kept.has(*key).is_none() && !kept.is_late() {
                kept.get(planning, *key)?;
                bar.inc(1);
            }
            Ok(())
        })
    })
    .map(|()| wanted)
}

/// Searches for the cheapest alternative with few runs, and then for the cheapest with each named value of a choice. The
/// alternatives run one after the other, and the seeds of an alternative run in parallel. An alternative stops running once its seeds decide the question. The order of runs does
/// not depend on the number of threads. Returns the result with its runs.
fn search(planning: &Planning, kept: &FinishedRuns) -> Result<(SearchResult, Vec<(usize, u64)>), Failure> {
    let plan = &planning.plan;
    let objective = plan.minimize.unwrap_or(Objective::Gpus);
    let size = |cell: usize| fleet_size(plan, cell, &planning.base);
    let sizes: Result<Vec<FleetSize>, Diagnostics> = progress::with_line(
        || "counting what each alternative has".to_string(),
        || (0..plan.cells()).into_par_iter().map(size).collect(),
    );
    let sizes = sizes.map_err(|faults| Failure::Input(faults.to_string()))?;
    let of = |size: &FleetSize| size.of(objective).expect("a search makes small what is known before");
    let (mut left, mut wanted) = (plan.runs.unwrap_or(u64::MAX), Vec::new());
    let mut searches: Vec<(Search, Vec<usize>)> = Vec::new();
    progress::with_bar((plan.cells() as u64, "alternatives settled"), |bar| {
        let mut settled = 0;
        for (part, cells) in plans_of_cases(plan) {
            let mut search = Search::new(&part, cells.iter().map(|cell| of(&sizes[*cell])).collect());
            let tick = |of_part| bar.set_position(settled + of_part);
            search_one(planning, kept, &mut search, (&cells, &mut left, &mut wanted), tick)?;
            settled += cells.len() as u64;
            searches.push((search, cells));
        }
        // Other assumptions than those of the answer have answers of their own, but no choices.
        let known = wanted.iter().filter_map(|key| Some((*key, kept.has(*key)?))).collect();
        let (search, cells) = &mut searches[case_of_answer(plan, &compare(plan, &known))];
        search.with_choices(named_choices(plan));
        let others = settled - cells.len() as u64;
        let tick = |of_part| bar.set_position(others + of_part);
        search_one(planning, kept, search, (cells, &mut left, &mut wanted), tick)
    })?;
    let found = searches.iter().map(|(search, _)| search.found()).reduce(|found, other| found.join(plan, other));
    Ok((found.expect("a plan has a case"), wanted))
}

/// Searches among the alternatives with equal assumptions, which have these numbers in the whole plan.
fn search_one(
    planning: &Planning,
    kept: &FinishedRuns,
    search: &mut Search,
    (cells, left, wanted): (&[usize], &mut u64, &mut Vec<(usize, u64)>),
    tick: impl Fn(u64),
) -> Result<(), Failure> {
    let plan = &planning.plan;
    while let Some(of_part) = search.next_alternative() {
        let cell = cells[of_part];
        let mut runs = Runs::new();
        let decided = loop {
            let row = compare(plan, &runs).rows.pop();
            if let Some(row) = row.filter(|row| row.keeps.is_some()) {
                break Some(failing(plan, &row));
            }
            let from = runs.len();
            let at_once = usize::try_from(*left).unwrap_or(usize::MAX).min(SEEDS_AT_ONCE);
            let next: Vec<u64> = plan.seeds[from..].iter().take(at_once).copied().collect();
            let is_new = next.iter().any(|seed| kept.has((cell, *seed)).is_none());
            if next.is_empty() || (is_new && kept.is_late()) {
                break None;
            }
            *left -= next.len() as u64;
            wanted.extend(next.iter().map(|seed| (cell, *seed)));
            let done: Result<Vec<PlanRun>, Failure> =
                next.par_iter().map(|seed| kept.get(planning, (cell, *seed))).collect();
            runs.extend(done?.into_iter().map(|run| ((cell, run.seed), run)));
        };
        let Some(failing) = decided else { break };
        search.record(of_part, failing);
        tick(search.settled() as u64);
    }
    Ok(())
}

/// The number of seeds that run in parallel. It is fixed, so that the result does not depend on the number of threads.
const SEEDS_AT_ONCE: usize = 4;

fn merged(args: &MergeArgs, format: Format) -> ExitResult {
    let planning = Planning::read(&args.file)?;
    let mut runs = Runs::new();
    for part in &args.parts {
        let path = part.join("runs.jsonl");
        runs.extend(Journal::read_only(&path, &planning.header, &planning.plan).map_err(|error| into_failure(&error))?);
    }
    let plan = &planning.plan;
    let missing: Vec<(usize, u64)> = of_sweep(plan).filter(|key| !runs.contains_key(key)).collect();
    if let Some((cell, seed)) = missing.first() {
        let first = format!("{} with seed {seed}", plan.cell_name(*cell));
        let message =
            format!("error: {} are missing in all parts; the first is {first}\n", counted(missing.len(), "run"));
        return Err(Failure::Input(message));
    }
    std::fs::create_dir_all(&args.out).map_err(|error| Failure::uncreated(&args.out, &error))?;
    // A plan that is running in this folder must not lose its journal.
    let _lock = Journal::reserve(&args.out.join("runs.jsonl")).map_err(|error| into_failure(&error))?;
    finish(&planning, (&runs, &runs), None, (Some(&args.out), None), format)
}

/// The answer of an earlier result.
fn answer_in(path: &Path) -> Result<Earlier, Failure> {
    let expected = "a plan.json that `dryrack plan FILE --out DIR` wrote";
    let text = std::fs::read_to_string(path).map_err(|error| Failure::unreadable(path, &error, expected))?;
    let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let text = |name: &str| value[name].as_str().map(str::to_string);
    let answer = text("answer").ok_or_else(|| Failure::file(path, format!("has no answer; expected {expected}")))?;
    Ok(Earlier { answer, short: text("short_answer"), fleet: text("fleet") })
}

/// The answer of an earlier result. An older version wrote only the whole text.
struct Earlier {
    answer: String,
    short: Option<String>,
    fleet: Option<String>,
}

impl Earlier {
    /// Whether the answer names the same alternative with the same fleet, and is as sure. The other sentences say how it
    /// was found; a search and a sweep differ in them.
    fn is(&self, short: &str, fleet: &str) -> bool {
        match (&self.short, &self.fleet) {
            (Some(before), Some(of)) => before == short && of == fleet,
            _ => {
                let rest = self.answer.strip_prefix(short);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')) && self.answer.contains(fleet)
            }
        }
    }
}

/// Writes and prints the result of `runs`. The journal has `all` runs.
fn finish(
    planning: &Planning,
    (runs, all): (&Runs, &Runs),
    found: Option<&SearchResult>,
    (out, before): (Option<&Path>, Option<Earlier>),
    format: Format,
) -> ExitResult {
    let plan = &planning.plan;
    let comparison = compare(plan, runs);
    let best = plan.minimize.and_then(|objective| comparison.best(plan, objective));
    let (open, is_search) = (still_open(plan, &comparison, found), found.is_some());
    let asked = constraint_names(runs);
    let named = by_choice(plan, &comparison, found);
    let mut found = planning.with_gpu_names(answer(plan, &comparison, found), &comparison, best)?;
    found.with_serving_error(&asked);
    let idle = idle_factors(plan, runs);
    let (fleet, month) = best.map_or(Ok(Default::default()), |row| planning.fleet(row))?;
    let words = best.map_or(Ok(String::new()), |row| planning.fleet_words(row))?;
    if let Some(row) = best {
        found.with_fleet(row, &words);
    }
    found.how.push_str(&month);
    let fleet = fleet + &month;
    if let Some(row) = best {
        found.how.push_str(&planning.range_ends(row, &comparison, (&idle, is_search && open.is_none())));
    }
    found.how.push_str(&idle_sentence(plan, &idle));
    let growing = Growing::run(planning, &comparison, best)?;
    growing.add_end(planning, best, &mut found);
    let breaks = growing.breaks(planning, best)?;
    found.short.push_str(&planning.ends_of_answer(best, &comparison, &breaks)?);
    found.with_doubt(best.zip(open), &breaks);
    growing.begin(planning, &mut found);
    found.with_never_run(&comparison, best);
    let answer = found.text();
    let lines = breaks_of(planning, best, &breaks)?;
    let note = start_wait_note(&comparison, &asked);
    let mut whole = json!({
        "plan": plan.title, "answer": answer, "short_answer": found.short, "fleet": fleet.trim_start(), "input": planning.header.input, "dryrack": planning.header.dryrack,
        "scenario": plan.scenario, "set": planning.base.set, "seeds": plan.seeds, "minimize": plan.minimize.map(Objective::name),
        "breaks": breaks_json(&breaks, &lines),
        "choices": Vec::from_iter(named.iter().map(|named| named.json.clone())),
        "alternatives": comparison.json(plan),
    });
    if let Some(horizon) = growing.json(planning, &comparison) {
        whole["horizon"] = horizon;
    }
    add_notes(&mut whole, note.as_deref(), &planning.assumed);
    if let Some(dir) = out {
        let shown = PlanPage {
            answer: &found,
            note: note.as_deref(),
            breaks: &lines,
            growth: growing.growth.as_ref(),
            sure_end: &growing.sure_end(planning, best),
            fleet: &words,
            choices: &named,
            throughout: growing.throughout(),
        };
        write(dir, planning, (runs, all), &comparison, (&whole, &shown))?;
    }
    match format {
        Format::Human => {
            let named = named.iter().map(|named| &named.sentence);
            let also = named.chain(&note).chain(lines.iter().map(|(sentence, _)| sentence)).collect();
            print(&plan_text(planning, (&comparison, &asked), (&answer, also), growing.growth.as_ref()))?;
        }
        Format::Json => print_json(&whole)?,
    }
    if let Some(before) = before.filter(|before| !before.is(&found.short, fleet.trim_start())) {
        warn(&format!("the answer has changed\n  was  {}\n  now  {}\n", before.answer.trim_end(), answer.trim_end()));
        return Ok(Exit::Failed);
    }
    let any_keeps = comparison.rows.iter().any(|row| row.keeps == Some(true));
    Ok(if plan.asked.is_empty() || any_keeps { Exit::Fine } else { Exit::Failed })
}

/// Writes the files of a plan.
fn write(
    dir: &Path,
    planning: &Planning,
    (runs, all): (&Runs, &Runs),
    comparison: &Comparison,
    (whole, shown): (&serde_json::Value, &PlanPage<'_>),
) -> Result<(), Failure> {
    let plan = &planning.plan;
    let mut json = serde_json::to_string_pretty(whole).expect("it has a JSON form");
    json.push('\n');
    let html = page((plan, &planning.assumed, &planning.flags), &planning.header, (comparison, runs), shown);
    let files = [
        ("runs.jsonl", Journal::sorted(&planning.header, all)),
        ("alternatives.csv", comparison.csv(plan)),
        ("plan.json", json.into_bytes()),
        ("report.html", html.into_bytes()),
    ];
    WholeFile::write_all(files.map(|(name, bytes)| (dir.join(name), bytes)))
}

fn add_notes(whole: &mut serde_json::Value, note: Option<&str>, assumed: &[String]) {
    if let Some(note) = note {
        whole["note"] = json!(note);
    }
    if !assumed.is_empty() {
        whole["assumed"] = json!(assumed);
    }
}

/// How the answer would break: a sentence for each change, and the command that repeats its first run that failed, or the
/// first of all if none did.
fn breaks_of(
    planning: &Planning,
    best: Option<&Row>,
    breaks: &[BreakResult],
) -> Result<Vec<(String, String)>, Failure> {
    let Some(row) = best else { return Ok(Vec::new()) };
    let expected = planning.expected(row)?;
    let first = planning.plan.seeds.first().copied().unwrap_or(1);
    let line = |found: &BreakResult| {
        let mut changes = found.change.set.clone();
        // The repeated run also judges the constraint that broke, unless the scenario itself expects it.
        let broken = found.broken.as_ref().filter(|broken| broken.name.contains(['<', '>']));
        let broken = broken.filter(|broken| !expected.contains(broken.name.as_str()));
        changes.extend(broken.map(|broken| format!("expect.+={}", broken.name)));
        let seed = found.broken.as_ref().map_or(first, |broken| broken.seed);
        (found.sentence(), planning.command(row.cell, seed, &changes))
    };
    Ok(breaks.iter().map(line).collect())
}

fn breaks_json(breaks: &[BreakResult], lines: &[(String, String)]) -> Vec<serde_json::Value> {
    let json = |(found, (sentence, command)): (&BreakResult, &(String, String))| {
        json!({
            "change": found.change.what, "set": found.change.set, "runs": found.runs, "kept": found.kept,
            "keeps": found.keeps, "sentence": sentence, "command": command,
            "broken": found.broken.as_ref().map(|broken| {
                json!({
                    "constraint": broken.name, "seeds": broken.seeds, "seed": broken.seed, "happened": broken.happened,
                })
            }),
            "not_run": found.fault,
        })
    };
    breaks.iter().zip(lines).map(json).collect()
}
