//! Expectations: converts `expect:` and `reproduces:` to data in which every name is resolved.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::elsewhere::elsewhere;
use super::expectation_blocks;
use super::expectation_window::{self, ForKey, TIMES};
use super::expectation_words::{HOLDING, ReadContext, comparison, reason, state_of, subjects};
use super::metric_text;
use super::options::Varying;
use super::plan_constraints;
use super::world::World;
use dryrack_event::Reason;
use dryrack_expect::{
    Comparison, CountedJobs, EventName, Expectation, ExpectationKind, Judgement, Mode, ReproducedUnder, Reproduction,
    Restriction, SourcePlace, State, Subject, Unplaced,
};
use dryrack_ids::JobId;
use dryrack_units::SimTime;
use dryrack_yaml::{Fields, Node, Report, Span, Tree, is_pattern, text, word};

const SUBJECTS: [&str; 3] = ["job", "node", "gpu"];
const MODES: [&str; 3] = ["is", "never", "always"];

/// The forms of an expectation. Each has a key that identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    State,
    Count,
    Reason,
    Preemption,
    Evaluation,
    Metric,
}

impl Form {
    const ALL: [Form; 6] = [Form::State, Form::Count, Form::Reason, Form::Preemption, Form::Evaluation, Form::Metric];

    fn of(tree: &Tree) -> Form {
        let mut keyed = Form::ALL.into_iter().skip(1);
        match &tree.node {
            Node::Scalar { .. } => Form::Metric,
            _ => keyed.find(|form| tree.get(form.keys()[1]).is_some()).unwrap_or(Form::State),
        }
    }

    /// Name of the form in messages about unknown keys.
    fn called(self) -> &'static str {
        match self {
            Form::State => "an expectation",
            Form::Count => "an expectation on a count",
            Form::Reason => "an expectation on a reason",
            Form::Preemption => "an expectation on a preemption",
            Form::Evaluation => "an evaluation",
            Form::Metric => "an expectation on a metric",
        }
    }

    /// All keys of the form except those that state a time. The second key identifies the form.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Form::State => {
                &["name", "job", "node", "gpu", "is", "never", "always", "on", "blocks", "because", "replicas", "of"]
            }
            Form::Count => &["name", "count", "job", "node", "gpu", "is", "because"],
            Form::Reason => &["name", "reason", "job", "node", "gpu", "is", "never"],
            Form::Preemption => &["name", "preempted_by", "job", "is"],
            Form::Evaluation => &["name", "evaluate", "is", "because", "at"],
            Form::Metric => &["name", "metric", "of"],
        }
    }

    fn fields(self) -> Vec<&'static str> {
        let times: &[&str] = match self {
            Form::State | Form::Count | Form::Reason | Form::Preemption => &TIMES,
            Form::Evaluation | Form::Metric => &[],
        };
        self.keys().iter().chain(times).copied().collect()
    }
}

/// Every word of the grammar. The reference documentation has an example of each.
pub fn expectation_words() -> Vec<&'static str> {
    let mut words: Vec<&str> = Form::ALL.iter().flat_map(|form| form.fields()).collect();
    words.extend(["given", "cancelled", "profile", "fails", "and"]);
    words.extend(Judgement::ALL.map(|(_, name)| name));
    words.extend(["mean", "min", "max", "sum", "p95"]);
    words.extend(metric_text::RESTRICTIONS);
    words.sort_unstable();
    words.dedup();
    words
}

/// The names of expectations in the file, each with the names of the expectations that were made from it.
type NamesInUse = BTreeMap<String, Vec<Arc<str>>>;

/// Reads `expect:` and `reproduces:`.
pub(super) fn read(
    file: &Fields<'_>,
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> (Vec<Expectation>, Vec<Reproduction>) {
    let mut given = NamesInUse::new();
    let mut expectations = Vec::new();
    for (index, tree) in file.list("expect", report).iter().enumerate() {
        entry(tree, &format!("expectation-{}", index + 1), setting, &mut given, &mut expectations, report);
    }
    if expectations.is_empty() && !setting.is_varied && !report.has_errors() {
        let help = "add `expect:` with a list such as `- {name: runs, job: chat, is: running, by: 5m}`";
        let message = match setting.unplaced {
            Unplaced::Fail => "the file has no expectations, so it fails only if a job can never run",
            Unplaced::Ignore => "the file has no expectations, so it cannot fail",
        };
        report.warning(file.place(), message, help);
        if setting.unplaced == Unplaced::Fail {
            let name: Arc<str> = Arc::from("every job can run if all nodes are ready and empty");
            let place = place(file.place(), report);
            expectations.push(Expectation {
                name: Arc::clone(&name),
                entry: name,
                place,
                what: ExpectationKind::EachCanRun,
            });
        }
    }
    let reproductions = file.list("reproduces", report).iter();
    let reproductions = reproductions.filter_map(|tree| reproduction(tree, setting, &given, report)).collect();
    (expectations, reproductions)
}

/// Reads the constraints of a plan.
pub(super) fn constraints(plan: &Varying, setting: &ReadContext<'_>, report: &mut Report) -> Vec<Expectation> {
    let mut constraints = Vec::new();
    let Some(Tree { node: Node::List(items), .. }) = plan_constraints::constraints(plan, report) else {
        return constraints;
    };
    for (index, tree) in items.iter().enumerate() {
        let name = metric_of(tree).map_or_else(|| format!("constraint-{}", index + 1), str::to_string);
        entry(tree, &name, setting, &mut NamesInUse::new(), &mut constraints, report);
    }
    // A budget is kept most easily by a fleet on which most jobs can never run.
    if setting.unplaced == Unplaced::Fail && !constraints.is_empty() && !constraints.iter().any(counts_unplaced) {
        let name: Arc<str> = Arc::from("every job can run");
        let place =
            place(plan_constraints::constraints(plan, report).map_or(Span::default(), |tree| tree.span), report);
        constraints.push(Expectation {
            name: Arc::clone(&name),
            entry: name,
            place,
            what: ExpectationKind::EachCanRun,
        });
    }
    constraints
}

/// Whether a constraint already says what is asked of jobs that are not placed: it bounds a wait, or counts jobs.
fn counts_unplaced(constraint: &Expectation) -> bool {
    let ExpectationKind::Metric(check) = &constraint.what else { return false };
    ["wait", "placed", "jobs_"].iter().any(|word| check.text.contains(word))
}

/// The text of `{metric: p95(queue_wait) <= 30m, in: ">= 95%"}`, which names the constraint unless it is of some jobs only.
fn metric_of(tree: &Tree) -> Option<&str> {
    let Node::Map(entries) = &tree.node else { return None };
    let of = |key: &str| entries.iter().find(|entry| entry.key == key);
    of("metric").filter(|_| of("of").is_none())?.value.scalar()
}

fn reproduction(
    tree: &Tree,
    setting: &ReadContext<'_>,
    given: &NamesInUse,
    report: &mut Report,
) -> Option<Reproduction> {
    let fields = Fields::read(tree, "a reproduction", &["profile", "outside", "fails", "and"], report)?;
    let under = under(&fields, setting, report);
    let mut fails: Vec<Arc<str>> = Vec::new();
    for (typed, span) in fields.items("fails", "the name of an expectation", report) {
        let exact = given.values().flatten().find(|name| &***name == typed);
        if let Some(exact) = exact {
            fails.push(Arc::clone(exact));
        } else if let Some(several) = given.get(typed) {
            // An expectation that is itself wrong has already been reported.
            let Some(example) = several.first() else { continue };
            let message = format!("`{typed}` is {} expectations, one for each matching job or node", several.len());
            report.error_with_help(span, message, format!("name the ones that fail, for example `{example}`"));
        } else {
            report.unknown(span, format!("no expectation is named `{typed}`"), typed, given.keys().map(String::as_str));
        }
    }
    let mut and = Vec::new();
    for (index, tree) in fields.list("and", report).iter().enumerate() {
        entry(tree, &format!("witness-{}", index + 1), setting, &mut NamesInUse::new(), &mut and, report);
    }
    if fields.lacks_all(&["fails", "and"]) {
        let help = "add `fails: [name]`, and a witness such as `and: [{job: chat, is: running, at: 5m}]`";
        report.error_with_help(fields.place(), "the expectations that show the reported bug are missing", help);
    } else if fails.is_empty() && !report.has_errors() {
        let help = "add `fails: [name]`";
        report.error_with_help(fields.place(), "the expectation that fails is missing", help);
    } else if and.is_empty() && !report.has_errors() {
        let help = "add what the report describes, such as `and: [{job: chat, is: running, on: alpha, at: 5m}]`";
        let message = "there is no witness: the expectation could fail for a reason other than the reported one";
        report.error_with_help(fields.place(), message, help);
    }
    Some(Reproduction { under: under?, place: place(fields.place(), report), fails, and })
}

/// Reads `profile:` or `outside:` of a reproduction.
fn under(fields: &Fields<'_>, setting: &ReadContext<'_>, report: &mut Report) -> Option<ReproducedUnder> {
    let Some(tree) = fields.get("outside") else {
        let tree = fields.require("profile", "gpustack-0.5-dev", report)?;
        let typed = text(tree, "the name of a profile", report)?;
        dryrack_profile::profile(typed, tree.span, setting.folder, report);
        return Some(ReproducedUnder::Profile(Arc::from(typed)));
    };
    if fields.get("profile").is_some() {
        let help = "write a separate entry for each";
        report.error_with_help(fields.key_span("outside"), "`profile` and `outside` cannot be given together", help);
    }
    let typed = text(tree, "a released program such as gpustack==2.3.0", report)?;
    if let Err(error) = dryrack_outside::Command::check(typed) {
        let help = "name a released program such as gpustack==2.3.0, or a command line";
        report.error_with_help(tree.span, error.to_string(), help);
    }
    Some(ReproducedUnder::Outside(Arc::from(typed)))
}

fn place(span: Span, report: &Report) -> SourcePlace {
    let (file, line, column) = report.place(span);
    SourcePlace { file, line, column }
}

fn entry(
    tree: &Tree,
    default_name: &str,
    setting: &ReadContext<'_>,
    given: &mut NamesInUse,
    expectations: &mut Vec<Expectation>,
    report: &mut Report,
) {
    let form = Form::of(tree);
    if broken_apart(tree, report) {
        return;
    }
    if let Node::Scalar { .. } = &tree.node {
        // A metric without a name gets its text as its name.
        let what = metric_text::read(tree, setting, None, report).map(|check| (ExpectationKind::Metric(check), None));
        let name = tree.scalar().unwrap_or(default_name);
        return give(name, None, tree.span, what.into_iter().collect(), setting, given, expectations, report);
    }
    let Some(fields) = Fields::read_with(tree, form.called(), &form.fields(), elsewhere, report) else { return };
    let name = fields.text("name", "a name", report).unwrap_or(default_name);
    fields.exclusive(&SUBJECTS, "an expectation is about one of them", report);
    let subjects = subjects(&fields, setting.world, report);
    let what = match form {
        Form::State => states(&fields, &subjects, setting, report),
        Form::Count => count(&fields, &subjects, setting, report),
        Form::Reason => given_reason(&fields, &subjects, setting, report),
        Form::Preemption => preemption(&fields, &subjects, setting, report),
        Form::Evaluation => evaluation(&fields, setting, report),
        Form::Metric => metric(&fields, setting, report),
    };
    let what = match expectation_window::jobs_named(&fields).into_iter().find(|typed| setting.world.may_come(typed)) {
        Some(pattern) => vec![(ExpectationKind::Absent { pattern: Arc::from(pattern) }, None)],
        None => {
            assert!(!what.is_empty() || report.has_errors(), "what says nothing must not pass");
            what
        }
    };
    let span = fields.place();
    let name_span = fields.get("name").map(|tree| tree.span);
    let of_many = ["job", "node", "gpu", "evaluate"];
    let is_one = !of_many.iter().any(|key| fields.get(key).and_then(Tree::scalar).is_some_and(is_pattern));
    let what = what.into_iter().map(|(what, subject)| (what, subject.filter(|_| !is_one))).collect();
    give(name, name_span, span, what, setting, given, expectations, report);
}

/// Detects an unquoted metric that YAML read as a map because of a colon in its braces.
fn broken_apart(tree: &Tree, report: &mut Report) -> bool {
    let Node::Map(entries) = &tree.node else { return false };
    let odd =
        entries.iter().find(|entry| entry.key.contains("({") || entry.key.contains('(') && entry.key.contains('{'));
    if let Some(entry) = odd {
        let rest = entry.value.scalar().unwrap_or("…");
        let help = format!("put it in quotes, \"{}: {rest}\", or write `=` instead of the colon", entry.key);
        report.error_with_help(entry.key_span, "YAML reads the colon and the space as a key of a map", help);
    }
    odd.is_some()
}

/// Adds the expectations that were made from one entry, under its name. If there are several, each name also includes
/// the subject.
#[expect(clippy::too_many_arguments, reason = "all of an entry, and where it goes")]
fn give(
    name: &str,
    name_span: Option<Span>,
    span: Span,
    what: Lowered,
    setting: &ReadContext<'_>,
    given: &mut NamesInUse,
    expectations: &mut Vec<Expectation>,
    report: &mut Report,
) {
    let (place, entry): (SourcePlace, Arc<str>) = (place(span, report), Arc::from(name));
    let mut names: Vec<Arc<str>> = Vec::new();
    for (what, subject) in what {
        let name: Arc<str> = match subject {
            Some(subject) => Arc::from(format!("{name}[{}]", subject_name(subject, setting.world))),
            None => Arc::clone(&entry),
        };
        names.push(Arc::clone(&name));
        expectations.push(Expectation { name, entry: Arc::clone(&entry), place: place.clone(), what });
    }
    if given.insert(name.to_string(), names).is_some() {
        let message = format!("two expectations are named `{name}`");
        report.error_with_help(name_span.unwrap_or(span), message, "give each expectation a different name");
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

type Lowered = Vec<(ExpectationKind, Option<Subject>)>;

fn states(fields: &Fields<'_>, subjects: &[Subject], setting: &ReadContext<'_>, report: &mut Report) -> Lowered {
    let world = setting.world;
    fields.exclusive(&MODES, "an expectation has one of them", report);
    if fields.lacks_all(&SUBJECTS) {
        let help = "add `job: chat`, `node: alpha` or `gpu: alpha/0`, or `count: placed` to count events";
        report.error_with_help(fields.place(), "the job, node or GPU is missing", help);
    }
    let on = fields.get("on").and_then(|tree| world.node(text(tree, "the name of a node", report)?, tree.span, report));
    let blocks = expectation_blocks::read(fields, on, world, report);
    let because = fields.get("because").and_then(|tree| reason(tree, report));
    let is_holding =
        fields.has("node") && MODES.iter().any(|key| fields.get(key).and_then(Tree::scalar) == Some(HOLDING));
    let replicas = if is_holding { None } else { fields.count("replicas", 1, report) };
    let of = held_jobs(fields, is_holding, world, report);
    if !fields.has("job") {
        let keys = ["on", "blocks", "because", "replicas"].iter().filter(|key| !is_holding || **key != "replicas");
        for key in keys.filter(|key| fields.has(key)) {
            let is_of_nodes_too = *key == "replicas" && fields.has("node");
            let help = if is_of_nodes_too { "write `is: holding`, or leave it out" } else { "leave it out" };
            report.error_with_help(fields.key_span(key), format!("`{key}` applies only to jobs"), help);
        }
    }
    too_many_replicas(fields, subjects, replicas, world, report);
    let Some((key, tree)) = MODES.iter().find_map(|key| Some((*key, fields.get(key)?))) else {
        if fields.lacks_all(&MODES) {
            let help = "add `is: running`, `never: placed` or `always: ready`";
            report.error_with_help(fields.place(), "the expected state is missing", help);
        }
        expectation_window::read(fields, setting, None, ForKey::Length, report);
        return Vec::new();
    };
    let mode = match key {
        "never" => Mode::Never,
        "always" => Mode::Always,
        _ => Mode::Is,
    };
    let state = state_of(fields, tree, report);
    let window = expectation_window::read(fields, setting, state, ForKey::Length, report);
    let count = fields.get("replicas").filter(|_| is_holding).map(|tree| comparison(tree, report));
    let state = match (state, count) {
        (Some(State::Holding(_)), Some(count)) => count.map(State::Holding),
        (state, _) => state,
    };
    let Some(state) = state else { return Vec::new() };
    let holds = match state {
        State::Placed => true,
        State::Phase(phase) => phase.holds_claim(),
        State::Outcome(_) | State::Node(_) | State::Instance(_) | State::Gpu(_) | State::Holding(_) => false,
    };
    if fields.has("on") && fields.has("job") && !holds {
        let message = format!("a job that is {} is not on a node", tree.scalar().unwrap_or("so"));
        report.error_with_help(fields.key_span("on"), message, "leave `on` out, or write a state such as `placed`");
    }
    let lower = |subject: &Subject| {
        let of = of.clone();
        let what = ExpectationKind::State { subject: *subject, state, mode, on, blocks, because, replicas, of, window };
        (what, Some(*subject))
    };
    subjects.iter().map(lower).collect()
}

/// Reads `of: chat-*`, which limits a node's state `holding` to these jobs.
fn held_jobs(fields: &Fields<'_>, is_holding: bool, world: &World, report: &mut Report) -> Option<Arc<[JobId]>> {
    let (typed, tree) = (fields.text("of", "the name of a job", report)?, fields.get("of")?);
    if !is_holding {
        let help = "write `node: alpha, is: holding`, or leave `of` out";
        report.error_with_help(
            fields.key_span("of"),
            "`of` limits the jobs of a node that is `holding` replicas",
            help,
        );
    }
    Some(world.jobs(typed, tree.span, report).into())
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

fn count(fields: &Fields<'_>, subjects: &[Subject], setting: &ReadContext<'_>, report: &mut Report) -> Lowered {
    let words: Vec<(&'static str, EventName)> = EventName::ALL.iter().map(|(event, name)| (*name, *event)).collect();
    let event = fields.word("count", "an event", &words, report);
    let is = fields.require("is", "\">= 2\"", report).and_then(|tree| comparison(tree, report));
    let because = fields.get("because").map(|tree| reason(tree, report));
    if let Some(event) = event {
        refuse_never_counted(fields, event, because.flatten(), subjects, report);
    }
    let (whose, meant_by_for) = whose(fields, report);
    let window = expectation_window::read(fields, setting, None, meant_by_for, report);
    let (Some(event), Some(is), Some(because)) = (event, is, because.map_or(Some(None), |found| found.map(Some)))
    else {
        return Vec::new();
    };
    let what = |subject| {
        let preempted_by = None;
        ExpectationKind::Count { event: Some(event), subject, because, whose, preempted_by, is, window }
    };
    of_each(fields, subjects, what)
}

/// Reads `{job: small, preempted_by: urgent, is: 1}`. Without a number, at least one preemption is expected.
fn preemption(fields: &Fields<'_>, subjects: &[Subject], setting: &ReadContext<'_>, report: &mut Report) -> Lowered {
    let by: Option<Arc<[JobId]>> =
        match (fields.text("preempted_by", "the name of a job", report), fields.get("preempted_by")) {
            (Some(typed), Some(tree)) => Some(setting.world.jobs(typed, tree.span, report).into()),
            _ => None,
        };
    let is = fields.get("is").map_or(Some(Comparison::AtLeast(1)), |tree| comparison(tree, report));
    let window = expectation_window::read(fields, setting, None, ForKey::Length, report);
    let (Some(by), Some(is)) = (by, is) else { return Vec::new() };
    let event = Some(EventName::Preempted);
    let what = |subject| {
        let preempted_by = Some(Arc::clone(&by));
        ExpectationKind::Count { event, subject, because: None, whose: CountedJobs::Any, preempted_by, is, window }
    };
    of_each(fields, subjects, what)
}

/// Refuses a count of events that can never happen for these subjects or with this reason: it would always be 0.
fn refuse_never_counted(
    fields: &Fields<'_>,
    event: EventName,
    because: Option<Reason>,
    subjects: &[Subject],
    report: &mut Report,
) {
    let name = event.name();
    if let Some(because) = because.filter(|because| !event.can_give(*because)) {
        let given: Vec<&str> =
            Reason::ALL.iter().filter(|reason| event.can_give(**reason)).map(|reason| reason.name()).collect();
        let (message, help) = match given[..] {
            [] => (format!("`{name}` gives no reason"), "leave `because` out".to_string()),
            [only, ..] => (format!("`{name}` never gives the reason `{because}`"), format!("write `because: {only}`")),
        };
        report.error_with_help(fields.key_span("because"), message, help);
    }
    let Some(key) = SUBJECTS.iter().find(|key| fields.has(key)) else { return };
    if subjects.iter().any(|subject| !event.can_concern(*subject)) {
        let (message, help) = match event {
            EventName::NodeChanged | EventName::InstanceChanged | EventName::SafetyBroken => {
                ("applies to nodes", "write `node: alpha`")
            }
            EventName::GpuChanged => ("applies to GPUs", "write `gpu: alpha/0` or `node: alpha`"),
            _ => ("applies to jobs that are not on a node", "write `job: chat`"),
        };
        let help = format!("{help}, or leave `{key}` out");
        report.error_with_help(fields.key_span(key), format!("`{name}` {message}"), help);
    }
}

/// Returns one `ExpectationKind` for each subject, or one `ExpectationKind` without a subject if the entry names none.
fn of_each(fields: &Fields<'_>, subjects: &[Subject], what: impl Fn(Option<Subject>) -> ExpectationKind) -> Lowered {
    match SUBJECTS.iter().any(|key| fields.has(key)) {
        false => vec![(what(None), None)],
        true => subjects.iter().map(|subject| (what(Some(*subject)), Some(*subject))).collect(),
    }
}

/// Reads `for:` of an event count: either a word such as `cancelled`, which selects jobs, or a length of time, which
/// other code reads.
fn whose(fields: &Fields<'_>, report: &mut Report) -> (CountedJobs, ForKey) {
    let typed = fields.get("for").and_then(Tree::scalar);
    match typed {
        Some("cancelled") => (CountedJobs::Cancelled, ForKey::Jobs),
        Some(typed) if typed.starts_with(|letter: char| letter.is_alphabetic()) => {
            let span = fields.get("for").map_or(fields.place(), |tree| tree.span);
            let message = format!("`for: {typed}` cannot limit a count");
            report.unknown(span, message, typed, ["cancelled"].into_iter());
            (CountedJobs::Any, ForKey::Jobs)
        }
        _ => (CountedJobs::Any, ForKey::Length),
    }
}

/// Reads `{reason: node_lost, never: given}`, which counts all events that give this reason.
fn given_reason(fields: &Fields<'_>, subjects: &[Subject], setting: &ReadContext<'_>, report: &mut Report) -> Lowered {
    let because = fields.get("reason").and_then(|tree| reason(tree, report));
    let window = expectation_window::read(fields, setting, None, ForKey::Length, report);
    fields.exclusive(&["is", "never"], "an expectation has one of them", report);
    if let (Some(because), Some(key)) = (because, ["node", "gpu"].iter().find(|key| fields.has(key)))
        && because.is_of_waiting()
    {
        let message = format!("`{because}` is a reason of waiting jobs, which are not on a node");
        let help =
            format!("write `job: chat`, or leave `{key}` out; `dryrack explain` shows which node is refused and why");
        report.error_with_help(fields.key_span(key), message, help);
    }
    let words = [("given", ())];
    let is = match (fields.get("is"), fields.get("never")) {
        (Some(tree), _) => word(tree, "a state of a reason", &words, report).map(|()| Comparison::AtLeast(1)),
        (None, Some(tree)) => word(tree, "a state of a reason", &words, report).map(|()| Comparison::Exactly(0)),
        (None, None) => {
            if fields.lacks_all(&["is", "never"]) {
                let help = "add `is: given` or `never: given`";
                report.error_with_help(fields.place(), "the expected outcome is missing", help);
            }
            None
        }
    };
    let (Some(because), Some(is)) = (because, is) else { return Vec::new() };
    let what = |subject| {
        let (whose, preempted_by) = (CountedJobs::Any, None);
        ExpectationKind::Count { event: None, subject, because: Some(because), whose, preempted_by, is, window }
    };
    of_each(fields, subjects, what)
}

/// Reads `{evaluate: chat, is: incompatible, because: os_mismatch, at: 5m}`.
fn evaluation(fields: &Fields<'_>, setting: &ReadContext<'_>, report: &mut Report) -> Lowered {
    let jobs = match (fields.text("evaluate", "the name of a job", report), fields.get("evaluate")) {
        (Some(typed), Some(tree)) => setting.world.jobs(typed, tree.span, report),
        _ => Vec::new(),
    };
    let words = Judgement::ALL.map(|(judgement, name)| (name, judgement));
    let is = fields.require("is", "fits", report);
    let is = is.and_then(|tree| word(tree, "a judgement", &words, report));
    let because = fields.get("because").and_then(|tree| reason(tree, report));
    if is == Some(Judgement::Fits) && fields.has("because") {
        let help = "leave it out, or expect `is: unfit` or `is: incompatible`";
        report.error_with_help(fields.key_span("because"), "a job that fits is given no reason", help);
    }
    let at = fields.value::<SimTime>("at", report).unwrap_or(SimTime::ZERO);
    if let Some(until) = setting.until.filter(|until| at > *until) {
        let help = format!("write {until} or earlier, or a later `until` in the file");
        report.warning(fields.key_span("at"), format!("the run stops at {until}, before this time"), help);
    }
    let Some(is) = is else { return Vec::new() };
    let lower = |job: &JobId| (ExpectationKind::Evaluation { job: *job, at, is, because }, Some(Subject::Job(*job)));
    jobs.iter().map(lower).collect()
}

/// Reads `{metric: p95(queue_wait) <= 10m, of: chat-*}`.
fn metric(fields: &Fields<'_>, setting: &ReadContext<'_>, report: &mut Report) -> Lowered {
    let typed = fields.text("of", "the name of a job", report);
    let jobs = typed.zip(fields.get("of")).map(|(typed, tree)| {
        let jobs = setting.world.jobs(typed, tree.span, report);
        (tree.span, Restriction { jobs: Some(jobs.into()), ..Restriction::default() })
    });
    let Some(tree) = fields.get("metric") else { return Vec::new() };
    let Some(mut check) = metric_text::read(tree, setting, jobs, report) else { return Vec::new() };
    if let Some(typed) = typed {
        check.text = Arc::from(format!("{}, of {typed}", check.text));
    }
    vec![(ExpectationKind::Metric(check), None)]
}

/// The evaluations without placement that expectations need: jobs and times, for the rehearsal.
pub(super) fn evaluations<'e>(
    expectations: impl Iterator<Item = &'e Expectation>,
    reproductions: &'e [Reproduction],
) -> Vec<(SimTime, JobId)> {
    let witnesses = reproductions.iter().flat_map(|reproduction| &reproduction.and);
    let asked = expectations.chain(witnesses).filter_map(|expectation| match &expectation.what {
        ExpectationKind::Evaluation { job, at, .. } => Some((*at, *job)),
        ExpectationKind::State { .. }
        | ExpectationKind::Count { .. }
        | ExpectationKind::Metric(_)
        | ExpectationKind::EachCanRun
        | ExpectationKind::Absent { .. } => None,
    });
    let mut evaluations: Vec<_> = asked.collect();
    evaluations.sort_unstable();
    evaluations.dedup();
    evaluations
}
