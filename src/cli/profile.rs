//! `dryrack profile`: the profiles that there are, and all that one says.

use std::path::Path;
use std::sync::Arc;

use clap::Subcommand;

use super::exit::{Done, Exit, Failure};
use super::output::{Format, say, say_json};
use crate::control::Profile;
use crate::report::table;
use crate::scenario::{load_profile, profile_names};

#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Every profile, with a sentence about it
    List,
    /// One profile, its bases folded in
    Show {
        /// Its name, as `list` gives it, or the path of a file
        name: String,
    },
}

pub fn profile(command: &ProfileCommand, format: Format) -> Done {
    match command {
        ProfileCommand::List => {
            let profiles = profile_names().map(find).collect::<Result<Vec<_>, Failure>>()?;
            match format {
                Format::Json => say_json(&profiles)?,
                Format::Human => {
                    let rows: Vec<Vec<String>> = (profiles.iter())
                        .map(|profile| {
                            let kind = if profile.historic { "historic" } else { "" };
                            vec![profile.name.clone(), kind.to_string(), profile.title.clone()]
                        })
                        .collect();
                    say(&table(&["profile", "", "what it does"], &rows))?;
                }
            }
        }
        ProfileCommand::Show { name } => {
            // One form for both: a profile is data, and JSON is YAML.
            say_json(&*find(name)?)?;
        }
    }
    Ok(Exit::Fine)
}

fn find(name: &str) -> Result<Arc<Profile>, Failure> {
    load_profile(name, Path::new("")).map_err(|diagnostics| Failure::Input(diagnostics.to_string()))
}
