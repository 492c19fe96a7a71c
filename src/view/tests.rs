//! The state is held against the accounts of runs, which another room computes; the rest against small runs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::app::{App, Verdicts};
use super::index::Index;
use super::screen::{Screen, text_of};
use super::state::State;
use super::{FailedExpectation, Start, ViewedRun};
use dryrack_engine::{Records, Rehearsal, RunOptions, draw_world, run};
use dryrack_event::Record;
use dryrack_metrics::RunAccount;
use dryrack_profile::load_profile;
use dryrack_rehearse::names;
use dryrack_units::SimTime;

const WORLDS: u64 = 40;

/// A random world under one of a few profiles of different kinds.
fn world(seed: u64) -> Rehearsal {
    let profiles = ["first-fit", "easy", "gpustack", "dstack", "priority-preemption"];
    let profiles = profiles.map(|name| load_profile(name, Path::new("")).expect("it is built in"));
    draw_world(seed, &profiles)
}

fn recorded(rehearsal: &Rehearsal) -> (Vec<Record>, RunAccount) {
    let (mut records, mut accounts) = (Records::default(), RunAccount::of(rehearsal));
    run(rehearsal, RunOptions::default(), &mut [&mut records, &mut accounts]);
    let end = accounts.now;
    accounts.finish(end);
    (records.0, accounts)
}

fn app(seed: u64) -> App {
    let rehearsal = world(seed);
    let (records, accounts) = recorded(&rehearsal);
    let run = ViewedRun {
        title: rehearsal.title.clone(),
        profile: rehearsal.profile.name.clone(),
        seed,
        records: Arc::new(records),
        names: Arc::new(names(&rehearsal)),
        end: accounts.now,
    };
    App::new(run, &Start::default())
}

fn press(app: &mut App, code: KeyCode) {
    app.key(KeyEvent::from(code));
}

#[test]
fn any_instant_is_found_as_if_folded_from_the_start() {
    for seed in 1..=WORLDS {
        let (records, accounts) = recorded(&world(seed));
        let index = Index::with_copies(&records, accounts.now, 7);
        let mut state = State::default();
        let mut taken = 0;
        for stop in &index.stops {
            (taken..*stop as usize).for_each(|number| state.take(&records, number));
            taken = *stop as usize;
            assert_eq!(index.state(&records, taken), state, "seed {seed}, after {taken} records");
            assert!(index.distance(taken) < state.size().max(7), "seed {seed}, after {taken} records");
        }
    }
}

#[test]
fn what_waits_and_what_is_taken_is_as_in_the_accounts() {
    let mut compared = 0;
    for seed in 1..=WORLDS {
        let (records, accounts) = recorded(&world(seed));
        let index = Index::of(&records, accounts.now);
        for stop in &index.stops {
            let at = records[*stop as usize - 1].at;
            let state = index.state(&records, *stop as usize);
            let after = accounts.samples.partition_point(|sample| sample.at <= at);
            let Some(sample) = after.checked_sub(1).map(|last| &accounts.samples[last]) else { continue };
            assert_eq!(state.waiting.len() as u64, sample.waiting, "seed {seed} at {at}");
            // Parts of GPUs are counted in thousandths, which are rounded for each claim.
            let off = state.gpus_taken.abs_diff(sample.gpu_taken);
            assert!(off <= state.placed.len() as u64, "seed {seed} at {at}: {off}");
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn every_instant_of_a_run_can_be_drawn_at_any_size() {
    for seed in 1..=6 {
        let mut app = app(seed);
        for size in [(80, 24), (40, 12), (200, 60), (1, 1), (39, 11)] {
            for key in [KeyCode::Home, KeyCode::PageDown, KeyCode::Right, KeyCode::Enter, KeyCode::Tab, KeyCode::End] {
                press(&mut app, key);
                let text = text_of(&mut app, size);
                assert_eq!(text.lines().count(), usize::from(size.1), "{text}");
            }
        }
    }
}

#[test]
fn keys_go_through_the_run_and_end_where_it_ends() {
    let mut app = app(3);
    let last = app.index.stops.len() - 1;
    press(&mut app, KeyCode::End);
    assert_eq!(app.stop, last);
    press(&mut app, KeyCode::Right);
    assert_eq!(app.stop, last);
    press(&mut app, KeyCode::Left);
    assert_eq!(app.stop, last - 1);
    press(&mut app, KeyCode::Home);
    press(&mut app, KeyCode::Left);
    assert_eq!(app.stop, 0);
    press(&mut app, KeyCode::Char(' '));
    let mut steps = 0;
    while app.is_playing {
        app.tick();
        steps += 1;
        assert!(steps <= last, "it plays to the end");
    }
    assert_eq!(app.stop, last);
}

#[test]
fn the_state_that_is_shown_is_that_of_the_instant() {
    let mut app = app(5);
    for key in [KeyCode::Home, KeyCode::Right, KeyCode::Right, KeyCode::PageDown, KeyCode::Left, KeyCode::End] {
        press(&mut app, key);
        assert_eq!(app.state, app.index.state(app.records(), app.count()), "after {key:?}");
    }
    assert!(!app.state.nodes.is_empty());
}

#[test]
fn failures_are_visited_in_order_and_again_from_the_first() {
    let mut app = app(3);
    let at = |part: u64| SimTime::from_nanos(app.run.end.as_nanos() / 10 * part);
    let failed =
        |name: &str, at: SimTime| FailedExpectation { name: name.into(), job: None, at, text: "it does".into() };
    let all = vec![failed("early", at(3)), failed("late", at(8))];
    press(&mut app, KeyCode::Char('n'));
    assert_eq!(app.message.as_deref(), Some("the expectations are being judged"));
    app.verdicts = Verdicts::Known(all);
    for (key, name) in [('n', "early"), ('n', "late"), ('n', "early"), ('N', "late"), ('N', "early")] {
        press(&mut app, KeyCode::Char(key));
        assert_eq!(app.message, Some(format!("{name} failed: it does")));
    }
    app.verdicts = Verdicts::Known(Vec::new());
    press(&mut app, KeyCode::Char('n'));
    assert_eq!(app.message.as_deref(), Some("every expectation holds"));
}

#[test]
fn a_search_goes_on_from_the_current_instant() {
    let mut app = app(3);
    let search = |app: &mut App, text: &str| {
        press(app, KeyCode::Char('/'));
        text.chars().for_each(|letter| press(app, KeyCode::Char(letter)));
        press(app, KeyCode::Enter);
        app.stop
    };
    let first = search(&mut app, "PLACED");
    let message = app.message.clone().expect("the line that was found");
    assert!(message.contains("placed"), "{message}");
    assert!(app.selected.is_some());
    assert!(search(&mut app, "") >= first);
    let stop = app.stop;
    assert_eq!(search(&mut app, "no such words"), stop);
    assert_eq!(app.message.as_deref(), Some("no event contains `no such words`"));
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was_found() {
    let mut out = Vec::new();
    let broken = catch_unwind(AssertUnwindSafe(|| {
        let _screen = Screen::over(&mut out).expect("a Vec takes everything");
        panic!("while it is shown");
    }));
    assert!(broken.is_err());
    // The alternate screen is left and the cursor is shown: xterm's private modes 1049 and 25.
    assert_eq!(String::from_utf8(out).expect("escape codes are text"), "\u{1b}[?1049h\u{1b}[?1049l\u{1b}[?25h");
}
