//! `dryrack catalog`: what is known of machines and GPUs, and from where.

use clap::Subcommand;

use super::exit::{Done, Exit};
use super::output::{Format, say, say_json};
use crate::catalog::{gpus, machines};
use crate::report::table;

#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// Machines by name, as a scenario may use them
    Machines,
    /// GPUs by name, with the memory that their driver reports
    Gpus,
}

pub fn catalog(command: &CatalogCommand, format: Format) -> Done {
    match (command, format) {
        (CatalogCommand::Machines, Format::Json) => say_json(&machines())?,
        (CatalogCommand::Gpus, Format::Json) => say_json(&gpus())?,
        (CatalogCommand::Machines, Format::Human) => say(&machine_table())?,
        (CatalogCommand::Gpus, Format::Human) => say(&gpu_table())?,
    }
    Ok(Exit::Fine)
}

fn machine_table() -> String {
    let rows: Vec<Vec<String>> = (machines().iter())
        .map(|machine| {
            let gpus: Vec<String> = (machine.gpus.iter())
                .map(|gpus| format!("{} x {} ({})", gpus.count, gpus.model, gpus.memory))
                .collect();
            vec![
                machine.name.to_string(),
                machine.cpu.to_string(),
                machine.ram.to_string(),
                machine.os.to_string(),
                machine.arch.to_string(),
                gpus.join(", "),
                machine.as_of.to_string(),
                machine.source.to_string(),
            ]
        })
        .collect();
    table(&["machine", "cores", "ram", "os", "arch", "gpus", "as of", "source"], &rows)
}

fn gpu_table() -> String {
    let rows: Vec<Vec<String>> = (gpus().iter())
        .map(|gpu| {
            vec![
                gpu.name.to_string(),
                gpu.vendor.to_string(),
                gpu.memory.map_or_else(|| "of the machine".to_string(), |memory| memory.to_string()),
                gpu.architecture.unwrap_or_default().to_string(),
                gpu.aliases.join(", "),
                gpu.as_of.to_string(),
                gpu.source.to_string(),
            ]
        })
        .collect();
    table(&["gpu", "vendor", "memory", "architecture", "aliases", "as of", "source"], &rows)
}
