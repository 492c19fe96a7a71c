//! Random failures: when nodes and GPUs fail and when they are repaired, as a list of faults in order of time.
//!
//! Each pair of a failure model and a subject has its own random stream, keyed by their names. So adding a node or a
//! failure model does not change the draws of any other.

use std::collections::BTreeMap;

use super::rehearsal::{Fault, NodeTurn};
use dryrack_fleet::GpuState;
use dryrack_ids::{GpuId, NodeId};
use dryrack_planted::planted;
use dryrack_rng::{Lengths, Stream, entity};
use dryrack_units::{SimDuration, SimTime};

/// A failure model. From `from` on, a subject is up for a time drawn from `up`, then down for a time drawn from `down`,
/// and so on. No failure begins at or after `until`, but a subject that is down at that time is still repaired.
#[derive(Clone, Debug)]
pub struct FailureModel {
    /// The name of the model. Together with the subject's name, it is the key of the random stream.
    pub name: String,
    pub up: Lengths,
    pub down: Lengths,
    pub from: SimTime,
    pub until: SimTime,
}

/// A unit that fails as a whole: a node, a GPU, or all nodes of a rack.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: String,
    pub targets: Vec<Target>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Node(NodeId),
    Gpu(GpuId),
}

/// The state of a target while it is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedState {
    Node(NodeTurn),
    Gpu(GpuState),
}

#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub target: Target,
    pub becomes: FailedState,
    pub from: SimTime,
    pub to: SimTime,
}

impl FailureModel {
    /// The outages of one subject, in order of time. `None` if there are more than `most`.
    pub fn draw(&self, seed: u64, subject: &Subject, most: usize) -> Option<Vec<(SimTime, SimTime)>> {
        let mut stream = Stream::new(seed, "failures", entity(&[&self.name, &subject.name]));
        let mut outages = Vec::new();
        let mut at = self.from;
        loop {
            // At least 1 ns passes between two failures, because lengths of zero could make this loop endless.
            let from = at.saturating_add(self.up.draw(&mut stream).max(SimDuration::from_nanos(1)));
            if from >= self.until {
                return Some(outages);
            }
            at = from.saturating_add(self.down.draw(&mut stream));
            outages.push((from, at));
            if outages.len() > most {
                return None;
            }
        }
    }
}

/// Converts outages to faults. If outages of a target overlap, each of them is reported as a fault, but the target
/// recovers only when all of them are over.
pub fn as_faults(outages: &[Outage]) -> Vec<(SimTime, Fault)> {
    let mut by_target: BTreeMap<Target, Vec<&Outage>> = BTreeMap::new();
    for outage in outages {
        by_target.entry(outage.target).or_default().push(outage);
    }
    let mut faults = Vec::new();
    for (target, mut outages) in by_target {
        outages.sort_by_key(|outage| outage.from);
        let mut down_to: Option<SimTime> = None;
        for outage in outages {
            if let Some(end) = down_to.filter(|end| *end < outage.from) {
                faults.push((end, well(target)));
                down_to = None;
            }
            faults.push((outage.from, fault(target, outage.becomes)));
            down_to = if planted!(RepairedByTheFirst) { Some(outage.to) } else { down_to.max(Some(outage.to)) };
        }
        faults.extend(down_to.map(|end| (end, well(target))));
    }
    // A repair at the end of time never happens.
    faults.retain(|(at, _)| *at < SimTime::MAX);
    faults.sort_by_key(|(at, _)| *at);
    faults
}

fn well(target: Target) -> Fault {
    match target {
        Target::Node(node) => Fault::Node { node, becomes: NodeTurn::Ready },
        Target::Gpu(gpu) => Fault::Gpu { gpu, becomes: GpuState::Ready },
    }
}

fn fault(target: Target, becomes: FailedState) -> Fault {
    match (target, becomes) {
        (Target::Node(node), FailedState::Node(becomes)) => Fault::Node { node, becomes },
        (Target::Gpu(gpu), FailedState::Gpu(becomes)) => Fault::Gpu { gpu, becomes },
        (Target::Node(_), FailedState::Gpu(_)) | (Target::Gpu(_), FailedState::Node(_)) => {
            panic!("{target:?} cannot become {becomes:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> SimTime {
        SimTime::from_secs(secs)
    }

    #[test]
    fn a_node_is_well_again_when_all_its_outages_are_over() {
        let node = NodeId::new(0);
        let outage = |from, to, turn| Outage {
            target: Target::Node(node),
            becomes: FailedState::Node(turn),
            from: at(from),
            to: at(to),
        };
        let outages =
            [outage(10, 50, NodeTurn::NotReady), outage(100, 120, NodeTurn::Silent), outage(20, 30, NodeTurn::Crashed)];
        let turn = |secs, becomes| (at(secs), Fault::Node { node, becomes });
        let expected = [
            turn(10, NodeTurn::NotReady),
            turn(20, NodeTurn::Crashed),
            turn(50, NodeTurn::Ready),
            turn(100, NodeTurn::Silent),
            turn(120, NodeTurn::Ready),
        ];
        assert_eq!(as_faults(&outages), expected);
    }

    #[test]
    fn a_subject_has_its_own_draws_and_a_flapping_one_needs_none() {
        let secs = SimDuration::from_secs;
        let subject = |name: &str| Subject { name: name.into(), targets: Vec::new() };
        let mut model = FailureModel {
            name: "nodes".into(),
            up: Lengths::Exponential { mean: secs(1000) },
            down: Lengths::Fixed(secs(10)),
            from: SimTime::ZERO,
            until: at(100_000),
        };
        let a = model.draw(1, &subject("a"), 1000);
        assert_eq!(a, model.draw(1, &subject("a"), 1000));
        assert_ne!(a, model.draw(1, &subject("b"), 1000));
        assert_ne!(a, model.draw(2, &subject("a"), 1000));
        assert_eq!(model.draw(1, &subject("a"), 5), None);
        (model.up, model.until) = (Lengths::Fixed(secs(90)), at(300));
        assert_eq!(
            model.draw(1, &subject("a"), 5),
            Some(vec![(at(90), at(100)), (at(190), at(200)), (at(290), at(300))])
        );
    }
}
