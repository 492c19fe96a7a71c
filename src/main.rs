use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A fast allocator: each run allocates and frees many records and tables, and several runs may work in parallel.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    #[cfg(feature = "planted")]
    if let Err(unknown) = dryrack_planted::chosen() {
        eprintln!("{unknown}");
        return ExitCode::from(2);
    }
    dryrack_cli::main().into()
}
