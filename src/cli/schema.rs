//! `dryrack schema`: the JSON Schemas of scenario files and profile files, for editors.

use clap::ValueEnum;
use serde_json::Value;

use super::exit::{Exit, ExitResult};
use super::output::print_json;
use dryrack_profile::PROFILE_SCHEMA;
use dryrack_scenario::schema as schema_of_scenarios;

/// A kind of file with a schema.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum SchemaOf {
    /// Scenario files, which is `scenarios/scenario.schema.json`
    #[default]
    Scenario,
    /// Profile files
    Profile,
}

/// Prints the schema, which is JSON in every format.
pub fn schema(of: SchemaOf) -> ExitResult {
    match of {
        SchemaOf::Scenario => print_json(&schema_of_scenarios())?,
        SchemaOf::Profile => {
            print_json(&serde_json::from_str::<Value>(PROFILE_SCHEMA).expect("the stored schema is JSON"))?
        }
    }
    Ok(Exit::Fine)
}
