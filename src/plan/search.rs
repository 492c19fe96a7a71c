//! Finds the cheapest alternative that satisfies the constraints, with few runs.
//!
//! A factor is *presumed* to be monotone if its values are ascending numbers and the objective rises with each value,
//! so that more of it costs more. If an alternative fails, every alternative that only has less of such factors is
//! presumed to fail as well. Each result also settles other alternatives. If an alternative holds, all alternatives
//! that cost at least as much are settled. If it fails, all alternatives that only have less of such factors are
//! settled. The next alternative to run is the one that settles the most others in its worse case.
//!
//! When no cheaper alternative is open, some of the alternatives presumed to fail are run as a test. The first is the
//! one nearest to the answer, and the others are spread evenly. If one of them holds, it differs from a failed
//! alternative by several factors, at least one of which is not monotone. These factors are no longer presumed to be
//! monotone, and the search continues.

use dryrack_planted::planted;
use dryrack_scenario::PlanFile;

/// The state of an alternative in the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The alternative was run and satisfies every constraint.
    Holds,
    /// The alternative was run and violates a constraint.
    Fails,
    /// The alternative was not run, but the alternative with this number was run and fails, although it has more.
    Presumed(usize),
    Unknown,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchResult {
    /// The cheapest alternative that was run and holds. On a tie, the first one.
    pub best: Option<usize>,
    /// Counts of the alternatives cheaper than the best, or of all if there is no best: those that were run and fail,
    /// those presumed to fail, and those unknown.
    pub cheaper_failing: usize,
    pub cheaper_presumed: usize,
    pub cheaper_unknown: usize,
    /// The number of alternatives that were run.
    pub run: usize,
    /// The number of alternatives that were presumed to fail and were run as a test.
    pub tested: usize,
    /// Factors that are presumed monotone, by their indexes in the plan.
    pub monotone: Vec<usize>,
    /// Factors that were presumed monotone until a run refuted this.
    pub refuted: Vec<usize>,
}

pub struct Search {
    places: Vec<Vec<usize>>,
    objective: Vec<u64>,
    standing: Vec<Standing>,
    monotone: Vec<bool>,
    refuted: Vec<usize>,
    tested: usize,
}

/// The largest number of open alternatives that are considered for the next run.
const WEIGHED: usize = 256;
/// One in this many of the alternatives that are presumed to fail is run as a test. The number is rounded up.
const TESTED_ONE_IN: usize = 10;
/// The largest and the smallest number of tests. There are fewer only if fewer alternatives are presumed to fail.
const TESTED_MOST: usize = 20;
const TESTED_LEAST: usize = 3;

impl Search {
    /// A search that minimizes `objective`, which has a value for each alternative.
    pub fn new(plan: &PlanFile, objective: Vec<u64>) -> Search {
        let cells = plan.cells();
        assert_eq!(objective.len(), cells, "an objective for each alternative");
        let places: Vec<Vec<usize>> = (0..cells).map(|cell| plan.places(cell)).collect();
        let mut stride = cells;
        let monotone = plan.factors.iter().enumerate().map(|(index, factor)| {
            stride /= factor.values.len();
            let numbers: Vec<Option<f64>> = factor.values.iter().map(|value| value.parse().ok()).collect();
            let ascends = numbers.windows(2).all(|pair| matches!(pair, [Some(one), Some(other)] if one < other));
            let has_next = |cell: &usize| places[*cell][index] + 1 < factor.values.len();
            ascends && (0..cells).filter(has_next).all(|cell| objective[cell] < objective[cell + stride])
        });
        let monotone = monotone.collect();
        Search { standing: vec![Standing::Unknown; cells], places, objective, monotone, refuted: Vec::new(), tested: 0 }
    }

    /// The alternative to run next; `None` when the answer is final.
    pub fn next_alternative(&self) -> Option<usize> {
        let open = self.cheaper(|standing| standing == Standing::Unknown);
        if !open.is_empty() {
            return Some(self.most_telling(&open));
        }
        let presumed = self.cheaper(|standing| matches!(standing, Standing::Presumed(_)));
        let all = presumed.len() + self.tested;
        let wanted = all.div_ceil(TESTED_ONE_IN).clamp(TESTED_LEAST.min(all), TESTED_MOST);
        if presumed.is_empty() || self.tested >= wanted || planted!(SearchTestsNothing) {
            return None;
        }
        // Test the most expensive alternative first, because it is nearest to the answer. Spread the others over the
        // rest, at 0, 1/2, 1/4, 3/4, 1/8 and so on of the way down.
        let spread = (u64::from((self.tested as u32).reverse_bits()) * presumed.len() as u64) >> 32;
        Some(presumed[presumed.len() - 1 - spread as usize])
    }

    /// Takes the result of a run.
    pub fn record(&mut self, cell: usize, holds: bool) {
        let before = std::mem::replace(&mut self.standing[cell], if holds { Standing::Holds } else { Standing::Fails });
        self.tested += usize::from(matches!(before, Standing::Presumed(_)));
        while let Some((less, more)) = self.contradiction(cell) {
            for factor in 0..self.monotone.len() {
                if self.monotone[factor] && self.places[less][factor] < self.places[more][factor] {
                    self.monotone[factor] = false;
                    self.refuted.push(factor);
                }
            }
        }
        self.presume();
    }

    /// The number of alternatives that need no further run: those already run, those presumed to fail, and those that
    /// cost at least as much as one that holds.
    pub fn settled(&self) -> usize {
        self.standing.len() - self.cheaper(|standing| standing == Standing::Unknown).len()
    }

    pub fn found(&self) -> SearchResult {
        let count = |wanted: fn(Standing) -> bool| self.cheaper(wanted).len();
        let of = |wanted: bool| (0..self.monotone.len()).filter(move |factor| self.monotone[*factor] == wanted);
        SearchResult {
            best: self.best(),
            cheaper_failing: count(|standing| standing == Standing::Fails),
            cheaper_presumed: count(|standing| matches!(standing, Standing::Presumed(_))),
            cheaper_unknown: count(|standing| standing == Standing::Unknown),
            run: self.standing.iter().filter(|standing| matches!(standing, Standing::Holds | Standing::Fails)).count(),
            tested: self.tested,
            monotone: of(true).collect(),
            refuted: self.refuted.clone(),
        }
    }

    fn best(&self) -> Option<usize> {
        let holds = (0..self.standing.len()).filter(|cell| self.standing[*cell] == Standing::Holds);
        holds.min_by_key(|cell| (self.objective[*cell], *cell))
    }

    /// The alternatives in a wanted state that are cheaper than the best, the cheapest first.
    fn cheaper(&self, wanted: impl Fn(Standing) -> bool) -> Vec<usize> {
        let bound = self.best().map_or(u64::MAX, |best| self.objective[best]);
        let is_wanted = |cell: &usize| wanted(self.standing[*cell]) && self.objective[*cell] < bound;
        let mut cells: Vec<usize> = (0..self.standing.len()).filter(is_wanted).collect();
        cells.sort_by_key(|cell| (self.objective[*cell], *cell));
        cells
    }

    /// The open alternative that settles the most others in its worse case. `open` is sorted, the cheapest first.
    fn most_telling(&self, open: &[usize]) -> usize {
        let step = open.len().div_ceil(WEIGHED);
        let weigh = |position: usize| {
            let cell = open[position];
            let dearer = open.partition_point(|other| self.objective[*other] < self.objective[cell]);
            let if_it_holds = open.len() - dearer;
            let if_it_fails = open.iter().filter(|other| self.has_less(**other, cell)).count() + 1;
            (if_it_holds.min(if_it_fails), if_it_holds + if_it_fails)
        };
        let positions = (0..open.len()).step_by(step);
        // On a tie, choose the cheapest.
        let place =
            |position: usize| if planted!(SearchTakesTheLastOfEqual) { position } else { usize::MAX - position };
        let best = positions.max_by_key(|position| (weigh(*position), place(*position)));
        open[best.expect("something is open")]
    }

    /// Whether `one` differs from `other` only in having less of some monotone factors.
    fn has_less(&self, one: usize, other: usize) -> bool {
        let pairs = || self.places[one].iter().zip(&self.places[other]).zip(&self.monotone);
        one != other && pairs().all(|((one, other), monotone)| one == other || (*monotone && one < other))
    }

    /// A pair that refutes the presumption: the first holds although it has less than the second, which fails.
    fn contradiction(&self, cell: usize) -> Option<(usize, usize)> {
        let mut others = 0..self.standing.len();
        match self.standing[cell] {
            Standing::Holds => others
                .find(|other| self.standing[*other] == Standing::Fails && self.has_less(cell, *other))
                .map(|other| (cell, other)),
            Standing::Fails => others
                .find(|other| self.standing[*other] == Standing::Holds && self.has_less(*other, cell))
                .map(|other| (other, cell)),
            Standing::Presumed(_) | Standing::Unknown => None,
        }
    }

    fn presume(&mut self) {
        let fails: Vec<usize> =
            (0..self.standing.len()).filter(|cell| self.standing[*cell] == Standing::Fails).collect();
        for cell in 0..self.standing.len() {
            if matches!(self.standing[cell], Standing::Unknown | Standing::Presumed(_)) {
                let by = fails.iter().find(|more| self.has_less(cell, **more));
                self.standing[cell] = by.map_or(Standing::Unknown, |more| Standing::Presumed(*more));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use dryrack_scenario::{Factor, Method, Objective};
    use dryrack_yaml::Span;

    fn plan(sizes: &[usize]) -> PlanFile {
        let factor = |(index, size): (usize, &usize)| {
            let values = (1..=*size).map(|value| Arc::from(value.to_string())).collect();
            let places = (Span::default(), vec![Span::default(); *size]);
            Factor::of_field(&format!("f{index}"), &format!("params.f{index}"), values, places)
        };
        PlanFile {
            title: String::new(),
            name: Arc::from("plan.yaml"),
            text: Arc::from(""),
            scenario: "one.yaml".into(),
            fixed: Vec::new(),
            factors: sizes.iter().enumerate().map(factor).collect(),
            seeds: vec![1],
            minimize: Some(Objective::Gpus),
            minimize_place: None,
            currency: None,
            constraints_place: None,
            asked: Vec::new(),
            method: Method::Search,
            runs: None,
            time: None,
            horizon: None,
        }
    }

    /// Searches with `holds` as the oracle. Returns the result, and the cheapest alternative found by trying all.
    fn search(
        sizes: &[usize],
        cost: impl Fn(&[usize]) -> u64,
        holds: impl Fn(&[usize]) -> bool,
    ) -> (SearchResult, Option<u64>) {
        let plan = plan(sizes);
        let objective: Vec<u64> = (0..plan.cells()).map(|cell| cost(&plan.places(cell))).collect();
        let mut search = Search::new(&plan, objective.clone());
        while let Some(cell) = search.next_alternative() {
            assert!(!matches!(search.standing[cell], Standing::Holds | Standing::Fails), "run twice");
            search.record(cell, holds(&plan.places(cell)));
        }
        let all = (0..plan.cells()).filter(|cell| holds(&plan.places(*cell)));
        (search.found(), all.map(|cell| objective[cell]).min())
    }

    fn cost_of(plan: &[usize], found: &SearchResult, cost: impl Fn(&[usize]) -> u64) -> Option<u64> {
        found.best.map(|best| cost(&self::plan(plan).places(best)))
    }

    #[test]
    fn one_monotone_factor_is_bisected() {
        let cost = |places: &[usize]| places[0] as u64;
        for need in [0, 1, 37, 255, 499] {
            let (found, cheapest) = search(&[500], cost, |places| places[0] >= need);
            assert_eq!(cost_of(&[500], &found, cost), cheapest, "{need}: {found:?}");
            assert!(found.run <= 9 + 1 + TESTED_MOST, "{need}: {found:?}");
        }
    }

    #[test]
    fn a_frontier_of_two_machines_is_found_with_a_quarter_of_the_runs() {
        // One machine costs 5 and provides 3 units; the other costs 7 and provides 4.
        let cost = |places: &[usize]| 5 * places[0] as u64 + 7 * places[1] as u64 + 1;
        for need in [10, 40, 90, 140] {
            let (found, cheapest) = search(&[25, 20], cost, |places| 3 * places[0] + 4 * places[1] >= need);
            assert_eq!(cost_of(&[25, 20], &found, cost), cheapest, "{need}: {found:?}");
            assert!(found.run * 4 <= 500, "{need}: {found:?}");
            assert_eq!(found.cheaper_unknown, 0);
        }
    }

    /// All four cost the same, and the first of them fails. So the second holds and is the answer.
    #[test]
    fn of_equally_cheap_alternatives_the_first_that_holds_is_the_answer() {
        let (found, _) = search(&[2, 2], |_| 7, |places| places[0] + places[1] > 0);
        assert_eq!((found.best, found.run), (Some(1), 2), "{found:?}");
    }

    #[test]
    fn where_nothing_holds_the_largest_says_so() {
        let (found, cheapest) = search(&[100], |places| places[0] as u64, |_| false);
        assert_eq!((found.best, cheapest), (None, None));
        assert_eq!(found.cheaper_failing + found.cheaper_presumed, 100);
        assert!(found.run <= 8 + TESTED_MOST, "{found:?}");
    }

    #[test]
    fn a_factor_that_is_no_number_or_costs_nothing_is_not_presumed_to_help() {
        // The second factor costs nothing, and its first value is the best.
        let cost = |places: &[usize]| places[0] as u64;
        let (found, cheapest) = search(&[30, 4], cost, |places| places[0] >= 10 + 5 * places[1]);
        assert_eq!(cost_of(&[30, 4], &found, cost), cheapest);
        assert_eq!(found.monotone, [0]);
    }

    #[test]
    fn more_that_is_worse_is_noticed_and_presumed_no_longer() {
        // The constraint holds at 15, fails at 16 and 17, and holds from 18 on.
        let cost = |places: &[usize]| places[0] as u64;
        let holds = |places: &[usize]| places[0] == 15 || places[0] >= 18;
        let (found, cheapest) = search(&[40], cost, holds);
        assert_eq!(cost_of(&[40], &found, cost), cheapest, "{found:?}");
        assert_eq!(found.refuted, [0]);
        assert_eq!(found.cheaper_presumed, 0);
    }
}
