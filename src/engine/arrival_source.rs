//! The source of arrivals: a list that is known before the run, or a stream that is read during the run.

use dryrack_ids::{JobId, Records};
use dryrack_units::SimTime;
use dryrack_workload::Arrival;

/// The arrivals of a run.
pub(super) enum ArrivalSource<'a> {
    Listed {
        arrivals: &'a [Arrival],
        submitted: usize,
    },
    /// Keeps in memory only the next arrival and the arrivals of jobs that have not ended.
    Streamed {
        source: &'a mut dyn Iterator<Item = Arrival>,
        next: Option<Arrival>,
        begun: Records<Arrival>,
    },
}

impl<'a> ArrivalSource<'a> {
    pub fn listed(arrivals: &'a [Arrival]) -> ArrivalSource<'a> {
        ArrivalSource::Listed { arrivals, submitted: 0 }
    }

    pub fn streamed(source: &'a mut dyn Iterator<Item = Arrival>) -> ArrivalSource<'a> {
        let next = source.next();
        ArrivalSource::Streamed { source, next, begun: Records::default() }
    }

    /// The time of the next arrival.
    pub fn next_time(&self) -> Option<SimTime> {
        match self {
            ArrivalSource::Listed { arrivals, submitted } => arrivals.get(*submitted).map(|arrival| arrival.at),
            ArrivalSource::Streamed { next, .. } => next.as_ref().map(|arrival| arrival.at),
        }
    }

    /// Takes the next arrival if its time is `now`. Panics if a stream goes back in time.
    pub fn take(&mut self, now: SimTime) -> Option<(JobId, &Arrival)> {
        if self.next_time() != Some(now) {
            return None;
        }
        match self {
            ArrivalSource::Listed { arrivals, submitted } => {
                *submitted += 1;
                Some((JobId::new(*submitted - 1), &arrivals[*submitted - 1]))
            }
            ArrivalSource::Streamed { source, next, begun } => {
                let arrival = std::mem::replace(next, source.next())?;
                let is_later = next.as_ref().is_none_or(|next| next.at >= arrival.at);
                assert!(is_later, "after {} at {now} comes a job that was to come before it", arrival.spec.name);
                let job = begun.push(arrival);
                Some((JobId::new(job), &begun[job]))
            }
        }
    }

    /// Whether the job has arrived.
    pub fn has_come(&self, job: JobId) -> bool {
        match self {
            ArrivalSource::Listed { submitted, .. } => job.index() < *submitted,
            ArrivalSource::Streamed { begun, .. } => job.index() < begun.len(),
        }
    }

    /// The arrival time of a known job.
    pub fn time_of(&self, job: JobId) -> Option<SimTime> {
        match self {
            ArrivalSource::Listed { arrivals, .. } => arrivals.get(job.index()).map(|arrival| arrival.at),
            ArrivalSource::Streamed { begun, .. } => begun.get(job.index()).map(|arrival| arrival.at),
        }
    }

    /// The arrival of a job. Panics if a stream has not delivered the job yet, or if the job was forgotten.
    pub fn of(&self, job: JobId) -> &Arrival {
        match self {
            ArrivalSource::Listed { arrivals, .. } => &arrivals[job.index()],
            ArrivalSource::Streamed { begun, .. } => &begun[job.index()],
        }
    }

    /// Forgets a job that has ended and that the control plane has dropped.
    pub fn forget(&mut self, job: JobId) {
        match self {
            ArrivalSource::Listed { .. } => {}
            // Requests to a service are counted even after the service has ended, so its arrival is kept.
            ArrivalSource::Streamed { begun, .. }
                if begun[job.index()].behavior.requests.is_some() || begun[job.index()].behavior.serving.is_some() => {}
            ArrivalSource::Streamed { begun, .. } => drop(begun.drop_one(job.index(), 0)),
        }
    }
}
