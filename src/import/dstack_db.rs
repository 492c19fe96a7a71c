//! Imports a dstack server's database as a scenario: the instances of its fleets, its runs, and the recorded GPU
//! utilization of every job. The history can then be replayed under another policy.
//!
//! The file is opened read-only. The tables are those of dstack 0.22.5 (server/models.py). Columns that an older
//! release lacks are optional. Unknown values are left out and counted. For example, the database does not show how
//! long a run would have taken if it never started. For a run of several nodes, the usage is that of its first node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use super::found::free_name;
use super::imported::{ImportError, Imported, Names, Origin, counted, time};
use super::sqlite::Database;
use dryrack_live::probe::shown;
use dryrack_units::SimDuration;
use dryrack_yaml::scalar;

struct Instance {
    place: String,
    fleet: String,
    name: String,
    offer: Value,
    blocks: i64,
}

/// One submission of one job.
struct Job {
    place: String,
    id: String,
    run: String,
    run_id: String,
    replica: i64,
    number: i64,
    submitted: i64,
    running: Option<i64>,
    processed: i64,
    status: String,
    spec: Value,
}

/// Usage points: a time in milliseconds and, for each GPU, the utilization in percent and the memory in bytes.
type Points = Vec<(i64, Vec<Option<f64>>, Vec<Option<u64>>)>;

/// For each key of a host, the database column from which it is made.
const OF_INSTANCES: [(&str, &str); 12] = [
    ("name", "name"),
    ("cpus", "offer"),
    ("ram", "offer"),
    ("gpus", "offer"),
    ("type", "offer"),
    ("memory", "offer"),
    ("count", "offer"),
    ("blocks", "total_blocks"),
    ("disk", "offer"),
    ("backend", "offer"),
    ("region", "offer"),
    ("price_per_hour", "offer"),
];
/// For each key of a job, the database column from which it is made.
const OF_JOBS: [(&str, &str); 6] = [
    ("name", "run_name"),
    ("at", "submitted_at"),
    ("duration", "last_processed_at"),
    ("nodes", "job_num"),
    ("resources", "job_spec_data"),
    ("utilization_policy", "job_spec_data"),
];

const TABLES: [&str; 5] = ["instances", "fleets", "runs", "jobs", "job_metrics_points"];

pub fn import_dstack(path: &Path, names: Names) -> Result<Imported, ImportError> {
    let database = Database::open(path, "dstack")?;
    database.require(&TABLES)?;
    let instances = instances(&database)?;
    if instances.is_empty() {
        return Err(ImportError::malformed(
            "table `instances`",
            "an instance with an offer, which states its resources",
        ));
    }
    let jobs = jobs(&database)?;
    let points = points(&database, &jobs)?;
    let (imported, origins) = Writer::new(names).write(&instances, &jobs, &points);
    imported.checked(&origins)
}

fn instances(database: &Database) -> Result<Vec<Instance>, ImportError> {
    let mut fleets = BTreeMap::new();
    database.each("fleets", |row| {
        fleets.insert(row.require_text("id")?.to_string(), row.require_text("name")?.to_string());
        Ok(())
    })?;
    // Instances are ordered by fleet and number. Those without a fleet come first.
    let mut found = BTreeMap::new();
    database.each("instances", |row| {
        let offer = row.json("offer")?;
        // An instance that was never created has no offer.
        if offer.is_null() {
            return Ok(());
        }
        let fleet = row.text("fleet_id")?.and_then(|id| fleets.get(id)).cloned();
        let order = (fleet.clone(), row.integer("instance_num")?, found.len());
        let (place, name) = (row.place(), row.require_text("name")?.to_string());
        let blocks = row.integer("total_blocks")?.unwrap_or(1);
        found.insert(
            order,
            Instance { place, fleet: fleet.unwrap_or_else(|| "fleet".to_string()), name, offer, blocks },
        );
        Ok(())
    })?;
    Ok(found.into_values().collect())
}

fn jobs(database: &Database) -> Result<Vec<Job>, ImportError> {
    let mut found = BTreeMap::new();
    database.each("jobs", |row| {
        let job = Job {
            place: row.place(),
            id: row.require_text("id")?.to_string(),
            run: row.require_text("run_name")?.to_string(),
            run_id: row.require_text("run_id")?.to_string(),
            replica: row.require_integer("replica_num")?,
            number: row.require_integer("job_num")?,
            submitted: row.require_millis("submitted_at")?,
            running: row.millis("running_at")?,
            processed: row.require_millis("last_processed_at")?,
            status: row.require_text("status")?.to_ascii_uppercase(),
            spec: row.json("job_spec_data")?,
        };
        let submission = row.integer("submission_num")?;
        // Use the time as text, which is exact to the microsecond.
        let submitted = row.require_text("submitted_at")?.to_string();
        found.insert((submitted, job.run_id.clone(), job.replica, job.number, submission, job.id.clone()), job);
        Ok(())
    })?;
    Ok(found.into_values().collect())
}

/// The usage points of each job, by the job's id, in order of time.
fn points(database: &Database, jobs: &[Job]) -> Result<BTreeMap<String, Points>, ImportError> {
    let mut found: BTreeMap<String, Points> = jobs.iter().map(|job| (job.id.clone(), Points::new())).collect();
    database.each("job_metrics_points", |row| {
        // Ignore points of jobs that no longer exist.
        let Some(points) = found.get_mut(row.require_text("job_id")?) else { return Ok(()) };
        let list = |column: &str| -> Result<Vec<Value>, ImportError> {
            match row.json(column)? {
                Value::Null => Ok(Vec::new()),
                Value::Array(list) => Ok(list),
                _ => Err(row.malformed(column, "a list")),
            }
        };
        let percent = |one: &Value| one.as_f64().filter(|one| (0.0..=100.0).contains(one));
        let used = list("gpus_util_percent")?.iter().map(percent).collect();
        let memory = list("gpus_memory_usage_bytes")?.iter().map(Value::as_u64).collect();
        points.push((row.require_count("timestamp_micro", 1_000_000)?, used, memory));
        Ok(())
    })?;
    for points in found.values_mut() {
        points.sort_by_key(|(at, ..)| *at);
        // If several points have the same millisecond, keep the one with the lowest id.
        points.dedup_by_key(|(at, ..)| *at);
    }
    Ok(found)
}

struct Writer {
    names: Names,
    runs: BTreeSet<String>,
    hosts: BTreeSet<String>,
    imported: Imported,
    origins: Vec<Origin>,
    never_ran: u64,
    still_run: u64,
}

impl Writer {
    fn new(names: Names) -> Writer {
        let (runs, hosts) = (BTreeSet::new(), BTreeSet::new());
        let (imported, origins) = (Imported::default(), Vec::new());
        Writer { names, runs, hosts, imported, origins, never_ran: 0, still_run: 0 }
    }

    fn write(
        mut self,
        instances: &[Instance],
        jobs: &[Job],
        points: &BTreeMap<String, Points>,
    ) -> (Imported, Vec<Origin>) {
        let mut text =
            String::from("scenario: The runs of a dstack server, as its database has them\nprofile: dstack\n");
        self.fleets(&mut text, instances);
        self.jobs(&mut text, jobs, points);
        let hosts = counted(self.hosts.len(), "host");
        self.imported.holds = vec![hosts, counted(self.runs.len(), "job")];
        self.imported.scenario = text;
        for (count, what) in [
            (self.never_ran, "never ran, so their duration is unknown: left out"),
            (self.still_run, "had not ended: the end of the database counts as their end"),
        ] {
            if count > 0 {
                self.imported.notes.push(format!("{} {what}", counted(count as usize, "run")));
            }
        }
        (self.imported, self.origins)
    }

    fn fleets(&mut self, text: &mut String, instances: &[Instance]) {
        let mut fleets: Vec<(&str, Vec<&Instance>)> = Vec::new();
        for instance in instances {
            match fleets.iter_mut().find(|(name, _)| *name == instance.fleet) {
                Some((_, members)) => members.push(instance),
                None => fleets.push((&instance.fleet, vec![instance])),
            }
        }
        text.push_str(if fleets.is_empty() { "fleets: {}\n" } else { "fleets:\n" });
        let mut taken = BTreeSet::new();
        for (index, (fleet, members)) in fleets.into_iter().enumerate() {
            let name = self.name(fleet, "fleet", index, &mut taken);
            let origin = |from, place: String| Origin { from, place, columns: &OF_INSTANCES };
            self.origins.push(origin(text.len(), format!("table `fleets`, the row of `{}`", shown(fleet))));
            let _infallible = writeln!(text, "  {}:\n    hosts:", scalar(&name, true));
            for member in members {
                let mut hosts = std::mem::take(&mut self.hosts);
                let name = self.name(&member.name, "host", hosts.len(), &mut hosts);
                self.hosts = hosts;
                self.origins.push(origin(text.len(), member.place.clone()));
                let _infallible = writeln!(text, "      - {}", host(&name, member));
            }
        }
    }

    fn name(&self, name: &str, kind: &str, index: usize, taken: &mut BTreeSet<String>) -> String {
        match self.names {
            Names::Kept => free_name(name, taken),
            Names::Numbered => free_name(&format!("{kind}-{}", index + 1), taken),
        }
    }

    fn jobs(&mut self, text: &mut String, jobs: &[Job], points: &BTreeMap<String, Points>) {
        let first = jobs.iter().map(|job| job.submitted).min().unwrap_or(0);
        let end = jobs.iter().map(|job| job.processed).chain(points.values().filter_map(|all| Some(all.last()?.0)));
        let end = end.max().unwrap_or(first);
        // Each replica of a run becomes a separate job, because replicas start and end independently.
        let mut replicas: BTreeMap<(&str, i64), Vec<&Job>> = BTreeMap::new();
        for job in jobs {
            replicas.entry((job.run_id.as_str(), job.replica)).or_default().push(job);
        }
        let mut entries = String::new();
        let of_fleets = self.origins.len();
        for job in jobs {
            // Replicas are in the order of their first jobs.
            if let Some(own) = replicas.remove(&(job.run_id.as_str(), job.replica)) {
                self.entry(&mut entries, &own, first, end, points);
            }
        }
        text.push_str(if entries.is_empty() { "jobs: []\n" } else { "jobs:\n" });
        let before = text.len();
        self.origins[of_fleets..].iter_mut().for_each(|origin| origin.from += before);
        text.push_str(&entries);
    }

    /// Writes the entry for all submissions of all jobs of one replica.
    fn entry(&mut self, text: &mut String, own: &[&Job], first: i64, end: i64, points: &BTreeMap<String, Points>) {
        let nodes = own.iter().map(|job| job.number).collect::<BTreeSet<_>>().len();
        // The last submission of the first node represents the replica.
        let Some(job) = own.iter().rfind(|job| job.number == 0) else { return };
        let empty = Points::new();
        let used = points.get(&job.id).unwrap_or(&empty);
        let Some(start) = job.running.or_else(|| Some(used.first()?.0)) else {
            self.never_ran += 1;
            return;
        };
        let has_ended = matches!(job.status.as_str(), "TERMINATED" | "FAILED" | "DONE" | "ABORTED");
        self.still_run += u64::from(!has_ended);
        let length = if has_ended { job.processed } else { end }.saturating_sub(start).max(1);
        let mut runs = std::mem::take(&mut self.runs);
        let name = self.name(&job.run, "run", runs.len(), &mut runs);
        self.runs = runs;
        let at = own.iter().map(|job| job.submitted).min().unwrap_or(first) - first;
        self.origins.push(Origin { from: text.len(), place: job.place.clone(), columns: &OF_JOBS });
        let _infallible =
            write!(text, "  - {{name: {}, at: {}, duration: {}", scalar(&name, true), time(at), time(length));
        if nodes > 1 {
            let _infallible = write!(text, ", nodes: {nodes}");
        }
        let resources = without_nulls(&job.spec["requirements"]["resources"]);
        if !resources.is_null() {
            let _infallible = write!(text, ", resources: {resources}");
        }
        let policy = &job.spec["utilization_policy"];
        if let (Some(minimum), Some(window)) = (policy["min_gpu_utilization"].as_u64(), policy["time_window"].as_u64())
        {
            let _infallible =
                write!(text, ", utilization_policy: {{min_gpu_utilization: {minimum}%, time_window: {window}s}}");
        }
        if let Some(recording) = recording(used, start) {
            let path = format!("usage/{name}.csv");
            let _infallible = write!(text, ", usage: {{csv: {}}}", scalar(&path, false));
            self.imported.recordings.push((path, recording));
        }
        text.push_str("}\n");
    }
}

/// The entry of a host. The offer states its resources, which may include different kinds of GPUs.
fn host(name: &str, instance: &Instance) -> String {
    let has = &instance.offer["instance"]["resources"];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let mut groups: Vec<(String, u64)> = Vec::new();
    for gpu in has["gpus"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let kind = scalar(gpu["name"].as_str().unwrap_or("unsaid"), true);
        let one = format!("type: {kind}, memory: {}MiB", number(&gpu["memory_mib"]));
        match groups.last_mut() {
            Some((last, count)) if *last == one => *count += 1,
            _ => groups.push((one, 1)),
        }
    }
    let gpus: Vec<String> = groups.iter().map(|(one, count)| format!("{{{one}, count: {count}}}")).collect();
    let mut text = format!(
        "{{name: {}, cpus: {}, ram: {}MiB",
        scalar(name, true),
        number(&has["cpus"]),
        number(&has["memory_mib"])
    );
    let _infallible = write!(text, ", gpus: [{}], blocks: {}", gpus.join(", "), instance.blocks.max(1));
    if let Some(disk) = has["disk"]["size_mib"].as_u64() {
        let _infallible = write!(text, ", disk: {disk}MiB");
    }
    for key in ["backend", "region"] {
        if let Some(word) = instance.offer[key].as_str() {
            let _infallible = write!(text, ", {key}: {}", scalar(word, false));
        }
    }
    if let Some(price) = instance.offer["price"].as_f64().filter(|price| *price > 0.0) {
        let _infallible = write!(text, ", price_per_hour: {price}");
    }
    text + "}"
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

/// The recording in the form for `usage: {csv: ...}`: times are relative to the start of the job, with one column for
/// each GPU. `None` for a job without GPUs.
fn recording(points: &Points, start: i64) -> Option<String> {
    let width = points.iter().map(|(_, used, _)| used.len()).max().filter(|width| *width > 0)?;
    let names: Vec<String> = (0..width).map(|gpu| format!("gpu{gpu}")).collect();
    let mut text = format!(
        "time,{},{}\n",
        names.join(","),
        names.iter().map(|name| format!("{name}_memory")).collect::<Vec<_>>().join(",")
    );
    for (at, used, memory) in points.iter().filter(|(at, ..)| *at >= start) {
        text.push_str(&SimDuration::from_millis((at - start) as u64).to_decimal_seconds());
        for gpu in 0..width {
            match used.get(gpu).copied().flatten() {
                Some(percent) => {
                    let _infallible = write!(text, ",{percent}");
                }
                None => text.push_str(",N/A"),
            }
        }
        for gpu in 0..width {
            match memory.get(gpu).copied().flatten() {
                Some(bytes) => {
                    let _infallible = write!(text, ",{bytes}");
                }
                None => text.push_str(",N/A"),
            }
        }
        text.push('\n');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Imports a database that dstack 0.22.5 wrote: see tests/data/probe/README.md.
    fn imported(names: Names) -> Imported {
        let packed: &[u8] = include_bytes!("../../tests/data/probe/dstack-0.22.5.sqlite.gz");
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).expect("it is whole");
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("sqlite.db");
        std::fs::write(&path, bytes).expect("written");
        import_dstack(&path, names).expect("it is read")
    }

    /// The server had two hosts with two A100 each. One run took both GPUs of a host. The other run took one or two
    /// GPUs, under a policy of 30 % over 10 minutes. Both were submitted in the same second. Each run has twelve
    /// points, 10 s apart, which start at 97 % and at 50 % and fall.
    #[test]
    fn a_database_of_dstack_is_a_scenario_with_recordings() {
        let imported = imported(Names::Kept);
        let wanted = [
            "  lab:\n    hosts:\n      - {name: lab-0, cpus: 16, ram: 131072MiB, gpus: [{type: A100, memory: 81920MiB, count: 2}], \
             blocks: 1, disk: 66560MiB",
            "  - {name: train, at: 0s, duration: 1m50s, resources: {",
            "utilization_policy: {min_gpu_utilization: 30%, time_window: 600s}, usage: {csv: \"usage/chat.csv\"}}",
        ];
        for text in wanted {
            assert!(imported.scenario.contains(text), "{text}\n{}", imported.scenario);
        }
        assert_eq!(imported.notes, ["2 runs had not ended: the end of the database counts as their end"]);
        let chat = imported.recordings.iter().find(|(path, _)| path == "usage/chat.csv").expect("it has one");
        let lines: Vec<&str> = chat.1.lines().collect();
        assert_eq!(lines.len(), 13);
        assert_eq!(lines[0], "time,gpu0,gpu1,gpu0_memory,gpu1_memory");
        assert_eq!((lines[1], lines[12]), ("0,50,0,5368709120,5368709120", "110,0,0,5368709120,5368709120"));
    }

    #[test]
    fn what_was_imported_is_a_valid_scenario() {
        let imported = imported(Names::Kept);
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("usage")).expect("made");
        for (path, text) in &imported.recordings {
            std::fs::write(dir.path().join(path), text).expect("written");
        }
        let path = dir.path().join("scenario.yaml");
        std::fs::write(&path, &imported.scenario).expect("written");
        let said = dryrack_scenario::check(&path, &dryrack_scenario::Options::default());
        assert!(!said.has_errors(), "{said}\n{}", imported.scenario);
    }

    #[test]
    fn names_can_be_left_behind() {
        let imported = imported(Names::Numbered);
        for name in ["train", "chat", "lab"] {
            assert!(!imported.scenario.contains(name), "{name}\n{}", imported.scenario);
        }
        assert_eq!(
            imported.recordings.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
            ["usage/run-1.csv", "usage/run-2.csv"]
        );
    }

    #[test]
    fn what_is_no_database_of_dstack_is_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let rubbish = dir.path().join("rubbish.db");
        std::fs::write(&rubbish, "not a database, but long enough to be taken for one".repeat(40)).expect("written");
        let said = import_dstack(&rubbish, Names::Kept).map(|_| ()).unwrap_err().to_string();
        assert!(said.contains("not a database"), "{said}");
        let empty = dir.path().join("empty.db");
        std::fs::write(&empty, "").expect("written");
        let said = import_dstack(&empty, Names::Kept).map(|_| ()).unwrap_err().to_string();
        assert!(said.contains("no table `instances`"), "{said}");
    }
}
