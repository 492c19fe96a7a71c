//! `dryrack schema`: the JSON Schema of scenario files, for editors.

use super::exit::{Done, Exit};
use super::output::say_json;
use dryrack_scenario::schema as schema_of_scenarios;

/// Prints the schema, which is JSON in every format.
pub fn schema() -> Done {
    say_json(&schema_of_scenarios())?;
    Ok(Exit::Fine)
}
