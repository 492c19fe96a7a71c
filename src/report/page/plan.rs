//! The report of a plan: which alternative meets the constraints, what it costs, and how the others compare.

use std::collections::BTreeMap;

use super::axes::{of_numbers, of_parts, of_waits};
use super::chart::{Chart, Kind, Line};
use super::html::{escape, facts, list, marked_table, page, section, table};
use crate::plot::wait_place;
use dryrack_metrics::WAIT_PERCENTS;
use dryrack_units::{Money, SimDuration, counted, grouped};

/// The contents of the page.
pub struct PlanReport {
    /// The plan's title, the answer to its question in a few sentences, and how it was found.
    pub title: String,
    pub answer: String,
    pub how: String,
    /// The figures of the first screen, and what each of them is.
    pub figures: Vec<(String, String)>,
    /// How the answer would break: a sentence for each change, and the command that repeats it.
    pub breaks: Vec<(String, String)>,
    /// What a reader must know besides the answer.
    pub note: Option<String>,
    pub growth: Option<PlanGrowth>,
    /// The name of the currency of all prices, if it is stated.
    pub currency: Option<String>,
    /// Whether the plan minimizes the cost.
    pub is_minimized: bool,
    /// The name of the cost: `GPUs`, `nodes` or `price per hour`.
    pub objective: &'static str,
    pub factors: Vec<String>,
    pub constraints: Vec<String>,
    pub rows: Vec<PlanRow>,
    /// The index of the best row.
    pub best: Option<usize>,
    pub assumptions: Vec<String>,
    /// Names and values: command, hash, version.
    pub provenance: Vec<(&'static str, String)>,
    /// The plan's own text.
    pub source: String,
}

/// How long each alternative is enough while the load grows.
#[derive(Clone, Debug)]
pub struct PlanGrowth {
    /// The answer and what it assumes.
    pub sentences: Vec<String>,
    /// For each alternative: its name, its cost, the month in which it is no longer enough, and what fails then.
    pub rows: Vec<Vec<String>>,
}

/// A mean, and the ends of its interval.
type Figure = (f64, Option<(f64, f64)>);

/// An alternative that was run.
pub struct PlanRow {
    pub name: String,
    /// The value of each factor.
    pub values: Vec<String>,
    /// The cost in the unit of the objective.
    pub cost: f64,
    /// The price of the nodes for a month of 730 hours, if all of them have one.
    pub month: Option<Money>,
    pub runs: usize,
    pub keeps: Option<bool>,
    /// The constraint that does not hold, with the seed and, if known, more detail.
    pub broken: Option<String>,
    /// The means over the seeds, each with the ends of its 95 % interval if there is one.
    pub metrics: BTreeMap<&'static str, Figure>,
    /// Mean waits over the seeds in seconds at [`WAIT_PERCENTS`]. `None` if with some seed the percentile falls on a
    /// replica that was never placed.
    pub waits: Vec<Option<f64>>,
}

/// The largest number of alternatives with a curve, and the largest number of rows in the table.
const CURVES: usize = 5;
const ROWS: usize = 200;
/// The look of the answer in all plots.
const ANSWER_LOOK: usize = 3;
const WAIT: &str = "queue_wait_p95_seconds";
const LONGEST: &str = "queue_wait_max_seconds";
const PLACED: &str = "placed";

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

/// A constraint that bounds a time from above, such as `p99(ttft) <= 2s`.
pub struct TimeLimit {
    pub constraint: String,
    /// What is bounded, such as `p99(ttft)`.
    pub name: String,
    /// The name of the bounded metric in `metrics.json`.
    pub metric: String,
    /// The bound in seconds.
    pub bound: f64,
}

impl TimeLimit {
    /// `None` if the constraint is another one. Both ways of writing are read: `p99(ttft)` and `ttft_p99`.
    pub fn read(constraint: &str) -> Option<TimeLimit> {
        let (left, right) = constraint.split_once('<')?;
        let bound: SimDuration = right.strip_prefix('=').unwrap_or(right).trim().parse().ok()?;
        let name = left.trim();
        let (function, series) = match name.split_once('(') {
            Some((function, rest)) => (function, rest.strip_suffix(')')?),
            None => name.rsplit_once('_').map(|(series, function)| (function, series))?,
        };
        let metric = format!("{series}_{function}_seconds");
        Some(TimeLimit {
            constraint: constraint.to_string(),
            name: name.to_string(),
            metric,
            bound: bound.as_secs_f64(),
        })
    }
}

impl PlanReport {
    pub fn html(&self) -> String {
        let plots: String = [self.frontier_plot(), self.waits_plot()].iter().flatten().map(Chart::figure).collect();
        let body = [
            self.tiles(),
            self.note.as_ref().map_or(String::new(), |note| format!("<p class=\"fail\">{}</p>\n", escape(note))),
            self.breaking(),
            self.growing(),
            section("Question", &self.asked()),
            section(
                &match (self.nobody_waits(), self.other_metric()) {
                    (true, _) => "Cost against replicas that were turned away".to_string(),
                    (false, Some(name)) => format!("Cost against {name}"),
                    (false, None) => "Cost against waiting time".to_string(),
                },
                &format!("<div class=\"plots\">\n{plots}</div>\n"),
            ),
            section("The alternatives", &self.alternatives()),
            section("Assumptions", &list(&self.assumptions)),
            section("How to repeat this", &self.made()),
        ];
        let is_bad = self.is_minimized && self.best.is_none();
        page(&self.title, (&self.answer, is_bad), &body.concat())
    }

    fn tiles(&self) -> String {
        let tile = |(value, what): &(String, String)| {
            format!("<div><b>{}</b><span>{}</span></div>", escape(value), escape(what))
        };
        match self.figures.is_empty() {
            true => String::new(),
            false => format!("<div class=\"tiles\">{}</div>\n", self.figures.iter().map(tile).collect::<String>()),
        }
    }

    fn asked(&self) -> String {
        let mut text = match self.is_minimized {
            true => {
                format!("<p>Minimize: {}{}.</p>\n", escape(self.objective), escape(&self.in_currency()))
            }
            false => "<p>Compare the alternatives.</p>\n".to_string(),
        };
        if !self.constraints.is_empty() {
            text.push_str("<p>The constraints are:</p>\n");
            text.push_str(&list(&self.constraints));
        }
        if !self.how.is_empty() {
            text.push_str(&format!("<p>{}</p>\n", escape(&self.how)));
        }
        text
    }

    /// The unit of an objective that is money, such as ` in USD`; otherwise empty.
    fn in_currency(&self) -> String {
        let is_money = self.objective.contains("price") || self.objective.contains("cost");
        let name = self.currency.as_ref().filter(|_| is_money);
        name.map_or(String::new(), |name| format!(" in {name}"))
    }

    /// How the answer would break; empty if nothing was tried.
    fn breaking(&self) -> String {
        if self.breaks.is_empty() {
            return String::new();
        }
        let sentences: Vec<String> = self.breaks.iter().map(|(sentence, _)| sentence.clone()).collect();
        section("How it would break", &list(&sentences))
    }

    /// How long the alternatives are enough; empty without a horizon.
    fn growing(&self) -> String {
        let Some(growth) = &self.growth else { return String::new() };
        let sentences: String = growth.sentences.iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
        let header = ["alternative", "cost", "no longer enough in", "what fails then"];
        section("When it stops being enough", &(sentences + &table("Alternatives by cost", &header, &growth.rows)))
    }

    /// The constraint whose limit the page draws: that on the 95th percentile of the wait, otherwise that on the longest
    /// wait, otherwise the first that bounds a time of which the rows have the figure.
    fn limit(&self) -> Option<TimeLimit> {
        let limits = || self.constraints.iter().filter_map(|one| TimeLimit::read(one));
        let known = |limit: &TimeLimit| self.rows.iter().any(|row| row.figure(&limit.metric).is_some());
        let of = |metric: &str| limits().find(|limit| limit.metric == metric);
        of(WAIT).or_else(|| of(LONGEST)).or_else(|| limits().find(known))
    }

    /// The metric that the page compares with the cost.
    fn wait_metric(&self) -> String {
        self.limit().map_or(WAIT.to_string(), |limit| limit.metric)
    }

    /// The name of this metric, if it is neither the 95th percentile of the wait nor the longest wait.
    fn other_metric(&self) -> Option<String> {
        self.limit().filter(|limit| ![WAIT, LONGEST].contains(&limit.metric.as_str())).map(|limit| limit.name)
    }

    fn made(&self) -> String {
        let commands: Vec<&str> = self.breaks.iter().map(|(_, command)| command.as_str()).collect();
        let breaks = match commands.is_empty() {
            true => String::new(),
            false => format!("<h3>What would break it</h3>\n<pre>{}</pre>\n", escape(&commands.join("\n"))),
        };
        facts(&self.provenance) + &breaks + &format!("<h3>The plan</h3>\n<pre>{}</pre>\n", escape(&self.source))
    }

    /// The alternatives that no other alternative beats in both cost and burden, the cheapest first.
    fn frontier(&self) -> Vec<usize> {
        let mut known: Vec<usize> = (0..self.rows.len()).filter(|row| self.burden(*row).is_some()).collect();
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
    fn nobody_waits(&self) -> bool {
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

    fn frontier_plot(&self) -> Option<Chart> {
        let known: Vec<usize> = (0..self.rows.len()).filter(|row| self.burden(*row).is_some()).collect();
        let high = |row: &usize| self.burden(*row).map_or(0.0, |(mean, ends)| ends.map_or(mean, |(_, high)| high));
        let longest = known.iter().map(high).max_by(f64::total_cmp)?;
        let asked = self.limit().filter(|_| !self.nobody_waits());
        let bound = asked.as_ref().map(|limit| limit.bound);
        let other = self.other_metric().filter(|_| !self.nobody_waits());
        let longest = longest.max(bound.unwrap_or(0.0));
        let dearest = self.rows.iter().map(|row| row.cost).max_by(f64::total_cmp)?;
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
        let group = |keeps: Option<bool>| -> Vec<(f64, f64)> {
            let rows = known.iter().filter(|row| self.rows[**row].keeps == keeps);
            rows.map(|row| at(*row, self.burden(*row).expect("known").0)).collect()
        };
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
        let limit_name = asked.map_or(String::new(), |limit| format!("the limit: {}", limit.constraint));
        let frontier_name = match &other {
            Some(name) => format!("the frontier: no alternative both costs less and has a smaller {name}"),
            None => best_of[0].to_string(),
        };
        let lines = vec![
            line("95% interval", whiskers, Kind::Whiskers, 4),
            line(&frontier_name, frontier, Kind::Steps, 2),
            line("meets all constraints", group(Some(true)), Kind::Dots, 0),
            line("does not", group(Some(false)), Kind::Crosses, 1),
            line("unknown", group(None), Kind::Dots, 5),
            line("the answer", answer, Kind::Dots, ANSWER_LOOK),
            line(&limit_name, limit, Kind::Line, 5),
        ];
        let best = match self.best {
            Some(best) => format!("The answer: {}, {}.", self.rows[best].name, amount(self.rows[best].cost)),
            None => "No alternative meets all constraints.".to_string(),
        };
        Some(Chart {
            title: other.as_ref().map_or(best_of[1].to_string(), |name| format!("Cost and {name}")),
            description: format!(
                "The {} that were run: the cost and {}, as means over the seeds. {best}",
                counted(self.rows.len(), "alternative"),
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

    /// The best alternative, and its neighbours on the frontier.
    fn shown(&self) -> Vec<usize> {
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

    fn waits_plot(&self) -> Option<Chart> {
        if self.nobody_waits() {
            return None;
        }
        let shown = self.shown();
        let longest =
            shown.iter().flat_map(|row| self.rows[*row].waits.iter().flatten()).copied().max_by(f64::total_cmp)?;
        // A constraint on a percentile of the waits is a corner that the curve of the answer must pass above.
        let corner = self.limit().and_then(|limit| {
            let percent = limit.metric.strip_prefix("queue_wait_")?.strip_suffix("_seconds")?;
            let part: f64 = percent.strip_prefix('p')?.parse().ok().filter(|part| *part <= 100.0)?;
            Some((limit.constraint, limit.bound, part / 100.0))
        });
        let longest = longest.max(corner.as_ref().map_or(0.0, |(_, bound, _)| *bound));
        let (x, end) = of_waits("time waited", longest);
        let limit = corner.map(|(name, bound, part)| {
            let at = wait_place(bound) / end;
            Line {
                name: format!("the limit: {name}"),
                points: vec![(0.0, part), (at, part), (at, 0.0)],
                kind: Kind::Line,
                look: 5,
            }
        });
        // The answer has the same look as in the other plot, and nothing else has it.
        let mut looks = (0..).filter(|look| *look != ANSWER_LOOK);
        let lines = shown.iter().map(|row| {
            let look = if Some(*row) == self.best { Some(ANSWER_LOOK) } else { looks.next() }.unwrap_or_default();
            let row = &self.rows[*row];
            let point = |(percent, wait): (&u8, &Option<f64>)| {
                wait.map(|wait| (wait_place(wait) / end, f64::from(*percent) / 100.0))
            };
            let points: Vec<(f64, f64)> = WAIT_PERCENTS.iter().zip(&row.waits).filter_map(point).collect();
            let keeps = match row.keeps {
                Some(true) => "",
                Some(false) => ", does not meet all constraints",
                None => ", unknown",
            };
            Line { name: format!("{} ({}{keeps})", row.name, amount(row.cost)), points, kind: Kind::Steps, look }
        });
        Some(Chart {
            title: "Waiting time".into(),
            description:
                "Share of all replicas that were placed within this time, in steps of a percent, for the answer and its \
                 neighbours on the frontier; each percentile is the mean over the seeds. A curve ends where the other replicas were \
                 never placed. A limit on a percentile is kept by a curve that passes above the corner of its line."
                    .into(),
            x,
            y: of_parts("placed"),
            lines: lines.collect::<Vec<_>>().into_iter().chain(limit).collect(),
        })
    }

    /// The value of a metric that the table has only if a constraint names it.
    fn if_asked(&self, row: &PlanRow, name: &str, metric: &str, write: impl Fn(f64) -> String) -> String {
        let is_asked = self.constraints.iter().any(|constraint| constraint.contains(name));
        if is_asked { row.with(metric, write) } else { String::new() }
    }

    fn alternatives(&self) -> String {
        // A column of times has one unit, so that its numbers can be compared at a glance.
        let times: Vec<(String, String, TimeUnit)> = (self.time_columns().into_iter())
            .map(|(name, metric)| {
                let unit = self.time_unit(&metric);
                (format!("{name} ({})", unit.name), metric, unit)
            })
            .collect();
        let mut header: Vec<String> = self.factors.clone();
        let month = format!("a month{}", self.currency.as_ref().map_or(String::new(), |name| format!(" in {name}")));
        header.extend([self.objective, &month, "seeds", "meets all", "placed"].map(str::to_string));
        header.extend(times.iter().map(|(name, ..)| name.clone()));
        header
            .extend(["slowdown", "allocated", "fragmentation", "cost of the run", "energy in kWh"].map(str::to_string));
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by(|one, other| self.rows[*one].cost.total_cmp(&self.rows[*other].cost).then(one.cmp(other)));
        // The answer is shown in any case.
        if let Some(at) = self.best.and_then(|best| order.iter().position(|row| *row == best)).filter(|at| *at >= ROWS)
        {
            let best = order.remove(at);
            order.insert(ROWS - 1, best);
        }
        order.truncate(ROWS);
        let marked = self.best.and_then(|best| order.iter().position(|row| *row == best));
        let mut rows: Vec<Vec<String>> = (order.iter().map(|row| &self.rows[*row]))
            .map(|row| {
                let mut cells = row.values.clone();
                let keeps = match (row.keeps, &row.broken) {
                    (Some(true), _) => "yes".to_string(),
                    (Some(false), Some(broken)) => format!("no: {broken}"),
                    (Some(false), None) => "no".to_string(),
                    (None, _) => "unknown".to_string(),
                };
                let month = row.month.filter(|_| self.objective != "cost per month");
                let month =
                    month.map_or(String::new(), |month| grouped(month.to_string().split('.').next().unwrap_or("0")));
                cells.extend([amount(row.cost), month, row.runs.to_string(), keeps]);
                cells.push(row.with(PLACED, |value| format!("{:.2}%", value * 100.0)));
                cells.extend(times.iter().map(|(_, metric, unit)| row.with(metric, |value| unit.number(value))));
                cells.push(row.with("bounded_slowdown_mean", |value| format!("{value:.2}")));
                let taken = if row.metrics.contains_key("gpu_allocated") { "gpu_allocated" } else { "cpu_allocated" };
                let percent = |value| format!("{:.1}%", value * 100.0);
                cells.push(row.with(taken, percent));
                cells.push(self.if_asked(row, "fragmentation", "fragmentation", percent));
                cells.push(row.with("cost", |value| grouped(&format!("{value:.2}"))));
                cells.push(row.with("energy", |value| format!("{value:.1}")));
                cells
            })
            .collect();
        // Remove columns that are empty in all rows. Also remove the cost column if the objective is a measured metric,
        // because that metric has a separate column with an interval.
        let first = self.factors.len();
        for column in (first..header.len()).rev() {
            let is_twice = column == first && header[first + 1..].iter().any(|other| other == self.objective);
            if is_twice || rows.iter().all(|row| row[column].is_empty()) {
                header.remove(column);
                rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
        let more = self.rows.len().saturating_sub(ROWS);
        let rest = match more {
            0 => String::new(),
            more => format!("<p class=\"note\">{} more are in alternatives.csv.</p>\n", more),
        };
        let note = "<p class=\"note\">Means over the seeds, ± half the width of the 95% interval (Student's t), or its ends, \
                    where there is one; alternatives.csv has every metric.</p>\n";
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let table = marked_table("Alternatives that were run, the cheapest first", &header, &rows, marked);
        // With several factors, the script of the page can fold the rows that have one value in common.
        let factors = self.factors.len();
        let foldable = match factors {
            0 | 1 => table,
            _ => format!("<div class=\"foldable\" data-factors=\"{factors}\">\n{table}</div>\n"),
        };
        foldable + note + &rest
    }

    /// The times in the table: the name of each column, and its metric. The mean and the 95th percentile of the wait
    /// are always there; others are there if a constraint bounds them.
    fn time_columns(&self) -> Vec<(String, String)> {
        let mut columns = vec![
            ("wait, mean".to_string(), "queue_wait_mean_seconds".to_string()),
            ("wait, 95%".to_string(), WAIT.to_string()),
        ];
        for limit in self.constraints.iter().filter_map(|one| TimeLimit::read(one)) {
            let name = if limit.metric == LONGEST { "wait, longest".to_string() } else { limit.name };
            let is_new = columns.iter().all(|(_, metric)| *metric != limit.metric);
            if is_new && self.rows.iter().any(|row| row.metrics.contains_key(&*limit.metric)) {
                columns.push((name, limit.metric));
            }
        }
        columns
    }

    /// The unit for a column of times: that of the limit if a constraint bounds the metric, otherwise that of the answer,
    /// otherwise that of the median.
    fn time_unit(&self, metric: &str) -> TimeUnit {
        let limit = self.constraints.iter().filter_map(|one| TimeLimit::read(one)).find(|limit| limit.metric == metric);
        let mean_of = |row: &PlanRow| row.metrics.get(metric).map(|(mean, _)| *mean).filter(|mean| *mean > 0.0);
        let median = || {
            let mut means: Vec<f64> = self.rows.iter().filter_map(mean_of).collect();
            means.sort_by(f64::total_cmp);
            means.get(means.len() / 2).copied()
        };
        let of_answer = || self.best.and_then(|best| mean_of(&self.rows[best]));
        TimeUnit::of(limit.map(|limit| limit.bound).or_else(of_answer).or_else(median).unwrap_or(0.0))
    }
}

impl PlanRow {
    /// A metric. A percentile of the wait that is none comes from the waits, without an interval.
    fn figure(&self, metric: &str) -> Option<Figure> {
        let of_waits = || {
            let percent: u8 = metric.strip_prefix("queue_wait_p")?.strip_suffix("_seconds")?.parse().ok()?;
            let at = WAIT_PERCENTS.iter().position(|known| *known == percent)?;
            Some((self.waits.get(at).copied()??, None))
        };
        self.metrics.get(metric).copied().or_else(of_waits)
    }

    /// Formats a mean such as `12.0 ± 0.5`. In a narrow column the text can wrap only before the sign.
    fn with(&self, metric: &str, write: impl Fn(f64) -> String) -> String {
        match self.metrics.get(metric) {
            None => String::new(),
            Some((mean, None)) => write(*mean),
            // An interval that is not symmetric is shown by its ends.
            Some((mean, Some((low, high)))) if ((low + high) / 2.0 - mean).abs() > 1e-6 * mean.abs() => {
                format!("{} ({}\u{a0}to\u{a0}{})", write(*mean), write(*low), write(*high))
            }
            Some((mean, Some((low, high)))) => format!("{} ±\u{a0}{}", write(*mean), write((high - low) / 2.0)),
        }
    }
}

/// A unit of time for a column of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TimeUnit {
    name: &'static str,
    seconds: f64,
}

impl TimeUnit {
    const ALL: [TimeUnit; 5] = [
        TimeUnit { name: "d", seconds: 86_400.0 },
        TimeUnit { name: "h", seconds: 3600.0 },
        TimeUnit { name: "min", seconds: 60.0 },
        TimeUnit { name: "s", seconds: 1.0 },
        TimeUnit { name: "ms", seconds: 0.001 },
    ];

    /// The largest unit of which so many seconds are at least two.
    fn of(seconds: f64) -> TimeUnit {
        let fits = |unit: &TimeUnit| seconds >= 2.0 * unit.seconds;
        TimeUnit::ALL.into_iter().find(fits).unwrap_or(TimeUnit { name: "s", seconds: 1.0 })
    }

    /// A number of this unit with one decimal, such as `1,234.5`. Seconds and shorter units have three digits.
    fn number(self, seconds: f64) -> String {
        let value = seconds / self.seconds;
        let is_short = self.seconds <= 1.0;
        match value {
            0.0 => "0.0".to_string(),
            0.0..0.0005 if is_short => "<0.001".to_string(),
            0.0..0.9995 if is_short => format!("{value:.3}"),
            0.0..9.995 if is_short => format!("{value:.2}"),
            0.0..0.05 => "<0.1".to_string(),
            _ => grouped(&format!("{value:.1}")),
        }
    }
}

/// Formats a number with two decimals, or without decimals if it is whole.
fn amount(value: f64) -> String {
    let text = format!("{value:.2}");
    grouped(text.strip_suffix(".00").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rows: &[(f64, f64, bool)], best: Option<usize>) -> PlanReport {
        let row = |(index, (cost, wait, keeps)): (usize, &(f64, f64, bool))| PlanRow {
            name: format!("workers={index}"),
            values: vec![index.to_string()],
            cost: *cost,
            month: None,
            runs: 1,
            keeps: Some(*keeps),
            broken: None,
            metrics: BTreeMap::from([(WAIT, (*wait, None))]),
            waits: vec![Some(0.0), Some(*wait)],
        };
        PlanReport {
            how: String::new(),
            figures: Vec::new(),
            title: "Which?".into(),
            answer: "This.".into(),
            breaks: Vec::new(),
            note: None,
            growth: None,
            currency: None,
            is_minimized: true,
            objective: "GPUs",
            factors: vec!["workers".into()],
            constraints: Vec::new(),
            rows: rows.iter().enumerate().map(row).collect(),
            best,
            assumptions: Vec::new(),
            provenance: Vec::new(),
            source: String::new(),
        }
    }

    #[test]
    fn where_nobody_waits_the_frontier_is_of_those_that_are_turned_away() {
        let mut found = report(&[(1.0, 0.0, false), (2.0, 0.0, true), (3.0, 0.0, true)], Some(1));
        for (row, placed) in found.rows.iter_mut().zip([0.5, 0.98, 0.97]) {
            row.metrics.insert(PLACED, (placed, None));
        }
        // The first alternative refuses half of the jobs, and the second refuses two in a hundred. The third costs more
        // and refuses more than the second.
        assert_eq!(found.frontier(), [0, 1]);
        let html = found.html();
        assert!(html.contains("Cost against replicas that were turned away") && !html.contains("Waiting time"));
        assert!(html.contains(">placed</th>") && !html.contains("cost of the run"), "no column without a figure");
    }

    #[test]
    fn the_limit_of_any_percentile_is_drawn_in_its_own_figure() {
        let mut found = report(&[(1.0, 90.0, false), (2.0, 10.0, true)], Some(1));
        found.constraints = vec!["placed >= 99%".into(), "p99(ttft) <= 2s".into()];
        assert!(found.limit().is_none(), "no row has the figure");
        for (row, ttft) in found.rows.iter_mut().zip([5.0, 1.5]) {
            row.metrics.insert("ttft_p99_seconds", (ttft, None));
        }
        assert_eq!(found.limit().map(|limit| (limit.metric, limit.bound)), Some(("ttft_p99_seconds".into(), 2.0)));
        let html = found.html();
        assert!(html.contains("the limit: p99(ttft) &lt;= 2s") && html.contains("Cost against p99(ttft)"));
        found.constraints.push("p95(queue_wait) <= 1m".into());
        assert_eq!(found.wait_metric(), WAIT, "a limit on the wait comes first");
    }

    #[test]
    fn a_column_of_times_has_one_unit() {
        let mut found = report(&[(1.0, 90_000.0, false), (2.0, 1500.0, true), (3.0, 1.0, true)], Some(1));
        let cells = |found: &PlanReport| {
            let html = found.html();
            let header = html.split("<th").find(|cell| cell.contains("wait, 95%")).expect("the column").to_string();
            let unit = header.split(['(', ')']).nth(1).expect("a unit").to_string();
            let cells =
                html.split("data-h=\"wait, 95%").skip(1).map(|cell| cell.split(['>', '<']).nth(1).expect("text"));
            (unit, cells.map(str::to_string).collect::<Vec<_>>())
        };
        // The answer waits 25 minutes.
        assert_eq!(cells(&found), ("min".into(), ["1,500.0", "25.0", "&lt;0.1"].map(str::to_string).to_vec()));
        found.constraints = vec!["p95(queue_wait) <= 3h".into()];
        assert_eq!(cells(&found), ("h".into(), ["25.0", "0.4", "&lt;0.1"].map(str::to_string).to_vec()));
        assert_eq!(TimeUnit::of(0.0).name, "s");
        // The unit of a limit of two seconds.
        let second = TimeUnit::of(2.0);
        assert_eq!(second.name, "s");
        let numbers = [0.0001, 0.872, 0.99951, 1.0042, 12.34].map(|seconds| second.number(seconds));
        assert_eq!(numbers, ["<0.001", "0.872", "1.00", "1.00", "12.3"]);
    }

    #[test]
    fn the_frontier_has_those_that_none_beats_in_both() {
        // By cost: the alternative at 1 waits 90 s; the one at 2 waits 100 s and is beaten; one at 3 waits 50 s and
        // another 40 s; the one at 4 waits 40 s and is beaten.
        let rows = [(3.0, 50.0, false), (1.0, 90.0, false), (2.0, 100.0, false), (3.0, 40.0, true), (4.0, 40.0, true)];
        let found = report(&rows, Some(3));
        assert_eq!(found.frontier(), [1, 3]);
        assert_eq!(found.shown(), [1, 3], "in the order of their cost");
        assert!(found.html().contains("The answer: workers=3, 3."));
    }
}
