//! The loop over a real world: the same as over a simulated one, and waiting.

use std::io;
use std::sync::Arc;

use super::clock::Clock;
use super::probe::Guarded;
use super::signals::Signals;
use super::slurm::{Cluster, OnSlurm};
use super::work::Work;
use super::world::World;
use dryrack_control::{Control, arrange, step, step_len};
use dryrack_event::{Command, Input, Sink};
use dryrack_units::{SimDuration, SimTime};

/// How a run on this machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEnd {
    pub at: SimTime,
    pub steps: u64,
    /// Somebody ended it, and what was left was cancelled.
    pub interrupted: bool,
    /// It was stopped by `until`, with more to come.
    pub cut_short: bool,
    /// Why it could not be gone on with, if it could not; its log is whole up to then.
    pub broken: Option<String>,
    /// What its log does not say.
    pub notes: Vec<String>,
}

/// After a first interruption all is over by then; what is not is killed.
const PATIENCE: SimDuration = SimDuration::from_secs(30);

/// Where jobs really run, as the loop meets it.
pub trait RealWorld {
    /// What happened until now; adds what the control plane hears of it, in order of classes. An error if nothing of it
    /// can be known any more.
    fn happen(&mut self, now: SimTime, child_changed: bool, inputs: &mut Vec<Input>) -> io::Result<()>;

    fn obey(&mut self, now: SimTime, command: Command);

    /// When it is to be looked at next, though no child says anything.
    fn next_time(&self) -> Option<SimTime>;

    /// Whether nothing runs, and nothing comes of itself any more.
    fn is_over(&self) -> bool;

    /// Nothing new begins, and all that was submitted is cancelled.
    fn interrupt(&mut self, inputs: &mut Vec<Input>);

    fn kill_all(&mut self);

    /// Nothing that was started is left when this returns; an error if that took too long.
    fn end_all(&mut self) -> io::Result<()>;

    /// What its log does not say, a sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Runs it to its end. Every sink reads every record, and keeps it after each step; where one cannot, the run is ended.
/// No process that it started is left, however it ends. `gpus` reads those that are no CPU shares.
pub fn run(work: &Work, gpus: Option<Guarded>, sinks: &mut [&mut dyn Sink]) -> io::Result<LiveEnd> {
    let signals = Signals::new()?;
    let end = run_in(work, &mut World::new(work, gpus)?, signals, sinks)?;
    match end.broken {
        None => Ok(end),
        Some(why) => Err(io::Error::other(why)),
    }
}

/// Likewise by a Slurm, which decides where everything goes and when. What cannot be gone on with is told in the end.
pub fn run_on_slurm(work: &Work, cluster: Cluster, sinks: &mut [&mut dyn Sink]) -> io::Result<LiveEnd> {
    let signals = Signals::new()?;
    run_in(work, &mut OnSlurm::new(work, cluster), signals, sinks)
}

fn run_in(
    work: &Work,
    world: &mut dyn RealWorld,
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
        // The declarations are of the first instant, as in a rehearsal.
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
        let is_over = world.is_over() && (wakeup.is_none() || end.interrupted || control.only_scans_in_vain());
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
