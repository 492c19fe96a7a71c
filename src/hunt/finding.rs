//! Turns a breach into a file: the smallest scenario that shows the breach, confirmed by a new process.

use super::arena::{Arena, Case, DecisionMaker};
use super::breach::{Breach, Group};
use super::draw::Kind;
use super::properties::Property;
use dryrack_minimize::{CandidateResult, Limits, MinimizeProgress, Numbers, minimize, with_entries};
use dryrack_outside::quoted;
use dryrack_units::{printable, wrapped};

/// The result of one seed.
#[derive(Clone, Debug)]
pub struct SeedResult {
    pub seed: u64,
    /// The world that was drawn.
    pub text: String,
    pub breaches: Vec<Breach>,
    /// Why the world could not be run.
    pub refusal: Option<String>,
}

/// Runs the world of a seed and checks each property.
pub fn hunt_seed(kind: &Kind, seed: u64, properties: &[&dyn Property], arena: &mut Arena) -> SeedResult {
    arena.forget();
    let text = kind.draw(seed);
    let Some(mut case) = Case::of(&text, arena) else {
        let refusal = Some(arena.refusal.take().unwrap_or_else(|| "it cannot be run".to_string()));
        return SeedResult { seed, text, breaches: Vec::new(), refusal };
    };
    let breaches = properties.iter().flat_map(|property| case.breaches(*property)).collect();
    SeedResult { seed, text, breaches, refusal: None }
}

/// Whether a new process repeats the finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// A new process decides in the same way, and the world's own profile meets the expectations.
    WithProfile,
    /// A new process decides in the same way, but the world's own profile does not meet the expectations either.
    Alone,
    /// A new process decides differently, so the finding is not reliable.
    No,
}

/// A finding in the form in which it is written to a file.
#[derive(Clone, Debug)]
pub struct Finding {
    pub group: Group,
    pub rule: &'static str,
    pub account: String,
    pub seed: u64,
    pub text: String,
    pub confirmed: Confirmation,
    pub runs: u64,
}

/// A drawn world, and the program that decides in it.
#[derive(Clone, Copy, Debug)]
pub struct DrawnWorld<'t> {
    /// The program as the user typed it.
    pub outside: &'t str,
    /// The program as a file in the folder of the findings must name it.
    pub outside_in_file: &'t str,
    pub kind: &'t str,
    pub seed: u64,
    pub text: &'t str,
}

/// Minimizes a world to the smallest one that breaks the property in the same manner.
pub fn smallest(
    (property, group): (&dyn Property, &Group),
    DrawnWorld { outside, outside_in_file, kind, seed, text }: DrawnWorld<'_>,
    most_runs: u64,
    arena: &mut Arena,
    watched: &MinimizeProgress,
) -> Option<Finding> {
    arena.forget();
    let found = |text: &str, arena: &mut Arena| -> Option<Breach> {
        let mut case = Case::of(text, arena)?;
        case.breaches(property).into_iter().find(|breach| breach.group() == *group)
    };
    let first = found(text, arena)?;
    // If the profile meets the expectations in the first world, it must also do so in the smallest one.
    let is_held = holds_under_profile(&shown(&first, text), &first, arena);
    let mut still_fails = |text: &str| {
        let Some(breach) = found(text, arena) else {
            return if arena.refusal.take().is_some() { CandidateResult::Invalid } else { CandidateResult::Otherwise };
        };
        match !is_held || holds_under_profile(&shown(&breach, text), &breach, arena) {
            true => CandidateResult::Same,
            false => CandidateResult::Otherwise,
        }
    };
    let limits = Limits { runs: Some(most_runs), numbers: Numbers::Kept };
    let minimized = minimize(text, &mut still_fails, limits, watched)?;
    let breach = found(&minimized.text, arena)?;
    let world = shown(&breach, &minimized.text);
    let is_held = is_held || holds_under_profile(&world, &breach, arena);
    let confirmed = match (is_confirmed(&world, &breach, arena), is_held) {
        (false, _) => Confirmation::No,
        (true, true) => Confirmation::WithProfile,
        (true, false) => Confirmation::Alone,
    };
    let command = format!("dryrack hunt --outside {} --seeds {seed} --world {kind}", quoted(outside));
    let text = written(&world, property.rule(), &breach, (outside, outside_in_file, &command), confirmed)?;
    Some(Finding {
        group: group.clone(),
        rule: property.rule(),
        account: breach.account,
        seed,
        text,
        confirmed,
        runs: minimized.runs,
    })
}

/// The text of the scenario that shows the breach.
fn shown(breach: &Breach, text: &str) -> String {
    breach.shown_in.clone().unwrap_or_else(|| text.to_string())
}

/// The scenario with two kinds of expectations: those that should hold, and those that hold instead.
fn asked(world: &str, breach: &Breach) -> String {
    let mut text = without_expectations(world);
    text.push_str("expect:\n");
    for expected in &breach.expects {
        text.push_str(&format!("  - {{name: {}, {}}}\n", expected.name, expected.what));
    }
    for (index, witness) in breach.witness.iter().enumerate() {
        text.push_str(&format!("  - {{name: witness_{index}, {witness}}}\n"));
    }
    text
}

/// The world without expectations. A drawn world has none; a property may have added some as questions.
fn without_expectations(world: &str) -> String {
    match world.find("\nexpect:") {
        Some(at) => world[..=at].to_string(),
        None => world.to_string(),
    }
}

/// Whether, under the world's profile, all expectations that should hold do so, and not all of the witnesses hold.
fn holds_under_profile(world: &str, breach: &Breach, arena: &mut Arena) -> bool {
    let Some(judged) = arena.judge(&asked(world, breach), DecisionMaker::Profile) else { return false };
    let (expected, witness) = judged.verdicts.split_at(breach.expects.len().min(judged.verdicts.len()));
    expected.iter().all(|verdict| verdict.passed) && !witness.iter().all(|verdict| verdict.passed)
}

/// Whether a new process makes the same decisions as the process that has already decided many worlds.
fn is_confirmed(world: &str, breach: &Breach, arena: &mut Arena) -> bool {
    let Some(judged) = arena.judge(&asked(world, breach), DecisionMaker::Fresh) else { return false };
    let (expected, witness) = judged.verdicts.split_at(breach.expects.len().min(judged.verdicts.len()));
    expected.iter().all(|verdict| !verdict.passed) && witness.iter().all(|verdict| verdict.passed)
}

/// The text of the file: a title, what happened, the world, the expectations, and the release under which they fail. If
/// the profile of the world meets the expectations, the file runs under that profile, and the run under the program
/// becomes a reproduction.
fn written(
    world: &str,
    rule: &str,
    breach: &Breach,
    (outside, outside_in_file, command): (&str, &str, &str),
    confirmed: Confirmation,
) -> Option<String> {
    let titled = with_entries(&without_expectations(world), &[("scenario", rule)])?;
    let (title, rest) = titled.split_once('\n')?;
    let mut text = format!("{title}\n");
    let account = format!("Under {outside}: {}", breach.account.replace('\n', " "));
    for line in wrapped(&printable(&account), 116) {
        text.push_str(&format!("# {line}\n"));
    }
    text.push_str(&format!("# Found by `{command}` and minimized.\n"));
    // Quotation marks of JSON are valid in YAML.
    let program = serde_json::Value::from(outside_in_file).to_string();
    if confirmed == Confirmation::Alone {
        text.push_str(
            "# The profile of this file does not meet the expectation either, so the program decides here.\n",
        );
        text.push_str(&format!("outside: {program}\n"));
    }
    text.push_str(rest);
    text.push_str("expect:\n");
    for expected in &breach.expects {
        text.push_str(&format!("  - {{name: {}, {}}}\n", expected.name, expected.what));
    }
    if confirmed == Confirmation::WithProfile {
        let fails: Vec<&str> = breach.expects.iter().map(|expected| expected.name).collect();
        text.push_str(&format!("reproduces:\n  - outside: {program}\n    fails: [{}]\n    and:\n", fails.join(", ")));
        for witness in &breach.witness {
            text.push_str(&format!("      - {{{witness}}}\n"));
        }
    }
    Some(text)
}
