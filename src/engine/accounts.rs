//! Accounts of all submitted jobs.

use dryrack_event::Outcome;

/// The number of jobs in each standing. Every count of jobs, however it is made, must satisfy the identity of
/// [`checked`].
///
/// [`checked`]: Accounts::checked
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    pub submitted: u64,
    /// Jobs that ended for good, in the order of [`Outcome::ALL`].
    pub outcomes: [u64; Outcome::ALL.len()],
    /// Jobs with a replica that holds a claim.
    pub running: u64,
    pub waiting: u64,
}

/// The standing of a job over all its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Ended(Outcome),
    /// At least one replica is placed.
    Running,
    Waiting,
}

impl Accounts {
    pub fn add(&mut self, standing: Standing) {
        match standing {
            Standing::Ended(outcome) => self.outcomes[outcome as usize] += 1,
            Standing::Running => self.running += 1,
            Standing::Waiting => self.waiting += 1,
        }
    }

    pub fn count(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Whether submitted = ended (including refused, expired and never fitting) + still running + still waiting.
    pub fn add_up(&self) -> bool {
        self.submitted == self.outcomes.iter().sum::<u64>() + self.running + self.waiting
    }

    /// Returns these accounts; panics if a submitted job is unaccounted for.
    pub fn checked(self) -> Accounts {
        assert!(self.add_up(), "jobs are unaccounted for: {self:?}");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_nowhere_is_missed() {
        let mut accounts = Accounts { submitted: 3, ..Accounts::default() };
        accounts.add(Standing::Ended(Outcome::NeverFits));
        accounts.add(Standing::Waiting);
        assert!(!accounts.add_up());
        accounts.add(Standing::Running);
        assert!(accounts.add_up());
        assert_eq!(accounts.count(Outcome::NeverFits), 1);
    }
}
