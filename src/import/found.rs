//! Writes the findings of probes as a file of nodes that a scenario can include.
//!
//! Every figure comes from a reading. A figure without a reading is left out, and a comment beside the node says so.
//! Use by others is written as foreign use of a GPU, and as a reservation of CPU and RAM.

use std::collections::BTreeSet;
use std::fmt::Write;

use dryrack_catalog::{self as catalog, GpuModel};
use dryrack_fleet::{GpuState, NodeState};
use dryrack_live::probe::{GpuSnapshot, NodeSnapshot, share};
use dryrack_scenario::NODE_STATES;
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_yaml::scalar;

/// Options for converting readings to nodes.
#[derive(Clone, Debug)]
pub struct FoundOptions {
    /// An idle GPU with at most this much memory in use counts as free, because a driver keeps a little memory for
    /// itself.
    pub idle_up_to: Bytes,
    /// The model of GPUs for which the source reports no model.
    pub gpu: Option<&'static GpuModel>,
    /// Whether to leave out current use, so that the rehearsal can use those resources too.
    pub without_use: bool,
}

/// The text of the file. `about` contains the lines of a comment at its beginning.
pub fn nodes_text(nodes: &[NodeSnapshot], about: &[String], options: &FoundOptions) -> String {
    let mut out = String::new();
    for line in about {
        comment(&mut out, "", line);
    }
    out.push_str("nodes:\n");
    let mut taken = BTreeSet::new();
    for node in nodes {
        let name = free_name(&node.name, &mut taken);
        entry(&mut out, node, &name, options);
    }
    if nodes.is_empty() {
        out.truncate(out.len() - 1);
        out.push_str(" []\n");
    }
    out
}

pub(super) fn comment(out: &mut String, indent: &str, text: &str) {
    let plain: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let _infallible = writeln!(out, "{indent}# {plain}");
}

/// A name that is valid in a scenario and that no other node has.
pub(super) fn free_name(found: &str, taken: &mut BTreeSet<String>) -> String {
    let is_odd = |letter: char| letter.is_whitespace() || letter.is_control() || "/*?,[]{}\"'`".contains(letter);
    let mut name: String = found.chars().map(|letter| if is_odd(letter) { '-' } else { letter }).collect();
    if name.is_empty() {
        name = "node".to_string();
    }
    let mut free = name.clone();
    let mut number = 2;
    while !taken.insert(free.clone()) {
        free = format!("{name}-{number}");
        number += 1;
    }
    free
}

pub(super) fn entry(out: &mut String, node: &NodeSnapshot, name: &str, options: &FoundOptions) {
    let mut body = String::new();
    let mut line = |key: &str, value: &str| {
        let _infallible = writeln!(body, "    {key}: {value}");
    };
    let mut unsaid: Vec<String> = Vec::new();
    let cpu = node.cpu.clone().unwrap_or_else(|why| {
        unsaid.push(format!("cpus: {why}"));
        MilliCpu::ZERO
    });
    let ram = node.ram.clone().unwrap_or_else(|why| {
        unsaid.push(format!("ram: {why}"));
        Bytes::ZERO
    });
    line("cpus", &cpu.to_string());
    line("ram", &amount(ram));
    if let Some(os) = node.os {
        line("os", os.as_str());
    }
    if let Some(arch) = node.arch {
        line("arch", arch.as_str());
    }
    if let Some(driver) = &node.driver {
        line("driver", &scalar(driver, false));
    }
    if !node.labels.is_empty() {
        let pair = |(key, value): (&String, &String)| format!("{}: {}", scalar(key, true), scalar(value, false));
        line("labels", &format!("{{{}}}", node.labels.iter().map(pair).collect::<Vec<_>>().join(", ")));
    }
    if !node.gpus.is_empty() {
        line("gpus", &gpus(&node.gpus, options, &mut unsaid));
    }
    let unified: u64 = node.gpus.iter().filter(|gpu| gpu.unified).map(|gpu| foreign(gpu, options).1.get()).sum();
    reserved(node, cpu, ram, Bytes::new(unified), options, &mut unsaid, &mut line);
    if node.state != NodeState::Ready {
        line("state", state(node.state));
    }
    marks(&node.gpus, options, &mut line);
    let _infallible = writeln!(out, "  - name: {}", scalar(name, true));
    for why in unsaid {
        comment(out, "    ", &why);
    }
    out.push_str(&body);
}

/// Writes the reservation: CPU and RAM in use are not available. A GPU's use of unified memory is subtracted, because
/// it is stated for the GPU.
fn reserved(
    node: &NodeSnapshot,
    cpu: MilliCpu,
    ram: Bytes,
    unified: Bytes,
    options: &FoundOptions,
    unsaid: &mut Vec<String>,
    line: &mut impl FnMut(&str, &str),
) {
    let (mut aside, of_gpus) = node.set_aside;
    let mut parts = Vec::new();
    if !options.without_use {
        match &node.cpu_used {
            Ok(used) if *used > MilliCpu::ZERO => parts.push(format!("cpu: {}", (*used).min(cpu))),
            Ok(_) => {}
            Err(why) => unsaid.push(format!("CPU in use: {why}")),
        }
        match &node.ram_used {
            Ok(used) => aside = Bytes::new(aside.get().saturating_add(used.saturating_sub(unified).get())),
            Err(why) => unsaid.push(format!("RAM in use: {why}")),
        }
    }
    if aside.min(ram) > Bytes::ZERO {
        parts.push(format!("ram: {}", amount(aside.min(ram))));
    }
    let least = node.gpus.iter().filter_map(|gpu| gpu.memory.clone().ok()).min().unwrap_or(Bytes::ZERO);
    if of_gpus.min(least) > Bytes::ZERO {
        parts.push(format!("gpu_memory: {}", amount(of_gpus.min(least))));
    }
    if !parts.is_empty() {
        line("reserved", &format!("{{{}}}", parts.join(", ")));
    }
}

/// The exact amount, in the largest unit that divides it evenly.
pub(super) fn amount(bytes: Bytes) -> String {
    let bytes = bytes.get();
    match bytes {
        0 => "0B".to_string(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => format!("{bytes}B"),
    }
}

/// Groups of equal GPUs, in the order of their indices.
fn gpus(gpus: &[GpuSnapshot], options: &FoundOptions, unsaid: &mut Vec<String>) -> String {
    let mut groups: Vec<(String, u32)> = Vec::new();
    for gpu in gpus {
        let one = kind(gpu, options, unsaid);
        match groups.last_mut() {
            Some((last, count)) if *last == one => *count += 1,
            _ => groups.push((one, 1)),
        }
    }
    let group = |(one, count): &(String, u32)| match count {
        1 => format!("{{{one}}}"),
        _ => format!("{{{one}, count: {count}}}"),
    };
    format!("[{}]", groups.iter().map(group).collect::<Vec<_>>().join(", "))
}

fn kind(gpu: &GpuSnapshot, options: &FoundOptions, unsaid: &mut Vec<String>) -> String {
    let name = gpu.name.as_deref().unwrap_or("");
    let known = catalog::gpu_reported(name, gpu.memory.clone().ok()).or_else(|| catalog::gpu(name)).or(options.gpu);
    let memory = gpu.memory.clone().or_else(|why| known.and_then(|model| model.memory).ok_or(why));
    let memory = memory.unwrap_or_else(|why| {
        unsaid.push(format!("memory of GPU {}: {why}; use `--gpu` to state the type", gpu.index));
        Bytes::ZERO
    });
    let plain: String = name
        .to_ascii_lowercase()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    let plain = plain.trim_matches('-');
    let model = known.map_or(if plain.is_empty() { "unsaid" } else { plain }, |model| model.name);
    let mut one = format!("type: {}, memory: {}", scalar(model, true), amount(memory));
    if known.is_none() {
        if let Some(vendor) = gpu.vendor {
            let _infallible = write!(one, ", vendor: {vendor}");
        }
        if gpu.unified {
            one.push_str(", unified: true");
        }
        if let Some(capability) = gpu.compute_capability {
            let _infallible = write!(one, ", compute_capability: \"{capability}\"");
        }
    }
    one
}

/// The part of a GPU that other programs use.
fn foreign(gpu: &GpuSnapshot, options: &FoundOptions) -> (GpuShare, Bytes) {
    let used = gpu.memory_used.clone().unwrap_or(Bytes::ZERO);
    let busy = gpu.utilization.clone().map_or(GpuShare::ZERO, share);
    let is_idle = busy == GpuShare::ZERO && gpu.held == GpuShare::ZERO && used <= options.idle_up_to;
    if is_idle || options.without_use {
        return (GpuShare::ZERO, Bytes::ZERO);
    }
    let most = gpu.memory.clone().unwrap_or(used);
    (busy.max(gpu.held), used.min(most))
}

fn marks(gpus: &[GpuSnapshot], options: &FoundOptions, line: &mut impl FnMut(&str, &str)) {
    let mut used = Vec::new();
    let mut states = Vec::new();
    for (place, gpu) in gpus.iter().enumerate() {
        let (share, memory) = foreign(gpu, options);
        let mut parts = Vec::new();
        if memory > Bytes::ZERO {
            parts.push(format!("memory: {}", amount(memory)));
        }
        if share > GpuShare::ZERO {
            parts.push(format!("share: {share}"));
        }
        if !parts.is_empty() {
            used.push(format!("{place}: {{{}}}", parts.join(", ")));
        }
        match gpu.state {
            GpuState::Ready => {}
            GpuState::Degraded => states.push(format!("{place}: degraded")),
            GpuState::Draining => states.push(format!("{place}: draining")),
            GpuState::Failed => states.push(format!("{place}: failed")),
            GpuState::Unknown => states.push(format!("{place}: unknown")),
        }
    }
    if !used.is_empty() {
        line("foreign", &format!("{{{}}}", used.join(", ")));
    }
    if !states.is_empty() {
        line("gpu_states", &format!("{{{}}}", states.join(", ")));
    }
}

fn state(state: NodeState) -> &'static str {
    NODE_STATES.iter().find(|(_, known)| *known == state).map_or("not_ready", |(word, _)| word)
}
