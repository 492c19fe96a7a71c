//! Workers of a GPUStack server, through its REST interface: `/v2/workers`, and `/v1/workers` of releases before 2.0.
//!
//! A worker describes itself in `status` (gpustack 2.3.0, schemas/workers.py): memory in bytes, utilization in percent,
//! and `allocated` for the memory that the server's own scheduler has promised. The larger of used and allocated counts
//! as used. Memory that a worker reserves for itself (`system_reserved`) is set aside.

use serde_json::Value;

use super::command::Limits;
use super::http::{Page, shown_url};
use super::missing::Missing;
use super::snapshot::{GpuSnapshot, NodeSnapshot, Reading, Snapshot};
use super::{Probe, json};
use crate::clock::{Clock, Deadline, Stamp};
use dryrack_catalog::{CpuArch, Os, Vendor};
use dryrack_fleet::NodeState;
use dryrack_units::{Bytes, MilliCpu};

pub struct Gpustack {
    url: String,
    token: Option<String>,
    /// The version of the interface that answered last.
    version: &'static str,
}

const PER_PAGE: u64 = 100;
/// The largest number of pages. They can hold ten thousand workers.
const MOST_PAGES: u64 = 100;

impl Gpustack {
    /// A probe of the server at this address, with an API key of the server.
    pub fn new(url: &str, token: Option<&str>) -> Gpustack {
        Gpustack { url: url.trim_end_matches('/').to_string(), token: token.map(str::to_string), version: "v2" }
    }

    fn page(&self, page: u64, limits: Limits) -> Reading<Value> {
        let url = format!("{}/{}/workers?page={page}&perPage={PER_PAGE}", self.url, self.version);
        json::parse(&Page::new(&url).token(self.token.as_deref()).get(limits)?, &shown_url(&url))
    }
}

impl Probe for Gpustack {
    fn source(&self) -> String {
        shown_url(&self.url)
    }

    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Missing> {
        let limits = Limits::until(deadline);
        let first = match self.page(1, limits) {
            Err(Missing::Refused { status: 404, .. }) if self.version == "v2" => {
                self.version = "v1";
                self.page(1, limits)?
            }
            first => first?,
        };
        let what = self.source();
        let mut snapshot = read(&first, &what, clock.now())?;
        let pages = json::figure(&first["pagination"], "totalPage", &what).unwrap_or(1.0) as u64;
        for page in 2..=pages.min(MOST_PAGES) {
            snapshot.nodes.extend(read(&self.page(page, limits)?, &what, clock.now())?.nodes);
        }
        Ok(snapshot)
    }
}

/// Reads one page of workers.
pub fn read(page: &Value, what: &str, at: Stamp) -> Result<Snapshot, Missing> {
    let workers = json::list(page, "items", what)?;
    let nodes = workers.iter().enumerate().map(|(index, worker)| node(worker, index, what, at));
    Ok(Snapshot { nodes: nodes.collect::<Result<_, _>>()?, notes: Vec::new() })
}

/// Reads one worker. The REST interfaces and the server's database describe it in the same form.
pub fn node(worker: &Value, index: usize, what: &str, at: Stamp) -> Result<NodeSnapshot, Missing> {
    let name = json::text(worker, "name")
        .ok_or_else(|| Missing::malformed(what, 1, "a worker with a name", &format!("worker {index}")))?;
    let mut node = NodeSnapshot::named(name, at, what);
    // The database has these words in capitals.
    node.state = match json::text(worker, "state").map(str::to_ascii_lowercase).as_deref() {
        Some("ready") => NodeState::Ready,
        Some("maintenance") => NodeState::Maintenance,
        Some("unreachable") => NodeState::Unreachable,
        Some("pending" | "provisioning" | "initializing") => NodeState::Joining,
        Some("deleting" | "error" | "not_ready") | Some(_) | None => NodeState::NotReady,
    };
    let status = &worker["status"];
    let label = |key: &str| json::text(&worker["labels"], key).map(str::to_ascii_lowercase);
    node.os = label("os").and_then(|os| os.parse::<Os>().ok());
    node.arch = label("arch").and_then(|arch| arch_of(&arch));
    let cores = json::figure(&status["cpu"], "total", what);
    let used = json::percent(&status["cpu"], "utilization_rate", what);
    node.cpu = cores.map(|cores| MilliCpu::from_cores(cores.clamp(0.0, 1e9) as u64));
    node.cpu_used = match (&node.cpu, used) {
        (Ok(cpu), Ok(used)) => Ok(MilliCpu::new(cpu.get() * u64::from(used.get()) / 1000)),
        (Err(missing), _) => Err(missing.clone()),
        (_, Err(missing)) => Err(missing),
    };
    let memory = &status["memory"];
    node.ram = json::bytes(memory, "total", what);
    let reserved = |new: &str, old: &str| {
        let all = &worker["system_reserved"];
        json::bytes(all, new, what).or_else(|_| json::bytes(all, old, what)).unwrap_or(Bytes::ZERO)
    };
    node.ram_used = used_of(memory, &node.ram, what);
    node.set_aside = (reserved("ram", "memory"), reserved("vram", "gpu_memory"));
    let labels = worker["labels"].as_object();
    node.labels = labels
        .into_iter()
        .flatten()
        // Leave out the labels that repeat facts about the node.
        .filter(|(key, _)| !matches!(key.as_str(), "os" | "worker-name"))
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string())))
        .collect();
    // Releases before 2.0 do not report the driver.
    let devices = status.get("gpu_devices").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (place, device) in devices.iter().enumerate() {
        node.gpus.push(gpu(device, place, what, at)?);
        node.driver = node.driver.take().or_else(|| json::text(device, "driver_version").map(str::to_string));
    }
    node.gpus.sort_by_key(|gpu| gpu.index);
    Ok(node)
}

/// The larger of used and promised memory, but at most the total.
fn used_of(memory: &Value, total: &Reading<Bytes>, what: &str) -> Reading<Bytes> {
    let used = json::bytes(memory, "used", what);
    let allocated = json::bytes(memory, "allocated", what).unwrap_or(Bytes::ZERO);
    let most = total.clone().unwrap_or(Bytes::new(u64::MAX));
    let held = used.or_else(|missing| if allocated > Bytes::ZERO { Ok(allocated) } else { Err(missing) })?;
    Ok(held.max(allocated).min(most))
}

fn gpu(device: &Value, place: usize, what: &str, at: Stamp) -> Result<GpuSnapshot, Missing> {
    let index = json::figure(device, "index", what).unwrap_or(place as f64);
    if !(0.0..1024.0).contains(&index) {
        return Err(Missing::malformed(what, 1, "the index of a GPU", &format!("{index}")));
    }
    let mut gpu = GpuSnapshot::numbered(index as u32, at, what);
    gpu.uuid = json::text(device, "uuid").map(str::to_string);
    gpu.name = json::text(device, "name").map(str::to_string).ok_or_else(|| Missing::unsaid(what));
    gpu.vendor = json::text(device, "vendor").and_then(vendor);
    let memory = &device["memory"];
    gpu.unified = memory["is_unified_memory"] == Value::Bool(true);
    gpu.memory = json::bytes(memory, "total", what);
    gpu.memory_used = used_of(memory, &gpu.memory, what);
    gpu.utilization = json::percent(&device["core"], "utilization_rate", what);
    gpu.compute_capability = json::text(device, "compute_capability").and_then(|text| text.parse().ok());
    Ok(gpu)
}

pub(super) fn vendor(text: &str) -> Option<Vendor> {
    match text.to_ascii_lowercase().as_str() {
        "huawei" => Some(Vendor::Ascend),
        "gaudi" => Some(Vendor::Intel),
        other => other.parse().ok(),
    }
}

pub(super) fn arch_of(text: &str) -> Option<CpuArch> {
    match text {
        "amd64" | "x86_64" | "x86" => Some(CpuArch::X86_64),
        "arm64" | "aarch64" | "arm" => Some(CpuArch::Aarch64),
        _ => None,
    }
}
