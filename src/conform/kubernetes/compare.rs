//! Compares a recorded attempt with the attempt that was computed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use super::record::{Preempting, Refused, Step};
use crate::Difference;

/// Each part of the attempt that differs.
pub fn differences(recorded: &Step, found: &Step) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut add = |difference: Option<Difference>| differences.extend(difference);
    add(differs("outcome", &recorded.outcome, &found.outcome));
    add(differs("gate", &recorded.gate, &found.gate));
    add(differs("refusal on all nodes", &recorded.prefilter, &found.prefilter));
    add(differs("nodes that are looked at", &recorded.prefilter_nodes, &found.prefilter_nodes));
    add(differs("nomination before the attempt", &recorded.nominated, &found.nominated));
    add(differs("only the nominated node", &recorded.via_nominated, &found.via_nominated));
    add(differs("refusal of a node", &sets(&recorded.rejected), &sets(&found.rejected)));
    // A record of a plugin that failed need not have the nodes that fitted before.
    if recorded.outcome != "error" || !recorded.feasible.is_empty() {
        add(differs("feasible nodes", &recorded.feasible, &found.feasible));
    }
    add(differs("scores", &by_plugin(recorded), &by_plugin(found)));
    add(differs("total scores", &recorded.total, &found.total));
    add(differs("best nodes", &recorded.tied, &found.tied));
    add(differs("chosen node", &recorded.node, &found.node));
    add(differs("allocated devices", &recorded.allocations, &found.allocations));
    add(differs("pods released", &recorded.released, &found.released));
    add(differs("refusal after the choice", &recorded.reserve, &found.reserve));
    add(differs("message", &recorded.message, &found.message));
    let none = Preempting::default();
    let recorded = recorded.preemption.as_ref().unwrap_or(&none);
    let found = found.preemption.as_ref().unwrap_or(&none);
    add(differs("candidates of preemption", &recorded.candidates, &found.candidates));
    add(differs("nodes where preemption fails", &sets(&recorded.failed), &sets(&found.failed)));
    add(differs("best candidates", &recorded.tied, &found.tied));
    add(differs("nominated node", &recorded.node, &found.node));
    add(differs("victims", &recorded.victims, &found.victims));
    add(differs("nominations withdrawn", &recorded.cleared_nominations, &found.cleared_nominations));
    differences
}

fn differs<T: PartialEq + Debug>(kind: &'static str, recorded: &T, found: &T) -> Option<Difference> {
    (recorded != found).then(|| Difference { kind, text: format!("recorded: {recorded:?}; found: {found:?}") })
}

type AsSets<'s> = BTreeMap<&'s str, (&'s str, &'s str, BTreeSet<&'s str>)>;

/// The reasons as sets: upstream lists shortages of extended resources in an arbitrary order.
fn sets<'s>(refused: &'s BTreeMap<std::sync::Arc<str>, Refused>) -> AsSets<'s> {
    let set = |refused: &'s Refused| {
        let reasons = refused.reasons.iter().map(String::as_str).collect();
        (refused.plugin.as_str(), refused.code.as_str(), reasons)
    };
    refused.iter().map(|(node, refused)| (&**node, set(refused))).collect()
}

/// The scores by plugin and node, independent of the order of the columns.
fn by_plugin(step: &Step) -> BTreeMap<(&str, &str), i64> {
    let mut scores = BTreeMap::new();
    for (node, own) in &step.scores {
        for (plugin, score) in step.score_plugins.iter().zip(own) {
            scores.insert((plugin.as_str(), &**node), *score);
        }
    }
    scores
}
