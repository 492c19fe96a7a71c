//! Floor 12. The command line: one file for each command, which converts its arguments once into checked values.
//!
//! stdout carries data; stderr carries progress and diagnostics. Exit codes are those of [`Exit`]. This floor holds no
//! logic of its own. Only this floor and `live` read a clock. This floor reads it to report how long a command took,
//! never to decide anything.

#![warn(clippy::unwrap_used)]

mod bench;
mod bisect;
mod calibrate;
mod catalog;
mod causes;
mod check;
mod compare;
mod compare_seeds;
mod completions;
mod conform;
mod decider;
mod diff;
mod doctor;
mod each_seed;
mod exit;
mod explain;
mod fault;
mod fit;
mod futures;
mod guard;
mod hunt;
mod import;
mod import_kubernetes;
mod init;
#[cfg(target_os = "linux")]
mod kept;
#[cfg(target_os = "linux")]
mod live;
mod log;
mod logs;
mod marks;
mod minimize;
mod minimize_seed;
mod offers;
mod output;
mod outside;
mod picture;
mod plan;
mod plan_growing;
mod plan_pair;
mod plan_submit;
mod plan_text;
mod planning;
mod plot;
mod policy;
mod probe;
mod profile;
mod profile_text;
mod progress;
mod record;
mod recorded_runs;
mod replay;
mod roots;
mod run;
mod schema;
mod seen_from;
mod select;
mod selection;
mod simulate;
mod source;
mod swarm;
mod swarm_watch;
mod test;
mod trace;
mod trace_file;
mod trace_model;
mod trace_scenario;
mod trace_source;
mod trace_target;
mod validate;
mod view;
mod watch;
mod what_helps;
mod what_if;
mod whole_file;

pub use exit::Exit;
#[cfg(target_os = "linux")]
use kept::kept;

use clap::{CommandFactory, Parser, Subcommand};

use dryrack_engine::limit_records;
use exit::{ExitResult, Failure};
use output::{Color, TestFormat};

/// Rehearses a GPU cluster before it runs.
#[derive(Debug, Parser)]
#[command(name = "dryrack", version, max_term_width = 100, infer_subcommands = false, subcommand_required = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Format of the data on stdout
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    format: TestFormat,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
    /// Stop a run that writes more records than this, plus 1,000 for each of its jobs [default: 20000000]
    #[arg(long, global = true, allow_hyphen_values = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_records: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a first scenario of a cluster, with comments
    Init(init::InitArgs),
    /// Run one scenario and report what happened
    Run(run::RunArgs),
    /// Run scenarios and check the expectations of each
    Test(test::TestArgs),
    /// Accept or reject decisions that differ from a baseline, one run after the other
    Review(test::ReviewArgs),
    /// Validate scenario files without running them
    Check(check::CheckArgs),
    /// Print the events of a run, one on each line
    Log(log::LogArgs),
    /// Show a run in the terminal: its nodes, jobs and events at any instant
    View(view::ViewArgs),
    /// Explain why a job waits, or why it was placed where it is
    Explain(explain::ExplainArgs),
    /// Show which nodes and GPUs can be picked by hand for a job, and why the others cannot
    Select(selection::SelectArgs),
    /// Check whether a model fits before it is deployed, where it fits, and what would help if it does not
    Fit(fit::FitArgs),
    /// Check whether Kueue would admit one more workload, when, whom it would preempt, and what would help
    Simulate(simulate::SimulateArgs),
    /// List the instance offers for a job, in order, and why the other instances have no offer
    Offers(offers::OffersArgs),
    /// Repeat a run from its log alone, and compare every event
    Replay(replay::ReplayArgs),
    /// Run a scenario's commands as real processes on this machine, and predict the run before it starts
    #[cfg(target_os = "linux")]
    Live(live::LiveArgs),
    /// Measure how closely runs on a real machine agree with their rehearsals
    Validate(validate::ValidateArgs),
    /// Estimate a machine's delays from recordings, and print them as settings for a rehearsal
    Calibrate(calibrate::CalibrateArgs),
    /// Find the first record in which two logs differ
    Diff(diff::DiffArgs),
    /// Run scenarios under several profiles, and find the first decision that differs
    Compare(compare::CompareArgs),
    /// Find the smallest scenario that still fails in the same way
    Minimize(minimize::MinimizeArgs),
    /// Rehearse a utilization policy on recordings of GPU usage, without a scheduler
    Policy(policy::PolicyArgs),
    /// Compare decisions with recorded decisions of released programs
    Conform(conform::ConformArgs),
    /// List known machines, GPUs and models, and which backend serves which model
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// Print the JSON Schema of scenario files or profile files, for editors
    Schema {
        /// The kind of file
        #[arg(value_enum, default_value_t)]
        of: schema::SchemaOf,
    },
    /// List, show and compare scheduling profiles
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    /// List, fetch and verify public traces; inspect, convert and change lists of tasks
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Run random worlds with all checks enabled
    Swarm(swarm::SwarmArgs),
    /// Run many alternatives of a scenario, and find the cheapest one that meets the objective
    Plan(plan::PlanArgs),
    /// Compare a run with the same run under another fleet, profile or policy from a given time on
    WhatIf(what_if::WhatIfArgs),
    /// Run a scenario with single changes, such as one more node or another profile, and rank them by the waiting hours
    /// that each saves
    WhatHelps(what_helps::WhatHelpsArgs),
    /// Measure how long scenarios take to run
    Bench(bench::BenchArgs),
    /// Find machines and their use, and write them as nodes of a scenario
    Probe(probe::ProbeArgs),
    /// Record the usage of GPUs, in a form that scenarios and policies can replay
    Record(record::RecordArgs),
    /// Convert a server's database, saved answers or Kubernetes manifests to a scenario
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Report when a utilization policy would act on real usage; no job is touched
    Watch(watch::WatchArgs),
    /// Install, list, remove and check released schedulers that can decide in place of a profile
    #[command(subcommand)]
    Outside(outside::OutsideCommand),
    /// Find the first release of a program under which the verdict on a scenario changes
    Bisect(bisect::BisectArgs),
    /// Look for decisions of a program that break a property, in random scenarios
    Hunt(hunt::HuntArgs),
    /// Plot the results of runs
    #[command(subcommand)]
    Plot(plot::PlotCommand),
    /// Show which folders and programs dryrack finds here, and what each is for
    Doctor,
    /// Print the completions of a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual pages, one for each command
    Man(completions::ManArgs),
}

/// Runs the command that the user typed.
pub fn main() -> Exit {
    guard::install();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => {
            let exit = if said.use_stderr() { Exit::BadInput } else { Exit::Fine };
            return output::print_parser_output(&said).map_or_else(failed, |()| exit);
        }
    };
    cli.color.apply();
    if let Some(most) = cli.max_records {
        limit_records(most);
    }
    match guard::guarded_run(|| cli.dispatch()) {
        Ok(Ok(exit)) => exit,
        Ok(Err(failure)) => failed(failure),
        Err(guard::WorkFailure::Runaway(runaway)) => {
            output::warn(&fault::runaway_text(&runaway));
            Exit::BadInput
        }
        Err(guard::WorkFailure::Invariant(message)) => {
            let typed: Vec<String> = std::env::args().skip(1).collect();
            output::warn(&format!("internal error: {message}\n  repeat with: dryrack {}\n", typed.join(" ")));
            Exit::OurFault
        }
    }
}

/// Prints the failure, and returns its exit code.
fn failed(failure: Failure) -> Exit {
    let exit = failure.exit();
    match failure {
        Failure::Input(message) => output::warn(&ended(output::cut(&message))),
        Failure::Ours(message) | Failure::Killed(message) => output::warn(&ended(message)),
        Failure::BrokenPipe => {}
    }
    exit
}

fn ended(message: String) -> String {
    if message.ends_with('\n') { message } else { message + "\n" }
}

/// Runs `work` in this process, on systems where one process cannot watch another.
#[cfg(not(target_os = "linux"))]
fn kept(work: impl FnOnce() -> ExitResult) -> ExitResult {
    work()
}

impl Cli {
    fn dispatch(&self) -> ExitResult {
        match &self.command {
            Command::Run(args) => run::run(args, self.format.plain()?),
            Command::Plan(args) => plan::plan(args, self.format.plain()?),
            Command::WhatIf(args) => what_if::what_if(args, self.format.plain()?),
            Command::WhatHelps(args) => what_helps::what_helps(args, self.format.plain()?),
            Command::Test(args) => test::test(args, self.format),
            Command::Review(args) => test::review(args, self.format.plain()?),
            Command::Check(args) => check::check(args, self.format.plain()?),
            Command::Log(args) => log::log(args, self.format.plain()?),
            Command::View(args) => view::view(args, self.color, self.format.plain()?),
            Command::Explain(args) => explain::explain(args, self.format.plain()?),
            Command::Select(args) => selection::select(args, self.format.plain()?),
            Command::Simulate(args) => simulate::simulate(args, self.format.plain()?),
            Command::Fit(args) => fit::fit(args, self.format.plain()?),
            Command::Offers(args) => offers::offers(args, self.format.plain()?),
            Command::Replay(args) => replay::replay(args, self.format.plain()?),
            #[cfg(target_os = "linux")]
            Command::Live(args) => kept(|| live::live(args, self.format.plain()?)),
            Command::Validate(args) => validate::validate(args, self.format.plain()?),
            Command::Calibrate(args) => calibrate::calibrate(args, self.format.plain()?),
            Command::Diff(args) => diff::diff(args, self.format.plain()?),
            Command::Compare(args) => compare::compare(args, self.format.plain()?),
            Command::Minimize(args) => minimize::minimize(args, self.format.plain()?),
            Command::Policy(args) => policy::policy(args, self.format.plain()?),
            Command::Conform(args) => conform::conform(args, self.format.plain()?),
            Command::Catalog(command) => catalog::catalog(command, self.format.plain()?),
            Command::Schema { of } => schema::schema(*of),
            Command::Profile(command) => profile::profile(command, self.format.plain()?),
            Command::Trace(command) => trace::trace(command, self.format.plain()?),
            Command::Swarm(_) if self.max_records.is_some() => Err(swarm::limits_records_itself()),
            Command::Swarm(args) => swarm::swarm(args, self.format.plain()?),
            Command::Bench(args) => bench::bench(args, self.format.plain()?),
            Command::Init(args) => kept(|| init::init(args)),
            Command::Probe(args) => kept(|| probe::probe(args, self.format.plain()?)),
            Command::Import(command) => import::import(command),
            Command::Record(args) => kept(|| record::record(args, self.format.plain()?)),
            Command::Watch(args) => kept(|| watch::watch(args, self.format.plain()?)),
            Command::Outside(command) => outside::outside(command, self.format.plain()?),
            Command::Bisect(args) => bisect::bisect(args, self.format.plain()?),
            Command::Hunt(args) => hunt::hunt(args, self.format.plain()?),
            Command::Plot(command) => plot::plot(command),
            Command::Doctor => doctor::doctor(self.format.plain()?),
            Command::Completions(args) => completions::completions(args, &mut Cli::command()),
            Command::Man(args) => completions::man(args, Cli::command()),
        }
    }
}
