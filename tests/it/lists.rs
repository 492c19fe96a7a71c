//! Lists of tasks: read as streams, counted, converted, sampled and scaled. Lists that are not in the repository are in
//! the folder `data`, which contains `traces` and `groundtruth`.

use std::fs;
use std::path::Path;

use assert_cmd::assert::OutputAssertExt;
use dryrack_trace::{
    Demands, Format, Impossible, Kinds, OutputFormat, Recorded, Supply, TaskStream, TaskWriter, TraceError, TraceTask,
    lublin, open_file, read_nodes,
};

use crate::cli::dryrack;

trials! {
    Nothing: [
        a_log_is_the_same_after_it_was_converted_twice,
        a_list_comes_through_a_pipe_too,
        a_list_is_scaled_by_its_gaps_and_sampled_by_its_lines,
        a_check_fails_where_a_job_could_never_run,
        a_list_of_ones_own_needs_three_columns,
        all_faults_of_a_list_are_told_and_no_half_of_it_is_left,
        a_list_is_neither_grown_nor_resampled_without_a_limit,
    ]
}

/// A test on the folder of data; `Err` describes the fault.
type Test = fn(&Path) -> Result<(), String>;

pub const ALL: [(&str, Test); 5] = [
    ("lists_in_archives_are_read_whole", lists_in_archives_are_read_whole),
    ("lists_are_the_same_after_they_were_converted", lists_are_the_same_after_they_were_converted),
    ("lists_are_held_against_their_clusters", lists_are_held_against_their_clusters),
    ("lists_of_a_program_have_the_parameters_it_was_given", lists_of_a_program_have_the_parameters_it_was_given),
    ("lists_of_a_model_are_like_those_of_its_program", lists_of_a_model_are_like_those_of_its_program),
];

/// File, format according to its first line, number of rows according to its source (and `wc`), and number of rows that
/// are kept.
const LISTS: [(&str, Format, u64, u64); 10] = [
    ("traces/swf-lublin/lublin_256.swf", Format::Swf, 10_000, 10_000),
    ("traces/swf-accasim/workload.swf", Format::Swf, 25, 25),
    ("traces/unilu-gaia-2014/UniLu-Gaia-2014-2.swf.gz", Format::Swf, 51_987, 51_959),
    ("traces/openb/openb_pod_list_default.csv", Format::Openb, 8_152, 8_152),
    ("traces/openb/openb_pod_list_cpu300.csv.gz", Format::Openb, 10_094, 10_094),
    ("traces/philly-pollux/philly.csv.gz", Format::Philly, 82_247, 82_247),
    ("groundtruth/helios-philly/cluster_log.csv.gz", Format::Helios, 82_229, 82_229),
    ("traces/tiresias-60job/60_job.csv", Format::Tiresias, 60, 60),
    // 16,591 of the 23,871 instances have a creation time, and 12,390 of these also have a deletion time.
    ("traces/alibaba-dlrm-v2025/disaggregated_DLRM_trace.csv.gz", Format::Dlrm, 23_871, 12_390),
    ("traces/alibaba-genai-v2026/pod_gpu_duty_cycle_anon.tar.gz", Format::Genai, 143, 143),
];

fn tasks(path: &Path) -> Result<(TaskStream, Vec<TraceTask>), TraceError> {
    let mut stream = TaskStream::open(path, None)?;
    let mut tasks = Vec::new();
    stream.each(path, |task| -> Result<(), TraceError> {
        tasks.push(task);
        Ok(())
    })?;
    Ok((stream, tasks))
}

fn lists_are_the_same_after_they_were_converted(data: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|fault| fault.to_string())?;
    for (file, format, rows, kept) in LISTS {
        let (stream, read) = tasks(&data.join(file)).map_err(|fault| fault.to_string())?;
        let found = (stream.format, stream.rows.tally().rows(), stream.rows.tally().kept(), read.len() as u64);
        if found != (format, rows, kept, kept) {
            return Err(format!("{file}: {found:?}, expected {format:?}, {rows} rows, {kept} kept"));
        }
        for (name, form) in [("list.csv", OutputFormat::Csv), ("list.jsonl", OutputFormat::Jsonl)] {
            let mut writer = TaskWriter::new(Vec::new(), form, None).map_err(|fault| fault.to_string())?;
            read.iter().try_for_each(|task| writer.write(task)).map_err(|fault| format!("{file}: {fault}"))?;
            let (bytes, _, lost) = writer.finish();
            let path = folder.path().join(name);
            fs::write(&path, bytes).map_err(|fault| fault.to_string())?;
            let (_, again) = tasks(&path).map_err(|fault| fault.to_string())?;
            let is_same = |(a, b): (&TraceTask, &TraceTask)| *a == TraceTask { line: a.line, ..b.clone() };
            if !lost.is_empty() || again.len() != read.len() || !read.iter().zip(&again).all(is_same) {
                return Err(format!("{file}: another list after it was {name}"));
            }
        }
    }
    Ok(())
}

/// Archive, suffix of its lists, and format; then the numbers of lists, of rows and of kept rows, from a plain count of
/// their lines. For Gavel, the kept rows are those whose type and number of GPUs are in the repository's table for
/// V100s.
const ARCHIVES: [(&str, &str, Format, [u64; 3]); 3] = [
    ("traces/gavel-traces/gavel-traces.tar.gz", ".trace", Format::Gavel, [83, 76_607, 69_063]),
    ("traces/pollux-workloads/pollux-workloads.tar.gz", ".csv", Format::Pollux, [40, 7_680, 7_680]),
    ("traces/sia-workloads/sia-workloads.tar.gz", ".csv", Format::Pollux, [128, 123_680, 123_680]),
];

fn lists_in_archives_are_read_whole(data: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|fault| fault.to_string())?;
    for (file, ending, format, expected) in ARCHIVES {
        // Gavel's table of throughputs, which must be beside its lists, is the last file of its archive.
        let bytes = open_file(&data.join(file)).map_err(|fault| fault.to_string())?;
        for entry in tar::Archive::new(bytes).entries().map_err(|fault| fault.to_string())? {
            let mut entry = entry.map_err(|fault| fault.to_string())?;
            if entry.path().is_ok_and(|path| path.ends_with("simulation_throughputs.json")) {
                let table = folder.path().join("simulation_throughputs.json");
                entry.unpack(table).map_err(|fault| fault.to_string())?;
            }
        }
        let bytes = open_file(&data.join(file)).map_err(|fault| fault.to_string())?;
        let mut found = [0; 3];
        for entry in tar::Archive::new(bytes).entries().map_err(|fault| fault.to_string())? {
            let mut entry = entry.map_err(|fault| fault.to_string())?;
            let name = entry.path().map_err(|fault| fault.to_string())?.to_string_lossy().into_owned();
            let is_list = name.ends_with(ending) && (format == Format::Gavel || name.contains("/workload-"));
            if !is_list {
                continue;
            }
            let path = folder.path().join("list");
            entry.unpack(&path).map_err(|fault| fault.to_string())?;
            let (stream, read) = tasks(&path).map_err(|fault| format!("{file}: {name}: {fault}"))?;
            let tally = stream.rows.tally();
            if stream.format != format || tally.kept() != read.len() as u64 {
                return Err(format!("{file}: {name}: {:?}, {} tasks", stream.format, read.len()));
            }
            found = [found[0] + 1, found[1] + tally.rows(), found[2] + tally.kept()];
        }
        if found != expected {
            return Err(format!("{file}: {found:?}, expected {expected:?}"));
        }
    }
    Ok(())
}

/// The published program finds a place for every shape of openb's tasks in an empty cluster of 6,212 GPUs. By a plain
/// count of Philly's two files, there are 352 nodes of 8 GPUs, and no job asks for more than its virtual cluster has.
fn lists_are_held_against_their_clusters(data: &Path) -> Result<(), String> {
    let text = |fault: TraceError| fault.to_string();
    let held = |format, list: &str, nodes: &str| -> Result<(u64, Vec<(Impossible, u64)>), String> {
        let supply = Supply { nodes: read_nodes(format, &data.join(nodes)).map_err(text)?.nodes, ..Supply::default() };
        let (_, read) = tasks(&data.join(list)).map_err(text)?;
        let mut demands = Demands::default();
        read.iter().for_each(|task| demands.add(task, &supply));
        let (loads, impossible) = demands.finish(&supply);
        let all = loads.last().map_or(0, |load| load.capacity);
        Ok((all, impossible.into_iter().map(|(why, cases)| (why, cases.tasks)).collect()))
    };
    let openb =
        held(Format::Openb, "traces/openb/openb_pod_list_default.csv", "traces/openb/openb_node_list_gpu_node.csv")?;
    if openb != (6_212, vec![]) {
        return Err(format!("openb: {openb:?}"));
    }
    let nodes = "groundtruth/helios-philly/philly_vc.csv";
    let helios = held(Format::Helios, "groundtruth/helios-philly/cluster_log.csv.gz", nodes)?;
    if helios != (352 * 8, vec![]) {
        return Err(format!("helios: {helios:?}"));
    }
    Ok(())
}

const GAIA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/unilu-gaia-2014/UniLu-Gaia-2014-2.swf.gz");

/// Three jobs; the gaps are 10 s and 30 s.
const JOBS: &str = "\
1 100 -1 50 2 -1 -1 2 60 -1 1 7 -1 -1 1 -1 -1 -1
2 110 -1 50 4 -1 -1 4 60 -1 1 7 -1 -1 1 -1 -1 -1
3 140 -1 50 8 -1 -1 8 60 -1 1 7 -1 -1 1 -1 -1 -1
";

fn a_log_is_the_same_after_it_was_converted_twice() {
    let folder = tempfile::tempdir().unwrap();
    for args in [["convert", GAIA, "--out", "gaia.csv.gz"], ["convert", "gaia.csv.gz", "--out", "gaia.jsonl.zst"]] {
        dryrack(folder.path(), &[&["trace"], &args[..]].concat()).assert().success();
    }
    dryrack(folder.path(), &["trace", "convert", "gaia.jsonl.zst", "--out", "gaia.swf"]).assert().success();
    let read = |path: &Path| tasks(path).unwrap_or_else(|fault| panic!("{fault}")).1;
    let (first, last) = (read(Path::new(GAIA)), read(&folder.path().join("gaia.swf")));
    assert_eq!(first.len(), 51_959);
    // That format gives jobs new numbers, and does not preserve the memory of every task. So neither is compared.
    for (number, (a, b)) in first.iter().zip(&last).enumerate() {
        assert_eq!(b.name, (number + 1).to_string());
        let same = TraceTask { name: a.name.clone(), line: a.line, ram: a.ram, ram_used: a.ram_used, ..b.clone() };
        assert_eq!(*a, same);
    }
}

/// The greatest difference between the two empirical distribution functions (Kolmogorov and Smirnov).
fn distance(mut a: Vec<u64>, mut b: Vec<u64>) -> f64 {
    a.sort_unstable();
    b.sort_unstable();
    let below = |list: &[u64], value: u64| list.partition_point(|other| *other <= value) as f64 / list.len() as f64;
    a.iter().chain(&b).map(|value| (below(&a, *value) - below(&b, *value)).abs()).fold(0.0, f64::max)
}

/// The list of RLScheduler's authors comes from the program of Lublin and Feitelson, with one kind of jobs and 256
/// processors. Two samples of the same distribution differ by more than this once in a thousand times.
fn lists_of_a_model_are_like_those_of_its_program(data: &Path) -> Result<(), String> {
    let (_, theirs) = tasks(&data.join("traces/swf-lublin/lublin_256.swf")).map_err(|fault| fault.to_string())?;
    let model: Vec<TraceTask> = lublin(Kinds::One, 256, 10_000, 1).collect();
    let recorded = Recorded::new(theirs.clone()).ok_or("an empty list")?;
    let resampled: Vec<TraceTask> = recorded.draw(10_000, 1).collect();
    let is_serial = |task: &&TraceTask| task.processors == Some(1);
    let widths = |tasks: &[TraceTask]| tasks.iter().map(|task| task.processors.unwrap_or(0).into()).collect();
    let lengths = |tasks: &[TraceTask]| tasks.iter().filter(is_serial).map(|task| task.run.as_nanos()).collect();
    let gaps = |tasks: &[TraceTask]| {
        let gap =
            |pair: &[TraceTask]| pair[1].submit.as_nanos() / 1_000_000_000 - pair[0].submit.as_nanos() / 1_000_000_000;
        tasks.windows(2).map(gap).collect()
    };
    let hours =
        |tasks: &[TraceTask]| tasks.iter().map(|task| task.submit.as_nanos() / 3_600_000_000_000 % 24).collect();
    type Of<'f> = &'f dyn Fn(&[TraceTask]) -> Vec<u64>;
    let measures: [(&str, Of, f64); 4] =
        // Submissions come in bursts. So their hours contain only as much information as one tenth of that number of
        // independent submissions.
        [("widths", &widths, 1.0), ("lengths", &lengths, 1.0), ("gaps", &gaps, 1.0), ("hours", &hours, 0.1)];
    for (name, of, worth) in measures {
        for (whose, tasks) in [("the model", &model), ("resampled", &resampled)] {
            let (ours, theirs) = (of(tasks), of(&theirs));
            let (n, m) = (ours.len() as f64 * worth, theirs.len() as f64 * worth);
            let (apart, most) = (distance(ours, theirs), 1.949 * ((n + m) / (n * m)).sqrt());
            if apart > most {
                return Err(format!("{name} of {whose} are {apart} apart, more than {most}"));
            }
        }
    }
    Ok(())
}

/// The parameters of the program of Lublin and Feitelson for jobs of one kind are recovered from a list that it drew:
/// 10,000 jobs for 256 processors. The tolerance is about four standard errors of that many jobs.
fn lists_of_a_program_have_the_parameters_it_was_given(data: &Path) -> Result<(), String> {
    let (_, theirs) = tasks(&data.join("traces/swf-lublin/lublin_256.swf")).map_err(|fault| fault.to_string())?;
    let fitted = dryrack_trace::fit(&theirs, None, 1).map_err(|fault| fault.to_string())?;
    let (kind, apart) = (fitted.parameters, fitted.apart.ok_or("nothing was held against it")?);
    let [low, middle, high] = kind.widths;
    let rows = [
        ("serial", kind.serial, 0.244, 0.018),
        ("powers of two", kind.powers, 0.576, 0.02),
        ("narrow", kind.narrow, 0.86, 0.04),
        // Because most widths are powers of two, they contain little information about the ends of intervals.
        ("narrowest", low, 0.8, 0.15),
        ("where intervals meet", middle, 8.0 - 2.5, 0.35),
        ("widest", high, 8.0, 0.0),
        ("mean of short ones", kind.short.shape * kind.short.scale, 4.2 * 0.94, 0.15),
        ("mean of long ones", kind.long.shape * kind.long.scale, 312.0 * 0.03, 0.08),
        ("short ones of no width", kind.shorts.0, 0.78, 0.04),
        ("short ones by the width", kind.shorts.1, -0.0054, 0.001),
        ("shape of gaps", kind.gap.shape, 10.2303 * 1.0225, 0.6),
        ("scale of gaps", kind.gap.scale, 0.4871, 0.03),
        ("widths apart", apart.widths, 0.0, apart.by_chance),
        ("lengths apart", apart.lengths, 0.0, apart.by_chance),
        ("gaps apart", apart.gaps, 0.0, apart.by_chance),
    ];
    match rows.into_iter().find(|(_, found, expected, within)| (found - expected).abs() > *within) {
        None => Ok(()),
        Some((what, found, expected, within)) => Err(format!("{what}: {found}, not {expected} within {within}")),
    }
}

fn a_list_comes_through_a_pipe_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.swf"), JOBS).unwrap();
    let piped = |args: &[&str], text: &'static str| {
        assert_cmd::Command::from_std(dryrack(folder.path(), args)).write_stdin(text).assert()
    };
    for args in [&["scale", "--gaps", "50%"][..], &["sample", "--part", "100%"], &["convert"], &["resample"]] {
        let file = dryrack(folder.path(), &[&["trace"], args, &["jobs.swf"]].concat()).assert().success();
        let piped = piped(&[&["trace"], args, &["-"]].concat(), JOBS).success();
        assert_eq!(piped.get_output().stdout, file.get_output().stdout, "{args:?}");
    }
    let told = piped(&["trace", "scale", "-", "--gaps", "50%"], "; x\n1 2\n").code(2);
    let told = String::from_utf8(told.get_output().stderr.clone()).unwrap();
    assert!(told.starts_with("error: standard input:2:4: expected 18 fields"), "{told}");
}

fn a_list_is_scaled_by_its_gaps_and_sampled_by_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.swf"), JOBS).unwrap();
    let submits = |args: &[&str]| {
        let told = dryrack(folder.path(), &[&["trace"], args].concat()).assert().success();
        let text = String::from_utf8(told.get_output().stdout.clone()).unwrap();
        text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(submits(&["scale", "jobs.swf", "--gaps", "50%"]), ["100", "105", "120"]);
    assert_eq!(submits(&["scale", "jobs.swf", "--load", "200%"]), ["100", "105", "120"]);
    assert_eq!(submits(&["scale", "jobs.swf", "--load", "150%"]), ["100", "106.666666666", "126.666666666"]);
    assert_eq!(submits(&["sample", "jobs.swf", "--part", "100%"]), ["100", "110", "140"]);
    assert_eq!(submits(&["resample", "jobs.swf", "--jobs", "500"]).len(), 500);
    assert_eq!(submits(&["resample", "jobs.swf"])[0], "100");
    assert_eq!(submits(&["lublin", "--jobs", "40", "--two-kinds"]).len(), 40);
    dryrack(folder.path(), &["trace", "lublin", "--size", "31"]).assert().code(2);
    let told = dryrack(folder.path(), &["trace", "fit", "jobs.swf"]).assert().code(2);
    let told = String::from_utf8(told.get_output().stderr.clone()).unwrap();
    assert!(told.contains("3 tasks") && told.contains("at least 100"), "{told}");
    dryrack(folder.path(), &["trace", "lublin", "--jobs", "400", "--out", "drawn.swf"]).assert().success();
    dryrack(folder.path(), &["trace", "fit", "drawn.swf", "--out", "model.json"]).assert().success();
    assert_eq!(submits(&["lublin", "--model", "model.json", "--jobs", "30"]).len(), 30);
    let text = fs::read_to_string(folder.path().join("model.json")).unwrap().replace("\"serial\"", "\"seral\"");
    fs::write(folder.path().join("model.json"), text).unwrap();
    let told = dryrack(folder.path(), &["trace", "lublin", "--model", "model.json"]).assert().code(2);
    let told = String::from_utf8(told.get_output().stderr.clone()).unwrap();
    assert!(told.contains("model.json:7:11: unknown field `seral`"), "{told}");
    dryrack(folder.path(), &["trace", "sample", "jobs.swf", "--part", "101%"]).assert().code(2);
    dryrack(folder.path(), &["trace", "scale", "jobs.swf", "--load", "0%"]).assert().code(2);
}

/// A list that a user has written by hand needs only three columns.
fn a_list_of_ones_own_needs_three_columns() {
    let folder = tempfile::tempdir().unwrap();
    let info = |text: &str| {
        fs::write(folder.path().join("own.csv"), text).unwrap();
        let told = dryrack(folder.path(), &["trace", "info", "own.csv"]).output().unwrap();
        (told.status.code(), String::from_utf8([told.stdout, told.stderr].concat()).unwrap())
    };
    let (code, told) = info("submit_s,job,gpus,duration_s\n0,a,2,60\n30.5,b,4,120\n");
    assert!(code == Some(0) && told.contains("GPUs        2: 1, 4: 1\n"), "{told}");
    let (code, told) = info("job,submit_s,gpus\na,0,2\n");
    let needed = "own.csv:1: no column `duration_s`; all of job, submit_s, duration_s are needed";
    assert!(code == Some(2) && told.contains(needed), "{told}");
    let (code, told) = info("job,submit_s,duration_s\na,0\nb,x,2\n");
    assert!(
        code == Some(2) && told.contains("own.csv:2:4: expected 3 fields") && told.contains("own.csv:3:3:"),
        "{told}"
    );
}

/// 14 processors for 50 s are 700 of the 7 * 40 processor seconds between the submissions; job 3 asks for more than 7.
fn a_check_fails_where_a_job_could_never_run() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.swf"), JOBS).unwrap();
    let failed = dryrack(folder.path(), &["trace", "check", "jobs.swf", "--processors", "7"]).assert().code(1);
    let text = String::from_utf8(failed.get_output().stdout.clone()).unwrap();
    assert!(text.contains("processors: 3 tasks, 250.0 % of 7\n"), "{text}");
    assert!(text.contains("1 task: more processors than there are (3 in line 3)\n"), "{text}");
    dryrack(folder.path(), &["trace", "check", "jobs.swf", "--processors", "8"]).assert().success();
}

fn all_faults_of_a_list_are_told_and_no_half_of_it_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let text = "{\"job\":\"a\",\"submit_ns\":0,\"duration_ns\":1}\n{\"job\":\"b\",\"submit_ns\":0}\n\
                {\"job\":\"c\",\"submit_ns\":0,\"duration_ns\":1,\"gpu_mili\":5}\n";
    fs::write(folder.path().join("list.jsonl"), text).unwrap();
    let failed = dryrack(folder.path(), &["trace", "convert", "list.jsonl", "--out", "list.csv"]).assert().code(2);
    let told = String::from_utf8(failed.get_output().stderr.clone()).unwrap();
    assert!(
        told.starts_with("error: list.jsonl: 2 faults\n  list.jsonl:2:25: missing field `duration_ns`\n"),
        "{told}"
    );
    assert!(told.contains("list.jsonl:3:") && told.contains("unknown field `gpu_mili`, expected one of"), "{told}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["list.jsonl"]);
    fs::write(folder.path().join("what.txt"), "1 2 3\n").unwrap();
    dryrack(folder.path(), &["trace", "info", "what.txt"]).assert().code(2);
}

/// 300 tasks, one each hour, so the last is submitted after 299 h. At a growth of 1000 % a day, the load is then 11^12.46.
fn a_list_is_neither_grown_nor_resampled_without_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..300).map(|job| format!("{job},{},60,1,1\n", job * 3600)).collect();
    fs::write(folder.path().join("t.csv"), format!("job,submit_s,duration_s,gpus,nodes\n{rows}")).unwrap();
    let faults = [
        ("growth: 1000%/day", "", "the load grows to more than 1000 times what the file says", "3:28"),
        ("growth: 1000%/day\nuntil: 2d", "", "the load grows to more than 1000 times what the file says", "3:28"),
        ("growth: 4000000%/day", "", "the load grows to more than 1000 times", "3:28"),
        ("load: 0.1%", "", "at this load, none of 300 tasks of the trace is left", "3:28"),
        (
            "seed: 1",
            ", resample: {block: 1ns, cycle: 1ns}",
            "a list of 12d11h has more than 1000000 times `block: 1ns`",
            "3:53",
        ),
        (
            "seed: 1",
            ", resample: {method: stationary, block: 1d, cycle: 1ms}",
            "a list of 12d11h has more than 1000000 times `cycle: 1ms`",
            "3:84",
        ),
    ];
    for (load, more, message, place) in faults {
        let text = format!(
            "scenario: Limits\nnodes: [{{name: n, machine: l4-x1}}]\ntrace: {{format: csv, file: t.csv{more}}}\n{load}\n"
        );
        fs::write(folder.path().join("s.yaml"), text).unwrap();
        let failed = dryrack(folder.path(), &["run", "s.yaml"]).assert().code(2);
        let told = String::from_utf8(failed.get_output().stderr.clone()).unwrap();
        assert!(told.contains(message) && told.contains(&format!("s.yaml:{place}")), "{load}{more}\n{told}");
    }
}
