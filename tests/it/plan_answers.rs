//! What a plan and a run say first: the cost over a horizon, what a warm-up leaves out, and how sure an answer is.

use serde_json::Value;

use crate::cli::{stdout, written};

trials! {
    Nothing: [
        a_horizon_counts_the_cost_of_each_month,
        an_alternative_whose_runs_are_too_short_may_be_enough,
        a_warm_up_says_what_it_leaves_out,
        an_assumption_is_not_chosen,
        a_parameter_is_an_assumption_if_all_its_uses_are_also_in_included_files,
        each_named_value_of_a_choice_has_its_cheapest_fleet,
        a_search_prices_each_named_value_of_a_choice,
        what_a_few_seeds_show_is_said_with_its_confidence,
        one_more_instance_and_shorter_limits_are_tried,
        one_more_node_is_tried_in_the_partition_that_is_full,
        the_horizon_of_a_service_grows_by_requests,
        a_budget_that_large_fleets_break_leaves_smaller_ones_to_the_search,
    ]
}

/// A machine for a year costs 6 an hour, and one on demand 20. The load doubles each month, so in month 0 a machine of one's
/// own is idle for most of the time, and in month 3 it is not.
const OWN_OR_CLOUD: &str = "\
scenario: Own machines or a cloud
until: 2d
currency: EUR
params: {own: 0}
fleets:
  own: {hosts: [{name: h, machine: a100-80g-x8, count: \"${own}\", commitment: {term: 1y, price_per_hour: 6}}]}
  cloud:
    nodes: 0..20
    idle_duration: 10m
    offers: [{name: od, machine: a100-80g-x8, price_per_hour: 20, provisioning: 5m}]
jobs: [{name: train, arrivals: {every: 2h}, duration: 1h, resources: {gpu: 8}}]
";

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// What each month costs is what `run` says of its load.
fn a_horizon_counts_the_cost_of_each_month() {
    let plan = "plan: Own or cloud?\nscenario: base.yaml\nfactors: {own: [0, 4]}\nset: {load: 50%}\n\
                minimize: cost_per_month\nconstraints: [p95(queue_wait) <= 30m]\nhorizon: {months: 5, growth: 100%/month}\n";
    let dir = written(&[("base.yaml", OWN_OR_CLOUD), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    let found = json(&stdout(dir.path(), &["plan", "plan.yaml", "--format", "json"], 0));
    let mut means = Vec::new();
    for (own, row) in ["0", "4"].iter().zip(found["horizon"]["alternatives"].as_array().expect("a list")) {
        let mut sum = 0.0;
        for month in 0..6 {
            let set = [format!("params.own={own}"), format!("load={}%", 50 << month)];
            let run =
                stdout(dir.path(), &["run", "base.yaml", "--format", "json", "--set", &set[0], "--set", &set[1]], 0);
            let cost = json(&run)["metrics"]["cost_per_month"].as_f64().expect("a cost");
            assert_eq!(row["cost_of_months"][month as usize].as_f64(), Some(cost), "own={own} in month {month}");
            sum += cost;
        }
        means.push(sum / 6.0);
    }
    let first = |own: usize| found["horizon"]["alternatives"][own]["cost_of_months"][0].as_f64().expect("a cost");
    assert!(first(0) < first(1) && means[0] > means[1], "the scenario has another cheapest at first: {means:?}");
    let answer = found["answer"].as_str().expect("text");
    let wanted = "Over the horizon, month 0 to month 5, own=4 is the cheapest that stays enough: ";
    assert!(
        answer.starts_with(wanted)
            && answer.contains(
                "At the load of month 0, own=0 (no node of its own, up to 1 x a100-80g-x8 rented at a time) is enough: "
            ),
        "{answer}"
    );
    for wanted in [
        "Kept from month 0 to month 5, the cheapest that is enough throughout is own=4",
        "the cheapest that is enough is own=4",
    ] {
        assert!(said.contains(wanted), "{wanted:?} in\n{said}");
    }
}

/// On paper, five workers are enough: two jobs an hour of an hour each are 4.05 of five after 18 months, and the 95th percentile of the
/// wait (M/M/5) is 2.6 h. But in runs of two days, some seeds have jobs that still wait at the end.
fn an_alternative_whose_runs_are_too_short_may_be_enough() {
    let base = "scenario: Poisson\nparams: {workers: 2}\nuntil: 2d\n\
                nodes: [{name: w, machine: l4-x1, count: \"${workers}\", price_per_hour: 1.0}]\n\
                jobs: [{name: train, gpus: 1, duration: {exponential: 1h}, arrivals: {poisson: 2/h}}]\n";
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {workers: [5, 6]}\nseeds: 1..5\nminimize: cost_per_month\n\
                constraints: [p95(queue_wait) <= 4h]\nhorizon: {months: 18, growth: 60%/year}\n";
    let dir = written(&[("base.yaml", base), ("plan.yaml", plan)]);
    let found = json(&stdout(dir.path(), &["plan", "plan.yaml", "--format", "json"], 0));
    let answer = found["answer"].as_str().expect("text");
    assert!(answer.contains("workers=6 is the cheapest that stays enough"), "{answer}");
    assert!(answer.contains("workers=5 may be enough too: its runs are too short to tell."), "{answer}");
    let decided =
        found["horizon"]["alternatives"].as_array().expect("a list").iter().map(|one| one["is_decided"].clone());
    assert_eq!(decided.collect::<Vec<_>>(), [Value::Bool(false), Value::Bool(true)]);
}

/// A request each second for half an hour, of which the first 20 minutes do not count.
const WARM_UP: &str = "\
scenario: A cold start before the warm-up ends
warm_up: 20m
until: 30m
nodes: [{name: h, machine: h200-141g-x8, price_per_hour: 28}]
jobs:
  - name: chat
    gpu: h200-141g
    gpus: 8
    prepare: 15m
    serving: {prefill: 11000 tokens/s, step: {base: 10ms, per_sequence: 304us}, kv_cache_tokens: 400000, batching: chunked, max_sequences: 256, max_batched_tokens: 8192, requests: {arrivals: {every: 1s}, count: 1900, input_tokens: 500, output_tokens: 10}}
";

fn a_warm_up_says_what_it_leaves_out() {
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {n: {set: nodes.h.count, values: [1, 2]}}\nminimize: gpus\n\
                constraints: [p99(ttft) <= 2s]\n";
    let dir = written(&[("base.yaml", WARM_UP), ("plan.yaml", plan)]);
    let left_out = "The figures leave out the first 20m (`warm_up`), and what is submitted or arrives then: 1 of 1 job \
                    and 1,200 of 1,800 requests";
    let said = stdout(dir.path(), &["run", "base.yaml", "--report", "report"], 0);
    for wanted in [
        "jobs       0 of 1, after the warm-up of 20m\n",
        "requests   600 of 1,800, after the warm-up of 20m, arrived",
        left_out,
    ] {
        assert!(said.contains(wanted), "{wanted:?} in\n{said}");
    }
    let page = std::fs::read_to_string(dir.path().join("report/report.html")).expect("it was written");
    let escaped = left_out.replace('`', "");
    let bare = page.replace("<code>", "").replace("</code>", "").replace('`', "");
    assert!(bare.contains(&escaped), "the assumptions of the page name it");
    assert!(
        !page.contains("0 of 0 jobs") && page.contains("No job counts, because the 1 job was submitted in the warm-up")
    );
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(
        page.replace("<code>", "").replace("</code>", "").replace('`', "").contains(&escaped),
        "so does that of a plan"
    );
}

/// A job of two hours arrives each hour and needs a whole node. So two nodes of A100 are needed, and of H100 one or two: one if
/// they are twice as fast.
const TWO_KINDS: &str = "\
scenario: A100 or H100
until: 1d
currency: EUR
nodes: [{name: w, machine: a100-80g-x8, count: 1, price_per_hour: 10}]
speed: {reference: a100-80g, factors: {h100-80g: 2}}
jobs: [{name: train, gpus: 8, duration: 2h, arrivals: {every: 1h}}]
";

fn an_assumption_is_not_chosen() {
    let plan = "plan: How many?\nscenario: base.yaml\nset: {nodes.w.machine: h100-80g-x8}\n\
                factors: {n: {set: nodes.w.count, values: 1..3}, sp: {set: speed.factors.h100-80g, values: [1, 2]}}\n\
                minimize: price_per_hour\nconstraints: [max(queue_wait) <= 10m]\n";
    let searched = format!("{plan}method: search\n");
    let of_params = plan.replace("speed.factors.h100-80g", "params.fast");
    let scenario =
        TWO_KINDS.replace("h100-80g: 2}", "h100-80g: \"${fast}\"}").replace("until", "params: {fast: 2}\nuntil");
    for (scenario, plan) in [(TWO_KINDS, plan), (TWO_KINDS, &searched), (&scenario, &of_params)] {
        let dir = written(&[("base.yaml", scenario), ("plan.yaml", plan)]);
        let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
        for wanted in [
            "\nn=2, sp=1 (2 x h100-80g-x8, 16 GPUs) is enough: 20.00 EUR an hour",
            "`sp` is an assumption and not a choice, so this is the answer for the worst value, sp=1. With sp=2, n=1 is enough: \
             10.00 EUR an hour",
        ] {
            assert!(said.contains(wanted), "{wanted:?} in\n{said}");
        }
        assert!(!said.contains("larger values were not tried"), "{said}");
        // One node is enough only for the favourable value, so no answer hides the other one.
        let few = plan.replace("values: 1..3", "values: [1]");
        std::fs::write(dir.path().join("plan.yaml"), few).expect("a folder of our own");
        let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
        for wanted in
            ["\nWith sp=1: The one alternative that was run does not meet", "With sp=2, n=1 is enough: 10.00 EUR"]
        {
            assert!(said.contains(wanted), "{wanted:?} in\n{said}");
        }
    }
}

/// Nobody chooses a price that is quoted. The included file uses the price, and how many nodes there are, which the scenario
/// alone would use only as a number of jobs.
fn a_parameter_is_an_assumption_if_all_its_uses_are_also_in_included_files() {
    let base = "scenario: At ${price} an hour\ninclude: lab.yaml\nparams: {price: 10, n: 1}\nuntil: 1d\n\
                jobs: [{name: train, count: \"${n}\", gpus: 8, duration: 30m}]\n";
    let lab = "nodes: [{name: w, machine: a100-80g-x8, count: \"${n}\", price_per_hour: \"${price}\"}]\n";
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {n: [1, 2], price: [10, 12]}\nminimize: price_per_hour\n\
                constraints: [max(queue_wait) <= 10m]\n";
    let dir = written(&[("base.yaml", base), ("lab.yaml", lab), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    let wanted = "`price` is an assumption and not a choice, so this is the answer for the worst value, price=12. With price=10, \
                  it is the same fleet";
    assert!(said.contains(wanted), "{said}");
}

fn each_named_value_of_a_choice_has_its_cheapest_fleet() {
    let plan = "plan: A100 or H100?\nscenario: base.yaml\nfactors:\n  gpu:\n    values:\n      \
                a100: {nodes.w.machine: a100-80g-x8, nodes.w.price_per_hour: 10}\n      \
                h100: {nodes.w.machine: h100-80g-x8, nodes.w.price_per_hour: 15}\n  \
                n: {set: nodes.w.count, values: 1..2}\n\
                minimize: price_per_hour\nconstraints: [max(queue_wait) <= 10m]\n";
    let dir = written(&[("base.yaml", TWO_KINDS), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    let lines = [
        "With gpu=a100, the cheapest that is enough is n=2: 20.00 EUR an hour, 14,600.00 EUR a month, 33.3% more than the answer.",
        "With gpu=h100, the cheapest that is enough is n=1: 15.00 EUR an hour, 10,950.00 EUR a month.",
    ];
    for wanted in lines {
        assert!(said.contains(&format!("\n{wanted}\n")), "{wanted:?} in\n{said}");
    }
    assert_eq!(
        choices_of(&page),
        [
            ["gpu=a100", "n=2", "20.00 EUR an hour, 14,600.00 EUR a month", "33.3% more"],
            ["gpu=h100", "n=1", "15.00 EUR an hour, 10,950.00 EUR a month", "the answer"],
        ]
    );
    assert!(said.contains("\ngpu=h100, n=1 (1 x h100-80g-x8, 8 GPUs) is enough: 15.00 EUR an hour"), "{said}");
    let first = page.split("<h2>").next().expect("a first screen");
    for wanted in [
        "<b>1\u{a0}x\u{a0}h100-80g-x8, 8 GPUs</b><span>the machines of the answer</span>",
        "<b>20.00 EUR an hour</b><span>with gpu=a100, n=2, the next cheapest that meets the constraints, 33.3% more</span>",
    ] {
        assert!(first.contains(wanted), "{wanted:?} in\n{first}");
    }
    let few = plan.replace("values: 1..2", "values: [1]");
    std::fs::write(dir.path().join("plan.yaml"), few).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    for wanted in ["\ngpu=a100 is not enough.\n", "No dearer alternative meets the constraint."] {
        assert!(said.contains(wanted), "{wanted:?} in\n{said}");
    }
}

/// The rows of the table of choices on the page of a plan.
fn choices_of(page: &str) -> Vec<Vec<String>> {
    let table = page.split("<caption>The cheapest with each choice</caption>").nth(1).expect("a table");
    let body = table.split("</table>").next().and_then(|table| table.split("<tbody>").nth(1)).expect("a body");
    let cell = |cell: &str| cell.rsplit_once('>').expect("a cell").1.to_string();
    let row = |row: &str| row.split("</td>").filter(|part| part.contains("<td")).map(cell).collect();
    let cells = |row: &str| row.replace("\u{a0}", " ");
    body.split("</tr>").filter(|part| part.contains("<td")).map(|part| row(&cells(part))).collect()
}

/// One H100 does what takes two A100, as above, and an L4 has too few GPUs for any job. The search finds its answer among the
/// H100 for 15, and then also runs the A100 that cost more, and so many L4 that the others are presumed.
fn a_search_prices_each_named_value_of_a_choice() {
    let plan = "plan: A100 or H100?\nscenario: base.yaml\nfactors:\n  gpu:\n    values:\n      \
                l4: {nodes.w.machine: l4-x1, nodes.w.price_per_hour: 16}\n      \
                a100: {nodes.w.machine: a100-80g-x8, nodes.w.price_per_hour: 10}\n      \
                h100: {nodes.w.machine: h100-80g-x8, nodes.w.price_per_hour: 15}\n  \
                n: {set: nodes.w.count, values: 1..32}\n\
                minimize: price_per_hour\nconstraints: [max(queue_wait) <= 10m]\n";
    let searched = format!("{plan}method: search\n");
    let short = format!("{searched}budget: {{runs: 2}}\n");
    let base = TWO_KINDS.replace("{h100-80g: 2}", "{h100-80g: 2}, others: 1");
    let dir = written(&[("base.yaml", &base), ("s.yaml", &searched), ("short.yaml", &short), ("plan.yaml", plan)]);
    let of = |file: &str| {
        let said = stdout(dir.path(), &["plan", file, "--out", &format!("of-{file}")], 0);
        let page = std::fs::read_to_string(dir.path().join(format!("of-{file}/report.html"))).expect("it was written");
        (said, choices_of(&page))
    };
    let ((said, searched), (_, swept), (budget, _)) = (of("s.yaml"), of("plan.yaml"), of("short.yaml"));
    assert_eq!(searched[1], ["gpu=a100", "n=2", "20.00 EUR an hour, 14,600.00 EUR a month", "33.3% more"]);
    assert_eq!(searched[1..], swept[1..], "a sweep finds the same");
    assert_eq!(swept[0][..2], ["gpu=l4", "no alternative of this plan is enough"]);
    let none = searched[0][1].strip_prefix("no alternative of this plan is enough: ").expect("none is enough");
    let counts: Vec<usize> = none.split(' ').filter_map(|word| word.parse().ok()).collect();
    // Halving 32 takes at most six runs, and three are tests.
    assert!(counts.iter().sum::<usize>() == 32 && counts[0] <= 9, "{none}");
    assert!(said.contains(&format!("\nWith gpu=l4, no alternative of this plan is enough: {none}.\n")), "{said}");
    assert!(budget.contains("\nWith gpu=l4, none that was run is enough, and the result for "), "{budget}");
    let again = stdout(dir.path(), &["plan", "s.yaml", "--out", "of-s.yaml", "--resume"], 0);
    assert_eq!(again, said, "nothing is run again");
}

/// Jobs at random times on one node, whose load doubles each month.
const RANDOM: &str = "\
scenario: Jobs at random times
until: 1d
nodes: [{name: w, machine: a100-80g-x8, count: 1, price_per_hour: 10}]
jobs: [{name: train, gpus: 8, duration: {exponential: 1h}, arrivals: {poisson: 1/h}}]
";

fn what_a_few_seeds_show_is_said_with_its_confidence() {
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {n: {set: nodes.w.count, values: 1..4}}\nseeds: 1..40\n\
                minimize: price_per_hour\nconstraints: [{metric: p95(queue_wait) <= 1h, in: \">= 75%\"}]\n";
    let growing = format!("{}horizon: {{months: 3, growth: 100%/month}}\n", plan.replace("1..40", "1..8"));
    let dir = written(&[("base.yaml", RANDOM), ("plan.yaml", plan), ("growing.yaml", &growing)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(
        said.contains("the 2.5th to the 97.5th percentile of the seeds") && !said.contains("the range of the seeds")
    );
    assert!(said.contains("; required: at least 75% of the seeds."), "{said}");
    let found = json(&std::fs::read_to_string(dir.path().join("out/plan.json")).expect("it was written"));
    let rows = found["alternatives"].as_array().expect("a list");
    let best = rows.iter().find(|row| row["keeps"] == true).expect("one is enough");
    let held = best["held"][0].as_u64().expect("a count");
    let with = if held == 40 { "40 seeds".to_string() } else { format!("{held} of 40 seeds") };
    assert!(said.contains(&format!("It meets the constraint with {with}, and therefore")), "{said}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(
        page.contains("p95(queue_wait) &lt;= 1h, with at least 75% of the seeds"),
        "the page states what is required"
    );
    assert!(!page.contains("must hold with every seed"), "it does not");
    let said = stdout(dir.path(), &["plan", "growing.yaml", "--out", "growing"], 0);
    assert!(said.contains("all constraints held with ") && said.contains("% (95% confidence each)."), "{said}");
    the_end_is_said_with_its_confidence(dir.path(), &said);
}

/// Of `runs` seeds, `kept` or fewer meet all constraints with a probability of 5 % if the share of all seeds is at the limit of
/// Clopper and Pearson.
fn the_end_is_said_with_its_confidence(dir: &std::path::Path, said: &str) {
    let found = json(&std::fs::read_to_string(dir.join("growing/plan.json")).expect("it was written"));
    let best = said.lines().nth(1).and_then(|line| line.split(' ').next()).expect("an answer");
    let horizon = found["horizon"]["alternatives"].as_array().expect("a list");
    let then = &horizon.iter().find(|row| row["alternative"] == best).expect("it grows too")["first_month_failing"];
    let number = |name: &str| then[name].as_u64().expect("a count");
    let (kept, runs, share) = (number("meet_all"), number("seeds"), then["share_at_most"].as_f64().expect("a share"));
    let mut chance = 0.0;
    let mut ways = 1.0;
    for at in 0..=kept {
        chance += ways * libm::pow(share, at as f64) * libm::pow(1.0 - share, (runs - at) as f64);
        ways *= (runs - at) as f64 / (at + 1) as f64;
    }
    assert!(kept < runs && (chance - 0.05).abs() < 1e-6, "{kept} of {runs}: {share}");
    // The load doubles each month.
    let load = format!(", with {}.0 times the load", 1 << number("month"));
    let wanted = format!(
        "it is no longer enough in month {}{load}: all constraints hold with {kept} of {runs} seeds then, so with at most {}% of \
         all seeds (95% confidence).",
        number("month"),
        (share * 100.0).ceil()
    );
    let page = std::fs::read_to_string(dir.join("growing/report.html")).expect("it was written");
    assert!(found["short_answer"].as_str().expect("a text").contains(&wanted), "{wanted:?} in {found:#}");
    assert!(said.contains(&wanted) && page.contains(&wanted), "{wanted:?} in\n{said}");
    let figure =
        format!("when the load has grown too much for it{load}: all constraints hold with {kept} of {runs} seeds then");
    assert!(page.contains(&figure), "a figure of the first screen");
}

fn one_more_instance_and_shorter_limits_are_tried() {
    let scenario = "\
scenario: One job waits for the instance of another
fleets:
  cloud: {nodes: 0..1, offers: [{name: od, machine: a100-80g-x8, price_per_hour: 20, provisioning: 5m}]}
jobs: [{name: a, count: 2, duration: 1h, time_limit: 3h, resources: {gpu: 8}}]
";
    let dir = written(&[("base.yaml", scenario)]);
    let said = stdout(dir.path(), &["what-helps", "base.yaml", "--seeds", "1..20"], 0);
    for wanted in [
        "with each of 20 seeds, because nothing is random. Most would be saved by one more instance allowed in the fleet cloud: ",
        "--set fleets.cloud.nodes=0..2",
        "--set jobs.a.time_limit=1h30m",
    ] {
        assert!(said.contains(wanted), "{wanted:?} in\n{said}");
    }
    assert!(!said.contains("on average"), "{said}");
}

/// Ten jobs of an hour take the only node of their partition: they wait 0 to 9 hours, 45 together. On two nodes they wait
/// 0, 0, 1, 1 to 4, 4, 20 together. The first entry has the same machine, but no job can use its partition.
fn one_more_node_is_tried_in_the_partition_that_is_full() {
    let scenario = "\
scenario: An idle and a busy partition
profile: slurm-22.05
slurm:
  partitions:
    - {name: idle, nodes: [a-0, a-1], default: true}
    - {name: busy, nodes: [b-0]}
nodes:
  - {name: a, count: 2, gpu: a100-80g, gpus: 4, cpus: 32}
  - {name: b, count: 1, gpu: a100-80g, gpus: 4, cpus: 32}
jobs: [{name: j, count: 10, partition: busy, cpus: 1, gpus: 4, estimate: 1h, duration: 1h}]
";
    let dir = written(&[("base.yaml", scenario)]);
    let said = stdout(dir.path(), &["what-helps", "base.yaml"], 0);
    let best =
        "wait 45.0 h with 1 seed. Most would be saved by one more node like b-0 (4 a100-80g, partition busy): 25.0 h";
    assert!(said.contains(best), "{said}");
    assert!(said.contains("--set nodes.b.count=2 --set slurm.partitions.busy.nodes.+=b-1"), "{said}");
    let row = |what: &str| said.lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what}: {said}"));
    assert!(row("one more node like a-0 (4 a100-80g, partition idle)").contains(" 0.0 "), "{said}");
    // Jobs of four GPUs have no use for a fifth.
    assert!(row("one more GPU in each b").contains("--set nodes.b.gpus=5"), "{said}");
}

fn the_horizon_of_a_service_grows_by_requests() {
    let plan = "plan: How long?\nscenario: base.yaml\nfactors: {n: {set: nodes.h.count, values: [1, 2]}}\nminimize: gpus\n\
                constraints: [p99(ttft) <= 2s]\nhorizon: {months: 1, growth: 10%/month}\n";
    let dir = written(&[("base.yaml", WARM_UP), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(
        said.contains("Only the number of requests grows") && said.contains("a TTFT under load up to 40% too low"),
        "{said}"
    );
}

/// Eight jobs of an hour for one GPU each arrive together. On four nodes, the last four wait for an hour. A node costs 1 an hour,
/// and the run lasts four hours because of a last job, so a budget of 24 is enough for six nodes. The search begins in the middle, with 15 nodes.
fn a_budget_that_large_fleets_break_leaves_smaller_ones_to_the_search() {
    let scenario = "\
scenario: Eight jobs at once
profile: fifo
nodes: [{name: n, count: 4, machine: l4-x1, price_per_hour: 1}]
jobs:
  - {name: job, count: 8, gpus: 1, duration: 1h}
  - {name: last, at: 3h, gpus: 1, duration: 1h}
expect: [jobs_submitted >= 9]
";
    let plan = |budget: &str| {
        format!(
            "plan: How many?\nscenario: base.yaml\nfactors: {{n: {{set: nodes.n.count, values: 1..30}}}}\nminimize: gpus\n\
             constraints: [max(queue_wait) <= 1h, {budget}]\nmethod: search\n"
        )
    };
    // Four hours of GPUs on each of n nodes, of which the jobs take nine: 37.5 % on six nodes.
    let budgets = ["cost <= 24", "gpu_allocated >= 37%"];
    let dir = written(&[("base.yaml", scenario), ("a.yaml", &plan(budgets[0])), ("b.yaml", &plan(budgets[1]))]);
    for name in ["a.yaml", "b.yaml"] {
        let said = stdout(dir.path(), &["plan", name], 0);
        assert!(said.contains("\nn=4 (4 x l4-x1) is enough: 4 GPUs. It meets both constraints with 1 seed."), "{said}");
    }
    // Four nodes cost 16.
    let dir = written(&[("base.yaml", scenario), ("c.yaml", &plan("cost <= 15"))]);
    let said = stdout(dir.path(), &["plan", "c.yaml"], 1);
    let because = "presumed to fail, because an alternative that has more `n` and is otherwise the same fails, or an alternative \
                   that has less `n` and is otherwise the same breaks a constraint which more machines break, such as a budget.";
    assert!(said.contains("None of the ") && said.contains(because), "{said}");
}
