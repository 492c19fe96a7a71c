//! Replays a recorded world attempt by attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::record::{Candidate, Preempting, Refused, Step, World};
use dryrack_kubernetes::cluster::{Cluster, Placed, PodInfo};
use dryrack_kubernetes::cycle::{
    self, Code, Decision, Outcome, PostFilter, Preempted, Profile, Reason, Refusal, Scores,
};
use dryrack_kubernetes::devices::{Allocations, Devices};
use dryrack_kubernetes::object::{Pod, Seconds};
use dryrack_kubernetes::plugins::default_preemption::{Preemption, Unhelpful};
use dryrack_kubernetes::plugins::dynamic_resources::claim_keys;
use dryrack_kubernetes::plugins::gang_scheduling::Permit;

pub struct Replay {
    cluster: Cluster,
    profile: Profile,
    pods: BTreeMap<Arc<str>, Arc<PodInfo>>,
    /// The nodes of pods that hold a node and wait.
    waiting: BTreeMap<Arc<str>, Arc<str>>,
    /// The pods bound so far. The k-th starts k seconds after `FIRST_START`.
    bound: i64,
}

/// 2026-01-02T00:00:00Z.
const FIRST_START: i64 = 1_767_312_000;

impl Replay {
    pub fn new(world: &World, profile: Profile, with_gangs: bool) -> Result<Replay, String> {
        let world = world.clone();
        let mut cluster = Cluster::new(world.nodes).map_err(|fault| fault.to_string())?;
        cluster.devices = Devices::new(world.device_classes, world.resource_slices, world.resource_claims);
        cluster.gangs.is_enabled = with_gangs;
        world.namespaces.into_iter().for_each(|namespace| cluster.add_namespace(namespace));
        world.services.into_iter().for_each(|service| cluster.owners.add_service(service));
        world.pod_disruption_budgets.into_iter().for_each(|budget| cluster.add_budget(budget));
        world.workloads.into_iter().for_each(|workload| cluster.gangs.add_workload(workload));
        for pod in world.bound_pods {
            place(&mut cluster, pod)?;
        }
        let mut pods = BTreeMap::new();
        for pod in world.pods {
            let pod = Arc::new(PodInfo::new(pod));
            cluster.gangs.know(&pod);
            if let Some(other) = pods.insert(Arc::clone(&pod.key), pod) {
                return Err(format!("two pods have the name `{}`", other.key));
            }
        }
        Ok(Replay { cluster, profile, pods, waiting: BTreeMap::new(), bound: 0 })
    }

    /// Decides about the pod of the record, and then carries out the recorded decision. Returns the computed decision
    /// in the form of a record.
    pub fn step(&mut self, recorded: &Step) -> Result<Step, String> {
        let mut found = Step { pod: recorded.pod.clone(), attempt: recorded.attempt, ..Step::default() };
        if recorded.pod.is_empty() {
            self.time_out(&mut found);
            return Ok(found);
        }
        let pod = self.pods.get(recorded.pod.as_str()).cloned();
        let pod = pod.ok_or_else(|| format!("a step of `{}`, which is no pod of this world", recorded.pod))?;
        if let Err(refusal) = cycle::pre_enqueue(&pod, &self.cluster, &self.profile) {
            found.outcome = "gated".to_string();
            found.gate = Some(refused(&refusal));
            return Ok(found);
        }
        let decision = cycle::schedule(&pod, &mut self.cluster, &self.profile, cycle::Start::default());
        self.describe(&decision, &mut found);
        match recorded.outcome.as_str() {
            "bound" | "waiting" => self.bind(decision, recorded, &mut found)?,
            "preempting" => self.preempt(&decision, recorded, &mut found)?,
            _ => cycle::settle(&decision, &mut self.cluster),
        }
        Ok(found)
    }

    /// The pods that still wait for others of their gang lose their nodes.
    fn time_out(&mut self, found: &mut Step) {
        found.outcome = "permit_timeout".to_string();
        found.released = self.cluster.gangs.give_up();
        for (pod, node) in std::mem::take(&mut self.waiting) {
            if let Some(node) = self.cluster.find(&node) {
                self.cluster.remove(node, &pod);
            }
        }
    }

    fn bind(&mut self, decision: Decision, recorded: &Step, found: &mut Step) -> Result<(), String> {
        let node = self.chosen(recorded.node.as_ref())?;
        let name = Arc::clone(self.cluster.node(node).name());
        let devices = match decision.outcome {
            Outcome::Fits { best } => best.into_iter().find(|(index, _)| *index == node).and_then(|(_, found)| found),
            Outcome::Unschedulable { .. } | Outcome::Failed { .. } => None,
        };
        let is_found = found.tied.contains(&name);
        if is_found {
            found.node = Some(Arc::clone(&name));
        }
        match cycle::reserve(&decision.pod, &name, &mut self.cluster) {
            Permit::Waits => {
                self.waiting.insert(Arc::clone(&decision.pod.key), name);
                if is_found {
                    found.outcome = "waiting".to_string();
                }
            }
            Permit::Allowed { released } => {
                self.start(&decision.pod, &name, devices);
                if is_found {
                    found.allocations = self.allocations(&decision.pod);
                }
                for key in &released {
                    if let (Some(node), Some(pod)) = (self.waiting.remove(key), self.pods.get(key).cloned()) {
                        self.start(&pod, &node, None);
                    }
                }
                found.released = released;
            }
        }
        Ok(())
    }

    fn start(&mut self, pod: &PodInfo, node: &str, devices: Option<Allocations>) {
        self.bound += 1;
        cycle::bind(pod, node, Seconds(FIRST_START + self.bound), devices, &mut self.cluster);
    }

    fn chosen(&self, node: Option<&Arc<str>>) -> Result<usize, String> {
        let node = node.ok_or("a pod that got a node, without its name")?;
        self.cluster.find(node).ok_or_else(|| format!("`{node}` is no node of this world"))
    }

    fn preempt(&mut self, decision: &Decision, recorded: &Step, found: &mut Step) -> Result<(), String> {
        let recorded = recorded.preemption.as_ref().ok_or("a preempting pod without its preemption")?;
        let node = self.chosen(recorded.node.as_ref())?;
        let name = Arc::clone(self.cluster.node(node).name());
        let Some(Preempted { victims, cleared }) = cycle::preempt(decision, node, &mut self.cluster) else {
            // The computed decision differs, so carry out the recorded one.
            for victim in &recorded.victims {
                self.cluster.remove(node, victim);
            }
            self.cluster.nominations.nominate(&decision.pod, &name);
            return Ok(());
        };
        if let Some(preemption) = &mut found.preemption {
            preemption.node = preemption.tied.contains(&name).then_some(name);
            preemption.victims = keys(&victims);
            preemption.cleared_nominations = cleared.iter().map(|pod| Arc::clone(&pod.key)).collect();
        }
        Ok(())
    }

    /// The devices of a pod's claims: `request=driver/pool/device` by the name of the claim.
    fn allocations(&self, pod: &PodInfo) -> BTreeMap<Arc<str>, Vec<String>> {
        let mut allocations = BTreeMap::new();
        for claim in claim_keys(pod).filter_map(|key| self.cluster.devices.claim(&key)) {
            let allocated = claim.status.allocation.iter().flat_map(|allocation| &allocation.devices.results);
            let texts = allocated.map(|it| format!("{}={}/{}/{}", it.request, it.driver, it.pool, it.device));
            allocations.insert(Arc::clone(&claim.metadata.name), texts.collect());
        }
        allocations
    }

    fn names(&self, nodes: &[usize]) -> Vec<Arc<str>> {
        nodes.iter().map(|index| Arc::clone(self.cluster.node(*index).name())).collect()
    }

    /// Writes the decision in the form of a record.
    fn describe(&self, decision: &Decision, found: &mut Step) {
        found.nominated = decision.nominated.clone();
        found.via_nominated = decision.via_nominated;
        found.prefilter = decision.pre_filter.as_ref().map(refused);
        found.prefilter_nodes = decision.only_nodes.iter().flatten().cloned().collect();
        let rejected = decision.rejected.iter();
        found.rejected = rejected.map(|(node, refusal)| (self.name(*node), refused(refusal))).collect();
        found.feasible = self.names(&decision.feasible);
        if let Some(Scores { plugins, rows, totals }) = &decision.scores {
            found.score_plugins = plugins.iter().map(|plugin| plugin.name().to_string()).collect();
            found.scores = found.feasible.iter().cloned().zip(rows.iter().cloned()).collect();
            found.total = found.feasible.iter().cloned().zip(totals.iter().copied()).collect();
        }
        match &decision.outcome {
            Outcome::Fits { best } => {
                found.outcome = "bound".to_string();
                found.tied = best.iter().map(|(node, _)| self.name(*node)).collect();
            }
            Outcome::Failed { message } => {
                found.outcome = "error".to_string();
                found.message = message.clone();
            }
            Outcome::Unschedulable { message, post_filter: PostFilter { preemption, .. } } => {
                found.message = message.clone();
                found.preemption = preemption.as_ref().map(|preemption| self.preempting(preemption));
                let is_helpful = found.preemption.as_ref().is_some_and(|found| !found.tied.is_empty());
                found.outcome = if is_helpful { "preempting" } else { "unschedulable" }.to_string();
            }
        }
    }

    fn name(&self, node: usize) -> Arc<str> {
        Arc::clone(self.cluster.node(node).name())
    }

    fn preempting(&self, preemption: &Preemption) -> Preempting {
        let candidates = preemption.candidates.iter().map(|(node, victims)| {
            let candidate = Candidate { victims: keys(&victims.pods), pdb_violations: victims.violations };
            (self.name(*node), candidate)
        });
        let failed = preemption.failed.iter().map(|(node, why)| (self.name(*node), unhelpful(why)));
        Preempting {
            candidates: candidates.collect(),
            failed: failed.collect(),
            tied: self.names(&preemption.best),
            ..Preempting::default()
        }
    }
}

/// Places a pod on the node on which it runs from the beginning.
fn place(cluster: &mut Cluster, pod: Pod) -> Result<(), String> {
    let pod = Arc::new(PodInfo::new(pod));
    let node = pod.pod.spec.node_name.clone().unwrap_or_default();
    let start = pod.pod.status.start_time;
    cluster.gangs.know(&pod);
    cluster.place(pod, &node, start).map_err(|fault| fault.to_string())
}

fn keys(pods: &[Placed]) -> Vec<Arc<str>> {
    pods.iter().map(|placed| Arc::clone(&placed.pod.key)).collect()
}

fn refused(refusal: &Refusal) -> Refused {
    of_parts(refusal.plugin.name(), refusal.code, &refusal.reasons)
}

fn unhelpful(why: &Unhelpful) -> Refused {
    of_parts(why.refusal.as_ref().map_or("", |refusal| refusal.plugin.name()), why.code(), &why.reasons)
}

fn of_parts(plugin: &str, code: Code, reasons: &[Reason]) -> Refused {
    Refused {
        plugin: plugin.to_string(),
        code: code.name().to_string(),
        reasons: reasons.iter().map(Reason::to_string).collect(),
    }
}
