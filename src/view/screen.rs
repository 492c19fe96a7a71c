//! The terminal: entered for the display, and left as it was found, even after a panic.

use std::io::{self, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::{CrosstermBackend, TestBackend};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};

use super::answers::Answers;
use super::app::{App, Next, Verdicts};
use super::draw::draw;
use super::{Explain, JudgeRun, Start, ViewedRun};

/// How long to wait for a key before the display is brought up to date.
const TICK: Duration = Duration::from_millis(100);

/// Leaves the alternate screen and raw mode when it is dropped, so also when a panic unwinds through it.
pub(super) struct Screen<W: Write> {
    out: W,
}

impl Screen<Stdout> {
    fn enter() -> io::Result<Screen<Stdout>> {
        enable_raw_mode()?;
        Screen::over(io::stdout())
    }
}

impl<W: Write> Screen<W> {
    pub(super) fn over(mut out: W) -> io::Result<Screen<W>> {
        let entered = execute!(out, EnterAlternateScreen);
        let screen = Screen { out };
        entered.map(|()| screen)
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        // Nothing is left to do if the terminal is gone.
        let _gone = execute!(self.out, LeaveAlternateScreen, Show);
        let _gone = disable_raw_mode();
    }
}

/// Shows the run until the user quits, or until the process is told to end.
pub fn show(run: ViewedRun, start: &Start, explain: Explain, judge: JudgeRun) -> io::Result<()> {
    let mut app = App::new(run, start);
    let mut answers = Answers::new(explain, judge);
    let ends = Arc::new(AtomicBool::new(false));
    // SIGHUP keeps its default action: the terminal is gone then, and waiting for its next key would never end.
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&ends))?;
    let _screen = Screen::enter()?;
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let mut asked = None;
    let mut is_stale = true;
    while !ends.load(Ordering::Relaxed) {
        if app.asked != asked {
            asked = app.asked;
            asked.into_iter().for_each(|question| answers.ask(question));
        }
        for (question, text) in answers.arrived() {
            app.answer(question, text);
            is_stale = true;
        }
        if let Some(verdicts) = answers.verdicts() {
            app.verdicts = verdicts.map_or_else(Verdicts::Unknown, Verdicts::Known);
            is_stale = true;
        }
        if is_stale {
            terminal.draw(|frame| draw(frame, &mut app))?;
        }
        if !event::poll(TICK)? {
            is_stale = app.is_playing;
            app.tick();
            continue;
        }
        // Take all keys that have been pressed before drawing again. A new size of the terminal is an event too.
        is_stale = true;
        loop {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && app.key(key) == Next::Quit
            {
                return Ok(());
            }
            if !event::poll(Duration::ZERO)? {
                break;
            }
        }
    }
    Ok(())
}

/// One picture of the run as text, without a terminal.
pub fn picture(
    run: ViewedRun,
    start: &Start,
    (width, height): (u16, u16),
    explain: &Explain,
    judge: &JudgeRun,
) -> String {
    let mut app = App::new(run, start);
    app.verdicts = match judge() {
        Ok(failed) => Verdicts::Known(failed),
        Err(why) => Verdicts::Unknown(why),
    };
    if let Some(question) = app.asked
        && let Some(text) = explain(question.0, question.1, &AtomicBool::new(false))
    {
        app.answer(question, text);
    }
    text_of(&mut app, (width, height))
}

/// The screen as lines of text.
pub(super) fn text_of(app: &mut App, (width, height): (u16, u16)) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| draw(frame, app));
    let buffer = terminal.backend().buffer();
    let line = |row: u16| {
        let cells = (0..width).map(|column| buffer[(column, row)].symbol());
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    (0..height).map(line).collect()
}
