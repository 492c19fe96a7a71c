//! A rehearsal run with everything that the commands want to know of it.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::engine::{Progress, Rehearsal, RunEnd, RunOptions, run};
use crate::event::{Digest, Digester, FORMAT_VERSION, LogHeader, Sink};
use crate::expect::{Expectation, Horizon, Judge, Verdict};
use crate::ids::Names;
use crate::report::{Accounts, LogWriter};
use crate::units::SimTime;

pub struct Rehearsed {
    pub end: RunEnd,
    /// To the last record, or to where the file says the run stops if something is left by then.
    pub until: SimTime,
    pub digest: Digest,
    pub verdicts: Vec<Verdict>,
    pub accounts: Accounts,
    pub wall: Duration,
}

/// Runs it. `progress` names the step if an invariant breaks; `log` takes every record.
pub fn rehearse<W: Write>(
    rehearsal: &Rehearsal,
    expectations: Vec<Expectation>,
    progress: &Progress,
    log: Option<&mut LogWriter<W>>,
) -> Rehearsed {
    rehearse_with(rehearsal, expectations, progress, log.map(|log| log as &mut dyn Sink).into_iter().collect())
}

/// Likewise, with any number of sinks that take every record.
pub fn rehearse_with(
    rehearsal: &Rehearsal,
    expectations: Vec<Expectation>,
    progress: &Progress,
    mut more: Vec<&mut dyn Sink>,
) -> Rehearsed {
    #[expect(clippy::disallowed_methods, reason = "how long it took is said, and reaches no run")]
    let begun = Instant::now();
    let mut judge = Judge::new(expectations, names(rehearsal));
    let mut accounts = Accounts::default();
    let mut digester = Digester::default();
    let options = RunOptions { progress: Some(progress), ..RunOptions::default() };
    let end = {
        let mut sinks: Vec<&mut dyn Sink> = vec![&mut judge, &mut accounts, &mut digester];
        for sink in &mut more {
            sinks.push(&mut **sink);
        }
        run(rehearsal, options, &mut sinks)
    };
    let (until, horizon) = match (end.cut_short, rehearsal.until) {
        (true, Some(until)) => (until, Horizon::Until(until)),
        // What runs on, or waits on, does so until then, though nothing more is said of it.
        (false, Some(until)) if accounts.is_anything_left() => (until, Horizon::Everything),
        (false, _) | (true, None) => (end.at, Horizon::Everything),
    };
    accounts.finish(until);
    let verdicts = judge.finish(horizon, &accounts);
    Rehearsed { end, until, digest: digester.finish(), verdicts, accounts, wall: begun.elapsed() }
}

/// The names of all nodes and jobs, whether the run comes to them or not.
pub fn names(rehearsal: &Rehearsal) -> Names {
    let mut names = Names::default();
    for node in &rehearsal.nodes {
        names.nodes.add(node.spec.name.clone()).expect("a loaded scenario names each node once");
    }
    for arrival in &rehearsal.arrivals {
        names.jobs.add(arrival.spec.name.clone()).expect("a loaded scenario names each job once");
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
    }
}

/// What is said of a broken invariant: where it was, and what repeats it.
pub fn fault_text(message: &str, seed: u64, progress: &Progress, command: &str) -> String {
    format!(
        "our fault: {message}\n  seed {seed}, step {}, at {}\n  repeat with: {command}\n",
        progress.step(),
        progress.at()
    )
}
