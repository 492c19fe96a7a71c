//! Assumptions that a plan varies, such as how fast a GPU is. Nobody chooses their values, so the answer is that of the worst
//! values, and the answers of the others follow.

use super::left_undone::leaves_jobs_unfinished;
use super::search::SearchResult;
use super::summary::{Comparison, Row};
use dryrack_scenario::{Objective, PlanFile};

/// The assumed factors with several values, by their numbers in the plan.
fn assumed(plan: &PlanFile) -> impl Iterator<Item = usize> + '_ {
    let is_assumed = |number: &usize| plan.factors[*number].is_assumed && plan.factors[*number].values.len() > 1;
    (0..plan.factors.len()).filter(is_assumed)
}

/// The case of an alternative: its values of the assumed factors, by their indexes.
pub(super) fn case_of(plan: &PlanFile, cell: usize) -> Vec<usize> {
    let places = plan.places(cell);
    assumed(plan).map(|number| places[number]).collect()
}

/// Whether two alternatives have the same assumptions.
pub(super) fn is_same_case(plan: &PlanFile, one: usize, other: usize) -> bool {
    case_of(plan, one) == case_of(plan, other)
}

/// Whether two alternatives differ only in assumptions.
pub(super) fn is_same_choice(plan: &PlanFile, one: usize, other: usize) -> bool {
    let (one, other) = (plan.places(one), plan.places(other));
    let is_assumed: Vec<usize> = assumed(plan).collect();
    (0..one.len()).all(|number| is_assumed.contains(&number) || one[number] == other[number])
}

/// All cases, in the order of the plan. Without assumed factors there is one.
fn cases(plan: &PlanFile) -> Vec<Vec<usize>> {
    assumed(plan).fold(vec![Vec::new()], |cases, number| {
        let with = |case: &Vec<usize>| {
            let values = 0..plan.factors[number].values.len();
            values.map(|value| [case.as_slice(), &[value]].concat()).collect::<Vec<_>>()
        };
        cases.iter().flat_map(with).collect()
    })
}

/// The number of alternatives in each case.
pub fn cells_of_a_case(plan: &PlanFile) -> usize {
    plan.cells() / cases(plan).len()
}

/// The name of a case, such as `sp=1.2`.
fn name(plan: &PlanFile, case: &[usize]) -> String {
    let parts = assumed(plan).zip(case).map(|(number, value)| {
        let factor = &plan.factors[number];
        format!("{}={}", factor.name, factor.values[*value])
    });
    parts.collect::<Vec<String>>().join(", ")
}

/// The case whose cheapest alternative that meets all constraints costs most; one in which none meets them comes first.
fn worst(plan: &PlanFile, comparison: &Comparison, objective: Objective) -> Vec<usize> {
    let cost = |case: &Vec<usize>| {
        let best = comparison.cheapest(objective, |row| case_of(plan, row.cell) == *case);
        best.and_then(|row| row.of(objective)).unwrap_or(f64::INFINITY)
    };
    let all = cases(plan).into_iter().map(|case| (cost(&case), case));
    all.reduce(|most, next| if next.0 > most.0 { next } else { most }).map(|(_, case)| case).unwrap_or_default()
}

impl Comparison {
    /// The answer: the cheapest alternative that satisfies every constraint. On a tie, the first one. If the plan varies
    /// assumptions, it is that of the worst case, and `None` if no alternative is known to be enough then.
    pub fn best(&self, plan: &PlanFile, objective: Objective) -> Option<&Row> {
        let worst = worst(plan, self, objective);
        self.cheapest(objective, |row| case_of(plan, row.cell) == worst)
    }

    /// The alternatives of the case of the answer: all of them, unless the plan varies assumptions.
    pub fn of_worst_case(&self, plan: &PlanFile, objective: Objective) -> Comparison {
        let worst = worst(plan, self, objective);
        let rows = self.rows.iter().filter(|row| case_of(plan, row.cell) == worst).cloned();
        Comparison { rows: rows.collect() }
    }
}

/// The number of the case of the answer, as in [`plans_of_cases`].
pub fn case_of_answer(plan: &PlanFile, comparison: &Comparison) -> usize {
    let worst = worst(plan, comparison, plan.minimize.unwrap_or(Objective::Gpus));
    cases(plan).iter().position(|case| *case == worst).unwrap_or(0)
}

/// The name of the case of the answer; `None` if the plan varies no assumption.
pub(super) fn worst_case(plan: &PlanFile, comparison: &Comparison, objective: Objective) -> Option<String> {
    assumed(plan).next().map(|_| name(plan, &worst(plan, comparison, objective)))
}

/// Sentences about the cases other than that of the answer; empty if the plan varies no assumption.
pub(super) fn other_cases(plan: &PlanFile, comparison: &Comparison, objective: Objective) -> String {
    let names: Vec<String> = assumed(plan).map(|number| format!("`{}`", plan.factors[number].name)).collect();
    if names.is_empty() {
        return String::new();
    }
    let worst = worst(plan, comparison, objective);
    let answer = comparison.best(plan, objective);
    let (is, values) = match names.len() {
        1 => ("is an assumption", "value"),
        _ => ("are assumptions", "values"),
    };
    let mut text = format!(
        " {} {is} and not a choice, so this is the answer for the worst {values}, {}.",
        names.join(" and "),
        name(plan, &worst)
    );
    for case in cases(plan).into_iter().filter(|case| *case != worst) {
        let with = name(plan, &case);
        let Some(best) = comparison.cheapest(objective, |row| case_of(plan, row.cell) == case) else {
            text.push_str(&format!(" With {with}, none that was run is known to be enough."));
            continue;
        };
        let amount = best.amount(objective, plan.currency.as_deref());
        if answer.is_some_and(|answer| is_same_choice(plan, answer.cell, best.cell)) {
            // The same fleet may do less work, or pay less for power.
            let cost = if objective.is_known_before() { String::new() } else { format!(": {amount}") };
            text.push_str(&format!(" With {with}, it is the same fleet{cost}."));
            continue;
        }
        let is = if leaves_jobs_unfinished(best) { "meets the constraints" } else { "is enough" };
        let which = match choice(plan, best.cell) {
            name if name.is_empty() => "the fleet".to_string(),
            name => name,
        };
        text.push_str(&format!(" With {with}, {which} {is}: {amount}."));
        let same = comparison.rows.iter().find(|row| {
            case_of(plan, row.cell) == case && answer.is_some_and(|answer| is_same_choice(plan, answer.cell, row.cell))
        });
        if same.is_some_and(|row| row.keeps == Some(false)) {
            text.push_str(" The fleet of the answer is not enough then.");
        }
    }
    text
}

/// The name of an alternative without its assumptions, such as `gpu=h100, n=2`.
pub(super) fn choice(plan: &PlanFile, cell: usize) -> String {
    choice_without(plan, cell, usize::MAX)
}

/// The name of an alternative without its assumptions and without one factor; empty if it has no other one.
pub(super) fn choice_without(plan: &PlanFile, cell: usize, without: usize) -> String {
    let is_left_out: Vec<usize> = assumed(plan).chain([without]).collect();
    let parts = plan.values(cell).enumerate().filter(|(number, _)| !is_left_out.contains(number));
    parts.map(|(_, (factor, value))| format!("{}={value}", factor.name)).collect::<Vec<String>>().join(", ")
}

/// A plan of each case, with the numbers that its alternatives have in the whole plan. A search looks for an answer in each.
pub fn plans_of_cases(plan: &PlanFile) -> Vec<(PlanFile, Vec<usize>)> {
    let of = |case: Vec<usize>| {
        let mut part = plan.clone();
        for (number, value) in assumed(plan).zip(&case) {
            let factor = &mut part.factors[number];
            factor.values = vec![factor.values[*value].clone()];
            factor.settings = vec![factor.settings[*value].clone()];
        }
        (part, (0..plan.cells()).filter(|cell| case_of(plan, *cell) == case).collect())
    };
    cases(plan).into_iter().map(of).collect()
}

impl SearchResult {
    /// Adds the result for another case. The best of both is unknown if one of them has none.
    pub fn join(self, plan: &PlanFile, other: SearchResult) -> SearchResult {
        let is_chosen = |factor: &usize| assumed(plan).all(|number| number != *factor);
        let both = |one: Vec<usize>, other: Vec<usize>| {
            let mut all: Vec<usize> = one.into_iter().chain(other).filter(is_chosen).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        SearchResult {
            best: self.best.and(other.best),
            cheaper_failing: self.cheaper_failing + other.cheaper_failing,
            cheaper_presumed: self.cheaper_presumed + other.cheaper_presumed,
            cheaper_unknown: self.cheaper_unknown + other.cheaper_unknown,
            presumed_with_more: self.presumed_with_more + other.presumed_with_more,
            run: self.run + other.run,
            tested: self.tested + other.tested,
            monotone: both(self.monotone, other.monotone),
            refuted: both(self.refuted, other.refuted),
            choices: [self.choices, other.choices].concat(),
        }
    }
}
