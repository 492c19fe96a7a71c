//! Replays a recorded world in the room `kueue`, and simulates the same other programs as the recording: workloads
//! arrive and end, an evicted workload releases its quota after a number of cycles, and cycles run until nothing
//! changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::record::{Op, RecordedWorkload, What, World};
use super::seen::{
    Amounts, AssignmentSeen, CycleSeen, DomainSeen, EndSeen, HeadSeen, OpSeen, PodSetSeen, State, StepSeen, TargetSeen,
};
use dryrack_kueue::{Assignment, FlavorResource, Head, Kueue, NodeId, PodSetAssignment, Target, Verdict, WorkloadId};

/// The largest number of rounds of a step.
const ROUNDS_MAX: i64 = 30;

pub struct Replay<'w> {
    world: &'w World,
    kueue: Kueue,
    ids: BTreeMap<&'w str, WorkloadId>,
    /// The workloads that will release quota, and the tick after which they do.
    leaving: Vec<(u64, WorkloadId)>,
    /// Counts operations of a step, and rounds.
    tick: u64,
    /// The number of the last cycle.
    cycle: u64,
}

impl<'w> Replay<'w> {
    pub fn new(world: &'w World) -> Result<Replay<'w>, String> {
        let mut kueue = Kueue::new(world.setup());
        for cohort in &world.cohorts {
            kueue.set_cohort(&cohort.name, &cohort.spec()).map_err(|fault| fault.to_string())?;
        }
        for queue in &world.cqs {
            kueue.set_queue(&queue.name, &queue.spec());
        }
        Ok(Replay { world, kueue, ids: BTreeMap::new(), leaving: Vec::new(), tick: 0, cycle: 0 })
    }

    /// Applies the operations of this time and runs cycles until nothing changes.
    pub fn step(&mut self, t: i64) -> Result<StepSeen, String> {
        self.tick += 1;
        let mut ops = Vec::new();
        for op in self.world.timeline.iter().filter(|op| op.t == t) {
            self.apply(op, &mut ops)?;
        }
        let released = self.release_due();
        let (mut cycles, mut stop) = (Vec::new(), "cap");
        let (mut seen, mut repeated): (BTreeSet<Vec<HeadSeen>>, u32) = (BTreeSet::new(), 0);
        for round in 1..=ROUNDS_MAX {
            self.tick += 1;
            if !self.kueue.has_heads() && self.leaving.is_empty() {
                stop = "idle";
                break;
            }
            let Some(cycle) = self.round(t + round) else { continue };
            let is_changed = !cycle.preempted.is_empty()
                || !cycle.released.is_empty()
                || cycle.heads.iter().any(|head| head.result == Verdict::Admitted.name());
            if is_changed {
                seen.clear();
                repeated = 0;
            } else {
                repeated = if seen.insert(cycle.heads.clone()) { 0 } else { repeated + 1 };
            }
            cycles.push(cycle);
            if repeated == 2 {
                stop = "repeat";
                break;
            }
        }
        Ok(StepSeen { t, ops, released, cycles, stop: stop.to_string(), end: self.end() })
    }

    fn apply(&mut self, op: &'w Op, seen: &mut Vec<OpSeen>) -> Result<(), String> {
        let (name, workloads) = match &op.what {
            What::SetCq { cq } => {
                let drained = self.kueue.set_queue(&cq.name, &cq.spec());
                drained.into_iter().for_each(|id| self.leaves(id));
                seen.push(OpSeen { op: "set_cq".to_string(), applied: true, wl: None });
                return Ok(());
            }
            What::SetCohort { cohort } => {
                self.kueue.set_cohort(&cohort.name, &cohort.spec()).map_err(|fault| fault.to_string())?;
                seen.push(OpSeen { op: "set_cohort".to_string(), applied: true, wl: None });
                return Ok(());
            }
            What::Arrive { wl } => ("arrive", wl),
            What::Finish { wl } => ("finish", wl),
            What::Delete { wl } => ("delete", wl),
        };
        for workload in workloads {
            let id = self.ids.get(&**workload).copied();
            let applied = match (&op.what, id) {
                (What::Arrive { .. }, _) => {
                    let known = self.world.workloads.iter().find(|known| known.name == *workload);
                    let recorded: &RecordedWorkload =
                        known.ok_or_else(|| format!("the timeline names `{workload}`, which is no workload"))?;
                    let id = self.kueue.submit(&recorded.spec()).map_err(|fault| fault.to_string())?;
                    self.ids.insert(&recorded.name, id);
                    true
                }
                (What::Finish { .. }, Some(id)) => self.kueue.finish(id),
                (What::Delete { .. }, Some(id)) => {
                    self.leaving.retain(|(_, leaving)| *leaving != id);
                    self.kueue.delete(id)
                }
                _ => false,
            };
            seen.push(OpSeen { op: name.to_string(), applied, wl: Some(workload.to_string()) });
        }
        Ok(())
    }

    fn leaves(&mut self, id: WorkloadId) {
        self.leaving.push((self.tick + self.world.evict_delay, id));
    }

    /// Releases the workloads that are due, in the order of their names.
    fn release_due(&mut self) -> Vec<String> {
        let tick = self.tick;
        let mut due: Vec<(Arc<str>, WorkloadId)> = Vec::new();
        self.leaving.retain(|(at, id)| {
            if *at <= tick {
                due.push((Arc::clone(self.kueue.workload_name(*id)), *id));
            }
            *at > tick
        });
        due.sort();
        due.iter().for_each(|(_, id)| self.kueue.release(*id));
        due.into_iter().map(|(name, _)| name.to_string()).collect()
    }

    /// One round. `None` if nothing could be scheduled and no quota was released.
    fn round(&mut self, now: i64) -> Option<CycleSeen> {
        let cycle = self.kueue.cycle(now);
        cycle.evicted.iter().for_each(|target| self.leaves(target.workload));
        let released = self.release_due();
        if cycle.heads.is_empty() && released.is_empty() {
            return None;
        }
        self.cycle += 1;
        let mut preempted: Vec<TargetSeen> = cycle.evicted.iter().map(|target| self.target(target)).collect();
        preempted.sort_by(|a, b| a.wl.cmp(&b.wl));
        let State { usage, borrowed, share } = self.state();
        Some(CycleSeen {
            n: self.cycle,
            t: now,
            heads: cycle.heads.iter().map(|head| self.head(head)).collect(),
            preempted,
            released,
            usage: Some(usage),
            borrowed: Some(borrowed),
            share: Some(share),
        })
    }

    fn head(&self, head: &Head) -> HeadSeen {
        let is_active = self.kueue.is_active(head.workload);
        let place = if is_active { "active" } else { "inadmissible" };
        let nominated = head.nominated.as_ref();
        let nominated =
            nominated.map(|(assignment, targets)| self.assignment(assignment, targets, assignment.message()));
        let assignment = self.assignment(&head.assignment, &head.targets, head.message.clone());
        // The first assignment is recorded only if the second one differs from it.
        let is_another = |first: &AssignmentSeen| {
            (&first.mode, first.borrow, &first.podsets, &first.targets)
                != (&assignment.mode, assignment.borrow, &assignment.podsets, &assignment.targets)
        };
        HeadSeen {
            wl: self.kueue.workload_name(head.workload).to_string(),
            cq: self.kueue.queue_of(head.workload).to_string(),
            result: head.verdict.name().to_string(),
            nominated: nominated.filter(is_another),
            assignment,
            requeued: (head.verdict != Verdict::Admitted).then(|| place.to_string()),
        }
    }

    fn assignment(&self, assignment: &Assignment, targets: &[Target], msg: String) -> AssignmentSeen {
        AssignmentSeen {
            mode: assignment.mode().name().to_string(),
            borrow: assignment.borrow,
            podsets: self.pod_sets(assignment),
            targets: targets.iter().map(|target| self.target(target)).collect(),
            msg,
        }
    }

    fn pod_sets(&self, assignment: &Assignment) -> Vec<PodSetSeen> {
        let (whole, names) = (assignment.mode(), self.kueue.names());
        let choices = assignment.pod_sets.iter().flat_map(|pod_set| pod_set.flavors.values());
        let is_uniform = choices.into_iter().all(|choice| choice.mode == whole);
        let pod_set = |pod_set: &PodSetAssignment| {
            let (mut flavors, mut modes) = (BTreeMap::new(), BTreeMap::new());
            for (resource, choice) in &pod_set.flavors {
                let resource = names.resource(*resource).to_string();
                flavors.insert(resource.clone(), names.flavor(choice.flavor).to_string());
                modes.insert(resource, choice.mode.name().to_string());
            }
            if is_uniform {
                modes.clear();
            }
            let flavor = pod_set.flavors.values().map(|choice| choice.flavor).min();
            let placed = pod_set.placement.iter().flatten().zip(flavor.iter().cycle());
            let domain = |((leaf, pods), flavor): (&(_, i64), &_)| DomainSeen {
                v: self.kueue.domain_values(*flavor, *leaf).iter().map(ToString::to_string).collect(),
                n: *pods,
            };
            let topo = placed.map(domain).collect();
            PodSetSeen { ps: pod_set.name.to_string(), count: pod_set.count, flavors, modes, topo }
        };
        assignment.pod_sets.iter().map(pod_set).collect()
    }

    fn target(&self, target: &Target) -> TargetSeen {
        TargetSeen {
            wl: self.kueue.workload_name(target.workload).to_string(),
            cq: self.kueue.queue_of(target.workload).to_string(),
            reason: target.reason.name().to_string(),
        }
    }

    fn amounts(&self, of: impl Iterator<Item = (FlavorResource, i64)>) -> BTreeMap<String, i64> {
        let names = self.kueue.names();
        let named = of.map(|(pair, amount)| {
            let (flavor, resource) = names.parts(pair);
            (format!("{}/{}", names.flavor(flavor), names.resource(resource)), amount)
        });
        named.collect()
    }

    fn state(&self) -> State {
        let mut state = State::default();
        let kueue = &self.kueue;
        let add = |amounts: &mut Amounts, name: &str, found: BTreeMap<String, i64>| {
            if !found.is_empty() {
                amounts.insert(name.to_string(), found);
            }
        };
        let add_share = |state: &mut State, name: &str, node: NodeId| {
            let share = kueue.share(node).value();
            if share > 0.0 {
                let text = if share.is_infinite() { "+Inf".to_string() } else { share.to_string() };
                state.share.insert(name.to_string(), text);
            }
        };
        for (name, queue) in kueue.queues() {
            let node = kueue.node_of_queue(queue);
            add(&mut state.usage, name, self.amounts(kueue.usage(node)));
            if kueue.has_parent(node) && !kueue.is_stopped(queue) {
                add(&mut state.borrowed, name, self.amounts(kueue.borrowed(node)));
                add_share(&mut state, name, node);
            }
        }
        for (name, node) in kueue.cohorts().filter(|(_, node)| kueue.has_running_queue(*node)) {
            let name = format!("cohort:{name}");
            add(&mut state.usage, &name, self.amounts(kueue.usage(node)));
            add_share(&mut state, &name, node);
        }
        state
    }

    fn end(&self) -> EndSeen {
        let (mut admitted, mut status) = (Vec::new(), BTreeMap::new());
        let (mut active, mut inadmissible) = (BTreeMap::new(), BTreeMap::new());
        for (name, id) in &self.ids {
            if self.kueue.holds_quota(*id) {
                admitted.push(name.to_string());
            }
            if !self.kueue.is_pending(*id) {
                continue;
            }
            let place = if self.kueue.is_active(*id) { &mut active } else { &mut inadmissible };
            let of_queue: &mut Vec<String> = place.entry(self.kueue.queue_of(*id).to_string()).or_default();
            of_queue.push(name.to_string());
            let condition = self.kueue.condition(*id).map(|it| {
                let reason = it.reason.map_or("", |reason| reason.name());
                format!("{reason}: {}", it.message)
            });
            status.insert(name.to_string(), condition.unwrap_or_default());
        }
        let State { usage, borrowed, share } = self.state();
        EndSeen { admitted, active, inadmissible, usage, borrowed, share, status }
    }
}
