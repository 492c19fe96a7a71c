//! When synthetic jobs come: from `arrivals:` of a job to instants.

use super::diagnostic::Report;
use super::fields::{Fields, value};
use super::lengths::{Rate, positive};
use super::tree::{Entry, Node, Tree};
use crate::units::{Permille, SimDuration};
use crate::workload::{Arrivals, Spell};

const KINDS: [&str; 4] = ["every", "poisson", "bursty", "daily"];

/// `{poisson: 10/h}`, `{every: 5m}`, `{bursty: …}` or `{daily: …}`.
pub(super) fn arrivals(tree: &Tree, report: &mut Report) -> Option<Arrivals> {
    let entries = match &tree.node {
        Node::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    let [Entry { key, key_span, value: inner, .. }] = entries else {
        let help = "write `{poisson: 10/h}`, `{every: 5m}`, `{bursty: …}` or `{daily: …}`";
        report.error_with_help(tree.span, "expected one kind of arrivals", help);
        return None;
    };
    match key.as_str() {
        "every" => positive(inner, report).map(Arrivals::Every),
        "poisson" => some(inner, report).map(|gap| Arrivals::Poisson { gap }),
        "bursty" => {
            let known = ["quiet", "quiet_for", "busy", "busy_for"];
            let fields = Fields::read(inner, "bursty arrivals", &known, report)?;
            let examples = ["2/h", "2h", "40/h", "20m"];
            let found: Vec<Option<&Tree>> =
                known.iter().zip(examples).map(|(key, example)| fields.require(key, example, report)).collect();
            let [quiet, quiet_for, busy, busy_for] = found[..] else { return None };
            let mut spell = |rate: Option<&Tree>, lasts: Option<&Tree>| {
                let gap = rate.and_then(|tree| value::<Rate>(tree, report));
                let lasts = lasts.and_then(|tree| positive(tree, report));
                Some(Spell { gap: gap?.0, lasts: lasts? })
            };
            let (quiet, busy) = (spell(quiet, quiet_for), spell(busy, busy_for));
            Some(Arrivals::Bursty { quiet: quiet?, busy: busy? })
        }
        "daily" => {
            let fields = Fields::read(inner, "daily arrivals", &["mean", "peak", "swing"], report)?;
            let mean = fields.require("mean", "10/h", report);
            let gap = mean.and_then(|tree| some(tree, report));
            let peak = fields.value::<SimDuration>("peak", report).unwrap_or(SimDuration::from_secs(14 * 3600));
            if peak >= SimDuration::from_secs(86_400) {
                let help = "write a time of day such as 14h";
                report.error_with_help(fields.key_span("peak"), "the peak lies within a day", help);
            }
            let swing = fields.value::<Permille>("swing", report).unwrap_or(Permille::new(500));
            if swing > Permille::new(1000) {
                let message = format!("a swing of {swing} would make the rate negative");
                report.error_with_help(fields.key_span("swing"), message, "write 100% or less");
                return None;
            }
            Some(Arrivals::Daily { gap: gap?, peak, swing })
        }
        other => {
            report.unknown(*key_span, format!("`{other}` is not a kind of arrivals"), other, KINDS.into_iter());
            None
        }
    }
}

/// A rate that is not nothing.
fn some(tree: &Tree, report: &mut Report) -> Option<SimDuration> {
    let Rate(gap) = value(tree, report)?;
    if gap == SimDuration::MAX {
        report.error_with_help(tree.span, "nothing ever comes at this rate", "write a rate such as 10/h");
        return None;
    }
    Some(gap)
}
