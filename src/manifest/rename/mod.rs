//! Replaces the names that people chose, so that objects can be handed on.
//!
//! Equal names get equal new names, in whatever object or selector they are. The new names of a kind are in the same
//! order as the old ones, because the order of names breaks ties. Names that Kubernetes, Kueue or a vendor of
//! accelerators chose are kept, because they say nothing about the cluster and the rules depend on them.

mod expression;
mod visit;
mod well_known;

use std::collections::{BTreeMap, BTreeSet};

use crate::read::Object;
use crate::shape::Named;

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
        visit::names(&mut renamed, &mut |named, text| self.new_name(named, text).map(str::to_string));
        expression::rename(&mut renamed, &|text| self.in_expression(text));
        renamed
    }

    /// The new name. `None` if the name is kept.
    pub fn new_name(&self, named: Named, text: &str) -> Option<&str> {
        self.given.get(&named)?.get(text).map(String::as_str)
    }

    /// The new form of a text in an expression: a driver, the identifier of a device, or a name that begins with a
    /// driver.
    fn in_expression(&self, text: &str) -> Option<String> {
        let own = [Named::Driver, Named::Serial, Named::Pool, Named::Device].into_iter();
        let whole = own.filter_map(|named| self.new_name(named, text)).next().map(str::to_string);
        whole.or_else(|| {
            let (driver, rest) = text.split_once('/')?;
            Some(format!("{}/{rest}", self.new_name(Named::Driver, driver)?))
        })
    }

    /// All new names: what they name, the old name, and the new name.
    pub fn table(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.given.iter().flat_map(|(named, names)| {
            names.iter().map(|(old, new)| (well_known::word(*named), old.as_str(), new.as_str()))
        })
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
    let has_order = matches!(named, Named::Namespace | Named::LabelValue | Named::Resource);
    let mut kept: Vec<&String> = kept.iter().filter(|_| has_order).collect();
    kept.sort_by_cached_key(|name| order(named, name));
    let new_name = |(index, old): (usize, String)| {
        let after = kept.partition_point(|name| order(named, name) < order(named, &old));
        let number = format!("{:0digits$}", index + 1);
        let before = after.checked_sub(1).map(|before| kept[before].as_str());
        let new = well_known::form(named, &number, before, kept.get(after).map(|next| next.as_str()));
        (old, new)
    };
    changed.into_iter().enumerate().map(new_name).collect()
}

#[cfg(test)]
mod tests;
