//! Objects of older versions of the API, in the form of the current version.

use serde_json::{Map, Value};

use dryrack_yaml::{Node, Report, Tree};

use crate::kinds::Kind;
use crate::read::Object;

/// The versions of devices and claims whose form is older than that of `v1`.
const OLDER: [&str; 2] = ["resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3"];

/// The fields of an exact request, which older versions have in the request itself.
const EXACT: [&str; 5] = ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess"];

/// Reports the fields of requests and of devices that another version of the API has. The API server would refuse or drop
/// them.
pub fn check(kind: Kind, api_version: &str, tree: &Tree, report: &mut Report) {
    let is_older = OLDER.contains(&api_version);
    let (path, what, newer, older): (&[&str], _, &[&str], &[&str]) = match kind {
        Kind::Claim => (&["spec", "devices", "requests"], "a request", &["exactly"], &EXACT),
        Kind::ClaimTemplate => (&["spec", "spec", "devices", "requests"], "a request", &["exactly"], &EXACT),
        Kind::Slice => (&["spec", "devices"], "a device", &["attributes", "capacity"], &["basic"]),
        _ => return,
    };
    let Some(Node::List(items)) = path.iter().try_fold(tree, |tree, key| tree.get(key)).map(|list| &list.node) else {
        return;
    };
    let (foreign, of) = match is_older {
        true => (newer, "resource.k8s.io/v1beta2 and v1"),
        false => (older, "resource.k8s.io/v1beta1 and earlier"),
    };
    let help = match (kind, is_older) {
        (Kind::Slice, true) => "write it below `basic:`, or `apiVersion: resource.k8s.io/v1`",
        (Kind::Slice, false) => "write what is below it in the device itself, or `apiVersion: resource.k8s.io/v1beta1`",
        (_, true) => "write what is below it in the request itself, or `apiVersion: resource.k8s.io/v1`",
        (_, false) => "write it below `exactly:`, or `apiVersion: resource.k8s.io/v1beta1`",
    };
    for item in items {
        let Node::Map(entries) = &item.node else { continue };
        let found = entries.iter().find(|entry| foreign.contains(&entry.key.as_str()) && !entry.value.is_nothing());
        if let Some(entry) = found {
            let message = format!("unknown field `{}` of {what} in `{api_version}`: it is a field of {of}", entry.key);
            report.error_with_help(entry.key_span, message, help);
        }
    }
}

/// Changes the object to the form of the current version.
pub fn to_current(object: &mut Object) {
    if !OLDER.contains(&object.api_version.as_str()) {
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
