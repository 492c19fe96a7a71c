//! The decisions of a scheduler in another process that were refused.

use std::collections::BTreeMap;

use dryrack_event::{Event, External, Input, Outside, Record, RecordBody};
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, Names};
use dryrack_units::{SimTime, counted, printable};

/// A decision that was refused: it could not be read as one, or it could not be carried out.
pub struct RefusedDecision {
    pub at: SimTime,
    /// `None` if the decision names no known run.
    pub attempt: Option<AttemptId>,
    /// The name of the fault.
    pub fault: &'static str,
    what: String,
    /// The place that could not be taken.
    placement: Option<Placement>,
}

impl RefusedDecision {
    /// What is wrong, such as `decision 0: no node is named x`, or `was given a place that is partly in use: alpha/0`.
    pub fn text(&self, names: &Names) -> String {
        let place = self.placement.as_ref().map_or(String::new(), |placement| format!(": {}", placement.text(names)));
        format!("{}{place}", self.what)
    }
}

/// Finds refused decisions in the records of a run. Without a scheduler in another process there are none: the refused
/// commits of a profile are not decisions of a program.
#[derive(Default)]
pub struct RefusedDecisions {
    is_decided_outside: bool,
    /// The last decided place.
    decided: Option<(AttemptId, Placement)>,
}

impl RefusedDecisions {
    /// The refused decision that the record reports, if it is one.
    pub fn of(&mut self, record: &Record) -> Option<RefusedDecision> {
        match &record.said {
            RecordBody::Input(input) => self.input(record.at, input),
            RecordBody::Event(event) => self.event(record.at, event),
        }
    }

    fn input(&mut self, at: SimTime, input: &Input) -> Option<RefusedDecision> {
        let Input::External(external) = input else { return None };
        match external {
            External::Said(Outside::Joined { .. }) => self.is_decided_outside = true,
            External::Said(Outside::Mistaken { fault, attempt, text }) => {
                let (what, fault) = (text.to_string(), fault.name());
                return Some(RefusedDecision { at, attempt: *attempt, fault, what, placement: None });
            }
            External::Decided { attempt, placement } if self.is_decided_outside => {
                self.decided = placement.clone().map(|placement| (*attempt, placement));
            }
            External::Said(_) | External::Decided { .. } => {}
        }
        None
    }

    fn event(&mut self, at: SimTime, event: &Event) -> Option<RefusedDecision> {
        let Event::CommitRefused { attempt, because, .. } = event else { return None };
        let placement = self.decided.take().filter(|(decided, _)| decided == attempt).map(|(_, placement)| placement);
        let (fault, what) = (because.name(), because.text().to_string());
        self.is_decided_outside.then_some(RefusedDecision { at, attempt: Some(*attempt), fault, what, placement })
    }
}

/// Counts refused commits, and the refused decisions of a scheduler in another process.
#[derive(Default)]
pub struct RefusedAccount {
    /// Refused commits since the end of the warm-up.
    pub commits: u64,
    /// Refused decisions since the end of the warm-up.
    pub decisions: u64,
    found: RefusedDecisions,
    /// All refused decisions by fault, including those of the warm-up, because they show a bug at any time.
    counts: BTreeMap<&'static str, u64>,
    first: Option<RefusedDecision>,
}

impl RefusedAccount {
    pub(crate) fn input(&mut self, at: SimTime, input: &Input) {
        let refused = self.found.input(at, input);
        self.add(refused);
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
    pub fn sentence(&self, names: &Names) -> Option<String> {
        let first = self.first.as_ref()?;
        let mut counts: Vec<(&str, u64)> = self.counts.iter().map(|(fault, count)| (*fault, *count)).collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let faults: Vec<String> = counts.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
        let of = first.attempt.map_or(String::new(), |attempt| format!(", {}", names.attempt(attempt)));
        let text = first.text(names);
        let decisions = counted(usize::try_from(self.all_decisions()).unwrap_or(usize::MAX), "decision");
        Some(format!("{decisions} ({}); first at {}{of}: {}", faults.join(", "), first.at, printable(&text)))
    }
}
