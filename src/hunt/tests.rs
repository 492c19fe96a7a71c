//! Checks the worlds that are drawn.

use super::*;
use std::path::Path;

use dryrack_scenario::{Options, load_text};

/// A world that is not a valid scenario would be refused, so nothing could be found in it.
#[test]
fn every_world_is_a_valid_scenario_and_the_same_each_time() {
    for kind in &KINDS {
        for seed in 1..=200 {
            let text = kind.draw(seed);
            assert_eq!(text, kind.draw(seed));
            if let Err(faults) = load_text("world.yaml", &text, Path::new(""), &Options::default()) {
                panic!("{} {seed}: {faults}\n{text}", kind.name);
            }
        }
    }
}

#[test]
fn a_program_is_hunted_in_worlds_of_its_own() {
    let of = |outside: &str| kind_of(outside).name;
    assert_eq!((of("gpustack==2.3.0"), of("dstack==0.22.5"), of("python3 x.py")), ("models", "fleets", "tasks"));
}
