//! The arguments of backends, parsed as released schedulers parse them.

use std::sync::Arc;

use super::options::ArgumentReading;

/// The arguments of one deployment, parsed by one of the two rules.
pub struct Arguments<'a> {
    reading: ArgumentReading,
    elements: &'a [Arc<str>],
    /// Names without dashes. Each has its value, if one is stated.
    keyed: Vec<(String, Option<String>)>,
}

impl<'a> Arguments<'a> {
    /// Parses the arguments. Rejects a command line with an unclosed quote.
    pub fn read(reading: ArgumentReading, elements: &'a [Arc<str>]) -> Result<Arguments<'a>, Unclosed> {
        let keyed = match reading {
            ArgumentReading::AnyElement => Vec::new(),
            ArgumentReading::Keyed => pairs(elements)?,
        };
        Ok(Arguments { reading, elements, keyed })
    }

    /// The first value given for one of these names.
    pub fn value(&self, names: &[&str]) -> Option<&str> {
        match self.reading {
            ArgumentReading::AnyElement => value_after_any(self.elements, names),
            ArgumentReading::Keyed => {
                let named = self.keyed.iter().filter(|(name, _)| names.contains(&name.as_str()));
                named.filter_map(|(_, value)| value.as_deref()).next()
            }
        }
    }

    /// Whether a flag is on. The first occurrence of the flag decides. Only the words for "no" turn it off.
    pub fn flag(&self, name: &str) -> bool {
        let first = self.keyed.iter().find(|(known, _)| known == name);
        first.is_some_and(|(_, value)| {
            let value = value.as_deref().unwrap_or("true").to_lowercase();
            !["0", "false", "no", "off", "f", "n"].contains(&value.as_str())
        })
    }

    /// Whether the name occurs at all. This is for arguments that must not be stated.
    pub fn has(&self, name: &str) -> bool {
        self.elements.iter().any(|element| {
            let before = element.split_once('=').map_or(&**element, |(before, _)| before);
            before.trim_start_matches('-') == name
        })
    }
}

/// The error that a quote is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unclosed;

fn value_after_any<'a>(elements: &'a [Arc<str>], names: &[&str]) -> Option<&'a str> {
    for (at, element) in elements.iter().enumerate() {
        let (name, value) = match element.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&**element, elements.get(at + 1).map(|next| &**next)),
        };
        if let (true, Some(value)) = (names.contains(&name.trim_start_matches('-')), value) {
            return Some(value);
        }
    }
    None
}

fn is_key(token: &str) -> bool {
    token.starts_with('-') && token.len() > 1 && token != "--" && to_float(token).is_none()
}

fn pairs(elements: &[Arc<str>]) -> Result<Vec<(String, Option<String>)>, Unclosed> {
    let mut tokens: Vec<String> = Vec::new();
    for element in elements {
        let element = element.trim();
        match element.split_whitespace().next() {
            Some(first) if is_key(first) => tokens.extend(split(element)?),
            Some(_) => tokens.push(element.to_string()),
            None => {}
        }
    }
    let mut pairs = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        at += 1;
        if !is_key(token) {
            continue;
        }
        if let Some((name, value)) = token.split_once('=') {
            pairs.push((name.trim_start_matches('-').to_string(), Some(value.to_string())));
            continue;
        }
        let value = tokens.get(at).filter(|next| !is_key(next)).cloned();
        at += usize::from(value.is_some());
        pairs.push((token.trim_start_matches('-').to_string(), value));
    }
    Ok(pairs)
}

/// Splits a line into words like a shell. Quotes group characters and are removed, and a backslash makes the next
/// character literal. If the text after `=` begins like JSON, it is one piece up to the end of the JSON value.
fn split(line: &str) -> Result<Vec<String>, Unclosed> {
    let characters: Vec<char> = line.chars().collect();
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut at = 0;
    while at < characters.len() {
        let c = characters[at];
        let next = characters.get(at + 1).copied();
        match quote {
            Some(end) if c == end => quote = None,
            Some('"') if c == '\\' && matches!(next, Some('"' | '\\')) => {
                word.get_or_insert_default().extend(next);
                at += 1;
            }
            Some(_) => word.get_or_insert_default().push(c),
            None if c.is_whitespace() => words.extend(word.take()),
            None if c == '=' && matches!(next, Some('{' | '[')) => {
                let end = json_end(&characters, at + 1).unwrap_or(at + 1);
                word.get_or_insert_default().extend(&characters[at..end]);
                at = end - 1;
            }
            None if c == '\'' || c == '"' => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            None if c == '\\' => {
                word.get_or_insert_default().extend(next);
                at += 1;
            }
            None => word.get_or_insert_default().push(c),
        }
        at += 1;
    }
    words.extend(word);
    if quote.is_some() { Err(Unclosed) } else { Ok(words) }
}

/// The position after the bracket that closes the bracket at `begin`.
fn json_end(characters: &[char], begin: usize) -> Option<usize> {
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    for (at, c) in characters.iter().enumerate().skip(begin) {
        match (in_text, c) {
            (true, _) if escaped => escaped = false,
            (true, '\\') => escaped = true,
            (_, '"') => in_text = !in_text,
            (false, '{' | '[') => depth += 1,
            (false, '}' | ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Parses an integer like Python's `int`, which accepts a sign, blanks around the number and underscores between
/// digits. A number that is too large for the type becomes the largest value, which is enough for the comparisons here.
pub fn to_integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let mut value: i64 = 0;
    let mut before = None;
    for c in digits.chars() {
        match c {
            '0'..='9' => value = value.saturating_mul(10).saturating_add(i64::from(c as u8 - b'0')),
            '_' if before.is_some_and(|before: char| before.is_ascii_digit()) => {}
            _ => return None,
        }
        before = Some(c);
    }
    let is_whole = before.is_some_and(|last| last.is_ascii_digit());
    is_whole.then_some(if negative { -value } else { value })
}

/// Parses a floating-point number like Python's `float`, which also accepts blanks around the number, underscores
/// between digits, and words for infinity and NaN.
pub fn to_float(text: &str) -> Option<f64> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let misplaced =
        |(at, byte): (usize, &u8)| *byte == b'_' && !(is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)));
    if bytes.iter().enumerate().any(misplaced) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(elements: &[&str]) -> Vec<Arc<str>> {
        elements.iter().map(|element| Arc::from(*element)).collect()
    }

    /// Values that the released programs found (the source is given in `tests/data/gpustack`), and values from reading
    /// their `find_parameter`.
    #[test]
    fn each_reading_finds_its_value() {
        let names = ["tensor-parallel-size", "tp"];
        let rows: [(&[&str], Option<&str>, Option<&str>); 11] = [
            (&["--tensor-parallel-size=4"], Some("4"), Some("4")),
            (&["-tp", "4"], Some("4"), Some("4")),
            (&["--tp", "--pp"], Some("--pp"), None),
            (&["tp=2"], Some("2"), None),
            (&["tp", "2"], Some("2"), None),
            (&["--tp 2"], None, Some("2")),
            (&["--tp"], None, None),
            (&["--tp", "--tp=8"], Some("--tp=8"), Some("8")),
            (&["--tp="], Some(""), Some("")),
            (&["--x", "-1", "--tp='8'"], Some("'8'"), Some("8")),
            (&["--x={\"a\": \"b c\"} --tp=2"], None, Some("2")),
        ];
        for (elements, any, keyed) in rows {
            let elements = arguments(elements);
            let found = |reading| Arguments::read(reading, &elements).unwrap().value(&names).map(str::to_string);
            assert_eq!(found(ArgumentReading::AnyElement).as_deref(), any, "{elements:?}");
            assert_eq!(found(ArgumentReading::Keyed).as_deref(), keyed, "{elements:?}");
        }
    }

    /// Values that `shlex.split` of Python 3 finds, but for JSON, which GPUStack does not split.
    #[test]
    fn one_element_is_split_into_words_like_a_command_line() {
        let rows = [
            ("a backslash makes a blank literal", r"--x=a\ b", "a b"),
            ("a backslash makes a backslash literal", r"--x=a\\b", r"a\b"),
            ("a backslash makes a quote literal", r"--x=\'a", "'a"),
            ("between double quotes, a backslash makes a quote literal", r#"--x="a\"b""#, r#"a"b"#),
            ("between double quotes, a backslash makes a backslash literal", r#"--x="a\\b""#, r"a\b"),
            ("between double quotes, a backslash before a letter is kept", r#"--x="a\nb""#, r"a\nb"),
            ("between single quotes, a backslash is kept", r"--x='a\b'", r"a\b"),
            ("quotes of one kind are kept between the others", r#"--x='"' --tp=2"#, r#"""#),
            ("quotes may end within a word", r#"--x="a  b"c"#, "a  bc"),
            ("an empty word is a value", r#"--x """#, ""),
            ("JSON is one word", r#"--x={"a": "b c"} --tp=2"#, r#"{"a": "b c"}"#),
            ("brackets between quotes do not end JSON", r#"--x={"a": "} \"}"} --tp=2"#, r#"{"a": "} \"}"}"#),
            ("JSON may be nested", "--x=[1, [2, 3]] --tp=2", "[1, [2, 3]]"),
            ("JSON without its end is split", r#"--x={"a": 1 --tp=2"#, "{a:"),
        ];
        for (name, element, value) in rows {
            let elements = arguments(&[element]);
            let read = Arguments::read(ArgumentReading::Keyed, &elements).expect(name);
            assert_eq!(read.value(&["x"]), Some(value), "{name}");
            assert_eq!(read.value(&["tp"]), element.contains("--tp").then_some("2"), "{name}");
        }
        for unclosed in ["--x='a", r#"--x="a\""#, r#"--x="a'"#] {
            assert_eq!(Arguments::read(ArgumentReading::Keyed, &arguments(&[unclosed])).err(), Some(Unclosed));
        }
    }

    /// The results of Python's `int` and `float`.
    #[test]
    fn numbers_are_read_as_python_reads_them() {
        let integers = [
            ("4", Some(4)),
            (" +4 ", Some(4)),
            ("-2", Some(-2)),
            ("1_0", Some(10)),
            ("_1", None),
            ("1_", None),
            ("4.0", None),
            ("", None),
            ("-", None),
            ("99999999999999999999", Some(i64::MAX)),
        ];
        for (text, value) in integers {
            assert_eq!(to_integer(text), value, "{text:?}");
        }
        for (text, value) in [
            ("0.9", Some(0.9)),
            (" .5 ", Some(0.5)),
            ("1_0", Some(10.0)),
            ("1__0", None),
            ("abc", None),
            ("", None),
            ("inf", Some(f64::INFINITY)),
            ("1e3", Some(1000.0)),
        ] {
            assert_eq!(to_float(text), value, "{text:?}");
        }
    }
}
