//! The schema of random arrivals and of distributions.

use super::schema_shape::{Kind, Shape};
use super::schema_table::{BATCH, NUMBER, PERCENT, RATE, TIME};

/// Kinds of maps in addition to those of the main table.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "arrivals",
        called: &[],
        required: &[],
        fields: &[
            ("every", TIME, "Arrivals at equal intervals"),
            ("poisson", RATE, "Poisson arrivals at a mean rate"),
            ("bursty", Kind::Map("bursty"), "Alternating quiet and busy periods"),
            ("daily", Kind::Map("daily"), "Arrivals with a daily peak"),
            ("hourly", Kind::Map("hourly"), "Arrivals with a weight for each hour of a day or week"),
            ("batch", BATCH, "Number of jobs that arrive together; the rate then counts these batches"),
        ],
    },
    Shape {
        name: "batch",
        called: &[],
        required: &[],
        fields: &[
            ("uniform", Kind::Map("uniform_batch"), "Uniform distribution of batch sizes"),
            ("geometric", Kind::Whole, "Geometric distribution of batch sizes with this mean"),
        ],
    },
    Shape {
        name: "uniform_batch",
        called: &["a uniform size of a batch"],
        required: &["from", "to"],
        fields: &[("from", Kind::Whole, "Smallest size"), ("to", Kind::Whole, "Largest size")],
    },
    Shape {
        name: "hourly",
        called: &["hourly arrivals"],
        required: &["mean", "weights"],
        fields: &[
            ("mean", RATE, "Mean rate over the whole day or week"),
            ("weights", Kind::ListOf(&NUMBER), "24 or 168 relative weights; the first is for the hour from midnight"),
        ],
    },
    Shape {
        name: "bursty",
        called: &["bursty arrivals"],
        required: &["quiet", "quiet_for", "busy", "busy_for"],
        fields: &[
            ("quiet", RATE, "Rate in quiet periods"),
            ("quiet_for", TIME, "Mean length of quiet periods"),
            ("busy", RATE, "Rate in busy periods"),
            ("busy_for", TIME, "Mean length of busy periods"),
        ],
    },
    Shape {
        name: "daily",
        called: &["daily arrivals"],
        required: &["mean"],
        fields: &[
            ("mean", RATE, "Mean rate"),
            ("peak", TIME, "Time of day with the highest rate; default: 14h"),
            ("swing", PERCENT, "Largest deviation from the mean rate; default: 50%"),
        ],
    },
    Shape {
        name: "distribution",
        called: &[],
        required: &[],
        fields: &[
            ("exponential", TIME, "Exponential distribution with this mean"),
            ("weibull", Kind::Map("weibull"), "Weibull distribution"),
            ("lognormal", Kind::Map("lognormal"), "Lognormal distribution"),
            ("uniform", Kind::Map("uniform"), "Uniform distribution"),
        ],
    },
    Shape {
        name: "weibull",
        called: &["a Weibull distribution"],
        required: &["shape", "scale"],
        fields: &[
            ("shape", NUMBER, "Shape; below 1, the failure rate falls with age"),
            ("scale", TIME, "Scale: the time that 63% do not exceed"),
        ],
    },
    Shape {
        name: "lognormal",
        called: &["a lognormal distribution"],
        required: &["median", "sigma"],
        fields: &[("median", TIME, "Median"), ("sigma", NUMBER, "Standard deviation of the logarithm")],
    },
    Shape {
        name: "uniform",
        called: &["a uniform distribution"],
        required: &["from", "to"],
        fields: &[("from", TIME, "Shortest length"), ("to", TIME, "Longest length")],
    },
];
