//! Leaves out parts and lowers numbers, in a fixed order.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ddmin::{ddmin, lowest};
use super::document::{Document, count, entries};
use super::failing::CandidateResult;
use dryrack_units::SimDuration;
use dryrack_yaml::{Node, Tree};

/// The lists that are shortened first, in this order. An entry that refers to a name must be removed before the entry
/// that defines the name, because a fault of a missing node is an error.
const STEPS: [(&str, &[&str]); 4] = [
    ("expectations", &["reproduces", "expect"]),
    ("faults", &["faults", "failures", "changes"]),
    ("jobs", &["jobs", "trace"]),
    ("nodes", &["nodes", "fleets", "machines"]),
];

/// Keys that identify the scenario and who decides in it. They are never removed.
const KEPT: [&str; 4] = ["scenario", "report", "profile", "outside"];

/// Keys below which numbers are not lowered, because, for example, an expectation with another number is another
/// expectation.
const AS_WRITTEN: [&str; 6] = ["expect", "scenario", "report", "profile", "outside", "seed"];

/// The largest number of rounds. A further round might still find something to remove.
const MOST_ROUNDS: usize = 8;

/// Round durations in ascending order.
const DURATIONS: [&str; 16] =
    ["0s", "1s", "2s", "5s", "10s", "30s", "1m", "2m", "5m", "10m", "30m", "1h", "2h", "6h", "12h", "1d"];

/// The result of a minimization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimized {
    pub text: String,
    /// The number of candidates that were run.
    pub runs: u64,
    /// The number of candidates that were not valid scenarios.
    pub invalid: u64,
    /// Whether the limit on runs ended the search.
    pub is_cut_short: bool,
}

/// The progress of a minimization, for display.
#[derive(Debug, Default)]
pub struct MinimizeProgress {
    runs: AtomicU64,
    lines: AtomicU64,
    step: Mutex<&'static str>,
}

impl MinimizeProgress {
    pub fn text(&self) -> String {
        let step = self.step.lock().map_or("", |step| *step);
        let (runs, lines) = (self.runs.load(Ordering::Relaxed), self.lines.load(Ordering::Relaxed));
        format!("leaving out {step}: {runs} runs, {lines} lines left")
    }

    fn step(&self, name: &'static str) {
        if let Ok(mut step) = self.step.lock() {
            *step = name;
        }
    }
}

/// Limits of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of candidates that are run; `None` means no limit.
    pub runs: Option<u64>,
    pub numbers: Numbers,
}

/// Which numbers are lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// All of them.
    Lowered,
    /// Only the numbers that say how often an entry is repeated. So what is left is as realistic as before.
    Kept,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { runs: None, numbers: Numbers::Lowered }
    }
}

/// Finds the smallest scenario for which `still_fails` returns [`CandidateResult::Same`], as it does for `text`. No
/// single fault, job, node or setting of the result can be left out, unless the runs were limited. `None` if the text
/// is not YAML.
pub fn minimize(
    text: &str,
    still_fails: &mut dyn FnMut(&str) -> CandidateResult,
    limits: Limits,
    watched: &MinimizeProgress,
) -> Option<Minimized> {
    let best = Document::read(text.to_string())?;
    let most_runs = limits.runs.unwrap_or(u64::MAX);
    let mut search = Search {
        still_fails,
        best,
        tried: BTreeMap::new(),
        runs: 0,
        invalid: 0,
        most_runs,
        numbers: limits.numbers,
        is_cut_short: false,
        watched,
    };
    for _ in 0..MOST_ROUNDS {
        let before = search.best.text.clone();
        search.round();
        if search.best.text == before {
            break;
        }
    }
    let Search { best, runs, invalid, is_cut_short, .. } = search;
    Some(Minimized { text: best.text, runs, invalid, is_cut_short })
}

struct Search<'a> {
    still_fails: &'a mut dyn FnMut(&str) -> CandidateResult,
    best: Document,
    /// For the hash of each text that was tried, whether it fails in the same way.
    tried: BTreeMap<[u8; 32], bool>,
    runs: u64,
    invalid: u64,
    most_runs: u64,
    numbers: Numbers,
    is_cut_short: bool,
    watched: &'a MinimizeProgress,
}

impl Search<'_> {
    fn round(&mut self) {
        for (step, keys) in STEPS {
            self.watched.step(step);
            for key in keys {
                if let Some(at) = self.best.find(key) {
                    self.shorten(&[at]);
                    self.lower_counts(key);
                }
            }
        }
        self.watched.step("settings");
        self.shorten(&[]);
        self.each_part(&mut Search::shorten);
        if self.numbers == Numbers::Lowered {
            self.watched.step("numbers");
            self.each_part(&mut Search::lower);
        }
    }

    /// Whether the candidate fails in the same way.
    fn fails(&mut self, candidate: Option<&Document>) -> bool {
        let Some(candidate) = candidate else { return false };
        let hash = *blake3::hash(candidate.text.as_bytes()).as_bytes();
        if let Some(known) = self.tried.get(&hash) {
            return *known;
        }
        if self.runs >= self.most_runs {
            self.is_cut_short = true;
            return false;
        }
        let tried = (self.still_fails)(&candidate.text);
        match tried {
            CandidateResult::Same | CandidateResult::Otherwise => self.runs += 1,
            CandidateResult::Invalid => self.invalid += 1,
        }
        self.watched.runs.store(self.runs, Ordering::Relaxed);
        self.tried.insert(hash, tried == CandidateResult::Same);
        tried == CandidateResult::Same
    }

    fn take(&mut self, better: Option<Document>) {
        let Some(better) = better else { return };
        self.watched.lines.store(better.text.lines().count() as u64, Ordering::Relaxed);
        self.best = better;
    }

    /// Removes the parts of the list or map at the path that are not needed.
    fn shorten(&mut self, path: &[usize]) {
        let start = self.best.clone();
        let Some(tree) = start.at(path) else { return };
        let is_kept = |index: usize| path.is_empty() && KEPT.contains(&entries(tree)[index].key.as_str());
        let movable: Vec<usize> = (0..count(tree)).filter(|index| !is_kept(*index)).collect();
        let smaller = |kept: &[usize]| {
            let is_gone = |at: &usize| !kept.contains(at);
            let gone: Vec<usize> = (0..movable.len()).filter(is_gone).map(|at| movable[at]).collect();
            start.without(path, &gone)
        };
        let kept = ddmin(movable.len(), &mut |kept| kept.len() == movable.len() || self.fails(smaller(kept).as_ref()));
        self.take(smaller(&kept));
    }

    /// Applies a change to each value in the file, the outermost first, except below the keys of `AS_WRITTEN`.
    fn each_part(&mut self, change: &mut dyn FnMut(&mut Self, &[usize])) {
        let mut at = 0;
        while let Some(entry) = entries(&self.best.tree).get(at) {
            let (key, before) = (entry.key.clone(), self.best.tree.size());
            if !AS_WRITTEN.contains(&key.as_str()) {
                self.each_below(&mut vec![at], change);
            }
            // If the whole entry was removed, the next entry now has its index.
            let is_gone = self.best.tree.size() < before && self.best.find(&key).is_none();
            at += usize::from(!is_gone);
        }
    }

    fn each_below(&mut self, path: &mut Vec<usize>, change: &mut dyn FnMut(&mut Self, &[usize])) {
        let siblings = |search: &Self, path: &[usize]| search.best.at(&path[..path.len() - 1]).map_or(0, count);
        let before = siblings(self, path);
        change(self, path);
        if siblings(self, path) < before {
            return;
        }
        let mut index = 0;
        while index < self.best.at(path).map_or(0, count) {
            let before = self.best.at(path).map_or(0, count);
            path.push(index);
            self.each_below(path, change);
            path.pop();
            index += usize::from(self.best.at(path).map_or(0, count) == before);
        }
    }

    /// Lowers the `count` of each entry of a list.
    fn lower_counts(&mut self, key: &str) {
        let Some(list) = self.best.find(key) else { return };
        for item in 0..self.best.at(&[list]).map_or(0, count) {
            let Some(tree) = self.best.at(&[list, item]) else { return };
            if let Some(at) = entries(tree).iter().position(|entry| entry.key == "count") {
                self.lower(&[list, item, at]);
            }
        }
    }

    /// Lowers the value at the path, if it is a number.
    fn lower(&mut self, path: &[usize]) {
        let start = self.best.clone();
        let Some(ladder) = start.at(path).and_then(Ladder::of) else { return };
        let smaller = |step: u64| start.with_word(path, &ladder.word(step));
        if let Some(step) = lowest(ladder.len(), &mut |step| self.fails(smaller(step).as_ref())) {
            self.take(smaller(step));
        }
    }
}

/// The values to which a number can be lowered, in ascending order.
enum Ladder {
    /// The numbers from 1 to one less than `below`, with this unit.
    Whole { below: u64, unit: String },
    /// This many of the shortest durations in `DURATIONS`.
    Durations(usize),
}

impl Ladder {
    fn of(tree: &Tree) -> Option<Ladder> {
        let Node::Scalar { text, quoted: false } = &tree.node else { return None };
        let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        if unit.ends_with(['s', 'm', 'h', 'd', 'w']) && number.len() == digits && digits > 0 {
            let own: SimDuration = text.parse().ok()?;
            let shorter = |word: &&&str| word.parse::<SimDuration>().is_ok_and(|round| round < own);
            return Some(Ladder::Durations(DURATIONS.iter().filter(shorter).count()));
        }
        let number: u64 = number.parse().ok()?;
        // A number with decimals is lowered to a whole number.
        let (part, unit) = match unit.strip_prefix('.') {
            Some(rest) => (1, rest.trim_start_matches(|letter: char| letter.is_ascii_digit())),
            None => (0, unit),
        };
        let is_unit = unit.chars().all(|letter| letter.is_alphabetic() || matches!(letter, '%' | '/' | ' '));
        is_unit.then(|| Ladder::Whole { below: number.saturating_add(part), unit: unit.to_string() })
    }

    fn len(&self) -> u64 {
        match self {
            Ladder::Whole { below, .. } => below.saturating_sub(1),
            Ladder::Durations(shorter) => *shorter as u64,
        }
    }

    fn word(&self, step: u64) -> String {
        match self {
            Ladder::Whole { unit, .. } => format!("{}{unit}", step + 1),
            Ladder::Durations(_) => DURATIONS[step as usize].to_string(),
        }
    }
}
