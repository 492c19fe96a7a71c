//! Claims that are kept after their run has ended, because a node cannot confirm the stop or is still completing the
//! run.

use super::Core;
use super::timer::Timer;
use crate::attempts::STOPS_ASKED_FOR;
use dryrack_event::{Command, Event, Lifecycle};
use dryrack_fleet::{NodeState, Placement};
use dryrack_ids::{NodeId, RunId};

impl Core {
    /// Asks runs with kept claims on a node to stop again, once the node's heartbeats arrive again.
    pub(super) fn expect_stops_on(&mut self, node: NodeId) {
        let touches = |(_, kept): &(&RunId, &Placement)| kept.touches(node);
        let kept: Vec<RunId> = self.kept_claims.iter().filter(touches).map(|(run, _)| *run).collect();
        kept.into_iter().for_each(|run| self.expect_stop(run, STOPS_ASKED_FOR));
    }

    /// Frees all kept claims on a node that is gone.
    pub(crate) fn forget_kept_claims(&mut self, node: NodeId) {
        let touches = |(_, kept): &(&RunId, &Placement)| kept.touches(node);
        let touching: Vec<RunId> = self.kept_claims.iter().filter(touches).map(|(run, _)| *run).collect();
        for run in touching {
            self.free_kept(run, |other| other == node);
        }
    }

    /// Frees the kept claims of an ended run on those nodes for which `is_free` holds.
    pub(crate) fn free_kept(&mut self, run: RunId, is_free: impl Fn(NodeId) -> bool) {
        let Some(kept) = self.kept_claims.remove(&run) else { return };
        let (free, remains) = kept.split(is_free);
        for claim in free.claims() {
            self.release_claim(run, claim);
            self.emit(Event::ClaimFreed { run, node: claim.node });
            self.instance_released(claim.node);
        }
        match remains.is_empty() {
            true => {
                self.note_asking(run, true);
                self.job_is_over(run.job);
            }
            false => drop(self.kept_claims.insert(run, remains)),
        }
    }

    pub(crate) fn late_fact(&mut self, run: RunId, fact: Lifecycle) {
        if self.carried.contains(&run) {
            return;
        }
        if fact.is_end() {
            self.free_kept(run, |_| true);
        } else if let Lifecycle::StoppedOn { node } = fact {
            self.free_kept(run, |other| other == node);
        }
    }

    /// Sets a timer to ask a run to stop again, because the message that it has stopped may have been lost.
    pub(crate) fn expect_stop(&mut self, run: RunId, left: u8) {
        let at = self.now.saturating_add(self.profile.deadlines.stopping);
        self.timers.set(at, Timer::StopAgain { run, left });
        self.note_asking(run, true);
    }

    /// Asks a run to stop again, if one of its nodes is ready to answer. A silent node is asked when it returns.
    pub(crate) fn stop_again(&mut self, run: RunId, left: u8) {
        let is_ready = |node: NodeId| self.fleet.node(node).status.state == NodeState::Ready;
        if !self.kept_claims[&run].claims().iter().any(|claim| is_ready(claim.node)) {
            return;
        }
        self.command(Command::Stop { run });
        match left > 1 {
            true => self.expect_stop(run, left - 1),
            false => self.note_asking(run, false),
        }
    }

    /// Kept claims of ended runs that become free once their nodes confirm the end.
    pub(crate) fn awaited_claims(&self) -> impl Iterator<Item = &Placement> {
        self.kept_claims.iter().filter(|(run, _)| !self.given_up.contains(run)).map(|(_, kept)| kept)
    }

    /// Records whether the control plane still asks the nodes of an ended run about its kept claims.
    fn note_asking(&mut self, run: RunId, is_asked_about: bool) {
        let has_changed = match is_asked_about {
            true => self.given_up.remove(&run),
            false => self.given_up.insert(run),
        };
        if has_changed {
            self.fleet.ask_again();
        }
    }

    /// Asserts that no claim is kept on a ready node. Such a node has had enough time to confirm that the run has
    /// stopped.
    pub(crate) fn check_kept_claims(&self) {
        for (run, kept) in self.kept_claims.iter().filter(|(run, _)| !self.carried.contains(run)) {
            for claim in kept.claims() {
                let state = self.fleet.node(claim.node).status.state;
                assert_ne!(state, NodeState::Ready, "{run} has ended, and its node could long have said so");
            }
        }
    }
}
