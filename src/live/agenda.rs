//! The inputs that a file schedules, with their times: arrivals, cancellations, changes of replicas and evaluations.

use std::sync::Arc;

use super::work::PendingRun;
use dryrack_event::{Input, UserRequest};
use dryrack_ids::JobId;
use dryrack_units::SimTime;

pub struct Agenda<'a> {
    work: &'a PendingRun,
    /// The number of arrivals that have been issued so far. The other fields count the other kinds of inputs.
    submitted: usize,
    cancelled: usize,
    scaled: usize,
    evaluated: usize,
    /// Whether no further inputs are issued.
    is_closed: bool,
}

impl<'a> Agenda<'a> {
    pub fn new(work: &'a PendingRun) -> Agenda<'a> {
        Agenda { work, submitted: 0, cancelled: 0, scaled: 0, evaluated: 0, is_closed: false }
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The time of the next input; `None` if there is none.
    pub fn next(&self) -> Option<SimTime> {
        if self.is_closed {
            return None;
        }
        let arrival = self.work.arrivals.get(self.submitted).map(|arrival| arrival.at);
        let cancellation = self.work.cancellations.get(self.cancelled).map(|(at, _)| *at);
        let scaling = self.work.scalings.get(self.scaled).map(|(at, ..)| *at);
        let evaluation = self.work.evaluations.get(self.evaluated).map(|(at, _)| *at);
        [arrival, cancellation, scaling, evaluation].into_iter().flatten().min()
    }

    /// Adds all inputs that are due by `now`, including late ones.
    pub fn come(&mut self, now: SimTime, inputs: &mut Vec<Input>) {
        if self.is_closed {
            return;
        }
        let work = self.work;
        while let Some(arrival) = work.arrivals.get(self.submitted).filter(|arrival| arrival.at <= now) {
            inputs.push(Input::Submit { job: JobId::new(self.submitted), spec: Arc::clone(&arrival.spec) });
            self.submitted += 1;
        }
        // The control plane receives cancellations before arrivals. It would receive the cancellation of a job that
        // arrives at this instant before the job exists. So the cancellation is delayed until the next instant.
        let has_come = |job: &JobId, submitted: usize| job.index() < submitted && !inputs_submit(inputs, *job);
        let mut later = Vec::new();
        while let Some((_, job)) = work.cancellations.get(self.cancelled).filter(|(at, _)| *at <= now) {
            if !has_come(job, self.submitted) {
                break;
            }
            later.push(Input::User(UserRequest::Cancel { job: *job }));
            self.cancelled += 1;
        }
        while let Some((_, job, replicas)) = work.scalings.get(self.scaled).filter(|(at, ..)| *at <= now) {
            if !has_come(job, self.submitted) {
                break;
            }
            later.push(Input::User(UserRequest::Scale { job: *job, replicas: *replicas }));
            self.scaled += 1;
        }
        while let Some((_, job)) = work.evaluations.get(self.evaluated).filter(|(at, _)| *at <= now) {
            let spec = &work.arrivals[job.index()].spec;
            let reads_fields = work.profile.scheduler.reads_fields();
            later.push(if reads_fields { Input::evaluate_job(spec) } else { Input::evaluate(spec) });
            self.evaluated += 1;
        }
        inputs.extend(later);
    }

    /// Stops issuing new inputs, and cancels every submitted job.
    pub fn interrupt(&mut self, inputs: &mut Vec<Input>) {
        self.is_closed = true;
        inputs.extend((0..self.submitted).map(|job| Input::User(UserRequest::Cancel { job: JobId::new(job) })));
    }
}

fn inputs_submit(inputs: &[Input], job: JobId) -> bool {
    inputs.iter().any(|input| matches!(input, Input::Submit { job: submitted, .. } if *submitted == job))
}
