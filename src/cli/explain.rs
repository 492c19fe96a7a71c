//! `dryrack explain`: why a job waits, or why it is where it is.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Done, Exit, Failure};
use super::guard::guarded;
use super::logs::{WholeLog, read_whole};
use super::output::{Format, say, say_json};
use super::replay::profile_of;
use crate::engine::{Explanation, explain as explain_job};
use crate::event::{Event, Histogram, Input, Outcome, Reason, Record, Refusal, Said};
use crate::fleet::{NodeState, Placement};
use crate::ids::{GpuId, JobId, Names};
use crate::report::{Filter, record_line, table};
use crate::scheduler::{Decision, Examination, FilterName, NodeFinding};
use crate::units::SimTime;
use crate::workload::{Demand, Pick};

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A log that `run --out` wrote
    log: PathBuf,
    /// The job in question
    #[arg(long, value_name = "NAME")]
    job: String,
    /// At this time, such as 1h30m; at the end if not given
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    at: Option<SimTime>,
}

/// Candidates and nodes shown; a fleet may have thousands.
const SHOWN: usize = 10;

pub fn explain(args: &ExplainArgs, format: Format) -> Done {
    let log = read_whole(&args.log)?;
    let job = log.job(&args.job)?;
    let profile = profile_of(&args.log, &log.header)?;
    let seed = log.header.seed;
    let explained = guarded(|| explain_job(profile, seed, log.records.iter().cloned(), job, args.at));
    let explained = explained.map_err(|message| Failure::Ours(format!("our fault: {message}\n")))?;
    let explained = explained
        .map_err(|error| Failure::file(&args.log, format!("does not replay: {error}; see `dryrack replay`")))?;
    match format {
        Format::Json => say_json(&as_json(&explained, &args.job, tasks(&log, job), &log.names))?,
        Format::Human => say(&human(&explained, args.at, job, &log))?,
    }
    Ok(Exit::Fine)
}

fn human(explained: &Explanation, asked: Option<SimTime>, job: JobId, log: &WholeLog) -> String {
    let names = &log.names;
    let mut text = format!("{} at {}\n", names.job(job), asked.unwrap_or(explained.at));
    if let Some((at, event)) = &explained.last {
        let record = Record { step: 0, at: *at, said: Said::Event(event.clone()) };
        let line = record_line(&record, names, &Filter::default()).expect("nothing is left out");
        text.push_str(&format!("last said: {}\n", line.trim_start()));
    }
    match (&explained.placed, &explained.now) {
        (Some(here), _) => {
            let place = place(&here.placement, names);
            text.push_str(&format!("\nwhy here: placed on {place} at {}\n", here.at));
            text.push_str(&candidates(&here.examination, names));
            text.push_str(&refusals(&here.examination));
        }
        (None, Some(examination)) => text.push_str(&why_not(examination, tasks(log, job), names)),
        (None, None) => text.push_str("not submitted yet\n"),
    }
    text
}

/// What a front page of a waiting job shows.
fn why_not(examination: &Examination, tasks: Tasks, names: &Names) -> String {
    match &examination.decision {
        Decision::Place(_) => {
            format!("\nit would fit now:\n{}", candidates(examination, names))
        }
        Decision::Refuse { refusal, .. } => {
            let head = match refusal {
                Refusal::Unfit => "why not now",
                Refusal::Never => "why never: it would not fit an empty fleet either",
            };
            let change = least_change(examination, tasks, names)
                .map_or(String::new(), |change| format!("\nleast change: {change}\n"));
            format!("\n{head}\n{}{change}\n{}", refusals(examination), node_table(examination, names))
        }
    }
}

/// `  3 nodes  node_not_ready  not ready`, most first.
fn refusals(examination: &Examination) -> String {
    let mut reasons = Histogram::default();
    for reason in examination.nodes.iter().filter_map(|node| node.verdict.reason()) {
        reasons.add(reason, 1);
    }
    let line = |(reason, count): (Reason, u32)| {
        format!(
            "  {count:>5} {}  {:<24} {}\n",
            if count == 1 { "node " } else { "nodes" },
            reason.name(),
            reason.text()
        )
    };
    reasons.iter().map(line).collect()
}

fn candidates(examination: &Examination, names: &Names) -> String {
    let Decision::Place(candidates) = &examination.decision else { return String::new() };
    let scored: Vec<&'static str> =
        examination.nodes.first().map_or(Vec::new(), |node| node.scores.iter().map(|(name, _)| name.name()).collect());
    let rows: Vec<Vec<String>> = (candidates.iter().take(SHOWN).enumerate())
        .map(|(index, candidate)| {
            let node = candidate
                .placement
                .claims()
                .first()
                .and_then(|claim| examination.nodes.iter().find(|finding| finding.node == claim.node));
            let scores = node.map_or(Vec::new(), |node| node.scores.clone());
            let mut row =
                vec![(index + 1).to_string(), place(&candidate.placement, names), candidate.score.to_string()];
            row.extend(
                scored
                    .iter()
                    .enumerate()
                    .map(|(at, _)| scores.get(at).map_or(String::new(), |(_, score)| score.to_string())),
            );
            row
        })
        .collect();
    let mut header = vec!["", "candidate", "score"];
    header.extend(scored);
    let mut text = table(&header, &rows).lines().map(|line| format!("  {line}\n")).collect::<String>();
    if candidates.len() > SHOWN {
        text.push_str(&format!("  and {} more candidates\n", candidates.len() - SHOWN));
    }
    text
}

fn node_table(examination: &Examination, names: &Names) -> String {
    let rows: Vec<Vec<String>> = (examination.nodes.iter().take(SHOWN))
        .map(|node| {
            let refusals: Vec<&str> = node.refusals.iter().map(|(_, reason)| reason.name()).collect();
            let said = match (refusals.is_empty(), node.verdict.reason()) {
                (true, None) => "would do".to_string(),
                (true, Some(reason)) => reason.name().to_string(),
                (false, _) => refusals.join(", "),
            };
            vec![names.node(node.node).to_string(), said, shortages(node)]
        })
        .collect();
    let mut text = table(&["node", "refused for", "short of"], &rows);
    if examination.nodes.len() > SHOWN {
        text.push_str(&format!("and {} more nodes\n", examination.nodes.len() - SHOWN));
    }
    text
}

fn shortages(node: &NodeFinding) -> String {
    let parts =
        node.shortages.iter().map(|short| format!("{}: {} free of {}", short.resource, short.free, short.needed));
    parts.collect::<Vec<_>>().join(", ")
}

/// How much a single node could do for a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tasks {
    One,
    Gang,
    /// A gang of which each node was picked by hand: all of them are needed.
    EachPicked,
    /// What is known of a node does not say what would make it do: models, of which `fit` tries changes, and instances.
    Untried,
}

/// The one or two lines that tell most, for whoever reads of a failure.
pub fn brief(explained: &Explanation, demand: &Demand, asked: Option<SimTime>, names: &Names) -> Vec<String> {
    let at = asked.unwrap_or(explained.at);
    if let Some((ended, Event::JobEnded { outcome, because, .. })) = &explained.last
        && *outcome != Outcome::NeverFits
    {
        let because = if because.name() == outcome.name() { String::new() } else { format!(", {because}") };
        return vec![format!("why not   it was over by {at}: {} at {ended}{because}", outcome.name())];
    }
    let (waiting, replicas) = explained.without_place;
    let which = if waiting < replicas { format!(", {waiting} of {replicas} replicas") } else { String::new() };
    match (&explained.placed, &explained.now) {
        (Some(here), _) if waiting == 0 => {
            let fits = here.examination.nodes.iter().filter(|node| node.verdict.is_fit()).count();
            let of = here.examination.nodes.len();
            let place = place(&here.placement, names);
            vec![format!("why here  placed on {place} at {}; {fits} of {of} nodes would have done", here.at)]
        }
        (_, Some(examination)) => {
            let Decision::Refuse { refusal, reasons } = &examination.decision else {
                return vec![idle(explained, at)];
            };
            let word = if *refusal == Refusal::Never { "why never" } else { "why not" };
            let counted: Vec<String> =
                reasons.iter().map(|(reason, count)| format!("{count} {}", reason.name())).collect();
            let mut lines = vec![format!("{word}   at {at}{which}: {}", counted.join(", "))];
            lines
                .extend(least_change(examination, tasks_of(demand), names).map(|change| format!("if only   {change}")));
            lines
        }
        (_, None) => vec![format!("why not   not submitted by {at}")],
    }
}

/// Why what would fit has no place.
fn idle(explained: &Explanation, at: SimTime) -> String {
    match &explained.last {
        Some((_, Event::Retry { at: due, .. })) if *due > at => {
            format!("why not   backing off until {due}; at {at} it would fit")
        }
        Some((_, Event::Held { reasons, .. })) => format!("why not   at {at}: {reasons}; else it would fit"),
        Some((ended, Event::Ended { outcome, because, .. })) => {
            format!("why not   a replica ended at {ended}: {}, {because}", outcome.name())
        }
        _ => format!("at {at}   it would fit"),
    }
}

fn tasks(log: &WholeLog, job: JobId) -> Tasks {
    let mut demands = log.records.iter().filter_map(|record| match &record.said {
        Said::Input(Input::Submit { job: submitted, spec }) if *submitted == job => Some(&*spec.demand),
        _ => None,
    });
    demands.next().map_or(Tasks::One, tasks_of)
}

fn tasks_of(demand: &Demand) -> Tasks {
    match demand.pick {
        _ if demand.deployment.is_some() || demand.requirements.is_some() => Tasks::Untried,
        Some(Pick::AllGpus(_)) => Tasks::EachPicked,
        _ if demand.tasks > 1 => Tasks::Gang,
        _ => Tasks::One,
    }
}

/// The node with the fewest things against it, the first of them in order of declaration, and what they are; of GPUs
/// that are all needed, each node that has something against it.
fn least_change(examination: &Examination, tasks: Tasks, names: &Names) -> Option<String> {
    let refused = || examination.nodes.iter().filter(|node| !node.verdict.is_fit());
    let nearest = || refused().min_by_key(|node| (node.refusals.len(), node.shortages.len(), node.node));
    match tasks {
        Tasks::Untried => None,
        Tasks::One => nearest().map(|node| format!("{} would do {}", names.node(node.node), obstacles(node))),
        Tasks::Gang => nearest().map(|node| format!("{} would take a task {}", names.node(node.node), obstacles(node))),
        Tasks::EachPicked => {
            let picked = refused().filter(|node| node.verdict.reason() != Some(Reason::NotPicked));
            let parts: Vec<String> =
                picked.map(|node| format!("{} would do {}", names.node(node.node), obstacles(node))).collect();
            (!parts.is_empty()).then(|| parts.join(", and "))
        }
    }
}

/// `were it not for node_not_ready and with 2 GPUs free instead of 1`
fn obstacles(node: &NodeFinding) -> String {
    let mut parts: Vec<String> = (node.refusals.iter())
        .filter(|(filter, _)| *filter != FilterName::Resources || node.shortages.is_empty())
        .map(|(_, reason)| format!("were it not for {reason}"))
        .collect();
    parts.extend(
        (node.shortages.iter())
            .map(|short| format!("with {} free instead of {}", so_much(&short.needed, short.resource), short.free)),
    );
    parts.join(" and ")
}

/// `1 GPU`, `2 GPUs`, `64GiB RAM`.
fn so_much(needed: &str, resource: &str) -> String {
    match (needed, resource.strip_suffix('s')) {
        ("1", Some(one)) => format!("1 {one}"),
        _ => format!("{needed} {resource}"),
    }
}

fn place(placement: &Placement, names: &Names) -> String {
    let mut parts = Vec::new();
    for claim in placement.claims() {
        match claim.gpus.is_empty() {
            true => parts.push(names.node(claim.node).to_string()),
            false => parts.extend(claim.gpus.iter().map(|gpu| names.gpu(GpuId { node: claim.node, index: gpu.index }))),
        }
    }
    parts.join(" ")
}

fn as_json(explained: &Explanation, job: &str, tasks: Tasks, names: &Names) -> Value {
    let ready = explained.fleet.iter().filter(|(_, node)| node.status.state == NodeState::Ready).count();
    json!({
        "job": job,
        "at_seconds": explained.at.as_secs_f64(),
        "nodes_ready": ready,
        "placed": explained.placed.as_ref().map(|here| json!({
            "at_seconds": here.at.as_secs_f64(),
            "on": place(&here.placement, names),
            "examination": examination_json(&here.examination, tasks, names),
        })),
        "now": explained.now.as_ref().map(|examination| examination_json(examination, tasks, names)),
    })
}

fn examination_json(examination: &Examination, tasks: Tasks, names: &Names) -> Value {
    let nodes: Vec<Value> = (examination.nodes.iter())
        .map(|node| {
            json!({
                "node": names.node(node.node),
                "fits": node.verdict.is_fit(),
                "refused_for": node.refusals.iter().map(|(_, reason)| reason.name()).collect::<Vec<_>>(),
                "short_of": node.shortages.iter().map(|short| json!({
                    "resource": short.resource, "needed": short.needed, "free": short.free,
                })).collect::<Vec<_>>(),
                "scores": node.scores.iter().map(|(name, score)| json!([name.name(), score.get()])).collect::<Vec<_>>(),
            })
        })
        .collect();
    let decision = match &examination.decision {
        Decision::Place(candidates) => json!({"place": candidates.iter().take(SHOWN).map(|candidate| json!({
            "on": place(&candidate.placement, names), "score": candidate.score.get(),
        })).collect::<Vec<_>>()}),
        Decision::Refuse { refusal, reasons } => json!({"refuse": refusal, "reasons": reasons}),
    };
    json!({"decision": decision, "least_change": least_change(examination, tasks, names), "nodes": nodes})
}
