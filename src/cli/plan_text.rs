//! The result of a plan as text: the answer, what stands beside it, and the table of alternatives.

use super::planning::Planning;
use dryrack_expect::NEVER_RUNS_HELP;
use dryrack_metrics::RUNS_FOR_A_TAIL;
use dryrack_plan::{Comparison, Estimate, Row};
use dryrack_report::{PlanGrowth, TimeLimit, UNFINISHED_JOBS, about, mean_jobs, table};
use dryrack_scenario::{Factor, Objective, PlanFile};
use dryrack_units::{SimDuration, counted, grouped};

/// The answer, the sentences that follow it, the table of alternatives, and that of the horizon if there is one.
pub(super) fn plan_text(
    planning: &Planning,
    (comparison, constraints): (&Comparison, &[String]),
    (answer, mut also): (&str, Vec<&String>),
    growth: Option<&PlanGrowth>,
) -> String {
    let left_out = left_out(planning, comparison);
    also.extend(&left_out);
    let fails = comparison.rows.iter().filter_map(|row| row.broken.as_ref());
    let fails = fails.filter(|broken| broken.happened.contains(" can never run")).count() > 0;
    let help = format!("To mend this, {NEVER_RUNS_HELP}.");
    also.extend((fails && answer.contains(" can never run")).then_some(&help));
    also.extend(growth.iter().flat_map(|growth| &growth.sentences));
    let text = human(&planning.plan, comparison, constraints, answer, &also);
    let months = growth.map_or(String::new(), |growth| format!("\n{}", table(&growth.header, &growth.rows)));
    text + &months
}

/// What the cost and the energy leave out, where the table has them.
fn left_out(planning: &Planning, comparison: &Comparison) -> Vec<String> {
    let has_cost =
        matches!(planning.plan.minimize, Some(Objective::Cost | Objective::CostPerMonth | Objective::PricePerHour))
            || comparison.has_prices();
    let has_energy = comparison.rows.iter().any(|row| row.metrics.contains_key("energy"));
    let is_shown = |line: &&String| {
        line.starts_with("no job can use ")
            || line.starts_with("The figures leave out ")
            || (has_cost && line.starts_with("The cost "))
            || (has_energy && line.starts_with("The energy "))
    };
    planning.assumed.iter().filter(is_shown).map(|line| format!("{line}.")).collect()
}

/// The number of alternatives that are printed. The files hold all of them.
const SHOWN: usize = 40;

fn human(plan: &PlanFile, comparison: &Comparison, constraints: &[String], answer: &str, also: &[&String]) -> String {
    let bold = anstyle::Style::new().bold();
    let mut text = format!("{bold}{}{bold:#}\n{answer}\n", plan.title);
    also.iter().for_each(|sentence| text.push_str(&format!("{sentence}\n")));
    text.push('\n');
    let columns = columns(plan, comparison, constraints);
    let factors = plan.factors.iter().map(|factor| &*factor.name);
    let header: Vec<&str> = factors.chain(columns.iter().map(|column| column.name.as_str())).collect();
    let rows: Vec<Vec<String>> = (comparison.ranked(plan.minimize).into_iter().take(SHOWN))
        .map(|row| {
            let values = plan.values(row.cell).map(|(_, value)| value.to_string());
            values.chain(columns.iter().map(|column| (column.cell)(row))).collect()
        })
        .collect();
    text.push_str(&table(&header, &rows));
    let more = comparison.rows.len().saturating_sub(SHOWN);
    if more > 0 {
        text.push_str(&format!("and {} more\n", counted(more, "alternative")));
    }
    let p95 = |row: &Row| row.metrics.get(WAIT_P95).and_then(Estimate::interval);
    let has_ends = |row: &Row| p95(row).is_some_and(|(low, high)| low < high);
    let of_sections = comparison.rows.iter().any(|row| row.is_one_run() && has_ends(row));
    let of_seeds = || comparison.rows.iter().filter(|row| !row.is_one_run());
    if of_seeds().next().is_some() {
        text.push_str("\nMeans over the seeds; in parentheses, for a percentile or a maximum, ");
        text.push_str(
            match (of_seeds().any(|row| row.runs < RUNS_FOR_A_TAIL), of_seeds().any(|row| row.runs >= RUNS_FOR_A_TAIL))
            {
                (_, false) => "the range of the seeds",
                (false, true) => "the 2.5th to the 97.5th percentile of the seeds",
                (true, true) => {
                    "the 2.5th to the 97.5th percentile of the seeds, or of fewer than 40 seeds their range"
                }
            },
        );
    }
    text.push_str(match (of_seeds().next().is_some(), of_sections) {
        (true, false) => {
            "; otherwise the 95% interval, as after ±.\n"
        }
        (true, true) => {
            "; otherwise the 95% interval, as after ±. Where all seeds give the same run, the 95% interval from sections of the \
             run.\n"
        }
        (false, true) => "\nIn parentheses, the 95% interval from sections of the run.\n",
        (false, false) => "",
    });
    text.extend(
        comparison.few_lists().into_iter().chain(comparison.times_without_open_ones()).map(|sentence| sentence + "\n"),
    );
    text
}

/// A column of the table of alternatives after those of the factors.
struct Column {
    name: String,
    cell: Box<dyn Fn(&Row) -> String>,
}

/// The fleet, whether the alternative is enough, what it costs if only a run tells, the 95th percentile of the wait, and each
/// other time that a constraint bounds.
fn columns(plan: &PlanFile, comparison: &Comparison, constraints: &[String]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    let mut add = |name: &str, cell: Box<dyn Fn(&Row) -> String>| columns.push(Column { name: name.to_string(), cell });
    let metric =
        |row: &Row, name: &str, write: &dyn Fn(&Estimate) -> String| row.metrics.get(name).map_or(String::new(), write);
    let in_currency =
        |name: &str| plan.currency.as_deref().map_or(name.to_string(), |unit| format!("{name} in {unit}"));
    let own = if comparison.rows.iter().any(Row::creates_instances) { "own " } else { "" };
    let has_gpus = comparison.rows.iter().any(|row| row.fleet.gpus > 0 || row.metrics.contains_key("gpu_allocated"));
    if has_gpus {
        add(&format!("{own}GPUs"), Box::new(|row| row.fleet.gpus.to_string()));
    }
    // A factor that is the number of nodes is not shown twice.
    let is_nodes =
        |factor: &Factor, value: &str, row: &Row| &*factor.name == "nodes" && *value == row.fleet.nodes.to_string();
    let has_nodes = |row: &Row| plan.values(row.cell).any(|(factor, value)| is_nodes(factor, value, row));
    if !comparison.rows.iter().all(has_nodes) {
        add(&format!("{own}nodes"), Box::new(|row| row.fleet.nodes.to_string()));
    }
    if !own.is_empty() {
        add("rented at once", Box::new(|row| row.rented.map_or(String::new(), |rented| rented.size())));
        add(
            "instance-hours",
            Box::new(|row| row.rented.map_or(String::new(), |rented| format!("{:.1}", rented.hours))),
        );
    }
    if comparison.has_prices() {
        add(&in_currency("price/h"), Box::new(|row| row.fleet.price().map_or(String::new(), |price| grouped(&price))));
    }
    add("runs", Box::new(|row| row.runs.to_string()));
    add("meets all", Box::new(meets_all));
    if comparison.rows.iter().any(|row| row.metrics.get("placed").is_some_and(|placed| placed.mean < 1.0)) {
        add("placed", Box::new(move |row| metric(row, "placed", &|found| format!("{:.2} %", found.mean * 100.0))));
    }
    for of in UNFINISHED_JOBS {
        if comparison.rows.iter().any(|row| row.metrics.get(of).is_some_and(|jobs| jobs.mean > 0.0)) {
            let name = of.replace('_', " ");
            add(&name, Box::new(move |row| metric(row, of, &|found| mean_jobs(found.mean))));
        }
    }
    let cost = match plan.minimize {
        Some(Objective::Cost) => Some(("cost", "cost")),
        Some(Objective::CostPerMonth) => Some(("cost a month", "cost_per_month")),
        _ => None,
    };
    if let Some((name, of)) = cost {
        add(&in_currency(name), Box::new(move |row| metric(row, of, &money)));
    }
    add("wait p95", Box::new(move |row| metric(row, WAIT_P95, &lengths)));
    let mut shown = vec![WAIT_P95.to_string()];
    for limit in constraints.iter().filter_map(|constraint| TimeLimit::read(constraint)) {
        let is_known = comparison.rows.iter().any(|row| row.metrics.contains_key(&*limit.metric));
        if is_known && !shown.contains(&limit.metric) {
            shown.push(limit.metric.clone());
            add(&limit.name, Box::new(move |row| metric(row, &limit.metric, &lengths)));
        }
    }
    let (name, of) = if has_gpus { ("GPUs allocated", "gpu_allocated") } else { ("CPU allocated", "cpu_allocated") };
    add(name, Box::new(move |row| metric(row, of, &|found| with(found, 100.0, "%"))));
    if comparison.rows.iter().any(|row| row.metrics.contains_key("energy")) {
        add(
            "energy",
            Box::new(move |row| metric(row, "energy", &|found| with(found, 1.0, "kWh") + &row.energy_note())),
        );
    }
    columns
}

const WAIT_P95: &str = "queue_wait_p95_seconds";

fn meets_all(row: &Row) -> String {
    match (row.keeps, row.broken_text()) {
        (Some(true), _) => "yes".to_string(),
        (Some(false), Some(broken)) => format!("no: {broken}"),
        (Some(false), None) => "no".to_string(),
        (None, _) => "not known".to_string(),
    }
}

/// Formats an estimate of a time, such as `1h4m ± 30s`.
fn lengths(found: &Estimate) -> String {
    let length = |seconds: f64| about(SimDuration::from_nanos((seconds * 1e9) as u64));
    match (found.range.map(|(low, high)| (length(low), length(high))), found.half_width) {
        (Some((low, high)), _) if low == high => low,
        (Some((low, high)), _) => format!("{} ({low} to {high})", length(found.mean)),
        (None, Some(half_width)) => format!("{} ± {}", length(found.mean), length(half_width)),
        (None, None) => length(found.mean),
    }
}

/// Formats an estimate of an amount of money, such as `2,112.30 ± 0.40`.
fn money(found: &Estimate) -> String {
    let amount = |value: f64| grouped(&format!("{value:.2}"));
    match (found.range, found.half_width) {
        (Some((low, high)), _) => format!("{} ({} to {})", amount(found.mean), amount(low), amount(high)),
        (None, Some(half_width)) if half_width >= 0.005 => format!("{} ± {}", amount(found.mean), amount(half_width)),
        (None, _) => amount(found.mean),
    }
}

/// Formats an estimate with its unit, such as `12.3 ± 0.4 kWh`.
fn with(found: &Estimate, scale: f64, unit: &str) -> String {
    match (found.range, found.half_width) {
        (Some((low, high)), _) => {
            format!("{:.1} ({:.1} to {:.1}) {unit}", found.mean * scale, low * scale, high * scale)
        }
        (None, Some(half_width)) => format!("{:.1} ± {:.1} {unit}", found.mean * scale, half_width * scale),
        (None, None) => format!("{:.1} {unit}", found.mean * scale),
    }
}
