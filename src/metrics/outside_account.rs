//! What went wrong with the decisions of a run and, if there is one, with the scheduler in another process.

use std::collections::BTreeMap;

use super::refused::{RefusedDecision, RefusedDecisions};
use dryrack_event::{Event, External, Input, Outside};
use dryrack_ids::Names;
use dryrack_units::{SimTime, counted, printable};

/// Counts refused commits, and the refused decisions and restarts of a scheduler in another process.
#[derive(Default)]
pub struct OutsideAccount {
    /// Refused commits since the end of the warm-up.
    pub commits: u64,
    /// Refused decisions since the end of the warm-up.
    pub decisions: u64,
    found: RefusedDecisions,
    /// All refused decisions by fault, including those of the warm-up, because they show a bug at any time.
    counts: BTreeMap<&'static str, u64>,
    first: Option<RefusedDecision>,
    /// How often the program failed and was started again, and the first time.
    pub restarts: u64,
    first_restart: Option<(SimTime, String)>,
}

impl OutsideAccount {
    pub(crate) fn input(&mut self, at: SimTime, input: &Input) {
        let refused = self.found.input(at, input);
        self.add(refused);
        if let Input::External(External::Said(Outside::Failed { fault, text, restarted: true })) = input {
            self.restarts += 1;
            self.first_restart.get_or_insert_with(|| (at, format!("{}: {text}", fault.name())));
        }
    }

    pub(crate) fn event(&mut self, at: SimTime, event: &Event) {
        self.commits += u64::from(matches!(event, Event::CommitRefused { .. }));
        let refused = self.found.event(at, event);
        self.add(refused);
    }

    fn add(&mut self, refused: Option<RefusedDecision>) {
        let Some(refused) = refused else { return };
        self.decisions += 1;
        *self.counts.entry(refused.fault).or_default() += 1;
        self.first.get_or_insert(refused);
    }

    /// Forgets what was counted in the warm-up.
    pub(crate) fn begin(&mut self) {
        (self.commits, self.decisions) = (0, 0);
    }

    /// The number of refused decisions in the whole run, including the warm-up.
    pub fn all_decisions(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The number of refused commits that are not decisions of a scheduler in another process.
    pub fn own_commits(&self) -> u64 {
        if self.found.is_decided_outside { 0 } else { self.commits }
    }

    /// A text such as `3 decisions (unknown_node 2, misshapen 1); first at 10s, a[1]: decision 0: no node is named x`.
    /// `None` if none was refused.
    pub fn refused(&self, names: &Names) -> Option<String> {
        let first = self.first.as_ref()?;
        let mut counts: Vec<(&str, u64)> = self.counts.iter().map(|(fault, count)| (*fault, *count)).collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let faults: Vec<String> = counts.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
        let of = first.attempt.map_or(String::new(), |attempt| format!(", {}", names.attempt(attempt)));
        let text = first.text(names);
        let decisions = counted(usize::try_from(self.all_decisions()).unwrap_or(usize::MAX), "decision");
        Some(format!("{decisions} ({}); first at {}{of}: {}", faults.join(", "), first.at, printable(&text)))
    }
    /// A text such as `2 times after a failure; first at 10s: process_died: it exited with code 1`. `None` if the program
    /// was never started again.
    pub fn restarted(&self) -> Option<String> {
        let (at, text) = self.first_restart.as_ref()?;
        let times = counted(usize::try_from(self.restarts).unwrap_or(usize::MAX), "time");
        Some(format!("{times} after a failure; first at {at}: {}", printable(text)))
    }
}
