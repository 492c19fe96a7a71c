//! A table of `sacct` as printed, from the list to the run.

use crate::cli::{empty, stderr, stdout};

trials! {
    Nothing: [
        a_table_of_dates_begins_with_its_first_job,
        an_archive_is_not_taken_for_the_first_file_in_it,
        a_list_without_times_comes_in_an_order_and_stays,
    ]
}

/// 7 was requeued after its node had failed. 7-2 is the id of another job, so the second run of 7 cannot be named that.
const TABLE: &str = "\
JobID|JobName|Partition|Submit|Start|End|Elapsed|State|Timelimit|AllocTRES
7|train|gpu|2026-11-20T10:00:00|2026-11-20T10:00:05|2026-11-20T10:10:05|00:10:00|NODE_FAIL|02:00:00|cpu=4,gres/gpu=2,node=1
7-2|train|gpu|2026-11-20T10:05:00|2026-11-20T10:06:00|2026-11-20T10:36:00|00:30:00|COMPLETED|02:00:00|cpu=4,gres/gpu=1,node=1
7|train|gpu|2026-11-20T10:10:05|2026-11-20T10:12:00|2026-11-20T11:12:00|01:00:00|COMPLETED|02:00:00|cpu=4,gres/gpu=2,node=1
";

const SCENARIO: &str = "\
scenario: The jobs of a table
profile: easy
nodes: [{name: n, machine: a100-80g-x2, price_per_hour: 6}]
trace: {format: sacct, file: jobs.txt}
";

fn a_table_of_dates_begins_with_its_first_job() {
    let dir = empty();
    for (name, text) in [("jobs.txt", TABLE), ("jobs.yaml", SCENARIO)] {
        std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    }
    let said = stdout(dir.path(), &["trace", "check", "jobs.txt", "--gpus", "2"], 0);
    assert!(said.contains("names       1 repeat an earlier name"), "{said}");
    assert!(said.contains("an estimate 100.0 %"), "{said}");
    let said = stdout(dir.path(), &["run", "jobs.yaml", "--out", "out", "--format", "json"], 0);
    let report: serde_json::Value = serde_json::from_slice(said.as_bytes()).expect("JSON");
    // 10:00:00 to 10:10:00, then 7-2 to 10:40:00, then 7 again for an hour: 1h40m at 6 an hour.
    assert_eq!(report["metrics"]["cost"], 10.0, "{said}");
    let jobs = std::fs::read_to_string(dir.path().join("out/jobs.csv")).expect("it was written");
    let begins: Vec<String> =
        jobs.lines().skip(1).map(|line| line.split(',').take(5).collect::<Vec<_>>().join(",")).collect();
    assert_eq!(begins, ["7,0,0,0,600", "7-2,0,300,600,2400", "7-3,0,605,2400,6000"]);
    // If tasks are read during the run, only hashes of their names are kept, so names must be unique.
    let told = stderr(dir.path(), &["run", "jobs.yaml", "--stream"], 2);
    assert!(told.contains("`7` has the name of an earlier task"), "{told}");
}

fn an_archive_is_not_taken_for_the_first_file_in_it() {
    let dir = empty();
    std::fs::write(dir.path().join("job.csv"), "time,name,num_replicas,application,batch_size\n").expect("our own");
    let made = std::process::Command::new("tar").args(["cf", "jobs.tar", "job.csv"]).current_dir(dir.path()).status();
    assert!(made.expect("tar runs").success());
    let told = stderr(dir.path(), &["trace", "info", "jobs.tar"], 2);
    assert!(told.contains("is an archive; unpack it, and name one of its files"), "{told}");
}

/// As in openb's lists `multigpu20` to `multigpu50`: the demands of pods, without arrival and run times.
const WITHOUT_TIMES: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli
openb-pod-0001,6000,12288,1,460
openb-pod-0005,20000,65536,0,0
openb-pod-8314,88000,327680,8,1000
";

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nlarge,96000,393216,8,V100M32\nsmall,64000,262144,2,P100\n";

fn a_list_without_times_comes_in_an_order_and_stays() {
    let dir = empty();
    let traced =
        |more: &str| format!("scenario: Pods\ntrace: {{format: openb, file: pods.csv, node_file: nodes.csv{more}}}\n");
    let (ordered, plain) = (traced(", order: order.txt"), traced(""));
    let order = "openb-pod-8314\nopenb-pod-0005\nopenb-pod-0001\n";
    for (name, text) in [
        ("pods.csv", WITHOUT_TIMES),
        ("nodes.csv", NODES),
        ("order.txt", order),
        ("ordered.yaml", &ordered),
        ("plain.yaml", &plain),
    ] {
        std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    }
    stdout(dir.path(), &["run", "ordered.yaml", "--out", "out"], 0);
    let jobs = std::fs::read_to_string(dir.path().join("out/jobs.csv")).expect("it was written");
    let kept = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        [0, 2, 3, 4, 5].map(|column| cells[column]).join(",")
    };
    // One a second. The first takes all GPUs of the large node, and leaves 8 cores there.
    let wanted = ["openb-pod-8314,0,0,,large", "openb-pod-0005,1,1,,small", "openb-pod-0001,2,2,,small"];
    assert_eq!(jobs.lines().skip(1).map(kept).collect::<Vec<_>>(), wanted);
    let told = stderr(dir.path(), &["run", "plain.yaml"], 2);
    assert!(told.contains("the trace pods.csv has no durations"), "{told}");
    assert!(told.contains("add `tune: 130%` or `order: FILE`"), "{told}");
    let told = stderr(dir.path(), &["run", "plain.yaml", "--stream"], 2);
    assert!(told.contains("`openb-pod-0001` has no duration"), "{told}");
}
