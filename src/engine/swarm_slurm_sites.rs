//! What only some random worlds of Slurm have: accounts with fair share, further settings of priorities, preemption by QOS,
//! other rules of requeuing, and limits on nodes.
//!
//! Each part has a random stream of its own, so that worlds without it stay as they are.

use std::sync::Arc;

use serde_json::{Value, json};

use dryrack_rng::Stream;
use dryrack_units::Permille;
use dryrack_workload::{Arrival, JobBehavior, JobSpec, SlurmTerms};

/// The users of each account.
const ACCOUNTS: [(&str, &[&str]); 3] = [("physics", &["ann"]), ("lab", &["bob", "ann"]), ("biology", &["eve", "bob"])];

/// Whether the world of this seed may have these parts. No world that failed before there were any is among them, so each of
/// these stays as it was.
pub(super) fn has_site(seed: u64) -> bool {
    matches!(seed % 10, 0 | 4 | 5 | 8)
}

/// Which parts the cluster of one seed has.
pub(super) struct Site {
    seed: u64,
    has_accounts: bool,
    is_requeue_by_cluster: bool,
}

impl Site {
    /// Draws the parts, and adds them to the configuration.
    pub fn add_to(seed: u64, options: &mut Value) -> Site {
        let stream = |name: &'static str| Stream::new(seed, name, 0);
        let has_accounts = add_accounts(&mut stream("swarm slurm accounts"), options);
        set_priorities(&mut stream("swarm slurm priorities"), options);
        preempt_by_qos(&mut stream("swarm slurm preemption by qos"), options);
        let is_requeue_by_cluster = set_requeuing(&mut stream("swarm slurm requeuing"), options);
        limit_nodes(&mut stream("swarm slurm node limits"), options);
        Site { seed, has_accounts, is_requeue_by_cluster }
    }

    /// Gives a job what the parts need: an account of its user, and the cluster's rule of requeuing.
    pub fn add_terms(&self, number: usize, arrival: &mut Arrival) {
        let mut draws = Stream::new(self.seed, "swarm slurm terms of sites", number as u64);
        let mut spec = JobSpec::clone(&arrival.spec);
        let Some(terms) = spec.slurm.as_deref() else { return };
        let mut terms = SlurmTerms::clone(terms);
        if self.has_accounts {
            let user = spec.user.get_or_insert_with(|| Arc::from(*draws.pick(&["ann", "bob", "eve"])));
            let has_user = |(_, users): &&(&str, &[&str])| users.iter().any(|known| *known == &**user);
            let accounts: Vec<&str> = ACCOUNTS.iter().filter(has_user).map(|(name, _)| *name).collect();
            terms.account = Some(Arc::from(*draws.pick(&accounts)));
        }
        if self.is_requeue_by_cluster && draws.chance(700) {
            terms.requeue = false;
        }
        if self.has_accounts && spec.estimate.is_none() {
            arrival.behavior = Arc::new(with_an_end(&arrival.behavior));
        }
        spec.slurm = Some(Arc::new(terms));
        arrival.spec = Arc::new(spec);
    }
}

/// The behavior of a job that is seen to end. A job without a time limit would otherwise use its share for a year.
fn with_an_end(behavior: &JobBehavior) -> JobBehavior {
    let mut behavior = behavior.clone();
    if let Some(faults) = &mut behavior.random_faults {
        faults.acks.lost = Permille::ZERO;
    }
    behavior
}

fn seconds(draws: &mut Stream, of: &[u64]) -> Value {
    json!(format!("{}s", draws.pick(of)))
}

fn each<'v>(options: &'v mut Value, list: &str) -> impl Iterator<Item = &'v mut Value> {
    options.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn add_accounts(draws: &mut Stream, options: &mut Value) -> bool {
    if !draws.chance(400) {
        return false;
    }
    let accounts = ACCOUNTS.map(|(name, users)| {
        let users = users.iter().map(|user| (user.to_string(), json!(draws.between(1, 5)))).collect();
        json!({"name": name, "fairshare": draws.between(1, 20), "users": Value::Object(users)})
    });
    options["accounts"] = json!(accounts);
    if draws.chance(500) {
        options["accounts"][1]["parent"] = json!("physics");
    }
    for partition in each(options, "partitions") {
        if draws.chance(250) {
            partition["allow_accounts"] = json!([*draws.pick(&["physics", "lab", "biology"]), "lab"]);
        }
        if draws.chance(300) {
            partition["tres_billing_weights"] = json!({"cpu": draws.between(0, 2), "gres/gpu": 1.5});
        }
    }
    for qos in each(options, "qos") {
        match draws.between(0, 5) {
            0 => qos["max_jobs_per_account"] = json!(draws.between(1, 3)),
            1 => qos["max_tres_per_account"] = json!({"cpu": draws.between(2, 20), "gres/gpu": draws.between(1, 6)}),
            _ => {}
        }
    }
    for reservation in each(options, "reservations") {
        if draws.chance(500) {
            reservation["accounts"] = json!(["lab"]);
        }
    }
    if let Some(priority) = options.get_mut("priority") {
        priority["weight_fairshare"] = json!(*draws.pick(&[0, 100, 1000, 10_000]));
        priority["decay_half_life"] = seconds(draws, &[0, 120, 3600]);
        priority["no_fair_tree"] = json!(draws.chance(500));
    }
    true
}

fn set_priorities(draws: &mut Stream, options: &mut Value) {
    let Some(priority) = options.get_mut("priority").filter(|_| draws.chance(400)) else { return };
    priority["max_age"] = seconds(draws, &[1, 60, 86_400]);
    priority["calc_offset"] = seconds(draws, &[0, 1, 37, 90]);
    let weights = [
        json!({}),
        json!({"gres/gpu": 100}),
        json!({"cpu": 0.5, "node": 30}),
        json!({"cpu": draws.between(0, 1000), "gres/gpu": draws.between(0, 1000)}),
    ];
    priority["weight_tres"] = draws.pick(&weights).clone();
}

fn preempt_by_qos(draws: &mut Stream, options: &mut Value) {
    if options.get("qos").is_none() || !draws.chance(400) {
        return;
    }
    options["preempt_type"] = json!("qos");
    options["preempt_exempt_time"] = seconds(draws, &[0, 0, 60]);
    for partition in each(options, "partitions") {
        partition.as_object_mut().expect("a partition").remove("preempt_mode");
    }
    for qos in each(options, "qos") {
        // No QOS preempts in a circle: under Slurm too, two jobs would then preempt each other for ever.
        let lower: &[&str] = match qos["name"].as_str() {
            Some("urgent") => &["normal", "group"],
            Some("group") => &["normal"],
            _ => &[],
        };
        let preempts: Vec<&str> = lower.iter().copied().filter(|_| draws.chance(700)).collect();
        if !preempts.is_empty() {
            qos["preempt"] = json!(preempts);
        }
        if draws.chance(400) {
            qos["preempt_mode"] = json!(draws.pick(&["requeue", "cancel", "off"]));
        }
        if draws.chance(400) {
            qos["grace_time"] = seconds(draws, &[0, 10, 100]);
        }
        if draws.chance(200) {
            qos["preempt_exempt_time"] = seconds(draws, &[0, 30, 300]);
        }
    }
}

/// Returns whether a job waits again only if it says so.
fn set_requeuing(draws: &mut Stream, options: &mut Value) -> bool {
    if !draws.chance(300) {
        return false;
    }
    options["cred_expire"] = seconds(draws, &[0, 5, 600]);
    if options.get("preempt_type").is_some() && draws.chance(400) {
        options["preempt_mode"] = json!("cancel");
    }
    let is_by_cluster = draws.chance(500);
    if is_by_cluster {
        options["job_requeue"] = json!(false);
    }
    is_by_cluster
}

fn limit_nodes(draws: &mut Stream, options: &mut Value) {
    if options.get("qos").is_none() || !draws.chance(400) {
        return;
    }
    for qos in each(options, "qos") {
        let most = draws.between(1, 4);
        let limit = match draws.between(0, 7) {
            0 => "grp_tres",
            1 => "max_tres_per_user",
            2 => "max_tres_per_account",
            3 => "max_tres_per_job",
            _ => continue,
        };
        qos[limit]["node"] = json!(most);
        if limit == "max_tres_per_job" && draws.chance(500) {
            qos[limit] = json!({"cpu": draws.between(1, 12), "gres/gpu": draws.between(0, 4)});
        }
    }
    for partition in each(options, "partitions") {
        if draws.chance(200) {
            partition["allow_qos"] = json!([*draws.pick(&["normal", "urgent"]), "group"]);
        }
        let has_no_most = partition.get("max_nodes").is_none();
        if has_no_most && draws.chance(100) {
            partition["min_nodes"] = json!(2);
        }
    }
}
