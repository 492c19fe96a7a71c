//! Replaces the names that people chose, so that objects can be handed on.
//!
//! Equal names get equal new names, in whatever object or selector they are. The new names of a kind are in the same
//! order as the old ones, because the order of names breaks ties. Names in the lists of [`well_known`] are kept, which
//! Kubernetes, Kueue or a vendor of accelerators chose, because they say nothing about the cluster and the rules depend
//! on them.

mod expression;
mod visit;
mod well_known;

use std::collections::{BTreeMap, BTreeSet};

use dryrack_yaml::Span;
use serde_json::Value;

use crate::kinds::Kind;
use crate::read::Object;
use crate::shape::Named;
use expression::Use;

/// The new names of a set of objects.
#[derive(Clone, Debug, Default)]
pub struct NewNames {
    given: BTreeMap<Named, BTreeMap<String, String>>,
}

impl NewNames {
    /// New names for all objects together.
    pub fn of(objects: &[Object]) -> NewNames {
        let mut found: BTreeMap<Named, BTreeSet<String>> = BTreeMap::new();
        for object in objects {
            let mut copy = object.clone();
            visit::names(&mut copy, &mut |named, text| {
                found.entry(named).or_default().insert(text.to_string());
                None
            });
        }
        texts_of_devices(objects, &mut found);
        let kept = |named: Named, names: &BTreeSet<String>| -> Vec<String> {
            names.iter().filter(|name| well_known::is_kept(named, name)).cloned().collect()
        };
        let given = found.into_iter().map(|(named, names)| {
            let kept = kept(named, &names);
            let changed = names.into_iter().filter(|name| !kept.contains(name)).collect();
            (named, numbered(named, changed, &kept))
        });
        NewNames { given: given.collect() }
    }

    /// The object with its new names.
    pub fn apply(&self, object: &Object) -> Object {
        let mut renamed = object.clone();
        visit::names(&mut renamed, &mut |named, text| match named {
            Named::AttributeText | Named::Serial => self.text(text).map(str::to_string),
            _ => self.new_name(named, text).map(str::to_string),
        });
        expression::rename(&mut renamed, &|text| self.in_expression(text));
        renamed
    }

    /// The new name. `None` if the name is kept.
    pub fn new_name(&self, named: Named, text: &str) -> Option<&str> {
        self.given.get(&named)?.get(text).map(String::as_str)
    }

    /// The new form of a text that a device has or that is compared with one.
    fn text(&self, text: &str) -> Option<&str> {
        [Named::Driver, Named::Serial, Named::AttributeText].into_iter().find_map(|named| self.new_name(named, text))
    }

    /// The new form of a text in an expression: a driver, a text of a device, or a name that begins with a driver.
    fn in_expression(&self, text: &str) -> Option<String> {
        self.text(text).map(str::to_string).or_else(|| {
            let (driver, rest) = text.split_once('/')?;
            Some(format!("{}/{rest}", self.new_name(Named::Driver, driver)?))
        })
    }

    /// The expressions that could hold for other devices under the new names, or that would show a part of an old
    /// name, each with its object and the text.
    pub fn untranslatable(&self, objects: &[Object]) -> Vec<(Span, String)> {
        let mut found = Vec::new();
        for object in objects {
            expression::each(object, &mut |expression| {
                let mut texts = expression::texts(expression).into_iter();
                if let Some((text, _)) = texts.find(|(text, used)| !self.is_translatable(text, used)) {
                    let known = object.kind.known();
                    found.push((
                        object.span,
                        format!(
                            "the {} {} has the expression `{expression}`, whose text `{text}` cannot be replaced",
                            known.name,
                            object.name(),
                        ),
                    ));
                }
            });
        }
        found
    }

    fn is_translatable(&self, text: &str, used: &Use) -> bool {
        let holds: fn(&str, &str) -> bool = match used {
            Use::Whole => return true,
            Use::Changed => return false,
            Use::Argument(function) => match function.as_str() {
                "quantity" | "isQuantity" | "semver" | "isSemver" => return well_known::is_amount(text),
                "startsWith" => |whole, text| whole.starts_with(text),
                "endsWith" => |whole, text| whole.ends_with(text),
                "contains" => |whole, text| whole.contains(text),
                _ => return false,
            },
        };
        let texts = [Named::Driver, Named::Serial, Named::AttributeText];
        let mut renamed = texts.iter().filter_map(|named| self.given.get(named)).flatten();
        let forms: [fn(&str) -> String; 3] = [str::to_string, str::to_ascii_lowercase, str::to_ascii_uppercase];
        let is_same = |(old, new): (&String, &String)| {
            forms.iter().all(|form| holds(&form(old), text) == holds(&form(new), text))
        };
        well_known::is_part_of_kept(text) && renamed.all(is_same)
    }

    /// All new names: what they name, the old name, and the new name.
    pub fn table(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.given.iter().flat_map(|(named, names)| {
            names.iter().map(|(old, new)| (well_known::word(*named), old.as_str(), new.as_str()))
        })
    }
}

/// Adds the texts that expressions compare with those of devices. Texts that are in several places get one new name.
fn texts_of_devices(objects: &[Object], found: &mut BTreeMap<Named, BTreeSet<String>>) {
    let mut ids = BTreeSet::new();
    let slices = objects.iter().filter(|object| object.kind == Kind::Slice);
    slices.for_each(|slice| slice.value.values().for_each(|value| ids_in(value, &mut ids)));
    let drivers = found.get(&Named::Driver).cloned().unwrap_or_default();
    let mut serials = found.remove(&Named::Serial).unwrap_or_default();
    serials.retain(|text| !drivers.contains(text));
    let mut texts = found.remove(&Named::AttributeText).unwrap_or_default();
    let mut compared = |text: &str, used: &Use| {
        if *used == Use::Whole && text.split_once('/').is_none_or(|(driver, _)| !drivers.contains(driver)) {
            texts.insert(text.to_string());
        }
    };
    for object in objects {
        expression::each(object, &mut |expression| {
            expression::texts(expression).iter().for_each(|(text, used)| compared(text, used));
        });
    }
    texts.retain(|text| !drivers.contains(text) && !serials.contains(text) && !ids.contains(text));
    found.extend([(Named::Serial, serials), (Named::AttributeText, texts)]);
}

/// The names of attributes and capacities, without drivers. They are kept, because expressions can contain them without
/// quotes.
fn ids_in(value: &Value, ids: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| ids_in(item, ids)),
        Value::Object(map) => map.iter().for_each(|(key, value)| match value {
            Value::Object(named) if key == "attributes" || key == "capacity" => {
                ids.extend(named.keys().map(|name| name.rsplit('/').next().unwrap_or(name).to_string()));
            }
            _ => ids_in(value, ids),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The key by which names are compared. A pod is compared by its namespace, a slash, and its name.
fn order(named: Named, name: &str) -> String {
    if named == Named::Namespace { format!("{name}/") } else { name.to_string() }
}

/// New names in the order of the old ones, also among the names that are kept.
fn numbered(named: Named, changed: BTreeSet<String>, kept: &[String]) -> BTreeMap<String, String> {
    let digits = changed.len().to_string().len();
    let mut changed: Vec<String> = changed.into_iter().collect();
    changed.sort_by_cached_key(|name| order(named, name));
    // Names of the other kinds are never compared with kept ones.
    let has_order = matches!(named, Named::Namespace | Named::LabelValue | Named::Resource | Named::AttributeText);
    let mut kept: Vec<&String> = kept.iter().filter(|_| has_order).collect();
    kept.sort_by_cached_key(|name| order(named, name));
    let new_name = |(index, old): (usize, String)| {
        let after = kept.partition_point(|name| order(named, name) < order(named, &old));
        let number = format!("{:0digits$}", index + 1);
        let before = after.checked_sub(1).map(|before| kept[before].as_str());
        let new = well_known::form(named, &number, &old, before, kept.get(after).map(|next| next.as_str()));
        (old, new)
    };
    changed.into_iter().enumerate().map(new_name).collect()
}

#[cfg(test)]
mod tests;
