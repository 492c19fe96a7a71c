//! The trait through which a world drives a scheduler in another process.

use std::sync::Arc;

use super::input::Input;
use super::log::Sink;
use super::output::Command;
use dryrack_fleet::Fleet;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::Demand;

/// A scheduler in another process, as the world drives it. It receives every record and every command of the run. The
/// world asks it for decisions when nothing else happens in the current instant.
pub trait Decider: Sink {
    /// Starts the scheduler. Returns its first messages, which are inputs of the run's first instant.
    fn join(&mut self) -> Answer;

    /// Passes on a command of the control plane.
    fn command(&mut self, now: SimTime, command: &Command);

    /// Asks for decisions if there is a reason to ask: something has changed, or the time in `wakes_at` has come.
    /// Otherwise returns `None`.
    fn decide(&mut self, now: SimTime, fleet: &Fleet) -> Option<Answer>;

    /// Whether the scheduler itself answers the scenario's queries.
    fn evaluates(&self) -> bool;

    /// Asks whether a demand would fit now.
    fn evaluate(&mut self, now: SimTime, fleet: &Fleet, name: &Arc<str>, demand: &Arc<Demand>) -> Answer;

    /// The time at which the scheduler wants to be asked even if nothing has changed by then.
    fn wakes_at(&self) -> Option<SimTime>;

    /// Whether it asks to be asked again for as long as nothing changes, as released programs do, which look at the queue
    /// at a fixed pace. The wishes of such a scheduler do not keep a run going.
    fn polls(&self) -> bool;

    /// Notes that the run is over, although the scheduler wanted to be asked again.
    fn leave_unasked(&mut self);
}

/// The answer of a scheduler in another process, as inputs of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub inputs: Vec<Input>,
    /// The delay from the question to the arrival of these inputs.
    pub after: SimDuration,
    /// Whether the scheduler has failed for good. Then the run ends with these inputs.
    pub is_last: bool,
}
