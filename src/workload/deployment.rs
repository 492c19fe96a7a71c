//! A model deployment: the model, the backend that serves it, and how its replicas may be placed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use dryrack_catalog::{Category, Served, Server};
use dryrack_units::Bytes;

/// The user's description of a model to serve. Together with the scheduler's rules, it determines how much of a GPU a
/// replica takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    pub model: ModelFacts,
    pub backend: Backend,
    pub strategy: Strategy,
    /// Whether one replica may span several nodes.
    pub distributable: bool,
    /// Labels that a node must have. Some schedulers distinguish an empty selector from a missing one.
    pub selector: Option<BTreeMap<Arc<str>, Arc<str>>>,
    /// The number of GPUs that each replica takes, if GPUs were picked by hand.
    pub gpus_per_replica: Option<u32>,
    /// Arguments for the backend, as typed on a command line: `--tensor-parallel-size=4`.
    pub arguments: Vec<Arc<str>>,
    /// Environment variables for the backend. Some schedulers read them.
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
}

impl Deployment {
    /// The query to the compatibility table for this deployment.
    pub fn served(&self) -> Served<'_> {
        Served {
            backend: self.backend.server(),
            architecture: self.model.architecture.as_deref(),
            quantization: self.model.quantization.as_deref(),
        }
    }
}

/// Facts from a model's published files. An unknown figure is `None`, never a guess.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFacts {
    /// The name in the catalog, or a name that only the scenario defines; for example, `Qwen/Qwen3-32B`.
    pub name: Arc<str>,
    pub categories: Vec<Category>,
    /// The entry `architectures[0]` of the model's config file.
    pub architecture: Option<Arc<str>>,
    /// The total size of the model's weight files.
    pub weights: Bytes,
    /// The number of attention heads.
    pub heads: Option<u32>,
    /// The number of attention heads in the vision part.
    pub vision_heads: Option<u32>,
    /// The number of tokens in the vocabulary.
    pub vocabulary: Option<u32>,
    /// The quantization of the weights, such as `fp8`, `awq` or `gptq`. `None` if they are not quantized.
    pub quantization: Option<Arc<str>>,
}

/// The program that serves a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    Vllm,
    Sglang,
    /// Serves the layers of a GGUF file. Some layers may stay in RAM.
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

    /// The name of the argument for the part of GPU memory to reserve, without dashes.
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

/// The memory of a GGUF model by layer. A parser of the file estimates it, because no formula gives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GgufEstimate {
    pub layers: u32,
    /// The GPU memory of each offloaded layer.
    pub layer_memory: Bytes,
    /// The GPU memory that each used GPU needs in addition to its layers.
    pub fixed_memory: Bytes,
    /// The RAM that the model needs if every layer is on a GPU.
    pub ram_offloaded: Bytes,
    /// The RAM that the model needs if no layer is on a GPU.
    pub ram_unoffloaded: Bytes,
}

/// How replicas are preferably distributed over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    #[default]
    Spread,
    Binpack,
}
