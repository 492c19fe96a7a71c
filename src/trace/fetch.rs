//! Fetches the files of a trace into the cache, from their public addresses or from a folder.
//!
//! A file is first written under a temporary name in the same folder. Then its checksum is verified, and the file is
//! renamed. So a file in the cache is always complete and correct, and a failure leaves nothing behind. Downloads use
//! the system's `curl`, because it knows the proxies and certificates of the machine.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use super::error::TraceError;
use super::index::{Index, TraceEntry, TraceFile};
use super::locate::{FileState, Roots, check_path};
use super::sum;

const CURL: &str = "curl";

/// The result of [`get`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetResult {
    pub trace: String,
    pub files: Vec<GotFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GotFile {
    pub file: String,
    /// The path of the file.
    pub path: PathBuf,
    pub how: Acquisition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquisition {
    /// The file was already there and is correct.
    AlreadyThere,
    Downloaded {
        address: String,
    },
    Copied {
        from: PathBuf,
    },
}

/// Makes every file of the trace `name` available. Copies the files from the folder `from` if one is given, and
/// downloads them otherwise. Verifies all checksums.
///
/// If some files cannot be fetched, the error names them. The files that were fetched are kept.
pub fn get(index: &Index, roots: &Roots, name: &str, from: Option<&Path>) -> Result<GetResult, TraceError> {
    get_with(index, roots, name, from, CURL)
}

fn get_with(
    index: &Index,
    roots: &Roots,
    name: &str,
    from: Option<&Path>,
    curl: &str,
) -> Result<GetResult, TraceError> {
    let entry = index.trace(name)?;
    let mut files = Vec::new();
    let mut failures = Vec::new();
    for file in &entry.files {
        match bring(roots, entry, file, from, curl) {
            Ok(got) => files.push(got),
            Err(failure) => failures.push(failure),
        }
    }
    match failures.is_empty() {
        true => Ok(GetResult { trace: entry.name.clone(), files }),
        false => Err(TraceError::from_attempts(failures)),
    }
}

fn bring(
    roots: &Roots,
    entry: &TraceEntry,
    file: &TraceFile,
    from: Option<&Path>,
    curl: &str,
) -> Result<GotFile, TraceError> {
    let cache = roots.cache_folder(entry);
    for folder in roots.folders(entry) {
        let Some(path) = file.found_in(&folder) else { continue };
        match check_path(path, file)? {
            FileState::Right { path } => {
                return Ok(GotFile { file: file.name.clone(), path, how: Acquisition::AlreadyThere });
            }
            // Replace a wrong file in the cache. Do not replace a wrong file elsewhere, because it does not belong to
            // dryrack. Such a file would still be found first, so report it as an error.
            FileState::Wrong { path, found, expected } if Some(&folder) != cache.as_ref() => {
                return Err(TraceError::InTheWay { file: path, found, expected });
            }
            FileState::Wrong { .. } | FileState::Missing => {}
        }
    }
    let cache = cache.ok_or(TraceError::NoCache)?;
    fs::create_dir_all(&cache).map_err(|source| TraceError::Unwritten { file: cache.clone(), source })?;
    match from {
        Some(folder) => copy(entry, file, folder, &cache),
        None => download(file, &cache, curl),
    }
}

/// Copies the file from `folder`, or from the subfolder of `folder` that is named after the trace.
fn copy(entry: &TraceEntry, file: &TraceFile, folder: &Path, cache: &Path) -> Result<GotFile, TraceError> {
    let from = file.found_in(folder).or_else(|| file.found_in(&folder.join(&entry.folder)));
    let from = from.ok_or_else(|| TraceError::NotInFolder { file: file.name.clone(), folder: folder.to_path_buf() })?;
    let beside = PartialFile::new(cache, &file.name)?;
    let mut input = File::open(&from).map_err(|source| TraceError::Unopened { file: from.clone(), source })?;
    let written = beside.create().and_then(|mut output| io::copy(&mut input, &mut output));
    written.map_err(|source| TraceError::Unwritten { file: beside.path.clone(), source })?;
    let found = sum::of_file(&beside.path)?;
    if found != file.sha256 {
        let (trace, expected) = (entry.name.clone(), file.sha256.clone());
        return Err(TraceError::WrongSum { trace, file: from, found, expected });
    }
    let path = beside.settle(cache, file)?;
    Ok(GotFile { file: file.name.clone(), path, how: Acquisition::Copied { from } })
}

/// Downloads the file from the first address that works.
fn download(file: &TraceFile, cache: &Path, curl: &str) -> Result<GotFile, TraceError> {
    let mut failures = Vec::new();
    for address in &file.addresses {
        match download_one(file, address, cache, curl) {
            Ok(path) => {
                let how = Acquisition::Downloaded { address: address.clone() };
                return Ok(GotFile { file: file.name.clone(), path, how });
            }
            // Without curl, the other addresses cannot work either.
            Err(no_curl @ TraceError::NoCurl { .. }) => return Err(no_curl),
            Err(failure) => failures.push(failure),
        }
    }
    let is_unreached = failures.iter().any(|failure| matches!(failure, TraceError::Download { .. }));
    let why = TraceError::from_attempts(failures);
    Err(match is_unreached {
        true => TraceError::NotFetched { why: Box::new(why), into: cache.join(&file.name) },
        // Do not suggest a manual download, because it would fail in the same way.
        false => why,
    })
}

fn download_one(file: &TraceFile, address: &str, cache: &Path, curl: &str) -> Result<PathBuf, TraceError> {
    let beside = PartialFile::new(cache, &file.name)?;
    let mut command = Command::new(curl);
    command.args(["-fL", "-sS", "--retry", "2", "--proto", "=http,https"]);
    // Give up a connection that makes no progress.
    command.args(["--connect-timeout", "30", "--speed-time", "60", "--speed-limit", "1"]);
    if is_loopback(address) {
        // Do not use a proxy for addresses of this machine.
        command.args(["--noproxy", "*"]);
    }
    command.arg("-o").arg(&beside.path).arg(address);
    let ran = command.stdin(Stdio::null()).output();
    let failed = |detail: String| TraceError::Download { address: address.to_string(), detail };
    let output = match ran {
        Ok(output) => output,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
            let into = cache.join(&file.name);
            let into = if address.ends_with(".gz") { cache.join(format!("{}.gz", file.name)) } else { into };
            return Err(TraceError::NoCurl { address: address.to_string(), into });
        }
        Err(fault) => return Err(failed(format!("cannot run {curl}: {fault}"))),
    };
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.trim().lines().last().unwrap_or("").trim_start_matches("curl: ").to_string();
        return Err(failed(if message.is_empty() { format!("curl failed: {}", output.status) } else { message }));
    }
    // If the answer is empty, curl may not create a file.
    if !beside.path.exists() {
        return Err(failed("the answer is empty".to_string()));
    }
    let found = sum::of_file(&beside.path)?;
    if found != file.sha256 {
        let (address, expected) = (address.to_string(), file.sha256.clone());
        return Err(TraceError::WrongDownload { address, found, expected });
    }
    beside.settle(cache, file)
}

fn is_loopback(address: &str) -> bool {
    let after_scheme = address.split_once("://").map_or("", |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or("");
    ["127.0.0.1", "localhost"]
        .iter()
        .any(|host| authority.strip_prefix(host).is_some_and(|port| port.is_empty() || port.starts_with(':')))
}

/// A temporary file beside its final place. It is deleted on drop unless it was settled.
struct PartialFile {
    path: PathBuf,
}

impl PartialFile {
    fn new(folder: &Path, name: &str) -> Result<PartialFile, TraceError> {
        // The process id keeps two concurrent processes from writing the same file.
        let path = folder.join(format!(".{name}.{}.part", process::id()));
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(TraceError::Unwritten { file: path, source })
            }
            Ok(()) | Err(_) => Ok(PartialFile { path }),
        }
    }

    fn create(&self) -> io::Result<File> {
        File::create_new(&self.path)
    }

    /// Renames the file to its final place, and adds `.gz` to the name if it is compressed. Deletes the other form of
    /// the file, which was wrong.
    fn settle(self, cache: &Path, file: &TraceFile) -> Result<PathBuf, TraceError> {
        let unwritten = |source| TraceError::Unwritten { file: self.path.clone(), source };
        let mut magic = Vec::new();
        let open = File::open(&self.path).map_err(unwritten)?;
        open.sync_all().map_err(unwritten)?;
        open.take(2).read_to_end(&mut magic).map_err(unwritten)?;
        let [plain, gzip] = file.kept_names().map(|name| cache.join(name));
        let (place, other) = if magic == [0x1f, 0x8b] { (gzip, plain) } else { (plain, gzip) };
        match fs::remove_file(&other) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(TraceError::Unwritten { file: other, source });
            }
            Ok(()) | Err(_) => {}
        }
        fs::rename(&self.path, &place).map_err(|source| TraceError::Unwritten { file: place.clone(), source })?;
        Ok(place)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // If the file was settled or never written, there is nothing to remove. Other errors cannot be reported from
        // here.
        let _ = fs::remove_file(&self.path);
    }
}

impl fmt::Display for GetResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, got) in self.files.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{}: {}", self.trace, got)?;
        }
        Ok(())
    }
}

impl fmt::Display for GotFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, path) = (&self.file, self.path.display());
        match &self.how {
            Acquisition::AlreadyThere => write!(f, "{file} is already there and correct ({path})"),
            Acquisition::Downloaded { address } => write!(f, "{file} downloaded from {address} ({path})"),
            Acquisition::Copied { from } => write!(f, "{file} copied from {} ({path})", from.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener};
    use std::thread;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use sha2::{Digest, Sha256};

    use super::*;

    const CONTENT: &[u8] = b"sn,cpu_milli,memory_mib,gpu,model\nn1,1000,1024,1,T4\n";

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// An index with one trace `tiny`. Its single file has the content `CONTENT` and these addresses.
    fn index(folder: &Path, addresses: &[String]) -> Index {
        let sum: String = Sha256::digest(CONTENT).iter().map(|byte| format!("{byte:02x}")).collect();
        let text = serde_json::json!({"traces": [{
            "name": "tiny", "folder": "tiny-1", "format": "openb", "description": "d", "source": "s", "licence": "l",
            "acknowledgement": "a", "columns": "c",
            "files": [{"name": "tiny.csv", "holds": "tasks", "list": "all", "addresses": addresses,
                       "bytes": CONTENT.len(), "sha256": sum}],
        }]});
        let path = folder.join("index.json");
        fs::write(&path, text.to_string()).unwrap();
        Index::read(&path).unwrap_or_else(|fault| panic!("{fault}"))
    }

    fn roots(folder: &Path) -> Roots {
        Roots { cache: Some(folder.join("cache")), ..Roots::default() }
    }

    fn kept(folder: &Path) -> Vec<String> {
        let Ok(entries) = fs::read_dir(folder.join("cache/traces/tiny-1")) else { return Vec::new() };
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Serves these bodies by path on the loopback address until the test ends. Any other path returns "not found".
    fn serve(bodies: &[(&'static str, Vec<u8>)]) -> String {
        let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
        let address = format!("http://{}", server.server_addr().to_ip().unwrap());
        let bodies: BTreeMap<&str, Vec<u8>> = bodies.iter().cloned().collect();
        thread::spawn(move || {
            for request in server.incoming_requests() {
                let answer = match bodies.get(request.url()) {
                    Some(body) => tiny_http::Response::from_data(body.clone()),
                    None => tiny_http::Response::from_data("none").with_status_code(404),
                };
                let _ = request.respond(answer);
            }
        });
        address
    }

    #[test]
    fn a_trace_is_downloaded_once_and_then_already_there() {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("{}/tiny.csv", serve(&[("/tiny.csv", CONTENT.to_vec())]));
        let index = index(folder.path(), std::slice::from_ref(&address));
        let got = get(&index, &roots(folder.path()), "tiny", None).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(got.files[0].how, Acquisition::Downloaded { address });
        assert_eq!(fs::read(&got.files[0].path).unwrap(), CONTENT);
        assert_eq!(kept(folder.path()), ["tiny.csv"]);
        let again = get(&index, &roots(folder.path()), "tiny", None).unwrap();
        assert_eq!(again.files[0].how, Acquisition::AlreadyThere);
        assert!(again.to_string().starts_with("tiny: tiny.csv is already there and correct ("), "{again}");
    }

    #[test]
    fn a_compressed_trace_keeps_its_form_and_replaces_a_wrong_one() {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("{}/tiny.csv.gz", serve(&[("/tiny.csv.gz", gzip(CONTENT))]));
        let index = index(folder.path(), &[address]);
        let cache = folder.path().join("cache/traces/tiny-1");
        fs::create_dir_all(&cache).unwrap();
        fs::write(cache.join("tiny.csv"), "cut sho").unwrap();
        let got = get(&index, &roots(folder.path()), "tiny", None).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(got.files[0].path, cache.join("tiny.csv.gz"));
        assert_eq!(kept(folder.path()), ["tiny.csv.gz"]);
    }

    #[test]
    fn the_second_address_is_tried_where_the_first_does_not_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(&[("/tiny.csv", CONTENT.to_vec())]);
        let addresses = [format!("{server}/moved.csv"), format!("{server}/tiny.csv")];
        let got = get(&index(folder.path(), &addresses), &roots(folder.path()), "tiny", None).unwrap();
        assert_eq!(got.files[0].how, Acquisition::Downloaded { address: addresses[1].clone() });
    }

    #[test]
    fn what_has_the_wrong_sum_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        // The compressed form of the second body is cut off.
        let cut = gzip(CONTENT)[..20].to_vec();
        let server = serve(&[("/tiny.csv", b"another file\n".to_vec()), ("/cut.gz", cut)]);
        for name in ["tiny.csv", "cut.gz"] {
            let address = format!("{server}/{name}");
            let message =
                get(&index(folder.path(), std::slice::from_ref(&address)), &roots(folder.path()), "tiny", None)
                    .unwrap_err()
                    .to_string();
            assert!(message.starts_with(&format!("the content of {address} has sha256 ")), "{message}");
            assert!(message.ends_with("; it was not stored"), "{message}");
            assert_eq!(kept(folder.path()), [""; 0]);
        }
    }

    #[test]
    fn what_is_not_at_its_address_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("{}/gone.csv", serve(&[]));
        let message = get(&index(folder.path(), std::slice::from_ref(&address)), &roots(folder.path()), "tiny", None)
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with(&format!("failed to download {address}: ")) && message.contains("404"),
            "{message}"
        );
        let into = folder.path().join("cache/traces/tiny-1/tiny.csv");
        let next =
            format!("\ndownload it by hand from one of its addresses and put it at {}, plain, or", into.display());
        assert!(message.contains(&next), "{message}");
        assert_eq!(kept(folder.path()), [""; 0]);
    }

    #[test]
    fn a_connection_that_drops_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/tiny.csv", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", CONTENT.len());
                let _ = stream.write_all(&CONTENT[..20]);
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        let message = get(&index(folder.path(), std::slice::from_ref(&address)), &roots(folder.path()), "tiny", None)
            .unwrap_err()
            .to_string();
        assert!(message.starts_with(&format!("failed to download {address}: (18) ")), "{message}");
        assert_eq!(kept(folder.path()), [""; 0]);
    }

    #[test]
    fn without_curl_it_is_told_what_to_put_where() {
        let folder = tempfile::tempdir().unwrap();
        let index = index(folder.path(), &["https://example.org/a/tiny.csv.gz".to_string()]);
        let message = get_with(&index, &roots(folder.path()), "tiny", None, "no-such-program-as-curl").unwrap_err();
        let into = folder.path().join("cache/traces/tiny-1/tiny.csv.gz");
        assert_eq!(
            message.to_string(),
            format!(
                "cannot download without curl on the PATH; \
                 download https://example.org/a/tiny.csv.gz yourself and put it at {}",
                into.display()
            )
        );
    }

    #[test]
    fn a_trace_is_taken_from_a_folder_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let index = index(folder.path(), &["https://example.org/tiny.csv".to_string()]);
        let get = |from: &Path| get(&index, &roots(folder.path()), "tiny", Some(from));
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("tiny-1")).unwrap();
        let message = get(&source).unwrap_err().to_string();
        assert_eq!(message, format!("no tiny.csv or tiny.csv.gz in {}", source.display()));
        let from = source.join("tiny-1/tiny.csv.gz");
        fs::write(&from, gzip(b"another file\n")).unwrap();
        let message = get(&source).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{} is not the indexed tiny: ", from.display())), "{message}");
        assert_eq!(kept(folder.path()), [""; 0]);
        fs::write(&from, gzip(CONTENT)).unwrap();
        assert_eq!(get(&source).unwrap().files[0].how, Acquisition::Copied { from });
        assert_eq!(kept(folder.path()), ["tiny.csv.gz"]);
    }

    #[test]
    fn a_wrong_file_that_would_be_found_first_is_an_error_and_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let index = index(folder.path(), &["https://example.org/tiny.csv".to_string()]);
        let carried = folder.path().join("carried");
        fs::create_dir_all(carried.join("tiny-1")).unwrap();
        fs::write(carried.join("tiny-1/tiny.csv"), "changed").unwrap();
        let roots = Roots { carried: Some(carried.clone()), ..roots(folder.path()) };
        let message = get(&index, &roots, "tiny", None).unwrap_err().to_string();
        assert!(message.contains("takes precedence over the cache; remove or replace it"), "{message}");
        assert_eq!(fs::read(carried.join("tiny-1/tiny.csv")).unwrap(), b"changed");
        let nowhere = get(&index, &Roots::default(), "tiny", None).unwrap_err().to_string();
        assert!(nowhere.starts_with("there is no folder for traces: set DRYRACK_CACHE"), "{nowhere}");
    }

    #[test]
    fn only_this_machine_is_reached_past_a_proxy() {
        for address in ["http://127.0.0.1:80/a", "http://localhost/a", "http://127.0.0.1"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["http://127.0.0.1.example.org/", "https://example.org/127.0.0.1", "http://localhosts/"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
