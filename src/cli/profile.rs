//! `dryrack profile`: lists profiles, shows one in full, and compares two.

use std::path::Path;
use std::sync::Arc;

use clap::Subcommand;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, print, print_json, warn};
use super::profile_text::{profile_text, sentence};
use dryrack_control::Profile;
use dryrack_nearest::hint;
use dryrack_profile::{compare_profiles, load_profile, option_reference, profile_names, read_profile};
use dryrack_report::table;
use dryrack_scheduler::{FilterName, OrderKey, ScorerName, Variable, order_variables, placement_variables};
use dryrack_units::wrapped;

#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// List every profile with a one-sentence description
    List,
    /// Show one profile stage by stage, merged with its bases
    Show {
        /// Name of the profile, as `list` prints it, or the path of a file
        name: String,
    },
    /// List the filters, scorers and keys of the order that a profile can name under `scheduler:`
    Stages,
    /// List the options that a profile file can state, what each takes, and what it does
    Options {
        /// List only options below this one, such as `scheduler.offers` or `flow.polled`
        #[arg(default_value = "")]
        below: String,
    },
    /// List the variables that an expression in a profile can read
    Expressions,
    /// Print the options in which two profiles differ, each merged with its bases; exit status 1 if they differ
    Diff {
        /// Name of the first profile, as `list` prints it, or the path of a file
        left: String,
        /// Name or path of the second profile
        right: String,
    },
}

pub fn profile(command: &ProfileCommand, format: Format) -> ExitResult {
    match command {
        ProfileCommand::List => {
            let profiles = profile_names().map(find).collect::<Result<Vec<_>, Failure>>()?;
            match format {
                Format::Json => print_json(&profiles)?,
                Format::Human => {
                    let rows: Vec<Vec<String>> = (profiles.iter())
                        .map(|profile| {
                            let kind = if profile.historic { "historic" } else { "" };
                            vec![profile.name.clone(), kind.to_string(), profile.title.clone()]
                        })
                        .collect();
                    print(&table(&["profile", "", "what it does"], &rows))?;
                }
            }
        }
        ProfileCommand::Show { name } => {
            // A profile whose options contradict each other is shown too, because its errors say so.
            let (profile, faults) = read_profile(name, Path::new(""));
            if let Some(profile) = &profile {
                match format {
                    Format::Json => print_json(profile)?,
                    Format::Human => print(&profile_text(&used(profile)?))?,
                }
            }
            if faults.has_errors() {
                return Err(Failure::Input(faults.to_string()));
            }
            warn(&faults.to_string());
        }
        ProfileCommand::Stages => {
            let filters = FilterName::ALL.into_iter().map(|filter| ("filters", filter.name()));
            let scorers = ScorerName::ALL.iter().map(|scorer| ("scorers", scorer.name()));
            let keys = OrderKey::ALL.iter().map(|key| ("order", key.name()));
            let stages = filters.chain(scorers).chain(keys).map(|(of, name)| (of, name, sentence(name).unwrap_or("")));
            match format {
                Format::Json => {
                    let stage = |(of, name, about)| json!({"in": of, "stage": name, "about": about});
                    print_json(&stages.map(stage).collect::<Vec<_>>())?;
                }
                Format::Human => {
                    let rows = stages.map(|(of, name, about)| [name, of, about].map(str::to_string).to_vec());
                    print(&table(&["stage", "in", "about"], &rows.collect::<Vec<_>>()))?;
                }
            }
        }
        ProfileCommand::Options { below } => options(below, format)?,
        ProfileCommand::Expressions => {
            let of_placement = placement_variables().iter().map(|word| (word, "filters and scorers"));
            let words = of_placement.chain(order_variables().iter().map(|word| (word, "order")));
            match format {
                Format::Json => {
                    let word = |(word, of): (&Variable, _)| json!({"word": word.path, "in": of, "is": word.is.name(), "about": word.about});
                    print_json(&words.map(word).collect::<Vec<_>>())?;
                }
                Format::Human => {
                    let row =
                        |(word, of): (&Variable, &str)| [word.path, of, word.is.name(), word.about].map(str::to_string);
                    let rows: Vec<Vec<String>> = words.map(|word| row(word).to_vec()).collect();
                    print(&table(&["word", "in", "is", "about"], &rows))?;
                }
            }
        }
        ProfileCommand::Diff { left, right } => return diff(&*find(left)?, &*find(right)?, format),
    }
    Ok(Exit::Fine)
}

/// Prints the options whose path is `below` or begins with it.
fn options(below: &str, format: Format) -> Result<(), Failure> {
    const WIDTH: usize = 100;
    let all = option_reference();
    let is_below = |path: &str| {
        let rest = path.strip_prefix(below);
        rest.is_some_and(|rest| below.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let found: Vec<_> = all.iter().filter(|option| is_below(&option.path)).collect();
    if found.is_empty() {
        let help = hint(below, all.iter().map(|option| &*option.path)).unwrap_or_default();
        return Err(Failure::Input(format!("error: no profile has the option `{below}`; {help}\n")));
    }
    match format {
        Format::Json => print_json(&found)?,
        Format::Human => {
            let mut text = String::new();
            let mut write = |indent: &str, words: &str| {
                for line in wrapped(words, WIDTH - indent.len()).iter().filter(|line| !line.is_empty()) {
                    text += &format!("{indent}{line}\n");
                }
            };
            for option in found {
                write("", &format!("{}: {}", option.path, option.takes));
                write("    ", &option.about);
                for value in &option.values {
                    write("        ", &format!("{}: {}", value.value, value.about));
                }
            }
            print(&text)?;
        }
    }
    Ok(())
}

/// The options of a profile that its flow uses. The rules of kube-scheduler take the place of the stages of `scheduler:`,
/// so of these, only options that differ from the base are shown.
fn used(profile: &Profile) -> Result<Value, Failure> {
    const BASE: &str = "first-fit";
    let value_of = |profile: &Profile| profile.to_data();
    let mut value = value_of(profile);
    if profile.flow.decides_by_scheduler() {
        return Ok(value);
    }
    let base = value_of(&*find(BASE)?);
    if let Some(scheduler) = value["scheduler"].as_object_mut() {
        scheduler.retain(|key, option| base["scheduler"][key] != *option);
    }
    let mut shown = json!({"base": BASE});
    if let (Value::Object(shown), Value::Object(value)) = (&mut shown, value) {
        shown.extend(value);
    }
    Ok(shown)
}

fn find(name: &str) -> Result<Arc<Profile>, Failure> {
    load_profile(name, Path::new("")).map_err(|diagnostics| Failure::Input(diagnostics.to_string()))
}

/// Prints nothing and exits with 0 if the profiles have the same options. Otherwise prints the differences and exits
/// with 1.
fn diff(left: &Profile, right: &Profile, format: Format) -> ExitResult {
    let found = compare_profiles(left, right);
    match format {
        Format::Json => print_json(&json!({"left": left.name, "right": right.name, "options": found}))?,
        Format::Human if found.is_empty() => {}
        Format::Human => {
            let rows = found.iter().map(|known| vec![known.option.clone(), side(&known.left), side(&known.right)]);
            let names = if left.name == right.name { ["left", "right"] } else { [&*left.name, &*right.name] };
            print(&table(&["option", names[0], names[1]], &rows.collect::<Vec<_>>()))?;
        }
    }
    Ok(if found.is_empty() { Exit::Fine } else { Exit::Failed })
}

/// The value in the form of a profile file.
fn side(value: &Option<Value>) -> String {
    match value {
        None => "(absent)".to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
