//! Runs commands that start other programs. None of these programs stays behind, even if dryrack itself is killed.

use super::exit::{Exit, ExitResult, Failure};
use dryrack_live::{ProcessEnd, end_all, keep};

/// Runs `work` in a separate process. This process watches it and ends all processes that it leaves behind.
pub fn kept(work: impl FnOnce() -> ExitResult) -> ExitResult {
    match keep() {
        Ok(None) => {
            let done = work();
            // End programs that are still running, for example one that hangs.
            end_all();
            done
        }
        Ok(Some(ProcessEnd::Ended { code })) => {
            let known = Exit::ALL.into_iter().find(|exit| *exit as i32 == code);
            known.ok_or_else(|| Failure::Ours(format!("internal error: the worker process ended with status {code}")))
        }
        Ok(Some(ProcessEnd::Killed { signal, left })) => {
            let ended = match left {
                0 => "no process of it was left".to_string(),
                1 => "its last process was ended".to_string(),
                _ => format!("its last {left} processes were ended"),
            };
            let partial = "a file that was being written is left beside its destination, as `.NAME.partial`";
            Err(Failure::Killed(format!("error: the worker process was killed by signal {signal}; {ended}; {partial}")))
        }
        Err(error) => Err(Failure::Input(format!("error: the worker process cannot be started: {error}"))),
    }
}
