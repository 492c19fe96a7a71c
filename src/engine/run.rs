//! The main loop. It lets the events of an instant happen in the world, passes the inputs to the control plane, lets
//! the control plane settle, and carries out its commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::arrival_source::ArrivalSource;
use super::deciding::Deciding;
use super::rehearsal::Rehearsal;
use super::runaway::{Bound, Bounds, most_records};
use super::world::{World, earlier};
use dryrack_control::{Control, arrange, step, step_len};
use dryrack_event::{Decider, Input, Sink};
use dryrack_scheduler::{Caching, Grouping};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::Arrival;

/// How often the integrity of the control plane's store is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    AtTheEnd,
    EveryStep,
}

/// Options of a run that do not change its decisions.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    pub grouping: Grouping,
    pub caching: Caching,
    pub checks: Checks,
    /// Updated during the run, for example for a progress bar. If an invariant breaks, the error takes the number of
    /// the step from it.
    pub progress: Option<&'a Progress>,
    /// The largest number of records. The limit is higher by a fixed number for each submitted job. A run with more
    /// records is stopped: see [`Runaway`](super::Runaway).
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
    /// The time at which the run is cut short; 0 if it is not.
    until: AtomicU64,
    /// The jobs that are known before the run, and those that ended.
    jobs: AtomicU64,
    ended: AtomicU64,
    is_to_stop: AtomicBool,
}

impl Progress {
    pub fn step(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    pub fn at(&self) -> SimTime {
        SimTime::from_nanos(self.at.load(Ordering::Relaxed))
    }

    /// About which part of the run is over, from 0 to 1: the part of the time up to `until`, or that of the jobs which ended,
    /// whichever is larger. It never falls. It is 0 as long as neither is known.
    pub fn share(&self) -> f64 {
        let part = |done: &AtomicU64, all: &AtomicU64| match all.load(Ordering::Relaxed) {
            0 => 0.0,
            all => done.load(Ordering::Relaxed) as f64 / all as f64,
        };
        part(&self.at, &self.until).max(part(&self.ended, &self.jobs)).min(1.0)
    }

    fn begin(&self, until: Option<SimTime>, jobs: usize) {
        self.until.store(until.map_or(0, SimTime::as_nanos), Ordering::Relaxed);
        self.jobs.store(jobs as u64, Ordering::Relaxed);
        self.ended.store(0, Ordering::Relaxed);
    }

    fn reach(&self, step: u64, at: SimTime) {
        self.step.store(step, Ordering::Relaxed);
        self.at.store(at.as_nanos(), Ordering::Relaxed);
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
    /// Whether the run was stopped before its natural end. The cause is `until`, a scheduler that never stops retrying,
    /// or a failure.
    pub cut_short: bool,
    /// Whether the run ended because the scheduler in another process failed.
    pub failed: bool,
    /// The last instant in which a scheduler in another process was asked. It may be later than `at`, if the scheduler
    /// wanted to be asked and then decided nothing.
    pub asked: Option<SimTime>,
}

/// How long a scheduler may continue after the last event of the world. In historic releases, some scan entries come
/// back forever, and without this limit the run would never end. A scheduler in another process that does not poll is
/// asked until the `until` of the run, if there is one.
const PATIENCE: SimDuration = SimDuration::from_secs(24 * 3600);

/// The largest number of rounds at one time. Only a bug in dryrack leads to more rounds.
const STANDSTILL: u64 = 10_000_000;

/// Runs a rehearsal to its end. Every sink gets every record.
pub fn run(rehearsal: &Rehearsal, options: RunOptions, sinks: &mut [&mut dyn Sink]) -> RunEnd {
    drive(rehearsal, ArrivalSource::listed(&rehearsal.arrivals), options, sinks, None)
}

/// Runs a rehearsal whose decisions come from a scheduler in another process. The profile must leave the decisions to
/// such a scheduler ([`Profile::decided_by`](dryrack_control::Profile::decided_by)).
pub fn run_decided(
    rehearsal: &Rehearsal,
    options: RunOptions,
    sinks: &mut [&mut dyn Sink],
    decider: &mut dyn Decider,
) -> RunEnd {
    drive(rehearsal, ArrivalSource::listed(&rehearsal.arrivals), options, sinks, Some(Deciding::new(decider)))
}

/// Runs a rehearsal whose jobs come from a stream in order of time. The records are the same as for a list of these
/// jobs. Only a few bytes of memory are kept for each ended job.
///
/// Evaluations and branches are not allowed, because they need jobs before they arrive.
pub fn run_streamed(
    rehearsal: &Rehearsal,
    arrivals: &mut dyn Iterator<Item = Arrival>,
    options: RunOptions,
    sinks: &mut [&mut dyn Sink],
) -> RunEnd {
    let is_open = rehearsal.arrivals.is_empty() && rehearsal.evaluations.is_empty() && rehearsal.branch.is_none();
    assert!(is_open, "a run of a stream lists jobs, or asks for them before they come");
    drive(rehearsal, ArrivalSource::streamed(arrivals), options, sinks, None)
}

fn new_control(rehearsal: &Rehearsal, options: RunOptions) -> Control {
    let control = Control::with_grouping(Arc::clone(&rehearsal.profile), rehearsal.seed, options.grouping)
        .with_caching(options.caching)
        .expecting(rehearsal.nodes.len(), rehearsal.arrivals.len());
    // When a branch changes the profile, all jobs that ever arrived are put in order again, so they must not be
    // dropped.
    if rehearsal.branch.is_some() { control } else { control.dropping_ended() }
}

fn drive<'a>(
    rehearsal: &'a Rehearsal,
    arrival_source: ArrivalSource<'a>,
    options: RunOptions,
    sinks: &mut [&mut dyn Sink],
    mut deciding: Option<Deciding<'_>>,
) -> RunEnd {
    let mut control = new_control(rehearsal, options);
    let bounds = Bounds::new(rehearsal, options.most_records);
    let mut counted = &bounds;
    let mut all: Vec<&mut dyn Sink> = vec![&mut counted];
    all.extend(sinks.iter_mut().map(|sink| &mut **sink as &mut dyn Sink));
    let sinks = all.as_mut_slice();
    let mut world = World::new(rehearsal, arrival_source);
    options.progress.inspect(|progress| progress.begin(rehearsal.until, rehearsal.arrivals.len()));
    let mut inputs = rehearsal.declarations();
    let mut end = RunEnd { at: SimTime::ZERO, steps: 0, cut_short: false, failed: false, asked: None };
    deciding.iter_mut().for_each(|deciding| deciding.join(&mut inputs));
    let mut next = Some(SimTime::ZERO);
    let mut last_of_world = SimTime::ZERO;
    let mut standing = 0;
    while let Some(now) = next {
        if rehearsal.until.is_some_and(|until| now > until) {
            end.cut_short = true;
            break;
        }
        world.happen(now, &mut inputs);
        deciding.iter_mut().for_each(|deciding| deciding.deliver(now, &mut inputs));
        if inputs.is_empty() && control.next_wakeup().is_some_and(|(at, _)| at <= now) {
            inputs.push(Input::Wakeup);
        }
        // If a step changes the profile, the new value applies from the next instant on.
        let instant = control.profile().instant;
        arrange(&mut inputs, instant);
        // Without inputs there is no step.
        while !inputs.is_empty() {
            end = RunEnd { at: now, steps: end.steps + 1, cut_short: false, failed: false, asked: None };
            options.progress.inspect(|progress| progress.reach(end.steps, now));
            let count = step_len(&inputs, instant);
            let of_step = &inputs[..count];
            match &mut deciding {
                None => step(&mut control, (end.steps, now), of_step, sinks, &mut |now, it| world.obey(now, it)),
                Some(deciding) => {
                    deciding.step(&mut control, (end.steps, now), of_step, sinks, &mut |now, it| world.obey(now, it));
                }
            }
            inputs.drain(..count);
            bounds.check(end.steps, now);
            if options.progress.is_some_and(|progress| progress.is_to_stop.load(Ordering::Relaxed)) {
                bounds.stop(Bound::Patience, end.steps, now);
            }
            control.take_dropped(|job| {
                world.forget(job);
                options.progress.inspect(|progress| _ = progress.ended.fetch_add(1, Ordering::Relaxed));
            });
            if options.checks == Checks::EveryStep {
                control.assert_integrity();
            }
        }
        if deciding.as_ref().is_some_and(|deciding| deciding.has_failed(now)) {
            (end.cut_short, end.failed) = (true, true);
            break;
        }
        let cut_short;
        let until = rehearsal.until;
        (next, cut_short) = next_instant(now, until, &mut world, &mut control, deciding.as_mut(), &mut last_of_world);
        end.cut_short |= cut_short;
        standing = if next == Some(now) { standing + 1 } else { 0 };
        assert!(standing < STANDSTILL, "time stands still at {now}: {:?}", control.next_wakeup());
    }
    end.asked = deciding.and_then(|deciding| deciding.asked_at);
    control.assert_integrity();
    if options.checks == Checks::EveryStep && !end.cut_short {
        control.assert_nobody_waits_in_vain();
    }
    end
}

/// Returns the time of the next instant, and whether the run stops before its natural end. `last_of_world` is the last
/// time at which the world still had events scheduled.
fn next_instant(
    now: SimTime,
    until: Option<SimTime>,
    world: &mut World<'_>,
    control: &mut Control,
    deciding: Option<&mut Deciding<'_>>,
    last_of_world: &mut SimTime,
) -> (Option<SimTime>, bool) {
    let of_world = world.next_time();
    if of_world.is_some() {
        *last_of_world = now;
    } else if control.patience(PATIENCE).is_some_and(|patience| now.since(*last_of_world) > patience) {
        return (None, true);
    }
    // If the world has no more events, the refused demands would be refused again forever. So the run is over.
    let is_over = of_world.is_none() && control.only_repeats_refusals();
    // If the world has another event now, no wakeup can be earlier, so it is not computed.
    let is_now = of_world == Some(now);
    let wakeup = if is_over || is_now { None } else { control.next_wakeup() };
    let next = earlier(of_world, wakeup.map(|(at, _)| at));
    let Some(deciding) = deciding else { return (next, false) };
    // A scheduler that only asks to be called again must not keep the run going forever.
    let may_end = until.is_none() || deciding.decider.polls();
    let is_idle = may_end && next.is_none() && now.since(*last_of_world) > PATIENCE;
    let asked = deciding.next(now, next, control.fleet(), !is_idle);
    let is_left = is_idle && asked.is_none() && deciding.decider.wakes_at().is_some();
    if is_left {
        deciding.decider.leave_unasked();
    }
    (asked, is_left)
}
