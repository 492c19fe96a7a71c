//! How long each alternative of a plan stays enough while the load grows, and what to add then.

use super::answer::has_more;
use super::breaks::BreakResult;
use super::left_undone::leaves_jobs_unfinished;
use super::limits::{LimitedWaits, is_of_waiting, limits_a_wait};
use super::summary::{Comparison, Row};
use dryrack_scenario::{Horizon, Objective, PlanFile};
use serde_json::{Value, json};

/// How long an alternative meets all constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lasting {
    /// The number of the alternative.
    pub cell: usize,
    pub until: LastingUntil,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastingUntil {
    /// It meets all constraints in every month of the horizon.
    End,
    /// The first month in which it does not, what happened, and the limit for which most jobs wait then.
    Month { month: u32, what: String, limit: Option<LimitedWaits> },
    /// It is not known from this month on.
    Unknown { month: u32, why: String },
}

impl Lasting {
    /// Whether the alternative is known to meet all constraints in every month up to this one.
    fn lasts(&self, month: u32) -> bool {
        match &self.until {
            LastingUntil::End => true,
            LastingUntil::Month { month: first, .. } | LastingUntil::Unknown { month: first, .. } => month < *first,
        }
    }
}

/// What an alternative that was run shows about the first month, which has the load of the scenario. `None` if it meets
/// all constraints, so that later months must be run.
pub fn first_month(row: &Row) -> Option<LastingUntil> {
    match row.keeps {
        Some(true) => None,
        Some(false) => {
            let is_of_waiting = row.broken.as_ref().is_some_and(|broken| is_of_waiting(&broken.constraint));
            let limit = row.limit.clone().filter(|_| is_of_waiting);
            Some(LastingUntil::Month { month: 0, what: row.broken_text().unwrap_or_default(), limit })
        }
        None => Some(LastingUntil::Unknown { month: 0, why: "not all seeds were run".to_string() }),
    }
}

/// What the runs of a month show; `None` if all constraints hold.
pub fn of_month(month: u32, result: &BreakResult) -> Option<LastingUntil> {
    if let Some(fault) = &result.fault {
        return Some(LastingUntil::Unknown { month, why: fault.clone() });
    }
    let limit = || result.broken.as_ref().and_then(|broken| broken.limit.clone());
    (!result.keeps).then(|| LastingUntil::Month { month, what: result.what_broke(), limit: limit() })
}

/// An answer for part of the horizon.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HorizonStep<'a> {
    from: u32,
    lasting: &'a Lasting,
}

/// The cheapest alternative in the first month, and after each month in which it is no longer enough the cheapest one
/// that is. Each alternative of a step meets all constraints in every month up to the end of its step.
fn steps<'a>(
    comparison: &Comparison,
    lasting: &'a [Lasting],
    objective: Objective,
) -> (Vec<HorizonStep<'a>>, Option<u32>) {
    let cost = |cell: usize| {
        let row = comparison.rows.iter().find(|row| row.cell == cell);
        row.and_then(|row| row.of(objective)).unwrap_or(f64::INFINITY)
    };
    let (mut steps, mut month) = (Vec::new(), 0);
    loop {
        let able = lasting.iter().filter(|one| one.lasts(month));
        let Some(next) =
            able.min_by(|one, other| cost(one.cell).total_cmp(&cost(other.cell)).then(one.cell.cmp(&other.cell)))
        else {
            return (steps, Some(month));
        };
        steps.push(HorizonStep { from: month, lasting: next });
        match &next.until {
            LastingUntil::End => return (steps, None),
            LastingUntil::Month { month: first, .. } | LastingUntil::Unknown { month: first, .. } => month = *first,
        }
    }
}

/// When an alternative that meets all constraints today stops being enough, such as `it is no longer enough in month 7
/// (2027-06)`.
pub fn stops_being_enough(horizon: &Horizon, lasting: &[Lasting], row: &Row) -> Option<String> {
    let (still, no_longer) = match leaves_jobs_unfinished(row) {
        true => (MEETS, "no longer meets the constraints"),
        false => (IS_ENOUGH, "is no longer enough"),
    };
    Some(match &lasting.iter().find(|one| one.cell == row.cell)?.until {
        LastingUntil::End => format!("it {still} until the end of the horizon, {}", horizon.name(horizon.months)),
        LastingUntil::Month { month, .. } => format!("it {no_longer} in {}", horizon.name(*month)),
        LastingUntil::Unknown { month, .. } => {
            format!("it {still} until {}, and what follows is not known", horizon.name(month.checked_sub(1)?))
        }
    })
}

/// What is said of an alternative that meets all constraints: the second if it leaves jobs unfinished.
const IS_ENOUGH: &str = "is enough";
const MEETS: &str = "meets the constraints";

/// The sentences about the horizon: how growth is applied, how long the answer is enough, and what to add then.
pub fn horizon_sentences(
    plan: &PlanFile,
    horizon: &Horizon,
    comparison: &Comparison,
    lasting: &[Lasting],
) -> Vec<String> {
    let objective = plan.minimize.unwrap_or(Objective::Gpus);
    let amount = |cell: usize| {
        let row = comparison.rows.iter().find(|row| row.cell == cell).expect("it was run");
        let is = if leaves_jobs_unfinished(row) { MEETS } else { IS_ENOUGH };
        (row.name.clone(), row.amount(objective, plan.currency.as_deref()), is)
    };
    let (steps, left) = steps(comparison, lasting, objective);
    let mut sentences = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let (name, cost, is) = amount(step.lasting.cell);
        let which = if number == 0 {
            format!("{name} ({cost}) {is}")
        } else {
            format!("From {}, the cheapest that {is} is {name} ({cost})", horizon.name(step.from))
        };
        sentences.push(match &step.lasting.until {
            LastingUntil::End => format!("{which}, until the end of the horizon, {}.", horizon.name(horizon.months)),
            LastingUntil::Month { month, what, .. } => {
                format!("{which} until {}. In {}, {what}.", horizon.name(month - 1), horizon.name(*month))
            }
            LastingUntil::Unknown { month, why } => {
                format!("{which} until {}. What follows is not known: {why}.", horizon.name(month - 1))
            }
        });
    }
    sentences.extend(
        steps
            .iter()
            .find_map(|step| contradicted(plan, (comparison, lasting), step.lasting, |month| horizon.name(month))),
    );
    if let Some(month) = left {
        let is_open = |one: &Lasting| matches!(one.until, LastingUntil::Unknown { .. });
        let what = match lasting.len() < plan.cells() || lasting.iter().any(is_open) {
            true => "The budget ended before all months of all alternatives were run: continue with `--resume`.",
            false => match largest_limit(comparison, lasting, objective) {
                Some(limit) => &format!("Larger values do not help, because jobs wait for a limit: {}.", limit.limit),
                None => "Add larger values to its factors.",
            },
        };
        sentences
            .push(format!("In {}, no alternative of this plan is known to be enough. {what}", horizon.name(month)));
    }
    sentences.push(assumption(horizon));
    sentences
}

/// The limit for which the jobs of the dearest alternative wait when it is no longer enough.
fn largest_limit<'a>(
    comparison: &Comparison,
    lasting: &'a [Lasting],
    objective: Objective,
) -> Option<&'a LimitedWaits> {
    let cost = |one: &Lasting| {
        let row = comparison.rows.iter().find(|row| row.cell == one.cell);
        row.and_then(|row| row.of(objective)).unwrap_or(f64::NEG_INFINITY)
    };
    match &lasting.iter().max_by(|one, other| cost(one).total_cmp(&cost(other)))?.until {
        LastingUntil::Month { limit, .. } => limit.as_ref(),
        LastingUntil::End | LastingUntil::Unknown { .. } => None,
    }
}

/// A sentence if an alternative that has more than this one waits too long in an earlier month. The month in which this
/// one stops being enough is then partly chance.
fn contradicted(
    plan: &PlanFile,
    (comparison, lasting): (&Comparison, &[Lasting]),
    of: &Lasting,
    name_of: impl Fn(u32) -> String,
) -> Option<String> {
    let row = |cell: usize| comparison.rows.iter().find(|row| row.cell == cell);
    let less = row(of.cell)?;
    let waits_in = |one: &Lasting| match &one.until {
        LastingUntil::Month { month, what, .. } if limits_a_wait(what) => Some(*month),
        _ => None,
    };
    let earlier = lasting.iter().filter_map(|one| Some((waits_in(one)?, row(one.cell)?)));
    let (month, more) = earlier
        .filter(|(month, more)| of.lasts(*month) && has_more(plan, more, less))
        .min_by_key(|(month, more)| (*month, more.cell))?;
    Some(format!(
        "Do not rely on these months: {} has more than {} and yet waits too long in {}, while {} is still enough then. \
         So the months are partly chance here; use more seeds.",
        more.name,
        less.name,
        name_of(month),
        less.name
    ))
}

/// How growth is applied.
fn assumption(horizon: &Horizon) -> String {
    format!(
        "Assumed: month 0 has the load of the scenario, and the load grows by {}, compounded; it is {:.1}% of today's in \
         {}. Each month is a run of the whole scenario with the load of that month, which stays constant during the run. \
         Only the number of jobs grows, not their size or length. Months were run in order, and each alternative until \
         its first month that fails.",
        horizon.typed,
        horizon.factor(horizon.months) * 100.0,
        horizon.name(horizon.months),
    )
}

/// A row for each alternative, the cheapest first: its name, its cost, until when it is enough, and what fails then.
pub fn horizon_rows(
    plan: &PlanFile,
    horizon: &Horizon,
    comparison: &Comparison,
    lasting: &[Lasting],
) -> Vec<Vec<String>> {
    let objective = plan.minimize.unwrap_or(Objective::Gpus);
    let mut rows: Vec<(f64, Vec<String>)> = (lasting.iter())
        .filter_map(|one| {
            let row = comparison.rows.iter().find(|row| row.cell == one.cell)?;
            let (until, what) = match &one.until {
                LastingUntil::End => (format!("after {}", horizon.name(horizon.months)), String::new()),
                LastingUntil::Month { month, what, .. } => (horizon.name(*month), what.clone()),
                LastingUntil::Unknown { month, why } => (format!("unknown from {}", horizon.name(*month)), why.clone()),
            };
            let cost = row.amount(objective, plan.currency.as_deref());
            Some((row.of(objective).unwrap_or(f64::INFINITY), vec![row.name.clone(), cost, until, what]))
        })
        .collect();
    rows.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The header of these rows.
pub const HORIZON_HEADER: [&str; 4] = ["alternative", "cost", "no longer enough in", "what fails then"];

pub fn horizon_json(horizon: &Horizon, comparison: &Comparison, lasting: &[Lasting], sentences: &[String]) -> Value {
    let rows = lasting.iter().map(|one| {
        let name = comparison.rows.iter().find(|row| row.cell == one.cell).map(|row| row.name.as_str());
        let (month, what, known) = match &one.until {
            LastingUntil::End => (None, None, true),
            LastingUntil::Month { month, what, .. } => (Some(*month), Some(what), true),
            LastingUntil::Unknown { month, why } => (Some(*month), Some(why), false),
        };
        json!({"alternative": name, "breaks_in_month": month, "what": what, "is_known": known})
    });
    let rows: Vec<Value> = rows.collect();
    json!({"months": horizon.months, "growth": horizon.typed, "alternatives": rows, "sentences": sentences})
}

#[cfg(test)]
mod tests {
    use super::super::samples::{alternative, plan};
    use super::*;

    /// n=2 has more than n=1, so it must not wait too long earlier.
    #[test]
    fn months_that_contradict_each_other_are_said() {
        let plan = plan();
        let comparison = Comparison { rows: (0..3).map(|cell| alternative(cell, None)).collect() };
        let waits =
            |month| LastingUntil::Month { month, what: "p95(queue_wait) <= 30m fails".to_string(), limit: None };
        let said = |second: LastingUntil| {
            let until = [waits(4), second, LastingUntil::End];
            let lasting: Vec<Lasting> =
                until.into_iter().enumerate().map(|(cell, until)| Lasting { cell, until }).collect();
            contradicted(&plan, (&comparison, &lasting), &lasting[0], |month| format!("month {month}"))
                .unwrap_or_default()
        };
        assert!(
            said(waits(2))
                .contains("Do not rely on these months: n=2 has more than n=1 and yet waits too long in month 2")
        );
        assert!(!said(waits(4)).contains("rely") && !said(LastingUntil::End).contains("rely"));
        let budget = LastingUntil::Month { month: 2, what: "cost_per_month <= 3000 fails".to_string(), limit: None };
        assert!(!said(budget).contains("rely"), "more machines cost more");
    }

    #[test]
    fn an_alternative_lasts_until_its_first_month_that_fails() {
        let of = |until| Lasting { cell: 0, until };
        let failing = of(LastingUntil::Month { month: 3, what: String::new(), limit: None });
        assert!(failing.lasts(2) && !failing.lasts(3) && !failing.lasts(4));
        assert!(of(LastingUntil::End).lasts(99));
    }
}
