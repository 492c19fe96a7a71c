//! Compares the events of two logs.

use dryrack_event::{Event, Record, RecordBody};
use dryrack_units::SimTime;

/// An event with its time. Steps do not count: a change of the world that does not matter may still add a step.
pub type TimedEvent = (SimTime, Event);

/// The events of a log that `counts` lets through.
pub fn events(log: &[Record], counts: impl Fn(&Event) -> bool) -> Vec<TimedEvent> {
    let event = |record: &Record| match &record.said {
        RecordBody::Event(event) if counts(event) => Some((record.at, event.clone())),
        RecordBody::Event(_) | RecordBody::Input(_) => None,
    };
    log.iter().filter_map(event).collect()
}

/// `Err` says where the events differ first.
pub fn same(expected: &[TimedEvent], found: &[TimedEvent]) -> Result<(), String> {
    let place = expected.iter().zip(found).position(|(one, other)| one != other);
    let place = place.unwrap_or(expected.len().min(found.len()));
    match (expected.get(place), found.get(place)) {
        (None, None) => Ok(()),
        (expected, found) => Err(format!("expected {}\n     found {}", text(expected), text(found))),
    }
}

fn text(event: Option<&TimedEvent>) -> String {
    event.map_or("nothing more".to_string(), |(at, event)| format!("at {at}: {event:?}"))
}

/// Changes the times that an event holds.
pub fn with_times(event: Event, change: impl Fn(SimTime) -> SimTime) -> Event {
    match event {
        Event::Retry { attempt, at, because } => Event::Retry { attempt, at: change(at), because },
        Event::SampleOdd { attempt, at, fault } => Event::SampleOdd { attempt, at: change(at), fault },
        Event::PolicyFired { attempt, mode, min_gpu_utilization, time_window, mut covered } => {
            (covered.first, covered.last) = (change(covered.first), change(covered.last));
            Event::PolicyFired { attempt, mode, min_gpu_utilization, time_window, covered }
        }
        Event::PolicyWarned { attempt, min_gpu_utilization, time_window, mut covered } => {
            (covered.first, covered.last) = (change(covered.first), change(covered.last));
            Event::PolicyWarned { attempt, min_gpu_utilization, time_window, covered }
        }
        other => other,
    }
}
