//! Tests of what a placer says of places and picks of a model. All GPUs have 80 GiB, and all nodes 64 GiB of RAM.

use std::sync::Arc;

use super::options::{DeploymentFilter, DeploymentOptions, Generator, Left, SingleNeed};
use super::placer::ModelPlacer;
use crate::context::PlacementContext;
use crate::decision::Decision;
use crate::node_class::Grouping;
use crate::pick::on_node;
use crate::placer::Placer;
use crate::test_world::{self, fleet, node, options, with_gpus};
use crate::verdict::Verdict;
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, GpuClaim, GpuState, Hosting, ModelKey, NodeClaim, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_units::{Bytes, GpuShare};
use dryrack_workload::Demand;

fn model(need: u64) -> Demand {
    Demand::of(Arc::new(test_world::model(need, "")))
}

fn with_placer<T>(demand: &Demand, fleet: &Fleet, ask: impl FnOnce(&ModelPlacer<'_>) -> T) -> T {
    let single = Generator::SingleGpu { need: SingleNeed::Free, left: Left::Claim };
    let options = DeploymentOptions {
        generators: vec![single, Generator::EvenNodes {}],
        filters: vec![DeploymentFilter::Picked, DeploymentFilter::Ready],
        ..options().deployments
    };
    let deployment = demand.model().expect("a model");
    ask(&ModelPlacer::new(&options, demand, deployment, PlacementContext::UNSUBMITTED, fleet))
}

/// A claim of RAM and of GPU memory in GiB.
fn claim(node: usize, ram: u64, gpus: &[(u16, u64)]) -> NodeClaim {
    let part =
        |(index, gib): &(u16, u64)| GpuClaim { index: *index, share: GpuShare::ZERO, memory: Bytes::from_gib(*gib) };
    let gpus = gpus.iter().map(part).collect();
    NodeClaim { tasks: 1, ram: Bytes::from_gib(ram), gpus, ..NodeClaim::of_nothing(NodeId::new(node)) }
}

fn placement(claims: impl IntoIterator<Item = NodeClaim>) -> Placement {
    Placement::new(claims.into_iter().collect())
}

#[test]
fn a_place_of_a_model_still_fits_while_its_gpus_work_and_have_its_memory_free() {
    let still_fits = |fleet: &Fleet, place: NodeClaim| {
        with_placer(&model(40), fleet, |placer| placer.still_fits(&placement([place])))
    };
    let both = || claim(0, 0, &[(0, 30), (1, 30)]);
    let mut held = fleet([with_gpus(2)]);
    held.take(&placement([claim(0, 4, &[(1, 50)])]));
    assert!(still_fits(&held, both()));
    assert!(!still_fits(&held, claim(0, 0, &[(0, 30), (1, 31)])));
    assert!(still_fits(&held, claim(0, 60, &[(0, 80)])) && !still_fits(&held, claim(0, 61, &[(0, 80)])));
    held.set_gpu_state(GpuId { node: NodeId::new(0), index: 0 }, GpuState::Failed);
    assert!(!still_fits(&held, both()) && still_fits(&held, claim(0, 0, &[(1, 30)])));
    held.set_node_state(NodeId::new(0), NodeState::NotReady);
    assert!(!still_fits(&held, claim(0, 0, &[(1, 30)])));
    // The memory of a unified GPU is part of the RAM.
    let mut shape = node(&["a"]);
    (shape.gpus[0].unified, shape.gpus[0].memory) = (true, Bytes::from_gib(64));
    let pooled = fleet([shape]);
    assert!(still_fits(&pooled, claim(0, 24, &[(0, 40)])) && !still_fits(&pooled, claim(0, 25, &[(0, 40)])));
}

#[test]
fn a_node_that_is_too_small_alone_is_refused_for_good_only_if_other_nodes_can_never_help() {
    let judged =
        |fleet: &Fleet, need, node| with_placer(&model(need), fleet, |placer| placer.select_node(NodeId::new(node)));
    let mut world = fleet([with_gpus(1), with_gpus(1), with_gpus(1), with_gpus(0)]);
    // Two nodes hold 60 GiB each, and all three 80 GiB each.
    assert_eq!(
        [80, 120, 240].map(|need| judged(&world, need, 0)),
        [(Verdict::Fit, false), (Verdict::Fit, true), (Verdict::Fit, true)]
    );
    assert_eq!(judged(&world, 241, 0).0, Verdict::Never(Reason::InsufficientGpuMemory));
    assert_eq!(judged(&world, 120, 3).0, Verdict::Never(Reason::TooFewGpus));
    // Two nodes hold parts of another model, and cannot hold parts of a second one.
    let hosting = Hosting { model: ModelKey(9), model_name: "other".into(), backend: "vllm".into() };
    let other = AttemptId { job: JobId::new(9), replica: 0, number: 1 };
    let parts = [claim(0, 0, &[(0, 8)]), NodeClaim { tasks: 0, ..claim(2, 0, &[(0, 8)]) }];
    world.host(other, &placement(parts), &hosting);
    assert_eq!(judged(&world, 72, 0), (Verdict::Fit, false));
    for node in [0, 1, 2] {
        // It is told what a model is told that is picked for this node.
        let picked = on_node(&model(120), NodeId::new(node));
        let reasons = with_placer(&picked, &world, |placer| placer.decide(Grouping::EachNode, 1));
        let Decision::Refuse { reasons, .. } = reasons else { panic!("120 GiB do not fit on one node") };
        assert!(reasons.iter().any(|(reason, _)| reason == Reason::InsufficientGpuMemory), "{reasons:?}");
        assert_eq!(judged(&world, 120, node).0, Verdict::Unfit(Reason::InsufficientGpuMemory), "node {node}");
    }
}
