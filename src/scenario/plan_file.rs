//! Plan files: the factors that vary a scenario, and the constraints on each alternative.
//!
//! Errors in a plan are reported like those of a scenario. Its `constraints` are expectations. They are read again for
//! each alternative, because names may differ between alternatives. [`super::Options::plan`] passes the plan to that
//! step.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::horizon::{self, Horizon};
use super::load::{Loaded, load};
use super::options::{Options, Varying};
use super::params::is_name;
use super::plan_assumptions;
use super::seeds;
use dryrack_expect::{Expectation, ExpectationKind, MetricCheck, Quantity, SeedShare};
use dryrack_fleet::{NodeShape, Payment, offer_of};
use dryrack_units::SimDuration;
use dryrack_workload::Arrival;
use dryrack_yaml::{Diagnostics, Entry, Fields, Node, Report, Span, Tree, emit_line, parse, read_text, text};

const FIELDS: [&str; 10] =
    ["plan", "scenario", "set", "factors", "seeds", "minimize", "constraints", "method", "budget", "horizon"];
/// The largest number of alternatives of a plan.
const MAX_CELLS: usize = 1_000_000;
/// The largest number of alternatives of a search.
const MAX_SEARCHED: usize = 20_000;
/// Checking stops after this many faulty alternatives.
const MAX_WRONG: usize = 20;
/// The largest number of values of one range.
const MAX_VALUES: u64 = 100_000;

/// A plan that has no errors itself. Each alternative is checked when it is run.
#[derive(Clone, Debug)]
pub struct PlanFile {
    /// The question, as a sentence.
    pub title: String,
    /// The file's path as the user typed it, and the file's text.
    pub name: Arc<str>,
    pub text: Arc<str>,
    /// The path of the scenario, relative to the working directory.
    pub scenario: PathBuf,
    /// What the plan sets in every alternative, before the factors.
    pub fixed: Vec<Setting>,
    /// The factors. The last one varies fastest.
    pub factors: Vec<Factor>,
    /// Every alternative is run once with each of these seeds, so all alternatives draw the same random numbers. Empty
    /// means the scenario's own seed.
    pub seeds: Vec<u64>,
    pub minimize: Option<Objective>,
    pub minimize_place: Option<Span>,
    /// The name of the currency of all prices, if the scenario states it.
    pub currency: Option<Arc<str>>,
    pub constraints_place: Option<Span>,
    /// The share of the seeds in which each constraint must hold.
    pub asked: Vec<SeedShare>,
    pub method: Method,
    /// The largest number of runs, over all seeds and alternatives.
    pub runs: Option<u64>,
    /// The time budget. No process starts another run after it.
    pub time: Option<SimDuration>,
    /// The months for which the load grows.
    pub horizon: Option<Horizon>,
}

/// A field of the scenario that gets another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The path and the value, in the form of `--set`.
    pub path: Arc<str>,
    pub value: Arc<str>,
    /// The places of the path and of the value.
    pub places: (Span, Span),
}

impl Setting {
    /// The argument of `--set`: `load=110%`.
    pub fn argument(&self) -> String {
        format!("{}={}", self.path, self.value)
    }
}

/// A quantity that the plan varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    pub name: Arc<str>,
    /// The values as they are shown: values of one field, or names of groups of settings.
    pub values: Vec<Arc<str>>,
    /// What each value sets. All values set the same paths.
    pub settings: Vec<Vec<Setting>>,
    /// The place of the path that it sets, or else of its key.
    pub place: Span,
    /// Whether it sets only what no operator chooses, such as speeds or the load.
    pub is_assumed: bool,
}

impl Factor {
    /// A factor that sets one field. The places are those of the path and of each value.
    pub fn of_field(name: &str, path: &str, values: Vec<Arc<str>>, (place, value_places): (Span, Vec<Span>)) -> Factor {
        let path: Arc<str> = Arc::from(path);
        let setting = |(value, of_value): (&Arc<str>, Span)| {
            vec![Setting { path: Arc::clone(&path), value: Arc::clone(value), places: (place, of_value) }]
        };
        let settings = values.iter().zip(value_places).map(setting).collect();
        Factor { name: Arc::from(name), values, settings, place, is_assumed: false }
    }

    /// The paths that the factor sets.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.settings.first().into_iter().flatten().map(|setting| &*setting.path)
    }
}

/// The quantity to minimize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    Gpus,
    Nodes,
    /// The sum of the prices of all nodes that have a price.
    PricePerHour,
    /// The mean of the metric `cost` over the seeds. The objectives `CostPerMonth` and `Energy` are the means of
    /// `cost_per_month` and `energy`.
    Cost,
    CostPerMonth,
    Energy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Runs every alternative with every seed.
    Sweep,
    /// Runs as few alternatives as needed to find the cheapest one that satisfies the constraints.
    Search,
}

impl Objective {
    pub const ALL: [(&'static str, Objective); 6] = [
        ("gpus", Objective::Gpus),
        ("nodes", Objective::Nodes),
        ("price_per_hour", Objective::PricePerHour),
        ("cost", Objective::Cost),
        ("cost_per_month", Objective::CostPerMonth),
        ("energy", Objective::Energy),
    ];

    pub fn name(self) -> &'static str {
        Objective::ALL.iter().find(|(_, objective)| *objective == self).expect("each has a name").0
    }

    /// Whether the value is known without a run. Other objectives are measured by runs.
    pub fn is_known_before(self) -> bool {
        matches!(self, Objective::Gpus | Objective::Nodes | Objective::PricePerHour)
    }
}

impl PlanFile {
    pub fn cells(&self) -> usize {
        self.factors.iter().map(|factor| factor.values.len()).product()
    }

    /// For the alternative with this number, the index of the value of each factor.
    pub fn places(&self, mut cell: usize) -> Vec<usize> {
        let mut places = vec![0; self.factors.len()];
        for (place, factor) in places.iter_mut().zip(&self.factors).rev() {
            *place = cell % factor.values.len();
            cell /= factor.values.len();
        }
        places
    }

    /// For the alternative with this number, each factor with its value.
    pub fn values(&self, cell: usize) -> impl Iterator<Item = (&Factor, &Arc<str>)> {
        self.factors.iter().zip(self.places(cell)).map(|(factor, place)| (factor, &factor.values[place]))
    }

    /// The name of the alternative, such as `workers=8, profile=fifo`.
    pub fn cell_name(&self, cell: usize) -> String {
        let parts: Vec<String> = self.values(cell).map(|(factor, value)| format!("{}={value}", factor.name)).collect();
        parts.join(", ")
    }

    /// The `--set` arguments of the alternative.
    pub fn set(&self, cell: usize) -> Vec<String> {
        self.settings(cell).map(Setting::argument).collect()
    }

    /// What the plan sets in the alternative: the same in all alternatives first, then what its values set.
    fn settings(&self, cell: usize) -> impl Iterator<Item = &Setting> {
        let of_factors = self.factors.iter().zip(self.places(cell)).flat_map(|(factor, place)| &factor.settings[place]);
        self.fixed.iter().chain(of_factors)
    }

    /// Loads the scenario of the alternative.
    pub fn load(&self, cell: usize, seed: Option<u64>, base: &Options) -> Result<Loaded, Diagnostics> {
        self.load_changed(cell, seed, &[], base)
    }

    /// Loads the scenario of the alternative without the jobs of its trace, for a caller that looks only at the nodes. If
    /// the rest of the file needs these jobs, they are loaded too.
    pub fn load_nodes(&self, cell: usize, seed: Option<u64>, base: &Options) -> Result<Loaded, Diagnostics> {
        let only_nodes = Options { only_nodes: true, ..base.clone() };
        self.load(cell, seed, &only_nodes).or_else(|_| self.load(cell, seed, base))
    }

    /// Loads the scenario of the alternative with further changes, in the form of `--set`.
    pub fn load_changed(
        &self,
        cell: usize,
        seed: Option<u64>,
        changes: &[String],
        base: &Options,
    ) -> Result<Loaded, Diagnostics> {
        let mut options = self.options(cell, seed, base);
        options.set.extend_from_slice(changes);
        if let Some(varying) = &mut options.plan
            && let Some(factor) = self.factors.first()
        {
            // No text of the plan has these changes. A message about one would point at the first factor.
            varying.places.extend(changes.iter().map(|_| Some((factor.place, factor.place))));
        }
        let loaded = load(&self.scenario, &options)?;
        priced(self, &loaded)?;
        Ok(loaded)
    }

    /// The options for loading the scenario of the alternative. The overrides of `base` hold for every alternative, and
    /// the factors are set after them.
    pub fn options(&self, cell: usize, seed: Option<u64>, base: &Options) -> Options {
        let of_plan = self.settings(cell).map(|setting| Some(setting.places));
        let places = base.set.iter().map(|_| None).chain(of_plan).collect();
        Options {
            set: base.set.iter().cloned().chain(self.set(cell)).collect(),
            seed: seed.map(|seed| seed.to_string()),
            plan: Some(Varying { name: Arc::clone(&self.name), text: Arc::clone(&self.text), places }),
            ..base.clone()
        }
    }
}

/// Reads a plan. Also loads the scenario once with each value of each factor, to report errors before anything is run.
/// Calls `seen` with each loaded scenario. Returns the plan with its warnings.
pub fn load_plan(
    path: &Path,
    base: &Options,
    mut seen: impl FnMut(&Loaded),
) -> Result<(PlanFile, Diagnostics), Diagnostics> {
    let mut report = Report::default();
    let plan = read_text(path, None, &mut report).and_then(|(source, text)| {
        let tree = parse(&text, source, &mut report)?;
        read(&tree, path, text, &mut report)
    });
    let (mut plan, mut found) = match (plan, report.has_errors()) {
        (Some(plan), false) => (plan, report.finish()),
        _ => return Err(report.finish()),
    };
    plan_assumptions::mark(&mut plan.factors, &plan.scenario);
    if let Err(faults) = check_growth(&plan, base) {
        found.merge(faults);
        return Err(found);
    }
    let (mut wrong, seed) = (0, plan.seeds.first().copied());
    'all: for cells in probes(&plan).chunks(rayon::current_num_threads()) {
        let at_once: Vec<_> = cells.par_iter().map(|cell| plan.load(*cell, seed, base)).collect();
        for loaded in at_once {
            match loaded {
                Ok(loaded) => {
                    if plan.currency.is_none() {
                        plan.currency.clone_from(&loaded.rehearsal.currency);
                    }
                    seen(&loaded);
                    found.merge(loaded.warnings);
                }
                Err(faults) => {
                    found.merge(faults);
                    wrong += 1;
                    if wrong == MAX_WRONG {
                        break 'all;
                    }
                }
            }
        }
    }
    if wrong > 0 { Err(found) } else { Ok((plan, found)) }
}

/// Checks that the load makes a difference to the jobs of a plan with a horizon, and that the scenario does not grow by
/// itself. A scenario that cannot be loaded is reported later.
fn check_growth(plan: &PlanFile, base: &Options) -> Result<(), Diagnostics> {
    let Some(horizon) = &plan.horizon else { return Ok(()) };
    let seed = plan.seeds.first().copied();
    let Ok(now) = plan.load(0, seed, base) else { return Ok(()) };
    let later = plan.load_changed(0, seed, &[horizon.set(horizon.months, now.load)], base);
    let mut report = Report::default();
    let source = report.add_source(&*plan.name, Arc::clone(&plan.text));
    let place = horizon.place.of(source);
    if now.has_growth {
        let message = "the scenario has a `growth` of its own, which would count twice";
        report.error_with_help(place, message, "remove `growth` from the scenario; the horizon applies it");
    } else if horizon.grows() && later.is_ok_and(|later| has_same_load(&now, &later)) {
        let message = "the load changes no job of this scenario, so no alternative would ever stop being enough";
        let help = "use `arrivals` or a trace; jobs with stated times do not grow";
        report.error_with_help(place, message, help);
    }
    if report.has_errors() { Err(report.finish()) } else { Ok(()) }
}

/// Whether two forms of a scenario submit the same jobs at the same times, and send the same requests to them.
pub fn has_same_load(one: &Loaded, other: &Loaded) -> bool {
    let (one, other) = (&one.rehearsal.arrivals, &other.rehearsal.arrivals);
    let is_equal = |(one, other): (&Arrival, &Arrival)| one.at == other.at && one.behavior == other.behavior;
    one.len() == other.len() && one.iter().zip(other).all(is_equal)
}

/// The objective whose value must be known of every node, and its place: that of the plan, or that of a constraint.
fn needed(plan: &PlanFile, loaded: &Loaded) -> Vec<(Objective, Span)> {
    let minimized = plan.minimize.zip(plan.minimize_place);
    let of = |constraint: &Expectation| {
        let ExpectationKind::Metric(MetricCheck { quantity: Quantity::Run(definition), .. }) = &constraint.what else {
            return None;
        };
        let objective = match definition.name {
            "cost" | "gpu_idle_cost" => Objective::Cost,
            "cost_per_month" => Objective::CostPerMonth,
            "energy" | "carbon" => Objective::Energy,
            _ => return None,
        };
        Some((objective, plan.constraints_place?))
    };
    minimized.into_iter().chain(loaded.constraints.iter().filter_map(of)).collect()
}

/// Checks that all nodes state a price if the price is minimized or limited. A node without a price would seem to be
/// free.
fn priced(plan: &PlanFile, loaded: &Loaded) -> Result<(), Diagnostics> {
    needed(plan, loaded).into_iter().try_for_each(|needed| priced_for(needed, plan, loaded))
}

fn priced_for((objective, place): (Objective, Span), plan: &PlanFile, loaded: &Loaded) -> Result<(), Diagnostics> {
    let lacks_it = |shape: &NodeShape| match objective {
        Objective::Gpus | Objective::Nodes => false,
        Objective::PricePerHour => offer_of(shape).is_none() && shape.price_per_hour.is_none(),
        Objective::Cost | Objective::CostPerMonth => shape.price_per_hour.is_none(),
        Objective::Energy => shape.power.is_none(),
    };
    let mut report = Report::default();
    let source = report.add_source(&*plan.name, Arc::clone(&plan.text));
    let is_bought = |shape: &NodeShape| shape.payment.is_some_and(Payment::is_purchase);
    let pays_electricity = loaded.rehearsal.electricity.as_ref().is_some_and(|found| found.price_per_kwh.is_some());
    if let Some(node) = loaded.rehearsal.nodes.iter().find(|node| is_bought(&node.spec.shape))
        && objective == Objective::PricePerHour
        && pays_electricity
    {
        let message =
            format!("`price_per_hour` leaves out the electricity of `{}`, which only a run measures", node.spec.name);
        report.error_with_help(place.of(source), message, "minimize `cost_per_month`");
        return Err(report.finish());
    }
    if let Some(fleet) = loaded.rehearsal.fleets.iter().find(|fleet| fleet.cloud.is_some())
        && objective == Objective::PricePerHour
    {
        let message = format!(
            "`price_per_hour` leaves out the instances of the fleet `{}`, which are created during a run",
            fleet.name
        );
        report.error_with_help(place.of(source), message, "minimize `cost_per_month`, which a sweep measures");
        return Err(report.finish());
    }
    let Some(node) = loaded.rehearsal.nodes.iter().find(|node| lacks_it(&node.spec.shape)) else { return Ok(()) };
    let name = &node.spec.name;
    let (message, help) = match objective {
        Objective::Energy => (
            format!("the node `{name}` states no power, so its energy would count as 0"),
            "give each node a `power: {idle: 350W, busy: 6.5kW}`, or minimize `gpus` or `nodes`",
        ),
        _ => (
            format!("the node `{name}` has no price, so its cost would count as 0"),
            "give each node a `price_per_hour`, a `commitment` or a `purchase`, or minimize `gpus` or `nodes`",
        ),
    };
    report.error_with_help(place.of(source), message, help);
    Err(report.finish())
}

/// The first alternative, and all alternatives that differ from it in only one factor.
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
    if let Node::Map(entries) = &tree.node
        && let Some(entry) = entries.iter().find(|entry| ["nodes", "jobs", "fleets", "trace"].contains(&&*entry.key))
    {
        let name = path.file_name().map_or("cluster.yaml".into(), |name| name.to_string_lossy());
        let help = format!(
            "write a plan that names it: `plan: ...`, `scenario: {name}` and `factors: ...` (docs/src/plans.md)"
        );
        report.error_with_help(entry.key_span, "this is a scenario, not a plan", help);
        return None;
    }
    let file = Fields::read(tree, "a plan", &FIELDS, report)?;
    let title = file.require("plan", "How few GPUs keep the waiting times short?", report);
    let title = title.and_then(|tree| text(tree, "a question", report));
    let scenario = file.require("scenario", "nightly.yaml", report);
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let scenario = scenario.and_then(|tree| {
        let path = folder.join(text(tree, "the path of a scenario", report)?);
        // A scenario that cannot be read is reported at its name in the plan.
        read_text(&path, Some(tree.span), report)?;
        Some(path)
    });
    let fixed = file.get("set").map_or(Vec::new(), |tree| settings(tree, report));
    let factors = match file.require("factors", "{workers: 4..16, profile: [fifo, sjf]}", report) {
        Some(tree) => factors(tree, report),
        None => Vec::new(),
    };
    let seeds = file.get("seeds").map_or(Vec::new(), |tree| seeds::seeds(tree, report));
    let minimize = file.word("minimize", "an objective", &Objective::ALL, report);
    let asked = file.list("constraints", report).iter().map(|tree| asked(tree, report)).collect();
    let methods = [("sweep", Method::Sweep), ("search", Method::Search)];
    let method = file.word("method", "a method", &methods, report).unwrap_or(Method::Sweep);
    if method == Method::Search {
        for (key, help) in [
            ("minimize", "add `minimize: gpus`, `nodes` or `price_per_hour`"),
            ("constraints", "add the constraints, such as `constraints: [p95(queue_wait) <= 10m]`"),
        ] {
            if file.lacks_all(&[key]) {
                let message = format!("a search needs `{key}`");
                report.error_with_help(file.key_span("method"), message, help);
            }
        }
    }
    if method == Method::Search
        && let (Some(objective), Some(tree)) = (minimize, file.get("minimize"))
        && !objective.is_known_before()
    {
        let name = objective.name();
        let message = format!("the objective of a search must be known before a run, but `{name}` is measured by runs");
        let help = "write `method: sweep`, or minimize `gpus`, `nodes` or `price_per_hour`";
        report.error_with_help(tree.span, message, help);
    }
    let cells: usize = factors.iter().map(|factor| factor.values.len()).product();
    if method == Method::Search && cells > MAX_SEARCHED {
        let message = format!("a search among {cells} alternatives is too large; the limit is {MAX_SEARCHED}");
        report.error_with_help(file.key_span("factors"), message, "remove values, or write several plans");
    }
    let horizon = file.get("horizon").and_then(|tree| horizon::read(tree, report));
    checks_of_horizon(&file, method, report);
    let (runs, time) = file.get("budget").map_or((None, None), |tree| budget(tree, report));
    Some(PlanFile {
        title: title?.to_string(),
        name: Arc::from(path.display().to_string()),
        text: whole,
        scenario: scenario?,
        fixed,
        factors,
        seeds,
        minimize,
        minimize_place: file.get("minimize").map(|tree| tree.span),
        currency: None,
        constraints_place: file.get("constraints").map(|tree| tree.span),
        asked,
        method,
        runs,
        time,
        horizon,
    })
}

/// A horizon needs constraints that may break, and the runs of every alternative.
fn checks_of_horizon(file: &Fields<'_>, method: Method, report: &mut Report) {
    if !file.has("horizon") {
        return;
    }
    if file.lacks_all(&["constraints"]) {
        let help = "add the constraints, such as `constraints: [p95(queue_wait) <= 10m]`";
        report.error_with_help(file.key_span("horizon"), "a horizon needs `constraints`", help);
    }
    if method == Method::Search {
        let message = "a search runs only some alternatives, so a horizon would miss those that last longer";
        report.error_with_help(file.key_span("horizon"), message, "write `method: sweep`");
    }
}

/// The share of the seeds that the constraint states; by default all seeds.
fn asked(tree: &Tree, report: &mut Report) -> SeedShare {
    let mut alone = Tree { span: tree.span, node: Node::List(vec![tree.clone()]) };
    seeds::take_shares(&mut alone, true, report).first().map_or(SeedShare::ALL, |known| known.share)
}

fn budget(tree: &Tree, report: &mut Report) -> (Option<u64>, Option<SimDuration>) {
    let Some(fields) = Fields::read(tree, "a budget", &["runs", "time"], report) else { return (None, None) };
    if fields.lacks_all(&["runs", "time"]) {
        report.error_with_help(tree.span, "the budget is empty", "write `{runs: 500}`, `{time: 30m}` or both");
    }
    let (runs, time) = (fields.value("runs", report), fields.value::<SimDuration>("time", report));
    for (key, is_none) in [("runs", runs == Some(0)), ("time", time.is_some_and(SimDuration::is_zero))] {
        if let Some(tree) = fields.get(key).filter(|_| is_none) {
            report.error_with_help(tree.span, "the budget allows no run", "write a larger budget");
        }
    }
    (runs, time)
}

fn factors(tree: &Tree, report: &mut Report) -> Vec<Factor> {
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected a map of factors, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `{workers: 4..16, profile: [fifo, sjf]}`");
        return Vec::new();
    };
    let factors: Vec<Factor> = entries.iter().filter_map(|entry| factor(entry, report)).collect();
    for (index, later) in factors.iter().enumerate() {
        let same =
            |first: &Factor| later.paths().find(|path| first.paths().any(|known| known == *path)).map(String::from);
        if let Some((first, path)) = factors[..index].iter().find_map(|first| Some((first, same(first)?))) {
            let message = format!("`{}` sets `{path}`, as `{}` already does", later.name, first.name);
            report.error_with_help(later.place, message, "let each factor set a different field");
        }
    }
    let cells = factors.iter().try_fold(1usize, |cells, factor| cells.checked_mul(factor.values.len()));
    if cells.is_none_or(|cells| cells > MAX_CELLS) {
        let message = format!("the plan has more than {MAX_CELLS} alternatives");
        report.error_with_help(tree.span, message, "remove values, or write several plans");
        return Vec::new();
    }
    if factors.is_empty() && !report.has_errors() {
        report.error_with_help(tree.span, "there are no factors", "write `{workers: 4..16}`");
    }
    factors
}

/// Reads paths and values, such as `{load: 110%, trace.resample: {block: 1d}}`.
fn settings(tree: &Tree, report: &mut Report) -> Vec<Setting> {
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected a map of paths and values, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `{load: 110%, trace.resample: {block: 1d}}`");
        return Vec::new();
    };
    let read = |Entry { key, key_span, value }: &Entry| Setting {
        path: Arc::from(key.as_str()),
        value: Arc::from(emit_line(value)),
        places: (*key_span, value.span),
    };
    entries.iter().map(read).collect()
}

/// Reads `workers: [4, 8]`, `workers: 4..64 by 4`, `workers: {set: nodes.0.count, values: [4, 8]}`, or named values:
/// `gpu: {values: {a100: {nodes.w.machine: a100-80g-x8}, h100: {nodes.w.machine: h100-80g-x8}}}`.
fn factor(Entry { key, key_span, value: given }: &Entry, report: &mut Report) -> Option<Factor> {
    if !is_name(key) {
        let help = "use letters, digits, `_` and `-`, and name the field: `{set: nodes.alpha.count, values: [1, 2]}`";
        report.error_with_help(*key_span, format!("`{key}` is not a valid name for a factor"), help);
        return None;
    }
    let own = match key.as_str() {
        "profile" | "until" => key.clone(),
        name => format!("params.{name}"),
    };
    let (path, place, values) = match &given.node {
        Node::Map(_) => {
            let fields = Fields::read(given, "a factor", &["set", "values"], report)?;
            if let Some(Tree { node: Node::Map(named), span }) = fields.get("values") {
                let settings = named_values(named, (&fields, *span), report)?;
                let values = named.iter().map(|entry| Arc::from(entry.key.as_str())).collect();
                return Some(Factor {
                    name: Arc::from(key.as_str()),
                    values,
                    settings,
                    place: *key_span,
                    is_assumed: false,
                });
            }
            let path = fields.text("set", "a path such as `nodes.alpha.count`", report).unwrap_or(&own);
            let place = fields.get("set").map_or(*key_span, |tree| tree.span);
            (path.to_string(), place, fields.require("values", "[4, 8]", report)?)
        }
        Node::List(_) | Node::Scalar { .. } => (own, *key_span, given),
    };
    let (values, value_places) = match &values.node {
        Node::List(items) => listed(items, values.span, report)?,
        _ => {
            let range = range(text(values, "values such as [4, 8] or 4..64 by 4", report)?, values.span, report)?;
            let places = vec![values.span; range.len()];
            (range, places)
        }
    };
    Some(Factor::of_field(key, &path, values, (place, value_places)))
}

/// The settings of each named value. If a value left out a path that another sets, it would silently keep what the
/// scenario states, so this is reported as an error.
fn named_values(
    named: &[Entry],
    (fields, span): (&Fields<'_>, Span),
    report: &mut Report,
) -> Option<Vec<Vec<Setting>>> {
    if fields.has("set") {
        let help = "leave `set` out, or write a list of values";
        report.error_with_help(fields.key_span("set"), "named values state the paths that they set", help);
        return None;
    }
    if named.is_empty() {
        report.error_with_help(span, "the factor has no values", "write `{a100: {nodes.work.machine: a100-80g-x8}}`");
        return None;
    }
    let all: Vec<Vec<Setting>> = named.iter().map(|entry| settings(&entry.value, report)).collect();
    let sets = |of: &[Setting], path: &str| of.iter().any(|setting| *setting.path == *path);
    for (entry, own) in named.iter().zip(&all) {
        let missing = named.iter().zip(&all).find_map(|(other, settings)| {
            settings.iter().find(|setting| !sets(own, &setting.path)).map(|setting| (other, &setting.path))
        });
        if let Some((other, path)) = missing {
            let message = format!("`{}` does not set `{path}`, as `{}` does", entry.key, other.key);
            report.error_with_help(entry.key_span, message, "set the same paths in each value");
        }
    }
    Some(all).filter(|_| !report.has_errors())
}

/// Reads a list of values, with their places.
fn listed(items: &[Tree], span: Span, report: &mut Report) -> Option<(Vec<Arc<str>>, Vec<Span>)> {
    if items.is_empty() {
        report.error_with_help(span, "the factor has no values", "write `[4, 8]`, or leave it out");
        return None;
    }
    let mut values: Vec<Arc<str>> = Vec::new();
    for item in items {
        let typed = text(item, "a single value", report)?;
        if values.iter().any(|known| **known == *typed) {
            report.error_with_help(item.span, format!("`{typed}` is listed twice"), "remove one of the two");
            return None;
        }
        values.push(Arc::from(typed));
    }
    Some((values, items.iter().map(|item| item.span).collect()))
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
        (Some((first, last)), Some(step)) if step > 0 && first < last && (last - first) % step > 0 => {
            let reached = last - (last - first) % step;
            let help = format!(
                "write `{first}..{reached} by {step}` or `{first}..{} by {step}`",
                reached.saturating_add(step)
            );
            report.error_with_help(span, format!("`{typed}` does not reach {last}, its end"), help);
            return None;
        }
        (Some((first, last)), Some(step)) if first <= last && step > 0 && (last - first) / step < MAX_VALUES => {
            (first..=last).step_by(step as usize).map(|value| Arc::from(value.to_string())).collect()
        }
        _ => {
            let help = "write `4..16` (both ends included), `4..64 by 4`, or a list such as `[4, 8]`";
            report.error_with_help(span, format!("`{typed}` is not a list of values for a factor"), help);
            return None;
        }
    };
    Some(values)
}
