use super::*;
use crate::order::OrderKey;
use crate::{Entry, FilterStage, WeightedScorer};
use dryrack_units::{MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Demand, JobField, JobFields, JobSpec};

fn read<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// A job of two tasks that was submitted at five seconds, with this estimate in seconds.
fn entry(priority: i32, estimate: Option<u64>) -> Entry {
    Entry {
        priority,
        at: SimTime::from_nanos(5_000_000_000),
        estimate: estimate.map(SimDuration::from_secs),
        tasks: 2,
        submitted: 1,
        replica: 1,
        fields: JobFields::of(&job(priority, estimate), &JobField::ALL),
        ..Entry::default()
    }
}

/// A job of two tasks with three GPUs each, of user `bob` and queue `long`.
fn job(priority: i32, estimate: Option<u64>) -> JobSpec {
    let mut task = crate::test_world::gpu_task(3, dryrack_workload::GpuTake::Whole, &[]);
    (task.cpu, task.ram) = (MilliCpu::new(1500), dryrack_units::Bytes::from_gib(8));
    let demand = Demand { tasks: 2, ..Demand::of(task) };
    JobSpec {
        priority,
        user: Some("bob".into()),
        queue: Some("long".into()),
        checkpoints: true,
        estimate: estimate.map(SimDuration::from_secs),
        time_limit: Some(SimDuration::from_secs(7200)),
        ..JobSpec::of("job".into(), demand)
    }
}

#[test]
fn stages_are_written_as_they_are_read() {
    let filter = r#"{"filter":"no_spot","unless":"node.spot && job.tasks > 1","because":"spot_node"}"#;
    let stage: FilterStage = read(filter).unwrap();
    assert_eq!(serde_json::to_string(&stage).unwrap(), filter);
    assert_eq!(read::<FilterStage>(filter).unwrap(), stage);
    let scorer = r#"{"score":"nvlink","is":"node.labels.nvlink == \"yes\" ? 1 : 0","weight":2.0}"#;
    assert_eq!(serde_json::to_string(&read::<WeightedScorer>(scorer).unwrap()).unwrap(), scorer);
    let key = r#"{"order":"area","is":"job.estimate * job.tasks"}"#;
    assert_eq!(serde_json::to_string(&read::<OrderKey>(key).unwrap()).unwrap(), key);
    for known in [r#"{"stage":"ready"}"#, r#"{"stage":"ready","unless":"picked_on_several_nodes"}"#] {
        assert_eq!(serde_json::to_string(&read::<FilterStage>(known).unwrap()).unwrap(), known);
    }
}

#[test]
fn a_stage_that_is_half_written_is_refused() {
    for (json, said) in [
        (r#"{"filter":"x","because":"y"}"#, "unless"),
        (r#"{"filter":"x","unless":"node.spot"}"#, "because"),
        (r#"{"filter":"x","unless":"node.spot","because":"Spot Node"}"#, "lowercase letters"),
        (r#"{"filter":"x","unless":"node.sport","because":"y"}"#, "`node.sport` is unknown"),
        (r#"{"stage":"redy"}"#, "redy"),
        (r#"{"stage":"ready","because":"y"}"#, "a `stage` with a name"),
        (r#"{}"#, "stage"),
    ] {
        let error = read::<FilterStage>(json).expect_err(json);
        assert!(error.contains(said), "{json}: {error}");
    }
    assert!(read::<WeightedScorer>(r#"{"score":"x","weight":1}"#).is_err());
    assert!(read::<WeightedScorer>(r#"{"score":"x","is":"node.spot"}"#).is_err());
    assert!(read::<OrderKey>(r#"{"order":"x","is":"node.spot ? 1 : 0"}"#).is_err());
}

#[test]
fn what_a_stage_reads_decides_when_it_is_asked_again() {
    let reads = |unless| OwnFilter::of_expression("x", unless, "y").unwrap().reads();
    assert_eq!(reads("node.spot && node.labels.zone == \"a\" && job.tasks > 1 && gpus.total > 1"), Reads::Shape);
    assert_eq!(reads("node.spot && gpus.free > 1"), Reads::State);
    assert_eq!(reads("node.spot && time.hour > 1"), Reads::State);
    assert_eq!(reads("node.spot && queue.pending > 1"), Reads::State);
    let surroundings = |unless| OwnFilter::of_expression("x", unless, "y").unwrap().surroundings();
    assert_eq!(surroundings("gpus.free > 1"), Surroundings::default());
    assert_eq!(surroundings("time.weekday > 4"), Surroundings { time: true, weekday: true, queue: false });
    assert_eq!(surroundings("queue.pending > 4"), Surroundings { time: false, weekday: false, queue: true });
    let key = |is| OrderKey::Own(OwnKey::of_expression("x", is).unwrap());
    assert!(key("job.waited * 2").moves() && key("now").moves() && key("time.hour").moves());
    assert!(key("queue.pending > 9 ? job.tasks : 0").moves());
    assert!(!key("job.tasks").moves());
    assert!(key("job.estimated ? 1 : 2").uses_estimate() && !key("job.tasks").uses_estimate());
}

#[test]
fn every_variable_has_a_value() {
    // A function that reads all variables of each list, so that a variable without a value panics here.
    let entry = entry(3, None);
    let job = WaitingView::new(entry, SimTime::from_nanos(65_000_000_000), 7);
    for variable in view::OF_ORDER {
        view::value_of_waiting(&job, variable.path);
    }
    let rank = |is| OwnKey::of_expression("x", is).unwrap().rank(&job);
    assert_eq!(rank("job.waited").to_bits(), 60.0f64.to_bits());
    assert_eq!(rank("job.submitted + job.priority * job.tasks").to_bits(), 11.0f64.to_bits());
    assert_eq!(rank("queue.pending").to_bits(), 7.0f64.to_bits());
    assert_eq!(rank("job.estimated ? 0 : job.estimate").to_bits(), 1e15f64.to_bits());
    // Two tasks, each with three GPUs, one and a half cores and 8 GiB.
    assert_eq!(rank("job.total_gpus * 10000 + job.total_cpus * 100 + job.total_ram").to_bits(), 60_316.0f64.to_bits());
    let of_names = "job.user == 'bob' && job.queue == 'long' && job.project == '' && job.model == '' ? 1 : 0";
    assert_eq!(rank(of_names).to_bits(), 1.0f64.to_bits());
    assert_eq!(rank("job.checkpoints ? job.time_limit : 0").to_bits(), 7200.0f64.to_bits());
}

#[test]
fn a_registered_stage_is_named_like_any_other() {
    fn flat(_: &NodeView<'_>, _: &RequestView<'_>) -> f64 {
        0.5
    }
    register_scorer("flat_of_the_test", flat).unwrap();
    assert_eq!(register_scorer("flat_of_the_test", flat), Err(StageError::Taken("flat_of_the_test".to_string())));
    assert_eq!(register_scorer("pack", flat), Err(StageError::Taken("pack".to_string())));
    assert!(matches!(register_scorer("Flat", flat), Err(StageError::Name(_))));
    let json = r#"{"stage":"flat_of_the_test","weight":1.0}"#;
    assert_eq!(serde_json::to_string(&read::<WeightedScorer>(json).unwrap()).unwrap(), json);
}

#[test]
fn each_variable_of_a_node_and_of_a_job_has_its_value() {
    use crate::test_world::{gpu_task, node};
    use dryrack_fleet::{GpuState, Moment, NodeState, NodeStatus, Reserved};
    use dryrack_units::{GpuShare, Money};
    let gib = dryrack_units::Bytes::from_gib;
    let mut shape = node(&["b", "a", "b"]);
    (shape.machine, shape.rack, shape.switch) = (Some("dgx".into()), Some("r1".into()), Some("s1".into()));
    shape.price_per_hour = Some(Money::new(2_500_000));
    shape.reserved = Reserved { cpu: MilliCpu::from_cores(1), ram: gib(4), gpu_memory: gib(2) };
    shape.labels.insert("zone".into(), "z".into());
    shape.gpus[1].memory = gib(40);
    let mut status = NodeStatus::idle(NodeState::Ready, &shape);
    (status.cpu_taken, status.ram_taken) = (MilliCpu::from_cores(3), gib(10));
    (status.gpus[0].taken, status.gpus[0].memory_taken) = (GpuShare::new(500), gib(30));
    status.gpus[0].holders = 1;
    status.gpus[2].state = GpuState::Failed;
    let fleet = crate::test_world::fleet([shape.clone()]);
    let mut task = gpu_task(2, dryrack_workload::GpuTake::Share(GpuShare::new(250)), &["a"]);
    (task.cpu, task.ram) = (MilliCpu::from_cores(4), gib(8));
    task.labels.insert("zone".into(), "z".into());
    let fields = JobFields::of(&job(-2, None), &JobField::ALL);
    let group = dryrack_workload::TaskGroup {
        tasks: 3,
        task: &task,
        gang: Default::default(),
        pick: None,
        speeds: None,
        fields: fields.as_deref(),
    };
    let class = crate::node_class::all_classes(&fleet, crate::Grouping::EachNode).remove(0);
    // Half past one on the third day of the second week.
    let clock = SimTime::from_secs((9 * 24 + 1) * 3600 + 1800);
    let (view, request) =
        (NodeView::new(&shape, &status, Moment { time: clock, pending: 4 }), RequestView::of_tasks(group, &class));
    let expressions = [
        "node.labels.zone == \"z\"",
        "node.labels.other == \"\"",
        "node.machine == \"dgx\"",
        "node.os == \"linux\"",
        "node.arch == \"x86_64\"",
        "time.hour >= 1.5 && time.hour <= 1.5",
        "time.weekday == 2",
        "queue.pending == 4",
        "node.rack == \"r1\"",
        "node.switch == \"s1\"",
        "!node.spot",
        "node.priced",
        "node.price == 2.5",
        "node.cpus == 15",
        "node.cpus_free == 12",
        "node.ram == 60",
        "node.ram_free == 50",
        "gpus.total == 3",
        // One is half free, and one is not ready.
        "gpus.free == 1",
        "gpus.share_free == 2.5",
        "gpus.unready == 1",
        // 78, 38 and 78 GiB, of which 30 are taken.
        "gpus.memory == 38",
        "gpus.memory_free == 164",
        "job.tasks == 3",
        "job.cpus == 4",
        "job.ram == 8",
        "job.gpus == 2",
        "job.gpu_share == 0.25",
        "job.gpu_memory == 0",
        "job.labels.zone == \"z\"",
        "job.model == \"\"",
        "job.priority == -2",
        "job.user == \"bob\" && job.queue == \"long\" && job.project == \"\"",
        "!job.estimated && job.estimate == 1e15",
        "job.time_limit == 7200",
        "job.checkpoints",
    ];
    for is_so in expressions {
        let filter = OwnFilter::of_expression("x", is_so, "y").expect(is_so);
        assert!(!filter.judge(&view, &request, false).is_fit(), "{is_so}");
    }
}

#[test]
fn a_registered_filter_takes_no_name_that_is_taken() {
    fn nobody(_: &NodeView<'_>, _: &RequestView<'_>) -> bool {
        false
    }
    register_filter("nobody_of_the_test", nobody).unwrap();
    for taken in ["nobody_of_the_test", "ready"] {
        assert_eq!(register_filter(taken, nobody), Err(StageError::Taken(taken.to_string())));
    }
    let json = r#"{"stage":"nobody_of_the_test"}"#;
    assert_eq!(serde_json::to_string(&read::<FilterStage>(json).unwrap()).unwrap(), json);
}

#[test]
fn what_expressions_can_read_is_listed() {
    let has = |variables: &[dryrack_expression::Variable], path| variables.iter().any(|known| known.path == path);
    assert!(has(placement_variables(), "node.labels") && !has(placement_variables(), "job.waited"));
    assert!(has(order_variables(), "job.waited") && !has(order_variables(), "node.labels"));
}

#[test]
fn functions_read_what_expressions_read() {
    use crate::test_world::node;
    use dryrack_fleet::{Moment, NodeState, NodeStatus};
    use dryrack_workload::{Bounds, GpuRequirements, Requirements};
    let (mixed, none) = (node(&["b", "a", "b"]), node(&[]));
    let status = NodeStatus::idle(NodeState::Ready, &mixed);
    assert_eq!(NodeView::new(&mixed, &status, Moment::default()).gpu_types(), ["b", "a"]);
    let status = NodeStatus::idle(NodeState::Ready, &none);
    let empty = NodeView::new(&none, &status, Moment::default());
    assert_eq!((empty.gpus(), empty.gpu_memory().to_bits(), empty.price_per_hour()), (0, 0.0f64.to_bits(), None));
    // Of a range, the lower limit counts.
    let mut asked = Requirements { cpu: Bounds { min: Some(4), max: None }, ..Requirements::default() };
    asked.memory.min = Some(dryrack_units::Bytes::from_gib(8));
    let without = RequestView::of_requirements(2, &asked, None);
    assert_eq!((without.tasks(), without.cpus() as u32, without.ram() as u32), (2, 4, 8));
    assert_eq!((without.gpus(), without.gpu_share().to_bits(), without.label("zone")), (0, 0.0f64.to_bits(), ""));
    let count = Bounds { min: Some(2), max: Some(8) };
    asked.gpu = Some(GpuRequirements { names: vec!["h100".into()], count, ..GpuRequirements::default() });
    let with = RequestView::of_requirements(1, &asked, None);
    assert_eq!((with.gpus(), with.gpu_share().to_bits(), with.gpu_types()), (2, 1.0f64.to_bits(), vec!["h100"]));
    let seconds = |seconds: u64| SimTime::from_nanos(seconds * 1_000_000_000);
    let entry = Entry { ran: SimDuration::from_secs(90), ..entry(-3, Some(600)) };
    let job = WaitingView::new(entry, seconds(65), 7);
    assert_eq!((job.priority(), job.tasks()), (-3, 2));
    assert_eq!((job.user(), job.queue(), job.project(), job.model()), ("bob", "long", "", ""));
    assert_eq!(
        [job.total_gpus(), job.total_cpus(), job.total_ram()].map(|amount| (amount * 10.0) as u32),
        [60, 30, 160]
    );
    assert!(job.checkpoints() && job.time_limit().is_some_and(|limit| limit as u32 == 7200));
    let times = [job.submitted(), job.waited(), job.ran(), job.now(), job.estimate().unwrap_or(0.0)];
    assert_eq!(times.map(|time| time as u32), [5, 60, 90, 65, 600]);
}

/// A profile with these filters for tasks, models and offers.
fn options_with(of_tasks: &str, of_models: &str, of_offers: &str) -> crate::SchedulerOptions {
    let own = |unless| OwnFilter::of_expression("x", unless, "y").unwrap();
    let mut options = crate::test_world::options();
    options.filters.push(FilterStage { stage: crate::FilterName::Own(own(of_tasks)), unless: None });
    options.deployments.filters.push(crate::deployment::DeploymentFilter::Own(own(of_models)));
    options.offers.filters.push(own(of_offers));
    options
}

#[test]
fn a_demand_holds_the_fields_that_its_own_stages_read() {
    let asked = std::sync::Arc::new(dryrack_workload::Requirements::default());
    let offers = JobSpec { user: Some("bob".into()), ..JobSpec::of("job".into(), Demand::of(asked)) };
    let options = options_with("job.priority > 1 && job.estimated", "job.user == 'bob'", "job.project == 'a'");
    assert_eq!(options.demand_of(&job(2, None)).fields, options.demand_of(&job(2, None)).fields);
    assert_ne!(options.demand_of(&job(2, None)).fields, options.demand_of(&job(3, None)).fields);
    assert_ne!(options.demand_of(&job(2, None)).fields, options.demand_of(&job(2, Some(5))).fields);
    // The filter for offers reads no user.
    let nobody = JobSpec { user: None, ..offers.clone() };
    assert_eq!(options.demand_of(&offers), options.demand_of(&nobody));
    let of_project = JobSpec { project: Some("b".into()), ..offers.clone() };
    assert_ne!(options.demand_of(&offers), options.demand_of(&of_project));
    assert!(options.reads_fields() && options.stages_read(JobField::User) && !options.stages_read(JobField::Queue));
    // Without such stages, a demand stays the same object.
    let plain = options_with("job.tasks > 1", "job.tasks > 1", "node.spot");
    assert!(std::sync::Arc::ptr_eq(&plain.demand_of(&offers), &offers.demand) && !plain.reads_fields());
    // Another profile may read less.
    let keyed = options.with_fields(&std::sync::Arc::new(offers.clone()));
    assert_eq!(plain.demand_of(&keyed).fields, None);
}

#[test]
fn a_variable_of_another_stage_is_explained() {
    let of_filter = |text: &str| {
        let fault = check_filter(text).expect_err(text);
        (text[fault.at].to_string(), fault.message, fault.help.unwrap_or_default())
    };
    for (text, at, help) in [
        ("node.spot && job.name == 'a'", "job.name", "read `job.user`, `job.project` or `job.queue`"),
        ("job.waited > 5", "job.waited", "only an `order` can read it"),
        ("node.name == 'a'", "node.name", "read `node.labels.NAME`"),
        ("job.priorty > 5", "job.priorty", "did you mean `job.priority`?"),
        ("job.username == 'bob'", "job.username", "job.user"),
    ] {
        let (place, message, said) = of_filter(text);
        assert_eq!((place.as_str(), message), (at, format!("`{at}` is unknown")), "{text}");
        assert!(said.contains(help), "{text}: {said}");
    }
    for (text, at, why) in [
        ("job.priority == 'high'", "'high'", "never equal"),
        ("job.user > 1", "1", "compares"),
        ("job.checkpoints > 0", "job.checkpoints", ""),
        ("job.user", "job.user", ""),
    ] {
        let (place, message, _) = of_filter(text);
        assert!(message.contains(why), "{text}: {message} at {place} for {at}");
    }
}

#[test]
fn a_registered_key_may_read_everything() {
    fn by_tasks(job: &WaitingView) -> f64 {
        f64::from(job.tasks())
    }
    register_order("tasks_of_the_test", by_tasks).unwrap();
    let key = read::<OrderKey>(r#""tasks_of_the_test""#).unwrap();
    assert!(key.moves() && key.uses_estimate());
    for taken in ["tasks_of_the_test", "submitted"] {
        assert_eq!(register_order(taken, by_tasks), Err(StageError::Taken(taken.to_string())));
    }
}
