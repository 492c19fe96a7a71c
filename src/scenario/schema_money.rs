//! The schema of prices and electricity.

use super::schema_shape::{Kind, Shape};

/// Kinds of maps in addition to those of the main table.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "commitment",
        called: &["a commitment"],
        required: &["term"],
        fields: &[
            ("term", Kind::Amount("1y or 3y"), "Length of the commitment"),
            ("price_per_hour", Kind::Amount("9.80"), "Price of each hour, whether or not the node is there"),
            ("upfront", Kind::Amount("60000"), "Price at the beginning, which is spread evenly over the term"),
        ],
    },
    Shape {
        name: "purchase",
        called: &["a purchase"],
        required: &["price", "over"],
        fields: &[
            ("price", Kind::Amount("180000"), "Price of the node"),
            ("over", Kind::Amount("4y"), "Time over which the price is spread evenly"),
            ("resale", Kind::Amount("20000"), "Value of the node after this time, which is not spread; default: 0"),
            ("upkeep_per_hour", Kind::Amount("0.40"), "Price of space, support and staff for each hour; default: 0"),
        ],
    },
    Shape {
        name: "electricity",
        called: &["electricity"],
        required: &[],
        fields: &[
            ("price_per_kwh", Kind::Amount("0.24"), "Price per kWh, for nodes that were bought"),
            (
                "pue",
                Kind::Amount("1.35"),
                "Power usage effectiveness: energy of the site divided by that of its nodes; default: 1",
            ),
            (
                "carbon",
                Kind::Either(&[Kind::Amount("380"), Kind::Map("emissions")]),
                "Grams of CO2 per kWh: a constant, or a curve in a CSV file",
            ),
        ],
    },
    Shape {
        name: "emissions",
        called: &["emissions"],
        required: &["file"],
        fields: &[(
            "file",
            Kind::Text,
            "CSV file with the columns hour and g_per_kWh; hours count from the start of the run, and the curve repeats",
        )],
    },
];
