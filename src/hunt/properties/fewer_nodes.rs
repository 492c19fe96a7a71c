//! Removes a node: a job that was placed elsewhere must stay placed, and a job that was not placed must stay unplaced.

use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, is_placed, stage};
use crate::observed::{Observed, Placed};
use crate::world::World;

pub struct FewerNodes;

impl Property for FewerNodes {
    fn name(&self) -> &'static str {
        "extra-node"
    }

    fn rule(&self) -> &'static str {
        "A further node makes nothing worse, and a node that is not used makes nothing possible"
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let observed = case.observed.clone();
        let mut breaches = Vec::new();
        if observed.nodes.len() < 2 {
            return breaches;
        }
        let has_prices = observed.nodes.iter().any(|node| node.price.get() > 0);
        for node in 0..observed.nodes.len() {
            let extra = observed.nodes[node].name.to_string();
            // Jobs that are placed only on this node are removed with it.
            let is_there = |placed: &Placed| placed.parts.iter().all(|part| part.node == node);
            let goes = |job: usize| !observed.is_never_placed(job) && observed.of(job).all(is_there);
            let keeps = |other: &str| observed.find(other).is_some_and(|other| !goes(other));
            let fewer = case.world.with_nodes(|node| node != extra);
            let without = fewer.with_jobs(keeps);
            let all = (has_prices && (0..observed.jobs.len()).any(goes)).then_some(fewer);
            for fewer in [Some(without), all].into_iter().flatten() {
                let Some(other) = case.observe(&fewer) else { continue };
                // Only the first job that differs between the two worlds proves anything.
                let jobs = (0..observed.jobs.len()).filter(|job| other.find(observed.name(*job)).is_some());
                breaches.extend(jobs.filter_map(|job| self.compare((&observed, job), (&other, &fewer), &extra)).next());
            }
        }
        breaches
    }
}

impl FewerNodes {
    fn compare(
        &self,
        (observed, job): (&Observed, usize),
        (other, fewer): (&Observed, &World),
        extra: &str,
    ) -> Option<Breach> {
        let name = observed.name(job);
        let same = other.find(name)?;
        // All earlier decisions must have been the same.
        let is_kept = |placed: &&Placed| other.find(observed.name(placed.job)).is_some();
        let earlier = observed.placements.iter().filter(is_kept).filter(|placed| placed.at < observed.jobs[job].at);
        let earlier: Vec<_> = earlier.map(|placed| placed.places()).collect();
        let others: Vec<_> = other.before(other.jobs[same].at).into_iter().map(|(_, _, places)| places).collect();
        let is_sound = earlier == others && observed.is_safe(job) && other.is_safe(same);
        if !is_sound || observed.jobs[job].is_cancelled {
            return None;
        }
        let (with, without) = (observed.of(job).next(), other.of(same).next());
        let stage = stage(observed, job);
        let said = |manner: &str, account: String| Breach {
            property: "extra-node",
            manner: format!("{stage} {manner}"),
            account,
            shown_in: None,
            expects: vec![Expected::new("placed", is_placed(observed, name))],
            witness: vec![format!("job: {name}, never: placed")],
        };
        match (with, without) {
            (None, Some(without)) => Some(said(
                "is not placed",
                format!("`{name}` is not placed. Without {extra} it is placed on {}.", without.text()),
            )),
            (Some(with), None) if !with.is_on(extra) && observed.of(job).all(|placed| !placed.is_on(extra)) => {
                Some(Breach {
                    shown_in: Some(fewer.text()),
                    ..said(
                        "is placed beside a node that it does not use",
                        format!(
                            "`{name}` is not placed. With one more node, {extra}, it is placed on {}, where {extra} has no part.",
                            with.text()
                        ),
                    )
                })
            }
            (Some(with), Some(without)) => {
                let price = |observed: &Observed, placed: &Placed| -> u64 {
                    placed.parts.iter().map(|part| observed.nodes[part.node].price.get()).sum()
                };
                let takes_more = with.gpus() > without.gpus() && observed.jobs[job].spec.demand.pick.is_none();
                let costs_more = price(observed, with) > price(other, without);
                let stray = with.parts.iter().find(|part| !without.is_on(&part.name));
                let stray = stray.filter(|_| takes_more || costs_more)?;
                let how = if takes_more { "takes more GPUs" } else { "costs more" };
                let on = &stray.name;
                Some(Breach {
                    expects: vec![Expected::new("not_there", format!("job: {name}, never: placed, on: {on}"))],
                    witness: vec![format!("{}, on: {on}, replicas: 1", is_placed(observed, name))],
                    ..said(
                        how,
                        format!(
                            "`{name}` is placed on {}. Without {extra} it is placed on {}, which is less.",
                            with.text(),
                            without.text()
                        ),
                    )
                })
            }
            (_, _) => None,
        }
    }
}
