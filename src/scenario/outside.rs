//! `outside:`: a scheduler in another process that decides in this scenario.

use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;

use dryrack_outside::{Command, KUBE_SCHEDULER, Setup, ThinkTime};
use dryrack_units::SimDuration;
use dryrack_yaml::{Fields, Node, Report, Tree, text, value};

/// Keys of the map.
const FIELDS: [&str; 8] =
    ["command", "kube-scheduler", "deadline", "start", "restarts", "thinking", "unsafe", "driver"];

/// The words for the treatment of placements that break safety; `true` means that they are carried out.
pub(super) const WHEN_UNSAFE: [(&str, bool); 2] = [("allowed", true), ("refused", false)];

/// The words for the thinking time that is charged to the simulated clock. A fixed time is allowed too.
pub(super) const THINKING: [(&str, ThinkTime); 3] =
    [("none", ThinkTime::Free), ("measured", ThinkTime::Measured), ("stated", ThinkTime::Stated)];

/// Whether a kube-scheduler decides, as the file or the command line says.
pub(super) fn is_kube_scheduler(file: &Fields<'_>, typed: Option<&Command>) -> bool {
    let named = |tree: &Tree| match tree.scalar() {
        Some(text) => text.starts_with(KUBE_SCHEDULER),
        None => tree.get("kube-scheduler").is_some(),
    };
    match typed {
        Some(command) => matches!(command, Command::KubeScheduler { .. }),
        None => file.get("outside").is_some_and(named),
    }
}

/// Reads `outside: {command: [python3, first_fit.py]}`. A command on the command line replaces the command of the file,
/// and also works if the file has no `outside:`. It comes with the folder in which it is started.
pub(super) fn read(
    file: &Fields<'_>,
    folder: &Path,
    typed: Option<(&Command, &Path)>,
    report: &mut Report,
) -> Option<Setup> {
    let of_typed = |(command, folder): (&Command, &Path)| Setup::of(command.clone(), folder.to_path_buf());
    let Some(tree) = file.get("outside") else { return typed.map(of_typed) };
    // `outside: gpustack==0.6.0` needs no further fields.
    if let Some(text) = tree.scalar().filter(|_| !tree.is_nothing()) {
        if let Some(typed) = typed {
            return Some(of_typed(typed));
        }
        return match Command::read(text) {
            Ok(command) => Some(Setup::of(command, folder.to_path_buf())),
            Err(error) => {
                let help = "name a released program, or write `{command: [python3, first_fit.py]}`";
                report.error_with_help(tree.span, error.to_string(), help);
                None
            }
        };
    }
    let fields = Fields::read(tree, "a scheduler outside", &FIELDS, report)?;
    fields.exclusive(&["command", "kube-scheduler"], "each names the program that decides", report);
    let own = match (fields.get("command").or_else(|| fields.get("kube-scheduler")), typed) {
        (Some(tree), _) => command(tree, fields.has("kube-scheduler"), report),
        (None, Some(_)) => None,
        // Without a command, the entry is for programs that are named elsewhere, and the profile decides.
        (None, None) if fields.get("driver").is_some() => None,
        (None, None) => {
            fields.require("command", "[python3, first_fit.py]", report);
            None
        }
    };
    if matches!(own.as_ref().or(typed.map(|(typed, _)| typed)), Some(Command::KubeScheduler { .. })) {
        for key in ["thinking", "driver"].into_iter().filter(|key| fields.has(key)) {
            let message = format!("`{key}` has no meaning for kube-scheduler");
            let help = "its thinking takes no simulated time; `kube-scheduler: [PATH, --config, FILE]` configures it";
            report.error_with_help(fields.key_span(key), message, help);
        }
    }
    let setup = settings(&fields, report);
    match typed {
        Some((command, folder)) => Some(setup(command.clone(), folder)),
        None => own.map(|command| setup(command, folder)),
    }
}

/// Reads everything but the command.
fn settings(fields: &Fields<'_>, report: &mut Report) -> impl FnOnce(Command, &Path) -> Setup + use<> {
    let real = |length: SimDuration| Duration::from_nanos(length.as_nanos());
    let (mut deadline, mut start) = (Setup::DEADLINE, Setup::START);
    for (key, place) in [("deadline", &mut deadline), ("start", &mut start)] {
        if let Some(length) = fields.value::<SimDuration>(key, report) {
            if length.is_zero() {
                let message = format!("with a `{key}` of 0, no answer is possible");
                report.error_with_help(fields.key_span(key), message, "write `10s`, or leave it out");
            }
            *place = real(length);
        }
    }
    let restarts = fields.count("restarts", 0, report).unwrap_or(0);
    let thinking = fields.get("thinking").and_then(|tree| thinking(tree, report)).unwrap_or_default();
    let words = fields.word("unsafe", "a value of `unsafe`", &WHEN_UNSAFE, report);
    let allows_unsafe = words.unwrap_or(true);
    let driver = fields.get("driver").map_or(Json::Null, |tree| match &tree.node {
        Node::Map(_) => tree.to_json(),
        _ if tree.is_nothing() => Json::Null,
        Node::List(_) | Node::Scalar { .. } => {
            let message = format!("expected a map of settings, found {}", tree.kind());
            report.error_with_help(tree.span, message, "write `{weights: {qwen: 61GiB}}`");
            Json::Null
        }
    });
    move |command, folder| Setup {
        deadline,
        start,
        restarts,
        thinking,
        allows_unsafe,
        driver,
        ..Setup::of(command, folder.to_path_buf())
    }
}

/// Reads a command as a list of words or as one command line. It may be the path of a kube-scheduler and its flags.
fn command(tree: &Tree, is_kube_scheduler: bool, report: &mut Report) -> Option<Command> {
    let read = match &tree.node {
        Node::List(items) => {
            let words = items.iter().map(|item| text(item, "a word of the command", report).map(str::to_string));
            let words = words.collect::<Option<Vec<String>>>()?;
            if is_kube_scheduler { Command::kube_scheduler(&words) } else { Command::of(words) }
        }
        Node::Scalar { .. } | Node::Map(_) if is_kube_scheduler => {
            let typed = text(tree, "the path of a kube-scheduler", report)?;
            Command::read(&format!("{KUBE_SCHEDULER}{typed}"))
        }
        Node::Scalar { .. } | Node::Map(_) => {
            Command::read(text(tree, "a command such as `[python3, first_fit.py]`", report)?)
        }
    };
    match read {
        Ok(command) => Some(command),
        Err(error) => {
            let example = if is_kube_scheduler { "./kube-scheduler" } else { "[python3, first_fit.py]" };
            report.error_with_help(tree.span, error.to_string(), format!("write `{example}`"));
            None
        }
    }
}

fn thinking(tree: &Tree, report: &mut Report) -> Option<ThinkTime> {
    match THINKING.iter().find(|(word, _)| tree.scalar() == Some(word)) {
        Some((_, thinking)) => Some(*thinking),
        None if tree.scalar().is_some_and(|text| text.starts_with(|letter: char| letter.is_ascii_digit())) => {
            value::<SimDuration>(tree, report).map(ThinkTime::Fixed)
        }
        None => {
            let found = text(tree, "a value of `thinking`", report)?;
            let message = format!("expected a value of `thinking`, found `{found}`");
            report.error_with_help(tree.span, message, "write none, measured, stated, or a time such as `250ms`");
            None
        }
    }
}
