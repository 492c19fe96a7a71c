//! The answer of a plan in words: which alternative is enough, how sure that is, and how it was found.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::breaks::BreakResult;
use super::cases::{cells_of_a_case, other_cases, worst_case};
use super::choices::more;
use super::equal_speeds::EqualSpeeds;
use super::horizon_cost::on_average;
use super::interrupted::interrupted;
use super::left_undone::{leaves_jobs_unfinished, left_undone, limit_sentence};
use super::limits::{counts_jobs, limits_a_wait};
use super::order::unordered;
use super::range_ends::has_more;
use super::search::SearchResult;
use super::summary::{Broken, Comparison, NEVER_RUN, Row, in_currency};
use super::sure::{SeedsKept, how_sure};
use dryrack_expect::SeedShare;
use dryrack_scenario::{Horizon, Objective, PlanFile};
use dryrack_units::{counted, grouped};

/// The answer of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The name of the alternative of the answer, if another one may be cheaper.
    pub doubtful: Option<String>,
    /// The answer in a few sentences.
    pub short: String,
    /// How it was found, what else would do, and which fleet it is; may be empty.
    pub how: String,
}

impl Answer {
    /// Begins with the doubt that the answer is the cheapest, because the budget ended early, and with the fleet of fewer
    /// nodes that is enough too. `best` is the cheapest that was run, and `open` says which others were not.
    pub fn with_doubt(&mut self, doubt: Option<(&Row, &str)>, breaks: &[BreakResult]) {
        let Some((best, open)) = doubt else { return };
        let fewer: Vec<&BreakResult> =
            breaks.iter().filter(|found| found.is_less() && found.keeps && found.runs > 0).collect();
        let ended = format!("the budget ended before all {open} were run");
        let each: Vec<&str> = fewer.iter().map(|found| found.change.what.as_str()).collect();
        let why = match fewer.first() {
            Some(first) => {
                format!(": {}, it still meets everything with {}, and {ended}", each.join(", or "), first.run_with())
            }
            None => format!(", because {ended}"),
        };
        self.doubtful = Some(best.name.clone());
        self.short = format!("{} may not be the cheapest{why}. Of those that were run, {}", best.name, self.short);
    }

    /// Begins with the jobs that can never run with the answer, or, without an objective, with any alternative that meets the
    /// constraints. The constraints may allow such jobs.
    pub fn with_never_run(&mut self, comparison: &Comparison, best: Option<&Row>) {
        let keeping = comparison.rows.iter().filter(|row| row.keeps == Some(true));
        let keeping: Vec<&Row> = best.map_or_else(|| keeping.collect(), |best| vec![best]);
        let fewest = keeping.iter().min_by_key(|row| row.unplaceable.as_deref().map_or(0, jobs_of));
        let never = fewest.and_then(|row| never_run_with(row.unplaceable.as_deref()?, &row.name));
        self.short.insert_str(0, &never.unwrap_or_default());
    }

    /// Adds that some jobs can never run with some alternatives because of the GPUs that the trace names. This may be why
    /// an alternative fails.
    pub fn with_absent_gpus(&mut self, names: &BTreeSet<String>, comparison: &Comparison) {
        if !names.is_empty() && comparison.rows.iter().any(|row| row.keeps == Some(false)) {
            let list = Vec::from_iter(names.iter().map(|name| format!("`{name}`"))).join(", ");
            self.short.push_str(&format!(
                " The trace asks for GPU {list}, which some alternatives do not have. Such jobs can never run there; \
                 `gpu_names` in `trace:` lets them run on other GPUs."
            ));
        }
    }

    /// Adds on which GPUs the jobs of the trace may run only because of `gpu_names`.
    pub fn with_substitutes(&mut self, substitutes: &BTreeMap<String, Vec<Arc<str>>>) {
        let each = substitutes
            .iter()
            .map(|(name, gpus)| format!("jobs that ask for GPU `{name}` can run on {}", gpus.join(", ")));
        let all: Vec<String> = each.collect();
        if !all.is_empty() {
            self.short.push_str(&format!(" It assumes what `gpu_names` states: {}.", all.join("; ")));
        }
    }

    /// Adds the machines to the name of the answer, with which it begins.
    pub fn with_fleet(&mut self, best: &Row, fleet: &str) {
        if !fleet.is_empty() && self.short.starts_with(&best.name) {
            self.short.insert_str(best.name.len(), &format!(" ({fleet})"));
        }
    }

    /// Adds which GPUs count as equally fast because the scenario states no speeds.
    pub fn with_equal_speeds(&mut self, equal: &EqualSpeeds) {
        self.short.push_str(&equal.sentence().unwrap_or_default());
    }

    /// Adds which jobs and requests are not in the runs.
    pub fn with_cut_off(&mut self, sentences: &[String]) {
        self.short.extend(sentences.iter().map(|sentence| format!(" {sentence}.")));
    }

    /// Adds how far the model of services was off, if a constraint bounds a time of requests.
    pub fn with_serving_error(&mut self, constraints: &[String]) {
        let names = |word: &str| constraints.iter().any(|constraint| constraint.contains(word));
        if names("ttft") || names("e2e") {
            self.short.push_str(
                " Against a published benchmark, the model of services gave a TTFT under load up to 40% too low, and a TPOT \
                 within 15%, so measure one point near the limit before you rely on it.",
            );
        } else if names("tpot") {
            self.short.push_str(
                " Against a published benchmark, the model of services gave a TPOT up to 15% too low, so measure one point \
                 near the limit before you rely on it.",
            );
        }
    }

    /// Adds when the answer stops being enough while the load grows.
    pub fn with_end(&mut self, end: &str) {
        self.short.push_str(&format!(" With the growth of the plan, {end}."));
    }

    /// Begins with the alternative that is cheapest over the horizon, if it is another one than at the load of month 0.
    pub fn with_cheapest_throughout(
        &mut self,
        plan: &PlanFile,
        horizon: &Horizon,
        (throughout, order): &(Row, String),
    ) {
        let Some(objective) = plan.minimize else { return };
        let cost = on_average(plan, throughout, objective);
        self.short = format!(
            "Over the horizon, {} to {}, {} is the cheapest that stays enough: {cost}.{order} At the load of {}, {}",
            horizon.name(0),
            horizon.name(horizon.months),
            throughout.name,
            horizon.name(0),
            self.short
        );
    }

    pub fn text(&self) -> String {
        format!("{} {}", self.short, self.how).trim_end().to_string()
    }
}

/// Which alternatives may be cheaper than the answer and were not run with all seeds, because the budget ended. `None` if
/// there are none. `found` is the result of a search.
pub fn still_open(plan: &PlanFile, comparison: &Comparison, found: Option<&SearchResult>) -> Option<&'static str> {
    let known = comparison.rows.iter().filter(|row| row.keeps.is_some()).count();
    match found {
        Some(found) => (found.cheaper_unknown > 0).then_some("cheaper alternatives"),
        None => (known < plan.cells()).then_some("alternatives"),
    }
}

/// The answer, and the way in which it was found. `found` is the result of a search.
pub fn answer(plan: &PlanFile, comparison: &Comparison, found: Option<&SearchResult>) -> Answer {
    let rows = comparison.rows.len();
    let Some(objective) = plan.minimize else {
        let keeping = comparison.rows.iter().filter(|row| row.keeps == Some(true)).count();
        let short = match plan.asked.len() {
            0 => format!("{} {} run.", counted(rows, "alternative"), was(rows)),
            constraints => {
                let meet = if keeping == 1 { "meets" } else { "meet" };
                format!("{keeping} of {} {meet} {}.", counted(rows, "alternative"), all_of(constraints))
            }
        };
        return Answer { doubtful: None, short, how: String::new() };
    };
    // Alternatives under other assumptions are no choices.
    let (whole, comparison) = (comparison, &comparison.of_worst_case(plan, objective));
    let best = comparison.cheapest(objective, |_| true);
    let short = match best {
        Some(row) => {
            let fleet = row.amount(objective, plan.currency.as_deref());
            let seeds = counted(row.runs, "seed");
            let undone = left_undone(row);
            let meets = match plan.asked.len() {
                0 => format!("The plan has no constraints. It was run with {seeds}."),
                asked => format!("It meets {} with {}.", all_of(asked), how_sure(plan, row)),
            };
            let order = unordered(plan, comparison, objective, row) + &interrupted(plan, comparison, objective, row);
            match contradicted(plan, comparison, row) {
                // Who reads only the first words would take it that all jobs are done.
                None if leaves_jobs_unfinished(row) => {
                    format!("{} is the cheapest: {fleet}.{undone} {meets}{order}", row.name)
                }
                None => format!("{} is enough: {fleet}. {meets}{undone}{order}", row.name),
                Some(more) => {
                    let rest = above(plan, comparison, objective);
                    format!("{} is the cheapest: {fleet}. {meets}{undone} {more}{rest}{order}", row.name)
                }
            }
        }
        None => {
            let case = worst_case(plan, whole, objective).map_or(String::new(), |case| format!("With {case}: "));
            case + &none_keeps(plan, comparison) + &left_open(plan, whole, found)
        }
    } + &other_cases(plan, whole, objective);
    let known = whole.rows.iter().filter(|row| row.keeps.is_some()).count();
    let mut text = match found {
        Some(found) => format!("{} {}.", how(plan, found), were_run(plan, whole)).trim_start().to_string(),
        None if known == plan.cells() => format!("Each of {} was run.", counted(known, "alternative")),
        None => {
            // Without an answer, this was already said.
            let is_said = best.is_none() || (plan.runs.is_none() && plan.time.is_none());
            let used = if is_said { "" } else { ", because the budget is used up" };
            format!("{}{used}.", were_run(plan, whole))
        }
    };
    if let Some(best) = best {
        text.push_str(&beside(plan, comparison, objective, best));
    }
    Answer { doubtful: None, short, how: text }
}

/// What the first screen of the page shows of the answer: figures, and what each of them is.
pub fn figures(plan: &PlanFile, row: &Row) -> Vec<(String, String)> {
    let of = |count: u64, word: &str| {
        (grouped(&count.to_string()), if count == 1 { word.into() } else { format!("{word}s") })
    };
    let own = if row.rented.is_some() { "own " } else { "" };
    let mut figures = vec![of(row.fleet.nodes, &format!("{own}node"))];
    figures.extend((row.fleet.gpus > 0).then(|| of(row.fleet.gpus, &format!("{own}GPU"))));
    figures.extend(row.rented.map(|rented| {
        let hours = grouped(&format!("{:.1}", rented.hours));
        (rented.size(), format!("rented at a time at most, {hours} instance-hours in all"))
    }));
    figures.extend(row.month(plan.minimize).map(|(month, name)| {
        let rate = if name == "cost" { " at the rate of the run" } else { "" };
        let amount = in_currency(&grouped(&format!("{month:.0}")), plan.currency.as_deref());
        (amount, format!("{name} of a month (730 hours){rate}"))
    }));
    if let Some(SeedsKept { least, .. }) = SeedsKept::of(row).filter(|_| !plan.asked.is_empty()) {
        let all = if row.resampled.is_some() { "all lists of this log" } else { "all" };
        let required = match plan.asked[..] {
            [one] if one != SeedShare::ALL => format!("; required: {one}"),
            _ => String::new(),
        };
        figures.push((
            format!("{} of {}", row.kept, row.runs),
            format!("seeds meet the constraints, so at least {least} of {all} do (95% confidence){required}"),
        ));
    } else if !plan.asked.is_empty() {
        let same = if row.runs > 1 { "all give the same run" } else { "was run" };
        let unknown = format!("{same}, so the share of all runs that meet the constraints is unknown");
        figures.push((counted(row.runs, "seed"), unknown));
    }
    figures
}

/// An alternative that was run, has more than this one, costs more and yet waits too long: the nearest in cost.
fn failing_above<'r>(plan: &PlanFile, comparison: &'r Comparison, row: &Row, objective: Objective) -> Option<&'r Row> {
    let least = row.of(objective)?;
    let waits = |row: &Row| row.broken.as_ref().is_some_and(|broken| limits_a_wait(&broken.constraint));
    let fails = comparison.rows.iter().filter(|other| other.keeps == Some(false) && waits(other));
    let fails = fails.filter(|other| has_more(plan, other, row));
    let dearer = fails.filter_map(|other| Some((other.of(objective)?, other))).filter(|(cost, _)| *cost > least);
    dearer.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, other)| other)
}

/// A sentence if a larger and dearer alternative fails. The one that meets the constraints may then do so by chance.
fn contradicted(plan: &PlanFile, comparison: &Comparison, row: &Row) -> Option<String> {
    let larger = failing_above(plan, comparison, row, plan.minimize?)?;
    let why = larger.broken_text().map_or(String::new(), |why| format!(" ({why})"));
    Some(format!(
        "Do not rely on it: {} has more and fails{why}, so whether the constraints hold is partly chance here.",
        larger.name
    ))
}

/// The cheapest alternative that meets the constraints and above which nothing that was run fails.
fn above(plan: &PlanFile, comparison: &Comparison, objective: Objective) -> String {
    let keeping = comparison.rows.iter().filter(|row| row.keeps == Some(true));
    let settled = keeping.filter(|row| failing_above(plan, comparison, row, objective).is_none());
    let known = settled.filter_map(|row| Some((row.of(objective)?, row)));
    match known.min_by(|(one, _), (other, _)| one.total_cmp(other)) {
        Some((_, row)) => {
            let fleet = row.amount(objective, plan.currency.as_deref());
            format!(" The cheapest above which none that was run fails is {}: {fleet}.", row.name)
        }
        None => " Above each that meets them, another one fails.".to_string(),
    }
}

/// The alternatives that cost the same as the best one and meet all constraints too, and the next one that costs more.
fn beside(plan: &PlanFile, comparison: &Comparison, objective: Objective, best: &Row) -> String {
    let Some(least) = best.of(objective) else { return String::new() };
    let keeping = || comparison.rows.iter().filter(|row| row.keeps == Some(true) && row.cell != best.cell);
    let cost = |row: &&Row| row.of(objective).unwrap_or(f64::INFINITY);
    let equal: Vec<&str> =
        keeping().filter(|row| cost(row).total_cmp(&least).is_eq()).map(|row| row.name.as_str()).collect();
    let asked = if plan.asked.len() < 2 { "the constraint" } else { "all constraints" };
    let mut text = match equal[..] {
        [] => String::new(),
        [one] => format!(" {one} costs the same as the answer and meets {asked} too."),
        [first, ..] => format!(
            " {} cost the same as the answer and meet {asked} too; the first is {first}.",
            counted(equal.len(), "other alternative")
        ),
    };
    let is_whole = comparison.rows.len() == cells_of_a_case(plan);
    let of = if is_whole { "The" } else { "Of those that were run, the" };
    let dearer = comparison.cheapest(objective, |row| row.of(objective).is_some_and(|cost| cost > least));
    text.push_str(&match dearer {
        Some(next) => {
            let amount = next.amount(objective, plan.currency.as_deref());
            let more = more(objective, best, next);
            format!(" {of} next cheapest that meets {asked} is {}: {amount}{more}.", next.name)
        }
        None if is_whole => format!(" No dearer alternative meets {asked}."),
        None => format!(" No dearer alternative that meets {asked} was run."),
    });
    text
}

/// What a reader must know if instances are created on demand and only the time until placement is limited. A replica is
/// placed as soon as its instance is requested, so this time leaves out the start of the instance.
pub fn start_wait_note(comparison: &Comparison, constraints: &[String]) -> Option<String> {
    let names = |word: &str| constraints.iter().any(|constraint| constraint.contains(word));
    (comparison.rows.iter().any(Row::creates_instances) && names("queue_wait") && !names("start_wait")).then(|| {
        "Instances are created on demand, and only queue_wait is limited: it ends when a replica is placed on an \
         instance that was requested, not when the instance is up and the replica starts. Limit start_wait as well, such \
         as p95(start_wait) <= 30m."
            .to_string()
    })
}

/// The violated constraints of all alternatives, and whether each is violated because jobs can never run.
fn failures(comparison: &Comparison) -> impl Iterator<Item = (&Row, &Broken, bool)> {
    let broken = comparison.rows.iter().filter_map(|row| Some((row, row.broken.as_ref()?)));
    broken.map(|(row, broken)| {
        let is_counted = row.unplaceable.is_some() && counts_jobs(&broken.constraint);
        (row, broken, is_counted || broken.happened.contains(NEVER_RUN))
    })
}

/// The number of jobs at the beginning of a sentence.
fn jobs_of(sentence: &str) -> u64 {
    sentence.split(' ').next().and_then(|jobs| jobs.parse().ok()).unwrap_or(u64::MAX)
}

/// The sentence about jobs that can never run, with the name of the alternative.
fn never_run_with(sentence: &str, name: &str) -> Option<String> {
    sentence.contains(NEVER_RUN).then(|| sentence.replacen(NEVER_RUN, &format!("{NEVER_RUN} with {name}"), 1) + ". ")
}

/// A sentence if jobs can never run with any alternative that was run: their number in the best case, and why.
fn never_run(comparison: &Comparison) -> Option<String> {
    if failures(comparison).any(|(.., is_never)| !is_never) {
        return None;
    }
    let said =
        failures(comparison).map(|(row, broken, _)| (row, row.unplaceable.as_deref().unwrap_or(&broken.happened)));
    let (row, sentence) = said.min_by_key(|(_, sentence)| jobs_of(sentence))?;
    never_run_with(sentence, &row.name)
}

/// The answer if no alternative is known to satisfy the constraints. Alternatives that were not run might still do so.
fn none_keeps(plan: &PlanFile, comparison: &Comparison) -> String {
    let limit = limit_sentence(comparison, plan.minimize);
    never_run(comparison).unwrap_or_default() + &none_of_them(plan, comparison) + &limit
}

/// A sentence if no alternative is known to meet the constraints, but some were not run with enough seeds.
fn left_open(plan: &PlanFile, comparison: &Comparison, found: Option<&SearchResult>) -> String {
    let known = comparison.rows.iter().filter(|row| row.keeps.is_some()).count();
    match found.map_or(plan.cells() - known, |found| found.cheaper_unknown) {
        0 => String::new(),
        open => {
            let is_other = comparison.rows.iter().any(|row| row.keeps.is_some());
            let which = if is_other { "other alternative" } else { "alternative" };
            format!(" The budget is used up: the result for {} is unknown.", counted(open, which))
        }
    }
}

fn none_of_them(plan: &PlanFile, comparison: &Comparison) -> String {
    let asked = all_of(plan.asked.len());
    let open = comparison.rows.iter().filter(|row| row.keeps.is_none()).count();
    let enough = if open == 0 { "" } else { " with enough seeds" };
    match comparison.rows.len() - open {
        0 if open == 0 => format!("It is unknown whether any alternative meets {asked}, because none was run."),
        0 => format!("It is unknown whether any alternative meets {asked}, because none was run with enough seeds."),
        1 => {
            let what = what_fails(comparison);
            format!("The one alternative that was run{enough} does not meet {asked}.{what}")
        }
        failing => format!(
            "None of the {} that were run{enough} meets {asked}.{}",
            counted(failing, "alternative"),
            what_fails(comparison)
        ),
    }
}

/// How many alternatives were run. One with too few seeds to decide about it is counted separately.
fn were_run(plan: &PlanFile, comparison: &Comparison) -> String {
    let partly = comparison.rows.iter().filter(|row| row.keeps.is_none()).count();
    let run = comparison.rows.len() - partly;
    let partly = if partly == 0 { String::new() } else { format!(", and {partly} with too few seeds") };
    format!("{run} of {} {} run{partly}", counted(plan.cells(), "alternative"), was(run))
}

/// The largest number of failing constraints that the answer names.
const NAMED: usize = 3;

/// The constraints that fail, those of most alternatives first. Of each alternative, only its first one is counted.
fn what_fails(comparison: &Comparison) -> String {
    let mut counts: BTreeMap<(bool, &str), usize> = BTreeMap::new();
    for (_, broken, is_never) in failures(comparison) {
        *counts
            .entry((!is_never, if is_never { "jobs that can never run" } else { &broken.constraint }))
            .or_default() += 1;
    }
    let mut counts: Vec<((bool, &str), usize)> = counts.into_iter().collect();
    // Jobs that can never run come first.
    counts.sort_by_key(|((is_other, _), count)| (*is_other, Reverse(*count)));
    let counts: Vec<(&str, usize)> = counts.into_iter().map(|((_, name), count)| (name, count)).collect();
    match counts[..] {
        [] => String::new(),
        [("jobs that can never run", 1)] => String::new(),
        [("jobs that can never run", _)] => " Some jobs can never run with each of them.".to_string(),
        [(constraint, 1)] => format!(" {constraint} fails."),
        [(constraint, _)] => format!(" {constraint} fails with each of them."),
        _ => {
            let named: Vec<String> = counts
                .iter()
                .take(NAMED)
                .map(|(constraint, count)| format!("{constraint} in {count} of them"))
                .collect();
            let more = if counts.len() > NAMED { " and others" } else { "" };
            format!(" What fails first: {}{more}.", named.join(", "))
        }
    }
}

fn was(count: usize) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

fn all_of(constraints: usize) -> String {
    match constraints {
        1 => "the constraint".to_string(),
        2 => "both constraints".to_string(),
        constraints => format!("all {constraints} constraints"),
    }
}

/// Why alternatives that were not run are presumed to fail.
fn why_presumed(found: &SearchResult, factors: &str) -> String {
    let with_less = format!("an alternative that has more {factors} and is otherwise the same fails");
    let with_more = format!(
        "an alternative that has less {factors} and is otherwise the same breaks a constraint which more machines break, such as \
         a budget"
    );
    match found.cheaper_presumed - found.presumed_with_more {
        0 => with_more,
        _ if found.presumed_with_more == 0 => with_less,
        _ => format!("{with_less}, or {with_more}"),
    }
}

/// Which part of the answer was run, which was presumed, and how the presumption was tested.
fn how(plan: &PlanFile, found: &SearchResult) -> String {
    let names = |factors: &[usize]| {
        factors.iter().map(|factor| format!("`{}`", plan.factors[*factor].name)).collect::<Vec<_>>().join(" and ")
    };
    let what = if found.best.is_some() { "cheaper alternative" } else { "alternative" };
    let mut text = match (found.cheaper_failing, found.cheaper_presumed) {
        (0, 0) if found.cheaper_unknown > 0 => String::new(),
        (0, 0) => format!("There is no {what}."),
        (1, 0) => format!("The only {what} was run and fails."),
        (failing, 0) => format!("Each of {} was run and fails.", counted(failing, what)),
        (failing, presumed) => format!(
            "Of {}, {failing} {} run and {}; {presumed} {} not run. {} presumed to fail, because {}.",
            counted(failing + presumed, what),
            was(failing),
            if failing == 1 { "fails" } else { "fail" },
            was(presumed),
            if presumed == 1 { "It is" } else { "They are" },
            why_presumed(found, &names(&found.monotone)),
        ),
    };
    if found.cheaper_presumed > 0 && found.tested == 0 {
        text.push_str(" No alternative was run to test this.");
    } else if found.cheaper_presumed > 0 {
        let tested = counted(found.tested, "alternative");
        let fail = if found.tested == 1 { "fails" } else { "fail" };
        text.push_str(&format!(" To test this, {tested} {} run, which {fail}.", was(found.tested)));
    }
    if !found.refuted.is_empty() {
        text.push_str(&format!(
            " More {} made an alternative worse, so nothing is presumed from it.",
            names(&found.refuted)
        ));
    }
    if found.cheaper_unknown > 0 && found.best.is_some() {
        text.push_str(&format!(
            " The budget is used up: the result for {} is unknown.",
            counted(found.cheaper_unknown, what)
        ));
    }
    text.trim_start().to_string()
}

#[cfg(test)]
mod tests {
    use super::super::samples::{alternative, plan};
    use super::*;

    /// With more of `n`, jobs must not wait longer. A budget that is exceeded with more is no contradiction.
    #[test]
    fn an_answer_above_which_one_waits_too_long_is_not_said_to_be_enough() {
        let plan = plan();
        let of = |broken: [Option<&str>; 3]| {
            let rows = broken.iter().enumerate().map(|(cell, broken)| alternative(cell, *broken)).collect();
            answer(&plan, &Comparison { rows }, None).short
        };
        assert_eq!(
            of([None, Some("p95(queue_wait) <= 30m"), None]),
            "n=1 is the cheapest: 1 GPU. It meets the constraint with 1 seed. Do not rely on it: n=2 has more and fails \
             (p95(queue_wait) <= 30m, seed 1), so whether the constraints hold is partly chance here. The cheapest above \
             which none that was run fails is n=3: 3 GPUs."
        );
        let enough = "n=1 is enough: 1 GPU. It meets the constraint with 1 seed.";
        assert_eq!(of([None, Some("cost_per_month <= 3000"), None]), enough);
        assert_eq!(of([None, None, None]), enough);
        assert_eq!(
            of([Some("p95(queue_wait) <= 30m"), None, None]),
            enough.replace("n=1", "n=2").replace("1 GPU", "2 GPUs")
        );
    }

    #[test]
    fn an_answer_without_an_alternative_says_what_fails() {
        let of = |broken: [&str; 3]| {
            let rows = broken.iter().enumerate().map(|(cell, broken)| alternative(cell, Some(broken))).collect();
            answer(&plan(), &Comparison { rows }, None).short
        };
        let none = "None of the 3 alternatives that were run meets the constraint.";
        let (wait, placed) = ("p95(queue_wait) <= 30m", "placed >= 99%");
        assert_eq!(of([wait; 3]), format!("{none} {wait} fails with each of them."));
        assert_eq!(
            of([placed, wait, wait]),
            format!("{none} What fails first: {wait} in 2 of them, {placed} in 1 of them.")
        );
    }
}
