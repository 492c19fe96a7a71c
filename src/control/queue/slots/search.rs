//! The plan of a waiting replica: when and where it would begin beside the reservations of the table.

use super::ahead::{AttemptEndTime, FutureEnds, Rooms};
use super::bits::{insert, nodes_of};
use super::futures::Future;
use super::plain::plan_plainly;
use super::planned::Plan;
use super::table::{SlotSearch, Table};
use super::time::{SECOND, earlier, is_stopping, limit_of};
use super::trial::Trial;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::slurm::Ground;
use dryrack_fleet::{NodeStatus, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::{Candidate, is_by_room, nodes_among_neighbours, place_among_neighbours};
use dryrack_units::SimTime;

/// Plans a replica on the nodes of `ground`, or on all nodes if it is `None`. In the second future, the jobs that it may
/// preempt are gone.
pub fn plan(
    core: &Core,
    index: ReplicaIndex,
    (plain, preempting): (&mut Future, Option<&mut Future>),
    table: &Table,
    ground: Option<Ground<'_>>,
) -> Plan {
    let (number, length) = (core.store[index].demand, limit_of(core, index));
    if !plain.ends.count_room(core, number) {
        let preemptible = preempting.map_or(&[][..], |future| future.ends.preempted());
        return plan_plainly(core, index, &table.plainly(), ground, preemptible);
    }
    let mut searches = Searches::new(core, index, plain, preempting);
    let (rooms, tasks) = (searches.main.rooms, searches.main.tasks);
    if rooms.most == 0 {
        return Plan::Nothing;
    }
    let least = tasks.div_ceil(rooms.most);
    let (mut free, mut nodes) = (vec![0; table.words()], vec![0; table.words()]);
    let end_of_window = table.now.saturating_add(table.options.window);
    let opens = |from: SimTime| {
        let opens = ground.and_then(|ground| ground.opens(from, length, table.options.resolution));
        opens.filter(|opens| *opens < end_of_window)
    };
    let mut from = table.now;
    while from <= end_of_window && !ground.is_some_and(|ground| ground.is_over(from)) {
        let usable = ground.as_ref().map(|ground| ground.bits(from, length));
        let found = table.search((from, length), usable.as_deref(), &mut free, least, |at| rooms.ready_by(at));
        let mut later = match found {
            SlotSearch::Free(later) => earlier(later, opens(from)),
            SlotSearch::TooEarly(later) => {
                from = opens(from).map_or(later, |opens| opens.min(later));
                continue;
            }
        };
        let Some(Found { start, by, search: found, preempts }) = searches.first((&free, least), (from, table)) else {
            let Some(later) = later else { return Plan::Nothing };
            from = later;
            continue;
        };
        let mut start = start.max(from);
        if start <= table.now && !is_completing_on(core, &found.nodes(&free, by)) {
            return match preempts {
                true => Plan::Preempt(in_order(found.nodes(&free, by)), nodes_of(&free).collect()),
                false => Plan::Start(found.place_now(&free), nodes_of(&free).collect()),
            };
        }
        if start <= table.now {
            (start, later) = (table.now.saturating_add(SECOND), None);
        }
        if let Some(later) = later.filter(|later| start > *later) {
            from = later;
            continue;
        }
        if start > end_of_window {
            return Plan::Nothing;
        }
        let taken = found.nodes(&free, by);
        nodes.fill(0);
        taken.iter().for_each(|node| insert(&mut nodes, *node));
        if !table.is_taken(start, length, &nodes) {
            return Plan::Reserve(start, in_order(taken));
        }
        // Planning again from the same time would give the same result.
        if start == from {
            return Plan::Nothing;
        }
        from = start;
    }
    Plan::Nothing
}

/// The searches for a place of one replica.
struct Searches<'a> {
    /// The search among what really runs, if the replica may preempt others.
    present: Option<Search<'a>>,
    /// The search in a future without the jobs that the replica may preempt.
    main: Search<'a>,
}

/// When a replica fits.
struct Found<'s, 'a> {
    start: SimTime,
    /// The end after which it fits; `None` if it fits now.
    by: Option<AttemptEndTime>,
    search: &'s mut Search<'a>,
    /// Whether it fits only if jobs are preempted.
    preempts: bool,
}

impl<'a> Searches<'a> {
    fn new(
        core: &'a Core,
        index: ReplicaIndex,
        plain: &'a mut Future,
        preempting: Option<&'a mut Future>,
    ) -> Searches<'a> {
        let plain = Search::new(core, index, plain);
        let Some(preempting) = preempting else { return Searches { present: None, main: plain } };
        preempting.ends.count_room(core, core.store[index].demand);
        Searches { present: Some(plain), main: Search::new(core, index, preempting) }
    }

    /// When the replica, which may begin from a time on, first fits on these nodes.
    fn first<'s>(
        &'s mut self,
        (free, least): (&[u64], u32),
        (from, table): (SimTime, &Table),
    ) -> Option<Found<'s, 'a>> {
        let preempts = self.present.is_some();
        if let Some(present) = &mut self.present {
            let (_, by) = present.ahead.over_by(from, table);
            if present.fits(free, by) {
                return Some(Found { start: table.now, by, search: present, preempts: false });
            }
        }
        let search = &mut self.main;
        let (ahead, rooms) = (search.ahead, search.rooms);
        let (start, by) = ahead.first_start(rooms, (free, least), (from, table), |by| search.fits(free, by))?;
        Some(Found { start, by, search, preempts })
    }
}

/// The search for a place of one replica on given nodes.
struct Search<'a> {
    core: &'a Core,
    index: ReplicaIndex,
    ahead: &'a FutureEnds,
    rooms: &'a Rooms,
    /// The number of tasks that single nodes must have room for.
    tasks: u32,
    /// The copy of the fleet on which the demand is judged, if the room of single nodes does not decide.
    trial: Option<&'a mut Option<Trial>>,
    /// The place that was found on the copy at the last judgement.
    judged: Option<Candidate>,
}

impl<'a> Search<'a> {
    /// A search in a future in which the room for the replica has been counted.
    fn new(core: &'a Core, index: ReplicaIndex, future: &'a mut Future) -> Search<'a> {
        let number = core.store[index].demand;
        let (ahead, trial) = (&future.ends, &mut future.trial);
        let rooms = ahead.known(number);
        let is_exact = is_by_room(&core.profile.scheduler, core.store.demand(number));
        let tasks = ahead.by_node(core, number).map_or(0, |demand| demand.tasks);
        Search { core, index, ahead, rooms, tasks, trial: (!is_exact).then_some(trial), judged: None }
    }

    /// Whether the replica fits on these nodes, once all attempts that end by this moment have ended.
    fn fits(&mut self, free: &[u64], by: Option<AttemptEndTime>) -> bool {
        if !self.ahead.has_room(self.rooms, free, by, self.tasks) {
            return false;
        }
        let Some(trial) = &mut self.trial else { return true };
        let trial = trial.get_or_insert_with(|| Trial::new(self.core));
        self.judged = trial.judge(self.core, self.index, self.ahead, (free, by));
        self.judged.is_some()
    }

    /// The nodes that the replica takes, where it was found to fit.
    fn nodes(&self, free: &[u64], by: Option<AttemptEndTime>) -> Vec<NodeId> {
        if let Some(judged) = &self.judged {
            return judged.placement.claims().iter().map(|claim| claim.node).collect();
        }
        let demand = self.core.store.demand(self.core.store[self.index].demand);
        nodes_among_neighbours(demand, self.ahead.standing(self.rooms, free, by)).expect("there is room")
    }

    /// The place of the replica if it begins now on these nodes, where it was found to fit.
    fn place_now(&mut self, free: &[u64]) -> Candidate {
        if let Some(judged) = self.judged.take() {
            return judged;
        }
        let replica = &self.core.store[self.index];
        let demand = self.core.store.demand(replica.demand);
        let with_room = self.ahead.standing(self.rooms, free, None).filter(|(_, room, _)| *room > 0);
        let nodes = with_room.map(|(node, ..)| (node, self.ahead.status_after(self.core, node, 0)));
        let nodes: Vec<(NodeId, NodeStatus)> = nodes.collect();
        let context = self.core.context(replica.attempt_id());
        let found = place_among_neighbours(&self.core.profile.scheduler, demand, context, &self.core.fleet, &nodes);
        found.expect("there is room")
    }
}

fn in_order(mut nodes: Vec<NodeId>) -> Vec<NodeId> {
    nodes.sort_unstable();
    nodes
}

/// Whether an attempt is completing on these nodes, so that its resources are about to be free.
fn is_completing_on(core: &Core, nodes: &[NodeId]) -> bool {
    let touched = |kept: &Placement| nodes.iter().any(|node| kept.touches(*node));
    let stops = |node: &NodeId| core.nodes[node.index()].replicas.iter().any(|index| is_stopping(core, *index));
    core.kept.claims.values().any(touched) || nodes.iter().any(stops)
}
