//! Converts a tree back to YAML text. The log of a run needs this if its file was overridden.

use super::tree::{Node, Tree};

/// Text that parses to the same data. The outer two levels have one line for each key or item. Deeper levels are on one
/// line.
pub fn emit(tree: &Tree) -> String {
    let mut out = String::new();
    match &tree.node {
        Node::Map(entries) if !entries.is_empty() => {
            for entry in entries {
                out.push_str(&scalar(&entry.key, true));
                out.push(':');
                match &entry.value.node {
                    Node::List(items) if !items.is_empty() => {
                        out.push('\n');
                        for item in items {
                            out.push_str("  - ");
                            flow(item, &mut out);
                            out.push('\n');
                        }
                    }
                    _ => {
                        out.push(' ');
                        flow(&entry.value, &mut out);
                        out.push('\n');
                    }
                }
            }
        }
        _ => {
            flow(tree, &mut out);
            out.push('\n');
        }
    }
    out
}

/// Text on one line that parses to the same data, such as `{block: 1d}`.
pub fn emit_line(tree: &Tree) -> String {
    let mut out = String::new();
    flow(tree, &mut out);
    out
}

fn flow(tree: &Tree, out: &mut String) {
    match &tree.node {
        _ if tree.is_nothing() => out.push_str("null"),
        Node::Scalar { text, quoted } => out.push_str(&scalar(text, !quoted)),
        Node::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                flow(item, out);
            }
            out.push(']');
        }
        Node::Map(entries) => {
            out.push('{');
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(&scalar(&entry.key, true));
                out.push_str(": ");
                flow(&entry.value, out);
            }
            out.push('}');
        }
    }
}

/// A scalar as YAML. It is unquoted if every YAML reader accepts that, and otherwise in double quotes.
pub fn scalar(text: &str, may_be_plain: bool) -> String {
    let inner = |letter: char| letter.is_alphanumeric() || "_-./ %*+()".contains(letter);
    let is_plain = text.starts_with(|letter: char| letter.is_alphanumeric())
        && !text.ends_with(' ')
        && text.chars().all(inner)
        && text != "null";
    match may_be_plain && is_plain {
        true => text.to_string(),
        false => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Escape characters that a reader might treat as a line break or refuse.
            other if other.is_control() || matches!(other, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                out.push_str(&format!("\\U{:08X}", u32::from(other)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::super::diagnostic::Report;
    use super::super::parse::parse;
    use super::*;

    fn tree(text: &str) -> Tree {
        let mut report = Report::default();
        let source = report.add_source("test", text);
        let tree = parse(text, source, &mut report);
        tree.unwrap_or_else(|| panic!("{text}\n{}", report.finish()))
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_data() {
        let texts = [
            "a: 1\nb: [x, {c: d}]\nlist:\n  - {p: 'a: b', q: \"\\n\\t\\\"\"}\n  - plain text, with comma\n",
            "a:\nb: ~\nc: \"\"\nd: 'null'\ne: {}\nf: []\n",
            "expect:\n  - {is: \">= 2\", job: \"*\"}\n  - text: |\n      two\n      lines\n",
            "- a\n- - b\n  - c\n",
            "just text",
            "? 'a key: odd'\n: \"\\u0085 \\u2028 \\ufeff ende\"\n",
            "x: 'trailing '\ny: ' leading'\nz: -dash\nw: \"#no comment\"\nv: a #b\n",
        ];
        for text in texts {
            let first = tree(text);
            let emitted = emit(&first);
            assert!(first.is_alike(&tree(&emitted)), "{text}\n=>\n{emitted}");
        }
    }
}
