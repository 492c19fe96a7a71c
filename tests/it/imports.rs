//! `dryrack import` as it is typed, on files that the code of released servers wrote (`tests/data/probe/README.md`).

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::cli::{dryrack, empty};

trials! {
    Nothing: [
        what_gpustack_keeps_is_a_scenario_that_runs,
        what_gpustack_answers_is_a_scenario_that_runs,
        nothing_that_somebody_named_is_left_after_anonymizing,
        the_wrong_file_is_told_what_was_expected,
    ]
}

pub const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/probe");

/// A folder with an unpacked database.
pub fn unpacked(name: &str) -> (TempDir, PathBuf) {
    let dir = empty();
    let path = dir.path().join("server.db");
    let packed = fs::File::open(format!("{DATA}/{name}.sqlite.gz")).expect("it is carried");
    let mut out = fs::File::create(&path).expect("a folder of our own");
    std::io::copy(&mut flate2::read::GzDecoder::new(packed), &mut out).expect("it is whole");
    (dir, path)
}

/// Runs a command that must exit with `code`; returns stdout and stderr.
fn run(dir: &Path, args: &[&str], code: i32) -> (String, String) {
    let output = dryrack(dir, args).output().expect("it is built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    (out, err)
}

fn import(kind: &str, from: &Path, dir: &Path, more: &[&str]) -> (String, String) {
    let from = from.display().to_string();
    run(dir, &[&["import", kind, &from, "--out", "out"][..], more].concat(), 0)
}

/// tests/upstream/gpustack/databases/write.py defines the contents of the databases.
fn what_gpustack_keeps_is_a_scenario_that_runs() {
    for (version, jobs) in [("0.4.1", 7), ("0.6.0", 7), ("0.7.1", 7)] {
        let (dir, file) = unpacked(&format!("gpustack-{version}"));
        let before = fs::read(&file).expect("it is there");
        let (out, err) = import("gpustack-db", &file, dir.path(), &[]);
        assert!(out.contains(&format!("4 nodes, {jobs} jobs, 1 recording")), "{version}: {out}");
        assert!(err.contains("left out: 1 model: it has no replicas"), "{version}: {err}");
        assert!(err.contains("left out: 1 model: neither its weights"), "{version}: {err}");
        assert_eq!(before, fs::read(&file).expect("it is there"), "{version} was written to");
        let text = fs::read_to_string(dir.path().join("out/scenario.yaml")).expect("it was written");
        let wanted = [
            "    gpus: [{type: a100-80g, memory: 80GiB, count: 4}]\n    reserved: {ram: 2GiB, gpu_memory: 1GiB}\n",
            "    labels: {arch: \"amd64\", zone: \"east\"}\n",
            "    state: not_ready\n",
            // Three replicas, one of which arrived four hours later.
            "  - {name: chat, at: 0s, replicas: 2, model: ",
            "parameters: [\"--gpu-memory-utilization=0.4\"]}\n",
            "changes:\n  - {at: 4h, job: chat, replicas: 3}\n",
            "placement: binpack",
            "selector: {zone: \"east\"}",
            // The claim that the server computed for an instance.
            "  - {name: on-the-mac, at: 1h40m, gpus: 1, gpu_memory: 12900000000B, ram: 1400000000B}\n",
            "  # Recorded: scheduled, on rack-a/3 (40GiB), gone-dark/0 (60GiB).\n  - {name: over-two, at: 2h, nodes: 2, ",
            "until: 10h\n",
        ];
        for line in wanted {
            assert!(text.contains(line), "{version}: {line}\n{text}");
        }
        // Since 0.6 the server records the sizes of the files that it downloaded.
        let has_files = version != "0.4.1";
        assert_eq!(text.contains("{name: mine, weights: 25421645KiB}"), has_files, "{version}: {text}");
        assert!(!text.contains("somebody") && !text.contains("192.0.2") && !text.contains("api-key"), "{text}");
        // A tenth of the rows of ten hours: one for each hour.
        let usage = dryrack_trace::read_usage_csv(&dir.path().join("out/usage/all-gpus.csv")).expect("a recording");
        assert_eq!(usage.rows.len(), 10, "{version}");
        run(dir.path(), &["check", "out/scenario.yaml"], 0);
        // For 0.4.1 the size of the model whose two GPUs were picked is not known, so it is taken to fit neither.
        let fails = i32::from(!has_files);
        let (out, _) = run(dir.path(), &["run", "out/scenario.yaml"], fails);
        assert!(out.contains("7 = "), "{version}: {out}");
        assert_eq!(out.contains("1 of 7 jobs can never run"), !has_files, "{version}: {out}");
        let profile = format!("gpustack-{}", if has_files { version } else { "0.6.0" });
        run(dir.path(), &["run", "out/scenario.yaml", "--profile", &profile], 0);
    }
}

fn what_gpustack_answers_is_a_scenario_that_runs() {
    let dir = empty();
    let pages = Path::new(DATA).join("gpustack-2.3.0");
    let (out, err) = import("gpustack-rest", &pages, dir.path(), &[]);
    assert!(out.contains("4 nodes, 5 jobs, 0 recordings"), "{out}");
    assert!(err.contains("left out: 1 model: it has no replicas"), "{err}");
    let text = fs::read_to_string(dir.path().join("out/scenario.yaml")).expect("it was written");
    let picked = "parameters: [\"--tensor-parallel-size=2\"], gpus: [\"rack-a/0\", \"rack-a/1\"]}";
    assert!(text.contains(picked) && text.contains("changes:\n  - {at: 4h, job: chat, replicas: 3}"), "{text}");
    run(dir.path(), &["check", "out/scenario.yaml"], 0);
    run(dir.path(), &["run", "out/scenario.yaml"], 0);
    // If there are several pages, all must be present.
    let copy = dir.path().join("pages");
    fs::create_dir(&copy).expect("a folder of our own");
    for name in ["workers", "models", "model-instances"] {
        fs::copy(pages.join(format!("{name}.json")), copy.join(format!("{name}.json"))).expect("copied");
    }
    let text = fs::read_to_string(copy.join("models.json")).expect("it is there");
    fs::write(copy.join("models.json"), text.replace("\"total\": 6", "\"total\": 106")).expect("written");
    let (_, err) = run(dir.path(), &["import", "gpustack-rest", "pages", "--out", "more"], 2);
    assert!(err.contains("expected all 106 rows, found 6"), "{err}");
    fs::write(copy.join("models.json"), "{\"code\": 401, \"message\": \"Invalid authentication\"}").expect("written");
    let (_, err) = run(dir.path(), &["import", "gpustack-rest", "pages", "--out", "more"], 2);
    assert!(err.contains("it says `Invalid authentication`"), "{err}");
    fs::write(copy.join("models.json"), "{\"items\": [{\"id\": 1, \"na").expect("written");
    let (_, err) = run(dir.path(), &["import", "gpustack-rest", "pages", "--out", "more"], 2);
    assert!(err.contains("models.json:1:") && err.contains("expected JSON"), "{err}");
    fs::remove_file(copy.join("models.json")).expect("it was there");
    let (_, err) = run(dir.path(), &["import", "gpustack-rest", "pages", "--out", "more"], 2);
    assert!(err.contains("expected a file `models.json`, the answer of /v2/models"), "{err}");
    assert!(!dir.path().join("more").exists());
}

/// All names, labels, addresses and paths that users gave.
const GIVEN: [&str; 27] = [
    "rack-a",
    "desk",
    "studio",
    "gone-dark",
    "chat",
    "picked",
    "search",
    "mine",
    "too-large",
    "stopped",
    "on-the-mac",
    "nobody",
    "over-two",
    "Qwen/",
    "bge-m3",
    "qwen2.5",
    "deepseek",
    "west",
    "east",
    "zone",
    "192.0.2",
    "srv",
    "somebody",
    "example.org",
    "uuid",
    "aaaaa",
    "cache",
];

fn nothing_that_somebody_named_is_left_after_anonymizing() {
    let mut sources = vec![("gpustack-rest", empty(), Path::new(DATA).join("gpustack-2.3.0"))];
    for version in ["0.4.1", "0.6.0", "0.7.1"] {
        let (dir, file) = unpacked(&format!("gpustack-{version}"));
        sources.push(("gpustack-db", dir, file));
    }
    for (kind, dir, file) in sources {
        let (out, err) = import(kind, &file, dir.path(), &["--anonymize"]);
        let text = fs::read_to_string(dir.path().join("out/scenario.yaml")).expect("it was written");
        for given in GIVEN {
            assert!(!text.contains(given), "{}: {given}\n{text}", file.display());
            assert!(!err.contains(given), "{}: {given}\n{err}", file.display());
        }
        assert!(out.contains("4 nodes"), "{out}");
        assert!(text.contains("label-1: \"value-1\"") && text.contains("selector: {label-1: \"value-2\"}"), "{text}");
        assert!(text.contains("  - {name: model-1, at: 0s, replicas: 2, model: {name: model-1, weights: "), "{text}");
        run(dir.path(), &["check", "out/scenario.yaml"], 0);
        run(dir.path(), &["run", "out/scenario.yaml", "--set", "unplaced=ignore"], 0);
    }
    let (dir, file) = unpacked("dstack-0.22.5");
    import("dstack-db", &file, dir.path(), &["--anonymize"]);
    let text = fs::read_to_string(dir.path().join("out/scenario.yaml")).expect("it was written");
    assert!(!text.contains("train") && !text.contains("chat") && !text.contains("lab"), "{text}");
}

fn the_wrong_file_is_told_what_was_expected() {
    let (dir, dstack) = unpacked("dstack-0.22.5");
    let (_other, gpustack) = unpacked("gpustack-0.7.1");
    let path = |path: &Path| path.display().to_string();
    let folder = path(dir.path());
    fs::write(dir.path().join("text"), "no database, but long enough to be taken for one ".repeat(80))
        .expect("written");
    let mut half = fs::read(&gpustack).expect("it is there");
    half.truncate(half.len() / 2);
    fs::write(dir.path().join("half"), half).expect("written");
    let (text, half) = (path(&dir.path().join("text")), path(&dir.path().join("half")));
    let (dstack, gpustack) = (path(&dstack), path(&gpustack));
    let rows: [(&str, &str, &str); 8] = [
        ("gpustack-db", "nothing-here", "does not exist; expected the SQLite file of a GPUStack server"),
        ("gpustack-db", &folder, "is not a file"),
        ("gpustack-db", &dstack, "it has no table `workers`"),
        ("dstack-db", &gpustack, "it has no table `instances`"),
        ("gpustack-db", &text, "file is not a database"),
        ("gpustack-db", &half, "malformed"),
        ("gpustack-rest", &gpustack, "is not a folder"),
        ("gpustack-rest", &folder, "expected a file `workers.json`"),
    ];
    for (kind, file, wanted) in rows {
        let (_, err) = run(dir.path(), &["import", kind, file, "--out", "never"], 2);
        assert!(err.contains(wanted), "{kind} {file}: {err}");
        assert!(!dir.path().join("never").exists(), "{kind} {file}");
    }
}
