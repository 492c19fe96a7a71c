//! Dependencies between jobs: finds the jobs that `after:` names. This happens after all jobs are in order and have
//! ids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::job_template::JobTemplate;
use super::world::World;
use dryrack_ids::JobId;
use dryrack_workload::{Arrival, Condition, Dependency};
use dryrack_yaml::{Fields, Node, Report, Span};

/// The largest number of dependencies (pairs of jobs) that one entry may create.
const MAX_PAIRS: usize = 1_000_000;

/// What `after:` of an entry says.
#[derive(Default)]
pub(super) struct After {
    pub named: Vec<NamedDependency>,
    /// Whether each job of the entry starts after the earlier ones have ended.
    pub is_singleton: bool,
}

/// A dependency as written in the file.
#[derive(Clone, Debug)]
pub(super) struct NamedDependency {
    when: Condition,
    /// Whether each task of an array waits for the task with its own number in the other array.
    by_number: bool,
    /// The name of a job, a pattern, or the name of an entry with a `count`.
    name: Arc<str>,
    span: Span,
}

/// Reads `after: {ok: prepare, any: [stage-*]}`.
pub(super) fn read(fields: &Fields<'_>, report: &mut Report) -> After {
    let mut after = After::default();
    let Some(tree) = fields.get("after") else { return after };
    if !matches!(tree.node, Node::Map(_)) {
        let help = "write `after: {ok: prepare}`; `any`, `notok` and `start` are the other conditions";
        report.error_with_help(tree.span, "the condition for the other job is missing", help);
        return after;
    }
    let mut words = Condition::ALL.map(|(word, _)| word).to_vec();
    words.extend([CORR, SINGLETON]);
    let Some(own) = Fields::read(tree, "dependencies", &words, report) else { return after };
    let by_number = Condition::ALL.map(|(word, when)| (word, when, false)).into_iter();
    for (word, when, by_number) in by_number.chain([(CORR, Condition::Ok, true)]) {
        for (name, span) in own.items(word, "the name of a job", report) {
            after.named.push(NamedDependency { when, by_number, name: Arc::from(name), span });
        }
    }
    if own.has(CORR) && !fields.has("array") {
        let help = "add `array: 1-10`, or write `ok` in place of `corr`";
        report.error_with_help(own.key_span(CORR), "`corr` works only for the tasks of an array", help);
    }
    after.is_singleton = own.value::<bool>(SINGLETON, report).unwrap_or(false);
    if after.is_singleton && fields.has("array") {
        let help = "leave it out, and write `array: 1-10%1` to run one task at a time";
        report.error_with_help(own.key_span(SINGLETON), "the tasks of an array cannot be singletons", help);
    } else if after.is_singleton && fields.lacks_all(&["count", "arrivals"]) {
        let help = "add `count: 3`, or leave `singleton` out";
        report.warning(own.key_span(SINGLETON), "`singleton` has no effect: no other job has the same name", help);
    }
    after
}

const CORR: &str = "corr";
const SINGLETON: &str = "singleton";

/// The dependencies of an entry's jobs, each with its place in the file.
#[derive(Default)]
struct FoundDependencies {
    /// The dependencies that all jobs of the entry have.
    common: Vec<(Dependency, Span)>,
    /// Arrays for which each task of the entry waits for the task with the same number.
    by_number: Vec<(Arc<str>, Span)>,
}

impl FoundDependencies {
    fn is_empty(&self) -> bool {
        self.common.is_empty() && self.by_number.is_empty()
    }

    /// The dependencies of the job at this index of the entry.
    fn of(&self, entry: &JobTemplate, index: usize, world: &World) -> Vec<(Dependency, Span)> {
        let task = |(array, span): &(Arc<str>, Span)| {
            let job = world.task_of(array, entry.number_in_array(index)?)?;
            Some((Dependency { job, when: Condition::Ok }, *span))
        };
        let mut all: Vec<(Dependency, Span)> = self.common.clone();
        all.extend(self.by_number.iter().filter_map(task));
        all
    }
}

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
        if found.common.len().saturating_mul(entry.len()) > MAX_PAIRS {
            let message = format!("{} jobs that each depend on {} others", entry.len(), found.common.len());
            let help = "add one job that waits for all of them, and let these jobs wait for it";
            report.error_with_help(found.common[0].1, message, help);
            continue;
        }
        let common: Arc<[Dependency]> = found.common.iter().map(|(dependency, _)| *dependency).collect();
        for (index, copy) in ids(entry, world).enumerate() {
            let own = found.of(entry, index, world);
            if let Some((dependency, span)) = own.iter().find(|(dependency, _)| dependency.job >= copy) {
                refuse_later(arrivals, copy, dependency.job, *span, report);
                break;
            }
            let after = match found.by_number.is_empty() {
                true => Arc::clone(&common),
                false => own.iter().map(|(dependency, _)| *dependency).collect(),
            };
            Arc::make_mut(&mut arrivals[copy.index()].spec).after = after;
        }
    }
}

fn find(entry: &JobTemplate, world: &World, report: &mut Report) -> FoundDependencies {
    let (mut found, mut by_number) = (BTreeMap::new(), Vec::new());
    for named in &entry.after {
        if named.by_number {
            by_number.extend(array(entry, named, world, report).map(|array| (array, named.span)));
            continue;
        }
        if world.may_come(&named.name) {
            let message = format!("with this seed, random arrivals produce no job named `{}`", named.name);
            report.warning(
                named.span,
                message,
                "the dependency has no effect; name a job that is submitted with every seed",
            );
            continue;
        }
        for job in world.jobs_of(&named.name, named.span, report) {
            found.entry(Dependency { job, when: named.when }).or_insert(named.span);
        }
    }
    FoundDependencies { common: found.into_iter().collect(), by_number }
}

/// The array whose tasks the tasks of this entry wait for by number. Each number of the entry must be one of the array.
fn array(entry: &JobTemplate, named: &NamedDependency, world: &World, report: &mut Report) -> Option<Arc<str>> {
    let typed = &named.name;
    let Some(numbers) = world.arrays.get(&**typed) else {
        let message = format!("no array is named `{typed}`");
        match world.job_names.find(typed) {
            Some(_) => {
                let help = format!("give `{typed}` the tasks `array: 1-10`, or write `ok` in place of `corr`");
                report.error_with_help(named.span, message, help);
            }
            None => report.unknown(named.span, message, typed, world.arrays.keys().map(String::as_str)),
        }
        return None;
    };
    let own = (0..entry.len()).filter_map(|index| entry.number_in_array(index));
    if let Some(missing) = own.into_iter().find(|number| numbers.binary_search(number).is_err()) {
        let message = format!("`{typed}` has no task {missing}, for which `{}_{missing}` would wait", entry.name());
        report.error_with_help(named.span, message, "give both arrays the same task numbers");
        return None;
    }
    Some(Arc::clone(typed))
}

/// The ids of the jobs of an entry.
fn ids(entry: &JobTemplate, world: &World) -> impl Iterator<Item = JobId> {
    (0..entry.len()).filter_map(|index| world.job_names.find(&entry.name_of(index)).map(JobId::new))
}

/// Refuses a dependency on a job that is submitted later. A job can only depend on an earlier job, as in Slurm.
fn refuse_later(arrivals: &[Arrival], job: JobId, on: JobId, span: Span, report: &mut Report) {
    let [own, other] = [job, on].map(|job| &arrivals[job.index()]);
    let (own_name, other_name) = (&own.spec.name, &other.spec.name);
    let message = format!("`{own_name}` depends on `{other_name}`, which is submitted later, at {}", other.at);
    let help = match own.at == other.at {
        true => format!("write `{other_name}` before `{own_name}` in the file"),
        false => format!("submit `{own_name}` at {} or later", other.at),
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
        .zip(entries)
        .map(|(found, entry)| {
            // One task represents all tasks, because only a circle of entries matters.
            let own = found.of(entry, 0, world);
            own.iter().filter_map(|(on, span)| Some((*entry_of.get(&on.job)?, *span))).collect()
        })
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
        false => format!("{} depends on itself through {}", name(&circle[0]), others.join(", then ")),
    };
    report.error_with_help(span, message, "remove one of these dependencies");
}
