//! The pages of the book (`docs/src`) and README.md: each command in them is run and prints what the page shows, each link
//! leads to a file and a heading, each page is in the table of contents, and the page of reasons lists all of them.
//!
//! A block of the language `sh` is run, unless its info string also says `ignore`, and must succeed. A block of the
//! language `console` is run likewise, and must print what the page shows. A line that begins with `$ ` is a command,
//! lines that begin with `> `, or are `>`, continue it, and what it prints follows. In that text, a line `...` stands for
//! any lines, and `[..]` for any part of a line.
//!
//! All blocks of a page run one after the other in one folder. To write what was printed into the pages, run with
//! `DRYRACK_BLESS=1`, and then read every changed line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use dryrack_event::Reason;

trials! {
    Nothing: [
        each_command_prints_what_the_page_shows,
        each_link_leads_somewhere,
        the_page_of_reasons_has_all_of_them,
        the_page_of_profile_options_has_all_of_them,
        each_page_is_in_the_table_of_contents,
    ]
}

/// The most blocks that may be left out, because they need a network, a server, a GPU or minutes.
const MOST_IGNORED: usize = 30;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a script prints after its last command, if all of them succeeded.
const DONE: &str = "all commands succeeded";

/// The chapters, by path, and README.md.
fn pages() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("docs/src")).expect("the book");
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

fn read(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// A command, which may have several lines, and what it prints.
struct Step {
    command: String,
    printed: Vec<String>,
}

fn steps(lines: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command: command.to_string(), printed: Vec::new() }),
            (None, Some(step)) if step.printed.is_empty() && (line.starts_with("> ") || *line == ">") => {
                step.command.push_str(&format!("\n{}", line.get(2..).unwrap_or("")));
            }
            (None, Some(step)) => step.printed.push(line.to_string()),
            (None, None) => panic!("a block begins with `{line}` instead of a command"),
        }
    }
    steps
}

/// Runs a command in the folder, and returns what it prints on both streams.
fn run(folder: &Path, command: &str) -> Vec<String> {
    let programs = Path::new(env!("CARGO_BIN_EXE_dryrack")).parent().expect("it is in a folder");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 2>&1\n{command}")]).current_dir(folder).env("PATH", path);
    shell.env_remove("DRYRACK_DATA").env("NO_COLOR", "1").env("DRYRACK_CACHE", folder.join(".cache"));
    let output = shell.output().expect("a shell");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_string()).collect();
    // `test` lists the runs that took more than a second, which any run may do on a busy machine.
    if let Some(at) = lines.windows(2).position(|pair| pair[0].is_empty() && pair[1] == "slowest") {
        let length = lines[at + 1..].iter().position(String::is_empty).map_or(lines.len() - at, |length| length + 1);
        lines.drain(at..at + length);
    }
    lines
}

/// Whether these lines are those of the page.
fn matches(page: &[String], printed: &[String]) -> bool {
    match page.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line == "..." => (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..])),
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, after)| line_matches(line, first) && matches(rest, after))
        }
    }
}

fn line_matches(page: &str, printed: &str) -> bool {
    let mut parts = page.split("[..]");
    let Some(mut left) = parts.next().and_then(|first| printed.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return left.is_empty() };
    for part in between {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

/// What was printed, with `[..]` in place of measured times.
fn without_times(line: &str) -> String {
    let mut text = String::new();
    let mut left = line;
    while let Some((before, after)) = left.split_once('[') {
        let time = after.split_once("s]").filter(|(time, _)| time.trim().parse::<f64>().is_ok());
        match time {
            Some((_, after)) => {
                text.push_str(&format!("{before}[..]"));
                left = after;
            }
            None => {
                text.push_str(&format!("{before}["));
                left = after;
            }
        }
    }
    text + left
}

fn each_command_prints_what_the_page_shows() {
    let blesses = std::env::var_os("DRYRACK_BLESS").is_some();
    let (mut faults, mut ignored, mut commands) = (String::new(), 0, 0);
    for page in pages() {
        let folder = tempfile::TempDir::new().expect("a folder of our own");
        for part in ["scenarios", "traces", "reports", "tests", "examples", "src"] {
            std::os::unix::fs::symlink(root().join(part), folder.path().join(part)).expect("a link");
        }
        let text = read(&page);
        let lines: Vec<&str> = text.lines().collect();
        let (mut written, mut at) = (Vec::new(), 0);
        while at < lines.len() {
            let line = lines[at];
            written.push(line.to_string());
            at += 1;
            let indent = line.len() - line.trim_start().len();
            let is_script = line.trim_start().starts_with("```sh");
            let info = line.trim_start().strip_prefix(if is_script { "```sh" } else { "```console" });
            let Some(info) = info else { continue };
            let end = (at..lines.len()).find(|end| lines[*end].trim() == "```").expect("a block ends");
            if info.contains("ignore") {
                ignored += 1;
                continue;
            }
            let inside: Vec<&str> = lines[at..end].iter().map(|line| line.get(indent..).unwrap_or("")).collect();
            if is_script {
                commands += 1;
                let (script, page) = (inside.join("\n"), page.display());
                let printed = run(folder.path(), &format!("set -e\n{script}\necho {DONE}"));
                if printed.last().is_none_or(|line| line != DONE) {
                    faults += &format!("{page}: `{script}` fails:\n{}\n\n", printed.join("\n"));
                }
                continue;
            }
            for step in steps(&inside) {
                commands += 1;
                let printed = run(folder.path(), &step.command);
                let said = if matches(&step.printed, &printed) {
                    step.printed
                } else {
                    let found: Vec<String> = printed.iter().map(|line| without_times(line)).collect();
                    if !blesses {
                        let (page, found) = (page.display(), found.join("\n"));
                        faults += &format!("{page}: `{}` prints:\n{found}\n\n", step.command);
                    }
                    found
                };
                let all =
                    std::iter::once(format!("$ {}", step.command.replace('\n', "\n> ").replace("\n> \n", "\n>\n")))
                        .chain(said);
                let all = all.flat_map(|text| text.split('\n').map(str::to_string).collect::<Vec<_>>());
                written.extend(all.map(|line| if line.is_empty() { line } else { " ".repeat(indent) + &line }));
            }
            at = end;
        }
        if blesses {
            std::fs::write(&page, written.join("\n") + "\n").expect("the page");
        }
    }
    assert!(faults.is_empty(), "{faults}DRYRACK_BLESS=1 writes this into the pages");
    assert!(ignored <= MOST_IGNORED, "{ignored} blocks are not run");
    assert!(commands > 20, "only {commands} commands were found");
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let title = title.trim().to_lowercase();
        let kept = title.chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => Some(letter),
            _ => None,
        });
        let anchor: String = kept.collect();
        let again = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(again).find(|name| !anchors.contains(name));
        anchors.insert(free.expect("there are enough numbers"));
    }
    anchors
}

/// The targets of the links of a page, outside of code.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        for part in line.split("](").skip(1) {
            links.extend(part.split_once(')').map(|(target, _)| target.to_string()));
        }
    }
    links
}

fn each_link_leads_somewhere() {
    let mut broken = String::new();
    for page in pages() {
        let folder = page.parent().expect("it is in a folder");
        for link in links(&read(&page)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').map_or((link.as_str(), None), |(path, at)| (path, Some(at)));
            let target = if path.is_empty() { page.clone() } else { folder.join(path) };
            let leads = target.exists() && anchor.is_none_or(|anchor| anchors(&read(&target)).contains(anchor));
            if !leads {
                broken += &format!("{}: {link}\n", page.display());
            }
        }
    }
    assert!(broken.is_empty(), "these links lead nowhere:\n{broken}");
}

fn each_page_is_in_the_table_of_contents() {
    let summary = read(&root().join("docs/src/SUMMARY.md"));
    let listed = links(&summary);
    for page in pages() {
        let name = page.file_name().and_then(|name| name.to_str()).expect("a name");
        let is_listed = listed.iter().filter(|link| *link == name).count();
        let expected = usize::from(!["SUMMARY.md", "README.md"].contains(&name));
        assert_eq!(is_listed, expected, "{name} in docs/src/SUMMARY.md");
    }
}

/// The page of reasons. Reasons of one node are counted, as in "3 nodes: …".
fn reasons() -> String {
    let mut page = String::from(
        "# Reasons\n\nA refusal, a wait, a transition and an end have a reason. Expectations name it (`because: \
         node_not_ready`), and `explain`, logs and reports show it with a count of nodes. A profile can add reasons of \
         its own. A reason that is *for ever* depends only on the job and on fixed properties of a node.\n\n\
         | reason | meaning | explains a wait | for ever |\n| --- | --- | --- | --- |\n",
    );
    let yes = |holds: bool| if holds { "yes" } else { "" };
    for reason in Reason::ALL {
        let (waits, stays) = (yes(reason.is_of_waiting()), yes(reason.is_for_ever()));
        page += &format!("| `{}` | {} | {waits} | {stays} |\n", reason.name(), reason.text());
    }
    page
}

fn the_page_of_reasons_has_all_of_them() {
    let page = root().join("docs/src/reasons.md");
    if std::env::var_os("DRYRACK_BLESS").is_some() {
        std::fs::write(&page, reasons()).expect("the page");
    }
    assert_eq!(read(&page), reasons(), "DRYRACK_BLESS=1 writes the page again");
}

/// The page of profile options: a table for each option at the top of a file.
fn profile_options() -> String {
    let mut page = String::from(
        "# Options of a profile\n\n\
         All options that a profile file can state. `name` and `title` are required; an option that a file does not state \
         is that of its `base`. The table comes from the code that reads profiles. `dryrack profile options scheduler.slots` \
         prints a part of it, and `dryrack schema profile` prints the JSON Schema for editors. [Schedulers and profiles](profiles.md) explains profiles. `dryrack profile \
         stages` lists filters, scorers and keys.\n\n\
         In a path, `[]` stands for the entries of a list, `[single_gpu]` for those of that name, and `NAME` for a name that \
         you choose. A *text with a unit* is a time such as `15m`, or another quantity such as `1.5`.\n",
    );
    let options = dryrack_profile::option_reference();
    let top = |path: &str| path.split(['.', '[']).next().unwrap_or_default().to_string();
    let has_parts = |name: &str| options.iter().filter(|option| top(&option.path) == name).count() > 1;
    let mut sections: Vec<(String, String)> = vec![("At the top of the file".to_string(), String::new())];
    for option in &options {
        let of_top = top(&option.path);
        let section = match has_parts(&of_top) {
            true => format!("`{of_top}`"),
            false => sections[0].0.clone(),
        };
        if sections.iter().all(|(name, _)| *name != section) {
            sections.push((section.clone(), String::new()));
        }
        let values: String =
            option.values.iter().map(|value| format!("<br>`{}`: {}", value.value, value.about)).collect();
        let cells = [&option.takes, &option.about, &values].map(|cell| cell.replace('|', "\\|"));
        let row = format!("| `{}` | {} | {}{} |\n", option.path, cells[0], cells[1], cells[2]);
        let rows = sections.iter_mut().find(|(name, _)| *name == section).expect("it was added");
        rows.1 += &row;
    }
    for (name, rows) in sections {
        page += &format!("\n## {name}\n\n| option | takes | what it does |\n| --- | --- | --- |\n{rows}");
    }
    page
}

fn the_page_of_profile_options_has_all_of_them() {
    let unexplained: Vec<String> = (dryrack_profile::option_reference().into_iter())
        .filter(|option| option.about.is_empty())
        .map(|option| option.path)
        .collect();
    assert!(unexplained.is_empty(), "options without a sentence: {unexplained:?}");
    let page = root().join("docs/src/profile-options.md");
    if std::env::var_os("DRYRACK_BLESS").is_some() {
        std::fs::write(&page, profile_options()).expect("the page");
    }
    assert_eq!(read(&page), profile_options(), "DRYRACK_BLESS=1 writes the page again");
}
