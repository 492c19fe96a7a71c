//! Runs a probe on its own thread. If the probe hangs and cannot be stopped, only this thread hangs.
//!
//! A call into a driver that is stuck in the kernel cannot be interrupted, whether a library or a program makes it. At
//! the deadline the caller gets [`Missing::TimedOut`]. Later polls give [`Missing::StillHangs`] until the old answer
//! arrives. That answer is discarded, because it is about an earlier time. The next poll then works normally.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use super::{Missing, Probe, Snapshot};
use crate::clock::{Clock, Deadline, sim_duration};
use crate::stop::Stop;

pub struct Guarded {
    source: String,
    ask: Sender<Deadline>,
    answers: Receiver<Result<Snapshot, Missing>>,
    /// Whether the probe has not answered an earlier question yet.
    owes: bool,
}

/// How long it may take to notice a request to stop.
const SLICE: Duration = Duration::from_millis(100);

/// How long before the caller's deadline the probe must end by itself.
const BEFORE: Duration = Duration::from_millis(200);

impl Guarded {
    pub fn new(mut probe: Box<dyn Probe>, clock: Arc<Clock>) -> Guarded {
        let (ask, asked) = channel::<Deadline>();
        let (answer, answers) = channel();
        let source = probe.source();
        // The thread ends when the sender is dropped. It is not joined, because it may hang forever.
        std::thread::spawn(move || {
            for deadline in asked {
                if answer.send(probe.poll(&clock, deadline)).is_err() {
                    return;
                }
            }
        });
        Guarded { source, ask, answers, owes: false }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Polls once, and ends within this time even if the probe hangs.
    pub fn poll(&mut self, within: Duration) -> Result<Snapshot, Missing> {
        self.poll_unless(&Stop::default(), within)
    }

    /// Like [`Guarded::poll`], but also ends as soon as a stop is requested.
    pub fn poll_unless(&mut self, stop: &Stop, within: Duration) -> Result<Snapshot, Missing> {
        let what = || self.source.clone();
        if self.owes {
            match self.answers.try_recv() {
                Ok(_) => self.owes = false,
                Err(TryRecvError::Empty) => return Err(Missing::StillHangs { what: what() }),
                Err(TryRecvError::Disconnected) => return Err(self.broken()),
            }
        }
        let own = within.checked_sub(BEFORE).filter(|left| !left.is_zero()).unwrap_or(within);
        if self.ask.send(Deadline::within(own)).is_err() {
            return Err(self.broken());
        }
        let deadline = Deadline::within(within);
        loop {
            let left = deadline.left();
            match self.answers.recv_timeout(left.min(SLICE)) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) if left > SLICE && !stop.is_wanted() => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.owes = true;
                    let waited = if stop.is_wanted() { within.saturating_sub(deadline.left()) } else { within };
                    return Err(Missing::TimedOut { what: what(), within: sim_duration(waited) });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.broken()),
            }
        }
    }

    /// The thread is gone because the probe panicked. This is a bug of dryrack, but the readings of other probes are
    /// still useful.
    fn broken(&self) -> Missing {
        Missing::Unreadable { what: self.source.clone(), said: "its probe broke".to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::pause;

    /// A probe that hangs on its first poll and cannot be stopped.
    struct Stuck {
        polls: u32,
        length: Duration,
    }

    impl Probe for Stuck {
        fn source(&self) -> String {
            "stuck".to_string()
        }

        fn poll(&mut self, _: &Clock, _: Deadline) -> Result<Snapshot, Missing> {
            self.polls += 1;
            if self.polls == 1 {
                pause(self.length);
            }
            Ok(Snapshot { nodes: Vec::new(), notes: vec![format!("poll {}", self.polls)] })
        }
    }

    #[test]
    fn a_look_that_cannot_be_stopped_is_given_up_and_its_late_answer_is_thrown_away() {
        let clock = Arc::new(Clock::start());
        let stuck = Stuck { polls: 0, length: Duration::from_millis(400) };
        let mut probe = Guarded::new(Box::new(stuck), Arc::clone(&clock));
        let began = clock.now().since_start;
        let first = probe.poll(Duration::from_millis(50)).unwrap_err();
        assert_eq!(first.name(), "timed_out");
        assert_eq!(probe.poll(Duration::from_millis(50)).unwrap_err().name(), "still_hangs");
        assert!(clock.now().since_start - began < sim_duration(Duration::from_millis(300)));
        pause(Duration::from_millis(500));
        let later = probe.poll(Duration::from_secs(5)).expect("it answers again");
        assert_eq!(later.notes, ["poll 2"]);
    }

    struct Broken;

    impl Probe for Broken {
        fn source(&self) -> String {
            "broken".to_string()
        }

        fn poll(&mut self, _: &Clock, _: Deadline) -> Result<Snapshot, Missing> {
            panic!("a probe of ours")
        }
    }

    #[test]
    fn a_probe_that_breaks_takes_nobody_with_it() {
        let mut probe = Guarded::new(Box::new(Broken), Arc::new(Clock::start()));
        let said = probe.poll(Duration::from_secs(5)).unwrap_err();
        assert_eq!(said.name(), "unreadable");
        assert_eq!(probe.poll(Duration::from_secs(5)).unwrap_err().name(), "unreadable");
    }
}
