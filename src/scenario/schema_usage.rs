//! The schema of GPU usage, its samples, and the policies that read them.

use super::policies::{AT_MINIMUM, GAPS, GPUS, MODES, SOURCES};
use super::schema::{Kind, Shape};

const TIME: Kind = Kind::Amount("90s, 1h30m or 250ms");
const PERCENT: Kind = Kind::Amount("95%");
/// The usage of a job: a percentage, one map for all of its GPUs, or a list with one percentage or map for each GPU.
pub(super) const USAGE: Kind = Kind::Either(&[PERCENT, Kind::Map("usage"), Kind::ListOf(&USAGE_OF_GPU)]);
const USAGE_OF_GPU: Kind = Kind::Either(&[PERCENT, Kind::Map("usage")]);

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "usage",
        called: &["usage"],
        required: &[],
        fields: &[
            ("constant", PERCENT, "Always this"),
            ("steps", Kind::ListOf(&Kind::Map("usage_step")), "From each time on; nothing before the first"),
            ("phases", Kind::ListOf(&Kind::Map("usage_phase")), "One after the other; the last goes on"),
            ("repeat", Kind::Flag, "With `phases`: they begin again behind the last"),
            ("periodic", Kind::Map("periodic_usage"), "High, then low, over and over"),
            ("csv", Kind::Text, "A recording: time in the first column, one for each GPU behind it"),
            ("trace", Kind::Text, "A public trace of GPU usage (`dryrack trace list`)"),
            ("from", TIME, "With `csv` and `trace`: where in the recording the job starts"),
            ("gpus", Kind::Some(&Kind::Text), "With `csv` its columns, with `trace` its pods"),
            ("noise", PERCENT, "Each sample is off by a draw from minus this to plus this"),
            ("memory", Kind::Amount("80GiB"), "What is taken of the GPU's memory"),
        ],
    },
    Shape {
        name: "usage_step",
        called: &["a step of usage"],
        required: &["at", "is"],
        fields: &[("at", TIME, "Since the job started"), ("is", PERCENT, "From then on")],
    },
    Shape {
        name: "usage_phase",
        called: &["a phase of usage"],
        required: &[],
        fields: &[
            ("load", TIME, "It reads data or weights for so long; its GPUs wait"),
            ("train", TIME, "It trains for so long; 95% if not stated"),
            ("evaluate", TIME, "It evaluates for so long; 50% if not stated"),
            ("idle", TIME, "It does nothing for so long"),
            ("is", PERCENT, "The utilization in this phase"),
        ],
    },
    Shape {
        name: "periodic_usage",
        called: &["periodic usage"],
        required: &["period", "high_for", "high"],
        fields: &[
            ("period", TIME, "From one beginning to the next"),
            ("high_for", TIME, "The first part of each period"),
            ("high", PERCENT, "In this part"),
            ("low", PERCENT, "In the rest; 0% if not stated"),
        ],
    },
    Shape {
        name: "sampling",
        called: &["sampling"],
        required: &[],
        fields: &[
            ("interval", TIME, "How often; as the profile's policy says if not stated"),
            ("jitter", TIME, "Each sample is taken later by a draw up to this"),
            ("delay", TIME, "And heard so much later"),
            ("lost", PERCENT, "So many samples are never heard"),
            ("repeated", PERCENT, "So many are heard twice, the second time `late_by` later"),
            ("late", PERCENT, "So many are heard `late_by` later, behind others that were taken after them"),
            ("late_by", TIME, "By so much"),
            ("not_available", PERCENT, "So many readings are `N/A`"),
            ("nan", PERCENT, "So many readings are not a number"),
            ("silent", Kind::ListOf(&Kind::Map("silence")), "When the exporter says nothing"),
            ("clock_steps", Kind::ListOf(&Kind::Map("clock_step")), "When the exporter's clock is set"),
        ],
    },
    Shape {
        name: "silence",
        called: &["a silence"],
        required: &["from", "for"],
        fields: &[("from", TIME, "Since the job started"), ("for", TIME, "So long")],
    },
    Shape {
        name: "clock_step",
        called: &["a step of the clock"],
        required: &["at", "by"],
        fields: &[("at", TIME, "Since the job started"), ("by", Kind::Amount("-1h"), "Forward, or back with a minus")],
    },
    Shape { name: "utilization_policy", called: &["a utilization policy"], required: &[], fields: POLICY },
    Shape {
        name: "policies",
        called: &[],
        required: &[],
        fields: &[
            ("utilization", Kind::Map("utilization_options"), "When a job whose GPUs are idle is ended"),
            ("quotas", Kind::Named(&Kind::Map("quota")), "By project: how much its runs hold at most"),
        ],
    },
    Shape {
        name: "replica_range",
        called: &["a range of replicas"],
        required: &["max"],
        fields: &[("min", Kind::Whole, "None if not given"), ("max", Kind::Whole, "At most")],
    },
    Shape {
        name: "scaling",
        called: &["a scaling"],
        required: &["metric", "target"],
        fields: &[
            ("metric", Kind::Words(|| vec!["rps"]), "What replicas go by: requests per second"),
            ("target", Kind::Amount("10 or 0.5"), "So many for each replica"),
            ("window", TIME, "Counted over so long; a minute if not given"),
            ("scale_up_delay", TIME, "From one change until there may be more; five minutes if not given"),
            ("scale_down_delay", TIME, "And until there may be fewer; ten minutes if not given"),
        ],
    },
    Shape {
        name: "requests",
        called: &["a number of requests"],
        required: &["at", "rps"],
        fields: &[
            ("at", TIME, "Since the job was submitted"),
            ("rps", Kind::Amount("20 or 0.5"), "So many per second from then on"),
        ],
    },
    Shape {
        name: "quota",
        called: &[],
        required: &[],
        fields: &[
            ("gpus", Kind::Whole, "GPUs at a time; of one that is shared, the part that is taken"),
            ("price_per_hour", Kind::Amount("2.49"), "Of the parts of hosts that are taken"),
        ],
    },
    Shape {
        name: "utilization_options",
        called: &[],
        required: &[],
        fields: &[
            ("min_gpu_utilization", PERCENT, "A GPU below this is idle"),
            ("time_window", TIME, "How long it must have been idle"),
            ("mode", Kind::Words(|| MODES.map(|(name, _)| name).to_vec()), "What follows"),
            ("gpus", Kind::Words(|| GPUS.map(|(name, _)| name).to_vec()), "Whether one idle GPU is enough"),
            ("at_minimum", Kind::Words(|| AT_MINIMUM.map(|(name, _)| name).to_vec()), "What the minimum itself is"),
            ("longest_gap", TIME, "Readings further apart have a gap between them; two intervals if not stated"),
            ("gaps", Kind::Words(|| GAPS.map(|(name, _)| name).to_vec()), "Whether the window begins again behind it"),
            ("grace", TIME, "Readings count from so long after the start"),
            ("rule", Kind::Any, "`covered`, or `{dstack: {looks_every: 4s, first_within: 60s}}`"),
            (
                "reads",
                Kind::Words(|| vec!["configuration", "profile_and_configuration"]),
                "Whether a policy of the profile binds a job at all",
            ),
            ("min_time_window", TIME, "A shorter window is refused"),
            ("interval", TIME, "How often GPUs are sampled"),
        ],
    },
];

const POLICY: &[(&str, Kind, &str)] = &[
    ("min_gpu_utilization", PERCENT, "A GPU below this is idle"),
    ("time_window", TIME, "How long it must have been idle"),
    ("mode", Kind::Words(|| MODES.map(|(name, _)| name).to_vec()), "What follows"),
    ("gpus", Kind::Words(|| GPUS.map(|(name, _)| name).to_vec()), "Whether one idle GPU is enough"),
    ("at_minimum", Kind::Words(|| AT_MINIMUM.map(|(name, _)| name).to_vec()), "What the minimum itself is"),
    ("longest_gap", TIME, "Readings further apart have a gap between them; two intervals if not stated"),
    ("gaps", Kind::Words(|| GAPS.map(|(name, _)| name).to_vec()), "Whether the window begins again behind it"),
    ("grace", TIME, "Readings count from so long after the start"),
    (
        "from",
        Kind::Words(|| SOURCES.map(|(name, _)| name).to_vec()),
        "Whose word it is; the configuration's if not given",
    ),
];
