//! Floor 0. Finds the valid name nearest to an unknown word, for error messages.
//!
//! Owns the rule for which names are near, so that all messages of the crate make suggestions in the same way. Must
//! never be used to accept a word. A suggestion is only shown, and the word stays an error.

#![warn(clippy::unwrap_used)]

use std::cmp::Reverse;

/// The candidate that `word` was most likely meant to be. `None` if no candidate is close enough.
///
/// Case is ignored. A candidate is close if at most a third of the word's letters are wrong, swapped or missing. In a
/// short word, one letter may be. A candidate is also close if it begins with the word (`h100` for `h100-80g`). A
/// candidate at most one letter away takes precedence over one that begins with the word. On a tie, a candidate that
/// begins with the word comes first, then the shorter one, then the first in byte order. The order of `candidates` does
/// not matter.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.trim().to_lowercase();
    let letters = word.chars().count();
    if letters == 0 {
        return None;
    }
    let allowed = (letters / 3).max(1);
    let rank = |candidate: &'a str| {
        let lower = candidate.to_lowercase();
        let distance = strsim::osa_distance(&word, &lower);
        // If the distance equals the length of the word, no letter agrees.
        let is_near = distance <= allowed && distance < letters;
        let rest = lower.strip_prefix(&word).filter(|_| letters >= 2);
        // Names at most one letter away come first. Next come names that continue the word after a separator, such as
        // `gpustack-0.5-dev` for `gpustack-0.5`.
        let is_part = rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
        let is_begun = rest.is_some();
        let rank = if distance <= 1 { 0 } else { 2 - usize::from(is_part) };
        let distance = if is_near { distance } else { usize::MAX };
        let order = (rank, Reverse(is_near), distance, !is_begun, candidate.len());
        (is_near || is_begun).then_some((order, candidate))
    };
    candidates.into_iter().filter_map(rank).min().map(|(_, candidate)| candidate)
}

/// The hint in a message about an unknown name: the nearest name, or else all names in their order. If there are many
/// names, only the most similar ones. `None` if there are no names.
pub fn hint<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    match nearest(word, names.iter().copied()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None if names.is_empty() => None,
        None if names.len() == 1 => Some(format!("there is only `{}`", names[0])),
        None if names.len() <= MANY => Some(format!("known are {}", names.join(", "))),
        None => {
            let all = names.len();
            Some(format!("the nearest of the {all} known names are {}", most_alike(word, names).join(", ")))
        }
    }
}

/// Up to this many names, all are listed.
const MANY: usize = 24;
/// The number of names that are listed if there are more.
const ALIKE: usize = 8;

/// The names with the smallest edit distance. On a tie, the first in byte order.
fn most_alike<'a>(word: &str, mut names: Vec<&'a str>) -> Vec<&'a str> {
    let word = word.trim().to_lowercase();
    names.sort_by_cached_key(|name| (strsim::osa_distance(&word, &name.to_lowercase()), *name));
    names.dedup();
    names.truncate(ALIKE);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_answered_with_the_name_that_was_meant() {
        let names = ["placed", "pending", "running", "h100-80g", "h200-141g", "l4", "l40s", "rtx-4090"];
        let rows = [
            ("a missing letter", "runing", Some("running")),
            ("two letters swapped", "pednign", Some("pending")),
            ("another separator", "rtx_4090", Some("rtx-4090")),
            ("capitals and spaces around it", " RTX-4090 ", Some("rtx-4090")),
            ("the beginning of a name", "h100", Some("h100-80g")),
            ("the end of a name left off, rather than another letter wrong", "l40", Some("l40s")),
            ("a single letter begins too much", "r", None),
            ("a name itself before one it begins", "l4", Some("l4")),
            ("a short word with one wrong letter", "l5", Some("l4")),
            ("nothing like it", "frobnicate", None),
            ("not one letter in common", "x", None),
            ("nothing at all", "", None),
        ];
        for (what, word, expected) in rows {
            assert_eq!(nearest(word, names), expected, "{what}: `{word}`");
        }
    }

    #[test]
    fn the_order_of_the_candidates_does_not_show() {
        let names = ["node-a", "node-c", "node-b"];
        assert_eq!(nearest("node-x", names), Some("node-a"));
        assert_eq!(nearest("node-x", names.into_iter().rev()), Some("node-a"));
    }
}
