//! Services for language models: converts `serving:` of a job to the requests that it receives and to the durations of
//! the steps of its replicas. Nothing about a model or a GPU is assumed: whatever is missing is an error.

use std::sync::Arc;

use super::arrivals::{ArrivalPattern, arrivals};
use super::jobs::ReadContext;
use super::lengths::{decimal, positive};
use super::services;
use super::serving_table::{self, Table};
use super::speeds::accepted;
use super::world::World;
use dryrack_rng::{self as rng, Stream};
use dryrack_trace::read_requests;
use dryrack_units::{Permille, RequestRate, SimDuration, SimTime};
use dryrack_workload::{
    Arrivals, Batch, Batching, GpuTake, JobBehavior, JobSpec, ServiceRequest, Serving, ServingLimits, StatedSteps,
    StepModel,
};
use dryrack_yaml::{Entry, Fields, Node, Report, Tree, text, value};

const FIELDS: [&str; 9] = [
    "table",
    "prefill",
    "step",
    "batching",
    "kv_cache_tokens",
    "max_sequences",
    "max_batched_tokens",
    "requests",
    "report_every",
];
const STEP_FIELDS: [&str; 3] = ["base", "per_sequence", "per_1k_context"];
const REQUEST_FIELDS: [&str; 9] =
    ["trace", "gaps", "concurrency", "arrivals", "rps", "for", "count", "input_tokens", "output_tokens"];
const BATCHINGS: [(&str, Batching); 2] = [("prefill_first", Batching::PrefillFirst), ("chunked", Batching::Chunked)];
const SHAPES: [&str; 3] = ["lognormal", "exponential", "uniform"];

/// The largest number of requests of a service.
const MOST_REQUESTS: usize = 20_000_000;
/// The largest number of tokens of a prompt or an answer.
const MOST_TOKENS: u32 = 100_000_000;
const REPORT_EVERY: SimDuration = SimDuration::from_secs(60);

/// Reads `serving:` of a job.
pub(super) fn serving(
    fields: &Fields<'_>,
    (spec, behavior): (&JobSpec, &JobBehavior),
    (world, setting): (&mut World, &ReadContext<'_>),
    report: &mut Report,
) -> Option<Serving> {
    let tree = fields.get("serving")?;
    check_job(fields, (spec, behavior), report);
    let own = Fields::read(tree, "a serving", &FIELDS, report)?;
    let table = own.get("table").and_then(|tree| serving_table::table(tree, setting.places, report));
    own.exclusive(&["table", "prefill"], "both state the duration of steps", report);
    own.exclusive(&["table", "step"], "both state the duration of steps", report);
    let steps = match (&table, own.has("table")) {
        (Some(table), _) => Some(serving_table::steps(table)),
        (None, true) => None,
        (None, false) => stated(&own, report),
    };
    check_gpus(fields, spec, table.as_ref(), world, report);
    let batching = match own.get("batching") {
        None if own.has("table") => Some(Batching::PrefillFirst),
        Some(tree) if own.has("table") && tree.scalar() == Some("chunked") => {
            let help = "write `batching: prefill_first`, or state `prefill` and `step` in place of the table";
            report.error_with_help(tree.span, serving_table::NOT_CHUNKED, help);
            None
        }
        Some(_) => own.word("batching", "a kind of batching", &BATCHINGS, report),
        None => {
            let help = "write `batching: chunked` if prompts share steps with answers (vLLM since its engine V1, SGLang \
                        with chunked prefill), or `batching: prefill_first`";
            report.error_with_help(own.place(), "the kind of batching is missing", help);
            None
        }
    };
    let limits = limits(&own, report);
    let report_every = own.get("report_every").map_or(Some(REPORT_EVERY), |tree| positive(tree, report));
    let name = fields.get("name").and_then(Tree::scalar).unwrap_or_default();
    let at = fields.value::<SimTime>("at", report).unwrap_or(SimTime::ZERO);
    let example = "{rps: 20, for: 1h, input_tokens: 1000, output_tokens: 200}";
    let requests =
        own.require("requests", example, report).and_then(|tree| requests(tree, (name, at), setting, report));
    let (Received { requests, clients }, limits) = (requests?, limits?);
    if clients.is_some() && spec.scaling.is_some() {
        let help = "leave `concurrency` out, or `scaling`";
        report.error_with_help(own.place(), "a service cannot scale by the rate of a closed loop", help);
    }
    warn_of_large(tree, &requests, &limits, report);
    if let Some(table) = &table {
        serving_table::check_coverage(table, &requests, limits.max_sequences, report);
    }
    let requests = requests.into();
    Some(Serving { steps: steps?, batching: batching?, limits, requests, clients, report_every: report_every? })
}

/// Reports settings of the job that do not go together with `serving`.
fn check_job(fields: &Fields<'_>, (spec, behavior): (&JobSpec, &JobBehavior), report: &mut Report) {
    let unlike = [
        ("count", "a service is one job: write one entry for each"),
        ("every", "a service is one job: write one entry for each"),
        ("array", "a service is one job: write one entry for each"),
        ("arrivals", "the arrivals of requests are in `serving: {requests: …}`"),
        ("requests", "the requests are in `serving: {requests: …}`"),
        ("duration", "a replica serves until it is stopped; `cancel_at` ends the service"),
    ];
    for (key, help) in unlike.iter().filter(|(key, _)| fields.has(key)) {
        report.error_with_help(fields.key_span(key), format!("`{key}` does not go together with `serving`"), *help);
    }
    if spec.demand.speeds.is_some() {
        let help = "leave `speed` out, and state the `prefill` and `step` of the GPUs on which it runs";
        report.error_with_help(fields.key_span("serving"), "`speed` has no effect on the steps of a service", help);
    }
    if behavior.together.is_some() {
        let help = "leave `rendezvous` out";
        report.error_with_help(fields.key_span("serving"), "the replicas of a service serve one by one", help);
    }
}

/// Reports a service whose replicas may run on several types of GPUs. Its steps are those of one type.
fn check_gpus(fields: &Fields<'_>, spec: &JobSpec, table: Option<&Table>, world: &mut World, report: &mut Report) {
    let Some(accepted) = accepted(&spec.demand) else { return };
    let fleet = world.fleet_gpus();
    let possible: Vec<&str> =
        fleet.iter().filter(|gpu| accepted.is_empty() || accepted.contains(gpu)).map(|gpu| &**gpu).collect();
    let span = fields.key_span("serving");
    if possible.len() > 1 {
        let message =
            format!("a replica may run on {}, but its steps are those of one type of GPU", possible.join(", "));
        report.error_with_help(span, message, format!("add `gpu: {}` to the job", possible[0]));
        return;
    }
    let whole = spec.demand.gpus().filter(|gpus| gpus.take == GpuTake::Whole).map(|gpus| gpus.count);
    if let (Some(table), Some(count)) = (table, whole)
        && let Some(tp) = table.tp.as_deref().filter(|tp| **tp != count.to_string())
    {
        let message = format!("the rows of the table are of tp {tp}, but a replica has {count} GPUs");
        report.error_with_help(table.span, message, format!("write `gpus: {tp}`, or choose rows with `tp: {count}`"));
    }
    let Some((table, gpu)) = table.and_then(|table| Some((table, table.gpu.as_deref()?))) else { return };
    if let [runs_on] = possible[..]
        && runs_on != gpu
    {
        let message = format!("the rows of the table are of gpu `{gpu}`, but the replicas run on `{runs_on}`");
        let help = format!("choose rows with `table: {{file: …, gpu: {runs_on}}}`, or correct the `gpu` of the table");
        report.error_with_help(table.span, message, help);
    }
}

/// Reads the stated durations of steps.
fn stated(own: &Fields<'_>, report: &mut Report) -> Option<StepModel> {
    let prefill = own.require("prefill", "12000 tokens/s", report).and_then(|tree| tokens_per_second(tree, report));
    let step = own.require("step", "{base: 8ms, per_sequence: 50us}", report);
    let step = step.and_then(|tree| Fields::read(tree, "a step", &STEP_FIELDS, report))?;
    let base = step.require("base", "8ms", report).and_then(|tree| positive(tree, report));
    let per_sequence = step.require("per_sequence", "50us", report);
    let per_sequence = per_sequence.and_then(|tree| value::<SimDuration>(tree, report));
    let per_1k_context = step.value::<SimDuration>("per_1k_context", report).unwrap_or(SimDuration::ZERO);
    let (prefill, base, per_sequence) = (prefill?, base?, per_sequence?);
    Some(StepModel::Stated(StatedSteps { prefill, base, per_sequence, per_1k_context }))
}

/// Reads `12000 tokens/s`, or `12000/s`.
fn tokens_per_second(tree: &Tree, report: &mut Report) -> Option<RequestRate> {
    let typed = tree.scalar().unwrap_or_default();
    let number = typed.strip_suffix("/s").map(|rest| rest.trim_end().strip_suffix("tokens").unwrap_or(rest).trim());
    let rate = number.and_then(|number| number.parse::<RequestRate>().ok()).filter(|rate| *rate != RequestRate::ZERO);
    if rate.is_none() {
        let message = format!("expected prompt tokens per second, found `{typed}`");
        report.error_with_help(tree.span, message, "write `12000 tokens/s`");
    }
    rate
}

fn limits(own: &Fields<'_>, report: &mut Report) -> Option<ServingLimits> {
    let kv_cache = own.require("kv_cache_tokens", "400000", report);
    let max_sequences = own.require("max_sequences", "256", report);
    let max_batched_tokens = own.require("max_batched_tokens", "8192", report);
    let mut positive = |tree: Option<&Tree>| {
        let tree = tree?;
        let count = value::<u64>(tree, report)?;
        if count == 0 || count > 1 << 40 {
            report.error_with_help(tree.span, format!("{count} is out of range"), "write a number such as 8192");
            return None;
        }
        Some(count)
    };
    let (kv_cache, max_sequences) = (positive(kv_cache), positive(max_sequences));
    let max_batched_tokens = positive(max_batched_tokens)?;
    let max_sequences = u32::try_from(max_sequences?).unwrap_or(u32::MAX);
    Some(ServingLimits { kv_cache: kv_cache?, max_sequences, max_batched_tokens })
}

/// Warns about requests that are larger than the KV cache.
fn warn_of_large(tree: &Tree, requests: &[ServiceRequest], limits: &ServingLimits, report: &mut Report) {
    let large = requests.iter().filter(|request| request.tokens() > limits.kv_cache).count();
    if large > 0 {
        let message = format!(
            "{large} of {} requests need more than the {} tokens of the KV cache, so they are never served",
            requests.len(),
            limits.kv_cache
        );
        report.warning(tree.span, message, "write a larger `kv_cache_tokens`, or `max` in the numbers of tokens");
    }
}

/// The requests of a service, and the number of clients of a closed loop.
struct Received {
    requests: Vec<ServiceRequest>,
    clients: Option<u32>,
}

/// Reads the requests, whose times are counted from the submission of the job.
fn requests(
    tree: &Tree,
    (name, at): (&str, SimTime),
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> Option<Received> {
    let own = Fields::read(tree, "the requests of a service", &REQUEST_FIELDS, report)?;
    if let Some(of) = own.get("trace") {
        for key in ["rps", "arrivals", "concurrency", "input_tokens", "output_tokens"] {
            own.exclusive(&["trace", key], "the trace states this", report);
        }
        return recorded(&own, of, at, setting, report).map(|requests| Received { requests, clients: None });
    }
    if own.has("gaps") {
        report.error_with_help(own.key_span("gaps"), "`gaps` scales the gaps of a trace", "add `trace: FILE`");
    }
    let input = own.require("input_tokens", "1000", report).and_then(|tree| tokens(tree, report));
    let output = own.require("output_tokens", "200", report).and_then(|tree| tokens(tree, report));
    let clients = match own.get("concurrency") {
        None => None,
        Some(_) => {
            for key in ["rps", "arrivals", "for"] {
                own.exclusive(
                    &["concurrency", key],
                    "in a closed loop, each client sends when its last request has ended",
                    report,
                );
            }
            own.require("count", "1000", report);
            let clients = f64::from(own.count("concurrency", 1, report)?) * setting.load.factor();
            // A load of 110 % is 10 % more clients. The conversion saturates.
            Some(libm::ceil(clients - 1e-9) as u32)
        }
    };
    let times = match clients {
        Some(_) => vec![at; (own.count("count", 1, report)? as usize).min(MOST_REQUESTS)],
        None => times(&own, (name, at), setting, report)?,
    };
    let (input, output) = (input?, output?);
    let stream = |purpose| Stream::new(setting.seed, purpose, rng::entity(&[name]));
    let (mut inputs, mut outputs) = (stream("input tokens"), stream("output tokens"));
    let request = |time: SimTime| ServiceRequest {
        at: time.since(at),
        input: input.draw(&mut inputs),
        output: output.draw(&mut outputs),
    };
    Some(Received { requests: times.into_iter().map(request).collect(), clients })
}

/// Reads the requests of a trace: a file beside the scenario, or in the folder `traces` of `DRYRACK_DATA`.
fn recorded(
    own: &Fields<'_>,
    tree: &Tree,
    at: SimTime,
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> Option<Vec<ServiceRequest>> {
    let typed = text(tree, "the path of a trace of requests", report)?;
    let data = setting.places.roots.data.iter().map(|data| data.join("traces").join(typed));
    let places: Vec<_> = std::iter::once(setting.places.folder.join(typed)).chain(data).collect();
    let Some(path) = places.iter().find(|path| path.is_file()) else {
        let looked = places.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ");
        let help = "give a path relative to the folder of this file, or name the folder of traces with DRYRACK_DATA";
        report.error_with_help(tree.span, format!("no trace of requests `{typed}`: no {looked}"), help);
        return None;
    };
    let trace = match read_requests(path) {
        Ok(trace) => trace,
        Err(fault) => {
            let help = "the first line must name the columns, such as `at_s,input_tokens,output_tokens`";
            report.error_with_help(tree.span, fault.to_string(), help);
            return None;
        }
    };
    if trace.without_tokens > 0 {
        let message = format!(
            "{} rows of the trace have no tokens of a prompt or an answer, and are left out",
            trace.without_tokens
        );
        report.warning(tree.span, message, "such rows are requests that failed");
    }
    let gaps = own.value::<Permille>("gaps", report).unwrap_or(Permille::new(1000));
    let length = own.get("for").map(|tree| positive(tree, report));
    let end = match length {
        Some(length) => Some(length?),
        None => None,
    };
    let count = own.count("count", 1, report).map_or(MOST_REQUESTS, |count| count as usize);
    let scaled = |time: SimDuration| {
        let nanos = u128::from(time.as_nanos()) * u128::from(gaps.get()) / 1000;
        SimDuration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    let rows: Vec<(SimDuration, u32, u32)> = (trace.requests.into_iter())
        .map(|(time, input, output)| (scaled(time), input, output))
        .take_while(|(time, ..)| end.is_none_or(|end| *time < end))
        .collect();
    let times = rows.iter().map(|(time, ..)| at.saturating_add(*time));
    let spread = match setting.load.spread(times, count) {
        Ok(spread) => spread,
        Err(fault) => {
            fault.report(tree.span, "write a shorter `for`", report);
            return None;
        }
    };
    let request =
        |(row, time): (usize, SimTime)| ServiceRequest { at: time.since(at), input: rows[row].1, output: rows[row].2 };
    Some(spread.into_iter().map(request).collect())
}

/// The times of synthetic requests.
fn times(
    own: &Fields<'_>,
    (name, at): (&str, SimTime),
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> Option<Vec<SimTime>> {
    own.exclusive(&["arrivals", "rps"], "both state when requests arrive", report);
    let length = own.get("for").map(|tree| positive(tree, report));
    let until = match length {
        Some(length) => Some(at.saturating_add(length?)),
        None => setting.until,
    };
    let count = own.count("count", 1, report);
    if until.is_none() && !own.has("count") {
        let help = "add `for: 1h` or `count: 10000`";
        report.error_with_help(own.place(), "the end of the requests is missing", help);
        return None;
    }
    let parts = match (own.get("arrivals"), own.get("rps")) {
        (Some(tree), _) => {
            let ArrivalPattern { arrivals, batch } = arrivals(tree, report)?;
            if batch != Batch::Fixed(1) {
                let help = "leave `batch` out";
                report.error_with_help(tree.span, "requests do not arrive in batches", help);
            }
            vec![(at, until, arrivals)]
        }
        (None, Some(tree)) => curve(tree, at, until, report)?,
        (None, None) => {
            let help = "add `rps: 20`, a curve such as `rps: [{at: 0s, rps: 5}, {at: 1h, rps: 20}]`, or \
                        `arrivals: {daily: {mean: 20/s}}`";
            report.error_with_help(own.place(), "the arrivals of the requests are missing", help);
            return None;
        }
    };
    let wanted = count.map_or(MOST_REQUESTS + 1, |count| count as usize).min(MOST_REQUESTS + 1);
    let mut stream = Stream::new(setting.seed, "requests", rng::entity(&[name]));
    let mut times = Vec::new();
    for (number, (from, until, arrivals)) in parts.into_iter().enumerate() {
        let growing = Stream::new(setting.seed, "growth of requests", rng::entity(&[name, &number.to_string()]));
        let left = wanted - times.len();
        match setting.load.instants(arrivals, (from, until), left, (&mut stream, growing)) {
            Ok(part) => times.extend(part),
            Err(fault) => {
                fault.report(own.place(), "write a shorter `for`", report);
                return None;
            }
        }
    }
    if times.len() > MOST_REQUESTS {
        let message = format!("more than {MOST_REQUESTS} requests");
        report.error_with_help(own.place(), message, "write a shorter `for`, or a lower rate");
        return None;
    }
    if times.is_empty() {
        report.warning(own.place(), "no request arrives in this time", "write a longer `for`, or a higher rate");
    }
    Some(times)
}

/// A part of a curve: from when until when which requests arrive.
type Part = (SimTime, Option<SimTime>, Arrivals);

/// Reads `20`, or `[{at: 10m, rps: 20}, ...]`: Poisson arrivals whose rate changes at these times. The exponential
/// distribution has no memory, so the gap that a change cuts short is drawn again.
fn curve(tree: &Tree, at: SimTime, until: Option<SimTime>, report: &mut Report) -> Option<Vec<Part>> {
    let mut steps: Vec<(SimDuration, RequestRate)> = Vec::new();
    match &tree.node {
        Node::List(items) => {
            for item in items {
                let fields = Fields::read(item, "a number of requests", &["at", "rps"], report)?;
                let from = fields.require("at", "10m", report).and_then(|tree| value::<SimDuration>(tree, report));
                let rate = fields.require("rps", "20", report).and_then(|tree| value::<RequestRate>(tree, report));
                let from = from?;
                if steps.last().is_some_and(|(before, _)| *before >= from) {
                    report.error_with_help(
                        item.span,
                        "this time is not after the one above",
                        "sort the entries by time",
                    );
                    return None;
                }
                steps.push((from, rate?));
            }
        }
        _ => steps.push((SimDuration::ZERO, value::<RequestRate>(tree, report)?)),
    }
    if steps.iter().all(|(_, rate)| *rate == RequestRate::ZERO) {
        report.error_with_help(tree.span, "at this rate, no request ever arrives", "write a rate such as `rps: 20`");
        return None;
    }
    let mut parts = Vec::new();
    for (index, (from, rate)) in steps.iter().enumerate() {
        let next = steps.get(index + 1).map(|(next, _)| at.saturating_add(*next));
        let from = at.saturating_add(*from);
        let end = match (next, until) {
            (Some(next), Some(until)) => Some(next.min(until)),
            (next, until) => next.or(until),
        };
        // The rate is in thousandths per second.
        let gap = 1_000_000_000_000u64.checked_div(rate.get());
        if let Some(gap) = gap.filter(|_| end.is_none_or(|end| from < end)) {
            parts.push((from, end, Arrivals::Poisson { gap: SimDuration::from_nanos(gap) }));
        }
    }
    Some(parts)
}

/// A number of tokens, or a distribution of numbers of tokens.
#[derive(Clone, Copy)]
struct Tokens {
    shape: Shape,
    most: u32,
}

#[derive(Clone, Copy)]
enum Shape {
    Fixed(u32),
    Uniform(u32, u32),
    Exponential { mean: u32 },
    Lognormal { median: u32, sigma: f64 },
}

impl Tokens {
    /// Draws a number from 1 to the largest one. A larger draw becomes the largest one.
    fn draw(&self, stream: &mut Stream) -> u32 {
        // A duration of as many seconds as there are tokens, so that fractions are rounded at the end.
        let scaled = |tokens: u32| SimDuration::from_secs(u64::from(tokens));
        let back = |length: SimDuration| length.as_nanos().saturating_add(500_000_000) / 1_000_000_000;
        let drawn = match self.shape {
            Shape::Fixed(tokens) => u64::from(tokens),
            Shape::Uniform(low, high) => stream.between(low.into(), high.into()),
            Shape::Exponential { mean } => back(stream.exponential(scaled(mean))),
            Shape::Lognormal { median, sigma } => back(stream.lognormal(scaled(median), sigma)),
        };
        u32::try_from(drawn.clamp(1, u64::from(self.most))).unwrap_or(self.most)
    }
}

/// Reads `1000`, `{lognormal: {median: 1000, sigma: 1.1}, max: 8192}`, `{exponential: 200, max: 4096}` or
/// `{uniform: {from: 100, to: 400}}`.
fn tokens(tree: &Tree, report: &mut Report) -> Option<Tokens> {
    let Node::Map(entries) = &tree.node else {
        return number(tree, report).map(|tokens| Tokens { shape: Shape::Fixed(tokens), most: tokens });
    };
    let example = "write `1000`, or `{lognormal: {median: 1000, sigma: 1.1}, max: 8192}`";
    let most = entries.iter().find(|entry| entry.key == "max");
    let others: Vec<&Entry> = entries.iter().filter(|entry| entry.key != "max").collect();
    let [Entry { key, key_span, value: inner, .. }] = others[..] else {
        report.error_with_help(tree.span, "expected one distribution of tokens", example);
        return None;
    };
    let shape = match key.as_str() {
        "exponential" => Shape::Exponential { mean: number(inner, report)? },
        "lognormal" => {
            let fields = Fields::read(inner, "a lognormal distribution", &["median", "sigma"], report)?;
            let (median, sigma) = (fields.require("median", "1000", report), fields.require("sigma", "1.1", report));
            let sigma = sigma.and_then(|tree| decimal(tree, (0.0, 10.0), report));
            Shape::Lognormal { median: number(median?, report)?, sigma: sigma? }
        }
        "uniform" => {
            let fields = Fields::read(inner, "a uniform distribution", &["from", "to"], report)?;
            let (from, to) = (fields.require("from", "100", report), fields.require("to", "400", report));
            let (from, to) = (number(from?, report)?, number(to?, report)?);
            if from > to {
                let message = format!("the range from {from} to {to} is empty");
                report.error_with_help(inner.span, message, format!("write `{{from: {to}, to: {from}}}`"));
                return None;
            }
            Shape::Uniform(from, to)
        }
        other => {
            report.unknown(*key_span, format!("`{other}` is not a distribution"), other, SHAPES.into_iter());
            return None;
        }
    };
    let most = match (most, shape) {
        (Some(entry), _) => number(&entry.value, report)?,
        (None, Shape::Uniform(_, to)) => to,
        (None, _) => {
            let help = "add `max: 8192`, the longest that the service accepts; longer draws count as this long";
            report.error_with_help(tree.span, "the largest number of tokens is missing", help);
            return None;
        }
    };
    Some(Tokens { shape, most })
}

/// A number of tokens, at least 1.
fn number(tree: &Tree, report: &mut Report) -> Option<u32> {
    let tokens = value::<u32>(tree, report)?;
    if tokens == 0 || tokens > MOST_TOKENS {
        let help = format!("write a number from 1 to {MOST_TOKENS}");
        report.error_with_help(tree.span, format!("{tokens} tokens is out of range"), help);
        return None;
    }
    Some(tokens)
}

/// Adds the requests of a service to its behavior, and how a service for a language model serves them.
pub(super) fn with_requests(
    behavior: &mut JobBehavior,
    fields: &Fields<'_>,
    spec: &JobSpec,
    context: (&mut World, &ReadContext<'_>),
    report: &mut Report,
) {
    let scales_by_rate = spec.scaling.is_some() && !fields.has("serving");
    behavior.requests = services::requests(fields, scales_by_rate, report).map(Arc::new);
    behavior.serving = serving(fields, (spec, behavior), context, report).map(Arc::new);
}
