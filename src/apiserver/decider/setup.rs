//! How a run starts its kube-scheduler.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dryrack_units::SimDuration;
use dryrack_yaml::{Report, nearest_path, parse, read_text};

use super::super::config::Config;
use super::super::process::NotStarted;

/// A kube-scheduler, as a scenario or a command line states it.
#[derive(Clone, Debug)]
pub struct KubeSchedulerSetup {
    /// As [`find_program`] reads it.
    pub program: PathBuf,
    /// Flags of the program. `--config FILE` names the user's own configuration.
    pub flags: Vec<String>,
    pub folder: PathBuf,
    /// The limit of the first answer, in real time.
    pub start: Duration,
    /// The limit of every other answer, in real time.
    pub deadline: Duration,
    /// How often a failed program is started again.
    pub restarts: u32,
    /// The back-offs of the profile. The user's own configuration replaces them.
    pub initial_backoff: SimDuration,
    pub max_backoff: SimDuration,
}

impl KubeSchedulerSetup {
    /// The configuration, with the user's own file if the flags name one.
    ///
    /// # Errors
    /// If the file cannot be read or is no configuration.
    pub fn config(&self) -> Result<Config, NotStarted> {
        let (file, flags) = self.own_file()?;
        let own = file.as_deref().map(read_configuration).transpose()?;
        let config = Config {
            initial_backoff: in_seconds(self.initial_backoff),
            max_backoff: in_seconds(self.max_backoff),
            own,
            flags,
            ..Config::default()
        };
        let program =
            file.as_ref().map_or_else(|| self.program.display().to_string(), |file| file.display().to_string());
        config.resolve().map_err(|error| NotStarted { program, why: error.to_string() })
    }

    /// Takes `--config` out of the flags.
    fn own_file(&self) -> Result<(Option<PathBuf>, Vec<String>), NotStarted> {
        let (mut file, mut others) = (None, Vec::new());
        let mut flags = self.flags.iter();
        while let Some(flag) = flags.next() {
            match flag.strip_prefix("--config") {
                Some("") => {
                    let why = "the flag `--config` names no file".to_string();
                    let fault = NotStarted { program: self.program.display().to_string(), why };
                    file = Some(self.folder.join(flags.next().ok_or(fault)?));
                }
                Some(value) if value.starts_with('=') => file = Some(self.folder.join(&value[1..])),
                Some(_) | None => others.push(flag.clone()),
            }
        }
        Ok((file, others))
    }
}

/// Finds a program. A path with a `/` is relative to `folder`; a plain name is looked up in `PATH`.
///
/// # Errors
/// If there is no such file, or if it is a folder.
pub fn find_program(program: &Path, folder: &Path) -> Result<PathBuf, NotStarted> {
    let fault = |why: &str| NotStarted { program: program.display().to_string(), why: why.to_string() };
    if program.to_string_lossy().contains('/') {
        let path = folder.join(program);
        return match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => Err(fault("is a folder; expected the program itself")),
            Ok(_) => Ok(path),
            Err(_) => {
                let near = nearest_path(&path).map(|near| format!("; did you mean `{}`?", near.display()));
                Err(fault(&format!("there is no such file{}", near.unwrap_or_default())))
            }
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.ok_or_else(|| fault("no folder of PATH has such a program; for a file beside it, write `./`"))
}

/// Whole seconds, at least as long.
fn in_seconds(length: SimDuration) -> u64 {
    length.as_nanos().div_ceil(1_000_000_000)
}

fn read_configuration(file: &Path) -> Result<serde_json::Value, NotStarted> {
    let mut report = Report::default();
    let read = read_text(file, None, &mut report);
    let tree = read.and_then(|(source, text)| parse(&text, source, &mut report));
    match tree {
        Some(tree) if !report.has_errors() => Ok(tree.to_json()),
        Some(_) | None => {
            let why = format!("this configuration cannot be read\n{}", report.finish());
            Err(NotStarted { program: file.display().to_string(), why })
        }
    }
}
