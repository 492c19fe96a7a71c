//! `dryrack schema`: what an editor needs to know of scenario files.

use super::exit::{Done, Exit};
use super::output::say_json;
use dryrack_scenario::schema as schema_of_scenarios;

/// Prints it; it is JSON whatever the form that was asked for.
pub fn schema() -> Done {
    say_json(&schema_of_scenarios())?;
    Ok(Exit::Fine)
}
