//! `dryrack validate`: measures how closely a run on a real machine and its rehearsal agree, in three grades.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::logs::{WholeLog, read_live};
use super::output::{Format, print, print_json, warn};
use super::replay::profile_of;
use super::roots::options;
use dryrack_engine::{Difference, Records, Rehearsal, RunOptions, replay, run};
use dryrack_event::{Digester, LiveHeader, Record};
use dryrack_ids::AttemptId;
use dryrack_rehearse::names;
use dryrack_scenario::{Options, load_text};
use dryrack_units::SimDuration;
use dryrack_validation::{
    Agreement, Readings, RecordedRehearsal, Spread, TimeError, again, compare, not_of_source, readings, timelines,
};

#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Logs that `dryrack live` wrote
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// Largest accepted error of predicted starts and ends; an event that depends on samples may be later by the sampling
    /// interval
    #[arg(long, default_value = "1s", value_name = "TIME")]
    tolerance: SimDuration,
    /// Digest that was stored before the run; `dryrack live` printed it, and `dryrack run` of the same file prints it
    /// too; may be repeated
    #[arg(long, value_name = "DIGEST")]
    predicted: Vec<String>,
    /// The earlier name of --predicted
    #[arg(long, value_name = "DIGEST", hide = true)]
    foretold: Vec<String>,
}

/// The number of hexadecimal digits of a digest that `dryrack run` prints.
pub(super) const SHOWN: usize = 12;

/// The grades of one log.
struct Grades {
    title: String,
    began: String,
    /// The number of records that the replay reproduced, or its first difference.
    replayed: Result<u64, Difference>,
    /// The digest of the forecast in the log's header.
    digest: String,
    /// Differences between the header (or the beginning of the log) and the scenario text in the log.
    not_of_source: Vec<String>,
    /// Whether the digest is among those given with `--predicted`; `None` if none was given.
    is_kept: Option<bool>,
    /// Further notes.
    notes: Vec<String>,
    again: Agreement,
    not_taken: Vec<String>,
    blind: Agreement,
    readings: Readings,
}

impl Grades {
    fn exit(&self, tolerance: SimDuration) -> Exit {
        let is_whole = self.replayed.is_ok() && self.not_of_source.is_empty() && self.is_kept != Some(false);
        match (is_whole, self.blind.holds(tolerance) && self.again.holds(tolerance)) {
            (false, _) => Exit::Failed,
            (true, false) => Exit::Disagrees,
            (true, true) => Exit::Fine,
        }
    }
}

/// Exits with 0 if all grades hold, with 5 if a rehearsal is beyond the tolerance, and with 1 if a log fails
/// verification.
pub fn validate(args: &ValidateArgs, format: Format) -> ExitResult {
    let kept = [args.predicted.as_slice(), &args.foretold].concat();
    if !args.foretold.is_empty() {
        warn("warning: --foretold is now --predicted; the old name is accepted in this version only\n");
    }
    if let Some(wrong) = kept.iter().find(|digest| !is_digest(digest)) {
        let expected = format!("expected {SHOWN} to 64 of the characters 0 to 9 and a to f");
        return Err(Failure::Input(format!("error: --predicted: `{wrong}` is not a digest; {expected}")));
    }
    if let Some(path) = (1..args.logs.len()).find(|at| args.logs[..*at].contains(&args.logs[*at])) {
        return Err(Failure::file(&args.logs[path], "is given twice, so its figures would count twice"));
    }
    let mut all = Vec::new();
    for path in &args.logs {
        all.push((path, grades(path, &kept)?));
    }
    match format {
        Format::Json => {
            let logs: Vec<Value> = all.iter().map(|(path, grades)| grades_json(path, grades, args.tolerance)).collect();
            print_json(&json!({"tolerance_seconds": args.tolerance.as_secs_f64(), "logs": logs}))?;
        }
        Format::Human => {
            let is_one = all.len() == 1;
            let mut text = String::new();
            for (path, grades) in &all {
                text.push_str(&grades_text(path, grades, args.tolerance));
            }
            if !is_one {
                text.push_str(&total_text(&all, args.tolerance));
            }
            print(&text)?;
        }
    }
    let exits = all.iter().map(|(_, grades)| grades.exit(args.tolerance));
    // A log that fails verification is worse than a run far from its forecast, so exit code 1 takes precedence over 5.
    Ok(exits
        .min_by_key(|exit| match exit {
            Exit::Failed => 0,
            Exit::Disagrees => 1,
            _ => 2,
        })
        .unwrap_or(Exit::Fine))
}

fn is_digest(text: &str) -> bool {
    let is_digit = |letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter);
    (SHOWN..=64).contains(&text.len()) && text.chars().all(is_digit)
}

fn grades(path: &Path, kept: &[String]) -> Result<Grades, Failure> {
    let (log, live) = read_live(path)?;
    let profile = profile_of(path, &log.header)?;
    let ours = |message: String| Failure::Ours(format!("internal error: {message}\n  in {}\n", path.display()));
    let replayed = guarded(|| replay(profile, log.header.seed, log.records.iter().cloned())).map_err(ours)?;
    let scenario = scenario(path, &log)?;
    let is_kept = |digest: &String| kept.iter().any(|kept| digest.starts_with(kept));
    let is_kept = (!kept.is_empty()).then(|| is_kept(&live.predicted.digest));
    let notes = Vec::from_iter(another_profile(path, &log, &scenario));
    guarded(|| Grades { is_kept, notes, ..graded(scenario, &log, live, replayed) }).map_err(ours)
}

/// A note for the user if the profile has changed since the log was written.
fn another_profile(path: &Path, log: &WholeLog, scenario: &Rehearsal) -> Option<String> {
    let now = load_text("", &log.header.source, path.parent().unwrap_or(Path::new("")), &options(path)).ok()?;
    let name = &scenario.profile.name;
    (now.rehearsal.profile != scenario.profile)
        .then(|| format!("the profile `{name}` has changed since the run; the log's version was used"))
}

/// The scenario from the text in the log, under the profile in the log.
pub(super) fn scenario(path: &Path, log: &WholeLog) -> Result<Rehearsal, Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let (seed, recorded) = (Some(log.header.seed.to_string()), Some(profile_of(path, &log.header)?));
    let options = Options { seed, recorded, ..options(path) };
    let loaded = load_text(&path.display().to_string(), &log.header.source, folder, &options);
    Ok(loaded.map_err(|diagnostics| Failure::Input(diagnostics.to_string()))?.rehearsal)
}

fn graded(scenario: Rehearsal, log: &WholeLog, live: LiveHeader, replayed: Result<u64, Difference>) -> Grades {
    let interval = |job: &str| interval_of(&scenario, job);
    let (predicted, digest) = rehearsed(&scenario);
    let real = timelines(&log.records, &log.names);
    let of_attempt = |attempt: AttemptId| {
        scenario.arrivals.get(attempt.job.index()).and_then(|arrival| interval(&arrival.spec.name))
    };
    let readings = readings(&predicted, &log.records, of_attempt);
    let blind = compare(&live.predicted.attempts, &real, interval);
    let not_of_source = not_of_source(&scenario, &live.predicted, (&predicted, &digest), (&log.records, &log.names));
    let RecordedRehearsal { rehearsal, not_taken } = again(scenario.clone(), &log.records, &log.names);
    let (records, _) = rehearsed(&rehearsal);
    let again = compare(&timelines(&records, &names(&rehearsal)), &real, interval);
    Grades {
        title: log.header.scenario.clone(),
        began: live.began,
        replayed,
        digest: live.predicted.digest,
        not_of_source,
        is_kept: None,
        notes: Vec::new(),
        again,
        not_taken,
        blind,
        readings,
    }
}

/// All records of a rehearsal, and its digest.
pub(super) fn rehearsed(rehearsal: &Rehearsal) -> (Vec<Record>, String) {
    let (mut records, mut digester) = (Records::default(), Digester::default());
    run(rehearsal, RunOptions::default(), &mut [&mut records, &mut digester]);
    (records.0, digester.finish().to_string())
}

/// The sampling interval of the job's GPUs, if a policy applies to the job.
pub(super) fn interval_of(rehearsal: &Rehearsal, job: &str) -> Option<SimDuration> {
    let arrival = rehearsal.arrivals.iter().find(|arrival| *arrival.spec.name == *job)?;
    let policies = &rehearsal.profile.policies.utilization;
    policies.bind(&arrival.spec.utilization).map(|(_, policy)| policy.interval)
}

fn grades_text(path: &Path, grades: &Grades, tolerance: SimDuration) -> String {
    let mut text = format!("{}\n  log           {}, begun {}\n", grades.title, path.display(), grades.began);
    match &grades.replayed {
        Ok(records) => text.push_str(&format!("  replay        all events of {records} records are the same\n")),
        Err(difference) => text.push_str(&format!("  replay        DIFFERS: {difference}\n")),
    }
    text.push_str(&agreement_text("re-rehearsal", &grades.again, Some(tolerance)));
    text.extend(grades.not_taken.iter().map(|what| format!("                not taken from the recording: {what}\n")));
    text.push_str(&agreement_text("blind", &grades.blind, Some(tolerance)));
    text.push_str(&readings_text(&grades.readings));
    text + &prediction_text(grades)
}

/// Text about the evidence that the forecast came before the run, and about what no log can prove.
fn prediction_text(grades: &Grades) -> String {
    let shown = grades.digest.get(..SHOWN).unwrap_or(&grades.digest);
    let mut text = format!("  predicted     digest {shown}");
    text.push_str(match (grades.not_of_source.is_empty(), grades.is_kept) {
        (false, _) => ", NOT from the log's source\n",
        (true, Some(true)) => ", from the log's source, and equal to the stored digest\n",
        (true, Some(false)) => ", from the log's source, but NOT equal to the stored digest\n",
        (true, None) => {
            ", from the log's source; a log cannot prove that the prediction came before the run, or that no other\n \
                            run was left out: store the digest elsewhere, for `--predicted`\n"
        }
    });
    text.extend(grades.not_of_source.iter().map(|why| format!("                {why}\n")));
    text.extend(grades.notes.iter().map(|note| format!("                note: {note}\n")));
    text
}

fn readings_text(found: &Readings) -> String {
    let mut text = String::new();
    if found.idle > 0 {
        text.push_str(&format!(
            "  idle          {} of {} readings are at most 5 %; the largest is {}\n",
            found.idle_as_predicted, found.idle, found.worst_idle
        ));
    }
    if let Some(worst) = found.worst_busy {
        text.push_str(&format!(
            "  busy          {} of {} readings are at least 20 %; the smallest is {worst}\n",
            found.busy_as_predicted, found.busy
        ));
    }
    if found.not_compared > 0 {
        text.push_str(&format!(
            "                {} readings not compared: only one of the runs has them\n",
            found.not_compared
        ));
    }
    text
}

/// A grade as text, with one line for each difference and for each time beyond the tolerance.
pub(super) fn agreement_text(grade: &str, found: &Agreement, tolerance: Option<SimDuration>) -> String {
    let mut text = format!("  {grade:<12}  {} of {} decisions equal", found.equal_decisions(), found.decisions.len());
    if found.pairs > 0 {
        text.push_str(&format!(", {} of {} pairs placed in order", found.pairs_in_order, found.pairs));
    }
    text.push('\n');
    for (what, errors) in [("starts", &found.starts), ("ends", &found.ends), ("policies", &found.policies)] {
        if let Some(spread) = Agreement::spread_of(errors) {
            text.push_str(&format!("    {what:<10}  {spread}\n"));
        }
    }
    for decision in found.decisions.iter().filter(|decision| !decision.is_equal()) {
        let (attempt, what) = (&decision.attempt, decision.what);
        text.push_str(&format!(
            "    DIFFERS     {attempt}, {what}: predicted {}, was {}\n",
            decision.predicted, decision.real
        ));
    }
    for (what, error) in tolerance.map_or(Vec::new(), |tolerance| found.beyond(tolerance)) {
        text.push_str(&format!("    BEYOND      {}, {what}: {}\n", error.attempt, seconds(error.by)));
    }
    text.extend(found.not_compared.iter().map(|what| format!("    not compared  {what}\n")));
    text
}

fn seconds(nanos: i64) -> String {
    format!("{:+.3}s", nanos as f64 / 1e9)
}

fn total_text(all: &[(&PathBuf, Grades)], tolerance: SimDuration) -> String {
    let replayed = all.iter().filter(|(_, grades)| grades.replayed.is_ok()).count();
    let mut text = format!("all {} logs\n  replay        {replayed} of {}\n", all.len(), all.len());
    for (grade, of) in [("re-rehearsal", 0), ("blind", 1)] {
        let each: Vec<&Agreement> =
            all.iter().map(|(_, grades)| if of == 0 { &grades.again } else { &grades.blind }).collect();
        let equal: usize = each.iter().map(|found| found.equal_decisions()).sum();
        let total: usize = each.iter().map(|found| found.decisions.len()).sum();
        let share = if total == 0 { 100.0 } else { equal as f64 * 100.0 / total as f64 };
        let holds = each.iter().filter(|found| found.holds(tolerance)).count();
        text.push_str(&format!(
            "  {grade:<12}  {equal} of {total} decisions equal ({share:.2} %), {holds} of {} logs within {tolerance}\n",
            all.len()
        ));
        for (index, what) in ["starts", "ends", "policies"].into_iter().enumerate() {
            let errors = each.iter().flat_map(|found| [&found.starts, &found.ends, &found.policies][index]);
            let spread = Spread::of(errors.map(|error| error.by));
            text.extend(spread.map(|spread| format!("    {what:<10}  {spread}\n")));
        }
    }
    let mut sum = Readings::default();
    all.iter().for_each(|(_, grades)| sum.add(&grades.readings));
    text + &readings_text(&sum)
}

pub(super) fn agreement_json(found: &Agreement) -> Value {
    let times = |errors: &[TimeError]| -> Vec<Value> {
        errors.iter().map(|error| json!({"run": error.attempt, "later_by_ns": error.by})).collect()
    };
    // `foretold` is the earlier name of `predicted`.
    let differing: Vec<Value> = (found.decisions.iter().filter(|decision| !decision.is_equal()))
        .map(|it| json!({"run": it.attempt, "what": it.what, "predicted": it.predicted, "foretold": it.predicted, "was": it.real}))
        .collect();
    json!({
        "decisions": found.decisions.len(),
        "equal": found.equal_decisions(),
        "differing": differing,
        "pairs": found.pairs,
        "pairs_in_order": found.pairs_in_order,
        "starts": times(&found.starts),
        "ends": times(&found.ends),
        "policies": times(&found.policies),
        "not_compared": found.not_compared,
    })
}

fn grades_json(path: &Path, grades: &Grades, tolerance: SimDuration) -> Value {
    let read = &grades.readings;
    json!({
        "log": path.display().to_string(),
        "scenario": grades.title,
        "began": grades.began,
        "replay": grades.replayed.as_ref().map_err(Difference::to_string).ok(),
        "digest": grades.digest,
        "is_predicted": grades.not_of_source.is_empty(),
        // The earlier name of `is_predicted`.
        "is_foretold": grades.not_of_source.is_empty(),
        "not_of_source": grades.not_of_source,
        "is_as_kept_elsewhere": grades.is_kept,
        "notes": grades.notes,
        "re_rehearsal": agreement_json(&grades.again),
        "re_rehearsal_not_taken": grades.not_taken,
        "blind": agreement_json(&grades.blind),
        "holds": grades.exit(tolerance) == Exit::Fine,
        "readings": {
            "idle": read.idle,
            "idle_at_most_5_percent": read.idle_as_predicted,
            "busy": read.busy,
            "busy_at_least_20_percent": read.busy_as_predicted,
            "not_compared": read.not_compared,
        },
    })
}
