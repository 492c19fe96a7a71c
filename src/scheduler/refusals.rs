//! Cached refusals of demands without a ranking, which are gangs on several nodes and random choices. Such a demand is
//! computed plainly. A refusal stays valid until a class changes on which the demand might fit. As for rankings,
//! [`super::Caching::Paranoid`] checks the cache against the plain computation.

use super::decision::Decision;
use super::node_class::NodeClass;
use super::options::SchedulerOptions;
use super::ranking::{by_class, fixed};
use dryrack_event::{Histogram, Refusal};
use dryrack_fleet::{Fleet, ShapeGroup};
use dryrack_workload::Demand;

/// The cached refusals, by the number of the demand.
#[derive(Default)]
pub struct Refusals {
    demands: Vec<Option<Box<LastRefusal>>>,
}

/// The last refusal of one demand.
struct LastRefusal {
    /// The number of declared nodes at that time. If this number is unchanged, all shapes are unchanged too.
    nodes: usize,
    /// How many class changes, over all classes, the refusal already includes.
    read: u64,
    /// For each shape, whether a class of this shape may ever fit.
    may_do: Vec<bool>,
    refusal: Refusal,
    reasons: Histogram,
}

impl Refusals {
    /// The cached refusal of the demand with this number, unless a class on which it might fit has changed since then.
    pub fn still(&mut self, number: u32, fleet: &Fleet) -> Option<Decision> {
        let kept = self.demands.get_mut(number as usize)?.as_mut()?;
        let is_as_then = kept.nodes == fleet.len();
        if !is_as_then || fleet.changed_shapes(kept.read).any(|shape| kept.may_do[shape]) {
            return None;
        }
        kept.read = fleet.all_class_changes();
        Some(Decision::Refuse { refusal: kept.refusal, reasons: kept.reasons.clone() })
    }

    /// Stores a decision that was computed plainly on the current fleet. It is stored only if it is a refusal that
    /// depends on classes alone.
    pub fn keep(
        &mut self,
        options: &SchedulerOptions,
        (number, demand): (u32, &Demand),
        fleet: &Fleet,
        decision: &Decision,
    ) {
        let place = number as usize;
        let Decision::Refuse { refusal, reasons } = decision else { return };
        let Some(demand) = by_class(demand) else { return };
        if self.demands.len() <= place {
            self.demands.resize_with(place + 1, || None);
        }
        let before = self.demands[place].take().filter(|kept| kept.nodes == fleet.len());
        let may_do = before.map(|kept| kept.may_do).unwrap_or_else(|| {
            let may_do = |group: &ShapeGroup| fixed(options, demand, &NodeClass::of_shape(group)).1.is_none();
            fleet.shapes().iter().map(may_do).collect()
        });
        let (nodes, read) = (fleet.len(), fleet.all_class_changes());
        let kept = LastRefusal { nodes, read, may_do, refusal: *refusal, reasons: reasons.clone() };
        self.demands[place] = Some(Box::new(kept));
    }
}
