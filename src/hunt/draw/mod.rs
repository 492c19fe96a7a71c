//! Random worlds, as scenario files that are small enough to read and have the contents of real clusters. A seed gives
//! the same world on every machine.
//!
//! To add a kind of world, write a file with a function that returns the text, and add a row to [`KINDS`].

mod fleets;
mod long_runs;
mod models;
mod tasks;
mod weighted;

use dryrack_rng::Stream;

/// A kind of world.
pub struct Kind {
    pub name: &'static str,
    /// A description for `--help`.
    pub what: &'static str,
    /// The program for which this kind of world is meant; `None` for any program.
    pub program: Option<&'static str>,
    draw: fn(&mut Stream) -> String,
}

/// All kinds. The last row is for programs that no other row names.
pub const KINDS: [Kind; 5] = [
    Kind {
        name: "models",
        what: "models to be served on nodes with GPUs",
        program: Some("gpustack"),
        draw: models::draw,
    },
    Kind {
        name: "sglang",
        what: "models on SGLang with its parameters, on nodes with GPUs",
        program: None,
        draw: models::draw_sglang,
    },
    Kind { name: "fleets", what: "runs on fleets of instances", program: Some("dstack"), draw: fleets::draw },
    Kind {
        name: "long-runs",
        what: "runs that wait for long on a fleet that is full",
        program: None,
        draw: long_runs::draw,
    },
    Kind { name: "tasks", what: "jobs that take GPUs", program: None, draw: tasks::draw },
];

/// The kind of world for a value of `--outside`.
pub fn kind_of(outside: &str) -> &'static Kind {
    let program = outside.split("==").next().unwrap_or_default();
    KINDS.iter().find(|kind| kind.program == Some(program)).unwrap_or(&KINDS[KINDS.len() - 1])
}

impl Kind {
    /// The text of the world of a seed.
    pub fn draw(&self, seed: u64) -> String {
        let mut draws = Stream::new(seed, "hunt", 0);
        let body = (self.draw)(&mut draws);
        format!("scenario: World {seed} of {}\n{body}", self.name)
    }
}
