//! Drives the control plane by hand with one node and one job, and prints its commands: `cargo run --example
//! control_plane`.

use std::path::Path;
use std::sync::Arc;

use dryrack::control::{
    Command, Control, Demand, FleetFact, GpuDemand, GpuShape, GpuTake, Input, JobId, JobSpec, NodeId, NodeShape,
    NodeSpec, NodeState, TaskDemand, load_profile, step,
};
use dryrack::units::{Bytes, MilliCpu, SimTime};

pub fn main() {
    let profile = load_profile("first-fit", Path::new("")).unwrap_or_else(|error| panic!("{error}"));
    let mut control = Control::new(profile, 1);
    let gpu = GpuShape::of("l4", Bytes::from_gib(24));
    let shape = NodeShape::of(MilliCpu::from_cores(8), Bytes::from_gib(64), vec![gpu]);
    let spec = NodeSpec { name: "alpha".into(), shape: Arc::new(shape) };
    let gpus = GpuDemand { count: 1, take: GpuTake::Whole, models: Vec::new(), min_memory: None };
    let demand = Demand::of(TaskDemand { gpus: Some(gpus), ..TaskDemand::cpu_only(MilliCpu::from_cores(1)) });
    // The inputs of one instant form a step. After it the control plane settles and returns its commands.
    let inputs = [
        Input::Fleet(FleetFact::NodeDeclared { node: NodeId::new(0), state: NodeState::Ready, spec }),
        Input::Submit { job: JobId::new(0), spec: Arc::new(JobSpec::of("chat".into(), demand)) },
    ];
    let mut started = 0;
    step(&mut control, (1, SimTime::ZERO), &inputs, &mut [], &mut |now, command| {
        println!("{now} {command:?}");
        started += u32::from(matches!(command, Command::Start { .. }));
    });
    assert_eq!(started, 1, "there is room for it");
}
