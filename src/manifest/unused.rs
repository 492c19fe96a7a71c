//! Counts of what files hold and a rehearsal does not use.

use std::collections::BTreeMap;

use dryrack_units::counted;
use dryrack_yaml::Span;

/// What is not used, with the number of objects in which it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unused {
    /// The number of objects of each kind that is ignored.
    kinds: BTreeMap<String, u64>,
    /// The number of uses of each field that is ignored, such as `Pod spec.containers.env`.
    fields: BTreeMap<(&'static str, String), u64>,
    /// Fields that the real scheduler follows and dryrack does not.
    unfollowed: BTreeMap<(&'static str, String), u64>,
    /// The objects whose kinds are not followed, though decisions depend on them: kind, name and place of each.
    objects: Vec<(String, Span)>,
    /// Objects that were left out, by reason.
    left_out: BTreeMap<&'static str, u64>,
}

impl Unused {
    pub(crate) fn kind(&mut self, kind: &str) {
        *self.kinds.entry(kind.to_string()).or_default() += 1;
    }

    pub(crate) fn field(&mut self, kind: &'static str, path: &str) {
        add(&mut self.fields, kind, path);
    }

    /// Returns whether the path is new.
    pub(crate) fn unfollowed(&mut self, kind: &'static str, path: &str) -> bool {
        add(&mut self.unfollowed, kind, path)
    }

    pub(crate) fn object(&mut self, told: String, span: Span) {
        self.objects.push((told, span));
    }

    pub(crate) fn left_out(&mut self, why: &'static str, count: u64) {
        if count > 0 {
            *self.left_out.entry(why).or_default() += count;
        }
    }

    pub fn merge(&mut self, more: Unused) {
        more.kinds.into_iter().for_each(|(key, count)| *self.kinds.entry(key).or_default() += count);
        more.fields.into_iter().for_each(|(key, count)| *self.fields.entry(key).or_default() += count);
        more.unfollowed.into_iter().for_each(|(key, count)| *self.unfollowed.entry(key).or_default() += count);
        self.objects.extend(more.objects);
        more.left_out.into_iter().for_each(|(key, count)| *self.left_out.entry(key).or_default() += count);
    }

    /// Whether a field is not followed that can change decisions.
    pub fn can_change_decisions(&self) -> bool {
        !self.unfollowed.is_empty() || !self.objects.is_empty()
    }

    /// One sentence about the objects that are not followed, with the place of the first.
    pub fn unfollowed_objects(&self) -> Option<(String, Span)> {
        let (_, span) = self.objects.first()?;
        let are = if self.objects.len() == 1 { "is" } else { "are" };
        let named: Vec<&str> = self.objects.iter().take(NAMED).map(|(told, _)| told.as_str()).collect();
        let rest = match self.objects.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let count = counted(self.objects.len(), "object");
        Some((format!("{count} {are} not followed, so decisions can differ: {}{rest}", named.join(", ")), *span))
    }

    /// One sentence about the fields that can change decisions, and one for each reason for which objects were left
    /// out.
    pub fn important_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.unfollowed.is_empty() {
            notes.push(format!("not followed, so decisions can differ: {}", fields(&self.unfollowed)));
        }
        for (why, count) in &self.left_out {
            notes.push(format!("left out because {why}: {}", counted(*count as usize, "object")));
        }
        notes
    }

    /// One sentence for each sort of unused things, the important ones first.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.important_notes();
        if !self.kinds.is_empty() {
            let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
            notes.push(format!("kinds without meaning in a rehearsal: {}", kinds.join(", ")));
        }
        if !self.fields.is_empty() {
            notes.push(format!("fields without meaning in a rehearsal: {}", most_frequent(&self.fields)));
        }
        notes
    }
}

/// The number of fields or objects that a note names. A large cluster has dozens of them.
const NAMED: usize = 5;

/// The fields that are used most often, and how many there are besides.
fn most_frequent(counts: &BTreeMap<(&'static str, String), u64>) -> String {
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by(|(one, few), (other, many)| many.cmp(few).then(one.cmp(other)));
    let (named, rest) = sorted.split_at(NAMED.min(sorted.len()));
    let named = fields(&named.iter().map(|(field, count)| ((*field).clone(), **count)).collect());
    match rest.iter().map(|(_, count)| **count).sum::<u64>() {
        0 => named,
        uses => format!("{named}, and {} ({uses})", counted(rest.len(), "more field")),
    }
}

fn fields(counts: &BTreeMap<(&'static str, String), u64>) -> String {
    let one = |((kind, path), count): (&(&str, String), &u64)| format!("{kind} {path} ({count})");
    counts.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn add(counts: &mut BTreeMap<(&'static str, String), u64>, kind: &'static str, path: &str) -> bool {
    let count = counts.entry((kind, path.to_string())).or_default();
    *count += 1;
    *count == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_fields_that_are_used_most() {
        let mut unused = Unused::default();
        for (field, uses) in [("a", 1), ("b", 7), ("c", 2), ("d", 3), ("e", 4), ("f", 5), ("g", 1)] {
            (0..uses).for_each(|_| unused.field("Pod", field));
        }
        let wanted = "Pod b (7), Pod c (2), Pod d (3), Pod e (4), Pod f (5), and 2 more fields (2)";
        assert_eq!(unused.notes(), [format!("fields without meaning in a rehearsal: {wanted}")]);
    }
}
