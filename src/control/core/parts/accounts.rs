//! What users and projects are charged: the shares of users, and the quotas of projects.

use std::sync::Arc;

use super::shares::{Shares, User};
use dryrack_fleet::{Fleet, NodeClaim, Placement};
use dryrack_planted::planted;
use dryrack_policy::{Holding, Quotas};
use dryrack_scheduler::{FairShare, OrderKey, SchedulerOptions};
use dryrack_units::SimTime;

/// Who pays for a placement: the account of the user, and the project.
pub type Payer<'a> = (User, Option<&'a str>);

pub struct Accounts {
    /// GPU time that each user has used. Present only if the queue order needs it.
    shares: Option<Shares>,
    /// Quotas of projects, and what each project holds.
    pub quotas: Quotas,
}

/// The amounts of a placement, as quotas count them.
pub fn holding(fleet: &Fleet, placement: &Placement) -> Holding {
    let each = placement.claims().iter().map(|claim| Holding::of(fleet.node(claim.node), claim));
    each.fold(Holding::default(), Holding::and)
}

impl Accounts {
    pub fn new(options: &SchedulerOptions, quotas: Quotas) -> Accounts {
        let is_fair = options.order.contains(&OrderKey::FairShare);
        Accounts { shares: is_fair.then(|| Shares::new(&options.fair_share)), quotas }
    }

    /// Whether users have accounts of their shares.
    pub fn has_shares(&self) -> bool {
        self.shares.is_some()
    }

    /// Takes over the shares of earlier accounts.
    pub fn keep_shares_of(&mut self, before: Accounts) {
        self.shares = before.shares;
    }

    /// The account of a user. Always 0 if users have no accounts.
    pub fn user(&mut self, user: Option<&Arc<str>>, options: &FairShare, now: SimTime) -> User {
        self.shares.as_mut().map_or(0, |shares| shares.number(user, options, now))
    }

    /// Charges a placement to the share of a user.
    pub fn take_share(&mut self, user: User, now: SimTime, placement: &Placement) {
        if let Some(shares) = &mut self.shares {
            shares.take(user, now, placement);
        }
    }

    /// Ends the charge of a placement to the share of a user.
    pub fn give_back_share(&mut self, user: User, now: SimTime, placement: &Placement) {
        if let Some(shares) = self.shares.as_mut().filter(|_| !placement.is_empty()) {
            shares.give_back(user, now, placement);
        }
    }

    /// Charges a placement to a user and a project.
    pub fn take(&mut self, fleet: &Fleet, (user, project): Payer<'_>, now: SimTime, placement: &Placement) {
        self.take_share(user, now, placement);
        if self.quotas.counts(project) {
            self.quotas.take(project, holding(fleet, placement));
        }
    }

    /// Ends the charge of a claim to a project.
    pub fn give_back_claim(&mut self, fleet: &Fleet, project: Option<&str>, claim: &NodeClaim) {
        if self.quotas.counts(project) && !planted!(QuotaIsNotGivenBack) {
            self.quotas.give_back(project, Holding::of(fleet.node(claim.node), claim));
        }
    }

    /// What each user has used divided by the user's weight, by the number of the account. `None` if users have no
    /// accounts.
    pub fn charged(&mut self, now: SimTime) -> Option<Vec<f64>> {
        self.shares.as_mut().map(|shares| shares.charged(now))
    }
}
