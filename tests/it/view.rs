//! `dryrack view` in a real terminal: a pseudo-terminal whose screen another program would show, read by a parser of
//! its escape codes.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tempfile::TempDir;

use crate::cli::{empty, stderr, stdout};

trials! {
    Nothing: [
        a_run_is_walked_through_in_a_terminal,
        colours_are_left_out_if_they_are_not_wanted,
        a_terminal_is_given_back_when_the_program_is_told_to_end,
        one_picture_is_printed_without_a_terminal,
        without_a_terminal_it_says_what_to_do,
    ]
}

const SCENARIO: &str = "\
scenario: Two jobs want one GPU
nodes:
  - {name: alpha, gpus: 1, gpu: l4}
  - {name: beta, gpus: 1, gpu: l4, state: not_ready}
jobs:
  - {name: chat, at: 10s, gpus: 1, duration: 1m}
  - {name: late, at: 20s, gpus: 1, duration: 1m}
expect:
  - {name: starts_soon, job: late, is: running, by: 30s}
  - {name: ends, job: late, is: completed, by: 5m}
";

/// How long a picture may take to appear, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

fn recorded() -> TempDir {
    let dir = empty();
    std::fs::write(dir.path().join("two.yaml"), SCENARIO).expect("a folder of our own");
    stdout(dir.path(), &["run", "two.yaml", "--out", "out"], 1);
    dir
}

struct Terminal {
    master: File,
    parser: vt100::Parser,
    bytes: Receiver<Vec<u8>>,
    child: Child,
}

impl Terminal {
    fn open(dir: &Path, rows: u16, columns: u16, has_colours: bool) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("ours");
        unlockpt(&master).expect("ours");
        tcsetwinsize(&master, size(rows, columns)).expect("a size");
        let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
        let side = || File::options().read(true).write(true).open(&name).expect("the other side");
        // The terminal must be the one that controls the program, or it is not told of a new size.
        let mut command = Command::new("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_dryrack"), "view", "out/events.jsonl"]).current_dir(dir);
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("DRYRACK_DATA");
        if !has_colours {
            command.env("NO_COLOR", "1");
        }
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().expect("setsid starts it");
        let master = File::from(master);
        let mut input = master.try_clone().expect("the same terminal");
        let (tell, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The last program that has the terminal open ends the stream with an error.
            while let Ok(count @ 1..) = input.read(&mut buffer) {
                if tell.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { master, parser: vt100::Parser::new(side_of(rows), side_of(columns), 0), bytes, child }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("it reads");
    }

    /// Waits for a screen with all of these texts.
    fn until(&mut self, texts: &[&str]) {
        let is_shown = |parser: &vt100::Parser| {
            let shown = parser.screen().contents();
            texts.iter().all(|text| shown.contains(text))
        };
        while !is_shown(&self.parser) {
            match self.bytes.recv_timeout(PATIENCE) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(error) => panic!("{error}: {texts:?} in\n{}", self.parser.screen().contents()),
            }
        }
    }

    /// Waits for the end, and checks that the terminal is as it was.
    fn ended(mut self) {
        let status = self.child.wait().expect("our own child");
        assert!(status.success(), "{status}");
        while let Ok(bytes) = self.bytes.recv_timeout(PATIENCE) {
            self.parser.process(&bytes);
        }
        let screen = self.parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", screen.contents());
        let modes = tcgetattr(&self.master).expect("a terminal").local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
    }
}

fn side_of(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells).expect("some cells")
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn a_run_is_walked_through_in_a_terminal() {
    let dir = recorded();
    let mut terminal = Terminal::open(dir.path(), 24, 80, true);
    terminal.until(&["Two jobs want one GPU", "10s of 2m10s", "1/2 nodes", "beta", "not_ready", "1 expectation fails"]);
    let colours = (0..24).flat_map(|row| (0..80).map(move |column| (row, column)));
    let has_colour = |(row, column)| {
        terminal.parser.screen().cell(row, column).is_some_and(|cell| cell.fgcolor() != vt100::Color::Default)
    };
    assert!(colours.into_iter().any(has_colour));
    // To the failure, whose job is then explained: the only GPU that is ready is taken.
    terminal.press("n");
    terminal.until(&["starts_soon failed", "late at 20s", "insufficient_gpus"]);
    // The pane of the explanation alone, and back.
    terminal.press("\t\tz");
    terminal.until(&["beta would fit without node_not_ready"]);
    terminal.press("z");
    terminal.until(&["chat          since 10s   running"]);
    // The end, by its escape code, and back to the start.
    terminal.press("\u{1b}[F");
    terminal.until(&["2m10s of 2m10s", "0 wait", "2 done"]);
    terminal.press("\u{1b}[H");
    terminal.until(&["10s of 2m10s"]);
    // `late` starts when `chat` ends.
    terminal.press("/late placed");
    terminal.until(&["/late placed"]);
    terminal.press("\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}completed\r");
    terminal.until(&["1m10s of 2m10s", "chat", "completed"]);
    terminal.press("?");
    terminal.until(&["next, previous expectation that failed"]);
    terminal.press("?");
    // A wider and lower terminal.
    tcsetwinsize(&terminal.master, size(20, 120)).expect("a size");
    terminal.parser.set_size(side_of(20), side_of(120));
    terminal.until(&["1m10s of 2m10s", "▲"]);
    terminal.press(" ");
    terminal.until(&["2m10s of 2m10s"]);
    terminal.press("q");
    terminal.ended();
}

fn colours_are_left_out_if_they_are_not_wanted() {
    let dir = recorded();
    let mut terminal = Terminal::open(dir.path(), 24, 80, false);
    terminal.until(&["1 expectation fails"]);
    let screen = terminal.parser.screen();
    let cells = (0..24).flat_map(|row| (0..80).filter_map(move |column| screen.cell(row, column)));
    let coloured: Vec<&str> = cells
        .filter(|cell| (cell.fgcolor(), cell.bgcolor()) != (vt100::Color::Default, vt100::Color::Default))
        .map(vt100::Cell::contents)
        .collect();
    assert_eq!(coloured, Vec::<&str>::new());
    // Control-C.
    terminal.press("\u{3}");
    terminal.ended();
}

fn a_terminal_is_given_back_when_the_program_is_told_to_end() {
    let dir = recorded();
    let mut terminal = Terminal::open(dir.path(), 24, 80, true);
    terminal.until(&["Two jobs want one GPU"]);
    let process = rustix::process::Pid::from_child(&terminal.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("our own child");
    terminal.ended();
}

fn one_picture_is_printed_without_a_terminal() {
    let dir = recorded();
    let args = ["view", "out/events.jsonl", "--at", "30s", "--job", "late", "--print", "100x20"];
    let picture = stdout(dir.path(), &args, 0);
    assert_eq!(picture.lines().count(), 20);
    assert!(picture.lines().all(|line| line.chars().count() <= 100), "{picture}");
    for part in ["20s of 2m10s", "1/2 nodes", "alpha A", "beta  · not_ready", "1 wait  1 placed", "B late"] {
        assert!(picture.contains(part), "{part:?} in\n{picture}");
    }
}

fn without_a_terminal_it_says_what_to_do() {
    let dir = recorded();
    let why = "error: `view` needs a terminal; `--print 80x24` prints one picture as text, and `dryrack log` prints the \
               events\n";
    assert_eq!(stderr(dir.path(), &["view", "out/events.jsonl"], 2), why);
    let why = stderr(dir.path(), &["view", "out/events.jsonl", "--print", "0x9"], 2);
    assert!(why.contains("expected a width and a height from 1 to 1000, such as 80x24"), "{why}");
    let why = stderr(dir.path(), &["view", "out/events.jsonl", "--format", "json"], 2);
    assert!(why.contains("`dryrack log --format json`"), "{why}");
}
