//! `dryrack profile`: lists profiles, shows one in full, and compares two.

use std::path::Path;
use std::sync::Arc;

use clap::Subcommand;
use serde_json::{Value, json};

use super::exit::{Done, Exit, Failure};
use super::output::{Format, say, say_json};
use super::profile_text::profile_text;
use dryrack_control::Profile;
use dryrack_report::table;
use dryrack_scenario::{compare_profiles, load_profile, profile_names};

#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// List every profile, with a sentence about it
    List,
    /// Show one profile stage by stage, with its bases folded in
    Show {
        /// Name of the profile, as `list` prints it, or the path of a file
        name: String,
    },
    /// Print each option in which two profiles differ, with their bases folded in; exit 1 if there is one, like
    /// diff(1)
    Diff {
        /// Name of a profile, as `list` prints it, or the path of a file
        left: String,
        /// The other profile
        right: String,
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
            let profile = find(name)?;
            match format {
                Format::Json => say_json(&*profile)?,
                Format::Human => {
                    say(&profile_text(&serde_json::to_value(&*profile).expect("a profile has a JSON form")))?;
                }
            }
        }
        ProfileCommand::Diff { left, right } => return diff(&*find(left)?, &*find(right)?, format),
    }
    Ok(Exit::Fine)
}

fn find(name: &str) -> Result<Arc<Profile>, Failure> {
    load_profile(name, Path::new("")).map_err(|diagnostics| Failure::Input(diagnostics.to_string()))
}

/// Prints nothing and exits 0 if both do the same; else prints what differs and exits 1.
fn diff(left: &Profile, right: &Profile, format: Format) -> Done {
    let found = compare_profiles(left, right);
    match format {
        Format::Json => say_json(&json!({"left": left.name, "right": right.name, "options": found}))?,
        Format::Human if found.is_empty() => {}
        Format::Human => {
            let rows = found.iter().map(|known| vec![known.option.clone(), side(&known.left), side(&known.right)]);
            let names = if left.name == right.name { ["left", "right"] } else { [&*left.name, &*right.name] };
            say(&table(&["option", names[0], names[1]], &rows.collect::<Vec<_>>()))?;
        }
    }
    Ok(if found.is_empty() { Exit::Fine } else { Exit::Failed })
}

/// The value as a profile file may write it.
fn side(value: &Option<Value>) -> String {
    match value {
        None => "(absent)".to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
