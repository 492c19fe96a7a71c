//! Properties: rules for decisions that hold for every scheduler. To add a property, write a file with a type that
//! implements [`Property`], its `mod` line, and a row of [`ALL`].

mod asked_before;
mod by_hand;
mod fewer_nodes;
mod fits_elsewhere;
mod goes_on;
mod inversion;
mod lighter;
mod order;
mod regions;
mod safety;
mod starves;

use super::arena::Case;
use super::breach::Breach;

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

/// All properties. Those that run no other worlds come first.
pub const ALL: [&dyn Property; 14] = [
    &goes_on::GoesOn,
    &safety::NOT_READY,
    &safety::OVERCOMMITTED,
    &safety::WHOLE,
    &safety::REQUIREMENTS,
    &regions::OneRegion,
    &inversion::Priority,
    &starves::Starves,
    &fewer_nodes::FewerNodes,
    &order::Order,
    &lighter::Lighter,
    &by_hand::ByHand,
    &asked_before::AskedBefore,
    &fits_elsewhere::FitsElsewhere,
];
