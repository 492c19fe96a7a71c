//! What the answer of a plan says, and what it must not say.

use crate::cli::{empty, stderr, stdout};

trials! {
    Nothing: [
        the_price_of_a_fleet_that_scales_is_measured,
    ]
}

fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = empty();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    }
    dir
}

/// One job of an hour runs on an instance that is created for it.
const BURST: &str = "\
scenario: A job on an instance
profile: easy
until: 4h
currency: USD
params: {most: 1}
fleets:
  burst:
    nodes: \"0..${most}\"
    offers: [{name: l4, machine: l4-x1, price_per_hour: 0.80, provisioning: 3m}]
jobs: [{name: one, duration: 1h, resources: {gpu: 1}}]
expect: [jobs_completed == 1]
";

fn the_price_of_a_fleet_that_scales_is_measured() {
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {most: [1, 2]}\nminimize: price_per_hour\n\
                constraints: [jobs_completed == 1, max(start_wait) <= 10m]\n";
    let dir = written(&[("base.yaml", BURST), ("plan.yaml", plan)]);
    let said = stderr(dir.path(), &["plan", "plan.yaml"], 2);
    assert!(said.contains("`price_per_hour` leaves out the instances of the fleet `burst`"), "{said}");
    assert!(said.contains("plan.yaml:4:11") && said.contains("minimize `cost_per_month`"), "{said}");
    let measured = plan.replace("price_per_hour", "cost_per_month");
    std::fs::write(dir.path().join("plan.yaml"), measured).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(said.contains("USD a month") && !said.contains("price/h") && !said.contains(" 0.00 USD"), "{said}");
}
