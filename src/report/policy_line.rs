//! What is said of utilization policies, as a line of a log shows it.

use crate::event::Event;
use crate::units::{Permille, SimDuration};
use crate::workload::{Coverage, IdleGpus, PolicyMode, PolicySource};

/// The detail of an event about a policy; `None` of any other.
pub(super) fn policy_detail(event: &Event) -> Option<(&'static str, String)> {
    match event {
        Event::PolicyBound { source, values, .. } => {
            let source = match source {
                PolicySource::Profile => "of its profile",
                PolicySource::Configuration => "of its configuration",
            };
            let follows = match values.mode {
                PolicyMode::Observe => "said",
                PolicyMode::Warn => "warned of",
                PolicyMode::Enforce => "ended",
            };
            let gpus = match values.gpus {
                IdleGpus::Any => "any GPU",
                IdleGpus::All => "all GPUs",
            };
            let (minimum, window) = (values.min_gpu_utilization, values.time_window);
            Some(("policy bound", format!("{follows} if {gpus} below {minimum} for {window}; {source}")))
        }
        Event::PolicyFired { min_gpu_utilization, time_window, covered, .. } => {
            Some(("policy fired", covered_text(*min_gpu_utilization, *time_window, covered)))
        }
        Event::PolicyWarned { min_gpu_utilization, time_window, covered, .. } => {
            Some(("policy warned", covered_text(*min_gpu_utilization, *time_window, covered)))
        }
        Event::SampleOdd { at, fault, .. } => Some(("sample odd", format!("{}, of {at}", fault.name()))),
        _ => None,
    }
}

/// `GPU 1 below 30% for 10m: 61 samples from 5m to 15m`
pub fn covered_text(minimum: Permille, window: SimDuration, covered: &Coverage) -> String {
    let gpus: Vec<String> = covered.gpus.iter().map(u16::to_string).collect();
    let noun = if gpus.len() == 1 { "GPU" } else { "GPUs" };
    let Coverage { first, last, samples, .. } = covered;
    format!("{noun} {} below {minimum} for {window}: {samples} samples from {first} to {last}", gpus.join(", "))
}
