//! Floor 11. Hunting: random scenarios in which the decisions of a program in another process break a property.
//!
//! ```text
//!  seed ──draw──> a scenario ──arena──> what the program decided ──properties──> breaches
//!                     ^                                                              │
//!                     └───── changed worlds that a property compares ────────────────┘
//!  breaches of one manner ──minimize──> the smallest scenario ──> a file that states what should be
//! ```
//!
//! Owns the worlds that are drawn, the properties of decisions, and the rule by which two breaches are the same
//! finding. Must never know a defect: worlds and properties are general, and none is made for the fault of one program.
//! Must never trust a finding that a new process does not repeat.
//!
//! A property is one row of `properties::ALL` and one file. A kind of world is one row of `draw::KINDS`.

#![warn(clippy::unwrap_used)]

mod arena;
mod breach;
mod draw;
mod fidelity;
mod finding;
mod observed;
mod properties;
mod world;

#[cfg(test)]
mod tests;

pub use arena::{Arena, Case};
pub use breach::{Breach, Expected, Group};
pub use draw::{KINDS, Kind, kind_of};
pub use fidelity::{Asked, Difference, How, compare_seed};
pub use finding::{Confirmation, DrawnWorld, Finding, SeedResult, hunt_seed, smallest};
pub use observed::Observed;
pub use properties::{ALL, Property};
pub use world::World;
