//! The records of a run, in memory.

use dryrack_event::{Event, Input, Record, RecordBody, Sink};
use dryrack_units::SimTime;

/// A sink that keeps all records in memory.
#[derive(Default)]
pub struct Records(pub Vec<Record>);

impl Sink for Records {
    fn input(&mut self, step: u64, at: SimTime, input: &Input) {
        self.0.push(Record { step, at, said: RecordBody::Input(input.clone()) });
    }

    fn event(&mut self, step: u64, at: SimTime, event: &Event) {
        self.0.push(Record { step, at, said: RecordBody::Event(event.clone()) });
    }
}
