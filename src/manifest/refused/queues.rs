//! Quotas of Kueue.

use std::collections::BTreeSet;

use dryrack_yaml::{Report, Tree};

use super::{has, list, place, refuse, text};
use crate::api::Quantity;

pub fn cluster_queue(tree: &Tree, report: &mut Report) {
    quotas(tree, ["cohort", "cohortName"], report);
}

pub fn cohort(tree: &Tree, report: &mut Report) {
    quotas(tree, ["parent", "parentName"], report);
}

/// The quotas of a ClusterQueue or a Cohort, whose spec names its own cohort in one of the fields `parents`.
fn quotas(tree: &Tree, parents: [&str; 2], report: &mut Report) {
    let Some(spec) = tree.get("spec") else { return };
    let annotations = tree.get("metadata").and_then(|metadata| metadata.get("annotations"));
    // A change need not repeat the cohort.
    let is_patch = annotations.is_some_and(|annotations| text(annotations, "dryrack/patch") == "true");
    let is_alone = !is_patch && !parents.iter().any(|key| !text(spec, key).is_empty());
    let is_queue = parents[0] == "cohort";
    let (mut resources, mut flavors) = (BTreeSet::new(), BTreeSet::new());
    for group in list(spec, "resourceGroups") {
        let lacks = |key: &str| has(group, key) && list(group, key).is_empty();
        let refusals = [
            (lacks("coveredResources"), "coveredResources", "a resource group covers at least one resource", "add one"),
            (lacks("flavors"), "flavors", "a resource group has at least one flavor", "add a flavor with its quotas"),
        ];
        refuse(group, &refusals, report);
        let covered = list(group, "coveredResources");
        for resource in covered {
            once("resource", resource, &mut resources, report);
        }
        for flavor in list(group, "flavors") {
            if let Some(name) = flavor.get("name") {
                once("flavor", name, &mut flavors, report);
            }
            covers(flavor, covered, report);
            for quota in list(flavor, "resources") {
                limits(quota, is_alone, is_queue, report);
            }
        }
    }
}

/// Reports a resource or a flavor that is named twice.
fn once<'t>(what: &str, name: &'t Tree, seen: &mut BTreeSet<&'t str>, report: &mut Report) {
    let Some(typed) = name.scalar() else { return };
    if !seen.insert(typed) {
        let message = format!("the {what} `{typed}` is named twice");
        report.error_with_help(name.span, message, format!("name each {what} in one resource group only"));
    }
}

/// A flavor has a quota for each covered resource, in the same order.
fn covers(flavor: &Tree, covered: &[Tree], report: &mut Report) {
    let names: Vec<&str> = covered.iter().filter_map(Tree::scalar).collect();
    let own: Vec<&Tree> = list(flavor, "resources").iter().filter_map(|quota| quota.get("name")).collect();
    let differs = own.iter().enumerate().find(|(index, name)| name.scalar() != names.get(*index).copied());
    let help = format!("write quotas of {} in this order", names.join(", "));
    match differs {
        Some((_, name)) => {
            let typed = name.scalar().unwrap_or_default();
            let why = if names.contains(&typed) { "is not at its place in" } else { "is not in" };
            report.error_with_help(name.span, format!("`{typed}` {why} `coveredResources`"), help);
        }
        None if own.len() < names.len() => {
            let message = format!("the flavor has no quota of `{}`", names[own.len()]);
            report.error_with_help(place(flavor, "resources"), message, help);
        }
        None => {}
    }
}

/// The limits of a quota. They are for borrowing in a cohort.
fn limits(quota: &Tree, is_alone: bool, is_queue: bool, report: &mut Report) {
    let amount = |key: &str| text(quota, key).parse::<Quantity>().ok();
    let lends_more =
        is_queue && amount("lendingLimit").zip(amount("nominalQuota")).is_some_and(|(lent, own)| lent > own);
    let (borrowing, lending, help) = match is_queue {
        true => (
            "`borrowingLimit` must be absent when the queue has no cohort",
            "`lendingLimit` must be absent when the queue has no cohort",
            "remove it, or add `cohortName`",
        ),
        false => (
            "`borrowingLimit` must be absent when the cohort has no parent",
            "`lendingLimit` must be absent when the cohort has no parent",
            "remove it, or add `parentName`",
        ),
    };
    let refusals = [
        (is_alone && has(quota, "borrowingLimit"), "borrowingLimit", borrowing, help),
        (is_alone && has(quota, "lendingLimit"), "lendingLimit", lending, help),
        (lends_more, "lendingLimit", "`lendingLimit` is above `nominalQuota`", "lend at most the own quota"),
    ];
    refuse(quota, &refusals, report);
}
