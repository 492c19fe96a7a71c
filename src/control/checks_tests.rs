//! Tests of the checks of inputs: what a log that someone altered may state.

use std::sync::Arc;

use serde_json::json;

use super::Control;
use super::profile_tests::with;
use dryrack_event::{External, FleetFact, Input, Lifecycle, UsageFact, UserRequest};
use dryrack_fleet::{Foreign, GpuShape, GpuState, NodeClaim, NodeShape, NodeSpec, NodeState, Placement};
use dryrack_ids::{AttemptId, FleetId, GpuId, JobId, NodeId};
use dryrack_units::{Bytes, MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Condition, Demand, Dependency, JobSpec, Pick, RunLimit, TaskDemand, UtilizationOverrides};

const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

fn node_spec(name: &str) -> NodeSpec {
    let gpus = vec![GpuShape::of("a", Bytes::from_gib(16))];
    let shape = NodeShape::of(MilliCpu::from_cores(8), Bytes::from_gib(64), gpus);
    NodeSpec { name: name.into(), shape: Arc::new(shape) }
}

fn job_spec() -> JobSpec {
    JobSpec::of("j".into(), Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1))))
}

fn attempt(job: usize, replica: u32) -> AttemptId {
    AttemptId { job: JobId::new(job), replica, number: 1 }
}

/// One ready node with one GPU, and one job with one replica.
fn small(changes: &[(&str, serde_json::Value)]) -> Control {
    let mut control = Control::new(Arc::new(with(changes)), 1);
    let declared = FleetFact::NodeDeclared { node: NodeId::new(0), state: NodeState::Ready, spec: node_spec("n0") };
    for input in [Input::Fleet(declared), Input::Submit { job: JobId::new(0), spec: Arc::new(job_spec()) }] {
        assert_eq!(control.check_input(at(5), &input), Ok(()));
        tell(&mut control, 5, &input);
    }
    control
}

fn tell(control: &mut Control, seconds: u64, input: &Input) {
    control.handle(at(seconds), input);
    while control.poll_output().is_some() {}
    control.settle(at(seconds));
    while control.poll_output().is_some() {}
}

/// Asserts what is said about each input at 10 s.
fn hold(control: &Control, expected: &[(Input, Result<(), &'static str>)]) {
    for (input, said) in expected {
        assert_eq!(control.check_input(at(10), input), *said, "{input:?}");
    }
}

#[test]
fn inputs_about_what_does_not_exist_are_refused() {
    let control = small(&[]);
    let (node, gpu) = (NodeId::new(1), GpuId { node: NodeId::new(0), index: 1 });
    let (no_node, no_job) = (Err("a node that was never declared"), Err("a job that was never submitted"));
    let (no_gpu, no_replica) = (Err("a GPU that was never declared"), Err("a replica that does not exist"));
    let job = JobId::new(1);
    let fact = |attempt, fact| Input::Attempt { attempt, fact };
    let sample = |attempt| {
        Input::Usage(UsageFact::Sample {
            attempt,
            at: at(9),
            utilization: Default::default(),
            memory: Default::default(),
        })
    };
    hold(
        &control,
        &[
            (Input::User(UserRequest::Cancel { job: JobId::new(0) }), Ok(())),
            (Input::User(UserRequest::Cancel { job }), no_job),
            (Input::User(UserRequest::Scale { job: JobId::new(0), replicas: 2 }), Ok(())),
            (Input::User(UserRequest::Scale { job, replicas: 2 }), no_job),
            (
                Input::User(UserRequest::Scale { job: JobId::new(0), replicas: 0 }),
                Err("a job that is scaled to no replica"),
            ),
            (Input::Usage(UsageFact::Requests { job, requests: 1 }), no_job),
            (fact(attempt(0, 0), Lifecycle::Started), Ok(())),
            (fact(attempt(1, 0), Lifecycle::Started), no_job),
            (fact(attempt(0, 1), Lifecycle::Started), no_replica),
            (fact(attempt(0, 0), Lifecycle::StoppedOn { node: NodeId::new(0) }), Ok(())),
            (fact(attempt(0, 0), Lifecycle::StoppedOn { node }), no_node),
            (sample(attempt(0, 0)), Ok(())),
            (sample(attempt(0, 1)), no_replica),
            (Input::Fleet(FleetFact::HeartbeatBack { node: NodeId::new(0) }), Ok(())),
            (Input::Fleet(FleetFact::HeartbeatBack { node }), no_node),
            (Input::Fleet(FleetFact::HeartbeatMissed { node, last: at(9) }), no_node),
            (Input::Fleet(FleetFact::NodeReported { node, state: NodeState::Ready }), no_node),
            (Input::Fleet(FleetFact::GpuReported { gpu, state: GpuState::Ready }), no_gpu),
            (Input::Fleet(FleetFact::ForeignUse { gpu, foreign: Foreign::NONE }), no_gpu),
            (Input::Fleet(FleetFact::GpuReported { gpu: GpuId { index: 0, ..gpu }, state: GpuState::Ready }), Ok(())),
            (
                Input::Fleet(FleetFact::CapacityReported { fleet: FleetId::new(0), offer: 0, available: 1 }),
                Err("an offer that no fleet has"),
            ),
        ],
    );
}

#[test]
fn inputs_out_of_order_are_refused() {
    let control = small(&[]);
    let declared = |number| FleetFact::NodeDeclared {
        node: NodeId::new(number),
        state: NodeState::Ready,
        spec: node_spec(&format!("n{number}")),
    };
    let reported = |state| Input::Fleet(FleetFact::NodeReported { node: NodeId::new(0), state });
    let missed = |last| Input::Fleet(FleetFact::HeartbeatMissed { node: NodeId::new(0), last });
    let submitted = |job| Input::Submit { job: JobId::new(job), spec: Arc::new(job_spec()) };
    assert_eq!(control.check_input(at(5), &Input::Wakeup), Ok(()));
    assert_eq!(control.check_input(at(4), &Input::Wakeup), Err("time falls"));
    hold(
        &control,
        &[
            (Input::Fleet(declared(1)), Ok(())),
            (Input::Fleet(declared(0)), Err("a node out of order")),
            (Input::Fleet(declared(2)), Err("a node out of order")),
            (reported(NodeState::Joining), Err("a node that has joined joins again")),
            (reported(NodeState::NotReady), Ok(())),
            (missed(at(10)), Ok(())),
            (missed(at(11)), Err("a heartbeat from the future")),
            (submitted(1), Ok(())),
            (submitted(0), Err("a job out of order")),
            (submitted(2), Err("a job out of order")),
        ],
    );
}

#[test]
fn jobs_that_no_file_can_state_are_refused() {
    let control = small(&[]);
    let demand = |tasks| Demand { tasks, ..Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1))) };
    let job = |spec: JobSpec| Input::Submit { job: JobId::new(1), spec: Arc::new(spec) };
    let of_tasks = |tasks| job(JobSpec::of("j".into(), demand(tasks)));
    let after = |number| {
        let dependency = Dependency { job: JobId::new(number), when: Condition::Ok };
        job(JobSpec { after: vec![dependency].into(), ..job_spec() })
    };
    let array = |most| {
        let limit = RunLimit::ArrayTasks { array: "a".into(), most };
        job(JobSpec { run_limit: Some(Box::new(limit)), ..job_spec() })
    };
    let too_many = Err("a job with too many replicas or tasks");
    hold(
        &control,
        &[
            (of_tasks(1_000_000), Ok(())),
            (of_tasks(1_000_001), too_many),
            (of_tasks(0), Err("a job without tasks")),
            (job(JobSpec { replicas: 1_000_000, ..job_spec() }), Ok(())),
            (job(JobSpec { replicas: 1_000_001, ..job_spec() }), too_many),
            (job(JobSpec { replicas: 0, ..job_spec() }), Err("a job without replicas")),
            (after(0), Ok(())),
            (after(1), Err("a job that depends on a job that was not submitted before it")),
            (array(1), Ok(())),
            (array(0), Err("a task of an array that allows no task to run")),
        ],
    );
}

#[test]
fn questions_that_no_user_can_ask_are_refused() {
    let asks = |demand: Demand| Input::Evaluate { name: "j".into(), demand: Arc::new(demand), spec: None };
    let demand = || Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1)));
    let picks = |node| Demand { pick: Some(Pick::Nodes(vec![NodeId::new(node)])), ..demand() };
    hold(
        &small(&[]),
        &[
            (asks(demand()), Ok(())),
            (asks(Demand { tasks: 0, ..demand() }), Err("a job without tasks")),
            (asks(picks(0)), Ok(())),
            (asks(picks(1)), Err("a node that was never declared")),
        ],
    );
    let needs_job = json!([{"score": "own", "is": "job.priority", "weight": 1.0}]);
    let control = small(&[("scheduler/scorers", needs_job)]);
    let spec = Arc::new(job_spec());
    let whole = Input::Evaluate { name: "j".into(), demand: Arc::clone(&spec.demand), spec: Some(spec) };
    let lacking = "a question without the job, of which the profile reads more than what it asks for";
    hold(&control, &[(asks(demand()), Err(lacking)), (whole, Ok(()))]);
}

#[test]
fn a_decision_from_outside_needs_a_profile_that_leaves_it() {
    let claim = |node, cores| NodeClaim {
        tasks: 1,
        cpu: MilliCpu::from_cores(cores),
        ..NodeClaim::of_nothing(NodeId::new(node))
    };
    let decided = |claims: Vec<NodeClaim>| {
        let placement = Some(Placement::new(claims.into_iter().collect()));
        Input::External(External::Decided { attempt: attempt(0, 0), placement })
    };
    let own = "an outside decision under a profile that decides itself";
    hold(&small(&[]), &[(decided(vec![claim(0, 1)]), Err(own))]);
    let control = small(&[("passes/place", json!({"trigger": "outside", "batch": null, "jitter": "0s"}))]);
    let no_node = "a placement on a node or a GPU that was never declared";
    hold(
        &control,
        &[
            (decided(vec![claim(0, 1)]), Ok(())),
            (Input::External(External::Decided { attempt: attempt(0, 0), placement: None }), Ok(())),
            (decided(vec![claim(1, 1)]), Err(no_node)),
            (
                decided(vec![]),
                Err("a placement that does not have exactly one claim for each node, in the order of the nodes"),
            ),
            (
                decided(vec![NodeClaim { tasks: 0, ..claim(0, 1) }]),
                Err("a placement without tasks, or on blocks of an instance"),
            ),
        ],
    );
}

#[test]
fn a_profile_that_binds_no_live_job_is_refused() {
    let policy = with(&[
        ("policies/utilization/min_gpu_utilization", json!("50%")),
        ("policies/utilization/time_window", json!("10m")),
    ]);
    let changes = Input::Fleet(FleetFact::Reconfigure { profile: policy.to_data().to_string().into() });
    let mut control = small(&[]);
    assert_eq!(control.check_input(at(10), &changes), Ok(()));
    // A sample each 10 s for 1,000 days is too many.
    let window = SimDuration::from_secs(1000 * 86_400);
    let utilization = UtilizationOverrides { time_window: Some(window), ..UtilizationOverrides::default() };
    let spec = Arc::new(JobSpec { utilization: Arc::new(utilization), ..job_spec() });
    let job = JobId::new(1);
    tell(&mut control, 10, &Input::Submit { job, spec });
    let too_many = "a profile with a utilization policy without a time window, or with too many samples in it";
    assert_eq!(control.check_input(at(10), &changes), Err(too_many));
    for input in
        [Input::User(UserRequest::Cancel { job }), Input::Attempt { attempt: attempt(1, 0), fact: Lifecycle::Stopped }]
    {
        tell(&mut control, 11, &input);
    }
    assert_eq!(control.check_input(at(11), &changes), Ok(()));
}
