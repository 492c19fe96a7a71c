//! `dryrack record`: records usage over time, in a form that the simulator can replay.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, print, print_json, warn};
use super::source::SourceArgs;
use dryrack_live::clock::Clock;
use dryrack_live::recorder::{RecordingOptions, RecordingResult, record as write, usual_within, why_path};
use dryrack_live::stop::Stop;
use dryrack_units::{SimDuration, counted};

#[derive(Debug, Args)]
pub struct RecordArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Length of the recording
    #[arg(long = "for", value_name = "TIME", default_value = "10m")]
    length: SimDuration,
    /// Time between readings
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: SimDuration,
    /// File for the recording; the reasons for missing readings go to FILE.why.csv
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// The shortest interval between readings. A reading may take longer than a shorter interval.
pub const LEAST_EVERY: SimDuration = SimDuration::from_millis(100);

pub fn record(args: &RecordArgs, format: Format) -> ExitResult {
    if args.every < LEAST_EVERY {
        return Err(Failure::Input(format!("error: --every {}: the shortest is {LEAST_EVERY}", args.every)));
    }
    let stop = Stop::on_signals()?;
    let clock = Arc::new(Clock::start());
    let mut probe = args.source.probe(&clock)?;
    let pace = RecordingOptions {
        length: args.length,
        every: args.every,
        within: args.source.within(usual_within(args.every)),
    };
    let is_seen = std::io::stderr().is_terminal();
    let mut on_row = |so_far: &RecordingResult, since: SimDuration| {
        if is_seen {
            warn(&format!("\r{}\x1b[K", line(so_far, since, args.length)));
        }
    };
    let recorded = write(&mut probe, &clock, pace, &args.out, &stop, &mut on_row);
    if is_seen {
        warn("\r\x1b[K");
    }
    let recorded = recorded.map_err(|error| Failure::Input(format!("error: {error}")))?;
    match format {
        Format::Json => print_json(&json!({
            "file": args.out, "reasons": why_path(&args.out), "columns": recorded.columns, "rows": recorded.rows,
            "missing": recorded.missing, "stopped": recorded.was_stopped,
        }))?,
        Format::Human => {
            let early = if recorded.was_stopped { ", ended early" } else { "" };
            let columns = counted(recorded.columns.len(), "column");
            print(&format!(
                "{}: {} of {columns}{early}; {}\n",
                args.out.display(),
                counted(recorded.rows as usize, "row"),
                missing(&recorded)
            ))?;
        }
    }
    Ok(Exit::Fine)
}

fn line(so_far: &RecordingResult, since: SimDuration, length: SimDuration) -> String {
    let whole = SimDuration::from_secs(since.as_nanos() / 1_000_000_000);
    format!("{whole} of {length}: {}, {}", counted(so_far.rows as usize, "row"), missing(so_far))
}

fn missing(recorded: &RecordingResult) -> String {
    if recorded.missing.is_empty() {
        return "nothing missing".to_string();
    }
    let each: Vec<String> = recorded.missing.iter().map(|(name, count)| format!("{count} {name}")).collect();
    format!("missing: {}", each.join(", "))
}
