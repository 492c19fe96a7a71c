//! What a shell meets: completions, manual pages, what is here, and lines that fit a terminal.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::cli::{dryrack, empty, stdout};

trials! {
    Nothing: [
        completions_know_every_command_and_bash_reads_them,
        each_command_has_a_manual_page,
        the_doctor_says_what_is_here_and_what_each_is_for,
        no_line_on_a_terminal_is_wider_than_a_hundred_columns,
        files_named_for_editors_are_the_scenarios_of_their_folder,
    ]
}

fn completions_know_every_command_and_bash_reads_them() {
    let dir = empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = stdout(dir.path(), &["completions", shell], 0);
        assert!(text.contains("what-helps") && text.contains("update-baseline"), "{shell}");
    }
    // The words that bash offers after `dryrack re`.
    std::fs::write(dir.path().join("dryrack.bash"), stdout(dir.path(), &["completions", "bash"], 0)).expect("ours");
    let script = "source dryrack.bash; COMP_WORDS=(dryrack re); COMP_CWORD=1; _dryrack dryrack re dryrack; \
                  echo \"${COMPREPLY[*]}\"";
    let output = Command::new("bash").args(["-c", script]).current_dir(dir.path()).output().expect("bash is here");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "review replay record\n", "{output:?}");
}

fn each_command_has_a_manual_page() {
    let dir = empty();
    let said = stdout(dir.path(), &["man", "pages"], 0);
    let page = |name: &str| std::fs::read_to_string(dir.path().join("pages").join(name)).expect(name);
    assert!(page("dryrack.1").contains("Rehearses a GPU cluster before it runs"));
    assert!(page("dryrack-test.1").contains("\\fB\\-\\-update\\-baseline\\fR"));
    assert!(page("dryrack-trace-lublin.1").contains("lublin"));
    let count = std::fs::read_dir(dir.path().join("pages")).expect("a folder").count();
    assert!(said.starts_with(&format!("{count} pages in pages;")), "{said}");
}

fn the_doctor_says_what_is_here_and_what_each_is_for() {
    let dir = empty();
    let doctor = |data: &str| {
        let mut command = dryrack(dir.path(), &["doctor"]);
        command.env("PATH", "").env("DRYRACK_CACHE", dir.path()).env("DRYRACK_DATA", data);
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let (code, said) = doctor("");
    assert_eq!(code, Some(0), "{said}");
    let row = |what: &str| said.lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what}: {said}"));
    assert!(row("curl").contains("  no    `trace get`, and probes"), "{said}");
    assert!(row("cache").contains(&dir.path().display().to_string()), "{said}");
    assert!(row("DRYRACK_DATA").ends_with("not set"), "{said}");
    assert!(said.ends_with("Scenarios need none of these; each is only for what it says.\n"), "{said}");
    let (code, said) = doctor("nowhere");
    assert_eq!(code, Some(1), "{said}");
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(words.join(" ").contains("nowhere/traces is not a"), "{said}");
}

/// What a command prints on a terminal.
fn on_a_terminal(dir: &Path, args: &[&str]) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&master).expect("ours");
    unlockpt(&master).expect("ours");
    let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
    let side = File::options().write(true).open(name).expect("the other side");
    let mut child = dryrack(dir, args).stdout(side).spawn().expect("it runs");
    let mut bytes = Vec::new();
    // The end of the program ends the terminal, which is an error to the reader.
    let _ended = File::from(master).read_to_end(&mut bytes);
    child.wait().expect("our own child");
    String::from_utf8(bytes).expect("text").replace("\r\n", "\n")
}

fn no_line_on_a_terminal_is_wider_than_a_hundred_columns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = empty();
    let dir = out.path().display().to_string();
    let log = out.path().join("events.jsonl").display().to_string();
    let file = "scenarios/gpustack/1933-judged-and-deployed-in-one-way.yaml";
    let commands: &[&[&str]] = &[
        &["--help"],
        &["catalog", "machines"],
        &["catalog", "gpus"],
        &["catalog", "models"],
        &["catalog", "compatibility"],
        &["catalog", "machines", "--sources"],
        &["catalog", "compatibility", "--sources"],
        &["profile", "list"],
        &["profile", "show", "dstack-0.19.9"],
        &["profile", "show", "gpustack-2.3.0"],
        &["profile", "diff", "fifo", "first-fit"],
        &["trace", "list"],
        &["doctor"],
        &["test", "scenarios/basics", "--verbose"],
        &["run", file, "--set", "matrix.profile=gpustack", "--out", &dir],
        &["log", &log],
        &["explain", &log, "--job", "chat"],
        &["run", "scenarios/serving/how-many-h200.yaml"],
        &["compare", "scenarios/basics", "--with", "fifo", "--with", "pack"],
    ];
    // A word that is longer than a line, such as an address, stays whole.
    let is_one_word = |line: &str| line.trim().split(' ').any(|word| word.chars().count() > 60);
    for args in commands {
        let said = on_a_terminal(root, args);
        assert!(!said.is_empty(), "{args:?}");
        let wide = said.lines().find(|line| line.chars().count() > 100 && !is_one_word(line));
        assert_eq!(wide, None, "{args:?}");
    }
    let help = stdout(root, &["--help"], 0);
    let names = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = names
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    for name in names {
        let said = on_a_terminal(root, &["help", name]);
        assert_eq!(said.lines().find(|line| line.chars().count() > 100), None, "{name}");
    }
}

fn files_named_for_editors_are_the_scenarios_of_their_folder() {
    let dir = empty();
    let scenario = "scenario: One job runs\nnodes: [{name: a, machine: l4-x1}]\njobs: [{name: j, gpus: 1, duration: 1m}]\n\
                    expect: [{job: j, is: completed, by: 2m}]\n";
    std::fs::write(dir.path().join("one.dryrack.yaml"), scenario).expect("ours");
    std::fs::write(dir.path().join("compose.yaml"), "services: {web: {image: nginx}}\n").expect("ours");
    let said = stdout(dir.path(), &["test", "."], 0);
    assert!(said.contains("one.dryrack.yaml") && said.contains("1 scenario: 1 passed"), "{said}");
}
