//! Reasons that a profile or an outside program defines for its own filters.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a reason that is not in the built-in table: lowercase letters, digits and `_`, at most 40 characters.
///
/// Each name is stored once for the life of the process, so that a reason is as small as a number. The numbers depend
/// on the order in which names are first read, so they must never leave the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnReason(u16);

/// The largest number of characters in a name.
pub const LONGEST: usize = 40;

struct Names {
    /// Each name, with its text.
    by_number: Vec<(&'static str, &'static str)>,
    numbers: BTreeMap<&'static str, u16>,
}

static NAMES: RwLock<Names> = RwLock::new(Names { by_number: Vec::new(), numbers: BTreeMap::new() });

impl OwnReason {
    /// Returns the reason of this name. Adds the name if it is new.
    ///
    /// # Errors
    /// Returns an error if the name is too long or has other characters, or if the process already has 65,535 names.
    pub fn new(name: &str) -> Result<OwnReason, String> {
        let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.chars().all(is_letter) {
            return Err(format!("`{name}` must consist of lowercase letters, digits and `_`"));
        }
        if name.len() > LONGEST {
            return Err(format!("the name `{name}` has {} characters, but the limit is {LONGEST}", name.len()));
        }
        let known = NAMES.read().unwrap_or_else(PoisonError::into_inner).numbers.get(name).copied();
        if let Some(number) = known {
            return Ok(OwnReason(number));
        }
        let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = names.numbers.get(name) {
            return Ok(OwnReason(*number));
        }
        let number =
            u16::try_from(names.by_number.len()).map_err(|_| "there are too many names of reasons".to_string())?;
        let name: &'static str = Box::leak(name.into());
        let text = format!("refused as {name} by an expression filter of the profile");
        names.by_number.push((name, Box::leak(text.into())));
        names.numbers.insert(name, number);
        Ok(OwnReason(number))
    }

    /// The number of the name, which is valid only in this process.
    pub(super) fn number(self) -> u16 {
        self.0
    }

    pub(super) fn of_number(number: u16) -> Option<OwnReason> {
        let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
        (usize::from(number) < names.by_number.len()).then_some(OwnReason(number))
    }

    pub fn name(self) -> &'static str {
        NAMES.read().unwrap_or_else(PoisonError::into_inner).by_number[usize::from(self.0)].0
    }

    /// The text after a count, as in "3 nodes: …".
    pub fn text(self) -> &'static str {
        NAMES.read().unwrap_or_else(PoisonError::into_inner).by_number[usize::from(self.0)].1
    }
}

impl Serialize for OwnReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for OwnReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OwnReason, D::Error> {
        let name = String::deserialize(deserializer)?;
        OwnReason::new(&name).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    #[test]
    fn own_reasons_are_ordered_by_name_after_those_of_the_table() {
        let own = |name| Reason::Own(OwnReason::new(name).expect("it is a name"));
        let (late, early) = (own("zz_late"), own("aa_early"));
        assert!(early < late && Reason::ALL.iter().all(|known| *known < early));
        assert_eq!(own("zz_late"), late);
        assert_eq!(serde_json::to_string(&late).expect("it is written"), r#"{"own":"zz_late"}"#);
        assert_eq!(serde_json::from_str::<Reason>(r#"{"own":"zz_late"}"#).expect("it is read"), late);
    }

    #[test]
    fn a_name_is_a_plain_word() {
        for name in ["", "Spot", "spot node", "1st", "_x", "größe", &"a".repeat(41)] {
            assert!(OwnReason::new(name).is_err(), "{name}");
        }
        assert!(OwnReason::new(&"a".repeat(40)).is_ok());
    }
}
