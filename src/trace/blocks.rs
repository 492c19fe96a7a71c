//! Draws a new list of times from a recorded one, block by block. A block keeps what follows each other within it.
//!
//! The recorded time is divided into cycles, which are days or weeks. A new list is filled from its start:
//!
//! - *Moving*: each block has the same length. It is a copy of the recorded time that begins at the same time of the
//!   cycle, in a cycle drawn at random (Künsch, *The Jackknife and the Bootstrap for General Stationary Observations*,
//!   Annals of Statistics 17, 1989; for data with a cycle: Dudek, Leśkow, Paparoditis and Politis, *A Generalized Block
//!   Bootstrap for Seasonal Time Series*, Journal of Time Series Analysis 35, 2014).
//! - *Stationary*: a block is a random number of cycles, geometrically distributed with the stated mean (Politis and
//!   Romano, *The Stationary Bootstrap*, Journal of the American Statistical Association 89, 1994).
//!
//! A block that reaches the end of the recorded time continues at its beginning, so each recorded cycle is drawn
//! equally often (Politis and Romano, *A Circular Block-Resampling Procedure for Stationary Data*, 1992).

use dryrack_rng::Stream;
use dryrack_units::SimDuration;

/// How the lengths of blocks are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockMethod {
    Moving,
    Stationary,
}

/// The rule by which blocks are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    pub method: BlockMethod,
    /// The length of each block, or the mean length if the method is [`BlockMethod::Stationary`].
    pub block: SimDuration,
    /// The cycle that is kept. A block begins at the time of the cycle at which it was recorded.
    pub cycle: SimDuration,
}

/// A copied part of the recorded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The beginning in the recorded time. The piece never reaches beyond the end of the recorded time.
    pub from: SimDuration,
    /// The beginning in the new list.
    pub at: SimDuration,
    pub length: SimDuration,
}

impl Blocks {
    /// The number of whole cycles in the recorded time. A last cycle counts if at least half of it was recorded.
    pub fn cycles(&self, recorded: SimDuration) -> u64 {
        (recorded.as_nanos() + self.cycle.as_nanos() / 2) / self.cycle.as_nanos()
    }

    /// The length that is copied at once: a block, or each cycle of a stationary block.
    pub fn step(&self) -> SimDuration {
        match self.method {
            BlockMethod::Moving => self.block,
            BlockMethod::Stationary => self.cycle,
        }
    }

    /// Draws pieces that fill `length`, in order of time, from a recorded time of this many whole cycles. Panics if
    /// there is no cycle, or if the block or the cycle is zero.
    pub fn draw(&self, cycles: u64, length: SimDuration, stream: &mut Stream) -> Vec<Piece> {
        let (block, cycle) = (self.block.as_nanos(), self.cycle.as_nanos());
        assert!(cycles > 0 && block > 0 && cycle > 0, "{cycles} cycles of {cycle}, blocks of {block}");
        let (recorded, length, step) = (cycles * cycle, length.as_nanos(), self.step().as_nanos());
        let mut pieces = Vec::new();
        let mut at = 0;
        let mut follows: Option<u64> = None;
        while at < length {
            let from = match self.method {
                BlockMethod::Moving => stream.between(0, cycles - 1) * cycle + at % cycle,
                BlockMethod::Stationary => {
                    // A new block begins with the probability cycle / block.
                    let is_new = follows.is_none() || stream.between(0, block.max(cycle) - 1) < cycle;
                    let from = follows.filter(|_| !is_new).unwrap_or_else(|| stream.between(0, cycles - 1) * cycle);
                    follows = Some((from + cycle) % recorded);
                    from
                }
            };
            cut(from % recorded, (at, step.min(length - at)), recorded, &mut pieces);
            at = at.saturating_add(step);
        }
        pieces
    }
}

/// Adds the piece, cut where the recorded time ends and begins again.
fn cut(mut from: u64, (mut at, mut left): (u64, u64), recorded: u64, pieces: &mut Vec<Piece>) {
    while left > 0 {
        let length = left.min(recorded - from);
        let [piece_from, piece_at, length_of] = [from, at, length].map(SimDuration::from_nanos);
        pieces.push(Piece { from: piece_from, at: piece_at, length: length_of });
        (from, at, left) = (0, at + length, left - length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn days(days: u64) -> SimDuration {
        SimDuration::from_secs(DAY * days)
    }

    fn drawn(method: BlockMethod, block: u64, cycle: u64, cycles: u64, length: u64) -> Vec<Piece> {
        let blocks = Blocks { method, block: SimDuration::from_secs(block), cycle: SimDuration::from_secs(cycle) };
        blocks.draw(cycles, SimDuration::from_secs(length), &mut Stream::new(7, "test", 0))
    }

    /// Whether the pieces fill `length` seconds without a gap and stay within `recorded` seconds.
    fn assert_fills(pieces: &[Piece], length: u64, recorded: u64) {
        let mut at = SimDuration::ZERO;
        for piece in pieces {
            assert_eq!(piece.at, at);
            at = at.saturating_add(piece.length);
            assert!(piece.from.saturating_add(piece.length) <= SimDuration::from_secs(recorded), "{piece:?}");
        }
        assert_eq!(at, SimDuration::from_secs(length));
    }

    #[test]
    fn a_block_begins_at_the_time_of_the_cycle_at_which_it_was_recorded() {
        // Blocks of 36 hours: every second one begins at noon, both in the new list and in the recorded time.
        let pieces = drawn(BlockMethod::Moving, 36 * 3600, DAY, 10, 100 * DAY);
        assert_fills(&pieces, 100 * DAY, 10 * DAY);
        for piece in &pieces {
            assert_eq!(piece.at.as_nanos() % days(1).as_nanos(), piece.from.as_nanos() % days(1).as_nanos());
        }
        // A cycle of a week keeps the day of the week of each block of a day.
        let pieces = drawn(BlockMethod::Moving, DAY, 7 * DAY, 4, 28 * DAY);
        assert_eq!(pieces.len(), 28);
        for piece in &pieces {
            assert_eq!(piece.at.as_nanos() % days(7).as_nanos(), piece.from.as_nanos() % days(7).as_nanos());
        }
    }

    /// Of 10,000 blocks of three of ten days, each day is the first of 1,000. The standard deviation is the square root
    /// of 10,000 * 0.1 * 0.9, which is 30. Because the last days continue with the first, each day is copied 3,000
    /// times.
    #[test]
    fn each_recorded_day_is_drawn_equally_often() {
        let pieces = drawn(BlockMethod::Moving, 3 * DAY, DAY, 10, 30_000 * DAY);
        assert_fills(&pieces, 30_000 * DAY, 10 * DAY);
        let mut copied = [0u64; 10];
        for piece in &pieces {
            let first = piece.from.as_nanos() / days(1).as_nanos();
            (first..first + piece.length.as_nanos() / days(1).as_nanos()).for_each(|day| copied[day as usize] += 1);
        }
        assert_eq!(copied.iter().sum::<u64>(), 30_000);
        assert!(copied.iter().all(|count| count.abs_diff(3000) < 4 * 52), "{copied:?}");
    }

    /// With a mean of four days, a day continues the day before it with a probability of 3/4, and also if the new block
    /// happens to begin there, which is one of ten: 0.75 + 0.25 / 10 = 0.775. The standard deviation of the share over
    /// 20,000 days is 0.003.
    #[test]
    fn a_stationary_block_has_the_stated_mean_length() {
        let pieces = drawn(BlockMethod::Stationary, 4 * DAY, DAY, 10, 20_000 * DAY);
        assert_fills(&pieces, 20_000 * DAY, 10 * DAY);
        let day = |piece: &Piece| piece.from.as_nanos() / days(1).as_nanos();
        let continues = pieces.windows(2).filter(|pair| day(&pair[1]) == (day(&pair[0]) + 1) % 10).count();
        let share = continues as f64 / (pieces.len() - 1) as f64;
        assert!((share - 0.775).abs() < 0.012, "{share}");
    }

    #[test]
    fn a_cycle_counts_if_half_of_it_was_recorded() {
        let blocks = Blocks { method: BlockMethod::Moving, block: days(1), cycle: days(1) };
        for (hours, cycles) in [(11, 0), (12, 1), (27 * 24 + 22, 28), (27 * 24 + 11, 27)] {
            assert_eq!(blocks.cycles(SimDuration::from_secs(hours * 3600)), cycles, "{hours} hours");
        }
    }
}
