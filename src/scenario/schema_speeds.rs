//! The schema of speeds of GPUs.

use super::schema_shape::{Kind, Shape};
use super::schema_table::PERCENT;
use super::speeds::works;

const SPEED: Kind = Kind::Amount("2.2");

/// Kinds of maps in addition to those of the main table.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "speed",
        called: &["speeds of GPUs"],
        required: &[],
        fields: &[
            ("reference", Kind::Text, "GPU on which jobs take their stated duration"),
            (
                "work",
                Kind::Either(&[Kind::Words(works), Kind::Map("work_parts")]),
                "Kind of work, whose speeds the catalog or the trace has",
            ),
            (
                "factors",
                Kind::Named(&Kind::Either(&[SPEED, Kind::Map("speed_parts")])),
                "How many times as fast as the reference each GPU is",
            ),
            ("others", SPEED, "Speed of GPUs of which nothing is known; default: such a GPU is an error"),
        ],
    },
    Shape {
        name: "work_parts",
        called: &["parts of work"],
        required: &["compute", "memory"],
        fields: &[
            ("compute", PERCENT, "Part of the time on the reference GPU that computing limits"),
            ("memory", PERCENT, "Part of the time on the reference GPU that the memory bandwidth limits"),
        ],
    },
    Shape {
        name: "speed_parts",
        called: &["speeds of parts of work"],
        required: &["compute", "memory"],
        fields: &[
            ("compute", SPEED, "Speed of the part that computing limits"),
            ("memory", SPEED, "Speed of the part that the memory bandwidth limits"),
        ],
    },
];
