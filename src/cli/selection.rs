//! `dryrack select`: says whether each node and GPU can be picked by hand for a job, and if not, why.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::logs::no_such;
use super::output::{Format, print, print_json, warn};
use super::run::Overrides;
use dryrack_engine::{Rehearsal, Selection, selection};
use dryrack_ids::JobId;
use dryrack_report::table;
use dryrack_scenario::load;
use dryrack_scheduler::Verdict;
use dryrack_units::SimTime;

#[derive(Debug, Args)]
pub struct SelectArgs {
    #[command(flatten)]
    asked: JobArgs,
}

/// A job of a scenario file, and the time at which to look at it.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Scenario file
    file: PathBuf,
    /// Job in question, or one of its replicas: `chat`, `chat[1]`
    #[arg(long, value_name = "NAME")]
    pub job: String,
    /// Time in question, such as 1h30m [default: the first decision about the job]
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    pub at: Option<SimTime>,
    #[command(flatten)]
    overrides: Overrides,
}

/// The scenario, loaded, and the job in question.
pub struct Question {
    pub rehearsal: Rehearsal,
    pub job: JobId,
    /// The replica in question; `None` means the first replica without a placement.
    pub replica: Option<u32>,
}

impl JobArgs {
    pub fn load(&self) -> Result<Question, Failure> {
        let loaded = load(&self.file, &self.overrides.lower(&self.file));
        let loaded = loaded.map_err(|diagnostics| Failure::Input(diagnostics.to_string()))?;
        warn(&loaded.warnings.to_string());
        let rehearsal = loaded.rehearsal;
        let names = || rehearsal.arrivals.iter().map(|arrival| &*arrival.spec.name);
        // A job with a `count`, or several jobs with one name, become `NAME-0`, `NAME-1` and so on. The name alone
        // means the first of them.
        let is_first = |name: &str, asked: &str| {
            let rest = name.strip_prefix(asked).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| rest.parse() == Ok(0u32))
        };
        let find = |asked: &str| {
            let first = || names().position(|name| is_first(name, asked));
            names().position(|name| name == asked).or_else(first).map(JobId::new)
        };
        let of_replica = || {
            let (job, number) = self.job.strip_suffix(']')?.rsplit_once('[')?;
            Some((find(job)?, Some(number.parse().ok()?)))
        };
        match find(&self.job).map(|job| (job, None)).or_else(of_replica) {
            Some((job, replica)) => Ok(Question { rehearsal, job, replica }),
            None => Err(no_such("no job is named", &self.job, names())),
        }
    }

    /// The nodes and GPUs that can be picked for the job.
    pub fn selection(&self, asked: &Question) -> Selection {
        selection(&asked.rehearsal, asked.job, asked.replica, self.at)
    }
}

pub fn select(args: &SelectArgs, format: Format) -> ExitResult {
    let asked = args.asked.load()?;
    let profile = &asked.rehearsal.profile;
    if !profile.flow.decides_by_scheduler() {
        let message = format!(
            "error: under the profile `{}`, kube-scheduler chooses the nodes, and `select` does not know its rules\n  \
             = help: run the scenario, and use `dryrack explain` to see each node's reasons\n",
            profile.name
        );
        return Err(Failure::Input(message));
    }
    let found = guarded(|| args.asked.selection(&asked));
    let found = found.map_err(|message| Failure::Ours(format!("internal error: {message}\n")))?;
    match format {
        Format::Human => print(&human(&args.asked.job, &found))?,
        Format::Json => print_json(&as_json(&args.asked.job, &found))?,
    }
    Ok(Exit::Fine)
}

/// For every node and GPU: its name, its verdict, and whether it can only be picked together with others.
fn lines(found: &Selection) -> Vec<(String, Verdict, bool)> {
    let mut lines = Vec::new();
    for known in &found.nodes {
        let name = &found.sight.fleet.node(known.node).name;
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
            let name = &found.sight.fleet.node(known.node).name;
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
