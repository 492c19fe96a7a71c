//! Reads an event log and prints when each replica was placed: `cargo run --example read_log -- out/events.jsonl`.
//!
//! Without a file it first writes the log of a small run, and then reads it.

use std::io::BufReader;

use dryrack::log::{Event, LogReader, RecordBody};

const SCENARIO: &str = "
scenario: Two jobs want one GPU
nodes: [{name: alpha, machine: l4-x1}]
jobs: [{name: chat, gpus: 1, duration: 1m}, {name: late, at: 10s, gpus: 1, duration: 1m}]
";

pub fn main() {
    let input: Box<dyn std::io::Read> = match std::env::args().nth(1).filter(|path| path.ends_with(".jsonl")) {
        Some(path) => Box::new(std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"))),
        None => Box::new(std::io::Cursor::new(written())),
    };
    let mut log = LogReader::new(BufReader::new(input)).unwrap_or_else(|error| panic!("{error}"));
    while let Some(line) = log.next_line().unwrap_or_else(|error| panic!("{error}")) {
        let record = line.record.unwrap_or_else(|error| panic!("line {}: {error}", line.number));
        if let RecordBody::Event(Event::Placed { attempt, .. }) = &record.said {
            println!("{} {} is placed", record.at, log.names.attempt(*attempt));
        }
    }
}

/// The log of a small run.
fn written() -> Vec<u8> {
    let simulation = dryrack::Simulation::from_yaml(SCENARIO).unwrap_or_else(|error| panic!("{error}"));
    simulation.write_log(Vec::new()).unwrap_or_else(|error| panic!("{error}"))
}
