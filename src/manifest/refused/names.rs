//! Names of objects, which are names of DNS as in RFC 1123.

use dryrack_yaml::{Report, Tree};

use super::{has, text};

/// The rule for a name: one label, or labels with dots between them.
const SUBDOMAIN: (usize, &str) = (
    253,
    "write at most 253 lower case letters, digits, `-` and `.`, with a letter or a digit at both ends of each part",
);
const LABEL: (usize, &str) =
    (63, "write at most 63 lower case letters, digits and `-`, with a letter or a digit at both ends");

/// The metadata of an object, whose name must be a single label if `is_label`.
pub fn name(metadata: &Tree, is_label: bool, report: &mut Report) {
    check(metadata, "name", if is_label { LABEL } else { SUBDOMAIN }, report);
    check(metadata, "namespace", LABEL, report);
}

pub fn container(tree: &Tree, report: &mut Report) {
    check(tree, "name", LABEL, report);
}

fn check(tree: &Tree, key: &str, (longest, help): (usize, &str), report: &mut Report) {
    let name = text(tree, key);
    let is_label = |part: &str| {
        !part.is_empty()
            && part.len() <= longest
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
    };
    let is_valid = match longest == LABEL.0 {
        true => is_label(name),
        false => name.len() <= longest && name.split('.').all(is_label),
    };
    if let (true, false, Some(field)) = (has(tree, key), is_valid, tree.get(key)) {
        report.error_with_help(field.span, format!("`{name}` is not a valid {key}"), help);
    }
}
