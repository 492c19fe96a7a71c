//! Fair shares: how many resources each user has used. Older use counts less than recent use.
//!
//! A user's account is the integral over time of the resources that the user's attempts hold. The weight of past use
//! halves with every half-life. An account is updated whenever the user's holdings change, and can be read at any time.
//! Holdings are counted in thousandths of a GPU, or of a core if a placement has no GPU. The order of the queue uses
//! accounts divided by weights.

use std::collections::HashMap;
use std::sync::Arc;

use dryrack_fleet::Placement;
use dryrack_planted::planted;
use dryrack_scheduler::FairShare;
use dryrack_units::SimTime;

/// The number of a user's account.
pub type User = u32;

pub struct Shares {
    half_life_seconds: f64,
    numbers: HashMap<Option<Arc<str>>, User, foldhash::fast::FixedState>,
    accounts: Vec<Account>,
}

struct Account {
    weight: f64,
    /// Used amount up to `at`, in thousandths of a GPU or core multiplied by seconds.
    had: f64,
    at: SimTime,
    /// Current holdings, in thousandths of a GPU or core.
    holds: u64,
}

impl Shares {
    pub fn new(options: &FairShare) -> Shares {
        let half_life_seconds = options.half_life.as_secs_f64();
        Shares { half_life_seconds, numbers: HashMap::default(), accounts: Vec::new() }
    }

    /// The number of a user's account. All jobs without a user share one account. The default weight of a user is 1.
    pub fn number(&mut self, user: Option<&Arc<str>>, options: &FairShare, now: SimTime) -> User {
        if let Some(number) = self.numbers.get(&user.cloned()) {
            return *number;
        }
        let number = self.accounts.len() as User;
        let weight = user.and_then(|user| options.weights.get(&**user)).copied().unwrap_or(1.0);
        self.numbers.insert(user.cloned(), number);
        self.accounts.push(Account { weight, had: 0.0, at: now, holds: 0 });
        number
    }

    pub fn take(&mut self, user: User, now: SimTime, placement: &Placement) {
        let account = self.settled(user, now);
        account.holds += thousandths(placement);
    }

    pub fn give_back(&mut self, user: User, now: SimTime, placement: &Placement) {
        let account = self.settled(user, now);
        account.holds -= thousandths(placement);
    }

    /// Each account divided by its weight, in order of the account numbers.
    pub fn charged(&mut self, now: SimTime) -> Vec<f64> {
        (0..self.accounts.len() as User)
            .map(|user| {
                let account = self.settled(user, now);
                if planted!(WeightsAreIgnored) { account.had } else { account.had / account.weight }
            })
            .collect()
    }

    fn settled(&mut self, user: User, now: SimTime) -> &mut Account {
        let half_life = self.half_life_seconds;
        let account = &mut self.accounts[user as usize];
        let seconds = now.since(account.at).as_secs_f64();
        if seconds > 0.0 {
            let kept = libm::pow(0.5, seconds / half_life);
            let gained = match planted!(HoldingsNeverDecay) {
                true => account.holds as f64 * seconds,
                false => account.holds as f64 * half_life / std::f64::consts::LN_2 * (1.0 - kept),
            };
            account.had = account.had * kept + gained;
            account.at = now;
        }
        account
    }
}

fn thousandths(placement: &Placement) -> u64 {
    let gpus: u64 = placement.claims().iter().flat_map(|claim| &claim.gpus).map(|gpu| u64::from(gpu.share.get())).sum();
    let cores: u64 = placement.claims().iter().map(|claim| claim.cpu.get()).sum();
    if gpus > 0 { gpus } else { cores }
}
