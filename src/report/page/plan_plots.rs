//! The plots of a plan: cost against waiting time, and the waits of the answer and its neighbours.

use super::axes::{from_note, of_numbers, of_parts, of_waits, part_place};
use super::chart::{Chart, Kind, Line};
use super::plan::{Figure, LONGEST, PLACED, PlanReport};
use crate::plot::wait_place;
use dryrack_metrics::WAIT_PERCENTS;

/// The largest number of alternatives with a curve.
const CURVES: usize = 5;
/// The look of the answer in all plots.
const ANSWER_LOOK: usize = 3;

/// Texts about the frontier and the plot, if the burden is the wait.
const WAITING: [&str; 3] = [
    "the frontier: no alternative both costs less and has shorter waits",
    "Cost and waiting time",
    "the waiting time that 95% of its placed replicas did not exceed",
];
const TURNED_AWAY: [&str; 3] = [
    "the frontier: no alternative both costs less and leaves fewer replicas without a place",
    "Cost and replicas that were never placed",
    "the share of its replicas that were never placed, because they were refused or still waited at the end (those that \
     were placed did not wait)",
];

impl PlanReport {
    /// The alternatives that no other alternative beats in both cost and burden, the cheapest first.
    pub(super) fn frontier(&self) -> Vec<usize> {
        let is_known = |row: &usize| self.rows[*row].is_choice && self.burden(*row).is_some();
        let mut known: Vec<usize> = (0..self.rows.len()).filter(is_known).collect();
        let wait = |row: usize| self.burden(row).expect("only replicas that had one").0;
        known.sort_by(|one, other| {
            let by_cost = self.rows[*one].cost.total_cmp(&self.rows[*other].cost);
            by_cost.then(wait(*one).total_cmp(&wait(*other))).then(one.cmp(other))
        });
        let mut least = f64::INFINITY;
        known.retain(|row| {
            let is_better = wait(*row) < least;
            least = least.min(wait(*row));
            is_better
        });
        known
    }

    fn wait(&self, row: usize) -> Option<Figure> {
        self.rows[row].figure(&self.wait_metric())
    }

    /// Whether no replica waits but some are never placed. Alternatives then differ in the number of refused replicas.
    pub(super) fn nobody_waits(&self) -> bool {
        let none_waits = (0..self.rows.len()).all(|row| self.wait(row).is_none_or(|(wait, _)| wait <= 0.0));
        let placed = self.rows.iter().filter_map(|row| row.metrics.get(PLACED));
        none_waits && placed.min_by(|one, other| one.0.total_cmp(&other.0)).is_some_and(|(least, _)| *least < 1.0)
    }

    /// The burden, which the report compares with the cost. It is the wait or, if no replica waits, the percentage of
    /// replicas that were not placed.
    fn burden(&self, row: usize) -> Option<Figure> {
        match self.nobody_waits() {
            false => self.wait(row),
            true => {
                let (placed, ends) = self.rows[row].metrics.get(PLACED)?;
                Some((100.0 - placed * 100.0, ends.map(|(low, high)| (100.0 - high * 100.0, 100.0 - low * 100.0))))
            }
        }
    }

    pub(super) fn frontier_plot(&self) -> Option<Chart> {
        let known: Vec<usize> = (0..self.rows.len()).filter(|row| self.burden(*row).is_some()).collect();
        let high = |row: &usize| self.burden(*row).map_or(0.0, |(mean, ends)| ends.map_or(mean, |(_, high)| high));
        let longest = known.iter().map(high).max_by(f64::total_cmp)?;
        let asked = self.limit().filter(|_| !self.nobody_waits());
        let bound = asked.as_ref().map(|limit| limit.bound);
        let other = self.other_metric().filter(|_| !self.nobody_waits());
        let longest = longest.max(bound.unwrap_or(0.0));
        let dearest = self.rows.iter().map(|row| row.cost).max_by(f64::total_cmp)?;
        // A bound far beyond all alternatives would leave them no room.
        let budget = self.cost_limit().filter(|(_, bound)| *bound <= 1.25 * dearest);
        let dearest = dearest.max(budget.map_or(0.0, |(_, bound)| bound));
        let (x, top) = of_numbers(&format!("{}{}", self.objective, self.in_currency()), dearest);
        let nobody_waits = self.nobody_waits();
        let (y, end) = match (nobody_waits, &other) {
            (true, _) => of_numbers("% never placed", longest),
            (false, Some(name)) => of_waits(name, longest),
            (false, None) if self.wait_metric() == LONGEST => of_waits("longest wait", longest),
            (false, None) => of_waits("waiting time of 95%", longest),
        };
        let height = |burden: f64| if nobody_waits { burden.max(0.0) } else { wait_place(burden.max(0.0)) };
        let at = |row: usize, burden: f64| (self.rows[row].cost / top, height(burden) / end);
        let place = |row: &usize| at(*row, self.burden(*row).expect("known").0);
        let group = |keeps: Option<bool>| -> Vec<(f64, f64)> {
            known.iter().filter(|row| self.rows[**row].keeps == keeps).map(place).collect()
        };
        let drawn: Vec<&str> =
            asked.iter().map(|limit| limit.constraint.as_str()).chain(budget.map(|(name, _)| name)).collect();
        let (of_lines, others) = self.failing(&known, &drawn);
        let crosses = |rows: Vec<usize>| -> Vec<(f64, f64)> { rows.iter().map(place).collect() };
        let whiskers: Vec<(f64, f64)> = (known.iter())
            .filter_map(|row| Some((*row, self.burden(*row)?.1.filter(|(low, high)| high > low)?)))
            .flat_map(|(row, (low, high))| [at(row, low), at(row, high)])
            .collect();
        let frontier: Vec<(f64, f64)> =
            self.frontier().iter().map(|row| at(*row, self.burden(*row).expect("known").0)).collect();
        let answer: Vec<(f64, f64)> =
            self.best.iter().filter_map(|best| Some(at(*best, self.burden(*best)?.0))).collect();
        let limit = bound.map_or(Vec::new(), |bound| vec![(0.0, height(bound) / end), (1.0, height(bound) / end)]);
        let line = |name: &str, points, kind, look| Line { name: name.to_string(), points, kind, look };
        let best_of = if nobody_waits { TURNED_AWAY } else { WAITING };
        let budget_line = budget.map_or(Vec::new(), |(_, bound)| vec![(bound / top, 0.0), (bound / top, 1.0)]);
        let budget_name = budget.map_or(String::new(), |(name, _)| format!("the limit: {name}"));
        let limit_name = asked.map_or(String::new(), |limit| format!("the limit: {}", limit.constraint));
        let frontier_name = match &other {
            Some(name) => format!("the frontier: no alternative both costs less and has a smaller {name}"),
            None => best_of[0].to_string(),
        };
        let lines = vec![
            line(self.interval_name(), whiskers, Kind::Whiskers, 4),
            line(&frontier_name, if frontier.len() > 1 { frontier } else { Vec::new() }, Kind::Steps, 2),
            line("meets all constraints", group(Some(true)), Kind::Dots, 0),
            line("does not meet them", crosses(of_lines), Kind::Crosses, 1),
            line("fails for a reason that has no line here", crosses(others), Kind::Crosses, 5),
            line("unknown", group(None), Kind::Dots, 5),
            line("the answer", answer, Kind::Dots, ANSWER_LOOK),
            line(&limit_name, limit, Kind::Line, 5),
            line(&budget_name, budget_line, Kind::Line, 1),
        ];
        let best = match self.best {
            Some(best) => format!("The answer: {}, {}.", self.rows[best].name, self.rows[best].amount),
            None => "No alternative is known to meet all constraints.".to_string(),
        };
        Some(Chart {
            title: other.as_ref().map_or(best_of[1].to_string(), |name| format!("Cost and {name}")),
            description: format!(
                "Of each alternative: the cost and {}, as means over the seeds that were run. {best}",
                match &other {
                    Some(name) => name,
                    None if self.wait_metric() == LONGEST && !nobody_waits => "the longest wait of its placed replicas",
                    None => best_of[2],
                }
            ),
            x,
            y,
            lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
        })
    }

    /// The alternatives that fail a constraint whose line is drawn, and the others that fail. A cross on the good side of each
    /// line must say that it fails for another reason.
    fn failing(&self, known: &[usize], drawn: &[&str]) -> (Vec<usize>, Vec<usize>) {
        let fails_a_line = |row: &usize| {
            let broken = self.rows[*row].broken.as_deref().unwrap_or_default();
            drawn.is_empty() || drawn.iter().any(|name| broken.starts_with(name))
        };
        known.iter().filter(|row| self.rows[**row].keeps == Some(false)).partition(|row| fails_a_line(row))
    }

    /// What the ends of the plotted figures are: the plot shows a percentile or a maximum, except of a mean that a
    /// constraint bounds.
    fn interval_name(&self) -> &'static str {
        let is_mean = self.nobody_waits() || self.wait_metric().contains("_mean");
        let whiskers =
            (self.rows.iter()).filter(|row| row.figure(&self.wait_metric()).is_some_and(|found| found.1.is_some()));
        let ones: Vec<bool> = whiskers.map(|row| row.is_one_run).collect();
        match (is_mean || ones.iter().all(|one| *one), ones.contains(&true)) {
            (true, _) => "95% interval",
            (false, false) => "range of the seeds",
            (false, true) => "range of the seeds; of a single run, the 95% interval",
        }
    }

    /// The best alternative, and its neighbours on the frontier.
    pub(super) fn shown(&self) -> Vec<usize> {
        let mut shown: Vec<usize> = self.best.into_iter().collect();
        let frontier = self.frontier();
        let cost = self.best.map_or(f64::NEG_INFINITY, |best| self.rows[best].cost);
        let split = frontier.partition_point(|row| self.rows[*row].cost < cost);
        let (cheaper, dearer) = frontier.split_at(split);
        let (mut before, mut after) = (cheaper.iter().rev(), dearer.iter());
        while shown.len() < CURVES {
            let more: Vec<usize> = before.next().into_iter().chain(after.next()).copied().collect();
            if more.is_empty() {
                break;
            }
            shown.extend(more.into_iter().filter(|row| Some(*row) != self.best));
        }
        shown.truncate(CURVES);
        shown.sort_by(|one, other| self.rows[*one].cost.total_cmp(&self.rows[*other].cost).then(one.cmp(other)));
        shown
    }

    pub(super) fn waits_plot(&self) -> Option<Chart> {
        if self.nobody_waits() {
            return None;
        }
        let shown = self.shown();
        let waits = || shown.iter().flat_map(|row| self.rows[*row].waits.iter().flatten()).copied();
        let longest = waits().max_by(f64::total_cmp).filter(|longest| *longest > 0.0)?;
        // A constraint on a percentile of the waits is a corner that the curve of the answer must pass above.
        let corner = self.limit().and_then(|limit| {
            let percent = limit.metric.strip_prefix("queue_wait_")?.strip_suffix("_seconds")?;
            let part: f64 = percent.strip_prefix('p')?.parse().ok().filter(|part| *part <= 100.0)?;
            Some((limit.constraint, limit.bound, part / 100.0))
        });
        let longest = longest.max(corner.as_ref().map_or(0.0, |(_, bound, _)| *bound));
        let (x, end) = of_waits("time waited", longest);
        // The smallest share that was placed at once.
        let at_once = |row: &usize| {
            let waits = WAIT_PERCENTS.iter().zip(&self.rows[*row].waits);
            let zero = waits.filter(|(_, wait)| wait.is_some_and(|wait| wait <= 0.0));
            zero.map(|(percent, _)| f64::from(*percent) / 100.0).fold(0.0, f64::max)
        };
        let limited = corner.as_ref().map_or(1.0, |(_, _, part)| *part);
        let (y, from) = of_parts("placed", shown.iter().map(at_once).fold(limited, f64::min));
        let keeping = match (&corner, shown.iter().all(|row| self.rows[*row].is_one_run)) {
            (None, _) => String::new(),
            (Some(_), true) => {
                " A limit on a percentile is kept by a curve that passes above the corner of its line.".to_string()
            }
            (Some((constraint, ..)), false) => format!(
                " A limit must hold with {}. The curves are means, so one that passes above the corner of the limit's line \
                 does not show that the limit is kept.",
                self.share(constraint)
            ),
        };
        let limit = corner.map(|(name, bound, part)| {
            let (at, part) = (wait_place(bound) / end, part_place(part, from));
            Line {
                name: format!("the limit: {name}"),
                points: vec![(0.0, part), (at, part), (at, 0.0)],
                kind: Kind::Line,
                look: 5,
            }
        });
        // The answer has the same look as in the other plot, and nothing else has it.
        let mut looks = (0..).filter(|look| *look != ANSWER_LOOK);
        let lines = shown.iter().map(|index| {
            let look = if Some(*index) == self.best { Some(ANSWER_LOOK) } else { looks.next() }.unwrap_or_default();
            let row = &self.rows[*index];
            let point = |(percent, wait): (&u8, &Option<f64>)| {
                wait.map(|wait| (wait_place(wait) / end, part_place(f64::from(*percent) / 100.0, from)))
            };
            let points: Vec<(f64, f64)> = WAIT_PERCENTS.iter().zip(&row.waits).filter_map(point).collect();
            let keeps = match row.keeps {
                Some(true) => "",
                Some(false) => ", does not meet all constraints",
                None => ", unknown",
            };
            Line { name: format!("{} ({}{keeps})", row.name, row.amount), points, kind: Kind::Steps, look }
        });
        let which = match self.best {
            Some(_) => "the answer and its neighbours on the frontier",
            None => "alternatives on the frontier",
        };
        Some(Chart {
            title: "Waiting time".into(),
            description: format!(
                "Share of all replicas that were placed within this time, in steps of a percent, for {which}; each \
                 percentile is the mean over the seeds. A curve ends where the other replicas were never \
                 placed.{}{keeping}",
                from_note(from)
            ),
            x,
            y,
            lines: lines.collect::<Vec<_>>().into_iter().chain(limit).collect(),
        })
    }

    /// A sentence in place of the waits if no replica waited; otherwise empty.
    pub(super) fn unwaited_note(&self) -> String {
        let waits = |rows: &[usize]| -> Vec<f64> {
            rows.iter().flat_map(|row| self.rows[*row].waits.iter().flatten().copied()).collect()
        };
        let is_zero = |waits: &[f64]| waits.iter().all(|wait| *wait <= 0.0);
        let (shown, all) = (waits(&self.shown()), waits(&(0..self.rows.len()).collect::<Vec<_>>()));
        let whose = match (shown.is_empty() || self.nobody_waits() || !is_zero(&shown), is_zero(&all)) {
            (true, _) => return String::new(),
            (false, true) => "",
            (false, false) => " with the answer and its neighbours on the frontier",
        };
        format!("<p class=\"note\">No placed replica waited{whose}.</p>\n")
    }
}
