use std::process::ExitCode;

fn main() -> ExitCode {
    dryrack::cli::main().into()
}
