//! Model deployments: jobs with a `model:`. The model is in the catalog, or the file describes it by its figures.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::world::World;
use dryrack_catalog::{self as catalog, Category, Server};
use dryrack_units::Bytes;
use dryrack_workload::{Backend, Deployment, GgufEstimate, ModelFacts, Pick, Strategy};
use dryrack_yaml::{Fields, Node, Report, Tree, list, text};

/// Fields of a job that serves a model.
pub(super) const FIELDS: [&str; 8] =
    ["model", "backend", "placement", "distributed", "selector", "gpus_per_replica", "parameters", "environment"];

/// Fields that only a job without a model states. With a model, these values follow from the model.
const FOLLOW_FROM_MODEL: [&str; 11] =
    ["tasks", "gang", "gpu", "gpu_memory", "min_gpu_memory", "cpus", "ram", "labels", "os", "arch", "duration"];

pub(super) const BACKENDS: [(&str, Server); 3] =
    [("vllm", Server::Vllm), ("sglang", Server::Sglang), ("llama-box", Server::LlamaBox)];
pub(super) const STRATEGIES: [(&str, Strategy); 2] = [("spread", Strategy::Spread), ("binpack", Strategy::Binpack)];
pub(super) const CATEGORIES: [(&str, Category); 4] = [
    ("llm", Category::Llm),
    ("embedding", Category::Embedding),
    ("reranker", Category::Reranker),
    ("speech_to_text", Category::SpeechToText),
];

const MODEL_FIELDS: [&str; 9] =
    ["name", "category", "architecture", "weights", "heads", "vision_heads", "vocabulary", "quantization", "gguf"];

/// Reads the deployment of a job with `model`; `None` if the entry has errors.
pub(super) fn read(
    fields: &Fields<'_>,
    pick: Option<&Pick>,
    world: &mut World,
    report: &mut Report,
) -> Option<Arc<Deployment>> {
    for key in FOLLOW_FROM_MODEL.iter().filter(|key| fields.has(key)) {
        let (message, help) = match *key {
            "labels" => ("a model uses `selector` instead", "write `selector:` instead of `labels:`"),
            "duration" => ("a model is served until it is cancelled", "write `cancel_at:` instead of `duration:`"),
            _ => ("the resources of a model follow from the model itself", "leave it out, or leave `model` out"),
        };
        report.error_with_help(fields.key_span(key), format!("`{key}`: {message}"), help);
    }
    let (model, gguf) = model(fields.get("model")?, world, report)?;
    let backend = backend(fields, &model, gguf, report)?;
    let gpus_per_replica = fields.count("gpus_per_replica", 1, report);
    Some(Arc::new(Deployment {
        model,
        backend,
        strategy: fields.word("placement", "a placement of replicas", &STRATEGIES, report).unwrap_or_default(),
        // If the user picks GPUs of several nodes, the model must be allowed to span nodes.
        distributable: fields
            .value("distributed", report)
            .unwrap_or_else(|| pick.is_some_and(|pick| pick.is_of_gpus() && pick.nodes().len() > 1)),
        selector: fields.has("selector").then(|| fields.labels("selector", report)),
        gpus_per_replica,
        arguments: parameters(fields, report),
        environment: environment(fields, report),
    }))
}

/// Refuses fields of a deployment in a job without a model.
pub(super) fn refuse_without_model(fields: &Fields<'_>, report: &mut Report) {
    for key in FIELDS.iter().filter(|key| fields.has(key)) {
        let help = format!("add `model: qwen3-32b`, or leave `{key}` out");
        report.error_with_help(fields.key_span(key), format!("`{key}` works only for a model"), help);
    }
}

/// Checks the picked GPUs against the number of GPUs that a replica takes.
pub(super) fn check_pick(fields: &Fields<'_>, pick: Option<&Pick>, report: &mut Report) {
    let Some(tree) = fields.get("gpus_per_replica") else { return };
    let taken: Option<u32> = tree.scalar().and_then(|typed| typed.parse().ok());
    match pick {
        Some(Pick::Gpus(picked) | Pick::AllGpus(picked)) => {
            let least = picked.len();
            if taken.is_some_and(|taken| taken as usize > least) {
                let message = format!("a replica takes more GPUs than the {least} that were picked");
                report.error_with_help(tree.span, message, format!("write {least} or less, or pick more GPUs"));
            }
        }
        Some(Pick::Nodes(_)) | None => {
            let help = "add `gpus: [alpha/0, alpha/1]`, or leave `gpus_per_replica` out";
            let message = "`gpus_per_replica` divides picked GPUs, but none are picked";
            report.error_with_help(fields.key_span("gpus_per_replica"), message, help);
        }
    }
}

/// Reads `qwen3-32b`, or `{name: my-model, weights: 60GiB, heads: 64}`.
fn model(tree: &Tree, world: &mut World, report: &mut Report) -> Option<(ModelFacts, Option<GgufEstimate>)> {
    let Node::Map(_) = &tree.node else {
        let typed = text(tree, "a model of the catalog, or a map with its figures", report)?;
        let Some(known) = catalog::model(typed) else {
            unknown_model(tree, typed, report);
            return None;
        };
        return Some((facts(known, weights_of(known, tree, report)?), None));
    };
    let fields = Fields::read(tree, "a model", &MODEL_FIELDS, report)?;
    let name = fields.require("name", "qwen3-32b", report);
    let typed = name.and_then(|tree| text(tree, "the name of a model", report));
    let known = typed.and_then(catalog::model);
    let weights = fields.value::<Bytes>("weights", report);
    let gguf = fields.get("gguf").map(|tree| gguf(tree, report));
    let categories: Vec<Category> = categories(&fields, report);
    let weights = match (weights, known) {
        (Some(weights), _) => Some(weights),
        (None, Some(known)) if !fields.has("weights") => weights_of(known, tree, report),
        (None, _) => {
            if fields.lacks_all(&["weights"]) {
                let help = "add `weights: 60GiB`, the sum of its weight files";
                report.error_with_help(fields.place(), "the size of the model's weights is missing", help);
            }
            None
        }
    };
    if weights == Some(Bytes::ZERO) {
        let span = fields.key_span("weights");
        report.error_with_help(
            span,
            "the size of the weights must be above 0",
            "write the total size of the weight files, such as 60GiB",
        );
    }
    // The figures in the file take precedence over the catalog.
    let base = known.map(|known| facts(known, Bytes::ZERO));
    let base = base.unwrap_or_else(|| blank(typed.unwrap_or("")));
    let said = |key, report: &mut Report| fields.text(key, "a name", report).map(Arc::from);
    let facts = ModelFacts {
        architecture: said("architecture", report).or(base.architecture),
        quantization: said("quantization", report).or(base.quantization),
        heads: fields.count("heads", 1, report).or(base.heads),
        vision_heads: fields.count("vision_heads", 1, report).or(base.vision_heads),
        vocabulary: fields.count("vocabulary", 1, report).or(base.vocabulary),
        categories: if fields.has("category") { categories } else { base.categories },
        name: base.name,
        weights: weights?,
    };
    world.models.insert(facts.name.to_string());
    // A model without a name cannot run. Also stop if the estimate has an error, which must not count as a missing
    // estimate.
    typed?;
    let gguf = match gguf {
        None => None,
        Some(estimate) => Some(estimate?),
    };
    Some((facts, gguf))
}

fn blank(name: &str) -> ModelFacts {
    ModelFacts {
        name: Arc::from(name),
        categories: vec![Category::Llm],
        architecture: None,
        weights: Bytes::ZERO,
        heads: None,
        vision_heads: None,
        vocabulary: None,
        quantization: None,
    }
}

fn facts(known: &catalog::Model, weights: Bytes) -> ModelFacts {
    ModelFacts {
        categories: vec![known.category],
        architecture: known.architecture.map(Arc::from),
        weights,
        heads: known.heads,
        vocabulary: known.vocabulary,
        quantization: known.quantization.map(Arc::from),
        ..blank(known.name)
    }
}

fn weights_of(known: &catalog::Model, tree: &Tree, report: &mut Report) -> Option<Bytes> {
    let weights = known.weights.map(catalog::Weights::bytes);
    if weights.is_none() {
        let short = known.short_name();
        let message = format!("the catalog has no size for the weights of {}", known.name);
        report.error_with_help(
            tree.span,
            message,
            format!("write `model: {{name: {short}, weights: …}}`, with the total size of the weight files"),
        );
    }
    weights
}

fn unknown_model(tree: &Tree, typed: &str, report: &mut Report) {
    let message = format!("no model is named `{typed}`");
    let names = catalog::models().iter().flat_map(|model| [model.short_name(), model.name]);
    let help = match dryrack_nearest::nearest(typed, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "`dryrack catalog models` lists models; describe any other model by its figures: `{{name: {typed}, \
             weights: 60GiB}}`"
        ),
    };
    report.error_with_help(tree.span, message, help);
}

fn categories(fields: &Fields<'_>, report: &mut Report) -> Vec<Category> {
    let mut found = Vec::new();
    for (typed, span) in fields.items("category", "a model category", report) {
        match CATEGORIES.iter().find(|(name, _)| *name == typed) {
            Some((_, category)) => found.push(*category),
            None => {
                let names = CATEGORIES.iter().map(|(name, _)| *name);
                report.unknown(span, format!("`{typed}` is not a model category"), typed, names);
            }
        }
    }
    found
}

/// Far more layers than any model has. For each, a placement may try how many GPUs hold them.
const MOST_LAYERS: u32 = 10_000;

/// Reads `{layers: 33, layer_memory: 600MiB, fixed_memory: 1GiB, ram_offloaded: 1GiB, ram_unoffloaded: 20GiB}`.
fn gguf(tree: &Tree, report: &mut Report) -> Option<GgufEstimate> {
    let known = ["layers", "layer_memory", "fixed_memory", "ram_offloaded", "ram_unoffloaded"];
    let fields = Fields::read(tree, "an estimate of a GGUF file", &known, report)?;
    let missing: Vec<&str> = known.into_iter().filter(|key| fields.lacks_all(&[key])).collect();
    if !missing.is_empty() {
        let message = format!("the estimate of a GGUF file lacks {}", list(missing.into_iter()));
        let example = "{layers: 33, layer_memory: 600MiB, fixed_memory: 1GiB, ram_offloaded: 1GiB, \
                       ram_unoffloaded: 20GiB}";
        report.error_with_help(fields.place(), message, format!("write all of them: `{example}`"));
    }
    Some(GgufEstimate {
        layers: fields.count_up_to("layers", MOST_LAYERS, report)?,
        layer_memory: fields.value("layer_memory", report)?,
        fixed_memory: fields.value("fixed_memory", report)?,
        ram_offloaded: fields.value("ram_offloaded", report)?,
        ram_unoffloaded: fields.value("ram_unoffloaded", report)?,
    })
}

fn backend(
    fields: &Fields<'_>,
    model: &ModelFacts,
    gguf: Option<GgufEstimate>,
    report: &mut Report,
) -> Option<Backend> {
    let stated = fields.word("backend", "a backend", &BACKENDS, report);
    if fields.has("backend") && stated.is_none() {
        return None;
    }
    let default = if gguf.is_some() { Server::LlamaBox } else { Server::Vllm };
    let span = || fields.get("backend").map_or(fields.key_span("model"), |tree| tree.span);
    match (stated.unwrap_or(default), gguf) {
        (Server::Vllm, None) => Some(Backend::Vllm),
        (Server::Sglang, None) => Some(Backend::Sglang),
        (Server::LlamaBox, Some(estimate)) => Some(Backend::LlamaBox(estimate)),
        (Server::LlamaBox, None) => {
            let message = "llama-box serves GGUF files, and this model has no estimate of its GGUF file";
            let help = format!(
                "add an estimate: `model: {{name: {}, weights: …, gguf: {{layers: 33, layer_memory: 600MiB, …}}}}`",
                model.name
            );
            report.error_with_help(span(), message, help);
            None
        }
        (Server::Vllm | Server::Sglang, Some(_)) => {
            let help = "write `backend: llama-box`, or leave `gguf` out of the model";
            report.error_with_help(span(), "only llama-box uses an estimate of a GGUF file", help);
            None
        }
    }
}

/// Reads backend parameters in their command-line form, such as `--tensor-parallel-size=4`.
fn parameters(fields: &Fields<'_>, report: &mut Report) -> Vec<Arc<str>> {
    let Some(tree) = fields.get("parameters") else { return Vec::new() };
    let Node::List(items) = &tree.node else {
        let message = format!("expected a list of parameters, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `[--tensor-parallel-size=4]`");
        return Vec::new();
    };
    items
        .iter()
        .filter_map(|item| text(item, "a parameter such as --max-model-len=8192", report))
        .map(Arc::from)
        .collect()
}

fn environment(fields: &Fields<'_>, report: &mut Report) -> BTreeMap<Arc<str>, Arc<str>> {
    let Some(tree) = fields.get("environment") else { return BTreeMap::new() };
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected a map of environment variables, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `{VLLM_USE_V1: 1}`");
        return BTreeMap::new();
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        if let Some(value) = text(&entry.value, "a variable's value", report) {
            found.insert(Arc::from(entry.key.as_str()), Arc::from(value));
        }
    }
    found
}

/// Checks that every name in a node's `cached:` is a model of the catalog or of the file.
pub(super) fn check_cached(world: &World, report: &mut Report) {
    for (typed, span) in &world.cached {
        if catalog::model(typed).is_none() && !world.models.contains(typed) {
            let own = world.models.iter().map(String::as_str);
            let known = own.chain(catalog::models().iter().map(|model| model.short_name()));
            report.unknown(*span, format!("no model is named `{typed}`"), typed, known);
        }
    }
}
