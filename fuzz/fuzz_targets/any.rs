//! One program for all targets: the environment variable `DRYRACK_FUZZ` names one. `.ci/fuzz` builds and runs it.

#![no_main]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use rustix::time::{ClockId, clock_gettime};

#[path = "../../tests/it/fuzzed/targets.rs"]
mod targets;

fn chosen() -> &'static targets::Target {
    static CHOSEN: OnceLock<&'static targets::Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("DRYRACK_FUZZ").unwrap_or_default();
        targets::target(&name).unwrap_or_else(|| {
            let names: Vec<&str> = targets::TARGETS.iter().map(|target| target.name).collect();
            eprintln!("DRYRACK_FUZZ: expected one of {}", names.join(", "));
            std::process::exit(2)
        })
    })
}

/// The most processor time for one input.
const LONGEST: Duration = Duration::from_secs(10);

/// The processor time of this program when the current input began, in nanoseconds; 0 between inputs.
static BEGAN: AtomicU64 = AtomicU64::new(0);

/// The processor time that this program has used, in nanoseconds.
fn used() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// Ends the program if an input takes too long. libFuzzer then writes the input to a file, as for each fault.
fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let began = BEGAN.load(Ordering::SeqCst);
        let took = Duration::from_nanos(used().saturating_sub(began));
        if began > 0 && took > LONGEST {
            eprintln!("An input took more than {} s of processor time.", LONGEST.as_secs());
            std::process::abort();
        }
    }
}

fuzz_target!(
    init: {
        // Most runs that go on for ever are stopped soon, and not only after the time that the target waits for them.
        dryrack_engine::limit_records(20_000);
        std::thread::spawn(watch);
    },
    |input: &[u8]| {
        let target = chosen();
        if input.len() <= target.longest {
            BEGAN.store(used(), Ordering::SeqCst);
            (target.read)(input);
            BEGAN.store(0, Ordering::SeqCst);
        }
    }
);
