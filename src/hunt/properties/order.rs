//! Whether a job fits must not depend on the order in which nodes, or the GPUs of a node, are listed.

use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, is_placed, stage};

pub struct Order;

impl Property for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn rule(&self) -> &'static str {
        "Whether a lone job is placed does not depend on the order in which nodes and GPUs are listed"
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let mut breaches = Vec::new();
        let names: Vec<String> = (0..case.observed.jobs.len()).map(|job| case.observed.name(job).to_string()).collect();
        for name in &names {
            let alone = case.world.with_jobs(|other| other == name).without_faults();
            let is_picked = alone.of_job(name, "gpus").is_some();
            let gpus = alone.with_gpus_reversed().filter(|_| !is_picked).map(|world| (world, "the GPUs of a node"));
            for (other, what) in [Some((alone.with_nodes_reversed(), "the nodes")), gpus].into_iter().flatten() {
                let (Some(one), Some(two)) = (case.observe(&alone), case.observe(&other)) else { continue };
                let (Some(first), Some(second)) = (one.find(name), two.find(name)) else { continue };
                let is_safe = one.is_safe(first) && two.is_safe(second);
                if one.is_placed(first) == two.is_placed(second) || !is_safe || one.jobs[first].is_cancelled {
                    continue;
                }
                let (world, placed) =
                    if one.is_placed(first) { (&other, one.of(first)) } else { (&alone, two.of(second)) };
                let there = placed.map(|placed| placed.text()).next().unwrap_or_default();
                breaches.push(Breach {
                    property: self.name(),
                    manner: format!("{}, {what}", stage(&one, first)),
                    account: format!(
                        "`{name}` is not placed as a whole. With {what} listed in the opposite order it is placed on {there}."
                    ),
                    shown_in: Some(world.text()),
                    expects: vec![Expected::new("placed", is_placed(&one, name))],
                    witness: vec![format!("job: {name}, is: pending")],
                });
            }
        }
        breaches
    }
}
