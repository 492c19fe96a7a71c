//! Jobs that could never run: how many there are, and what the fleet lacks for them or which limit keeps them out.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value as Json, json};

use super::job_account::JobAccount;
use super::never_runs::NeverRuns;
use super::node_account::NodeAccount;
use dryrack_event::Reason;
use dryrack_fleet::{NodeShape, NodeState, offer_of};
use dryrack_scheduler::lacks;
use dryrack_units::{SimTime, counted};
use dryrack_workload::{BeyondPods, Demand};

/// Jobs with a replica that could not run even if every node were ready and empty.
#[derive(Default)]
pub struct UnplaceableAccount {
    pub jobs: u64,
    /// How many of these jobs were submitted before the end of the warm-up.
    in_warm_up: u64,
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
const NAMED: usize = 8;

impl UnplaceableAccount {
    pub(super) fn add(&mut self, job: &JobAccount, warm_up: SimTime) {
        if let Some(never) = job.replicas.iter().find_map(|replica| replica.unplaceable()) {
            self.in_warm_up += u64::from(job.submitted < warm_up);
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

    /// What the most jobs lack, or which limit keeps them out.
    pub fn first(&self) -> Option<&str> {
        self.lacks.first().map(|(lack, _)| lack.as_str())
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
        let early = match self.in_warm_up {
            0 => String::new(),
            early => format!(" ({early} submitted in the warm-up)"),
        };
        let of = counted(jobs as usize, "job");
        Some(format!("{} of {of}{early} can never run: {}{rest}", self.jobs, named.join("; ")))
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
        NeverRuns::NoRoom(never) if never.is_of_no_pod() => {
            return demand.beyond_pods().map_or(Reason::NotAPod.text(), BeyondPods::text).to_string();
        }
        NeverRuns::NoRoom(never) => never,
        NeverRuns::NoRoomForGang(never, pods) => return never.of_gang(pods),
        NeverRuns::NotOfFlavors(never) => return never.of_flavors(),
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
