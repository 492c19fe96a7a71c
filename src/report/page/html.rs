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

/// Makes the answer of a page red. Only pages with a bad answer have it.
const BAD: &str = "\
.answer { color: #b42318; border-left: 6px solid #b42318; padding-left: 12px; font-weight: 600; }
@media screen and (prefers-color-scheme: dark) { .answer { color: #ff8a80; border-color: #ff8a80; } }
";

/// A complete page. `body` is markup; everything else is text. The answer is red if it is bad.
pub fn page(title: &str, (answer, is_bad): (&str, bool), body: &str) -> String {
    let (title, answer) = (escape(title), escape(answer));
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

/// A longer text does not count as a number.
const NUMBER: usize = 16;

/// A table with a header. Columns of numbers are right-aligned. A table that is too wide gets its own scroll bar.
pub fn table(caption: &str, header: &[&str], rows: &[Vec<String>]) -> String {
    marked_table(caption, header, rows, None)
}

/// A table in which one row is highlighted.
pub fn marked_table(caption: &str, header: &[&str], rows: &[Vec<String>], marked: Option<usize>) -> String {
    let is_number = |column: usize| {
        let number = |cell: &String| {
            cell.is_empty()
                || (cell.starts_with(|first: char| first.is_ascii_digit() || first == '<')
                    && cell.chars().count() <= NUMBER)
        };
        !rows.is_empty() && rows.iter().all(|row| number(&row[column]))
    };
    let class = |column: usize| if is_number(column) { " class=\"number\"" } else { "" };
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
        let class = if marked == Some(at) { " class=\"best\"" } else { "" };
        text.push_str(&format!("<tr{class}>{cells}</tr>\n"));
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// A list of names and values.
pub fn facts(rows: &[(&str, String)]) -> String {
    let rows: String =
        rows.iter().map(|(name, fact)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(fact))).collect();
    format!("<dl>\n{rows}</dl>\n")
}

pub fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
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
}
