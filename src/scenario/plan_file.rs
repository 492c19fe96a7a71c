//! Plan files: over a scenario, the factors that are varied, and what each alternative is held to.
//!
//! What is wrong with a plan is told as of a scenario. Its `constraints` are expectations, read anew with each alternative
//! because names may differ between them: [`super::Options::plan`] says of which plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::diagnostic::{Diagnostics, Report, Span};
use super::fields::{Fields, text, value};
use super::load::{Options, load};
use super::params::is_name;
use super::parse::parse;
use super::seeds;
use super::source::read_text;
use super::tree::{Entry, Node, Tree};
use crate::expect::Share;

const FIELDS: [&str; 8] = ["plan", "scenario", "factors", "seeds", "minimize", "constraints", "method", "budget"];
/// Alternatives of one plan.
const MAX_CELLS: usize = 1_000_000;
/// Alternatives among which is searched.
const MAX_SEARCHED: usize = 20_000;
/// Values of one range.
const MAX_VALUES: u64 = 100_000;

/// A plan that was found to be right by itself; its alternatives are checked as they are run.
#[derive(Clone, Debug)]
pub struct PlanFile {
    /// The question, as a sentence.
    pub title: String,
    /// The file as it was named, and its text.
    pub name: Arc<str>,
    pub text: Arc<str>,
    /// From where we stand.
    pub scenario: PathBuf,
    /// The last varies the fastest.
    pub factors: Vec<Factor>,
    /// One run of each alternative with each: the same numbers are drawn for all of them. Empty for the scenario's own.
    pub seeds: Vec<u64>,
    pub minimize: Option<Objective>,
    /// Of each constraint, with which part of the seeds it has to hold.
    pub asked: Vec<Share>,
    pub method: Method,
    /// Runs at most, of all seeds and alternatives.
    pub runs: Option<u64>,
}

/// One thing that is varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    pub name: Arc<str>,
    /// What is set, as `--set` has it: `params.workers`.
    pub path: Arc<str>,
    /// As they would be typed there.
    pub values: Vec<Arc<str>>,
}

/// What is to be as small as can be; each is known before anything is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    Gpus,
    Nodes,
    /// Of all nodes that have a price.
    PricePerHour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Every alternative with every seed.
    Sweep,
    /// As few as show which is the cheapest that keeps the constraints.
    Search,
}

impl Objective {
    pub const ALL: [(&'static str, Objective); 3] =
        [("gpus", Objective::Gpus), ("nodes", Objective::Nodes), ("price_per_hour", Objective::PricePerHour)];

    pub fn name(self) -> &'static str {
        Objective::ALL.iter().find(|(_, objective)| *objective == self).expect("each has a name").0
    }
}

impl PlanFile {
    pub fn cells(&self) -> usize {
        self.factors.iter().map(|factor| factor.values.len()).product()
    }

    /// The place of each factor's value in the alternative of this number.
    pub fn places(&self, mut cell: usize) -> Vec<usize> {
        let mut places = vec![0; self.factors.len()];
        for (place, factor) in places.iter_mut().zip(&self.factors).rev() {
            *place = cell % factor.values.len();
            cell /= factor.values.len();
        }
        places
    }

    /// The value of each factor in the alternative of this number.
    pub fn values(&self, cell: usize) -> impl Iterator<Item = (&Factor, &Arc<str>)> {
        self.factors.iter().zip(self.places(cell)).map(|(factor, place)| (factor, &factor.values[place]))
    }

    /// `workers=8, profile=fifo`
    pub fn cell_name(&self, cell: usize) -> String {
        let parts: Vec<String> = self.values(cell).map(|(factor, value)| format!("{}={value}", factor.name)).collect();
        parts.join(", ")
    }

    /// What `--set` would say of the alternative.
    pub fn set(&self, cell: usize) -> Vec<String> {
        self.values(cell).map(|(factor, value)| format!("{}={value}", factor.path)).collect()
    }

    /// What the scenario is loaded with for the alternative.
    pub fn options(&self, cell: usize, seed: Option<u64>, base: &Options) -> Options {
        Options {
            set: self.set(cell),
            seed: seed.map(|seed| seed.to_string()),
            plan: Some((Arc::clone(&self.name), Arc::clone(&self.text))),
            ..base.clone()
        }
    }
}

/// Reads a plan, and the scenario with each value of each factor once, so that what is wrong with any of them is told
/// before anything is run. Gives what is odd besides.
pub fn load_plan(path: &Path, base: &Options) -> Result<(PlanFile, Diagnostics), Diagnostics> {
    let mut report = Report::default();
    let plan = read_text(path, None, &mut report).and_then(|(source, text)| {
        let tree = parse(&text, source, &mut report)?;
        read(&tree, path, text, &mut report)
    });
    let (plan, mut found) = match (plan, report.has_errors()) {
        (Some(plan), false) => (plan, report.finish()),
        _ => return Err(report.finish()),
    };
    for cell in probes(&plan) {
        match load(&plan.scenario, &plan.options(cell, plan.seeds.first().copied(), base)) {
            Ok(loaded) => found.merge(loaded.warnings),
            Err(faults) => {
                found.merge(faults);
                return Err(found);
            }
        }
    }
    Ok((plan, found))
}

/// The first alternative, and those that differ from it in one factor.
fn probes(plan: &PlanFile) -> Vec<usize> {
    let mut probes = vec![0];
    let mut stride = 1;
    for factor in plan.factors.iter().rev() {
        probes.extend((1..factor.values.len()).map(|value| value * stride));
        stride *= factor.values.len();
    }
    probes
}

fn read(tree: &Tree, path: &Path, whole: Arc<str>, report: &mut Report) -> Option<PlanFile> {
    let file = Fields::read(tree, "a plan", &FIELDS, report)?;
    let title = file.require("plan", "How few GPUs keep the waiting short?", report);
    let title = title.and_then(|tree| text(tree, "a question", report));
    let scenario = file.require("scenario", "nightly.yaml", report);
    let scenario = scenario.and_then(|tree| text(tree, "the path of a scenario", report));
    let factors = match file.require("factors", "{workers: 4..16, profile: [fifo, sjf]}", report) {
        Some(tree) => factors(tree, report),
        None => Vec::new(),
    };
    let seeds = file.get("seeds").map_or(Vec::new(), |tree| seeds::seeds(tree, report));
    let minimize = file.word("minimize", "what can be made small", &Objective::ALL, report);
    let asked = file.list("constraints", report).iter().map(|tree| asked(tree, report)).collect();
    let methods = [("sweep", Method::Sweep), ("search", Method::Search)];
    let method = file.word("method", "a method", &methods, report).unwrap_or(Method::Sweep);
    if method == Method::Search {
        for (key, help) in [
            ("minimize", "add `minimize: gpus`, `nodes` or `price_per_hour`"),
            ("constraints", "add what must hold, such as `constraints: [p95(queue_wait) <= 10m]`"),
        ] {
            if file.lacks_all(&[key]) {
                let message = format!("a search lacks `{key}`");
                report.error_with_help(file.key_span("method"), message, help);
            }
        }
    }
    let cells: usize = factors.iter().map(|factor| factor.values.len()).product();
    if method == Method::Search && cells > MAX_SEARCHED {
        let message = format!("a search among {cells} alternatives; at most {MAX_SEARCHED} are understood");
        report.error_with_help(file.key_span("factors"), message, "leave out values, or make several plans");
    }
    let runs = file.get("budget").and_then(|tree| budget(tree, report));
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    Some(PlanFile {
        title: title?.to_string(),
        name: Arc::from(path.display().to_string()),
        text: whole,
        scenario: folder.join(scenario?),
        factors,
        seeds,
        minimize,
        asked,
        method,
        runs,
    })
}

/// What a constraint says of the seeds; all of them where it says nothing.
fn asked(tree: &Tree, report: &mut Report) -> Share {
    let mut alone = Tree { span: tree.span, node: Node::List(vec![tree.clone()]) };
    seeds::take_shares(&mut alone, true, report).first().map_or(Share::ALL, |known| known.share)
}

fn budget(tree: &Tree, report: &mut Report) -> Option<u64> {
    let fields = Fields::read(tree, "a budget", &["runs"], report)?;
    let runs = fields.require("runs", "500", report)?;
    let number: u64 = value(runs, report)?;
    if number == 0 {
        report.error_with_help(runs.span, "nothing can be said without a run", "write 1 or more");
    }
    Some(number)
}

fn factors(tree: &Tree, report: &mut Report) -> Vec<Factor> {
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected factors as a map, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `{workers: 4..16, profile: [fifo, sjf]}`");
        return Vec::new();
    };
    let factors: Vec<Factor> = entries.iter().filter_map(|entry| factor(entry, report)).collect();
    let cells = factors.iter().try_fold(1usize, |cells, factor| cells.checked_mul(factor.values.len()));
    if cells.is_none_or(|cells| cells > MAX_CELLS) {
        let message = format!("these are more than {MAX_CELLS} alternatives");
        report.error_with_help(tree.span, message, "leave out values, or make several plans");
        return Vec::new();
    }
    if factors.is_empty() && !report.has_errors() {
        report.error_with_help(tree.span, "nothing is varied", "write `{workers: 4..16}`");
    }
    factors
}

/// `workers: [4, 8]`, `workers: 4..64 by 4`, or `workers: {set: nodes.0.count, values: [4, 8]}`
fn factor(Entry { key, key_span, value: given }: &Entry, report: &mut Report) -> Option<Factor> {
    if !is_name(key) {
        let help = "use letters, digits, `_` and `-`, and say what it sets: `{set: nodes.alpha.count, values: [1, 2]}`";
        report.error_with_help(*key_span, format!("`{key}` cannot be the name of a factor"), help);
        return None;
    }
    let own = match key.as_str() {
        "profile" | "until" => key.clone(),
        name => format!("params.{name}"),
    };
    let (path, values) = match &given.node {
        Node::Map(_) => {
            let fields = Fields::read(given, "a factor", &["set", "values"], report)?;
            let path = fields.text("set", "what is set, such as `nodes.alpha.count`", report).unwrap_or(&own);
            (path.to_string(), fields.require("values", "[4, 8]", report)?)
        }
        Node::List(_) | Node::Scalar { .. } => (own, given),
    };
    let values = match &values.node {
        Node::List(items) => listed(items, values.span, report)?,
        _ => range(text(values, "values such as [4, 8] or 4..64 by 4", report)?, values.span, report)?,
    };
    Some(Factor { name: Arc::from(key.as_str()), path: Arc::from(path), values })
}

fn listed(items: &[Tree], span: Span, report: &mut Report) -> Option<Vec<Arc<str>>> {
    if items.is_empty() {
        report.error_with_help(span, "a factor without values", "write `[4, 8]`, or leave it out");
        return None;
    }
    let mut values: Vec<Arc<str>> = Vec::new();
    for item in items {
        let typed = text(item, "a single value", report)?;
        if values.iter().any(|known| **known == *typed) {
            report.error_with_help(item.span, format!("`{typed}` stands there twice"), "keep one of the two");
            return None;
        }
        values.push(Arc::from(typed));
    }
    Some(values)
}

fn range(typed: &str, span: Span, report: &mut Report) -> Option<Vec<Arc<str>>> {
    let (ends, step) = match typed.split_once(" by ") {
        Some((ends, step)) => (ends, step.trim().parse::<u64>().ok()),
        None => (typed, Some(1)),
    };
    let ends = ends
        .split_once("..")
        .and_then(|(first, last)| Some((first.trim().parse::<u64>().ok()?, last.trim().parse::<u64>().ok()?)));
    let values = match (ends, step) {
        (Some((first, last)), Some(step)) if first <= last && step > 0 && (last - first) / step < MAX_VALUES => {
            (first..=last).step_by(step as usize).map(|value| Arc::from(value.to_string())).collect()
        }
        _ => {
            let help = "write `4..16`, both included, `4..64 by 4`, or a list such as `[4, 8]`";
            report.error_with_help(span, format!("`{typed}` are no values of a factor"), help);
            return None;
        }
    };
    Some(values)
}

/// The `constraints` of a plan's text, as a list from which `in:` was taken.
pub(super) fn constraints((name, whole): &(Arc<str>, Arc<str>), report: &mut Report) -> Option<Tree> {
    let source = report.add_source(&**name, Arc::clone(whole));
    let mut tree = parse(whole, source, report)?;
    let Node::Map(entries) = &mut tree.node else { return None };
    let at = entries.iter().position(|entry| entry.key == "constraints")?;
    let mut list = entries.swap_remove(at).value;
    seeds::take_shares(&mut list, true, report);
    Some(list)
}
