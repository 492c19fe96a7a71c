//! The only integration crate. It has its own harness, because a trial must be reported as not run if its data is
//! missing, and libtest cannot do this.

/// The trials of a module: what they need, and their functions. Each file lists its own, so that a new test changes one
/// file. A function that is not listed is dead code, which clippy refuses.
macro_rules! trials {
    ($($needs:ident: [$($trial:ident,)*])*) => {
        pub fn trials() -> Vec<libtest_mimic::Trial> {
            let module = module_path!().rsplit("::").next().expect("a path has a last part");
            vec![$($(
                crate::trial(&format!("{module}::{}", stringify!($trial)), crate::Needs::$needs, $trial),
            )*)*]
        }
    };
}

mod accounting;
mod action;
mod answers;
mod asked;
mod attained;
mod backfilling;
mod book;
mod browser;
mod circles;
mod cli;
mod clouds;
mod clusters;
mod conform;
mod crashes;
mod custom_stages;
mod cut_off;
mod deployments;
mod determinism;
mod diagnostics;
mod disks;
mod explained;
mod extending;
mod extremes;
mod failed_jobs;
mod first;
mod fit;
mod formats;
mod futures;
mod fuzzed;
mod gangs_outside;
mod gpu_names;
mod grammar;
mod hardware;
mod hunted;
mod imports;
mod imports_fuzzed;
mod keepers;
mod kept_out;
mod kube_scheduler;
mod kueue;
mod library;
mod lists;
mod literature;
mod live;
mod manifests;
mod minimized;
mod mistakes;
mod money;
mod never_runs;
mod offers;
mod on_slurm;
mod openb;
mod oracle;
mod outside;
mod outside_sockets;
mod outside_told;
mod plan_answers;
mod plan_compared;
mod plan_reasons;
mod plans;
mod planted;
mod policy;
mod policy_oracle;
mod probes;
mod questions;
mod quotas;
mod records;
mod recounted;
mod released;
mod report;
mod reported;
mod requeued;
mod rlscheduler;
mod run_sequences;
mod runner;
mod sacct_rows;
mod schema;
mod selection;
mod sequences;
mod serving;
mod shell;
mod simulated;
mod slower_gpus;
mod slurm;
mod slurm_sites;
mod small_world;
mod streamed;
mod swf_samples;
mod theory;
mod tidy;
mod traced;
mod view;
mod why_waited;
mod worlds;

use libtest_mimic::{Arguments, Trial};

/// What a trial needs in order to run.
enum Needs {
    Nothing,
    /// Traces or recorded decisions: the folder that `DRYRACK_DATA` names, or `../shared` if it exists.
    Data,
    /// Time: runs only if a filter names `slow`.
    Time,
    /// The data and minutes of time: a separate set, which runs only if a filter names it.
    Means,
    /// A machine with little other load: a separate set, which runs only if a filter names it.
    RealTime,
    /// Minutes of time: a set of its own, which runs only if a filter names it.
    Coverage,
    /// Slurm, and a machine with little other load.
    SlurmInRealTime,
    /// Slurm and minutes of time: a separate set, which runs only if a filter names it.
    SlurmInMinutes,
    /// The Debian 13 that `tests/slurm/debian-13` makes, in the folder that `DRYRACK_DEBIAN_13` names, and minutes of time:
    /// a separate set, which runs only if a filter names it.
    Debian13,
    /// The package index, the data and minutes of time: a separate set, which runs only if a filter names it.
    Index,
    /// A kube-scheduler, and a minute of time: a separate set, which runs only if a filter names it.
    KubeScheduler,
    /// Slurm and munge, as Debian packages them, and root.
    Slurm,
    /// Python 3, for schedulers in other processes.
    Python,
    /// Like `Time`, and Python 3.
    SlowPython,
    /// The XML checker of libxml2.
    Xmllint,
    /// A browser.
    Chromium,
    /// Like `Time`, and permission to create file systems.
    SmallDisks,
}

fn main() {
    let modules = [
        accounting::trials,
        action::trials,
        answers::trials,
        attained::trials,
        backfilling::trials,
        book::trials,
        browser::trials,
        cli::trials,
        clouds::trials,
        clusters::trials,
        conform::trials,
        crashes::trials,
        custom_stages::trials,
        cut_off::trials,
        deployments::trials,
        diagnostics::trials,
        disks::trials,
        explained::trials,
        extending::trials,
        extremes::trials,
        failed_jobs::trials,
        first::trials,
        fit::trials,
        formats::trials,
        futures::trials,
        fuzzed::trials,
        gpu_names::trials,
        grammar::trials,
        hardware::trials,
        hunted::trials,
        imports::trials,
        imports_fuzzed::trials,
        keepers::trials,
        kept_out::trials,
        kube_scheduler::trials,
        kueue::trials,
        library::trials,
        lists::trials,
        live::trials,
        manifests::trials,
        minimized::trials,
        mistakes::trials,
        money::trials,
        never_runs::trials,
        offers::trials,
        on_slurm::trials,
        asked::trials,
        gangs_outside::trials,
        outside::trials,
        outside_sockets::trials,
        outside_told::trials,
        planted::trials,
        plan_answers::trials,
        plan_compared::trials,
        plan_reasons::trials,
        plans::trials,
        policy::trials,
        policy_oracle::trials,
        probes::trials,
        questions::trials,
        quotas::trials,
        records::trials,
        released::trials,
        report::trials,
        reported::trials,
        recounted::trials,
        requeued::trials,
        rlscheduler::trials,
        run_sequences::trials,
        runner::trials,
        sacct_rows::trials,
        schema::trials,
        selection::trials,
        sequences::trials,
        serving::trials,
        shell::trials,
        simulated::trials,
        slower_gpus::trials,
        slurm::trials,
        streamed::trials,
        theory::trials,
        view::trials,
        why_waited::trials,
        worlds::trials,
    ];
    let mut trials: Vec<Trial> = modules.into_iter().flat_map(|of_module| of_module()).collect();
    trials.extend(diagnostics::broken_files().into_iter().map(|file| {
        let name = format!("diagnostics::{}", file.file_stem().expect("a file").to_string_lossy());
        trial(&name, Needs::Nothing, move || diagnostics::a_broken_file_is_told_what_to_type_next(&file))
    }));
    for (name, test) in tidy::ALL.into_iter().chain(circles::ALL).chain(oracle::ALL) {
        trials.push(trial(name, Needs::Nothing, move || test().unwrap_or_else(|fault| panic!("{fault}"))));
    }
    for (name, test) in determinism::FAST {
        trials.push(trial(name, Needs::Nothing, test));
    }
    for (name, test) in determinism::SLOW.into_iter().chain(selection::SLOW) {
        trials.push(trial(name, Needs::Time, test));
    }
    let of_data = openb::ALL.into_iter().chain(swf_samples::ALL).chain(traced::ALL).chain(lists::ALL);
    for (name, test) in of_data.chain(conform::KUEUE) {
        trials.push(trial(name, Needs::Data, move || test(&data().expect("it is here")).expect(name)));
    }
    for (name, test) in literature::FAST {
        trials.push(trial(name, Needs::Data, move || test(&data().expect("it is here")).expect(name)));
    }
    for (name, test) in literature::SLOW {
        trials.push(trial(name, Needs::Means, move || test(&data().expect("it is here")).expect(name)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial(name: &str, needs: Needs, run: impl FnOnce() + Send + 'static) -> Trial {
    let is_here = match needs {
        Needs::Nothing => true,
        Needs::Data => data().is_some(),
        Needs::Time => is_wanted("slow"),
        Needs::Means => is_wanted("literature_means") && data().is_some(),
        Needs::RealTime => is_wanted("live_for_real"),
        Needs::Index => is_wanted("released_for_real") && data().is_some(),
        Needs::KubeScheduler => is_wanted("kube_scheduler_for_real") && kube_scheduler::program().is_some(),
        Needs::Coverage => is_wanted("theory_coverage"),
        Needs::SlurmInRealTime => is_wanted("live_for_real") && clusters::slurm_is_here(),
        Needs::SlurmInMinutes => is_wanted("slurm_limit") && clusters::slurm_is_here(),
        Needs::Debian13 => is_wanted("debian_13") && slurm::debian_13().is_some(),
        Needs::Slurm => clusters::slurm_is_here(),
        Needs::Python => outside::python_is_here(),
        Needs::SlowPython => is_wanted("slow") && outside::python_is_here(),
        Needs::Xmllint => runner::xmllint_is_here(),
        Needs::SmallDisks => is_wanted("slow") && probes::small_disks_are_here(),
        Needs::Chromium => browser::chromium_is_here(),
    };
    // If the data is required, its absence is a failure, so that the gap is not overlooked.
    let is_required =
        std::env::var_os("DRYRACK_REQUIRE_DATA").is_some_and(|value| value == "1") && matches!(needs, Needs::Data);
    let absent = !is_here && is_required;
    let runner = move || {
        if absent {
            return Err("the folder that DRYRACK_DATA names does not exist".into());
        }
        run();
        Ok(())
    };
    Trial::test(name, runner).with_ignored_flag(!is_here && !is_required)
}

fn is_wanted(set: &str) -> bool {
    std::env::args().any(|typed| typed.contains(set))
}

/// The folder of traces and recorded decisions.
pub fn data() -> Option<std::path::PathBuf> {
    let named = std::env::var_os("DRYRACK_DATA").map(std::path::PathBuf::from);
    let folder = named.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared").into());
    folder.join("traces").is_dir().then_some(folder)
}
