//! Circles of files: files of one crate that use each other, directly or through others.
//!
//! Two files may use each other, as a type and its parts do. A circle of three or more can only be read as one file, so
//! it is a fault. A file uses another if it names an item of it, by a `use` or by a path. An item that a module
//! re-exports belongs to the file that declares it. Methods do not count, and neither does code under `#[cfg(test)]`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::{Test, code_of, is_word};

pub const ALL: [Test; 2] = [
    ("circles::no_three_files_use_each_other", no_three_files_use_each_other),
    ("circles::a_circle_of_files_is_found", a_circle_of_files_is_found),
];

/// A path such as `super::fleet::Node`, as its words, with the name by which the file knows the item.
struct Use {
    path: Vec<String>,
    name: String,
}

#[derive(Default)]
struct Module {
    file: String,
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// The words and paths outside of `use`.
    words: BTreeSet<String>,
    paths: BTreeSet<Vec<String>>,
}

type Modules = BTreeMap<Vec<String>, Module>;

fn words_of(path: &str) -> Vec<String> {
    path.split("::").map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

/// The paths of a `use`, in which braces may be nested.
fn read_use(prefix: &[String], text: &str, uses: &mut Vec<Use>) {
    let text = text.trim();
    if let (Some(open), true) = (text.find('{'), text.ends_with('}')) {
        let prefix = [prefix, &words_of(&text[..open])].concat();
        let (mut depth, mut from) = (0, open + 1);
        for (at, letter) in text.char_indices().skip_while(|(at, _)| *at <= open) {
            match letter {
                '{' => depth += 1,
                '}' if at + 1 < text.len() => depth -= 1,
                ',' | '}' if depth == 0 => {
                    read_use(&prefix, &text[from..at], uses);
                    from = at + 1;
                }
                _ => {}
            }
        }
    } else if !text.is_empty() {
        let (path, name) = text.split_once(" as ").map_or((text, None), |(path, name)| (path, Some(name.trim())));
        let mut path = [prefix, &words_of(path)].concat();
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = name.map_or_else(|| path.last().cloned().unwrap_or_default(), str::to_owned);
        uses.push(Use { path, name });
    }
}

/// The end of the item that begins at `from`: after its `;`, or after the brace that closes it.
fn item_end(code: &[char], from: usize, has_block: bool) -> usize {
    let mut depth = 0;
    for (at, letter) in code.iter().enumerate().skip(from) {
        match letter {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 && has_block {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn blank(code: &mut [char]) {
    code.iter_mut().filter(|letter| **letter != '\n').for_each(|letter| *letter = ' ');
}

/// The code without the items under `#[cfg(test)]`.
fn without_tests(text: &str) -> String {
    let mark: Vec<char> = "#[cfg(test)]".chars().collect();
    let mut code = code_of(text);
    while let Some(at) = code.windows(mark.len()).position(|window| *window == mark) {
        let after: String = code[at + mark.len()..].iter().collect();
        let is_use =
            after.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ").starts_with("use ");
        let end = item_end(&code, at + mark.len(), !is_use);
        blank(&mut code[at..end]);
    }
    code.into_iter().collect()
}

/// A line without its visibility, such as `pub(crate) `.
fn without_visibility(line: &str) -> &str {
    match line.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")) {
        Some((_, rest)) => rest,
        None => line.strip_prefix("pub ").unwrap_or(line),
    }
}

/// The file as a module, and the modules that it declares.
fn read_module(file: &str, text: &str) -> (Module, Vec<String>) {
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    let mut children = Vec::new();
    let code = without_tests(text);
    let mut body = String::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let stated = without_visibility(line.trim_start());
        if let Some(opening) = stated.strip_prefix("use ") {
            let mut whole = opening.to_owned();
            while !whole.trim_end().ends_with(';') {
                let Some(more) = lines.next() else { break };
                whole.push(' ');
                whole.push_str(more.trim());
            }
            read_use(&[], whole.trim_end().trim_end_matches(';'), &mut module.uses);
        } else if let Some(name) = stated.strip_prefix("mod ").and_then(|rest| rest.trim_end().strip_suffix(';')) {
            children.push(name.to_owned());
        } else {
            body.push_str(line);
            body.push('\n');
            let at_margin = without_visibility(line);
            let at_margin = at_margin.strip_prefix("const fn ").or(at_margin.strip_prefix("async fn ")).map_or_else(
                || {
                    ["struct ", "enum ", "trait ", "fn ", "type ", "const ", "static "]
                        .iter()
                        .find_map(|kind| at_margin.strip_prefix(kind))
                },
                Some,
            );
            module.items.extend(at_margin.map(|rest| rest.chars().take_while(|c| is_word(*c)).collect::<String>()));
        }
    }
    for word in body.split(|c: char| !is_word(c) && c != ':') {
        let path = words_of(word);
        module.words.extend(path.first().cloned());
        if path.len() > 1 {
            module.paths.insert(path);
        }
    }
    (module, children)
}

/// The file that declares what the path means to a module. `None` if it is in no file of the crate.
fn declared_in<'m>(modules: &'m Modules, from: &[String], path: &[String], depth: usize) -> Option<&'m str> {
    let (mut at, mut rest) = (from.to_vec(), path);
    while let Some((first, others)) = rest.split_first() {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ => break,
        }
        rest = others;
    }
    let (name, others) = rest.split_first()?;
    let module = modules.get(&at).filter(|_| depth < 25)?;
    let child = [at.as_slice(), std::slice::from_ref(name)].concat();
    if modules.contains_key(&child) {
        return if others.is_empty() { None } else { declared_in(modules, &child, others, depth + 1) };
    }
    if module.items.contains(name) {
        return Some(&module.file);
    }
    if let Some(found) = module.uses.iter().find(|found| found.name == *name && found.path != [name.clone()]) {
        return declared_in(modules, &at, &[found.path.as_slice(), others].concat(), depth + 1);
    }
    let mut globs = module.uses.iter().filter(|found| found.name == "*");
    globs.find_map(|glob| {
        let path = [&glob.path[..glob.path.len() - 1], rest].concat();
        declared_in(modules, &at, &path, depth + 1)
    })
}

/// The files that each file uses.
fn uses_of(modules: &Modules) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (place, module) in modules {
        let used = edges.entry(&module.file).or_default();
        let mut note = |path: &[String]| {
            let found = declared_in(modules, place, path, 0).filter(|found| *found != module.file);
            used.extend(found);
            found.is_some()
        };
        for named in &module.uses {
            if named.name == "*" {
                let above = &named.path[..named.path.len() - 1];
                for word in &module.words {
                    note(&[above, std::slice::from_ref(word)].concat());
                }
            } else if module.words.contains(&named.name) {
                note(&named.path);
            }
        }
        for path in &module.paths {
            // `Type::method` and `Enum::Variant` are of the file of the type.
            for len in (1..=path.len()).rev() {
                if note(&path[..len]) {
                    break;
                }
            }
        }
    }
    edges
}

/// The files that can be reached from a file.
fn reached<'m>(edges: &BTreeMap<&'m str, BTreeSet<&'m str>>, from: &'m str) -> BTreeSet<&'m str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        open.extend(edges.get(file).into_iter().flatten().copied().filter(|used| seen.insert(*used)));
    }
    seen
}

/// The circles of more than two files, each with its files sorted.
fn circles(modules: &Modules) -> Vec<Vec<&str>> {
    let edges = uses_of(modules);
    let reach: BTreeMap<&str, BTreeSet<&str>> = edges.keys().map(|file| (*file, reached(&edges, file))).collect();
    let mut found: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (file, others) in &reach {
        let circle: Vec<&str> = others.iter().copied().filter(|other| reach[other].contains(file)).collect();
        if circle.len() > 2 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

fn read_crate(folder: &Path) -> Result<Modules, String> {
    let mut modules = Modules::new();
    let mut open = vec![(Vec::new(), "mod.rs".to_owned(), String::new())];
    while let Some((place, file, inside)) = open.pop() {
        let text = std::fs::read_to_string(folder.join(&file)).map_err(|error| format!("{file}: {error}"))?;
        let (module, children) = read_module(&file, &text);
        for child in children {
            let beside = format!("{inside}{child}.rs");
            let path = if folder.join(&beside).is_file() { beside } else { format!("{inside}{child}/mod.rs") };
            // A module of tests is not declared here, because it is under `#[cfg(test)]`.
            open.push(([place.as_slice(), std::slice::from_ref(&child)].concat(), path, format!("{inside}{child}/")));
        }
        modules.insert(place, module);
    }
    Ok(modules)
}

fn no_three_files_use_each_other() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = std::fs::read_dir(&root).map_err(|error| error.to_string())?.filter_map(Result::ok);
    let mut rooms: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    rooms.sort();
    let (mut faults, mut files) = (Vec::new(), 0);
    for room in rooms {
        let name = room.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let modules = read_crate(&room).map_err(|error| format!("src/{name}/{error}"))?;
        files += modules.len();
        for circle in circles(&modules) {
            faults.push(format!("{} files of `{name}` use each other: {}", circle.len(), circle.join(" ")));
        }
    }
    // The sources have some 900 files. Far fewer mean that declared modules were not read.
    if files < 500 {
        faults.push(format!("only {files} files were found"));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn a_circle_of_files_is_found() -> Result<(), String> {
    let of = |texts: &[(&str, &str)]| -> Vec<Vec<String>> {
        let modules: Modules = (texts.iter())
            .map(|(place, text)| (words_of(place), read_module(&format!("{place}.rs"), text).0))
            .collect();
        circles(&modules).into_iter().map(|circle| circle.into_iter().map(str::to_owned).collect()).collect()
    };
    let root = "mod a;\nmod b;\nmod c;\npub use a::A;\npub use b::{B, make as made};\n";
    let three = [
        ("", root),
        ("a", "use super::{made, c};\npub struct A(c::C);\nfn f() { made() }\n"),
        ("b", "use crate::c::C;\npub struct B;\npub fn make() -> C { todo() }\n"),
        ("c", "use super::A;\npub struct C(Box<A>);\n"),
    ];
    let all = vec![vec!["a.rs".to_owned(), "b.rs".to_owned(), "c.rs".to_owned()]];
    let two = [
        ("", root),
        (
            "a",
            "use super::c;\npub struct A(c::C);\n// made()\n#[cfg(test)]\nmod tests {\n    use super::super::made;\n    fn f() { made() }\n}\n",
        ),
        ("b", "use crate::c::C;\npub struct B;\npub fn make() -> C { todo() }\n"),
        ("c", "use super::A;\npub struct C(Box<A>);\n"),
    ];
    match (of(&three), of(&two)) {
        (three, two) if three == all && two.is_empty() => Ok(()),
        found => Err(format!("expected {all:?} and no circle, found {found:?}")),
    }
}
