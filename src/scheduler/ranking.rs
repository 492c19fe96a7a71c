//! A ranking holds, for one demand, the classes that fit, best first, and is kept between decisions.
//!
//! All members of a class are in equal state, so a verdict or a score is valid as long as the class exists. After a
//! change, only the changed shapes are examined, and only their new classes are judged. Refused nodes are counted by reason as classes come and go. So a decision takes
//! the top of a heap, and a refusal copies a histogram.
//!
//! Every answer equals that of the plain computation ([`super::decide`]). [`Caching::Paranoid`] computes both and
//! compares them. Some demands have no ranking: demands with picks, gangs on several nodes, and random choices. They
//! are computed plainly, but their refusals are cached ([`super::refusals`]).

use std::collections::BinaryHeap;

use smallvec::{SmallVec, smallvec};

use super::decide::ever_fits;
use super::decision::{Candidate, Decision};
use super::draw::Draw;
use super::filter::FilterStage;
use super::filter::{self, FilterName};
use super::fit::{self, GpuChoice, Load};
use super::fragment::{self, Free};
use super::gpu_order::GpuOrder;
use super::memo::{FragmentMemo, Taken};
use super::node_class::{NodeClass, class_of_node, class_with_members};
use super::options::{GangPlaces, SchedulerOptions, Ties};
use super::scorer::{self, ScorerName};
use super::states::{ClassState, States};
use super::tasks::{before_filters, claim};
use super::uniform::Uniform;
use super::verdict::{Reads, Verdict};
use super::{claimable, consolidate};
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::{ClassHead, ClassId, Fleet, GpuState, Placement};
use dryrack_ids::NodeId;
use dryrack_units::Score;
use dryrack_workload::{Demand, Gang, TaskGroup};

/// Whether results are cached. The outputs are the same either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    Off,
    On,
    /// Results are cached and also computed again each time. Both results are compared.
    Paranoid,
}

/// The rankings of all demands, by the demand's number.
#[derive(Default)]
pub struct Rankings {
    demands: Vec<Option<Box<Ranking>>>,
    known: Known,
}

/// Data that the decisions about all demands share.
#[derive(Default)]
struct Known {
    states: States,
    memo: FragmentMemo,
}

/// The results of one demand for all classes.
struct Ranking {
    /// The number of declared nodes when the shapes were last examined.
    nodes: usize,
    /// How many class changes, over all classes, the ranking already includes.
    read: u64,
    shapes: Vec<ShapePart>,
    slots: Vec<Slot>,
    best: BinaryHeap<Place>,
    refused: Refused,
    /// Whether the demand is placed on one node.
    is_of_one_node: bool,
    /// Whether the demand would fit if every node were ready and empty. `None` until it is computed.
    ever: Option<bool>,
}

/// The number of refused nodes by the code of the reason ([`Reason::code`]).
struct Refused {
    known: [u32; Reason::ALL.len()],
    own: SmallVec<[(u32, u32); 0]>,
}

impl Default for Refused {
    fn default() -> Refused {
        Refused { known: [0; Reason::ALL.len()], own: SmallVec::new() }
    }
}

impl Refused {
    #[inline]
    fn count(&mut self, code: u32) -> &mut u32 {
        if let Some(count) = self.known.get_mut(code as usize) {
            return count;
        }
        let place = self.own.iter().position(|(own, _)| *own == code).unwrap_or_else(|| {
            self.own.push((code, 0));
            self.own.len() - 1
        });
        &mut self.own[place].1
    }

    fn add(&mut self, code: u32, count: u32) {
        *self.count(code) += count;
    }

    fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::default();
        let mut add = |code, count| histogram.add(Reason::of_code(code).expect("each code is of a reason"), count);
        for (code, count) in self.known.iter().enumerate() {
            if *count > 0 {
                add(code as u32, *count);
            }
        }
        self.own.iter().for_each(|(code, count)| add(*code, *count));
        histogram
    }
}

/// The part of a judgement that does not change while nodes of a shape exist.
struct ShapePart {
    /// How many changes of the shape's classes the ranking already includes.
    read: u64,
    /// Why no class of the shape will ever fit, in any state. All nodes of the shape are counted under this reason.
    never: Option<Reason>,
    /// The filters that may refuse a class of the shape, in order: the name, and the index among all filters.
    open: SmallVec<[(FilterName, usize); 4]>,
    /// How many of the tasks an empty node of the shape would hold. Used if gangs are consolidated.
    whole: u32,
    /// Present if all GPUs of the shape are alike.
    uniform: Option<Uniform>,
}

/// The result of a demand for one class. It has only 16 bytes, because there is one for each pair of class and demand.
#[derive(Clone, Copy)]
struct Slot {
    generation: u32,
    /// For a refused class, the number of its nodes that are counted. For a class that fits, the member under which it
    /// is in the heap, or `UNSUBMITTED`.
    of: u32,
    standing: Standing,
}

/// An index that no node has.
const UNSUBMITTED: u32 = u32::MAX;

impl Slot {
    const UNKNOWN: Slot = Slot { generation: 0, of: UNSUBMITTED, standing: Standing::UNKNOWN };

    fn is_entered_as(&self, place: Place) -> bool {
        self.of == place.first() && self.standing == place.standing()
    }
}

/// A score, or the reason for a refusal, as a number. The numbers of scores are in the order of the scores. Those of
/// reasons are bits of a NaN, which is never a score.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Standing(u64);

impl Standing {
    /// The class is not judged yet. The codes of the reasons follow this number, in their order.
    const UNKNOWN: Standing = Standing(SIGN | 0x7ff8_0000_0000_0000);

    fn no(reason: Reason) -> Standing {
        Standing(Standing::UNKNOWN.0 + 1 + u64::from(reason.code()))
    }

    fn fits(score: Score) -> Standing {
        let bits = score.get().to_bits();
        Standing(if bits & SIGN == 0 { bits | SIGN } else { !bits })
    }

    /// The code of the reason, if the class is refused. All scores are lower.
    fn refused_as(self) -> Option<u32> {
        u32::try_from(self.0.wrapping_sub(Standing::UNKNOWN.0 + 1)).ok()
    }

    /// The score of a class that fits.
    fn score(self) -> Score {
        Score::new(f64::from_bits(if self.0 & SIGN == 0 { !self.0 } else { self.0 & !SIGN }))
    }
}

/// The sign bit of a float.
const SIGN: u64 = 1 << 63;

/// A class that fits, with its score and its first member. Places are ordered by score. On a tie, the lower node is
/// greater. All fields are in one number, so that two places are compared at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u128);

impl Place {
    fn new(standing: Standing, first: NodeId, class: ClassId) -> Place {
        let lower = u64::from(!(first.index() as u32)) << 32 | class.index() as u64;
        Place(u128::from(standing.0) << 64 | u128::from(lower))
    }

    fn standing(self) -> Standing {
        Standing((self.0 >> 64) as u64)
    }

    fn first(self) -> u32 {
        !((self.0 >> 32) as u32)
    }

    fn class(self) -> ClassId {
        ClassId::new(self.0 as u32)
    }
}

/// The heap is cleared of outdated places once its length exceeds this factor times the number of slots, plus
/// `STALE_LEAST`.
const STALE_FACTOR: usize = 4;
const STALE_LEAST: usize = 256;

impl Rankings {
    pub fn new(options: &SchedulerOptions) -> Rankings {
        let known = Known { memo: FragmentMemo::new(&options.target), ..Known::default() };
        Rankings { demands: Vec::new(), known }
    }

    /// The decision with one candidate, for the demand with this number; `None` if the demand has no ranking.
    pub fn decide(
        &mut self,
        options: &SchedulerOptions,
        (number, demand): (u32, &Demand),
        fleet: &Fleet,
        draw: Draw,
    ) -> Option<Decision> {
        let group = by_class(demand).filter(|group| has_ranking(options, *group))?;
        let place = number as usize;
        if self.demands.len() <= place {
            self.demands.resize_with(place + 1, || None);
        }
        let known = &mut self.known;
        let ranking = self.demands[place].get_or_insert_with(Box::default);
        ranking.update(options, group, fleet, known);
        if !ranking.is_of_one_node {
            return None;
        }
        Some(match ranking.top(fleet) {
            Some(place) => {
                let node = NodeId::new(place.first() as usize);
                let shape = fleet.shape_index(node);
                let (class, part) = (class_of_node(fleet, None, node), &ranking.shapes[shape]);
                let load = load(options, (group, part), (&class, shape), draw, &mut known.memo);
                let placement = Placement::new([claim(node, load)].into());
                let score =
                    if options.gangs == GangPlaces::Consolidate { Score::ZERO } else { place.standing().score() };
                Decision::Place(smallvec![Candidate { placement, score }])
            }
            None => {
                let reasons = ranking.histogram();
                let ever = *ranking.ever.get_or_insert_with(|| ever_fits(options, demand, fleet));
                Decision::Refuse { refusal: if ever { Refusal::Unfit } else { Refusal::Never }, reasons }
            }
        })
    }
}

/// The tasks of a demand without a pick. Only for such a demand, classes alone determine the decision.
pub(super) fn by_class(demand: &Demand) -> Option<TaskGroup<'_>> {
    demand.task_group().filter(|group| group.pick.is_none())
}

/// Whether the demand is placed on one node, using only verdicts and scores of classes.
fn has_ranking(options: &SchedulerOptions, demand: TaskGroup<'_>) -> bool {
    let on_one_node = match options.gangs {
        GangPlaces::Demand | GangPlaces::Racks => demand.tasks == 1,
        GangPlaces::Consolidate => demand.gang != Gang::Spread,
        GangPlaces::Neighbours => false,
    };
    options.ties == Ties::First && on_one_node
}

/// Whether each empty node can hold either the whole gang or none of its tasks. Otherwise the gang may have to be
/// consolidated on several nodes.
fn is_of_one_node(options: &SchedulerOptions, demand: TaskGroup<'_>, fleet: &Fleet) -> bool {
    demand.tasks == 1
        || fleet.shapes().iter().all(|group| {
            let room = fit::capacity(demand, options.gpus, &NodeClass::of_shape(group), demand.tasks);
            room == 0 || room == demand.tasks
        })
}

impl Default for Ranking {
    fn default() -> Ranking {
        Ranking {
            nodes: 0,
            read: 0,
            shapes: Vec::new(),
            slots: Vec::new(),
            best: BinaryHeap::new(),
            refused: Refused::default(),
            is_of_one_node: true,
            ever: None,
        }
    }
}

impl Ranking {
    /// Applies the changes since the last update.
    fn update(&mut self, options: &SchedulerOptions, demand: TaskGroup<'_>, fleet: &Fleet, known: &mut Known) {
        if self.nodes != fleet.len() {
            self.begin(options, demand, fleet);
        }
        if !self.is_of_one_node {
            return;
        }
        let read = std::mem::replace(&mut self.read, fleet.all_class_changes());
        for index in fleet.changed_shapes(read) {
            let part = &mut self.shapes[index];
            if part.never.is_some() {
                continue;
            }
            let read = std::mem::replace(&mut part.read, fleet.class_change_count(index));
            if self.slots.len() < fleet.class_slots() {
                self.slots.resize(fleet.class_slots(), Slot::UNKNOWN);
            }
            for (class, head) in fleet.class_changes(index, read) {
                if self.take_in(class, head) {
                    let standing = judge(options, demand, (fleet, index), &self.shapes[index], class, known);
                    self.enter(class, head, standing);
                }
            }
        }
        if self.best.len() > STALE_FACTOR * self.slots.len() + STALE_LEAST {
            let slots = &self.slots;
            self.best.retain(|place| slots[place.class().index()].is_entered_as(*place));
        }
    }

    /// Discards all results and examines the shapes again.
    fn begin(&mut self, options: &SchedulerOptions, demand: TaskGroup<'_>, fleet: &Fleet) {
        let is_of_one_node = is_of_one_node(options, demand, fleet);
        *self = Ranking { nodes: fleet.len(), is_of_one_node, ..Ranking::default() };
        for group in fleet.shapes().iter().filter(|_| is_of_one_node) {
            let class = NodeClass::of_shape(group);
            let (fixed, never) = fixed(options, demand, &class);
            if let Some(reason) = never {
                self.refused.add(reason.code(), group.count);
            }
            let whole = match options.gangs {
                GangPlaces::Demand | GangPlaces::Racks | GangPlaces::Neighbours => 0,
                GangPlaces::Consolidate => consolidate::whole_node(demand, options.gpus, &class),
            };
            let uniform = Uniform::of(demand, class.shape);
            let may_refuse = |place: &usize| fixed[*place] != Some(Verdict::Fit);
            let open = (0..fixed.len()).filter(may_refuse).map(|place| (options.filters[place].stage, place)).collect();
            self.shapes.push(ShapePart { read: 0, never, open, whole, uniform });
        }
    }

    /// Updates a class that has changed. Returns whether the class is new and must be judged.
    fn take_in(&mut self, id: ClassId, head: &ClassHead) -> bool {
        let slot = &mut self.slots[id.index()];
        let is_judged = slot.generation == head.generation() && slot.standing != Standing::UNKNOWN;
        // The result of an empty class stays valid, because the class may get members in this state again.
        if let Some(reason) = slot.standing.refused_as() {
            let counted = if is_judged { head.len() } else { 0 };
            let count = self.refused.count(reason);
            *count = *count - slot.of + counted;
            slot.of = counted;
            return !is_judged && !head.is_empty();
        }
        if head.is_empty() {
            slot.of = UNSUBMITTED;
            return false;
        }
        if is_judged {
            let first = head.first();
            let entered = std::mem::replace(&mut slot.of, first.index() as u32);
            if entered != slot.of {
                self.best.push(Place::new(slot.standing, first, id));
            }
        }
        !is_judged
    }

    /// Records the result of a class that has members: counts it as refused, or puts it in the heap.
    fn enter(&mut self, class: ClassId, head: &ClassHead, standing: Standing) {
        let of = match standing.refused_as() {
            Some(reason) => {
                self.refused.add(reason, head.len());
                head.len()
            }
            None => {
                let first = head.first();
                self.best.push(Place::new(standing, first, class));
                first.index() as u32
            }
        };
        self.slots[class.index()] = Slot { generation: head.generation(), of, standing };
    }

    /// The place of the best class, with its first member.
    fn top(&mut self, fleet: &Fleet) -> Option<Place> {
        while let Some(place) = self.best.peek().copied() {
            let (slot, head) = (&self.slots[place.class().index()], fleet.class_head(place.class()));
            if slot.is_entered_as(place) && !head.is_empty() && head.generation() == slot.generation {
                return Some(place);
            }
            self.best.pop();
        }
        None
    }

    fn histogram(&self) -> Histogram {
        self.refused.histogram()
    }
}

/// The filters' verdicts on the classes of a shape, as far as they do not depend on state. Also returns why no class
/// will ever fit, unless an earlier stage reads the state. Such a stage could refuse a class for another reason.
pub(super) fn fixed(
    options: &SchedulerOptions,
    demand: TaskGroup<'_>,
    class: &NodeClass,
) -> (SmallVec<[Option<Verdict>; 8]>, Option<Reason>) {
    let of_stage = |stage: &FilterStage| match stage.stage.reads() {
        Reads::Pick => Some(Verdict::Fit),
        Reads::Shape => Some(filter::judge_one(stage, options.gpus, demand, class)),
        Reads::State => None,
    };
    let fixed: SmallVec<[Option<Verdict>; 8]> = options.filters.iter().map(of_stage).collect();
    let mut stages = std::iter::once(Some(before_filters(class.shape))).chain(fixed.iter().copied());
    let first = stages.find(|verdict| *verdict != Some(Verdict::Fit));
    let never = first.flatten().and_then(|verdict| verdict.reason());
    (fixed, never)
}

/// Judges a class of this shape for the demand: the filters run in order, and if none refuses the class, the scorers.
fn judge(
    options: &SchedulerOptions,
    demand: TaskGroup<'_>,
    (fleet, shape): (&Fleet, usize),
    part: &ShapePart,
    id: ClassId,
    Known { states, memo }: &mut Known,
) -> Standing {
    states.know(fleet, id);
    let state = states.of(id);
    for (name, place) in &part.open {
        let reason = match (name, &part.uniform) {
            // Exemptions apply only to demands with a pick, and such demands are not judged here.
            (FilterName::Ready, _) => state.unready,
            (FilterName::Resources, Some(uniform)) => uniform.first_shortage(state, || &fleet.class(id).status),
            _ => {
                let class = class_with_members(fleet, id);
                filter::judge_one(&options.filters[*place], options.gpus, demand, &class).reason()
            }
        };
        if let Some(reason) = reason {
            return Standing::no(reason);
        }
    }
    let class = class_with_members(fleet, id);
    if options.gangs == GangPlaces::Consolidate {
        return consolidated(options, demand, part, &class, state);
    }
    let mut total = Score::ZERO;
    for scorer in &options.scorers {
        let score = match scorer.stage {
            ScorerName::Fgd => fgd(options, (demand, part), (&class, shape), state, memo),
            stage => scorer::score(&options.target, stage, fleet.largest(), demand, &class),
        };
        total = total + score * scorer.weight;
    }
    Standing::fits(total)
}

/// The score by fragmentation gradient descent, computed only once for all states and tasks with equal scores.
fn fgd(
    options: &SchedulerOptions,
    (demand, part): (TaskGroup<'_>, &ShapePart),
    (class, shape): (&NodeClass, usize),
    state: &ClassState,
    memo: &mut FragmentMemo,
) -> Score {
    let is_by_kind = part.uniform.is_some() || demand.task.gpus.is_none();
    let taken = Taken::of(demand).filter(|_| is_by_kind);
    let plainly = |memo: &mut FragmentMemo| {
        let by_shares = state.shares.as_ref().zip(taken).and_then(|(shares, taken)| {
            memo.score_by_shares(&options.target, (shape, class.shape), (state.cpu, shares), taken)
        });
        by_shares.unwrap_or_else(|| fragmentation_score(options, (demand, part), (class, shape), memo))
    };
    Score::new(f64::from(match taken {
        Some(taken) => memo.score((shape, state), taken, plainly),
        None => plainly(memo),
    }))
}

/// The least sufficient room is best, if gangs are consolidated.
fn consolidated(
    options: &SchedulerOptions,
    demand: TaskGroup<'_>,
    part: &ShapePart,
    class: &NodeClass,
    state: &ClassState,
) -> Standing {
    let counted = part.uniform.as_ref().and_then(|uniform| uniform.capacity(state, part.whole));
    let room = counted.unwrap_or_else(|| fit::capacity(demand, options.gpus, class, part.whole));
    if room < demand.tasks {
        Standing::no(Reason::GangIncomplete)
    } else {
        Standing::fits(Score::new(-f64::from(room)))
    }
}

/// [`fragment::score`], computed with the help of the memo.
fn fragmentation_score(
    options: &SchedulerOptions,
    (demand, part): (TaskGroup<'_>, &ShapePart),
    (class, shape): (&NodeClass, usize),
    memo: &mut FragmentMemo,
) -> u32 {
    if let (Some(uniform), Some(share)) = (&part.uniform, fragment::shared(demand)) {
        let is_usable = |index: &usize| class.status.gpus[*index].state.is_usable();
        let usable = (0..class.status.gpus.len()).filter(is_usable);
        let with_room = usable.filter(|index| uniform.has_room(class.status, *index));
        return fragment::best_share(demand, class, share, with_room, |free| {
            remembered(options, (class, shape), free, memo)
        });
    }
    fragment::score_by(demand, class, |free| remembered(options, (class, shape), free, memo))
}

/// The fragmentation of a class of the shape with this index, from the memo if possible.
fn remembered(
    options: &SchedulerOptions,
    (class, shape): (&NodeClass, usize),
    free: &Free,
    memo: &mut FragmentMemo,
) -> f64 {
    let known = memo.fragment(&options.target, shape, class.shape, free);
    known.unwrap_or_else(|| fragment::fragment(&options.target, class.shape, free))
}

/// The resources that the demand takes on a node of this class. `class` must hold this node alone.
fn load(
    options: &SchedulerOptions,
    (demand, part): (TaskGroup<'_>, &ShapePart),
    (class, shape): (&NodeClass, usize),
    draw: Draw,
    memo: &mut FragmentMemo,
) -> Load {
    let choice = GpuChoice::new(options.gpus, &options.target, draw);
    let of_first = part.uniform.as_ref().filter(|_| choice.is_of_no_account());
    if let Some(load) = of_first.and_then(|uniform| uniform.first_whole(class.status, demand.tasks)) {
        return load;
    }
    let by_fragment = options.gpus == GpuOrder::LeastFragmentation && demand.tasks == 1;
    let share = fragment::shared(demand).filter(|_| by_fragment && class.shape.gpus.iter().all(|gpu| !gpu.unified));
    let Some(share) = share else {
        return fit::fill(demand, choice, class, demand.tasks);
    };
    let free = Free::of(class);
    let before = remembered(options, (class, shape), &free, memo);
    let mut best = None;
    // GPUs of one type with equal free parts have equal results, so one of them is enough.
    let mut seen: SmallVec<[(u32, u32); 8]> = SmallVec::new();
    for found in claimable::claimable(demand, class) {
        let index = usize::from(found.index);
        let left = free.gpus[index];
        let known = seen.iter().find(|(known, _)| *known == left && part.uniform.is_some());
        let score = known.map(|(_, score)| *score).unwrap_or_else(|| {
            let fragment = |free: &Free| remembered(options, (class, shape), free, memo);
            fragment::score_with(demand, (free.clone(), before), (index, share), fragment)
        });
        seen.push((left, score));
        let is_degraded = class.status.gpus[index].state == GpuState::Degraded;
        let key = (is_degraded, 100 - score, found.index);
        if best.as_ref().is_none_or(|(least, _)| key < *least) {
            best = Some((key, found));
        }
    }
    let (_, found) = best.expect("the class has room for it");
    Load { tasks: 1, cpu: demand.task.cpu, ram: demand.task.ram, gpus: SmallVec::from_elem(found, 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_event::OwnReason;

    #[test]
    fn a_standing_is_a_score_or_a_reason() {
        for score in [0.0, 1.5, -1.5, f64::MAX, f64::MIN, f64::INFINITY, f64::NEG_INFINITY].map(Score::new) {
            let standing = Standing::fits(score);
            assert_eq!((standing.refused_as(), standing.score()), (None, score));
            assert!(standing != Standing::UNKNOWN);
        }
        let ascending =
            [f64::NEG_INFINITY, -2.0, -1.5, 0.0, 1e-9, 3.0, f64::INFINITY].map(Score::new).map(Standing::fits);
        assert!(ascending.is_sorted_by(|one, other| one.0 < other.0));
        let own = ["slow_disk", "spot_node"].map(|name| Reason::Own(OwnReason::new(name).unwrap()));
        for reason in Reason::ALL.iter().chain(&own) {
            assert_eq!(Standing::no(*reason).refused_as().and_then(Reason::of_code), Some(*reason));
        }
        assert_eq!(Standing::UNKNOWN.refused_as(), None);
        assert_eq!(size_of::<Slot>(), 16);
    }

    #[test]
    fn the_greatest_place_has_the_highest_score_and_then_the_lowest_node() {
        let place = |score, node| Place::new(Standing::fits(Score::new(score)), NodeId::new(node), ClassId::new(7));
        let descending = [place(2.0, 9), place(0.5, 0), place(0.5, 3), place(-1.0, 1), place(-1.0, 4_000_000_000)];
        assert!(descending.is_sorted_by(|one, other| one > other));
        let last = descending[4];
        assert_eq!(
            (last.first(), last.class(), last.standing().score()),
            (4_000_000_000, ClassId::new(7), Score::new(-1.0))
        );
    }
}
