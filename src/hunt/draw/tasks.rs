//! Jobs that take GPUs of nodes, for any scheduler.

use super::weighted::weighted;
use dryrack_rng::Stream;

pub fn draw(draws: &mut Stream) -> String {
    let mut text = String::from("until: 10m\nnodes:\n");
    for number in 1..=draws.between(1, 6) {
        let gpus = *weighted(draws, &[(1, 0), (3, 1), (3, 2), (3, 4)]);
        let memory = *draws.pick(&[16, 24, 80]);
        let gpus = match gpus {
            0 => String::new(),
            count => format!(", gpus: [{{type: gpu-{memory}g, count: {count}, memory: {memory}GiB}}]"),
        };
        let state = if draws.chance(150) { ", state: not_ready" } else { "" };
        let labels = if draws.chance(400) { draws.pick(&[", labels: {zone: a}", ", labels: {zone: b}"]) } else { &"" };
        let cpus = draws.pick(&[4, 8, 16]);
        text.push_str(&format!("  - {{name: n{number}, cpus: {cpus}, ram: 64GiB{gpus}{state}{labels}}}\n"));
    }
    text.push_str("jobs:\n");
    for number in 1..=draws.between(1, 6) {
        text.push_str(&draw_job(draws, number));
    }
    if draws.chance(200) {
        let becomes = draws.pick(&["not_ready", "ready"]);
        text.push_str(&format!("faults:\n  - {{at: {}s, node: n1, becomes: {becomes}}}\n", draws.between(5, 120)));
    }
    text
}

fn draw_job(draws: &mut Stream, number: u64) -> String {
    let mut fields =
        vec![format!("name: j{number}"), format!("cpus: {}", draws.pick(&[1, 2, 4])), "ram: 1GiB".to_string()];
    if number > 1 {
        fields.push(format!("at: {}s", (number - 1) * 20));
    }
    let gpus = *weighted(draws, &[(2, 0), (4, 1), (3, 2), (1, 4)]);
    if gpus > 0 {
        fields.push(format!("gpus: {gpus}"));
    }
    if draws.chance(200) {
        fields.push(format!("tasks: {}", draws.between(2, 3)));
    }
    if draws.chance(200) {
        fields.push(format!("labels: {}", draws.pick(&["{zone: a}", "{zone: b}"])));
    }
    if draws.chance(300) {
        fields.push(format!("priority: {}", draws.pick(&[10, 100])));
    }
    if draws.chance(600) {
        fields.push(format!("duration: {}s", draws.pick(&[30, 90, 240])));
    }
    format!("  - {{{}}}\n", fields.join(", "))
}
