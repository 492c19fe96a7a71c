//! The answer of an evaluation before deployment must agree with the deployment.

use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, is_placed, stage};
use crate::observed::Observed;

pub struct AskedBefore;

/// Whether a negative answer may be only a warning, because a user may insist on GPUs that were picked by hand.
fn may_be_wanted(observed: &Observed, job: usize) -> bool {
    let spec = &observed.jobs[job].spec;
    spec.demand.pick.is_some() && spec.replicas == 1
}

impl Property for AskedBefore {
    fn name(&self) -> &'static str {
        "asked-before"
    }

    fn rule(&self) -> &'static str {
        "What is said to fit is placed when it is deployed at that moment, and what is said not to fit is not"
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let observed = case.observed.clone();
        // Jobs that arrive at the same moment influence each other, so they prove nothing.
        let is_lone =
            |job: &usize| observed.jobs.iter().filter(|other| other.at == observed.jobs[*job].at).count() == 1;
        let jobs: Vec<usize> = (0..observed.jobs.len()).filter(is_lone).collect();
        let question =
            |job: &usize| format!("{{evaluate: {}, at: {}, is: fits}}", observed.name(*job), observed.jobs[*job].at);
        let questions: Vec<String> = jobs.iter().map(question).collect();
        if questions.is_empty() {
            return Vec::new();
        }
        let asked = case.world.with_entry("expect", &format!("[{}]", questions.join(", ")));
        let Some(other) = case.observe(&asked) else { return Vec::new() };
        let mut breaches = Vec::new();
        for job in jobs {
            let (name, at) = (observed.name(job), observed.jobs[job].at);
            let Some(answer) = other.answers.get(name) else { continue };
            let said = answer.text.as_deref().filter(|text| !text.is_empty());
            let said = said.map_or(String::new(), |text| format!(" It says: \"{}\"", text.trim()));
            let is_at_once = observed.of(job).any(|placed| placed.at == at);
            let (manner, account, expects, witness) = match (answer.fits, is_at_once) {
                (true, false) if observed.is_never_placed(job) && !observed.jobs[job].is_cancelled => (
                    "fits, and is not placed",
                    format!(
                        "Before it is deployed, `{name}` is said to fit. It is deployed at that moment and never placed."
                    ),
                    vec![Expected::new("placed", is_placed(&observed, name))],
                    vec![format!("evaluate: {name}, at: {at}, is: fits"), format!("job: {name}, never: placed")],
                ),
                (false, true) if observed.is_safe(job) && !may_be_wanted(&observed, job) => (
                    "does not fit, and is placed",
                    format!(
                        "Before it is deployed, `{name}` is said not to fit. It is deployed at that moment and placed.{said}"
                    ),
                    vec![Expected::new("said_to_fit", format!("evaluate: {name}, at: {at}, is: fits"))],
                    vec![format!("job: {name}, is: placed, at: {at}, replicas: 1")],
                ),
                (_, _) => continue,
            };
            let (property, manner, shown_in) = (self.name(), format!("{} {manner}", stage(&observed, job)), None);
            breaches.push(Breach { property, manner, account, shown_in, expects, witness });
        }
        breaches
    }
}
