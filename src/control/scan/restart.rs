//! Failed replicas that start again on the same node.

use super::options::{PausesFrom, Writes};
use super::rows::dated;
use super::{ReplicaIndex, Scanned};
use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::Wait;
use crate::core::timer::Timer;
use crate::flow::Flow;
use dryrack_fleet::NodeState;
use dryrack_scheduler::Candidate;
use dryrack_units::{Score, SimDuration, SimTime};

impl Scanned {
    /// When the attempt after a failure is due: at the first check of its node after the pause.
    pub(super) fn next_restart(&self, core: &Core, index: ReplicaIndex, pause: SimDuration) -> SimTime {
        let options = self.options;
        let last = core.store[index].last_restart;
        let from = match (options.pauses_from, last) {
            (PausesFrom::LastStart, Some(last)) => last,
            (PausesFrom::LastStart, None) | (PausesFrom::Failure, _) => dated(core.now, options.dated_to),
        };
        let due = from.saturating_add(pause).max(core.now);
        options.restarts_in_place.map_or(due, |every| next_tick(due, every))
    }

    /// Starts a replica again in the same place after its pause, once its nodes are ready and send heartbeats. If
    /// writes are checked, the place must still fit.
    pub(super) fn restart_in_place(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(carried) = self.carried(index).cloned() else { return self.queue_up(core, index) };
        let every = self.options.restarts_in_place.expect("only then is a claim carried for a restart");
        let heard = |node| core.fleet.node(node).status.state == NodeState::Ready && core.has_heartbeats(node);
        if !carried.placement.claims().iter().all(|claim| heard(claim.node)) {
            let version = core.store[index].version;
            let at = next_tick(core.now.saturating_add(SimDuration::from_nanos(1)), every);
            core.timers.set(at, Timer::RetryDue { replica: index, version });
            return;
        }
        self.release_carried(core, index);
        let demand = core.store.demand_of(index);
        // The place no longer fits, because a part of it has failed or something else has taken it. This counts as a
        // lost node, so the replica is placed again.
        let is_checked = self.options.writes == Writes::Checked;
        if is_checked && !core.still_fits(index, demand, &core.fleet, &carried.placement) {
            self.delete_row(core, index);
            self.forget_failures(core, index);
            return self.queue_up(core, index);
        }
        core.examine_if_watched(index, |_| None);
        let replica = &mut core.store[index];
        (replica.wait, replica.held) = (Wait::Scan, None);
        replica.last_restart = Some(core.now);
        self.place(core, index, Candidate { placement: carried.placement, score: Score::ZERO });
        self.row_changed(core, index);
    }
}

/// The first multiple of `every` that is not before `at`.
fn next_tick(at: SimTime, every: SimDuration) -> SimTime {
    let ticks = at.as_nanos().div_ceil(every.as_nanos());
    SimTime::ZERO.saturating_add(every.saturating_mul(ticks))
}
