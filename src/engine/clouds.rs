//! How clouds answer requests for instances: whether they accept a request, how long an instance takes to start, and
//! when they take it away again. Each of these questions has its own random stream.

use std::collections::BTreeSet;

use super::cloud_models::{InstanceTurn, OfferModel};
use super::queue::EventQueue;
use super::world::Due;
use dryrack_event::{FleetFact, Input};
use dryrack_fleet::{Foreign, GpuState, NodeState};
use dryrack_ids::{GpuId, NodeId};
use dryrack_rng::{Stream, entity};
use dryrack_units::{Permille, SimTime};

use super::rehearsal::{InitialNode, Rehearsal};

/// The state of every place where a cloud instance can be. Each node of such a fleet is one place.
pub(super) struct Places {
    places: Vec<Place>,
    /// GPUs that a fault has changed. They are reset when their instance is gone.
    touched: BTreeSet<GpuId>,
}

#[derive(Clone, Copy)]
struct Place {
    /// Whether there is no instance in this place now.
    absent: bool,
    /// Incremented to cancel the events that are scheduled for the instance.
    epoch: u32,
    /// How many instances have been requested for this place so far.
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

    /// Whether there is no instance in this place, so that no fault can happen to it.
    pub fn is_absent(&self, node: NodeId) -> bool {
        self.places[node.index()].absent
    }

    pub fn is_current(&self, node: NodeId, epoch: u32) -> bool {
        self.places[node.index()].epoch == epoch
    }

    pub fn touch(&mut self, gpu: GpuId) {
        self.touched.insert(gpu);
    }

    /// Draws what happens to a request for an instance, and schedules it.
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

    /// Marks an instance as up. If the cloud may take it away, draws when.
    pub fn is_up(&mut self, rehearsal: &Rehearsal, queue: &mut EventQueue<Due>, now: SimTime, node: NodeId) {
        let place = &mut self.places[node.index()];
        place.absent = false;
        let Some(lengths) = model_of(rehearsal, node).interrupted else { return };
        let length = lengths.draw(&mut stream(rehearsal, "spot interruptions", node, place.asked));
        queue.push_after(now, length, Due::Instance { node, epoch: place.epoch, becomes: InstanceTurn::Gone });
    }

    /// Marks an instance as gone. Resets its changed GPUs, because the next instance in this place starts fresh.
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
            inputs.push(Input::Fleet(FleetFact::GpuReported { gpu, state: GpuState::Ready }));
            inputs.push(Input::Fleet(FleetFact::ForeignUse { gpu, foreign: Foreign::NONE }));
        }
    }
}

/// Whether the node is an instance of a fleet that creates its own instances.
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

/// The random stream for the `asked`-th instance in this place.
fn stream(rehearsal: &Rehearsal, purpose: &'static str, node: NodeId, asked: u32) -> Stream {
    let name = &*rehearsal.nodes[node.index()].spec.name;
    Stream::new(rehearsal.seed, purpose, entity(&[name, &asked.to_string()]))
}
