//! Tests of the placer for equal tasks: where gangs go by the rules of the profile, ties, picks, and what is explained.

use std::collections::BTreeSet;

use crate::context::PlacementContext;
use crate::decision::{Candidate, Decision};
use crate::draw::Draw;
use crate::node_class::Grouping;
use crate::options::{GangPlaces, Outlook, SchedulerOptions, SlotOptions, Ties};
use crate::placer::Placer;
use crate::scorer::{ScorerName, WeightedScorer};
use crate::tasks::TaskPlacer;
use crate::test_world::{cpu_task, fleet, hold, options, whole_gpus, with_gpus};
use crate::verdict::Verdict;
use dryrack_event::{OwnReason, Reason};
use dryrack_fleet::{Fleet, NodeShape};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_units::{Bytes, Score};
use dryrack_workload::{Gang, TaskDemand, TaskGroup};

fn group(task: &TaskDemand, tasks: u32, gang: Gang) -> TaskGroup<'_> {
    TaskGroup { tasks, task, gang, pick: None, speeds: None, fields: None }
}

fn placer<'a>(options: &'a SchedulerOptions, group: TaskGroup<'a>, fleet: &'a Fleet) -> TaskPlacer<'a> {
    TaskPlacer { options, group, context: PlacementContext::UNSUBMITTED, fleet }
}

fn in_places(gangs: GangPlaces) -> SchedulerOptions {
    SchedulerOptions { gangs, ..options() }
}

/// The nodes of a candidate and the numbers of their tasks.
fn nodes_of(candidate: &Candidate) -> Vec<(usize, u32)> {
    candidate.placement.claims().iter().map(|claim| (claim.node.index(), claim.tasks)).collect()
}

fn placed(options: &SchedulerOptions, group: TaskGroup<'_>, fleet: &Fleet) -> Option<Vec<(usize, u32)>> {
    let places = |grouping| Some(nodes_of(&placer(options, group, fleet).candidates(grouping, 1).ok()?[0]));
    assert_eq!(places(Grouping::Classes), places(Grouping::EachNode));
    places(Grouping::Classes)
}

#[test]
fn a_gang_goes_where_the_rule_of_the_profile_says() {
    // Free GPUs: 8, 3 and 4. The racks of the first and the last node are `a` and `b`; the second has none.
    let in_rack = |rack: &str, gpus| NodeShape { rack: Some(rack.into()), ..with_gpus(gpus) };
    let mut fleet = fleet([in_rack("a", 8), with_gpus(4), in_rack("b", 4)]);
    hold(&mut fleet, 1, 2, &[0]);
    let task = whole_gpus(1);
    let with = |gangs, tasks, gang| placed(&in_places(gangs), group(&task, tasks, gang), &fleet);
    // In order of declaration.
    assert_eq!(with(GangPlaces::Demand, 2, Gang::Anywhere), Some(vec![(0, 2)]));
    assert_eq!(with(GangPlaces::Demand, 9, Gang::Anywhere), Some(vec![(0, 8), (1, 1)]));
    // The least room that is enough for all.
    assert_eq!(with(GangPlaces::Consolidate, 2, Gang::Anywhere), Some(vec![(1, 2)]));
    assert_eq!(with(GangPlaces::Consolidate, 4, Gang::Anywhere), Some(vec![(2, 4)]));
    // Consolidation is not for tasks on different nodes.
    assert_eq!(with(GangPlaces::Consolidate, 2, Gang::Spread), Some(vec![(0, 1), (1, 1)]));
    // The node of the run with the fewest free cores, which is the one in use. The rule is for single tasks too.
    assert_eq!(with(GangPlaces::Neighbours, 2, Gang::Anywhere), Some(vec![(1, 2)]));
    assert_eq!(with(GangPlaces::Neighbours, 1, Gang::Anywhere), Some(vec![(1, 1)]));
    // The rack with the least room that is enough. A single task takes the first node.
    assert_eq!(with(GangPlaces::Racks, 4, Gang::Anywhere), Some(vec![(2, 4)]));
    assert_eq!(with(GangPlaces::Racks, 1, Gang::Anywhere), Some(vec![(0, 1)]));
    assert_eq!(with(GangPlaces::Racks, 16, Gang::Anywhere), None);
}

fn drawing(scorers: Vec<WeightedScorer>) -> SchedulerOptions {
    SchedulerOptions { ties: Ties::Random, scorers, ..options() }
}

/// The context of the first attempt of a job.
fn of_job(job: usize) -> PlacementContext {
    let attempt = AttemptId { job: JobId::new(job), replica: 0, number: 1 };
    PlacementContext { draw: Draw::new(7, attempt), ..PlacementContext::UNSUBMITTED }
}

#[test]
fn each_node_with_the_highest_score_is_drawn_and_no_other() {
    let pack = WeightedScorer { stage: ScorerName::Pack, weight: 1.0 };
    let (task, options) = (cpu_task(1), drawing(vec![pack]));
    // The nodes on which most cores are taken are the best, wherever they stand.
    for (taken, best) in [([8, 4, 8, 0], [0, 2]), ([0, 4, 8, 8], [2, 3]), ([4, 8, 0, 8], [1, 3])] {
        let mut fleet = fleet([0; 4].map(with_gpus));
        (0..4).for_each(|node| hold(&mut fleet, node, taken[node], &[]));
        let draw = |job, grouping| {
            let placer =
                TaskPlacer { context: of_job(job), ..placer(&options, group(&task, 1, Gang::Anywhere), &fleet) };
            let found = placer.candidates(grouping, 1).expect("there is room");
            assert_eq!(
                (found.len(), found[0].score),
                (1, placer.candidates(grouping, 9).expect("there is room")[0].score)
            );
            nodes_of(&found[0])[0].0
        };
        let drawn: Vec<usize> = (0..40).map(|job| draw(job, Grouping::Classes)).collect();
        assert_eq!(drawn, (0..40).map(|job| draw(job, Grouping::EachNode)).collect::<Vec<_>>());
        assert_eq!(drawn.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(best), "{taken:?}");
    }
}

#[test]
fn an_explanation_has_every_candidate_and_the_one_that_is_drawn_comes_first() {
    let (task, fleet) = (cpu_task(1), fleet([0; 4].map(with_gpus)));
    let all = |options: &SchedulerOptions, job, keep| {
        let placer = TaskPlacer { context: of_job(job), ..placer(options, group(&task, 1, Gang::Anywhere), &fleet) };
        let Decision::Place(candidates) = placer.decide_with_all(keep) else { panic!("there is room") };
        let drawn = nodes_of(&placer.candidates(Grouping::EachNode, 1).expect("there is room")[0])[0].0;
        (drawn, candidates.iter().map(|candidate| nodes_of(candidate)[0].0).collect::<Vec<_>>())
    };
    let mut firsts = BTreeSet::new();
    for job in 0..40 {
        let (drawn, candidates) = all(&drawing(Vec::new()), job, 1);
        let others = (0..4).filter(|node| *node != drawn);
        assert_eq!(candidates, std::iter::once(drawn).chain(others).collect::<Vec<_>>());
        firsts.insert(drawn);
        // Nothing is drawn if several candidates are wanted, or if the first node is taken on a tie.
        assert_eq!(all(&drawing(Vec::new()), job, 3).1, [0, 1, 2, 3]);
        assert_eq!(all(&options(), job, 1).1, [0, 1, 2, 3]);
    }
    assert_eq!(firsts.len(), 4);
}

#[test]
fn the_best_nodes_for_one_task_are_as_many_as_are_wanted() {
    let spread = WeightedScorer { stage: ScorerName::Spread, weight: 1.0 };
    let (task, options) = (cpu_task(1), SchedulerOptions { scorers: vec![spread], ..options() });
    let mut fleet = fleet([0; 5].map(with_gpus));
    [(0, 8), (2, 4), (3, 16)].into_iter().for_each(|(node, cores)| hold(&mut fleet, node, cores, &[]));
    for grouping in [Grouping::Classes, Grouping::EachNode] {
        for (keep, expected) in [(1, [1].as_slice()), (2, &[1, 4]), (3, &[1, 4, 2]), (9, &[1, 4, 2, 0])] {
            let placer = placer(&options, group(&task, 1, Gang::Anywhere), &fleet);
            let found = placer.candidates(grouping, keep).expect("there is room");
            assert_eq!(found.iter().map(|candidate| nodes_of(candidate)[0].0).collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn a_node_is_explained_by_what_it_lacks_its_refusals_its_room_and_its_scores() {
    let scorers = [(ScorerName::Pack, 2.0), (ScorerName::Spread, 1.0)];
    let scorers = scorers.map(|(stage, weight)| WeightedScorer { stage, weight }).to_vec();
    let options = SchedulerOptions { scorers, ..options() };
    let mut fleet = fleet([0; 2].map(with_gpus));
    hold(&mut fleet, 1, 14, &[]);
    let task = cpu_task(4);
    let placer = placer(&options, group(&task, 3, Gang::Anywhere), &fleet);
    let [room, full] = &placer.findings(&placer.decide(Grouping::EachNode, 1))[..] else { panic!("two nodes") };
    assert_eq!((room.verdict, room.capacity, room.refusals.len(), room.shortages.len()), (Verdict::Fit, 3, 0, 0));
    let lacks_cpu = Reason::InsufficientCpu;
    assert_eq!((full.verdict, full.capacity), (Verdict::Unfit(lacks_cpu), 0));
    assert_eq!(full.refusals, [("resources", lacks_cpu)]);
    let lacks: Vec<_> = full.shortages.iter().map(|lack| (&*lack.resource, &*lack.needed, &*lack.free)).collect();
    assert_eq!(lacks, [("CPU", "4", "2")]);
    // What is exactly enough is not lacking.
    let half = cpu_task(2);
    let findings = TaskPlacer { group: group(&half, 1, Gang::Anywhere), ..placer }
        .findings(&Decision::Place(std::iter::empty().collect()));
    assert_eq!((findings[1].verdict, findings[1].shortages.len()), (Verdict::Fit, 0));
    // A quarter of the cores and nothing of the RAM would be taken: an eighth on average.
    assert_eq!(room.scores, [("pack", Score::new(0.125)), ("spread", Score::new(0.875))]);
    assert_eq!(room.total, Score::new(1.125));
}

#[test]
fn picks_are_judged_one_by_one_with_the_number_of_tasks_that_they_would_take() {
    let mut options = options();
    let no_gangs = r#"{"filter": "no_gangs", "unless": "job.tasks > 1", "because": "gang"}"#;
    options.filters.push(serde_json::from_str(no_gangs).expect("a filter"));
    let gang = Verdict::Never(Reason::Own(OwnReason::new("gang").expect("a word")));
    let mut fleet = fleet([with_gpus(4), with_gpus(0)]);
    hold(&mut fleet, 0, 0, &[3]);
    let task = whole_gpus(2);
    let of_gpu = |placer: &TaskPlacer<'_>, index| placer.select_gpu(GpuId { node: NodeId::new(0), index }).0;
    let two = placer(&options, group(&task, 2, Gang::Anywhere), &fleet);
    let (node, none) = (NodeId::new(0), NodeId::new(1));
    assert_eq!((two.select_node(node).0, two.select_node(none).0), (gang, Verdict::Never(Reason::TooFewGpus)));
    // One task takes exactly the picked GPU, although it asks for two.
    assert_eq!((of_gpu(&two, 0), of_gpu(&two, 3)), (Verdict::Fit, Verdict::Unfit(Reason::InsufficientGpus)));
    assert_eq!(of_gpu(&two, 4), Verdict::Never(Reason::PickedGpuMissing));
    let together = |indexes: [u16; 2]| two.takes_together(&indexes.map(|index| GpuId { node: NodeId::new(0), index }));
    assert!(together([0, 2]) && !together([0, 3]));
    let one = placer(&options, group(&task, 1, Gang::Anywhere), &fleet);
    assert_eq!(one.select_node(node).0, Verdict::Fit);
    // GPUs can be picked only for tasks that take some.
    assert!(one.takes_gpus() && !placer(&options, group(&cpu_task(1), 1, Gang::Anywhere), &fleet).takes_gpus());
}

#[test]
fn a_gang_ever_fits_if_the_empty_fleet_has_room_for_it() {
    let mut fleet = fleet([with_gpus(4), with_gpus(2), with_gpus(0)]);
    hold(&mut fleet, 0, 0, &[0, 1, 2, 3]);
    let options = options();
    let task = TaskDemand { ram: Bytes::from_gib(1), ..whole_gpus(1) };
    let fits = |tasks, gang| placer(&options, group(&task, tasks, gang), &fleet).ever_fits();
    assert!(fits(6, Gang::Anywhere) && !fits(7, Gang::Anywhere) && fits(6, Gang::Packed));
    assert!(fits(2, Gang::Spread) && !fits(3, Gang::Spread));
}

#[test]
fn a_missing_label_has_the_reason_of_what_it_stands_for() {
    let options = options();
    let mut shape = with_gpus(0);
    shape.labels.insert("zone".into(), "a".into());
    let fleet = fleet([shape]);
    let verdict = |key: &str| {
        let mut task = cpu_task(1);
        task.labels.insert(key.into(), "b".into());
        placer(&options, group(&task, 1, Gang::Anywhere), &fleet).select_node(NodeId::new(0)).0
    };
    assert_eq!(verdict("zone"), Verdict::Never(Reason::LabelMismatch));
    assert_eq!(verdict("disk"), Verdict::Never(Reason::LabelMissing));
    assert_eq!(verdict("slurm/partition/long"), Verdict::Never(Reason::PartitionMismatch));
    assert_eq!(verdict("slurm/reservation/night"), Verdict::Never(Reason::OutsideReservation));
}

#[test]
fn reliability_is_read_by_a_scorer_or_by_the_weight_for_models() {
    assert!(!options().asks_for_reliance());
    let mut for_models = options();
    for_models.deployments.readiness.weight = 1;
    let readiness = WeightedScorer { stage: ScorerName::Readiness, weight: 1.0 };
    assert!(for_models.asks_for_reliance());
    assert!(SchedulerOptions { scorers: vec![readiness], ..options() }.asks_for_reliance());
    // Settings that are the defaults are not written.
    let written = |slots: &SlotOptions| serde_json::to_string(slots).expect("plain data");
    let later = SlotOptions { outlook: Outlook::FromStart, ..SlotOptions::default() };
    assert!(!written(&SlotOptions::default()).contains("outlook") && written(&later).contains("from_start"));
}
