//! Runs `pip`, the official client of the package index, and reports why it failed.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::ReleasedError;

/// Installs exactly the packages of `lock` for the Python at `python`: into that Python's own environment, or into
/// `target`. Calls `said` with each package.
pub(crate) fn install(
    (what, python): (&str, &Path),
    lock: &str,
    target: Option<&Path>,
    folder: &Path,
    said: &dyn Fn(&str),
) -> Result<(), ReleasedError> {
    let requirements = folder.join("requirements.txt");
    std::fs::write(&requirements, lock).map_err(|source| ReleasedError::file(&requirements, source))?;
    let mut command = Command::new(python);
    command.args([
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--require-hashes",
        "--no-build-isolation",
        "--no-input",
        "--no-compile",
    ]);
    command.args(["--disable-pip-version-check", "--no-warn-script-location", "--progress-bar", "off"]);
    // Do not compile at installation: only a tenth of the files is ever imported, and Python compiles these on first
    // use. With few retries, an unreachable index is reported within seconds instead of minutes.
    command.args(["--retries", "2", "--no-color"]);
    if let Some(target) = target {
        command.arg("--target").arg(target);
    }
    command.arg("--requirement").arg(&requirements);
    // The result must not depend on the user's settings, except for the address of the index and its certificates.
    for name in ["PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_CONSTRAINT", "PIP_DRY_RUN"] {
        command.env_remove(name);
    }
    let errors = run(&mut command, lock.lines().count(), said);
    let _kept_no_longer = std::fs::remove_file(&requirements);
    match errors {
        Ok(None) => Ok(()),
        Ok(Some(errors)) => Err(why(what, &errors, folder)),
        Err(source) => Err(ReleasedError::file(python, source)),
    }
}

/// Runs the command. Returns its stderr if it failed.
fn run(command: &mut Command, packages: usize, said: &dyn Fn(&str)) -> std::io::Result<Option<String>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stderr = child.stderr.take();
    // Read stderr on another thread, so that neither pipe fills up while the other is read.
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(stderr) = &mut stderr {
            let _as_much_as_came = stderr.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut at = 0;
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(|out| out.lines().map_while(Result::ok)) {
        if let Some(package) = line.strip_prefix("Collecting ") {
            at += 1;
            let name = package.split(' ').next().unwrap_or(package);
            said(&format!("fetching {name} ({at} of {packages})"));
        } else if line.starts_with("Installing collected packages") {
            said(&format!("installing {packages} packages"));
        }
    }
    let ended = child.wait()?;
    let errors = errors.join().unwrap_or_default();
    Ok((!ended.success()).then_some(errors))
}

fn why(what: &str, errors: &str, folder: &Path) -> ReleasedError {
    let what = what.to_string();
    let has = |parts: &[&str]| parts.iter().any(|part| errors.contains(part));
    let line = |parts: &[&str]| {
        let mut lines = errors.lines().map(str::trim).filter(|line| !line.is_empty());
        let shown: Vec<&str> = lines.clone().filter(|line| parts.iter().any(|part| line.contains(part))).collect();
        let last = lines.next_back().unwrap_or("pip printed nothing");
        shown.first().copied().unwrap_or(last).trim_start_matches("ERROR: ").trim_start_matches("WARNING: ").to_string()
    };
    const UNREACHED: [&str; 8] = [
        "Failed to establish a new connection",
        "NewConnectionError",
        "Temporary failure in name resolution",
        "Name or service not known",
        "Max retries exceeded",
        "ProxyError",
        "ReadTimeoutError",
        "ConnectTimeoutError",
    ];
    const FULL: [&str; 2] = ["No space left on device", "Errno 28"];
    if has(&FULL) {
        ReleasedError::DiskFull { what, folder: folder.to_path_buf() }
    } else if has(&["THESE PACKAGES DO NOT MATCH THE HASHES", "have mismatched hashes"]) {
        ReleasedError::WrongSum { what, detail: line(&["Expected sha256", "==", "from "]) }
    } else if has(&UNREACHED) {
        ReleasedError::NoNetwork { detail: line(&UNREACHED) }
    } else if has(&["No matching distribution found"]) {
        ReleasedError::Withdrawn { what, detail: line(&["No matching distribution found"]) }
    } else {
        ReleasedError::Pip { what, detail: line(&["ERROR: "]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_fail_is_named() {
        let folder = Path::new("/cache");
        let rows = [
            (
                "WARNING: Retrying after connection broken by 'NewConnectionError('...: [Errno -3] Temporary failure in \
                 name resolution')': /simple/x/\nERROR: No matching distribution found for x==1",
                "the package index cannot be reached: Retrying after",
            ),
            (
                "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
                "/cache is full: x==1 needs more space",
            ),
            (
                "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    y==2 from address:\n  \
                 Expected sha256 00\n  Got 11",
                "a package of x==1 does not match its lock, so nothing was installed: y==2 from address:",
            ),
            (
                "ERROR: Could not find a version that satisfies the requirement y==2 (from versions: 1)\nERROR: No \
                 matching distribution found for y==2",
                "a package of x==1 is no longer in the package index: No matching distribution found for y==2",
            ),
            ("ERROR: something else", "x==1 cannot be installed: something else"),
            ("", "x==1 cannot be installed: pip printed nothing"),
        ];
        for (errors, expected) in rows {
            let said = why("x==1", errors, folder).to_string();
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
