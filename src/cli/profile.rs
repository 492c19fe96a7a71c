//! `dryrack profile`: the profiles that there are, and all that one says.

use clap::Subcommand;

use super::exit::{Done, Exit};
use super::logs::no_such;
use super::output::{Format, say, say_json};
use super::seam;
use crate::report::table;

#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Every profile, with a sentence about it
    List,
    /// One profile, its bases folded in
    Show {
        /// Its name, as `list` gives it
        name: String,
    },
}

pub fn profile(command: &ProfileCommand, format: Format) -> Done {
    match command {
        ProfileCommand::List => {
            let profiles: Vec<_> = seam::profile_names().into_iter().filter_map(seam::profile).collect();
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
            let Some(profile) = seam::profile(name) else {
                return Err(no_such("there is no profile", name, seam::profile_names().into_iter()));
            };
            // One form for both: a profile is data, and JSON is YAML.
            say_json(&profile)?;
        }
    }
    Ok(Exit::Fine)
}
