//! The placer for tasks. It applies the filters in order, then generates candidates and ranks them by score and node
//! id.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::by_rank::by_rank;
use super::consolidate::{NodeShare, consolidate};
use super::context::PlacementContext;
use super::decision::{Candidate, Decision};
use super::filter;
use super::filter::FilterStage;
use super::finding::NodeFinding;
use super::fit::{self, GpuChoice, Load};
use super::neighbours::neighbours;
use super::node_class::{Grouping, NodeClass, class_of_node, ideal_classes, node_classes};
use super::options::{GangPlaces, SchedulerOptions, Ties};
use super::placer::Placer;
use super::racks;
use super::scorer;
use super::shortage::shortages;
use super::verdict::Verdict;
use dryrack_event::{Histogram, Reason};
use dryrack_fleet::{Fleet, NodeClaim, NodeShape, Placement};
use dryrack_ids::{GpuId, NodeId};
use dryrack_planted::planted;
use dryrack_units::Score;
use dryrack_workload::{Gang, Pick, TaskGroup};

/// Places tasks, each of which takes a part of a node.
#[derive(Clone, Copy)]
pub struct TaskPlacer<'a> {
    pub options: &'a SchedulerOptions,
    pub group: TaskGroup<'a>,
    pub context: PlacementContext,
    pub fleet: &'a Fleet,
}

impl Placer for TaskPlacer<'_> {
    fn candidates(&self, grouping: Grouping, keep: usize) -> Result<SmallVec<[Candidate; 1]>, Histogram> {
        let classes = node_classes(self.fleet, self.group.pick, grouping);
        let verdicts = self.judge(&classes);
        let candidates = self.candidates_of(&classes, &verdicts, keep);
        if candidates.is_empty() { Err(histogram(&classes, &verdicts)) } else { Ok(candidates) }
    }

    fn ever_fits(&self) -> bool {
        let group = self.group;
        let classes = ideal_classes(self.fleet, group.pick);
        let verdicts = self.judge(&classes);
        let fit = || fitting_classes(&classes, &verdicts).map(|(_, class)| class);
        match (group.pick, group.gang) {
            (Some(pick @ Pick::AllGpus(_)), _) => fit().count() == pick.nodes().len(),
            (_, Gang::Spread) => fit().map(|class| u64::from(class.count)).sum::<u64>() >= u64::from(group.tasks),
            (_, Gang::Anywhere | Gang::Packed | Gang::StrictPack | Gang::PreferSpread) => {
                let room = |class: &NodeClass| u64::from(self.capacity(class, group.tasks)) * u64::from(class.count);
                fit().map(room).sum::<u64>() >= u64::from(group.tasks)
            }
        }
    }

    fn still_fits(&self, placement: &Placement) -> bool {
        placement.claims().iter().all(|claim| {
            let class = class_of_node(self.fleet, self.group.pick, claim.node);
            self.judge_one(&class).is_fit() && has_room(&class, claim)
        })
    }

    fn findings(&self, _: &Decision) -> Vec<NodeFinding> {
        let classes = node_classes(self.fleet, self.group.pick, Grouping::EachNode);
        classes.iter().zip(self.judge(&classes)).map(|(class, verdict)| self.finding(class, verdict)).collect()
    }

    fn select_node(&self, node: NodeId) -> (Verdict, bool) {
        let pick = Pick::Nodes(vec![node]);
        (self.judge_picked(self.group.tasks, &pick, node), false)
    }

    fn select_gpu(&self, gpu: GpuId) -> (Verdict, bool) {
        let pick = Pick::AllGpus(vec![gpu]);
        (self.judge_picked(1, &pick, gpu.node), false)
    }

    fn takes_together(&self, gpus: &[GpuId]) -> bool {
        let pick = Pick::AllGpus(gpus.to_vec());
        self.judge_picked(1, &pick, gpus[0].node).is_fit()
    }

    fn takes_gpus(&self) -> bool {
        self.group.task.gpus.is_some()
    }

    fn decide_with_all(&self, keep: usize) -> Decision {
        let mut decision = self.decide(Grouping::EachNode, usize::MAX);
        if self.options.ties == Ties::Random
            && keep == 1
            && let Decision::Place(candidates) = &mut decision
            && let Decision::Place(drawn) = self.decide(Grouping::EachNode, 1)
        {
            candidates.retain(|candidate| candidate.placement != drawn[0].placement);
            candidates.insert(0, drawn[0].clone());
        }
        decision
    }
}

impl TaskPlacer<'_> {
    /// The best candidates on these classes, best first. `verdicts` has the verdict of each class. Empty if the classes
    /// do not have enough room.
    pub fn candidates_of(&self, classes: &[NodeClass], verdicts: &[Verdict], keep: usize) -> SmallVec<[Candidate; 1]> {
        let (options, group) = (self.options, self.group);
        match group.pick {
            Some(pick @ Pick::AllGpus(_)) => self.picked_gpus(pick, classes, verdicts).into_iter().collect(),
            _ if options.gangs == GangPlaces::Consolidate && group.gang != Gang::Spread => {
                let fit: Vec<usize> = fitting_classes(classes, verdicts).map(|(index, _)| index).collect();
                let shares = consolidate(group, options.gpus, classes, &fit);
                shares.map(|shares| self.shared(classes, shares)).into_iter().collect()
            }
            _ if options.gangs == GangPlaces::Neighbours => {
                let fit: Vec<usize> = fitting_classes(classes, verdicts).map(|(index, _)| index).collect();
                self.among_neighbours(classes, &fit).into_iter().collect()
            }
            _ if group.tasks == 1 => {
                let ranked = match (options.ties, keep) {
                    (Ties::Random, 1) => self.drawn(classes, verdicts).into_iter().collect(),
                    (Ties::First | Ties::Random, _) => self.ranked(classes, verdicts, keep),
                };
                let candidate = |(score, Reverse(node), index): (Score, Reverse<NodeId>, usize)| Candidate {
                    placement: Placement::new([self.claim_on(node, &classes[index], 1)].into()),
                    score,
                };
                ranked.into_iter().map(candidate).collect()
            }
            _ if options.gangs == GangPlaces::Racks => {
                let within = racks::within(group, options.gpus, classes, verdicts);
                self.gang(classes, &within).into_iter().collect()
            }
            _ => self.gang(classes, verdicts).into_iter().collect(),
        }
    }

    /// The placement on neighbouring nodes of these classes.
    pub fn among_neighbours(&self, classes: &[NodeClass], fit: &[usize]) -> Option<Candidate> {
        let shares = neighbours(self.group, self.options.gpus, classes, fit)?;
        Some(self.shared(classes, shares))
    }

    /// Each class's verdict after all filters.
    pub fn judge(&self, classes: &[NodeClass]) -> Vec<Verdict> {
        let mut verdicts: Vec<Verdict> = classes.iter().map(|class| before_filters(class.shape)).collect();
        for stage in &self.options.filters {
            filter::apply(stage, self.options.gpus, self.group, classes, &mut verdicts);
        }
        verdicts
    }

    pub fn judge_one(&self, class: &NodeClass) -> Verdict {
        self.judge(std::slice::from_ref(class))[0]
    }

    /// The verdict on one node, if `pick` were the pick of the job and the job had this many tasks.
    fn judge_picked(&self, tasks: u32, pick: &Pick, node: NodeId) -> Verdict {
        let group = TaskGroup { tasks, pick: Some(pick), ..self.group };
        TaskPlacer { group, ..*self }.judge_one(&class_of_node(self.fleet, Some(pick), node))
    }

    pub fn finding(&self, class: &NodeClass, verdict: Verdict) -> NodeFinding {
        let (options, group, largest) = (self.options, self.group, self.fleet.largest());
        let refusal = |stage: &FilterStage| {
            Some((stage.stage.name(), filter::judge_one(stage, options.gpus, group, class).reason()?))
        };
        let score = |stage| scorer::score(&options.target, stage, largest, group, class);
        NodeFinding {
            shortages: shortages(group, class),
            refusals: options.filters.iter().filter_map(refusal).collect(),
            capacity: if verdict.is_fit() { self.capacity(class, group.tasks) } else { 0 },
            scores: options.scorers.iter().map(|scorer| (scorer.stage.name(), score(scorer.stage))).collect(),
            total: self.score(class),
            ..NodeFinding::of(class.first(), verdict)
        }
    }

    pub fn score(&self, class: &NodeClass) -> Score {
        scorer::total(&self.options.scorers, &self.options.target, self.fleet.largest(), self.group, class)
    }

    pub fn capacity(&self, class: &NodeClass, limit: u32) -> u32 {
        fit::capacity(self.group, self.options.gpus, class, limit)
    }

    /// The claim of this many tasks on a node of this class.
    fn claim_on(&self, node: NodeId, class: &NodeClass, tasks: u32) -> NodeClaim {
        let choice = GpuChoice::new(self.options.gpus, &self.options.target, self.context.draw);
        claim(node, fit::fill(self.group, choice, &class.on(self.fleet, node), tasks))
    }

    /// Makes a candidate from a list of nodes with the number of tasks on each.
    fn shared(&self, classes: &[NodeClass], shares: Vec<NodeShare>) -> Candidate {
        let claim = |(node, index, tasks): NodeShare| self.claim_on(node, &classes[index], tasks);
        Candidate { placement: Placement::new(shares.into_iter().map(claim).collect()), score: Score::ZERO }
    }

    /// The best nodes for one task, best first, and the indexes of their classes.
    fn ranked(&self, classes: &[NodeClass], verdicts: &[Verdict], keep: usize) -> Vec<(Score, Reverse<NodeId>, usize)> {
        let mut ranked: Vec<(Score, Reverse<NodeId>, usize)> = Vec::new();
        for (index, class) in fitting_classes(classes, verdicts) {
            let score = self.score(class);
            match keep {
                1 => {
                    let entry = (score, Reverse(class.first()), index);
                    match ranked.first_mut() {
                        Some(best) => *best = (*best).max(entry),
                        None => ranked.push(entry),
                    }
                }
                _ => ranked.extend(class.nodes().take(keep).map(|node| (score, Reverse(node), index))),
            }
        }
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.truncate(keep);
        ranked
    }

    /// One of the nodes with the highest score, drawn with equal probability.
    fn drawn(&self, classes: &[NodeClass], verdicts: &[Verdict]) -> Option<(Score, Reverse<NodeId>, usize)> {
        let mut best: Vec<(NodeId, usize)> = Vec::new();
        let mut highest: Option<Score> = None;
        for (index, class) in fitting_classes(classes, verdicts) {
            let score = self.score(class);
            if highest.is_some_and(|highest| score < highest) {
                continue;
            }
            if highest != Some(score) {
                best.clear();
                highest = Some(score);
            }
            best.extend(class.nodes().map(|node| (node, index)));
        }
        let highest = highest?;
        // Sort by id, so that the result does not depend on how nodes are grouped.
        best.sort_unstable();
        let (node, index) = *self.context.draw.stream("choice of a node").pick(&best);
        Some((highest, Reverse(node), index))
    }

    /// The placement on exactly the picked GPUs; `None` if it does not fit.
    fn picked_gpus(&self, pick: &Pick, classes: &[NodeClass], verdicts: &[Verdict]) -> Option<Candidate> {
        let choice = GpuChoice::new(self.options.gpus, &self.options.target, self.context.draw);
        let mut claims: SmallVec<[NodeClaim; 1]> = SmallVec::new();
        let mut score = Score::ZERO;
        for (_, class) in fitting_classes(classes, verdicts) {
            score = score + self.score(class);
            claims.push(claim(class.first(), fit::fill(self.group, choice, class, 1)));
        }
        (claims.len() == pick.nodes().len()).then(|| Candidate { placement: Placement::new(claims), score })
    }

    /// Places a gang. All tasks are alike, so counting room is exact: if all tasks have room, this function finds a
    /// placement.
    fn gang(&self, classes: &[NodeClass], verdicts: &[Verdict]) -> Option<Candidate> {
        let TaskGroup { tasks, gang, .. } = self.group;
        let limit = if gang == Gang::Spread && !planted!(SpreadGangSharesNodes) { 1 } else { tasks };
        let fit: SmallVec<[(usize, &NodeClass, u32); 16]> = fitting_classes(classes, verdicts)
            .map(|(index, class)| (index, class, self.capacity(class, limit)))
            .collect();
        let room: u64 = fit.iter().map(|(_, class, capacity)| u64::from(*capacity) * u64::from(class.count)).sum();
        if room < u64::from(tasks) {
            return None;
        }
        // Packed gangs go to the nodes with the most room first.
        let ranked = fit.into_iter().map(|(index, class, capacity)| {
            let first = if gang == Gang::Packed && !planted!(PackedGangByScore) { capacity } else { 0 };
            (index, class, (first, self.score(class)))
        });
        let mut nodes = by_rank(ranked);
        let mut claims: SmallVec<[NodeClaim; 1]> = SmallVec::new();
        let (mut left, mut best) = (tasks, Score::ZERO);
        while left > 0 {
            let ((_, score), node, index) = nodes.next().expect("there is room for every task");
            if claims.is_empty() {
                best = score;
            }
            let claim = self.claim_on(node, &classes[index], left.min(limit));
            left -= claim.tasks;
            claims.push(claim);
        }
        Some(Candidate { placement: Placement::new(claims), score: best })
    }
}

/// The verdict before all filters. Only jobs with `resources` can use instances of fleets, and they use blocks of them.
pub fn before_filters(shape: &NodeShape) -> Verdict {
    if shape.instance.is_none() { Verdict::Fit } else { Verdict::Never(Reason::InFleet) }
}

pub fn claim(node: NodeId, load: Load) -> NodeClaim {
    NodeClaim { tasks: load.tasks, cpu: load.cpu, ram: load.ram, gpus: load.gpus, ..NodeClaim::of_nothing(node) }
}

/// Counts the reasons. A node that fits but cannot take the whole gang counts as [`Reason::GangIncomplete`].
pub fn histogram(classes: &[NodeClass], verdicts: &[Verdict]) -> Histogram {
    let mut histogram = Histogram::default();
    for (class, verdict) in classes.iter().zip(verdicts) {
        histogram.add(verdict.reason().unwrap_or(Reason::GangIncomplete), class.count);
    }
    histogram
}

fn fitting_classes<'r, 'f>(
    classes: &'r [NodeClass<'f>],
    verdicts: &'r [Verdict],
) -> impl Iterator<Item = (usize, &'r NodeClass<'f>)> {
    classes.iter().enumerate().zip(verdicts).filter(|(_, verdict)| verdict.is_fit()).map(|(class, _)| class)
}

pub fn has_room(class: &NodeClass, claim: &NodeClaim) -> bool {
    let (shape, status) = (class.shape, class.status);
    let unified = |index: u16| shape.gpus[usize::from(index)].unified;
    let pooled = claim.gpus.iter().filter(|part| unified(part.index)).map(|part| part.memory).sum();
    let each = shape.restricted_cores_per_gpu();
    status.cpu_free(shape) >= claim.cpu
        && (each == 0 || status.cpu_unrestricted_free(shape) >= claim.unrestricted_cpu(each))
        && status.ram_free(shape) >= claim.ram + pooled
        && claim.gpus.iter().all(|part| {
            let index = usize::from(part.index);
            status.gpus[index].state.is_usable()
                && status.gpu_share_free(index) >= part.share
                && status.gpu_memory_free(shape, index) >= part.memory
        })
}
