//! Automatic and manual selection must agree.

use super::property::Property;
use super::safety::may_insist;
use crate::arena::Case;
use crate::breach::{Breach, Expected, extent, is_placed, stage};
use crate::observed::{Observed, Placed};
use crate::world::World;
use dryrack_units::Bytes;
use dryrack_workload::Pick;

pub struct ByHand;

impl Property for ByHand {
    fn name(&self) -> &'static str {
        "by-hand"
    }

    fn rule(&self) -> &'static str {
        "GPUs that the program chooses can be picked by hand, and idle GPUs that can be picked are found automatically"
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let observed = case.observed.clone();
        let is_single =
            |job: &usize| observed.jobs[*job].spec.replicas == 1 && observed.jobs[*job].spec.demand.model().is_some();
        let jobs =
            (0..observed.jobs.len()).filter(is_single).filter(|job| observed.is_placed(*job) && observed.is_safe(*job));
        let mut breaches = Vec::new();
        for job in jobs {
            let Some(placed) = observed.of(job).next().cloned() else { continue };
            breaches.extend(match &observed.jobs[job].spec.demand.pick {
                None => self.picked(case, &observed, job, &placed),
                Some(Pick::AllGpus(_) | Pick::Gpus(_)) => self.unpicked(case, &observed, job, &placed),
                Some(Pick::Nodes(_)) => None,
            });
        }
        breaches
    }
}

impl ByHand {
    /// Picks by hand the GPUs that the program chose automatically.
    fn picked(&self, case: &mut Case<'_>, observed: &Observed, job: usize, placed: &Placed) -> Option<Breach> {
        let name = observed.name(job);
        let gpus: Vec<String> = placed
            .parts
            .iter()
            .flat_map(|part| part.gpus.iter().map(move |(index, _)| format!("{}/{index}", part.name)))
            .collect();
        if gpus.is_empty() {
            return None;
        }
        let world = case.world.with_job_field(name, "gpus", Some(&format!("[{}]", gpus.join(", "))));
        self.never_placed(case, (observed, job), placed, (world, "refused by hand"), |said| {
            format!("`{name}` is not placed on {}, which the program chooses by itself.{said}", placed.text())
        })
    }

    /// Lets the program choose for a job whose GPUs were picked by hand. Two cases prove nothing: GPUs with reserved or
    /// held memory, which a pick by hand may overcommit, and a pick on which a user may insist.
    fn unpicked(&self, case: &mut Case<'_>, observed: &Observed, job: usize, placed: &Placed) -> Option<Breach> {
        let name = observed.name(job);
        if may_insist(observed, job) {
            return None;
        }
        let others = |node: usize| {
            observed.placements.iter().any(|other| other.job != job && other.parts.iter().any(|part| part.node == node))
        };
        let is_idle = |node: usize| {
            let node_told = &observed.nodes[node];
            !others(node) && node_told.gpu_reserve == Bytes::ZERO && !node_told.has_foreign_use
        };
        if !placed.parts.iter().all(|part| is_idle(part.node)) {
            return None;
        }
        let world = case.world.with_job_field(name, "gpus", None).with_job_field(name, "gpus_per_replica", None);
        self.never_placed(case, (observed, job), placed, (world, "not found automatically"), |_| {
            format!("`{name}` is not placed. Picked by hand, it is placed on {}, which were idle.", placed.text())
        })
    }

    /// The breach, if the job is never placed in the other world although all that was placed before it is the same.
    /// `account` takes what the program says of the job there.
    fn never_placed(
        &self,
        case: &mut Case<'_>,
        (observed, job): (&Observed, usize),
        placed: &Placed,
        (world, how): (World, &str),
        account: impl FnOnce(&str) -> String,
    ) -> Option<Breach> {
        let name = observed.name(job);
        let world = match placed.parts.len() > 1 {
            true => world.with_job_field(name, "distributed", Some("true")),
            false => world,
        };
        let other = case.observe(&world)?;
        let same = other.find(name).filter(|same| other.is_never_placed(*same))?;
        let is_alike = other.before(other.jobs[same].at) == observed.before(observed.jobs[job].at);
        let said = other.jobs[same].texts.last().map_or(String::new(), |text| format!(" It says: \"{}\"", text.trim()));
        is_alike.then(|| Breach {
            property: self.name(),
            manner: format!("{}, {}: {how}", stage(observed, job), extent(placed)),
            account: account(&said),
            shown_in: Some(world.text()),
            expects: vec![Expected::new("placed", is_placed(observed, name))],
            witness: vec![format!("job: {name}, never: placed")],
        })
    }
}
