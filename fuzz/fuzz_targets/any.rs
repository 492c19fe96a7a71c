//! One program for all targets: the environment variable `DRYRACK_FUZZ` names one. `.ci/fuzz` builds and runs it.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

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

fuzz_target!(|input: &[u8]| {
    let target = chosen();
    if input.len() <= target.longest {
        (target.read)(input);
    }
});
