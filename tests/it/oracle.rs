//! Compares the scheduler with an exhaustive search.
//!
//! Small worlds are decided twice: by the scheduler, and by a search that was written from the documentation alone. The
//! search determines whether a demand fits, which nodes are best and which placements are valid.

mod score;
mod search;
mod sets;
mod world;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::{Fleet, GpuState, NodeState};
use dryrack_ids::{GpuId, NodeId};
use dryrack_scheduler::{
    Candidate, Decision, FilterName, GpuOrder, Grouping, PlacementContext, ScorerName, decide, still_fits,
};
use dryrack_units::{Bytes, GpuShare, Score};
use dryrack_workload::{Gang, GpuTake, Pick};
use search::{Room, When};
use world::World;

/// A test; `Err` describes the fault.
pub type Test = fn() -> Result<(), String>;

/// All tests of this module: names and functions.
pub const ALL: [(&str, Test); 7] = [
    ("oracle_gangs_of_unequal_tasks_are_decided_as_by_search", sets::gangs_of_unequal_tasks),
    ("oracle_every_small_fleet_of_whole_gpus_is_decided_as_by_search", every_small_fleet_of_whole_gpus),
    ("oracle_random_worlds_are_decided_as_by_search", random_worlds),
    ("oracle_tasks_with_parts_of_several_gpus_are_laid_as_by_search", tasks_with_parts_of_several_gpus),
    ("oracle_least_memory_is_what_a_gpu_has_in_all", least_memory_is_what_a_gpu_has_in_all),
    (
        "oracle_a_picked_gpu_is_missing_only_where_none_has_its_index",
        a_picked_gpu_is_missing_only_where_none_has_its_index,
    ),
    ("oracle_memory_that_is_taken_makes_a_node_fuller", memory_that_is_taken_makes_a_node_fuller),
];

const RANDOM_WORLDS: u64 = 40_000;
/// The most candidates, which is the most nodes of a world.
const KEEP: usize = 4;

/// A difference from the search: the rule, and a description.
struct Difference {
    rule: &'static str,
    detail: String,
}

fn differs<T>(rule: &'static str, detail: String) -> Result<T, Difference> {
    Err(Difference { rule, detail })
}

fn same<T: PartialEq + std::fmt::Debug>(rule: &'static str, scheduler: T, search: T) -> Result<(), Difference> {
    if scheduler == search {
        return Ok(());
    }
    differs(rule, format!("{scheduler:?}, by search {search:?}"))
}

/// How often each rule was broken with the smallest such world, and the number of worlds for each answer.
#[derive(Default)]
struct Findings {
    broken: BTreeMap<&'static str, (usize, usize, String)>,
    answers: BTreeMap<&'static str, usize>,
}

impl Findings {
    fn add(&mut self, name: &str, world: &World) {
        match compare(world) {
            Ok(answer) => *self.answers.entry(answer).or_default() += 1,
            Err(difference) => {
                let text = || format!("{}: {name}{}", difference.detail, world.describe());
                let size = world.size();
                let entry = self.broken.entry(difference.rule).or_insert_with(|| (0, size, text()));
                entry.0 += 1;
                if size < entry.1 {
                    (entry.1, entry.2) = (size, text());
                }
            }
        }
    }

    /// Returns an error if a rule was broken, or if one of these answers is too rare for a meaningful comparison.
    fn judge(self, each_at_least: usize) -> Result<(), String> {
        let broken = self.broken.iter().map(|(rule, (count, _, text))| format!("{rule} ({count} worlds): {text}"));
        let broken: Vec<String> = broken.collect();
        if !broken.is_empty() {
            return Err(format!("{:?}\n{}", self.answers, broken.join("\n")));
        }
        for answer in ["placed", "unfit", "never"] {
            let count = self.answers.get(answer).copied().unwrap_or(0);
            if count < each_at_least {
                return Err(format!("only {count} worlds were answered by {answer}"));
            }
        }
        Ok(())
    }
}

/// Compares the scheduler with the search on one world. Returns the kind of answer that they agree on.
fn compare(world: &World) -> Result<&'static str, Difference> {
    let World { fleet, demand, options } = world;
    let by_class = decide(options, demand, fleet, Grouping::Classes, KEEP);
    let by_node = decide(options, demand, fleet, Grouping::EachNode, KEEP);
    same("classes decide as nodes do", &by_class, &by_node)?;
    if let (Decision::Place(many), Decision::Place(one)) =
        (&by_class, decide(options, demand, fleet, Grouping::Classes, 1))
    {
        same("fewer candidates are the first of more", &many[..1], &one[..])?;
    }
    let most_tasks = |when| -> Vec<u32> {
        fleet.iter().map(|(id, _)| search::most_tasks(options, demand, fleet, id, when)).collect()
    };
    let most = most_tasks(When::Now);
    let ways = search::spreads(demand, &most);
    match by_class {
        Decision::Place(candidates) => {
            if ways.is_empty() {
                return differs("what is placed fits", format!("{candidates:?}"));
            }
            for candidate in &candidates {
                check_placement(world, candidate, &ways)?;
                let still = still_fits(options, demand, PlacementContext::UNSUBMITTED, fleet, &candidate.placement);
                same("what was just decided still fits", still, true)?;
            }
            check_choice(world, &candidates, &most)?;
            Ok("placed")
        }
        Decision::Refuse { refusal, reasons } => {
            if let Some(way) = ways.first() {
                return differs("what fits is placed", format!("{refusal:?}, {reasons}; tasks {way:?} would fit"));
            }
            let ever = !search::spreads(demand, &most_tasks(When::Ideal)).is_empty();
            same("never is said of what never fits", refusal, if ever { Refusal::Unfit } else { Refusal::Never })?;
            check_reasons(world, &reasons, &most)?;
            Ok(if ever { "unfit" } else { "never" })
        }
    }
}

/// Checks that the placement is one of the assignments that the search allows.
fn check_placement(world: &World, candidate: &Candidate, ways: &[Vec<u32>]) -> Result<(), Difference> {
    let World { fleet, demand, .. } = world;
    let task = world::task_of(demand);
    let mut tasks = vec![0; fleet.len()];
    for claim in candidate.placement.claims() {
        let count = u64::from(claim.tasks);
        tasks[claim.node.index()] = claim.tasks;
        same("a claim has its tasks' CPU", claim.cpu.get(), count * task.cpu.get())?;
        same("a claim has its tasks' RAM", claim.ram.get(), count * task.ram.get())?;
        let mut totals = vec![(0, 0); fleet.node(claim.node).shape.gpus.len()];
        for part in &claim.gpus {
            let total = &mut totals[usize::from(part.index)];
            total.0 += u64::from(part.share.get());
            total.1 += part.memory.get();
        }
        if !search::is_assignment(demand, fleet, claim.node, claim.tasks, &totals) {
            return differs("GPUs are those of a valid assignment", format!("{claim:?}"));
        }
    }
    if !ways.contains(&tasks) {
        return differs("tasks lie as the gang allows", format!("{tasks:?}, allowed are {ways:?}"));
    }
    Ok(())
}

/// Scores that differ by less are a tie: scores are fractions of small numbers, so different ones are further apart.
const TIE: f64 = 1e-9;

/// The nodes with room for a task, best first: highest score, then lowest id.
fn ranking(world: &World, most: &[u32]) -> Vec<(NodeId, f64)> {
    let World { fleet, demand, options } = world;
    let score = |id| options.scorers.iter().map(|it| it.weight * score::score(it.stage, demand, fleet, id)).sum();
    let with_room = (0..most.len()).filter(|at| most[*at] > 0).map(NodeId::new);
    let mut ranked: Vec<(NodeId, f64)> = with_room.map(|id| (id, score(id))).collect();
    ranked.sort_by_key(|(id, score)| (-(score / TIE).round() as i64, *id));
    ranked
}

/// Whether nodes in different states are equally good. Rounding then decides which is first.
fn ties_by_chance(world: &World, ranked: &[(NodeId, f64)]) -> bool {
    let standing = |id: NodeId| (&world.fleet.node(id).shape, &world.fleet.node(id).status);
    let tie = |pair: &[(NodeId, f64)]| (pair[0].1 - pair[1].1).abs() < TIE;
    let scored = !world.options.scorers.is_empty();
    scored && ranked.windows(2).any(|pair| tie(pair) && standing(pair[0].0) != standing(pair[1].0))
}

/// Whether the score depends on taken GPU memory alone, which is not documented; see
/// [`memory_that_is_taken_makes_a_node_fuller`].
fn says_nothing_of_memory(world: &World) -> bool {
    let by_taken = |stage| matches!(stage, ScorerName::Pack | ScorerName::Spread);
    let memory = |take| matches!(take, GpuTake::Memory(_));
    world.options.scorers.iter().any(|scorer| by_taken(scorer.stage))
        && world.demand.gpus().is_some_and(|gpus| memory(gpus.take))
}

/// Checks that the placement is the preferred one of the valid placements.
fn check_choice(world: &World, candidates: &[Candidate], most: &[u32]) -> Result<(), Difference> {
    let demand = &world.demand;
    let ranked = ranking(world, most);
    let best = candidates[0].placement.claims();
    if let Some(Pick::AllGpus(_)) = demand.pick {
        return same("all picked GPUs are one candidate", candidates.len(), 1);
    }
    if says_nothing_of_memory(world) {
        return Ok(());
    }
    if demand.tasks == 1 {
        let nodes: Vec<NodeId> = candidates.iter().map(|it| it.placement.claims()[0].node).collect();
        for (candidate, node) in candidates.iter().zip(&nodes) {
            let score = ranked.iter().find(|(id, _)| id == node).map_or(f64::NAN, |(_, score)| *score);
            if (candidate.score.get() - score).abs() >= TIE || score.is_nan() {
                let detail = format!("{:?} has {}, by search {score}", node, candidate.score.get());
                return differs("a candidate has its node's score", detail);
            }
        }
        let mut expected: Vec<(Reverse<Score>, NodeId)> = Vec::new();
        for (id, _) in &ranked {
            let said = candidates.iter().zip(&nodes).find(|(_, node)| *node == id);
            let said = said.map(|(candidate, _)| candidate.score);
            expected.push((Reverse(said.unwrap_or_default()), *id));
        }
        // Scores that differ only by rounding are in the order of the rounded values.
        expected.sort_unstable();
        let expected: Vec<NodeId> = expected.into_iter().map(|(_, id)| id).collect();
        same("candidates are the best nodes, the best first, ties by id", nodes, expected)?;
        return candidates.iter().try_for_each(|candidate| check_gpu_order(world, candidate));
    }
    same("a gang has one candidate", candidates.len(), 1)?;
    if ties_by_chance(world, &ranked) {
        return Ok(());
    }
    let tasks: Vec<(NodeId, u32)> = best.iter().map(|claim| (claim.node, claim.tasks)).collect();
    let mut left = demand.tasks;
    let mut in_order = |each: &dyn Fn(NodeId) -> u32| -> Vec<(NodeId, u32)> {
        let mut filled: Vec<(NodeId, u32)> = Vec::new();
        for (id, _) in &ranked {
            let here = each(*id).min(left);
            left -= here;
            filled.extend((here > 0).then_some((*id, here)));
        }
        filled.sort_unstable();
        filled
    };
    match demand.gang {
        Gang::Anywhere => same("anywhere fills the preferred nodes first", tasks, in_order(&|id| most[id.index()])),
        Gang::Spread => same("spread takes the preferred nodes", tasks, in_order(&|_| 1)),
        // Only unequal tasks are placed so, which `sets` compares.
        Gang::StrictPack | Gang::PreferSpread => Ok(()),
        // `check_placement` has checked that the nodes are as few as possible.
        Gang::Packed => {
            let holds_all: Vec<NodeId> =
                ranked.iter().map(|(id, _)| *id).filter(|id| most[id.index()] == demand.tasks).collect();
            match holds_all.first() {
                Some(preferred) => {
                    same("packed on one node takes the preferred", tasks, vec![(*preferred, demand.tasks)])
                }
                None => Ok(()),
            }
        }
    }
}

/// Checks that a single task has the GPUs that come first in the order of the profile.
fn check_gpu_order(world: &World, candidate: &Candidate) -> Result<(), Difference> {
    let World { fleet, demand, options } = world;
    let claim = &candidate.placement.claims()[0];
    let shape = &fleet.node(claim.node).shape;
    let Some(asked) = demand.gpus() else { return Ok(()) };
    // If GPUs share the node's RAM, the choice of GPUs determines whether the others fit.
    if shape.gpus.iter().any(|gpu| gpu.unified) {
        return Ok(());
    }
    let mut one = demand.clone();
    let would_do = (0..shape.gpus.len()).filter(|index| {
        if let Some(gpus) = world::gpus_mut(&mut one) {
            gpus.count = 1;
        }
        let room = Room::now(fleet.node(claim.node));
        let mut totals = vec![(0, 0); shape.gpus.len()];
        totals[*index] = room.part(asked.take, *index);
        search::is_assignment(&one, fleet, claim.node, 1, &totals)
    });
    let would_do: Vec<usize> = would_do.collect();
    let mut expected = score::gpu_order(options.gpus, demand, fleet, claim.node, &would_do);
    expected.truncate(asked.count as usize);
    expected.sort_unstable();
    let mut taken: Vec<usize> = claim.gpus.iter().map(|part| usize::from(part.index)).collect();
    taken.sort_unstable();
    let rule = match asked.take {
        GpuTake::Whole => "whole GPUs are taken in the profile's order",
        GpuTake::Share(_) => "shares are taken in the profile's order",
        GpuTake::Memory(_) => "memory is taken in the profile's order",
    };
    same(rule, taken, expected)
}

/// Checks that the reasons count every node, and that the first filter that refuses a node gives its reason.
fn check_reasons(world: &World, reasons: &Histogram, most: &[u32]) -> Result<(), Difference> {
    let World { fleet, demand, options } = world;
    same("reasons count every node", reasons.total() as usize, fleet.len())?;
    let said = |wanted: &[Reason]| -> usize {
        reasons.iter().filter(|(reason, _)| wanted.contains(reason)).map(|(_, count)| count as usize).sum()
    };
    let refused_by = |filter: FilterName| {
        let refusal = |(id, _)| search::first_refusal(options, demand, fleet, id, When::Now);
        fleet.iter().map(refusal).filter(|refusal| *refusal == Some(filter)).count()
    };
    let with_room = most.iter().filter(|tasks| **tasks > 0).count();
    same("nodes with room say that the gang is incomplete", said(&[Reason::GangIncomplete]), with_room)?;
    // A separate test covers nodes on which fewer GPUs are picked than a task needs.
    if let (Some(pick @ Pick::Gpus(_)), Some(asked)) = (&demand.pick, demand.gpus()) {
        let here = |id: &NodeId| pick.gpus_on(*id).map_or(0, |gpus| gpus.len());
        if pick.nodes().iter().any(|id| here(id) < asked.count as usize) {
            return Ok(());
        }
    }
    let (missing, mismatch) = (Reason::LabelMissing, Reason::LabelMismatch);
    same("labels have their reasons", said(&[missing, mismatch]), refused_by(FilterName::Labels))?;
    let picked = said(&[Reason::NotPicked, Reason::PickedGpuMissing]);
    same("picks have their reasons", picked, refused_by(FilterName::Picked))?;
    let in_state = |state| {
        let refused = |id| search::first_refusal(options, demand, fleet, id, When::Now) == Some(FilterName::Ready);
        fleet.iter().filter(|(id, node)| node.status.state == state && refused(*id)).count()
    };
    for (state, reason) in [
        (NodeState::Joining, Reason::NodeJoining),
        (NodeState::NotReady, Reason::NodeNotReady),
        (NodeState::Unreachable, Reason::NodeUnreachable),
        (NodeState::Maintenance, Reason::NodeMaintenance),
        (NodeState::Gone, Reason::NodeGone),
    ] {
        same("states have their reasons", said(&[reason]), in_state(state))?;
    }
    let platform = said(&[Reason::OsMismatch, Reason::ArchMismatch]);
    same("platforms have their reasons", platform, refused_by(FilterName::Compatible))
}

/// 1 to 3 nodes of 4 GPUs, 0 to 4 of them free, ready or not, with every gang of 1 to 3 tasks of 1 to 4 whole GPUs. For
/// these, simple arithmetic also determines what fits.
pub fn every_small_fleet_of_whole_gpus() -> Result<(), String> {
    let kinds: Vec<(u32, bool)> = (0..=4).flat_map(|free| [(free, true), (free, false)]).collect();
    let mut findings = Findings::default();
    for nodes in 1..=3u32 {
        for number in 0..kinds.len().pow(nodes) {
            let drawn: Vec<(u32, bool)> =
                (0..nodes).map(|at| kinds[number / kinds.len().pow(at) % kinds.len()]).collect();
            let mut fleet = Fleet::default();
            for (free, ready) in &drawn {
                let state = if *ready { NodeState::Ready } else { NodeState::NotReady };
                let node = world::declare(&mut fleet, world::plain_shape(4), state);
                for index in *free as usize..4 {
                    let claim = world::claim(&fleet, node, GpuTake::Whole, &[index]);
                    world::enter(&mut fleet, claim);
                }
            }
            let mut world = World {
                fleet,
                demand: world::plain_demand(1, 1, Gang::Anywhere),
                options: world::options(&[], GpuOrder::First, None),
            };
            for (tasks, gpus, gang) in requests() {
                world.demand = world::plain_demand(tasks, gpus, gang);
                let most: Vec<u32> = drawn.iter().map(|(free, ready)| if *ready { free / gpus } else { 0 }).collect();
                let by_hand = match gang {
                    Gang::Spread => most.iter().filter(|most| **most > 0).count() >= tasks as usize,
                    Gang::Anywhere | Gang::Packed | Gang::StrictPack | Gang::PreferSpread => {
                        most.iter().sum::<u32>() >= tasks
                    }
                };
                let options = &world.options;
                let placed = decide(options, &world.demand, &world.fleet, Grouping::Classes, 1);
                if by_hand != matches!(placed, Decision::Place(_)) {
                    return Err(format!("by hand {by_hand}, decided {placed:?}{}", world.describe()));
                }
                findings.add(&format!("fleet {number} of {nodes} nodes"), &world);
            }
        }
    }
    findings.judge(500)
}

fn requests() -> impl Iterator<Item = (u32, u32, Gang)> {
    let gangs = [Gang::Anywhere, Gang::Spread, Gang::Packed];
    (1..=3).flat_map(move |tasks| (1..=4).flat_map(move |gpus| gangs.map(move |gang| (tasks, gpus, gang))))
}

pub fn random_worlds() -> Result<(), String> {
    let mut findings = Findings::default();
    for seed in 0..RANDOM_WORLDS {
        findings.add(&format!("seed {seed}"), &world::draw(seed));
    }
    findings.judge(5_000)
}

/// One node of 3 GPUs, each ready or degraded with room for 0 to 3 parts, and every gang of 1 to 4 tasks that take a
/// part of 1 to 3 different GPUs. Filling one GPU too early leaves too few different ones for the last task.
pub fn tasks_with_parts_of_several_gpus() -> Result<(), String> {
    let part = GpuTake::Share(GpuShare::new(300));
    let mut findings = Findings::default();
    for number in 0..8usize.pow(3) {
        let mut fleet = Fleet::default();
        let node = world::declare(&mut fleet, world::plain_shape(3), NodeState::Ready);
        for index in 0..3 {
            let kind = number / 8usize.pow(index as u32) % 8;
            if kind >= 4 {
                fleet.set_gpu_state(GpuId { node, index: index as u16 }, GpuState::Degraded);
            }
            for _ in 0..kind % 4 {
                let claim = world::claim(&fleet, node, part, &[index]);
                world::enter(&mut fleet, claim);
            }
        }
        let options = world::options(&[], GpuOrder::First, None);
        let mut world = World { fleet, demand: world::plain_demand(1, 1, Gang::Anywhere), options };
        for order in [GpuOrder::First, GpuOrder::Tightest, GpuOrder::Emptiest] {
            world.options.gpus = order;
            for (tasks, gpus) in (1..=4).flat_map(|tasks| (1..=3).map(move |gpus| (tasks, gpus))) {
                world.demand = world::plain_demand(tasks, gpus, Gang::Packed);
                if let Some(asked) = world::gpus_mut(&mut world.demand) {
                    asked.take = part;
                }
                findings.add(&format!("node {number}"), &world);
            }
        }
    }
    findings.judge(500)
}

/// One GPU of 80 GiB, 1 GiB of which is reserved for the system, satisfies a demand for a GPU of 80 GiB.
pub fn least_memory_is_what_a_gpu_has_in_all() -> Result<(), String> {
    let mut shape = world::plain_shape(1);
    shape.reserved.gpu_memory = Bytes::from_gib(1);
    let mut fleet = Fleet::default();
    world::declare(&mut fleet, shape, NodeState::Ready);
    let mut demand = world::plain_demand(1, 1, Gang::Anywhere);
    if let Some(gpus) = world::gpus_mut(&mut demand) {
        gpus.min_memory = Some(Bytes::from_gib(80));
    }
    agree(&World { fleet, demand, options: world::options(&[], GpuOrder::First, None) })
}

/// A node with the picked GPU, and a task that needs two: the picked index is not missing.
pub fn a_picked_gpu_is_missing_only_where_none_has_its_index() -> Result<(), String> {
    let mut fleet = Fleet::default();
    let node = world::declare(&mut fleet, world::plain_shape(2), NodeState::Ready);
    let mut demand = world::plain_demand(1, 2, Gang::Anywhere);
    demand.pick = Some(Pick::Gpus(vec![GpuId { node, index: 0 }]));
    let options = world::options(&[], GpuOrder::First, None);
    match decide(&options, &demand, &fleet, Grouping::EachNode, KEEP) {
        Decision::Refuse { reasons, .. } if !reasons.contains(Reason::PickedGpuMissing) => Ok(()),
        other => Err(format!("GPU 0 was picked and is there, a task needs two: {other:?}")),
    }
}

/// If two nodes differ only in the GPU memory that is taken, spread prefers the free one and pack the other.
pub fn memory_that_is_taken_makes_a_node_fuller() -> Result<(), String> {
    for (scorer, held, expected) in [(ScorerName::Spread, 0, 1), (ScorerName::Pack, 1, 1)] {
        let mut fleet = Fleet::default();
        for _ in 0..2 {
            world::declare(&mut fleet, world::plain_shape(1), NodeState::Ready);
        }
        let take = GpuTake::Memory(Bytes::from_gib(20));
        let claim = world::claim(&fleet, NodeId::new(held), take, &[0]);
        world::enter(&mut fleet, claim);
        let mut demand = world::plain_demand(1, 1, Gang::Anywhere);
        if let Some(gpus) = world::gpus_mut(&mut demand) {
            gpus.take = take;
        }
        let options = world::options(&[(scorer, 1.0)], GpuOrder::First, None);
        let decision = decide(&options, &demand, &fleet, Grouping::EachNode, KEEP);
        let first = match &decision {
            Decision::Place(candidates) => candidates.first().map(|it| it.placement.claims()[0].node.index()),
            Decision::Refuse { .. } => None,
        };
        if first != Some(expected) {
            return Err(format!("{}: 20GiB of 80GiB are held on n{held}, yet {decision:?}", scorer.name()));
        }
    }
    Ok(())
}

fn agree(world: &World) -> Result<(), String> {
    let said = compare(world).map_err(|it| format!("{}: {}{}", it.rule, it.detail, world.describe()));
    said.map(|_| ())
}
