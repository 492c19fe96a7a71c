//! A plan and its alternatives, for unit tests.

use std::collections::BTreeMap;

use super::plan_run::FleetSize;
use super::summary::{Broken, Row};
use dryrack_expect::SeedShare;
use dryrack_scenario::{Factor, Method, Objective, PlanFile};
use dryrack_yaml::Span;

/// An alternative with one GPU more than its number says, which breaks this constraint.
pub(super) fn alternative(cell: usize, broken: Option<&str>) -> Row {
    Row {
        cell,
        name: format!("n={}", cell + 1),
        fleet: FleetSize { gpus: cell as u64 + 1, nodes: 1, price_per_hour_millionths: None },
        runs: 1,
        constraints: vec![broken.unwrap_or("c <= 1").to_string()],
        held: vec![usize::from(broken.is_none())],
        kept: usize::from(broken.is_none()),
        is_random: false,
        resampled: None,
        sections: None,
        rented: None,
        costs: Vec::new(),
        keeps: Some(broken.is_none()),
        broken: broken.map(|constraint| Broken {
            seed: 1,
            constraint: constraint.to_string(),
            happened: String::new(),
            time: None,
        }),
        unplaceable: None,
        limit: None,
        partial_power: None,
        past_estimates: 0.0,
        metrics: BTreeMap::new(),
    }
}

/// The factor `n` of 1, 2 and 3, for as few GPUs as possible.
pub(super) fn plan() -> PlanFile {
    let places = (Span::default(), vec![Span::default(); 3]);
    let factor = Factor::of_field("n", "params.n", ["1", "2", "3"].map(Into::into).to_vec(), places);
    PlanFile {
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
    }
}
