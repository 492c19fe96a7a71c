//! `dryrack diff`: finds the first decision in which two logs differ, and says why.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::explain::{brief, demand_in};
use super::guard::guarded;
use super::logs::{WholeLog, open, read_whole};
use super::output::{Format, print, print_json};
use super::progress::with_line;
use super::replay::profile_of;
use dryrack_compare::{
    Decision, DecisionAbout, Decisions, Difference, DifferenceKind, SideDecision, first_different_decision,
};
use dryrack_engine::explain;
use dryrack_event::{LogHeader, Record, RecordBody, Sink};
use dryrack_ids::JobId;
use dryrack_report::{Filter, record_line};
use dryrack_units::{SimTime, counted};

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// A log that `run --out` wrote
    left: PathBuf,
    /// The other log
    right: PathBuf,
}

/// One of the two logs.
struct Side<'a> {
    path: &'a PathBuf,
    log: WholeLog,
    decisions: Vec<Decision>,
}

impl Side<'_> {
    fn read(path: &PathBuf) -> Result<Side<'_>, Failure> {
        let log = read_whole(path)?;
        let mut decisions = Decisions::new(log.names.clone());
        for Record { step, at, said } in &log.records {
            match said {
                RecordBody::Input(input) => decisions.input(*step, *at, input),
                RecordBody::Event(event) => decisions.event(*step, *at, event),
            }
        }
        Ok(Side { path, decisions: decisions.all, log })
    }

    /// The explanation of a job at an instant, in a line or two.
    fn why(&self, job: &str, at: SimTime) -> Result<Vec<String>, Failure> {
        let (header, records) = (&self.log.header, &self.log.records);
        let profile = profile_of(self.path, header)?;
        let Some(job) = self.log.names.jobs.find(job).map(JobId::new) else { return Ok(Vec::new()) };
        let Some(demand) = demand_in(records, job) else { return Ok(Vec::new()) };
        let explained = guarded(|| explain(profile, header.seed, records, (job, None), Some(at)))
            .map_err(|message| Failure::Ours(format!("internal error: {message}\n")))?;
        // A log that does not replay is still worth comparing; `replay` reports it.
        Ok(explained.map_or(Vec::new(), |explained| brief(&explained, demand, Some(at), &self.log.names)))
    }
}

/// Exits with 0 if every record is the same, and prints nothing, or as JSON that they are equal. Otherwise prints the first differences and exits with 1.
pub fn diff(args: &DiffArgs, format: Format) -> ExitResult {
    let sides = [read(&args.left)?, read(&args.right)?];
    let [left, right] = &sides;
    if left.log.footer.digest == right.log.footer.digest && left.log.footer.end_ns == right.log.footer.end_ns {
        if format == Format::Json {
            print_json(&json!({"equal": true, "digest": left.log.footer.digest}))?;
        }
        return Ok(Exit::Fine);
    }
    let headers = header_differences(&left.log.header, &right.log.header);
    let (a, b) = (&left.log.records, &right.log.records);
    let first = a.iter().zip(b).position(|(one, other)| one != other).unwrap_or(a.len().min(b.len()));
    let decision = first_different_decision([&left.decisions, &right.decisions], &left.log.names);
    let whys = match &decision {
        Some(found) => [left.why(&found.job, found.at)?, right.why(&found.job, found.at)?],
        None => [Vec::new(), Vec::new()],
    };
    let starts = other_starts(&sides);
    let texts = [record_text(&args.left, first)?, record_text(&args.right, first)?];
    let report = DiffReport { sides: &sides, headers, first, texts, decision, whys, starts };
    match format {
        Format::Json => print_json(&report.json())?,
        Format::Human => print(&report.human())?,
    }
    Ok(Exit::Failed)
}

fn read(path: &PathBuf) -> Result<Side<'_>, Failure> {
    with_line(|| format!("reading {}", path.display()), || Side::read(path))
}

/// The line of a record, whose number is counted from 0; `None` if the log has ended before it.
fn record_text(path: &Path, number: usize) -> Result<Option<String>, Failure> {
    let mut reader = open(path)?;
    let mut line = None;
    for _ in 0..=number {
        line = reader.next_line().map_err(|error| Failure::file(path, error))?;
    }
    Ok(line.map(|line| line.text))
}

/// The number of jobs that are placed for the first time at another instant or only on one side, and of all jobs.
fn other_starts(sides: &[Side<'_>; 2]) -> (usize, usize) {
    let first = |side: &Side<'_>| {
        let mut first: std::collections::BTreeMap<String, SimTime> = Default::default();
        for decision in side.decisions.iter().filter(|decision| decision.line.contains(" placed on ")) {
            if let DecisionAbout::Job(job) = decision.about {
                first.entry(side.log.names.job(job).to_string()).or_insert(decision.at);
            }
        }
        first
    };
    let [one, other] = [first(&sides[0]), first(&sides[1])];
    let all: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    (all.iter().filter(|job| one.get(**job) != other.get(**job)).count(), all.len())
}

/// The differences between the headers. They are printed first, because they often explain a difference in the records.
fn header_differences(left: &LogHeader, right: &LogHeader) -> Vec<String> {
    let mut found = Vec::new();
    for (what, a, b) in [
        ("dryrack", &left.dryrack, &right.dryrack),
        ("scenario", &left.scenario, &right.scenario),
        ("profile", &left.profile, &right.profile),
        ("seed", &left.seed.to_string(), &right.seed.to_string()),
    ] {
        if a != b {
            found.push(format!("{what}: {a} and {b}"));
        }
    }
    if left.source != right.source {
        found.push("the scenario files differ".to_string());
    }
    if left.profile == right.profile && left.profile_data != right.profile_data {
        found.push("the profiles have the same name but differ".to_string());
    }
    found
}

struct DiffReport<'a> {
    sides: &'a [Side<'a>; 2],
    headers: Vec<String>,
    /// The number of the first record that differs, counted from 0.
    first: usize,
    /// That record as the logs hold it.
    texts: [Option<String>; 2],
    decision: Option<Difference>,
    whys: [Vec<String>; 2],
    starts: (usize, usize),
}

impl DiffReport<'_> {
    /// The line of the first record that differs. The header is line 1.
    fn line(&self) -> usize {
        self.first + 2
    }

    fn record(&self, side: usize) -> Option<&Record> {
        self.sides[side].log.records.get(self.first)
    }

    fn json(&self) -> Value {
        let [left, right] = &self.texts;
        json!({
            "equal": false, "line": self.line(), "left": left, "right": right, "headers": self.headers,
            "decision": self.decision.as_ref().map(|found| json!({
                "first": found, "why": {"left": self.whys[0], "right": self.whys[1]},
            })),
            "jobs_placed_at_another_time": self.starts.0, "jobs_placed": self.starts.1,
        })
    }

    fn human(&self) -> String {
        let mut text: String = self.headers.iter().map(|line| format!("{line}\n")).collect();
        match &self.decision {
            None => text.push_str("every decision is the same\n"),
            Some(found) => text.push_str(&self.decision_text(found)),
        }
        text.push_str(&format!("the first record that differs is in line {}\n", self.line()));
        for (number, side) in self.sides.iter().enumerate() {
            let line = match self.record(number) {
                None => "(the log has ended)".to_string(),
                Some(record) => record_line(record, &side.log.names, &Filter::default()).map_or_else(
                    || format!("{} an input of the world", record.at),
                    |line| line.trim_start().to_string(),
                ),
            };
            text.push_str(&format!("  {}\n    {line}\n", side.path.display()));
        }
        let (other, all) = self.starts;
        if all > 0 {
            text.push_str(&format!("{other} of {} placed at another time, or on one side only\n", counted(all, "job")));
        }
        text
    }

    fn decision_text(&self, found: &Difference) -> String {
        let what = match found.of {
            DifferenceKind::Decision => "the first decision that differs",
            DifferenceKind::Reasons => "every decision is the same; the first with different reasons",
        };
        let mut text = format!("{what}: {} at {}\n", found.job, found.at);
        for ((side, SideDecision { decided, before, after }), why) in
            self.sides.iter().zip(&found.sides).zip(&self.whys)
        {
            text.push_str(&format!("  {}\n", side.path.display()));
            for line in decided {
                text.push_str(&format!("    {line}\n"));
            }
            if decided.is_empty() {
                text.push_str(&format!("    nothing at {}\n", found.at));
                text.extend(before.as_ref().map(|line| format!("    before: {line}\n")));
                text.extend(after.as_ref().map(|line| format!("    after: {line}\n")));
            }
            why.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
        text
    }
}
