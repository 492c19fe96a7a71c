//! What stands beside an answer: the next cheapest alternative, and the cheapest one with each named value of a choice.

use serde_json::{Value, json};

use super::cases::{cells_of_a_case, choice_without};
use super::left_undone::leaves_jobs_unfinished;
use super::search::{ChoiceResult, SearchResult};
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

/// The values of each factor that has names instead of numbers, each with the number of its factor. Assumptions are no choices.
pub fn named_choices(plan: &PlanFile) -> Vec<(usize, usize)> {
    let is_named = |factor: &Factor| {
        (2..=MOST_VALUES).contains(&factor.values.len())
            && !factor.is_assumed
            && factor.values.iter().any(|value| value.parse::<f64>().is_err())
    };
    let named = plan.factors.iter().enumerate().filter(|(_, factor)| is_named(factor));
    named.flat_map(|(number, factor)| (0..factor.values.len()).map(move |value| (number, value))).collect()
}

/// The cheapest alternative with one named value of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct CheapestOfChoice {
    /// A sentence, such as `With gpu=a100, the cheapest that is enough is n=5: 71.00 EUR an hour.`.
    pub sentence: String,
    /// The choice, the alternative, its cost, and this compared with the answer.
    pub cells: Vec<String>,
    pub is_answer: bool,
    pub json: Value,
}

/// The cheapest alternative with each value of [`named_choices`]. `found` is the result of a search.
pub fn by_choice(plan: &PlanFile, comparison: &Comparison, found: Option<&SearchResult>) -> Vec<CheapestOfChoice> {
    let Some(objective) = plan.minimize else { return Vec::new() };
    let comparison = comparison.of_worst_case(plan, objective);
    let of = |choice: (usize, usize)| {
        let searched = found.and_then(|found| found.choices.iter().find(|one| one.choice == choice));
        of_value(plan, &comparison, (objective, choice), searched)
    };
    named_choices(plan).into_iter().map(of).collect()
}

fn of_value(
    plan: &PlanFile,
    comparison: &Comparison,
    (objective, (number, value)): (Objective, (usize, usize)),
    searched: Option<&ChoiceResult>,
) -> CheapestOfChoice {
    let has = |row: &Row| plan.places(row.cell)[number] == value;
    let factor = &plan.factors[number];
    let name = format!("{}={}", factor.name, factor.values[value]);
    let answer = comparison.cheapest(objective, |_| true);
    let Some(best) = comparison.cheapest(objective, has) else {
        let known = comparison.rows.iter().filter(|row| has(row) && row.keeps.is_some()).count();
        let all = cells_of_a_case(plan) / factor.values.len();
        let none = match (searched, all - known) {
            (_, 0) if known == 1 => "is not enough".to_string(),
            (_, 0) => "no alternative of this plan is enough".to_string(),
            (Some(ChoiceResult { failing, presumed, unknown: 0, presumed_with_more, .. }), _) => format!(
                "no alternative of this plan is enough: {} run, and {} presumed to fail, because {} {}",
                were(*failing),
                if *presumed == 1 { "1 is".to_string() } else { format!("{presumed} are") },
                if *presumed == 1 { "it has" } else { "they have" },
                match presumed - presumed_with_more {
                    0 => "more",
                    _ if *presumed_with_more == 0 => "less",
                    _ => "less, or more",
                },
            ),
            (Some(ChoiceResult { unknown, .. }), _) => {
                let unknown = counted(*unknown, "alternative");
                format!("none that was run is enough, and the result for {unknown} is unknown")
            }
            (None, open) => format!("none that was run is enough, and {} not run", were(open)),
        };
        let sentence = if known == 1 && all == 1 { format!("{name} {none}.") } else { format!("With {name}, {none}.") };
        let json = json!({"choice": name, "alternative": null, "searched": searched.map(ChoiceResult::json)});
        return CheapestOfChoice {
            sentence,
            cells: vec![name, none, String::new(), String::new()],
            is_answer: false,
            json,
        };
    };
    let amount = best.amount(objective, plan.currency.as_deref());
    let is = if leaves_jobs_unfinished(best) { "meets the constraints" } else { "is enough" };
    let is_answer = answer.is_some_and(|answer| answer.cell == best.cell);
    let compared = match answer {
        Some(_) if is_answer => "the answer".to_string(),
        Some(answer) => {
            let more = more(objective, answer, best);
            if more.is_empty() { "the same cost".to_string() } else { more.trim_start_matches(", ").to_string() }
        }
        None => String::new(),
    };
    let rest = choice_without(plan, best.cell, number);
    let open = match searched.map_or(0, |found| found.unknown) {
        0 => String::new(),
        open => format!("; the result for {} is unknown", counted(open, "cheaper alternative")),
    };
    let than = if is_answer { String::new() } else { format!(", {compared}{}", than_the_answer(&compared)) };
    let sentence = match rest.is_empty() {
        true => format!("{name} {is}: {amount}{than}."),
        false => format!("With {name}, the cheapest that {is} is {rest}: {amount}{than}{open}."),
    };
    let alternative = if rest.is_empty() { is.to_string() } else { format!("{rest}{open}") };
    let json = json!({"choice": name, "alternative": best.name, "cost": best.of(objective), "searched": searched.map(ChoiceResult::json)});
    CheapestOfChoice { sentence, cells: vec![name, alternative, amount, compared], is_answer, json }
}

fn than_the_answer(compared: &str) -> &'static str {
    if compared.ends_with("more") { " than the answer" } else { " as the answer" }
}

fn were(count: usize) -> String {
    let verb = if count == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(count, "alternative"))
}
