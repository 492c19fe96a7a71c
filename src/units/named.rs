//! Maps from names that a user chooses.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Reads a map without the names whose value is null: `#[serde(deserialize_with = "present")]`. A file that is merged over
/// another removes a name this way, as in a JSON merge patch (RFC 7396).
///
/// # Errors
/// If a name or a value cannot be read.
pub fn present<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
where
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let all = BTreeMap::<K, Option<V>>::deserialize(deserializer)?;
    Ok(all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}
