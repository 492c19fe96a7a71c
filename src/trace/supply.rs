//! Compares the requests of a list of tasks with the resources of a cluster: the offered load, and tasks that could
//! never run.

use std::collections::BTreeMap;

use serde::Serialize;

use dryrack_units::{Bytes, MilliCpu, SimTime};

use super::row::{RunBasis, TraceNode, TraceTask};

/// The resources of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Supply {
    pub nodes: Vec<TraceNode>,
    /// The number of processors, if no node is described.
    pub processors: Option<u64>,
    /// The number of GPUs, if no node is described. All GPUs are then of one kind, and a task may combine any of them.
    pub gpus: Option<u64>,
}

/// Why a task could not run even on an empty cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Impossible {
    TooManyProcessors,
    /// No node belongs to the task's virtual cluster.
    NoSuchCluster,
    /// No node has GPUs of a model that the task accepts.
    NoSuchGpu,
    /// The task requests more GPUs than any suitable node has. For a task that may use several nodes: it requests more
    /// GPUs than all suitable nodes have together.
    TooManyGpus,
    TooMuchCpu,
    TooMuchRam,
    /// Each requirement is met by some node, but no node meets all of them together.
    NotTogether,
}

impl Impossible {
    pub fn describe(self) -> &'static str {
        match self {
            Impossible::TooManyProcessors => "more processors than there are",
            Impossible::NoSuchCluster => "no node of its virtual cluster",
            Impossible::NoSuchGpu => "no node with a GPU that it accepts",
            Impossible::TooManyGpus => "more GPUs than it could get",
            Impossible::TooMuchCpu => "more CPU than any such node has",
            Impossible::TooMuchRam => "more RAM than any such node has",
            Impossible::NotTogether => "no one node with all that it needs",
        }
    }
}

/// The load on one pool. A pool is the GPUs of certain models in one virtual cluster, or all processors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    pub pool: String,
    pub tasks: u64,
    /// The number of these tasks without a run time in the list. They do not count in the load.
    pub lengths_unknown: u64,
    /// The number of GPUs or processors in the pool.
    pub capacity: u64,
    /// The requested GPU seconds or processor seconds, rounded down.
    pub asked_seconds: u64,
    /// The requested seconds divided by the seconds that the pool could provide between the first and the last
    /// submission, in thousandths. `None` if the pool has no capacity, or if no task has a known run time.
    pub offered_permille: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pool {
    Processors,
    Gpus { cluster: Option<String>, models: Vec<String> },
}

/// The resources that a node needs for a task, and the task's virtual cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Need {
    cluster: Option<String>,
    models: Vec<String>,
    gpus: u32,
    cpu: MilliCpu,
    ram: Bytes,
    /// Whether all resources must be on one node. If false, the GPUs may be on different nodes.
    together: bool,
}

/// The tasks that could not run: their number, and the line and name of the first few.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cases {
    pub tasks: u64,
    pub first: Vec<(u64, String)>,
}

const CASES_SHOWN: usize = 3;
/// The number of nanoseconds times thousandths of a GPU in one GPU second.
const GPU_SECOND: u128 = 1_000_000_000_000;

/// The number of tasks, the number of tasks without a known run time, and the requested work of all others.
#[derive(Clone, Copy, Debug, Default)]
struct PoolDemand {
    tasks: u64,
    lengths_unknown: u64,
    work: u128,
}

impl PoolDemand {
    fn and(self, other: PoolDemand) -> PoolDemand {
        PoolDemand {
            tasks: self.tasks + other.tasks,
            lengths_unknown: self.lengths_unknown + other.lengths_unknown,
            work: self.work + other.work,
        }
    }
}

/// The requests of the tasks seen so far.
#[derive(Clone, Debug, Default)]
pub struct Demands {
    asked: BTreeMap<Pool, PoolDemand>,
    known: BTreeMap<Need, Option<Impossible>>,
    impossible: BTreeMap<Impossible, Cases>,
    window: Option<(SimTime, SimTime)>,
}

impl Demands {
    pub fn add(&mut self, task: &TraceTask, supply: &Supply) {
        let at = task.submit;
        self.window = Some(self.window.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
        let run = u128::from(task.longest_run().as_nanos());
        let cluster = task.virtual_cluster.clone();
        let (pool, asked) = match task.processors {
            Some(processors) => (Pool::Processors, u128::from(processors) * 1000),
            None => (Pool::Gpus { cluster, models: task.gpu_models.clone() }, u128::from(task.gpu_milli())),
        };
        if asked > 0 {
            let sum = self.asked.entry(pool).or_default();
            let lengths_unknown = u64::from(task.run_basis == RunBasis::NotRecorded);
            *sum = sum.and(PoolDemand { tasks: 1, lengths_unknown, work: asked * run });
        }
        if let Some(why) = self.why_not(task, supply) {
            let cases = self.impossible.entry(why).or_default();
            cases.tasks += 1;
            if cases.first.len() < CASES_SHOWN {
                cases.first.push((task.line, task.name.clone()));
            }
        }
    }

    fn why_not(&mut self, task: &TraceTask, supply: &Supply) -> Option<Impossible> {
        if let Some(asked) = task.processors {
            return supply
                .processors
                .is_some_and(|most| u64::from(asked) > most)
                .then_some(Impossible::TooManyProcessors);
        }
        let gpus = task.gpus.unwrap_or(0);
        if supply.nodes.is_empty() {
            return supply.gpus.is_some_and(|most| u64::from(gpus) > most).then_some(Impossible::TooManyGpus);
        }
        let need = Need {
            cluster: task.virtual_cluster.clone(),
            models: task.gpu_models.clone(),
            gpus,
            cpu: task.cpu.unwrap_or(MilliCpu::ZERO),
            ram: task.ram.unwrap_or(Bytes::ZERO),
            together: task.is_of_one_node(),
        };
        if let Some(known) = self.known.get(&need) {
            return *known;
        }
        let why = unmet(&need, &supply.nodes);
        self.known.insert(need, why);
        why
    }

    /// Returns the offered load of each pool, processors first, and the tasks that could never run, by reason.
    pub fn finish(self, supply: &Supply) -> (Vec<Load>, BTreeMap<Impossible, Cases>) {
        let window = self.window.map_or(0, |(from, to)| u128::from(to.since(from).as_nanos()));
        let load = |(pool, PoolDemand { tasks, lengths_unknown, work }): (Pool, PoolDemand)| {
            let capacity = capacity(&pool, supply);
            let could = u128::from(capacity) * window;
            Load {
                pool: name(&pool),
                tasks,
                lengths_unknown,
                capacity,
                asked_seconds: u64::try_from(work / GPU_SECOND).unwrap_or(u64::MAX),
                offered_permille: (work.checked_div(could).filter(|_| lengths_unknown < tasks))
                    .and_then(|permille| u64::try_from(permille).ok()),
            }
        };
        let all = self.asked.iter().filter(|(pool, _)| matches!(pool, Pool::Gpus { .. })).map(|(_, asked)| *asked);
        let pools = all.clone().count();
        let whole = all.fold(PoolDemand::default(), PoolDemand::and);
        let mut loads: Vec<Load> = self.asked.into_iter().map(load).collect();
        if pools > 1 {
            let all = load((Pool::Gpus { cluster: None, models: Vec::new() }, whole));
            loads.push(Load { pool: "all GPUs".to_string(), ..all });
        }
        (loads, self.impossible)
    }
}

/// The nodes of the virtual cluster. Returns all nodes if the task names no virtual cluster or no node has one.
fn of_cluster<'n>(nodes: &'n [TraceNode], cluster: &Option<String>) -> impl Iterator<Item = &'n TraceNode> + Clone {
    let said = nodes.iter().any(|node| node.virtual_cluster.is_some());
    let wanted = cluster.clone().filter(|_| said);
    nodes.iter().filter(move |node| wanted.is_none() || node.virtual_cluster == wanted)
}

fn accepts(models: &[String], node: &TraceNode) -> bool {
    models.is_empty() || node.gpu_model.as_ref().is_some_and(|model| models.contains(model))
}

/// Tests whether a node has enough of one resource.
type Check<'c> = &'c dyn Fn(&TraceNode) -> bool;

fn unmet(need: &Need, nodes: &[TraceNode]) -> Option<Impossible> {
    let nodes = of_cluster(nodes, &need.cluster);
    let accepted = nodes.clone().filter(|node| need.gpus == 0 || (node.gpus > 0 && accepts(&need.models, node)));
    let any = |holds: Check<'_>| accepted.clone().any(holds);
    if nodes.clone().next().is_none() {
        return Some(Impossible::NoSuchCluster);
    }
    if !any(&|_| true) {
        return Some(Impossible::NoSuchGpu);
    }
    if !need.together {
        let all: u64 = accepted.map(|node| u64::from(node.gpus)).sum();
        return (u64::from(need.gpus) > all).then_some(Impossible::TooManyGpus);
    }
    let checks: [(Impossible, Check<'_>); 4] = [
        (Impossible::TooManyGpus, &|node| node.gpus >= need.gpus),
        (Impossible::TooMuchCpu, &|node| node.cpu >= need.cpu),
        (Impossible::TooMuchRam, &|node| node.ram >= need.ram),
        (Impossible::NotTogether, &|node| node.gpus >= need.gpus && node.cpu >= need.cpu && node.ram >= need.ram),
    ];
    checks.into_iter().find(|(_, holds)| !any(holds)).map(|(why, _)| why)
}

fn capacity(pool: &Pool, supply: &Supply) -> u64 {
    match pool {
        Pool::Processors => supply.processors.unwrap_or(0),
        Pool::Gpus { .. } if supply.nodes.is_empty() => supply.gpus.unwrap_or(0),
        Pool::Gpus { cluster, models } => {
            let nodes = of_cluster(&supply.nodes, cluster).filter(|node| accepts(models, node));
            nodes.map(|node| u64::from(node.gpus)).sum()
        }
    }
}

fn name(pool: &Pool) -> String {
    match pool {
        Pool::Processors => "processors".to_string(),
        Pool::Gpus { cluster, models } => {
            let models = if models.is_empty() { "any GPU".to_string() } else { models.join("|") };
            cluster.as_ref().map_or(models.clone(), |cluster| format!("{models} of {cluster}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::{GpuShare, SimDuration};

    fn node(name: &str, model: &str, gpus: u32, cores: u64) -> TraceNode {
        TraceNode {
            name: name.to_string(),
            cpu: MilliCpu::from_cores(cores),
            ram: Bytes::from_mib(1000),
            gpus,
            gpu_model: Some(model.to_string()),
            virtual_cluster: None,
            switch: None,
        }
    }

    fn pod(at: u64, run: u64, gpus: u32, milli: u32, models: &[&str]) -> TraceTask {
        let task = TraceTask::new(format!("pod-{at}"), at, SimTime::from_secs(at), SimDuration::from_secs(run));
        TraceTask {
            cpu: Some(MilliCpu::from_cores(1)),
            gpus: Some(gpus),
            gpu_share: (gpus > 0).then(|| GpuShare::new(milli)),
            gpu_models: models.iter().map(|model| model.to_string()).collect(),
            ..task
        }
    }

    /// The first and the last submission are 100 s apart. Two tasks request T4 GPUs: one requests half of both for 50 s
    /// (50 GPU seconds), and one requests a whole GPU for 100 s. Together, this is 150 of 200 GPU seconds. The pool of
    /// all 10 GPUs gets a request for 8 GPUs for 25 s, which is 200 of 1,000 GPU seconds.
    #[test]
    fn load_is_of_each_pool_of_gpus() {
        let supply = Supply { nodes: vec![node("a", "T4", 2, 8), node("b", "V100", 8, 8)], ..Supply::default() };
        let mut demands = Demands::default();
        for task in [pod(0, 50, 2, 500, &["T4"]), pod(100, 100, 1, 1000, &["T4"]), pod(50, 25, 8, 1000, &[])] {
            demands.add(&task, &supply);
        }
        let (loads, impossible) = demands.finish(&supply);
        let seen = loads
            .iter()
            .map(|load| (&*load.pool, load.tasks, load.capacity, load.asked_seconds, load.offered_permille));
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [("any GPU", 1, 10, 200, Some(200)), ("T4", 2, 2, 150, Some(750)), ("all GPUs", 3, 10, 350, Some(350))]
        );
        assert!(impossible.is_empty(), "{impossible:?}");
    }

    #[test]
    fn what_could_never_run_is_told_by_its_reason() {
        let supply = Supply { nodes: vec![node("a", "T4", 2, 64), node("b", "V100", 8, 8)], ..Supply::default() };
        let rows = [
            (pod(0, 1, 8, 1000, &[]), None),
            (pod(1, 1, 9, 1000, &[]), Some(Impossible::TooManyGpus)),
            (pod(2, 1, 4, 1000, &["T4"]), Some(Impossible::TooManyGpus)),
            (pod(3, 1, 1, 1000, &["A10"]), Some(Impossible::NoSuchGpu)),
            (TraceTask { cpu: Some(MilliCpu::from_cores(65)), ..pod(4, 1, 0, 0, &[]) }, Some(Impossible::TooMuchCpu)),
            (
                TraceTask { cpu: Some(MilliCpu::from_cores(9)), ..pod(5, 1, 8, 1000, &[]) },
                Some(Impossible::NotTogether),
            ),
            (TraceTask { ram: Some(Bytes::from_mib(1001)), ..pod(6, 1, 0, 0, &[]) }, Some(Impossible::TooMuchRam)),
            // A task with only whole GPUs may be spread over several nodes.
            (TraceTask { cpu: None, gpu_share: None, ..pod(7, 1, 10, 1000, &[]) }, None),
            (TraceTask { cpu: None, gpu_share: None, ..pod(8, 1, 11, 1000, &[]) }, Some(Impossible::TooManyGpus)),
        ];
        for (task, expected) in rows {
            assert_eq!(Demands::default().why_not(&task, &supply), expected, "{task:?}");
        }
        let two = Supply { processors: Some(2), ..Supply::default() };
        let three = TraceTask { processors: Some(3), ..pod(0, 1, 0, 0, &[]) };
        assert_eq!(Demands::default().why_not(&three, &two), Some(Impossible::TooManyProcessors));
    }
}
