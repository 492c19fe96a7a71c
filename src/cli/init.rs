//! `dryrack init`: writes a first scenario of a cluster, with comments, that can be run at once.

use std::collections::BTreeMap;
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
use dryrack_trace::{Format as TraceFormat, InUse, Size, Sizing, TaskStream, TraceError};
use dryrack_units::{Bytes, SimDuration, counted};

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
    /// Number of nodes [default: as many as have the GPUs, or else the cores, that the log had in use at once, or 2]
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
    /// As stated. Otherwise it depends on the log.
    nodes: Option<u32>,
    profile: String,
    trace: Option<Logged>,
}

/// A list of recorded jobs, and what it shows of its cluster.
struct Logged {
    file: PathBuf,
    format: TraceFormat,
    /// The number of tasks of several GPUs whose nodes the list does not state.
    on_unstated_nodes: u64,
    /// From the first submission to the last, without those that `keys` leaves out.
    length: SimDuration,
    /// What was in use, if the list shows it.
    size: Option<Size>,
    /// What would be in use if the jobs that were still running went on until their time limits, as they are replayed.
    size_at_limits: Option<Size>,
    /// Keys of `trace:` that leave out the few tasks long before or after all others, with the reason.
    keys: Option<(String, String)>,
    /// The partitions in a log of Slurm, with the jobs of each.
    partitions: BTreeMap<String, usize>,
}

impl Logged {
    fn read(file: &Path) -> Result<Logged, String> {
        let mut stream = TaskStream::open(file, None).map_err(|error| error.to_string())?;
        let (mut sizing, mut on_unstated_nodes) = (Sizing::default(), 0);
        let is_of_slurm = stream.format.is_of_slurm();
        let mut partitions = BTreeMap::new();
        stream
            .each(file, |task| -> Result<(), TraceError> {
                on_unstated_nodes += u64::from(task.leaves_nodes_open());
                sizing.add(&task);
                let named = task.virtual_cluster.as_deref().filter(|_| is_of_slurm).into_iter();
                for partition in named.flat_map(|names| names.split(',')) {
                    *partitions.entry(partition.to_string()).or_default() += 1;
                }
                Ok(())
            })
            .map_err(|error| error.to_string())?;
        let keys = sizing.without_outliers().map(|found| (found.keys(), found.sentence()));
        Ok(Logged {
            file: file.to_path_buf(),
            format: stream.format,
            on_unstated_nodes,
            length: sizing.length(),
            size: sizing.size(),
            size_at_limits: sizing.size_at_limits(),
            keys,
            partitions,
        })
    }

    fn hours(&self) -> u64 {
        self.length.as_nanos() / 3_600_000_000_000
    }

    /// The numbers of nodes that have the most that is in use at once, and what is in use on average. `None` if the
    /// machine has nothing of it.
    fn nodes(&self, size: Size, machine: &str) -> Option<[u64; 2]> {
        let machine = catalog::machine(machine)?;
        let each = match size.of {
            InUse::Gpus => machine.gpus.iter().map(|gpus| u64::from(gpus.count)).sum(),
            InUse::Cores => machine.cpu.get() / 1000,
        };
        let mean = size.seconds / 3600 / self.hours().max(1);
        (each > 0).then(|| [size.most, mean].map(|amount| amount.div_ceil(each).max(1)))
    }

    /// How to resample the list: in days if it has ten of them, otherwise in shorter blocks without the time of day.
    fn resample(&self) -> Option<&'static str> {
        const CHOICES: [(u64, &str); 3] =
            [(240, "{block: 1d}"), (60, "{block: 6h, cycle: 6h}"), (10, "{block: 1h, cycle: 1h}")];
        CHOICES.into_iter().find(|(hours, _)| self.hours() >= *hours).map(|(_, resample)| resample)
    }
}

pub fn init(args: &InitArgs) -> ExitResult {
    let part = args.out.with_file_name("nodes.part.yaml");
    let plan = args.out.with_extension("plan.yaml");
    let with_plan = args.trace.is_some().then_some(&plan);
    for file in [Some(&args.out), args.source.is_given().then_some(&part), with_plan].into_iter().flatten() {
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
    let trace = chosen.trace.as_ref().map(|logged| trace_text(&args.out, logged)).transpose()?;
    let of_machine =
        catalog::machine(&chosen.machine).map_or(0, |machine| machine.gpus.iter().map(|gpus| gpus.count).sum());
    let (nodes, gpus, found) = match args.source.is_given() {
        true => found_nodes(args, &part)?,
        false => (nodes_of_machine(&chosen), of_machine, None),
    };
    let jobs = trace.unwrap_or_else(|| example_jobs(gpus));
    let plan_text = match &chosen.trace {
        Some(_) if args.source.is_given() => Err("the nodes are those that --from found"),
        Some(logged) => plan_text(&args.out, logged, &chosen.machine),
        None => Err(""),
    };
    if let (Some(_), Err(why)) = (&chosen.trace, &plan_text) {
        warn(&format!("note: no plan is written, because {why}\n"));
    }
    let plan_text = plan_text.ok();
    let has_plan = plan_text.is_some();
    let files = found.map(|text| (part, text)).into_iter().chain(plan_text.map(|text| (plan.clone(), text)));
    let files = files.chain([(args.out.clone(), scenario_text(&chosen, &nodes, &jobs))]);
    WholeFile::write_all(files.map(|(path, text)| (path, text.into_bytes())))?;
    report(&chosen, &args.out, has_plan.then_some(plan.as_path()))
}

/// Checks the new file as `dryrack check` does, and says what to do next.
fn report(chosen: &Chosen, file: &Path, plan: Option<&Path>) -> ExitResult {
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
    let plans = match plan {
        Some(plan) => format!(
            "  dryrack plan {:<width$}how few nodes are enough, and how sure that is\n",
            plan.display(),
            width = name.to_string().len() + 15
        ),
        None => String::new(),
    };
    let written =
        plan.map_or(format!("{name} is written"), |plan| format!("{name} and {} are written", plan.display()));
    print(&format!(
        "{written}. Next:\n{check}  dryrack test {name}               does what it expects hold?\n  \
         dryrack run {name} --report out   a page to look at: out/report.html\n  \
         dryrack what-helps {name}         which single change would save the most waiting\n{plans}"
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
    let trace = args.trace.as_deref().map(Logged::read).transpose();
    let trace = trace.map_err(|message| Failure::Input(format!("error: {message}")))?;
    let of_log = match &trace {
        Some(Logged { format: TraceFormat::Sacct | TraceFormat::Jobcomp, .. }) => "slurm-22.05",
        _ => of_source,
    };
    Ok(Chosen {
        machine: known_machine(args.machine.as_deref().unwrap_or("a100-80g-x8")).map_err(of_option("--machine"))?,
        nodes: args.nodes,
        profile: known_profile(args.profile.as_deref().unwrap_or(of_log)).map_err(of_option("--profile"))?,
        trace,
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
        file => Logged::read(Path::new(file)).map(Some),
    })?;
    Ok(Chosen { machine, nodes: Some(nodes), profile, trace })
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

/// The nodes of a machine from the catalog.
fn nodes_of_machine(chosen: &Chosen) -> String {
    let (count, why) = match (chosen.nodes, &chosen.trace) {
        (Some(count), _) => (u64::from(count), String::new()),
        (None, None) => (2, String::new()),
        (None, Some(logged)) => {
            let known = logged.size_at_limits.map(|size| (size, logged.nodes(size, &chosen.machine)));
            let count = known.and_then(|(_, nodes)| nodes).map_or(2, |[most, _]| most.min(u64::from(NODES_MAX)));
            let of = if known.is_some_and(|(size, _)| size.of == InUse::Cores) { "cores" } else { "GPUs" };
            let why = match known {
                None => "the log does not show how many GPUs or cores were in use".to_string(),
                Some((_, None)) => format!("the log shows {of} in use, and {} has none", chosen.machine),
                Some((Size { most, has_starts: true, .. }, _)) => match logged.size {
                    Some(size) if size.most < most => format!(
                        "at most {} {of} were in use at once in the log, and {most} if the jobs that still ran take \
                         their whole time limits",
                        size.most
                    ),
                    _ => format!("at most {most} {of} were in use at once in the log"),
                },
                Some((Size { most, .. }, _)) => format!(
                    "the log does not state starts; at most {most} {of} would have been in use if no job had waited"
                ),
            };
            let are = if count == 1 { "is" } else { "are" };
            let guess = if known.is_some_and(|(_, nodes)| nodes.is_some()) { "" } else { ", as a guess" };
            let nodes = counted(usize::try_from(count).unwrap_or(usize::MAX), "node");
            let why = format!("{why}, so there {are} {nodes}{guess}");
            warn(&format!("note: {why}; --nodes states another number\n"));
            (count, format!("# {}{}.\n", why[..1].to_uppercase(), &why[1..]))
        }
    };
    format!(
        "# The machines. `dryrack catalog machines` lists names; a machine can also be described by its parts:\n\
         # {{name: big, cpus: 96, ram: 1TiB, gpus: [{{type: a100-80g, count: 8}}], price_per_hour: 16}}\n\
         {why}nodes:\n  - {{name: node, count: {count}, machine: {}}}\n",
        chosen.machine
    )
}

/// A plan that finds how few of the nodes are enough, or why there is none.
fn plan_text(scenario: &Path, logged: &Logged, machine: &str) -> Result<String, &'static str> {
    let resample = logged.resample().ok_or(
        "fewer than 10 hours lie between the first and the last submission in the log: too few to draw other logs from \
         its hours, without which the answer would be that of one lucky log",
    )?;
    let sizes = logged.size.or(logged.size_at_limits).zip(logged.size_at_limits);
    let (size, size_at_limits) = sizes.ok_or("the log does not show how many GPUs or cores were in use")?;
    let of_machine = |size| logged.nodes(size, machine).ok_or("the machine has nothing of what was in use in the log");
    let ([most, mean], [most_at_limits, _]) = (of_machine(size)?, of_machine(size_at_limits)?);
    let (recorded, hours) = (most.max(mean), logged.hours().max(1));
    let largest = recorded.max(most_at_limits) * 3 / 2 + 2;
    let objective = if size.of == InUse::Gpus { "gpus" } else { "nodes" };
    let ever = match (most_at_limits > recorded, size.has_starts) {
        (true, _) => "would be in use at once\n# if the jobs that still ran took their whole time limits",
        (false, true) => "were ever in use at once",
        (false, false) => "would be in use at once if no job waited",
    };
    // The run begins with an empty cluster, and the last jobs of the list run on alone. Neither is measured.
    let window = match hours / 24 {
        0..3 => String::new(),
        days => format!(", until: {days}d, warm_up: 1d"),
    };
    let name = scenario.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    Ok(format!(
        "plan: How few nodes keep the waiting short?\n\
         scenario: {}\n\
         # Each seed draws another list of jobs from the log, in blocks of this length, so that the answer is not that of\n\
         # one lucky list. If all of 60 seeds hold, at least 95% of such lists do, with 95% confidence.\n\
         set: {{trace.resample: {resample}{window}}}\n\
         seeds: 1..60\n\
         # From the nodes that were in use on average to half as many again as {ever}.\n\
         factors:\n  nodes: {{set: nodes.node.count, values: {mean}..{largest}}}\n\
         minimize: {objective}\n\
         constraints:\n  - p95(queue_wait) <= 2h\n\
         method: search\n",
        serde_json::to_string(&name).expect("text has a JSON form"),
    ))
}

/// The nodes that the source reports: what includes the file `part`, the largest number of GPUs in one of them, and the
/// text of that file.
fn found_nodes(args: &InitArgs, part: &Path) -> Result<(String, u32, Option<String>), Failure> {
    let (snapshot, at) = args.source.read()?;
    if snapshot.nodes.is_empty() {
        return Err(Failure::Input(format!("error: --from {} reports no nodes", shown_url(args.source.from()))));
    }
    let about = vec![format!("Found by `dryrack init --from {}` at {}.", shown_url(args.source.from()), at.wall)];
    let options = FoundOptions { idle_up_to: IDLE_UP_TO, gpu: None, without_use: true };
    let found = nodes_text(&snapshot.nodes, &about, &options);
    snapshot.notes.iter().for_each(|note| warn(&format!("note: {note}\n")));
    let name = part.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    warn(&format!("{} in {}\n", counted(snapshot.nodes.len(), "node"), part.display()));
    let gpus = snapshot.nodes.iter().map(|node| node.gpus.len()).max().unwrap_or(0);
    let text =
        format!("# The machines, as they were found. `dryrack probe --out` writes this file again.\ninclude: {name}\n");
    Ok((text, u32::try_from(gpus).unwrap_or(u32::MAX), Some(found)))
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
fn trace_text(out: &Path, logged: &Logged) -> Result<String, Failure> {
    let file = &logged.file;
    let found = std::fs::canonicalize(file).map_err(|error| Failure::file(file, error))?;
    let folder = match out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => std::fs::canonicalize(folder).map_err(|error| Failure::file(folder, error))?,
        None => std::env::current_dir().map_err(|error| Failure::file(Path::new("."), error))?,
    };
    let path = found.strip_prefix(&folder).unwrap_or(&found).display().to_string();
    let path = serde_json::to_string(&path).expect("text has a JSON form");
    let days = logged.length.as_nanos() / 86_400_000_000_000;
    let window = match days {
        0..2 => String::new(),
        days => format!(
            "# The cluster is empty at first, and at the end the last jobs run on alone. This measures the time between:\n\
             # until: {days}d\n# warm_up: 1d\n"
        ),
    };
    let (why, nodes) = match logged.on_unstated_nodes {
        0 => ("", ""),
        _ => (
            "# The list does not state nodes. A job takes the fewest nodes that can hold its GPUs; with `any`, its GPUs may be\n\
             # on any nodes.\n",
            ", gpu_nodes: fewest",
        ),
    };
    let (left_out, keys) = match &logged.keys {
        None => (String::new(), String::new()),
        Some((keys, why)) => {
            warn(&format!("note: {why}; `{keys}` in the scenario leaves out what lies beyond\n"));
            (format!("# {why}.\n# These keys leave out what lies beyond: {keys}\n"), format!(", {keys}"))
        }
    };
    let partitions = partitions_text(&logged.partitions);
    Ok(format!(
        "# The recorded jobs, submitted when they were.\n{why}{left_out}\
         trace: {{format: {}, file: {path}{nodes}{keys}}}\n{window}{partitions}\
         # What must hold. `dryrack test` fails if it does not; docs/src/expectations.md lists all forms.\n\
         expect:\n  - p95(queue_wait) <= 2h\n",
        logged.format.name()
    ))
}

/// How to keep several partitions of a log apart, as comments: which nodes and limits they have is not in the log.
fn partitions_text(partitions: &BTreeMap<String, usize>) -> String {
    if partitions.len() < 2 {
        return String::new();
    }
    let found = format!("the log has {} partitions, which share all nodes in this rehearsal", partitions.len());
    warn(&format!("note: {found}; `slurm:` in the scenario keeps them apart, and is there as a comment\n"));
    let each: Vec<String> = partitions
        .iter()
        .map(|(name, jobs)| {
            let name = serde_json::to_string(name).expect("text has a JSON form");
            format!("#     - {{name: {name}, nodes: [\"*\"]}}  # {}\n", counted(*jobs, "job"))
        })
        .collect();
    format!(
        "# {}{}. To keep them apart, and to apply their limits,\n\
         # state the nodes and limits of each, under a Slurm profile (docs/src/slurm.md):\n\
         # slurm:\n#   partitions:\n{}",
        found[..1].to_uppercase(),
        &found[1..],
        each.concat()
    )
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
        assert_eq!((chosen.machine.as_str(), chosen.nodes), ("h100-80g-x8", Some(4)));
        assert_eq!((chosen.profile.as_str(), chosen.trace.is_none()), ("easy", true));
        assert!(asked(&mut "h100-80g-x8\n".as_bytes()).is_err(), "the answers end too early");
    }
}
