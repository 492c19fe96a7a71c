//! Whether a measured cost tells which of two alternatives is cheaper.

use super::summary::{Comparison, Row, in_currency};
use dryrack_metrics::{Estimate, estimate, estimate_resampled};
use dryrack_scenario::{Objective, PlanFile};
use dryrack_units::{counted, grouped};

/// The difference of the costs of two alternatives, paired by seed. `None` without a common seed.
fn dearer_by(best: &Row, other: &Row) -> Option<Estimate> {
    let cost_of = |seed: u64| best.costs.iter().find(|(known, _)| *known == seed).map(|(_, cost)| cost);
    let differences: Vec<f64> = other.costs.iter().filter_map(|(seed, cost)| Some(cost - cost_of(*seed)?)).collect();
    let resampled = best.resampled.and_then(|from| estimate_resampled(&differences, from));
    resampled.filter(|found| found.half_width.is_some()).or_else(|| estimate(&differences))
}

/// A sentence if a measured cost does not tell whether the answer is cheaper than another alternative that meets all
/// constraints. Both had the same seeds, so the difference of each seed is one observation.
pub(super) fn unordered(plan: &PlanFile, comparison: &Comparison, objective: Objective, best: &Row) -> String {
    let is_open = |found: &Estimate| match found.interval() {
        Some((low, _)) => low <= 0.0,
        None => found.runs < 2 && found.mean != 0.0,
    };
    let keeping = comparison.rows.iter().filter(|row| row.keeps == Some(true) && row.cell != best.cell);
    let random = keeping.filter(|row| row.is_random || best.is_random);
    let mut open: Vec<(&Row, Estimate)> =
        random.filter_map(|row| Some((row, dearer_by(best, row).filter(is_open)?))).collect();
    open.sort_by(|(_, one), (_, other)| one.mean.total_cmp(&other.mean));
    let Some((next, found)) = open.first() else { return String::new() };
    let (verb, unit) = match objective {
        Objective::Energy => ("takes", " kWh".to_string()),
        _ => ("costs", in_currency("", plan.currency.as_deref())),
    };
    let amount = |value: f64| grouped(&format!("{value:.2}"));
    let more = match found.interval() {
        None => " with the one seed".to_string(),
        Some((low, high)) => format!(
            " with the same {} ({} to {}, 95% confidence)",
            counted(found.runs, "seed"),
            amount(low),
            amount(high)
        ),
    };
    let others = match open.len() - 1 {
        0 => String::new(),
        others => format!(" The same holds for {}.", counted(others, "other alternative")),
    };
    let mean = amount(found.mean);
    format!(
        " It is not established that it is cheaper than {}, which {verb} {mean}{unit} more{more}.{others}",
        next.name
    )
}

#[cfg(test)]
mod tests {
    use super::super::samples::{alternative, plan};
    use super::*;

    /// Costs of 10 and 20 against 12 and 26: the differences 2 and 6 have the mean 4 and the standard deviation 2.83, so
    /// with one degree of freedom the interval is 4 ± 12.706 * 2.83 / sqrt 2 = 25.41. Against 12 and 22.1, it is 2.05 ± 0.64.
    #[test]
    fn a_cheaper_alternative_within_the_noise_is_said() {
        let said = |costs: [&[f64]; 2]| {
            let row = |(cell, costs): (usize, &&[f64])| Row {
                is_random: true,
                costs: (1..).zip(costs.iter().copied()).collect(),
                ..alternative(cell, None)
            };
            let rows: Vec<Row> = costs.iter().enumerate().map(row).collect();
            let best = rows[0].clone();
            unordered(&plan(), &Comparison { rows }, Objective::Cost, &best)
        };
        assert_eq!(
            said([&[10.0, 20.0], &[12.0, 26.0]]),
            " It is not established that it is cheaper than n=2, which costs 4.00 more with the same 2 seeds (-21.41 to \
             29.41, 95% confidence)."
        );
        assert_eq!(said([&[10.0, 20.0], &[12.0, 22.1]]), "", "the difference is clear");
        assert_eq!(said([&[10.0, 20.0], &[12.0, 22.0]]), "", "the difference is always the same");
        assert!(said([&[10.0], &[12.0]]).ends_with("n=2, which costs 2.00 more with the one seed."));
    }
}
