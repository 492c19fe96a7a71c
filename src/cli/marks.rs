//! `--marks`: which states the runs of a command reached.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::exit::Failure;
use super::output::{WholeFile, warn};
use dryrack_control::Profile;
use dryrack_event::{Record, RecordBody, Sink};
use dryrack_profile::{load_profile, profile_names};
use dryrack_swarm::{Marks, RunMarks};
use dryrack_units::counted;

/// The marks that all runs of a command have reached.
pub struct ReachedMarks(Mutex<Marks>);

impl ReachedMarks {
    /// Marks for the options of the profiles that come with dryrack.
    pub fn new() -> Result<ReachedMarks, Failure> {
        let profiles = profile_names().map(|name| load_profile(name, Path::new(""))).collect::<Result<Vec<_>, _>>();
        let profiles = profiles.map_err(|diagnostics| Failure::Ours(diagnostics.to_string()))?;
        Ok(ReachedMarks(Mutex::new(Marks::new(profiles.iter().map(|profile| &**profile)))))
    }

    pub fn add(&self, run: &RunMarks, profile: &Profile) {
        // The counts of a run are added whole, so a thread that panicked elsewhere leaves them right.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(run, profile);
    }

    /// Adds what a log reached.
    pub fn add_log(&self, records: &[Record], profile: &Profile) {
        let mut run = RunMarks::default();
        for record in records {
            if let RecordBody::Event(event) = &record.said {
                run.event(record.step, record.at, event);
            }
        }
        self.add(&run, profile);
    }

    /// Writes a line for each mark: how many runs reached it, and the mark. Says how many marks were not reached.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).all();
        let text: String = all.iter().map(|(mark, count)| format!("{count}\t{mark}\n")).collect();
        WholeFile::write(path, text.as_bytes())?;
        let reached = all.values().filter(|count| **count > 0).count();
        warn(&format!("note: {reached} of {} reached; see {}\n", counted(all.len(), "mark"), path.display()));
        Ok(())
    }
}
