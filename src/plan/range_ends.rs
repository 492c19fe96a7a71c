//! Alternatives that were not tried because the range of a factor ends, below the answer or at it.

use std::sync::Arc;

use super::breaks::{BreakResult, NodeKind};
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

/// A factor of whose values the answer has the lowest or the highest that was tried, although one beyond it would cost less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndOfAnswer {
    pub factor: Arc<str>,
    pub value: Arc<str>,
    pub is_lowest: bool,
    /// The alternative with the next value inside the range.
    pub inside: usize,
}

/// The ends of ranges at which the answer is. A value beyond such an end may exist, and costs less as far as the next value inside
/// shows. Below 1, there is none. `cost` is that of an alternative that was not run.
pub fn ends_of_answer(
    plan: &PlanFile,
    comparison: &Comparison,
    best: &Row,
    cost: impl Fn(usize) -> Option<f64>,
) -> Vec<EndOfAnswer> {
    let Some(objective) = plan.minimize else { return Vec::new() };
    let places = plan.places(best.cell);
    let of_factor = |(number, factor): (usize, &Factor)| {
        let numbers: Option<Vec<f64>> = factor.values.iter().map(|value| value.parse().ok()).collect();
        let numbers = numbers.filter(|_| !factor.is_assumed)?;
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_by(|one, other| numbers[*one].total_cmp(&numbers[*other]));
        let [first, second, ..] = order[..] else { return None };
        let (last, before) = (order[order.len() - 1], order[order.len() - 2]);
        let (is_lowest, next) = match places[number] {
            at if at == first && numbers[at] > 1.0 => (true, second),
            at if at == last => (false, before),
            _ => return None,
        };
        let inside = cell_at(plan, |at| if at == number { next } else { places[at] });
        let of_inside = match comparison.rows.iter().find(|row| row.cell == inside) {
            Some(row) => row.of(objective),
            None => cost(inside),
        };
        let end = EndOfAnswer {
            factor: Arc::clone(&factor.name),
            value: Arc::clone(&factor.values[places[number]]),
            is_lowest,
            inside,
        };
        Some(end).filter(|_| best.of(objective) < of_inside)
    };
    plan.factors.iter().enumerate().filter_map(of_factor).collect()
}

impl EndOfAnswer {
    /// The sentence; empty if a run with a node less shows that less is not enough. `here` are the nodes of the answer, `inside`
    /// those with the next value inside the range.
    pub fn sentence(&self, here: &[NodeKind], inside: &[NodeKind], breaks: &[BreakResult]) -> String {
        let EndOfAnswer { factor, value, is_lowest, .. } = self;
        if !is_lowest {
            return format!(" {value} is the highest value of `{factor}` that was tried; a higher one may cost less.");
        }
        let count = |kinds: &[NodeKind], called: &str| {
            kinds.iter().find(|kind| kind.called == called).map_or(0, |kind| kind.count)
        };
        let is_changed = |called: &String| count(here, called) != count(inside, called);
        let of_kind = |found: &&BreakResult| found.change.without.as_ref().is_some_and(is_changed) && found.runs > 0;
        let less: Vec<&BreakResult> = breaks.iter().filter(of_kind).collect();
        if !less.is_empty() && less.iter().all(|found| !found.keeps) {
            return String::new();
        }
        let shown = match less[..] {
            [found] => format!(": {}, it still meets everything with {}", found.change.what, found.run_with()),
            _ => String::new(),
        };
        format!(
            " {value} is the lowest value of `{factor}` that was tried; a lower one may meet the constraints too{shown}."
        )
    }
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
