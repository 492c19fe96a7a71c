//! What stands beside an answer: the next cheapest alternative, and the cheapest one with each named value of a choice.

use super::cases::{cells_of_a_case, choice_without};
use super::left_undone::leaves_jobs_unfinished;
use super::summary::{Comparison, Row};
use dryrack_scenario::{Factor, Method, Objective, PlanFile};
use dryrack_units::counted;

/// With more values, a choice is left to the table.
const MOST_VALUES: usize = 8;

/// The cheapest other alternative that meets all constraints. On a tie, the first one.
pub(super) fn runner_up<'c>(comparison: &'c Comparison, objective: Objective, best: &Row) -> Option<&'c Row> {
    comparison.cheapest(objective, |row| row.cell != best.cell)
}

/// How much more another alternative costs, such as `, 50.0% more`. Empty if this is not known.
pub(super) fn more(objective: Objective, best: &Row, other: &Row) -> String {
    match (best.of(objective), other.of(objective)) {
        (Some(least), Some(cost)) if least > 0.0 && cost > least => {
            format!(", {:.1}% more", (cost / least - 1.0) * 100.0)
        }
        _ => String::new(),
    }
}

/// A figure of the first screen: the next cheapest alternative, and what it is.
pub(super) fn next_figure(
    plan: &PlanFile,
    comparison: &Comparison,
    objective: Objective,
    best: &Row,
) -> (String, String) {
    let whole = comparison.rows.len() == cells_of_a_case(plan);
    match runner_up(comparison, objective, best) {
        Some(next) => {
            let is_equal = best.of(objective).zip(next.of(objective)).is_some_and(|(one, other)| other <= one);
            let is = match is_equal {
                true => "which costs the same and meets the constraints too".to_string(),
                false if whole => {
                    format!("the next cheapest that meets the constraints{}", more(objective, best, next))
                }
                false => {
                    let more = more(objective, best, next);
                    format!("the next cheapest of those that were run and meet the constraints{more}")
                }
            };
            (next.short_amount(objective, plan.currency.as_deref()), format!("with {}, {is}", next.name))
        }
        None if whole => ("None".to_string(), "of the other alternatives meets the constraints".to_string()),
        None if plan.method == Method::Search => (
            "Not searched".to_string(),
            "what the next cheapest that meets the constraints costs; a sweep would run it".to_string(),
        ),
        None => ("None".to_string(), "of the others that were run meets the constraints; not all were run".to_string()),
    }
}

/// A line for each value of each factor that has names instead of numbers, such as `With gpu=a100, the cheapest that is enough
/// is n=5: 71.00 EUR an hour.`. Assumptions are no choices.
pub fn by_choice(plan: &PlanFile, comparison: &Comparison) -> Vec<String> {
    let Some(objective) = plan.minimize else { return Vec::new() };
    let comparison = comparison.of_worst_case(plan, objective);
    let is_named = |factor: &Factor| {
        (2..=MOST_VALUES).contains(&factor.values.len())
            && !factor.is_assumed
            && factor.values.iter().any(|value| value.parse::<f64>().is_err())
    };
    let named = plan.factors.iter().enumerate().filter(|(_, factor)| is_named(factor));
    let lines = named.flat_map(|(number, factor)| {
        let values = 0..factor.values.len();
        values.map(|value| of_value(plan, &comparison, objective, (number, value))).collect::<Vec<String>>()
    });
    lines.collect()
}

fn of_value(plan: &PlanFile, comparison: &Comparison, objective: Objective, (number, value): (usize, usize)) -> String {
    let has = |row: &Row| plan.places(row.cell)[number] == value;
    let factor = &plan.factors[number];
    let name = format!("{}={}", factor.name, factor.values[value]);
    if let Some(best) = comparison.cheapest(objective, has) {
        let amount = best.amount(objective, plan.currency.as_deref());
        let is = if leaves_jobs_unfinished(best) { "meets the constraints" } else { "is enough" };
        return match choice_without(plan, best.cell, number) {
            rest if rest.is_empty() => format!("{name} {is}: {amount}."),
            rest => format!("With {name}, the cheapest that {is} is {rest}: {amount}."),
        };
    }
    let known = comparison.rows.iter().filter(|row| has(row) && row.keeps.is_some()).count();
    match cells_of_a_case(plan) / factor.values.len() - known {
        0 if known == 1 => format!("{name} is not enough."),
        0 => format!("With {name}, no alternative is enough."),
        open => {
            let searched = match plan.method {
                Method::Search => "; the search runs only what may be cheaper than the answer",
                Method::Sweep => "",
            };
            format!("With {name}, none that was run is enough, and {} not run{searched}.", were(open))
        }
    }
}

fn were(count: usize) -> String {
    let verb = if count == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(count, "alternative"))
}
