//! Writers for lists of tasks: dryrack's own CSV and JSON lines, and the Standard Workload Format. They write one task
//! at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;

use dryrack_units::{GpuShare, SimDuration};

use super::own::{BETWEEN_MODELS, COLUMNS, Line, word};
use super::row::{Outcome, RunBasis, TraceTask};
use super::swf_header::SwfHeader;
use super::tally::Oddity;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    Csv,
    Jsonl,
    Swf(Processors),
}

/// What is written as the processors of a task in the Standard Workload Format, if the trace has no processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processors {
    /// Nothing, so a task without processors cannot be written.
    Unsaid,
    Gpus,
    /// The number of cores, rounded up.
    Cores,
}

/// Why a task was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(
        "line {line}: `{text}` contains a line end, or a | in the name of a GPU, which this CSV format cannot represent; \
         write JSON lines"
    )]
    NotPlain { line: u64, text: String },
    #[error("line {line}: the trace has no processors; choose what one processor is: gpus or cores")]
    NoProcessors { line: u64 },
    #[error(
        "line {line}: the user {number} is not the user `{name}` of a line before, who got this number because no line states \
         one; state the number of each user, or of none"
    )]
    UserNumberTaken { line: u64, number: u64, name: String },
}

/// The values that the output format cannot hold, each with the number of tasks that have it.
pub type DroppedValues = BTreeMap<&'static str, u64>;

pub struct TaskWriter<W> {
    out: W,
    form: OutputFormat,
    rows: u64,
    lost: DroppedValues,
    users: Users,
}

/// The users of a list. Different users have different numbers.
#[derive(Default)]
struct Users {
    /// The numbers that the list states so far.
    stated: BTreeSet<u64>,
    /// The users of whom the list states only a name, with the numbers that they got.
    numbered: BTreeMap<String, u64>,
    /// The same, by number.
    names: BTreeMap<u64, String>,
}

impl Users {
    /// Notes a number that the list states. Returns the user who got this number before, if there is one.
    fn note(&mut self, number: u64) -> Option<&String> {
        self.stated.insert(number);
        self.names.get(&number)
    }

    /// The number of a user without a stated one: the next number that no user has, counted from 1.
    fn number_of(&mut self, name: &str) -> u64 {
        if let Some(number) = self.numbered.get(name) {
            return *number;
        }
        let mut number = self.names.last_key_value().map_or(1, |(last, _)| last + 1);
        while self.stated.contains(&number) {
            number += 1;
        }
        self.numbered.insert(name.to_string(), number);
        self.names.insert(number, name.to_string());
        number
    }
}

impl<W: Write> TaskWriter<W> {
    /// Writes the beginning of the file, before the first task.
    pub fn new(mut out: W, form: OutputFormat, header: Option<&SwfHeader>) -> io::Result<TaskWriter<W>> {
        match form {
            OutputFormat::Csv => writeln!(out, "{}", COLUMNS.join(","))?,
            OutputFormat::Jsonl => {}
            OutputFormat::Swf(processors) => swf_header(&mut out, processors, header)?,
        }
        Ok(TaskWriter { out, form, rows: 0, lost: DroppedValues::new(), users: Users::default() })
    }

    pub fn write(&mut self, task: &TraceTask) -> Result<(), WriteError> {
        self.rows += 1;
        if let Some(number) = task.user
            && let Some(name) = self.users.note(number)
        {
            return Err(WriteError::UserNumberTaken { line: task.line, number, name: name.clone() });
        }
        if task.odd.has(Oddity::NoTimeLimit) {
            *self.lost.entry("the fact that it had no time limit").or_default() += 1;
        }
        match &task.user_name {
            None => self.write_numbered(task),
            Some(name) => {
                *self.lost.entry("the name of the user").or_default() += 1;
                let number = task.user.unwrap_or_else(|| self.users.number_of(name));
                self.write_numbered(&TraceTask { user: Some(number), user_name: None, ..task.clone() })
            }
        }
    }

    fn write_numbered(&mut self, task: &TraceTask) -> Result<(), WriteError> {
        match self.form {
            OutputFormat::Csv => writeln!(self.out, "{}", csv(task)?)?,
            OutputFormat::Jsonl => {
                let line = serde_json::to_string(&Line::of(task)).expect("a task has a JSON form");
                writeln!(self.out, "{line}")?;
            }
            OutputFormat::Swf(processors) => self.swf(task, processors)?,
        }
        Ok(())
    }

    /// Returns the output, the number of tasks written, and the values that were lost.
    pub fn finish(self) -> (W, u64, DroppedValues) {
        (self.out, self.rows, self.lost)
    }

    fn swf(&mut self, task: &TraceTask, of: Processors) -> Result<(), WriteError> {
        let cores = task.cpu.map(|cpu| cpu.get().div_ceil(1000));
        let processors = match (task.processors, of) {
            (Some(processors), _) => u64::from(processors),
            (None, Processors::Gpus) => u64::from(task.gpus.unwrap_or(0)),
            (None, Processors::Cores) => cores.unwrap_or(0),
            (None, Processors::Unsaid) => return Err(WriteError::NoProcessors { line: task.line }),
        };
        // A task without processors is not valid in this format, and no number is invented, so the task is left out.
        if processors == 0 {
            self.rows -= 1;
            *self.lost.entry("the task, which has no processor").or_default() += 1;
            return Ok(());
        }
        let (named_so, has_gpus) = (task.name == self.rows.to_string(), task.gpus.is_some_and(|gpus| gpus > 0));
        let part = task.gpu_share.is_some_and(|share| share < GpuShare::WHOLE);
        let has_cpu = task.processors.is_none() && task.cpu.is_some();
        for (what, is_lost) in [
            ("the name, except its number", !named_so),
            ("the fact that it never started", task.run_basis == RunBasis::WholeStay),
            ("the fact that it was still running", task.run_basis == RunBasis::SoFar),
            ("the application", task.application.is_some()),
            ("the number of nodes", task.nodes.is_some()),
            ("GPUs", has_gpus && of != Processors::Gpus),
            ("cores", has_cpu && of != Processors::Cores),
            ("the share of a GPU", part),
            ("GPU models", !task.gpu_models.is_empty()),
            ("the virtual cluster", task.virtual_cluster.is_some()),
            ("the quality of service", task.qos.is_some()),
            ("the account", task.account.is_some()),
            ("the most tasks of an application on one node", task.most_per_node.is_some()),
            ("the last recorded status", matches!(task.outcome, Some(Outcome::Running | Outcome::Pending))),
        ] {
            if is_lost {
                *self.lost.entry(what).or_default() += 1;
            }
        }
        let kib = |bytes: Option<dryrack_units::Bytes>| bytes.map(|bytes| bytes.get() / processors / 1024);
        let fields: [String; 18] = [
            self.rows.to_string(),
            SimDuration::from_nanos(task.submit.as_nanos()).to_decimal_seconds(),
            time(task.recorded_wait),
            match task.run_basis {
                RunBasis::NotRecorded => "-1".to_string(),
                RunBasis::Executed | RunBasis::WholeStay | RunBasis::SoFar => task.run.to_decimal_seconds(),
            },
            processors.to_string(),
            time(task.cpu_time_used),
            number(kib(task.ram_used)),
            processors.to_string(),
            time(task.estimate),
            number(kib(task.ram)),
            number(task.outcome.and_then(status)),
            number(task.user),
            number(task.group),
            number(task.executable),
            number(task.queue),
            number(task.partition),
            number(None::<u64>),
            number(None::<u64>),
        ];
        writeln!(self.out, "{}", fields.join(" "))?;
        Ok(())
    }
}

fn number(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-1".to_string(), |value| value.to_string())
}

fn time(value: Option<SimDuration>) -> String {
    number(value.map(SimDuration::to_decimal_seconds))
}

fn status(outcome: Outcome) -> Option<u8> {
    match outcome {
        Outcome::Failed => Some(0),
        Outcome::Completed => Some(1),
        Outcome::ToBeContinued => Some(2),
        Outcome::LastPartCompleted => Some(3),
        Outcome::LastPartFailed => Some(4),
        Outcome::Cancelled => Some(5),
        Outcome::Running | Outcome::Pending => None,
    }
}

fn swf_header(out: &mut impl Write, processors: Processors, header: Option<&SwfHeader>) -> io::Result<()> {
    if header.is_none_or(|header| header.about.iter().all(|(key, _)| key != "Version")) {
        writeln!(out, "; Version: 2.2")?;
    }
    match processors {
        Processors::Unsaid => {}
        Processors::Gpus => writeln!(out, "; Note: a processor is a GPU")?,
        Processors::Cores => writeln!(out, "; Note: a processor is a core")?,
    }
    let Some(header) = header else { return Ok(()) };
    for (key, value) in &header.about {
        writeln!(out, "; {key}: {value}")?;
    }
    let numbers = [
        ("MaxNodes", header.max_nodes.map(u64::from)),
        ("MaxProcs", header.max_procs.map(u64::from)),
        ("UnixStartTime", header.unix_start_time),
    ];
    for (key, value) in numbers {
        if let Some(value) = value {
            writeln!(out, "; {key}: {value}")?;
        }
    }
    for (number, described) in &header.queues {
        for text in described.split("; ") {
            writeln!(out, "; Queue: {number} {text}")?;
        }
    }
    Ok(())
}

fn csv(task: &TraceTask) -> Result<String, WriteError> {
    let line = Line::of(task);
    let texts = [&line.application, &line.virtual_cluster, &line.qos, &line.account].map(Option::as_ref);
    let texts = [Some(&line.job)].into_iter().chain(texts);
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let models = line.gpu_models.iter().find(|model| model.contains(BETWEEN_MODELS) || breaks(model));
    let unfit = texts.flatten().find(|text| breaks(text)).or(models);
    if let Some(text) = unfit {
        return Err(WriteError::NotPlain { line: task.line, text: text.clone() });
    }
    let nanos = |value: Option<u64>| value.map(|nanos| SimDuration::from_nanos(nanos).to_decimal_seconds());
    let fields: [Option<String>; COLUMNS.len()] = [
        Some(line.job),
        nanos(Some(line.submit_ns)),
        nanos(Some(line.duration_ns)),
        text_or_none(line.duration_is),
        nanos(line.wait_ns),
        nanos(line.estimate_ns),
        plain(line.nodes),
        plain(line.processors),
        plain(line.cpu_milli.map(|cpu| cpu.get())),
        plain(line.ram_bytes.map(|ram| ram.get())),
        plain(line.gpus),
        plain(line.gpu_milli),
        Some(line.gpu_models.join(&BETWEEN_MODELS.to_string())),
        nanos(line.cpu_used_ns),
        plain(line.ram_used_bytes.map(|ram| ram.get())),
        text_or_none(line.outcome),
        plain(line.user),
        plain(line.group),
        plain(line.executable),
        plain(line.queue),
        plain(line.partition),
        line.application,
        line.virtual_cluster,
        line.qos,
        plain(line.most_per_node),
        line.account,
        line.user_name,
    ];
    let fields = fields.map(Option::unwrap_or_default);
    // Few fields need quotation marks.
    if fields.iter().all(|field| !field.contains([',', '"'])) {
        return Ok(fields.join(","));
    }
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(&fields).map_err(io::Error::from)?;
    let written = out.into_inner().map_err(|fault| fault.into_error())?;
    Ok(String::from_utf8_lossy(written.trim_ascii_end()).into_owned())
}

fn plain(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn text_or_none(value: Option<impl Serialize>) -> Option<String> {
    value.map(|value| word(&value))
}
