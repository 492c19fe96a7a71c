//! What is shown, and what each key does.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::answers::Question;
use super::index::Index;
use super::state::{ReplicaKey, State};
use super::{FailedExpectation, Start, ViewedRun};
use dryrack_event::{Record, RecordBody};
use dryrack_ids::JobId;
use dryrack_report::{Filter, record_line};
use dryrack_units::{SimDuration, SimTime};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Nodes,
    Jobs,
    Events,
    Why,
}

impl Pane {
    pub const ALL: [Pane; 4] = [Pane::Nodes, Pane::Jobs, Pane::Events, Pane::Why];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Normal,
    /// The text that is being typed.
    Search(String),
    Help,
}

/// The verdicts on the expectations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdicts {
    Pending,
    Known(Vec<FailedExpectation>),
    /// Why they are not known.
    Unknown(String),
}

/// What to do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Continue,
    Quit,
}

pub struct App {
    pub run: ViewedRun,
    pub index: Index,
    /// The current stop, and the state there, which includes the first `taken` records.
    pub stop: usize,
    pub state: State,
    taken: usize,
    /// The jobs that wait and then those that are placed, each sorted by time.
    pub rows: Vec<ReplicaKey>,
    pub selected: Option<JobId>,
    pub pane: Pane,
    pub is_zoomed: bool,
    /// Only the events of the selected job are listed.
    pub only_selected: bool,
    /// The first line shown in each pane, in the order of [`Pane::ALL`]. For events, the number of lines below the
    /// last one shown.
    pub scroll: [usize; 4],
    pub mode: Mode,
    pub message: Option<String>,
    pub is_playing: bool,
    /// How much of the run passes between two pictures while it plays, in thousandths.
    pub pace: u64,
    pub verdicts: Verdicts,
    /// The explanation that was asked for, and its text once it is known.
    pub asked: Option<Question>,
    pub why: Option<String>,
    pub has_colours: bool,
    searched: String,
}

const PACES: [u64; 5] = [1, 2, 5, 10, 20];
/// The share of the run that Page Up and Page Down move by.
const PAGE: u64 = 20;

impl App {
    pub fn new(run: ViewedRun, start: &Start) -> App {
        let index = Index::of(&run.records, run.end);
        let mut app = App {
            run,
            index,
            stop: 0,
            state: State::default(),
            taken: 0,
            rows: Vec::new(),
            selected: start.job,
            pane: Pane::Jobs,
            is_zoomed: false,
            only_selected: false,
            scroll: [0; 4],
            mode: Mode::Normal,
            message: None,
            is_playing: false,
            pace: 5,
            verdicts: Verdicts::Pending,
            asked: None,
            why: None,
            has_colours: start.has_colours,
            searched: String::new(),
        };
        let stop = start.at.map_or(0, |at| app.index.stop_at(app.records(), at));
        app.go(stop);
        app
    }

    pub fn records(&self) -> &[Record] {
        &self.run.records
    }

    /// The number of records up to the current stop.
    pub fn count(&self) -> usize {
        self.index.stops.get(self.stop).map_or(0, |stop| *stop as usize)
    }

    /// The time of the current stop.
    pub fn now(&self) -> SimTime {
        self.count().checked_sub(1).map_or(SimTime::ZERO, |last| self.run.records[last].at)
    }

    /// Goes to a stop, and updates all that depends on it.
    pub fn go(&mut self, stop: usize) {
        self.stop = stop.min(self.index.stops.len().saturating_sub(1));
        let count = self.count();
        // A step forward continues from the current state. Everything else begins at a kept copy.
        const STEP: usize = 100;
        if (self.taken..self.taken + STEP).contains(&count) {
            (self.taken..count).for_each(|number| self.state.take(&self.run.records, number));
        } else {
            self.state = self.index.state(&self.run.records, count);
        }
        self.taken = count;
        let mut waiting: Vec<(SimTime, ReplicaKey)> =
            self.state.waiting.iter().map(|(key, waiting)| (waiting.since, *key)).collect();
        waiting.sort_unstable();
        let mut placed: Vec<(SimTime, ReplicaKey)> =
            self.state.placed.iter().map(|(key, placed)| (placed.since, *key)).collect();
        placed.sort_unstable();
        self.rows = waiting.into_iter().chain(placed).map(|(_, key)| key).collect();
        if self.selected.is_none() {
            self.selected = self.rows.first().map(|(job, _)| *job);
        }
        (self.scroll[Pane::Events as usize], self.message) = (0, None);
        self.ask();
    }

    /// Notes which explanation is wanted now.
    fn ask(&mut self) {
        let question = self.selected.map(|job| (job, self.now()));
        if question != self.asked {
            (self.asked, self.why) = (question, None);
            self.scroll[Pane::Why as usize] = 0;
        }
    }

    pub fn select(&mut self, job: JobId) {
        self.selected = Some(job);
        self.ask();
    }

    /// Takes an answer, unless another question was asked since.
    pub fn answer(&mut self, question: Question, text: String) {
        if self.asked == Some(question) {
            self.why = Some(text);
        }
    }

    /// Moves on while the run plays.
    pub fn tick(&mut self) {
        if self.is_playing {
            self.travel(self.pace, true);
            self.is_playing = self.stop + 1 < self.index.stops.len();
        }
    }

    pub fn key(&mut self, key: KeyEvent) -> Next {
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if with_control && matches!(key.code, KeyCode::Char('c')) {
            return Next::Quit;
        }
        match std::mem::replace(&mut self.mode, Mode::Normal) {
            Mode::Help => Next::Continue,
            Mode::Search(text) => {
                self.search_key(text, key.code);
                Next::Continue
            }
            Mode::Normal => self.normal_key(key.code),
        }
    }

    fn search_key(&mut self, mut text: String, code: KeyCode) {
        match code {
            KeyCode::Esc => return,
            KeyCode::Enter => return self.search(text),
            KeyCode::Backspace if text.pop().is_none() => return,
            KeyCode::Char(letter) => text.push(letter),
            _ => {}
        }
        self.mode = Mode::Search(text);
    }

    fn normal_key(&mut self, code: KeyCode) -> Next {
        let last = self.index.stops.len().saturating_sub(1);
        if !matches!(code, KeyCode::Char(' ' | '+' | '-')) {
            self.is_playing = false;
        }
        match code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Esc if self.is_zoomed => self.is_zoomed = false,
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Search(String::new()),
            KeyCode::Right | KeyCode::Char('l') => self.go((self.stop + 1).min(last)),
            KeyCode::Left | KeyCode::Char('h') => self.go(self.stop.saturating_sub(1)),
            KeyCode::Home | KeyCode::Char('g') => self.go(0),
            KeyCode::End | KeyCode::Char('G') => self.go(last),
            KeyCode::PageDown => self.travel(1000 / PAGE, true),
            KeyCode::PageUp => self.travel(1000 / PAGE, false),
            KeyCode::Char(' ') => {
                if self.stop == last {
                    self.go(0);
                }
                self.is_playing = !self.is_playing;
            }
            KeyCode::Char('+') => self.pace = PACES.into_iter().find(|pace| *pace > self.pace).unwrap_or(self.pace),
            KeyCode::Char('-') => {
                self.pace = PACES.into_iter().rev().find(|pace| *pace < self.pace).unwrap_or(self.pace)
            }
            KeyCode::Char('n') => self.next_failure(true),
            KeyCode::Char('N') => self.next_failure(false),
            KeyCode::Char('f') => {
                self.only_selected = !self.only_selected;
                self.scroll[Pane::Events as usize] = 0;
            }
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(Pane::ALL.len() - 1),
            KeyCode::Enter | KeyCode::Char('z') => self.is_zoomed = !self.is_zoomed,
            KeyCode::Down | KeyCode::Char('j') => self.down(),
            KeyCode::Up | KeyCode::Char('k') => self.up(),
            _ => {}
        }
        Next::Continue
    }

    fn turn(&mut self, by: usize) {
        self.pane = Pane::ALL[(self.pane as usize + by) % Pane::ALL.len()];
    }

    /// The place of the selected job in the list.
    pub fn selected_row(&self) -> Option<usize> {
        self.rows.iter().position(|(job, _)| Some(*job) == self.selected)
    }

    fn down(&mut self) {
        match self.pane {
            Pane::Jobs => {
                // A job may have several replicas. Go past all of them.
                let place = self.selected_row().unwrap_or(0);
                let next = self.rows.iter().skip(place).find(|(job, _)| Some(*job) != self.selected);
                if let Some((job, _)) = next.copied() {
                    self.select(job);
                }
            }
            Pane::Events => self.scroll[Pane::Events as usize] = self.scroll[Pane::Events as usize].saturating_sub(1),
            other => self.scroll[other as usize] += 1,
        }
    }

    fn up(&mut self) {
        match self.pane {
            Pane::Jobs => {
                let place = self.selected_row().unwrap_or(self.rows.len());
                if let Some((job, _)) = place.checked_sub(1).map(|place| self.rows[place]) {
                    self.select(job);
                }
            }
            Pane::Events => self.scroll[Pane::Events as usize] += 1,
            other => self.scroll[other as usize] = self.scroll[other as usize].saturating_sub(1),
        }
    }

    /// Moves by a share of the whole run, in thousandths, and by at least one stop.
    fn travel(&mut self, share: u64, is_forward: bool) {
        let by = SimDuration::from_nanos((u128::from(self.run.end.as_nanos()) * u128::from(share) / 1000) as u64);
        let stop = match is_forward {
            true => self.index.stop_at(self.records(), self.now().saturating_add(by)).max(self.stop + 1),
            false => {
                let at = SimTime::from_nanos(self.now().as_nanos().saturating_sub(by.as_nanos()));
                self.index.stop_at(self.records(), at).min(self.stop.saturating_sub(1))
            }
        };
        self.go(stop);
    }

    fn next_failure(&mut self, is_forward: bool) {
        let failed = match &self.verdicts {
            Verdicts::Pending => return self.message = Some("the expectations are being judged".to_string()),
            Verdicts::Unknown(why) => return self.message = Some(format!("not judged: {why}")),
            Verdicts::Known(failed) => failed,
        };
        let stop_of = |failed: &FailedExpectation| self.index.stop_at(self.records(), failed.at);
        let found = match is_forward {
            true => failed.iter().find(|failed| stop_of(failed) > self.stop).or(failed.first()),
            false => failed.iter().rfind(|failed| stop_of(failed) < self.stop).or(failed.last()),
        };
        let Some(failed) = found.cloned() else {
            return self.message = Some("every expectation holds".to_string());
        };
        self.go(self.index.stop_at(self.records(), failed.at));
        if let Some(job) = failed.job {
            self.select(job);
        }
        self.message = Some(format!("{} failed: {}", failed.name, failed.text));
    }

    /// Goes to the next event that contains the text, and selects its job. An empty text repeats the last search.
    fn search(&mut self, text: String) {
        if !text.is_empty() {
            self.searched = text.to_lowercase();
        }
        if self.searched.is_empty() {
            return;
        }
        let (from, all) = (self.count(), self.run.records.len());
        let found = (from..all).chain(0..from).find(|number| self.matches(*number));
        let Some(number) = found else {
            return self.message = Some(format!("no event contains `{}`", self.searched));
        };
        self.go(self.index.stop_of_record(number));
        if let Some(job) = job_of(&self.run.records[number]) {
            self.select(job);
        }
        self.message = self.line(number).map(|line| line.trim_start().to_string());
    }

    fn matches(&self, number: usize) -> bool {
        self.line(number).is_some_and(|line| line.to_lowercase().contains(&self.searched))
    }

    /// A record as a line of text; `None` if it is not shown.
    pub fn line(&self, number: usize) -> Option<String> {
        record_line(&self.run.records[number], &self.run.names, &Filter::default())
    }

    /// The last lines of events up to the current stop, in order of time.
    pub fn events(&self, lines: usize) -> Vec<(usize, String)> {
        let is_wanted = |number: &usize| {
            !self.only_selected || self.selected.is_none() || job_of(&self.run.records[*number]) == self.selected
        };
        let shown = (0..self.count()).rev().filter(is_wanted).filter_map(|number| Some((number, self.line(number)?)));
        let mut found: Vec<(usize, String)> = shown.skip(self.scroll[Pane::Events as usize]).take(lines).collect();
        found.reverse();
        found
    }
}

pub fn job_of(record: &Record) -> Option<JobId> {
    match &record.said {
        RecordBody::Input(input) => input.job(),
        RecordBody::Event(event) => event.job(),
    }
}
