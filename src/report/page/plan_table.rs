//! The table of a plan: every alternative that was run.

use super::html::marked_table;
use super::plan::{Figure, LONGEST, PLACED, PlanReport, PlanRow, TimeLimit, WAIT};
use dryrack_units::grouped;

/// The largest number of rows.
const ROWS: usize = 200;

/// Metrics of jobs that did not run to their end. The table of a plan has a column for each that is not 0 in some alternative.
pub const UNFINISHED_JOBS: [&str; 3] = ["jobs_failed", "jobs_lost", "jobs_expired"];

/// The mean number of jobs over the seeds: whole, or with one decimal.
pub fn mean_jobs(mean: f64) -> String {
    let is_whole = (mean - mean.round()).abs() < 1e-9;
    grouped(&if is_whole { format!("{mean:.0}") } else { format!("{mean:.1}") })
}

fn is_wait(metric: &str) -> bool {
    metric.starts_with("queue_wait_")
}

impl PlanReport {
    /// The value of a metric that the table has only if a constraint names it.
    fn if_asked(&self, row: &PlanRow, name: &str, metric: &str, write: impl Fn(f64) -> String) -> String {
        let is_asked = self.constraints.iter().any(|constraint| constraint.contains(name));
        if is_asked { row.with(metric, write) } else { String::new() }
    }

    pub(super) fn alternatives(&self) -> String {
        let times = self.timed_columns();
        let money = |name: &str| {
            format!("{name}{}", self.currency.as_ref().map_or(String::new(), |name| format!(" in {name}")))
        };
        let objective = format!("{}{}", self.objective, self.in_currency());
        let has_gpus = self.rows.iter().any(|row| row.metrics.contains_key("gpu_allocated"));
        let (taken, allocated) =
            if has_gpus { ("gpu_allocated", "GPUs allocated") } else { ("cpu_allocated", "CPU allocated") };
        let mut header: Vec<String> = self.factors.clone();
        let month = self.rows.iter().find_map(|row| row.month).map_or("price", |(_, name)| name);
        header.extend([objective.clone(), money(&format!("{month} a month"))]);
        header.extend(["rented at once", "instance-hours", "seeds", "meets all", "placed"].map(str::to_string));
        let is_some =
            |metric: &&str| self.rows.iter().any(|row| row.metrics.get(metric).is_some_and(|(mean, _)| *mean > 0.0));
        let unfinished: Vec<&str> = UNFINISHED_JOBS.into_iter().filter(|metric| is_some(metric)).collect();
        header.extend(unfinished.iter().map(|metric| metric.replace('_', " ")));
        header.extend(times.iter().map(|(name, ..)| name.clone()));
        header.extend(["slowdown", allocated, "fragmentation"].map(str::to_string));
        header.extend([money("cost of the run"), "energy in kWh".to_string()]);
        let order = self.cheapest();
        let marked = self.best.and_then(|best| order.iter().position(|row| *row == best));
        let mut rows: Vec<Vec<String>> = (order.iter().map(|row| &self.rows[*row]))
            .map(|row| {
                let mut cells = row.values.clone();
                let month = row.month.filter(|_| self.objective != "cost per month");
                let month = month.map_or(String::new(), |(month, _)| grouped(&format!("{month:.0}")));
                let hours = row.with("instance_hours", |hours| grouped(&format!("{hours:.1}")));
                let cost = match self.objective {
                    "cost per month" => row.with("cost_per_month", |cost| grouped(&format!("{cost:.2}"))),
                    _ => self.amount(row.cost),
                };
                cells.extend([cost, month, row.rented.clone(), hours, row.runs.to_string(), meets(row)]);
                cells.push(row.with(PLACED, |value| format!("{:.2}%", value * 100.0)));
                cells.extend(unfinished.iter().map(|metric| row.with(metric, mean_jobs)));
                cells.extend(times.iter().map(|(_, metric, unit)| row.with(metric, |value| unit.number(value))));
                cells.push(self.if_asked(row, "slowdown", "bounded_slowdown_mean", |value| format!("{value:.2}")));
                let percent = |value| format!("{:.1}%", value * 100.0);
                cells.push(row.with(taken, percent));
                cells.push(self.if_asked(row, "fragmentation", "fragmentation", percent));
                let of_run = |value: f64| grouped(&format!("{value:.2}"));
                cells.push(match self.objective {
                    "cost of the run" => row.with("cost", of_run),
                    _ => String::new(),
                });
                let energy = row.with("energy", |value| format!("{value:.1}"));
                cells.push(if energy.is_empty() { energy } else { energy + &row.energy_note });
                cells
            })
            .collect();
        // Remove columns that are empty in all rows. Also remove the cost column if the objective is a measured metric,
        // because that metric has a separate column with an interval.
        let first = self.factors.len();
        for column in (first..header.len()).rev() {
            let is_twice = column == first && header[first + 1..].contains(&objective);
            if is_twice || rows.iter().all(|row| row[column].is_empty()) {
                header.remove(column);
                rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
        let more = self.rows.len().saturating_sub(ROWS);
        let rest = match more {
            0 => String::new(),
            more => format!("<p class=\"note\">{} more are in alternatives.csv.</p>\n", grouped(&more.to_string())),
        };
        let note = format!("<p class=\"note\">{} alternatives.csv has every metric.</p>\n", self.intervals_note());
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let caption = "Alternatives that were run, the cheapest first";
        let table = marked_table(caption, &header, &rows, |row| if marked == Some(row) { "best" } else { "" });
        // With several factors, the script of the page can fold the rows that have one value in common.
        let factors = self.factors.len();
        let foldable = match factors {
            0 | 1 => format!("<div class=\"dense\">\n{table}</div>\n"),
            _ => format!("<div class=\"dense foldable\" data-factors=\"{factors}\">\n{table}</div>\n"),
        };
        foldable + &note + &rest
    }

    /// What follows the figures of the table.
    fn intervals_note(&self) -> String {
        let has_ends = |found: &Figure| found.1.is_some_and(|(low, high)| low < high);
        let has_interval = |row: &PlanRow| row.metrics.iter().any(|(name, found)| is_wait(name) && has_ends(found));
        let of_sections = self.rows.iter().any(|row| row.is_one_run && has_interval(row));
        let of_seeds = self.rows.iter().any(|row| !row.is_one_run);
        let seeds = "Means over the seeds. For a percentile or a maximum, the range of the seeds follows, which is not a 95% \
                     interval: another seed may be outside it. From 40 seeds on, it is their 2.5th to 97.5th percentile. For \
                     other figures, the 95% interval follows (Student's t): ± half its width, or its ends.";
        let sections = "a wait is followed by its 95% interval from sections of the run, where there is one.";
        match (of_seeds, of_sections) {
            (true, false) => seeds.to_string(),
            (true, true) => format!("{seeds} Where all seeds give the same run, {sections}"),
            (false, true) => format!("Figures of one run; {sections}"),
            (false, false) => "Figures of one run, so none has an interval.".to_string(),
        }
    }

    /// The rows of the table, the cheapest first. The answer is shown in any case.
    fn cheapest(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by(|one, other| self.rows[*one].cost.total_cmp(&self.rows[*other].cost).then(one.cmp(other)));
        if let Some(at) = self.best.and_then(|best| order.iter().position(|row| *row == best)).filter(|at| *at >= ROWS)
        {
            let best = order.remove(at);
            order.insert(ROWS - 1, best);
        }
        order.truncate(ROWS);
        order
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

    /// The columns of times: the name, the metric, and the unit. A column has one unit, so that its numbers can be compared
    /// at a glance. All waits have the same one: the smallest that one of their columns would have alone, but at most one
    /// step below the largest, because a number of many digits is hard to read.
    fn timed_columns(&self) -> Vec<(String, String, TimeUnit)> {
        let columns: Vec<(String, String, Option<TimeUnit>)> = (self.time_columns().into_iter())
            .map(|(name, metric)| {
                let unit = self.time_unit(&metric);
                (name, metric, unit)
            })
            .collect();
        let of_waits = || columns.iter().filter(|(_, metric, _)| is_wait(metric)).filter_map(|(.., unit)| *unit);
        let shared = match (of_waits().map(TimeUnit::place).min(), of_waits().map(TimeUnit::place).max()) {
            (Some(largest), Some(smallest)) => TimeUnit::ALL[smallest.min(largest + 1)],
            _ => TimeUnit::SECOND,
        };
        let with_unit = |(name, metric, unit): (String, String, Option<TimeUnit>)| {
            let unit = if is_wait(&metric) { shared } else { unit.unwrap_or(TimeUnit::SECOND) };
            (format!("{name} ({})", unit.name), metric, unit)
        };
        columns.into_iter().map(with_unit).collect()
    }

    /// The unit for a column of times: that of the limit if a constraint bounds the metric, otherwise that of the median,
    /// but at most one step below the unit of the largest time. `None` if no alternative has such a time.
    fn time_unit(&self, metric: &str) -> Option<TimeUnit> {
        let limit = self.constraints.iter().filter_map(|one| TimeLimit::read(one)).find(|limit| limit.metric == metric);
        let mean_of = |row: &PlanRow| row.metrics.get(metric).map(|(mean, _)| *mean).filter(|mean| *mean > 0.0);
        let mut means: Vec<f64> = self.rows.iter().filter_map(mean_of).collect();
        means.sort_by(f64::total_cmp);
        let unit = limit.map(|limit| limit.bound).or(means.get(means.len() / 2).copied()).map(TimeUnit::of)?;
        let largest = means.last().map_or(0, |largest| TimeUnit::of(*largest).place());
        Some(TimeUnit::ALL[unit.place().min(largest + 1)])
    }
}

fn meets(row: &PlanRow) -> String {
    match (row.keeps, &row.broken) {
        (Some(true), _) => "yes".to_string(),
        (Some(false), Some(broken)) => format!("no: {broken}"),
        (Some(false), None) => "no".to_string(),
        (None, _) => "unknown".to_string(),
    }
}

/// A unit of time for a column of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimeUnit {
    pub(super) name: &'static str,
    seconds: f64,
}

impl TimeUnit {
    const SECOND: TimeUnit = TimeUnit { name: "s", seconds: 1.0 };
    /// The largest first.
    const ALL: [TimeUnit; 5] = [
        TimeUnit { name: "d", seconds: 86_400.0 },
        TimeUnit { name: "h", seconds: 3600.0 },
        TimeUnit { name: "min", seconds: 60.0 },
        TimeUnit::SECOND,
        TimeUnit { name: "ms", seconds: 0.001 },
    ];

    /// The place among all units.
    fn place(self) -> usize {
        TimeUnit::ALL.iter().position(|known| *known == self).unwrap_or_default()
    }

    /// The largest unit of which so many seconds are at least two.
    pub(super) fn of(seconds: f64) -> TimeUnit {
        let fits = |unit: &TimeUnit| seconds >= 2.0 * unit.seconds;
        TimeUnit::ALL.into_iter().find(fits).unwrap_or(TimeUnit::SECOND)
    }

    /// A number of this unit with one decimal, such as `1,234.5`. Seconds and shorter units have three digits.
    pub(super) fn number(self, seconds: f64) -> String {
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
