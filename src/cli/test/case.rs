//! Runs and judges one scenario or one cell of its matrix, and its reproductions under other profiles and programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde::Serialize;

use super::plan::Plan;
use super::recorder::{Recorder, kept_log};
use super::why::why;
use crate::causes::{Causes, profile_beside};
use crate::decider::{OutsideChoice, Started, failure_text, start, with_decider};
use crate::fault::{fault_text, runaway_text};
use crate::guard::{WorkFailure, guarded_run};
use crate::marks::ReachedMarks;
use crate::progress::RunCount;
use crate::run::Overrides;
use dryrack_compare::Decisions;
use dryrack_engine::{Progress, Records, Rehearsal};
use dryrack_event::Sink;
use dryrack_expect::{
    Expectation, ReproducedUnder, Reproduction, SeedShare, ShareAt, SourcePlace, Verdict, is_cured, judge_reproduction,
};
use dryrack_outside::{Command, CommandError};
use dryrack_rehearse::names;
use dryrack_report::LogWriter;
use dryrack_scenario::{Cell, Loaded, load, load_text};
use dryrack_scheduler::Caching;
use dryrack_swarm::RunMarks;
use dryrack_units::{counted, printable};
use dryrack_yaml::Diagnostics;

/// The settings that all cases share.
pub struct Context<'a> {
    pub overrides: &'a Overrides,
    pub keeps_decisions: bool,
    pub marks: Option<&'a ReachedMarks>,
    /// Keeps the log of each run, if the user asked for a record.
    pub recorder: Option<&'a Recorder>,
    /// Counts the runs, for the progress; but not those of reproductions.
    pub runs: Option<&'a RunCount>,
}

/// The result of a scenario or of one of its reproductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Passed,
    Failed,
    /// A trace, other data of the scenario, or the released program of a reproduction is missing.
    NotRun,
    Invalid,
    OurFault,
}

/// One run of a scenario: one line of the report with details below it. With several seeds, one case covers all of
/// them.
pub struct Case {
    pub title: String,
    /// The cell of the matrix, such as `profile=spread, gpus=2`; empty without a matrix.
    pub cell: String,
    /// The overrides that select the cell.
    pub set: Vec<String>,
    /// The profile or program of a reproduction; `None` for the scenario's own run.
    pub reproduces: Option<String>,
    pub status: Status,
    pub wall: Duration,
    /// The number of seeds, and the first of them.
    pub seeds: usize,
    pub seed: u64,
    /// The verdict on every expectation, in the order of the file.
    pub judged: Vec<CaseVerdict>,
    /// What broke, or why the scenario was not run.
    pub text: String,
    /// Whether the scheduler in another process failed. If so, the verdicts are not about its decisions.
    pub gave_up: bool,
    /// What a user should know about the program that decided.
    pub remarks: Vec<String>,
    /// The number of decisions of a scheduler in another process that were refused, over all seeds.
    pub decisions_refused: u64,
    /// How often that scheduler failed and was started again, over all seeds.
    pub restarts: u64,
    /// The errors of the file, as diagnostics with places.
    pub diagnostics: Diagnostics,
    /// Warnings about a scenario that can still be run.
    pub warnings: Diagnostics,
    pub digest: Option<String>,
    /// One decision on each line, if the user asked to compare decisions.
    pub decisions: Vec<String>,
    pub repeat: Option<String>,
    /// How to run it once more, if the user asked to compare decisions.
    pub rerun: Option<Overrides>,
    /// The records of a run that a scheduler in another process decided, which cannot be run again without it.
    pub kept: Option<Records>,
    /// The options of the profile that cause the reproduced report.
    pub causes: Option<Causes>,
    /// The shares of the seeds in which the file's expectations must hold.
    shares: Vec<ShareAt>,
}

/// The verdict on an expectation, and its place in the file.
pub struct CaseVerdict {
    pub place: SourcePlace,
    /// The name of the entry in the file. One entry may be about several subjects.
    pub entry: Arc<str>,
    pub verdict: Verdict,
    /// The explanation of the job in question, if the expectation failed.
    pub why: Vec<String>,
    /// With several seeds: the number of seeds in which the expectation held, and a command that repeats a
    /// counterexample.
    pub share: Option<Shared>,
}

pub struct Shared {
    pub held: usize,
    pub of: usize,
    /// The share of seeds that the file asks for; `None` if it must hold in every seed.
    pub asked: Option<SeedShare>,
    pub repeat: Option<String>,
}

pub struct Tested {
    pub file: PathBuf,
    pub cases: Vec<Case>,
}

/// Runs every cell of a file, with its reproductions.
pub fn test_plan(plan: &Plan, context: &Context<'_>) -> Tested {
    let cells = plan.cells.par_iter().map(|cell| test_cell(plan, cell, context)).collect::<Vec<_>>();
    Tested { file: plan.file.clone(), cases: cells.into_iter().flatten().collect() }
}

fn test_cell(plan: &Plan, cell: &Cell, context: &Context<'_>) -> Vec<Case> {
    let overrides = context.overrides.with_set(&cell.set);
    let mut reproductions = Vec::new();
    let is_own_profile = !overrides.names_profile() && !overrides.names_outside() && cell.reproduces;
    let take = |loaded: &mut Loaded| {
        reproductions = std::mem::take(&mut loaded.reproductions);
        let own = loaded.expectations.len();
        // Check witnesses under the scenario's own profile too. A witness that holds there as well proves nothing.
        if is_own_profile && plan.seeds.is_empty() {
            let witnesses = reproductions.iter().flat_map(|reproduction| &reproduction.and);
            loaded.expectations.extend(witnesses.cloned());
        }
        own
    };
    let mut first = match plan.seeds.as_slice() {
        [] => test_case(&plan.file, &overrides, context, take),
        seeds => test_seeds(&plan.file, seeds, &overrides, context, take),
    };
    context.runs.inspect(|runs| runs.end());
    let context = &Context { runs: None, ..*context };
    let mut held =
        if is_own_profile && plan.seeds.is_empty() { take_witnesses(&mut first, &reproductions) } else { Vec::new() };
    held.resize(reproductions.len(), false);
    let mut cases = vec![first];
    for (reproduction, held) in reproductions.into_iter().zip(held).filter(|_| is_own_profile) {
        let name = reproduction.under.text().to_string();
        let under = match decided_by(&reproduction.under, &plan.file, &overrides) {
            Ok(under) => under,
            Err(why) => {
                let (title, text) = (cases[0].title.clone(), why.to_string());
                let status = match why {
                    CommandError::NotInstalled(_) => Status::NotRun,
                    _ => Status::Invalid,
                };
                cases.push(Case { title, status, text, reproduces: Some(name), ..Case::blank() });
                continue;
            }
        };
        let add = |loaded: &mut Loaded| {
            loaded.expectations.extend(reproduction.and.iter().cloned());
            0
        };
        let mut case = test_case(&plan.file, &under, context, add);
        case.reproduces = Some(name);
        // Repeat with `dryrack test`: a plain run would not check that the expectations fail as
        // reported.
        case.repeat = case.repeat.map(|_| overrides.repeat_test(&plan.file));
        // The decisions of a program that failed are not judged.
        if matches!(case.status, Status::Passed | Status::Failed) && !case.gave_up {
            judge_case(&mut case, &reproduction);
        }
        if held
            && !case.gave_up
            && let Some(judged) = case.judged.last_mut()
        {
            judged.verdict.passed = false;
            judged
                .verdict
                .happened
                .push_str("; but its witness also holds under the scenario's own profile, so it proves nothing");
            case.status = Status::Failed;
        }
        if let (Status::Passed, ReproducedUnder::Profile(profile)) = (case.status, &reproduction.under) {
            case.causes = Some(find_causes(&plan.file, (profile, &under), context, &reproduction));
        }
        cases.push(case);
    }
    for case in &mut cases {
        case.cell.clone_from(&cell.name);
        case.set.clone_from(&cell.set);
    }
    cases
}

/// Removes the verdicts on witnesses from the scenario's own run. Returns for each reproduction whether all of its
/// witnesses held in that run.
fn take_witnesses(case: &mut Case, reproductions: &[Reproduction]) -> Vec<bool> {
    let witnesses: usize = reproductions.iter().map(|reproduction| reproduction.and.len()).sum();
    let was_run = matches!(case.status, Status::Passed | Status::Failed) && case.text.is_empty();
    if witnesses == 0 || !was_run || case.judged.len() < witnesses {
        return Vec::new();
    }
    let mut verdicts = case.judged.split_off(case.judged.len() - witnesses).into_iter();
    let failed = case.failures().next().is_some();
    case.status = if failed { Status::Failed } else { Status::Passed };
    let held = |reproduction: &Reproduction| {
        let own: Vec<bool> =
            verdicts.by_ref().take(reproduction.and.len()).map(|judged| judged.verdict.passed).collect();
        own.iter().all(|passed| *passed)
    };
    reproductions.iter().map(held).collect()
}

/// The overrides with which a report is reproduced.
fn decided_by(under: &ReproducedUnder, file: &Path, overrides: &Overrides) -> Result<Overrides, CommandError> {
    match under {
        ReproducedUnder::Profile(profile) => Ok(overrides.clone().and_profile(&profile_beside(file, profile))),
        ReproducedUnder::Outside(program) => {
            let folder = file.parent().unwrap_or(Path::new(""));
            let command = Command::read(program)?;
            if let Command::KubeScheduler { program, .. } = &command {
                let missing = |error: dryrack_apiserver::NotStarted| CommandError::NotInstalled(error.to_string());
                dryrack_apiserver::find_program(program, folder).map_err(missing)?;
            }
            let choice = OutsideChoice::started_in(folder, command);
            Ok(overrides.clone().and_outside(choice))
        }
    }
}

/// Runs the reproduction once for each option of the profile that could be its cause.
fn find_causes(
    file: &Path,
    (profile, under): (&str, &Overrides),
    context: &Context<'_>,
    reproduction: &Reproduction,
) -> Causes {
    let context = Context { keeps_decisions: false, recorder: None, ..*context };
    Causes::find(file, profile, |option, against| {
        let witnesses = |loaded: &mut Loaded| {
            loaded.expectations.extend(reproduction.and.iter().cloned());
            0
        };
        let case = test_case(file, &under.as_in_base(option, against), &context, witnesses);
        let verdicts: Vec<Verdict> = case.judged.into_iter().map(|judged| judged.verdict).collect();
        is_cured(reproduction, &verdicts)
    })
}

/// Replaces the verdicts of a run that reproduces a report with one verdict on the reproduction.
fn judge_case(case: &mut Case, reproduction: &Reproduction) {
    let verdicts: Vec<Verdict> = case.judged.drain(..).map(|judged| judged.verdict).collect();
    let (verdicts, witnesses) = verdicts.split_at(verdicts.len() - reproduction.and.len());
    let verdict = judge_reproduction(reproduction, verdicts, witnesses);
    case.status = if verdict.passed { Status::Passed } else { Status::Failed };
    let (place, entry) = (reproduction.place.clone(), Arc::clone(&verdict.name));
    case.judged.push(CaseVerdict { place, entry, verdict, why: Vec::new(), share: None });
}

/// Runs the scenario once with each seed. `prepare` may change the first of these runs.
fn test_seeds(
    file: &Path,
    seeds: &[u64],
    overrides: &Overrides,
    context: &Context<'_>,
    prepare: impl FnOnce(&mut Loaded) -> usize,
) -> Case {
    let with = |seed: &u64| overrides.clone().and_seed(*seed);
    let first = test_case(file, &with(&seeds[0]), context, prepare);
    // Keep the decisions of the first seed only.
    let quiet = Context { keeps_decisions: false, ..*context };
    let others: Vec<Case> = (seeds[1..].par_iter())
        .map(|seed| {
            let case = test_case(file, &with(seed), &quiet, |loaded| loaded.expectations.len());
            context.runs.inspect(|runs| runs.end());
            case
        })
        .collect();
    merged(seeds, first, others)
}

/// Merges the cases of all seeds into one. If a case was not judged, the result is that case.
fn merged(seeds: &[u64], mut first: Case, mut others: Vec<Case>) -> Case {
    let is_judged = |case: &Case| matches!(case.status, Status::Passed | Status::Failed) && case.text.is_empty();
    if !is_judged(&first) {
        first.text = format!("with seed {}\n{}", seeds[0], first.text);
        return first;
    }
    if let Some(at) = others.iter().position(|case| !is_judged(case)) {
        let mut other = others.swap_remove(at);
        other.text = format!("with seed {}\n{}", seeds[at + 1], other.text);
        return other;
    }
    let of = others.len() + 1;
    let judged: Vec<CaseVerdict> = {
        let all: Vec<(&Case, Vec<&[CaseVerdict]>)> =
            std::iter::once(&first).chain(&others).map(|case| (case, entries(case))).collect();
        (0..all[0].1.len()).map(|entry| of_all_seeds(&all, entry, &first.shares)).collect()
    };
    let failed = judged.iter().any(|judged| !judged.verdict.passed);
    first.status = if failed { Status::Failed } else { Status::Passed };
    let digests: Vec<String> =
        first.digest.iter().chain(others.iter().filter_map(|case| case.digest.as_ref())).cloned().collect();
    first.digest = Some(blake3::hash(digests.join("\n").as_bytes()).to_hex().to_string());
    first.decisions_refused += others.iter().map(|case| case.decisions_refused).sum::<u64>();
    first.restarts += others.iter().map(|case| case.restarts).sum::<u64>();
    if first.remarks.is_empty() {
        first.remarks =
            others.iter().map(|case| &case.remarks).find(|found| !found.is_empty()).cloned().unwrap_or_default();
    }
    first.wall += others.iter().map(|case| case.wall).sum::<Duration>();
    Case { judged, seeds: of, repeat: None, ..first }
}

/// The verdicts grouped by entry of the file. With random arrivals the number of subjects of an entry is random.
fn entries(case: &Case) -> Vec<&[CaseVerdict]> {
    case.judged.chunk_by(|one, other| one.place == other.place).collect()
}

/// The verdict on one entry of the file over all seeds. With one seed, the entry holds if it holds for each of its
/// subjects.
fn of_all_seeds(all: &[(&Case, Vec<&[CaseVerdict]>)], entry: usize, shares: &[ShareAt]) -> CaseVerdict {
    let first = &all[0].1[entry][0];
    let asked = shares.iter().find(|share| share.place == first.place).map(|share| share.share);
    let share = asked.unwrap_or(SeedShare::ALL);
    let passed = |parts: &[CaseVerdict]| parts.iter().all(|part| part.verdict.passed);
    let seeds = || all.iter().map(|(case, entries)| (*case, entries[entry]));
    let (held, of) = (seeds().filter(|(_, parts)| passed(parts)).count(), all.len());
    let against = seeds().find(|(_, parts)| share.is_against(passed(parts)));
    let mut happened = format!("held in {held} of {of} seeds ({}.{}%)", held * 100 / of, held * 1000 / of % 10);
    let mut shown = first;
    if let Some((case, parts)) = against {
        shown = parts.iter().find(|part| !part.verdict.passed).unwrap_or(&parts[0]);
        let how = if shown.verdict.passed { "held" } else { "failed" };
        let which = if shown.verdict.name == shown.entry { "" } else { &format!(", {}", shown.verdict.name) };
        happened.push_str(&format!("; the first that {how} is seed {}{which}: {}", case.seed, shown.verdict.happened));
    }
    let each = if seeds().any(|(_, parts)| parts.len() > 1) { ", and the same for its other subjects" } else { "" };
    let expected = format!("{}{each}, in {share}", shown.verdict.expected);
    let (name, entry) = (Arc::clone(&first.entry), Arc::clone(&first.entry));
    let repeat = against.and_then(|(case, _)| case.repeat.clone());
    let why = against.map_or(Vec::new(), |_| shown.why.clone());
    let verdict =
        Verdict { name, passed: share.holds(held, of), expected, happened, turned_on: shown.verdict.turned_on };
    CaseVerdict { place: first.place.clone(), entry, verdict, why, share: Some(Shared { held, of, asked, repeat }) }
}

/// Runs the scenario once and judges it, without its reproductions.
pub fn judged_once(file: &Path, overrides: &Overrides) -> Case {
    test_case(
        file,
        overrides,
        &Context { overrides, keeps_decisions: false, marks: None, recorder: None, runs: None },
        |_| 0,
    )
}

/// Runs another text in the place of a scenario once, and judges it without its reproductions. `None` if it is no valid
/// scenario.
pub fn judged_as(file: &Path, text: &str, overrides: &Overrides) -> Option<Case> {
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    let loaded = load_text(&file.to_string_lossy(), text, folder, &overrides.lower(file)).ok()?;
    let context = Context { overrides, keeps_decisions: false, marks: None, recorder: None, runs: None };
    Some(test_loaded((file, loaded), now(), overrides, &context, |_| 0))
}

#[expect(clippy::disallowed_methods, reason = "how long a run took is shown, and reaches no run")]
fn now() -> Instant {
    Instant::now()
}

/// Runs the scenario once. `prepare` may change it first. It returns a number `n`: a failure of one of the first `n`
/// expectations gets an explanation.
fn test_case(
    file: &Path,
    overrides: &Overrides,
    context: &Context<'_>,
    prepare: impl FnOnce(&mut Loaded) -> usize,
) -> Case {
    let begun = now();
    match load(file, &overrides.lower(file)) {
        Ok(loaded) => test_loaded((file, loaded), begun, overrides, context, prepare),
        Err(diagnostics) => not_loaded(file, diagnostics, begun.elapsed()),
    }
}

fn test_loaded(
    (file, mut loaded): (&Path, Loaded),
    begun: Instant,
    overrides: &Overrides,
    context: &Context<'_>,
    prepare: impl FnOnce(&mut Loaded) -> usize,
) -> Case {
    let explained = prepare(&mut loaded);
    let Loaded { rehearsal, expectations, warnings, shares, outside, .. } = loaded;
    let repeat = overrides.repeat(file, rehearsal.seed);
    let mut case = Case {
        title: rehearsal.title.clone(),
        seed: rehearsal.seed,
        warnings,
        shares,
        repeat: Some(repeat.clone()),
        rerun: context.keeps_decisions.then(|| overrides.clone()),
        ..Case::blank()
    };
    let mut session = match outside.map(|setup| start(setup, &rehearsal)).transpose() {
        Ok(session) => session,
        Err(failure) => {
            case.status = Status::Invalid;
            case.text = failure.text().to_string();
            return case;
        }
    };
    let progress = context.runs.map_or_else(Arc::default, RunCount::begin);
    let work = || judge(file, &rehearsal, (expectations, explained), &progress, context, (&mut case, &mut session));
    match guarded_run(work) {
        Ok(()) => {}
        Err(WorkFailure::Runaway(runaway)) => {
            case.status = Status::Invalid;
            case.text = format!("{}  repeat with: {repeat}\n", runaway_text(&runaway));
        }
        Err(WorkFailure::Invariant(message)) => {
            case.status = Status::OurFault;
            case.text = fault_text(&message, rehearsal.seed, &progress, &repeat);
        }
    }
    case.wall = begun.elapsed();
    case
}

fn judge(
    file: &Path,
    rehearsal: &Rehearsal,
    (expectations, explained): (Vec<Expectation>, usize),
    progress: &Progress,
    context: &Context<'_>,
    (case, session): (&mut Case, &mut Option<Started>),
) {
    let mut decisions = Decisions::new(names(rehearsal));
    let mut reached = RunMarks::default();
    let mut more: Vec<&mut dyn Sink> = Vec::new();
    if context.marks.is_some() {
        more.push(&mut reached);
    }
    if context.keeps_decisions {
        more.push(&mut decisions);
    }
    // Keep the records: a run with a scheduler in another process cannot be repeated without that process.
    let mut records = session.is_some().then(Records::default);
    more.extend(records.iter_mut().map(|records| records as &mut dyn Sink));
    let mut log = context.recorder.map(|_| {
        LogWriter::new(kept_log(), &dryrack_rehearse::header(rehearsal)).expect("a place in memory takes everything")
    });
    more.extend(log.iter_mut().map(|log| log as &mut dyn Sink));
    let rehearsed = with_decider(session, rehearsal, expectations.clone(), progress, Caching::On, more);
    context.marks.iter().for_each(|marks| marks.add(&reached, &rehearsal.profile));
    case.decisions = decisions.into_lines();
    case.digest = Some(rehearsed.digest.to_string());
    let failed = rehearsed.verdicts.iter().any(|verdict| !verdict.passed);
    case.status = if failed { Status::Failed } else { Status::Passed };
    if let Some(session) = session {
        session.end();
        case.remarks = session.remarks().iter().map(|remark| printable(remark).into_owned()).collect();
        let accounts = rehearsed.run_metrics.accounts();
        let outside = &accounts.outside;
        (case.decisions_refused, case.restarts) = (outside.all_decisions(), outside.restarts);
        let file = file.display();
        case.remarks.extend(outside.refused(&accounts.names).map(|what| format!("{file}: refused {what}")));
        let broken = Some(accounts.safety_broken).filter(|times| *times > 0);
        case.remarks.extend(broken.map(|times| {
            let times = counted(times as usize, "time");
            format!("{file}: safety broken {times}: the scheduler placed jobs on resources that it may not use, and they ran there")
        }));
        case.remarks.extend(outside.restarted().map(|what| format!("{file}: the scheduler was restarted {what}")));
        if let Some(failure) = session.failure() {
            case.status = Status::Failed;
            case.gave_up = true;
            case.text = failure_text(failure, rehearsed.end.at);
        }
    }
    let mut whys = why(rehearsal, &rehearsed.verdicts[..explained], records.as_ref());
    case.kept = records.filter(|_| context.keeps_decisions);
    let judged = expectations.into_iter().zip(rehearsed.verdicts).enumerate();
    case.judged = judged
        .map(|(index, (expectation, verdict))| {
            let why = whys.remove(&index).unwrap_or_default();
            CaseVerdict { place: expectation.place, entry: expectation.entry, verdict, why, share: None }
        })
        .collect();
    if let (Some(recorder), Some(log)) = (context.recorder, log) {
        let log = log.finish(rehearsed.until).expect("a place in memory takes everything");
        recorder.keep(file, rehearsal, case, log);
    }
}

fn not_loaded(file: &Path, diagnostics: Diagnostics, wall: Duration) -> Case {
    // If DRYRACK_DATA names the folder of traces, a missing trace is a failure.
    let must_be_there = std::env::var_os("DRYRACK_DATA").is_some();
    let status = match (diagnostics.lacks_only_a_trace(), must_be_there) {
        (false, _) => Status::Invalid,
        (true, true) => Status::Failed,
        (true, false) => Status::NotRun,
    };
    let (title, text) = (file.display().to_string(), diagnostics.to_string());
    Case { title, status, wall, text, diagnostics, ..Case::blank() }
}

impl Case {
    /// Whether the run came to its end, so that its expectations were judged.
    pub fn is_judged(&self) -> bool {
        matches!(self.status, Status::Passed | Status::Failed)
    }

    fn blank() -> Case {
        Case {
            title: String::new(),
            cell: String::new(),
            set: Vec::new(),
            reproduces: None,
            status: Status::Passed,
            wall: Duration::ZERO,
            seeds: 1,
            seed: 0,
            judged: Vec::new(),
            text: String::new(),
            gave_up: false,
            remarks: Vec::new(),
            decisions_refused: 0,
            restarts: 0,
            diagnostics: Diagnostics::default(),
            warnings: Diagnostics::default(),
            digest: None,
            decisions: Vec::new(),
            repeat: None,
            rerun: None,
            kept: None,
            causes: None,
            shares: Vec::new(),
        }
    }

    /// The path of the file, the cell, and the profile or program of a reproduction.
    pub fn name(&self, file: &Path) -> String {
        let name = super::plan::name(file, &self.cell);
        match &self.reproduces {
            Some(profile) => format!("{name} reproduced under {profile}"),
            None => name,
        }
    }

    /// The title, followed by the number of seeds if there are several.
    pub fn full_title(&self) -> String {
        match self.seeds {
            1 => self.title.clone(),
            seeds => format!("{} ({})", self.title, counted(seeds, "seed")),
        }
    }

    pub fn failures(&self) -> impl Iterator<Item = &CaseVerdict> {
        self.judged.iter().filter(|judged| !judged.verdict.passed)
    }
}
