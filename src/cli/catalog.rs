//! `dryrack catalog`: lists the known machines, GPUs and models, with the source of each fact.

use clap::{Args, Subcommand};

use super::exit::{Exit, ExitResult};
use super::output::{Format, print, print_json};
use dryrack_catalog::{Compatibility, Kind, Vendor, compatibilities, gpus, machines, models};
use dryrack_report::table;

#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// List machines by name, as a scenario can use them
    Machines(CatalogArgs),
    /// List GPUs by name, with the memory that their driver reports
    Gpus(CatalogArgs),
    /// List models by name, with the size of their weights
    Models(CatalogArgs),
    /// Show which backend serves which models on which hardware
    Compatibility(CatalogArgs),
}

#[derive(Debug, Args)]
pub struct CatalogArgs {
    /// Show where each row is from, and when it was read; JSON always has both
    #[arg(long)]
    sources: bool,
}

pub fn catalog(command: &CatalogCommand, format: Format) -> ExitResult {
    match (command, format) {
        (CatalogCommand::Machines(_), Format::Json) => print_json(&machines())?,
        (CatalogCommand::Gpus(_), Format::Json) => print_json(&gpus())?,
        (CatalogCommand::Models(_), Format::Json) => print_json(&models())?,
        (CatalogCommand::Compatibility(_), Format::Json) => print_json(&compatibilities())?,
        (CatalogCommand::Machines(args), Format::Human) => print(&machine_table(args.sources))?,
        (CatalogCommand::Gpus(args), Format::Human) => print(&gpu_table(args.sources))?,
        (CatalogCommand::Models(args), Format::Human) => print(&model_table(args.sources))?,
        (CatalogCommand::Compatibility(args), Format::Human) => print(&compatibility_tables(args.sources))?,
    }
    Ok(Exit::Fine)
}

/// A table whose rows end in their date and source. With `sources`, only these are shown beside the first column.
fn sourced(header: &[&str], rows: &[Vec<String>], sources: bool) -> String {
    let last = header.len();
    let header = [header, &["as of", "source"]].concat();
    let chosen: Vec<usize> = if sources { vec![0, last, last + 1] } else { (0..last).collect() };
    let header: Vec<&str> = chosen.iter().map(|column| header[*column]).collect();
    let row = |row: &Vec<String>| chosen.iter().map(|column| row[*column].clone()).collect();
    table(&header, &rows.iter().map(row).collect::<Vec<Vec<String>>>())
}

fn machine_table(sources: bool) -> String {
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
    sourced(&["machine", "cores", "ram", "os", "arch", "gpus"], &rows, sources)
}

fn gpu_table(sources: bool) -> String {
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
    sourced(&["gpu", "vendor", "memory", "architecture", "aliases"], &rows, sources)
}

fn model_table(sources: bool) -> String {
    let rows: Vec<Vec<String>> = (models().iter())
        .map(|model| {
            let weights = model.weights.map_or_else(String::new, |weights| weights.bytes().to_string());
            vec![
                model.name.to_string(),
                model.category.to_string(),
                weights,
                model.quantization.unwrap_or_default().to_string(),
                model.architecture.unwrap_or_default().to_string(),
                model.as_of.to_string(),
                model.source.to_string(),
            ]
        })
        .collect();
    sourced(&["model", "for", "weights", "quantized", "architecture"], &rows, sources)
}

/// Three tables, because the three kinds of rows have different columns.
fn compatibility_tables(sources: bool) -> String {
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
        let head = [row.backend.to_string(), os, arch, vendor(row.vendor), runtime, driver, gpus];
        head.into_iter().chain(tail(row)).collect()
    };
    let quantization = |row: &Compatibility| {
        let head = [row.backend.to_string(), vendor(row.vendor), least(row), row.names.join(", ")];
        head.into_iter().chain(tail(row)).collect()
    };
    let architecture = |row: &Compatibility| {
        let count = format!("{} known, such as {}", row.names.len(), row.names[row.names.len() / 2]);
        [row.backend.to_string(), count].into_iter().chain(tail(row)).collect()
    };
    let platforms: Vec<Vec<String>> = of_kind(Kind::Platform).map(platform).collect();
    let quantizations: Vec<Vec<String>> = of_kind(Kind::Quantization).map(quantization).collect();
    let architectures: Vec<Vec<String>> = of_kind(Kind::Architecture).map(architecture).collect();
    let columns = ["backend", "os", "arch", "gpus of", "runtime", "driver", "which are"];
    [
        sourced(&columns, &platforms, sources),
        sourced(&["backend", "gpus of", "which are", "quantization"], &quantizations, sources),
        sourced(&["backend", "model architectures"], &architectures, sources),
    ]
    .join("\n")
}
