//! Finds the expectations that never fail: not under any profile that accepts their scenario, not with any of the given
//! planted faults, and not if a single part of the scenario is changed. An expectation that cannot fail is no check.
//!
//! An entry of `expect:` counts once, whatever number of subjects or cells it is judged for. It has failed if it
//! failed for one of them. A run that ends in an internal error or is endless judges nothing. The witnesses of a
//! reproduction are not counted: `test` itself requires that they fail under the scenario's own profile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use indicatif::ProgressBar;
use rayon::prelude::*;
use serde_json::json;

use super::args::TestArgs;
use super::case::{Case, CaseVerdict, judged_as, judged_once};
use super::plan::{Plan, name};
use super::pool;
use crate::exit::{Exit, ExitResult, Failure};
use crate::output::{TestFormat, print, print_json, warn};
use crate::progress;
use crate::run::Overrides;
use dryrack_minimize::{changes, with_included, with_one_expectation};
use dryrack_nearest::nearest;
use dryrack_planted::{Fault, choose};
use dryrack_profile::profile_names;
use dryrack_scenario::Cell;
use dryrack_units::counted;

/// The place of an entry: file, line and column.
type Place = (String, u32, u32);

/// One run: a cell of a file, and the profile if it is not the file's own.
type Run<'a> = (&'a Plan, &'a Cell, Option<&'static str>);

pub fn unfailing(plans: &[Plan], overrides: &Overrides, args: &TestArgs, format: TestFormat) -> ExitResult {
    let faults = faults(&args.fault)?;
    let own: Vec<Run<'_>> =
        plans.iter().flat_map(|plan| plan.cells.iter().map(move |cell| (plan, cell, None))).collect();
    let mut others: Vec<Run<'_>> = Vec::new();
    for (plan, cell, _) in &own {
        others.extend(profile_names().map(|profile| (*plan, *cell, Some(profile))));
    }
    let pool = pool(args.threads)?;
    let all = (own.len() * (1 + faults.len()) + others.len()) as u64;
    let (judged, failed) = progress::with_bar((all, "runs"), |bar| {
        pool.install(|| {
            let mut judged = BTreeMap::new();
            let mut failed = BTreeSet::new();
            for (place, name, expected, passed) in judged_in(&own, overrides, bar, true) {
                if !passed {
                    failed.insert(place.clone());
                }
                judged.entry(place).or_insert((name, expected));
            }
            let mut add = |runs: &[Run<'_>]| {
                let verdicts = judged_in(runs, overrides, bar, false).into_iter();
                failed.extend(verdicts.filter(|(.., passed)| !passed).map(|(place, ..)| place));
            };
            add(&others);
            for fault in &faults {
                assert!(choose(Some(*fault)), "this was checked when the names were read");
                add(&own);
            }
            let _none = choose(None);
            (judged, failed)
        })
    });
    let left: Vec<&Place> = judged.keys().filter(|place| !failed.contains(*place)).collect();
    let by_change = pool.install(|| failing_when_changed(plans, overrides, &left));
    let never: Vec<_> =
        judged.iter().filter(|(place, _)| !failed.contains(*place) && !by_change.contains(*place)).collect();
    let of_profiles = judged.len() - left.len();
    let of_changes = left.len() - never.len();
    match format {
        TestFormat::Json => {
            let entry = |(place, expectation): &(&Place, &(String, String))| {
                let ((file, line, column), (name, expected)) = (place, expectation);
                json!({"file": file, "line": line, "column": column, "name": name, "expected": expected})
            };
            print_json(&json!({
                "expectations": judged.len(), "profiles": profile_names().count(), "faults": faults.len(),
                "failed_under_a_profile_or_fault": of_profiles, "failed_after_a_change": of_changes,
                "unfailing": never.iter().map(entry).collect::<Vec<_>>(),
            }))?;
        }
        TestFormat::Human | TestFormat::Junit | TestFormat::Github | TestFormat::Tap => {
            let line = |((file, line, _), (name, expected)): &(&Place, &(String, String))| {
                format!("{file}:{line}  {name}: {expected}\n")
            };
            let text: String = never.iter().map(line).collect();
            let of = counted(judged.len(), "expectation");
            let (profiles, faults) =
                (counted(profile_names().count(), "profile"), counted(faults.len(), "planted fault"));
            print(&format!(
                "{text}{of}: {of_profiles} fail under one of {profiles} or with one of {faults}, {of_changes} if one part \
                 of their scenario is changed, {} never\n",
                never.len()
            ))?;
        }
    }
    Ok(if never.is_empty() { Exit::Fine } else { Exit::Failed })
}

/// Of the expectations that have not failed yet, those that hold alone and fail if one part of their scenario is changed. A
/// changed text that is no valid scenario is left out.
fn failing_when_changed(plans: &[Plan], overrides: &Overrides, left: &[&Place]) -> BTreeSet<Place> {
    let fails = |place: &Place| -> bool {
        let (file, line, column) = place;
        let Some(plan) = plans.iter().find(|plan| plan.file == Path::new(file)) else { return false };
        let Some(alone) =
            std::fs::read_to_string(&plan.file).ok().and_then(|text| with_one_expectation(&text, *line, *column))
        else {
            return false;
        };
        let fails_as = |text: &str, cell: &Cell| {
            let case = judged_as(&plan.file, text, &overrides.with_set(&cell.set)).filter(Case::is_judged);
            case.is_some_and(|case| case.judged.iter().any(|judged| !judged.verdict.passed))
        };
        let folder = plan.file.parent().unwrap_or_else(|| Path::new(""));
        let included = with_included(&alone, |file| std::fs::read_to_string(folder.join(file)).ok());
        let alone = included.unwrap_or(alone);
        // What fails without a change shows nothing about the change.
        if plan.cells.iter().any(|cell| fails_as(&alone, cell)) {
            return false;
        }
        changes(&alone).iter().any(|text| plan.cells.iter().any(|cell| fails_as(text, cell)))
    };
    progress::with_bar((left.len() as u64, "expectations, with each part changed"), |bar| {
        let failing = left.par_iter().inspect(|_| bar.inc(1)).filter(|place| fails(place));
        failing.map(|place| (*place).clone()).collect()
    })
}

/// The faults with these names.
fn faults(names: &[String]) -> Result<Vec<Fault>, Failure> {
    if names.iter().any(|name| name == "all") {
        return can_be_planted().map(|()| Fault::ALL.to_vec());
    }
    let fault = |name: &String| {
        let found = Fault::ALL.iter().find(|fault| fault.name() == name);
        found.copied().ok_or_else(|| {
            let near = nearest(name, Fault::ALL.iter().map(|fault| fault.name()));
            let help = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            Failure::Input(format!("error: --fault: no planted fault is named `{name}`{help}"))
        })
    };
    let faults = names.iter().map(fault).collect::<Result<Vec<_>, _>>()?;
    if !faults.is_empty() {
        can_be_planted()?;
    }
    Ok(faults)
}

fn can_be_planted() -> Result<(), Failure> {
    let wrong = "error: --fault: this build has no planted faults; build with `--features planted`";
    match choose(Fault::ALL.first().copied()) {
        true => {
            let _none = choose(None);
            Ok(())
        }
        false => Err(Failure::Input(wrong.to_string())),
    }
}

/// The verdicts of these runs: the place of the entry, its name, what it expects, and whether it held. `is_own` says
/// which runs could not be judged.
fn judged_in(
    runs: &[Run<'_>],
    overrides: &Overrides,
    bar: &ProgressBar,
    is_own: bool,
) -> Vec<(Place, String, String, bool)> {
    let judge = |(plan, cell, profile): &Run<'_>| {
        let chosen = overrides.with_set(&cell.set);
        let chosen = profile.map_or(chosen.clone(), |profile| chosen.and_profile(profile));
        let case = judged_once(&plan.file, &chosen);
        bar.inc(1);
        if is_own && !case.is_judged() {
            warn(&format!("note: {} was not judged\n", name(&plan.file, &cell.name)));
        }
        let verdict = |judged: CaseVerdict| {
            let (place, verdict) = (judged.place, judged.verdict);
            (
                (place.file.to_string(), place.line, place.column),
                judged.entry.to_string(),
                verdict.expected,
                verdict.passed,
            )
        };
        case.judged.into_iter().map(verdict).collect::<Vec<_>>()
    };
    runs.par_iter().map(judge).collect::<Vec<_>>().concat()
}
