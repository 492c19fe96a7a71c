use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Records and tables grow and go with each run, and runs follow each other, some beside each other.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    dryrack_cli::main().into()
}
