//! Parses YAML text to a tree. Limits ensure that no file can make this slow or the tree deep or large.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError};

use super::diagnostic::{Report, SourceId, Span};
use super::tree::{Entry, Node, Tree};

/// The largest number of nested levels of lists and maps. A scenario has about five.
const MAX_DEPTH: usize = 48;
/// The largest number of values in one file. A value that an alias repeats counts each time. A job has about ten
/// values.
const MAX_NODES: usize = 4_000_000;

/// The limits of a text that dryrack's own commands did not write, such as the objects of a large cluster.
const FOREIGN: Limits = Limits { depth: 128, nodes: 40_000_000 };
const OWN: Limits = Limits { depth: MAX_DEPTH, nodes: MAX_NODES };

/// How large a tree may be.
#[derive(Clone, Copy)]
struct Limits {
    depth: usize,
    nodes: usize,
}

/// Parses a text to a tree. Returns `None` after a fault that stops parsing, such as a syntax error, which is reported.
/// A duplicate key is reported too, but parsing continues with the first value of that key.
pub fn parse(text: &str, source: SourceId, report: &mut Report) -> Option<Tree> {
    let builder = built(text, 0..text.len(), source, OWN, false, report)?;
    if builder.root.is_none() {
        let message = match text.trim().is_empty() {
            true => "the file is empty",
            false => "the file contains only comments or markers",
        };
        builder.report.error_with_help(source.start(), message, "write keys and values, such as `key: value`");
    }
    builder.root
}

/// Like [`parse`], for a text of several documents, of any size. Empty documents are left out. As for `kubectl`, JSON
/// objects need nothing between them.
pub fn parse_documents(text: &str, source: SourceId, report: &mut Report) -> Option<Vec<Tree>> {
    let (mut parts, mut documents) = (json_objects(text).unwrap_or_default(), Vec::new());
    if parts.is_empty() {
        parts.push(0..text.len());
    }
    for part in parts {
        let mut builder = built(text, part, source, FOREIGN, true, report)?;
        builder.next_document();
        documents.append(&mut builder.documents);
    }
    Some(documents)
}

/// The places of the JSON objects of a text that has nothing else.
fn json_objects(text: &str) -> Option<Vec<Range<usize>>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut objects = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    let mut places = Vec::new();
    loop {
        let start = objects.byte_offset();
        match objects.next() {
            Some(object) => places.push(start..object.ok().map(|_| objects.byte_offset())?),
            None => return Some(places),
        }
    }
}

/// Parses this part of the text.
fn built<'r>(
    text: &str,
    part: Range<usize>,
    source: SourceId,
    limits: Limits,
    takes_several: bool,
    report: &'r mut Report,
) -> Option<Builder<'r>> {
    let (from, text) = (part.start, &text[part]);
    if let Some(at) = text.find(|letter: char| letter.is_control() && !matches!(letter, '\t' | '\n' | '\r' | '\u{85}'))
    {
        let letter = text[at..].chars().next().map_or(0, u32::from);
        let message = format!("expected text, found the control character U+{letter:04X}");
        report.error_with_help(
            source.span(from + at, from + at + 1),
            message,
            "save the file as UTF-8 text without control characters",
        );
        return None;
    }
    let mut options = granit_parser::options! { flow_nesting_limit: limits.depth, block_nesting_limit: limits.depth };
    options.set_emit_comments(false);
    let (stack, anchors, documents) = (Vec::new(), BTreeMap::new(), Vec::new());
    let mut builder =
        Builder { source, from, report, limits, takes_several, stack, anchors, nodes: 0, root: None, documents };
    for next in Parser::new_from_str_with_options(text, options) {
        let step = match next {
            Ok((event, span)) => {
                let bytes = span.byte_range().unwrap_or(0..0);
                builder.event(event, source.span(from + bytes.start, from + bytes.end))
            }
            Err(error) => {
                builder.syntax_error(text, &error);
                return None;
            }
        };
        if step.is_err() {
            return None;
        }
    }
    Some(builder)
}

/// An error that stops parsing. The reason has already been reported.
struct Stop;

/// A list or map that is not complete yet.
struct Frame {
    start: Span,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Tree>),
    Map { entries: Vec<Entry>, keys: BTreeMap<String, Span>, key: Option<(String, Span)> },
}

struct Anchored {
    tree: Tree,
    size: usize,
    depth: usize,
}

struct Builder<'r> {
    source: SourceId,
    /// The byte of the source at which the parsed part begins.
    from: usize,
    report: &'r mut Report,
    limits: Limits,
    /// Whether the text may have several documents.
    takes_several: bool,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Anchored>,
    nodes: usize,
    root: Option<Tree>,
    /// The complete documents before the current one, if there may be several.
    documents: Vec<Tree>,
}

impl Builder<'_> {
    /// A byte range of the parsed part, as a place in the source.
    fn span(&self, start: usize, end: usize) -> Span {
        self.source.span(self.from + start, self.from + end)
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.as_ref().is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                self.refuse_tag(tag.is_some() && !is_text, span)?;
                let quoted = style != ScalarStyle::Plain || is_text;
                self.place(Tree { span, node: Node::Scalar { text: text.into_owned(), quoted } }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.is_some(), span)?;
                self.open(Frame { start: span, anchor, content: Content::List(Vec::new()) })
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.is_some(), span)?;
                let content = Content::Map { entries: Vec::new(), keys: BTreeMap::new(), key: None };
                self.open(Frame { start: span, anchor, content })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::DocumentStart(..) if self.takes_several => {
                self.next_document();
                Ok(())
            }
            Event::DocumentStart(..) if self.root.is_some() => {
                let help = "keep one document, and move the other into a separate file";
                self.stop(span, "a second document begins here, but a file can have only one", help)
            }
            // Other events carry no value.
            _ => Ok(()),
        }
    }

    fn next_document(&mut self) {
        self.documents.extend(self.root.take().filter(|tree| !tree.is_nothing()));
    }

    fn stop(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) -> Result<(), Stop> {
        self.report.error_with_help(span, message, help);
        Err(Stop)
    }

    fn refuse_tag(&mut self, is_tagged: bool, span: Span) -> Result<(), Stop> {
        match is_tagged {
            true => self.stop(
                span,
                "of the tags of YAML, only `!!str` is supported",
                "remove the word that begins with `!`",
            ),
            false => Ok(()),
        }
    }

    fn open(&mut self, frame: Frame) -> Result<(), Stop> {
        if let Some(Content::Map { key: None, .. }) = self.stack.last().map(|frame| &frame.content) {
            return self.stop(frame.start, "expected a key, found a list or map", "write `key: value`");
        }
        self.check_depth(self.stack.len() + 1, frame.start)?;
        self.stack.push(frame);
        Ok(())
    }

    fn check_depth(&mut self, depth: usize, span: Span) -> Result<(), Stop> {
        let most = self.limits.depth;
        match depth > most {
            true => self.stop(span, format!("lists and maps are nested more than {most} deep"), FLATTEN),
            false => Ok(()),
        }
    }

    fn close(&mut self, end: Span) -> Result<(), Stop> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let node = match frame.content {
            Content::List(items) => Node::List(items),
            Content::Map { entries, .. } => Node::Map(self.merged(entries)),
        };
        self.place(Tree { span: frame.start.to(end), node }, frame.anchor)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Stop> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return self.stop(span, "this alias refers to a value that contains the alias", "write out the value");
        };
        let (size, depth) = (anchored.size, anchored.depth);
        // Check the size before copying, because a few lines with aliases can lead to billions of values.
        self.nodes += size;
        if self.nodes > self.limits.nodes {
            let message = format!("nested aliases expand to more than {} values", self.limits.nodes);
            return self.stop(span, message, "write out the values");
        }
        self.check_depth(self.stack.len() + depth, span)?;
        let tree = self.anchors.get(&anchor).map(|anchored| anchored.tree.clone());
        tree.map_or(Ok(()), |tree| self.place(tree, 0))
    }

    fn check_nodes(&mut self, span: Span) -> Result<(), Stop> {
        if self.nodes <= self.limits.nodes {
            return Ok(());
        }
        let message = format!("more than {} values in one file", self.limits.nodes);
        self.stop(span, message, "use `count:` for copies of a job or node, and `trace:` for a large workload")
    }

    /// Adds a complete value to the list or map that contains it.
    fn place(&mut self, tree: Tree, anchor: usize) -> Result<(), Stop> {
        self.nodes += 1;
        self.check_nodes(tree.span)?;
        if anchor != 0 {
            let (size, depth) = (tree.size(), tree.depth());
            self.nodes += size;
            self.check_nodes(tree.span)?;
            self.anchors.insert(anchor, Anchored { tree: tree.clone(), size, depth });
        }
        match self.stack.last_mut().map(|frame| &mut frame.content) {
            None => self.root = Some(tree),
            Some(Content::List(items)) => items.push(tree),
            Some(Content::Map { entries, keys, key }) => match key.take() {
                Some((text, key_span)) => match keys.get(&text) {
                    None => {
                        keys.insert(text.clone(), key_span);
                        entries.push(Entry { key: text, key_span, value: tree });
                    }
                    Some(first) => {
                        let line = self.report.place(*first).1;
                        let help = format!("it is already given on line {line}; remove one of the two");
                        self.report.error_with_help(key_span, format!("key `{text}` is given twice"), help);
                    }
                },
                None => match tree.node {
                    Node::Scalar { text, .. } => *key = Some((text, tree.span)),
                    Node::List(_) | Node::Map(_) => {
                        return self.stop(tree.span, "expected a key, found a list or map", "write `key: value`");
                    }
                },
            },
        }
        Ok(())
    }

    /// Resolves `<<: *base`: adds each key of the base that the map does not have.
    fn merged(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        if entries.iter().all(|entry| entry.key != "<<") {
            return entries;
        }
        let (bases, mut own): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| entry.key == "<<");
        let mut known: BTreeSet<String> = own.iter().map(|entry| entry.key.clone()).collect();
        for base in bases {
            let maps = match base.value.node {
                Node::List(items) => items,
                node => vec![Tree { span: base.value.span, node }],
            };
            for map in maps {
                match map.node {
                    Node::Map(inherited) => {
                        own.extend(inherited.into_iter().filter(|entry| known.insert(entry.key.clone())));
                    }
                    _ => self.report.error_with_help(base.key_span, "expected a map to merge", "write `<<: *name`"),
                }
            }
        }
        own
    }

    fn syntax_error(&mut self, text: &str, error: &ScanError) {
        let at = error.marker().byte_offset().unwrap_or(text.len()).min(text.len());
        if let Some((bracket, at)) = never_closed(text, at, error.kind()) {
            let close = if bracket == '[' { ']' } else { '}' };
            let message = format!("this `{bracket}` is never closed");
            return self.report.error_with_help(self.span(at, at + 1), message, format!("add the missing `{close}`"));
        }
        if let Some(reference) = bare_reference(text, at) {
            let message = format!("`{reference}` needs quotes inside brackets");
            let span = self.span(at - 1, at - 1 + reference.len());
            return self.report.error_with_help(span, message, format!("write \"{reference}\""));
        }
        if let Some((tab, line)) = indented_by_tab(text, at) {
            let message = format!("line {line} is indented with a tab");
            return self.report.error_with_help(self.span(tab, tab + 1), message, "use spaces");
        }
        let (message, mut help) = explain(error, self.limits.depth);
        if let (ErrorKind::UnexpectedCharacter { .. }, Some(rest)) = (error.kind(), text.get(at..)) {
            let value = rest.split([',', '}', ']', '\n']).next().unwrap_or("").trim();
            help = Some(format!("put it in quotes: {value:?}"));
        }
        // For an error at the end of the file, point to the last line that is not blank.
        let at = if text[text.floor_char_boundary(at)..].trim().is_empty() { text.trim_end().len() } else { at };
        let span = self.span(at, at + 1);
        let help =
            help.unwrap_or_else(|| "write YAML 1.2, and put texts with special characters in quotes".to_string());
        self.report.error_with_help(span, message, help);
    }
}

/// The place and the number of the first line that is indented with a tab, on the line of an error or behind it. The
/// parser reports such a line at the end of what comes before it.
fn indented_by_tab(text: &str, at: usize) -> Option<(usize, usize)> {
    let begin = text[..text.floor_char_boundary(at)].rfind('\n').map_or(0, |newline| newline + 1);
    let before = text[..begin].matches('\n').count();
    let mut start = begin;
    for (index, line) in text[begin..].split('\n').take(2).enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        if let Some(tab) = indent.find('\t') {
            return Some((start + tab, before + index + 1));
        }
        start += line.len() + 1;
    }
    None
}

/// If an unclosed bracket can cause this error, the innermost bracket that is open at `at`. It must have been opened on
/// an earlier line, or the file must end at `at`.
fn never_closed(text: &str, at: usize, kind: &ErrorKind) -> Option<(char, usize)> {
    let is_led_to = matches!(
        kind,
        ErrorKind::BlockEntryInFlowCollection
            | ErrorKind::UnexpectedEofFlowSequence
            | ErrorKind::UnexpectedEofFlowMapping
            | ErrorKind::UnexpectedEofImplicitFlowMapping
            | ErrorKind::ExpectedFlowMappingSeparator
            | ErrorKind::ExpectedFlowSequenceSeparator
            | ErrorKind::UnclosedFlowCollection { .. }
            | ErrorKind::SimpleKeyExpected
            | ErrorKind::InvalidSimpleKey
    );
    let before = text.get(..at).filter(|_| is_led_to)?;
    let mut open: Vec<(char, usize)> = Vec::new();
    let mut quote: Option<char> = None;
    let (mut is_comment, mut last) = (false, ' ');
    for (position, letter) in before.char_indices() {
        match (quote, letter) {
            (_, '\n') => is_comment = false,
            _ if is_comment => {}
            (Some(opened), _) if letter == opened => quote = None,
            (Some(_), _) => {}
            // A quotation mark inside a word is an apostrophe.
            (None, '"' | '\'') if !last.is_alphanumeric() => quote = Some(letter),
            (None, '#') if last.is_whitespace() => is_comment = true,
            (None, '[' | '{') => open.push((letter, position)),
            (None, ']' | '}') => drop(open.pop()),
            (None, _) => {}
        }
        last = letter;
    }
    let (bracket, position) = open.pop()?;
    let is_above = before[position..].contains('\n') || text[at..].trim().is_empty();
    is_above.then_some((bracket, position))
}

/// The reference, such as `${gpus}`, whose brace caused the error; `None` if there is none.
fn bare_reference(text: &str, at: usize) -> Option<&str> {
    let rest = text.get(at.checked_sub(1)?..)?;
    let end = rest.find(['}', '\n']).filter(|end| rest.starts_with("${") && rest[*end..].starts_with('}'))?;
    Some(&rest[..=end])
}

const FLATTEN: &str = "a scenario needs about five levels; look for brackets that are never closed";

/// Explains a parse error. Also says what to type instead, if that is known.
fn explain(error: &ScanError, depth: usize) -> (String, Option<String>) {
    let (message, help) = match error.kind() {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart => {
            ("tabs cannot be used for indentation", "tabs cannot be used for indentation")
        }
        ErrorKind::InvalidIndentation
        | ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::BlockSequenceEntryNotAllowed => (
            "this line is not aligned with the lines above it",
            "start all keys of a map, and all `-` of a list, in the same column",
        ),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey | ErrorKind::ExpectedNodeContent => {
            ("expected `key: value`", "write a space after the colon, and put text that contains `: ` in quotes")
        }
        ErrorKind::UnexpectedEofFlowSequence | ErrorKind::ExpectedFlowSequenceSeparator => {
            ("expected `,` or `]` in this list", "close the list with `]`")
        }
        ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowMappingSeparator => ("expected `,` or `}` in this map", "close the map with `}`"),
        ErrorKind::UnclosedFlowCollection { open } => {
            let close = if *open == '[' { ']' } else { '}' };
            return (format!("`{open}` is never closed"), Some(format!("add the missing `{close}`")));
        }
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            return (
                format!("`{open}` is closed by `{close}`"),
                Some("close `[` with `]` and `{` with `}`".to_string()),
            );
        }
        ErrorKind::MisplacedFlowCollectionEnd => ("this bracket does not match an open one", "remove it"),
        ErrorKind::RecursionLimitExceeded => {
            return (format!("lists and maps are nested more than {depth} deep"), Some(FLATTEN.to_string()));
        }
        ErrorKind::UnknownAnchor => {
            ("the anchor of this alias is not defined above it", "define it above with `&name`")
        }
        ErrorKind::UnclosedQuotedScalar => ("this quote is never closed", "add the closing quote"),
        ErrorKind::UnexpectedCharacter { character } => {
            let message = format!("a value cannot begin with `{character}` without quotes");
            return (message, None);
        }
        ErrorKind::InvalidBlockScalarHeader => {
            ("`>` and `|` start a block of text", "put a comparison in quotes: \">= 2\"")
        }
        ErrorKind::MappingValueNotAllowed => (
            "a key cannot stand here, because the line above it is not complete",
            "start all keys of a map in the same column, and put text that contains `: ` in quotes",
        ),
        ErrorKind::CommentNotSeparated => ("a comment needs a space before `#`", "add a space before it"),
        _ => return (format!("not YAML: {}", error.info()), None),
    };
    (message.to_string(), Some(help.to_string()))
}
