//! The contents of the report of a plan.

use std::path::Path;

use super::answer::{Answer, figures};
use super::cases::is_same_case;
use super::choices::{CheapestOfChoice, next_figure};
use super::horizon::NO_LONGER_ENOUGH;
use super::horizon_cost::on_average;
use super::journal::{PlanHeader, Runs};
use super::summary::{Comparison, Row};
use dryrack_expect::SeedShare;
use dryrack_metrics::WAIT_PERCENTS;
use dryrack_report::{PlanGrowth, PlanReport, PlanRow};
use dryrack_scenario::{Method, Objective, PlanFile};
use dryrack_units::counted;

/// What the runs of a plan show.
pub struct PlanPage<'a> {
    pub answer: &'a Answer,
    /// What a reader must know besides the answer.
    pub note: Option<&'a str>,
    /// A sentence and a command for each change that could break the answer.
    pub breaks: &'a [(String, String)],
    pub growth: Option<&'a PlanGrowth>,
    /// With which load the answer stops being enough, and how sure this is; may be empty.
    pub sure_end: &'a str,
    /// The machines of the answer; may be empty.
    pub fleet: &'a str,
    pub choices: &'a [CheapestOfChoice],
    /// The alternative that is cheapest over the horizon, if it is another one than at the load of month 0.
    pub throughout: Option<&'a Row>,
}

/// The text of `report.html`. The command that repeats the plan has these `flags`, each after a space. `assumed` is what the
/// runs assume because the scenario leaves it open.
pub fn page(
    (plan, assumed, flags): (&PlanFile, &[String], &str),
    header: &PlanHeader,
    (comparison, runs): (&Comparison, &Runs),
    found: &PlanPage<'_>,
) -> String {
    let objective = plan.minimize.unwrap_or_else(|| cost_of(comparison));
    let best = plan.minimize.and_then(|objective| comparison.best(plan, objective));
    let row = |row: &Row| PlanRow {
        name: row.name.clone(),
        values: plan.values(row.cell).map(|(_, value)| value.to_string()).collect(),
        cost: row.of(objective).unwrap_or(0.0),
        amount: row.short_amount(objective, plan.currency.as_deref()),
        month: row.month(plan.minimize),
        rented: row.rented.map_or(String::new(), |rented| rented.size().replace(' ', "\u{a0}")),
        energy_note: row.energy_note(),
        runs: row.runs,
        is_one_run: row.is_one_run(),
        keeps: row.keeps,
        is_choice: best.is_none_or(|best| is_same_case(plan, best.cell, row.cell)),
        broken: row.broken_text(),
        metrics: row.metrics.iter().map(|(name, found)| (*name, (found.mean, found.interval()))).collect(),
        waits: waits(runs, row.cell),
    };
    let report = PlanReport {
        title: plan.title.clone(),
        answer: found.answer.short.clone(),
        how: found.answer.how.clone(),
        figures: best.map_or(Vec::new(), |best| shown_figures(plan, comparison, best, found)),
        choices: found.choices.iter().map(|choice| (choice.cells.clone(), choice.is_answer)).collect(),
        note: found.note.map(str::to_string),
        breaks: found.breaks.to_vec(),
        growth: found.growth.cloned(),
        currency: plan.currency.as_deref().map(str::to_string),
        is_minimized: plan.minimize.is_some(),
        objective: match objective {
            Objective::Gpus => "GPUs",
            Objective::Nodes => "nodes",
            Objective::PricePerHour => "price per hour",
            Objective::Cost => "cost of the run",
            Objective::CostPerMonth => "cost per month",
            Objective::Energy => "energy in kWh",
        },
        factors: plan.factors.iter().map(|factor| factor.name.to_string()).collect(),
        constraints: constraint_names(runs),
        required: required(plan, runs),
        rows: comparison.rows.iter().map(row).collect(),
        best: best.and_then(|best| comparison.rows.iter().position(|row| row.cell == best.cell)),
        assumptions: assumptions(plan, assumed, comparison),
        provenance: vec![
            ("Command", format!("dryrack plan {}{flags} --out DIR", file_name(Path::new(&*plan.name)))),
            (
                "Input",
                format!(
                    "{} (BLAKE3 of the plan, and of its scenario, profiles and jobs with each value of each factor)",
                    header.input
                ),
            ),
            ("Version", format!("dryrack {}", header.dryrack)),
            (
                "Other files",
                "plan.json, alternatives.csv and runs.jsonl, which contains the digest of each run".to_string(),
            ),
        ],
        source: plan.text.to_string(),
    };
    report.html()
}

/// The figures of the first screen. If a cheaper one may be enough, the first one says whose figures follow. With a horizon,
/// the last one is when the answer stops being enough.
fn shown_figures(plan: &PlanFile, comparison: &Comparison, best: &Row, found: &PlanPage<'_>) -> Vec<(String, String)> {
    let whose = found.answer.doubtful.as_ref().map(|name| {
        (name.clone(), "is the cheapest that was run, and has these figures; a cheaper one may be enough".to_string())
    });
    let throughout = found.throughout.zip(plan.minimize).map(|(row, objective)| {
        let cost = on_average(plan, row, objective);
        let then = format!("costs least over the horizon, {cost}; the figures that follow are those of {}", best.name);
        (row.name.clone(), then)
    });
    let end = found.growth.and_then(|growth| {
        let at = growth.header.iter().position(|name| *name == NO_LONGER_ENOUGH)?;
        let row = growth.rows.iter().find(|row| row[0] == best.name)?;
        Some((row[at].clone(), format!("when the load has grown too much for it{}", found.sure_end)))
    });
    // A long list of machines is only in the answer above.
    let is_short = (1..=40).contains(&found.fleet.len());
    let fleet = found.fleet.replace(" x ", "\u{a0}x\u{a0}");
    let fleet = is_short.then(|| (fleet, "the machines of the answer".to_string()));
    let next =
        plan.minimize.map(|objective| next_figure(plan, &comparison.of_worst_case(plan, objective), objective, best));
    throughout.into_iter().chain(whose).chain(fleet).chain(figures(plan, best)).chain(next).chain(end).collect()
}

/// The file name without its folder. The folder may differ when the parts of a plan are merged.
fn file_name(path: &Path) -> String {
    path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// The cost to show for a plan without an objective: the price if all alternatives have one, otherwise the number of
/// GPUs.
fn cost_of(comparison: &Comparison) -> Objective {
    match comparison.has_prices() {
        true => Objective::PricePerHour,
        false => Objective::Gpus,
    }
}

/// The constraints as the plan states them. None before the first run.
pub fn constraint_names(runs: &Runs) -> Vec<String> {
    runs.values().next().map_or(Vec::new(), |run| run.constraints.iter().map(|kept| kept.name.clone()).collect())
}

/// The share of the seeds in which each constraint must hold; `None` if it is all of them, or if there is one seed.
fn required(plan: &PlanFile, runs: &Runs) -> Vec<Option<String>> {
    let share = |share: &SeedShare| (*share != SeedShare::ALL && plan.seeds.len() > 1).then(|| share.to_string());
    constraint_names(runs).iter().zip(&plan.asked).map(|(_, asked)| share(asked)).collect()
}

/// For each percentile, the mean wait over the seeds.
fn waits(runs: &Runs, cell: usize) -> Vec<Option<f64>> {
    let all: Vec<&[Option<f64>]> =
        runs.range((cell, 0)..=(cell, u64::MAX)).map(|(_, run)| run.waits.as_slice()).collect();
    let mean = |at: usize| {
        let known: Option<Vec<f64>> = all.iter().map(|waits| waits.get(at).copied().flatten()).collect();
        known.filter(|known| !known.is_empty()).map(|known| known.iter().sum::<f64>() / known.len() as f64)
    };
    (0..WAIT_PERCENTS.len()).map(mean).collect()
}

fn assumptions(plan: &PlanFile, assumed: &[String], comparison: &Comparison) -> Vec<String> {
    let seeds = match plan.seeds.as_slice() {
        [one] => format!(
            "Each alternative was run with one seed, {one}. Then only a wait can have an interval, from sections of the \
             run; how uncertain the other figures are is unknown."
        ),
        seeds => format!(
            "Each alternative was run with the same seeds, at most {}, so all alternatives have the same random draws.",
            seeds.len()
        ),
    };
    let mut all = vec![
        format!(
            "The scenario is {}, with the factors set for each alternative; its jobs, nodes and failures are taken \
             as they are.",
            file_name(&plan.scenario)
        ),
        seeds,
        "A job without stated speeds runs as long as the scenario or the trace states, on any node.".to_string(),
    ];
    all.extend(assumed.iter().map(|line| format!("{line}.")));
    all.extend(comparison.few_lists());
    all.extend(comparison.times_without_open_ones());
    if plan.method == Method::Search {
        all.push(
            "The search ran only the alternatives that it needed; the others are not shown, and the answer counts \
             them."
                .into(),
        );
    }
    if let Some(runs) = plan.runs {
        all.push(format!("The budget allowed at most {}.", counted(runs as usize, "run")));
    }
    if let Some(time) = plan.time {
        all.push(format!("Each process started no new run after {time}, so the set of runs depends on the machine."));
    }
    all
}
