//! Compares the alternatives of a plan.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::breaks::rounded;
use super::journal::Runs;
use super::limits::{LimitedWaits, counts_jobs};
use super::plan_run::{ConstraintResult, EACH_CAN_RUN, FleetSize, PlanRun};
use dryrack_expect::{COLD_START, SeedShare};
use dryrack_metrics::{
    Definition, Estimate, FEWEST_LISTS, ResampledFrom, WaitSections, definitions, estimate, estimate_resampled,
    range_over_runs,
};
use dryrack_report::TimeLimit;
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
    /// The constraints, as the plan states them.
    pub constraints: Vec<String>,
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
    /// The instances that clouds created on demand, if there were any.
    pub rented: Option<Rented>,
    /// Whether the alternative satisfies every constraint; `None` if this depends on seeds that were not run yet.
    pub keeps: Option<bool>,
    /// A constraint that is violated with some seed.
    pub broken: Option<Broken>,
    /// What the plan minimizes, with each seed, if only a run measures it.
    pub costs: Vec<(u64, f64)>,
    /// How many jobs can never run, and why, with the first seed with which there are some.
    pub unplaceable: Option<String>,
    /// The limit for which most jobs wait: with the seed of the violated constraint, or the first one.
    pub limit: Option<LimitedWaits>,
    /// The least part of the node hours of which the energy is known, if it is not all.
    pub partial_power: Option<f64>,
    /// The mean number of jobs that ran longer than their estimate because their GPU is slower.
    pub past_estimates: f64,
    /// The run-wide metrics by name. A metric that is undefined with some seed is left out.
    pub metrics: BTreeMap<&'static str, Estimate>,
}

/// Instances of clouds over all seeds: the most at one time, the GPUs of the most, and the mean of their hours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rented {
    pub instances: u64,
    pub gpus: u64,
    pub hours: f64,
}

impl Rented {
    fn of(runs: &[&PlanRun], hours: Option<f64>) -> Option<Rented> {
        let most = |name: &str| runs.iter().filter_map(|run| run.metrics.get(name)?.as_u64()).max().unwrap_or(0);
        let (instances, gpus) = (most("instances_most"), most("instance_gpus_most"));
        hours.filter(|_| instances > 0).map(|hours| Rented { instances, gpus, hours })
    }

    /// Such as `up to 40 rented at a time (472.0 instance-hours)`.
    pub fn text(&self) -> String {
        let hours = grouped(&format!("{:.1}", self.hours));
        format!("up to {} rented at a time ({hours} instance-hours)", grouped(&self.instances.to_string()))
    }

    /// Such as `40 with 320 GPUs`; without the GPUs if there are none.
    pub fn size(&self) -> String {
        let gpus = if self.gpus > 0 { format!(" with {}", counted(self.gpus as usize, "GPU")) } else { String::new() };
        grouped(&self.instances.to_string()) + &gpus
    }
}

/// A violated constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Of the seeds with which it failed, first those with jobs that can never run: the seed with which the time that it bounds
    /// was longest, or the first one.
    pub seed: u64,
    pub constraint: String,
    pub happened: String,
    /// The time with this seed.
    pub time: Option<SimDuration>,
}

/// The figure in the text about a constraint such as `p95(start_wait) <= 30m`: its value, the least that it may be, or why
/// it has none.
fn figure(constraint: &str, happened: &str) -> Option<String> {
    let rest = happened.strip_prefix(constraint.split(' ').next()?)?;
    let value = |text: &str| text.split([';', ':']).next().unwrap_or(text).replacen(" over ", "\n", 1);
    let value = |text: &str| value(text).lines().next().unwrap_or_default().to_string();
    if let Some(text) = rest.strip_prefix(" was ") {
        return Some(value(text));
    }
    if let Some(text) = rest.strip_prefix(" is at least ") {
        return Some(format!("at least {}", value(text)));
    }
    let (without, why) = rest.strip_prefix(" has no value")?.split_once(" because ")?;
    let count = without.split_once("; ").map(|(_, count)| count.split(' ').next().unwrap_or_default());
    let why = why.trim_end_matches(", so it cannot be judged");
    Some(match count {
        Some(count) => format!("no value, {count} {}", why.trim_start_matches("they ").trim_start_matches("it ")),
        None => format!("no value, because {why}"),
    })
}

/// What is said of jobs that would not fit even if all nodes were empty.
pub(super) const NEVER_RUN: &str = " can never run";

impl Broken {
    /// The first constraint that failed, with its worst seed.
    fn of(runs: &[&PlanRun]) -> Option<Broken> {
        if let Some((seed, happened)) = runs.iter().find_map(|run| Some((run.seed, run.never_run.clone()?))) {
            return Some(Broken { seed, constraint: EACH_CAN_RUN.to_string(), happened, time: None });
        }
        let at = runs.iter().find_map(|run| run.constraints.iter().position(|found| !found.held))?;
        let limit = TimeLimit::read(&runs[0].constraints[at].name);
        // Replicas that were never placed make the time undefined, which is worse than any.
        let seconds = |run: &PlanRun| run.metrics.get(&limit.as_ref()?.metric)?.as_f64();
        let length = |run: &PlanRun| seconds(run).unwrap_or(f64::INFINITY);
        let failing = runs.iter().filter(|run| !run.constraints[at].held);
        // Such jobs do not count in the time, so the seed with the longest time may have none.
        let all_can_run = |run: &PlanRun| !run.constraints[at].happened.contains(NEVER_RUN);
        let worst = failing.min_by(|one, other| {
            let by_length = length(other).total_cmp(&length(one)).then(one.seed.cmp(&other.seed));
            all_can_run(one).cmp(&all_can_run(other)).then(by_length)
        })?;
        let ConstraintResult { name, happened, .. } = &worst.constraints[at];
        Some(Broken {
            seed: worst.seed,
            constraint: name.clone(),
            happened: happened.clone(),
            time: seconds(worst).map(|seconds| SimDuration::from_nanos((seconds * 1e9) as u64)),
        })
    }
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
    let is_random = runs.iter().any(|run| run.is_random);
    let resampled = runs[0].resampled.map(|list| ResampledFrom { blocks: list.blocks, length: list.length });
    let sections = runs[0].sections.clone().filter(|_| runs.len() == 1 || !is_random);
    let metrics = definitions().into_iter().filter_map(|definition| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| run.metrics.get(definition.name)?.as_f64()).collect();
        let found = match resampled {
            _ if definition.is_extreme() => range_over_runs(&values?)?,
            Some(from) => estimate_resampled(&values?, from)?,
            None => estimate(&values?)?,
        };
        let found = of_one_run(definition.name, found, sections.as_ref());
        Some((definition.name, possible(definition, found)))
    });
    let metrics: BTreeMap<&'static str, Estimate> = metrics.collect();
    let broken = Broken::of(runs);
    let of_broken = broken.as_ref().and_then(|broken| runs.iter().find(|run| run.seed == broken.seed));
    Row {
        costs: costs(plan.minimize, runs),
        partial_power: runs.iter().filter_map(|run| run.partial_power).min_by(f64::total_cmp),
        unplaceable: runs.iter().find_map(|run| run.unplaceable.clone()),
        limit: of_broken.unwrap_or(&runs[0]).limit.clone(),
        past_estimates: runs.iter().map(|run| run.past_estimates as f64).sum::<f64>() / runs.len() as f64,
        rented: Rented::of(runs, metrics.get("instance_hours").map(|hours| hours.mean)),
        cell: runs[0].cell,
        name: plan.cell_name(runs[0].cell),
        fleet: runs[0].fleet,
        runs: runs.len(),
        is_random,
        resampled,
        metrics,
        sections,
        keeps: match runs.iter().any(|run| run.never_run.is_some()) {
            true => Some(false),
            false => keeps(&plan.asked, &held, runs.len(), plan.seeds.len()),
        },
        constraints: runs[0].constraints.iter().map(|found| found.name.clone()).collect(),
        held,
        kept: runs.iter().filter(|run| run.keeps_all()).count(),
        broken,
    }
}

/// The measured objective with each seed; empty if it is known without a run.
fn costs(minimize: Option<Objective>, runs: &[&PlanRun]) -> Vec<(u64, f64)> {
    let Some(objective) = minimize.filter(|objective| !objective.is_known_before()) else { return Vec::new() };
    runs.iter().filter_map(|run| Some((run.seed, run.metrics.get(objective.name())?.as_f64()?))).collect()
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

/// The estimate with an interval of values that can be: none is negative, no slowdown is less than 1, and no part of a
/// whole is more than 1.
fn possible(definition: &Definition, found: Estimate) -> Estimate {
    let least = if definition.name.starts_with("bounded_slowdown") { 1.0 } else { 0.0 };
    let most = if definition.counts_in == "part" { 1.0 } else { f64::INFINITY };
    match found.interval() {
        Some((low, high)) if low < least || high > most => {
            let (low, high) = (low.max(least), high.min(most));
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
    /// Whether there is one run, or every seed gives the same one. Then an interval of a wait is from its sections.
    pub fn is_one_run(&self) -> bool {
        self.runs == 1 || !self.is_random
    }

    /// The violated constraint and its worst seed, with the time that it bounds or, if some jobs can never run, their
    /// number.
    pub fn broken_text(&self) -> Option<String> {
        let Broken { seed, constraint, happened, time } = self.broken.as_ref()?;
        if let Some((jobs, _)) = happened.split_once(NEVER_RUN) {
            return Some(format!("{jobs}{NEVER_RUN}, seed {seed}"));
        }
        let found = figure(constraint, happened).or(time.map(|time| time.to_string()));
        let why = found.map_or(String::new(), |found| format!(": {}", rounded(&found, constraint)));
        let never = self.unplaceable.as_ref().filter(|_| counts_jobs(constraint));
        let never = never.and_then(|never| never.split_once(NEVER_RUN));
        let never = never.map_or(String::new(), |(jobs, _)| format!("; {jobs}{NEVER_RUN}"));
        let cold = if happened.contains(COLD_START) { format!(", {COLD_START}") } else { String::new() };
        Some(format!("{constraint}, seed {seed}{why}{cold}{never}"))
    }

    /// The price of all nodes together, in millionths, if all of them exist from the start and have one.
    pub fn price_per_hour_millionths(&self) -> Option<u64> {
        self.fleet.price_per_hour_millionths.filter(|_| !self.creates_instances())
    }

    /// Whether instances are created on demand. Only a run tells what they cost.
    pub fn creates_instances(&self) -> bool {
        self.rented.is_some()
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

    /// What a month of 730 hours costs, and how this is called. The metric `cost_per_month` includes electricity and
    /// instances on demand, so it is the `cost`. A plan that minimizes the price per hour gets the `price` of the nodes.
    pub(super) fn month(&self, objective: Option<Objective>) -> Option<(f64, &'static str)> {
        let price = self.price_per_hour_millionths().map(|hour| (of_a_month(hour).get() as f64 / 1e6, "price"));
        let cost = self.metrics.get("cost_per_month").map(|found| (found.mean, "cost"));
        if objective == Some(Objective::PricePerHour) { price } else { cost.or(price) }
    }

    /// The mean length of the runs in seconds, as far as it counts in the cost.
    pub fn seconds_paid(&self) -> Option<f64> {
        let (run, month) = (self.metrics.get("cost")?.mean, self.metrics.get("cost_per_month")?.mean);
        (month > 0.0).then(|| run / month * (HOURS_PER_MONTH * 3600) as f64)
    }

    /// An amount with its unit, as in `short_amount`. A price per hour is followed by that of a month.
    pub(super) fn amount(&self, objective: Objective, currency: Option<&str>) -> String {
        let month = self.month(Some(objective)).filter(|_| objective == Objective::PricePerHour);
        let month = month.map(|(month, _)| format!(", {}", in_currency(&grouped(&format!("{month:.2}")), currency)));
        self.short_amount(objective, currency) + &month.map_or(String::new(), |month| format!("{month} a month"))
    }

    /// Such as ` of 25.0% of the node hours`, if some nodes state no power.
    pub fn energy_note(&self) -> String {
        self.partial_power.map_or(String::new(), |part| format!(" of {:.1}% of the node hours", part * 100.0))
    }

    /// An amount with its unit, such as `24 GPUs`, `58.80 an hour` or `912.4 ± 3.1 kWh`.
    pub(super) fn short_amount(&self, objective: Objective, currency: Option<&str>) -> String {
        let currency = currency.map_or(String::new(), |currency| format!(" {currency}"));
        let many = |count: u64, noun: &str| {
            format!("{} {noun}{}", grouped(&count.to_string()), if count == 1 { "" } else { "s" })
        };
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
                    (None, Some(half)) if half >= 0.005 => format!(" ± {}", grouped(&format!("{half:.digits$}"))),
                    (None, _) => String::new(),
                };
                format!("{}{more}{unit}", grouped(&format!("{:.digits$}", found.mean)))
            })
        };
        match objective {
            Objective::Gpus => many(self.fleet.gpus, "GPU"),
            Objective::Nodes => many(self.fleet.nodes, "node"),
            Objective::PricePerHour => {
                let hour = self.fleet.price_per_hour_millionths.unwrap_or_default();
                format!("{}{currency} an hour", grouped(&Money::new(hour).to_string()))
            }
            Objective::Cost => format!("a cost of {}", measured(&currency, 2)),
            Objective::CostPerMonth => measured(&format!("{currency} a month"), 2),
            Objective::Energy => measured(" kWh", 1) + &self.energy_note(),
        }
    }
}

impl Comparison {
    /// A sentence if a mean has no interval, because too few lists were resampled from the log, or it has too few blocks.
    pub fn few_lists(&self) -> Option<String> {
        let is_few = |row: &Row| {
            let blocks = row.resampled.map(|from| from.blocks);
            row.runs > 1 && blocks.is_some_and(|blocks| row.runs < FEWEST_LISTS || blocks < FEWEST_LISTS as u64)
        };
        self.rows.iter().any(is_few).then(|| {
            format!(
                "Fewer than {FEWEST_LISTS} seeds over a resampled log, or {FEWEST_LISTS} blocks of the log, give no 95% interval."
            )
        })
    }

    /// A sentence if the times shown leave out replicas that were never placed, or that still waited or ran at the end.
    pub fn times_without_open_ones(&self) -> Option<String> {
        let is_partly_placed =
            |row: &Row| row.metrics.get("placed").is_some_and(|placed| placed.mean > 0.0 && placed.mean < 1.0);
        let is_broken_by_open_ones = |row: &Row| {
            row.broken.as_ref().is_some_and(|Broken { constraint, happened, .. }| {
                let is_of_replicas = ["wait", "turnaround", "slowdown"].iter().any(|word| constraint.contains(word));
                is_of_replicas && (happened.contains("infinite") || happened.contains("at least"))
            })
        };
        let leaves_out = |row: &Row| is_partly_placed(row) || is_broken_by_open_ones(row);
        self.rows.iter().any(leaves_out).then(|| {
            "The times shown leave out replicas that were never placed or that the end of the run cut off; constraints count \
             these too, unless the scenario has `unplaced: ignore`."
                .to_string()
        })
    }

    /// The cheapest of some alternatives that satisfies every constraint. On a tie, the first one.
    pub fn cheapest(&self, objective: Objective, of: impl Fn(&Row) -> bool) -> Option<&Row> {
        let keeping = self.rows.iter().filter(|row| row.keeps == Some(true) && of(row));
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

    /// Whether the price per hour of every alternative is known. That of instances which are created on demand is not.
    pub fn has_prices(&self) -> bool {
        self.rows.iter().all(|row| row.price_per_hour_millionths().is_some())
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
            header.extend(["", "_low", "_high"].map(|end| format!("{}{end}", definition.name)));
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
                let ends = found.and_then(Estimate::interval);
                let figures = [found.map(|found| found.mean), ends.map(|(low, _)| low), ends.map(|(_, high)| high)];
                cells.extend(figures.map(|figure| figure.map_or(String::new(), |figure| figure.to_string())));
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
            let broken = row.broken.as_ref().map(|broken| json!({"seed": broken.seed, "constraint": broken.constraint, "happened": broken.happened}));
            json!({
                "factors": factors, "gpus": row.fleet.gpus, "nodes": row.fleet.nodes, "price_per_hour": row.fleet.price(),
                "rented": row.rented.map(|rented| json!({"most_at_once": rented.instances, "gpus": rented.gpus, "hours": rented.hours})),
                "past_estimates": row.past_estimates, "partial_power": row.partial_power, "runs": row.runs, "keeps": row.keeps, "held": row.held, "broken": broken, "metrics": metrics,
            })
        });
        rows.collect()
    }
}

fn of(found: &Estimate) -> Value {
    let ends = found.interval();
    json!({"mean": found.mean, "low": ends.map(|(low, _)| low), "high": ends.map(|(_, high)| high)})
}

/// A twelfth of the 8,760 hours of a year of 365 days.
const HOURS_PER_MONTH: u64 = 730;

/// An amount of money, with the currency if it is stated.
pub(super) fn in_currency(amount: &str, currency: Option<&str>) -> String {
    currency.map_or(amount.to_string(), |currency| format!("{amount} {currency}"))
}

/// The price of a month at a price per hour.
fn of_a_month(millionths_per_hour: u64) -> Money {
    Money::new(millionths_per_hour.saturating_mul(HOURS_PER_MONTH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::Permille;

    /// The first seed fails by a minute, the second holds, and the third fails by an hour.
    #[test]
    fn the_seed_with_the_longest_time_is_named() {
        let run = |seed: u64, wait: f64| PlanRun {
            cell: 0,
            seed,
            digest: String::new(),
            is_random: true,
            resampled: None,
            never_run: None,
            unplaceable: None,
            limit: None,
            partial_power: None,
            past_estimates: 0,
            sections: None,
            fleet: FleetSize { gpus: 0, nodes: 0, price_per_hour_millionths: None },
            constraints: vec![ConstraintResult {
                name: "p95(queue_wait) <= 2h".to_string(),
                held: wait <= 7200.0,
                happened: String::new(),
            }],
            metrics: Map::from_iter([("queue_wait_p95_seconds".to_string(), json!(wait))]),
            waits: Vec::new(),
        };
        let runs = [run(4, 7201.0), run(5, 60.0), run(6, 10_800.0)];
        let broken = |runs: &[&PlanRun]| {
            let row = Row { broken: Broken::of(runs), ..super::super::samples::alternative(0, None) };
            row.broken_text()
        };
        let all: Vec<&PlanRun> = runs.iter().collect();
        assert_eq!(broken(&all).as_deref(), Some("p95(queue_wait) <= 2h, seed 6: 3h"));
        assert_eq!(
            broken(&all[..2]).as_deref(),
            Some("p95(queue_wait) <= 2h, seed 4: 2h1s"),
            "not cut off to the limit"
        );
        assert_eq!(broken(&all[1..2]), None);
        let mut never = run(7, 9000.0);
        never.constraints[0].happened = "2 of 9 jobs can never run: no node has GPU `l4`".to_string();
        assert_eq!(
            broken(&[&runs[2], &never]).as_deref(),
            Some("2 of 9 jobs can never run, seed 7"),
            "not in that time"
        );
    }

    #[test]
    fn a_failed_constraint_has_its_figure() {
        let rows = [
            (
                "p95(wait) <= 1h",
                "p95(wait) was 2h over 7 replicas; 1 more is not counted because it never started",
                "2h",
            ),
            (
                "p95(wait) <= 1h",
                "p95(wait) is at least 3h over 9 replicas: 2 of them still waited at the end",
                "at least 3h",
            ),
            (
                "p95(wait) <= 1h",
                "p95(wait) has no value over 0 replicas; 2008 more are not counted because they never started, so it cannot \
                 be judged",
                "no value, 2008 never started",
            ),
            (
                "p99(ttft) <= 1s",
                "p99(ttft) has no value, because no request arrived, so it cannot be judged",
                "no value, because no request arrived",
            ),
            ("cost_per_month <= 3000", "cost_per_month was 3650.00", "3650.00"),
        ];
        for (constraint, happened, expected) in rows {
            assert_eq!(figure(constraint, happened).as_deref(), Some(expected));
        }
        assert_eq!(figure("chat is running", "it was placed at 1h"), None);
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
