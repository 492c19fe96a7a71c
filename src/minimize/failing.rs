//! Whether a scenario fails, and whether a smaller one still fails in the same way.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use dryrack_engine::{Progress, Rehearsal};
use dryrack_event::{Event, Input, Reason, Sink};
use dryrack_expect::{Comparison, Expectation, ExpectationKind, Subject, Verdict};
use dryrack_ids::{AttemptId, JobId};
use dryrack_metrics::judge_arrivals;
use dryrack_outside::{IdleProcess, NotStarted, Session};
use dryrack_rehearse::{rehearse, rehearse_decided};
use dryrack_scenario::{Loaded, Options, Outside, load_text};
use dryrack_scheduler::Caching;
use dryrack_units::{SimTime, printable};
use dryrack_yaml::Diagnostics;

/// The beginning of a word about a broken safety rule.
const UNSAFE: &str = "unsafe: ";

/// The beginning of a word about a job that was late: whether it had waited, and whether it ended later.
const LATE: &str = "late: ";

/// The beginning of a word about a reason of a wait, and of one about a reason of an own filter.
const BECAUSE: &str = "because ";
const BECAUSE_OWN: &str = "because own ";

/// The word for a job that is on its nodes, and the beginning of the word for one that waits.
const PLACED: &str = "placed";
const HELD: &str = "held ";

/// A failing expectation, and how it fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub name: Arc<str>,
    /// The entry of the file that contains the expectation. An entry may be about several subjects.
    pub entry: Arc<str>,
    pub expected: String,
    pub happened: String,
    /// Words that describe the failure: the state of the job when the expectation was broken, or in which direction a
    /// number was wrong.
    how: BTreeSet<String>,
    /// Whether each job of the file can run under the file's own profile if all nodes are ready and empty.
    each_can_run: bool,
}

impl Failing {
    /// Whether `other` is a failure of the same entry that adds nothing new: its words must be a subset of these words,
    /// so a job may wait only for reasons for which it waits here, and if it has one here, it must have one there. If a
    /// safety rule is broken here, it must also be broken there, a job that ran too late because it had waited must have
    /// waited there, and each own filter that refused it here must refuse it there. If each job can run here, each can there.
    fn is_met_by(&self, other: &Failing) -> bool {
        let is_same = self.entry == other.entry;
        let must_stay = |word: &&String| [UNSAFE, LATE, BECAUSE_OWN].iter().any(|kind| word.starts_with(kind));
        let has_all = self.how.iter().filter(must_stay).all(|word| other.how.contains(word));
        let has_reason = |how: &BTreeSet<String>| how.iter().any(|word| word.starts_with(BECAUSE));
        let keeps_a_reason = !has_reason(&self.how) || has_reason(&other.how);
        is_same
            && has_all
            && keeps_a_reason
            && (other.each_can_run || !self.each_can_run)
            && self.how.is_empty() == other.how.is_empty()
            && other.how.is_subset(&self.how)
    }
}

/// The counts that are compared before and after minimization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub jobs: usize,
    pub nodes: usize,
    pub faults: usize,
    pub expectations: usize,
    pub lines: usize,
}

/// The result of one run.
#[derive(Clone, Debug)]
pub struct Failures {
    pub failing: Vec<Failing>,
    /// The names of the expectations that hold.
    pub holding: Vec<Arc<str>>,
    pub size: Size,
    pub records: u64,
    /// Whether a scheduler in another process decided.
    pub is_decided_outside: bool,
}

/// The result of trying a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateResult {
    /// The candidate fails in the same way.
    Same,
    /// The candidate holds, fails in another way, breaks an invariant or does not end.
    Otherwise,
    /// The candidate is not a valid scenario and was not run.
    Invalid,
}

/// Runs scenarios in this process. If a scenario names a scheduler in another process, that scheduler decides; it is
/// started once for many candidates if it can begin again. Paths are relative to `folder`.
pub struct Rehearser {
    pub name: String,
    pub folder: PathBuf,
    pub options: Options,
    /// The profile under which the expectation must still hold, if only another profile or a program fails it.
    pub holds_under: Option<String>,
    kept: Option<IdleProcess>,
}

/// Why a scenario was not run.
#[derive(Debug, Error)]
pub enum Unrun {
    #[error("{0}")]
    Invalid(Diagnostics),
    #[error("error: {0}\n")]
    NotStarted(#[from] NotStarted),
}

impl Rehearser {
    pub fn new(name: String, folder: PathBuf, options: Options) -> Rehearser {
        Rehearser { name, folder, options, holds_under: None, kept: None }
    }

    /// Runs a scenario. Panics like every run if an invariant breaks or if the run does not end.
    pub fn failures(&mut self, text: &str) -> Result<Failures, Unrun> {
        let loaded = load_text(&self.name, text, &self.folder, &self.options).map_err(Unrun::Invalid)?;
        Ok(judged(text, loaded, u64::MAX, &mut self.kept)?)
    }

    /// DecisionMaker whether a candidate still fails as `wanted` does. A candidate with many more records than
    /// `most_records` is stopped.
    pub fn still_fails(&mut self, text: &str, wanted: &Failing, most_records: u64) -> CandidateResult {
        let Ok(loaded) = load_text(&self.name, text, &self.folder, &self.options) else {
            return CandidateResult::Invalid;
        };
        let kept = &mut self.kept;
        let found = catch_unwind(AssertUnwindSafe(|| judged(text, loaded, most_records, kept)));
        let is_met = |found: &Failures| found.failing.iter().any(|failing| wanted.is_met_by(failing));
        let is_same = matches!(&found, Ok(Ok(found)) if is_met(found));
        let holds = |profile: &String| self.holds(text, wanted, profile, most_records);
        match is_same && self.holds_under.as_ref().is_none_or(holds) {
            true => CandidateResult::Same,
            false => CandidateResult::Otherwise,
        }
    }

    /// Whether the expectation holds if this profile decides.
    pub fn holds(&self, text: &str, wanted: &Failing, profile: &str, most_records: u64) -> bool {
        let profile = Some(profile.to_string());
        let options = Options { profile, outside: Outside::Allowed, ..self.options.clone() };
        let Ok(loaded) = load_text(&self.name, text, &self.folder, &options) else { return false };
        let found = catch_unwind(AssertUnwindSafe(|| judged(text, loaded, most_records, &mut None)));
        let has_it = |found: &Failures| found.failing.iter().any(|failing| failing.entry == wanted.entry);
        matches!(&found, Ok(Ok(found)) if !has_it(found))
    }
}

fn judged(
    text: &str,
    loaded: Loaded,
    most_records: u64,
    kept: &mut Option<IdleProcess>,
) -> Result<Failures, NotStarted> {
    let Loaded { rehearsal, expectations, outside, .. } = loaded;
    let progress = Progress::default();
    let mut standings = Standings {
        jobs: expectations.iter().filter_map(|expectation| job_of(&expectation.what)).collect(),
        logged: Vec::new(),
        broken: Vec::new(),
        left: most_records,
        progress: &progress,
    };
    let is_decided_outside = outside.is_some();
    let (rehearsed, failed) = match outside {
        None => (rehearse(&rehearsal, expectations.clone(), &progress, Caching::On, vec![&mut standings]), None),
        Some(setup) if setup.command.is_kube_scheduler() => {
            let mut program = dryrack_rehearse::start(setup, &rehearsal)?;
            let sinks: Vec<&mut dyn Sink> = vec![&mut standings];
            let rehearsed = rehearse_decided(&rehearsal, expectations.clone(), &progress, sinks, program.as_decider());
            program.end();
            (rehearsed, program.failure().map(of_program))
        }
        Some(setup) => {
            let mut session = Session::start_or_keep(kept.take(), setup, &rehearsal.title, rehearsal.seed)?;
            let sinks: Vec<&mut dyn Sink> = vec![&mut standings];
            let rehearsed = rehearse_decided(&rehearsal, expectations.clone(), &progress, sinks, &mut session);
            let failed = session.failure().map(of_program);
            *kept = session.keep();
            (rehearsed, failed)
        }
    };
    let judged = expectations.iter().zip(&rehearsed.verdicts);
    let each_can_run = each_can_run(&rehearsal);
    let broken = judged.clone().filter(|(_, verdict)| !verdict.passed).map(|(expectation, verdict)| Failing {
        name: Arc::clone(&verdict.name),
        entry: Arc::clone(&expectation.entry),
        expected: verdict.expected.clone(),
        happened: verdict.happened.clone(),
        how: how(expectation, verdict, &standings),
        each_can_run,
    });
    Ok(Failures {
        failing: failed.into_iter().chain(broken).collect(),
        holding: judged.filter(|(_, verdict)| verdict.passed).map(|(_, verdict)| Arc::clone(&verdict.name)).collect(),
        size: size(text, &rehearsal, &expectations),
        records: rehearsed.run_metrics.accounts().records,
        is_decided_outside,
    })
}

/// Whether each job can run if all nodes are ready and empty. A scheduler in another process does not say so itself.
fn each_can_run(rehearsal: &Rehearsal) -> bool {
    let jobs: Vec<_> = rehearsal.arrivals.iter().map(|arrival| (arrival.at, &*arrival.spec)).collect();
    judge_arrivals(rehearsal, &jobs, jobs.len()).iter().all(|judgement| judgement.never.is_none())
}

/// The failure of a program, in the form of an expectation that has the name of the fault.
fn of_program(failure: &dryrack_outside::Failure) -> Failing {
    let name: Arc<str> = failure.fault.name().into();
    Failing {
        how: BTreeSet::from([name.to_string()]),
        entry: Arc::clone(&name),
        name,
        expected: "the scheduler outside decides to the end".to_string(),
        each_can_run: false,
        happened: printable(&failure.text).into_owned(),
    }
}

fn size(text: &str, rehearsal: &Rehearsal, expectations: &[Expectation]) -> Size {
    Size {
        jobs: rehearsal.arrivals.len(),
        nodes: rehearsal.nodes.len(),
        faults: rehearsal.faults.len(),
        expectations: expectations.iter().filter(|expectation| expectation.what != ExpectationKind::EachCanRun).count(),
        lines: text.lines().count(),
    }
}

/// Describes how an expectation failed, in words that do not depend on numbers.
fn how(expectation: &Expectation, verdict: &Verdict, standings: &Standings<'_>) -> BTreeSet<String> {
    let happened = verdict.happened.as_str();
    let word = match (&expectation.what, verdict.turned_on) {
        (ExpectationKind::State { subject: Subject::Job(_), .. }, Some(turned)) => {
            return standings.of(turned.job, turned.replica, turned.at);
        }
        (
            ExpectationKind::State { subject: Subject::Job(_), .. }
            | ExpectationKind::Count { subject: Some(Subject::Job(_)), .. },
            None,
        ) => "never submitted".to_string(),
        // Whether the count is too low or too high.
        (ExpectationKind::Count { is: Comparison::Exactly(wanted), .. }, _) => {
            let count = happened.split(' ').next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
            match count.cmp(wanted) {
                Ordering::Less => "too few",
                Ordering::Equal => "undecided",
                Ordering::Greater => "too many",
            }
            .to_string()
        }
        // The text is like `unfit (3 node_not_ready)`.
        (ExpectationKind::Evaluation { .. }, _) => happened.split(' ').next().unwrap_or_default().to_string(),
        // The text is like `p95(queue_wait) was 12m over 5 replicas`.
        (ExpectationKind::Metric(_) | ExpectationKind::EachCanRun, _) => without_numbers(happened),
        (ExpectationKind::State { .. } | ExpectationKind::Count { .. } | ExpectationKind::Absent { .. }, _) => {
            return BTreeSet::new();
        }
    };
    BTreeSet::from([word])
}

/// The first clause, with `#` in place of each word that has a digit.
fn without_numbers(happened: &str) -> String {
    let clause = happened.split([';', ':']).next().unwrap_or_default();
    let clause = clause.split(" over ").next().unwrap_or_default();
    let word = |word: &str| match word.contains('(') || !word.contains(|letter: char| letter.is_ascii_digit()) {
        true => word.to_string(),
        false => "#".to_string(),
    };
    clause.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// The word for a reason.
fn because(reason: Reason) -> String {
    let beginning = if matches!(reason, Reason::Own(_)) { BECAUSE_OWN } else { BECAUSE };
    format!("{beginning}{reason}")
}

/// The job that decides an expectation about a state.
fn job_of(what: &ExpectationKind) -> Option<JobId> {
    match what {
        ExpectationKind::State { subject: Subject::Job(job), .. } => Some(*job),
        ExpectationKind::State { .. }
        | ExpectationKind::Count { .. }
        | ExpectationKind::Evaluation { .. }
        | ExpectationKind::Metric(_)
        | ExpectationKind::EachCanRun
        | ExpectationKind::Absent { .. } => None,
    }
}

/// Collects the states of the replicas of some jobs, in words. Stops a run that has too many records.
struct Standings<'p> {
    jobs: BTreeSet<JobId>,
    logged: Vec<(SimTime, JobId, u32, Vec<String>)>,
    /// The safety rules that were broken by placements of these jobs.
    broken: Vec<(SimTime, JobId, String)>,
    left: u64,
    progress: &'p Progress,
}

impl Standings<'_> {
    fn record(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.progress.stop();
        }
    }

    fn set_words(&mut self, at: SimTime, attempt: AttemptId, words: Vec<String>) {
        self.logged.push((at, attempt.job, attempt.replica, words));
    }

    /// The words for one replica or for all replicas of a job, at a time or at the end of the run.
    fn of(&self, job: JobId, replica: Option<u32>, at: Option<SimTime>) -> BTreeSet<String> {
        let mut last: BTreeMap<u32, &[String]> = BTreeMap::new();
        for (_, _, replica, words) in self.logged.iter().filter(|(when, of, which, _)| {
            *of == job && at.is_none_or(|at| *when <= at) && replica.is_none_or(|replica| *which == replica)
        }) {
            last.insert(*replica, words);
        }
        let mut words: BTreeSet<String> = last.into_values().flatten().cloned().collect();
        let broken = self.broken.iter().filter(|(when, of, _)| *of == job && at.is_none_or(|at| *when <= at));
        words.extend(broken.map(|(_, _, word)| word.clone()));
        if let Some(at) = at.filter(|_| words.contains(PLACED)) {
            words.extend(self.of_a_late_job((job, replica), at).map(|word| format!("{LATE}{word}")));
        }
        // The job was submitted, and no event was about it yet.
        if words.is_empty() { BTreeSet::from(["waiting".to_string()]) } else { words }
    }
}

impl Standings<'_> {
    /// What is said of a job that is placed when it should have come further: whether it had waited before, and whether it
    /// ended later.
    fn of_a_late_job(&self, (job, replica): (JobId, Option<u32>), at: SimTime) -> impl Iterator<Item = &'static str> {
        let own = || {
            let logged = self.logged.iter();
            logged.filter(move |(_, of, which, _)| *of == job && replica.is_none_or(|replica| *which == replica))
        };
        let is_held = |words: &[String]| words.iter().any(|word| word.starts_with(HELD));
        let has_waited = own().any(|(when, _, _, words)| *when <= at && is_held(words));
        let has_ended = own().any(|(when, _, _, words)| *when > at && words.iter().any(|word| word == "completed"));
        [has_waited.then_some("it had waited"), has_ended.then_some("it completed later")].into_iter().flatten()
    }
}

impl Sink for Standings<'_> {
    fn input(&mut self, _: u64, _: SimTime, _: &Input) {
        self.record();
    }

    fn event(&mut self, _: u64, at: SimTime, event: &Event) {
        self.record();
        let Some(attempt) = event.attempt().filter(|attempt| self.jobs.contains(&attempt.job)) else { return };
        let words = match event {
            Event::Held { refusal, reasons, .. } => {
                let mut words = vec![format!("{HELD}{refusal:?}")];
                words.extend(reasons.iter().map(|(reason, _)| because(reason)));
                words
            }
            Event::Placed { .. } => vec![PLACED.to_string()],
            Event::Moved { to, .. } if to.holds_claim() => vec![PLACED.to_string()],
            Event::Moved { to, .. } => vec![to.name().to_string()],
            Event::Ended { outcome, .. } => vec![outcome.name().to_string()],
            Event::Retry { because, .. } => vec!["retried".to_string(), self::because(*because)],
            Event::ReplicaAdded { .. } => vec!["waiting".to_string()],
            Event::SafetyBroken { what, .. } => {
                return self.broken.push((at, attempt.job, format!("{UNSAFE}{what:?}")));
            }
            _ => return,
        };
        self.set_words(at, attempt, words);
    }
}
