//! Keys in the wrong place: messages about unknown keys suggest the place of the key.

use super::schema_table::SHAPES;

/// Kinds of maps, and where a file has them. A key that several kinds have is that of the first.
const PLACES: [(&str, &str); 13] = [
    ("a job", "in an entry of `jobs:`"),
    ("a node", "in an entry of `nodes:`"),
    ("a scenario file", "at the beginning of a line, outside of all entries"),
    ("an expectation", "in an entry of `expect:`"),
    ("a fault", "in an entry of `faults:`"),
    ("a failure", "in an entry of `failures:`"),
    ("a trace", "under `trace:`"),
    ("a reproduction", "in an entry of `reproduces:`"),
    ("a model", "under `model:` of a job"),
    ("a retry policy", "under `retry:` of a job"),
    ("dependencies", "under `after:` of a job"),
    ("a group of GPUs", "in an entry of `gpus:` of a node"),
    ("a live run", "under `live:`"),
];

/// Says where a key belongs that is unknown in a map of the kind `what`, but known in another kind.
pub(super) fn home(what: &str, key: &str) -> Option<String> {
    let has_key = |called: &str| {
        let shape = SHAPES.iter().find(|shape| shape.called.contains(&called));
        shape.is_some_and(|shape| shape.all_fields().any(|(known, ..)| *known == key))
    };
    // A key of another form of the same map is not in the wrong place, and a small map is better told by its own keys.
    let is_large = what == "an included file" || PLACES.iter().any(|(called, _)| what.starts_with(called));
    if has_key(what) || !is_large {
        return None;
    }
    let is_same = |called: &str| called == "a scenario file" && what == "an included file";
    let mut others = PLACES.iter().filter(|(called, _)| !is_same(called) && has_key(called));
    let (called, place) = others.next()?;
    // A key such as `name` that several kinds have says nothing, except at the top, where most entries are jobs.
    if others.next().is_some() && what != "a scenario file" {
        return None;
    }
    Some(format!("`{key}` is a key of {called}; write it {place}"))
}

#[cfg(test)]
mod tests {
    use super::super::elsewhere::{EXPECTATION, FAULT, FILE, GROUP, JOB, NODE};
    use super::*;

    #[test]
    fn no_synonym_is_a_key_itself_and_each_suggests_a_key_that_exists() {
        let kinds = [
            ("a job", &JOB[..]),
            ("a node", &NODE),
            ("a scenario file", &FILE),
            ("a fault", &FAULT),
            ("an expectation", &EXPECTATION),
            ("a group of GPUs", &GROUP),
        ];
        for (what, synonyms) in kinds {
            let shape = SHAPES.iter().find(|shape| shape.called.contains(&what)).expect("it has a shape");
            let keys = shape.keys();
            let has = |word: &str| keys.binary_search(&word).is_ok();
            for (key, words, _) in synonyms {
                assert!(has(key), "`{key}` of {what}");
                words.iter().for_each(|word| assert!(!has(word), "`{word}` of {what} is a key"));
            }
        }
    }

    #[test]
    fn a_key_in_the_wrong_place_is_told_its_place() {
        let rows = [
            ("a scenario file", "arrivals", Some("`arrivals` is a key of a job; write it in an entry of `jobs:`")),
            ("a scenario file", "becomes", Some("`becomes` is a key of a fault; write it in an entry of `faults:`")),
            ("a node", "duration", Some("`duration` is a key of a job; write it in an entry of `jobs:`")),
            ("a job", "rack", Some("`rack` is a key of a node; write it in an entry of `nodes:`")),
            ("an evaluation", "never", None),
            ("a job", "wibble", None),
        ];
        for (what, key, expected) in rows {
            assert_eq!(home(what, key).as_deref(), expected, "`{key}` of {what}");
        }
    }
}
