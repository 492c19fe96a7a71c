//! A hash of the inputs of a plan, so that a plan resumes only from runs of the same input.

use std::fmt::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use dryrack_engine::Rehearsal;
use dryrack_workload::{JobBehavior, Usage};

/// Hashes the plan's text, and then the scenario with each value of each factor as loaded, including its profile and
/// the jobs of its trace, which are separate files.
#[derive(Default)]
pub struct InputHash {
    hasher: blake3::Hasher,
    /// The last recording that was hashed; jobs share recordings.
    recording: Option<Arc<Usage>>,
}

impl InputHash {
    pub fn text(&mut self, text: &str) {
        self.hasher.update(text.as_bytes());
        self.hasher.update(&[0]);
    }

    pub fn rehearsal(&mut self, rehearsal: &Rehearsal) {
        self.text(&rehearsal.source);
        self.written(&*rehearsal.profile);
        self.form(&(rehearsal.seed, &rehearsal.fleets, &rehearsal.clouds, &rehearsal.nodes));
        self.form(&(&rehearsal.cancellations, &rehearsal.scalings, &rehearsal.faults));
        for arrival in &rehearsal.arrivals {
            if let Some(usage) = arrival.behavior.usage.as_ref().filter(|usage| !self.is_known(usage)) {
                self.form(usage);
                self.recording = Some(Arc::clone(usage));
            }
            let behavior = JobBehavior { usage: None, ..(*arrival.behavior).clone() };
            self.written(&*arrival.spec);
            self.form(&(arrival.at, behavior));
        }
    }

    pub fn hex(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }

    fn is_known(&self, usage: &Arc<Usage>) -> bool {
        self.recording.as_ref().is_some_and(|known| Arc::ptr_eq(known, usage))
    }

    /// Hashes a value as written in files, which leaves out unset options. So adding an option later does not change
    /// the hash.
    fn written(&mut self, value: &impl Serialize) {
        self.text(&serde_json::to_string(value).expect("profiles and jobs are written in logs too"));
    }

    /// Hashes a value by its debug form, which has all of its fields in order.
    fn form(&mut self, value: &impl fmt::Debug) {
        write!(self, "{value:?}").expect("a hash takes everything");
        self.hasher.update(&[0]);
    }
}

impl Write for InputHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.hasher.update(text.as_bytes());
        Ok(())
    }
}
