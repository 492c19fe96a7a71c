//! Calls the parser of the crate `cel`, and turns its messages into plain sentences.

use std::ops::Range;

use cel::common::ast::{IdedExpr, SourceInfo};
use cel::parser::{ParseError, Parser};

use super::check::{refuse_monsters, trimmed};
use super::fault::ExpressionError;
use super::macros;

/// Parses an expression. The numbers of its parts refer to places in the text.
pub(super) fn parse(text: &str) -> Result<(IdedExpr, SourceInfo), ExpressionError> {
    parse_by(Parser::new(), text)
}

/// Parses an expression with what Kubernetes allows: `device.?driver`, `map[?key]`, `cel.bind`.
pub(super) fn parse_standard(text: &str) -> Result<(IdedExpr, SourceInfo), ExpressionError> {
    parse_by(macros::parser(), text)
}

fn parse_by(parser: Parser, text: &str) -> Result<(IdedExpr, SourceInfo), ExpressionError> {
    refuse_monsters(text)?;
    if text.trim().is_empty() {
        return Err(ExpressionError::new(0..0, "the expression is empty"));
    }
    parser.parse_with_source_info(text).map_err(|faults| {
        let first = faults.errors.into_iter().min_by_key(|fault| fault.pos);
        first.map_or_else(
            || ExpressionError::new(trimmed(text), "this is not an expression"),
            |fault| plain(text, &fault),
        )
    })
}

/// The byte at this line and column. Both are counted from one; columns count characters.
fn byte_at(text: &str, (line, column): (isize, isize)) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.max(1) as usize - 1).map(str::len).sum();
    let rest = &text[before.min(text.len())..];
    before + rest.char_indices().nth(column.max(1) as usize - 1).map_or(rest.len(), |(place, _)| place)
}

/// The byte range of the word, number, quoted text or sign that begins at byte `start`.
pub(super) fn token_at(text: &str, start: usize) -> Range<usize> {
    let rest = &text[start..];
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let length = match rest.chars().next() {
        None => 0,
        Some(letter) if is_word(letter) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
        Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map_or(rest.trim_end().len(), |end| end + 2),
        Some(_) => {
            let signs = ["==", "!=", "<=", ">=", "&&", "||", "<>"];
            let two = signs.iter().any(|sign| rest.starts_with(sign));
            if two { 2 } else { rest.chars().next().map_or(0, char::len_utf8) }
        }
    };
    start..start + length
}

fn plain(text: &str, fault: &ParseError) -> ExpressionError {
    let start = byte_at(text, fault.pos);
    let at = token_at(text, start);
    let word = &text[at.clone()];
    let said = fault.msg.strip_prefix("Syntax error: ").unwrap_or(&fault.msg);
    if said.starts_with("token recognition error") {
        return match word.chars().next() {
            Some('"' | '\'') => ExpressionError::new(at, "the text that begins here has no closing quote"),
            _ => hinted(ExpressionError::new(at, format!("`{word}` has no meaning here")), word),
        };
    }
    if let Some(missing) = said.strip_prefix("missing ").and_then(|rest| rest.split(" at ").next()) {
        return ExpressionError::new(at, format!("{} is missing here", missing.replace('\'', "`")));
    }
    if said.contains("Incomplete") || word.is_empty() {
        let end = text.trim_end().len();
        return ExpressionError::new(end..end, "the expression ends too early");
    }
    if said.starts_with("invalid ") && said.ends_with("literal") {
        return ExpressionError::new(at, format!("`{word}` is too large or malformed"));
    }
    let wants_end = said.ends_with("expecting <EOF>");
    let message = match wants_end {
        true => format!("`{word}` follows the end of the expression"),
        false => format!("`{word}` is not expected here"),
    };
    let is_unit = text[..at.start].ends_with(|before: char| before.is_ascii_digit())
        && word.starts_with(|first: char| first.is_ascii_alphabetic());
    let fault = ExpressionError::new(at, message);
    if is_unit {
        return fault.help("numbers have no unit: times are in seconds, and memory is in GiB");
    }
    hinted(fault, word)
}

/// Adds a hint for a word of another language: how CEL writes it.
fn hinted(fault: ExpressionError, word: &str) -> ExpressionError {
    let help = match word {
        "=" => "compare two values with `==`, `<=` or `>=`",
        "&" | "and" => "write `&&`",
        "|" | "or" => "write `||`",
        "not" => "write `!`",
        "if" | "then" | "else" => "write `condition ? one : other`",
        "<>" => "write `!=`",
        _ => return fault,
    };
    fault.help(help)
}
