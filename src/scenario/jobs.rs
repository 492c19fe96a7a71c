//! Jobs: converts `jobs:` to arrivals in order of time. Arrivals at the same time stay in the order of the file.

use std::sync::Arc;

use super::arrays::{self, JobArray};
use super::arrivals::{ArrivalPattern, arrivals};
use super::demand;
use super::dependencies::{self};
use super::deployment;
use super::elsewhere::elsewhere;
use super::growth::Load;
use super::job_template::{Draft, JobTemplate};
use super::kueue;
use super::lengths::{lengths, positive};
use super::live;
use super::pods::{self, Pods};
use super::policies;
use super::requirements;
use super::services;
use super::serving::with_requests;
use super::slurm;
use super::speeds;
use super::terms;
use super::terms::RETRY_FIELDS;
use super::usage::{Places, Sampled, sampling, usage};
use super::world::{RandomEntry, World};
use dryrack_control::Profile;
use dryrack_ids::JobId;
use dryrack_planted::planted;
use dryrack_rng::{self as rng, Lengths, Stream};
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{
    Arrival, Backoff, Checkpoint, Condition, Demand, DemandKind, Dependency, Ending, GpuTake, JobBehavior, JobField,
    JobSpec, Pick, Requirements, Restart, RetryPolicy, RunLimit, Unselectable,
};
use dryrack_yaml::{Fields, Node, Report, Tree, name, parse, text, value};

const RESTARTS: [(&str, Restart); 3] =
    [("never", Restart::Never), ("on_failure", Restart::OnFailure), ("always", Restart::Always)];
const ENDINGS: [(&str, Ending); 2] = [("completed", Ending::Completed), ("failed", Ending::Failed)];

const UNSELECTABLE: [(&str, Unselectable); 2] = [("wait", Unselectable::Wait), ("refuse", Unselectable::Refuse)];

const CHECKPOINT: [&str; 2] = ["every", "restart"];

/// Fields of a job in addition to those of its demand.
const FIELDS: [&str; 40] = [
    "name",
    "at",
    "after",
    "array",
    "count",
    "every",
    "arrivals",
    "until",
    "duration",
    "master_duration",
    "ends",
    "cancel_at",
    "prepare",
    "analysis",
    "failing_starts",
    "stop",
    "stop_duration",
    "checkpoint",
    "rendezvous",
    "priority",
    "queue",
    "topology",
    "user",
    "project",
    "estimate",
    "time_limit",
    "restart",
    "retry",
    "replicas",
    "scaling",
    "requests",
    "serving",
    "unselectable",
    "startup_order",
    "stop_criteria",
    "idle_duration",
    "usage",
    "sampling",
    "utilization_policy",
    "speed",
];

/// The largest number of jobs of a scenario: if all jobs are created before the run, and if they are streamed.
const MAX_JOBS: usize = 1_000_000;
const MAX_STREAMED: usize = 1_000_000_000;
/// The largest number of replicas of a job, and of tasks of a gang.
const MAX_REPLICAS: u32 = 100_000;

/// The context in which jobs are read.
pub(super) struct ReadContext<'s> {
    pub profile: &'s Profile,
    pub seed: u64,
    pub until: Option<SimTime>,
    /// How GPUs are sampled for jobs without settings of their own.
    pub sampled: &'s Sampled,
    pub places: &'s Places<'s>,
    /// Whether jobs are created during the run.
    pub streamed: bool,
    pub load: Load,
}

impl ReadContext<'_> {
    fn most(&self) -> usize {
        if self.streamed { MAX_STREAMED } else { MAX_JOBS }
    }
}

/// Reads `jobs:`, in the order of the file.
pub(super) fn read(
    file: &Fields<'_>,
    world: &mut World,
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> Vec<JobTemplate> {
    let (mut entries, mut count) = (Vec::new(), 0);
    for tree in file.list("jobs", report) {
        let Some(copies) = entry(tree, world, setting, setting.most().saturating_sub(count), report) else { continue };
        count += copies.len();
        entries.push(copies);
    }
    entries
}

/// All jobs of these entries, in the order of the file.
pub(super) fn drafts(entries: &[JobTemplate]) -> impl Iterator<Item = Draft> {
    entries.iter().flat_map(JobTemplate::drafts)
}

/// Reads the job of `dryrack fit`, which has a demand and nothing else.
pub(super) fn asked(typed: &str, world: &mut World, report: &mut Report) -> Option<(Demand, u32)> {
    let source = report.add_source("command line", typed);
    let tree = parse(typed, source, report)?;
    let mut known = demand::FIELDS.to_vec();
    known.extend(deployment::FIELDS);
    let fields = Fields::read_with(&tree, "a job", &known, elsewhere, report)?;
    let demand = demand::read(&fields, world, report);
    let replicas = fields.count("replicas", 1, report).unwrap_or(1);
    refuse_many_replicas(replicas, &fields, report);
    Some((demand, replicas))
}

/// Refuses more replicas than a job may have. Returns whether there are as many.
pub(super) fn refuse_many_replicas(replicas: u32, fields: &Fields<'_>, report: &mut Report) -> bool {
    let are_many = replicas > MAX_REPLICAS;
    if are_many {
        let message = format!("{replicas} replicas is too many; the limit is {MAX_REPLICAS}");
        report.error_with_help(fields.key_span("replicas"), message, "write fewer replicas");
    }
    are_many
}

/// Sorts the jobs, assigns their ids and adds them to the world.
pub(super) fn arrange(
    mut drafts: Vec<Draft>,
    world: &mut World,
    report: &mut Report,
) -> (Vec<Arrival>, Vec<(SimTime, JobId)>) {
    // The sort is stable, so equal times keep the order of the file.
    drafts.sort_by_key(|draft| draft.arrival.at);
    let mut arrivals = Vec::with_capacity(drafts.len());
    let mut cancellations = Vec::new();
    let mut reported = None;
    for mut draft in drafts {
        match world.job_names.add(Arc::clone(&draft.arrival.spec.name)) {
            Ok(index) => {
                let first = draft.after_start_of.and_then(|name| world.job_names.find(&name));
                if let Some(first) = first.filter(|_| !planted!(StatefulPodsAtOnce)) {
                    let when = Condition::Start;
                    Arc::make_mut(&mut draft.arrival.spec).after = [Dependency { job: JobId::new(first), when }].into();
                }
                cancellations.extend(draft.cancel_at.map(|at| (at, JobId::new(index))));
                let spec = &draft.arrival.spec;
                world
                    .replicas
                    .push(spec.scaling.as_deref().map_or(spec.replicas, |scaling| scaling.max.max(spec.replicas)));
                world.job_spans.push(draft.span);
                arrivals.push(draft.arrival);
            }
            // The copies of one entry get this message only once.
            Err(_) if reported == Some(draft.span) => {}
            Err(_) => {
                reported = Some(draft.span);
                let message = format!("two jobs are named `{}`", draft.arrival.spec.name);
                report.error_with_help(draft.span, message, "give each job a different name, or use `count:`");
            }
        }
    }
    cancellations.sort();
    (arrivals, cancellations)
}

/// All keys of a job.
fn known_fields() -> Vec<&'static str> {
    let mut known = FIELDS.to_vec();
    known.extend(demand::FIELDS.iter().filter(|key| **key != "replicas"));
    known.extend(deployment::FIELDS);
    known.extend(requirements::FIELDS);
    known.extend(live::JOB_FIELDS);
    known.extend(slurm::JOB_FIELDS);
    known
}

fn entry(
    tree: &Tree,
    world: &mut World,
    setting: &ReadContext<'_>,
    most: usize,
    report: &mut Report,
) -> Option<JobTemplate> {
    let fields = Fields::read_with(tree, "a job", &known_fields(), elsewhere, report)?;
    let name_tree = fields.require("name", "chat", report);
    let demand = with_speeds(&fields, demand::read(&fields, world, report), world, report);
    let sampled = match fields.get("sampling") {
        Some(tree) => sampling(tree, setting.sampled, report).unwrap_or_default(),
        None => setting.sampled.clone(),
    };
    let mut spec = spec(&fields, demand, (world, setting.profile), report);
    let place = name_tree.map_or(fields.place(), |tree| tree.span);
    spec.utilization =
        policies::utilization(fields.get("utilization_policy"), sampled.interval, place, setting.profile, report)
            .map(Arc::new)
            .unwrap_or_default();
    let run = fields.get("duration").and_then(|tree| lengths(tree, report));
    let mut behavior = behavior(&fields, run, report);
    behavior.usage = fields.get("usage").and_then(|tree| usage(tree, setting.places, report)).map(Arc::new);
    behavior.sampling = sampled.sampling;
    behavior.together = pods::together(&fields, spec.replicas, setting.profile, report);
    behavior.launch = live::launch(&fields, report);
    if let Some(grace) = behavior.launch.as_ref().and_then(|launch| launch.grace) {
        behavior.stop = behavior.stop.min(grace);
    }
    with_requests(&mut behavior, &fields, &spec, (&mut *world, setting), report);
    warn_of_policies(&fields, &spec, &behavior, setting.profile, report);
    let cancel_at = fields.value::<SimTime>("cancel_at", report);
    let name = name_tree.and_then(|tree| Some((tree, name(tree, report)?)));
    let typed = name.map_or("", |(_, name)| name);
    let array = arrays::read(&fields, most, report);
    let (width, times) = match fields.get("arrivals") {
        _ if array.is_some() => tasks_of_array(&fields, array.as_ref(), report),
        Some(tree) => generated(&fields, tree, typed, setting, most, report),
        None => stated(&fields, setting, most, report),
    };
    let (name_tree, typed) = name?;
    // A streamed job does not exist yet, so expectations cannot name its group.
    if width.is_some() && !setting.streamed {
        world.groups.insert(typed.to_string());
    }
    if let Some(array) = array.as_ref().filter(|_| !setting.streamed) {
        world.arrays.insert(typed.to_string(), Arc::clone(&array.numbers));
    }
    let after = dependencies::read(&fields, report);
    spec.run_limit = match array.as_ref().and_then(|array| array.most) {
        Some(most) => Some(Box::new(RunLimit::ArrayTasks { array: Arc::from(typed), most })),
        None => after.is_singleton.then(|| Box::new(RunLimit::Singleton { name: Arc::from(typed) })),
    };
    if fields.has("arrivals") {
        let chance = RandomEntry { queue: spec.queue.clone(), user: spec.user.clone() };
        world.chances.insert(typed.to_string(), chance);
    }
    world.unsubmitted.extend(times.is_empty().then(|| spec.clone()));
    let copies = JobTemplate {
        name: Arc::from(typed),
        width,
        array,
        times,
        spec,
        behavior: Arc::new(behavior),
        run,
        seed: setting.seed,
        cancel_at,
        after: after.named,
        span: name_tree.span,
    };
    if let (Some(cancel), Some(tree)) = (cancel_at, fields.get("cancel_at"))
        && let Some(index) = copies.times.iter().position(|at| cancel < *at)
    {
        let (name, at) = (copies.name_of(index), copies.times[index]);
        let message = format!("`{name}` is cancelled at {cancel}, before its submission at {at}");
        report.error_with_help(tree.span, message, format!("write {at} or later"));
    }
    Some(copies)
}

/// The demand with the job's speeds on each type of GPU, if the file or the job states speeds.
fn with_speeds(fields: &Fields<'_>, mut demand: Demand, world: &mut World, report: &mut Report) -> Demand {
    let base = world.speed.clone();
    let own = fields.get("speed").and_then(|tree| speeds::read(tree, base.as_ref(), world, report));
    let name = fields.get("name").and_then(Tree::scalar).unwrap_or_default();
    let scope = if own.is_some() { format!("for `{name}`, ") } else { String::new() };
    let Some(table) = own.or(base) else { return demand };
    world.add_speeds((&table, &scope), &mut demand, report);
    demand
}

/// The number of digits in the numbers after the names, and the arrival times.
type Times = (Option<usize>, Vec<SimTime>);

/// Warns about a policy that gets no samples, and about usage of GPUs that the job does not have.
fn warn_of_policies(
    fields: &Fields<'_>,
    spec: &JobSpec,
    behavior: &JobBehavior,
    profile: &Profile,
    report: &mut Report,
) {
    let wants = |requirements: &Requirements| requirements.gpu.as_ref().is_none_or(|gpu| gpu.count.max != Some(0));
    let has_gpus = match &spec.demand.kind {
        DemandKind::Tasks(task) => task.gpus.is_some(),
        DemandKind::Sets(sets) => sets.iter().any(|set| set.task.gpus.is_some()),
        DemandKind::Model(_) => true,
        DemandKind::Requirements(requirements) => wants(requirements),
    };
    for key in ["usage", "utilization_policy"].iter().filter(|key| fields.has(key) && !has_gpus) {
        report.warning(
            fields.key_span(key),
            format!("`{key}` has no effect on a job without GPUs"),
            "add `gpus: 1`, or leave it out",
        );
    }
    if behavior.usage.is_none() && has_gpus && profile.policies.utilization.bind(&spec.utilization).is_some() {
        let message = "a utilization policy applies to this job, but its GPU usage is missing, so it is never sampled";
        report.warning(fields.place(), message, "add `usage: 90%`, or the usage of its GPUs");
    }
}

/// The tasks of an array, which are submitted together.
fn tasks_of_array(fields: &Fields<'_>, array: Option<&JobArray>, report: &mut Report) -> Times {
    let at = fields.value::<SimTime>("at", report).unwrap_or(SimTime::ZERO);
    (None, vec![at; array.map_or(1, |array| array.numbers.len())])
}

/// Reads the arrival of one job, or of `count` copies at intervals of `every`.
fn stated(fields: &Fields<'_>, setting: &ReadContext<'_>, most: usize, report: &mut Report) -> Times {
    let at = fields.value::<SimTime>("at", report).unwrap_or(SimTime::ZERO);
    let every = fields.value::<SimDuration>("every", report).unwrap_or(SimDuration::ZERO);
    if fields.has("every") && !fields.has("count") {
        let help = "add `count: 10`, or leave `every` out";
        report.error_with_help(
            fields.key_span("every"),
            "`every` is the time between copies, but there is only one job",
            help,
        );
    }
    if fields.has("until") {
        let help = "add `arrivals: {poisson: 10/h}`, or leave `until` out";
        report.error_with_help(fields.key_span("until"), "`until` ends random arrivals, but this job has none", help);
    }
    let Some(tree) = fields.get("count") else { return (None, vec![at]) };
    // If the number is invalid, one copy represents the whole entry in later checks.
    let mut count = fields.count("count", 1, report).unwrap_or(1);
    if count as usize > most {
        let message = format!("more than {} jobs", setting.most());
        report.error_with_help(tree.span, message, "rehearse a part of the workload");
        count = 1;
    }
    let mut times = Vec::with_capacity(count as usize);
    for index in 0..count {
        let later = every.as_nanos().checked_mul(index.into()).map(SimDuration::from_nanos);
        let Some(at) = later.and_then(|later| at.checked_add(later)) else {
            let help = "write a shorter `every`, or fewer copies";
            report.error_with_help(
                fields.key_span("every"),
                "the last copies would be submitted after the largest possible time",
                help,
            );
            break;
        };
        times.push(at);
    }
    (Some(digits(count as usize)), times)
}

/// The number of digits in the largest of `count` numbers that start at 0.
fn digits(count: usize) -> usize {
    count.saturating_sub(1).to_string().len()
}

/// Reads jobs that arrive at random or on a schedule. They are named `load-0000` and so on.
fn generated(
    fields: &Fields<'_>,
    tree: &Tree,
    name: &str,
    setting: &ReadContext<'_>,
    most: usize,
    report: &mut Report,
) -> Times {
    let none = (Some(0), Vec::new());
    fields.exclusive(&["arrivals", "every"], "`arrivals` already sets the submission times", report);
    let from = fields.value::<SimTime>("at", report).unwrap_or(SimTime::ZERO);
    let count = fields.count("count", 1, report);
    let until = fields.value::<SimTime>("until", report).or(setting.until);
    if until.is_none() && !fields.has("count") {
        let help = "add `until: 8h` or `count: 100`";
        report.error_with_help(fields.key_span("arrivals"), "the end of the arrivals is missing", help);
    }
    let Some(ArrivalPattern { arrivals, batch }) = arrivals(tree, report) else { return none };
    if until.is_none() && count.is_none() {
        return none;
    }
    let wanted = count.map_or(usize::MAX, |count| count as usize);
    let mut stream = Stream::new(setting.seed, "arrivals", rng::entity(&[name]));
    let enough = wanted.min(most + 1);
    let growing = Stream::new(setting.seed, "growth", rng::entity(&[name]));
    let instants = match setting.load.instants(arrivals, (from, until), enough, (&mut stream, growing)) {
        Ok(instants) => instants,
        Err(fault) => {
            fault.report(tree.span, "write an earlier `until`", report);
            return none;
        }
    };
    // Batch sizes have their own random stream, so a change in arrival times does not change them.
    let times = batch.spread(&instants, &mut Stream::new(setting.seed, "batches", rng::entity(&[name])), enough);
    if times.len() > most {
        report.error_with_help(tree.span, format!("more than {} jobs", setting.most()), "write an earlier `until`");
        return none;
    }
    if times.is_empty() {
        report.warning(tree.span, "no job is submitted in this time", "write a later `until`, or a higher rate");
    } else if until.is_none() && !setting.load.is_plain() && times.len() < wanted {
        let message = format!("the load falls so fast that only {} of {wanted} jobs are submitted", times.len());
        report.warning(tree.span, message, "write less negative growth, or a smaller `count`");
    }
    (Some(digits(times.len()).max(4)), times)
}

/// Reads the specification of the jobs without their names.
fn spec(fields: &Fields<'_>, mut demand: Demand, (world, profile): (&World, &Profile), report: &mut Report) -> JobSpec {
    let least = kueue::least_of_pods(&mut demand, world, profile);
    let slurm = slurm::terms(fields, &mut demand, profile, report);
    let (replicas, scaling) = services::replicas(fields, report);
    let Pods { replicas, template } = pods::each_task_alone(fields, &mut demand, replicas, profile, report);
    let most = scaling.map_or(replicas, |scaling| scaling.max);
    for (key, count) in [("replicas", most), ("tasks", demand.tasks)] {
        if count > MAX_REPLICAS {
            let message = format!("{count} {key} of one job is too many; the limit is {MAX_REPLICAS}");
            report.error_with_help(fields.key_span(key), message, "use `count:` for separate jobs");
        }
    }
    let takes_whole = demand.gpus().is_some_and(|gpus| gpus.take == GpuTake::Whole);
    if replicas > 1 && takes_whole && matches!(demand.pick, Some(Pick::AllGpus(_))) {
        let message = format!("{replicas} replicas each need exactly these whole GPUs, so only one runs at a time");
        report.warning(
            fields.key_span("gpus"),
            message,
            "let replicas choose among GPUs with `pick_gpus:` and a number of `gpus`",
        );
    }
    let time_limit = fields.value::<SimDuration>("time_limit", report);
    if time_limit == Some(SimDuration::ZERO) {
        let help = "write a duration such as 1h, or leave `time_limit` out";
        report.error_with_help(fields.key_span("time_limit"), "with a time limit of 0, nothing can run", help);
    }
    // A job with a model runs until it is cancelled.
    let default = if demand.model().is_some() { Restart::Always } else { Restart::Never };
    let restart = fields.word("restart", "a restart policy", &RESTARTS, report).unwrap_or(default);
    let mut spec = JobSpec {
        name: Arc::from(""),
        demand: Arc::new(demand),
        replicas,
        scaling: scaling.map(Box::new),
        priority: slurm::priority(fields, profile, report),
        queue: fields.text("queue", "the name of a queue", report).map(Arc::from),
        user: fields.text("user", "the name of a user", report).map(Arc::from),
        project: project(fields, profile, report),
        estimate: fields
            .value("estimate", report)
            .or(time_limit.filter(|_| profile.schedules_like_slurm()))
            .or_else(|| slurm::default_limit(slurm.as_ref(), profile)),
        time_limit,
        analyse: fields.has("analysis"),
        restart,
        retry: fields.get("retry").and_then(|tree| retry(tree, profile, restart, report)).map(Box::new),
        checkpoints: fields.has("checkpoint"),
        terms: Arc::new(terms::read(fields, report)),
        utilization: Arc::default(),
        after: Arc::default(),
        run_limit: None,
        unselectable: fields
            .word("unselectable", "a value of `unselectable`", &UNSELECTABLE, report)
            .unwrap_or_default(),
        slurm,
        pod: template,
        queued: None,
        shared_deadline: None,
        shared_retry: None,
        restarts_with: None,
    };
    spec.queued = kueue::queued(fields, &spec, least, world, report);
    spec
}

/// Reads the project. If the profile gives quotas to projects, the job's project must be one of them.
fn project(fields: &Fields<'_>, profile: &Profile, report: &mut Report) -> Option<Arc<str>> {
    let typed = fields.text("project", "the name of a project", report)?;
    let (quotas, span) = (&profile.policies.quotas, fields.get("project").map_or(fields.place(), |tree| tree.span));
    if quotas.is_empty() {
        if !profile.scheduler.stages_read(JobField::Project) {
            let help = format!("add `policies: {{quotas: {{{typed}: {{gpus: 8}}}}}}`, or leave it out");
            report.warning(span, "no project has a quota, so `project` has no effect", help);
        }
    } else if !quotas.contains_key(typed) {
        let message = format!("the project `{typed}` has no quota");
        report.unknown(span, message, typed, quotas.keys().map(String::as_str));
    }
    Some(Arc::from(typed))
}

/// Reads the behavior of the jobs. `run` is used only if it is a fixed length.
fn behavior(fields: &Fields<'_>, run: Option<Lengths>, report: &mut Report) -> JobBehavior {
    let run = run.map(|lengths| match lengths {
        Lengths::Fixed(length) => length,
        Lengths::Uniform(..) | Lengths::Exponential { .. } | Lengths::Weibull { .. } | Lengths::Lognormal { .. } => {
            SimDuration::ZERO
        }
    });
    if fields.has("ends") && !fields.has("duration") {
        let help = "add `duration: 10m`";
        report.error_with_help(
            fields.key_span("ends"),
            "`ends` is the outcome of a job that ends by itself, but this job does not",
            help,
        );
    }
    let mut behavior = JobBehavior {
        run,
        master_run: master_run(fields, report),
        ending: fields.word("ends", "an ending", &ENDINGS, report).unwrap_or_default(),
        prepare: fields.value("prepare", report).unwrap_or_default(),
        failing_starts: fields.value("failing_starts", report).unwrap_or(0),
        stop: stop(fields, report),
        checkpoint: fields.get("checkpoint").and_then(|tree| checkpoint(tree, report)),
        ..JobBehavior::default()
    };
    match fields.get("analysis").map(|tree| (tree, text(tree, "a duration, `never` or `fails`", report))) {
        None | Some((_, None)) => {}
        Some((_, Some("never"))) => behavior.analysis = None,
        Some((_, Some("fails"))) => behavior.analysis_fails = true,
        Some((tree, Some(typed))) => match typed.parse() {
            Ok(duration) => behavior.analysis = Some(duration),
            Err(error) => {
                let near = dryrack_nearest::nearest(typed, ["never", "fails"]);
                let help = near
                    .map_or("write `30s`, `never` or `fails`".to_string(), |near| format!("did you mean `{near}`?"));
                report.error_with_help(tree.span, error.to_string(), help);
            }
        },
    }
    behavior
}

/// Reads `{every: 10m, restart: 1m}`.
pub(super) fn checkpoint(tree: &Tree, report: &mut Report) -> Option<Checkpoint> {
    let fields = Fields::read(tree, "a checkpoint", &CHECKPOINT, report)?;
    let every = fields.value("every", report).unwrap_or_default();
    Some(Checkpoint { every, restart: fields.value("restart", report).unwrap_or_default() })
}

/// Reads `{limit: 3, first: 10s, factor: 200%, max: 5m}`. Missing fields come from the profile.
fn retry(tree: &Tree, profile: &Profile, restart: Restart, report: &mut Report) -> Option<RetryPolicy> {
    let fields = Fields::read(tree, "a retry policy", &RETRY_FIELDS, report)?;
    if terms::is_of_events(&fields) {
        fields.exclusive(
            &["on", "limit", "first", "factor", "max"],
            "with `on`, a run is tried again for a time, not a number of times",
            report,
        );
        return None;
    }
    let limit = match fields.get("limit") {
        Some(Tree { node: Node::Scalar { text, .. }, .. }) if text == "none" => None,
        Some(_) => fields.value::<u32>("limit", report),
        None if restart == Restart::Always => None,
        None => profile.retry.limit,
    };
    let factor = fields.value::<Permille>("factor", report).unwrap_or(profile.retry.factor);
    if factor < Permille::new(1000) {
        let help = "write 100% for equal pauses, 200% to double them";
        report.error_with_help(
            fields.key_span("factor"),
            format!("with a factor of {factor}, the pauses would shrink"),
            help,
        );
    }
    let first = fields.value("first", report).unwrap_or(profile.retry.first);
    if first == SimDuration::ZERO && limit.is_none() {
        let help = "write `first: 1s`, or a `limit`";
        report.error_with_help(
            tree.span,
            "without pauses and a limit, the run could stay at one instant forever",
            help,
        );
    }
    let max = fields.value("max", report).unwrap_or(profile.retry.max.max(first));
    if max < first {
        let help = format!("write `max: {first}` or more");
        report.error_with_help(
            fields.key_span("max"),
            format!("the longest pause is shorter than the first, which is {first}"),
            help,
        );
    }
    Some(RetryPolicy { limit, backoff: Backoff { first, factor, max } })
}

/// Reads how long the master of a run of several nodes takes, if this differs from its workers.
fn master_run(fields: &Fields<'_>, report: &mut Report) -> Option<SimDuration> {
    let length = fields.get("master_duration").and_then(|tree| positive(tree, report))?;
    if !fields.has("nodes") {
        let help = "add `nodes: 2`, or write `duration`";
        report.error_with_help(fields.key_span("master_duration"), "only a job with `nodes` has a master", help);
    }
    Some(length)
}

/// How long stopping takes. It is at most `stop_duration`, after which the job is killed.
fn stop(fields: &Fields<'_>, report: &mut Report) -> SimDuration {
    let length: SimDuration = fields.value("stop", report).unwrap_or_default();
    match fields.get("stop_duration") {
        None => length,
        Some(tree) if matches!(tree.scalar(), Some("off")) => length,
        Some(tree) => value(tree, report).map_or(length, |most: SimDuration| length.min(most)),
    }
}
