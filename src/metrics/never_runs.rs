//! Which jobs can never run, judged by what they ask for: on empty nodes, by limits, and by the rules of their pods.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::gone_nodes::{times_of_loss, without_gone};
use super::job_account::JobAccount;
use dryrack_control::LastingLimits;
use dryrack_control::pods::beyond_pods;
use dryrack_engine::{Rehearsal, declared_fleet, refused_alone};
use dryrack_event::{Histogram, Reason};
use dryrack_fleet::{Fleet, Moment};
use dryrack_ids::Records;
use dryrack_scheduler::{Grouping, SchedulerOptions, evaluate, ever_fits};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Demand, JobSpec};

/// Why a replica could never run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeverRuns {
    /// It does not fit on the nodes.
    NoRoom(NeverFits),
    /// So many pods of its gang do not fit on the nodes at once.
    NoRoomForGang(NeverFits, u32),
    /// It fits on none of the nodes that the flavors select with which Kueue may admit it.
    NotOfFlavors(NeverFits),
    /// A limit, or a lack of the cluster's objects, keeps it out even if nothing else runs.
    KeptOut(Reason),
}

impl NeverRuns {
    /// What the reasons of all nodes show of a pod of this job.
    fn of_pod(job: &JobSpec, reasons: &Histogram) -> NeverRuns {
        let never = NeverFits::of(reasons);
        let is_gang = job.pod.as_ref().is_some_and(|pod| pod.spec.workload_ref.is_some());
        match reasons.iter().map(|(reason, _)| reason).find(|reason| reason.is_of_declared_objects()) {
            Some(reason) => NeverRuns::KeptOut(reason),
            None if is_gang => NeverRuns::NoRoomForGang(never, job.replicas),
            None => NeverRuns::NoRoom(never),
        }
    }

    /// Why it never runs with the flavors of Kueue, if it fits without them.
    fn of_flavors(self) -> NeverRuns {
        match self {
            NeverRuns::NoRoom(never) | NeverRuns::NoRoomForGang(never, _) | NeverRuns::NotOfFlavors(never) => {
                NeverRuns::NotOfFlavors(never)
            }
            NeverRuns::KeptOut(reason) => NeverRuns::KeptOut(reason),
        }
    }
}

/// Why a replica could never be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeverFits {
    /// The leading reason. A reason about a node's state or a hand pick leads only if there is no other, and so does the
    /// partition in which the job was tried.
    reason: Reason,
    /// The leading reason of the profile's own filters, if another reason leads.
    own: Option<Reason>,
    /// Whether some node might take a part of the job if it were ready and empty.
    has_suitable_nodes: bool,
    /// The leading reason of the other nodes.
    others: Option<Reason>,
}

impl NeverFits {
    /// What the reasons of all nodes show.
    pub fn of(reasons: &Histogram) -> NeverFits {
        let reasons = || reasons.iter().map(|(reason, _)| reason);
        let lasting = || reasons().filter(|reason| !reason.is_of_state_or_pick());
        let within = lasting().find(|reason| *reason != Reason::PartitionMismatch);
        let reason = within.or_else(|| lasting().next()).or_else(|| reasons().next()).unwrap_or(Reason::NeverFits);
        let own = lasting().find(|reason| matches!(reason, Reason::Own(_))).filter(|own| *own != reason);
        let has_suitable_nodes = reasons().any(Reason::may_have_room);
        NeverFits { reason, own, has_suitable_nodes, others: reasons().find(|reason| !reason.may_have_room()) }
    }

    /// Whether the job waits for another job that can never meet the condition, so that the fleet lacks nothing.
    pub(super) fn is_of_dependency(self) -> bool {
        self.reason == Reason::DependencyNeverSatisfied
    }

    /// Whether no pod can request what the job asks for, so that the fleet lacks nothing.
    pub(super) fn is_of_no_pod(self) -> bool {
        self.reason == Reason::NotAPod
    }

    /// Why a gang does not fit.
    pub(super) fn of_gang(self, tasks: u32) -> String {
        if !self.has_suitable_nodes {
            return self.of_task();
        }
        let others = match self.others {
            None => String::new(),
            Some(reason) => format!(" (other nodes are not suitable, {})", self.most_often(reason)),
        };
        format!("the suitable nodes have no room for {tasks} tasks at once, even when empty{others}")
    }

    /// Why a job does not fit on the nodes of its flavors.
    pub(super) fn of_flavors(self) -> String {
        format!("no node that its flavors select has room for it ({})", self.most_often(self.reason))
    }

    pub(super) fn of_task(self) -> String {
        if self.reason == Reason::PodAffinityUnmet {
            let which = "none of this rehearsal that its required affinity selects, or no node with its topology keys";
            return format!("there is no pod beside which it may run: {which}");
        }
        format!("no node has everything that the job asks for ({})", self.most_often(self.reason))
    }

    /// The most frequent reason, and that of the profile's own filters: the job might fit without them.
    fn most_often(self, reason: Reason) -> String {
        match self.own.filter(|own| *own != reason) {
            None => format!("most often: {}", reason.text()),
            Some(own) => format!("most often: {}; also: {}", reason.text(), own.text()),
        }
    }
}

/// What is known of a job before, or without, a decision about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judgement {
    /// Why it can never run. `None` if it may.
    pub never: Option<NeverRuns>,
    /// The own filter that refuses it although all nodes are ready and empty.
    pub refused_empty: Option<Reason>,
}

/// Judges each of these jobs, as if it came at `now`: whether it fits on the nodes if all are ready and empty, whether a
/// limit keeps it out even if nothing else runs, and whether a node takes its pods. Equal demands are judged once, and so
/// are equal pods.
pub fn judge_jobs(rehearsal: &Rehearsal, jobs: &[&JobSpec], (now, pending): (SimTime, usize)) -> Vec<Judgement> {
    let lasting = without_gone(rehearsal, now);
    let mut fleet = declared_fleet(&lasting);
    let minute = SimDuration::from_secs(60).as_nanos();
    let time = SimTime::from_nanos(now.as_nanos() / minute * minute);
    fleet.set_moment(Moment { time, pending: u32::try_from(pending).unwrap_or(u32::MAX) });
    let mut known: HashMap<Arc<Demand>, Judgement, foldhash::fast::FixedState> = HashMap::default();
    let mut limits = LastingLimits::new(&rehearsal.profile, &rehearsal.kueue, &fleet, now);
    let mut judged: Vec<Judgement> = Vec::with_capacity(jobs.len());
    // The jobs of which nothing is known yet, and after each of them its forms with each choice of flavors.
    let mut forms: Vec<(usize, Cow<'_, JobSpec>)> = Vec::new();
    let stages = &rehearsal.profile.scheduler;
    let places_pods = rehearsal.profile.flow.places_pods();
    for (place, job) in jobs.iter().enumerate() {
        if places_pods && beyond_pods(job).is_some() {
            // No node is asked, as in a run.
            let never = NeverRuns::NoRoom(NeverFits::of(&Histogram::of(Reason::NotAPod, 1)));
            judged.push(Judgement { never: Some(never), refused_empty: None });
            continue;
        }
        let demand = stages.demand_of(job);
        let mut judgement = match known.get(&demand) {
            Some(known) => *known,
            None => {
                let judgement = on_empty_nodes(stages, &demand, &fleet);
                *known.entry(demand).or_insert(judgement)
            }
        };
        judgement.never = judgement.never.or_else(|| limits.keeps_out(job).map(NeverRuns::KeptOut));
        judged.push(judgement);
        if judgement.never.is_none() {
            forms.push((place, Cow::Borrowed(*job)));
            forms.extend(limits.with_flavors(job).into_iter().map(|form| (place, Cow::Owned(form))));
        }
    }
    let specs: Vec<&JobSpec> = forms.iter().map(|(_, form)| &**form).collect();
    let alone = refused_alone(&lasting, &specs);
    let mut of_demands: HashMap<Arc<Demand>, Option<NeverRuns>, foldhash::fast::FixedState> = HashMap::default();
    let mut refused = forms.iter().zip(alone).peekable();
    while let Some(((place, own), alone)) = refused.next() {
        let mut with_flavors: Option<Option<NeverRuns>> = None;
        while let Some(((_, form), alone)) = refused.next_if(|((other, _), _)| other == place) {
            let of_pod = alone.as_ref().map(|reasons| NeverRuns::of_pod(form, reasons));
            let demand = stages.demand_of(form);
            let on_nodes = || on_empty_nodes(stages, &demand, &fleet).never;
            let never = of_pod.or_else(|| *of_demands.entry(Arc::clone(&demand)).or_insert_with(on_nodes));
            with_flavors = Some(with_flavors.unwrap_or(never).and(never));
        }
        let of_flavors = with_flavors.flatten().map(NeverRuns::of_flavors);
        judged[*place].never = alone.as_ref().map(|reasons| NeverRuns::of_pod(own, reasons)).or(of_flavors);
    }
    judged
}

/// Judges jobs as [`judge_jobs`], each from its submission on: by then, a reservation may be over, or a node gone.
pub fn judge_arrivals(rehearsal: &Rehearsal, arrivals: &[(SimTime, &JobSpec)], pending: usize) -> Vec<Judgement> {
    let slurm = rehearsal.profile.slurm.as_ref();
    let ends = slurm.into_iter().flat_map(|slurm| &slurm.reservations).map(|reservation| reservation.end());
    let changes = rehearsal.kueue.iter().map(|(at, _)| *at);
    let times: BTreeSet<SimTime> = ends.chain(changes).chain(times_of_loss(rehearsal)).collect();
    // Between two of these times, the answers are the same.
    let mut by_time: BTreeMap<SimTime, Vec<usize>> = BTreeMap::new();
    for (place, (at, _)) in arrivals.iter().enumerate() {
        let since = times.range(..=*at).next_back().copied().unwrap_or(SimTime::ZERO);
        by_time.entry(since).or_default().push(place);
    }
    let mut judged = vec![Judgement::default(); arrivals.len()];
    for (at, places) in by_time {
        let jobs: Vec<&JobSpec> = places.iter().map(|place| arrivals[*place].1).collect();
        for (place, judgement) in places.into_iter().zip(judge_jobs(rehearsal, &jobs, (at, pending))) {
            judged[place] = judgement;
        }
    }
    judged
}

/// Why a demand never fits on the nodes, and the own filter that refuses it although all nodes are ready and empty.
fn on_empty_nodes(stages: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Judgement {
    let (refusal, reasons) = evaluate(stages, demand, fleet, Grouping::Classes);
    let reasons_of_nodes = || reasons.iter().map(|(reason, _)| reason);
    // A node that is declared as not ready might pass the filter if it were ready.
    let is_of_ready_nodes = !reasons_of_nodes().any(Reason::is_of_state_or_pick);
    let own = reasons_of_nodes().find(|reason| is_of_ready_nodes && matches!(reason, Reason::Own(_)));
    match ever_fits(stages, demand, fleet) {
        false => Judgement { never: Some(NeverRuns::NoRoom(NeverFits::of(&reasons))), refused_empty: None },
        true => Judgement { never: None, refused_empty: own.filter(|_| refusal.is_some()) },
    }
}

/// Judges the jobs that wait at the end, or failed while they waited, and of which no replica was ever placed, if no decision
/// said that they never fit: a decision of kube-scheduler does not say so, and a job behind the head of its queue is not judged
/// during the run.
pub fn find_never_runs(jobs: &mut Records<JobAccount>, rehearsal: &Rehearsal, end: SimTime) {
    let mut open: Vec<usize> = Vec::new();
    let mut cut_off: Vec<(usize, SimTime)> = Vec::new();
    let mut pending = 0;
    let has_run = |job: &JobAccount| job.replicas.iter().any(|replica| replica.placed.is_some());
    for id in jobs.numbers() {
        let replicas = &jobs[id].replicas;
        let waiting = replicas.iter().filter(|replica| replica.is_open()).count();
        pending += waiting;
        if waiting > 0 {
            open.push(id);
        } else if let Some(replica) = replicas.iter().find(|replica| replica.is_cut_off())
            && !has_run(&jobs[id])
        {
            // A node that is lost later could have taken it before.
            cut_off.push((id, replica.wanted));
        }
    }
    if open.is_empty() && cut_off.is_empty() {
        return;
    }
    let waiting: Vec<&JobSpec> = open.iter().map(|id| &*jobs[*id].spec).collect();
    let ended: Vec<(SimTime, &JobSpec)> = cut_off.iter().map(|(id, at)| (*at, &*jobs[*id].spec)).collect();
    let of_waiting = judge_jobs(rehearsal, &waiting, (end, pending));
    let of_ended = judge_arrivals(rehearsal, &ended, pending);
    // Also of pods that are scheduled as a gang.
    let by_objects =
        |reason: Option<Reason>| reason.filter(|reason| reason.is_of_declared_objects()).map(NeverRuns::KeptOut);
    // Kueue does not evict a workload because the quota is lowered.
    let is_admitted = |reason: Option<Reason>| {
        reason.is_some_and(|reason| reason == Reason::PartiallyAdmitted || !reason.lies_not_in_nodes())
    };
    let is_of_admission = |never: &NeverRuns| matches!(never, NeverRuns::KeptOut(reason) if reason.is_of_admission());
    for (id, Judgement { never, refused_empty }) in open.into_iter().zip(of_waiting) {
        let never = never.filter(|_| !has_run(&jobs[id]));
        for replica in jobs[id].replicas.iter_mut().filter(|replica| replica.is_open()) {
            let never = never.filter(|never| !(is_of_admission(never) && is_admitted(replica.reason)));
            (replica.never, replica.refused_empty) = (never.or(by_objects(replica.reason)), refused_empty);
        }
    }
    for ((id, _), Judgement { never, .. }) in cut_off.into_iter().zip(of_ended) {
        for replica in jobs[id].replicas.iter_mut().filter(|replica| replica.is_cut_off()) {
            let never = never.filter(|never| !(is_of_admission(never) && is_admitted(replica.waited_for)));
            replica.never = never.or(by_objects(replica.waited_for));
        }
    }
}
