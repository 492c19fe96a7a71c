//! Runs one alternative with one seed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::limits::LimitedWaits;
use dryrack_engine::{Progress, Rehearsal};
use dryrack_expect::{Expectation, ExpectationKind, Verdict};
use dryrack_fleet::offer_of;
#[cfg(doc)]
use dryrack_metrics::WAIT_PERCENTS;
use dryrack_metrics::{WaitSections, wait_quantiles, wait_sections};
use dryrack_rehearse::rehearse;
use dryrack_rng::draws;
use dryrack_scenario::{Objective, Options, PlanFile};
use dryrack_scheduler::Caching;
use dryrack_units::Money;
use dryrack_yaml::Diagnostics;

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRun {
    /// The number of the alternative. The last factor varies fastest.
    pub cell: usize,
    pub seed: u64,
    /// The digest of the event log.
    pub digest: String,
    /// Whether the run drew any random number. If it drew none, every seed gives the same run. A journal without this
    /// field counts as random.
    #[serde(default = "yes")]
    pub is_random: bool,
    /// How the trace was resampled, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resampled: Option<ResampledList>,
    /// The intervals of the waits from this run alone, if it is one sample of what may happen: it drew random numbers,
    /// or has a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<WaitSections>,
    pub fleet: FleetSize,
    /// The results of the constraints, in the order of the plan.
    pub constraints: Vec<ConstraintResult>,
    /// How many jobs can never run, and why, unless the constraints concern such jobs themselves or the scenario ignores
    /// them. The run then fails, whatever its constraints say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never_run: Option<String>,
    /// How many jobs can never run, and why, whether the run fails because of them or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaceable: Option<String>,
    /// The limit for which most jobs wait, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitedWaits>,
    /// The part of the node hours of which the energy is known, if it is neither none nor all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_power: Option<f64>,
    /// The number of jobs that ran longer than their estimate because their GPU is slower than the one of their stated time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub past_estimates: u64,
    /// The metrics by name, as in `metrics.json` of `dryrack run --out`.
    pub metrics: Map<String, Value>,
    /// The waits in seconds at the percentiles of [`WAIT_PERCENTS`]. `None` if the percentile falls on a replica that
    /// was never placed.
    pub waits: Vec<Option<f64>>,
}

/// How the trace of a run was resampled: the number of blocks of the log, and the length of the new list in proportion
/// to the log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResampledList {
    pub blocks: u64,
    pub length: f64,
}

/// The size of a fleet before the run. Instances that a cloud creates on demand are left out, because only a run shows
/// their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetSize {
    pub gpus: u64,
    pub nodes: u64,
    /// The price of all nodes together, in millionths; `None` if any of them has no price.
    pub price_per_hour_millionths: Option<u64>,
}

/// The result of a constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstraintResult {
    pub name: String,
    pub held: bool,
    pub happened: String,
}

impl PlanRun {
    /// Whether the run satisfies every constraint.
    pub fn keeps_all(&self) -> bool {
        self.never_run.is_none() && self.constraints.iter().all(|kept| kept.held)
    }
}

/// The name of the constraint that a run with `never_run` breaks.
pub(super) const EACH_CAN_RUN: &str = "every job can run";

impl FleetSize {
    /// The price per hour as text; `None` if it is unknown.
    pub fn price(self) -> Option<String> {
        self.price_per_hour_millionths.map(|price| Money::new(price).to_string())
    }

    /// The value of an objective; `None` if only a run can measure it.
    pub fn of(self, objective: Objective) -> Option<u64> {
        match objective {
            Objective::Gpus => Some(self.gpus),
            Objective::Nodes => Some(self.nodes),
            Objective::PricePerHour => self.price_per_hour_millionths,
            Objective::Cost | Objective::CostPerMonth | Objective::Energy => None,
        }
    }
}

/// The size of an alternative's fleet, which is known without a run.
pub fn fleet_size(plan: &PlanFile, cell: usize, base: &Options) -> Result<FleetSize, Diagnostics> {
    let loaded = plan.load_nodes(cell, plan.seeds.first().copied(), base)?;
    Ok(size_of(&loaded.rehearsal))
}

fn size_of(rehearsal: &Rehearsal) -> FleetSize {
    let shapes = || rehearsal.nodes.iter().map(|node| &node.spec.shape).filter(|shape| offer_of(shape).is_none());
    FleetSize {
        gpus: shapes().map(|shape| shape.gpus.len() as u64).sum(),
        nodes: shapes().count() as u64,
        price_per_hour_millionths: shapes()
            .try_fold(0_u64, |sum, shape| Some(sum.saturating_add(shape.price_per_hour?.get()))),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn yes() -> bool {
    true
}

/// Runs one alternative with one seed. If an invariant breaks, `progress` tells the step.
pub fn run_alternative(
    plan: &PlanFile,
    of: (usize, u64),
    base: &Options,
    progress: &Progress,
) -> Result<PlanRun, Diagnostics> {
    run_changed(plan, of, &[], base, progress)
}

/// Runs one alternative with one seed and with further changes of the scenario, in the form of `--set`.
pub fn run_changed(
    plan: &PlanFile,
    (cell, seed): (usize, u64),
    changes: &[String],
    base: &Options,
    progress: &Progress,
) -> Result<PlanRun, Diagnostics> {
    let drawn = draws();
    let loaded = plan.load_changed(cell, Some(seed), changes, base)?;
    let entries = loaded.constraints.clone();
    let rehearsed = rehearse(&loaded.rehearsal, loaded.constraints, progress, Caching::On, Vec::new());
    let (each, judged): (Vec<(&Expectation, &Verdict)>, Vec<_>) =
        entries.iter().zip(&rehearsed.verdicts).partition(|(asked, _)| asked.what == ExpectationKind::EachCanRun);
    let never_run = each.first().filter(|(_, verdict)| !verdict.passed).map(|(_, verdict)| verdict.happened.clone());
    // A constraint about several jobs holds if it holds for each of them.
    let kept = judged.chunk_by(|one, other| one.0.place == other.0.place).map(|parts| {
        let shown = parts.iter().find(|(_, verdict)| !verdict.passed).unwrap_or(&parts[0]);
        ConstraintResult { name: shown.0.entry.to_string(), held: shown.1.passed, happened: shown.1.happened.clone() }
    });
    let accounts = rehearsed.run_metrics.accounts();
    let metrics = serde_json::to_value(rehearsed.run_metrics.metrics()).expect("metrics have a JSON form");
    let Value::Object(metrics) = metrics else { unreachable!("metrics are a map") };
    let (is_random, is_traced) = (draws() != drawn, loaded.trace.is_some());
    let resampled = loaded.trace.and_then(|trace| trace.resampled);
    Ok(PlanRun {
        cell,
        seed,
        digest: rehearsed.digest.to_string(),
        is_random,
        resampled: resampled.map(|list| ResampledList { blocks: list.blocks, length: list.length }),
        sections: (is_random || is_traced).then(|| wait_sections(accounts)).flatten(),
        fleet: size_of(&loaded.rehearsal),
        constraints: kept.collect(),
        never_run,
        unplaceable: accounts.never_run(),
        limit: LimitedWaits::of(accounts),
        partial_power: accounts.partial_power(),
        past_estimates: accounts.past_estimates(),
        metrics,
        waits: wait_quantiles(accounts),
    })
}
