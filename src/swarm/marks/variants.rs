//! The names that a reader knows, from its answer to a wrong name.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A name that nothing has.
pub(super) const WRONG: &str = "no such name";

/// The names of all variants of an enum.
pub(super) fn variant_names<T: DeserializeOwned>() -> Vec<String> {
    let answer = serde_json::from_value::<T>(Value::String(WRONG.to_string())).err().map(|error| error.to_string());
    let names = answer.as_deref().and_then(|answer| known_names(answer, "unknown variant"));
    names.expect("the reader of an enum names its variants")
}

/// All values of an enum without data.
pub(super) fn variants<T: DeserializeOwned>() -> Vec<T> {
    let value = |name| serde_json::from_value(Value::String(name)).expect("the reader has named it");
    variant_names::<T>().into_iter().map(value).collect()
}

/// The names in an answer such as ``unknown field `x`, expected one of `a`, `b` ``, if it is about a wrong name of this
/// kind.
pub(super) fn known_names(answer: &str, kind: &str) -> Option<Vec<String>> {
    let (_, rest) = answer.split_once(kind)?;
    let (found, rest) = rest.split_once(", expected ")?;
    found.contains(WRONG).then(|| rest.split('`').skip(1).step_by(2).map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_an_answer_about_the_wrong_name_alone() {
        let names = |answer: &str| known_names(answer, "unknown field");
        assert_eq!(names("unknown field `no such name`, expected `a`"), Some(vec!["a".to_string()]));
        let two = Some(vec!["a".to_string(), "b".to_string()]);
        assert_eq!(names("unknown field `no such name`, expected `a` or `b`"), two);
        assert_eq!(names("unknown field `no such name`, expected one of `a`, `b` at line 1"), two);
        assert_eq!(names("unknown field `other`, expected `a`"), None);
        assert_eq!(names("unknown variant `no such name`, expected `a`"), None);
    }
}
