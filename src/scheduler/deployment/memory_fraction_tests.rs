//! The parts are compared with those of GPUStack 2.3.0: its `MemFractionStaticCalculator` was called for each row.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::arguments::Arguments;
use super::memory_fraction::{Question, of_kinds};
use super::options::{ArgumentReading, DeploymentOptions, Pool};
use super::request::{Halt, Request, ReservedPart};
use crate::context::PlacementContext;
use crate::test_world::{fleet, model, options};
use dryrack_catalog::Vendor;
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, GpuKind, GpuShape, NodeShape};
use dryrack_ids::{GpuId, NodeId};
use dryrack_units::{Bytes, MilliCpu};
use dryrack_workload::{Backend, Demand, Deployment, Pick};

/// MiB of the GPU, arguments, whether the model sees images, and the part, on GPUs of NVIDIA. Below zero, nothing can be
/// reserved.
const NVIDIA: [(u64, &str, bool, f64); 41] = [
    (8192, "", false, 0.545),
    (16384, "", false, 0.772),
    (20480, "", false, 0.816),
    (24576, "", false, 0.847),
    (32256, "", false, 0.883),
    (32768, "", false, 0.885),
    (35840, "", false, 0.809),
    (40960, "", false, 0.833),
    (49152, "", false, 0.861),
    (61440, "", false, 0.781),
    (65536, "", false, 0.795),
    (81920, "", false, 0.836),
    (92160, "", false, 0.854),
    (96256, "", false, 0.86),
    (144384, "", false, 0.907),
    (163840, "", false, 0.84),
    (196608, "", false, 0.867),
    (24576, "--tp-size=4", false, 0.827),
    (81920, "--tp-size=4", false, 0.825),
    (24576, "--tp-size=8 --pp-size=2", false, 0.764),
    (81920, "--tp-size=8 --pp-size=2", false, 0.806),
    (24576, "--cuda-graph-max-bs=512", false, 0.807),
    (81920, "--cuda-graph-max-bs=512", false, 0.83),
    (24576, "--chunked-prefill-size=-1", false, 0.972),
    (81920, "--chunked-prefill-size=-1", false, 0.875),
    (24576, "--chunked-prefill-size=512", false, 0.847),
    (81920, "--chunked-prefill-size=512", false, 0.875),
    (24576, "--enable-dp-attention --dp-size=2", false, 0.841),
    (81920, "--enable-dp-attention --dp-size=2", false, 0.817),
    (24576, "--enable-dp-attention --dp-size=2 --tp-size=4", false, 0.807),
    (81920, "--enable-dp-attention --dp-size=2 --tp-size=4", false, 0.769),
    (24576, "--speculative-algorithm=EAGLE", false, 0.764),
    (81920, "--speculative-algorithm=EAGLE", false, 0.811),
    (24576, "--speculative-algorithm=NGRAM", false, 0.847),
    (81920, "--speculative-algorithm=NGRAM", false, 0.836),
    (24576, "--speculative-algorithm=STANDALONE", false, 0.597),
    (81920, "--speculative-algorithm=STANDALONE", false, 0.761),
    (24576, "--enable-piecewise-cuda-graph=true --piecewise-cuda-graph-max-tokens=4097", false, 0.805),
    (81920, "--enable-piecewise-cuda-graph=true --piecewise-cuda-graph-max-tokens=4097", false, 0.823),
    (81920, "", true, 0.794),
    (24576, "--tp-size=4", true, 0.786),
];

/// The same on NPUs of Ascend.
const ASCEND: [(u64, &str, bool, f64); 6] = [
    (24576, "", false, 0.0),
    (32768, "", false, 0.885),
    (49152, "", false, 0.861),
    (62464, "", false, 0.201),
    (65536, "", false, 0.795),
    (98304, "", false, 0.863),
];

fn node_of(vendor: Vendor, sizes: &[u64]) -> NodeShape {
    let gpu = |mib: &u64| GpuShape { vendor: Some(vendor), ..GpuShape::of("a", Bytes::new(mib << 20)) };
    NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), sizes.iter().map(gpu).collect())
}

fn deployment(arguments: &str, sees_images: bool, gpus_per_replica: Option<u32>) -> Deployment {
    let mut deployment = Deployment {
        backend: Backend::Sglang,
        gpus_per_replica,
        arguments: arguments.split_whitespace().map(Arc::from).collect(),
        environment: BTreeMap::new(),
        ..model(0, "")
    };
    deployment.model.vision_heads = sees_images.then_some(16);
    deployment
}

fn parts(fleet: &Fleet, deployment: &Deployment, pick: Option<&Pick>, pool: Pool) -> Vec<(GpuKind, f64)> {
    asked(fleet, deployment, pick, pool).expect("no exception")
}

fn asked(
    fleet: &Fleet,
    deployment: &Deployment,
    pick: Option<&Pick>,
    pool: Pool,
) -> Result<Vec<(GpuKind, f64)>, Reason> {
    let options = DeploymentOptions { pool, ..options().deployments };
    let demand = Demand { pick: pick.cloned(), ..Demand::of(Arc::new(deployment.clone())) };
    let request = Request::of(deployment, &demand, PlacementContext::UNSUBMITTED, fleet);
    let nodes: Vec<u32> = (0..fleet.len() as u32).collect();
    let arguments = Arguments::read(ArgumentReading::Keyed, &deployment.arguments).expect("closed quotes");
    let serving = fleet.serving();
    let question =
        Question { options: &options, request: &request, serving: &serving, nodes: &nodes, arguments: &arguments };
    match of_kinds(&question) {
        Ok(ReservedPart::OfKind(parts)) => Ok(parts.into_vec()),
        Ok(ReservedPart::OfEach(part)) => panic!("one part for all: {part}"),
        Err(Halt(reason)) => Err(reason),
    }
}

#[test]
fn parts_are_those_that_gpustack_computes() {
    for (vendor, kind, rows) in [(Vendor::Nvidia, GpuKind::Cuda, &NVIDIA[..]), (Vendor::Ascend, GpuKind::Cann, &ASCEND)]
    {
        for (mib, arguments, sees_images, part) in rows {
            let fleet = fleet([node_of(vendor, &[*mib])]);
            let found = parts(&fleet, &deployment(arguments, *sees_images, None), None, Pool::LastKind);
            assert_eq!(found, [(kind, *part)], "{mib} MiB, {arguments}, images: {sees_images}");
        }
    }
}

#[test]
fn the_smallest_gpu_of_a_kind_decides_about_its_kind_alone() {
    let fleet = fleet([
        node_of(Vendor::Nvidia, &[144_384, 144_384]),
        node_of(Vendor::Amd, &[196_608]),
        node_of(Vendor::Nvidia, &[24_576]),
    ]);
    let found = parts(&fleet, &deployment("", false, None), None, Pool::LastKind);
    assert_eq!(found, [(GpuKind::Cuda, 0.847), (GpuKind::Rocm, 0.867)]);
}

#[test]
fn only_gpus_that_a_pick_uses_count() {
    let fleet =
        fleet([node_of(Vendor::Nvidia, &[24_576, 81_920, 81_920, 81_920, 81_920]), node_of(Vendor::Amd, &[196_608])]);
    let gpus = |indexes: &[u16]| {
        Pick::Gpus(indexes.iter().map(|index| GpuId { node: NodeId::new(0), index: *index }).collect())
    };
    let found =
        |indexes: &[u16], each| parts(&fleet, &deployment("", false, each), Some(&gpus(indexes)), Pool::LastKind);
    assert_eq!(found(&[1, 2], None), [(GpuKind::Cuda, 0.834)], "(81,920 - 13,440 - 128 for the second GPU) / 81,920");
    assert_eq!(found(&[0, 1], None), [(GpuKind::Cuda, 0.842)], "(24,576 - 3,760 - 128) / 24,576");
    assert_eq!(found(&[1, 2, 3, 4], None), [(GpuKind::Cuda, 0.825)], "four GPUs, as with a tensor-parallel size of 4");
    assert_eq!(found(&[0, 1], Some(1)), [(GpuKind::Cuda, 0.842)], "a replica takes one of two equally free GPUs");
}

#[test]
fn a_node_with_a_picked_kind_but_no_pick_of_it_is_an_exception() {
    let mut mixed = node_of(Vendor::Amd, &[196_608]);
    mixed.gpus.extend(node_of(Vendor::Nvidia, &[24_576]).gpus);
    let fleet = fleet([node_of(Vendor::Nvidia, &[81_920]), mixed]);
    let pick = Pick::Gpus([0, 1].map(|node| GpuId { node: NodeId::new(node), index: 0 }).into());
    let found = |each| asked(&fleet, &deployment("", false, each), Some(&pick), Pool::LastKind);
    assert_eq!(found(Some(1)), Err(Reason::UpstreamTypeError));
    assert!(found(None).is_ok());
}

#[test]
fn a_node_of_two_kinds_shows_its_last_kind() {
    let mut mixed = node_of(Vendor::Nvidia, &[81_920]);
    mixed.gpus.extend(node_of(Vendor::Amd, &[196_608]).gpus);
    let fleet = fleet([mixed, node_of(Vendor::Nvidia, &[81_920])]);
    let found = |pool| parts(&fleet, &deployment("", false, None), None, pool);
    assert_eq!(found(Pool::LastKind), [(GpuKind::Cuda, 0.0), (GpuKind::Rocm, 0.867)], "nothing if kinds are mixed up");
    assert_eq!(found(Pool::EachKind), [(GpuKind::Cuda, 0.836), (GpuKind::Rocm, 0.867)]);
}
