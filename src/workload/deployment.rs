//! A model deployment: the model, the backend that serves it, and how its replicas may lie.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use dryrack_catalog::{Category, Served, Server};
use dryrack_units::Bytes;

/// What a user states of a model to be served. What it takes of a GPU follows from it and from the scheduler's rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    pub model: ModelFacts,
    pub backend: Backend,
    pub strategy: Strategy,
    /// One replica may lie on several nodes.
    pub distributable: bool,
    /// Labels that a node must carry; no selector and an empty one are not the same to every scheduler.
    pub selector: Option<BTreeMap<Arc<str>, Arc<str>>>,
    /// GPUs that one replica takes of those picked by hand.
    pub gpus_per_replica: Option<u32>,
    /// The backend's own arguments, as they would be typed: `--tensor-parallel-size=4`.
    pub arguments: Vec<Arc<str>>,
    /// Environment variables of the backend, which some schedulers read.
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
}

impl Deployment {
    /// What the table of compatibility is asked about.
    pub fn served(&self) -> Served<'_> {
        Served {
            backend: self.backend.server(),
            architecture: self.model.architecture.as_deref(),
            quantization: self.model.quantization.as_deref(),
        }
    }
}

/// What is known of a model from its published files. What is not known is `None`, never a guess.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFacts {
    /// In the catalog, or the scenario's own: `Qwen/Qwen3-32B`.
    pub name: Arc<str>,
    pub categories: Vec<Category>,
    /// `architectures[0]` of its config file.
    pub architecture: Option<Arc<str>>,
    /// The sum of its weight files.
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
    /// Layers of a GGUF file, some of which may stay in RAM.
    LlamaBox(GgufEstimate),
}

impl Backend {
    /// By the name that the table of compatibility knows.
    pub fn server(&self) -> Server {
        match self {
            Backend::Vllm => Server::Vllm,
            Backend::Sglang => Server::Sglang,
            Backend::LlamaBox(_) => Server::LlamaBox,
        }
    }

    /// Its argument that says which part of a GPU's memory it reserves, without the dashes.
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

/// Memory of a GGUF model, layer by layer, as a parser of the file estimates it; there is no formula for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GgufEstimate {
    pub layers: u32,
    /// GPU memory of each layer that is offloaded.
    pub layer_memory: Bytes,
    /// GPU memory beside the layers, on each GPU used.
    pub fixed_memory: Bytes,
    /// RAM with every layer on a GPU.
    pub ram_offloaded: Bytes,
    /// RAM with no layer on a GPU.
    pub ram_unoffloaded: Bytes,
}

/// Where replicas are preferred to lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    #[default]
    Spread,
    Binpack,
}
