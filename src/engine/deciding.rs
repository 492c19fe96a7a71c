//! Connects the main loop to a scheduler in another process: when the scheduler is asked, and when its answers arrive.

use super::world::earlier;
use dryrack_control::{Control, step};
use dryrack_event::{Answer, Command, Decider, Input, Sink};
use dryrack_fleet::Fleet;
use dryrack_units::SimTime;

pub(super) struct Deciding<'d> {
    pub decider: &'d mut dyn Decider,
    /// An answer that has not arrived yet, with its time of arrival. The scheduler is not asked while an answer is on
    /// its way.
    coming: Option<(SimTime, Answer)>,
    /// Queries of the scenario that the scheduler has still to answer.
    questions: Vec<Input>,
    /// When the scheduler was last asked.
    pub asked_at: Option<SimTime>,
    /// When the scheduler fails for good.
    fails_at: Option<SimTime>,
    /// The commands of the current step. They are passed on to the scheduler after the step.
    commands: Vec<Command>,
}

impl<'d> Deciding<'d> {
    pub fn new(decider: &'d mut dyn Decider) -> Deciding<'d> {
        Deciding { decider, coming: None, questions: Vec::new(), asked_at: None, fails_at: None, commands: Vec::new() }
    }

    /// Adds the inputs that the scheduler sends before the run begins.
    pub fn join(&mut self, inputs: &mut Vec<Input>) {
        let answer = self.decider.join();
        if answer.is_last {
            self.fails_at = Some(SimTime::ZERO);
        }
        inputs.extend(answer.inputs);
    }

    /// Adds the answer that arrives at this time. If the scheduler answers queries itself, takes the queries out of
    /// `inputs` and keeps them for it.
    pub fn deliver(&mut self, now: SimTime, inputs: &mut Vec<Input>) {
        if let Some((_, answer)) = self.coming.take_if(|(at, _)| *at == now) {
            inputs.extend(answer.inputs);
            inputs.sort_by_key(Input::class);
        }
        if self.decider.evaluates() {
            self.questions.extend(inputs.extract_if(.., |input| matches!(input, Input::Evaluate { .. })));
        }
    }

    /// Takes a step of the control plane, and passes its records and commands on to the scheduler.
    pub fn step(
        &mut self,
        control: &mut Control,
        (number, now): (u64, SimTime),
        inputs: &[Input],
        sinks: &mut [&mut dyn Sink],
        obey: &mut impl FnMut(SimTime, Command),
    ) {
        let mut all: Vec<&mut dyn Sink> = sinks.iter_mut().map(|sink| &mut **sink as &mut dyn Sink).collect();
        all.push(&mut *self.decider);
        let commands = &mut self.commands;
        step(control, (number, now), inputs, &mut all, &mut |now, command| {
            commands.push(command.clone());
            obey(now, command);
        });
        for command in self.commands.drain(..) {
            self.decider.command(now, &command);
        }
    }

    /// Whether the scheduler has failed for good. By then, the inputs that report the failure are in the log.
    pub fn has_failed(&self, now: SimTime) -> bool {
        self.fails_at.is_some_and(|at| at <= now)
    }

    /// Returns the time of the next instant. `next` is the time of the next instant without this scheduler. Asks the
    /// scheduler if nothing else happens in the current instant and no answer is on its way. If `may_wish` is false,
    /// ignores the time at which the scheduler wants to be asked next.
    pub fn next(&mut self, now: SimTime, next: Option<SimTime>, fleet: &Fleet, may_wish: bool) -> Option<SimTime> {
        if next != Some(now) && self.coming.is_none() {
            self.request_decision(now, fleet);
        }
        match &self.coming {
            Some((at, _)) => earlier(next, Some(*at)),
            None => earlier(next, self.decider.wakes_at().filter(|at| may_wish && *at > now)),
        }
    }

    fn request_decision(&mut self, now: SimTime, fleet: &Fleet) {
        let mut answer = Answer::default();
        for question in std::mem::take(&mut self.questions) {
            let Input::Evaluate { name, demand, .. } = question else { continue };
            self.asked_at = Some(now);
            let one = self.decider.evaluate(now, fleet, &name, &demand);
            answer.inputs.extend(one.inputs);
            answer.is_last |= one.is_last;
            if answer.is_last {
                break;
            }
        }
        // Ask for decisions only if no query was answered, because the answer to a query must arrive in the instant of
        // the query.
        if answer.inputs.is_empty() {
            answer = match self.decider.decide(now, fleet) {
                Some(answer) => answer,
                None => return,
            };
        }
        self.asked_at = Some(now);
        let at = now.saturating_add(answer.after);
        if answer.is_last {
            self.fails_at = Some(at);
        }
        if !answer.inputs.is_empty() {
            self.coming = Some((at, answer));
        }
    }
}
