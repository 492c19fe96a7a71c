//! The answer of a filter, and what a filter reads.

use dryrack_event::Reason;

/// A filter's answer for one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fit,
    /// These nodes do not fit now.
    Unfit(Reason),
    /// These nodes will never fit this demand.
    Never(Reason),
}

impl Verdict {
    pub fn is_fit(self) -> bool {
        self == Verdict::Fit
    }

    pub fn reason(self) -> Option<Reason> {
        match self {
            Verdict::Fit => None,
            Verdict::Unfit(reason) | Verdict::Never(reason) => Some(reason),
        }
    }
}

/// The properties of a node that a filter reads, besides the demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Only whether the node is picked. If there is no pick, every node passes.
    Pick,
    /// Only properties that never change. One answer is valid for all nodes of a shape as long as they exist.
    Shape,
    /// Properties that change with time.
    State,
}
