//! Scaling: gives a job more or fewer replicas while it lives.

use std::cmp::Reverse;

use super::Control;
use super::scan::ScaleDown;
use super::store::ReplicaIndex;
use dryrack_event::{Event, Outcome, Phase, Reason};
use dryrack_fleet::{GpuState, NodeState};
use dryrack_ids::{JobId, RunId};

impl Control {
    /// Scales a job to this many replicas. A replica counts if it has not ended for good and is still wanted. A job
    /// that has ended or is cancelled stays as it is.
    pub(super) fn scale(&mut self, job: JobId, wanted: u32) {
        let Some(record) = self.jobs.get_mut(job.index()) else { return };
        if (record.live == 0 && !record.parked) || record.cancelled {
            return;
        }
        if self.runs.is_some() {
            return self.scale_run(job, wanted);
        }
        (record.parked, record.unmet) = (wanted == 0, None);
        let counted = self.counted(job);
        let has = counted.len() as u32;
        if has < wanted {
            (has..wanted).for_each(|_| self.scale_up(job));
        } else if has > wanted && self.packed_scale_down_fails(&counted) {
            self.jobs[job.index()].unmet = Some(wanted);
        } else {
            self.scale_down(counted, (has - wanted) as usize);
        }
    }

    fn counted(&self, job: JobId) -> Vec<ReplicaIndex> {
        self.jobs[job.index()].replicas().filter(|index| self.counts(*index)).collect()
    }

    /// Whether a lost replica is surplus, so that it was to go anyway.
    pub(super) fn is_one_too_many(&self, index: ReplicaIndex) -> bool {
        let job = self.replicas[index as usize].job;
        let unmet = self.jobs[job.index()].unmet;
        unmet.is_some_and(|wanted| self.counts(index) && self.counted(job).len() as u32 > wanted)
    }

    /// Scales jobs down where that was not possible before. What was lost may have been what stood in the way.
    pub(super) fn scale_unmet(&mut self) {
        for job in self.jobs.numbers() {
            if let Some(wanted) = self.jobs[job].unmet {
                self.scale(JobId::new(job), wanted);
            }
        }
    }

    /// Whether a replica counts. After an end that is not for good, the next attempt is pending at once.
    fn counts(&self, index: ReplicaIndex) -> bool {
        let replica = &self.replicas[index as usize];
        replica.phase != Phase::Ended && !replica.dismissed
    }

    fn scale_up(&mut self, job: JobId) {
        let record = &self.jobs[job.index()];
        let number = record.spec.replicas + record.added.len() as u32;
        let index = self.add_replica(job, number);
        let record = &mut self.jobs[job.index()];
        record.added.push(index);
        record.live += 1;
        self.emit(Event::ReplicaAdded { run: RunId { job, replica: number, attempt: 1 } });
        self.begin(index);
    }

    /// Stops this many replicas. Unless the profile says otherwise, those that serve nobody go first: the furthest
    /// from running, then the one that has been in its phase for the shortest time, then the last in order.
    fn scale_down(&mut self, mut counted: Vec<ReplicaIndex>, surplus: usize) {
        match self.profile.scan.map(|options| options.scale_down) {
            Some(ScaleDown::OldestOfTheMostCrowded) => self.sort_most_crowded_first(&mut counted),
            Some(ScaleDown::YoungestOfTheLeastWell) | None => counted.sort_by_key(|index| {
                let replica = &self.replicas[*index as usize];
                (self.health(*index), Reverse(replica.since), Reverse(*index))
            }),
        }
        for index in counted.into_iter().take(surplus) {
            self.replicas[index as usize].dismissed = true;
            self.stop(index, Outcome::Cancelled, Reason::ScaledDown);
        }
    }

    /// How healthy a replica is. In ascending order: stopping, waiting, about to run, running where something is
    /// wrong, running where all is well.
    fn health(&self, index: ReplicaIndex) -> u8 {
        let replica = &self.replicas[index as usize];
        match replica.phase {
            Phase::Ended | Phase::Stopping => 0,
            Phase::Pending | Phase::Analysing => 1,
            Phase::Scheduled | Phase::Preparing => 2,
            Phase::Running => 3 + u8::from(self.is_on_sound_ground(index)),
        }
    }

    fn is_on_sound_ground(&self, index: ReplicaIndex) -> bool {
        let placement = self.replicas[index as usize].placement.as_ref().expect("what runs has a placement");
        placement.claims().iter().all(|claim| {
            let status = &self.fleet.node(claim.node).status;
            status.state == NodeState::Ready
                && claim.gpus.iter().all(|part| status.gpus[usize::from(part.index)].state == GpuState::Ready)
        })
    }
}
