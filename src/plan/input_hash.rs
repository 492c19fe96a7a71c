//! A hash of a plan's inputs. A plan may resume only from runs with the same inputs.

use std::io::{BufWriter, Write};
use std::sync::Arc;

use serde::Serialize;

use dryrack_engine::Rehearsal;
use dryrack_ids::lend;
use dryrack_planted::planted;
use dryrack_rehearse::names;
use dryrack_workload::{Arrival, JobBehavior, Usage};

/// Hashes the plan's text and then the loaded scenario for each value of each factor. The loaded scenario includes the
/// profile and the jobs of the trace, which are separate files.
///
/// Every value is hashed in its JSON form, with the names of nodes and jobs, as in a log. So the hash does not depend
/// on the names of types in the code, and another build of dryrack can resume the plan.
pub struct InputHash {
    /// JSON is written in pieces of a few bytes, which are hashed faster together.
    hasher: BufWriter<blake3::Hasher>,
    /// The recording that was hashed last. Jobs share recordings, so this avoids hashing one several times.
    recording: Option<Arc<Usage>>,
    /// The jobs that were hashed last. Most factors change no job, and the JSON of many jobs takes time.
    jobs: Vec<Arrival>,
}

/// Number of bytes that are hashed together.
const BUFFER: usize = 1 << 16;

impl Default for InputHash {
    fn default() -> InputHash {
        InputHash { hasher: BufWriter::with_capacity(BUFFER, blake3::Hasher::new()), recording: None, jobs: Vec::new() }
    }
}

impl InputHash {
    pub fn text(&mut self, text: &str) {
        self.write(text.as_bytes());
        self.write(&[0]);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.hasher.write_all(bytes).expect("a hash takes all bytes");
    }

    pub fn rehearsal(&mut self, rehearsal: &Rehearsal) {
        // An id has a JSON form only while the names are lent.
        lend(&mut names(rehearsal), || self.parts(rehearsal));
    }

    fn parts(&mut self, rehearsal: &Rehearsal) {
        self.text(&rehearsal.source);
        if !planted!(ProfileIsNotHashed) {
            self.value(&*rehearsal.profile);
        }
        self.value(&(rehearsal.seed, &rehearsal.clouds));
        if let Some(electricity) = &rehearsal.electricity {
            self.value(&**electricity);
        }
        rehearsal.fleets.iter().for_each(|fleet| self.value(&**fleet));
        rehearsal.nodes.iter().for_each(|node| self.value(node));
        self.value(&(&rehearsal.cancellations, &rehearsal.scalings, &rehearsal.faults));
        if is_same(&self.jobs, &rehearsal.arrivals) {
            return self.text("the jobs of the alternative before");
        }
        self.jobs.clone_from(&rehearsal.arrivals);
        for arrival in &rehearsal.arrivals {
            if let Some(usage) = arrival.behavior.usage.as_ref().filter(|usage| !self.is_known(usage)) {
                self.value(&**usage);
                self.recording = Some(Arc::clone(usage));
            }
            let behavior = JobBehavior { usage: None, ..(*arrival.behavior).clone() };
            self.value(&*arrival.spec);
            self.value(&(arrival.at, behavior));
        }
    }

    pub fn hex(&mut self) -> String {
        self.hasher.flush().expect("a hash takes all bytes");
        self.hasher.get_ref().finalize().to_hex().to_string()
    }

    fn is_known(&self, usage: &Arc<Usage>) -> bool {
        self.recording.as_ref().is_some_and(|known| Arc::ptr_eq(known, usage))
    }

    /// Hashes a value in its JSON form. Unset options of a profile or a job are left out, so the hash stays the same if
    /// dryrack later gains an option.
    fn value(&mut self, value: &impl Serialize) {
        serde_json::to_writer(&mut self.hasher, value).expect("all names are lent");
        self.write(&[0]);
    }
}

fn is_same(jobs: &[Arrival], others: &[Arrival]) -> bool {
    let is_equal = |(one, other): (&Arrival, &Arrival)| {
        one.at == other.at && one.spec == other.spec && one.behavior == other.behavior
    };
    jobs.len() == others.len() && jobs.iter().zip(others).all(is_equal)
}
