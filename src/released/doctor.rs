//! Checks the environments of released programs: whether each driver starts and answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::{Python, Release, ReleasedError, Store, find_python};

/// The time limit for starting a driver. Importing a release takes 3 to 15 seconds on a slow machine.
const START: Duration = Duration::from_secs(120);

const HELLO: &str = r#"{"type":"hello","protocol":1,"dryrack":"doctor","scenario":"doctor","seed":0,"can":[],"deadline_ns":null,"driver":null}"#;
const BYE: &str = r#"{"type":"bye","because":"over"}"#;

/// The results of the check.
#[derive(Debug)]
pub struct DoctorReport {
    /// The Python with which further environments would be created.
    pub python: Result<Python, ReleasedError>,
    pub releases: Vec<ReleaseHealth>,
}

/// An installed release, and its problem if it has one.
#[derive(Debug)]
pub struct ReleaseHealth {
    pub release: Release,
    pub ill: Option<ReleaseFault>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseFault {
    #[error("it was built from another lock file; install it again")]
    Stale,
    #[error("its driver does not start: {0}")]
    NotStarted(String),
    #[error("its driver does not answer within {} s", START.as_secs())]
    Silent,
    #[error("its driver ends without a greeting: {0}")]
    Ended(String),
    #[error("its driver reports {0}, which is not the release")]
    Stranger(String),
}

impl Store {
    /// Looks for Python, and starts the driver of each installed release.
    pub fn doctor(&self, said: &dyn Fn(&str)) -> DoctorReport {
        let releases = self.list().into_iter().map(|here| {
            said(&format!("asking {}", here.release));
            let ill = match here.is_current {
                true => self.greet(&here.release).err(),
                false => Some(ReleaseFault::Stale),
            };
            ReleaseHealth { release: here.release, ill }
        });
        let releases = releases.collect();
        DoctorReport { python: find_python(), releases }
    }

    /// Exchanges the greeting with the driver of `release`.
    pub fn greet(&self, release: &Release) -> Result<(), ReleaseFault> {
        let command = self.command_of(release).map_err(|error| ReleaseFault::NotStarted(error.to_string()))?;
        let spawned = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = spawned.map_err(|error| ReleaseFault::NotStarted(error.to_string()))?;
        let answer = answer(&mut child);
        let _it_may_be_over = child.kill();
        let _reaped = child.wait();
        let line = answer?;
        let greeting: serde_json::Value =
            serde_json::from_str(&line).map_err(|_| ReleaseFault::Stranger(line.clone()))?;
        let is_it = greeting["name"] == release.program && greeting["version"] == release.version;
        if is_it { Ok(()) } else { Err(ReleaseFault::Stranger(line)) }
    }
}

fn answer(child: &mut Child) -> Result<String, ReleaseFault> {
    let (tell, told) = mpsc::channel();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = out.map(|out| BufReader::new(out).read_line(&mut line));
        let _nobody_waits = tell.send((matches!(read, Some(Ok(1..))), line));
    });
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _as_much_as_came = err.map(|mut err| err.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    if let Some(mut input) = child.stdin.take() {
        let _it_may_be_over = writeln!(input, "{HELLO}\n{BYE}");
    }
    match told.recv_timeout(START) {
        Ok((true, line)) => Ok(line.trim_end().to_string()),
        Ok((false, _)) => {
            let text = errors.join().unwrap_or_default();
            let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
            Err(ReleaseFault::Ended(last.to_string()))
        }
        Err(_) => Err(ReleaseFault::Silent),
    }
}
