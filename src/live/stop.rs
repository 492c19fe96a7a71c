//! Requests to end the program: Control-C and similar signals set a flag, which whoever works checks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// Set once, by a signal.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens to Control-C, the end of the terminal and a polite end by others. A second Control-C ends the program
    /// at once.
    pub fn on_signals() -> io::Result<Stop> {
        let stop = Stop::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The order matters: at the first signal the flag is not set yet.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop.0))?;
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        #[cfg(target_os = "linux")]
        if super::process::lost_keeper() {
            stop.0.store(true, Ordering::Relaxed);
        }
        // If a file may not grow any more, the write then fails, and the program is not killed.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(stop)
    }

    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
