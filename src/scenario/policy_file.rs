//! Policy files, for use with a recording: `utilization_policy:` combined with a profile, as in the configuration of a
//! run.

use std::path::Path;

use super::lengths::positive;
use super::load::{DEFAULT_PROFILE, load};
use super::options::Options;
use super::policies;
use dryrack_profile::{Changes, profile_with};
use dryrack_units::SimDuration;
use dryrack_workload::UtilizationPolicy;
use dryrack_yaml::{Diagnostics, Fields, Node, Report, Tree, parse, read_text, text};

const FIELDS: [&str; 4] = ["profile", "policies", "utilization_policy", "interval"];

/// A policy, and the jobs to which it applies.
#[derive(Clone, Debug)]
pub struct PolicyOf {
    /// The names of the jobs; empty if the file states only a policy.
    pub jobs: Vec<String>,
    pub policy: UtilizationPolicy,
}

/// The policies of a file. A policy file has one, which [`load_policy`] reads. A scenario has one for each group of
/// jobs with equal policies, in the order of the jobs.
pub fn load_policies(path: &Path, recorded: Option<SimDuration>) -> Result<Vec<PolicyOf>, Diagnostics> {
    let mut report = Report::default();
    let read = read_text(path, None, &mut report);
    let tree = read.and_then(|(source, text)| parse(&text, source, &mut report));
    // If the file cannot be read, the call below reports it.
    let is_scenario = tree.is_some_and(
        |tree| matches!(&tree.node, Node::Map(entries) if entries.iter().any(|entry| entry.key == "scenario")),
    );
    if !is_scenario {
        let file = load_policy(path, recorded)?;
        return Ok(vec![PolicyOf { jobs: Vec::new(), policy: file.policy }]);
    }
    let loaded = load(path, &Options::default())?;
    let mut found: Vec<PolicyOf> = Vec::new();
    for arrival in &loaded.rehearsal.arrivals {
        let options = &loaded.rehearsal.profile.policies.utilization;
        let Some((_, policy)) = options.bind(&arrival.spec.utilization) else { continue };
        let name = arrival.spec.name.to_string();
        match found.iter_mut().find(|known| known.policy == policy) {
            Some(known) => known.jobs.push(name),
            None => found.push(PolicyOf { jobs: vec![name], policy }),
        }
    }
    Ok(found)
}

/// A valid policy, and the shortest allowed time window.
#[derive(Clone, Copy, Debug)]
pub struct PolicyFile {
    pub policy: UtilizationPolicy,
    pub min_time_window: SimDuration,
}

/// Reads a file such as `utilization_policy: {min_gpu_utilization: 30%, time_window: 10m}`. The sampling interval is
/// `recorded` unless the file states one.
pub fn load_policy(path: &Path, recorded: Option<SimDuration>) -> Result<PolicyFile, Diagnostics> {
    let mut report = Report::default();
    let folder = path.parent().unwrap_or(Path::new(""));
    let found = read_text(path, None, &mut report).and_then(|(source, text)| {
        let tree = parse(&text, source, &mut report)?;
        lower(&tree, folder, recorded, &mut report)
    });
    match (found, report.has_errors()) {
        (Some(found), false) => Ok(found),
        _ => Err(report.finish()),
    }
}

fn lower(tree: &Tree, folder: &Path, recorded: Option<SimDuration>, report: &mut Report) -> Option<PolicyFile> {
    let fields = Fields::read(tree, "a policy file", &FIELDS, report)?;
    let changes = Changes { policies: fields.get("policies"), ..Changes::default() };
    let profile = match fields.get("profile") {
        None => profile_with(DEFAULT_PROFILE, fields.place(), folder, changes, report)?,
        Some(tree) => profile_with(text(tree, "the name of a profile", report)?, tree.span, folder, changes, report)?,
    };
    let interval = fields.get("interval").and_then(|tree| positive(tree, report)).or(recorded);
    let stated = fields.get("utilization_policy");
    let over = policies::utilization(stated, interval, fields.place(), &profile, report)?;
    let options = &profile.policies.utilization;
    let Some((_, policy)) = options.bind(&over) else {
        if !report.has_errors() {
            let help = "add `utilization_policy: {min_gpu_utilization: 30%, time_window: 10m}`";
            report.error_with_help(fields.place(), "neither the file nor its profile has a utilization policy", help);
        }
        return None;
    };
    Some(PolicyFile { policy, min_time_window: options.min_time_window })
}
