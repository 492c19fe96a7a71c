//! Refusals, kept: what has no ranking (gangs on several nodes, chance) is computed plainly, and once it was refused it is
//! refused again, for the same reasons, until a class has changed that might do. Held against the plain computation as
//! rankings are ([`super::Caching::Paranoid`]).

use super::decide::Decision;
use super::options::SchedulerOptions;
use super::ranking::{fixed, is_by_class};
use super::row::Row;
use dryrack_event::{Histogram, Refusal};
use dryrack_fleet::{Fleet, ShapeGroup};
use dryrack_workload::Demand;

/// By the demand's number.
#[derive(Default)]
pub struct Refusals {
    demands: Vec<Option<Box<Kept>>>,
}

/// Of one demand that was refused the last time it was asked for.
struct Kept {
    /// Nodes that were declared then, and with them all shapes.
    nodes: usize,
    /// Changes of all classes that are taken in.
    read: u64,
    /// For each shape, whether a class of it may ever do.
    may_do: Vec<bool>,
    refusal: Refusal,
    reasons: Histogram,
}

impl Refusals {
    /// The refusal of the demand with this number, if nothing has changed since but classes that never do.
    pub fn still(&mut self, number: u32, fleet: &Fleet) -> Option<Decision> {
        let kept = self.demands.get_mut(number as usize)?.as_mut()?;
        let is_as_then = kept.nodes == fleet.len();
        if !is_as_then || fleet.changed_shapes(kept.read).any(|shape| kept.may_do[shape]) {
            return None;
        }
        kept.read = fleet.all_class_changes();
        Some(Decision::Refuse { refusal: kept.refusal, reasons: kept.reasons.clone() })
    }

    /// Keeps what was computed plainly of the fleet as it is, if it is a refusal for which classes alone count.
    pub fn keep(
        &mut self,
        options: &SchedulerOptions,
        (number, demand): (u32, &Demand),
        fleet: &Fleet,
        decision: &Decision,
    ) {
        let place = number as usize;
        let Decision::Refuse { refusal, reasons } = decision else { return };
        if !is_by_class(demand) {
            return;
        }
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
