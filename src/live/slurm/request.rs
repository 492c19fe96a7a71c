//! The arguments of `sbatch` for a job of a file, and the list of requirements that Slurm cannot meet.
//!
//! | job | arguments |
//! | --- | --- |
//! | one task | `--nodes=1-1`, its GPUs as `--gres=gpu:N` |
//! | a gang that is spread | `--nodes=N-N --ntasks-per-node=1`, the GPUs of each task as `--gres=gpu:N` |
//! | a gang anywhere | `--ntasks=N`, the GPUs of each task as `--gpus-per-task=N` |
//! | `cpus`, `ram` | `--cpus-per-task`, and `--mem` or `--mem-per-cpu` in MiB |
//! | `time_limit` | `--time` in minutes, which Slurm enforces |
//! | labels, types of GPUs, picked nodes, nodes outside of the file | `--exclude` of all unsuitable nodes |
//! | `queue`; `priority` if the profile reads it | `--partition`, `--nice` |
//! | `partition`, `account`, `qos`, `reservation` | the same |

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::work::PendingRun;
use dryrack_fleet::NodeShape;
use dryrack_ids::{AttemptId, NodeId};
use dryrack_scheduler::OrderKey;
use dryrack_units::SimDuration;
use dryrack_workload::{Arrival, Demand, Gang, GpuTake, JobSpec, Pick, TaskDemand};

const MINUTE: u64 = 60 * 1_000_000_000;
const MIB: u64 = 1 << 20;
/// The `--nice` value of one step of priority. It must outweigh any difference in the order of submission. It must also
/// be small enough for a thousand steps within the range of `--nice` (2147483645, sbatch(1) of Slurm 22.05).
const NICE_PER_STEP: u64 = 2_000_000;
const MOST_NICE: u64 = 2_147_483_645;

/// Why Slurm cannot run the jobs: one sentence for each reason, with its place in the file.
pub fn faults(work: &PendingRun) -> Vec<String> {
    let mut faults = Vec::new();
    if !work.profile.flow.is_queue() {
        let name = &work.profile.name;
        faults.push(format!("profile `{name}` has its own loops, but Slurm has one queue; name `fifo` or `easy`"));
    }
    if !work.profile.policies.quotas.is_empty() {
        faults.push("`policies.quotas` limits projects, but Slurm has its own limits; leave it out".to_string());
    }
    for arrival in &work.arrivals {
        // A job without a command is refused elsewhere.
        let Some(launch) = &arrival.behavior.launch else { continue };
        let (file, line, column) = &launch.place;
        let place = format!("{file}:{line}:{column}: job `{}`", arrival.spec.name);
        faults.extend(faults_of(work, arrival).into_iter().map(|fault| format!("{place} {fault}")));
    }
    faults.dedup();
    faults
}

fn faults_of(work: &PendingRun, arrival: &Arrival) -> Vec<String> {
    let (spec, demand) = (&arrival.spec, &arrival.spec.demand);
    let minutes = |limit: SimDuration| limit.as_nanos().is_multiple_of(MINUTE) && !limit.is_zero();
    let is_gang = |gang: Gang| demand.tasks > 1 && demand.gang == gang;
    let is_watched = work.profile.policies.utilization.bind(&spec.utilization).is_some();
    let rows: [(bool, &str); 14] = [
        (demand.model().is_some(), "serves a model, which Slurm cannot do"),
        (
            !demand.sets().is_empty(),
            "has unequal tasks, or can start with fewer tasks; write one kind of task and its number",
        ),
        (demand.requirements().is_some(), "asks for an instance of a fleet, which Slurm does not have"),
        (
            demand.task().is_some_and(|task| !task.cpu.get().is_multiple_of(1000)),
            "asks for a part of a CPU, but Slurm allocates whole CPUs; write `cpus: 1`",
        ),
        (
            demand.gpus().is_some_and(|gpus| gpus.take != GpuTake::Whole),
            "asks for a part of a GPU, but Slurm allocates whole GPUs; write a whole number",
        ),
        (
            demand.pick.as_ref().is_some_and(Pick::is_of_gpus),
            "picks GPUs by hand, but Slurm chooses GPUs itself; pick nodes, or leave the pick out",
        ),
        (
            is_gang(Gang::Packed),
            "is a packed gang, which Slurm does not guarantee; write `gang: spread`, or leave it out",
        ),
        (
            is_gang(Gang::Anywhere) && demand.gpus().is_none(),
            "is a gang without GPUs and with free placement, but Slurm does not report where each task runs; write \
             `gang: spread`",
        ),
        (
            spec.time_limit.is_some_and(|limit| !minutes(limit)),
            "has a `time_limit` that is not in whole minutes, the unit of Slurm",
        ),
        (
            spec.estimate.is_some() && spec.estimate != spec.time_limit,
            "has an `estimate` that differs from its `time_limit`, but Slurm plans only with the time limit",
        ),
        (
            spec.user.is_some(),
            "belongs to a user, but it would be submitted as the user who runs dryrack; leave `user` out",
        ),
        (spec.project.is_some(), "counts against a project, which Slurm does not know here; leave `project` out"),
        (
            is_watched && demand.gpus().is_some(),
            "has a utilization policy, but the GPUs of Slurm's nodes are not sampled",
        ),
        (allowed(work, demand).is_empty(), "cannot run on any node of the file"),
    ];
    rows.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what.to_string()).collect()
}

/// The nodes of the file on which a task may run, even if they have no free room at the moment.
fn allowed(work: &PendingRun, demand: &Demand) -> BTreeSet<NodeId> {
    let does = |node: NodeId| {
        let is_picked = demand.pick.as_ref().is_none_or(|pick| pick.allows_node(node));
        is_picked && demand.task().is_none_or(|task| meets(&work.nodes[node.index()].shape, task))
    };
    (0..work.nodes.len()).map(NodeId::new).filter(|node| does(*node)).collect()
}

/// Whether a node suits a demand. All of its GPUs must suit, because Slurm may assign any of them.
fn meets(shape: &NodeShape, task: &TaskDemand) -> bool {
    let labels = task.labels.iter().all(|(key, value)| shape.labels.get(key) == Some(value));
    let platform = task.os.is_none_or(|os| os == shape.os) && task.arch.is_none_or(|arch| arch == shape.arch);
    let gpus = task.gpus.as_ref().is_none_or(|gpus| {
        let suits = |gpu: &dryrack_fleet::GpuShape| {
            (gpus.models.is_empty() || gpus.models.contains(&gpu.model))
                && gpus.min_memory.is_none_or(|least| gpu.memory >= least)
        };
        !shape.gpus.is_empty() && shape.gpus.iter().all(suits)
    });
    labels && platform && gpus
}

/// The arguments and variables of `sbatch` for one attempt. `others` are nodes of Slurm that are not in the file.
pub fn request(
    work: &PendingRun,
    attempt: AttemptId,
    comment: &str,
    others: &[String],
) -> (Vec<String>, Vec<(String, String)>) {
    let arrival = &work.arrivals[attempt.job.index()];
    let (spec, launch) = (&arrival.spec, arrival.behavior.launch.as_ref().expect("checked at the door"));
    let mut arguments = vec![
        "--parsable".to_string(),
        // The control plane decides whether to retry, so Slurm must not requeue.
        "--no-requeue".to_string(),
        format!("--job-name={}", spec.name),
        format!("--comment={comment}"),
        format!("--output={}", output(work, attempt)),
    ];
    arguments.extend(amounts(&spec.demand));
    arguments.extend(spec.time_limit.map(|limit| format!("--time={}", limit.as_nanos() / MINUTE)));
    arguments.extend(spec.queue.as_ref().map(|queue| format!("--partition={queue}")));
    if let Some(terms) = &spec.slurm {
        let words = [
            ("partition", &terms.partition),
            ("account", &terms.account),
            ("qos", &terms.qos),
            ("reservation", &terms.reservation),
        ];
        let stated = words.into_iter().filter_map(|(word, value)| Some((word, value.as_ref()?)));
        arguments.extend(stated.map(|(word, value)| format!("--{word}={value}")));
    }
    arguments.extend(nice(work, spec).map(|nice| format!("--nice={nice}")));
    let allowed = allowed(work, &spec.demand);
    let left_out = (0..work.nodes.len()).map(NodeId::new).filter(|node| !allowed.contains(node));
    let left_out: Vec<String> =
        left_out.map(|node| work.nodes[node.index()].name.to_string()).chain(others.iter().cloned()).collect();
    if !left_out.is_empty() {
        arguments.push(format!("--exclude={}", left_out.join(",")));
    }
    arguments.push(format!("--wrap={}", script(&launch.arguments, &spec.demand)));
    let known = [
        ("DRYRACK_JOB", spec.name.to_string()),
        ("DRYRACK_REPLICA", attempt.replica.to_string()),
        ("DRYRACK_ATTEMPT", attempt.number.to_string()),
        ("DRYRACK_TASKS", spec.demand.tasks.to_string()),
    ];
    let own = launch.environment.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    (arguments, known.map(|(key, value)| (key.to_string(), value)).into_iter().chain(own).collect())
}

fn output(work: &PendingRun, attempt: AttemptId) -> String {
    let name = work.arrivals[attempt.job.index()].spec.name.replace('/', "_");
    let file = |folder: &std::path::PathBuf| folder.join(format!("{name}-{}-{}.txt", attempt.replica, attempt.number));
    // Escape percent signs, which begin a pattern in Slurm.
    work.outputs
        .as_ref()
        .map_or("/dev/null".to_string(), |folder| file(folder).display().to_string().replace('%', "%%"))
}

/// The needs of each task. Demands of any other kind were refused before.
pub fn task_of(demand: &Demand) -> &TaskDemand {
    demand.task().expect("Slurm is given only tasks")
}

fn amounts(demand: &Demand) -> Vec<String> {
    let (task, tasks) = (task_of(demand), demand.tasks);
    let cpus = cpus_of(demand);
    let ram = task.ram.get().div_ceil(MIB);
    let gpus = task.gpus.as_ref().map_or(0, |gpus| gpus.count);
    let mut amounts = match (tasks, demand.gang) {
        // Use `--nodes` here. With `--ntasks=1`, all suitable nodes look equal to Slurm, and it takes the first, not
        // the fullest.
        (1, _) => vec!["--nodes=1-1".to_string()],
        (_, Gang::Spread) => {
            vec![format!("--nodes={tasks}-{tasks}"), format!("--ntasks={tasks}"), "--ntasks-per-node=1".to_string()]
        }
        (_, Gang::Anywhere | Gang::Packed | Gang::StrictPack | Gang::PreferSpread) => vec![format!("--ntasks={tasks}")],
    };
    amounts.push(format!("--cpus-per-task={cpus}"));
    let is_by_node = tasks == 1 || demand.gang == Gang::Spread;
    // A request for zero memory would mean all memory of the node.
    if ram > 0 {
        amounts.push(if is_by_node {
            format!("--mem={ram}M")
        } else {
            format!("--mem-per-cpu={}M", ram.div_ceil(cpus))
        });
    }
    if gpus > 0 {
        amounts.push(if is_by_node { format!("--gres=gpu:{gpus}") } else { format!("--gpus-per-task={gpus}") });
    }
    amounts
}

/// The number of CPUs of each task. Slurm assigns at least one.
fn cpus_of(demand: &Demand) -> u64 {
    (task_of(demand).cpu.get() / 1000).max(1)
}

/// The `--nice` value of the job, relative to the highest priority in the file. Only an administrator of Slurm may
/// raise a job's priority, so all other jobs are lowered.
fn nice(work: &PendingRun, spec: &JobSpec) -> Option<u64> {
    let order = &work.profile.scheduler.order;
    let step = match (order.contains(&OrderKey::Priority), order.contains(&OrderKey::Multifactor)) {
        (true, _) => NICE_PER_STEP,
        // The order of submission does not count here, and a step is one point of priority.
        (false, true) => 1,
        (false, false) => return None,
    };
    let highest = work.arrivals.iter().map(|arrival| arrival.spec.priority).max()?;
    let steps = u64::from(highest.abs_diff(spec.priority));
    (steps > 0).then(|| steps.saturating_mul(step).min(MOST_NICE))
}

/// The script that runs on the first node. It runs the command itself, or one process for each task of a gang. If one
/// of these processes fails, all of them are ended.
fn script(arguments: &[Arc<str>], demand: &Demand) -> String {
    let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
    let task = "export DRYRACK_TASK=\"${SLURM_PROCID:-0}\" DRYRACK_NODE=\"$SLURMD_NODENAME\"; ";
    match demand.tasks {
        1 => format!("{task}exec {}", words.join(" ")),
        _ => {
            let each = quoted(&format!("{task}exec \"$@\""));
            // A job step does not inherit the CPUs per task of its job (srun(1) of Slurm 22.05).
            let cpus = cpus_of(demand);
            format!("exec srun --kill-on-bad-exit=1 --cpus-per-task={cpus} sh -c {each} sh {}", words.join(" "))
        }
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The comment `dryrack-TOKEN/JOB/REPLICA/ATTEMPT`, with the index of the job in the file. It identifies this run's
/// jobs.
pub fn comment(token: &str, attempt: AttemptId) -> String {
    format!("{token}/{}/{}/{}", attempt.job.index(), attempt.replica, attempt.number)
}
