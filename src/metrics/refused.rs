//! The decisions of a scheduler in another process that were refused.

use dryrack_event::{Event, External, Input, Outside, Record, RecordBody};
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, Names};
use dryrack_units::SimTime;

/// A decision that was refused: it could not be read as one, or it could not be carried out.
pub struct RefusedDecision {
    pub at: SimTime,
    /// `None` if the decision names no known run.
    pub attempt: Option<AttemptId>,
    /// The name of the fault.
    pub fault: &'static str,
    what: String,
    /// The place that could not be taken.
    placement: Option<Placement>,
}

impl RefusedDecision {
    /// What is wrong, such as `decision 0: no node is named x`, or `was given a place that is partly in use: alpha/0`.
    pub fn text(&self, names: &Names) -> String {
        let place = self.placement.as_ref().map_or(String::new(), |placement| format!(": {}", placement.text(names)));
        format!("{}{place}", self.what)
    }
}

/// Finds refused decisions in the records of a run. Without a scheduler in another process there are none: the refused
/// commits of a profile are not decisions of a program.
#[derive(Default)]
pub struct RefusedDecisions {
    pub(crate) is_decided_outside: bool,
    /// The last decided place.
    decided: Option<(AttemptId, Placement)>,
}

impl RefusedDecisions {
    /// The refused decision that the record reports, if it is one.
    pub fn of(&mut self, record: &Record) -> Option<RefusedDecision> {
        match &record.said {
            RecordBody::Input(input) => self.input(record.at, input),
            RecordBody::Event(event) => self.event(record.at, event),
        }
    }

    pub(crate) fn input(&mut self, at: SimTime, input: &Input) -> Option<RefusedDecision> {
        let Input::External(external) = input else { return None };
        match external {
            External::Said(Outside::Joined { .. }) => self.is_decided_outside = true,
            External::Said(Outside::Mistaken { fault, attempt, text }) => {
                let (what, fault) = (text.to_string(), fault.name());
                return Some(RefusedDecision { at, attempt: *attempt, fault, what, placement: None });
            }
            External::Decided { attempt, placement } if self.is_decided_outside => {
                self.decided = placement.clone().map(|placement| (*attempt, placement));
            }
            External::Said(_) | External::Decided { .. } => {}
        }
        None
    }

    pub(crate) fn event(&mut self, at: SimTime, event: &Event) -> Option<RefusedDecision> {
        let Event::CommitRefused { attempt, because, .. } = event else { return None };
        let placement = self.decided.take().filter(|(decided, _)| decided == attempt).map(|(_, placement)| placement);
        let (fault, what) = (because.name(), because.text().to_string());
        self.is_decided_outside.then_some(RefusedDecision { at, attempt: Some(*attempt), fault, what, placement })
    }
}
