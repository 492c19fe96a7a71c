//! Checks that compare one run with another: of the same world after a change that must not matter, or of a plain
//! implementation of the same rule.
//!
//! To add a check, write a file with a function and add a row to [`CHECKS`].

mod branched;
mod case;
mod compare;
mod cut;
mod exchanged;
mod later_job;
mod lives;
mod never_ready;
mod recounted;
mod renamed;
mod rigid;
mod scaled;
mod shifted;
mod stopped;

pub use case::{Case, CheckResult, Judged};

/// A rule that two runs must obey.
pub struct Check {
    pub name: &'static str,
    /// The rule as a sentence.
    pub rule: &'static str,
    judge: fn(&Case<'_>) -> CheckResult,
}

/// All checks: first those of the world itself, then those of a small world that is drawn from the same seed.
pub const CHECKS: &[Check] = &[
    Check { name: "shifted", rule: "If everything happens later, decisions are the same", judge: shifted::judge },
    Check { name: "scaled", rule: "If all times are doubled, decisions are the same", judge: scaled::judge },
    Check { name: "renamed", rule: "No decision depends on the names of nodes and jobs", judge: renamed::judge },
    Check {
        name: "never-ready",
        rule: "A further node that is never ready changes counts of reasons only",
        judge: never_ready::judge,
    },
    Check { name: "cut", rule: "A run that is stopped has the records of the whole run up to then", judge: cut::judge },
    Check {
        name: "branched",
        rule: "A branch in which nothing changes is the run that it branches off",
        judge: branched::judge,
    },
    Check { name: "later-job", rule: "A job that arrives after all others changes nothing", judge: later_job::judge },
    Check {
        name: "exchanged",
        rule: "If two queues exchange their names, decisions are the same",
        judge: exchanged::judge,
    },
    Check {
        name: "lives",
        rule: "Once the fleet is healthy for good, each job ends that fits the empty fleet and is not held back by a rule",
        judge: lives::judge,
    },
    Check {
        name: "queue",
        rule: "Jobs start when a plain queue starts them: by submission, priority, or estimate",
        judge: rigid::queue,
    },
    Check { name: "easy", rule: "Jobs start when plain EASY backfilling starts them", judge: rigid::easy },
    Check {
        name: "conservative",
        rule: "Jobs start when plain conservative backfilling starts them",
        judge: rigid::conservative,
    },
    Check { name: "fair-share", rule: "Jobs start in the order of decayed usage", judge: rigid::fair_share },
    Check { name: "victims", rule: "Preemption stops the jobs that its rule names", judge: rigid::victims },
    Check {
        name: "metrics",
        rule: "Metrics are those that the log gives when it is counted again, and bounds of a stopped run hold",
        judge: recounted::judge,
    },
    Check { name: "scale-down", rule: "Scaling down stops the replicas that its rule names", judge: rigid::scale_down },
    Check {
        name: "one-more-gpu",
        rule: "With one more GPU, no job of a strict queue starts later, and other queues at most double their makespan",
        judge: rigid::one_more_gpu,
    },
];

impl Check {
    pub fn judge(&self, case: &Case<'_>) -> CheckResult {
        (self.judge)(case)
    }
}

/// The checks that a seed makes, if the user names none: from a place that depends on the seed on. The caller stops
/// after as many that apply as it has time for.
pub fn checks_of(seed: u64) -> impl Iterator<Item = &'static Check> {
    let first = seed as usize % CHECKS.len();
    CHECKS[first..].iter().chain(&CHECKS[..first])
}
