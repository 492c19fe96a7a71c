//! What follows from a request before any node is considered: numbers of GPUs, the need, and the reserved part.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::options::{
    ArgumentReading, Fault, Generator, Rounding, SglangOptions, TestedNumber, UnreadableNeed, UtilizationRange,
};
use super::request::{Halt, PickedGpu, Picks, Plan, Request, ReservedPart, plan, whole_offload};
use super::{DeploymentOptions, Divided};
use crate::test_world::options;
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, GpuKind, Serving};
use dryrack_units::Bytes;
use dryrack_workload::{Backend, Category, Deployment, GgufEstimate, Strategy};

fn keyed() -> DeploymentOptions {
    options().deployments
}

fn loose() -> DeploymentOptions {
    DeploymentOptions { arguments: ArgumentReading::AnyElement, ..keyed() }
}

fn with_sglang() -> DeploymentOptions {
    DeploymentOptions { sglang: Some(SglangOptions { generators: vec![Generator::EvenGpus {}] }), ..keyed() }
}

fn model(backend: Backend, arguments: &str) -> Deployment {
    let facts = r#"{"name": "m", "categories": [], "architecture": null, "weights": 0, "heads": null, "vision_heads": null,
        "vocabulary": null, "quantization": null}"#;
    Deployment {
        model: serde_json::from_str(facts).expect("facts of a model"),
        backend,
        strategy: Strategy::Spread,
        distributable: true,
        selector: None,
        gpus_per_replica: None,
        arguments: arguments.split_whitespace().map(Arc::from).collect(),
        environment: BTreeMap::new(),
    }
}

fn picked(count: u32) -> Picks {
    let gpu = |index| PickedGpu { node: "n0".into(), kind: GpuKind::Cuda, index };
    if count == 0 { Picks::Free } else { Picks::Gpus((0..count).map(gpu).collect()) }
}

fn planned(options: &DeploymentOptions, deployment: &Deployment, picks: u32) -> Result<Plan, Reason> {
    let fleet = Fleet::default();
    let request = Request {
        deployment,
        picks: picked(picks),
        model: None,
        replicas: 1,
        runners: None,
        fields: None,
        fleet: &fleet,
        is_ideal: false,
    };
    plan(options, &request, &Serving::default(), &[]).map_err(|Halt(reason)| reason)
}

/// The number of GPUs of a replica, and its tensor-parallel size.
fn sizes(
    options: &DeploymentOptions,
    backend: Backend,
    arguments: &str,
    picks: u32,
) -> Result<(Option<i64>, Option<i64>), Reason> {
    planned(options, &model(backend, arguments), picks).map(|plan| (plan.count, plan.tensor_parallel))
}

#[test]
fn a_replica_takes_the_product_of_its_parallel_sizes() {
    let bad = Err(Reason::BadArgument);
    for (arguments, expected) in [
        ("", Ok((None, None))),
        ("--tensor-parallel-size=4", Ok((Some(4), Some(4)))),
        ("--tp=4 --pp=2", Ok((Some(8), Some(4)))),
        ("--pipeline-parallel-size=3", Ok((Some(3), None))),
        ("--tp=2 --pp=2 --pcp=2 --dp=3", Ok((Some(24), Some(2)))),
        ("--tp=x", Ok((None, None))),
        ("--tp=0", bad),
        ("--tp=-1", bad),
        ("--pp=0", bad),
        ("--pcp=0", bad),
        ("--dp=0", bad),
        ("--dpl=0", bad),
        // With hybrid load balancing, only the local size counts.
        ("--tp=2 --dp=8 --dpl=2 --data-parallel-hybrid-lb", Ok((Some(4), Some(2)))),
        ("--tp=2 --dp=8 --data-parallel-hybrid-lb", Ok((None, Some(2)))),
    ] {
        assert_eq!(sizes(&keyed(), Backend::Vllm, arguments, 0), expected, "{arguments}");
    }
    for (arguments, expected) in [
        ("--tp=4 --pp=2", Ok((Some(8), Some(4)))),
        ("--pp=2", Ok((Some(2), None))),
        ("--tp=4 --dp=2", Ok((Some(4), Some(4)))),
        ("--tp=0", Ok((Some(0), Some(0)))),
        ("--tp=", Ok((None, None))),
        ("--tp=x", bad),
        ("--pp=x", bad),
    ] {
        assert_eq!(sizes(&loose(), Backend::Vllm, arguments, 0), expected, "{arguments}");
    }
    for (arguments, expected) in [
        ("--tp-size=2 --pp-size=2 --dp-size=2", Ok((Some(8), Some(2)))),
        ("--tp-size=4 --dp-size=2 --enable-dp-attention", Ok((Some(4), Some(4)))),
        ("--dp=2", Ok((Some(2), None))),
        ("--pp-size=0", bad),
    ] {
        assert_eq!(sizes(&keyed(), Backend::Sglang, arguments, 0), expected, "{arguments}");
    }
}

#[test]
fn arguments_of_sglang_that_contradict_each_other_are_an_exception() {
    for (arguments, contradicts) in [
        ("--tp-size=4", false),
        ("--tp-size=4 --nnodes=2", false),
        ("--tp-size=4 --nnodes=3", true),
        ("--tp-size=2 --pp-size=2 --nnodes=4", false),
        ("--nnodes=", false),
        ("--nnodes=0", true),
        ("--nnodes=x", true),
        ("--pp-size=2 --enable-mixed-chunk=true", true),
        ("--pp-size=2 --enable-mixed-chunk=off", false),
        ("--pp-size=1 --enable-mixed-chunk=YES", false),
        ("--enable-mixed-chunk=perhaps", true),
        ("--pp-size=2 --speculative-algorithm=EAGLE", true),
        ("--speculative-algorithm=EAGLE", false),
        ("--speculative-algorithm=EAGLE --enable-mixed-chunk=1", true),
        ("--tp-size=2 --dp-size=2 --nnodes=2", true),
        ("--tp-size=2 --dp-size=1 --nnodes=2", false),
        ("--tp-size=2 --dp-size=2 --nnodes=1", false),
        ("--tp-size=2 --dp-size=2 --nnodes=2 --enable-dp-attention", false),
    ] {
        let refused = sizes(&with_sglang(), Backend::Sglang, arguments, 0);
        assert_eq!(refused == Err(Reason::UpstreamValueError), contradicts, "{arguments}: {refused:?}");
        // Only a profile that models SGLang checks them, and only for SGLang.
        assert!(sizes(&keyed(), Backend::Sglang, arguments, 0).is_ok(), "{arguments}");
        assert!(sizes(&with_sglang(), Backend::Vllm, arguments, 0).is_ok(), "{arguments}");
    }
}

#[test]
fn picked_gpus_agree_with_the_arguments() {
    let count = |options: &DeploymentOptions, arguments: &str, each: Option<u32>, picks, skip: Option<&str>| {
        let mut deployment = model(Backend::Vllm, arguments);
        deployment.gpus_per_replica = each;
        let skip = skip.map(|text| ("GPUSTACK_SKIP_GPU_COUNT_CHECK".into(), text.into()));
        deployment.environment.extend(skip);
        planned(options, &deployment, picks).map(|plan| plan.count)
    };
    let differs = Err(Reason::ParallelismMismatch);
    assert_eq!(count(&keyed(), "", None, 3, None), Ok(Some(3)));
    assert_eq!(count(&keyed(), "", Some(2), 4, None), Ok(Some(2)));
    assert_eq!(count(&keyed(), "", Some(0), 4, None), Ok(Some(4)));
    assert_eq!(count(&keyed(), "", Some(2), 0, None), Ok(None));
    assert_eq!(count(&loose(), "", Some(2), 4, None), Ok(Some(4)));
    assert_eq!(count(&keyed(), "--tp=2", None, 2, None), Ok(Some(2)));
    assert_eq!(count(&keyed(), "--tp=2", None, 4, None), differs);
    for (text, skips) in [(" True ", true), ("1", true), ("yes", true), ("on", true), ("0", false), ("", false)] {
        assert_eq!(count(&keyed(), "--tp=2", None, 4, Some(text)), if skips { Ok(Some(4)) } else { differs }, "{text}");
    }
    assert_eq!(count(&loose(), "--tp=2", None, 4, Some("1")), differs);
}

#[test]
fn numbers_of_the_model_are_multiples_of_the_tested_number() {
    let mut deployment = model(Backend::Vllm, "--tp=4 --pp=2");
    (deployment.model.heads, deployment.model.vocabulary) = (Some(12), Some(0));
    let tested = |tested, deployment: &Deployment, picks| {
        let mut options = keyed();
        options.divisible.tested = tested;
        planned(&options, deployment, picks).map(|plan| plan.heads_known)
    };
    // 12 heads are divided by a tensor-parallel size of 4, but not by 8 GPUs.
    assert_eq!(tested(TestedNumber::TensorParallel, &deployment, 0), Ok(true));
    assert_eq!(tested(TestedNumber::Count, &deployment, 0), Err(Reason::Indivisible));
    assert_eq!(tested(TestedNumber::TensorParallelOrPicked, &deployment, 8), Ok(true));
    deployment.arguments = Vec::new();
    assert_eq!(tested(TestedNumber::TensorParallelOrPicked, &deployment, 8), Err(Reason::Indivisible));
    assert_eq!(tested(TestedNumber::TensorParallelOrPicked, &deployment, 0), Ok(true));
    assert_eq!(tested(TestedNumber::TensorParallel, &deployment, 8), Ok(true));
    let mut options = keyed();
    (options.divisible.tested, options.divisible.indivisible) = (TestedNumber::Count, Fault::ValueError);
    assert_eq!(planned(&options, &deployment, 8), Err(Reason::UpstreamValueError));
    deployment.model.heads = None;
    assert_eq!(tested(TestedNumber::Count, &deployment, 8), Ok(false));
    // The vision part counts unless an argument switches it off.
    deployment.model.vision_heads = Some(12);
    let mut options = keyed();
    options.divisible.by = vec![Divided::VisionHeads];
    for (backend, argument, ok) in [
        (Backend::Vllm, "", false),
        (Backend::Vllm, "--language-model-only", true),
        (Backend::Vllm, "--language-only", false),
        (Backend::Sglang, "--language-only", true),
        (Backend::Sglang, "--language-model-only", false),
    ] {
        let arguments = argument.split_whitespace().map(Arc::from).collect();
        let one = Deployment { backend, arguments, ..deployment.clone() };
        assert_eq!(planned(&options, &one, 8).is_ok(), ok, "{argument}");
    }
    let plan = planned(&options, &Deployment { model: deployment.model.clone(), ..model(Backend::Vllm, "") }, 0);
    let plan = plan.expect("nothing is tested");
    assert_eq!([0, 1, 5, 6, 12, 24].map(|number| plan.divides(number)), [false, true, false, true, true, false]);
}

#[test]
fn a_part_of_each_gpu_is_reserved_by_what_the_arguments_or_the_model_say() {
    let part = |options: &DeploymentOptions, deployment: &Deployment| {
        planned(options, deployment, 0).map(|plan| match plan.reserved {
            ReservedPart::OfEach(part) => Some((part * 1000.0) as u32),
            ReservedPart::OfKind(_) => None,
        })
    };
    let stated = |options: &DeploymentOptions, text: &str| {
        part(options, &model(Backend::Vllm, &format!("--gpu-memory-utilization={text}")))
    };
    let any = {
        let mut options = keyed();
        (options.utilization.range, options.utilization.unreadable) = (UtilizationRange::Any, Fault::ValueError);
        options
    };
    assert_eq!(
        (stated(&keyed(), "0.5"), stated(&keyed(), "0"), stated(&keyed(), "1")),
        (Ok(Some(500)), Ok(Some(0)), Ok(Some(1000)))
    );
    assert_eq!(
        (stated(&keyed(), "1.1"), stated(&keyed(), "-0.1")),
        (Err(Reason::BadArgument), Err(Reason::BadArgument))
    );
    assert_eq!((stated(&keyed(), "x"), stated(&keyed(), "")), (Err(Reason::BadArgument), Ok(Some(900))));
    assert_eq!((stated(&any, "1.5"), stated(&any, "x")), (Ok(Some(1500)), Err(Reason::UpstreamValueError)));
    assert_eq!(stated(&any, "inf"), Err(Reason::UpstreamValueError));
    // Without an argument: 0.9 for language models, for listed architectures, and for models of no category.
    let of = |categories: &[Category], architecture: Option<&str>| {
        let mut deployment = model(Backend::Vllm, "");
        deployment.model.categories = categories.to_vec();
        deployment.model.architecture = architecture.map(Arc::from);
        let mut options = keyed();
        options.utilization.architectures = vec!["Known".to_string()];
        part(&options, &deployment)
    };
    assert_eq!((of(&[], None), of(&[Category::Llm], None)), (Ok(Some(900)), Ok(Some(900))));
    assert_eq!(of(&[Category::Embedding], None), Ok(Some(0)));
    assert_eq!(of(&[Category::Embedding, Category::Llm], None), Ok(Some(900)));
    assert_eq!(of(&[Category::Embedding], Some("Known")), Ok(Some(900)));
    assert_eq!(of(&[Category::Embedding], Some("Other")), Ok(Some(0)));
    // A profile that models SGLang reserves by kind, unless an argument states the part.
    let sglang = |text: &str| part(&with_sglang(), &model(Backend::Sglang, text));
    assert_eq!(sglang("--mem-fraction-static=0.7"), Ok(Some(700)));
    assert_eq!((sglang("--mem-fraction-static=0"), sglang("")), (Ok(None), Ok(None)));
    let kinds = ReservedPart::OfKind([(GpuKind::Rocm, 0.0), (GpuKind::Cuda, 0.8)].into_iter().collect());
    assert_eq!([GpuKind::Cuda, GpuKind::Rocm, GpuKind::Cann].map(|kind| kinds.admits(kind)), [true, false, false]);
    assert_eq!(kinds.largest().to_bits(), 0.8f64.to_bits());
    assert_eq!(kinds.of(GpuKind::Cuda).to_bits(), 0.8f64.to_bits());
    assert!(ReservedPart::OfEach(0.0).admits(GpuKind::Cann));
}

#[test]
fn a_model_needs_its_weights_and_an_overhead() {
    let need = |options: &DeploymentOptions, categories: &[Category], weights: u64, stated: Option<&str>| {
        let mut deployment = model(Backend::Vllm, "");
        (deployment.model.categories, deployment.model.weights) = (categories.to_vec(), Bytes::new(weights));
        deployment.environment.extend(stated.map(|text| ("GPUSTACK_MODEL_VRAM_CLAIM".into(), text.into())));
        planned(options, &deployment, 0).map(|plan| plan.need)
    };
    let mut exact = keyed();
    (exact.need.rounding, exact.need.unreadable) = (Rounding::Exact, UnreadableNeed::ValueError);
    // 1.2 * 1,001 is 1,201.2. 2 GiB are 2,147,483,648 bytes, and 512 MiB are 536,870,912.
    assert_eq!(need(&keyed(), &[], 1001, None), Ok(2_147_484_849.0));
    assert_eq!(need(&keyed(), &[Category::Llm, Category::Embedding], 1001, None), Ok(2_147_484_849.0));
    assert_eq!(need(&keyed(), &[Category::Embedding], 1000, None), Ok(536_872_112.0));
    assert_eq!(need(&exact, &[], 1001, None), Ok(1001.0 * 1.2 + 2_147_483_648.0));
    assert_eq!(need(&keyed(), &[], 1001, Some("5")), Ok(5.0));
    assert_eq!(need(&keyed(), &[Category::Embedding], 1000, Some("x")), Ok(536_872_112.0));
    assert_eq!(need(&exact, &[], 1001, Some("x")), Err(Reason::UpstreamValueError));
    let estimate = GgufEstimate {
        layers: 10,
        layer_memory: Bytes::new(7),
        fixed_memory: Bytes::new(5),
        ram_offloaded: Bytes::ZERO,
        ram_unoffloaded: Bytes::ZERO,
    };
    assert_eq!(whole_offload(&estimate), 75);
    let gguf = planned(&keyed(), &model(Backend::LlamaBox(estimate), "--ngl=3 --tp=0"), 0).expect("no parallel sizes");
    assert_eq!((gguf.need as u64, gguf.gpu_layers, gguf.count), (75, Some(3), None));
}

#[test]
fn only_sglang_with_rules_of_its_own_reserves_by_kinds() {
    let reserved =
        |options, backend, arguments| planned(&options, &model(backend, arguments), 0).map(|plan| plan.reserved);
    let nothing = Ok(ReservedPart::OfEach(0.0));
    assert_eq!(reserved(with_sglang(), Backend::Vllm, "--gpu-memory-utilization=0"), nothing);
    assert_eq!(reserved(keyed(), Backend::Sglang, "--mem-fraction-static=0"), nothing);
    assert_eq!(
        reserved(with_sglang(), Backend::Sglang, "--mem-fraction-static=0"),
        Ok(ReservedPart::OfKind(Vec::new().into()))
    );
}

#[test]
fn a_model_without_heads_counts_as_one_whose_heads_are_unknown() {
    for (heads, known) in [(None, false), (Some(0), false), (Some(1), true)] {
        let mut model = model(Backend::Vllm, "");
        model.model.heads = heads;
        assert_eq!(planned(&keyed(), &model, 0).map(|plan| plan.heads_known), Ok(known), "{heads:?}");
    }
}
