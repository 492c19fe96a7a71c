//! Which QOS limit a job: its own, and that of its partition (slurm.conf(5), `QOS` of a partition).

use super::multifactor::Requested;
use super::qos::{HeldOf, Qos};
use dryrack_event::Reason;
use dryrack_units::SimDuration;

/// The QOS that limit a job in one partition. If both state the same limit, that of the first one applies.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitingQos<'q> {
    first: Option<&'q Qos>,
    second: Option<&'q Qos>,
}

impl<'q> LimitingQos<'q> {
    /// The limits of the partition come first, unless the QOS of the job has the flag `OverPartQOS`.
    pub fn of(partition: Option<&'q Qos>, job: Option<&'q Qos>) -> LimitingQos<'q> {
        let (first, second) = match (partition, job) {
            (Some(partition), Some(job)) if job.over_part_qos => (job, Some(partition)),
            (Some(partition), job) => (partition, job),
            (None, Some(job)) => (job, None),
            (None, None) => return LimitingQos::default(),
        };
        LimitingQos { first: Some(first), second: second.filter(|second| second.name != first.name) }
    }

    /// Each of them once. The running job counts in both.
    pub fn each(self) -> impl Iterator<Item = &'q Qos> {
        self.first.into_iter().chain(self.second)
    }

    /// Whether they can deny a job.
    pub fn has_limits(self) -> bool {
        self.each().any(Qos::has_limits)
    }

    /// The longest time limit of a job.
    pub fn max_wall(self) -> Option<SimDuration> {
        self.each().find_map(|qos| qos.max_wall)
    }

    /// Whether a job with this time limit is too long.
    pub fn is_too_long(self, limit: SimDuration) -> bool {
        self.max_wall().is_some_and(|most| limit > most)
    }

    /// Why a job may not start now. `None` if it may. `held` is what the running jobs of a QOS hold. Limits on the numbers
    /// of jobs and on time come before limits on resources (`acct_policy_job_runnable_pre_select` and `_post_select` in
    /// `src/slurmctld/acct_policy.c`).
    pub fn denies(self, job: Requested, limit: SimDuration, held: impl Fn(&Qos) -> HeldOf) -> Option<Reason> {
        let place = |qos: &'q Qos, over: Option<&'q Qos>| (qos, over, held(qos));
        let first = self.first.map(|first| place(first, None));
        let second = self.second.map(|second| place(second, self.first));
        let places = || first.iter().chain(second.iter());
        let by_count = places().find_map(|(qos, over, held)| qos.denies_by_count(*over, limit, *held));
        by_count.or_else(|| places().find_map(|(qos, over, held)| qos.denies_by_tres(*over, job, *held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::Held;

    fn qos(text: &str) -> Qos {
        serde_json::from_str(text).expect("a QOS")
    }

    fn asks(gpus: u64, cpus: u64) -> Requested {
        Requested { nodes: 1, cpus, gpus }
    }

    /// The user and everybody else hold this.
    fn holding(jobs: u64, gpus: u64) -> HeldOf {
        let held = Held { jobs, tres: asks(gpus, 0) };
        HeldOf { all: held, user: held, account: held }
    }

    #[test]
    fn what_the_partition_limits_the_job_s_own_qos_does_not() {
        let partition = qos(r#"{"name": "part", "max_tres_per_user": {"gres/gpu": 4}}"#);
        let job = qos(r#"{"name": "own", "max_tres_per_user": {"gres/gpu": 2, "cpu": 8}, "max_jobs_per_user": 3}"#);
        let both = LimitingQos::of(Some(&partition), Some(&job));
        let hour = SimDuration::from_secs(3600);
        let denies = |asked: Requested, held: HeldOf| both.denies(asked, hour, |_| held);
        assert_eq!(denies(asks(1, 1), holding(1, 3)), None, "the 2 GPUs of its own do not count");
        assert_eq!(denies(asks(2, 1), holding(1, 3)), Some(Reason::QosMaxTresPerUser));
        assert_eq!(denies(asks(1, 9), holding(0, 0)), Some(Reason::QosMaxTresPerUser), "the partition limits no cores");
        assert_eq!(denies(asks(2, 1), holding(3, 3)), Some(Reason::QosMaxJobsPerUser), "numbers of jobs come first");
    }

    #[test]
    fn a_flag_puts_the_job_s_own_qos_first() {
        let partition = qos(r#"{"name": "part", "max_wall": "10m", "grp_jobs": 1}"#);
        let job = qos(r#"{"name": "own", "max_wall": "2h", "over_part_qos": true}"#);
        let both = LimitingQos::of(Some(&partition), Some(&job));
        let hour = SimDuration::from_secs(3600);
        assert!(!both.is_too_long(hour));
        assert_eq!(both.denies(asks(1, 1), hour, |_| holding(0, 0)), None);
        assert_eq!(both.denies(asks(1, 1), hour, |_| holding(1, 0)), Some(Reason::QosGrpJobs));
        let without = LimitingQos::of(Some(&partition), None);
        assert!(!without.is_too_long(SimDuration::from_secs(600)));
        assert!(without.is_too_long(SimDuration::from_secs(601)));
        assert_eq!(without.denies(asks(1, 1), hour, |_| holding(0, 0)), Some(Reason::QosMaxWall));
    }

    #[test]
    fn a_job_of_the_qos_of_its_partition_counts_once() {
        let one = qos(r#"{"name": "one", "grp_jobs": 1}"#);
        assert_eq!(LimitingQos::of(Some(&one), Some(&one)).each().count(), 1);
        assert_eq!(LimitingQos::of(None, None).each().count(), 0);
    }
}
