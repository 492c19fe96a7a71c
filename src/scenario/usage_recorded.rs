//! Usage from recordings: a CSV file with a column for each GPU, or pods of a public trace.

use super::trace_source::value_or_report;
use super::usage::Places;
use dryrack_trace::{Index, load_usage, read_usage_csv};
use dryrack_workload::Series;
use dryrack_yaml::{Report, Span, Tree, text};

/// A recording that a file names.
pub(super) struct Recorded<'t> {
    /// The kind of recording: `csv` or `trace`.
    pub shape: &'static str,
    pub of: &'t Tree,
    /// Columns or pods; all columns if none is named.
    pub gpus: Vec<(&'t str, Span)>,
}

pub(super) fn recorded(asked: &Recorded<'_>, places: &Places<'_>, report: &mut Report) -> Option<Vec<Series>> {
    if asked.shape == "csv" { csv(asked, places, report) } else { pods(asked, places, report) }
}

/// The pods of a trace, named in full or by a unique prefix; all pods if none is named.
fn pods(asked: &Recorded<'_>, places: &Places<'_>, report: &mut Report) -> Option<Vec<Series>> {
    let typed = text(asked.of, "the name of a trace", report)?;
    let index = Index::built_in();
    let Some(_) = index.traces.iter().find(|entry| entry.name == typed) else {
        let names = index.traces.iter().map(|entry| entry.name.as_str());
        report.unknown(asked.of.span, format!("no trace is named `{typed}`"), typed, names);
        return None;
    };
    let pods = value_or_report(load_usage(&index, places.roots, typed), asked.of.span, report)?;
    if asked.gpus.is_empty() {
        return Some(pods.into_iter().map(|(_, series)| series).collect());
    }
    let mut chosen = Vec::new();
    for (name, span) in &asked.gpus {
        let mut found = pods.iter().filter(|(pod, _)| pod.starts_with(name));
        match (found.next(), found.next()) {
            (Some((_, series)), None) => chosen.push(series.clone()),
            (Some(_), Some(_)) => {
                report.error_with_help(
                    *span,
                    format!("several pods begin with `{name}`"),
                    "write more letters of the name",
                );
                return None;
            }
            (None, _) => {
                let names = pods.iter().map(|(pod, _)| pod.as_str());
                report.unknown(*span, format!("the trace {typed} has no pod `{name}`"), name, names);
                return None;
            }
        }
    }
    Some(chosen)
}

fn csv(asked: &Recorded<'_>, places: &Places<'_>, report: &mut Report) -> Option<Vec<Series>> {
    let typed = text(asked.of, "the path of a CSV file", report)?;
    let path = places.folder.join(typed);
    if !path.exists() {
        let message = format!("cannot read `{typed}`: no such file");
        report.error_with_help(
            asked.of.span,
            message,
            "check the path, which is relative to the folder of the scenario",
        );
        return None;
    }
    let recording = match read_usage_csv(&path) {
        Ok(recording) => recording,
        Err(fault) => {
            let help = "the first line must name the columns, with `time` as the first one";
            report.error_with_help(asked.of.span, fault.to_string(), help);
            return None;
        }
    };
    if let Some(row) = recording.first_out_of_order() {
        let message = format!("the times of `{typed}` must increase, but {row} follows a later or equal time");
        report.error_with_help(asked.of.span, message, "sort the file, or evaluate it unsorted with `dryrack policy`");
        return None;
    }
    let names: Vec<&str> = recording.names.iter().map(String::as_str).collect();
    if asked.gpus.is_empty() {
        return Some((0..names.len()).map(|column| recording.series(column)).collect());
    }
    let mut series = Vec::new();
    for (name, span) in &asked.gpus {
        match names.iter().position(|known| known == name) {
            Some(column) => series.push(recording.series(column)),
            None => {
                let message = format!("`{typed}` has no column `{name}`");
                report.unknown(*span, message, name, names.iter().copied());
                return None;
            }
        }
    }
    Some(series)
}
