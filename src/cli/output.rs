//! Output: stdout as text or JSON, and files that are written completely or not at all.

use std::borrow::Cow;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use super::exit::Failure;
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

/// Prints data for people. Colours are removed if they are not wanted. Long lines are folded on a terminal only: a
/// program that reads the text gets each line whole.
pub fn print(text: &str) -> io::Result<()> {
    let fold = folder();
    let mut out = anstream::stdout().lock();
    out.write_all(fold(text).as_bytes())?;
    out.flush()
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
    writeln!(out, "{text}")?;
    out.flush()
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

/// A file that is written under a temporary name beside its destination, and renamed once it is complete. A device or a
/// pipe is written in place, because a rename would replace it.
pub struct WholeFile {
    /// The path as the user typed it.
    path: PathBuf,
    /// The partial file and its destination, with links followed; `None` if the destination is written in place.
    replaced: Option<(PathBuf, PathBuf)>,
    out: Option<BufWriter<File>>,
}

impl WholeFile {
    /// Fails if the file cannot be written. Commands call this before they run anything, to fail early.
    pub fn create(path: &Path) -> Result<WholeFile, Failure> {
        let unwritable = |error| Failure::file(path, format!("cannot be written: {error}"));
        let name = path.file_name().ok_or_else(|| Failure::file(path, "is not the name of a file"))?;
        let link = std::fs::read_link(path).ok();
        let place = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(Failure::file(path, "is a folder; name a file in it")),
            Ok(found) if !found.is_file() => None,
            Ok(_) if link.is_some() && is_opened(path) => None,
            Ok(_) if link.is_some() => Some(std::fs::canonicalize(path).map_err(unwritable)?),
            Ok(_) | Err(_) => Some(path.to_path_buf()),
        };
        let name = place.as_ref().and_then(|place| place.file_name()).unwrap_or(name);
        let beside = place.as_ref().map(|place| place.with_file_name(format!(".{}.partial", name.to_string_lossy())));
        let file = match &beside {
            Some(beside) => OpenOptions::new().write(true).create(true).truncate(false).open(beside),
            None => OpenOptions::new().append(true).open(path),
        };
        let file = file.map_err(unwritable)?;
        if beside.is_some() {
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Err(Failure::file(path, "is being written by another dryrack; name another file"));
            }
            // A killed process may have left a partial file. Clear it.
            file.set_len(0).map_err(unwritable)?;
        }
        Ok(WholeFile { path: path.to_path_buf(), replaced: beside.zip(place), out: Some(BufWriter::new(file)) })
    }

    pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        let mut file = WholeFile::create(path)?;
        let written = file.write_all(bytes);
        file.keep(written)
    }

    /// Renames the file to its destination, unless writing it failed.
    pub fn keep(mut self, written: io::Result<()>) -> Result<(), Failure> {
        self.finish(written)?;
        self.settle()
    }

    /// Renames several files to their destinations once all of them are complete. So files of two runs never mix.
    pub fn keep_all(mut files: Vec<(WholeFile, io::Result<()>)>) -> Result<(), Failure> {
        for (file, written) in &mut files {
            file.finish(std::mem::replace(written, Ok(())))?;
        }
        files.into_iter().try_for_each(|(file, _)| file.settle())
    }

    fn finish(&mut self, written: io::Result<()>) -> Result<(), Failure> {
        let mut out = self.out.take().expect("finished once");
        let finished = written.and_then(|()| out.flush());
        finished.map_err(|error| Failure::from(WriteError::at(&self.path, error)))
    }

    fn settle(self) -> Result<(), Failure> {
        let settled = self.replaced.as_ref().map_or(Ok(()), |(beside, place)| std::fs::rename(beside, place));
        settled.map_err(|error| Failure::file(&self.path, format!("cannot be written: {error}")))
    }
}

/// A write error with the path of the file. It is stored inside an `io::Error`. So code that writes through layers
/// (compression, CSV) need not know the file below them.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written: {source}", path.display())]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

impl WriteError {
    fn at(path: &Path, error: io::Error) -> io::Error {
        match error.get_ref().is_some_and(|inner| inner.is::<WriteError>()) {
            true => error,
            false => io::Error::new(error.kind(), WriteError { path: path.to_path_buf(), source: error }),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.as_mut().expect("written before it is kept").write(bytes);
        written.map_err(|error| WriteError::at(&self.path, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.as_mut().expect("written before it is kept").flush();
        flushed.map_err(|error| WriteError::at(&self.path, error))
    }
}

impl Drop for WholeFile {
    /// Removes the partial file if the file was not completed.
    fn drop(&mut self) {
        if let Some((beside, _)) = self.replaced.as_ref().filter(|(beside, _)| beside.exists()) {
            let _gone = std::fs::remove_file(beside);
        }
    }
}

/// Whether this is `/dev/stdout` or a similar link, which leads to a file that some process has open.
fn is_opened(link: &Path) -> bool {
    ["/dev", "/proc"].iter().any(|folder| link.starts_with(folder))
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
