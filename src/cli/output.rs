//! Output: stdout as text or JSON, and diagnostics on stderr.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use serde::Serialize;

use super::exit::Failure;
pub use super::whole_file::{NewFolders, WholeFile};
use dryrack_yaml::cut_quotes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Human,
    Json,
}

/// All formats of a test report. Every other command supports only the first two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TestFormat {
    /// Text for people
    #[default]
    Human,
    /// JSON
    Json,
    /// For `test`: JUnit XML
    Junit,
    /// For `test`: text for people, with annotations that GitHub shows at the lines of the files
    Github,
    /// For `test`: the Test Anything Protocol, version 14
    Tap,
}

impl TestFormat {
    /// The format, for a command other than `test`.
    pub fn plain(self) -> Result<Format, Failure> {
        match self {
            TestFormat::Human => Ok(Format::Human),
            TestFormat::Json => Ok(Format::Json),
            TestFormat::Junit | TestFormat::Github | TestFormat::Tap => {
                Err(Failure::Input("error: only `dryrack test` has the formats junit, github and tap".to_string()))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// Use colours if stdout is a terminal and NO_COLOR is not set.
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    pub fn apply(self) {
        let choice = match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }

    /// Whether a display on the terminal has colours. An empty NO_COLOR counts as unset (no-color.org).
    pub fn is_wanted(self) -> bool {
        match self {
            Color::Auto => std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            Color::Always => true,
            Color::Never => false,
        }
    }
}

/// The largest width of a line on a terminal.
const WIDTH: usize = 100;

/// Whether the program that reads stdout has closed it.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Prints data for people. Colours are removed if they are not wanted. Long lines are folded on a terminal only: a
/// program that reads the text gets each line whole.
///
/// If the reader has closed stdout, as `head` does, the command goes on without output, so that its exit code is that
/// of its result.
pub fn print(text: &str) -> io::Result<()> {
    let fold = folder();
    let mut out = anstream::stdout().lock();
    unless_closed(out.write_all(fold(text).as_bytes()).and_then(|()| out.flush()))
}

fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            IS_CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        written => written,
    }
}

/// Ends a command that only prints, and would go on, if the reader has closed stdout.
pub fn end_if_closed() -> Result<(), Failure> {
    if IS_CLOSED.load(Ordering::Relaxed) { Err(Failure::BrokenPipe) } else { Ok(()) }
}

/// What folds text for stdout. If stdout is not a terminal, text stays as it is.
pub fn folder() -> fn(&str) -> Cow<'_, str> {
    match io::stdout().is_terminal() {
        true => |text| Cow::Owned(folded(text, WIDTH)),
        false => |text| Cow::Borrowed(text),
    }
}

/// The text with each line folded between words to at most `width` columns. What follows is indented a little further
/// than the line. A longer word stays whole.
fn folded(text: &str, width: usize) -> String {
    let mut folded = String::new();
    for line in text.split_inclusive('\n') {
        if columns(line.trim_end()) <= width {
            folded.push_str(line);
            continue;
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let further = " ".repeat((indent + 2).min(width / 3));
        let mut taken = 0;
        for (number, word) in line.trim_end().split(' ').enumerate() {
            let wide = columns(word);
            if number > 0 && taken + 1 + wide > width && taken > further.len() {
                folded.push('\n');
                folded.push_str(&further);
                taken = further.len();
            } else if number > 0 {
                folded.push(' ');
                taken += 1;
            }
            folded.push_str(word);
            taken += wide;
        }
        folded.push_str(&line[line.trim_end().len()..]);
    }
    folded
}

/// The columns that a text takes: its characters without the codes of colours.
fn columns(text: &str) -> usize {
    let mut is_code = false;
    let is_shown = |letter: &char| match (is_code, *letter) {
        (false, '\u{1b}') => {
            is_code = true;
            false
        }
        (true, 'm') => {
            is_code = false;
            false
        }
        (is_code, _) => !is_code,
    };
    text.chars().filter(is_shown).count()
}

/// Prints data for programs, as indented JSON with a final line end.
pub fn print_json(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value).expect("our own values have a JSON form");
    let mut out = io::stdout().lock();
    unless_closed(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// Prints the output of the command-line parser. Help and version are data on stdout, and a failed write is an error. A
/// parse error is a diagnostic on stderr.
pub fn print_parser_output(said: &clap::Error) -> Result<(), Failure> {
    let rendered = said.render();
    if said.use_stderr() {
        warn(&cut(&rendered.ansi().to_string()));
        return Ok(());
    }
    Ok(print(&rendered.ansi().to_string())?)
}

/// Shortens long quotes and long lines in a message, because the message may repeat input of any length.
pub fn cut(message: &str) -> String {
    const LINE: usize = 1000;
    let shortened = |line: &str| {
        let line = cut_quotes(line);
        let (letters, end) = (line.chars().count(), line.ends_with('\n'));
        match letters > LINE {
            true => format!("{}…{}", line.chars().take(LINE).collect::<String>(), if end { "\n" } else { "" }),
            false => line,
        }
    };
    message.split_inclusive('\n').map(shortened).collect()
}

/// Prints diagnostics and progress on stderr. A failed write is ignored, because there is no other place to report it.
pub fn warn(text: &str) {
    let mut out = anstream::stderr().lock();
    let _unheard = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_folded_between_words_and_colours_take_no_room() {
        let rows = [
            ("short\n", "short\n"),
            ("  one two three four\n", "  one two\n    three\n    four\n"),
            ("\u{1b}[1mone\u{1b}[0m two six\n", "\u{1b}[1mone\u{1b}[0m two six\n"),
            ("averyveryverylongword and\n", "averyveryverylongword\n  and\n"),
        ];
        for (text, expected) in rows {
            assert_eq!(folded(text, 12), expected, "{text:?}");
        }
    }
}
