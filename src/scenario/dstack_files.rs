//! dstack's own files: `dstack: [train.dstack.yml, {file: fleet.dstack.yml, machine: a100-80g-x8}]`.
//!
//! The contents of these files are inserted into `jobs:` and `fleets:` of the scenario, and are then read like any
//! other entry. Each part remembers its place in its own file. Some facts are not in these files: when a run arrives,
//! how long it takes, and the hardware of a host. The scenario states them beside the path of the file.

use std::path::Path;

use super::dstack_fleets;
use dryrack_units::SimDuration;
use dryrack_yaml::{Entry, Fields, Node, Report, Span, Tree, parse, read_text, text};

/// Fields that may be written beside a file's path.
const FIELDS: [&str; 18] = [
    "file",
    "name",
    "profile",
    "at",
    "duration",
    "master_duration",
    "ends",
    "prepare",
    "stop",
    "cancel_at",
    "machine",
    "offers",
    "price_per_hour",
    "count",
    "usage",
    "sampling",
    "requests",
    "project",
];
/// The fields of [`FIELDS`] that describe a run.
const OF_RUN: [&str; 11] = [
    "at",
    "duration",
    "master_duration",
    "ends",
    "prepare",
    "stop",
    "cancel_at",
    "usage",
    "sampling",
    "requests",
    "project",
];

/// Fields that both a run's configuration and a dstack profile may have, each with the name of the same field of a
/// scenario's job.
const PROFILE: [(&str, &str); 13] = [
    ("max_price", "max_price"),
    ("spot_policy", "spot_policy"),
    ("backends", "backends"),
    ("regions", "regions"),
    ("fleets", "fleets"),
    ("creation_policy", "creation_policy"),
    ("max_duration", "time_limit"),
    ("stop_duration", "stop_duration"),
    ("retry", "retry"),
    ("utilization_policy", "utilization_policy"),
    ("startup_order", "startup_order"),
    ("stop_criteria", "stop_criteria"),
    ("idle_duration", "idle_duration"),
];
/// Fields of a run's configuration and of a profile that affect where or when a run is placed, but are not simulated.
const PROFILE_MEANINGLESS: [&str; 6] =
    ["instance_types", "reservation", "availability_zones", "schedule", "instances", "backend_options"];
/// Fields of a profile that only inform people.
const PROFILE_INSIDE: [&str; 1] = ["tags"];
/// Fields that only a run's configuration has, each with the name in a scenario's job.
const RUN: [(&str, &str); 5] = [
    ("resources", "resources"),
    ("nodes", "nodes"),
    ("priority", "priority"),
    ("replicas", "replicas"),
    ("scaling", "scaling"),
];
/// Fields that may affect where a run is placed or when it ends, but are not simulated.
const RUN_MEANINGLESS: [&str; 6] = ["volumes", "privileged", "docker", "inactivity_duration", "probes", "router"];
/// Fields about the inside of a run or about access to it. They do not affect where or when it runs, so they are
/// accepted without a warning.
const RUN_INSIDE: [&str; 32] = [
    "dstack",
    "image",
    "commands",
    "python",
    "nvcc",
    "env",
    "ports",
    "port",
    "working_dir",
    "home_dir",
    "user",
    "entrypoint",
    "shell",
    "registry_auth",
    "repos",
    "files",
    "setup",
    "init",
    "single_branch",
    "ide",
    "version",
    "gateway",
    "model",
    "https",
    "auth",
    "rate_limits",
    "strip_prefix",
    "path_prefix",
    "dev",
    "router_args",
    "cors",
    "description",
];
/// Fields that change which jobs run where. They are refused, because they are not read.
const NOT_REHEARSED: [&str; 1] = ["groups"];
const RUN_TYPES: [&str; 3] = ["task", "service", "dev-environment"];

/// A configuration file after reading.
pub(super) struct Read {
    pub file: Tree,
    /// The file name up to its first dot.
    stem: String,
    /// The fields beside the file's path.
    pub beside: Option<Tree>,
}

/// The profiles of the files: name, whether it is the default, and contents. The default profile comes first.
struct Profiles(Vec<(String, bool, Tree)>);

/// Inserts the contents of the files in `dstack:` into the tree, and removes `dstack:`. Returns the place of
/// `dstack:`, if it was there.
pub(super) fn expand(tree: &mut Tree, folder: &Path, report: &mut Report) -> Option<Span> {
    let Node::Map(entries) = &mut tree.node else { return None };
    let named = entries.remove(entries.iter().position(|entry| entry.key == "dstack")?);
    let Node::List(items) = &named.value.node else {
        let message = format!("expected a list of dstack's files, found {}", named.value.kind());
        report.error_with_help(named.value.span, message, "write `dstack: [train.dstack.yml]`");
        return Some(named.key_span);
    };
    let mut files: Vec<Read> = Vec::new();
    let mut profiles = Profiles(Vec::new());
    for item in items {
        let (path, beside) = match &item.node {
            Node::Map(_) => {
                let Some(fields) = Fields::read(item, "a file of dstack", &FIELDS, report) else { continue };
                let Some(path) = fields.require("file", "train.dstack.yml", report) else { continue };
                (path, Some(item.clone()))
            }
            Node::Scalar { .. } | Node::List(_) => (item, None),
        };
        let Some(typed) = text(path, "the path of a file", report) else { continue };
        let Some(file) = file(&folder.join(typed), path.span, report) else { continue };
        match file.get("profiles") {
            Some(list) => profiles.add(list, report),
            None => files.push(Read { file, stem: stem(typed), beside }),
        }
    }
    let (mut jobs, mut fleets) = (Vec::new(), Vec::new());
    for read in &files {
        lower(read, &profiles, &mut jobs, &mut fleets, report);
    }
    // A fleet whose file has an error still counts as a fleet.
    if report.has_errors() && fleets.is_empty() {
        for job in &jobs {
            let Node::Map(entries) = &job.node else { continue };
            entries.iter().filter(|entry| entry.key == "resources").for_each(|entry| report.suppress(entry.key_span));
        }
    }
    append(entries, "jobs", named.key_span, Node::List(jobs));
    append(entries, "fleets", named.key_span, Node::Map(fleets));
    Some(named.key_span)
}

/// The name of the file up to its first dot: `train` for `runs/train.dstack.yml`; empty for `.dstack.yml`.
fn stem(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split('.').next().unwrap_or("").to_string()
}

fn file(path: &Path, asked: Span, report: &mut Report) -> Option<Tree> {
    let (source, text) = read_text(path, Some(asked), report)?;
    let tree = parse(&text, source, report)?;
    if !matches!(tree.node, Node::Map(_)) {
        let message = format!("expected a configuration of dstack (a map), found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `type: task`, a name and the resources");
        return None;
    }
    Some(tree)
}

fn append(entries: &mut Vec<Entry>, key: &str, key_span: Span, more: Node) {
    let is_empty =
        matches!(&more, Node::List(items) if items.is_empty()) || matches!(&more, Node::Map(items) if items.is_empty());
    if is_empty {
        return;
    }
    let Some(known) = entries.iter_mut().find(|entry| entry.key == key) else {
        return entries.push(Entry { key: key.to_string(), key_span, value: Tree { span: key_span, node: more } });
    };
    match (&mut known.value.node, more) {
        (Node::List(known), Node::List(more)) => known.extend(more),
        (Node::Map(known), Node::Map(more)) => known.extend(more),
        // The later reader of this value reports its wrong type.
        _ => {}
    }
}

impl Profiles {
    fn add(&mut self, list: &Tree, report: &mut Report) {
        let Node::List(items) = &list.node else {
            let message = format!("expected a list of profiles, found {}", list.kind());
            report.error_with_help(list.span, message, "write `- name: large` and the profile's fields below it");
            return;
        };
        let known: Vec<&str> =
            PROFILE.iter().map(|(key, _)| *key).chain(PROFILE_MEANINGLESS).chain(PROFILE_INSIDE).collect();
        let known: Vec<&str> = known.into_iter().chain(["name", "default"]).collect();
        for item in items {
            let Some(fields) = Fields::read(item, "a profile of dstack", &known, report) else { continue };
            let Some(name) = fields.require("name", "large", report) else { continue };
            let Some(name) = text(name, "the name of a profile", report).map(str::to_string) else { continue };
            let is_default = fields.value::<bool>("default", report).unwrap_or(false);
            warn_of_meaningless(item, &PROFILE_MEANINGLESS, report);
            if let Some(known) = self.0.iter().find(|(other, ..)| *other == name) {
                report.error_with_help(item.span, format!("two profiles are named `{}`", known.0), "rename one");
            }
            self.0.push((name, is_default, item.clone()));
        }
    }

    /// The profile that the run names, or else the default profile, if there is one.
    fn choose(&self, named: Option<&Tree>, report: &mut Report) -> Option<&Tree> {
        let Some(named) = named else {
            return self.0.iter().find(|(_, is_default, _)| *is_default).map(|(.., tree)| tree);
        };
        let typed = text(named, "the name of a profile", report)?;
        let found = self.0.iter().find(|(name, ..)| name == typed);
        if found.is_none() {
            let names = self.0.iter().map(|(name, ..)| name.as_str());
            report.unknown(named.span, format!("no profile of dstack is named `{typed}`"), typed, names);
        }
        found.map(|(.., tree)| tree)
    }
}

fn lower(read: &Read, profiles: &Profiles, jobs: &mut Vec<Tree>, fleets: &mut Vec<Entry>, report: &mut Report) {
    let file = &read.file;
    let types = || RUN_TYPES.into_iter().chain(["fleet"]);
    let Some(kind) = file.get("type") else {
        let message = "the type of this configuration is missing";
        return report.error_with_help(file.span.start(), message, "add `type: task`, or `type: fleet`");
    };
    match text(kind, "a type of configuration", report) {
        None => {}
        Some("fleet") => fleets.extend(dstack_fleets::fleet(read, report)),
        Some(typed) if RUN_TYPES.contains(&typed) => jobs.extend(run(read, profiles, report)),
        Some(typed @ ("gateway" | "volume")) => {
            let help = "leave the file out";
            report.warning(kind.span, format!("a {typed} has no effect in a rehearsal"), help);
        }
        Some(typed) => report.unknown(kind.span, format!("`{typed}` is not a type of configuration"), typed, types()),
    }
}

/// Builds a job of the scenario. A field of the configuration takes precedence over that of the profile.
fn run(read: &Read, profiles: &Profiles, report: &mut Report) -> Option<Tree> {
    let Read { file, beside, .. } = read;
    let beside = beside.as_ref();
    let mut known = vec!["type", "name"];
    known.extend(RUN.iter().chain(&PROFILE).map(|(key, _)| *key));
    known.extend(RUN_MEANINGLESS.iter().chain(&RUN_INSIDE).chain(&PROFILE_MEANINGLESS).chain(&PROFILE_INSIDE));
    known.extend(NOT_REHEARSED);
    let fields = Fields::read(file, "a run of dstack", &known, report)?;
    for key in NOT_REHEARSED.iter().filter(|key| fields.has(key)) {
        let message = format!("`{key}` cannot be rehearsed, and leaving it out would change the run");
        report.error_with_help(fields.key_span(key), message, "write a separate file for each part");
    }
    refuse_of_others(&fields, report);
    warn_of_meaningless(file, &RUN_MEANINGLESS, report);
    warn_of_meaningless(file, &PROFILE_MEANINGLESS, report);
    let mut entries = vec![name(&fields, read, report)?];
    for (theirs, ours) in RUN {
        let is_list = |entry: &Entry| ours == "replicas" && matches!(entry.value.node, Node::List(_));
        entries.extend(taken(file, theirs, ours).filter(|entry| !is_list(entry)).map(|mut entry| {
            if let ("scaling", Node::Map(parts)) = (ours, &mut entry.value.node) {
                parts.iter_mut().filter(|part| part.key != "target").for_each(|part| in_seconds(&mut part.value));
                parts.iter().filter(|part| part.key == "window").for_each(|part| check_window(&part.value, report));
            }
            entry
        }));
    }
    if !fields.has("resources") {
        let span = fields.place();
        entries.push(Entry { key: "resources".to_string(), key_span: span, value: Tree::map(span) });
    }
    let profile = profiles.choose(beside.and_then(|beside| beside.get("profile")), report);
    for (theirs, ours) in PROFILE {
        let own = taken(file, theirs, ours);
        let is_own = own.is_some();
        let said = own.or_else(|| profile.and_then(|profile| taken(profile, theirs, ours)));
        let said = said.and_then(|entry| from_dstack_field(entry, report));
        entries.extend(said.map(|entry| if is_own { entry } else { of_profile(entry) }));
    }
    for key in OF_RUN.into_iter().chain(["count"]) {
        entries.extend(beside.and_then(|beside| taken(beside, key, key)));
    }
    Some(Tree { span: file.span, node: Node::Map(entries) })
}

/// Refuses fields that this type of run does not have, or has only in another form.
fn refuse_of_others(fields: &Fields<'_>, report: &mut Report) {
    let kind = fields.get("type").and_then(Tree::scalar).unwrap_or("");
    for (key, of) in [("nodes", "task"), ("replicas", "service"), ("scaling", "service")] {
        if fields.has(key) && kind != of {
            let message = format!("a {kind} has no `{key}`; only a {of} has it");
            report.error_with_help(fields.key_span(key), message, "leave it out, or change the `type`");
        }
    }
    if let Some(Tree { node: Node::List(_), .. }) = fields.get("replicas") {
        let message = "groups of replicas cannot be rehearsed, and leaving them out would change the service";
        report.error_with_help(
            fields.key_span("replicas"),
            message,
            "write a separate file for each group, with its `replicas: 1..4`",
        );
    }
    let priority = fields.get("priority").and_then(Tree::scalar).and_then(|typed| typed.parse::<i64>().ok());
    if priority.is_some_and(|priority| !(0..=100).contains(&priority)) {
        let span = fields.key_span("priority");
        report.error_with_help(
            span,
            "a priority of dstack is a number from 0 to 100",
            "write 0 to 100; a higher priority goes first",
        );
    }
}

/// Warns unless dstack's gateway counts requests over a window of this length.
fn check_window(window: &Tree, report: &mut Report) {
    let counted = [30, 60, 300].map(SimDuration::from_secs);
    let typed = window.scalar().and_then(|typed| typed.parse::<SimDuration>().ok());
    if typed.is_some_and(|typed| !counted.contains(&typed)) {
        let message = "dstack counts requests over 30s, 1m or 5m only";
        report.error_with_help(window.span, message, "write 30s, 1m or 5m");
    }
}

/// The name of a run: the name beside the path, or else the name in the file, or else the stem of the file's name.
/// (dstack itself would generate a random name.)
pub(super) fn name(fields: &Fields<'_>, read: &Read, report: &mut Report) -> Option<Entry> {
    let beside = read.beside.as_ref().and_then(|beside| beside.get("name"));
    let value = match beside.or_else(|| fields.get("name").filter(|name| !name.is_nothing())) {
        Some(value) => value.clone(),
        None if read.stem.is_empty() => fields.require("name", "train", report)?.clone(),
        None => Tree { span: fields.place(), node: Node::Scalar { text: read.stem.clone(), quoted: false } },
    };
    Some(Entry { key: "name".to_string(), key_span: value.span, value })
}

/// The field `theirs` of `tree` under the name `ours`; `None` if it is missing or empty.
pub(super) fn taken(tree: &Tree, theirs: &str, ours: &str) -> Option<Entry> {
    let Node::Map(entries) = &tree.node else { return None };
    let entry = entries.iter().find(|entry| entry.key == theirs && !entry.value.is_nothing())?;
    Some(Entry { key: ours.to_string(), key_span: entry.key_span, value: entry.value.clone() })
}

/// Marks a utilization policy as one that comes from a profile.
fn of_profile(mut entry: Entry) -> Entry {
    let span = entry.key_span;
    if let ("utilization_policy", Node::Map(fields)) = (entry.key.as_str(), &mut entry.value.node) {
        let value = Tree { span, node: Node::Scalar { text: "profile".to_string(), quoted: false } };
        fields.push(Entry { key: "from".to_string(), key_span: span, value });
    }
    entry
}

/// Converts a field from dstack's form to that of a scenario's job; `None` if dstack's value switches the feature off.
fn from_dstack_field(mut entry: Entry, report: &mut Report) -> Option<Entry> {
    if matches!(entry.key.as_str(), "time_limit" | "stop_duration" | "idle_duration") {
        in_seconds(&mut entry.value);
    }
    match entry.key.as_str() {
        "time_limit" | "utilization_policy" | "retry" if is_word(&entry.value, &OFF) => return None,
        "startup_order" => from_dstack_word(&mut entry.value, "a startup order", &STARTUP_ORDERS, report),
        "stop_criteria" => from_dstack_word(&mut entry.value, "a stop criterion", &STOP_CRITERIA, report),
        "retry" => entry.value = retry(&entry.value, report)?,
        "utilization_policy" => {
            if let Node::Map(fields) = &mut entry.value.node {
                let window = fields.iter_mut().find(|field| field.key == "time_window");
                window.into_iter().for_each(|window| in_seconds(&mut window.value));
                let minimum = fields.iter_mut().find(|field| field.key == "min_gpu_utilization");
                if let Some(Tree { node: Node::Scalar { text, .. }, .. }) = minimum.map(|field| &mut field.value)
                    && text.bytes().all(|byte| byte.is_ascii_digit())
                {
                    text.push('%');
                }
            }
        }
        _ => {}
    }
    Some(entry)
}

/// Words for true and false in YAML 1.1, the version that dstack reads.
const ON: [&str; 3] = ["true", "yes", "on"];
const OFF: [&str; 3] = ["false", "no", "off"];

fn is_word(tree: &Tree, words: &[&str]) -> bool {
    tree.scalar().is_some_and(|typed| words.iter().any(|word| word.eq_ignore_ascii_case(typed)))
}

/// Reads `true`, or `{on_events: [no-capacity], duration: 1h}`. The defaults are every event, and one hour.
fn retry(tree: &Tree, report: &mut Report) -> Option<Tree> {
    let span = tree.span;
    let scalar = |text: &str| Tree { span, node: Node::Scalar { text: text.to_string(), quoted: false } };
    let mut entries = vec![Entry { key: "for".to_string(), key_span: span, value: scalar("1h") }];
    if !is_word(tree, &ON) {
        if tree.scalar().is_some() {
            let help = "write `true`, or `{on_events: [interruption], duration: 1h}`";
            report.error_with_help(span, "expected a retry policy of dstack", help);
            return None;
        }
        let fields = Fields::read(tree, "a retry policy of dstack", &["on_events", "duration"], report)?;
        let taken = |theirs, ours| taken(tree, theirs, ours);
        if let Some(mut duration) = fields.get("duration").and(taken("duration", "for")) {
            in_seconds(&mut duration.value);
            entries[0] = duration;
        }
        if let Some(mut on) = taken("on_events", "on") {
            if let Node::List(items) = &mut on.value.node {
                items.iter_mut().for_each(|event| {
                    from_dstack_word(event, "an event after which a run is tried again", &EVENTS, report)
                });
            }
            entries.push(on);
        }
    }
    Some(Tree { span, node: Node::Map(entries) })
}

/// Converts a time of dstack: a number without a unit is in seconds, and weeks are allowed.
pub(super) fn in_seconds(tree: &mut Tree) {
    let Node::Scalar { text, .. } = &mut tree.node else { return };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits(text) {
        text.push('s');
    } else if let Some(weeks) = text.strip_suffix('w').filter(|weeks| digits(weeks)).and_then(|w| w.parse::<u64>().ok())
    {
        *text = format!("{}d", weeks.saturating_mul(7));
    }
}

/// Words in dstack's spelling, with hyphens. A scenario uses underscores.
const STARTUP_ORDERS: [&str; 3] = ["any", "master-first", "workers-first"];
const STOP_CRITERIA: [&str; 2] = ["all-done", "master-done"];
const EVENTS: [&str; 3] = ["no-capacity", "interruption", "error"];

/// Converts a word such as `master-first` to `master_first`. Reports any other word, with a list of the accepted words.
fn from_dstack_word(tree: &mut Tree, what: &str, words: &[&str], report: &mut Report) {
    let span = tree.span;
    let Node::Scalar { text, .. } = &mut tree.node else { return };
    if !words.contains(&text.as_str()) {
        report.unknown(span, format!("`{text}` is not {what}"), text, words.iter().copied());
        report.suppress(span);
    }
    *text = text.replace('-', "_");
}

pub(super) fn warn_of_meaningless(tree: &Tree, keys: &[&str], report: &mut Report) {
    let Node::Map(entries) = &tree.node else { return };
    for entry in entries.iter().filter(|entry| keys.contains(&entry.key.as_str())) {
        let message = format!("`{}` has no effect in a rehearsal", entry.key);
        report.warning(entry.key_span, message, "it is ignored");
    }
}
