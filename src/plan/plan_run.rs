//! One alternative with one seed: run, and what it came to.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use dryrack_engine::{Progress, Rehearsal};
use dryrack_expect::{Expectation, Verdict};
use dryrack_fleet::offer_of;
#[cfg(doc)]
use dryrack_metrics::WAIT_PERCENTS;
use dryrack_metrics::wait_quantiles;
use dryrack_rehearse::rehearse;
use dryrack_rng::draws;
use dryrack_scenario::{Diagnostics, Objective, Options, PlanFile};
use dryrack_scheduler::Caching;
use dryrack_units::Money;

/// What one run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRun {
    /// Its number: the last factor varies the fastest.
    pub cell: usize,
    pub seed: u64,
    /// Of the event log.
    pub digest: String,
    /// Whether anything was drawn: else every seed gives this run. What was run before that was kept may have drawn.
    #[serde(default = "yes")]
    pub is_random: bool,
    pub fleet: FleetSize,
    /// In the order of the plan.
    pub constraints: Vec<Kept>,
    /// By name, as `dryrack run --out` writes them.
    pub metrics: Map<String, Value>,
    /// Seconds that were waited, at the percentiles of [`WAIT_PERCENTS`]; nothing where so many never had a place.
    pub waits: Vec<Option<f64>>,
}

/// What is known of a fleet before anything runs on it. Instances that a cloud makes when they are wanted are not counted:
/// how many there will be is what a run shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetSize {
    pub gpus: u64,
    pub nodes: u64,
    /// Of all nodes, in millionths; nothing where one of them has no price.
    pub price_per_hour_millionths: Option<u64>,
}

/// What became of a constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    pub name: String,
    pub held: bool,
    pub happened: String,
}

impl FleetSize {
    /// An hour, as it is written; nothing where it is not known.
    pub fn price(self) -> Option<String> {
        self.price_per_hour_millionths.map(|price| Money::new(price).to_string())
    }

    /// Nothing where that is not known before it has run.
    pub fn of(self, objective: Objective) -> Option<u64> {
        match objective {
            Objective::Gpus => Some(self.gpus),
            Objective::Nodes => Some(self.nodes),
            Objective::PricePerHour => self.price_per_hour_millionths,
            Objective::Cost | Objective::Energy => None,
        }
    }
}

/// The fleet of an alternative, which needs no run.
pub fn fleet_size(plan: &PlanFile, cell: usize, base: &Options) -> Result<FleetSize, Diagnostics> {
    let loaded = plan.load(cell, plan.seeds.first().copied(), base)?;
    Ok(size_of(&loaded.rehearsal))
}

fn size_of(rehearsal: &Rehearsal) -> FleetSize {
    let shapes = || rehearsal.nodes.iter().map(|node| &node.spec.shape).filter(|shape| offer_of(shape).is_none());
    FleetSize {
        gpus: shapes().map(|shape| shape.gpus.len() as u64).sum(),
        nodes: shapes().count() as u64,
        price_per_hour_millionths: shapes().map(|shape| Some(shape.price_per_hour?.get())).sum(),
    }
}

fn yes() -> bool {
    true
}

/// Runs one. `progress` names the step if an invariant breaks.
pub fn run_alternative(
    plan: &PlanFile,
    (cell, seed): (usize, u64),
    base: &Options,
    progress: &Progress,
) -> Result<PlanRun, Diagnostics> {
    let drawn = draws();
    let loaded = plan.load(cell, Some(seed), base)?;
    let entries = loaded.constraints.clone();
    let rehearsed = rehearse(&loaded.rehearsal, loaded.constraints, progress, Caching::On, Vec::new());
    let judged: Vec<(&Expectation, &Verdict)> = entries.iter().zip(&rehearsed.verdicts).collect();
    // A constraint on several jobs holds if it holds of each.
    let kept = judged.chunk_by(|one, other| one.0.place == other.0.place).map(|parts| {
        let shown = parts.iter().find(|(_, verdict)| !verdict.passed).unwrap_or(&parts[0]);
        Kept { name: shown.0.entry.to_string(), held: shown.1.passed, happened: shown.1.happened.clone() }
    });
    let metrics = serde_json::to_value(rehearsed.run_metrics.metrics()).expect("metrics have a JSON form");
    let Value::Object(metrics) = metrics else { unreachable!("metrics are a map") };
    Ok(PlanRun {
        cell,
        seed,
        digest: rehearsed.digest.to_string(),
        is_random: draws() != drawn,
        fleet: size_of(&loaded.rehearsal),
        constraints: kept.collect(),
        metrics,
        waits: wait_quantiles(rehearsed.run_metrics.accounts()),
    })
}
