//! What real Slurms did with drawn workloads, held against what the profiles foretell: `tests/slurm/record` wrote the
//! recordings in `tests/data/slurm`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use dryrack::agreement;
use dryrack::control::Trigger;
use dryrack::engine::{Records, Rehearsal, RunOptions, run};
use dryrack::report::RunAccount;
use dryrack::scenario::{Options, load_text};
use dryrack::units::{SimDuration, SimTime};

/// How far apart the ticks of the controller's clock are without backfilling, in microseconds: it sleeps for a second and then
/// takes its time. Fitted on seeds 1 and 2 and on no other.
const PERIOD: i64 = 1_001_000;
/// How long passes take, likewise: by least squares of how far apart those were that started something.
const TAKES: &str = "{least: 713us}";
const BACKFILLING_TAKES: &str = "{least: 213us, each: 63us}";
/// `sched_interval` and `bf_interval` of all recordings, in milliseconds.
const SCHEDULING_PERIOD: i64 = 1000;
/// A start that is further off, in milliseconds, is another one.
const ANOTHER: i64 = 500;
const SECONDS_2: SimDuration = SimDuration::from_secs(2);
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
    /// Of the pass that started it.
    by: String,
    on: String,
}

/// Whose clocks a rehearsal goes by: its own, from when they were last seen to tick before the first submission, or those that
/// were recorded.
#[derive(Clone, Copy)]
enum Clocks<'a> {
    Foretold,
    Recorded(&'a [Vec<i64>; 2]),
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
    /// How many starts came before the first that is another one or elsewhere.
    alike: usize,
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
                by: row["by"].clone(),
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
    fn profile(&self, clocks: Clocks<'_>) -> String {
        let Some(backfill) = self.backfill else {
            let offset = (self.main * 1000).rem_euclid(PERIOD);
            return format!(
                "base: slurm-22.05-builtin\nname: its-clock\ntitle: As recorded\n\
                 passes: {{place: {{trigger: {{every: {PERIOD}us}}, offset: {offset}us}}}}\n"
            );
        };
        let ticks = match clocks {
            Clocks::Foretold => String::new(),
            Clocks::Recorded(ticks) => {
                let list = |times: &[i64]| times.iter().map(|at| format!("{at}ms")).collect::<Vec<_>>().join(", ");
                format!("ticks: {{place: [{}], backfill: [{}]}}\n", list(&ticks[0]), list(&ticks[1]))
            }
        };
        format!(
            "base: slurm-22.05\nname: its-clocks\ntitle: As recorded\n{ticks}passes:\n  \
             place: {{offset: {}ms, takes: {TAKES}}}\n  \
             backfill: {{offset: {backfill}ms, takes: {BACKFILLING_TAKES}}}\n",
            self.main
        )
    }

    /// When its passes began, of the main scheduler and of backfilling, where that was written beside it.
    fn ticks(path: &Path) -> Option<[Vec<i64>; 2]> {
        let text = std::fs::read_to_string(path.with_extension("ticks")).ok()?;
        let of = |pass: &str| -> Vec<i64> {
            let times = text.lines().filter_map(|line| line.strip_prefix(pass)?.strip_prefix(','));
            let mut times: Vec<i64> = times.map(|at| at.parse().expect("a number")).collect();
            times.dedup();
            times
        };
        Some(["main", "backfill"].map(of))
    }

    /// For how long a job held its nodes: where passes were recorded, since the one that started it began.
    fn lasts(job: &Recorded, clocks: Clocks<'_>) -> i64 {
        let began = match clocks {
            Clocks::Foretold => None,
            Clocks::Recorded([main, backfill]) => {
                let ticks = if job.by == "main" { main } else { backfill };
                ticks.iter().rev().find(|tick| **tick <= job.start).copied()
            }
        };
        job.end - began.unwrap_or(job.start)
    }

    /// The same submissions, each for as long as it ran. Slurm's priority falls by one with each submission, and by what
    /// `--nice` says.
    fn scenario(&self, clocks: Clocks<'_>) -> String {
        let mut text = "scenario: As submitted\nprofile: its-clocks.profile.yaml\nnodes:\n".to_string();
        for node in 1..=4 {
            writeln!(text, "  - {{name: n{node}, cpus: 8, gpus: [{{type: a100-40g, count: 2}}]}}").expect("text");
        }
        text.push_str("jobs:\n");
        for (place, job) in self.jobs.iter().enumerate() {
            let Recorded { nodes, gpus, limit, nice, submit, .. } = job;
            let (gang, lasts) = (if *nodes > 1 { ", gang: spread" } else { "" }, Recording::lasts(job, clocks));
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

    fn foretold(&self, clocks: Clocks<'_>) -> Vec<Foretold> {
        let folder = tempfile::TempDir::new().expect("a folder of our own");
        std::fs::write(folder.path().join("its-clocks.profile.yaml"), self.profile(clocks)).expect("ours");
        let loaded = load_text("recorded.yaml", &self.scenario(clocks), folder.path(), &Options::default());
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

    fn compare(&self, clocks: Clocks<'_>) -> Agreement {
        self.held_against(&self.foretold(clocks))
    }

    /// What another Slurm did with the same submissions, as if it had foretold this one.
    fn again(&self, other: &Recording) -> Agreement {
        let later = self.jobs[0].submit - other.jobs[0].submit;
        let told = |job: &Recorded| Foretold { start: job.start + later, end: job.end + later, on: job.on.clone() };
        self.held_against(&other.jobs.iter().map(told).collect::<Vec<Foretold>>())
    }

    fn held_against(&self, foretold: &[Foretold]) -> Agreement {
        assert_eq!(foretold.len(), self.jobs.len(), "{}", self.name);
        let both: Vec<(&Recorded, &Foretold)> = self.jobs.iter().zip(foretold).collect();
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
        let is_another = |(job, foretold): &&(&Recorded, &Foretold)| {
            (job.start - foretold.start).abs() > ANOTHER || job.on != foretold.on
        };
        let first = both.iter().filter(is_another).map(|(job, foretold)| job.start.min(foretold.start)).min();
        let alike = both.iter().filter(|(job, _)| first.is_none_or(|first| job.start < first)).count();
        Agreement { ordered, pairs, errors, makespans: [said, really], on_the_same_nodes, alike }
    }
}

impl Agreement {
    fn is_ordered(&self) -> bool {
        self.ordered * 100 >= self.pairs * 95
    }

    fn is_timed(&self) -> bool {
        let [said, really] = self.makespans;
        self.median() <= SCHEDULING_PERIOD && (said - really).abs() * 100 <= really
    }

    fn median(&self) -> i64 {
        self.errors[self.errors.len() / 2]
    }

    /// A line of the table of scenarios/SLURM.md.
    fn line(&self, name: &str) -> String {
        let [said, really] = self.makespans;
        let ordered = 100.0 * self.ordered as f64 / self.pairs as f64;
        let (seconds, more) = (|at: i64| at as f64 / 1e3, 100.0 * (said - really) as f64 / really as f64);
        format!(
            "| {name} | {ordered:.2} % | {:.3} s | {:.3} s | {:.1} s, {:.1} s | {more:+.2} % | {} | {} |\n",
            seconds(self.median()),
            seconds(self.errors[self.errors.len() * 9 / 10]),
            seconds(said),
            seconds(really),
            self.on_the_same_nodes,
            self.alike
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

/// What is asked of a recording. With backfilling a few milliseconds decide who passes, and from there on another job starts; of
/// two that are carried which way it goes is not foretold, and of others nobody knows (scenarios/SLURM.md has the figures).
fn holds(recording: &Recording, found: &Agreement, is_carried: bool) -> bool {
    let is_exact = found.on_the_same_nodes == recording.jobs.len();
    match (recording.backfill, recording.name.as_str()) {
        (None, _) => found.is_ordered() && found.is_timed() && is_exact,
        (Some(_), "backfill-3" | "backfill-4") => found.is_ordered(),
        (Some(_), _) => found.is_ordered() && (found.is_timed() || !is_carried),
    }
}

/// FIFO, of one seed: with backfilling a run takes seconds.
pub fn a_real_slurm_starts_jobs_as_its_profile_foretells() {
    let is_first = |path: &PathBuf| path.file_stem().is_some_and(|name| name == "builtin-1");
    check(recordings().into_iter().filter(is_first));
}

/// Seeds that were looked at and others that were not, each also by the clocks that were recorded, and against what the same Slurm
/// did with it another time (`NAME-again.csv`); or whatever is in the folder that DRYRACK_SLURM names.
pub fn slow_every_recording_of_slurm_is_met() {
    check(recordings().into_iter());
}

fn check(recordings: impl Iterator<Item = PathBuf>) {
    let (mut table, mut faults) = (String::new(), String::new());
    let is_carried = std::env::var_os("DRYRACK_SLURM").is_none();
    for path in recordings {
        let recording = Recording::read(&path);
        let found = recording.compare(Clocks::Foretold);
        let line = found.line(&recording.name);
        table += &line;
        if !holds(&recording, &found, is_carried) {
            faults += &line;
        }
        if let Some(ticks) = Recording::ticks(&path) {
            let found = recording.compare(Clocks::Recorded(&ticks));
            let line = found.line(&format!("{}, given its ticks", recording.name));
            table += &line;
            if !(found.is_ordered() && (found.is_timed() || !is_carried)) {
                faults += &line;
            }
        }
        let again = path.with_file_name(format!("{}-again.csv", recording.name));
        if again.exists() {
            table += &recording.again(&Recording::read(&again)).line(&format!("{}, Slurm again", recording.name));
        }
    }
    if let Some(folder) = std::env::var_os("DRYRACK_SLURM") {
        std::fs::write(PathBuf::from(folder).join("table.txt"), &table).expect("a folder that can be written to");
    }
    assert!(faults.is_empty(), "beyond what was asked for:\n{faults}of all:\n{table}");
}

/// What one with these clocks did is a recording of a Slurm whose clocks are not known: they are found, to the eighth of a period.
pub fn slow_clocks_are_found_again_from_what_they_started() {
    let recording = Recording::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/slurm/builtin-1.csv")));
    let folder = tempfile::TempDir::new().expect("a folder of our own");
    let rehearsal = |profile: &str| {
        std::fs::write(folder.path().join("its-clocks.profile.yaml"), profile).expect("ours");
        let mut text = recording.scenario(Clocks::Foretold);
        // The first sixty suffice.
        text.truncate(text.find("  - {name: j60,").expect("there are more"));
        load_text("recorded.yaml", &text, folder.path(), &Options::default())
            .unwrap_or_else(|faults| panic!("{faults}"))
    };
    let did = |rehearsal: &Rehearsal| {
        let mut records = Records::default();
        run(rehearsal, RunOptions::default(), &mut [&mut records]);
        records.0
    };
    let known = "base: slurm-22.05\nname: its-clocks\ntitle: One\n";
    let unknown = rehearsal(known).rehearsal;
    let passes =
        "passes:\n  place: {trigger: {every: 2s}, offset: 1s}\n  backfill: {trigger: {every: 2s}, offset: 1250ms}\n";
    let records = did(&rehearsal(&format!("{known}{passes}")).rehearsal);
    let names = dryrack::rehearse::names(&unknown);
    let recording = agreement::Recording { rehearsal: &unknown, records: &records, names: &names };
    let (found, later) = agreement::calibrate_outside(&[recording], did).expect("they started");
    let backfill = found.backfill.expect("it has a clock of its own");
    assert_eq!((found.place.trigger, backfill.trigger), (Trigger::Every(SECONDS_2), Trigger::Every(SECONDS_2)));
    assert_eq!((found.place.offset, backfill.offset), (SimDuration::from_secs(1), SimDuration::from_millis(1250)));
    assert_eq!(later, SimDuration::ZERO);
}
