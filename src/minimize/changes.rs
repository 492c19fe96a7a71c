//! Single changes of a scenario: a part is left out, two parts change places, or a word is another one. They show whether
//! an expectation can fail.

use std::collections::BTreeMap;

use super::document::{Document, count, entries};
use dryrack_yaml::{Entry, Node, Tree};

/// Keys below which nothing is changed: what is expected, and what only describes or identifies the scenario.
const AS_WRITTEN: [&str; 6] = ["scenario", "report", "expect", "reproduces", "include", "matrix"];

/// The texts that differ from this one in a single way. First, each part of each list and map is left out, the outer
/// parts first. Then each part changes places with the next one, and each item of a list also has an entry that another item
/// has. Then each number is another one, and each word becomes the next one that the text has under the same key. Not
/// every text is a valid scenario. No texts if this one is not YAML.
pub fn changes(text: &str) -> Vec<String> {
    let Some(document) = Document::read(text.to_string()) else { return Vec::new() };
    let mut paths = Vec::new();
    let mut words = BTreeMap::new();
    for (index, entry) in entries(&document.tree).iter().enumerate() {
        if !AS_WRITTEN.contains(&entry.key.as_str()) {
            let mut place = Place { path: vec![index], key: &entry.key, words: &mut words, paths: &mut paths };
            place.collect(&entry.value);
        }
    }
    paths.sort_by_key(|(path, _)| path.len());
    let mut changed = Vec::new();
    for (path, _) in &paths {
        let (last, above) = path.split_last().expect("a path has the index of an entry");
        changed.extend(document.without(above, &[*last]));
    }
    for (path, key) in &paths {
        let parts = document.at(path).map_or(0, count);
        changed.extend((1..parts).filter_map(|next| document.with_next_first(path, next - 1)));
        changed.extend(with_entries_of_others(&document, path, *key == "jobs"));
    }
    for (path, key) in &paths {
        if let Some(Node::Scalar { text, .. }) = document.at(path).map(|tree| &tree.node) {
            let others = other_words(text, words.get(key).map_or(&[], Vec::as_slice));
            changed.extend(others.iter().filter_map(|word| document.with_word(path, word)));
        }
    }
    changed.into_iter().map(|document| document.text).collect()
}

/// The text with the expectation on this line as its only one, so that parts can be left out which only the others name.
/// Lines and columns are counted from 1. `None` if there is no such expectation.
pub fn with_one_expectation(text: &str, line: u32, column: u32) -> Option<String> {
    let document = Document::read(text.to_string())?;
    let expect = document.find("expect")?;
    let begins: usize = text.split_inclusive('\n').take(line as usize - 1).map(str::len).sum();
    let place = begins + column as usize - 1;
    let Node::List(items) = &document.at(&[expect])?.node else { return None };
    let one = items.iter().rposition(|item| item.span.bytes().start <= place)?;
    let others: Vec<usize> = (0..items.len()).filter(|index| *index != one).collect();
    let alone = if others.is_empty() { document.clone() } else { document.without(&[expect], &others)? };
    let without_reproductions = alone.find("reproduces").and_then(|at| alone.without(&[], &[at]));
    Some(without_reproductions.unwrap_or(alone).text)
}

/// The text with the entries of the files that it includes in their place. `read` reads such a file. `None` if it includes
/// none, or if a file cannot be read or has an entry of this text.
pub fn with_included(text: &str, read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let document = Document::read(text.to_string())?;
    let include = document.find("include")?;
    let files: Vec<&str> = match &document.at(&[include])?.node {
        Node::List(items) => items.iter().filter_map(word).collect(),
        Node::Scalar { text, .. } => vec![text],
        Node::Map(_) => return None,
    };
    let mut whole = document.without(&[], &[include])?;
    for file in files {
        let part = Document::read(read(file)?)?;
        for entry in entries(&part.tree) {
            whole = whole.with_further(&[], entry)?;
        }
    }
    Some(whole.text)
}

fn word(tree: &Tree) -> Option<&str> {
    match &tree.node {
        Node::Scalar { text, .. } => Some(text),
        Node::List(_) | Node::Map(_) => None,
    }
}

/// The document with one more entry in an item of the list at the path. Other items have this entry, or it makes a job come
/// a day later.
fn with_entries_of_others(document: &Document, path: &[usize], are_jobs: bool) -> Vec<Document> {
    let Some(Node::List(items)) = document.at(path).map(|tree| &tree.node) else { return Vec::new() };
    let mut others: Vec<Entry> = Vec::new();
    for entry in items.iter().flat_map(entries) {
        if others.iter().all(|other| other.key != entry.key) {
            others.push(entry.clone());
        }
    }
    if let Some(first) = others.first().filter(|_| are_jobs).cloned() {
        let value = Tree { node: Node::Scalar { text: "1d".to_string(), quoted: false }, ..first.value };
        others.retain(|other| other.key != "at");
        others.push(Entry { key: "at".to_string(), key_span: first.key_span, value });
    }
    let with = |index: usize| {
        let item = [path, &[index]].concat();
        others.iter().filter_map(move |entry| document.with_further(&item, entry)).collect::<Vec<_>>()
    };
    (0..items.len()).flat_map(with).collect()
}

/// A place in a text, and what was found so far.
struct Place<'t, 'f> {
    path: Vec<usize>,
    /// The last key of the path.
    key: &'t str,
    /// The different words under each key, in the order of the text.
    words: &'f mut BTreeMap<&'t str, Vec<String>>,
    paths: &'f mut Vec<(Vec<usize>, &'t str)>,
}

impl<'t> Place<'t, '_> {
    /// Adds the path and the word of a value, and of all parts below it.
    fn collect(&mut self, tree: &'t Tree) {
        self.paths.push((self.path.clone(), self.key));
        match &tree.node {
            Node::Scalar { text, .. } => {
                let known = self.words.entry(self.key).or_default();
                if !known.contains(text) {
                    known.push(text.clone());
                }
            }
            Node::List(items) => items.iter().enumerate().for_each(|(index, item)| self.below(index, self.key, item)),
            Node::Map(entries) => {
                entries.iter().enumerate().for_each(|(index, entry)| self.below(index, &entry.key, &entry.value));
            }
        }
    }

    fn below(&mut self, index: usize, key: &'t str, tree: &'t Tree) {
        let above = std::mem::replace(&mut self.key, key);
        self.path.push(index);
        self.collect(tree);
        self.path.pop();
        self.key = above;
    }
}

/// The word with each of its numbers 0, half, twice and ten times as large, and a hundred times if a unit follows; with `*`
/// in place of a pattern; and the word after it among the words of its key.
fn other_words(word: &str, of_key: &[String]) -> Vec<String> {
    let mut others = Vec::new();
    let mut begin = 0;
    while let Some(found) = word[begin..].find(|letter: char| letter.is_ascii_digit()) {
        let start = begin + found;
        let end =
            word[start..].find(|letter: char| !letter.is_ascii_digit()).map_or(word.len(), |length| start + length);
        if let Ok(number) = word[start..end].parse::<u64>() {
            let mut numbers = vec![number.saturating_mul(2).max(1), number / 2, 0, number.saturating_mul(10)];
            // A hundred times as many jobs would take too long, but not jobs of a hundred times the length.
            if word[end..].starts_with(|letter: char| letter.is_ascii_alphabetic()) {
                numbers.push(number.saturating_mul(100));
            }
            others.extend(numbers.iter().map(|other| format!("{}{other}{}", &word[..start], &word[end..])));
        }
        begin = end;
    }
    if word.contains('*') {
        others.push("*".to_string());
    }
    if let Some(place) = of_key.iter().position(|known| known == word) {
        others.extend(of_key.get(place + 1).or(of_key.first()).cloned());
    }
    others.retain(|other| other != word);
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_left_out_and_each_number_is_changed() {
        let text = "scenario: A title\njobs: [{name: one, at: 10s}, {name: two, at: 30s}]\nseed: 1\nexpect: [jobs_completed == 1]\n";
        let found = changes(text);
        let expected = |change: &str| found.iter().any(|text| text.contains(change));
        assert!(found.iter().all(|text| text.contains("jobs_completed == 1") && text.contains("A title")), "{found:?}");
        assert!(expected("at: 20s") && expected("at: 5s") && expected("seed: 2") && expected("seed: 0"), "{found:?}");
        assert!(found.iter().any(|text| !text.contains("jobs:")), "{found:?}");
        assert!(expected("[{name: one}, {name: two, at: 30s}]"), "{found:?}");
        assert!(expected("  - {name: two, at: 30s}\n  - {name: one, at: 10s}"), "{found:?}");
        assert!(expected("[{name: two, at: 10s}") && expected("[{name: one, at: 30s}"), "{found:?}");
        assert!(expected("{name: one, at: 100s}"), "{found:?}");
        assert_eq!(other_words("0..3", &[]), ["1..3", "0..6", "0..1", "0..0", "0..30"]);
        assert_eq!(other_words("job-*", &["job-*".to_string(), "next".to_string()]), ["*", "next"]);
        assert_eq!(changes("{"), Vec::<String>::new());
    }

    #[test]
    fn an_item_gets_what_another_has() {
        let found = changes("jobs:\n  - {name: one, gpus: 1}\n  - {name: two}\n");
        assert!(found.iter().any(|text| text.contains("{name: two, gpus: 1}")), "{found:?}");
        assert!(found.iter().any(|text| text.contains("{name: two, at: 1d}")), "{found:?}");
    }

    #[test]
    fn included_files_are_written_in_their_place() {
        let read = |file: &str| (file == "part.yaml").then(|| "jobs: [{name: one}]\n".to_string());
        let whole = with_included("scenario: A\ninclude: part.yaml\n", read).expect("it is there");
        assert!(whole.contains("name: one") && !whole.contains("include"), "{whole}");
        assert_eq!(with_included("scenario: A\ninclude: [other.yaml]\n", read), None);
        assert_eq!(with_included("scenario: A\n", read), None);
    }

    #[test]
    fn one_expectation_is_left() {
        let text = "scenario: A\nexpect:\n  - {name: x, a: 1}\n  - b == 2\nreproduces: [{fails: [x]}]\n";
        let alone = |line| with_one_expectation(text, line, 5).expect("it is there");
        assert_eq!(alone(3), "scenario: A\nexpect:\n  - {name: x, a: 1}\n");
        assert_eq!(alone(4), "scenario: A\nexpect:\n  - b == 2\n");
        assert_eq!(with_one_expectation("scenario: A\n", 1, 1), None);
    }
}
