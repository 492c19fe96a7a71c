//! Adds the records of jobs and replicas to the store, and ends jobs.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Core;
use super::store::{Held, JobRecord, Replica, ReplicaIndex, Wait};
use dryrack_event::{Event, Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_ids::JobId;
use dryrack_policy::RetryState;
use dryrack_scheduler::{QueueKey, Verdict, refused_at_submission, refused_picks};
use dryrack_units::SimDuration;
use dryrack_workload::{Demand, JobSpec, Unselectable};

impl Core {
    /// The job, with the fields in its demand that stages of the profile read.
    pub(crate) fn with_fields(&self, spec: &Arc<JobSpec>) -> Arc<JobSpec> {
        let demand = self.profile.scheduler.demand_of(spec);
        match Arc::ptr_eq(&demand, &spec.demand) {
            true => Arc::clone(spec),
            false => Arc::new(JobSpec { demand: self.store.demands.shared(demand), ..JobSpec::clone(spec) }),
        }
    }

    /// Follows a change of the fields that stages read, for all jobs and replicas.
    pub(super) fn read_fields_anew(&mut self) {
        let jobs: Vec<_> = self.store.jobs.numbers().collect();
        for job in jobs.into_iter().map(JobId::new) {
            let spec = self.with_fields(&self.store[job].spec);
            let record = &mut self.store[job];
            record.ordered_fields = self.profile.scheduler.ordered_fields_of(&spec);
            if Arc::ptr_eq(&spec, &record.spec) {
                continue;
            }
            let (own, replicas) = (record.demand, record.replicas());
            record.spec = Arc::clone(&spec);
            let demand = self.store.demands.number(&spec.demand);
            self.store[job].demand = demand;
            for index in replicas {
                let stated = self.store[index].demand;
                self.store[index].demand = match stated == own {
                    true => demand,
                    // Kueue has given it another demand.
                    false => {
                        let fields = spec.demand.fields.clone();
                        let with_terms = Demand { fields, ..Demand::clone(self.store.demand(stated)) };
                        self.store.demands.number(&Arc::new(with_terms))
                    }
                };
            }
        }
    }

    /// Adds the record of a job in this line. The caller adds its replicas next.
    pub(crate) fn add_job(&mut self, spec: &Arc<JobSpec>, line: u32) {
        let demand = self.store.demands.number(&spec.demand);
        let first = self.store.replicas.len() as ReplicaIndex;
        let fair_share = &self.profile.scheduler.fair_share;
        let user = self.accounts.user(spec.user.as_ref(), fair_share, self.now);
        self.store.jobs.push(JobRecord {
            spec: Arc::clone(spec),
            line,
            user,
            demand,
            ordered_fields: self.profile.scheduler.ordered_fields_of(spec),
            first,
            added: Vec::new(),
            live: spec.replicas,
            cancelled: false,
            parked: false,
            unmet: None,
            fleet: None,
            ended: None,
            has_started: false,
            over: None,
        });
    }

    /// Adds a record for one more replica. The replica does not wait for anything yet.
    pub(crate) fn add_replica(&mut self, job: JobId, number: u32) -> ReplicaIndex {
        let index = self.store.replicas.len() as ReplicaIndex;
        let record = &self.store[job];
        let (spec, order) = (&record.spec, &self.profile.scheduler.order);
        let entry = record.entry(job, index, self.now, SimDuration::ZERO);
        self.store.add(Replica {
            job,
            number,
            attempt: 1,
            phase: Phase::Pending,
            wait: Wait::Nothing,
            version: 0,
            ran: SimDuration::ZERO,
            served: SimDuration::ZERO,
            since: self.now,
            key: QueueKey::new(order, &entry),
            demand: record.demand,
            placement: None,
            held: None,
            analysed: !spec.analyse,
            retry: RetryState::default(),
            stopping: None,
            stopped_on: SmallVec::new(),
            dismissed: false,
            last_restart: None,
            watch: None,
            due: self.now,
            wanted: self.now,
            processed: 0,
            fresh: None,
        });
        index
    }

    /// Ends a job after all its replicas have ended for good.
    pub(crate) fn end_job(&mut self, job: JobId, outcome: Outcome, because: Reason) {
        self.emit(Event::JobEnded { job, outcome, because });
        self.services.forget(job);
        self.admission.job_ended(job);
        self.groups.job_ended(job, &self.store[job].spec);
        self.job_has_ended(job, outcome);
        self.store.job_is_over(job);
    }

    /// Why a job is refused at submission. `None` if the job is accepted. A job whose picks cannot be selected now is
    /// refused, unless it waits for its picks.
    pub(crate) fn refused_picks(&self, spec: &JobSpec) -> Option<Held> {
        let options = &self.profile.scheduler;
        if let Some((refusal, reason)) = refused_at_submission(options, &spec.demand, &self.fleet) {
            return Some((refusal, Histogram::of(reason, self.fleet.len().max(1) as u32)));
        }
        if spec.unselectable == Unselectable::Wait {
            return None;
        }
        let refused = refused_picks(options, &spec.demand, &self.fleet);
        let mut reasons = Histogram::default();
        refused.iter().filter_map(|verdict| verdict.reason()).for_each(|reason| reasons.add(reason, 1));
        let is_final = refused.iter().any(|verdict| matches!(verdict, Verdict::Never(_)));
        (!refused.is_empty()).then_some((if is_final { Refusal::Never } else { Refusal::Unfit }, reasons))
    }
}
