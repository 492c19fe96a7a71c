//! `dryrack plan submit`: submits a sweep to a cluster in parts, as a Slurm job array or a Kubernetes Indexed Job.
//!
//! Each part runs `dryrack plan FILE --shard INDEX/PARTS --resume`, with the index from its environment and its own
//! folder. The cluster may end a part, requeue it or run it on another node; the part then continues where it stopped.

use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, print, print_json, warn};
use super::planning::{Planning, of_sweep};
use dryrack_outside::quoted;
use dryrack_scenario::Method;
use dryrack_units::counted;

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Plan file, on a file system that all nodes share
    file: PathBuf,
    /// Cluster that runs the parts
    #[arg(long, value_enum, value_name = "CLUSTER")]
    on: Cluster,
    /// Folder for the runs of the parts, as part-0 and so on; on a file system that all nodes share
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of parts
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    shards: u16,
    /// Number of cores, and of threads, for each part
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: u16,
    /// Print the script or manifest without submitting it
    #[arg(long)]
    dry_run: bool,
    /// Path of dryrack on the nodes or in the image [default: this program; with an image, `dryrack`]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Kubernetes: image that has dryrack
    #[arg(long, value_name = "IMAGE", required_if_eq("on", "kubernetes"))]
    image: Option<String>,
    /// Kubernetes: persistent volume claim that holds the plan and receives the results; mounted at /work, where FILE
    /// and DIR are expected
    #[arg(long, value_name = "NAME", required_if_eq("on", "kubernetes"))]
    claim: Option<String>,
    /// Options for sbatch or kubectl, passed unchanged, such as --partition=main or --namespace=plans
    #[arg(last = true, value_name = "OPTION")]
    more: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cluster {
    Slurm,
    Kubernetes,
}

/// A sweep in the form in which it is submitted.
struct Submission<'a> {
    args: &'a SubmitArgs,
    title: &'a str,
    parts: usize,
    runs: usize,
}

pub fn submit(args: &SubmitArgs, format: Format) -> ExitResult {
    let planning = Planning::read(&args.file)?;
    if planning.plan.method == Method::Search {
        let why = "error: only a sweep can run in parts; a search decides after each run what to run next\n";
        return Err(Failure::Input(why.to_string()));
    }
    let runs = of_sweep(&planning.plan).count();
    // Never submit more parts than runs, because a part without runs has nothing to do.
    let parts = usize::from(args.shards).min(runs);
    let submission = Submission { args, title: &planning.plan.title, parts, runs };
    let (text, program) = match args.on {
        Cluster::Slurm => (submission.slurm()?, "sbatch"),
        Cluster::Kubernetes => (pretty(&submission.kubernetes()?), "kubectl"),
    };
    if format == Format::Human {
        print(&text)?;
    }
    let job = match args.dry_run {
        true => None,
        false => Some(submission.hand_over(program, &text)?),
    };
    let merge = submission.merge();
    match (format, &job) {
        (Format::Json, job) => {
            print_json(&json!({"parts": parts, "runs": runs, "text": text, "job": job, "merge": merge}))?;
        }
        (Format::Human, Some(job)) => warn(&format!(
            "submitted as {job}: {} in {}; when it has ended, run:\n  {merge}\n",
            counted(runs, "run"),
            counted(parts, "part")
        )),
        (Format::Human, None) => {}
    }
    Ok(Exit::Fine)
}

fn pretty(manifest: &Value) -> String {
    serde_json::to_string_pretty(manifest).expect("it has a JSON form") + "\n"
}

impl Submission<'_> {
    /// The name of the submitted job, such as `dryrack-morning`. It consists of letters, digits and `-`. It is short
    /// enough for the name of a pod, which also has an index and a suffix (RFC 1123: 63 characters).
    fn name(&self) -> String {
        let stem = self.args.file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().to_lowercase());
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let name: String = stem.chars().map(plain).take(40).collect();
        format!("dryrack-{}", name.trim_matches('-')).trim_end_matches('-').to_string()
    }

    /// The command of one part. `index` is the variable through which the cluster passes the index of the part.
    fn command(&self, program: &str, file: &str, out: &str, index: &str) -> Vec<String> {
        let part = format!("{}/part-{index}", out.trim_end_matches('/'));
        let shard = format!("{index}/{}", self.parts);
        let cores = self.args.cores.to_string();
        [program, "plan", file, "--out", &part, "--resume", "--shard", &shard, "--threads", &cores]
            .map(str::to_string)
            .to_vec()
    }

    /// The script of a job array with one task for each part. A requeued task continues where it stopped (`--requeue`),
    /// and appends to its log.
    fn slurm(&self) -> Result<String, Failure> {
        let here = std::env::current_dir()?;
        let program = match &self.args.program {
            Some(program) => program.clone(),
            None => std::env::current_exe()?,
        };
        let (file, out) = (one_line(&self.args.file)?, one_line(&self.args.out)?);
        let log = here.join(&self.args.out).join("part-%a.log");
        // The shell replaces the variable of the index, so this variable must be outside the quotes.
        let words = self.command(&one_line(&program)?, &file, &out, INDEX);
        let words: Vec<String> = words.iter().map(|word| with_index(word)).collect();
        let title = self.title.replace(['\n', '\r'], " ");
        Ok(format!(
            "#!/bin/bash\n# {title}: {} in {}\n\
             #SBATCH --job-name={}\n#SBATCH --array=0-{}\n#SBATCH --cpus-per-task={}\n#SBATCH --requeue\n\
             #SBATCH --open-mode=append\n#SBATCH --output={}\n#SBATCH --chdir={}\n\
             exec {}\n",
            counted(self.runs, "run"),
            counted(self.parts, "part"),
            self.name(),
            self.parts - 1,
            self.args.cores,
            quoted(&one_line(&log)?),
            quoted(&one_line(&here)?),
            words.join(" "),
        ))
    }

    /// The manifest of an Indexed Job (batch/v1, Kubernetes 1.29 and later: `backoffLimitPerIndex`). If a pod is lost,
    /// Kubernetes starts another pod for the same index, which continues from the files on the volume claim.
    fn kubernetes(&self) -> Result<Value, Failure> {
        let (file, out) = (within(&self.args.file)?, within(&self.args.out)?);
        let program = self.args.program.as_deref().map_or_else(|| Ok("dryrack".to_string()), one_line)?;
        // Kubernetes replaces the variable of the index from the environment of the container.
        let words = self.command(&program, &file, &out, "$(JOB_COMPLETION_INDEX)");
        Ok(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "generateName": format!("{}-", self.name()),
                "annotations": {"dryrack/plan": self.title},
            },
            "spec": {
                "completionMode": "Indexed",
                "completions": self.parts,
                "parallelism": self.parts,
                "backoffLimitPerIndex": TRIES_AGAIN,
                "template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{
                        "name": "dryrack",
                        "image": self.args.image,
                        "command": words,
                        "workingDir": MOUNT,
                        "resources": {"requests": {"cpu": self.args.cores.to_string()}},
                        "volumeMounts": [{"name": "work", "mountPath": MOUNT}],
                    }],
                    "volumes": [{"name": "work", "persistentVolumeClaim": {"claimName": self.args.claim}}],
                }},
            },
        }))
    }

    /// Passes the text to `sbatch` or `kubectl`. Returns what that program prints about the job, as one line.
    fn hand_over(&self, program: &str, text: &str) -> Result<String, Failure> {
        let mut command = Command::new(program);
        match self.args.on {
            Cluster::Slurm => {
                let out = &self.args.out;
                // Slurm opens the tasks' log files in this folder before any task runs.
                std::fs::create_dir_all(out).map_err(|error| Failure::uncreated(out, &error))?;
                command.arg("--parsable").args(&self.args.more);
            }
            Cluster::Kubernetes => {
                command.args(["create", "--filename=-", "--output=name"]).args(&self.args.more);
            }
        }
        let failed =
            |why: String| Failure::Input(format!("error: {program} {why}; --dry-run prints what would be submitted\n"));
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| failed(format!("cannot be run: {error}")))?;
        let written = child.stdin.take().expect("it was asked for").write_all(text.as_bytes());
        let ended = child.wait_with_output()?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().replace('\n', "; ");
        match (ended.status.success(), written) {
            (true, Ok(())) => Ok(said(&ended.stdout)),
            _ => Err(failed(format!("refused it ({}): {}", ended.status, said(&ended.stderr)))),
        }
    }

    /// The command that joins the parts after they have run.
    fn merge(&self) -> String {
        let out = self.args.out.display().to_string();
        let (file, out) = (quoted(&self.args.file.display().to_string()), quoted(out.trim_end_matches('/')));
        format!("dryrack plan merge {file} {out}/part-*/ --out {out}")
    }
}

/// A placeholder for the index until the rest of the word is quoted.
const INDEX: &str = "\u{1}";
/// Quotes a word of a script, and puts the index variable in place of [`INDEX`].
fn with_index(word: &str) -> String {
    let quote = |part: &str| if part.is_empty() { String::new() } else { quoted(part) };
    let parts: Vec<String> = word.split(INDEX).map(quote).collect();
    if parts.len() == 1 { quoted(word) } else { parts.join("\"$SLURM_ARRAY_TASK_ID\"") }
}

/// The folder where the volume claim is mounted.
const MOUNT: &str = "/work";
/// How many times a failed part is retried.
const TRIES_AGAIN: u32 = 3;

/// The path as one line of text. A script cannot name any other path.
fn one_line(path: &Path) -> Result<String, Failure> {
    match path.to_str() {
        Some(text) if !text.contains(['\n', '\r', '\u{1}']) => Ok(text.to_string()),
        _ => Err(Failure::file(path, "cannot be written in a script, because it is not plain text on one line")),
    }
}

/// A path inside the volume claim. It must be relative, because the claim is mounted elsewhere in the cluster.
fn within(path: &Path) -> Result<String, Failure> {
    let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    // Refuse `$(`: Kubernetes would replace it as a variable.
    match one_line(path)? {
        text if inside && !text.contains("$(") => Ok(text),
        _ => Err(Failure::file(path, "is not a path inside the claim: write it relative to the claim, without `..`")),
    }
}
