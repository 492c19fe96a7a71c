//! How the nodes of a run start, end and retry together: reads `startup_order:`, `stop_criteria:` and `retry: {on:
//! ...}`.

use dryrack_units::SimDuration;
use dryrack_workload::{EventRetry, IdleLimit, RetryEvent, RunTerms, StartupOrder, StopCriteria};
use dryrack_yaml::{Fields, Node, Report, Tree, text, value};

const STARTUP_ORDERS: [(&str, StartupOrder); 3] = [
    ("any", StartupOrder::Any),
    ("master_first", StartupOrder::MasterFirst),
    ("workers_first", StartupOrder::WorkersFirst),
];
const STOP_CRITERIA: [(&str, StopCriteria); 2] =
    [("all_done", StopCriteria::AllDone), ("master_done", StopCriteria::MasterDone)];

/// How long a run is retried if it states no time. This is dstack's default since 0.18 (`retry.duration`).
const DURATION: SimDuration = SimDuration::from_secs(3600);

pub(super) fn read(fields: &Fields<'_>, report: &mut Report) -> RunTerms {
    RunTerms {
        retry: fields.get("retry").and_then(|tree| retry(tree, report)),
        startup: fields.word("startup_order", "a startup order", &STARTUP_ORDERS, report).unwrap_or_default(),
        stop: fields.word("stop_criteria", "stop criteria", &STOP_CRITERIA, report).unwrap_or_default(),
        idle: fields.get("idle_duration").and_then(|tree| idle_limit(tree, report)),
    }
}

/// Reads `10m` or `off`.
pub(super) fn idle_limit(tree: &Tree, report: &mut Report) -> Option<IdleLimit> {
    match tree.scalar() {
        Some("off" | "-1" | "false") => Some(IdleLimit::Off),
        _ => value::<SimDuration>(tree, report).map(IdleLimit::After),
    }
}

/// Whether a retry policy names events instead of a number of attempts.
pub(super) fn is_of_events(fields: &Fields<'_>) -> bool {
    fields.has("on") || fields.has("for")
}

/// Reads `{on: [no_capacity, interruption], for: 2h}`. Without `on`, every event leads to a retry.
fn retry(tree: &Tree, report: &mut Report) -> Option<EventRetry> {
    // The other fields are read elsewhere, which also reports their errors.
    let fields = Fields::read(tree, "a retry policy", &RETRY_FIELDS, &mut Report::default())?;
    if !is_of_events(&fields) {
        return None;
    }
    let on = match fields.get("on") {
        None => RetryEvent::ALL.to_vec(),
        Some(Tree { node: Node::List(items), .. }) => items.iter().filter_map(|item| event(item, report)).collect(),
        Some(other) => event(other, report).into_iter().collect(),
    };
    let mut on: Vec<RetryEvent> = on;
    on.sort_unstable();
    on.dedup();
    Some(EventRetry { on, duration: fields.value("for", report).unwrap_or(DURATION) })
}

fn event(tree: &Tree, report: &mut Report) -> Option<RetryEvent> {
    let typed = text(tree, "an event such as no_capacity", report)?;
    let found = RetryEvent::ALL.into_iter().find(|event| event.name() == typed);
    if found.is_none() {
        let message = format!("`{typed}` is not an event after which a run can be tried again");
        report.unknown(tree.span, message, typed, RetryEvent::ALL.iter().map(|event| event.name()));
    }
    found
}

/// Fields of a retry policy. It is either about a number of attempts or about events.
pub(super) const RETRY_FIELDS: [&str; 6] = ["limit", "first", "factor", "max", "on", "for"];
