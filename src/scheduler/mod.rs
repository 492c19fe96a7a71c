//! Not yet furnished.
mod options;
pub use options::*;
