//! Random worlds, as scenario files: small enough to be read, and of what such clusters really have. The world of a seed
//! is the same everywhere.
//!
//! To add a kind of world, write a file with a function that writes the text, and a row of [`KINDS`].

mod fleets;
mod models;
mod tasks;

use dryrack_rng::Stream;

/// A kind of world.
pub struct Kind {
    pub name: &'static str,
    /// For `--help`.
    pub what: &'static str,
    /// The program whose worlds are of this kind.
    pub program: Option<&'static str>,
    draw: fn(&mut Stream) -> String,
}

/// The last row is for programs that no other row names.
pub const KINDS: [Kind; 3] = [
    Kind {
        name: "models",
        what: "models to be served on nodes with GPUs",
        program: Some("gpustack"),
        draw: models::draw,
    },
    Kind { name: "fleets", what: "runs on fleets of instances", program: Some("dstack"), draw: fleets::draw },
    Kind { name: "tasks", what: "jobs that take GPUs", program: None, draw: tasks::draw },
];

/// The kind of world for what was typed behind `--outside`.
pub fn kind_of(outside: &str) -> &'static Kind {
    let program = outside.split("==").next().unwrap_or_default();
    KINDS.iter().find(|kind| kind.program == Some(program)).unwrap_or(&KINDS[KINDS.len() - 1])
}

impl Kind {
    /// The world of a seed.
    pub fn draw(&self, seed: u64) -> String {
        let mut draws = Stream::new(seed, "hunt", 0);
        let body = (self.draw)(&mut draws);
        format!("scenario: World {seed} of {}\n{body}", self.name)
    }
}

/// One of these, each as often as its number says.
fn weighted<'a, T>(draws: &mut Stream, rows: &'a [(u64, T)]) -> &'a T {
    let sum: u64 = rows.iter().map(|(weight, _)| weight).sum();
    let mut at = draws.between(1, sum);
    for (weight, row) in rows {
        if at <= *weight {
            return row;
        }
        at -= weight;
    }
    &rows[rows.len() - 1].1
}
