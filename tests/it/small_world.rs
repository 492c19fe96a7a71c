//! One node with one GPU and two jobs that want it: the outcome can be worked out by hand.

use std::path::Path;
use std::sync::Arc;

use dryrack_control::Profile;
use dryrack_engine::{InitialNode, ModelFiles, Rehearsal, RunOptions, run};
use dryrack_event::{FORMAT_VERSION, LogHeader};
use dryrack_fleet::{GpuShape, NodeShape, NodeSpec, NodeState};
use dryrack_metrics::RunAccount;
use dryrack_report::{LogWriter, write_jobs_csv};
use dryrack_units::{Bytes, MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Arrival, Demand, GpuDemand, GpuTake, JobBehavior, JobSpec, TaskDemand};

pub fn node(name: &str) -> InitialNode {
    let gpu = GpuShape::of("l4", Bytes::from_gib(24));
    let shape = NodeShape::of(MilliCpu::from_cores(8), Bytes::from_gib(64), vec![gpu]);
    let spec = NodeSpec { name: name.into(), shape: Arc::new(shape) };
    InitialNode { spec, state: NodeState::Ready, gpus: Vec::new(), files: ModelFiles::default() }
}

pub fn arrival(name: &str, at: u64, run: u64) -> Arrival {
    let gpus = GpuDemand { count: 1, take: GpuTake::Whole, models: Vec::new(), min_memory: None };
    let task = TaskDemand { gpus: Some(gpus), ..TaskDemand::cpu_only(MilliCpu::from_cores(1)) };
    let spec = JobSpec { queue: Some("default".into()), ..JobSpec::of(name.into(), Demand::of(task)) };
    let behavior = JobBehavior { run: Some(SimDuration::from_secs(run)), ..JobBehavior::default() };
    let recorded_wait = Some(SimDuration::from_secs(5));
    Arrival { at: SimTime::from_secs(at), spec: Arc::new(spec), behavior: Arc::new(behavior), recorded_wait }
}

/// `chat` arrives at 10 s and runs for a minute, `late` arrives at 20 s and runs for `late_run` seconds.
pub fn rehearsal(late_run: u64) -> Rehearsal {
    let text = include_str!("../../src/profile/builtin/first-fit.yaml");
    let profile: Profile = serde_saphyr::from_str(text).expect("the profile that all others begin with");
    Rehearsal {
        title: "Two jobs want one GPU".into(),
        source: String::new(),
        seed: 7,
        profile: Arc::new(profile),
        fleets: Vec::new(),
        clouds: dryrack_engine::CloudModels::default(),
        nodes: vec![node("alpha")],
        arrivals: vec![arrival("chat", 10, 60), arrival("late", 20, late_run)],
        cancellations: Vec::new(),
        scalings: Vec::new(),
        faults: Vec::new(),
        evaluations: Vec::new(),
        branch: None,
        until: None,
        objects: None,
        kueue: Vec::new(),
        warm_up: None,
        currency: None,
        electricity: None,
    }
}

/// Writes `events.jsonl` and `jobs.csv` into a folder.
pub fn write(dir: &Path, late_run: u64) {
    let rehearsal = rehearsal(late_run);
    let header = LogHeader {
        dryrack: "0.1.0".into(),
        format: FORMAT_VERSION,
        scenario: rehearsal.title.clone(),
        source: String::new(),
        seed: rehearsal.seed,
        profile: rehearsal.profile.name.clone(),
        profile_data: serde_json::to_value(&*rehearsal.profile).expect("a profile is data"),
        live: None,
        branch: None,
    };
    let mut log = LogWriter::new(Vec::new(), &header).expect("a Vec takes everything");
    let mut accounts = RunAccount::default();
    let end = run(&rehearsal, RunOptions::default(), &mut [&mut log, &mut accounts]);
    accounts.finish(end.at);
    let log = log.finish(end.at).expect("a Vec takes everything");
    std::fs::write(dir.join("events.jsonl"), log).expect("a folder of our own");
    let mut jobs = Vec::new();
    let recorded = |job: usize| rehearsal.arrivals[job].recorded_wait;
    write_jobs_csv(&mut jobs, &accounts, recorded).expect("a Vec takes everything");
    std::fs::write(dir.join("jobs.csv"), jobs).expect("a folder of our own");
}
