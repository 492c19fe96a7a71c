//! The flavor assigner: which flavor each resource of a workload gets, and how well it fits.
//!
//! The rules are those of Kueue's `pkg/scheduler/flavorassigner/flavorassigner.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::assignment::{Assignment, FlavorChoice, Mode, PodSetAssignment};
use super::cluster::{Cluster, Group, Placing};
use super::fungibility::{Fitness, PreemptionMode};
use super::names::{FlavorId, FlavorResource, ResourceId};
use super::objects::{BorrowPolicy, Effect, NodeSelectorTerm, ReclaimWithinCohort};
use super::preemption::{Possibility, possibility};
use super::quantity::MOST;
use super::queue::QueueId;
use super::reason::{FlavorReason, QuotaReason, RuledOut};
use super::topology::{Occupancy, Requests};
use super::workload::{FlavorScan, WorkloadId};

/// The flavors with which a workload was nominated, for each pod set. If an assignment is computed again in a cycle, it
/// uses the same flavors.
pub(crate) type Nomination = Vec<BTreeMap<ResourceId, FlavorId>>;

/// The workload that gets an assignment, and the settings of the search.
pub(crate) struct Asking<'a> {
    pub id: WorkloadId,
    pub now: i64,
    /// Where the scan of flavors continues.
    pub scan: Option<&'a FlavorScan>,
    pub nomination: Option<&'a Nomination>,
}

/// The flavors of one group of resources.
struct GroupChoice {
    flavors: BTreeMap<ResourceId, FlavorChoice>,
    reasons: Vec<FlavorReason>,
    ruled_out: Vec<RuledOut>,
}

/// How one flavor fits one resource.
struct Fit {
    mode: PreemptionMode,
    borrow: u32,
    reason: Option<FlavorReason>,
    /// The reason if the flavor does not fit.
    ruled_out: Option<QuotaReason>,
}

/// Assigns flavors to all pod sets, with these counts, if given, instead of the full ones.
pub(crate) fn assign(cluster: &mut Cluster, asking: &Asking<'_>, counts: Option<&[u32]>) -> Assignment {
    let workload = cluster.workload(asking.id);
    let (queue, pod_sets) = (workload.queue, workload.pod_sets.len());
    let generation = cluster.queue(queue).generation;
    let scan = FlavorScan { tried: Vec::new(), generation, cycle: cluster.cycle };
    let mut assignment = Assignment::new(scan);
    for index in 0..pod_sets {
        let pod_set = &cluster.workload(asking.id).pod_sets[index];
        let count = counts.map_or(pod_set.count, |counts| counts[index]);
        let mut requests: Requests = pod_set
            .requests
            .iter()
            .map(|(resource, amount)| (*resource, amount.saturating_mul(i64::from(count)).min(MOST)))
            .collect();
        count_slots(cluster, queue, count, &mut requests);
        let assigned = assign_pod_set(cluster, asking, index, count, &requests, &assignment);
        let failed = assigned.flavors.is_empty() && !requests.is_empty();
        assignment.push(cluster, assigned, &requests);
        if failed {
            assignment.resolve_no_fit();
            return assignment;
        }
    }
    if assignment.mode() != Mode::NoFit {
        place(cluster, asking.id, &mut assignment);
    }
    assignment.resolve_no_fit();
    assignment
}

/// For each group of resources that a pod set needs, the flavors that it may get at some time. Other workloads and the
/// order of the flavors do not count.
pub(crate) fn possible_flavors(cluster: &Cluster, id: WorkloadId, index: usize) -> Vec<Vec<FlavorId>> {
    let workload = cluster.workload(id);
    let (pod_set, queue) = (&workload.pod_sets[index], cluster.queue(workload.queue));
    let least = i64::from(pod_set.min_count.unwrap_or(pod_set.count).min(pod_set.count));
    let has_quota = |flavor: FlavorId, (resource, amount): &(ResourceId, i64)| {
        amount.saturating_mul(least) <= cluster.tree.potential(queue.node, cluster.pair(flavor, *resource))
    };
    let of_group = |group: &Group| {
        let own: Requests =
            pod_set.requests.iter().filter(|(resource, _)| group.resources.contains(resource)).copied().collect();
        let may = |flavor: &FlavorId| {
            mismatch(cluster, id, index, *flavor, &group.resources).is_none()
                && own.iter().all(|request| has_quota(*flavor, request))
        };
        (!own.is_empty()).then(|| group.flavors.iter().copied().filter(may).collect())
    };
    queue.groups.iter().filter_map(of_group).collect()
}

/// Whether a pod set must be placed in a topology, and none of its flavors has room in its topology even if no workload
/// is there.
pub(crate) fn fits_no_topology(cluster: &Cluster, id: WorkloadId) -> bool {
    let fits_none = |index: usize| {
        let pod_set = &cluster.workload(id).pod_sets[index];
        let pods = pod_set.min_count.unwrap_or(pod_set.count).min(pod_set.count);
        let fits = |flavor: FlavorId| {
            let placing = Placing { pod_set: index, flavor, pods };
            cluster.topologies.contains_key(&flavor) && cluster.place_all(id, &[placing], Occupancy::Empty).is_ok()
        };
        cluster.topology_request(id, index).is_some()
            && possible_flavors(cluster, id, index).into_iter().any(|group| !group.into_iter().any(fits))
    };
    (0..cluster.workload(id).pod_sets.len()).any(fits_none)
}

/// If the queue has quota for pods, each pod takes one.
fn count_slots(cluster: &Cluster, queue: QueueId, count: u32, requests: &mut Requests) {
    if cluster.group(queue, cluster.slot).is_none() {
        return;
    }
    let amount = i64::from(count);
    match requests.iter_mut().find(|(resource, _)| *resource == cluster.slot) {
        Some((_, known)) => *known = amount,
        None => requests.push((cluster.slot, amount)),
    }
    requests.sort_by(|a, b| cluster.names.resource(a.0).cmp(cluster.names.resource(b.0)));
}

fn assign_pod_set(
    cluster: &mut Cluster,
    asking: &Asking<'_>,
    index: usize,
    count: u32,
    requests: &Requests,
    before: &Assignment,
) -> PodSetAssignment {
    let workload = cluster.workload(asking.id);
    let queue = workload.queue;
    let mut assigned = PodSetAssignment {
        name: Arc::clone(&workload.pod_sets[index].name),
        count,
        flavors: BTreeMap::new(),
        placement: None,
        reasons: Vec::new(),
        considered: false,
        ruled_out: Vec::new(),
        no_fit: None,
    };
    for (resource, amount) in in_scan_order(cluster, requests) {
        if assigned.flavors.contains_key(&resource) {
            continue;
        }
        let Some(group) = cluster.group(queue, resource) else {
            if amount == 0 {
                continue;
            }
            let resource = Arc::clone(cluster.names.resource(resource));
            assigned.flavors.clear();
            assigned.reasons = vec![FlavorReason::ResourceUnavailable { resource }];
            assigned.no_fit = Some(QuotaReason::NoMatchingFlavor);
            return assigned;
        };
        let choice = scan_group(cluster, asking, index, (group, resource), requests, before);
        assigned.considered = true;
        assigned.ruled_out.extend(choice.ruled_out);
        if choice.flavors.is_empty() {
            assigned.flavors.clear();
            assigned.reasons = choice.reasons;
            return assigned;
        }
        assigned.flavors.extend(choice.flavors);
        assigned.reasons.extend(choice.reasons);
    }
    assigned
}

/// The order in which the groups of resources are scanned: by the name of the resource, but `cpu` last. The order is
/// visible if two groups fail, because only the first failure is reported. It was found in the recordings.
fn in_scan_order(cluster: &Cluster, requests: &Requests) -> Requests {
    let (cpu, mut order): (Requests, Requests) =
        requests.iter().partition(|(resource, _)| **cluster.names.resource(*resource) == *"cpu");
    order.extend(cpu);
    order
}

/// Scans the flavors of a group in order and uses the best. `leading` is the resource for which the group is scanned.
fn scan_group(
    cluster: &mut Cluster,
    asking: &Asking<'_>,
    pod_set: usize,
    (group_index, leading): (usize, ResourceId),
    requests: &Requests,
    before: &Assignment,
) -> GroupChoice {
    let queue = cluster.workload(asking.id).queue;
    let (group, fungibility) = {
        let queue = cluster.queue(queue);
        (queue.groups[group_index].clone(), queue.fungibility)
    };
    let requests: Requests =
        requests.iter().filter(|(resource, _)| group.resources.contains(resource)).copied().collect();
    let mut found = GroupChoice { flavors: BTreeMap::new(), reasons: Vec::new(), ruled_out: Vec::new() };
    let (mut best, mut last) = (Fitness::worst(), None);
    let first = asking.scan.map_or(0, |scan| scan.next_flavor(pod_set, leading));
    for (index, flavor) in group.flavors.iter().enumerate().skip(first) {
        last = Some(index);
        if let Some(nomination) = asking.nomination
            && nomination.get(pod_set).and_then(|flavors| flavors.get(&leading)) != Some(flavor)
        {
            let flavor = Arc::clone(cluster.names.flavor(*flavor));
            let resource = Arc::clone(cluster.names.resource(leading));
            found.reasons.push(FlavorReason::NotNominated { flavor, resource });
            continue;
        }
        if let Some(mismatch) = mismatch(cluster, asking.id, pod_set, *flavor, &group.resources) {
            found.reasons.push(mismatch);
            let why = QuotaReason::NoMatchingFlavor;
            found.ruled_out.push(RuledOut { flavor: *flavor, group: group_index, why });
            continue;
        }
        let (mut fitness, mut choices, mut out) = (Fitness::best(), BTreeMap::new(), None);
        for (resource, amount) in &requests {
            let pair = cluster.pair(*flavor, *resource);
            let fit = fit(cluster, asking, pair, before.usage_of(pair), *amount);
            found.reasons.extend(fit.reason);
            out = out.max(fit.ruled_out);
            let one = Fitness { mode: fit.mode, borrow: fit.borrow };
            if fitness.is_preferred(one, fungibility.preference) {
                fitness = one;
            }
            if fitness.mode != PreemptionMode::NoFit {
                let (mode, borrow) = (fit.mode.mode(), fit.borrow);
                choices.insert(*resource, FlavorChoice { flavor: *flavor, mode, tried: None, borrow });
            }
        }
        if fitness.mode == PreemptionMode::NoFit
            && let Some(why) = out
        {
            found.ruled_out.push(RuledOut { flavor: *flavor, group: group_index, why });
        }
        let is_last = !fitness.tries_next(&fungibility);
        if is_last || fitness.is_preferred(best, fungibility.preference) {
            (best, found.flavors) = (fitness, choices);
        }
        if is_last {
            break;
        }
    }
    let tried = last.filter(|last| last + 1 < group.flavors.len());
    found.flavors.values_mut().for_each(|choice| choice.tried = tried);
    if best.mode == PreemptionMode::Fit {
        found.reasons.clear();
    }
    found
}

/// Why the flavor cannot be assigned to the pod set, independent of its quota.
fn mismatch(
    cluster: &Cluster,
    id: WorkloadId,
    index: usize,
    flavor: FlavorId,
    covered: &[ResourceId],
) -> Option<FlavorReason> {
    let name = || Arc::clone(cluster.names.flavor(flavor));
    let Some(spec) = cluster.flavors.get(&flavor) else { return Some(FlavorReason::FlavorNotFound { flavor: name() }) };
    let workload = cluster.workload(id);
    let pod_set = &workload.pod_sets[index];
    let topology = cluster.topologies.get(&flavor);
    match (&pod_set.topology, topology) {
        (Some(_), None) if pod_set.requests.iter().any(|(resource, _)| covered.contains(resource)) => {
            return Some(FlavorReason::NoTopologySupport { flavor: name() });
        }
        (Some(request), Some(topology)) if !topology.has_level(request) => {
            return Some(FlavorReason::NoTopologyLevel { flavor: name() });
        }
        (None, Some(_)) if !cluster.queue(workload.queue).is_topology_only => {
            return Some(FlavorReason::OnlyTopology { flavor: name() });
        }
        _ => {}
    }
    let untolerated = spec.node_taints.iter().find(|taint| {
        taint.effect != Effect::PreferNoSchedule
            && !pod_set.tolerations.iter().chain(&spec.tolerations).any(|toleration| toleration.tolerates(taint))
    });
    if let Some(taint) = untolerated {
        return Some(FlavorReason::UntoleratedTaint { taint: taint.clone(), flavor: name() });
    }
    // Only the labels that this flavor has count.
    let matches = |(key, value)| spec.node_labels.get(key).is_none_or(|label| label == value);
    let suits = pod_set.node_selector.iter().all(matches) && suits_affinity(&pod_set.affinity, &spec.node_labels);
    (!suits).then(|| FlavorReason::NodeAffinity { flavor: name() })
}

/// Whether the labels of a flavor suit the required node affinity. Requirements on other labels do not count, nor does the
/// whole affinity if a term has only such requirements: that term may match on any flavor.
fn suits_affinity(terms: &[NodeSelectorTerm], labels: &BTreeMap<Arc<str>, Arc<str>>) -> bool {
    let own = |term: &NodeSelectorTerm| {
        let requirements = term.match_expressions.iter();
        let mut own = requirements.filter(|requirement| labels.contains_key(&requirement.key));
        own.all(|requirement| requirement.matches(labels))
    };
    terms.is_empty() || terms.iter().any(own)
}

/// How a flavor fits one resource. `before` is what earlier pod sets of the workload take of it.
fn fit(cluster: &mut Cluster, asking: &Asking<'_>, pair: FlavorResource, before: i64, request: i64) -> Fit {
    let queue = cluster.workload(asking.id).queue;
    let node = cluster.queue(queue).node;
    let (available, maximum) = (cluster.tree.available(node, pair), cluster.tree.potential(node, pair));
    let amount = before.saturating_add(request);
    let (flavor, resource) = cluster.names.parts(pair);
    let flavor = Arc::clone(cluster.names.flavor(flavor));
    let resource = Arc::clone(cluster.names.resource(resource));
    if amount > maximum {
        let reason = FlavorReason::AboveMaximum { resource, flavor, before, request, maximum };
        let ruled_out = Some(QuotaReason::ExceedsMaxQuota);
        return Fit { mode: PreemptionMode::NoFit, borrow: 0, reason: Some(reason), ruled_out };
    }
    let (borrow, may_reclaim) = cluster.tree.lowest_fit(node, pair, amount);
    if amount <= available {
        return Fit { mode: PreemptionMode::Fit, borrow, reason: None, ruled_out: None };
    }
    let reason = Some(FlavorReason::Unused { resource, flavor, missing: amount - available });
    let is_within_nominal = cluster.tree.quota(node, pair).nominal >= amount;
    if !(is_within_nominal || may_reclaim || can_preempt_while_borrowing(cluster, queue)) {
        let ruled_out = Some(QuotaReason::WaitingForQuota);
        return Fit { mode: PreemptionMode::NoFit, borrow, reason, ruled_out };
    }
    let (possibility, borrow) = possibility(cluster, asking.id, asking.now, pair, amount);
    let mode = match possibility {
        Possibility::NoCandidates => PreemptionMode::NoCandidates,
        Possibility::Preempt => PreemptionMode::Preempt,
        Possibility::Reclaim => PreemptionMode::Reclaim,
    };
    Fit { mode, borrow, reason, ruled_out: None }
}

fn can_preempt_while_borrowing(cluster: &Cluster, queue: QueueId) -> bool {
    let policy = &cluster.queue(queue).preemption;
    policy.borrow_within_cohort.is_some_and(|borrow| borrow.policy != BorrowPolicy::Never)
        || (cluster.fair.is_some() && policy.reclaim_within_cohort != ReclaimWithinCohort::Never)
}

/// Finds domains for the pod sets that need them. If there is no room now, checks whether an empty cluster would have
/// room.
fn place(cluster: &Cluster, id: WorkloadId, assignment: &mut Assignment) {
    let placing = assignment.to_place(cluster, id);
    if placing.is_empty() {
        return;
    }
    if assignment.mode() == Mode::Fit {
        match cluster.place_all(id, &placing, Occupancy::AsUsed) {
            Ok(placements) => assignment.set_placements(placements),
            Err((failed, why)) => {
                assignment.pod_sets[failed.pod_set].reasons.push(FlavorReason::Topology(why));
                assignment.set_pod_set_mode(failed.pod_set, Mode::Preempt);
            }
        }
    }
    if assignment.mode() != Mode::Preempt {
        return;
    }
    match cluster.place_all(id, &placing, Occupancy::Empty) {
        Ok(_) => placing.iter().for_each(|placing| assignment.set_pod_set_mode(placing.pod_set, Mode::Preempt)),
        Err((failed, _)) => {
            let queue = cluster.workload(id).queue;
            let groups = &cluster.queue(queue).groups;
            let group = groups.iter().position(|group| group.flavors.contains(&failed.flavor)).unwrap_or(0);
            let why = QuotaReason::TopologyPlacementFailed;
            let pod_set = &mut assignment.pod_sets[failed.pod_set];
            pod_set.ruled_out.retain(|out| out.flavor != failed.flavor);
            pod_set.ruled_out.push(RuledOut { flavor: failed.flavor, group, why });
            assignment.set_pod_set_mode(failed.pod_set, Mode::NoFit);
        }
    }
}
