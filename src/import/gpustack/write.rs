//! Writes a scenario from the data of a GPUStack server.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::super::found::{FoundOptions, amount, comment, entry};
use super::super::imported::{ImportError, Imported, NameBook, Names, Origin, counted, time};
use super::ask::{Ask, ask, parts};
use super::{StoredRow, StoredRows, flag, millis, text, word};
use dryrack_live::clock::{Stamp, Wall};
use dryrack_live::probe::{NodeSnapshot, gpustack_worker, shown};
use dryrack_units::{Bytes, SimDuration};
use dryrack_yaml::scalar;

/// Instances created within this many milliseconds count as created together.
const TOGETHER: i64 = 1000;

/// For each key of a node, the field from which it is made.
const OF_WORKERS: [(&str, &str); 13] = [
    ("name", "name"),
    ("cpus", "status"),
    ("ram", "status"),
    ("gpus", "status"),
    ("type", "status"),
    ("memory", "status"),
    ("driver", "status"),
    ("os", "labels"),
    ("arch", "labels"),
    ("labels", "labels"),
    ("reserved", "system_reserved"),
    ("gpu_memory", "system_reserved"),
    ("state", "state"),
];
/// For each key of a job, the field from which it is made. The weights, and the resources that an instance takes, come
/// from other rows, whose names are given here.
const OF_MODELS: [(&str, &str); 19] = [
    ("name", "name"),
    ("at", "created_at"),
    ("replicas", "replicas"),
    ("model", "huggingface_repo_id"),
    ("weights", "model_files.size"),
    ("category", "categories"),
    ("backend", "backend"),
    ("placement", "placement_strategy"),
    ("distributed", "distributed_inference_across_workers"),
    ("parameters", "backend_parameters"),
    ("gpus", "gpu_selector"),
    ("pick_gpus", "gpu_selector"),
    ("gpus_per_replica", "gpu_selector"),
    ("gpu_memory", "model_instances.computed_resource_claim"),
    ("ram", "model_instances.computed_resource_claim"),
    ("nodes", "model_instances.distributed_servers"),
    ("on", "worker_selector"),
    ("labels", "worker_selector"),
    ("selector", "worker_selector"),
];

const HEAD: &str = "scenario: The models of a GPUStack server, as it keeps them\nprofile: gpustack\n";

pub(super) fn write(kept: &StoredRows, names: Names) -> Result<Imported, ImportError> {
    if kept.workers.is_empty() {
        return Err(ImportError::malformed(kept.workers_in, "a worker, because a scenario needs nodes"));
    }
    let mut writer = Writer {
        names,
        workers: NameBook::new(names, "worker"),
        models: NameBook::new(names, "model"),
        labels: NameBook::new(names, "label"),
        values: NameBook::new(names, "value"),
        gpus: BTreeMap::new(),
        by_id: BTreeMap::new(),
        left_out: BTreeMap::new(),
        origins: Vec::new(),
    };
    let mut text = String::from(HEAD);
    writer.nodes(&mut text, kept)?;
    let jobs = writer.jobs(kept)?;
    let first = jobs.iter().map(|job| job.at).min().unwrap_or(0);
    let end = end(kept)?.max(first);
    writer.write_jobs(&mut text, &jobs, first);
    writer.origins.push(Origin { from: text.len(), place: "the last date of all rows".to_string(), columns: &[] });
    let _infallible = writeln!(text, "until: {}", time((end - first).max(1000)));
    let mut imported = Imported { scenario: text, ..Imported::default() };
    imported.recordings.extend(loads(kept, first));
    imported.holds = vec![counted(kept.workers.len(), "node"), counted(jobs.len(), "job")];
    imported.notes = writer
        .left_out
        .iter()
        .map(|((noun, why), count)| format!("left out: {}: {why}", counted(*count, noun)))
        .collect();
    imported.checked(&writer.origins)
}

/// The latest time in the data.
fn end(kept: &StoredRows) -> Result<i64, ImportError> {
    let mut last = kept.loads.iter().map(|(at, _)| *at).max().unwrap_or(0);
    for row in kept.workers.iter().chain(&kept.models).chain(&kept.instances) {
        for key in ["updated_at", "created_at", "heartbeat_time"] {
            last = last.max(millis(&row.value, key, &row.place)?.unwrap_or(0));
        }
    }
    Ok(last)
}

/// The mean utilization of all GPUs as a recording. No job uses it, because it does not belong to a single job.
fn loads(kept: &StoredRows, first: i64) -> Option<(String, String)> {
    let mut rows: Vec<_> = kept.loads.iter().filter(|(at, _)| *at >= first).collect();
    rows.sort_by_key(|(at, _)| *at);
    rows.dedup_by_key(|(at, _)| *at);
    if rows.is_empty() {
        return None;
    }
    let mut text = String::from("time,all-gpus\n");
    for (at, percent) in rows {
        let at = SimDuration::from_millis((at - first) as u64).to_decimal_seconds();
        let _infallible = writeln!(text, "{at},{percent}");
    }
    Some(("usage/all-gpus.csv".to_string(), text))
}

/// A model to be served.
struct Job {
    name: String,
    /// The place in the source.
    place: String,
    /// The time of its creation, in milliseconds since 1970.
    at: i64,
    replicas: u64,
    /// The demand of one replica, without restrictions to certain GPUs and nodes.
    asked: String,
    recorded: Vec<String>,
    /// Times at which the number of replicas changes, each with the new number.
    changes: Vec<(i64, u64)>,
}

struct Writer {
    names: Names,
    workers: NameBook,
    models: NameBook,
    labels: NameBook,
    values: NameBook,
    /// For each worker, by the server's name, the indices of its GPUs in ascending order.
    gpus: BTreeMap<String, Vec<u32>>,
    /// The server's names of workers, by their numbers.
    by_id: BTreeMap<i64, String>,
    /// Counts of left out data, by kind and reason.
    left_out: BTreeMap<(&'static str, &'static str), usize>,
    /// The origins of the entries in the scenario.
    origins: Vec<Origin>,
}

impl Writer {
    fn nodes(&mut self, out: &mut String, kept: &StoredRows) -> Result<(), ImportError> {
        // Leave out current use, because the server's own instances are already imported as jobs.
        let options = FoundOptions { idle_up_to: Bytes::ZERO, gpu: None, without_use: true };
        let at = Stamp { since_start: SimDuration::ZERO, wall: Wall(0) };
        out.push_str("nodes:\n");
        for (index, row) in kept.workers.iter().enumerate() {
            let StoredRow { place, value } = row;
            let unread = |source| ImportError::Unread { place: place.clone(), source };
            let found = gpustack_worker(value, index, "the worker", at).map_err(unread)?;
            self.origins.push(Origin { from: out.len(), place: place.clone(), columns: &OF_WORKERS });
            self.gpus.insert(found.name.clone(), found.gpus.iter().map(|gpu| gpu.index).collect());
            if let Some(id) = value["id"].as_i64() {
                self.by_id.insert(id, found.name.clone());
            }
            let name = self.workers.of(&found.name);
            let labels = found.labels.iter().map(|(key, value)| self.label(key, value)).collect();
            entry(out, &NodeSnapshot { labels, ..found }, &name, &options);
        }
        Ok(())
    }

    /// The key and value of a label. Facts about the node keep their names. Labels that people wrote may be renamed.
    fn label(&mut self, key: &str, value: &str) -> (String, String) {
        match (self.names, key) {
            (Names::Kept, _) | (_, "os" | "arch") => (key.to_string(), value.to_string()),
            (Names::Numbered, _) => (self.labels.of(key), self.values.of(value)),
        }
    }

    fn leave_out(&mut self, noun: &'static str, why: &'static str) {
        *self.left_out.entry((noun, why)).or_default() += 1;
    }

    fn jobs(&mut self, kept: &StoredRows) -> Result<Vec<Job>, ImportError> {
        let mut jobs = Vec::new();
        for model in &kept.models {
            let own: Vec<&StoredRow> =
                kept.instances.iter().filter(|instance| instance.value["model_id"] == model.value["id"]).collect();
            jobs.extend(self.job(model, &own, &kept.files)?);
        }
        jobs.sort_by_key(|job| job.at);
        Ok(jobs)
    }

    fn job(&mut self, row: &StoredRow, own: &[&StoredRow], files: &[Value]) -> Result<Option<Job>, ImportError> {
        let StoredRow { place, value: model } = row;
        let instances: Vec<&Value> = own.iter().map(|instance| &instance.value).collect();
        let called = text(model, "name").ok_or_else(|| ImportError::malformed(place, "a model with a name"))?;
        let replicas = match &model["replicas"] {
            Value::Null => 1,
            stated => stated.as_u64().ok_or_else(|| {
                let expected = format!("a number of replicas, found `{}`", shown(&stated.to_string()));
                ImportError::malformed(format!("{place}, column `replicas`"), expected)
            })?,
        };
        if replicas == 0 {
            self.leave_out("model", "it has no replicas");
            return Ok(None);
        }
        let name = self.models.of(called);
        let asked = match ask(model, &instances, files, &name, self.names) {
            Ask::Model(asked) => asked + &self.narrowed(model, true),
            Ask::Claim(asked) => asked + &self.narrowed(model, false),
            Ask::Unknown => {
                self.leave_out("model", "neither its weights nor the resources of an instance are known");
                return Ok(None);
            }
        };
        let mut created = Vec::new();
        for instance in own {
            created.extend(millis(&instance.value, "created_at", &instance.place)?);
        }
        created.sort_unstable();
        let at = match created.first() {
            Some(first) => *first,
            None => millis(model, "created_at", place)?.unwrap_or(0),
        };
        let later: Vec<i64> = created.into_iter().filter(|when| *when > at + TOGETHER).collect();
        let begins = replicas.saturating_sub(later.len() as u64).max(1);
        let mut changes = Vec::new();
        for (number, when) in later.into_iter().enumerate() {
            let so_many = (begins + number as u64 + 1).min(replicas);
            if changes.last().map_or(begins, |(_, last)| *last) < so_many {
                changes.push((when, so_many));
            }
        }
        let recorded = instances.iter().map(|instance| self.where_it_is(instance)).collect();
        Ok(Some(Job { name, place: place.clone(), at, replicas: begins, asked, recorded, changes }))
    }

    /// The GPUs that the user picked, and the nodes that the user allows.
    fn narrowed(&mut self, model: &Value, is_model: bool) -> String {
        let mut out = String::new();
        let picked = picked(&model["gpu_selector"]);
        let places: Vec<String> = picked.iter().filter_map(|(worker, index)| self.place(worker, *index)).collect();
        match (places.len() == picked.len(), places.is_empty()) {
            (_, true) if picked.is_empty() => {}
            (true, _) => {
                let key = if is_model { "gpus" } else { "pick_gpus" };
                let list: Vec<String> = places.iter().map(|place| scalar(place, false)).collect();
                let _infallible = write!(out, ", {key}: [{}]", list.join(", "));
                let each = model["gpu_selector"]["gpus_per_replica"].as_u64().filter(|each| is_model && *each > 0);
                if let Some(each) = each {
                    let _infallible = write!(out, ", gpus_per_replica: {each}");
                }
            }
            (false, _) => self.leave_out("pick of GPUs", "no worker has these GPUs"),
        }
        let (mut labels, mut os) = (Vec::new(), None);
        for (key, value) in model["worker_selector"].as_object().into_iter().flatten() {
            let Some(value) = value.as_str() else { continue };
            match key.as_str() {
                "worker-name" => match (self.workers.known(value), picked.is_empty()) {
                    (Some(node), true) => {
                        let _infallible = write!(out, ", on: {}", scalar(node, true));
                    }
                    _ => {
                        self.leave_out("selector of a worker", "the worker does not exist, or GPUs are picked as well")
                    }
                },
                "os" if !is_model => os = Some(value.to_ascii_lowercase()),
                _ => {
                    let (key, value) = self.label(key, value);
                    labels.push(format!("{}: {}", scalar(&key, true), scalar(&value, false)));
                }
            }
        }
        if !labels.is_empty() {
            let key = if is_model { "selector" } else { "labels" };
            let _infallible = write!(out, ", {key}: {{{}}}", labels.join(", "));
        }
        if let Some(os) = os {
            let _infallible = write!(out, ", os: {}", scalar(&os, true));
        }
        if flag(model, "restart_on_error") == Some(false) {
            out.push_str(", restart: never");
        }
        out
    }

    /// The name of a GPU in the scenario, such as `rack-a/1`, from its worker and its index there.
    fn place(&self, worker: &str, index: u32) -> Option<String> {
        let place = self.gpus.get(worker)?.iter().position(|known| *known == index)?;
        Some(format!("{}/{place}", self.workers.known(worker)?))
    }

    /// The state and place of an instance, such as `running, on rack-a/2 (32GiB)`.
    fn where_it_is(&self, instance: &Value) -> String {
        let mut said = word(instance, "state").unwrap_or_else(|| "unknown state".to_string());
        let mut places = Vec::new();
        for part in parts(instance) {
            let worker = part.worker.or_else(|| self.by_id.get(&part.worker_id?).cloned());
            for (index, bytes) in &part.vram {
                let place = worker.as_deref().and_then(|worker| self.place(worker, *index));
                let place = place.unwrap_or_else(|| "another worker".to_string());
                places.push(format!("{place} ({})", amount(Bytes::new(*bytes))));
            }
        }
        if !places.is_empty() {
            let _infallible = write!(said, ", on {}", places.join(", "));
        }
        said
    }

    fn write_jobs(&mut self, out: &mut String, jobs: &[Job], first: i64) {
        out.push_str(if jobs.is_empty() { "jobs: []\n" } else { "jobs:\n" });
        for job in jobs {
            job.recorded.iter().for_each(|recorded| comment(out, "  ", &format!("Recorded: {recorded}.")));
            self.origins.push(Origin { from: out.len(), place: job.place.clone(), columns: &OF_MODELS });
            let _infallible = write!(out, "  - {{name: {}, at: {}", scalar(&job.name, true), time(job.at - first));
            if job.replicas != 1 {
                let _infallible = write!(out, ", replicas: {}", job.replicas);
            }
            let _infallible = writeln!(out, ", {}}}", job.asked);
        }
        let mut changes: Vec<(i64, &str, u64)> = Vec::new();
        for job in jobs {
            changes.extend(job.changes.iter().map(|(at, replicas)| (*at, job.name.as_str(), *replicas)));
        }
        changes.sort_unstable();
        if changes.is_empty() {
            return;
        }
        let place = "the dates of the models' instances".to_string();
        self.origins.push(Origin {
            from: out.len(),
            place,
            columns: &[("at", "created_at"), ("replicas", "replicas")],
        });
        out.push_str("changes:\n");
        for (at, job, replicas) in changes {
            let (at, job) = (time(at - first), scalar(job, true));
            let _infallible = writeln!(out, "  - {{at: {at}, job: {job}, replicas: {replicas}}}");
        }
    }
}

/// Reads `{"gpu_ids": ["rack-a:cuda:0"]}`, or `{"worker_name": "rack-a", "gpu_index": 0}` of releases before 0.5.
fn picked(selector: &Value) -> Vec<(String, u32)> {
    let ids = selector["gpu_ids"].as_array().into_iter().flatten().filter_map(Value::as_str);
    // A worker's name may contain colons.
    let of_ids = ids.map(|id| {
        let mut words = id.rsplitn(3, ':');
        let index = words.next().and_then(|index| index.parse().ok()).unwrap_or(u32::MAX);
        (words.nth(1).unwrap_or(id).to_string(), index)
    });
    let old = text(selector, "worker_name").map(|worker| {
        let index = selector["gpu_index"].as_u64().and_then(|index| u32::try_from(index).ok());
        (worker.to_string(), index.unwrap_or(u32::MAX))
    });
    of_ids.chain(old).collect()
}
