//! Carries out the decisions of Kueue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::evict::{EVICTION, evict_workload, forget_replicas};
use super::held::hold;
use super::queues::begin;
use super::waiting::{hold_waiting, replicas_of, tell, tell_pending, tell_untold};
use super::workload::{AdmittedSet, Line, Standing, Terms, WorkloadNumber, waits_for};
use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::flow::Flow;
use dryrack_event::{AdmittedPodSet, Event, Outcome, Phase, Reason};
use dryrack_kueue::{Cycle, Head, Kueue, PodSetAssignment, Verdict, WorkloadId};
use dryrack_workload::{Demand, DemandKind, Gang, TaskDemand, TaskSet};

/// What a cycle without effect decided: if the same comes back twice, further cycles change nothing.
type Seen = Vec<(WorkloadId, Verdict, u32, Vec<(u32, Vec<(u32, u32)>)>)>;

/// Judges everything that has changed at this instant, and carries it out.
#[inline]
pub(crate) fn settle(core: &mut Core, flow: &mut dyn Flow) {
    if core.admission.is_used() {
        judge_changes(core, flow);
    }
}

fn judge_changes(core: &mut Core, flow: &mut dyn Flow) {
    begin(core, flow);
    while core.admission.is_due() {
        while let Some(number) = core.admission.touched.pop_first() {
            follow_ends(core, flow, number);
        }
        for number in std::mem::take(&mut core.admission.fresh) {
            submit(core, flow, number);
        }
        run_cycles(core, flow);
    }
    tell_untold(core);
}

/// Gives a workload to Kueue, if its queue exists and is not stopped. At first, a workload may hold quota already.
fn submit(core: &mut Core, flow: &mut dyn Flow, number: WorkloadNumber) {
    let workload = core.admission.workload_mut(number);
    if !matches!(workload.standing, Standing::Inadmissible) {
        return;
    }
    let is_known = std::mem::replace(&mut workload.is_known, true);
    let (spec, key) = (Arc::clone(&workload.spec), workload.queue_key());
    if let Some(held) = spec.held.as_ref().filter(|_| !is_known)
        && hold(core, flow, number, held)
    {
        return;
    }
    match core.admission.cluster_queue_of(&key) {
        Err((reason, text)) => tell(core, number, reason, &text),
        Ok(queue) => {
            let spec = core.admission.workload(number).spec_for(&queue, number);
            let id = core.admission.kueue().submit(&spec).expect("the queue exists");
            core.admission.of_id.insert(id, number);
            core.admission.workload_mut(number).standing = Standing::Waiting(id);
            core.admission.is_due = true;
            match core.admission.kueue().is_queue_stopped(&queue) {
                true => tell(core, number, Reason::QueueInactive, &format!("ClusterQueue {queue} is inactive")),
                false => tell_pending(core, number),
            }
        }
    }
}

/// Follows the ends of attempts and jobs of a workload.
fn follow_ends(core: &mut Core, flow: &mut dyn Flow, number: WorkloadNumber) {
    let workload = core.admission.workload(number);
    let id = workload.id();
    if workload.open == 0 {
        if let Some(id) = id {
            core.admission.kueue().delete(id);
            core.admission.is_due = true;
        }
        forget_replicas(core, number);
        core.admission.workload_mut(number).standing = Standing::Over;
        return;
    }
    match &workload.standing {
        Standing::Evicting { id, since } => {
            let (id, due) = (*id, since.saturating_add(EVICTION));
            let holds = |index: &ReplicaIndex| core.store[*index].placement.is_some();
            if core.now >= due && !replicas_of(core, number).iter().any(holds) {
                release(core, number, id);
            }
        }
        Standing::Admitted(..) => fill(core, flow, number),
        Standing::Inadmissible | Standing::Waiting(_) | Standing::Over => {}
    }
}

/// Gives the quota of an evicted workload back, and queues the workload again.
fn release(core: &mut Core, number: WorkloadNumber, id: WorkloadId) {
    let admission = &mut core.admission;
    admission.kueue().release(id);
    admission.is_due = true;
    let key = admission.workload(number).queue_key();
    match admission.cluster_queue_of(&key) {
        Ok(queue) => {
            admission.workload_mut(number).standing = Standing::Waiting(id);
            match admission.kueue().is_queue_stopped(&queue) {
                true => tell(core, number, Reason::QueueInactive, &format!("ClusterQueue {queue} is inactive")),
                false => tell_condition(core, number, id),
            }
        }
        Err((reason, text)) => {
            admission.kueue().delete(id);
            admission.workload_mut(number).standing = Standing::Inadmissible;
            tell(core, number, reason, &text);
        }
    }
}

/// Logs the condition of a waiting workload.
fn tell_condition(core: &mut Core, number: WorkloadNumber, id: WorkloadId) {
    if let Some(condition) = core.admission.kueue().condition(id) {
        let (reason, message) = (waits_for(condition.reason), condition.message.clone());
        tell(core, number, reason, &message);
    }
}

/// Runs cycles until one changes nothing.
fn run_cycles(core: &mut Core, flow: &mut dyn Flow) {
    let now = i64::try_from(core.now.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX);
    let (mut seen, mut repeated) = (BTreeSet::new(), 0);
    core.admission.is_due = false;
    while core.admission.kueue().has_heads() {
        let cycle = core.admission.kueue().cycle(now);
        if cycle.heads.is_empty() {
            break;
        }
        let has_effect = !cycle.evicted.is_empty() || cycle.heads.iter().any(|head| head.verdict == Verdict::Admitted);
        if has_effect {
            seen.clear();
            repeated = 0;
        } else {
            repeated = if seen.insert(signature(&cycle)) { 0 } else { repeated + 1 };
        }
        carry_out(core, flow, &cycle);
        if repeated == 2 {
            break;
        }
    }
}

fn signature(cycle: &Cycle) -> Seen {
    let of_head = |head: &Head| {
        let sets = head.assignment.pod_sets.iter().map(|pod_set| {
            let flavors = pod_set.flavors.values().map(|choice| (choice.flavor.number(), choice.mode as u32));
            (pod_set.count, flavors.collect())
        });
        (head.workload, head.verdict, head.assignment.borrow, sets.collect())
    };
    cycle.heads.iter().map(of_head).collect()
}

fn carry_out(core: &mut Core, flow: &mut dyn Flow, cycle: &Cycle) {
    for head in &cycle.heads {
        let number = core.admission.of_id[&head.workload];
        match head.verdict {
            Verdict::Admitted => admit(core, flow, (number, head.workload), &head.assignment.pod_sets),
            _ => tell_condition(core, number, head.workload),
        }
    }
    for target in &cycle.evicted {
        evict_workload(core, flow, target.workload, Some(&cycle.heads));
    }
}

/// The place of each pod set, once for this module and once for the event.
fn places(kueue: &Kueue, assigned: &[PodSetAssignment]) -> Vec<(AdmittedSet, AdmittedPodSet)> {
    let names = kueue.names();
    let of_set = |set: &PodSetAssignment| {
        let mut terms = Terms::default();
        let (mut assigned, mut flavors) = (BTreeMap::new(), BTreeSet::new());
        for (resource, choice) in &set.flavors {
            assigned.insert(Arc::clone(names.resource(*resource)), Arc::clone(names.flavor(choice.flavor)));
            if let Some(spec) = kueue.flavor(choice.flavor).filter(|_| flavors.insert(choice.flavor)) {
                terms.add(spec);
            }
        }
        let (mut domains, mut logged_domains, mut left) = (Vec::new(), Vec::new(), set.count);
        let with_topology = flavors.first().copied();
        for (leaf, pods) in set.placement.iter().flatten() {
            let pods = u32::try_from(*pods).unwrap_or(u32::MAX);
            let Some(flavor) = with_topology else { continue };
            let mut own = terms.clone();
            own.node_selector.extend(kueue.domain_labels(flavor, *leaf));
            domains.push((pods, own));
            left = left.saturating_sub(pods);
            logged_domains.push((kueue.domain_values(flavor, *leaf).to_vec(), pods));
        }
        if domains.is_empty() || left > 0 {
            domains.push((left, terms));
        }
        let (name, count) = (Arc::clone(&set.name), set.count);
        (
            AdmittedSet { count, domains, places: Vec::new() },
            AdmittedPodSet { name, count, flavors: assigned, domains: logged_domains },
        )
    };
    assigned.iter().map(of_set).collect()
}

/// Lets the pods of a workload go that has quota now.
pub(super) fn admit(
    core: &mut Core,
    flow: &mut dyn Flow,
    (number, id): (WorkloadNumber, WorkloadId),
    assigned: &[PodSetAssignment],
) {
    let kueue = core.admission.kueue();
    let queue = Arc::clone(kueue.queue_of(id));
    let (sets, pod_sets): (Vec<_>, Vec<_>) = places(kueue, assigned).into_iter().unzip();
    let workload = core.admission.workload_mut(number);
    workload.standing = Standing::Admitted(id, sets);
    workload.lines.iter_mut().for_each(|line| line.next = line.ended);
    workload.last_logged = (Reason::PartiallyAdmitted, Arc::from(""));
    let jobs = workload.jobs.clone();
    core.emit(Event::Admitted { job: jobs[0], queue, pod_sets });
    jobs.into_iter().for_each(|job| core.start_deadline(job));
    fill(core, flow, number);
    for index in replicas_of(core, number) {
        hold_waiting(core, index, Reason::PartiallyAdmitted);
    }
}

/// Lets replicas go while the workload has free places for them.
fn fill(core: &mut Core, flow: &mut dyn Flow, number: WorkloadNumber) {
    let Some(sets) = take_sets(core, number) else { return };
    let mut sets = sets;
    let mut goes = Vec::new();
    let stated = Arc::clone(&core.admission.workload(number).spec);
    // A place is free again once its replica has ended for good.
    for (set, stated) in sets.iter_mut().zip(&stated.pod_sets) {
        for place in set.places.iter_mut().filter(|_| stated.in_turn) {
            if place.is_some_and(|index| has_ended(core, index)) {
                core.admission.let_go.remove(&place.take().expect("it is taken"));
            }
        }
    }
    let mut lines = std::mem::take(&mut core.admission.workload_mut(number).lines);
    for line in &mut lines {
        while let Some(index) = line.replicas.get(line.next).copied() {
            if !has_ended(core, index) && core.store[index].wait == Wait::Admission {
                let Some(one) = place_for(core, index, &mut sets, flow.is_of_pods()) else { break };
                goes.push(one);
            }
            line.next += 1;
        }
    }
    core.admission.workload_mut(number).lines = lines;
    put_sets(core, number, sets);
    for (index, terms, demand) in goes {
        let_go(core, flow, index, terms, demand);
    }
    end_surplus(core, flow, number);
}

/// Takes a free place of its pod set for a replica. `None` if there is none.
fn place_for(
    core: &Core,
    index: ReplicaIndex,
    sets: &mut [AdmittedSet],
    is_of_pods: bool,
) -> Option<(ReplicaIndex, Terms, Option<Demand>)> {
    let spec = &core.store[core.store[index].job].spec;
    let part = spec.queued.as_ref().expect("it is in a workload");
    let Some(at) = part.pod_set else {
        // A gang of several kinds of tasks is the whole workload.
        let terms: Vec<&AdmittedSet> = sets.iter().collect();
        return Some((index, Terms::default(), Some(sized(&spec.demand, &terms))));
    };
    let set = &mut sets[at as usize];
    let tasks = spec.demand.tasks.min(set.count.max(1));
    let most = (set.count / tasks.max(1)) as usize;
    let place = match set.places.iter().position(Option::is_none) {
        Some(free) => free,
        None if set.places.len() < most => {
            set.places.push(None);
            set.places.len() - 1
        }
        None => return None,
    };
    set.places[place] = Some(index);
    let terms = domain_of(set, place as u32 * tasks).clone();
    let demand = (!is_of_pods).then(|| with_terms(&spec.demand, set, place as u32 * tasks));
    Some((index, terms, demand))
}

/// The terms of the domain that holds the pod with this number.
fn domain_of(set: &AdmittedSet, pod: u32) -> &Terms {
    let mut before = 0;
    let found = set.domains.iter().find(|(pods, _)| {
        before += pods;
        pod < before
    });
    &found.unwrap_or(&set.domains[set.domains.len() - 1]).1
}

fn take_sets(core: &mut Core, number: WorkloadNumber) -> Option<Vec<AdmittedSet>> {
    match &mut core.admission.workload_mut(number).standing {
        Standing::Admitted(_, sets) => Some(std::mem::take(sets)),
        _ => None,
    }
}

fn put_sets(core: &mut Core, number: WorkloadNumber, back: Vec<AdmittedSet>) {
    if let Standing::Admitted(_, sets) = &mut core.admission.workload_mut(number).standing {
        *sets = back;
    }
}

/// Hands a replica to the flow.
fn let_go(core: &mut Core, flow: &mut dyn Flow, index: ReplicaIndex, terms: Terms, demand: Option<Demand>) {
    let admission = &mut core.admission;
    let next = admission.terms.len() as u32;
    let number = *admission.numbers_of_terms.entry(terms.clone()).or_insert(next);
    if number == next {
        admission.terms.push(terms);
    }
    admission.let_go.insert(index, number);
    if let Some(demand) = demand {
        let demand = core.store.demands.number(&Arc::new(demand));
        core.store[index].demand = demand;
    }
    let replica = &mut core.store[index];
    replica.wait = Wait::Nothing;
    replica.held = None;
    let job = replica.job;
    // An eviction does not end the pause after a failure.
    if let Some(at) = core.groups.paused_until(job, core.now) {
        return core.pause(index, at);
    }
    flow.freed(core, job, vec![index]);
}

/// Ends the replicas beyond the admitted number of pods, once all others have ended.
fn end_surplus(core: &mut Core, flow: &mut dyn Flow, number: WorkloadNumber) {
    if is_any_at_work(core, number) {
        return;
    }
    let replicas = replicas_of(core, number);
    let alive = |index: &ReplicaIndex| core.store[*index].phase != Phase::Ended;
    let waits = |index: &ReplicaIndex| core.store[*index].wait == Wait::Admission;
    let alive: Vec<ReplicaIndex> = replicas.into_iter().filter(alive).collect();
    if alive.is_empty() || !alive.iter().all(waits) {
        return;
    }
    for index in alive {
        core.store[index].dismissed = true;
        flow.stop(core, index, Outcome::Cancelled, Reason::ScaledDown);
    }
}

/// Whether a replica has ended for good. Its record may be dropped by now.
fn has_ended(core: &Core, index: ReplicaIndex) -> bool {
    core.store.replicas.get(index as usize).is_none_or(|replica| replica.phase == Phase::Ended)
}

/// Whether the first replica that has not ended does not wait, in some pod set.
fn is_any_at_work(core: &mut Core, number: WorkloadNumber) -> bool {
    let mut lines = std::mem::take(&mut core.admission.workload_mut(number).lines);
    let is_at_work = |line: &mut Line| {
        while let Some(index) = line.replicas.get(line.ended).copied() {
            if !has_ended(core, index) {
                return core.store[index].wait != Wait::Admission;
            }
            line.ended += 1;
        }
        false
    };
    let found = lines.iter_mut().any(is_at_work);
    core.admission.workload_mut(number).lines = lines;
    found
}

fn add_to(task: &TaskDemand, terms: &Terms) -> TaskDemand {
    let mut task = task.clone();
    task.labels.extend(terms.node_selector.clone());
    task
}

/// The demand of a job whose tasks are pods of this set, with the labels of its place. `first` is the number of its
/// first pod. Tasks in several domains become a gang of several sets.
fn with_terms(demand: &Demand, set: &AdmittedSet, first: u32) -> Demand {
    let DemandKind::Tasks(task) = &demand.kind else { return demand.clone() };
    let mut parts: Vec<(u32, &Terms)> = Vec::new();
    for pod in first..first + demand.tasks {
        let terms = domain_of(set, pod);
        match parts.last_mut().filter(|(_, last)| *last == terms) {
            Some((tasks, _)) => *tasks += 1,
            None => parts.push((1, terms)),
        }
    }
    if let [(_, terms)] = parts[..] {
        return Demand { kind: DemandKind::Tasks(add_to(task, terms)), ..demand.clone() };
    }
    let part = |(number, (tasks, terms)): (usize, &(u32, &Terms))| TaskSet {
        name: Arc::from(number.to_string()),
        tasks: *tasks,
        min_tasks: *tasks,
        task: add_to(task, terms),
    };
    let sets: Arc<[TaskSet]> = parts.iter().enumerate().map(part).collect();
    Demand {
        gang: Gang::Anywhere,
        pick: demand.pick.clone(),
        speeds: demand.speeds.clone(),
        fields: demand.fields.clone(),
        ..Demand::of(sets)
    }
}

/// A gang of several kinds of tasks with the admitted numbers, and the labels of their places.
fn sized(demand: &Demand, admitted: &[&AdmittedSet]) -> Demand {
    let mut sets = Vec::new();
    for (stated, admitted) in demand.sets().iter().zip(admitted) {
        for (part, (pods, terms)) in admitted.domains.iter().enumerate() {
            let name = match admitted.domains.len() {
                1 => Arc::clone(&stated.name),
                _ => Arc::from(format!("{}-{part}", stated.name)),
            };
            sets.push(TaskSet { name, tasks: *pods, min_tasks: *pods, task: add_to(&stated.task, terms) });
        }
    }
    let sets: Arc<[TaskSet]> = sets.into();
    Demand {
        gang: demand.gang,
        pick: demand.pick.clone(),
        speeds: demand.speeds.clone(),
        fields: demand.fields.clone(),
        ..Demand::of(sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_ids::NodeId;
    use dryrack_units::MilliCpu;
    use dryrack_workload::{JobField, JobFields, JobSpec, Pick, Speeds};

    fn in_zone(zone: &str) -> Terms {
        Terms { node_selector: BTreeMap::from([("zone".into(), zone.into())]), ..Terms::default() }
    }

    fn admitted(domains: &[(u32, &str)]) -> AdmittedSet {
        let domains: Vec<_> = domains.iter().map(|(pods, zone)| (*pods, in_zone(zone))).collect();
        AdmittedSet { count: domains.iter().map(|(pods, _)| pods).sum(), domains, places: Vec::new() }
    }

    fn task(cores: u64) -> TaskDemand {
        TaskDemand::cpu_only(MilliCpu::from_cores(cores))
    }

    /// A demand with something to say in each field.
    fn with_all(gang: Gang, demand: Demand) -> Demand {
        let job = JobSpec::of("j".into(), Demand::of(task(1)));
        Demand {
            gang,
            pick: Some(Pick::Nodes(vec![NodeId::new(7)])),
            speeds: Some(Arc::new(Speeds { reference: "a".into(), others: Vec::new() })),
            fields: JobFields::of(&job, &[JobField::Priority]),
            ..demand
        }
    }

    /// A set of a demand: name, number of tasks, least number, cores and zone.
    fn shown(set: &TaskSet) -> (&str, u32, u32, u64, &str) {
        (&set.name, set.tasks, set.min_tasks, set.task.cpu.get() / 1000, &set.task.labels["zone"])
    }

    fn sets_of(demand: &Demand) -> Vec<(&str, u32, u32, u64, &str)> {
        demand.sets().iter().map(shown).collect()
    }

    #[test]
    fn a_gang_of_unequal_tasks_has_the_admitted_numbers_in_the_domains_of_each_set() {
        let set = |name: &str, cores| TaskSet { name: name.into(), tasks: 5, min_tasks: 2, task: task(cores) };
        let sets: Arc<[TaskSet]> = [set("driver", 1), set("worker", 2)].into();
        let stated = with_all(Gang::PreferSpread, Demand::of(sets));
        let sized = sized(&stated, &[&admitted(&[(3, "a")]), &admitted(&[(1, "a"), (2, "b")])]);
        assert_eq!(sets_of(&sized), [("driver", 3, 3, 1, "a"), ("worker-0", 1, 1, 2, "a"), ("worker-1", 2, 2, 2, "b")]);
        assert_eq!(with_all(Gang::PreferSpread, sized.clone()), sized);
    }

    #[test]
    fn equal_tasks_in_several_domains_become_a_gang_of_several_sets() {
        let set = admitted(&[(2, "a"), (3, "b")]);
        let gang = |tasks| with_all(Gang::Packed, Demand { tasks, ..Demand::of(task(4)) });
        // Pods 1, 2 and 3.
        let split = with_terms(&gang(3), &set, 1);
        assert_eq!(sets_of(&split), [("0", 1, 1, 4, "a"), ("1", 2, 2, 4, "b")]);
        assert_eq!(with_all(Gang::Anywhere, split.clone()), split);
        for (tasks, first, zone) in [(2, 0, "a"), (1, 1, "a"), (3, 2, "b"), (1, 4, "b"), (1, 5, "b")] {
            let whole = with_terms(&gang(tasks), &set, first);
            assert_eq!(whole.task().expect("equal tasks").labels["zone"].as_ref(), zone, "{tasks} from {first}");
            assert_eq!((whole.tasks, whole.gang, &whole.pick), (tasks, Gang::Packed, &gang(tasks).pick));
        }
    }
}
