//! A lone job that fits by the rules of the world's own profile must be placed by the program.

use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, is_placed, stage};

pub struct FitsElsewhere;

impl Property for FitsElsewhere {
    fn name(&self) -> &'static str {
        "fits"
    }

    fn rule(&self) -> &'static str {
        "A lone job that fits idle nodes by dryrack's own judgement is placed"
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let mut breaches = Vec::new();
        let names: Vec<String> = (0..case.observed.jobs.len()).map(|job| case.observed.name(job).to_string()).collect();
        for name in &names {
            let alone = case.world.with_jobs(|other| other == name).without_faults();
            let Some(observed) = case.observe(&alone) else { continue };
            let Some(job) =
                observed.find(name).filter(|job| observed.is_never_placed(*job) && !observed.jobs[*job].is_cancelled)
            else {
                continue;
            };
            let Some(other) = case.ask_profile(&alone) else { continue };
            let Some(same) = other.find(name).filter(|same| other.is_placed(*same)) else { continue };
            let there = other.of(same).next().map_or(String::new(), |placed| placed.text());
            let text =
                observed.jobs[job].texts.last().map_or(String::new(), |text| format!(" It says: \"{}\"", text.trim()));
            let how = if observed.jobs[job].spec.replicas > 1 { "several replicas" } else { "one replica" };
            breaches.push(Breach {
                property: self.name(),
                manner: format!("{}, {how}", stage(&observed, job)),
                account: format!(
                    "`{name}` is not placed, although it fits on {there} by dryrack's own judgement.{text}"
                ),
                shown_in: Some(alone.text()),
                expects: vec![Expected::new("placed", is_placed(&observed, name))],
                witness: vec![format!("job: {name}, never: placed")],
            });
        }
        breaches
    }
}
