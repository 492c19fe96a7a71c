//! Where the letters of a scalar are written in a file: YAML folds lines, indents them, and writes some letters as two or
//! more.

use std::ops::Range;

/// The bytes of `written` that mean this part of `text`. `written` is a scalar as it is in a file, from its quote or from
/// the indicator of its block, if it has one. `None` if it does not mean `text`.
///
/// White space is not compared, so a part that begins or ends with it becomes shorter. An empty part lies behind the last
/// letter before it.
pub(super) fn place_of(written: &str, text: &str, part: Range<usize>) -> Option<Range<usize>> {
    let letters = align(written, text)?;
    let behind = letters.iter().rev().find(|(at, _)| *at < part.start).map_or(0, |(_, there)| there.end);
    let mut inside = letters.iter().filter(|(at, _)| part.contains(at)).map(|(_, there)| there);
    let Some(first) = inside.next() else { return Some(behind..behind) };
    let last = inside.next_back().unwrap_or(first);
    Some(first.start..last.end)
}

/// For each letter of `text` that is not white space, its byte and the bytes of `written` that mean it.
fn align(written: &str, text: &str) -> Option<Vec<(usize, Range<usize>)>> {
    let style = written.chars().next()?;
    let mut next = match style {
        '|' | '>' => written.find('\n')? + 1,
        '\'' | '"' => 1,
        _ => 0,
    };
    let mut letters = Vec::new();
    for (at, letter) in text.char_indices().filter(|(_, letter)| !letter.is_whitespace()) {
        let (found, length) = loop {
            let (found, length) = decode(&written[next..], style)?;
            if !found.is_whitespace() {
                break (found, length);
            }
            next += length;
        };
        if found != letter {
            return None;
        }
        letters.push((at, next..next + length));
        next += length;
    }
    Some(letters)
}

/// The first letter that this means, and the number of its bytes. An escaped end of line counts as white space.
fn decode(rest: &str, style: char) -> Option<(char, usize)> {
    let first = rest.chars().next()?;
    match (style, first) {
        ('"', '\\') => {
            let escaped = rest[1..].chars().next()?;
            let digits = match escaped {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                '"' | '\\' | '/' => return Some((escaped, 2)),
                // White space, or a control character, which no scalar of ours has.
                _ => return Some((' ', 1 + escaped.len_utf8())),
            };
            let number = u32::from_str_radix(rest.get(2..2 + digits)?, 16).ok()?;
            Some((char::from_u32(number)?, 2 + digits))
        }
        ('\'', '\'') if rest[1..].starts_with('\'') => Some(('\'', 2)),
        _ => Some((first, first.len_utf8())),
    }
}

#[cfg(test)]
mod tests {
    use super::place_of;

    /// What is written for `part` of `text`.
    fn written_for<'w>(written: &'w str, text: &str, part: &str) -> Option<&'w str> {
        let at = text.find(part).unwrap();
        place_of(written, text, at..at + part.len()).map(|there| &written[there])
    }

    #[test]
    fn a_part_is_found_in_each_style() {
        for (written, text) in [
            ("a &&\n    b1 == 'c'", "a && b1 == 'c'"),
            ("'a && b1 == ''c'''", "a && b1 == 'c'"),
            ("\"a && b1 == \\\"c\\\"\"", "a && b1 == \"c\""),
            ("\"a \\\n   && \\u0062\\x31 == 'c'\"", "a && b1 == 'c'"),
            (">-  # a folded block\n   a &&\n   b1 == 'c'\n", "a && b1 == 'c'"),
            ("|\n   a &&\n     b1 == 'c'\n", "a &&\n  b1 == 'c'\n"),
        ] {
            let found = written_for(written, text, "b1").unwrap();
            assert!(["b1", "\\u0062\\x31"].contains(&found), "{written}: {found}");
            assert!(written_for(written, text, "c").is_some_and(|found| found == "c"), "{written}");
        }
        assert_eq!(written_for("'a == ''c'''", "a == 'c'", "'c'"), Some("''c''"));
    }

    #[test]
    fn what_is_missing_is_behind_the_last_letter() {
        let (written, text) = (">-\n  a ==\n  b &&\n", "a == b &&");
        assert_eq!(place_of(written, text, text.len()..text.len()), Some(16..16));
        assert_eq!(&written[..16], ">-\n  a ==\n  b &&");
        assert_eq!(place_of("'a'", "b", 0..1), None);
    }
}
