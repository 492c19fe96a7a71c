//! The loop over a real world: the same as over a simulated one, and waiting.

use std::io;
use std::sync::Arc;

use super::clock::Clock;
use super::probe::Guarded;
use super::signals::Signals;
use super::work::Work;
use super::world::World;
use crate::control::{Control, arrange, step, together};
use crate::event::{Input, Sink};
use crate::units::{SimDuration, SimTime};

/// How a run on this machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveEnd {
    pub at: SimTime,
    pub steps: u64,
    /// Somebody ended it, and what was left was cancelled.
    pub interrupted: bool,
    /// It was stopped by `until`, with more to come.
    pub cut_short: bool,
}

/// After a first interruption all is over by then; what is not is killed.
const PATIENCE: SimDuration = SimDuration::from_secs(30);

/// Runs it to its end. Every sink reads every record, and keeps it after each step; where one cannot, the run is ended.
/// No process that it started is left, however it ends. `gpus` reads those that are no CPU shares.
pub fn run(work: &Work, gpus: Option<Guarded>, sinks: &mut [&mut dyn Sink]) -> io::Result<LiveEnd> {
    let mut signals = Signals::new()?;
    let mut control = Control::new(Arc::clone(&work.profile), work.seed);
    let mut world = World::new(work, gpus)?;
    let clock = Clock::start();
    let mut inputs = work.declarations.clone();
    let mut end = LiveEnd { at: SimTime::ZERO, steps: 0, interrupted: false, cut_short: false };
    let mut give_up = SimTime::MAX;
    let mut wait = SimDuration::ZERO;
    loop {
        let heard = signals.wait(wait)?;
        // The declarations are of the first instant, as in a rehearsal.
        let now = if end.steps == 0 { SimTime::ZERO } else { clock.now().at() };
        if work.until.is_some_and(|until| now > until) || now > give_up {
            end = LiveEnd { at: now, cut_short: true, ..end };
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
        world.happen(now, heard.child, &mut inputs);
        if inputs.is_empty() && control.next_wakeup().is_some_and(|(at, _)| at <= now) {
            inputs.push(Input::Wakeup);
        }
        arrange(&mut inputs, work.profile.instant);
        while !inputs.is_empty() {
            end = LiveEnd { at: now, steps: end.steps + 1, ..end };
            let inputs = inputs.drain(..together(&inputs, work.profile.instant));
            step(&mut control, (end.steps, now), inputs, sinks, &mut |now, command| world.obey(now, command));
        }
        sinks.iter_mut().try_for_each(|sink| sink.keep())?;
        let of_world = world.next_time();
        let wakeup = control.next_wakeup().map(|(at, _)| at);
        let is_over = world.is_over() && (wakeup.is_none() || end.interrupted || control.only_scans_in_vain());
        if is_over {
            break;
        }
        let next = [of_world, wakeup, work.until].into_iter().flatten().min().unwrap_or(SimTime::MAX);
        wait = next.checked_since(clock.now().at()).unwrap_or_default();
    }
    world.end_all()?;
    control.assert_integrity();
    Ok(end)
}
