//! The decisions of a scheduler in another process that could not be read as decisions.

use std::collections::BTreeMap;

use dryrack_event::{External, Input, Outside, OutsideFault};
use dryrack_ids::{AttemptId, Names};
use dryrack_units::{SimTime, counted, printable};

/// Counts the decisions of a scheduler in another process that could not be read as decisions, for example because they
/// name an unknown node.
#[derive(Default)]
pub struct RefusedDecisions {
    counts: BTreeMap<OutsideFault, u64>,
    first: Option<(SimTime, Option<AttemptId>, String)>,
}

impl RefusedDecisions {
    pub(crate) fn input(&mut self, at: SimTime, input: &Input) {
        let Input::External(External::Said(Outside::Mistaken { fault, attempt, text })) = input else { return };
        *self.counts.entry(*fault).or_default() += 1;
        self.first.get_or_insert_with(|| (at, *attempt, text.to_string()));
    }

    /// A text such as `3 decisions (unknown_node 2, misshapen 1); first at 10s, a/0/1: decision 0: no node is named x`.
    /// `None` if none was refused.
    pub fn sentence(&self, names: &Names) -> Option<String> {
        let (at, attempt, text) = self.first.as_ref()?;
        let faults: Vec<String> =
            self.counts.iter().map(|(fault, count)| format!("{} {count}", fault.name())).collect();
        let count = self.counts.values().sum::<u64>();
        let of = attempt.map_or(String::new(), |attempt| format!(", {}", names.attempt(attempt)));
        let decisions = counted(usize::try_from(count).unwrap_or(usize::MAX), "decision");
        Some(format!("{decisions} ({}); first at {at}{of}: {text}", faults.join(", "), text = printable(text)))
    }
}
