//! A recorded sequence, and how its parts are described to the control plane.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use dryrack_catalog::Vendor;
use dryrack_fleet::{GpuShape, NodeShape, NodeSpec, Reserved};
use dryrack_units::{Bytes, MilliCpu, SimDuration};
use dryrack_workload::{Backend, Category, Demand, Deployment, JobSpec, ModelFacts, Restart, Strategy};

#[derive(Deserialize)]
pub struct Sequence {
    pub name: String,
    pub version: String,
    pub workers: Vec<Worker>,
    pub models: Vec<Model>,
    pub steps: Vec<Step>,
}

#[derive(Deserialize)]
pub struct Worker {
    pub name: Arc<str>,
    /// The memory of each GPU in bytes.
    gpus: Vec<u64>,
    ram: u64,
    reserved_ram: u64,
    reserved_vram: u64,
}

#[derive(Deserialize)]
pub struct Model {
    pub name: Arc<str>,
    replicas: u32,
    weights: u64,
    heads: u32,
    categories: Vec<Category>,
    strategy: Strategy,
    selector: BTreeMap<Arc<str>, Arc<str>>,
    computes_ms: u64,
}

/// A recorded call or action, and the state of the store after it.
#[derive(Deserialize)]
pub struct Step {
    pub at_ms: u64,
    pub call: String,
    pub model: Option<Arc<str>>,
    pub worker: Option<Arc<str>>,
    pub row: Option<u64>,
    pub state: Option<String>,
    pub replicas: Option<u32>,
    pub last_ms: Option<u64>,
    pub rows: Vec<RowRecord>,
    pub queue: Vec<u64>,
    /// The states of all workers that are not ready.
    pub workers: BTreeMap<Arc<str>, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RowRecord {
    pub id: u64,
    pub model: Arc<str>,
    pub state: String,
    pub worker: Option<Arc<str>>,
    pub gpus: Vec<u16>,
}

/// Far later than any record ends, about 136 years.
const LATEST_MS: u64 = 1000 << 32;

impl Sequence {
    /// Checks that the record contains everything that the control plane needs.
    pub fn check(&self) -> Result<(), String> {
        let models: BTreeSet<&str> = self.models.iter().map(|model| &*model.name).collect();
        let workers: BTreeSet<&str> = self.workers.iter().map(|worker| &*worker.name).collect();
        for worker in &self.workers {
            worker.spec().shape.check_size().map_err(|fault| format!("worker {}: {fault}", worker.name))?;
        }
        let computes = self.models.iter().map(|model| model.computes_ms).max().unwrap_or(0);
        let latest = self.steps.iter().map(|step| step.at_ms).max().unwrap_or(0);
        if computes.max(latest) > LATEST_MS {
            return Err(format!("times are of at most {LATEST_MS} milliseconds"));
        }
        let mut last = 0;
        for (number, step) in self.steps.iter().enumerate() {
            let fault = |text: &str| Err(format!("step {number}: {text}"));
            if step.at_ms < last {
                return fault("time falls");
            }
            last = step.at_ms;
            let model = step.model.as_deref().is_some_and(|model| models.contains(model));
            let worker = step.worker.as_deref().is_some_and(|worker| workers.contains(worker));
            let complete = match step.call.as_str() {
                "create" => model,
                "scale" | "stop" => model && step.replicas.is_some(),
                "silent" | "cut_off" => worker && step.last_ms.is_some_and(|last| last <= step.at_ms),
                "back" => worker,
                "report" => step.row.is_some() && step.state.is_some(),
                "sync_replicas" | "sync_worker" | "syncer" | "restart" | "scan" | "evaluate" | "begin" | "end" => true,
                other => return fault(&format!("no call is named `{other}`")),
            };
            if !complete {
                return fault(&format!("`{}` does not say what it is about", step.call));
            }
        }
        Ok(())
    }
}

impl Worker {
    pub fn spec(&self) -> NodeSpec {
        let gpu = |memory: &u64| GpuShape {
            model: "NVIDIA".into(),
            vendor: Some(Vendor::Nvidia),
            memory: Bytes::new(*memory),
            unified: false,
            compute_capability: None,
            architecture: None,
        };
        let label = |key: &str, value: &str| (Arc::from(key), Arc::from(value));
        let shape = NodeShape {
            labels: [label("os", "linux"), label("worker-name", &self.name)].into_iter().collect(),
            reserved: Reserved {
                cpu: MilliCpu::from_cores(0),
                ram: Bytes::new(self.reserved_ram),
                gpu_memory: Bytes::new(self.reserved_vram),
            },
            ..NodeShape::of(MilliCpu::from_cores(64), Bytes::new(self.ram), self.gpus.iter().map(gpu).collect())
        };
        NodeSpec { name: Arc::clone(&self.name), shape: Arc::new(shape) }
    }
}

impl Model {
    /// The duration of a computation for this model.
    pub fn computes(&self) -> SimDuration {
        SimDuration::from_millis(self.computes_ms)
    }

    pub fn spec(&self) -> JobSpec {
        let facts = ModelFacts {
            name: Arc::clone(&self.name),
            categories: self.categories.clone(),
            architecture: Some("Qwen3ForCausalLM".into()),
            weights: Bytes::new(self.weights),
            heads: Some(self.heads),
            vision_heads: None,
            vocabulary: None,
            quantization: None,
        };
        let deployment = Deployment {
            model: facts,
            backend: Backend::Vllm,
            strategy: self.strategy,
            distributable: false,
            selector: Some(self.selector.clone()),
            gpus_per_replica: None,
            arguments: Vec::new(),
            environment: BTreeMap::new(),
        };
        JobSpec {
            replicas: self.replicas,
            analyse: true,
            restart: Restart::Always,
            ..JobSpec::of(Arc::clone(&self.name), Demand::of(Arc::new(deployment)))
        }
    }
}
