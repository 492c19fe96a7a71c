//! A branch off the run, in the middle of it, in which nothing changes.

use super::case::{Case, CheckResult, Judged, log_of};
use super::compare::{events, same};
use dryrack_engine::branch;

pub fn judge(case: &Case<'_>) -> CheckResult {
    let Some(middle) = case.log.get(case.log.len() / 2) else { return Ok(Judged::DoesNotApply) };
    let at = middle.at;
    let branched = branch(case.world, case.world, at).map_err(|error| format!("no branch at {at}: {error}"))?;
    same(&events(case.log, |_| true), &events(&log_of(&branched), |_| true))
        .map_err(|difference| format!("the run branches at {at} and nothing changes:\n  {difference}"))?;
    Ok(Judged::Holds)
}
