//! Overrides from the command line, applied to the tree before anything is checked.
//!
//! `--set nodes.alpha.state=not_ready` names an entry of a list by its `name` (or `profile`), or by its index counted
//! from 0. `--set 'faults.+={at: 1h, node: alpha, becomes: crashed}'` adds an item to a list. The value is YAML. An error in the value points into the command line, because the value's span lies there.

use std::sync::Arc;

use super::options::Options;
use dryrack_yaml::{COMMAND_LINE, Entry, Node, Report, Span, Tree, parse};

/// The step of a path that adds an item to a list.
const APPEND: &str = "+";

/// One override: the option as typed (such as `--set`), and its argument.
pub(super) struct Override<'t> {
    pub option: &'t str,
    /// The path that the option sets, with `=`: `seed=` for `--seed`; empty for `--set`, whose argument has the path.
    pub path: &'t str,
    pub argument: &'t str,
    /// The places of the path and the value, if they come from a plan instead of the command line.
    pub place: Option<(Span, Span)>,
}

/// The overrides of `--set` or of a plan, in the order given.
pub(super) fn given<'o>(options: &'o Options, report: &mut Report) -> Vec<Override<'o>> {
    let Some(plan) = &options.plan else {
        let typed = |argument: &'o String| Override { option: "--set", path: "", argument, place: None };
        return options.set.iter().map(typed).collect();
    };
    let source = report.add_source(&*plan.name, Arc::clone(&plan.text));
    let places = plan.places.iter().map(|place| place.map(|(path, value)| (path.of(source), value.of(source))));
    let set = options.set.iter().zip(places);
    set.map(|(argument, place)| Override { option: "--set", path: "", argument, place }).collect()
}

/// A step of a path, with its place.
struct Step {
    name: String,
    span: Span,
}

/// Applies one override.
pub(super) fn apply(tree: &mut Tree, over: &Override<'_>, report: &mut Report) {
    let prefix = format!("{} ", over.option);
    let source = report.add_source(COMMAND_LINE, format!("{prefix}{}", over.argument));
    let typed = source.span(prefix.len(), prefix.len() + over.argument.len());
    let whole = over.place.map_or(typed, |(_, value)| value);
    let (path, value_start) = match (over.path, over.argument.find('=')) {
        ("", Some(at)) => (&over.argument[..at], prefix.len() + at + 1),
        ("", None) => {
            let message = format!("`{}` sets nothing", over.argument);
            return report.error_with_help(whole, message, "write PATH=VALUE, for example nodes.alpha.state=not_ready");
        }
        (path, _) => (path, prefix.len()),
    };
    let steps = match over.path {
        "" => split(path, prefix.len(), |start, end| over.place.map_or(source.span(start, end), |(path, _)| path)),
        path => vec![Step { name: path.to_string(), span: source.span(0, over.option.len()) }],
    };
    if steps.iter().any(|step| step.name.is_empty()) {
        let help = "write names separated by dots, for example nodes.alpha.state";
        return report.error_with_help(whole, format!("`{path}` is not a path"), help);
    }
    if over.path.is_empty() && over.argument[value_start - prefix.len()..].trim().is_empty() {
        let help =
            "write a value after the `=`, for example nodes.alpha.state=not_ready or 'jobs=[{name: chat, gpus: 1}]'";
        return report.error_with_help(whole, format!("the value for `{path}` is missing"), help);
    }
    // Replace the text before the value with spaces, so that the value's spans match the typed text.
    let text = format!("{}{}", " ".repeat(value_start), &over.argument[value_start - prefix.len()..]);
    let value = match text.trim().is_empty() {
        true => Some(Tree { span: whole, node: Node::Scalar { text: String::new(), quoted: false } }),
        false => parse(&text, source, report),
    };
    if let Some(mut value) = value {
        if let Some((_, place)) = over.place {
            value.place(place);
        }
        put(tree, &steps, value, "the file", report);
    }
}

/// Splits a path at dots. A step in double quotes may contain dots.
fn split(path: &str, offset: usize, span: impl Fn(usize, usize) -> Span) -> Vec<Step> {
    let mut steps = Vec::new();
    let (mut start, mut is_quoted) = (0, false);
    for (at, letter) in path.char_indices().chain([(path.len(), '.')]) {
        match letter {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted || at == path.len() => {
                let name = path[start..at].trim_matches('"').to_string();
                steps.push(Step { name, span: span(offset + start, offset + at) });
                start = at + 1;
            }
            _ => {}
        }
    }
    steps
}

fn put(tree: &mut Tree, steps: &[Step], value: Tree, within: &str, report: &mut Report) {
    let Some((step, rest)) = steps.split_first() else {
        *tree = value;
        return;
    };
    if step.name == APPEND {
        return append(tree, step, rest, value, (within, report));
    }
    if tree.is_nothing() {
        *tree = Tree::map(step.span);
    }
    match &mut tree.node {
        Node::Map(entries) => {
            let at = entries.iter().position(|entry| entry.key == step.name).unwrap_or_else(|| {
                // Add an unknown key as it is. The later check of the file knows all keys and rejects it.
                entries.push(Entry { key: step.name.clone(), key_span: step.span, value: Tree::map(step.span) });
                entries.len() - 1
            });
            put(&mut entries[at].value, rest, value, &step.name, report);
        }
        Node::List(items) => match find(items, &step.name) {
            Some(item) => put(item, rest, value, &step.name, report),
            None => {
                let names: Vec<String> = items.iter().filter_map(|item| name_of(item)).map(str::to_string).collect();
                let message = match step.name.parse::<usize>() {
                    Ok(_) => format!("`{within}` has {} entries; the first has the index 0", items.len()),
                    Err(_) => format!("no entry of `{within}` is named `{}`", step.name),
                };
                report.unknown(step.span, message, &step.name, names.iter().map(String::as_str));
            }
        },
        Node::Scalar { .. } => {
            let help = format!("set `{within}` itself, or write it as a map in the file");
            report.error_with_help(step.span, format!("`{within}` is a single value and has no `{}`", step.name), help);
        }
    }
}

/// Adds an item to a list. A list that the file does not have is made.
fn append(tree: &mut Tree, step: &Step, rest: &[Step], value: Tree, (within, report): (&str, &mut Report)) {
    if matches!(&tree.node, Node::Map(entries) if entries.is_empty()) || tree.is_nothing() {
        *tree = Tree { span: step.span, node: Node::List(Vec::new()) };
    }
    match &mut tree.node {
        Node::List(items) if rest.is_empty() => items.push(value),
        Node::List(_) => {
            let help = "write the whole item as the value, such as 'faults.+={at: 1h, node: alpha, becomes: crashed}'";
            report.error_with_help(step.span, "a new item has no fields yet", help);
        }
        Node::Map(_) | Node::Scalar { .. } => {
            let help = "name a list, such as `faults.+`";
            report.error_with_help(step.span, format!("`{within}` is not a list, so nothing can be added"), help);
        }
    }
}

fn name_of(item: &Tree) -> Option<&str> {
    match &item.node {
        Node::Map(_) => item.get("name").or(item.get("profile")).and_then(Tree::scalar),
        Node::Scalar { .. } => item.scalar(),
        Node::List(_) => None,
    }
}

fn find<'t>(items: &'t mut [Tree], step: &str) -> Option<&'t mut Tree> {
    let by_name = items.iter().position(|item| name_of(item) == Some(step));
    let at = by_name.or_else(|| step.parse().ok())?;
    items.get_mut(at)
}
