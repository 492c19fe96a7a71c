//! `dryrack select`: every node and GPU, selectable for a job or not, each no with its reason.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Done, Exit, Failure};
use super::guard::guarded;
use super::logs::no_such;
use super::output::{Format, say, say_json, warn};
use super::run::Overrides;
use crate::engine::{Rehearsal, Selection, selection};
use crate::ids::JobId;
use crate::report::table;
use crate::scenario::load;
use crate::scheduler::Verdict;
use crate::units::SimTime;

#[derive(Debug, Args)]
pub struct SelectArgs {
    #[command(flatten)]
    asked: JobArgs,
}

/// A job of a scenario file, and when it is asked about.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// A scenario file
    file: PathBuf,
    /// The job that is asked about
    #[arg(long, value_name = "NAME")]
    pub job: String,
    /// At this time, such as 1h30m; when the job is submitted if not given
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    pub at: Option<SimTime>,
    #[command(flatten)]
    overrides: Overrides,
}

impl JobArgs {
    pub fn load(&self) -> Result<(Rehearsal, JobId), Failure> {
        let loaded = load(&self.file, &self.overrides.lower(&self.file));
        let loaded = loaded.map_err(|diagnostics| Failure::Input(diagnostics.to_string()))?;
        warn(&loaded.warnings.to_string());
        let rehearsal = loaded.rehearsal;
        let names = || rehearsal.arrivals.iter().map(|arrival| &*arrival.spec.name);
        // Of a job with a `count`, or several of one name, the first stands for all.
        let is_first = |name: &str| {
            name.strip_prefix(&*self.job)
                .and_then(|rest| rest.strip_prefix('-'))
                .is_some_and(|rest| rest.parse() == Ok(0u32))
        };
        match names().position(|name| name == self.job).or_else(|| names().position(is_first)) {
            Some(job) => Ok((rehearsal, JobId::new(job))),
            None => Err(no_such("no job is named", &self.job, names())),
        }
    }
}

pub fn select(args: &SelectArgs, format: Format) -> Done {
    let (rehearsal, job) = args.asked.load()?;
    let found = guarded(|| selection(&rehearsal, job, args.asked.at));
    let found = found.map_err(|message| Failure::Ours(format!("our fault: {message}\n")))?;
    match format {
        Format::Human => say(&human(&args.asked.job, &found))?,
        Format::Json => say_json(&as_json(&args.asked.job, &found))?,
    }
    Ok(Exit::Fine)
}

/// Of every node and GPU: its name, the verdict, and whether a yes holds only with others.
fn lines(found: &Selection) -> Vec<(String, Verdict, bool)> {
    let mut lines = Vec::new();
    for known in &found.nodes {
        let name = &found.fleet.node(known.node).name;
        lines.push((name.to_string(), known.verdict, known.with_others.0));
        let gpus = known.gpus.iter().zip(&known.with_others.1).enumerate();
        lines.extend(gpus.map(|(index, (verdict, others))| (format!("{name}/{index}"), *verdict, *others)));
    }
    lines
}

fn answer(verdict: Verdict, with_others: bool) -> &'static str {
    match verdict {
        Verdict::Fit if with_others => "with others",
        Verdict::Fit => "yes",
        Verdict::Unfit(_) => "not now",
        Verdict::Never(_) => "never",
    }
}

fn human(job: &str, found: &Selection) -> String {
    let row = |(name, verdict, others): &(String, Verdict, bool)| {
        let (reason, text) = verdict.reason().map_or(("", ""), |reason| (reason.name(), reason.text()));
        vec![name.clone(), answer(*verdict, *others).to_string(), reason.to_string(), text.to_string()]
    };
    let rows: Vec<Vec<String>> = lines(found).iter().map(row).collect();
    format!("for {job} at {}\n\n{}", found.at, table(&["pick", "selectable", "because", ""], &rows))
}

fn as_json(job: &str, found: &Selection) -> Value {
    let choice = |key: &str, name: &str, verdict: Verdict, others: bool| {
        json!({
            key: name, "selectable": verdict.is_fit(), "answer": answer(verdict, others),
            "because": verdict.reason().map(|reason| reason.name()),
        })
    };
    let nodes: Vec<Value> = (found.nodes.iter())
        .map(|known| {
            let name = &found.fleet.node(known.node).name;
            let gpus = known.gpus.iter().zip(&known.with_others.1).enumerate();
            let choose = |(index, (verdict, others)): (usize, (&Verdict, &bool))| {
                choice("gpu", &format!("{name}/{index}"), *verdict, *others)
            };
            let gpus: Vec<Value> = gpus.map(choose).collect();
            let mut node = choice("node", name, known.verdict, known.with_others.0);
            node["gpus"] = gpus.into();
            node
        })
        .collect();
    json!({"job": job, "at_seconds": found.at.as_secs_f64(), "nodes": nodes})
}
