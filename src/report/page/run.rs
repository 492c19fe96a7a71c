//! The report of one run.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::super::bins::Bins;
use super::super::served;
use super::super::spans::Spans;
use super::super::summary::replica_name;
use super::super::timeline::about;
use super::axes::{from_note, of_counts, of_parts, of_run, of_waits, part_place};
use super::chart::{Chart, Kind, Line};
use super::gantt::gantt;
use super::heat::HeatMap;
use super::html::{facts, list, many, marked_table, page, section, table};
use super::serving_plot;
use crate::plot::wait_place;
use dryrack_engine::{Rehearsal, Standing};
use dryrack_expect::Verdict;
use dryrack_metrics::{Blame, Function, Metrics, RunAccount, Series, Standings, Unit, Value, definition_of, quantile};
use dryrack_units::{SimDuration, SimTime, counted, grouped};

/// The contents of a report.
pub struct RunReport<'a> {
    pub rehearsal: &'a Rehearsal,
    pub accounts: &'a RunAccount,
    pub metrics: &'a Metrics,
    pub spans: &'a Spans,
    pub verdicts: &'a [Verdict],
    /// The statements about the trace.
    pub trace: &'a [String],
    /// What the run assumes because its file leaves it open.
    pub assumed: &'a [String],
    /// The date at which the run starts, since the start of 1970, if its jobs are from a log with dates.
    pub starts_at: Option<SimTime>,
    pub digest: &'a str,
    /// The command that reproduces the report.
    pub command: &'a str,
}

/// The files of a report, with their names. Equal runs give equal bytes.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// The largest number of queues with a curve.
const QUEUES: usize = 5;
/// The largest number of failed expectations that the answer names.
const FAILED: usize = 3;
/// With more expectations that hold, these are folded.
const HOLDING: usize = 12;
/// The largest number of rows in the table of unplaced jobs.
const UNPLACED: usize = 40;
/// The largest number of lines of the scenario that are shown.
const SOURCE_LINES: usize = 120;

impl RunReport<'_> {
    /// The files: `report.html`, and its contents as CSV and JSON.
    pub fn files(&self) -> Files {
        let bins = Bins::of(self.accounts, self.spans, self.rehearsal);
        let heat = HeatMap::of(self.accounts, self.spans);
        let json = self.json(&bins, &heat);
        let mut text = serde_json::to_string_pretty(&json).expect("it has a JSON form");
        text.push('\n');
        vec![
            ("report.html", self.html(&bins, &heat).into_bytes()),
            ("report.json", text.into_bytes()),
            ("metrics.csv", super::data::metrics_csv(self.metrics)),
            ("series.csv", super::data::series_csv(&bins)),
            ("waits.csv", super::data::waits_csv(&self.waits())),
            ("heat.csv", super::data::heat_csv(&heat.rows)),
            ("spans.csv", super::data::spans_csv(self.accounts, self.spans)),
        ]
    }

    fn html(&self, bins: &Bins, heat: &HeatMap) -> String {
        let plots = [self.waits_plot(), queue_plot(bins, self.starts_at), self.allocation_plot(bins)];
        let of_services = serving_plot::plots(self.accounts, self.starts_at);
        let plots: String = of_services.iter().chain(plots.iter().flatten()).map(Chart::figure).collect();
        let note =
            if self.nobody_waits() { "<p>Every replica was placed as soon as it was submitted.</p>\n" } else { "" };
        let over_time = heat.figure(self.starts_at) + &gantt(self.accounts, self.spans, self.starts_at);
        let body = [
            self.tiles(),
            section("Expectations", &self.expectations()),
            section("Waiting times and allocation", &format!("{note}<div class=\"plots\">\n{plots}</div>\n")),
            section("Nodes and jobs over time", &over_time),
            section("Reasons for refusals and waiting", &self.reasons()),
            section("All figures", &self.figures()),
            section("Assumptions", &list(&self.assumptions())),
            section("How to repeat this", &self.provenance()),
        ];
        page(&self.rehearsal.title, (&self.answer(), self.is_bad()), &body.concat())
    }

    /// Whether the outcome is bad: an expectation fails, or a job can never run.
    fn is_bad(&self) -> bool {
        let has_unserved = self.accounts.services.values().any(|service| service.unserved() > 0);
        self.accounts.unplaceable.jobs > 0 || has_unserved || self.verdicts.iter().any(|verdict| !verdict.passed)
    }

    /// The outcome of the run in one sentence.
    pub fn answer(&self) -> String {
        let never = self.accounts.never_run().map_or(String::new(), |sentence| format!("{sentence}. "));
        let served = served::answer(self.accounts);
        let mut text = format!("{}{never}{served}{}", self.failed(), self.jobs_at_the_end());
        if let Some(Value::Time(wait)) = self.metrics.get("queue_wait_p95_seconds") {
            text.push_str(&format!(", 95% of the placed replicas waited {} or less", about(wait)));
        }
        if let Some(wait) = self.late_start() {
            text.push_str(&format!(
                " to be placed, 95% of those that started were up {} or less after submission",
                about(wait)
            ));
        }
        let (what, name) = if self.has_gpus() { ("GPU", "gpu_allocated") } else { ("CPU", "cpu_allocated") };
        if let Some(Value::Ratio(part)) = self.metrics.get(name) {
            text.push_str(&format!(", {:.1}% of the ready {what} time was allocated", part * 100.0));
        }
        let all_hold = self.verdicts.iter().all(|verdict| verdict.passed);
        text.push_str(&match self.verdicts.len() {
            0 => "; it had no expectations.".to_string(),
            _ if !all_hold => ".".to_string(),
            1 => "; its expectation holds.".to_string(),
            2 => "; both expectations hold.".to_string(),
            all => format!("; all {all} expectations hold."),
        });
        text
    }

    /// The sentence about failed expectations. It comes first, because it is the result of the run. Empty if none failed.
    fn failed(&self) -> String {
        let failed: Vec<&str> =
            (self.verdicts.iter()).filter(|verdict| !verdict.passed).map(|verdict| &*verdict.name).collect();
        if failed.is_empty() {
            return String::new();
        }
        let named = failed[..failed.len().min(FAILED)].join(", ");
        let more = match failed.len().saturating_sub(FAILED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{} of {} failed: {named}{more}. ", failed.len(), counted(self.verdicts.len(), "expectation"))
    }

    /// How many jobs completed, and how many still run and wait. A service runs on by design, so a run of services alone
    /// is not said to have completed none.
    fn jobs_at_the_end(&self) -> String {
        let count = |name| self.metrics.count(name);
        let [jobs, completed, running, waiting] =
            ["jobs_submitted", "jobs_completed", "jobs_running", "jobs_waiting"].map(count);
        let all = many(jobs as usize, "job");
        let early = self.accounts.job_rows().count() as u64 - jobs;
        let all = match early {
            0 => all,
            _ => format!(
                "{all} after the warm-up of {} ({} in all)",
                self.accounts.warm_up,
                grouped(&(early + jobs).to_string())
            ),
        };
        if jobs == 0 && early > 0 {
            let were = if early == 1 { "job was" } else { "jobs were" };
            return format!(
                "No job counts, because the {} {were} submitted in the warm-up of {}",
                grouped(&early.to_string()),
                self.accounts.warm_up
            );
        }
        let end = about(self.accounts.now.since(SimTime::ZERO));
        if jobs > 0 && running == jobs {
            let verb = if jobs == 1 { "runs" } else { "run" };
            return format!("{all} still {verb} after {end}");
        }
        let mut text = format!("{} of {all} completed within {end}", grouped(&completed.to_string()));
        let [failed, cancelled, lost, expired, refused] =
            ["jobs_failed", "jobs_cancelled", "jobs_lost", "jobs_expired", "jobs_refused"].map(count);
        for (count, verbs) in [
            (failed, ["failed", "failed"]),
            (cancelled, ["was cancelled", "were cancelled"]),
            (lost, ["lost its node or GPU", "lost a node or GPU"]),
            (expired, ["was ended by a limit", "were ended by a limit"]),
            (refused, ["was refused", "were refused"]),
            (running, ["still runs", "still run"]),
            (waiting, ["still waits", "still wait"]),
        ] {
            if count > 0 {
                text.push_str(&format!(", {} {}", grouped(&count.to_string()), verbs[usize::from(count > 1)]));
            }
        }
        text
    }

    fn has_gpus(&self) -> bool {
        self.accounts.nodes.iter().any(|node| node.gpu_count() > 0)
    }

    /// The 95th percentile of the time from the submission to the start, if instances are created and replicas start
    /// at least a second later than they are placed.
    fn late_start(&self) -> Option<SimDuration> {
        let Some(Value::Ratio(_)) = self.metrics.get("instance_hours") else { return None };
        let Some(Value::Time(placed)) = self.metrics.get("queue_wait_p95_seconds") else { return None };
        let (values, _) = Series::StartWait.values(self.accounts, |row| row.submitted >= self.accounts.warm_up);
        match Function::Quantile(950).of(&values) {
            Value::Time(started) => {
                (started.as_nanos() >= placed.as_nanos().saturating_add(1_000_000_000)).then_some(started)
            }
            _ => None,
        }
    }

    fn tiles(&self) -> String {
        const SHOWN: [(&str, &str); 16] = [
            ("ttft_p99_seconds", "99th percentile of the time to first token"),
            ("tpot_p99_seconds", "99th percentile of the time per token"),
            ("cost_per_million_tokens", "cost of a million tokens of answers"),
            ("queue_wait_mean_seconds", "mean waiting time"),
            ("queue_wait_p95_seconds", "95th percentile of waiting time"),
            ("bounded_slowdown_mean", "mean slowdown"),
            ("gpu_allocated", "of ready GPU time allocated"),
            ("cpu_allocated", "of ready CPU time allocated"),
            ("gpu_utilization", "of allocated GPU time used"),
            ("gpu_idle_hours", "allocated GPU hours without use"),
            ("gpu_idle_cost", "price of these hours"),
            ("fragmentation", "of free GPU time unusable"),
            ("cost", "cost of this run"),
            ("cost_per_month", "cost of a month"),
            ("carbon", "kg of CO2"),
            ("fairness", "fairness between users (1 is equal)"),
        ];
        let tile = |(name, said): &(&str, &str)| {
            // If there are GPUs, it is their allocation that counts.
            let is_shown = |value: &Value| *value != Value::Undefined && (*name != "cpu_allocated" || !self.has_gpus());
            let value = self.metrics.get(name).filter(is_shown)?;
            let currency = match (value, self.accounts.currency.as_deref()) {
                (Value::Money(_), Some(currency)) => format!(" {}", super::html::escape(currency)),
                _ => String::new(),
            };
            Some(format!("<div><b>{}{currency}</b><span>{said}</span></div>", for_people(value, name)))
        };
        let start = self.late_start().map_or(String::new(), |wait| {
            format!("<div><b>{}</b><span>95th percentile of the time until the start</span></div>", about(wait))
        });
        format!("<div class=\"tiles\">{}{start}</div>\n", SHOWN.iter().filter_map(tile).collect::<String>())
    }

    /// The expectations that failed, and then those that hold. If many hold, they are folded.
    fn expectations(&self) -> String {
        const HEADER: [&str; 4] = ["", "name", "expected", "happened"];
        let rows = |passed: bool| -> Vec<Vec<String>> {
            let mark = if passed { "✓ holds" } else { "✗ fails" };
            let verdicts = self.verdicts.iter().filter(|verdict| verdict.passed == passed);
            let row = |verdict: &Verdict| {
                vec![mark.into(), verdict.name.to_string(), verdict.expected.clone(), verdict.happened.clone()]
            };
            verdicts.map(row).collect()
        };
        let (failing, holding) = (rows(false), rows(true));
        let caption = match (failing.len(), holding.len()) {
            (0, 0) => return String::new(),
            (0, 1) => "It holds".to_string(),
            (0, 2) => "Both hold".to_string(),
            (0, holding) => format!("All {holding} hold"),
            (failing, 0) => format!("{failing} of {failing} failed"),
            (failing, 1) => format!("{failing} failed, 1 holds"),
            (failing, holding) => format!("{failing} failed, {holding} hold"),
        };
        let marked = |rows: &[Vec<String>], failed: usize| {
            marked_table(&caption, &HEADER, rows, |row| if row < failed { "bad" } else { "" })
        };
        if holding.len() <= HOLDING {
            return marked(&[failing.clone(), holding].concat(), failing.len());
        }
        let shown = if failing.is_empty() { String::new() } else { marked(&failing, failing.len()) };
        let folded = table("Expectations that hold", &HEADER, &holding);
        format!(
            "{shown}<details>\n<summary>{} hold</summary>\n{folded}</details>\n",
            many(holding.len(), "expectation")
        )
    }

    /// For each queue: the waits in ascending order, and the number of replicas that were never placed.
    fn waits(&self) -> Vec<(String, Vec<SimDuration>, usize)> {
        let mut queues: BTreeMap<&str, (Vec<SimDuration>, usize)> = BTreeMap::new();
        for (_, job, replica) in self.accounts.counted() {
            let (waits, never) = queues.entry(job.spec.queue.as_deref().unwrap_or_default()).or_default();
            match replica.placed {
                Some(placed) => waits.push(placed.since(replica.wanted)),
                None => *never += 1,
            }
        }
        queues
            .into_iter()
            .map(|(queue, (mut waits, never))| {
                waits.sort_unstable();
                (if queue.is_empty() { "all jobs" } else { queue }.to_string(), waits, never)
            })
            .collect()
    }

    /// Whether every replica was placed at once. False if there were none.
    fn nobody_waits(&self) -> bool {
        let mut counted = self.accounts.counted().peekable();
        counted.peek().is_some() && counted.all(|(_, _, replica)| replica.placed == Some(replica.wanted))
    }

    fn waits_plot(&self) -> Option<Chart> {
        let mut queues = self.waits();
        // Keep the largest queues, sorted by name.
        let mut sizes: Vec<usize> = queues.iter().map(|(_, waits, never)| waits.len() + never).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let least = sizes.get(QUEUES - 1).copied().unwrap_or(0);
        let left_out = queues.len().saturating_sub(QUEUES);
        queues.retain(|(_, waits, never)| waits.len() + never >= least);
        queues.truncate(QUEUES);
        let longest = queues.iter().filter_map(|(_, waits, _)| waits.last()).max()?.as_secs_f64();
        let never: usize = queues.iter().map(|(_, _, never)| never).sum();
        if longest <= 0.0 && never == 0 {
            return None;
        }
        let (x, end) = of_waits("time waited", longest);
        // The smallest share that was placed at once.
        let at_once = |(_, waits, never): &(String, Vec<SimDuration>, usize)| {
            waits.iter().filter(|wait| wait.is_zero()).count() as f64 / (waits.len() + never).max(1) as f64
        };
        let (y, from) = of_parts("placed", queues.iter().map(at_once).fold(1.0, f64::min));
        let lines = queues.iter().enumerate().map(|(look, (queue, waits, never))| {
            let all = (waits.len() + never) as f64;
            let name = format!("{queue} ({})", many(waits.len() + never, "replica"));
            let points = cdf(waits, all, end).into_iter().map(|(at, part)| (at, part_place(part, from))).collect();
            Line { name, points, kind: Kind::Steps, look }
        });
        let rest =
            if left_out == 0 { String::new() } else { format!(" waits.csv also has the {left_out} smaller queues.") };
        let never = match never {
            0 => "All replicas were placed.".to_string(),
            never => format!("Never placed: {}, so the curves end below 100%.", many(never, "replica")),
        };
        Some(Chart {
            title: "Waiting time".into(),
            description: format!(
                "Share of all replicas that were first placed within this time. {never}{}{rest}",
                from_note(from)
            ),
            x,
            y,
            lines: lines.collect(),
        })
    }

    fn allocation_plot(&self, bins: &Bins) -> Option<Chart> {
        if self.has_gpus() {
            let most = bins.gpu_ready.iter().chain(&bins.gpu_taken).max().copied().unwrap_or(0) as f64 / 1000.0;
            // Parts of a GPU are allocated too, but an axis of a few GPUs has ticks at whole ones.
            let (y, top) = of_counts("GPUs", libm::ceil(most) as u64);
            let line = |name: &str, values: &[u64], look| Line {
                name: name.into(),
                points: over_time(values, top * 1000.0),
                kind: Kind::Steps,
                look,
            };
            let mut lines = vec![line("ready", &bins.gpu_ready, 5), line("allocated", &bins.gpu_taken, 0)];
            let unknown = match &bins.gpu_used {
                Some(used) => {
                    lines.push(line("used", used, 2));
                    ""
                }
                None => " Some jobs do not state their real use.",
            };
            let description =
                format!("GPUs that were ready and GPUs that were allocated, as means over each interval.{unknown}");
            return Some(Chart {
                title: "Allocated GPUs".into(),
                description,
                x: of_run(bins.end.since(SimTime::ZERO), self.starts_at),
                y,
                lines,
            });
        }
        let cores: u64 = self.accounts.nodes.iter().map(|node| node.spec.shape.cpu_capacity().get()).sum();
        let (y, top) = of_counts("cores", cores.div_ceil(1000));
        let points = over_time(&bins.cpu_taken, top * 1000.0);
        let line = Line { name: "allocated".into(), points, kind: Kind::Steps, look: 0 };
        let capacity = cores as f64 / 1000.0 / top;
        let all = Line {
            name: "all cores".into(),
            points: vec![(0.0, capacity), (1.0, capacity)],
            kind: Kind::Steps,
            look: 5,
        };
        let description = "Allocated cores, as means over each interval.".to_string();
        Some(Chart {
            title: "Allocated cores".into(),
            description,
            x: of_run(bins.end.since(SimTime::ZERO), self.starts_at),
            y,
            lines: vec![all, line],
        })
    }

    fn reasons(&self) -> String {
        let mut text = String::new();
        let turned: Vec<Vec<String>> = (self.accounts.turned_away.iter())
            .map(|((outcome, reason), count)| {
                vec![
                    outcome.name().replace('_', " "),
                    reason.name().into(),
                    reason.text().into(),
                    grouped(&count.to_string()),
                ]
            })
            .collect();
        if !turned.is_empty() {
            text.push_str(&table(
                "Replicas that were turned away, by reason",
                &["outcome", "reason", "meaning", "replicas"],
                &turned,
            ));
        }
        let waits = self.accounts.waits.by_blame();
        let total: u128 = waits.iter().map(|(_, waited)| waited).sum::<u128>().max(1);
        let rows: Vec<Vec<String>> = waits
            .iter()
            .map(|(blame, waited)| {
                let permille = waited * 1000 / total;
                let hours = *waited as f64 / 3.6e12;
                vec![
                    blame.name(),
                    blame.text(),
                    grouped(&format!("{hours:.2}")),
                    format!("{}.{}%", permille / 10, permille % 10),
                ]
            })
            .collect();
        if !rows.is_empty() {
            let header = ["reason", "meaning", "hours waited", "share"];
            let without = if self.accounts.waits.never_run > 0 { ", without jobs that can never run" } else { "" };
            let title = format!("Waiting time, by the resource or event that it waited for{without}");
            text.push_str(&table(&title, &header, &rows));
        }
        text + &self.unplaced()
    }

    /// The replicas that are not placed at the end.
    fn unplaced(&self) -> String {
        let mut standings = Standings::default();
        let waiting = self.accounts.counted().filter(|(attempt, job, replica)| {
            standings.of(*attempt, job) == Standing::Waiting && replica.outcome.is_none()
        });
        let all: Vec<Vec<String>> = waiting
            .map(|(attempt, job, replica)| {
                let since = about(self.accounts.now.since(replica.wanted));
                let why = replica.waits_for().map_or("no reason was given".to_string(), Blame::text);
                vec![replica_name(attempt, &job.spec.name), since, why]
            })
            .collect();
        if all.is_empty() {
            return String::new();
        }
        let caption = match all.len() > UNPLACED {
            true => format!("Still waiting: the first {UNPLACED} of {}", grouped(&all.len().to_string())),
            false => "Still waiting".to_string(),
        };
        table(&caption, &["job", "for", "because"], &all[..all.len().min(UNPLACED)])
    }

    fn figures(&self) -> String {
        let known = self.metrics.iter().filter(|(_, value)| *value != Value::Undefined);
        let rows: Vec<Vec<String>> = known
            .map(|(definition, value)| {
                vec![definition.short_name().into(), for_people(value, definition.name), definition.meaning.into()]
            })
            .collect();
        let without: Vec<&str> = (self.metrics.iter())
            .filter(|(_, value)| *value == Value::Undefined)
            .map(|(definition, _)| definition.short_name())
            .collect();
        let rest = match without.is_empty() {
            true => String::new(),
            false => format!("<p class=\"note\">Undefined in this run: {}.</p>\n", without.join(", ")),
        };
        table("Figures of the whole run", &["figure", "value", "meaning"], &rows) + &rest
    }

    /// The assumptions of the simulation that a reader must know.
    fn assumptions(&self) -> Vec<String> {
        let rehearsal = self.rehearsal;
        let profile = &rehearsal.profile;
        let gpus: usize = self.accounts.nodes.iter().map(|node| node.gpu_count()).sum();
        let mut all = vec![
            format!("Profile {}: {}.", profile.name, profile.title.trim_end_matches('.')),
            format!("Fleet: {} with {}.", many(self.accounts.nodes.len(), "node"), many(gpus, "GPU")),
            self.lengths(),
            "Only failures, foreign use, slow starts and lost messages that the file states can happen.".into(),
        ];
        match self.rehearsal.faults.len() {
            0 => all.push("No node or GPU fails.".into()),
            faults => all.push(format!("{} of nodes and GPUs, stated or random.", counted(faults, "change"))),
        }
        if self.accounts.usage.known == 0 && gpus > 0 {
            all.push("The real GPU use of jobs is not stated, so there are only figures on allocation.".into());
        }
        if self.accounts.nodes.iter().all(|node| node.spec.shape.price_per_hour.is_none()) {
            all.push("No node has a price, so there are no figures on cost.".into());
        }
        if rehearsal.warm_up.is_some_and(|warm_up| warm_up > SimTime::ZERO) {
            all.push("Plots over time also show the warm-up, which the figures leave out.".into());
        }
        if let Some(until) = rehearsal.until {
            all.push(format!("The run stops at {until}; nothing after that counts."));
        }
        all.extend(self.trace.iter().map(|line| format!("Trace {line}")));
        all.extend(self.assumed.iter().map(|line| format!("{line}.")));
        all
    }

    fn lengths(&self) -> String {
        match self.accounts.jobs.iter().any(|(_, job)| job.spec.demand.speeds.is_some()) {
            true => "A job with stated speeds runs as long as its GPUs need; any other job runs as long on any node.",
            false => "A job runs as long as the file or the trace states, on any node.",
        }
        .to_string()
    }

    fn provenance(&self) -> String {
        let rehearsal = self.rehearsal;
        let rows = [
            ("Command", self.command.to_string()),
            ("Input", format!("{} (BLAKE3 of the scenario file as it was run)", self.input())),
            ("Digest", format!("{} (of the event log)", self.digest)),
            ("Seed", rehearsal.seed.to_string()),
            ("Version", format!("dryrack {}", env!("CARGO_PKG_VERSION"))),
            ("Other files", "report.json, metrics.csv, series.csv, waits.csv, heat.csv and spans.csv".to_string()),
        ];
        let lines = rehearsal.source.lines().count();
        let source: Vec<&str> = rehearsal.source.lines().take(SOURCE_LINES).collect();
        let rest = match lines.saturating_sub(SOURCE_LINES) {
            0 => String::new(),
            more => format!("\n… and {} more", counted(more, "line")),
        };
        let source = super::html::escape(&(source.join("\n") + &rest));
        facts(&rows) + &format!("<h3>The file as it was run</h3>\n<pre>{source}</pre>\n")
    }

    fn input(&self) -> String {
        blake3::hash(self.rehearsal.source.as_bytes()).to_hex().to_string()
    }

    fn json(&self, bins: &Bins, heat: &HeatMap) -> Json {
        let expectations: Vec<Json> = (self.verdicts.iter())
            .map(|verdict| {
                json!({"name": verdict.name, "passed": verdict.passed, "expected": verdict.expected,
                       "happened": verdict.happened})
            })
            .collect();
        let turned: Vec<Json> = (self.accounts.turned_away.iter())
            .map(|((outcome, reason), count)| json!({"outcome": outcome.name(), "reason": reason.name(), "replicas": count}))
            .collect();
        let waited: Map<String, Json> = (self.accounts.waits.by_blame().iter())
            .map(|(blame, waited)| (blame.name(), json!(*waited as f64 / 1e9)))
            .collect();
        let waits: Map<String, Json> =
            self.waits().iter().map(|(queue, waits, never)| (queue.clone(), quantiles(waits, *never))).collect();
        let rows: Map<String, Json> = heat.rows.iter().map(|(name, cells)| (name.clone(), json!(cells))).collect();
        json!({
            "scenario": self.rehearsal.title, "answer": self.answer(), "command": self.command, "input": self.input(),
            "digest": self.digest, "seed": self.rehearsal.seed, "dryrack": env!("CARGO_PKG_VERSION"),
            "profile": self.rehearsal.profile.name, "assumptions": self.assumptions(), "expectations": expectations,
            "metrics": self.metrics, "never_run": self.accounts.unplaceable.json(), "turned_away": turned, "waited_seconds_by_reason": waited,
            "wait_quantiles_seconds": waits, "series": super::data::series_json(bins), "taken_permille_by_node": rows,
        })
    }
}

/// The deciles, p95 and p99 of the waits, which are in ascending order. Replicas that were never placed count as longer
/// than all waits.
fn quantiles(waits: &[SimDuration], never: usize) -> Json {
    let mut all = waits.to_vec();
    all.resize(waits.len() + never, SimDuration::MAX);
    let at = |percent: usize| match quantile(&all, percent) {
        SimDuration::MAX => Json::Null,
        wait => json!(wait.as_secs_f64()),
    };
    let percents = (0..=10).map(|tenth| tenth * 10).chain([95, 99]);
    Json::Object(percents.filter(|_| !all.is_empty()).map(|percent| (format!("p{percent}"), at(percent))).collect())
}

/// The steps of the empirical distribution function, reduced to the resolution of a plot.
fn cdf(waits: &[SimDuration], all: f64, end: f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    for (index, wait) in waits.iter().enumerate() {
        let point = (wait_place(wait.as_secs_f64()) / end, (index + 1) as f64 / all);
        match points.last_mut() {
            // This point is within half a pixel of the previous one.
            Some(last) if point.0 - last.0 < 0.001 => last.1 = point.1,
            _ => points.push(point),
        }
    }
    if let Some(last) = points.last().copied() {
        points.push((1.0, last.1));
    }
    points
}

fn queue_plot(bins: &Bins, starts_at: Option<SimTime>) -> Option<Chart> {
    let most = bins.waiting_max.iter().max().copied().filter(|most| *most > 0)?;
    let (y, top) = of_counts("waiting", most);
    let line = |name: &str, values: &[u64], full: f64, look| Line {
        name: name.into(),
        points: over_time(values, full),
        kind: Kind::Steps,
        look,
    };
    let lines = vec![line("maximum", &bins.waiting_max, top, 4), line("mean", &bins.waiting, top * 1000.0, 0)];
    Some(Chart {
        title: "Length of the queue".into(),
        description: "Replicas that waited to be placed: the maximum and the mean over each interval.".into(),
        x: of_run(bins.end.since(SimTime::ZERO), starts_at),
        y,
        lines,
    })
}

fn over_time(values: &[u64], full: f64) -> Vec<(f64, f64)> {
    let count = values.len().max(1) as f64;
    let points = values.iter().enumerate().map(|(at, value)| (at as f64 / count, *value as f64 / full));
    points.chain(values.last().map(|last| (1.0, *last as f64 / full))).collect()
}

/// Formats a value for people, such as `12m`, `83.1%` or `1,234`.
pub(super) fn for_people(value: Value, name: &str) -> String {
    let definition = definition_of(name);
    match value {
        Value::Count(count) => grouped(&count.to_string()),
        Value::Time(time) if ["ttft", "tpot", "e2e"].iter().any(|series| name.starts_with(series)) => {
            served::shown(time)
        }
        Value::Time(time) => about(time),
        Value::Money(money) => grouped(&money.to_string()),
        Value::Ratio(ratio) if definition.is_some_and(|known| known.unit() == Unit::Part && name != "fairness") => {
            format!("{:.1}%", ratio * 100.0)
        }
        Value::Ratio(ratio) => grouped(&format!("{ratio:.2}")),
        Value::Undefined => String::new(),
    }
}
