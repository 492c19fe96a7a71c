//! `dryrack plot`: plots runs that `run --out` wrote.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::exit::{Exit, ExitResult, Failure};
use super::output::WholeFile;
use dryrack_report::{Curve, JobRow, Panel, WaitsPlot, read_jobs_csv};

#[derive(Debug, Subcommand)]
pub enum PlotCommand {
    /// Plot waiting times, with a panel for each queue and a curve for each run
    Waits(WaitsArgs),
}

#[derive(Debug, Args)]
pub struct WaitsArgs {
    /// Folders that `run --out` wrote; a folder may be given a name, as in `FIFO=out/fifo`
    #[arg(required = true, value_name = "[NAME=]DIR")]
    runs: Vec<String>,
    /// SVG file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Title above the plot
    #[arg(long, default_value = "Waiting times")]
    title: String,
    /// Show only these queues, in this order [default: all]
    #[arg(long, value_name = "QUEUE", value_delimiter = ',')]
    queues: Vec<String>,
    /// Line of text below the plot; may be repeated
    #[arg(long, value_name = "TEXT")]
    caption: Vec<String>,
}

pub fn plot(command: &PlotCommand) -> ExitResult {
    let PlotCommand::Waits(args) = command;
    if args.out.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("svg")) {
        let svg = args.out.with_extension("svg");
        return Err(Failure::file(&args.out, format!("would become an SVG file; write `--out {}`", svg.display())));
    }
    let mut runs: Vec<(String, Vec<JobRow>)> = Vec::new();
    for run in &args.runs {
        let (name, dir) = match run.split_once('=') {
            // The path of a folder may contain `=`.
            Some((name, dir)) if !Path::new(run).is_dir() => (name.trim().to_string(), PathBuf::from(dir)),
            _ => (name_of(Path::new(run)), PathBuf::from(run)),
        };
        if name.is_empty() {
            return Err(Failure::Input(format!(
                "error: there is no name for the curve of `{run}`; write `NAME={}`",
                dir.display()
            )));
        }
        if runs.iter().any(|(known, _)| *known == name) {
            let help = format!("write `OTHER={}` for one of them", dir.display());
            return Err(Failure::Input(format!("error: two curves are named `{name}`; {help}")));
        }
        runs.push((name, read_rows(&dir.join("jobs.csv"))?));
    }
    let panels = panels(&runs, &args.queues)?;
    let plot = WaitsPlot { title: args.title.clone(), panels, captions: args.caption.clone() };
    WholeFile::write(&args.out, plot.svg().as_bytes())?;
    Ok(Exit::Fine)
}

fn name_of(dir: &Path) -> String {
    let whole = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
    whole.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn read_rows(path: &Path) -> Result<Vec<JobRow>, Failure> {
    let expected = "a folder that `dryrack run FILE --out DIR` wrote";
    let file = File::open(path).map_err(|error| Failure::unreadable(path, &error, expected))?;
    read_jobs_csv(std::io::BufReader::new(file)).map_err(|error| Failure::file(path, error))
}

/// One panel for each queue. The recorded waits are the same in all runs, so they come from the first run that has
/// them.
fn panels(runs: &[(String, Vec<JobRow>)], queues: &[String]) -> Result<Vec<Panel>, Failure> {
    let mut by_queue: BTreeMap<&str, Vec<Curve>> = BTreeMap::new();
    let known: std::collections::BTreeSet<&str> =
        runs.iter().flat_map(|(_, rows)| rows).map(|row| row.queue.as_str()).collect();
    for queue in &known {
        let curves = by_queue.entry(queue).or_default();
        for (name, rows) in runs {
            let waits: Vec<_> = rows.iter().filter(|row| row.queue == **queue).map(|row| row.wait).collect();
            let never = waits.iter().filter(|wait| wait.is_none()).count();
            curves.push(Curve {
                name: name.clone(),
                waits: waits.into_iter().flatten().collect(),
                never,
                recorded: false,
            });
        }
        let rows = runs.iter().map(|(_, rows)| rows);
        let recorded = rows.map(|rows| {
            let rows = rows.iter().filter(|row| row.queue == **queue);
            rows.filter_map(|row| row.recorded_wait).collect::<Vec<_>>()
        });
        if let Some(waits) = recorded.into_iter().find(|waits| !waits.is_empty()) {
            curves.push(Curve { name: "recorded".into(), waits, never: 0, recorded: true });
        }
    }
    let chosen: Vec<&str> = match queues {
        [] => known.iter().copied().collect(),
        queues => queues.iter().map(String::as_str).collect(),
    };
    let mut panels = Vec::new();
    for queue in chosen {
        let Some(curves) = by_queue.remove(queue) else {
            return Err(super::logs::no_such("no run has a queue named", queue, known.iter().copied()));
        };
        let title = if queue.is_empty() { "all jobs".to_string() } else { queue.to_string() };
        panels.push(Panel { title, curves });
    }
    Ok(panels)
}
