//! The reference of expectations is correct, and metrics match arithmetic on paper.

use std::path::Path;

use dryrack_codec::{decode_line, encode_line};
use dryrack_engine::{Audit, Progress, Records, RunOptions, replay, run};
use dryrack_event::{Event, Record, RecordBody, Sink};
use dryrack_expect::{EventName, Horizon, Judge, Verdict};
use dryrack_ids::Names;
use dryrack_metrics::{METRICS, RunAccount, RunMetrics, Series};
use dryrack_scenario::{Options, expectation_words, load_text};

trials! {
    Nothing: [
        every_example_of_the_reference_holds,
        every_example_of_the_other_pages_is_read,
        a_log_with_judgements_is_audited_and_replayed,
        every_word_of_the_grammar_has_an_example,
        metrics_are_held_against_their_bounds,
        an_order_is_of_first_instants,
        reasons_cancellations_and_judgements_are_told,
    ]
}

const REFERENCE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/expectations.md"));

/// The YAML blocks of the reference.
fn blocks() -> Vec<&'static str> {
    REFERENCE.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().expect("a block ends")).collect()
}

/// The second column of the reference's tables of forms.
fn examples() -> Vec<&'static str> {
    let rows = REFERENCE.lines().filter(|line| line.starts_with("| "));
    let example = |line: &'static str| line.split(" | ").nth(1)?.strip_prefix('`')?.strip_suffix('`');
    rows.filter_map(example).collect()
}

fn verdicts(text: &str) -> Vec<Verdict> {
    let loaded = load_text("text.yaml", text, Path::new(""), &Options::default());
    let loaded = loaded.unwrap_or_else(|faults| panic!("{faults}"));
    let rehearsal = loaded.rehearsal;
    let mut names = Names::default();
    for node in &rehearsal.nodes {
        names.nodes.add(node.spec.name.clone()).expect("a name of its own");
    }
    for arrival in &rehearsal.arrivals {
        names.jobs.add(arrival.spec.name.clone()).expect("a name of its own");
    }
    let (mut judge, mut accounts) = (Judge::new(loaded.expectations, names), RunAccount::default());
    let progress = Progress::default();
    let options = RunOptions { progress: Some(&progress), ..RunOptions::default() };
    let end = run(&rehearsal, options, &mut [&mut judge as &mut dyn Sink, &mut accounts]);
    accounts.finish(end.at);
    judge.finish(Horizon::Everything, &RunMetrics::of(accounts))
}

fn every_example_of_the_reference_holds() {
    let text =
        format!("{}expect:\n", blocks()[0]) + &examples().iter().map(|it| format!("  - {it}\n")).collect::<String>();
    let verdicts = verdicts(&text);
    assert!(verdicts.len() >= 43, "{} examples", verdicts.len());
    let broken: Vec<String> = verdicts.iter().filter(|verdict| !verdict.passed).map(Verdict::why).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    for block in &blocks()[1..] {
        load_text("block.yaml", block, Path::new(""), &Options::default()).unwrap_or_else(|faults| panic!("{faults}"));
    }
}

/// The pages about scenarios, by name.
const PAGES: [(&str, &str); 9] = [
    ("dstack.md", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/dstack.md"))),
    ("hardware.md", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/hardware.md"))),
    ("jobs.md", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/jobs.md"))),
    ("live.md", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/live.md"))),
    ("load-and-failures.md", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/load-and-failures.md"))),
    ("models.md", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/models.md"))),
    ("runs.md", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/runs.md"))),
    ("serving.md", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/serving.md"))),
    ("slurm.md", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/slurm.md"))),
];

fn every_example_of_the_other_pages_is_read() {
    for (name, page) in PAGES {
        let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().expect("a block ends"));
        for block in blocks {
            load_text(name, block, Path::new(""), &Options::default()).unwrap_or_else(|faults| panic!("{faults}"));
        }
    }
}

fn a_log_with_judgements_is_audited_and_replayed() {
    let text = format!("{}expect:\n  - {{evaluate: '*', is: fits, at: 5m}}\n", blocks()[0]);
    let loaded = load_text("text.yaml", &text, Path::new(""), &Options::default());
    let rehearsal = loaded.unwrap_or_else(|faults| panic!("{faults}")).rehearsal;
    let (mut records, mut audit) = (Records::default(), Audit::new(&rehearsal.profile));
    run(&rehearsal, RunOptions::default(), &mut [&mut records as &mut dyn Sink, &mut audit]);
    assert_eq!(audit.finish().submitted, 6);
    let said = records.0.iter().filter(|record| matches!(record.said, RecordBody::Event(Event::Evaluated { .. })));
    assert_eq!(said.count(), 6);
    let lines =
        |names: &mut Names| -> Vec<String> { records.0.iter().map(|record| encode_line(record, names)).collect() };
    let mut names = Names::default();
    let read = lines(&mut Names::default()).iter().map(|line| decode_line(line, &mut names)).collect::<Result<_, _>>();
    let read: Vec<Record> = read.expect("what was written can be read");
    assert_eq!(read, records.0);
    replay(rehearsal.profile, rehearsal.seed, read).expect("the same events come again");
}

fn every_word_of_the_grammar_has_an_example() {
    let said = examples().join("\n") + &blocks().concat();
    let is_said = |text: &str, word: &str| {
        let inside = |letter: char| letter.is_alphanumeric() || letter == '_';
        text.split(|letter: char| !inside(letter)).any(|known| known == word)
    };
    let silent: Vec<&str> = expectation_words().into_iter().filter(|word| !is_said(&said, word)).collect();
    assert!(silent.is_empty(), "no example for {silent:?}");
    let events = EventName::ALL.iter().map(|(_, name)| *name);
    let series = Series::ALL.iter().map(|(_, name, _)| *name);
    let metrics = METRICS.iter().map(|metric| metric.short_name());
    let silent: Vec<&str> = events.chain(series).chain(metrics).filter(|word| !is_said(REFERENCE, word)).collect();
    assert!(silent.is_empty(), "the reference does not name {silent:?}");
    for (_, name, meaning) in Series::ALL {
        assert!(REFERENCE.contains(&format!("| {name} | {meaning} |")), "{name}");
    }
}

/// A sentence, an expectation about the reference's history, whether it holds, and a part of what is said to have
/// happened.
type Row = (&'static str, &'static str, bool, &'static str);

fn check(rows: &[Row]) {
    let mut text = format!("{}expect:\n", blocks()[0]);
    for (_, entry, ..) in rows {
        text.push_str(&format!("  - {entry}\n"));
    }
    for ((sentence, entry, passed, happened), verdict) in rows.iter().zip(verdicts(&text)) {
        assert_eq!(verdict.passed, *passed, "{sentence}: {entry}: {}", verdict.why());
        assert!(verdict.happened.contains(happened), "{sentence}: {:?} lacks {happened:?}", verdict.happened);
    }
}

/// Waits are 0, 0, 9m and 4m; runs 10m, 10m, 5m and 1m; turnarounds 10m, 10m, 15m and 5m; so slowdowns are 1, 1, 3 and
/// 5. GPUs are taken for 2 x 10 + 2 x 6 + 1 = 33 minutes; the three are ready for 20 + 1, 26 and 20 minutes.
fn metrics_are_held_against_their_bounds() {
    check(&[
        ("the value is told", "p95(queue_wait) <= 8m59s", false, "p95(queue_wait) was 9m over 4 replicas"),
        (
            "who does not count is told",
            "max(queue_wait) < 10m",
            true,
            "; 2 more are not counted because they were never placed",
        ),
        ("less is not at most", "max(queue_wait) < 9m", false, ""),
        ("more is not at least", "max(queue_wait) > 9m", false, ""),
        ("unequal", "max(queue_wait) != 9m", false, ""),
        ("equal has two signs", "max(queue_wait) = 9m", true, ""),
        ("a median is a value that occurred", "p50(queue_wait) == 0s", true, ""),
        ("a quantile between is the next value", "p75(queue_wait) == 4m", true, ""),
        ("a thousandth of a percentile", "p99.9(run_time) == 10m", true, ""),
        ("a wait until the start", "max(start_wait) == 10m", true, ""),
        ("slowdown is a number", "mean(bounded_slowdown) == 2.5", true, "was 2.500"),
        ("slowdown has decimals", "max(bounded_slowdown) <= 4.9", false, "was 5.000"),
        ("the mean of counts is a number", "mean(attempts) == 1.0", true, ""),
        ("the sum of counts is a count", "sum(attempts) == 6", true, ""),
        ("one queue", "\"sum(queue_wait{queue: online}) == 0s\"", true, "over 2 replicas"),
        ("one user", "sum(queue_wait{user=ann}) == 13m", true, "over 2 replicas"),
        ("one job by its name beside it", "{metric: sum(queue_wait) == 4m, of: late}", true, "over 1 replica"),
        ("one replica that does not count", "{metric: max(queue_wait) < 1h, of: mac}", false, "it was never placed"),
        (
            "of nothing nothing can be said",
            "{metric: min(run_time) >= 0s, of: mac}",
            false,
            "has no value over 0 replicas",
        ),
        ("a proportion", "gpu_allocated < 50%", true, "gpu_allocated was 49.25%"),
        ("a proportion above", "gpu_allocated >= 49.3%", false, "49.25%"),
        ("a time of the run", "makespan == 26m", true, "makespan was 26m"),
        ("a count of the run", "jobs_completed == 4", true, ""),
        ("a number of the run", "bounded_slowdown_mean <= 2.4", false, "was 2.500"),
    ]);
}

fn an_order_is_of_first_instants() {
    check(&[
        ("the other came first", "{job: train, is: running, before: late}", true, "; late is running at 25m"),
        ("it came first itself", "{job: late, is: running, before: train}", false, "train is running at 11m"),
        (
            "both at one instant is not before",
            "{job: chat-0, is: running, before: chat-1}",
            false,
            "chat-1 is running at 0s",
        ),
        ("both at one instant is after", "{job: chat-0, is: running, after: chat-1}", true, ""),
        (
            "a state that was there already is not after",
            "{node: alpha, is: ready, after: {node: alpha, is: not_ready}}",
            false,
            "25m ready; alpha is not_ready at 20m",
        ),
        ("always after", "{gpu: beta/1, always: failed, after: {node: alpha, is: not_ready}}", true, ""),
        ("never after", "{job: train, never: running, after: {job: train, is: completed}}", true, ""),
        (
            "what the other never was",
            "{job: train, never: running, before: {job: mac, is: running}}",
            false,
            "`mac is running` never happened in the whole run",
        ),
        ("a place of the other", "{job: late, is: running, after: {job: train, is: running, on: beta}}", true, ""),
        (
            "a reason of the other",
            "{job: train, is: running, after: {job: train, is: pending, because: insufficient_gpus}}",
            true,
            "",
        ),
        ("within counts from the submission", "{job: train, is: running, within: 9m59s}", false, "11m running on beta"),
        ("never within", "{job: train, never: running, within: 9m59s}", true, ""),
        ("within an instant", "{job: chat-0, is: running, within: 0s}", true, ""),
        ("counts within", "{count: placed, job: late, is: 1, within: 4m}", true, "1 happened, at 25m"),
        (
            "counts before exclude the instant",
            "{count: placed, is: 2, before: {job: train, is: preparing}}",
            true,
            "2 happened",
        ),
        ("counts after include it", "{count: placed, is: 2, after: {job: train, is: preparing}}", true, "at 10m, 25m"),
    ]);
}

fn reasons_cancellations_and_judgements_are_told() {
    check(&[
        ("a reason that was given", "{reason: os_mismatch, never: given}", false, "1 happened, at 2m"),
        ("a reason given of one job", "{reason: node_not_ready, is: given, job: train}", false, "none happened"),
        (
            "a reason of a node",
            "{reason: reported, is: given, node: alpha, after: 20m}",
            true,
            "2 happened, at 20m, 25m",
        ),
        ("the end of what was cancelled", "{count: ended, for: cancelled, is: 1}", true, "at 4m"),
        ("before it was cancelled it was analysed", "{count: analysis_started, is: 1}", true, "at 3m"),
        ("not of what was cancelled", "{count: analysis_started, for: cancelled, is: 1}", false, "none happened"),
        (
            "one job that was not cancelled",
            "{count: placed, for: cancelled, job: train, is: 0}",
            false,
            "no job was cancelled",
        ),
        ("a judgement says why", "{evaluate: mac, is: fits}", false, "incompatible (2 os_mismatch)"),
        ("an empty fleet has room", "{evaluate: train, is: unfit}", false, "fits"),
        (
            "a pick leaves one node",
            "{evaluate: train, is: unfit, because: not_picked, at: 5m}",
            true,
            "unfit (1 insufficient_gpus, 1 not_picked)",
        ),
        (
            "before the job has come",
            "{evaluate: late, is: unfit, because: node_not_ready, at: 20m}",
            true,
            "1 node_not_ready",
        ),
        ("each of a pattern", "{evaluate: chat-*, is: fits}", true, "fits"),
    ]);
}
