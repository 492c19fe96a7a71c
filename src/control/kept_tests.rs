//! Results that are kept between passes are compared with those of the plain computation, while jobs come, start and end at
//! random.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Control;
use super::core::{Watch, Watched};
use super::profile_tests::with;
use dryrack_event::{Command, FleetFact, Input, Lifecycle, Output};
use dryrack_fleet::{GpuShape, NodeShape, NodeSpec, NodeState, NodeStatus, RESTRICTED_CORES_LABEL};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_rng::Stream;
use dryrack_scheduler::slurm::{MEMBER, partition_label};
use dryrack_scheduler::{Caching, Decision};
use dryrack_units::{Bytes, MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Demand, Ending, Gang, GpuDemand, GpuTake, JobSpec, SlurmTerms, TaskDemand, TaskSet};

const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

/// Two control planes that are told the same: a plain one, and one that keeps results and compares them.
struct Both {
    plain: Control,
    kept: Control,
    running: Vec<AttemptId>,
    jobs: usize,
}

/// What a decision was based on, and what it was.
type Seen = (AttemptId, Vec<NodeStatus>, Decision);

fn seen(control: &mut Control) -> Vec<Seen> {
    let of = |watched: Watched| {
        let nodes = watched.sight.fleet.iter().map(|(_, node)| node.status.clone()).collect();
        (watched.attempt, nodes, watched.examination.decision)
    };
    control.take_decisions().into_iter().map(of).collect()
}

fn outputs(control: &mut Control) -> Vec<Output> {
    std::iter::from_fn(|| control.poll_output()).collect()
}

impl Both {
    fn new(changes: &[(&str, Value)], watch: Watch) -> Both {
        let control = |caching| {
            let mut control = Control::new(Arc::new(with(changes)), 1).with_caching(caching);
            control.watch(watch);
            control
        };
        let (plain, kept) = (control(Caching::Off), control(Caching::Paranoid));
        Both { plain, kept, running: Vec::new(), jobs: 0 }
    }

    /// Lets both do the same, and carries out their commands. Returns the attempts that start.
    fn act(&mut self, now: SimTime, act: impl Fn(&mut Control)) -> Vec<AttemptId> {
        let [plain, kept] = [&mut self.plain, &mut self.kept].map(|control| {
            act(control);
            let mut all = outputs(control);
            control.settle(now);
            all.extend(outputs(control));
            (all, seen(control))
        });
        assert_eq!(plain, kept, "at {now:?}");
        let mut started = Vec::new();
        for output in plain.0 {
            let (attempt, fact) = match output {
                Output::Command(Command::Start { attempt, .. }) => (attempt, Lifecycle::Started),
                Output::Command(Command::Stop { attempt }) => (attempt, Lifecycle::Stopped),
                _ => continue,
            };
            match fact {
                Lifecycle::Started => (self.running.push(attempt), started.push(attempt)),
                _ => (self.running.retain(|own| *own != attempt), ()),
            };
            started.extend(self.tell(now, &Input::Attempt { attempt, fact }));
        }
        started
    }

    fn tell(&mut self, now: SimTime, input: &Input) -> Vec<AttemptId> {
        self.act(now, |control| control.handle(now, input))
    }

    /// Lets time pass, with everything that becomes due.
    fn wait(&mut self, until: SimTime) {
        loop {
            let due = [&mut self.plain, &mut self.kept].map(|control| control.next_wakeup().map(|(due, _)| due));
            let Some(due) = due.into_iter().flatten().min().filter(|due| *due <= until) else { return };
            self.act(due, |_| {});
        }
    }

    fn declare(&mut self, number: usize, shape: NodeShape) {
        let spec = NodeSpec { name: format!("n{number}").into(), shape: Arc::new(shape) };
        let node = NodeId::new(number);
        self.tell(at(0), &Input::Fleet(FleetFact::NodeDeclared { node, state: NodeState::Ready, spec }));
    }

    /// Submits the next job.
    fn submit(&mut self, now: SimTime, spec: JobSpec) -> Vec<AttemptId> {
        let job = JobId::new(self.jobs);
        self.jobs += 1;
        self.tell(now, &Input::Submit { job, spec: Arc::new(spec) })
    }
}

fn shape(gpus: usize) -> NodeShape {
    let gpus = vec![GpuShape::of("a", Bytes::from_gib(80)); gpus];
    NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), gpus)
}

fn task(cores: u64, gpus: u32) -> TaskDemand {
    let of_gpus = GpuDemand { count: gpus, take: GpuTake::Whole, models: Vec::new(), min_memory: None };
    TaskDemand { gpus: (gpus > 0).then_some(of_gpus), ..TaskDemand::cpu_only(MilliCpu::from_cores(cores)) }
}

/// One task, a gang, or a gang of unequal tasks.
fn draw_demand(draws: &mut Stream) -> Demand {
    let mut draw = || task(draws.between(1, 12), draws.between(0, 3) as u32);
    let (first, second) = (draw(), draw());
    let set = |name: &str, task| TaskSet { name: name.into(), tasks: 1, min_tasks: 1, task };
    match draws.between(0, 7) {
        0 => Demand::of(Arc::<[TaskSet]>::from(vec![set("first", first), set("second", second)])),
        1 | 2 => {
            let gang = *draws.pick(&[Gang::Anywhere, Gang::Packed, Gang::Spread]);
            Demand { tasks: draws.between(2, 4) as u32, gang, ..Demand::of(first) }
        }
        _ => Demand::of(first),
    }
}

/// Compares decisions about jobs that are drawn, on nodes of these shapes.
fn compare(mut both: Both, seed: u64, shapes: &[NodeShape], draw_job: impl Fn(&mut Stream) -> JobSpec) {
    let mut draws = Stream::new(seed, "test", 0);
    for (number, shape) in shapes.iter().enumerate() {
        both.declare(number, shape.clone());
    }
    let mut now = 0;
    for _ in 0..60 {
        now += draws.between(0, 20);
        both.wait(at(now));
        if draws.chance(600) {
            both.submit(at(now), draw_job(&mut draws));
        } else if !both.running.is_empty() {
            let attempt = both.running.remove(draws.index(both.running.len()));
            let fact = Lifecycle::Exited(Ending::Completed);
            both.tell(at(now), &Input::Attempt { attempt, fact });
        }
    }
}

fn draw_length(draws: &mut Stream) -> Option<SimDuration> {
    let length = draws.between(1, 9) * 20;
    (length < 180).then_some(SimDuration::from_secs(length))
}

#[test]
fn kept_results_of_backfilling_are_those_of_the_plain_computation() {
    let mut restricted = shape(4);
    restricted.labels.insert(RESTRICTED_CORES_LABEL.into(), "2".into());
    let shapes = [shape(4), restricted, shape(2), shape(0)];
    let draw_job = |draws: &mut Stream| {
        let demand = draw_demand(draws);
        JobSpec { estimate: draw_length(draws), ..JobSpec::of("j".into(), demand) }
    };
    for (backfill, order) in [
        ("conservative", "submitted"),
        ("conservative", "estimate"),
        ("conservative", "wfp3"),
        ("easy", "submitted"),
        ("easy", "estimate"),
        ("rlscheduler", "submitted"),
    ] {
        for scorers in [json!([]), json!([{"stage": "pack", "weight": 1.0}])] {
            let changes = [
                ("scheduler/discipline", json!("strict")),
                ("scheduler/backfill", json!(backfill)),
                ("scheduler/order", json!([order])),
                ("scheduler/scorers", scorers),
            ];
            (0..3).for_each(|seed| compare(Both::new(&changes, Watch::Everybody), seed, &shapes, draw_job));
        }
    }
}

/// The partitions that jobs name.
const NAMED: [&str; 6] = ["main", "high", "rest", "main,high", "high,rest", "main,rest,high"];

#[test]
fn kept_visits_of_slurm_are_those_of_the_plain_computation() {
    // All nodes are in `main`, and some in the others.
    let with = |gpus, others: &[&str]| {
        let is_member = |names: &&&str| names.split(',').any(|name| name == "main" || others.contains(&name));
        let labels = NAMED.iter().filter(is_member).map(|names| (partition_label(names), MEMBER.into()));
        NodeShape { labels: labels.collect(), ..shape(gpus) }
    };
    let shapes = [with(4, &["high"]), with(4, &["rest"]), with(2, &["high", "rest"]), with(0, &[])];
    let draw_job = |draws: &mut Stream| {
        let partition = *draws.pick(&NAMED);
        let mut task = task(draws.between(1, 12), draws.between(0, 3) as u32);
        task.labels.insert(partition_label(partition), MEMBER.into());
        let tasks = if draws.chance(250) { draws.between(2, 4) as u32 } else { 1 };
        let qos = Some((*draws.pick(&["normal", "urgent", "group"])).into());
        let partition = Some(partition.into());
        let terms = SlurmTerms { partition, account: None, qos, reservation: None, requeue: true };
        JobSpec {
            user: Some((*draws.pick(&["ann", "bob"])).into()),
            estimate: draw_length(draws),
            priority: draws.between(0, 2) as i32,
            slurm: Some(Arc::new(terms)),
            ..JobSpec::of("j".into(), Demand { tasks, gang: Gang::Spread, ..Demand::of(task) })
        }
    };
    let slurm = json!({
        "partitions": [
            {"name": "main", "default": true, "priority_tier": 1},
            {"name": "high", "priority_tier": 5, "max_nodes": 2},
            {"name": "rest", "priority_tier": 1, "max_time": "100s"},
        ],
        "qos": [
            {"name": "normal"},
            {"name": "urgent", "priority": 100, "max_jobs_per_user": 2},
            {"name": "group", "priority": 10, "grp_tres": {"gres/gpu": 4, "node": 3}},
        ],
    });
    let every = |time| json!({"trigger": {"every": time}, "batch": null, "jitter": "0s"});
    for (backfill, pass) in [("none", Value::Null), ("slots", every("30s"))] {
        let changes = [
            ("slurm", slurm.clone()),
            ("scheduler/discipline", json!("strict")),
            ("scheduler/gangs", json!("neighbours")),
            ("scheduler/order", json!(["priority", "submitted"])),
            ("scheduler/backfill", json!(backfill)),
            ("passes/place", every("10s")),
            ("passes/backfill", pass),
        ];
        // All watched jobs are visited in each pass.
        (0..8).for_each(|seed| compare(Both::new(&changes, Watch::Nobody), seed, &shapes, draw_job));
    }
}

/// One node of 16 cores. Reservations are made in the order of submission.
#[test]
fn a_job_starts_in_the_gap_before_a_reservation_and_sees_what_is_taken_meanwhile() {
    let changes = [("scheduler/discipline", json!("strict")), ("scheduler/backfill", json!("conservative"))];
    let mut both = Both::new(&changes, Watch::Nobody);
    both.declare(0, shape(0));
    let job = |cores, length| JobSpec {
        estimate: Some(SimDuration::from_secs(length)),
        ..JobSpec::of("j".into(), Demand::of(task(cores, 0)))
    };
    assert_eq!(both.submit(at(0), job(10, 100)).len(), 1);
    // It is reserved from 100 s to 200 s.
    assert_eq!(both.submit(at(0), job(16, 100)).len(), 0);
    // Too long, and too large.
    assert_eq!(both.submit(at(40), job(6, 61)).len(), 0);
    assert_eq!(both.submit(at(40), job(7, 60)).len(), 0);
    both.kept.watch(Watch::Everybody);
    both.kept.handle(at(40), &Input::Submit { job: JobId::new(both.jobs), spec: Arc::new(job(6, 60)) });
    both.kept.settle(at(40));
    assert!(outputs(&mut both.kept).iter().any(|output| matches!(output, Output::Command(Command::Start { .. }))));
    let decisions = seen(&mut both.kept);
    let placed = decisions.iter().find(|(_, _, decision)| matches!(decision, Decision::Place(_)));
    let (_, nodes, _) = placed.expect("one decision places");
    // The first job has 10 cores. The reservation begins when this job ends.
    assert_eq!(nodes[0].cpu_taken, MilliCpu::from_cores(10));
}
