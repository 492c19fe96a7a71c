//! The decisions of the program that were not carried out.

use serde_json::{Value, json};

/// Decisions that were not carried out, until the next delta tells the program.
#[derive(Default)]
pub struct Refusals {
    untold: Vec<Value>,
}

impl Refusals {
    /// Adds a decision: its index in the answer and the run that it is about, as far as they are known.
    pub fn add(&mut self, index: Option<usize>, run: Option<String>, fault: &str, text: &str) {
        self.untold.push(json!({"index": index, "run": run, "fault": fault, "text": text}));
    }

    pub fn is_empty(&self) -> bool {
        self.untold.is_empty()
    }

    /// The value of `refused` in a delta.
    pub fn take(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.untold)
    }

    /// Forgets all, because a program that was started again never made these decisions.
    pub fn forget(&mut self) {
        self.untold.clear();
    }
}
