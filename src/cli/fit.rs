//! `dryrack fit`: says whether a model fits, on which nodes and with how much memory. If it does not fit, the command
//! finds the smallest change that helps.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::output::{Format, print, print_json};
use super::run::Overrides;
use dryrack_engine::{Change, Fitting, Refused, fitting};
use dryrack_event::{Histogram, Refusal};
use dryrack_fleet::{Fleet, NodeState, Placement};
use dryrack_ids::{GpuId, NodeId};
use dryrack_report::table;
use dryrack_scenario::{Options, load};
use dryrack_scheduler::NodeFinding;
use dryrack_scheduler::deployment::ReservedPart;
use dryrack_units::{Bytes, SimTime};
use dryrack_workload::{Backend, Demand, Deployment};

#[derive(Debug, Args)]
pub struct FitArgs {
    /// Scenario file with the nodes; its jobs run up to the time in question
    file: PathBuf,
    /// Model of the catalog, or one described by its figures: "{name: mine, weights: 60GiB}"
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// Number of replicas
    #[arg(long, value_name = "N", default_value = "1")]
    replicas: String,
    /// Backend that serves the model: vllm, sglang or llama-box
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Placement of replicas: spread or binpack
    #[arg(long, value_name = "STRATEGY")]
    placement: Option<String>,
    /// Let a replica span several nodes
    #[arg(long)]
    distributed: bool,
    /// GPUs picked by hand, as in alpha/0,alpha/1
    #[arg(long, value_name = "GPUS", value_delimiter = ',')]
    gpus: Vec<String>,
    /// Number of the picked GPUs for each replica
    #[arg(long, value_name = "N")]
    gpus_per_replica: Option<String>,
    /// Use only nodes with this label; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    selector: Vec<String>,
    /// Parameter of the backend, as in --parameter=--tensor-parallel-size=4; may be repeated
    #[arg(long, value_name = "PARAMETER", allow_hyphen_values = true)]
    parameter: Vec<String>,
    /// Time in question, such as 1h30m [default: the start, before the first job]
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    at: Option<SimTime>,
    #[command(flatten)]
    overrides: Overrides,
}

/// The number of nodes and replicas shown, because there may be thousands.
const SHOWN: usize = 20;

pub fn fit(args: &FitArgs, format: Format) -> ExitResult {
    let asked = asked(args)?;
    let options = Options { asked: Some(asked), ..args.overrides.lower(&args.file) };
    let loaded = load(&args.file, &options).map_err(|diagnostics| Failure::Input(diagnostics.to_string()))?;
    // This command does not judge the file's expectations.
    let (demand, replicas) = loaded.asked.as_ref().expect("it was asked about");
    let found = guarded(|| fitting(&loaded.rehearsal, demand, *replicas, args.at));
    let found = found.map_err(|message| Failure::Ours(format!("internal error: {message}\n")))?;
    let case = Case { demand, found: &found, profile: &loaded.rehearsal.profile.name };
    match format {
        Format::Human => print(&case.human())?,
        Format::Json => print_json(&case.as_json())?,
    }
    Ok(if found.fits() { Exit::Fine } else { Exit::Failed })
}

/// The job in question, as an entry of a scenario file.
fn asked(args: &FitArgs) -> Result<String, Failure> {
    let quoted = |text: &str| Value::from(text).to_string();
    let list = |items: &[String]| items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", ");
    let model = if args.model.trim_start().starts_with('{') { args.model.clone() } else { quoted(&args.model) };
    let mut text = format!("{{model: {model}, replicas: {}", args.replicas);
    let stated = [("backend", &args.backend), ("placement", &args.placement)];
    for (key, value) in stated {
        text.extend(value.iter().map(|value| format!(", {key}: {}", quoted(value))));
    }
    text.extend(args.gpus_per_replica.iter().map(|count| format!(", gpus_per_replica: {count}")));
    text.push_str(if args.distributed { ", distributed: true" } else { "" });
    if !args.gpus.is_empty() {
        text.push_str(&format!(", gpus: [{}]", list(&args.gpus)));
    }
    if !args.parameter.is_empty() {
        text.push_str(&format!(", parameters: [{}]", list(&args.parameter)));
    }
    let mut labels = Vec::new();
    for label in &args.selector {
        let Some((key, value)) = label.split_once('=') else {
            let message = format!("`{label}` is not a label; write --selector zone=west");
            return Err(Failure::Input(format!("error: {message}\n")));
        };
        labels.push(format!("{}: {}", quoted(key), quoted(value)));
    }
    if !labels.is_empty() {
        text.push_str(&format!(", selector: {{{}}}", labels.join(", ")));
    }
    Ok(text + "}")
}

struct Case<'a> {
    demand: &'a Demand,
    found: &'a Fitting,
    profile: &'a str,
}

impl Case<'_> {
    fn deployment(&self) -> &Deployment {
        self.demand.model().expect("a model was asked about")
    }

    fn human(&self) -> String {
        let (found, model) = (self.found, &self.deployment().model);
        let replicas =
            if found.replicas == 1 { "1 replica".to_string() } else { format!("{} replicas", found.replicas) };
        let mut text = format!(
            "{}, {replicas}, {}; under {} at {}\n\n",
            model.name,
            self.deployment().backend.name().replace('_', "-"),
            self.profile,
            found.at
        );
        text.push_str(&format!("needs  {}\n", self.need()));
        text.push_str(&format!("fits   {}\n", self.answer()));
        if !found.placements.is_empty() {
            text.push_str(&format!("\n{}", placement_table(found)));
        }
        text.push_str(&self.overcommitment());
        if let Some(refused) = &found.refused {
            text.push_str(&self.why_not(refused));
        }
        if !found.fits() {
            text.push_str(&self.changes());
        }
        text
    }

    fn answer(&self) -> String {
        let found = self.found;
        let placed = found.placements.len();
        let over = match found.overcommitted.first() {
            None => String::new(),
            Some(_) if placed == 1 => format!("no: {} places it, but overcommits GPUs", self.profile),
            Some(_) => {
                let mut replicas: Vec<u32> = found.overcommitted.iter().map(|over| over.replica).collect();
                replicas.dedup();
                format!("no: {} places {placed}, but overcommits GPUs for {} of them", self.profile, replicas.len())
            }
        };
        match (&found.refused, placed) {
            _ if !over.is_empty() => over,
            (None, 1) => "yes".to_string(),
            (None, _) => format!("yes, all {placed}"),
            (Some(_), 0) => "no".to_string(),
            (Some(_), _) => format!("{placed} of {}", found.replicas),
        }
    }

    /// A line for each GPU that the placement would overcommit.
    fn overcommitment(&self) -> String {
        let found = self.found;
        if found.overcommitted.is_empty() {
            return String::new();
        }
        let mut text = "\novercommitted\n".to_string();
        for over in found.overcommitted.iter().take(SHOWN) {
            let node = &found.fleet.node(over.gpu.node).name;
            let (takes, free, part) = (gib(over.takes), gib(over.free), gib(over.part));
            let what = match over.takes > over.free {
                true => format!("takes {takes}, but only {free} is free"),
                false => format!("takes {takes}, but needs {part}"),
            };
            text.push_str(&format!("  {node}/{}: replica {} {what}\n", over.gpu.index, over.replica + 1));
        }
        if found.overcommitted.len() > SHOWN {
            text.push_str(&format!("  and {} more\n", found.overcommitted.len() - SHOWN));
        }
        text
    }

    fn need(&self) -> String {
        let model = &self.deployment().model;
        match &self.found.need {
            Err(reason) => format!("unknown: {}", reason.text()),
            Ok(need) => {
                let taken = taken(&need.reserved);
                let gpus = need.gpus.map_or_else(String::new, |count| match count {
                    1 => " on 1 GPU".to_string(),
                    _ => format!(" on {count} GPUs"),
                });
                let layers = match self.deployment().backend {
                    Backend::LlamaBox(_) => ", with every layer on GPUs",
                    Backend::Vllm | Backend::Sglang => "",
                };
                let (memory, weights) = (gib(need.memory), gib(model.weights));
                format!("{memory} of GPU memory{gpus} for {weights} of weights{taken}{layers}")
            }
        }
    }

    fn why_not(&self, refused: &Refused) -> String {
        let number = self.found.placements.len() + 1;
        let head = match (refused.refusal, self.found.replicas) {
            (Refusal::Never, _) => "why never: it would not fit on an idle fleet either".to_string(),
            (Refusal::Unfit, 1) => "why not now".to_string(),
            (Refusal::Unfit, _) => format!("why not replica {number}"),
        };
        let mut reasons = Histogram::default();
        for reason in refused.examination.nodes.iter().filter_map(|node| node.verdict.reason()) {
            reasons.add(reason, 1);
        }
        let nodes = |count: u32| if count == 1 { "node " } else { "nodes" };
        let mut text = format!("\n{head}\n");
        for (reason, count) in reasons.iter() {
            text.push_str(&format!("  {count:>5} {}  {:<24} {}\n", nodes(count), reason.name(), reason.text()));
        }
        text.push_str(&format!("\n{}", gpu_table(refused)));
        text
    }

    fn changes(&self) -> String {
        let mut text = String::new();
        let changes: Vec<String> = self.found.changes.iter().map(|change| self.describe(change)).collect();
        match changes.split_first() {
            None => text.push_str("\nno single change that was tried would help\n"),
            Some((least, others)) => {
                text.push_str(&format!("\nsmallest change: {least}\n"));
                others.iter().for_each(|other| text.push_str(&format!("          or: {other}\n")));
            }
        }
        text
    }

    fn describe(&self, change: &Change) -> String {
        let name = |node: NodeId| &*self.found.fleet.node(node).name;
        let all = if self.found.replicas == 1 { "" } else { " each" };
        match change {
            Change::Distributed => format!("let a replica span several nodes (distributed: true){all}"),
            Change::NoSelector => "remove the selector".to_string(),
            Change::NoPick => "remove the hand-picked GPUs".to_string(),
            Change::NoParallelism => "let the scheduler choose the number of GPUs".to_string(),
            Change::Utilization { part, instead_of } => {
                let name = self.deployment().backend.utilization();
                format!("reserve {part}% of each GPU instead of {instead_of}%: --{name}=0.{part:02}")
            }
            Change::Ready(node) => {
                format!("bring back {}, which is {}", name(*node), standing(self.found.fleet.node(*node).status.state))
            }
            Change::Weights(weights) => {
                let has = self.deployment().model.weights;
                let less = Bytes::new(has.get() - weights.get());
                format!(
                    "weights of at most {}, which is {} less: stronger quantization or a smaller model",
                    gib(*weights),
                    gib(less)
                )
            }
            Change::MoreNodes { like, count, distributed } => {
                let shape = &self.found.fleet.node(*like).shape;
                let gpus = shape.gpus.first().map_or("", |gpu| &*gpu.model);
                let nodes = if *count == 1 { "one more node".to_string() } else { format!("{count} more nodes") };
                let also = if *distributed { ", and let a replica span several nodes (distributed: true)" } else { "" };
                format!("{nodes} such as {} ({} x {gpus}){also}", name(*like), shape.gpus.len())
            }
        }
    }

    fn as_json(&self) -> Value {
        let found = self.found;
        let refused = found.refused.as_ref().map(|refused| {
            let nodes: Vec<Value> =
                refused.examination.nodes.iter().map(|node| node_json(node, &refused.fleet)).collect();
            json!({
                "replica": found.placements.len(),
                "never": refused.refusal == Refusal::Never,
                "nodes": nodes,
            })
        });
        let placements: Vec<Value> =
            found.placements.iter().map(|placement| placement_json(placement, &found.fleet)).collect();
        let overcommitted: Vec<Value> = (found.overcommitted.iter())
            .map(|over| {
                json!({
                    "replica": over.replica, "node": found.fleet.node(over.gpu.node).name, "gpu": over.gpu.index,
                    "free_bytes": over.free.get(), "takes_bytes": over.takes.get(), "part_bytes": over.part.get(),
                })
            })
            .collect();
        let need = found.need.as_ref().ok();
        json!({
            "model": self.deployment().model.name,
            "backend": self.deployment().backend.name(),
            "profile": self.profile,
            "at_seconds": found.at.as_secs_f64(),
            "replicas": found.replicas,
            "fits": found.fits(),
            "need_bytes": need.map(|need| need.memory.get()),
            "utilization": need.map(|need| need.reserved.largest()),
            "cannot_be_said": found.need.as_ref().err().map(|reason| reason.name()),
            "weights_bytes": self.deployment().model.weights.get(),
            "placements": placements,
            "overcommitted": overcommitted,
            "refused": refused,
            "changes": found.changes.iter().map(|change| change_json(change, &found.fleet)).collect::<Vec<_>>(),
        })
    }
}

fn standing(state: NodeState) -> &'static str {
    match state {
        NodeState::Ready => "ready",
        NodeState::Joining => "joining",
        NodeState::NotReady => "not ready",
        NodeState::Unreachable => "unreachable",
        NodeState::Maintenance => "in maintenance",
        NodeState::Gone => "gone",
    }
}

/// What a replica reserves of each GPU; empty if it takes only what it needs.
fn taken(reserved: &ReservedPart) -> String {
    let percent = |part: f64| format!("{:.0}%", part * 100.0);
    match reserved {
        ReservedPart::OfKind(parts) if parts.iter().any(|(_, part)| *part < reserved.largest()) => {
            let each = parts.iter().map(|(kind, part)| format!("{} of each {kind} GPU", percent(*part)));
            format!("; reserves {}", each.collect::<Vec<_>>().join(", "))
        }
        _ if reserved.largest() > 0.0 => format!("; reserves {} of each GPU it uses", percent(reserved.largest())),
        ReservedPart::OfEach(_) | ReservedPart::OfKind(_) => String::new(),
    }
}

/// Formats bytes in GiB, rounded to a tenth.
fn gib(bytes: Bytes) -> String {
    let tenths = (u128::from(bytes.get()) * 10 + (1 << 29)) >> 30;
    format!("{}.{}GiB", tenths / 10, tenths % 10)
}

/// A line for each GPU of the placement: memory free before, memory taken, memory left.
fn placement_table(found: &Fitting) -> String {
    let mut fleet = found.fleet.clone();
    let mut rows = Vec::new();
    for (number, placement) in found.placements.iter().enumerate().take(SHOWN) {
        for claim in placement.claims() {
            let node = fleet.node(claim.node);
            for part in &claim.gpus {
                let index = usize::from(part.index);
                let free = node.status.gpu_memory_free(&node.shape, index);
                rows.push(vec![
                    (number + 1).to_string(),
                    format!("{}/{}", node.name, part.index),
                    node.shape.gpus[index].model.to_string(),
                    gib(free),
                    gib(part.memory),
                    gib(free.saturating_sub(part.memory)),
                ]);
            }
            if claim.gpus.is_empty() || claim.ram > Bytes::ZERO {
                let free = node.status.ram_free(&node.shape);
                // Unified GPU memory is part of RAM, so the claim takes it from RAM too.
                let parts = claim.gpus.iter().filter(|part| node.shape.gpus[usize::from(part.index)].unified);
                let pooled: Bytes = parts.map(|part| part.memory).sum();
                let left = gib(free.saturating_sub(claim.ram).saturating_sub(pooled));
                rows.push(vec![
                    (number + 1).to_string(),
                    node.name.to_string(),
                    "RAM".into(),
                    gib(free),
                    gib(claim.ram),
                    left,
                ]);
            }
        }
        fleet.take(placement);
    }
    let mut text = table(&["replica", "on", "type", "free", "takes", "left"], &rows);
    if found.placements.len() > SHOWN {
        text.push_str(&format!("and {} more replicas\n", found.placements.len() - SHOWN));
    }
    text
}

fn gpu_table(refused: &Refused) -> String {
    let mut rows = Vec::new();
    for node in refused.examination.nodes.iter().take(SHOWN) {
        let known = refused.fleet.node(node.node);
        let mut said: Vec<&str> = node.refusals.iter().map(|(_, reason)| reason.name()).collect();
        if said.is_empty() {
            said.extend(node.verdict.reason().map(|reason| reason.name()));
        }
        let said = said.join(", ");
        let mut first = Some(known.name.to_string());
        for gpu in &node.gpus {
            let kind = known.shape.gpus[usize::from(gpu.index)].model.to_string();
            let (free, takes) = (gib(gpu.free), gib(gpu.takes));
            let short =
                if gpu.free < gpu.takes { gib(Bytes::new(gpu.takes.get() - gpu.free.get())) } else { String::new() };
            let name = GpuId { node: node.node, index: gpu.index };
            let refused = first.take().map_or_else(String::new, |_| said.clone());
            rows.push(vec![format!("{}/{}", known.name, name.index), kind, free, takes, short, refused]);
        }
        if let Some(name) = first {
            rows.push(vec![name, String::new(), String::new(), String::new(), String::new(), said]);
        }
    }
    let mut text = table(&["gpu", "type", "free", "would take", "short of", "node refused because of"], &rows);
    if refused.examination.nodes.len() > SHOWN {
        text.push_str(&format!("and {} more nodes\n", refused.examination.nodes.len() - SHOWN));
    }
    text
}

fn node_json(node: &NodeFinding, fleet: &Fleet) -> Value {
    let gpus: Vec<Value> = (node.gpus.iter())
        .map(|gpu| {
            json!({
                "gpu": gpu.index,
                "total_bytes": gpu.total.get(),
                "free_bytes": gpu.free.get(),
                "takes_bytes": gpu.takes.get(),
            })
        })
        .collect();
    json!({
        "node": fleet.node(node.node).name,
        "because": node.verdict.reason().map(|reason| reason.name()),
        "refused_for": node.refusals.iter().map(|(_, reason)| reason.name()).collect::<Vec<_>>(),
        "gpus": gpus,
    })
}

fn placement_json(placement: &Placement, fleet: &Fleet) -> Value {
    let parts: Vec<Value> = (placement.claims().iter())
        .map(|claim| {
            let gpus: Vec<Value> =
                claim.gpus.iter().map(|gpu| json!({"gpu": gpu.index, "takes_bytes": gpu.memory.get()})).collect();
            json!({
                "node": fleet.node(claim.node).name, "main": claim.tasks > 0, "ram_bytes": claim.ram.get(),
                "gpus": gpus,
            })
        })
        .collect();
    json!(parts)
}

fn change_json(change: &Change, fleet: &Fleet) -> Value {
    let name = |node: NodeId| fleet.node(node).name.to_string();
    match change {
        Change::Distributed => json!({"distributed": true}),
        Change::NoSelector => json!({"selector": null}),
        Change::NoPick => json!({"gpus": null}),
        Change::NoParallelism => json!({"parallelism": null}),
        Change::Utilization { part, .. } => json!({"gpu_memory_utilization": f64::from(*part) / 100.0}),
        Change::Ready(node) => json!({"ready": name(*node)}),
        Change::Weights(weights) => json!({"weights_bytes": weights.get()}),
        Change::MoreNodes { like, count, distributed } => {
            json!({"more_nodes": count, "like": name(*like), "distributed": distributed})
        }
    }
}
