//! `dryrack probe`: finds machines and their current use, and writes them as nodes of a scenario.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::import_kubernetes::{names, write};
use super::output::{Format, WholeFile, print, print_json, warn};
use super::source::SourceArgs;
use dryrack_catalog as catalog;
use dryrack_import::{ClusterSource, FoundOptions, nodes_text};
use dryrack_live::clock::{Deadline, Stamp, std_duration};
use dryrack_live::probe::{GpuSnapshot, Kubernetes, NodeSnapshot, Reading, Snapshot, shown_url};
use dryrack_report::table;
use dryrack_units::{Bytes, GpuShare, SimDuration, counted};

#[derive(Debug, Args)]
pub struct ProbeArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// File for the nodes, for use with `include:` in a scenario. With --from kubernetes, a folder such as `cluster`
    /// gets a scenario of the whole cluster
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Type of the GPUs for which the source gives no type, such as a100-80g
    #[arg(long, value_name = "TYPE")]
    gpu: Option<String>,
    /// Count an idle GPU as free if at most this much of its memory is in use
    #[arg(long, value_name = "MEMORY", default_value = "64MiB")]
    idle_up_to: Bytes,
    /// Leave out the current use by others
    #[arg(long)]
    without_use: bool,
    /// For the scenario of a whole cluster: replace the names that people chose, and write names.csv
    #[arg(long)]
    anonymize: bool,
}

/// The folder for the scenario of a whole cluster. `None` if only nodes are asked for.
fn cluster_folder(args: &ProbeArgs) -> Option<&Path> {
    let out = args.out.as_deref().filter(|_| args.source.from() == "kubernetes")?;
    let is_file = out.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") && !out.is_dir();
    (!is_file).then_some(out)
}

/// Writes a scenario of the whole cluster.
fn cluster(args: &ProbeArgs, out: &Path) -> ExitResult {
    let deadline = Deadline::within(std_duration(args.source.within(SimDuration::from_secs(300))));
    let found = Kubernetes::of(&args.source.options()).objects(deadline);
    let found = found.map_err(|missing| Failure::Input(format!("error: {missing} ({})", missing.name())))?;
    found.notes.iter().for_each(|note| warn(&format!("note: {note}\n")));
    write(&ClusterSource::Texts(&found.texts), names(args.anonymize), out)
}

pub fn probe(args: &ProbeArgs, format: Format) -> ExitResult {
    if let Some(folder) = cluster_folder(args) {
        return cluster(args, folder);
    }
    if args.anonymize {
        let help = "add --from kubernetes and --out with a folder";
        return Err(Failure::Input(format!("error: --anonymize is for the scenario of a whole cluster; {help}")));
    }
    let gpu = match &args.gpu {
        None => None,
        Some(typed) => Some(catalog::gpu(typed).ok_or_else(|| unknown_gpu(typed))?),
    };
    let (snapshot, at) = args.source.read()?;
    let options = FoundOptions { idle_up_to: args.idle_up_to, gpu, without_use: args.without_use };
    if let Some(out) = &args.out {
        WholeFile::write(out, nodes_text(&snapshot.nodes, &about(args, &snapshot, at), &options).as_bytes())?;
    }
    for note in &snapshot.notes {
        warn(&format!("note: {note}\n"));
    }
    match format {
        Format::Json => print_json(&as_json(&snapshot, at))?,
        Format::Human => print(&human(&snapshot, args.source.is_scheduler()))?,
    }
    if let Some(out) = &args.out {
        let nodes = counted(snapshot.nodes.len(), "node");
        warn(&format!("{nodes} in {}: add `include: {}` to a scenario to use them\n", out.display(), out.display()));
    }
    Ok(if snapshot.nodes.is_empty() { Exit::NothingSelected } else { Exit::Fine })
}

fn unknown_gpu(typed: &str) -> Failure {
    let hint = catalog::similar_gpus(typed, []).hint();
    let help = hint.unwrap_or_else(|| "`dryrack catalog gpus` lists types".to_string());
    Failure::Input(format!("error: --gpu: no GPU type is named `{typed}`; {help}"))
}

fn about(args: &ProbeArgs, snapshot: &Snapshot, at: Stamp) -> Vec<String> {
    let mut about = vec![format!("Found by `dryrack probe --from {}` at {}.", shown_url(args.source.from()), at.wall)];
    if !args.without_use {
        about.push(format!(
            "The foreign use is that of this moment; an idle GPU with at most {} in use counts as free.",
            args.idle_up_to
        ));
    }
    about.extend(snapshot.notes.iter().map(|note| format!("Note: {note}")));
    about
}

fn shown<T: ToString>(reading: &Reading<T>) -> String {
    reading.as_ref().map_or_else(|missing| format!("({})", missing.name()), T::to_string)
}

/// The utilization of a GPU if the source reports it. Otherwise, if the source is a scheduler, how much of it is held.
fn shown_use(gpu: &GpuSnapshot, has_scheduler: bool) -> String {
    match &gpu.utilization {
        Ok(level) => format!("{level} busy"),
        Err(_) if gpu.held == GpuShare::WHOLE => "held".to_string(),
        Err(_) if gpu.held > GpuShare::ZERO => format!("{} held", gpu.held),
        Err(_) if has_scheduler => "free".to_string(),
        Err(missing) => format!("utilization ({})", missing.name()),
    }
}

fn human(snapshot: &Snapshot, has_scheduler: bool) -> String {
    let mut rows = Vec::new();
    for node in &snapshot.nodes {
        let of = |used: String, all: String| format!("{used} of {all}");
        rows.push(vec![
            node.name.clone(),
            format!("{:?}", node.state).to_ascii_lowercase(),
            format!("{} CPUs", of(shown(&node.cpu_used), shown(&node.cpu))),
            format!("{} RAM", of(shown(&node.ram_used), shown(&node.ram))),
            String::new(),
            String::new(),
        ]);
        for gpu in &node.gpus {
            rows.push(vec![
                format!("  gpu{}", gpu.index),
                shown(&gpu.name),
                shown_use(gpu, has_scheduler),
                format!("{} in use", of(shown(&gpu.memory_used), shown(&gpu.memory))),
                gpu.holder.clone().map_or_else(String::new, |holder| format!("held by {holder}")),
                gpu.uuid.clone().unwrap_or_default(),
            ]);
        }
    }
    table(&["node", "", "", "", "", ""], &rows)
}

fn as_json(snapshot: &Snapshot, at: Stamp) -> Value {
    json!({
        "at": stamp(at),
        "nodes": snapshot.nodes.iter().map(node_json).collect::<Vec<_>>(),
        "notes": snapshot.notes,
    })
}

fn stamp(at: Stamp) -> Value {
    json!({"monotonic_s": at.since_start.to_decimal_seconds(), "wall": at.wall.to_string()})
}

/// A number with its unit, or the reason why there is none.
fn reading<T: Copy>(reading: &Reading<T>, unit: &str, number: impl Fn(T) -> u64) -> Value {
    match reading {
        Ok(value) => json!({"value": number(*value), "unit": unit}),
        Err(missing) => json!({"missing": missing.name(), "said": missing.to_string()}),
    }
}

fn node_json(node: &NodeSnapshot) -> Value {
    json!({
        "name": node.name,
        "at": stamp(node.at),
        "state": node.state,
        "os": node.os, "arch": node.arch, "driver": node.driver, "labels": node.labels,
        "cpu": reading(&node.cpu, "millicores", |cpu| cpu.get()),
        "cpu_used": reading(&node.cpu_used, "millicores", |cpu| cpu.get()),
        "ram": reading(&node.ram, "bytes", Bytes::get),
        "ram_used": reading(&node.ram_used, "bytes", Bytes::get),
        "gpus": node.gpus.iter().map(gpu_json).collect::<Vec<_>>(),
    })
}

fn gpu_json(gpu: &GpuSnapshot) -> Value {
    let name = match &gpu.name {
        Ok(name) => json!({"value": name}),
        Err(missing) => json!({"missing": missing.name(), "said": missing.to_string()}),
    };
    json!({
        "index": gpu.index, "uuid": gpu.uuid, "at": stamp(gpu.at), "vendor": gpu.vendor, "name": name,
        "memory": reading(&gpu.memory, "bytes", Bytes::get),
        "memory_used": reading(&gpu.memory_used, "bytes", Bytes::get),
        "utilization": reading(&gpu.utilization, "permille", |level| u64::from(level.get())),
        "held": gpu.held.to_string(), "holder": gpu.holder, "unified": gpu.unified,
        "compute_capability": gpu.compute_capability, "state": gpu.state,
    })
}
