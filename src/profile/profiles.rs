//! Reads profiles by name or path, merges them with their bases, and checks them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use super::expressions;
use super::profile_diff::{differences, set_back};
use super::profile_faults::Written;
use dryrack_control::{FlowOptions, Profile, Trigger};
use dryrack_nearest::{hint, nearest};
use dryrack_scheduler::OrderKey;
use dryrack_yaml::{COMMAND_LINE, Diagnostics, Entry, Misfit, Node, Report, SourceId, Span, Tree, parse, read_text};

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        /// The profiles that come with dryrack: their names and texts.
        const BUILTIN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("builtin/", $name, ".yaml"))),)*];
    };
}

builtin![
    "best-fit",
    "best-fit-openb",
    "conservative",
    "dot-product",
    "dstack",
    "dstack-0.18.44-dev",
    "dstack-0.19.10",
    "dstack-0.19.9",
    "dstack-0.21.0",
    "dstack-0.21.1",
    "dstack-0.22.5",
    "dstack-packed",
    "easy",
    "f1",
    "fair-share",
    "fgd",
    "fifo",
    "fifo-skipping",
    "first-fit",
    "gpu-clustering",
    "gpu-packing",
    "gpustack",
    "gpustack-0.5-dev",
    "gpustack-0.6.0",
    "gpustack-0.6.1",
    "gpustack-0.7.1",
    "gpustack-2.3.0",
    "helios-fifo",
    "helios-sjf",
    "kubernetes-1.20",
    "kubernetes-1.35",
    "kubernetes-1.35-gang-scheduling",
    "kubernetes-1.35-most-allocated",
    "pack",
    "priority-preemption",
    "rack-aware",
    "random",
    "rlscheduler-f1",
    "rlscheduler-f1-backfill",
    "rlscheduler-fcfs",
    "rlscheduler-fcfs-backfill",
    "rlscheduler-sjf",
    "rlscheduler-sjf-backfill",
    "rlscheduler-unicef",
    "rlscheduler-unicef-backfill",
    "rlscheduler-wfp3",
    "rlscheduler-wfp3-backfill",
    "sjf",
    "slurm-22.05",
    "slurm-22.05-builtin",
    "slurm-24.11",
    "slurm-24.11-builtin",
    "smallest-first",
    "spread",
    "srtf",
    "tiresias",
    "topology-aware",
    "unicef",
    "wfp3",
    "worst-fit"
];

/// The longest chain of bases; people could not follow a longer one.
const MAX_BASES: usize = 8;
/// The largest number of faults that are searched for in one profile.
const MAX_FAULTS: usize = 32;

/// The names of the profiles that come with dryrack, sorted.
pub fn profile_names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}

/// Loads the profile with this name, or from the file at this path. A relative path is relative to `folder`.
pub fn load_profile(name_or_path: &str, folder: &Path) -> Result<Arc<Profile>, Diagnostics> {
    load_with(name_or_path, Changes::default(), folder)
}

/// The base with which a profile is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ComparedBase {
    /// The profile under its key `base`.
    Base,
    /// The nearest base that is not historic. The bugs of a release are its differences from this base. The direct base
    /// may be another release with some of the same bugs.
    #[default]
    Mended,
}

/// The errors and warnings of the profile in a file.
pub fn check_profile(path: &Path) -> Diagnostics {
    let mut report = Report::default();
    let typed = path.display().to_string();
    let span = report.add_source(COMMAND_LINE, typed.as_str()).span(0, typed.len());
    // Add a folder if necessary, because a bare name would mean a profile that comes with dryrack.
    let path = if is_path(&typed) { path.to_path_buf() } else { Path::new(".").join(path) };
    profile(&path.display().to_string(), span, Path::new(""), &mut report);
    report.finish()
}

/// Loads the profile with this name or path, with one option reset to its base.
pub fn load_profile_as_in_base(
    name_or_path: &str,
    option: &str,
    against: ComparedBase,
    folder: &Path,
) -> Result<Arc<Profile>, Diagnostics> {
    load_with(name_or_path, Changes { as_in_base: Some((option, against)), ..Changes::default() }, folder)
}

fn load_with(name_or_path: &str, changes: Changes<'_>, folder: &Path) -> Result<Arc<Profile>, Diagnostics> {
    match read_with(name_or_path, changes, folder) {
        (Some(profile), report) if !report.has_errors() => Ok(Arc::new(profile)),
        (_, report) => Err(report.finish()),
    }
}

/// The profile with this name or path, and its errors and warnings. A profile with errors cannot be run, but if all its
/// options can be read, they can be shown.
pub fn read_profile(name_or_path: &str, folder: &Path) -> (Option<Profile>, Diagnostics) {
    let (profile, report) = read_with(name_or_path, Changes::default(), folder);
    (profile, report.finish())
}

fn read_with(name_or_path: &str, changes: Changes<'_>, folder: &Path) -> (Option<Profile>, Report) {
    let mut report = Report::default();
    let asked = report.add_source(COMMAND_LINE, name_or_path);
    let span = asked.span(0, name_or_path.len());
    let profile = profile_with(name_or_path, span, folder, changes, &mut report);
    (profile, report)
}

/// The options in which the profile differs from its base; empty for a profile without a base.
pub fn profile_options(name_or_path: &str, against: ComparedBase, folder: &Path) -> Result<Vec<String>, Diagnostics> {
    let mut report = Report::default();
    let span = report.add_source(COMMAND_LINE, name_or_path).span(0, name_or_path.len());
    let folded = fold(name_or_path, span, folder, &mut Vec::new(), &mut report);
    let folded = folded.ok_or_else(|| report.finish())?;
    Ok(folded.below(against).map_or_else(Vec::new, |below| differences(&folded.tree, below)))
}

/// Loads the profile with this name or path for a file that names it at `span`. Errors are reported there.
pub fn profile(name_or_path: &str, span: Span, folder: &Path, report: &mut Report) -> Option<Profile> {
    profile_with(name_or_path, span, folder, Changes::default(), report)
}

/// Changes that are applied to a profile after it is read.
#[derive(Clone, Copy, Default)]
pub struct Changes<'c> {
    /// An option to reset to the base.
    pub as_in_base: Option<(&'c str, ComparedBase)>,
    /// The policies of a scenario, which override those of the profile.
    pub policies: Option<&'c Tree>,
    /// The configuration of a scenario's Slurm cluster, which overrides that of the profile.
    pub slurm: Option<&'c Tree>,
}

/// Like [`profile`], with changes.
pub fn profile_with(
    name_or_path: &str,
    span: Span,
    folder: &Path,
    changes: Changes<'_>,
    report: &mut Report,
) -> Option<Profile> {
    let whole = fold(name_or_path, span, folder, &mut Vec::new(), report)?;
    let mut folded = whole.tree.clone();
    if let Some((path, against)) = changes.as_in_base {
        let below = whole.below(against);
        let options = below.map_or_else(Vec::new, |below| differences(&folded, below));
        match (below, options.iter().any(|option| option == path)) {
            (Some(below), true) => set_back(&mut folded, below, path),
            _ => {
                let typed = report.add_source(COMMAND_LINE, format!("--as-in-base {path}"));
                let start = "--as-in-base ".len();
                let message = format!("the profile `{name_or_path}` does not differ from its base in `{path}`");
                let names = options.iter().map(String::as_str);
                report.unknown(typed.span(start, start + path.len()), message, path, names);
            }
        }
    }
    let source = folded.span.source();
    for (key, change) in [("policies", changes.policies), ("slurm", changes.slurm)] {
        if let Some(value) = change {
            let entry = Entry { key: key.to_string(), key_span: value.span, value: value.clone() };
            folded = folded.overlaid(Tree { span: value.span, node: Node::Map(vec![entry]) });
        }
    }
    let heartbeat = |key| folded.get("heartbeat").and_then(|heartbeat| heartbeat.get(key)).map(|tree| tree.span);
    let (grace, evict_after) = (heartbeat("grace"), heartbeat("evict_after"));
    if !expressions::check(&folded, report) {
        return None;
    }
    let mut profile = read(&mut folded, whole.base.as_ref(), report)?;
    if profile.slurm.as_ref().is_some_and(|slurm| slurm.priority.is_some()) {
        profile.scheduler.order = vec![OrderKey::Multifactor, OrderKey::Submitted];
    }
    profile.scheduler.own_filters().for_each(|filter| report.declare(filter.because().name()));
    let is_builtin = is_builtin(name_or_path);
    let kept = profile.heartbeat;
    if let (Some(span), true) = (grace, kept.grace < kept.every && !is_builtin) {
        let message = format!(
            "a grace period of {} ends before the next heartbeat, which comes after {}",
            kept.grace, kept.every
        );
        report.warning(span, message, format!("write {} or more, or a shorter `every`", kept.every));
    }
    if let (Some(span), true) = (evict_after, kept.evict_after < kept.grace && !is_builtin) {
        let (evict_after, grace) = (kept.evict_after, kept.grace);
        let message = format!(
            "attempts are evicted after {evict_after} without a heartbeat, but the node is lost only after {grace}"
        );
        report.warning(span, message, format!("write {grace} or more"));
    }
    if profile.passes.place.trigger == Trigger::Outside {
        let message = format!("profile `{}` leaves its decisions to an outside scheduler", profile.name);
        let span = if is_builtin { span } else { source.start() };
        report.error_with_help(span, message, "use `dryrack live --on slurm`, which works with any other profile");
    }
    let file = (!is_builtin).then_some(source);
    Written { name_or_path, folder, named: span, file, tree: &folded, changes }.report_faults(&profile, report);
    Some(profile)
}

/// The nearest releases before and after a release that has no profile. The missing release may decide differently from
/// both.
struct NearestReleases {
    before: Option<&'static str>,
    after: Option<&'static str>,
}

impl NearestReleases {
    fn help(&self) -> String {
        match (self.before, self.after) {
            (Some(before), Some(after)) => {
                format!("the nearest releases with a profile are `{before}` (older) and `{after}` (newer)")
            }
            (Some(last), None) => format!("the last release with a profile is `{last}`"),
            (None, Some(first)) => {
                format!("the first release with a profile is `{first}`; `dryrack profile list` lists all profiles")
            }
            (None, None) => unreachable!("there is one of each family"),
        }
    }
}

/// Splits `dstack-0.19.29` into `dstack` and 0.19.29.
fn release(name: &str) -> Option<(&str, [u32; 3])> {
    let (family, version) = name.split_once('-')?;
    let mut parts = version.split('.').map(|part| part.parse().ok());
    let release = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some((family, release))
}

/// The nearest releases; `None` if the name is not a release of a program that has profiles.
fn nearest_releases(name: &str) -> Option<NearestReleases> {
    let (family, asked) = release(name)?;
    let of_family =
        |known: &'static str| release(known).filter(|(other, _)| *other == family).map(|(_, at)| (at, known));
    let known: Vec<([u32; 3], &'static str)> = profile_names().filter_map(of_family).collect();
    let before = known.iter().filter(|(at, _)| *at < asked).max().map(|(_, name)| *name);
    let after = known.iter().filter(|(at, _)| *at > asked).min().map(|(_, name)| *name);
    (before.is_some() || after.is_some()).then_some(NearestReleases { before, after })
}

/// The profile with which a file is checked if its own profile does not exist: the one that the author most likely
/// meant.
pub fn stand_in(name: &str) -> Option<&'static str> {
    match nearest_releases(name) {
        Some(NearestReleases { before, after }) => before.or(after),
        None => nearest(name, profile_names()),
    }
}

fn is_builtin(name: &str) -> bool {
    BUILTIN.iter().any(|(known, _)| *known == name)
}

pub(super) fn is_path(name: &str) -> bool {
    name.contains(['/', '\\']) || name.ends_with(".yaml") || name.ends_with(".yml")
}

/// A profile's data merged with its bases, and the data of its bases.
struct MergedProfile {
    tree: Tree,
    /// The data of its base, merged with further bases.
    base: Option<Tree>,
    /// The data of the nearest base that is not historic, if this is not `base`.
    mended: Option<Tree>,
}

impl MergedProfile {
    fn below(&self, against: ComparedBase) -> Option<&Tree> {
        match against {
            ComparedBase::Base => self.base.as_ref(),
            ComparedBase::Mended => self.mended.as_ref().or(self.base.as_ref()),
        }
    }
}

/// Reads a profile and its bases. `above` lists the profiles that led here through their bases.
fn fold(name: &str, span: Span, folder: &Path, above: &mut Vec<PathBuf>, report: &mut Report) -> Option<MergedProfile> {
    let path = folder.join(name);
    let identity = if is_path(name) { std::fs::canonicalize(&path).unwrap_or(path) } else { PathBuf::from(name) };
    if let Some(at) = above.iter().position(|known| *known == identity) {
        let between: Vec<String> = above[at + 1..].iter().map(|known| format!("`{}`", shown(known))).collect();
        let message = match between.is_empty() {
            true => format!("`{name}` is its own base"),
            false => format!("`{name}` is its own base, through {}", between.join(" and ")),
        };
        report.error_with_help(span, message, "name another profile, such as `first-fit`, as `base` here");
        return None;
    }
    if above.len() > MAX_BASES {
        let message = format!("`{name}` has a chain of more than {MAX_BASES} bases");
        report.error_with_help(span, message, "write one profile of the chain in full, without a `base`");
        return None;
    }
    above.push(identity);
    let (source, text, folder) = source_of(name, span, folder, report)?;
    let mut tree = parsed(name, &text, source, report)?;
    let Node::Map(entries) = &mut tree.node else {
        let message = format!("expected a map for a profile, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `base: first-fit`, a name, a title, and the differences");
        return None;
    };
    let base = entries.iter().position(|entry| entry.key == "base").map(|at| entries.remove(at).value);
    for key in ["name", "title"] {
        if entries.iter().all(|entry| entry.key != key) {
            let message = format!("the profile lacks `{key}`");
            report.error_with_help(source.start(), message, format!("add `{key}: …`; it is not taken from the base"));
        }
    }
    name_flow(entries, report);
    let Some(base) = base else { return Some(MergedProfile { tree, base: None, mended: None }) };
    let Some(base_name) = base.scalar() else {
        let message = format!("expected the name of a profile for `base`, found {}", base.kind());
        report.error_with_help(
            base.span,
            message,
            "write `base: gpustack`, or another profile from `dryrack profile list`",
        );
        return None;
    };
    let below = fold(base_name, base.span, &folder, above, report)?;
    let is_historic = below.tree.get("historic").and_then(Tree::scalar) == Some("true");
    let mended = if is_historic { below.below(ComparedBase::Mended).cloned() } else { None };
    Some(MergedProfile { tree: laid_over(&below.tree, tree), base: Some(below.tree), mended })
}

/// A profile merged over its base. The options of one kind of flow mean nothing to another kind, so a flow of a
/// different kind replaces that of the base.
fn laid_over(base: &Tree, tree: Tree) -> Tree {
    let mut base = base.clone();
    let kind = |tree: &Tree| match tree.get("flow").map(|flow| &flow.node) {
        Some(Node::Map(entries)) => entries.first().map(|entry| entry.key.clone()),
        _ => None,
    };
    if let (Some(own), Some(below), Node::Map(entries)) = (kind(&tree), kind(&base), &mut base.node)
        && own != below
    {
        entries.retain(|entry| entry.key != "flow");
    }
    base.overlaid(tree)
}

/// Checks that a profile names one flow. Also moves options of a flow from their old places to their place below
/// `flow`.
fn name_flow(entries: &mut Vec<Entry>, report: &mut Report) {
    for (before, flow) in FlowOptions::BEFORE {
        let Some(at) = entries.iter().position(|entry| entry.key == *before) else { continue };
        let Entry { key_span, value, .. } = entries.remove(at);
        let message = format!("`{before}` is now `flow: {{{flow}: …}}`; the next version will not read the old form");
        report.warning(key_span, message, format!("write `flow:`, then `{flow}:` with these options below it"));
        let span = value.span;
        let own = Entry { key: (*flow).to_string(), key_span, value };
        match entries.iter_mut().find(|entry| entry.key == "flow").map(|entry| &mut entry.value.node) {
            Some(Node::Map(flows)) => flows.push(own),
            Some(_) => {
                let message = "a profile has one flow, but this one already has another";
                report.error_with_help(key_span, message, format!("remove `{before}` or the other flow"));
            }
            None => {
                let value = Tree { span, node: Node::Map(vec![own]) };
                entries.push(Entry { key: "flow".to_string(), key_span, value });
            }
        }
    }
    let flow = entries.iter_mut().find(|entry| entry.key == "flow");
    if let Some(Node::Map(flows)) = flow.map(|entry| &mut entry.value.node)
        && let [first, second, ..] = &flows[..]
    {
        let message = format!("a profile has one flow, but this one has `{}` and `{}`", first.key, second.key);
        report.error_with_help(second.key_span, message, "remove one of them");
        flows.truncate(1);
    }
}

fn shown(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn source_of(name: &str, span: Span, folder: &Path, report: &mut Report) -> Option<(SourceId, Arc<str>, PathBuf)> {
    if is_path(name) {
        let path = folder.join(name);
        let (source, text) = read_text(&path, Some(span), report)?;
        let beside = path.parent().unwrap_or(folder).to_path_buf();
        return Some((source, text, beside));
    }
    let Some((_, text)) = BUILTIN.iter().find(|(known, _)| *known == name) else {
        let message = format!("no profile is named `{name}`");
        match nearest_releases(name) {
            Some(beside) => report.error_with_help(span, message, beside.help()),
            None => {
                let file = folder.join(name);
                let near = match hint(name, profile_names()) {
                    _ if file.is_file() => format!("for the file of this name, write `./{name}`; "),
                    _ if name.contains(' ') => {
                        "for a scheduler in another process, use `--outside`, or `--with outside:…`; ".to_string()
                    }
                    Some(near) => format!("{near}{} ", if near.ends_with('?') { "" } else { ";" }),
                    None => String::new(),
                };
                report.error_with_help(span, message, format!("{near}`dryrack profile list` lists them"));
            }
        }
        return None;
    };
    let text: Arc<str> = Arc::from(*text);
    let source = report.add_source(format!("profile {name}"), Arc::clone(&text));
    Some((source, text, folder.to_path_buf()))
}

/// The tree of a profile's text. Profiles that come with dryrack are parsed once for each number that they have among the
/// sources of a report, because the spans of a tree hold that number.
fn parsed(name: &str, text: &str, source: SourceId, report: &mut Report) -> Option<Tree> {
    static PARSED: Mutex<Vec<(&str, SourceId, Tree)>> = Mutex::new(Vec::new());
    let Some((name, _)) = BUILTIN.iter().find(|(known, _)| *known == name) else { return parse(text, source, report) };
    let is_it = |entry: &&(&str, SourceId, Tree)| entry.0 == *name && entry.1 == source;
    let known = PARSED.lock().unwrap_or_else(PoisonError::into_inner).iter().find(is_it).map(|entry| entry.2.clone());
    if known.is_some() {
        return known;
    }
    let tree = parse(text, source, report)?;
    PARSED.lock().unwrap_or_else(PoisonError::into_inner).push((name, source, tree.clone()));
    Some(tree)
}

/// Reads a profile. A faulty value is reported and replaced with the base's value, so that later faults are found too.
fn read(tree: &mut Tree, base: Option<&Tree>, report: &mut Report) -> Option<Profile> {
    for found in 0..MAX_FAULTS {
        let misfit = match Profile::deserialize(&*tree) {
            Ok(profile) => return Some(profile),
            Err(misfit) => misfit,
        };
        // If a faulty value was removed before, that removal may be the reason why a value is missing now.
        if misfit.is_missing && found > 0 {
            return None;
        }
        let span = misfit.span.unwrap_or(tree.span);
        report_misfit(&misfit, span, report);
        if misfit.is_missing || !mend(tree, base, span) {
            return None;
        }
    }
    None
}

fn report_misfit(misfit: &Misfit, span: Span, report: &mut Report) {
    match &misfit.word {
        Some(word) => report.unknown(span, &misfit.message, word, misfit.known.iter().copied()),
        None if misfit.is_missing => {
            report.error_with_help(
                span,
                format!("the profile {}", misfit.message),
                "add it, or name a `base` that has it",
            );
        }
        None => {
            let help = match misfit.message.contains("has no unit") {
                true => "add the unit",
                false => "`dryrack profile show dstack` and the profiles of `dryrack profile list` show such values",
            };
            report.error_with_help(span, &misfit.message, help);
        }
    }
}

/// Removes the value at `span`, or replaces it with the base's value. Returns `false` if there is no value at `span`.
fn mend(tree: &mut Tree, base: Option<&Tree>, span: Span) -> bool {
    let Node::Map(entries) = &mut tree.node else { return false };
    let Some(at) = entries.iter().position(|entry| entry.key_span == span || holds(&entry.value, span)) else {
        return false;
    };
    let entry = &mut entries[at];
    let below = base.and_then(|base| base.get(&entry.key));
    let is_within = entry.key_span != span && entry.value.span != span;
    if is_within && mend(&mut entry.value, below, span) && entry.value.size() > 1 {
        return true;
    }
    match below {
        Some(below) if entry.key_span != span && below.span != entry.value.span => entry.value = below.clone(),
        _ => drop(entries.remove(at)),
    }
    true
}

/// Whether a key or value in this tree is at `span`.
fn holds(tree: &Tree, span: Span) -> bool {
    match &tree.node {
        Node::Scalar { .. } => tree.span == span,
        Node::List(items) => tree.span == span || items.iter().any(|item| holds(item, span)),
        Node::Map(entries) => {
            tree.span == span || entries.iter().any(|entry| entry.key_span == span || holds(&entry.value, span))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_that_comes_with_dryrack_is_sound() {
        for name in profile_names() {
            let profile = load_profile(name, Path::new("")).unwrap_or_else(|faults| panic!("{faults}"));
            assert_eq!(profile.name, name);
        }
    }

    #[test]
    fn a_release_without_a_profile_is_answered_with_those_beside_it() {
        let help = |name: &str| nearest_releases(name).map(|beside| beside.help());
        let said = help("dstack-0.19.29").expect("a release");
        assert!(said.contains("`dstack-0.19.10` (older)") && said.contains("`dstack-0.21.0` (newer)"));
        assert_eq!(help("dstack-1.0.0").as_deref(), Some("the last release with a profile is `dstack-0.22.5`"));
        assert_eq!(
            help("gpustack-0.1.0").as_deref(),
            Some("the first release with a profile is `gpustack-0.6.0`; `dryrack profile list` lists all profiles")
        );
        for no_release in ["spred", "slurm-23.02", "gpustack-0.5", "nomad-1.2.3"] {
            assert_eq!(help(no_release), None, "{no_release}");
        }
    }
}
