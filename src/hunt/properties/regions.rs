//! The nodes of a gang on a cluster must be in one region.

use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, is_placed, stage};

pub struct OneRegion;

impl Property for OneRegion {
    fn name(&self) -> &'static str {
        "region"
    }

    fn rule(&self) -> &'static str {
        "The cloud instances of one run lie in one region"
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let observed = &case.observed;
        let mut breaches = Vec::new();
        for placed in &observed.placements {
            let region = |node: usize| observed.nodes[node].region.clone();
            let Some(first) = placed.parts.first() else { continue };
            let is_elsewhere = |node: usize| region(node).is_some() && region(node) != region(first.node);
            if region(first.node).is_none() {
                continue;
            }
            let Some(stray) = placed.parts.iter().find(|part| is_elsewhere(part.node)) else {
                continue;
            };
            let (job, own) = (observed.name(placed.job), region(first.node).unwrap_or_default());
            let other = region(stray.node).unwrap_or_default();
            breaches.push(Breach {
                property: self.name(),
                manner: stage(observed, placed.job),
                account: format!(
                    "The nodes of `{job}` lie in two regions: {} in {own}, and {} in {other}.",
                    first.name, stray.name
                ),
                shown_in: None,
                expects: vec![Expected::new("together", format!("job: {job}, never: placed, on: {}", stray.name))],
                witness: vec![
                    format!("{}, on: {}, replicas: 1", is_placed(observed, job), first.name),
                    format!("{}, on: {}, replicas: 1", is_placed(observed, job), stray.name),
                ],
            });
        }
        breaches
    }
}
