//! Runs that wait for long: one fleet that is full most of the time, and runs of one demand that come over a quarter of
//! an hour, each with a priority and a retry.

use super::weighted::weighted;
use dryrack_rng::Stream;

pub fn draw(draws: &mut Stream) -> String {
    let mut text = String::from("profile: dstack\nuntil: 30m\nfleets:\n");
    let (hosts, blocks) = (*weighted(draws, &[(3, 1), (2, 2)]), *weighted(draws, &[(2, 1), (3, 2), (1, 4)]));
    let host = |number: u64| format!("{{name: h{number}, cpus: 16, ram: 128GiB, gpus: 4, gpu: L4}}");
    let listed: Vec<String> = (1..=hosts).map(host).collect();
    let listed = listed.join(", ");
    text.push_str(&format!("  lab: {{kind: ssh, blocks: {blocks}, disk: 500GiB, hosts: [{listed}]}}\njobs:\n"));
    // As many as fill the fleet from the start, and some more.
    let fillers = hosts * blocks;
    for number in 1..=fillers + draws.between(2, 5) {
        let mut fields = vec![format!("name: r{number}")];
        if number > fillers {
            fields.push(format!("at: {}s", draws.between(1, 90) * 10));
        }
        fields.push(format!("resources: {{cpu: 1.., memory: 1GB.., gpu: {}, disk: 1GB..}}", 4 / blocks));
        fields.push("creation_policy: reuse".to_string());
        fields.push(format!("duration: {}s", draws.pick(&[240, 480, 720, 960])));
        fields.push(format!("priority: {}", draws.pick(&[10, 50, 100])));
        fields.push("retry: {on: no_capacity, for: 2h}".to_string());
        text.push_str(&format!("  - {{{}}}\n", fields.join(", ")));
    }
    text
}
