//! Loads a scenario file: reads it, applies overrides, checks it and lowers it. Reports all errors at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::compose::{Composed, Outline, assemble};
use super::elsewhere::elsewhere;
use super::expectation_words::ReadContext;
use super::expectations;
use super::growth::{self, Load};
use super::misplaced::home;
use super::streamed::Streamed;
use super::trace_source::{self, TraceUse};
use super::usage::{Places, Sampled, sampling};
use super::world::World;
use super::{Options, Outside, job_template};
use super::{
    changes, clouds, dependencies, deployment, dstack_files, endless, estimates, failures, faults, instances, jobs,
    lacking_names, live, manifests, money, nodes, outside, pods, slurm, speeds, splits, unasked,
};
use dryrack_control::{Profile, Program, Unsafe};
use dryrack_engine::{Fault, Rehearsal, Stated};
use dryrack_event::Reason;
use dryrack_expect::{Expectation, Reproduction, ShareAt, Unplaced};
use dryrack_ids::JobId;
use dryrack_live::Shares;
use dryrack_outside::{Command, Setup};
use dryrack_profile::{Changes, profile_with};
use dryrack_scheduler::{Target, TaskShape};
use dryrack_units::SimTime;
use dryrack_workload::{Arrival, Demand};
use dryrack_yaml::{Diagnostics, Fields, Node, Report, SourceId, Span, Tree, emit, parse, read_text, text};

/// A scenario without errors.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub rehearsal: Rehearsal,
    pub expectations: Vec<Expectation>,
    /// The constraints of the plan in [`Options::plan`].
    pub constraints: Vec<Expectation>,
    /// Reports that the scenario reproduces. To check one, load the file again with the reproduction's profile in
    /// [`Options::profile`].
    pub reproductions: Vec<Reproduction>,
    /// The demand of each replica that [`Options::asked`] asks for, and the number of replicas.
    pub asked: Option<(Demand, u32)>,
    /// The issue that the scenario reproduces, such as `gpustack#1548`.
    pub report: Option<String>,
    pub tags: Vec<String>,
    pub trace: Option<TraceUse>,
    /// The jobs, if they are created during the run. The rehearsal then has no arrivals.
    pub streamed: Option<Streamed>,
    /// The scheduler in another process that decides, if there is one. The profile of the rehearsal then leaves
    /// decisions to it.
    pub outside: Option<Setup>,
    /// The CPU shares that stand in for accelerators in a live run, for the nodes that have such shares.
    pub shares_of_cpu: Shares,
    /// The share of the seeds in which an expectation must hold, for each expectation that states one.
    pub shares: Vec<ShareAt>,
    /// What the run assumes because the file leaves it open, as sentences for the report.
    pub assumed: Vec<String>,
    /// The load in proportion to what the jobs and the trace say, at the start of the run.
    pub load: f64,
    /// Whether the load grows during the run.
    pub has_growth: bool,
    /// The states of nodes and GPUs that come from [`Options::set`].
    pub stated: BTreeSet<Stated>,
    /// Findings that do not prevent a run.
    pub warnings: Diagnostics,
}

/// The keys of a scenario file.
pub(super) const FIELDS: [&str; 37] = [
    "scenario",
    "report",
    "seed",
    "seeds",
    "profile",
    "outside",
    "policies",
    "slurm",
    "sampling",
    "until",
    "warm_up",
    "unplaced",
    "tags",
    "include",
    "params",
    "matrix",
    "dstack",
    "files",
    "manifests",
    "kueue",
    "fleets",
    "machines",
    "currency",
    "electricity",
    "bandwidth",
    "speed",
    "live",
    "nodes",
    "jobs",
    "trace",
    "load",
    "growth",
    "changes",
    "faults",
    "failures",
    "expect",
    "reproduces",
];

/// The profile for a file that names none.
pub(super) const DEFAULT_PROFILE: &str = "first-fit";
/// The profile for a file with Kubernetes manifests that names none.
const PROFILE_OF_MANIFESTS: &str = "kubernetes-1.35";
/// The profile for a file that names none, when it is loaded to ask about a model.
const PROFILE_OF_MODELS: &str = "gpustack";

/// An empty report. In unit tests it also records which keys are known for each kind of map.
fn new_report() -> Report {
    #[cfg(test)]
    let report = Report::with_listener(super::tests::note);
    #[cfg(not(test))]
    let report = Report::default();
    report.with_homes(home)
}

/// Reads and checks a scenario file. The error contains every fault. A file with a fault is never run.
pub fn load(path: &Path, options: &Options) -> Result<Loaded, Diagnostics> {
    let mut report = new_report();
    let read = read_text(path, None, &mut report);
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let loaded = read.and_then(|(source, text)| {
        lower(&Place { source, text: &text, path: Some(path), folder: &folder }, options, &mut report)
    });
    finish(loaded, report)
}

/// The cells, seeds and tags of a file. Checks only the parts of the file that determine them.
pub fn outline(path: &Path, options: &Options) -> Result<Outline, Diagnostics> {
    let mut report = new_report();
    let outline = read_text(path, None, &mut report).and_then(|(source, text)| {
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let place = Place { source, text: &text, path: Some(path), folder: &folder };
        let tree = if is_empty(&place, &mut report) { None } else { parse(&text, source, &mut report) };
        Some(assemble(tree?, Some(path), &folder, options, &mut report).outline(&mut report))
    });
    match (outline, report.has_errors()) {
        (Some(outline), false) => Ok(outline),
        _ => Err(report.finish()),
    }
}

/// Reads and checks a scenario given as text. Paths in it are relative to `folder`. Diagnostics call the file `name`.
pub fn load_text(name: &str, text: &str, folder: &Path, options: &Options) -> Result<Loaded, Diagnostics> {
    let mut report = new_report();
    let source = report.add_source(name, text);
    let loaded = lower(&Place { source, text, path: None, folder }, options, &mut report);
    finish(loaded, report)
}

/// All errors and warnings that [`load`] finds in any cell of the file; empty if there is none.
pub fn check(path: &Path, options: &Options) -> Diagnostics {
    let cells = match outline(path, options) {
        Ok(outline) => outline.cells.into_iter().map(|cell| cell.set).collect(),
        // The outline has errors. Loading the file reports them together with all other errors.
        Err(_) => vec![Vec::new()],
    };
    let mut all = Diagnostics::default();
    for set in cells {
        let mut options = Options { tells_unused: true, ..options.clone() };
        options.set.extend(set);
        all.merge(match load(path, &options) {
            Ok(loaded) => loaded.warnings,
            Err(diagnostics) => diagnostics,
        });
    }
    all
}

fn finish(loaded: Option<Loaded>, report: Report) -> Result<Loaded, Diagnostics> {
    let has_errors = report.has_errors();
    let diagnostics = report.finish();
    match loaded {
        Some(loaded) if !has_errors => Ok(Loaded { warnings: diagnostics, ..loaded }),
        _ => Err(diagnostics),
    }
}

/// The title and the other settings of the whole file.
struct Head {
    title: String,
    report: Option<String>,
    seed: u64,
    profile: Option<Arc<Profile>>,
    /// The profile with which the rest of the file is checked if its own profile cannot be read.
    stand_in: Option<&'static str>,
    until: Option<SimTime>,
    warm_up: Option<SimTime>,
    tags: Vec<String>,
}

/// The text of a file and where it comes from.
struct Place<'p> {
    source: SourceId,
    text: &'p str,
    /// The path of the file, which shows whether the file includes itself. `None` for a text without a file.
    path: Option<&'p Path>,
    folder: &'p Path,
}

/// Whether the file is empty, which is then reported.
fn is_empty(place: &Place<'_>, report: &mut Report) -> bool {
    let is_blank = place.text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if is_blank {
        let help = "begin with `scenario: ` and a title, then add `nodes:`, `jobs:` and `expect:`";
        report.error_with_help(place.source.start(), "the file is empty", help);
    }
    is_blank
}

/// Whether the file is the log of a run, which is then reported.
fn is_log(place: &Place<'_>, report: &mut Report) -> bool {
    let is_log = place.text.starts_with("{\"header\":");
    if is_log {
        let help = "`dryrack explain`, `view`, `log` and `replay` read logs; `run` and `test` read scenario files";
        report.error_with_help(place.source.start(), "this is the log of a run, not a scenario", help);
    }
    is_log
}

/// Whether the keys show a file of another kind, which is then reported. All of its keys would be unknown here.
fn is_of_another_kind(tree: &Tree, source: SourceId, report: &mut Report) -> bool {
    let has = |key: &str| tree.get(key).is_some();
    let found = match (has("scenario") || has("nodes"), has("base") || has("scheduler"), has("type") || has("profiles"))
    {
        (false, true, _) => Some(("a profile", "name it `….profile.yaml`, and use it with `profile:` in a scenario")),
        _ if !has("scenario") && has("apiVersion") && has("kind") => {
            Some(("a Kubernetes manifest", "use it with `files:` in a scenario"))
        }
        _ if has("plan") && !has("nodes") => Some(("a plan", "run it with `dryrack plan`")),
        (false, false, true) => Some(("a configuration of dstack", "use it with `dstack:` in a scenario")),
        _ => None,
    };
    if let Some((kind, help)) = found {
        report.error_with_help(source.start(), format!("this is {kind}, not a scenario"), help);
    }
    found.is_some()
}

/// Checks what is known of the nodes once all were read.
fn check_nodes(file: &Fields<'_>, world: &World, report: &mut Report) {
    deployment::check_cached(world, report);
    // A plan can set the `count` of an entry to 0, so an entry without copies may be intended.
    if world.nodes.is_empty() && world.groups.is_empty() && !report.has_errors() {
        let help = "add `nodes:` with a list such as `- {name: alpha, machine: a100-80g-x8}`";
        report.error_with_help(file.place(), "there are no nodes", help);
    }
}

/// Reads a profile to use when the file's own profile cannot be read. The file will not run. Errors that appear only
/// under this profile are not errors of the file, so messages about it are suppressed.
fn stand_in(head: &Head, place: &Place<'_>, report: &mut Report) -> Option<Arc<Profile>> {
    let name = head.stand_in.unwrap_or(DEFAULT_PROFILE);
    let profile = dryrack_profile::profile(name, place.source.start(), place.folder, report)?;
    report.suppress_about(format!("the profile `{name}`"));
    Some(Arc::new(profile))
}

/// Suppresses the warning that a host cannot be split if an expectation of the file mentions it.
fn hush_about_hosts(file: &Fields<'_>, report: &mut Report) {
    if file.get("expect").is_some_and(|expect| mentions(expect, Reason::CannotSplit.name())) {
        report.suppress_about(splits::NEVER_USED);
    }
}

/// Whether any value in the tree equals this word.
fn mentions(tree: &Tree, word: &str) -> bool {
    match &tree.node {
        Node::Scalar { text, .. } => text == word,
        Node::List(items) => items.iter().any(|item| mentions(item, word)),
        Node::Map(entries) => entries.iter().any(|entry| mentions(&entry.value, word)),
    }
}

/// Warns if the file uses dstack's files and the profile does not follow dstack's rules of runs, which most fields of
/// these files need.
fn warn_without_runs(dstack: Option<Span>, profile: &Profile, report: &mut Report) {
    if let Some(span) = dstack.filter(|_| !profile.flow.places_runs()) {
        let message =
            format!("the profile `{}` does not start, fail and retry the nodes of a run together", profile.name);
        report.warning(span, message, "write `profile: dstack`, or the profile of a release such as `dstack-0.22.5`");
    }
}

/// Warns if there are no jobs, or none for the fleets of clouds, or none for the nodes beside fleets.
fn warn_of_jobs(
    file: &Fields<'_>,
    (entries, drafts, trace, profile): (
        &[job_template::JobTemplate],
        &[job_template::Draft],
        Option<&TraceUse>,
        &Profile,
    ),
    world: &mut World,
    options: &Options,
    report: &mut Report,
) {
    let (entries, has_others) = (entries.len(), !drafts.is_empty() || trace.is_some());
    if entries > 0 || has_others {
        clouds::warn_of_unused(file, world, report);
        clouds::warn_of_unmet(file, profile, world, report);
        if !has_others && options.asked.is_none() {
            clouds::warn_of_unused_nodes(file, (entries, world), report);
        }
    } else if options.asked.is_none() && !file.has("jobs") && !report.has_errors() {
        let help = "add `jobs:` with a list such as `- {name: chat, gpus: 1}`";
        report.warning(file.place(), "there are no jobs", help);
    }
}

/// Warns of stages of the profile that read what nothing in the file has, or judge no job of the file.
fn warn_of_stages(
    file: &Fields<'_>,
    profile: Option<&Profile>,
    (world, arrivals, asked, is_streamed): (&World, &[Arrival], Option<&(Demand, u32)>, bool),
    report: &mut Report,
) {
    let asked = asked.map(|(demand, _)| demand);
    estimates::warn(file, profile, arrivals, report);
    lacking_names::warn(profile, world, (arrivals, asked), report);
    // Of a streamed run, not all jobs are known.
    if !is_streamed {
        let demands = arrivals.iter().map(|arrival| &*arrival.spec.demand).chain(asked);
        unasked::warn(profile, demands, report);
    }
}

/// The tree of the one run that this text describes; `None` if the text is not a scenario.
fn composed(place: &Place<'_>, options: &Options, report: &mut Report) -> Option<Composed> {
    let Place { source, text, path, folder } = *place;
    if is_empty(place, report) || is_log(place, report) {
        return None;
    }
    let assembled = assemble(parse(text, source, report)?, path, folder, options, report);
    if !assembled.is_complete {
        return None;
    }
    let mut composed = assembled.compose(source, options, report);
    composed.dstack = dstack_files::expand(&mut composed.tree, folder, report);
    composed.is_changed |= composed.dstack.is_some();
    if let Some(added) = &options.added {
        composed.is_changed |= manifests::add(&mut composed.tree, added, report);
    }
    composed.is_changed |= manifests::expand(&mut composed.tree, folder, options, path.is_none(), report);
    (!is_of_another_kind(&composed.tree, source, report)).then_some(composed)
}

fn lower(place: &Place<'_>, options: &Options, report: &mut Report) -> Option<Loaded> {
    let Place { text, folder, .. } = *place;
    let Composed { tree, is_changed, shares, dstack, words_of_matrix } = composed(place, options, report)?;
    let effective = if is_changed { emit(&tree) } else { text.to_string() };
    let file = Fields::read_with(&tree, "a scenario file", &FIELDS, elsewhere, report)?;
    let head = head(&file, folder, options, report);
    let mut world = World::new(words_of_matrix, options.plan.as_ref());
    let base = nodes::read(&file, &mut world, report);
    let profile = head.profile.clone().or_else(|| stand_in(&head, place, report))?;
    warn_without_runs(dstack.filter(|_| head.profile.is_some()), &profile, report);
    hosts(&file, &base, &profile, &mut world, report);
    let cluster = manifests::read(&file, (&profile, options), &mut world, report);
    let shares_of_cpu = live::shares(&file, &world, report);
    world.speed = file.get("speed").and_then(|tree| speeds::read(tree, None, &mut world, report));
    let load = growth::read(&file, head.until, report);
    let traced = traced(&file, &profile, (folder, &head, load, options), &mut world, report);
    let (trace, traced, target) = traced.map(trace_source::Traced::parts).unwrap_or_default();
    let (seed, until, streamed) = (head.seed, head.until, options.streamed);
    let entries = entries(&file, &head, (&profile, folder, load, options), &mut world, report);
    check_nodes(&file, &world, report);
    let asked = options.asked.as_ref().and_then(|text| jobs::asked(text, &mut world, report));
    warn_of_jobs(&file, (&entries, &cluster.drafts, trace.as_ref(), &profile), &mut world, options, report);
    splits::warn_of_unusable(&world, head.profile.is_some().then_some(&*profile), report);
    let (streamed, (mut arrivals, cancellations)) = match streamed {
        true => streamed_jobs(entries, traced.1, (&file, &profile), &mut world, report),
        false => (None, arranged_jobs(&entries, (cluster.drafts, traced.0), &mut world, report)),
    };
    let outside = decider(&file, folder, options, report);
    let profile = decided((profile, target), outside.as_ref(), (&file, &arrivals, &world), report);
    let scalings = changes::read(&file, &mut world, &arrivals, report);
    let faults = all_faults(&file, &failures::ReadContext { world: &world, seed, until }, &mut arrivals, report);
    warn_of_stages(&file, head.profile.as_deref(), (&world, &arrivals, asked.as_ref(), streamed.is_some()), report);
    // This must follow the failures, which determine which jobs never start.
    endless::refuse(&arrivals, &world, &cancellations, (&profile, head.until), report);
    let (is_varied, unplaced) = (options.plan.is_some(), unplaced(&file, report));
    let electricity = money::electricity(&file, folder, &mut world, report);
    let setting = ReadContext { world: &world, arrivals: &arrivals, until, folder, unplaced, is_varied };
    let (expectations, reproductions) = expectations::read(&file, &setting, report);
    let constraints = options.plan.as_ref().map(|plan| expectations::constraints(plan, &setting, report));
    let rehearsal = Rehearsal {
        title: head.title,
        source: effective,
        seed: head.seed,
        profile,
        fleets: world.fleets,
        clouds: world.clouds,
        nodes: world.nodes,
        objects: pods::with_gangs(cluster.objects, &arrivals),
        arrivals: if streamed.is_some() { Vec::new() } else { arrivals },
        cancellations,
        scalings,
        faults,
        evaluations: expectations::evaluations(expectations.iter().chain(constraints.iter().flatten()), &reproductions),
        until: head.until,
        branch: None,
        kueue: cluster.kueue,
        warm_up: head.warm_up,
        currency: money::currency(&file, report),
        electricity,
    };
    Some(Loaded {
        rehearsal,
        expectations,
        constraints: constraints.unwrap_or_default(),
        reproductions,
        asked,
        report: head.report,
        tags: head.tags,
        trace,
        streamed,
        outside,
        shares_of_cpu,
        shares,
        assumed: world.assumed.into_iter().collect(),
        load: load.factor(),
        has_growth: load.has_growth(),
        stated: world.stated,
        warnings: Diagnostics::default(),
    })
}

/// Reads the instances of fleets, and the labels of nodes in Slurm.
fn hosts(file: &Fields<'_>, base: &nodes::Base, profile: &Profile, world: &mut World, report: &mut Report) {
    hush_about_hosts(file, report);
    instances::read(file, base, world, profile, report);
    slurm::label_nodes(file, profile, world, report);
}

/// Reads `trace:`. This must precede the jobs of the file, which may pick nodes of the trace.
fn traced(
    file: &Fields<'_>,
    profile: &Profile,
    (folder, head, load, options): (&Path, &Head, Load, &Options),
    world: &mut World,
    report: &mut Report,
) -> Option<trace_source::Traced> {
    let (seed, until) = (head.seed, head.until);
    let needs_target = profile.scheduler.needs_target() && profile.scheduler.target.is_empty();
    let Options { roots, streamed, only_nodes, .. } = options;
    let (streamed, only_nodes, as_pods) = (*streamed, *only_nodes, profile.flow.places_pods());
    let slurm = profile.slurm.as_ref();
    let setting =
        trace_source::ReadContext { roots, folder, seed, needs_target, slurm, as_pods, streamed, only_nodes, load };
    let traced = trace_source::read(file, &setting, world, report)?.cut_at(until);
    world.has_unread_jobs = only_nodes || traced.list.is_some();
    Some(traced)
}

/// Reads `jobs:`.
fn entries(
    file: &Fields<'_>,
    head: &Head,
    (profile, folder, load, options): (&Profile, &Path, Load, &Options),
    world: &mut World,
    report: &mut Report,
) -> Vec<job_template::JobTemplate> {
    let sampled = file.get("sampling").and_then(|tree| sampling(tree, &Sampled::default(), report)).unwrap_or_default();
    let places = Places { folder, roots: &options.roots };
    let (seed, until, streamed) = (head.seed, head.until, options.streamed);
    let setting = jobs::ReadContext { profile, seed, until, sampled: &sampled, places: &places, streamed, load };
    jobs::read(file, world, &setting, report)
}

/// Arrivals and cancellations.
type Jobs = (Vec<Arrival>, Vec<(SimTime, JobId)>);

/// The jobs of the file, of its manifests and of its trace, sorted by submission, with their dependencies.
fn arranged_jobs(
    entries: &[job_template::JobTemplate],
    (pods, traced): (Vec<job_template::Draft>, Vec<job_template::Draft>),
    world: &mut World,
    report: &mut Report,
) -> Jobs {
    let pods = pods.into_iter().map(|pod| with_speeds(pod, world, report)).collect::<Vec<_>>();
    let mut jobs = jobs::arrange(jobs::drafts(entries).chain(pods).chain(traced).collect(), world, report);
    dependencies::resolve(entries, &mut jobs.0, world, report);
    slurm::label_unions(slurm::partitions_of(&jobs.0), world);
    jobs
}

/// The pod with the speeds that the file states.
fn with_speeds(mut pod: job_template::Draft, world: &mut World, report: &mut Report) -> job_template::Draft {
    if let Some(table) = world.speed.clone() {
        let mut demand = Demand::clone(&pod.arrival.spec.demand);
        world.add_speeds((&table, ""), &mut demand, report);
        Arc::make_mut(&mut pod.arrival.spec).demand = Arc::new(demand);
    }
    pod
}

/// Prepares jobs that are created during the run. Also returns one job of each entry, which represents the entry in
/// checks.
fn streamed_jobs(
    entries: Vec<job_template::JobTemplate>,
    list: Option<trace_source::TaskList>,
    of: (&Fields<'_>, &Profile),
    world: &mut World,
    report: &mut Report,
) -> (Option<Streamed>, Jobs) {
    let lists = list.as_ref().map(|list| list.partition_lists.clone()).unwrap_or_default();
    let (streamed, firsts) = Streamed::checked(entries, list, of, world, report);
    slurm::label_unions(slurm::partitions_of(&firsts).chain(&lists), world);
    (Some(streamed), (firsts, Vec::new()))
}

/// The faults that the file states and the randomly drawn faults, in order of time.
fn all_faults(
    file: &Fields<'_>,
    setting: &failures::ReadContext<'_>,
    arrivals: &mut [Arrival],
    report: &mut Report,
) -> Vec<(SimTime, Fault)> {
    let mut faults = faults::read(file, setting.world, setting.until, report);
    let drawn = failures::read(file, setting, arrivals, report);
    faults.extend(failures::of_present_nodes(drawn, &faults));
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// Adds the expected workload to a profile that needs one and states none. It comes from the trace, or else from the
/// arrivals.
fn with_target(profile: Arc<Profile>, traced: Option<Target>, arrivals: &[Arrival]) -> Arc<Profile> {
    if !profile.scheduler.needs_target() || !profile.scheduler.target.is_empty() {
        return profile;
    }
    let tasks = |arrival: &Arrival| {
        let demand = &arrival.spec.demand;
        // A model or a job with `resources` counts as tasks without needs.
        let replicas = u64::from(arrival.spec.replicas);
        let of_all = |tasks: u32| u64::from(tasks) * replicas;
        let mut shapes: Vec<(TaskShape, u64)> =
            demand.kinds_of_tasks().map(|(tasks, task)| (TaskShape::of(task), of_all(tasks))).collect();
        if shapes.is_empty() {
            shapes.push((TaskShape::default(), of_all(demand.tasks)));
        }
        shapes.into_iter().filter(|(_, tasks)| *tasks > 0)
    };
    let mut profile = (*profile).clone();
    profile.scheduler.target = traced.unwrap_or_else(|| Target::of_counted(arrivals.iter().flat_map(tasks)));
    Arc::new(profile)
}

/// The scheduler in another process that decides, if there is one.
fn decider(file: &Fields<'_>, folder: &Path, options: &Options, report: &mut Report) -> Option<Setup> {
    let typed = match &options.outside {
        Outside::Command(command, folder) => Some((command, folder.as_path())),
        Outside::Refused | Outside::Allowed => None,
    };
    let setup = outside::read(file, folder, typed, report);
    // A log already holds its decisions. A profile named on the command line decides instead of the file's scheduler.
    if options.recorded.is_some() || (typed.is_none() && options.profile.is_some()) {
        return None;
    }
    if options.outside == Outside::Refused && setup.is_some() {
        let message = "this command cannot start a scheduler in another process";
        let help = "use `dryrack run` or `dryrack test`, or name a profile that decides instead with `--profile`";
        report.error_with_help(file.key_span("outside"), message, help);
    }
    setup
}

/// Refuses gangs of unequal tasks where a kube-scheduler decides, because it places pods one by one.
fn refuse_sets(arrivals: &[Arrival], world: &World, report: &mut Report) {
    let unequal = arrivals.iter().zip(&world.job_spans).find(|(arrival, _)| !arrival.spec.demand.sets().is_empty());
    if let Some((arrival, span)) = unequal {
        let message =
            format!("`{}` has unequal tasks, which kube-scheduler cannot place as a whole", arrival.spec.name);
        report.error_with_help(*span, message, "write `tasks: 4` for identical tasks, or name a profile");
    }
}

/// The profile with its decisions left to the scheduler in another process, if there is one.
fn decided(
    (profile, target): (Arc<Profile>, Option<Target>),
    outside: Option<&Setup>,
    (file, arrivals, world): (&Fields<'_>, &[Arrival], &World),
    report: &mut Report,
) -> Arc<Profile> {
    let profile = with_target(profile, target, arrivals);
    let Some(setup) = outside else { return profile };
    if matches!(setup.command, Command::KubeScheduler { .. }) {
        refuse_sets(arrivals, world, report);
    }
    let program = Program { when_unsafe: if setup.allows_unsafe { Unsafe::Allowed } else { Unsafe::Refused } };
    match setup.command {
        Command::Lines(_) | Command::Socket(_) => Arc::new(profile.decided_by(program)),
        Command::KubeScheduler { .. } if profile.flow.places_pods() => {
            Arc::new(profile.decided_by_kube_scheduler(program))
        }
        Command::KubeScheduler { .. } => {
            let span = file.get("profile").map_or(file.place(), |tree| tree.span);
            let message =
                format!("kube-scheduler cannot decide under `{}`, which is no profile of Kubernetes", profile.name);
            report.error_with_help(
                span,
                message,
                "write `profile: kubernetes-1.35`, or add `--profile kubernetes-1.35`",
            );
            profile
        }
    }
}

fn head(file: &Fields<'_>, folder: &Path, options: &Options, report: &mut Report) -> Head {
    let title = file.require("scenario", "A sentence that must be true", report);
    let title = title.and_then(|tree| text(tree, "a title", report));
    let as_in_base = options.as_in_base.as_ref().map(|(option, against)| (option.as_str(), *against));
    let changes = Changes { as_in_base, policies: file.get("policies"), slurm: file.get("slurm") };
    let typed = match &options.outside {
        Outside::Command(command, _) => Some(command),
        Outside::Refused | Outside::Allowed => None,
    };
    let is_kubernetes = file.has("manifests") || file.has("kueue") || outside::is_kube_scheduler(file, typed);
    let default = match (&options.asked, is_kubernetes) {
        (Some(_), _) => PROFILE_OF_MODELS,
        (None, true) => PROFILE_OF_MANIFESTS,
        (None, false) => DEFAULT_PROFILE,
    };
    let profile = match (&options.recorded, file.get("profile")) {
        (Some(profile), _) => Some(Profile::clone(profile)),
        (None, None) => profile_with(default, file.place(), folder, changes, report),
        (None, Some(tree)) => {
            // A profile's path on the command line is relative to the working directory. In a plan, it is relative to
            // the plan.
            let plan = options.plan.as_ref().filter(|plan| *report.place(tree.span).0 == *plan.name);
            let folder = match plan.and_then(|plan| Path::new(&*plan.name).parent()) {
                Some(beside) => beside,
                None if report.is_typed(tree.span) => {
                    // Expectations may name reasons that only the file's own profile declares.
                    report.declare_any();
                    Path::new("")
                }
                None => folder,
            };
            text(tree, "the name of a profile", report)
                .and_then(|name| profile_with(name, tree.span, folder, changes, report))
        }
    };
    let named = file.get("profile").and_then(Tree::scalar).filter(|_| profile.is_none());
    let tags = file.items("tags", "a tag", report);
    Head {
        stand_in: named.and_then(dryrack_profile::stand_in),
        title: title.unwrap_or("").to_string(),
        report: file.text("report", "a report such as gpustack#1548", report).map(str::to_string),
        seed: file.value("seed", report).unwrap_or(1),
        profile: profile.map(Arc::new),
        until: file.value("until", report),
        warm_up: warm_up(file, report),
        tags: tags.into_iter().map(|(tag, _)| tag.to_string()).collect(),
    }
}

fn unplaced(file: &Fields<'_>, report: &mut Report) -> Unplaced {
    let choices = [("fail", Unplaced::Fail), ("ignore", Unplaced::Ignore)];
    file.word("unplaced", "a value of `unplaced`", &choices, report).unwrap_or_default()
}

/// Reads `warm_up`, which must end before the run ends. Otherwise no time would be left to measure.
fn warm_up(file: &Fields<'_>, report: &mut Report) -> Option<SimTime> {
    let mut quiet = Report::default();
    let (warm_up, until) = (file.value("warm_up", report)?, file.value::<SimTime>("until", &mut quiet));
    if let (Some(until), Some(tree)) = (until, file.get("warm_up"))
        && warm_up >= until
    {
        let help = format!("write less than {until}");
        report.error_with_help(tree.span, format!("the warm-up lasts until the end of the run, at {until}"), help);
    }
    Some(warm_up)
}
