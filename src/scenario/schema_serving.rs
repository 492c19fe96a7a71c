//! The schema of services for language models.

use super::schema_shape::{Kind, Shape};
use super::schema_table::{NUMBER, PERCENT, REQUESTS, TIME};

const TABLE: Kind = Kind::Either(&[Kind::Text, Kind::Map("step_table")]);
const TOKENS: Kind = Kind::Either(&[Kind::Whole, Kind::Map("tokens")]);

/// Kinds of maps in addition to those of the main table.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "serving",
        called: &["a serving"],
        required: &["kv_cache_tokens", "max_sequences", "max_batched_tokens", "requests"],
        fields: &[
            ("table", TABLE, "Measured durations of steps; excludes `prefill` and `step`"),
            ("prefill", Kind::Amount("12000 tokens/s"), "Prompt tokens that a replica processes per second"),
            ("step", Kind::Map("serving_step"), "Duration of a step of a replica"),
            (
                "batching",
                Kind::Words(|| vec!["prefill_first", "chunked"]),
                "Whether prompts have steps of their own, or are cut into chunks that share steps with answers",
            ),
            ("kv_cache_tokens", Kind::Whole, "Tokens that the KV cache of a replica holds"),
            ("max_sequences", Kind::Whole, "Sequences that a replica processes at the same time"),
            ("max_batched_tokens", Kind::Whole, "Tokens in one step with prompts"),
            ("requests", Kind::Map("service_requests"), "Requests that the service receives"),
            ("report_every", TIME, "Time between two reports in the log; default: 1 minute"),
        ],
    },
    Shape {
        name: "step_table",
        called: &["a table of steps"],
        required: &["file"],
        fields: &[
            ("file", Kind::Text, "Path of the CSV file, relative to the folder of this file"),
            ("gpu", Kind::Text, "Value of the column gpu of the rows to use"),
            ("tp", Kind::Text, "Value of the column tp of the rows to use"),
            ("model", Kind::Text, "Value of the column model of the rows to use"),
        ],
    },
    Shape {
        name: "serving_step",
        called: &["a step"],
        required: &["base", "per_sequence"],
        fields: &[
            ("base", TIME, "Time of each step"),
            ("per_sequence", TIME, "Additional time for each running sequence"),
            ("per_1k_context", TIME, "Additional time for each 1,000 tokens of context of all running sequences"),
        ],
    },
    Shape {
        name: "service_requests",
        called: &["the requests of a service"],
        required: &[],
        fields: &[
            ("trace", Kind::Text, "Trace of requests: a file beside this one, or below traces/ in DRYRACK_DATA"),
            ("gaps", PERCENT, "Gaps of the trace in proportion to those recorded"),
            (
                "concurrency",
                Kind::Whole,
                "Clients of a closed loop, each of which sends when its last request has ended",
            ),
            ("rps", REQUESTS, "Requests per second, or a curve of it; arrivals are Poisson"),
            ("arrivals", Kind::Map("arrivals"), "When requests arrive, as for jobs; excludes `rps`"),
            ("for", TIME, "Time from the submission of the service in which requests arrive; default: until the end"),
            ("count", Kind::Whole, "Number of requests"),
            ("input_tokens", TOKENS, "Tokens of a prompt"),
            ("output_tokens", TOKENS, "Tokens of an answer"),
        ],
    },
    Shape {
        name: "tokens",
        called: &[],
        required: &[],
        fields: &[
            ("lognormal", Kind::Map("lognormal_tokens"), "Lognormal distribution"),
            ("exponential", Kind::Whole, "Exponential distribution with this mean"),
            ("uniform", Kind::Map("uniform_tokens"), "Uniform distribution"),
            ("max", Kind::Whole, "Largest number of tokens; larger draws count as this many"),
        ],
    },
    Shape {
        name: "lognormal_tokens",
        called: &[],
        required: &["median", "sigma"],
        fields: &[("median", Kind::Whole, "Median"), ("sigma", NUMBER, "Standard deviation of the logarithm")],
    },
    Shape {
        name: "uniform_tokens",
        called: &[],
        required: &["from", "to"],
        fields: &[("from", Kind::Whole, "Smallest number"), ("to", Kind::Whole, "Largest number")],
    },
];
