//! The fields of jobs that the custom stages of a profile read. They become part of what a job asks for, so that every
//! cache tells jobs apart that stages may judge differently. Without such stages, demands stay as they are.

use std::sync::Arc;

use super::filter_list::FilterList;
use super::options::SchedulerOptions;
use super::order::OrderKey;
use super::scorer::{ScorerName, WeightedScorer};
use dryrack_workload::{Demand, JobField, JobFields, JobSpec};

impl SchedulerOptions {
    /// The demand of a job, with the fields of the job that custom filters or scorers read for it. Stages judge jobs with
    /// equal demands equally.
    pub fn demand_of(&self, job: &JobSpec) -> Arc<Demand> {
        let read = self.fields_for(&job.demand);
        if read.is_empty() && job.demand.fields.is_none() {
            return Arc::clone(&job.demand);
        }
        Arc::new(Demand { fields: JobFields::of(job, &read), ..Demand::clone(&job.demand) })
    }

    /// The job with the demand of [`SchedulerOptions::demand_of`].
    pub fn with_fields(&self, job: &Arc<JobSpec>) -> Arc<JobSpec> {
        let demand = self.demand_of(job);
        match Arc::ptr_eq(&demand, &job.demand) {
            true => Arc::clone(job),
            false => Arc::new(JobSpec { demand, ..JobSpec::clone(job) }),
        }
    }

    /// The fields that keys of the order read of a job, besides those that an entry of the queue always holds. `None` if
    /// they read none.
    pub fn ordered_fields_of(&self, job: &JobSpec) -> Option<Arc<JobFields>> {
        JobFields::of(job, &distinct(self.order.iter().flat_map(of_key)))
    }

    /// Whether a custom filter or scorer reads a field of jobs.
    pub fn reads_fields(&self) -> bool {
        let of_scorers = self.scorers.iter().flat_map(of_scorer);
        self.own_filters().flat_map(|own| own.fields()).chain(of_scorers).next().is_some()
    }

    /// Whether a custom filter, scorer or key of the order reads this field of jobs beyond their demands and entries.
    pub fn stages_read(&self, field: JobField) -> bool {
        let of_filters = self.own_filters().flat_map(|own| own.fields());
        let of_order = self.order.iter().flat_map(of_key);
        of_filters.chain(self.scorers.iter().flat_map(of_scorer)).chain(of_order).any(|read| *read == field)
    }

    /// The fields that custom filters and scorers read of jobs with such a demand.
    fn fields_for(&self, demand: &Demand) -> Vec<JobField> {
        let list = FilterList::of(demand);
        let of_filters = self.own_filters_in(list);
        // Models and offers are not ranked by scorers.
        let of_scorers = self.scorers.iter().filter(|_| list == FilterList::Tasks).flat_map(of_scorer);
        distinct(of_filters.iter().flat_map(|own| own.fields()).chain(of_scorers))
    }
}

fn of_scorer(scorer: &WeightedScorer) -> &'static [JobField] {
    match scorer.stage {
        ScorerName::Own(own) => own.fields(),
        _ => &[],
    }
}

fn of_key(key: &OrderKey) -> &'static [JobField] {
    match key {
        OrderKey::Own(own) => own.fields(),
        _ => &[],
    }
}

/// The fields in order and without duplicates.
fn distinct<'a>(fields: impl Iterator<Item = &'a JobField>) -> Vec<JobField> {
    let mut fields: Vec<JobField> = fields.copied().collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}
