//! Measured durations of prefill and decode steps, and how they are interpolated.

use serde::{Deserialize, Serialize};

use super::serving::{DecodeRun, PICOS};
use dryrack_units::SimDuration;

/// Durations of steps by the number of sequences and the number of tokens of each. Values between the points are
/// interpolated linearly in both directions. Values outside are never extrapolated: whoever asks for them has not
/// checked [`StepTable::covers`] first, which is a fault of this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTable {
    /// The time of a step that processes the prompts of a batch: `ttft_ms` of the table.
    prefill: StepGrid,
    /// The time of a step in which each sequence of a batch gets one token: `tpot_ms` of the table.
    decode: StepGrid,
}

/// A full grid of points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepGrid {
    /// The numbers of sequences, ascending. The first is 1.
    sequences: Vec<u64>,
    /// The numbers of tokens of each sequence, ascending.
    tokens: Vec<u64>,
    /// The time of each point in picoseconds: for each number of sequences, one for each number of tokens.
    picos: Vec<u64>,
}

/// Why points are not a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridFault {
    Empty,
    /// Two points with the same numbers of sequences and tokens.
    Twice {
        sequences: u64,
        tokens: u64,
    },
    /// The grid lacks this point.
    Missing {
        sequences: u64,
        tokens: u64,
    },
    /// The smallest number of sequences, which is not 1.
    NoSingle {
        least: u64,
    },
}

/// Where a table has no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncovered {
    PromptTooShort { least: u64 },
    PromptTooLong { most: u64 },
    ContextTooShort { least: u64 },
    ContextTooLong { most: u64 },
}

impl StepGrid {
    /// A grid of points: sequences, tokens of each, and the time in picoseconds.
    pub fn new(mut points: Vec<(u64, u64, u64)>) -> Result<StepGrid, GridFault> {
        points.sort_unstable();
        let mut sequences: Vec<u64> = points.iter().map(|point| point.0).collect();
        sequences.dedup();
        let mut tokens: Vec<u64> = points.iter().map(|point| point.1).collect();
        tokens.sort_unstable();
        tokens.dedup();
        let least = *sequences.first().ok_or(GridFault::Empty)?;
        if let Some(pair) = points.windows(2).find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1)) {
            return Err(GridFault::Twice { sequences: pair[0].0, tokens: pair[0].1 });
        }
        if least != 1 {
            return Err(GridFault::NoSingle { least });
        }
        let wanted = sequences.iter().flat_map(|sequences| tokens.iter().map(move |tokens| (*sequences, *tokens)));
        for (index, (sequences, tokens)) in wanted.enumerate() {
            if points.get(index).is_none_or(|point| (point.0, point.1) != (sequences, tokens)) {
                return Err(GridFault::Missing { sequences, tokens });
            }
        }
        Ok(StepGrid { sequences, tokens, picos: points.into_iter().map(|point| point.2).collect() })
    }

    fn most_sequences(&self) -> u64 {
        self.sequences[self.sequences.len() - 1]
    }

    fn least_tokens(&self) -> u64 {
        self.tokens[0]
    }

    fn most_tokens(&self) -> u64 {
        self.tokens[self.tokens.len() - 1]
    }

    /// The two rows of sequences around this number, the weight of the second one, and the sum of both weights.
    fn rows(&self, sequences: u64) -> (usize, usize, i128, i128) {
        let after = self.sequences.partition_point(|known| *known < sequences);
        assert!(after < self.sequences.len(), "{sequences} sequences, but the table ends at {}", self.most_sequences());
        if self.sequences[after] == sequences {
            return (after, after, 0, 1);
        }
        let (low, high) = (self.sequences[after - 1], self.sequences[after]);
        (after - 1, after, i128::from(sequences - low), i128::from(high - low))
    }

    /// The columns around the mean number of tokens `total / sequences`. If it is a point of the grid, the column after
    /// it, unless it is the last one.
    fn columns(&self, sequences: u64, total: u64) -> (usize, usize) {
        let is_in = total >= self.least_tokens() * sequences && total <= self.most_tokens() * sequences;
        assert!(
            is_in,
            "{total} tokens of {sequences} sequences, outside {:?}",
            (self.least_tokens(), self.most_tokens())
        );
        let after = self.tokens.partition_point(|known| known * sequences <= total);
        let high = after.min(self.tokens.len() - 1);
        (high.saturating_sub(1), high)
    }

    /// The value at a column between two rows, times the sum of the weights.
    fn at(&self, (low, high, weight, sum): (usize, usize, i128, i128), column: usize) -> i128 {
        let value = |row: usize| i128::from(self.picos[row * self.tokens.len() + column]);
        value(low) * (sum - weight) + value(high) * weight
    }

    /// The time of a step, and of the steps after it while all sequences grow by a token in each.
    fn run(&self, sequences: u64, total: u64) -> DecodeRun {
        let rows = self.rows(sequences);
        let (low, high) = self.columns(sequences, total);
        let (from, to) = (self.tokens[low], self.tokens[high]);
        let (at_low, at_high) = (self.at(rows, low), self.at(rows, high));
        if from == to {
            return DecodeRun { first: at_low, more: 0, parts: rows.3, steps: 1 };
        }
        let (count, width) = (i128::from(sequences), i128::from(to - from));
        let beyond = i128::from(total) - i128::from(from) * count;
        let left = (u128::from(to) * u128::from(sequences)).saturating_sub(u128::from(total));
        DecodeRun {
            first: at_low * width * count + (at_high - at_low) * beyond,
            more: (at_high - at_low) * count,
            parts: rows.3 * width * count,
            steps: u64::try_from(left.div_ceil(u128::from(sequences))).unwrap_or(u64::MAX).max(1),
        }
    }
}

impl StepTable {
    pub fn new(prefill: StepGrid, decode: StepGrid) -> StepTable {
        StepTable { prefill, decode }
    }

    /// The largest number of prompts in one prefill step.
    pub(super) fn most_prompts(&self) -> u64 {
        self.prefill.most_sequences()
    }

    /// The largest number of running sequences.
    pub fn most_sequences(&self) -> u64 {
        self.decode.most_sequences()
    }

    /// Whether the table has all values for a request of this size. A mean of requests that are all within the table is
    /// within it too.
    pub fn covers(&self, input: u64, output: u64) -> Result<(), Uncovered> {
        let (least, most) = (self.prefill.least_tokens(), self.prefill.most_tokens());
        if input < least {
            return Err(Uncovered::PromptTooShort { least });
        }
        if input > most {
            return Err(Uncovered::PromptTooLong { most });
        }
        // The first token of the answer comes from the prefill step. The last decode step has one token less than all.
        if output > 1 {
            let (least, most) = (self.decode.least_tokens(), self.decode.most_tokens());
            if input + 1 < least {
                return Err(Uncovered::ContextTooShort { least });
            }
            if input + output - 1 > most {
                return Err(Uncovered::ContextTooLong { most });
            }
        }
        Ok(())
    }

    pub(super) fn decode(&self, sequences: u64, context: u64) -> DecodeRun {
        self.decode.run(sequences, context)
    }

    pub(super) fn prefill(&self, prompts: u64, tokens: u64) -> SimDuration {
        let run = self.prefill.run(prompts, tokens);
        let picos = run.first / run.parts;
        SimDuration::from_nanos(u64::try_from(picos / PICOS).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    /// Times of 10 ms and 20 ms with one sequence of 100 and 200 tokens, and of 30 ms and 60 ms with five.
    fn grid() -> StepGrid {
        let points = vec![(5, 200, 60 * MS), (1, 100, 10 * MS), (1, 200, 20 * MS), (5, 100, 30 * MS)];
        StepGrid::new(points).expect("a full grid")
    }

    /// Between one and five sequences, three are in the middle: 20 ms with 100 tokens and 40 ms with 200. With 150
    /// tokens on average, this is 30 ms. Each further token adds 0.2 ms.
    #[test]
    fn values_between_the_points_are_interpolated() {
        let run = grid().run(3, 450);
        assert_eq!((run.time(1).as_nanos(), run.time(2).as_nanos()), (30_000_000, 60_200_000));
        // The mean reaches 200 tokens after 50 steps.
        assert_eq!(run.steps, 50);
        assert_eq!(grid().run(5, 1000).time(1).as_nanos(), 60_000_000);
        assert_eq!(grid().run(1, 100).time(1).as_nanos(), 10_000_000);
        let table = StepTable::new(grid(), grid());
        assert_eq!(table.prefill(2, 350).as_nanos(), 26_250_000, "15 ms and 22.5 ms, three quarters between");
    }

    #[test]
    fn points_that_are_no_grid_are_refused() {
        let fault = |points: &[(u64, u64, u64)]| StepGrid::new(points.to_vec()).expect_err("no grid");
        assert_eq!(fault(&[]), GridFault::Empty);
        assert_eq!(fault(&[(1, 10, 5), (1, 10, 6)]), GridFault::Twice { sequences: 1, tokens: 10 });
        assert_eq!(fault(&[(1, 10, 5), (1, 20, 6), (2, 10, 7)]), GridFault::Missing { sequences: 2, tokens: 20 });
        assert_eq!(fault(&[(2, 10, 5)]), GridFault::NoSingle { least: 2 });
    }

    #[test]
    fn requests_outside_the_table_are_named() {
        let table = StepTable::new(grid(), grid());
        assert_eq!(table.covers(100, 101), Ok(()));
        assert_eq!(table.covers(100, 102), Err(Uncovered::ContextTooLong { most: 200 }));
        assert_eq!(table.covers(99, 1), Err(Uncovered::PromptTooShort { least: 100 }));
        assert_eq!(table.covers(201, 1), Err(Uncovered::PromptTooLong { most: 200 }));
    }
}
