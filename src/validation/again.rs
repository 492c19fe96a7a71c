//! Turns a recorded run into a rehearsal. Arrivals, run times and GPU usage are those of the recording. Everything else
//! is simulated.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::timelines::{failed_starts, timelines};
use dryrack_engine::Rehearsal;
use dryrack_event::{AttemptTimeline, Input, Outcome, Record, RecordBody, UsageFact, UserRequest};
use dryrack_ids::{AttemptId, JobId, Names};
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{Arrival, Ending, GpuUsage, JobBehavior, Series, Shape, Usage};

/// The rehearsal of a recorded run, and the parts of the recording that a rehearsal cannot express.
pub struct RecordedRehearsal {
    pub rehearsal: Rehearsal,
    pub not_taken: Vec<String>,
}

/// The readings of all GPUs of an attempt, each with the time since the attempt's start.
type Readings = Vec<(SimDuration, Vec<Option<Permille>>)>;

/// Builds the rehearsal from the scenario in the log's header and from the log's records.
pub fn again(scenario: Rehearsal, records: &[Record], names: &Names) -> RecordedRehearsal {
    let real = timelines(records, names);
    let mut not_taken = Vec::new();
    let failed = failed_starts(records);
    let readings = readings(records, &real, names);
    let mut submitted: BTreeMap<JobId, SimTime> = BTreeMap::new();
    let mut cancellations = Vec::new();
    for record in records {
        match &record.said {
            RecordBody::Input(Input::Submit { job, .. }) => {
                submitted.insert(*job, record.at);
            }
            RecordBody::Input(Input::User(UserRequest::Cancel { job })) => cancellations.push((record.at, *job)),
            _ => {}
        }
    }
    // Leave out the jobs that were never submitted. Ids are indexes into this list, so only jobs at its end may be
    // missing.
    let arrivals = (scenario.arrivals.iter().enumerate())
        .map_while(|(index, arrival)| {
            let job = JobId::new(index);
            let at = *submitted.get(&job)?;
            let of_job: Vec<&AttemptTimeline> =
                real.iter().filter(|attempt| attempt.job == arrival.spec.name).collect();
            let behavior = behavior(&arrival.behavior, &of_job, &mut not_taken);
            let usage = readings.get(&job).and_then(usage).or(behavior.usage.clone());
            let failing_starts = failed.get(&job).copied().unwrap_or(0);
            let behavior = Arc::new(JobBehavior { usage, failing_starts, ..behavior });
            Some(Arrival { at, behavior, ..arrival.clone() })
        })
        .collect();
    RecordedRehearsal { rehearsal: Rehearsal { arrivals, cancellations, ..scenario }, not_taken }
}

/// The behavior of a job with the recorded run time and ending.
fn behavior(predicted: &JobBehavior, attempts: &[&AttemptTimeline], not_taken: &mut Vec<String>) -> JobBehavior {
    let mut behavior = predicted.clone();
    let length = |attempt: &AttemptTimeline| Some(attempt.ended?.since(attempt.started?));
    let by_itself = |attempt: &&&AttemptTimeline| attempt.stopping.is_none() && length(attempt).is_some();
    if let Some(first) = attempts.iter().find(by_itself) {
        behavior.run = length(first);
        behavior.ending = if first.outcome == Some(Outcome::Completed) { Ending::Completed } else { Ending::Failed };
        let others = attempts.iter().filter(by_itself).filter(|attempt| length(attempt) != length(first)).count();
        if others > 0 {
            let job = &first.job;
            not_taken.push(format!("the durations of {others} later attempts of {job}: a job has only one duration"));
        }
    } else if let Some(stopped) = attempts.iter().find(|attempt| attempt.stopping.is_some()) {
        // A stopped attempt would have lasted longer, but the recording does not say how much longer, so assume at
        // least twice the time.
        let at_least = stopped.started.and_then(|started| stopped.ended.map(|ended| ended.since(started)));
        behavior.run = behavior.run.map(|attempt| attempt.max(at_least.unwrap_or_default().saturating_mul(2)));
    }
    let stops = attempts.iter().find_map(|attempt| Some(attempt.ended?.since(attempt.stopping?)));
    behavior.stop = stops.unwrap_or(behavior.stop);
    behavior
}

/// For each job, the readings of the first attempt of its first replica.
fn readings(records: &[Record], real: &[AttemptTimeline], names: &Names) -> BTreeMap<JobId, Readings> {
    let mut found: BTreeMap<JobId, Readings> = BTreeMap::new();
    let started = |attempt: &AttemptId| {
        let of = |behavior: &&AttemptTimeline| {
            *behavior.job == *names.job(attempt.job) && behavior.replica == 0 && behavior.attempt == 1
        };
        real.iter().find(of).and_then(|behavior| behavior.started)
    };
    for record in records {
        let RecordBody::Input(Input::Usage(UsageFact::Sample { attempt, at, utilization, .. })) = &record.said else {
            continue;
        };
        if let (AttemptId { replica: 0, number: 1, .. }, Some(since)) =
            (attempt, started(attempt).and_then(|started| at.checked_since(started)))
        {
            found.entry(attempt.job).or_default().push((since, utilization.to_vec()));
        }
    }
    found
}

/// The usage that gives these readings. A real reading covers the time before it, but the simulator reads the current
/// value. So each reading is used from the middle between it and the previous reading to the middle between it and the
/// next reading.
fn usage(readings: &Readings) -> Option<Arc<Usage>> {
    let gpus = readings.first()?.1.len();
    let mut before = SimDuration::ZERO;
    let mut times = Vec::with_capacity(readings.len());
    for (since, _) in readings {
        let half = before.as_nanos() / 2 + since.as_nanos() / 2;
        if times.last().is_some_and(|last: &SimDuration| last.as_nanos() >= half) {
            return None;
        }
        times.push(SimDuration::from_nanos(half));
        before = *since;
    }
    let gpu = |gpu: usize| {
        let utilization = readings.iter().map(|(_, levels)| levels.get(gpu).copied().flatten()).collect();
        let series = Series { times: times.clone(), utilization, memory: Vec::new() };
        let shape = Shape::Recorded { series: Arc::new(series), from: SimDuration::ZERO };
        GpuUsage { shape, noise: Permille::ZERO, memory: None }
    };
    (gpus > 0).then(|| Arc::new(Usage::new((0..gpus).map(gpu).collect())))
}
