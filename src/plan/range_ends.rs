//! Alternatives that were not tried because the range of a factor ends.

use std::sync::Arc;

use super::cases::is_same_case;
use super::summary::{Comparison, Row};
use dryrack_scenario::{Factor, Objective, PlanFile};

/// A sentence for each factor whose range ends too early to tell: its largest value, with the smallest values of all other
/// factors, fails and costs less than the answer. Empty if there is only one factor. `cost` is that of an alternative that
/// was not run. More of an `idle` factor changes nothing. A search that is settled presumes what cheaper ones would do.
pub fn range_ends(
    plan: &PlanFile,
    (comparison, best): (&Comparison, &Row),
    objective: Objective,
    (idle, is_settled): (&[usize], bool),
    cost: impl Fn(usize) -> Option<f64>,
) -> String {
    let Some(least) = best.of(objective) else { return String::new() };
    // The value of an assumption is not chosen, so it stays that of the answer.
    let numeric: Vec<bool> = plan.factors.iter().map(|factor| ascends(&factor.values) && !factor.is_assumed).collect();
    if numeric.iter().filter(|is_numeric| **is_numeric).count() < 2 {
        return String::new();
    }
    let places = plan.places(best.cell);
    let mut text = String::new();
    let is_asked = |number: &usize| numeric[*number] && !idle.contains(number);
    for (number, factor) in plan.factors.iter().enumerate().filter(|(number, _)| is_asked(number)) {
        let corner = |at: usize| match (at == number, numeric[at]) {
            (true, _) => factor.values.len() - 1,
            (false, true) => 0,
            (false, false) => places[at],
        };
        let cell = cell_at(plan, corner);
        if cell == best.cell {
            continue;
        }
        let row = comparison.rows.iter().find(|row| row.cell == cell);
        let is_cheaper = row.map_or_else(|| cost(cell), |row| row.of(objective)).is_some_and(|cost| cost < least);
        let fails = match row.map(|row| row.keeps) {
            Some(Some(false)) => "fails",
            None if is_settled => "is presumed to fail",
            None | Some(Some(true) | None) => continue,
        };
        if is_cheaper {
            text.push_str(&format!(
                " {} is the largest `{}` tried alone and {fails}; larger values were not tried and may be cheaper than the \
                 answer.",
                plan.cell_name(cell),
                factor.name
            ));
        }
    }
    text
}

/// The number of the alternative with these values of the factors.
fn cell_at(plan: &PlanFile, place: impl Fn(usize) -> usize) -> usize {
    plan.factors.iter().enumerate().fold(0, |cell, (number, factor)| cell * factor.values.len() + place(number))
}

/// Whether `more` differs from `less` only in having more of factors whose values are ascending numbers.
pub(super) fn has_more(plan: &PlanFile, more: &Row, less: &Row) -> bool {
    if !is_same_case(plan, more.cell, less.cell) {
        return false;
    }
    let (more, less) = (plan.places(more.cell), plan.places(less.cell));
    let is_more =
        |((factor, more), less): ((&Factor, &usize), &usize)| more == less || (more > less && ascends(&factor.values));
    more != less && plan.factors.iter().zip(&more).zip(&less).all(is_more)
}

/// Whether the values are numbers of which each is larger than the one before.
pub(super) fn ascends(values: &[Arc<str>]) -> bool {
    let numbers: Vec<Option<f64>> = values.iter().map(|value| value.parse().ok()).collect();
    numbers.windows(2).all(|pair| matches!(pair, [Some(one), Some(other)] if one < other))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{alternative, plan};
    use super::*;
    use dryrack_scenario::Factor;

    /// Two factors of 0 to 2 nodes each. The answer is one of each for 10; two of the second cost 8 and fail.
    #[test]
    fn the_end_of_a_range_below_the_answer_is_named() {
        let single = plan();
        let factor = |name: &str| Factor {
            name: name.into(),
            values: ["0", "1", "2"].map(Into::into).to_vec(),
            ..single.factors[0].clone()
        };
        let plan = PlanFile { factors: vec![factor("a"), factor("h")], ..single };
        let row = |cell: usize, gpus: u64, broken: Option<&str>| {
            let row = alternative(cell, broken);
            Row { fleet: super::super::plan_run::FleetSize { gpus, ..row.fleet }, ..row }
        };
        let best = row(4, 10, None);
        let said_if = |is_settled: bool, rows: Vec<Row>, cost: f64| {
            range_ends(&plan, (&Comparison { rows }, &best), Objective::Gpus, (&[], is_settled), |_| Some(cost))
        };
        let said = |rows: Vec<Row>, cost: f64| said_if(true, rows, cost);
        let limit = Some("p95(queue_wait) <= 2h");
        let of_h = " a=0, h=2 is the largest `h` tried alone and fails; larger values were not tried and may be cheaper \
                    than the answer.";
        assert_eq!(said(vec![row(2, 8, limit), best.clone(), row(6, 12, None)], 99.0), of_h);
        assert_eq!(
            said(vec![row(2, 11, limit), best.clone(), row(6, 12, limit)], 99.0),
            "",
            "more of either is dearer"
        );
        assert_eq!(said(vec![best.clone(), row(6, 12, None)], 8.0), of_h.replace("fails", "is presumed to fail"));
        assert_eq!(said_if(false, vec![best.clone(), row(6, 12, None)], 8.0), "", "nothing is known of it");
        assert_eq!(said(vec![row(2, 8, None), best.clone(), row(6, 12, None)], 99.0), "", "it is enough");
    }
}
