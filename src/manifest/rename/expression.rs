//! The texts in CEL expressions, and their replacement.

use serde_json::Value;

use crate::read::Object;

/// What an expression does with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// Compares it with another, or looks it up, as a whole.
    Whole,
    /// Gives it to a function.
    Argument(String),
    /// Changes it: joins it to another, calls one of its functions, or writes a part of it as an escape.
    Changed,
}

/// A part of an expression.
#[derive(Clone, Copy, Debug)]
enum Part<'e> {
    Code(&'e str),
    /// A text without its quotes, and whether it has an escape.
    Text {
        text: &'e str,
        is_escaped: bool,
    },
    Comment,
    /// A text that does not end.
    Endless,
}

/// Macros and functions whose arguments are expressions, not texts to search for.
const MACROS: [&str; 14] = [
    "all",
    "bind",
    "exists",
    "existsOne",
    "exists_one",
    "filter",
    "has",
    "in",
    "map",
    "optFlatMap",
    "optMap",
    "or",
    "orValue",
    "transformList",
];

/// Calls the function with each expression of an object.
pub fn each(object: &Object, found: &mut dyn FnMut(&str)) {
    object.value.values().for_each(|value| each_in(value, found));
}

fn each_in(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| each_in(item, found)),
        Value::Object(map) => map.iter().for_each(|(key, value)| match value {
            Value::String(text) if key == "expression" => found(text),
            _ => each_in(value, found),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces the quoted texts of the expressions of an object, and leaves out comments.
pub fn rename(object: &mut Object, new: &dyn Fn(&str) -> Option<String>) {
    object.value.iter_mut().for_each(|(_, value)| expressions(value, new));
}

fn expressions(value: &mut Value, new: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| expressions(item, new)),
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == "expression" => *text = replaced(text, new),
                    _ => expressions(value, new),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replaced(expression: &str, new: &dyn Fn(&str) -> Option<String>) -> String {
    let uses = texts(expression);
    let mut uses = uses.iter();
    let part = |part: Part<'_>| match part {
        Part::Code(code) => code.to_string(),
        Part::Comment => " ".to_string(),
        Part::Endless => String::new(),
        Part::Text { text, .. } => {
            let is_whole = uses.next().is_some_and(|(_, used)| *used == Use::Whole);
            new(text).filter(|_| is_whole).unwrap_or_else(|| text.to_string())
        }
    };
    parts(expression).into_iter().map(part).collect()
}

/// The code of an expression, its texts and its comments, in order.
fn parts(expression: &str) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    let mut rest = expression;
    let mut code = 0;
    while let Some(start) = rest[code..].find(['"', '\'', '/']).map(|start| code + start) {
        let from = &rest[start..];
        if let Some(comment) = from.strip_prefix("//") {
            found.extend([Part::Code(&rest[..start]), Part::Comment]);
            (rest, code) = (comment.find('\n').map_or("", |end| &comment[end..]), 0);
            continue;
        }
        if from.starts_with('/') {
            code = start + 1;
            continue;
        }
        let thrice = ["\"\"\"", "'''"].into_iter().find(|quote| from.starts_with(quote));
        let quote = thrice.unwrap_or(&from[..1]);
        found.push(Part::Code(&rest[..start + quote.len()]));
        let inner = &from[quote.len()..];
        let is_raw = rest[..start].ends_with(['r', 'R']);
        let Some(end) = end_of(inner, quote, is_raw) else {
            found.push(Part::Endless);
            return found;
        };
        let text = &inner[..end];
        found.push(Part::Text { text, is_escaped: !is_raw && text.contains('\\') });
        (rest, code) = (&inner[end..], quote.len());
    }
    found.push(Part::Code(rest));
    found
}

/// Where a text ends.
fn end_of(inner: &str, quote: &str, is_raw: bool) -> Option<usize> {
    let mut is_after_escape = false;
    for (place, letter) in inner.char_indices() {
        if is_after_escape {
            is_after_escape = false;
        } else if letter == '\\' && !is_raw {
            is_after_escape = true;
        } else if inner[place..].starts_with(quote) {
            return Some(place);
        }
    }
    None
}

/// The texts of an expression, in order, and what it does with each.
pub fn texts(expression: &str) -> Vec<(&str, Use)> {
    let parts = parts(expression);
    // The functions in whose arguments the place is. The last one is empty in a comparison or an index.
    let mut functions: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Code(code) => brackets(code, &mut functions),
            Part::Comment => {}
            Part::Endless => found.push(("", Use::Changed)),
            Part::Text { text, is_escaped } => {
                let mut after = parts[index + 1..].iter().filter_map(|part| match part {
                    Part::Code(code) => Some(code.trim_start_matches(['"', '\'']).trim_start()),
                    _ => None,
                });
                let mut before = parts[..index].iter().rev().filter_map(|part| match part {
                    Part::Code(code) => Some(code.trim_end_matches(['"', '\'', 'r', 'R', 'b', 'B']).trim_end()),
                    _ => None,
                });
                let next = after.find(|code| !code.is_empty()).unwrap_or_default();
                let last = before.find(|code| !code.is_empty()).unwrap_or_default();
                let is_changed = *is_escaped || last.ends_with('+') || next.starts_with(['+', '.']);
                let used = match functions.last() {
                    _ if is_changed => Use::Changed,
                    Some(function) if !function.is_empty() => Use::Argument(function.clone()),
                    _ => Use::Whole,
                };
                found.push((*text, used));
            }
        }
    }
    found
}

/// Follows the brackets of a piece of code.
fn brackets(code: &str, functions: &mut Vec<String>) {
    for (place, letter) in code.char_indices() {
        let before = code[..place].trim_end();
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let word = &before[before.trim_end_matches(is_word).len()..];
        let around = functions.last().cloned().unwrap_or_default();
        match letter {
            '(' if MACROS.contains(&word) => functions.push(String::new()),
            '(' if !word.is_empty() => functions.push(word.to_string()),
            '[' if (!word.is_empty() && word != "in") || before.ends_with([')', ']']) => functions.push(String::new()),
            '(' | '[' | '{' => functions.push(around),
            ')' | ']' | '}' => drop(functions.pop()),
            _ => {}
        }
    }
}
