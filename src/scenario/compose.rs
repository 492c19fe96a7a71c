//! Turns the tree of one file into the tree of one run: includes files, fills in parameters, inserts fleets, and
//! chooses a cell of the matrix.
//!
//! The order of these steps is part of the format:
//!
//! 1. Files are included first, so that an override can name a key of an included file.
//! 2. The overrides `--set params.…` and `--set matrix.…` apply.
//! 3. A cell of the matrix is chosen, and parameters are filled in.
//! 4. Fleets are inserted. They come after parameters, so that a parameter can name a fleet.
//! 5. All other overrides apply. Parameters are not filled in within them.
//! 6. A list of tasks from the command line takes the place of the workload.

use std::collections::BTreeSet;
use std::path::Path;

use super::fleets;
use super::include::{Included, include, listed};
use super::options::Options;
use super::params::{self, Axis, OWN_AXES, Params};
use super::seeds;
use super::set::{Override, apply, given};
use super::task_list;
use dryrack_expect::ShareAt;
use dryrack_yaml::{Entry, Node, Report, SourceId, Span, Tree};

/// Keys that are removed when a file is composed.
const COMPOSED: [&str; 4] = ["include", "params", "fleets", "matrix"];

/// The input of one run.
pub(super) struct Composed {
    pub tree: Tree,
    /// Whether the tree differs from the text of the file.
    pub is_changed: bool,
    pub shares: Vec<ShareAt>,
    /// The place of the `dstack:` key, if the file has one.
    pub dstack: Option<Span>,
    /// The words that may differ between the cells of the file's matrix.
    pub words_of_matrix: BTreeSet<String>,
}

/// The file before a cell is chosen.
pub(super) struct Assembled {
    tree: Tree,
    axes: Vec<Axis>,
    is_changed: bool,
    /// Whether all included files could be read.
    pub is_complete: bool,
    words_of_matrix: BTreeSet<String>,
}

/// One cell of a matrix; for a file without a matrix, the whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Name such as `profile=spread, gpus=2`; empty without a matrix.
    pub name: String,
    /// Overrides that select this cell, as [`Options::set`] takes them.
    pub set: Vec<String>,
    /// Whether the file's `reproduces` entries run in this cell. Each entry names its own profile. So of the cells that
    /// differ only in the profile, only the first runs the entries.
    pub reproduces: bool,
}

impl Cell {
    /// The whole of a file without a matrix.
    pub fn whole() -> Cell {
        Cell { name: String::new(), set: Vec::new(), reproduces: true }
    }
}

/// The runs that a file describes, known before any of them starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Title as written, with parameters not filled in.
    pub title: String,
    pub tags: Vec<String>,
    pub cells: Vec<Cell>,
    /// The seeds of the file; empty if the file has no list of seeds.
    pub seeds: Vec<u64>,
}

/// Includes files, and applies the command line's overrides of parameters and of the matrix.
pub(super) fn assemble(
    mut tree: Tree,
    path: Option<&Path>,
    folder: &Path,
    options: &Options,
    report: &mut Report,
) -> Assembled {
    let included = include(&mut tree, path, folder, report);
    let mut is_changed = included != Included::Nothing;
    let words_of_matrix = words_of_matrix(&tree);
    for over in given(options, report).iter().filter(|over| is_early(over.argument)) {
        let known = names_within(&tree);
        let matrix = tree.get("matrix").cloned();
        apply(&mut tree, over, report);
        refuse_new(&mut tree, over.argument, &known, report);
        keep_places(&mut tree, matrix.as_ref());
        is_changed = true;
    }
    let mut axes = tree.get("matrix").map_or(Vec::new(), |matrix| params::axes(matrix, report));
    is_changed |= !axes.is_empty();
    // `--profile` and similar options override the file, and therefore the axis.
    for (name, given) in [("profile", &options.profile), ("seed", &options.seed), ("until", &options.until)] {
        axes.retain(|axis| axis.name != name || given.is_none());
    }
    Assembled { tree, axes, is_changed, is_complete: included != Included::Lacking, words_of_matrix }
}

/// The keys and texts in the matrix of a file, and in what the matrix can choose.
fn words_of_matrix(tree: &Tree) -> BTreeSet<String> {
    fn collect(tree: &Tree, words: &mut BTreeSet<String>) {
        match &tree.node {
            Node::Scalar { text, .. } => {
                words.insert(text.clone());
            }
            Node::List(items) => items.iter().for_each(|item| collect(item, words)),
            Node::Map(entries) => entries.iter().for_each(|entry| {
                words.insert(entry.key.clone());
                collect(&entry.value, words);
            }),
        }
    }
    let mut words = BTreeSet::new();
    if tree.get("matrix").is_some() {
        ["matrix", "params", "fleets"]
            .iter()
            .filter_map(|key| tree.get(key))
            .for_each(|tree| collect(tree, &mut words));
    }
    words
}

/// Whether an override applies early: `params.gpus=2` and `matrix.gpus=2` do.
fn is_early(argument: &str) -> bool {
    let path = argument.split('=').next().unwrap_or("");
    matches!(path.split('.').next(), Some("params" | "matrix"))
}

/// The names of parameters and axes.
fn names_within(tree: &Tree) -> Vec<(&'static str, Vec<String>)> {
    let names = |key: &'static str| match tree.get(key).map(|tree| &tree.node) {
        Some(Node::Map(entries)) => (key, entries.iter().map(|entry| entry.key.clone()).collect()),
        _ => (key, Vec::new()),
    };
    vec![names("params"), names("matrix")]
}

/// Refuses an override of a parameter that the file does not have, because it is surely a typing error. An override of
/// an axis must use one of the values of the axis.
fn refuse_new(tree: &mut Tree, argument: &str, known: &[(&'static str, Vec<String>)], report: &mut Report) {
    let Node::Map(entries) = &mut tree.node else { return };
    let (path, value) = argument.split_once('=').unwrap_or((argument, ""));
    let is_axis =
        |name: &str| known.iter().any(|(key, names)| *key == "matrix" && names.iter().any(|axis| axis == name));
    for (key, names) in known {
        let Some(Node::Map(inner)) =
            entries.iter_mut().find(|entry| entry.key == *key).map(|entry| &mut entry.value.node)
        else {
            continue;
        };
        inner.retain(|entry| {
            let is_known = names.contains(&entry.key);
            if *key == "params" && path.strip_prefix("params.") == Some(&entry.key) && is_axis(&entry.key) {
                let message = format!("`{}` gets its values from the matrix", entry.key);
                let help = format!("write `--set matrix.{}={value}`", entry.key);
                report.error_with_help(entry.key_span, message, help);
            } else if !is_known {
                let what = if *key == "params" { "parameter" } else { "axis of the matrix" };
                let message = format!("no {what} is named `{}`", entry.key);
                match *key == "params" && names.is_empty() {
                    true => {
                        let help = "add `params:` to the scenario; in a plan, set any other path, as in \
                                    `nodes: {set: nodes.NAME.count, values: 1..16}`";
                        report.error_with_help(entry.key_span, message, help);
                    }
                    false => report.unknown(entry.key_span, message, &entry.key, names.iter().map(String::as_str)),
                }
            }
            is_known
        });
    }
}

/// Replaces a value that `--set` chose from an axis with the equal value in the file, so that an error in it points
/// into the file.
fn keep_places(tree: &mut Tree, before: Option<&Tree>) {
    let Node::Map(entries) = &mut tree.node else { return };
    let matrix = entries.iter_mut().find(|entry| entry.key == "matrix").map(|entry| &mut entry.value.node);
    let (Some(Node::Map(axes)), Some(before)) = (matrix, before) else { return };
    for axis in axes {
        let Some(Node::List(values)) = before.get(&axis.key).map(|values| &values.node) else { continue };
        let chosen = values.iter().find(|value| value.scalar().is_some() && value.scalar() == axis.value.scalar());
        if let Some(chosen) = chosen {
            axis.value = chosen.clone();
        }
    }
}

impl Assembled {
    pub fn outline(&self, report: &mut Report) -> Outline {
        let cells = params::cells(&self.axes).into_iter().map(|cell| {
            let names: Vec<String> =
                cell.iter().map(|(name, value)| format!("{name}={}", value.scalar().unwrap_or(""))).collect();
            let is_first = |(name, value): &(&str, &Tree)| {
                let axis = self.axes.iter().find(|axis| axis.name == *name);
                *name != "profile" || axis.is_some_and(|axis| axis.values[0].scalar() == value.scalar())
            };
            Cell {
                name: names.join(", "),
                set: cell.iter().map(|(name, value)| params::as_override(name, value)).collect(),
                reproduces: cell.iter().all(is_first),
            }
        });
        let title = self.tree.get("scenario").and_then(Tree::scalar).unwrap_or("");
        let tags = match self.tree.get("tags").map(|tags| (&tags.node, tags)) {
            Some((Node::List(items), _)) => items.iter().filter_map(Tree::scalar).map(str::to_string).collect(),
            Some((_, tags)) => tags.scalar().into_iter().map(str::to_string).collect(),
            None => Vec::new(),
        };
        let has_seeds = self.axes.iter().all(|axis| axis.name != "seed");
        let seeds = self.tree.get("seeds").filter(|_| has_seeds).map_or(Vec::new(), |tree| seeds::seeds(tree, report));
        Outline { title: title.to_string(), tags, cells: cells.collect(), seeds }
    }

    /// The tree of the one cell that is selected, with the late overrides applied.
    pub fn compose(mut self, own: SourceId, options: &Options, report: &mut Report) -> Composed {
        self.refuse_several(report);
        let (params, matrix, fleets) = self.take_parts();
        let mut params = Params::read(params.as_ref(), &self.axes, report);
        let tree = &mut self.tree;
        if let Node::Map(entries) = &mut tree.node {
            entries.iter_mut().for_each(|entry| params.fill(&mut entry.value, report));
        }
        let mut fleets = fleets;
        if let Some(fleets) = &mut fleets {
            params.fill(fleets, report);
        }
        if !params.is_empty() {
            params.report_unused(own, report);
        }
        self.is_changed |= !params.is_empty() || matrix;
        self.set_own_axes(report);
        self.is_changed |= put_fleets(&mut self.tree, fleets.as_ref(), report);
        let shares = self.take_seeds(options, report);
        self.is_changed |= override_all(&mut self.tree, options, report);
        let (is_changed, words_of_matrix) = (self.is_changed, self.words_of_matrix);
        Composed { tree: self.tree, is_changed, shares, dstack: None, words_of_matrix }
    }

    fn refuse_several(&self, report: &mut Report) {
        if report.has_errors() {
            return;
        }
        let cells = params::cells(&self.axes);
        if let [first, _, ..] = cells.as_slice() {
            let pinned: Vec<String> =
                first.iter().map(|(name, value)| format!("--set {}", params::as_override(name, value))).collect();
            let span = self.axes[0].span;
            let message = format!("the matrix has {} combinations, but one run needs exactly one", cells.len());
            let help = format!("choose one with `{}`, or run all with `dryrack test`", pinned.join(" "));
            report.error_with_help(span, message, help);
        }
    }

    /// Takes `params:`, `matrix:` and `fleets:` out of the tree.
    fn take_parts(&mut self) -> (Option<Tree>, bool, Option<Tree>) {
        let Node::Map(entries) = &mut self.tree.node else { return (None, false, None) };
        let mut take = |key: &str| {
            let at = entries.iter().position(|entry| entry.key == key);
            at.map(|at| entries.remove(at).value)
        };
        let (params, has_matrix) = (take("params"), take("matrix").is_some());
        (params, has_matrix, fleets::take_lists(entries))
    }

    fn set_own_axes(&mut self, report: &mut Report) {
        let Node::Map(entries) = &mut self.tree.node else { return };
        for axis in self.axes.iter().filter(|axis| OWN_AXES.contains(&axis.name.as_str())) {
            if let Some(known) = entries.iter().find(|entry| entry.key == axis.name) {
                let message = format!("`{}` is also an axis of the matrix", axis.name);
                report.error_with_help(known.key_span, message, "keep one of the two");
                continue;
            }
            entries.push(Entry { key: axis.name.clone(), key_span: axis.span, value: axis.values[0].clone() });
        }
    }

    /// Replaces several seeds by the first of them. `--seed` takes precedence.
    fn take_seeds(&mut self, options: &Options, report: &mut Report) -> Vec<ShareAt> {
        let Node::Map(entries) = &mut self.tree.node else { return Vec::new() };
        let at = entries.iter().position(|entry| entry.key == "seeds");
        let expect = entries.iter_mut().find(|entry| entry.key == "expect");
        let shares = expect.map_or(Vec::new(), |expect| seeds::take_shares(&mut expect.value, at.is_some(), report));
        let Some(at) = at else { return shares };
        let entry = entries.remove(at);
        if let Some(one) = entries.iter().find(|entry| entry.key == "seed") {
            let message = "`seed` and `seeds` cannot be given together";
            report.error_with_help(one.key_span, message, "keep one of `seed` and `seeds`");
        }
        let seeds = seeds::seeds(&entry.value, report);
        if let (Some(first), None) = (seeds.first(), &options.seed) {
            let node = Node::Scalar { text: first.to_string(), quoted: false };
            let value = Tree { span: entry.value.span, node };
            entries.push(Entry { key: "seed".to_string(), key_span: entry.key_span, value });
        }
        self.is_changed = true;
        shares
    }
}

fn put_fleets(tree: &mut Tree, fleets: Option<&Tree>, report: &mut Report) -> bool {
    let Node::Map(entries) = &mut tree.node else { return false };
    let Some(at) = entries.iter().position(|entry| entry.key == "nodes") else { return fleets.is_some() };
    let entry = listed(entries[at].clone());
    entries[at] = entry;
    fleets::expand(&mut entries[at].value, fleets, report) || fleets.is_some()
}

fn override_all(tree: &mut Tree, options: &Options, report: &mut Report) -> bool {
    let set = given(options, report).into_iter().filter(|over| !is_early(over.argument));
    let named = [
        ("--seed", "seed", &options.seed),
        ("--profile", "profile", &options.profile),
        ("--until", "until", &options.until),
    ];
    let named = named.into_iter().filter_map(|(option, path, argument)| {
        Some(Override { option, path, argument: argument.as_deref()?, place: None })
    });
    let overrides: Vec<Override<'_>> = set.chain(named).collect();
    overrides.iter().for_each(|over| apply(tree, over, report));
    refuse_composed(tree, report);
    if let Some(list) = &options.list {
        task_list::put(tree, list);
    }
    !overrides.is_empty() || options.list.is_some()
}

/// Refuses late overrides of keys that have already been composed: they would have no effect.
fn refuse_composed(tree: &mut Tree, report: &mut Report) {
    let Node::Map(entries) = &mut tree.node else { return };
    entries.retain(|entry| {
        let is_late = COMPOSED.contains(&entry.key.as_str()) && !fleets::are_of_instances(entry);
        if is_late {
            let message = format!("`{}` cannot be overridden", entry.key);
            let help = "override an entry that it adds, such as `nodes.alpha.state=not_ready`, or a parameter";
            report.error_with_help(entry.key_span, message, help);
        }
        !is_late
    });
}
