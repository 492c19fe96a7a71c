//! What an alternative costs over a horizon, if only runs measure it: the load of each month has its own cost.

use super::horizon::Lasting;
use super::order::unordered;
use super::summary::{Comparison, Row, in_currency};
use dryrack_metrics::{estimate, estimate_resampled};
use dryrack_scenario::{Horizon, Objective, PlanFile};
use dryrack_units::grouped;

/// Each alternative over the months in which it meets all constraints: its cost is the mean of these months. It satisfies every
/// constraint if it does so in every month of the horizon. Empty if the cost is known without a run.
pub(super) fn over_horizon(plan: &PlanFile, horizon: &Horizon, lasting: &[Lasting]) -> Comparison {
    let objective = plan.minimize.filter(|objective| !objective.is_known_before());
    let rows = objective
        .into_iter()
        .flat_map(|objective| lasting.iter().filter_map(move |one| mean_of_months(plan, horizon, one, objective)));
    Comparison { rows: rows.collect() }
}

/// The mean over the months with each seed, and its interval over the seeds. `None` if no month is enough, or if a month has no
/// cost.
fn mean_of_months(plan: &PlanFile, horizon: &Horizon, one: &Lasting, objective: Objective) -> Option<Row> {
    let first = one.months.first()?;
    let months: Vec<&Row> = (0..=horizon.months)
        .take_while(|month| one.lasts(*month))
        .filter_map(|month| one.months.get(month as usize))
        .collect();
    let cost = |row: &Row, seed: u64| match row.costs.iter().find(|(known, _)| *known == seed) {
        Some((_, cost)) => Some(*cost),
        // If nothing is random, later months are run with one seed.
        None if !row.is_random => row.costs.first().map(|(_, cost)| *cost),
        None => None,
    };
    let mean = |seed: u64| {
        let costs: Option<Vec<f64>> = months.iter().map(|row| cost(row, seed)).collect();
        costs.filter(|costs| !costs.is_empty()).map(|costs| costs.iter().sum::<f64>() / costs.len() as f64)
    };
    let costs: Option<Vec<(u64, f64)>> = plan.seeds.iter().map(|seed| Some((*seed, mean(*seed)?))).collect();
    let costs = costs?;
    let values: Vec<f64> = costs.iter().map(|(_, cost)| *cost).collect();
    let found = match first.resampled {
        Some(from) => estimate_resampled(&values, from)?,
        None => estimate(&values)?,
    };
    let mut row = Row { costs, keeps: Some(one.lasts(horizon.months)), ..first.clone() };
    row.metrics.insert(objective.name(), found);
    Some(row)
}

/// The cheapest alternative among those that stay enough until the end of the horizon, if only runs measure the cost.
/// The second result is a sentence if the costs do not tell whether it is cheaper than another one; it may be empty.
pub fn cheapest_throughout(plan: &PlanFile, horizon: &Horizon, lasting: &[Lasting]) -> Option<(Row, String)> {
    let whole = over_horizon(plan, horizon, lasting);
    let best = whole.cheapest(plan.minimize?, |_| true)?;
    Some((best.clone(), doubts(plan, &whole, lasting, best)?))
}

/// Sentences on whether other alternatives may be cheaper than this one: the costs do not tell, or the runs were too short. Empty
/// if nothing speaks for it.
fn doubts(plan: &PlanFile, whole: &Comparison, lasting: &[Lasting], best: &Row) -> Option<String> {
    let objective = plan.minimize?;
    let cost = |row: &Row| row.of(objective).unwrap_or(f64::INFINITY);
    let is_undecided = |row: &&Row| lasting.iter().any(|one| one.cell == row.cell && one.ends_undecided());
    let open = whole.rows.iter().filter(|row| cost(row) < cost(best)).filter(is_undecided);
    let open: Vec<&str> = open.map(|row| row.name.as_str()).collect();
    let runs = match &open[..] {
        [] => String::new(),
        [one] => format!(" {one} may be enough too: its runs are too short to tell."),
        several => format!(" {} may be enough too: their runs are too short to tell.", several.join(" and ")),
    };
    Some(unordered(plan, whole, objective, best) + &runs)
}

/// A sentence such as `Kept from month 0 to month 6, the cheapest that is enough throughout is own=10: 80,000 EUR a month on
/// average, 560,000 EUR in all.`, with the next cheapest one.
pub(super) fn kept_throughout(plan: &PlanFile, horizon: &Horizon, lasting: &[Lasting]) -> Option<String> {
    let objective = plan.minimize?;
    let whole = over_horizon(plan, horizon, lasting);
    if whole.rows.is_empty() {
        return None;
    }
    let (first, last) = (horizon.name(0), horizon.name(horizon.months));
    let Some(best) = whole.cheapest(objective, |_| true) else {
        return Some(format!("None that was run is known to be enough from {first} to {last}."));
    };
    let mut others: Vec<&Row> =
        whole.rows.iter().filter(|row| row.keeps == Some(true) && row.cell != best.cell).collect();
    let cost = |row: &Row| row.of(objective).unwrap_or(f64::INFINITY);
    others.sort_by(|one, other| cost(one).total_cmp(&cost(other)).then(one.cell.cmp(&other.cell)));
    let next = match others.first() {
        Some(next) => format!(" The next cheapest is {}: {}.", next.name, on_average(plan, next, objective)),
        None => " No other that was run is known to be enough throughout.".to_string(),
    };
    Some(format!(
        "Kept from {first} to {last}, the cheapest that is enough throughout is {}: {}{}.{}{next}",
        best.name,
        on_average(plan, best, objective),
        in_all(plan, horizon, best, objective),
        doubts(plan, &whole, lasting, best)?,
    ))
}

/// Such as `80,000.00 EUR a month on average`.
pub(super) fn on_average(plan: &PlanFile, row: &Row, objective: Objective) -> String {
    let amount = row.amount(objective, plan.currency.as_deref());
    let of_each = if objective == Objective::CostPerMonth { "" } else { " for the run of each month," };
    format!("{amount}{of_each} on average")
}

/// Such as `, 560,000 EUR in all`; empty unless the cost is that of a month.
fn in_all(plan: &PlanFile, horizon: &Horizon, row: &Row, objective: Objective) -> String {
    match row.of(objective).filter(|_| objective == Objective::CostPerMonth) {
        Some(mean) => {
            let all = grouped(&format!("{:.0}", mean * f64::from(horizon.months + 1)));
            format!(", {} in all", in_currency(&all, plan.currency.as_deref()))
        }
        None => String::new(),
    }
}
