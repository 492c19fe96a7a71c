pub mod catalog;
pub mod nearest;
pub mod units;
