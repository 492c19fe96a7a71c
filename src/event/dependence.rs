//! The state of a dependency between two jobs.

use super::output::Outcome;
use dryrack_workload::Condition;

/// Whether a dependency is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependence {
    /// The other job has not yet reached the state that the dependency requires.
    Open,
    Met,
    /// The other job has ended without reaching the required state, so the dependent job can never run.
    Never,
}

impl Dependence {
    /// Computes the state of a dependency from the other job. `ended` is the outcome of the other job, if it has ended.
    pub fn of(when: Condition, has_started: bool, ended: Option<Outcome>) -> Dependence {
        match (when, ended) {
            (Condition::Start, None) if has_started => Dependence::Met,
            (Condition::Ok | Condition::Any | Condition::NotOk | Condition::Start, None) => Dependence::Open,
            (Condition::Any | Condition::Start, Some(_)) => Dependence::Met,
            (Condition::Ok, Some(Outcome::Completed)) => Dependence::Met,
            (Condition::NotOk, Some(Outcome::Completed)) | (Condition::Ok, Some(_)) => Dependence::Never,
            (Condition::NotOk, Some(_)) => Dependence::Met,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows follow `--dependency` in sbatch(1) of Slurm 22.05.
    #[test]
    fn each_condition_is_met_by_the_ends_that_slurm_names() {
        use Dependence::{Met, Never, Open};
        let rows = [
            (Condition::Ok, [Open, Open, Met, Never, Never, Never]),
            (Condition::Any, [Open, Open, Met, Met, Met, Met]),
            (Condition::NotOk, [Open, Open, Never, Met, Met, Met]),
            (Condition::Start, [Open, Met, Met, Met, Met, Met]),
        ];
        for (when, expected) in rows {
            let ends = [Outcome::Completed, Outcome::Failed, Outcome::Expired, Outcome::Cancelled];
            let before_its_end = [false, true].map(|has_started| Dependence::of(when, has_started, None));
            let after = ends.map(|outcome| Dependence::of(when, true, Some(outcome)));
            assert_eq!([&before_its_end[..], &after[..]].concat(), expected, "{when:?}");
        }
    }
}
