//! `dryrack init`: writes a first scenario of a cluster, with comments, that can be run at once.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{WholeFile, print, warn};
use super::roots::options;
use super::source::SourceArgs;
use dryrack_catalog as catalog;
use dryrack_import::{FoundOptions, nodes_text};
use dryrack_live::probe::shown_url;
use dryrack_profile::profile_names;
use dryrack_scenario as scenario;
use dryrack_trace::TaskStream;
use dryrack_units::{Bytes, counted};

/// The most nodes that `--nodes` takes.
const NODES_MAX: u32 = 100_000;
/// Memory of an idle GPU that the driver itself uses.
const IDLE_UP_TO: Bytes = Bytes::from_mib(64);

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Scenario file to write; an existing file is never changed
    #[arg(value_name = "FILE", default_value = "cluster.yaml")]
    out: PathBuf,
    #[command(flatten)]
    source: SourceArgs,
    /// Machine of each node, as `dryrack catalog machines` lists them [default: a100-80g-x8]
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Number of nodes [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    nodes: Option<u32>,
    /// Profile of the scheduler, as `dryrack profile list` lists them
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// List of jobs to replay, such as the output of sacct, in any format that `dryrack trace info` reads
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// What the scenario is to contain.
struct Chosen {
    machine: String,
    nodes: u32,
    profile: String,
    trace: Option<PathBuf>,
}

pub fn init(args: &InitArgs) -> ExitResult {
    let part = args.out.with_file_name("nodes.part.yaml");
    for file in [Some(&args.out), args.source.is_given().then_some(&part)].into_iter().flatten() {
        if file.is_dir() {
            let example = file.join("cluster.yaml");
            return Err(Failure::file(file, format!("is a folder; name a file, such as {}", example.display())));
        }
        if file.exists() {
            return Err(Failure::file(file, "exists already, and `init` changes no file; name another one"));
        }
    }
    if args.source.is_given() && (args.machine.is_some() || args.nodes.is_some()) {
        let help = "leave out --machine and --nodes, or --from";
        return Err(Failure::Input(format!("error: --from finds the nodes itself; {help}")));
    }
    let nothing_said = args.machine.is_none() && args.nodes.is_none() && args.profile.is_none() && args.trace.is_none();
    let asks = nothing_said && !args.source.is_given() && std::io::stdin().is_terminal();
    let chosen = if asks { asked(&mut std::io::stdin().lock())? } else { stated(args)? };
    let trace = chosen.trace.as_deref().map(|file| trace_text(&args.out, file)).transpose()?;
    let (nodes, gpus) = match args.source.is_given() {
        true => found_nodes(args, &part)?,
        false => nodes_of_machine(&chosen),
    };
    let jobs = trace.unwrap_or_else(|| example_jobs(gpus));
    WholeFile::write(&args.out, scenario_text(&chosen, &nodes, &jobs).as_bytes())?;
    report(&chosen, &args.out)
}

/// Checks the new file as `dryrack check` does, and says what to do next.
fn report(chosen: &Chosen, file: &Path) -> ExitResult {
    let name = file.display();
    let diagnostics = scenario::check(file, &options(file));
    warn(&diagnostics.to_string());
    if diagnostics.has_errors() {
        print(&format!("{name} is written; mend the errors, then run `dryrack check {name}`\n"))?;
        return Ok(Exit::BadInput);
    }
    let check = match chosen.trace {
        Some(_) => format!("  dryrack trace check {name}        jobs that can never be placed, and why\n"),
        None => String::new(),
    };
    print(&format!(
        "{name} is written. Next:\n{check}  dryrack test {name}               does what it expects hold?\n  \
         dryrack run {name} --report out   a page to look at: out/report.html\n  \
         dryrack what-helps {name}         which single change would save the most waiting\n"
    ))?;
    Ok(Exit::Fine)
}

/// What the options state, with the defaults.
fn stated(args: &InitArgs) -> Result<Chosen, Failure> {
    let of_source = match args.source.from() {
        "slurm" => "slurm-22.05",
        "kubernetes" => "kubernetes-1.35",
        "gpustack" => "gpustack",
        "dstack" => "dstack",
        _ => "easy",
    };
    Ok(Chosen {
        machine: known_machine(args.machine.as_deref().unwrap_or("a100-80g-x8")).map_err(of_option("--machine"))?,
        nodes: args.nodes.unwrap_or(2),
        profile: known_profile(args.profile.as_deref().unwrap_or(of_source)).map_err(of_option("--profile"))?,
        trace: args.trace.clone(),
    })
}

fn of_option(option: &str) -> impl Fn(String) -> Failure {
    move |message| Failure::Input(format!("error: {option}: {message}"))
}

/// Asks for each part, and asks again after an answer that cannot be used.
fn asked(answers: &mut impl BufRead) -> Result<Chosen, Failure> {
    let machine =
        ask(answers, "machine of each node (`dryrack catalog machines` lists them)", "a100-80g-x8", known_machine)?;
    let nodes = ask(answers, "number of nodes", "2", |text| match text.parse() {
        Ok(count @ 1..=NODES_MAX) => Ok(count),
        _ => Err(format!("expected a number from 1 to {NODES_MAX}")),
    })?;
    let known = "easy, slurm-22.05, kubernetes-1.35, gpustack, dstack; `dryrack profile list` lists all";
    let profile = ask(answers, &format!("scheduler ({known})"), "easy", known_profile)?;
    let trace = ask(answers, "file with recorded jobs, such as the output of sacct", "none", |text| match text {
        "none" => Ok(None),
        file => TaskStream::open(Path::new(file), None).map(|_| Some(PathBuf::from(file))).map_err(|e| e.to_string()),
    })?;
    Ok(Chosen { machine, nodes, profile, trace })
}

fn ask<T>(
    answers: &mut impl BufRead,
    question: &str,
    usual: &str,
    answer: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    loop {
        warn(&format!("{question} [{usual}]: "));
        let mut line = String::new();
        let read = answers.read_line(&mut line);
        let read = read.map_err(|error| Failure::Input(format!("error: standard input: {error}")))?;
        if read == 0 {
            return Err(Failure::Input("error: no answer; nothing is written".to_string()));
        }
        let typed = line.trim();
        match answer(if typed.is_empty() { usual } else { typed }) {
            Ok(value) => return Ok(value),
            Err(message) => warn(&format!("  {message}\n")),
        }
    }
}

fn known_machine(name: &str) -> Result<String, String> {
    match catalog::machine(name) {
        Some(machine) => Ok(machine.name.to_string()),
        None => {
            Err(unknown("machine", name, catalog::machines().iter().map(|machine| machine.name), "catalog machines"))
        }
    }
}

fn known_profile(name: &str) -> Result<String, String> {
    match profile_names().any(|known| known == name) {
        true => Ok(name.to_string()),
        false => Err(unknown("profile", name, profile_names(), "profile list")),
    }
}

fn unknown<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>, list: &str) -> String {
    match dryrack_nearest::nearest(name, known) {
        Some(near) => format!("no {what} is named `{name}`; did you mean `{near}`?"),
        None => format!("no {what} is named `{name}`; `dryrack {list}` lists them"),
    }
}

/// The nodes of a machine from the catalog, and how many GPUs each of them has.
fn nodes_of_machine(chosen: &Chosen) -> (String, u32) {
    let gpus = catalog::machine(&chosen.machine).map_or(0, |machine| machine.gpus.iter().map(|gpus| gpus.count).sum());
    let text = format!(
        "# The machines. `dryrack catalog machines` lists names; a machine can also be described by its parts:\n\
         # {{name: big, cpus: 96, ram: 1TiB, gpus: [{{type: a100-80g, count: 8}}], price_per_hour: 16}}\n\
         # How many are enough? A plan answers, with `factors: {{n: {{set: nodes.node.count, values: 1..16}}}}`.\n\
         nodes:\n  - {{name: node, count: {}, machine: {}}}\n",
        chosen.nodes, chosen.machine
    );
    (text, gpus)
}

/// Writes the nodes that the source reports to a file of their own, and includes that file. Also returns the largest
/// number of GPUs in one of them.
fn found_nodes(args: &InitArgs, part: &Path) -> Result<(String, u32), Failure> {
    let (snapshot, at) = args.source.read()?;
    if snapshot.nodes.is_empty() {
        return Err(Failure::Input(format!("error: --from {} reports no nodes", shown_url(args.source.from()))));
    }
    let about = vec![format!("Found by `dryrack init --from {}` at {}.", shown_url(args.source.from()), at.wall)];
    let options = FoundOptions { idle_up_to: IDLE_UP_TO, gpu: None, without_use: true };
    WholeFile::write(part, nodes_text(&snapshot.nodes, &about, &options).as_bytes())?;
    snapshot.notes.iter().for_each(|note| warn(&format!("note: {note}\n")));
    let name = part.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    warn(&format!("{} in {}\n", counted(snapshot.nodes.len(), "node"), part.display()));
    let gpus = snapshot.nodes.iter().map(|node| node.gpus.len()).max().unwrap_or(0);
    let text =
        format!("# The machines, as they were found. `dryrack probe --out` writes this file again.\ninclude: {name}\n");
    Ok((text, u32::try_from(gpus).unwrap_or(u32::MAX)))
}

/// Jobs that fit the machines of the scenario: one with all GPUs of a node, and small ones that arrive over a
/// day.
fn example_jobs(gpus: u32) -> String {
    let (whole, part) = match gpus {
        0 => ("cpus: 1".to_string(), "cpus: 1".to_string()),
        gpus => (format!("gpus: {gpus}"), "gpus: 1".to_string()),
    };
    format!(
        "# What is asked of them. Replace this by your own jobs, or by a list of recorded jobs:\n\
         # trace: {{format: sacct, file: jobs.txt}}\n\
         jobs:\n  - {{name: train, {whole}, duration: 1h, estimate: 2h}}\n  \
         - {{name: small, arrivals: {{poisson: 2/h}}, until: 1d, {part}, duration: 10m, estimate: 20m}}\n\
         # What goes wrong, for example:\n\
         # faults: [{{at: 2h, node: node-0, becomes: crashed}}]\n\
         # What must hold. `dryrack test` fails if it does not; docs/src/expectations.md lists all forms.\n\
         expect:\n  - {{name: the_large_job_ends, job: train, is: completed}}\n  - p95(queue_wait) <= 2h\n"
    )
}

/// The list of jobs, with a path that holds from the folder of the scenario.
fn trace_text(out: &Path, file: &Path) -> Result<String, Failure> {
    let stream = TaskStream::open(file, None).map_err(|error| Failure::Input(format!("error: {error}")))?;
    let found = std::fs::canonicalize(file).map_err(|error| Failure::file(file, error))?;
    let folder = match out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => std::fs::canonicalize(folder).map_err(|error| Failure::file(folder, error))?,
        None => std::env::current_dir().map_err(|error| Failure::file(Path::new("."), error))?,
    };
    let path = found.strip_prefix(&folder).unwrap_or(&found).display().to_string();
    let path = serde_json::to_string(&path).expect("text has a JSON form");
    Ok(format!(
        "# The recorded jobs, submitted when they were.\n\
         trace: {{format: {}, file: {path}}}\n\
         # What must hold. `dryrack test` fails if it does not; docs/src/expectations.md lists all forms.\n\
         expect:\n  - p95(queue_wait) <= 2h\n",
        stream.format.name()
    ))
}

fn scenario_text(chosen: &Chosen, nodes: &str, jobs: &str) -> String {
    format!(
        "scenario: A first rehearsal of this cluster\n\
         # The scheduler that decides. `dryrack profile list` shows all; `dryrack profile show {profile}` shows this one.\n\
         profile: {profile}\n\
         seed: 1\n\
         {nodes}{jobs}",
        profile = chosen.profile
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_asked_again_until_the_answer_can_be_used() {
        let chosen = asked(&mut "h100\nh100-80g-x8\n0\n4\nslurm\n\nno-such-file\n\n".as_bytes());
        let chosen = chosen.expect("the last answer to each question can be used");
        assert_eq!((chosen.machine.as_str(), chosen.nodes), ("h100-80g-x8", 4));
        assert_eq!((chosen.profile.as_str(), chosen.trace), ("easy", None));
        assert!(asked(&mut "h100-80g-x8\n".as_bytes()).is_err(), "the answers end too early");
    }
}
