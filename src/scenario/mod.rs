//! Floor 6.
