//! Checks that the prediction in a log's header and the log's first records follow from the log's source.
//!
//! Someone could write the source after the run, with the real run times and usage, and the header would still be
//! consistent. So the log alone cannot prove that the prediction came first. Proof requires a copy of the prediction's
//! digest that was stored elsewhere before the run.

use super::timelines::timelines;
use dryrack_engine::Rehearsal;
use dryrack_event::{FleetFact, Input, Prediction, Record, RecordBody};
use dryrack_ids::{JobId, Names};

/// Returns the contradictions, each as a sentence. `predicted` is the prediction in the header. `rehearsed` are the
/// records of a rehearsal of the source, with their `digest`. `records` are the records of the log.
pub fn not_of_source(
    scenario: &Rehearsal,
    predicted: &Prediction,
    (rehearsed, digest): (&[Record], &str),
    (records, names): (&[Record], &Names),
) -> Vec<String> {
    let mut faults = Vec::new();
    if predicted.digest != digest {
        faults.push(format!(
            "a rehearsal of the source has the digest {digest}, but the prediction has {}",
            predicted.digest
        ));
    } else {
        let attempts = timelines(rehearsed, &dryrack_rehearse::names(scenario));
        let other =
            attempts.iter().zip(&predicted.attempts).find(|(one, other)| one != other).map(|(attempt, _)| &attempt.job);
        if let Some(job) = other {
            faults.push(format!("the prediction for `{job}` differs from a rehearsal of the source"));
        } else if (predicted.records, predicted.attempts.len()) != (rehearsed.len() as u64, attempts.len()) {
            faults.push("the predicted attempts differ from those of a rehearsal of the source".to_string());
        }
    }
    faults.extend(declared_otherwise(scenario, records));
    faults.extend(records.iter().find_map(|record| submitted_otherwise(scenario, record, names)));
    faults
}

/// Checks the declarations of fleets and nodes. They must come before all other inputs, except that a run with external
/// decisions may begin with a reconfiguration.
fn declared_otherwise(scenario: &Rehearsal, records: &[Record]) -> Option<String> {
    let first = records.iter().filter_map(|record| match &record.said {
        RecordBody::Input(input) => Some(input),
        RecordBody::Event(_) => None,
    });
    let declared = scenario.declarations();
    let found =
        first.filter(|input| !matches!(input, Input::Fleet(FleetFact::Reconfigure { .. }))).take(declared.len());
    (!found.eq(&declared)).then(|| "the nodes of the run differ from those of the source".to_string())
}

fn submitted_otherwise(scenario: &Rehearsal, record: &Record, names: &Names) -> Option<String> {
    let RecordBody::Input(Input::Submit { job, spec }) = &record.said else { return None };
    let name = |job: JobId| names.job(job);
    match scenario.arrivals.get(job.index()) {
        Some(arrival) if arrival.spec != *spec => {
            Some(format!("the submitted `{}` differs from the job in the source", name(*job)))
        }
        Some(arrival) if record.at < arrival.at => {
            Some(format!("`{}` was submitted at {}, but the source states {}", name(*job), record.at, arrival.at))
        }
        Some(_) => None,
        None => Some(format!("`{}` was submitted, but the source has no such job", name(*job))),
    }
}
