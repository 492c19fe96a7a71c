//! Messages about runs that broke an invariant or were stopped.

use dryrack_engine::{Bound, Progress, Runaway};

/// The message about a broken invariant: the seed, the step and the time, and the command that repeats the run.
pub fn fault_text(message: &str, seed: u64, progress: &Progress, command: &str) -> String {
    format!(
        "internal error: {message}\n  seed {seed}, step {}, at {}\n  repeat with: {command}\n",
        progress.step(),
        progress.at()
    )
}

/// The message about a run that was stopped because it would not end: what grew, and how to end the run earlier or let
/// it continue.
pub fn runaway_text(runaway: &Runaway) -> String {
    let help = match runaway.bound {
        Bound::Records => {
            let more = runaway.records.saturating_mul(10);
            format!("write `until: 1h` in the file, or type `--max-records {more}` if this run is meant to be so long")
        }
        Bound::Patience => "end the run earlier, for example with `until: 1h` in the file".to_string(),
    };
    format!("error: {runaway}\n  = help: {help}\n")
}

/// The first line of the text of a fault.
pub fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::exit::{Exit, Failure};
    use crate::guard::guarded;
    use crate::run::Overrides;
    use dryrack_rehearse::{header, rehearse};
    use dryrack_report::LogWriter;
    use dryrack_scenario::{Options, load_text};
    use dryrack_scheduler::Caching;

    /// A sink that panics when a job is placed, to simulate a broken invariant.
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
        let broken = guarded(|| rehearse(&rehearsal, loaded.expectations, &progress, Caching::On, vec![&mut log]));
        let message = broken.err().expect("the job is placed");
        let command = Overrides::under(Some("pack".into())).repeat(Path::new("one.yaml"), rehearsal.seed);
        let said = fault_text(&message, rehearsal.seed, &progress, &command);
        // The first step declares the node; the job comes in the second.
        let wanted = "internal error: nothing is placed here\n  seed 7, step 2, at 10s\n  \
                      repeat with: dryrack run one.yaml --seed 7 --profile pack\n";
        assert_eq!(said, wanted);
        assert_eq!(Failure::Ours(said).exit(), Exit::OurFault);
        assert_eq!(Exit::OurFault as u8, 3);
    }
}
