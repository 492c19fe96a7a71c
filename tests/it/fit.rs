//! Checks `dryrack fit` against arithmetic on paper; each suggested change is applied and checked in turn.

use serde_json::Value;

use crate::cli::{empty, stdout};

trials! {
    Nothing: [
        where_a_model_fits_and_with_what_memory_is_as_computed_on_paper,
        a_gguf_model_takes_its_layers_and_what_is_fixed,
        what_runs_at_a_time_is_in_the_way_then_and_not_before,
        each_change_that_is_named_helps,
        a_model_that_cannot_be_asked_about_is_told_so,
        what_a_release_would_overcommit_does_not_fit,
        to_reserve_more_can_be_the_change_that_helps,
        a_file_without_a_profile_is_asked_under_gpustack,
        sglang_is_asked_in_its_own_words,
    ]
}

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

/// Runs `dryrack fit lab.yaml ... --format json`, and returns its answer.
fn fit(code: i32, args: &[&str]) -> Value {
    serde_json::from_str(&told(code, &[&["--format", "json"], args].concat())).expect("JSON")
}

fn told(code: i32, args: &[&str]) -> String {
    let dir = empty();
    std::fs::write(dir.path().join("lab.yaml"), LAB).unwrap();
    stdout(dir.path(), &[&["fit", "lab.yaml"], args].concat(), code)
}

fn where_a_model_fits_and_with_what_memory_is_as_computed_on_paper() {
    let found = fit(0, &["--model", "qwen3-32b"]);
    // 1.2 x 65,524,246,528 is 78,629,095,833.6, rounded down to whole bytes, plus 2 GiB.
    assert_eq!(found["need_bytes"], 78_629_095_833_u64 + (2 << 30));
    // Nine tenths of 80 GiB on each of two GPUs. One GPU would hold 77,309,411,328 bytes, which is not enough.
    let expected = serde_json::json!([[{
        "node": "beta", "main": true, "ram_bytes": 0,
        "gpus": [{"gpu": 0, "takes_bytes": 77_309_411_328_u64}, {"gpu": 1, "takes_bytes": 77_309_411_328_u64}],
    }]]);
    assert_eq!(found["placements"], expected);
    // An embedding model takes what it needs: 1.2 x 2,272,000,000 and 512 MiB.
    let found = fit(0, &["--model", "bge-m3"]);
    assert_eq!(found["placements"][0][0]["gpus"][0]["takes_bytes"], 2_726_400_000_u64 + (512 << 20));
}

fn a_gguf_model_takes_its_layers_and_what_is_fixed() {
    let gguf =
        "gguf: {layers: 33, layer_memory: 550MiB, fixed_memory: 1GiB, ram_offloaded: 1GiB, ram_unoffloaded: 19GiB}";
    let asked = |layer: &str| format!("{{name: g, weights: 18GiB, {}}}", gguf.replace("550MiB", layer));
    let found = fit(0, &["--model", &asked("550MiB")]);
    // 33 x 550 MiB and 1,024 MiB; nothing else of the GPU is reserved.
    assert_eq!(found["need_bytes"], 19_174_u64 << 20);
    assert_eq!(found["placements"][0][0]["gpus"][0]["takes_bytes"], 19_174_u64 << 20);
    // 15 layers of 5 GiB and the fixed part are 76 GiB of each GPU; all 33 layers save 18 GiB of RAM, so these 30 save
    // 30 / 33 of that.
    let found = fit(0, &["--model", &asked("5GiB")]);
    let part = serde_json::json!([[{
        "node": "beta", "main": true, "ram_bytes": (19_u64 << 30) - 17_570_320_756,
        "gpus": [{"gpu": 0, "takes_bytes": 76_u64 << 30}, {"gpu": 1, "takes_bytes": 76_u64 << 30}],
    }]]);
    assert_eq!(found["placements"], part);
    // A request for all layers on GPUs, or for none, is followed exactly.
    fit(1, &["--model", &asked("5GiB"), "--parameter=--gpu-layers=33"]);
    let found = fit(0, &["--model", &asked("5GiB"), "--parameter=--gpu-layers=0"]);
    assert_eq!(found["placements"][0][0]["gpus"], serde_json::json!([]));
    assert_eq!(found["placements"][0][0]["ram_bytes"], 19_u64 << 30);
}

fn what_runs_at_a_time_is_in_the_way_then_and_not_before() {
    for (code, at) in [(0, "59s"), (1, "2m"), (0, "11m")] {
        fit(code, &["--model", "qwen3-32b", "--at", at]);
    }
}

fn each_change_that_is_named_helps() {
    let asked = ["--model", "qwen3-32b", "--replicas", "2"];
    let found = fit(1, &asked);
    assert_eq!(found["refused"]["replica"], 1);
    let changes = found["changes"].as_array().unwrap();
    let has = |change: Value| assert!(changes.contains(&change), "{change} of {changes:?}");
    has(serde_json::json!({"ready": "alpha"}));
    fit(0, &[&asked[..], &["--set", "nodes.alpha.state=ready"]].concat());
    // One GPU holds the 75.23 GiB of a replica at 95 % of 80 GiB, but not at 90 %.
    has(serde_json::json!({"gpu_memory_utilization": 0.95}));
    fit(0, &[&asked[..], &["--parameter=--gpu-memory-utilization=0.95"]].concat());
    // Two halves of two GPUs also hold it, but 0.55 twice on each GPU is more than there is.
    fit(0, &[&asked[..], &["--parameter=--gpu-memory-utilization=0.50"]].concat());
    fit(1, &[&asked[..], &["--parameter=--gpu-memory-utilization=0.55"]].concat());
    // The largest weights that fit: two replicas, one of them on two GPUs of 24 GiB, or one on one GPU of 80 GiB.
    let weights = changes.iter().find_map(|change| change["weights_bytes"].as_u64()).expect("lighter weights help");
    let model = |weights: u64| format!("{{name: qwen3-32b, weights: {weights}B}}");
    fit(0, &["--replicas", "2", "--model", &model(weights)]);
    fit(1, &["--replicas", "2", "--model", &model(weights + (64 << 20))]);
}

/// Releases place a model on picked GPUs even if it does not fit.
fn what_a_release_would_overcommit_does_not_fit() {
    let picked = ["--model", "qwen3-32b", "--gpus", "gamma/0,gamma/1"];
    // The need is 1.2 x 65,524,246,528 bytes and 2 GiB. 2.3.0 counts whole bytes; before 0.8 a fraction of a byte
    // counted.
    let parts = [40_388_289_741_u64, 40_388_289_741, 40_388_289_740];
    for (release, part) in ["gpustack-0.6.0", "gpustack-0.7.1", "gpustack-2.3.0"].into_iter().zip(parts) {
        let found = fit(1, &[&picked[..], &["--profile", release]].concat());
        assert_eq!((&found["fits"], found["placements"].as_array().unwrap().len()), (&Value::Bool(false), 1));
        // Nine tenths of the 24,564 MiB of each of the two GPUs are booked, and half of the need is needed on each.
        let over = serde_json::json!({
            "replica": 0, "node": "gamma", "gpu": 1, "free_bytes": 24_564_u64 << 20,
            "takes_bytes": 23_181_498_777_u64, "part_bytes": part,
        });
        assert_eq!(found["overcommitted"][1], over);
    }
    // 2.3.0 does not check the memory for a model that is not an LLM: 1.2 x 60 GiB and 512 MiB on 24 GiB.
    let embedding = ["--model", "{name: e, weights: 60GiB, category: embedding}", "--gpus", "gamma/0"];
    let found = fit(1, &[&embedding[..], &["--profile", "gpustack-2.3.0"]].concat());
    assert_eq!(found["overcommitted"][0]["takes_bytes"], 77_846_282_240_u64);
    // The profile without these faults places neither, and a release does not overcommit a model that fits.
    for asked in [&picked[..], &embedding[..]] {
        let found = fit(1, asked);
        assert_eq!((&found["overcommitted"], &found["placements"]), (&serde_json::json!([]), &serde_json::json!([])));
    }
    assert_eq!(fit(0, &["--model", "qwen3-8b", "--profile", "gpustack-2.3.0"])["overcommitted"], serde_json::json!([]));
}

fn to_reserve_more_can_be_the_change_that_helps() {
    let asked = ["--model", "qwen3-32b", "--parameter=--gpu-memory-utilization=0.3"];
    let found = fit(1, &asked);
    // Two GPUs of 80 GiB hold 40 GiB each at 50 %, and 35.99 GiB at 45 %; half of the need is 37.6 GiB.
    let change = serde_json::json!({"gpu_memory_utilization": 0.5});
    assert!(found["changes"].as_array().unwrap().contains(&change), "{}", found["changes"]);
    let text = told(1, &[&asked[..], &["--format", "human"]].concat());
    assert!(text.contains("reserve 50% of each GPU instead of 30%: --gpu-memory-utilization=0.50"), "{text}");
}

/// With the parameters of SGLang: 65,524,246,528 bytes of weights need two GPUs of 80 GiB, because 85 % of one are not
/// enough.
fn sglang_is_asked_in_its_own_words() {
    let asked = ["--model", "qwen3-32b", "--backend", "sglang"];
    let found = fit(0, &[&asked[..], &["--parameter=--mem-fraction-static=0.85"]].concat());
    assert_eq!(found["placements"][0][0]["gpus"][1]["takes_bytes"], 73_014_444_032_u64);
    let found = fit(0, &[&asked[..], &["--parameter=--mem-fraction-static=0.95"]].concat());
    assert_eq!(found["placements"][0][0]["gpus"].as_array().unwrap().len(), 1);
    fit(1, &[&asked[..], &["--parameter=--tp-size=1"]].concat());
    let text = told(1, &[&asked[..], &["--parameter=--tp-size=1", "--format", "human"]].concat());
    assert!(text.contains("--mem-fraction-static=0.95"), "{text}");
}

fn a_file_without_a_profile_is_asked_under_gpustack() {
    let dir = empty();
    std::fs::write(dir.path().join("lab.yaml"), LAB.replace("profile: gpustack\n", "")).unwrap();
    let found = stdout(dir.path(), &["fit", "lab.yaml", "--format", "json", "--model", "qwen3-8b"], 0);
    assert_eq!(serde_json::from_str::<Value>(&found).unwrap()["profile"], "gpustack");
    let asked = ["fit", "lab.yaml", "--format", "json", "--model", "qwen3-8b", "--profile", "first-fit"];
    assert_eq!(serde_json::from_str::<Value>(&stdout(dir.path(), &asked, 0)).unwrap()["profile"], "first-fit");
}

fn a_model_that_cannot_be_asked_about_is_told_so() {
    let dir = empty();
    std::fs::write(dir.path().join("lab.yaml"), LAB).unwrap();
    for (args, said) in [
        (["--model", "qwen3-33b"], "did you mean `Qwen3-32B`?"),
        (["--model", "{name: mine}"], "the size of the model's weights is missing"),
    ] {
        let all = [&["fit", "lab.yaml"], &args[..]].concat();
        let output = crate::cli::dryrack(dir.path(), &all).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text.contains(said), "{text}");
    }
}
