//! Explanations and verdicts, computed in threads of their own, so that the display never waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::{Explain, FailedExpectation, JudgeRun};
use dryrack_ids::JobId;
use dryrack_units::SimTime;

/// A job and the instant at which it is explained.
pub type Question = (JobId, SimTime);

/// Asks for explanations. Only the last question counts.
pub struct Answers {
    asks: Sender<(Question, Arc<AtomicBool>)>,
    hears: Receiver<(Question, String)>,
    /// Set to stop work on the question that was asked last.
    stop: Arc<AtomicBool>,
    verdicts: Receiver<Result<Vec<FailedExpectation>, String>>,
}

impl Answers {
    /// Starts the threads. They end with the process: an answer that nobody reads is not worth a wait.
    pub fn new(explain: Explain, judge: JudgeRun) -> Answers {
        let (asks, asked) = channel::<(Question, Arc<AtomicBool>)>();
        let (tells, hears) = channel();
        std::thread::spawn(move || {
            while let Ok(mut next) = asked.recv() {
                // Skip to the newest question.
                while let Ok(newer) = asked.try_recv() {
                    next = newer;
                }
                let (question, stop) = next;
                if let Some(text) = explain(question.0, question.1, &stop)
                    && tells.send((question, text)).is_err()
                {
                    return;
                }
            }
        });
        let (tell, verdicts) = channel();
        std::thread::spawn(move || {
            let _closed = tell.send(judge());
        });
        Answers { asks, hears, stop: Arc::default(), verdicts }
    }

    /// Asks this question in place of the last one.
    pub fn ask(&mut self, question: Question) {
        self.stop.store(true, Ordering::Relaxed);
        self.stop = Arc::default();
        // If the thread has ended, the explanation stays empty.
        let _ended = self.asks.send((question, Arc::clone(&self.stop)));
    }

    /// The answers that have arrived since the last call, the newest last.
    pub fn arrived(&self) -> Vec<(Question, String)> {
        self.hears.try_iter().collect()
    }

    /// The verdicts, once.
    pub fn verdicts(&self) -> Option<Result<Vec<FailedExpectation>, String>> {
        self.verdicts.try_recv().ok()
    }
}
