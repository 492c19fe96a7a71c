//! Measures whole runs of synthetic load: jobs per second, and how this changes with the number of nodes.
//!
//! `cargo bench --bench scale -- fifo 10000 1000000` runs a million jobs on 10,000 nodes of 8 GPUs at 90 % load, first
//! come first served with best fit. `fgd` in place of `fifo` places by fragmentation. A final word `unequal` gives
//! every node a different amount of RAM, so that no two nodes are ever in equal state. `hosts 10000 100000` puts
//! 100,000 machines of one core on 10,000 hosts of twelve cores, as DSLab's iaas-benchmark does.
//!
//! The digest is computed, and every job must be accounted for. Jobs are created during the run, within the measured
//! time; a final word `listed` creates all of them before the run. The results are in `benches/README.md`. Under
//! `valgrind --tool=callgrind`, two runs of different length give the number of instructions per job.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use dryrack_control::Profile;
use dryrack_engine::{InitialNode, ModelFiles, Rehearsal, RunOptions, run, run_streamed};
use dryrack_event::{Digester, Event, Input, Sink};
use dryrack_fleet::{GpuShape, NodeShape, NodeSpec, NodeState};
use dryrack_profile::load_profile;
use dryrack_rng::Stream;
use dryrack_scheduler::{GpuOrder, ScorerName, Target, TaskShape, WeightedScorer};
use dryrack_units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Arrival, Demand, GpuDemand, GpuTake, JobBehavior, JobSpec, TaskDemand};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const GPUS_PER_NODE: u64 = 8;
const MEAN: SimDuration = SimDuration::from_secs(3600);
/// The mix of jobs. Each row has its part in thousandths, its number of GPUs, and whether it takes whole GPUs or half
/// of one.
const MIX: [(u64, u32, GpuTake); 5] = [
    (200, 1, GpuTake::Share(GpuShare::new(500))),
    (400, 1, GpuTake::Whole),
    (150, 2, GpuTake::Whole),
    (150, 4, GpuTake::Whole),
    (100, 8, GpuTake::Whole),
];
/// The number of different durations. Jobs share them.
const LENGTHS: usize = 256;

/// A sink that counts the jobs that have ended.
#[derive(Default)]
struct Ended(u64);

impl Sink for Ended {
    fn input(&mut self, _: u64, _: SimTime, _: &Input) {}

    fn event(&mut self, _: u64, _: SimTime, event: &Event) {
        self.0 += u64::from(matches!(event, Event::JobEnded { .. }));
    }
}

fn profile(name: &str) -> Arc<Profile> {
    let load = |name| load_profile(name, Path::new(".")).unwrap_or_else(|faults| panic!("{faults}"));
    let mut profile = Profile::clone(&load("fifo"));
    match name {
        "fgd" => {
            profile.scheduler.scorers = vec![WeightedScorer { stage: ScorerName::Fgd, weight: 1.0 }];
            profile.scheduler.gpus = GpuOrder::LeastFragmentation;
            let shapes = MIX.iter().flat_map(|(part, gpus, take)| {
                let shape = TaskShape::of(demand(*gpus, *take).task().expect("it is of tasks"));
                std::iter::repeat_n(shape, *part as usize)
            });
            profile.scheduler.target = Target::of(shapes);
        }
        _ => profile.scheduler.scorers = vec![WeightedScorer { stage: ScorerName::BestFit, weight: 1.0 }],
    }
    Arc::new(profile)
}

fn demand(gpus: u32, take: GpuTake) -> Demand {
    let need = GpuDemand { count: gpus, take, models: Vec::new(), min_memory: None };
    let cores = MilliCpu::from_cores(u64::from(gpus));
    Demand::of(TaskDemand { gpus: Some(need), ..TaskDemand::cpu_only(cores) })
}

fn node(index: usize, cores: u64, gpus: u64, unequal: bool) -> InitialNode {
    let extra = if unequal { index as u64 } else { 0 };
    let gpus = (0..gpus).map(|_| GpuShape::of("a", Bytes::from_gib(80))).collect();
    let shape = NodeShape::of(MilliCpu::from_cores(cores), Bytes::from_mib(768 * 1024 + extra), gpus);
    let spec = NodeSpec { name: format!("n{index}").into(), shape: Arc::new(shape) };
    InitialNode { spec, state: NodeState::Ready, gpus: Vec::new(), files: ModelFiles::default() }
}

fn job(demand: Demand) -> Arc<JobSpec> {
    Arc::new(JobSpec::of(Arc::from("job"), demand))
}

fn behavior(run: SimDuration) -> Arc<JobBehavior> {
    Arc::new(JobBehavior { run: Some(run), ..JobBehavior::default() })
}

/// Jobs that arrive at random, with a mean load of 90 %.
fn load(nodes: u64, jobs: u64) -> Box<dyn Iterator<Item = Arrival>> {
    let mut draws = Stream::new(1, "scale bench", 0);
    let kinds: Vec<(u64, Arc<JobSpec>)> =
        MIX.iter().map(|(part, gpus, take)| (*part, job(demand(*gpus, *take)))).collect();
    let behaviors: Vec<Arc<JobBehavior>> = (0..LENGTHS).map(|_| behavior(draws.exponential(MEAN))).collect();
    let thousandths = |(part, gpus, take): &(u64, u32, GpuTake)| match take {
        GpuTake::Share(share) => part * u64::from(share.get()) * u64::from(*gpus),
        GpuTake::Whole | GpuTake::Memory(_) => part * 1000 * u64::from(*gpus),
    };
    // The mean demand of a job, in millionths of a GPU.
    let asked: u64 = MIX.iter().map(thousandths).sum();
    let gap = MEAN.as_nanos() / 1000 * asked / (nodes * GPUS_PER_NODE * 900);
    let mut at = SimTime::ZERO;
    let arrival = move |_| {
        at = at.saturating_add(draws.exponential(SimDuration::from_nanos(gap)));
        let mut left = draws.between(0, 999);
        let kind = kinds.iter().find(|(part, _)| {
            let is_it = left < *part;
            left = left.saturating_sub(*part);
            is_it
        });
        let (spec, behavior) = (Arc::clone(&kind.expect("parts make up all").1), Arc::clone(draws.pick(&behaviors)));
        Arrival { at, spec, behavior, recorded_wait: None }
    };
    Box::new((0..jobs).map(arrival))
}

/// Machines that arrive one per millisecond. All of them are still running when the last one arrives.
fn machines(count: u64) -> Box<dyn Iterator<Item = Arrival>> {
    let (spec, behavior) = (job(Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1)))), behavior(MEAN));
    let at = |index: u64| SimTime::from_nanos(index * 1_000_000);
    let arrival = move |index| Arrival {
        at: at(index),
        spec: Arc::clone(&spec),
        behavior: Arc::clone(&behavior),
        recorded_wait: None,
    };
    Box::new((0..count).map(arrival))
}

/// The peak memory of the process in MiB; `None` if the system does not report it.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}

#[expect(clippy::disallowed_methods, reason = "what is measured is how long it takes")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let number = |place: usize, default: u64| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(default);
    let kind = words.first().map_or("fifo", String::as_str);
    let (nodes, jobs) = (number(1, 1000), number(2, 20_000));
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let (unequal, listed) = (has("unequal"), has("listed"));
    let (mut arrivals, cores, gpus) = match kind {
        "hosts" => (machines(jobs), 12, 0),
        _ => (load(nodes, jobs), 96, GPUS_PER_NODE),
    };
    let rehearsal = Rehearsal {
        title: kind.to_string(),
        source: String::new(),
        seed: 1,
        profile: profile(kind),
        fleets: Vec::new(),
        clouds: Default::default(),
        nodes: (0..nodes as usize).map(|index| node(index, cores, gpus, unequal)).collect(),
        arrivals: if listed { arrivals.by_ref().collect() } else { Vec::new() },
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
    };
    let (mut digester, mut ended) = (Digester::default(), Ended::default());
    let begun = Instant::now();
    let sinks: &mut [&mut dyn Sink] = &mut [&mut digester, &mut ended];
    match listed {
        true => run(&rehearsal, RunOptions::default(), sinks),
        false => run_streamed(&rehearsal, &mut arrivals, RunOptions::default(), sinks),
    };
    let seconds = begun.elapsed().as_secs_f64();
    let state = if unequal { "unequal nodes" } else { "nodes" };
    println!(
        "{kind}: {jobs} jobs on {nodes} {state}, {seconds:.2} s, {:.0} jobs a second, at most {} MiB, digest {}",
        jobs as f64 / seconds,
        peak_mib().map_or("?".to_string(), |mib| mib.to_string()),
        &digester.finish().to_string()[..16]
    );
    if ended.0 == jobs {
        return ExitCode::SUCCESS;
    }
    eprintln!("{} of {jobs} jobs have ended", ended.0);
    ExitCode::FAILURE
}
