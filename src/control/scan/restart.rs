//! Failed replicas that start again where they were.

use super::options::{PausesFrom, Writes};
use super::rows::Carried;
use super::{Control, ReplicaIndex};
use crate::timer::Timer;
use dryrack_fleet::{NodeState, Placement};
use dryrack_scheduler::{Candidate, still_fits};
use dryrack_units::{Score, SimDuration, SimTime};

impl Control {
    /// Whether a failed attempt of this replica is followed by one in the same place.
    pub(crate) fn restarts_in_place(&self, index: ReplicaIndex) -> bool {
        let in_place = self.profile.scan.is_some_and(|options| options.restarts_in_place.is_some());
        in_place && self.replicas[index as usize].placement.is_some()
    }

    /// When an attempt after a failure is due: when its node next looks after the pause.
    pub(crate) fn restart_due(&mut self, index: ReplicaIndex, pause: SimDuration) -> SimTime {
        let Some(options) = self.profile.scan else { return self.now.saturating_add(pause) };
        let last = self.replicas[index as usize].last_restart;
        let from = match (options.pauses_from, last) {
            (PausesFrom::LastStart, Some(last)) => last,
            (PausesFrom::LastStart, None) | (PausesFrom::Failure, _) => super::rows::dated(self.now, options.dated_to),
        };
        let due = from.saturating_add(pause).max(self.now);
        options.restarts_in_place.map_or(due, |every| next_tick(due, every))
    }

    /// Keeps the row of a failed attempt, with its claim.
    pub(crate) fn keep_row(&mut self, index: ReplicaIndex, run: dryrack_ids::RunId, placement: Placement) {
        let node = super::main_node(&placement).expect("what is placed has a node");
        self.carry(index, Some(Carried { run, node, placement, claims: true }));
        self.row_changed(index);
    }

    /// Starts a replica where it was after its pause, once its node is there to see it. If writes are checked, this
    /// requires that its place would still do.
    pub(crate) fn restart(&mut self, index: ReplicaIndex) {
        let Some(carried) = self.carried(index).cloned() else { return self.queue_up(index) };
        let every = self.scan_options().restarts_in_place.expect("only then is a claim carried for a restart");
        let heard = |node| self.fleet.node(node).status.state == NodeState::Ready && self.is_heard(node);
        if !carried.placement.claims().iter().all(|claim| heard(claim.node)) {
            let version = self.replicas[index as usize].version;
            let at = next_tick(self.now.saturating_add(SimDuration::from_nanos(1)), every);
            self.timers.set(at, Timer::RetryDue { replica: index, version });
            return;
        }
        self.release_carried(index);
        let demand = &self.demands[self.replicas[index as usize].demand as usize].demand;
        // What has failed there since, or is taken by a stranger, counts as a lost node: the replica is placed anew.
        let is_checked = self.scan_options().writes == Writes::Checked;
        if is_checked && !still_fits(&self.profile.scheduler, demand, &self.fleet, &carried.placement) {
            self.delete_row(index);
            self.forget_failures(index);
            return self.queue_up(index);
        }
        self.examine_if_watched(index, |_| None);
        let replica = &mut self.replicas[index as usize];
        (replica.wait, replica.held) = (crate::store::Wait::Scan, None);
        replica.last_restart = Some(self.now);
        self.place(index, Candidate { placement: carried.placement, score: Score::ZERO });
        self.row_changed(index);
    }
}

/// The first multiple of `every` that is not before `at`.
fn next_tick(at: SimTime, every: SimDuration) -> SimTime {
    let ticks = at.as_nanos().div_ceil(every.as_nanos());
    SimTime::ZERO.saturating_add(every.saturating_mul(ticks))
}
