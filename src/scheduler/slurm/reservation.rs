//! Advance reservations: nodes that are kept for some users for a time (`scontrol create reservation`).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use dryrack_units::{SimDuration, SimTime, TextForm};

/// An advance reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// Name.
    pub name: Arc<str>,
    /// When it begins.
    #[serde(with = "TextForm")]
    pub start: SimTime,
    /// How long it lasts.
    #[serde(with = "TextForm")]
    pub duration: SimDuration,
    /// Names or patterns of its nodes. All nodes if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The users that may use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// The accounts that may use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
}

impl Reservation {
    pub fn end(&self) -> SimTime {
        self.start.saturating_add(self.duration)
    }

    /// Whether the jobs of this user and account may use the reservation.
    pub fn admits(&self, user: Option<&str>, account: Option<&str>) -> bool {
        let is_among = |names: &[String], name: Option<&str>| names.iter().any(|known| Some(known.as_str()) == name);
        is_among(&self.users, user) || is_among(&self.accounts, account)
    }
}
