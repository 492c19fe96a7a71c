//! Counts all submitted jobs by what became of them.

use dryrack_event::Outcome;

/// The number of jobs in each [`Standing`]. Code that counts jobs must pass the result through [`checked`], which
/// asserts that every submitted job is counted exactly once.
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

/// What became of a job, over all of its replicas.
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

    /// Whether every submitted job is counted: submitted = ended + running + waiting. The outcomes include refused,
    /// expired and never fitting.
    pub fn add_up(&self) -> bool {
        self.submitted == self.outcomes.iter().sum::<u64>() + self.running + self.waiting
    }

    /// Returns the accounts unchanged. Panics if a submitted job is not counted.
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
