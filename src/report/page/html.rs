//! The frame of a page: the parts that every report has, and the escaping of text.

use dryrack_units::grouped;

/// The style sheet and the script are embedded in the page, so it needs no other file.
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Escapes arbitrary text for HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters are not allowed in a document, even if they are escaped.
            letter if letter.is_control() && letter != '\n' && letter != '\t' => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Escapes a sentence. What stands between two backticks is shown as code.
pub fn prose(text: &str) -> String {
    let escaped = escape(text);
    let parts: Vec<&str> = escaped.split('`').collect();
    // Without its partner, a backtick is only a letter.
    if parts.len().is_multiple_of(2) {
        return escaped;
    }
    let part = |(at, part): (usize, &&str)| match at % 2 {
        0 => (*part).to_string(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}

/// Escapes a command. A browser may not break a line within a flag, such as between the hyphens of `--set`.
pub fn command(text: &str) -> String {
    let word = |word: &str| match word.starts_with('-') {
        true => format!("<span class=\"flag\">{}</span>", escape(word)),
        false => escape(word),
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Makes the answer of a page red. Only pages with a bad answer have it.
const BAD: &str = "\
.answer { color: #b42318; border-left: 6px solid #b42318; padding-left: 12px; font-weight: 600; }
@media screen and (prefers-color-scheme: dark) { .answer { color: #ff8a80; border-color: #ff8a80; } }
";

/// A complete page. `body` is markup; everything else is text. The answer is red if it is bad.
pub fn page(title: &str, (answer, is_bad): (&str, bool), body: &str) -> String {
    let (title, answer) = (escape(title), prose(answer));
    let bad = if is_bad { BAD } else { "" };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{bad}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n\
         <p class=\"answer\">{answer}</p>\n</header>\n{body}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// A count with its noun and separators of thousands, such as `51,959 jobs`.
pub fn many(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(&count.to_string()), if count == 1 { "" } else { "s" })
}

/// A section with a heading; empty if the body is empty.
pub fn section(heading: &str, body: &str) -> String {
    match body.is_empty() {
        true => String::new(),
        false => format!("<section>\n<h2>{}</h2>\n{body}</section>\n", escape(heading)),
    }
}

/// A longer text does not count as a number, unless it has nothing but numbers, such as an interval.
const NUMBER: usize = 16;

/// Whether a cell is a number with its unit, an interval, or empty.
fn is_number(cell: &str) -> bool {
    let first = cell.strip_prefix(['-', '<']).unwrap_or(cell);
    let is_plain =
        |text: &str| text.replace("to", "").chars().all(|letter| " \u{a0}0123456789.,%±<()-".contains(letter));
    cell.is_empty()
        || (first.starts_with(|first: char| first.is_ascii_digit())
            && (cell.chars().count() <= NUMBER || is_plain(cell)))
}

/// A table with a header. Columns of numbers are right-aligned. A table that is too wide gets its own scroll bar.
pub fn table(caption: &str, header: &[&str], rows: &[Vec<String>]) -> String {
    marked_table(caption, header, rows, |_| "")
}

/// A table in which rows can have a class: `best` or `bad`.
pub fn marked_table(
    caption: &str,
    header: &[&str],
    rows: &[Vec<String>],
    mark: impl Fn(usize) -> &'static str,
) -> String {
    let holds_numbers = |column: usize| !rows.is_empty() && rows.iter().all(|row| is_number(&row[column]));
    let class = |column: usize| if holds_numbers(column) { " class=\"number\"" } else { "" };
    let head: String =
        header.iter().enumerate().map(|(at, cell)| format!("<th{}>{}</th>", class(at), escape(cell))).collect();
    // On narrow screens the rows are stacked, and each cell shows its column's header before its value.
    let before = |column: usize| format!("{} data-h=\"{}\"", class(column), escape(header[column]));
    let classes: Vec<String> = (0..header.len()).map(before).collect();
    let mut text = format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>\n<caption>{0}</caption>\n\
         <thead><tr>{head}</tr></thead>\n<tbody>\n",
        escape(caption)
    );
    for (at, row) in rows.iter().enumerate() {
        let cells: String =
            row.iter().zip(&classes).map(|(cell, class)| format!("<td{class}>{}</td>", escape(cell))).collect();
        let class = match mark(at) {
            "" => String::new(),
            class => format!(" class=\"{class}\""),
        };
        text.push_str(&format!("<tr{class}>{cells}</tr>\n"));
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// A list of names and values.
pub fn facts(rows: &[(&str, String)]) -> String {
    let rows: String =
        rows.iter().map(|(name, fact)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), command(fact))).collect();
    format!("<dl>\n{rows}</dl>\n")
}

pub fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", prose(item))).collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_writes_is_no_markup() {
        let nasty = "</title><script>alert('x')</script> & \"so\" \u{7}";
        let page = page(
            nasty,
            (nasty, true),
            &(section(nasty, &list(&[nasty.into()])) + &table(nasty, &[nasty], &[vec![nasty.into()]])),
        );
        assert_eq!(page.matches("<script>").count(), 1, "our own alone");
        assert!(!page.contains("alert('") && page.contains("&lt;/title&gt;") && !page.contains('\u{7}'));
    }
    #[test]
    fn only_text_between_two_backticks_is_code() {
        assert_eq!(prose("Of `a<b` and c"), "Of <code>a&lt;b</code> and c");
        assert_eq!(prose("Of `a and b"), "Of `a and b");
    }

    #[test]
    fn intervals_and_negative_numbers_are_numbers() {
        for cell in ["", "12m", "-27%", "39,969.84 ± 122.78", "<0.1 (0.0 to 1,432.9)", "2 GPUs"] {
            assert!(is_number(cell), "{cell}");
        }
        for cell in ["--set a=1", "51959 happened, at 0s", "no: placed >= 99%", "-"] {
            assert!(!is_number(cell), "{cell}");
        }
    }

    #[test]
    fn a_flag_is_not_broken() {
        assert_eq!(command("run --set 'a<b'"), "run <span class=\"flag\">--set</span> &#39;a&lt;b&#39;");
    }
}
