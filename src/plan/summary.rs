//! Compares the alternatives of a plan, and answers its question.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::journal::Runs;
use super::plan_run::{FleetSize, PlanRun};
use super::search::SearchResult;
use dryrack_expect::SeedShare;
use dryrack_metrics::{
    Estimate, ResampledFrom, WaitSections, definitions, estimate, estimate_resampled, share_at_least,
};
use dryrack_report::about;
use dryrack_scenario::{Factor, Objective, PlanFile};
use dryrack_units::{Money, SimDuration, counted, grouped};

/// All alternatives that were run.
pub struct Comparison {
    /// One row for each alternative, in order.
    pub rows: Vec<Row>,
}

/// One alternative over its seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub cell: usize,
    pub name: String,
    pub fleet: FleetSize,
    pub runs: usize,
    /// The number of seeds with which each constraint held.
    pub held: Vec<usize>,
    /// The number of seeds with which all constraints held.
    pub kept: usize,
    /// Whether seeds can make a difference, because some run drew a random number.
    pub is_random: bool,
    /// How the lists of the seeds were resampled from one log, if they were.
    pub resampled: Option<ResampledFrom>,
    /// The intervals of the waits from one run, if there is no more than one different run.
    pub sections: Option<WaitSections>,
    /// Whether the alternative satisfies every constraint; `None` if this depends on seeds that were not run yet.
    pub keeps: Option<bool>,
    /// A violated constraint: the first seed with which it failed, its name, and what happened.
    pub broken: Option<(u64, String, String)>,
    /// The run-wide metrics by name. A metric that is undefined with some seed is left out.
    pub metrics: BTreeMap<&'static str, Estimate>,
}

/// Aggregates the runs of each alternative.
pub fn compare(plan: &PlanFile, runs: &Runs) -> Comparison {
    let all: Vec<&PlanRun> = runs.values().collect();
    let rows = all.chunk_by(|one, other| one.cell == other.cell).map(|runs| row(plan, runs)).collect();
    Comparison { rows }
}

fn row(plan: &PlanFile, runs: &[&PlanRun]) -> Row {
    let held: Vec<usize> = (0..plan.asked.len())
        .map(|constraint| runs.iter().filter(|run| run.constraints[constraint].held).count())
        .collect();
    let broken = runs.iter().find_map(|run| {
        let kept = run.constraints.iter().find(|kept| !kept.held)?;
        Some((run.seed, kept.name.clone(), kept.happened.clone()))
    });
    let is_random = runs.iter().any(|run| run.is_random);
    let resampled = runs[0].resampled.map(|list| ResampledFrom { blocks: list.blocks, length: list.length });
    let sections = runs[0].sections.clone().filter(|_| runs.len() == 1 || !is_random);
    let metrics = definitions().into_iter().filter_map(|definition| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| run.metrics.get(definition.name)?.as_f64()).collect();
        let found = match resampled {
            Some(from) => estimate_resampled(&values?, from)?,
            None => estimate(&values?)?,
        };
        let found = of_one_run(definition.name, found, sections.as_ref());
        Some((definition.name, possible(definition.counts_in, found)))
    });
    Row {
        cell: runs[0].cell,
        name: plan.cell_name(runs[0].cell),
        fleet: runs[0].fleet,
        runs: runs.len(),
        is_random,
        resampled,
        metrics: metrics.collect(),
        sections,
        keeps: keeps(&plan.asked, &held, runs.len(), plan.seeds.len()),
        held,
        kept: runs.iter().filter(|run| run.constraints.iter().all(|kept| kept.held)).count(),
        broken,
    }
}

/// The estimate of a wait with its interval from one run, if that run gives one.
fn of_one_run(name: &str, found: Estimate, sections: Option<&WaitSections>) -> Estimate {
    let range = sections.and_then(|sections| match name {
        "queue_wait_mean_seconds" => sections.mean,
        "queue_wait_p95_seconds" => sections.p95.and_then(|(low, high)| Some((low, high?))),
        _ => None,
    });
    match range.filter(|_| found.half_width.is_none()) {
        Some((low, high)) => Estimate { range: Some((low, high)), half_width: Some((high - low) / 2.0), ..found },
        None => found,
    }
}

/// The estimate with an interval of values that can be: none is negative, and no part of a whole is more than 1.
fn possible(counts_in: &str, found: Estimate) -> Estimate {
    let most = if counts_in == "part" { 1.0 } else { f64::INFINITY };
    match found.interval() {
        Some((low, high)) if low < 0.0 || high > most => {
            let (low, high) = (low.max(0.0), high.min(most));
            Estimate { range: Some((low, high)), half_width: Some((high - low) / 2.0), ..found }
        }
        _ => found,
    }
}

/// Whether every constraint holds in its required share of all `seeds`. `None` if the results of the first `run` seeds
/// do not decide this yet.
pub(super) fn keeps(asked: &[SeedShare], held: &[usize], run: usize, seeds: usize) -> Option<bool> {
    let left = seeds - run;
    // In the worst case all remaining seeds fail; in the best case all of them hold.
    let certain = |(share, held): (&SeedShare, &usize)| (share.holds(*held, seeds), share.holds(held + left, seeds));
    let all: Vec<(bool, bool)> = asked.iter().zip(held).map(certain).collect();
    if all.iter().any(|(least, most)| !least && !most) {
        Some(false)
    } else if all.iter().all(|(least, most)| *least && *most) {
        Some(true)
    } else {
        None
    }
}

impl Row {
    /// The violated constraint and its seed and, if some jobs can never run, their number.
    pub fn broken_text(&self) -> Option<String> {
        let (seed, name, happened) = self.broken.as_ref()?;
        let never = happened.split_once(" can never run").map(|(jobs, _)| format!(": {jobs} can never run"));
        Some(format!("{name}, seed {seed}{}", never.unwrap_or_default()))
    }

    /// The value of an objective: a price in the currency of the file, kWh, or a count. A measured value is the mean
    /// over the runs.
    pub fn of(&self, objective: Objective) -> Option<f64> {
        match objective {
            Objective::Gpus | Objective::Nodes => self.fleet.of(objective).map(|count| count as f64),
            Objective::PricePerHour => self.fleet.of(objective).map(|millionths| millionths as f64 / 1e6),
            Objective::Cost | Objective::CostPerMonth | Objective::Energy => {
                self.measured(objective).map(|found| found.mean)
            }
        }
    }

    fn measured(&self, objective: Objective) -> Option<&Estimate> {
        self.metrics.get(objective.name())
    }

    /// An amount with its unit, such as `24 GPUs`, `58.80 an hour` or `912.4 ± 3.1 kWh`.
    pub(super) fn amount(&self, objective: Objective, currency: Option<&str>) -> String {
        let currency = currency.map_or(String::new(), |currency| format!(" {currency}"));
        let measured = |unit: &str, digits: usize| {
            self.measured(objective).map_or(String::new(), |found| {
                let more = match (found.range, found.half_width) {
                    (Some((low, high)), _) => {
                        format!(
                            " ({} to {})",
                            grouped(&format!("{low:.digits$}")),
                            grouped(&format!("{high:.digits$}"))
                        )
                    }
                    (None, Some(half_width)) => format!(" ± {}", grouped(&format!("{half_width:.digits$}"))),
                    (None, None) => String::new(),
                };
                format!("{}{more}{unit}", grouped(&format!("{:.digits$}", found.mean)))
            })
        };
        match objective {
            Objective::Gpus => counted(self.fleet.gpus as usize, "GPU"),
            Objective::Nodes => counted(self.fleet.nodes as usize, "node"),
            Objective::PricePerHour => {
                let hour = self.fleet.price_per_hour_millionths.unwrap_or_default();
                let month = match currency.is_empty() {
                    true => String::new(),
                    false => format!(", {}{currency} a month", grouped(&of_a_month(hour).to_string())),
                };
                format!("{}{currency} an hour{month}", grouped(&Money::new(hour).to_string()))
            }
            Objective::Cost => format!("a cost of {}", measured(&currency, 2)),
            Objective::CostPerMonth => measured(&format!("{currency} a month"), 2),
            Objective::Energy => measured(" kWh", 1),
        }
    }
}

impl Comparison {
    /// The cheapest alternative that satisfies every constraint. On a tie, the first one.
    pub fn best(&self, objective: Objective) -> Option<&Row> {
        let keeping = self.rows.iter().filter(|row| row.keeps == Some(true));
        let known = keeping.filter_map(|row| Some((row, row.of(objective)?)));
        known.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(row, _)| row)
    }

    /// The rows in the order for a reader: those that satisfy every constraint, then those for which this is unknown,
    /// then the others. With an objective, each group is sorted by cost. Ties stay in order.
    pub fn ranked(&self, objective: Option<Objective>) -> Vec<&Row> {
        let place = |row: &Row| match row.keeps {
            Some(true) => 0,
            None => 1,
            Some(false) => 2,
        };
        let amount = |row: &Row| objective.and_then(|objective| row.of(objective)).unwrap_or(f64::INFINITY);
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|one, other| {
            let by_amount = amount(one).total_cmp(&amount(other));
            place(one).cmp(&place(other)).then(by_amount).then(one.cell.cmp(&other.cell))
        });
        rows
    }

    /// Whether the price per hour of every alternative is known.
    pub fn has_prices(&self) -> bool {
        self.rows.iter().all(|row| row.fleet.price_per_hour_millionths.is_some())
    }

    /// A row for each alternative: its factors, its fleet, each constraint and each metric.
    pub fn csv(&self, plan: &PlanFile) -> Vec<u8> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        const FLEET: [&str; 5] = ["gpus", "nodes", "price_per_hour", "runs", "keeps"];
        // A factor called like a column of the fleet does not take its name.
        let column = |factor: &Factor| match FLEET.contains(&&*factor.name) {
            true => format!("factor_{}", factor.name),
            false => factor.name.to_string(),
        };
        let mut header: Vec<String> = plan.factors.iter().map(column).collect();
        header.extend(FLEET.map(str::to_string));
        header.extend((1..=plan.asked.len()).map(|number| format!("constraint_{number}_held")));
        for definition in definitions() {
            header.extend([definition.name.to_string(), format!("{}_half_width", definition.name)]);
        }
        writer.write_record(&header).expect("written into memory");
        for row in &self.rows {
            let mut cells: Vec<String> = plan.values(row.cell).map(|(_, value)| value.to_string()).collect();
            cells.extend([row.fleet.gpus.to_string(), row.fleet.nodes.to_string()]);
            cells.push(row.fleet.price().unwrap_or_default());
            cells.extend([row.runs.to_string(), row.keeps.map_or(String::new(), |keeps| keeps.to_string())]);
            cells.extend(row.held.iter().map(usize::to_string));
            for definition in definitions() {
                let found = row.metrics.get(definition.name);
                cells.push(found.map_or(String::new(), |found| found.mean.to_string()));
                let half_width = found.and_then(|found| found.half_width);
                cells.push(half_width.map_or(String::new(), |half_width| half_width.to_string()));
            }
            writer.write_record(&cells).expect("written into memory");
        }
        writer.into_inner().expect("written into memory")
    }

    pub fn json(&self, plan: &PlanFile) -> Value {
        let rows = self.rows.iter().map(|row| {
            let factors: Map<String, Value> =
                plan.values(row.cell).map(|(factor, value)| (factor.name.to_string(), json!(**value))).collect();
            let metrics: Map<String, Value> = row.metrics.iter().map(|(name, found)| (name.to_string(), of(found))).collect();
            let broken = row.broken.as_ref().map(|(seed, name, happened)| json!({"seed": seed, "constraint": name, "happened": happened}));
            json!({
                "factors": factors, "gpus": row.fleet.gpus, "nodes": row.fleet.nodes, "price_per_hour": row.fleet.price(),
                "runs": row.runs, "keeps": row.keeps, "held": row.held, "broken": broken, "metrics": metrics,
            })
        });
        rows.collect()
    }
}

fn of(found: &Estimate) -> Value {
    #[derive(Serialize)]
    struct PlanFigures {
        mean: f64,
        half_width: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        range: Option<(f64, f64)>,
    }
    json!(PlanFigures { mean: found.mean, half_width: found.half_width, range: found.range })
}

/// The answer of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The answer in a few sentences.
    pub short: String,
    /// How it was found, what else would do, and which fleet it is; may be empty.
    pub how: String,
}

impl Answer {
    pub fn text(&self) -> String {
        format!("{} {}", self.short, self.how).trim_end().to_string()
    }
}

/// The answer, and the way in which it was found. `found` is the result of a search.
pub fn answer(plan: &PlanFile, comparison: &Comparison, found: Option<&SearchResult>) -> Answer {
    let rows = comparison.rows.len();
    let Some(objective) = plan.minimize else {
        let keeping = comparison.rows.iter().filter(|row| row.keeps == Some(true)).count();
        let short = match plan.asked.len() {
            0 => format!("{} were run.", counted(rows, "alternative")),
            constraints => format!("{keeping} of {} meet {}.", counted(rows, "alternative"), all_of(constraints)),
        };
        return Answer { short, how: String::new() };
    };
    let short = match comparison.best(objective) {
        Some(row) => {
            let fleet = row.amount(objective, plan.currency.as_deref());
            let seeds = counted(row.runs, "seed");
            let sure = how_sure(row);
            let meets = format!("It meets {} with {seeds}{sure}.", all_of(plan.asked.len()));
            match contradicted(plan, comparison, row) {
                None => format!("{} is enough: {fleet}. {meets}", row.name),
                Some(more) => {
                    let rest = above(plan, comparison, objective);
                    format!("{} is the cheapest: {fleet}. {meets} {more}{rest}", row.name)
                }
            }
        }
        None => none_keeps(plan, comparison),
    };
    let mut text = match found {
        Some(found) => how(plan, found),
        None => match comparison.rows.iter().filter(|row| row.keeps.is_none()).count() {
            _ if rows < plan.cells() => format!("{} of {} were run.", rows, counted(plan.cells(), "alternative")),
            0 => format!("Each of {} was run.", counted(plan.cells(), "alternative")),
            open => {
                format!("The result for {} is unknown, because not all seeds were run.", counted(open, "alternative"))
            }
        },
    };
    if let Some(best) = comparison.best(objective) {
        text.push_str(&beside(plan, comparison, objective, best));
    }
    Answer { short, how: text }
}

/// What the first screen of the page shows of the answer: figures, and what each of them is.
pub fn figures(plan: &PlanFile, row: &Row) -> Vec<(String, String)> {
    let currency = plan.currency.as_deref().map_or(String::new(), |currency| format!(" {currency}"));
    let of = |count: u64, word: &str| {
        (grouped(&count.to_string()), if count == 1 { word.into() } else { format!("{word}s") })
    };
    let mut figures = vec![of(row.fleet.nodes, "node"), of(row.fleet.gpus, "GPU")];
    if let Some(hour) = row.fleet.price_per_hour_millionths {
        let month = grouped(&of_a_month(hour).to_string());
        figures
            .push((format!("{}{currency}", month.split('.').next().unwrap_or(&month)), "a month of 730 hours".into()));
    }
    if row.runs > 1 && row.is_random && !plan.asked.is_empty() {
        let least = (share_at_least(row.kept, row.runs) * 100.0).floor();
        figures.push((
            format!("{} of {}", row.kept, row.runs),
            format!("seeds meet the constraints, so at least {least}% of all do (95% confidence)"),
        ));
    } else if !plan.asked.is_empty() {
        figures.push(("1 run".to_string(), "and therefore no measure of how sure the answer is".to_string()));
    }
    figures
}

/// The price of a month at a price per hour.
fn of_a_month(millionths_per_hour: u64) -> Money {
    Money::new(millionths_per_hour.saturating_mul(HOURS_PER_MONTH))
}

/// Whether `more` differs from `less` only in having more of factors whose values are ascending numbers.
fn has_more(plan: &PlanFile, more: &Row, less: &Row) -> bool {
    let ascends = |values: &[std::sync::Arc<str>]| {
        let numbers: Vec<Option<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        numbers.windows(2).all(|pair| matches!(pair, [Some(one), Some(other)] if one < other))
    };
    let (more, less) = (plan.places(more.cell), plan.places(less.cell));
    let is_more =
        |((factor, more), less): ((&Factor, &usize), &usize)| more == less || (more > less && ascends(&factor.values));
    more != less && plan.factors.iter().zip(&more).zip(&less).all(is_more)
}

/// Whether a constraint bounds a time or a slowdown from above, which more machines should shorten. A budget, or a share of
/// GPUs in use, is another matter.
fn limits_a_wait(constraint: &str) -> bool {
    let shortened = ["wait", "slowdown", "turnaround", "makespan", "ttft", "tpot"];
    constraint.contains('<') && shortened.iter().any(|word| constraint.contains(word))
}

/// An alternative that was run, has more than this one, costs more and yet waits too long: the nearest in cost.
fn failing_above<'r>(plan: &PlanFile, comparison: &'r Comparison, row: &Row, objective: Objective) -> Option<&'r Row> {
    let least = row.of(objective)?;
    let waits = |row: &Row| row.broken.as_ref().is_some_and(|(_, constraint, _)| limits_a_wait(constraint));
    let fails = comparison.rows.iter().filter(|other| other.keeps == Some(false) && waits(other));
    let fails = fails.filter(|other| has_more(plan, other, row));
    let dearer = fails.filter_map(|other| Some((other.of(objective)?, other))).filter(|(cost, _)| *cost > least);
    dearer.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, other)| other)
}

/// A sentence if a larger and dearer alternative fails. The one that meets the constraints may then do so by chance.
fn contradicted(plan: &PlanFile, comparison: &Comparison, row: &Row) -> Option<String> {
    let larger = failing_above(plan, comparison, row, plan.minimize?)?;
    let why = larger.broken_text().map_or(String::new(), |why| format!(" ({why})"));
    Some(format!(
        "Do not rely on it: {} has more and fails{why}, so whether the constraints hold is partly chance here.",
        larger.name
    ))
}

/// The cheapest alternative that meets the constraints and above which nothing that was run fails.
fn above(plan: &PlanFile, comparison: &Comparison, objective: Objective) -> String {
    let keeping = comparison.rows.iter().filter(|row| row.keeps == Some(true));
    let settled = keeping.filter(|row| failing_above(plan, comparison, row, objective).is_none());
    let known = settled.filter_map(|row| Some((row.of(objective)?, row)));
    match known.min_by(|(one, _), (other, _)| one.total_cmp(other)) {
        Some((_, row)) => {
            let fleet = row.amount(objective, plan.currency.as_deref());
            format!(" The cheapest above which none that was run fails is {}: {fleet}.", row.name)
        }
        None => " Above each that meets them, another one fails.".to_string(),
    }
}

/// A twelfth of the 8,760 hours of a year of 365 days.
const HOURS_PER_MONTH: u64 = 730;

/// The alternatives that cost the same as the best one and meet all constraints too, and the next one that costs more.
fn beside(plan: &PlanFile, comparison: &Comparison, objective: Objective, best: &Row) -> String {
    let Some(least) = best.of(objective) else { return String::new() };
    let keeping = || comparison.rows.iter().filter(|row| row.keeps == Some(true) && row.cell != best.cell);
    let cost = |row: &&Row| row.of(objective).unwrap_or(f64::INFINITY);
    let equal: Vec<&str> =
        keeping().filter(|row| cost(row).total_cmp(&least).is_eq()).map(|row| row.name.as_str()).collect();
    let asked = if plan.asked.len() < 2 { "the constraint" } else { "all constraints" };
    let mut text = match equal[..] {
        [] => String::new(),
        [one] => format!(" {one} costs the same as the answer and meets {asked} too."),
        [first, ..] => format!(
            " {} cost the same as the answer and meet {asked} too; the first is {first}.",
            counted(equal.len(), "other alternative")
        ),
    };
    let dearer = keeping().filter(|row| cost(row) > least && cost(row).is_finite());
    if let Some(next) = dearer.min_by(|one, other| cost(one).total_cmp(&cost(other)).then(one.cell.cmp(&other.cell))) {
        let more = match least > 0.0 {
            true => format!(", {:.1}% more", (cost(&next) / least - 1.0) * 100.0),
            false => String::new(),
        };
        let amount = next.amount(objective, plan.currency.as_deref());
        let of = if comparison.rows.len() < plan.cells() { "Of those that were run, the" } else { "The" };
        text.push_str(&format!(" {of} next cheapest that meets {asked} is {}: {amount}{more}.", next.name));
    }
    text
}

/// What a reader must know if instances are created on demand and only the time until placement is limited. A replica is
/// placed as soon as its instance is requested, so this time leaves out the start of the instance.
pub fn start_wait_note(comparison: &Comparison, constraints: &[String]) -> Option<String> {
    let names = |word: &str| constraints.iter().any(|constraint| constraint.contains(word));
    let creates = |row: &Row| row.metrics.get("instances_made").is_some_and(|made| made.mean > 0.0);
    (comparison.rows.iter().any(creates) && names("queue_wait") && !names("start_wait")).then(|| {
        "Instances are created on demand, and only queue_wait is limited: it ends when a replica is placed on an \
         instance that was requested, not when the instance is up and the replica starts. Limit start_wait as well, such \
         as p95(start_wait) <= 30m."
            .to_string()
    })
}

/// With fewer blocks than this, resampled lists are said to show too little of how logs differ.
const FEW_BLOCKS: u64 = 10;

/// The conclusion from the seeds that were run about all possible seeds; empty for a single run.
fn how_sure(row: &Row) -> String {
    if row.runs < 2 {
        return of_sections(row);
    }
    if !row.is_random {
        return format!(", which all give the same run, because nothing in it is random{}", of_sections(row));
    }
    let least = (share_at_least(row.kept, row.runs) * 100.0).floor();
    let with = match row.kept == row.runs {
        true => String::new(),
        false => format!(" (with {} of them at the same time)", row.kept),
    };
    let all = match row.resampled {
        Some(from) => {
            format!("of all lists that can be drawn from the {} of this log", counted(from.blocks as usize, "block"))
        }
        None => "of all seeds".to_string(),
    };
    let few = match row.resampled {
        Some(from) if from.blocks < FEW_BLOCKS => {
            ". So few blocks do not show how much such logs differ; use shorter blocks, or a longer log"
        }
        _ => "",
    };
    format!("{with}, and therefore with at least {least}% {all} (95% confidence, Clopper and Pearson){few}")
}

/// What a single run shows about other runs of the same kind; empty if it is not a sample of anything.
fn of_sections(row: &Row) -> String {
    let Some(sections) = &row.sections else { return String::new() };
    let of = format!("{} sections of {}", sections.sections, about(sections.length()));
    match (sections.is_dependent(), sections.p95) {
        (true, _) => format!(
            ". This is one run. It gives no interval, because its {of} depend on each other (correlation {:.2}); \
             resample a longer trace, or use more seeds",
            sections.correlation
        ),
        (false, None) => String::new(),
        (false, Some((low, high))) => {
            let time = |seconds: f64| about(SimDuration::from_nanos((seconds * 1e9) as u64));
            let waits = match sections.never_placed {
                0 => "the waits".to_string(),
                never => format!("the waits (without {}, never placed)", counted(never as usize, "replica")),
            };
            match high {
                Some(high) => format!(
                    ". This is one run: by its {of}, the 95th percentile of {waits} is {} to {} (95% confidence)",
                    time(low),
                    time(high)
                ),
                None => format!(
                    ". This is one run, too short for an upper bound of the 95th percentile of {waits}: by its {of}, it is {} \
                     or more (95% confidence). Resample the trace, or use more seeds",
                    time(low)
                ),
            }
        }
    }
}

/// The answer if no alternative is known to satisfy the constraints. Alternatives that were not run might still do so.
fn none_keeps(plan: &PlanFile, comparison: &Comparison) -> String {
    let (rows, asked) = (comparison.rows.len(), all_of(plan.asked.len()));
    let open = comparison.rows.iter().filter(|row| row.keeps.is_none()).count();
    match (rows - open, open) {
        (0, 0) => format!("It is unknown whether any alternative meets {asked}, because none was run."),
        (0, _) => {
            format!("It is unknown whether any alternative meets {asked}, because none was run with enough seeds.")
        }
        (1, 0) => format!("The one alternative that was run does not meet {asked}."),
        (failing, 0) => format!("None of the {} that were run meets {asked}.", counted(failing, "alternative")),
        (failing, open) => format!(
            "Of the {} that were run, {failing} cannot meet {asked}; the result for the other {open} is unknown.",
            counted(rows, "alternative")
        ),
    }
}

fn all_of(constraints: usize) -> String {
    match constraints {
        1 => "the constraint".to_string(),
        constraints => format!("all {constraints} constraints"),
    }
}

/// Which part of the answer was run, which was presumed, and how the presumption was tested.
fn how(plan: &PlanFile, found: &SearchResult) -> String {
    let names = |factors: &[usize]| {
        factors.iter().map(|factor| format!("`{}`", plan.factors[*factor].name)).collect::<Vec<_>>().join(" and ")
    };
    let what = if found.best.is_some() { "cheaper alternative" } else { "alternative" };
    let mut text = match (found.cheaper_failing, found.cheaper_presumed) {
        (0, 0) if found.cheaper_unknown > 0 => String::new(),
        (0, 0) => format!("There is no {what}."),
        (1, 0) => format!("The only {what} was run and fails."),
        (failing, 0) => format!("Each of {} was run and fails.", counted(failing, what)),
        (failing, presumed) => format!(
            "Of {}, {failing} were run and fail; {presumed} were not run. They are presumed to fail, because an \
             alternative that has more {} and is otherwise the same fails.",
            counted(failing + presumed, what),
            names(&found.monotone),
        ),
    };
    if found.cheaper_presumed > 0 && found.tested == 0 {
        text.push_str(" None of these was run to test this.");
    } else if found.cheaper_presumed > 0 {
        text.push_str(&format!(" To test this, {} were run, which fail.", counted(found.tested, "alternative")));
    }
    if !found.refuted.is_empty() {
        text.push_str(&format!(
            " More {} made an alternative worse, so nothing is presumed from it.",
            names(&found.refuted)
        ));
    }
    if found.cheaper_unknown > 0 {
        text.push_str(&format!(
            " The budget is used up: the result for {} is unknown.",
            counted(found.cheaper_unknown, what)
        ));
    }
    let mut text = text.trim_start().to_string();
    text.push_str(&format!(" {} of {} were run.", found.run, counted(plan.cells(), "alternative")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_scenario::Method;
    use dryrack_units::Permille;
    use dryrack_yaml::Span;

    fn alternative(cell: usize, broken: Option<&str>) -> Row {
        Row {
            cell,
            name: format!("n={}", cell + 1),
            fleet: FleetSize { gpus: cell as u64 + 1, nodes: 1, price_per_hour_millionths: None },
            runs: 1,
            held: vec![usize::from(broken.is_none())],
            kept: usize::from(broken.is_none()),
            is_random: false,
            resampled: None,
            sections: None,
            keeps: Some(broken.is_none()),
            broken: broken.map(|constraint| (1, constraint.to_string(), String::new())),
            metrics: BTreeMap::new(),
        }
    }

    /// With more of `n`, jobs must not wait longer. A budget that is exceeded with more is no contradiction.
    #[test]
    fn an_answer_above_which_one_waits_too_long_is_not_said_to_be_enough() {
        let factor = Factor {
            name: "n".into(),
            path: "params.n".into(),
            values: ["1", "2", "3"].map(Into::into).to_vec(),
            place: Span::default(),
            value_places: vec![Span::default(); 3],
        };
        let plan = PlanFile {
            title: String::new(),
            name: "plan.yaml".into(),
            text: "".into(),
            scenario: "one.yaml".into(),
            fixed: Vec::new(),
            factors: vec![factor],
            seeds: vec![1],
            minimize: Some(Objective::Gpus),
            minimize_place: None,
            currency: None,
            constraints_place: None,
            asked: vec![SeedShare::ALL],
            method: Method::Sweep,
            runs: None,
            time: None,
            horizon: None,
        };
        let of = |broken: [Option<&str>; 3]| {
            let rows = broken.iter().enumerate().map(|(cell, broken)| alternative(cell, *broken)).collect();
            answer(&plan, &Comparison { rows }, None).short
        };
        assert_eq!(
            of([None, Some("p95(queue_wait) <= 30m"), None]),
            "n=1 is the cheapest: 1 GPU. It meets the constraint with 1 seed. Do not rely on it: n=2 has more and fails \
             (p95(queue_wait) <= 30m, seed 1), so whether the constraints hold is partly chance here. The cheapest above \
             which none that was run fails is n=3: 3 GPUs."
        );
        let enough = "n=1 is enough: 1 GPU. It meets the constraint with 1 seed.";
        assert_eq!(of([None, Some("cost_per_month <= 3000"), None]), enough);
        assert_eq!(of([None, None, None]), enough);
        assert_eq!(
            of([Some("p95(queue_wait) <= 30m"), None, None]),
            enough.replace("n=1", "n=2").replace("1 GPU", "2 GPUs")
        );
    }

    #[test]
    fn an_interval_of_placed_replicas_says_so() {
        let row = |never_placed| Row {
            cell: 0,
            name: String::new(),
            fleet: FleetSize { gpus: 0, nodes: 0, price_per_hour_millionths: None },
            runs: 1,
            held: Vec::new(),
            kept: 1,
            is_random: true,
            resampled: None,
            sections: Some(WaitSections {
                sections: 10,
                section_seconds: 86_400.0,
                correlation: 0.0,
                mean: Some((60.0, 120.0)),
                p95: Some((600.0, Some(1200.0))),
                never_placed,
            }),
            keeps: Some(true),
            broken: None,
            metrics: BTreeMap::new(),
        };
        let all = "This is one run: by its 10 sections of 1d00h, the 95th percentile of the waits is 10m to 20m (95% \
                   confidence)";
        assert_eq!(of_sections(&row(0)), format!(". {all}"));
        let some = all.replace("the waits", "the waits (without 3 replicas, never placed)");
        assert_eq!(of_sections(&row(3)), format!(". {some}"));
    }

    #[test]
    fn a_constraint_is_decided_as_soon_as_no_seed_can_change_it() {
        let (all, most, rarely) =
            (SeedShare::ALL, SeedShare::AtLeast(Permille::new(800)), SeedShare::AtMost(Permille::new(200)));
        let rows = [
            ("one failure is enough", all, 3, 4, Some(false)),
            ("all so far is not all", all, 4, 4, None),
            ("all of all", all, 10, 10, Some(true)),
            ("8 of 10 are enough, whatever follows", most, 8, 8, Some(true)),
            ("3 that fail are too many", most, 0, 3, Some(false)),
            ("2 that fail are not", most, 0, 2, None),
            ("rare: 3 are too many", rarely, 3, 3, Some(false)),
            ("rare: 8 without are enough", rarely, 0, 8, Some(true)),
            ("rare: 7 without are not", rarely, 0, 7, None),
        ];
        for (sentence, share, held, run, expected) in rows {
            assert_eq!(keeps(&[share], &[held], run, 10), expected, "{sentence}");
        }
        assert_eq!(keeps(&[all, most], &[4, 0], 4, 10), Some(false), "one that fails is enough");
        assert_eq!(keeps(&[], &[], 1, 10), Some(true), "nothing is asked");
    }
}
