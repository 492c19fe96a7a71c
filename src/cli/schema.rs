//! `dryrack schema`: the JSON Schema of scenario files, for editors.

use super::exit::{Exit, ExitResult};
use super::output::print_json;
use dryrack_scenario::schema as schema_of_scenarios;

/// Prints the schema, which is JSON in every format.
pub fn schema() -> ExitResult {
    print_json(&schema_of_scenarios())?;
    Ok(Exit::Fine)
}
