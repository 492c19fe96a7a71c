//! Catches broken invariants (panics), to report them with the command that repeats the run.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

use dryrack_engine::Runaway;

thread_local! {
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on, stores the message of every panic for [`guarded`] instead of printing it at once.
pub fn install() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or(String::new(), |place| format!(" ({}:{})", place.file(), place.line()));
        let text = info.payload_as_str().unwrap_or("a panic without a message");
        MESSAGE.with(|message| *message.borrow_mut() = Some(format!("{text}{place}")));
    }));
}

/// Why `work` gave no result.
#[derive(Debug)]
pub enum WorkFailure {
    /// An invariant broke.
    Invariant(String),
    /// The run was stopped because it would not end.
    Runaway(Runaway),
}

/// The result of `work`, or the message of the invariant that broke in it. If `work` stops because its run would not
/// end, the panic continues to the enclosing guard.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    guarded_run(work).map_err(|broken| match broken {
        WorkFailure::Invariant(message) => message,
        WorkFailure::Runaway(runaway) => panic::resume_unwind(Box::new(runaway)),
    })
}

/// The result of `work`, or why there is none. Use it for one of several pieces of work, if the results of the others
/// must be kept.
pub fn guarded_run<T>(work: impl FnOnce() -> T) -> Result<T, WorkFailure> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| match payload.downcast::<Runaway>() {
        Ok(runaway) => WorkFailure::Runaway(*runaway),
        Err(payload) => {
            // The stored message also says where in the code the invariant broke.
            let kept = MESSAGE.with(|message| message.borrow_mut().take());
            WorkFailure::Invariant(kept.unwrap_or_else(|| text_of(&*payload)))
        }
    })
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_ends_well_gives_what_it_gives() {
        assert_eq!(guarded(|| 7), Ok(7));
    }

    #[test]
    fn an_invariant_that_breaks_gives_its_message() {
        let (taken, held) = (3, 2);
        let broken = guarded(|| assert!(taken <= held, "{taken} taken of {held}"));
        assert_eq!(broken, Err("3 taken of 2".to_string()));
        assert_eq!(guarded(|| panic!("no claim")), Err::<(), _>("no claim".to_string()));
    }
}
