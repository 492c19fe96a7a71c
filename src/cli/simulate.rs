//! `dryrack simulate`: says whether Kueue would admit one more workload, when, whom it would preempt, and which single
//! change would help.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::output::{Format, print, print_json, warn};
use super::progress;
use super::run::Overrides;
use super::select::is_manifest;
use dryrack_control::StandsBehind;
use dryrack_engine::{Never, Preemptor, QueueChange, Rehearsal, Remedy, Simulated, Victim, simulate as simulate_jobs};
use dryrack_event::Reason;
use dryrack_ids::JobId;
use dryrack_metrics::{UnplaceableAccount, judge_jobs};
use dryrack_scenario::{AddedWorkload, Loaded, Options, load, load_text};
use dryrack_units::{SimTime, counted};
use dryrack_workload::JobSpec;

#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Scenario file, or a manifest or a folder of manifests with nodes, queues and workloads
    path: PathBuf,
    /// File with one more workload: a manifest, or a job in dryrack's words. `-` is the standard input
    #[arg(long, value_name = "FILE")]
    with: PathBuf,
    /// Time at which the workload is submitted [default: the file's own, or 0s]
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    at: Option<SimTime>,
    #[command(flatten)]
    overrides: Overrides,
}

/// The end of the rehearsal of a folder of manifests, in which pods may run without end.
const UNTIL: &str = "24h";

pub fn simulate(args: &SimulateArgs, format: Format) -> ExitResult {
    let options = args.overrides.lower(&args.path);
    let before = loaded(args, &options)?;
    let added = AddedWorkload::read(&args.with, args.at);
    let added = Some(added.map_err(|faults| Failure::Input(faults.to_string()))?);
    let with = loaded(args, &Options { added, ..options })?;
    warn(&with.warnings.to_string());
    let known: BTreeSet<&str> = before.rehearsal.arrivals.iter().map(|job| &*job.spec.name).collect();
    let arrivals = with.rehearsal.arrivals.iter().enumerate();
    let jobs: Vec<JobId> =
        arrivals.filter(|(_, job)| !known.contains(&*job.spec.name)).map(|(index, _)| JobId::new(index)).collect();
    let input = |message: String| Failure::file(&args.with, message);
    let Some(first) = jobs.first() else {
        return Err(input(
            "adds no workload; write a Job, a JobSet, a Pod, or a job in dryrack's words. One with `suspend: true` must name \
             a queue"
                .to_string(),
        ));
    };
    let spec = |job: &JobId| &with.rehearsal.arrivals[job.index()].spec;
    let part = spec(first).queued.as_ref();
    let workload = part.map(|part| &part.workload);
    if !jobs.iter().all(|job| spec(job).queued.as_ref().map(|other| &other.workload) == workload) {
        let help = "write one, such as a Deployment with `replicas: 1`, of which Kueue admits each pod alone";
        return Err(input(format!("has several workloads; {help}")));
    }
    let at = with.rehearsal.arrivals[first.index()].at;
    if let Some(until) = with.rehearsal.until.filter(|until| at > *until) {
        return Err(input(format!(
            "is submitted at {at}, and the rehearsal ends at {until}; choose an earlier `--at`, or a later `until`"
        )));
    }
    let name = match workload {
        Some(workload) => workload.name.to_string(),
        None if jobs.len() == 1 => spec(first).name.to_string(),
        None => format!("{} and {}", spec(first).name, counted(jobs.len() - 1, "more job")),
    };
    let said = || format!("rehearsing {} with {name}", args.path.display());
    let found = progress::with_line(said, || guarded(|| simulate_jobs(&with.rehearsal, &jobs)));
    let found = found.map_err(|message| Failure::Ours(format!("internal error: {message}\n")))?;
    let never_runs = if found.running.is_none() { never_runs(&with.rehearsal, &jobs) } else { None };
    let queue = workload.map(|workload| &*workload.queue);
    let case = Case { found: &found, loaded: &with, name: &name, queue, never_runs };
    match format {
        Format::Human => print(&case.human())?,
        Format::Json => print_json(&case.as_json())?,
    }
    let is_admitted = workload.is_none() || found.admitted.is_some();
    Ok(if is_admitted && found.running.is_some() { Exit::Fine } else { Exit::Failed })
}

/// Why a run of the scenario says that these jobs can never run. `None` if they may.
fn never_runs(rehearsal: &Rehearsal, jobs: &[JobId]) -> Option<String> {
    let specs: Vec<&JobSpec> = jobs.iter().map(|job| &*rehearsal.arrivals[job.index()].spec).collect();
    let at = rehearsal.arrivals[jobs[0].index()].at;
    let mut account = UnplaceableAccount::default();
    for (spec, judgement) in specs.iter().zip(judge_jobs(rehearsal, &specs, (at, specs.len()))) {
        if let Some(never) = judgement.never {
            account.add_demand(&spec.demand, never);
        }
    }
    account.name_among(rehearsal.nodes.iter().map(|node| &*node.spec.shape));
    account.first().map(str::to_string)
}

/// Loads the scenario, or makes one of the manifests.
fn loaded(args: &SimulateArgs, options: &Options) -> Result<Loaded, Failure> {
    let faults = |diagnostics: dryrack_yaml::Diagnostics| Failure::Input(diagnostics.to_string());
    let is_json = args.path.extension().is_some_and(|ending| ending == "json");
    if !args.path.is_dir() && !is_json && !is_manifest(&args.path) {
        return load(&args.path, options).map_err(faults);
    }
    let (folder, file) = match args.path.is_dir() {
        true => (args.path.as_path(), ".".to_string()),
        false => {
            let name = args.path.file_name().unwrap_or_default().to_string_lossy().to_string();
            (args.path.parent().unwrap_or(std::path::Path::new("")), name)
        }
    };
    let text = format!("scenario: One more workload\nuntil: {UNTIL}\nfiles: [{}]\n", Value::from(file));
    load_text(&args.path.display().to_string(), &text, folder, options).map_err(faults)
}

struct Case<'a> {
    found: &'a Simulated,
    loaded: &'a Loaded,
    name: &'a str,
    /// The LocalQueue. `None` if Kueue ignores the workload.
    queue: Option<&'a str>,
    /// Why a run says that it can never run.
    never_runs: Option<String>,
}

impl Case<'_> {
    /// The name of a job, or of its workload if that has several jobs.
    fn victim(&self, victim: &Victim) -> &str {
        let arrivals = &self.loaded.rehearsal.arrivals;
        let spec = &arrivals[victim.job.index()].spec;
        let (Some(part), Preemptor::Kueue(_)) = (&spec.queued, victim.by) else { return &spec.name };
        let of_it = arrivals.iter().filter(|job| {
            let other = job.spec.queued.as_ref();
            other.is_some_and(|other| other.workload == part.workload)
        });
        if of_it.count() > 1 { &part.workload.name } else { &spec.name }
    }

    /// Why Kueue has no part in the decision.
    fn unmanaged(&self) -> &'static str {
        match self.loaded.rehearsal.kueue.is_empty() {
            true => "there is no object of Kueue, so the scheduler alone decides",
            false => {
                "it names no queue, by the label `kueue.x-k8s.io/queue-name` or by `queue:`. Kueue ignores it, unless it \
                 is configured with `manageJobsWithoutQueueName`, so the scheduler alone decides"
            }
        }
    }

    fn human(&self) -> String {
        let found = self.found;
        let queue = self.queue.map_or("in no queue".to_string(), |queue| format!("in LocalQueue {queue}"));
        let mut text = format!(
            "{} {queue}, submitted at {}; under {}\n\n",
            self.name, found.submitted, self.loaded.rehearsal.profile.name
        );
        text.push_str(&self.admission());
        if found.admitted.is_some() || found.never.is_some() || self.queue.is_none() {
            text.push_str(&self.pods());
        }
        if let Some(because) = self.never_runs.as_ref().filter(|_| found.never.is_none()) {
            text.push_str(&format!("never runs {because}\n"));
        }
        let victims: Vec<String> = found.victims.iter().map(|victim| self.victim_text(victim)).collect();
        text.push_str(&format!(
            "preempts   {}\n",
            if victims.is_empty() { "nobody".into() } else { victims.join(", ") }
        ));
        text.push_str(&self.again());
        if let Some((at, because)) = &found.evicted {
            text.push_str(&format!("evicted    at {at} ({})\n", because.name()));
        }
        text.push_str(&self.changes());
        text
    }

    fn victim_text(&self, victim: &Victim) -> String {
        let by = match victim.by {
            Preemptor::Kueue(because) => because.name().to_string(),
            Preemptor::Scheduler { pods } => format!("{}, by the scheduler", counted(pods as usize, "pod")),
        };
        let name = self.victim(victim);
        match victim.times {
            1 => format!("{name} at {} ({by})", victim.at),
            times => format!("{name}, {times} times from {} to {} ({by})", victim.at, victim.last),
        }
    }

    /// Lines about workloads that are preempted for this one again and again.
    fn again(&self) -> String {
        let found = self.found;
        let line = |victim: &Victim| {
            let name = self.victim(victim);
            if found.evicted_for.iter().filter(|job| **job == victim.job).count() > 1 {
                return format!("again      {} and {name} preempt each other again and again\n", self.name);
            }
            let but = if found.admitted.is_some() { "before" } else { "and never" };
            format!("again      {name} is admitted again after each preemption, {but} {}\n", self.name)
        };
        let is_in_vain = |victim: &&Victim| {
            let is_before = found.admitted.as_ref().is_none_or(|(at, ..)| victim.last <= *at);
            let is_mutual = found.evicted_for.contains(&victim.job);
            matches!(victim.by, Preemptor::Kueue(_)) && victim.times > 2 && (is_before || is_mutual)
        };
        found.victims.iter().filter(is_in_vain).map(line).collect()
    }

    /// The changes that help, if any is wanted.
    fn changes(&self) -> String {
        let found = self.found;
        let runs_at_once = found.running == Some(found.submitted);
        if self.queue.is_none() || runs_at_once || (found.never.is_some() && found.changes.is_empty()) {
            return String::new();
        }
        let mut text = "\nsingle changes with which its pods all run earlier, each rehearsed:\n".to_string();
        if found.changes.is_empty() {
            text.push_str(
                "  none of those that were tried: more quota of one resource in one flavor, no borrowing limit, another\n  \
                 LocalQueue of the namespace, fewer pods\n",
            );
        }
        for Remedy { change, admitted, running, victims } in &found.changes {
            let victims: Vec<String> = victims.iter().map(|victim| self.victim_text(victim)).collect();
            let victims = if victims.is_empty() { "nobody".to_string() } else { victims.join(", ") };
            text.push_str(&format!(
                "  {}\n    admitted at {admitted}, all pods run at {running}, preempts {victims}\n",
                change_text(change)
            ));
        }
        text
    }

    /// Why it is not admitted at once.
    fn at_first(&self) -> Option<(Reason, Cow<'_, str>)> {
        let told = self.found.refused.as_ref().map(|(reason, message)| (*reason, Cow::from(&**message)));
        told.or_else(|| self.not_tried(self.found.behind.0.as_ref()?))
    }

    /// Why it is never admitted, as it stands at the end.
    fn last(&self) -> Option<(Reason, Cow<'_, str>)> {
        let told = self.found.last.as_ref().map(|(_, reason, message)| (*reason, Cow::from(&**message)));
        told.or_else(|| self.not_tried(self.found.behind.1.as_ref()?))
    }

    fn not_tried(&self, behind: &StandsBehind) -> Option<(Reason, Cow<'_, str>)> {
        let name = &self.loaded.rehearsal.arrivals[behind.job.index()].spec.name;
        Some((Reason::PendingEvaluation, Cow::from(behind.text(name))))
    }

    fn admission(&self) -> String {
        let found = self.found;
        let mut text = String::new();
        match &found.admitted {
            _ if self.queue.is_none() => text.push_str(&format!("admitted   without Kueue: {}\n", self.unmanaged())),
            Some((at, queue, sets)) => {
                let wait = at.since(found.submitted);
                let when = if wait.is_zero() { "at once".to_string() } else { format!("at {at}, after {wait}") };
                text.push_str(&format!("admitted   {when}, by ClusterQueue {queue}\n"));
                for set in sets {
                    let flavors: Vec<String> =
                        set.flavors.iter().map(|(resource, flavor)| format!("{resource} of {flavor}")).collect();
                    let pods = counted(set.count as usize, "pod");
                    text.push_str(&format!("  {}: {pods}, {}\n", set.name, flavors.join(", ")));
                }
            }
            None => {
                let until = found.until.map_or("the end of the run".to_string(), |until| until.to_string());
                text.push_str(&format!("admitted   no, simulated until {until}\n"));
                if let Some((because, message)) = self.last() {
                    text.push_str(&format!("because    {}: {message}\n", because.name()));
                }
            }
        }
        if let (Some(_), Some((because, message))) = (&found.admitted, self.at_first()) {
            text.push_str(&format!("at first   {}: {message}\n", because.name()));
        }
        text
    }

    /// When the pods run, or why they do not.
    fn pods(&self) -> String {
        let (wanted, most) = self.found.pods;
        let all = self.found.all_pods;
        match self.found.running {
            Some(at) if wanted < all => {
                return format!("running    {wanted} of {} at a time, from {at}\n", counted(all as usize, "pod"));
            }
            Some(at) if most < wanted => {
                return format!("running    the last of {wanted} pods from {at}, at most {most} at a time\n");
            }
            Some(at) => return format!("running    all pods at {at}\n"),
            None => {}
        }
        if let Some(never) = &self.found.never {
            return format!("running    {}\n", never_text(never, wanted));
        }
        let until = self.found.until.map_or("the end of the run".to_string(), |until| until.to_string());
        let mut text = format!(
            "running    at most {most} of {} at a time, simulated until {until}\n",
            counted(wanted as usize, "pod")
        );
        if let Some((at, reasons)) = &self.found.waits {
            text.push_str(&format!("pods wait  at {at}: {reasons}\n"));
        }
        text
    }

    fn as_json(&self) -> Value {
        let found = self.found;
        let admitted = found.admitted.as_ref().map(
            |(at, queue, sets)| json!({"at_seconds": at.as_secs_f64(), "cluster_queue": &**queue, "pod_sets": sets}),
        );
        let because =
            |(because, message): (Reason, Cow<'_, str>)| json!({"reason": because.name(), "message": message});
        json!({
            "workload": self.name,
            "local_queue": self.queue,
            "submitted_seconds": found.submitted.as_secs_f64(),
            "admitted": admitted,
            "at_first": self.at_first().map(because),
            "last": self.last().map(because),
            "running_seconds": found.running.map(SimTime::as_secs_f64),
            "unmanaged": self.queue.is_none().then(|| self.unmanaged()),
            "pods": found.pods.0,
            "all_pods": found.all_pods,
            "most_running": found.pods.1,
            "pods_wait": found.waits.as_ref().map(|(at, reasons)| json!({
                "at_seconds": at.as_secs_f64(), "reasons": reasons,
            })),
            "never": found.never.as_ref().map(|never| json!({
                "most_running": never.most, "reasons": never.reasons, "lacks": never.lacks,
            })),
            "never_runs": self.never_runs,
            "preempts": self.victims_json(&found.victims),
            "evicted": found.evicted.map(|(at, because)| json!({
                "at_seconds": at.as_secs_f64(), "because": because.name(),
            })),
            "changes": found.changes.iter().map(|remedy| {
                let mut change = change_json(&remedy.change);
                change["admitted_seconds"] = json!(remedy.admitted.as_secs_f64());
                change["running_seconds"] = json!(remedy.running.as_secs_f64());
                change["preempts"] = self.victims_json(&remedy.victims);
                change
            }).collect::<Vec<_>>(),
        })
    }

    fn victims_json(&self, victims: &[Victim]) -> Value {
        let of_one = |victim: &Victim| {
            let (by, because, pods) = match victim.by {
                Preemptor::Kueue(because) => ("kueue", Some(because.name()), None),
                Preemptor::Scheduler { pods } => ("scheduler", None, Some(pods)),
            };
            json!({
                "job": self.victim(victim),
                "at_seconds": victim.at.as_secs_f64(),
                "last_seconds": victim.last.as_secs_f64(),
                "times": victim.times,
                "by": by,
                "because": because,
                "pods": pods,
            })
        };
        victims.iter().map(of_one).collect()
    }
}

/// Why the pods never all run.
fn never_text(never: &Never, wanted: u32) -> String {
    let why = if never.lacks.is_empty() { never.reasons.to_string() } else { never.lacks.join(", and ") };
    match never.most {
        0 => format!("never, even if all nodes are empty: {why}"),
        most => format!(
            "never all at once: at most {most} of {} if all nodes are empty: {why}",
            counted(wanted as usize, "pod")
        ),
    }
}

fn change_text(change: &QueueChange) -> String {
    match change {
        QueueChange::Quota { queue, flavor, resource, from, to } => {
            format!("a quota of {to} {resource} of {flavor} in ClusterQueue {queue}, instead of {from}")
        }
        QueueChange::NoBorrowingLimit { queue, flavor, resource, from } => {
            format!("no borrowing limit of {resource} of {flavor} in ClusterQueue {queue}; it is {from}")
        }
        QueueChange::LocalQueue { name, cluster_queue } => format!("LocalQueue {name} (ClusterQueue {cluster_queue})"),
        QueueChange::Pods { from, to } => format!("{} instead of {from}", counted(*to as usize, "pod")),
    }
}

fn change_json(change: &QueueChange) -> Value {
    match change {
        QueueChange::Quota { queue, flavor, resource, from, to } => json!({
            "change": "quota", "cluster_queue": queue, "flavor": flavor, "resource": resource, "from": from, "to": to,
        }),
        QueueChange::NoBorrowingLimit { queue, flavor, resource, from } => json!({
            "change": "borrowing_limit", "cluster_queue": queue, "flavor": flavor, "resource": resource, "from": from,
        }),
        QueueChange::LocalQueue { name, cluster_queue } => {
            json!({"change": "local_queue", "local_queue": name, "cluster_queue": cluster_queue})
        }
        QueueChange::Pods { from, to } => json!({"change": "pods", "from": from, "to": to}),
    }
}
