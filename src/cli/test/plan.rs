//! Selects files by path, tag and title, each with the cells of its matrix and its seeds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::TestArgs;
use crate::run::Overrides;
use dryrack_nearest::nearest;
use dryrack_scenario::{Cell, matches_pattern, outline};
use dryrack_units::counted;

/// A file, and what to run of it.
pub struct Plan {
    pub file: PathBuf,
    pub cells: Vec<Cell>,
    /// Empty if only the file's own seed is run.
    pub seeds: Vec<u64>,
}

pub struct Selection {
    pub plans: Vec<Plan>,
    /// How many cells are not run.
    pub left_out: usize,
    /// All tags that were seen.
    tags: BTreeSet<String>,
}

/// Selects by tag and filter. A file whose tags and title cannot be read is run, so that its faults are reported,
/// unless its path does not match.
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

/// `file.yaml [profile=spread, gpus=2]`
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
    /// The least number of runs; reproductions are known only later.
    pub fn runs(&self) -> u64 {
        self.plans.iter().map(|plan| (plan.cells.len() * plan.seeds.len().max(1)) as u64).sum()
    }

    /// Why nothing was selected.
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
                format!("none has the tag `{tag}`{help}")
            }
            None if args.filter.is_empty() => "none has such a tag".to_string(),
            None => format!("none has {} in its path or title", args.filter.join(" or ")),
        };
        format!("nothing selected of {}: {why}\n", counted(self.left_out, "scenario"))
    }
}
