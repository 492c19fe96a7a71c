//! Amounts of resources, as Kueue counts and writes them.

use dryrack_kubernetes::object::Quantity;

/// The amount of a resource as Kueue counts it: CPU in thousandths of a core, everything else in whole units.
pub fn amount_of(resource: &str, quantity: Quantity) -> i64 {
    if resource == "cpu" { quantity.milli_value() } else { quantity.value() }
}

/// The most of a resource that one workload counts as asking for, 64 PiB of memory. It leaves room for the sum of many.
pub const MOST: i64 = 1 << 56;

/// The amount of a resource as Kueue writes it in messages.
pub fn amount_text(resource: &str, amount: i64) -> String {
    let is_binary = matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    match resource {
        "cpu" if amount % 1000 != 0 => format!("{amount}m"),
        "cpu" => decimal_text(amount / 1000),
        _ if is_binary && amount.unsigned_abs() >= 1024 => binary_text(amount),
        _ => decimal_text(amount),
    }
}

fn decimal_text(amount: i64) -> String {
    suffixed(amount, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

fn binary_text(amount: i64) -> String {
    suffixed(amount, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

/// With the largest suffix that leaves a whole number.
fn suffixed(mut amount: i64, base: i64, suffixes: &[&str]) -> String {
    let mut at = 0;
    while amount != 0 && amount % base == 0 && at + 1 < suffixes.len() {
        amount /= base;
        at += 1;
    }
    format!("{amount}{}", suffixes[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_written_as_kubernetes_writes_it() {
        let rows = [
            ("cpu", 2500, "2500m"),
            ("cpu", 3000, "3"),
            ("cpu", 3_000_000, "3k"),
            ("memory", 4 << 30, "4Gi"),
            ("memory", 1536 << 20, "1536Mi"),
            ("memory", 1000, "1k"),
            ("memory", 1025, "1025"),
            ("nvidia.com/gpu", 12, "12"),
            ("nvidia.com/gpu", 0, "0"),
        ];
        for (resource, amount, text) in rows {
            assert_eq!(amount_text(resource, amount), text, "{resource} {amount}");
        }
    }
}
