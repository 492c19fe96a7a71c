//! Floor 9. Runs a rehearsal. In the same pass it judges the expectations, computes the accounts and computes the
//! digest.
//!
//! This room decides at which time a run ends, with the same rule for every run. It must never read a clock, and never
//! decide what a run simulates.

#![warn(clippy::unwrap_used)]

use dryrack_apiserver::{KubeScheduler, KubeSchedulerSetup};
use dryrack_engine::{Progress, Rehearsal, RunEnd, RunOptions, run, run_decided, run_streamed};
use dryrack_event::{Decider, Digest, Digester, FORMAT_VERSION, LogHeader, OutsideProgram, Sink};
use dryrack_expect::{Expectation, Horizon, Judge, Verdict};
use dryrack_ids::Names;
use dryrack_metrics::{RunAccount, RunMetrics, find_never_runs};
use dryrack_outside::{Command, NotStarted, Session, Setup};
use dryrack_scheduler::Caching;
use dryrack_units::SimTime;
use dryrack_workload::Arrival;

pub struct Rehearsed {
    pub end: RunEnd,
    /// The end of the run: the time of the last record. If anything is left when the scenario stops the run, it is that
    /// time.
    pub until: SimTime,
    pub digest: Digest,
    pub verdicts: Vec<Verdict>,
    /// Metrics of the accounts, which were closed at `until`.
    pub run_metrics: RunMetrics,
}

/// Runs the rehearsal. If an invariant breaks, `progress` tells at which step. The sinks in `more` get every record.
pub fn rehearse(
    rehearsal: &Rehearsal,
    expectations: Vec<Expectation>,
    progress: &Progress,
    caching: Caching,
    more: Vec<&mut dyn Sink>,
) -> Rehearsed {
    rehearse_with((rehearsal, Source::Listed), expectations, RunAccount::of(rehearsal), progress, caching, more)
}

/// Runs the rehearsal while a scheduler in another process decides. If that scheduler fails for good, the run ends and
/// is judged up to that time.
pub fn rehearse_decided(
    rehearsal: &Rehearsal,
    expectations: Vec<Expectation>,
    progress: &Progress,
    more: Vec<&mut dyn Sink>,
    decider: &mut dyn Decider,
) -> Rehearsed {
    let (source, accounts) = (Source::Decided(decider), RunAccount::of(rehearsal));
    rehearse_with((rehearsal, source), expectations, accounts, progress, Caching::On, more)
}

/// Starts the scheduler in another process for this rehearsal, by the protocol that it speaks.
///
/// # Errors
/// If it cannot be started.
pub fn start(setup: Setup, rehearsal: &Rehearsal) -> Result<Box<dyn OutsideProgram>, NotStarted> {
    let Command::KubeScheduler { program, flags } = &setup.command else {
        return Ok(Box::new(Session::start(setup, &rehearsal.title, rehearsal.seed)?));
    };
    let Some(options) = rehearsal.profile.flow.kubernetes() else {
        let why = "it can decide only under a profile of Kubernetes".to_string();
        return Err(NotStarted { program: setup.command.to_string(), why });
    };
    let started = KubeScheduler::new(KubeSchedulerSetup {
        program: program.clone(),
        flags: flags.clone(),
        folder: setup.folder.clone(),
        start: setup.start,
        deadline: setup.deadline,
        restarts: setup.restarts,
        initial_backoff: options.queue.initial_backoff,
        max_backoff: options.queue.max_backoff,
    });
    let not_started = |error: dryrack_apiserver::NotStarted| NotStarted { program: error.program, why: error.why };
    Ok(Box::new(started.map_err(not_started)?))
}

/// The source of jobs and of decisions.
enum Source<'s> {
    /// The rehearsal lists the jobs, and its profile decides.
    Listed,
    Streamed(&'s mut dyn Iterator<Item = Arrival>),
    Decided(&'s mut dyn Decider),
}

/// Runs the rehearsal with jobs that are created one by one during the run. The accounts support metrics only: see
/// [`RunAccount::figures_only`].
pub fn rehearse_streamed(
    rehearsal: &Rehearsal,
    arrivals: &mut dyn Iterator<Item = Arrival>,
    expectations: Vec<Expectation>,
    progress: &Progress,
    caching: Caching,
) -> Rehearsed {
    let accounts = RunAccount::figures_only(rehearsal);
    rehearse_with((rehearsal, Source::Streamed(arrivals)), expectations, accounts, progress, caching, Vec::new())
}

fn rehearse_with(
    (rehearsal, source): (&Rehearsal, Source<'_>),
    expectations: Vec<Expectation>,
    mut accounts: RunAccount,
    progress: &Progress,
    caching: Caching,
    mut more: Vec<&mut dyn Sink>,
) -> Rehearsed {
    let mut judge = Judge::new(expectations, names(rehearsal));
    let mut digester = Digester::default();
    let options = RunOptions { progress: Some(progress), caching, ..RunOptions::default() };
    let is_decided_here = !matches!(source, Source::Decided(_));
    let end = {
        let mut sinks: Vec<&mut dyn Sink> = vec![&mut judge, &mut accounts, &mut digester];
        for sink in &mut more {
            sinks.push(&mut **sink);
        }
        match source {
            Source::Listed => run(rehearsal, options, &mut sinks),
            Source::Streamed(arrivals) => run_streamed(rehearsal, arrivals, options, &mut sinks),
            Source::Decided(decider) => run_decided(rehearsal, options, &mut sinks, decider),
        }
    };
    let (until, horizon) = match (end.cut_short, rehearsal.until) {
        (true, _) if end.failed => (end.at, Horizon::Until(end.at)),
        (true, Some(until)) => (until, Horizon::Until(until)),
        // A replica that still runs or waits continues until `until`, although no record says so.
        (false, Some(until)) if accounts.is_anything_left() => (until, Horizon::Everything),
        // A scheduler that asked to be called again, and then decided nothing, let this time pass.
        (false, _) | (true, None) if accounts.is_anything_left() => {
            (end.asked.max(Some(end.at)).unwrap_or(end.at), Horizon::Everything)
        }
        (false, _) | (true, None) => (end.at, Horizon::Everything),
    };
    if is_decided_here {
        find_never_runs(&mut accounts.jobs, rehearsal, until);
    }
    accounts.finish(until);
    let run_metrics = RunMetrics::of(accounts);
    let verdicts = judge.finish(horizon, &run_metrics);
    Rehearsed { end, until, digest: digester.finish(), verdicts, run_metrics }
}

/// The names of all fleets, nodes and jobs, including those that the run never reaches.
pub fn names(rehearsal: &Rehearsal) -> Names {
    let mut names = Names::default();
    // Adding cannot fail, because names in a loaded scenario are unique.
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
        profile_data: rehearsal.profile.to_data(),
        live: None,
        branch: None,
    }
}
