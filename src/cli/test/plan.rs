//! Selects scenario files by path, tag and title, with the cells of their matrices and their seeds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::args::TestArgs;
use crate::run::Overrides;
use dryrack_nearest::nearest;
use dryrack_scenario::{Cell, outline};
use dryrack_units::counted;
use dryrack_yaml::matches_pattern;

/// A scenario file, with the cells and seeds to run.
pub struct Plan {
    pub file: PathBuf,
    pub cells: Vec<Cell>,
    /// The seeds to run; empty means the file's own seed only.
    pub seeds: Vec<u64>,
}

pub struct Selection {
    pub plans: Vec<Plan>,
    /// The number of cells that tags and filters left out.
    pub left_out: usize,
    /// All tags of the files.
    tags: BTreeSet<String>,
}

/// Selects cells by tag and filter. If the outline of a file cannot be read, the file passes every tag filter. It is
/// then run, which reports its errors, unless `--filter` excludes its path.
pub fn select(files: &[PathBuf], args: &TestArgs, overrides: &Overrides) -> Selection {
    let mut selection = Selection { plans: Vec::new(), left_out: 0, tags: BTreeSet::new() };
    for file in files {
        let known = outline(file, &overrides.lower(file));
        let (title, tags, cells, seeds) = match known {
            Ok(outline) => (outline.title, Some(outline.tags), outline.cells, outline.seeds),
            Err(_) => (String::new(), None, vec![Cell::whole()], Vec::new()),
        };
        let has_tag = match &tags {
            Some(tags) => args.tag.is_empty() || args.tag.iter().any(|tag| tags.contains(tag)),
            None => true,
        };
        selection.tags.extend(tags.into_iter().flatten());
        let all = cells.len();
        let is_chosen = |cell: &Cell| has_tag && is_among(&args.filter, &name(file, &cell.name), &title);
        let cells: Vec<Cell> = cells.into_iter().filter(is_chosen).collect();
        selection.left_out += all - cells.len();
        let seeds = if overrides.names_seed() { Vec::new() } else { seeds };
        if !cells.is_empty() {
            selection.plans.push(Plan { file: file.clone(), cells, seeds });
        }
    }
    selection
}

/// The name of a run, such as `file.yaml [profile=spread, gpus=2]`.
pub fn name(file: &Path, cell: &str) -> String {
    match cell {
        "" => file.display().to_string(),
        cell => format!("{} [{cell}]", file.display()),
    }
}

fn is_among(filters: &[String], name: &str, title: &str) -> bool {
    let holds = |filter: &String| {
        let filter = filter.to_lowercase();
        let is_in = |text: &str| match filter.contains(['*', '?']) {
            true => matches_pattern(&filter, &text.to_lowercase()),
            false => text.to_lowercase().contains(&filter),
        };
        is_in(name) || is_in(title)
    };
    filters.is_empty() || filters.iter().any(holds)
}

impl Selection {
    /// The number of runs without reproductions, which are known only after loading the files.
    pub fn runs(&self) -> u64 {
        self.plans.iter().map(|plan| (plan.cells.len() * plan.seeds.len().max(1)) as u64).sum()
    }

    /// A message that says why nothing was selected.
    pub fn nothing(&self, args: &TestArgs) -> String {
        let unknown = args.tag.iter().find(|tag| !self.tags.contains(*tag));
        let why = match unknown {
            Some(tag) => {
                let near = nearest(tag, self.tags.iter().map(String::as_str));
                let tags: Vec<&str> = self.tags.iter().map(String::as_str).collect();
                let help = match (near, tags.as_slice()) {
                    (Some(near), _) => format!("; did you mean `{near}`?"),
                    (None, []) => "; no scenario has any tag".to_string(),
                    (None, tags) => format!("; there are {}", tags.join(", ")),
                };
                format!("no scenario has the tag `{tag}`{help}")
            }
            None if args.filter.is_empty() => "no scenario has such a tag".to_string(),
            None => format!("no scenario has {} in its path or title", args.filter.join(" or ")),
        };
        format!("nothing selected of {}: {why}\n", counted(self.left_out, "scenario"))
    }
}
