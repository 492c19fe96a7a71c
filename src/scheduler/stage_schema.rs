//! The JSON Schema of stages, in the forms that `stages.rs` reads.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::filter::{Exemption, FilterName, FilterStage};
use super::order::OrderKey;
use super::own::OwnFilter;
use super::scorer::{ScorerName, WeightedScorer};
use super::stage_name::StageName;

/// The schema of one kind of stage, under its name.
macro_rules! stage_schema {
    ($kind:ident, |$generator:ident| $schema:expr) => {
        impl JsonSchema for $kind {
            fn schema_name() -> Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

stage_schema!(OwnFilter, |_generator| json_schema!({
    "type": "object",
    "description": "A filter that is an expression. It refuses every node for which `unless` is true.",
    "properties": {
        "filter": {"type": "string", "description": "Name of the filter."},
        "unless": {"type": "string", "description": "An expression that is true or false. True refuses the node."},
        "because": {"type": "string", "description": "Name of the reason of its refusals."},
    },
    "required": ["filter", "unless", "because"],
    "additionalProperties": false,
}));

stage_schema!(FilterStage, |generator| {
    let (own, exemption) = (generator.subschema_for::<OwnFilter>(), generator.subschema_for::<Exemption>());
    json_schema!({
        "description": "A filter, by name or as an expression. `dryrack profile stages` lists the names.",
        "oneOf": [
            {
                "type": "object",
                "properties": {"stage": {"enum": FilterName::NAMES}, "unless": exemption},
                "required": ["stage"],
                "additionalProperties": false,
            },
            own,
        ],
    })
});

stage_schema!(WeightedScorer, |_generator| json_schema!({
    "description": "A scorer with its weight, by name or as an expression. `dryrack profile stages` lists the names.",
    "oneOf": [
        {
            "type": "object",
            "properties": {"stage": {"enum": ScorerName::NAMES}, "weight": {"type": "number"}},
            "required": ["stage", "weight"],
            "additionalProperties": false,
        },
        {
            "type": "object",
            "properties": {"score": {"type": "string"}, "is": {"type": "string"}, "weight": {"type": "number"}},
            "required": ["score", "is"],
            "additionalProperties": false,
        },
    ],
}));

stage_schema!(OrderKey, |_generator| json_schema!({
    "description": "A key of the order, by name or as an expression. `dryrack profile stages` lists the names.",
    "oneOf": [
        {"enum": OrderKey::NAMES},
        {
            "type": "object",
            "properties": {"order": {"type": "string"}, "is": {"type": "string"}},
            "required": ["order", "is"],
            "additionalProperties": false,
        },
    ],
}));
