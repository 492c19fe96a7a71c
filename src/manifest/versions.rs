//! Objects of older versions of the API, in the form of the current version.

use serde_json::{Map, Value};

use crate::kinds::Kind;
use crate::read::Object;

/// Changes the object to the form of the current version.
pub fn to_current(object: &mut Object) {
    let is_older = ["resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3"].contains(&object.api_version.as_str());
    if !is_older {
        return;
    }
    object.api_version = "resource.k8s.io/v1".to_string();
    let mut devices = match object.kind {
        Kind::Claim => path(&mut object.value, &["spec", "devices", "requests"]),
        Kind::ClaimTemplate => path(&mut object.value, &["spec", "spec", "devices", "requests"]),
        Kind::Slice => path(&mut object.value, &["spec", "devices"]),
        _ => None,
    };
    for item in devices.as_mut().and_then(|list| list.as_array_mut()).into_iter().flatten() {
        let Value::Object(item) = item else { continue };
        match object.kind {
            Kind::Slice => lift(item),
            _ => wrap(item),
        }
    }
}

fn path<'v>(object: &'v mut Map<String, Value>, keys: &[&str]) -> Option<&'v mut Value> {
    let (first, rest) = keys.split_first()?;
    rest.iter().try_fold(object.get_mut(*first)?, |value, key| value.get_mut(*key))
}

/// The fields of an exact request move below `exactly`.
fn wrap(request: &mut Map<String, Value>) {
    const EXACT: [&str; 5] = ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess"];
    if !request.contains_key("deviceClassName") {
        return;
    }
    let fields = EXACT.iter().filter_map(|key| Some((key.to_string(), request.shift_remove(*key)?)));
    let exact: Map<String, Value> = fields.collect();
    request.insert("exactly".to_string(), Value::Object(exact));
}

/// The fields of `basic` move one level up.
fn lift(device: &mut Map<String, Value>) {
    if let Some(Value::Object(basic)) = device.shift_remove("basic") {
        device.extend(basic);
    }
}
