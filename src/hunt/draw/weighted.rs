//! A random draw among rows with weights.

use dryrack_rng::Stream;

/// Draws one of these rows, each with a probability in proportion to its number.
pub(super) fn weighted<'a, T>(draws: &mut Stream, rows: &'a [(u64, T)]) -> &'a T {
    let sum: u64 = rows.iter().map(|(weight, _)| weight).sum();
    let mut at = draws.between(1, sum);
    for (weight, row) in rows {
        if at <= *weight {
            return row;
        }
        at -= weight;
    }
    &rows[rows.len() - 1].1
}
