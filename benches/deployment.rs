//! Measures one decision about the placement of a model's replica, on 10, 100 and 1,000 nodes of 8 GPUs with 4
//! instances each.
//!
//! `cargo bench --bench deployment` measures all cases; words after `--` select the cases that contain them. `equal`
//! nodes all hold the same instances. `unequal` nodes all differ, so no judgement can be shared between nodes. The
//! table also shows times of the released program, measured by `tests/upstream/gpustack/placements/stopwatch.py`. The
//! results are in `benches/README.md`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dryrack_fleet::{Fleet, GpuKind, ModelKey, NodeState, Part, ServedInstance, Serving, ServingGpu, ServingNode};
use dryrack_profile::load_profile;
use dryrack_rng::Stream;
use dryrack_scheduler::DeploymentOptions;
use dryrack_scheduler::deployment::{Answer, Picks, Request, place};
use dryrack_units::Bytes;
use dryrack_workload::{Backend, Category, Deployment, ModelFacts, Strategy};

const SIZES: [usize; 3] = [10, 100, 1000];
const GPUS: u32 = 8;
const INSTANCES: u32 = 4;
const GIB: u64 = 1 << 30;
const LEAST: Duration = Duration::from_millis(500);
const FEWEST: usize = 100;

/// A profile, the weights of a model in GiB, and the milliseconds that the released program needs at each size, if
/// measured.
const CASES: [(&str, u64, [Option<f64>; 3]); 6] = [
    ("gpustack", 16, [None; 3]),
    ("gpustack", 140, [None; 3]),
    ("gpustack-0.6.0", 16, [Some(0.9), Some(5.8), Some(104.0)]),
    ("gpustack-0.6.0", 140, [None; 3]),
    ("gpustack-2.3.0", 16, [Some(10.9), Some(54.5), Some(2871.0)]),
    ("gpustack-2.3.0", 140, [None; 3]),
];

fn world(nodes: usize, unequal: bool) -> Serving {
    let mut serving = Serving::default();
    let labels = Arc::new([(Arc::from("os"), Arc::from("linux"))].into());
    let mut draws = Stream::new(1, "deployment bench", 0);
    for number in 0..nodes {
        serving.add(ServingNode {
            shape: None,
            name: format!("w{number}").into(),
            labels: Arc::clone(&labels),
            state: NodeState::Ready,
            ram: 1024 * GIB,
            unified: false,
            reserved_ram: 2 * GIB,
            reserved_memory: GIB,
            gpus: (0..GPUS).map(|index| ServingGpu { index, kind: GpuKind::Cuda, total: 80 * GIB }).collect(),
        });
        for index in 0..INSTANCES {
            // On unequal nodes, the memory that remains may be more or less than the reserved part.
            let claim = if unequal { draws.between(1, 72 * GIB) } else { 72 * GIB };
            let model = if unequal { draws.between(1, 50) } else { 99 };
            serving.host(instance(model, number, index, claim));
        }
    }
    serving
}

fn instance(model: u64, node: usize, index: u32, claim: u64) -> ServedInstance {
    let main = Part {
        node: Some(node),
        indexes: [index].into_iter().collect(),
        claims: [(index, claim)].into_iter().collect(),
        ram: 0,
    };
    ServedInstance {
        model: ModelKey(model),
        model_name: "x".into(),
        backend: "vllm".into(),
        kind: Some(GpuKind::Cuda),
        is_distributed: false,
        main: Some(main),
        subordinates: Default::default(),
    }
}

fn deployment(gib: u64) -> Deployment {
    Deployment {
        model: ModelFacts {
            name: "m".into(),
            categories: vec![Category::Llm],
            architecture: Some("Qwen3ForCausalLM".into()),
            weights: Bytes::from_gib(gib),
            heads: Some(64),
            vision_heads: None,
            vocabulary: None,
            quantization: None,
        },
        backend: Backend::Vllm,
        strategy: Strategy::Spread,
        distributable: true,
        selector: Some([(Arc::from("os"), Arc::from("linux"))].into()),
        gpus_per_replica: None,
        arguments: Vec::new(),
        environment: Default::default(),
    }
}

/// The median time of a decision. Each decision is timed separately, so that other load on the machine slows only few
/// of them.
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is asked")]
fn measure(options: &DeploymentOptions, deployment: &Deployment, serving: &Serving) -> Duration {
    let (model, fleet) = (Some(ModelKey(1)), &Fleet::default());
    let request = Request {
        deployment,
        picks: Picks::Free,
        model,
        replicas: 1,
        runners: None,
        fields: None,
        fleet,
        is_ideal: false,
    };
    let mut decisions: Vec<Duration> = Vec::new();
    let began = Instant::now();
    while began.elapsed() < LEAST || decisions.len() < FEWEST {
        let asked = Instant::now();
        let answer = std::hint::black_box(place(options, &request, serving, 1));
        decisions.push(asked.elapsed());
        assert!(matches!(answer, Answer::Place(_)), "every model fits");
    }
    decisions.sort_unstable();
    decisions[decisions.len() / 2]
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    println!("| profile | weights | nodes | state | one decision | released program |");
    println!("| --- | ---: | ---: | --- | ---: | ---: |");
    for (profile, gib, released) in CASES {
        let loaded = load_profile(profile, std::path::Path::new("")).expect("it comes with dryrack");
        for (size, released) in SIZES.into_iter().zip(released) {
            for state in ["equal", "unequal"] {
                let name = format!("| {profile} | {gib} GiB | {size} | {state} |");
                if !words.iter().all(|word| name.contains(word.as_str())) {
                    continue;
                }
                let serving = world(size, state == "unequal");
                let took = measure(&loaded.scheduler.deployments, &deployment(gib), &serving);
                let beside = released.filter(|_| state == "equal").map_or(String::new(), |took| format!("{took} ms"));
                println!("{name} {:.1} µs | {beside} |", took.as_secs_f64() * 1e6);
            }
        }
    }
    ExitCode::SUCCESS
}
