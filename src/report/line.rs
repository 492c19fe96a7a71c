//! A record as a line of text in fixed columns.

use std::sync::Arc;

use super::policy_line::policy_detail;
use dryrack_event::{
    AdmittedPodSet, Event, External, FleetFact, Histogram, Input, Outside, Reason, Record, RecordBody, Refusal,
    UsageFact, UserRequest,
};
use dryrack_expect::{gpu_state_name, node_state_name};
use dryrack_ids::{AttemptId, JobId, Names, NodeId};
use dryrack_units::{SimTime, counted, printable};

/// The records to show. A record must meet all given conditions.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub job: Option<JobId>,
    pub node: Option<NodeId>,
    /// The reason that a record must give.
    pub reason: Option<dryrack_event::Reason>,
    pub since: Option<SimTime>,
}

/// The parts of a line.
struct Parts {
    subject: String,
    what: &'static str,
    detail: String,
    job: Option<JobId>,
    nodes: Vec<NodeId>,
    reasons: Histogram,
}

/// A line such as `       20s  chat         placed      on alpha/0`, with texts of other programs as [`printable`] gives
/// them; `None` if the record is no transition or the
/// filter excludes it.
pub fn record_line(record: &Record, names: &Names, filter: &Filter) -> Option<String> {
    if filter.since.is_some_and(|since| record.at < since) {
        return None;
    }
    let parts = match &record.said {
        RecordBody::Input(input) => input_parts(input, names)?,
        RecordBody::Event(event) => event_parts(event, names),
    };
    let left_out = filter.job.is_some_and(|job| parts.job != Some(job))
        || filter.node.is_some_and(|node| !parts.nodes.contains(&node))
        || filter.reason.is_some_and(|reason| !parts.reasons.contains(reason));
    if left_out {
        return None;
    }
    let at = record.at.to_string();
    let line = format!("{at:>12}  {:<20} {:<14} {}", parts.subject, parts.what, parts.detail);
    Some(printable(line.trim_end()).into_owned())
}

fn plain(subject: String, what: &'static str, detail: String) -> Parts {
    Parts { subject, what, detail, job: None, nodes: Vec::new(), reasons: Histogram::default() }
}

fn input_parts(input: &Input, names: &Names) -> Option<Parts> {
    let of_node =
        |node: NodeId, what, detail| Parts { nodes: vec![node], ..plain(names.node(node).into(), what, detail) };
    match input {
        Input::Fleet(FleetFact::NodeDeclared { node, state, spec }) => {
            let machine = spec.shape.machine.as_deref().map_or(String::new(), |machine| format!(", {machine}"));
            Some(of_node(*node, "declared", format!("{}{machine}", node_state_name(*state))))
        }
        Input::Fleet(FleetFact::ObjectsDeclared { .. }) => {
            Some(plain("cluster".into(), "declared", "its Kubernetes objects".into()))
        }
        Input::Fleet(FleetFact::KueueApplied { objects }) => {
            let read: Vec<serde_json::Value> = serde_json::from_str(objects).unwrap_or_default();
            let name = |object: &serde_json::Value| {
                let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_string();
                format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"])).trim_end().to_string()
            };
            let names: Vec<String> = read.iter().map(name).collect();
            Some(plain("kueue".into(), "applied", names.join(", ")))
        }
        Input::Fleet(FleetFact::FleetDeclared { fleet, .. }) => {
            Some(plain(names.fleet(*fleet).into(), "declared", "a fleet".into()))
        }
        Input::Fleet(FleetFact::CapacityReported { fleet, offer, available }) => {
            let detail = format!("for {available} of offer {offer}");
            Some(plain(names.fleet(*fleet).into(), "capacity", detail))
        }
        Input::Fleet(FleetFact::Reconfigure { profile }) => {
            let read: Option<serde_json::Value> = serde_json::from_str(profile).ok();
            let name = read.as_ref().and_then(|profile| profile["name"].as_str());
            Some(plain("profile".into(), "changes", format!("to {}", name.unwrap_or("a profile without a name"))))
        }
        Input::Submit { job, spec } => {
            let detail = if spec.replicas == 1 { String::new() } else { format!("{} replicas", spec.replicas) };
            Some(Parts { job: Some(*job), ..plain(names.job(*job).into(), "submitted", detail) })
        }
        Input::User(UserRequest::Cancel { job }) => {
            Some(Parts { job: Some(*job), ..plain(names.job(*job).into(), "cancel", "asked for".into()) })
        }
        Input::User(UserRequest::Scale { job, replicas }) => {
            let detail = format!("to {replicas} replicas");
            Some(Parts { job: Some(*job), ..plain(names.job(*job).into(), "scale", detail) })
        }
        Input::Usage(UsageFact::Requests { job, requests }) => {
            let detail = format!("{requests} in its window");
            Some(Parts { job: Some(*job), ..plain(names.job(*job).into(), "requests", detail) })
        }
        Input::Fleet(FleetFact::ForeignUse { gpu, foreign }) => {
            let detail = format!("{} of it, {}", foreign.share, foreign.memory);
            Some(Parts { nodes: vec![gpu.node], ..plain(names.gpu(*gpu), "foreign use", detail) })
        }
        Input::External(External::Decided { attempt, placement }) => {
            let detail = match placement {
                Some(placement) => format!("it has a place on {}", placement.text(names)),
                None => "it is not taken".to_string(),
            };
            Some(Parts { job: Some(attempt.job), ..plain(names.attempt(*attempt), "outside", detail) })
        }
        Input::External(External::Said(said)) => Some(outside_parts(said, names)),
        // Node reports are not shown. The events that follow from them are.
        Input::Fleet(
            FleetFact::NodeReported { .. }
            | FleetFact::HeartbeatBack { .. }
            | FleetFact::HeartbeatMissed { .. }
            | FleetFact::GpuReported { .. },
        )
        | Input::Attempt { .. }
        | Input::Usage(UsageFact::Sample { .. } | UsageFact::Served { .. })
        | Input::Evaluate { .. }
        | Input::Wakeup => None,
    }
}

fn outside_parts(said: &Outside, names: &Names) -> Parts {
    let of = |subject: String, detail: String| Parts { job: said.job(), ..plain(subject, "outside", detail) };
    let with = |what: String, text: &Option<Arc<str>>| match text {
        Some(text) => format!("{what}: {text}"),
        None => what,
    };
    let scheduler = || "scheduler".to_string();
    match said {
        Outside::Joined { name, version, stands_in } => {
            let names: Vec<&str> = stands_in.iter().map(|part| &*part.name).collect();
            let with = if names.is_empty() { String::new() } else { format!("; replaces {}", names.join(", ")) };
            of(scheduler(), format!("{name} {version} decides{with}"))
        }
        Outside::Waits { attempt, reasons, text } => {
            let reasons = if reasons.is_empty() { String::new() } else { format!(", {reasons}") };
            of(names.attempt(*attempt), with(format!("waits{reasons}"), text))
        }
        Outside::Preempts { attempt, by, text } => {
            let by = by.map_or(String::new(), |by| format!(" for {}", names.attempt(by)));
            of(names.attempt(*attempt), with(format!("is preempted{by}"), text))
        }
        Outside::Cancels { attempt, because, text } => {
            of(names.attempt(*attempt), with(format!("is stopped, {because}"), text))
        }
        Outside::CancelsJob { job, text } => of(names.job(*job).to_string(), with("is cancelled".to_string(), text)),
        Outside::Answers { name, refusal, reasons, text } => {
            let fits = if refusal.is_none() { "fits".to_string() } else { format!("does not fit, {reasons}") };
            of(name.to_string(), with(fits, text))
        }
        Outside::Mistaken { fault, attempt, text } => {
            let subject = attempt.map_or_else(scheduler, |attempt| names.attempt(attempt));
            of(subject, format!("{}: {text}", fault.name()))
        }
        Outside::Failed { fault, text, restarted } => {
            let then = if *restarted { "; it is restarted" } else { "; the run ends" };
            of(scheduler(), format!("{}: {text}{then}", fault.name()))
        }
    }
}

/// A pod set with its flavors and domains, such as `main 4 pods, nvidia.com/gpu of h100, in r1: 4`.
fn admitted_text(set: &AdmittedPodSet) -> String {
    let pods = counted(set.count as usize, "pod");
    let flavors: Vec<String> =
        set.flavors.iter().map(|(resource, flavor)| format!(", {resource} of {flavor}")).collect();
    let domains: Vec<String> =
        set.domains.iter().map(|(values, pods)| format!(", {pods} in {}", values.join("/"))).collect();
    format!("{} {pods}{}{}", set.name, flavors.concat(), domains.concat())
}

/// What Kueue decided, the details, and the reason.
fn decided_by_kueue(event: &Event, names: &Names) -> (&'static str, String, Histogram) {
    match event {
        Event::Admitted { queue, pod_sets, .. } => {
            let sets: Vec<String> = pod_sets.iter().map(admitted_text).collect();
            ("admitted", format!("by {queue}: {}", sets.join("; ")), Histogram::default())
        }
        Event::NotAdmitted { because, text, .. } => {
            ("not admitted", format!("{because}: {text}"), Histogram::of(*because, 1))
        }
        Event::Evicted { because, by, text, .. } => {
            let by = by.map_or(String::new(), |by| format!(" for {}", names.job(by)));
            ("evicted", format!("{because}{by}: {text}"), Histogram::of(*because, 1))
        }
        other => panic!("Kueue decided nothing in {other:?}"),
    }
}

fn event_parts(event: &Event, names: &Names) -> Parts {
    let of_attempt = |attempt: AttemptId, what, detail, reasons| Parts {
        job: Some(attempt.job),
        reasons,
        ..plain(names.attempt(attempt), what, detail)
    };
    let plainly = |attempt, what, detail| of_attempt(attempt, what, detail, Histogram::default());
    let one = |reason| Histogram::of(reason, 1);
    match event {
        Event::NodeChanged { node, from, to, because } => {
            changed(*node, (node_state_name(*from), node_state_name(*to)), *because, names)
        }
        Event::InstanceChanged { node, from, to, because } => changed(*node, (from.name(), to.name()), *because, names),
        Event::GpuChanged { gpu, from, to } => Parts {
            nodes: vec![gpu.node],
            ..plain(names.gpu(*gpu), gpu_state_name(*to), format!("was {}", gpu_state_name(*from)))
        },
        Event::Held { attempt, refusal, reasons } => {
            let never = if *refusal == Refusal::Never { "never fits: " } else { "" };
            of_attempt(*attempt, "held", format!("{never}{reasons}"), reasons.clone())
        }
        Event::Placed { attempt, score, placement } => Parts {
            nodes: placement.claims().iter().map(|claim| claim.node).collect(),
            ..plainly(*attempt, "placed", format!("on {}, score {score}", placement.text(names)))
        },
        Event::CommitRefused { attempt, because, fallback } => {
            let then = if *fallback { "uses the next best candidate" } else { "returns to the queue" };
            of_attempt(*attempt, "commit refused", format!("{because}; {then}"), one(*because))
        }
        Event::Moved { attempt, from, to, because } => {
            let because_text = because.map_or(String::new(), |reason| format!("; {reason}"));
            let detail = format!("was {}{because_text}", from.name());
            of_attempt(*attempt, to.name(), detail, because.map_or(Histogram::default(), one))
        }
        Event::AnalysisStarted { attempt } => plainly(*attempt, "analysis started", String::new()),
        Event::Ended { attempt, from, outcome, because, kept } => {
            let nodes: Vec<&str> = kept.iter().map(|node| names.node(*node)).collect();
            let kept =
                if nodes.is_empty() { String::new() } else { format!("; its claim is kept on {}", nodes.join(", ")) };
            of_attempt(*attempt, outcome.name(), format!("was {}; {because}{kept}", from.name()), one(*because))
        }
        Event::ClaimFreed { attempt, node } => plainly(*attempt, "claim freed", format!("on {}", names.node(*node))),
        Event::Retry { attempt, at, because } => {
            of_attempt(*attempt, "retry", format!("due at {at}; {because}"), one(*because))
        }
        Event::Preempted { attempt, by } => {
            of_attempt(*attempt, "preempted", format!("by {}", names.attempt(*by)), one(Reason::Preempted))
        }
        Event::Admitted { job, .. } | Event::NotAdmitted { job, .. } | Event::Evicted { job, .. } => {
            let (what, detail, reasons) = decided_by_kueue(event, names);
            Parts { job: Some(*job), reasons, ..plain(names.job(*job).into(), what, detail) }
        }
        Event::ReplicaAdded { attempt } => plainly(*attempt, "replica added", String::new()),
        Event::DeadlineExpired { attempt, phase } => {
            let detail = format!("in {}", phase.name());
            of_attempt(*attempt, "deadline", detail, one(dryrack_event::Reason::DeadlineExpired))
        }
        Event::SafetyBroken { attempt, node, what } => Parts {
            nodes: vec![*node],
            ..plainly(*attempt, "SAFETY BROKEN", format!("{} on {}", what.name(), names.node(*node)))
        },
        Event::PolicyBound { attempt, .. }
        | Event::PolicyFired { attempt, .. }
        | Event::PolicyWarned { attempt, .. }
        | Event::SampleOdd { attempt, .. } => {
            let (what, detail) = policy_detail(event).expect("it is about a policy");
            plainly(*attempt, what, detail)
        }
        Event::JobEnded { job, outcome, because } => Parts {
            job: Some(*job),
            reasons: one(*because),
            ..plain(names.job(*job).into(), "job ended", format!("{}; {because}", outcome.name()))
        },
        Event::Evaluated { name, refusal, reasons } => evaluated(name, *refusal, reasons, names),
    }
}

fn changed(node: NodeId, (from, to): (&str, &'static str), because: Reason, names: &Names) -> Parts {
    Parts {
        nodes: vec![node],
        reasons: Histogram::of(because, 1),
        ..plain(names.node(node).into(), to, format!("was {from}; {because}"))
    }
}

fn evaluated(name: &str, refusal: Option<Refusal>, reasons: &Histogram, names: &Names) -> Parts {
    let detail = match refusal {
        None => "fits".to_string(),
        Some(Refusal::Unfit) => format!("unfit: {reasons}"),
        Some(Refusal::Never) => format!("incompatible: {reasons}"),
    };
    let job = names.jobs.find(name).map(JobId::new);
    Parts { job, reasons: reasons.clone(), ..plain(name.to_string(), "evaluated", detail) }
}
