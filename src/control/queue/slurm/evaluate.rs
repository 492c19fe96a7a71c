//! Whether a job would be placed in a Slurm cluster. The order of the queue does not count.

use super::Ground;
use super::cluster::{places_of, why_not_allowed};
use super::limits::never_by_qos;
use super::pass::with_closed;
use super::section::ReservedNodes;
use crate::core::Core;
use crate::queue::Queue;
use crate::queue::slots::plain::{Nodes, fleet_with_only};
use crate::queue::slots::time::{SECOND, YEAR, down_to};
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::{Fleet, Placement};
use dryrack_scheduler::slurm::{Partition, SlurmOptions, demand_in};
use dryrack_scheduler::{PlacementContext, candidate_for, evaluate};
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;

/// Why a job would not be placed; `None` and no reason if it would.
type Answer = (Option<Refusal>, Histogram);

impl Queue {
    /// Emits what would be decided about a job now. A job in several partitions would be placed if it would be in one.
    pub(in crate::queue) fn evaluate_in_slurm(&mut self, core: &mut Core, spec: &JobSpec) {
        if let Some(slurm) = &mut self.slurm {
            slurm.follow_fleet(core);
        }
        self.count_usage(core);
        core.answer(&spec.name, |core| {
            let Some(slurm) = &self.slurm else {
                return evaluate(&core.profile.scheduler, &spec.demand, &core.fleet, core.deciding.grouping);
            };
            let sections = slurm.sections_of(spec);
            let is_one_of_several = sections.len() > 1;
            let answers =
                sections.into_iter().map(|section| self.evaluated_in(core, spec, (section, is_one_of_several)));
            // It may fit later in a partition if it would fit in this partition on an empty cluster.
            let rank = |(refusal, _): &Answer| match refusal {
                None => 0,
                Some(Refusal::Unfit) => 1,
                Some(Refusal::Never) => 2,
            };
            answers.min_by_key(rank).expect("a job is in a partition")
        });
    }

    fn evaluated_in(&self, core: &Core, spec: &JobSpec, (section, is_one_of_several): (usize, bool)) -> Answer {
        let slurm = self.slurm.as_ref().expect("the caller has it");
        let all = |refusal, reason| (Some(refusal), Histogram::of(reason, core.fleet.len().max(1) as u32));
        let options = core.profile.slurm.as_ref();
        let partition = &slurm.partitions[section].options;
        let by_qos = || options.and_then(|options| never_by_qos(options, partition, spec));
        if let Some(reason) = slurm.why_not_allowed(spec, section).or_else(by_qos) {
            return all(Refusal::Never, reason);
        }
        let own = slurm.reservation_of(core, spec);
        if let Some(own) = own {
            let ReservedNodes { from, until, .. } = &slurm.reservations[own];
            if core.now >= *until {
                return all(Refusal::Never, Reason::Reservation);
            }
            if core.now < *from {
                return all(Refusal::Unfit, Reason::Reservation);
            }
        }
        if let Some(reason) = self.denied_by_qos(core, spec, section) {
            return all(Refusal::Unfit, reason);
        }
        let ground = Ground { section: &slurm.partitions[section], reservations: &slurm.reservations, own };
        let (answer, chosen) = on_ground(core, spec, &ground, is_one_of_several);
        match self
            .denied_by_nodes(core, (spec, section), || chosen.as_ref().map(|place| place.nodes().collect()))
            .filter(|_| answer.0 != Some(Refusal::Never))
        {
            Some(reason) => all(Refusal::Unfit, reason),
            None => answer,
        }
    }
}

/// Why a job does not start in a Slurm cluster from `now` on even if nothing else runs, whatever the nodes are. `None` if
/// no limit keeps it out.
pub(crate) fn never_starts(options: &SlurmOptions, spec: &JobSpec, now: SimTime) -> Option<Reason> {
    let is_over = || {
        let name = spec.slurm.as_ref()?.reservation.as_deref()?;
        let own = options.reservations.iter().find(|one| &*one.name == name)?;
        (now >= own.end()).then_some(Reason::Reservation)
    };
    starts_nowhere(options, spec).or_else(is_over)
}

/// Why a job starts in none of its partitions even if nothing else runs, whatever the nodes are. `None` if it does in one.
fn starts_nowhere(options: &SlurmOptions, spec: &JobSpec) -> Option<Reason> {
    let all_nodes = [Partition::of_all_nodes()];
    let partitions = if options.partitions.is_empty() { &all_nodes[..] } else { &options.partitions };
    let mut refused = None;
    for place in places_of(spec, |name| partitions.iter().position(|one| &*one.name == name)) {
        let partition = &partitions[place];
        let why = why_not_allowed(partition, spec).or_else(|| never_by_qos(options, partition, spec))?;
        refused = refused.or(Some(why));
    }
    refused
}

/// The answer if only the nodes of the ground count that no reservation keeps from the job, and where the job would be
/// placed.
fn on_ground(core: &Core, spec: &JobSpec, ground: &Ground<'_>, is_one_of_several: bool) -> (Answer, Option<Placement>) {
    // The demand allows the nodes of all partitions of the job.
    let narrow = is_one_of_several.then(|| demand_in(&spec.demand, &ground.section.options.name));
    let demand = narrow.as_ref().unwrap_or(&spec.demand);
    let (now, limit) = (down_to(core.now, SECOND), spec.estimate.unwrap_or(YEAR));
    let (options, grouping) = (&core.profile.scheduler, core.deciding.grouping);
    let evaluate = |fleet: &Fleet| {
        let answer = evaluate(options, demand, fleet, grouping);
        let place = || candidate_for(options, demand, PlacementContext::UNSUBMITTED, fleet, grouping);
        let chosen = if answer.0.is_none() { place() } else { None };
        (answer, chosen.map(|candidate| candidate.placement))
    };
    let reserved = ground.reserved_nodes(now, limit);
    if reserved.is_empty() {
        return evaluate(&core.fleet);
    }
    let open = Nodes::of(ground.nodes(now, limit).into_iter(), core.fleet.len());
    let of_open = evaluate(&fleet_with_only(core, &open));
    if of_open.0.0.is_none() {
        return of_open;
    }
    let closed: Vec<_> = reserved.into_iter().map(|node| (node, Reason::InReservation)).collect();
    let ((refusal, reasons), _) = evaluate(&core.fleet);
    let (refusal, reasons) = with_closed(core, demand, refusal.map(|refusal| (refusal, reasons)), &closed);
    ((Some(refusal), reasons), None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::profile_tests::with;
    use dryrack_fleet::{NodeShape, NodeSpec, NodeState};
    use dryrack_scheduler::Grouping;
    use dryrack_scheduler::slurm::reservation_label;
    use dryrack_units::{Bytes, MilliCpu};
    use dryrack_workload::{Demand, SlurmTerms, TaskDemand};

    /// A cluster with one reservation until 10 min and one from 20 min to 30 min.
    fn reserved() -> serde_json::Value {
        json!({"reservations": [
            {"name": "early", "start": "0s", "duration": "10m", "users": ["ann"]},
            {"name": "late", "start": "20m", "duration": "10m", "users": ["ann"]},
        ]})
    }

    fn job_in(reservation: &str) -> JobSpec {
        let demand = Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1)));
        let terms = SlurmTerms {
            partition: None,
            account: None,
            qos: None,
            reservation: Some(reservation.into()),
            requeue: true,
        };
        JobSpec { slurm: Some(terms.into()), user: Some("ann".into()), ..JobSpec::of("j".into(), demand) }
    }

    #[test]
    fn a_job_never_starts_once_its_own_reservation_is_over() {
        let profile = with(&[("slurm", reserved())]);
        let options = profile.slurm.as_ref().expect("it was stated");
        let never =
            |reservation, minute: u64| never_starts(options, &job_in(reservation), SimTime::from_secs(60 * minute));
        let over = Some(Reason::Reservation);
        assert_eq!([0, 9, 10, 15].map(|minute| never("early", minute)), [None, None, over, over]);
        assert_eq!([0, 15, 29, 30].map(|minute| never("late", minute)), [None, None, None, over]);
    }

    #[test]
    fn a_job_may_be_placed_from_the_start_of_its_reservation_to_its_end() {
        let mut core = Core::new(Arc::new(with(&[("slurm", reserved())])), 1, Grouping::Classes);
        let mut shape = NodeShape::of(MilliCpu::from_cores(1), Bytes::from_gib(1), Vec::new());
        shape.labels.insert(reservation_label("late"), "yes".into());
        core.fleet.declare(&NodeSpec { name: "n".into(), shape: Arc::new(shape) }, NodeState::Ready);
        let mut queue = Queue::new(&mut core);
        queue.slurm.as_mut().expect("it was stated").follow_fleet(&core);
        let mut answer = |minute: u64| {
            core.advance_to(SimTime::from_secs(60 * minute));
            let (refusal, reasons) = queue.evaluated_in(&core, &job_in("late"), (0, false));
            (refusal, reasons == Histogram::of(Reason::Reservation, 1))
        };
        assert_eq!(answer(19), (Some(Refusal::Unfit), true));
        assert_eq!(answer(20), (None, false));
        assert_eq!(answer(29), (None, false));
        assert_eq!(answer(30), (Some(Refusal::Never), true));
    }
}
