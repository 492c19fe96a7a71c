//! The main loop: let an instant happen in the world, pass the inputs to the control plane, let it settle, and carry
//! out its commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::arrival_source::ArrivalSource;
use super::rehearsal::Rehearsal;
use super::runaway::{Bound, Bounds, most_records};
use super::world::{World, earlier};
use dryrack_control::{Control, arrange, step, step_len};
use dryrack_event::{Input, Sink};
use dryrack_scheduler::{Caching, Grouping};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::Arrival;

/// How often the integrity of the whole store is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    AtTheEnd,
    EveryStep,
}

/// Options of a run that do not affect its decisions.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    pub grouping: Grouping,
    pub caching: Caching,
    pub checks: Checks,
    /// Updated during the run, for a progress bar and to name the step in which an invariant broke.
    pub progress: Option<&'a Progress>,
    /// The limit of records, to which some are added for each job. A run with more is stopped: see
    /// [`Runaway`](super::Runaway).
    pub most_records: u64,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        RunOptions {
            grouping: Grouping::Classes,
            caching: Caching::On,
            checks: Checks::AtTheEnd,
            progress: None,
            most_records: most_records(),
        }
    }
}

/// The progress of a run.
#[derive(Debug, Default)]
pub struct Progress {
    step: AtomicU64,
    at: AtomicU64,
    is_to_stop: AtomicBool,
}

impl Progress {
    pub fn step(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    pub fn at(&self) -> SimTime {
        SimTime::from_nanos(self.at.load(Ordering::Relaxed))
    }

    /// Stops the run after its current step: see [`Runaway`](super::Runaway).
    pub fn stop(&self) {
        self.is_to_stop.store(true, Ordering::Relaxed);
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The last instant in which something happened.
    pub at: SimTime,
    pub steps: u64,
    /// Whether it was stopped, by `until` or by the limit on scanning, with more to come.
    pub cut_short: bool,
}

/// How long a scanning scheduler may go on when nothing happens in the world any more: entries that come back
/// forever, as in historic releases, would keep a run from ending.
const PATIENCE: SimDuration = SimDuration::from_secs(24 * 3600);

/// More rounds at one time than anything but a bug in dryrack takes.
const STANDSTILL: u64 = 10_000_000;

/// Runs a rehearsal to its end. Every sink reads every record.
pub fn run(rehearsal: &Rehearsal, options: RunOptions, sinks: &mut [&mut dyn Sink]) -> RunEnd {
    drive(rehearsal, ArrivalSource::listed(&rehearsal.arrivals), options, sinks)
}

/// Runs a rehearsal with jobs from a stream in order of time instead of a list. Memory does not grow with the number
/// of jobs, except for a few bytes each. The records are the same as if the jobs were listed.
///
/// Allows no evaluations and no branch, because both need jobs before they arrive.
pub fn run_streamed(
    rehearsal: &Rehearsal,
    arrivals: &mut dyn Iterator<Item = Arrival>,
    options: RunOptions,
    sinks: &mut [&mut dyn Sink],
) -> RunEnd {
    let is_open = rehearsal.arrivals.is_empty() && rehearsal.evaluations.is_empty() && rehearsal.branch.is_none();
    assert!(is_open, "a run of a stream lists jobs, or asks for them before they come");
    drive(rehearsal, ArrivalSource::streamed(arrivals), options, sinks)
}

fn drive<'a>(
    rehearsal: &'a Rehearsal,
    arrival_source: ArrivalSource<'a>,
    options: RunOptions,
    sinks: &mut [&mut dyn Sink],
) -> RunEnd {
    let mut control = Control::with_grouping(Arc::clone(&rehearsal.profile), rehearsal.seed, options.grouping)
        .with_caching(options.caching);
    // A branch may change the profile, and then all jobs that ever arrived are ordered again.
    if rehearsal.branch.is_none() {
        control = control.dropping_ended();
    }
    let bounds = Bounds::new(rehearsal, options.most_records);
    let mut counted = &bounds;
    let mut all: Vec<&mut dyn Sink> = vec![&mut counted];
    all.extend(sinks.iter_mut().map(|sink| &mut **sink as &mut dyn Sink));
    let sinks = all.as_mut_slice();
    let mut world = World::new(rehearsal, arrival_source);
    let mut inputs = rehearsal.declarations();
    let mut end = RunEnd { at: SimTime::ZERO, steps: 0, cut_short: false };
    let mut next = Some(SimTime::ZERO);
    let mut last_of_world = SimTime::ZERO;
    let mut standing = 0;
    while let Some(now) = next {
        if rehearsal.until.is_some_and(|until| now > until) {
            end.cut_short = true;
            break;
        }
        world.happen(now, &mut inputs);
        if inputs.is_empty() && control.next_wakeup().is_some_and(|(at, _)| at <= now) {
            inputs.push(Input::Wakeup);
        }
        // A change of the profile affects this from the next instant on.
        let instant = control.profile().instant;
        arrange(&mut inputs, instant);
        // If nothing that happened reaches the control plane, there is no step.
        while !inputs.is_empty() {
            end = RunEnd { at: now, steps: end.steps + 1, cut_short: false };
            if let Some(progress) = options.progress {
                progress.step.store(end.steps, Ordering::Relaxed);
                progress.at.store(now.as_nanos(), Ordering::Relaxed);
            }
            let count = step_len(&inputs, instant);
            let of_step = &inputs[..count];
            step(&mut control, (end.steps, now), of_step, sinks, &mut |now, command| world.obey(now, command));
            inputs.drain(..count);
            bounds.check(end.steps, now);
            if options.progress.is_some_and(|progress| progress.is_to_stop.load(Ordering::Relaxed)) {
                bounds.stop(Bound::Patience, end.steps, now);
            }
            control.take_dropped(|job| world.forget(job));
            if options.checks == Checks::EveryStep {
                control.assert_integrity();
            }
        }
        let of_world = world.next_time();
        if of_world.is_some() {
            last_of_world = now;
        } else if control.never_rests() && now.since(last_of_world) > PATIENCE {
            end.cut_short = true;
            break;
        }
        // If nothing more can happen in the world, refused demands would be refused forever.
        let is_over = of_world.is_none() && control.only_repeats_refusals();
        // No wakeup can be earlier than a world event that is due now.
        let is_now = of_world == Some(now);
        let wakeup = if is_over || is_now { None } else { control.next_wakeup() };
        next = earlier(of_world, wakeup.map(|(at, _)| at));
        standing = if next == Some(now) { standing + 1 } else { 0 };
        assert!(standing < STANDSTILL, "time stands still at {now}: {of_world:?} in the world, {wakeup:?} in control");
    }
    control.assert_integrity();
    if options.checks == Checks::EveryStep && !end.cut_short {
        control.assert_nobody_waits_in_vain();
    }
    end
}
