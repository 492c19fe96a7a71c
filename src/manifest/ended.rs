//! Objects that are over: pods that have ended, and controllers that are done.

use serde_json::Value;

use crate::read::Object;

/// Whether a pod has ended.
pub fn has_ended(object: &Object) -> bool {
    let phase = object.value.get("status").and_then(|status| status.get("phase")).and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether the conditions say that the work has ended.
pub fn is_done(object: &Object) -> bool {
    let Some(status) = object.value.get("status") else { return false };
    let conditions = status.get("conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    conditions.iter().any(|condition| {
        let kind = condition["type"].as_str().unwrap_or_default();
        condition["status"] == "True" && matches!(kind, "Complete" | "Completed" | "Failed" | "Finished")
    })
}
