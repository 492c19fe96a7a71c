//! A rehearsal run with everything that the commands want to know of it.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::engine::{Progress, Rehearsal, RunEnd, RunOptions, run};
use crate::event::{Digest, Digester, FORMAT_VERSION, LogHeader, Sink};
use crate::expect::{Expectation, Horizon, Judge, Verdict};
use crate::ids::Names;
use crate::report::{LogWriter, RunAccount};
use crate::scheduler::Caching;
use crate::units::SimTime;

pub struct Rehearsed {
    pub end: RunEnd,
    /// To the last record, or to where the file says the run stops if something is left by then.
    pub until: SimTime,
    pub digest: Digest,
    pub verdicts: Vec<Verdict>,
    pub accounts: RunAccount,
    pub wall: Duration,
}

/// Runs it. `progress` names the step if an invariant breaks; `log` takes every record.
pub fn rehearse<W: Write>(
    rehearsal: &Rehearsal,
    expectations: Vec<Expectation>,
    progress: &Progress,
    caching: Caching,
    log: Option<&mut LogWriter<W>>,
) -> Rehearsed {
    let more = log.map(|log| log as &mut dyn Sink).into_iter().collect();
    rehearse_caching(rehearsal, expectations, progress, caching, more)
}

/// Likewise, with any number of sinks that take every record.
pub fn rehearse_with(
    rehearsal: &Rehearsal,
    expectations: Vec<Expectation>,
    progress: &Progress,
    more: Vec<&mut dyn Sink>,
) -> Rehearsed {
    rehearse_caching(rehearsal, expectations, progress, Caching::On, more)
}

fn rehearse_caching(
    rehearsal: &Rehearsal,
    expectations: Vec<Expectation>,
    progress: &Progress,
    caching: Caching,
    mut more: Vec<&mut dyn Sink>,
) -> Rehearsed {
    #[expect(clippy::disallowed_methods, reason = "how long it took is said, and reaches no run")]
    let begun = Instant::now();
    let mut judge = Judge::new(expectations, names(rehearsal));
    let mut accounts = RunAccount::default();
    let mut digester = Digester::default();
    let options = RunOptions { progress: Some(progress), caching, ..RunOptions::default() };
    let end = {
        let mut sinks: Vec<&mut dyn Sink> = vec![&mut judge, &mut accounts, &mut digester];
        for sink in &mut more {
            sinks.push(&mut **sink);
        }
        run(rehearsal, options, &mut sinks)
    };
    let (until, horizon) = match (end.cut_short, rehearsal.until) {
        (true, Some(until)) => (until, Horizon::Until(until)),
        // What runs on, or waits on, does so until then, though nothing more is said of it.
        (false, Some(until)) if accounts.is_anything_left() => (until, Horizon::Everything),
        (false, _) | (true, None) => (end.at, Horizon::Everything),
    };
    accounts.finish(until);
    let verdicts = judge.finish(horizon, &accounts);
    Rehearsed { end, until, digest: digester.finish(), verdicts, accounts, wall: begun.elapsed() }
}

/// The names of all fleets, nodes and jobs, whether the run comes to them or not.
pub fn names(rehearsal: &Rehearsal) -> Names {
    let mut names = Names::default();
    for fleet in &rehearsal.fleets {
        names.fleets.add(fleet.name.clone()).expect("a loaded scenario names each fleet once");
    }
    for node in &rehearsal.nodes {
        names.nodes.add(node.spec.name.clone()).expect("a loaded scenario names each node once");
    }
    for arrival in &rehearsal.arrivals {
        names.jobs.add(arrival.spec.name.clone()).expect("a loaded scenario names each job once");
    }
    names
}

pub fn header(rehearsal: &Rehearsal) -> LogHeader {
    LogHeader {
        dryrack: env!("CARGO_PKG_VERSION").to_string(),
        format: FORMAT_VERSION,
        scenario: rehearsal.title.clone(),
        source: rehearsal.source.clone(),
        seed: rehearsal.seed,
        profile: rehearsal.profile.name.clone(),
        profile_data: serde_json::to_value(&*rehearsal.profile).expect("a profile has a JSON form"),
    }
}

/// What is said of a broken invariant: where it was, and what repeats it.
pub fn fault_text(message: &str, seed: u64, progress: &Progress, command: &str) -> String {
    format!(
        "our fault: {message}\n  seed {seed}, step {}, at {}\n  repeat with: {command}\n",
        progress.step(),
        progress.at()
    )
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::cli::exit::{Exit, Failure};
    use crate::cli::guard::guarded;
    use crate::cli::run::Overrides;
    use crate::scenario::{Options, load_text};

    /// Breaks an invariant of its own when the job is placed.
    struct Breaks;

    impl io::Write for Breaks {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let line = String::from_utf8_lossy(bytes);
            assert!(!line.contains("\"placed\""), "nothing is placed here");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const SCENARIO: &str = "\
scenario: One job on one node
seed: 7
nodes: [{name: alpha, cpus: 2}]
jobs: [{name: one, at: 10s, cpus: 1, duration: 1m}]
expect: [{name: ends, job: one, is: completed}]
";

    #[test]
    fn a_broken_invariant_is_told_with_seed_step_time_and_what_repeats_it() {
        let loaded = load_text("one.yaml", SCENARIO, Path::new(""), &Options::default());
        let loaded = loaded.unwrap_or_else(|faults| panic!("{faults}"));
        let (rehearsal, progress) = (loaded.rehearsal, Progress::default());
        let mut log = LogWriter::new(Breaks, &header(&rehearsal)).expect("it takes the header");
        let broken = guarded(|| rehearse(&rehearsal, loaded.expectations, &progress, Caching::On, Some(&mut log)));
        let message = broken.err().expect("the job is placed");
        let command = Overrides::under(Some("pack".into())).repeat(Path::new("one.yaml"), rehearsal.seed);
        let said = fault_text(&message, rehearsal.seed, &progress, &command);
        // The first step declares the node; the job comes in the second.
        let wanted = "our fault: nothing is placed here\n  seed 7, step 2, at 10s\n  \
                      repeat with: dryrack run one.yaml --seed 7 --profile pack\n";
        assert_eq!(said, wanted);
        assert_eq!(Failure::Ours(said).exit(), Exit::OurFault);
        assert_eq!(Exit::OurFault as u8, 3);
    }
}
