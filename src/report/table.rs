//! Text in columns.

/// Formats rows under a header. Each column is as wide as its widest cell. If every cell of a column begins with a
/// digit, the column is right-aligned.
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
    let header: Vec<String> = header.iter().map(|cell| cell.to_string()).collect();
    let mut text = String::new();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_no_line_ends_in_spaces() {
        let rows = [vec!["l4".into(), "24".into()], vec!["h100".into(), "8".into()]];
        assert_eq!(table(&["gpu", "n"], &rows), "gpu    n\nl4    24\nh100   8\n");
    }
}
