//! Watches the running worlds of a swarm. A world that takes too long is stopped and reported. If the process takes too
//! much memory, all running worlds are reported as stuck.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::fault::fault_text;
use dryrack_engine::Progress;

/// How long a world may run before it is asked to stop. It then stops at the end of its step. A world normally takes
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a world may run before its current step is assumed to be endless.
const LONGEST: Duration = Duration::from_secs(90);
/// The memory limit of this process in bytes. Worlds that run side by side need less.
const MOST_MEMORY: u64 = 3 << 30;

#[derive(Default)]
pub struct Watch {
    running: Mutex<BTreeMap<u64, Running>>,
}

struct Running {
    since: Instant,
    progress: Arc<Progress>,
}

impl Watch {
    /// Runs one world, and lets this watch observe it meanwhile.
    pub fn during<T>(&self, seed: u64, work: impl FnOnce(&Progress) -> T) -> T {
        let progress = Arc::new(Progress::default());
        self.running().insert(seed, Running { since: now(), progress: Arc::clone(&progress) });
        let result = work(&progress);
        self.running().remove(&seed);
        result
    }

    /// Stops worlds that take too long. If some cannot be stopped, returns a message for each of their seeds. The
    /// caller must then end the process.
    pub fn poll(&self) -> Option<BTreeMap<u64, String>> {
        let running = self.running();
        let is_full = resident() > MOST_MEMORY;
        let mut stuck = BTreeMap::new();
        for (seed, world) in running.iter() {
            let took = now().duration_since(world.since);
            if took > PATIENCE {
                world.progress.stop();
            }
            if took > LONGEST || is_full {
                let why = match is_full {
                    true => format!("more than {} GiB of memory are in use while it runs", MOST_MEMORY >> 30),
                    false => format!("one step takes more than {} s", LONGEST.as_secs()),
                };
                let command = format!("dryrack swarm --seeds {seed}");
                stuck.insert(*seed, fault_text(&why, *seed, &world.progress, &command));
            }
        }
        (!stuck.is_empty()).then_some(stuck)
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The resident memory of this process in bytes; 0 if the system does not report it.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    pages * 4096
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a world takes is bounded, and what it is does not depend on it"
)]
fn now() -> Instant {
    Instant::now()
}
