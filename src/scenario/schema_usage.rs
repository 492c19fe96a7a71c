//! The schema of GPU usage, its samples, and the policies that read them.

use super::policies::{AT_MINIMUM, GAPS, GPUS, MODES, SOURCES};
use super::schema_shape::{Kind, Shape};

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
            ("constant", PERCENT, "Constant utilization"),
            (
                "steps",
                Kind::ListOf(&Kind::Map("usage_step")),
                "Utilization from each time on; before the first time it is 0%",
            ),
            ("phases", Kind::ListOf(&Kind::Map("usage_phase")), "Phases in sequence; the last one continues"),
            ("repeat", Kind::Flag, "Whether the phases repeat after the last one"),
            ("periodic", Kind::Map("periodic_usage"), "Alternating high and low utilization"),
            ("csv", Kind::Text, "CSV recording: the time, then one column for each GPU"),
            ("trace", Kind::Text, "Public trace of GPU usage (`dryrack trace list`)"),
            ("from", TIME, "With `csv` or `trace`: time in the recording at which the job starts"),
            ("gpus", Kind::Some(&Kind::Text), "With `csv`: columns; with `trace`: pods"),
            ("noise", PERCENT, "Largest random error of a sample, in either direction"),
            ("memory", Kind::Amount("80GiB"), "GPU memory in use"),
        ],
    },
    Shape {
        name: "usage_step",
        called: &["a step of usage"],
        required: &["at", "is"],
        fields: &[("at", TIME, "Since the job started"), ("is", PERCENT, "Time since the start of the job")],
    },
    Shape {
        name: "usage_phase",
        called: &["a phase of usage"],
        required: &[],
        fields: &[
            ("load", TIME, "Length of a loading phase, in which the GPUs are idle"),
            ("train", TIME, "Length of a training phase; utilization: 95% by default"),
            ("evaluate", TIME, "Length of an evaluation phase; utilization: 50% by default"),
            ("idle", TIME, "Length of an idle phase"),
            ("is", PERCENT, "Utilization in this phase"),
        ],
    },
    Shape {
        name: "periodic_usage",
        called: &["periodic usage"],
        required: &["period", "high_for", "high"],
        fields: &[
            ("period", TIME, "Length of a period"),
            ("high_for", TIME, "Time with high utilization at the beginning of each period"),
            ("high", PERCENT, "High utilization"),
            ("low", PERCENT, "Low utilization in the rest of each period; default: 0%"),
        ],
    },
    Shape {
        name: "sampling",
        called: &["sampling"],
        required: &[],
        fields: &[
            ("interval", TIME, "Sampling interval; default: that of the profile's policy"),
            ("jitter", TIME, "Largest random delay of taking a sample"),
            ("delay", TIME, "Time from taking a sample to its arrival"),
            ("lost", PERCENT, "Probability that a sample is lost"),
            ("repeated", PERCENT, "Probability that a sample arrives a second time, `late_by` later"),
            (
                "late",
                PERCENT,
                "Probability that a sample arrives `late_by` later, behind samples that were taken after it",
            ),
            ("late_by", TIME, "Delay of late and repeated samples"),
            ("not_available", PERCENT, "Probability that a reading is `N/A`"),
            ("nan", PERCENT, "Probability that a reading is not a number"),
            ("silent", Kind::ListOf(&Kind::Map("silence")), "Periods in which the exporter sends nothing"),
            ("clock_steps", Kind::ListOf(&Kind::Map("clock_step")), "Times at which the exporter's clock is changed"),
        ],
    },
    Shape {
        name: "silence",
        called: &["a silence"],
        required: &["from", "for"],
        fields: &[("from", TIME, "Time since the start of the job"), ("for", TIME, "Length of the period")],
    },
    Shape {
        name: "clock_step",
        called: &["a step of the clock"],
        required: &["at", "by"],
        fields: &[
            ("at", TIME, "Time since the start of the job"),
            ("by", Kind::Amount("-1h"), "Change of the clock; a negative one sets it back"),
        ],
    },
    Shape { name: "utilization_policy", called: &["a utilization policy"], required: &[], fields: POLICY },
    Shape {
        name: "policies",
        called: &[],
        required: &[],
        fields: &[
            ("utilization", Kind::Map("utilization_options"), "Policy that ends jobs with idle GPUs"),
            ("quotas", Kind::Named(&Kind::Map("quota")), "Limits of each project"),
        ],
    },
    Shape {
        name: "replica_range",
        called: &["a range of replicas"],
        required: &["max"],
        fields: &[("min", Kind::Whole, "Least number; default: 0"), ("max", Kind::Whole, "Largest number")],
    },
    Shape {
        name: "scaling",
        called: &["a scaling"],
        required: &["metric", "target"],
        fields: &[
            ("metric", Kind::Words(|| vec!["rps"]), "Metric for scaling: requests per second (rps)"),
            ("target", Kind::Amount("10 or 0.5"), "Number of requests per second for each replica"),
            ("window", TIME, "Time over which requests are counted; default: 1 minute"),
            ("scale_up_delay", TIME, "Least time from a change to an increase; default: 5 minutes"),
            ("scale_down_delay", TIME, "Least time from a change to a decrease; default: 10 minutes"),
        ],
    },
    Shape {
        name: "requests",
        called: &["a number of requests"],
        required: &["at", "rps"],
        fields: &[
            ("at", TIME, "Time since the submission of the job"),
            ("rps", Kind::Amount("20 or 0.5"), "Requests per second from then on"),
        ],
    },
    Shape {
        name: "quota",
        called: &[],
        required: &[],
        fields: &[
            ("gpus", Kind::Whole, "Most GPUs in use at a time; a shared GPU counts by the part in use"),
            (
                "price_per_hour",
                Kind::Amount("2.49"),
                "Highest price per hour of the hosts in use; a shared host counts by the part in use",
            ),
        ],
    },
    Shape {
        name: "utilization_options",
        called: &[],
        required: &[],
        fields: &[
            ("min_gpu_utilization", PERCENT, "Utilization below which a GPU is idle"),
            ("time_window", TIME, "Time for which the GPUs must be idle"),
            (
                "mode",
                Kind::Words(|| MODES.map(|(name, _)| name).to_vec()),
                "Effect of the policy: observe, warn or enforce",
            ),
            (
                "gpus",
                Kind::Words(|| GPUS.map(|(name, _)| name).to_vec()),
                "Whether one idle GPU is enough (any) or all must be idle (all)",
            ),
            (
                "at_minimum",
                Kind::Words(|| AT_MINIMUM.map(|(name, _)| name).to_vec()),
                "Whether a reading equal to the minimum is busy or idle",
            ),
            ("longest_gap", TIME, "Longest time between two readings without a gap; default: two intervals"),
            (
                "gaps",
                Kind::Words(|| GAPS.map(|(name, _)| name).to_vec()),
                "Whether the window begins again after a gap (void) or continues (bridge)",
            ),
            ("grace", TIME, "Time after the start from which readings count"),
            ("rule", Kind::Any, "Rule: `covered`, or `{dstack: {looks_every: 4s, first_within: 60s}}`"),
            (
                "reads",
                Kind::Words(|| vec!["configuration", "profile_and_configuration"]),
                "Whether the profile's own policy also binds jobs",
            ),
            ("min_time_window", TIME, "Shortest time window; shorter ones are refused"),
            ("interval", TIME, "Sampling interval of GPUs"),
        ],
    },
];

const POLICY: &[(&str, Kind, &str)] = &[
    ("min_gpu_utilization", PERCENT, "Utilization below which a GPU is idle"),
    ("time_window", TIME, "Time for which the GPUs must be idle"),
    ("mode", Kind::Words(|| MODES.map(|(name, _)| name).to_vec()), "Effect of the policy: observe, warn or enforce"),
    (
        "gpus",
        Kind::Words(|| GPUS.map(|(name, _)| name).to_vec()),
        "Whether one idle GPU is enough (any) or all must be idle (all)",
    ),
    (
        "at_minimum",
        Kind::Words(|| AT_MINIMUM.map(|(name, _)| name).to_vec()),
        "Whether a reading equal to the minimum is busy or idle",
    ),
    ("longest_gap", TIME, "Longest time between two readings without a gap; default: two intervals"),
    (
        "gaps",
        Kind::Words(|| GAPS.map(|(name, _)| name).to_vec()),
        "Whether the window begins again after a gap (void) or continues (bridge)",
    ),
    ("grace", TIME, "Time after the start from which readings count"),
    (
        "from",
        Kind::Words(|| SOURCES.map(|(name, _)| name).to_vec()),
        "Source of these settings; default: configuration",
    ),
];
