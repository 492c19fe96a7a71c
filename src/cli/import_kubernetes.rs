//! `dryrack import kubernetes`, and the same import of a running cluster for `dryrack probe`.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{WholeFile, print, warn};
use dryrack_import::{ClusterSource, ImportedCluster, Names, import_kubernetes};

#[derive(Debug, Args)]
pub struct KubernetesArgs {
    /// Files of `kubectl get nodes,pods,... -A -o json` or other manifests, folders of them, or - for standard input
    #[arg(required = true, value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Folder for scenario.yaml and the manifests
    #[arg(short = 'o', long, value_name = "DIR", default_value = "kubernetes")]
    out: PathBuf,
    /// Replace the names that people chose, and write names.csv, which translates them back
    #[arg(long)]
    anonymize: bool,
}

pub fn import(args: &KubernetesArgs) -> ExitResult {
    let names = names(args.anonymize);
    if args.files.iter().any(|path| path.as_os_str() == "-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::Input(format!("error: standard input: cannot be read: {error}")))?;
        return write(&ClusterSource::Texts(&[("standard input".to_string(), text)]), names, &args.out);
    }
    write(&ClusterSource::Paths(&args.files), names, &args.out)
}

pub fn names(is_anonymous: bool) -> Names {
    if is_anonymous { Names::Numbered } else { Names::Kept }
}

/// Imports a cluster into a folder.
pub fn write(source: &ClusterSource<'_>, names: Names, out: &Path) -> ExitResult {
    let imported = import_kubernetes(source, names).map_err(|faults| Failure::Input(faults.to_string()))?;
    std::fs::create_dir_all(out).map_err(|error| Failure::file(out, format!("cannot be made: {error}")))?;
    let names = imported.names.iter().map(|table| (out.join("names.csv"), table_text(table).into_bytes()));
    let files = imported.files.iter().map(|(name, text)| (out.join(name), text.clone().into_bytes()));
    WholeFile::write_all(names.chain(files))?;
    tell(&imported, out)
}

fn tell(imported: &ImportedCluster, out: &Path) -> ExitResult {
    imported.notes.iter().for_each(|note| warn(&format!("note: {note}\n")));
    if imported.names.is_some() {
        let path = out.join("names.csv");
        warn(&format!("note: {} has the old names; do not hand it on\n", path.display()));
    }
    print(&format!("{}: {}\n", out.join("scenario.yaml").display(), imported.holds.join(", ")))?;
    Ok(Exit::Fine)
}

fn table_text(table: &[[String; 3]]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let rows =
        std::iter::once(["kind", "name", "new_name"]).chain(table.iter().map(|row| row.each_ref().map(String::as_str)));
    rows.for_each(|row| writer.write_record(row).expect("memory takes every row"));
    String::from_utf8(writer.into_inner().expect("memory takes every row")).expect("rows are text")
}
