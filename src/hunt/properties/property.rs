//! What every property has.

use crate::arena::Case;
use crate::breach::Breach;

/// A rule about the decisions of a scheduler.
pub trait Property: Sync {
    fn name(&self) -> &'static str;

    /// The rule as a sentence.
    fn rule(&self) -> &'static str;

    /// Whether the property also judges runs in which the program failed.
    fn judges_failures(&self) -> bool {
        false
    }

    /// All ways in which the property is broken in this world. May run changed worlds.
    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach>;
}
