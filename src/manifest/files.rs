//! Finds the files that paths, patterns such as `jobs/*.yaml`, and folders name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dryrack_yaml::{Report, Span, nearest_path};

const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// The largest depth of folders in a folder. A link can make folders that contain themselves.
const MAX_DEPTH: usize = 16;

/// A file, and whether its own path was written. A file that was found in a folder or by a pattern may be of another
/// kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    pub is_named: bool,
}

/// The files of one path or pattern, which is relative to `folder`. They are in the order of their names. If there is
/// none, that is reported.
pub fn find(typed: &str, folder: &Path, asked: Option<Span>, report: &mut Report) -> Vec<Found> {
    let path = folder.join(typed);
    if path.is_dir() {
        let mut found = Vec::new();
        walk(&path, 0, &mut found);
        if found.is_empty() {
            refuse(asked, &path, "has no manifests", "expected files that end in .yaml, .yml or .json", report);
        }
        return found;
    }
    if !is_pattern(typed) || path.exists() {
        // The reader reports a missing file.
        return vec![Found { path, is_named: true }];
    }
    let pattern = glob::Pattern::escape(&folder.display().to_string());
    let pattern = if pattern.is_empty() { typed.to_string() } else { format!("{pattern}/{typed}") };
    // As in a shell, a pattern does not match hidden files.
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
    let paths = match glob::glob_with(&pattern, options) {
        Ok(paths) => paths,
        Err(fault) => {
            let message = format!("is not a pattern: {}", fault.msg);
            refuse(asked, Path::new(typed), &message, "write a pattern such as `jobs/*.yaml`", report);
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for path in paths.flatten() {
        match path.is_dir() {
            true => walk(&path, 0, &mut found),
            false => found.push(Found { path, is_named: false }),
        }
    }
    if found.is_empty() {
        let near = Path::new(typed).parent().and_then(|parent| nearest_path(&folder.join(parent)));
        let help = near.map_or("check the path".to_string(), |near| format!("did you mean `{}`?", near.display()));
        refuse(asked, Path::new(typed), "matches no file", &help, report);
    }
    found
}

fn is_pattern(typed: &str) -> bool {
    typed.contains(['*', '?', '['])
}

fn refuse(asked: Option<Span>, path: &Path, why: &str, help: &str, report: &mut Report) {
    let name = path.display().to_string();
    let span = asked.unwrap_or_else(|| report.add_source(name.as_str(), "").start());
    report.error_with_help(span, format!("`{name}` {why}"), help);
}

/// Adds the manifests in a folder and in its folders, except hidden ones.
fn walk(folder: &Path, depth: usize, found: &mut Vec<Found>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let paths: BTreeSet<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    for path in paths {
        let is_hidden = path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.starts_with('.'));
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match (is_hidden, path.is_dir()) {
            (true, _) => {}
            (false, true) if depth < MAX_DEPTH => walk(&path, depth + 1, found),
            (false, true) => {}
            (false, false) if ENDINGS.contains(&ending) => found.push(Found { path, is_named: false }),
            (false, false) => {}
        }
    }
}
