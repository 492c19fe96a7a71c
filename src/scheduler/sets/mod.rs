//! The placer for gangs of unequal tasks, and for gangs whose number of tasks may be smaller.
//!
//! The tasks form sets of equal tasks. Each set is placed by the placer for tasks, on the nodes as the earlier sets would
//! leave them, so all filters, scorers and rules for gangs apply to each set. Sets with more GPUs per task are placed
//! first, then those with more cores, then those with more RAM. If that fails, other orders are tried, and then a bounded
//! search over all assignments ([`search`]), unless the nodes obviously lack the room ([`bound`]). The gang is placed as a
//! whole or not at all.
//!
//! A set may have a least number of tasks. First all tasks of all sets are tried. If they do not fit, the least number of
//! each set is placed, and then as many more tasks as fit, set by set.

mod bound;
mod partial;
mod search;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::by_rank::by_rank;
use super::context::PlacementContext;
use super::decision::{Candidate, Decision};
use super::finding::NodeFinding;
use super::node_class::{Grouping, NodeClass, class_of_node, node_classes};
use super::options::SchedulerOptions;
use super::placer::Placer;
use super::tasks::{TaskPlacer, has_room, histogram};
use super::verdict::Verdict;
use dryrack_event::{Histogram, Reason};
use dryrack_fleet::{Fleet, NodeClaim, NodeState, NodeStatus, Placement};
use dryrack_ids::{GpuId, NodeId};
use dryrack_workload::{Gang, GpuTake, JobFields, Pick, Speeds, TaskGroup, TaskSet};
use partial::Partial;
use search::{Found, MOST_STEPS};

/// Places a gang of sets of tasks.
#[derive(Clone, Copy)]
pub struct SetPlacer<'a> {
    pub options: &'a SchedulerOptions,
    pub sets: &'a [TaskSet],
    pub gang: Gang,
    pub pick: Option<&'a Pick>,
    pub speeds: Option<&'a Speeds>,
    pub fields: Option<&'a JobFields>,
    pub context: PlacementContext,
    pub fleet: &'a Fleet,
}

/// The fleet on which a gang is placed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum World {
    /// The fleet as it is. Nodes in equal state may share a class.
    Real(Grouping),
    /// Every node ready, healthy and empty.
    Ideal,
}

/// The nodes on which tasks of a set may be placed.
#[derive(Clone, Copy)]
enum Among<'n> {
    All,
    /// Nodes without a task of this gang.
    Unused,
    These(&'n [NodeId]),
}

/// Why a gang could not be placed: the set for which there is no room, and what was placed before it.
struct Failed {
    set: usize,
    partial: Partial,
}

impl Placer for SetPlacer<'_> {
    fn candidates(&self, grouping: Grouping, _keep: usize) -> Result<SmallVec<[Candidate; 1]>, Histogram> {
        let world = World::Real(grouping);
        match self.placed(world) {
            Ok(partial) => Ok([partial.into_candidate()].into_iter().collect()),
            Err(failed) => Err(self.reasons(world, &failed)),
        }
    }

    fn place(&self, grouping: Grouping) -> Option<Candidate> {
        let world = World::Real(grouping);
        let placed = self.may_fit(world, &self.least()).then(|| self.placed(world));
        placed?.ok().map(Partial::into_candidate)
    }

    fn ever_fits(&self) -> bool {
        let counts = self.least();
        let alone = |set: usize| counts[set] == 0 || self.of_set(set, counts[set]).ever_fits();
        if !(0..self.sets.len()).all(alone) || !self.may_fit_in_sum(&counts) {
            return false;
        }
        if self.orders().iter().any(|order| self.greedy(World::Ideal, &counts, order).is_ok()) {
            return true;
        }
        match self.search(World::Ideal, &counts, MOST_STEPS) {
            Found::Assignment(_) | Found::GaveUp => true,
            // Where the choice of GPUs matters, the search does not try all choices.
            Found::Nothing => !self.is_exact(),
        }
    }

    fn still_fits(&self, placement: &Placement) -> bool {
        placement.claims().iter().all(|claim| {
            let class = class_of_node(self.fleet, self.pick, claim.node);
            let of_set = |(set, tasks): (usize, &u32)| *tasks == 0 || self.of_set(set, 1).judge_one(&class).is_fit();
            claim.sets.iter().flat_map(|sets| sets.iter()).enumerate().all(of_set) && has_room(&class, claim)
        })
    }

    fn findings(&self, decision: &Decision) -> Vec<NodeFinding> {
        let world = World::Real(Grouping::EachNode);
        let failed = match decision {
            Decision::Place(_) => Failed { set: self.order()[0], partial: Partial::default() },
            Decision::Refuse { .. } => match self.placed(world) {
                Ok(_) => return Vec::new(),
                Err(failed) => failed,
            },
        };
        let placer = self.of_set(failed.set, self.least()[failed.set].max(1));
        let classes = self.classes(world, &failed.partial, Among::All);
        let verdicts = self.verdicts(world, &failed, &classes);
        let claims = match decision {
            Decision::Place(candidates) => candidates[0].placement.claims(),
            Decision::Refuse { .. } => &[],
        };
        // If the gang takes a node, explain the node for the first task set that it holds there.
        let held = |node: NodeId| {
            let claim = claims.iter().find(|claim| claim.node == node)?;
            claim.sets.as_ref()?.iter().position(|tasks| *tasks > 0)
        };
        let finding = |(class, verdict): (&NodeClass, Verdict)| match held(class.first()) {
            Some(set) => self.of_set(set, 1).finding(class, Verdict::Fit),
            None => placer.finding(class, verdict),
        };
        classes.iter().zip(verdicts).map(finding).collect()
    }

    fn select_node(&self, node: NodeId) -> (Verdict, bool) {
        // As for equal tasks, the question is whether the node can hold a task of the gang.
        let pick = Pick::Nodes(vec![node]);
        let class = class_of_node(self.fleet, Some(&pick), node);
        let of_set = |set: usize| self.of_set(set, 1).judge_one(&class);
        let order = self.order();
        let fitting = order.iter().map(|set| of_set(*set)).find(|verdict| verdict.is_fit());
        (fitting.unwrap_or_else(|| of_set(order[0])), false)
    }

    fn select_gpu(&self, _gpu: GpuId) -> (Verdict, bool) {
        (Verdict::Never(Reason::PickedGpuMissing), false)
    }

    /// GPUs cannot be picked for unequal tasks, because a pick does not say which task takes which GPU.
    fn takes_gpus(&self) -> bool {
        false
    }
}

impl<'a> SetPlacer<'a> {
    /// The placer for this many tasks of one set.
    fn of_set(&self, set: usize, tasks: u32) -> TaskPlacer<'a> {
        let gang = match self.gang {
            Gang::Spread => Gang::Spread,
            Gang::Packed => Gang::Packed,
            Gang::Anywhere | Gang::StrictPack | Gang::PreferSpread => Gang::Anywhere,
        };
        let SetPlacer { pick, speeds, fields, .. } = *self;
        let group = TaskGroup { tasks, task: &self.sets[set].task, gang, pick, speeds, fields };
        TaskPlacer { options: self.options, group, context: self.context, fleet: self.fleet }
    }

    fn most(&self) -> Vec<u32> {
        self.sets.iter().map(|set| set.tasks).collect()
    }

    fn least(&self) -> Vec<u32> {
        self.sets.iter().map(|set| set.min_tasks).collect()
    }

    /// The order in which sets are placed: those with the largest tasks first.
    fn order(&self) -> Vec<usize> {
        let size = |set: &TaskSet| {
            let gpus = set.task.gpus.as_ref().map_or(0, |gpus| match gpus.take {
                GpuTake::Whole | GpuTake::Memory(_) => u64::from(gpus.count) * 1000,
                GpuTake::Share(share) => u64::from(gpus.count) * u64::from(share.get()),
            });
            (gpus, set.task.cpu, set.task.ram)
        };
        let mut order: Vec<usize> = (0..self.sets.len()).collect();
        order.sort_by_key(|set| (std::cmp::Reverse(size(&self.sets[*set])), *set));
        order
    }

    /// The orders that are tried: the largest tasks first, as written, and the smallest tasks first.
    fn orders(&self) -> Vec<Vec<usize>> {
        let first = self.order();
        let mut orders = vec![first.clone()];
        for other in [(0..self.sets.len()).collect(), first.into_iter().rev().collect()] {
            if !orders.contains(&other) {
                orders.push(other);
            }
        }
        orders
    }

    /// Places the gang: with all tasks if they fit, otherwise with as many as fit beyond the least number of each set.
    fn placed(&self, world: World) -> Result<Partial, Failed> {
        let (most, least) = (self.most(), self.least());
        let failed = match self.with_counts(world, &most) {
            Ok(partial) => return Ok(partial),
            Err(failed) => failed,
        };
        if most == least {
            return Err(failed);
        }
        let mut partial = self.with_counts(world, &least)?;
        self.grow(world, &mut partial);
        Ok(partial)
    }

    fn with_counts(&self, world: World, counts: &[u32]) -> Result<Partial, Failed> {
        let mut orders = self.orders().into_iter();
        let failed = match self.greedy(world, counts, &orders.next().expect("there is at least one order")) {
            Ok(partial) => return Ok(partial),
            Err(failed) => failed,
        };
        if !self.may_fit(world, counts) {
            return Err(failed);
        }
        if let Some(partial) = orders.find_map(|order| self.greedy(world, counts, &order).ok()) {
            return Ok(partial);
        }
        match self.search(world, counts, MOST_STEPS) {
            Found::Assignment(assignment) => Ok(self.assigned(world, assignment)),
            Found::Nothing | Found::GaveUp => Err(failed),
        }
    }

    /// Places this many tasks of each set, set by set.
    fn greedy(&self, world: World, counts: &[u32], order: &[usize]) -> Result<Partial, Failed> {
        if matches!(self.gang, Gang::StrictPack | Gang::Packed)
            && let Some(partial) = self.on_one_node(world, counts, order)
        {
            return Ok(partial);
        }
        if self.gang == Gang::StrictPack {
            let set = order.iter().copied().find(|set| counts[*set] > 0).unwrap_or(0);
            return Err(Failed { set, partial: Partial::default() });
        }
        let mut partial = Partial::default();
        for set in order.iter().copied().filter(|set| counts[*set] > 0) {
            if self.add(world, &mut partial, set, (counts[set], counts[set])) < counts[set] {
                return Err(Failed { set, partial });
            }
        }
        Ok(partial)
    }

    /// Adds tasks of a set: at least `least`, or none. Returns how many were added.
    fn add(&self, world: World, partial: &mut Partial, set: usize, (least, most): (u32, u32)) -> u32 {
        match self.gang {
            Gang::Anywhere => self.step(world, partial, set, (least, most), Among::All),
            Gang::Spread => self.step(world, partial, set, (least, most), Among::Unused),
            Gang::StrictPack => {
                let nodes: Vec<NodeId> = partial.nodes().collect();
                self.step(world, partial, set, (least, most), Among::These(&nodes))
            }
            Gang::Packed => {
                // The nodes that the gang uses already are filled first.
                let nodes: Vec<NodeId> = partial.nodes().collect();
                let before = partial.clone();
                let beside = match nodes.is_empty() {
                    true => 0,
                    false => self.step(world, partial, set, (1, most), Among::These(&nodes)),
                };
                let missing = least.saturating_sub(beside).max(1);
                let more = match beside == most {
                    true => 0,
                    false => self.step(world, partial, set, (missing, most - beside), Among::Unused),
                };
                self.all_or_none(partial, before, beside + more, least)
            }
            Gang::PreferSpread => {
                let before = partial.clone();
                let mut added = 0;
                while added < most {
                    let more = self.one_round(world, partial, set, most - added);
                    if more == 0 {
                        break;
                    }
                    added += more;
                }
                self.all_or_none(partial, before, added, least)
            }
        }
    }

    fn all_or_none(&self, partial: &mut Partial, before: Partial, added: u32, least: u32) -> u32 {
        if added >= least {
            return added;
        }
        *partial = before;
        0
    }

    /// Adds at most one task to each of the nodes that have the fewest tasks of the gang and room for another.
    fn one_round(&self, world: World, partial: &mut Partial, set: usize, most: u32) -> u32 {
        let unused = self.spread_step(world, partial, set, most, Among::Unused);
        if unused > 0 {
            return unused;
        }
        let levels: BTreeSet<u32> = partial.claims().map(|claim| claim.tasks).collect();
        for level in levels {
            let of_level = partial.claims().filter(|claim| claim.tasks == level).map(|claim| claim.node);
            let nodes: Vec<NodeId> = of_level.collect();
            let added = self.spread_step(world, partial, set, most, Among::These(&nodes));
            if added > 0 {
                return added;
            }
        }
        0
    }

    fn spread_step(&self, world: World, partial: &mut Partial, set: usize, most: u32, among: Among<'_>) -> u32 {
        SetPlacer { gang: Gang::Spread, ..*self }.step(world, partial, set, (1, most), among)
    }

    /// Places all tasks on the best node that can hold them. Nodes are tried in order of preference for the first set.
    fn on_one_node(&self, world: World, counts: &[u32], order: &[usize]) -> Option<Partial> {
        let first = order.iter().copied().find(|set| counts[*set] > 0)?;
        let empty = Partial::default();
        let classes = self.classes(world, &empty, Among::All);
        let placer = self.of_set(first, 1);
        let verdicts = placer.judge(&classes);
        let fit = classes.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_fit());
        by_rank(fit.map(|(class, _)| (0, class, placer.score(class)))).find_map(|(score, node, _)| {
            let mut partial = Partial::default();
            for set in order {
                let exactly = (counts[*set], counts[*set]);
                if self.step(world, &mut partial, *set, exactly, Among::These(&[node])) < counts[*set] {
                    return None;
                }
            }
            partial.score = Some(score);
            Some(partial)
        })
    }

    /// Adds as many tasks beyond the least number of each set as fit.
    fn grow(&self, world: World, partial: &mut Partial) {
        for set in self.order() {
            let more = self.sets[set].tasks - self.sets[set].min_tasks;
            if more > 0 {
                self.add(world, partial, set, (1, more));
            }
        }
    }

    /// Adds tasks of a set on these nodes, by the rule of the profile: at least `least`, or none. Returns how many.
    fn step(
        &self,
        world: World,
        partial: &mut Partial,
        set: usize,
        (least, most): (u32, u32),
        among: Among<'_>,
    ) -> u32 {
        let classes = self.classes(world, partial, among);
        let placer = self.of_set(set, most);
        let mut verdicts = placer.judge(&classes);
        exclude(&classes, &mut verdicts, partial, among);
        let mut found = placer.candidates_of(&classes, &verdicts, 1).into_iter().next();
        if found.is_none() && least < most {
            let limit = if self.gang == Gang::Spread { 1 } else { most };
            let fit = classes.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_fit());
            let room: u64 =
                fit.map(|(class, _)| u64::from(placer.capacity(class, limit)) * u64::from(class.count)).sum();
            let fewer = u32::try_from(room).unwrap_or(most).min(most);
            let of = |tasks: u32| self.of_set(set, tasks).candidates_of(&classes, &verdicts, 1).into_iter().next();
            // Some gang rules can fail even if the total room is large enough. Then try the least number of tasks.
            found = if fewer < least { None } else { of(fewer).or_else(|| of(least)) };
        }
        let Some(candidate) = found else { return 0 };
        let claims: Vec<NodeClaim> = candidate.placement.claims().to_vec();
        let added = claims.iter().map(|claim| claim.tasks).sum();
        drop((classes, verdicts));
        partial.score.get_or_insert(candidate.score);
        claims.into_iter().for_each(|claim| self.take(world, partial, set, claim));
        added
    }

    /// Adds a claim of one set.
    fn take(&self, world: World, partial: &mut Partial, set: usize, claim: NodeClaim) {
        let base = || self.status(world, claim.node);
        partial.take(self.fleet, (set, self.sets.len()), &claim, base);
    }

    /// The status of a node before anything of the gang is placed.
    fn status(&self, world: World, node: NodeId) -> NodeStatus {
        match world {
            World::Real(_) => self.fleet.node(node).status.clone(),
            World::Ideal => NodeStatus::idle(NodeState::Ready, &self.fleet.node(node).shape),
        }
    }

    /// The classes of the nodes, with what the gang has taken so far.
    fn classes<'r>(&'r self, world: World, partial: &'r Partial, among: Among<'_>) -> Vec<NodeClass<'r>> {
        let one = |node: NodeId| {
            let class = class_of_node(self.fleet, self.pick, node);
            let is_ideal = world == World::Ideal;
            let class = if is_ideal { class.as_idle(self.fleet) } else { class };
            partial.status(node).map_or(class.clone(), |status| class.as_if(status))
        };
        match (among, world) {
            (Among::These(nodes), _) => nodes.iter().map(|node| one(*node)).collect(),
            (Among::All | Among::Unused, World::Real(grouping)) if partial.is_empty() => {
                node_classes(self.fleet, self.pick, grouping)
            }
            (Among::All | Among::Unused, _) => self.fleet.iter().map(|(node, _)| one(node)).collect(),
        }
    }

    /// The reasons why the set that failed fits on no node, or not often enough.
    fn reasons(&self, world: World, failed: &Failed) -> Histogram {
        let classes = self.classes(world, &failed.partial, Among::All);
        let verdicts = self.verdicts(world, failed, &classes);
        histogram(&classes, &verdicts)
    }

    /// The verdict of each class for the set that failed. On one node, the first set for which it lacks something counts.
    fn verdicts(&self, world: World, failed: &Failed, classes: &[NodeClass]) -> Vec<Verdict> {
        let mut verdicts = self.of_set(failed.set, 1).judge(classes);
        let among = if self.gang == Gang::Spread { Among::Unused } else { Among::All };
        exclude(classes, &mut verdicts, &failed.partial, among);
        if self.gang == Gang::StrictPack {
            for (class, verdict) in classes.iter().zip(&mut verdicts).filter(|(_, verdict)| verdict.is_fit()) {
                *verdict = self.lacking_on(world, class.first());
            }
        }
        verdicts
    }

    /// Why this node cannot hold all sets.
    fn lacking_on(&self, world: World, node: NodeId) -> Verdict {
        let mut partial = Partial::default();
        for set in self.order() {
            let least = self.sets[set].min_tasks;
            if self.step(world, &mut partial, set, (least, least), Among::These(&[node])) < least {
                let classes = self.classes(world, &partial, Among::These(&[node]));
                return self.of_set(set, 1).judge(&classes)[0];
            }
        }
        Verdict::Fit
    }

    /// Whether a search that tried everything finds an assignment if there is one. It does not try other GPUs of a node
    /// than the profile would take, so all GPUs must be alike and taken whole.
    fn is_exact(&self) -> bool {
        let whole = |set: &TaskSet| set.task.gpus.as_ref().is_none_or(|gpus| gpus.take == GpuTake::Whole);
        let alike = |group: &dryrack_fleet::ShapeGroup| {
            let first = group.shape.gpus.first();
            group.shape.gpus.iter().all(|gpu| !gpu.unified && Some(gpu) == first)
        };
        self.sets.iter().all(whole) && self.fleet.shapes().iter().all(alike)
    }
}

/// Refuses the nodes that already have a task of the gang, if only unused nodes may be taken.
fn exclude(classes: &[NodeClass], verdicts: &mut [Verdict], partial: &Partial, among: Among<'_>) {
    if !matches!(among, Among::Unused) || partial.is_empty() {
        return;
    }
    for (class, verdict) in classes.iter().zip(verdicts) {
        if verdict.is_fit() && partial.status(class.first()).is_some() {
            *verdict = Verdict::Unfit(Reason::GangIncomplete);
        }
    }
}
