//! The same world under our rules, following the choices of the program.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_apiserver::{Attempt, Heard, ObjectKey};
use dryrack_kubernetes::cluster::{Cluster, PodInfo};
use dryrack_kubernetes::cycle::{self, Decision, Outcome, Profile};
use dryrack_kubernetes::object::{DisruptionBudget, Node, Pod, Seconds, Service};
use serde_json::Value;

pub struct Native {
    pub cluster: Cluster,
    profile: Profile,
    pods: BTreeMap<String, Arc<PodInfo>>,
    started: i64,
    /// The pods that the program is about to evict, until it nominates a node.
    evicted: Vec<String>,
    pub counts: Counts,
    /// Each difference in words.
    pub differences: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub bound: u32,
    pub with_ties: u32,
    pub unschedulable: u32,
    pub preempting: u32,
    pub victims: u32,
}

/// What the program decided at one time.
enum Act {
    Bound { pod: Arc<PodInfo>, key: ObjectKey, node: String },
    Refused { pod: Arc<PodInfo>, attempt: Attempt, victims: Vec<String> },
    Cleared { pod: String },
}

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).expect("a drawn object can be read")
}

impl Native {
    pub fn new(objects: &[Value], profile: Profile) -> Native {
        let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        let nodes: Vec<Node> = of("Node").map(read).collect();
        let mut cluster = Cluster::new(nodes).expect("all names differ");
        of("Service").for_each(|service| cluster.owners.add_service(read::<Service>(service)));
        of("PodDisruptionBudget").for_each(|budget| cluster.add_budget(read::<DisruptionBudget>(budget)));
        Native {
            cluster,
            profile,
            pods: BTreeMap::new(),
            started: 0,
            evicted: Vec::new(),
            counts: Counts::default(),
            differences: Vec::new(),
        }
    }

    pub fn submit(&mut self, pod: &Value) {
        let info = Arc::new(PodInfo::new(read::<Pod>(pod)));
        self.pods.insert(info.key.to_string(), info);
    }

    fn decide(&mut self, pod: &Arc<PodInfo>) -> Decision {
        cycle::schedule(pod, &mut self.cluster, &self.profile, cycle::Start::default())
    }

    /// Compares the writes of the program until it was idle with our rules, in the same states, and follows them.
    /// Returns the bound pods with the times at which they start.
    ///
    /// The program writes a binding beside its next attempts, so a binding may have been decided before writes that
    /// came before it. The first write that our rules explain is taken; if they explain none, the first of all.
    pub fn follow(&mut self, heard: &[Heard]) -> Vec<(ObjectKey, i64)> {
        let mut acts = self.acts(heard);
        let mut started = Vec::new();
        while !acts.is_empty() {
            let is_possible = |place: usize| place == 0 || matches!(acts[place], Act::Bound { .. });
            let explained = (0..acts.len()).filter(|place| is_possible(*place));
            let found = explained.into_iter().find(|place| self.judge(&acts[*place]).is_ok());
            let act = acts.remove(found.unwrap_or(0));
            if found.is_none()
                && let Err(why) = self.judge(&act)
            {
                self.differences.push(why);
            }
            self.carry_out(&act, &mut started);
        }
        started
    }

    /// Puts the evictions of a pod together with its attempt.
    fn acts(&mut self, heard: &[Heard]) -> Vec<Act> {
        let mut acts = Vec::new();
        for heard in heard {
            match heard {
                Heard::Bound { pod, node } => {
                    acts.push(Act::Bound { pod: self.pod(pod), key: pod.clone(), node: node.to_string() });
                }
                Heard::Unschedulable { pod, attempt } => {
                    let victims =
                        if attempt.nominated.is_some() { std::mem::take(&mut self.evicted) } else { Vec::new() };
                    acts.push(Act::Refused { pod: self.pod(pod), attempt: attempt.clone(), victims });
                }
                Heard::Evicted { pod } => self.evicted.push(pod.to_string()),
                Heard::Nominated { pod, node: None } => acts.push(Act::Cleared { pod: pod.to_string() }),
                other => self.differences.push(format!("unexpected: {other:?}")),
            }
        }
        acts
    }

    fn pod(&self, key: &ObjectKey) -> Arc<PodInfo> {
        Arc::clone(&self.pods[&key.to_string()])
    }

    /// Whether our rules, in this state, decide the same or count it among the best.
    fn judge(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::Cleared { .. } => Ok(()),
            Act::Bound { pod, node, .. } => {
                let decision = self.decide(pod);
                let best: Vec<String> = match &decision.outcome {
                    Outcome::Fits { best } => best.iter().map(|(index, _)| self.name(*index)).collect(),
                    _ => Vec::new(),
                };
                match best.contains(node) {
                    true => Ok(()),
                    false => {
                        let scores = self.scores(&decision);
                        let refused = decision.rejected.iter().find(|(index, _)| self.name(*index) == *node);
                        let why = refused.map(|(_, refusal)| format!("{refusal:?}")).unwrap_or_default();
                        Err(format!("{} is bound to {node} {why}; the best are {best:?}\n{scores}", pod.key))
                    }
                }
            }
            Act::Refused { pod, attempt, victims } => self.judge_refusal(pod, attempt, victims),
        }
    }

    fn judge_refusal(&mut self, pod: &Arc<PodInfo>, attempt: &Attempt, victims: &[String]) -> Result<(), String> {
        let decision = self.decide(pod);
        let Outcome::Unschedulable { post_filter, .. } = &decision.outcome else {
            let scores = self.scores(&decision);
            return Err(format!("{} fits nowhere ({}); ours differ\n{scores}", pod.key, attempt.message));
        };
        let preemption = post_filter.preemption.as_ref();
        let best: Vec<String> =
            preemption.iter().flat_map(|found| &found.best).map(|index| self.name(*index)).collect();
        let Some(node) = self.preempts_on(pod, attempt, victims) else {
            return match best.is_empty() {
                true => Ok(()),
                false => Err(format!("{} preempts nobody; ours would on {best:?}", pod.key)),
            };
        };
        if !best.iter().any(|name| **name == **node) {
            return Err(format!("{} is nominated to {node}; the best are {best:?}", pod.key));
        }
        let candidates = preemption.into_iter().flat_map(|found| &found.candidates);
        let of_node = candidates.filter(|(index, _)| self.name(*index) == **node);
        let told = of_node.flat_map(|(_, found)| &found.pods).filter(|victim| !victim.is_preempted);
        let mut ours: Vec<String> = told.map(|victim| victim.pod.key.to_string()).collect();
        let mut theirs = victims.to_vec();
        ours.sort();
        theirs.sort();
        match ours == theirs {
            true => Ok(()),
            false => Err(format!("{} on {node} evicts {theirs:?}; ours {ours:?}", pod.key)),
        }
    }

    /// The node on which an attempt preempts other pods. The program may choose victims that are being deleted already,
    /// of which the server does not tell again. If all victims are such pods, only the nomination is new.
    fn preempts_on<'a>(&self, pod: &PodInfo, attempt: &'a Attempt, victims: &[String]) -> Option<&'a Arc<str>> {
        let node = attempt.nominated.as_ref()?;
        let is_new = self.cluster.nominations.node_of(&pod.key) != Some(node);
        (is_new || !victims.is_empty()).then_some(node)
    }

    fn carry_out(&mut self, act: &Act, started: &mut Vec<(ObjectKey, i64)>) {
        match act {
            Act::Cleared { pod } => self.cluster.nominations.clear(pod),
            Act::Bound { pod, key, node } => {
                let decision = self.decide(pod);
                self.counts.bound += 1;
                self.counts.with_ties +=
                    u32::from(matches!(&decision.outcome, Outcome::Fits { best } if best.len() > 1));
                cycle::reserve(pod, node, &mut self.cluster);
                self.started += 1;
                cycle::bind(pod, node, Seconds(self.started), None, &mut self.cluster);
                started.push((key.clone(), self.started));
            }
            Act::Refused { pod, attempt, victims } => {
                let decision = self.decide(pod);
                match self.preempts_on(pod, attempt, victims) {
                    Some(node) => {
                        self.counts.preempting += 1;
                        self.counts.victims += victims.len() as u32;
                        self.nominate(pod, node, victims);
                    }
                    None => {
                        self.counts.unschedulable += 1;
                        if attempt.nominated.is_none() {
                            cycle::settle(&decision, &mut self.cluster);
                        }
                    }
                }
            }
        }
    }

    /// Marks the victims as being deleted, and withdraws weaker nominations to the node.
    fn nominate(&mut self, pod: &Arc<PodInfo>, node: &Arc<str>, victims: &[String]) {
        let index = self.cluster.find(node).expect("a node of the world");
        for victim in victims {
            self.cluster.begin_deletion(index, victim, Seconds(self.started), true);
        }
        let weaker = self.cluster.nominations.on(node).iter().filter(|other| other.priority < pod.priority);
        for other in weaker.map(|other| Arc::clone(&other.key)).collect::<Vec<_>>() {
            self.cluster.nominations.clear(&other);
        }
        self.cluster.nominations.nominate(pod, node);
    }

    /// A victim is gone.
    pub fn remove(&mut self, key: &ObjectKey) {
        for index in 0..self.cluster.nodes().len() {
            self.cluster.remove(index, &key.to_string());
        }
    }

    fn name(&self, index: usize) -> String {
        self.cluster.node(index).name().to_string()
    }

    /// The scores of each feasible node, for a reader of a difference.
    fn scores(&self, decision: &Decision) -> String {
        let Some(scores) = &decision.scores else {
            let feasible: Vec<String> = decision.feasible.iter().map(|index| self.name(*index)).collect();
            return format!("    feasible: {feasible:?}");
        };
        let plugins: Vec<&str> = scores.plugins.iter().map(|plugin| plugin.name()).collect();
        let rows = decision.feasible.iter().zip(&scores.rows).zip(&scores.totals);
        let rows = rows.map(|((index, row), total)| format!("    {} {total} {row:?}", self.name(*index)));
        format!("    {plugins:?}\n{}", rows.collect::<Vec<_>>().join("\n"))
    }
}
