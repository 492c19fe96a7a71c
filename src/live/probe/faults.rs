//! Tests of all faults of programs, pages and machines that a probe must handle. A real process or a real socket causes
//! each fault. Each case must end in time with a named reason, and leave no process behind.
//!
//! The readings come from these sources: nvidia-smi for a GeForce RTX 2080 with driver 440.64, in GitHub
//! Ricks-Lab/gpu-utils#83; amd-smi, in GitHub dstackai/dstack runner/internal/runner/metrics/metrics_test.go
//! @43fae1d09d2b; hl-smi, in GitHub 2maz/slurm-monitor tests/slurm_monitor/devices/test_gpu.py @0b32253993e8; and
//! GitHub NVIDIA/dcgm-exporter#568.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[cfg(target_os = "linux")]
use super::faults_of_machine;
use super::{Exporter, Gpustack, Kubernetes, Missing, Probe, Slurm, Smi, SmiKind, Snapshot};
use crate::clock::{Clock, Deadline, pause, sim_duration};
use dryrack_units::SimDuration;

/// The expected result of a case: a reading, a reason for the whole poll, or a reason for GPU 0's utilization.
enum Wanted {
    Read,
    Whole(&'static str),
    Gpu(&'static str),
}
use Wanted::{Gpu, Read as Fine, Whole};

/// A sentence that names the case, the script, its time limit in milliseconds, and the expected result.
type Case = (&'static str, &'static str, u64, Wanted);

/// A time limit in milliseconds that suffices even if the machine is busy with other work.
const PATIENT: u64 = 20_000;
const SHORT: u64 = 400;
/// How much later than its deadline a poll may end, because killing and reaping take time on a busy machine.
const AFTER: SimDuration = SimDuration::from_secs(8);

const LINE: &str = "LINE='0, GPU-22b2c6ac-2d49-4863-197c-9c469071178a, GeForce RTX 2080, 7979, [N/A], 86, 440.64, 7.5'\n\
                    HEAD='0, GPU-22b2c6ac-2d49-4863-197c-9c469071178a, GeForce RTX 2080, 7979'\n";

const NVIDIA: [Case; 37] = [
    ("it answers", "echo \"$LINE\"", PATIENT, Fine),
    ("it hangs", "sleep 300", SHORT, Whole("timed_out")),
    ("it hangs and ignores every polite signal", "trap '' TERM INT HUP; sleep 300", SHORT, Whole("timed_out")),
    ("it answers and hangs", "echo \"$LINE\"; sleep 300", SHORT, Whole("timed_out")),
    ("it closes its output and hangs", "exec >&- 2>&-; sleep 300", SHORT, Whole("timed_out")),
    (
        "it drips a letter at a time",
        "for l in 0 , ' ' G P U; do printf \"$l\"; sleep 1; done; sleep 300",
        SHORT,
        Whole("timed_out"),
    ),
    ("it spins", "while :; do :; done", SHORT, Whole("timed_out")),
    ("it stops itself", "kill -STOP $$", SHORT, Whole("timed_out")),
    ("its child holds the pipe after its end", "sleep 300 & echo \"$LINE\"", PATIENT, Fine),
    ("its child holds the pipe in a session of its own", "setsid sleep 300 & sleep 0.2; echo \"$LINE\"", PATIENT, Fine),
    (
        "it starts a hundred children that hang",
        "for i in $(seq 100); do sleep 300 & done; sleep 300",
        2000,
        Whole("timed_out"),
    ),
    ("its grandchild hangs", "bash -c 'bash -c \"sleep 300\"; true'; true", SHORT, Whole("timed_out")),
    ("it prints nothing", "true", PATIENT, Whole("silent")),
    ("it prints spaces", "echo '   '; echo", PATIENT, Whole("silent")),
    ("it prints half a line", "printf '0, GPU-22b2c6ac-2d49-4863'", PATIENT, Whole("half_line")),
    ("it prints a line and half a line", "echo \"$LINE\"; printf '1, GPU-2'", PATIENT, Whole("half_line")),
    ("it is killed in the middle", "printf '0, GPU-'; kill -9 $$", PATIENT, Whole("killed")),
    ("it crashes", "kill -SEGV $$", PATIENT, Whole("killed")),
    ("it aborts after an answer", "echo \"$LINE\"; kill -ABRT $$", PATIENT, Whole("killed")),
    (
        "no driver is loaded",
        "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9",
        PATIENT,
        Whole("no_driver"),
    ),
    ("no devices are found", "echo 'No devices were found'", PATIENT, Whole("no_driver")),
    (
        "the library does not fit the driver",
        "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
        PATIENT,
        Whole("exited"),
    ),
    ("it fails without a word", "exit 1", PATIENT, Whole("exited")),
    (
        "a field is older than its driver",
        "case \"$1\" in *compute_cap*) echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2;; esac; echo \"${LINE%, 7.5}\"",
        PATIENT,
        Fine,
    ),
    ("utilization is [N/A]", "echo \"$HEAD, 5, [N/A], 440.64, 7.5\"", PATIENT, Gpu("not_available")),
    (
        "utilization is [Not Supported]",
        "echo \"$HEAD, 5, [Not Supported], 440.64, 7.5\"",
        PATIENT,
        Gpu("not_supported"),
    ),
    (
        "utilization is [Unknown Error]",
        "echo \"$HEAD, 5, [Unknown Error], 440.64, 7.5\"",
        PATIENT,
        Gpu("unknown_error"),
    ),
    ("the GPU is lost", "echo \"$HEAD, [GPU is lost], [GPU is lost], 440.64, 7.5\"", PATIENT, Gpu("vanished")),
    ("utilization is NaN", "echo \"$HEAD, 5, NaN, 440.64, 7.5\"", PATIENT, Gpu("not_a_number")),
    ("utilization is infinite", "echo \"$HEAD, 5, inf, 440.64, 7.5\"", PATIENT, Gpu("infinite")),
    ("utilization is beyond 100", "echo \"$HEAD, 5, 250, 440.64, 7.5\"", PATIENT, Gpu("out_of_range")),
    ("utilization is a word", "echo \"$HEAD, 5, busy, 440.64, 7.5\"", PATIENT, Gpu("malformed")),
    ("one figure too few", "echo \"$HEAD, 5, 86, 440.64\"", PATIENT, Whole("malformed")),
    ("one figure too many", "echo \"$LINE, 9\"", PATIENT, Whole("malformed")),
    ("the same GPU twice", "echo \"$LINE\"; echo \"$LINE\"", PATIENT, Whole("malformed")),
    ("rubbish", "head -c 4096 /dev/urandom", PATIENT, Whole("")),
    ("ten megabytes", "yes \"$LINE\" | head -c 10000000", PATIENT, Whole("too_much")),
];

const OTHERS: [(SmiKind, Case); 16] = [
    (
        SmiKind::Gaudi,
        (
            "hl-smi answers",
            "echo '0, 00P1-HL2000A1-14-P64W99-13-05-03, HL-205, 32768, 512, 15, 1.18.0-fw-53.1.1.1'",
            PATIENT,
            Fine,
        ),
    ),
    (SmiKind::Gaudi, ("hl-smi hangs", "sleep 300", SHORT, Whole("timed_out"))),
    (
        SmiKind::Gaudi,
        (
            "hl-smi says N/A",
            "echo '0, 00P1-HL2000A1-14-P64W99-13-05-03, HL-205, 32768, 512, N/A, 1.18.0-fw-53.1.1.1'",
            PATIENT,
            Gpu("not_available"),
        ),
    ),
    (SmiKind::Gaudi, ("hl-smi breaks off", "printf '0, 00P1-HL2000A1-14'", PATIENT, Whole("half_line"))),
    (
        SmiKind::Amd,
        ("amd-smi answers", "printf 'gpu,gfx,gfx_clock,vram_used,vram_total\\n0,10,132,283,196300\\n'", PATIENT, Fine),
    ),
    (
        SmiKind::Amd,
        (
            "amd-smi says N/A",
            "printf 'gpu,gfx,gfx_clock,vram_used,vram_total\\n0,N/A,N/A,283,196300\\n'",
            PATIENT,
            Gpu("not_available"),
        ),
    ),
    (
        SmiKind::Amd,
        ("amd-smi has another column", "printf 'gpu,vram_used,vram_total\\n0,283,196300\\n'", PATIENT, Gpu("unsaid")),
    ),
    (
        SmiKind::Amd,
        ("amd-smi lists no GPU", "printf 'gpu,gfx,gfx_clock,vram_used,vram_total\\n'", PATIENT, Whole("no_driver")),
    ),
    (
        SmiKind::Amd,
        (
            "amd-smi warns first",
            "printf 'WARNING: no permission\\ngpu,gfx,vram_used,vram_total\\n0,10,283,196300\\n'",
            PATIENT,
            Fine,
        ),
    ),
    (
        SmiKind::Amd,
        ("amd-smi prints an error alone", "echo 'AMDSMI_STATUS_DRIVER_NOT_LOADED'", PATIENT, Whole("malformed")),
    ),
    (
        SmiKind::Amd,
        (
            "amd-smi leaves out a figure",
            "printf 'gpu,gfx,gfx_clock,vram_used,vram_total\\n0,10,132,283\\n'",
            PATIENT,
            Whole("malformed"),
        ),
    ),
    (
        SmiKind::Amd,
        (
            "amd-smi counts GPUs by word",
            "printf 'gpu,gfx,gfx_clock,vram_used,vram_total\\nfirst,10,132,283,1\\n'",
            PATIENT,
            Whole("malformed"),
        ),
    ),
    (SmiKind::Amd, ("amd-smi drips", "printf 'gpu,gfx'; sleep 300", SHORT, Whole("timed_out"))),
    (SmiKind::Gaudi, ("hl-smi is not there", "", PATIENT, Whole("not_installed"))),
    (SmiKind::Gaudi, ("hl-smi is told to stop", "kill -TERM $$", PATIENT, Whole("killed"))),
    (SmiKind::Gaudi, ("hl-smi says what is no text", "printf '\\xff\\xfe\\n'", PATIENT, Whole("not_text"))),
];

/// Writes a script and makes it a program. A child process writes it: a file that is open for writing cannot be executed,
/// and a process that another thread starts meanwhile has a copy of every open file for a moment.
pub(super) fn write_program(path: &Path, text: &str) {
    let write = "cat >\"$0\" && chmod 755 \"$0\"";
    let mut shell = Command::new("sh").args(["-c", write]).arg(path).stdin(Stdio::piped()).spawn().expect("a shell");
    shell.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    assert!(shell.wait().expect("it ends").success(), "{} was not written", path.display());
}

struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Stage {
        Stage(tempfile::tempdir().expect("a folder"))
    }

    /// Writes a script with this name. It works in this folder, which identifies every process that it starts.
    fn script(&self, name: &str, body: &str) -> std::path::PathBuf {
        let path = self.0.path().join(name);
        if !body.is_empty() {
            let text = format!("#!/bin/bash\ncd \"$(dirname \"$0\")\"\n{LINE}{body}\n");
            write_program(&path, &text);
        }
        path
    }

    /// The processes that still work in this folder.
    fn left(&self) -> Vec<String> {
        let own = fs::canonicalize(self.0.path()).expect("it is there");
        let works_here = |pid: &Path| fs::read_link(pid.join("cwd")).is_ok_and(|folder| folder == own);
        let pids = fs::read_dir("/proc").expect("procfs").flatten().map(|entry| entry.path());
        pids.filter(|pid| works_here(pid)).map(|pid| pid.display().to_string()).collect()
    }
}

/// Polls once and checks that it ends in time, ends as expected, and leaves no process behind.
fn judge(sentence: &str, probe: &mut dyn Probe, millis: u64, wanted: &Wanted, stage: Option<&Stage>) {
    let (clock, within) = (Clock::start(), Duration::from_millis(millis));
    let snapshot = probe.poll(&clock, Deadline::within(within));
    let took = clock.now().since_start;
    assert!(took < sim_duration(within) + AFTER, "{sentence}: took {took}");
    match (wanted, &snapshot) {
        (Wanted::Read, Ok(Snapshot { nodes, .. })) => {
            assert!(nodes[0].gpus[0].utilization.is_ok(), "{sentence}: {:?}", nodes[0].gpus[0]);
        }
        (Wanted::Gpu(name), Ok(Snapshot { nodes, .. })) => {
            let found = nodes[0].gpus[0].utilization.as_ref().map_err(Missing::name);
            assert_eq!(found.err(), Some(*name), "{sentence}");
        }
        // For random bytes, any reason is correct that says that they were not understood.
        (Wanted::Whole(""), Err(why)) => {
            assert!(matches!(why.name(), "not_text" | "malformed" | "half_line"), "{sentence}: {why}");
        }
        (Wanted::Whole(name), Err(why)) => assert_eq!(why.name(), *name, "{sentence}: {why}"),
        (_, found) => panic!("{sentence}: {found:?}"),
    }
    let Some(stage) = stage else { return };
    // A killed process disappears once its parent has reaped it. Its parent may be the init process, so wait for a
    // while.
    let deadline = Deadline::within(Duration::from_secs(5));
    while !stage.left().is_empty() && !deadline.has_passed() {
        pause(Duration::from_millis(10));
    }
    assert_eq!(stage.left(), Vec::<String>::new(), "{sentence}: left behind");
}

#[test]
fn whatever_nvidia_smi_does_ends_in_a_named_reason_and_leaves_nothing_behind() {
    for (sentence, script, millis, wanted) in &NVIDIA {
        let stage = Stage::new();
        let program = stage.script("nvidia-smi", script);
        judge(sentence, &mut Smi::at(SmiKind::Nvidia, program), *millis, wanted, Some(&stage));
    }
}

#[test]
fn whatever_other_programs_do_ends_in_a_named_reason_and_leaves_nothing_behind() {
    for (kind, (sentence, script, millis, wanted)) in &OTHERS {
        let stage = Stage::new();
        let program = stage.script("smi", script);
        judge(sentence, &mut Smi::at(*kind, program), *millis, wanted, Some(&stage));
    }
    let stage = Stage::new();
    let program = stage.script("nvidia-smi", "echo \"$LINE\"");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).expect("made no program");
    let mut probe = Smi::at(SmiKind::Nvidia, program);
    judge(NO_PROGRAM, &mut probe, PATIENT, &Whole("not_permitted"), Some(&stage));
}

const NO_PROGRAM: &str = "it is no program";

const TOOLS: [(&str, &str, &str, Wanted); 9] = [
    (
        "kubectl reaches nobody",
        "kubectl",
        "echo 'Unable to connect to the server: dial tcp' >&2; exit 1",
        Whole("exited"),
    ),
    ("kubectl is silent", "kubectl", "true", Whole("silent")),
    ("kubectl breaks off", "kubectl", "printf '{\"items\": [{\"metadata\": {\"name\": \"n'", Whole("half_line")),
    ("kubectl prints a table", "kubectl", "echo 'NAME STATUS ROLES AGE VERSION'", Whole("malformed")),
    ("kubectl lists nothing of the kind", "kubectl", "echo '{\"items\": null}'", Whole("malformed")),
    ("a node has no name", "kubectl", "echo '{\"items\": [{}]}'", Whole("malformed")),
    (
        "the controller is down",
        "sinfo",
        "echo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)' >&2; exit 1",
        Whole("exited"),
    ),
    ("sinfo knows no JSON", "sinfo", "echo \"sinfo: unrecognized option '--json'\" >&2; exit 1", Whole("exited")),
    ("squeue is not there", "sinfo", "echo '{\"nodes\": []}'", Whole("not_installed")),
];

#[test]
fn whatever_the_tools_of_a_cluster_do_ends_in_a_named_reason() {
    for (sentence, program, script, wanted) in &TOOLS {
        let stage = Stage::new();
        let path = stage.script(program, script);
        let mut probe: Box<dyn Probe> = match *program {
            "kubectl" => Box::new(Kubernetes::at(path)),
            _ => Box::new(Slurm::at(stage.0.path())),
        };
        judge(sentence, probe.as_mut(), PATIENT, wanted, Some(&stage));
    }
}

/// How the test server treats a client whose request it has read.
type Served = fn(&mut TcpStream);

fn report(stream: &mut TcpStream, status: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _unheard = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Runs a server for one case, until no client connects for a while.
fn serve(served: Served) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut request = [0; 4096];
                let _length = stream.read(&mut request);
                served(&mut stream);
            });
        }
    });
    address
}

const PAGE: &str = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-ee71aa82-daa8-8d70-fbe8-cd508976034f\",device=\"nvidia0\",\
                    modelName=\"NVIDIA RTX A4000\",Hostname=\"xxxxx\"} 38\n";

const PAGES: [(&str, Served, u64, Wanted); 16] = [
    ("the page is there", |to| report(to, "200 OK", PAGE.as_bytes()), PATIENT, Fine),
    ("the server hangs", |_| pause(Duration::from_secs(30)), SHORT, Whole("timed_out")),
    (
        "the page drips",
        |to| {
            let _unheard = to.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            for letter in PAGE.bytes().cycle().take(600) {
                if to.write_all(&[letter]).is_err() {
                    return;
                }
                pause(Duration::from_millis(50));
            }
        },
        SHORT,
        Whole("timed_out"),
    ),
    ("the server closes at once", |_| {}, PATIENT, Whole("unreachable")),
    (
        "it sends half of what it promised",
        |to| {
            let _unheard = to.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nDCGM_FI");
        },
        PATIENT,
        Whole("unreachable"),
    ),
    (
        "it speaks no HTTP",
        |to| {
            let _unheard = to.write_all(b"\x00\x01\x02\x03");
        },
        PATIENT,
        Whole("unreachable"),
    ),
    ("401", |to| report(to, "401 Unauthorized", b"no"), PATIENT, Whole("refused")),
    ("404", |to| report(to, "404 Not Found", b"no"), PATIENT, Whole("refused")),
    ("503", |to| report(to, "503 Service Unavailable", b""), PATIENT, Whole("refused")),
    (
        "it sends us round in circles",
        |to| {
            let _unheard = to.write_all(
                b"HTTP/1.1 302 Found\r\nLocation: /metrics\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        },
        PATIENT,
        Whole("unreachable"),
    ),
    ("an empty page", |to| report(to, "200 OK", b""), PATIENT, Whole("malformed")),
    ("a page of HTML", |to| report(to, "200 OK", b"<html><body>login</body></html>"), PATIENT, Whole("malformed")),
    ("a page of bytes", |to| report(to, "200 OK", &[0xff; 64]), PATIENT, Whole("not_text")),
    ("ten megabytes", |to| report(to, "200 OK", &[b'#'; 10_000_000]), PATIENT, Whole("too_much")),
    ("NaN", |to| report(to, "200 OK", PAGE.replace(" 38", " NaN").as_bytes()), PATIENT, Gpu("not_a_number")),
    (
        "a number for what is not supported",
        |to| report(to, "200 OK", PAGE.replace(" 38", " 9223372036854775794").as_bytes()),
        PATIENT,
        Gpu("not_supported"),
    ),
];

const ADDRESSES: [&str; 3] = ["nobody listens", "no such scheme", "JSON breaks off"];

#[test]
fn whatever_a_page_does_ends_in_a_named_reason_before_its_deadline() {
    for (sentence, served, millis, wanted) in &PAGES {
        judge(sentence, &mut Exporter::new(&serve(*served), None), *millis, wanted, None);
    }
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let rubbish = serve(|to| report(to, "200 OK", b"{\"items\": [{\"name\": \"a\", "));
    let [first, second, third] = ADDRESSES;
    judge(first, &mut Exporter::new(&format!("http://{nobody}"), None), PATIENT, &Whole("unreachable"), None);
    judge(second, &mut Exporter::new("file:///etc/passwd", None), PATIENT, &Whole("unreachable"), None);
    judge(third, &mut Gpustack::new(&rubbish, None), PATIENT, &Whole("half_line"), None);
}

#[cfg(target_os = "linux")]
#[test]
fn whatever_disks_clocks_and_numbers_of_processes_do_ends_in_a_named_reason() {
    for (sentence, act, wanted) in &faults_of_machine::CASES {
        let clock = Clock::start();
        let came = act();
        assert!(came.starts_with(wanted), "{sentence}: {came}");
        let took = clock.now().since_start;
        assert!(took < sim_duration(Duration::from_millis(PATIENT)), "{sentence}: took {took}");
    }
}

/// All cases by name. `cargo test --lib faults -- --nocapture` lists them.
#[cfg(target_os = "linux")]
#[test]
fn at_least_sixty_faults_are_done_each_under_a_name_of_its_own() {
    let names = (NVIDIA.iter().map(|case| ("nvidia-smi", case.0)))
        .chain(OTHERS.iter().map(|case| ("amd-smi and hl-smi", case.1.0)))
        .chain([("nvidia-smi", NO_PROGRAM)])
        .chain(TOOLS.iter().map(|case| ("kubectl and Slurm", case.0)))
        .chain(PAGES.iter().map(|case| ("a page", case.0)))
        .chain(ADDRESSES.map(|case| ("an address", case)))
        .chain(faults_of_machine::CASES.iter().map(|case| ("the machine", case.0)));
    let all: Vec<(&str, &str)> = names.collect();
    for (number, (of, name)) in all.iter().enumerate() {
        println!("{:3}  {of}: {name}", number + 1);
    }
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "two of one name");
    // Cases without a fault do not count.
    let is_fine = |wanted: &Wanted| matches!(wanted, Wanted::Read);
    let fine = NVIDIA.iter().map(|case| &case.3).chain(OTHERS.iter().map(|case| &case.1.3));
    let fine = fine.chain(TOOLS.iter().map(|case| &case.3)).chain(PAGES.iter().map(|case| &case.3));
    let faults = all.len() - fine.filter(|wanted| is_fine(wanted)).count();
    assert!(faults >= 60, "{faults} faults");
}
