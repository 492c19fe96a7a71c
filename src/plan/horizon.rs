//! How long each alternative of a plan stays enough while the load grows, and what to add then.

use super::breaks::BreakResult;
use super::cases::cells_of_a_case;
use super::horizon_cost::{kept_throughout, on_average, over_horizon};
use super::left_undone::leaves_jobs_unfinished;
use super::limits::{LimitedWaits, is_of_waiting, limits_a_wait};
use super::range_ends::has_more;
use super::summary::{Comparison, Row};
use super::sure::SeedsKept;
use dryrack_expect::NOT_DECIDED;
use dryrack_scenario::{Horizon, Objective, PlanFile};
use serde_json::{Value, json};

/// How long an alternative meets all constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct Lasting {
    /// The number of the alternative.
    pub cell: usize,
    pub until: LastingUntil,
    /// The alternative in each month that was run, from month 0.
    pub months: Vec<Row>,
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
    pub(super) fn lasts(&self, month: u32) -> bool {
        match &self.until {
            LastingUntil::End => true,
            LastingUntil::Month { month: first, .. } | LastingUntil::Unknown { month: first, .. } => month < *first,
        }
    }

    /// Whether the first month that is not enough was only too short to tell.
    pub(super) fn ends_undecided(&self) -> bool {
        matches!(&self.until, LastingUntil::Month { what, .. } if what.contains(NOT_DECIDED))
    }

    /// What the alternative costs in a month. A cost that is known before a run is the same in every month.
    pub(super) fn cost(&self, objective: Objective, month: u32) -> f64 {
        let row = self.months.get(month as usize).or(self.months.last());
        row.and_then(|row| row.of(objective)).unwrap_or(f64::INFINITY)
    }

    /// Whether this alternative costs less in a month, and on average over it and the later months in which both meet all
    /// constraints. A single month would let chance decide.
    fn is_cheaper_from(&self, month: u32, other: &Lasting, objective: Objective, last: u32) -> bool {
        let months = (month..=last).take_while(|month| self.lasts(*month) && other.lasts(*month));
        let more: Vec<f64> = months.map(|month| other.cost(objective, month) - self.cost(objective, month)).collect();
        more.first().is_some_and(|more| *more > 0.0) && more.iter().sum::<f64>() > 0.0
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

/// An answer for part of the horizon, up to the month before the next one.
#[derive(Clone, Debug, PartialEq)]
struct HorizonStep<'a> {
    from: u32,
    lasting: &'a Lasting,
    /// The first month in which another alternative is cheaper, if this one would still be enough then.
    cheaper: Option<u32>,
}

/// The cheapest alternative in the first month, and then the cheapest one from each month in which it is no longer enough, or
/// no longer the cheapest. The month in which nothing is enough any more is the second result.
fn steps(lasting: &[Lasting], objective: Objective, last: u32) -> (Vec<HorizonStep<'_>>, Option<u32>) {
    let mut steps: Vec<HorizonStep<'_>> = Vec::new();
    for month in 0..=last {
        let able = lasting.iter().filter(|one| one.lasts(month));
        let cost = |one: &Lasting| one.cost(objective, month);
        let Some(cheapest) =
            able.min_by(|one, other| cost(one).total_cmp(&cost(other)).then(one.cell.cmp(&other.cell)))
        else {
            return (steps, Some(month));
        };
        if let Some(now) = steps.last_mut().filter(|step| step.lasting.lasts(month)) {
            if !cheapest.is_cheaper_from(month, now.lasting, objective, last) {
                continue;
            }
            now.cheaper = Some(month);
        }
        steps.push(HorizonStep { from: month, lasting: cheapest, cheaper: None });
    }
    (steps, None)
}

/// When an alternative that meets all constraints today stops being enough, such as `it is no longer enough in month 7
/// (2027-06)`, and how sure this is.
pub fn stops_being_enough((plan, horizon): (&PlanFile, &Horizon), lasting: &[Lasting], row: &Row) -> Option<String> {
    let throughout = over_horizon(plan, horizon, lasting).rows.into_iter().find(|found| found.cell == row.cell);
    let cost = throughout.zip(plan.minimize).map(|(row, objective)| on_average(plan, &row, objective));
    let costs = cost.map_or(String::new(), |cost| format!(", and costs {cost}"));
    let (still, no_longer) = match leaves_jobs_unfinished(row) {
        true => (MEETS, "no longer meets the constraints"),
        false => (IS_ENOUGH, "is no longer enough"),
    };
    let one = lasting.iter().find(|one| one.cell == row.cell)?;
    let throughout = || one.in_each_month().map_or(String::new(), |sure| format!(". {sure}"));
    Some(match &one.until {
        LastingUntil::End => {
            format!("it {still} until the end of the horizon, {}{costs}{}", horizon.name(horizon.months), throughout())
        }
        LastingUntil::Month { month, .. } => {
            format!("it {no_longer} in {}{}", horizon.name_and_load(*month), one.then(*month))
        }
        LastingUntil::Unknown { month, .. } => {
            let last = horizon.name(month.checked_sub(1)?);
            format!("it {still} until {last}, and what follows is not known{}", throughout())
        }
    })
}

/// The load with which an alternative is no longer enough, and how sure this is, for the figure of this month on a page; empty
/// if it is enough throughout.
pub fn sure_end(horizon: &Horizon, lasting: &[Lasting], row: &Row) -> String {
    let one = lasting.iter().find(|one| one.cell == row.cell);
    one.map_or(String::new(), |one| match one.until {
        LastingUntil::Month { month, .. } => {
            let load = horizon.compared(month).map_or(String::new(), |load| format!(", {load}"));
            load + &one.then(month)
        }
        LastingUntil::End | LastingUntil::Unknown { .. } => String::new(),
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
    let (steps, left) = steps(lasting, objective, horizon.months);
    let mut sentences: Vec<String> = (steps.iter().enumerate())
        .map(|(number, step)| step_sentence((plan, horizon), objective, step, number == 0))
        .collect();
    sentences.extend(kept_throughout(plan, horizon, lasting));
    sentences.extend(
        steps
            .iter()
            .find_map(|step| contradicted(plan, (comparison, lasting), step.lasting, |month| horizon.name(month))),
    );
    if let Some(month) = left {
        let is_open = |one: &Lasting| matches!(one.until, LastingUntil::Unknown { .. });
        let what = match lasting.len() < cells_of_a_case(plan) || lasting.iter().any(is_open) {
            true => "The budget ended before all months of all alternatives were run: continue with `--resume`.",
            false => match largest_limit(comparison, lasting, objective) {
                Some(limit) => &format!("Larger values do not help, because jobs wait for a limit: {}.", limit.limit),
                None => "Add larger values to its factors.",
            },
        };
        sentences
            .push(format!("In {}, no alternative of this plan is known to be enough. {what}", horizon.name(month)));
    }
    sentences.push(assumption(horizon, comparison));
    sentences
}

/// Which alternative is enough, from when to when, and what happens then.
fn step_sentence(
    (plan, horizon): (&PlanFile, &Horizon),
    objective: Objective,
    step: &HorizonStep<'_>,
    is_first: bool,
) -> String {
    let name_of = |month: u32| horizon.name(month);
    let row = |month: u32| step.lasting.months.get(month as usize);
    let amount = |month: u32| row(month).map_or(String::new(), |row| row.amount(objective, plan.currency.as_deref()));
    let Some(now) = row(step.from).or(step.lasting.months.last()) else { return String::new() };
    let is = if leaves_jobs_unfinished(now) { MEETS } else { IS_ENOUGH };
    let end = match (step.cheaper, &step.lasting.until) {
        (Some(month), _) => month - 1,
        (None, LastingUntil::End) => horizon.months,
        (None, LastingUntil::Month { month, .. } | LastingUntil::Unknown { month, .. }) => month - 1,
    };
    let cost = match objective.is_known_before() || end == step.from {
        true => now.amount(objective, plan.currency.as_deref()),
        false => format!("{} in {}, {} in {}", amount(step.from), name_of(step.from), amount(end), name_of(end)),
    };
    let which = match is_first {
        true => format!("{} ({cost}) {is}", now.name),
        false => format!("From {}, the cheapest that {is} is {} ({cost})", name_of(step.from), now.name),
    };
    match (&step.lasting.until, step.cheaper) {
        (_, Some(month)) => {
            let dearer = amount(month);
            let still = if is_first { " and the cheapest" } else { "" };
            format!("{which}{still} until {}. It would cost {dearer} in {}.", name_of(end), name_of(month))
        }
        (LastingUntil::End, None) => format!("{which}, until the end of the horizon, {}.", name_of(horizon.months)),
        (LastingUntil::Month { month, what, .. }, None) => {
            let sure = step.lasting.before_and_then(horizon, *month).map_or(String::new(), |sure| format!(" {sure}."));
            format!("{which} until {}. In {}, {what}.{sure}", name_of(end), horizon.name_and_load(*month))
        }
        (LastingUntil::Unknown { why, .. }, None) => {
            format!("{which} until {}. What follows is not known: {why}.", name_of(end))
        }
    }
}

impl Lasting {
    /// With which share of all seeds all constraints hold in a month that is not enough; empty if nothing is random.
    fn then(&self, month: u32) -> String {
        let Some(row) = self.months.get(month as usize).filter(|row| row.is_random) else { return String::new() };
        match SeedsKept::of(row) {
            Some(then) => format!(
                ": all constraints hold with {} then, so with at most {} {} (95% confidence)",
                then.seeds(),
                then.most,
                then.all
            ),
            None => ", with the one seed of the plan, which does not show how sure this is".to_string(),
        }
    }

    /// With which share of all seeds all constraints hold in the last month that is enough and in the first that is not. `None`
    /// if nothing is random, or there is one seed.
    fn before_and_then(&self, horizon: &Horizon, failing: u32) -> Option<String> {
        let row = |month: u32| SeedsKept::of(self.months.get(month as usize)?);
        let (before, then) = (row(failing.checked_sub(1)?)?, row(failing)?);
        Some(format!(
            "In {}, all constraints held with {}, so with at least {} {}; in {} with {} of {}, so with at most {} (95% \
             confidence each)",
            horizon.name(failing - 1),
            before.seeds(),
            before.least,
            before.all,
            horizon.name(failing),
            then.kept,
            then.runs,
            then.most,
        ))
    }

    /// With which share of all seeds all constraints hold in each month that is enough. `None` if nothing is random, or there is
    /// one seed.
    fn in_each_month(&self) -> Option<String> {
        let enough = (0..).zip(&self.months).filter(|(month, _)| self.lasts(*month));
        let seeds: Option<Vec<SeedsKept>> = enough.map(|(_, row)| SeedsKept::of(row)).collect();
        let fewest = seeds?.into_iter().min_by_key(|month| month.kept)?;
        let at_least = if fewest.kept == fewest.runs { "" } else { "at least " };
        Some(format!(
            "In each of these months, all constraints held with {at_least}{}, so with at least {} {} (95% confidence each)",
            fewest.seeds(),
            fewest.least,
            fewest.all,
        ))
    }

    /// The seeds of a month in `plan.json`.
    fn seeds_json(&self, month: u32) -> Option<Value> {
        let row = self.months.get(month as usize)?;
        let mut value = json!({"month": month, "seeds": row.runs, "meet_all": row.kept});
        if let Some(of) = SeedsKept::of(row) {
            value["share_at_least"] = json!(of.at_least());
            value["share_at_most"] = json!(of.at_most());
        }
        Some(value)
    }
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
fn assumption(horizon: &Horizon, comparison: &Comparison) -> String {
    let has =
        |name: &str| comparison.rows.iter().any(|row| row.metrics.get(name).is_some_and(|found| found.mean > 0.0));
    // A service is a job too, and the load of a service is that of its requests.
    let (what, whose) = match (has("requests"), has("jobs_completed")) {
        (true, false) => ("requests", "not their tokens"),
        (true, true) => ("jobs and requests", "not their size or length"),
        (false, _) => ("jobs", "not their size or length"),
    };
    format!(
        "Assumed: month 0 has the load of the scenario, and the load grows by {}, compounded; it is {:.1}% of today's in \
         {}. Each month is a run of the whole scenario with the load of that month, which stays constant during the run. \
         Only the number of {what} grows, {whose}. Months were run in order, and each alternative until its first month \
         that fails.",
        horizon.typed,
        horizon.factor(horizon.months) * 100.0,
        horizon.name(horizon.months),
    )
}

/// A row for each alternative: its name, its cost, until when it is enough, and what fails then. The cheapest comes first. If
/// only runs measure the cost, it is that of month 0, the last month that is enough, and the mean of these months, and those
/// that are enough longest come first.
pub fn horizon_rows(plan: &PlanFile, horizon: &Horizon, lasting: &[Lasting]) -> Vec<Vec<String>> {
    let objective = plan.minimize.unwrap_or(Objective::Gpus);
    let currency = plan.currency.as_deref();
    let whole = over_horizon(plan, horizon, lasting);
    let row = |one: &Lasting| {
        let now = one.months.first()?;
        let (until, what) = match &one.until {
            LastingUntil::End => (format!("after {}", horizon.name(horizon.months)), String::new()),
            LastingUntil::Month { month, what, .. } => (horizon.name(*month), what.clone()),
            LastingUntil::Unknown { month, why } => (format!("unknown from {}", horizon.name(*month)), why.clone()),
        };
        let mut cells = vec![now.name.clone(), now.amount(objective, currency)];
        let mean = whole.rows.iter().find(|row| row.cell == one.cell);
        if !objective.is_known_before() {
            let last = (0..=horizon.months).take_while(|month| one.lasts(*month)).last();
            let last = last.and_then(|month| one.months.get(month as usize));
            let amount = |row: Option<&Row>| row.map_or(String::new(), |row| row.amount(objective, currency));
            cells.extend([amount(last), amount(mean)]);
        }
        cells.extend([until, what]);
        let (months, cost) = match objective.is_known_before() {
            true => (0, now.of(objective)),
            false => {
                ((0..=horizon.months).filter(|month| one.lasts(*month)).count(), mean.and_then(|row| row.of(objective)))
            }
        };
        Some((std::cmp::Reverse(months), cost.unwrap_or(f64::INFINITY), cells))
    };
    let mut rows: Vec<_> = lasting.iter().filter_map(row).collect();
    rows.sort_by(|(months, one, _), (others, other, _)| months.cmp(others).then(one.total_cmp(other)));
    rows.into_iter().map(|(.., row)| row).collect()
}

/// The header of these rows.
pub fn horizon_header(plan: &PlanFile) -> Vec<&'static str> {
    let costs: &[&str] = match plan.minimize.is_none_or(Objective::is_known_before) {
        true => &["cost"],
        false => &["cost in month 0", "in the last month it is enough", "mean of these months"],
    };
    [&["alternative"], costs, &[NO_LONGER_ENOUGH, "what fails then"]].concat()
}

/// The column of the month in which an alternative is no longer enough.
pub(super) const NO_LONGER_ENOUGH: &str = "no longer enough in";

/// The months in which each alternative is enough. If only runs measure the cost, it has the mean of each month.
pub fn horizon_json(
    (plan, horizon): (&PlanFile, &Horizon),
    comparison: &Comparison,
    lasting: &[Lasting],
    sentences: &[String],
) -> Value {
    let objective = plan.minimize.filter(|objective| !objective.is_known_before());
    let rows = lasting.iter().map(|one| {
        let name = comparison.rows.iter().find(|row| row.cell == one.cell).map(|row| row.name.as_str());
        let (month, what, known) = match &one.until {
            LastingUntil::End => (None, None, true),
            LastingUntil::Month { month, what, .. } => (Some(*month), Some(what), true),
            LastingUntil::Unknown { month, why } => (Some(*month), Some(why), false),
        };
        let last = (0..=horizon.months).take_while(|month| one.lasts(*month)).last();
        let mut value = json!({"alternative": name, "breaks_in_month": month, "what": what, "is_known": known});
        value["is_decided"] = (!one.ends_undecided()).into();
        value["last_month_enough"] = last.and_then(|month| one.seeds_json(month)).into();
        value["first_month_failing"] = month.filter(|_| known).and_then(|month| one.seeds_json(month)).into();
        if let Some(objective) = objective {
            value["cost_of_months"] = one.months.iter().map(|row| row.of(objective)).collect();
        }
        value
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
            let lasting: Vec<Lasting> = until
                .into_iter()
                .enumerate()
                .map(|(cell, until)| Lasting { cell, until, months: Vec::new() })
                .collect();
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
        let of = |until| Lasting { cell: 0, until, months: Vec::new() };
        let failing = of(LastingUntil::Month { month: 3, what: String::new(), limit: None });
        assert!(failing.lasts(2) && !failing.lasts(3) && !failing.lasts(4));
        assert!(of(LastingUntil::End).lasts(99));
    }
}
