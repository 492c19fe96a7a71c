//! The result of one round of tests.

use std::time::Duration;

use super::args::TestArgs;
use super::baseline::Compared;
use super::case::Tested;
use crate::causes::UntestedOption;

/// The result of one round of tests.
pub struct Outcome<'a> {
    pub args: &'a TestArgs,
    /// Whether runs that passed are counted by folder instead of listed: for people at a terminal.
    pub is_folded: bool,
    pub tested: Vec<Tested>,
    /// The number of cells that tags and filters left out.
    pub left_out: usize,
    pub wall: Duration,
    pub compared: Option<Compared>,
    /// Options of historic profiles that no scenario and no record distinguishes from their base; empty unless
    /// `--options` asks for them.
    pub untold: Vec<UntestedOption>,
}
