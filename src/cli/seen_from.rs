//! Paths and programs as the user typed them, for a file in another folder.

use std::path::{Path, PathBuf};

use dryrack_outside::{Command, KUBE_SCHEDULER, SOCKET, quoted};
use dryrack_released::Release;

/// A typed path, relative to this folder.
pub(super) fn path_seen_from(folder: &Path, typed: &str) -> String {
    if folder.as_os_str().is_empty() || Path::new(typed).is_absolute() {
        return typed.to_string();
    }
    let beside = Path::new(typed).strip_prefix(folder).map(Path::to_path_buf);
    let path: Result<PathBuf, _> = beside.or_else(|_| std::path::absolute(typed));
    path.map_or_else(|_| typed.to_string(), |path| path.display().to_string())
}

/// A typed program, with the files of its command relative to this folder.
pub(super) fn program_seen_from(folder: &Path, typed: &str) -> String {
    let is_released = Release::named(typed.trim()).is_ok();
    let Some(command) = Command::read(typed).ok().filter(|_| !is_released) else { return typed.to_string() };
    let word = |word: &String| match Path::new(word).exists() {
        true => quoted(&path_seen_from(folder, word)),
        false => quoted(word),
    };
    match &command {
        Command::Lines(words) => words.iter().map(word).collect::<Vec<_>>().join(" "),
        Command::Socket(path) => quoted(&format!("{SOCKET}{}", path_seen_from(folder, &path.display().to_string()))),
        Command::KubeScheduler { program, flags } => {
            let program = quoted(&path_seen_from(folder, &program.display().to_string()));
            let flags: String = flags.iter().map(|flag| format!(" {}", word(flag))).collect();
            format!("{KUBE_SCHEDULER}{program}{flags}")
        }
    }
}
