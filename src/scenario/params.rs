//! Parameters and the matrix: fills in `${gpus}` in any value, and makes one scenario for each cell.

use std::collections::BTreeMap;

use dryrack_yaml::{Entry, Node, Report, SourceId, Span, Tree, emit, text};

/// Fields of the file that an axis of the matrix may name. Any other axis sets a parameter.
pub(super) const OWN_AXES: [&str; 3] = ["profile", "seed", "until"];

/// The largest number of cells of one matrix.
const MAX_CELLS: usize = 1_000;

/// One axis of the matrix: a name and its values. A value is never a list or a map.
pub(super) struct Axis {
    pub name: String,
    pub span: Span,
    pub values: Vec<Tree>,
}

/// The value of `${name}`.
struct Param {
    value: Tree,
    span: Span,
    is_axis: bool,
    is_used: bool,
}

/// All parameters, by name.
#[derive(Default)]
pub(super) struct Params(BTreeMap<String, Param>);

/// Reads the axes of `matrix:`.
pub(super) fn axes(tree: &Tree, report: &mut Report) -> Vec<Axis> {
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected a map from names to values for `matrix`, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `{profile: [first-fit, spread], gpus: [1, 2]}`");
        return Vec::new();
    };
    let mut axes: Vec<Axis> = Vec::new();
    for entry in entries {
        let items = match &entry.value.node {
            Node::List(items) => items.as_slice(),
            _ => std::slice::from_ref(&entry.value),
        };
        if items.is_empty() {
            let help = format!("write `{}: [1, 2]`, or leave it out", entry.key);
            report.error_with_help(entry.value.span, format!("the axis `{}` has no values", entry.key), help);
            continue;
        }
        let mut values: Vec<Tree> = Vec::new();
        for item in items {
            let Some(typed) = text(item, "a single value of the matrix", report) else { continue };
            match values.iter().any(|known| known.scalar() == Some(typed)) {
                true => {
                    let message = format!("`{typed}` is listed twice in the axis `{}`", entry.key);
                    report.error_with_help(item.span, message, "remove one of the two");
                }
                false => values.push(item.clone()),
            }
        }
        if check_name(&entry.key, entry.key_span, report) && !values.is_empty() {
            axes.push(Axis { name: entry.key.clone(), span: entry.key_span, values });
        }
    }
    let cells = axes.iter().try_fold(1usize, |cells, axis| cells.checked_mul(axis.values.len()));
    if cells.is_none_or(|cells| cells > MAX_CELLS) {
        let message = format!("the matrix has more than {MAX_CELLS} combinations");
        report.error_with_help(tree.span, message, "remove values, or split the file");
        // After an error here, check the rest of the file for one cell only.
        axes.iter_mut().for_each(|axis| axis.values.truncate(1));
    }
    axes
}

/// All combinations of one value of each axis. The last axis varies fastest.
pub(super) fn cells<'a>(axes: &'a [Axis]) -> Vec<Vec<(&'a str, &'a Tree)>> {
    let mut cells: Vec<Vec<(&'a str, &'a Tree)>> = vec![Vec::new()];
    for axis in axes {
        let longer = |cell: Vec<(&'a str, &'a Tree)>| {
            let with = move |value| cell.iter().copied().chain([(axis.name.as_str(), value)]).collect();
            axis.values.iter().map(with).collect::<Vec<_>>()
        };
        cells = cells.into_iter().flat_map(longer).collect();
    }
    cells
}

/// Formats an override for `--set`: `matrix.gpus=2`.
pub(super) fn as_override(name: &str, value: &Tree) -> String {
    format!("matrix.{name}={}", emit(value).trim_end())
}

/// Whether this can be the name of a parameter, or of a factor that sets one.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_-".contains(letter))
}

fn check_name(name: &str, span: Span, report: &mut Report) -> bool {
    let is_fine = is_name(name);
    if !is_fine {
        let help = "use letters, digits, `_` and `-`, as in `gpus_per_job`";
        report.error_with_help(span, format!("`{name}` is not a valid name for a parameter"), help);
    }
    is_fine
}

impl Params {
    /// Reads `params:`, and overrides them with the first value of each axis.
    pub fn read(tree: Option<&Tree>, axes: &[Axis], report: &mut Report) -> Params {
        let mut params = Params::default();
        match tree.map(|tree| (&tree.node, tree)) {
            None => {}
            Some((Node::Map(entries), _)) => {
                for entry in entries {
                    params.add(entry, report);
                }
            }
            Some((_, tree)) => {
                let message = format!("expected a map from names to values for `params`, found {}", tree.kind());
                report.error_with_help(tree.span, message, "write `{gpus: 4}`, and use it as `${gpus}`");
            }
        }
        for axis in axes {
            let value = axis.values[0].clone();
            params.0.insert(axis.name.clone(), Param { value, span: axis.span, is_axis: true, is_used: false });
        }
        params
    }

    fn add(&mut self, entry: &Entry, report: &mut Report) {
        if !check_name(&entry.key, entry.key_span, report) {
            return;
        }
        if let Some(inner) = find_reference(&entry.value) {
            let message = format!("`{}` contains another parameter", entry.key);
            report.error_with_help(inner, message, "write the value, or `$${` for a literal `${`");
            return;
        }
        let value = entry.value.clone();
        self.0.insert(entry.key.clone(), Param { value, span: entry.key_span, is_axis: false, is_used: false });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces `${…}` in all values below `tree`.
    pub fn fill(&mut self, tree: &mut Tree, report: &mut Report) {
        match &mut tree.node {
            Node::Scalar { text, .. } if text.contains("${") => {
                match self.filled(tree, report) {
                    Some(filled) => *tree = filled,
                    // The text with its unfilled parameter is not the real value, so further messages about it would
                    // mislead.
                    None => report.suppress(tree.span),
                }
            }
            Node::Scalar { .. } => {}
            Node::List(items) => items.iter_mut().for_each(|item| self.fill(item, report)),
            Node::Map(entries) => entries.iter_mut().for_each(|entry| self.fill(&mut entry.value, report)),
        }
    }

    fn filled(&mut self, tree: &Tree, report: &mut Report) -> Option<Tree> {
        let Node::Scalar { text, .. } = &tree.node else { return None };
        let (mut out, mut at) = (String::new(), 0);
        while let Some(found) = text[at..].find("${").map(|found| at + found) {
            // `$${` is an escaped `${`.
            if text[at..found].ends_with('$') {
                out.push_str(&text[at..found]);
                out.push('{');
                at = found + 2;
                continue;
            }
            out.push_str(&text[at..found]);
            let Some(length) = text[found..].find('}') else {
                let span = tree.span.within(found, 2, text.len());
                report.error_with_help(span, "this `${` is never closed", "add `}`, or write `$${` for a literal `${`");
                return None;
            };
            let name = &text[found + 2..found + length];
            let span = tree.span.within(found, length + 1, text.len());
            let value = self.value(name, span, report)?;
            at = found + length + 1;
            if found == 0 && at == text.len() {
                return Some(value.clone());
            }
            let Some(single) = value.scalar() else {
                let help = format!("write `${{{name}}}` without other text, or give it a single value");
                report.error_with_help(
                    span,
                    format!("`{name}` is {}, which cannot be inserted into a text", value.kind()),
                    help,
                );
                return None;
            };
            out.push_str(single);
        }
        out.push_str(&text[at..]);
        // Mark the result as quoted, because some unquoted texts mean an empty value in YAML.
        Some(Tree { span: tree.span, node: Node::Scalar { text: out, quoted: true } })
    }

    fn value(&mut self, name: &str, span: Span, report: &mut Report) -> Option<&Tree> {
        if self.0.contains_key(name) {
            let param = self.0.get_mut(name)?;
            param.is_used = true;
            return Some(&param.value);
        }
        let message = format!("no parameter is named `{name}`");
        match self.0.is_empty() {
            true => report.error_with_help(span, message, format!("add `params: {{{name}: …}}`")),
            false => report.unknown(span, message, name, self.0.keys().map(String::as_str)),
        }
        None
    }

    /// Reports unused parameters. An unused axis is an error, because it changes nothing. An unused parameter of the
    /// file itself is a warning.
    pub fn report_unused(&self, own: SourceId, report: &mut Report) {
        for (name, param) in self.0.iter().filter(|(_, param)| !param.is_used) {
            if param.is_axis && !OWN_AXES.contains(&name.as_str()) {
                let message = format!("no value depends on the axis `{name}`");
                let near = dryrack_nearest::nearest(name, OWN_AXES);
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("write `${{{name}}}` where its values are needed"),
                };
                report.error_with_help(param.span, message, help);
            } else if !param.is_axis && param.span.source() == own {
                let help = format!("write `${{{name}}}` where it is needed, or remove it");
                report.warning(param.span, format!("the parameter `{name}` is not used"), help);
            }
        }
    }
}

/// Returns the place of the first value that contains an unescaped `${`.
fn find_reference(tree: &Tree) -> Option<Span> {
    match &tree.node {
        Node::Scalar { text, .. } => {
            let mut found = text.match_indices("${");
            found.any(|(at, _)| !text[..at].ends_with('$')).then_some(tree.span)
        }
        Node::List(items) => items.iter().find_map(find_reference),
        Node::Map(entries) => entries.iter().find_map(|entry| find_reference(&entry.value)),
    }
}
