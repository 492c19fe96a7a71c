//! `dryrack explain`: says why a job waits, or why it is placed where it is.

mod admission;
mod ahead;
mod change;
mod refusals;
mod refused;
mod safety;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::logs::{WholeLog, read_whole};
use super::output::{Format, print, print_json};
use super::progress::with_line;
use super::replay::profile_of;
use change::least_change;
use dryrack_control::AnalysesAhead;
use dryrack_engine::{Explanation, HeldAhead, ReplicaStanding, UnmetDependency, explain as explain_job};
use dryrack_event::{Event, Histogram, Input, Outcome, Phase, Reason, Record, RecordBody, Refusal};
use dryrack_fleet::{NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, JobId, Names};
use dryrack_report::{Filter, record_line, table};
use dryrack_scheduler::{Decision, Examination, NodeFinding};
use dryrack_units::SimTime;
use dryrack_workload::{Condition, Demand, Pick};
use refusals::{SHOWN, node_table, refusals};

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A log that `run --out` wrote
    log: PathBuf,
    /// Job to explain, or one of its replicas or attempts as the log names it: `chat`, `chat[1]`, `chat #2`
    #[arg(long, value_name = "NAME")]
    job: String,
    /// Time to explain, such as 1h30m [default: the end of the log, or the last moment of the attempt]
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    at: Option<SimTime>,
}

pub fn explain(args: &ExplainArgs, format: Format) -> ExitResult {
    let log = with_line(|| format!("reading {}", args.log.display()), || read_whole(&args.log))?;
    let Named { job, replica, attempt } = named(&args.job, &log)?;
    let ended = attempt
        .map(|attempt| end_of(AttemptId { job, replica: replica.unwrap_or(0), number: attempt }, &args.job, &log));
    let at = args.at.or(ended.transpose()?.flatten());
    let profile = profile_of(&args.log, &log.header)?;
    let seed = log.header.seed;
    let said = || format!("replaying {}", args.log.display());
    let explained = with_line(said, || guarded(|| explain_job(profile, seed, &log.records, (job, replica), at)));
    let explained = explained.map_err(|message| Failure::Ours(format!("internal error: {message}\n")))?;
    let explained = explained
        .map_err(|error| Failure::file(&args.log, format!("does not replay: {error}; see `dryrack replay`")))?;
    let count = explained.replicas.len();
    if let Some(replica) = replica.filter(|replica| count > 0 && *replica as usize >= count) {
        let (asked, last) = (log.names.replica(job, replica), log.names.replica(job, count as u32 - 1));
        let message = format!("error: there is no `{asked}` at {}; the last replica is `{last}`\n", explained.at);
        return Err(Failure::Input(message));
    }
    let until = at.unwrap_or(log.footer.end_ns);
    match format {
        Format::Json => {
            let mut value = as_json(&explained, at, (job, tasks(&log.records, job)), &log.names);
            value["safety_broken"] = safety::as_json(&log.records, job, until, &log.names);
            value["refused_decisions"] = refused::as_json(&log.records, job, until, &log.names);
            print_json(&value)?;
        }
        Format::Human => print(&format!(
            "{}{}{}{}",
            beyond(at, log.footer.end_ns),
            human(&explained, at, (job, tasks(&log.records, job)), &log.names),
            safety::human(&log.records, job, until, &log.names),
            refused::human(&log.records, job, until, &log.names)
        ))?,
    }
    Ok(Exit::Fine)
}

/// A note for a time after the end of the run, of which the log knows nothing.
fn beyond(asked: Option<SimTime>, end: SimTime) -> String {
    asked.filter(|at| *at > end).map_or(String::new(), |_| format!("note: the run ended at {end}; this is its end\n"))
}

/// The job, replica and attempt that a name on the command line refers to.
struct Named {
    job: JobId,
    replica: Option<u32>,
    attempt: Option<u32>,
}

/// Parses `chat`, `chat[1]`, `chat #2` or `chat[1] #2`. If a job has exactly that name, the name means this job.
fn named(name: &str, log: &WholeLog) -> Result<Named, Failure> {
    let exactly = |name: &str| log.names.jobs.find(name).map(JobId::new);
    let (of_replica, attempt) = match name.rsplit_once(" #").map(|(rest, number)| (rest, number.parse::<u32>())) {
        Some((rest, Ok(attempt))) if exactly(name).is_none() => (rest, Some(attempt)),
        _ => (name, None),
    };
    let bracketed = of_replica.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    match bracketed.map(|(rest, number)| (exactly(rest), number.parse::<u32>())) {
        Some((Some(job), Ok(replica))) if exactly(of_replica).is_none() => {
            Ok(Named { job, replica: Some(replica), attempt })
        }
        _ => Ok(Named { job: log.job(of_replica)?, replica: attempt.map(|_| 0), attempt }),
    }
}

/// The last moment before the attempt ended; `None` if it has not ended.
fn end_of(attempt: AttemptId, name: &str, log: &WholeLog) -> Result<Option<SimTime>, Failure> {
    let mut of_it = log.records.iter().filter_map(|record| match &record.said {
        RecordBody::Event(event) => event.attempt().filter(|other| *other == attempt).map(|_| (record.at, event)),
        RecordBody::Input(_) => None,
    });
    let unknown = || Failure::Input(format!("error: the log has no attempt `{name}`\n"));
    let first = of_it.next().ok_or_else(unknown)?;
    let ended = std::iter::once(first).chain(of_it).find(|(_, event)| matches!(event, Event::Ended { .. }));
    Ok(ended.map(|(at, _)| SimTime::from_nanos(at.as_nanos().saturating_sub(1))))
}

/// The whole explanation as text for people.
pub fn human(explained: &Explanation, asked: Option<SimTime>, (job, tasks): (JobId, Tasks), names: &Names) -> String {
    let mut text = format!("{} at {}\n", names.replica(job, explained.replica), asked.unwrap_or(explained.at));
    if explained.replicas.len() > 1 {
        text.push_str(&overview(explained, names));
    }
    if let Some((at, event)) = &explained.last {
        let record = Record { step: 0, at: *at, said: RecordBody::Event(event.clone()) };
        let line = record_line(&record, names, &Filter::default()).expect("nothing is left out");
        text.push_str(&format!("last event: {}\n", line.trim_start()));
    }
    let Some(standing) = explained.replicas.get(explained.replica as usize) else {
        text.push_str("not submitted yet\n");
        return text;
    };
    if let Some(line) = taken_by(standing, names) {
        text.push_str(&format!("{line}\n"));
    }
    match (&explained.placed, &explained.now) {
        (Some(here), _) => {
            let place = place(&here.placement, names);
            text.push_str(&admission::history(explained, names));
            let but = safety::unsuitable(here, names).map_or(String::new(), |nodes| format!("; not suitable: {nodes}"));
            text.push_str(&format!("\nwhy here: placed on {place} at {}{but}\n", here.at));
            text.push_str(&speed(explained, &here.placement));
            text.push_str(&candidates(&here.examination, names));
            let reasons = here.examination.nodes.iter().filter_map(|node| node.verdict.reason());
            text.push_str(&refusals(&histogram(reasons), None));
        }
        (None, Some(examination)) => text.push_str(&why_nowhere(explained, standing, examination, tasks, names)),
        (None, None) => {}
    }
    text
}

/// A line about the speed of the job on its GPUs; empty if it has no speeds.
fn speed(explained: &Explanation, placement: &Placement) -> String {
    let Some(speeds) = &explained.speeds else { return String::new() };
    let mut gpus = placement.gpu_models(|node| &explained.fleet.node(node).shape);
    let slowest =
        gpus.next().map(|first| gpus.fold(first, |one, gpu| if speeds.of(gpu) < speeds.of(one) { gpu } else { one }));
    let Some(gpu) = slowest else { return String::new() };
    match speeds.stated(gpu) {
        None => format!("speed: that of the reference {gpu}\n"),
        Some(known) => {
            let from = known.from.text();
            format!("speed: {} times as fast on {gpu} as on {}, {from}\n", known.speed, speeds.reference)
        }
    }
}

/// One line for each replica, with a mark at the explained one.
fn overview(explained: &Explanation, names: &Names) -> String {
    let row = |(number, standing): (usize, &ReplicaStanding)| {
        let is_it = number == explained.replica as usize;
        let attempt = &standing.attempt;
        let mark = if is_it { "*" } else { "" };
        let (is, detail) = stands(standing, names);
        vec![mark.to_string(), names.replica(attempt.job, number as u32), is, detail]
    };
    let rows = || explained.replicas.iter().enumerate().map(row);
    let shown: Vec<Vec<String>> = match explained.replicas.len() > SHOWN {
        // The replica that is explained is always shown.
        true => rows().enumerate().filter(|(at, row)| *at < SHOWN || row[0] == "*").map(|(_, row)| row).collect(),
        false => rows().collect(),
    };
    let left_out = explained.replicas.len() - shown.len();
    let more = if left_out > 0 { format!("  and {left_out} more replicas\n") } else { String::new() };
    format!("{}{more}\n", table(&["", "replica", "is", ""], &shown))
}

/// The state of a replica in words, and a detail: its placement, or the reasons for its state.
fn stands(standing: &ReplicaStanding, names: &Names) -> (String, String) {
    let because = |because: Reason, word: &str| match because.name() == word {
        true => String::new(),
        false => because.name().to_string(),
    };
    match (&standing.placed, &standing.held, standing.ended) {
        (_, _, Some((at, outcome, reason))) if standing.phase == Phase::Ended => {
            (format!("{} at {at}", outcome.name()), because(reason, outcome.name()))
        }
        (Some((_, placement)), _, _) if standing.is_placed() => {
            (standing.phase.name().to_string(), place(placement, names))
        }
        (_, Some((_, _, reasons)), _) => (standing.phase.name().to_string(), reasons.to_string()),
        _ => (standing.phase.name().to_string(), String::new()),
    }
}

/// A line such as `preempted at 30s: its place on alpha/0 goes to urgent`; `None` if the replica was placed again
/// since.
fn taken_by(standing: &ReplicaStanding, names: &Names) -> Option<String> {
    let (at, by) = standing.gave_way?;
    let (since, placement) = standing.placed.as_ref()?;
    let (by, place) = (names.attempt(by), place(placement, names));
    (*since <= at).then(|| format!("preempted at {at}: its place on {place} goes to {by}"))
}

/// The explanation of a replica that has no place.
fn why_nowhere(
    explained: &Explanation,
    standing: &ReplicaStanding,
    now: &Examination,
    tasks: Tasks,
    names: &Names,
) -> String {
    if let Some((at, outcome, because)) = over(explained, standing) {
        let last = standing.placed.as_ref().map_or(String::new(), |(since, placement)| {
            format!("; it was on {} from {since}", place(placement, names))
        });
        return format!("\nended: {} at {at}, {because}{last}\n", outcome.name());
    }
    if let Some(before) = &explained.analysed_before {
        return format!("\nwhy not: {}\n{}", behind(before, names), queue(before, names));
    }
    let mut text = match &standing.last {
        Some((at, _)) if standing.phase == Phase::Analysing => format!("\nwhy not: in analysis since {at}\n"),
        _ => String::new(),
    };
    if let Some((at, refusal, reasons)) = &standing.held
        && !is_refused_so(now, *refusal, reasons)
    {
        text.push_str(&format!("\nwhy not, as decided at {at}\n{}", refusals(reasons, None)));
    }
    text.push_str(&ahead::lines(&explained.ahead, names));
    text.push_str(&awaits(&explained.awaits, names));
    let is_awaited = |job: &JobId| explained.awaits.iter().any(|other| other.on.job == *job);
    let holders: Vec<JobId> = explained.turns.iter().copied().filter(|job| !is_awaited(job)).collect();
    text.push_str(&turns(&holders, names));
    text.push_str(&admission::waiting(explained, names));
    let held = standing.held.as_ref().map(|(_, _, reasons)| reasons);
    let never = standing.held.as_ref().is_some_and(|(_, refusal, _)| *refusal == Refusal::Never);
    let any = |is_so: fn(Reason) -> bool| held.is_some_and(|held| held.iter().any(|(reason, _)| is_so(reason)));
    let all = |is_so: fn(Reason) -> bool| held.is_some_and(|held| held.iter().all(|(reason, _)| is_so(reason)));
    match &now.decision {
        // What is examined now are the nodes of all partitions of a Slurm job together, which is no place for it.
        Decision::Place(_) if any(Reason::lies_not_in_nodes) && (never || !all(Reason::lies_not_in_nodes)) => {}
        Decision::Place(_) if any(Reason::lies_not_in_nodes) => {
            text.push_str(&format!("\notherwise it would fit now:\n{}", candidates(now, names)));
        }
        // While a rule of Slurm keeps the job out, no change of a node would let it start.
        _ => {
            let tasks = if any(is_rule_of_slurm) { Tasks::Untried } else { tasks };
            text.push_str(&why_not(now, tasks, &explained.ahead, names));
        }
    }
    text
}

/// Whether a rule of Slurm keeps a job out for this reason, whatever the nodes have free.
fn is_rule_of_slurm(reason: Reason) -> bool {
    !matches!(reason, Reason::PartitionMismatch | Reason::HeldForPriority | Reason::OutsideReservation)
        && (Reason::PartitionMismatch..=Reason::QosMaxTresPerAccount).contains(&reason)
}

/// A line such as `  waits for prepare, which has to complete` for each awaited job, up to [`SHOWN`] lines.
fn awaits(awaited: &[UnmetDependency], names: &Names) -> String {
    let mut text = String::new();
    for UnmetDependency { on, ended } in awaited.iter().take(SHOWN) {
        let name = names.job(on.job);
        let wanted = match on.when {
            Condition::Ok => "to complete",
            Condition::Any => "to end",
            Condition::NotOk => "to end without completing",
            Condition::Start => "to start",
        };
        match ended {
            None => text.push_str(&format!("  waits for {name} {wanted}\n")),
            Some((at, outcome)) => {
                let how = outcome.name();
                text.push_str(&format!("  waits in vain for {name} {wanted}: it ended as {how} at {at}\n"));
            }
        }
    }
    if let Some(more @ 1..) = awaited.len().checked_sub(SHOWN) {
        text.push_str(&format!("  and {more} more\n"));
    }
    text
}

/// A line such as `  waits for a turn, which sweep_1, sweep_2 hold`, with up to [`SHOWN`] jobs.
fn turns(holders: &[JobId], names: &Names) -> String {
    if holders.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = holders.iter().take(SHOWN).map(|job| names.job(*job).to_string()).collect();
    let more = holders.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "  waits for a turn, which {}{more} {}\n",
        shown.join(", "),
        if holders.len() == 1 { "holds" } else { "hold" }
    )
}

/// How and when the replica ended, if it ended. A replica that never fitted is left out: its explanation is why it does
/// not fit.
fn over(explained: &Explanation, standing: &ReplicaStanding) -> Option<(SimTime, Outcome, Reason)> {
    let of_replica = standing.ended.filter(|_| standing.phase == Phase::Ended);
    explained.ended.or(of_replica).filter(|(_, outcome, _)| *outcome != Outcome::NeverFits)
}

/// Whether the decision is this refusal with exactly these reasons.
fn is_refused_so(examination: &Examination, word: Refusal, because: &Histogram) -> bool {
    matches!(&examination.decision, Decision::Refuse { refusal, reasons } if *refusal == word && reasons == because)
}

/// Text such as `waits for its analysis, behind 9 entries of ended attempts and 1 more; chat is in analysis`.
fn behind(before: &AnalysesAhead, names: &Names) -> String {
    let entries = |count: usize| if count == 1 { "1 entry".to_string() } else { format!("{count} entries") };
    let behind = match (before.unwanted.len(), before.wanted.len()) {
        (0, 0) => "next in the queue".to_string(),
        (0, others) => format!("behind {}", entries(others)),
        (ended, 0) => format!("behind {} of ended attempts", entries(ended)),
        (ended, others) => format!("behind {} of ended attempts and {others} more", entries(ended)),
    };
    let now: Vec<String> = before.now.iter().map(|attempt| names.attempt(*attempt)).collect();
    let now = if now.is_empty() { String::new() } else { format!("; {} is in analysis", now.join(", ")) };
    format!("waits for its analysis, {behind}{now}")
}

/// The entries of the queue ahead of the replica, up to [`SHOWN`] of each kind.
fn queue(before: &AnalysesAhead, names: &Names) -> String {
    let part = |attempts: &[AttemptId], what: &str| {
        let shown: Vec<String> = attempts.iter().take(SHOWN).map(|attempt| names.attempt(*attempt)).collect();
        let more = attempts.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if attempts.is_empty() { String::new() } else { format!("  {what}: {}{more}\n", shown.join(", ")) }
    };
    format!("{}{}", part(&before.unwanted, "ended"), part(&before.wanted, "waiting"))
}

/// The explanation of a waiting job, from one examination of the fleet.
fn why_not(examination: &Examination, tasks: Tasks, ahead: &[HeldAhead], names: &Names) -> String {
    match &examination.decision {
        Decision::Place(_) => {
            format!("\nit would fit now:\n{}", candidates(examination, names))
        }
        Decision::Refuse { refusal, reasons } => {
            let head = match refusal {
                Refusal::Unfit => "why not now",
                Refusal::Never if reasons.contains(Reason::NotAPod) => "why never: it is tried on no node",
                Refusal::Never => "why never: it would not fit on an empty fleet either",
            };
            let but = match ahead.first() {
                None => String::new(),
                Some(head) => format!("; even then, it may have to wait behind {}", names.job(head.job)),
            };
            let change = least_change(examination, tasks, names)
                .map_or(String::new(), |change| format!("\nsmallest change: {change}{but}\n"));
            let message = examination.message.as_ref().map_or(String::new(), |message| format!("\n{message}\n"));
            format!(
                "\n{head}\n{}{message}{change}\n{}",
                refusals(reasons, Some(examination)),
                node_table(examination, names)
            )
        }
    }
}

fn histogram(reasons: impl Iterator<Item = Reason>) -> Histogram {
    let mut histogram = Histogram::default();
    reasons.for_each(|reason| histogram.add(reason, 1));
    histogram
}

fn candidates(examination: &Examination, names: &Names) -> String {
    let Decision::Place(candidates) = &examination.decision else { return String::new() };
    let with_scores = examination.nodes.iter().find(|node| !node.scores.is_empty());
    let scored: Vec<&'static str> =
        with_scores.map_or(Vec::new(), |node| node.scores.iter().map(|(name, _)| *name).collect());
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
        .chain(other_nodes(examination, candidates.len(), names))
        .collect();
    let mut header = vec!["", "candidate", "score"];
    header.extend(scored);
    let mut text = table(&header, &rows).lines().map(|line| format!("  {line}\n")).collect::<String>();
    if candidates.len() > SHOWN {
        text.push_str(&format!("  and {} more candidates\n", candidates.len() - SHOWN));
    }
    text
}

/// The best nodes besides those of the candidates. kube-scheduler states only the node that it chose.
fn other_nodes(examination: &Examination, shown: usize, names: &Names) -> Vec<Vec<String>> {
    let Decision::Place(candidates) = &examination.decision else { return Vec::new() };
    let is_candidate = |node| candidates.iter().any(|candidate| candidate.placement.touches(node));
    let mut others: Vec<&NodeFinding> = (examination.nodes.iter())
        .filter(|finding| finding.verdict.is_fit() && !finding.scores.is_empty() && !is_candidate(finding.node))
        .collect();
    others.sort_by(|one, other| other.total.cmp(&one.total).then(one.node.cmp(&other.node)));
    let row = |(index, finding): (usize, &NodeFinding)| {
        let mut row = vec![(index + 1).to_string(), names.node(finding.node).to_string(), finding.total.to_string()];
        row.extend(finding.scores.iter().map(|(_, score)| score.to_string()));
        row
    };
    let left = SHOWN.saturating_sub(shown);
    others.into_iter().take(left).enumerate().map(|(index, finding)| row((index + shown, finding))).collect()
}

/// What `explain` can suggest about a single node for this job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    One,
    Gang,
    /// A gang for which the user picked GPUs on several nodes, all of which are needed.
    EachPicked,
    /// A job that needs a model or instances. The findings on one node do not say what would make such a job fit. For
    /// models, the command `fit` tries changes.
    Untried,
}

/// The one or two most informative lines, for the report of a failed expectation.
pub fn brief(explained: &Explanation, demand: &Demand, asked: Option<SimTime>, names: &Names) -> Vec<String> {
    let at = asked.unwrap_or(explained.at);
    let Some(standing) = explained.replicas.get(explained.replica as usize) else {
        return vec![format!("why not   not submitted by {at}")];
    };
    let count = explained.replicas.len();
    let which = match count {
        1 => String::new(),
        _ => format!("{} ", names.replica(standing.attempt.job, explained.replica)),
    };
    if let Some(here) = &explained.placed {
        let fits = here.examination.nodes.iter().filter(|node| node.verdict.is_fit()).count();
        let of = here.examination.nodes.len();
        let place = place(&here.placement, names);
        let but = safety::unsuitable(here, names).map_or(String::new(), |nodes| format!(", not {nodes}"));
        return vec![format!(
            "why here  {which}placed on {place} at {}; {fits} of {of} nodes were suitable{but}",
            here.at
        )];
    }
    let mut lines = match (over(explained, standing), &explained.analysed_before, &explained.now) {
        (Some((ended, outcome, because)), _, _) => {
            let because = if because.name() == outcome.name() { String::new() } else { format!(", {because}") };
            let which = if which.is_empty() { "it ".to_string() } else { which };
            vec![format!("why not   {which}had ended by {at}: {} at {ended}{because}", outcome.name())]
        }
        (None, Some(before), _) => vec![format!("why not   at {at}: {which}{}", behind(before, names))],
        (None, None, Some(now)) => why_not_now(explained, standing, now, (at, tasks_of(demand)), names),
        (None, None, None) => Vec::new(),
    };
    lines.extend(taken_by(standing, names).map(|line| format!("why not   {line}")));
    lines
}

fn why_not_now(
    explained: &Explanation,
    standing: &ReplicaStanding,
    now: &Examination,
    (at, tasks): (SimTime, Tasks),
    names: &Names,
) -> Vec<String> {
    // Nothing is decided about a pod that is not made yet.
    if let Some((_, Event::Held { reasons, .. })) = &standing.last
        && reasons.contains(Reason::PodTerminating)
    {
        return vec![format!("why not   at {at}: {}", counted(reasons))];
    }
    let Decision::Refuse { refusal, reasons } = &now.decision else {
        return vec![idle(standing, at)];
    };
    let (waiting, count) = (explained.replicas.iter().filter(|one| one.waits()).count(), explained.replicas.len());
    let which = if (1..count).contains(&waiting) { format!(", {waiting} of {count} replicas") } else { String::new() };
    let word = if *refusal == Refusal::Never { "why never" } else { "why not" };
    let mut lines = vec![format!("{word}   at {at}{which}: {}", counted(reasons))];
    lines.extend(least_change(now, tasks, names).map(|change| format!("change    {change}")));
    lines
}

fn counted(reasons: &Histogram) -> String {
    let counted: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {}", reason.name())).collect();
    counted.join(", ")
}

/// Why a replica that would fit now has no placement.
fn idle(standing: &ReplicaStanding, at: SimTime) -> String {
    match &standing.last {
        Some((_, Event::Retry { at: due, .. })) if *due > at => {
            format!("why not   in back-off until {due}; it would fit at {at}")
        }
        Some((_, Event::Held { reasons, .. })) => format!("why not   at {at}: {reasons}; otherwise it would fit"),
        Some((ended, Event::Ended { outcome, because, .. })) => {
            format!("why not   a replica ended at {ended}: {}, {because}", outcome.name())
        }
        _ => format!("at {at}   it would fit"),
    }
}

/// The demand with which a log submits the job.
pub fn demand_in(records: &[Record], job: JobId) -> Option<&Demand> {
    records.iter().find_map(|record| match &record.said {
        RecordBody::Input(Input::Submit { job: submitted, spec }) if *submitted == job => Some(&*spec.demand),
        _ => None,
    })
}

/// What can be suggested about the job, which a log submits.
pub fn tasks(records: &[Record], job: JobId) -> Tasks {
    demand_in(records, job).map_or(Tasks::One, tasks_of)
}

pub fn tasks_of(demand: &Demand) -> Tasks {
    match demand.pick {
        _ if demand.task().is_none() => Tasks::Untried,
        Some(Pick::AllGpus(_)) => Tasks::EachPicked,
        _ if demand.tasks > 1 => Tasks::Gang,
        _ => Tasks::One,
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

/// The whole explanation as JSON for programs.
pub fn as_json(explained: &Explanation, asked: Option<SimTime>, (job, tasks): (JobId, Tasks), names: &Names) -> Value {
    let ready = explained.fleet.iter().filter(|(_, node)| node.status.state == NodeState::Ready).count();
    let decided = |at: SimTime, examination: &Examination| json!({"at_seconds": at.as_secs_f64(), "examination": examination_json(examination, tasks, names)});
    let attempts = |attempts: &[AttemptId]| attempts.iter().map(|attempt| names.attempt(*attempt)).collect::<Vec<_>>();
    let replica = |(number, standing): (usize, &ReplicaStanding)| {
        json!({
            "replica": names.replica(job, number as u32),
            "is": standing.phase.name(),
            "on": standing.placed.as_ref().filter(|_| standing.is_placed()).map(|(_, at)| place(at, names)),
            "because": standing.held.as_ref().map(|(_, _, reasons)| reasons),
            "preempted_by": standing.gave_way.map(|(_, by)| names.attempt(by)),
        })
    };
    let standing = explained.replicas.get(explained.replica as usize);
    let mut value = json!({
        "job": names.job(job),
        "replica": names.replica(job, explained.replica),
        "at_seconds": asked.unwrap_or(explained.at).as_secs_f64(),
        "last_record_seconds": explained.at.as_secs_f64(),
        "nodes_ready": ready,
        "replicas": explained.replicas.iter().enumerate().map(replica).collect::<Vec<_>>(),
        "placed": explained.placed.as_ref().map(|here| {
            let mut placed = decided(here.at, &here.examination);
            placed["on"] = place(&here.placement, names).into();
            placed
        }),
        "held": standing.and_then(|standing| standing.held.as_ref()).map(|(at, refusal, reasons)| json!({
            "at_seconds": at.as_secs_f64(), "refuse": refusal, "reasons": reasons,
        })),
        "after": explained.awaits.iter().map(|UnmetDependency { on, ended }| json!({
            "job": names.job(on.job), "when": on.when, "ended": ended.map(|(_, outcome)| outcome.name()),
        })).collect::<Vec<_>>(),
        "ahead": ahead::as_json(&explained.ahead, names),
        "turns": explained.turns.iter().map(|job| names.job(*job)).collect::<Vec<_>>(),
        "refused": explained.refused.as_ref().map(|(at, examination)| decided(*at, examination)),
        "analysed_before": explained.analysed_before.as_ref().map(|before| json!({
            "now": attempts(&before.now), "have_ended": attempts(&before.unwanted), "wait": attempts(&before.wanted),
        })),
        "now": explained.now.as_ref().map(|now| now_json(now, standing, tasks, names)),
    });
    if explained.admission.is_some() {
        value["admission"] = admission::as_json(explained, names);
    }
    value
}

/// What would be decided now, as JSON. Nothing would be chosen while a rule holds the replica, even if it would fit.
fn now_json(now: &Examination, standing: Option<&ReplicaStanding>, tasks: Tasks, names: &Names) -> Value {
    let held = standing.filter(|standing| standing.waits()).and_then(|standing| standing.held.as_ref());
    let Some((_, refusal, reasons)) = held else { return examination_json(now, tasks, names) };
    let any = |is_so: fn(Reason) -> bool| reasons.iter().any(|(reason, _)| is_so(reason));
    let mut value = examination_json(now, if any(is_rule_of_slurm) { Tasks::Untried } else { tasks }, names);
    if matches!(now.decision, Decision::Place(_)) && any(Reason::lies_not_in_nodes) {
        value["decision"] = json!({"refuse": refusal, "reasons": reasons});
    }
    value
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
                "taints": node.taints,
                "scores": node.scores.iter().map(|(name, score)| json!([name, score.get()])).collect::<Vec<_>>(),
            })
        })
        .collect();
    let decision = match &examination.decision {
        Decision::Place(candidates) => json!({"place": candidates.iter().take(SHOWN).map(|candidate| json!({
            "on": place(&candidate.placement, names), "score": candidate.score.get(),
        })).collect::<Vec<_>>()}),
        Decision::Refuse { refusal, reasons } => json!({"refuse": refusal, "reasons": reasons}),
    };
    json!({"decision": decision, "least_change": least_change(examination, tasks, names), "nodes": nodes, "message": examination.message})
}
