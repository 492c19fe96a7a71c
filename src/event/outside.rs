//! Messages and faults of a scheduler in another process.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::output::Refusal;
use super::reason::{Histogram, Reason};
use dryrack_ids::{AttemptId, JobId};

/// A message of a scheduler in another process, or a report of its failure. Its placements are separate
/// ([`External::Decided`](crate::External::Decided)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Outside {
    /// The process has answered for the first time, or again after a restart.
    Joined {
        name: Arc<str>,
        version: Arc<str>,
        /// The parts of a released program that the process replaces with its own code.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stands_in: Vec<StandIn>,
    },
    /// An attempt continues to wait. `reasons` is empty if the scheduler gave none of the known reasons.
    Waits {
        #[serde(rename = "run")]
        attempt: AttemptId,
        reasons: Histogram,
        text: Option<Arc<str>>,
    },
    /// The scheduler stops an attempt. The attempt waits again as its next attempt.
    Preempts {
        #[serde(rename = "run")]
        attempt: AttemptId,
        by: Option<AttemptId>,
        text: Option<Arc<str>>,
    },
    /// The scheduler stops an attempt for good.
    Cancels {
        #[serde(rename = "run")]
        attempt: AttemptId,
        because: Reason,
        text: Option<Arc<str>>,
    },
    /// The scheduler stops all attempts of a job for good.
    CancelsJob { job: JobId, text: Option<Arc<str>> },
    /// The scheduler answers a query of the scenario. If `refusal` is `None`, the demand fits.
    Answers { name: Arc<str>, refusal: Option<Refusal>, reasons: Histogram, text: Option<Arc<str>> },
    /// One decision of the scheduler cannot be carried out. The attempt continues without it.
    Mistaken {
        fault: OutsideFault,
        #[serde(rename = "run")]
        attempt: Option<AttemptId>,
        text: Arc<str>,
    },
    /// The process cannot continue. If `restarted` is true, a new process takes over; otherwise the run ends here.
    Failed { fault: OutsideFault, text: Arc<str>, restarted: bool },
}

/// A part of a released program that the process replaces with its own code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandIn {
    pub name: Arc<str>,
    /// The name of the replaced part.
    #[serde(rename = "for")]
    pub replaces: Arc<str>,
    /// The source of the replacement's value.
    pub from: Arc<str>,
}

impl Outside {
    /// The job that the message is about, if any.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Outside::Waits { attempt, .. } | Outside::Preempts { attempt, .. } | Outside::Cancels { attempt, .. } => {
                Some(attempt.job)
            }
            Outside::CancelsJob { job, .. } => Some(*job),
            Outside::Mistaken { attempt, .. } => attempt.map(|attempt| attempt.job),
            Outside::Joined { .. } | Outside::Answers { .. } | Outside::Failed { .. } => None,
        }
    }
}

macro_rules! faults {
    ($($variant:ident => $name:literal, $is_fatal:literal, $text:literal;)*) => {
        /// A fault of a scheduler in another process.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum OutsideFault {
            $(#[serde(rename = $name)] $variant,)*
        }

        impl OutsideFault {
            pub const ALL: &'static [OutsideFault] = &[$(OutsideFault::$variant,)*];

            /// The name of the fault in logs and in the protocol.
            pub fn name(self) -> &'static str {
                match self { $(OutsideFault::$variant => $name,)* }
            }

            /// Whether the process can no longer be used after this fault.
            pub fn is_fatal(self) -> bool {
                match self { $(OutsideFault::$variant => $is_fatal,)* }
            }

            /// A text that continues a sentence after the program's name.
            pub fn text(self) -> &'static str {
                match self { $(OutsideFault::$variant => $text,)* }
            }
        }
    };
}

faults! {
    UnknownRun => "unknown_run", false, "names an unknown run";
    UnknownJob => "unknown_job", false, "names an unknown job";
    UnknownNode => "unknown_node", false, "names an unknown node";
    UnknownGpu => "unknown_gpu", false, "names a GPU that its node does not have";
    UnknownBlock => "unknown_block", false, "names a block that its node does not have";
    UnknownReason => "unknown_reason", false, "gives an unknown reason";
    DecidedTwice => "decided_twice", false, "decides twice about one run in one answer";
    Misshapen => "misshapen", false, "gives a place that does not match the request";
    InThePast => "in_the_past", false, "asks to be called again at a time in the past";
    NotStarted => "not_started", true, "could not be started";
    WrongProtocol => "wrong_protocol", true, "speaks another version of the protocol";
    DeadlineMissed => "deadline_missed", true, "did not answer in time";
    HalfLine => "half_line", true, "stopped in the middle of a line";
    NotJson => "not_json", true, "wrote a line that is not JSON";
    NotAMessage => "not_a_message", true, "wrote a line that is not a message of the protocol";
    WrongId => "wrong_id", true, "answered a question that was not asked";
    RepeatedId => "repeated_id", true, "answered a question a second time";
    Flood => "flood", true, "wrote more than an answer can hold";
    Standstill => "standstill", true, "was asked again and again without progress";
    ProcessDied => "process_died", true, "died";
    GivenUp => "given_up", true, "gave up";
    SelectorIgnored => "selector_ignored", true, "bound a pod to a node that its selector excludes";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_the_name_that_logs_give_it() {
        for fault in OutsideFault::ALL {
            assert_eq!(serde_json::to_value(fault).expect("plain data"), fault.name());
        }
    }
}
