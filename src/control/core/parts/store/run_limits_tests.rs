//! Tests of groups of jobs that run a few at a time.

use super::run_limits::RunLimits;
use dryrack_ids::JobId;
use dryrack_units::MilliCpu;
use dryrack_workload::{Demand, JobSpec, RunLimit, TaskDemand};

fn job(number: usize) -> JobId {
    JobId::new(number)
}

fn spec(limit: Option<RunLimit>, user: Option<&str>) -> JobSpec {
    JobSpec {
        run_limit: limit.map(Box::new),
        user: user.map(Into::into),
        ..JobSpec::of("j".into(), Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1))))
    }
}

fn task() -> JobSpec {
    spec(Some(RunLimit::ArrayTasks { array: "a".into(), most: 2 }), None)
}

fn singleton(user: &str) -> JobSpec {
    spec(Some(RunLimit::Singleton { name: "s".into() }), Some(user))
}

#[test]
fn as_many_tasks_of_an_array_run_as_its_limit_allows() {
    let mut limits = RunLimits::default();
    assert!(limits.is_empty() && !limits.add(job(9), &spec(None, None), true) && limits.is_empty());
    // The first task depends on another job, so the next two get the turns.
    assert_eq!(
        [(0, false), (1, true), (2, true), (3, true)].map(|(n, ready)| limits.add(job(n), &task(), ready)),
        [true, false, false, true]
    );
    limits.check();
    assert!(!limits.is_empty() && limits.is_of_array(job(0)) && !limits.is_of_array(job(9)));
    assert_eq!(limits.holders_of_turns(job(3)), [job(1), job(2)]);
    // A task that is not ready does not wait for a turn, nor does one that has it.
    assert_eq!((limits.holders_of_turns(job(0)), limits.holders_of_turns(job(1))), (vec![], vec![]));
    assert_eq!(limits.is_ready(job(0)), []);
    // Turns are given in order of the tasks, and a second report changes nothing.
    assert_eq!(limits.remove(job(1)), [job(0)]);
    assert_eq!((limits.is_ready(job(0)), limits.remove(job(1))), (vec![], vec![]));
    assert_eq!(limits.remove(job(2)), [job(3)]);
    assert_eq!((limits.remove(job(0)), limits.remove(job(3)), limits.is_empty()), (vec![], vec![], true));
}

#[test]
fn a_singleton_waits_for_all_earlier_ones_of_its_user() {
    let mut limits = RunLimits::default();
    // The first has its turn although it waits for another job. Another user has a group of his own.
    assert!(!limits.add(job(0), &singleton("ann"), false));
    assert!(limits.add(job(1), &singleton("ann"), true) && !limits.add(job(2), &singleton("bob"), true));
    assert!(limits.add(job(3), &singleton("ann"), true));
    limits.check();
    assert!(!limits.is_of_array(job(1)));
    assert_eq!(limits.holders_of_turns(job(3)), [job(0)]);
    assert_eq!(limits.remove(job(1)), []);
    assert_eq!(limits.remove(job(0)), [job(3)]);
}
