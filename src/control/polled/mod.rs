//! The polled flow: jobs are runs of nodes, and loops poll their records at intervals.
//!
//! Each node of a run is a replica in the control plane's store, with its own claim and lifecycle. The run has a record
//! beside its nodes. A fact about a node is recorded at once, but takes effect only when a loop polls the node's
//! record. There are four loops, over submitted nodes, running nodes, terminating nodes, and runs. A loop first lists
//! the records that are due and clears their flags. Then it polls one record after the other. A record that becomes
//! due meanwhile waits for the next round. Under `loops: ideal`, a record is polled as soon as something changes,
//! until nothing changes any more.
//!
//! The rules come from the source of dstack 0.22.5 and are checked against its recorded sequences. States and edges are
//! in [`dryrack_lifecycle`].

mod clock;
#[cfg(test)]
mod clock_tests;
mod facts;
mod options;
mod rows;
mod running;
mod runs;
mod services;
mod submitted;
mod terminating;
mod view;

pub use options::{
    Assignment, BeginRule, GangRule, Loops, NoCapacityRule, Pause, PlacelessRule, PolledLoops, PrepareRule,
    ReleaseRule, ReplicaRetryRule, Rounds, RunningLoop, RunsLoop, RunsOptions, SubmittedLoop, TerminatingLoop,
    UncountedRule,
};
pub(super) use rows::Polled;
pub use view::{MemberStanding, RunStanding};

use std::sync::Arc;

use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::flow::{Due, Flow, RefusedJob};
use crate::polled::submitted::part;
use clock::LoopKind;
use dryrack_event::{Lifecycle, Outcome, Phase, Reason};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_lifecycle::{MemberState, WholeState, take_member_edge, take_whole_edge};
use dryrack_scheduler::GangPart;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::Demand;

impl Flow for Polled {
    /// Not used: nodes of runs wait in their records, where a loop finds them.
    fn queue_up(&mut self, _core: &mut Core, _index: ReplicaIndex) {
        panic!("a loop looks for what waits");
    }

    fn settle(&mut self, core: &mut Core) {
        self.at(core).poll_due(core);
    }

    fn next_due(&mut self, core: &mut Core) -> Option<Due> {
        self.next_poll(core)
    }

    /// Asserts that data stored in two places agrees, and that a loop can find every waiting record.
    fn check(&self, core: &Core) {
        self.assert_runs(core);
    }

    fn check_nothing_waits_in_vain(&self, core: &Core) {
        self.assert_no_run_waits_in_vain(core);
    }

    fn submitted(&mut self, core: &mut Core, job: JobId, refused: Option<RefusedJob>) {
        self.at(core).submit_run(core, job, refused.map(|refused| refused.held));
    }

    fn fact(&mut self, core: &mut Core, index: ReplicaIndex, attempt: AttemptId, fact: Lifecycle) {
        match core.store[index].is_at(attempt) {
            true => self.at(core).record_fact(core, index, fact),
            false => core.late_fact(attempt, fact),
        }
    }

    fn cancelled(&mut self, core: &mut Core, job: JobId, because: Reason) {
        self.at(core).cancel_run(job, because);
    }

    fn freed(&mut self, core: &mut Core, job: JobId, replicas: Vec<ReplicaIndex>) {
        self.at(core).free_run(core, job, &replicas);
    }

    fn scale(&mut self, core: &mut Core, job: JobId, wanted: u32) {
        self.at(core).scale_run(core, job, wanted);
    }

    fn requests_counted(&mut self, core: &mut Core, job: JobId, requests: u64) {
        self.at(core).count_requests(core, job, requests);
    }

    fn stop(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        self.at(core).member_unwanted(core, index, outcome, because);
    }

    fn has_stopped(&self, index: ReplicaIndex) -> bool {
        let member = &self.members[index as usize];
        member.over || !member.asked
    }

    fn phase_timed_out(&mut self, core: &mut Core, index: ReplicaIndex, phase: Phase) {
        self.at(core).too_long(index, phase);
    }

    fn node_lost(&mut self, core: &mut Core, index: ReplicaIndex, _node: NodeId) {
        self.at(core).member_lost(index);
    }

    fn instance_is_up(&mut self, core: &mut Core, node: NodeId) {
        self.at(core).wake_on(core, node);
    }

    fn attempt_ended(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        _ending: (Outcome, Reason),
        _ran: SimDuration,
        _again: bool,
    ) {
        self.at(core).member_ended(core, index);
    }

    /// Releases of dstack up to 0.21.0 lose track of claims that are released.
    fn leaks_claims(&self) -> bool {
        self.options.release == ReleaseRule::LastOfRound
    }

    fn requests_instances(&self) -> bool {
        true
    }

    fn part_of(&self, core: &Core, index: ReplicaIndex) -> Option<(Arc<Demand>, GangPart)> {
        Some(part(core, index, self.siblings(index), self.places_whole()))
    }

    fn first_gang_part(&self, demand: &Demand) -> GangPart {
        let one_by_one = !self.places_whole() && demand.requirements().is_some();
        if one_by_one { GangPart::Node { master: None } } else { GangPart::Whole }
    }
}

impl Polled {
    /// Sets the time of this flow to the time of the core.
    pub(crate) fn at(&mut self, core: &Core) -> &mut Polled {
        self.now = core.now;
        self
    }

    /// Makes the loops poll records in every round, even if a poll would change nothing. A caller that steps through
    /// each round needs this.
    pub(crate) fn poll_in_rounds(&mut self) {
        self.in_rounds = true;
    }

    /// Polls all records that are due.
    fn poll_due(&mut self, core: &mut Core) {
        self.unpark(core);
        let now = core.now;
        // With loops, one round is enough. Without loops, a changed record is polled again until nothing changes.
        // Each poll changes something or is the last poll of its record, so the number of rounds is bounded.
        let enough = 1000 + 64 * (self.members.len() + self.runs.len());
        for rounds in 0.. {
            assert!(rounds < enough, "polls of runs go on for ever at {now}: {:?}", self.next_poll(core));
            let mut polled = false;
            for kind in LoopKind::ALL {
                let of_all = self.in_rounds;
                if self.clocks[kind as usize].runs_at(now, of_all) {
                    self.poll(core, kind);
                    polled = true;
                }
            }
            if !polled || !self.is_ideal() {
                break;
            }
            self.unpark(core);
        }
        self.unpark(core);
    }

    fn next_poll(&self, core: &Core) -> Option<(SimTime, &'static str)> {
        LoopKind::ALL
            .into_iter()
            .filter_map(|kind| Some((self.clocks[kind as usize].next(core.now)?, kind.reason())))
            .min()
    }

    fn poll(&mut self, core: &mut Core, kind: LoopKind) {
        let now = core.now;
        let mut rows = self.clocks[kind as usize].poll(now);
        match kind {
            LoopKind::Runs => rows.sort_by_key(|row| {
                let run = &self.runs[*row as usize];
                (run.processed, run.turn)
            }),
            LoopKind::Submitted => rows.sort_by_key(|row| {
                let member = &self.members[*row as usize];
                (core.store[*row].key.priority(), member.processed, member.turn, member.created)
            }),
            LoopKind::Running | LoopKind::Terminating => rows.sort_by_key(|row| {
                let member = &self.members[*row as usize];
                (member.processed, member.turn, member.created)
            }),
        }
        rows.truncate(self.clocks[kind as usize].batch());
        for row in &rows {
            match kind {
                LoopKind::Runs => self.run(JobId::new(*row as usize)).flagged = false,
                LoopKind::Submitted | LoopKind::Running | LoopKind::Terminating => self.member(*row).flagged = false,
            }
        }
        rows.reverse();
        self.rest = rows;
        while let Some(row) = self.rest.pop() {
            match kind {
                LoopKind::Runs => self.poll_run(core, JobId::new(row as usize)),
                LoopKind::Submitted => self.poll_submitted(core, row),
                LoopKind::Running => self.poll_running(core, row),
                LoopKind::Terminating => self.poll_terminating(core, row),
            }
        }
    }

    /// Makes parked nodes due again once the fleet has grown. These nodes keep their turn while they wait for capacity.
    fn unpark(&mut self, core: &mut Core) {
        let growth = core.growth();
        if self.growth != growth {
            self.growth = growth;
            let parked: Vec<ReplicaIndex> = self.parked.iter().copied().collect();
            parked.into_iter().for_each(|index| self.index_member(index));
        }
    }

    /// Notes that a loop has polled the record.
    fn processed(&mut self, core: &mut Core, index: ReplicaIndex) {
        let now = core.now;
        let turn = self.next_turn();
        let member = self.member(index);
        (member.processed, member.turn, member.fresh) = (now, turn, false);
        self.index_member(index);
    }

    /// Moves a node along one edge of its states. If the phase of the replica changes too, moves the replica as well.
    fn advance(&mut self, core: &mut Core, index: ReplicaIndex, to: MemberState, because: Option<Reason>) {
        let ideal = self.is_ideal();
        let member = self.member(index);
        let (from, job) = (member.state, member.run);
        take_member_edge(from, to);
        member.state = to;
        member.flagged |= ideal;
        let replica = &core.store[index];
        let phase = to.phase(replica.placement.is_some());
        // Placement and end have events of their own.
        if replica.phase != phase && !matches!(phase, Phase::Scheduled | Phase::Ended) {
            self.enter(core, index, phase, because);
        }
        self.note_member_changed(job);
        self.index_member(index);
    }

    /// Notes for a run, and for those of its nodes that wait for others, that one of its nodes has changed. Without
    /// loops, this takes effect at once.
    fn note_member_changed(&mut self, job: JobId) {
        let ideal = self.is_ideal();
        let run = self.run(job);
        run.changed = true;
        run.flagged |= ideal && run.state != WholeState::Ended;
        self.index_run(job);
        for group in 0..self.run(job).groups.len() {
            let members = self.run(job).groups[group].members.clone();
            // No node may begin before all nodes can, and a node that is already due stays due. So each node is marked
            // once for a change, not once for each of the other nodes.
            let all_can = self.are_ready(&members) || self.options.placeless == PlacelessRule::Raises;
            for index in members {
                let member = self.member(index);
                match member.state {
                    MemberState::Pulling if all_can && (!member.lively || (ideal && !member.flagged)) => {
                        member.flagged |= ideal;
                        self.index_member(index);
                    }
                    MemberState::Provisioning if !member.lively || (ideal && !member.flagged) => {
                        member.flagged |= ideal;
                        self.index_member(index);
                    }
                    MemberState::Submitted => self.index_member(index),
                    MemberState::Waiting
                    | MemberState::Assigned
                    | MemberState::Provisioning
                    | MemberState::Pulling
                    | MemberState::Running
                    | MemberState::Terminating
                    | MemberState::Draining
                    | MemberState::Ended => {}
                }
            }
        }
    }

    fn flag(&mut self, index: ReplicaIndex) {
        self.member(index).flagged = true;
        self.index_member(index);
    }

    fn flag_run(&mut self, job: JobId) {
        self.run(job).flagged = true;
        self.index_run(job);
    }

    /// Moves a run along one edge of its states.
    fn advance_run(&mut self, job: JobId, to: WholeState) {
        let ideal = self.is_ideal();
        let run = self.run(job);
        take_whole_edge(run.state, to);
        run.state = to;
        run.changed = true;
        run.flagged |= ideal;
        self.index_run(job);
        // The state of the run decides whether loops poll its nodes.
        for index in self.members_of(job) {
            self.index_member(index);
        }
    }

    /// Ends a node of a run. The following polls terminate it.
    fn terminate(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let member = self.member(index);
        assert!(member.state.is_live(), "what is not live is terminating already");
        member.ending = Some((outcome, because));
        member.parked = None;
        self.unlist(index);
        if core.store[index].placement.is_some() {
            core.store[index].stopping = Some((outcome, because));
        }
        self.advance(core, index, MemberState::Terminating, Some(because));
    }
}
