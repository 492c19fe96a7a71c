//! GPUs that a plan counts as equally fast because its scenario states no speeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_engine::Rehearsal;

/// The types of GPUs on which jobs without speeds may run, over the alternatives of a plan.
#[derive(Clone, Debug, Default)]
pub struct EqualSpeeds {
    /// By the types that a task accepts; an empty list accepts any.
    types: BTreeMap<Vec<Arc<str>>, BTreeSet<Arc<str>>>,
}

impl EqualSpeeds {
    /// Adds the nodes and jobs of an alternative.
    pub fn add(&mut self, rehearsal: &Rehearsal) {
        let gpus = rehearsal.nodes.iter().flat_map(|node| &node.spec.shape.gpus);
        let fleet: BTreeSet<&Arc<str>> = gpus.map(|gpu| &gpu.model).collect();
        let mut seen = BTreeSet::new();
        for arrival in rehearsal.arrivals.iter().filter(|arrival| arrival.behavior.run.is_some()) {
            let demand = &arrival.spec.demand;
            // Many jobs share a demand.
            if demand.speeds.is_some() || !seen.insert(Arc::as_ptr(demand)) {
                continue;
            }
            for gpus in demand.kinds_of_tasks().filter_map(|(_, task)| task.gpus.as_ref()) {
                let accepted = fleet.iter().filter(|gpu| gpus.models.is_empty() || gpus.models.contains(**gpu));
                let known = self.types.entry(gpus.models.clone()).or_default();
                known.extend(accepted.map(|gpu| Arc::clone(gpu)));
            }
        }
    }

    /// A sentence if jobs take the same time on different GPUs; begins with a space.
    pub fn sentence(&self) -> Option<String> {
        let several = self.types.values().filter(|types| types.len() > 1);
        let types = Vec::from_iter(several.flatten().map(|gpu| &**gpu).collect::<BTreeSet<&str>>());
        let (last, rest) = types.split_last()?;
        Some(format!(
            " The plan counts {} and {last} as equally fast, because the scenario states no `speed`.",
            rest.join(", ")
        ))
    }
}
