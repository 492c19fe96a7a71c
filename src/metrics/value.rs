//! The value of a metric, and what defines a metric.

use dryrack_units::{Money, SimDuration};

/// The definition of a metric. The name ends with the unit if the metric has one.
#[derive(Debug, PartialEq, Eq)]
pub struct Definition {
    pub name: &'static str,
    /// The unit: `count`, `s`, `h`, `kWh`, `kg`, `part` (of 1), `ratio`, or `price` (in the currency of the scenario).
    pub counts_in: &'static str,
    pub meaning: &'static str,
    /// The source of the definition. Empty if the definition is obvious or dryrack's own.
    pub source: &'static str,
}

impl Definition {
    /// Whether the metric is a percentile or a maximum within a run.
    pub fn is_extreme(&self) -> bool {
        ["_p50", "_p95", "_p99", "_max", "_most"].iter().any(|part| self.name.contains(part))
    }
}

/// In slowdowns, a shorter run counts as this long (Feitelson 2001 uses the same 10 s).
pub(super) const SLOWDOWN_BOUND: SimDuration = SimDuration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Count(u64),
    Time(SimDuration),
    Ratio(f64),
    Money(Money),
    /// There is no data for the metric. For example, no replica was placed, no GPU was ready, or no node has a price.
    Undefined,
}
