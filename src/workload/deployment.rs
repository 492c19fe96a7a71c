//! A model deployment: the model, the backend that serves it, and how its replicas may be placed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use dryrack_catalog::{Category, Served, Server};
use dryrack_units::Bytes;

/// What a user states about a model to be served. What it takes of a GPU follows from this and from the scheduler's
/// rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    pub model: ModelFacts,
    pub backend: Backend,
    pub strategy: Strategy,
    /// Whether one replica may span several nodes.
    pub distributable: bool,
    /// Labels that a node must carry. Some schedulers distinguish a missing selector from an empty one.
    pub selector: Option<BTreeMap<Arc<str>, Arc<str>>>,
    /// The number of manually picked GPUs that one replica takes.
    pub gpus_per_replica: Option<u32>,
    /// The backend's own arguments, as typed on a command line: `--tensor-parallel-size=4`.
    pub arguments: Vec<Arc<str>>,
    /// Environment variables of the backend, which some schedulers read.
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
}

impl Deployment {
    /// The query for the compatibility table.
    pub fn served(&self) -> Served<'_> {
        Served {
            backend: self.backend.server(),
            architecture: self.model.architecture.as_deref(),
            quantization: self.model.quantization.as_deref(),
        }
    }
}

/// What a model's published files say. An unknown figure is `None`, never a guess.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFacts {
    /// The name in the catalog, or the scenario's own: `Qwen/Qwen3-32B`.
    pub name: Arc<str>,
    pub categories: Vec<Category>,
    /// `architectures[0]` of its config file.
    pub architecture: Option<Arc<str>>,
    /// The total size of its weight files.
    pub weights: Bytes,
    /// Attention heads.
    pub heads: Option<u32>,
    /// Attention heads of its vision part.
    pub vision_heads: Option<u32>,
    /// Tokens in its vocabulary.
    pub vocabulary: Option<u32>,
    /// How its weights are quantized, if they are: `fp8`, `awq`, `gptq`.
    pub quantization: Option<Arc<str>>,
}

/// The program that serves a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    Vllm,
    Sglang,
    /// Serves layers of a GGUF file, some of which may stay in RAM.
    LlamaBox(GgufEstimate),
}

impl Backend {
    /// The server's name in the compatibility table.
    pub fn server(&self) -> Server {
        match self {
            Backend::Vllm => Server::Vllm,
            Backend::Sglang => Server::Sglang,
            Backend::LlamaBox(_) => Server::LlamaBox,
        }
    }

    /// The argument that sets which part of a GPU's memory it reserves, without the dashes.
    pub fn utilization(&self) -> &'static str {
        match self {
            Backend::Vllm | Backend::LlamaBox(_) => "gpu-memory-utilization",
            Backend::Sglang => "mem-fraction-static",
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Backend::Vllm => "vllm",
            Backend::Sglang => "sglang",
            Backend::LlamaBox(_) => "llama_box",
        }
    }
}

/// Memory of a GGUF model, layer by layer, as estimated by a parser of the file; no formula gives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GgufEstimate {
    pub layers: u32,
    /// GPU memory of each layer that is offloaded.
    pub layer_memory: Bytes,
    /// GPU memory in addition to the layers, on each GPU used.
    pub fixed_memory: Bytes,
    /// RAM with every layer on a GPU.
    pub ram_offloaded: Bytes,
    /// RAM with no layer on a GPU.
    pub ram_unoffloaded: Bytes,
}

/// The preferred distribution of replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    #[default]
    Spread,
    Binpack,
}
