//! A text with its tree, and the changes that make it smaller. Changes are made in the text, so that comments, order
//! and style stay as they are. The text is then parsed again and compared with the changed tree. If the two differ,
//! which can happen with aliases and merged maps, the tree is written as new text.

use std::ops::Range;

use dryrack_yaml::{Entry, Node, Report, Tree, emit, parse, scalar};

#[derive(Clone, Debug)]
pub struct Document {
    pub text: String,
    pub tree: Tree,
}

impl Document {
    /// Reads a text. `None` if it is not YAML.
    pub fn read(text: String) -> Option<Document> {
        let mut report = Report::default();
        let source = report.add_source("candidate", text.as_str());
        let tree = parse(&text, source, &mut report).filter(|_| !report.has_errors())?;
        Some(Document { text, tree })
    }

    /// The value at a path, which has the index of an item or entry for each level.
    pub fn at(&self, path: &[usize]) -> Option<&Tree> {
        path.iter().try_fold(&self.tree, |tree, index| child(tree, *index))
    }

    /// The index of a key of the file.
    pub fn find(&self, key: &str) -> Option<usize> {
        entries(&self.tree).iter().position(|entry| entry.key == key)
    }

    /// The document without these parts of the list or map at the path. If no part is left, the list or map is removed
    /// too.
    pub fn without(&self, path: &[usize], gone: &[usize]) -> Option<Document> {
        let count = self.at(path).map_or(0, count);
        if gone.is_empty() || gone.iter().any(|index| *index >= count) {
            return None;
        }
        if gone.len() == count {
            let (last, above) = path.split_last()?;
            return self.without(above, &[*last]);
        }
        let mut wanted = self.tree.clone();
        match &mut at_mut(&mut wanted, path)?.node {
            Node::Scalar { .. } => return None,
            Node::List(items) => retain(items, gone),
            Node::Map(entries) => retain(entries, gone),
        }
        let cuts = self.cuts(self.at(path)?, gone);
        Document::matching(cuts.map(|cuts| cut(&self.text, &cuts)), wanted)
    }

    /// The document with another word in place of the value at the path.
    pub fn with_word(&self, path: &[usize], word: &str) -> Option<Document> {
        let bytes = self.at(path)?.span.bytes();
        let mut wanted = self.tree.clone();
        at_mut(&mut wanted, path)?.node = Node::Scalar { text: word.to_string(), quoted: false };
        let text = self.text.get(..bytes.start).zip(self.text.get(bytes.end..));
        Document::matching(text.map(|(before, after)| format!("{before}{}{after}", scalar(word, true))), wanted)
    }

    /// The document in which the part at this index of the list or map at the path and the next part change places.
    pub fn with_next_first(&self, path: &[usize], index: usize) -> Option<Document> {
        let mut wanted = self.tree.clone();
        match &mut at_mut(&mut wanted, path)?.node {
            Node::List(items) if index + 1 < items.len() => items.swap(index, index + 1),
            Node::Map(entries) if index + 1 < entries.len() => entries.swap(index, index + 1),
            Node::Scalar { .. } | Node::List(_) | Node::Map(_) => return None,
        }
        Document::matching(None, wanted)
    }

    /// The document with a further entry in the map at the path. `None` if the map has this key.
    pub fn with_further(&self, path: &[usize], entry: &Entry) -> Option<Document> {
        let mut wanted = self.tree.clone();
        match &mut at_mut(&mut wanted, path)?.node {
            Node::Map(entries) if entries.iter().all(|other| other.key != entry.key) => entries.push(entry.clone()),
            Node::Scalar { .. } | Node::List(_) | Node::Map(_) => return None,
        }
        Document::matching(None, wanted)
    }

    /// Returns the edited text if it parses to the wanted tree. Otherwise writes the tree as new text.
    fn matching(text: Option<String>, wanted: Tree) -> Option<Document> {
        let edited = text.and_then(Document::read).filter(|document| document.tree.is_alike(&wanted));
        edited.or_else(|| Document::read(emit(&wanted)))
    }

    /// The byte ranges to remove, in order. `None` if the text cannot be cut in this way.
    fn cuts(&self, tree: &Tree, gone: &[usize]) -> Option<Vec<Range<usize>>> {
        let parts = self.parts(tree);
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for index in gone {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == *index => *last = *index,
                _ => runs.push((*index, *index)),
            }
        }
        let is_flow = is_flow(&self.text, tree);
        let cut = |(first, last): (usize, usize)| match (is_flow, parts.get(last + 1)) {
            (true, Some(next)) => Some(parts[first].start..next.start),
            (true, None) => Some(parts[first.checked_sub(1)?].end..parts[last].end),
            (false, next) => self.block_cut(&parts[first], &parts[last], next, matches!(tree.node, Node::List(_))),
        };
        runs.into_iter().map(cut).collect()
    }

    /// The lines from the first part to the last, with the comments directly above them.
    fn block_cut(
        &self,
        first: &Range<usize>,
        last: &Range<usize>,
        next: Option<&Range<usize>>,
        is_list: bool,
    ) -> Option<Range<usize>> {
        let start = match is_list {
            true => self.text.get(..first.start)?.trim_end().strip_suffix('-')?.len(),
            false => first.start,
        };
        let line = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let indent = &self.text[line..start];
        if !indent.chars().all(|letter| letter == ' ') {
            // The first key of an item is on the line of its `-`, so the next key must move there.
            return (!is_list).then_some(first.start..next?.start);
        }
        let mut from = line;
        while let Some(above) = self.text[..from].strip_suffix('\n') {
            let begin = above.rfind('\n').map_or(0, |at| at + 1);
            match above[begin..].strip_prefix(indent).is_some_and(|rest| rest.starts_with('#')) {
                true => from = begin,
                false => break,
            }
        }
        let to = self.text[last.end..].find('\n').map_or(self.text.len(), |at| last.end + at + 1);
        Some(from..to)
    }

    /// The byte range of each item or entry.
    fn parts(&self, tree: &Tree) -> Vec<Range<usize>> {
        match &tree.node {
            Node::Scalar { .. } => Vec::new(),
            Node::List(items) => items.iter().map(|item| item.span.bytes().start..self.end(item)).collect(),
            Node::Map(entries) => entries.iter().map(|entry| self.entry(entry)).collect(),
        }
    }

    fn entry(&self, entry: &Entry) -> Range<usize> {
        let key = entry.key_span.bytes();
        key.start..key.end.max(self.end(&entry.value))
    }

    /// The byte at which a value ends. The span of a block extends to the next item, so the end of its last part is
    /// used.
    fn end(&self, tree: &Tree) -> usize {
        let bytes = tree.span.bytes();
        let own = || self.text.get(bytes.clone()).map_or(bytes.end, |text| bytes.start + text.trim_end().len());
        match &tree.node {
            Node::Scalar { .. } => own(),
            _ if is_flow(&self.text, tree) => bytes.end,
            Node::List(_) | Node::Map(_) => self.parts(tree).last().map_or_else(own, |last| last.end),
        }
    }
}

/// Whether a part of the scenario is outside its text, or the text describes several runs.
pub fn is_composed(text: &str) -> bool {
    let document = Document::read(text.to_string());
    document.is_some_and(|document| ["include", "matrix"].iter().any(|key| document.find(key).is_some()))
}

/// The profile that the text names, or the first profile of its matrix.
pub fn named_profile(text: &str) -> Option<String> {
    let Document { tree, .. } = Document::read(text.to_string())?;
    let axis = tree.get("matrix").and_then(|matrix| matrix.get("profile"));
    let named = tree.get("profile").or_else(|| axis.map(|axis| child(axis, 0).unwrap_or(axis)));
    named.and_then(Tree::scalar).map(str::to_string)
}

/// The text with these keys of the file set. New keys are inserted after the title. `None` if it is not YAML.
pub fn with_entries(text: &str, given: &[(&str, &str)]) -> Option<String> {
    let mut document = Document::read(text.to_string())?;
    for (key, word) in given {
        document = match document.find(key) {
            Some(at) => document.with_word(&[at], word)?,
            None => document.with_entry(key, word)?,
        };
    }
    Some(document.text)
}

/// The text without an entry of the file. `None` if it is not YAML, or if nothing else is in it.
pub fn without_entry(text: &str, key: &str) -> Option<String> {
    let document = Document::read(text.to_string())?;
    match document.find(key) {
        Some(at) => document.without(&[], &[at]).map(|document| document.text),
        None => Some(document.text),
    }
}

impl Document {
    fn with_entry(&self, key: &str, word: &str) -> Option<Document> {
        let title = self.find("scenario")?;
        let mut wanted = self.tree.clone();
        let Node::Map(inside) = &mut wanted.node else { return None };
        let value = Tree { span: self.tree.span, node: Node::Scalar { text: word.to_string(), quoted: false } };
        inside.insert(title + 1, Entry { key: key.to_string(), key_span: self.tree.span, value });
        let end = self.entry(&entries(&self.tree)[title]).end;
        let at = self.text[end..].find('\n').map_or(self.text.len(), |found| end + found + 1);
        let (before, after) = self.text.split_at(at);
        let text = format!("{before}{key}: {}\n{after}", scalar(word, true));
        Document::matching(Some(text), wanted)
    }
}

pub fn entries(tree: &Tree) -> &[Entry] {
    match &tree.node {
        Node::Map(entries) => entries,
        Node::Scalar { .. } | Node::List(_) => &[],
    }
}

/// The number of items or entries of a list or map; 0 for a scalar.
pub fn count(tree: &Tree) -> usize {
    match &tree.node {
        Node::Scalar { .. } => 0,
        Node::List(items) => items.len(),
        Node::Map(entries) => entries.len(),
    }
}

fn child(tree: &Tree, index: usize) -> Option<&Tree> {
    match &tree.node {
        Node::Scalar { .. } => None,
        Node::List(items) => items.get(index),
        Node::Map(entries) => entries.get(index).map(|entry| &entry.value),
    }
}

fn at_mut<'t>(tree: &'t mut Tree, path: &[usize]) -> Option<&'t mut Tree> {
    path.iter().try_fold(tree, |tree, index| match &mut tree.node {
        Node::Scalar { .. } => None,
        Node::List(items) => items.get_mut(*index),
        Node::Map(entries) => entries.get_mut(*index).map(|entry| &mut entry.value),
    })
}

fn retain<T>(items: &mut Vec<T>, gone: &[usize]) {
    let mut index = 0;
    items.retain(|_| {
        index += 1;
        !gone.contains(&(index - 1))
    });
}

fn is_flow(text: &str, tree: &Tree) -> bool {
    text.get(tree.span.bytes().start..).is_some_and(|rest| rest.starts_with(['[', '{']))
}

fn cut(text: &str, cuts: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for gone in cuts {
        out.push_str(text.get(at..gone.start).unwrap_or_default());
        at = at.max(gone.end);
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# The head stays.
scenario: A test
nodes:
  - {name: a, gpus: 2}   # beside a
  # About b.
  - {name: b}
jobs:
  - name: one
    # About the GPUs.
    gpus: 1
    at: 5m
  - {name: two, gpus: 1}
faults: [{at: 1m}, {at: 2m}, {at: 3m}]
";

    fn without(path: &[usize], gone: &[usize]) -> String {
        Document::read(TEXT.to_string()).expect("YAML").without(path, gone).expect("it is there").text
    }

    #[test]
    fn an_item_goes_with_its_own_comments_and_leaves_those_of_others() {
        assert_eq!(without(&[1], &[0]), TEXT.replace("  - {name: a, gpus: 2}   # beside a\n", ""));
        assert_eq!(without(&[1], &[1]), TEXT.replace("  # About b.\n  - {name: b}\n", ""));
    }

    #[test]
    fn items_within_brackets_go_with_their_commas() {
        let list = "[{at: 1m}, {at: 2m}, {at: 3m}]";
        for (gone, left) in [
            (&[0][..], "[{at: 2m}, {at: 3m}]"),
            (&[1], "[{at: 1m}, {at: 3m}]"),
            (&[2], "[{at: 1m}, {at: 2m}]"),
            (&[1, 2], "[{at: 1m}]"),
            (&[0, 2], "[{at: 2m}]"),
        ] {
            assert_eq!(without(&[3], gone), TEXT.replace(list, left), "{gone:?}");
        }
    }

    #[test]
    fn keys_go_wherever_they_stand() {
        assert_eq!(without(&[2, 0], &[0]), TEXT.replace("name: one\n    # About the GPUs.\n    gpus: 1", "gpus: 1"));
        assert_eq!(without(&[2, 0], &[1]), TEXT.replace("    # About the GPUs.\n    gpus: 1\n", ""));
        assert_eq!(without(&[2, 0], &[2]), TEXT.replace("    at: 5m\n", ""));
        assert_eq!(without(&[2, 1], &[1]), TEXT.replace("{name: two, gpus: 1}", "{name: two}"));
    }

    #[test]
    fn a_list_of_which_nothing_is_left_goes_with_its_key() {
        let left = TEXT.replace("faults: [{at: 1m}, {at: 2m}, {at: 3m}]\n", "");
        assert_eq!(without(&[3], &[0, 1, 2]), left);
        assert_eq!(without(&[], &[3]), left);
    }

    #[test]
    fn aliases_and_merged_maps_are_written_out_where_the_text_cannot_be_cut() {
        let text = "base: &b {gpus: 1, at: 5m}\njobs:\n  - {name: one, <<: *b}\n  - *b\n";
        let document = Document::read(text.to_string()).expect("YAML");
        let changed = document.without(&[1, 0], &[2]).expect("it is there");
        assert_eq!(changed.text, "base: {gpus: 1, at: 5m}\njobs:\n  - {name: one, gpus: 1}\n  - {gpus: 1, at: 5m}\n");
    }

    #[test]
    fn words_are_replaced_and_entries_are_set() {
        let document = Document::read(TEXT.to_string()).expect("YAML");
        let changed = document.with_word(&[1, 0, 1], "1").expect("it is there");
        assert_eq!(changed.text, TEXT.replace("gpus: 2", "gpus: 1"));
        let wanted = TEXT.replace("A test\n", "A test\nseed: 3\nprofile: ../p.yaml\n");
        let set = with_entries(TEXT, &[("profile", "../p.yaml"), ("seed", "3"), ("scenario", "A test")]);
        assert_eq!(set.expect("YAML"), wanted.replace("../p.yaml", "\"../p.yaml\""));
    }
}
