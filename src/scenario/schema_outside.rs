//! The schema of the settings for schedulers in other processes.

use super::outside::{THINKING, WHEN_UNSAFE};
use super::schema_shape::{Kind, Shape};

const COMMAND: Kind = Kind::Either(&[Kind::Text, Kind::ListOf(&Kind::Text)]);
const CHARGED: Kind = Kind::Either(&[Kind::Words(|| THINKING.map(|(word, _)| word).to_vec()), TIME]);
const TIME: Kind = Kind::Amount("90s, 1h30m or 250ms");

pub(super) const SHAPES: &[Shape] = &[Shape {
    name: "outside",
    called: &["a scheduler outside"],
    required: &[],
    fields: &[
        ("command", COMMAND, "Program and its arguments; it starts in the folder of this file"),
        ("kube-scheduler", COMMAND, "Path of a kube-scheduler that decides, and its flags; excludes `command`"),
        ("deadline", TIME, "Time limit for each answer, in real time; default: 10s"),
        ("start", TIME, "Time limit for the first answer, in real time; default: 60s"),
        ("restarts", Kind::Whole, "Number of restarts after failures; default: 0"),
        ("thinking", CHARGED, "Simulated time that an answer takes; default: none"),
        (
            "unsafe",
            Kind::Words(|| WHEN_UNSAFE.map(|(word, _)| word).to_vec()),
            "Whether placements that break safety are carried out; default: allowed",
        ),
        ("driver", Kind::Named(&Kind::Any), "Settings that are passed to the program unchanged"),
    ],
}];
