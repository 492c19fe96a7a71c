//! Accounts before the first record.

use std::sync::Arc;

use super::super::fragment_account::FragmentAccount;
use super::RunAccount;
use dryrack_engine::Rehearsal;
use dryrack_ids::Records;
use dryrack_units::SimTime;

impl RunAccount {
    /// Empty accounts for this rehearsal. From the rehearsal, they take facts that are not in the records: the real
    /// behavior of jobs, the expected workload and the end of the warm-up.
    pub fn of(rehearsal: &Rehearsal) -> RunAccount {
        RunAccount {
            jobs: Records::with_capacity(rehearsal.arrivals.len()),
            states_power: false,
            currency: rehearsal.currency.clone(),
            electricity: rehearsal.electricity.clone(),
            behaviors: rehearsal.arrivals.iter().map(|arrival| Arc::clone(&arrival.behavior)).collect(),
            fragments: FragmentAccount::of(rehearsal),
            until: rehearsal.until,
            requests: rehearsal.requests_and_early().0 as u64,
            warm_up: rehearsal.warm_up.unwrap_or(SimTime::ZERO),
            ..RunAccount::default()
        }
    }

    /// Empty accounts for figures only. To save memory, they keep only a few facts about a job that has ended. They
    /// keep no totals over time, no real GPU usage and no names of jobs.
    pub fn figures_only(rehearsal: &Rehearsal) -> RunAccount {
        RunAccount { figures_only: true, jobs: Records::default(), ..RunAccount::of(rehearsal) }
    }
}
