//! Floor 9. Runs a rehearsal and in the same pass judges its expectations, folds its accounts and computes its
//! digest.
//!
//! Owns until when the records of a run are valid, by the same rule for every run. Must never read a clock, and never
//! decide what a run simulates.

#![warn(clippy::unwrap_used)]

use dryrack_engine::{Progress, Rehearsal, RunEnd, RunOptions, run, run_streamed};
use dryrack_event::{Digest, Digester, FORMAT_VERSION, LogHeader, Sink};
use dryrack_expect::{Expectation, Horizon, Judge, Verdict};
use dryrack_ids::Names;
use dryrack_metrics::{RunAccount, RunMetrics};
use dryrack_scheduler::Caching;
use dryrack_units::SimTime;
use dryrack_workload::Arrival;

pub struct Rehearsed {
    pub end: RunEnd,
    /// The end of the run: the time of the last record, or the time at which the scenario stops the run if anything
    /// is left by then.
    pub until: SimTime,
    pub digest: Digest,
    pub verdicts: Vec<Verdict>,
    /// Metrics of accounts that were finished at `until`.
    pub run_metrics: RunMetrics,
}

/// Runs the rehearsal. `progress` names the step if an invariant breaks; the sinks in `more` receive every record.
pub fn rehearse(
    rehearsal: &Rehearsal,
    expectations: Vec<Expectation>,
    progress: &Progress,
    caching: Caching,
    more: Vec<&mut dyn Sink>,
) -> Rehearsed {
    rehearse_with((rehearsal, None), expectations, RunAccount::of(rehearsal), progress, caching, more)
}

/// Runs the rehearsal with jobs that are generated one by one during the run, for metrics only: see
/// [`RunAccount::figures_only`].
pub fn rehearse_streamed(
    rehearsal: &Rehearsal,
    arrivals: &mut dyn Iterator<Item = Arrival>,
    expectations: Vec<Expectation>,
    progress: &Progress,
    caching: Caching,
) -> Rehearsed {
    let accounts = RunAccount::figures_only(rehearsal);
    rehearse_with((rehearsal, Some(arrivals)), expectations, accounts, progress, caching, Vec::new())
}

fn rehearse_with(
    (rehearsal, arrivals): (&Rehearsal, Option<&mut dyn Iterator<Item = Arrival>>),
    expectations: Vec<Expectation>,
    mut accounts: RunAccount,
    progress: &Progress,
    caching: Caching,
    mut more: Vec<&mut dyn Sink>,
) -> Rehearsed {
    let mut judge = Judge::new(expectations, names(rehearsal));
    let mut digester = Digester::default();
    let options = RunOptions { progress: Some(progress), caching, ..RunOptions::default() };
    let end = {
        let mut sinks: Vec<&mut dyn Sink> = vec![&mut judge, &mut accounts, &mut digester];
        for sink in &mut more {
            sinks.push(&mut **sink);
        }
        match arrivals {
            None => run(rehearsal, options, &mut sinks),
            Some(arrivals) => run_streamed(rehearsal, arrivals, options, &mut sinks),
        }
    };
    let (until, horizon) = match (end.cut_short, rehearsal.until) {
        (true, Some(until)) => (until, Horizon::Until(until)),
        // A replica that still runs or waits does so until then, though no record says so.
        (false, Some(until)) if accounts.is_anything_left() => (until, Horizon::Everything),
        (false, _) | (true, None) => (end.at, Horizon::Everything),
    };
    accounts.finish(until);
    let run_metrics = RunMetrics::of(accounts);
    let verdicts = judge.finish(horizon, &run_metrics);
    Rehearsed { end, until, digest: digester.finish(), verdicts, run_metrics }
}

/// The names of all fleets, nodes and jobs, whether or not the run reaches them.
pub fn names(rehearsal: &Rehearsal) -> Names {
    let mut names = Names::default();
    // In a loaded scenario each name is unique.
    for fleet in &rehearsal.fleets {
        names.fleets.add_new(fleet.name.clone());
    }
    for node in &rehearsal.nodes {
        names.nodes.add_new(node.spec.name.clone());
    }
    for arrival in &rehearsal.arrivals {
        names.jobs.add_new(arrival.spec.name.clone());
    }
    names
}

pub fn header(rehearsal: &Rehearsal) -> LogHeader {
    LogHeader {
        dryrack: env!("CARGO_PKG_VERSION").to_string(),
        format: FORMAT_VERSION,
        scenario: rehearsal.title.clone(),
        source: rehearsal.source.clone(),
        seed: rehearsal.seed,
        profile: rehearsal.profile.name.clone(),
        profile_data: serde_json::to_value(&*rehearsal.profile).expect("a profile has a JSON form"),
        live: None,
        branch: None,
    }
}
