//! `dryrack log`: prints one line for each transition in a log.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::exit::{Exit, ExitResult};
use super::logs::{no_such, read_whole};
use super::output::{self, Format};
use dryrack_codec::encode_line;
use dryrack_control::Profile;
use dryrack_event::Reason;
use dryrack_ids::Names;
use dryrack_report::{Filter, record_line};
use dryrack_units::SimTime;

#[derive(Debug, Args)]
pub struct LogArgs {
    /// Log that `run --out` wrote
    log: PathBuf,
    /// Show only records about this job
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Show only records about this node, and placements on it
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Show only records that give this reason, such as node_not_ready
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// Show only records from this time on, such as 1h30m
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    since: Option<SimTime>,
}

pub fn log(args: &LogArgs, format: Format) -> ExitResult {
    let log = read_whole(&args.log)?;
    let reason = args.reason.as_deref().map(|name| {
        let mut known = Reason::ALL.to_vec();
        if let Ok(profile) = Profile::from_data(log.header.profile_data.clone()) {
            known.extend(profile.scheduler.own_filters().map(|filter| Reason::Own(filter.because())));
        }
        let found = known.iter().find(|reason| reason.name() == name).copied();
        found.ok_or_else(|| no_such("there is no reason", name, known.iter().map(|reason| reason.name())))
    });
    let filter = Filter {
        job: args.job.as_deref().map(|name| log.job(name)).transpose()?,
        node: args.node.as_deref().map(|name| log.node(name)).transpose()?,
        reason: reason.transpose()?,
        since: args.since,
    };
    let fold = output::folder();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut names = Names::default();
    for record in &log.records {
        // Encode every record, even one that is not shown: encoding a declaration registers its name for later records.
        let json = (format == Format::Json).then(|| encode_line(record, &mut names));
        if let Some(line) = record_line(record, &log.names, &filter) {
            match json {
                Some(json) => writeln!(out, "{json}")?,
                None => writeln!(out, "{}", fold(&line))?,
            }
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}
