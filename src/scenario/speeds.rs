//! Speeds of GPUs: `speed:` of the file, of `trace:` and of a job.
//!
//! Durations are those on the reference GPU. The speed on another type of GPU comes, in this order, from `factors`, from
//! the kind of `work` (figures of the catalog, or measurements in the trace), and from `others`. If none of them has it,
//! the file is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::world::{FleetGpus, World};
use dryrack_catalog::{Figure, Work, figures_of_both};
use dryrack_trace::Measured;
use dryrack_workload::{Demand, DemandKind, GpuSpeed, Speed, SpeedSource, Speeds};
use dryrack_yaml::{Entry, Fields, Node, Report, Span, Tree, text, value};

const FIELDS: [&str; 4] = ["reference", "work", "factors", "others"];
const PARTS: [&str; 2] = ["compute", "memory"];

/// The word of `work` for speeds that the trace measured.
const MEASURED: &str = "measured";

/// The kinds of work that can be named.
pub(super) fn works() -> Vec<&'static str> {
    let mut names: Vec<&str> = Work::ALL.map(Work::name).to_vec();
    names.push(MEASURED);
    names
}

/// What a job does with its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobWork {
    Kind(Work),
    /// Thousandths of the time on the reference GPU: limited by computing, and by memory.
    Parts([u32; 2]),
    Measured,
}

/// The stated speed of one type of GPU: of all work, or of each part.
#[derive(Clone, Copy, Debug)]
enum Factor {
    Whole(Speed),
    Parts([Speed; 2]),
}

impl Factor {
    /// The speed of this work. `None` if the factor does not tell it.
    fn of(self, work: Option<JobWork>) -> Option<Speed> {
        match (self, work) {
            (Factor::Whole(speed), _) => Some(speed),
            (Factor::Parts(speeds), Some(JobWork::Parts(parts))) => {
                Speed::of_parts([(parts[0], speeds[0]), (parts[1], speeds[1])])
            }
            (Factor::Parts([compute, _]), Some(JobWork::Kind(Work::Compute))) => Some(compute),
            (Factor::Parts([_, memory]), Some(JobWork::Kind(Work::Memory))) => Some(memory),
            (Factor::Parts(_), _) => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct SpeedTable {
    reference: Arc<str>,
    work: Option<JobWork>,
    factors: BTreeMap<Arc<str>, Factor>,
    others: Option<Speed>,
    span: Span,
    /// The place of the reference.
    place: Span,
}

/// The result for one type of GPU, with the sentence that says where it comes from.
struct Found {
    speed: Speed,
    from: SpeedSource,
    why: String,
}

/// The rates that a trace measured, by the scenario's types of GPUs.
pub(super) struct MeasuredRates<'m> {
    pub measured: &'m Measured,
    /// The types that each name of the trace means.
    pub names: &'m BTreeMap<String, Vec<Arc<str>>>,
}

impl MeasuredRates<'_> {
    /// The rate on this type of GPU. `None` if it was not measured; zero if the job does not run on it.
    pub fn of(&self, gpu: &str) -> Option<u64> {
        let is_meant = |name: &str| self.names.get(name).is_some_and(|types| types.iter().any(|known| **known == *gpu));
        self.measured.rates.iter().find(|(name, _)| is_meant(name)).map(|(_, rate)| *rate)
    }
}

/// Reads `speed:`. `base` is that of the file, which a job's own overrides.
pub(super) fn read(
    tree: &Tree,
    base: Option<&SpeedTable>,
    world: &mut World,
    report: &mut Report,
) -> Option<SpeedTable> {
    let fields = Fields::read(tree, "speeds of GPUs", &FIELDS, report)?;
    let reference = match (fields.get("reference"), base) {
        (Some(tree), _) => reference(tree, world, report)?,
        (None, Some(base)) => Arc::clone(&base.reference),
        (None, None) => {
            fields.require("reference", "a100-80g", report);
            return None;
        }
    };
    // A factor is in proportion to its reference, so those of the file are about its own reference. They are also about
    // its own work, except `others`.
    let base = base.filter(|_| !fields.has("reference"));
    let inherited = base.filter(|_| !fields.has("work"));
    let work = match fields.get("work") {
        Some(tree) => job_work(tree, report),
        None => inherited.and_then(|base| base.work),
    };
    let mut factors = inherited.map_or(BTreeMap::new(), |base| base.factors.clone());
    factors.extend(stated_factors(&fields, (&reference, work), world, report));
    let others = fields.get("others").and_then(|tree| speed(tree, report)).or(base.and_then(|base| base.others));
    let place = fields.get("reference").map_or(tree.span, |tree| tree.span);
    Some(SpeedTable { reference, work, factors, others, span: tree.span, place })
}

fn reference(tree: &Tree, world: &mut World, report: &mut Report) -> Option<Arc<str>> {
    let typed = text(tree, "a GPU type", report)?;
    let types = world.gpu_types_named(typed, tree.span, report);
    if types.len() > 1 {
        let message = format!("`{typed}` is the name of several GPUs: {}", types.join(", "));
        report.error_with_help(tree.span, message, format!("write `{}`, or another of them", types[0]));
        return None;
    }
    types.into_iter().next()
}

fn speed(tree: &Tree, report: &mut Report) -> Option<Speed> {
    let typed = text(tree, "a speed such as 2.2", report)?;
    let help = "write how many times as fast as the reference this GPU is";
    typed
        .parse()
        .map_err(|error: dryrack_workload::BadSpeed| report.error_with_help(tree.span, error.to_string(), help))
        .ok()
}

fn job_work(tree: &Tree, report: &mut Report) -> Option<JobWork> {
    if let Node::Map(_) = tree.node {
        let fields = Fields::read(tree, "parts of work", &PARTS, report)?;
        let part = |key: &str, report: &mut Report| {
            let tree = fields.require(key, "70%", report)?;
            value::<dryrack_units::Permille>(tree, report).map(dryrack_units::Permille::get)
        };
        let parts = [part(PARTS[0], report)?, part(PARTS[1], report)?];
        if parts[0].saturating_add(parts[1]) != 1000 {
            let help = "write parts of the time on the reference GPU, such as `{compute: 70%, memory: 30%}`";
            report.error_with_help(tree.span, "the parts of work are not 100% together", help);
            return None;
        }
        return Some(JobWork::Parts(parts));
    }
    let mut words: Vec<(&str, JobWork)> = Work::ALL.map(|work| (work.name(), JobWork::Kind(work))).to_vec();
    words.push((MEASURED, JobWork::Measured));
    dryrack_yaml::word(tree, "a kind of work", &words, report)
}

fn stated_factors(
    fields: &Fields<'_>,
    (reference, work): (&Arc<str>, Option<JobWork>),
    world: &mut World,
    report: &mut Report,
) -> BTreeMap<Arc<str>, Factor> {
    let mut factors = BTreeMap::new();
    let Some(tree) = fields.get("factors") else { return factors };
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected speeds by GPU type, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `{h100-80g: 2.2, v100-16g: 0.4}`");
        return factors;
    };
    for Entry { key, key_span, value } in entries {
        let Some(factor) = factor(value, report) else { continue };
        let is_work_known = work.is_some() || !fields.has("work");
        if matches!(factor, Factor::Parts(_)) && factor.of(work).is_none() && is_work_known {
            let help = "write this `work`, or one speed such as `2.2` in place of the parts";
            report.error_with_help(value.span, "factors by parts need `work: {compute: 70%, memory: 30%}`", help);
            continue;
        }
        for gpu in world.gpu_types_named(key, *key_span, report) {
            if gpu == *reference {
                let help = "leave it out, or name another reference";
                report.error_with_help(*key_span, format!("the speed of the reference {gpu} is always 1"), help);
            } else {
                factors.insert(gpu, factor);
            }
        }
    }
    factors
}

fn factor(tree: &Tree, report: &mut Report) -> Option<Factor> {
    let Node::Map(_) = tree.node else { return speed(tree, report).map(Factor::Whole) };
    let fields = Fields::read(tree, "speeds of parts of work", &PARTS, report)?;
    let [compute, memory] = PARTS.map(|key| fields.require(key, "2.2", report).and_then(|tree| speed(tree, report)));
    Some(Factor::Parts([compute?, memory?]))
}

impl SpeedTable {
    pub fn is_measured(&self) -> bool {
        self.work == Some(JobWork::Measured)
    }

    pub fn reference(&self) -> &Arc<str> {
        &self.reference
    }

    /// The speed of this type of GPU. `None` if it is not known, or only by measurements of a trace.
    pub fn speed_of(&self, gpu: &Arc<str>) -> Option<Speed> {
        if *gpu == self.reference { Some(Speed::ONE) } else { self.find(gpu, None).map(|found| found.speed) }
    }

    /// The speeds of a job that accepts these types of GPUs (all, if the list is empty), and the types whose speed is not
    /// known.
    pub fn speeds(
        &self,
        accepted: &[Arc<str>],
        fleet: &BTreeSet<Arc<str>>,
        measured: Option<&MeasuredRates<'_>>,
    ) -> (Speeds, Vec<Arc<str>>) {
        let (mut others, mut unknown) = (Vec::new(), Vec::new());
        for gpu in fleet.iter().filter(|gpu| **gpu != self.reference) {
            if !accepted.is_empty() && !accepted.contains(gpu) {
                continue;
            }
            match self.find(gpu, measured) {
                Some(Found { speed, from, .. }) => others.push(GpuSpeed { gpu: Arc::clone(gpu), speed, from }),
                None => unknown.push(Arc::clone(gpu)),
            }
        }
        (Speeds { reference: Arc::clone(&self.reference), others }, unknown)
    }

    fn find(&self, gpu: &Arc<str>, measured: Option<&MeasuredRates<'_>>) -> Option<Found> {
        let reference = &self.reference;
        if let Some(factor) = self.factors.get(gpu)
            && let Some(speed) = factor.of(self.work)
        {
            let why = match (factor, self.work) {
                (Factor::Parts([compute, memory]), Some(JobWork::Parts(parts))) => {
                    format!("{}: compute {compute} and memory {memory}, stated in the file", of_parts(parts))
                }
                _ => "stated in the file".to_string(),
            };
            return Some(Found { speed, from: SpeedSource::File, why });
        }
        let by_work = match self.work {
            None => None,
            Some(JobWork::Kind(work)) => of_catalog(work, gpu, reference).map(|(speed, figures)| {
                let why = format!("{}: {figures}", work.name());
                Found { speed, from: SpeedSource::Catalog, why }
            }),
            Some(JobWork::Parts(parts)) => by_parts(parts, gpu, reference),
            Some(JobWork::Measured) => measured.and_then(|rates| {
                let speed = Speed::of_rates(rates.of(gpu)?, rates.of(reference)?)?;
                let why = "measured in the trace for each kind of job".to_string();
                Some(Found { speed, from: SpeedSource::Trace, why })
            }),
        };
        let others = || {
            let why = "`others` of the file: nothing is known of this GPU".to_string();
            self.others.map(|speed| Found { speed, from: SpeedSource::Others, why })
        };
        by_work.or_else(others)
    }

    /// Notes the speed of each type of GPU with its source, and what does not follow from it.
    /// `scope` is empty, or names the jobs for which the table overrides that of the file.
    pub fn note(&self, scope: &str, fleet: &BTreeSet<Arc<str>>, assumed: &mut BTreeSet<String>) {
        let reference = &self.reference;
        assumed.insert(format!(
            "{scope}durations are those on {reference}, unless a trace names another GPU; several GPUs work as fast as the \
             slowest; estimates, time limits and the time to start are not scaled"
        ));
        if self.is_measured() {
            assumed.insert(format!(
                "{scope}speeds relative to {reference} are measured in the trace for each kind of job"
            ));
            assumed.extend(self.others.map(|speed| {
                format!(
                    "{scope}GPUs that the trace did not measure count as{} as fast as {reference} (`others` of the file)",
                    times(speed)
                )
            }));
        }
        let all = fleet.iter().chain(self.factors.keys());
        assumed.extend(all.filter_map(|gpu| self.speed_and_source(scope, gpu)));
    }

    /// How fast a type of GPU is, and where this comes from. `None` for the reference, and if it is not known.
    pub fn speed_and_source(&self, scope: &str, gpu: &Arc<str>) -> Option<String> {
        let found = self.find(gpu, None).filter(|_| *gpu != self.reference)?;
        // The trace may have measured this GPU.
        let is_open = found.from == SpeedSource::Others && self.is_measured();
        let Found { speed, why, .. } = found;
        (!is_open).then(|| format!("{scope}{gpu} works{} as fast as {} ({why})", times(speed), self.reference))
    }

    /// Whether the durations of the trace are those on the reference. `types` are those that the trace's own reference
    /// means. If not, this is reported as an error.
    pub fn refuse_other_reference(&self, (name, types): (&str, &[Arc<str>]), report: &mut Report) {
        let reference = &self.reference;
        if !types.contains(reference) {
            let message = format!("the durations of the trace are those on {name}, not on the reference {reference}");
            let right = types.first().map_or(name, |first| first);
            report.error_with_help(self.place, message, format!("write `reference: {right}`"));
        }
    }

    /// Reports the types of GPUs whose speed is not known.
    pub fn refuse(&self, unknown: &BTreeSet<Arc<str>>, report: &mut Report) {
        for gpu in unknown {
            let message = format!("the speed of {gpu} relative to {} is not known", self.reference);
            let why = match self.work {
                Some(JobWork::Kind(work)) => format!("no benchmark of {} has both; ", work.name()),
                Some(JobWork::Parts(_)) => "the catalog has no data sheets of both; ".to_string(),
                Some(JobWork::Measured) => "the trace did not measure it; ".to_string(),
                None => String::new(),
            };
            let help =
                format!("{why}add `factors: {{{gpu}: 1.5}}`, or `others: 1` to count such GPUs as the reference");
            report.error_with_help(self.span, message, help);
        }
    }
}

/// The speed that follows from figures of the catalog, with these figures as text.
fn of_catalog(work: Work, gpu: &str, reference: &str) -> Option<(Speed, String)> {
    let (one, other) = figures_of_both(work, gpu, reference)?;
    Some((Speed::of_rates(one.rate_milli, other.rate_milli)?, figures(one, other)))
}

fn by_parts(parts: [u32; 2], gpu: &str, reference: &str) -> Option<Found> {
    let (compute, of_compute) = of_catalog(Work::Compute, gpu, reference)?;
    let (memory, of_memory) = of_catalog(Work::Memory, gpu, reference)?;
    let speed = Speed::of_parts([(parts[0], compute), (parts[1], memory)])?;
    let why = format!("{}: compute {compute}, {of_compute}; memory {memory}, {of_memory}", of_parts(parts));
    Some(Found { speed, from: SpeedSource::Catalog, why })
}

/// ` 2.2 times`, or nothing for the speed of the reference.
fn times(speed: Speed) -> String {
    if speed == Speed::ONE { String::new() } else { format!(" {speed} times") }
}

fn of_parts([compute, memory]: [u32; 2]) -> String {
    let percent = dryrack_units::Permille::new;
    format!("{} compute and {} memory", percent(compute), percent(memory))
}

fn figures(one: &Figure, other: &Figure) -> String {
    let rate = |figure: &Figure| {
        let text = format!("{}.{:03}", figure.rate_milli / 1000, figure.rate_milli % 1000);
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    };
    format!(
        "{} and {} {} in `{}` [{}, {}; {}, {}]",
        rate(one),
        rate(other),
        one.unit,
        one.benchmark,
        one.source,
        one.as_of,
        other.source,
        other.as_of
    )
}

/// The types of GPUs that a demand accepts: all if the list is empty. `None` if it is for no GPUs.
pub(super) fn accepted(demand: &Demand) -> Option<Vec<Arc<str>>> {
    if let DemandKind::Model(_) | DemandKind::Requirements(_) = demand.kind {
        return Some(Vec::new());
    }
    let mut gpus = demand.kinds_of_tasks().filter_map(|(_, task)| task.gpus.as_ref()).peekable();
    gpus.peek()?;
    let lists: Vec<&Vec<Arc<str>>> = gpus.map(|gpus| &gpus.models).collect();
    let is_any = lists.iter().any(|models| models.is_empty());
    Some(if is_any { Vec::new() } else { lists.into_iter().flatten().cloned().collect() })
}

impl World {
    /// The types of GPUs of all nodes and hosts. An entry with a `count` of 0 has no nodes.
    pub fn fleet_gpus(&mut self) -> Arc<BTreeSet<Arc<str>>> {
        let of = (self.nodes.len(), self.hosts.len());
        if let Some(known) = self.fleet_gpus.as_ref().filter(|known| known.of == of) {
            return Arc::clone(&known.types);
        }
        let nodes = self.nodes.iter().map(|node| &node.spec.shape);
        let shapes = nodes.chain(self.hosts.iter().map(|(shape, _)| shape));
        let found = shapes.flat_map(|shape| shape.gpus.iter().map(|gpu| Arc::clone(&gpu.model)));
        let types: Arc<BTreeSet<Arc<str>>> = Arc::new(found.collect());
        self.fleet_gpus = Some(FleetGpus { of, types: Arc::clone(&types) });
        types
    }

    /// Adds the speeds of this table to a demand. Reports types of GPUs whose speed is not known, each once.
    pub fn add_speeds(&mut self, (table, scope): (&SpeedTable, &str), demand: &mut Demand, report: &mut Report) {
        let Some(accepted) = accepted(demand) else { return };
        let fleet = self.fleet_gpus();
        let (speeds, mut unknown) = table.speeds(&accepted, &fleet, None);
        unknown.retain(|gpu| !self.unknown_speeds.contains(&(table.span, Arc::clone(gpu))));
        self.unknown_speeds.extend(unknown.iter().map(|gpu| (table.span, Arc::clone(gpu))));
        table.refuse(&unknown.into_iter().collect(), report);
        table.note(scope, &fleet, &mut self.assumed);
        demand.speeds = Some(Arc::new(speeds));
    }
}
