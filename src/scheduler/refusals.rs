//! Cached refusals. A demand without a ranking (a gang on several nodes, or a random choice) is computed plainly. Once
//! refused, it is refused again for the same reasons until a class changes that might fit it. Like rankings, this is
//! checked against the plain computation ([`super::Caching::Paranoid`]).

use super::decide::Decision;
use super::options::SchedulerOptions;
use super::ranking::{by_class, fixed};
use super::row::Row;
use dryrack_event::{Histogram, Refusal};
use dryrack_fleet::{Fleet, ShapeGroup};
use dryrack_workload::Demand;

/// Refusals by the demand's number.
#[derive(Default)]
pub struct Refusals {
    demands: Vec<Option<Box<Kept>>>,
}

/// The refusal of one demand when it was last decided.
struct Kept {
    /// The number of nodes declared then. As long as it is the same, so are all shapes.
    nodes: usize,
    /// How many class changes are taken into account, over all classes.
    read: u64,
    /// For each shape, whether a class of it may ever fit.
    may_do: Vec<bool>,
    refusal: Refusal,
    reasons: Histogram,
}

impl Refusals {
    /// The refusal of the demand with this number, if since then only classes have changed that never fit.
    pub fn still(&mut self, number: u32, fleet: &Fleet) -> Option<Decision> {
        let kept = self.demands.get_mut(number as usize)?.as_mut()?;
        let is_as_then = kept.nodes == fleet.len();
        if !is_as_then || fleet.changed_shapes(kept.read).any(|shape| kept.may_do[shape]) {
            return None;
        }
        kept.read = fleet.all_class_changes();
        Some(Decision::Refuse { refusal: kept.refusal, reasons: kept.reasons.clone() })
    }

    /// Keeps a decision that was computed plainly for the fleet as it is, if it is a refusal that depends on classes
    /// alone.
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
            let may_do = |group: &ShapeGroup| fixed(options, demand, &Row::of_shape(group)).1.is_none();
            fleet.shapes().iter().map(may_do).collect()
        });
        let (nodes, read) = (fleet.len(), fleet.all_class_changes());
        let kept = Kept { nodes, read, may_do, refusal: *refusal, reasons: reasons.clone() };
        self.demands[place] = Some(Box::new(kept));
    }
}
