//! Nodes and jobs of Slurm, from `sinfo --json` and `squeue --json`; ended jobs, from its job completion file.
//!
//! Slurm 22.05 lists nodes in `sinfo --json`. Later releases group nodes there, and list them in `scontrol show nodes
//! --json`. Memory is in MiB. GPUs are `gres`: `gpu:2`, `gpu:a100:8(S:0-1)`. A job's `gres_detail` states which GPUs it
//! has: `gpu:2(IDX:0-1)`, one entry for each of its nodes. If this is missing, the first GPUs are marked, as many as
//! `gres_used` counts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::command::{Command, Limits};
use super::missing::Missing;
use super::snapshot::{GpuSnapshot, NodeSnapshot, Snapshot};
use super::{Probe, json, number};
use crate::clock::{Clock, Deadline, Stamp};
use dryrack_catalog::Os;
use dryrack_fleet::NodeState;
use dryrack_units::{GpuShare, MilliCpu};

/// A probe that runs Slurm's own commands.
#[derive(Clone, Debug, Default)]
pub struct Slurm {
    /// The folder of the commands. If it is empty, they are looked up on the path.
    folder: PathBuf,
}

impl Slurm {
    pub fn at(folder: impl Into<PathBuf>) -> Slurm {
        Slurm { folder: folder.into() }
    }
}

/// The largest number of GPUs of one node.
const MOST_GPUS: u64 = 1024;

impl Probe for Slurm {
    fn source(&self) -> String {
        "slurm".to_string()
    }

    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Missing> {
        let limits = Limits { deadline, most_bytes: 64 << 20 };
        let ask = |program: &str, args: &[&str]| {
            json::parse(&Command::new(self.folder.join(program)).args(args.iter().copied()).output(limits)?, program)
        };
        let mut nodes = ask("sinfo", &["--json"])?;
        if nodes.get("nodes").is_none() {
            nodes = ask("scontrol", &["show", "nodes", "--json"])?;
        }
        let jobs = ask("squeue", &["--json"])?;
        read(&nodes, &jobs, clock.now())
    }
}

pub fn read(nodes: &Value, jobs: &Value, at: Stamp) -> Result<Snapshot, Missing> {
    let mut found = Vec::new();
    for node in json::list(nodes, "nodes", "sinfo")? {
        found.push(self::node(node, at)?);
    }
    let mut notes = Vec::new();
    for job in json::list(jobs, "jobs", "squeue")? {
        if words(job, "job_state").iter().any(|state| state == "RUNNING") {
            hold(job, &mut found, &mut notes);
        }
    }
    for (node, value) in found.iter_mut().zip(json::list(nodes, "nodes", "sinfo")?) {
        hold_counted(node, json::text(value, "gres_used").unwrap_or_default());
    }
    Ok(Snapshot { nodes: found, notes })
}

/// The words under this key. Older releases write one word, newer releases a list.
pub fn words(value: &Value, key: &str) -> Vec<String> {
    let upper = |text: &str| text.to_ascii_uppercase();
    match value.get(key) {
        Some(Value::String(text)) => vec![upper(text)],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(upper).collect(),
        _ => Vec::new(),
    }
}

fn node(value: &Value, at: Stamp) -> Result<NodeSnapshot, Missing> {
    let what = "sinfo";
    let name = json::text(value, "name")
        .ok_or_else(|| Missing::malformed(what, 1, "a node with a name", &value.to_string()))?;
    let mut node = NodeSnapshot::named(name, at, what);
    let mut states = words(value, "state");
    states.extend(words(value, "state_flags"));
    let is = |state: &str| states.iter().any(|found| found == state);
    node.state = match () {
        () if is("DOWN") || is("FAIL") || is("ERROR") || is("INVAL") => NodeState::NotReady,
        () if is("NOT_RESPONDING") || is("UNKNOWN") => NodeState::Unreachable,
        () if is("DRAIN") || is("DRAINING") || is("DRAINED") || is("MAINTENANCE") => NodeState::Maintenance,
        () if is("FUTURE") || is("POWERED_DOWN") || is("POWERING_UP") => NodeState::Joining,
        () => NodeState::Ready,
    };
    node.os = json::text(value, "operating_system").filter(|os| os.starts_with("Linux")).map(|_| Os::Linux);
    node.arch = json::text(value, "architecture").and_then(super::gpustack::arch_of);
    let cores = |key: &str| json::figure(value, key, what).map(|cores| cores.clamp(0.0, 1e9) as u64);
    let mib = |key: &str| json::figure(value, key, what).and_then(|mib| number::memory(mib, 1 << 20));
    node.cpu = cores("cpus").map(MilliCpu::from_cores);
    node.cpu_used = cores("alloc_cpus").map(MilliCpu::from_cores);
    node.ram = mib("real_memory");
    node.ram_used = mib("alloc_memory");
    for (model, count) in gpus(json::text(value, "gres").unwrap_or_default()) {
        for _ in 0..count {
            let mut gpu = GpuSnapshot::numbered(node.gpus.len() as u32, at, what);
            gpu.name = model.clone().ok_or_else(|| Missing::unsaid(what));
            node.gpus.push(gpu);
        }
    }
    Ok(node)
}

/// The types and counts in a list such as `gpu:2`, `gpu:a100:8(S:0-1)` or `gpu:(null):0(IDX:N/A)`. Other resources are
/// left out.
fn gpus(gres: &str) -> Vec<(Option<String>, u64)> {
    let mut found = Vec::new();
    for one in split_outside_brackets(gres) {
        // Remove the parentheses after the count. A GPU without a type has the type `(null)`.
        let plain = one.replace("(null)", "");
        let plain = plain.split('(').next().unwrap_or_default();
        let parts: Vec<&str> = plain.split(':').collect();
        let (model, count) = match parts[..] {
            ["gpu"] | ["gpu", ""] => (None, Some(1)),
            ["gpu", "", count] => (None, count.parse().ok()),
            ["gpu", count] if count.starts_with(|first: char| first.is_ascii_digit()) => (None, count.parse().ok()),
            ["gpu", model] => (Some(model.to_string()), Some(1)),
            ["gpu", model, count] => (Some(model.to_string()), count.parse().ok()),
            _ => continue,
        };
        found.extend(count.map(|count: u64| (model, count.min(MOST_GPUS))));
    }
    found
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Marks the GPUs that a running job holds, according to its `gres_detail`.
fn hold(job: &Value, nodes: &mut [NodeSnapshot], notes: &mut Vec<String>) {
    let hosts = host_list(json::text(job, "nodes").unwrap_or_default());
    let id = json::figure(job, "job_id", "squeue").map(|id| format!("{id}")).unwrap_or_else(|_| "?".to_string());
    let holder = match json::text(job, "name") {
        Some(name) => format!("{id} {name}"),
        None => id,
    };
    let detail = job["gres_detail"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (host, detail) in hosts.iter().zip(detail) {
        let Some(node) = nodes.iter_mut().find(|node| node.name == *host) else {
            notes.push(format!("job {holder} runs on {host}, which is not a known node"));
            continue;
        };
        for index in indices(detail.as_str().unwrap_or_default()) {
            match node.gpus.iter_mut().find(|gpu| u64::from(gpu.index) == index) {
                Some(gpu) => (gpu.held, gpu.holder) = (GpuShare::WHOLE, Some(holder.clone())),
                None => notes.push(format!("job {holder} has GPU {index} of {host}, which does not exist")),
            }
        }
    }
}

/// The indices in `gpu:a100:3(IDX:0-1,4)`. Numbers too large for a GPU index are left out.
pub fn gpu_indices(detail: &str) -> Vec<u16> {
    let mut all: Vec<u16> = indices(detail).into_iter().filter_map(|index| u16::try_from(index).ok()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn indices(detail: &str) -> Vec<u64> {
    let mut all = Vec::new();
    for one in split_outside_brackets(detail).into_iter().filter(|one| one.starts_with("gpu")) {
        let Some(inner) = one.split_once("(IDX:").and_then(|(_, rest)| rest.strip_suffix(')')) else { continue };
        for range in inner.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            if let (Ok(first), Ok(last)) = (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
                all.extend(first..=last.min(MOST_GPUS));
            }
        }
    }
    all
}

/// For jobs that do not state which GPUs they hold: marks as many GPUs of each type as are counted. A count without a
/// type covers all types.
fn hold_counted(node: &mut NodeSnapshot, gres_used: &str) {
    for (model, used) in gpus(gres_used) {
        let is_of = |gpu: &GpuSnapshot| model.as_ref().is_none_or(|model| gpu.name.as_ref() == Ok(model));
        let is_held = |gpu: &&GpuSnapshot| gpu.held > GpuShare::ZERO && is_of(gpu);
        let held = node.gpus.iter().filter(is_held).count() as u64;
        let free = node.gpus.iter_mut().filter(|gpu| gpu.held == GpuShare::ZERO && is_of(gpu));
        free.take(used.saturating_sub(held) as usize).for_each(|gpu| gpu.held = GpuShare::WHOLE);
    }
}

/// The largest number of hosts that a list is expanded to, and of digits in the number of each.
const MOST_HOSTS: usize = 100_000;
const MOST_DIGITS: usize = 20;

/// Expands `n[1-3,07],login` to host names: at most 100,000 of those in brackets.
pub fn host_list(text: &str) -> Vec<String> {
    let mut hosts = Vec::new();
    for one in split_outside_brackets(text).into_iter().filter(|one| !one.is_empty()) {
        let Some((before, rest)) = one.split_once('[') else {
            hosts.push(one.to_string());
            continue;
        };
        let (inner, after) = rest.split_once(']').unwrap_or((rest, ""));
        for range in inner.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            if let (Ok(from), Ok(to)) = (first.parse::<u64>(), last.parse::<u64>()) {
                let (width, left) = (first.len().min(MOST_DIGITS), MOST_HOSTS.saturating_sub(hosts.len()));
                hosts.extend((from..=to).take(left).map(|number| format!("{before}{number:0width$}{after}")));
            }
        }
    }
    hosts
}

/// An ended job, as the plugin jobcomp/filetxt records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    pub id: u64,
    pub name: String,
    pub state: String,
    pub hosts: Vec<String>,
    /// Local time as recorded: `2026-11-21T20:38:11`, or `Unknown`.
    pub start: String,
    pub end: String,
    /// A number of minutes, `UNLIMITED`, or another word.
    pub time_limit: String,
}

/// Reads lines of `Key=Value` pairs. An incomplete last line is left out.
pub fn completed(text: &str, what: &str) -> Result<Vec<Completed>, Missing> {
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let mut jobs = Vec::new();
    for (index, line) in whole.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let pairs: BTreeMap<&str, &str> =
            line.split_ascii_whitespace().filter_map(|pair| pair.split_once('=')).collect();
        let field = |key: &str| {
            let found = pairs.get(key).map(|value| value.to_string());
            found.ok_or_else(|| Missing::malformed(what, index + 1, &format!("`{key}=`"), line))
        };
        let id = field("JobId")?;
        jobs.push(Completed {
            id: id.parse().map_err(|_| Missing::malformed(what, index + 1, "the number of a job", &id))?,
            name: field("Name")?,
            state: field("JobState")?,
            hosts: host_list(&field("NodeList")?),
            start: field("StartTime")?,
            end: field("EndTime")?,
            time_limit: field("TimeLimit")?,
        });
    }
    Ok(jobs)
}
