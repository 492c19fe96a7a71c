//! Jobs that could never run: how many there are, and what the fleet lacks for them or which limit keeps them out.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value as Json, json};

use super::gone_nodes::without_gone;
use super::job_account::{JobAccount, ReplicaAccount};
use super::node_account::NodeAccount;
use dryrack_control::LastingLimits;
use dryrack_engine::{Rehearsal, declared_fleet, refused_alone};
use dryrack_event::{Histogram, Reason};
use dryrack_fleet::{Fleet, Moment, NodeShape, NodeState, offer_of};
use dryrack_ids::Records;
use dryrack_scheduler::{Grouping, SchedulerOptions, evaluate, ever_fits, lacks};
use dryrack_units::{SimDuration, SimTime, counted};
use dryrack_workload::Demand;

/// Why a replica could never run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeverRuns {
    /// It does not fit on the nodes.
    NoRoom(NeverFits),
    /// A limit, or a lack of the cluster's objects, keeps it out even if nothing else runs.
    KeptOut(Reason),
}

/// Why a replica could never be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeverFits {
    /// The leading reason. A reason about a node's state or a hand pick leads only if there is no other.
    reason: Reason,
    /// Whether some node might take a part of the job if it were ready and empty.
    has_suitable_nodes: bool,
    /// The leading reason of the other nodes.
    others: Option<Reason>,
}

impl NeverFits {
    /// What the reasons of all nodes show.
    pub fn of(reasons: &Histogram) -> NeverFits {
        let reasons = || reasons.iter().map(|(reason, _)| reason);
        let lasting = reasons().find(|reason| !reason.is_of_state_or_pick());
        let reason = lasting.or_else(|| reasons().next()).unwrap_or(Reason::NeverFits);
        let has_suitable_nodes = reasons().any(Reason::may_have_room);
        NeverFits { reason, has_suitable_nodes, others: reasons().find(|reason| !reason.may_have_room()) }
    }

    /// Whether the job waits for another job that can never meet the condition, so that the fleet lacks nothing.
    pub(super) fn is_of_dependency(self) -> bool {
        self.reason == Reason::DependencyNeverSatisfied
    }

    /// Why a gang does not fit.
    fn of_gang(self, tasks: u32) -> String {
        if !self.has_suitable_nodes {
            return self.of_task();
        }
        let others = match self.others {
            None => String::new(),
            Some(reason) => format!(" (other nodes are not suitable, most often: {})", reason.text()),
        };
        format!("the suitable nodes have no room for {tasks} tasks at once, even when empty{others}")
    }

    fn of_task(self) -> String {
        format!("no node has everything that the job asks for (most often: {})", self.reason.text())
    }
}

/// Finds jobs that wait at the end, were never placed, and of which no decision said that they never fit: a decision of
/// kube-scheduler does not say so, and a job behind the head of its queue is not judged during the run. Also finds those
/// that a limit keeps out even if nothing else runs, those that wait for objects of their cluster, and those that an own
/// filter refuses at the end of the run although all nodes are ready and empty.
pub fn find_never_runs(jobs: &mut Records<JobAccount>, rehearsal: &Rehearsal, end: SimTime) {
    let is_open = ReplicaAccount::is_open;
    let pending =
        jobs.iter().map(|(_, job)| job.replicas.iter().filter(|replica| is_open(replica)).count()).sum::<usize>();
    if pending == 0 {
        return;
    }
    let lasting = without_gone(rehearsal, end);
    let mut fleet = declared_fleet(&lasting);
    let minute = SimDuration::from_secs(60).as_nanos();
    let time = SimTime::from_nanos(end.as_nanos() / minute * minute);
    fleet.set_moment(Moment { time, pending: u32::try_from(pending).unwrap_or(u32::MAX) });
    let mut known: HashMap<Demand, (Option<NeverRuns>, Option<Reason>), foldhash::fast::FixedState> =
        HashMap::default();
    let mut limits = LastingLimits::new(&rehearsal.profile, &rehearsal.kueue, &fleet, end);
    for id in jobs.numbers() {
        let JobAccount { spec, replicas, .. } = &mut jobs[id];
        if !replicas.iter().any(is_open) {
            continue;
        }
        let on_nodes = || on_empty_nodes(&rehearsal.profile.scheduler, &spec.demand, &fleet);
        let (never, refused_empty) = *known.entry(Demand::clone(&spec.demand)).or_insert_with(on_nodes);
        let never = never.or_else(|| limits.keeps_out(spec).map(NeverRuns::KeptOut));
        for replica in replicas.iter_mut().filter(|replica| is_open(replica)) {
            let by_objects = replica.reason.filter(|reason| reason.is_of_declared_objects()).map(NeverRuns::KeptOut);
            (replica.never, replica.refused_empty) = (never.or(by_objects), refused_empty);
        }
    }
    find_refused_pods(jobs, &lasting);
}

/// Finds jobs whose pods no node takes because of what the pods state beside their resources, such as an affinity.
fn find_refused_pods(jobs: &mut Records<JobAccount>, rehearsal: &Rehearsal) {
    let is_open = |job: &JobAccount| job.spec.pod.is_some() && job.replicas.iter().any(ReplicaAccount::is_open);
    let open: Vec<_> = jobs.numbers().filter(|id| is_open(&jobs[*id])).collect();
    let specs: Vec<_> = open.iter().map(|id| &*jobs[*id].spec).collect();
    let refused = refused_alone(rehearsal, &specs);
    for (id, reasons) in open.into_iter().zip(refused) {
        let never = reasons.map(|reasons| NeverRuns::NoRoom(NeverFits::of(&reasons)));
        for replica in jobs[id].replicas.iter_mut().filter(|replica| replica.is_open()) {
            replica.never = never;
        }
    }
}

/// Why a demand never fits on the nodes, and the own filter that refuses it although all nodes are ready and empty.
fn on_empty_nodes(stages: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> (Option<NeverRuns>, Option<Reason>) {
    let (refusal, reasons) = evaluate(stages, demand, fleet, Grouping::Classes);
    let reasons_of_nodes = || reasons.iter().map(|(reason, _)| reason);
    // A node that is declared as not ready might pass the filter if it were ready.
    let is_of_ready_nodes = !reasons_of_nodes().any(Reason::is_of_state_or_pick);
    let own = reasons_of_nodes().find(|reason| is_of_ready_nodes && matches!(reason, Reason::Own(_)));
    match ever_fits(stages, demand, fleet) {
        false => (Some(NeverRuns::NoRoom(NeverFits::of(&reasons))), None),
        true => (None, own.filter(|_| refusal.is_some())),
    }
}

/// Jobs with a replica that could not run even if every node were ready and empty.
#[derive(Default)]
pub struct UnplaceableAccount {
    pub jobs: u64,
    /// The different pairs of demand and cause, in order of appearance, each with its number of jobs.
    kinds: Vec<(Demand, NeverRuns, u64)>,
    numbers: HashMap<(Demand, NeverRuns), usize, foldhash::fast::FixedState>,
    /// What the fleet lacks or which limit keeps out, and for how many jobs. That with the most jobs comes first.
    lacks: Vec<(String, u64)>,
    /// Other jobs that still wait and that a filter of the profile's author refuses although all nodes are empty, and the
    /// reason of the first.
    refused_empty: (u64, Option<Reason>),
}

/// The largest number of lacks that one line names.
const NAMED: usize = 3;

impl UnplaceableAccount {
    pub(super) fn add(&mut self, job: &JobAccount) {
        if let Some(never) = job.replicas.iter().find_map(|replica| replica.unplaceable()) {
            return self.add_demand(&job.spec.demand, never);
        }
        if let Some(reason) = job.replicas.iter().find_map(|replica| replica.refused_empty) {
            let (count, first) = &mut self.refused_empty;
            (*count, *first) = (*count + 1, first.or(Some(reason)));
        }
    }

    /// Counts a job with this demand.
    pub fn add_demand(&mut self, demand: &Demand, never: NeverRuns) {
        self.jobs += 1;
        let key = (demand.clone(), never);
        let number = *self.numbers.entry(key).or_insert_with_key(|(demand, never)| {
            self.kinds.push((demand.clone(), *never, 0));
            self.kinds.len() - 1
        });
        self.kinds[number].2 += 1;
    }

    /// Finds out what the nodes lack: those that are not gone, and all instances that a cloud may create.
    pub(super) fn name(&mut self, nodes: &[NodeAccount]) {
        let there = nodes.iter().filter(|node| node.state != NodeState::Gone || offer_of(&node.spec.shape).is_some());
        self.name_among(there.map(|node| &*node.spec.shape));
    }

    /// Finds out what nodes of these shapes lack.
    pub fn name_among<'a>(&mut self, shapes: impl Iterator<Item = &'a NodeShape>) {
        if self.jobs == 0 {
            return;
        }
        let mut seen: HashSet<&NodeShape, foldhash::fast::FixedState> = HashSet::default();
        let shapes: Vec<&NodeShape> = shapes.filter(|shape| seen.insert(shape)).collect();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (demand, never, count) in &self.kinds {
            *counts.entry(lack(demand, *never, &shapes)).or_default() += count;
        }
        self.lacks = counts.into_iter().collect();
        self.lacks.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    }

    /// The number of jobs in total and for each lack, as JSON.
    pub fn json(&self) -> Json {
        let lack = |(lack, jobs): &(String, u64)| json!({"because": lack, "jobs": jobs});
        json!({"jobs": self.jobs, "lacks": self.lacks.iter().map(lack).collect::<Vec<_>>()})
    }

    /// A line such as "201 of 298 jobs can never run: no node has GPU `a100` (did you mean `a100-80g`?)". `None` if all
    /// jobs can run.
    pub fn sentence(&self, jobs: u64) -> Option<String> {
        if self.jobs == 0 {
            return None;
        }
        let named: Vec<String> = match &self.lacks[..] {
            [(lack, _)] => vec![lack.clone()],
            lacks => lacks.iter().take(NAMED).map(|(lack, count)| format!("for {count}, {lack}")).collect(),
        };
        let more: u64 = self.lacks.iter().skip(NAMED).map(|(_, count)| count).sum();
        let rest = if more == 0 { String::new() } else { format!("; for {more}, other reasons") };
        let of = counted(jobs as usize, "job");
        Some(format!("{} of {of} can never run: {}{rest}", self.jobs, named.join("; ")))
    }

    /// A sentence about waiting jobs that a filter of the profile's author refuses although all nodes are empty. Such a
    /// filter may let them run at another time or on fuller nodes. `None` if there are none.
    pub fn refused_empty(&self) -> Option<String> {
        let (count, reason) = self.refused_empty;
        let reason = reason?;
        let jobs = counted(count as usize, "waiting job");
        let is = if count == 1 { "is" } else { "are" };
        Some(format!("{jobs} {is} {} even if all nodes are ready and empty", reason.text()))
    }
}

fn lack(demand: &Demand, never: NeverRuns, shapes: &[&NodeShape]) -> String {
    let never = match never {
        NeverRuns::NoRoom(never) => never,
        NeverRuns::KeptOut(reason) if reason.counts_what_runs() => {
            return format!("{} even if nothing else runs", reason.text());
        }
        NeverRuns::KeptOut(Reason::SchedulingGated) => return "nothing removes its scheduling gates".to_string(),
        NeverRuns::KeptOut(reason) => return reason.text().to_string(),
    };
    if shapes.is_empty() {
        return "there are no nodes".to_string();
    }
    let lacks = lacks(demand, shapes);
    if !lacks.is_empty() {
        return lacks.join(", and ");
    }
    match demand.tasks {
        _ if !demand.sets().is_empty() && demand.min_tasks() > 1 => never.of_gang(demand.min_tasks()),
        tasks if demand.task().is_some() && tasks > 1 => never.of_gang(tasks),
        _ => never.of_task(),
    }
}
