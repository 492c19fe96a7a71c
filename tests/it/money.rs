//! Money and growth: monthly budgets, how nodes are paid for, and how long a fleet stays enough.

use crate::cli::{stderr, stdout, written};

trials! {
    Nothing: [
        a_budget_of_a_month_is_a_constraint,
        a_month_is_the_same_amount_everywhere,
        a_budget_is_not_kept_by_jobs_that_never_run,
        a_machine_and_its_price_are_one_value,
        a_wrong_price_is_told_where,
        electricity_without_a_power_is_warned_of,
        a_node_that_cost_and_energy_leave_out_is_named,
        an_energy_of_some_nodes_says_of_which_part,
        all_bought_nodes_whose_electricity_is_not_paid_are_counted,
        a_fleet_is_enough_until_its_load_exceeds_it,
        a_horizon_needs_jobs_that_grow,
    ]
}

/// Two of eight nodes draw 4 kW each for six hours. The power of the others is not known.
fn an_energy_of_some_nodes_says_of_which_part() {
    let text = "\
scenario: Two kinds of nodes, one with a known power
params: {others: 6}
nodes:
  - {name: a, machine: a100-80g-x8, count: 2, power: {idle: 1kW, busy: 4kW}}
  - {name: b, machine: h100-80g-x8, count: \"${others}\"}
jobs: [{name: train, count: 20, gpus: 8, duration: 2h}]
expect: [energy <= 1]
";
    let plan =
        "plan: Enough?\nscenario: s.yaml\nfactors: {others: [0, 6]}\nminimize: gpus\nconstraints: [makespan <= 10h]\n";
    let dir = written(&[("s.yaml", text), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["run", "s.yaml"], 1);
    let expected = "energy was 48.000; it is partial: nodes with 75.0% of the node hours state no power";
    assert!(said.contains(expected), "{said}");
    assert!(
        said.contains("energy     48.0 kWh, for 25.0% of the node hours; the other nodes state no power\n"),
        "{said}"
    );
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(said.contains("48.0 kWh of 25.0% of the node hours"), "{said}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(page.contains("48.0 of 25.0% of the node hours"), "the page says so");
    let all = stdout(dir.path(), &["run", "s.yaml", "--set", "params.others=0"], 1);
    assert!(!all.contains("node hours"), "{all}");
}

/// Two jobs of an hour. Bought nodes cost 17,520 / 8,760 = 2.00 an hour, 1,460.00 in a month of 730 hours; nodes that
/// are committed to cost 1,095.00. At 3,000 a month, two of the former can be paid for, or one of each.
const PAID: &str = "\
scenario: Two jobs for an hour
currency: EUR
params: {own: 1, year: 0}
machines: {one: {cpus: 1, gpus: 1, gpu: l4, ram: 8GiB}}
nodes:
  - {name: own, machine: one, count: \"${own}\", purchase: {price: 17520, over: 1y}}
  - {name: year, machine: one, count: \"${year}\", commitment: {term: 1y, price_per_hour: 1.50}}
jobs: [{name: train, count: 2, gpus: 1, duration: 1h}]
";

fn a_budget_of_a_month_is_a_constraint() {
    let plan = "\
plan: What can be paid for?
scenario: base.yaml
factors: {own: 1..3, year: 0..1}
minimize: cost_per_month
constraints: [cost_per_month <= 3000, jobs_completed == 2, max(queue_wait) <= 0s]
";
    let dir = written(&[("base.yaml", PAID), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(said.contains("own=1, year=1 (2 x one, 2 GPUs) is enough: 2,555.00 EUR a month."), "{said}");
    assert!(
        said.contains(
            "The next cheapest that meets all constraints is own=2, year=0: 2,920.00 EUR a month, 14.3% more."
        ),
        "{said}"
    );
    let rows = std::fs::read_to_string(dir.path().join("out/alternatives.csv")).expect("it was written");
    let keeps: Vec<bool> = rows.lines().skip(1).map(|row| row.contains(",true,")).collect();
    assert_eq!(keeps, [false, true, true, false, false, false], "{rows}");
    let run = stdout(dir.path(), &["run", "base.yaml", "--set", "params.year=1"], 0);
    assert!(run.contains("cost       3.50 EUR, 2,555.00 EUR a month\n"), "{run}");
    // A node without a price would seem to be free.
    let free = PAID.replace(", commitment: {term: 1y, price_per_hour: 1.50}", "");
    std::fs::write(dir.path().join("base.yaml"), free).expect("a folder of our own");
    std::fs::write(dir.path().join("plan.yaml"), plan.replace("minimize: cost_per_month\n", "")).expect("our own");
    let said = stderr(dir.path(), &["plan", "plan.yaml"], 2);
    assert!(
        said.contains("error: the node `year-0` has no price, so its cost would count as 0\n --> plan.yaml:4:14\n"),
        "{said}"
    );
}

/// A busy node costs 2.00 an hour and draws 1 kW, which costs another 1.00 with 0.50 for a kWh and two kWh of the site for
/// each of a node. Two of them cost 6.00 an hour: 4,380.00 in a month.
fn a_month_is_the_same_amount_everywhere() {
    let paid = PAID
        .replace("currency: EUR", "until: 7d\ncurrency: EUR\nelectricity: {price_per_kwh: 0.50, pue: 2}")
        .replace("over: 1y}", "over: 1y}, power: {idle: 0.5kW, busy: 1kW}");
    let plan = "\
plan: What does a month cost?
scenario: base.yaml
factors: {own: 1..2}
minimize: cost_per_month
constraints: [max(queue_wait) <= 0s]
";
    let dir = written(&[("base.yaml", &paid), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(said.contains("own=2 (2 x one, 2 GPUs) is enough: 4,380.00 EUR a month."), "{said}");
    assert!(
        said.contains("A month is 730 hours at the rate of the run, which lasts 1h00m of 7d00h up to `until`"),
        "{said}"
    );
    let page = || std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    let tile = "<b>4,380 EUR</b><span>cost of a month (730 hours) at the rate of the run</span>";
    assert!(page().contains(tile) && !page().contains("2,920"), "{}", page());
    // As few GPUs as possible cost as much. Without a currency, the amount has no name.
    std::fs::write(dir.path().join("base.yaml"), paid.replace("currency: EUR\n", "")).expect("our own");
    std::fs::write(dir.path().join("plan.yaml"), plan.replace("cost_per_month", "gpus")).expect("our own");
    std::fs::remove_dir_all(dir.path().join("out")).expect("our own");
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(page().contains(&tile.replace(" EUR", "")) && !page().contains("2,920"), "{}", page());
}

/// 50 of 51 jobs ask for more GPUs than a node has.
fn a_budget_is_not_kept_by_jobs_that_never_run() {
    let scenario = "\
scenario: Most jobs never fit
params: {n: 1}
nodes: [{name: w, machine: l4-x1, count: \"${n}\", price_per_hour: 1.5}]
jobs:
  - {name: big, gpus: 8, duration: 1h, count: 50}
  - {name: small, gpus: 1, duration: 1h}
";
    let plan = "plan: Which?\nscenario: base.yaml\nfactors: {n: [1, 2]}\nminimize: price_per_hour\n\
                constraints: [cost_per_month <= 40000]\n";
    let dir = written(&[("base.yaml", scenario), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
    assert!(said.contains("\n50 of 51 jobs can never run with n=1: no node has 8 GPUs"), "{said}");
    assert!(
        said.contains(
            "None of the 2 alternatives that were run meets the constraint. Some jobs can never run with each of them."
        ),
        "{said}"
    );
    assert!(said.contains("no: 50 of 51 jobs can never run, seed 1"), "{said}");
    // The same jobs break a limit on waiting.
    std::fs::write(dir.path().join("plan.yaml"), plan.replace("cost_per_month <= 40000", "max(queue_wait) <= 1h"))
        .expect("our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
    assert!(
        said.contains("\n50 of 51 jobs can never run with n=1: ") && !said.contains("max(queue_wait) <= 1h fails"),
        "{said}"
    );
    // What is asked of such jobs is the user's choice.
    for (file, text) in [
        ("plan.yaml", plan.replace("40000", "40000, jobs_completed == 1")),
        ("base.yaml", format!("{scenario}unplaced: ignore\n")),
    ] {
        let dir = written(&[("base.yaml", scenario), ("plan.yaml", plan), (file, &text)]);
        let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
        assert!(said.contains("\n50 of 51 jobs can never run with n=1: no node has 8 GPUs"), "{said}");
        assert!(said.contains(" n=1 (1 x l4-x1, 1 GPU) is the cheapest: 1.50 an hour"), "{said}");
    }
}

/// Two jobs of two hours, each of an hour on an H100, must be done after two hours. Two A100s cost 4.00, one H100 3.50.
fn a_machine_and_its_price_are_one_value() {
    let scenario = "\
scenario: Two jobs on one kind of machine
speed: {reference: a100-80g, factors: {h100-80g: 2}}
params: {workers: 1}
nodes: [{name: worker, machine: a100-80g-x1, count: \"${workers}\", price_per_hour: 9}]
jobs: [{name: train, count: 2, gpus: 1, duration: 2h}]
";
    let plan = "\
plan: Which machine?
scenario: base.yaml
factors:
  workers: 1..2
  gpu:
    values:
      a100: {nodes.worker.machine: a100-80g-x1, nodes.worker.price_per_hour: 2}
      h100: {nodes.worker.machine: h100-80g-x1, nodes.worker.price_per_hour: 3.50}
minimize: price_per_hour
constraints: [makespan <= 2h]
";
    let dir = written(&[("base.yaml", scenario), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(
        said.contains("workers=1, gpu=h100 (1 x h100-80g-x1, 1 GPU) is enough: 3.50 an hour, 2,555.00 a month."),
        "{said}"
    );
    assert!(said.contains("is workers=2, gpu=a100: 4.00 an hour"), "{said}");
    for (was, is, place, wanted) in [
        (
            ", nodes.worker.price_per_hour: 3.50",
            "",
            "8:7",
            "`h100` does not set `nodes.worker.price_per_hour`, as `a100` does",
        ),
        ("values:\n", "set: nodes.0.count\n    values:\n", "6:5", "named values state the paths that they set"),
        (
            "workers: 1..2",
            "cost: {set: nodes.worker.price_per_hour, values: [1]}",
            "5:3",
            "`gpu` sets `nodes.worker.price_per_hour`, as `cost` already does",
        ),
        ("machine: h100-80g-x1", "machine: h100-80g-x1x", "8:36", "h100-80g-x1x"),
        (
            "h100: {",
            "h100: {nodes.wroker.count: 1, ",
            "7:7",
            "`a100` does not set `nodes.wroker.count`, as `h100` does",
        ),
    ] {
        let dir = written(&[("base.yaml", scenario), ("plan.yaml", &plan.replacen(was, is, 1))]);
        let said = stderr(dir.path(), &["plan", "plan.yaml"], 2);
        assert!(said.contains(wanted) && said.contains(&format!(" --> plan.yaml:{place}\n")), "{is}: {said}");
    }
}

fn a_wrong_price_is_told_where() {
    for (was, is, wanted) in [
        (
            "price: 17520, over: 1y}",
            "price: 17520, over: 1y}, price_per_hour: 2",
            "error: `price_per_hour` and `purchase` are two prices of one node\n",
        ),
        ("price: 17520, over: 1y", "price: 17520, over: 0y", "error: `0y` is not a length of time\n"),
        (
            "price: 17520, over: 1y",
            "price: 17520, resale: 20000, over: 1y",
            "error: the resale value 20000.00 is more than the price 17520.00\n",
        ),
        ("term: 1y, price_per_hour: 1.50", "term: 1y", "error: the price of this commitment is missing\n"),
        ("currency: EUR", "currency: 7", "error: `7` is not the name of a currency\n"),
        (
            "currency: EUR",
            "electricity: {pue: 1.2}",
            "error: neither the price nor the emissions of electricity are stated\n",
        ),
        ("currency: EUR", "electricity: {carbon: 380, pue: 0.9}", "error: `0.9` is not a power usage effectiveness\n"),
        ("currency: EUR", "electricity: {carbon: {file: no.csv}}", "error: cannot read `no.csv`: no such file\n"),
    ] {
        assert!(PAID.contains(was), "{was}");
        let dir = written(&[("base.yaml", &PAID.replacen(was, is, 1))]);
        let said = stderr(dir.path(), &["run", "base.yaml"], 2);
        assert!(said.contains(wanted), "{wanted:?} in\n{said}");
    }
    let cloud = "\
scenario: A commitment to an instance that is created on demand
profile: first-fit
fleets:
  cloud: {nodes: 0..1, offers: [{name: a, machine: a100-80g-x8, commitment: {term: 1y, price_per_hour: 9}}]}
jobs: [{name: train, gpus: 1, duration: 1h}]
";
    let dir = written(&[("base.yaml", cloud)]);
    let said = stderr(dir.path(), &["run", "base.yaml"], 2);
    assert!(said.contains("error: an instance that is created on demand is paid for by the hour\n"), "{said}");
}

/// A factor of a plan may try 0 of the machine that states its power, and a fleet may create 0 instances of it.
fn electricity_without_a_power_is_warned_of() {
    let scenario = "\
scenario: Two machines, one of which states its power
electricity: {price_per_kwh: 0.24}
nodes: [{name: a, machine: l4-x1}, {name: b, machine: l4-x1, count: 0, power: {idle: 0.1kW, busy: 0.4kW}}]
jobs: [{name: train, gpus: 1, duration: 1h}]
";
    for (power, is_warned) in
        [(scenario.to_string(), false), (scenario.replace(", power: {idle: 0.1kW, busy: 0.4kW}", ""), true)]
    {
        let dir = written(&[("base.yaml", &power)]);
        let said = stderr(dir.path(), &["run", "base.yaml"], 0);
        assert_eq!(said.contains("`electricity` has no effect, because no node states its power"), is_warned, "{said}");
    }
    let cloud = "\
scenario: A cloud that may create no instance
profile: dstack
electricity: {price_per_kwh: 0.24}
nodes: [{name: a, machine: l4-x1}]
fleets:
  cloud: {nodes: {min: 0, max: 0}, offers: [{name: b, machine: l4-x1, power: {idle: 0.1kW, busy: 0.4kW}}]}
jobs: [{name: train, gpus: 1, duration: 1h}]
";
    let dir = written(&[("base.yaml", cloud)]);
    let said = stderr(dir.path(), &["run", "base.yaml"], 0);
    assert!(!said.contains("`electricity` has no effect"), "{said}");
}

fn all_bought_nodes_whose_electricity_is_not_paid_are_counted() {
    let bought = "machine: l4-x1, purchase: {price: 8000, over: 4y}";
    let scenario = |nodes: &str, electricity: &str| {
        format!("scenario: Bought\n{electricity}nodes: [{nodes}]\njobs: [{{name: train, gpus: 1, duration: 1h}}]\n")
    };
    let one = format!("{{name: a, {bought}}}");
    let two = format!("{{name: a, count: 2, {bought}}}, {{name: b, {bought}, power: {{idle: 0.1kW, busy: 0.4kW}}}}");
    let price = "electricity: {price_per_kwh: 0.24}\n";
    let rows = [
        (&one, "", "The cost of `a`, which was bought, is without electricity, because the price of electricity"),
        (&two, "", "The cost of 3 nodes that were bought, such as `a-0`, is without electricity, because the price of"),
        (
            &two,
            price,
            "The cost of 2 nodes that were bought, such as `a-0`, is without electricity, because their `power` is not",
        ),
    ];
    for (nodes, electricity, sentence) in rows {
        let dir = written(&[("base.yaml", &scenario(nodes, electricity))]);
        let said = stdout(dir.path(), &["run", "base.yaml"], 0);
        assert!(said.contains(sentence), "{said}");
    }
}

/// Both figures count the nodes that state a price or a power. The other one would count as if it cost nothing.
fn a_node_that_cost_and_energy_leave_out_is_named() {
    let scenario = "\
scenario: Two machines, one of which states its price and its power
nodes: [{name: a, machine: l4-x1}, {name: b, machine: l4-x1, price_per_hour: 1, power: {idle: 0.1kW, busy: 0.4kW}}]
jobs: [{name: train, gpus: 1, duration: 1h}]
";
    let dir = written(&[("base.yaml", scenario)]);
    let said = stdout(dir.path(), &["run", "base.yaml"], 0);
    for left_out in ["cost leaves out the nodes with no price", "energy leaves out the nodes with no stated power"] {
        assert!(said.contains(&format!("The {left_out}, such as `a`\n")), "{left_out}: {said}");
    }
    let plan = "plan: Which profile?\nscenario: base.yaml\nfactors: {profile: [fifo, easy]}\nminimize: gpus\n";
    std::fs::write(dir.path().join("plan.yaml"), plan).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(said.contains("\nThe energy leaves out the nodes with no stated power, such as `a`.\n"), "{said}");
    assert!(!said.contains("The cost"), "it is not shown: {said}");
    let both = scenario.replace("l4-x1}", "l4-x1, price_per_hour: 1, power: {idle: 0.1kW, busy: 0.4kW}}");
    let dir = written(&[("base.yaml", &both)]);
    assert!(!stdout(dir.path(), &["run", "base.yaml"], 0).contains("leaves out"));
}

/// A job of an hour every half hour keeps two GPUs busy. At 20 % more each month, 2, 2.4, 2.88, 3.456 and 4.147 GPUs are
/// needed in the months 0 to 4. So two GPUs are no longer enough in month 1, three in month 3, and four in month 4. Of a
/// day, at least an hour is then left over in each case: 2.4, 3.6 and 0.9 hours of work for each GPU.
const GROWING: &str = "\
scenario: A job every half hour
params: {workers: 2}
until: 1d
nodes: [{name: w, cpus: 1, ram: 8GiB, gpus: 1, gpu: l4, count: \"${workers}\"}]
jobs: [{name: train, gpus: 1, duration: 1h, arrivals: {every: 30m}}]
";
const HORIZON: &str = "\
plan: When is it no longer enough?
scenario: base.yaml
factors: {workers: [4, 2, 3]}
minimize: gpus
constraints: [max(queue_wait) <= 30m]
horizon: {months: 6, growth: 20%/month, from: 2026-11}
";

fn a_fleet_is_enough_until_its_load_exceeds_it() {
    let dir = written(&[("base.yaml", GROWING), ("plan.yaml", HORIZON)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    let plan: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("out/plan.json")).expect("it was written"))
            .expect("JSON");
    let found: Vec<(&str, u64)> = (plan["horizon"]["alternatives"].as_array().expect("a list").iter())
        .map(|row| (row["alternative"].as_str().expect("a name"), row["breaks_in_month"].as_u64().expect("it breaks")))
        .collect();
    assert_eq!(found, [("workers=4", 4), ("workers=2", 1), ("workers=3", 3)], "{said}");
    for wanted in [
        "workers=2 (2 GPUs) is enough until month 0 (2026-11). In month 1 (2026-12), with 20% more load, max(queue_wait) <= 30m fails: ",
        "From month 1 (2026-12), the cheapest that is enough is workers=3 (3 GPUs) until month 2 (2027-01). ",
        "From month 3 (2027-02), the cheapest that is enough is workers=4 (4 GPUs) until month 3 (2027-02). ",
        "In month 4 (2027-03), no alternative of this plan is known to be enough.",
        "the load grows by 20%/month, compounded; it is 298.6% of today's in month 6 (2027-05)",
    ] {
        assert!(said.contains(wanted), "{wanted:?} in\n{said}");
    }
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(page.contains("<h2>When it stops being enough</h2>"), "a section of the page");
}

fn a_horizon_needs_jobs_that_grow() {
    for (scenario, plan, wanted) in [
        (
            GROWING.replace("arrivals: {every: 30m}", "at: 0s"),
            HORIZON.to_string(),
            "error: the load changes no job of this scenario",
        ),
        (
            GROWING.replace("until: 1d", "until: 1d\ngrowth: 1%/month"),
            HORIZON.to_string(),
            "error: the scenario has a `growth` of its own",
        ),
        (
            GROWING.to_string(),
            HORIZON.replace("minimize", "method: search\nminimize"),
            "error: a search runs only some",
        ),
        (
            GROWING.to_string(),
            HORIZON.replace("constraints: [max(queue_wait) <= 30m]\n", ""),
            "error: a horizon needs `constraints`",
        ),
        (GROWING.to_string(), HORIZON.replace("months: 6", "months: 0"), "error: a horizon of 0 months"),
        (GROWING.to_string(), HORIZON.replace("2026-11", "2026-13"), "error: `2026-13` is not a month"),
    ] {
        let dir = written(&[("base.yaml", &scenario), ("plan.yaml", &plan)]);
        let said = stderr(dir.path(), &["plan", "plan.yaml"], 2);
        assert!(said.contains(wanted), "{wanted:?} in\n{said}");
    }
}
