//! The steps that every world takes: inputs in order, all outputs drained after each, then what is due.

use super::{Control, Instant};
use dryrack_event::{Command, Input, InputClass, Output, Sink};
use dryrack_units::SimTime;

/// Hands over all inputs of one step and lets the control plane settle. `number` counts steps from 1. `obey` is given
/// each command at once.
pub fn step(
    control: &mut Control,
    (number, now): (u64, SimTime),
    inputs: &[Input],
    sinks: &mut [&mut dyn Sink],
    obey: &mut impl FnMut(SimTime, Command),
) {
    for input in inputs {
        sinks.iter_mut().for_each(|sink| sink.input(number, now, input));
        control.handle(now, input);
        drain(control, (number, now), sinks, obey);
    }
    control.settle(now);
    drain(control, (number, now), sinks, obey);
}

#[inline]
fn drain(
    control: &mut Control,
    (number, now): (u64, SimTime),
    sinks: &mut [&mut dyn Sink],
    obey: &mut impl FnMut(SimTime, Command),
) {
    while let Some(output) = control.poll_output() {
        match output {
            Output::Command(command) => obey(now, command),
            Output::Event(event) => sinks.iter_mut().for_each(|sink| sink.event(number, now, &event)),
        }
    }
}

/// Puts the inputs of one instant, which are in order of their classes, into the order in which they are decided on.
/// If they are decided on one by one, arrivals come after facts of the fleet and before everything else.
pub fn arrange(inputs: &mut [Input], instant: Instant) {
    let rank = |input: &Input| match input.class() {
        InputClass::FleetFact => 0,
        InputClass::Arrival => 1,
        InputClass::Exit
        | InputClass::Usage
        | InputClass::Cancellation
        | InputClass::Decision
        | InputClass::Question
        | InputClass::Timer => 2,
    };
    match instant {
        Instant::Whole => {}
        Instant::ArrivalsFirst => inputs.sort_by_key(rank),
    }
}

/// How many of the remaining inputs make up the next step.
pub fn step_len(inputs: &[Input], instant: Instant) -> usize {
    match instant {
        Instant::Whole => inputs.len(),
        Instant::ArrivalsFirst => inputs.len().min(1),
    }
}
