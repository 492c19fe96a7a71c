//! The constraints of a plan, which every alternative is checked against.

use std::sync::Arc;

use super::options::Varying;
use super::seeds;
use dryrack_yaml::{Node, Report, Tree, parse};

/// Reads `constraints` from the plan's text again, as a list in which `in:` is removed.
pub(super) fn constraints(plan: &Varying, report: &mut Report) -> Option<Tree> {
    let source = report.add_source(&*plan.name, Arc::clone(&plan.text));
    let mut tree = parse(&plan.text, source, report)?;
    let Node::Map(entries) = &mut tree.node else { return None };
    let at = entries.iter().position(|entry| entry.key == "constraints")?;
    let mut list = entries.swap_remove(at).value;
    seeds::take_shares(&mut list, true, report);
    Some(list)
}
