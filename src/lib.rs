pub mod trace;
pub mod units;
