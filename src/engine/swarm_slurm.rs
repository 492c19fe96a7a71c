//! Random worlds of Slurm: partitions with tiers and limits, jobs in several of them, QOS, preemption, priorities and advance
//! reservations, under every profile that schedules like Slurm.
//!
//! These worlds are a kind of their own, so that the other random worlds stay as they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::cloud_models::CloudModels;
use super::rehearsal::Rehearsal;
use super::swarm::draw_world;
use super::swarm_slurm_sites::{Site, has_site};
use dryrack_control::Profile;
use dryrack_fleet::NodeShape;
use dryrack_rng::Stream;
use dryrack_scheduler::OrderKey;
use dryrack_scheduler::slurm::{MEMBER, SlurmOptions, partition_label, reservation_label};
use dryrack_units::MilliCpu;
use dryrack_workload::{Arrival, Demand, DemandKind, JobSpec, SlurmTerms, TaskDemand};

/// The partitions that a job names. `main` has all nodes.
const NAMED: [&str; 8] = ["main", "main", "high", "rest", "main,high", "rest,high", "high,rest", "main,rest,high"];
const RESERVATION: &str = "course";

/// Draws the world of Slurm of one seed.
pub fn draw_slurm_world(seed: u64, profiles: &[Arc<Profile>]) -> Rehearsal {
    let mut draws = Stream::new(seed, "swarm slurm", 0);
    let pool: Vec<Arc<Profile>> = profiles.iter().filter(|profile| profile.schedules_like_slurm()).cloned().collect();
    let mut world = draw_world(seed, &pool);
    // The drawn profile need not schedule like Slurm any more.
    let base = pool.iter().find(|profile| profile.name == world.profile.name).expect("one of these");
    let mut profile = Profile::clone(base);
    profile.retry = world.profile.retry;
    profile.retry.limit.get_or_insert(6);
    let has_reservation = draws.chance(300);
    let mut options = draw_options(&mut draws, has_reservation);
    // Draws of their own, so that worlds without these QOS stay as they are.
    limit_partitions(&mut Stream::new(seed, "swarm slurm partition limits", 0), &mut options);
    let site = has_site(seed).then(|| Site::add_to(seed, &mut options));
    let options: SlurmOptions = serde_json::from_value(options).expect("valid options");
    profile.scheduler.order = match options.priority {
        Some(_) => vec![OrderKey::Multifactor, OrderKey::Submitted],
        None => vec![OrderKey::Priority, OrderKey::Submitted],
    };
    profile.slurm = Some(options);
    (world.fleets, world.clouds) = (Vec::new(), CloudModels::default());
    profile.scheduler.slots.one_reservation_per_job = draws.chance(300);
    label_nodes(&mut draws, &mut world);
    for (number, arrival) in world.arrivals.iter_mut().enumerate() {
        let mut spec = JobSpec::clone(&arrival.spec);
        add_terms(&mut draws, &mut spec, has_reservation);
        *arrival = Arrival { spec: Arc::new(spec), ..arrival.clone() };
        if let Some(site) = &site {
            site.add_terms(number, arrival);
        }
    }
    let faults = profile.faults();
    assert!(faults.is_empty(), "a world has a profile that no file can have: {faults:?}");
    world.profile = Arc::new(profile);
    world
}

fn draw_options(draws: &mut Stream, has_reservation: bool) -> Value {
    let preempts = draws.chance(400);
    let mut partition = |name: &str, tier: u64| {
        let mut options = json!({"name": name, "default": name == "main", "priority_tier": tier});
        options["priority_job_factor"] = json!(draws.between(1, 30));
        if name != "main" && draws.chance(400) {
            options["max_time"] = json!(format!("{}s", draws.between(60, 3600)));
        }
        if name != "main" && draws.chance(200) {
            options["max_nodes"] = json!(draws.between(1, 3));
        }
        if preempts && draws.chance(400) {
            options["preempt_mode"] = json!(draws.pick(&["requeue", "cancel", "off"]));
            options["grace_time"] = json!(format!("{}s", draws.pick(&[0, 10, 100])));
        }
        options
    };
    let partitions = [("main", 1), ("high", 5), ("rest", 1)].map(|(name, tier)| partition(name, tier));
    let mut options = json!({"partitions": partitions});
    if preempts {
        options["preempt_type"] = json!("partition_prio");
        options["preempt_exempt_time"] = json!(format!("{}s", draws.pick(&[0, 0, 60])));
    }
    if draws.chance(500) {
        options["qos"] = json!([
            {"name": "normal"},
            {"name": "urgent", "priority": 100, "max_jobs_per_user": 2},
            {"name": "group", "priority": 10, "grp_tres": {"gres/gpu": 4}},
        ]);
    }
    if draws.chance(500) {
        let weight = |draws: &mut Stream| *draws.pick(&[0, 100, 1000]);
        options["priority"] = json!({
            "weight_age": weight(draws), "weight_job_size": weight(draws), "weight_partition": weight(draws),
            "weight_qos": weight(draws), "max_age": "10m", "favor_small": draws.chance(500),
            "calc_period": draws.pick(&["0s", "1m", "5m"]),
        });
    }
    if has_reservation {
        let (start, duration) = (draws.between(0, 3600), draws.between(60, 1800));
        options["reservations"] = json!([{
            "name": RESERVATION, "start": format!("{start}s"), "duration": format!("{duration}s"), "users": ["ann"],
        }]);
    }
    options
}

/// Gives some partitions a QOS, if the cluster has QOS.
fn limit_partitions(draws: &mut Stream, options: &mut Value) {
    if options.get("qos").is_none() || !draws.chance(400) {
        return;
    }
    let Some(qos) = options["qos"].as_array_mut() else { return };
    let limits = [
        json!({"name": "part", "max_tres_per_user": {"gres/gpu": draws.between(1, 6)}}),
        json!({"name": "part", "grp_jobs": draws.between(1, 5), "max_jobs_per_user": draws.between(1, 4)}),
        json!({"name": "part", "grp_tres": {"cpu": draws.between(4, 40), "gres/gpu": draws.between(1, 8)}}),
        json!({"name": "part", "max_wall": format!("{}s", draws.between(300, 3600)), "max_jobs_per_user": 3}),
    ];
    qos.push(draws.pick(&limits).clone());
    for own in qos {
        if draws.chance(250) {
            own["over_part_qos"] = json!(true);
        }
    }
    for place in 0..3 {
        if draws.chance(500) {
            options["partitions"][place]["qos"] = json!(draws.pick(&["part", "part", "urgent"]));
        }
    }
}

/// Draws which nodes each partition and the reservation have.
fn label_nodes(draws: &mut Stream, world: &mut Rehearsal) {
    for node in &mut world.nodes {
        let own: BTreeSet<&str> =
            ["main", "high", "rest"].into_iter().filter(|name| *name == "main" || draws.chance(600)).collect();
        let mut shape = NodeShape { instance: None, ..NodeShape::clone(&node.spec.shape) };
        for names in NAMED {
            if names.split(',').any(|name| own.contains(name)) {
                shape.labels.insert(partition_label(names), Arc::from(MEMBER));
            }
        }
        if draws.chance(400) {
            shape.labels.insert(reservation_label(RESERVATION), Arc::from(MEMBER));
        }
        node.spec.shape = Arc::new(shape);
    }
}

fn add_terms(draws: &mut Stream, spec: &mut JobSpec, has_reservation: bool) {
    let partition = *draws.pick(&NAMED);
    let qos = *draws.pick(&["normal", "normal", "urgent", "group"]);
    let wants_reservation = has_reservation && draws.chance(300) && spec.user.as_deref() == Some("ann");
    let requeue = draws.chance(800);
    // Slurm knows no models, no requirements of blocks and no gangs of unequal tasks.
    let mut demand = match &spec.demand.kind {
        DemandKind::Tasks(_) => Demand::clone(&spec.demand),
        _ => Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(draws.between(1, 8)))),
    };
    let DemandKind::Tasks(task) = &mut demand.kind else { return };
    task.labels.insert(partition_label(partition), Arc::from(MEMBER));
    if wants_reservation {
        task.labels.insert(reservation_label(RESERVATION), Arc::from(MEMBER));
    }
    spec.demand = Arc::new(demand);
    spec.slurm = Some(Arc::new(SlurmTerms {
        partition: Some(Arc::from(partition)),
        account: None,
        qos: Some(Arc::from(qos)),
        reservation: wants_reservation.then(|| Arc::from(RESERVATION)),
        requeue,
    }));
}
