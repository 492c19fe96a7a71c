//! The schema of `trace:`.

use super::schema_shape::{Kind, Shape};
use super::schema_table::{PERCENT, TIME};
use super::trace_source::formats;

/// Kinds of maps in addition to those of the main table.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "trace",
        called: &["a trace"],
        required: &[],
        fields: &[
            ("name", Kind::Text, "Name of the trace, as in `dryrack trace list`"),
            (
                "format",
                Kind::Words(|| formats().into_iter().map(|(name, _)| name).collect()),
                "Format of a file that is not a known trace",
            ),
            ("list", Kind::Text, "List of tasks of the trace"),
            (
                "file",
                Kind::Text,
                "File with a list of tasks, beside the scenario or in the folder that DRYRACK_DATA names",
            ),
            ("nodes", Kind::Words(|| vec!["all", "gpu", "none"]), "Nodes of the trace to use"),
            ("node_list", Kind::Text, "List of nodes of the trace"),
            (
                "node_file",
                Kind::Text,
                "File with a list of nodes, beside the scenario or in the folder that DRYRACK_DATA names",
            ),
            ("queue", Kind::Some(&Kind::Text), "Queues whose tasks are used"),
            ("limit", Kind::Whole, "Most tasks"),
            ("offset", TIME, "Time before which tasks are left out"),
            ("skip", Kind::Whole, "Number of first tasks to leave out"),
            (
                "order",
                Kind::Text,
                "File of task names in order of arrival; one task arrives each second and never ends",
            ),
            ("ranks", Kind::Text, "File of `RANK NODE` lines; on ties, nodes with a lower rank go first"),
            ("from", Kind::Text, "Date from which tasks are used; the run starts with the first of them"),
            ("to", Kind::Text, "Date after which tasks are left out"),
            ("estimates", Kind::Words(|| vec!["recorded", "exact"]), "Source of the estimated durations"),
            (
                "running",
                Kind::Words(|| vec!["limit", "elapsed"]),
                "Duration of a task that was still running: its time limit (the default), or the time so far",
            ),
            (
                "checkpoint",
                Kind::Map("checkpoint"),
                "Checkpoints of all tasks, from which a stopped or lost task continues",
            ),
            ("speed", Kind::Map("speed"), "Speeds of GPUs for the tasks, which override those of the file"),
            (
                "gpu_names",
                Kind::Named(&Kind::Some(&Kind::Text)),
                "GPU types that names in the trace mean, for names that the catalog does not know",
            ),
            (
                "gpu_nodes",
                Kind::Words(|| vec!["fewest", "any"]),
                "Nodes of a task that states GPUs, but no nodes: `fewest` that can hold the GPUs (the default), or `any`",
            ),
            (
                "gpu_shares",
                Kind::Words(|| vec!["recorded", "whole"]),
                "What a task gets that asks for a part of a GPU: `whole` gives it a whole GPU",
            ),
            (
                "run_on",
                Kind::Words(|| vec!["nodes", "instances"]),
                "Where the tasks run: on `nodes:` (the default), or on the instances and hosts of `fleets:`",
            ),
            ("durations", Kind::Named(&TIME), "Durations by application, for tasks without a recorded duration"),
            (
                "tune",
                PERCENT,
                "Load to reach, as a share of all GPUs; tasks are drawn in random order and copied until they ask \
                 for this much",
            ),
            ("resample", Kind::Map("resampling"), "Draws another list of the recorded days with each seed"),
        ],
    },
    Shape {
        name: "resampling",
        called: &["resampling"],
        required: &["block"],
        fields: &[
            ("block", TIME, "Length of the blocks that are drawn; the mean length if the method is `stationary`"),
            (
                "cycle",
                TIME,
                "Cycle that is kept: a block begins at the time of the cycle at which it was recorded; default: 7d for \
                 blocks of whole weeks, otherwise 1d",
            ),
            ("length", TIME, "Length of the new list; default: the recorded length in whole cycles"),
            (
                "method",
                Kind::Words(|| vec!["moving", "stationary"]),
                "`moving`: blocks of equal length (the default); `stationary`: a random number of cycles each",
            ),
        ],
    },
];
