//! Fleets of a dstack server, through its REST interface: `POST /api/project/PROJECT/fleets/list`.
//!
//! An instance states its resources (dstack 0.22.5, core/models/instances.py): `cpus`, `memory_mib`, `gpus` with
//! `memory_mib`, and the number of its busy blocks. A busy block holds its part of the GPUs, the CPU and the memory.
//!
//! GPU utilization is reported per job. `POST /api/runs/list` tells which job runs on which host. `GET
//! /api/project/PROJECT/metrics/job/RUN` has `gpu_util_percent_gpu0` and so on. The probe asks only about jobs that
//! have a host to themselves: if several jobs share a host, it is unknown which GPUs belong to which job.

use serde_json::Value;

use super::command::Limits;
use super::gpustack::{arch_of, vendor};
use super::http::{Page, shown_url};
use super::missing::Missing;
use super::snapshot::{GpuSnapshot, NodeSnapshot, Reading, Snapshot};
use super::{Probe, json, number};
use crate::clock::{Clock, Deadline, Stamp};
use dryrack_fleet::NodeState;
use dryrack_units::{Bytes, GpuShare, MilliCpu};

pub struct Dstack {
    url: String,
    project: String,
    token: Option<String>,
}

/// The largest number of jobs whose metrics are requested.
const MOST_JOBS: usize = 64;

impl Dstack {
    pub fn new(url: &str, project: &str, token: Option<&str>) -> Dstack {
        let url = url.trim_end_matches('/').to_string();
        Dstack { url, project: project.to_string(), token: token.map(str::to_string) }
    }

    fn page(&self, path: &str) -> (String, Page) {
        let url = format!("{}/api/project/{}/{path}", self.url, self.project);
        (shown_url(&url), Page::new(&url).token(self.token.as_deref()))
    }

    /// Reads the metrics of a job that has its host to itself.
    fn usage(&self, job: &Job, node: &mut NodeSnapshot, limits: Limits) -> Result<(), Missing> {
        let Job { run, replica, number, .. } = job;
        let path = format!("metrics/job/{run}?replica_num={replica}&job_num={number}&limit=1");
        let (url, page) = self.page(&path);
        let metrics = json::parse(&page.get(limits)?, &url)?;
        apply_usage(&metrics, node, &url)
    }

    fn jobs(&self, limits: Limits) -> Reading<Vec<Job>> {
        let url = format!("{}/api/runs/list", self.url);
        let asked = serde_json::json!({"project_name": self.project, "only_active": true}).to_string();
        let runs = Page::new(&url).token(self.token.as_deref()).post(&asked).get(limits)?;
        let what = shown_url(&url);
        jobs(&json::parse(&runs, &what)?, &what)
    }
}

/// A running job, and the host on which it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub run: String,
    pub replica: u64,
    pub number: u64,
    pub host: String,
}

/// The running jobs in the answer.
pub fn jobs(runs: &Value, what: &str) -> Reading<Vec<Job>> {
    let Some(runs) = runs.as_array() else {
        return Err(Missing::malformed(what, 1, "a list of runs", &runs.to_string()));
    };
    let mut found = Vec::new();
    for run in runs {
        let Some(name) = json::text(&run["run_spec"], "run_name") else { continue };
        for job in json::list(run, "jobs", what)? {
            let last = json::list(job, "job_submissions", what)?.last().unwrap_or(&Value::Null);
            let host = json::text(&last["job_provisioning_data"], "hostname");
            let number = |key: &str| json::figure(&job["job_spec"], key, what).map_or(0, |number| number as u64);
            if let (Some("running"), Some(host)) = (json::text(last, "status"), host) {
                let (replica, number) = (number("replica_num"), number("job_num"));
                found.push(Job { run: name.to_string(), replica, number, host: host.to_string() });
            }
        }
    }
    Ok(found)
}

impl Probe for Dstack {
    fn source(&self) -> String {
        format!("{}, project {}", shown_url(&self.url), self.project)
    }

    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Missing> {
        let limits = Limits::until(deadline);
        let (url, page) = self.page("fleets/list");
        let fleets = json::parse(&page.post("{}").get(limits)?, &url)?;
        let (mut snapshot, hosts) = read(&fleets, &url, clock.now())?;
        let jobs = match self.jobs(limits) {
            Ok(jobs) => jobs,
            Err(missing) => {
                snapshot.notes.push(missing.to_string());
                return Ok(snapshot);
            }
        };
        for (node, host) in snapshot.nodes.iter_mut().zip(&hosts).take(MOST_JOBS) {
            let mut own = jobs.iter().filter(|job| job.host == *host);
            let (Some(job), None) = (own.next(), own.next()) else { continue };
            node.gpus
                .iter_mut()
                .filter(|gpu| gpu.held > GpuShare::ZERO)
                .for_each(|gpu| gpu.holder = Some(job.run.clone()));
            if let Err(missing) = self.usage(job, node, limits) {
                snapshot.notes.push(format!("run {}: {missing}", job.run));
            }
        }
        Ok(snapshot)
    }
}

/// Reads the instances of all fleets. Also returns the host of each.
pub fn read(fleets: &Value, what: &str, at: Stamp) -> Result<(Snapshot, Vec<String>), Missing> {
    let Some(fleets) = fleets.as_array() else {
        return Err(Missing::malformed(what, 1, "a list of fleets", &fleets.to_string()));
    };
    let (mut nodes, mut hosts) = (Vec::new(), Vec::new());
    for fleet in fleets {
        for instance in json::list(fleet, "instances", what)? {
            // Skip an instance that does not exist yet, or no longer exists.
            if instance["instance_type"].is_null() {
                continue;
            }
            hosts.push(json::text(instance, "hostname").unwrap_or_default().to_string());
            nodes.push(node(instance, fleet, what, at)?);
        }
    }
    Ok((Snapshot { nodes, notes: Vec::new() }, hosts))
}

fn node(instance: &Value, fleet: &Value, what: &str, at: Stamp) -> Result<NodeSnapshot, Missing> {
    let name = json::text(instance, "name")
        .ok_or_else(|| Missing::malformed(what, 1, "an instance with a name", &instance.to_string()))?;
    let mut node = NodeSnapshot::named(name, at, what);
    let is_unreachable = instance["unreachable"] == Value::Bool(true);
    node.state = match json::text(instance, "status") {
        _ if is_unreachable => NodeState::Unreachable,
        Some("idle" | "busy") => NodeState::Ready,
        Some("pending" | "creating" | "starting" | "provisioning") => NodeState::Joining,
        Some("terminating" | "terminated") => NodeState::Gone,
        Some(_) | None => NodeState::NotReady,
    };
    let label = |key: &str| json::text(instance, key).map(|value| (key.to_string(), value.to_string()));
    node.labels.extend(["backend", "region"].into_iter().filter_map(label));
    node.labels.extend(json::text(fleet, "name").map(|name| ("fleet".to_string(), name.to_string())));
    node.driver = json::text(&instance["gpu_driver"], "version").map(str::to_string);
    let has = &instance["instance_type"]["resources"];
    node.arch = json::text(has, "cpu_arch").and_then(arch_of);
    node.cpu = json::figure(has, "cpus", what).map(|cores| MilliCpu::from_cores(cores.clamp(0.0, 1e9) as u64));
    node.ram = json::figure(has, "memory_mib", what).and_then(|mib| number::memory(mib, 1 << 20));
    let blocks = json::figure(instance, "total_blocks", what).unwrap_or(1.0).max(1.0);
    let busy = json::figure(instance, "busy_blocks", what).unwrap_or(0.0).clamp(0.0, blocks);
    let part = |amount: u64| (u128::from(amount) * busy as u128 / blocks as u128) as u64;
    node.cpu_used = node.cpu.clone().map(|cpu| MilliCpu::new(part(cpu.get())));
    node.ram_used = node.ram.clone().map(|ram| Bytes::new(part(ram.get())));
    let gpus = json::list(has, "gpus", what)?;
    // Every block has the same number of GPUs. The answer does not say which GPUs are busy, so the first ones are
    // marked.
    let held = part(gpus.len() as u64) as usize;
    for (index, device) in gpus.iter().enumerate() {
        let mut gpu = GpuSnapshot::numbered(index as u32, at, what);
        gpu.name = json::text(device, "name").map(str::to_string).ok_or_else(|| Missing::unsaid(what));
        gpu.vendor = json::text(device, "vendor").and_then(vendor);
        gpu.memory = json::figure(device, "memory_mib", what).and_then(|mib| number::memory(mib, 1 << 20));
        if index < held {
            gpu.held = GpuShare::WHOLE;
        }
        node.gpus.push(gpu);
    }
    Ok(node)
}

/// Reads `{"metrics": [{"name": ..., "timestamps": [...], "values": [...]}]}`. Only the newest value matters.
pub fn apply_usage(metrics: &Value, node: &mut NodeSnapshot, what: &str) -> Result<(), Missing> {
    let metrics = json::list(metrics, "metrics", what)?;
    let newest = |name: &str| -> Reading<f64> {
        let metric = metrics.iter().find(|metric| metric["name"] == name).ok_or_else(|| Missing::unsaid(what))?;
        let (times, values) = (json::list(metric, "timestamps", what)?, json::list(metric, "values", what)?);
        // All times have the same format and time zone, so the greatest text is the newest time.
        let newest = (times.iter().zip(values)).max_by_key(|(time, _)| time.as_str().unwrap_or_default());
        let value = newest.ok_or_else(|| Missing::unsaid(what))?.1;
        number::finite(value.as_f64().ok_or(Missing::NotAvailable)?)
    };
    for gpu in &mut node.gpus {
        gpu.utilization = newest(&format!("gpu_util_percent_gpu{}", gpu.index)).and_then(number::percent);
        gpu.memory_used =
            newest(&format!("gpu_memory_usage_bytes_gpu{}", gpu.index)).and_then(|bytes| number::memory(bytes, 1));
    }
    Ok(())
}
