//! A lighter model must fit in every place where a heavier one fits.

use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, is_placed, stage};

pub struct Lighter;

impl Property for Lighter {
    fn name(&self) -> &'static str {
        "lighter"
    }

    fn rule(&self) -> &'static str {
        "A model with fewer bytes of weights is placed wherever a heavier one is"
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let observed = case.observed.clone();
        let mut breaches = Vec::new();
        for job in (0..observed.jobs.len()).filter(|job| observed.is_placed(*job) && observed.is_safe(*job)) {
            let Some(model) = observed.jobs[job].spec.demand.model() else { continue };
            let (name, weights) = (observed.name(job), model.model.weights.get());
            for less in [weights.saturating_sub(1), weights / 10 * 7] {
                let lighter = case.world.with_model_field(name, "weights", &format!("{less}B"));
                let Some(other) = case.observe(&lighter) else { continue };
                let Some(same) = other.find(name).filter(|same| !other.is_placed(*same)) else { continue };
                if other.before(other.jobs[same].at) != observed.before(observed.jobs[job].at) {
                    continue;
                }
                let by = if less + 1 == weights { "by one byte" } else { "by a large part" };
                let text = other.jobs[same]
                    .texts
                    .last()
                    .map_or(String::new(), |text| format!(" It says: \"{}\"", text.trim()));
                breaches.push(Breach {
                    property: self.name(),
                    manner: format!("{}, {by}", stage(&observed, job)),
                    account: format!(
                        "`{name}` with weights of {less} bytes is not placed as a whole; with {weights} bytes it is.{text}"
                    ),
                    shown_in: Some(lighter.text()),
                    expects: vec![Expected::new("placed", is_placed(&observed, name))],
                    witness: vec![format!("job: {name}, is: pending")],
                });
                break;
            }
        }
        breaches
    }
}
