//! Diagnostics: the faults of a file. Each has a place, a message and, where possible, a suggestion. Only this file
//! renders them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use super::written::place_of;
use dryrack_nearest::hint;

/// Severity of a fault: whether the file can still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

/// Kind of a fault, for callers that treat them differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The file contains an error or something odd.
    Wrong,
    /// The file names a trace that is not on this machine. Everything else that could be checked is correct.
    TraceMissing,
}

/// One fault of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub severity: Severity,
    pub kind: Kind,
    /// Name of the file as the user gave it, or `command line`.
    pub file: Arc<str>,
    /// Line number, starting at 1.
    pub line: u32,
    /// Column in characters, starting at 1.
    pub column: u32,
    /// Length in characters, limited to that line; 0 for a place between two characters.
    pub length: u32,
    /// Message in lower case that says what is wrong or what was expected.
    pub message: String,
    /// Suggestion of what to type instead.
    pub help: Option<String>,
    #[serde(skip)]
    excerpt: Option<Excerpt>,
}

/// The displayed part of a line, and the position of the fault in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    text: String,
    offset: usize,
    length: usize,
}

/// All faults found while loading, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Diagnostics(Vec<Diagnostic>);

/// The number of characters of a line that are shown, because a line may be megabytes long.
const SHOWN: usize = 110;
/// If a line is cut, the number of characters shown before the fault.
const BEFORE: usize = 30;
/// The number of characters that are shown of a text in backticks, and how many of them are from its end.
const QUOTED: usize = 300;
const QUOTED_END: usize = 60;

impl Excerpt {
    fn cut(line: &str, column: usize, length: usize) -> Excerpt {
        let start = if line.chars().nth(SHOWN).is_none() { 0 } else { column.saturating_sub(BEFORE) };
        let mut rest = line.chars().skip(start);
        let mut text = String::from(if start > 0 { "…" } else { "" });
        text.extend(rest.by_ref().take(SHOWN).map(printable));
        let shown = text.chars().count();
        if rest.next().is_some() {
            text.push('…');
        }
        let offset = (column - start) + usize::from(start > 0);
        Excerpt { text: text.trim_end().to_string(), offset, length: length.min(shown.saturating_sub(offset)).max(1) }
    }
}

/// Returns `text` with long texts in backticks shortened, because a user may type a text of any length.
pub fn cut_quotes(text: &str) -> String {
    if text.len() <= QUOTED {
        return text.to_string();
    }
    let cut = |(index, part): (usize, &str)| {
        let is_quoted = index % 2 == 1;
        match part.chars().count() {
            letters if is_quoted && letters > QUOTED => {
                let begin: String = part.chars().take(QUOTED - QUOTED_END).collect();
                let end: String = part.chars().skip(letters - QUOTED_END).collect();
                format!("{begin}…{end}")
            }
            _ => part.to_string(),
        }
    };
    let parts: Vec<String> = text.split('`').enumerate().map(cut).collect();
    parts.join("`")
}

/// Replaces control characters, so that a file cannot write to the terminal through its own diagnostics.
fn printable(letter: char) -> char {
    match letter {
        '\t' => ' ',
        control if control.is_control() => '\u{fffd}',
        other => other,
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let message: String = self.message.chars().map(printable).collect();
        writeln!(f, "{severity}: {message}")?;
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "{margin}--> {}:{}:{}", self.file, self.line, self.column)?;
        if let Some(excerpt) = &self.excerpt {
            let caret = format!("{}{}", " ".repeat(excerpt.offset), "^".repeat(excerpt.length));
            writeln!(f, "{margin} |\n{number} | {}\n{margin} | {caret}", excerpt.text)?;
        }
        if let Some(help) = &self.help {
            let help: String = help.chars().map(printable).collect();
            writeln!(f, "{margin} = help: {help}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostics {
    /// Writes each diagnostic, followed by an empty line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|diagnostic| writeln!(f, "{diagnostic}"))
    }
}

impl std::error::Error for Diagnostics {}

impl Diagnostics {
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Whether the only error is a missing trace, which the user can fetch.
    pub fn lacks_only_a_trace(&self) -> bool {
        let mut errors = self.0.iter().filter(|known| known.severity == Severity::Error).peekable();
        errors.peek().is_some() && errors.all(|error| error.kind == Kind::TraceMissing)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// Adds the diagnostics that are not in the list yet.
    pub fn merge(&mut self, more: Diagnostics) {
        let is_new = |diagnostic: &Diagnostic| !self.0.contains(diagnostic);
        let new: Vec<Diagnostic> = more.0.into_iter().filter(is_new).collect();
        self.0.extend(new);
    }

    /// The diagnostics as a list of objects with the fields of [`Diagnostic`].
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_else(|error| panic!("a diagnostic has no JSON form: {error}"))
    }
}

/// A range of bytes in one source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    source: u16,
    start: u32,
    end: u32,
}

/// A source text, identified by its index in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceId(u16);

struct Source {
    name: Arc<str>,
    text: Arc<str>,
    /// The byte at which each line starts.
    lines: Vec<usize>,
}

struct Fault {
    severity: Severity,
    kind: Kind,
    span: Span,
    message: String,
    help: Option<String>,
}

/// Collects faults while a file is read, and owns the source texts to which spans refer.
#[derive(Default)]
pub struct Report {
    sources: Vec<Source>,
    faults: Vec<Fault>,
    /// The number of faults that were found but not kept.
    more: usize,
    /// Spans for which no further fault is reported.
    hushed: Vec<Span>,
    /// Words that suppress each message that contains them.
    hushed_words: Vec<String>,
    listener: Option<Listener>,
    homes: Option<Homes>,
    /// Words that files declare. `declares_any` means that every word counts as declared.
    declared: BTreeSet<String>,
    declares_any: bool,
    /// Places of named parts, for messages about them that can only be given later.
    noted: BTreeMap<String, Span>,
}

/// A function that is called for each map that is read, with the kind of the map and its known keys.
type Listener = fn(&'static str, &[&str]);

/// A function that says where an unknown key of a kind of map belongs, for a key that is known elsewhere.
type Homes = fn(&str, &str) -> Option<String>;

/// The file name for input from the command line.
pub const COMMAND_LINE: &str = "command line";

/// The largest number of faults that are kept. More would not be read, and each needs a scan of its line.
const MAX_FAULTS: usize = 200;

impl SourceId {
    /// A span of bytes in this source. Positions beyond 4 GiB are cut off, but no accepted text is that long.
    pub fn span(self, start: usize, end: usize) -> Span {
        let cut = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { source: self.0, start: cut(start), end: cut(end.max(start)) }
    }

    /// The beginning of the source, for a fault of the whole text.
    pub fn start(self) -> Span {
        self.span(0, 0)
    }
}

impl Span {
    pub fn source(self) -> SourceId {
        SourceId(self.source)
    }

    /// The range of bytes in the source.
    pub fn bytes(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The same range in another source with the same text.
    pub fn of(self, source: SourceId) -> Span {
        Span { source: source.0, ..self }
    }

    /// The first byte of this span. It marks the beginning of a part that is too long to underline.
    pub fn start(self) -> Span {
        Span { end: self.start, ..self }
    }

    /// The range from the beginning of this span to the end of `end`.
    pub(super) fn to(self, end: Span) -> Span {
        Span { end: end.end.max(self.end), ..self }
    }

    /// A part of this span, at a byte offset from its start. If the text was quoted or escaped, offsets do not match,
    /// and the result is the whole span.
    pub fn within(self, offset: usize, length: usize, whole: usize) -> Span {
        if (self.end - self.start) as usize != whole {
            return self;
        }
        self.source().span(self.start as usize + offset, self.start as usize + offset + length)
    }
}

impl Report {
    /// An empty report with a `listener`, which tests of the schema use.
    pub fn with_listener(listener: Listener) -> Report {
        Report { listener: Some(listener), ..Report::default() }
    }

    /// This report, which says of an unknown key where it belongs.
    pub fn with_homes(self, homes: Homes) -> Report {
        Report { homes: Some(homes), ..self }
    }

    /// Where an unknown key of a kind of map belongs.
    pub(super) fn home(&self, what: &str, key: &str) -> Option<String> {
        self.homes.and_then(|homes| homes(what, key))
    }

    pub(super) fn notify_listener(&self, what: &'static str, known: &[&str]) {
        if let Some(listener) = self.listener {
            listener(what, known);
        }
    }

    pub fn add_source(&mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> SourceId {
        let text = text.into();
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(breaks).collect();
        let id = u16::try_from(self.sources.len()).unwrap_or(u16::MAX);
        self.sources.push(Source { name: name.into(), text, lines });
        SourceId(id)
    }

    /// Whether a place is in a file, and not on the command line.
    pub(super) fn is_of_file(&self, span: Span) -> bool {
        self.sources.get(usize::from(span.source)).is_some_and(|source| *source.name != *COMMAND_LINE)
    }

    /// A byte range of a scalar's text, as a place in the source. `span` is the whole scalar.
    pub fn part_of(&self, span: Span, text: &str, part: Range<usize>) -> Span {
        let Some(source) = self.sources.get(usize::from(span.source)) else { return span };
        let written = source.text.get(span.start as usize..span.end as usize);
        match written.and_then(|written| place_of(written, text, part)) {
            Some(place) => {
                let start = span.start as usize;
                span.source().span(start + place.start, start + place.end)
            }
            None => span,
        }
    }

    /// Registers a word that a file declares, such as the reason of its own filter.
    pub fn declare(&mut self, word: &str) {
        self.declared.insert(word.to_string());
    }

    /// Treats every word as declared, because the command line replaced the part that declares words.
    pub fn declare_any(&mut self) {
        self.declares_any = true;
    }

    pub fn is_declared(&self, word: &str) -> bool {
        self.declares_any || self.declared.contains(word)
    }

    /// Registers the place of a part of a file under a name.
    pub fn note(&mut self, name: String, place: Span) {
        self.noted.insert(name, place);
    }

    /// The place that was registered under this name.
    pub fn noted(&self, name: &str) -> Option<Span> {
        self.noted.get(name).copied()
    }

    /// The words that files have declared.
    pub fn declared(&self) -> impl Iterator<Item = &str> {
        self.declared.iter().map(String::as_str)
    }

    pub fn error_with_help(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.add(Severity::Error, span, message.into(), Some(help.into()));
    }

    pub fn trace_missing(&mut self, span: Span, message: String, help: String) {
        let (severity, kind) = (Severity::Error, Kind::TraceMissing);
        self.keep(Fault { severity, kind, span, message, help: Some(help) });
    }

    /// Reports `message`. Adds the most similar valid name, or all valid names if there are few.
    pub fn unknown<'n>(
        &mut self,
        span: Span,
        message: impl Into<String>,
        word: &str,
        names: impl Iterator<Item = &'n str>,
    ) {
        let help = hint(word, names).unwrap_or_else(|| "none exist here".to_string());
        self.add(Severity::Error, span, message.into(), Some(help));
    }

    pub fn warning(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.add(Severity::Warning, span, message.into(), Some(help.into()));
    }

    /// Suppresses further faults at exactly this place, which would only follow from the first one.
    pub fn suppress(&mut self, span: Span) {
        self.hushed.push(span);
    }

    /// Suppresses further messages that contain these words. Such a message would be about something that the user did
    /// not write, or already knows.
    pub fn suppress_about(&mut self, words: impl Into<String>) {
        self.hushed_words.push(words.into());
    }

    fn add(&mut self, severity: Severity, span: Span, message: String, help: Option<String>) {
        let is_hushed = self.hushed_words.iter().any(|words| message.contains(words.as_str()));
        if is_hushed || self.hushed.contains(&span) {
            return;
        }
        self.keep(Fault { severity, kind: Kind::Wrong, span, message, help });
    }

    fn keep(&mut self, fault: Fault) {
        let fault = Fault { message: cut_quotes(&fault.message), help: fault.help.as_deref().map(cut_quotes), ..fault };
        match self.faults.len() < MAX_FAULTS {
            true => self.faults.push(fault),
            // Replace the last fault, because an error must not be hidden behind warnings.
            false if fault.severity == Severity::Error && !self.has_errors() => self.faults[MAX_FAULTS - 1] = fault,
            false => self.more += 1,
        }
    }

    /// Whether jobs or nodes of a trace are unknown because the trace is not on this machine.
    pub fn lacks_a_trace(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind == Kind::TraceMissing)
    }

    pub fn has_errors(&self) -> bool {
        self.faults.iter().any(|fault| fault.severity == Severity::Error)
    }

    /// Whether the span is in the text of the command line instead of a file.
    pub fn is_typed(&self, span: Span) -> bool {
        &*self.sources[usize::from(span.source)].name == COMMAND_LINE
    }

    /// The file, line and column where a span begins.
    pub fn place(&self, span: Span) -> (Arc<str>, u32, u32) {
        let source = &self.sources[usize::from(span.source)];
        let (line, column) = source.position(span.start as usize);
        (Arc::clone(&source.name), line, column)
    }

    /// All faults found, in the order of the sources. Faults at the same place stay in the order in which they were
    /// found.
    pub fn finish(mut self) -> Diagnostics {
        if let (more @ 1.., Some(last)) = (self.more, self.faults.last()) {
            let (severity, span) = (last.severity, last.span);
            let (message, help) =
                (format!("{more} further errors are not shown"), Some("correct these first".to_string()));
            self.faults.push(Fault { severity, kind: Kind::Wrong, span, message, help });
        }
        self.faults.sort_by_key(|fault| (fault.span.source, fault.span.start));
        let sources = self.sources;
        let resolve = |fault: Fault| sources[usize::from(fault.span.source)].resolve(fault);
        Diagnostics(self.faults.into_iter().map(resolve).collect())
    }
}

impl Source {
    /// The line and column of a byte, both starting at 1. A byte inside a character counts as that character.
    fn position(&self, byte: usize) -> (u32, u32) {
        let line = self.lines.partition_point(|start| *start <= byte) - 1;
        let byte = self.text.floor_char_boundary(byte.min(self.text.len()));
        let column = self.text[self.lines[line]..byte].chars().count();
        let count = |number: usize| u32::try_from(number + 1).unwrap_or(u32::MAX);
        (count(line), count(column))
    }

    fn line(&self, number: u32) -> &str {
        let start = self.lines[number as usize - 1];
        self.text[start..].split('\n').next().unwrap_or("").trim_end_matches('\r')
    }

    fn resolve(&self, fault: Fault) -> Diagnostic {
        let (line, column) = self.position(fault.span.start as usize);
        let text = self.line(line);
        let before = column as usize - 1;
        let start = fault.span.start as usize;
        let end = self.text.floor_char_boundary((fault.span.end as usize).clamp(start, self.text.len().max(start)));
        let spanned = self.text.get(start..end).unwrap_or("");
        let spanned = spanned.split('\n').next().unwrap_or("").trim_end();
        let length = spanned.chars().count().min(text.chars().count().saturating_sub(before));
        let excerpt = (!text.trim().is_empty()).then(|| Excerpt::cut(text, before, length));
        Diagnostic {
            severity: fault.severity,
            kind: fault.kind,
            file: Arc::clone(&self.name),
            line,
            column,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            message: fault.message,
            help: fault.help,
            excerpt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ten_megabytes_is_cut_around_the_fault() {
        let mut report = Report::default();
        let text = format!("a: {}x{}", "ä".repeat(5_000_000), "b".repeat(5_000_000));
        let at = 3 + "ä".len() * 5_000_000;
        let source = report.add_source("long.yaml", text);
        report.error_with_help(source.span(at, at + 1), "wrong", "right");
        let rendered = report.finish().to_string();
        assert!(rendered.len() < 600, "{}", rendered.len());
        let (line, caret) = (rendered.lines().nth(3).unwrap(), rendered.lines().nth(4).unwrap());
        let marked = caret.chars().position(|letter| letter == '^').unwrap();
        assert_eq!(line.chars().nth(marked), Some('x'), "{rendered}");
    }

    #[test]
    fn faults_beyond_the_first_hundreds_are_counted() {
        let mut report = Report::default();
        let source = report.add_source("all.yaml", "a: b");
        for _ in 0..300 {
            report.warning(source.span(0, 1), "odd", "mend it");
        }
        report.error_with_help(source.span(3, 4), "wrong", "right");
        let found = report.finish();
        assert!(found.has_errors());
        assert_eq!(found.iter().count(), MAX_FAULTS + 1);
        assert!(found.to_string().contains("100 further errors are not shown"), "{found}");
    }

    #[test]
    fn a_file_cannot_write_escape_codes_to_the_terminal() {
        let mut report = Report::default();
        let source = report.add_source("odd.yaml", "a: \u{1b}[31m");
        report.error_with_help(source.span(3, 4), "wrong \u{1b}", "\u{7}");
        let rendered = report.finish().to_string();
        assert!(!rendered.contains(|letter: char| letter.is_control() && letter != '\n'), "{rendered:?}");
    }
}
