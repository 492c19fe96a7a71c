//! The folders in which traces are looked for, and the options for loading a scenario that may use one.

use std::path::{Path, PathBuf};

use dryrack_scenario::Options;
use dryrack_trace::Roots;

/// The folders in which traces are looked for. The first is a `traces/` folder with an index. It is looked for in the
/// current folder, then in the folder of the scenario file and the folders above it, then above the current folder. The
/// second is the folder that the environment variable names.
pub fn roots(scenario: Option<&Path>) -> Roots {
    let beside = scenario.and_then(|file| std::fs::canonicalize(file).ok());
    let here = std::env::current_dir().ok();
    let above = |from: Option<PathBuf>| from.and_then(|from| from.ancestors().find_map(carried));
    // The current folder comes first, because its paths are the shortest to print.
    Roots::from_env(carried(Path::new("")).or_else(|| above(beside)).or_else(|| above(here)))
}

fn carried(folder: &Path) -> Option<PathBuf> {
    let traces = folder.join("traces");
    traces.join("index.json").is_file().then_some(traces)
}

/// The options for loading `file` without overrides.
pub fn options(file: &Path) -> Options {
    Options { roots: roots(Some(file)), ..Options::default() }
}
