//! Whether a measured cost tells which of two alternatives is cheaper.

use super::summary::{Comparison, Row, in_currency};
use dryrack_metrics::{Estimate, FEWEST_LISTS as FEWEST, estimate_difference};
use dryrack_scenario::{Objective, PlanFile};
use dryrack_units::{counted, grouped};

/// How much more the other alternative costs, paired by seed, if this does not establish that it costs more. `None` if it
/// does, if both always cost the same, or without a common seed.
fn perhaps_dearer(best: &Row, other: &Row) -> Option<Estimate> {
    let cost_of = |seed: u64| best.costs.iter().find(|(known, _)| *known == seed).map(|(_, cost)| cost);
    let differences: Vec<f64> = other.costs.iter().filter_map(|(seed, cost)| Some(cost - cost_of(*seed)?)).collect();
    let found = estimate_difference(&differences, best.resampled)?;
    let is_open = match found.interval() {
        Some((low, _)) => low <= 0.0,
        None if found.is_constant => found.runs == 1 && found.mean != 0.0,
        None => true,
    };
    is_open.then_some(found)
}

/// A sentence if a measured cost does not tell whether the answer is cheaper than another alternative that meets all
/// constraints. Both had the same seeds, so the difference of each seed is one observation.
pub(super) fn unordered(plan: &PlanFile, comparison: &Comparison, objective: Objective, best: &Row) -> String {
    let keeping = comparison.rows.iter().filter(|row| row.keeps == Some(true) && row.cell != best.cell);
    let random = keeping.filter(|row| row.is_random || best.is_random);
    let mut open: Vec<(&Row, Estimate)> = random.filter_map(|row| Some((row, perhaps_dearer(best, row)?))).collect();
    open.sort_by(|(_, one), (_, other)| one.mean.total_cmp(&other.mean));
    let Some((next, found)) = open.first() else { return String::new() };
    let (verb, unit) = match objective {
        Objective::Energy => ("takes", " kWh".to_string()),
        _ => ("costs", in_currency("", plan.currency.as_deref())),
    };
    let amount = |value: f64| grouped(&format!("{value:.2}"));
    let more = match found.interval() {
        None if found.runs == 1 => " with the one seed".to_string(),
        None => format!(
            " with the same {}; an interval needs {FEWEST} seeds and a log of {FEWEST} blocks",
            counted(found.runs, "seed")
        ),
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
    use dryrack_metrics::ResampledFrom;

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
        assert_eq!(said([&[10.0, 20.0], &[10.0, 20.0]]), "", "they cost the same");
    }

    /// Of two lists that were resampled from one log, nothing is known of the difference: neither its sign nor its size.
    #[test]
    fn a_difference_over_few_resampled_lists_is_not_established() {
        let row = |cell: usize, costs: [f64; 2]| Row {
            is_random: true,
            costs: (1..).zip(costs).collect(),
            resampled: Some(ResampledFrom { blocks: 16, length: 1.0 }),
            ..alternative(cell, None)
        };
        let rows = vec![row(0, [10.0, 20.0]), row(1, [12.0, 22.1])];
        let best = rows[0].clone();
        let said = unordered(&plan(), &Comparison { rows }, Objective::Cost, &best);
        assert!(
            said.ends_with(
                "which costs 2.05 more with the same 2 seeds; an interval needs 5 seeds and a log of 5 blocks."
            ),
            "{said}"
        );
    }
}
