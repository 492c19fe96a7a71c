//! Explains the job that a failed expectation is about, as `dryrack explain` does, but in a line or two.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::explain::brief;
use dryrack_engine::{Records, Rehearsal, RunOptions, explain, run};
use dryrack_expect::{TurnedOn, Verdict};
use dryrack_rehearse::names;

/// How many failures of one run are explained: only the first ones, if there are more.
const EXPLAINED: usize = 5;

/// The lines for each failed expectation, by its place in the list. The run is repeated and recorded for this, which
/// is cheaper than recording every run.
pub fn why(rehearsal: &Rehearsal, verdicts: &[Verdict]) -> BTreeMap<usize, Vec<String>> {
    let failed = verdicts.iter().enumerate().filter(|(_, verdict)| !verdict.passed);
    let asked: Vec<_> =
        failed.filter_map(|(index, verdict)| Some((index, verdict.turned_on?))).take(EXPLAINED).collect();
    if asked.is_empty() {
        return BTreeMap::new();
    }
    let mut records = Records::default();
    run(rehearsal, RunOptions::default(), &mut [&mut records]);
    let names = names(rehearsal);
    let lines = |TurnedOn { job, replica, at }: TurnedOn| {
        let profile = Arc::clone(&rehearsal.profile);
        let explained = explain(profile, rehearsal.seed, &records.0, (job, replica), at).ok()?;
        let demand = &rehearsal.arrivals.get(job.index())?.spec.demand;
        Some(brief(&explained, demand, at, &names))
    };
    asked.into_iter().filter_map(|(index, asked)| Some((index, lines(asked)?))).collect()
}
