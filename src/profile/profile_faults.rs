//! Reports the errors of a whole profile, each at the option that causes it.

use std::path::Path;

use super::profile_diff::name_of;
use super::profiles::{Changes, is_path};
use dryrack_control::{Profile, ProfileError};
use dryrack_yaml::{Node, Report, SourceId, Span, Tree};

/// Where a profile was written.
pub(super) struct Written<'w> {
    pub name_or_path: &'w str,
    /// The folder that a path is relative to.
    pub folder: &'w Path,
    /// Where the profile is named.
    pub named: Span,
    /// The profile's file. `None` if the profile comes with dryrack, and so has no errors of its own.
    pub file: Option<SourceId>,
    /// The data of the profile, merged with its bases and changed.
    pub tree: &'w Tree,
    pub changes: Changes<'w>,
}

impl Written<'_> {
    /// Reports the errors of the profile.
    pub(super) fn report_faults(&self, profile: &Profile, report: &mut Report) {
        for fault in profile.faults() {
            let message = format!("profile `{}` {fault}", profile.name);
            let help = match fault.lacking_filter() {
                Some(filter) => format!("add `{filter}` to `scheduler.deployments.filters`"),
                None => format!("`dryrack profile show {}` shows what is set", self.typed()),
            };
            report.error_with_help(self.place(&fault), message, help);
        }
    }

    /// The first option of the error that the file states, or that the scenario changes.
    fn place(&self, fault: &ProfileError) -> Span {
        let changed = [self.changes.policies, self.changes.slurm];
        let is_stated = |span: &Span| {
            let sources = changed.iter().flatten().map(|change| change.span.source());
            self.file.into_iter().chain(sources).any(|source| source == span.source())
        };
        let stated = fault.options().iter().find_map(|option| place_of(self.tree, option).filter(is_stated));
        // The scenario changes a profile that comes with dryrack, so the error is in the change.
        let change = if matches!(fault, ProfileError::Slurm(_)) { changed[1] } else { changed[0] };
        let whole = match self.file {
            Some(file) => file.start(),
            None => change.map_or(self.named, |change| change.span),
        };
        stated.unwrap_or(whole)
    }

    /// The name of the profile, or the path of its file from the working directory.
    fn typed(&self) -> String {
        match is_path(self.name_or_path) {
            true => self.folder.join(self.name_or_path).display().to_string(),
            false => self.name_or_path.to_string(),
        }
    }
}

/// Where a tree states an option: its value if this is a scalar, otherwise its key. The name of a stage may have a dot, so
/// each dot may or may not end a step.
fn place_of(tree: &Tree, path: &str) -> Option<Span> {
    let within = |(dot, _)| place_of(child(tree, &path[..dot])?.1, &path[dot + 1..]);
    child(tree, path).map(|(span, _)| span).or_else(|| path.match_indices('.').find_map(within))
}

/// The last child with this name, because a second stage of the same name is the wrong one.
fn child<'t>(tree: &'t Tree, step: &str) -> Option<(Span, &'t Tree)> {
    match &tree.node {
        Node::Map(entries) => {
            let entry = entries.iter().rev().find(|entry| entry.key == step)?;
            Some((if entry.value.scalar().is_some() { entry.value.span } else { entry.key_span }, &entry.value))
        }
        Node::List(items) => {
            let named = |item: &'t Tree| (name_of(item).unwrap_or(item), item);
            let of_step = |(name, _): &(&Tree, &Tree)| name.scalar() == Some(step);
            items.iter().rev().map(named).find(of_step).map(|(name, item)| (name.span, item))
        }
        Node::Scalar { .. } => None,
    }
}
