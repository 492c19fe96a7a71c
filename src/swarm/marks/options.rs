//! The options of a profile. An option with listed values, such as `scheduler.discipline`, has one mark for each value.
//! Any other option has one mark, which is reached once two runs have different values of it: until then, no run shows
//! what the option does.

use std::collections::{BTreeMap, BTreeSet};

use super::variants::{WRONG, known_names};
use dryrack_control::Profile;
use serde_json::{Map, Value};

/// Keys that identify a profile and do not affect decisions.
const NOT_OPTIONS: [&str; 2] = ["name", "title"];

/// The number of different values of an option that are kept. More would show nothing new.
const MOST_VALUES: usize = 8;

/// What the reader of profiles knows, by the path of an option.
#[derive(Default)]
pub(super) struct OptionTable {
    /// The fields of each map.
    fields: BTreeMap<String, Vec<String>>,
    /// The values of each option that lists them.
    values: BTreeMap<String, Vec<String>>,
    /// The value of such an option if the profile leaves the option out.
    defaults: BTreeMap<String, String>,
    /// The fields that a profile must have.
    required: BTreeSet<String>,
    /// The paths that were probed.
    known: BTreeSet<String>,
}

/// A step from a value to a value inside it.
#[derive(Clone)]
enum Step {
    Key(String),
    Item(usize),
}

/// The values of options that runs had.
#[derive(Default)]
pub(super) struct Options {
    /// The number of runs with each listed value, by mark.
    listed: BTreeMap<String, u64>,
    /// Some values of each other option, by mark.
    others: BTreeMap<String, BTreeSet<String>>,
}

impl OptionTable {
    /// Learns the options from the reader, by giving it each profile with one mistake at a time.
    pub(super) fn of<'p>(profiles: impl IntoIterator<Item = &'p Profile>) -> OptionTable {
        let mut table = OptionTable::default();
        for profile in profiles {
            let root = data(profile);
            table.probe(&root, &mut Vec::new(), "");
        }
        table
    }

    fn probe(&mut self, root: &Value, at: &mut Vec<Step>, path: &str) {
        match inside(root, at) {
            Value::Object(map) => {
                if self.known.insert(path.to_string()) {
                    self.probe_map(root, at, path);
                }
                for key in map.keys() {
                    if !self.is_named(path, key) {
                        continue;
                    }
                    at.push(Step::Key(key.clone()));
                    self.probe(root, at, &join(path, key));
                    at.pop();
                }
            }
            Value::Array(items) => {
                for index in 0..items.len() {
                    at.push(Step::Item(index));
                    self.probe(root, at, path);
                    at.pop();
                }
            }
            Value::String(_) => {
                if self.known.insert(format!("{path}=")) {
                    let answer = answer_to(root, at, Value::String(WRONG.to_string()));
                    self.learn_values(path, &answer);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Whether this key of a map is a field or a variant, and no name that a user chose.
    fn is_named(&self, path: &str, key: &str) -> bool {
        let has = |names: &BTreeMap<String, Vec<String>>| {
            names.get(path).is_some_and(|names| names.iter().any(|name| name == key))
        };
        (has(&self.fields) || has(&self.values)) && !(path.is_empty() && NOT_OPTIONS.contains(&key))
    }

    fn probe_map(&mut self, root: &Value, at: &[Step], path: &str) {
        let Value::Object(map) = inside(root, at) else { return };
        let mut longer = map.clone();
        longer.insert(WRONG.to_string(), Value::Null);
        let Some(fields) = known_names(&answer_to(root, at, Value::Object(longer)), "unknown field") else {
            let answer = answer_to(root, at, Value::String(WRONG.to_string()));
            return self.learn_values(path, &answer);
        };
        for field in &fields {
            let child = join(path, field);
            let mut without = map.clone();
            without.remove(field);
            if answer_to(root, at, Value::Object(without)).contains("missing field") {
                self.required.insert(child.clone());
            }
            let with = |value: &str| {
                let mut with = map.clone();
                with.insert(field.clone(), Value::String(value.to_string()));
                Value::Object(with)
            };
            self.learn_values(&child, &answer_to(root, at, with(WRONG)));
            let is_default = |value: &&String| {
                let read = serde_json::from_value::<Profile>(replaced(root, at, with(value)));
                read.is_ok_and(|profile| inside(&data(&profile), at).get(field).is_none())
            };
            if let Some(default) = self.values.get(&child).and_then(|values| values.iter().find(is_default)) {
                self.defaults.insert(child, default.clone());
            }
        }
        self.fields.insert(path.to_string(), fields);
    }

    fn learn_values(&mut self, path: &str, answer: &str) {
        if let Some(values) = known_names(answer, "unknown variant") {
            self.values.insert(path.to_string(), values);
        }
    }
}

impl Options {
    /// Adds the options of the profile of one run.
    pub(super) fn add(&mut self, profile: &Profile, table: &OptionTable) {
        let mut listed = BTreeSet::new();
        self.visit(&data(profile), "", table, &mut listed);
        for mark in listed {
            *self.listed.entry(mark).or_default() += 1;
        }
    }

    fn visit(&mut self, value: &Value, path: &str, table: &OptionTable, listed: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) if table.fields.contains_key(path) => {
                for field in &table.fields[path] {
                    let child = join(path, field);
                    match map.get(field) {
                        _ if path.is_empty() && NOT_OPTIONS.contains(&field.as_str()) => {}
                        Some(value) => self.visit(value, &child, table, listed),
                        None => match table.defaults.get(&child) {
                            Some(default) => drop(listed.insert(value_mark(&child, default))),
                            None => self.see(&child, "absent"),
                        },
                    }
                }
                self.see(path, "present");
            }
            Value::Object(map) if table.values.contains_key(path) => {
                for (variant, value) in map {
                    listed.insert(value_mark(path, variant));
                    self.visit(value, &join(path, variant), table, listed);
                }
            }
            Value::Array(items) => {
                self.see(path, &value.to_string());
                items.iter().for_each(|item| self.visit(item, path, table, listed));
            }
            Value::String(text) if table.values.contains_key(path) => {
                listed.insert(value_mark(path, text));
            }
            _ => self.see(path, &value.to_string()),
        }
    }

    fn see(&mut self, path: &str, value: &str) {
        let seen = self.others.entry(option_mark(path)).or_default();
        if seen.len() < MOST_VALUES && !seen.contains(value) {
            seen.insert(value.to_string());
        }
    }

    /// All marks of options, each with the number of runs, or with the number of values beyond the first.
    pub(super) fn counts(&self, table: &OptionTable) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (path, values) in &table.values {
            for value in values {
                let mark = value_mark(path, value);
                let count = self.listed.get(&mark).copied().unwrap_or(0);
                counts.insert(mark, count);
            }
        }
        for (path, fields) in &table.fields {
            for child in fields.iter().map(|field| join(path, field)) {
                let is_map = table.fields.contains_key(&child);
                let is_name = NOT_OPTIONS.contains(&child.as_str());
                // A map that every profile must have is no option itself.
                if is_name || table.values.contains_key(&child) || (is_map && table.required.contains(&child)) {
                    continue;
                }
                let mark = option_mark(&child);
                let values = self.others.get(&mark).map_or(0, BTreeSet::len);
                counts.insert(mark, values.saturating_sub(1) as u64);
            }
        }
        counts
    }
}

fn data(profile: &Profile) -> Value {
    serde_json::to_value(profile).expect("a profile has a JSON form")
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

fn option_mark(path: &str) -> String {
    format!("option {path}")
}

fn value_mark(path: &str, value: &str) -> String {
    format!("option {path}: {value}")
}

fn inside<'v>(root: &'v Value, at: &[Step]) -> &'v Value {
    at.iter().fold(root, |value, step| match step {
        Step::Key(key) => &value[key.as_str()],
        Step::Item(index) => &value[*index],
    })
}

/// The root with another value at a place.
fn replaced(root: &Value, at: &[Step], value: Value) -> Value {
    let mut root = root.clone();
    let place = at.iter().fold(&mut root, |place, step| {
        match step {
            Step::Key(key) => place.as_object_mut().and_then(|map: &mut Map<String, Value>| map.get_mut(key)),
            Step::Item(index) => place.as_array_mut().and_then(|items| items.get_mut(*index)),
        }
        .expect("the place is there")
    });
    *place = value;
    root
}

/// The reader's answer to a profile with another value at a place; empty if it accepts the profile.
fn answer_to(root: &Value, at: &[Step], value: Value) -> String {
    match serde_json::from_value::<Profile>(replaced(root, at, value)) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}
