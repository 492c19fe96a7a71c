//! Warns of names in the expressions of a profile that the scenario does not have: labels, and texts such as the name of
//! a queue. A stage that compares with such a name may decide nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::world::World;
use dryrack_catalog::{self as catalog, CpuArch, Os};
use dryrack_control::Profile;
use dryrack_fleet::NodeShape;
use dryrack_nearest::{hint, nearest};
use dryrack_scheduler::{
    ComparedText, Comparison, Expression, FilterList, OrderKey, OwnFilter, Relation, ScorerName, Value,
};
use dryrack_workload::{Arrival, Demand, DemandKind, JobSpec};
use dryrack_yaml::Report;

/// Warns of each name in an expression of the profile that no node or no job has. `asked` is a demand that is of no job
/// of the file.
pub(super) fn warn(
    profile: Option<&Profile>,
    world: &World,
    (arrivals, asked): (&[Arrival], Option<&Demand>),
    report: &mut Report,
) {
    // A profile that could not be read has already been reported.
    let Some(profile) = profile.filter(|profile| profile.scheduler.own_stages().next().is_some()) else { return };
    let shapes = distinct(world.nodes.iter().map(|node| &node.spec.shape));
    let shapes = shapes.into_iter().chain(world.hosts.iter().map(|(shape, _)| &**shape));
    let specs = arrivals.iter().map(|arrival| &*arrival.spec).chain(&world.unsubmitted);
    let names = Names {
        profile,
        world,
        shapes: shapes.chain(world.shapes_without_nodes.iter().map(|shape| &**shape)).collect(),
        specs: specs.clone().collect(),
        demands: specs.map(|spec| &*spec.demand).chain(asked).collect(),
        known: RefCell::default(),
    };
    let stages = stages(profile, &names.lists());
    let texts = stages.iter().flat_map(|stage| stage.expression.comparisons());
    let with_empty = texts.filter(|comparison| comparison.texts.iter().any(|text| text.text.is_empty()));
    let guarded: BTreeSet<Read<'_>> = with_empty.map(read_by).collect();
    for stage in &stages {
        if let Some(span) = report.noted(&stage.noted()) {
            for Finding { at, message, help } in findings(stage, &names, &guarded) {
                let place = report.part_of(span, stage.expression.text(), at);
                report.warning(place, message, help);
            }
        }
    }
}

/// What an expression reads: the path of a variable and, for labels, the key.
type Read<'e> = (&'static str, Option<&'e str>);

fn read_by(comparison: &Comparison) -> Read<'_> {
    (comparison.path, comparison.label.as_deref())
}

/// A stage of a profile that is an expression.
struct Stage {
    /// The path of the list of stages in the profile.
    list: &'static str,
    name: &'static str,
    expression: &'static Expression,
}

impl Stage {
    fn noted(&self) -> String {
        format!("{}.{}: {}", self.list, self.name, self.expression.text())
    }

    /// What follows for the stage if its expression always has this value.
    fn so(&self, value: &Value<'_>) -> String {
        let name = self.name;
        match (value, self.list) {
            (Value::Bool(false), _) => format!("the filter `{name}` refuses no node"),
            (Value::Bool(true), _) => format!("the filter `{name}` refuses every node"),
            (_, ORDER) => format!("the order `{name}` gives all jobs the same rank"),
            _ => format!("the score `{name}` is the same on all nodes"),
        }
    }
}

const SCORERS: &str = "scheduler.scorers";
const ORDER: &str = "scheduler.order";

/// The stages that are expressions. Of the filters, only those in these lists.
fn stages(profile: &Profile, lists: &[FilterList]) -> Vec<Stage> {
    let of_filter = |list: FilterList, own: OwnFilter| {
        Some(Stage { list: list.path(), name: own.name(), expression: own.expression()? })
    };
    let filters = lists
        .iter()
        .flat_map(|list| profile.scheduler.own_filters_in(*list).into_iter().filter_map(|own| of_filter(*list, own)));
    let scorers = profile.scheduler.scorers.iter().filter_map(|scorer| match scorer.stage {
        ScorerName::Own(own) => Some(Stage { list: SCORERS, name: own.name(), expression: own.expression()? }),
        _ => None,
    });
    let keys = profile.scheduler.order.iter().filter_map(|key| match key {
        OrderKey::Own(own) => Some(Stage { list: ORDER, name: own.name(), expression: own.expression()? }),
        _ => None,
    });
    filters.chain(scorers).chain(keys).collect()
}

/// The shapes without repetitions. Equal nodes share one.
fn distinct<'s>(shapes: impl Iterator<Item = &'s Arc<NodeShape>>) -> Vec<&'s NodeShape> {
    let mut seen = BTreeSet::new();
    shapes.filter(|shape| seen.insert(Arc::as_ptr(shape))).map(|shape| &**shape).collect()
}

/// The nodes and jobs of a scenario, with the names that expressions can read.
struct Names<'s> {
    profile: &'s Profile,
    world: &'s World,
    shapes: Vec<&'s NodeShape>,
    specs: Vec<&'s JobSpec>,
    demands: Vec<&'s Demand>,
    /// The values of the variables that were looked up.
    known: RefCell<BTreeMap<(&'static str, Option<String>), Values<'s>>>,
}

/// Every value that a variable has on a node or for a job. `None` if the scenario does not say it.
type Values<'s> = Option<Rc<BTreeSet<&'s str>>>;

impl<'s> Names<'s> {
    /// The lists of filters that judge a job, or all if not all jobs are known.
    fn lists(&self) -> Vec<FilterList> {
        let asked: BTreeSet<FilterList> = self.demands.iter().map(|demand| FilterList::of(demand)).collect();
        let is_any = asked.is_empty() || self.world.has_unread_jobs;
        FilterList::ALL.into_iter().filter(|list| is_any || asked.contains(list)).collect()
    }

    fn values(&self, (path, label): Read<'_>) -> Values<'s> {
        let key = (path, label.map(str::to_string));
        let known = self.known.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let values = self.computed_values((path, label)).map(Rc::new);
            self.known.borrow_mut().insert(key, values.clone());
            values
        })
    }

    fn computed_values(&self, (path, label): Read<'_>) -> Option<BTreeSet<&'s str>> {
        if path.starts_with("job.") {
            return self.values_of_jobs(path, label);
        }
        let named = |name: &'s Option<Arc<str>>| name.as_deref().unwrap_or("");
        let shapes = self.shapes.iter().copied();
        let values: BTreeSet<&str> = match (path, label) {
            ("node.labels", Some(label)) => {
                shapes.map(|shape| shape.labels.get(label).map_or("", |value| value)).collect()
            }
            ("node.machine", _) => shapes.map(|shape| named(&shape.machine)).collect(),
            ("node.os", _) => shapes.map(|shape| shape.os.as_str()).collect(),
            ("node.arch", _) => shapes.map(|shape| shape.arch.as_str()).collect(),
            ("node.rack", _) => shapes.map(|shape| named(&shape.rack)).collect(),
            ("node.switch", _) => shapes.map(|shape| named(&shape.switch)).collect(),
            ("gpus.types", _) => {
                let of_nodes = shapes.flat_map(|shape| shape.gpus.iter().map(|gpu| &*gpu.model));
                of_nodes.chain(self.world.gpu_types.iter().map(|name| &**name)).collect()
            }
            _ => return None,
        };
        Some(values).filter(|_| !self.shapes.is_empty())
    }

    /// The same for a variable of jobs. `None` also if no job has any such name: the profile may be for other jobs.
    fn values_of_jobs(&self, path: &str, label: Option<&str>) -> Option<BTreeSet<&'s str>> {
        let named = |name: fn(&JobSpec) -> Option<&Arc<str>>| -> BTreeSet<&'s str> {
            self.specs.iter().map(|spec| name(spec).map_or("", |name| &**name)).collect()
        };
        let demands = self.demands.iter().copied();
        let values = match (path, label) {
            ("job.queue", _) => named(|spec| spec.queue.as_ref()),
            ("job.user", _) => named(|spec| spec.user.as_ref()),
            ("job.project", _) => named(|spec| spec.project.as_ref()),
            ("job.model", _) => demands.map(|demand| demand.model().map_or("", |of| &*of.model.name)).collect(),
            ("job.gpu_types", _) => demands.flat_map(gpu_types).collect(),
            ("job.labels", Some(label)) => {
                let values = demands.flat_map(labels).map(|labels| labels.get(label).map_or("", |value| &**value));
                values.chain([""]).collect()
            }
            _ => return None,
        };
        let values: BTreeSet<&str> = values.into_iter().chain(self.configured(path)).collect();
        let has_any = match path {
            "job.labels" => !self.labels(path).is_empty(),
            _ => values.iter().any(|value| !value.is_empty()),
        };
        Some(values).filter(|_| has_any && !self.world.has_unread_jobs)
    }

    /// The names of queues, users and projects that the profile configures.
    fn configured(&self, path: &str) -> Vec<&'s str> {
        let slurm = self.profile.slurm.as_ref();
        let accounts = slurm.iter().flat_map(|slurm| &slurm.accounts);
        match path {
            "job.queue" => slurm.iter().flat_map(|slurm| &slurm.partitions).map(|partition| &*partition.name).collect(),
            "job.user" => accounts.flat_map(|account| account.users.keys()).map(|user| &**user).collect(),
            "job.project" => {
                let of_quotas = self.profile.policies.quotas.keys().map(String::as_str);
                accounts.map(|account| &*account.name).chain(of_quotas).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The keys of all labels of nodes, or of all that jobs ask for.
    fn labels(&self, path: &str) -> BTreeSet<&'s str> {
        let of_nodes = self.shapes.iter().filter(|_| path == "node.labels").map(|shape| &shape.labels);
        let of_jobs = self.demands.iter().filter(|_| path != "node.labels").flat_map(|demand| labels(demand));
        of_nodes.chain(of_jobs).flat_map(|labels| labels.keys()).map(|key| &**key).collect()
    }

    /// Whether the scenario may have nodes or jobs with this label.
    fn may_have_label(&self, path: &'static str, label: &str) -> bool {
        self.values((path, Some(label))).is_none() || self.labels(path).contains(label) || self.world.may_vary(label)
    }

    /// Whether a value of the variable may be related to this text as in the comparison.
    fn may_have(&self, comparison: &Comparison, text: &ComparedText) -> bool {
        let is_related = |value: &&str| comparison.relation.holds(value, &text.text);
        self.values(read_by(comparison)).is_none_or(|values| values.iter().any(is_related))
            || self.world.may_vary(&text.text)
    }
}

fn gpu_types(demand: &Demand) -> Vec<&str> {
    let of_tasks = demand.kinds_of_tasks().flat_map(|(_, task)| &task.gpus).flat_map(|gpus| &gpus.models);
    let of_ranges = match &demand.kind {
        DemandKind::Requirements(requirements) => requirements.gpu.as_ref().map_or(&[][..], |gpu| &gpu.names),
        DemandKind::Tasks(_) | DemandKind::Model(_) | DemandKind::Sets(_) => &[],
    };
    of_tasks.chain(of_ranges).map(|name| &**name).collect()
}

/// The labels that a job asks for: one map for each kind of its tasks.
fn labels(demand: &Demand) -> Vec<&BTreeMap<Arc<str>, Arc<str>>> {
    let of_tasks = demand.kinds_of_tasks().map(|(_, task)| &task.labels);
    of_tasks.chain(demand.model().and_then(|model| model.selector.as_ref())).collect()
}

/// What a warning says of one name, and its byte range in the expression.
struct Finding {
    at: Range<usize>,
    message: String,
    help: String,
}

/// Whether the text of a comparison is the name in question.
type IsIt<'f> = &'f dyn Fn(&Comparison, &ComparedText) -> bool;

/// What follows for a stage because one name is lacking: its value is the same everywhere if only this name is lacking, or is not if
/// this name alone is there.
fn what_follows(stage: &Stage, names: &Names<'_>, is_it: IsIt<'_>) -> Option<String> {
    let constant = |is_there: IsIt<'_>| stage.expression.constant(is_there);
    let value = constant(&|comparison, text| names.may_have(comparison, text))?;
    // A stage that is the same everywhere with every name is not so because of a name.
    if constant(&|_, _| true).is_some() {
        return None;
    }
    let is_enough = constant(&|comparison, text| !is_it(comparison, text)).is_some_and(|alone| alone == value);
    let is_needed =
        || constant(&|comparison, text| is_it(comparison, text) || names.may_have(comparison, text)).is_none();
    (is_enough || is_needed()).then(|| stage.so(&value))
}

/// The names in the expression of a stage that the scenario lacks. `guarded` is what the profile compares with the empty
/// text: it says itself that such a name may be missing.
fn findings(stage: &Stage, names: &Names<'_>, guarded: &BTreeSet<Read<'_>>) -> Vec<Finding> {
    let expression = stage.expression;
    let follows = |is_it: IsIt<'_>| what_follows(stage, names, is_it);
    let mut found = Vec::new();
    let lacking = |(path, label, _): &(&'static str, &str, _)| {
        !guarded.contains(&(*path, Some(*label))) && !names.may_have_label(path, label)
    };
    for (path, label, at) in expression.labels().filter(lacking) {
        let who =
            if path == "node.labels" { "no node of this scenario has" } else { "no job of this scenario asks for" };
        let read = written((path, Some(label)));
        let so = follows(&|comparison, _| read_by(comparison) == (path, Some(label)));
        let so = so.unwrap_or_else(|| format!("`{read}` is always \"\""));
        let message = format!("{who} the label `{label}`, so {so}");
        found.push(Finding { at, message, help: help_for_label((path, label), names) });
    }
    let mut seen = BTreeSet::new();
    for comparison in expression.comparisons() {
        let read = read_by(comparison);
        // A label that is missing altogether has been told.
        if read.1.is_some_and(|label| !names.labels(read.0).contains(label)) {
            continue;
        }
        for text in comparison.texts.iter().filter(|text| !names.may_have(comparison, text)) {
            let values = names.values(read).unwrap_or_default();
            let values = values.iter().copied().filter(|value| !value.is_empty());
            let is_known = is_known(read.0, &text.text);
            let so = follows(&|other, other_text| read_by(other) == read && other_text.text == text.text);
            let is_meant =
                is_known && so.is_none() || guarded.contains(&read) && nearest(&text.text, values.clone()).is_none();
            if is_meant || !seen.insert((read, &text.text)) {
                continue;
            }
            let so = so.as_deref().unwrap_or(match (comparison.texts.len(), comparison.is_negated) {
                (1, false) => "this comparison is never true",
                (1, true) => "this comparison is always true",
                _ => "this text never matches",
            });
            let message = format!("{}, so {so}", lacking_text(comparison, &text.text));
            let help = match is_known {
                true => format!("this scenario has {}", values.collect::<Vec<_>>().join(", ")),
                false => hint(&text.text, values).unwrap_or_else(|| "none of them has one".to_string()),
            };
            found.push(Finding { at: text.at.clone(), message, help });
        }
    }
    found
}

/// How an expression reads a value.
fn written((path, label): Read<'_>) -> String {
    let is_word = |label: &str| label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match label {
        Some(label) if is_word(label) => format!("{path}.{label}"),
        Some(label) => format!("{path}[\"{label}\"]"),
        None => path.to_string(),
    }
}

fn help_for_label((path, label): (&'static str, &str), names: &Names<'_>) -> String {
    let known = names.labels(path);
    if let Some(near) = nearest(label, known.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    let known = hint(label, known).unwrap_or_else(|| "no node has labels".to_string());
    let read = written((path, Some(label)));
    format!("{known}; if only other scenarios have the label, write `{read} != \"\" && ...`")
}

/// Whether a text is the name of something that the catalog knows, so that it is no mistake.
fn is_known(path: &str, text: &str) -> bool {
    match path {
        "node.machine" => catalog::machine(text).is_some(),
        "node.os" => Os::WORDS.contains(&text),
        "node.arch" => CpuArch::WORDS.contains(&text),
        "gpus.types" | "job.gpu_types" => catalog::gpu(text).is_some_and(|gpu| gpu.name == text),
        "job.model" => catalog::model(text).is_some_and(|model| model.name == text),
        _ => false,
    }
}

/// That nothing in the scenario has this text.
fn lacking_text(comparison: &Comparison, text: &str) -> String {
    let with = match comparison.relation {
        Relation::Equals => None,
        Relation::StartsWith => Some("starts with"),
        Relation::EndsWith => Some("ends with"),
        Relation::Contains => Some("contains"),
    };
    let (who, noun) = match (comparison.path, &comparison.label) {
        (path, Some(label)) => {
            let who = if path == "node.labels" { "node of this scenario has" } else { "job of this scenario asks for" };
            return match with {
                None => format!("no {who} the label `{label}` with the value `{text}`"),
                Some(with) => format!("no {who} the label `{label}` with a value that {with} `{text}`"),
            };
        }
        ("node.machine", _) => ("node of this scenario has", "machine"),
        ("node.os", _) => ("node of this scenario has", "system"),
        ("node.arch", _) => ("node of this scenario has", "CPU architecture"),
        ("node.rack", _) => ("node of this scenario is in", "rack"),
        ("node.switch", _) => ("node of this scenario is at", "switch"),
        ("gpus.types", _) => ("node of this scenario has", "GPU type"),
        ("job.gpu_types", _) => ("job of this scenario asks for", "GPU type"),
        ("job.queue", _) => ("job of this scenario is in", "queue"),
        ("job.user", _) => ("job of this scenario has", "user"),
        ("job.project", _) => ("job of this scenario is in", "project"),
        (_, _) => ("job of this scenario serves", "model"),
    };
    match with {
        None => format!("no {who} the {noun} `{text}`"),
        Some(with) => format!("no {who} a {noun} that {with} `{text}`"),
    }
}
