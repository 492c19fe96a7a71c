//! Finds the demand of one replica from the row of its model and its instances.
//!
//! If the weights of a model are known from the catalog or from a downloaded file, the scenario names the model. The
//! rules of the profile then compute the demand of a replica. Otherwise, and for backends and categories without such
//! rules (llama-box, speech synthesis, images), the demand is the claim that GPUStack computed for an instance
//! (`computed_resource_claim`).

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::super::found::amount;
use super::super::imported::Names;
use super::{flag, text, word};
use dryrack_catalog as catalog;
use dryrack_units::Bytes;
use dryrack_yaml::scalar;

/// The demand of one replica, in the syntax of a scenario.
pub(super) enum Ask {
    /// `model: ...` and its related fields.
    Model(String),
    /// `gpus: ...` and its related fields.
    Claim(String),
    /// The source does not state what a replica takes.
    Unknown,
}

/// A part of an instance on one worker.
pub(super) struct Part {
    /// The server's name for the worker. `worker_id` is its number.
    pub worker: Option<String>,
    pub worker_id: Option<i64>,
    /// Bytes taken on each GPU, by the index of the GPU.
    pub vram: BTreeMap<u32, u64>,
    pub ram: u64,
}

/// The fields that name a model's origin. Two rows have the same origin if all of these fields are equal.
const ORIGIN: [&str; 6] = [
    "huggingface_repo_id",
    "huggingface_filename",
    "ollama_library_model_name",
    "model_scope_model_id",
    "model_scope_file_path",
    "local_path",
];

/// Parameters that determine how much a replica takes. All others are left out, because they may contain keys and
/// paths.
const READ: [&str; 14] = [
    "tensor-parallel-size",
    "tp-size",
    "tp",
    "pipeline-parallel-size",
    "pp-size",
    "pp",
    "data-parallel-size",
    "dp-size",
    "dp",
    "gpu-memory-utilization",
    "mem-fraction-static",
    "gpu-layers",
    "n-gpu-layers",
    "ngl",
];

const CATEGORIES: [&str; 4] = ["llm", "embedding", "reranker", "speech_to_text"];

pub(super) fn ask(model: &Value, instances: &[&Value], files: &[Value], name: &str, names: Names) -> Ask {
    let backend = backend(model);
    let categories = categories(model);
    let has_rules = matches!(backend.as_str(), "vllm" | "sglang")
        && categories.iter().all(|category| CATEGORIES.contains(&category.as_str()));
    if let (true, Some(figures)) = (has_rules, figures(model, &categories, files, name, names)) {
        return Ask::Model(of_model(model, &figures, &backend));
    }
    let claimed = instances.iter().map(|instance| parts(instance)).find(|parts| takes_anything(parts));
    claimed.map_or(Ask::Unknown, |parts| Ask::Claim(of_claim(&parts)))
}

/// The backend of a model or, if none is stated, the backend that GPUStack chooses (schemas/models.py, `get_backend`).
fn backend(model: &Value) -> String {
    if let Some(stated) = word(model, "backend") {
        return stated;
    }
    let is_gguf = |key: &str| text(model, key).is_some_and(|name| name.ends_with(".gguf"));
    let is_audio = categories(model).iter().any(|category| category.contains("speech"));
    let files = ["huggingface_filename", "model_scope_file_path", "local_path"];
    let is_gguf = text(model, "ollama_library_model_name").is_some() || files.into_iter().any(is_gguf);
    let named = if is_gguf {
        "llama-box"
    } else if is_audio {
        "vox-box"
    } else {
        "vllm"
    };
    named.to_string()
}

/// The categories of a model. Releases before 0.5 had a separate column for each category.
fn categories(model: &Value) -> Vec<String> {
    let stated = model["categories"].as_array().into_iter().flatten();
    let stated: Vec<String> = stated.filter_map(|category| Some(category.as_str()?.to_ascii_lowercase())).collect();
    if !stated.is_empty() {
        return stated;
    }
    let old = [
        ("embedding_only", "embedding"),
        ("reranker", "reranker"),
        ("speech_to_text", "speech_to_text"),
        ("text_to_speech", "text_to_speech"),
        ("image_only", "image"),
    ];
    let said = old.into_iter().filter(|(key, _)| flag(model, key) == Some(true));
    said.map(|(_, category)| category.to_string()).collect()
}

/// A name such as `qwen2.5-7b-instruct`, or a map of figures. `None` if the weights are unknown.
fn figures(model: &Value, categories: &[String], files: &[Value], name: &str, names: Names) -> Option<String> {
    let is_same = |file: &&Value| ORIGIN.iter().all(|key| text(file, key) == text(model, key));
    let size = files.iter().filter(is_same).filter_map(|file| file["size"].as_u64()).max().filter(|size| *size > 0);
    let origin = text(model, "huggingface_repo_id").or(text(model, "model_scope_model_id"));
    let known = origin.and_then(catalog::model);
    let weights = size.map(Bytes::new).or_else(|| Some(known?.weights?.bytes()))?;
    let is_plain = categories.is_empty() || categories == ["llm"];
    if let (Some(known), Names::Kept, None, true) = (known, names, size, is_plain) {
        return Some(scalar(known.short_name(), true));
    }
    let called = match (known, names) {
        (Some(known), Names::Kept) => known.name,
        _ => name,
    };
    let mut figures = format!("{{name: {}, weights: {}", scalar(called, true), amount(weights));
    if !categories.is_empty() && (!is_plain || known.is_some()) {
        let _infallible = write!(figures, ", category: [{}]", categories.join(", "));
    }
    if let (Some(known), Names::Numbered) = (known, names) {
        for (key, figure) in [("heads", known.heads), ("vocabulary", known.vocabulary)] {
            if let Some(figure) = figure {
                let _infallible = write!(figures, ", {key}: {figure}");
            }
        }
        for (key, said) in [("architecture", known.architecture), ("quantization", known.quantization)] {
            if let Some(said) = said {
                let _infallible = write!(figures, ", {key}: {}", scalar(said, true));
            }
        }
    }
    Some(figures + "}")
}

fn of_model(model: &Value, figures: &str, backend: &str) -> String {
    let mut asked = format!("model: {figures}, backend: {backend}");
    if word(model, "placement_strategy").as_deref() == Some("binpack") {
        asked.push_str(", placement: binpack");
    }
    if flag(model, "distributed_inference_across_workers") == Some(true) {
        asked.push_str(", distributed: true");
    }
    let read = parameters(model);
    if !read.is_empty() {
        let read: Vec<String> = read.iter().map(|typed| scalar(typed, false)).collect();
        let _infallible = write!(asked, ", parameters: [{}]", read.join(", "));
    }
    asked
}

/// Returns the parameters in [`READ`] that have a value.
fn parameters(model: &Value) -> Vec<String> {
    let all: Vec<&str> =
        model["backend_parameters"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut read = Vec::new();
    for (index, typed) in all.iter().enumerate() {
        let named = typed.trim().trim_start_matches('-');
        let (name, value) = match named.split_once(['=', ' ']) {
            Some((name, value)) => (name, Some(value.trim())),
            None => (named, all.get(index + 1).copied().filter(|next| !next.starts_with('-'))),
        };
        if let (true, true, Some(value)) = (typed.trim().starts_with('-'), READ.contains(&name), value) {
            read.push(format!("--{name}={value}"));
        }
    }
    read
}

fn takes_anything(parts: &[Part]) -> bool {
    parts.iter().any(|part| part.ram > 0 || part.vram.values().any(|bytes| *bytes > 0))
}

/// Formats a claim. If parts or GPUs take different amounts, all of them get the largest amount.
fn of_claim(parts: &[Part]) -> String {
    let gpus = parts.iter().map(|part| part.vram.len()).max().unwrap_or(0);
    let memory = parts.iter().flat_map(|part| part.vram.values()).max().copied().unwrap_or(0);
    let ram = parts.iter().map(|part| part.ram).max().unwrap_or(0);
    let mut asked = Vec::new();
    if parts.len() > 1 {
        asked.push(format!("nodes: {}", parts.len()));
    }
    if gpus > 0 {
        asked.push(format!("gpus: {gpus}, gpu_memory: {}", amount(Bytes::new(memory))));
    }
    if ram > 0 || gpus == 0 {
        asked.push(format!("ram: {}", amount(Bytes::new(ram))));
    }
    asked.join(", ")
}

/// The parts of an instance, each with its worker and computed claim. The main worker comes first.
pub(super) fn parts(instance: &Value) -> Vec<Part> {
    let part = |row: &Value| {
        let claim = &row["computed_resource_claim"];
        let vram = claim["vram"].as_object().into_iter().flatten();
        Part {
            worker: text(row, "worker_name").map(str::to_string),
            worker_id: row["worker_id"].as_i64(),
            vram: vram.filter_map(|(index, bytes)| Some((index.parse().ok()?, bytes.as_u64()?))).collect(),
            ram: claim["ram"].as_u64().unwrap_or(0),
        }
    };
    let beside = &instance["distributed_servers"];
    // These parts are RPC servers and Ray actors before 0.7, and subordinate workers since then.
    let others = ["rpc_servers", "ray_actors", "subordinate_workers"].into_iter();
    let others = others.flat_map(|key| beside[key].as_array().into_iter().flatten());
    std::iter::once(part(instance)).chain(others.map(part)).collect()
}
