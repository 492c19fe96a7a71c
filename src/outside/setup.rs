//! The command of a scheduler in another process, and the rules under which it decides.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use dryrack_nearest::nearest;
use dryrack_released::{Release, ReleasedError, command_of};
use serde_json::Value;
use thiserror::Error;

use dryrack_units::SimDuration;

/// A scheduler in another process, as a scenario or a command line states it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    pub command: Command,
    /// The folder in which the command is started.
    pub folder: PathBuf,
    /// The time limit of each answer, in real time.
    pub deadline: Duration,
    /// The time limit of the answer to `hello`, in real time. A program may load its data before it answers.
    pub start: Duration,
    /// How often a failed program is started again.
    pub restarts: u32,
    pub thinking: ThinkTime,
    /// Whether placements that break safety are carried out. They are, unless the scenario says otherwise.
    pub allows_unsafe: bool,
    /// Arbitrary data for the program.
    pub driver: Value,
}

impl Setup {
    pub const DEADLINE: Duration = Duration::from_secs(10);
    pub const START: Duration = Duration::from_secs(60);

    /// A setup with this command and default settings.
    pub fn of(command: Command, folder: PathBuf) -> Setup {
        Setup {
            command,
            folder,
            deadline: Setup::DEADLINE,
            start: Setup::START,
            restarts: 0,
            thinking: ThinkTime::Free,
            allows_unsafe: true,
            driver: Value::Null,
        }
    }
}

/// How much simulated time passes for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkTime {
    #[default]
    Free,
    /// The real time that the answer took. As a result, two runs of the same scenario differ.
    Measured,
    /// The time that the program states.
    Stated,
    Fixed(SimDuration),
}

/// How the program is reached: a command that starts it, or where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A program that speaks the protocol of this room, and its arguments.
    Lines(Vec<String>),
    /// A program that runs already. It listens at this Unix socket, and speaks the protocol of this room.
    Socket(PathBuf),
    /// A kube-scheduler, which speaks the API of Kubernetes, and its flags.
    KubeScheduler { program: PathBuf, flags: Vec<String> },
}

/// How the text of a command begins that names a kube-scheduler.
pub const KUBE_SCHEDULER: &str = "kube-scheduler=";

/// How the text of a command begins that names a Unix socket.
pub const SOCKET: &str = "unix:";

/// Why a text is not a command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    #[error("the command is empty")]
    Empty,
    #[error("a quotation mark {0} is not closed")]
    Open(char),
    #[error("the command contains a zero byte")]
    Zero,
    #[error("`kube-scheduler=` names no program; expected its path, as in `kube-scheduler=./kube-scheduler`")]
    NoKubeScheduler,
    #[error("no command begins with `{0}=`; did you mean `kube-scheduler={1}`?")]
    Misspelt(String, String),
    #[error("`unix:` names no socket; expected one path, as in `unix:/tmp/scheduler.sock`")]
    NoSocket,
    #[error("the path begins with `~/`, but there is no home folder (`HOME` is not set)")]
    NoHome,
    #[error("{0}")]
    Unreleased(String),
    #[error("{0}")]
    NotInstalled(String),
}

/// The word as a shell argument, in single quotes if it contains characters that a shell would interpret.
pub fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "/._-=:%+,".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

impl Command {
    pub fn of(words: Vec<String>) -> Result<Command, CommandError> {
        match words.first() {
            None => Err(CommandError::Empty),
            Some(program) if program.is_empty() => Err(CommandError::Empty),
            Some(_) if words.iter().any(|word| word.contains('\0')) => Err(CommandError::Zero),
            Some(program) => match program.strip_prefix(SOCKET) {
                None => Ok(Command::Lines(words)),
                Some(path) if path.is_empty() || words.len() > 1 => Err(CommandError::NoSocket),
                Some(path) => Ok(Command::Socket(at_home(path).ok_or(CommandError::NoHome)?)),
            },
        }
    }

    /// A kube-scheduler: its path, and its flags. A path that begins with `~/` is relative to the home folder.
    pub fn kube_scheduler(words: &[String]) -> Result<Command, CommandError> {
        match words.split_first() {
            None => Err(CommandError::Empty),
            Some((program, _)) if program.is_empty() => Err(CommandError::NoKubeScheduler),
            Some(_) if words.iter().any(|word| word.contains('\0')) => Err(CommandError::Zero),
            Some((program, flags)) => {
                let program = at_home(program).ok_or(CommandError::NoHome)?;
                Ok(Command::KubeScheduler { program, flags: flags.to_vec() })
            }
        }
    }

    /// Reads the value of `--outside`. It is a command line, a released program such as `gpustack==0.6.0`, whose
    /// command comes from `released`, `kube-scheduler=PATH` with flags of that program, or `unix:PATH`.
    pub fn read(text: &str) -> Result<Command, CommandError> {
        match text.trim().split_once("==") {
            Some((name, version)) if is_word(name) && is_word(version) => released(name, version),
            _ => Command::of_words(words(text)?),
        }
    }

    fn of_words(mut words: Vec<String>) -> Result<Command, CommandError> {
        match words.first_mut().and_then(|first| first.strip_prefix(KUBE_SCHEDULER).map(str::to_string)) {
            Some(path) => {
                words[0] = path;
                Command::kube_scheduler(&words)
            }
            None => match words.first().and_then(|first| first.split_once('=')) {
                Some((word, path))
                    if is_word(word) && nearest(word, [KUBE_SCHEDULER.trim_end_matches('=')]).is_some() =>
                {
                    Err(CommandError::Misspelt(word.to_string(), path.to_string()))
                }
                Some(_) | None => Command::of(words),
            },
        }
    }

    /// Checks the value of `--outside` as far as possible without the program: a released program must be known but
    /// need not be installed.
    pub fn check(text: &str) -> Result<(), CommandError> {
        match text.trim().split_once("==") {
            Some((name, version)) if is_word(name) && is_word(version) => match Release::named(text.trim()) {
                Ok(_) => Ok(()),
                Err(error) => Err(CommandError::Unreleased(error.to_string())),
            },
            _ => Command::of_words(words(text)?).map(|_| ()),
        }
    }

    pub fn is_kube_scheduler(&self) -> bool {
        matches!(self, Command::KubeScheduler { .. })
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Lines(words) => f.write_str(&words.join(" ")),
            Command::Socket(path) => write!(f, "{SOCKET}{}", path.display()),
            Command::KubeScheduler { program, .. } => write!(f, "{KUBE_SCHEDULER}{}", program.display()),
        }
    }
}

/// A path with its `~/` replaced by the home folder. `None` if there is no home folder.
fn at_home(path: &str) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(rest) => std::env::var_os("HOME").map(|home| PathBuf::from(home).join(rest)),
        None => Some(PathBuf::from(path)),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-+".contains(letter))
}

/// The command that starts the driver of a released program, which must be installed.
fn released(name: &str, version: &str) -> Result<Command, CommandError> {
    let words = command_of(&format!("{name}=={version}"));
    let words = words.map_err(|error| match error {
        ReleasedError::NotInstalled { .. } => CommandError::NotInstalled(error.to_string()),
        error => CommandError::Unreleased(error.to_string()),
    })?;
    let text = |word: std::ffi::OsString| {
        let said = |word: std::ffi::OsString| format!("the path {} is not UTF-8", word.display());
        word.into_string().map_err(|word| CommandError::Unreleased(said(word)))
    };
    words.into_iter().map(text).collect::<Result<Vec<String>, CommandError>>().and_then(Command::of)
}

/// Splits a command line into words at spaces, as a shell does. Spaces inside quotation marks or after a backslash do
/// not split. Nothing is expanded.
fn words(text: &str) -> Result<Vec<String>, CommandError> {
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        None => return Err(CommandError::Open(letter)),
                        Some(end) if end == letter => break,
                        Some('\\') if letter == '"' => word.extend(letters.next()),
                        Some(inside) => word.push(inside),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_as_a_shell_does() {
        let rows: [(&str, &[&str]); 5] = [
            ("python3 my.py", &["python3", "my.py"]),
            ("  a   'b c'  ", &["a", "b c"]),
            (r#"a "b \"c" d\ e"#, &["a", "b \"c", "d e"]),
            ("a ''", &["a", ""]),
            ("./run --x==3", &["./run", "--x==3"]),
        ];
        for (text, wanted) in rows {
            let wanted = wanted.iter().map(|word| word.to_string()).collect();
            assert_eq!(Command::read(text), Ok(Command::Lines(wanted)), "{text}");
        }
        assert_eq!(Command::read("unix:/tmp/a.sock"), Ok(Command::Socket(PathBuf::from("/tmp/a.sock"))));
        assert_eq!(Command::read("unix:"), Err(CommandError::NoSocket));
        assert_eq!(Command::read("unix:/tmp/a.sock --fast"), Err(CommandError::NoSocket));
        let flags = vec!["--config".to_string(), "my file.yaml".to_string()];
        let wanted = Command::KubeScheduler { program: PathBuf::from("./bin/kube-scheduler"), flags };
        assert_eq!(Command::read("kube-scheduler=./bin/kube-scheduler --config 'my file.yaml'"), Ok(wanted));
        assert_eq!(Command::read("kube-scheduler="), Err(CommandError::NoKubeScheduler));
        assert_eq!(Command::read("   "), Err(CommandError::Empty));
        assert_eq!(Command::read("a 'b"), Err(CommandError::Open('\'')));
        assert!(matches!(Command::read("gpustak==0.6.0"), Err(CommandError::Unreleased(_))));
    }
}
