//! A lone job that fits by the rules of the world's own profile must be placed by the program.

use super::order::placed_whole;
use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, stage};

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
        let names: Vec<String> = (0..case.told.jobs.len()).map(|job| case.told.name(job).to_string()).collect();
        for name in &names {
            let alone = case.world.with_jobs(|other| other == name).without_faults();
            let Some(told) = case.observe(&alone) else { continue };
            let Some(job) = told.find(name).filter(|job| told.is_never_placed(*job) && !told.jobs[*job].is_cancelled)
            else {
                continue;
            };
            let Some(other) = case.ask_profile(&alone) else { continue };
            let Some(same) = other.find(name).filter(|same| other.is_placed(*same)) else { continue };
            let there = other.of(same).next().map_or(String::new(), |placed| placed.text());
            let text =
                told.jobs[job].texts.last().map_or(String::new(), |text| format!(" It says: \"{}\"", text.trim()));
            let how = if told.jobs[job].spec.replicas > 1 { "several replicas" } else { "one replica" };
            breaches.push(Breach {
                property: self.name(),
                manner: format!("{}, {how}", stage(&told, job)),
                account: format!(
                    "`{name}` is not placed, although it fits on {there} by dryrack's own judgement.{text}"
                ),
                shown_in: Some(alone.text()),
                expects: vec![Expected::new("placed", placed_whole(&told, job))],
                witness: vec![format!("job: {name}, never: placed")],
            });
        }
        breaches
    }
}
