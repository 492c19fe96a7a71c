//! Runs every scenario under every profile that accepts it. Each run must end, and each explanation must succeed.
//! Expectations are not judged, because they are meant for the scenario's own profile.

use std::sync::Arc;

use indicatif::ProgressBar;
use rayon::prelude::*;
use serde_json::json;

use super::plan::{Plan, name};
use crate::exit::{Exit, Failure};
use crate::explain::{as_json, brief, human, tasks_of};
use crate::fault::{fault_text, runaway_text};
use crate::guard::{WorkFailure, guarded_run};
use crate::marks::ReachedMarks;
use crate::output::{TestFormat, print, print_json};
use crate::run::Overrides;
use dryrack_engine::{Progress, Records, Rehearsal, RunOptions, explain, run};
use dryrack_ids::JobId;
use dryrack_profile::profile_names;
use dryrack_rehearse::names;
use dryrack_report::table;
use dryrack_scenario::{Cell, Loaded, load};
use dryrack_units::SimTime;

/// A scenario with more jobs than this runs only until the next job arrives.
const MOST_JOBS: usize = 400;
/// A run with more records than this is treated as endless.
const MOST_RECORDS: u64 = 2_000_000;
/// The approximate number of records that are replayed for the explanations of one run.
const REPLAYED: usize = 10_000;

/// The result of one scenario under one profile.
enum ProfileOutcome {
    /// The profile does not accept the scenario, or the file uses something that only its own profile has.
    Refused,
    /// A trace or other data for the scenario is missing.
    NotRun,
    Ended {
        explanations: u64,
    },
    Endless(String),
    OurFault(String),
}

/// The results of all scenarios under one profile.
struct ProfileResult {
    profile: &'static str,
    came: Vec<ProfileOutcome>,
}

impl ProfileResult {
    fn count(&self, is_one: fn(&ProfileOutcome) -> bool) -> usize {
        self.came.iter().filter(|came| is_one(came)).count()
    }

    fn cells(&self) -> [(&'static str, usize); 7] {
        let explained =
            |came: &ProfileOutcome| if let ProfileOutcome::Ended { explanations } = came { *explanations } else { 0 };
        let refused = self.count(|came| matches!(came, ProfileOutcome::Refused));
        let not_run = self.count(|came| matches!(came, ProfileOutcome::NotRun));
        [
            ("accepted", self.came.len() - refused - not_run),
            ("refused", refused),
            ("not_run", not_run),
            ("ended", self.count(|came| matches!(came, ProfileOutcome::Ended { .. }))),
            ("endless", self.count(|came| matches!(came, ProfileOutcome::Endless(_)))),
            ("our_fault", self.count(|came| matches!(came, ProfileOutcome::OurFault(_)))),
            ("explained", self.came.iter().map(explained).sum::<u64>() as usize),
        ]
    }
}

/// Runs every scenario under every profile, on the threads of `pool`.
pub fn each_profile(
    plans: &[Plan],
    overrides: &Overrides,
    pool: &rayon::ThreadPool,
    bar: &ProgressBar,
    marks: Option<&ReachedMarks>,
) -> EachProfile {
    let all: Vec<(&Plan, &Cell)> =
        plans.iter().flat_map(|plan| plan.cells.iter().map(move |cell| (plan, cell))).collect();
    let under = |profile: &'static str| {
        let came = |(plan, cell): &(&Plan, &Cell)| {
            let came = test_under(profile, (plan, cell), overrides, marks);
            bar.inc(1);
            came
        };
        ProfileResult { profile, came: all.par_iter().map(came).collect() }
    };
    let profiles: Vec<&'static str> = profile_names().collect();
    bar.set_length((profiles.len() * all.len()) as u64);
    EachProfile(pool.install(|| profiles.into_par_iter().map(under).collect()))
}

pub struct EachProfile(Vec<ProfileResult>);

impl EachProfile {
    pub fn print(&self, format: TestFormat) -> Result<Exit, Failure> {
        match format {
            TestFormat::Json => {
                let line = |line: &ProfileResult| {
                    let mut value = json!({"profile": line.profile});
                    line.cells().iter().for_each(|(name, count)| value[*name] = (*count).into());
                    value
                };
                print_json(&json!({
                    "profiles": self.0.iter().map(line).collect::<Vec<_>>(),
                    "broken": self.broken().collect::<Vec<_>>(),
                }))?;
            }
            TestFormat::Human | TestFormat::Junit | TestFormat::Github | TestFormat::Tap => print(&self.text())?,
        }
        let any = |is_one: fn(&ProfileOutcome) -> bool| self.0.iter().any(|line| line.count(is_one) > 0);
        if any(|came| matches!(came, ProfileOutcome::OurFault(_))) {
            Ok(Exit::OurFault)
        } else if any(|came| matches!(came, ProfileOutcome::Endless(_))) {
            Ok(Exit::Failed)
        } else {
            Ok(Exit::Fine)
        }
    }

    fn text(&self) -> String {
        let rows: Vec<Vec<String>> = (self.0.iter())
            .map(|line| {
                let counts = line.cells().into_iter().map(|(_, count)| count.to_string());
                std::iter::once(line.profile.to_string()).chain(counts).collect()
            })
            .collect();
        let header =
            ["profile", "accepted", "refused", "not run", "ended", "endless", "internal error", "explanations"];
        let mut text = table(&header, &rows);
        self.broken().for_each(|message| text.push_str(&format!("\n{message}")));
        text
    }

    fn broken(&self) -> impl Iterator<Item = &String> {
        self.0.iter().flat_map(|line| &line.came).filter_map(|came| match came {
            ProfileOutcome::Endless(message) | ProfileOutcome::OurFault(message) => Some(message),
            ProfileOutcome::Refused | ProfileOutcome::NotRun | ProfileOutcome::Ended { .. } => None,
        })
    }
}

fn test_under(
    profile: &str,
    (plan, cell): (&Plan, &Cell),
    overrides: &Overrides,
    marks: Option<&ReachedMarks>,
) -> ProfileOutcome {
    let under = overrides.with_set(&cell.set).and_profile(profile);
    let mut loaded = match load(&plan.file, &under.lower(&plan.file)) {
        Ok(loaded) => loaded,
        Err(diagnostics) if diagnostics.lacks_only_a_trace() => return ProfileOutcome::NotRun,
        Err(_) => return ProfileOutcome::Refused,
    };
    shorten(&mut loaded);
    let (rehearsal, progress) = (loaded.rehearsal, Progress::default());
    let described = |text: String| format!("{} under {profile}\n{text}", name(&plan.file, &cell.name));
    match guarded_run(|| run_and_explain(&rehearsal, &progress, marks)) {
        Ok(Ok(explanations)) => ProfileOutcome::Ended { explanations },
        Err(WorkFailure::Runaway(runaway)) => ProfileOutcome::Endless(described(runaway_text(&runaway))),
        Ok(Err(message)) | Err(WorkFailure::Invariant(message)) => {
            let command = under.repeat(&plan.file, rehearsal.seed);
            ProfileOutcome::OurFault(described(fault_text(&message, rehearsal.seed, &progress, &command)))
        }
    }
}

fn shorten(loaded: &mut Loaded) {
    let rehearsal = &mut loaded.rehearsal;
    if let Some(next) = rehearsal.arrivals.get(MOST_JOBS) {
        let until = rehearsal.until.map_or(next.at, |until| until.min(next.at));
        rehearsal.until = Some(until);
    }
}

/// Runs the scenario, and explains jobs at several moments. Returns the number of explanations.
fn run_and_explain(rehearsal: &Rehearsal, progress: &Progress, marks: Option<&ReachedMarks>) -> Result<u64, String> {
    let mut records = Records::default();
    let options = RunOptions { progress: Some(progress), most_records: MOST_RECORDS, ..RunOptions::default() };
    run(rehearsal, options, &mut [&mut records]);
    let records = records.0;
    marks.iter().for_each(|marks| marks.add_log(&records, &rehearsal.profile));
    let names = names(rehearsal);
    let moments: [Option<SimTime>; 4] = [records.len(), records.len() / 4, records.len() / 2, records.len() * 3 / 4]
        .map(|place| records.get(place).map(|record| record.at));
    let most = (REPLAYED / records.len().max(1)).max(moments.len());
    // Spread the questions evenly over the jobs and moments, within the limit on replayed records.
    let every = (rehearsal.arrivals.len() * moments.len()).div_ceil(most).max(1);
    let questions = (0..rehearsal.arrivals.len() * moments.len()).step_by(every);
    let mut asked = 0;
    for question in questions {
        let (job, at) = (question / moments.len(), moments[(question + asked as usize) % moments.len()]);
        let demand = &rehearsal.arrivals[job].spec.demand;
        let job = JobId::new(job);
        let profile = Arc::clone(&rehearsal.profile);
        let explained = explain(profile, rehearsal.seed, &records, (job, None), at)
            .map_err(|difference| format!("the replay differs: {difference}"))?;
        let tasks = tasks_of(demand);
        let said = [
            human(&explained, at, (job, tasks), &names),
            brief(&explained, demand, at, &names).join("\n"),
            as_json(&explained, at, (job, tasks), &names).to_string(),
        ];
        assert!(said.iter().all(|text| !text.is_empty()), "{} has no explanation", names.job(job));
        asked += 1;
    }
    Ok(asked)
}
