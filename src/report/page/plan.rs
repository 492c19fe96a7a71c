//! The report of a plan: which alternative meets the constraints, what it costs, and how the others compare.

use std::collections::BTreeMap;

use super::chart::Chart;
use super::html::{command, escape, facts, list, marked_table, page, prose, section};
use dryrack_metrics::{Definition, WAIT_PERCENTS, definition_of};
use dryrack_units::{SimDuration, grouped};

/// The contents of the page.
pub struct PlanReport {
    /// The plan's title, the answer to its question in a few sentences, and how it was found.
    pub title: String,
    pub answer: String,
    pub how: String,
    /// The figures of the first screen, and what each of them is.
    pub figures: Vec<(String, String)>,
    /// The cheapest alternative with each named value of a choice: the cells of its row, and whether it is the answer. May be
    /// empty.
    pub choices: Vec<(Vec<String>, bool)>,
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
    /// For each constraint, the share of the seeds in which it must hold; `None` if it is all of them.
    pub required: Vec<Option<String>>,
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
    pub header: Vec<&'static str>,
    /// For each alternative: its name, its costs, the month in which it is no longer enough, and what fails then.
    pub rows: Vec<Vec<String>>,
}

/// A mean, and the ends of its interval.
pub(super) type Figure = (f64, Option<(f64, f64)>);

/// An alternative that was run.
pub struct PlanRow {
    pub name: String,
    /// The value of each factor.
    pub values: Vec<String>,
    /// The cost in the unit of the objective.
    pub cost: f64,
    /// The same with its unit, such as `24 GPUs` or `56.80 EUR an hour`.
    pub amount: String,
    /// What a month of 730 hours costs, and whether this is the `price` of the nodes or the whole `cost`.
    pub month: Option<(f64, &'static str)>,
    /// The most instances at one time that clouds created, and their GPUs; empty if there were none.
    pub rented: String,
    /// For what the energy is known, if not for all nodes; may be empty.
    pub energy_note: String,
    pub runs: usize,
    /// Whether there is one run, or every seed gives the same one. Then an interval of a wait is from its sections.
    pub is_one_run: bool,
    pub keeps: Option<bool>,
    /// Whether it has the assumptions of the answer, so that it could be chosen instead.
    pub is_choice: bool,
    /// The constraint that does not hold, with the seed and, if known, more detail.
    pub broken: Option<String>,
    /// The means over the seeds, each with the ends of its interval or of the range of the seeds if there is one.
    pub metrics: BTreeMap<&'static str, Figure>,
    /// Mean waits over the seeds in seconds at [`WAIT_PERCENTS`]. `None` if with some seed the percentile falls on a
    /// replica that was never placed.
    pub waits: Vec<Option<f64>>,
}

const CHOICE_HEADER: [&str; 4] = ["choice", "cheapest that meets the constraints", "cost", "against the answer"];

pub(super) const WAIT: &str = "queue_wait_p95_seconds";
pub(super) const LONGEST: &str = "queue_wait_max_seconds";
pub(super) const PLACED: &str = "placed";

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
        let plots = [self.frontier_plot(), self.waits_plot()];
        let note = self.unwaited_note();
        let plots: String = plots.iter().flatten().map(Chart::figure).collect();
        let body = [
            self.tiles(),
            self.choices(),
            self.note.as_ref().map_or(String::new(), |note| format!("<p class=\"fail\">{}</p>\n", prose(note))),
            self.breaking(),
            self.growing(),
            section("Question, and how it was answered", &self.asked()),
            section(
                &match (self.nobody_waits(), self.other_metric()) {
                    (true, _) => "Cost against replicas that were turned away".to_string(),
                    (false, Some(name)) => format!("Cost against {name}"),
                    (false, None) => "Cost against waiting time".to_string(),
                },
                &format!("<div class=\"plots\">\n{plots}</div>\n{note}"),
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
            format!("<div><b>{}</b><span>{}</span></div>", escape(&with_months(value)), escape(what))
        };
        match self.figures.is_empty() {
            true => String::new(),
            false => format!("<div class=\"tiles\">{}</div>\n", self.figures.iter().map(tile).collect::<String>()),
        }
    }

    /// A row for each named value of a choice; empty if nothing is chosen by its name.
    fn choices(&self) -> String {
        let rows: Vec<Vec<String>> = self.choices.iter().map(|(cells, _)| cells.clone()).collect();
        let mark = |row: usize| if self.choices[row].1 { "best" } else { "" };
        match rows.is_empty() {
            true => String::new(),
            false => marked_table("The cheapest with each choice", &CHOICE_HEADER, &rows, mark),
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
            let of = |(at, constraint): (usize, &String)| match self.required.get(at).and_then(Option::as_ref) {
                Some(share) => format!("{constraint}, with {share}"),
                None => constraint.clone(),
            };
            text.push_str(&list(&self.constraints.iter().enumerate().map(of).collect::<Vec<_>>()));
        }
        if !self.how.is_empty() {
            text.push_str(&format!("<p>{}</p>\n", prose(&self.how)));
        }
        text
    }

    /// The unit of an objective that is money, such as ` in USD`; otherwise empty.
    pub(super) fn in_currency(&self) -> String {
        let is_money = self.objective.contains("price") || self.objective.contains("cost");
        let name = self.currency.as_ref().filter(|_| is_money);
        name.map_or(String::new(), |name| format!(" in {name}"))
    }

    /// The cost as a number. All costs have two decimals if one of them is not whole.
    pub(super) fn amount(&self, cost: f64) -> String {
        let text = |cost: f64| format!("{cost:.2}");
        match self.rows.iter().all(|row| text(row.cost).ends_with(".00")) {
            true => grouped(&format!("{cost:.0}")),
            false => grouped(&text(cost)),
        }
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
        let sentences: String = growth.sentences.iter().map(|line| format!("<p>{}</p>\n", prose(line))).collect();
        // A short cost and the month stay on one line each beside the long last column.
        let unbroken = |row: &Vec<String>| -> Vec<String> {
            let cell =
                |cell: &String| if cell.len() <= 20 { with_months(cell).replace(' ', "\u{a0}") } else { cell.clone() };
            row.iter().enumerate().map(|(at, text)| if at == 0 { text.clone() } else { cell(text) }).collect()
        };
        let rows: Vec<Vec<String>> = growth.rows.iter().map(unbroken).collect();
        let best = self.best.map(|best| &self.rows[best].name);
        let mark = |row: usize| if best == rows[row].first() { "best" } else { "" };
        section(
            "When it stops being enough",
            &(sentences + &marked_table("Alternatives by cost", &growth.header, &rows, mark)),
        )
    }

    /// The constraint whose limit the page draws: that on the 95th percentile of the wait, otherwise that on the longest
    /// wait, otherwise the first that bounds a time of which the rows have the figure.
    pub(super) fn limit(&self) -> Option<TimeLimit> {
        let limits = || self.constraints.iter().filter_map(|one| TimeLimit::read(one));
        let known = |limit: &TimeLimit| self.rows.iter().any(|row| row.figure(&limit.metric).is_some());
        let of = |metric: &str| limits().find(|limit| limit.metric == metric);
        of(WAIT).or_else(|| of(LONGEST)).or_else(|| limits().find(known))
    }

    /// The constraint that bounds the cost on the horizontal axis, and its bound in the unit of the axis. A bound on the cost of
    /// a month is drawn on an axis of prices per hour if a month costs 730 times that in every row.
    pub(super) fn cost_limit(&self) -> Option<(&str, f64)> {
        let own = match self.objective {
            "GPUs" => "gpus",
            "nodes" => "nodes",
            "price per hour" => "price_per_hour",
            "cost of the run" => "cost",
            "cost per month" => "cost_per_month",
            _ => "energy",
        };
        let is_price = |row: &PlanRow| row.month.is_some_and(|(month, _)| (month / 730.0 - row.cost).abs() < 0.01);
        let scale = |name: &str| match name {
            name if name == own => Some(1.0),
            "cost_per_month" if own == "price_per_hour" && self.rows.iter().all(is_price) => Some(730.0),
            _ => None,
        };
        self.constraints.iter().find_map(|constraint| {
            let (name, bound) = constraint.split_once('<')?;
            let bound: f64 = bound.trim_start_matches('=').trim().split(' ').next()?.replace(',', "").parse().ok()?;
            Some((constraint.as_str(), bound / scale(name.trim())?))
        })
    }

    /// In which share of the seeds a constraint must hold.
    pub(super) fn share(&self, constraint: &str) -> &str {
        let at = self.constraints.iter().position(|known| known == constraint);
        at.and_then(|at| self.required.get(at)?.as_deref()).unwrap_or("every seed")
    }

    /// The metric that the page compares with the cost.
    pub(super) fn wait_metric(&self) -> String {
        self.limit().map_or(WAIT.to_string(), |limit| limit.metric)
    }

    /// The name of this metric, if it is neither the 95th percentile of the wait nor the longest wait.
    pub(super) fn other_metric(&self) -> Option<String> {
        self.limit().filter(|limit| ![WAIT, LONGEST].contains(&limit.metric.as_str())).map(|limit| limit.name)
    }

    fn made(&self) -> String {
        let commands: Vec<&str> = self.breaks.iter().map(|(_, command)| command.as_str()).collect();
        let breaks = match commands.is_empty() {
            true => String::new(),
            false => format!("<h3>Runs that would break it</h3>\n<pre>{}</pre>\n", command(&commands.join("\n"))),
        };
        facts(&self.provenance) + &breaks + &format!("<h3>The plan</h3>\n<pre>{}</pre>\n", escape(&self.source))
    }
}

impl PlanRow {
    /// A metric. A percentile of the wait that is none comes from the waits, without an interval.
    pub(super) fn figure(&self, metric: &str) -> Option<Figure> {
        let of_waits = || {
            let percent: u8 = metric.strip_prefix("queue_wait_p")?.strip_suffix("_seconds")?.parse().ok()?;
            let at = WAIT_PERCENTS.iter().position(|known| *known == percent)?;
            Some((self.waits.get(at).copied()??, None))
        };
        self.metrics.get(metric).copied().or_else(of_waits)
    }

    /// Formats a mean such as `12.0 ± 0.5`. In a narrow column the text can wrap only before the sign.
    pub(super) fn with(&self, metric: &str, write: impl Fn(f64) -> String) -> String {
        let is_range = definition_of(metric).is_some_and(Definition::is_extreme);
        match self.metrics.get(metric) {
            None => String::new(),
            Some((mean, None)) => write(*mean),
            // With every seed the same.
            Some((mean, Some((low, high)))) if low >= high || write(*low) == write(*high) => write(*mean),
            // A range, and an interval that is not symmetric, are shown by their ends.
            Some((mean, Some((low, high)))) if is_range || ((low + high) / 2.0 - mean).abs() > 1e-6 * mean.abs() => {
                format!("{} ({}\u{a0}to\u{a0}{})", write(*mean), write(*low), write(*high))
            }
            Some((mean, Some((low, high)))) => format!("{} ±\u{a0}{}", write(*mean), write((high - low) / 2.0)),
        }
    }
}

/// A text in which a browser breaks no month, such as `2026-12`. Names of machines may break at their hyphens.
fn with_months(text: &str) -> String {
    let is_month = |word: &str| {
        let parts = word.trim_matches(['(', ')']).split_once('-');
        let is_number = |part: &str, digits| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        parts.is_some_and(|(year, month)| is_number(year, 4) && is_number(month, 2))
    };
    let word = |word: &str| if is_month(word) { word.replace('-', "\u{2011}") } else { word.to_string() };
    text.split(' ').map(word).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::plan_table::TimeUnit;
    use super::*;

    fn report(rows: &[(f64, f64, bool)], best: Option<usize>) -> PlanReport {
        let row = |(index, (cost, wait, keeps)): (usize, &(f64, f64, bool))| PlanRow {
            name: format!("workers={index}"),
            values: vec![index.to_string()],
            cost: *cost,
            amount: format!("{cost:.0} GPUs"),
            month: None,
            rented: String::new(),
            energy_note: String::new(),
            runs: 1,
            is_one_run: true,
            keeps: Some(*keeps),
            is_choice: true,
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
            choices: Vec::new(),
            note: None,
            growth: None,
            currency: None,
            is_minimized: true,
            objective: "GPUs",
            factors: vec!["workers".into()],
            constraints: Vec::new(),
            required: Vec::new(),
            rows: rows.iter().enumerate().map(row).collect(),
            best,
            assumptions: Vec::new(),
            provenance: Vec::new(),
            source: String::new(),
        }
    }

    #[test]
    fn a_mean_over_seeds_does_not_show_that_a_limit_is_kept() {
        let mut found = report(&[(1.0, 90.0, false), (2.0, 5.0, true)], Some(1));
        found.constraints = vec!["p95(queue_wait) <= 1m".into()];
        let caption = |found: &PlanReport| found.waits_plot().expect("some wait").description;
        assert!(caption(&found).contains("is kept by a curve that passes above"), "{}", caption(&found));
        found.rows[1].is_one_run = false;
        assert!(caption(&found).contains("must hold with every seed"), "{}", caption(&found));
    }

    #[test]
    fn a_constraint_on_the_cost_is_a_line_and_other_reasons_have_their_own_crosses() {
        let mut found = report(&[(4.0, 90.0, false), (6.0, 30.0, true), (9.0, 5.0, false)], Some(1));
        found.objective = "cost per month";
        found.constraints = ["p95(queue_wait) <= 1m", "cost_per_month <= 8"].map(String::from).to_vec();
        found.rows[0].broken = Some("p95(queue_wait) <= 1m, seed 1: 1m30s".into());
        found.rows[2].broken = Some("cost_per_month <= 8, seed 1: 9.00".into());
        let (limit, other) = ("the limit: cost_per_month <= 8", "fails for a reason that has no line here");
        let names = |found: &PlanReport| -> Vec<String> {
            found.frontier_plot().expect("costs").lines.into_iter().map(|line| line.name).collect()
        };
        assert!(names(&found).iter().any(|name| name == limit) && !names(&found).iter().any(|name| name == other));
        let line = found.frontier_plot().expect("costs").lines.into_iter().find(|line| line.name == limit);
        let points = line.expect("a line").points;
        assert!(points.len() == 2 && (points[0].0 - points[1].0).abs() < 1e-9, "it is upright: {points:?}");
        found.rows[2].broken = Some("jobs_failed == 0, seed 1: 1".into());
        assert!(names(&found).iter().any(|name| name == other));
        found.constraints[1] = "cost_per_month <= 800".into();
        assert!(!names(&found).iter().any(|name| name.contains("800")), "a line far away would leave no room");
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
        // The mean of the answer is 2 minutes, so all waits are in minutes.
        for row in &mut found.rows {
            row.metrics.insert("queue_wait_mean_seconds", (120.0, None));
        }
        assert_eq!(cells(&found), ("min".into(), ["1,500.0", "25.0", "&lt;0.1"].map(str::to_string).to_vec()));
        // The answer waits for less than a second, and others for a day.
        let day = report(&[(1.0, 100_000.0, false), (2.0, 3600.0, false), (3.0, 0.957, true)], Some(2));
        assert_eq!(cells(&day), ("min".into(), ["1,666.7", "60.0", "&lt;0.1"].map(str::to_string).to_vec()));
        let days = report(&[(1.0, 1e6, false), (2.0, 3.0, true), (3.0, 3.0, true)], Some(1));
        assert_eq!(cells(&days).0, "h", "one step below the largest");
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
        assert!(found.html().contains("The answer: workers=3, 3 GPUs."));
    }
}
