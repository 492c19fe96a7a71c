//! Objects that are over or will be soon: pods that have ended, controllers that are done, and what is being deleted.

use serde_json::Value;

use dryrack_units::SimDuration;

use crate::api::Seconds;
use crate::read::Object;

/// When the grace period of an object that is being deleted ends.
pub fn deleted(object: &Object) -> Option<Seconds> {
    let text = object.value.get("metadata")?.get("deletionTimestamp")?.as_str()?;
    Seconds::parse(text).ok()
}

/// When the deletion of an object was asked for.
pub fn deletion_began(object: &Object) -> Option<Seconds> {
    let grace = object.value.get("metadata").and_then(|metadata| metadata.get("deletionGracePeriodSeconds"));
    let grace = grace.and_then(Value::as_i64).unwrap_or(0).max(0);
    Some(Seconds(deleted(object)?.0.saturating_sub(grace).max(0)))
}

/// How long the grace period of an object lasts that ends at `deleted`, if the run begins at `latest`.
pub fn grace_left(deleted: Seconds, latest: Option<Seconds>) -> SimDuration {
    let seconds = latest.map_or(0, |latest| deleted.0.saturating_sub(latest.0));
    SimDuration::saturating_from_secs(u64::try_from(seconds).unwrap_or(0)).max(LEFT)
}

/// The time that is left of what should have ended before the run begins.
pub const LEFT: SimDuration = SimDuration::from_secs(1);

/// Whether a pod is on a node. Without one, a pod that is deleted is gone at once.
pub fn is_bound(object: &Object) -> bool {
    object.value.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str).is_some()
}

/// Whether a pod has ended.
pub fn has_ended(object: &Object) -> bool {
    let phase = object.value.get("status").and_then(|status| status.get("phase")).and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether the conditions say that the work has ended. A Job that is about to fail or to succeed makes no more pods
/// (`finishedCondition` in pkg/controller/job/job_controller.go).
pub fn is_done(object: &Object) -> bool {
    let Some(status) = object.value.get("status") else { return false };
    let conditions = status.get("conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    conditions.iter().any(|condition| {
        let kind = condition["type"].as_str().unwrap_or_default();
        condition["status"] == "True"
            && matches!(kind, "Complete" | "Completed" | "Failed" | "Finished" | "FailureTarget" | "SuccessCriteriaMet")
    })
}
