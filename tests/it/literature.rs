//! Published and recorded results of other simulators, matched exactly. Their files are not in the repository. They are
//! in the folder `data`, which contains `groundtruth` and `traces`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use dryrack_engine::{RunOptions, run};
use dryrack_metrics::RunAccount;
use dryrack_scenario::{Options, load_text};
use dryrack_trace::{Roots, open_file};

/// A test on the folder of data; `Err` describes the fault.
type Test = fn(&Path) -> Result<(), String>;

pub const FAST: [(&str, Test); 8] = [
    ("literature_fgd_places_each_pod_where_it_was_placed", fgd_places_each_pod_where_it_was_placed),
    ("literature_fgd_allocates_as_published_with_the_published_orders", fgd_allocates_as_published),
    ("literature_helios_starts_each_job_when_its_program_does", helios_starts_each_job_when_its_program_does),
    ("literature_helios_shortest_job_first_is_a_strict_line", helios_shortest_job_first_is_a_strict_line),
    ("literature_rlscheduler_starts_each_job_when_its_program_does", rlscheduler_starts_each_job_when_its_program_does),
    ("literature_rlscheduler_has_its_published_table", rlscheduler_has_its_published_table),
    ("literature_says_of_each_profile_where_its_values_come_from", says_where_values_come_from),
    ("literature_tiresias_starts_each_job_when_its_program_does", tiresias_starts_each_job_when_its_program_does),
];

pub const SLOW: [(&str, Test); 1] =
    [("literature_means_fgd_are_the_published_ones_with_other_orders", fgd_means_are_the_published_ones)];

/// The rows of a CSV file with a header, plain or gzip.
pub fn rows(path: &Path) -> Result<Vec<BTreeMap<String, String>>, String> {
    let mut text = String::new();
    let mut file = open_file(path).map_err(|fault| fault.to_string())?;
    file.read_to_string(&mut text).map_err(|fault| format!("{}: {fault}", path.display()))?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.map_err(|fault| format!("{}: {fault}", path.display()))).collect()
}

/// The account of a run of this scenario.
pub fn run_metrics(data: &Path, text: &str) -> Result<RunAccount, String> {
    let roots = Roots { data: Some(data.to_path_buf()), ..Roots::default() };
    let options = Options { roots, ..Options::default() };
    let loaded = load_text("literature.yaml", text, Path::new(""), &options).map_err(|faults| faults.to_string())?;
    let mut accounts = RunAccount::default();
    let end = run(&loaded.rehearsal, RunOptions::default(), &mut [&mut accounts]);
    accounts.finish(end.at);
    Ok(accounts)
}

fn openb(profile: &str, list: &str, orders: &str, seed: u32) -> String {
    format!(
        "scenario: openb\nprofile: {profile}\nseed: {seed}\n\
         trace: {{name: openb, list: {list}, node_list: gpu_node, {orders}}}\n"
    )
}

fn published_orders(seed: u32) -> String {
    let folder = "groundtruth/fgd-openb";
    format!("order: {folder}/pod_order_seed{seed}.txt, ranks: {folder}/node_rank_seed{seed}.txt")
}

fn fgd_places_each_pod_where_it_was_placed(data: &Path) -> Result<(), String> {
    let recorded = rows(&data.join("groundtruth/fgd-openb/placements_go_fgd_seed42.csv.gz"))?;
    let accounts = run_metrics(data, &openb("fgd", "default", &published_orders(42), 1))?;
    if recorded.len() != 10_281 || accounts.jobs.len() != 10_866 {
        return Err(format!("{} recorded, {} jobs", recorded.len(), accounts.jobs.len()));
    }
    for (row, job) in recorded.iter().zip(accounts.jobs.values()) {
        let placement = job.replicas[0].placement.as_ref();
        let node = placement.map_or("-", |placement| accounts.names.node(placement.claims()[0].node));
        // The name of a recorded node includes its rank: 0000-openb-node-0260.
        let wanted = row["node"].split_once('-').map_or("", |(_, name)| name);
        if *row["pod"] != *job.spec.name || node != if row["node"] == "-" { "-" } else { wanted } {
            return Err(format!(
                "arrival {}: {} on {node}, recorded {} on {}",
                row["i"], job.spec.name, row["pod"], row["node"]
            ));
        }
    }
    let refused = accounts.jobs.values().filter(|job| job.replicas[0].placement.is_none()).count();
    if refused == 2_532 { Ok(()) } else { Err(format!("{refused} found no place, not 2,532")) }
}

/// The deterministic policies: every published value is matched if its order and ranks are known. For the random
/// policy, the mean is matched.
const EXACT: [(&str, &str); 5] = [
    ("FGD", "fgd"),
    ("BestFit", "best-fit-openb"),
    ("GpuPacking", "gpu-packing"),
    ("DotProd", "dot-product"),
    ("GpuClustering", "gpu-clustering"),
];
const CHANCE: (&str, &str) = ("Random", "random");

fn percent(text: &str) -> f64 {
    text.parse().expect("a published number")
}

fn allocated(data: &Path, scenario: &str) -> Result<f64, String> {
    let found = run_metrics(data, scenario)?.load.allocated_at(130).ok_or("the load never was 130 %")?;
    Ok(found * 100.0)
}

fn fgd_allocates_as_published(data: &Path) -> Result<(), String> {
    let published = rows(&data.join("groundtruth/fgd-openb/published_allocation_default_by_seed.csv"))?;
    for (policy, profile) in EXACT {
        for seed in 42..=44 {
            let row = published.iter().find(|row| row["policy"] == policy && row["seed"] == seed.to_string());
            let wanted = percent(&row.ok_or("no such row")?["gpu_allocation_percent_at_130"]);
            let found = allocated(data, &openb(profile, "default", &published_orders(seed), 1))?;
            if (found - wanted).abs() > 1e-9 {
                return Err(format!("{policy}, seed {seed}: {found:.2} %, published {wanted:.2} %"));
            }
        }
    }
    Ok(())
}

fn fgd_means_are_the_published_ones(data: &Path) -> Result<(), String> {
    let mut apart = String::new();
    println!("list     policy         published  found");
    for row in rows(&data.join("groundtruth/fgd-openb/published_allocation.csv"))? {
        let (list, policy) = (row["list"].as_str(), row["policy"].as_str());
        let profile = EXACT.iter().chain([&CHANCE]).find(|(known, _)| *known == policy).ok_or("an unknown policy")?.1;
        let mut sum = 0.0;
        for seed in 1..=10 {
            sum += allocated(data, &openb(profile, list, "tune: 130%", seed))?;
        }
        let (wanted, found) = (percent(&row["mean_gpu_allocation_percent_at_130"]), sum / 10.0);
        println!("{list:8} {policy:14} {wanted:8.3} {found:8.3}");
        let most = if policy == "FGD" { 0.15 } else { 0.4 };
        if (found - wanted).abs() > most {
            apart.push_str(&format!("{list} {policy}: {found:.3}, published {wanted:.3}\n"));
        }
    }
    if apart.is_empty() { Ok(()) } else { Err(apart) }
}

fn helios(profile: &str) -> String {
    let folder = "groundtruth/helios-philly";
    format!(
        "scenario: helios\nprofile: {profile}\n\
         trace: {{format: helios, file: {folder}/cluster_log.csv, node_file: {folder}/philly_vc.csv, estimates: exact, \
         gpu_nodes: any, from: 2017-10-01 00:00:00, to: 2017-11-30 23:59:00}}\n"
    )
}

/// Virtual cluster, GPUs, submission, duration, start and end in seconds, and the GPUs taken on each node by its index
/// in the cluster. Jobs have no names there, so rows are compared as multisets.
type Row = (String, u32, u64, u64, u64, u64, Vec<(usize, usize)>);

fn seconds(text: &str) -> Result<u64, String> {
    let whole = text.strip_suffix(".0").unwrap_or(text);
    whole.parse().map_err(|_| format!("{text} is no whole number of seconds"))
}

/// Parses `[{0: 4}, {12: 8}]`.
fn node_list(text: &str) -> Result<Vec<(usize, usize)>, String> {
    let inner = text.trim_matches(['[', ']']);
    let part = |part: &str| {
        let (node, gpus) = part.trim_matches(['{', '}', ' ']).split_once(':')?;
        Some((node.trim().parse().ok()?, gpus.trim().parse().ok()?))
    };
    let mut nodes: Vec<(usize, usize)> =
        inner.split(", ").map(|text| part(text).ok_or_else(|| format!("no node: {text}"))).collect::<Result<_, _>>()?;
    nodes.sort_unstable();
    Ok(nodes)
}

/// The result of each job, sorted.
fn helios_rows(accounts: &RunAccount) -> Vec<Row> {
    let row = |job: &dryrack_metrics::JobAccount| {
        let replica = &job.replicas[0];
        let at = |time: Option<dryrack_units::SimTime>| time.map_or(u64::MAX, |time| time.as_nanos() / 1_000_000_000);
        let (start, end) = (at(replica.started), at(replica.ended));
        let vc = job.spec.queue.as_deref().unwrap_or("").to_string();
        let claims = replica.placement.as_ref().map_or(&[][..], |placement| placement.claims());
        let place = |claim: &dryrack_fleet::NodeClaim| {
            let name = accounts.names.node(claim.node);
            let index = name.rsplit_once('-').and_then(|(_, index)| index.parse().ok()).unwrap_or(usize::MAX);
            (index, claim.gpus.len())
        };
        let mut nodes: Vec<_> = claims.iter().map(place).collect();
        nodes.sort_unstable();
        (vc, job.spec.demand.tasks, at(Some(job.submitted)), end - start, start, end, nodes)
    };
    let mut rows: Vec<Row> = accounts.jobs.values().map(row).collect();
    rows.sort_unstable();
    rows
}

fn helios_starts_each_job_when_its_program_does(data: &Path) -> Result<(), String> {
    let accounts = run_metrics(data, &helios("helios-fifo"))?;
    let found = helios_rows(&accounts);
    let mut wanted = Vec::new();
    for row in rows(&data.join("groundtruth/helios-philly/full_fifo_consolidate_perjob.csv.gz"))? {
        let number = |key: &str| seconds(&row[key]);
        let gpus = row["gpu_num"].parse().map_err(|_| "gpu_num")?;
        let (submit, duration) = (number("submit_time")?, number("duration")?);
        let nodes = node_list(&row["nodes"])?;
        wanted.push((row["vc"].clone(), gpus, submit, duration, number("start_time")?, number("end_time")?, nodes));
    }
    wanted.sort_unstable();
    if found.len() != 68_503 || wanted.len() != 68_503 {
        return Err(format!("{} jobs, {} recorded", found.len(), wanted.len()));
    }
    match found.iter().zip(&wanted).find(|(found, wanted)| found != wanted) {
        None => Ok(()),
        Some((found, wanted)) => Err(format!("{found:?}, recorded {wanted:?}")),
    }
}

/// Compares the rule with a plain simulation, because the times are not recorded. The simulation shares no code with
/// dryrack, and steps from one second with an event to the next.
fn helios_shortest_job_first_is_a_strict_line(data: &Path) -> Result<(), String> {
    let found = helios_rows(&run_metrics(data, &helios("helios-sjf"))?);
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows(&data.join("groundtruth/helios-philly/philly_vc.csv"))? {
        sizes.insert(row["vc"].clone(), row["node num"].parse().map_err(|_| "node num")?);
    }
    // The recorded rows of the other policy are in the order of the trace within each virtual cluster.
    let mut jobs: BTreeMap<String, Vec<(u64, u64, u32)>> = BTreeMap::new();
    for row in rows(&data.join("groundtruth/helios-philly/full_fifo_consolidate_perjob.csv.gz"))? {
        let gpus = row["gpu_num"].parse().map_err(|_| "gpu_num")?;
        let job = (seconds(&row["submit_time"])?, seconds(&row["duration"])?, gpus);
        jobs.entry(row["vc"].clone()).or_default().push(job);
    }
    let mut wanted = Vec::new();
    for (vc, mut jobs) in jobs {
        jobs.sort_by_key(|(submit, ..)| *submit);
        for ((submit, duration, gpus), (start, nodes)) in jobs.iter().zip(shortest_first(&jobs, sizes[&vc])) {
            wanted.push((vc.clone(), *gpus, *submit, *duration, start, start + duration, nodes));
        }
    }
    wanted.sort_unstable();
    match found.iter().zip(&wanted).find(|(found, wanted)| found != wanted) {
        None if found.len() == wanted.len() => Ok(()),
        None => Err(format!("{} jobs, not {}", found.len(), wanted.len())),
        Some((found, wanted)) => Err(format!("{found:?}, expected {wanted:?}")),
    }
}

/// The start and the nodes of each job, in the order given.
fn shortest_first(jobs: &[(u64, u64, u32)], nodes: usize) -> Vec<(u64, Vec<(usize, usize)>)> {
    let mut free = vec![8usize; nodes];
    let mut done: Vec<(u64, Vec<(usize, usize)>)> = vec![(u64::MAX, Vec::new()); jobs.len()];
    let mut running: Vec<(u64, usize)> = Vec::new();
    let mut queue: Vec<usize> = Vec::new();
    let mut next = 0;
    loop {
        let ends = running.iter().map(|(end, _)| *end).min();
        let comes = jobs.get(next).map(|(submit, ..)| *submit);
        let Some(now) = ends.into_iter().chain(comes).min() else { return done };
        for (_, job) in running.extract_if(.., |(end, _)| *end == now) {
            done[job].1.iter().for_each(|(node, gpus)| free[*node] += gpus);
        }
        while jobs.get(next).is_some_and(|(submit, ..)| *submit == now) {
            queue.push(next);
            next += 1;
        }
        queue.sort_by_key(|job| jobs[*job].1);
        while let Some(job) = queue.first().copied() {
            let Some(taken) = place_consolidated(&free, jobs[job].2 as usize) else { break };
            queue.remove(0);
            taken.iter().for_each(|(node, gpus)| free[*node] -= gpus);
            running.push((now + jobs[job].1, job));
            done[job] = (now, taken);
        }
    }
}

fn place_consolidated(free: &[usize], gpus: usize) -> Option<Vec<(usize, usize)>> {
    let mut order: Vec<usize> = (0..free.len()).filter(|node| free[*node] > 0).collect();
    if gpus <= 8 {
        order.sort_by_key(|node| free[*node]);
        return order.into_iter().find(|node| free[*node] >= gpus).map(|node| vec![(node, gpus)]);
    }
    order.sort_by_key(|node| 8 - free[*node]);
    let mut taken = Vec::new();
    let mut left = gpus;
    for node in order {
        let wanted = left.min(8);
        if wanted == 0 || free[node] < wanted {
            break;
        }
        taken.push((node, wanted));
        left -= wanted;
    }
    taken.sort_unstable();
    (left == 0).then_some(taken)
}

/// Each profile is in the table of profiles with the source of its values, and each file that the table names exists.
fn says_where_values_come_from(_: &Path) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src/literature.md");
    let text = std::fs::read_to_string(page).map_err(|fault| fault.to_string())?;
    let table = text.split("## ").find(|part| part.starts_with("Profiles\n")).ok_or("no table of profiles")?;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    let rows: Vec<&Vec<&str>> = rows.iter().filter(|row| row.len() == 5 && row[1].starts_with('`')).collect();
    for name in dryrack_profile::profile_names() {
        let named = rows.iter().filter(|row| row[1].split(", ").any(|cell| cell == format!("`{name}`"))).count();
        if named != 1 {
            return Err(format!("{name} is in {named} rows"));
        }
    }
    for row in rows {
        let mut near = folder.clone();
        for file in row[3].split('`').filter(|part| part.ends_with(".yaml")) {
            let path = if file.contains('/') { folder.join(file) } else { near.join(file) };
            if !path.is_file() {
                return Err(format!("{}: {} does not exist", row[1], path.display()));
            }
            near = path.parent().map(Path::to_path_buf).unwrap_or_default();
        }
    }
    Ok(())
}

fn tiresias_starts_each_job_when_its_program_does(data: &Path) -> Result<(), String> {
    for (profile, file) in [("fifo", "count_fifo_n4g4.job.csv"), ("fifo-skipping", "count_fjf_n4g4.job.csv")] {
        let folder = "groundtruth/tiresias-60job";
        let scenario = format!(
            "scenario: tiresias\nprofile: {profile}\n\
             trace: {{format: tiresias, file: traces/tiresias-60job/60_job.csv, node_file: {folder}/n4g4.csv, \
             gpu_nodes: any}}\n"
        );
        let accounts = run_metrics(data, &scenario)?;
        let recorded = rows(&data.join(folder).join(file))?;
        if recorded.len() != 60 || accounts.jobs.len() != 60 {
            return Err(format!("{} jobs, {} recorded", accounts.jobs.len(), recorded.len()));
        }
        for row in recorded {
            let job = accounts.jobs.values().find(|job| *job.spec.name == *row["job_id"]).ok_or("no such job")?;
            let replica = &job.replicas[0];
            let found = [replica.started, replica.ended].map(|at| at.map(|at| at.as_nanos() / 1_000_000_000));
            let wanted = [seconds(&row["start_time"])?, seconds(&row["end_time"])?].map(Some);
            if found != wanted {
                return Err(format!("{profile}: job {} {found:?}, recorded {wanted:?}", row["job_id"]));
            }
        }
    }
    Ok(())
}

/// The policies by the names in its files. The program's scores of WFP3 and UNICEF use a negative waiting time.
const RLSCHEDULER: [&str; 5] = ["fcfs", "sjf", "wfp", "uni", "f1"];

fn rlscheduler(policy: &str, backfill: bool, start: u32) -> String {
    let policy = policy.replace("wfp", "wfp3").replace("uni", "unicef");
    let backfill = if backfill { "-backfill" } else { "" };
    format!(
        "scenario: lublin\nprofile: rlscheduler-{policy}{backfill}\nnodes: [{{name: lublin, cpus: 256}}]\n\
         trace: {{format: swf, file: traces/swf-lublin/lublin_256.swf, estimates: exact, skip: {start}, limit: 1024}}\n"
    )
}

fn rlscheduler_starts_each_job_when_its_program_does(data: &Path) -> Result<(), String> {
    let mut apart = String::new();
    for backfill in [false, true] {
        let file = format!("starts_lublin_256_backfill{}_start1981_len1024.csv", u8::from(backfill));
        let recorded = rows(&data.join("groundtruth/rlscheduler-lublin1").join(file))?;
        for policy in RLSCHEDULER {
            let accounts = run_metrics(data, &rlscheduler(policy, backfill, 1981))?;
            if recorded.len() != 1024 || accounts.jobs.len() != 1024 {
                return Err(format!("{} jobs, {} recorded", accounts.jobs.len(), recorded.len()));
            }
            for (row, job) in recorded.iter().zip(accounts.jobs.values()) {
                let found = job.replicas[0].started.map(|at| at.as_nanos() / 1_000_000_000);
                let wanted = seconds(&row[&format!("start_{policy}")])?;
                if *row["job_id"] != *job.spec.name || found != Some(wanted) {
                    apart.push_str(&format!(
                        "{policy}, backfilling {backfill}: job {} {found:?}, recorded {wanted}\n",
                        job.spec.name
                    ));
                    break;
                }
            }
        }
    }
    if apart.is_empty() { Ok(()) } else { Err(apart) }
}

/// Mean bounded slowdown and utilization of each of the ten sequences. The program adds numbers in a different order,
/// so the last bits of a double may differ, but the printed digits must be equal.
fn rlscheduler_has_its_published_table(data: &Path) -> Result<(), String> {
    let mut apart = String::new();
    for backfill in [false, true] {
        let recorded = |kind: &str| -> Result<serde_json::Value, String> {
            let name = format!("groundtruth/rlscheduler-lublin1/{kind}_lublin_256_backfill{}.json", u8::from(backfill));
            let text = std::fs::read_to_string(data.join(&name)).map_err(|fault| format!("{name}: {fault}"))?;
            serde_json::from_str(&text).map_err(|fault| format!("{name}: {fault}"))
        };
        let kinds = [("bsld", "bounded_slowdown_mean"), ("util", "rlscheduler_utilization")];
        let recorded = [recorded("bsld")?, recorded("util")?];
        for policy in RLSCHEDULER {
            for sequence in 0..10 {
                let start = recorded[0]["starts"][sequence].as_u64().ok_or("no start")? as u32;
                let metrics = dryrack_metrics::Metrics::of(&run_metrics(data, &rlscheduler(policy, backfill, start))?);
                for ((kind, metric), recorded) in kinds.iter().zip(&recorded) {
                    // There, utilization is a reward with the opposite sign.
                    let wanted = recorded["per_iter"][policy][sequence].as_f64().ok_or("no value")?.abs();
                    let found = match metrics.get(metric) {
                        Some(dryrack_metrics::Value::Ratio(found)) => found,
                        other => return Err(format!("{metric} is {other:?}")),
                    };
                    if (found - wanted).abs() > wanted.abs() * 1e-12 {
                        apart.push_str(&format!(
                            "{policy}, backfilling {backfill}, sequence {start}: {kind} {found}, published {wanted}\n"
                        ));
                    }
                }
            }
        }
    }
    if apart.is_empty() { Ok(()) } else { Err(apart) }
}
