//! The page of `dryrack what-helps`: the changes, sorted by the waiting hours that each saves.

use super::html::{facts, page, section, table};

/// The contents of the page.
pub struct HelpsReport {
    pub title: String,
    /// The change that saves most, as a sentence.
    pub answer: String,
    pub header: Vec<&'static str>,
    /// The change, the hours saved, their share, the 95th percentile of the waits, and the flags that make the change.
    pub rows: Vec<Vec<String>>,
    pub command: String,
}

const NOTE: &str = "<p class=\"note\">Each change was run alone, with the same seeds and draws as the unchanged scenario. \
    Hours saved are the waiting hours of all replicas without the change minus those with it, as the mean over the seeds, \
    with the 95% interval of the paired difference where seeds differ. A negative number means longer waits. Replicas that \
    can never run are not in the hours.</p>\n";

impl HelpsReport {
    pub fn html(&self) -> String {
        // In a terminal, backticks mark a command.
        let header: Vec<String> = self.header.iter().map(|name| name.replace('`', "")).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        // The ends of an interval stay on one line.
        let whole = |cell: &String| match cell.split_once(" (") {
            Some((mean, ends)) if ends.ends_with(')') && ends.contains(" to ") && !mean.contains(' ') => {
                format!("{mean} ({}", ends.replace(' ', "\u{a0}"))
            }
            _ => cell.replace(" ± ", " ±\u{a0}"),
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(whole).collect()).collect();
        let body = [
            section("What would help most", &(table("Changes that were run", &header, &rows) + NOTE)),
            section("How to repeat this", &facts(&[("Command", self.command.clone())])),
        ];
        page(&self.title, (&self.answer, false), &body.concat())
    }
}
