//! Tests of the clock that custom stages read.

use serde_json::{Value, json};

use super::clock::{Clock, Reader, last_step};
use crate::profile_tests::{filters_without, with};
use dryrack_scheduler::SchedulerOptions;
use dryrack_units::{SimDuration, SimTime};

const DAY: u64 = 86_400;

const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

/// Options with a filter that refuses nodes for which this is true.
fn refusing(unless: &str) -> SchedulerOptions {
    let own = json!({"filter": "own", "unless": unless, "because": "own"});
    let filters: Value = filters_without("").as_array().expect("a list").iter().cloned().chain([own]).collect();
    with(&[("scheduler/filters", filters)]).scheduler
}

fn scoring(is: &str) -> SchedulerOptions {
    with(&[("scheduler/scorers", json!([{"score": "own", "is": is, "weight": 1.0}]))]).scheduler
}

fn ordering(is: &str) -> SchedulerOptions {
    with(&[("scheduler/order", json!([{"order": "own", "is": is}]))]).scheduler
}

#[test]
fn the_clock_moves_in_minutes_if_a_stage_reads_it() {
    assert_eq!([0, 59, 60, 125].map(|now| last_step(at(now))), [at(0), at(0), at(60), at(120)]);
    let mut clock = Clock::new(&refusing("time.hour > 8"));
    assert!(!clock.is_due(at(119), at(60)) && clock.is_due(at(120), at(60)));
    // A refused replica may fit after the next step, for a day after the last change.
    assert!(clock.admits());
    assert_eq!(clock.next_step(at(70), at(60)), None);
    clock.note_refusal();
    assert_eq!((clock.next_step(at(70), at(60)), clock.next_step(at(300), at(60))), (Some(at(120)), Some(at(300))));
    assert_eq!(clock.advance(at(130)), at(120));
    assert_eq!(clock.next_step(at(130), at(120)), None);
    clock.note_refusal();
    clock.note_change(at(500));
    assert!(clock.is_due(at(500 + DAY), at(60)) && !clock.is_due(at(501 + DAY), at(60)));
    assert!(clock.next_step(at(500 + DAY), at(60)).is_some() && clock.next_step(at(501 + DAY), at(60)).is_none());
    assert_eq!(clock.patience(SimDuration::from_secs(5)), SimDuration::from_secs(DAY));
    assert_eq!(clock.patience(SimDuration::from_secs(9 * DAY)), SimDuration::from_secs(9 * DAY));
    // Days of the week recur after a week.
    clock.follow(&refusing("time.weekday == 2"));
    assert_eq!(clock.patience(SimDuration::ZERO), SimDuration::from_secs(7 * DAY));
    assert!(clock.is_due(at(500 + 7 * DAY), at(60)) && !clock.is_due(at(501 + 7 * DAY), at(60)));
    // A scorer reads the time too, but admits nobody.
    clock.follow(&scoring("time.hour"));
    clock.note_refusal();
    assert!(clock.is_due(at(120), at(60)) && !clock.admits() && clock.next_step(at(70), at(60)).is_none());
    assert_eq!(clock.patience(SimDuration::from_secs(5)), SimDuration::from_secs(5));
    clock.follow(&refusing("gpus.free > 1"));
    assert!(!clock.is_due(at(120), at(60)) && !clock.admits());
}

#[test]
fn a_filter_that_reads_the_queue_counts_more_than_a_scorer_or_a_key() {
    let reader = |options: &SchedulerOptions| match Reader::of(options) {
        Reader::Nobody => "nobody",
        Reader::Ranking => "ranking",
        Reader::Filter => "filter",
    };
    assert_eq!(reader(&refusing("queue.pending > 1")), "filter");
    assert_eq!([scoring("queue.pending"), ordering("queue.pending")].map(|options| reader(&options)), ["ranking"; 2]);
    let others = [refusing("time.hour > 8"), scoring("gpus.free"), ordering("job.tasks")];
    assert_eq!(others.map(|options| reader(&options)), ["nobody"; 3]);
}
