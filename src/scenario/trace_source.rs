//! Workloads and fleets that come from a trace.

use super::diagnostic::Report;
use super::fields::Fields;
use super::jobs::Draft;
use super::world::World;

/// Where traces are looked for.
pub type Roots = ();

/// The trace that a scenario uses.
#[derive(Clone, Debug)]
pub struct TraceUse {
    pub name: String,
}

pub(super) fn read(
    file: &Fields<'_>,
    _roots: &Roots,
    _world: &mut World,
    _drafts: &mut Vec<Draft>,
    report: &mut Report,
) -> Option<TraceUse> {
    let tree = file.get("trace")?;
    report.error(tree.span, "traces are not read yet");
    None
}
