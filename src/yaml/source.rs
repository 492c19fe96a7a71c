//! Reads files as text: completely, up to a size limit, and only if they contain text.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::diagnostic::{Report, SourceId, Span};
use dryrack_nearest::nearest;

/// The size limit of a file in bytes. A job takes about a hundred bytes.
const MAX_BYTES: u64 = 16 << 20;
/// The size limit of a file that another program wrote. A pod of a cluster takes about ten thousand bytes.
const MAX_FOREIGN_BYTES: u64 = 512 << 20;

/// Reads the text of a file. If that fails, reports the fault and returns `None`. The fault is shown at `asked`, where
/// the file is named, or else in the file itself.
pub fn read_text(path: &Path, asked: Option<Span>, report: &mut Report) -> Option<(SourceId, Arc<str>)> {
    let help = "use `count:` for copies of a job or node, and `trace:` for a large workload";
    read_up_to(path, MAX_BYTES, help, asked, report)
}

/// Like [`read_text`], for a file that another program wrote, which may be larger.
pub fn read_foreign_text(path: &Path, asked: Option<Span>, report: &mut Report) -> Option<(SourceId, Arc<str>)> {
    read_up_to(path, MAX_FOREIGN_BYTES, "split it into several files", asked, report)
}

fn read_up_to(
    path: &Path,
    most: u64,
    too_large: &str,
    asked: Option<Span>,
    report: &mut Report,
) -> Option<(SourceId, Arc<str>)> {
    let name = path.display().to_string();
    let refuse = |report: &mut Report, message: String, help: &str, at: Option<Span>| {
        let span = at.unwrap_or_else(|| report.add_source(name.as_str(), "").start());
        report.error_with_help(span, message, help);
    };
    let mut bytes = Vec::new();
    let opened = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(std::io::Error::other("it is a folder")),
        _ => std::fs::File::open(path),
    };
    // Read one byte beyond the limit to detect a longer file. Do not ask for the size, because a pipe has none.
    let read = opened.and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        let near = nearest_path(path).filter(|_| error.kind() == std::io::ErrorKind::NotFound);
        let help = match near {
            Some(near) => format!("did you mean `{}`?", near.display()),
            None if path.is_dir() => format!("name a file in it, such as `{}`", path.join("one.yaml").display()),
            None if asked.is_some_and(|asked| report.is_of_file(asked)) => {
                "a relative path begins at the folder of the file that names it".to_string()
            }
            None => "write the path of a file, from the current folder".to_string(),
        };
        refuse(report, format!("cannot read `{name}`: {}", plain(&error)), &help, asked);
        return None;
    }
    if bytes.len() as u64 > most {
        let message = format!("the file is larger than {} MiB", most >> 20);
        refuse(report, message, too_large, None);
        return None;
    }
    end_lines(&mut bytes);
    match String::from_utf8(bytes) {
        Ok(text) => {
            let text: Arc<str> = text.into();
            Some((report.add_source(name.as_str(), Arc::clone(&text)), text))
        }
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let bytes = error.into_bytes();
            let help = match bytes.as_slice() {
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "the file looks like UTF-16; save it as UTF-8",
                _ => "name a YAML file, saved as UTF-8",
            };
            let message = format!("expected UTF-8 text, found the byte 0x{:02X}", bytes[at]);
            // Only the text before the faulty byte is needed to compute its line and column.
            let source = report.add_source(name.as_str(), String::from_utf8_lossy(&bytes[..at]));
            report.error_with_help(source.span(at, at), message, help);
            None
        }
    }
}

/// Replaces a lone carriage return, which ends a line in YAML, by a line feed, so that all parts of the program count
/// lines in the same way.
fn end_lines(bytes: &mut [u8]) {
    for at in 0..bytes.len() {
        if bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n') {
            bytes[at] = b'\n';
        }
    }
}

/// The existing path that is most similar to a missing one. The first missing part is replaced by the most similar name
/// in its folder.
pub fn nearest_path(path: &Path) -> Option<PathBuf> {
    let mut there = PathBuf::new();
    for part in path.components() {
        let next = there.join(part);
        if next.exists() {
            there = next;
            continue;
        }
        let folder = if there == Path::new("") { Path::new(".") } else { &there };
        let entries = std::fs::read_dir(folder).ok()?;
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        let word = part.as_os_str().to_str()?;
        let near = nearest(word, names.iter().map(String::as_str))?;
        return Some(there.join(near));
    }
    None
}

/// The system's error message without its number.
fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_string(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_string(),
        _ => error.to_string(),
    }
}
