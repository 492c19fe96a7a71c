//! Properties of the sources that the compiler does not check: that rooms use only rooms on lower floors, that code
//! which must be repeatable avoids certain calls, that files and functions are not too long, and that no leftovers
//! remain.
//!
//! A checker takes one [`Source`] and returns its faults, so each is tested on a few made-up lines. It reads text in
//! which comments and literals are blanked, not syntax. It accepts what it does not recognise, and `clippy.toml`
//! forbids the same calls by their types.

use std::path::Path;

/// Rooms in which the wall clock and the machine's own mathematics are allowed. `outside` and `apiserver` measure how
/// long a scheduler in another process takes to answer.
const ROOMS_WITH_A_CLOCK: [&str; 4] = ["apiserver", "live", "outside", "cli"];

const FILE_LINES: usize = 700;
const FUNCTION_LINES: usize = 80;

/// A test by the name that the harness lists.
pub type Test = (&'static str, fn() -> Result<(), String>);

pub const ALL: [Test; 12] = [
    ("tidy::a_room_uses_only_rooms_on_lower_floors", a_room_uses_only_rooms_on_lower_floors),
    ("tidy::no_run_depends_on_a_clock_or_on_the_order_of_a_hash", no_run_depends_on_a_clock_or_on_the_order_of_a_hash),
    ("tidy::files_and_functions_are_read_in_one_sitting", files_and_functions_are_read_in_one_sitting),
    ("tidy::nothing_is_left_to_do", nothing_is_left_to_do),
    ("tidy::no_example_of_a_room_is_left_unrun", no_example_of_a_room_is_left_unrun),
    ("tidy::an_example_of_a_room_is_found", an_example_of_a_room_is_found),
    ("tidy::no_word_of_a_workplace_is_left", no_word_of_a_workplace_is_left),
    ("tidy::a_clock_and_mathematics_of_the_machine_are_found", a_clock_and_mathematics_of_the_machine_are_found),
    ("tidy::the_order_of_a_hash_is_found", the_order_of_a_hash_is_found),
    ("tidy::long_files_and_functions_are_found", long_files_and_functions_are_found),
    ("tidy::what_is_left_to_do_is_found", what_is_left_to_do_is_found),
    ("tidy::comments_and_literals_are_no_code", comments_and_literals_are_no_code),
];

/// A fault with its line.
type Fault = (usize, String);

/// One file, as written and as code alone.
struct Source {
    /// The path relative to the root of the repository, with `/`.
    path: String,
    text: String,
    /// As many characters as `text`, with comments and the insides of literals blanked.
    code: Vec<char>,
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned(), code: code_of(text) }
    }

    /// `src/fleet/node.rs` is in `fleet`, `src/ids.rs` is `ids`; `src/lib.rs` and `src/main.rs` are in none.
    fn room(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("src/")?;
        let first = inside.split('/').next()?;
        (!matches!(inside, "lib.rs" | "main.rs")).then(|| first.strip_suffix(".rs").unwrap_or(first))
    }

    fn line(&self, at: usize) -> usize {
        1 + self.code[..at].iter().filter(|c| **c == '\n').count()
    }

    /// The places of `pattern` in the code where it is not a part of a longer word.
    fn find(&self, pattern: &str) -> Vec<usize> {
        let pattern: Vec<char> = pattern.chars().collect();
        let starts_word = is_word(pattern[0]);
        let ends_word = is_word(pattern[pattern.len() - 1]);
        let is_here = |at: &usize| {
            let end = at + pattern.len();
            self.code[*at..end] == pattern[..]
                && !(starts_word && *at > 0 && is_word(self.code[at - 1]))
                && !(ends_word && self.code.get(end).copied().is_some_and(is_word))
        };
        (0..(self.code.len() + 1).saturating_sub(pattern.len())).filter(is_here).collect()
    }

    fn after_space(&self, mut at: usize) -> usize {
        while self.code.get(at).is_some_and(|c| c.is_whitespace()) {
            at += 1;
        }
        at
    }

    fn before_space(&self, mut end: usize) -> usize {
        while end > 0 && self.code[end - 1].is_whitespace() {
            end -= 1;
        }
        end
    }

    fn word_at(&self, at: usize) -> String {
        self.code[at..].iter().take_while(|c| is_word(**c)).collect()
    }

    /// The word that ends right before `end`.
    fn word_before(&self, end: usize) -> String {
        let len = self.code[..end].iter().rev().take_while(|c| is_word(**c)).count();
        self.code[end - len..end].iter().collect()
    }

    fn ends_with(&self, end: usize, suffix: &str) -> bool {
        self.code[..end].iter().rev().copied().zip(suffix.chars().rev()).filter(|(a, b)| a == b).count()
            == suffix.chars().count()
    }
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The text with comments and the insides of string and character literals blanked; lines are kept.
pub fn code_of(text: &str) -> Vec<char> {
    let text: Vec<char> = text.chars().collect();
    let mut code = text.clone();
    let mut at = 0;
    while at < text.len() {
        let end = literal_end(&text, at).min(text.len());
        for c in &mut code[at..end] {
            if *c != '\n' {
                *c = ' ';
            }
        }
        at = end.max(at + 1);
    }
    code
}

/// The end of the comment or literal that begins at `at`; if none does, `at` itself.
fn literal_end(text: &[char], at: usize) -> usize {
    let is = |at: usize, c: char| text.get(at) == Some(&c);
    let until = |from: usize, stops: &dyn Fn(usize) -> bool| (from..text.len()).find(|at| stops(*at));
    match text[at] {
        '/' if is(at + 1, '/') => until(at, &|at| is(at, '\n')).unwrap_or(text.len()),
        '/' if is(at + 1, '*') => {
            let (mut depth, mut at) = (1, at + 2);
            while depth > 0 && at < text.len() {
                match (text[at], text.get(at + 1)) {
                    ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
                    ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
                    _ => at += 1,
                }
            }
            at
        }
        'r' if at == 0 || !is_word(text[at - 1]) || text[at - 1] == 'b' => {
            let hashes = text[at + 1..].iter().take_while(|c| **c == '#').count();
            if !is(at + 1 + hashes, '"') {
                return at;
            }
            let closes = |at: usize| is(at, '"') && (1..=hashes).all(|ahead| is(at + ahead, '#'));
            until(at + 2 + hashes, &closes).map_or(text.len(), |at| at + 1 + hashes)
        }
        '"' => {
            let mut at = at + 1;
            while at < text.len() && text[at] != '"' {
                at += if text[at] == '\\' { 2 } else { 1 };
            }
            at + 1
        }
        '\'' if is(at + 1, '\\') => until(at + 3, &|at| is(at, '\'')).map_or(text.len(), |at| at + 1),
        '\'' if is(at + 2, '\'') => at + 3,
        _ => at,
    }
}

// Checkers

/// Finds uses of the wall clock, waiting, and mathematics that differs between machines. (`sqrt` is exact.)
fn clocks_and_mathematics(source: &Source) -> Vec<Fault> {
    if source.room().is_none_or(|room| ROOMS_WITH_A_CLOCK.contains(&room)) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for clock in ["Instant::now", "SystemTime::now", "time::Instant", "time::SystemTime", "thread::sleep"] {
        faults.extend(source.find(clock).into_iter().map(|at| (source.line(at), format!("`{clock}` outside `live`"))));
    }
    for at in source.find("time::{") {
        let group: String = source.code[at..].iter().take_while(|c| **c != '}').collect();
        if group.split(|c| !is_word(c)).any(|word| matches!(word, "Instant" | "SystemTime")) {
            faults.push((source.line(at), "the wall clock outside `live`".to_owned()));
        }
    }
    for function in ["ln", "exp", "powf", "powi", "log2", "log10", "sin", "cos"] {
        for call in [format!(".{function}("), format!("f64::{function}")] {
            let found = source.find(&call).into_iter();
            faults.extend(found.map(|at| (source.line(at), format!("`{call}`: call `libm` by name"))));
        }
    }
    faults
}

/// Finds iteration over a hash map or set that is declared in the same file. An `#[expect]` with its reason permits it.
fn orders_of_a_hash(source: &Source) -> Vec<Fault> {
    const ITERATES: [&str; 11] = [
        "iter",
        "iter_mut",
        "keys",
        "values",
        "values_mut",
        "into_iter",
        "into_keys",
        "into_values",
        "drain",
        "retain",
        "extract_if",
    ];
    if source.room().is_none_or(|room| ROOMS_WITH_A_CLOCK.contains(&room)) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for name in hashes_declared(source) {
        for at in source.find(&name) {
            let after = source.after_space(at + name.chars().count());
            let method = match source.code.get(after) {
                Some('.') => source.word_at(source.after_space(after + 1)),
                _ => String::new(),
            };
            let path = source.code[..at].iter().rev().take_while(|c| is_word(**c) || **c == '.').count();
            let mut before = source.before_space(at - path);
            for sign in ["mut", "&"] {
                if source.ends_with(before, sign) {
                    before = source.before_space(before - sign.len());
                }
            }
            let is_looped = source.word_before(before) == "in" && source.code.get(after) == Some(&'{');
            let line = source.line(at);
            if (is_looped || ITERATES.contains(&method.as_str())) && !is_expected(source, line) {
                faults.push((line, format!("the order of the hash `{name}` can show")));
            }
        }
    }
    faults
}

fn hashes_declared(source: &Source) -> Vec<String> {
    let mut names = Vec::new();
    for hash in ["HashMap", "HashSet"] {
        for at in source.find(hash) {
            let mut end = at;
            for path in ["collections::", "std::", "mut ", "&"] {
                if source.ends_with(end, path) {
                    end -= path.len();
                }
            }
            end = source.before_space(end);
            let is_declared = [":", "="].iter().any(|sign| source.ends_with(end, sign)) && !source.ends_with(end, "::");
            let name = if is_declared { source.word_before(source.before_space(end - 1)) } else { String::new() };
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn is_expected(source: &Source, line: usize) -> bool {
    let above = source.text.lines().skip(line.saturating_sub(4)).take(line.min(4));
    above.into_iter().any(|line| {
        let line = line.trim_start();
        line.starts_with("#[expect(clippy::disallowed_methods")
            || line.starts_with("#[expect(clippy::iter_over_hash_type")
    })
}

/// Finds files and functions that are too long.
fn too_long(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES {
        faults.push((lines, format!("a file of {lines} lines (at most {FILE_LINES})")));
    }
    for at in source.find("fn") {
        let name = source.word_at(source.after_space(at + 2));
        if let Some(end) = function_end(source, at).filter(|_| !name.is_empty()) {
            let (first, last) = (source.line(at), source.line(end));
            let lines = last + 1 - first;
            if lines > FUNCTION_LINES {
                faults.push((first, format!("`{name}` of {lines} lines (at most {FUNCTION_LINES})")));
            }
        }
    }
    faults
}

/// The brace that closes the function whose `fn` is at `at`; `None` if it has no body.
fn function_end(source: &Source, at: usize) -> Option<usize> {
    let (mut brackets, mut braces) = (0, 0);
    for (index, c) in source.code.iter().enumerate().skip(at) {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            '{' => braces += 1,
            '}' if braces == 1 => return Some(index),
            '}' => braces -= 1,
            ';' if braces == 0 && brackets == 0 => return None,
            _ => {}
        }
    }
    None
}

fn left_to_do(source: &Source) -> Vec<Fault> {
    let left = ["todo!", "unimplemented!", "dbg!", "#[ignore"];
    let found = left.iter().flat_map(|left| source.find(left).into_iter().map(move |at| (at, left)));
    found.map(|(at, left)| (source.line(at), format!("`{left}` is left"))).collect()
}

/// Finds words of a workplace, in comments and literals too.
fn words_of_a_workplace(source: &Source) -> Vec<Fault> {
    // In two parts, because this file is checked as well.
    let words = [concat!("/wo", "rk/"), concat!("/tmp", "/wt"), concat!("Cla", "ude")];
    let lines = source.text.lines().enumerate();
    let found = lines
        .flat_map(|(index, line)| words.iter().filter(|word| line.contains(**word)).map(move |word| (index, word)));
    found.map(|(index, word)| (index + 1, format!("`{word}` is of a workplace"))).collect()
}

/// Finds the code examples in comments of rooms. A block with a language that is not run, such as `text`, is none.
fn examples_in_rooms(source: &Source) -> Vec<Fault> {
    if !source.path.strip_prefix("src/").is_some_and(|inside| inside.contains('/')) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let mut is_inside = false;
    for (index, line) in source.text.lines().enumerate() {
        let line = line.trim_start();
        let Some(fence) = ["//! ```", "/// ```"].iter().find_map(|mark| line.strip_prefix(mark)) else { continue };
        is_inside = !is_inside;
        if is_inside && matches!(fence, "" | "rust" | "no_run" | "should_panic" | "compile_fail") {
            faults.push((index + 1, "an example that `doctest = false` of its room leaves out".to_string()));
        }
    }
    faults
}

// The sources

/// Returns every fault of the Rust files in these folders, one per line.
fn hold(folders: &[&str], checkers: &[fn(&Source) -> Vec<Fault>]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    for folder in folders {
        read_folder(root, folder, &mut sources)?;
    }
    if sources.is_empty() {
        return Err(format!("there is no source in {folders:?}"));
    }
    let mut faults = Vec::new();
    for source in &sources {
        let mut of_file: Vec<Fault> = checkers.iter().flat_map(|checker| checker(source)).collect();
        of_file.sort();
        faults.extend(of_file.into_iter().map(|(line, fault)| format!("{}:{line}: {fault}", source.path)));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn read_folder(root: &Path, folder: &str, sources: &mut Vec<Source>) -> Result<(), String> {
    let said = |error: std::io::Error| format!("{folder}: {error}");
    let mut entries =
        std::fs::read_dir(root.join(folder)).map_err(said)?.collect::<Result<Vec<_>, _>>().map_err(said)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().map_err(said)?.is_dir() {
            read_folder(root, &path, sources)?;
        } else if path.ends_with(".rs") {
            let text = std::fs::read_to_string(entry.path()).map_err(|error| format!("{path}: {error}"))?;
            sources.push(Source::new(&path, &text));
        }
    }
    Ok(())
}

/// Reads the manifests of the rooms and the floors in their heads. Cargo ensures that no other room can be named.
pub fn a_room_uses_only_rooms_on_lower_floors() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let entries = std::fs::read_dir(&root).map_err(|error| error.to_string())?.filter_map(Result::ok);
    let mut rooms: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    rooms.sort();
    let mut floors = std::collections::BTreeMap::new();
    for room in &rooms {
        let text = read(&root.join(room).join("mod.rs"))?;
        floors.insert(room.as_str(), floor_of(&text).ok_or_else(|| format!("src/{room}/mod.rs opens with no floor"))?);
    }
    let mut faults = Vec::new();
    for room in &rooms {
        let manifest = read(&root.join(room).join("Cargo.toml"))?;
        let manifest = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for line in manifest.lines().filter_map(|line| line.strip_prefix("dryrack-")) {
            let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if floors.get(used).is_none_or(|floor| *floor >= floors[room.as_str()]) {
                faults.push(format!("`{room}` (floor {}) uses `{used}`", floors[room.as_str()]));
            }
        }
    }
    if floors.len() < 20 || !faults.is_empty() { Err(format!("{floors:?}\n{}", faults.join("\n"))) } else { Ok(()) }
}

/// Reads the floor from `//! Floor 3. …`.
fn floor_of(opening: &str) -> Option<u8> {
    opening.strip_prefix("//! Floor ")?.split('.').next()?.parse().ok()
}

pub fn no_run_depends_on_a_clock_or_on_the_order_of_a_hash() -> Result<(), String> {
    hold(&["src"], &[clocks_and_mathematics, orders_of_a_hash])
}

pub fn files_and_functions_are_read_in_one_sitting() -> Result<(), String> {
    hold(&["src"], &[too_long])
}

pub fn nothing_is_left_to_do() -> Result<(), String> {
    hold(&["src", "tests", "benches"], &[left_to_do])
}

/// Rooms have `doctest = false`, because rustdoc takes seconds to find out that a crate has no examples. The examples
/// of the library are in `src/lib.rs` and beside it, and are run.
pub fn no_example_of_a_room_is_left_unrun() -> Result<(), String> {
    hold(&["src"], &[examples_in_rooms])
}

pub fn no_word_of_a_workplace_is_left() -> Result<(), String> {
    hold(&["src", "tests", "benches"], &[words_of_a_workplace])
}

// Tests of the checkers

pub fn an_example_of_a_room_is_found() -> Result<(), String> {
    let text = "//! ```text\n//! a diagram\n//! ```\n\n/// ```\n/// run();\n/// ```\n    /// ```no_run\n    /// ```\n";
    check(examples_in_rooms, "src/engine/run.rs", text, &[5, 8])?;
    check(examples_in_rooms, "src/engine.rs", text, &[])
}

/// Checks that the checker finds faults on these lines of the text and on no others.
fn check(checker: fn(&Source) -> Vec<Fault>, path: &str, text: &str, expected: &[usize]) -> Result<(), String> {
    let faults = checker(&Source::new(path, text));
    let mut lines: Vec<usize> = faults.iter().map(|(line, _)| *line).collect();
    lines.sort_unstable();
    if lines == expected {
        Ok(())
    } else {
        Err(format!("expected faults on {expected:?}, found {faults:?} in\n{text}"))
    }
}

pub fn a_clock_and_mathematics_of_the_machine_are_found() -> Result<(), String> {
    let clocks = "use std::time::Duration;\nuse std::time::{Duration, Instant};\nlet a = SystemTime::now();\n\
                  std::thread::sleep(a);\nlet instant: InstantOf = Instant::now_or(a);";
    check(clocks_and_mathematics, "src/engine/run.rs", clocks, &[2, 3, 4])?;
    check(clocks_and_mathematics, "src/live/probe.rs", clocks, &[])?;
    let numbers =
        "let a = b.sqrt();\nlet a = b.ln();\nlet a = f64::powf(b, c);\nlet a = libm::log(b);\nlet a = b.len().exp2;";
    check(clocks_and_mathematics, "src/report/waits.rs", numbers, &[2, 3])
}

pub fn the_order_of_a_hash_is_found() -> Result<(), String> {
    let fields = "struct A {\n    runs: HashMap<u32, B>,\n    nodes: Vec<B>,\n}\n";
    let found = |body: &str, expected: &[usize]| {
        check(orders_of_a_hash, "src/engine/world.rs", &format!("{fields}{body}"), expected)
    };
    found("self.runs.get(&a);\nself.runs.len();\nself.nodes.iter();\nfor node in &self.nodes {}", &[])?;
    found("self.runs.iter();\nself\n    .runs\n    .values()", &[5, 7])?;
    found("for (id, run) in &self.runs {}\nfor a in self.runs {}\nfor run in &mut world.runs {}", &[5, 6, 7])?;
    found("self.runs.drain();\nself.runs.retain(|_, run| run.alive);\nlet keys = runs.keys();", &[5, 6, 7])?;
    found("#[expect(clippy::disallowed_methods, reason = \"sorted below\")]\nself.runs.iter();", &[])?;
    found("let mut seen = HashSet::new();\nseen.insert(a);\nfor a in seen {}", &[7])?;
    found("fn f(known: &std::collections::HashSet<u32>) {\n    known.iter()\n}", &[6])
}

pub fn long_files_and_functions_are_found() -> Result<(), String> {
    let function = |lines: usize| format!("\nfn f(a: [u8; 3]) {{\n{}}}\nfn g();\n", "    a();\n".repeat(lines - 2));
    check(too_long, "src/ids.rs", &function(FUNCTION_LINES), &[])?;
    check(too_long, "src/ids.rs", &function(FUNCTION_LINES + 1), &[2])?;
    check(too_long, "src/ids.rs", &"a\n".repeat(FILE_LINES), &[])?;
    check(too_long, "src/ids.rs", &"a\n".repeat(FILE_LINES + 1), &[FILE_LINES + 1])
}

pub fn what_is_left_to_do_is_found() -> Result<(), String> {
    let left = "todo!()\nunimplemented!()\nlet a = dbg!(b);\n#[ignore = \"slow\"]\n#[ignore]\nmy_todo!(); // todo!";
    check(left_to_do, "src/ids.rs", left, &[1, 2, 3, 4, 5])?;
    let words = concat!("// see /wo", "rk/x\nlet a = \"/tmp", "/wt\";\nwork / hours\n// Cla", "ude");
    check(words_of_a_workplace, "src/ids.rs", words, &[1, 2, 4])
}

pub fn comments_and_literals_are_no_code() -> Result<(), String> {
    let text = "a /* b /* \" */ c */ \"d\\\" // e\" 'f' '\\'' r#\"g \" h\"# &'i j // k\nl";
    let code: String = code_of(text).into_iter().collect();
    let words: Vec<&str> = code.split_whitespace().collect();
    let expected = ["a", "&'i", "j", "l"];
    if words == expected { Ok(()) } else { Err(format!("expected {expected:?}, found {words:?}")) }
}
