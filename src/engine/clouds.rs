//! How clouds answer requests: how long an instance takes to start, whether it starts at all, and when it is taken
//! away again. Each of these draws from its own random stream.

use std::collections::BTreeSet;

use super::queue::EventQueue;
use super::world::Due;
use dryrack_event::Input;
use dryrack_fleet::{Foreign, GpuState, NodeState};
use dryrack_ids::{FleetId, GpuId, NodeId};
use dryrack_rng::{Lengths, Stream, entity};
use dryrack_units::{Permille, SimDuration, SimTime};

use super::rehearsal::{InitialNode, Rehearsal};

/// The clouds of all fleets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CloudModels {
    /// By fleet, then by offer; empty for a fleet that makes no instances.
    pub offers: Vec<Vec<OfferModel>>,
    /// Capacity changes in order of time: the fleet, the offer and its number of available instances from then on.
    pub capacity: Vec<(SimTime, FleetId, u32, u32)>,
}

/// One offer of a cloud.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfferModel {
    /// The time from the request until an instance is up.
    pub provisioning: Lengths,
    /// The time from termination until the instance is gone.
    pub termination: SimDuration,
    /// How long an instance is up before it is taken away; if `None`, it never is.
    pub interrupted: Option<Lengths>,
    /// The rate of requests that are refused although capacity was reported.
    pub refused: Permille,
    /// The rate of accepted instances that are gone when they should be up.
    pub failed: Permille,
}

impl OfferModel {
    /// An instance that starts at once and stays.
    pub const IDEAL: OfferModel = OfferModel {
        provisioning: Lengths::Fixed(SimDuration::ZERO),
        termination: SimDuration::ZERO,
        interrupted: None,
        refused: Permille::ZERO,
        failed: Permille::ZERO,
    };
}

/// What happens to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceTurn {
    Accepted,
    Up,
    /// Refused, terminated, or taken away.
    Gone,
}

/// The places of instances, by node.
pub(super) struct Places {
    places: Vec<Place>,
    /// GPUs that are no longer in their initial state.
    touched: BTreeSet<GpuId>,
}

#[derive(Clone, Copy)]
struct Place {
    /// Whether no instance is up there.
    absent: bool,
    /// Incremented when events due for the instance become void.
    epoch: u32,
    /// The number of instances requested for this place.
    asked: u32,
}

impl Places {
    pub fn new(rehearsal: &Rehearsal) -> Places {
        let place = |node: &InitialNode| {
            let absent = is_of_cloud(rehearsal, node) && node.state == NodeState::Gone;
            Place { absent, epoch: 0, asked: 0 }
        };
        Places { places: rehearsal.nodes.iter().map(place).collect(), touched: BTreeSet::new() }
    }

    /// Whether no instance is there, so that nothing can happen to it.
    pub fn is_absent(&self, node: NodeId) -> bool {
        self.places[node.index()].absent
    }

    pub fn is_current(&self, node: NodeId, epoch: u32) -> bool {
        self.places[node.index()].epoch == epoch
    }

    pub fn touch(&mut self, gpu: GpuId) {
        self.touched.insert(gpu);
    }

    /// Draws the result of a request.
    pub fn provision(&mut self, rehearsal: &Rehearsal, queue: &mut EventQueue<Due>, now: SimTime, node: NodeId) {
        let model = model_of(rehearsal, node);
        let place = &mut self.places[node.index()];
        place.epoch += 1;
        place.asked += 1;
        let epoch = place.epoch;
        let due = |becomes| Due::Instance { node, epoch, becomes };
        let asked = place.asked;
        let happens = |chance: Permille, purpose| {
            chance > Permille::ZERO && stream(rehearsal, purpose, node, asked).chance(u64::from(chance.get()))
        };
        if happens(model.refused, "refusals of clouds") {
            return queue.push(now, due(InstanceTurn::Gone));
        }
        let comes = if happens(model.failed, "failures of clouds") { InstanceTurn::Gone } else { InstanceTurn::Up };
        queue.push(now, due(InstanceTurn::Accepted));
        let length = model.provisioning.draw(&mut stream(rehearsal, "provisioning", node, asked));
        queue.push_after(now, length, due(comes));
    }

    pub fn terminate(&mut self, rehearsal: &Rehearsal, queue: &mut EventQueue<Due>, now: SimTime, node: NodeId) {
        let place = &mut self.places[node.index()];
        place.epoch += 1;
        let due = Due::Instance { node, epoch: place.epoch, becomes: InstanceTurn::Gone };
        queue.push(now.saturating_add(model_of(rehearsal, node).termination), due);
    }

    /// Marks an instance as up. If it can be interrupted, draws when.
    pub fn is_up(&mut self, rehearsal: &Rehearsal, queue: &mut EventQueue<Due>, now: SimTime, node: NodeId) {
        let place = &mut self.places[node.index()];
        place.absent = false;
        let Some(lengths) = model_of(rehearsal, node).interrupted else { return };
        let length = lengths.draw(&mut stream(rehearsal, "spot interruptions", node, place.asked));
        queue.push_after(now, length, Due::Instance { node, epoch: place.epoch, becomes: InstanceTurn::Gone });
    }

    /// Marks an instance as gone. The next instance has GPUs in their initial state.
    pub fn is_gone(&mut self, rehearsal: &Rehearsal, node: NodeId, inputs: &mut Vec<Input>) {
        if !is_of_cloud(rehearsal, &rehearsal.nodes[node.index()]) {
            return;
        }
        let place = &mut self.places[node.index()];
        place.epoch += 1;
        place.absent = true;
        let first = GpuId { node, index: 0 };
        let last = GpuId { node, index: u16::MAX };
        let touched: Vec<GpuId> = self.touched.range(first..=last).copied().collect();
        for gpu in touched {
            self.touched.remove(&gpu);
            inputs.push(Input::GpuReported { gpu, state: GpuState::Ready });
            inputs.push(Input::ForeignUse { gpu, foreign: Foreign::NONE });
        }
    }
}

/// Whether the node is an instance of a fleet that makes its instances. Such a node does not come back by itself.
fn is_of_cloud(rehearsal: &Rehearsal, node: &InitialNode) -> bool {
    let fleet = node.spec.shape.instance.as_ref().map(|instance| instance.fleet);
    fleet.is_some_and(|fleet| rehearsal.fleets[fleet.index()].cloud.is_some())
}

fn model_of(rehearsal: &Rehearsal, node: NodeId) -> OfferModel {
    let instance = rehearsal.nodes[node.index()].spec.shape.instance.as_deref();
    let found = instance.and_then(|instance| {
        rehearsal.clouds.offers.get(instance.fleet.index())?.get(instance.offer? as usize).copied()
    });
    found.unwrap_or(OfferModel::IDEAL)
}

/// The random stream of the n-th instance in this place.
fn stream(rehearsal: &Rehearsal, purpose: &'static str, node: NodeId, asked: u32) -> Stream {
    let name = &*rehearsal.nodes[node.index()].spec.name;
    Stream::new(rehearsal.seed, purpose, entity(&[name, &asked.to_string()]))
}
