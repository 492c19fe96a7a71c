//! Tests of installing, listing, checking and removing released schedulers, and of the error messages.

use std::path::Path;
use std::process::Command;

use assert_cmd::assert::OutputAssertExt;

use crate::cli::{dryrack, empty};

trials! {
    Nothing: [
        a_release_that_cannot_be_meant_is_said_and_nothing_is_done,
        an_empty_cache_lists_nothing_and_all_that_can_be_installed,
        a_python_that_will_not_do_is_said,
    ]
    Index: [
        released_for_real_reports_are_bisected_to_the_release_that_mended_them,
        released_for_real_ray_plans_nodes_and_gangs,
        released_for_real_what_is_installed_answers_and_decides_as_recorded,
        released_for_real_what_was_hunted_is_shown_by_the_release,
        released_for_real_an_index_out_of_reach_leaves_nothing,
        released_for_real_an_answer_that_nobody_stated_ends_the_driver_by_name,
    ]
}

/// `dryrack outside` with a separate cache.
fn outside(cache: &Path, args: &[&str]) -> Command {
    let typed: Vec<&str> = std::iter::once("outside").chain(args.iter().copied()).collect();
    let mut command = dryrack(cache, &typed);
    command.env("DRYRACK_CACHE", cache).env_remove("DRYRACK_PYTHON");
    command
}

/// The exit code, stdout and stderr.
fn said(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.output().expect("dryrack starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn a_release_that_cannot_be_meant_is_said_and_nothing_is_done() {
    let cache = empty();
    let rows: [(&[&str], &str); 7] = [
        (
            &["install", "gpustack==0.6.0", "gpustack==0.6.7", "dsack==0.19.9"],
            "error: there is no release gpustack==0.6.7 between 0.6.0 and 2.3.0; the nearest is gpustack==0.6.2\nerror: no \
             program is named dsack; did you mean `dstack`?\n",
        ),
        (&["install", "gpustack"], "error: name a release of gpustack, such as `gpustack==2.3.0`\n"),
        (
            &["remove", "gpustack==0.6.0"],
            "error: gpustack==0.6.0 is not installed; install it with `dryrack outside install gpustack==0.6.0`\n",
        ),
        (
            &["check", "gpustack==0.6.0", "records.jsonl"],
            "error: gpustack==0.6.0 is not installed; install it with `dryrack outside install gpustack==0.6.0`\n",
        ),
        (
            &["check", "slurm==22.5", "records.jsonl"],
            "error: no program is named slurm; known are dstack, gpustack, ray\n",
        ),
        (
            &["remove", "dstack==0.19.14"],
            "error: there is no release dstack==0.19.14 between 0.18.44 and 0.22.5; the nearest is dstack==0.19.13\n",
        ),
        (
            &["install", "dstack==1"],
            "error: there is no release dstack==1 between 0.18.44 and 0.22.5; the nearest is dstack==0.18.44\n",
        ),
    ];
    for (args, expected) in rows {
        assert_eq!(said(outside(cache.path(), args)), (Some(2), String::new(), expected.to_string()), "{args:?}");
    }
    assert!(!cache.path().join("outside").exists(), "nothing was made");
    let (code, _, help) = said(outside(cache.path(), &["install"]));
    assert!(code == Some(2) && help.contains("<RELEASE>..."), "{help}");
}

fn an_empty_cache_lists_nothing_and_all_that_can_be_installed() {
    let cache = empty();
    let nothing = "no release is installed; `dryrack outside list --all` lists all releases\n";
    assert_eq!(said(outside(cache.path(), &["list"])), (Some(0), nothing.to_string(), String::new()));
    let (code, all, _) = said(outside(cache.path(), &["list", "--all"]));
    assert_eq!(code, Some(0));
    for release in
        ["gpustack==0.6.0\n", "gpustack==2.3.0\n", "dstack==0.18.44\n", "dstack==0.19.10\n", "dstack==0.22.5\n"]
    {
        assert!(all.contains(release), "{release} in\n{all}");
    }
}

fn a_python_that_will_not_do_is_said() {
    let cache = empty();
    let with = |python: &str| {
        let mut command = outside(cache.path(), &["install", "gpustack==0.6.0"]);
        command.env("DRYRACK_PYTHON", python);
        said(command)
    };
    let expected = "error: DRYRACK_PYTHON is /bin/false, which is no Python that starts; expected Python 3.11\n";
    assert_eq!(with("/bin/false"), (Some(2), String::new(), expected.to_string()));
    let mut nowhere = outside(cache.path(), &["install", "gpustack==0.6.0"]);
    nowhere.env("PATH", "").env("HOME", cache.path());
    let (code, _, error) = said(nowhere);
    assert!(
        code == Some(2) && error.starts_with("error: Python 3.11 was not found: released programs run in"),
        "{error}"
    );
    let left = std::fs::read_dir(cache.path().join("outside/bases")).into_iter().flatten().count();
    assert_eq!(left, 0, "no half of a base is left");
}

/// The folder of environments. Existing environments are reused, so that a machine does not fetch them for each run.
fn kept_or(cache: &Path) -> std::path::PathBuf {
    std::env::var_os("DRYRACK_CACHE").map_or(cache.to_path_buf(), Into::into)
}

/// Compares one release of each program, from the package index, with its recorded decisions.
fn released_for_real_what_is_installed_answers_and_decides_as_recorded() {
    let temporary = empty();
    let cache = kept_or(temporary.path());
    for name in ["gpustack==0.6.0", "dstack==0.19.10"] {
        outside(&cache, &["install", name]).assert().success();
    }
    let again = said(outside(&cache, &["install", "gpustack==0.6.0"]));
    assert_eq!(again, (Some(0), "gpustack==0.6.0 is already installed\n".to_string(), String::new()));
    let (code, doctor, _) = said(outside(&cache, &["doctor"]));
    assert!(code == Some(0) && doctor.contains("gpustack==0.6.0    answers\n"), "{doctor}");
    let data = crate::data().expect("it is here").join("groundtruth");
    let rows = [
        ("gpustack==0.6.0", "gpustack/gpustack-0.6.0.jsonl.gz", "600 of 600 decisions are the same"),
        ("gpustack==0.6.0", "gpustack/gpustack-evaluate-0.6.0.jsonl.gz", "300 of 300 decisions are the same"),
        ("dstack==0.19.10", "dstack/matching.jsonl.gz", "150 of 150 decisions are the same"),
    ];
    for (name, file, expected) in rows {
        let (code, out, error) = said(outside(&cache, &["check", name, &data.join(file).to_string_lossy()]));
        assert!(code == Some(0) && out.contains(expected), "{name} {file}: {out}{error}");
    }
}

/// Each committed finding of a hunt is shown by the release in which it was found.
fn released_for_real_what_was_hunted_is_shown_by_the_release() {
    let temporary = empty();
    let cache = kept_or(temporary.path());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/hunted");
    let releases = RELEASES_HUNTED.map(|(release, _)| release);
    outside(&cache, &[&["install"], &releases[..]].concat()).assert().success();
    let mut command = dryrack(&cache, &["test", &folder.display().to_string()]);
    command.env("DRYRACK_CACHE", &cache).env_remove("DRYRACK_PYTHON");
    let (code, out, error) = said(command);
    assert!(code == Some(0) && !out.contains("not run"), "{out}{error}");
    for (release, findings) in RELEASES_HUNTED {
        let shown = out.matches(&format!("reproduced under {release}\n")).count();
        assert!(shown >= findings, "{release}: {shown} of {findings}\n{out}");
    }
}

/// The releases that were hunted, and the number of findings in `scenarios/hunted`.
const RELEASES_HUNTED: [(&str, usize); 2] = [("gpustack==2.3.0", 12), ("dstack==0.22.5", 1)];

/// Without a network, the error states the reason, and nothing is left that could be mistaken for an environment.
fn released_for_real_an_index_out_of_reach_leaves_nothing() {
    let cache = empty();
    let mut command = outside(cache.path(), &["install", "dstack==0.19.9"]);
    // A port of this machine on which nothing listens.
    command.env("PIP_INDEX_URL", "http://127.0.0.1:9/simple").env("PIP_CONFIG_FILE", "/dev/null");
    command.env_remove("PIP_FIND_LINKS").env_remove("PIP_EXTRA_INDEX_URL");
    let (code, out, error) = said(command);
    assert!(code == Some(2) && out.is_empty(), "{out}");
    assert!(error.starts_with("error: the package index cannot be reached: "), "{error}");
    let left: Vec<_> = std::fs::read_dir(cache.path().join("outside/bases")).expect("it was made").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A test program in place of a released one, which dryrack's own driver code runs.
const TOY: &str = "\
import dryrack_driver as shared

class Driver:
    name, version, wants, can = 'toy', '1', [], []
    def __init__(self):
        self.understood, self.stand_ins = set(), shared.StandIns()
        self.stand_ins.state('weights', 'toy.weights', 'model.weights')
    def options(self, data): pass
    def changed(self, world): pass
    def decide(self, world, waiting):
        self.stand_ins.begin()
        try:
            DECIDE
        except OSError:
            pass  # as programs do that fall back to something else
        return {'decisions': []}

def driver():
    return Driver()
";

/// The driver's stdout, its stderr, and its exit code.
fn asked(decide: &str) -> (String, String, Option<i32>) {
    let dir = empty();
    let carried = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/released/drivers");
    for name in ["main.py", "driver.py"] {
        std::fs::copy(carried.join(name), dir.path().join(name)).expect("it is carried");
    }
    std::fs::write(dir.path().join("toy.py"), TOY.replace("DECIDE", decide)).expect("a folder of our own");
    let mut command = Command::new("python3.11");
    command.arg("-I").arg(dir.path().join("main.py")).arg("toy").arg(dir.path());
    let messages = concat!(
        r#"{"type":"hello","protocol":1,"dryrack":"t","scenario":"t","seed":1,"can":[],"deadline_ns":1,"driver":null}"#,
        "\n",
        r#"{"type":"snapshot","now":0,"nodes":[],"fleets":[],"jobs":[],"runs":[]}"#,
        "\n",
        r#"{"type":"decide","id":1,"now":0,"waiting":[]}"#,
        "\n",
        r#"{"type":"bye","because":"over"}"#,
        "\n",
    );
    let output = assert_cmd::Command::from_std(command).write_stdin(messages).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.code())
}

fn released_for_real_an_answer_that_nobody_stated_ends_the_driver_by_name() {
    let rows = [
        ("__import__('socket').create_connection(('127.0.0.1', 9))", "fault: network: the program tried to leave"),
        ("__import__('subprocess').run(['true'])", "fault: process: the program tried to leave"),
        ("self.stand_ins.must_have_been('weights', 'it decided')", "fault: stand_in_unused: `weights` was not asked"),
        ("raise ValueError('odd')", "fault: driver_failed: ValueError: odd"),
    ];
    for (decide, fault) in rows {
        let (out, error, code) = asked(decide);
        assert!(code == Some(70) && error.contains(fault), "{decide}: {code:?} {error}");
        assert_eq!(out.lines().count(), 1, "only the greeting: {out}");
    }
    // The output of the program is not part of the protocol.
    let (out, error, code) = asked("print('noise')");
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(out.lines().last(), Some(r#"{"type":"decisions","id":1,"decisions":[]}"#));
    assert!(error.contains("noise"));
}

/// Ray decides as the scenarios say: where it differs from dryrack's profile, and where it does not.
fn released_for_real_ray_plans_nodes_and_gangs() {
    let temporary = empty();
    let cache = kept_or(temporary.path());
    outside(&cache, &["install", "ray==2.60.0"]).assert().success();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/ray");
    let run = |args: &[&str]| {
        let mut command = dryrack(&cache, args);
        command.env("DRYRACK_CACHE", &cache).env_remove("DRYRACK_PYTHON");
        said(command)
    };
    let (code, out, error) = run(&["test", &folder.display().to_string()]);
    assert!(code == Some(0) && out.contains("reproduced under ray==2.60.0"), "{out}{error}");
    let gang = folder.join("gang-waits-for-whole-room.yaml").display().to_string();
    let (code, out, error) = run(&["test", &gang, "--outside", "ray==2.60.0"]);
    assert_eq!(code, Some(0), "{out}{error}");
}

/// Two reports, each with a release that has the fault and the release that fixed it. The test finds these releases by
/// running them.
fn released_for_real_reports_are_bisected_to_the_release_that_mended_them() {
    let temporary = empty();
    let cache = kept_or(temporary.path());
    let rows = [
        ("dstack", "dstack/multinode-on-split-hosts", "dstack#2650", "0.19.9", "0.19.10"),
        ("gpustack", "gpustack/1933-judged-and-deployed-in-one-way", "gpustack#1933", "0.6.0", "0.6.1"),
    ];
    for (program, file, report, from, to) in rows {
        let names = [format!("{program}=={from}"), format!("{program}=={to}")];
        outside(&cache, &["install", &names[0], &names[1]]).assert().success();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/{file}.yaml")).display().to_string();
        let bisect = |more: &[&str]| {
            let args = ["bisect", &file, "--outside", program, "--from", from, "--to", to];
            let mut command = dryrack(&cache, &[&args, more].concat());
            command.env("DRYRACK_CACHE", &cache).env_remove("DRYRACK_PYTHON");
            said(command)
        };
        let (code, out, error) = bisect(&[]);
        let change = format!("\n{} is the first release that passes; {} fails\n", names[1], names[0]);
        assert!(code == Some(0) && out.contains(&change), "{out}{error}");
        let (code, out, error) = bisect(&["--reports"]);
        let row = out.lines().find(|line| line.starts_with(report)).unwrap_or_default();
        let historic = format!("{program}-{from} fails");
        let releases = format!("fails {from}, passes {to}");
        assert!(code == Some(0) && row.contains(&historic) && row.ends_with(&releases), "{out}{error}");
    }
}
