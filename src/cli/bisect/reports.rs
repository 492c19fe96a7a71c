//! The table of `dryrack bisect` for several scenarios: each under its own profile, under its historic profiles, and
//! under every release.

use indicatif::ProgressBar;
use rayon::prelude::*;
use serde_json::json;

use super::{BisectArgs, LIMITS, Outcome, ReleaseOutcome, Subject, change_json, changes, try_release};
use crate::causes::profile_beside;
use crate::exit::{Exit, ExitResult, Failure};
use crate::output::{Format, print, print_json};
use crate::progress::with_bar;
use crate::run::Overrides;
use crate::test::{Status, judged_once};
use dryrack_released::{Release, Store};
use dryrack_report::table;
use dryrack_units::counted;

/// One row of the table.
struct Row<'s> {
    subject: &'s Subject,
    own: Outcome,
    historic: Vec<(&'s str, Outcome)>,
    tried: Vec<ReleaseOutcome>,
}

pub fn table_of(
    args: &BisectArgs,
    subjects: &[Subject],
    (range, store): (&[Release], &Store),
    format: Format,
) -> ExitResult {
    let installed: Vec<Release> = range.iter().filter(|release| store.is_installed(release)).cloned().collect();
    if installed.is_empty() {
        let (first, last) = (&range[0], &range[range.len() - 1]);
        let why = format!("no release from {first} to {last} is installed");
        let help = format!("install a release, for example with `dryrack outside install {first}`");
        return Err(Failure::Input(format!("error: {why}\n  = help: {help}\n")));
    }
    let runs = subjects.len() * installed.len();
    let rows = with_bar((runs as u64, "runs"), |bar| {
        let rows = subjects.par_iter().map(|subject| Row::of(args, subject, (&installed, store), bar));
        rows.collect::<Result<Vec<Row<'_>>, Failure>>()
    })?;
    match format {
        Format::Json => print_json(&json!(rows.iter().map(Row::json).collect::<Vec<_>>()))?,
        Format::Human => {
            let header = ["report", "scenario", "own profile", "historic profiles", "releases"];
            print(&table(&header, &rows.iter().map(Row::cells).collect::<Vec<_>>()))?;
            print("\n")?;
            let changed = rows.iter().filter(|row| !changes(&row.tried).is_empty()).count();
            let unjudged = rows.iter().filter(|row| row.is_unjudged()).count();
            let all = counted(rows.len(), "scenario");
            print(&format!("{all}: the verdict changes in {changed}; no release can decide in {unjudged}\n"))?;
            print(LIMITS)?;
            let missing = range.len() - installed.len();
            if missing > 0 {
                let releases = counted(missing, "release");
                print(&format!("{releases} of the range not installed; `dryrack outside list --all` lists them\n"))?;
            }
        }
    }
    let is_judged = rows.iter().any(|row| !row.is_unjudged());
    Ok(if is_judged { Exit::Fine } else { Exit::NothingSelected })
}

/// The outcome under a profile.
fn outcome(subject: &Subject, overrides: &Overrides) -> Result<Outcome, Failure> {
    let case = judged_once(&subject.file, overrides);
    match case.status {
        Status::Passed => Ok(Outcome::Passes),
        Status::Failed => Ok(Outcome::Fails),
        Status::NotRun => Ok(Outcome::Skipped),
        Status::OurFault => Err(Failure::Ours(case.text)),
        Status::Invalid if case.diagnostics.has_errors() => Err(Failure::Input(case.diagnostics.to_string())),
        Status::Invalid => Err(Failure::Input(case.text)),
    }
}

impl<'s> Row<'s> {
    fn of(
        args: &BisectArgs,
        subject: &'s Subject,
        (range, store): (&[Release], &Store),
        bar: &ProgressBar,
    ) -> Result<Row<'s>, Failure> {
        let own = outcome(subject, &subject.overrides)?;
        let mut historic = Vec::new();
        for profile in &subject.historic {
            let beside = profile_beside(&subject.file, profile);
            historic.push((profile.as_str(), outcome(subject, &subject.overrides.clone().and_profile(&beside))?));
        }
        let mut tried = Vec::new();
        for release in range {
            tried.push(try_release(args, subject, release, store)?);
            bar.inc(1);
        }
        Ok(Row { subject, own, historic, tried })
    }

    /// Whether no release was tried that could decide.
    fn is_unjudged(&self) -> bool {
        self.tried.iter().all(|tried| tried.outcome == Outcome::Skipped)
    }

    fn name(&self) -> String {
        let file = self.subject.file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        if self.subject.cell.is_empty() { file } else { format!("{file} [{}]", self.subject.cell) }
    }

    fn cells(&self) -> Vec<String> {
        let report = self.subject.report.clone().unwrap_or_default();
        let historic: Vec<String> =
            self.historic.iter().map(|(profile, outcome)| format!("{profile} {}", outcome.name())).collect();
        let own = self.own.name().to_string();
        vec![report, self.name(), own, historic.join(", "), self.releases()]
    }

    /// The releases, with neighbours of equal outcome grouped: `fails 0.6.0 to 0.7.1, passes 2.0.0 to 2.3.0`.
    fn releases(&self) -> String {
        if self.is_unjudged() {
            let why = self.tried.first().map_or("there are no releases", |tried| tried.happened.as_str());
            return format!("cannot decide: {why}");
        }
        let version = |tried: &ReleaseOutcome| tried.release.split("==").last().unwrap_or_default().to_string();
        let stretches = self.tried.chunk_by(|one, other| one.outcome == other.outcome);
        let described = stretches.map(|stretch| {
            let (first, last) = (version(&stretch[0]), version(&stretch[stretch.len() - 1]));
            let to = if stretch.len() == 1 { String::new() } else { format!(" to {last}") };
            format!("{} {first}{to}", stretch[0].outcome.name())
        });
        described.collect::<Vec<_>>().join(", ")
    }

    fn json(&self) -> serde_json::Value {
        let historic: Vec<_> =
            (self.historic.iter()).map(|(profile, outcome)| json!({"profile": profile, "outcome": outcome})).collect();
        json!({
            "scenario": self.subject.file.display().to_string(),
            "cell": self.subject.cell,
            "report": self.subject.report,
            "own_profile": self.own,
            "historic": historic,
            "tried": self.tried,
            "changes": changes(&self.tried).iter().map(change_json).collect::<Vec<_>>(),
        })
    }
}
