//! `blocks` of an expectation: how many blocks of a node the job holds.

use super::expectation_words::comparison;
use super::world::World;
use dryrack_expect::{BlockCount, Comparison};
use dryrack_ids::NodeId;
use dryrack_yaml::{Fields, Report, Tree};

/// Reads `blocks`, which counts blocks of the node that `on` names.
pub(super) fn read(fields: &Fields<'_>, on: Option<NodeId>, world: &World, report: &mut Report) -> Option<BlockCount> {
    let tree = fields.get("blocks")?;
    if !fields.has("on") {
        report.error_with_help(
            fields.key_span("blocks"),
            "`blocks` needs the node that it counts on",
            "add the node: `on: NODE`",
        );
        return None;
    }
    let count = match tree.scalar() {
        Some("all") => BlockCount::All,
        _ => BlockCount::Some(comparison(tree, report)?),
    };
    let shape = &world.nodes[on?.index()].spec.shape;
    let name = fields.get("on").and_then(Tree::scalar).unwrap_or("the node");
    let (message, help) = match shape.instance.as_ref().map(|instance| instance.total_blocks) {
        Some(Some(total)) => {
            check_count(tree, (name, total), count, report);
            return Some(count);
        }
        Some(None) => ("cannot be split as its fleet requires", "change `blocks` of its fleet"),
        None => ("is not an instance of a fleet", "leave `blocks` out, or name an instance of `fleets`"),
    };
    report.error_with_help(fields.key_span("blocks"), format!("`{name}` {message}, so it has no blocks"), help);
    None
}

/// Checks that a job on the node could hold this many blocks.
fn check_count(tree: &Tree, (name, total): (&str, u32), count: BlockCount, report: &mut Report) {
    let wanted = match count {
        BlockCount::All => return,
        BlockCount::Some(Comparison::Exactly(wanted) | Comparison::AtLeast(wanted) | Comparison::AtMost(wanted)) => {
            wanted
        }
    };
    if wanted == 0 || wanted > u64::from(total) {
        let blocks = if total == 1 { "block" } else { "blocks" };
        let message = format!("`{name}` has {total} {blocks}, so a job there cannot hold {wanted}");
        report.error_with_help(tree.span, message, format!("write a number from 1 to {total}, or `all`"));
    }
}
