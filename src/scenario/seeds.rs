//! `seeds: 1..100`, and the share of the seeds for which an expectation must hold: `{…, in: ">= 95%"}`.

use std::collections::BTreeSet;

use dryrack_expect::{SeedShare, ShareAt, SourcePlace};
use dryrack_units::Permille;
use dryrack_yaml::{Entry, Node, Report, Tree, text, value};

/// The largest number of seeds.
const MAX_SEEDS: u64 = 100_000;

/// Reads the seeds of a file: a range such as `1..100`, both ends included, or a list. Returns the valid seeds.
pub(super) fn seeds(tree: &Tree, report: &mut Report) -> Vec<u64> {
    if let Node::List(items) = &tree.node {
        if items.is_empty() {
            report.error_with_help(tree.span, "the list of seeds is empty", "write `seeds: 1..100`");
        }
        if items.len() as u64 > MAX_SEEDS {
            let message = format!("the list has more than {MAX_SEEDS} seeds");
            report.error_with_help(tree.span, message, "list fewer");
            return Vec::new();
        }
        let (mut seeds, mut known) = (Vec::new(), BTreeSet::new());
        for item in items {
            let Some(seed) = value::<u64>(item, report) else { continue };
            match known.insert(seed) {
                true => seeds.push(seed),
                false => report.error_with_help(item.span, format!("seed {seed} is listed twice"), "keep one"),
            }
        }
        return seeds;
    }
    let Some(typed) = text(tree, "seeds such as 1..100", report) else { return Vec::new() };
    let ends = typed.split_once("..").map(|(first, last)| (first.trim().parse::<u64>(), last.trim().parse::<u64>()));
    match ends {
        Some((Ok(first), Ok(last))) if first <= last && last - first < MAX_SEEDS => (first..=last).collect(),
        Some((Ok(first), Ok(last))) if first <= last => {
            let message = format!("`{typed}` is more than {MAX_SEEDS} seeds");
            report.error_with_help(tree.span, message, format!("write `{first}..{}` or fewer", first + 999));
            Vec::new()
        }
        Some((Ok(first), Ok(last))) => {
            let message = format!("`{typed}` contains no seed");
            report.error_with_help(tree.span, message, format!("write the smaller seed first: `{last}..{first}`"));
            Vec::new()
        }
        _ => {
            let help = "write `1..100` (both ends included), a list such as `[1, 7]`, or `seed: 7` for one seed";
            report.error_with_help(tree.span, format!("`{typed}` is not a range or list of seeds"), help);
            Vec::new()
        }
    }
}

/// Removes `in:` from the expectations, because the rest of their grammar is about a single run. Without several seeds
/// (`has_seeds`), `in:` is an error.
pub(super) fn take_shares(expect: &mut Tree, has_seeds: bool, report: &mut Report) -> Vec<ShareAt> {
    let Node::List(items) = &mut expect.node else { return Vec::new() };
    let mut shares = Vec::new();
    for item in items {
        let Node::Map(entries) = &mut item.node else { continue };
        let Some(at) = entries.iter().position(|entry| entry.key == "in") else { continue };
        let entry = entries.remove(at);
        if !has_seeds {
            let help = "add `seeds: 1..100` to the file, or leave `in` out";
            report.error_with_help(
                entry.key_span,
                "`in` is a share of the seeds, but the file has only one seed",
                help,
            );
        }
        let Some(share) = share(&entry, report) else { continue };
        let span = entries.first().map_or(item.span.start(), |first| first.key_span);
        let (file, line, column) = report.place(span);
        shares.push(ShareAt { place: SourcePlace { file, line, column }, share });
    }
    shares
}

fn share(entry: &Entry, report: &mut Report) -> Option<SeedShare> {
    let typed = text(&entry.value, "a share of the seeds such as \">= 95%\"", report)?;
    let at_least = typed.strip_prefix(">=");
    let Some(number) = at_least.or(typed.strip_prefix("<=")).map(str::trim) else {
        let number = typed.trim_start_matches(['<', '>', '=', ' ']);
        let help = format!("write \">= {number}\" or \"<= {number}\"");
        report.error_with_help(
            entry.value.span,
            format!("`{typed}` does not state whether the share may be larger or smaller"),
            help,
        );
        return None;
    };
    match number.parse::<Permille>() {
        Ok(part) if part <= Permille::new(1000) => {
            Some(if at_least.is_some() { SeedShare::AtLeast(part) } else { SeedShare::AtMost(part) })
        }
        Ok(part) => {
            report.error_with_help(entry.value.span, format!("{part} is more than all seeds"), "write 100% or less");
            None
        }
        Err(error) => {
            report.error_with_help(entry.value.span, error.to_string(), "write \">= 95%\"");
            None
        }
    }
}
