//! What a file makes happen by itself, and when: arrivals, cancellations, changes of replicas, questions.

use std::sync::Arc;

use super::work::Work;
use dryrack_event::Input;
use dryrack_ids::JobId;
use dryrack_units::SimTime;

pub struct Agenda<'a> {
    work: &'a Work,
    /// How many arrivals have come so far, and so on for the others.
    submitted: usize,
    cancelled: usize,
    scaled: usize,
    evaluated: usize,
    /// Nothing new comes any more.
    is_closed: bool,
}

impl<'a> Agenda<'a> {
    pub fn new(work: &'a Work) -> Agenda<'a> {
        Agenda { work, submitted: 0, cancelled: 0, scaled: 0, evaluated: 0, is_closed: false }
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// When the next input comes; `None` if no more do.
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

    /// Adds the inputs that are due by `now`, however late.
    pub fn come(&mut self, now: SimTime, inputs: &mut Vec<Input>) {
        if self.is_closed {
            return;
        }
        let work = self.work;
        while let Some(arrival) = work.arrivals.get(self.submitted).filter(|arrival| arrival.at <= now) {
            inputs.push(Input::Submit { job: JobId::new(self.submitted), spec: Arc::clone(&arrival.spec) });
            self.submitted += 1;
        }
        // A cancellation is heard before an arrival, so for a job of this instant it would come too early.
        let has_come = |job: &JobId, submitted: usize| job.index() < submitted && !inputs_submit(inputs, *job);
        let mut later = Vec::new();
        while let Some((_, job)) = work.cancellations.get(self.cancelled).filter(|(at, _)| *at <= now) {
            if !has_come(job, self.submitted) {
                break;
            }
            later.push(Input::Cancel { job: *job });
            self.cancelled += 1;
        }
        while let Some((_, job, replicas)) = work.scalings.get(self.scaled).filter(|(at, ..)| *at <= now) {
            if !has_come(job, self.submitted) {
                break;
            }
            later.push(Input::Scale { job: *job, replicas: *replicas });
            self.scaled += 1;
        }
        while let Some((_, job)) = work.evaluations.get(self.evaluated).filter(|(at, _)| *at <= now) {
            let spec = &work.arrivals[job.index()].spec;
            later.push(Input::Evaluate { name: Arc::clone(&spec.name), demand: Arc::clone(&spec.demand) });
            self.evaluated += 1;
        }
        inputs.extend(later);
    }

    /// Lets nothing new come, and cancels everything that was submitted.
    pub fn interrupt(&mut self, inputs: &mut Vec<Input>) {
        self.is_closed = true;
        inputs.extend((0..self.submitted).map(|job| Input::Cancel { job: JobId::new(job) }));
    }
}

fn inputs_submit(inputs: &[Input], job: JobId) -> bool {
    inputs.iter().any(|input| matches!(input, Input::Submit { job: submitted, .. } if *submitted == job))
}
