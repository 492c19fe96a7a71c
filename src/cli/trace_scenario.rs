//! Which jobs could never run on the nodes of a scenario: those of a list of tasks, or the scenario's own.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, print, print_json, warn};
use super::roots::options;
use super::trace_source::Source;
use dryrack_expect::{Expectation, ExpectationKind, NEVER_RUNS_HELP, Unplaced};
use dryrack_metrics::{UnplaceableAccount, judge_arrivals};
use dryrack_scenario::{ListFile, Loaded, Options, load};
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;

/// Jobs of a scenario. Each is checked against the scenario's nodes as if they were ready and empty when it is submitted.
pub struct OnScenario {
    profile: Arc<str>,
    pub gpus: u64,
    tasks: u64,
    pub account: UnplaceableAccount,
    assumed: Vec<String>,
    /// Whether the scenario expects what jobs that can never run may break.
    fails: bool,
}

impl OnScenario {
    fn of(loaded: Loaded) -> OnScenario {
        let rehearsal = &loaded.rehearsal;
        let mut account = UnplaceableAccount::default();
        let jobs: Vec<(SimTime, &JobSpec)> =
            rehearsal.arrivals.iter().map(|arrival| (arrival.at, &*arrival.spec)).collect();
        let pending = jobs.iter().map(|(_, job)| job.replicas as usize).sum();
        for ((_, job), judgement) in jobs.iter().zip(judge_arrivals(rehearsal, &jobs, pending)) {
            if let Some(never) = judgement.never {
                account.add_demand(&job.demand, never);
            }
        }
        account.name_among(rehearsal.nodes.iter().map(|node| &*node.spec.shape));
        let gpus = rehearsal.nodes.iter().map(|node| node.spec.shape.gpus.len() as u64).sum();
        let profile = Arc::from(rehearsal.profile.name.as_str());
        let tasks = rehearsal.arrivals.len() as u64;
        let is_of_waits = |expectation: &Expectation| match &expectation.what {
            ExpectationKind::EachCanRun => true,
            ExpectationKind::Metric(check) => check.unplaced == Unplaced::Fail,
            _ => false,
        };
        let fails = loaded.expectations.iter().any(is_of_waits);
        OnScenario { profile, gpus, tasks, account, assumed: loaded.assumed, fails }
    }

    /// What can never run, and what was assumed about names. A sentence on each line.
    pub fn text(&self) -> String {
        let found = match (self.account.sentence(self.tasks), self.tasks) {
            (Some(sentence), _) => sentence,
            (None, 0) => "nothing is checked, because there are no jobs".to_string(),
            (None, _) => "each job can run if they are empty".to_string(),
        };
        let assumed: String = self.assumed.iter().map(|line| format!("{line}\n")).collect();
        let help = match self.account.jobs > 0 && self.fails {
            true => format!("help: {NEVER_RUNS_HELP}\n"),
            false => String::new(),
        };
        format!("{assumed}on the nodes of the scenario, under `{}`: {found}\n{help}", self.profile)
    }
}

/// `dryrack trace check SCENARIO`. Exits with 1 if a job could never run.
pub fn check(path: &Path, format: Format) -> ExitResult {
    let loaded = load(path, &options(path)).map_err(|diagnostics| Failure::Input(diagnostics.to_string()))?;
    warn(&loaded.warnings.to_string());
    let found = OnScenario::of(loaded);
    match format {
        Format::Human => print(&found.text())?,
        Format::Json => {
            print_json(&json!({"jobs": found.tasks, "never_run": found.account.json(), "assumed": found.assumed}))?
        }
    }
    Ok(match (found.tasks, found.account.jobs) {
        (0, _) => Exit::NothingSelected,
        (_, 0) => Exit::Fine,
        _ => Exit::Failed,
    })
}

/// Judges the tasks of a list on the nodes of a scenario.
pub fn judge_list(source: &Source, scenario: &Path) -> Result<OnScenario, Failure> {
    let file = source.file()?;
    let file = file.to_str().ok_or_else(|| Failure::file(&file, "its name is not valid text"))?.to_string();
    let format = source.open()?.format.name().to_string();
    let options = Options { list: Some(ListFile { file, format }), ..options(scenario) };
    let loaded = load(scenario, &options).map_err(|diagnostics| Failure::Input(diagnostics.to_string()))?;
    Ok(OnScenario::of(loaded))
}
