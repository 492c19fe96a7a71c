//! `dryrack catalog`: lists the known machines, GPUs and models, with the source of each fact.

use clap::Subcommand;

use super::exit::{Exit, ExitResult};
use super::output::{Format, print, print_json};
use dryrack_catalog::{Compatibility, Kind, Vendor, compatibilities, gpus, machines, models};
use dryrack_report::table;

#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// List machines by name, as a scenario can use them
    Machines,
    /// List GPUs by name, with the memory that their driver reports
    Gpus,
    /// List models by name, with the size of their weights
    Models,
    /// Show which backend serves which models on which hardware
    Compatibility,
}

pub fn catalog(command: &CatalogCommand, format: Format) -> ExitResult {
    match (command, format) {
        (CatalogCommand::Machines, Format::Json) => print_json(&machines())?,
        (CatalogCommand::Gpus, Format::Json) => print_json(&gpus())?,
        (CatalogCommand::Models, Format::Json) => print_json(&models())?,
        (CatalogCommand::Compatibility, Format::Json) => print_json(&compatibilities())?,
        (CatalogCommand::Machines, Format::Human) => print(&machine_table())?,
        (CatalogCommand::Gpus, Format::Human) => print(&gpu_table())?,
        (CatalogCommand::Models, Format::Human) => print(&model_table())?,
        (CatalogCommand::Compatibility, Format::Human) => print(&compatibility_tables())?,
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

/// Three tables, because the three kinds of rows have different columns.
fn compatibility_tables() -> String {
    let of_kind = |kind| compatibilities().iter().filter(move |row| row.kind == kind);
    let least = |row: &Compatibility| row.compute_capability.map_or_else(String::new, |least| format!(">= {least}"));
    let vendor = |vendor: Option<Vendor>| vendor.map_or("none", Vendor::as_str).to_string();
    let tail = |row: &Compatibility| [row.as_of.to_string(), row.source.to_string()];
    let platform = |row: &Compatibility| {
        let gpus = match row.gpu_architectures.is_empty() {
            true => least(row),
            false => row.gpu_architectures.join(", "),
        };
        let driver = row.driver.map_or_else(String::new, |driver| format!(">= {driver}"));
        let os = row.os.map_or_else(String::new, |os| os.to_string());
        let arch = row.arch.map_or_else(String::new, |arch| arch.to_string());
        let runtime = row.runtime.unwrap_or_default().to_string();
        let head = [row.backend.to_string(), os, arch, vendor(row.vendor), gpus, runtime, driver];
        head.into_iter().chain(tail(row)).collect()
    };
    let quantization = |row: &Compatibility| {
        let head = [row.backend.to_string(), row.names.join(", "), vendor(row.vendor), least(row)];
        head.into_iter().chain(tail(row)).collect()
    };
    let architecture = |row: &Compatibility| {
        let count = format!("{} known, such as {}", row.names.len(), row.names[row.names.len() / 2]);
        [row.backend.to_string(), count].into_iter().chain(tail(row)).collect()
    };
    let platforms: Vec<Vec<String>> = of_kind(Kind::Platform).map(platform).collect();
    let quantizations: Vec<Vec<String>> = of_kind(Kind::Quantization).map(quantization).collect();
    let architectures: Vec<Vec<String>> = of_kind(Kind::Architecture).map(architecture).collect();
    let columns = ["backend", "os", "arch", "gpus of", "which are", "runtime", "driver", "as of", "source"];
    [
        table(&columns, &platforms),
        table(&["backend", "quantization", "gpus of", "which are", "as of", "source"], &quantizations),
        table(&["backend", "model architectures", "as of", "source"], &architectures),
    ]
    .join("\n")
}
