//! Speeds of GPUs: runs on mixed fleets against a plain simulation of the rules, and what is said about speeds.

use std::collections::BTreeMap;

use crate::cli::{empty, stderr, stdout};

trials! {
    Nothing: [
        mixed_fleets_run_as_a_plain_simulation,
        one_list_answers_which_gpus_to_buy,
        every_speed_is_named_with_its_source,
        an_unknown_speed_is_an_error,
        a_wrong_speed_is_an_error,
        a_placed_job_is_explained_with_its_speed,
        measured_rates_of_a_trace_are_speeds,
        measured_rates_need_the_reference_of_their_trace,
        a_speed_that_only_the_log_needs_has_its_source,
        a_duration_is_that_on_the_gpu_that_the_trace_names,
        others_of_the_file_are_about_its_own_reference,
        a_streamed_list_has_the_same_speeds,
        a_file_without_speeds_has_none_in_its_log,
    ]
}

/// A job of the plain simulation: submission, duration in seconds, tasks, GPUs of each task.
#[derive(Clone, Copy)]
struct Plain {
    at: u64,
    run: u64,
    tasks: usize,
    gpus: u64,
}

/// Numbers that look random (the generator of Numerical Recipes, 2nd edition, 7.1).
struct Draws(u32);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u64::from(self.0 >> 8) % limit
    }
}

/// The GPUs of each node, and their speed in tenths. The first kind is the reference.
const NODES: [(u64, u64); 5] = [(8, 10), (8, 10), (4, 22), (4, 22), (2, 5)];

/// The start and end of each job in nanoseconds: the queue is passed in order of submission, each job that fits starts,
/// and its tasks fill the first nodes with room. A job ends after its duration divided by the speed of its slowest node,
/// rounded up.
fn simulate(jobs: &[Plain]) -> Vec<(u64, u64)> {
    const SECOND: u64 = 1_000_000_000;
    let mut free: Vec<u64> = NODES.iter().map(|(gpus, _)| *gpus).collect();
    let mut queue: Vec<usize> = Vec::new();
    let mut running: BTreeMap<(u64, usize), Vec<usize>> = BTreeMap::new();
    let mut found = vec![(0, 0); jobs.len()];
    let mut next = 0;
    loop {
        let arrival = jobs.get(next).map(|job| job.at * SECOND);
        let end = running.keys().next().map(|(at, _)| *at);
        let Some(now) = arrival.into_iter().chain(end).min() else { return found };
        while let Some(((at, job), nodes)) = running.first_key_value().map(|(key, nodes)| (*key, nodes.clone())) {
            if at > now {
                break;
            }
            running.remove(&(at, job));
            nodes.iter().for_each(|node| free[*node] += jobs[job].gpus);
        }
        while jobs.get(next).is_some_and(|job| job.at * SECOND == now) {
            queue.push(next);
            next += 1;
        }
        queue.retain(|job| {
            let asked = jobs[*job];
            let (mut left, mut nodes) = (free.clone(), Vec::new());
            for (node, room) in left.iter_mut().enumerate() {
                while nodes.len() < asked.tasks && *room >= asked.gpus {
                    *room -= asked.gpus;
                    nodes.push(node);
                }
            }
            if nodes.len() < asked.tasks {
                return true;
            }
            free = left;
            let slowest = nodes.iter().map(|node| NODES[*node].1).min().expect("it has a task");
            let end = now + (asked.run * SECOND * 10).div_ceil(slowest);
            found[*job] = (now, end);
            running.insert((end, *job), nodes);
            false
        });
    }
}

/// Forty drawn lists of 60 jobs.
fn mixed_fleets_run_as_a_plain_simulation() {
    let dir = empty();
    let mut waited = 0;
    for seed in 0..40 {
        let mut draws = Draws(seed);
        let mut at = 0;
        let mut text = "scenario: A drawn list\nprofile: fifo-skipping\nspeed: {reference: a100-80g, factors: \
                        {h100-80g: 2.2, v100-16g: 0.5}}\nnodes:\n"
            .to_string();
        for (node, (gpus, speed)) in NODES.iter().enumerate() {
            let gpu = [(10, "a100-80g"), (22, "h100-80g"), (5, "v100-16g")].iter().find(|(known, _)| known == speed);
            let gpu = gpu.expect("it is listed").1;
            text.push_str(&format!("  - {{name: n{node}, cpus: 64, ram: 1TiB, gpus: {gpus}, gpu: {gpu}}}\n"));
        }
        text.push_str("jobs:\n");
        let mut jobs = Vec::new();
        for job in 0..60 {
            at += draws.below(200);
            let (tasks, gpus) =
                if draws.below(3) == 0 { (2 + draws.below(3), 1 + draws.below(2)) } else { (1, 1 + draws.below(4)) };
            let plain = Plain { at, run: 1 + draws.below(5000), tasks: tasks as usize, gpus };
            let Plain { run, .. } = plain;
            text.push_str(&format!(
                "  - {{name: j{job:02}, at: {at}s, duration: {run}s, tasks: {tasks}, gpus: {gpus}}}\n"
            ));
            jobs.push(plain);
        }
        text.push_str("expect: [jobs_completed == 60]\n");
        std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
        stdout(dir.path(), &["run", "s.yaml", "--out", "out"], 0);
        let table = std::fs::read_to_string(dir.path().join("out/jobs.csv")).expect("it was written");
        let mut found = BTreeMap::new();
        let header: Vec<&str> = table.lines().next().expect("a header").split(',').collect();
        let column = |name: &str| header.iter().position(|found| *found == name).expect("a column");
        for line in table.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let nanos = |name: &str| {
                let (whole, part) = cells[column(name)].split_once('.').unwrap_or((cells[column(name)], ""));
                format!("{whole}{part:0<9}").parse::<u64>().expect("a time")
            };
            found.insert(cells[column("job")].to_string(), (nanos("start"), nanos("end")));
        }
        let expected = simulate(&jobs);
        for (job, times) in expected.iter().enumerate() {
            assert_eq!(found[&format!("j{job:02}")], *times, "job {job} of list {seed}\n{text}");
            waited += u32::from(times.0 > jobs[job].at * 1_000_000_000);
        }
    }
    assert!(waited > 500, "only {waited} of 2,400 jobs waited");
}

const LIST: &str = "job,submit_s,duration_s,gpus,nodes\n1,0,3600,8,1\n2,0,3600,8,1\n3,0,3600,8,1\n";

fn fleet_of(dir: &std::path::Path, speed: &str) {
    let text = format!(
        "scenario: Which GPUs?\nparams: {{a: 1, h: 0, factor: 2}}\nprofile: fifo\nspeed: {speed}\nnodes:\n  \
         - {{name: a, count: \"${{a}}\", machine: a100-80g-x8, price_per_hour: 16}}\n  \
         - {{name: h, count: \"${{h}}\", machine: h100-80g-x8, price_per_hour: 32}}\n\
         trace: {{format: csv, file: t.csv}}\nexpect: [jobs_completed == 3]\n"
    );
    std::fs::write(dir.join("s.yaml"), text).expect("a folder of our own");
    std::fs::write(dir.join("t.csv"), LIST).expect("a folder of our own");
}

/// Three jobs of an hour: one A100 node takes 3 h and costs 48. One H100 node of twice the speed takes 1.5 h, which costs
/// 48 too, and the last job waits 1 h instead of 2 h. At 2.5 times the speed it costs 38.40 and the wait is 48 min.
fn one_list_answers_which_gpus_to_buy() {
    let dir = empty();
    fleet_of(dir.path(), "{reference: a100-80g, factors: {h100-80g: \"${factor}\"}}");
    let run = |sets: &[&str]| {
        let mut args = vec!["run", "s.yaml", "--format", "json"];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        let json: serde_json::Value = serde_json::from_str(&stdout(dir.path(), &args, 0)).expect("JSON");
        let metric = |name: &str| json["metrics"][name].to_string();
        (metric("cost"), metric("queue_wait_max_seconds"))
    };
    let is = |found: (String, String), cost: f64, wait: f64| {
        assert_eq!((found.0.parse::<f64>().expect("cost"), found.1.parse::<f64>().expect("wait")), (cost, wait));
    };
    is(run(&[]), 48.0, 7200.0);
    is(run(&["params.a=0", "params.h=1"]), 48.0, 3600.0);
    is(run(&["params.a=0", "params.h=1", "params.factor=2.5"]), 38.4, 2880.0);
    let plan = "plan: A100 or H100?\nscenario: s.yaml\nfactors:\n  a: [0, 1]\n  h: [0, 1]\n  \
                speed: {set: speed.factors.h100-80g, values: [1.5, 2.5]}\nminimize: cost\n\
                constraints: [max(queue_wait) <= 50m]\n";
    std::fs::write(dir.path().join("p.yaml"), plan).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "p.yaml", "--out", "out"], 0);
    assert!(
        said.contains("With speed=2.5, a=0, h=1 is enough: a cost of 38.40.") && !said.contains("equally fast"),
        "{said}"
    );
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(page.contains("h100-80g works 2.5 times as fast as a100-80g (stated in the file)."), "the assumptions");
}

fn every_speed_is_named_with_its_source() {
    let dir = empty();
    let rows = [
        (
            "{reference: a100-80g, factors: {h100-80g: 2.2}}",
            "h100-80g works 2.2 times as fast as a100-80g (stated in the file)",
        ),
        (
            "{reference: a100-80g, work: training}",
            "h100-80g works 1.98 times as fast as a100-80g (training: 301 and 152 sequences/s in `BERT large on SQuAD \
             with PyTorch in FP16 on one GPU` [GitHub lambdal/deeplearning-benchmark ",
        ),
        (
            "{reference: a100-80g, work: {compute: 50%, memory: 50%}}",
            "(50% compute and 50% memory: compute 3.17, 989 and 312 TFLOPS in `peak dense FP16 or BF16 tensor rate of data \
             sheets` [",
        ),
        (
            "{reference: a100-80g, work: compute, factors: {h100-80g: {compute: 3, memory: 1.5}}}",
            "h100-80g works 3 times as fast as a100-80g (stated in the file)",
        ),
        (
            "{reference: a100-80g, work: memory, factors: {h100-80g: {compute: 3, memory: 1.5}}}",
            "h100-80g works 1.5 times as fast as a100-80g (stated in the file)",
        ),
        (
            "{reference: a100-80g, others: 1}",
            "h100-80g works as fast as a100-80g (`others` of the file: nothing is known",
        ),
    ];
    for (speed, sentence) in rows {
        fleet_of(dir.path(), speed);
        let said = stdout(dir.path(), &["run", "s.yaml", "--set", "params.h=1", "--report", "out"], 0);
        assert!(said.contains(sentence), "{speed}\n{said}");
        assert!(said.contains("estimates, time limits and the time to start are not scaled"), "{said}");
        let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
        assert!(page.contains("A job with stated speeds runs as long as its GPUs need"), "{speed}");
        // The page shows as code what is in backticks.
        let page = page.replace("<code>", "`").replace("</code>", "`");
        assert!(page.contains(&sentence.replace('&', "&amp;")), "{speed}");
    }
}

fn an_unknown_speed_is_an_error() {
    let dir = empty();
    let rows = [
        ("{reference: a100-80g}", "add `factors: {h100-80g: 1.5}`, or `others: 1`"),
        ("{reference: mi300x, work: training}", "no benchmark of training has both; add `factors: {a100-80g: 1.5}`"),
        ("{reference: a100-80g, work: measured}", "the trace did not measure it"),
        ("{reference: m2-ultra, work: {compute: 50%, memory: 50%}}", "the catalog has no data sheets of both"),
    ];
    for (speed, help) in rows {
        fleet_of(dir.path(), speed);
        let said = stderr(dir.path(), &["run", "s.yaml", "--set", "params.h=1"], 2);
        assert!(said.contains(" is not known") && said.contains(help), "{speed}\n{said}");
    }
    // Nothing asks for the speed of a GPU that no job can get.
    let text = "scenario: One type\nspeed: {reference: a100-80g}\nnodes: [{name: a, machine: a100-80g-x2}, \
                {name: t, machine: t4-x4}]\njobs: [{name: j, gpus: 1, gpu: a100-80g, duration: 1h}]\n\
                expect: [jobs_completed == 1]\n";
    std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
    stdout(dir.path(), &["run", "s.yaml"], 0);
}

fn a_wrong_speed_is_an_error() {
    let dir = empty();
    let rows = [
        ("{factors: {h100-80g: 2}}", "`reference`"),
        ("{reference: a100, factors: {h100-80g: 2}}", "`a100` is the name of several GPUs: a100-40g, a100-80g"),
        ("{reference: a100-80g, factors: {h100-80g: 0}}", "expected a speed such as 2.2"),
        ("{reference: a100-80g, factors: {a100-80g: 2}}", "the speed of the reference a100-80g is always 1"),
        ("{reference: a100-80g, factors: {h10O-80g: 2}}", "did you mean `h100-80g`?"),
        ("{reference: a100-80g, work: trainign}", "did you mean `training`?"),
        ("{reference: a100-80g, work: {compute: 50%, memory: 40%}}", "the parts of work are not 100% together"),
        (
            "{reference: a100-80g, work: training, factors: {h100-80g: {compute: 9, memory: 9}}}",
            "factors by parts need `work: {compute: 70%, memory: 30%}`",
        ),
        (
            "{reference: a100-80g, factors: {h100-80g: {compute: 9, memory: 9}}}",
            "factors by parts need `work: {compute: 70%, memory: 30%}`",
        ),
        ("{reference: a100-80g, faktors: {h100-80g: 2}}", "did you mean `factors`?"),
    ];
    for (speed, message) in rows {
        fleet_of(dir.path(), speed);
        let said = stderr(dir.path(), &["run", "s.yaml"], 2);
        assert!(said.contains(message), "{speed}\n{said}");
    }
}

fn a_placed_job_is_explained_with_its_speed() {
    let dir = empty();
    fleet_of(dir.path(), "{reference: a100-80g, factors: {h100-80g: 2.5}}");
    stdout(dir.path(), &["run", "s.yaml", "--set", "params.h=1", "--out", "out"], 0);
    let explain = |job: &str| stdout(dir.path(), &["explain", "out/events.jsonl", "--job", job, "--at", "1m"], 0);
    assert!(explain("1").contains("speed: that of the reference a100-80g\n"), "{}", explain("1"));
    let said = explain("2");
    assert!(said.contains("speed: 2.5 times as fast on h100-80g as on a100-80g, stated in the file\n"), "{said}");
    stdout(dir.path(), &["replay", "out/events.jsonl"], 0);
}

/// The list and the table are made up in the form of Gavel's. Job 0 does 7,200 steps: at 2 steps/s on a V100 in 1 h, at 1
/// step/s on a P100 in 2 h, and it does not run on a K80. Job 1 does 3,600 steps at 1 step/s on a V100, and at 0.5 on a
/// K80, in 2 h.
/// Jobs of one hour each. On the reference a100-80g, those recorded on an H100 take two hours, and on a V100 half an hour.
fn a_duration_is_that_on_the_gpu_that_the_trace_names() {
    let dir = empty();
    let ends = |list: &str, trace: &str, nodes: &[&str]| {
        let nodes: String = nodes.iter().map(|node| format!("  - {{name: {node}, machine: {node}}}\n")).collect();
        let text = format!(
            "scenario: Recorded on several GPUs\nprofile: fifo\n\
             speed: {{reference: a100-80g, factors: {{h100-80g: 2, v100-16g: 0.5}}}}\nnodes:\n{nodes}\
             trace: {{format: csv, file: t.csv{trace}}}\nexpect: [jobs_lost == 0]\n"
        );
        let list = format!("job,submit_s,duration_s,gpus,nodes,gpu_models\n{list}");
        for (name, text) in [("t.csv", &list), ("s.yaml", &text)] {
            std::fs::write(dir.path().join(name), text).expect("a folder of our own");
        }
        let said = stdout(dir.path(), &["run", "s.yaml", "--out", "out"], 0);
        let table = std::fs::read_to_string(dir.path().join("out/jobs.csv")).expect("it was written");
        let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let end = lines.next().and_then(|names| names.iter().position(|name| *name == "end")).expect("a column");
        let found: Vec<String> = lines.map(|cells| cells[end].to_string()).collect();
        let digest = |more: &[&str]| {
            let said = stdout(dir.path(), &[&["run", "s.yaml", "--format", "json"], more].concat(), 0);
            serde_json::from_str::<serde_json::Value>(&said).expect("JSON")["digest"].to_string()
        };
        assert_eq!(digest(&["--stream"]), digest(&[]));
        (found, said)
    };
    let list = "1,0,3600,8,1,h100\n2,0,3600,8,1,a100\n3,0,3600,8,1,v100-16g\n";
    let (found, said) = ends(list, "", &["a100-80g-x8", "h100-80g-x8", "v100-16g-x8"]);
    assert_eq!(found, ["3600", "3600", "3600"], "each runs on the GPU that it names");
    let expected = "1 job of the trace t.csv names GPU `h100`, so its recorded duration counts as the time on h100-80g, \
                    which works 2 times as fast as a100-80g";
    assert!(said.contains(expected), "{said}");
    let moved = ", gpu_names: {h100: a100-80g, v100-16g: a100-80g}";
    let (found, _) = ends("1,0,3600,8,1,h100\n2,9000,3600,8,1,v100-16g\n3,18000,3600,8,1,\n", moved, &["a100-80g-x8"]);
    assert_eq!(found, ["7200", "10800", "21600"], "two hours, half an hour, and an hour without a name");
    let (found, _) = ends("1,0,3600,8,1,h100|v100-16g\n", "", &["h100-80g-x8", "v100-16g-x8"]);
    assert_eq!(found, ["1800"], "two GPUs do not tell a speed");
    let said = stderr(dir.path(), &["run", "s.yaml"], 0);
    assert!(said.contains("1 job of the trace t.csv names GPU `h100|v100-16g`, whose speed relative to"), "{said}");
}

/// The log names an H100, and the fleet has none.
fn a_speed_that_only_the_log_needs_has_its_source() {
    let dir = empty();
    let list = "job,submit_s,duration_s,gpus,nodes,gpu_models\n1,0,3600,8,1,h100\n";
    std::fs::write(dir.path().join("t.csv"), list).expect("a folder of our own");
    let rows = [
        ("factors: {h100-80g: 2}", "h100-80g works 2 times as fast as a100-80g (stated in the file)\n"),
        ("work: training", "h100-80g works 1.98 times as fast as a100-80g (training: 301 and 152 sequences/s in "),
        (
            "others: 1.5",
            "h100-80g works 1.5 times as fast as a100-80g (`others` of the file: nothing is known of this GPU)",
        ),
    ];
    for (speed, sentence) in rows {
        let text = format!(
            "scenario: One kind of GPU\nspeed: {{reference: a100-80g, {speed}}}\n\
             nodes: [{{name: n, machine: a100-80g-x8}}]\n\
             trace: {{format: csv, file: t.csv, gpu_names: {{h100: a100-80g}}}}\nexpect: [jobs_lost == 0]\n"
        );
        std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
        let said = stdout(dir.path(), &["run", "s.yaml"], 0);
        assert!(said.contains(sentence), "{speed}\n{said}");
    }
}

fn measured_rates_of_a_trace_are_speeds() {
    let dir = empty();
    let table = r#"{"k80": {"('Net', 1)": {"null": 0.0}, "('Old', 1)": {"null": 0.5}},
        "p100": {"('Net', 1)": {"null": 1.0}, "('Old', 1)": {"null": 1.0}},
        "v100": {"('Net', 1)": {"null": 2.0}, "('Old', 1)": {"null": 1.0}}}"#;
    let list = "Net\tcd net\t--steps\t1\t7200\t0\t1\nOld\tcd old\t--steps\t1\t3600\t1\t1\n";
    let text = "scenario: Rates of a trace\nspeed: {reference: v100-16g, work: measured}\nnodes:\n  \
                - {name: k, cpus: 8, ram: 64GiB, gpus: [{type: k80, memory: 12GiB}]}\n  \
                - {name: p, machine: p100-16g-x2}\n\
                trace: {format: gavel, file: a.trace}\nexpect:\n  \
                - {name: not_on_k80, job: '0', is: running, on: p, at: 0s}\n  \
                - {name: half_as_fast, job: '0', never: completed, until: 2h}\n  \
                - {name: on_k80, job: '1', is: running, on: k, at: 1s}\n  \
                - {name: as_measured, job: '1', never: completed, until: 2h1s}\n  \
                - makespan == 2h1s\n";
    for (name, text) in [("simulation_throughputs.json", table), ("a.trace", list), ("s.yaml", text)] {
        std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    }
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    assert!(said.contains("speeds relative to v100-16g are measured in the trace for each kind of job"), "{said}");
    // The trace measured the P100, so `others` says nothing of it.
    let others = text.replace("work: measured}", "work: measured, others: 7}");
    std::fs::write(dir.path().join("s.yaml"), others).expect("a folder of our own");
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    assert!(said.contains("GPUs that the trace did not measure count as 7 times as fast as v100-16g"), "{said}");
    assert!(!said.contains("p100-16g works"), "{said}");
    // Without `speed`, jobs take the time of a V100 on any GPU.
    let plain = text.replace("speed: {reference: v100-16g, work: measured}\n", "");
    std::fs::write(dir.path().join("s.yaml"), plain).expect("a folder of our own");
    assert!(stdout(dir.path(), &["run", "s.yaml"], 1).contains("FAIL  half_as_fast"), "else nothing was measured");
}

/// 14,400 steps are an hour at 4 steps/s on a V100, which is the duration in the trace, and 4 h at 1 step/s on a K80.
fn measured_rates_need_the_reference_of_their_trace() {
    let dir = empty();
    let table = r#"{"k80": {"('Net', 1)": {"null": 1.0}}, "v100": {"('Net', 1)": {"null": 4.0}}}"#;
    let text = |reference: &str| {
        format!(
            "scenario: Rates of a trace\nspeed: {{reference: {reference}, work: measured}}\nnodes:\n  \
             - {{name: k, cpus: 8, ram: 64GiB, gpus: [{{type: k80, memory: 12GiB}}]}}\n\
             trace: {{format: gavel, file: a.trace}}\nexpect: [makespan == 4h]\n"
        )
    };
    let list = "Net\tcd net\t--steps\t1\t14400\t0\t1\n";
    for (name, text) in [("simulation_throughputs.json", table), ("a.trace", list), ("s.yaml", &text("v100-16g"))] {
        std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    }
    stdout(dir.path(), &["run", "s.yaml"], 0);
    std::fs::write(dir.path().join("s.yaml"), text("k80")).expect("a folder of our own");
    for stream in [&[][..], &["--stream"]] {
        let said = stderr(dir.path(), &[&["run", "s.yaml"], stream].concat(), 2);
        assert!(said.contains("the durations of the trace are those on v100, not on the reference k80"), "{said}");
        assert!(said.contains("s.yaml:2:20") && said.contains("write `reference: v100-16g`"), "{said}");
    }
}

fn others_of_the_file_are_about_its_own_reference() {
    let dir = empty();
    let text = |speed: &str| {
        format!(
            "scenario: Others\nspeed: {{reference: a100-80g, others: 3}}\nnodes: [{{name: h, machine: h100-80g-x1}}]\n\
             jobs: [{{name: j, gpus: 1, duration: 1h, speed: {speed}}}]\nexpect: [makespan == 20m]\n"
        )
    };
    std::fs::write(dir.path().join("s.yaml"), text("{factors: {l4: 1}}")).expect("a folder of our own");
    stdout(dir.path(), &["run", "s.yaml"], 0);
    std::fs::write(dir.path().join("s.yaml"), text("{reference: t4}")).expect("a folder of our own");
    let said = stderr(dir.path(), &["run", "s.yaml"], 2);
    assert!(said.contains("the speed of h100-80g relative to t4 is not known"), "{said}");
}

fn a_streamed_list_has_the_same_speeds() {
    let dir = empty();
    fleet_of(dir.path(), "{reference: a100-80g, factors: {h100-80g: 2.5}}");
    let digest = |more: &[&str]| {
        let args = [&["run", "s.yaml", "--set", "params.h=1", "--format", "json"], more].concat();
        let json: serde_json::Value = serde_json::from_str(&stdout(dir.path(), &args, 0)).expect("JSON");
        json["digest"].to_string()
    };
    assert_eq!(digest(&[]), digest(&["--stream"]));
}

fn a_file_without_speeds_has_none_in_its_log() {
    let dir = empty();
    fleet_of(dir.path(), "{reference: a100-80g}");
    let log = |out: &str| {
        stdout(dir.path(), &["run", "s.yaml", "--out", out], 0);
        std::fs::read_to_string(dir.path().join(out).join("events.jsonl")).expect("it was written")
    };
    assert!(log("with").contains("\"speeds\":{\"reference\":\"a100-80g\",\"others\":[]}"));
    let text = std::fs::read_to_string(dir.path().join("s.yaml")).expect("it was written");
    std::fs::write(dir.path().join("s.yaml"), text.replace("speed: {reference: a100-80g}\n", "")).expect("our own");
    assert!(!log("without").contains("speeds"));
}
