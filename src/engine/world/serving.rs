//! How the attempts of services for language models stand, for the router of each service.

use super::World;
use crate::rehearsal::Rehearsal;
use crate::serving::{Limits, Standing};
use dryrack_event::Input;
use dryrack_ids::{AttemptId, JobId};
use dryrack_units::SimTime;

impl World<'_> {
    pub(super) fn limits(rehearsal: &Rehearsal) -> Limits {
        Limits { warm_up: rehearsal.warm_up, until: rehearsal.until }
    }

    /// Tells the services which of their replicas serve, if this may have changed.
    #[inline]
    pub(super) fn follow_replicas(&mut self, now: SimTime) {
        if !self.services.may_have_changed() {
            return;
        }
        let (limits, attempts, nodes) = (World::limits(self.rehearsal), &self.attempts, &self.nodes);
        self.services.follow(&mut self.queue, now, limits, |attempt| {
            let Some(known) = attempts.get(&attempt).filter(|known| known.alive) else { return Standing::Over };
            let claims = known.placement.as_ref().map_or(&[][..], |placement| placement.claims());
            if claims.iter().any(|claim| nodes[claim.node.index()].is_out_of_reach()) {
                Standing::Unreached
            } else if known.stops_at.is_some() {
                Standing::Drains
            } else {
                Standing::Serves
            }
        });
    }

    /// Stops an attempt. If it is a replica, it gets no more requests.
    pub(super) fn stop_and_drain(&mut self, now: SimTime, attempt: AttemptId) {
        self.stop(now, attempt);
        self.services.is_touched = true;
        self.follow_replicas(now);
    }

    pub(super) fn report_service(&mut self, now: SimTime, job: JobId, inputs: &mut Vec<Input>) {
        let limits = World::limits(self.rehearsal);
        inputs.extend(self.services.report(&mut self.queue, job, now, limits));
    }
}
