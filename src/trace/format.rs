//! The formats of lists of tasks. Each format has one row with its reader and a test that recognizes the format.

use std::io::BufRead;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::decimal::Decimal;
use super::error::{TraceError, nearest};
use super::row::NodeTrace;
use super::rows::Rows;
use super::swf::SwfReader;
use super::{dlrm, gavel, genai, helios, jobcomp, openb, own, pollux, slurm, tiresias};

/// The resources that a task of a format requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskResources {
    /// Processors, on any nodes.
    Processors,
    /// Parts of one node, as a pod requests.
    Pod,
    /// Whole nodes, with the same amount of resources on each.
    Nodes,
    /// Whole GPUs on any nodes of the virtual cluster, or as many nodes of it as the task states.
    WholeGpus,
    /// The resources that the task's columns state. Nodes are used if they are stated, otherwise processors if they are
    /// stated, otherwise parts of one node.
    AsStated,
}

/// Defines the formats. A row has the format's name, the reader of its tasks, what a task requests, the reader of a
/// list of nodes (if there is one), and a test of a list's first line. The first format whose test succeeds is used.
macro_rules! formats {
    ($($(#[doc = $doc:literal])* $format:ident => $name:literal, $rows:expr, $asks:ident, nodes: $nodes:tt, $is:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Format {
            $($(#[doc = $doc])* $format,)*
        }

        impl Format {
            /// All formats, sorted by name.
            pub const ALL: [Format; [$($name),*].len()] = [$(Format::$format),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Format::$format => $name,)*
                }
            }

            pub fn asks(self) -> TaskResources {
                match self {
                    $(Format::$format => TaskResources::$asks,)*
                }
            }

            /// Whether a list with this first line has this format.
            fn is_of(self, line: &str) -> bool {
                match self {
                    $(Format::$format => ($is)(line),)*
                }
            }
        }

        /// Reads the tasks of `input`. `file` is the name of the input in error messages.
        pub(super) fn rows<'i>(
            format: Format,
            file: &Path,
            input: impl BufRead + 'i,
        ) -> Result<Box<dyn Rows + 'i>, TraceError> {
            Ok(match format {
                $(Format::$format => Box::new(($rows)(file, input)?),)*
            })
        }

        /// Reads a list of nodes. `name` is the name of the trace in error messages.
        pub(super) fn nodes(
            format: Format,
            name: &str,
            file: &Path,
            input: impl BufRead,
        ) -> Result<NodeTrace, TraceError> {
            match format {
                $(Format::$format => formats!(@nodes $nodes, name, file, input),)*
            }
        }
    };
    (@nodes none, $name:ident, $file:ident, $input:ident) => {
        Err(TraceError::NoNodes { trace: $name.to_string() })
    };
    (@nodes $read:tt, $name:ident, $file:ident, $input:ident) => {
        $read::read_nodes_from($file, $input)
    };
}

formats! {
    /// dryrack's own CSV, with a header line.
    Csv => "csv", own::csv_rows, AsStated, nodes: none, has_column("submit_s");
    /// Instances of Alibaba's recommendation services.
    Dlrm => "dlrm", dlrm::instance_rows, Pod, nodes: none, has_column("instance_sn");
    /// Job traces of Gavel.
    Gavel => "gavel", gavel::JobRows::new, WholeGpus, nodes: none,
        |line: &str| !line.starts_with([';', '{']) && gavel::FIELDS.contains(&line.split('\t').count());
    /// Archives with a table of the GPU use of pods.
    Genai => "genai", genai::PodRows::new, Pod, nodes: none, |line: &str| line.starts_with(genai::DUTY_CYCLES);
    /// The log of a Helios cluster, as published or as in HeliosArtifact.
    Helios => "helios", helios::log_rows, WholeGpus, nodes: helios, has_column("gpu_num");
    /// The output of Slurm's plugin jobcomp/filetxt.
    Jobcomp => "jobcomp", |file, input| Ok::<_, TraceError>(jobcomp::JobcompRows::new(file, input)), Nodes, nodes: none,
        |line: &str| line.starts_with("JobId=");
    /// dryrack's own JSON lines, one object in each line.
    Jsonl => "jsonl", |file, input| Ok::<_, TraceError>(own::JsonRows::new(file, input)), AsStated, nodes: none,
        |line: &str| line.starts_with('{');
    Openb => "openb", openb::PodReader::new, Pod, nodes: openb, has_column("gpu_spec");
    /// The table of Philly as contained in the Pollux artifact.
    Philly => "philly", helios::philly_rows, WholeGpus, nodes: helios, has_column("gpu_time");
    /// Workloads of the Pollux and Sia simulators.
    Pollux => "pollux", pollux::job_rows, WholeGpus, nodes: none, has_column("num_replicas");
    /// The output of `sacct --parsable2`.
    Sacct => "sacct", slurm::SacctRows::new, Nodes, nodes: none,
        |line: &str| line.split('|').any(|column| column == "JobID");
    Swf => "swf", SwfReader::new, Processors, nodes: none, |line: &str| line.starts_with(';') || is_swf_job(line);
    Tiresias => "tiresias", tiresias::job_rows, WholeGpus, nodes: tiresias, has_column("iterations");
}

impl Format {
    /// Whether lists of this format are in an archive. A scenario refers to such a list by the name of the trace.
    pub fn is_archive(self) -> bool {
        self == Format::Genai
    }

    /// Whether lists of this format are logs of Slurm, whose virtual clusters are partitions.
    pub fn is_of_slurm(self) -> bool {
        matches!(self, Format::Sacct | Format::Jobcomp)
    }

    /// Guesses the format of a list from its first line.
    pub(super) fn guess(line: &[u8]) -> Option<Format> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_start_matches('\u{feff}').trim();
        Format::ALL.into_iter().find(|format| format.is_of(text))
    }
}

/// The formats of tables that people write or export themselves, each with the columns that it needs.
const TABLES: [(Format, &[&str]); 3] = [
    (Format::Csv, own::COLUMNS.first_chunk::<{ own::NEEDED }>().expect("it has more columns")),
    (Format::Sacct, &slurm::NEEDED),
    (Format::Helios, helios::LOG_COLUMNS.first_chunk::<{ helios::LOG_NEEDED }>().expect("it has more columns")),
];

/// Says which format a first line is most like, and what it lacks. Empty if it is like none.
pub(super) fn nearest_table(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let separators = [',', ';', '\t', '|'];
    let cells: Vec<&str> = text.trim_start_matches('\u{feff}').split(separators).map(str::trim).collect();
    // A column counts two if it is there, and one if another is named similarly.
    let points = |column: &str| match nearest(column, cells.iter().copied()) {
        Some(cell) if cell == column => 2,
        Some(_) => 1,
        None => 0,
    };
    let share = |columns: &[&str]| columns.iter().map(|column| points(column)).sum::<usize>() * 60 / columns.len();
    let best = TABLES.iter().rev().max_by_key(|(_, columns)| share(columns));
    let Some((format, columns)) = best.filter(|(_, columns)| share(columns) >= 60) else { return String::new() };
    let missing: Vec<&str> = columns.iter().copied().filter(|column| !cells.contains(column)).collect();
    let name = format.name();
    if missing.is_empty() {
        let separator = if *format == Format::Sacct { '|' } else { ',' };
        return format!("; it is most like {name}, whose columns are separated by `{separator}`");
    }
    let similar: Vec<String> = (missing.iter())
        .filter_map(|column| {
            Some(format!("`{}`", nearest(column, cells.iter().copied().filter(|cell| !columns.contains(cell)))?))
        })
        .collect();
    let instead = if similar.is_empty() { String::new() } else { format!(" (it has {})", similar.join(", ")) };
    let columns = if missing.len() == 1 { "column" } else { "columns" };
    format!("; it is most like {name}, but lacks the {columns} `{}`{instead}", missing.join("`, `"))
}

/// The number of fields in a line of the Standard Workload Format.
const SWF_FIELDS: usize = 18;

fn is_swf_job(line: &str) -> bool {
    let mut fields = line.split_whitespace();
    let numbers = fields.by_ref().take(SWF_FIELDS).filter(|field| Decimal::parse(field.as_bytes()).is_ok());
    numbers.count() == SWF_FIELDS
}

/// Tests whether a header line has this column, which no other format has.
fn has_column(sign: &'static str) -> impl Fn(&str) -> bool {
    move |line| line.split(',').any(|column| column.trim() == sign)
}
