//! Records of regions: cloud instances in several regions and at several prices, and the instance to which each node of
//! a run was assigned.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::instances::{RecordedHost, RecordedRun, assign_all, build, compare};
use super::kind::{Compared, Difference, RecordFields, RecordKind, each_version, parse};
use super::profiles::Profiles;
use dryrack_control::Profile;
use dryrack_fleet::{Blocks, Fleet, FleetKind, FleetNodes, FleetPlacement, FleetSpec};
use dryrack_ids::{FleetId, NodeId};
use dryrack_units::Money;
use dryrack_workload::Requirements;

pub struct Regions;

#[derive(Deserialize)]
struct Record {
    id: String,
    kind: String,
    fleet: RecordedFleet,
    run: RecordedRun,
    answer: BTreeMap<String, Answer>,
}

#[derive(Deserialize)]
struct RecordedFleet {
    name: Arc<str>,
    placement: FleetPlacement,
    backend: Arc<str>,
    instances: Vec<RecordedInstance>,
}

#[derive(Deserialize)]
struct RecordedInstance {
    name: Arc<str>,
    region: Arc<str>,
    price: Number,
    total_blocks: u32,
    busy_blocks: u32,
    cpus: u64,
    memory_mib: u64,
    #[serde(default)]
    disk_mib: u64,
    gpus: u32,
    gpu_name: Option<String>,
    gpu_memory_mib: Option<u64>,
}

#[derive(Deserialize)]
struct Answer {
    assigned: Vec<AssignedSeen>,
    regions_used: Option<Vec<Arc<str>>>,
    jobs: Option<Vec<JobSeen>>,
    busy_after: BTreeMap<Arc<str>, u32>,
}

#[derive(Serialize, Deserialize)]
struct AssignedSeen {
    job: u32,
    instance: Arc<str>,
    region: Arc<str>,
    blocks: u32,
}

#[derive(Serialize, Deserialize)]
struct JobSeen {
    job: u32,
    status: String,
    reason: Option<String>,
}

impl RecordKind for Regions {
    fn name(&self) -> &'static str {
        "regions"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["fleet", "run", "answer"]
    }

    fn compare(&self, record: &RecordFields, _: &str, profiles: &mut Profiles) -> Result<Vec<Compared>, String> {
        let record: Record = parse(record)?;
        let requirements = record.run.requirements()?;
        let versions = record.answer.keys().map(String::as_str);
        each_version(profiles, ("dstack", versions), (&record.id, &record.kind), |version, profile| {
            ask_again(&record, &requirements, &record.answer[version], &profile)
        })
    }
}

fn ask_again(
    record: &Record,
    requirements: &Requirements,
    recorded: &Answer,
    profile: &Profile,
) -> Result<Vec<Difference>, String> {
    let options = &profile.scheduler.offers;
    let mut fleet = world(record, profile)?;
    let outcome = assign_all(options, requirements, record.run.nodes, &mut fleet);
    let region = |node: NodeId| match &fleet.node(node).shape.instance {
        Some(instance) => Arc::clone(&instance.region),
        None => Arc::from(""),
    };
    let assigned: Vec<AssignedSeen> = outcome
        .assigned
        .iter()
        .map(|(job, assigned)| AssignedSeen {
            job: *job,
            instance: Arc::clone(&fleet.node(assigned.offer.node).name),
            region: region(assigned.offer.node),
            blocks: assigned.offer.slice.blocks,
        })
        .collect();
    let mut differences = Vec::new();
    differences.extend(compare("assigned", &recorded.assigned, &assigned));
    let mut used: Vec<Arc<str>> = assigned.iter().map(|assigned| Arc::clone(&assigned.region)).collect();
    used.sort();
    used.dedup();
    differences.extend(recorded.regions_used.as_ref().and_then(|regions| compare("regions", regions, &used)));
    let busy: BTreeMap<Arc<str>, u32> =
        fleet.iter().map(|(_, node)| (Arc::clone(&node.name), node.status.blocks.count())).collect();
    differences.extend(compare("busy blocks", &recorded.busy_after, &busy));
    let job = |number: u32| {
        let has_place = outcome.assigned.iter().any(|(job, _)| *job == number);
        let is_refused = outcome.refused.iter().any(|(job, _)| *job == number);
        let (status, reason) = match (has_place, is_refused) {
            (true, _) => ("provisioning", None),
            (false, true) => ("terminating", Some("failed_to_start_due_to_no_capacity")),
            (false, false) => ("terminating", Some("terminated_by_server")),
        };
        JobSeen { job: number, status: status.to_string(), reason: reason.map(str::to_string) }
    };
    let jobs: Vec<JobSeen> = (0..record.run.nodes).map(job).collect();
    differences.extend(recorded.jobs.as_ref().and_then(|recorded| compare("jobs", recorded, &jobs)));
    Ok(differences)
}

fn world(record: &Record, profile: &Profile) -> Result<Fleet, String> {
    let RecordedFleet { name, placement, backend, instances } = &record.fleet;
    let most = instances.len() as u32;
    let spec = FleetSpec {
        name: Arc::clone(name),
        kind: FleetKind::Cloud,
        placement: *placement,
        blocks: Blocks::Count(1),
        nodes: Some(FleetNodes { min: 0, target: most, max: Some(most) }),
        cloud: None,
    };
    let recorded_hosts = |instance: &RecordedInstance| -> Result<RecordedHost, String> {
        Ok(RecordedHost {
            name: Arc::clone(&instance.name),
            fleet: FleetId::new(0),
            cpus: instance.cpus,
            memory_mib: instance.memory_mib,
            disk_mib: instance.disk_mib,
            gpus: instance.gpus,
            gpu_name: instance.gpu_name.clone(),
            gpu_memory_mib: instance.gpu_memory_mib.unwrap_or(0),
            blocks: Blocks::Count(instance.total_blocks),
            total_blocks: Some(instance.total_blocks),
            backend: Arc::clone(backend),
            region: Arc::clone(&instance.region),
            price: Some(instance.price.to_string().parse::<Money>().map_err(|fault| fault.to_string())?),
        })
    };
    let recorded_hosts = instances.iter().map(recorded_hosts).collect::<Result<Vec<RecordedHost>, String>>()?;
    build(vec![spec], &recorded_hosts, profile.scheduler.offers.known_gpus, |index, _| instances[index].busy_blocks)
}
