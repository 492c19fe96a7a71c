//! The text of log lines about utilization policies.

use dryrack_event::Event;
use dryrack_units::{Permille, SimDuration};
use dryrack_workload::{AtMinimum, Coverage, IdleGpus, PolicyMode, PolicySource};

/// The keyword and detail of an event about a policy; `None` for any other event.
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
            let idle = idle_text(minimum, values.at_minimum);
            Some(("policy bound", format!("{follows} if {gpus} {idle} for {window}; {source}")))
        }
        Event::PolicyFired { min_gpu_utilization, time_window, covered, .. } => {
            Some(("policy fired", covered_text(&fired_text(*min_gpu_utilization), *time_window, covered)))
        }
        Event::PolicyWarned { min_gpu_utilization, time_window, covered, .. } => {
            Some(("policy warned", covered_text(&fired_text(*min_gpu_utilization), *time_window, covered)))
        }
        Event::SampleOdd { at, fault, .. } => Some(("sample odd", format!("{}, of {at}", fault.name()))),
        _ => None,
    }
}

/// The condition in words: `below 30%`, or `at 30% or below` if the minimum itself counts as idle.
pub fn idle_text(minimum: Permille, at_minimum: AtMinimum) -> String {
    match at_minimum {
        AtMinimum::Busy => format!("below {minimum}"),
        AtMinimum::Idle if minimum == Permille::ZERO => format!("at {minimum}"),
        AtMinimum::Idle => format!("at {minimum} or below"),
    }
}

/// The condition in the text of an event, which does not state whether the minimum itself counts as idle. With a
/// minimum of 0% it must count, because nothing is below 0%.
fn fired_text(minimum: Permille) -> String {
    idle_text(minimum, if minimum == Permille::ZERO { AtMinimum::Idle } else { AtMinimum::Busy })
}

/// Text such as `GPU 1 below 30% for 10m: 61 samples from 5m to 15m`.
pub fn covered_text(idle: &str, window: SimDuration, covered: &Coverage) -> String {
    let gpus: Vec<String> = covered.gpus.iter().map(u16::to_string).collect();
    let noun = if gpus.len() == 1 { "GPU" } else { "GPUs" };
    format!("{noun} {} {}", gpus.join(", "), covered_alone_text(idle, window, covered))
}

/// The same text for a single GPU, without its number: `below 30% for 10m: 61 samples from 5m to 15m`.
pub fn covered_alone_text(idle: &str, window: SimDuration, covered: &Coverage) -> String {
    let Coverage { first, last, samples, .. } = covered;
    format!("{idle} for {window}: {samples} samples from {first} to {last}")
}
