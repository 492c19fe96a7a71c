//! `dryrack fit`: held against arithmetic on paper, and each change that it names is made and asked again.

use serde_json::Value;

use crate::cli::{empty, stdout};

const LAB: &str = "\
scenario: A lab
profile: gpustack
nodes:
  - {name: alpha, machine: a100-80g-x2, state: not_ready}
  - {name: beta, machine: a100-80g-x2}
  - {name: gamma, machine: rtx-4090-x2}
  - {name: studio, machine: m2-ultra-192g}
jobs:
  - {name: chat, at: 1m, model: qwen3-8b, gpus: [beta/0], cancel_at: 10m}
";

/// Exit code and answer of `dryrack fit lab.yaml ... --format json`.
fn fit(code: i32, args: &[&str]) -> Value {
    let dir = empty();
    std::fs::write(dir.path().join("lab.yaml"), LAB).unwrap();
    let all = [&["fit", "lab.yaml", "--format", "json"], args].concat();
    serde_json::from_str(&stdout(dir.path(), &all, code)).expect("JSON")
}

pub fn where_a_model_fits_and_with_what_memory_is_as_computed_on_paper() {
    let found = fit(0, &["--model", "qwen3-32b"]);
    // 1.2 x 65,524,246,528 is 78,629,095,833.6, of which the whole bytes count, and 2 GiB.
    assert_eq!(found["need_bytes"], 78_629_095_833_u64 + (2 << 30));
    // Nine tenths of 80 GiB on each of two GPUs: one would hold 77,309,411,328 and is too small.
    let expected = serde_json::json!([[{
        "node": "beta", "main": true, "ram_bytes": 0,
        "gpus": [{"gpu": 0, "takes_bytes": 77_309_411_328_u64}, {"gpu": 1, "takes_bytes": 77_309_411_328_u64}],
    }]]);
    assert_eq!(found["placements"], expected);
    // An embedding model takes what it needs: 1.2 x 2,272,000,000 and 512 MiB.
    let found = fit(0, &["--model", "bge-m3"]);
    assert_eq!(found["placements"][0][0]["gpus"][0]["takes_bytes"], 2_726_400_000_u64 + (512 << 20));
}

pub fn a_gguf_model_takes_its_layers_and_what_is_fixed() {
    let gguf =
        "gguf: {layers: 33, layer_memory: 550MiB, fixed_memory: 1GiB, ram_offloaded: 1GiB, ram_unoffloaded: 19GiB}";
    let asked = |layer: &str| format!("{{name: g, weights: 18GiB, {}}}", gguf.replace("550MiB", layer));
    let found = fit(0, &["--model", &asked("550MiB")]);
    // 33 x 550 MiB and 1,024 MiB, and nothing of the GPU is reserved beyond it.
    assert_eq!(found["need_bytes"], 19_174_u64 << 20);
    assert_eq!(found["placements"][0][0]["gpus"][0]["takes_bytes"], 19_174_u64 << 20);
    // 33 x 5 GiB are more than any one GPU has, and another GPU would not help.
    fit(1, &["--model", &asked("5GiB")]);
}

pub fn what_runs_at_a_time_is_in_the_way_then_and_not_before() {
    for (code, at) in [(0, "59s"), (1, "2m"), (0, "11m")] {
        fit(code, &["--model", "qwen3-32b", "--at", at]);
    }
}

pub fn each_change_that_is_named_helps() {
    let asked = ["--model", "qwen3-32b", "--replicas", "2"];
    let found = fit(1, &asked);
    assert_eq!(found["refused"]["replica"], 1);
    let changes = found["changes"].as_array().unwrap();
    let has = |change: Value| assert!(changes.contains(&change), "{change} of {changes:?}");
    has(serde_json::json!({"ready": "alpha"}));
    fit(0, &[&asked[..], &["--set", "nodes.alpha.state=ready"]].concat());
    has(serde_json::json!({"gpu_memory_utilization": 0.5}));
    fit(0, &[&asked[..], &["--parameter=--gpu-memory-utilization=0.50"]].concat());
    // 0.55 of 80 GiB twice on each GPU is more than there is.
    fit(1, &[&asked[..], &["--parameter=--gpu-memory-utilization=0.55"]].concat());
    // The largest that fits: two replicas, one of them on two GPUs of 24 GiB, or one on one GPU of 80 GiB.
    let weights = changes.iter().find_map(|change| change["weights_bytes"].as_u64()).expect("lighter weights help");
    let model = |weights: u64| format!("{{name: qwen3-32b, weights: {weights}B}}");
    fit(0, &["--replicas", "2", "--model", &model(weights)]);
    fit(1, &["--replicas", "2", "--model", &model(weights + (64 << 20))]);
}

pub fn a_model_that_cannot_be_asked_about_is_told_so() {
    let dir = empty();
    std::fs::write(dir.path().join("lab.yaml"), LAB).unwrap();
    for (args, said) in [
        (["--model", "qwen3-33b"], "did you mean `Qwen3-32B`?"),
        (["--model", "{name: mine}"], "it is not said how large the model's weights are"),
    ] {
        let all = [&["fit", "lab.yaml"], &args[..]].concat();
        let output = crate::cli::dryrack(dir.path(), &all).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text.contains(said), "{text}");
    }
}
