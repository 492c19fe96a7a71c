//! A scenario as a tree that can be changed.

use dryrack_yaml::{Entry, Node, Report, Tree, emit, parse};

/// A scenario. Each change returns another scenario, which is not checked for validity.
#[derive(Clone, Debug)]
pub struct World {
    tree: Tree,
}

impl World {
    /// Reads a scenario. `None` if it is not YAML.
    pub fn read(text: &str) -> Option<World> {
        let mut report = Report::default();
        let source = report.add_source("world", text);
        let tree = parse(text, source, &mut report).filter(|_| !report.has_errors())?;
        Some(World { tree })
    }

    pub fn text(&self) -> String {
        emit(&self.tree)
    }

    pub fn has(&self, key: &str) -> bool {
        self.tree.get(key).is_some()
    }

    /// The field of a job, as written in the scenario.
    pub fn of_job(&self, job: &str, key: &str) -> Option<&Tree> {
        items(self.tree.get("jobs")).iter().find(|item| is_named(item, job))?.get(key)
    }

    /// The scenario with only these jobs.
    pub fn with_jobs(&self, keeps: impl Fn(&str) -> bool) -> World {
        let mut world = self.clone();
        world.retain("jobs", &|item| name_of(item).is_some_and(&keeps));
        world
    }

    /// The scenario without changes to nodes during the run.
    pub fn without_faults(&self) -> World {
        let mut world = self.clone();
        if let Node::Map(entries) = &mut world.tree.node {
            entries.retain(|entry| entry.key != "faults");
        }
        world
    }

    /// The scenario with only these nodes. A fleet without hosts is removed.
    pub fn with_nodes(&self, keeps: impl Fn(&str) -> bool) -> World {
        let mut world = self.clone();
        let is_kept = |item: &Tree| name_of(item).is_some_and(&keeps);
        world.retain("nodes", &is_kept);
        if let Some(Node::Map(fleets)) = world.entry_mut("fleets").map(|tree| &mut tree.node) {
            for fleet in fleets.iter_mut() {
                if let Some(Node::List(hosts)) = get_mut(&mut fleet.value, "hosts").map(|tree| &mut tree.node) {
                    hosts.retain(is_kept);
                }
            }
            fleets.retain(|fleet| fleet.value.get("hosts").is_none_or(|hosts| !items(Some(hosts)).is_empty()));
        }
        world
    }

    /// The scenario with the nodes, and the hosts of each fleet, in the opposite order.
    pub fn with_nodes_reversed(&self) -> World {
        let mut world = self.clone();
        if let Some(Node::List(nodes)) = world.entry_mut("nodes").map(|tree| &mut tree.node) {
            nodes.reverse();
        }
        if let Some(Node::Map(fleets)) = world.entry_mut("fleets").map(|tree| &mut tree.node) {
            for fleet in fleets.iter_mut() {
                if let Some(Node::List(hosts)) = get_mut(&mut fleet.value, "hosts").map(|tree| &mut tree.node) {
                    hosts.reverse();
                }
            }
        }
        world
    }

    /// The scenario with the groups of GPUs of each node in the opposite order. `None` if no node has several groups.
    pub fn with_gpus_reversed(&self) -> Option<World> {
        let mut world = self.clone();
        let Some(Node::List(nodes)) = world.entry_mut("nodes").map(|tree| &mut tree.node) else { return None };
        let mut is_changed = false;
        for node in nodes {
            if let Some(Node::List(groups)) = get_mut(node, "gpus").map(|tree| &mut tree.node) {
                is_changed |= groups.len() > 1;
                groups.reverse();
            }
        }
        is_changed.then_some(world)
    }

    /// The scenario with a field of a job set to a value in YAML, or removed.
    pub fn with_job_field(&self, job: &str, key: &str, value: Option<&str>) -> World {
        let mut world = self.clone();
        if let Some(Node::List(jobs)) = world.entry_mut("jobs").map(|tree| &mut tree.node) {
            for item in jobs.iter_mut().filter(|item| is_named(item, job)) {
                set(item, key, value);
            }
        }
        world
    }

    /// The scenario with a field of a job's model set to a value in YAML.
    pub fn with_model_field(&self, job: &str, key: &str, value: &str) -> World {
        let mut world = self.clone();
        if let Some(Node::List(jobs)) = world.entry_mut("jobs").map(|tree| &mut tree.node) {
            for item in jobs.iter_mut().filter(|item| is_named(item, job)) {
                if let Some(model) = get_mut(item, "model") {
                    set(model, key, Some(value));
                }
            }
        }
        world
    }

    /// The scenario with a key of the file set to a value in YAML.
    pub fn with_entry(&self, key: &str, value: &str) -> World {
        let mut world = self.clone();
        set(&mut world.tree, key, Some(value));
        world
    }

    fn entry_mut(&mut self, key: &str) -> Option<&mut Tree> {
        get_mut(&mut self.tree, key)
    }

    /// Shortens a list, and removes its key if no item is left.
    fn retain(&mut self, key: &str, keeps: &dyn Fn(&Tree) -> bool) {
        if let Some(Node::List(list)) = self.entry_mut(key).map(|tree| &mut tree.node) {
            list.retain(|item| keeps(item));
            if list.is_empty()
                && let Node::Map(entries) = &mut self.tree.node
            {
                entries.retain(|entry| entry.key != key);
            }
        }
    }
}

fn name_of(item: &Tree) -> Option<&str> {
    item.get("name").and_then(Tree::scalar)
}

fn is_named(item: &Tree, name: &str) -> bool {
    name_of(item) == Some(name)
}

fn items(tree: Option<&Tree>) -> &[Tree] {
    match tree.map(|tree| &tree.node) {
        Some(Node::List(items)) => items,
        _ => &[],
    }
}

fn get_mut<'t>(tree: &'t mut Tree, key: &str) -> Option<&'t mut Tree> {
    match &mut tree.node {
        Node::Map(entries) => entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.value),
        Node::Scalar { .. } | Node::List(_) => None,
    }
}

fn set(tree: &mut Tree, key: &str, value: Option<&str>) {
    let span = tree.span;
    let Node::Map(entries) = &mut tree.node else { return };
    let Some(value) = value else { return entries.retain(|entry| entry.key != key) };
    let Some(World { tree: mut value }) = World::read(value) else { return };
    value.place(span);
    match entries.iter_mut().find(|entry| entry.key == key) {
        Some(entry) => entry.value = value,
        None => entries.push(Entry { key: key.to_string(), key_span: span, value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
scenario: A test
nodes:
  - {name: a, gpus: [{type: x}, {type: y}]}
  - {name: b}
jobs:
  - {name: one, model: {weights: 5GiB}}
  - {name: two}
";

    #[test]
    fn a_change_makes_another_world() {
        let world = World::read(TEXT).expect("YAML");
        assert_eq!(world.text(), TEXT);
        assert_eq!(world.with_nodes(|name| name != "b").text(), TEXT.replace("  - {name: b}\n", ""));
        assert_eq!(world.with_jobs(|_| false).text(), TEXT.split("jobs").next().expect("the head"));
        let reversed = world.with_gpus_reversed().expect("there are two");
        assert_eq!(reversed.text(), TEXT.replace("{type: x}, {type: y}", "{type: y}, {type: x}"));
        let lighter = world.with_model_field("one", "weights", "4GiB");
        assert_eq!(lighter.text(), TEXT.replace("5GiB", "4GiB"));
        let picked = world.with_job_field("two", "gpus", Some("[a/0]"));
        assert_eq!(picked.text(), TEXT.replace("{name: two}", "{name: two, gpus: [a/0]}"));
        assert_eq!(picked.with_job_field("two", "gpus", None).text(), TEXT);
    }
}
