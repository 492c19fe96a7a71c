//! Expectations: from `expect:` and `reproduces:` to data in which every name is resolved.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::diagnostic::{Report, Span};
use super::fields::{Fields, is_pattern, text, value, word};
use super::nodes::{GPU_STATES, NODE_STATES};
use super::profiles;
use super::tree::Tree;
use super::world::World;
use crate::event::{Outcome, Phase, Reason};
use crate::expect::{
    Comparison, EventName, Expectation, Mode, Reproduction, SourcePlace, State, Subject, What, Window,
};
use crate::ids::JobId;
use crate::units::{SimDuration, SimTime};

const SUBJECTS: [&str; 3] = ["job", "node", "gpu"];
const TIMES: [&str; 6] = ["at", "by", "until", "after", "from", "for"];
/// All keys of an expectation on a state; a count has some of them.
const STATE_FIELDS: [&str; 16] = [
    "name", "job", "node", "gpu", "is", "never", "always", "on", "because", "replicas", "at", "by", "until", "after",
    "from", "for",
];
const COUNT_FIELDS: [&str; 12] =
    ["name", "count", "job", "node", "gpu", "is", "at", "by", "until", "after", "from", "for"];

/// A name given to an expectation: where, and the names of what it was lowered to.
type Given = BTreeMap<String, Vec<Arc<str>>>;

/// What expectations are read against.
pub(super) struct Setting<'w> {
    pub world: &'w World,
    pub until: Option<SimTime>,
    /// The folder of the file, for profiles by path.
    pub folder: &'w Path,
}

/// Reads `expect:` and `reproduces:`.
pub(super) fn read(
    file: &Fields<'_>,
    setting: &Setting<'_>,
    report: &mut Report,
) -> (Vec<Expectation>, Vec<Reproduction>) {
    let mut given = Given::new();
    let mut expectations = Vec::new();
    for (index, tree) in file.list("expect", report).iter().enumerate() {
        entry(tree, &format!("expectation-{}", index + 1), setting, &mut given, &mut expectations, report);
    }
    if expectations.is_empty() && !report.has_errors() {
        let help = "add `expect:` with a list such as `- {name: runs, job: chat, is: running, by: 5m}`";
        report.warning(file.place(), "the file expects nothing, so it cannot fail", help);
    }
    let reproductions = file.list("reproduces", report).iter();
    let reproductions = reproductions.filter_map(|tree| reproduction(tree, setting, &given, report)).collect();
    (expectations, reproductions)
}

fn reproduction(tree: &Tree, setting: &Setting<'_>, given: &Given, report: &mut Report) -> Option<Reproduction> {
    let fields = Fields::read(tree, "a reproduction", &["profile", "fails", "and"], report)?;
    let profile = fields.require("profile", "gpustack-0.5-dev", report);
    let profile = profile.and_then(|tree| Some((text(tree, "the name of a profile", report)?, tree.span)));
    if let Some((typed, span)) = profile {
        profiles::profile(typed, span, setting.folder, report);
    }
    let mut fails: Vec<Arc<str>> = Vec::new();
    for (typed, span) in fields.items("fails", "the name of an expectation", report) {
        let exact = given.values().flatten().find(|name| &***name == typed);
        if let Some(exact) = exact {
            fails.push(Arc::clone(exact));
        } else if let Some(several) = given.get(typed) {
            // One that is itself wrong has been told of already.
            let Some(example) = several.first() else { continue };
            let message = format!("`{typed}` is {} expectations, one for each job or node it matches", several.len());
            report.error_with_help(span, message, format!("name those that fail, for example `{example}`"));
        } else {
            report.unknown(span, format!("no expectation is named `{typed}`"), typed, given.keys().map(String::as_str));
        }
    }
    let mut and = Vec::new();
    for (index, tree) in fields.list("and", report).iter().enumerate() {
        entry(tree, &format!("witness-{}", index + 1), setting, &mut Given::new(), &mut and, report);
    }
    if fields.lacks_all(&["fails", "and"]) {
        let help = "add `fails: [name]`, and as a witness `and: [{job: chat, is: running, at: 5m}]`";
        report.error_with_help(fields.place(), "it is not said what shows the report under this profile", help);
    }
    Some(Reproduction { profile: Arc::from(profile?.0), place: place(fields.place(), report), fails, and })
}

fn place(span: Span, report: &Report) -> SourcePlace {
    let (file, line, column) = report.place(span);
    SourcePlace { file, line, column }
}

fn entry(
    tree: &Tree,
    default_name: &str,
    setting: &Setting<'_>,
    given: &mut Given,
    expectations: &mut Vec<Expectation>,
    report: &mut Report,
) {
    let is_count = tree.get("count").is_some();
    let fields = match is_count {
        true => Fields::read(tree, "an expectation on a count", &COUNT_FIELDS, report),
        false => Fields::read(tree, "an expectation", &STATE_FIELDS, report),
    };
    let Some(fields) = fields else { return };
    let name = fields.text("name", "a name", report).unwrap_or(default_name);
    fields.exclusive(&SUBJECTS, "an expectation is about one of them", report);
    let window = window(&fields, setting.until, report);
    let subjects = subjects(&fields, setting.world, report);
    let what = match is_count {
        true => count(&fields, &subjects, window, report),
        false => states(&fields, &subjects, window, setting.world, report),
    };
    let is_one = !SUBJECTS.iter().any(|key| fields.text(key, "a name", &mut Report::default()).is_some_and(is_pattern));
    let place = place(fields.place(), report);
    let mut names: Vec<Arc<str>> = Vec::new();
    for (what, subject) in what {
        let name: Arc<str> = match (is_one, subject) {
            (false, Some(subject)) => Arc::from(format!("{name}[{}]", subject_name(subject, setting.world))),
            _ => Arc::from(name),
        };
        names.push(Arc::clone(&name));
        expectations.push(Expectation { name, place: place.clone(), what });
    }
    if given.insert(name.to_string(), names).is_some() {
        let span = fields.get("name").map_or(fields.place(), |tree| tree.span);
        let message = format!("two expectations are named `{name}`");
        report.error_with_help(span, message, "give each a name of its own");
    }
}

fn subject_name(subject: Subject, world: &World) -> String {
    let name = |name: Option<&Arc<str>>| name.map_or(String::new(), |name| name.to_string());
    match subject {
        Subject::Job(job) => name(world.job_names.get(job.index())),
        Subject::Node(node) => name(world.node_names.get(node.index())),
        Subject::Gpu(gpu) => format!("{}/{}", name(world.node_names.get(gpu.node.index())), gpu.index),
    }
}

fn subjects(fields: &Fields<'_>, world: &World, report: &mut Report) -> Vec<Subject> {
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

/// When: at most one of the ways to say it.
fn window(fields: &Fields<'_>, until: Option<SimTime>, report: &mut Report) -> Window {
    fields.exclusive(&["at", "by", "until", "after", "from"], "each says when in its own way", report);
    if let Some(until) = until {
        for key in TIMES.iter().filter(|key| **key != "for") {
            let mut unreported = Report::default();
            let late = fields.value::<SimTime>(key, &mut unreported).is_some_and(|time| time > until);
            if late {
                let help = format!("write {until} or earlier, or a later `until` of the file");
                report.warning(fields.key_span(key), format!("the run stops at {until}, before this"), help);
            }
        }
    }
    let mut time = |key: &str| fields.value::<SimTime>(key, report);
    let windows = [
        time("at").map(Window::At),
        time("by").map(Window::By),
        time("until").map(Window::Until),
        time("after").map(Window::After),
    ];
    let from = time("from");
    let length = fields.value::<SimDuration>("for", report);
    let throughout = match (from, length) {
        (Some(from), Some(length)) => match from.checked_add(length) {
            Some(to) if !length.is_zero() => Some(Window::Throughout(from, to)),
            Some(_) => {
                let help = "write a longer time, or `at:` for one instant";
                report.error_with_help(fields.key_span("for"), "no time at all", help);
                None
            }
            None => {
                report.error_with_help(
                    fields.key_span("for"),
                    "this ends after the end of time",
                    "write a shorter time",
                );
                None
            }
        },
        (Some(from), None) if !fields.has("for") => {
            let help = format!("add `for: 5m`, or write `after: {from}` for all the rest");
            report.error_with_help(fields.key_span("from"), "it is not said for how long", help);
            None
        }
        (None, Some(_)) if !fields.has("from") => {
            report.error_with_help(fields.key_span("for"), "it is not said from when on", "add `from: 5m`");
            None
        }
        _ => None,
    };
    windows.into_iter().flatten().next().or(throughout).unwrap_or(Window::Unstated)
}

type Lowered = Vec<(What, Option<Subject>)>;

fn states(fields: &Fields<'_>, subjects: &[Subject], window: Window, world: &World, report: &mut Report) -> Lowered {
    let modes = ["is", "never", "always"];
    fields.exclusive(&modes, "an expectation says one thing", report);
    if fields.lacks_all(&SUBJECTS) {
        let help = "add `job: chat`, `node: alpha` or `gpu: alpha/0`, or `count: placed` for a number of events";
        report.error_with_help(fields.place(), "it is not said of what", help);
    }
    let on = fields.get("on").and_then(|tree| world.node(text(tree, "the name of a node", report)?, tree.span, report));
    let because = fields.get("because").and_then(|tree| reason(tree, report));
    let replicas = fields.count("replicas", 1, report);
    if !fields.has("job") {
        for key in ["on", "because", "replicas"].iter().filter(|key| fields.has(key)) {
            report.error_with_help(fields.key_span(key), format!("`{key}` is said of jobs alone"), "leave it out");
        }
    }
    too_many_replicas(fields, subjects, replicas, world, report);
    let Some((key, tree)) = modes.iter().find_map(|key| Some((*key, fields.get(key)?))) else {
        if fields.lacks_all(&modes) {
            let help = "add `is: running`, `never: placed` or `always: ready`";
            report.error_with_help(fields.place(), "it is not said what is expected", help);
        }
        return Vec::new();
    };
    let mode = match key {
        "never" => Mode::Never,
        "always" => Mode::Always,
        _ => Mode::Is,
    };
    let Some(state) = state(fields, tree, report) else { return Vec::new() };
    let holds = match state {
        State::Placed => true,
        State::Phase(phase) => phase.holds_claim(),
        State::Outcome(_) | State::Node(_) | State::Gpu(_) => false,
    };
    if fields.has("on") && fields.has("job") && !holds {
        let message = format!("a job that is {} is on no node", tree.scalar().unwrap_or("so"));
        report.error_with_help(fields.key_span("on"), message, "leave `on` out, or write a state such as `placed`");
    }
    let lower = |subject: &Subject| {
        let what = What::State { subject: *subject, state, mode, on, because, replicas, window };
        (what, Some(*subject))
    };
    subjects.iter().map(lower).collect()
}

fn too_many_replicas(
    fields: &Fields<'_>,
    subjects: &[Subject],
    replicas: Option<u32>,
    world: &World,
    report: &mut Report,
) {
    let Some(wanted) = replicas else { return };
    let of = |job: &JobId| world.replicas.get(job.index()).copied().unwrap_or(1);
    let jobs = subjects.iter().filter_map(|subject| match subject {
        Subject::Job(job) => Some(*job),
        Subject::Node(_) | Subject::Gpu(_) => None,
    });
    if let Some(few) = jobs.into_iter().find(|job| of(job) < wanted) {
        let name = subject_name(Subject::Job(few), world);
        let message = format!("`{name}` has {} replicas, not {wanted}", of(&few));
        report.error_with_help(fields.key_span("replicas"), message, format!("write {} or fewer", of(&few)));
    }
}

/// A state that the subject can be in.
fn state(fields: &Fields<'_>, tree: &Tree, report: &mut Report) -> Option<State> {
    if fields.has("node") {
        return word(tree, "a state of a node", &NODE_STATES, report).map(State::Node);
    }
    if fields.has("gpu") {
        return word(tree, "a state of a GPU", &GPU_STATES, report).map(State::Gpu);
    }
    let phases = Phase::ALL.map(|phase| (phase.name(), State::Phase(phase)));
    let outcomes = Outcome::ALL.map(|outcome| (outcome.name(), State::Outcome(outcome)));
    let words: Vec<(&'static str, State)> =
        phases.into_iter().chain([("placed", State::Placed)]).chain(outcomes).collect();
    word(tree, "a state of a job", &words, report)
}

fn reason(tree: &Tree, report: &mut Report) -> Option<Reason> {
    let words: Vec<(&'static str, Reason)> = Reason::ALL.iter().map(|reason| (reason.name(), *reason)).collect();
    word(tree, "a reason", &words, report)
}

fn count(fields: &Fields<'_>, subjects: &[Subject], window: Window, report: &mut Report) -> Lowered {
    let words: Vec<(&'static str, EventName)> = EventName::ALL.iter().map(|(event, name)| (*name, *event)).collect();
    let event = fields.word("count", "an event", &words, report);
    let is = fields.require("is", "\">= 2\"", report).and_then(|tree| comparison(tree, report));
    let (Some(event), Some(is)) = (event, is) else { return Vec::new() };
    if fields.has("job") && matches!(event, EventName::NodeChanged | EventName::GpuChanged) {
        let help = "say `node: alpha` or `gpu: alpha/0`, or leave `job` out";
        report.error_with_help(fields.key_span("job"), "this event is about no job", help);
    }
    if !SUBJECTS.iter().any(|key| fields.has(key)) {
        return vec![(What::Count { event, subject: None, is, window }, None)];
    }
    let lower = |subject: &Subject| (What::Count { event, subject: Some(*subject), is, window }, Some(*subject));
    subjects.iter().map(lower).collect()
}

/// `2`, `">= 2"` or `"<= 3"`.
fn comparison(tree: &Tree, report: &mut Report) -> Option<Comparison> {
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
                    _ => "write a number, or one behind `>=` or `<=`".to_string(),
                };
                report.error_with_help(tree.span, format!("`{typed}` is not a comparison that is understood"), help);
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
