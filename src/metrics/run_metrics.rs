//! The finished accounts of a run with its metrics, which are computed on first use.

use std::cell::OnceCell;

use super::account::RunAccount;
use super::definitions::Metrics;

pub struct RunMetrics {
    accounts: RunAccount,
    metrics: OnceCell<Metrics>,
}

impl RunMetrics {
    /// Wraps finished accounts.
    pub fn of(accounts: RunAccount) -> RunMetrics {
        RunMetrics { accounts, metrics: OnceCell::new() }
    }

    pub fn accounts(&self) -> &RunAccount {
        &self.accounts
    }

    pub fn metrics(&self) -> &Metrics {
        self.metrics.get_or_init(|| Metrics::of(&self.accounts))
    }
}
