//! Explains the job behind a failed expectation in a line or two, shorter than `dryrack explain` does.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::explain::brief;
use dryrack_engine::{Records, Rehearsal, RunOptions, explain, run};
use dryrack_expect::{DecidedBy, Verdict};
use dryrack_rehearse::names;

/// The number of failures that are explained in one run. Further failures get no explanation.
const EXPLAINED: usize = 5;

/// The explanation of each failed expectation, by its index in the list. Without kept records the run is repeated and
/// recorded for this. That is cheaper than recording every run.
pub fn why(rehearsal: &Rehearsal, verdicts: &[Verdict], kept: Option<&Records>) -> BTreeMap<usize, Vec<String>> {
    let failed = verdicts.iter().enumerate().filter(|(_, verdict)| !verdict.passed);
    let asked: Vec<_> =
        failed.filter_map(|(index, verdict)| Some((index, verdict.turned_on?))).take(EXPLAINED).collect();
    if asked.is_empty() {
        return BTreeMap::new();
    }
    let mut again = Records::default();
    let records = kept.unwrap_or_else(|| {
        run(rehearsal, RunOptions::default(), &mut [&mut again]);
        &again
    });
    let names = names(rehearsal);
    let lines = |DecidedBy { job, replica, at }: DecidedBy| {
        let profile = Arc::clone(&rehearsal.profile);
        let explained = explain(profile, rehearsal.seed, &records.0, (job, replica), at).ok()?;
        let demand = &rehearsal.arrivals.get(job.index())?.spec.demand;
        Some(brief(&explained, demand, at, &names))
    };
    asked.into_iter().filter_map(|(index, asked)| Some((index, lines(asked)?))).collect()
}
