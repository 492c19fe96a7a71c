//! Checks the tree of an object against its fields, and keeps the data that matters to a rehearsal.
//!
//! All faults are reported, each with its place. `null` is an absent value, as in the API.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use dryrack_kubernetes::object::{Quantity, Seconds};
use dryrack_nearest::nearest;
use dryrack_units::SimDuration;
use dryrack_yaml::{Entry, Node, Report, Span, Tree};

use crate::fields::{ANNOTATIONS, META_QUIET, QUIET_ANNOTATIONS, UNFOLLOWED_ANNOTATIONS, UNFOLLOWED_LABELS};
use crate::shape::{Fields, Shape};
use crate::unused::Unused;

/// The beginning of the year 2500 (GNU `date -u -d 2500-01-01 +%s`).
const YEAR_2500: Seconds = Seconds(16_725_225_600);

/// Who wrote an object, and so what of it is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writer {
    /// It is a manifest, which an API server would check.
    #[default]
    Person,
    /// It is made of dryrack's own words, which no API server reads.
    Words,
    /// It was read before, with all faults reported.
    Again,
}

/// The data of `tree` that matters, for an object of this kind.
pub fn clean(
    tree: &Tree,
    kind: &'static str,
    fields: &'static Fields,
    writer: Writer,
    report: &mut Report,
    unused: &mut Unused,
) -> Option<Map<String, Value>> {
    let (path, seen) = (Vec::new(), BTreeSet::new());
    let mut cleaner = Cleaner { report, unused, kind, path, is_kept: true, writer, seen };
    match cleaner.fields(tree, fields) {
        Some(Value::Object(map)) => Some(map),
        _ => None,
    }
}

/// The variable of a device selector, with its fields.
const DEVICE: [(&str, &[&str]); 1] = [("device", &["allowMultipleAllocations", "attributes", "capacity", "driver"])];

struct Cleaner<'r, 't> {
    report: &'r mut Report,
    unused: &'r mut Unused,
    kind: &'static str,
    path: Vec<&'t str>,
    /// Whether the fields of the current part are kept. In a part that is not kept, only ignored fields are counted.
    is_kept: bool,
    writer: Writer,
    /// The paths that were counted for this object, so that each counts once for an object.
    seen: BTreeSet<String>,
}

/// How the API reads a scalar without quotes.
#[derive(PartialEq, Eq)]
enum Plain {
    Text,
    Number,
    Bool,
}

fn plain(text: &str) -> Plain {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.contains(|letter: char| letter.is_ascii_digit())
        && (digits.parse::<f64>().is_ok() || whole_number(digits).is_some());
    match text {
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" | "yes" | "Yes" | "YES" | "no" | "No" | "NO" | "on"
        | "On" | "ON" | "off" | "Off" | "OFF" => Plain::Bool,
        _ if is_number => Plain::Number,
        _ => Plain::Text,
    }
}

/// A whole number as `kubectl` reads it, by the rules of YAML 1.1: `0x1f`, `0b11`, `0644` in base 8, and `8_080`.
fn whole_number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.replace('_', "");
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let bases = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
    let in_base = bases.iter().find_map(|(prefix, base)| {
        let digits = digits.strip_prefix(prefix).filter(|digits| digits.starts_with(|first: char| first != '-'))?;
        i64::from_str_radix(&format!("{sign}{digits}"), *base).ok()
    });
    in_base.or_else(|| format!("{sign}{digits}").parse().ok())
}

impl<'t> Cleaner<'_, 't> {
    fn value(&mut self, tree: &'t Tree, shape: &'static Shape) -> Option<Value> {
        match shape {
            Shape::Text
            | Shape::Name(_)
            | Shape::OwnName
            | Shape::NameOfKind(_)
            | Shape::LabelValue(_)
            | Shape::Parts
            | Shape::Qualified
            | Shape::GroupVersion => self.text(tree).map(Value::from),
            Shape::Expression => self.expression(tree),
            Shape::Word(words) => self.word(tree, words),
            Shape::Whole { least, most } => self.whole(tree, *least, *most),
            Shape::Bool => self.bool(tree),
            Shape::Quantity => self.quantity(tree),
            Shape::Time => self.time(tree),
            Shape::CountOrPercent => self.count_or_percent(tree),
            Shape::List(item) => self.list(tree, item),
            Shape::Map(_, value) => self.map(tree, value),
            Shape::Labels => self.labels(tree),
            Shape::Annotations => self.annotations(tree),
            Shape::Fields(fields) => self.fields(tree, fields),
            Shape::Examined(inner) => {
                let was_kept = std::mem::replace(&mut self.is_kept, false);
                self.value(tree, inner);
                self.is_kept = was_kept;
                None
            }
        }
    }

    fn expected(&mut self, tree: &Tree, expected: &str, help: impl Into<String>) {
        let found = match (&tree.node, tree.scalar()) {
            (_, Some(text)) => format!("`{text}`"),
            _ => tree.kind().to_string(),
        };
        let named = self.path.last().map_or_else(String::new, |name| format!(" as `{name}`"));
        self.report.error_with_help(tree.span, format!("expected {expected}{named}, found {found}"), help);
    }

    fn text(&mut self, tree: &Tree) -> Option<String> {
        let Node::Scalar { text, quoted } = &tree.node else {
            self.expected(tree, "a text", "write a single value");
            return None;
        };
        let read_as = match plain(text) {
            _ if *quoted => return Some(text.clone()),
            Plain::Text => return Some(text.clone()),
            Plain::Number => "a number",
            Plain::Bool => "true or false",
        };
        let message = format!("expected a text, found `{text}`, which YAML reads as {read_as}");
        self.report.error_with_help(tree.span, message, format!("put it into quotes: \"{text}\""));
        None
    }

    /// An expression of CEL, which the API server compiles.
    fn expression(&mut self, tree: &Tree) -> Option<Value> {
        let text = self.text(tree)?;
        if self.writer == Writer::Person
            && let Err(fault) = dryrack_expression::check_standard(&text, &DEVICE)
        {
            let place = self.report.part_of(tree.span, &text, fault.at);
            let help = fault.help.unwrap_or_else(|| "write an expression such as `device.driver == \"a\"`".to_string());
            self.report.error_with_help(place, format!("invalid CEL expression: {}", fault.message), help);
        }
        Some(Value::from(text))
    }

    fn word(&mut self, tree: &Tree, words: &'static [&'static str]) -> Option<Value> {
        // The words `True` and `False` of a condition are texts, which a person may forget to quote.
        let typed = match &tree.node {
            Node::Scalar { text, .. } => text.clone(),
            Node::List(_) | Node::Map(_) => self.text(tree)?,
        };
        if words.contains(&typed.as_str()) {
            return Some(Value::from(typed));
        }
        let name = self.path.last().copied().unwrap_or("value");
        let known = words.iter().copied().filter(|word| !word.is_empty());
        self.report.unknown(tree.span, format!("`{typed}` is not known as `{name}`"), &typed, known);
        None
    }

    fn whole(&mut self, tree: &Tree, least: i64, most: i64) -> Option<Value> {
        let (text, quoted) = match &tree.node {
            Node::Scalar { text, quoted } => (text.as_str(), *quoted),
            Node::List(_) | Node::Map(_) => ("", false),
        };
        let found = if quoted { text.parse().ok() } else { whole_number(text) };
        match found {
            Some(number) if quoted => {
                let message = format!("expected a whole number, found the text \"{text}\"");
                self.report.error_with_help(tree.span, message, format!("write {number} without quotes"));
                None
            }
            Some(number) if (least..=most).contains(&number) => Some(Value::from(number)),
            Some(_) => {
                self.expected(tree, &format!("a whole number from {least} to {most}"), "write another number");
                None
            }
            None => {
                self.expected(tree, "a whole number", "write a number such as 1");
                None
            }
        }
    }

    fn bool(&mut self, tree: &Tree) -> Option<Value> {
        let text = match &tree.node {
            Node::Scalar { text, quoted: false } => text.to_ascii_lowercase(),
            _ => String::new(),
        };
        match text.as_str() {
            "true" | "yes" | "on" => Some(Value::Bool(true)),
            "false" | "no" | "off" => Some(Value::Bool(false)),
            _ => {
                self.expected(tree, "true or false", "write true or false, without quotes");
                None
            }
        }
    }

    fn quantity(&mut self, tree: &Tree) -> Option<Value> {
        match tree.scalar().map(|text| (text, text.parse::<Quantity>())) {
            Some((_, Ok(amount))) if amount < Quantity::default() => {
                self.expected(tree, "a quantity from 0", "write a number without a minus sign");
                None
            }
            Some((text, Ok(_))) => Some(Value::from(text)),
            _ => {
                let help = "write a number with an optional suffix, such as 500m, 4 or 16Gi";
                self.expected(tree, "a quantity", help);
                None
            }
        }
    }

    fn time(&mut self, tree: &Tree) -> Option<Value> {
        match tree.scalar().map(|text| (text, Seconds::parse(text))) {
            // A later one is a mistake in writing. The run would begin at it, and all pods would be old.
            Some((_, Ok(at))) if at >= YEAR_2500 => {
                self.expected(tree, "a time before the year 2500", "write a time such as 2026-01-01T14:56:53Z");
                None
            }
            Some((text, Ok(_))) => Some(Value::from(text)),
            _ => {
                self.expected(tree, "a time", "write a time such as 2026-01-01T14:56:53Z");
                None
            }
        }
    }

    fn count_or_percent(&mut self, tree: &Tree) -> Option<Value> {
        let text = tree.scalar().unwrap_or_default();
        let number: Option<u32> = text.strip_suffix('%').unwrap_or(text).parse().ok();
        match (number, text.ends_with('%')) {
            (Some(number), false) if i32::try_from(number).is_ok() => Some(Value::from(number)),
            (Some(_), true) => Some(Value::from(text)),
            _ => {
                self.expected(tree, "a number of pods or a percentage", "write a value such as 1 or 50%");
                None
            }
        }
    }

    fn list(&mut self, tree: &'t Tree, item: &'static Shape) -> Option<Value> {
        let Node::List(items) = &tree.node else {
            self.expected(tree, "a list", "write each entry behind `- `");
            return None;
        };
        let mut values = Vec::with_capacity(items.len());
        for each in items {
            if each.is_nothing() {
                self.expected(each, "a value", "remove the empty entry");
                continue;
            }
            values.extend(self.value(each, item));
        }
        Some(Value::Array(values))
    }

    fn entries(&mut self, tree: &'t Tree, expected: &str) -> Option<&'t [Entry]> {
        match &tree.node {
            Node::Map(entries) => Some(entries),
            Node::Scalar { .. } | Node::List(_) => {
                self.expected(tree, expected, "write `key: value` below it");
                None
            }
        }
    }

    fn map(&mut self, tree: &'t Tree, value: &'static Shape) -> Option<Value> {
        let mut map = Map::new();
        for entry in self.entries(tree, "a map")? {
            self.path.push(&entry.key);
            if !entry.value.is_nothing() {
                map.extend(self.value(&entry.value, value).map(|value| (entry.key.clone(), value)));
            }
            self.path.pop();
        }
        Some(Value::Object(map))
    }

    fn labels(&mut self, tree: &'t Tree) -> Option<Value> {
        let mut map = Map::new();
        for entry in self.entries(tree, "labels as a map")? {
            // The API reads `null` as an empty text here.
            let is_own = self.path.ends_with(&["metadata", "labels"]) && self.writer != Writer::Again;
            if is_own && UNFOLLOWED_LABELS.contains(&entry.key.as_str()) {
                self.unfollowed(&entry.key);
            }
            let value = if entry.value.is_nothing() { Some(String::new()) } else { self.text(&entry.value) };
            map.extend(value.map(|value| (entry.key.clone(), Value::from(value))));
        }
        Some(Value::Object(map))
    }

    fn annotations(&mut self, tree: &'t Tree) -> Option<Value> {
        let mut map = Map::new();
        for entry in self.entries(tree, "annotations as a map")? {
            let key = entry.key.as_str();
            if ANNOTATIONS.contains(&key) {
                let Some(value) = self.text(&entry.value) else { continue };
                if key == "dryrack/rendezvous" && !matches!(value.as_str(), "true" | "false") {
                    self.expected(&entry.value, &format!("true or false for `{key}`"), "write \"true\"");
                    continue;
                }
                let is_flag = matches!(key, "dryrack/patch" | "dryrack/rendezvous");
                if key.starts_with("dryrack/") && !is_flag && value.parse::<SimDuration>().is_err() {
                    self.expected(&entry.value, &format!("a duration for `{key}`"), "write a duration such as 30m");
                    continue;
                }
                map.insert(entry.key.clone(), Value::from(value));
            } else if key.starts_with("dryrack/") {
                let message = format!("unknown annotation `{key}`");
                let own = ANNOTATIONS.iter().copied().filter(|known| known.starts_with("dryrack/"));
                self.report.unknown(entry.key_span, message, key, own);
            } else if !QUIET_ANNOTATIONS.contains(&key) {
                // No profile reads it. A scheduler in another process may.
                match (self.writer, UNFOLLOWED_ANNOTATIONS.contains(&key)) {
                    (Writer::Again, _) => {}
                    (Writer::Person | Writer::Words, true) => {
                        self.unfollowed(key);
                    }
                    (Writer::Person | Writer::Words, false) => self.count(""),
                }
                map.extend(self.text(&entry.value).map(|value| (entry.key.clone(), Value::from(value))));
            }
        }
        Some(Value::Object(map))
    }

    fn fields(&mut self, tree: &'t Tree, fields: &'static Fields) -> Option<Value> {
        let entries = self.entries(tree, fields.what)?;
        let mut map = Map::new();
        let mut meant = Vec::new();
        for entry in entries.iter().filter(|entry| !entry.value.is_nothing()) {
            let key = entry.key.as_str();
            if let Some(shape) = fields.shape_of(key) {
                self.path.push(key);
                map.extend(self.value(&entry.value, shape).map(|value| (entry.key.clone(), value)));
                self.path.pop();
            } else if fields.is_unfollowed(key) {
                self.unfollowed(key);
            } else if fields.is_unused(key) || fields.is_open {
                let is_quiet = META_QUIET.contains(&key) || key == "finalizers";
                match (is_quiet, fields.is_open) {
                    (true, _) => {}
                    // Such as `status.*`: fields of the status that are not listed here.
                    (false, true) => self.count("*"),
                    (false, false) => self.count(key),
                }
            } else if !(self.path.is_empty() && matches!(key, "apiVersion" | "kind")) {
                meant.extend(self.unknown(entry.key_span, key, fields));
            }
        }
        for name in fields.required {
            let is_given = entries.iter().any(|entry| entry.key == *name && !entry.value.is_nothing());
            if !is_given && !meant.contains(name) && self.writer != Writer::Again {
                let span = entries.first().map_or(tree.span.start(), |entry| entry.key_span);
                let message = format!("{} lacks `{name}`", fields.what);
                self.report.error_with_help(span, message, format!("add `{name}:`"));
            }
        }
        if let (Some(rule), Writer::Person) = (fields.rule, self.writer) {
            rule(tree, self.report);
        }
        Some(Value::Object(map))
    }

    /// Reports a field that the API does not know. Returns the field that was probably meant.
    fn unknown(&mut self, span: Span, key: &str, fields: &'static Fields) -> Option<&'static str> {
        let message = format!("unknown field `{key}` of {}", fields.what);
        let near = nearest(key, fields.names());
        match near {
            Some(near) => self.report.error_with_help(span, message, format!("did you mean `{near}`?")),
            // A later release of the API may know it.
            None => {
                if self.unfollowed(key) {
                    let help = dryrack_nearest::hint(key, fields.names()).unwrap_or_else(|| "remove it".to_string());
                    self.report.warning(span, message, help);
                }
            }
        }
        near
    }

    fn path_to(&self, key: &str) -> String {
        let parts = self.path.iter().copied().chain((!key.is_empty()).then_some(key));
        parts.collect::<Vec<_>>().join(".")
    }

    /// Counts a field that is not followed. Returns whether it is the first one of this kind.
    fn unfollowed(&mut self, key: &str) -> bool {
        let path = self.path_to(key);
        self.seen.insert(path.clone()) && self.unused.unfollowed(self.kind, &path)
    }

    fn count(&mut self, key: &str) {
        if !self.is_kept {
            return;
        }
        let path = self.path_to(key);
        if self.seen.insert(path.clone()) {
            self.unused.field(self.kind, &path);
        }
    }
}
