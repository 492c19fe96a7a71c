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
mod property;
mod regions;
mod safety;
mod starves;

pub use property::Property;

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
