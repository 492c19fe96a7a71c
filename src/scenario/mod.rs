//! Floor 6.
mod diagnostic;
mod emit;
mod fields;
mod parse;
mod set;
mod tree;
