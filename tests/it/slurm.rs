//! What real Slurms did with drawn workloads, held against what the profiles foretell: `tests/slurm/record` wrote the
//! recordings in `tests/data/slurm`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use dryrack::engine::{RunOptions, run};
use dryrack::report::RunAccount;
use dryrack::scenario::{Options, load_text};
use dryrack::units::SimTime;

/// How far apart the ticks of the controller's clocks are, in microseconds: it sleeps for a second and then takes its time,
/// for backfilling more of it. Fitted on seeds 1 and 2 and on no other.
const PERIOD: i64 = 1_001_000;
const PERIOD_OF_BACKFILLING: i64 = 1_002_500;
/// The main scheduler finds backfilling at work and waits until it is done, so that it follows it by so much, likewise.
const BEHIND: i64 = 3_000;
/// `sched_interval` and `bf_interval` of all recordings, in milliseconds.
const SCHEDULING_PERIOD: i64 = 1000;
/// Starts that lie further apart than this have an order, in milliseconds.
const APART: i64 = 2000;

/// A recording: times in milliseconds since a whole minute.
struct Recording {
    name: String,
    /// The last passes before the first submission: of the main scheduler, and of backfilling where there is any.
    main: i64,
    backfill: Option<i64>,
    jobs: Vec<Recorded>,
}

struct Recorded {
    nodes: u32,
    gpus: u32,
    limit: u32,
    nice: i64,
    submit: i64,
    start: i64,
    end: i64,
    on: String,
}

/// What was foretold: when it is placed, when it is over, and where.
struct Foretold {
    start: i64,
    end: i64,
    on: String,
}

/// How far what was foretold is from what was recorded.
struct Agreement {
    /// Of the pairs whose starts were recorded further than [`APART`], those in the same order.
    ordered: usize,
    pairs: usize,
    /// Whatever the sign, in milliseconds, in order.
    errors: Vec<i64>,
    /// From the first submission to the last end.
    makespans: [i64; 2],
    on_the_same_nodes: usize,
}

impl Recording {
    fn read(path: &Path) -> Recording {
        let text = std::fs::read_to_string(path).expect("a recording");
        let clocks = text.lines().nth(1).expect("a second line");
        let clock = |name: &str| {
            let (_, after) = clocks.split_once(&format!("{name} ")).expect(name);
            after.split(' ').next().and_then(|number| number.parse::<i64>().ok())
        };
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let job = |row: BTreeMap<String, String>| {
            let number = |name: &str| row[name].parse::<i64>().expect(name);
            Recorded {
                nodes: number("nodes") as u32,
                gpus: number("gpus") as u32,
                limit: number("limit_min") as u32,
                nice: number("nice"),
                submit: number("submit_ms"),
                start: number("start_ms"),
                end: number("end_ms"),
                on: row["on"].clone(),
            }
        };
        Recording {
            name: path.file_stem().expect("a file").to_string_lossy().into_owned(),
            main: clock("main").expect("its main scheduler ran"),
            backfill: clock("backfill"),
            jobs: reader.deserialize().map(|row| job(row.expect("a row"))).collect(),
        }
    }

    /// The profile with the clocks of that controller: when they began to tick was known before the first submission.
    fn profile(&self) -> String {
        let Some(backfill) = self.backfill else {
            let offset = (self.main * 1000).rem_euclid(PERIOD);
            return format!(
                "base: slurm-22.05-builtin\nname: its-clock\ntitle: As recorded\n\
                 passes: {{place: {{trigger: {{every: {PERIOD}us}}, offset: {offset}us}}}}\n"
            );
        };
        let offset = (backfill * 1000).rem_euclid(PERIOD_OF_BACKFILLING);
        format!(
            "base: slurm-22.05\nname: its-clocks\ntitle: As recorded\npasses:\n  \
             place: {{trigger: {{every: {PERIOD_OF_BACKFILLING}us}}, offset: {}us}}\n  \
             backfill: {{trigger: {{every: {PERIOD_OF_BACKFILLING}us}}, offset: {offset}us}}\n",
            offset + BEHIND
        )
    }

    /// The same submissions, each for as long as it ran. Slurm's priority falls by one with each submission, and by what
    /// `--nice` says.
    fn scenario(&self) -> String {
        let mut text = "scenario: As submitted\nprofile: its-clocks.profile.yaml\nnodes:\n".to_string();
        for node in 1..=4 {
            writeln!(text, "  - {{name: n{node}, cpus: 8, gpus: [{{type: a100-40g, count: 2}}]}}").expect("text");
        }
        text.push_str("jobs:\n");
        for (place, job) in self.jobs.iter().enumerate() {
            let Recorded { nodes, gpus, limit, nice, submit, start, end, .. } = job;
            let (gang, lasts) = (if *nodes > 1 { ", gang: spread" } else { "" }, end - start);
            let priority = -(place as i64) - nice;
            writeln!(
                text,
                "  - {{name: j{place}, at: {submit}ms, tasks: {nodes}{gang}, cpus: 1, gpus: {gpus}, \
                 estimate: {limit}m, duration: {lasts}ms, priority: {priority}}}"
            )
            .expect("text");
        }
        text
    }

    fn foretold(&self) -> Vec<Foretold> {
        let folder = tempfile::TempDir::new().expect("a folder of our own");
        std::fs::write(folder.path().join("its-clocks.profile.yaml"), self.profile()).expect("ours");
        let loaded = load_text("recorded.yaml", &self.scenario(), folder.path(), &Options::default());
        let loaded = loaded.unwrap_or_else(|faults| panic!("{faults}"));
        let mut accounts = RunAccount::default();
        let end = run(&loaded.rehearsal, RunOptions::default(), &mut [&mut accounts]);
        accounts.finish(end.at);
        let milliseconds = |at: Option<SimTime>| (at.expect("it ran").as_nanos() / 1_000_000) as i64;
        let job = |job: &dryrack::report::JobAccount| {
            let replica = &job.replicas[0];
            let claims = replica.placement.as_ref().expect("it was placed").claims();
            let mut nodes: Vec<&str> = claims.iter().map(|claim| accounts.names.node(claim.node)).collect();
            nodes.sort_unstable();
            Foretold { start: milliseconds(replica.placed), end: milliseconds(replica.ended), on: nodes.join(" ") }
        };
        accounts.jobs.values().map(job).collect()
    }

    fn compare(&self) -> Agreement {
        let foretold = self.foretold();
        assert_eq!(foretold.len(), self.jobs.len(), "{}", self.name);
        let both: Vec<(&Recorded, &Foretold)> = self.jobs.iter().zip(&foretold).collect();
        let (mut ordered, mut pairs) = (0, 0);
        for (place, (one, one_foretold)) in both.iter().enumerate() {
            for (other, other_foretold) in &both[..place] {
                let (really, foretold) = (one.start - other.start, one_foretold.start - other_foretold.start);
                if really.abs() >= APART {
                    pairs += 1;
                    ordered += usize::from(really.signum() == foretold.signum());
                }
            }
        }
        let mut errors: Vec<i64> = both.iter().map(|(job, foretold)| (foretold.start - job.start).abs()).collect();
        errors.sort_unstable();
        let first = self.jobs[0].submit;
        let really = self.jobs.iter().map(|job| job.end).max().expect("a job") - first;
        let said = foretold.iter().map(|job| job.end).max().expect("a job") - first;
        let on_the_same_nodes = both.iter().filter(|(job, foretold)| job.on == foretold.on).count();
        Agreement { ordered, pairs, errors, makespans: [said, really], on_the_same_nodes }
    }
}

impl Agreement {
    fn median(&self) -> i64 {
        self.errors[self.errors.len() / 2]
    }

    /// A line of the table of scenarios/SLURM.md.
    fn line(&self, name: &str) -> String {
        let [said, really] = self.makespans;
        let ordered = 100.0 * self.ordered as f64 / self.pairs as f64;
        let (seconds, more) = (|at: i64| at as f64 / 1e3, 100.0 * (said - really) as f64 / really as f64);
        format!(
            "| {name} | {ordered:.2} % | {:.3} s | {:.3} s | {:.1} s, {:.1} s | {more:+.2} % | {} of {} |\n",
            seconds(self.median()),
            seconds(self.errors[self.errors.len() * 9 / 10]),
            seconds(said),
            seconds(really),
            self.on_the_same_nodes,
            self.errors.len()
        )
    }
}

/// The recordings that are carried, or those in the folder that DRYRACK_SLURM names.
fn recordings() -> Vec<PathBuf> {
    let named = std::env::var_os("DRYRACK_SLURM").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/slurm").into());
    let files = std::fs::read_dir(folder).expect("a folder of recordings");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "csv"));
    files.sort_unstable();
    assert!(!files.is_empty(), "no recordings");
    files
}

/// What is asked of a recording. With backfilling a few milliseconds decide who passes, and from there on another job starts;
/// which way it goes is not foretold but for the seeds on which the clocks were fitted (scenarios/SLURM.md has the figures).
fn holds(recording: &Recording, found: &Agreement) -> bool {
    let [said, really] = found.makespans;
    let is_ordered = found.ordered * 100 >= found.pairs * 95;
    let is_timed = found.median() <= SCHEDULING_PERIOD && (said - really).abs() * 100 <= really;
    let is_exact = found.on_the_same_nodes == recording.jobs.len();
    match (recording.backfill, recording.name.as_str()) {
        (None, _) => is_ordered && is_timed && is_exact,
        (Some(_), "backfill-1" | "backfill-2") => is_ordered && is_timed,
        (Some(_), _) => is_ordered,
    }
}

/// FIFO, of one seed: with backfilling a run takes seconds.
pub fn a_real_slurm_starts_jobs_as_its_profile_foretells() {
    let is_first = |path: &PathBuf| path.file_stem().is_some_and(|name| name == "builtin-1");
    check(recordings().into_iter().filter(is_first));
}

/// Two seeds that were looked at and two that were not; or whatever is in the folder that DRYRACK_SLURM names.
pub fn slow_every_recording_of_slurm_is_met() {
    check(recordings().into_iter());
}

fn check(recordings: impl Iterator<Item = PathBuf>) {
    let (mut table, mut faults) = (String::new(), String::new());
    for path in recordings {
        let recording = Recording::read(&path);
        let found = recording.compare();
        let line = found.line(&recording.name);
        table += &line;
        if !holds(&recording, &found) {
            faults += &line;
        }
    }
    if let Some(folder) = std::env::var_os("DRYRACK_SLURM") {
        std::fs::write(PathBuf::from(folder).join("table.txt"), &table).expect("a folder that can be written to");
    }
    assert!(faults.is_empty(), "beyond what was asked for:\n{faults}of all:\n{table}");
}
