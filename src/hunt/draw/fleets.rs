//! Runs on fleets of instances: several fleets with blocks, regions and prices, and runs of one or several nodes with
//! priorities, retries and different arrival times.

use super::weighted::weighted;
use dryrack_rng::Stream;

/// The GPUs of a host: their number, and their type by dstack's name. Each row has a weight.
const HOSTS: [(u64, (u64, u64, &str)); 6] = [
    (3, (8, 0, "")),
    (2, (8, 1, "L4")),
    (3, (16, 2, "L4")),
    (3, (32, 4, "A100")),
    (2, (64, 8, "A100")),
    (1, (16, 4, "RTX4090")),
];

pub fn draw(draws: &mut Stream) -> String {
    let mut text = String::from("profile: dstack\nuntil: 4m\nfleets:\n");
    let (mut names, mut number) = (Vec::new(), 0);
    let usual = weighted(draws, &HOSTS);
    for fleet in 1..=*weighted(draws, &[(5, 1_u64), (4, 2), (1, 3)]) {
        let name = format!("fleet-{fleet}");
        text.push_str(&draw_fleet(draws, &name, usual, &mut number));
        names.push(name);
    }
    text.push_str("jobs:\n");
    // Use only a few demands, so that several runs have the same demand.
    let demands: Vec<String> = (0..2).map(|_| draw_demand(draws, usual)).collect();
    for number in 1..=draws.between(1, 6) {
        text.push_str(&draw_run(draws, number, &demands, &names));
    }
    text
}

fn draw_fleet(draws: &mut Stream, name: &str, usual: &(u64, u64, &str), number: &mut u64) -> String {
    let is_cloud = draws.chance(600);
    let kind = if is_cloud { "cloud" } else { "ssh" };
    let placement = if draws.chance(650) { "cluster" } else { "any" };
    let blocks = *weighted(draws, &[(4, "1"), (3, "2"), (2, "4"), (2, "auto")]);
    let mut hosts = Vec::new();
    for _ in 0..draws.between(1, 3) {
        *number += 1;
        let (cpus, gpus, gpu) = if draws.chance(700) { usual } else { weighted(draws, &HOSTS) };
        let mut fields = vec![format!("name: h{number}"), format!("cpus: {cpus}"), "ram: 128GiB".to_string()];
        if *gpus > 0 {
            fields.push(format!("gpus: {gpus}, gpu: {gpu}"));
        }
        if is_cloud {
            let region = draws.pick(&["eu-1", "us-1"]);
            // Among the clouds with clusters, only this one needs no extra packages.
            fields.push(format!("backend: vultr, region: {region}, price_per_hour: {}", draws.between(1, 4)));
        }
        if draws.chance(60) {
            fields.push("state: unreachable".to_string());
        }
        hosts.push(format!("{{{}}}", fields.join(", ")));
    }
    let hosts = hosts.join(", ");
    format!("  {name}: {{kind: {kind}, placement: {placement}, blocks: {blocks}, disk: 500GiB, hosts: [{hosts}]}}\n")
}

fn draw_demand(draws: &mut Stream, usual: &(u64, u64, &str)) -> String {
    let gpus = usual.1;
    let gpu = match draws.between(0, 4) {
        _ if gpus == 0 => "0..".to_string(),
        0 => "1".to_string(),
        1 => gpus.to_string(),
        2 => "1..".to_string(),
        3 => (gpus / 2).max(1).to_string(),
        _ => "0..".to_string(),
    };
    let cpu = draws.pick(&["1..", "2..", "4.."]);
    format!("{{cpu: {cpu}, memory: 1GB.., gpu: {gpu}, disk: 1GB..}}")
}

fn draw_run(draws: &mut Stream, number: u64, demands: &[String], fleets: &[String]) -> String {
    let mut fields = vec![format!("name: r{number}")];
    let at = (number - 1) * 5 + draws.between(0, 6) * 6;
    if at > 0 {
        fields.push(format!("at: {at}s"));
    }
    let nodes = *weighted(draws, &[(6, 1), (3, 2), (1, 3)]);
    if nodes > 1 {
        fields.push(format!("nodes: {nodes}"));
    }
    fields.push(format!("resources: {}", draws.pick(demands)));
    fields.push("creation_policy: reuse".to_string());
    if draws.chance(600) {
        fields.push(format!("duration: {}s", draws.pick(&[20, 40, 60, 90])));
    }
    if draws.chance(600) {
        fields.push(format!("priority: {}", draws.pick(&[10, 50, 100])));
    }
    if draws.chance(600) {
        fields.push("retry: {on: no_capacity, for: 2h}".to_string());
    }
    if draws.chance(100) {
        fields.push(format!("fleets: [{}]", draws.pick(fleets)));
    }
    if draws.chance(80) {
        fields.push(format!("max_price: {}", draws.between(1, 3)));
    }
    if draws.chance(60) {
        fields.push(format!("regions: [{}]", draws.pick(&["eu-1", "us-1"])));
    }
    format!("  - {{{}}}\n", fields.join(", "))
}
