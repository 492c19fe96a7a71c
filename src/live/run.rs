//! The main loop of a live run. It is the same as the loop over a simulated world, except that it waits for real time
//! to pass.

use std::io;
use std::sync::Arc;

use super::backend::RunBackend;
use super::clock::Clock;
use super::probe::Guarded;
use super::signals::Signals;
use super::slurm::{Cluster, OnSlurm};
use super::work::PendingRun;
use super::world::World;
use dryrack_control::{Control, arrange, step, step_len};
use dryrack_event::{Input, Sink};
use dryrack_units::{SimDuration, SimTime};

/// How a run on this machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEnd {
    pub at: SimTime,
    pub steps: u64,
    /// Whether a person or the system interrupted the run. All remaining jobs were then cancelled.
    pub interrupted: bool,
    /// Whether the run was stopped early, by `until` or because it took too long after an interruption.
    pub cut_short: bool,
    /// Why the run could not continue, if something broke. The log is complete up to that point.
    pub broken: Option<String>,
    /// Remarks that are not in the log.
    pub notes: Vec<String>,
}

/// How long the run may continue after a first interruption. Remaining processes are then killed.
const PATIENCE: SimDuration = SimDuration::from_secs(30);

/// Runs the work to its end. Every sink gets every record, and must keep it after each step; if a sink fails, the run
/// ends. At every kind of end, no process that the run started is left. `gpus` reads the GPUs that are not CPU shares.
pub fn run(work: &PendingRun, gpus: Option<Guarded>, sinks: &mut [&mut dyn Sink]) -> io::Result<LiveEnd> {
    let signals = Signals::new()?;
    let end = run_in(work, &mut World::new(work, gpus)?, signals, sinks)?;
    match end.broken {
        None => Ok(end),
        Some(why) => Err(io::Error::other(why)),
    }
}

/// Runs the work on a Slurm cluster, which decides where and when each job runs. If the run could not continue,
/// [`LiveEnd::broken`] gives the reason.
pub fn run_on_slurm(work: &PendingRun, cluster: Cluster, sinks: &mut [&mut dyn Sink]) -> io::Result<LiveEnd> {
    let signals = Signals::new()?;
    run_in(work, &mut OnSlurm::new(work, cluster), signals, sinks)
}

fn run_in(
    work: &PendingRun,
    world: &mut dyn RunBackend,
    mut signals: Signals,
    sinks: &mut [&mut dyn Sink],
) -> io::Result<LiveEnd> {
    let mut control = Control::new(Arc::clone(&work.profile), work.seed);
    let clock = Clock::start();
    let mut inputs = work.declarations.clone();
    let (at, notes) = (SimTime::ZERO, Vec::new());
    let mut end = LiveEnd { at, steps: 0, interrupted: false, cut_short: false, broken: None, notes };
    let mut give_up = SimTime::MAX;
    let mut wait = SimDuration::ZERO;
    loop {
        let heard = signals.wait(wait)?;
        // Declarations belong to time zero, as in a rehearsal.
        let now = if end.steps == 0 { SimTime::ZERO } else { clock.now().at() };
        if work.until.is_some_and(|until| now > until) || now > give_up {
            (end.at, end.cut_short) = (now, true);
            break;
        }
        if heard.ends > 0 {
            if end.interrupted {
                world.kill_all();
            } else {
                end.interrupted = true;
                give_up = now.saturating_add(PATIENCE);
                world.interrupt(&mut inputs);
            }
        }
        let happened = world.happen(now, heard.child, &mut inputs);
        if inputs.is_empty() && control.next_wakeup().is_some_and(|(at, _)| at <= now) {
            inputs.push(Input::Wakeup);
        }
        arrange(&mut inputs, work.profile.instant);
        while !inputs.is_empty() {
            (end.at, end.steps) = (now, end.steps + 1);
            let count = step_len(&inputs, work.profile.instant);
            let of_step = &inputs[..count];
            step(&mut control, (end.steps, now), of_step, sinks, &mut |now, command| world.obey(now, command));
            inputs.drain(..count);
        }
        sinks.iter_mut().try_for_each(|sink| sink.keep())?;
        if let Err(why) = happened {
            (end.at, end.broken) = (now, Some(why.to_string()));
            break;
        }
        let of_world = world.next_time();
        let wakeup = control.next_wakeup().map(|(at, _)| at);
        let is_over = world.is_over() && (wakeup.is_none() || end.interrupted || control.only_repeats_refusals());
        if is_over {
            break;
        }
        let next = [of_world, wakeup, work.until].into_iter().flatten().min().unwrap_or(SimTime::MAX);
        wait = next.checked_since(clock.now().at()).unwrap_or_default();
    }
    if let Err(left) = world.end_all() {
        end.broken = Some(end.broken.map_or_else(|| left.to_string(), |why| format!("{why}; {left}")));
    }
    end.notes = world.notes();
    control.assert_integrity();
    Ok(end)
}
