//! `dryrack catalog`: what is known of machines, GPUs and models, and from where.

use clap::Subcommand;

use super::exit::{Done, Exit};
use super::output::{Format, say, say_json};
use crate::catalog::{gpus, machines, models};
use crate::report::table;

#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// Machines by name, as a scenario may use them
    Machines,
    /// GPUs by name, with the memory that their driver reports
    Gpus,
    /// Models by name, with the size of their weights
    Models,
}

pub fn catalog(command: &CatalogCommand, format: Format) -> Done {
    match (command, format) {
        (CatalogCommand::Machines, Format::Json) => say_json(&machines())?,
        (CatalogCommand::Gpus, Format::Json) => say_json(&gpus())?,
        (CatalogCommand::Models, Format::Json) => say_json(&models())?,
        (CatalogCommand::Machines, Format::Human) => say(&machine_table())?,
        (CatalogCommand::Gpus, Format::Human) => say(&gpu_table())?,
        (CatalogCommand::Models, Format::Human) => say(&model_table())?,
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

fn model_table() -> String {
    let number = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
    let rows: Vec<Vec<String>> = (models().iter())
        .map(|model| {
            vec![
                model.name.to_string(),
                model.category.to_string(),
                model.architecture.unwrap_or_default().to_string(),
                model.weights.map_or_else(String::new, |weights| weights.bytes().to_string()),
                model.weights.map_or_else(String::new, |weights| weights.word().to_string()),
                model.quantization.unwrap_or_default().to_string(),
                number(model.heads),
                number(model.vocabulary),
                model.as_of.to_string(),
                model.source.to_string(),
            ]
        })
        .collect();
    let header =
        ["model", "for", "architecture", "weights", "which are", "quantized", "heads", "vocabulary", "as of", "source"];
    table(&header, &rows)
}
