//! The summary that is printed after a run.

use anstyle::{AnsiColor, Style};

use super::served;
use super::timeline::{about, timeline};
use dryrack_engine::Standing;
use dryrack_event::{Outcome, Phase, Reason};
use dryrack_expect::{NEVER_RUNS_HELP, Verdict};
use dryrack_ids::AttemptId;
use dryrack_metrics::{
    Blame, Function, JobAccount, Metrics, ReplicaAccount, RunAccount, Series, Standings, Value, WaitsAgain,
    wait_sections,
};
use dryrack_units::{SimDuration, SimTime, counted, grouped};

pub struct Heading<'a> {
    pub title: &'a str,
    pub profile: &'a str,
    pub seed: u64,
    pub digest: &'a str,
    /// Whether the run is one sample of what may happen: it has a trace, or drew random numbers.
    pub is_sample: bool,
    /// The first line names the trace and its use. Notes on irregularities in the trace follow.
    pub trace: Vec<String>,
    /// What the run assumes because its file leaves it open.
    pub assumed: &'a [String],
    /// How long the jobs of the trace waited in the recorded cluster, as far as the trace states it.
    pub recorded_waits: Vec<SimDuration>,
    /// Whether the trace leaves open when some of its jobs became eligible to start, so that their waits begin with their
    /// submission.
    pub since_submission: bool,
}

/// The number of reasons for waiting that are listed.
const NAMED_REASONS: usize = 3;

/// The number of waiting replicas that are listed.
const STILL_WAITING: usize = 5;

/// The summary as lines ready to print, with colours as ANSI codes.
pub fn summary(heading: &Heading, accounts: &RunAccount, metrics: &Metrics, verdicts: &[Verdict]) -> String {
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let mut text = format!("{bold}{}{bold:#}\n", heading.title);
    let end = about(accounts.now.since(dryrack_units::SimTime::ZERO));
    text.push_str(&format!(
        "{dim}profile {}, seed {}, {end} simulated, {} records, digest {}{dim:#}\n\n",
        heading.profile,
        heading.seed,
        accounts.records,
        &heading.digest[..heading.digest.len().min(12)],
    ));
    text.push_str(&never_runs(accounts));
    for (index, line) in heading.trace.iter().enumerate() {
        text.push_str(&format!("{:<11}{line}\n", if index == 0 { "trace" } else { "" }));
    }
    for (index, line) in heading.assumed.iter().enumerate() {
        text.push_str(&format!("{:<11}{line}\n", if index == 0 { "assumed" } else { "" }));
    }
    text.push_str(&ran(accounts, metrics));
    text.extend(accounts.past_estimates_sentence().map(|sentence| format!("limits     {sentence}\n")));
    text.push_str(&waited(accounts, metrics, heading));
    text.push_str(&served::lines(accounts, metrics));
    text.push_str(&used(accounts, metrics));
    let timeline = timeline(accounts);
    if !timeline.is_empty() {
        text.push_str(&format!("\n{timeline}"));
    }
    if !verdicts.is_empty() {
        text.push('\n');
        verdicts.iter().for_each(|verdict| text.push_str(&verdict_lines(verdict)));
        text.push_str(&starts_later(accounts, metrics, verdicts));
        if verdicts.iter().any(Verdict::is_of_never_run) {
            text.push_str(&format!("      help      {NEVER_RUNS_HELP}\n"));
        }
    }
    text
}

/// The sentences about jobs that can never run and requests that were not served. They come before all figures, so that a reader cannot overlook them.
fn never_runs(accounts: &RunAccount) -> String {
    let bad = AnsiColor::Red.on_default().bold();
    let sentence = accounts.never_run();
    let requests = served::all_services(accounts).and_then(|all| served::unserved(&all));
    let sentences = sentence.into_iter().chain(accounts.unplaceable.refused_empty()).chain(requests);
    sentences.map(|sentence| format!("{bad}{sentence}{bad:#}\n\n")).collect()
}

/// A line such as `jobs      3 = 1 completed + 1 running + 1 waiting`.
fn ran(accounts: &RunAccount, metrics: &Metrics) -> String {
    let mut parts = Vec::new();
    for outcome in Outcome::ALL {
        let count = metrics.count(&format!("jobs_{}", outcome.name()));
        if count > 0 {
            parts.push(format!("{count} {}", outcome.name().replace('_', " ")));
        }
    }
    for (name, word) in [("jobs_running", "still running"), ("jobs_waiting", "still waiting")] {
        let count = metrics.count(name);
        let waiting = match name {
            "jobs_running" => {
                let mut standings = Standings::default();
                let mut waits = |attempt: AttemptId, job: &JobAccount, replica: &ReplicaAccount| {
                    waits_beside_others(standings.of(attempt, job), replica)
                };
                accounts.counted().filter(|(attempt, job, replica)| waits(*attempt, job, replica)).count()
            }
            _ => 0,
        };
        match (count, waiting) {
            (0, _) => {}
            (_, 0) => parts.push(format!("{count} {word}")),
            (_, 1) => parts.push(format!("{count} {word} (1 replica waits)")),
            (_, several) => parts.push(format!("{count} {word} ({several} replicas wait)")),
        }
    }
    let jobs = metrics.count("jobs_submitted");
    let early = accounts.job_rows().count() as u64 - jobs;
    let all = match early {
        0 => jobs.to_string(),
        _ => format!("{jobs} of {}, after the warm-up of {}:", jobs + early, accounts.warm_up),
    };
    let mut text = match (parts.is_empty(), early) {
        (true, 0) => "jobs       none\n".to_string(),
        (true, _) => format!("jobs       {}\n", all.trim_end_matches(':')),
        (false, 0) => format!("jobs       {all} = {}\n", parts.join(" + ")),
        (false, _) => format!("jobs       {all} {}\n", parts.join(" + ")),
    };
    // The refused commits of a scheduler in another process are among its refused decisions below.
    let own_commits = accounts.outside.own_commits();
    let count_of = |name: &str| if name == "commits_refused" { own_commits } else { metrics.count(name) };
    let incidents = [
        ("preemptions", "preemption", "preemptions"),
        ("retries", "retry", "retries"),
        ("commits_refused", "commit refused", "commits refused"),
        ("deadlines_expired", "deadline expired", "deadlines expired"),
        ("safety_broken", "time safety broken", "times safety broken"),
        ("policies_fired", "policy fired", "policies fired"),
        ("policies_warned", "policy warned", "policies warned"),
    ];
    let incidents: Vec<String> = (incidents.iter())
        .filter(|(name, ..)| count_of(name) > 0)
        .map(|(name, one, several)| match count_of(name) {
            1 => format!("1 {one}"),
            count => format!("{count} {several}"),
        })
        .collect();
    if !incidents.is_empty() {
        text.push_str(&format!("incidents  {}\n", incidents.join(", ")));
    }
    let outside = &accounts.outside;
    for (word, what) in [("refused", outside.refused(&accounts.names)), ("restarted", outside.restarted())] {
        let bad = AnsiColor::Red.on_default();
        what.iter().for_each(|what| text.push_str(&format!("{bad}{word:<10} {what}{bad:#}\n")));
    }
    text
}

/// The waits that the line `because` leaves out.
const WITHOUT_NEVER_RUN: &str = "; without jobs that can never run";

fn waited(accounts: &RunAccount, metrics: &Metrics, heading: &Heading) -> String {
    let time = |name| match metrics.get(name) {
        Some(Value::Time(time)) => about(time),
        _ => "none".to_string(),
    };
    let mut text = String::new();
    if metrics.get("queue_wait_max_seconds") != Some(Value::Undefined) {
        let mut ended_unplaced = false;
        accounts.each_row(|replica| ended_unplaced |= replica.placed.is_none() && replica.outcome.is_some());
        let uncounted = match (ended_unplaced, metrics.count("jobs_waiting")) {
            (true, _) => "; without replicas that were never placed",
            (false, 0) => "",
            (false, _) => "; without replicas that still wait",
        };
        text.push_str(&format!(
            "waited     {} on average, half {} or less, 95% {} or less, at most {}{uncounted}\n",
            time("queue_wait_mean_seconds"),
            time("queue_wait_p50_seconds"),
            time("queue_wait_p95_seconds"),
            time("queue_wait_max_seconds"),
        ));
    }
    text.push_str(&waited_in_log(&heading.recorded_waits, heading.since_submission));
    if heading.is_sample {
        text.push_str(&interval_line(accounts));
    }
    // If instances are created on demand, a replica is placed long before it starts, so show when replicas started.
    if metrics.get("instance_hours") != Some(Value::Undefined) {
        text.push_str(&started(accounts));
    }
    text.push_str(&again(accounts));
    let waits = accounts.waits.by_blame();
    let uncounted = if accounts.waits.never_run > 0 { WITHOUT_NEVER_RUN } else { "" };
    text.push_str(&because(&waits, accounts.waits.unexplained, uncounted));
    text + &still_waiting(accounts)
}

/// A line such as `in the log 6m34s on average, …`, to compare with the waits of the run; empty without recorded waits.
fn waited_in_log(waits: &[SimDuration], since_submission: bool) -> String {
    let mut waits = waits.to_vec();
    waits.sort_unstable();
    let Some(most) = waits.last().copied() else { return String::new() };
    let sum: u128 = waits.iter().map(|wait| u128::from(wait.as_nanos())).sum();
    let mean = SimDuration::from_nanos(u64::try_from(sum / waits.len() as u128).unwrap_or(u64::MAX));
    let up_to = |percent: usize| about(waits[(waits.len() * percent).div_ceil(100).max(1) - 1]);
    let since = if since_submission { "; since submission, as it does not say when jobs became eligible" } else { "" };
    format!(
        "in the log {} on average, half {} or less, 95% {} or less, at most {}{since}\n",
        about(mean),
        up_to(50),
        up_to(95),
        about(most)
    )
}

/// A line such as `interval   mean 12m to 18m, 95th percentile 1h02m to 1h31m (95% confidence, …)`; empty without an
/// interval.
fn interval_line(accounts: &RunAccount) -> String {
    let Some(found) = wait_sections(accounts) else { return String::new() };
    let of = format!("{} sections of {}", found.sections, about(found.length()));
    if found.is_dependent() {
        return format!("interval   none: {of} depend on each other (correlation {:.2})\n", found.correlation);
    }
    let time = |seconds: f64| about(SimDuration::from_nanos((seconds * 1e9) as u64));
    let Some((low, high)) = found.mean else { return String::new() };
    let most = found.p95.map_or(String::new(), |(low, high)| match high {
        Some(high) => format!(", 95th percentile {} to {}", time(low), time(high)),
        None => format!(", 95th percentile {} or more", time(low)),
    });
    format!("interval   mean {} to {}{most} (95% confidence, from {of})\n", time(low), time(high))
}

/// Whether replicas may be stopped and started again because the number of replicas changes.
fn is_scaled(accounts: &RunAccount) -> bool {
    let by_reason = |replica: &ReplicaAccount| matches!(replica.reason, Some(Reason::ScaledDown | Reason::ScaledUp));
    accounts.counted().any(|(_, job, replica)| job.spec.scaling.is_some() || by_reason(replica))
}

/// A line such as `again      29h00m in all, after preemptions and losses`; empty if nobody waited again.
fn again(accounts: &RunAccount) -> String {
    let WaitsAgain { time, open } = accounts.waits.again;
    if time == 0 {
        return String::new();
    }
    let open = match open {
        0 => String::new(),
        1 => "; 1 replica still does".to_string(),
        more => format!("; {more} replicas still do"),
    };
    let total = SimDuration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX));
    let after = if is_scaled(accounts) { "preemptions, losses or scale-downs" } else { "preemptions or losses" };
    format!("again      {} in all, after {after}{open}\n", about(total))
}

/// A line such as `because    67% insufficient_gpus, 30% insufficient_cpu, 3% other reasons`: shares of the total wait.
/// `undecided` is the time before a decision gave a reason, and `uncounted` says whose waits are not in it.
fn because(waits: &[(Blame, u128)], undecided: u128, uncounted: &str) -> String {
    let total = waits.iter().map(|(_, waited)| waited).sum::<u128>() + undecided;
    let percent = |waited: u128| (waited * 100 + total / 2) / total.max(1);
    let named: Vec<&(Blame, u128)> =
        waits.iter().take(NAMED_REASONS).filter(|(_, waited)| percent(*waited) > 0).collect();
    if named.is_empty() {
        return String::new();
    }
    let mut shares: Vec<String> =
        named.iter().map(|(blame, waited)| format!("{}% {blame}", percent(*waited))).collect();
    let rest = percent(total - undecided - named.iter().map(|(_, waited)| waited).sum::<u128>());
    if rest > 0 {
        shares.push(format!("{rest}% other reasons"));
    }
    let undecided = percent(undecided);
    if undecided > 0 {
        shares.push(format!("{undecided}% before a decision"));
    }
    format!("because    {}{uncounted}\n", shares.join(", "))
}

/// A line such as `started    4m2s on average after submission, half …`.
fn started(accounts: &RunAccount) -> String {
    let (values, without) = Series::StartWait.values(accounts, |row| row.submitted >= accounts.warm_up);
    let time = |function: Function| match function.of(&values) {
        Value::Time(time) => about(time),
        _ => "none".to_string(),
    };
    if values.is_empty() && without > 0 {
        return format!("started    none; {without} never started\n");
    }
    if values.is_empty() {
        return String::new();
    }
    let uncounted = if without == 0 { String::new() } else { format!("; {without} never started") };
    let mut has_added = false;
    accounts.each_row(|row| has_added |= row.wanted > row.submitted);
    format!(
        "started    {} after {} on average, half {} or less, 95% {} or less, at most {}{uncounted}\n",
        time(Function::Mean),
        if has_added { "submission or scale-up" } else { "submission" },
        time(Function::Quantile(500)),
        time(Function::Quantile(950)),
        time(Function::Max),
    )
}

/// A warning if a bound on `queue_wait` holds only because `queue_wait` ends before instances are up.
fn starts_later(accounts: &RunAccount, metrics: &Metrics, verdicts: &[Verdict]) -> String {
    let is_of_queue = |verdict: &&Verdict| verdict.passed && verdict.expected.contains("queue_wait");
    let Some(bound) = verdicts.iter().find(is_of_queue) else { return String::new() };
    let (values, _) = Series::StartWait.values(accounts, |row| row.submitted >= accounts.warm_up);
    let percentile = Function::Quantile(950);
    let (Value::Time(started), Some(Value::Time(placed)), Some(Value::Ratio(_))) =
        (percentile.of(&values), metrics.get("queue_wait_p95_seconds"), metrics.get("instance_hours"))
    else {
        return String::new();
    };
    if started.as_nanos() < 2 * placed.as_nanos() || started.as_nanos() - placed.as_nanos() < 1_000_000_000 {
        return String::new();
    }
    let warning = AnsiColor::Yellow.on_default();
    format!(
        "{warning}note{warning:#}  {} holds, but queue_wait ends when a replica gets a place, and instances take time to\n      \
         start: p95(start_wait) is {}. Bound start_wait to include this time.\n",
        bound.name,
        about(started)
    )
}

/// Whether the replica waits for a node while another replica of its job has one.
fn waits_beside_others(of_job: Standing, replica: &ReplicaAccount) -> bool {
    let is_waiting = matches!(replica.phase, Phase::Pending | Phase::Analysing) && replica.outcome.is_none();
    is_waiting && of_job == Standing::Running
}

fn still_waiting(accounts: &RunAccount) -> String {
    let mut standings = Standings::default();
    let mut waits = |attempt: AttemptId, job: &JobAccount, replica: &ReplicaAccount| {
        let of_job = standings.of(attempt, job);
        let whole = of_job == Standing::Waiting && replica.outcome.is_none();
        whole || waits_beside_others(of_job, replica)
    };
    let waiting: Vec<_> = accounts.replicas().filter(|(attempt, job, replica)| waits(*attempt, job, replica)).collect();
    let mut text = String::new();
    for (attempt, job, replica) in waiting.iter().take(STILL_WAITING) {
        let because = replica.waits_for().map_or("no reason was given".to_string(), Blame::text);
        let since = about(accounts.now.since(replica.wanted));
        let name = replica_name(*attempt, &job.spec.name);
        // A replica that was placed before has not waited the whole time.
        let waits = match replica.placed {
            None => format!("still waits after {since}"),
            Some(_) => format!("waits again, {since} after its submission"),
        };
        text.push_str(&format!("           {name} {waits}: {because}\n"));
    }
    if waiting.len() > STILL_WAITING {
        text.push_str(&format!("           and {} more still wait\n", waiting.len() - STILL_WAITING));
    }
    text
}

pub(super) fn replica_name(attempt: AttemptId, job: &str) -> String {
    if attempt.replica == 0 { job.to_string() } else { format!("{job}[{}]", attempt.replica) }
}

fn used(accounts: &RunAccount, metrics: &Metrics) -> String {
    let share = |name, what| match metrics.get(name) {
        Some(Value::Ratio(ratio)) => format!("{:.1}% of ", ratio * 100.0),
        _ if accounts.now == SimTime::ZERO => String::new(),
        _ => format!("no {what} was ready of "),
    };
    let gpus: usize = accounts.nodes.iter().map(|node| node.gpu_count()).sum();
    let cores: u64 = accounts.nodes.iter().map(|node| node.spec.shape.cpu_capacity().get()).sum();
    let mut parts = Vec::new();
    if gpus > 0 {
        parts.push(format!("{}{}", share("gpu_allocated", "GPU"), counted(gpus, "GPU")));
    }
    parts.push(format!("{}{} cores", share("cpu_allocated", "core"), dryrack_units::MilliCpu::new(cores)));
    let makespan = match metrics.get("makespan_seconds") {
        Some(Value::Time(time)) if time > SimDuration::ZERO => format!(", makespan {}", about(time)),
        _ => String::new(),
    };
    let made = made(accounts, metrics);
    let of = if accounts.now == SimTime::ZERO { "unknown, because no time passed" } else { "of ready time" };
    format!("allocated  {of}: {} on {}{makespan}\n{made}", parts.join(", "), counted(accounts.nodes.len(), "node"))
}

/// Lines such as `instances  3, at most 2 at a time, 1 taken away, 5.25 hours in total`, `cost       39.10, 730.00 a month`
/// and `energy     912.0 kWh, 347.0 kg of CO2`, each only if it is defined.
fn made(accounts: &RunAccount, metrics: &Metrics) -> String {
    let currency = accounts.currency.as_deref();
    let mut text = String::new();
    if let Some(Value::Ratio(hours)) = metrics.get("instance_hours") {
        let taken = match metrics.count("instances_taken") {
            0 => String::new(),
            count => format!(", {count} taken away"),
        };
        let (made, most) = (metrics.count("instances_made"), metrics.count("instances_most"));
        text.push_str(&format!("instances  {made}, at most {most} at a time{taken}, {hours:.2} hours in total\n"));
    }
    if let Some(Value::Money(cost)) = metrics.get("cost") {
        let currency = currency.map_or(String::new(), |currency| format!(" {currency}"));
        text.push_str(&format!("cost       {}{currency}", grouped(&cost.to_string())));
        if let Some(Value::Money(month)) = metrics.get("cost_per_month") {
            text.push_str(&format!(", {}{currency} a month", grouped(&month.to_string())));
        }
        text.push('\n');
    }
    let carbon = match metrics.get("carbon") {
        Some(Value::Ratio(carbon)) => format!(", {carbon:.1} kg of CO2"),
        _ => String::new(),
    };
    let partial = accounts.partial_power().map_or(String::new(), |part| {
        format!(", for {:.1}% of the node hours; the other nodes state no power", part * 100.0)
    });
    let rest = carbon + &partial;
    if let Some(Value::Ratio(energy)) = metrics.get("energy").filter(|_| !rest.is_empty()) {
        text.push_str(&format!("energy     {energy:.1} kWh{rest}\n"));
    }
    text
}

fn verdict_lines(verdict: &Verdict) -> String {
    let (good, bad) = (AnsiColor::Green.on_default(), AnsiColor::Red.on_default().bold());
    match verdict.passed {
        true => format!("{good}ok{good:#}    {}\n", verdict.name),
        false => format!(
            "{bad}FAIL{bad:#}  {}\n      expected  {}\n      happened  {}\n",
            verdict.name, verdict.expected, verdict.happened
        ),
    }
}
