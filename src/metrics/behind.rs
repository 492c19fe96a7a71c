//! Finds what the replicas behind the head of their queue lack.
//!
//! The scheduler does not try such a replica, so its hold says nothing about the nodes. But if there is no room for it, it
//! would not start without the head either. So its wait is charged to its place in the queue only while it would fit. If it
//! would fit with the nodes that are not ready, it is charged to their state.
//!
//! Equal demands are one class. Each class knows for how many of its tasks the nodes have room, and a node that changes
//! changes these sums. So time that passes costs nothing for each replica, and a changed node costs a few comparisons for
//! each class that waits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::cause::{Blame, hides_others, is_of_state};
use super::node_account::NodeAccount;
use super::task_room::{EqualTasks, NodeRoom, Room, gpu_room_on, kinds_of_tasks};
use dryrack_event::Reason;
use dryrack_fleet::NodeState;
use dryrack_ids::NodeId;
use dryrack_workload::{Demand, GpuDemand};

/// The number of classes without replicas that are kept, besides as many as there are with replicas.
const IDLE: usize = 32;

/// The time that was charged to each cause, in nanoseconds.
pub(super) type Charges = Vec<(Blame, u64)>;

const IN_TURN: Blame = Blame::One(Reason::QueueOrder);

/// The replicas behind the heads of their queues.
#[derive(Default)]
pub(super) struct BehindOthers {
    classes: Vec<Class>,
    /// The index of each class.
    by_demand: HashMap<Arc<Demand>, usize, FixedState>,
    /// The demands for GPUs of all classes.
    gpus: Vec<GpuDemand>,
    replicas: u64,
    /// The time that has passed, in nanoseconds.
    passed: u64,
    /// The nodes that have changed since time last passed with replicas here, as they were before. `None` if a node is
    /// new.
    changed: Vec<(NodeId, Option<NodeAccount>)>,
    is_changed: Vec<bool>,
}

/// All replicas with equal demands.
struct Class {
    demand: Arc<Demand>,
    replicas: u64,
    blame: Blame,
    /// What was charged to each replica that has been here the whole time, up to `since`.
    charged: Charges,
    since: u64,
    /// The room for each kind of task. Empty if it has not been counted yet.
    kinds: SmallVec<[KindRoom; 1]>,
    /// Whether the room has changed since the cause was found.
    is_changed: bool,
}

/// The room for equal tasks.
struct KindRoom {
    /// On ready nodes.
    room: Room,
    /// On ready nodes, if each took at most one task. Kept only if nodes may take more.
    ones: Room,
    /// On nodes that are not ready.
    unready: Room,
    /// The number of nodes in each state that is not ready, by the reason that they give.
    states: BTreeMap<Reason, u64>,
    /// The index of their demand for GPUs.
    gpus: Option<usize>,
    /// The CPU and RAM that each of them asks for.
    asked: (u64, u64),
    tasks: u64,
    most: u64,
    is_plain: bool,
}

/// Whether a node counts.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Standing {
    Ready,
    /// It can become ready again. Until then, it gives this reason.
    Unready(Reason),
    /// It is gone, or not known yet.
    #[default]
    Away,
}

impl Standing {
    fn of(node: &NodeAccount) -> Standing {
        match node.state {
            NodeState::Ready => Standing::Ready,
            NodeState::Joining => Standing::Unready(Reason::NodeJoining),
            NodeState::NotReady => Standing::Unready(Reason::NodeNotReady),
            NodeState::Unreachable => Standing::Unready(Reason::NodeUnreachable),
            NodeState::Maintenance => Standing::Unready(Reason::NodeMaintenance),
            NodeState::Gone => Standing::Away,
        }
    }
}

/// A node before or after a change, with the room of its GPUs for each demand for GPUs.
#[derive(Default)]
struct NodeSeen {
    standing: Standing,
    has_instance: bool,
    free: (u64, u64),
    gpus: Vec<(u64, u64)>,
}

impl BehindOthers {
    /// Adds a replica with this demand. Returns what `leave` needs to tell what is charged to the replica from now on. `None`
    /// if its room cannot be counted: it is not added.
    pub fn join(&mut self, demand: &Arc<Demand>) -> Option<Charges> {
        let class = match self.by_demand.get(demand) {
            Some(class) => *class,
            None if kinds_of_tasks(demand).next().is_none() => return None,
            None => self.add_class(Class {
                demand: Arc::clone(demand),
                replicas: 0,
                blame: IN_TURN,
                charged: Charges::new(),
                since: self.passed,
                kinds: SmallVec::new(),
                is_changed: true,
            }),
        };
        let class = &mut self.classes[class];
        class.replicas += 1;
        self.replicas += 1;
        class.charge(self.passed);
        Some(class.charged.clone())
    }

    /// Removes a replica that `join` added, and tells what was charged to it. `before` is what `join` returned.
    pub fn leave(&mut self, demand: &Arc<Demand>, before: &Charges) -> Charges {
        let class = &mut self.classes[self.by_demand[demand]];
        class.replicas -= 1;
        self.replicas -= 1;
        class.charge(self.passed);
        // Causes are only added, at the end.
        let before = before.iter().map(|(_, time)| *time).chain(std::iter::repeat(0));
        class.charged.iter().zip(before).map(|((blame, time), before)| (*blame, time - before)).collect()
    }

    /// Tells that a node is about to change. `before` is its account until now, or `None` if the node is new.
    pub fn touch(&mut self, node: NodeId, before: Option<&NodeAccount>) {
        if self.classes.is_empty() {
            return;
        }
        if self.is_changed.len() <= node.index() {
            self.is_changed.resize(node.index() + 1, false);
        }
        if !std::mem::replace(&mut self.is_changed[node.index()], true) {
            self.changed.push((node, before.cloned()));
        }
    }

    /// Charges this time, in nanoseconds, to each replica. The nodes are in this state all the while.
    pub fn pass(&mut self, nodes: &[NodeAccount], time: u64) {
        if self.replicas > 0 {
            self.follow(nodes);
        }
        self.passed += time;
    }

    fn add_class(&mut self, class: Class) -> usize {
        self.by_demand.insert(Arc::clone(&class.demand), self.classes.len());
        self.classes.push(class);
        self.classes.len() - 1
    }

    /// Counts the room of new classes, and counts it again for nodes that have changed.
    fn follow(&mut self, nodes: &[NodeAccount]) {
        self.forget_idle_classes();
        let (mut before, mut after) = (NodeSeen::default(), NodeSeen::default());
        for (id, account) in std::mem::take(&mut self.changed) {
            self.is_changed[id.index()] = false;
            before.look(account.as_ref(), &self.gpus);
            after.look(Some(&nodes[id.index()]), &self.gpus);
            if before.standing != Standing::Away || after.standing != Standing::Away {
                self.classes.iter_mut().for_each(|class| class.change((id, &nodes[id.index()]), &before, &after));
            }
        }
        for class in &mut self.classes {
            if class.kinds.is_empty() {
                class.count(nodes, &mut self.gpus);
            }
            if !std::mem::take(&mut class.is_changed) {
                continue;
            }
            let blame = class.cause();
            if blame != class.blame {
                class.charge(self.passed);
                class.blame = blame;
            }
        }
    }

    fn forget_idle_classes(&mut self) {
        let used = self.classes.iter().filter(|class| class.replicas > 0).count();
        if self.classes.len() - used <= used + IDLE {
            return;
        }
        let kept = std::mem::take(&mut self.classes).into_iter().filter(|class| class.replicas > 0);
        let gpus = std::mem::take(&mut self.gpus);
        self.by_demand.clear();
        for mut class in kept {
            for kind in &mut class.kinds {
                kind.gpus = kind.gpus.map(|known| number_of(&gpus[known], &mut self.gpus));
            }
            self.add_class(class);
        }
    }
}

/// Adds this time to what was charged to a cause.
pub(super) fn add_charge<B: PartialEq>(charged: &mut Vec<(B, u64)>, blame: B, time: u64) {
    match charged.iter_mut().find(|(known, _)| *known == blame) {
        _ if time == 0 => {}
        Some((_, sum)) => *sum += time,
        None => charged.push((blame, time)),
    }
}

/// The number of this demand for GPUs.
fn number_of(asked: &GpuDemand, gpus: &mut Vec<GpuDemand>) -> usize {
    gpus.iter().position(|known| known == asked).unwrap_or_else(|| {
        gpus.push(asked.clone());
        gpus.len() - 1
    })
}

impl Class {
    /// Charges the time up to `now` to the cause that has been known since the last time.
    fn charge(&mut self, now: u64) {
        add_charge(&mut self.charged, self.blame, now - std::mem::replace(&mut self.since, now));
    }

    fn count(&mut self, nodes: &[NodeAccount], gpus: &mut Vec<GpuDemand>) {
        let kind = |tasks: EqualTasks<'_>| {
            let mut kind = KindRoom {
                room: Room::default(),
                ones: Room::default(),
                unready: Room::default(),
                states: BTreeMap::new(),
                gpus: tasks.gpus().map(|asked| number_of(asked, gpus)),
                asked: (tasks.task.cpu.get(), tasks.task.ram.get()),
                tasks: tasks.tasks,
                most: tasks.most,
                is_plain: tasks.is_plain(),
            };
            let of_kind = nodes.iter().enumerate().map(|(id, node)| (NodeId::new(id), node));
            for (id, node) in of_kind.filter(|(id, node)| tasks.is_node_of_kind(*id, node)) {
                kind.replace(Default::default(), (Standing::of(node), tasks.room_on(id, node)));
            }
            kind
        };
        self.kinds = kinds_of_tasks(&self.demand).map(kind).collect();
    }

    /// Counts the room again for a node that has changed.
    fn change(&mut self, (id, node): (NodeId, &NodeAccount), before: &NodeSeen, after: &NodeSeen) {
        for (number, kind) in self.kinds.iter_mut().enumerate() {
            let seen = [before, after].map(|node| (node.standing, node.room(kind)));
            let is_of_kind = || match kind.is_plain {
                true => node.spec.shape.instance.is_none(),
                false => kinds_of_tasks(&self.demand).nth(number).is_some_and(|of| of.is_node_of_kind(id, node)),
            };
            if seen[0] != seen[1] && is_of_kind() {
                let [before, after] = seen;
                kind.replace(before, after);
                self.is_changed = true;
            }
        }
    }

    fn cause(&self) -> Blame {
        let kinds = self.kinds.iter().zip(kinds_of_tasks(&self.demand));
        let Some((kind, tasks)) = kinds.into_iter().find(|(kind, _)| !kind.room.is_enough(kind.tasks)) else {
            return IN_TURN;
        };
        // As for a replica that was tried: the reason of most nodes if nothing else can have been short beside it.
        let (led, state) = (kind.ones().leading_reason(tasks), kind.leading_state());
        let incomplete = (self.demand.tasks > 1).then_some((Reason::GangIncomplete, kind.ones().tasks()));
        let given = [led, state, incomplete].into_iter().flatten().filter(|(_, nodes)| *nodes > 0);
        let Some((most, _)) = given.min_by_key(|(reason, nodes)| (Reverse(*nodes), *reason)) else { return IN_TURN };
        if is_of_state(most) && self.kinds.iter().all(KindRoom::would_be_enough) {
            return Blame::One(most);
        }
        let led = led.map(|(led, _)| led).filter(|_| self.demand.tasks == 1);
        let led = led.filter(|led| !hides_others(&self.demand, *led)).map(Blame::One);
        led.or_else(|| kind.room.lacks(tasks)).unwrap_or(Blame::One(most))
    }
}

impl KindRoom {
    /// Counts a node again that has changed.
    fn replace(&mut self, before: (Standing, NodeRoom), after: (Standing, NodeRoom)) {
        if before.0 == after.0 {
            return self.replace_room(before.0, before.1, after.1);
        }
        self.replace_room(before.0, before.1, NodeRoom::default());
        self.replace_room(after.0, NodeRoom::default(), after.1);
        if let Standing::Unready(reason) = before.0 {
            *self.states.get_mut(&reason).expect("the node was counted") -= 1;
        }
        if let Standing::Unready(reason) = after.0 {
            *self.states.entry(reason).or_default() += 1;
        }
    }

    fn replace_room(&mut self, standing: Standing, before: NodeRoom, after: NodeRoom) {
        match standing {
            Standing::Ready => {
                self.room.replace(before, after);
                if self.most > 1 {
                    self.ones.replace(before.of_one(), after.of_one());
                }
            }
            Standing::Unready(_) => self.unready.replace(before, after),
            Standing::Away => {}
        }
    }

    /// The room on ready nodes, if each took at most one task.
    fn ones(&self) -> &Room {
        if self.most > 1 { &self.ones } else { &self.room }
    }

    /// Whether there would be room if all nodes were ready.
    fn would_be_enough(&self) -> bool {
        self.room.tasks() + self.unready.tasks() >= self.tasks
    }

    /// The state of most nodes that are not ready, and how many nodes are in it.
    fn leading_state(&self) -> Option<(Reason, u64)> {
        let given = self.states.iter().filter(|(_, nodes)| **nodes > 0);
        given.map(|(reason, nodes)| (*reason, *nodes)).min_by_key(|(reason, nodes)| (Reverse(*nodes), *reason))
    }
}

impl NodeSeen {
    fn look(&mut self, node: Option<&NodeAccount>, gpus: &[GpuDemand]) {
        self.gpus.clear();
        self.standing = node.map_or(Standing::Away, Standing::of);
        if let Some(node) = node.filter(|_| self.standing != Standing::Away) {
            self.has_instance = node.spec.shape.instance.is_some();
            self.free = (node.cpu_free().get(), node.ram_free().get());
            self.gpus.extend(gpus.iter().map(|gpus| gpu_room_on(gpus, node, u64::from(u32::MAX))));
        }
    }

    /// The room for tasks of this kind, if the node is of the right kind.
    fn room(&self, kind: &KindRoom) -> NodeRoom {
        if self.standing == Standing::Away || self.has_instance {
            return NodeRoom::default();
        }
        let gpus = kind.gpus.map_or((kind.most, kind.most), |number| self.gpus[number]);
        NodeRoom::of(kind.asked, kind.most, self.free, gpus)
    }
}

#[cfg(test)]
mod tests {
    use super::super::blame::tests::{NodeUse, accounts, claim, decision, draw_demand, draw_node, draw_taken};
    use super::super::blame::{WaitAccount, ended_by};
    use super::*;
    use dryrack_event::Refusal;
    use dryrack_rng::Stream;
    use dryrack_scheduler::Decision;
    use dryrack_units::SimTime;
    use dryrack_workload::JobSpec;

    /// The cause of the wait of a replica that the scheduler tries. `None` if it gives no reason for which a wait ends.
    fn cause_of_tried(demand: &Demand, nodes: &[NodeUse]) -> Option<Blame> {
        let profile = dryrack_profile::load_profile("first-fit", std::path::Path::new("")).expect("one of ours");
        match decision(&profile.scheduler, demand, nodes, Default::default()) {
            Decision::Refuse { refusal: Refusal::Unfit, reasons } => {
                let spec = Arc::new(JobSpec::of("job".into(), demand.clone()));
                let led = ended_by(&spec, Refusal::Unfit, &reasons).expect("a reason for each node");
                Some(WaitAccount::default().blame(&spec, led, &accounts(nodes)))
            }
            Decision::Refuse { .. } => None,
            Decision::Place(_) => Some(IN_TURN),
        }
    }

    fn draw_state(draws: &mut Stream) -> NodeState {
        *draws.pick(&[NodeState::Ready, NodeState::Ready, NodeState::NotReady, NodeState::Maintenance])
    }

    #[test]
    fn a_replica_behind_others_lacks_what_it_would_lack_if_it_were_tried() {
        let (mut fit, mut unfit, mut again, mut states) = (0, 0, 0, 0);
        for seed in 0..500 {
            let mut draws = Stream::new(seed, "behind", 0);
            let mut nodes: Vec<NodeUse> = (0..draws.between(1, 4)).map(|_| draw_node(&mut draws)).collect();
            let mut account = accounts(&nodes);
            let mut behind = BehindOthers::default();
            let mut waiting: Vec<(Arc<Demand>, Charges, u64)> = Vec::new();
            for passed in 0..20 {
                for _ in 0..draws.between(0, 3) {
                    let demand = Arc::new(draw_demand(&mut draws));
                    let before = behind.join(&demand).expect("its room can be counted");
                    waiting.push((demand, before, passed));
                }
                for _ in 0..draws.between(0, waiting.len().min(3) as u64) {
                    let place = draws.between(0, waiting.len() as u64 - 1) as usize;
                    let (demand, before, since) = waiting.swap_remove(place);
                    let charged: u64 = behind.leave(&demand, &before).iter().map(|(_, time)| time).sum();
                    assert_eq!(charged, passed - since, "seed {seed}: each time that passed is charged");
                }
                for _ in 0..draws.between(0, 2) {
                    let (id, at) = (draws.between(0, nodes.len() as u64 - 1) as usize, SimTime::ZERO);
                    behind.touch(NodeId::new(id), Some(&account[id]));
                    account[id].release(at, &claim(id, nodes[id].taken));
                    nodes[id].taken = draw_taken(nodes[id].all, &mut draws);
                    account[id].take(at, &claim(id, nodes[id].taken));
                    nodes[id].state = draw_state(&mut draws);
                    account[id].set_state(at, nodes[id].state);
                }
                let expected: Vec<Option<Blame>> = waiting.iter().map(|(of, ..)| cause_of_tried(of, &nodes)).collect();
                behind.pass(&account, 1);
                for ((demand, ..), expected) in waiting.iter().zip(expected) {
                    let Some(expected) = expected else { continue };
                    let class = &behind.classes[behind.by_demand[demand]];
                    assert_eq!(class.blame, expected, "seed {seed}: {demand:?} on {nodes:?}");
                    fit += u64::from(expected == IN_TURN);
                    unfit += u64::from(expected != IN_TURN);
                    again += u64::from(matches!(expected, Blame::Together(_)));
                    states += u64::from(matches!(expected, Blame::One(led) if is_of_state(led)));
                }
            }
        }
        assert!(
            fit > 1000 && unfit > 1000 && again > 100 && states > 100,
            "{fit} {unfit} {again} {states}: each is seen"
        );
    }
}
