//! Published and recorded results of other simulators, met exactly. Their files are not carried: `data` is a folder that
//! holds `groundtruth` and `traces`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use dryrack::engine::{RunOptions, run};
use dryrack::report::RunAccount;
use dryrack::scenario::{Options, load_text};
use dryrack::trace::{Roots, open_file};

/// A test on the folder of data; `Err` says what is wrong.
type Test = fn(&Path) -> Result<(), String>;

pub const FAST: [(&str, Test); 2] = [
    ("literature_fgd_places_each_pod_where_it_was_placed", fgd_places_each_pod_where_it_was_placed),
    ("literature_fgd_allocates_as_published_with_the_published_orders", fgd_allocates_as_published),
];

pub const SLOW: [(&str, Test); 1] =
    [("literature_slow_fgd_means_are_the_published_ones_with_other_orders", fgd_means_are_the_published_ones)];

/// The rows of a CSV file with a header, plain or gzip.
pub fn rows(path: &Path) -> Result<Vec<BTreeMap<String, String>>, String> {
    let mut text = String::new();
    let mut file = open_file(path).map_err(|fault| fault.to_string())?;
    file.read_to_string(&mut text).map_err(|fault| format!("{}: {fault}", path.display()))?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.map_err(|fault| format!("{}: {fault}", path.display()))).collect()
}

/// The books of a run of this scenario.
pub fn books(data: &Path, text: &str) -> Result<RunAccount, String> {
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
    let accounts = books(data, &openb("fgd", "default", &published_orders(42), 1))?;
    if recorded.len() != 10_281 || accounts.jobs.len() != 10_866 {
        return Err(format!("{} recorded, {} jobs", recorded.len(), accounts.jobs.len()));
    }
    for (row, job) in recorded.iter().zip(&accounts.jobs) {
        let placement = job.replicas[0].placement.as_ref();
        let node = placement.map_or("-", |placement| accounts.names.node(placement.claims()[0].node));
        // A recorded node carries its rank: 0000-openb-node-0260.
        let wanted = row["node"].split_once('-').map_or("", |(_, name)| name);
        if *row["pod"] != *job.spec.name || node != if row["node"] == "-" { "-" } else { wanted } {
            return Err(format!("arrival {}: {} on {node}, recorded {} on {}", row["i"], job.spec.name, row["pod"], row["node"]));
        }
    }
    let refused = accounts.jobs.iter().filter(|job| job.replicas[0].placement.is_none()).count();
    if refused == 2_532 { Ok(()) } else { Err(format!("{refused} found no place, not 2,532")) }
}

/// The policies whose every published value is met where its order and ranks are known, and those whose mean is.
const EXACT: [(&str, &str); 3] = [("FGD", "fgd"), ("BestFit", "best-fit-openb"), ("GpuPacking", "gpu-packing")];
const CHANCE: [(&str, &str); 3] = [("Random", "random"), ("DotProd", "dot-product"), ("GpuClustering", "gpu-clustering")];

fn percent(text: &str) -> f64 {
    text.parse().expect("a published number")
}

fn allocated(data: &Path, scenario: &str) -> Result<f64, String> {
    let found = books(data, scenario)?.load.allocated_at(130).ok_or("the load never was 130 %")?;
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
        let profile = EXACT.iter().chain(&CHANCE).find(|(known, _)| *known == policy).ok_or("an unknown policy")?.1;
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
