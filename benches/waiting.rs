//! Measures long queues: the CPU time of whole runs in which N jobs wait behind full nodes.
//!
//! `cargo bench --bench waiting` prints the table of `benches/README.md`: all profiles, 100 to 10,000 jobs, 50 and 500
//! nodes. Words select a part of it: profiles, then numbers of jobs, then `on` and numbers of nodes. A single cell is
//! `cargo bench --bench waiting -- easy 1000 on 500`, or shorter `easy 1000 500`. `alike` makes all jobs equal gangs of
//! four nodes, `failures` lets each node crash now and then, and `unequal` submits a job each second that equals no other:
//! `cargo bench --bench waiting -- kubernetes-1.35 unequal 1000 2000 4000 on 100`.
//!
//! Each cell runs in a separate process, which is ended after a minute. Larger queues of the same profile on as many
//! nodes are then left out. For a single cell, the first digits of the digest are printed. A final word `scenario`
//! prints the world of the cell as a scenario file instead, which another build can run.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dryrack_engine::{Fault, InitialNode, ModelFiles, NodeTurn, Rehearsal, RunOptions, run};
use dryrack_event::{Digester, Event, Input, Sink};
use dryrack_fleet::{GpuShape, NodeShape, NodeSpec, NodeState};
use dryrack_ids::NodeId;
use dryrack_profile::load_profile;
use dryrack_rng::Stream;
use dryrack_units::{Bytes, MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Arrival, Demand, DemandKind, Gang, GpuDemand, GpuTake, JobBehavior, JobSpec, TaskDemand};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROFILES: [&str; 9] = [
    "conservative",
    "slurm-22.05",
    "easy",
    "priority-preemption",
    "tiresias",
    "fair-share",
    "srtf",
    "gpustack",
    "fifo",
];
const JOBS: [u64; 5] = [100, 300, 1000, 3000, 10_000];
const NODES: [u64; 2] = [50, 500];
const GPUS_PER_NODE: u32 = 8;
const LIMIT: Duration = Duration::from_secs(60);

/// The kind of waiting jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mixed,
    Alike,
    Failures,
    /// No two jobs are equal.
    Unequal,
}

impl Kind {
    const ALL: [(&str, Kind); 4] =
        [("mixed", Kind::Mixed), ("alike", Kind::Alike), ("failures", Kind::Failures), ("unequal", Kind::Unequal)];

    fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).expect("all kinds are listed").0
    }
}

#[derive(Default)]
struct Ended(u64);

impl Sink for Ended {
    fn input(&mut self, _: u64, _: SimTime, _: &Input) {}

    fn event(&mut self, _: u64, _: SimTime, event: &Event) {
        self.0 += u64::from(matches!(event, Event::JobEnded { .. }));
    }
}

fn demand(nodes: u32, gpus: u32) -> Demand {
    let need = GpuDemand { count: gpus, take: GpuTake::Whole, models: Vec::new(), min_memory: None };
    let cores = MilliCpu::from_cores(4 * u64::from(gpus));
    let demand = Demand::of(TaskDemand { gpus: Some(need), ..TaskDemand::cpu_only(cores) });
    match nodes {
        1 => demand,
        _ => Demand { tasks: nodes, gang: Gang::Spread, ..demand },
    }
}

fn node(index: usize) -> InitialNode {
    let gpus = (0..GPUS_PER_NODE).map(|_| GpuShape::of("a", Bytes::from_gib(80))).collect();
    let shape = NodeShape::of(MilliCpu::from_cores(64), Bytes::from_gib(512), gpus);
    let spec = NodeSpec { name: format!("n{index}").into(), shape: Arc::new(shape) };
    InitialNode { spec, state: NodeState::Ready, gpus: Vec::new(), files: ModelFiles::default() }
}

/// A job that runs for a random part of its estimate.
fn arrival(draws: &mut Stream, at: SimTime, demand: &Arc<Demand>, estimate: SimDuration) -> Arrival {
    let part = SimDuration::from_secs(estimate.as_nanos() / 100_000_000_000 * draws.between(30, 100));
    let mut spec = JobSpec::of(Arc::from("job"), Arc::clone(demand));
    spec.estimate = Some(estimate);
    spec.priority = *draws.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    spec.user = Some(format!("user{}", draws.between(0, 9)).into());
    let behavior = JobBehavior { run: Some(part), ..JobBehavior::default() };
    Arrival { at, spec: Arc::new(spec), behavior: Arc::new(behavior), recorded_wait: None }
}

/// A job of one hour each second, which asks for one to eight GPUs and for its own amount of RAM.
fn unequal(jobs: u64) -> Vec<Arrival> {
    let mut draws = Stream::new(1, "waiting bench", 0);
    let hour = SimDuration::from_secs(3600);
    let one = |number: u64| {
        let mut demand = demand(1, draws.between(1, u64::from(GPUS_PER_NODE)) as u32);
        if let DemandKind::Tasks(task) = &mut demand.kind {
            task.ram = Bytes::new((1024 + number) << 20);
        }
        let spec = JobSpec { estimate: Some(hour), ..JobSpec::of(format!("job{number}").into(), Arc::new(demand)) };
        let behavior = JobBehavior { run: Some(hour), ..JobBehavior::default() };
        let at = SimTime::from_secs(number);
        Arrival { at, spec: Arc::new(spec), behavior: Arc::new(behavior), recorded_wait: None }
    };
    (0..jobs).map(one).collect()
}

/// The arrivals: first a job for each node that takes the whole node, then the waiting jobs. All waiting jobs arrive
/// within twenty minutes, while the nodes are full.
fn arrivals(kind: Kind, jobs: u64, nodes: u64) -> Vec<Arrival> {
    if kind == Kind::Unequal {
        return unequal(jobs);
    }
    let mut draws = Stream::new(1, "waiting bench", 0);
    let minutes = |count: u64| SimDuration::from_secs(60 * count);
    let whole = Arc::new(demand(1, GPUS_PER_NODE));
    let mut arrivals: Vec<Arrival> = (0..nodes)
        .map(|_| {
            let estimate = minutes(draws.between(70, 300));
            arrival(&mut draws, SimTime::ZERO, &whole, estimate)
        })
        .collect();
    let small: Vec<Arc<Demand>> = (1..=GPUS_PER_NODE).map(|gpus| Arc::new(demand(1, gpus))).collect();
    let gangs: Vec<Arc<Demand>> = [(2, 8), (3, 4), (4, 8)].map(|(nodes, gpus)| Arc::new(demand(nodes, gpus))).into();
    for number in 0..jobs {
        let at = SimTime::ZERO + SimDuration::from_nanos(1_200_000 / jobs * (number + 1) * 1_000_000);
        let wanted = match kind {
            Kind::Alike => &gangs[2],
            Kind::Mixed | Kind::Failures | Kind::Unequal if draws.chance(100) => draws.pick(&gangs),
            Kind::Mixed | Kind::Failures | Kind::Unequal => draws.pick(&small),
        };
        let estimate = match kind {
            Kind::Alike => minutes(60),
            Kind::Mixed | Kind::Failures | Kind::Unequal => minutes(draws.between(1, 40) * 10),
        };
        arrivals.push(arrival(&mut draws, at, wanted, estimate));
    }
    arrivals
}

/// Failures during one day: each node crashes about once in ten hours and is repaired after ten minutes.
fn failures(nodes: u64) -> Vec<(SimTime, Fault)> {
    let mut draws = Stream::new(2, "waiting bench", 0);
    let mut faults = Vec::new();
    for node in (0..nodes as usize).map(NodeId::new) {
        let mut at = SimTime::ZERO;
        loop {
            let pause = draws.exponential(SimDuration::from_secs(36_000)).as_nanos() / 1_000_000_000;
            at = at.saturating_add(SimDuration::from_secs(pause));
            if at > SimTime::from_secs(86_400) {
                break;
            }
            faults.push((at, Fault::Node { node, becomes: NodeTurn::Crashed }));
            at = at.saturating_add(SimDuration::from_secs(600));
            faults.push((at, Fault::Node { node, becomes: NodeTurn::Ready }));
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// Prints the same world as a scenario, for another build of the program.
fn print_scenario(profile: &str, kind: Kind, jobs: u64, nodes: u64) {
    println!("scenario: {jobs} jobs wait on {nodes} nodes\nprofile: {profile}\nnodes:");
    println!(
        "  - {{name: n, count: {nodes}, cpus: 64, ram: 512GiB, gpus: [{{type: a, memory: 80GiB, count: {GPUS_PER_NODE}}}]}}"
    );
    println!("jobs:");
    for (number, arrival) in arrivals(kind, jobs, nodes).into_iter().enumerate() {
        let (spec, task) = (&arrival.spec, arrival.spec.demand.task().expect("it is of tasks"));
        let gpus = task.gpus.as_ref().map_or(0, |gpus| gpus.count);
        let gang = if spec.demand.tasks == 1 {
            String::new()
        } else {
            format!(", tasks: {}, gang: spread", spec.demand.tasks)
        };
        let ram = if task.ram == Bytes::ZERO { String::new() } else { format!(", ram: {}MiB", task.ram.get() >> 20) };
        println!(
            "  - {{name: j{number}, at: {}ms, gpus: {gpus}, cpus: {}{ram}{gang}, estimate: {}s, duration: {}s, priority: {}, user: {}}}",
            arrival.at.as_nanos() / 1_000_000,
            task.cpu.get() / 1000,
            spec.estimate.map_or(0, |estimate| estimate.as_nanos() / 1_000_000_000),
            arrival.behavior.run.map_or(0, |run| run.as_nanos() / 1_000_000_000),
            spec.priority,
            spec.user.as_deref().unwrap_or("nobody"),
        );
    }
    if kind == Kind::Failures {
        println!("faults:");
    }
    let width = (nodes - 1).to_string().len();
    for (at, fault) in failures(nodes).into_iter().filter(|_| kind == Kind::Failures) {
        let Fault::Node { node, becomes } = fault else { continue };
        let becomes = if becomes == NodeTurn::Ready { "ready" } else { "crashed" };
        println!("  - {{at: {}ms, node: n-{:0width$}, becomes: {becomes}}}", at.as_nanos() / 1_000_000, node.index());
    }
}

/// The CPU time of this thread in seconds. The whole run happens on this thread.
fn cpu_seconds() -> f64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = said.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    nanos.expect("the system says how long a thread has run") as f64 / 1e9
}

/// Runs one cell and prints its result.
fn run_one(profile: &str, kind: Kind, jobs: u64, nodes: u64) -> ExitCode {
    let rehearsal = Rehearsal {
        title: "waiting".to_string(),
        source: String::new(),
        seed: 1,
        profile: load_profile(profile, Path::new(".")).unwrap_or_else(|faults| panic!("{faults}")),
        fleets: Vec::new(),
        clouds: Default::default(),
        nodes: (0..nodes as usize).map(node).collect(),
        arrivals: arrivals(kind, jobs, nodes),
        cancellations: Vec::new(),
        scalings: Vec::new(),
        faults: if kind == Kind::Failures { failures(nodes) } else { Vec::new() },
        evaluations: Vec::new(),
        branch: None,
        until: None,
        objects: None,
        kueue: Vec::new(),
        warm_up: None,
        currency: None,
        electricity: None,
    };
    let expected = rehearsal.arrivals.len() as u64;
    let (mut digester, mut ended) = (Digester::default(), Ended::default());
    let begun = cpu_seconds();
    run(&rehearsal, RunOptions::default(), &mut [&mut digester, &mut ended]);
    let seconds = cpu_seconds() - begun;
    println!("{seconds:.2} s of CPU, digest {}", &digester.finish().to_string()[..16]);
    if ended.0 == expected {
        return ExitCode::SUCCESS;
    }
    eprintln!("{} of {expected} jobs have ended", ended.0);
    ExitCode::FAILURE
}

/// The output of one cell, run in a separate process; `None` if it takes too long.
#[expect(clippy::disallowed_methods, reason = "what takes too long is ended by the clock")]
fn cell(profile: &str, kind: Kind, jobs: u64, nodes: u64) -> Option<String> {
    let own = std::env::current_exe().expect("this program has a path");
    let numbers = [jobs.to_string(), nodes.to_string()];
    let words = [profile, kind.name(), &numbers[0], &numbers[1], "alone"];
    let mut child = Command::new(own).args(words).stdout(Stdio::piped()).spawn().expect("it can run itself");
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        if child.try_wait().expect("it is a child").is_some() {
            let output = child.wait_with_output().expect("it has ended");
            assert!(output.status.success(), "{profile} with {jobs} jobs on {nodes} nodes failed");
            return Some(String::from_utf8_lossy(&output.stdout).trim().to_string());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("it runs");
    child.wait().expect("it is a child");
    None
}

fn print_table(profiles: &[String], kind: Kind, jobs: &[u64], nodes: &[u64]) {
    let heads: Vec<String> =
        nodes.iter().flat_map(|nodes| jobs.iter().map(move |jobs| format!("{jobs} on {nodes}"))).collect();
    println!("| {} | {} |", kind.name(), heads.join(" | "));
    println!("| --- |{}", " ---: |".repeat(heads.len()));
    for profile in profiles {
        let mut cells = Vec::new();
        for nodes in nodes {
            let mut is_slow = false;
            for jobs in jobs {
                let said = if is_slow { None } else { cell(profile, kind, *jobs, *nodes) };
                let seconds = said.and_then(|said| said.split_whitespace().next().map(str::to_string));
                cells.push(seconds.unwrap_or_else(|| if is_slow { "-".into() } else { "over 60".into() }));
                is_slow |= cells.last().is_some_and(|cell| cell == "over 60");
            }
        }
        println!("| {profile} | {} |", cells.join(" | "));
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let kind = words.iter().find_map(|word| Kind::ALL.iter().find(|(name, _)| name == word));
    let kind = kind.map_or(Kind::Mixed, |(_, kind)| *kind);
    let is_reserved = |word: &str| {
        word == "on" || word == "alone" || word == "scenario" || Kind::ALL.iter().any(|(name, _)| *name == word)
    };
    let is_number = |word: &&String| word.parse::<u64>().is_ok();
    let profiles: Vec<String> = words.iter().filter(|word| !is_reserved(word) && !is_number(word)).cloned().collect();
    let on = words.iter().position(|word| word == "on");
    let numbers = |words: &[String]| words.iter().filter_map(|word| word.parse().ok()).collect::<Vec<u64>>();
    let (mut jobs, mut nodes) = match on {
        Some(place) => (numbers(&words[..place]), numbers(&words[place..])),
        None => (numbers(&words), Vec::new()),
    };
    if on.is_none() && jobs.len() == 2 {
        nodes = vec![jobs.remove(1)];
    }
    if let ([profile], [jobs], [nodes]) = (profiles.as_slice(), jobs.as_slice(), nodes.as_slice()) {
        if words.iter().any(|word| word == "scenario") {
            print_scenario(profile, kind, *jobs, *nodes);
            return ExitCode::SUCCESS;
        }
        return run_one(profile, kind, *jobs, *nodes);
    }
    let or = |own: Vec<u64>, all: &[u64]| if own.is_empty() { all.to_vec() } else { own };
    let profiles = if profiles.is_empty() { PROFILES.map(str::to_string).to_vec() } else { profiles };
    print_table(&profiles, kind, &or(jobs, &JOBS), &or(nodes, &NODES));
    ExitCode::SUCCESS
}
