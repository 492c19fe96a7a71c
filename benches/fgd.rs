//! Measures fragmentation gradient descent on the openb trace, in the control plane and in a plain reference program.
//! The reference examines every node for every task. It caches the score of a node for a task shape until the node
//! changes.
//!
//! `cargo bench --bench fgd -- scenarios/literature/fgd-openb.yaml` needs the trace (`DRYRACK_DATA`). The reference has
//! no events, no queue, no log and no digest. It handles only tasks that never end and that fit on one node. It was
//! written from the authors' rules (see `scheduler::fragment`) and shares no code with the control plane. The benchmark
//! fails unless both programs place each task on the same node. They run alternately, and the medians are printed. The
//! results are in `benches/README.md`.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dryrack_engine::{Rehearsal, RunOptions, run};
use dryrack_event::{Digester, Event, Input, Sink};
use dryrack_scenario::{Options, load};
use dryrack_trace::Roots;
use dryrack_units::SimTime;
use dryrack_workload::{Demand, GpuTake};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 11;

/// The shape of an arriving task or of an expected task. Shares are in thousandths of a GPU.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Shape {
    cpu: u64,
    ram: u64,
    gpus: usize,
    share: u32,
    models: Vec<String>,
}

/// The free resources of a node.
#[derive(Clone)]
struct Left {
    cpu: u64,
    ram: u64,
    gpus: Vec<u32>,
}

struct Node {
    model: String,
    left: Left,
    fragment: f64,
    /// For each task shape that was computed: its score on this node and, for a shared GPU, the index of the GPU. The
    /// inner `None` means that the shape does not fit.
    known: Vec<Option<Option<(u32, usize)>>>,
}

struct Reference {
    target: Vec<(f64, Shape)>,
    shapes: Vec<Shape>,
    /// The index of each task's shape, in order of arrival.
    tasks: Vec<usize>,
    nodes: Vec<Node>,
}

impl Shape {
    fn of(demand: &Demand) -> Shape {
        let task = demand.task().expect("it is of tasks");
        let (gpus, share, models) = match &task.gpus {
            None => (0, 0, Vec::new()),
            Some(gpus) => {
                let share = match gpus.take {
                    GpuTake::Share(share) => share.get(),
                    GpuTake::Whole | GpuTake::Memory(_) => 1000,
                };
                (gpus.count as usize, share, gpus.models.iter().map(|model| model.to_string()).collect())
            }
        };
        Shape { cpu: task.cpu.get(), ram: task.ram.get(), gpus, share, models }
    }

    fn takes(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|known| known == model)
    }

    fn fits(&self, node: &Node) -> bool {
        let left = &node.left;
        let with_room = left.gpus.iter().filter(|free| **free >= self.share).count();
        left.cpu >= self.cpu
            && left.ram >= self.ram
            && (self.gpus == 0 || self.takes(&node.model) && with_room >= self.gpus)
    }
}

impl Reference {
    fn new(rehearsal: &Rehearsal) -> Reference {
        let (mut shapes, mut places) = (Vec::new(), HashMap::new());
        let tasks = rehearsal.arrivals.iter().map(|arrival| {
            let shape = Shape::of(&arrival.spec.demand);
            *places.entry(shape.clone()).or_insert_with(|| {
                shapes.push(shape);
                shapes.len() - 1
            })
        });
        let tasks = tasks.collect();
        let target = rehearsal.profile.scheduler.target.shapes().iter().map(|wanted| {
            let shape = &wanted.shape;
            let models = shape.models.iter().map(|model| model.to_string()).collect();
            let (gpus, share) = (shape.gpus as usize, shape.share.get());
            (wanted.part, Shape { cpu: shape.cpu.get(), ram: 0, gpus, share, models })
        });
        let target: Vec<(f64, Shape)> = target.collect();
        let nodes = rehearsal.nodes.iter().map(|node| {
            let shape = &node.spec.shape;
            let model = shape.gpus.first().map_or(String::new(), |gpu| gpu.model.to_string());
            let left = Left { cpu: shape.cpu.get(), ram: shape.ram.get(), gpus: vec![1000; shape.gpus.len()] };
            let fragment = fragment(&target, &model, &left);
            Node { model, left, fragment, known: vec![None; shapes.len()] }
        });
        let nodes = nodes.collect();
        Reference { target, shapes, tasks, nodes }
    }

    /// The node of each task; `None` if the task does not fit anywhere.
    fn place_all(&mut self) -> Vec<Option<u32>> {
        let Reference { target, shapes, tasks, nodes } = self;
        let place = |task: &usize| {
            let shape = &shapes[*task];
            let mut best: Option<(u32, usize, usize)> = None;
            for (index, node) in nodes.iter_mut().enumerate() {
                let found = match node.known[*task] {
                    Some(found) => found,
                    None => {
                        let found = shape.fits(node).then(|| score(target, node, shape));
                        node.known[*task] = Some(found);
                        found
                    }
                };
                if let Some((score, gpu)) = found
                    && best.is_none_or(|(most, _, _)| score > most)
                {
                    best = Some((score, index, gpu));
                }
            }
            let (_, index, gpu) = best?;
            let node = &mut nodes[index];
            node.left.cpu -= shape.cpu;
            node.left.ram -= shape.ram;
            if shape.is_shared() {
                node.left.gpus[gpu] -= shape.share;
            } else {
                let free = node.left.gpus.iter_mut().filter(|free| **free >= shape.share);
                free.take(shape.gpus).for_each(|free| *free -= shape.share);
            }
            node.fragment = fragment(target, &node.model, &node.left);
            node.known.fill(None);
            Some(index as u32)
        };
        tasks.iter().map(place).collect()
    }
}

impl Shape {
    fn is_shared(&self) -> bool {
        self.gpus == 1 && self.share < 1000
    }
}

/// The score of a node, from 0 to 100. For a task that shares a GPU, also the first of the best GPUs.
fn score(target: &[(f64, Shape)], node: &Node, shape: &Shape) -> (u32, usize) {
    let mut after = node.left.clone();
    after.cpu -= shape.cpu;
    let gain = |after: &Left| {
        let gained = (node.fragment - fragment(target, &node.model, after)) / 1000.0;
        (100.0 / (1.0 + libm::exp(-gained))) as u32
    };
    if shape.is_shared() {
        let mut best: Option<(u32, usize)> = None;
        for index in 0..after.gpus.len() {
            if after.gpus[index] < shape.share {
                continue;
            }
            after.gpus[index] -= shape.share;
            let score = gain(&after);
            after.gpus[index] += shape.share;
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, index));
            }
        }
        return best.expect("it fits");
    }
    let mut tightest: Vec<usize> = (0..after.gpus.len()).filter(|index| after.gpus[*index] >= shape.share).collect();
    tightest.sort_by_key(|index| after.gpus[*index]);
    tightest.into_iter().take(shape.gpus).for_each(|index| after.gpus[index] -= shape.share);
    (gain(&after), 0)
}

/// The part of the free GPUs that is useless to the expected tasks. It is summed for each cause first, and then over
/// the causes.
fn fragment(target: &[(f64, Shape)], model: &str, left: &Left) -> f64 {
    let free: u32 = left.gpus.iter().sum();
    let mut sums = [0.0; 6];
    for (part, shape) in target {
        let has_cpu = left.cpu >= shape.cpu;
        let (cause, useless) = if shape.gpus == 0 {
            (if has_cpu { 3 } else { 4 }, free)
        } else if left.gpus.is_empty() || !shape.takes(model) {
            (5, free)
        } else {
            let with_room = left.gpus.iter().filter(|free| **free >= shape.share);
            let (count, usable) = with_room.fold((0, 0), |(count, sum), free| (count + 1, sum + free));
            match (count >= shape.gpus, has_cpu) {
                (true, true) => (1, free - usable),
                (true, false) => (2, free),
                (false, true) => (1, free),
                (false, false) => (0, free),
            }
        };
        sums[cause] += part * f64::from(useless);
    }
    sums.into_iter().fold(0.0, |total, sum| total + sum)
}

/// The node on which the control plane places each task.
struct Places(Vec<Option<u32>>);

impl Sink for Places {
    fn input(&mut self, _: u64, _: SimTime, _: &Input) {}

    fn event(&mut self, _: u64, _: SimTime, event: &Event) {
        if let Event::Placed { attempt, placement, .. } = event {
            self.0[attempt.job.index()] = Some(placement.claims()[0].node.index() as u32);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "what is measured is how long it takes")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let result = work();
    (result, begun.elapsed())
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let file = words.next().unwrap_or("scenarios/literature/fgd-openb.yaml".to_string());
    let options = Options { roots: Roots::from_env(None), ..Options::default() };
    let loaded = match load(Path::new(&file), &options) {
        Ok(loaded) => loaded,
        Err(faults) => {
            eprintln!("{faults}");
            return ExitCode::from(2);
        }
    };
    let rehearsal = loaded.rehearsal;
    let mut places = Places(vec![None; rehearsal.arrivals.len()]);
    run(&rehearsal, RunOptions::default(), &mut [&mut places]);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (found, took) = timed(|| Reference::new(&rehearsal).place_all());
        theirs.push(took);
        if let Some(task) = (0..found.len()).find(|task| found[*task] != places.0[*task]) {
            eprintln!("task {task}: node {:?}, and {:?} by the reference", places.0[task], found[task]);
            return ExitCode::FAILURE;
        }
        let mut digester = Digester::default();
        let (digest, took) = timed(|| {
            run(&rehearsal, RunOptions::default(), &mut [&mut digester]);
            digester.finish()
        });
        black_box(digest);
        ours.push(took);
    }
    ours.sort_unstable();
    theirs.sort_unstable();
    let (ours, theirs) = (ours[ROUNDS / 2].as_secs_f64(), theirs[ROUNDS / 2].as_secs_f64());
    println!(
        "{} tasks on {} nodes, all {} placed alike\ncontrol plane {ours:.4} s, a scan over all nodes {theirs:.4} s: {:.2} of it",
        rehearsal.arrivals.len(),
        rehearsal.nodes.len(),
        places.0.iter().flatten().count(),
        ours / theirs
    );
    ExitCode::SUCCESS
}
