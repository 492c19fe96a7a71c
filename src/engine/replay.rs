//! Replays the inputs that a log has recorded and checks that the same events follow.

use std::collections::VecDeque;
use std::sync::Arc;

use thiserror::Error;

use dryrack_control::{Control, Profile};
use dryrack_event::{Event, Output, Record, RecordBody};
use dryrack_planted::planted;
use dryrack_units::SimTime;

/// The first difference between a log and its replay. `record` is the number of the log record, counted from 0.
#[derive(Debug, PartialEq, Error)]
pub enum Difference {
    #[error("the same inputs gave a different event")]
    Event { record: u64, at: SimTime, recorded: Box<Event>, replayed: Box<Event> },
    #[error("the log has an event that the replay does not have")]
    Extra { record: u64, at: SimTime, recorded: Box<Event> },
    #[error("the replay has an event that the log does not have")]
    Missing { record: u64, at: SimTime, replayed: Box<Event> },
    #[error("this input is impossible: {why}")]
    Impossible { record: u64, why: &'static str },
}

/// A control plane that takes its inputs from a log.
pub struct Replay {
    pub control: Control,
    expected: VecDeque<Event>,
    record: u64,
    step: u64,
    at: SimTime,
    settled: bool,
}

impl Replay {
    pub fn new(profile: Arc<Profile>, seed: u64) -> Replay {
        let control = Control::new(profile, seed);
        Replay { control, expected: VecDeque::new(), record: 0, step: 0, at: SimTime::ZERO, settled: true }
    }

    /// Takes the next record. An input is passed to the control plane. An event is compared with the next event of the
    /// control plane.
    pub fn take(&mut self, record: &Record) -> Result<(), Difference> {
        let number = self.record;
        self.record += 1;
        let impossible = |why| Difference::Impossible { record: number, why };
        if record.step < self.step || record.at < self.at {
            return Err(impossible("steps and times never fall"));
        }
        match &record.said {
            RecordBody::Input(input) => {
                if record.step > self.step {
                    self.settle();
                    self.nothing_missing(number)?;
                    (self.step, self.at, self.settled) = (record.step, record.at, false);
                }
                self.nothing_missing(number)?;
                if self.settled || record.at != self.at {
                    return Err(impossible("an input after its step was over"));
                }
                self.control.check_input(record.at, input).map_err(impossible)?;
                self.control.handle(record.at, input);
                self.drain();
                Ok(())
            }
            RecordBody::Event(event) => {
                if self.expected.is_empty() {
                    self.settle();
                }
                let (at, recorded) = (record.at, Box::new(event.clone()));
                match self.expected.pop_front() {
                    None => Err(Difference::Extra { record: number, at, recorded }),
                    Some(Event::Held { .. }) if planted!(ReplayIgnoresHeld) && matches!(event, Event::Held { .. }) => {
                        Ok(())
                    }
                    Some(replayed) if replayed != *event || at != self.at || record.step != self.step => {
                        Err(Difference::Event { record: number, at, recorded, replayed: Box::new(replayed) })
                    }
                    Some(_) => Ok(()),
                }
            }
        }
    }

    /// The event that the control plane expects next. Used to report a line of the log that is not a valid record.
    pub fn next_event(&mut self) -> Option<(u64, SimTime, Event)> {
        if self.expected.is_empty() {
            self.settle();
        }
        self.expected.pop_front().map(|event| (self.step, self.at, event))
    }

    /// Ends the replay. Returns an error if the control plane has made an event that the log lacks.
    pub fn finish(&mut self) -> Result<(), Difference> {
        self.settle();
        self.nothing_missing(self.record)
    }

    fn nothing_missing(&mut self, record: u64) -> Result<(), Difference> {
        match self.expected.pop_front() {
            None => Ok(()),
            Some(replayed) => Err(Difference::Missing { record, at: self.at, replayed: Box::new(replayed) }),
        }
    }

    fn settle(&mut self) {
        if !self.settled {
            self.settled = true;
            self.control.settle(self.at);
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Command(_) => {}
                Output::Event(event) => self.expected.push_back(event),
            }
        }
    }
}

/// Replays a whole log and returns the number of records.
pub fn replay(profile: Arc<Profile>, seed: u64, records: impl IntoIterator<Item = Record>) -> Result<u64, Difference> {
    let mut replay = Replay::new(profile, seed);
    let mut count = 0;
    for record in records {
        replay.take(&record)?;
        count += 1;
    }
    replay.finish()?;
    Ok(count)
}
