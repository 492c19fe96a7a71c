//! The real kube-scheduler, driven over the API, beside the rules of `dryrack-kubernetes`.
//!
//! The trials run if a filter names `for_real`. They need the program, which `.ci/kube-scheduler` builds into the cache
//! folder; `DRYRACK_KUBE_SCHEDULER` names another one. Without it they are reported as not run.

mod drawn;
mod large;
mod life;
mod native;
mod program;
mod worlds;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let program = program::find();
    let is_wanted = std::env::args().any(|typed| typed.contains("for_real"));
    let trial = |name: &str, run: fn(&std::path::Path)| {
        let found = program.clone();
        let runner = move || {
            run(&found.ok_or("no kube-scheduler is here; build one with .ci/kube-scheduler")?);
            Ok(())
        };
        Trial::test(name, runner).with_ignored_flag(!is_wanted || program.is_none())
    };
    let trials = vec![
        trial("for_real_what_each_pod_gets_is_told", life::what_each_pod_gets_is_told),
        trial("for_real_a_program_that_ends_or_is_silent_is_a_named_failure", life::a_program_that_ends_is_named),
        trial("for_real_no_port_is_open_beyond_loopback", life::no_port_is_open_beyond_loopback),
        trial("for_real_100_drawn_worlds_are_decided_as_the_rules_say", worlds::are_decided_as_the_rules_say),
        trial("for_real_5000_pods_on_1000_nodes_are_decided_as_the_rules_say", large::is_decided_as_the_rules_say),
    ];
    // One after the other, because they measure time.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit();
}
