//! How the answer of a plan would break: runs of the answer with one node less of each kind, and with more load.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::limits::{LimitedWaits, is_of_waiting};
use super::plan_run::{EACH_CAN_RUN, PlanRun};
use super::summary::Row;
use dryrack_engine::Rehearsal;
use dryrack_expect::SeedShare;
use dryrack_fleet::{NodeShape, NodeState, offer_of};
use dryrack_report::about;
use dryrack_scenario::{Options, PlanFile, has_same_load};
use dryrack_units::{SimDuration, counted};
use dryrack_yaml::{Diagnostics, scalar};

/// The additional load, in percent.
const MORE_LOAD: u32 = 10;
/// The largest number of seeds with which each change is run. With fewer than the plan has, the result could contradict the
/// table of alternatives.
pub const BREAK_SEEDS: usize = 100;
/// The largest number of kinds of nodes of which one is lost. The kinds with most nodes come first.
const MOST_KINDS: usize = 8;

/// A change of the answer that makes it harder to meet the constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The change in words: `with 10% more load`.
    pub what: String,
    /// The change in the form of `--set`.
    pub set: Vec<String>,
    /// Whether the run is the same with the change. It is then not repeated.
    pub is_idle: bool,
    /// The kind of which the change takes a node away, as in [`NodeKind::called`].
    pub without: Option<String>,
}

/// What happened with a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakResult {
    pub change: Break,
    /// The number of seeds that were run, and the number with which all constraints held.
    pub runs: usize,
    pub kept: usize,
    /// The number of seeds of the plan, of which the first are run.
    pub of: usize,
    /// Whether all constraints still hold in their required shares of the seeds.
    pub keeps: bool,
    /// The constraint that is violated with most seeds; one that does not hold in its required share comes first.
    pub broken: Option<BrokenConstraint>,
    /// Why the change could not be run.
    pub fault: Option<String>,
    /// A sentence if a month of the horizon gives another result.
    pub at_odds: Option<String>,
}

/// A constraint that is violated with some seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenConstraint {
    pub name: String,
    pub share: SeedShare,
    /// The number of seeds that count against the share.
    pub seeds: usize,
    /// The first of these seeds, and what happened with it.
    pub seed: u64,
    pub happened: String,
    /// The limit for which most jobs waited then, if the constraint is about waiting.
    pub limit: Option<LimitedWaits>,
}

/// The changes to try on an alternative: the loss of the last node of each kind from the start, and more load.
pub fn breaks(plan: &PlanFile, row: &Row, base: &Options) -> Result<Vec<Break>, Diagnostics> {
    let loaded = plan.load(row.cell, plan.seeds.first().copied(), base)?;
    let mut breaks: Vec<Break> = kinds(&loaded.rehearsal)
        .into_iter()
        .map(|kind| Break {
            what: format!("without {} ({})", kind.last, kind.which()),
            set: vec![format!("faults.+={{at: 0s, node: {}, becomes: gone}}", scalar(&kind.last, true))],
            is_idle: false,
            without: Some(kind.called),
        })
        .collect();
    let more = more_load(loaded.load);
    // If it cannot be loaded, the run fails in the same way, and its result says so.
    let with = plan.load_changed(row.cell, plan.seeds.first().copied(), &more.set, base);
    breaks.push(Break { is_idle: with.is_ok_and(|with| has_same_load(&with, &loaded)), ..more });
    Ok(breaks)
}

/// More load, in tenths of a percent like every load of a file. A small load grows by one of these.
fn more_load(load: f64) -> Break {
    let now = (load * 1000.0).round();
    let more = (load * f64::from(1000 + 10 * MORE_LOAD)).round().max(now + 1.0);
    let percent = ((more / (load * 1000.0) - 1.0) * 100.0).round();
    let set = vec![format!("load={:.1}%", more / 10.0)];
    Break { what: format!("with {percent}% more load"), set, is_idle: false, without: None }
}

/// Nodes of equal shape.
pub struct NodeKind {
    /// What the nodes have: their GPUs, or their cores.
    pub called: String,
    pub count: usize,
    /// The name of the last of them that is ready at the start.
    pub last: Arc<str>,
}

impl NodeKind {
    /// Which node the last one is: `one of 6 nodes with 8 a100-80g`.
    fn which(&self) -> String {
        match self.count {
            1 => format!("the only node with {}", self.called),
            count => format!("one of {count} nodes with {}", self.called),
        }
    }
}

/// The kinds of nodes that are ready at the start, those with most nodes first. Instances of clouds are left out,
/// because another one can be requested.
pub fn kinds(rehearsal: &Rehearsal) -> Vec<NodeKind> {
    let ready = |state: NodeState| state == NodeState::Ready;
    let nodes = rehearsal.nodes.iter().filter(|node| ready(node.state) && offer_of(&node.spec.shape).is_none());
    let mut kinds: Vec<NodeKind> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        let called = called(&node.spec.shape);
        // Nodes of one name may differ in labels or racks, which do not make them another kind.
        let at = *known.entry(called.clone()).or_insert_with(|| {
            kinds.push(NodeKind { called, count: 0, last: Arc::clone(&node.spec.name) });
            kinds.len() - 1
        });
        kinds[at].count += 1;
        kinds[at].last = Arc::clone(&node.spec.name);
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    kinds.truncate(MOST_KINDS);
    kinds
}

/// A node by its GPUs, such as `8 a100-80g`, or by its cores if it has none.
pub(super) fn called(shape: &NodeShape) -> String {
    let types = shape.gpus.chunk_by(|one, other| one.model == other.model);
    let gpus: Vec<String> = types.map(|gpus| format!("{} {}", gpus.len(), gpus[0].model)).collect();
    match gpus.is_empty() {
        true => format!("{} cores and no GPU", shape.cpu_capacity()),
        false => gpus.join(" and "),
    }
}

impl BreakResult {
    /// The result of runs with a change; `asked` has the share of the seeds of each constraint.
    /// The plan has `of` seeds, the first of which are those of the runs.
    pub fn of(asked: &[SeedShare], change: Break, runs: &[PlanRun], of: usize) -> BreakResult {
        let held = |constraint: usize| runs.iter().filter(|run| run.constraints[constraint].held).count();
        let against = |constraint: usize| {
            let is_against = |run: &&PlanRun| asked[constraint].is_against(run.constraints[constraint].held);
            runs.iter().filter(is_against).count()
        };
        let keeps = |constraint: usize| asked[constraint].holds(held(constraint), runs.len());
        let worst = (0..asked.len())
            .filter(|constraint| against(*constraint) > 0)
            .min_by_key(|constraint| (keeps(*constraint), Reverse(against(*constraint)), *constraint));
        let broken = worst.and_then(|constraint| {
            let results = runs.iter().map(|run| (run.seed, &run.constraints[constraint]));
            let (seed, first) = results.into_iter().find(|(_, found)| asked[constraint].is_against(found.held))?;
            let run = runs.iter().find(|run| run.seed == seed);
            Some(BrokenConstraint {
                limit: run.and_then(|run| run.limit.clone()).filter(|_| is_of_waiting(&first.name)),
                name: first.name.clone(),
                share: asked[constraint],
                seeds: against(constraint),
                seed,
                happened: first.happened.clone(),
            })
        });
        let kept = runs.iter().filter(|run| run.keeps_all()).count();
        let mut never = runs.iter().filter_map(|run| Some((run.seed, run.never_run.clone()?)));
        let never = never.next().map(|(seed, happened)| {
            let (name, seeds) = (EACH_CAN_RUN.to_string(), 1 + never.count());
            BrokenConstraint { name, share: SeedShare::ALL, seeds, seed, happened, limit: None }
        });
        let keeps = never.is_none() && (0..asked.len()).all(keeps);
        BreakResult { change, runs: runs.len(), kept, of, keeps, broken: never.or(broken), fault: None, at_odds: None }
    }

    /// Whether the change takes a node away.
    pub(super) fn is_less(&self) -> bool {
        self.change.without.is_some()
    }

    /// The result of a change that cannot be run.
    pub fn not_run(change: Break, fault: String) -> BreakResult {
        BreakResult { change, runs: 0, kept: 0, of: 0, keeps: false, broken: None, fault: Some(fault), at_odds: None }
    }

    /// The result of a change that changes nothing.
    pub fn idle(change: Break) -> BreakResult {
        let fault = Some("the change does not change the run".to_string());
        BreakResult { change, runs: 0, kept: 0, of: 0, keeps: true, broken: None, fault, at_odds: None }
    }

    /// The number of seeds that were run, such as `20 seeds` or `the first 20 of 100 seeds`.
    pub(super) fn run_with(&self) -> String {
        match self.of > self.runs {
            true => format!("the first {} of {} seeds", self.runs, self.of),
            false => counted(self.runs, "seed"),
        }
    }

    /// What broke, such as `p95(queue_wait) <= 30m fails with 3 of 5 seeds, first with seed 2: …`. Empty if nothing did.
    pub fn what_broke(&self) -> String {
        let Some(BrokenConstraint { name, share, seeds, seed, happened, limit }) = &self.broken else {
            return String::new();
        };
        let limit = limit.as_ref().map_or(String::new(), |limit| format!("; {}", limit.text()));
        let (verb, most) = match share {
            SeedShare::AtLeast(_) => ("fails", String::new()),
            SeedShare::AtMost(most) => ("holds", format!(", and may hold with {most} of them at most")),
        };
        let of = match self.runs {
            1 => String::new(),
            _ => format!(" with {seeds} of {}{most}, first with seed {seed}", self.run_with()),
        };
        match name == EACH_CAN_RUN {
            true => format!("some jobs can never run{of}: {happened}"),
            false => format!("{name} {verb}{of}: {}{limit}", rounded(happened, name)),
        }
    }

    /// A sentence such as `With 10% more load, p95(queue_wait) <= 30m fails with 3 of 5 seeds: …`.
    pub fn sentence(&self) -> String {
        let at_odds = self.at_odds.as_ref().map_or(String::new(), |at_odds| format!(" {at_odds}"));
        self.without_months() + &at_odds
    }

    fn without_months(&self) -> String {
        let mut letters = self.change.what.chars();
        let first = letters.next().map_or(String::new(), |letter| letter.to_uppercase().to_string());
        let with = first + letters.as_str();
        if self.change.is_idle {
            return format!(
                "{with}, nothing changes, because `load` leaves jobs with stated times as they are. It was not run."
            );
        }
        if let Some(fault) = &self.fault {
            return format!("{with}, it could not be run: {}.", fault.trim_end_matches('.'));
        }
        let Some(BrokenConstraint { name, share, seeds, .. }) = &self.broken else {
            return format!("{with}, it still meets everything with {}.", self.run_with());
        };
        if self.keeps {
            let verb = if matches!(share, SeedShare::AtLeast(_)) { "fails" } else { "holds" };
            return format!(
                "{with}, it still meets everything in the required share of the seeds; {name} {verb} with {seeds} of {}.",
                self.run_with()
            );
        }
        format!("{with}, {}.", self.what_broke())
    }
}

/// The text with long durations rounded, as in the summary of a run. A duration stays exact if its rounded form would
/// reach a bound in the name of the constraint, because the text would then contradict the result.
pub(super) fn rounded(text: &str, name: &str) -> String {
    let bounds: Vec<SimDuration> = name.split(' ').filter_map(|word| word.parse().ok()).collect();
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', ';', ':']);
        let exact = bare.parse::<SimDuration>().ok().filter(|exact| exact.to_string() == bare);
        let Some(exact) = exact.filter(|exact| exact.as_nanos() % 60_000_000_000 != 0) else { return word.to_string() };
        let short = about(exact);
        let near = short.parse().unwrap_or(exact);
        let reaches_a_bound = bounds.iter().any(|bound| (near.min(exact)..=near.max(exact)).contains(bound));
        match short.len() > bare.len() || reaches_a_bound {
            true => word.to_string(),
            false => word.replacen(bare, &short, 1),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::plan_run::{ConstraintResult, FleetSize};
    use super::*;
    use dryrack_units::Permille;

    /// A sentence, the required shares, whether each constraint held in each run, and the expected text.
    type BreakRow<'a> = (&'a str, &'a [SeedShare], &'a [&'a [bool]], String);

    /// One run for each row. A row says of each constraint whether it held.
    fn runs(held: &[&[bool]]) -> Vec<PlanRun> {
        let result = |(number, held): (usize, &bool)| ConstraintResult {
            name: format!("c{number} <= 30m"),
            held: *held,
            happened: format!("c{number} was 42m10.496591066s"),
        };
        let run = |(seed, held): (usize, &&[bool])| PlanRun {
            cell: 0,
            seed: seed as u64,
            digest: String::new(),
            is_random: true,
            resampled: None,
            never_run: None,
            unplaceable: None,
            limit: None,
            partial_power: None,
            past_estimates: 0,
            sections: None,
            fleet: FleetSize { gpus: 0, nodes: 0, price_per_hour_millionths: None },
            constraints: held.iter().enumerate().map(result).collect(),
            metrics: serde_json::Map::new(),
            waits: Vec::new(),
        };
        held.iter().enumerate().map(run).collect()
    }

    #[test]
    fn the_named_constraint_is_one_that_fails_with_its_own_seeds() {
        let (all, half, rarely) =
            (SeedShare::ALL, SeedShare::AtLeast(Permille::new(500)), SeedShare::AtMost(Permille::new(200)));
        let (y, n) = (true, false);
        let still = "With 10% more load, it still meets everything";
        let rows: [BreakRow<'_>; 7] = [
            (
                "2 + 1 seeds fail, but of the named constraint 2",
                &[all, all],
                &[&[n, y], &[n, y], &[y, n], &[y, y]],
                "With 10% more load, c0 <= 30m fails with 2 of 4 seeds, first with seed 0: c0 was 42m.".to_string(),
            ),
            (
                "half of the seeds is enough of the first",
                &[half, all],
                &[&[n, y], &[n, y], &[y, n], &[y, y]],
                "With 10% more load, c1 <= 30m fails with 1 of 4 seeds, first with seed 2: c1 was 42m.".to_string(),
            ),
            (
                "half is enough",
                &[half],
                &[&[n], &[y]],
                format!("{still} in the required share of the seeds; c0 <= 30m fails with 1 of 2 seeds."),
            ),
            (
                "a constraint that rarely holds is kept, and the other one fails",
                &[rarely, all],
                &[&[n, n], &[n, y]],
                "With 10% more load, c1 <= 30m fails with 1 of 2 seeds, first with seed 0: c1 was 42m.".to_string(),
            ),
            (
                "it holds too often",
                &[rarely],
                &[&[y], &[y]],
                "With 10% more load, c0 <= 30m holds with 2 of 2 seeds, and may hold with 20% of them at most, \
                 first with seed 0: c0 was 42m."
                    .to_string(),
            ),
            ("all hold", &[all], &[&[y], &[y]], format!("{still} with 2 seeds.")),
            ("one run", &[all], &[&[n]], "With 10% more load, c0 <= 30m fails: c0 was 42m.".to_string()),
        ];
        for (sentence, asked, held, expected) in rows {
            let change =
                Break { what: "with 10% more load".to_string(), set: Vec::new(), is_idle: false, without: None };
            assert_eq!(BreakResult::of(asked, change, &runs(held), held.len()).sentence(), expected, "{sentence}");
        }
    }

    #[test]
    fn a_rounded_time_does_not_contradict_its_bound() {
        let rows = [
            ("p95 was 42m10.496591066s over 3", "p95 <= 30m", "p95 was 42m over 3"),
            ("p95 was 1h54s", "p95 <= 30m", "p95 was 1h01m"),
            ("p95 was 1h54s", "p95 <= 1h", "p95 was 1h01m"),
            ("p95 was 1h29s", "p95 <= 1h", "p95 was 1h29s"),
            ("p95 was 1h54s; 3 more", "p95 <= 1h1m", "p95 was 1h54s; 3 more"),
            ("p95 was 2h; 3 more", "p95 <= 1h", "p95 was 2h; 3 more"),
            ("8 of 9 jobs", "p95 <= 1h", "8 of 9 jobs"),
        ];
        for (text, name, expected) in rows {
            assert_eq!(rounded(text, name), expected, "{name}");
        }
    }

    #[test]
    fn more_load_is_ten_percent_or_the_next_tenth() {
        let rows = [
            (1.0, "load=110.0%", "with 10% more load"),
            (0.9, "load=99.0%", "with 10% more load"),
            (0.001, "load=0.2%", "with 100% more load"),
            (0.004, "load=0.5%", "with 25% more load"),
        ];
        for (load, set, what) in rows {
            assert_eq!(
                more_load(load),
                Break { what: what.to_string(), set: vec![set.to_string()], is_idle: false, without: None }
            );
        }
    }

    #[test]
    fn a_change_that_cannot_be_run_is_said() {
        let idle = BreakResult::idle(Break { is_idle: true, ..more_load(1.0) });
        assert_eq!(
            idle.sentence(),
            "With 10% more load, nothing changes, because `load` leaves jobs with stated times as they are. It was not run."
        );
        let change = Break {
            what: "without w-5 (the only node with 8 l4)".to_string(),
            set: Vec::new(),
            is_idle: false,
            without: None,
        };
        let result = BreakResult::not_run(change, "error: no such thing".to_string());
        assert_eq!(
            result.sentence(),
            "Without w-5 (the only node with 8 l4), it could not be run: error: no such thing."
        );
    }
}
