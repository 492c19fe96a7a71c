//! The resources of containers and nodes.

use dryrack_yaml::{Report, Tree};

use super::map;
use crate::api::Quantity;

/// The requests and limits of a container.
pub fn resources(tree: &Tree, report: &mut Report) {
    for list in ["requests", "limits"] {
        for (name, key, amount) in map(tree, list) {
            if !is_resource(name) {
                let message = format!("`{name}` is not a resource of containers");
                let help = "write cpu, memory, ephemeral-storage, or a name with a domain such as nvidia.com/gpu";
                report.error_with_help(key, message, help);
            } else if is_extended(name) && parsed(amount).is_some_and(|amount| amount.milli_value() % 1000 != 0) {
                let typed = amount.scalar().unwrap_or_default();
                let message = format!("`{name}` must be an integer, found `{typed}`");
                report.error_with_help(amount.span, message, "write a whole number");
            }
        }
    }
    for (name, key, request) in map(tree, "requests") {
        let limit = map(tree, "limits").find(|(limited, ..)| *limited == name).map(|(.., limit)| limit);
        let (wanted, limit) = (parsed(request), limit.map(parsed));
        let typed = request.scalar().unwrap_or_default();
        match (wanted, limit) {
            (Some(_), None) if !may_be_overcommitted(name) => {
                let message = format!("`{name}` needs a limit, because it cannot be overcommitted");
                report.error_with_help(key, message, format!("write it in `limits`: `{name}: {typed}`"));
            }
            (Some(wanted), Some(Some(limit))) if !may_be_overcommitted(name) && wanted != limit => {
                let message = format!("the request of `{name}` must equal its limit of {limit}, found `{typed}`");
                report.error_with_help(request.span, message, "write the same amount, or only the limit");
            }
            (Some(wanted), Some(Some(limit))) if wanted > limit => {
                let message = format!("the request of `{name}` is above its limit of {limit}, found `{typed}`");
                report.error_with_help(request.span, message, "raise the limit, or lower the request");
            }
            _ => {}
        }
    }
}

/// The largest amounts of a node in a rehearsal, by the end of the resource's name.
const LARGEST: [(&str, i64, &str); 3] =
    [("cpu", 1_000_000_000, "a billion cores"), ("memory", 1 << 60, "1 EiB"), ("/gpu", 1024, "1,024 GPUs")];

/// The status of a node.
pub fn node(tree: &Tree, report: &mut Report) {
    for (name, _, amount) in map(tree, "allocatable").chain(map(tree, "capacity")) {
        let largest = LARGEST.iter().find(|(end, ..)| name.ends_with(end));
        let (Some((_, most, told)), Some(typed)) = (largest, amount.scalar()) else { continue };
        if parsed(amount).is_some_and(|amount| amount.value() > *most) {
            let message = format!("a node has at most {told} here, found `{typed}`");
            report.error_with_help(amount.span, message, "write what the machine has");
        }
    }
}

fn parsed(amount: &Tree) -> Option<Quantity> {
    amount.scalar()?.parse().ok()
}

fn is_resource(name: &str) -> bool {
    name.contains('/') || matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Whether the resource is one of a device plugin, of which a container gets whole units.
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| !is_native(domain))
}

fn is_native(domain: &str) -> bool {
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

fn may_be_overcommitted(name: &str) -> bool {
    !is_extended(name) && !name.starts_with("hugepages-")
}
