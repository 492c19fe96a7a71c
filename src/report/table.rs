//! Text in columns.

/// The width within which the last column is folded.
const WIDTH: usize = 100;
/// The smallest width to which the last column is folded.
const LEAST: usize = 24;

/// Formats rows under a header. Each column is as wide as its widest cell. If every cell of a column begins with a
/// digit, the column is right-aligned. The last column continues on further lines if the table would be too wide.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = header.len();
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    let mut is_number = vec![!rows.is_empty(); columns];
    for row in rows {
        assert_eq!(row.len(), columns, "a cell for each column");
        for (index, cell) in row.iter().enumerate() {
            widths[index] = widths[index].max(cell.chars().count());
            is_number[index] &= cell.is_empty() || cell.starts_with(|first: char| first.is_ascii_digit());
        }
    }
    let before: usize = widths.iter().take(columns.saturating_sub(1)).map(|width| width + 2).sum();
    let room = WIDTH.saturating_sub(before).max(LEAST);
    let header: Vec<String> = header.iter().map(|cell| cell.to_string()).collect();
    let mut text = String::new();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
            if index + 1 == columns && cell.chars().count() > room {
                line.push_str(&folded(cell, room).join(&format!("\n{}", " ".repeat(before))));
                continue;
            }
            let pad = " ".repeat(widths[index] - cell.chars().count());
            match is_number[index] {
                true => line.push_str(&format!("{pad}{cell}  ")),
                false => line.push_str(&format!("{cell}{pad}  ")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The words of a text on lines of this width. A longer word has a line of its own.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_no_line_ends_in_spaces() {
        let rows = [vec!["l4".into(), "24".into()], vec!["h100".into(), "8".into()]];
        assert_eq!(table(&["gpu", "n"], &rows), "gpu    n\nl4    24\nh100   8\n");
    }
    #[test]
    fn a_long_last_column_continues_below_itself() {
        let text = "word ".repeat(30);
        let rows = [vec!["l4".into(), text.trim().into()]];
        let line = ["word"; 19].join(" ");
        let rest = ["word"; 11].join(" ");
        assert_eq!(table(&["gpu", "source"], &rows), format!("gpu  source\nl4   {line}\n     {rest}\n"));
    }
}
