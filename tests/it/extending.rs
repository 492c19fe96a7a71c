//! The examples of `docs/src/extending.md` are changes of this tree: the lines that they keep and remove are in the files.

use std::path::Path;

trials! {
    Nothing: [every_example_of_a_change_applies, an_example_that_does_not_apply_is_found,]
}

const PAGE: &str = "docs/src/extending.md";

/// An example of a change: a file, and groups of adjacent lines that it has before the change.
struct Change<'p> {
    file: &'p str,
    groups: Vec<Vec<&'p str>>,
}

/// The examples of a page. Each begins with the name of its file. `...` separates two groups, and so does an added line:
/// when somebody has added another one there, the lines around it still are in the file.
fn changes(page: &str) -> Vec<Change<'_>> {
    let blocks = page.split("```diff\n").skip(1).map(|block| block.split("```").next().unwrap_or_default());
    blocks
        .map(|block| {
            let (first, rest) = block.split_once('\n').expect("an example has lines");
            let file = first.strip_prefix("--- ").unwrap_or_else(|| panic!("`{first}` names no file"));
            let lines: Vec<&str> = rest.lines().collect();
            let parts = lines.split(|line| *line == "..." || line.starts_with('+'));
            let groups = parts.map(|part| part.iter().copied().filter_map(kept).collect());
            Change { file, groups: groups.collect() }
        })
        .collect()
}

/// A line that the file has before the change. `None` for an added line.
fn kept(line: &str) -> Option<&str> {
    line.strip_prefix(' ').or_else(|| line.strip_prefix('-'))
}

/// The first line of the first group that the file does not have below the groups before.
fn missing<'p>(change: &Change<'p>, text: &str) -> Option<&'p str> {
    let lines: Vec<&str> = text.lines().collect();
    let mut from = 0;
    for group in change.groups.iter().filter(|group| !group.is_empty()) {
        match lines[from..].windows(group.len()).position(|part| part == group.as_slice()) {
            Some(at) => from += at + group.len(),
            None => return group.first().copied(),
        }
    }
    None
}

fn every_example_of_a_change_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let page = read(PAGE);
    let changes = changes(&page);
    assert_eq!(changes.len(), 6, "{PAGE} has an example for each of six additions");
    for change in changes {
        let line = missing(&change, &read(change.file));
        assert_eq!(
            line, None,
            "{PAGE}: an example has this line, and {} no longer has it; change the page",
            change.file
        );
    }
}

fn an_example_that_does_not_apply_is_found() {
    let page = "```diff\n--- a.rs\n+mod new;\n...\n one\n-two\n+three\n```\n";
    let changes = changes(page);
    assert_eq!(changes[0].file, "a.rs");
    assert_eq!(missing(&changes[0], "zero\none\ntwo\n"), None);
    assert_eq!(missing(&changes[0], "one\nzero\ntwo\n"), Some("one"));
    let added = "```diff\n--- a.rs\n one\n+new\n two\n```\n";
    assert_eq!(missing(&self::changes(added)[0], "one\nanother addition\ntwo\n"), None);
    assert_eq!(missing(&self::changes(added)[0], "two\none\n"), Some("two"));
}
