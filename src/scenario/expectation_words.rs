//! What the readers of expectations share: the context, and jobs, states, reasons and comparisons.

use std::path::Path;

use super::NODE_STATES;
use super::nodes::GPU_STATES;
use super::world::World;
use dryrack_event::{Outcome, OwnReason, Phase, Reason};
use dryrack_expect::{Comparison, State, Subject, Unplaced};
use dryrack_fleet::InstanceState;
use dryrack_units::SimTime;
use dryrack_workload::Arrival;
use dryrack_yaml::{Fields, Report, Tree, is_pattern, text, value, word};

/// The context in which expectations are read.
pub(super) struct ReadContext<'w> {
    pub world: &'w World,
    /// Arrivals in order of their ids.
    pub arrivals: &'w [Arrival],
    pub until: Option<SimTime>,
    /// Folder of the file, for profiles that are given by path.
    pub folder: &'w Path,
    /// The file's setting for jobs that can never run.
    pub unplaced: Unplaced,
    /// Whether a plan varies the scenario. A plan has its own constraints.
    pub is_varied: bool,
}

pub(super) fn subjects(fields: &Fields<'_>, world: &World, report: &mut Report) -> Vec<Subject> {
    let mut subjects = Vec::new();
    if let (Some(typed), Some(tree)) = (fields.text("job", "the name of a job", report), fields.get("job")) {
        subjects.extend(world.jobs(typed, tree.span, report).into_iter().map(Subject::Job));
    }
    if let (Some(typed), Some(tree)) = (fields.text("node", "the name of a node", report), fields.get("node")) {
        if !is_pattern(typed) && world.node_names.find(typed).is_none() && typed.contains('/') {
            let help = format!("write `gpu: {typed}`");
            report.error_with_help(tree.span, format!("`{typed}` is a GPU, not a node"), help);
        } else {
            subjects.extend(world.nodes(typed, tree.span, report).into_iter().map(Subject::Node));
        }
    }
    if let (Some(typed), Some(tree)) = (fields.text("gpu", "a GPU such as alpha/0", report), fields.get("gpu")) {
        subjects.extend(world.gpus(typed, tree.span, report).into_iter().map(Subject::Gpu));
    }
    subjects
}

/// Parses a state that the subject can be in.
pub(super) fn state_of(fields: &Fields<'_>, tree: &Tree, report: &mut Report) -> Option<State> {
    if fields.has("node") {
        let nodes = NODE_STATES.into_iter().map(|(name, state)| (name, State::Node(state)));
        let instances = InstanceState::ALL.into_iter().map(|state| (state.name(), State::Instance(state)));
        let holding = [(HOLDING, State::Holding(Comparison::AtLeast(1)))];
        let words: Vec<(&'static str, State)> = nodes.chain(instances).chain(holding).collect();
        return word(tree, "a state of a node", &words, report);
    }
    if fields.has("gpu") {
        return word(tree, "a state of a GPU", &GPU_STATES, report).map(State::Gpu);
    }
    let phases = Phase::ALL.map(|phase| (phase.name(), State::Phase(phase)));
    let outcomes = Outcome::ALL.map(|outcome| (outcome.name(), State::Outcome(outcome)));
    let words: Vec<(&'static str, State)> =
        phases.into_iter().chain([("placed", State::Placed)]).chain(outcomes).collect();
    if let Some(meant) = tree.scalar().and_then(|typed| lookup(&WORDS_OF_OTHERS, typed)) {
        let message = format!("`{}` is not a state of a job", tree.scalar().unwrap_or(""));
        report.error_with_help(tree.span, message, format!("write `{meant}`"));
        return None;
    }
    word(tree, "a state of a job", &words, report)
}

/// States of jobs in other programs, and what they are called here.
const WORDS_OF_OTHERS: [(&str, &str); 12] = [
    ("deployed", "running"),
    ("done", "completed"),
    ("error", "failed"),
    ("finished", "ended"),
    ("provisioning", "preparing"),
    ("pulling", "preparing"),
    ("queued", "pending"),
    ("started", "running"),
    ("submitted", "pending"),
    ("succeeded", "completed"),
    ("terminated", "ended"),
    ("waiting", "pending"),
];

fn lookup(table: &[(&str, &'static str)], typed: &str) -> Option<&'static str> {
    table.iter().find(|(word, _)| *word == typed).map(|(_, meant)| *meant)
}

pub(super) fn reason(tree: &Tree, report: &mut Report) -> Option<Reason> {
    let typed = text(tree, "a reason", report)?;
    let known = Reason::ALL.iter().find(|reason| reason.name() == typed).copied();
    let own = || OwnReason::new(typed).ok().filter(|_| report.is_declared(typed)).map(Reason::Own);
    let found = known.or_else(own);
    if found.is_none() {
        let declared: Vec<String> = report.declared().map(str::to_string).collect();
        let names = Reason::ALL.iter().map(|reason| reason.name()).chain(declared.iter().map(String::as_str));
        report.unknown(tree.span, format!("`{typed}` is not a reason"), typed, names);
    }
    found
}

/// Reads `2`, `">= 2"` or `"<= 3"`.
pub(super) fn comparison(tree: &Tree, report: &mut Report) -> Option<Comparison> {
    let typed = text(tree, "a number such as 2, \">= 2\" or \"<= 3\"", report)?;
    let make: fn(u64) -> Comparison = match typed.trim_start_matches(['<', '>', '=', ' ']) {
        rest if rest.len() == typed.len() => return value::<u64>(tree, report).map(Comparison::Exactly),
        rest => match typed[..typed.len() - rest.len()].trim() {
            ">=" => Comparison::AtLeast,
            "<=" => Comparison::AtMost,
            "=" | "==" => Comparison::Exactly,
            sign => {
                let help = match (sign, rest.trim().parse::<u64>()) {
                    (">", Ok(number)) => format!("write \">= {}\"", number.saturating_add(1)),
                    ("<", Ok(number)) => format!("write \"<= {}\"", number.saturating_sub(1)),
                    _ => "write a number, or a number after `>=` or `<=`".to_string(),
                };
                report.error_with_help(tree.span, format!("`{typed}` is not a comparison"), help);
                return None;
            }
        },
    };
    let number = typed.trim_start_matches(['<', '>', '=', ' ']);
    match number.parse() {
        Ok(number) => Some(make(number)),
        Err(_) => {
            report.error_with_help(tree.span, format!("`{number}` is not a whole number"), "write \">= 2\"");
            None
        }
    }
}

/// The word for the state of a node on which replicas are placed.
pub(super) const HOLDING: &str = "holding";
