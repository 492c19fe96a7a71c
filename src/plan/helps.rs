//! What would help most against waiting: changes of a scenario that are run, and the waiting hours that each saves.

use std::collections::BTreeSet;

use super::node_kinds::{NodeEntry, Separations, amount, entries, kinds, quoted};
use dryrack_engine::{Rehearsal, Standing};
use dryrack_event::Outcome;
use dryrack_metrics::{Estimate, ResampledFrom, RunAccount, estimate_difference};
use dryrack_profile::{load_profile, profile_names};
use dryrack_units::{Bytes, MilliCpu, SimDuration, SimTime};
use dryrack_yaml::{Node, Report, Tree, parse};

/// The profiles that are tried in place of a profile with one queue. Backfilling with many reservations takes long, so
/// `conservative` is left out.
const QUEUES: [&str; 9] =
    ["fifo", "fifo-skipping", "easy", "sjf", "smallest-first", "fair-share", "best-fit", "pack", "spread"];
/// The largest number of kinds of nodes of which one more is tried: first one kind of each machine, in the order of the file.
const MOST_KINDS: usize = 8;

/// A change that may shorten waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The change in words: `one more node: worker (8 a100-80g)`.
    pub what: String,
    /// The change in the form of `--set`.
    pub set: Vec<String>,
    /// Another profile.
    pub profile: Option<String>,
}

impl Change {
    /// Whether the same jobs are submitted with it. If there are fewer, fewer can never run, although it lets none run.
    pub fn keeps_jobs(&self) -> bool {
        !self.set.iter().any(|set| set.starts_with("load="))
    }
}

/// What a change saves.
#[derive(Clone, Debug)]
pub struct Saving {
    pub change: Change,
    /// The waiting hours that the change saves, as the mean over the seeds. `None` if the changed file has errors.
    pub saved: Option<Estimate>,
    /// The mean over the seeds of the 95th percentile of the waits in seconds, with the change.
    pub p95: Option<f64>,
    /// The largest number of replicas that can never run with the change, over the seeds.
    pub never: Option<u64>,
    /// How many more jobs than without the change fail, are lost, or reach a time limit: the most with a seed.
    pub ended_early: Option<u64>,
    /// Why the change could not be run.
    pub fault: Option<String>,
}

/// The waits of a run. A wait lasts from the submission of a replica to its first placement, or to its end if it was
/// never placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTotal {
    /// The sum of the waits that are over, in nanoseconds. Waits after a preemption or a loss count up to the end.
    over: u128,
    /// The number of replicas that still wait at the end of the run, and the sum of the times from which on they count
    /// here: their submission, or the end if they had a place before.
    waiting: u128,
    since: u128,
    /// The number of replicas that could not be placed even if every node were ready and empty. They have no wait.
    pub never: u64,
    /// The number of jobs that failed, were lost, or reached a time limit, which may shorten the waits of others.
    pub ended_early: u64,
    /// The end of the run.
    end: SimTime,
}

/// The number of jobs that failed, were lost, or reached a time limit or, on a slower GPU, their estimate.
fn ended_early(accounts: &RunAccount) -> u64 {
    let early = [Outcome::Failed, Outcome::Lost, Outcome::Expired].map(Standing::Ended);
    let counted = accounts.job_rows().filter(|job| job.submitted >= accounts.warm_up);
    counted.filter(|job| early.contains(&job.standing)).count() as u64 + accounts.past_estimates()
}

impl WaitTotal {
    pub fn of(accounts: &RunAccount) -> WaitTotal {
        let again = accounts.waits.again;
        let mut total = WaitTotal {
            over: again.time,
            waiting: u128::from(again.open),
            since: u128::from(again.open) * u128::from(accounts.now.as_nanos()),
            end: accounts.now,
            ended_early: ended_early(accounts),
            ..WaitTotal::default()
        };
        accounts.each_row_of_all(|row| total.never += u64::from(row.is_unplaceable));
        accounts.each_row(|row| match row.placed.or(row.ended) {
            _ if row.is_unplaceable => {}
            Some(until) => total.over += u128::from(until.since(row.wanted).as_nanos()),
            None => {
                total.waiting += 1;
                total.since += u128::from(row.wanted.as_nanos());
            }
        });
        total
    }

    /// The waiting hours up to the end of the run.
    pub fn hours(&self) -> f64 {
        self.nanos(self.end) as f64 / 3.6e12
    }

    /// The sum of all waits, if replicas that still wait do so until a time at or after the end of the run.
    fn nanos(&self, until: SimTime) -> u128 {
        self.over + self.waiting * u128::from(until.as_nanos()) - self.since
    }
}

/// The mean of the hours that a change saves: the hours of the unchanged runs minus those of the changed ones, seed by
/// seed (paired replications under common random numbers). Replicas that still wait do so until the later end of the two
/// runs. Otherwise a change with which the run ends sooner would save hours of replicas that it does not help.
pub fn saved(unchanged: &[WaitTotal], changed: &[WaitTotal], resampled: Option<ResampledFrom>) -> Option<Estimate> {
    let less = |(before, after): (&WaitTotal, &WaitTotal)| {
        let end = before.end.max(after.end);
        (before.nanos(end) as f64 - after.nanos(end) as f64) / 3.6e12
    };
    let less: Vec<f64> = unchanged.iter().zip(changed).map(less).collect();
    estimate_difference(&less, resampled)
}

/// Sorts by the hours saved, most first. Changes that could not be run come last. Ties stay in order.
pub fn sort(savings: &mut [Saving]) {
    let hours = |saving: &Saving| saving.saved.map_or(f64::NEG_INFINITY, |saved| saved.mean);
    savings.sort_by(|one, other| hours(other).total_cmp(&hours(one)));
}

/// The changes to try on a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub changes: Vec<Change>,
    /// The number of kinds of nodes of which one more is not tried, because there are too many kinds, or because `--set`
    /// cannot add a node to their partitions.
    pub kinds_left_out: usize,
    /// The custom filters of the scenario's profile. Other profiles are not tried if there are any, because these would
    /// place jobs where a filter forbids it.
    pub filters: Vec<&'static str>,
}

/// The changes to try on this scenario.
pub fn changes(rehearsal: &Rehearsal) -> Changes {
    let mut report = Report::default();
    let source = report.add_source("the scenario", &*rehearsal.source);
    let Some(tree) = parse(&rehearsal.source, source, &mut report) else { return Changes::default() };
    let mut found = of_nodes(&entries(&tree, rehearsal), &Separations::of(&tree, rehearsal));
    found.filters = rehearsal.profile.scheduler.own_filters().map(|filter| filter.name()).collect();
    if found.filters.is_empty() {
        found.changes.extend(of_profiles(rehearsal));
    }
    found.changes.extend(of_fleets(&tree));
    found.changes.extend(of_limits(&tree));
    found.changes.extend(of_jobs(&tree));
    found
}

fn of_nodes(entries: &[NodeEntry<'_>], separations: &Separations<'_>) -> Changes {
    let mut kinds = kinds(entries, separations);
    let mut kinds_left_out = kinds.len().saturating_sub(MOST_KINDS);
    kinds.truncate(MOST_KINDS);
    let mut changes = Vec::new();
    for kind in &kinds {
        match kind.one_more(separations) {
            Some(set) => {
                changes.push(Change { what: format!("one more node like {}", kind.words()), set, profile: None });
            }
            None => kinds_left_out += 1,
        }
    }
    // A change of an entry changes all of its nodes, which may be of several kinds.
    let mut seen = BTreeSet::new();
    for entry in kinds.iter().map(|kind| kind.entry).filter(|entry| seen.insert(entry.name)) {
        let what = format!("one more GPU in each {}", entry.name);
        changes.extend(entry.one_more_gpu().map(|set| Change { what, set: vec![set], profile: None }));
    }
    // Twice nothing is nothing.
    let cores = entries.iter().filter(|entry| entry.shape.cpu.get() > 0);
    let cores = cores.map(|entry| {
        format!("nodes.{}.cpus={}", quoted(entry.name), MilliCpu::new(entry.shape.cpu.get().saturating_mul(2)))
    });
    let ram = entries.iter().filter(|entry| entry.shape.ram.get() > 0);
    let ram = ram.map(|entry| {
        format!("nodes.{}.ram={}", quoted(entry.name), amount(Bytes::new(entry.shape.ram.get().saturating_mul(2))))
    });
    for (what, set) in [("cores", cores.collect::<Vec<_>>()), ("RAM", ram.collect())] {
        if !set.is_empty() {
            changes.push(Change { what: format!("twice the {what} in each node"), set, profile: None });
        }
    }
    Changes { changes, kinds_left_out, ..Changes::default() }
}

/// Other profiles with the same flow. Each says which custom scorers and keys of the order it lacks.
fn of_profiles(rehearsal: &Rehearsal) -> Vec<Change> {
    let own = &rehearsal.profile;
    let is_of_flow = |name: &&str| {
        let profile = load_profile(name, std::path::Path::new(""));
        profile.is_ok_and(|profile| !profile.historic && profile.flow.name() == own.flow.name())
    };
    let may_have_slurm = |name: &&str| {
        let profile = load_profile(name, std::path::Path::new(""));
        profile.is_ok_and(|profile| profile.schedules_like_slurm())
    };
    let names: Vec<&str> = match own.flow.is_queue() {
        true if own.slurm.is_some() => profile_names().filter(may_have_slurm).collect(),
        true => QUEUES.to_vec(),
        false => profile_names().filter(is_of_flow).collect(),
    };
    let others = names.into_iter().filter(|name| *name != &*own.name);
    let stages: Vec<String> = own.scheduler.own_stages().map(|stage| format!("`{stage}`")).collect();
    let lacks = if stages.is_empty() { String::new() } else { format!(" (without {})", stages.join(" and ")) };
    let change = |name: &str| Change {
        what: format!("the profile {name}{lacks}"),
        set: Vec::new(),
        profile: Some(name.to_string()),
    };
    others.map(change).collect()
}

/// One more instance allowed in each fleet that has a largest number of them.
fn of_fleets(tree: &Tree) -> Vec<Change> {
    let Some(Node::Map(fleets)) = tree.get("fleets").map(|fleets| &fleets.node) else { return Vec::new() };
    let more = fleets.iter().filter_map(|fleet| {
        let nodes = fleet.value.get("nodes")?;
        let path = format!("fleets.{}.nodes", quoted(&fleet.key));
        let set = match nodes.scalar().and_then(|typed| typed.split_once("..")) {
            Some((least, most)) => format!("{path}={least}..{}", most.parse::<u32>().ok()?.checked_add(1)?),
            None => {
                let most: u32 = nodes.get("max").and_then(Tree::scalar)?.parse().ok()?;
                format!("{path}.max={}", most.checked_add(1)?)
            }
        };
        let what = format!("one more instance allowed in the fleet {}", fleet.key);
        Some(Change { what, set: vec![set], profile: None })
    });
    more.collect()
}

/// Half of each time limit, but not less than the duration of its jobs, if the file states it.
fn of_limits(tree: &Tree) -> Vec<Change> {
    let Some(Node::List(jobs)) = tree.get("jobs").map(|jobs| &jobs.node) else { return Vec::new() };
    let time = |job: &Tree, key: &str| job.get(key).and_then(Tree::scalar)?.parse::<SimDuration>().ok();
    let set = jobs.iter().filter_map(|job| {
        let (name, limit) = (job.get("name").and_then(Tree::scalar)?, time(job, "time_limit")?);
        let half = SimDuration::from_nanos(limit.as_nanos() / 2);
        let shorter = half.max(time(job, "duration").unwrap_or(SimDuration::ZERO));
        (shorter < limit).then(|| format!("jobs.{}.time_limit={shorter}", quoted(name)))
    });
    let set: Vec<String> = set.collect();
    let what = "time limits halved, but not below the duration".to_string();
    if set.is_empty() { Vec::new() } else { vec![Change { what, set, profile: None }] }
}

fn of_jobs(tree: &Tree) -> Vec<Change> {
    let mut changes = Vec::new();
    let has = |key: &str| matches!(tree.get(key).map(|list| &list.node), Some(Node::List(items)) if !items.is_empty());
    let change = |what: &str, set: Vec<String>| Change { what: what.to_string(), set, profile: None };
    let is_map = |key: &str| matches!(tree.get(key).map(|tree| &tree.node), Some(Node::Map(_)));
    if is_map("trace") {
        changes.push(change("exact estimates of the run times", vec!["trace.estimates=exact".to_string()]));
    }
    let gone: Vec<String> =
        ["failures", "faults"].into_iter().filter(|key| has(key)).map(|key| format!("{key}=[]")).collect();
    if !gone.is_empty() {
        changes.push(change("no failures and faults", gone));
    }
    let arrives = |job: &Tree| job.get("arrivals").is_some();
    let jobs = tree.get("jobs").map(|jobs| &jobs.node);
    let random = matches!(jobs, Some(Node::List(items)) if items.iter().any(arrives));
    if (tree.get("trace").is_some() || random) && tree.get("load").is_none() {
        changes.push(change("10% less load", vec!["load=90%".to_string()]));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_fleet::NodeShape;
    use dryrack_scenario::{Options, load_text};
    use dryrack_scheduler::slurm::{partition_label, reservation_label};

    const TEXT: &str = "\
scenario: Two kinds of nodes
profile: fifo
nodes:
  - {name: worker, count: 3, machine: l4-x1, price_per_hour: 2}
  - {name: big, machine: a100-80g-x8, state: not_ready}
  - {name: big2, machine: a100-80g-x8}
jobs: [{name: one, gpus: 1, duration: 1h, estimate: 1h}]
faults: [{at: 1h, node: big, becomes: ready}]
";

    /// Every change but `no failures` keeps the file valid, and does what it says.
    #[test]
    fn each_change_is_one_that_the_file_can_take() {
        let load = |set: &[String]| {
            let options = Options { set: set.to_vec(), ..Options::default() };
            load_text("test.yaml", TEXT, std::path::Path::new(""), &options).unwrap_or_else(|faults| panic!("{faults}"))
        };
        let changes = changes(&load(&[]).rehearsal).changes;
        let sets: Vec<&str> = changes.iter().flat_map(|change| &change.set).map(String::as_str).collect();
        assert_eq!(
            sets[..4],
            [
                "nodes.worker.count=4",
                "nodes.+={name: big-more, machine: a100-80g-x8}",
                "nodes.worker.gpus=[{type: l4, count: 2}]",
                "nodes.big.gpus=[{type: a100-80g, count: 9}]",
            ]
        );
        let profiles: Vec<&str> = changes.iter().filter_map(|change| change.profile.as_deref()).collect();
        assert!(profiles.contains(&"easy") && !profiles.contains(&"fifo"), "{profiles:?}");
        let gpus = |rehearsal: &Rehearsal| rehearsal.nodes.iter().map(|node| node.spec.shape.gpus.len()).sum::<usize>();
        let found: Vec<(usize, usize)> = (changes.iter().filter(|change| change.profile.is_none()))
            .map(|change| load(&change.set).rehearsal)
            .map(|rehearsal| (rehearsal.nodes.len(), gpus(&rehearsal)))
            .collect();
        // Twice the cores and RAM of a node are its own, and also those of `big2`, which is of the kind of `big`.
        let sum = |set: &[String], of: &dyn Fn(&NodeShape) -> u64| -> u64 {
            load(set).rehearsal.nodes.iter().map(|node| of(&node.spec.shape)).sum()
        };
        let set_of = |what: &str| &changes.iter().find(|change| change.what == what).expect("it is tried").set;
        let (cores, ram) = (|shape: &NodeShape| shape.cpu.get(), |shape: &NodeShape| shape.ram.get());
        assert_eq!(sum(set_of("twice the cores in each node"), &cores), 2 * sum(&[], &cores));
        assert_eq!(sum(set_of("twice the RAM in each node"), &ram), 2 * sum(&[], &ram));
        // 3 + 8 + 8 = 19 GPUs on 5 nodes. One more GPU in `big` does not change `big2`, which is another entry.
        assert_eq!(found, [(6, 20), (6, 27), (5, 22), (5, 20), (5, 19), (5, 19), (5, 19)]);
    }

    #[test]
    fn one_more_node_of_a_slurm_cluster_joins_the_partitions_of_the_node_that_it_is_like() {
        let text = "\
scenario: Partitions by names, by a pattern, and of all nodes
profile: slurm-22.05
slurm:
  partitions:
    - {name: main, nodes: [n1, w-0, w-1, ten-0], default: true}
    - {name: pattern, nodes: [n*, w-*, t*]}
    - {name: other, nodes: [w-1]}
    - {name: all}
nodes: [{name: n1, cpus: 8}, {name: w, count: 2, cpus: 4}, {name: ten, count: 10, cpus: 2}]
jobs: [{name: one, cpus: 1, duration: 1h, estimate: 1h}]
";
        let load = |options: &Options| {
            load_text("test.yaml", text, std::path::Path::new(""), options).unwrap_or_else(|faults| panic!("{faults}"))
        };
        let changes = changes(&load(&Options::default()).rehearsal).changes;
        let label = |partition: &str| partition_label(partition);
        for (change, name) in changes.iter().zip(["n1-more", "w-2", "ten-more"]) {
            let changed = load(&Options { set: change.set.clone(), ..Options::default() }).rehearsal;
            let node = changed.nodes.iter().find(|node| &*node.spec.name == name).expect("it is added");
            let is_of = |partition: &&str| node.spec.shape.labels.contains_key(&label(partition));
            let of: Vec<&str> = ["main", "pattern", "other", "all"].into_iter().filter(is_of).collect();
            assert_eq!(of, ["main", "pattern", "all"], "{name}: {:?}", change.set);
        }
        // Other profiles cannot have `slurm`.
        for change in changes.iter().filter(|change| change.profile.is_some()) {
            load(&Options { profile: change.profile.clone(), ..Options::default() });
        }
    }

    /// Seven nodes have the same machine. Some are in other partitions or in a reservation, or have a label that jobs ask
    /// for, so they are five kinds: `w-2` is like `w-0`, and `x` and `y` differ only in a label for which no job asks.
    #[test]
    fn one_more_node_is_tried_for_each_set_of_partitions_and_each_label_that_jobs_ask_for() {
        let text = "\
scenario: One machine in several partitions
profile: slurm-22.05
slurm:
  partitions:
    - {name: main, nodes: [w-0, w-2, w-3, x, y], default: true}
    - {name: debug, nodes: [w-1]}
    - {name: wide, nodes: [w-*, z]}
  reservations: [{name: lesson, start: 1h, duration: 1h, nodes: [w-3], users: [ann]}]
nodes:
  - {name: w, count: 4, gpu: l4, gpus: 2, cpus: 8}
  - {name: x, gpu: l4, gpus: 2, cpus: 8, labels: {zone: north, color: red}}
  - {name: y, gpu: l4, gpus: 2, cpus: 8, labels: {zone: north, color: blue}}
  - {name: z, gpu: l4, gpus: 2, cpus: 8}
jobs:
  - {name: one, cpus: 1, duration: 1h, estimate: 1h}
  - {name: two, cpus: 1, duration: 1h, estimate: 1h, labels: {zone: north}}
";
        let load = |set: &[String]| {
            let options = Options { set: set.to_vec(), ..Options::default() };
            load_text("test.yaml", text, std::path::Path::new(""), &options).unwrap_or_else(|faults| panic!("{faults}"))
        };
        let Changes { changes, kinds_left_out, .. } = changes(&load(&[]).rehearsal);
        assert_eq!(kinds_left_out, 0);
        let labels = ["main", "debug", "wide"].map(partition_label);
        let labels = [labels.as_slice(), &[reservation_label("lesson"), "zone".into()]].concat();
        let added = changes.iter().filter(|change| change.what.starts_with("one more node")).map(|change| {
            let changed = load(&change.set).rehearsal;
            let known = ["w-0", "w-1", "w-2", "w-3", "x", "y", "z"];
            let new: Vec<_> = changed.nodes.iter().filter(|node| !known.contains(&&*node.spec.name)).collect();
            assert_eq!(new.len(), 1, "{change:?}");
            let spec = &new[0].spec;
            let has: Vec<bool> = labels.iter().map(|label| spec.shape.labels.contains_key(label)).collect();
            (change.what.as_str(), spec.name.to_string(), has)
        });
        let row =
            |what: &'static str, name: &str, has: [u8; 5]| (what, name.to_string(), has.map(|is| is == 1).to_vec());
        assert_eq!(
            added.collect::<Vec<_>>(),
            [
                row("one more node like w-0 (2 l4, partitions main and wide, no zone)", "w-4", [1, 0, 1, 0, 0]),
                row("one more node like w-1 (2 l4, partitions debug and wide, no zone)", "w-4", [0, 1, 1, 0, 0]),
                row(
                    "one more node like w-3 (2 l4, partitions main and wide, reservation lesson, no zone)",
                    "w-4",
                    [1, 0, 1, 1, 0]
                ),
                row("one more node like x (2 l4, partition main, zone=north)", "x-more", [1, 0, 0, 0, 1]),
                row("one more node like z (2 l4, partition wide, no zone)", "z-more", [0, 0, 1, 0, 0]),
            ]
        );
        // The settings of GPUs apply to a whole entry. In the short form, only the number changes.
        let more: Vec<&[String]> = changes
            .iter()
            .filter(|change| change.what.starts_with("one more GPU"))
            .map(|change| change.set.as_slice())
            .collect();
        assert_eq!(more, [["nodes.w.gpus=3"], ["nodes.x.gpus=3"], ["nodes.z.gpus=3"]]);
        let gpus: usize = load(more[0]).rehearsal.nodes.iter().map(|node| node.spec.shape.gpus.len()).sum();
        assert_eq!(gpus, 4 * 3 + 3 * 2);
    }

    /// The catalog knows another memory of an L4, so the memory that the file states must be kept.
    #[test]
    fn one_more_gpu_has_the_memory_that_the_file_states() {
        let text = "\
scenario: GPUs of another memory
profile: fifo
nodes: [{name: n, cpus: 8, gpus: [{count: 2, type: l4, memory: 12GiB}]}]
jobs: [{name: one, gpus: 1, cpus: 1, duration: 1h, estimate: 1h}]
";
        let load = |set: &[String]| {
            let options = Options { set: set.to_vec(), ..Options::default() };
            load_text("test.yaml", text, std::path::Path::new(""), &options).unwrap_or_else(|faults| panic!("{faults}"))
        };
        let found = changes(&load(&[]).rehearsal);
        let more = found.changes.iter().find(|change| change.what.starts_with("one more GPU")).expect("tried");
        assert_eq!(more.set, ["nodes.n.gpus=[{type: l4, memory: 12GiB, count: 3}]"]);
        let changed = load(&more.set).rehearsal;
        let memory: Vec<u64> = changed.nodes[0].spec.shape.gpus.iter().map(|gpu| gpu.memory.get() >> 30).collect();
        assert_eq!(memory, [12, 12, 12]);
    }

    /// Nodes with 1 to 10 GPUs are ten kinds; one more of each of the first eight is tried.
    #[test]
    fn kinds_beyond_the_limit_are_counted_and_get_twice_the_cores_too() {
        let entry = |gpus: u32| {
            let cores = if gpus == 3 { "0" } else { "8" };
            format!("  - {{name: n{gpus}, gpus: [{{type: l4, count: {gpus}}}], cpus: {cores}, ram: 64GiB}}\n")
        };
        let nodes: String = (1..=10).map(entry).collect();
        let text = format!(
            "scenario: Ten kinds\nprofile: fifo\nnodes:\n{nodes}jobs: [{{name: one, gpus: 1, cpus: 1, duration: 1h, \
             estimate: 1h}}]\n"
        );
        let load = |set: &[String]| {
            let options = Options { set: set.to_vec(), ..Options::default() };
            load_text("test.yaml", &text, std::path::Path::new(""), &options)
                .unwrap_or_else(|faults| panic!("{faults}"))
        };
        let found = changes(&load(&[]).rehearsal);
        assert_eq!(found.kinds_left_out, 2);
        let more = found.changes.iter().filter(|change| change.what.starts_with("one more node")).count();
        assert_eq!(more, 8);
        let twice = found.changes.iter().find(|change| change.what.starts_with("twice the cores")).expect("tried");
        // Nine nodes have 8 cores; the node without cores is not named.
        assert_eq!(twice.set.len(), 9, "{:?}", twice.set);
        let cores: u64 = load(&twice.set).rehearsal.nodes.iter().map(|node| node.spec.shape.cpu.get()).sum();
        assert_eq!(cores, 9 * 16 * 1000);
    }

    /// A replica is submitted at 1 h and still waits at the end. The change ends the run at 5 h instead of 10 h, and
    /// another replica waits 1 h instead of 3 h.
    #[test]
    fn an_earlier_end_of_the_run_saves_nothing() {
        let hour: u64 = 3_600_000_000_000;
        let run = |over: u64, end: u64| WaitTotal {
            over: u128::from(over * hour),
            waiting: 1,
            since: u128::from(hour),
            never: 0,
            ended_early: 0,
            end: SimTime::from_nanos(end * hour),
        };
        assert_eq!((run(3, 10).hours(), run(1, 5).hours()), (12.0, 5.0));
        let found = saved(&[run(3, 10)], &[run(1, 5)], None).expect("one seed");
        assert!((found.mean - 2.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_saves_most_comes_first() {
        let saving = |what: &str, hours: Option<f64>| Saving {
            change: Change { what: what.to_string(), ..Change::default() },
            saved: hours.and_then(|hours| estimate_difference(&[hours, hours], None)),
            p95: None,
            never: None,
            ended_early: None,
            fault: None,
        };
        let mut all = [
            saving("a", Some(1.0)),
            saving("b", None),
            saving("c", Some(-2.0)),
            saving("d", Some(5.0)),
            saving("e", Some(1.0)),
        ];
        sort(&mut all);
        let order: Vec<&str> = all.iter().map(|saving| saving.change.what.as_str()).collect();
        assert_eq!(order, ["d", "a", "e", "c", "b"]);
    }
}
