//! Tests of what is said of nodes that do not do, of the ranks of waiting jobs, and of what options read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::entry::Entry;
use crate::filter::FilterName;
use crate::filter::{FilterStage, labels};
use crate::gpu_order::GpuOrder;
use crate::lack::lacks;
use crate::node_class::{Grouping, all_classes};
use crate::options::SchedulerOptions;
use crate::order::{Moment, OrderKey};
use crate::own::{OwnFilter, OwnKey, OwnScorer};
use crate::scorer::{ScorerName, WeightedScorer};
use crate::shortage::shortages;
use crate::test_world::{cpu_task, fleet, gpu_task, hold, node, options, shares, whole_gpus, with_gpus};
use crate::verdict::Verdict;
use dryrack_catalog::{CpuArch, Os};
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, GpuState, NodeShape, RESTRICTED_CORES_LABEL};
use dryrack_ids::{GpuId, NodeId};
use dryrack_units::{Bytes, MilliCpu, Permille, SimDuration, SimTime};
use dryrack_workload::{Demand, Gang, GpuTake, TaskDemand, TaskGroup, TaskSet};

fn said(fleet: &Fleet, task: &TaskDemand) -> Vec<String> {
    let demand = TaskGroup { tasks: 1, task, gang: Gang::Anywhere, pick: None, speeds: None, fields: None };
    let of = shortages(demand, &all_classes(fleet, Grouping::EachNode)[0]);
    of.iter().map(|short| format!("{}: {} of {}", short.resource, short.free, short.needed)).collect()
}

#[test]
fn everything_that_a_node_is_short_of_is_said() {
    let mut held = fleet([with_gpus(4)]);
    hold(&mut held, 0, 10, &[0]);
    assert_eq!(said(&held, &TaskDemand { ram: Bytes::from_gib(64), ..cpu_task(6) }), [""; 0]);
    let large = TaskDemand { ram: Bytes::from_gib(65), ..cpu_task(7) };
    let of_large = said(&held, &large);
    assert_eq!(of_large.len(), 2);
    assert!(of_large[0].starts_with("CPU: 6") && of_large[1].starts_with("RAM: 64"), "{of_large:?}");
    // One GPU is held and one has failed.
    held.set_gpu_state(GpuId { node: NodeId::new(0), index: 1 }, GpuState::Failed);
    assert_eq!((said(&held, &whole_gpus(2)), said(&held, &whole_gpus(3))), (vec![], vec!["GPUs: 2 of 3".to_string()]));
    assert_eq!(said(&held, &gpu_task(1, GpuTake::Whole, &["b"])), ["GPUs: 0 of 1"]);
    assert_eq!(said(&held, &shares(2, 500)), [""; 0]);
    let three = said(&held, &shares(3, 500));
    assert!(three.len() == 1 && three[0].starts_with("GPU: 2 x") && three[0].contains("of 3 x"), "{three:?}");
    let memory = |count, gib| said(&held, &gpu_task(count, GpuTake::Memory(Bytes::from_gib(gib)), &[]));
    assert_eq!((memory(2, 80), memory(1, 80)), (vec![], vec![]));
    assert!(memory(3, 80)[0].starts_with("GPU memory: 2 x"));
    assert!(memory(1, 81)[0].starts_with("GPU memory: 80"));
    let demand = TaskDemand { ram: Bytes::from_gib(128), ..cpu_task(1) };
    let group = TaskGroup { tasks: 1, task: &demand, gang: Gang::Anywhere, pick: None, speeds: None, fields: None };
    assert_eq!(shortages(group, &all_classes(&held, Grouping::EachNode)[0])[0].missing, Permille::new(500));
    // Of 16 cores, 12 are restricted to GPUs.
    let mut restricted = with_gpus(4);
    restricted.labels.insert(RESTRICTED_CORES_LABEL.into(), "3".into());
    let restricted = fleet([restricted]);
    assert_eq!(said(&restricted, &cpu_task(4)), [""; 0]);
    assert!(said(&restricted, &cpu_task(5))[0].starts_with("unrestricted CPU: 4"));
    assert_eq!(said(&restricted, &TaskDemand { cpu: MilliCpu::from_cores(7), ..whole_gpus(1) }), [""; 0]);
    assert!(said(&restricted, &TaskDemand { cpu: MilliCpu::from_cores(8), ..whole_gpus(1) })[0].contains("4 of 5"));
}

#[test]
fn what_no_node_of_the_fleet_has_is_said() {
    let (mut zoned, plain) = (node(&["a100-80g", "a100-80g"]), node(&["l4"]));
    zoned.labels.insert("zone".into(), "east".into());
    let of = |task: TaskDemand| lacks(&Demand::of(task), &[&zoned, &plain]);
    assert_eq!(of(whole_gpus(2)), [""; 0]);
    assert_eq!(of(gpu_task(1, GpuTake::Whole, &["l4", "h100"])), [""; 0]);
    assert_eq!(of(gpu_task(1, GpuTake::Whole, &["a100-80"])), ["no node has GPU `a100-80` (did you mean `a100-80g`?)"]);
    assert_eq!(of(whole_gpus(3)), ["no node has 3 GPUs, which one task asks for (at most 2)"]);
    assert_eq!(
        of(gpu_task(2, GpuTake::Whole, &["l4"])),
        ["no node has 2 GPUs `l4`, which one task asks for (at most 1)"]
    );
    let labelled =
        |key: &str, value: &str| TaskDemand { labels: BTreeMap::from([(key.into(), value.into())]), ..cpu_task(1) };
    assert_eq!(of(labelled("zone", "east")), [""; 0]);
    assert_eq!(of(labelled("zone", "eats")), ["no node has the label `zone: eats` (did you mean `east`?)"]);
    assert_eq!(of(labelled("zome", "east")), ["no node has the label `zome` (did you mean `zone`?)"]);
    assert_eq!(of(TaskDemand { os: Some(Os::Linux), arch: Some(CpuArch::X86_64), ..cpu_task(1) }), [""; 0]);
    assert_eq!(of(TaskDemand { os: Some(Os::Windows), ..cpu_task(1) }).len(), 1);
    assert_eq!(of(TaskDemand { arch: Some(CpuArch::Aarch64), ..cpu_task(1) }).len(), 1);
    assert_eq!((of(cpu_task(16)).len(), of(cpu_task(17)).len()), (0, 1));
    let ram = |gib| of(TaskDemand { ram: Bytes::from_gib(gib), ..cpu_task(1) }).len();
    assert_eq!((ram(64), ram(65)), (0, 1));
    let memory = |take: u64, least: Option<u64>| {
        let mut task = gpu_task(1, GpuTake::Memory(Bytes::from_gib(take)), &[]);
        task.gpus.as_mut().expect("GPUs").min_memory = least.map(Bytes::from_gib);
        of(task).len()
    };
    assert_eq!((memory(80, None), memory(81, None), memory(10, Some(80)), memory(10, Some(81))), (0, 1, 0, 1));
    assert_eq!(lacks(&Demand::of(whole_gpus(1)), &[&node(&[])]), ["no node has a GPU"]);
    assert_eq!(lacks(&Demand::of(whole_gpus(1)), &[]), [""; 0]);
    // A set that may start without tasks does not count. What two sets lack is said once.
    let set = |name: &str, min_tasks, task| TaskSet { name: name.into(), tasks: 2, min_tasks, task };
    let of = |sets: Vec<TaskSet>| lacks(&Demand::of(Arc::<[TaskSet]>::from(sets)), &[&zoned, &plain]);
    let h100 = || gpu_task(1, GpuTake::Whole, &["h100"]);
    assert_eq!(of(vec![set("a", 1, whole_gpus(1)), set("b", 0, h100())]), [""; 0]);
    assert_eq!(of(vec![set("a", 1, h100()), set("b", 2, h100())]), of(vec![set("a", 1, h100())]));
    assert_eq!(of(vec![set("a", 1, h100())]), ["no node has GPU `h100` (known are a100-80g, l4)"]);
    assert_eq!(of(vec![set("a", 1, h100()), set("b", 1, cpu_task(17))]).len(), 2);
    let mut restricted = with_gpus(4);
    restricted.labels.insert(RESTRICTED_CORES_LABEL.into(), "3".into());
    let of = |task: TaskDemand| lacks(&Demand::of(task), &[&restricted]).len();
    let with_cores = |cores| TaskDemand { cpu: MilliCpu::from_cores(cores), ..whole_gpus(1) };
    assert_eq!((of(cpu_task(4)), of(cpu_task(5)), of(with_cores(5))), (0, 1, 0));
}

#[test]
fn a_missing_label_counts_more_than_another_value() {
    let of = |asked: &[(&str, &str)]| {
        let asked: Vec<(Arc<str>, Arc<str>)> =
            asked.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let has = BTreeMap::from([("a".into(), "1".into()), ("slurm/partition/gpu".into(), "yes".into())]);
        labels::judge(asked.iter().map(|(key, value)| (key, value)), &has)
    };
    assert_eq!((of(&[]), of(&[("a", "1"), ("slurm/partition/gpu", "yes")])), (Verdict::Fit, Verdict::Fit));
    assert_eq!(of(&[("a", "2")]), Verdict::Never(Reason::LabelMismatch));
    assert_eq!(of(&[("a", "2"), ("b", "1")]), Verdict::Never(Reason::LabelMissing));
    assert_eq!(of(&[("slurm/partition/cpu", "yes")]), Verdict::Never(Reason::PartitionMismatch));
    assert_eq!(of(&[("slurm/reservation/r", "yes")]), Verdict::Never(Reason::OutsideReservation));
}

fn entry(submitted: u64, estimate: Option<u64>, tasks: u32) -> Entry {
    Entry {
        at: SimTime::from_secs(submitted),
        estimate: estimate.map(SimDuration::from_secs),
        tasks,
        submitted,
        replica: 1,
        ..Entry::default()
    }
}

#[test]
fn published_orders_rank_jobs_by_their_formulas() {
    let now = SimTime::from_secs(100);
    let moment = Moment { now, pending: 0, charged: &[4.0, 2.0] };
    // For each key: the jobs in their order, each as its submission, its estimate and its tasks.
    let in_order = |key: OrderKey, jobs: &[(u64, Option<u64>, u32)]| {
        let ranks: Vec<u64> =
            jobs.iter().map(|(at, estimate, tasks)| key.rank_at(&entry(*at, *estimate, *tasks), &moment)).collect();
        assert!(ranks.is_sorted_by(|one, other| one < other), "{}: {ranks:?}", key.name());
    };
    // log10(estimate) * tasks + 870 * log10(submission): 2 + 0, 4 + 0, 1 + 870, and 100,000 tasks outweigh a tenfold time.
    in_order(OrderKey::F1, &[(1, Some(100), 1), (1, Some(100), 2), (10, Some(10), 1), (1, Some(10), 100_000)]);
    // A time of zero counts as a tenth of a second: 0.1 has the logarithm -1.
    in_order(OrderKey::F1, &[(0, Some(10), 1), (1, Some(0), 1), (1, Some(1), 1)]);
    // -(waited / estimate)^3 * tasks: -1,000, -125 * 4 = -500, -125, and 0 without an estimate.
    in_order(OrderKey::Wfp3, &[(0, Some(10), 1), (50, Some(10), 4), (50, Some(10), 1), (0, None, 1)]);
    // -waited / (log2(tasks) * estimate): -10 for one task as for two, -5 for four, and -3.3 for eight.
    in_order(OrderKey::Unicef, &[(0, Some(10), 2), (0, Some(10), 4), (0, Some(10), 8), (0, None, 2)]);
    let of_one = OrderKey::Unicef.rank_at(&entry(0, Some(10), 1), &moment);
    assert_eq!(of_one, OrderKey::Unicef.rank_at(&entry(0, Some(10), 2), &moment));
    // RLScheduler's waiting time is -1 less the submission, so later jobs come last: (11 / 10)^3, (21 / 10)^3, twice that.
    in_order(OrderKey::Wfp3Rlscheduler, &[(10, Some(10), 1), (20, Some(10), 1), (20, Some(10), 2)]);
    in_order(OrderKey::UnicefRlscheduler, &[(10, Some(10), 4), (10, Some(10), 2), (20, Some(10), 2)]);
    in_order(OrderKey::Remaining, &[(0, Some(10), 1), (0, Some(20), 1), (0, None, 1)]);
    in_order(OrderKey::Tasks, &[(9, None, 1), (0, None, 2)]);
    let of_user = |user| OrderKey::FairShare.rank_at(&Entry { user, ..entry(0, None, 1) }, &moment);
    assert!(of_user(2) < of_user(1) && of_user(1) < of_user(0));
    let moves = |key: OrderKey| (key.moves(), key.moves_with_time(), key.uses_estimate());
    assert_eq!(moves(OrderKey::Wfp3), (true, true, true));
    assert_eq!(moves(OrderKey::FairShare), (true, false, false));
    assert_eq!((moves(OrderKey::Estimate), moves(OrderKey::Tasks)), ((false, false, true), (false, false, false)));
    assert_eq!(OrderKey::Wfp3.fixed_rank(&entry(5, Some(5), 1)), 0);
    assert_eq!(OrderKey::Submitted.fixed_rank(&entry(5, None, 1)), 5);
    let own = |is| OrderKey::Own(OwnKey::of_expression("x", is).expect(is));
    assert_eq!(moves(own("queue.pending")), (true, false, false));
    assert_eq!(moves(own("job.waited")), (true, true, false));
}

#[test]
fn options_say_what_their_stages_read() {
    let filter = |unless| FilterStage {
        stage: FilterName::Own(OwnFilter::of_expression("x", unless, "y").expect(unless)),
        unless: None,
    };
    let scorer = |stage| WeightedScorer { stage, weight: 1.0 };
    let own_scorer = |is| scorer(ScorerName::Own(OwnScorer::of_expression("x", is).expect(is)));
    let with_filter = |unless| {
        let mut changed = options();
        changed.filters.push(filter(unless));
        changed
    };
    let with_scorer = |scorer| SchedulerOptions { scorers: vec![scorer], ..options() };
    let marks = |options: &SchedulerOptions| {
        let is = [
            options.needs_target(),
            options.needs_kinds(),
            options.may_placing_make_room(),
            options.has_unsteady_stages(),
            options.read_by_filters().queue,
            options.read_by_stages().queue,
            options.read_by_stages().time,
            options.asks_for_reliance(),
        ];
        is.map(|is| if is { 'x' } else { '.' }).iter().collect::<String>()
    };
    assert_eq!(marks(&options()), "........");
    assert_eq!(marks(&SchedulerOptions { gpus: GpuOrder::LeastFragmentation, ..options() }), "x.......");
    assert_eq!(marks(&with_scorer(scorer(ScorerName::Fgd))), "x.......");
    assert_eq!(marks(&with_scorer(scorer(ScorerName::GpuClustering))), ".x......");
    assert_eq!(marks(&with_scorer(scorer(ScorerName::Readiness))), ".......x");
    assert_eq!(marks(&with_scorer(own_scorer("queue.pending"))), "...x.x..");
    assert_eq!(marks(&with_scorer(own_scorer("time.hour"))), "...x..x.");
    assert_eq!(marks(&with_filter("node.spot")), "........");
    assert_eq!(marks(&with_filter("gpus.free > 1")), "..xx....");
    assert_eq!(marks(&with_filter("queue.pending > 1")), "..xxxx..");
    assert_eq!(marks(&with_filter("time.hour > 1")), "..xx..x.");
    let mut reliant = options();
    reliant.deployments.readiness.weight = 1;
    assert_eq!(marks(&reliant), ".......x");
    assert_eq!((with_filter("queue.pending > 1").filter_of_queue(), options().filter_of_queue()), (Some("x"), None));
    let key = |is| OrderKey::Own(OwnKey::of_expression("x", is).expect(is));
    let ordered = |key| SchedulerOptions { order: vec![key], ..options() };
    assert!(ordered(key("queue.pending")).orders_by_queue() && !ordered(key("job.tasks")).orders_by_queue());
    let mut all = with_filter("node.spot");
    (all.scorers, all.order) =
        (vec![own_scorer("gpus.free"), scorer(ScorerName::Pack)], vec![OrderKey::Tasks, key("job.tasks")]);
    assert_eq!(all.own_stages().count(), 3);
    let nothing = NodeShape::of(MilliCpu::ZERO, Bytes::ZERO, Vec::new());
    assert_eq!(lacks(&Demand::of(cpu_task(0)), &[&nothing]), [""; 0]);
}
