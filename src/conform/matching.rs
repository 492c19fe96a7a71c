//! Records of matching: fleets of hosts, a run, and all decisions about it, from splitting the hosts to the end of its
//! nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::instances::{Outcome, RecordedHost, RecordedRun, assign_all, build, compare};
use super::kind::{Compared, Difference, RecordFields, RecordKind, each_version, parse};
use super::profiles::Profiles;
use dryrack_control::Profile;
use dryrack_fleet::{Blocks, Fleet, FleetKind, FleetPlacement, FleetSpec, Slice};
use dryrack_ids::{FleetId, NodeId};
use dryrack_scheduler::offers::{Ask, Availability, Network, NoOffer, OfferPool, plan};
use dryrack_workload::Requirements;

pub struct Matching;

#[derive(Deserialize)]
struct Record {
    id: String,
    kind: String,
    fleets: Vec<RecordedFleet>,
    run: RecordedRun,
    answer: BTreeMap<String, Answer>,
}

#[derive(Deserialize)]
struct RecordedFleet {
    name: Arc<str>,
    placement: FleetPlacement,
    hosts: Vec<Host>,
}

#[derive(Deserialize)]
struct Host {
    name: Arc<str>,
    cpus: u64,
    memory_mib: u64,
    disk_mib: u64,
    gpus: u32,
    gpu_name: Option<String>,
    gpu_memory_mib: Option<u64>,
    blocks: RecordedBlocks,
    busy_fraction: f64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RecordedBlocks {
    Number(u32),
    Word(String),
}

/// The decisions of one version. If an answer lacks a field, that field is not compared.
#[derive(Deserialize)]
struct Answer {
    instances: Vec<InstanceSeen>,
    plan_offers: Vec<OfferSeen>,
    plan_same_for_all_nodes: Option<bool>,
    assigned: Vec<AssignedSeen>,
    rounds: Option<u32>,
    jobs: Option<Vec<JobSeen>>,
    run: Option<RunSeen>,
    busy_after: BTreeMap<Arc<str>, u32>,
}

/// The name of a GPU and its memory in MiB.
type GpuSeen = (Arc<str>, u64);

#[derive(Serialize, Deserialize)]
struct InstanceSeen {
    instance: Arc<str>,
    status: String,
    total_blocks: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    busy_blocks: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_mib: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpus: Option<Vec<GpuSeen>>,
}

#[derive(Serialize, Deserialize)]
struct OfferSeen {
    instance: Arc<str>,
    blocks: u32,
    total_blocks: u32,
    cpus: u64,
    memory_mib: u64,
    gpus: Vec<GpuSeen>,
    availability: String,
}

#[derive(Serialize, Deserialize)]
struct AssignedSeen {
    job: u32,
    round: u32,
    instance: Arc<str>,
    blocks: u32,
    total_blocks: u32,
    cpus: u64,
    memory_mib: u64,
    gpus: u32,
    network: String,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct JobSeen {
    job: u32,
    #[serde(default)]
    submission: u32,
    status: String,
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct RunSeen {
    status: String,
    #[serde(default)]
    reason: Option<String>,
}

impl RecordKind for Matching {
    fn name(&self) -> &'static str {
        "matching"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["fleets", "run", "answer"]
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
    let mut differences = Vec::new();
    differences.extend(compare("instances", &recorded.instances, &instances(&fleet)));
    let nodes = record.run.nodes;
    let ask = Ask { requirements, fields: None, nodes, room_for: nodes, fleet: None, master: None };
    let offers = plan(options, &ask, &fleet).offers;
    let seen: Vec<OfferSeen> = offers.iter().map(|offer| offer_seen(&fleet, offer)).collect();
    differences.extend(compare("plan", &recorded.plan_offers, &seen));
    // A plan is made for the run as a whole, so it must be the same for all nodes.
    differences.extend(recorded.plan_same_for_all_nodes.and_then(|same| compare("plan of each node", &same, &true)));
    let outcome = assign_all(options, requirements, record.run.nodes, &mut fleet);
    let progress = RunProgress::of(record.run.nodes, &outcome, options.pool, !requirements.fleets.is_empty());
    let assigned: Vec<AssignedSeen> = outcome
        .assigned
        .iter()
        .map(|(job, assigned)| AssignedSeen {
            job: *job,
            round: progress.round_of(*job),
            instance: Arc::clone(&fleet.node(assigned.offer.node).name),
            blocks: assigned.offer.slice.blocks,
            total_blocks: assigned.offer.total_blocks,
            cpus: assigned.offer.slice.cpus,
            memory_mib: assigned.offer.slice.ram.get() >> 20,
            gpus: assigned.offer.slice.gpus,
            network: if assigned.network == Network::Host { "host" } else { "bridge" }.to_string(),
        })
        .collect();
    differences.extend(compare("assigned", &recorded.assigned, &assigned));
    differences.extend(compare("busy blocks", &recorded.busy_after, &busy(&fleet)));
    differences.extend(recorded.rounds.and_then(|rounds| compare("rounds", &rounds, &progress.rounds)));
    differences.extend(recorded.jobs.as_ref().and_then(|jobs| compare("jobs", jobs, &progress.jobs)));
    differences.extend(recorded.run.as_ref().and_then(|run| compare("run", run, &progress.run)));
    Ok(differences)
}

fn world(record: &Record, profile: &Profile) -> Result<Fleet, String> {
    let specs = record.fleets.iter().map(|fleet| FleetSpec {
        name: Arc::clone(&fleet.name),
        kind: FleetKind::Ssh,
        placement: fleet.placement,
        blocks: Blocks::Auto,
        nodes: None,
        cloud: None,
    });
    let (mut recorded_hosts, mut fractions) = (Vec::new(), Vec::new());
    for (index, fleet) in record.fleets.iter().enumerate() {
        for host in &fleet.hosts {
            let blocks = match &host.blocks {
                RecordedBlocks::Number(count) => Blocks::Count(*count),
                RecordedBlocks::Word(word) if word == "auto" => Blocks::Auto,
                RecordedBlocks::Word(word) => return Err(format!("blocks of `{word}`; expected a number or `auto`")),
            };
            if !(0.0..=1.0).contains(&host.busy_fraction) {
                return Err(format!("a busy fraction of {}", host.busy_fraction));
            }
            fractions.push(host.busy_fraction);
            recorded_hosts.push(RecordedHost {
                name: Arc::clone(&host.name),
                fleet: FleetId::new(index),
                cpus: host.cpus,
                memory_mib: host.memory_mib,
                disk_mib: host.disk_mib,
                gpus: host.gpus,
                gpu_name: host.gpu_name.clone(),
                gpu_memory_mib: host.gpu_memory_mib.unwrap_or(0),
                blocks,
                total_blocks: None,
                backend: Arc::from("remote"),
                region: Arc::from("remote"),
                price: None,
            });
        }
    }
    // Round down, as the recording program does.
    let busy = |index: usize, total: u32| (fractions[index] * f64::from(total)) as u32;
    build(specs.collect(), &recorded_hosts, profile.scheduler.offers.known_gpus, busy)
}

fn instances(fleet: &Fleet) -> Vec<InstanceSeen> {
    let seen = |(_, node): (NodeId, &dryrack_fleet::Node)| {
        let instance = Arc::clone(&node.name);
        let busy = node.status.blocks.count();
        match node.shape.total_blocks() {
            None => InstanceSeen {
                instance,
                status: "terminated".to_string(),
                total_blocks: None,
                reason: Some("Cannot split into blocks".to_string()),
                busy_blocks: None,
                cpus: None,
                memory_mib: None,
                gpus: None,
            },
            Some(total) => InstanceSeen {
                instance,
                status: if busy > 0 { "busy" } else { "idle" }.to_string(),
                total_blocks: Some(total),
                reason: None,
                busy_blocks: Some(busy),
                cpus: Some(node.shape.cpu.get() / 1000),
                memory_mib: Some(node.shape.ram.get() >> 20),
                gpus: Some(
                    node.shape.gpus.iter().map(|gpu| (Arc::clone(&gpu.model), gpu.memory.get() >> 20)).collect(),
                ),
            },
        }
    };
    fleet.iter().map(seen).collect()
}

fn offer_seen(fleet: &Fleet, offer: &dryrack_scheduler::offers::Offer) -> OfferSeen {
    let node = fleet.node(offer.node);
    let Slice { blocks, cpus, ram, gpus, gpu_memory } = offer.slice;
    let model = || node.shape.gpus.first().map_or(Arc::from(""), |gpu| Arc::clone(&gpu.model));
    OfferSeen {
        instance: Arc::clone(&node.name),
        blocks,
        total_blocks: offer.total_blocks,
        cpus,
        memory_mib: ram.get() >> 20,
        gpus: (0..gpus).map(|_| (model(), gpu_memory.get() >> 20)).collect(),
        availability: if offer.availability == Availability::Idle { "idle" } else { "busy" }.to_string(),
    }
}

fn busy(fleet: &Fleet) -> BTreeMap<Arc<str>, u32> {
    let busy = fleet.iter().map(|(_, node)| (Arc::clone(&node.name), node.status.blocks.count()));
    busy.filter(|(_, blocks)| *blocks > 0).collect()
}

const NO_CAPACITY: &str = "failed_to_start_due_to_no_capacity";
const NO_FLEET: &str =
    "No matching fleet found. Possible reasons: https://dstack.ai/docs/guides/troubleshooting/#no-fleets";

/// The progress of a run, as the recording program sees it. The program steps only submitted jobs and runs, so jobs do
/// not progress beyond that.
///
/// Two generations of dstack were recorded. In the newer one, a fleet is chosen first, the nodes after the first are
/// released once the first node is provisioned, a run is examined in every second round, and refusals have a message.
/// In the older one, the other nodes are assigned in the round after the first node, and a run is examined in every
/// round.
struct RunProgress {
    is_new: bool,
    rounds: u32,
    jobs: Vec<JobSeen>,
    run: RunSeen,
}

impl RunProgress {
    fn of(nodes: u32, outcome: &Outcome, pool: OfferPool, names_fleets: bool) -> RunProgress {
        let is_new = pool == OfferPool::ChosenFleet;
        let has_master = outcome.assigned.first().is_some_and(|(job, _)| *job == 0);
        let job = |number: u32| {
            let refused = outcome.refused.iter().find(|(job, _)| *job == number).map(|(_, why)| *why);
            let (status, reason) = match refused {
                Some(_) => ("terminating", Some(NO_CAPACITY)),
                None if !has_master => ("terminating", Some("terminated_by_server")),
                None => ("provisioning", None),
            };
            let message = match refused.filter(|_| is_new) {
                None => None,
                Some(NoOffer::NoFleet) if names_fleets => Some("Failed to use specified fleets"),
                Some(NoOffer::NoFleet) => Some(NO_FLEET),
                Some(NoOffer::NoIdleInstance) => Some("Could not reuse any instance for this job"),
            };
            let text = |text: &str| text.to_string();
            JobSeen {
                job: number,
                submission: 0,
                status: text(status),
                reason: reason.map(text),
                message: message.map(text),
            }
        };
        let all_refused = outcome.assigned.len() <= 1 && nodes > 1;
        let rounds = match (is_new, nodes, has_master) {
            // If the first node was refused, the other nodes end one round later, while they wait for it.
            (true, nodes, false) => nodes.min(2),
            (true, 1, true) => 2,
            (true, _, true) => {
                if all_refused {
                    3
                } else {
                    4
                }
            }
            (false, 1, _) => 2,
            (false, _, _) => 3,
        };
        // When no submitted job is left, a provisioning run is examined only in the fourth round.
        let is_seen = !is_new || !has_master || rounds == 4;
        let failed = !outcome.refused.is_empty() && is_seen;
        let run = RunSeen {
            status: if failed { "terminating" } else { "provisioning" }.to_string(),
            reason: failed.then(|| "job_failed".to_string()),
        };
        RunProgress { is_new, rounds, jobs: (0..nodes).map(job).collect(), run }
    }

    /// The round in which a node was assigned. The node must have been assigned.
    fn round_of(&self, job: u32) -> u32 {
        match (job, self.is_new) {
            (0, _) => 0,
            (_, true) => 2,
            (_, false) => 1,
        }
    }
}
