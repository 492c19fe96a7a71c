//! Opens logs for the commands.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::exit::Failure;
use dryrack_event::{LiveHeader, LogHeader, Record};
use dryrack_ids::{JobId, NameTable, Names, NodeId};
use dryrack_nearest::hint;
use dryrack_report::{Footer, LogReader, read_log};

pub fn open(path: &Path) -> Result<LogReader<BufReader<File>>, Failure> {
    open_expected(path, "a log that `dryrack run FILE --out DIR` wrote as DIR/events.jsonl")
}

fn open_expected(path: &Path, expected: &str) -> Result<LogReader<BufReader<File>>, Failure> {
    let within = path.join("events.jsonl");
    if path.is_dir() {
        let near = if within.is_file() { format!("; did you mean `{}`?", within.display()) } else { String::new() };
        return Err(Failure::file(path, format!("is a folder; expected {expected}{near}")));
    }
    let file = File::open(path).map_err(|error| Failure::unreadable(path, &error, expected))?;
    LogReader::new(BufReader::new(file)).map_err(|error| Failure::file(path, error))
}

/// A log that is read completely before use, because a record may use a name that is declared later.
pub struct WholeLog {
    pub header: LogHeader,
    pub records: Vec<Record>,
    pub names: Names,
    pub footer: Footer,
}

/// The description of a live log in error messages.
const LIVE: &str = "a log that `dryrack live` wrote";

pub fn read_whole(path: &Path) -> Result<WholeLog, Failure> {
    whole(path, open(path)?)
}

/// Reads a log of a run on a real machine; refuses any other log.
pub fn read_live(path: &Path) -> Result<(WholeLog, LiveHeader), Failure> {
    let log = whole(path, open_expected(path, LIVE)?)?;
    let why = || Failure::file(path, format!("was not recorded on a machine; expected {LIVE}"));
    let live = log.header.live.clone().ok_or_else(why)?;
    Ok((log, live))
}

fn whole(path: &Path, reader: LogReader<BufReader<File>>) -> Result<WholeLog, Failure> {
    let header = reader.header().clone();
    let mut records = Vec::new();
    let mut names = Names::default();
    let read = read_log(reader, |record, known| {
        records.push(record.clone());
        catch_up(&mut names.jobs, &known.jobs);
        catch_up(&mut names.nodes, &known.nodes);
        catch_up(&mut names.fleets, &known.fleets);
    });
    let footer = read.map_err(|error| Failure::file(path, error))?;
    Ok(WholeLog { header, records, names, footer })
}

fn catch_up(names: &mut NameTable, known: &NameTable) {
    for index in names.len()..known.len() {
        let name = known.get(index).expect("within its length");
        names.add(name.clone()).expect("the reader refuses a name twice");
    }
}

impl WholeLog {
    pub fn job(&self, name: &str) -> Result<JobId, Failure> {
        find(&self.names.jobs, "job", name).map(JobId::new)
    }

    pub fn node(&self, name: &str) -> Result<NodeId, Failure> {
        find(&self.names.nodes, "node", name).map(NodeId::new)
    }
}

fn find(table: &NameTable, kind: &str, name: &str) -> Result<usize, Failure> {
    let known = || table.iter().map(|known| &**known);
    table.find(name).ok_or_else(|| no_such(&format!("the log has no {kind} named"), name, known()))
}

/// The error for an unknown name. It reads, for example: no job is named `chta`; did you mean `chat`?
pub fn no_such<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let hint = hint(name, known).map_or("; there are none".to_string(), |hint| format!("; {hint}"));
    Failure::Input(format!("error: {what} `{name}`{hint}"))
}
