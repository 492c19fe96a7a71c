//! Watches the running worlds of a swarm. A world that takes too long is stopped and reported. If the process takes too
//! much memory, all running worlds are reported as stuck.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::fault::fault_text;
use dryrack_engine::Progress;

/// How much processor time a world may take before it is asked to stop. It then stops at the end of its step. A world
/// normally takes milliseconds, and one that polls for ten days up to two minutes.
const PATIENCE: Duration = Duration::from_secs(200);
/// How much processor time a world may take before it is assumed that it cannot be asked to stop.
const LONGEST: Duration = Duration::from_secs(300);
/// How many times as long a world may take by the clock: other processes may take the processors, and a world that waits
/// for a lock takes no processor time.
const SHARE_OF_THE_CLOCK: u32 = 20;
/// The memory limit of this process in bytes. Worlds that run side by side need less.
const MOST_MEMORY: u64 = 3 << 30;

#[derive(Default)]
pub struct Watch {
    running: Mutex<BTreeMap<u64, Running>>,
}

struct Running {
    since: Instant,
    thread: Option<ThreadClock>,
    progress: Arc<Progress>,
    /// The command that runs the world alone.
    command: String,
}

impl Running {
    /// The processor time that the world has taken, and at least a fixed part of the time by the clock. If the system
    /// does not report processor time, it is the time by the clock.
    fn took(&self) -> Duration {
        let by_the_clock = now().duration_since(self.since);
        match self.thread.as_ref().and_then(ThreadClock::elapsed) {
            Some(processor) => processor.max(by_the_clock / SHARE_OF_THE_CLOCK),
            None => by_the_clock,
        }
    }
}

/// The processor time of one thread since this value was made.
struct ThreadClock {
    file: PathBuf,
    start: Duration,
}

impl ThreadClock {
    /// The clock of the thread that calls this; `None` if the system does not report processor time.
    fn here() -> Option<Self> {
        let thread = std::fs::read_link("/proc/thread-self").ok()?;
        let file = Path::new("/proc").join(thread).join("schedstat");
        // Where the kernel does not count, all is 0.
        let start = processor_time(&file).filter(|time| !time.is_zero())?;
        Some(ThreadClock { file, start })
    }

    fn elapsed(&self) -> Option<Duration> {
        Some(processor_time(&self.file)?.saturating_sub(self.start))
    }
}

/// Reads a file `schedstat` of a thread, whose first number is its processor time in nanoseconds (proc(5)).
fn processor_time(file: &Path) -> Option<Duration> {
    let text = std::fs::read_to_string(file).ok()?;
    let nanoseconds = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

impl Watch {
    /// Runs one world, and lets this watch observe it meanwhile. `command` runs the world alone.
    pub fn during<T>(&self, seed: u64, command: String, work: impl FnOnce(&Progress) -> T) -> T {
        let progress = Arc::new(Progress::default());
        let thread = ThreadClock::here();
        self.running().insert(seed, Running { since: now(), thread, progress: Arc::clone(&progress), command });
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
            let took = world.took();
            if took > PATIENCE {
                world.progress.stop();
            }
            if took > LONGEST || is_full {
                let why = match is_full {
                    true => format!("more than {} GiB of memory are in use while it runs", MOST_MEMORY >> 30),
                    false => format!("it takes more than {} s of processor time", LONGEST.as_secs()),
                };
                stuck.insert(*seed, fault_text(&why, *seed, &world.progress, &world.command));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a thread that sleeps takes time by the clock only")]
    fn only_work_takes_processor_time() {
        let Some(clock) = ThreadClock::here() else { return };
        std::thread::sleep(Duration::from_millis(50));
        let slept = clock.elapsed().expect("it was read before");
        assert!(slept < Duration::from_millis(40), "{slept:?}");
    }
}
