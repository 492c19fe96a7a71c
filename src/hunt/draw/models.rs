//! Models to be served. Nodes have GPUs of several sizes, some mixed, some not ready, some with reserved memory. Models
//! are of several kinds and sizes, and some are picked by hand.

use super::weighted::weighted;
use dryrack_rng::Stream;

/// A type of GPU: its name, its memory in GiB, its vendor, and its compute capability.
struct Gpu(&'static str, u64, &'static str, Option<&'static str>);

const GPUS: [(u64, Gpu); 8] = [
    (4, Gpu("a100-80g", 80, "nvidia", Some("8.0"))),
    (3, Gpu("rtx-4090", 24, "nvidia", Some("8.9"))),
    (2, Gpu("l4", 24, "nvidia", Some("8.9"))),
    (2, Gpu("rtx-3060", 12, "nvidia", Some("8.6"))),
    (1, Gpu("h200", 141, "nvidia", Some("9.0"))),
    (1, Gpu("t4", 16, "nvidia", Some("7.5"))),
    (1, Gpu("rx-7900-xtx", 24, "amd", None)),
    (1, Gpu("mi300x", 192, "amd", None)),
];

struct Node {
    name: String,
    gpus: u64,
    /// The memory of each of its largest GPUs, in GiB.
    memory: u64,
}

/// The backends of the models in a world.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backends {
    Mixed,
    /// SGLang, often with parameters that determine how much memory it reserves.
    Sglang,
}

pub fn draw(draws: &mut Stream) -> String {
    draw_world(draws, Backends::Mixed)
}

pub fn draw_sglang(draws: &mut Stream) -> String {
    draw_world(draws, Backends::Sglang)
}

fn draw_world(draws: &mut Stream, backends: Backends) -> String {
    let mut text = String::from("profile: gpustack\nuntil: 5m\nnodes:\n");
    let mut nodes = Vec::new();
    let usual = weighted(draws, &GPUS);
    for number in 1..=draws.between(1, 4) {
        let (line, node) = draw_node(draws, number, usual);
        text.push_str(&line);
        nodes.push(node);
    }
    text.push_str("jobs:\n");
    let jobs = draws.between(1, 4);
    for number in 1..=jobs {
        text.push_str(&draw_job(draws, number, &nodes, backends));
    }
    if draws.chance(120) {
        let node = &draws.pick(&nodes).name;
        let becomes = draws.pick(&["not_ready", "ready"]);
        text.push_str(&format!("faults:\n  - {{at: {}s, node: {node}, becomes: {becomes}}}\n", draws.between(5, 120)));
    }
    text
}

fn draw_node(draws: &mut Stream, number: u64, usual: &Gpu) -> (String, Node) {
    let name = format!("n{number}");
    let Gpu(kind, memory, vendor, capability) = if draws.chance(600) { usual } else { weighted(draws, &GPUS) };
    let count = *weighted(draws, &[(4, 1), (4, 2), (1, 3), (3, 4), (1, 8)]);
    let group = |kind: &str, count: u64, memory: u64, vendor: &str, capability: &Option<&str>| {
        let capability = capability.map_or(String::new(), |version| format!(", compute_capability: {version}"));
        format!("{{type: {kind}, count: {count}, memory: {memory}GiB, vendor: {vendor}{capability}}}")
    };
    let mut groups = vec![group(kind, count, *memory, vendor, capability)];
    let (mut gpus, mut largest, mut reserve_of) = (count, *memory, *memory);
    if draws.chance(150) {
        let Gpu(kind, memory, vendor, capability) = weighted(draws, &GPUS);
        let count = draws.between(1, 2);
        groups.push(group(kind, count, *memory, vendor, capability));
        (gpus, largest, reserve_of) = (gpus + count, largest.max(*memory), reserve_of.min(*memory));
    } else if draws.chance(60) {
        // Memory that the GPU shares with the CPU, as in small workstations.
        groups = vec!["{type: strix-halo, count: 1, memory: 96GiB, vendor: amd, unified: true}".to_string()];
        (gpus, largest, reserve_of) = (1, 96, 96);
    }
    let state = if draws.chance(120) { ", state: not_ready" } else { "" };
    let reserved = match weighted(draws, &[(6, 0), (3, 1), (2, 2)]) {
        0 => String::new(),
        1 => ", reserved: {ram: 2GiB, gpu_memory: 1GiB}".to_string(),
        // Backends leave a tenth of the memory free.
        _ => format!(", reserved: {{gpu_memory: {}B}}", (reserve_of << 30) / 10),
    };
    let labels = if draws.chance(400) { draws.pick(&[", labels: {zone: a}", ", labels: {zone: b}"]) } else { &"" };
    let groups = groups.join(", ");
    let line = format!("  - {{name: {name}, cpus: 32, ram: 128GiB, gpus: [{groups}]{state}{reserved}{labels}}}\n");
    (line, Node { name, gpus, memory: largest })
}

fn draw_job(draws: &mut Stream, number: u64, nodes: &[Node], backends: Backends) -> String {
    let mut fields = vec![format!("name: m{number}")];
    if number > 1 {
        fields.push(format!("at: {}s", (number - 1) * 20));
    }
    let backend = match backends {
        Backends::Mixed => *weighted(draws, &[(3, "vllm"), (1, "sglang")]),
        Backends::Sglang => "sglang",
    };
    if backend != "vllm" {
        fields.push(format!("backend: {backend}"));
    }
    fields.push(draw_model(draws, number, nodes, backends));
    let replicas = *weighted(draws, &[(6, 1), (2, 2), (1, 3)]);
    if replicas > 1 {
        fields.push(format!("replicas: {replicas}"));
    }
    let is_picked = draws.chance(350);
    if is_picked {
        let picks = picks(draws, nodes);
        fields.push(format!("gpus: [{}]", picks.join(", ")));
        if draws.chance(400) || replicas > 1 {
            let each = (picks.len() as u64 / replicas).max(1);
            let each = if draws.chance(700) { each } else { draws.between(1, picks.len() as u64) };
            fields.push(format!("gpus_per_replica: {each}"));
        }
    }
    if draws.chance(450) {
        fields.push("distributed: true".to_string());
    }
    if draws.chance(300) {
        fields.push("placement: binpack".to_string());
    }
    if draws.chance(130) {
        fields.push(format!("selector: {}", draws.pick(&["{zone: a}", "{zone: b}", "{os: linux}"])));
    }
    if backends == Backends::Sglang {
        let parameters = sglang_parameters(draws);
        if !parameters.is_empty() {
            fields.push(format!("parameters: [{}]", parameters.join(", ")));
        }
    } else if draws.chance(200) {
        let (tensor, part) = if backend == "vllm" {
            ("tensor-parallel-size", "gpu-memory-utilization")
        } else {
            ("tp-size", "mem-fraction-static")
        };
        let parameter = match draws.between(0, 2) {
            0 => format!("--{tensor}={}", draws.pick(&[1, 2, 4])),
            1 => format!("--{part}={}", draws.pick(&["0.5", "0.8", "0.95"])),
            _ => "--pipeline-parallel-size=2".to_string(),
        };
        fields.push(format!("parameters: [{parameter}]"));
    }
    if draws.chance(80) {
        fields.push(format!("cancel_at: {}s", draws.between(60, 200)));
    }
    format!("  - {{{}}}\n", fields.join(", "))
}

fn sglang_parameters(draws: &mut Stream) -> Vec<String> {
    let mut parameters = Vec::new();
    let mut add = |draws: &mut Stream, chance: u64, name: &str, values: &[&str]| {
        if draws.chance(chance) {
            parameters.push(match *draws.pick(values) {
                "" => format!("--{name}"),
                value => format!("--{name}={value}"),
            });
        }
    };
    add(draws, 150, "tp-size", &["1", "2", "3", "4"]);
    add(draws, 100, "pp-size", &["2"]);
    add(draws, 100, "dp-size", &["2"]);
    add(draws, 150, "mem-fraction-static", &["0.5", "0.8", "0.95", "1.2", "0", "0.0", "many"]);
    add(draws, 300, "cuda-graph-max-bs", &["1", "8", "64", "320", "512"]);
    add(draws, 300, "chunked-prefill-size", &["-1", "512", "2048", "8192", "16384"]);
    add(draws, 200, "enable-dp-attention", &["", "false"]);
    add(draws, 200, "speculative-algorithm", &["EAGLE", "NGRAM", "STANDALONE", "EAGLE3"]);
    add(draws, 150, "enable-piecewise-cuda-graph", &["true"]);
    add(draws, 150, "piecewise-cuda-graph-max-tokens", &["1000", "4097"]);
    add(draws, 80, "enable-mixed-chunk", &["", "true", "false"]);
    add(draws, 80, "nnodes", &["1", "2", "3"]);
    add(draws, 80, "language-only", &[""]);
    parameters
}

fn draw_model(draws: &mut Stream, number: u64, nodes: &[Node], backends: Backends) -> String {
    let (category, architecture) = *weighted(
        draws,
        &[
            (10, ("llm", "LlamaForCausalLM")),
            (2, ("llm", "Qwen3ForCausalLM")),
            (3, ("embedding", "BertModel")),
            (1, ("embedding", "Qwen3ForCausalLM")),
            (2, ("reranker", "XLMRobertaForSequenceClassification")),
            (2, ("speech_to_text", "WhisperForConditionalGeneration")),
        ],
    );
    let gpu = draws.pick(nodes).memory << 30;
    // The size of the weights, as a part of the memory of one GPU. A model of 0.75 of the memory just fits a GPU of
    // which nine tenths may be used.
    let percent = *draws.pick(&[3, 10, 30, 50, 65, 72, 75, 80, 90, 120, 150, 200, 300]);
    let weights = gpu / 100 * percent;
    let weights = match draws.between(0, 2) {
        0 => format!("{}GiB", (weights >> 30).max(1)),
        1 => format!("{}B", weights + draws.between(0, 1000)),
        _ => format!("{}GB", (weights / 1_000_000_000).max(1)),
    };
    let mut fields =
        vec![format!("name: model-{number}"), format!("weights: {weights}"), format!("architecture: {architecture}")];
    if category != "llm" {
        fields.push(format!("category: {category}"));
    }
    if draws.chance(800) {
        fields.push(format!("heads: {}", draws.pick(&[64, 32, 40, 28, 16, 12, 71])));
    }
    if backends == Backends::Sglang && draws.chance(200) {
        fields.push(format!("vision_heads: {}", draws.pick(&[16, 12, 24])));
    }
    if draws.chance(500) {
        fields.push(format!("vocabulary: {}", draws.pick(&[151_936, 32_000, 128_256, 50_257])));
    }
    format!("model: {{{}}}", fields.join(", "))
}

/// Picks GPUs on one node or on several nodes.
fn picks(draws: &mut Stream, nodes: &[Node]) -> Vec<String> {
    let of = |node: &Node, count: u64| -> Vec<String> {
        (0..count.min(node.gpus)).map(|index| format!("{}/{index}", node.name)).collect()
    };
    if draws.chance(500) {
        let node = draws.pick(nodes);
        let count = draws.between(1, 4);
        return of(node, count);
    }
    let (each, of_nodes) = (draws.between(1, 2), draws.between(1, 3) as usize);
    nodes.iter().take(of_nodes).flat_map(|node| of(node, each)).collect()
}
