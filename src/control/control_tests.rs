//! Tests of the whole control plane, which is told what happens step by step.

use std::sync::Arc;

use serde_json::json;

use super::core::Watch;
use super::profile_tests::{kubernetes, with};
use super::{Control, Program, Unsafe};
use dryrack_event::{Command, External, FleetFact, Histogram, Input, Lifecycle, Output, Outside, Reason};
use dryrack_fleet::{GpuShape, NodeShape, NodeSpec, NodeState};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_scheduler::Decision;
use dryrack_units::{Bytes, MilliCpu, SimTime};
use dryrack_workload::{Demand, Ending, GpuDemand, GpuTake, JobSpec, TaskDemand};

/// The first attempt of the job.
pub(crate) fn first() -> AttemptId {
    AttemptId { job: JobId::new(0), replica: 0, number: 1 }
}

pub(crate) const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

/// Takes all outputs, and returns the commands among them.
pub(crate) fn commands(control: &mut Control) -> Vec<Command> {
    let outputs = std::iter::from_fn(|| control.poll_output());
    outputs.filter_map(|output| if let Output::Command(command) = output { Some(command) } else { None }).collect()
}

/// Tells one input, and lets the control plane settle.
pub(crate) fn tell(control: &mut Control, seconds: u64, input: &Input) -> Vec<Command> {
    control.handle(at(seconds), input);
    let mut all = commands(control);
    control.settle(at(seconds));
    all.extend(commands(control));
    all
}

/// Lets time pass, with everything that becomes due.
pub(crate) fn wait(control: &mut Control, seconds: u64) -> Vec<Command> {
    let mut all = Vec::new();
    while let Some((due, _)) = control.next_wakeup().filter(|(due, _)| *due <= at(seconds)) {
        control.settle(due);
        all.extend(commands(control));
    }
    all
}

/// Two nodes of 16 cores, and a job of this many tasks of 10 cores that runs since 1 s.
fn running(tasks: u32) -> Control {
    let mut control = Control::new(Arc::new(with(&[])), 1).dropping_ended();
    for number in 0..2 {
        let shape = NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), Vec::new());
        let spec = NodeSpec { name: format!("n{number}").into(), shape: Arc::new(shape) };
        let declared = FleetFact::NodeDeclared { node: NodeId::new(number), state: NodeState::Ready, spec };
        tell(&mut control, 0, &Input::Fleet(declared));
    }
    let demand = Demand { tasks, ..Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(10))) };
    let spec = Arc::new(JobSpec::of("j".into(), demand));
    let started = tell(&mut control, 0, &Input::Submit { job: JobId::new(0), spec });
    assert!(matches!(&started[..], [Command::Start { placement, .. }] if placement.claims().len() == tasks as usize));
    tell(&mut control, 1, &Input::Attempt { attempt: first(), fact: Lifecycle::Started });
    control
}

/// The nodes with claims.
fn held(control: &Control) -> Vec<usize> {
    control.held().iter().flat_map(|placement| placement.claims()).map(|claim| claim.node.index()).collect()
}

#[test]
fn an_attempt_of_a_lost_node_is_stopped_where_it_may_still_run() {
    let node = NodeId::new(0);
    // The number of nodes, whether the first is gone or only silent, and the nodes on which the attempt may still run.
    for (nodes, is_gone, left) in [(1, false, &[0][..]), (1, true, &[]), (2, false, &[0, 1]), (2, true, &[1])] {
        let mut control = running(nodes);
        let told = match is_gone {
            true => tell(&mut control, 20, &Input::Fleet(FleetFact::NodeReported { node, state: NodeState::Gone })),
            false => {
                // Its attempts are given up 340 s after the last heartbeat.
                tell(&mut control, 20, &Input::Fleet(FleetFact::HeartbeatMissed { node, last: at(10) }));
                assert!(wait(&mut control, 349).is_empty());
                wait(&mut control, 350)
            }
        };
        let stops =
            told.iter().filter(|command| matches!(command, Command::Stop { attempt } if *attempt == first())).count();
        let kept = control.core.kept.claims.values().flat_map(|kept| kept.claims()).map(|claim| claim.node.index());
        assert_eq!(
            (stops, kept.collect::<Vec<_>>()),
            (usize::from(!left.is_empty()), left.to_vec()),
            "{nodes} nodes, {is_gone}"
        );
    }
}

#[test]
fn late_facts_change_nothing() {
    let mut control = running(1);
    let other = AttemptId { number: 2, ..first() };
    let ended = Lifecycle::Exited(Ending::Completed);
    for (attempt, fact) in [
        (other, ended),
        (first(), Lifecycle::Started),
        (first(), Lifecycle::Preparing),
        (first(), Lifecycle::Stopped),
        (first(), Lifecycle::StartFailed),
    ] {
        // A fact about an attempt that does not exist yet is refused at the door.
        if control.check_input(at(2), &Input::Attempt { attempt, fact }).is_ok() {
            assert!(tell(&mut control, 2, &Input::Attempt { attempt, fact }).is_empty());
        }
        assert_eq!(held(&control), [0], "{fact:?}");
    }
    tell(&mut control, 3, &Input::Attempt { attempt: first(), fact: ended });
    assert!(held(&control).is_empty());
}

#[test]
fn records_of_ended_jobs_are_dropped_when_the_instant_is_over() {
    let mut control = running(2);
    let dropped = |control: &mut Control| {
        let mut jobs = Vec::new();
        control.take_dropped(|job| jobs.push(job));
        jobs
    };
    assert_eq!(dropped(&mut control), []);
    tell(&mut control, 5, &Input::Attempt { attempt: first(), fact: Lifecycle::Exited(Ending::Completed) });
    assert_eq!((dropped(&mut control), dropped(&mut control)), (vec![JobId::new(0)], vec![]));
}

#[test]
fn an_explanation_leaves_out_the_room_that_is_promised_to_a_job_ahead() {
    let preempts =
        [("scheduler/preempt", json!("lower_priority")), ("scheduler/order", json!(["priority", "submitted"]))];
    let mut control = Control::new(Arc::new(with(&preempts)), 1);
    for (number, cores) in [16, 4].into_iter().enumerate() {
        let shape = NodeShape::of(MilliCpu::from_cores(cores), Bytes::from_gib(64), Vec::new());
        let spec = NodeSpec { name: format!("n{number}").into(), shape: Arc::new(shape) };
        let declared = FleetFact::NodeDeclared { node: NodeId::new(number), state: NodeState::Ready, spec };
        tell(&mut control, 0, &Input::Fleet(declared));
    }
    // On the first node, a job of no priority has 10 cores. An urgent job preempts it and waits until it has stopped.
    for (job, (cores, priority)) in [(10, 0), (14, 5), (6, 0), (4, 0)].into_iter().enumerate() {
        let demand = Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(cores)));
        let spec = Arc::new(JobSpec { priority, ..JobSpec::of(format!("j{job}").into(), demand) });
        let told = tell(&mut control, 0, &Input::Submit { job: JobId::new(job), spec });
        match job {
            0 => drop(tell(&mut control, 0, &Input::Attempt { attempt: first(), fact: Lifecycle::Started })),
            1 => assert!(matches!(told[..], [Command::Stop { .. }]), "{told:?}"),
            _ => {}
        }
    }
    let mut is_placed =
        |job| matches!(control.examine(JobId::new(job), 0).expect("it is submitted").decision, Decision::Place(_));
    // The 6 free cores of the first node are promised. Those of the second are not.
    assert!(!is_placed(2) && is_placed(3));
}

/// A pod that preempts clears the nominations of less important pods to its node, and of no others
/// (`getLowerPriorityNominatedPods` in `pkg/scheduler/framework/preemption/preemption.go`).
#[test]
fn a_pod_keeps_its_nomination_or_gets_it_back_when_another_one_preempts_on_its_node() {
    // A more important pod takes the nomination. The first pod is tried again at once, and gets it back.
    for priority in [1000, 1001] {
        let mut control = Control::new(Arc::new(with(&[("flow", kubernetes("1s", "10s"))])), 1);
        let gpus = vec![GpuShape::of("a", Bytes::from_gib(80)); 4];
        let shape = NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), gpus);
        let spec = NodeSpec { name: "n".into(), shape: Arc::new(shape) };
        let declared = FleetFact::NodeDeclared { node: NodeId::new(0), state: NodeState::Ready, spec };
        tell(&mut control, 0, &Input::Fleet(declared));
        let attempt = |job| AttemptId { job: JobId::new(job), ..first() };
        let submit = |control: &mut Control, seconds, job, (cores, gpus, priority)| {
            let gpus = GpuDemand { count: gpus, take: GpuTake::Whole, models: Vec::new(), min_memory: None };
            let gpus = Some(gpus).filter(|gpus| gpus.count > 0);
            let demand = Demand::of(TaskDemand { gpus, ..TaskDemand::cpu_only(MilliCpu::from_cores(cores)) });
            let spec = Arc::new(JobSpec { priority, ..JobSpec::of(format!("j{job}").into(), demand) });
            tell(control, seconds, &Input::Submit { job: JobId::new(job), spec })
        };
        let starts = |told: &[Command], job| {
            told.iter().any(|command| matches!(command, Command::Start { attempt: own, .. } if *own == attempt(job)))
        };
        let stops = |told: &[Command], job| matches!(told, [Command::Stop { attempt: own }] if *own == attempt(job));
        // One pod has two of four GPUs, and another one has 12 of 16 cores.
        for (job, what) in [(0, (0, 2, 0)), (1, (12, 0, 100))] {
            assert!(starts(&submit(&mut control, 0, job, what), job));
            tell(&mut control, 0, &Input::Attempt { attempt: attempt(job), fact: Lifecycle::Started });
        }
        assert!(stops(&submit(&mut control, 10, 2, (0, 3, 1000)), 0), "three GPUs");
        assert!(stops(&submit(&mut control, 20, 3, (8, 0, priority)), 1), "eight cores");
        // Two GPUs are free, but promised to the first of the two.
        let told = submit(&mut control, 30, 4, (0, 2, 500));
        assert!(!starts(&told, 4), "priority {priority}");
        let stopped = |job| Input::Attempt { attempt: attempt(job), fact: Lifecycle::Stopped };
        assert!(starts(&tell(&mut control, 40, &stopped(0)), 2), "priority {priority}");
        assert!(starts(&tell(&mut control, 50, &stopped(1)), 3), "priority {priority}");
    }
}

#[test]
fn what_each_node_lacks_is_kept_of_a_watched_pod_that_a_program_lets_wait() {
    let program = Program { when_unsafe: Unsafe::Allowed };
    let text: Arc<str> = "0/1 nodes are available".into();
    for (watched, kept) in [(JobId::new(0), 1), (JobId::new(1), 0)] {
        let profile = with(&[("flow", kubernetes("1s", "10s"))]).decided_by_kube_scheduler(program);
        let mut control = Control::new(Arc::new(profile), 1);
        control.watch(Watch::Job(watched));
        let shape = NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), Vec::new());
        let spec = NodeSpec { name: "n".into(), shape: Arc::new(shape) };
        let declared = FleetFact::NodeDeclared { node: NodeId::new(0), state: NodeState::Ready, spec };
        tell(&mut control, 0, &Input::Fleet(declared));
        let demand = Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(20)));
        let spec = Arc::new(JobSpec::of("j".into(), demand));
        let told = tell(&mut control, 0, &Input::Submit { job: JobId::new(0), spec });
        assert_eq!(told, [Command::Submit { attempt: first() }]);
        control.take_decisions();
        let waits = Outside::Waits { attempt: first(), reasons: Histogram::default(), text: Some(Arc::clone(&text)) };
        tell(&mut control, 1, &Input::External(External::Said(waits)));
        let decisions = control.take_decisions();
        assert_eq!(decisions.len(), kept, "{watched:?} is watched");
        for decision in decisions {
            assert_eq!(decision.examination.message, Some(Arc::clone(&text)));
            let verdicts: Vec<_> = decision.examination.nodes.iter().map(|finding| finding.verdict.reason()).collect();
            assert_eq!(verdicts, [Some(Reason::InsufficientCpu)]);
        }
    }
}

#[test]
fn jobs_are_analysed_one_after_the_other() {
    let mut control = Control::new(Arc::new(with(&[("analysis", json!({"concurrency": 1}))])), 1);
    for job in 0..4 {
        let demand = Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1)));
        let spec = Arc::new(JobSpec { analyse: true, ..JobSpec::of(format!("j{job}").into(), demand) });
        tell(&mut control, 0, &Input::Submit { job: JobId::new(job), spec });
    }
    let jobs = |attempts: Vec<AttemptId>| attempts.iter().map(|attempt| attempt.job.index()).collect::<Vec<_>>();
    let ahead = |job| control.analyses_ahead(JobId::new(job), 0).map(|ahead| (jobs(ahead.now), jobs(ahead.wanted)));
    assert_eq!(ahead(0), None, "it is being analysed");
    assert_eq!(ahead(1), Some((vec![0], vec![])));
    assert_eq!(ahead(3), Some((vec![0], vec![1, 2])));
}
