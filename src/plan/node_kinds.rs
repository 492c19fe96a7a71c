//! The kinds of nodes in `nodes:`, and the settings that add a node or a GPU of a kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::breaks::called;
use dryrack_catalog as catalog;
use dryrack_engine::Rehearsal;
use dryrack_fleet::{NodeShape, NodeSpec, offer_of};
use dryrack_scheduler::slurm::{group_of_label, partition_label, reservation_label};
use dryrack_units::Bytes;
use dryrack_workload::DemandKind;
use dryrack_yaml::{Entry, Node, Tree, emit, emit_line, is_pattern, matches_pattern};

/// An entry of `nodes:` with its nodes and the shape of the first one.
pub(super) struct NodeEntry<'t> {
    pub(super) tree: &'t Tree,
    pub(super) name: &'t str,
    count: Option<u32>,
    pub(super) shape: &'t Arc<NodeShape>,
    nodes: Vec<&'t NodeSpec>,
}

/// The entries of `nodes:`.
pub(super) fn entries<'t>(tree: &'t Tree, rehearsal: &'t Rehearsal) -> Vec<NodeEntry<'t>> {
    let Some(Node::List(items)) = tree.get("nodes").map(|nodes| &nodes.node) else { return Vec::new() };
    let mut found: Vec<NodeEntry<'_>> = Vec::new();
    for tree in items {
        let Some(name) = tree.get("name").and_then(Tree::scalar) else { continue };
        let count = tree.get("count").and_then(Tree::scalar).and_then(|count| count.parse().ok());
        let is_copy = |node: &str| {
            let number = node.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            node == name || (count.is_some() && number.is_some_and(|rest| rest.parse::<u32>().is_ok()))
        };
        let nodes = rehearsal.nodes.iter().map(|node| &node.spec);
        let nodes: Vec<&NodeSpec> =
            nodes.filter(|spec| is_copy(&spec.name) && offer_of(&spec.shape).is_none()).collect();
        let Some(first) = nodes.first() else { continue };
        found.push(NodeEntry { tree, name, count, shape: &first.shape, nodes });
    }
    found
}

/// A partition or an advance reservation of Slurm.
struct SlurmGroup<'r> {
    /// `partitions` or `reservations`, as in `slurm:`.
    list: &'static str,
    name: &'r str,
    label: Arc<str>,
    /// The names and patterns of its nodes. It has all nodes if there are none.
    nodes: &'r [String],
}

impl SlurmGroup<'_> {
    fn has(&self, spec: &NodeSpec) -> bool {
        spec.shape.labels.contains_key(&self.label)
    }

    /// Whether a node of this name is in the group because of what the file already says.
    fn names(&self, name: &str) -> bool {
        let names_it = |typed: &String| if is_pattern(typed) { matches_pattern(typed, name) } else { typed == name };
        self.nodes.is_empty() || self.nodes.iter().any(names_it)
    }
}

/// What keeps jobs to some of the nodes with the same machine: partitions, advance reservations, and the labels that jobs
/// ask for.
pub(super) struct Separations<'r> {
    groups: Vec<SlurmGroup<'r>>,
    labels: BTreeSet<&'r Arc<str>>,
    /// Whether `--set` can add a node to a group. It cannot change the groups of a profile's file.
    can_join: bool,
}

impl<'r> Separations<'r> {
    pub(super) fn of(tree: &Tree, rehearsal: &'r Rehearsal) -> Separations<'r> {
        let slurm = rehearsal.profile.slurm.as_ref();
        let partitions = slurm.map_or(&[][..], |slurm| &slurm.partitions).iter().map(|partition| SlurmGroup {
            list: "partitions",
            name: &partition.name,
            label: partition_label(&partition.name),
            nodes: &partition.nodes,
        });
        let reservations = slurm.map_or(&[][..], |slurm| &slurm.reservations).iter().map(|reservation| SlurmGroup {
            list: "reservations",
            name: &reservation.name,
            label: reservation_label(&reservation.name),
            nodes: &reservation.nodes,
        });
        let mut labels = BTreeSet::new();
        for arrival in &rehearsal.arrivals {
            match &arrival.spec.demand.kind {
                DemandKind::Tasks(task) => labels.extend(task.labels.keys()),
                DemandKind::Sets(sets) => labels.extend(sets.iter().flat_map(|set| set.task.labels.keys())),
                DemandKind::Model(_) | DemandKind::Requirements(_) => {}
            }
        }
        labels.retain(|label| group_of_label(label).is_none());
        Separations { groups: partitions.chain(reservations).collect(), labels, can_join: tree.get("slurm").is_some() }
    }

    /// The groups of a node and its labels that jobs ask for.
    fn key<'n>(&self, spec: &'n NodeSpec) -> (Vec<bool>, Vec<Option<&'n Arc<str>>>) {
        let groups = self.groups.iter().map(|group| group.has(spec)).collect();
        (groups, self.labels.iter().map(|label| spec.shape.labels.get(*label)).collect())
    }

    /// The same in words, such as `partitions busy and debug`.
    fn words(&self, spec: &NodeSpec) -> String {
        let mut words = Vec::new();
        for list in ["partitions", "reservations"] {
            let of_list = || self.groups.iter().filter(|group| group.list == list);
            let names: Vec<&str> = of_list().filter(|group| group.has(spec)).map(|group| group.name).collect();
            let one = list.trim_end_matches('s');
            match names.len() {
                0 if of_list().next().is_none() || !words.is_empty() => {}
                0 => words.push(format!("no {one}")),
                1 => words.push(format!("{one} {}", names[0])),
                _ => words.push(format!("{list} {}", names.join(" and "))),
            }
        }
        words.extend(self.labels.iter().map(|label| match spec.shape.labels.get(*label) {
            Some(value) => format!("{label}={value}"),
            None => format!("no {label}"),
        }));
        words.join(", ")
    }
}

/// Nodes with the same GPUs, cores and RAM that the same partitions, reservations and jobs can use.
pub(super) struct Kind<'e> {
    pub(super) entry: &'e NodeEntry<'e>,
    /// The first node of the kind.
    node: &'e NodeSpec,
    /// What tells the kind from others with the same machine. Empty if there is no such kind.
    differs_by: String,
}

/// The kinds of nodes. The first kind of each machine comes first.
pub(super) fn kinds<'e>(entries: &'e [NodeEntry<'e>], separations: &Separations<'_>) -> Vec<Kind<'e>> {
    let mut machines = BTreeMap::new();
    let mut found: Vec<(usize, Kind<'e>)> = Vec::new();
    for entry in entries {
        let machine: &mut BTreeSet<_> =
            machines.entry((called(entry.shape), entry.shape.cpu, entry.shape.ram)).or_default();
        for node in &entry.nodes {
            let earlier = machine.len();
            if machine.insert(separations.key(node)) {
                found.push((earlier, Kind { entry, node, differs_by: String::new() }));
            }
        }
    }
    for (_, kind) in &mut found {
        let shape = kind.entry.shape;
        if machines[&(called(shape), shape.cpu, shape.ram)].len() > 1 {
            kind.differs_by = separations.words(kind.node);
        }
    }
    // The sort is stable, so kinds keep the order of the file.
    found.sort_by_key(|(earlier, _)| *earlier > 0);
    found.into_iter().map(|(_, kind)| kind).collect()
}

impl Kind<'_> {
    /// The kind in words: `worker (8 a100-80g)`, or `worker-3 (8 a100-80g, partition busy)`.
    pub(super) fn words(&self) -> String {
        let called = called(self.entry.shape);
        match self.differs_by.is_empty() {
            true => format!("{} ({called})", self.entry.name),
            false => format!("{} ({called}, {})", self.node.name, self.differs_by),
        }
    }

    /// The settings that add one more node of this kind, in the same partitions and reservations. `None` if `--set` cannot
    /// add it to these, or cannot keep it out of others.
    pub(super) fn one_more(&self, separations: &Separations<'_>) -> Option<Vec<String>> {
        let groups = &separations.groups;
        let entry = self.entry;
        // The numbers of nodes have equally many digits. With one digit more, partitions would name nodes that are called
        // otherwise.
        let has_digit_more = |count: u32| count.to_string().len() > count.saturating_sub(1).to_string().len();
        let count = entry.count.filter(|count| groups.is_empty() || !has_digit_more(*count));
        let larger = count.map(|count| {
            (format!("{}-{count}", entry.name), format!("nodes.{}.count={}", quoted(entry.name), count + 1))
        });
        let copies = [format!("{}-more", entry.name), format!("more-{}", entry.name)];
        let copies = copies.into_iter().map(|name| {
            let set = entry.copy(&name);
            (name, set)
        });
        let is_fit =
            |(name, _): &(String, String)| groups.iter().all(|group| group.has(self.node) || !group.names(name));
        let (name, set) = larger.into_iter().chain(copies).find(is_fit)?;
        let joined = groups.iter().filter(|group| group.has(self.node) && !group.names(&name));
        let joined: Vec<String> =
            joined.map(|group| format!("slurm.{}.{}.nodes.+={name}", group.list, quoted(group.name))).collect();
        (joined.is_empty() || separations.can_join).then(|| std::iter::once(set).chain(joined).collect())
    }
}

impl NodeEntry<'_> {
    /// A setting that adds one node like those of the entry, with another name.
    fn copy(&self, name: &str) -> String {
        let mut copy = self.tree.clone();
        if let Node::Map(entries) = &mut copy.node {
            entries.retain(|field| !["count", "state", "gpu_states", "foreign"].contains(&field.key.as_str()));
            if let Some(Node::Scalar { text, .. }) =
                entries.iter_mut().find(|field| field.key == "name").map(|field| &mut field.value.node)
            {
                text.clear();
                text.push_str(name);
            }
        }
        // Text of a list with one item is `[…]`, on one line below the second level.
        let list = Tree { span: copy.span, node: Node::List(vec![copy]) };
        let text = emit(&list);
        format!("nodes.+={}", text.trim().trim_start_matches('[').trim_end_matches(']'))
    }

    /// One more GPU of the same type. `None` if the node has no GPU, or GPUs of several types.
    pub(super) fn one_more_gpu(&self) -> Option<String> {
        let first = self.shape.gpus.first()?;
        if self.shape.gpus.iter().any(|gpu| gpu.model != first.model) {
            return None;
        }
        let (path, count) = (format!("nodes.{}.gpus", quoted(self.name)), self.shape.gpus.len() + 1);
        // `gpu: l4, gpus: 4` has the type apart from the number.
        if self.tree.get("gpu").is_some() {
            return Some(format!("{path}={count}"));
        }
        if let Some(entry) = self.tree.get("gpus").and_then(only_group) {
            return Some(format!("{path}={}", emit_line(&with_count(entry, count))));
        }
        let memory = match catalog::gpu(&first.model) {
            Some(_) => String::new(),
            None => format!(", memory: {}", amount(first.memory)),
        };
        Some(format!("{path}=[{{type: {}{memory}, count: {count}}}]", first.model))
    }
}

/// The list of GPUs, if it has one group. The group may state what the catalog does not know, such as another memory.
fn only_group(gpus: &Tree) -> Option<&Tree> {
    match &gpus.node {
        Node::List(groups) => (groups.len() == 1 && groups[0].get("type").is_some()).then_some(gpus),
        _ => None,
    }
}

/// A list of one group of GPUs, with another count.
fn with_count(gpus: &Tree, count: usize) -> Tree {
    let mut copy = gpus.clone();
    if let Node::List(groups) = &mut copy.node
        && let Node::Map(fields) = &mut groups[0].node
    {
        let node = Node::Scalar { text: count.to_string(), quoted: false };
        let Entry { key_span, value, .. } = &fields[0];
        let count = Entry { key: "count".to_string(), key_span: *key_span, value: Tree { span: value.span, node } };
        fields.retain(|field| field.key != "count");
        fields.push(count);
    }
    copy
}

/// An amount as a file states it, without rounding: `80GiB`, or a number of bytes.
pub(super) fn amount(bytes: Bytes) -> String {
    let text = bytes.to_string().replace(' ', "");
    if text.parse() == Ok(bytes) { text } else { format!("{}B", bytes.get()) }
}

/// A step of a path, in double quotes if it has a dot.
pub(super) fn quoted(name: &str) -> String {
    if name.contains('.') { format!("\"{name}\"") } else { name.to_string() }
}
