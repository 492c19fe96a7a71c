//! Dependencies between jobs: finds the jobs that `after:` names. This happens after all jobs are in order and have
//! ids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::jobs::JobTemplate;
use super::world::World;
use dryrack_ids::JobId;
use dryrack_workload::{Arrival, Condition, Dependency};
use dryrack_yaml::{Fields, Node, Report, Span};

/// The largest number of dependencies (pairs of jobs) that one entry may create.
const MAX_PAIRS: usize = 1_000_000;

/// A dependency as written in the file.
#[derive(Clone, Debug)]
pub(super) struct NamedDependency {
    when: Condition,
    /// The name of a job, a pattern, or the name of an entry with a `count`.
    name: Arc<str>,
    span: Span,
}

/// Reads `after: {ok: prepare, any: [stage-*]}`.
pub(super) fn read(fields: &Fields<'_>, report: &mut Report) -> Vec<NamedDependency> {
    let Some(tree) = fields.get("after") else { return Vec::new() };
    if !matches!(tree.node, Node::Map(_)) {
        let help = "write `after: {ok: prepare}`; or `any`, `notok` or `start` in place of `ok`";
        report.error_with_help(tree.span, "it is not said what must have become of the other job", help);
        return Vec::new();
    }
    let words = Condition::ALL.map(|(word, _)| word);
    let Some(fields) = Fields::read(tree, "dependencies", &words, report) else { return Vec::new() };
    let mut named = Vec::new();
    for (word, when) in Condition::ALL {
        let names = fields.items(word, "the name of a job", report);
        named.extend(names.into_iter().map(|(name, span)| NamedDependency { when, name: Arc::from(name), span }));
    }
    named
}

/// The dependencies of an entry's jobs, each with its place in the file.
type FoundDependencies = Vec<(Dependency, Span)>;

/// Finds the jobs that the entries depend on, and adds the dependencies to the arrivals.
pub(super) fn resolve(entries: &[JobTemplate], arrivals: &mut [Arrival], world: &World, report: &mut Report) {
    if entries.iter().all(|entry| entry.after.is_empty()) || report.has_errors() {
        return;
    }
    let found: Vec<FoundDependencies> = entries.iter().map(|entry| find(entry, world, report)).collect();
    if report.has_errors() || refuse_circle(entries, &found, world, report) {
        return;
    }
    for (entry, found) in entries.iter().zip(&found).filter(|(_, found)| !found.is_empty()) {
        if found.len().saturating_mul(entry.len()) > MAX_PAIRS {
            let message = format!("{} jobs that each depend on {} others", entry.len(), found.len());
            let help = "put a job between them that waits for all and that all of these wait for";
            report.error_with_help(found[0].1, message, help);
            continue;
        }
        let after: Arc<[Dependency]> = found.iter().map(|(dependency, _)| *dependency).collect();
        for copy in ids(entry, world) {
            if let Some((dependency, span)) = found.iter().find(|(dependency, _)| dependency.job >= copy) {
                refuse_later(arrivals, copy, dependency.job, *span, report);
                break;
            }
            Arc::make_mut(&mut arrivals[copy.index()].spec).after = Arc::clone(&after);
        }
    }
}

fn find(entry: &JobTemplate, world: &World, report: &mut Report) -> FoundDependencies {
    let mut found = BTreeMap::new();
    for named in &entry.after {
        if world.may_come(&named.name) {
            let message = format!("of the jobs that come by chance none is called `{}` with this seed", named.name);
            report.warning(named.span, message, "nothing is waited for; name what comes with every seed");
            continue;
        }
        for job in world.jobs_of(&named.name, named.span, report) {
            found.entry(Dependency { job, when: named.when }).or_insert(named.span);
        }
    }
    found.into_iter().collect()
}

/// The ids of the jobs of an entry.
fn ids(entry: &JobTemplate, world: &World) -> impl Iterator<Item = JobId> {
    (0..entry.len()).filter_map(|index| world.job_names.find(&entry.name_of(index)).map(JobId::new))
}

/// Refuses a dependency on a job that is submitted later. A job can only depend on an earlier job, as in Slurm.
fn refuse_later(arrivals: &[Arrival], job: JobId, on: JobId, span: Span, report: &mut Report) {
    let [own, other] = [job, on].map(|job| &arrivals[job.index()]);
    let (own_name, other_name) = (&own.spec.name, &other.spec.name);
    let message = format!("`{own_name}` depends on `{other_name}`, which is submitted after it, at {}", other.at);
    let help = match own.at == other.at {
        true => format!("write `{other_name}` before `{own_name}`"),
        false => format!("let `{own_name}` come at {} or later", other.at),
    };
    report.error_with_help(span, message, help);
}

/// Reports an error if jobs depend on each other in a circle. Searching for a circle of entries is enough, because all
/// jobs of an entry depend on the same jobs.
fn refuse_circle(entries: &[JobTemplate], found: &[FoundDependencies], world: &World, report: &mut Report) -> bool {
    let mut entry_of = BTreeMap::new();
    for (number, entry) in entries.iter().enumerate() {
        entry_of.extend(ids(entry, world).map(|job| (job, number)));
    }
    let edges: Vec<BTreeMap<usize, Span>> = (found.iter())
        .map(|found| found.iter().filter_map(|(on, span)| Some((*entry_of.get(&on.job)?, *span))).collect())
        .collect();
    let mut is_safe = BTreeSet::new();
    for start in 0..entries.len() {
        let mut path: Vec<(usize, Vec<usize>)> = vec![(start, edges[start].keys().copied().collect())];
        while let Some((at, open)) = path.last_mut() {
            let at = *at;
            let Some(next) = open.pop() else {
                is_safe.insert(at);
                path.pop();
                continue;
            };
            if let Some(first) = path.iter().position(|(entry, _)| *entry == next) {
                let circle: Vec<usize> = path[first..].iter().map(|(entry, _)| *entry).collect();
                report_circle(&circle, entries, edges[circle[0]][circle.get(1).unwrap_or(&next)], report);
                return true;
            }
            if !is_safe.contains(&next) {
                path.push((next, edges[next].keys().copied().collect()));
            }
        }
    }
    false
}

fn report_circle(circle: &[usize], entries: &[JobTemplate], span: Span, report: &mut Report) {
    let name = |entry: &usize| format!("`{}`", entries[*entry].name());
    let others: Vec<String> = circle[1..].iter().map(name).collect();
    let message = match others.is_empty() {
        true => format!("{} depends on itself", name(&circle[0])),
        false => format!("{} depends on itself, by way of {}", name(&circle[0]), others.join(", then ")),
    };
    report.error_with_help(span, message, "leave one of these dependencies out");
}
