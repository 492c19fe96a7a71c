//! A hash of a plan's inputs. A plan may resume only from runs with the same inputs.

use std::fmt::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use dryrack_engine::Rehearsal;
use dryrack_workload::{JobBehavior, Usage};

/// Hashes the plan's text and then the loaded scenario for each value of each factor. The loaded scenario includes the
/// profile and the jobs of the trace, which are separate files.
#[derive(Default)]
pub struct InputHash {
    hasher: blake3::Hasher,
    /// The recording that was hashed last. Jobs share recordings, so this avoids hashing one several times.
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

    /// Hashes a value in its serialized form, which leaves out unset options. So the hash stays the same if dryrack
    /// later gains an option.
    fn written(&mut self, value: &impl Serialize) {
        self.text(&serde_json::to_string(value).expect("profiles and jobs are written in logs too"));
    }

    /// Hashes the debug form of a value, which contains all of its fields in order.
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
