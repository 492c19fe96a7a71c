//! Reads the fields of a map. Checks that every key is known and that every value has the right type, and reports all
//! faults.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use super::diagnostic::{Report, Span};
use super::tree::{Entry, Node, Tree};
use dryrack_units::{
    Bytes, GpuShare, MilliCpu, MilliWatts, Money, Permille, RequestRate, SimDuration, SimTime, UnitError,
};

/// A map whose keys have been checked.
pub struct Fields<'t> {
    pub span: Span,
    what: &'static str,
    entries: &'t [Entry],
    /// Known keys that the user probably meant when writing an unknown key. They are not also reported as missing.
    meant: Vec<String>,
}

/// A function that takes the kind of a map and an unknown key. It returns the intended key, and a text that says what
/// to write.
type Meant = fn(&str, &str) -> Option<(&'static str, &'static str)>;

impl<'t> Fields<'t> {
    /// Reads the fields of `tree`. `what` names the kind of map, such as `a node`. Keys that are not in `known` are
    /// reported and left out.
    pub fn read(tree: &'t Tree, what: &'static str, known: &[&str], report: &mut Report) -> Option<Fields<'t>> {
        Fields::read_with(tree, what, known, |_, _| None, report)
    }

    /// Like [`Fields::read`], for a map whose keys may be those of another system, which `elsewhere` translates.
    pub fn read_with(
        tree: &'t Tree,
        what: &'static str,
        known: &[&str],
        elsewhere: Meant,
        report: &mut Report,
    ) -> Option<Fields<'t>> {
        let Node::Map(entries) = &tree.node else {
            let message = format!("expected a map for {what}, found {}", tree.kind());
            let first = known.first().copied().unwrap_or("key");
            report.error_with_help(tree.span, message, format!("write `{{{first}: …}}`"));
            return None;
        };
        report.notify_listener(what, known);
        let mut meant = Vec::new();
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let message = format!("unknown key `{}` of {what}", entry.key);
            if let Some((key, help)) = elsewhere(what, &entry.key) {
                meant.push(key.to_string());
                report.error_with_help(entry.key_span, message, help);
                continue;
            }
            let nearest = dryrack_nearest::nearest(&entry.key, known.iter().copied());
            let home = if nearest.is_none() { report.home(what, &entry.key) } else { None };
            match home {
                Some(help) => report.error_with_help(entry.key_span, message, help),
                None => report.unknown(entry.key_span, message, &entry.key, known.iter().copied()),
            }
            meant.extend(nearest.map(str::to_string));
        }
        Some(Fields { span: tree.span, what, entries, meant })
    }

    pub fn get(&self, key: &str) -> Option<&'t Tree> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Whether the map has none of these keys, and no unknown key that was probably meant as one of them.
    pub fn lacks_all(&self, keys: &[&str]) -> bool {
        !keys.iter().any(|key| self.has(key) || self.meant.iter().any(|meant| meant == key))
    }

    /// The place of the key, or of the whole map if the key is absent.
    pub fn key_span(&self, key: &str) -> Span {
        self.entries.iter().find(|entry| entry.key == key).map_or(self.place(), |entry| entry.key_span)
    }

    /// The place for a fault of the whole map: its first key, or else its beginning.
    pub fn place(&self) -> Span {
        match self.entries.first() {
            Some(entry) if entry.key_span.source() == self.span.source() => entry.key_span,
            _ => self.span.start(),
        }
    }

    /// A required field. `example` is the value that a message suggests.
    pub fn require(&self, key: &str, example: &str, report: &mut Report) -> Option<&'t Tree> {
        let found = self.get(key);
        if self.lacks_all(&[key]) {
            report.error_with_help(
                self.place(),
                format!("{} lacks `{key}`", self.what),
                format!("add `{key}: {example}`"),
            );
        }
        found
    }

    pub fn text(&self, key: &str, expected: &str, report: &mut Report) -> Option<&'t str> {
        text(self.get(key)?, expected, report)
    }

    pub fn value<V: Value>(&self, key: &str, report: &mut Report) -> Option<V> {
        value(self.get(key)?, report)
    }

    pub fn word<W: Copy>(&self, key: &str, what: &str, words: &[(&'static str, W)], report: &mut Report) -> Option<W> {
        word(self.get(key)?, what, words, report)
    }

    /// A whole number of at least `least`.
    pub fn count(&self, key: &str, least: u32, report: &mut Report) -> Option<u32> {
        let tree = self.get(key)?;
        if let Node::Map(entries) = &tree.node {
            let message = format!("expected a whole number for `{key}` of {}, found a map", self.what);
            report.error_with_help(tree.span, message, beside(key, entries));
            return None;
        }
        let number: u32 = value(tree, report)?;
        if number < least {
            let message = format!("`{key}` of {} must be at least {least}", self.what);
            report.error_with_help(tree.span, message, format!("write {least} or more, or leave `{key}` out"));
            return None;
        }
        Some(number)
    }

    /// A whole number from 1 to `most`.
    pub fn count_up_to(&self, key: &str, most: u32, report: &mut Report) -> Option<u32> {
        let number = self.count(key, 1, report)?;
        if number > most {
            let message = format!("`{key}` of {} must be at most {most}", self.what);
            report.error_with_help(self.get(key)?.span, message, format!("write {most} or less"));
            return None;
        }
        Some(number)
    }

    /// Reports an error if the map has more than one of these keys.
    pub fn exclusive(&self, keys: &[&str], because: &str, report: &mut Report) {
        let given: Vec<&Entry> = self.entries.iter().filter(|entry| keys.contains(&entry.key.as_str())).collect();
        if let [first, second, ..] = given[..] {
            let message = format!("`{}` and `{}` cannot be given together: {because}", first.key, second.key);
            report.error_with_help(second.key_span, message, format!("keep one of {}", list(keys.iter().copied())));
        }
    }

    /// The values of a field that may hold one value or a list.
    pub fn items(&self, key: &str, expected: &str, report: &mut Report) -> Vec<(&'t str, Span)> {
        let Some(tree) = self.get(key) else { return Vec::new() };
        let trees = match &tree.node {
            Node::List(items) => items.as_slice(),
            _ => std::slice::from_ref(tree),
        };
        trees.iter().filter_map(|item| Some((text(item, expected, report)?, item.span))).collect()
    }

    /// The items of a field that holds a list of maps.
    pub fn list(&self, key: &str, report: &mut Report) -> &'t [Tree] {
        match self.get(key).map(|tree| (&tree.node, tree)) {
            Some((Node::List(items), _)) => items,
            Some((_, tree)) => {
                let message = format!("expected a list for `{key}`, found {}", tree.kind());
                let help = match tree.is_nothing() {
                    true => "write its entries below, each after `- `".to_string(),
                    false => "write each entry after `- `".to_string(),
                };
                let span = if tree.is_nothing() { self.key_span(key) } else { tree.span };
                report.error_with_help(span, message, help);
                &[]
            }
            None => &[],
        }
    }

    pub fn labels(&self, key: &str, report: &mut Report) -> BTreeMap<Arc<str>, Arc<str>> {
        let Some(tree) = self.get(key) else { return BTreeMap::new() };
        let Node::Map(entries) = &tree.node else {
            let message = format!("expected a map of labels, found {}", tree.kind());
            report.error_with_help(tree.span, message, "write `{zone: west}`");
            return BTreeMap::new();
        };
        let pair = |entry: &Entry, report: &mut Report| {
            Some((Arc::from(entry.key.as_str()), Arc::from(text(&entry.value, "a label's value", report)?)))
        };
        entries.iter().filter_map(|entry| pair(entry, report)).collect()
    }
}

/// The help text for `tasks: {count: 4, gpus: 1}`, where a plain number is expected.
fn beside(key: &str, entries: &[Entry]) -> String {
    let is_count = |entry: &&Entry| matches!(entry.key.as_str(), "count" | "number" | "n" | "size") || entry.key == key;
    let count = entries.iter().find(is_count).and_then(|entry| entry.value.scalar()).unwrap_or("4");
    let others: Vec<String> =
        entries.iter().filter(|entry| !is_count(entry)).map(|entry| format!("`{}`", entry.key)).collect();
    match others.is_empty() {
        true => format!("write `{key}: {count}`"),
        false => format!("write `{key}: {count}`, and {} next to it, not inside it", others.join(", ")),
    }
}

/// Formats names as `a`, `b` and `c`.
pub fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "nothing".to_string(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

pub fn text<'t>(tree: &'t Tree, expected: &str, report: &mut Report) -> Option<&'t str> {
    let found = tree.scalar();
    if found.is_none() {
        let help = match &tree.node {
            Node::List(items) if items.len() == 1 => "write the value without brackets and without `- ` before it",
            Node::List(_) => "write one of the values, without brackets and without `- ` before it",
            Node::Map(_) => "write a single value instead",
            Node::Scalar { .. } => "write the value after the colon",
        };
        report.error_with_help(tree.span, format!("expected {expected}, found {}", tree.kind()), help);
    }
    found
}

/// Reports the error in a quantity, with a suggestion of what to write instead.
pub fn report_unit(error: &UnitError, typed: &str, span: Span, report: &mut Report) {
    let (message, help) = error.parted();
    let help = match typed.to_ascii_lowercase().as_str() {
        "yes" | "on" if help.as_deref() == Some("write true or false") => Some("write `true`".to_string()),
        "no" | "off" if help.as_deref() == Some("write true or false") => Some("write `false`".to_string()),
        _ => help,
    };
    report.error_with_help(span, message, help.unwrap_or_else(|| "write another value".to_string()));
}

pub fn word<W: Copy>(tree: &Tree, what: &str, words: &[(&'static str, W)], report: &mut Report) -> Option<W> {
    let typed = text(tree, what, report)?;
    let found = words.iter().find(|(name, _)| *name == typed).map(|(_, meant)| *meant);
    if found.is_none() {
        report.unknown(tree.span, format!("`{typed}` is not {what}"), typed, words.iter().map(|(name, _)| *name));
    }
    found
}

/// A quantity that can be the value of a field.
pub trait Value: Sized {
    const EXPECTED: &'static str;
    /// Units to try after a bare number. The first unit that makes the text valid is suggested.
    const UNITS: &'static [&'static str] = &[];
    /// The largest valid value, which is suggested in place of a larger one.
    const LARGEST: &'static str = "";
    fn parse(text: &str) -> Result<Self, UnitError>;
}

macro_rules! quantities {
    ($($kind:ty: $expected:literal, $units:expr, $largest:literal;)*) => {
        $(impl Value for $kind {
            const EXPECTED: &'static str = $expected;
            const UNITS: &'static [&'static str] = &$units;
            const LARGEST: &'static str = $largest;
            fn parse(text: &str) -> Result<Self, UnitError> {
                <$kind>::from_str(text)
            }
        })*
    };
}

quantities! {
    SimTime: "a time such as 90s, 1h30m or 250ms", ["s"], "213503d (584 years)";
    SimDuration: "a duration such as 90s, 1h30m or 250ms", ["s"], "213503d (584 years)";
    Bytes: "an amount of memory such as 80GiB", ["GiB", "iB", "B"], "16777215TiB";
    MilliCpu: "a number of cores such as 2, 0.5 or 500m", [], "18446744073709551";
    GpuShare: "a part of a GPU such as 0.5 or 50%", [], "1 or 100%";
    Permille: "a percentage such as 92%", ["%"], "429496729%";
    Money: "a price such as 2.49", [], "18446744073709";
    MilliWatts: "a power such as 350W or 6.5kW", ["W"], "18446744073709551W";
    RequestRate: "a number of requests per second such as 10 or 0.5", [], "18446744073709551";
}

macro_rules! numbers {
    ($($kind:ty: $expected:literal, $largest:literal;)*) => {
        $(impl Value for $kind {
            const EXPECTED: &'static str = $expected;
            const LARGEST: &'static str = $largest;
            fn parse(text: &str) -> Result<Self, UnitError> {
                let own = || text.to_string();
                let digits = text.strip_prefix('-').unwrap_or(text);
                let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                match text.parse() {
                    Ok(number) if is_whole => Ok(number),
                    _ if !is_whole => Err(UnitError::Malformed { text: own(), expected: $expected }),
                    _ if text.starts_with('-') => Err(UnitError::Negative { text: own(), expected: $expected }),
                    _ => Err(UnitError::TooLarge { text: own() }),
                }
            }
        })*
    };
}

numbers! {
    u16: "a whole number", "65535";
    u32: "a whole number", "4294967295";
    u64: "a whole number", "18446744073709551615";
    i32: "a whole number", "2147483647";
}

impl Value for bool {
    const EXPECTED: &'static str = "true or false";
    fn parse(text: &str) -> Result<bool, UnitError> {
        text.parse().map_err(|_| UnitError::Malformed { text: text.to_string(), expected: Self::EXPECTED })
    }
}

pub fn value<V: Value>(tree: &Tree, report: &mut Report) -> Option<V> {
    let typed = text(tree, V::EXPECTED, report)?;
    match V::parse(typed) {
        Ok(value) => Some(value),
        Err(error) => {
            let is_number = typed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            // Suggest a unit of time only for a bare number, because in `1h30` the user may mean minutes.
            let units = V::UNITS.iter().filter(|unit| is_number || unit.ends_with('B'));
            let near = units.map(|unit| format!("{typed}{unit}")).find(|text| V::parse(text).is_ok());
            match (near, matches!(error, UnitError::TooLarge { .. })) {
                (_, true) => {
                    report.error_with_help(tree.span, error.to_string(), format!("write {} or less", V::LARGEST));
                }
                (Some(near), false) => {
                    report.error_with_help(tree.span, error.parted().0, format!("did you mean `{near}`?"));
                }
                (None, false) => report_unit(&error, typed, tree.span, report),
            }
            None
        }
    }
}

/// Reads a name that other parts of the file, the log and the command line can use.
pub fn name<'t>(tree: &'t Tree, report: &mut Report) -> Option<&'t str> {
    let typed = text(tree, "a name", report)?;
    if typed.is_empty() {
        report.error_with_help(tree.span, "the name is empty", "write a name such as `alpha`");
        return None;
    }
    let is_odd = |letter: char| letter.is_whitespace() || "/*?,[]{}\"'`".contains(letter);
    if typed.contains(is_odd) {
        let message = format!("`{typed}` cannot be a name");
        let help: String = typed.chars().map(|letter| if is_odd(letter) { '-' } else { letter }).collect();
        report.error_with_help(
            tree.span,
            message,
            format!("leave out spaces, slashes, quotes, brackets and wildcards: `{help}`"),
        );
        return None;
    }
    Some(typed)
}

/// Whether `name` matches `pattern`. `*` matches any number of characters, and `?` exactly one.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut in_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == name[in_name] => (at, in_name) = (at + 1, in_name + 1),
            // Backtrack: let the last star match one more character.
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, in_name) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        let rows = [
            ("*", "chat", true),
            ("", "", true),
            ("chat-*", "chat-0", true),
            ("chat-*", "chat", false),
            ("*-0", "chat-0-0", true),
            ("c?at", "chat", true),
            ("c?at", "cat", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXcYb", false),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
