//! Catches broken invariants, so that they are reported with the command that repeats them.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

use dryrack_engine::Runaway;

thread_local! {
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps every panic for [`guarded`] from now on, rather than printing it where it happens.
pub fn install() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or(String::new(), |place| format!(" ({}:{})", place.file(), place.line()));
        let text = info.payload_as_str().unwrap_or("a panic without a message");
        MESSAGE.with(|message| *message.borrow_mut() = Some(format!("{text}{place}")));
    }));
}

/// Why `work` has no result.
#[derive(Debug)]
pub enum Broken {
    /// An invariant broke.
    Invariant(String),
    /// A run was stopped because it does not end.
    Runaway(Runaway),
}

/// The result of `work`, or the invariant that broke in it. A run that does not end is left to the guard around this
/// one.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    guarded_run(work).map_err(|broken| match broken {
        Broken::Invariant(message) => message,
        Broken::Runaway(runaway) => panic::resume_unwind(Box::new(runaway)),
    })
}

/// The result of `work`, or why it has none: for work whose siblings' results are to be kept.
pub fn guarded_run<T>(work: impl FnOnce() -> T) -> Result<T, Broken> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| match payload.downcast::<Runaway>() {
        Ok(runaway) => Broken::Runaway(*runaway),
        Err(payload) => {
            // What the hook kept also says where it happened.
            let kept = MESSAGE.with(|message| message.borrow_mut().take());
            Broken::Invariant(kept.unwrap_or_else(|| text_of(&*payload)))
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
