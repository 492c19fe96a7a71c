//! The program must not fail, and none of its decisions may end in an error.

use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, is_placed, stage};

pub struct GoesOn;

/// Words by which a text of any program is recognized as an error.
const SIGNS: [&str; 4] = ["Traceback", "Exception", "Error:", "Failed to find candidate"];

impl Property for GoesOn {
    fn name(&self) -> &'static str {
        "error"
    }

    fn rule(&self) -> &'static str {
        "The program decides, and none of its decisions ends in an error"
    }

    fn judges_failures(&self) -> bool {
        true
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let observed = &case.observed;
        let mut breaches = Vec::new();
        if let Some(failure) = &observed.failure {
            let job = observed.jobs.first().map_or(String::new(), |job| job.spec.name.to_string());
            breaches.push(Breach {
                property: self.name(),
                manner: format!("the program fails: {}", without_names(failure)),
                account: format!("The program gives up: {failure}."),
                shown_in: None,
                expects: vec![Expected::new("decided", is_placed(observed, &job))],
                witness: vec![format!("job: {job}, never: placed")],
            });
        }
        for (index, job) in observed.jobs.iter().enumerate().filter(|(index, _)| observed.is_never_placed(*index)) {
            let Some(text) = job.texts.iter().find(|text| SIGNS.iter().any(|sign| text.contains(sign))) else {
                continue;
            };
            let name = &job.spec.name;
            breaches.push(Breach {
                property: self.name(),
                manner: format!("{}: {}", stage(observed, index), without_names(text)),
                account: format!("The decision about `{name}` ends in an error: \"{}\".", text.trim()),
                shown_in: None,
                expects: vec![Expected::new("decided", is_placed(observed, name))],
                witness: vec![format!("job: {name}, never: placed")],
            });
        }
        breaches
    }
}

/// The first line, with `#` in place of words that contain digits, quotation marks or slashes.
fn without_names(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let word = |word: &str| match word.chars().any(|letter| letter.is_ascii_digit() || "`'\"/".contains(letter)) {
        true => "#".to_string(),
        false => word.to_string(),
    };
    first.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}
