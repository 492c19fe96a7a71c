//! The steps that every world takes: apply inputs in order, drain all outputs after each input, then do what is due.

use super::{Control, Instant};
use dryrack_event::{Command, Input, InputClass, Output, Sink};
use dryrack_units::SimTime;

/// Passes all inputs of one step to the control plane and lets it settle. `number` counts steps from 1. The function
/// passes each command to `obey` as soon as it is drained.
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

/// Passes on all outputs. Most inputs have none, so this is checked before anything else.
#[inline]
fn drain(
    control: &mut Control,
    number_and_now: (u64, SimTime),
    sinks: &mut [&mut dyn Sink],
    obey: &mut impl FnMut(SimTime, Command),
) {
    if !control.is_drained() {
        drain_all(control, number_and_now, sinks, obey);
    }
}

fn drain_all(
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

/// Sorts the inputs of one instant into the order in which they are applied. On entry, they are in order of their
/// classes. If inputs are applied one by one, arrivals come after fleet facts and before all other inputs.
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

/// Number of remaining inputs that make up the next step.
pub fn step_len(inputs: &[Input], instant: Instant) -> usize {
    match instant {
        Instant::Whole => inputs.len(),
        Instant::ArrivalsFirst => inputs.len().min(1),
    }
}
