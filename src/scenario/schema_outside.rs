//! The schema of the settings for schedulers in other processes.

use super::outside::{THINKING, WHEN_UNSAFE};
use super::schema::{Kind, Shape};

const COMMAND: Kind = Kind::Either(&[Kind::Text, Kind::ListOf(&Kind::Text)]);
const CHARGED: Kind = Kind::Either(&[Kind::Words(|| THINKING.map(|(word, _)| word).to_vec()), TIME]);
const TIME: Kind = Kind::Amount("90s, 1h30m or 250ms");

pub(super) const SHAPES: &[Shape] = &[Shape {
    name: "outside",
    called: &["a scheduler outside"],
    required: &[],
    fields: &[
        ("command", COMMAND, "The program and its arguments; it is started in the folder of this file"),
        ("deadline", TIME, "Real time for each answer; 10s if not given"),
        ("start", TIME, "Real time for its first answer; 60s if not given"),
        ("restarts", Kind::Whole, "How often it is started afresh after a failure; 0 if not given"),
        ("thinking", CHARGED, "What is charged to the clock for an answer; nothing if not given"),
        (
            "unsafe",
            Kind::Words(|| WHEN_UNSAFE.map(|(word, _)| word).to_vec()),
            "Whether placements that break safety are carried out; they are if not given",
        ),
        ("driver", Kind::Named(&Kind::Any), "Free data, which is sent to it"),
    ],
}];
