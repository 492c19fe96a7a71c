//! Requests to end the program. Control-C and similar signals set a flag that long work checks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// A flag that a signal sets once.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Sets the flag on SIGINT (Control-C), SIGTERM and SIGHUP. A second such signal ends the program at once.
    pub fn on_signals() -> io::Result<Stop> {
        let stop = Stop::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The order matters: when the first signal arrives, the flag must not be set yet.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop.0))?;
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        #[cfg(target_os = "linux")]
        if super::process::lost_keeper() {
            stop.0.store(true, Ordering::Relaxed);
        }
        // With a handler, a write beyond the limit on file size fails instead of killing the program.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(stop)
    }

    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
